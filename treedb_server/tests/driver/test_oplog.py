"""local.oplog.rs as those who tail it read it, and the events of definitions in change streams."""
import bson
import pymongo
import pytest
from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure
from pymongo.cursor import CursorType

from server import Server


@pytest.fixture
def oplog(client):
    return client.local["oplog.rs"]


def last(oplog):
    [entry] = oplog.find().sort("$natural", -1).limit(1)
    return entry["ts"]


def change_everything(db):
    db.a.insert_many([{"_id": i, "n": i, "deep": {"list": [1, 2, 3], "text": "x" * 50}} for i in range(3)])
    db.a.update_one({"_id": 1}, {"$set": {"n": 10, "deep.list.1": 5}, "$unset": {"deep.none": 1}})
    db.a.replace_one({"_id": 2}, {"r": 1})
    db.a.delete_one({"_id": 0})
    db.a.create_index("n", name="by n")
    db.a.drop_index("by n")
    db.command("collMod", "a", validator={"n": {"$ne": 5}})
    db.a.rename("b")
    db.b.drop()


def test_a_tail_of_the_oplog_gets_every_change_in_its_order(db, client, oplog):
    since = last(oplog)
    tail = oplog.find({"ts": {"$gt": since}, "ns": {"$regex": f"^{db.name}\\."}}, cursor_type=CursorType.TAILABLE_AWAIT)
    change_everything(db)
    entries = []
    while not entries or entries[-1]["o"].get("drop") != "b":
        entries.append(next(tail))
    assert [entry["op"] for entry in entries] == ["c"] + ["i"] * 3 + ["u", "u", "d"] + ["c"] * 5
    assert entries[0]["ns"] == f"{db.name}.$cmd" and entries[0]["o"]["create"] == "a"
    assert entries[1]["ns"] == f"{db.name}.a" and entries[1]["o"]["_id"] == 0 and entries[1]["o2"] == {"_id": 0}
    assert entries[4]["o"] == {"$v": 2, "diff": {"u": {"n": 10}, "sdeep": {"slist": {"a": True, "u1": 5}}}}
    assert entries[4]["o2"] == {"_id": 1} and entries[5]["o"] == {"_id": 2, "r": 1}
    assert entries[6]["o"] == {"_id": 0}
    assert [next(iter(entry["o"])) for entry in entries[7:]] == ["createIndexes", "dropIndexes", "collMod", "renameCollection", "drop"]
    assert entries[7]["o"]["name"] == "by n" and entries[10]["o"]["to"] == f"{db.name}.b"
    times = [entry["ts"] for entry in entries]
    assert times == sorted(set(times)) and all(entry["t"] == 1 and entry["v"] == 2 for entry in entries)
    # It waits for what comes next.
    db.late.insert_one({"_id": 1})
    assert next(tail)["o"]["create"] == "late" and next(tail)["o"] == {"_id": 1}
    tail.close()


def test_the_oplog_is_found_by_time_forward_and_backward(db, oplog):
    since = last(oplog)
    db.a.insert_many([{"_id": i} for i in range(700)])
    mine = {"ts": {"$gt": since}, "op": "i", "ns": f"{db.name}.a"}
    forward = list(oplog.find(mine))
    assert [entry["o"]["_id"] for entry in forward] == list(range(700))
    assert list(oplog.find(mine).sort("$natural", -1)) == forward[::-1]
    assert list(oplog.find(mine).sort("ts", -1).limit(3)) == forward[:-4:-1]
    middle = forward[350]["ts"]
    assert [entry["o"]["_id"] for entry in oplog.find({**mine, "ts": {"$gte": middle, "$lte": forward[352]["ts"]}})] == [350, 351, 352]
    assert list(oplog.find({"ts": middle}, {"ts": 1})) == [{"ts": middle}]
    assert oplog.find_one(mine, skip=5)["o"] == {"_id": 5}
    assert forward[-1]["ts"] == last(oplog)


def test_the_oplog_is_counted_and_aggregated_as_its_entries_say(db, client, oplog):
    since = last(oplog)
    change_everything(db)
    db.c.insert_many([{"_id": i, "n": i % 7, "text": "x" * 200} for i in range(3000)])
    mine = {"ts": {"$gt": since}, "ns": {"$regex": f"^{db.name}\\."}}
    entries = list(oplog.find(mine))
    assert len(entries) > 3000
    for filter in (mine, {**mine, "op": "i"}, {"ts": entries[5]["ts"]}, {**mine, "op": "none"}):
        expected = len(list(oplog.find(filter)))
        assert oplog.count_documents(filter) == expected == client.local.command("count", "oplog.rs", query=filter)["n"]
    assert client.local.command("count", "oplog.rs", query=mine, skip=10, limit=7)["n"] == 7
    assert oplog.estimated_document_count() == len(list(oplog.find()))
    ids = lambda found: [entry["ts"] for entry in found]
    match = {"$match": mine}
    assert list(oplog.aggregate([match])) == entries
    assert list(oplog.aggregate([match, {"$sort": {"ts": -1}}, {"$limit": 5}])) == entries[:-6:-1]
    by_text = sorted(entries, key=lambda entry: (str(entry["op"]), entry["ts"].time, entry["ts"].inc))
    assert ids(oplog.aggregate([match, {"$sort": {"op": 1, "ts": 1}}])) == ids(by_text)
    assert ids(oplog.aggregate([match, {"$sort": {"op": 1, "ts": 1}}, {"$skip": 3}, {"$limit": 9}])) == ids(by_text)[3:12]
    assert list(oplog.aggregate([match, {"$skip": 2}, {"$limit": 3}, {"$project": {"o._id": 1, "ts": 1}}])) == [
        {"ts": entry["ts"], "o": {key: value for key, value in entry["o"].items() if key == "_id"}} for entry in entries[2:5]]
    kinds = {}
    for entry in entries:
        kinds[entry["op"]] = kinds.get(entry["op"], 0) + 1
    assert {one["_id"]: one["n"] for one in oplog.aggregate([match, {"$group": {"_id": "$op", "n": {"$sum": 1}}}])} == kinds
    assert list(oplog.aggregate([match, {"$count": "n"}])) == [{"n": len(entries)}]
    assert set(oplog.distinct("op", mine)) == set(kinds) and oplog.distinct("none", mine) == []
    assert oplog.distinct("o._id", {**mine, "op": "i", "ns": f"{db.name}.c"}) == list(range(3000))
    assert set(oplog.distinct("ns")) >= {f"{db.name}.c"}
    found, = oplog.aggregate([match, {"$limit": 1}, {"$lookup": {
        "from": "oplog.rs", "localField": "ts", "foreignField": "ts", "as": "same"}}])
    assert ids(found["same"]) == [entries[0]["ts"]]
    # A batch later it goes on with what it saw.
    assert ids(oplog.aggregate([match], batchSize=50)) == ids(entries)


def test_the_oplog_begins_with_an_entry_and_cannot_be_written(db, client, oplog):
    db.a.insert_one({"_id": 1})
    first = oplog.find_one()
    assert first["op"] == "n" and isinstance(first["ts"], Timestamp)
    for work in [
        lambda: oplog.insert_one({}),
        lambda: oplog.delete_many({}),
        lambda: oplog.drop(),
        lambda: oplog.create_index("a"),
        lambda: oplog.find().sort("op", 1).next(),
        lambda: oplog.find({}, sort=[("op", 1), ("ts", 1)]).next(),
        lambda: oplog.find().hint("_id_").next(),
        lambda: oplog.distinct("op", hint="_id_"),
        lambda: oplog.watch(),
        lambda: oplog.aggregate([{"$out": {"db": "local", "coll": "oplog.rs"}}]),
        lambda: oplog.aggregate([{"$match": {}}], hint="_id_").next(),
        lambda: db.a.aggregate([{"$out": {"db": "local", "coll": "oplog.rs"}}]),
        lambda: db.a.aggregate([{"$merge": {"into": {"db": "local", "coll": "oplog.rs"}}}]),
        lambda: client.admin.command("renameCollection", f"{db.name}.a", to="local.oplog.rs"),
    ]:
        with pytest.raises(OperationFailure) as failure:
            work()
        assert failure.value.code in (20, 2, 73, 31320, 31321)


def test_the_oplog_is_listed_and_has_sizes(db, client, oplog):
    db.a.insert_many([{"_id": i, "text": "x" * 500} for i in range(200)])
    [listed] = [each for each in client.local.list_collections() if each["name"] == "oplog.rs"]
    assert (listed["type"], listed["options"]["capped"]) == ("collection", True)
    stats = client.local.command("collStats", "oplog.rs")
    assert stats["ns"] == "local.oplog.rs" and stats["capped"] is True
    assert stats["maxSize"] == listed["options"]["size"] == 256 << 20
    assert 0 < stats["size"] < stats["maxSize"] and stats["count"] >= 200
    assert client.local.command("collStats", "oplog.rs", scale=1024)["maxSize"] == 256 << 10
    [staged] = oplog.aggregate([{"$collStats": {"storageStats": {}, "count": {}}}])
    assert staged["storageStats"]["maxSize"] == stats["maxSize"] and staged["count"] >= 200
    [other] = db.a.aggregate([{"$collStats": {"storageStats": {}}}])
    assert "maxSize" not in other["storageStats"] and "oplog.rs" not in db.list_collection_names()


def applied(client, *entries, **options):
    reply = client.admin.command({"applyOps": [*entries], **options}, check=False)
    return reply.get("code", 0), reply.get("results")


def everything(db):
    return {name: (sorted(db[name].find(), key=lambda document: str(document["_id"])), db[name].index_information(), db[name].options())
            for name in db.list_collection_names()}


def test_entries_that_are_applied_make_the_same_database_of_another_once_or_twice(db, client, oplog):
    since = last(oplog)
    change_everything(db)
    db.create_collection("capped", capped=True, size=4096)
    db.capped.insert_many([{"_id": i} for i in range(5)])
    db.c.insert_many([{"_id": i, "n": i, "deep": {"list": [{"x": i, "text": "y" * 40}, i, "z" * 40], "text": "x" * 40}} for i in range(20)])
    db.c.create_index([("n", -1)], name="by n", sparse=True)
    db.c.create_index("deep.text", unique=True, partialFilterExpression={"n": {"$gt": 100}})
    db.c.update_many({"n": {"$lt": 9}}, {"$inc": {"deep.list.0.x": 5}, "$unset": {"n": 1}, "$set": {"new": {"a": 1}}})
    db.c.update_many({"_id": {"$gt": 5}}, {"$push": {"deep.list": {"$each": [{"p": 1}], "$position": 1}}, "$rename": {"deep.text": "t"}})
    db.c.update_one({"_id": 3}, {"$push": {"deep.list": {"$each": [], "$slice": 1}}})
    db.c.replace_one({"_id": 4}, {"whole": "document"})
    db.c.delete_many({"_id": {"$gt": 15}})
    db.command({"collMod": "c", "index": {"name": "by n", "hidden": True}})
    other = client[f"{db.name}_applied"]
    entries = []
    for entry in oplog.find({"ts": {"$gt": since}, "ns": {"$regex": f"^{db.name}\\."}}):
        entry = {name: entry[name] for name in ("op", "ns", "o", "o2", "ts", "wall") if name in entry}
        entry["ns"] = entry["ns"].replace(db.name, other.name)
        if "renameCollection" in entry["o"]:
            entry["o"] |= {name: entry["o"][name].replace(db.name, other.name) for name in ("renameCollection", "to")}
        entries.append(entry)
    assert {entry["op"] for entry in entries} == {"i", "u", "d", "c"} and any("diff" in entry["o"] for entry in entries)
    try:
        for entry in entries:
            assert [applied(client, entry) for _ in range(2)] == [(0, [True])] * 2, entry
        assert everything(other) == everything(db)
        reply = client.admin.command({"applyOps": entries})
        assert (reply["applied"], reply["results"]) == (len(entries), [True] * len(entries))
        assert everything(other) == everything(db)
        client.admin.command({"applyOps": [{"op": "c", "ns": f"{other.name}.$cmd", "o": {"dropDatabase": 1}}]})
        assert other.list_collection_names() == []
    finally:
        client.drop_database(other.name)


def test_entries_up_to_one_that_fails_are_applied_and_told(db, client):
    db.a.insert_one({"_id": 1, "n": 1})
    db.a.create_index("n", unique=True)
    ns = db.a.full_name
    one = lambda op, o, **more: {"op": op, "ns": ns, "o": o, **more}
    insert = one("i", {"_id": 2, "n": 2})
    # An update without a document, and the others are applied.
    assert applied(client, insert, one("u", {"$v": 2, "diff": {"u": {"n": 5}}}, o2={"_id": 9}), one("d", {"_id": 2}),
                   {"op": "n", "ns": "", "o": {"msg": "nothing"}}) == (8, [True, False, True])
    assert applied(client, one("u", {"n": 5}, o2={"_id": 9})) == (8, [False])
    assert list(db.a.find()) == [{"_id": 1, "n": 1}]
    # Nothing after another error.
    assert applied(client, insert, one("i", {"_id": 3, "n": 1}), one("d", {"_id": 2})) == (11000, [True, False])
    assert db.a.find_one({"_id": 2}) == {"_id": 2, "n": 2} and db.a.find_one({"_id": 3}) is None
    missing = {"ns": f"{db.name}.none"}
    assert applied(client, insert | missing) == (26, [False])
    assert applied(client, one("u", {"n": 1}, o2={"_id": 1}, b=True) | missing) == (26, [False])
    assert applied(client, one("d", {"_id": 1}) | missing) == (0, [True])
    assert db.list_collection_names() == ["a"]
    # The document is inserted, the second time replaced.
    assert applied(client, insert, one("i", {"_id": 2, "n": 7})) == (0, [True, True]) and db.a.find_one({"_id": 2})["n"] == 7
    assert applied(client, one("u", {"n": 8, "_id": 8}, o2={"_id": 8}, b=True), one("u", {"$v": 1, "$set": {"n": 9}}, o2={"_id": 8})) == (0, [True, True])
    assert db.a.find_one({"_id": 8}) == {"_id": 8, "n": 9}
    db.command("collMod", "a", validator={"n": {"$type": "int"}})
    assert applied(client, one("u", {"$v": 2, "diff": {"u": {"n": "x"}}}, o2={"_id": 8})) == (121, [False])
    assert applied(client, one("u", {"$v": 2, "diff": {"u": {"n": "x"}}}, o2={"_id": 8}), bypassDocumentValidation=True) == (0, [True])
    nested = {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [one("d", {"_id": 8}), one("d", {"_id": 2})]}}
    assert applied(client, nested) == (0, [True, True]) and list(db.a.find()) == [{"_id": 1, "n": 1}]


def test_entries_that_cannot_be_applied_change_nothing(db, client):
    db.a.insert_one({"_id": 1})
    fine = {"op": "i", "ns": db.a.full_name, "o": {"_id": 2}}
    command = lambda o, **more: {"op": "c", "ns": f"{db.name}.$cmd", "o": o, **more}
    deep = fine
    for _ in range(12):
        deep = command({"applyOps": [deep]})
    for wrong, code in [
        ({"ns": "x.y", "o": {}}, 20), ({"op": "i", "o": {"_id": 1}}, 20), ({"op": "i", "ns": "x.y"}, 20), ({"op": "u", "ns": "x.y", "o": {}}, 20),
        ({**fine, "op": "z"}, 9), ({**fine, "ns": "nowhere"}, 73), ({**fine, "ns": "a.system.users"}, 73), ({**fine, "o": {"n": 1}}, 9),
        ({"op": "u", "ns": db.a.full_name, "o": {"$v": 2, "u": 1}, "o2": {"_id": 1}}, 9), ("x", 14), (deep, 9),
        (command({"drop": "a"}) | {"ns": db.a.full_name}, 73), (command({}), 9), (command({"find": "a"}), 238),
        (command({"createUser": "a"}), 238), (command({"create": "b"}, ui=bson.Binary(b"0" * 16, 4)), 238),
        (command({"applyOps": [], "prepare": True}), 238), (command({"dropDatabase": 1}), 6275900),
    ]:
        assert applied(client, fine, wrong) == (code, None), wrong
    for options in [{"allowAtomic": True}, {"alwaysUpsert": True}, {"preCondition": [{}]}]:
        assert applied(client, fine, **options) == (238, None)
    assert applied(client, fine, allowAtomic=False, alwaysUpsert=False, preCondition=[]) == (0, [True])
    assert applied(client, {**fine, "o": {"_id": 3}, "ui": bson.Binary(b"0" * 16, 4)}) == (3318200, [False])
    uuid = db.command("listCollections", filter={"name": "a"})["cursor"]["firstBatch"][0]["info"]["uuid"]
    assert applied(client, {**fine, "o": {"_id": 3}, "ui": uuid}) == (0, [True])
    assert applied(client, {"op": "u", "ns": db.a.full_name, "o": {"$v": 2, "diff": {"u": {"_id": 9}}}, "o2": {"_id": 3}}) == (66, [False])
    assert applied(client, {"op": "i", "ns": "local.oplog.rs", "o": {"_id": 3}}) == (26, [False])
    assert [d["_id"] for d in db.a.find()] == [1, 2, 3]


def test_who_may_not_read_local_may_not_read_the_oplog(tmp_path):
    server = Server(tmp_path, "--auth")
    with server.client() as root:
        root.admin.command("createUser", "root", pwd="secret", roles=["root"])
    with server.client(username="root", password="secret") as root:
        root.admin.command("createUser", "reader", pwd="secret", roles=["readAnyDatabase"])
        root.admin.command("createUser", "tail", pwd="secret", roles=[{"role": "read", "db": "local"}])
        root.shop.a.insert_one({"_id": 1})
    with server.client(username="reader", password="secret") as reader:
        with pytest.raises(OperationFailure) as failure:
            reader.local["oplog.rs"].find_one()
        assert failure.value.code == 13
    with server.client(username="tail", password="secret") as tail:
        assert tail.local["oplog.rs"].find_one({"ns": "shop.a"})["o"] == {"_id": 1}
    assert server.stop() == 0


def drain(stream, count):
    events = []
    for _ in range(200):
        event = stream.try_next()
        if event is not None:
            events.append(event)
        if len(events) == count:
            return events
    raise AssertionError(events)


def test_expanded_events_tell_of_definitions_and_others_stay_as_they_were(db):
    with db.watch(show_expanded_events=True) as expanded, db.watch() as plain:
        change_everything(db)
        events = drain(expanded, 12)
        assert [event["operationType"] for event in events] == \
            ["create"] + ["insert"] * 3 + ["update", "replace", "delete", "createIndexes", "dropIndexes", "modify", "rename", "drop"]
        assert events[0]["operationDescription"]["idIndex"] == {"v": 2, "key": {"_id": 1}, "name": "_id_"}
        assert events[7]["operationDescription"] == {"indexes": [{"v": 2, "key": {"n": 1}, "name": "by n"}]}
        assert events[8]["operationDescription"] == events[7]["operationDescription"]
        assert events[9]["operationDescription"] == {"validator": {"n": {"$ne": 5}}}
        assert events[10]["operationDescription"] == {"to": {"db": db.name, "coll": "b"}}
        assert len({bytes(event["collectionUUID"]) for event in events}) == 1
        assert events[4]["updateDescription"]["disambiguatedPaths"] == {"deep.list.1": ["deep", "list", 1]}
        others = drain(plain, 8)
        assert [event["operationType"] for event in others] == ["insert"] * 3 + ["update", "replace", "delete", "rename", "drop"]
        assert all("collectionUUID" not in event for event in others)
        assert "disambiguatedPaths" not in others[3]["updateDescription"]
    with db.watch(show_expanded_events=True) as stream:
        with db.client.start_session() as session, session.start_transaction():
            db.create_collection("in_txn", session=session, check_exists=False)
            db.in_txn.insert_one({"_id": 1}, session=session)
        assert [event["operationType"] for event in drain(stream, 2)] == ["create", "insert"]


def test_large_events_are_split_and_a_stream_continues_within_one(db):
    db.create_collection("big", changeStreamPreAndPostImages={"enabled": True})
    text = "x" * (9 << 20)
    pipeline = [{"$changeStreamSplitLargeEvent": {}}]
    options = {"full_document": "required", "full_document_before_change": "required"}
    with db.big.watch(pipeline, **options) as stream:
        db.big.insert_one({"_id": 1, "text": text})
        db.big.update_one({"_id": 1}, {"$set": {"text": text + "y"}})
        db.big.update_one({"_id": 1}, {"$set": {"n": 1}})
        insert, = drain(stream, 1)
        assert insert["operationType"] == "insert" and "splitEvent" not in insert
        parts = drain(stream, 3)
        assert [part["splitEvent"] for part in parts] == [{"fragment": i, "of": 3} for i in (1, 2, 3)]
        whole = {key: value for part in parts for key, value in part.items()}
        assert whole["operationType"] == "update" and whole["fullDocument"]["text"] == text + "y"
        assert whole["fullDocumentBeforeChange"]["text"] == text
    with db.big.watch(pipeline, resume_after=parts[0]["_id"], **options) as stream:
        assert [part["splitEvent"]["fragment"] for part in drain(stream, 2)] == [2, 3]
    with db.big.watch(pipeline, resume_after=parts[2]["_id"], **options) as stream:
        assert drain(stream, 1)[0]["splitEvent"]["fragment"] == 1
    with pytest.raises(OperationFailure) as failure:
        db.big.watch(resume_after=parts[0]["_id"], **options)
    assert failure.value.code == 260
    with pytest.raises(OperationFailure) as failure:
        db.big.watch([*pipeline, {"$match": {}}])
    assert failure.value.code == 7182802


def test_the_oplog_has_no_indexes(client, oplog):
    assert list(oplog.list_indexes()) == []
