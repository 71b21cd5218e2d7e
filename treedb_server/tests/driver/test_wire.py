"""Invalid bytes: the connection gets an error or is closed, and the server continues."""
import socket
import struct
import time

import bson
import pytest

from crc import crc32c
from wire import CHECKSUM, MORE_TO_COME, OP_COMPRESSED, OP_MSG, OP_QUERY, PING, Wire, body, sequence


@pytest.fixture
def wire(server):
    with Wire(server) as wire:
        yield wire


@pytest.fixture(autouse=True)
def server_continues(server):
    yield
    with Wire(server) as other:
        assert other.command(PING)["ok"] == 1
    assert server.process.poll() is None


def test_the_handshake_in_a_legacy_message(wire):
    query = struct.pack("<i", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1)
    wire.message(OP_QUERY, query + bson.encode({"isMaster": 1, "helloOk": True}))
    assert wire.reply()["ismaster"] is True
    wire.message(OP_QUERY, query + bson.encode({"hello": 1}))
    assert wire.reply()["isWritablePrimary"] is True
    wire.message(OP_QUERY, query + bson.encode({"find": "c"}))
    reply = wire.reply()
    assert reply["code"] == 352 and "find" in reply["errmsg"]
    assert wire.is_closed()


def test_sections_in_any_order_and_one_by_one(wire, db):
    insert = {"insert": "c", "$db": db.name}
    wire.msg(sequence("documents", [{"_id": 1}]) + body(insert))
    assert wire.reply()["n"] == 1
    data = body(insert) + sequence("documents", [{"_id": 2}])
    for byte in struct.pack("<iiiiI", 20 + len(data), 77, 0, OP_MSG, 0) + data:
        wire.send(bytes([byte]))
    assert wire.reply()["n"] == 1


def test_pipelined_messages_are_answered_in_order(wire, db):
    for i in range(50):
        wire.msg(body({"insert": "c", "documents": [{"_id": i}], "$db": db.name}), request=77)
    assert [wire.reply()["n"] for _ in range(50)] == [1] * 50


def test_a_checksum_is_verified(wire):
    data = struct.pack("<I", CHECKSUM) + body(PING)
    head = struct.pack("<iiii", 16 + len(data) + 4, 77, 0, OP_MSG)
    wire.send(head + data + struct.pack("<I", crc32c(head + data)))
    assert wire.reply()["ok"] == 1
    wire.send(head + data + struct.pack("<I", crc32c(head + data) ^ 1))
    assert wire.reply()["code"] == 48614
    assert wire.is_closed()


def test_more_to_come_gets_no_reply(wire, db):
    wire.msg(body({"insert": "c", "documents": [{"_id": 1}], "$db": db.name}), flags=MORE_TO_COME)
    wire.msg(body({"nonsense": 1, "$db": db.name}), flags=MORE_TO_COME)
    assert wire.command({"count": "c", "$db": db.name})["n"] == 1


@pytest.mark.parametrize("length", [-1, 0, 15, 48_000_001, 2**31 - 1, -2**31])
def test_impossible_lengths_close_the_connection(wire, length):
    wire.msg(body(PING), length=length)
    assert wire.is_closed()


def test_a_message_of_48_mb_is_read_and_one_byte_more_is_not(server, db):
    pad = 48_000_000 - 16 - 4 - len(body({"insert": "c", "$db": db.name})) - len(sequence("documents", [{"_id": 1, "x": b""}] * 3))
    sizes = [pad // 3, pad // 3, pad - 2 * (pad // 3)]
    documents = [{"_id": 1, "x": bytes(size)} for size in sizes]
    data = body({"insert": "c", "$db": db.name}) + sequence("documents", documents)
    assert len(data) + 20 == 48_000_000
    with Wire(server) as wire:
        wire.msg(data)
        reply = wire.reply()
        # Three documents with the same _id: one goes in.
        assert reply["n"] == 1 and reply["writeErrors"][0]["code"] == 11000
    with Wire(server) as wire:
        wire.msg(data[:100], length=48_000_001)
        assert wire.is_closed()


def test_a_message_that_ends_early_changes_nothing(server, db):
    data = body({"insert": "c", "$db": db.name}) + sequence("documents", [{"_id": 1, "x": "y" * 1000}])
    message = struct.pack("<iiiiI", 20 + len(data), 77, 0, OP_MSG, 0) + data
    for cut in [1, 4, 15, 16, 17, 20, 21, 30, len(message) - 1]:
        with Wire(server) as wire:
            wire.send(message[:cut])
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.is_closed()
    assert db.c.count_documents({}) == 0


@pytest.mark.parametrize("opcode", [0, 1, 2001, 2002, 2005, 2006, 2007, 2010, 2011, 2014, -1])
def test_unknown_opcodes_close_the_connection(wire, opcode):
    wire.message(opcode, bytes(4) + body(PING))
    assert wire.is_closed()


def test_a_compressed_message_was_not_negotiated(wire):
    wire.message(OP_COMPRESSED, struct.pack("<iiB", OP_MSG, 100, 2) + b"junk")
    assert wire.reply()["code"] == 17
    assert wire.is_closed()


@pytest.mark.parametrize("sections, code", [
    (b"", 40587),
    (body(PING) + body(PING), 40430),
    (body(PING) + sequence("a", []) + sequence("a", []), 40431),
    (b"\x02" + bson.encode({}), 40432),
    (b"\x01\xff\xff\xff\x7f" + b"documents\0", 17),
    (b"\x01\x03\0\0\0", 17),
    (b"\x01\x08\0\0\0name", 17),
    (body(PING) + b"\x01\x0b\0\0\0docs\xff\0" + bytes(0), 17),
    (b"\0" + struct.pack("<i", 1000) + bytes(20), 17),
    (b"\0" + struct.pack("<i", 4), 17),
    (b"\0" + struct.pack("<i", -5) + bytes(20), 17),
    (body(PING) + b"\x01" + struct.pack("<i", 16) + b"documents\0" + b"\x05\0", 17),
])
def test_sections_with_wrong_lengths_get_an_error_and_are_closed(wire, sections, code):
    wire.msg(sections)
    assert wire.reply()["code"] == code
    assert wire.is_closed()


def test_unknown_required_flags_get_an_error(wire):
    wire.msg(body(PING), flags=1 << 7)
    assert wire.reply()["code"] == 17
    assert wire.is_closed()


def test_a_field_both_in_body_and_section_is_an_error(wire, db):
    command = {"insert": "c", "documents": [{"_id": 1}], "$db": db.name}
    assert wire.command(command, documents=[{"_id": 2}])["code"] == 40433
    assert wire.command({"insert": "c", "$db": db.name}, nonsense=[{}])["code"] == 40415
    assert wire.command(PING)["ok"] == 1


def deep(levels):
    document = {}
    for _ in range(levels):
        document = {"a": document}
    return document


def test_nesting_200_deep_gets_an_error_wherever_it_is(wire, db):
    assert wire.command({"find": "c", "filter": deep(200), "$db": db.name})["code"] == 15
    assert wire.command({"insert": "c", "documents": [deep(200)], "$db": db.name})["code"] == 15
    reply = wire.command({"insert": "c", "$db": db.name}, documents=[deep(200), {"_id": 1}])
    assert reply["n"] == 0 and reply["writeErrors"][0]["code"] == 15
    for command, name, statement in [
        ("update", "updates", {"q": {}, "u": {"$set": deep(200)}}),
        ("delete", "deletes", {"q": deep(200), "limit": 1}),
    ]:
        reply = wire.command({command: "c", "$db": db.name}, **{name: [statement]})
        assert reply["writeErrors"][0]["code"] == 15
    assert wire.command({"insert": "c", "$db": db.name}, documents=[deep(90)])["n"] == 1
    # 100,000 levels would overflow the stack of a recursive parser.
    bomb = b""
    for _ in range(100_000):
        bomb = b"\x03a\0" + struct.pack("<i", len(bomb) + 5) + bomb + b"\0"
    bomb = struct.pack("<i", len(bomb) + 5) + bomb + b"\0"
    reply = wire.command({"insert": "c", "$db": db.name}, documents=[bomb])
    assert reply["writeErrors"][0]["code"] == 15
    wire.msg(body(bomb))
    assert wire.reply()["code"] == 15


def broken_documents():
    good = bson.encode({"_id": 1, "text": "abcd", "n": {"x": [1]}})
    text = good.index(b"abcd")
    yield "invalid UTF-8 in a string", good.replace(b"abcd", b"ab\xff\xfe")
    yield "invalid UTF-8 in a name", good.replace(b"text", b"te\xc3\x28")
    yield "string length beyond the document", good[:text - 4] + struct.pack("<i", 1000) + good[text:]
    yield "string length zero", good[:text - 4] + struct.pack("<i", 0) + good[text:]
    yield "string length negative", good[:text - 4] + struct.pack("<i", -1) + good[text:]
    yield "string without end", good.replace(b"abcd\0", b"abcde")
    yield "unknown type", good[:4] + b"\x77" + good[5:]
    inner = good.index(b"\x03n\0") + 3
    yield "inner document length beyond", good[:inner] + struct.pack("<i", 500) + good[inner + 4:]
    yield "inner document length short", good[:inner] + struct.pack("<i", 6) + good[inner + 4:]
    yield "boolean of 2", bson.encode({"_id": 1, "b": True})[:-2] + b"\x02\0"


@pytest.mark.parametrize("what, document", list(broken_documents()))
def test_broken_bson_gets_an_error_and_the_connection_remains_open(wire, db, what, document):
    reply = wire.command({"insert": "c", "$db": db.name}, documents=[document])
    assert reply["n"] == 0 and reply["writeErrors"][0]["code"] == 22, what
    for command, name, field in [("update", "updates", "u"), ("delete", "deletes", "q")]:
        inner = b"\x03" + field.encode() + b"\0" + document
        statement = struct.pack("<i", len(inner) + 5) + inner + b"\0"
        reply = wire.command({command: "c", "$db": db.name}, **{name: [statement]})
        assert reply["writeErrors"][0]["code"] == 22, what
    wire.msg(body(document))
    assert wire.reply()["code"] == 22
    assert wire.command(PING)["ok"] == 1
    assert db.c.count_documents({}) == 0


def test_a_command_without_database_or_with_a_strange_one(wire):
    assert wire.command({"ping": 1})["code"] == 40571
    assert wire.command({"ping": 1, "$db": 5})["code"] == 14
    assert wire.command({})["code"] in (59, 40571)
    for name in ["", "a.b", "a b", "x" * 64, "a\0b", "$x"]:
        assert wire.command({"find": "c", "$db": name})["code"] == 73, name
    assert wire.command(PING)["ok"] == 1


def test_silent_connections_do_not_block_others(server):
    idle = [Wire(server) for _ in range(100)]
    # These promise 48 MB each and send nothing of it.
    for wire in idle[:50]:
        wire.send(struct.pack("<iiii", 48_000_000, 1, 0, OP_MSG))
    started = time.monotonic()
    with Wire(server) as wire:
        assert wire.command(PING)["ok"] == 1
    assert time.monotonic() - started < 2
    for wire in idle:
        wire.socket.close()
