"""The executable that is linked statically, by scripts/static.sh: it needs nothing that a system has."""
import os
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "driver"))
from server import Server  # noqa: E402


@pytest.fixture(scope="session")
def binary():
    return pathlib.Path(os.environ["TREEDB_STATIC_BIN"])


def needed(binary):
    """The interpreter and the libraries that the system has to load with an executable."""
    shown = subprocess.run(["readelf", "--wide", "--program-headers", "--dynamic", binary], capture_output=True, text=True, check=True)
    return [line.split()[-1] for line in shown.stdout.splitlines() if "(NEEDED)" in line or "program interpreter" in line]


@pytest.fixture
def empty(binary, tmp_path):
    """A root file system with the executable, a directory for data and the devices of random numbers, and with no other file."""
    root = tmp_path / "root"
    (root / "data").mkdir(parents=True)
    (root / "dev").mkdir()
    for name, minor in [("random", 8), ("urandom", 9)]:
        os.mknod(root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
    shutil.copy(binary, root / "treedb")
    return root


def inside(root):
    assert os.geteuid() == 0, "changing the root directory needs root"
    return ("chroot", str(root), "/treedb")


def test_it_needs_no_interpreter_and_no_libraries(binary):
    assert needed(binary) == []
    assert len(needed(os.environ["TREEDB_BIN"])) >= 2
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True, env={})
    assert version.stdout.startswith("treedb ")


def test_it_serves_a_driver_in_a_root_file_system_without_files(empty):
    server = Server(pathlib.Path("/data"), command=inside(empty))
    with server.client() as client:
        films = client.shop.films
        films.insert_many([{"_id": i, "year": 1950 + i % 70, "title": f"Å film {i}"} for i in range(3000)])
        films.create_index("year")
        assert [film["_id"] for film in films.find({"year": 1960}).sort("_id", 1)] == list(range(10, 3000, 70))
        # Rules of languages and of time zones are part of it; what memory does not hold goes beside the data.
        assert films.find_one({"title": "a FILM 7"}, collation={"locale": "en", "strength": 1})["_id"] == 7
        day, = client.shop.aggregate([{"$documents": [{}]}, {"$project": {"_id": 0, "at": {"$dateToString": {
            "date": {"$toDate": "2024-07-01T00:00:00Z"}, "timezone": "Europe/Oslo"}}}}])
        assert day["at"].startswith("2024-07-01T02:00")
        assert len(list(films.aggregate([{"$sort": {"title": -1}}], allowDiskUse=True))) == 3000
    assert server.stop() == 0
    checked = subprocess.run([*inside(empty), "check", "--dir", "/data"], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    assert sorted(entry.name for entry in empty.iterdir()) == ["data", "dev", "treedb"]


def test_it_resolves_names_of_hosts_without_the_modules_of_the_system(binary, empty, tmp_path):
    server = Server(tmp_path / "here", admin="localhost:0", command=(binary,))
    assert server.addresses["admin"][0] == "127.0.0.1"
    found = subprocess.run([binary, "shell", f"mongodb://localhost:{server.addresses['mongo'][1]}/",
                            "--eval", "db.runCommand({ping: 1})"], capture_output=True, text=True, timeout=30)
    assert (found.returncode, found.stdout) == (0, "ok\n"), found.stderr
    assert server.stop() == 0
    # In another system, whose modules it does not have.
    (empty / "etc").mkdir()
    (empty / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.0.1 db.example\n")
    (empty / "etc/nsswitch.conf").write_text("hosts: mymachines resolve [!UNAVAIL=return] myhostname\n")
    server = Server(pathlib.Path("/data"), admin="db.example:0", command=inside(empty))
    assert server.addresses["admin"][0] == "127.0.0.1"
    assert server.stop() == 0
