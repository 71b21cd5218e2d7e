#!/usr/bin/env python3
"""Checks that every module of treedb_core uses only the layers below it, and the doors only the core.

The order is the one in docs/architecture.md, lowest first. A `use crate::X` (or a `crate::X::` path) in a file of
layer L is an error when X stands above L, or beside it on the same line of the list. Tests inside a file count
too: a layer is tested with what it stands on.
"""
import pathlib
import re
import sys

CORE = [["error", "sync"], ["code"], ["cipher"], ["disk"], ["page"], ["wal", "vlog"], ["btree"], ["kv"], ["doc"],
        ["index"], ["access"], ["query"], ["aggregate"], ["collection"]]
# RowId is the one name every layer of rows shares; `access` may be named for it from below.
SHARED = {"RowId"}
RANK = {name: rank for rank, names in enumerate(CORE) for name in names}

USE = re.compile(r"crate::(?:\{([^}]*)\}|([A-Za-z_]+))")
root = pathlib.Path(__file__).resolve().parent.parent


def code_of(path):
    """The file without comments, so that a doc link to a higher layer is allowed."""
    return "\n".join(line.split("//", 1)[0] for line in path.read_text().splitlines())


bad = []
src = root / "treedb_core" / "src"
for path in sorted(src.rglob("*.rs")):
    layer = path.relative_to(src).parts[0].removesuffix(".rs")
    if layer == "lib":
        continue
    if layer not in RANK:
        bad.append(f"{path.relative_to(root)}: `{layer}` is not a layer; add it to scripts/check_layers.py and docs/architecture.md")
        continue
    for match in USE.finditer(code_of(path)):
        names = [part.strip().split("::")[0] for part in match.group(1).split(",")] if match.group(1) else [match.group(2)]
        for used in names:
            if used == layer or used in SHARED or not used:
                continue
            if used in RANK and RANK[used] >= RANK[layer]:
                bad.append(f"{path.relative_to(root)}: `{layer}` uses `{used}`, which stands above or beside it")

for door, banned in (("treedb_core", ("treedb_server", "treedb_pg", "pgrx")), ("treedb_server", ("treedb_pg", "pgrx")),
                     ("treedb_pg", ("treedb_server", "treedb_core::collection", "treedb_core::kv", "treedb_core::disk"))):
    for path in sorted((root / door / "src").rglob("*.rs")):
        text = code_of(path)
        bad += [f"{path.relative_to(root)}: `{door}` uses `{name}`" for name in banned if re.search(rf"\b{name}\b", text)]

print("\n".join(bad) or "layers: every module uses only what stands below it")
sys.exit(bool(bad))
