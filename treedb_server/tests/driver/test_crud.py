"""Inserting, finding, updating, deleting, counting."""
import datetime
import re
import threading
import uuid

import bson
import pymongo
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, WriteError
from pymongo.write_concern import WriteConcern


def test_a_document_of_every_type_comes_back_as_it_went_in(db):
    document = {
        "_id": bson.ObjectId(), "double": 1.5, "string": "zwölf \U0001f333", "document": {"a": {"b": {}}}, "array": [1, [2, []]],
        "binary": bson.Binary(b"\x00\xff", 128), "uuid": bson.Binary.from_uuid(uuid.UUID(int=7)),
        "true": True, "date": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000), "null": None,
        "regex": bson.Regex("^a.*b$", re.I), "code": bson.Code("f()"), "scope": bson.Code("g()", {"x": 1}),
        "int": -1, "timestamp": bson.Timestamp(5, 6), "long": Int64(1 << 40),
        "decimal": Decimal128("1.10"), "min": bson.MinKey(), "max": bson.MaxKey(), "": "empty name", "nan": float("inf"),
    }
    db.c.insert_one(document)
    assert db.c.find_one({"_id": document["_id"]}) == document
    raw = db.get_collection("c", bson.CodecOptions(document_class=bson.raw_bson.RawBSONDocument))
    assert raw.find_one().raw == bson.encode(document)


def test_an_id_is_made_by_the_server_when_missing(db):
    assert db.command({"insert": "c", "documents": [{"a": 1}, {"a": 2}]})["n"] == 2
    found = list(db.c.find())
    assert all(isinstance(d["_id"], bson.ObjectId) and list(d)[0] == "_id" for d in found)


def test_duplicate_keys_name_index_and_key(db):
    db.c.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError) as failure:
        db.c.insert_one({"_id": 1})
    error = failure.value.details
    assert error["code"] == 11000 and error["keyPattern"] == {"_id": 1} and error["keyValue"] == {"_id": 1}
    assert error["errmsg"].startswith(f"E11000 duplicate key error collection: {db.name}.c index: _id_ dup key: {{ _id: 1 }}")


def test_an_ordered_insert_stops_and_an_unordered_one_goes_on(db):
    with pytest.raises(BulkWriteError) as failure:
        db.a.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}])
    assert failure.value.details["nInserted"] == 1
    assert [e["index"] for e in failure.value.details["writeErrors"]] == [1]
    assert db.a.count_documents({}) == 1
    with pytest.raises(BulkWriteError) as failure:
        db.b.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}, {"_id": [3]}], ordered=False)
    assert failure.value.details["nInserted"] == 2
    assert [(e["index"], e["code"]) for e in failure.value.details["writeErrors"]] == [(1, 11000), (3, 53)]
    assert db.b.count_documents({}) == 2


def test_ten_thousand_documents_in_one_command(db):
    db.c.insert_many([{"_id": i, "x": "y" * 100} for i in range(10_000)])
    assert db.c.estimated_document_count() == 10_000
    assert sum(1 for _ in db.c.find()) == 10_000


def test_large_documents_up_to_16_mib(db):
    largest = {"_id": 1, "x": "y" * (16 * 1024 * 1024 - 100)}
    db.c.insert_one(largest)
    assert db.c.find_one() == largest
    reply = db.command({"insert": "c", "documents": [{"_id": 2, "x": "y" * (16 * 1024 * 1024)}]})
    assert reply["n"] == 0 and reply["writeErrors"][0]["code"] == 10334


def test_sort_skip_limit_projection(films):
    found = films.find({"year": {"$gte": 1992}}, {"title": 1}).sort([("year", -1), ("_id", 1)]).skip(1).limit(3)
    assert list(found) == [{"_id": 9, "title": "film 09"}, {"_id": 3, "title": "film 03"}, {"_id": 8, "title": "film 08"}]
    assert films.find_one({}, {"cast": 0, "rating.votes": 0, "_id": 0}, sort=[("_id", 1)]) == {
        "title": "film 00", "year": 1990, "rating": {"stars": 0}}


def test_filters(films):
    def ids(query):
        return sorted(d["_id"] for d in films.find(query))
    assert ids({"year": 1991}) == [1, 6, 11]
    assert ids({"cast": "p3"}) == [2, 3]
    assert ids({"rating.stars": {"$in": [0, 3]}, "_id": {"$lt": 6}}) == [0, 3, 4]
    assert ids({"$or": [{"_id": 1}, {"title": "film 07"}]}) == [1, 7]
    assert ids({"year": {"$not": {"$gt": 1990}}}) == [0, 5, 10]
    assert ids({"missing": None}) == list(range(12))
    assert ids({"rating": {"$exists": False}}) == []


def test_a_bad_filter_names_code_and_operator(films):
    for query, code in [({"year": {"$foo": 1}}, 2), ({"$and": 1}, 2), ({"$nonsense": []}, 2)]:
        with pytest.raises(OperationFailure) as failure:
            list(films.find(query))
        assert failure.value.code == code, query
        name = next(iter(query if "$" in next(iter(query)) else query["year"]))
        assert name in failure.value.details["errmsg"]


def test_updates(films):
    result = films.update_one({"_id": 1}, {"$set": {"title": "new", "a.b": 1}, "$inc": {"year": 10}, "$unset": {"cast": 1}})
    assert (result.matched_count, result.modified_count) == (1, 1)
    assert films.find_one({"_id": 1}) == {
        "_id": 1, "title": "new", "year": 2001, "rating": {"stars": 1, "votes": 10}, "a": {"b": 1}}
    result = films.update_many({"year": 1990}, {"$set": {"old": True}})
    assert (result.matched_count, result.modified_count) == (3, 3)
    result = films.update_many({"year": 1990}, {"$set": {"old": True}})
    assert (result.matched_count, result.modified_count) == (3, 0)
    assert films.replace_one({"_id": 2}, {"only": 1}).modified_count == 1
    assert films.find_one({"_id": 2}) == {"_id": 2, "only": 1}
    assert films.update_one({"_id": 99}, {"$set": {"x": 1}}).matched_count == 0


def test_upserts_tell_the_id(db):
    result = db.c.update_one({"_id": 5, "a": 1}, {"$set": {"b": 2}}, upsert=True)
    assert result.upserted_id == 5 and result.matched_count == 0
    assert db.c.find_one() == {"_id": 5, "a": 1, "b": 2}
    result = db.c.replace_one({"x": 1}, {"y": 1}, upsert=True)
    assert isinstance(result.upserted_id, bson.ObjectId)
    assert db.c.update_one({"_id": 5}, {"$set": {"b": 2}}, upsert=True).upserted_id is None


def test_bad_updates_get_mongodbs_codes(films):
    for update, code in [({"$set": {"_id": 7}}, 66), ({"$foo": {"a": 1}}, 9), ({"$inc": {"title": 1}}, 14)]:
        with pytest.raises(WriteError) as failure:
            films.update_one({"_id": 1}, update)
        assert failure.value.code == code, update
    reply = films.database.command({"update": "films", "updates": [{"q": {}, "u": {"a": 1}, "multi": True}]})
    assert reply["n"] == 0 and reply["writeErrors"][0]["code"] == 9


def test_deletes(films):
    assert films.delete_one({"year": 1990}).deleted_count == 1
    assert films.delete_many({"year": 1990}).deleted_count == 2
    assert films.delete_many({"year": 1990}).deleted_count == 0
    assert films.delete_many({}).deleted_count == 9
    assert films.database.nothing.delete_many({}).deleted_count == 0


def test_a_bulk_write_of_every_kind(db):
    result = db.c.bulk_write([
        InsertOne({"_id": 1}), InsertOne({"_id": 2}), UpdateOne({"_id": 1}, {"$set": {"a": 1}}),
        UpdateMany({}, {"$set": {"b": 1}}), ReplaceOne({"_id": 3}, {"c": 1}, upsert=True), DeleteOne({"_id": 2}),
        DeleteMany({"_id": 99}),
    ])
    assert (result.inserted_count, result.matched_count, result.modified_count) == (2, 3, 3)
    assert (result.upserted_ids, result.deleted_count) == ({4: 3}, 1)
    assert list(db.c.find().sort("_id", 1)) == [{"_id": 1, "a": 1, "b": 1}, {"_id": 3, "c": 1}]


def test_statements_behind_a_failed_one_run_only_unordered(db):
    db.c.insert_many([{"_id": 1, "n": "text"}, {"_id": 2, "n": 1}])
    updates = [UpdateOne({"_id": 1}, {"$inc": {"n": 1}}), UpdateOne({"_id": 2}, {"$inc": {"n": 1}})]
    with pytest.raises(BulkWriteError):
        db.c.bulk_write(updates)
    assert db.c.find_one({"_id": 2})["n"] == 1
    with pytest.raises(BulkWriteError) as failure:
        db.c.bulk_write(updates, ordered=False)
    assert failure.value.details["nModified"] == 1
    assert [e["index"] for e in failure.value.details["writeErrors"]] == [0]
    assert db.c.find_one({"_id": 2})["n"] == 2


def test_counts(films):
    assert films.count_documents({}) == 12
    assert films.count_documents({"year": 1991}) == 3
    assert films.count_documents({"year": 1991}, skip=1, limit=1) == 1
    assert films.count_documents({"year": 3000}) == 0
    assert films.estimated_document_count() == 12
    assert films.database.command({"count": "films", "query": {"year": 1991}, "limit": -2})["n"] == 2
    assert films.database.command({"count": "nothing"})["n"] == 0


def test_the_values_of_a_distinct_fit_into_a_document(db):
    db.c.insert_many([{"_id": i, "x": str(i) * 1_000_000} for i in range(9)])
    assert len(db.c.distinct("x")) == 9
    db.c.insert_many([{"_id": i, "x": str(i) * 1_000_000} for i in range(10, 18)])
    with pytest.raises(OperationFailure) as failure:
        db.c.distinct("x")
    assert failure.value.code == 17217


def test_distinct(films):
    assert sorted(films.distinct("year")) == [1990, 1991, 1992, 1993, 1994]
    assert sorted(films.distinct("cast", {"_id": {"$lte": 1}})) == ["p0", "p1", "p2"]
    assert sorted(films.distinct("rating.stars")) == [0, 1, 2, 3]
    assert films.distinct("nothing") == []


def test_write_concerns(db):
    for concern in [WriteConcern(w=1), WriteConcern(w="majority", wtimeout=100), WriteConcern(j=True), WriteConcern(j=False)]:
        assert db.get_collection("c", write_concern=concern).insert_one({}).acknowledged
    with pytest.raises(OperationFailure) as failure:
        db.get_collection("c", write_concern=WriteConcern(w=3)).insert_one({})
    assert failure.value.code == 2
    unacknowledged = db.get_collection("c", write_concern=WriteConcern(w=0))
    assert not unacknowledged.insert_one({"_id": "silent"}).acknowledged
    unacknowledged.insert_one({"_id": "silent"})  # a duplicate that is not reported
    with db.client.start_session():
        # Not ordered with another connection's commands: wait for it.
        for _ in range(200):
            if db.c.find_one({"_id": "silent"}):
                break
        else:
            pytest.fail("the unacknowledged insert never showed")
    assert db.c.count_documents({"_id": "silent"}) == 1


def test_arguments_that_are_not_understood_are_errors(db):
    for command, code in [
        ({"find": "c", "filterr": {}}, 40415),
        ({"find": "c", "limit": "x"}, 14),
        ({"find": "c", "skip": -1}, 51024),
        ({"find": 5}, 73),
        ({"find": "c", "$_requestResumeToken": True}, 238),
        ({"find": "c", "collation": {"locale": "haw"}}, 238),
        ({"find": "c", "collation": {"locale": "de_DE"}}, 2),
        ({"find": "c", "collation": {"strength": 1}}, 40414),
        ({"find": "c", "collation": {"locale": "de", "accents": False}}, 40415),
        ({"insert": "c"}, 40414),
        ({"insert": "c", "documents": []}, 16),
        ({"insert": "$bad", "documents": [{}]}, 73),
        ({"update": "c", "updates": [{"q": {}}]}, None),
        ({"delete": "c", "deletes": [{"q": {}, "limit": 5}]}, None),
        ({"delete": "c", "deletes": [{"q": {}, "limit": 1}], "writeConcern": {"w": "dc9"}}, 2),
    ]:
        reply = db.command(command, check=False)
        if code is None:
            assert reply["ok"] == 1 and reply["writeErrors"][0]["code"] in (9, 40414), command
        else:
            assert (reply["ok"], reply["code"]) == (0, code), (command, reply)
    assert db.list_collection_names() == []


def test_find_one_and_update_returns_the_document_before_or_after(films):
    assert films.find_one_and_update({"_id": 1}, {"$inc": {"year": 10}})["year"] == 1991
    after = films.find_one_and_update({"_id": 1}, {"$inc": {"year": 10}}, return_document=ReturnDocument.AFTER)
    assert after["year"] == 2011
    # The first in sort order, projected.
    found = films.find_one_and_update({"year": 1992}, {"$set": {"seen": True}}, {"title": 1, "_id": 0}, sort=[("_id", -1)])
    assert found == {"title": "film 07"}
    assert films.find_one({"seen": True})["_id"] == 7
    assert films.find_one_and_update({"_id": 99}, {"$set": {"a": 1}}) is None
    assert films.find_one({"_id": 99}) is None


def test_find_one_and_replace_and_delete(films):
    assert films.find_one_and_replace({"_id": 2}, {"only": 1})["title"] == "film 02"
    assert films.find_one({"_id": 2}) == {"_id": 2, "only": 1}
    assert films.find_one_and_delete({"year": 1990}, sort=[("title", -1)])["_id"] == 10
    assert films.find_one_and_delete({"_id": 10}) is None
    assert films.count_documents({}) == 11


def test_find_one_and_upsert(db):
    assert db.c.find_one_and_update({"_id": 5, "a": 1}, {"$set": {"b": 2}}, upsert=True) is None
    after = db.c.find_one_and_update({"x": 1}, {"$set": {"y": 2}}, upsert=True, return_document=ReturnDocument.AFTER)
    assert after["x"] == 1 and after["y"] == 2 and isinstance(after["_id"], bson.ObjectId)
    assert db.c.find_one({"_id": 5}) == {"_id": 5, "a": 1, "b": 2}
    reply = db.command({"findAndModify": "c", "query": {"_id": 6}, "update": {"$set": {"b": 1}}, "upsert": True})
    assert reply["lastErrorObject"] == {"n": 1, "updatedExisting": False, "upserted": 6} and reply["value"] is None


def test_a_find_and_modify_that_cannot_be_changes_nothing(films):
    films.create_index("title", unique=True)
    before = list(films.find())
    db = films.database
    for command, code in [
        ({"query": {"_id": 1}, "update": {"$set": {"title": "film 02"}}}, 11000),
        ({"query": {"_id": 1}, "update": {"$set": {"_id": 2}}}, 66),
        ({"query": {"_id": 1}, "update": {"$foo": {"a": 1}}}, 9),
        ({"query": {"_id": 1}, "update": [{"$match": {"a": 1}}]}, 72),
        ({"query": {"_id": 1}, "update": {"$set": {"a": 1}}, "remove": True}, 9),
        ({"query": {"_id": 1}}, 9),
        ({"query": {"_id": 1}, "remove": True, "new": True}, 9),
        ({"query": {"_id": 1}, "remove": True, "upsert": True}, 9),
        ({"query": {"a": {"$foo": 1}}, "remove": True}, 2),
        ({"query": {}, "remove": True, "arrayFilters": [{"x": 1}]}, 9),
    ]:
        reply = db.command({"findAndModify": "films", **command}, check=False)
        assert (reply["ok"], reply["code"]) == (0, code), (command, reply)
    assert list(films.find()) == before


def test_tickets_drawn_by_many_are_drawn_once(db):
    db.c.insert_one({"_id": "next", "n": 0})
    drawn = []
    def draw():
        for _ in range(25):
            drawn.append(db.c.find_one_and_update({"_id": "next"}, {"$inc": {"n": 1}}, upsert=True)["n"])
    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(drawn) == list(range(200))


def test_hints(films):
    films.create_index("year", name="by_year")
    assert len(list(films.find({"year": 1991}).hint("by_year"))) == 3
    assert len(list(films.find({"year": 1991}).hint([("year", 1)]))) == 3
    assert len(list(films.find({"year": 1991}).hint([("$natural", 1)]))) == 3
    assert films.count_documents({"year": 1991}, hint="by_year") == 3
    assert films.update_many({"year": 1991}, {"$set": {"x": 1}}, hint="by_year").matched_count == 3
    assert films.delete_many({"year": 1991}, hint=[("year", 1)]).deleted_count == 3
    with pytest.raises(OperationFailure) as failure:
        list(films.find().hint([("title", 1)]))
    assert failure.value.code == 2
