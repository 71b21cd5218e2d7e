"""Capped collections and tailable cursors; clustered and time series collections."""
import datetime
import threading
import time

import pytest
from bson import ObjectId
from pymongo import CursorType
from pymongo.errors import CollectionInvalid, OperationFailure

from failures import code
from server import Server


def ids(cursor):
    return [d["_id"] for d in cursor]


def test_a_capped_collection_keeps_its_last_documents_in_the_order_of_insertion(db):
    db.create_collection("log", capped=True, size=4000, max=10)
    assert db.log.options() == {"capped": True, "size": 4096, "max": 10}
    db.log.create_index("n")
    for i in reversed(range(30)):
        db.log.insert_one({"_id": i, "n": i % 3})
    assert ids(db.log.find()) == list(range(9, -1, -1))
    assert ids(db.log.find({"n": 0})) == [9, 6, 3, 0] and db.log.count_documents({}) == 10
    assert ids(db.log.find().sort("$natural", -1)) == list(range(10))
    db.log.insert_many([{"_id": 100 + i} for i in range(25)])
    assert ids(db.log.find()) == list(range(115, 125))
    assert db.log.delete_one({"_id": 120}).deleted_count == 1
    assert db.log.update_one({"_id": 121}, {"$set": {"long": "x" * 50}}).modified_count == 1
    stats = next(db.log.aggregate([{"$collStats": {"storageStats": {}}}]))["storageStats"]
    assert (stats["capped"], stats["max"], stats["maxSize"]) == (True, 10, 4096)
    stats = db.command("collStats", "log", scale=1024)
    assert (stats["capped"], stats["max"], stats["maxSize"]) == (True, 10, 4)
    db.create_collection("by_size", capped=True, size=4096)
    assert db.command("collStats", "by_size")["max"] == 0
    db.plain.insert_one({})
    assert not {"max", "maxSize"} & db.command("collStats", "plain").keys()
    assert code(db.log.insert_one, {"x": "y" * 5000}) == 2


def test_a_capped_collection_keeps_to_its_size(db):
    db.create_collection("log", capped=True, size=10_000)
    for i in range(300):
        db.log.insert_one({"_id": i, "x": "y" * (i % 90 + 30)})
    sizes = [d["size"] for d in db.log.aggregate([{"$project": {"size": {"$bsonSize": "$$ROOT"}}}])]
    assert 9_900 < sum(sizes) <= 10_240
    assert ids(db.log.find())[-1] == 299 and ids(db.log.find())[0] == 300 - len(sizes)
    db.command({"collMod": "log", "cappedMax": 5})
    assert ids(db.log.find()) == [295, 296, 297, 298, 299]
    db.command({"collMod": "log", "cappedSize": 256})
    assert db.log.count_documents({}) < 5 and db.log.options() == {"capped": True, "max": 5, "size": 256}


def test_limits_survive_a_restart(tmp_path):
    server = Server(tmp_path)
    with server.client() as client:
        client.shop.create_collection("log", capped=True, size=1 << 20, max=7)
        client.shop.log.insert_many([{"_id": i} for i in range(20)])
    assert server.stop() == 0
    server = Server(tmp_path)
    with server.client() as client:
        client.shop.log.insert_one({"_id": 20})
        assert ids(client.shop.log.find()) == list(range(14, 21))
        client.shop.log.rename("renamed")
        client.shop.renamed.insert_one({"_id": 21})
        assert ids(client.shop.renamed.find()) == list(range(15, 22))
        client.shop.renamed.drop()
        client.shop.create_collection("renamed", capped=True, size=100)
    assert server.stop() == 0


def test_capped_options_that_cannot_be(db):
    create = lambda **options: db.command({"create": "c", **options})
    for options, expected in [
        ({"capped": True}, 72), ({"size": 100}, 72), ({"max": 100}, 72), ({"capped": True, "size": 0}, 2),
        ({"capped": True, "size": 1 << 51}, 2), ({"capped": True, "size": 100, "max": 1 << 31}, 2),
        ({"capped": True, "size": "x"}, 14), ({"capped": True, "size": 100, "clusteredIndex": {"key": {"_id": 1}, "unique": True}}, 72),
        ({"capped": "x"}, 14),
    ]:
        assert code(create, **options) == expected, options
    db.plain.insert_one({})
    assert code(db.command, {"collMod": "plain", "cappedMax": 5}) == 72
    assert db.list_collection_names() == ["plain"]


def test_a_collection_is_made_capped(db):
    db.c.insert_many([{"_id": i, "n": -i} for i in range(100)])
    db.c.create_index("n", unique=True)
    db.command({"convertToCapped": "c", "size": 1000})
    assert db.c.options() == {"capped": True, "size": 1024}
    kept = ids(db.c.find())
    assert kept == list(range(100 - len(kept), 100)) and 10 < len(kept) < 60
    assert db.c.find_one({"n": -99}) == {"_id": 99, "n": -99}
    db.c.insert_one({"_id": 1000, "n": 1})
    assert ids(db.c.find())[-1] == 1000 and db.c.find_one({"_id": kept[0]}) is None
    assert code(db.command, {"convertToCapped": "none", "size": 1000}) == 26
    assert code(db.command, {"convertToCapped": "c"}) == 40414
    assert code(db.command, {"convertToCapped": "c", "size": 0}) == 2


def test_a_tailable_cursor_sees_what_comes_later(db):
    db.create_collection("log", capped=True, size=100_000)
    db.log.insert_many([{"_id": i, "even": i % 2 == 0} for i in range(5)])
    cursor = db.log.find({"even": True}, cursor_type=CursorType.TAILABLE, batch_size=2)
    assert [next(cursor)["_id"] for _ in range(3)] == [0, 2, 4]
    assert next(cursor, None) is None and cursor.alive
    db.log.insert_many([{"_id": i, "even": i % 2 == 0} for i in range(5, 9)])
    assert [next(cursor)["_id"] for _ in range(2)] == [6, 8]
    cursor.close()
    two = db.log.find({}, {"_id": 1}, cursor_type=CursorType.TAILABLE, limit=2, skip=1)
    assert ids(two) == [1, 2] and not two.alive


def test_a_cursor_that_awaits_data_waits_for_it(db):
    db.create_collection("log", capped=True, size=100_000)
    db.log.insert_one({"_id": 0})
    cursor = db.log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(4000)
    assert next(cursor) == {"_id": 0}
    threading.Timer(0.3, lambda: db.log.insert_one({"_id": 1})).start()
    begun = time.monotonic()
    assert next(cursor) == {"_id": 1}
    assert 0.1 < time.monotonic() - begun < 3.5
    cursor.close()
    short = db.log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(200)
    assert ids([next(short), next(short)]) == [0, 1]
    begun = time.monotonic()
    assert next(short, None) is None and short.alive
    assert 0.15 < time.monotonic() - begun < 2


def test_a_tailable_cursor_that_is_overtaken_or_whose_collection_goes_fails(db):
    db.create_collection("log", capped=True, size=100_000, max=5)
    db.log.insert_many([{"_id": i} for i in range(5)])
    cursor = db.log.find(cursor_type=CursorType.TAILABLE, batch_size=5)
    assert len([next(cursor) for _ in range(5)]) == 5
    db.log.insert_many([{"_id": i} for i in range(5, 20)])
    with pytest.raises(OperationFailure) as lost:
        db.command({"getMore": cursor.cursor_id, "collection": "log"})
    assert lost.value.code == 136 and lost.value.details["codeName"] == "CappedPositionLost"
    other = db.log.find(cursor_type=CursorType.TAILABLE)
    assert len([next(other) for _ in range(5)]) == 5
    db.log.drop()
    assert code(db.command, {"getMore": other.cursor_id, "collection": "log"}) == 175


def test_tailable_cursors_that_cannot_be(db):
    db.plain.insert_one({})
    db.create_collection("log", capped=True, size=1000)
    find = lambda name, **more: db.command({"find": name, **more})
    assert code(find, "plain", tailable=True) == 2
    assert code(find, "log", awaitData=True) == 9
    assert code(find, "log", tailable=True, singleBatch=True) == 9
    assert code(find, "log", tailable=True, sort={"n": 1}) == 2
    assert code(find, "log", tailable=True, sort={"$natural": -1}) == 2
    assert find("log", tailable=True)["cursor"]["id"] == 0, "nothing there"
    assert find("none", tailable=True)["cursor"]["id"] == 0


def test_capped_collections_are_not_written_in_transactions(client, db):
    db.create_collection("log", capped=True, size=1000)
    with client.start_session() as session:
        session.start_transaction()
        assert code(db.log.insert_one, {}, session=session) == 263
        session.abort_transaction()
        session.start_transaction()
        assert code(db.command, {"create": "other", "capped": True, "size": 100}, session=session) == 263
        session.abort_transaction()


def test_a_clustered_collection_lists_its_index_and_expires(db):
    db.create_collection("c", clusteredIndex={"key": {"_id": 1}, "unique": True, "name": "by time"}, expireAfterSeconds=3600)
    assert db.c.options() == {"clusteredIndex": {"v": 2, "key": {"_id": 1}, "name": "by time", "unique": True}, "expireAfterSeconds": 3600}
    listed = db.c.index_information()["by time"]
    assert listed["clustered"] is True and listed["unique"] is True
    db.c.insert_one({"_id": datetime.datetime(2020, 1, 1)})
    assert db.c.count_documents({"_id": datetime.datetime(2020, 1, 1)}) == 1
    for index, expected in [({"key": {"a": 1}, "unique": True}, 197), ({"key": {"_id": 1}}, 2), ({"key": {"_id": 1}, "unique": True, "x": 1}, 40415), (5, 14)]:
        assert code(db.command, {"create": "d", "clusteredIndex": index}) == expected, index
    assert code(db.command, {"create": "d", "expireAfterSeconds": 5}) == 72


def test_a_time_series_wants_the_date_of_each_document(db):
    series = {"timeField": "t", "metaField": "m"}
    db.create_collection("s", timeseries={**series, "granularity": "minutes"}, expireAfterSeconds=86400)
    listed = next(db.list_collections())
    assert listed["type"] == "timeseries"
    assert listed["options"] == {"timeseries": {**series, "granularity": "minutes", "bucketMaxSpanSeconds": 86400}, "expireAfterSeconds": 86400}
    now = datetime.datetime(2026, 1, 1)
    db.s.insert_many([{"t": now + datetime.timedelta(minutes=i), "m": {"sensor": i % 3}, "v": i} for i in range(60)])
    for bad in [{}, {"t": 5}, {"t": "2020-01-01"}, {"t": None}]:
        assert code(db.s.insert_one, bad) == 2, bad
    found = list(db.s.aggregate([{"$match": {"m.sensor": 1}}, {"$group": {"_id": "$m.sensor", "n": {"$sum": 1}, "last": {"$max": "$v"}}}]))
    assert found == [{"_id": 1, "n": 20, "last": 58}]
    assert isinstance(db.s.find_one()["_id"], ObjectId)
    assert set(db.s.index_information()) == {"_id_", "m_1_t_1", "t_1"}
    for options, expected in [
        ({}, 40414), ({"timeField": 5}, 14), ({"timeField": "_id"}, 72), ({"timeField": "t", "metaField": "t"}, 72),
        ({"timeField": "t", "granularity": "years"}, 2), ({"timeField": "t", "no": 1}, 40415),
        ({"timeField": "t", "bucketMaxSpanSeconds": 60}, 72),
        ({"timeField": "t", "granularity": "minutes", "bucketMaxSpanSeconds": 3600}, 72),
        ({"timeField": "t", "granularity": "minutes", "bucketRoundingSeconds": 60}, 72),
    ]:
        assert code(db.command, {"create": "x", "timeseries": options}) == expected, options
    db.create_collection("y", timeseries={"timeField": "t", "bucketMaxSpanSeconds": 60, "bucketRoundingSeconds": 60})
    assert db.y.options()["timeseries"]["bucketMaxSpanSeconds"] == 60


@pytest.mark.parametrize("granularity, span, rounding", [("seconds", 3600, 60), ("minutes", 86_400, 3600), ("hours", 2_592_000, 86_400)])
def test_a_granularity_may_be_told_with_the_seconds_that_it_means(client, db, granularity, span, rounding):
    listed = {"timeField": "t", "granularity": granularity, "bucketMaxSpanSeconds": span}
    for name, given in [("a", listed), ("b", {**listed, "bucketRoundingSeconds": rounding})]:
        db.create_collection(name, timeseries=given)
        assert db[name].options()["timeseries"] == listed
        db.command("collMod", name, timeseries={"granularity": granularity, "bucketMaxSpanSeconds": span})
        db.command("collMod", name, timeseries={"bucketMaxSpanSeconds": span, "bucketRoundingSeconds": rounding})
        assert db[name].options()["timeseries"] == listed
    # What is listed, and what the oplog has, creates the same collection.
    db.create_collection("again", **db.a.options())
    client.admin.command("applyOps", [{"op": "c", "ns": f"{db.name}.$cmd", "o": {"create": "applied", "timeseries": listed}}])
    assert db.again.options() == db.applied.options() == db.a.options()
    assert code(db.command, "collMod", "a", timeseries={"granularity": granularity, "bucketMaxSpanSeconds": span + 1}) == 72


def test_when_the_documents_of_a_time_series_expire_is_changed(db):
    def expiries():
        return [index["expireAfterSeconds"] for index in db.s.list_indexes() if "expireAfterSeconds" in index]

    now = datetime.datetime.now(datetime.timezone.utc)
    db.create_collection("s", timeseries={"timeField": "t", "metaField": "m"}, expireAfterSeconds=3600)
    db.s.insert_many([{"t": now, "m": i} for i in range(3)])
    assert expiries() == [3600]
    db.command("collMod", "s", expireAfterSeconds=7200)
    assert db.s.options()["expireAfterSeconds"] == 7200 and expiries() == [7200]
    db.command("collMod", "s", expireAfterSeconds="off")
    assert "expireAfterSeconds" not in db.s.options() and expiries() == []
    db.command("collMod", "s", expireAfterSeconds=60)
    assert db.s.options()["expireAfterSeconds"] == 60 and expiries() == [60]
    # One that was created without.
    db.create_collection("late", timeseries={"timeField": "t"})
    db.late.insert_one({"t": now})
    db.command("collMod", "late", expireAfterSeconds=5)
    assert [index.get("expireAfterSeconds") for index in db.late.list_indexes()] == [None, 5]
    db.create_collection("c", clusteredIndex={"key": {"_id": 1}, "unique": True}, expireAfterSeconds=3600)
    db.command("collMod", "c", expireAfterSeconds=1800)
    assert db.c.options()["expireAfterSeconds"] == 1800
    db.plain.insert_one({})
    assert code(db.command, "collMod", "plain", expireAfterSeconds=5) == 72
    for wrong, expected in [(-1, 67), ("soon", 14), (1 << 40, 67)]:
        assert code(db.command, "collMod", "s", expireAfterSeconds=wrong) == expected, wrong
    assert expiries() == [60] and db.s.count_documents({}) == 3


def test_changes_of_a_collection_are_made_together_or_not_at_all(db):
    db.create_collection("s", timeseries={"timeField": "t"}, expireAfterSeconds=3600)
    db.create_collection("plain")
    db.plain.create_index("n")
    db.command("create", "view", viewOn="plain", pipeline=[])
    before = {name: (db[name].options(), list(db[name].list_indexes())) for name in ("s", "plain")}
    for collection, changes, expected in [
        ("plain", {"validator": {"n": {"$gt": 0}}, "cappedSize": 4096}, 72),
        ("plain", {"validator": {"n": {"$gt": 0}}, "index": {"name": "no", "hidden": True}}, 27),
        ("plain", {"validationLevel": "moderate", "expireAfterSeconds": 5}, 72),
        ("s", {"timeseries": {"granularity": "hours"}, "index": {"keyPattern": {"no": 1}, "hidden": True}}, 27),
        ("s", {"expireAfterSeconds": 10, "index": {"name": "t_1", "expireAfterSeconds": -1}}, 67),
        ("s", {"expireAfterSeconds": "off", "cappedMax": 5}, 72),
        ("view", {"viewOn": "s", "pipeline": [], "cappedMax": 5}, 72),
    ]:
        assert code(db.command, {"collMod": collection, **changes}) == expected, changes
        assert {name: (db[name].options(), list(db[name].list_indexes())) for name in ("s", "plain")} == before, changes
    assert db.view.options()["viewOn"] == "plain"
    reply = db.command({"collMod": "plain", "validator": {"n": {"$gt": 0}}, "index": {"keyPattern": {"n": 1}, "hidden": True}})
    assert reply["hidden_new"] is True and db.plain.options()["validator"] == {"n": {"$gt": 0}}


def test_the_option_and_the_index_by_which_a_time_series_expires_say_the_same(db):
    def listed():
        return db.s.options().get("expireAfterSeconds"), [index["expireAfterSeconds"] for index in db.s.list_indexes() if "expireAfterSeconds" in index]

    db.create_collection("s", timeseries={"timeField": "t", "metaField": "m"})
    # As in MongoDB, an index cannot say when all documents expire.
    for keys, options in [("t", {}), ("m.at", {}), ("t", {"partialFilterExpression": {"n": 1}})]:
        assert code(db.s.create_index, keys, expireAfterSeconds=60, **options) == 72
    assert listed() == (None, [])
    db.s.create_index("t", name="some", expireAfterSeconds=60, partialFilterExpression={"m.kind": "short"})
    assert listed() == (None, [60])
    db.s.drop_index("some")
    db.s.create_index("t")
    assert code(db.command, "collMod", "s", index={"name": "m_1_t_1", "expireAfterSeconds": 5}) in (67, 72)
    db.command("collMod", "s", index={"name": "t_1", "expireAfterSeconds": 90})
    assert listed() == (90, [90])
    # What a dump has restored.
    db.s.create_index("t", expireAfterSeconds=90)
    db.command("collMod", "s", expireAfterSeconds=30)
    assert listed() == (30, [30])
    db.s.drop_index("t_1")
    assert listed() == (None, [])


def test_the_buckets_of_a_time_series_become_longer_only(db):
    series = {"timeField": "t", "metaField": "m"}
    db.create_collection("s", timeseries=series)
    db.command("collMod", "s", timeseries={"granularity": "minutes"})
    assert db.s.options()["timeseries"] == {**series, "granularity": "minutes", "bucketMaxSpanSeconds": 86400}
    own = {"bucketMaxSpanSeconds": 100_000, "bucketRoundingSeconds": 100_000}
    db.command("collMod", "s", timeseries=own)
    assert db.s.options()["timeseries"] == {**series, **own}
    db.command("collMod", "s", timeseries={"granularity": "hours"})
    for changes, expected in [({"granularity": "seconds"}, 72), ({"granularity": "days"}, 2), ({}, 72), ({"timeField": "x"}, 40415),
                              ({"bucketMaxSpanSeconds": 5_000_000}, 72)]:
        assert code(db.command, "collMod", "s", timeseries=changes) == expected, changes
    db.plain.insert_one({})
    assert code(db.command, "collMod", "plain", timeseries={"granularity": "hours"}) == 72
