#!/usr/bin/env python3
"""What the first statement of a connection takes: scripts/pg_first_statement.sh [--rounds N] [--connections N] [--instructions].

A server process that has just been started has loaded no library and knows nothing of the catalog. Each statement below finds one
document of a small table by an index. pgbench connects again for each execution; rounds alternate between the statements. Shown is, for
one connection, the median over rounds: time, processor time of the server's processes, and their page faults (of the postmaster's children, as
the kernel sums them up), with the library loaded by the connection that needs it and with `shared_preload_libraries = 'treedb_pg'`. Of these,
`nothing` is what a connection takes that finds nothing.

`--instructions` counts those of the same statements under callgrind instead, in the single-user mode of the server: all, and those of each
library (the dynamic linker among them). The profiles are kept; `callgrind_annotate --inclusive=yes FILE` shows them by function.
"""
import argparse
import collections
import pathlib
import re
import statistics
import subprocess
import time

from cluster import ROOT, Cluster, shell

SETTINGS = ["shared_buffers = 128MB", "autovacuum = off", "jit = off", "max_parallel_workers_per_gather = 0"]
ROWS = 20_000
TABLES = f"""
CREATE TABLE source AS SELECT format('{{"_id": %s, "n": %s, "g": %s, "a": %s, "name": "%s", "tags": ["t%s", "t%s"]}}',
    n, n * 7, n % 100, n % 31, md5(n::text), n % 40, n % 7) AS doc FROM generate_series(1, {ROWS}) n;
SELECT treedb.create_collection('c');
INSERT INTO c SELECT doc::treedb.bson FROM source;
SELECT treedb.create_index('c', '{{"n": 1}}'), treedb.create_index('c', '{{"g": 1}}'), treedb.create_index('c', '{{"a": 1}}');
CREATE TABLE j (doc jsonb NOT NULL);
INSERT INTO j SELECT doc::jsonb FROM source;
CREATE UNIQUE INDEX j_id ON j (((doc ->> '_id')::int));
CREATE INDEX j_n ON j (((doc ->> 'n')::int));
CREATE INDEX j_g ON j (((doc ->> 'g')::int));
CREATE INDEX j_a ON j (((doc ->> 'a')::int));
"""
# Each on one line, as the single-user mode wants them. `:n` is a value of the field `n`.
STATEMENTS = {
    "nothing": "SELECT 1",
    "jsonb": "SELECT doc FROM j WHERE (doc ->> 'n')::int = :n",
    "find": "SELECT doc FROM treedb.find('c', '{\"n\": :n}') doc",
    "@@": "SELECT doc FROM c WHERE doc OPERATOR(treedb.@@) '{\"n\": :n}'",
}
PRELOAD = "shared_preload_libraries = 'treedb_pg'"


def used(postmaster):
    """Page faults and seconds of processor time of the children of a process that have ended."""
    # After the name, which is in parentheses: cminflt, cutime and cstime are fields 11, 16 and 17 of proc(5).
    fields = pathlib.Path(f"/proc/{postmaster}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[8]), (int(fields[13]) + int(fields[14])) / 100


def measured(cluster, args):
    """For each statement a list of (seconds, processor seconds, page faults) a connection."""
    postmaster = int((cluster.data / "postmaster.pid").read_text().split()[0])
    samples = collections.defaultdict(list)
    for number in range(args.rounds + 1):
        for name in STATEMENTS:
            faults, cpu = used(postmaster)
            begun = time.monotonic()
            cluster.program("pgbench", "-n", "-C", "-c", 1, "-t", args.connections, "-f", cluster.dir / f"{file_of(name)}.bench")
            seconds = time.monotonic() - begun
            now_faults, now_cpu = used(postmaster)
            # The first round fills caches.
            if number:
                samples[name].append([value / args.connections for value in (seconds, now_cpu - cpu, now_faults - faults)])
    return samples


def file_of(name):
    return name.replace("@@", "filter")


def show(samples, title):
    print(f"\n{title}\n{'':<10} {'us':>8} {'us of processor':>16} {'page faults':>12}")
    for name, rounds in samples.items():
        seconds, cpu, faults = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:<10} {seconds * 1e6:>8.0f} {cpu * 1e6:>16.0f} {faults:>12.0f}")
    ratio = statistics.median(j[1] / f[1] for j, f in zip(samples["jsonb"], samples["find"], strict=True))
    print(f"find is {ratio:.2f} times as fast as jsonb (processor time)")


def count(cluster):
    """Instructions of each statement by library, counted in single-user mode."""
    counts = {}
    for name, statement in STATEMENTS.items():
        profile = cluster.dir / f"{file_of(name)}.callgrind"
        shell('echo "$3" >"$1/statement.sql"; as_pg valgrind --tool=callgrind --callgrind-out-file="$2" "$PG_BIN/postgres" --single '
              '-D "$1/data" postgres <"$1/statement.sql" >"$1/single.log" 2>&1 || { cat "$1/single.log"; exit 1; }',
              cluster.dir, profile, statement.replace(":n", "700"), timeout=600)
        output = (cluster.dir / "single.log").read_text()
        if "ERROR" in output or name != "nothing" and "700" not in output:
            raise SystemExit(f"{name} has not found its document:\n{output}")
        counts[name] = by_library(profile)
    return counts


def by_library(profile):
    """Instructions in each library of a profile (`ob=` lines name them; lines of costs of calls are not the caller's)."""
    names, sums, now, skip = {}, collections.Counter(), None, False
    for line in profile.open():
        if found := re.match(r"ob=\((\d+)\)(?: (.*))?", line):
            number, path = found.groups()
            if path:
                names[number] = pathlib.Path(path).name
            now = names[number]
        elif found := re.match(r"cob=\((\d+)\) (.*)", line):
            names[found[1]] = pathlib.Path(found[2]).name
        elif line.startswith("calls="):
            skip = True
        elif line[:1] in "0123456789+-*" and not skip:
            sums[now] += int(line.split()[1])
        else:
            skip = False
    return sums


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--connections", type=int, default=100, help="of each statement in a round")
    parser.add_argument("--instructions", action="store_true")
    args = parser.parse_args()
    cluster = Cluster(SETTINGS)
    try:
        cluster.create()
        with cluster.connect() as db:
            db.execute(TABLES)
            db.execute("VACUUM ANALYZE")
        if args.instructions:
            cluster.stop()
            counts = count(cluster)
            libraries = sorted(set().union(*counts.values()), key=lambda library: -counts["find"][library])
            print(f"{'thousand instructions':<24}" + "".join(f"{name:>10}" for name in counts))
            for library in libraries[:8]:
                print(f"{library:<24}" + "".join(f"{counted[library] / 1000:>10,.0f}" for counted in counts.values()))
            print(f"{'all':<24}" + "".join(f"{sum(counted.values()) / 1000:>10,.0f}" for counted in counts.values()))
            return
        for name, statement in STATEMENTS.items():
            script = f"\\set n random(1, {ROWS}) * 7\n{statement};\n"
            (cluster.dir / f"{file_of(name)}.bench").write_text(script)
        show(measured(cluster, args), "loaded by the connection")
        cluster.stop()
        cluster.set(PRELOAD)
        cluster.start()
        show(measured(cluster, args), PRELOAD)
    finally:
        cluster.close(keep=args.instructions)


if __name__ == "__main__":
    main()
