"""Thousands of mutated messages, against a server that must survive and stay correct.

The seeds are fixed, so that runs are reproducible; TREEDB_SEED adds another one.
"""
import datetime
import os
import pathlib
import random
import socket
import struct
import sys
import time

import bson
import pytest

from seeds import Session, commands, native_requests, without_a_seed
from server import Server
from wire import OP_MSG, Wire, body, sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"))

from treedb.messages import ERROR, MORE, Op  # noqa: E402

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


class Mutator:
    """Changes documents and bytes."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.session = Session(self.rng)

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
        command = self.session.numbered(command)
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
    server = Server(directory, "--log-level", "info", "--replica-set", "rs0", "--transaction-seconds", "1", "--enable-test-commands", native=True)
    with server.client() as client:
        client.canary.c.insert_many(CANARY)
        client.canary.c.create_index("word")
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line or "bug" in line]
    done = subprocess.run([BIN, "check", "--dir", str(directory)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_there_is_a_seed_of_every_command_and_every_opcode(fuzzed):
    with fuzzed.client() as client:
        assert without_a_seed(client.admin.command("listCommands")["commands"]) == []
    assert {opcode for opcode, _, _ in native_requests()} == set(Op) - {Op.HELLO}


#: Seeds that a server without authentication refuses: commands that need a logged-in user, an open cursor, an absolute path, a lock, or a standalone.
REFUSED = {"authenticate": {18}, "backupTo": {2}, "fsyncUnlock": {20}, "getMore": {43}, "reIndex": {20}, "saslContinue": {17, 18}}


def test_the_seeds_are_right_until_something_is_changed_in_them(fuzzed):
    """In some order: what is about an index that another has dropped is right in another one."""
    rng = random.Random(5)
    session, left, last = Session(rng), {repr(seed): seed for seed in commands("right")}, {}
    seeds = list(left.values())
    with Wire(fuzzed) as wire:
        for _ in range(20):
            for command, sections in seeds:
                reply = wire.command(session.numbered(command), **sections)
                name, key = next(iter(command)), repr((command, sections))
                if reply["ok"] == 1 and "writeErrors" not in reply and not reply.get("nErrors") or reply.get("code") in REFUSED.get(name, ()):
                    left.pop(key, None)
                else:
                    last[key] = reply
            if not left:
                break
            rng.shuffle(seeds)
    with fuzzed.client() as client:
        client.drop_database("right")
    assert not left, [(seed, last[key]) for key, seed in left.items()]


def test_the_seeds_of_the_native_protocol_are_right_until_something_is_changed_in_them(fuzzed):
    """Of the values for statements some are for another statement."""
    with socket.create_connection(fuzzed.addresses["native"], timeout=20) as connection, connection.makefile("rb") as stream:
        def ask(opcode, flags, data):
            """The error, if there is one."""
            connection.sendall(struct.pack("<IHHQ", len(data), opcode, flags, 9) + data)
            more = True
            while more:
                length, answer, flags, _ = struct.unpack("<IHHQ", stream.read(16))
                content = stream.read(length)
                more = answer != ERROR and flags & MORE
            return content if answer == ERROR else None

        assert ask(Op.HELLO, 0, b"TREEDB\r\n" + struct.pack("<HH", 1, 1)) is None
        refused, right = {}, set()
        for opcode, flags, data in [*native_requests()] * 2:
            error = ask(opcode, flags, data)
            if error is None:
                right.add((opcode, flags, data))
            else:
                refused[opcode, flags, data] = error
    wrong = {request: error for request, error in refused.items() if request not in right}
    statements = [request for request in right if request[0] == Op.EXECUTE]
    assert len({data[:4] for _, _, data in statements}) == 6
    # A proof without the password.
    assert {opcode for opcode, _, _ in wrong} <= {Op.EXECUTE, Op.PROVE, Op.NEXT, Op.PULL, Op.CREDIT}, wrong


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
    frames = [struct.pack("<IHHQ", len(data), opcode, flags, 2) + data for opcode, flags, data in native_requests()]
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
