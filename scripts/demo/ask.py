#!/usr/bin/env python3
"""Loads the Postgres side of the demo and asks every door the same questions; exits 1 if two answers differ."""
import argparse
import json
import statistics
import subprocess
import sys
import time

import psycopg
import pymongo
from bson import json_util

RELAXED = json_util.RELAXED_JSON_OPTIONS
# Title, filter, and how to show what is found: sort, limit, projection.
QUESTIONS = [
    ("one package by its _id", {"_id": "postgresql-15"}, {"projection": {"version": 1, "size": 1, "summary": 1}}),
    ("the five largest of a section", {"section": "database"},
     {"sort": {"size": -1}, "limit": 5, "projection": {"size": 1}}),
    ("packages over 500 MB", {"size": {"$gt": 500_000_000}}, {"sort": {"size": -1, "_id": 1}, "projection": {"size": 1}}),
    ("who depends on libpq5 (inside arrays)", {"depends.name": "libpq5", "section": {"$ne": "debug"}},
     {"sort": {"_id": 1}, "limit": 20, "projection": {"_id": 1}}),
    ("small, or essential, and tagged", {"$and": [{"tags": {"$in": ["role::program"]}}, {"homepage": {"$exists": True}},
     {"$or": [{"installed_kb": {"$lt": 20}}, {"priority": "required"}]}]},
     {"sort": {"installed_kb": 1, "_id": 1}, "limit": 10, "projection": {"installed_kb": 1}}),
]
INDEXES = [{"section": 1, "size": -1}, {"size": 1}, {"depends.name": 1}]
REPEATS = 15


def bar(done, total, started):
    """One line of progress, drawn over the last."""
    if sys.stderr.isatty() or done == total:
        width = 40 * done // total
        rate = done / max(time.monotonic() - started, 1e-9)
        sys.stderr.write(f"\r  [{'#' * width}{'.' * (40 - width)}] {done:,}/{total:,}  {rate:,.0f}/s ")
        sys.stderr.write("\n" if done == total else "")
        sys.stderr.flush()


def load_postgres(db, path):
    """The documents as a collection, a thousand at a time."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    db.execute("CREATE EXTENSION treedb")
    db.execute("SELECT treedb.create_collection('packages')")
    started = time.monotonic()
    for at in range(0, len(lines), 1000):
        batch = "[" + ",".join(lines[at:at + 1000]) + "]"
        db.execute("SELECT treedb.insert_many('packages', %s)", [batch])
        bar(min(at + 1000, len(lines)), len(lines), started)
    for keys in INDEXES:
        db.execute("SELECT treedb.create_index('packages', %s)", [json.dumps(keys)])
    db.execute("ANALYZE")


def timed(ask):
    """What `ask` returns, and the median of its times in milliseconds."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        answer = ask()
        times.append((time.perf_counter() - started) * 1000)
    return answer, statistics.median(times)


class Mongo:
    """Any MongoDB driver: here PyMongo."""

    def __init__(self, address):
        self.packages = pymongo.MongoClient(f"mongodb://{address}/?directConnection=true").debian.packages
        for keys in INDEXES:
            self.packages.create_index(list(keys.items()))

    def ask(self, where, how):
        def once():
            found = self.packages.find(where, how.get("projection"))
            if "sort" in how:
                found = found.sort(list(how["sort"].items()))
            return list(found.limit(how.get("limit", 0)))
        answer, ms = timed(once)
        return [json.loads(json_util.dumps(doc, json_options=RELAXED)) for doc in answer], ms


class Native:
    """The native protocol, through the command-line client, which tells how long the answer took."""

    def __init__(self, program, address):
        self.command = [program, "find", "debian.packages", "--native", address, "--time"]

    def ask(self, where, how):
        command = self.command + [json.dumps(where)]
        for name in ("sort", "projection"):
            if name in how:
                command += [f"--{name}", json.dumps(how[name])]
        if "limit" in how:
            command += ["--limit", str(how["limit"])]
        times = []
        for _ in range(REPEATS):
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            times.append(float(done.stderr.split()[0]))
        return [json.loads(line) for line in done.stdout.splitlines()], statistics.median(times)


class Sql:
    """The extension, through psycopg."""

    def __init__(self, dsn, path):
        self.db = psycopg.connect(dsn, autocommit=True)
        load_postgres(self.db, path)

    def ask(self, where, how):
        options = json.dumps(how)
        query = "SELECT doc::text FROM treedb.find('packages', %s, %s) AS doc"
        answer, ms = timed(lambda: self.db.execute(query, [json.dumps(where), options]).fetchall())
        return [json.loads(row[0]) for row in answer], ms


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mongo", required=True)
    parser.add_argument("--native", required=True)
    parser.add_argument("--treedb", required=True)
    parser.add_argument("--postgres", required=True)
    parser.add_argument("file")
    args = parser.parse_args()
    doors = {"MongoDB driver": Mongo(args.mongo), "native": Native(args.treedb, args.native),
             "SQL": Sql(args.postgres, args.file)}
    print("\n\033[1m5. The same questions at every door\033[0m")
    different = 0
    for title, where, how in QUESTIONS:
        print(f"\n{title}\n  {json.dumps(where)}")
        answers = {name: door.ask(where, how) for name, door in doors.items()}
        (first, _), *others = answers.values()
        same = all(answer == first for answer, _ in others)
        different += not same
        for doc in first[:3]:
            print(f"    {json.dumps(doc, ensure_ascii=False)[:110]}")
        if len(first) > 3:
            print(f"    .. {len(first)} documents")
        print("  " + "   ".join(f"{name} {ms:.2f} ms" for name, (_, ms) in answers.items())
              + ("   same answer" if same else "   THE ANSWERS DIFFER"))
        if not same:
            for name, (answer, _) in answers.items():
                print(f"    {name}: {json.dumps(answer, ensure_ascii=False)[:300]}")
    print(f"\n{len(QUESTIONS)} questions, {different} with different answers (times: median of {REPEATS}, "
          "round trip and decoding included)")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
