#!/usr/bin/env python3
"""Writes docs/format.md from the headers of the modules that define the bytes; `--check` only compares.

The byte maps live beside the code that reads and writes them; this page puts them in one place in the order in which
somebody would read a database from the outside in.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "treedb_core" / "src"
# Title and module of each chapter.
CHAPTERS = [
    ("A directory", "kv/mod.rs", "A directory"),
    ("Page file: pages", "page/mod.rs", "Bytes"),
    ("Page file: meta pages", "page/meta.rs", None),
    ("Page file: ledger", "page/ledger.rs", None),
    ("B+tree nodes", "btree/node/mod.rs", "Bytes"),
    ("Row tree nodes", "btree/rows/mod.rs", "Bytes"),
    ("Catalog of tables", "kv/catalog.rs", None),
    ("Dup tables", "kv/dup/mod.rs", "Bytes"),
    ("Command log: segments and frames", "wal/mod.rs", "Bytes"),
    ("Command log: a frame's payload", "kv/command.rs", None),
    ("Value log", "vlog/mod.rs", "Bytes"),
    ("Backup stream", "kv/backup/mod.rs", "Bytes of a stream"),
    ("Catalog of collections", "../collections/src/catalog/table.rs", None),
    ("A collection's catalog entry", "../collections/src/catalog/meta.rs", None),
    ("Template rows: a row", "doc/template/mod.rs", "A row"),
    ("Template rows: a shape", "doc/template/mod.rs", "A shape"),
    ("Index entries", "index/ordered/mod.rs", None),
    ("Encoded keys", "doc/key.rs", None),
    ("Long keys", "../collections/src/read/long_key.rs", None),
    ("Change log", "../collections/src/changes/mod.rs", "Bytes"),
    ("Places in a change stream", "../collections/src/changes/resume_token.rs", None),
]
HEAD = """# Formats

Every file's bytes. Generated from the headers of the modules that read and write them by `scripts/format_doc.py`: change
them there. All formats have version 1; none has been released, and until the first release a change may come without
an upgrade. A file with another magic or a newer version is refused with an error that names it.

A collection's rows are template rows, plain BSON or JSON text, as its catalog entry says. In PostgreSQL nothing of this lies
on the disk but node pages inside an index's pages and encoded keys inside them; tables keep PostgreSQL's own heap page format.
"""


def header(path):
    """The module's header as Markdown, links to other items reduced to their names."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line[3:].removeprefix(" "))
    text = "\n".join(lines)
    text = re.sub(r"\[`([^`]+)`\](\([^)]*\))?", r"`\1`", text)
    return re.sub(r"\[([^\]]+)\]\((?:crate|super)::[^)]*\)", r"\1", text)


def section(text, title):
    """The section of that title; the whole header without it."""
    if title is None:
        return text
    match = re.search(rf"^# {re.escape(title)}.*?\n(.*?)(?=^# |\Z)", text, re.S | re.M)
    if not match:
        sys.exit(f"format_doc: no section `# {title}`")
    return match.group(1)


def page():
    parts = [HEAD]
    for title, module, part in CHAPTERS:
        body = section(header(SRC / module), part).strip()
        body = re.sub(r"^# ", "### ", body, flags=re.M)
        parts.append(f"## {title}\n\n{body}\n\nSource: [`{module}`](../treedb_core/src/{module})\n")
    return "\n".join(parts)


def main():
    target = ROOT / "docs" / "format.md"
    if "--check" in sys.argv:
        if not target.exists() or target.read_text() != page():
            sys.exit("docs/format.md is not what the modules' headers say: run scripts/format_doc.py")
        print("docs/format.md agrees with the modules' headers")
    else:
        target.write_text(page())


if __name__ == "__main__":
    main()
