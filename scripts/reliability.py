#!/usr/bin/env python3
"""Runs the long tests of what must hold when things go wrong, and writes what they counted, with the commit, as JSON.

    scripts/reliability.py                  all campaigns, with the counts that are claimed
    scripts/reliability.py frames kill      only those
    ROUNDS=30 FRAMES=20000 OPERATIONS=5000 OUT=/tmp/r.json scripts/reliability.py

TREEDB_SEED=n gives all of them the same seed; without it each draws its own, which the file tells. The output of a campaign goes to
target/test-logs/reliability-NAME.log. The file is written after each of them, so that one that is broken off has told of those before.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "target" / "test-logs"

# Name, what its count is one of, the variable that sets the count, the count, command.
CAMPAIGNS = [
    ("library", "rounds of kill -9 of a process that uses the library", "ROUNDS", 300,
     "TREEDB_KILL_ROUNDS={count} cargo test -p treedb_storage --test kill -- --nocapture"),
    ("kill", "rounds of kill -9 of the server", "ROUNDS", 300, "scripts/kill_rounds.sh {count}"),
    ("retries", "rounds of kill -9 of the server under drivers that retry", "ROUNDS", 300, "scripts/kill_rounds.sh --retries {count}"),
    ("frames", "malformed frames", "FRAMES", 1_000_000, "scripts/frame_tests.sh {count}"),
    ("anomalies", "operations in transactions", "OPERATIONS", 100_000, "scripts/anomaly_tests.sh {count}"),
]
#: A number in a line of results and the words after it: `8,123 acknowledged writes`.
COUNTED = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?) ([A-Za-z][A-Za-z -]+)")


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def counted(line):
    """The numbers of a line of results, by the words that follow them."""
    return {words.strip(): float(number) if "." in number else int(number)
            for number, words in ((each[1].replace(",", ""), each[2]) for each in COUNTED.finditer(line))}


def run(name, unit, count, command):
    """Runs a campaign, and returns what there is to tell of it."""
    log = LOGS / f"reliability-{name}.log"
    began = time.monotonic()
    with log.open("w") as out:
        status = subprocess.run(["bash", "-c", command], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).returncode
    text = log.read_text(errors="replace")
    results = re.findall(r"^summary: (.*)$", text, re.M)
    return {
        "campaign": name,
        "count": count,
        "of": unit,
        "command": command,
        # Without its line of results nothing is known of it.
        "passed": status == 0 and bool(results),
        "seed": next(iter(re.findall(r"\bseed[ =](\d+)", text)), None),
        "results": [{"line": line, "counts": counted(line)} for line in results],
        "wrong": [] if status == 0 else text.splitlines()[-40:],
        "seconds": round(time.monotonic() - began),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaigns", nargs="*", choices=[[], *(name for name, *_ in CAMPAIGNS)], metavar="CAMPAIGN")
    chosen = parser.parse_args().campaigns
    out = pathlib.Path(os.environ.get("OUT", ROOT / "target" / "reliability.json"))
    LOGS.mkdir(parents=True, exist_ok=True)
    report = {
        "commit": git("rev-parse", "HEAD"),
        "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
        "began": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.platform()}, {os.cpu_count()} processors",
        # Another server than that of the commit, if somebody has asked for it.
        "server": os.environ.get("TREEDB_BIN", "built from the commit, in the development profile"),
        "campaigns": [],
    }
    for name, unit, variable, most, command in CAMPAIGNS:
        if chosen and name not in chosen:
            continue
        count = int(os.environ.get(variable, most))
        print(f"==> {name}: {count:,} {unit}", flush=True)
        done = run(name, unit, count, command.format(count=count))
        report["campaigns"].append(done)
        out.write_text(json.dumps(report, indent=2) + "\n")
        for line in [result["line"] for result in done["results"]] + done["wrong"]:
            print(f"    {line}")
        print(f"    {name}: {'passed' if done['passed'] else 'FAILED'}, {done['seconds']} s", flush=True)
    failed = [each["campaign"] for each in report["campaigns"] if not each["passed"]]
    print(f"{out} is written: {len(report['campaigns']) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
