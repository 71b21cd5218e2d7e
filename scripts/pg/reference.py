"""The reference part of docs/postgres.md, made from the catalog of a database that has the extension."""
from cluster import ROOT

PAGE = ROOT / "docs" / "postgres.md"
BEGIN = "<!-- reference: made by scripts/pg_versions.sh --write-reference -->"
END = "<!-- end of reference -->"

# What a caller needs beside USAGE of schema treedb; treedb_pg/sql/privileges.sql tests it. Functions that are not here need nothing:
# they read their arguments, or the catalog.
READS, INSERTS, UPDATES, DELETES, OWNS = "SELECT", "INSERT", "SELECT, UPDATE; with upsert INSERT", "SELECT, DELETE", "owner of the table"
NEEDS = {
    "find": READS, "count": READS, "distinct": READS, "vector_search": READS,
    "aggregate": "SELECT, on collections named in stages too", "explain": "what the command needs",
    "insert_one": INSERTS, "insert_many": INSERTS,
    "update_one": UPDATES, "update_many": UPDATES, "replace_one": UPDATES, "find_one_and_update": UPDATES, "find_one_and_replace": UPDATES,
    "delete_one": DELETES, "delete_many": DELETES, "find_one_and_delete": DELETES, "expire": DELETES,
    "bulk_write": "for each operation what it needs",
    "create_collection": "CREATE in the schema", "drop_collection": OWNS, "rename_collection": OWNS + "; CREATE in the schema",
    "coll_mod": OWNS, "create_index": OWNS + "; CREATE in the schema", "drop_index": OWNS,
    "create_search_index": OWNS + "; CREATE in the schema", "update_search_index": OWNS + "; CREATE in the schema", "drop_search_index": OWNS,
    "check": "owner of the index", "index_pages": "owner of the index", "index_page_objects": "owner of the index",
}

FUNCTIONS = """SELECT p.proname, p.proname || '(' || replace(pg_get_function_arguments(p.oid), 'treedb.', '') || ')', replace(pg_get_function_result(p.oid), 'treedb.', ''),
    coalesce(obj_description(p.oid, 'pg_proc'), ''), p.prosecdef,
    'internal' = ANY (ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes::oid[]) t)) OR p.prorettype = 'trigger'::regtype
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'treedb') ORDER BY p.proname COLLATE "C", pg_get_function_arguments(p.oid) COLLATE "C" """
VIEWS = """SELECT c.relname, coalesce(obj_description(c.oid, 'pg_class'), ''), c.relacl::text LIKE '%=r/%'
FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e' WHERE c.relkind = 'v'
    AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'treedb') ORDER BY 1"""
TYPES = """SELECT t.typname, coalesce(obj_description(t.oid, 'pg_type'), '')
FROM pg_type t JOIN pg_depend d ON d.objid = t.oid AND d.classid = 'pg_type'::regclass AND d.deptype = 'e'
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'treedb')
    -- (arrays and the rows of views are members too since version 16)
    AND t.typelem = 0 AND t.typrelid = 0 ORDER BY 1"""
SETTINGS = """SELECT name, vartype, coalesce(unit, ''), coalesce(nullif(boot_val, ''), 'empty'), CASE context WHEN 'user' THEN 'anybody' WHEN 'superuser' THEN 'superusers' ELSE context END, short_desc
FROM pg_settings WHERE name LIKE 'treedb.%' ORDER BY 1"""


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def made(db):
    """The text between the marks."""
    # Settings are known when the library is loaded.
    db.execute("SELECT '{}'::treedb.bson")
    lines = ["| function | returns | what | needs |", "|---|---|---|---|"]
    support = []
    for name, signature, result, comment, definer, internal in db.execute(FUNCTIONS):
        if definer:
            raise AssertionError(f"{signature} is a security definer")
        if (comment or name in NEEDS) and not internal:
            lines.append(f"| `{cell(signature)}` | `{cell(result)}` | {cell(comment)} | {NEEDS.get(name, '')} |")
        elif name not in support:
            support.append(name)
    lines += ["", "Functions behind types, casts, operators, operator classes, triggers and access methods, which need nothing: " + ", ".join(f"`{name}`" for name in support) + ".", ""]
    lines += ["| view | what | who may read it |", "|---|---|---|"]
    lines += [f"| `{name}` | {cell(comment)} | {'everybody' if public else 'its owner'} |" for name, comment, public in db.execute(VIEWS)]
    lines += ["", "| type | what |", "|---|---|"]
    lines += [f"| `{name}` | {cell(comment)} |" for name, comment in db.execute(TYPES)]
    lines += ["", "| setting | type | default | who may change it | what |", "|---|---|---|---|---|"]
    lines += [f"| `{name}` | {kind}{f', in {unit}' if unit else ''} | {default} | {who} | {cell(short)} |" for name, kind, unit, default, who, short in db.execute(SETTINGS)]
    return "\n".join(lines)


def parts():
    """The page before, between and after the marks."""
    before, rest = PAGE.read_text().split(BEGIN, 1)
    inside, after = rest.split(END, 1)
    return before, inside.strip("\n"), after


def write(db):
    before, _, after = parts()
    PAGE.write_text(f"{before}{BEGIN}\n{made(db)}\n{END}{after}")
