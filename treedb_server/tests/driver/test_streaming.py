"""Commands with more than one reply: exhaust cursors and the hello of monitors; and a browser on the wrong port."""
import socket
import struct
import time

import bson
import pymongo
import pytest
from pymongo import monitoring

from server import Server
from wire import MORE_TO_COME, OP_MSG, PING, Wire, body

EXHAUST = 1 << 16


def read(wire):
    """Flags, request id, answered id and document of a reply."""
    length, request, to, opcode = struct.unpack("<iiii", wire.read(16))
    rest = wire.read(length - 16)
    assert opcode == OP_MSG
    return struct.unpack_from("<I", rest)[0], request, to, bson.decode(rest[5:])


def test_an_exhaust_cursor_sends_its_batches_without_being_asked(client, db):
    db.c.insert_many([{"_id": i} for i in range(1_000)])
    assert [each["_id"] for each in db.c.find(cursor_type=pymongo.CursorType.EXHAUST, batch_size=100)] == list(range(1_000))


def test_each_batch_answers_the_one_before_and_the_last_says_so(server, db):
    db.c.insert_many([{"_id": i} for i in range(10)])
    with Wire(server) as wire:
        cursor = wire.command({"find": "c", "batchSize": 2, "$db": db.name})["cursor"]["id"]
        wire.msg(body({"getMore": bson.Int64(cursor), "collection": "c", "batchSize": 3, "$db": db.name}), flags=EXHAUST)
        before, batches = 77, []
        while True:
            flags, request, to, reply = read(wire)
            assert to == before and reply["ok"] == 1
            batches.append([each["_id"] for each in reply["cursor"]["nextBatch"]])
            before = request
            if not flags & MORE_TO_COME:
                break
        assert batches == [[2, 3, 4], [5, 6, 7], [8, 9]] and reply["cursor"]["id"] == 0
        assert wire.command(PING)["ok"] == 1
        # Without the flag one batch is all; and an error ends it.
        cursor = wire.command({"find": "c", "batchSize": 2, "$db": db.name})["cursor"]["id"]
        wire.msg(body({"getMore": bson.Int64(cursor), "collection": "c", "batchSize": 3, "$db": db.name}))
        assert read(wire)[0] == 0
        wire.msg(body({"getMore": bson.Int64(5), "collection": "c", "$db": db.name}), flags=EXHAUST)
        flags, _, _, reply = read(wire)
        assert (flags, reply["code"]) == (0, 43)
        wire.msg(body({"find": "c", "batchSize": 2, "$db": db.name}), flags=EXHAUST)
        assert read(wire)[0] == 0


def test_a_client_that_closes_ends_its_exhaust_cursor(server, client, db):
    db.c.insert_many([{"_id": i, "text": "x" * 10_000} for i in range(5_000)])
    with Wire(server) as wire:
        cursor = wire.command({"find": "c", "batchSize": 2, "$db": db.name})["cursor"]["id"]
        wire.msg(body({"getMore": bson.Int64(cursor), "collection": "c", "batchSize": 1, "$db": db.name}), flags=EXHAUST)
        read(wire)
    for _ in range(100):
        if not [op for op in client.admin.command("currentOp")["inprog"] if op["op"] == "getmore"]:
            break
        time.sleep(0.05)
    assert client.admin.command("ping")["ok"] == 1


def test_a_hello_of_somebody_who_knows_waits(server):
    with Wire(server) as wire:
        version = wire.command({"hello": 1, "$db": "admin"})["topologyVersion"]
        began = time.monotonic()
        reply = wire.command({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 300, "$db": "admin"})
        assert reply["topologyVersion"] == version and time.monotonic() - began >= 0.29
        # Of another process, or another state, something can be said at once.
        for other in ({"processId": bson.ObjectId(), "counter": bson.Int64(0)}, {**version, "counter": bson.Int64(5)}):
            began = time.monotonic()
            wire.command({"hello": 1, "topologyVersion": other, "maxAwaitTimeMS": 20_000, "$db": "admin"})
            assert time.monotonic() - began < 5
        wire.msg(body({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 50, "$db": "admin"}), flags=EXHAUST)
        before = 77
        for _ in range(3):
            flags, request, to, reply = read(wire)
            assert flags & MORE_TO_COME and to == before and reply["isWritablePrimary"] is True
            before = request


@pytest.mark.parametrize("arguments, code", [
    ({"topologyVersion": {"processId": bson.ObjectId(), "counter": bson.Int64(0)}}, 31368),
    ({"maxAwaitTimeMS": 10}, 31368),
    ({"topologyVersion": {"processId": bson.ObjectId(), "counter": bson.Int64(-1)}, "maxAwaitTimeMS": 10}, 31372),
    ({"topologyVersion": {"processId": bson.ObjectId(), "counter": bson.Int64(0)}, "maxAwaitTimeMS": -1}, 31373),
    ({"topologyVersion": {"processId": bson.ObjectId(), "counter": bson.Int64(0)}, "maxAwaitTimeMS": "x"}, 31373),
    ({"topologyVersion": {"processId": 1, "counter": bson.Int64(0)}, "maxAwaitTimeMS": 10}, 14),
    ({"topologyVersion": 1, "maxAwaitTimeMS": 10}, 14),
])
def test_a_hello_that_would_wait_for_nothing_is_refused(server, arguments, code):
    with Wire(server) as wire:
        assert wire.command({"hello": 1, **arguments, "$db": "admin"})["code"] == code


def test_monitors_are_streamed_to_and_notice_a_stop_at_once(tmp_path):
    class Beats(monitoring.ServerHeartbeatListener):
        awaited, failures = 0, []

        def started(self, event):
            pass

        def succeeded(self, event):
            self.awaited += event.awaited

        def failed(self, event):
            self.failures.append(time.monotonic())

    beats = Beats()
    server = Server(tmp_path, "--replica-set", "rs0")
    host, port = server.addresses["mongo"]
    client = pymongo.MongoClient(f"mongodb://{host}:{port}/?replicaSet=rs0&heartbeatFrequencyMS=500&serverMonitoringMode=stream",
                                 event_listeners=[beats], serverSelectionTimeoutMS=5_000)
    with client:
        client.admin.command("ping")
        time.sleep(2.2)
        assert beats.awaited >= 2
        stopped = time.monotonic()
        assert server.stop() == 0
        for _ in range(100):
            if beats.failures:
                break
            time.sleep(0.05)
        assert beats.failures and beats.failures[0] - stopped < 3


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1", b"HEAD / HTTP/1.0", b"POST /x HTTP/1.1"])
def test_a_browser_is_told_that_this_is_no_web_server(server, request_line):
    with socket.create_connection(server.addresses["mongo"], timeout=10) as browser:
        browser.sendall(request_line + b"\r\nHost: x\r\n\r\n")
        reply = b""
        while part := browser.recv(1000):
            reply += part
    head, text = reply.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.0 200 OK") and b"Content-Length: %d" % len(text) in head
    assert text == b"It looks like you are trying to access MongoDB over HTTP on the native driver port.\r\n"


def test_a_hello_that_would_not_wait_is_answered_once(server):
    with Wire(server) as wire:
        hello = wire.command({"hello": 1, "$db": "admin"})
        for process in [bson.ObjectId(), hello["topologyVersion"]["processId"]]:
            version = {"processId": process, "counter": bson.Int64(0)}
            wait = 10_000 if process != hello["topologyVersion"]["processId"] else 0
            wire.msg(body({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": bson.Int64(wait), "$db": "admin"}), flags=EXHAUST)
            flags, _, _, reply = read(wire)
            assert reply["ok"] == 1 and not flags & MORE_TO_COME
        assert wire.command(PING)["ok"] == 1


def test_a_tailable_cursor_that_does_not_wait_is_not_repeated_when_it_is_empty(server, db):
    db.create_collection("log", capped=True, size=4096)
    db.log.insert_one({"_id": 1})
    with Wire(server) as wire:
        cursor = wire.command({"find": "log", "tailable": True, "$db": db.name})["cursor"]["id"]
        wire.msg(body({"getMore": bson.Int64(cursor), "collection": "log", "$db": db.name}), flags=EXHAUST)
        flags, _, _, reply = read(wire)
        assert reply["cursor"]["nextBatch"] == [] and reply["cursor"]["id"] == cursor and not flags & MORE_TO_COME
