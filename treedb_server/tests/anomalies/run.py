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
import queue
import random
import sys
import tempfile
import threading
import time
import traceback

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
#: Seconds that a run may take, and a second more for every 50 operations.
LIMIT = 120


class Worker:
    """One client: its own session, and numbers that nobody else has."""

    def __init__(self, uri, seed, number):
        self.rng, self.number, self.values = random.Random(f"{seed} {number}"), number, 0
        # After an error that says that there is no primary a driver waits for the next heartbeat, which is 10 s off by default.
        self.client = pymongo.MongoClient(uri, serverSelectionTimeoutMS=20_000, socketTimeoutMS=20_000, heartbeatFrequencyMS=500)
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


def guarded(wrong, function, *arguments):
    """What a thread runs: one that dies is wrong, and not only gone."""
    try:
        function(*arguments)
    except Exception:
        wrong.append(f"{function.__qualname__} died: {traceback.format_exc(limit=-3)}")


def work(uri, seed, process, operations, results):
    """A process of clients, each of which does so many operations. Tells their history, and what went wrong."""
    workers, wrong = [Worker(uri, seed, process * THREADS + i + 1) for i in range(THREADS)], []
    threads = [threading.Thread(target=guarded, args=(wrong, worker.run, operations)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(([transaction for worker in workers for transaction in worker.history], wrong))


def collect(results, processes, limit, wrong):
    """The history that the processes tell, who have so many seconds."""
    history, waited, end = [], len(processes), time.monotonic() + limit
    while waited:
        # Asked before the queue: what a process put there before it ended is found.
        died = [each.exitcode for each in processes if each.exitcode]
        try:
            told, failed = results.get(timeout=1)
        except queue.Empty:
            if died or time.monotonic() > end:
                wrong.append(f"{waited} processes of clients told nothing in {limit:.0f} s; of those that died the status is {died}")
                break
            continue
        history += told
        wrong += failed
        waited -= 1
    for each in processes:
        if waited:
            each.kill()
        each.join()
    return history


def disturb(server, seed, stop, counts):
    """Sets fail points, one after the other, and counts the failures that came of it."""
    rng = random.Random(seed)

    def count(reply, point):
        # How often it was entered since it was set the last time.
        counts[point] += reply["count"]

    with server.client() as client:
        wait = 0.02
        while not stop.wait(wait):
            wait, happened = rng.uniform(0.05, 0.4), any(counts.values())
            if happened and rng.random() < 0.2:
                point, data = "onPrimaryTransactionalWrite", {"closeConnection": True}
            else:
                point = "failCommand"
                # Until there has been one, whatever comes fails: a short run has failures, too.
                commands = [["commitTransaction"], ["update"], ["find"], ["abortTransaction"]] if happened else [["update", "find"]]
                data = {"failCommands": rng.choice(commands)}
                data |= rng.choice([{"closeConnection": True}, {"errorCode": 10107}, {"errorCode": 112},
                                    {"blockConnection": True, "blockTimeMS": 30}])
                if data.get("errorCode") == 112:
                    data["errorLabels"] = ["TransientTransactionError"]
                    data["failCommands"] = ["update"]
            count(client.admin.command({"configureFailPoint": point, "mode": {"times": 1}, "data": data}), point)
        for point in counts:
            count(client.admin.command({"configureFailPoint": point, "mode": "off"}), point)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operations", nargs="?", type=int, default=5_000, metavar="OPERATIONS")
    operations = parser.parse_args().operations
    seed = int(os.environ.get("TREEDB_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed}", flush=True)
    began, processes, wrong = time.monotonic(), max(2, os.cpu_count()), []
    share = -(-operations // (processes * THREADS))
    with tempfile.TemporaryDirectory(prefix="treedb-anomalies-") as directory:
        server = Server(pathlib.Path(directory) / "db", "--log-level", "warn", "--replica-set", "rs0", "--enable-test-commands")
        results, stop, failures = multiprocessing.Queue(), threading.Event(), dict.fromkeys(("failCommand", "onPrimaryTransactionalWrite"), 0)
        host, port = server.addresses["mongo"]
        workers = [multiprocessing.Process(target=work, args=(f"mongodb://{host}:{port}/?replicaSet=rs0", seed, i, share, results))
                   for i in range(processes)]
        for worker in workers:
            worker.start()
        disturber = threading.Thread(target=guarded, args=(wrong, disturb, server, seed, stop, failures))
        disturber.start()
        history = collect(results, workers, LIMIT + operations / 50, wrong)
        stop.set()
        disturber.join()
        with server.client() as client:
            final = {each["_id"]: each["values"] for each in client.elle.lists.find()}
            registers = {each["_id"]: each["value"] for each in client.elle.registers.find()}
        if server.stop() != 0 or any("panic" in line for line in server.log):
            print("".join(server.log[-50:]))
            sys.exit("the server did not stop cleanly")
    ran = time.monotonic() - began
    executed = sum(len(each.operations) for each in history)
    ways = {how: sum(each.how == how for each in history) for how in ("committed", "aborted", "unknown")}
    if executed < operations:
        wrong.append(f"{executed} operations of {operations}")
    if not ways["committed"] or not ways["aborted"]:
        wrong.append("nothing was tested")
    if not sum(failures.values()):
        wrong.append("no failure happened")
    # A history that is not whole has anomalies of its own.
    check = None if wrong else Check(history, final, registers)
    wrong += check.wrong if check else []
    for words in wrong[:30]:
        print(f"  WRONG {words}")
    print(f"summary: anomalies: {executed:,} operations in {ways['committed']:,} transactions that were committed, {ways['aborted']:,} that "
          f"were aborted and {ways['unknown']} without an answer; {sum(failures.values()):,} failures; "
          + (f"{check.dependencies:,} dependencies, {len(check.wrong)} anomalies" if check else "the history was not checked")
          + f"; {ran:.0f} s, and {time.monotonic() - began - ran:.0f} s to check")
    print(f"{int(not wrong)} passed, {int(bool(wrong))} failed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
