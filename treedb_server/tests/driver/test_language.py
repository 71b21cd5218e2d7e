"""Filters, updates and projections of the whole language, through a driver."""
import re

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from pymongo import ReturnDocument
from pymongo.errors import OperationFailure, WriteError


def ids(cursor):
    return [document["_id"] for document in cursor]


def code(failure):
    return failure.value.code


@pytest.fixture
def shelf(db):
    db.c.insert_many([
        {"_id": 1, "name": "Alien", "tags": ["space", "fear"], "n": 5, "scores": [{"k": "a", "v": 1}, {"k": "b", "v": 9}]},
        {"_id": 2, "name": "alpha", "tags": [], "n": 6.5, "scores": [{"k": "a", "v": 9}]},
        {"_id": 3, "name": "Brazil", "tags": ["fear"], "n": Int64(12), "low": 20},
        {"_id": 4, "name": None, "tags": "fear", "n": Decimal128("7.5")},
    ])
    return db.c


@pytest.mark.parametrize("query, expected", [
    ({"name": re.compile("^Al")}, [1]),
    ({"name": {"$regex": "^al", "$options": "i"}}, [1, 2]),
    ({"name": {"$in": [re.compile("z"), None]}}, [3, 4]),
    ({"name": {"$not": re.compile("a", re.I)}}, [4]),
    ({"n": {"$type": "number"}}, [1, 2, 3, 4]),
    ({"n": {"$type": ["long", "decimal"]}}, [3, 4]),
    ({"n": {"$mod": [6, 0]}}, [2, 3]),
    ({"n": {"$bitsAllSet": [2]}}, [1, 3]),
    ({"tags": {"$all": ["fear", "space"]}}, [1]),
    ({"tags": {"$size": 1}}, [3]),
    ({"scores": {"$elemMatch": {"k": "a", "v": {"$gt": 5}}}}, [2]),
    ({"scores.v": 9, "scores.k": "a"}, [1, 2]),
    ({"tags": {"$elemMatch": {"$gte": "s"}}}, [1]),
    ({"$expr": {"$lt": ["$n", "$low"]}}, [3]),
    ({"$jsonSchema": {"required": ["low"], "properties": {"low": {"bsonType": "int"}}}}, [3]),
])
def test_a_query_finds_the_same_with_and_without_indexes(shelf, query, expected):
    assert ids(shelf.find(query).sort("_id")) == expected
    assert shelf.count_documents(query) == len(expected)
    for field in ["name", "tags", "n", "scores.v", "scores.k"]:
        shelf.create_index(field)
    assert ids(shelf.find(query).sort("_id")) == expected
    assert sorted(shelf.distinct("_id", query)) == expected


def test_an_anchored_pattern_walks_a_range_of_the_index(shelf):
    shelf.create_index("name")
    explained = shelf.find({"name": re.compile("^Al")}).explain()
    assert explained["executionStats"]["totalKeysExamined"] <= 2


def test_what_cannot_be_asked_says_why(shelf):
    for query, expected in [
        ({"$where": "true"}, 238), ({"n": {"$foo": 1}}, 2), ({"name": {"$regex": "("}}, 51091),
        ({"n": {"$size": -1}}, 2), ({"n": {"$type": "x"}}, 2), ({"$expr": {"$foo": 1}}, 168),
    ]:
        with pytest.raises(OperationFailure) as failure:
            list(shelf.find(query))
        assert code(failure) == expected, query


@pytest.mark.parametrize("update, expected", [
    ({"$push": {"tags": {"$each": ["a", "z"], "$sort": 1, "$slice": 3}}}, {"tags": ["a", "fear", "space"]}),
    ({"$addToSet": {"tags": {"$each": ["fear", "new"]}}}, {"tags": ["space", "fear", "new"]}),
    ({"$pull": {"scores": {"v": {"$lt": 5}}}}, {"scores": [{"k": "b", "v": 9}]}),
    ({"$pullAll": {"tags": ["fear"]}}, {"tags": ["space"]}),
    ({"$pop": {"tags": -1}}, {"tags": ["fear"]}),
    ({"$mul": {"n": 2.5}}, {"n": 12.5}),
    ({"$min": {"n": 3}, "$max": {"m": 4}}, {"n": 3, "m": 4}),
    ({"$bit": {"n": {"xor": 1}}}, {"n": 4}),
    ({"$rename": {"n": "number"}}, {"number": 5, "n": None}),
    ({"$set": {"scores.$[].v": 0}}, {"scores": [{"k": "a", "v": 0}, {"k": "b", "v": 0}]}),
    ([{"$set": {"n": {"$add": ["$n", {"$size": "$tags"}]}}}, {"$unset": "tags"}], {"n": 7, "tags": None}),
])
def test_an_update_leaves_what_it_should(shelf, update, expected):
    assert shelf.update_one({"_id": 1}, update).modified_count == 1
    found = shelf.find_one({"_id": 1})
    assert {name: found.get(name) for name in expected} == expected


def test_dates_are_the_servers(shelf):
    shelf.update_one({"_id": 1}, {"$currentDate": {"at": True, "stamp": {"$type": "timestamp"}}})
    found = shelf.find_one({"_id": 1})
    assert found["at"].year >= 2024 and isinstance(found["stamp"], bson.Timestamp)


def test_positions_are_those_the_query_and_the_array_filters_name(shelf):
    shelf.update_one({"_id": 1, "scores.v": {"$gt": 5}}, {"$inc": {"scores.$.v": 1}})
    assert shelf.find_one({"_id": 1})["scores"] == [{"k": "a", "v": 1}, {"k": "b", "v": 10}]
    done = shelf.update_many(
        {"scores": {"$exists": True}}, {"$set": {"scores.$[e].v": -1}}, array_filters=[{"e.k": "a"}])
    assert done.modified_count == 2
    assert shelf.find_one({"_id": 2})["scores"] == [{"k": "a", "v": -1}]
    found = shelf.find_one_and_update(
        {"scores.k": "b"}, {"$set": {"scores.$[e].v": 7}}, array_filters=[{"e.v": {"$lt": 0}}],
        return_document=ReturnDocument.AFTER)
    assert [score["v"] for score in found["scores"]] == [7, 10]


def test_find_and_modify_takes_a_dollar_and_a_pipeline(shelf):
    found = shelf.find_one_and_update(
        {"tags": "fear"}, {"$set": {"tags.$": "joy"}}, sort=[("_id", 1)], return_document=ReturnDocument.AFTER)
    assert found["_id"] == 1 and found["tags"] == ["space", "joy"]
    found = shelf.find_one_and_update(
        {"_id": 3}, [{"$replaceWith": {"sum": {"$add": ["$n", "$low"]}}}], return_document=ReturnDocument.AFTER)
    assert found == {"_id": 3, "sum": 32}


def test_updates_that_cannot_be_say_why(shelf):
    for update, expected in [
        ({"$push": {"n": 1}}, 2), ({"$pop": {"n": 1}}, 14), ({"$inc": {"name": 1}}, 14), ({"$set": {"tags.$": 1}}, 2),
        ({"$set": {"n": 1}, "$inc": {"n": 1}}, 40), ({"$set": {"_id": 9}}, 66), ({"$set": {"name.x": 1}}, 28),
        ({"$foo": {"n": 1}}, 9), ({"$rename": {"n": "n"}}, 2), ([{"$match": {}}], 72),
    ]:
        with pytest.raises(WriteError) as failure:
            shelf.update_one({"_id": 1}, update)
        assert code(failure) == expected, update
    assert shelf.find_one({"_id": 1})["n"] == 5


def test_projections_hand_out_parts_of_arrays(shelf):
    one = {"_id": 1}
    assert shelf.find_one(one, {"tags": {"$slice": -1}, "scores": 0})["tags"] == ["fear"]
    assert shelf.find_one(one, {"scores": {"$elemMatch": {"v": 9}}}) == {"_id": 1, "scores": [{"k": "b", "v": 9}]}
    assert shelf.find_one({"_id": 1, "tags": "fear"}, {"tags.$": 1}) == {"_id": 1, "tags": ["fear"]}


def test_an_upsert_by_all_takes_its_one_value(db):
    db.c.update_one({"a": {"$all": [3]}, "b": {"$gt": 1}}, {"$push": {"c": 1}}, upsert=True)
    assert db.c.find_one({}, {"_id": 0}) == {"a": 3, "c": [1]}
    db.c.update_one({"k": 1}, [{"$set": {"n": {"$add": ["$k", 1]}}}], upsert=True)
    assert db.c.find_one({"k": 1}, {"_id": 0}) == {"k": 1, "n": 2}


def test_a_collections_validator_refuses_what_does_not_fit(db):
    schema = {"$jsonSchema": {"required": ["n"], "properties": {"n": {"bsonType": "int", "minimum": 0}}}}
    films = db.create_collection("films", validator=schema)
    films.insert_one({"_id": 1, "n": 1})
    for change in [lambda: films.insert_one({"_id": 2}), lambda: films.update_one({"_id": 1}, {"$inc": {"n": -5}}),
                   lambda: films.replace_one({"_id": 1}, {"x": 1})]:
        with pytest.raises(WriteError) as failure:
            change()
        assert code(failure) == 121
    assert list(films.find()) == [{"_id": 1, "n": 1}]
    assert next(db.list_collections())["options"]["validator"] == schema
    db.command("collMod", "films", validator={"x": {"$exists": True}}, validationLevel="moderate")
    films.update_one({"_id": 1}, {"$set": {"n": -1}})
    with pytest.raises(WriteError):
        films.insert_one({"n": 1})
    db.command("collMod", "films", validationLevel="off")
    films.insert_one({"_id": 3})
    with pytest.raises(OperationFailure):
        db.create_collection("bad", validator={"$foo": 1})
    with pytest.raises(OperationFailure) as failure:
        db.command("collMod", "none", validator={})
    assert code(failure) == 26


def test_empty_timestamps_at_the_top_level_become_the_time_of_the_insert_or_replacement(db):
    empty = bson.Timestamp(0, 0)
    document = {"_id": 1, "a": empty, "b": {"c": empty}, "d": [empty], "e": bson.Timestamp(0, 1)}
    db.c.insert_one(document)
    db.c.insert_many([{**document, "_id": i} for i in range(2, 20)])
    db.c.insert_one({"_id": empty, "a": empty})
    for found in db.c.find({"_id": {"$type": "number"}}):
        assert found["a"].time > 1_700_000_000 and found["b"]["c"] == empty and found["d"] == [empty]
        assert found["e"] == bson.Timestamp(0, 1)
    assert db.c.find_one({"_id": empty})["a"] != empty
    assert len(db.c.distinct("a")) == 20
    db.c.replace_one({"_id": 1}, {"a": empty, "b": {"c": empty}})
    found = db.c.find_one({"_id": 1})
    assert found["a"] != empty and found["b"]["c"] == empty
    # Operators set what they are told.
    db.c.update_one({"_id": 1}, {"$set": {"a": empty}})
    assert db.c.find_one({"_id": 1})["a"] == empty


def test_empty_timestamps_are_kept_where_the_command_says_so(db, client):
    empty = bson.Timestamp(0, 0)
    keep = {"bypassEmptyTsReplacement": True}
    kept = lambda number: db.c.find_one({"_id": number})["a"] == empty
    db.command("insert", "c", documents=[{"_id": i, "a": empty} for i in range(3)], **keep)
    assert all(kept(i) for i in range(3))
    db.command("update", "c", updates=[{"q": {"_id": 3}, "u": {"a": empty}, "upsert": True}], **keep)
    db.command("findAndModify", "c", query={"_id": 4}, update={"a": empty}, upsert=True, **keep)
    ops = [{"insert": 0, "document": {"_id": 5, "a": empty}}, {"update": 0, "filter": {"_id": 6}, "updateMods": {"a": empty}, "upsert": True}]
    client.admin.command({"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": f"{db.name}.c"}], **keep})
    assert all(kept(i) for i in range(3, 7))
    client.admin.command({"bulkWrite": 1, "ops": [{**ops[0], "document": {"_id": 7, "a": empty}}], "nsInfo": [{"ns": f"{db.name}.c"}]})
    assert not kept(7)


def undefined(number, *before):
    """`{_id: number, k: undefined}`, or with an array of strings and undefined as `k`: PyMongo writes no such values."""
    if before:
        elements = {str(i): text for i, text in enumerate(before)}
        array = bson.encode(elements)[4:-1] + b"\x06" + str(len(before)).encode() + b"\x00\x00"
        value = b"\x04k\x00" + (len(array) + 4).to_bytes(4, "little") + array
    else:
        value = b"\x06k\x00"
    body = bson.encode({"_id": number})[4:-1] + value + b"\x00"
    return RawBSONDocument((len(body) + 4).to_bytes(4, "little") + body)


def test_null_is_not_undefined_to_filters_and_joins(db):
    documents = [{"_id": 1, "k": None}, undefined(2), undefined(3, "a"), {"_id": 4}, {"_id": 5, "k": [None]}, {"_id": 6, "k": []}]
    joined = lambda outer, inner: {
        found["_id"]: sorted(ids(found["m"])) for found in outer.aggregate([
            {"$lookup": {"from": inner.name, "localField": "k", "foreignField": "k", "as": "m"}}, {"$project": {"m._id": 1}}])}
    for items in [db.plain, db.indexed]:
        items.insert_many(documents)
    db.indexed.create_index("k")
    for items in [db.plain, db.indexed]:
        for equal in [{"k": None}, {"k": {"$eq": None}}, {"k": {"$in": [None, 7]}}, {"k": {"$lte": None}}]:
            assert ids(items.find(equal).sort("_id")) == [1, 4, 5], equal
        for other in [{"k": {"$ne": None}}, {"k": {"$nin": [None]}}]:
            assert ids(items.find(other).sort("_id")) == [2, 3, 6], other
        assert ids(items.find({"k": {"$type": "undefined"}}).sort("_id")) == [2, 3]
        # Few documents are joined by queries, many by a table in memory.
        for outer, count in [(db.few, 0), (db.many, 300)]:
            outer.drop()
            outer.insert_many([{"_id": 1, "k": None}, {"_id": 2}, {"_id": 3, "k": 1}, *({"_id": i, "k": i} for i in range(4, count))])
            outer.insert_one(undefined(1000))
            found = joined(outer, items)
            assert [found[i] for i in (1, 2, 3, 1000)] == [[1, 4, 5], [1, 4, 5], [], [2, 3]], count


def test_a_sample_is_drawn_once_for_each_document(db):
    count = 4000
    db.c.insert_many([{"_id": i, "n": 0} for i in range(count)])
    half = lambda n: .45 * count < n < .55 * count
    assert half(db.c.update_many({"$sampleRate": .5}, {"$set": {"n": 1}}).modified_count)
    assert half(len(list(db.c.aggregate([{"$match": {"$sampleRate": .5, "$expr": {"$gte": ["$n", 0]}}}]))))
    assert half(len(list(db.c.aggregate([{"$match": {"$and": [{"$sampleRate": .5}, {"$expr": {"$gte": ["$n", 0]}}]}}]))))
    assert half(db.c.count_documents({"$sampleRate": .5}))
    assert half(db.c.delete_many({"$sampleRate": .5}).deleted_count)
    everything = {"$sampleRate": 1.0}
    assert db.c.find_one_and_update(everything, {"$set": {"n": 2}}) is not None
    assert db.c.find_one_and_delete({"$sampleRate": 0.0}) is None


def test_a_pattern_of_an_elem_match_projection_that_takes_too_long_is_an_error(db):
    db.c.insert_one({"_id": 1, "a": ["x", "a" * 40]})
    slow = {"a": {"$elemMatch": {"$regex": r"^((a+)\2?)+(?!a)[bd]"}}}
    with pytest.raises(OperationFailure) as failure:
        db.c.find_one({}, slow)
    assert code(failure) == 51156


def test_stages_that_do_not_exist_are_told_from_those_that_an_update_may_not_have(db):
    for stage, expected in [("$nonsense", 40324), ("$match", 72), ("$group", 72)]:
        with pytest.raises(OperationFailure) as failure:
            db.c.update_one({}, [{stage: {}}])
        assert code(failure) == expected
    with pytest.raises(OperationFailure) as failure:
        db.c.aggregate([{"$nonsense": {}}])
    assert code(failure) == 40324


def test_the_key_of_a_merge_that_may_not_match_is_told(db):
    db.c.insert_one({"_id": 5, "k": 1})
    db.t.create_index("k", unique=True)
    db.t.insert_one({"_id": 5, "k": 1})
    for merge, pattern, value in [
        ({"into": "t", "whenMatched": "fail"}, {"_id": 1}, {"_id": 5}),
        ({"into": "t", "on": "k", "whenMatched": "fail"}, {"k": 1}, {"k": 1}),
    ]:
        with pytest.raises(OperationFailure) as failure:
            db.c.aggregate([{"$merge": merge}])
        assert code(failure) == 11000
        assert failure.value.details["keyPattern"] == pattern and failure.value.details["keyValue"] == value
        assert f"E11000 duplicate key error collection: {db.name}.t" in failure.value.details["errmsg"]


def test_a_plan_tells_what_its_index_leaves_out(db):
    db.c.insert_many([{"_id": i, "a": i, "b": i} for i in range(10)])
    db.c.create_index("a", sparse=True)
    db.c.create_index("b", partialFilterExpression={"b": {"$gt": 0}})
    for filter, sparse, partial in [({"a": 5}, True, False), ({"b": 5}, False, True)]:
        plan = db.c.find(filter).explain()["queryPlanner"]["winningPlan"]
        while "inputStage" in plan:
            plan = plan["inputStage"]
        assert (plan["stage"], plan["isSparse"], plan["isPartial"], plan["indexVersion"]) == ("IXSCAN", sparse, partial, 2)


def test_an_expression_over_a_large_array_ends_at_its_time_limit(db):
    db.c.insert_one({"_id": 1})
    numbers = {"$range": [0, 3_000_000]}
    for expression in [
        {"$reduce": {"input": numbers, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}},
        {"$size": {"$filter": {"input": numbers, "cond": {"$gt": ["$$this", 5]}}}},
        {"$size": {"$map": {"input": {"$range": [0, 1_000_000]}, "in": {"$add": ["$$this", 5]}}}},
        {"$size": {"$setUnion": [numbers, numbers]}},
    ]:
        with pytest.raises(OperationFailure) as failure:
            # Once for each of many elements, so that no machine is fast enough.
            repeated = {"$map": {"input": {"$range": [0, 40]}, "in": expression}}
            list(db.c.aggregate([{"$project": {"n": repeated}}], maxTimeMS=50))
        assert code(failure) == 50


def test_a_request_with_thousands_of_conditions_or_names_is_answered_in_time(db):
    """Conditions and names are not compared each with each: that of the planner's tests has more of them."""
    names = [f"f{n}" for n in range(20_000)]
    db.wide.insert_one({"_id": 1, **{name: 1 for name in names}})
    db.wide.create_index("f1")
    db.wide.create_index("f2")
    either = [{"$or": [{"f1": n}, {"f2": {"$gte": 0}}]} for n in range(2_500)]
    assert db.wide.count_documents({"$and": either}) == 1
    assert len(db.wide.find_one({}, {name: 1 for name in names})) == 20_001
    assert len(next(db.wide.aggregate([{"$project": {name: f"${name}" for name in names[:5_000]}}]))) == 5_001
    with pytest.raises(OperationFailure) as failure:
        db.wide.find_one({}, sort=[(name, 1) for name in names])
    assert failure.value.code == 2
    schema = {"required": names, "properties": {name: {"bsonType": "int"} for name in names}}
    assert db.wide.count_documents({"$jsonSchema": schema}) == 1
    assert db.wide.update_one({}, {"$set": {name: 2 for name in names}}).modified_count == 1
