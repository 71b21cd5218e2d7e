#!/usr/bin/env python3
"""What an incremental build costs after a change of one file: processor seconds and wall clock, file by file.

    scripts/build_times.py treedb_core/src/disk/real.rs treedb_core/src/kv/store.rs
    scripts/build_times.py --check FILE...              cargo check --tests instead of cargo test --no-run
    scripts/build_times.py --package treedb_core FILE...

Without --package it builds what a plain `cargo test` does. Everything is built first; then a comment line is added to
one file after the other, and what cargo and all that it starts use is measured each time. With --rounds the figure is
the median. Processor seconds are what to compare: they depend little on what else the machine does. The files are put
back at the end.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def measure(command):
    """Runs `command`; processor seconds of it and of everything it waited for, and seconds by the clock."""
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"build_times: {' '.join(command)}: exit status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--check", action="store_true", help="cargo check --tests instead of cargo test --no-run")
    parser.add_argument("--package", action="append", default=[], help="build this package alone (may be repeated)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each file is changed (default: once)")
    args = parser.parse_args()
    command = ["cargo", "check", "--tests", "--quiet"] if args.check else ["cargo", "test", "--no-run", "--quiet"]
    for package in args.package:
        command += ["-p", package]
    paths = [file if file.is_absolute() else ROOT / file for file in args.files]
    before = {path: path.read_bytes() for path in paths}
    print(f"{' '.join(command)}\n{'changed':44} {'CPU s':>7} {'wall s':>7}", flush=True)
    cpu, wall = measure(command)
    print(f"{'(everything that was not built yet)':44} {cpu:7.1f} {wall:7.1f}", flush=True)
    try:
        for path in paths:
            costs = []
            for number in range(args.rounds):
                with path.open("ab") as file:
                    file.write(f"// Change {number} of {time.time_ns()}.\n".encode())
                costs.append(measure(command))
            cpu, wall = (statistics.median(column) for column in zip(*costs))
            print(f"{str(path.relative_to(ROOT)):44} {cpu:7.1f} {wall:7.1f}", flush=True)
    finally:
        for path, content in before.items():
            path.write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
