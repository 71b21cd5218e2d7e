#!/usr/bin/env python3
"""treedb_hnsw beside pgvector's hnsw on one server: scripts/pg_vectors.sh [--rows N] [--dimensions D] [--vectors FILE] [--ef ..].

Two tables have the same vectors of pgvector's type, one with each index, made by statements that differ in the name of the
access method only. For each `ef` both answer the same queries: recall of the 10 nearest against brute force, and queries a second of
one pgbench client with prepared statements over a Unix socket, in rounds that alternate; the median is shown. Also: seconds
of CREATE INDEX with one process, microseconds for each row inserted one by one into a full index, bytes of the index, and the
same with a condition that keeps one row in a hundred.

The vectors lie in clusters, each of which varies in a few directions only, as embeddings do; or they are those of a file of
little-endian floats (`--vectors FILE`), such as `bench/text_vectors.py` makes: 384 dimensions, the last ones are the queries.
"""
import argparse
import os
import random
import re
import statistics
import struct
import time

from claims import one
from cluster import Cluster

SETTINGS = ["shared_buffers = 1GB", "maintenance_work_mem = 1GB", "max_parallel_maintenance_workers = 0", "wal_level = replica",
            "max_parallel_workers_per_gather = 0", "autovacuum = off", "jit = off"]
SIDES = {"treedb": ("treedb_hnsw", "treedb.hnsw_ef_search"), "pgvector": ("hnsw", "hnsw.ef_search")}


def vectors(count, dimensions, dice):
    """Vectors in clusters as pgvector's text, a generator."""
    latent = 12
    centres = [[dice.gauss(0, 1) for _ in range(dimensions)] for _ in range(100)]
    bases = [[[dice.gauss(0, 1) for _ in range(dimensions)] for _ in range(latent)] for _ in range(10)]
    for _ in range(count):
        cluster = dice.randrange(len(centres))
        sizes = [dice.gauss(0, 0.35) for _ in range(latent)]
        base = bases[cluster % len(bases)]
        noise = [dice.gauss(0, 0.05) for _ in range(16)]
        vector = (centres[cluster][i] + sum(s * b[i] for s, b in zip(sizes, base, strict=True)) + noise[i % 16] for i in range(dimensions))
        yield "[" + ",".join(f"{element:.4f}" for element in vector) + "]"


def stored_vectors(count, dimensions, file):
    """The same of a file."""
    size = 4 * dimensions
    with open(file, "rb") as data:
        for _ in range(count):
            read = data.read(size)
            if len(read) < size:
                raise SystemExit(f"{file} has fewer than {count} vectors of {dimensions} dimensions")
            yield "[" + ",".join(f"{element:.6f}" for element in struct.unpack(f"<{dimensions}f", read)) + "]"


def fill(db, args):
    count = args.rows + args.queries
    source = stored_vectors(count, args.dimensions, args.vectors) if args.vectors else vectors(count, args.dimensions, random.Random(1))
    db.execute("CREATE EXTENSION vector")
    db.execute("SELECT treedb.enable_pgvector()")
    db.execute(f"CREATE TABLE all_vectors (id int, part int, v vector({args.dimensions}))")
    with db.cursor().copy("COPY all_vectors FROM STDIN") as copy:
        for number, vector in enumerate(source):
            copy.write_row((number, number % 100, vector))
    db.execute(f"CREATE TABLE queries AS SELECT id - {args.rows} AS id, v FROM all_vectors WHERE id >= {args.rows}")
    db.execute("ALTER TABLE queries ADD PRIMARY KEY (id)")
    db.execute(f"DELETE FROM all_vectors WHERE id >= {args.rows}")
    for side, (method, _) in SIDES.items():
        db.execute(f"CREATE TABLE {side} AS SELECT * FROM all_vectors")
        begun = time.monotonic()
        db.execute(f"CREATE INDEX {side}_v ON {side} USING {method} (v vector_cosine_ops) WITH (m = 16, ef_construction = 64)")
        seconds = time.monotonic() - begun
        size = one(db, f"SELECT pg_relation_size('{side}_v')")
        print(f"{side:9} CREATE INDEX {seconds:7.1f} s, {size / args.rows:7.0f} bytes a row")
    db.execute("VACUUM ANALYZE")


def statement(side, filtered):
    where = " WHERE part = 7" if filtered else ""
    return f"SELECT id FROM {side}{where} ORDER BY v <=> (SELECT v FROM queries WHERE id = %s) LIMIT 10"


def exact(db, args, filtered):
    """The distance of the tenth nearest row of each query."""
    where = " WHERE part = 7" if filtered else ""
    return [one(db, f"SELECT max(d) FROM (SELECT v <=> (SELECT v FROM queries WHERE id = {number}) AS d FROM all_vectors{where} ORDER BY 1 LIMIT 10) x")
            for number in range(args.queries)]


def recall(db, args, side, setting, ef, limits, filtered):
    db.execute(f"SET {setting} = {ef}")
    db.execute("SET enable_seqscan = off; SET enable_sort = off")
    hits = 0
    for number, limit in enumerate(limits):
        found = db.execute(f"SELECT v <=> (SELECT v FROM queries WHERE id = {number}) FROM ({statement(side, filtered) % number}) n JOIN all_vectors USING (id)").fetchall()
        hits += sum(distance <= limit for (distance,) in found)
    return hits / (10 * len(limits))


def queries_per_second(cluster, args, side, setting, ef, filtered):
    script = cluster.dir / f"{side}.sql"
    script.write_text(f"\\set q random(0, {args.queries - 1})\n{statement(side, filtered) % ':q'};\n")
    options = f"-c {setting}={ef} -c treedb.hnsw_strict_order={args.strict_order} -c enable_seqscan=off -c enable_sort=off" + (" -c hnsw.iterative_scan=relaxed_order" if side == "pgvector" and filtered else "")
    os.environ["PGOPTIONS"] = options
    told = cluster.program("pgbench", "-n", "-M", "prepared", "-c", "1", "-T", str(args.seconds), "-f", str(script), "postgres")
    return float(re.search(r"tps = ([\d.]+)", told).group(1))


def insert(db, args, side):
    """Microseconds of a row, inserted one by one."""
    rows = list(stored_vectors(args.inserts, args.dimensions, args.vectors) if args.vectors else vectors(args.inserts, args.dimensions, random.Random(2)))
    begun = time.monotonic()
    with db.transaction():
        for number, vector in enumerate(rows):
            db.execute(f"INSERT INTO {side} VALUES (%s, 0, %s)", (10_000_000 + number, vector), prepare=True)
    return (time.monotonic() - begun) / args.inserts * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--vectors", help="a file of little-endian floats")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--inserts", type=int, default=500)
    parser.add_argument("--ef", type=int, nargs="+", default=[20, 40, 80, 160])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--strict-order", choices=["on", "off"], default="on", help="treedb.hnsw_strict_order")
    args = parser.parse_args()
    cluster = Cluster(SETTINGS)
    try:
        cluster.initialize()
        cluster.start()
        with cluster.connect() as db:
            print(one(db, "SELECT version()").split(" on ")[0])
            db.execute("CREATE EXTENSION treedb")
            fill(db, args)
            db.execute("SET hnsw.iterative_scan = relaxed_order")
            db.execute(f"SET treedb.hnsw_strict_order = {args.strict_order}")
            for filtered in (False, True):
                print("one row in a hundred:" if filtered else "all rows:")
                limits = exact(db, args, filtered)
                for ef in args.ef:
                    recalls = {side: recall(db, args, side, setting, ef, limits, filtered) for side, (_, setting) in SIDES.items()}
                    speeds = {side: [] for side in SIDES}
                    for _ in range(args.rounds):
                        for side, (_, setting) in SIDES.items():
                            speeds[side].append(queries_per_second(cluster, args, side, setting, ef, filtered))
                    print(f"  ef {ef:4}", *(f"{side} recall {recalls[side]:.3f} {statistics.median(speeds[side]):7.0f}/s" for side in SIDES), sep="   ")
            for side in SIDES:
                print(f"{side:9} INSERT {insert(db, args, side):7.0f} us a row")
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
