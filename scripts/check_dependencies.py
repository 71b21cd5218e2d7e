#!/usr/bin/env python3
"""Checks the licences, sources and duplicate versions of all dependencies against deny.toml.

What cargo-deny checks too, from `cargo metadata` alone, so that `make test` needs nothing installed and no network:
every licence expression is satisfied by the licences that are allowed, everything comes from the default registry or
from this workspace, and of a crate with several versions all but one are listed with a reason.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def satisfied(expression, allowed):
    """True if an SPDX expression can be met with `allowed` alone. A slash is the old way to write OR."""
    tokens = re.findall(r"[()]|[^\s()/]+|/", expression.replace("/", " OR "))

    def alternatives():
        result = terms()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            other = terms()
            result = result or other
        return result

    def terms():
        result = term()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            other = term()
            result = result and other
        return result

    def term():
        token = tokens.pop(0)
        if token == "(":
            result = alternatives()
            tokens.pop(0)
            return result
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            token += " WITH " + tokens.pop(0)
        return token in allowed

    return alternatives()


def licences(packages, rules):
    allowed = set(rules["licenses"]["allow"])
    for package in packages:
        expression = package["license"]
        if not expression:
            yield f"{package['name']} {package['version']} names no licence"
        elif not satisfied(expression, allowed):
            yield f"{package['name']} {package['version']}: {expression} is not among the licences that are allowed"
    for licence in sorted(allowed):
        if all(not package["license"] or satisfied(package["license"], allowed - {licence}) for package in packages):
            yield f"no dependency needs the licence {licence}: take it off the list"


def sources(packages, _):
    for package in packages:
        source = package["source"]
        if source is None:
            if not pathlib.Path(package["manifest_path"]).is_relative_to(ROOT):
                yield f"{package['name']} is a path outside of the workspace: {package['manifest_path']}"
        elif not re.fullmatch(r"registry\+.*/crates\.io-index", source):
            yield f"{package['name']} {package['version']} comes from {source}, not from the default registry"


def duplicates(packages, rules):
    skipped = {entry["crate"]: entry.get("reason") for entry in rules["bans"]["skip"]}
    versions = collections.defaultdict(set)
    for package in packages:
        versions[package["name"]].add(package["version"])
    for name, all_of_it in sorted(versions.items()):
        left = sorted(version for version in all_of_it if f"{name}@{version}" not in skipped)
        if len(left) > 1:
            yield (f"{name} is there as {' and '.join(left)} (`cargo tree --all-features -i {name}@{left[0]}` says why): "
                   "make it one, or list all but the newest in deny.toml with the reason")
    for entry, reason in skipped.items():
        name, version = entry.split("@")
        if version not in versions[name] or len(versions[name]) == 1:
            yield f"{entry} is not a duplicate any more: take it off the list"
        if not reason:
            yield f"{entry} has no reason"


def main():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    passed = failed = 0
    for check in (licences, sources, duplicates):
        problems = list(check(packages, rules))
        passed, failed = passed + (not problems), failed + bool(problems)
        print(f"{check.__name__}: {len(packages)} packages, {len(problems)} problems")
        print("".join(f"  {problem}\n" for problem in problems), end="")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
