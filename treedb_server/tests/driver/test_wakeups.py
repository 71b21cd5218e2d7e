"""How often a thread of the server has to be woken for a read: at most once, and far less often if requests arrive together.

Counted are voluntary context switches of all its threads: each is a thread that waits, and so one that has to be woken. What the machine does besides
can only add to them, so the least of several rounds counts.
"""
import pathlib
import sys

import pytest
from bson import encode

from server import Server
from wire import Wire

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"))

import treedb  # noqa: E402
from treedb.messages import ANSWER, HEADER, Op, text  # noqa: E402

ROUNDS, READS = 5, 2_000
# One a read, and some for what the server does besides.
ONE = 1.2


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("wakeups") / "data", native=True)
    with server.client() as client:
        client.shop.films.insert_many([{"_id": i, "title": f"film {i}"} for i in range(100)])
    yield server
    assert server.stop() == 0


@pytest.fixture
def db(server):
    host, port = server.addresses["native"]
    with treedb.connect(f"{host}:{port}", timeout=30) as db:
        yield db


def switches(server):
    """Voluntary context switches so far, by thread."""
    counted = {}
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            # It has ended.
            continue
        counted[task.name] = next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return counted


def wakeups(server, read):
    """Wake-ups for each of the reads that a call of `read` does, of which it returns the number."""
    # The connection gets a thread of its own when it is seen to be used.
    read()
    found = []
    for _ in range(ROUNDS):
        before, reads = switches(server), 0
        while reads < READS:
            reads += read()
        after = switches(server)
        # A thread for each read would end before it is counted.
        assert len(after.keys() ^ before.keys()) < reads / 100
        found.append(sum(count - before.get(thread, 0) for thread, count in after.items()) / reads)
    print(f"wake-ups a read: {', '.join(f'{count:.3f}' for count in found)}")
    return min(found)


FIND = {"find": "films", "filter": {"_id": 7}, "limit": 1, "singleBatch": True, "$db": "shop"}


@pytest.mark.parametrize("connections", [1, 8])
def test_a_find_wakes_one_thread_at_most(server, connections):
    wires = [Wire(server) for _ in range(connections)]

    def read():
        for wire in wires:
            wire.msg(b"\0" + encode(FIND))
        for wire in wires:
            assert wire.reply()["cursor"]["firstBatch"] == [{"_id": 7, "title": "film 7"}]
        return connections

    least = wakeups(server, read)
    for wire in wires:
        wire.socket.close()
    assert least <= ONE, least


def test_pymongo_wakes_one_thread_at_most(server):
    with server.client() as client:
        films = client.shop.films

        def read():
            assert films.find_one({"_id": 7})
            return 1

        assert wakeups(server, read) <= ONE


def test_a_native_get_wakes_one_thread_at_most(server, db):
    films = db["shop.films"]
    get = films.prepare_get()

    def read():
        assert films.get(7) and get(8)
        return 2

    assert wakeups(server, read) <= ONE


TOGETHER = 32


def test_native_gets_that_arrive_together_wake_a_thread_far_less_often_than_once_each(server, db):
    connection = db.connection
    body = text("shop.films") + encode({"_id": 7})
    frames = b"".join(HEADER.pack(len(body), Op.GET, 0, 1_000 + n) + body for n in range(TOGETHER))
    found = b"\1" + encode({"_id": 7, "title": "film 7"})

    def read():
        connection.socket.sendall(frames)
        for _ in range(TOGETHER):
            length, opcode, flags, _ = HEADER.unpack(connection.take(HEADER.size))
            assert (opcode, flags) == (Op.GET | ANSWER, 0) and connection.take(length) == found
        return TOGETHER

    assert wakeups(server, read) <= 0.2
