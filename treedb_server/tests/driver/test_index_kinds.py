"""Every kind of index through the driver: created, listed as specified, used, changed."""
import pytest
from bson import SON
from pymongo import ASCENDING, DESCENDING, HASHED, IndexModel
from pymongo.collation import Collation
from pymongo.errors import DuplicateKeyError, OperationFailure


def index_of(cursor):
    plan = cursor.explain()["queryPlanner"]["winningPlan"]
    while "inputStage" in plan:
        plan = plan["inputStage"]
    return plan.get("indexName")


@pytest.fixture
def things(db):
    db.things.insert_many(
        [{"_id": n, "s": n, "p": n, "h": n, "w": {"a": n, "b": [n, {"c": n}]}, "c": f"Word {n}"} for n in range(50)]
    )
    return db.things


def test_every_kind_is_listed_as_it_was_asked_for_and_used(things):
    things.create_indexes([
        IndexModel("s", name="sparse", sparse=True),
        IndexModel([("p", DESCENDING)], name="partial", partialFilterExpression={"p": {"$gt": 20}}),
        IndexModel("t", name="ttl", expireAfterSeconds=3600),
        IndexModel([("h", HASHED)], name="hashed"),
        IndexModel([("w.$**", ASCENDING)], name="wild"),
        IndexModel([("$**", ASCENDING)], name="all", wildcardProjection={"c": 1}),
        IndexModel("c", name="words", collation=Collation(locale="en", strength=2)),
        IndexModel("x", name="hidden", hidden=True),
    ])
    listed = {i["name"]: i for i in things.list_indexes()}
    assert listed["sparse"]["sparse"] is True
    assert listed["partial"]["partialFilterExpression"] == {"p": {"$gt": 20}}
    assert listed["ttl"]["expireAfterSeconds"] == 3600
    assert dict(listed["hashed"]["key"]) == {"h": "hashed"}
    assert dict(listed["wild"]["key"]) == {"w.$**": 1}
    assert listed["all"]["wildcardProjection"] == {"c": 1}
    assert (listed["words"]["collation"]["locale"], listed["words"]["collation"]["strength"]) == ("en", 2)
    assert listed["hidden"]["hidden"] is True
    for query, index in [
        ({"s": 7}, "sparse"),
        ({"p": 30}, "partial"),
        ({"p": 10}, None),
        ({"h": {"$in": [1, 2]}}, "hashed"),
        ({"w.b.c": 9}, "wild"),
        ({"x": 1}, None),
        ({"s": None}, None),
    ]:
        assert index_of(things.find(query)) == index, query
        assert list(things.find(query)) == list(things.find(query).hint([("$natural", 1)])), query
    insensitive = Collation(locale="en", strength=2)
    found = things.find({"c": "WORD 7"}, collation=insensitive)
    assert index_of(found) == "words" and [d["_id"] for d in found.clone()] == [7]
    count = {"count": things.name, "query": {"c": "wOrD 8"}, "collation": {"locale": "en", "strength": 2}}
    assert things.database.command(count)["n"] == 1
    # Drivers count with a pipeline.
    assert things.count_documents({"c": "wOrD 8"}, collation=insensitive) == 1
    assert things.update_one({"c": "word 7"}, {"$set": {"new": 1}}, collation=insensitive).modified_count == 1
    assert things.delete_one({"c": "word 7"}, collation=insensitive).deleted_count == 1
    things.insert_many([{"c": "word 9"}, {"c": "WORD 9"}])
    assert things.distinct("c", {"c": "word 9"}, collation=insensitive) == ["Word 9"]


def test_unique_indexes_of_a_part_of_the_documents(db):
    db.users.create_index("mail", unique=True, sparse=True)
    db.users.create_index("name", unique=True, partialFilterExpression={"active": True})
    db.users.insert_many([{"name": "a"}, {"name": "a"}, {"name": "a", "active": True, "mail": "x"}])
    for twice in ({"mail": "x"}, {"name": "a", "active": True}):
        with pytest.raises(DuplicateKeyError):
            db.users.insert_one(twice)


def test_collmod_hides_an_index_and_changes_when_documents_expire(things):
    things.create_index("s", expireAfterSeconds=10)
    reply = things.database.command(
        SON([("collMod", "things"), ("index", {"keyPattern": {"s": 1}, "expireAfterSeconds": 20, "hidden": True})])
    )
    assert (reply["expireAfterSeconds_old"], reply["expireAfterSeconds_new"]) == (10, 20)
    assert (reply["hidden_old"], reply["hidden_new"]) == (False, True)
    assert index_of(things.find({"s": 1})) is None
    with pytest.raises(OperationFailure):
        list(things.find({"s": 1}).hint("s_1"))
    things.database.command({"collMod": "things", "index": {"name": "s_1", "hidden": False}})
    assert index_of(things.find({"s": 1})) == "s_1"
    assert things.database.client.admin.command("currentOp", desc="IndexBuild")["inprog"] == []


def test_background_is_listed_as_it_was_given_and_makes_no_other_index(things):
    things.create_index("s", background=True)
    things.create_index("p", background=False, unique=True)
    things.create_index("h")

    def listed():
        return {index["name"]: index.get("background") for index in things.list_indexes()}

    assert listed() == {"_id_": None, "s_1": True, "p_1": False, "h_1": None}
    # The index is there already, whatever is said of it now.
    for given in ({}, {"background": False}, {"background": True}):
        assert things.create_index("s", **given) == "s_1"
    assert listed()["s_1"] is True
    things.database.command({"collMod": "things", "index": {"name": "s_1", "hidden": True}})
    assert listed()["s_1"] is True


def test_options_that_cannot_be(things):
    for spec, code in [
        ({"key": {"a": 1, "b": 1}, "expireAfterSeconds": 5}, 67),
        ({"key": {"a": 1}, "sparse": True, "partialFilterExpression": {"a": 1}}, 67),
        ({"key": {"a": 1}, "partialFilterExpression": {"a": {"$ne": 1}}}, 67),
        ({"key": {"a": "hashed"}, "unique": True}, 16764),
        ({"key": {"$**": 1}, "unique": True}, 67),
        ({"key": {"a": 1}, "collation": {"locale": "sv", "backwards": True}}, 238),
        ({"key": {"a": "text"}}, 67),
    ]:
        reply = things.database.command(
            {"createIndexes": "things", "indexes": [{**spec, "name": "x"}]}, check=False
        )
        assert (reply["ok"], reply["code"]) == (0, code), (spec, reply)
    assert [i["name"] for i in things.list_indexes()] == ["_id_"]


def test_values_of_any_length_are_indexed(db):
    long = "x" * 5000
    db.c.create_index("url", unique=True)
    db.c.create_index([("n", 1), ("url", -1)])
    db.c.insert_many([{"_id": f"{long}{n}", "url": f"{long}{n}", "n": n % 2} for n in range(12)])
    assert db.c.find_one({"_id": f"{long}7"})["url"] == f"{long}7"
    with pytest.raises(DuplicateKeyError) as failure:
        db.c.insert_one({"_id": 1, "url": f"{long}3"})
    assert failure.value.details["keyValue"] == {"url": f"{long}3"}
    assert len(failure.value.details["errmsg"]) < 1000
    plan = db.c.find({"url": f"{long}3"}).explain()
    assert plan["executionStats"]["totalKeysExamined"] == 1
    found = [document["url"] for document in db.c.find({"n": 1}).sort("url", -1).batch_size(2)]
    assert found == sorted((f"{long}{n}" for n in range(1, 12, 2)), reverse=True)
    assert db.c.update_one({"url": f"{long}3"}, {"$set": {"url": "short"}}).modified_count == 1
    assert db.c.delete_one({"_id": f"{long}3"}).deleted_count == 1
    db.c.insert_one({"_id": 1, "url": f"{long}3"})
