"""The codes of the errors of expressions, accumulators, window functions and stages are MongoDB's: those of `compatibility/faults.toml`
are tried, and that table has all that the server knows."""
import re
import tomllib

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

from test_compatibility import HERE, Tried, functions_of, parsed

CODES = HERE.parents[2] / "treedb_core/query/src/error/codes.rs"
FAULTS = tomllib.loads((HERE / "compatibility/faults.toml").read_text())
ELSEWHERE = FAULTS.pop("elsewhere")

#: How a try of each part of the table becomes a pipeline, and on which collection.
PIPELINES = {
    "expressions": ("operands", lambda tried: [{"$set": {"found": tried}}]),
    "accumulators": ("c", lambda tried: [{"$group": {"_id": None, "found": tried}}]),
    "windows": ("c", lambda tried: [{"$setWindowFields": {"sortBy": {"n": 1}, "output": {"found": tried}}}]),
    "stages": ("c", lambda tried: tried),
}
ROWS = [(part, int(code), tries if isinstance(tries, list) else [tries]) for part, rows in FAULTS.items() for code, tries in rows.items()]


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    # Changes are recorded: what is wrong with a change stream is said before anything else.
    server = Tried(tmp_path_factory.mktemp("codes"), "--replica-set", "rs")
    yield server
    server.stop()


def code_of(collection, pipeline):
    """The code that a pipeline fails with; None if it does not."""
    try:
        with collection.aggregate(pipeline) as cursor:
            list(cursor)
    except OperationFailure as error:
        assert error.details["codeName"], error.details
        return error.code
    return None


@pytest.mark.parametrize("part, code, tries", ROWS, ids=lambda value: None if isinstance(value, list) else str(value))
def test_what_is_wrong_has_mongodbs_code(tried, part, code, tries):
    collection, pipeline = PIPELINES[part]
    found = {each: code_of(tried.fresh()[collection], pipeline(parsed(each))) for each in tries}
    assert found == dict.fromkeys(tries, code)


def test_every_code_of_an_expression_or_a_stage_is_tried():
    _, located = CODES.read_text().split("\n    located {\n")
    known = set(map(int, re.findall(r"^ +Location(\d+) = ", located, re.M)))
    rows = {code for _, code, _ in ROWS} | set(map(int, ELSEWHERE))
    assert len(known) > 400 and not known - rows
    for file, name in (test.split("::") for test in ELSEWHERE.values()):
        assert name in functions_of(file), f"there is no {name}"


def test_a_field_that_is_given_twice_has_mongodbs_code(tried):
    def twice(stage):
        return RawBSONDocument(bson.encode(stage).replace(b"twin2", b"twin1"))
    c = tried.fresh().c
    assert code_of(c, [twice({"$replaceWith": {"$mergeObjects": {"twin1": 1, "twin2": 1}}})]) == 16406
    group = bson.encode({"$group": {"_id": 1, "xid": {"$sum": 1}}}).replace(b"xid", b"_id")
    assert code_of(c, [RawBSONDocument(group)]) == 15948


def test_what_is_computed_in_an_exclusion_of_find_has_mongodbs_code(tried):
    for projection, code in [({"s": 0, "n": "$s"}, 31252), ({"s": 0, "n": None}, 31310)]:
        with pytest.raises(OperationFailure) as refused:
            tried.fresh().c.find_one({}, projection)
        assert refused.value.code == code, projection


def test_a_merge_that_finds_two_documents_has_mongodbs_code(tried):
    db, tried.clean = tried.fresh(), False
    db.twins.insert_many([{"same": 1}, {"same": 1}])
    assert code_of(db.c, [{"$limit": 1}, {"$set": {"same": 1}}, {"$merge": {"into": "twins", "on": "same"}}]) == 51183


def test_a_pipeline_of_too_many_stages_has_mongodbs_code(tried):
    assert code_of(tried.fresh().c, [{"$limit": 1}] * 1000) is None
    assert code_of(tried.fresh().c, [{"$limit": 1}] * 1001) == 7749501
