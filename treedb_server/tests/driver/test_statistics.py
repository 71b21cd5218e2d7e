"""Sizes, checks and use of collections: what dbStats, collStats, dataSize, validate, compact, listDatabases and the stages say."""
import bson
import pytest

from failures import code


def test_collection_sizes_are_those_of_the_documents_as_bson(db, films):
    bytes_ = sum(len(bson.encode(film)) for film in films.find())
    stats = db.command("collStats", "films")
    assert (stats["ns"], stats["count"], stats["size"]) == (f"{db.name}.films", 12, bytes_)
    assert stats["avgObjSize"] == bytes_ // 12 and stats["sizeIsEstimated"] is False
    assert stats["nindexes"] == 1 and set(stats["indexSizes"]) == {"_id_"}
    assert stats["totalSize"] == stats["storageSize"] + stats["totalIndexSize"] > 0
    assert db.command("dataSize", f"{db.name}.films")["size"] == bytes_
    assert db.command("dataSize", f"{db.name}.films")["numObjects"] == 12
    assert db.command("collStats", "films", scale=1024)["size"] == bytes_ // 1024
    assert db.command("collStats", "films", scale=1024)["scaleFactor"] == 1024


def test_the_size_of_many_documents_is_estimated_and_says_so(db):
    db.many.insert_many([{"_id": i, "text": "x" * (100 + i % 50)} for i in range(8_000)])
    stats = db.command("collStats", "many")
    exact = db.command("dataSize", f"{db.name}.many")
    assert stats["count"] == exact["numObjects"] == 8_000 and stats["sizeIsEstimated"] is True
    assert abs(stats["size"] - exact["size"]) < exact["size"] * 0.05
    estimate = db.command("dataSize", f"{db.name}.many", estimate=True)
    assert estimate["estimate"] is True and estimate["size"] == stats["size"]


def test_values_too_long_for_a_page_count_on_disk(db):
    db.long.insert_many([{"_id": i, "text": "".join(chr(33 + (i * j) % 90) for j in range(50_000))} for i in range(10)])
    assert db.command("collStats", "long")["storageSize"] > 10 * 50_000


def test_database_sizes_are_the_sum_of_its_collections(db, films):
    db.other.insert_one({"a": 1})
    db.other.create_index("a")
    parts = [db.command("collStats", name) for name in ("films", "other")]
    stats = db.command("dbStats")
    assert (stats["db"], stats["collections"], stats["objects"], stats["indexes"]) == (db.name, 2, 13, 3)
    for whole, part in [("dataSize", "size"), ("storageSize", "storageSize"), ("indexSize", "totalIndexSize"),
                        ("totalSize", "totalSize")]:
        assert stats[whole] == sum(each[part] for each in parts)
    assert stats["fsTotalSize"] > stats["fsUsedSize"] > 0
    assert db.client["nothing-here"].command("dbStats")["objects"] == 0


def test_sizes_are_divided_by_the_scale_as_in_mongodb(db, films):
    whole = db.command("dbStats")
    stats = db.command("dbStats", scale=1000)
    for size in ("dataSize", "storageSize", "indexSize", "totalSize", "fsTotalSize"):
        assert isinstance(stats[size], float) and stats[size] == whole[size] / 1000
    assert (stats["scaleFactor"], stats["avgObjSize"]) == (1000, whole["avgObjSize"])
    whole, stats = (db.command("collStats", "films", scale=scale) for scale in (1, 1000))
    for size in ("size", "storageSize", "freeStorageSize", "totalIndexSize", "totalSize"):
        assert isinstance(stats[size], int) and stats[size] == whole[size] // 1000
    assert (stats["scaleFactor"], stats["avgObjSize"]) == (1000, whole["avgObjSize"])
    assert not isinstance(stats["scaleFactor"], float)


def test_free_storage_is_shown_if_it_is_asked_for(db, films):
    free = {"freeStorageSize", "indexFreeStorageSize", "totalFreeStorageSize"}
    assert not free & set(db.command("dbStats")) and not free & set(db.command("dbStats", freeStorage=0))
    stats = db.command("dbStats", freeStorage=1, scale=1024)
    assert {name: stats[name] for name in free} == dict.fromkeys(free, 0.0)
    assert db.command("collStats", "films")["freeStorageSize"] == db.command("collStats", "none")["freeStorageSize"] == 0
    found, = films.aggregate([{"$collStats": {"storageStats": {}}}])
    assert found["storageStats"]["freeStorageSize"] == 0


def test_views_have_no_size_and_are_counted_beside_collections(client, db, films):
    alone = db.command("dbStats")
    db.create_collection("late", viewOn="films", pipeline=[{"$match": {"year": {"$gt": 1991}}}])
    stats = db.command("dbStats")
    assert (stats["collections"], stats["views"], stats["objects"]) == (alone["collections"], 1, 12)
    assert stats["totalSize"] == alone["totalSize"]
    assert db.name in [each["name"] for each in client.list_databases()]
    assert f"{db.name}.films" in client.admin.command("top")["totals"]


def test_listed_databases_have_the_size_of_their_pages(db, films):
    listed = {each["name"]: each for each in db.client.admin.command("listDatabases")["databases"]}
    assert listed[db.name]["sizeOnDisk"] == db.command("dbStats")["totalSize"] > 0


def test_a_collection_that_does_not_exist_has_no_sizes_and_cannot_be_checked(db):
    stats = db.command("collStats", "none")
    assert (stats["count"], stats["size"], stats["totalIndexSize"]) == (0, 0, 0)
    assert db.command("dataSize", f"{db.name}.none")["size"] == 0
    assert code(lambda: db.command("validate", "none")) == 26
    assert code(lambda: db.command("compact", "none")) == 26
    assert code(lambda: list(db.none.aggregate([{"$collStats": {"storageStats": {}}}]))) == 26
    assert code(lambda: list(db.none.aggregate([{"$collStats": {"latencyStats": {}}}]))) == 26


def test_the_documents_between_two_keys_are_measured(films):
    db, name = films.database, films.full_name
    films.create_index([("year", 1), ("_id", -1)])
    films.create_index("cast")

    def measured(**options):
        reply = db.command("dataSize", name, **options)
        return reply["numObjects"], reply["size"]

    def those(found):
        return len(found), sum(len(bson.encode(document)) for document in found)

    assert measured(min={"_id": 3}, max={"_id": 7}) == those(list(films.find({"_id": {"$gte": 3, "$lt": 7}})))
    # A document is counted once, however many of its elements are between them.
    assert measured(keyPattern={"cast": 1}, min={"cast": "p3"}, max={"cast": "p5"}) == those(list(films.find({"_id": {"$in": [2, 3, 4]}})))
    keys = {"min": {"year": 1991, "_id": bson.MaxKey()}, "max": {"year": 1993, "_id": bson.MaxKey()}}
    assert measured(keyPattern={"year": 1, "_id": -1}, **keys) == those(list(films.find({"year": {"$in": [1991, 1992]}})))
    for options, expected in [({"max": {"_id": 1}}, 2), ({"keyPattern": {"no": 1}, "min": {"no": 1}, "max": {"no": 2}}, 96)]:
        assert code(measured, **options) == expected


@pytest.mark.parametrize("command, expected", [
    ({"collStats": "c", "scale": 0}, 51024),
    ({"collStats": "c", "scale": "x"}, 14),
    ({"collStats": 1}, 73),
    ({"dbStats": 1, "scale": -1}, 51024),
    ({"dataSize": 1}, 73),
    ({"dataSize": "c"}, 73),
    ({"dataSize": "elsewhere.c"}, 73),
    ({"dataSize": "DB.c", "min": {"a": 1}}, 2),
    ({"validate": "c", "repair": True}, 238),
    ({"validate": 1}, 73),
    ({"compact": "c", "freeSpaceTargetMB": 5}, 238),
])
def test_statistics_refuse_bad_arguments(db, command, expected):
    name = next(iter(command))
    value = command[name]
    plain = {**command, name: value.replace("DB", db.name) if isinstance(value, str) else value}
    assert code(lambda: db.command(plain)) == expected


@pytest.mark.parametrize("stage, expected", [
    ({"storageStats": 1}, 14),
    ({"count": 1}, 14),
    ({"storageStats": {"scale": 0}}, 2),
    ({"storageStats": {"nonsense": 1}}, 40415),
    ({"latencyStats": {"nonsense": 1}}, 40415),
    ({"nonsense": {}}, 40415),
])
def test_the_stage_refuses_bad_operands(films, stage, expected):
    assert code(lambda: list(films.aggregate([{"$collStats": stage}]))) == expected


def test_the_stage_says_what_it_is_asked_for(db, films):
    found, = films.aggregate([{"$collStats": {"count": {}, "storageStats": {"scale": 2}}}])
    assert found["ns"] == films.full_name and found["count"] == 12
    assert found["storageStats"]["size"] == db.command("collStats", "films", scale=2)["size"]
    assert "storageStats" not in next(films.aggregate([{"$collStats": {"count": {}}}]))
    films.find_one()
    found, = films.aggregate([{"$collStats": {"latencyStats": {"histograms": True}, "count": {}}}, {"$unset": "host"}])
    assert found["latencyStats"]["reads"]["ops"] >= 1 and found["latencyStats"]["writes"]["ops"] == 1
    assert sum(each["count"] for each in found["latencyStats"]["writes"]["histogram"]) == 1
    assert found["count"] == 12 and "host" not in found


def uses(collection):
    return {each["name"]: each["accesses"]["ops"] for each in collection.aggregate([{"$indexStats": {}}])}


def test_each_use_of_an_index_is_counted_once(films):
    films.create_index("year")
    films.create_index("title", unique=True)
    assert uses(films) == {"_id_": 0, "year_1": 0, "title_1": 0}
    list(films.find({"year": 1991}).batch_size(1))
    list(films.find({"year": {"$gt": 1991}}).sort("year", 1))
    films.count_documents({"year": 1992})
    films.find_one({"title": "film 01"})
    films.find_one({"_id": 3})
    films.update_one({"_id": 3}, {"$set": {"x": 1}})
    films.find_one({"rating.stars": 1})
    assert uses(films) == {"_id_": 2, "year_1": 3, "title_1": 1}
    # The catalog changes: counts stay, those of an index that is dropped and created again begin anew.
    films.drop_index("year_1")
    films.create_index("year")
    assert uses(films) == {"_id_": 2, "year_1": 0, "title_1": 1}
    list(films.aggregate([{"$limit": 1}, {"$lookup": {
        "from": "films", "localField": "year", "foreignField": "year", "as": "same"}}]))
    assert uses(films)["year_1"] >= 1
    assert uses(films.database.none) == {}


def test_validate_checks_documents_and_index_entries(db, films):
    films.create_index("cast")
    for full in (False, True):
        found = db.validate_collection("films", full=full)
        assert found["valid"] is True and found["errors"] == [] and found["nrecords"] == 12
        assert found["keysPerIndex"] == {"_id_": 12, "cast_1": 24} and found["nIndexes"] == 2
        assert found["indexDetails"]["cast_1"]["valid"] is True
    metadata = db.command("validate", "films", metadata=True)
    assert metadata["valid"] is True and "nrecords" not in metadata


def test_compact_returns_what_dropped_collections_took(db):
    db.kept.insert_one({"_id": 1})
    db.dropped.insert_many([{"_id": i, "x": "y" * 1_000} for i in range(5_000)])
    db.client.admin.command("fsync")
    db.dropped.drop()
    assert db.command("compact", "kept", dryRun=True)["estimatedBytesFreed"] >= 0
    assert db.command("compact", "kept")["bytesFreed"] > 0
    assert db.kept.find_one() == {"_id": 1}
