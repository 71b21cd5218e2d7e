#!/usr/bin/env python3
"""Malformed frames for both protocols, against servers that must stay right: scripts/frame_tests.sh [FRAMES]

Three quarters go to a server that asks for no password, the others to one that does, from clients that have none. After each
frame the connection has to answer a ping or end, within a second. At the end: no panic in the log, no memory beyond twice
the limit, a clean stop, the other documents as they were, and a database in which `treedb check` finds nothing.

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

from frames import NATIVE_GREETING, REQUEST, Frames, body, OP_MSG, PING  # noqa: I001 (it extends the path)
from server import BIN, Locked, Server  # noqa: E402
from test_fuzz import CANARY, still_right  # noqa: E402

#: Bytes of requests and answers that the servers may hold: what each may use of memory is at most twice that.
LIMIT = 192 << 20
#: Seconds that a frame may take.
MOST = 1.0
#: Slow may be the machine: what is too slow is tried so many times more, and is a hang if it is so each time.
AGAIN = 4

PING_MONGO = struct.pack("<iiiiI", 20 + len(body(PING)), 78, 0, OP_MSG, 0) + body(PING)
HELLO_MONGO = body({"hello": 1, "compression": ["snappy", "zlib", "zstd"], "$db": "admin"})
HELLO_MONGO = struct.pack("<iiiiI", 20 + len(HELLO_MONGO), 79, 0, OP_MSG, 0) + HELLO_MONGO
PING_NATIVE = struct.pack("<IHHQ", 0, 0x02, 0, 78)


class Connection:
    """A connection that sees which of its frames are answered."""

    def __init__(self, door, address):
        self.door, self.address, self.socket = door, address, None

    def open(self):
        self.close()
        self.socket = socket.create_connection(self.address, timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.send(HELLO_MONGO if self.door == "mongo" else NATIVE_GREETING)
        assert self.wait_for({79, 1}), "the greeting was not answered"

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def wait_for(self, numbers):
        """Reads answers up to one with a number of those. False if the connection has ended before it."""
        while True:
            while (frame := self.take()) is not None:
                if frame in numbers:
                    return True
            try:
                more = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return False
            if not more:
                return False
            self.buffer += more

    def take(self):
        """The number that the next whole answer is to, or nothing if there is none yet."""
        if len(self.buffer) < 16:
            return None
        if self.door == "mongo":
            length, _, number, _ = struct.unpack_from("<iiii", self.buffer)
        else:
            length, _, _, number = struct.unpack_from("<IHHQ", self.buffer)
            length += 16
        if len(self.buffer) < length:
            return None
        self.buffer = self.buffer[length:]
        return number

    def try_frame(self, frame, is_whole):
        """Sends a frame. Returns how it ended, and after how many seconds."""
        if self.socket is None:
            self.open()
        began = time.monotonic()
        self.send(frame)
        if is_whole:
            self.send(PING_MONGO if self.door == "mongo" else PING_NATIVE)
        else:
            # The rest does not come.
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        answered = self.wait_for({78})
        if not answered:
            self.close()
        return "goes on" if answered else "closed", time.monotonic() - began


def work(seed, frames, addresses, results):
    """Sends so many frames."""
    made = Frames(seed)
    connections = {name: Connection(name[1], address) for name, address in addresses.items()}
    counts, slowest, hangs = {}, 0.0, []
    for _ in range(frames):
        door = "mongo" if made.rng.random() < 0.7 else "native"
        whose = "open" if made.rng.random() < 0.75 else "locked"
        frame, is_whole = made.mongo() if door == "mongo" else made.native_frame()
        connection = connections[whose, door]
        try:
            ended, seconds = connection.try_frame(frame, is_whole)
            tries = 0
            while seconds > MOST and tries < AGAIN:
                tries += 1
                ended, seconds = connection.try_frame(frame, is_whole)
        except (TimeoutError, AssertionError) as error:
            ended, seconds = f"hangs: {error}", 20.0
            connection.close()
        counts[door, ended] = counts.get((door, ended), 0) + 1
        slowest = max(slowest, seconds)
        if seconds > MOST:
            hangs.append((whose, door, seconds, frame[:400].hex()))
            if len(hangs) > 20:
                break
    results.put((counts, slowest, hangs))


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
        servers = {"open": Server(directory / "open", *flags, native=True),
                   "locked": Locked(directory / "locked", *flags, native=True)}
        with servers["open"].client() as client:
            client.canary.c.insert_many(CANARY)
            client.canary.c.create_index("word")
        addresses = {(whose, door): server.addresses[door] for whose, server in servers.items() for door in ("mongo", "native")}
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
        counts, slowest = {}, 0.0
        for worker in workers:
            each, slow, hangs = results.get(timeout=60)
            slowest = max(slowest, slow)
            wrong += [f"hang: {hang}" for hang in hangs]
            for key, count in each.items():
                counts[key] = counts.get(key, 0) + count
        for worker in workers:
            worker.join()
        with servers["open"].client() as client:
            still_right(client)
            client.fuzz.command("dropDatabase")
        with servers["locked"].as_user() as client:
            if set(client.list_database_names()) - {"admin", "local", "config"}:
                wrong.append("somebody without a password has written")
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
    for (door, ended), count in sorted(counts.items()):
        print(f"  {door:7} {ended:12} {count:9,}")
    for words in wrong[:30]:
        print(f"  WRONG {words}")
    print(f"summary: frames: {total:,} in {seconds:.0f} s, the slowest {slowest * 1000:.0f} ms, "
          f"at most {max(memory.values()) >> 20} MiB of memory, {len(wrong)} wrong")
    print(f"{int(not wrong)} passed, {int(bool(wrong))} failed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
