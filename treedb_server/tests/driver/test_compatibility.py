"""docs/mongodb-compatibility.md: every row of its tables is tried against the server. The rows, and what is tried of each, are in
`compatibility/*.toml`; scripts/compatibility_doc.py makes the tables of them, and compares the names with the server's own."""
import ast
import base64
import datetime
import functools
import json
import math
import pathlib
import re
import sys

import bson
import pytest
from bson.codec_options import CodecOptions
from pymongo.errors import OperationFailure

from server import Server
from wire import Wire

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "scripts"))
import compatibility_doc  # noqa: E402

DOCUMENTS = """[
    {"_id": 1, "n": 1, "s": "b", "list": [1, 2], "v": [1.0, 0.0], "place": [1, 1], "gap": null},
    {"_id": 2, "n": 2, "s": "a", "list": [3], "v": [0.0, 1.0], "only": true, "place": [50, 50], "gap": 20},
    {"_id": 3, "n": 0, "list": [], "ref": {"$ref": "films", "$id": 7, "$db": "other"}, "gap": 10}
]"""

#: What expressions are evaluated for.
OPERANDS = """{
    "_id": 1, "n": 1, "negative": -7, "x": 2.5, "s": "Hello", "list": [3, 1, 2], "doc": {"a": 1, "b": 2},
    "at": {"$date": "2024-02-29T12:34:56.789Z"}, "time": {"$timestamp": {"t": 1700000000, "i": 5}}
}"""

#: Commands after which the database is as before.
READS = {"aggregate", "buildInfo", "collStats", "connPoolStats", "dbHash", "connectionStatus", "count", "currentOp", "dataSize", "dbStats",
         "distinct", "explain", "find", "getCmdLineOpts", "getDefaultRWConcern", "getLog", "fsync", "getMore", "getParameter", "hello", "hostInfo", "isMaster",
         "killCursors", "killOp", "killSessions", "listCollections", "listCommands", "listDatabases", "listIndexes",
         "listSearchIndexes", "logRotate", "logout", "ping", "planCacheClear",
         "planCacheClearFilters", "planCacheListFilters", "refreshSessions", "rolesInfo", "saslStart", "saslContinue", "serverStatus", "setFeatureCompatibilityVersion",
         "startSession", "top", "usersInfo", "validate", "whatsmyuri"}


# Extended JSON, of which `bson.json_util` takes operators such as `$regex` and `$ref` for values.

EXTENDED = {
    "$binary": lambda value: bson.Binary(base64.b64decode(value["base64"]), int(value["subType"], 16)),
    "$date": lambda value: datetime.datetime.fromisoformat(value.replace("Z", "+00:00")),
    "$minKey": lambda _: bson.MinKey(),
    "$numberDecimal": bson.Decimal128,
    "$numberDouble": float,
    "$numberLong": bson.Int64,
    "$oid": bson.ObjectId,
    "$regularExpression": lambda value: bson.Regex(value["pattern"], value["options"]),
    "$timestamp": lambda value: bson.Timestamp(value["t"], value["i"]),
}


def parsed(text, database="DB"):
    def value(document):
        if len(document) == 1:
            (name, inner), = document.items()
            if name in EXTENDED:
                return EXTENDED[name](inner)
        return document
    return json.loads(re.sub(r"\bDB(?=2?[\".])", database, text), object_hook=value)


def matches(pattern, value):
    """Whether a value is what is expected: "*" is any, of documents the fields that are named, "-" for those that are not there."""
    if pattern == "*":
        return True
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            name not in value if inner == "-" else name in value and matches(inner, value[name]) for name, inner in pattern.items())
    if isinstance(pattern, list):
        return isinstance(value, list) and len(pattern) == len(value) and all(map(matches, pattern, value))
    return pattern == value


def same(expected, found):
    """Whether two values are the same, of the same type; doubles may differ in the last digits."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and list(expected) == list(found) and all(map(same, expected.values(), found.values()))
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, float):
        return isinstance(found, float) and math.isclose(expected, found, rel_tol=1e-14)
    return bson.encode({"": expected}) == bson.encode({"": found})


# The database that the rows are tried on.

class Tried:
    """A server, and a database that is made anew when a try may have changed it."""

    def __init__(self, directory, *flags):
        self.server = Server(directory, "--durability", "relaxed", *flags)
        self.client = self.server.client(retryWrites=False)
        self.number, self.clean = 0, False

    @property
    def db(self):
        return self.client.get_database(f"Compat{self.number}x", CodecOptions(tz_aware=True))

    def fresh(self):
        if not self.clean:
            self.client.drop_database(self.db)
            self.number += 1
            self.fill()
            self.clean = True
        return self.db

    def fill(self):
        db = self.db
        db.c.insert_many(parsed(DOCUMENTS))
        db.operands.insert_one(parsed(OPERANDS))
        db.command("createIndexes", "c", indexes=[
            {"key": {"n": 1}, "name": "n_1"}, {"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 3600},
            {"key": {"place": "2dsphere"}, "name": "place_2dsphere"}])
        db.command("createSearchIndexes", "c", indexes=[{"name": "v", "type": "vectorSearch", "definition": {
            "fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "cosine"}]}}])
        db.create_collection("strict", validator={"valid": True})
        db.create_collection("view", viewOn="c", pipeline=[])
        db.create_collection("capped", capped=True, size=4096)
        db.capped.insert_one({"_id": 1})
        db.create_collection("series", timeseries={"timeField": "at"})
        db.long.insert_one({"long": "a" * 40})
        db.command("createUser", "user", pwd="p", roles=["read"], customData={"a": 0}, mechanisms=["SCRAM-SHA-256", "SCRAM-SHA-1"])
        db.command("createRole", "role", privileges=[], roles=[])

    def command(self, text, on):
        """The reply to a command, also if it is an error."""
        db = self.fresh()
        command = parsed(text, db.name)
        self.clean = next(iter(command)) in READS and not re.search(r"\$out|\$merge", text)
        return self.client[on or db.name].command(command, check=False, codec_options=CodecOptions(tz_aware=True))

    def stop(self):
        for database in self.client.list_database_names():
            if database not in ("admin", "config", "local"):
                self.client.drop_database(database)
        self.client.close()
        assert self.server.stop() == 0, "".join(self.server.log[-20:])
        assert not [line for line in self.server.log if "panic" in line]


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """The server of a kind, started when it is first asked for."""
    flags = {"standalone": (), "replica-set": ("--replica-set", "rs"), "test-commands": ("--enable-test-commands",)}
    servers = {}

    def of(kind):
        if kind not in servers:
            servers[kind] = Tried(tmp_path_factory.mktemp(kind), *flags[kind])
        return servers[kind]
    yield of
    for server in servers.values():
        server.stop()


def code_of(reply):
    """The code of an error: of the command, or of its first statement."""
    first = (reply.get("writeErrors") or reply.get("cursor", {}).get("firstBatch") or [{}])[0]
    return reply.get("code", first.get("code"))


# How the rows of each table are tried: a function of the server and the try that returns what was found, or raises.

def try_expression(tried, each):
    found, = tried.fresh().operands.aggregate([{"$replaceWith": {"$setField": {
        "field": "found", "input": {}, "value": parsed(each["try"])}}}])
    assert same(parsed(each["gives"]), found["found"]), found


def try_filter(tried, each):
    db = tried.fresh()
    found = [document["_id"] for document in (db.long if "long" in each["try"] else db.c).find(parsed(each["try"]))]
    assert (found if each.get("ordered") else sorted(found)) == each["finds"]


def try_update(tried, each):
    db, of = tried.fresh(), parsed(each.get("of", '{"_id": 1}'))
    tried.clean = False
    filters = parsed(each["filters"]) if "filters" in each else None
    db.c.update_one(of, parsed(each["try"]), upsert=True, array_filters=filters)
    found = db.c.find_one({"_id": of["_id"]})
    assert matches(parsed(each["gives"]), found), found


def try_stages(tried, each):
    db = tried.fresh()
    on = {None: db.c, "database": db, "admin": tried.client.admin}.get(each.get("on"), tried.client.config["system.sessions"])
    tried.clean = not re.search(r"\$out|\$merge", each["try"])
    with on.aggregate(parsed(each["try"], db.name)) as cursor:
        found = [] if "$changeStream" in each["try"] else list(cursor)
    assert matches(parsed(each.get("gives", '"*"')), found), found


def try_accumulator(tried, each):
    found, = tried.fresh().c.aggregate([{"$sort": {"_id": 1}}, {"$group": {"_id": None, "found": parsed(each["try"])}}])
    expected = parsed(each["gives"])
    if each.get("set"):
        found["found"].sort(key=expected.index)
    assert same(expected, found["found"]), found


def try_window(tried, each):
    found = [document["found"] for document in tried.fresh().c.aggregate([
        {"$setWindowFields": {"sortBy": {"n": 1}, "output": {"found": parsed(each["try"])}}}, {"$sort": {"n": 1}}])]
    assert same(parsed(each["gives"]), found), found


def answered(tried, each, text):
    """The reply to a command, and to the one that follows, is as expected."""
    reply = tried.command(text, each.get("on"))
    if "fails" in each:
        assert code_of(reply) == each["fails"], reply
        return
    assert reply["ok"] == 1, reply
    if "then" in each:
        clean, tried.clean = tried.clean, True
        reply = tried.command(each["then"], each.get("then_on"))
        tried.clean = tried.clean and clean
    if "then_fails" in each:
        assert code_of(reply) == each["then_fails"], reply
    else:
        assert matches(parsed(each.get("gives", "{}"), tried.db.name), reply), reply


def try_command(tried, each):
    answered(tried, each, each["try"])


def with_option(base, option):
    """A command with further options: where it has "...", or at its end."""
    def placed(value):
        if isinstance(value, dict):
            inner = {name: placed(other) for name, other in value.items() if name != "..."}
            return {**inner, **option} if "..." in value else inner
        return [placed(other) for other in value] if isinstance(value, list) else value
    base = json.loads(base)
    return json.dumps(placed(base) if '"..."' in json.dumps(base) else {**base, **option})


def try_option(tried, each):
    answered(tried, each, with_option(each["base"], json.loads(each["try"])))


def try_error(tried, each):
    db = tried.fresh()
    if each.get("big"):
        db.big.insert_many([{"text": f"{i:08}" + "x" * 1_000_000} for i in range(105)])
    on = db.name.upper() if each.get("on") == "other case" else each.get("on")
    reply = tried.command(each["try"], on)
    tried.clean = False
    error = reply if "code" in reply else reply["writeConcernError"]
    assert (error["code"], error["codeName"]) == (each["code"], each["name"]), reply


TRIES = {
    "accumulators": try_accumulator, "commands": try_command, "expressions": try_expression, "filters": try_filter, "options": try_option,
    "stage_options": try_option,
    "errors": try_error, "stages": try_stages, "updates": try_update, "windows": try_window,
    **dict.fromkeys(("acknowledged", "changes", "collations", "geo", "indexes", "kinds", "limits", "oplog", "transactions", "vector"), try_command),
}
ROWS = [row for table in TRIES for row in compatibility_doc.rows(table)]


@functools.cache
def functions_of(file):
    """The names of a file's tests."""
    return {node.name for node in ast.walk(ast.parse((HERE / file).read_text())) if isinstance(node, ast.FunctionDef)}


def test_the_page_is_the_one_that_the_rows_and_the_server_s_tables_make():
    assert not list(compatibility_doc.problems())
    assert compatibility_doc.page() == compatibility_doc.PAGE.read_text()


def test_a_name_without_a_row_and_a_row_without_a_name_are_told():
    rows, there = compatibility_doc.rows("windows"), compatibility_doc.TABLES["windows"]()
    assert not list(compatibility_doc.compare("windows", there, rows))
    for names, wrong in [(there | {"$new"}, "the server has $new"), (there - {"$rank"}, "says that $rank works")]:
        problem, = compatibility_doc.compare("windows", names, rows)
        assert wrong in problem


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_a_row_of_the_page_is_as_it_says(tried, row):
    assert row.tries or row.data.get("tests"), "a row without a try"
    for each in row.tries:
        on = tried(each.get("server", "standalone"))
        try:
            TRIES[row.table](on, {**each, "code": int(row.name)} if row.table == "errors" else each)
        except OperationFailure as error:
            assert error.code == each.get("fails"), f"{each['try']}: {error.code} {error.details}"
        else:
            assert "fails" not in each or TRIES[row.table] in (try_command, try_option), f"{each['try']} does not fail"
    for test in row.data.get("tests", []):
        file, name = test.split("::")
        assert name in functions_of(file), f"there is no {test}"


@pytest.mark.parametrize("row", [row for row in ROWS if row.table.endswith("options") and "refused" not in row.data and "any" not in row.data], ids=repr)
def test_an_option_of_the_page_is_read(tried, row):
    each = row.tries[0]
    option = row.name if row.name in json.loads(each["try"]) else next(iter(json.loads(each["try"])))
    on = tried(each.get("server", "standalone"))
    db, on.clean = on.fresh(), False
    # A type that no option takes; the driver would not send it.
    command = parsed(with_option(each["base"], {option: {"$minKey": 1}}), db.name)
    with Wire(on.server) as wire:
        reply = wire.command({**command, "$db": each.get("on", db.name)})
    assert code_of(reply), reply
