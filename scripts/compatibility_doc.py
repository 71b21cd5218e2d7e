#!/usr/bin/env python3
"""Writes the tables of docs/mongodb-compatibility.md; `--check` only compares.

A row of a table is a name that MongoDB or the server has: a command, an option, a stage, an operator. The rows are those of
treedb_server/tests/driver/compatibility/*.toml, each with what differs and with a try, which test_compatibility.py sends to the
server. The names that the server has are read from its sources: the tables and the `match`es that parse them. A name of the
server without a row, and a row that says that something works which the server does not know, are errors.
"""
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/mongodb-compatibility.md"
ROWS = ROOT / "treedb_server/tests/driver/compatibility"
QUERY = "treedb_core/query/src"
COLLECTIONS = "treedb_core/collections/src"
MONGO = "treedb_server/src/mongo"

STRING = r'b?"(?:\\[\s\S]|[^"\\])*"'


def fail(message):
    sys.exit(f"compatibility_doc: {message}")


# Reading the sources.

def source(path):
    """The code of a file, without comments and tests."""
    file = ROOT / path
    if not file.exists():
        fail(f"{path} is gone: say in scripts/compatibility_doc.py where its names are now")
    text = re.sub(rf'({STRING})|//[^\n]*', lambda found: found[1] or "", file.read_text())
    return text.split("#[cfg(test)]\nmod")[0]


def block(text, start):
    """The braces that open after `start`, with what is between them."""
    depth = 0
    for token in re.finditer(rf"{STRING}|'(?:\\.|[^'\\])'|[{{}}]", text[start:]):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0 and token[0] == "}":
            return text[text.index("{", start):start + token.end()]
    return fail("unbalanced braces")


def function(path, name):
    """The body of a function; those of all that have the name."""
    text = source(path)
    found = [block(text, found.end()) for found in re.finditer(rf"\bfn {name}\b", text)]
    if not found:
        fail(f"no function {name} in {path}: say in scripts/compatibility_doc.py where its names are now")
    return "".join(found)


def arms(path, name, matched=None):
    """The strings that a function's `match`es have as patterns; only of those over `matched`, if that is given."""
    body = function(path, name)
    if matched:
        starts = [found.start() for found in re.finditer(rf"match {re.escape(matched)} \{{", body)]
        if not starts:
            fail(f"{name} in {path} has no match over {matched}")
        body = "".join(block(body, start) for start in starts)
    found = set()
    for pattern in re.findall(rf'((?:{STRING}\s*\|\s*)*{STRING})(?: if [^"\n]*)?\s*=>', body):
        found.update(re.findall(r'"([^"]*)"', pattern))
    return found


def compared(path, name):
    """The strings within `matches!` of a function, and those that something is compared with."""
    body = function(path, name)
    parts = re.findall(r"matches!\(([^)]*)\)", body) + re.findall(rf"[!=]= ({STRING})", body)
    return {text for part in parts for text in re.findall(r'"([^"]*)"', part)}


def constant(path, name):
    """The strings of a constant."""
    found = re.search(rf"(?:const|static) {name}: [^=]* =\s*(.*?);\n", source(path), re.S)
    if not found:
        fail(f"no constant {name} in {path}")
    return found[1]


def strings(path, name):
    return set(re.findall(r'"([^"]*)"', constant(path, name)))


def number(path, name):
    """The value of a constant number, which may be one of treedb_protocol's."""
    text = constant(path, name)
    if found := re.search(r"\btreedb_protocol::(\w+)::([A-Z_]+)", text):
        text = text.replace(found[0], str(number(f"treedb_server/protocol/src/{found[1]}.rs", found[2])))
    text = re.sub(r"\s*as \w+|_", "", text)
    if not re.fullmatch(r"[\d\s*<+()-]+", text):
        fail(f"{name} in {path} is no number: {text}")
    return eval(text)  # only digits and operators


def operators(names):
    return {name for name in names if name.startswith("$")}


def expressions():
    table = source(f"{QUERY}/query/expr/table.rs")
    found = set(re.findall(r'(?:\b(?:def|strict)\(|Def \{ name:)\s*"(\$\w+)"', table))
    return found | arms(f"{QUERY}/query/expr/parse.rs", "operator")


def filters():
    geo = f"{QUERY}/geo"
    return operators(
        arms(f"{QUERY}/query/filter/parse.rs", "document") | arms(f"{QUERY}/query/filter/parse.rs", "operators")
        | arms(f"{QUERY}/query/filter/bits.rs", "parse") | arms(f"{QUERY}/query/filter/geo.rs", "parse")
        | arms(f"{geo}/region.rs", "parse_within") | arms(f"{geo}/near.rs", "parse")
        | compared(f"{geo}/region.rs", "only_shape"))


def updates():
    return (strings(f"{QUERY}/query/update/parse.rs", "OPERATORS") | operators(arms(f"{QUERY}/query/update/push.rs", "parse"))
            | operators(arms(f"{QUERY}/query/projection/reshape.rs", "parse")))


def stages():
    return (operators(strings(f"{QUERY}/aggregate/parser.rs", "STAGES")) | operators(arms(f"{MONGO}/commands/own_sources.rs", "replaced"))
            | {"$changeStream", "$changeStreamSplitLargeEvent"})


def accumulators():
    return operators(arms(f"{QUERY}/aggregate/accumulator.rs", "operator", "name"))


def commands():
    return set(re.findall(r'Command::(?:new|quick)\(\s*"(\w+)"', source(f"{MONGO}/commands/mod.rs")))


# Where the options of each command are read: the files and functions of `commands/` whose `match arg.name` has them.
WRITE, USER, ROLE, ONLY_WRITE_CONCERN, GRANTED, SEARCH_INDEX, BULK = (
    ("writes.rs", "read"), ("users.rs", "read"), ("roles.rs", "read"), ("users.rs", "only_write_concern"), ("users.rs", "roles_argument"),
    ("search_indexes.rs", "read"), "bulk_write.rs")
OPTIONS = {
    "aggregate": [("aggregate.rs", "read")],
    "applyOps": [("apply_ops.rs", "run")],
    "authenticate": [("sasl.rs", "by_certificate")],
    "bulkWrite": [(BULK, "run"), WRITE],
    "bulkWrite.delete": [(BULK, "delete")],
    "bulkWrite.insert": [(BULK, "insert")],
    "bulkWrite.nsInfo": [(BULK, "collections")],
    "bulkWrite.update": [(BULK, "update")],
    "collMod": [("coll_mod.rs", "run")],
    "collMod.index": [("coll_mod.rs", "index_change")],
    "collStats": [("coll_stats.rs", "scale_factor")],
    "compact": [("compact.rs", "run")],
    "configureFailPoint": [("configure_fail_point.rs", "run")],
    "connectionStatus": [("connection_status.rs", "run")],
    "convertToCapped": [("convert_to_capped.rs", "run")],
    "count": [("count.rs", "parse")],
    "create": [("create.rs", "run")],
    "createIndexes": [("create_indexes.rs", "run")],
    "createRole": [ROLE],
    "createUser": [USER],
    "currentOp": [("current_op.rs", "run")],
    "dataSize": [("data_size.rs", "run")],
    "dbHash": [("db_hash.rs", "run")],
    "dbStats": [("db_stats.rs", "run")],
    "delete": [WRITE],
    "delete.deletes": [("delete.rs", "parse")],
    "distinct": [("distinct.rs", "parse")],
    "drop": [("drop.rs", "run")],
    "dropAllRolesFromDatabase": [ONLY_WRITE_CONCERN],
    "dropAllUsersFromDatabase": [ONLY_WRITE_CONCERN],
    "dropDatabase": [("drop_database.rs", "run")],
    "dropIndexes": [("drop_indexes.rs", "run")],
    "dropRole": [ONLY_WRITE_CONCERN],
    "dropSearchIndex": [SEARCH_INDEX],
    "dropUser": [ONLY_WRITE_CONCERN],
    "explain": [("explain.rs", "run")],
    "find": [("find.rs", "parse")],
    "findAndModify": [("find_and_modify.rs", "parse"), WRITE],
    "fsync": [("fsync.rs", "run")],
    "getDefaultRWConcern": [("default_concern.rs", "run")],
    "getMore": [("get_more.rs", "run")],
    "grantPrivilegesToRole": [ROLE],
    "grantRolesToRole": [GRANTED],
    "grantRolesToUser": [GRANTED],
    "insert": [WRITE],
    "killCursors": [("kill_cursors.rs", "run")],
    "killOp": [("kill_op.rs", "run")],
    "listCollections": [("list_collections.rs", "run")],
    "listDatabases": [("list_databases.rs", "run")],
    "listIndexes": [("list_indexes.rs", "run")],
    "listSearchIndexes": [("search_indexes.rs", "list"), SEARCH_INDEX],
    "planCacheClear": [("plan_cache.rs", "check")],
    "planCacheClearFilters": [("plan_cache.rs", "check")],
    "planCacheListFilters": [("plan_cache.rs", "check")],
    "profile": [("profile.rs", "run")],
    "renameCollection": [("rename_collection.rs", "run")],
    "replSetGetConfig": [("replica_set.rs", "config")],
    "replSetGetStatus": [("replica_set.rs", "status")],
    "revokePrivilegesFromRole": [ROLE],
    "revokeRolesFromRole": [GRANTED],
    "revokeRolesFromUser": [GRANTED],
    "rolesInfo": [("roles.rs", "info")],
    "saslContinue": [("sasl.rs", "proceed")],
    "saslStart": [("sasl.rs", "begin")],
    "setFeatureCompatibilityVersion": [("feature_version.rs", "run")],
    "shutdown": [("shutdown.rs", "run")],
    "update": [WRITE],
    "update.updates": [("update.rs", "parse")],
    "updateRole": [ROLE],
    "updateSearchIndex": [("search_indexes.rs", "update"), SEARCH_INDEX],
    "updateUser": [USER],
    "usersInfo": [("users.rs", "info")],
    "validate": [("validate.rs", "run")],
    # Shown with the indexes.
    None: [("create_indexes.rs", "parse")],
}
# Options that are not read by a `match`, and those that one of several commands with the same reader does not have.
READ_ELSEWHERE = {
    "bulkWrite": {"let"}, "configureFailPoint": {"data"}, "create": {"validator", "validationAction", "validationLevel"},
    "collMod": {"validator", "validationAction", "validationLevel"}, "createSearchIndexes": {"indexes"},
    "currentOp": {"a filter"}, "delete": {"deletes", "let"}, "insert": {"documents"}, "serverStatus": {"a section"}, "update": {"updates", "let"},
}
NOT_OF = {
    "findAndModify": {"ordered"}, "grantPrivilegesToRole": {"roles", "authenticationRestrictions"},
    "revokePrivilegesFromRole": {"roles", "authenticationRestrictions"},
}
# What else reads arguments: parts that the rows of their commands describe, and commands that are read a second time.
OTHER_READERS = {
    ("apply_ops.rs", "read"), ("create.rs", "check_id_index"), ("current_op.rs", "documents"),
    ("list_collections.rs", "batch_size"), ("plan_cache.rs", "documents"), ("own_sources.rs", "sessions"), ("own_sources.rs", "collection_stats"),
    ("profile.rs", "answer"), ("profile.rs", "create"), ("search_indexes.rs", "specification"), ("stable_api.rs", "check"), ("writes.rs", "each_statement"),
    ("search_indexes.rs", "drop"), ("sessions.rs", "kill_by_pattern"), ("sessions.rs", "add_user"),
}


def options():
    found = {("any command", name) for name in strings(f"{MONGO}/args.rs", "READ_FOR_EVERY_COMMAND")}
    found.add(("any command", "writeConcern"))
    for command, readers in OPTIONS.items():
        names = set().union(*(arms(f"{MONGO}/commands/{file}", name, "arg.name") for file, name in readers))
        found.update((command, name) for name in names - NOT_OF.get(command, set()) if command)
    found.update((command, name) for command, names in READ_ELSEWHERE.items() for name in names)
    # The data of `failCommand`, which is matched with its name.
    data = re.findall(r'\((?:"failCommand"|_), ([^)]*)\)', function(f"{MONGO}/fail_points.rs", "check"))
    found.update(("configureFailPoint.data", name) for part in data for name in re.findall(r'"(\w+)"', part))
    return found


# Where the fields of each stage are listed: a file, and the first arguments of `known_fields`, or of `known_fields_or` or `target` after
# the code, there.
STAGE_OPTIONS = {
    "$bucket": ("bucket.rs", "ErrorCode::Location40197, NAME, doc"), "$bucketAuto": ("bucket.rs", "C::Location40245, NAME, doc"),
    "$densify": ("densify.rs", "NAME, doc"), "$densify.range": ("densify.rs", '"$densify.range", range'), "$fill": ("densify.rs", "NAME, doc"),
    "$geoNear": ("geo_near.rs", "NAME, operand"), "$graphLookup": ("lookup/graph_lookup.rs", "NAME, doc"),
    "$listSearchIndexes": ("source.rs", "stage, operand"), "$lookup": ("lookup/mod.rs", '"$lookup", doc'),
    "$merge": ("write.rs", "NAME, fields"), "$out": ("write.rs", '"$out", stage.value()'), "$sample": ("sample.rs", '"$sample", doc'),
    "$setWindowFields": ("window/mod.rs", "NAME, doc"), "$setWindowFields.output.window": ("window/function.rs", '"window", window'),
    "$unionWith": ("union_with.rs", '"$unionWith", doc'), "$unwind": ("unwind.rs", "NAME, doc"),
    "$vectorSearch": ("vector_search.rs", "NAME, operand"),
}


def stage_options():
    found = set()
    for stage, (file, arguments) in STAGE_OPTIONS.items():
        text = source(f"{QUERY}/aggregate/stages/{file}")
        lists = re.findall(rf"(?:known_fields(?:_or)?|target)\(\s*(?:[\w:]+, )?{re.escape(arguments)}, &(\w+|\[[^\]]*\])\)", text)
        # Of two in one file, `$fill` and `$listSearchIndexes` come last.
        if not lists:
            fail(f"{file} has no known_fields({arguments}, ..): say in scripts/compatibility_doc.py where the fields of {stage} are")
        fields = lists[-1] if stage in ("$fill", "$listSearchIndexes") else lists[0]
        if not fields.startswith("["):
            fields = re.search(rf"let {fields} = (\[[^\]]*\]);", text)[1]
        found.update((stage, name) for name in re.findall(r'"([^"]*)"', fields))
    commands = f"{MONGO}/commands"
    found.update(("$changeStream", name) for name in arms(f"{COLLECTIONS}/changes/watch.rs", "options", "name"))
    found.update(("$collStats", name) for name in arms(f"{commands}/own_sources.rs", "collection_stats", "arg.name"))
    found.update(("$currentOp", name) for name in arms(f"{commands}/current_op.rs", "documents", "arg.name"))
    found.update(("$planCacheStats", name) for name in arms(f"{commands}/plan_cache.rs", "documents", "arg.name"))
    found.update(("$listSessions", name) for name in arms(f"{commands}/own_sources.rs", "sessions", "arg.name"))
    return found


def unlisted_readers():
    """Functions of commands that read arguments and are in none of the lists above."""
    known = OTHER_READERS.union(*OPTIONS.values())
    for file in sorted((ROOT / MONGO / "commands").glob("*.rs")):
        text = source(file.relative_to(ROOT))
        for found in re.finditer(r"match arg\.name \{", text):
            name = re.findall(r"\bfn (\w+)", text[:found.start()])[-1]
            if (file.name, name) not in known:
                yield f"{file.name} reads arguments in `{name}`: say in scripts/compatibility_doc.py of which command"


# What each table has: the sources of its names.
TABLES = {
    "commands": commands,
    "options": options,
    "stage_options": stage_options,
    "expressions": expressions,
    "filters": filters,
    "updates": updates,
    "stages": stages,
    "accumulators": accumulators,
    "windows": lambda: operators(arms(f"{QUERY}/aggregate/stages/window/function.rs", "parse_output")) | accumulators(),
}
# What other tables have that is compared, among their groups.
PARTS = {
    ("collations", "options"): lambda: arms(f"{QUERY}/doc/collation/spec.rs", "read", "name"),
    ("indexes", "options"): lambda: arms(f"{MONGO}/commands/create_indexes.rs", "parse", "arg.name"),
}
# Names that are parsed to be refused with a message of their own.
REFUSED_BY_NAME = {"$where", "$text", "$accumulator", "$function", "$queryStats"}


# The rows.

class Row:
    """A row of the data: a name within a group."""

    # What all tries of a row have, unless they say otherwise.
    SHARED = ("base", "of", "on", "server")

    def __init__(self, table, group, name, data):
        self.table, self.group, self.name, self.data = table, group, name, data

    @property
    def state(self):
        if "refused" in self.data:
            return f"refused ({self.data['refused']})"
        return "differs" if "differs" in self.data else "works"

    @property
    def remark(self):
        """What differs from MongoDB; or what else there is to be said."""
        return self.data.get("differs", self.data.get("note", ""))

    @property
    def tries(self):
        """What is sent to the server, each with the answer that is expected."""
        shared = {key: self.data[key] for key in self.SHARED if key in self.data}
        first = {key: value for key, value in self.data.items() if key not in ("differs", "more", "note", "refused", "tests")}
        if "refused" in self.data:
            first["fails"] = self.data["refused"]
        return ([first] if "try" in first else []) + [{**shared, **each} for each in self.data.get("more", [])]

    def __repr__(self):
        return f"{self.table}: {self.group}: {self.name}"


def rows(table):
    """The rows of a file of data, in its order. What a group has beside its rows is that of each of them."""
    found = []
    for group, of_group in tomllib.loads((ROWS / f"{table}.toml").read_text()).items():
        shared = {key: value for key, value in of_group.items() if not isinstance(value, dict)}
        found += [Row(table, group, name, {**shared, **row}) for name, row in of_group.items() if isinstance(row, dict)]
    return found


# The tables.

def cell(text):
    return text.replace("|", "\\|")


def code(name):
    """A name as code, if it is one."""
    return f"`{name}`" if re.fullmatch(r"[\w.$@=\[\]]+", name) else name


def lines(*cells):
    return "\n".join("| " + " | ".join(map(cell, row)) + " |" for row in cells).replace("|  |", "| |").replace("|  |", "| |")


def head(*titles):
    return lines(titles) + "\n" + "|" + "---|" * len(titles) + "\n"


def by_group(table, of_code=False):
    """A table of names, in which those of one group with the same state and the same remark share a line."""
    merged = {}
    for row in rows(table):
        merged.setdefault((row.group, row.state, row.remark), []).append(code(row.name))
    return head("", "", "", "remarks") + lines(*(
        (code(group) if of_code else group, " ".join(names), state, remark) for (group, state, remark), names in merged.items()))


def by_name(table):
    """A table with a line for each name."""
    return head("", "", "remarks") + lines(*((code(row.name), row.state, row.remark) for row in rows(table)))


def commands_by_name(_):
    """The commands that there are, and those that MongoDB has beside them."""
    refused = {}
    for row in rows("commands"):
        if "refused" in row.data:
            refused.setdefault((row.group, row.state, row.remark), []).append(code(row.name))
    there = ((code(row.name), row.state, row.remark) for row in rows("commands") if "refused" not in row.data)
    return head("command", "", "remarks") + lines(*there) + "\n\nMongoDB's other commands:\n\n" + head("", "", "", "why, or what instead") + lines(
        *((group, " ".join(names), state, remark) for (group, state, remark), names in refused.items()))


def by_text(table):
    return head("", "") + lines(*((row.name, row.remark) for row in rows(table)))


def errors(_):
    return head("code", "name", "when") + lines(*((row.name, row.data["name"], row.remark) for row in rows("errors")))


def setting(name):
    """The default of a setting, or of a limit that no setting changes."""
    found = re.search(rf'\b{name}: [^=]+= Is\("([^"]*)"\);', source("treedb_server/src/settings/table.rs"))
    if found:
        return re.sub(r"(\d)([A-Z])", r"\1 \2", found[1])
    found = re.search(rf"\b{name}: ([\d_]+),", function("treedb_server/src/config.rs", "default"))
    return found[1].replace("_", "") if found else fail(f"there is no setting or limit {name}")


def limits(_):
    def text(row):
        def value(found):
            file = row.data.get("constants", {}).get(found[1])
            shown = str(number(file, found[1])) if file else setting(found[1])
            return f"{int(shown):,}" if shown.isdigit() else shown
        return re.sub(r"\{(\w+)\}", value, row.remark)
    return head("limit", "value") + lines(*((row.name, text(row)) for row in rows("limits")))


def ignored_options(_):
    """The options without effect: the server's own table."""
    found = re.findall(r'\brow\(\s*(ANY_COMMAND|"[^"]*"),\s*"([^"]*)",\s*"([^"]*)",?\s*\)', constant(f"{MONGO}/ignored_options.rs", "IGNORED_OPTIONS"))
    return head("where", "option", "why it has no effect") + lines(*(
        ("any command" if owner == "ANY_COMMAND" else owner.strip('"'), "all others" if option == "*" else f"`{option}`", why)
        for owner, option, why in found))


# How the table of each block of the page is made.
BLOCKS = {
    **dict.fromkeys(("expressions", "filters", "updates", "stages", "accumulators", "windows"), by_group),
    **dict.fromkeys(("collations", "indexes"), by_name),
    **dict.fromkeys(("acknowledged", "changes", "geo", "kinds", "oplog", "transactions", "vector"), by_text),
    "commands": commands_by_name, "errors": errors, "ignored options": ignored_options, "limits": limits,
    **dict.fromkeys(("options", "stage_options"), lambda table: by_group(table, of_code=True)),
}


def compare(table, there, of_table, named_so=lambda row: row.name):
    """What is wrong with the names of a table, where the server has those of `there`."""
    named = {named_so(row) for row in of_table if "refused" not in row.data}
    refused = {named_so(row) for row in of_table if "refused" in row.data}
    for name in sorted(there - named - refused):
        yield f"the server has {name}, and {table}.toml has no row for it"
    for name in sorted(named - there):
        yield f"{table}.toml says that {name} works, which the server does not know"
    # Options are also read to be refused, which their tries show.
    if not table.endswith("options") and of_table[0].group != "options":
        for name in sorted((there & refused) - named - REFUSED_BY_NAME):
            yield f"{table}.toml says that {name} is refused, which the server has"


def problems():
    """What is wrong with the rows."""
    for table, names in TABLES.items():
        # Paths of updates are no operators.
        own = [row for row in rows(table) if not (table == "updates" and row.name.startswith("a."))]
        yield from compare(table, names(), own, (lambda row: (row.group, row.name)) if table.endswith("options") else lambda row: row.name)
    for (table, group), names in PARTS.items():
        yield from compare(table, names(), [row for row in rows(table) if row.group == group])
    yield from unlisted_readers()
    table = source(f"{QUERY}/error/codes.rs") + source(f"{MONGO}/protocol_code.rs")
    for row in rows("errors"):
        name, number = row.data["name"], f"{int(row.name):_}"
        if not (name == f"Location{row.name}" or re.search(rf"\b{name} = ({row.name}|{number}),", table)):
            yield f"errors.toml calls {row.name} {name}, and the server does not"


def page():
    text = PAGE.read_text()
    for name, render in BLOCKS.items():
        begin, end = f"<!-- {name}: made by scripts/compatibility_doc.py -->", f"<!-- end of {name} -->"
        if begin not in text or end not in text:
            fail(f"{PAGE.name} has no place for the table of {name}: {begin} .. {end}")
        before, rest = text.split(begin)
        text = before + begin + "\n\n" + render(name) + "\n\n" + end + rest.split(end)[1]
    return text


def main():
    if wrong := list(problems()):
        fail("\n".join(["the rows are not those of the server:", *wrong]))
    if "--check" not in sys.argv:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        fail(f"docs/{PAGE.name} differs from its data: run scripts/compatibility_doc.py")
    else:
        print(f"docs/{PAGE.name} agrees with the server's tables and with the rows that are tried")


if __name__ == "__main__":
    main()
