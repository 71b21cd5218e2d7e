#!/usr/bin/env python3
"""Draws the packages of the workspace and what each depends on, into docs/architecture.md; `--check` only compares.

The picture is made from `cargo metadata`, so it shows what the compiler enforces: a package can use only the packages
that it names in its Cargo.toml. Inside a package the order of the modules is the table in its lib.rs, from the highest to
the lowest; `--check` also fails if a module uses one above it.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- packages: made by scripts/layers.py -->", "<!-- end of packages -->"
# What users get, in the order of the picture; tests and benchmarks stand on all of them and are left out.
LEFT_OUT = {"treedb_testing", "treedb_oracle", "bench", "bench_common", "bench_floor", "instructions"}


def packages():
    """The packages by name: description, and the packages of the workspace that it depends on."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)["packages"]
    names = {package["name"] for package in found}
    return {
        package["name"]: (
            package["description"] or "",
            {d["name"] for d in package["dependencies"] if d["kind"] is None and d["name"] in names},
        )
        for package in found
    }


def levels(found):
    """The packages by height: each stands above all that it depends on."""
    height = {}

    def of(name):
        if name not in height:
            height[name] = 1 + max((of(below) for below in found[name][1]), default=-1)
        return height[name]

    for name in found:
        of(name)
    top = max(height.values())
    return [sorted(name for name in found if height[name] == level) for level in range(top, -1, -1)]


def picture(found):
    """The picture as text: a line for each package, highest first."""
    shown = {name: (text, below - LEFT_OUT) for name, (text, below) in found.items() if name not in LEFT_OUT}
    width = max(map(len, shown))
    lines = []
    for level in levels(shown):
        for name in level:
            # What a package reaches through another one it depends on goes without saying.
            below = shown[name][1]
            through = set().union(*(reach(shown, other) for other in below)) if below else set()
            direct = sorted(below - through)
            lines.append(f"{name:{width}}  uses {', '.join(direct)}" if direct else f"{name:{width}}")
    return "\n".join(["```text", *lines, "```"])


def reach(shown, name):
    """Every package that `name` depends on, directly or not."""
    below = shown[name][1]
    return below.union(*(reach(shown, other) for other in below)) if below else set()


def modules_out_of_order():
    """Uses of a module by one below it in the table of its package's lib.rs."""
    bad = []
    for lib in sorted((ROOT / "treedb_core").glob("*/src/lib.rs")):
        src = lib.parent
        table = re.findall(r"^//! \| (\[?`.*?) \|", lib.read_text(), re.M)
        rank = {}
        for row, names in enumerate(table):
            for name in re.findall(r"`(\w+)`", names):
                rank[name] = row
        if "layers; each uses only the ones below it" not in lib.read_text():
            continue
        for path in sorted(src.rglob("*.rs")):
            module = path.relative_to(src).parts[0].removesuffix(".rs")
            if module not in rank or "tests" in path.parts or path.name == "tests.rs":
                continue
            code = "\n".join(line.split("//", 1)[0] for line in path.read_text().splitlines())
            code = code.split("#[cfg(test)]\nmod tests")[0]
            for used in re.findall(r"\bcrate::(\w+)", code):
                if used in rank and rank[used] < rank[module]:
                    bad.append(f"{path.relative_to(ROOT)}: `{module}` uses `{used}`, which is above it in {lib.relative_to(ROOT)}")
    return bad


def main():
    text = PAGE.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"{PAGE.relative_to(ROOT)} has no place for the picture: {BEGIN} .. {END}")
    found = packages()
    before, rest = text.split(BEGIN, 1)
    wanted = f"{before}{BEGIN}\n{picture(found)}\n{END}{rest.split(END, 1)[1]}"
    bad = modules_out_of_order()
    for name in ("treedb_storage", "treedb_collections", "treedb_core", "treedb_server"):
        if name in reach(found, "treedb_pg"):
            bad.append(f"treedb_pg depends on {name}: it stands on treedb_formats and treedb_query alone")
    for package, wanted_below in (("treedb_client", {"treedb_protocol"}), ("treedb_protocol", set())):
        for name in sorted(reach(found, package) - wanted_below):
            bad.append(f"{package} depends on {name}: clients do without the database")
    if "--check" in sys.argv[1:]:
        if wanted != text:
            bad.append(f"{PAGE.relative_to(ROOT)} does not show the packages as they are: run scripts/layers.py")
        print("\n".join(bad) or "layers: the packages and modules are as the architecture page shows them")
        sys.exit(bool(bad))
    PAGE.write_text(wanted)
    print("\n".join(bad))


if __name__ == "__main__":
    main()
