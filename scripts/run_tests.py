#!/usr/bin/env python3
"""Runs every test suite of the project, says which took how long and which tests failed, and ends with one plain line:
`N passed, N failed`.

    scripts/run_tests.py              all suites, in order
    scripts/run_tests.py --list       their names and commands
    scripts/run_tests.py cargo pg     only the suites whose name starts so

A suite's output goes to target/test-logs/NAME.log; of a suite that fails the last lines are shown too. A suite that
is not done after its time limit is stopped, with everything it started, and counts as failed.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "target" / "test-logs"

# Runs a suite with the server of another major version, which is installed if it is not there yet.
ON_18 = "PG_CONFIG=$(scripts/pg/server.sh 18) && export PG_CONFIG &&"

# name, minutes it may take (a cold build included), command, what one run of it checks. A suite whose tool counts
# tests is counted by its own lines; the others count as one test each.
SUITES = [
    ("layers", 1, "python3 scripts/layers.py --check", "docs/architecture.md shows the packages as they are; modules use only those below"),
    ("format_doc", 1, "python3 scripts/format_doc.py --check", "docs/format.md says what the modules' headers say"),
    ("compatibility_doc", 1, "python3 scripts/compatibility_doc.py --check",
     "docs/mongodb-compatibility.md has a row for each name in the server's tables, as the data that is tried says"),
    ("dependencies", 2, "scripts/check_dependencies.py", "licences, sources and duplicate versions of all dependencies"),
    ("package", 5, "scripts/check_packages.py", "every package that is published can be packaged"),
    ("format", 1, "cargo fmt --all --check", "rustfmt finds nothing to change"),
    ("clippy", 15, "cargo clippy --all-targets -- -D warnings && cargo clippy -p treedb_pg -p bench -p instructions --all-targets -- -D warnings"
     # As its users build it, without what the server and its tests switch on.
     " && for features in --no-default-features '' '--features async'; do cargo clippy -p treedb_client --all-targets $features -- -D warnings || exit; done",
     "lints, missing docs and undocumented unsafe"),
    ("rustdoc", 10, "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps -p treedb_formats -p treedb_vector -p treedb_storage -p treedb_query"
     " -p treedb_collections -p treedb_core -p treedb_protocol -p treedb_server && RUSTDOCFLAGS='-D warnings' cargo doc --no-deps -p treedb_client --all-features", "the documentation builds without warnings"),
    ("cargo", 25, "cargo test --no-fail-fast", "unit, model, crash and wire tests"),
    ("schedules", 8, "cargo test -p treedb_storage --lib --features shuttle -- schedules --nocapture",
     "thread schedules over reader slots, page cache, writer lock, commit group and store"),
    ("instructions", 15, "scripts/instructions.py", "instructions of the hot paths against the counts that are checked in"),
    ("bench", 15, "cargo test -p bench -p bench_common --lib",
     "the benchmarks' own code; docs/benchmarks.md and its pictures match the result files"),
    ("driver", 15, "scripts/driver_tests.sh", "PyMongo against the real server"),
    ("web", 8, "scripts/web_tests.sh", "the web page: hostile requests, and the page in Chromium"),
    ("vector_stores", 10, "scripts/vector_store_tests.sh", "LangChain's and LlamaIndex's stores for MongoDB against the real server"),
    ("client_python", 8, "scripts/client_tests.sh python", "PyMongo's asynchronous client, MongoEngine, Beanie and Django against the real server"),
    ("client_node", 8, "scripts/client_tests.sh node", "the Node driver, mongoose and mongosh against the real server"),
    ("client_go", 8, "scripts/client_tests.sh go", "the Go driver against the real server"),
    ("client_rust", 12, "scripts/client_tests.sh rust", "the MongoDB driver for Rust against the real server"),
    ("client_java", 8, "scripts/client_tests.sh java", "the Java driver against the real server"),
    ("container", 10, "scripts/container_tests.sh", "the container image and the Debian package, built and run without a daemon; the statically linked executable"),
    ("frames", 5, "scripts/frame_tests.sh 20000", "malformed frames for both protocols"),
    ("anomalies", 5, "scripts/anomaly_tests.sh 4000", "the history of concurrent transactions is one of snapshot isolation"),
    ("retries", 5, "scripts/kill_rounds.sh --retries 10", "kill -9 of the server under drivers that retry their writes"),
    ("kill", 5, "scripts/kill_rounds.sh 50", "kill -9 of the server under load"),
    ("pg_regress", 15, "scripts/pg_regress.sh", "SQL against expected answers"),
    ("pg_on_treedb", 8, "scripts/pg_regress.sh --on-treedb && scripts/pg_isolation.sh --on-treedb",
     "SQL and concurrent sessions of collections that are tables USING treedb"),
    ("pg_isolation", 5, "scripts/pg_isolation.sh", "concurrent Postgres sessions"),
    ("pg_crash", 12, "scripts/pg_crash.sh 20", "immediate stops of Postgres under load"),
    ("pg_crash_points", 8, "scripts/pg_crash.sh --points", "backends that die at each fault point"),
    ("pg_versions", 8, "STRIP=1 scripts/pg_versions.sh",
     "updates of the extension, dump and restore, pg_upgrade, stored pages, the reference in the docs; the library stripped as `make install` strips it"),
    ("pg_hostile", 5, "scripts/pg_hostile.sh", "hostile arguments for every SQL function"),
    ("pg_doors", 8, "scripts/pg_doors.sh", "indexes of every kind, listed by the SQL functions and by the server"),
    ("pg_twin", 12, "scripts/pg_twin.sh", "random statements against tables with our indexes and with btree, random calls against documents in memory"),
    ("pg_faults", 8, "scripts/pg_faults.sh", "damaged index files, a standby, dump and restore, cancelled work"),
    # First of those on 18, because it upgrades from 15: the extension is compiled for 15 when it begins.
    ("pg18_versions", 15, f"{ON_18} scripts/pg_versions.sh",
     "updates of the extension, dump and restore, pg_upgrade (from 15 too), stored pages, the reference in the docs, on PostgreSQL 18"),
    ("pg18_regress", 15, f"{ON_18} scripts/pg_regress.sh", "SQL against expected answers, on PostgreSQL 18"),
    ("pg18_isolation", 5, f"{ON_18} scripts/pg_isolation.sh", "concurrent Postgres sessions, on PostgreSQL 18"),
    ("pg18_crash", 12, f"{ON_18} scripts/pg_crash.sh 20", "immediate stops of Postgres under load, on PostgreSQL 18"),
    ("pg18_crash_points", 8, f"{ON_18} scripts/pg_crash.sh --points", "backends that die at each fault point, on PostgreSQL 18"),
    ("pg18_hostile", 5, f"{ON_18} scripts/pg_hostile.sh 1500 1 2", "hostile arguments for every SQL function, on PostgreSQL 18"),
    ("pg18_doors", 8, f"{ON_18} scripts/pg_doors.sh", "indexes of every kind, listed by the SQL functions and by the server, on PostgreSQL 18"),
    ("pg18_twin", 12, f"{ON_18} scripts/pg_twin.sh", "random statements against tables with our indexes and with btree, random calls against documents in memory, on PostgreSQL 18"),
    ("pg18_faults", 8, f"{ON_18} scripts/pg_faults.sh",
     "damaged index files, a standby, dump and restore, cancelled work, on PostgreSQL 18"),
    ("pg_types", 15, "scripts/pg_types.sh", "the extension compiles without warnings for PostgreSQL 16, 17 and 18"),
]

# What a run on a clean checkout leaves in target/ and the tests in the folder of temporary files, with a margin.
GIB_NEEDED = 25

COUNTERS = [
    # cargo test
    re.compile(r"^test result: .*?(?P<passed>\d+) passed; (?P<failed>\d+) failed", re.M),
    # the project's own scripts
    re.compile(r"^(?P<passed>\d+) passed, (?P<failed>\d+) failed$", re.M),
    # pytest
    re.compile(r"^=*\s*(?:(?P<failed>\d+) failed,? ?)?(?P<passed>\d+) passed\b.*? in ", re.M),
]
# pg_regress and the isolation tester, which tell how long each took (cargo's lines of the same look do not): those of
# version 15, and of 16 and later.
PG_LINE = re.compile(
    r"^(?:(?:test|\s{5,}\S)\s.*?\.\.\.\s+(?P<how>ok|FAILED)\b|(?P<tap>(?:not )?ok) \d+\s+[-+] \S).*\d ms\s*$", re.M)

# Tests that tell how long they took: pg_regress, pytest --durations, and of cargo each test binary as a whole.
TIMED = [
    re.compile(r"^(?:test|\s{5,}|[-+])\s*(?P<name>\S+)\s+\.\.\.\s+(?:ok|FAILED)\s+(?P<ms>\d+) ms\s*$", re.M),
    re.compile(r"^(?:not )?ok \d+\s+[-+] (?P<name>\S+)\s+(?P<ms>\d+) ms\s*$", re.M),
    re.compile(r"^(?P<s>\d+\.\d+)s call\s+(?P<name>\S+)", re.M),
    re.compile(r"^ +(?:Running (?:unittests )?|Doc-tests )(?P<name>\S+).*?finished in (?P<s>\d+\.\d+)s$", re.M | re.S),
]

# Tests that failed, by name: pytest, cargo test, pg_regress and the isolation tester before version 16 and since, the
# project's own scripts.
FAILED = re.compile(
    r"^(?:FAILED (\S+)|(\S.*): FAILED|test (\S+) (?:- .*)?\.\.\. FAILED|(?:test|\s{5,})\s*(\S+)\s+\.\.\. FAILED\b.*|not ok \d+\s+[-+] (\S+).*)", re.M)
# What a script of the project, a compiler or a test that gives up prints where no test has a name.
COMPLAINT = re.compile(r"^.*?(?:FAIL|\berror\b|Error\b|panicked at).*$", re.M)


def failures(suite, text, status):
    """One line for each test of a suite that failed; what it complained of first where its tool names no tests."""
    if status is None:
        return [f"{suite}: stopped, it took too long"]
    named = list(dict.fromkeys(next(filter(None, match)) for match in FAILED.findall(text)))
    if not named:
        complaints = COMPLAINT.findall(text) or text.splitlines()[-1:] or ["no output"]
        named = [complaint.strip()[:200] for complaint in complaints[:3]]
    return [f"{suite}: {name}" for name in named]


def count(text, status):
    """Tests passed and failed, by the suite's own words; its exit status where it has none."""
    passed = failed = 0
    for counter in COUNTERS:
        for match in counter.finditer(text):
            passed += int(match.group("passed") or 0)
            failed += int(match.group("failed") or 0)
    for match in PG_LINE.finditer(text):
        good = "ok" in (match["how"], match["tap"])
        passed, failed = passed + good, failed + (not good)
    if status and not failed:
        failed = 1
    if status == 0 and not passed and not failed:
        passed = 1
    return passed, failed


def timed(suite, text):
    """The tests of a suite whose time its tool tells, as (seconds, name)."""
    found = [match.groupdict() for pattern in TIMED for match in pattern.finditer(text)]
    return [(float(test.get("s") or 0) + float(test.get("ms") or 0) / 1000, f"{suite}: {test['name']}") for test in found]


def show_times(suites, tests):
    """A table of the suites with their seconds and shares, and the slowest tests."""
    whole = sum(seconds for _, seconds in suites)
    if len(suites) > 1:
        print(f"\n    {'suite':14} {'seconds':>8} {'share':>6}")
        for name, seconds in sorted(suites, key=lambda suite: -suite[1]):
            print(f"    {name:14} {seconds:8.0f} {100 * seconds / max(whole, 1e-9):5.0f}%")
        print(f"    {'all':14} {whole:8.0f}   {whole / 60:.1f} min")
    if tests:
        print("\n    the slowest tests, as far as their tools tell (cargo: a whole binary)")
        for seconds, name in sorted(tests, reverse=True)[:10]:
            print(f"    {seconds:8.1f} s  {name}")
    print()


def gib_free():
    """Free space of the disk that holds target/, in GiB: a suite that fails for want of it looks like any failure."""
    return shutil.disk_usage(LOGS).free / 2**30


def run(command, log, limit):
    """Runs `command` with its output into the file `log`; its exit status, or None if it was stopped after `limit` s."""
    env = dict(os.environ, RUST_BACKTRACE="0", CARGO_TERM_COLOR="never")
    with log.open("w") as out:
        process = subprocess.Popen(["bash", "-c", command], cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    parser.add_argument("--list", action="store_true", help="list the suites and stop")
    args = parser.parse_args()
    chosen = [s for s in SUITES if not args.suites or any(s[0].startswith(p) for p in args.suites)]
    if args.list:
        for name, minutes, command, what in chosen:
            print(f"{name:14} {what}\n{'':14} {command}   (at most {minutes} min)")
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    if not args.suites and gib_free() < GIB_NEEDED and not (ROOT / "target" / "debug" / "deps").exists():
        print(f"{gib_free():.0f} GiB are free; all suites from a clean checkout take up to {GIB_NEEDED}", flush=True)
    total_passed = total_failed = 0
    suites, tests, failing = [], [], []
    for name, minutes, command, what in chosen:
        print(f"==> {name}: {what}", flush=True)
        started = time.monotonic()
        log = LOGS / f"{name}.log"
        status = run(command, log, 60 * minutes)
        text = log.read_text(errors="replace")
        passed, failed = count(text, status)
        if status is None:
            print(f"    stopped after {minutes} min: what it was doing is at the end of {log.relative_to(ROOT)}")
            failed += 1
        total_passed, total_failed = total_passed + passed, total_failed + failed
        if failed:
            failing += failures(name, text, status)
            print("\n".join("    " + line for line in text.splitlines()[-80:]))
        for line in re.findall(r"^(?:summary: ).*$", text, re.M):
            print("    " + line)
        seconds = time.monotonic() - started
        suites.append((name, seconds))
        tests += timed(name, text)
        print(f"    {name}: {passed} ok, {failed} bad, {seconds:.0f} s, {gib_free():.0f} GiB free", flush=True)
    show_times(suites, tests)
    if failing:
        print("    what failed\n" + "\n".join(f"        {line}" for line in failing) + "\n")
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main())
