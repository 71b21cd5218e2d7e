#!/usr/bin/env python3
"""`kill -9` of the server under drivers that retry their writes: what was acknowledged is there exactly once.

    scripts/kill_rounds.sh --retries [ROUNDS]        TREEDB_SEED=n repeats the choices of a run

The server is a replica set on a fixed port. It is killed under load and started again at once, so that drivers send the
write they had no answer to once more: the server has to know whether it was done. All writes are of majority, and not idempotent:
an update adds its number to a list, `insert` of a document that is there fails, `delete` of one that is gone deletes nothing.
A write that fails although it was retried may have been done, once, or not; of a transaction all of it or nothing, and nothing if it was
told that it was aborted. After each round, and once more after a clean stop, everything is compared that any round has written.
"""
import argparse
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "driver"))

import pymongo  # noqa: E402
from pymongo import WriteConcern  # noqa: E402
from pymongo.errors import AutoReconnect, ClientBulkWriteException, PyMongoError  # noqa: E402
from server import BIN, Server  # noqa: E402

MAJORITY = WriteConcern("majority", j=True)
#: How often a transaction is committed until there is an answer.
COMMITS = 10
#: Every so many rounds, and at the end, `treedb check` reads the directory while the server is down.
CHECKED = 5


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class NotDone(Exception):
    """It was not done, and will not be."""


class Writer:
    """One client of its own. `there` and `listed` are what is certain, `open` what may be there or not."""

    def __init__(self, name, seed, uri):
        self.name, self.rng = name, random.Random(f"{seed} {name}")
        self.client = pymongo.MongoClient(uri, serverSelectionTimeoutMS=20_000, socketTimeoutMS=20_000, retryWrites=True)
        database = self.client.get_database("retries", write_concern=MAJORITY)
        self.docs, self.lists = database.docs, database.lists
        self.number = self.acknowledged = self.unknown = self.aborted = self.round = 0
        self.there, self.listed, self.open = set(), {}, {}
        # What transactions without an answer have asked for: the list, the number in it, and the document.
        self.together = []
        self.wrong = []

    def run(self, stop):
        while not stop.is_set():
            try:
                getattr(self, self.rng.choice(WRITES))()
                self.acknowledged += 1
            except NotDone:
                self.aborted += 1
            except AutoReconnect:
                # Also the retry was without an answer.
                self.unknown += 1
            except PyMongoError as error:
                self.wrong.append(f"{self.name}: {type(error).__name__}: {str(error)[:300]}")
                self.unknown += 1
            except Exception:
                # Not the server's: the writer ends.
                self.wrong.append(f"{self.name} died: {traceback.format_exc(limit=-3)}")
                return

    def next(self):
        self.number += 1
        return self.number

    def list(self):
        return f"{self.name}-{self.round}"

    def asked(self, key, run):
        """Runs a write of `key`, of which it is not known whether it is done until it returns."""
        self.open[key] = self.open.get(key, 0) + 1
        result = run()
        self.open[key] -= 1
        return result

    def push(self):
        number, key = self.next(), self.list()
        change = {"$push": {"seen": number}, "$inc": {"n": 1}}
        self.asked((key, number), lambda: self.lists.update_one({"_id": key}, change, upsert=True))
        self.listed.setdefault(key, []).append(number)

    def find_and_push(self):
        number, key = self.next(), self.list()
        change = {"$push": {"seen": number}, "$inc": {"n": 1}}
        found = self.asked((key, number), lambda: self.lists.find_one_and_update({"_id": key}, change, upsert=True, return_document=True))
        self.listed.setdefault(key, []).append(number)
        if found["seen"][-1] != number:
            self.wrong.append(f"{key}: {number} was added, and the answer was {found['seen'][-3:]}")

    def insert(self):
        key = f"{self.name}.{self.next()}"
        self.asked(key, lambda: self.docs.insert_one({"_id": key}))
        self.there.add(key)

    def insert_many(self):
        keys = [f"{self.name}.{self.next()}" for _ in range(5)]
        for key in keys:
            self.open[key] = 1
        self.docs.insert_many([{"_id": key} for key in keys])
        self.open.update(dict.fromkeys(keys, 0))
        self.there.update(keys)

    def delete(self):
        if not self.there:
            return
        key = self.there.pop()
        if self.asked(key, lambda: self.docs.delete_one({"_id": key})).deleted_count != 1:
            self.wrong.append(f"{key}: was there, and nothing was deleted")

    def bulk(self):
        number, list_, key = self.next(), self.list(), f"{self.name}.{self.next()}"
        change = {"$push": {"seen": number}, "$inc": {"n": 1}}
        self.open[list_, number] = self.open[key] = 1
        done = self.lists.bulk_write([pymongo.UpdateOne({"_id": list_}, change, upsert=True)])
        inserted = self.docs.bulk_write([pymongo.InsertOne({"_id": key})])
        self.open[list_, number] = self.open[key] = 0
        self.listed.setdefault(list_, []).append(number)
        self.there.add(key)
        if done.modified_count + done.upserted_count != 1 or inserted.inserted_count != 1:
            self.wrong.append(f"{list_}: {done}, {inserted}")

    def client_bulk(self):
        """The command `bulkWrite`: writes of two collections in one."""
        number, list_, key = self.next(), self.list(), f"{self.name}.{self.next()}"
        change = {"$push": {"seen": number}, "$inc": {"n": 1}}
        self.open[list_, number] = self.open[key] = 1
        try:
            done = self.client.bulk_write([pymongo.UpdateOne({"_id": list_}, change, upsert=True, namespace=self.lists.full_name),
                                           pymongo.InsertOne({"_id": key}, namespace=self.docs.full_name)], write_concern=MAJORITY)
        except ClientBulkWriteException as error:
            raise error.error or error
        self.open[list_, number] = self.open[key] = 0
        self.listed.setdefault(list_, []).append(number)
        self.there.add(key)
        if done.modified_count + done.upserted_count != 1 or done.inserted_count != 1:
            self.wrong.append(f"{list_}: {done}")

    def transaction(self):
        """Writes of two collections in a transaction, whose commit is asked for until there is an answer."""
        number, list_, key = self.next(), self.list(), f"{self.name}.{self.next()}"
        change = {"$push": {"seen": number}, "$inc": {"n": 1}}
        with self.client.start_session() as session:
            session.start_transaction(write_concern=MAJORITY)
            try:
                self.lists.update_one({"_id": list_}, change, upsert=True, session=session)
                self.docs.insert_one({"_id": key}, session=session)
            except PyMongoError as error:
                session.abort_transaction()
                if error.has_error_label("TransientTransactionError"):
                    raise NotDone from error
                raise
            self.open[list_, number] = self.open[key] = 1
            self.together.append((list_, number, key))
            done = commit(session)
        self.open[list_, number] = self.open[key] = 0
        self.together.pop()
        if not done:
            raise NotDone
        self.listed.setdefault(list_, []).append(number)
        self.there.add(key)

    def compare(self):
        """Compares what is in the server with what was acknowledged, in this round and all before."""
        wrong, self.wrong = self.wrong, []
        found = {each["_id"] for each in self.docs.find({"_id": {"$regex": rf"^{self.name}\."}})}
        wrong += [f"{key}: was acknowledged, and is not there" for key in self.there - found]
        wrong += [f"{key}: is there, and was deleted or never written" for key in found - self.there if not self.open.get(key)]
        lists = {each["_id"]: each for each in self.lists.find({"_id": {"$regex": f"^{self.name}-"}})}
        wrong += [f"{key}: is not there" for key in self.listed.keys() - lists.keys()]
        for key, each in lists.items():
            seen = each["seen"]
            if len(set(seen)) != len(seen):
                wrong.append(f"{key}: twice in it: {sorted(n for n in set(seen) if seen.count(n) > 1)}")
            if lost := set(self.listed.get(key, [])) - set(seen):
                wrong.append(f"{key}: acknowledged, and not in it: {sorted(lost)}")
            if strange := [n for n in set(seen) - set(self.listed.get(key, [])) if not self.open.get((key, n))]:
                wrong.append(f"{key}: in it, and never asked for: {strange}")
            if each["n"] != len(seen):
                wrong.append(f"{key}: {len(seen)} numbers, counted {each['n']}")
        for list_, number, key in self.together:
            if (number in lists.get(list_, {"seen": []})["seen"]) != (key in found):
                wrong.append(f"half of a transaction is there: {number} in {list_}, {key}")
        # What was open is certain now.
        self.there, self.listed = found, {key: each["seen"] for key, each in lists.items()}
        self.open.clear()
        self.together.clear()
        self.round += 1
        return wrong


#: The methods of a writer that write.
WRITES = ["push", "push", "push", "find_and_push", "insert", "insert_many", "delete", "bulk", "client_bulk", "client_bulk", "transaction", "transaction"]


def commit(session):
    """Commits until there is an answer: whether it was committed, or aborted because the server ended before it."""
    for attempt in range(COMMITS):
        try:
            session.commit_transaction()
            return True
        except PyMongoError as error:
            if error.has_error_label("TransientTransactionError"):
                return False
            if not error.has_error_label("UnknownTransactionCommitResult") or attempt == COMMITS - 1:
                raise


def check(data):
    """What `treedb check` finds wrong in a directory."""
    done = subprocess.run([BIN, "check", "--dir", str(data)], capture_output=True, text=True, timeout=120)
    return [f"treedb check: {done.stdout}{done.stderr}"] if done.returncode else []


def clean_stop(server):
    """Stops a server, and says what was wrong."""
    status = server.stop()
    return [f"the last stop: {status}: {''.join(server.log[-50:])}"] if status else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=10, metavar="ROUNDS")
    rounds = parser.parse_args().rounds
    seed = int(os.environ.get("TREEDB_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed}", flush=True)
    rng, port = random.Random(seed), free_port()
    began, passed, failed, kills, checks = time.monotonic(), 0, 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="treedb-retries-") as directory:
        data = pathlib.Path(directory) / "db"

        def start():
            return Server(data, "--log-level", "warn", "--mongo", f"127.0.0.1:{port}", "--replica-set", "rs0")

        server = start()
        writers = [Writer(f"w{i}", seed, f"mongodb://127.0.0.1:{port}/?replicaSet=rs0") for i in range(6)]
        for number in range(1, rounds + 1):
            wrong, stop = [], threading.Event()
            acknowledged = [writer.acknowledged for writer in writers]
            threads = [threading.Thread(target=writer.run, args=(stop,)) for writer in writers]
            for thread in threads:
                thread.start()
            # Sometimes twice, so that the retry meets a server that goes, too.
            for _ in range(rng.choice([1, 1, 2])):
                time.sleep(rng.uniform(0.1, 0.5))
                if (status := server.stop(signal.SIGKILL)) != -signal.SIGKILL:
                    wrong.append(f"the server had ended before it was killed: {status}")
                kills += 1
                wrong += [line for line in server.log if "panic" in line or "ERROR" in line]
                if number % CHECKED == 0:
                    wrong += check(data)
                    checks += 1
                server = start()
            # Each has an answer to what it sent before the kill.
            time.sleep(0.3)
            stop.set()
            for thread in threads:
                thread.join(timeout=60)
                if thread.is_alive():
                    wrong.append("a writer hangs")
            for writer, before in zip(writers, acknowledged):
                wrong += writer.compare()
                if writer.acknowledged == before:
                    wrong.append(f"{writer.name}: no write was acknowledged")
            if number == rounds:
                wrong += clean_stop(server)
                wrong += check(data)
                checks += 1
                server = start()
                for writer in writers:
                    wrong += [f"after the last stop: {words}" for words in writer.compare()]
                    writer.client.close()
                wrong += clean_stop(server)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            for words in wrong[:20]:
                print(f"round {number}: {words}", flush=True)
    print(f"summary: retries: {rounds} rounds, {kills} kills, {sum(w.acknowledged for w in writers):,} acknowledged writes, "
          f"{sum(w.unknown for w in writers)} without an answer, {sum(w.aborted for w in writers)} transactions aborted, "
          f"{checks} checks, {failed} rounds wrong, {time.monotonic() - began:.0f} s")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
