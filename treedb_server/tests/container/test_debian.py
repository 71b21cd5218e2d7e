"""The Debian package of packaging/, installed by dpkg into a root file system of Debian 12, without a daemon: run, upgraded, removed, purged."""
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import time

import pytest

from image import CACHE, ROOT, debian, run

RELEASE = pathlib.Path("/etc/os-release").read_text() if os.path.exists("/etc/os-release") else ""
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="installing a package into a root file system needs root"),
    pytest.mark.skipif(not re.search(r'^VERSION_ID="12"$', RELEASE, re.M) or "ID=debian" not in RELEASE,
                       reason="the executable is linked with this machine's C library: the package is tested on Debian 12"),
    pytest.mark.skipif(shutil.which("dpkg-deb") is None or shutil.which("objdump") is None, reason="needs dpkg-deb and binutils"),
]
CONFIG = "etc/treedb/treedb.toml"
#: What a later version has added to its configuration, and what an administrator has.
NEWER, OWN = "\n# A line of the next version.\n", '\n# Ours.\nslow_millis = "250ms"\n'


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The package, and the same as a later version whose packaged configuration is another."""
    folder = tmp_path_factory.mktemp("packages")
    # Not compressed: that would take longer than the rest.
    run(ROOT / "packaging/debian.sh", os.environ["TREEDB_BIN"], folder, "-Znone")
    package, = folder.glob("treedb_*.deb")
    content = folder / "later"
    run("dpkg-deb", "--raw-extract", package, content)
    control = content / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", "Version: 99.0", control.read_text(), flags=re.M))
    with (content / CONFIG).open("a") as config:
        config.write(NEWER)
    later = folder / "later.deb"
    run("dpkg-deb", "--root-owner-group", "-Znone", "--build", content, later)
    shutil.rmtree(content)
    return package, later


class Machine:
    """A root file system in which packages are installed, and the server that runs in it."""

    def __init__(self, root):
        CACHE.mkdir(parents=True, exist_ok=True)
        self.root, self.server, self.log = root, None, root.parent / "server.log"
        run("cp", "-a", debian("bookworm"), root)

    def inside(self, *command):
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        return run("chroot", self.root, *command, env=env)

    def install(self, package):
        shutil.copy(package, self.root / "treedb.deb")
        # As unattended upgrades do: a configuration that was changed stays.
        return self.inside("dpkg", "--force-confold", "--install", "/treedb.deb")

    def about(self, path):
        """Owner, group and mode."""
        at = (self.root / path).stat()
        return at.st_uid, at.st_gid, stat.S_IMODE(at.st_mode)

    def user(self):
        """User and group id of the server's user, in this root file system."""
        _, _, uid, gid, _, home, shell = self.inside("getent", "passwd", "treedb").strip().split(":")
        return int(uid), int(gid), home, shell

    def start(self):
        """What the unit starts, as the user that it names, in a network of its own."""
        unit = (self.root / "lib/systemd/system/treedb.service").read_text()
        setting = dict(line.split("=", 1) for line in unit.splitlines() if re.match(r"\w+=", line))
        script = 'ip link set lo up; exec chroot --userspec="$1" "$2" $3'
        # A pipe that nobody reads would be full at some time.
        with self.log.open("w") as log:
            self.server = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", script, "sh", f"{setting['User']}:{setting['Group']}", self.root, setting["ExecStart"]],
                env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 60
        while (done := self.ask("client.admin.command('ping')")).returncode != 0:
            assert self.server.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, done.stderr
            time.sleep(0.2)

    def ask(self, script):
        """Runs a script with a driver, which connects where the packaged configuration says."""
        program = f"import pymongo\nclient = pymongo.MongoClient('mongodb://127.0.0.1:27017', serverSelectionTimeoutMS=2000)\n{script}\n"
        return subprocess.run(["nsenter", "--target", str(self.server.pid), "--net", sys.executable, "-c", program],
                              capture_output=True, text=True, timeout=60)

    def told(self, script):
        done = self.ask(script)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def stop(self):
        """As systemd stops it."""
        server, self.server = self.server, None
        server.send_signal(signal.SIGTERM)
        try:
            assert server.wait(timeout=60) == 0, self.log.read_text()
        finally:
            server.kill()
            server.wait()

    def kill(self):
        if self.server is not None and self.server.poll() is None:
            self.server.kill()
            self.server.wait()


@pytest.fixture
def machine(tmp_path):
    machine, root = None, tmp_path / "root"
    try:
        machine = Machine(root)
        yield machine
    finally:
        if machine is not None:
            machine.kill()
        shutil.rmtree(root, ignore_errors=True)


def test_an_installed_package_has_its_user_files_and_unit_and_its_server_runs(packages, machine):
    machine.install(packages[0])
    assert "ok installed" in machine.inside("dpkg-query", "--show", "--showformat=${Status}", "treedb")
    assert machine.inside("dpkg", "--verify", "treedb") == "", "all files are as the package has them"
    for path, mode in [("usr/bin/treedb", 0o755), (CONFIG, 0o644), ("lib/systemd/system/treedb.service", 0o644)]:
        assert machine.about(path) == (0, 0, mode), path
    uid, gid, home, shell = machine.user()
    assert 0 < uid < 1000 and home == "/var/lib/treedb" and shell.endswith("nologin")
    assert machine.about("var/lib/treedb") == (uid, gid, 0o700)
    assert machine.inside("/usr/bin/treedb", "serve", "--config", f"/{CONFIG}", "--check-config") == "the configuration is valid\n"
    machine.start()
    status = pathlib.Path(f"/proc/{machine.server.pid}/status").read_text()
    assert re.search(rf"^Uid:\s+{uid}\s+{uid}", status, re.M)
    assert machine.told("print(client.shop.items.insert_one({'_id': 1}).inserted_id)") == "1"
    machine.stop()
    files = [at for at in (machine.root / "var/lib/treedb").rglob("*") if at.is_file()]
    assert files and {at.stat().st_uid for at in files} == {uid}


def test_an_upgrade_keeps_the_data_the_user_and_a_configuration_that_was_changed(packages, machine):
    first, later = packages
    machine.install(first)
    user = machine.user()
    machine.start()
    machine.told("client.shop.items.insert_many([{'_id': i} for i in range(100)])")
    machine.stop()
    with (machine.root / CONFIG).open("a") as config:
        config.write(OWN)
    changed = (machine.root / CONFIG).read_text()
    machine.install(later)
    assert machine.inside("dpkg-query", "--show", "--showformat=${Version}", "treedb") == "99.0"
    assert (machine.root / CONFIG).read_text() == changed and NEWER in (machine.root / f"{CONFIG}.dpkg-dist").read_text()
    assert machine.user() == user and machine.about("var/lib/treedb") == (*user[:2], 0o700)
    machine.start()
    assert machine.told("print(client.shop.items.count_documents({}), client.admin.command('profile', -1)['slowms'])") == "100 250"
    machine.stop()


def test_an_upgrade_replaces_a_configuration_that_nobody_has_changed(packages, machine):
    first, later = packages
    machine.install(first)
    machine.install(later)
    assert (machine.root / CONFIG).read_text().endswith(NEWER)


def test_what_is_removed_can_be_installed_again_and_what_is_purged_leaves_the_database_alone(packages, machine):
    package = packages[0]
    machine.install(package)
    machine.start()
    machine.told("client.shop.items.insert_one({'_id': 1})")
    machine.stop()
    with (machine.root / CONFIG).open("a") as config:
        config.write(OWN)
    machine.inside("dpkg", "--remove", "treedb")
    gone = ["usr/bin/treedb", "lib/systemd/system/treedb.service", "usr/share/doc/treedb"]
    assert not any((machine.root / path).exists() for path in gone)
    assert OWN in (machine.root / CONFIG).read_text()
    machine.install(package)
    assert OWN in (machine.root / CONFIG).read_text()
    machine.start()
    assert machine.told("print(client.shop.items.count_documents({}))") == "1"
    machine.stop()
    uid, gid, *_ = machine.user()
    machine.inside("dpkg", "--purge", "treedb")
    assert not any((machine.root / path).exists() for path in [*gone, "etc/treedb"])
    assert machine.inside("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\n").find("treedb") == -1
    # It is for its owner to delete, who stays too: or another user would get its number, and the database.
    assert machine.about("var/lib/treedb") == (uid, gid, 0o700) and any((machine.root / "var/lib/treedb").iterdir())
    assert machine.user()[:2] == (uid, gid)
