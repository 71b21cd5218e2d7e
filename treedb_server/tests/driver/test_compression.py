"""Compressed messages: agreed in hello, bounded before they are inflated, refused when they lie."""
import struct
import time
import zlib

import bson
import pymongo
import pytest
import snappy
from backports import zstd

from server import Server
from wire import OP_COMPRESSED, OP_MSG, OP_QUERY, PING, Wire, body

COMPRESS = {"snappy": (1, snappy.compress), "zlib": (2, zlib.compress), "zstd": (3, zstd.compress)}
EXPAND = {1: snappy.decompress, 2: zlib.decompress, 3: zstd.decompress}


@pytest.fixture
def wire(server):
    """A connection that has agreed to all compressors."""
    with Wire(server) as wire:
        agreed = wire.command({"hello": 1, "compression": ["zstd", "lz4", "zlib", "snappy", "zlib"], "$db": "admin"})
        assert agreed["compression"] == ["zstd", "zlib", "snappy"]
        yield wire


@pytest.fixture(autouse=True)
def server_continues(server):
    yield
    with Wire(server) as other:
        assert other.command(PING)["ok"] == 1


def message(command):
    return struct.pack("<I", 0) + body(command)


def compressed(name, plain, opcode=OP_MSG, size=None, id=None):
    number, compress = COMPRESS[name]
    size = len(plain) if size is None else size
    return struct.pack("<iiB", opcode, size, number if id is None else id) + compress(plain)


def read(wire):
    """The reply, and by what it was compressed."""
    length, _, to, opcode = struct.unpack("<iiii", wire.read(16))
    rest = wire.read(length - 16)
    assert to == 77
    if opcode == OP_MSG:
        return bson.decode(rest[5:]), None
    assert opcode == OP_COMPRESSED
    original, size, id = struct.unpack_from("<iiB", rest)
    plain = EXPAND[id](rest[9:])
    assert (original, size) == (OP_MSG, len(plain))
    return bson.decode(plain[5:]), id


@pytest.mark.parametrize("name", COMPRESS)
def test_pymongo_writes_and_reads_through_each_compressor(server, name):
    with server.client(compressors=name) as client:
        found = client.compressed.c
        found.drop()
        documents = [{"_id": i, "text": "the same " * 100, "n": i} for i in range(3_000)]
        found.insert_many(documents)
        assert list(found.find().sort("_id", 1)) == documents
        assert next(op for op in client.admin.command("currentOp")["inprog"])["active"] is True
        client.drop_database("compressed")


@pytest.mark.parametrize("name", COMPRESS)
def test_a_compressed_command_gets_a_compressed_reply_if_that_is_shorter(wire, db, name):
    db.c.insert_many([{"_id": i, "text": "x" * 100} for i in range(100)])
    wire.message(OP_COMPRESSED, compressed(name, message({"find": "c", "$db": db.name})))
    reply, by = read(wire)
    assert len(reply["cursor"]["firstBatch"]) == 100 and by == COMPRESS[name][0]
    wire.message(OP_COMPRESSED, compressed(name, message(PING)))
    assert read(wire) == ({"ok": 1.0}, None)
    # The handshake says how to compress: it is readable without that.
    wire.message(OP_COMPRESSED, compressed(name, message({"hello": 1, "x": "y" * 1000, "$db": "admin"})))
    reply, by = read(wire)
    assert reply["isWritablePrimary"] is True and by is None


def test_only_what_the_server_offers_is_agreed_on(server, tmp_path):
    with Wire(server) as wire:
        assert "compression" not in wire.command({"hello": 1, "$db": "admin"})
        assert "compression" not in wire.command({"hello": 1, "compression": ["lz4", 1], "$db": "admin"})
        wire.message(OP_COMPRESSED, compressed("zlib", message(PING)))
        assert read(wire)[0]["code"] == 17
        assert wire.is_closed()
    zlib_only = Server(tmp_path, "--compressors", "zlib")
    with Wire(zlib_only) as wire:
        assert wire.command({"hello": 1, "compression": ["snappy", "zlib"], "$db": "admin"})["compression"] == ["zlib"]
        wire.message(OP_COMPRESSED, compressed("zlib", message(PING)))
        assert read(wire)[0]["ok"] == 1
        wire.message(OP_COMPRESSED, compressed("snappy", message(PING)))
        assert read(wire)[0]["code"] == 17
        assert wire.is_closed()
    with zlib_only.client(compressors="snappy,zlib") as client:
        client.admin.command("ping")
    assert zlib_only.stop() == 0


@pytest.mark.parametrize("name", COMPRESS)
@pytest.mark.parametrize("lie", [-1, 0, 1, 25, 27, 1_000, 47_999_984, 47_999_985, 2**31 - 1])
def test_a_message_that_is_not_as_long_as_it_says_is_refused(wire, name, lie):
    plain = message(PING)
    if lie == len(plain):
        lie += 1
    wire.message(OP_COMPRESSED, compressed(name, plain, size=lie))
    assert read(wire)[0]["code"] == 17
    assert wire.is_closed()


@pytest.mark.parametrize("name", COMPRESS)
def test_a_bomb_takes_no_more_than_it_announces(server, name):
    def memory():
        with open(f"/proc/{server.process.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096

    bomb = compressed(name, bytes(200_000_000), size=1_000)
    before = memory()
    for _ in range(10):
        with Wire(server) as wire:
            wire.command({"hello": 1, "compression": list(COMPRESS), "$db": "admin"})
            wire.message(OP_COMPRESSED, bomb)
            assert read(wire)[0]["code"] == 17
    assert memory() - before < 40_000_000


def test_many_large_messages_at_once_wait_for_their_share_and_all_end(server, db):
    wires = [Wire(server) for _ in range(12)]
    text = "x" * 15_000_000
    try:
        for i, wire in enumerate(wires):
            wire.command({"hello": 1, "compression": ["zlib"], "$db": "admin"})
            plain = message({"insert": "c", "documents": [{"_id": i, "text": text}], "$db": db.name})
            number, _ = COMPRESS["zlib"]
            wire.message(OP_COMPRESSED, struct.pack("<iiB", OP_MSG, len(plain), number) + zlib.compress(plain, 1))
        for wire in wires:
            wire.socket.settimeout(60)
            assert read(wire)[0]["n"] == 1
    finally:
        for wire in wires:
            wire.socket.close()
    assert db.c.count_documents({}) == 12


@pytest.mark.parametrize("frame", [
    compressed("zlib", compressed("zlib", message(PING)), opcode=OP_COMPRESSED),
    compressed("zlib", message(PING), id=0),
    compressed("zlib", message(PING), id=4),
    compressed("zlib", message(PING), id=255),
    compressed("zlib", message(PING), id=1),
    compressed("zlib", message(PING), id=3),
    compressed("snappy", message(PING), id=3),
    b"", b"\x00" * 8, struct.pack("<iiB", OP_MSG, 26, 2),
    struct.pack("<iiB", OP_MSG, 26, 3) + b"\x28\xb5\x2f\xfd" + b"\xff" * 40,
    # A window of a gigabyte, and a content of four.
    struct.pack("<iiB", OP_MSG, 26, 3) + b"\x28\xb5\x2f\xfd\x00\xa0" + b"\xff" * 40,
    struct.pack("<iiB", OP_MSG, 26, 3) + b"\x28\xb5\x2f\xfd\xa0\xff\xff\xff\xff" + b"\x01\x00\x00",
    struct.pack("<iiB", OP_MSG, 26, 1) + b"\xff\xff\xff\xff\x0f",
])
def test_damaged_frames_are_refused(wire, frame):
    wire.message(OP_COMPRESSED, frame)
    assert read(wire)[0]["code"] == 17
    assert wire.is_closed()


def test_every_flipped_byte_is_an_error_or_a_message_but_never_a_hang(server):
    plain = message({"ping": 1, "comment": "comment " * 20, "$db": "admin"})
    for name in COMPRESS:
        good = compressed(name, plain)
        for at in range(len(good)):
            with Wire(server) as wire:
                wire.command({"hello": 1, "compression": list(COMPRESS), "$db": "admin"})
                began = time.monotonic()
                wire.message(OP_COMPRESSED, good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1:])
                try:
                    read(wire)
                except (EOFError, ConnectionResetError):
                    pass
                assert time.monotonic() - began < 5


def test_before_authentication_only_short_messages_are_inflated(tmp_path):
    server = Server(tmp_path, "--auth")
    with Wire(server) as wire:
        wire.command({"hello": 1, "compression": ["zlib"], "$db": "admin"})
        wire.message(OP_COMPRESSED, compressed("zlib", message(PING)))
        assert read(wire)[0]["ok"] == 1
        wire.message(OP_COMPRESSED, compressed("zlib", message({"ping": 1, "comment": "x" * 100_000, "$db": "admin"})))
        assert wire.is_closed()
    assert server.stop() == 0
