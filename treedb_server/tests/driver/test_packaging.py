"""The systemd protocol and unit, and the Debian package."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess

import pytest

import server as servers

ROOT = pathlib.Path(__file__).resolve().parents[3]
UNIT = ROOT / "packaging/systemd/treedb.service"


def told(receiver):
    return dict(line.split("=", 1) for line in receiver.recv(4096).decode().splitlines())


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told_when_the_server_is_ready_and_when_it_stops(tmp_path, monkeypatch, abstract):
    name = f"treedb-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}" if abstract else name)
        receiver.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if abstract else name)
        server = servers.Server(tmp_path / "data")
        ready = told(receiver)
        assert ready["READY"] == "1" and ready["MAINPID"] == str(server.process.pid)
        host, port = server.addresses["mongo"]
        assert f"mongo on {host}:{port}" in ready["STATUS"]
        with server.client() as client:
            client.shop.films.insert_one({})
        server.process.send_signal(signal.SIGTERM)
        assert told(receiver)["STOPPING"] == "1"
        # A second signal would end it at once.
        assert server.process.wait(timeout=20) == 0
        server.stop()


def test_a_server_starts_without_a_service_manager_that_listens(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    server = servers.Server(tmp_path / "data")
    with server.client() as client:
        client.admin.command("ping")
    assert server.stop() == 0
    assert any("NOTIFY_SOCKET" in line for line in server.log)


def test_the_unit_starts_what_the_package_installs():
    unit = UNIT.read_text()
    assert "Type=notify\n" in unit and "User=treedb\n" in unit
    assert "ExecStart=/usr/bin/treedb serve --config /etc/treedb/treedb.toml\n" in unit
    assert "StateDirectory=treedb\n" in unit and 'dir = "/var/lib/treedb"' in (ROOT / "packaging/treedb.toml").read_text()


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="no dpkg-deb")
def test_the_debian_package_has_everything_and_its_binary_runs(tmp_path):
    # Not compressed: that would take longer than the rest.
    built = subprocess.run([ROOT / "packaging/debian.sh", servers.BIN, tmp_path, "-Znone"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    package, = tmp_path.glob("treedb_*.deb")
    listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
    files = {line.split()[-1]: line.split()[:2] for line in listed.splitlines()}
    for name, mode in {
        "./usr/bin/treedb": "-rwxr-xr-x",
        "./etc/treedb/treedb.toml": "-rw-r--r--",
        "./lib/systemd/system/treedb.service": "-rw-r--r--",
        "./usr/share/doc/treedb/copyright": "-rw-r--r--",
        "./usr/share/doc/treedb/grafana.json": "-rw-r--r--",
        "./usr/share/doc/treedb/operations.md": "-rw-r--r--",
        "./usr/share/doc/treedb/treedb.rules.yml": "-rw-r--r--",
    }.items():
        assert files[name] == [mode, "root/root"], name
    info = subprocess.run(["dpkg-deb", "--info", package], capture_output=True, text=True, check=True).stdout
    for part in ("Package: treedb", "libc6 (>= ", "conffiles", "postinst", "prerm", "postrm"):
        assert part in info, info
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    control = tmp_path / "control"
    subprocess.run(["dpkg-deb", "--control", package, control], check=True)
    for script in ("postinst", "prerm", "postrm"):
        subprocess.run(["sh", "-n", control / script], check=True)
    config = root / "etc/treedb/treedb.toml"
    checked = subprocess.run([root / "usr/bin/treedb", "serve", "--config", config, "--check-config"],
                             capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "the configuration is valid\n"), checked.stderr
