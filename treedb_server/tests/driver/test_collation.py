"""Collations of collections and pipelines."""
import pytest
from pymongo import UpdateOne
from pymongo.collation import Collation
from pymongo.errors import DuplicateKeyError, OperationFailure

INSENSITIVE = Collation(locale="en", strength=2)
SIMPLE = Collation(locale="simple")


def test_what_is_asked_of_a_collection_has_its_collation(db):
    words = db.create_collection("words", collation=INSENSITIVE)
    words.insert_many([{"_id": f"W{n}", "w": word} for n, word in enumerate(["Apple", "banana", "BANANA"])])
    options = next(db.list_collections(filter={"name": "words"}))["options"]
    assert (options["collation"]["locale"], options["collation"]["strength"]) == ("en", 2)
    words.create_index("w")
    assert words.index_information()["w_1"]["collation"]["strength"] == 2
    assert words.count_documents({"w": "Banana"}) == 2
    assert words.count_documents({"w": "Banana"}, collation=SIMPLE) == 0
    assert sorted(words.distinct("w")) == ["Apple", "banana"]
    assert words.find_one({"_id": "w0"})["w"] == "Apple"
    with pytest.raises(DuplicateKeyError):
        words.insert_one({"_id": "w0"})
    grouped = list(words.aggregate([{"$group": {"_id": "$w", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]))
    assert [group["n"] for group in grouped] == [1, 2]
    with pytest.raises(OperationFailure) as refused:
        db.command({"collMod": "words", "collation": {"locale": "fr"}})
    assert refused.value.code in (72, 238, 40415)


def test_a_pipeline_has_the_collation_that_it_names(db):
    db.c.insert_many([{"_id": 1, "w": "a"}, {"_id": 2, "w": "A"}, {"_id": 3, "w": "b"}])
    stages = [{"$match": {"$expr": {"$eq": ["$w", "A"]}}}]
    assert [doc["_id"] for doc in db.c.aggregate(stages)] == [2]
    assert [doc["_id"] for doc in db.c.aggregate(stages, collation=INSENSITIVE)] == [1, 2]
    with pytest.raises(OperationFailure) as refused:
        db.c.aggregate(stages, collation={"locale": "de@collation=search"})
    assert refused.value.code == 238


def test_strings_are_sorted_by_the_rules_of_the_language_with_and_without_an_index(db):
    words = ["z", "\u00e5", "\u00e4", "a", "item 10", "item 9"]
    db.c.insert_many([{"w": word} for word in words])
    for locale, options, wanted in [
        ("sv", {}, ["a", "item 10", "item 9", "z", "\u00e5", "\u00e4"]),
        ("de", {}, ["a", "\u00e5", "\u00e4", "item 10", "item 9", "z"]),
        ("de", {"numericOrdering": True}, ["a", "\u00e5", "\u00e4", "item 9", "item 10", "z"]),
    ]:
        collation = Collation(locale=locale, **options)
        for indexed in (False, True):
            if indexed:
                db.c.create_index("w", name="w", collation=collation)
                shown = db.c.index_information()["w"]["collation"]
                assert shown["locale"] == locale and "version" not in shown
                assert shown["numericOrdering"] is options.get("numericOrdering", False)
            assert [doc["w"] for doc in db.c.find().sort("w").collation(collation)] == wanted
        db.c.drop_index("w")


def test_a_sort_that_may_not_use_the_disk_is_made_where_it_has_room(db):
    db.c.insert_many([{"_id": n} for n in (2, 1)])
    assert [doc["_id"] for doc in db.c.find(allow_disk_use=False).sort("_id")] == [1, 2]


def test_operators_of_updates_compare_as_the_update_or_the_collection_says(db):
    own, plain = db.create_collection("own", collation=INSENSITIVE), db.plain
    for collection, collation, left in [(own, None, ["b"]), (own, SIMPLE, ["a", "b"]), (plain, None, ["a", "b"]), (plain, INSENSITIVE, ["b"])]:
        ways = [
            lambda change: collection.update_one({"_id": 1}, change, collation=collation),
            lambda change: collection.find_one_and_update({"_id": 1}, change, collation=collation),
            lambda change: collection.bulk_write([UpdateOne({"_id": 1}, change, collation=collation)]),
        ]
        for change in ways:
            collection.delete_many({})
            collection.insert_one({"_id": 1, "a": ["a", "b"]})
            change({"$pull": {"a": "A"}})
            change({"$addToSet": {"a": "b"}})
            assert collection.find_one()["a"] == left
        if left == ["b"]:
            filters = [{"e": "B"}]
            collection.update_one({"_id": 1}, {"$set": {"a.$[e]": "c"}}, array_filters=filters, collation=collation)
            assert collection.find_one()["a"] == ["c"]
