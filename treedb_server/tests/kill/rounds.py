#!/usr/bin/env python3
"""`kill -9` of the real server under load, round after round on one directory.

    scripts/kill_rounds.sh [ROUNDS]        TREEDB_SEED=n repeats the choices of a run

Writers of both doors write, durable and relaxed; a builder creates and drops indexes, one of them of vectors, and makes
checkpoints. What they try and what is acknowledged goes to a file (journal.py). The server is killed somewhere in
between, sometimes again while it recovers. Then everything in it is compared with the file, documents with every index,
searches of vectors with the distances of documents, and in some rounds `treedb check` reads the directory before the
server does.
"""
import argparse
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "driver"))

from journal import Expected, Journal  # noqa: E402
from native import Native  # noqa: E402
from server import BIN, Server  # noqa: E402
from writers import INDEXES, NEAR, TABLE, Builder, MongoWriter, NativeWriter, document, random_vector, value  # noqa: E402

#: Every so many rounds: `treedb check` while the server is down; a second kill while it recovers.
CHECKED, INTERRUPTED = 5, 4
#: Searches of the vector index after a kill, and how many documents each finds.
SEARCHES, NEAREST = 20, 10


class Rounds:
    """The state that goes from round to round: the directory, the file, the writers."""

    def __init__(self, directory, seed):
        self.rng = random.Random(seed)
        self.directory = directory / "db"
        self.journal = Journal(directory / "acknowledged.jsonl")
        self.expected = Expected(self.journal.path)
        self.writers = [*(MongoWriter(f"m{i}", seed, self.journal) for i in range(4)),
                        *(NativeWriter(f"n{i}", seed, self.journal) for i in range(2)),
                        Builder("b", seed, self.journal)]
        self.lost = self.half = self.other = 0
        self.checks = self.interrupted = self.searches = 0
        self.server = self.start()

    def start(self):
        server = Server(self.directory, "--log-level", "warn", native=True)
        server.load_client = server.client(maxPoolSize=20, retryWrites=True)
        return server

    def round(self, number):
        """One round. Returns what is wrong, in words."""
        wrong = []
        threads = [threading.Thread(target=writer.run, args=(self.server,)) for writer in self.writers]
        for thread in threads:
            thread.start()
        time.sleep(self.rng.uniform(0.1, 0.6))
        os.kill(self.server.process.pid, signal.SIGKILL)
        for thread in threads:
            thread.join(timeout=30)
            if thread.is_alive():
                wrong.append("a writer did not notice that the server is gone")
        self.stopped(wrong)
        for writer in self.writers:
            wrong += writer.failures
            writer.failures = []
        if number % INTERRUPTED == 0:
            self.interrupt()
        if number % CHECKED == 0:
            self.check(wrong)
        self.server = self.start()
        self.other += len(wrong)
        found = self.read(wrong)
        lost, half = self.expected.compare(found, self.journal)
        self.lost, self.half = self.lost + len(lost), self.half + len(half)
        for writer in self.writers:
            writer.settle(self.expected.settled)
        if lost or half or wrong:
            # The content of the file, for debugging.
            keep = pathlib.Path(tempfile.mkdtemp(prefix="treedb-kill-failed-"))
            (keep / self.journal.path.name).write_bytes(self.journal.path.read_bytes())
            wrong.append(f"the acknowledgement file is kept: {keep / self.journal.path.name}")
        return wrong + [f"lost: {words}" for words in lost] + [f"half there: {words}" for words in half]

    def stopped(self, wrong):
        self.server.load_client.close()
        self.server.stop()
        wrong += [line for line in self.server.log if "panic" in line or "ERROR" in line]

    def interrupt(self):
        """Starts the server and kills it again, before or after it has recovered."""
        self.interrupted += 1
        process = subprocess.Popen([BIN, "serve", "--dir", str(self.directory), "--mongo", "127.0.0.1:0"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.rng.uniform(0.0, 0.06))
        process.kill()
        process.wait()

    def check(self, wrong):
        """`treedb check` on the directory as the kill left it."""
        self.checks += 1
        done = subprocess.run([BIN, "check", "--dir", str(self.directory)], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            wrong.append(f"treedb check: {done.stdout}{done.stderr}")

    def read(self, wrong):
        """Everything that is in the server, as key -> version; compares documents with their versions and with every
        index on the way."""
        found = {}
        database = self.server.load_client.get_database("load")
        documents = {each["_id"]: each for each in database.docs.find()}
        for key, each in documents.items():
            found[f"docs/{key}"] = each.get("v")
            if each != document(key, each.get("v", 0)):
                self.half += 1
                wrong.append(f"half there: {key} is {str(each)[:300]}")
        indexes = {index["name"] for index in database.docs.list_indexes()} - {"_id_"}
        for name in indexes:
            found[f"index/{name}"] = 1
            # A compound hint makes the query walk the index, whose entries lead to the documents.
            field = INDEXES[name][0][0][0]
            walked = [each["_id"] for each in database.docs.find({field: {"$exists": True}}, {"_id": 1}).hint(name)]
            if sorted(walked) != sorted(documents):
                self.half += 1
                wrong.append(f"half there: index {name} leads to {len(walked)} of {len(documents)} documents")
        if any(index["name"] == NEAR for index in database.docs.list_search_indexes()):
            found[f"index/{NEAR}"] = 1
            self.search(database.docs, documents, wrong)
        for name in self.server.load_client.get_database("extra").list_collection_names():
            found[f"collection/{name}"] = 1
        connection = Native(self.server.addresses["native"])
        for key, data in connection.kv_all(TABLE):
            key, version = key.decode(), int(data.split(b"=", 2)[1])
            found[f"kv/{key}"] = version
            if data != value(key, version):
                self.half += 1
                wrong.append(f"half there: the value of {key}")
        connection.close()
        return found

    def search(self, docs, documents, wrong):
        """Compares searches of the vector index with the distances of documents: the scores, and how many of the nearest
        are found."""
        def score(query, document):
            return 1 / (1 + math.dist(query, document["e"]))

        expected = hits = 0
        for _ in range(SEARCHES if documents else 0):
            query = random_vector(self.rng)
            if self.rng.random() < 0.5:
                query = self.rng.choice(list(documents.values()))["e"]
            stage = {"index": NEAR, "path": "e", "queryVector": query, "numCandidates": 100, "limit": NEAREST}
            found = list(docs.aggregate([
                {"$vectorSearch": stage}, {"$project": {"v": 1, "score": {"$meta": "vectorSearchScore"}}}]))
            for each in found:
                there = documents.get(each["_id"], {"v": None, "e": query})
                if there["v"] != each["v"] or abs(score(query, there) - each["score"]) > 1e-5:
                    self.half += 1
                    wrong.append(f"half there: index {NEAR} finds {each}, where there is {str(there)[:300]}")
            self.searches += 1
            # Of those that are as near as the last, any will do.
            scores = sorted((score(query, document) for document in documents.values()), reverse=True)[:NEAREST]
            expected += len(scores)
            hits += sum(each["score"] >= scores[-1] - 1e-5 for each in found)
        if hits < 0.97 * expected:
            self.half += 1
            wrong.append(f"half there: searches of index {NEAR} find {hits} of {expected} documents")

    def finish(self):
        """A clean stop, and a last look at the directory."""
        wrong = []
        self.server.load_client.close()
        if self.server.stop() != 0:
            wrong.append(f"the last stop: {''.join(self.server.log)}")
        self.check(wrong)
        self.other += len(wrong)
        return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=50, metavar="ROUNDS")
    wanted = parser.parse_args().rounds
    seed = int(os.environ.get("TREEDB_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed}", flush=True)
    began, passed, failed = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="treedb-kill-") as directory:
        rounds = Rounds(pathlib.Path(directory), seed)
        for number in range(1, wanted + 1):
            wrong = rounds.round(number)
            if number == wanted:
                wrong += rounds.finish()
            passed, failed = passed + (not wrong), failed + bool(wrong)
            acknowledged = sum(rounds.expected.acknowledged.values())
            print(f"round {number}: {acknowledged} acknowledged so far, {len(wrong)} wrong", flush=True)
            for words in wrong[:20]:
                print(f"    {words}", flush=True)
    counts = rounds.expected.acknowledged
    print(f"summary: kill: {wanted} rounds, {sum(counts.values())} acknowledged writes ({counts['durable']} durable, "
          f"{counts['relaxed']} relaxed), {rounds.lost} lost, {rounds.half} half there, {rounds.other} other failures, "
          f"{rounds.interrupted} second kills at recovery, {rounds.checks} checks, "
          f"{rounds.searches} searches of a vector index, {time.monotonic() - began:.0f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
