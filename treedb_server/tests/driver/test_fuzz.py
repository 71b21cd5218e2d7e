"""Thousands of mutated messages, against a server that must survive and stay correct.

The seeds are fixed, so that runs are reproducible; TREEDB_SEED adds another one.
"""
import datetime
import os
import random
import socket
import struct
import time

import bson
import pytest

from server import Server
from wire import OP_MSG, PING, Wire, body, sequence

#: Seconds for each seed.
BUDGET = 3
CANARY = [{"_id": i, "word": f"w{i % 7}", "n": i * 1.5} for i in range(200)]
VALUES = [
    None, True, False, 0, 1, -1, 2**31 - 1, -2**31, bson.Int64(2**63 - 1), bson.Int64(-2**63), 0.0, -0.0, 1.5,
    float("inf"), float("-inf"), float("nan"), "", "x", "$x", "a.b", "a\0b", "é" * 50, "x" * 5000, b"", b"\0\xff", [], [[]],
    [1, "a", None], {}, {"": 1}, {"$set": {}}, {"$gt": 5}, {"a": {"b": {"c": []}}}, bson.ObjectId(b"0" * 12),
    datetime.datetime(2000, 1, 1), datetime.datetime(1, 1, 1), bson.Regex("^(a+)+$"), bson.Regex("("), bson.Code("f()"),
    bson.Code("f()", {"a": 1}), bson.MinKey(), bson.MaxKey(), bson.Timestamp(0, 0), bson.Timestamp(2**32 - 1, 2**32 - 1),
    bson.Decimal128("NaN"), bson.Decimal128("1E+6000"), bson.Decimal128("-0"), bson.Binary(b"1234", 4), bson.Binary(b"", 255),
    bson.DBRef("c", 1),
]
NAMES = ["", "a", "a.b", "a..b", "$", "$a", ".", "_id", "0", "a.0", "a.-1", "x" * 300, "$db", "lsid", "txnNumber", "$and", "$in",
         "$inc", "$unset", "$set", "multi", "limit", "cursor", "é", "a.$", "a.$[]", "a.$[x]"]


def commands(db):
    """Commands of every kind, with the documents of their sections."""
    yield PING, {}
    yield {"hello": 1, "$db": "admin", "client": {"application": {"name": "x"}}}, {}
    yield {"insert": "f", "ordered": False, "writeConcern": {"w": 1, "j": False}, "$db": db}, {
        "documents": [{"_id": 1, "a": [1, {"b": "c"}]}, {"a": {"b": 2}}]}
    yield {"find": "f", "filter": {"a": {"$gt": 1, "$in": [1, 2]}, "$or": [{"b": 1}, {"c": {"$not": {"$lt": 3}}}]},
           "sort": {"a": 1, "b": -1}, "projection": {"a": 1, "_id": 0}, "skip": 1, "limit": 5, "batchSize": 2,
           "hint": "a_1", "$db": db}, {}
    yield {"find": "f", "filter": {}, "batchSize": 1, "$db": db}, {}
    yield {"getMore": bson.Int64(5), "collection": "f", "batchSize": 3, "$db": db}, {}
    yield {"killCursors": "f", "cursors": [bson.Int64(5)], "$db": db}, {}
    yield {"update": "f", "$db": db}, {"updates": [
        {"q": {"a": 1}, "u": {"$set": {"x.y": 1}, "$inc": {"n": 1}, "$unset": {"z": ""}}, "multi": True, "upsert": True},
        {"q": {"_id": 1}, "u": {"r": [1, 2]}}]}
    yield {"findAndModify": "f", "query": {"a": 1}, "update": {"$inc": {"n": 1}}, "new": True, "upsert": True,
           "sort": {"a": 1}, "fields": {"a": 1}, "$db": db}, {}
    yield {"delete": "f", "$db": db}, {"deletes": [{"q": {"a": {"$gte": 7}}, "limit": 0}, {"q": {}, "limit": 1}]}
    yield {"count": "f", "query": {"a": 1}, "skip": 1, "limit": 3, "$db": db}, {}
    yield {"distinct": "f", "key": "a.b", "query": {}, "$db": db}, {}
    yield {"aggregate": "f", "pipeline": [{"$match": {"a": 1}}, {"$sort": {"a": 1}}, {"$skip": 1}, {"$limit": 2},
                                          {"$project": {"a": 1}}, {"$group": {"_id": 1, "n": {"$sum": 1}}}],
           "cursor": {"batchSize": 1}, "$db": db}, {}
    yield {"createIndexes": "f", "indexes": [{"key": {"a": 1, "b": -1}, "name": "ab", "unique": False}], "$db": db}, {}
    yield {"dropIndexes": "f", "index": "ab", "$db": db}, {}
    yield {"listIndexes": "f", "cursor": {}, "$db": db}, {}
    yield {"listCollections": 1, "filter": {"name": "f"}, "cursor": {}, "$db": db}, {}
    yield {"create": "g", "$db": db}, {}
    yield {"drop": "g", "$db": db}, {}
    yield {"explain": {"find": "f", "filter": {"a": 1}}, "verbosity": "queryPlanner", "$db": db}, {}
    yield {"listDatabases": 1, "filter": {}, "$db": "admin"}, {}
    yield {"serverStatus": 1, "$db": "admin"}, {}
    yield {"endSessions": [{"id": bson.Binary(bytes(16), 4)}], "$db": "admin"}, {}


class Mutator:
    """Changes documents and bytes."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def value(self, value, rate):
        """`value` with some of what is in it replaced, renamed, doubled or gone."""
        rng = self.rng
        if rng.random() < rate:
            return rng.choice(VALUES)
        if isinstance(value, dict):
            return self.fields(value, rate)
        if isinstance(value, list):
            return [self.value(inner, rate) for inner in value for _ in range(rng.choice([1, 1, 1, 1, 1, 1, 0, 2]))]
        return value

    def fields(self, document, rate):
        rng = self.rng
        changed = {}
        for name, inner in document.items():
            if name == "$db" and rng.random() < 0.95:
                changed[name] = inner
                continue
            how = rng.random()
            if how < rate / 3:
                continue
            if how < rate / 2:
                name = rng.choice(NAMES)
            changed[name] = self.value(inner, rate)
        if rng.random() < rate / 3:
            changed[rng.choice(NAMES)] = rng.choice(VALUES)
        return changed

    def command(self, command, sections, rate):
        """The command's name and target stay, mostly, so that it gets further than the front door."""
        (name, target), *rest = command.items()
        if self.rng.random() < 0.05:
            target = self.rng.choice(VALUES)
        changed = {name: target, **self.fields(dict(rest), rate)}
        return changed, {n: [self.value(d, rate) for d in documents] for n, documents in sections.items()}

    def bytes(self, message):
        """A few bytes changed after the header, rarely in it."""
        message = bytearray(message)
        for _ in range(self.rng.choice([1, 1, 2, 5, 20])):
            at = self.rng.randrange(len(message)) if self.rng.random() < 0.1 else self.rng.randrange(16, len(message))
            message[at] = self.rng.choice([0, 1, 0x7F, 0x80, 0xFF, self.rng.randrange(256)])
        return bytes(message)


def encode(command, sections):
    """The sections of a message, or None for what BSON cannot say."""
    try:
        whole = {name: [d if isinstance(d, dict) else {"": d} for d in documents] for name, documents in sections.items()}
        return body(command) + b"".join(sequence(name, documents) for name, documents in whole.items())
    except (bson.errors.BSONError, OverflowError, ValueError, TypeError):
        return None


def still_right(client):
    """The untouched collection is unchanged, and the other commands work."""
    canary = client.canary.c
    assert list(canary.find().sort("_id", 1)) == CANARY
    assert canary.count_documents({"word": "w3"}, hint="word_1") == len([d for d in CANARY if d["word"] == "w3"])
    scratch = client.scratch.c
    scratch.replace_one({"_id": 1}, {"n": 1}, upsert=True)
    scratch.update_one({"_id": 1}, {"$inc": {"n": 1}})
    assert scratch.find_one() == {"_id": 1, "n": 2}


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    import subprocess
    from server import BIN
    directory = tmp_path_factory.mktemp("fuzzed")
    server = Server(directory, "--log-level", "info", native=True)
    with server.client() as client:
        client.canary.c.insert_many(CANARY)
        client.canary.c.create_index("word")
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line or "bug" in line]
    done = subprocess.run([BIN, "check", "--dir", str(directory)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


SEEDS = [1, 2] + [int(seed) for seed in [os.environ.get("TREEDB_SEED")] if seed]


@pytest.mark.parametrize("seed", SEEDS)
def test_commands_with_something_wrong_in_them_are_answered_and_the_server_stays_right(fuzzed, seed):
    mutator = Mutator(seed)
    originals = list(commands("fuzz"))
    replies = refused = 0
    until = time.monotonic() + BUDGET
    with fuzzed.client() as client:
        wire = Wire(fuzzed)
        while time.monotonic() < until:
            command, sections = mutator.command(*mutator.rng.choice(originals), mutator.rng.choice([0.02, 0.1, 0.3]))
            data = encode(command, sections)
            if data is None:
                continue
            wire.msg(data)
            reply = wire.reply()
            replies += 1
            # The frame was valid, so there is an answer and the connection remains open.
            assert reply["ok"] in (0, 1)
            if reply["ok"] == 0:
                refused += 1
                assert reply["code"] != 1, (command, reply)
                assert reply["errmsg"] and reply["codeName"], (command, reply)
            if replies % 500 == 0:
                still_right(client)
        wire.socket.close()
        still_right(client)
    print(f"{replies} answers, {refused} refused")
    assert replies > 300 and 0 < refused < replies


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_bytes_are_answered_or_end_their_connection(fuzzed, seed):
    mutator = Mutator(seed)
    messages = []
    for command, sections in commands("fuzz"):
        data = encode(command, sections)
        messages.append(struct.pack("<iiiiI", 20 + len(data), 77, 0, OP_MSG, 0) + data)
    native = struct.pack("<IHHQ", 12, 1, 0, 1) + b"TREEDB\r\n" + struct.pack("<HH", 1, 1)
    find = struct.pack("<H", 6) + b"fuzz.f" + struct.pack("<IQQB", 1, 0, 0, 0) + bson.encode({"a": {"$gt": 1}})
    insert = struct.pack("<H", 6) + b"fuzz.f" + struct.pack("<I", 1) + bson.encode({"a": [1, {"b": "c"}]})
    batch = struct.pack("<H", 1) + b"t" + struct.pack("<I", 1) + b"\1" + struct.pack("<I", 1) + b"k" + struct.pack("<I", 1) + b"v"
    frames = [struct.pack("<IHHQ", len(data), opcode, 0, 2) + data
              for opcode, data in ((0x12, find), (0x10, insert), (0x24, batch))]
    sent = 0
    until = time.monotonic() + BUDGET
    while time.monotonic() < until:
        sent += 1
        if mutator.rng.random() < 0.3:
            door, data = "native", native + mutator.bytes(mutator.rng.choice(frames))
        elif mutator.rng.random() < 0.1:
            door, data = "mongo", mutator.rng.randbytes(mutator.rng.randrange(1, 500))
        else:
            door, data = "mongo", mutator.bytes(mutator.rng.choice(messages))
        with socket.create_connection(fuzzed.addresses[door], timeout=10) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
            except ConnectionError:
                pass
    print(f"{sent} messages")
    assert sent > 200
    with fuzzed.client() as client:
        still_right(client)
