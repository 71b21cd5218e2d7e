"""What runs out on the server's machine: the disk, file descriptors."""
import pathlib
import random
import socket
import subprocess

import pytest
from pymongo.errors import OperationFailure

from server import BIN, Server


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 MiB, and a function that gives it another size."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True, text=True)
    assert mounted.returncode == 0, f"mounting a small file system needs root: {mounted.stderr}"
    yield folder, lambda size: subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("size, most", [(50_000, 3_000), (300, 200_000)], ids=["long values", "short ones"])
def test_on_a_full_disk_writes_are_refused_and_what_was_acknowledged_stays(small_disk, size, most):
    folder, resize = small_disk
    server = Server(folder / "data")
    acknowledged, refused = set(), []
    random_bytes = random.Random(size)
    batch = max(1, 30_000 // size)
    with server.client(retryWrites=False) as client:
        for first in range(0, most, batch):
            documents = [{"_id": first + i, "data": random_bytes.randbytes(size)} for i in range(batch)]
            try:
                client.db.c.insert_many(documents)
                acknowledged.update(each["_id"] for each in documents)
            except OperationFailure as error:
                refused.append(error)
                if len(refused) == 5:
                    break
        assert len(acknowledged) > 100 and len(refused) == 5
        assert {error.code for error in refused} == {14031}, refused
        # Reads go on.
        assert {each["_id"] for each in client.db.c.find({}, {"_id": 1})} >= acknowledged
    server.stop()
    assert not [line for line in server.log if "panic" in line]
    resize("512m")
    server = Server(folder / "data")
    with server.client() as client:
        found = {each["_id"] for each in client.db.c.find({}, {"_id": 1})}
        # Of those that were refused some may be there: it was not known whether they had reached the disk.
        assert acknowledged <= found and len(found - acknowledged) <= 5 * batch
        client.db.c.insert_many([{"text": "x" * 50_000} for _ in range(100)])
        assert client.db.command("validate", "c")["valid"]
    assert server.stop() == 0


def test_clients_cannot_take_the_file_descriptors_that_the_database_needs(tmp_path, monkeypatch):
    # Of 160, and the server wants 100 for itself.
    monkeypatch.setenv("TREEDB_TESTED", BIN)
    few = tmp_path / "few-files"
    few.write_text('#!/bin/sh\nulimit -n 160 && exec "$TREEDB_TESTED" "$@"\n')
    few.chmod(0o755)
    monkeypatch.setattr("server.BIN", str(few))
    server = Server(tmp_path / "data", "--max-connections", "1000", native=True)
    with server.client(maxPoolSize=2) as client:
        client.db.c.insert_one({"_id": 0})
        flood = [socket.create_connection(server.addresses[door], timeout=10) for door in ["mongo", "native"] * 150]
        # The database's files grow, and it needs new ones.
        for number in range(1, 400):
            client.db.c.insert_one({"_id": number, "text": "x" * 50_000})
        client.db.create_collection("another")
        assert client.db.c.count_documents({}) == 400
        assert len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir())) < 160
        for each in flood:
            each.close()
        with server.client() as other:
            assert other.db.c.count_documents({}) == 400
    assert server.stop() == 0
    assert any("not enough open files" in line for line in server.log)
    assert not [line for line in server.log if "panic" in line]
