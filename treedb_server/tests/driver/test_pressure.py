"""Slow peers, silent peers, peers that do not read, and needlessly large requests."""
import re
import resource
import socket
import struct
import time

import bson
import pytest
from pymongo.errors import CursorNotFound, OperationFailure

from server import Server
from wire import OP_MSG, PING, Wire, body


def metric(server, name):
    import urllib.request
    host, port = server.addresses["admin"]
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=5) as response:
        return int(re.search(rf"^{re.escape(name)} (\d+)", response.read().decode(), re.M)[1])


def seconds(work):
    began = time.monotonic()
    work()
    return time.monotonic() - began


def answers(server):
    with Wire(server) as wire:
        assert wire.command(PING)["ok"] == 1


@pytest.fixture
def impatient(tmp_path):
    """A server that waits a second for a stalled peer, or for an idle cursor."""
    server = Server(tmp_path, "--stall-seconds", "1", "--cursor-seconds", "1", admin=True, native=True)
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


def test_a_message_that_stops_half_way_is_given_up_and_an_idle_connection_is_not(impatient):
    idle = Wire(impatient)
    message = struct.pack("<iiiiI", 20 + len(body(PING)), 77, 0, OP_MSG, 0) + body(PING)
    stalled = [(cut, Wire(impatient)) for cut in (1, 8, 15, 16, 18, len(message) - 1)]
    began = time.monotonic()
    for cut, wire in stalled:
        wire.send(message[:cut])
    for cut, wire in stalled:
        assert wire.is_closed(), cut
        assert 0.5 < time.monotonic() - began < 5
        wire.socket.close()
    assert idle.command(PING)["ok"] == 1
    idle.socket.close()


def test_a_trickle_is_a_message_as_long_as_it_flows(impatient):
    with Wire(impatient) as wire:
        data = struct.pack("<iiiiI", 20 + len(body(PING)), 77, 0, OP_MSG, 0) + body(PING)
        for byte in data[:16]:
            wire.send(bytes([byte]))
            time.sleep(0.03)
        wire.send(data[16:])
        assert wire.reply()["ok"] == 1


def test_a_trickle_after_other_commands_is_answered_too(impatient):
    with Wire(impatient) as wire:
        # From here on a thread waits for the connection's messages, for a while.
        assert wire.command({"find": "c", "$db": "db"})["ok"] == 1
        data = struct.pack("<iiiiI", 20 + len(body(PING)), 77, 0, OP_MSG, 0) + body(PING)
        wire.send(data[:16])
        for byte in data[16:]:
            wire.send(bytes([byte]))
            time.sleep(0.01)
        assert wire.reply()["ok"] == 1
        assert wire.command(PING)["ok"] == 1


def test_an_answer_that_nobody_takes_ends_its_connection_and_gives_its_memory_back(impatient):
    with impatient.client() as client:
        client.db.c.insert_many([{"_id": i, "x": "y" * (3 << 20)} for i in range(5)])
        deaf = Wire(impatient)
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(20):
            deaf.msg(body({"find": "c", "$db": "db"}))
        # On a busy machine it takes a while until there is an answer.
        until = time.monotonic() + 10
        while not (held := metric(impatient, "treedb_inflight_bytes")) and time.monotonic() < until:
            time.sleep(0.01)
        # One answer of at most 16 MiB: further requests of the connection are not read meanwhile.
        assert 0 < held < 32 << 20
        assert client.db.c.count_documents({}) == 5
        deadline = time.monotonic() + 10
        while metric(impatient, "treedb_inflight_bytes"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        deaf.socket.close()


def test_a_stop_does_not_wait_for_stalled_peers(tmp_path):
    server = Server(tmp_path, "--stall-seconds", "60", native=True)
    with server.client() as client:
        client.db.c.insert_many([{"_id": i, "x": "y" * (3 << 20)} for i in range(5)])
    half, deaf = Wire(server), Wire(server)
    half.send(b"\x20\0\0")
    deaf.msg(body({"find": "c", "$db": "db"}))
    native = socket.create_connection(server.addresses["native"], timeout=5)
    native.sendall(struct.pack("<IHHQ", 12, 1, 0, 1) + b"TREEDB\r\n" + struct.pack("<HH", 1, 1) + b"\x20\0")
    time.sleep(0.3)
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 6
    for each in (half.socket, deaf.socket, native):
        each.close()


def test_promises_of_48_mb_hold_no_memory_on_either_door(impatient):
    promises = []
    for _ in range(20):
        wire = Wire(impatient)
        wire.send(struct.pack("<iiii", 48_000_000, 1, 0, OP_MSG) + bytes(1000))
        native = socket.create_connection(impatient.addresses["native"], timeout=5)
        native.sendall(struct.pack("<IHHQ", 12, 1, 0, 1) + b"TREEDB\r\n" + struct.pack("<HH", 1, 1))
        native.sendall(struct.pack("<IHHQ", 47_000_000, 0x10, 0, 2) + bytes(1000))
        promises += [wire.socket, native]
    time.sleep(0.2)
    assert metric(impatient, "treedb_inflight_bytes") == 0
    # Larger than what is read without asking for room.
    with impatient.client() as client:
        assert seconds(lambda: client.db.c.insert_one({"x": "y" * 1_000_000})) < 1
    for each in promises:
        each.close()


def test_a_thousand_idle_connections_hold_nobody_up(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4000, hard), hard))
    server = Server(tmp_path, "--max-connections", "1200", admin=True)
    idle = [socket.create_connection(server.addresses["mongo"], timeout=10) for _ in range(1000)]
    with server.client() as client:
        def work():
            for i in range(200):
                client.db.c.insert_one({"_id": i}, )
                assert client.db.c.find_one({"_id": i})
        assert seconds(work) < 10
        status = open(f"/proc/{server.process.pid}/status").read()
        assert int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) < 300_000
    assert seconds(lambda: server.stop()) < 5
    for each in idle:
        each.close()


def test_a_thousand_connections_that_were_busy_together_take_less_than_32_kib_each_when_they_are_idle(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4000, hard), hard))
    server = Server(tmp_path, "--max-connections", "1200")

    def resident():
        return int(re.search(r"VmRSS:\s+(\d+) kB", open(f"/proc/{server.process.pid}/status").read())[1]) * 1024

    def read_by(count):
        wires = [Wire(server) for _ in range(count)]
        # All at once, so that each gets a thread.
        for wire in wires:
            wire.msg(body({"find": "c", "filter": {"_id": 1}, "$db": "db"}))
        for wire in wires:
            assert len(wire.reply()["cursor"]["firstBatch"]) == 1
        return wires

    with Wire(server) as wire:
        assert wire.command({"insert": "c", "documents": [{"_id": 1, "x": "y" * 1000}], "$db": "db"})["n"] == 1
    wires = read_by(16)
    before = resident()
    wires += read_by(1000)
    # Until those that have nothing to do have given back what they can.
    time.sleep(2)
    assert (resident() - before) / 1000 < 32 * 1024
    for wire in wires:
        wire.socket.close()
    assert server.stop() == 0


def test_a_cursor_nobody_uses_is_closed_unless_it_was_asked_to_stay(impatient):
    with impatient.client() as client:
        client.db.c.insert_many([{"_id": i} for i in range(1000)])
        forgotten = client.db.c.find().batch_size(10)
        kept = client.db.c.find(no_cursor_timeout=True).batch_size(10)
        next(forgotten), next(kept)
        deadline = time.monotonic() + 10
        while metric(impatient, 'treedb_cursors{door="mongo"}') > 1:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with pytest.raises(CursorNotFound):
            list(forgotten)
        assert len(list(kept)) == 999
        assert metric(impatient, 'treedb_cursors{door="mongo"}') == 0


def test_get_more_while_and_after_a_cursor_is_killed(db):
    db.c.insert_many([{"_id": i} for i in range(500)])
    number = db.command({"find": "c", "batchSize": 1})["cursor"]["id"]
    get_more = {"getMore": number, "collection": "c", "batchSize": 1}
    assert db.command(get_more)["cursor"]["id"] == number
    assert db.command({"killCursors": "c", "cursors": [number]})["cursorsKilled"] == [number]
    assert db.command({"killCursors": "c", "cursors": [number]})["cursorsNotFound"] == [number]
    for _ in range(2):
        reply = db.command(get_more, check=False)
        assert (reply["code"], reply["codeName"]) == (43, "CursorNotFound")
    for bad in (0, -1, 2**62):
        assert db.command({"getMore": bson.Int64(bad), "collection": "c"}, check=False)["code"] == 43
    assert db.command({"getMore": "x", "collection": "c"}, check=False)["code"] == 14


def test_filters_of_ten_thousand_clauses_and_lists_of_a_hundred_thousand(db):
    db.c.insert_many([{"_id": i, "a": i} for i in range(200)])
    db.c.create_index("a")
    clauses = [{"a": {"$ne": -i}} for i in range(1, 10_001)]
    for op, count in (("$and", 200), ("$or", 200), ("$nor", 0)):
        assert seconds(lambda: count == db.c.count_documents({op: clauses}) or pytest.fail(op)) < 10, op
    assert db.c.count_documents({"$or": [{"a": i} for i in range(10_000)]}) == 200
    many = list(range(-50_000, 50_000))
    for query in ({"a": {"$in": many}}, {"_id": {"$in": many}}, {"b": {"$nin": many}}, {"$and": [{"a": {"$in": many}}] * 3}):
        assert seconds(lambda: db.c.count_documents(query) == 200 or pytest.fail(str(query)[:50])) < 10
    assert db.c.delete_many({"a": {"$in": many}}).deleted_count == 200


@pytest.mark.parametrize("depth, code", [(20, None), (45, None), (60, 15)])
def test_nested_clauses_have_a_limit(db, depth, code):
    query = {"a": 1}
    for _ in range(depth):
        query = {"$and": [query]}
    if code is None:
        assert db.c.count_documents(query) == 0
    else:
        with pytest.raises(OperationFailure) as failure:
            db.c.count_documents(query)
        assert failure.value.code == code


@pytest.mark.parametrize("query, code, field", [
    ({"title": {"$regex": 5}}, 2, "title"),
    ({"title": {"$regex": "a", "$options": 5}}, 2, "title"),
    ({"title": {"$options": "i"}}, 2, "title"),
    ({"cast.name": {"$in": [{"$regex": "a"}]}}, 2, "cast.name"),
    ({"cast.name": {"$not": {}}}, 2, "cast.name"),
    ({"year": {"$gt": 1, "$foo": 2}}, 2, "year"),
    ({"$or": [{"a": 1}, {"deep.er": {"$elemMatch": 5}}]}, 2, "deep.er"),
    ({"$or": []}, 2, "$or"),
    ({"$and": {}}, 2, "$and"),
    ({"$where": "1"}, 238, "$where"),
    ({"year": {"$in": 5}}, 2, "year"),
    ({"year": {"$not": 5}}, 2, "year"),
])
def test_a_bad_filter_gets_mongodbs_code_and_names_the_field(db, query, code, field):
    db.c.insert_one({"a": 1})
    for ask in (lambda: list(db.c.find(query)), lambda: db.c.count_documents(query),
                lambda: db.c.update_one(query, {"$set": {"x": 1}}), lambda: db.c.delete_many(query)):
        with pytest.raises(OperationFailure) as failure:
            ask()
        assert failure.value.code == code and field in str(failure.value), failure.value
