#!/usr/bin/env python3
"""Malformed frames for both protocols, against servers that must stay right: scripts/frame_tests.sh [FRAMES]

They begin as messages of every command and every opcode (seeds.py). Three quarters go to a server that asks for no password, the others to one
that does: half of those from clients that have none, half from a user who may read one database. After each frame the connection has to answer a
ping or end, within a second. At the end: no panic in the log, no memory beyond twice the limit, a clean stop, the other documents as they were,
nothing written by those who may not, and a database in which `treedb check` finds nothing.

A frame that took longer is sent again, since the machine may have been slow. It is a hang if it takes longer again, or took longer than five
seconds; and since what has changed something may be faster the second time, more than a few that took longer once are too many.

TREEDB_SEED=n repeats a run.
"""
import argparse
import multiprocessing
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter

import bson
from bson import Binary

from frames import NATIVE_GREETING, Frames, body, OP_MSG, PING  # noqa: I001 (it extends the path)
import scram  # noqa: E402
from seeds import CURSOR, EXCHANGE, GUEST, blob, text, without_a_seed  # noqa: E402
from server import BIN, Locked, Server  # noqa: E402
from test_fuzz import CANARY, still_right  # noqa: E402

#: Bytes of requests and answers that the servers may hold: what each may use of memory is at most twice that.
LIMIT = 192 << 20
#: Seconds that a frame may take, and those after which it makes no difference how long it takes the second time.
MOST, HANGS = 1.0, 5.0
#: Who may read the database of the frames on the server that asks for passwords.
MEMBER, SECRET = "member", "secret"
#: The number of a request that is part of opening a connection, and that of the ping after a frame.
OPENING, AFTER = 1, 78


def mongo_message(command, number):
    return struct.pack("<iiiiI", 20 + len(body(command)), number, 0, OP_MSG, 0) + body(command)


def native_message(opcode, content, number):
    return struct.pack("<IHHQ", len(content), opcode, 0, number) + content


HELLO = {"hello": 1, "compression": ["snappy", "zlib", "zstd"], "$db": "admin"}
PINGS = {"mongo": mongo_message(PING, AFTER), "native": native_message(0x02, b"", AFTER)}


class Connection:
    """A connection that sees which of its frames are answered."""

    def __init__(self, whose, door, address):
        self.whose, self.door, self.address, self.socket = whose, door, address, None

    def open(self):
        self.close()
        self.socket = socket.create_connection(self.address, timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.cursor = self.exchange = 0
        self.reads = False
        self.ask(mongo_message(HELLO, OPENING) if self.door == "mongo" else NATIVE_GREETING)
        if self.whose == "member":
            self.log_in()

    def ask(self, message):
        """What is part of opening the connection, and answered."""
        self.send(message)
        answer = self.wait_for(OPENING)
        assert answer is not None, "the connection was not opened"
        return answer

    def log_in(self):
        first = scram.first_message(MEMBER)
        if self.door == "mongo":
            begun = bson.decode(self.ask(mongo_message({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": Binary(b"n,," + first),
                                                        "options": {"skipEmptyExchange": True}, "$db": "admin"}, OPENING))[5:])
            done = bson.decode(self.ask(mongo_message({"saslContinue": 1, "conversationId": begun["conversationId"], "$db": "admin",
                                                       "payload": Binary(scram.last_message(SECRET, first, begun["payload"]))}, OPENING))[5:])
            assert done.get("done"), done
        else:
            begun = self.ask(native_message(0x03, text("admin") + text("SCRAM-SHA-256") + blob(b"n,," + first), OPENING))
            done = self.ask(native_message(0x04, begun[:4] + blob(scram.last_message(SECRET, first, begun[8:])), OPENING))
            assert done[:4] == begun[:4], done

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def wait_for(self, number):
        """Reads answers up to the one with this number, and returns what is in that; nothing if the connection has ended before it."""
        while True:
            while (answer := self.take()) is not None:
                if answer[0] == number:
                    return answer[1]
            try:
                more = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not more:
                return None
            self.buffer += more

    def take(self):
        """The next whole answer: the number of what it is to, and its content. Nothing if there is none yet."""
        if len(self.buffer) < 16:
            return None
        if self.door == "mongo":
            length, _, number, _ = struct.unpack_from("<iiii", self.buffer)
        else:
            length, _, _, number = struct.unpack_from("<IHHQ", self.buffer)
            length += 16
        if len(self.buffer) < length:
            return None
        content = self.buffer[16:length]
        self.buffer = self.buffer[length:]
        if self.door == "mongo":
            self.note(content)
        return number, content

    def note(self, answer):
        """Remembers a cursor that was opened, and an exchange that was begun, for frames that go on with them."""
        for field, size, name in ((b"\x12id\0", 8, "cursor"), (b"\x10conversationId\0", 4, "exchange")):
            at = answer.find(field) + len(field)
            if at >= len(field) and len(answer) >= at + size and (name == "exchange" or self.reads):
                number = int.from_bytes(answer[at:at + size], "little", signed=True)
                if number:
                    setattr(self, name, number)

    def try_frame(self, frame, is_whole):
        """Sends a frame. Returns how it ended, and after how many seconds."""
        if self.socket is None:
            self.open()
        if self.door == "mongo":
            # Cursors of change streams wait for events.
            self.reads = b"find\0" in frame
            frame = frame.replace(struct.pack("<q", CURSOR), struct.pack("<q", self.cursor))
            frame = frame.replace(struct.pack("<i", EXCHANGE), struct.pack("<i", self.exchange))
        began = time.monotonic()
        self.send(frame)
        if is_whole:
            self.send(PINGS[self.door])
        else:
            # The rest does not come.
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        answered = self.wait_for(AFTER) is not None
        if not answered:
            self.close()
        return "goes on" if answered else "closed", time.monotonic() - began


def work(seed, frames, addresses, results):
    """Sends so many frames. Tells how they ended, and which took too long: whose, and each time that it was tried."""
    made = Frames(seed)
    connections = {name: Connection(*name, address) for name, address in addresses.items()}
    counts, slowest, slow, lost = Counter(), 0.0, [], 0
    for _ in range(frames):
        door = "mongo" if made.rng.random() < 0.7 else "native"
        whose = made.rng.choice(["open", "open", "open", "open", "open", "open", "stranger", "member"])
        frame, is_whole = made.mongo() if door == "mongo" else made.native_frame()
        connection, times = connections[whose, door], []
        while len(times) < 2 and (not times or times[0] > MOST):
            try:
                ended, seconds = connection.try_frame(frame, is_whole)
            except (TimeoutError, AssertionError) as error:
                ended, seconds = f"hangs: {error}", 20.0
                connection.close()
            times.append(seconds)
        counts[whose, door, ended] += 1
        slowest = max(slowest, *times)
        if times[0] > MOST:
            slow.append((whose, door, times, frame[:400].hex()))
            lost += times[0] >= 20
            if lost > 5:
                break
    results.put((counts, slowest, slow))


def peak_memory(server):
    """The most bytes of memory that were not those of files; the mapped database is."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frames", nargs="?", type=int, default=20_000, metavar="FRAMES")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    seed = int(os.environ.get("TREEDB_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed}", flush=True)
    began, wrong = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="treedb-frames-") as directory:
        directory = pathlib.Path(directory)
        flags = ["--log-level", "info", "--max-inflight-bytes", str(LIMIT)]
        servers = {"open": Server(directory / "open", *flags, "--replica-set", "rs0", "--transaction-seconds", "1", "--enable-test-commands", native=True),
                   "locked": Locked(directory / "locked", *flags, native=True)}
        with servers["open"].client() as client:
            wrong += [f"{name} is never sent" for name in without_a_seed(client.admin.command("listCommands")["commands"])]
            client.canary.c.insert_many(CANARY)
            client.canary.c.create_index("word")
        with servers["locked"].as_user() as root:
            root.fuzz.f.insert_many(CANARY)
            root.admin.command("createUser", GUEST, pwd="another", roles=["root"])
            root.admin.command("createUser", MEMBER, pwd=SECRET, roles=[{"role": "read", "db": "fuzz"}])
            users = root.admin.command("usersInfo", {"forAllDBs": True}, showCredentials=True)["users"]
        of = {"open": "open", "stranger": "locked", "member": "locked"}
        addresses = {(whose, door): servers[server].addresses[door] for whose, server in of.items() for door in ("mongo", "native")}
        results = multiprocessing.Queue()
        shares = [args.frames // args.workers + (i < args.frames % args.workers) for i in range(args.workers)]
        workers = [multiprocessing.Process(target=work, args=(seed * 100 + i, share, addresses, results)) for i, share in enumerate(shares)]
        for worker in workers:
            worker.start()
        memory = {whose: 0 for whose in servers}
        while any(worker.is_alive() for worker in workers) and results.qsize() < len(workers):
            for whose, server in servers.items():
                memory[whose] = max(memory[whose], peak_memory(server))
            time.sleep(0.2)
        counts, slowest, slow = Counter(), 0.0, []
        for worker in workers:
            each, longest, too_long = results.get(timeout=60)
            slowest = max(slowest, longest)
            slow += too_long
            counts += each
        for worker in workers:
            worker.join()
        few = 2 + args.frames // 20_000
        wrong += [f"hang: {each}" for each in slow if each[2][0] > HANGS or each[2][-1] > MOST]
        if len(slow) > few:
            wrong.append(f"{len(slow)} frames took longer than {MOST} s the first time, which {few} may")
        with servers["open"].client() as client:
            still_right(client)
            client.admin.command("killAllSessions", [])
            client.fuzz.command("dropDatabase")
        with servers["locked"].as_user() as root:
            if set(root.list_database_names()) - {"admin", "local", "config", "fuzz"} or list(root.fuzz.f.find().sort("_id", 1)) != CANARY \
                    or root.fuzz.list_collection_names() != ["f"]:
                wrong.append("a user without the privilege has written")
            if root.admin.command("usersInfo", {"forAllDBs": True}, showCredentials=True)["users"] != users:
                wrong.append("a user without the privilege has changed users")
        for whose, server in servers.items():
            if memory[whose] > 2 * LIMIT:
                wrong.append(f"{whose}: {memory[whose] >> 20} MiB of memory")
            if server.stop() != 0:
                wrong.append(f"{whose}: did not stop cleanly")
            wrong += [f"{whose}: {line}" for line in server.log if "panic" in line or "bug" in line]
            done = subprocess.run([BIN, "check", "--dir", str(directory / whose)], capture_output=True, text=True, timeout=300)
            if done.returncode != 0:
                wrong.append(f"{whose}: treedb check: {done.stderr}")
    seconds = time.monotonic() - began
    total = sum(counts.values())
    if total != args.frames:
        wrong.append(f"{total} of {args.frames} frames were tried")
    for (whose, door, ended), count in sorted(counts.items()):
        print(f"  {whose:9} {door:7} {ended:12} {count:9,}")
    for whose, door, times, frame in slow:
        print(f"  slow: {whose}, {door}: {', '.join(f'{each:.1f}' for each in times)} s: {frame}")
    for words in wrong[:30]:
        print(f"  WRONG {words}")
    print(f"summary: frames: {total:,} frames in {seconds:.0f} s, the slowest {slowest * 1000:.0f} ms, {len(slow)} tried again because they took longer than "
          f"{MOST:.0f} s, at most {max(memory.values()) >> 20} MiB of memory, {len(wrong)} wrong")
    print(f"{int(not wrong)} passed, {int(bool(wrong))} failed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
