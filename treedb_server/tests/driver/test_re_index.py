"""`reIndex`: the indexes of a collection are built anew."""
import datetime
import threading

import pymongo
import pytest

import server as servers
from failures import code


def test_indexes_are_built_anew_while_others_read_and_write(db):
    db.c.insert_many([{"_id": i, "n": i % 100, "tags": [i % 7, i % 11]} for i in range(20_000)])
    db.c.create_index("n")
    db.c.create_index([("tags", 1), ("n", -1)], name="both", partialFilterExpression={"n": {"$gte": 50}})
    before = list(db.c.list_indexes())
    uses = {index["name"]: index["accesses"]["since"] for index in db.c.aggregate([{"$indexStats": {}}])}
    stop, wrong, written = threading.Event(), [], []

    def write():
        while not stop.is_set():
            number = 20_000 + len(written)
            db.c.insert_one({"_id": number, "n": 7, "tags": [1]})
            written.append(number)
            if db.c.count_documents({"n": 7}, hint="n_1") != 200 + len(written):
                wrong.append(number)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            done = db.command("reIndex", "c")
            assert (done["nIndexesWas"], done["nIndexes"]) == (3, 3)
            assert [dict(index) for index in done["indexes"]] == [dict(index) for index in before]
    finally:
        stop.set()
        writer.join()
    assert written and not wrong
    assert [dict(index) for index in db.c.list_indexes()] == [dict(index) for index in before]
    # They are others, though they look alike.
    for index in db.c.aggregate([{"$indexStats": {}}]):
        assert index["accesses"]["since"] > uses[index["name"]]
    checked = db.command("validate", "c", full=True)
    assert checked["valid"] and checked["keysPerIndex"]["n_1"] == 20_000 + len(written)
    assert db.c.count_documents({"tags": 3, "n": {"$gte": 50}}, hint="both") == sum(
        1 for i in range(20_000) if i % 100 >= 50 and 3 in (i % 7, i % 11))
    # A unique index is one all the time.
    with pytest.raises(pymongo.errors.DuplicateKeyError):
        db.c.insert_one({"_id": 5})


@pytest.mark.parametrize("options", [
    {"capped": True, "size": 1 << 20}, {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}, {"collation": {"locale": "en", "strength": 2}},
    {"timeseries": {"timeField": "at"}, "expireAfterSeconds": 1 << 30},
], ids=lambda options: next(iter(options)))
def test_collections_of_all_kinds_keep_their_documents_and_their_order(db, options):
    c = db.create_collection("c", **options)
    at = datetime.datetime(2026, 1, 1)
    c.insert_many([{"_id": f"{i % 7}-{i}", "at": at + datetime.timedelta(hours=i), "word": "aAbB"[i % 4], "place": [i % 50, i % 40]} for i in range(500)])
    c.create_index("word")
    c.create_index([("place", "2d")], collation={"locale": "simple"})
    if "collation" not in options:
        c.create_index([("word", "hashed")])
    if "timeseries" not in options:
        c.create_index("$**", wildcardProjection={"place": 0})
    search = {"name": "near", "type": "vectorSearch", "definition": {
        "fields": [{"type": "vector", "path": "place", "numDimensions": 2, "similarity": "euclidean"}]}}
    vectors = "timeseries" not in options and "capped" not in options
    if vectors:
        db.command("createSearchIndexes", "c", indexes=[search])

    def seen():
        return (list(c.find()), list(c.find({"word": "a"}, hint="word_1")), list(c.find().sort("_id", 1)), [dict(index) for index in c.list_indexes()],
                list(c.find({"place": {"$near": [3, 3]}}).limit(5)), [(index["name"], index["id"]) for index in c.list_search_indexes()] if vectors else None)

    before = seen()
    done = db.command("reIndex", "c")
    assert done["nIndexes"] == done["nIndexesWas"] == len(before[3])
    assert seen() == before
    assert db.command("validate", "c", full=True)["valid"]


def test_no_event_tells_of_indexes_that_are_built_anew(db):
    db.c.insert_one({"a": 1})
    db.c.create_index("a")
    with db.c.watch(show_expanded_events=True) as changes:
        db.command("reIndex", "c")
        db.c.insert_one({"a": 2})
        assert next(changes)["operationType"] == "insert"


def test_what_cannot_be_indexed_anew_is_refused(db, tmp_path):
    db.c.insert_one({"a": 1})
    db.create_collection("view", viewOn="c")
    assert code(db.command, "reIndex", "nothing") == 26
    assert code(db.command, "reIndex", "view") == 166
    assert code(db.command, "reIndex", 1) == 73
    assert code(db.command, "reIndex", "c", force=True) == 40415
    server = servers.Server(tmp_path / "member", "--replica-set", "rs0")
    try:
        with server.client() as member:
            member.shop.c.insert_one({"a": 1})
            with pytest.raises(pymongo.errors.OperationFailure, match="only allowed on a standalone") as refused:
                member.shop.command("reIndex", "c")
            assert refused.value.code == 20
    finally:
        assert server.stop() == 0
