#!/usr/bin/env python3
"""Runs every test suite of the project and ends with one plain line: `N passed, N failed`.

    scripts/run_tests.py              all suites, in order
    scripts/run_tests.py --list       their names and commands
    scripts/run_tests.py cargo pg     only the suites whose name starts so

A suite's output goes to target/test-logs/NAME.log; of a suite that fails the last lines are shown too.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "target" / "test-logs"

# name, command, what one run of it checks. A suite whose tool counts tests is counted by its own lines; the
# others count as one test each.
SUITES = [
    ("layers", "python3 scripts/check_layers.py", "modules use only the layers below them"),
    ("format_doc", "python3 scripts/format_doc.py --check", "docs/format.md says what the modules' headers say"),
    ("format", "cargo fmt --all --check", "rustfmt finds nothing to change"),
    ("clippy", "cargo clippy --all-targets -- -D warnings && cargo clippy -p treedb_pg -- -D warnings",
     "lints, missing docs and undocumented unsafe"),
    ("cargo", "cargo test --no-fail-fast", "unit, model, crash and wire tests"),
    ("driver", "scripts/driver_tests.sh", "PyMongo against the real server"),
    ("kill", "scripts/kill_rounds.sh 50", "kill -9 of the server under load"),
    ("pg_regress", "scripts/pg_regress.sh", "SQL against expected answers"),
    ("pg_isolation", "scripts/pg_isolation.sh", "concurrent Postgres sessions"),
    ("pg_crash", "scripts/pg_crash.sh 20", "immediate stops of Postgres under load"),
]

COUNTERS = [
    # cargo test
    re.compile(r"^test result: .*?(?P<passed>\d+) passed; (?P<failed>\d+) failed", re.M),
    # the project's own scripts
    re.compile(r"^(?P<passed>\d+) passed, (?P<failed>\d+) failed$", re.M),
    # pytest
    re.compile(r"^=*\s*(?:(?P<failed>\d+) failed,? ?)?(?P<passed>\d+) passed\b.*? in ", re.M),
]
PG_LINE = re.compile(r"^(?:test|\s{5,}\S|ok|not ok)\s.*?\.\.\.\s+(?P<how>ok|FAILED)\b", re.M)


def count(text, status):
    """Tests passed and failed, by the suite's own words; its exit status where it has none."""
    passed = failed = 0
    for counter in COUNTERS:
        for match in counter.finditer(text):
            passed += int(match.group("passed") or 0)
            failed += int(match.group("failed") or 0)
    for match in PG_LINE.finditer(text):
        passed, failed = passed + (match["how"] == "ok"), failed + (match["how"] != "ok")
    if status and not failed:
        failed = 1
    if not status and not passed and not failed:
        passed = 1
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    parser.add_argument("--list", action="store_true", help="list the suites and stop")
    args = parser.parse_args()
    chosen = [s for s in SUITES if not args.suites or any(s[0].startswith(p) for p in args.suites)]
    if args.list:
        for name, command, what in chosen:
            print(f"{name:13} {what}\n{'':13} {command}")
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    env = dict(os.environ, RUST_BACKTRACE="0", CARGO_TERM_COLOR="never")
    total_passed = total_failed = 0
    for name, command, what in chosen:
        print(f"==> {name}: {what}", flush=True)
        started = time.monotonic()
        log = LOGS / f"{name}.log"
        with log.open("w") as out:
            status = subprocess.call(["bash", "-c", command], cwd=ROOT, env=env, stdout=out,
                                     stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        text = log.read_text(errors="replace")
        passed, failed = count(text, status)
        total_passed, total_failed = total_passed + passed, total_failed + failed
        if failed:
            print("\n".join("    " + line for line in text.splitlines()[-80:]))
        for line in re.findall(r"^(?:summary: ).*$", text, re.M):
            print("    " + line)
        print(f"    {name}: {passed} ok, {failed} bad, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main())
