#!/usr/bin/env python3
"""Counts the instructions of the hot paths under callgrind and compares them with the counts that are checked in.

    scripts/instructions.py                  all paths; fails if one takes more than 3 % over its count
    scripts/instructions.py get find_by_id   only these
    scripts/instructions.py --write          writes the counts (of the named paths alone, if any are named)
    scripts/instructions.py --binary FILE    counts a program built before instead of building one

The counts are in bench/instructions/counts.json, instructions per operation. A count is changed on purpose, in the
commit that makes the path slower or faster and says why. Instruction counts do not depend on the load of the machine
or on its disk, but they do on compiler, C library and, through the processor that valgrind imitates, on whether the
machine has AVX2: the file says what it was made with, and a difference is reported.

The profiles stay in target/instructions: `callgrind_annotate target/instructions/get.callgrind` shows where the
instructions of `get` go, function by function.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
COUNTS = ROOT / "bench" / "instructions" / "counts.json"
PROFILES = TARGET / "instructions"
LIMIT = 3.0  # per cent over its count that a path may take
# Valgrind's start-up reads its client's environment, and so does the C library: the same few variables everywhere.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
# The one function that is counted; Rust's mangled names contain its path in either form.
MEASURED = "*measure*measured*"


class Failure(Exception):
    """Something that keeps the counts from being taken."""


def output(*command, **options):
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def build():
    """Builds the program in the release profile and returns where it is."""
    if subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "instructions"], cwd=ROOT).returncode:
        raise Failure("cargo could not build the package `instructions`")
    return TARGET / "release" / "instructions"


def made_with():
    """What the counts depend on beside the code."""
    cpu = pathlib.Path("/proc/cpuinfo")
    flags = re.search(r"^flags\s*:(.*)$", cpu.read_text(), re.M) if cpu.exists() else None
    return {
        "rustc": output("rustc", "--version", cwd=ROOT).split()[1],
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "valgrind": output("valgrind", "--version").strip().removeprefix("valgrind-"),
        "avx2": bool(flags and "avx2" in flags[1].split()),
    }


def count(binary, name):
    """Instructions per operation of one path, in a directory of its own whose name does not show."""
    with tempfile.TemporaryDirectory(prefix="instructions-") as work:
        profile = PROFILES / f"{name}.callgrind"
        output(binary, "prepare", name, "data", cwd=work, env=ENVIRONMENT)
        operations = int(output(
            "valgrind", "--command-line-only=yes", "--quiet", "--tool=callgrind", f"--toggle-collect={MEASURED}",
            f"--callgrind-out-file={profile}", binary, "run", name, "data", cwd=work, env=ENVIRONMENT))
    collected = re.search(r"^(?:totals|summary): (\d+)", profile.read_text(), re.M)
    if not collected or not int(collected[1]):
        raise Failure(f"{name}: callgrind met no function like {MEASURED}, see {profile}")
    return round(int(collected[1]) / operations, 1)


def compare(known, now, descriptions, limit):
    """Prints the table; returns how many paths are within the limit and how many are not."""
    passed = failed = 0
    print(f"{'path':22} {'checked in':>12} {'now':>12} {'difference':>10}  one operation is")
    for name in dict.fromkeys([*descriptions, *known]):
        if name not in descriptions:
            failed += 1
            print(f"{name:22} {known[name]:12,.1f} {'':12} {'':10}  there is no such path any more: take it out of counts.json")
        elif name in now and name not in known:
            failed += 1
            print(f"{name:22} {'':12} {now[name]:12,.1f} {'':10}  FAILED: no count is checked in, run with --write {name}")
        elif name in now:
            change = 100 * (now[name] / known[name] - 1)
            bad = change > limit
            passed, failed = passed + (not bad), failed + bad
            print(f"{name:22} {known[name]:12,.1f} {now[name]:12,.1f} {change:+9.2f}%  {descriptions[name]}")
            if bad:
                print(f"{'':22} FAILED: more than {limit:g} % over its count")
            elif change < -limit:
                print(f"{'':22} better than its count: lower it with --write {name}, and say why in the commit")
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH")
    parser.add_argument("--write", action="store_true", help="write the counts instead of failing")
    parser.add_argument("--binary", type=pathlib.Path, help="a program built before")
    parser.add_argument("--limit", type=float, default=LIMIT, help="per cent over its count that a path may take (default: 3)")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        raise Failure("valgrind is missing: `make setup` installs it")
    binary = (args.binary or build()).resolve()
    descriptions = dict(line.split("\t") for line in output(binary, "list").splitlines())
    unknown = set(args.paths) - set(descriptions)
    if unknown:
        raise Failure(f"no such path: {', '.join(sorted(unknown))}. There are: {', '.join(descriptions)}")
    chosen = args.paths or list(descriptions)
    PROFILES.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        now = dict(zip(chosen, pool.map(lambda name: count(binary, name), chosen)))

    file = json.loads(COUNTS.read_text()) if COUNTS.exists() else {"made_with": {}, "instructions": {}}
    known, with_what = file["instructions"], made_with()
    passed, failed = compare(known, now, descriptions, args.limit)
    for what, here in with_what.items():
        if file["made_with"].get(what, here) != here:
            print(f"summary: the counts were made with {what} {file['made_with'][what]}, this is {here}")
    if args.write:
        kept = {name: now.get(name, known.get(name)) for name in descriptions}
        kept = {name: instructions for name, instructions in kept.items() if instructions is not None}
        COUNTS.write_text(json.dumps({"made_with": with_what, "instructions": kept}, indent=2) + "\n")
        print(f"wrote {COUNTS.relative_to(ROOT)}")
        return 0
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"instructions: {failure}", file=sys.stderr)
        sys.exit(1)
