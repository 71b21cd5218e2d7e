"""Results of more than one message."""
import pytest
from bson.int64 import Int64
from pymongo.errors import CursorNotFound, OperationFailure

from failures import code
from wire import Wire


@pytest.fixture
def thousand(db):
    db.c.insert_many([{"_id": i} for i in range(1000)])
    return db.c


def test_batches_add_up_to_the_result(thousand):
    for batch in (0, 1, 2, 7, 100, 101, 999, 1000, 1001):
        found = [d["_id"] for d in thousand.find().sort("_id", 1).batch_size(batch)]
        assert found == list(range(1000)), batch


def test_the_first_batch_has_101_documents_and_a_cursor(thousand):
    reply = thousand.database.command({"find": "c"})["cursor"]
    assert len(reply["firstBatch"]) == 101 and reply["id"] != 0
    assert reply["ns"] == thousand.full_name
    more = thousand.database.command({"getMore": reply["id"], "collection": "c"})["cursor"]
    assert len(more["nextBatch"]) == 899 and more["id"] == 0


def test_batch_size_zero_opens_a_cursor_and_returns_nothing(thousand):
    reply = thousand.database.command({"find": "c", "batchSize": 0})["cursor"]
    assert reply["firstBatch"] == [] and reply["id"] != 0
    more = thousand.database.command({"getMore": reply["id"], "collection": "c", "batchSize": 10})["cursor"]
    assert len(more["nextBatch"]) == 10 and more["id"] == reply["id"]


def test_only_a_cursor_that_waits_for_documents_takes_a_time_limit(thousand):
    db = thousand.database
    db.create_collection("log", capped=True, size=4096)
    db.log.insert_many([{"_id": i} for i in range(3)])

    def more(collection, cursor):
        return db.command({"getMore": cursor["id"], "collection": collection, "maxTimeMS": 50}, check=False)

    plain = db.command({"find": "c", "batchSize": 2})["cursor"]
    pipeline = db.command({"aggregate": "c", "pipeline": [], "cursor": {"batchSize": 2}})["cursor"]
    tail = db.command({"find": "log", "tailable": True, "batchSize": 2})["cursor"]
    for collection, cursor in [("c", plain), ("c", pipeline), ("log", tail)]:
        reply = more(collection, cursor)
        assert (reply["ok"], reply["code"]) == (0, 2) and "awaitData" in reply["errmsg"]
        # The cursor is still there.
        assert db.command({"getMore": cursor["id"], "collection": collection, "batchSize": 2})["cursor"]["nextBatch"]
    waiting = db.command({"find": "log", "tailable": True, "awaitData": True})["cursor"]
    assert more("log", waiting)["cursor"]["nextBatch"] == []
    changes = db.command({"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}})["cursor"]
    assert more("c", changes)["ok"] == 1


def test_a_single_batch_has_no_cursor(thousand):
    reply = thousand.database.command({"find": "c", "batchSize": 5, "singleBatch": True})["cursor"]
    assert len(reply["firstBatch"]) == 5 and reply["id"] == 0
    reply = thousand.database.command({"find": "c", "limit": 5, "batchSize": 5})["cursor"]
    assert len(reply["firstBatch"]) == 5 and reply["id"] == 0


def test_a_cursor_sees_the_snapshot_it_was_opened_on(thousand):
    cursor = thousand.find().sort("_id", 1).batch_size(10)
    assert next(cursor)["_id"] == 0
    thousand.update_many({}, {"$set": {"changed": True}})
    thousand.delete_many({"_id": {"$gte": 500}})
    rest = list(cursor)
    assert len(rest) == 999 and not any("changed" in d for d in rest)
    assert thousand.count_documents({}) == 500


def test_a_cursor_outlives_its_collection(thousand):
    cursor = thousand.find().batch_size(10)
    next(cursor)
    thousand.drop()
    assert len(list(cursor)) == 999


def test_killed_cursors_are_gone(thousand):
    db = thousand.database
    cursor = thousand.find().batch_size(10)
    next(cursor)
    number = cursor.cursor_id
    assert isinstance(number, Int64)
    reply = db.command({"killCursors": "c", "cursors": [number, Int64(12345)]})
    assert reply["cursorsKilled"] == [number] and reply["cursorsNotFound"] == [12345]
    with pytest.raises(CursorNotFound):
        list(cursor)
    cursor = thousand.find().batch_size(10)
    next(cursor)
    number = cursor.cursor_id
    cursor.close()
    with pytest.raises(OperationFailure) as failure:
        db.command({"getMore": number, "collection": "c"})
    assert failure.value.code == 43


def test_a_cursor_answers_only_for_its_own_collection(thousand):
    db = thousand.database
    reply = db.command({"find": "c", "batchSize": 1})["cursor"]
    with pytest.raises(OperationFailure) as failure:
        db.command({"getMore": reply["id"], "collection": "other"})
    assert failure.value.code == 13
    assert db.command({"getMore": reply["id"], "collection": "c", "batchSize": 1})["cursor"]["id"] == reply["id"]


def test_batches_of_large_documents_stay_under_16_mib(db):
    db.c.insert_many([{"_id": i, "x": "y" * (3 << 20)} for i in range(12)])
    sizes = []
    reply = db.command({"find": "c"})["cursor"]
    batch = reply["firstBatch"]
    while True:
        sizes.append(len(batch))
        if not reply["id"]:
            break
        reply = db.command({"getMore": reply["id"], "collection": "c"})["cursor"]
        batch = reply["nextBatch"]
    assert sum(sizes) == 12 and max(sizes) == 5


def test_listings_are_cursors_too(db):
    for i in range(25):
        db.create_collection(f"c{i:02}")
    reply = db.command({"listCollections": 1, "cursor": {"batchSize": 10}})["cursor"]
    assert len(reply["firstBatch"]) == 10 and reply["ns"] == f"{db.name}.$cmd.listCollections"
    more = db.command({"getMore": reply["id"], "collection": "$cmd.listCollections"})["cursor"]
    assert len(more["nextBatch"]) == 15 and more["id"] == 0


def test_cursors_survive_the_connection_that_opened_them(server, thousand):
    # In no session: a client that is closed ends its own, and with them their cursors.
    name = thousand.database.name
    with Wire(server) as other:
        number = other.command({"find": "c", "batchSize": 1, "$db": name})["cursor"]["id"]
    with Wire(server) as wire:
        more = wire.command({"getMore": Int64(number), "collection": "c", "$db": name})["cursor"]
    assert len(more["nextBatch"]) == 999


def test_a_client_that_is_closed_takes_the_cursors_of_its_sessions_along(server, thousand):
    with server.client() as other:
        number = other[thousand.database.name].command({"find": "c", "batchSize": 1})["cursor"]["id"]
    assert code(thousand.database.command, {"getMore": number, "collection": "c"}) == 43
