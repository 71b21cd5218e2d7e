#!/usr/bin/env python3
"""Transactions of many clients at once, whose history must be one of strict snapshot isolation: history.py says how it is checked.

    scripts/anomaly_tests.sh [OPERATIONS]        TREEDB_SEED=n repeats the choices of a run

Lists that transactions append to, and registers that they read and write, on few keys, so that they meet; single writes and reads
beside them; and failures by fail points: connections that break before a command, at its commit, and after a write was done;
errors by which drivers try again; commands that are held up.
"""
import argparse
import multiprocessing
import os
import pathlib
import random
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "driver"))

import pymongo  # noqa: E402
from history import Check, Transaction  # noqa: E402
from pymongo.errors import PyMongoError  # noqa: E402
from pymongo.read_concern import ReadConcern  # noqa: E402
from pymongo.write_concern import WriteConcern  # noqa: E402
from server import Server  # noqa: E402

#: Keys in use at a time, of each kind; transactions of one client that use them.
KEYS, PERIOD = 6, 60
THREADS = 5
MAJORITY = WriteConcern("majority")


class Worker:
    """One client: its own session, and numbers that nobody else has."""

    def __init__(self, uri, seed, number):
        self.rng, self.number, self.values = random.Random(f"{seed} {number}"), number, 0
        self.client = pymongo.MongoClient(uri, serverSelectionTimeoutMS=20_000, socketTimeoutMS=20_000)
        database = self.client.get_database("elle", write_concern=MAJORITY)
        self.lists, self.registers = database.lists, database.registers
        self.history = []

    def run(self, operations):
        with self.client.start_session(causal_consistency=False) as session:
            done = 0
            while done < operations:
                done += self.single() if self.rng.random() < 0.1 else self.transaction(session)
        self.client.close()

    def key(self, kind):
        return f"{kind}{len(self.history) // PERIOD}.{self.rng.randrange(KEYS)}"

    def value(self):
        self.values += 1
        return self.number * 10_000_000 + self.values

    def single(self):
        """A write or a read outside of transactions, which is one of its own."""
        key, began, how = self.key("l"), time.monotonic(), "committed"
        operation = ("append", key, self.value()) if self.rng.random() < 0.5 else None
        try:
            if operation:
                self.append(key, operation[2], None)
            else:
                operation = self.read(key, None)
        except PyMongoError:
            if operation is None:
                return 0
            how = "unknown"
        self.history.append(Transaction(began, time.monotonic(), how, [operation]))
        return 1

    def transaction(self, session):
        operations, began, how = [], time.monotonic(), "aborted"
        session.start_transaction(ReadConcern("snapshot"), MAJORITY)
        try:
            for _ in range(self.rng.randrange(1, 7)):
                match self.rng.randrange(4):
                    case 0:
                        operations.append(self.read(self.key("l"), session))
                    case 1:
                        operation = ("append", self.key("l"), self.value())
                        operations.append(operation)
                        self.append(*operation[1:], session)
                    case 2:
                        operations.append(self.get(self.key("r"), session))
                    case _:
                        key = self.key("r")
                        operations.append(self.get(key, session))
                        operations.append(("write", key, self.value()))
                        self.registers.update_one({"_id": key}, {"$set": {"value": operations[-1][2]}}, upsert=True, session=session)
            if self.rng.random() < 0.05:
                session.abort_transaction()
            else:
                how = "unknown"
                how = self.commit(session)
        except PyMongoError:
            if session.in_transaction:
                try:
                    session.abort_transaction()
                except PyMongoError:
                    pass
        self.history.append(Transaction(began, time.monotonic(), how, operations))
        return len(operations)

    @staticmethod
    def commit(session):
        """How it ended, which is asked again as long as there is no answer."""
        for _ in range(10):
            try:
                session.commit_transaction()
                return "committed"
            except PyMongoError as error:
                if error.has_error_label("TransientTransactionError"):
                    return "aborted"
                if not error.has_error_label("UnknownTransactionCommitResult"):
                    return "unknown"
        return "unknown"

    def append(self, key, value, session):
        self.lists.update_one({"_id": key}, {"$push": {"values": value}}, upsert=True, session=session)

    def read(self, key, session):
        found = self.lists.find_one({"_id": key}, session=session)
        return ("read", key, tuple(found["values"]) if found else ())

    def get(self, key, session):
        found = self.registers.find_one({"_id": key}, session=session)
        return ("get", key, found["value"] if found else None)


def work(uri, seed, process, operations, results):
    workers = [Worker(uri, seed, process * THREADS + i + 1) for i in range(THREADS)]
    threads = [threading.Thread(target=worker.run, args=(operations // THREADS,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put([transaction for worker in workers for transaction in worker.history])


def disturb(server, seed, stop, counts):
    """Sets fail points, one after the other."""
    rng = random.Random(seed)
    with server.client() as client:
        while not stop.wait(rng.uniform(0.05, 0.4)):
            if rng.random() < 0.2:
                point, data = "onPrimaryTransactionalWrite", {"closeConnection": True}
            else:
                point = "failCommand"
                data = {"failCommands": rng.choice([["commitTransaction"], ["update"], ["find"], ["abortTransaction"]])}
                data |= rng.choice([{"closeConnection": True}, {"errorCode": 10107}, {"errorCode": 112},
                                    {"blockConnection": True, "blockTimeMS": 30}])
                if data.get("errorCode") == 112:
                    data["errorLabels"] = ["TransientTransactionError"]
                    data["failCommands"] = ["update"]
            client.admin.command({"configureFailPoint": point, "mode": {"times": 1}, "data": data})
            counts[point] = counts.get(point, 0) + 1
        for point in ("failCommand", "onPrimaryTransactionalWrite"):
            client.admin.command({"configureFailPoint": point, "mode": "off"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operations", nargs="?", type=int, default=5_000, metavar="OPERATIONS")
    operations = parser.parse_args().operations
    seed = int(os.environ.get("TREEDB_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed}", flush=True)
    began, processes = time.monotonic(), max(2, os.cpu_count())
    with tempfile.TemporaryDirectory(prefix="treedb-anomalies-") as directory:
        server = Server(pathlib.Path(directory) / "db", "--log-level", "warn", "--replica-set", "rs0", "--enable-test-commands")
        results, stop, failures = multiprocessing.Queue(), threading.Event(), {}
        host, port = server.addresses["mongo"]
        workers = [multiprocessing.Process(target=work, args=(f"mongodb://{host}:{port}/?replicaSet=rs0", seed, i, operations // processes, results))
                   for i in range(processes)]
        for worker in workers:
            worker.start()
        disturber = threading.Thread(target=disturb, args=(server, seed, stop, failures))
        disturber.start()
        history = [transaction for _ in workers for transaction in results.get()]
        for worker in workers:
            worker.join()
        stop.set()
        disturber.join()
        with server.client() as client:
            final = {each["_id"]: each["values"] for each in client.elle.lists.find()}
        if server.stop() != 0 or any("panic" in line for line in server.log):
            print("".join(server.log[-50:]))
            sys.exit("the server did not stop cleanly")
    ran = time.monotonic() - began
    check = Check(history, final)
    ways = {how: sum(each.how == how for each in history) for how in ("committed", "aborted", "unknown")}
    for words in check.wrong[:30]:
        print(f"  WRONG {words}")
    print(f"summary: anomalies: {sum(len(each.operations) for each in history):,} operations in {ways['committed']:,} transactions that were "
          f"committed, {ways['aborted']:,} that were aborted and {ways['unknown']} without an answer; {sum(failures.values()):,} failures; "
          f"{check.dependencies:,} dependencies, {len(check.wrong)} anomalies; {ran:.0f} s, and {time.monotonic() - began - ran:.0f} s to check")
    if not ways["committed"] or not ways["aborted"]:
        check.wrong.append("nothing was tested")
    print(f"{int(not check.wrong)} passed, {int(bool(check.wrong))} failed")
    sys.exit(1 if check.wrong else 0)


if __name__ == "__main__":
    main()
