"""Finds documents by `_id` through PyMongo, one after another on one connection: a client of the suite `access_paths`.

    python bench/pymongo_finds.py HOST:PORT DATABASE COLLECTION DOCUMENTS

For each line `SEED SECONDS` of its input it finds some of the first DOCUMENTS documents, chosen evenly, for so long. It answers with
a line: the nanoseconds that this took, and then those that each find took. Each document that was found is checked.
"""
import random
import sys
import time

from pymongo import MongoClient


def finds(collection, documents, seed, seconds):
    numbers = random.Random(seed)
    latencies = []
    started = time.perf_counter_ns()
    end = started + int(seconds * 1e9)
    while time.perf_counter_ns() < end:
        number = numbers.randrange(documents)
        key = f"doc-{number:012}"
        began = time.perf_counter_ns()
        found = collection.find_one({"_id": key})
        latencies.append(time.perf_counter_ns() - began)
        if found is None or found["_id"] != key or found["email"] != f"user{number:012}@example.test" or len(found) != 8:
            sys.exit(f"{found} was found instead of {key}")
    return time.perf_counter_ns() - started, latencies


def main():
    address, database, collection, documents = sys.argv[1:]
    with MongoClient(f"mongodb://{address}/?directConnection=true") as client:
        for line in sys.stdin:
            seed, seconds = line.split()
            took, latencies = finds(client[database][collection], int(documents), int(seed), float(seconds))
            print(took, *latencies, flush=True)


if __name__ == "__main__":
    main()
