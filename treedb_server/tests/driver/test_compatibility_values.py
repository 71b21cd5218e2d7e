"""docs/mongodb-compatibility.md: each error code, index kind, collation option and limit that its tables name is tried here, or in the
test that is named."""
import pathlib
import re

import bson
import pymongo
import pytest
from bson import Binary
from pymongo.errors import OperationFailure, PyMongoError

from test_compatibility_page import rows

HERE = pathlib.Path(__file__).parent


def deep(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def someone_else_s_cursor(client, db):
    cursor_id = db.command("find", "c", batchSize=1)["cursor"]["id"]
    db.command("getMore", cursor_id, collection="other")


def views(client, db):
    db.create_collection("v", viewOn="c", pipeline=[])
    db.v.insert_one({})


#: What fails with a code; or the file of the test that does it, where it takes more than a command.
ERRORS = {
    2: lambda client, db: db.c.find_one({"n": {"$mod": "x"}}),
    9: lambda client, db: db.c.update_one({}, {"$set": {"a": 1}, "b": 1}),
    13: someone_else_s_cursor,
    14: lambda client, db: db.command("find", "c", filter=1),
    15: "test_wire.py",
    17: "test_wire.py",
    22: "test_wire.py",
    26: lambda client, db: db.nothing.rename("else"),
    27: lambda client, db: db.c.drop_index("nothing"),
    40: lambda client, db: db.c.update_one({}, {"$set": {"a": 1}, "$inc": {"a": 1}}),
    43: lambda client, db: db.command("getMore", bson.Int64(1234567), collection="c"),
    48: lambda client, db: db.command("create", "c", capped=True, size=4096),
    50: lambda client, db: db.command("aggregate", "c", pipeline=[{"$graphLookup": {
        "from": "c", "startWith": "$n", "connectFromField": "k", "connectToField": "k", "as": "x"}}] * 3, cursor={}, maxTimeMS=1),
    59: lambda client, db: db.command("noSuchCommand"),
    66: lambda client, db: db.c.update_one({"_id": 1}, {"$set": {"_id": 5}}),
    67: lambda client, db: db.c.create_index("a", sparse=True, partialFilterExpression={"n": 1}),
    85: lambda client, db: db.c.create_index("n", name="other"),
    86: lambda client, db: db.c.create_index("s", name="n_1"),
    73: lambda client, db: db.command("create", "a$b"),
    79: lambda client, db: db.c.with_options(write_concern=pymongo.WriteConcern(w="nobody")).insert_one({}),
    # Of a replica set.
    100: "test_failpoints.py",
    136: "test_capped.py",
    166: views,
    167: lambda client, db: (
        db.create_collection("v", viewOn="c", pipeline=[]), db.v.find_one({"s": "b"}, collation={"locale": "de"})),
    238: lambda client, db: db.c.find_one({"$where": "1"}),
    291: lambda client, db: db.c.find_one({"s": {"$near": [0, 0]}}),
    292: lambda client, db: db.command("find", "big", sort={"text": 1}, allowDiskUse=False),
    322: lambda client, db: db.command("ping", apiVersion="9"),
    323: lambda client, db: db.command("collStats", "c", apiVersion="1", apiStrict=True),
    10334: lambda client, db: db.c.update_one({"_id": 1}, [{"$set": {"x": {"$reduce": {
        "input": {"$range": [0, 25]}, "initialValue": "x", "in": {"$concat": ["$$value", "$$value"]}}}}}]),
    11000: lambda client, db: db.c.insert_one({"_id": 1}),
    11601: "test_operations.py",
    13026: "test_geo.py",
    13027: "test_geo.py",
    13297: lambda client, db: client[db.name.upper()].c.insert_one({}),
    14031: "test_exhaustion.py",
    16755: "test_geo.py",
    5626500: lambda client, db: list(db.c.aggregate([{"$match": {"s": {"$near": [0, 0]}}}])),
}


@pytest.fixture
def some(db):
    db.c.insert_many([{"_id": i, "n": i % 3, "k": 1, "s": "b", "list": [1, 2]} for i in range(400)])
    db.c.create_index("n")
    return db


def test_the_page_has_a_row_for_each_error_that_is_tried():
    named = {int(code) for first, _ in rows("Errors") for code in re.findall(r"\d+", first)}
    assert named == set(ERRORS)


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_of_the_page_has_its_code_and_name(client, some, code):
    name = next(re.findall(r"\w+", rest.split("|")[0])[re.findall(r"\d+", first).index(str(code))]
                for first, rest in rows("Errors") if str(code) in re.findall(r"\d+", first))
    work = ERRORS[code]
    if isinstance(work, str):
        asserted = rf'(== \(?|== \{{|code"\] == |, ){code}\b|{name}'
        assert re.search(asserted, (HERE / work).read_text()), f"{work} does not try {code}"
        return
    if code == 292:
        some.big.insert_many([{"text": f"{i:08}" + "x" * 1_000_000} for i in range(105)])
    with pytest.raises(PyMongoError) as raised:
        work(client, some)
    error = raised.value
    details = error.details if isinstance(error, OperationFailure) else getattr(error, "details", {})
    found = (details.get("writeErrors") or details.get("writeConcernErrors") or [details.get("writeConcernError") or details])[0]
    assert found.get("code") == code, f"{code} {name}: {details}"
    # Errors of single documents have no name in MongoDB either.
    assert found.get("codeName", name) == name


#: An index of each kind of the page.
KINDS = {
    "ascending, descending, compound, multikey": lambda c: c.create_index([("n", 1), ("s", -1), ("list", 1)]),
    "`unique`": lambda c: c.create_index([("_id", 1), ("n", 1)], unique=True),
    "`sparse`": lambda c: c.create_index("only", sparse=True),
    "`partialFilterExpression`": lambda c: c.create_index("s", partialFilterExpression={"n": {"$gt": 1}}),
    "`expireAfterSeconds`": lambda c: c.create_index("at", expireAfterSeconds=60),
    "`hashed`": lambda c: c.create_index([("s", "hashed")]),
    "`$**`, `a.$**`, `wildcardProjection`": lambda c: (
        c.create_index([("a.$**", 1)]), c.create_index([("$**", 1)], wildcardProjection={"s": 1})),
    "`collation`": lambda c: c.create_index("s", name="collated", collation={"locale": "de"}),
    "`hidden`": lambda c: c.create_index("k", hidden=True),
    "`background`": lambda c: c.create_index("k", name="later", background=True, sparse=True),
    "`2dsphere`, `2d`": lambda c: (c.create_index([("p", "2dsphere")]), c.create_index([("p", "2d")])),
}
#: What refuses an index.
REFUSED_KINDS = {
    "text": lambda c: c.create_index([("s", "text")]), "clustered": lambda c: c.create_index("_id", clustered=True),
    "prepareUnique": lambda c: c.create_index("s", prepareUnique=True),
}


def test_the_page_has_a_row_for_each_kind_of_index_that_is_tried():
    kinds = {first for first, _ in rows("Indexes")} - {"kind", "---", "refused"}
    refused = next(rest for first, rest in rows("Indexes") if first == "refused")
    assert kinds == set(KINDS)
    assert set(re.findall(r"`([^`]+)`", refused)) <= set(REFUSED_KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_the_page_is_made_and_listed(some, kind):
    before = len(some.c.index_information())
    KINDS[kind](some.c)
    assert len(some.c.index_information()) > before


def test_an_index_that_the_page_says_is_refused_is(some):
    refused = next(rest for first, rest in rows("Indexes") if first == "refused")
    for kind in re.findall(r"`([^`]+)`", refused):
        with pytest.raises(OperationFailure):
            REFUSED_KINDS[kind](some.c)


COLLATIONS = {
    "locale": [{"locale": "de@collation=phonebook"}, {"locale": "zh@collation=pinyin"}, {"locale": "simple"}],
    "strength": [{"locale": "en", "strength": n} for n in range(1, 6)],
    "caseLevel": [{"locale": "en", "strength": 1, "caseLevel": True}], "caseFirst": [{"locale": "en", "caseFirst": "upper"}],
    "numericOrdering": [{"locale": "en", "numericOrdering": True}], "alternate": [{"locale": "en", "alternate": "shifted"}],
    "maxVariable": [{"locale": "en", "alternate": "shifted", "maxVariable": "space"}],
    "backwards": [{"locale": "fr", "backwards": True}, {"locale": "fr_CA"}], "normalization": [{"locale": "en", "normalization": True}],
    "version": [{"locale": "en", "version": "57.1"}],
}


def test_the_page_has_a_row_for_each_option_of_collations_that_is_tried(some):
    options = {name for first, _ in rows("Collations") if first.startswith("`") for name in re.findall(r"`(\w+)`", first)}
    assert options == set(COLLATIONS)
    for option in options:
        for collation in COLLATIONS[option]:
            assert some.command("find", "c", filter={"s": "b"}, collation=collation, limit=1)["cursor"]["firstBatch"], collation


def test_a_collation_that_the_page_says_is_refused_is(some):
    refused = next(rest for first, rest in rows("Collations") if first.startswith("refused"))
    names = [name for name in re.findall(r"`([\w@=]+)`", refused) if name not in ("search", "searchjl")]
    assert {"haw", "se", "ln@collation=phonetic"} <= set(names)
    for name in [*names, "de@collation=search", "ko@collation=searchjl"]:
        with pytest.raises(OperationFailure) as raised:
            some.command("find", "c", collation={"locale": name})
        assert raised.value.code == 238, name
    with pytest.raises(OperationFailure, match="en"):
        some.command("find", "c", collation={"locale": "en_GB"})
    with pytest.raises(OperationFailure):
        some.command("find", "c", collation={"locale": "ja", "backwards": True})


def test_a_document_has_the_size_and_the_depth_of_the_page(client, some):
    limits = {first: rest for first, rest in rows("Limits")}
    assert "16 MiB, 100 levels" in limits["document"]
    # With the names of the fields and the _id.
    some.c.insert_one({"_id": "large", "b": Binary(b"x" * (16 * 1024 * 1024 - 64))})
    some.c.insert_one({"_id": "deep", **deep(99)})
    for document in ({"_id": "larger", "b": Binary(b"x" * 16 * 1024 * 1024)}, {"_id": "deeper", **deep(101)}):
        with pytest.raises(PyMongoError):
            some.c.insert_one(document)
    assert some.c.count_documents({"_id": {"$in": ["large", "deep", "larger", "deeper"]}}) == 2
    hello = client.admin.command("hello")
    assert (hello["maxMessageSizeBytes"], hello["maxWriteBatchSize"]) == (48_000_000, 100_000)
    assert "48,000,000" in limits["message"] and "100,000" in limits["statements of a write command"]
    assert len(some.command("find", "c")["cursor"]["firstBatch"]) == 101 and "101" in limits["first batch"]
