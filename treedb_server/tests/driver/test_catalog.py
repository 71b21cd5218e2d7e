"""Databases, collections, indexes."""
import time

import pytest
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import BulkWriteError, CollectionInvalid, DuplicateKeyError, OperationFailure, WriteError


def test_collections_come_and_go(client, db):
    db.create_collection("a")
    db.b.insert_one({})
    assert sorted(db.list_collection_names()) == ["a", "b"]
    info = {c["name"]: c for c in db.list_collections()}
    assert info["a"]["type"] == "collection" and info["a"]["info"]["readOnly"] is False
    assert info["a"]["idIndex"] == {"v": 2, "key": {"_id": 1}, "name": "_id_"}
    assert info["a"]["info"]["uuid"] != info["b"]["info"]["uuid"]
    assert db.list_collection_names(filter={"name": "b"}) == ["b"]
    with pytest.raises((CollectionInvalid, OperationFailure)):
        db.create_collection("a")
    reply = db.command({"create": "a", "capped": True, "size": 4096}, check=False)
    assert (reply["code"], reply["codeName"]) == (48, "NamespaceExists")
    dropped = db.command({"drop": "a"})
    assert (dropped["ns"], dropped["nIndexesWas"]) == (f"{db.name}.a", 1)
    # Dropping what does not exist succeeds.
    assert db.command({"drop": "a"}).keys() == {"ok"}
    db.drop_collection("never there")
    assert db.list_collection_names() == ["b"]


def test_creating_what_exists_with_the_same_options_changes_nothing(db):
    kinds = {
        "plain": {},
        "capped": {"capped": True, "size": 4000, "max": 7},
        "folded": {"collation": {"locale": "en", "strength": 2}},
        "checked": {"validator": {"n": {"$gt": 1}, "m": {"$gt": 2}}, "validationAction": "warn"},
        "series": {"timeseries": {"timeField": "at", "metaField": "m"}, "expireAfterSeconds": 3600},
        "clustered": {"clusteredIndex": {"key": {"_id": 1}, "unique": True}},
        "view": {"viewOn": "plain", "pipeline": [{"$sort": {"a": 1, "b": 1}}]},
    }
    for name, options in kinds.items():
        db.command({"create": name, **options})
    db.plain.insert_one({"_id": 1})
    db.folded.create_index("n")
    listed = list(db.list_collections())
    for name, options in kinds.items():
        assert db.command({"create": name, **options}).keys() == {"ok"}, name
        for other, more in kinds.items():
            if other != name:
                assert db.command({"create": name, **more}, check=False)["code"] == 48, (name, other)
    assert list(db.list_collections()) == listed and db.plain.count_documents({}) == 1
    assert len(list(db.folded.list_indexes())) == 2
    for name, options in [
        ("capped", {"capped": True, "size": 4000, "max": 8}),
        ("capped", {"capped": True, "size": 9000, "max": 7}),
        ("folded", {"collation": {"locale": "en", "strength": 1}}),
        ("checked", {"validator": {"n": {"$gt": 1}}, "validationAction": "warn"}),
        ("series", {"timeseries": {"timeField": "at", "metaField": "m", "granularity": "hours"}, "expireAfterSeconds": 3600}),
        ("view", {"viewOn": "plain", "pipeline": [{"$sort": {"b": 1, "a": 1}}]}),
        ("view", {"viewOn": "capped", "pipeline": [{"$sort": {"a": 1, "b": 1}}]}),
    ]:
        assert db.command({"create": name, **options}, check=False)["code"] == 48, (name, options)
    # The options that a collection has now count: the size is rounded up, and what was left open is filled in.
    assert db.command({"create": "capped", "capped": True, "size": 4096, "max": 7})["ok"] == 1
    db.command({"collMod": "plain", "validator": {"n": 1}})
    assert db.command({"create": "plain"}, check=False)["code"] == 48
    assert db.command({"create": "plain", "validator": {"n": 1}})["ok"] == 1
    assert db.command({"create": "plain", "nonsense": 1}, check=False)["code"] == 40415


def test_the_databases_of_the_server_are_listed_and_stay(client):
    listed = {each["name"]: each for each in client.admin.command("listDatabases")["databases"]}
    assert [*listed] == sorted(listed) and {"admin", "local"} <= set(listed)
    # The change log is in `local`.
    assert listed["local"]["sizeOnDisk"] > 0 and not listed["local"]["empty"]
    for name in ["admin", "config", "local"]:
        reply = client[name].command("dropDatabase", check=False)
        assert (reply["ok"], reply["code"], reply["codeName"]) == (0, 20, "IllegalOperation"), name


def test_databases_are_listed_and_dropped(client, db):
    assert db.name not in client.list_database_names()
    db.c.insert_one({})
    assert db.name in client.list_database_names()
    listed = client.admin.command({"listDatabases": 1, "filter": {"name": db.name}})
    assert [d["name"] for d in listed["databases"]] == [db.name] and listed["totalSize"] > 0
    assert "sizeOnDisk" in listed["databases"][0]
    only = client.admin.command({"listDatabases": 1, "nameOnly": True})
    assert all(list(d) == ["name"] for d in only["databases"])
    assert db.command("dropDatabase")["dropped"] == db.name
    assert "dropped" not in db.command("dropDatabase")
    assert db.name not in client.list_database_names()
    assert db.c.count_documents({}) == 0


def test_names_that_are_not_allowed(client):
    for name in ["", "a$b", ".a", "a\0b", "system.users", "x" * 300]:
        reply = client.names.command({"create": name}, check=False)
        assert (reply["ok"], reply["code"]) == (0, 73), name
    assert client.list_database_names().count("names") == 0


def test_options_that_would_not_be_kept_are_refused(db):
    for options in [{"temp": True}, {"encryptedFields": {"a": 1}}, {"indexOptionDefaults": {"a": 1}}]:
        reply = db.command({"create": "c", **options}, check=False)
        assert reply["code"] == 238, options
    reply = db.command({"create": "c", "nonsense": 1}, check=False)
    assert reply["code"] == 40415
    assert db.list_collection_names() == []


def test_indexes_are_created_listed_and_dropped(films):
    assert films.create_index([("year", ASCENDING), ("title", DESCENDING)]) == "year_1_title_-1"
    assert films.create_index("title", unique=True, name="titles") == "titles"
    listed = {i["name"]: i for i in films.list_indexes()}
    assert set(listed) == {"_id_", "year_1_title_-1", "titles"}
    assert listed["titles"]["unique"] is True and "unique" not in listed["year_1_title_-1"]
    assert dict(listed["year_1_title_-1"]["key"]) == {"year": 1, "title": -1}
    films.drop_index("titles")
    films.drop_index([("year", ASCENDING), ("title", DESCENDING)])
    assert [i["name"] for i in films.list_indexes()] == ["_id_"]
    films.create_indexes([IndexModel("a"), IndexModel("b"), IndexModel("c")])
    assert films.database.command({"dropIndexes": "films", "index": ["a_1", "b_1"]})["nIndexesWas"] == 4
    films.drop_indexes()
    assert [i["name"] for i in films.list_indexes()] == ["_id_"]


def test_create_indexes_tells_what_it_did(db):
    reply = db.command({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"]) == (1, 2)
    assert reply["createdCollectionAutomatically"] is True
    reply = db.command({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"]) == (2, 2) and "note" in reply


def test_a_unique_index_refuses_and_says_which(films):
    films.create_index("title", unique=True)
    with pytest.raises(DuplicateKeyError) as failure:
        films.insert_one({"_id": 99, "title": "film 03"})
    assert failure.value.details["keyPattern"] == {"title": 1}
    assert failure.value.details["keyValue"] == {"title": "film 03"}
    with pytest.raises(DuplicateKeyError):
        films.update_one({"_id": 1}, {"$set": {"title": "film 03"}})
    assert films.find_one({"_id": 1})["title"] == "film 01" and films.count_documents({}) == 12
    with pytest.raises(OperationFailure) as failure:
        films.create_index("year", unique=True)
    assert failure.value.code == 11000
    assert sorted(i["name"] for i in films.list_indexes()) == ["_id_", "title_1"]


def test_indexes_that_cannot_be(films):
    db = films.database
    for spec, code in [
        ({"key": {"a": 1}}, 9),
        ({"name": "x"}, 9),
        ({"key": {"a": 1}, "name": "x", "nonsense": 1}, 197),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": "soon"}, 14),
        ({"key": {"a": 0}, "name": "x"}, 67),
        ({"key": {}, "name": "x"}, 67),
    ]:
        reply = db.command({"createIndexes": "films", "indexes": [spec]}, check=False)
        assert (reply["ok"], reply["code"]) == (0, code), (spec, reply)
    assert db.command({"createIndexes": "films", "indexes": []}, check=False)["code"] == 2
    assert db.command({"dropIndexes": "films", "index": "_id_"}, check=False)["code"] == 72
    assert db.command({"dropIndexes": "films", "index": "nope"}, check=False)["code"] == 27
    assert db.command({"dropIndexes": "films", "index": {"nope": 1}}, check=False)["code"] == 27
    assert db.command({"dropIndexes": "nothing", "index": "x"}, check=False)["code"] == 26
    assert db.command({"listIndexes": "nothing"}, check=False)["code"] == 26
    assert list(db.nothing.list_indexes()) == []


def test_an_index_on_id_is_the_one_that_every_collection_has(db):
    db.c.insert_one({"_id": 1})
    for spec in [{"key": {"_id": 1}, "name": "_id_"}, {"key": {"_id": 1}, "name": "byId", "v": 2}, {"key": {"_id": 1.0}, "name": "_id_1"}]:
        reply = db.command({"createIndexes": "c", "indexes": [spec]})
        assert (reply["numIndexesBefore"], reply["numIndexesAfter"], reply["note"]) == (1, 1, "all indexes already exist"), spec
    db.create_collection("german", collation={"locale": "de"})
    db.german.create_index("_id")
    db.german.create_index("_id", collation={"locale": "de"})
    for name in ("c", "german"):
        assert [i["name"] for i in db[name].list_indexes()] == ["_id_"]


def test_the_index_on_id_has_no_options(db):
    db.c.insert_one({"_id": 1})
    for option in [{"unique": True}, {"unique": False}, {"sparse": True}, {"sparse": False}, {"hidden": True}, {"background": True},
                   {"partialFilterExpression": {"a": 1}}, {"expireAfterSeconds": 1}, {"bits": 3}, {"dropDups": True}]:
        reply = db.command({"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "_id_", **option}]}, check=False)
        assert (reply["ok"], reply["code"], reply["codeName"]) == (0, 197, "InvalidIndexSpecificationOption"), option
        assert f"The field '{[*option][0]}' is not valid for an _id index specification" in reply["errmsg"]
    for spec in [{"key": {"_id": -1}, "name": "down"}, {"key": {"a": 1}, "name": "_id_"},
                 {"key": {"_id": 1}, "name": "_id_", "collation": {"locale": "de"}}]:
        assert db.command({"createIndexes": "c", "indexes": [spec]}, check=False)["code"] == 2, spec
    # Others that begin with it or are of another kind are like any other.
    db.c.create_index([("_id", 1), ("a", 1)], unique=True)
    db.c.create_index([("_id", "hashed")])
    assert sorted(i["name"] for i in db.c.list_indexes()) == ["_id_", "_id_1_a_1", "_id_hashed"]


def test_explain_tells_plan_and_work(films):
    films.create_index("year")
    plan = films.find({"year": 1991}).explain()
    winning = plan["queryPlanner"]["winningPlan"]
    assert winning["stage"] == "FETCH" and winning["inputStage"]["indexName"] == "year_1"
    assert winning["inputStage"]["keyPattern"] == {"year": 1}
    stats = plan["executionStats"]
    assert (stats["nReturned"], stats["totalKeysExamined"], stats["totalDocsExamined"]) == (3, 3, 3)
    scan = films.find({"title": "film 03"}).sort("title", 1).explain()
    assert scan["queryPlanner"]["winningPlan"]["inputStage"]["stage"] == "COLLSCAN"
    assert scan["executionStats"]["totalDocsExamined"] == 12
    only = films.database.command({"explain": {"find": "films"}, "verbosity": "queryPlanner"})
    assert "executionStats" not in only
    assert films.database.command({"explain": {"find": "nothing"}})["queryPlanner"]["winningPlan"]["stage"] == "EOF"
    counted = films.database.command({"explain": {"count": "films", "query": {"year": 1991}}})
    assert counted["executionStats"]["totalKeysExamined"] >= 3
    assert counted["queryPlanner"]["winningPlan"]["inputStage"]["stage"] == "COUNT_SCAN"
    assert counted["executionStats"]["totalDocsExamined"] == 0
    assert winning["inputStage"]["indexBounds"] == {"year": ["[1991.0, 1991.0]"]}
    covered = films.find({"year": 1991}, {"year": 1, "_id": 0})
    assert list(covered) == [{"year": 1991}] * 3
    covered = covered.explain()
    assert covered["queryPlanner"]["winningPlan"]["stage"] == "PROJECTION_COVERED"
    assert covered["executionStats"]["totalDocsExamined"] == 0
    assert films.find({"_id": 3}).explain()["queryPlanner"]["winningPlan"]["stage"] == "IDHACK"
    natural = films.find({"year": 1991}).hint([("$natural", 1)]).explain()
    assert natural["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    assert films.find({"year": 1991}).hint([("year", 1)]).explain()["executionStats"]["nReturned"] == 3
    assert films.database.command({"explain": {"insert": "films"}}, check=False)["code"] == 20


def test_a_refused_document_comes_with_what_it_does_not_match(db):
    schema = {"required": ["name"], "properties": {"year": {"bsonType": "int"}}}
    db.create_collection("v", validator={"$jsonSchema": schema})
    with pytest.raises(WriteError) as refused:
        db.v.insert_one({"_id": 7, "year": "x"})
    assert refused.value.code == 121
    info = refused.value.details["errInfo"]
    assert info["failingDocumentId"] == 7 and info["details"]["operatorName"] == "$jsonSchema"
    rules = {rule["operatorName"]: rule for rule in info["details"]["schemaRulesNotSatisfied"]}
    assert rules["required"]["missingProperties"] == ["name"]
    year, = rules["properties"]["propertiesNotSatisfied"]
    assert year["propertyName"] == "year" and year["details"][0]["consideredType"] == "string"
    db.v.insert_one({"_id": 8, "name": "n"})
    with pytest.raises(OperationFailure) as refused:
        db.v.find_one_and_update({"_id": 8}, {"$unset": {"name": 1}})
    assert refused.value.code == 121 and refused.value.details["errInfo"]["failingDocumentId"] == 8


def test_a_validator_that_warns_lets_in_and_writes_a_line(db, server):
    db.create_collection("v", validator={"n": {"$gt": 5}}, validationAction="warn")
    db.v.insert_one({"_id": "warned about", "n": 1})
    db.v.insert_one({"_id": "fine", "n": 9})
    assert db.v.count_documents({}) == 2
    until = time.monotonic() + 5
    lines = []
    while not lines and time.monotonic() < until:
        lines = [line for line in server.log if "would fail validation" in line and f"{db.name}.v" in line]
        time.sleep(0.05)
    assert len(lines) == 1 and "warned about" in lines[0] and "comparison failed" in lines[0]
    # A document that did not match before may stay so.
    db.command("collMod", "v", validationAction="error", validationLevel="moderate")
    assert db.v.update_one({"_id": "warned about"}, {"$set": {"n": 2}}).modified_count == 1
    with pytest.raises(WriteError):
        db.v.update_one({"_id": "fine"}, {"$set": {"n": 2}})


def test_two_databases_do_not_differ_in_case_only(client, db):
    other = client[db.name.upper()]
    other.command({"create": "a"}) and other.command("dropDatabase")
    db.a.insert_one({})
    for work in [lambda: other.a.insert_one({}), lambda: other.command({"create": "a"}), lambda: other.create_collection("v", viewOn="a"),
                 lambda: client.admin.command("renameCollection", f"{db.name}.a", to=f"{other.name}.a")]:
        with pytest.raises(OperationFailure) as refused:
            work()
        assert (refused.value.code, refused.value.details.get("codeName", "DatabaseDifferCase")) == (13297, "DatabaseDifferCase")
    db.b.insert_one({})


def test_an_id_has_no_fields_that_look_like_operators(db):
    for work in [lambda: db.a.insert_one({"_id": {"$a": 1}}), lambda: db.a.insert_many([{"_id": {"b": 1}}, {"_id": {"a": 1, "$b": 1}}]),
                 lambda: db.a.update_one({"x": 1}, {"$set": {"_id": {"$a": 1}}}, upsert=True)]:
        with pytest.raises((OperationFailure, BulkWriteError)) as refused:
            work()
        details = refused.value.details
        assert (details["writeErrors"][0] if "writeErrors" in details else details)["code"] == 52
    assert db.a.count_documents({}) == 1


def test_a_pipeline_that_writes_is_not_linearizable(films):
    for stage in [{"$out": "x"}, {"$merge": "x"}]:
        command = {"aggregate": "films", "pipeline": [stage], "cursor": {}, "readConcern": {"level": "linearizable"}}
        assert films.database.command(command, check=False)["code"] == 72
