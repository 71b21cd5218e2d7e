#!/usr/bin/env python3
"""Packages every package of the workspace that is published, as `cargo publish` would.

All of them at once, because they depend on one another and none need be in a registry yet; without building them again.
What a build of the packaged sources would find missing is looked for instead: a file that the sources include from
outside of the package. Needs no network if the dependencies have been fetched.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Modules of other folders too. With the attribute before it: doctests are compiled in the repository only.
INCLUDE = re.compile(r"(?P<doctest>#\[cfg\((?:doctest|all\(doctest, [^\]]*)\)\]\s*#\[doc = )?(?:include(?:_str|_bytes)?!\(|#\[path = )\"(?P<path>[^\"]+)\"[)\]]")


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, capture_output=True, text=True)


def outside(package):
    """Files that a package's sources include and that are not in the package."""
    listed = cargo("package", "--list", "--allow-dirty", "--offline", "-p", package["name"])
    if listed.returncode:
        yield listed.stderr.strip()
        return
    folder = pathlib.Path(package["manifest_path"]).parent
    files = {folder / name for name in listed.stdout.splitlines()}
    for source in sorted(file for file in files if file.suffix == ".rs" and file.exists()):
        for match in INCLUDE.finditer(source.read_text()):
            included = pathlib.Path(os.path.normpath(source.parent / match["path"]))
            if not match["doctest"] and included not in files:
                yield f"{source.relative_to(ROOT)} includes {match['path']}, which is not in the package"


def main():
    metadata = cargo("metadata", "--format-version", "1", "--no-deps")
    if metadata.returncode:
        sys.exit(metadata.stderr)
    # `publish` is null where it is not said, and an empty list for `publish = false`.
    packages = [package for package in json.loads(metadata.stdout)["packages"] if package["publish"] != []]
    failed = 0
    for package in packages:
        problems = list(outside(package))
        failed += bool(problems)
        print(f"{package['name']} {package['version']}: {len(problems)} problems")
        print("".join(f"  {problem}\n" for problem in problems), end="")
    chosen = [argument for package in packages for argument in ("-p", package["name"])]
    command = ["package", "--no-verify", "--allow-dirty", *chosen]
    # The index may not have been fetched as far as this needs it.
    packaged = cargo(*command, "--offline")
    if packaged.returncode:
        packaged = cargo(*command)
    print(packaged.stderr.strip())
    failed += packaged.returncode != 0
    print(f"{len(packages) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
