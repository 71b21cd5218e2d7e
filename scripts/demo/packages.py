#!/usr/bin/env python3
"""The machine's own package index as JSON lines: one real document a package.

    scripts/demo/packages.py > packages.jsonl

`_id` is the package's name. Where the index holds several versions of a package the first stays, which is the one
`apt-get install` would take. Lists (dependencies, tags) become arrays, sizes numbers; a version constraint is kept
apart from the name it belongs to.
"""
import json
import re
import subprocess
import sys

RELATIONS = {"Depends": "depends", "Pre-Depends": "pre_depends", "Recommends": "recommends", "Suggests": "suggests",
             "Conflicts": "conflicts", "Breaks": "breaks", "Provides": "provides", "Replaces": "replaces"}
PLAIN = {"Version": "version", "Section": "section", "Priority": "priority", "Architecture": "architecture",
         "Source": "source", "Maintainer": "maintainer", "Homepage": "homepage", "SHA256": "sha256",
         "Filename": "filename", "Multi-Arch": "multi_arch"}
CONSTRAINT = re.compile(r"^\s*([^\s(:]+)(?::\S+)?\s*(?:\(([^)]*)\))?")


def relations(text):
    """`a (>= 1), b | c` as [{name, version?}, {any: [..]}]."""
    out = []
    for clause in text.split(","):
        choices = []
        for choice in clause.split("|"):
            match = CONSTRAINT.match(choice)
            if match:
                choices.append({"name": match[1], **({"version": match[2]} if match[2] else {})})
        if choices:
            out.append(choices[0] if len(choices) == 1 else {"any": choices})
    return out


def document(fields):
    """The document of one record of the index."""
    doc = {"_id": fields["Package"]}
    for name, value in fields.items():
        if name in PLAIN:
            doc[PLAIN[name]] = value
        elif name in RELATIONS:
            doc[RELATIONS[name]] = relations(value)
    doc["size"] = int(fields.get("Size", 0))
    doc["installed_kb"] = int(fields.get("Installed-Size", 0))
    doc["tags"] = [tag.strip() for tag in fields.get("Tag", "").split(",") if tag.strip()]
    summary, _, rest = fields.get("Description", "").partition("\n")
    doc["summary"] = summary
    if rest:
        doc["description"] = "\n".join("" if line == " ." else line.strip() for line in rest.split("\n"))
    return doc


def records(lines):
    """The records of a deb822 stream, each a dict of field to value, continuation lines kept."""
    fields, last = {}, None
    for line in lines:
        line = line.rstrip("\n")
        if not line:
            if fields:
                yield fields
            fields, last = {}, None
        elif line[0] in " \t" and last:
            fields[last] += "\n" + line
        else:
            last, _, value = line.partition(":")
            fields[last] = value.strip()
    if fields:
        yield fields


def main():
    index = subprocess.Popen(["apt-cache", "dumpavail"], stdout=subprocess.PIPE, text=True, encoding="utf-8",
                             errors="replace")
    seen, written = set(), 0
    for fields in records(index.stdout):
        if fields.get("Package") and fields["Package"] not in seen:
            seen.add(fields["Package"])
            json.dump(document(fields), sys.stdout, ensure_ascii=False, separators=(",", ":"))
            sys.stdout.write("\n")
            written += 1
    if index.wait() or not written:
        sys.exit("the package index is empty: run `apt-get update` first")
    print(f"{written} packages", file=sys.stderr)


if __name__ == "__main__":
    main()
