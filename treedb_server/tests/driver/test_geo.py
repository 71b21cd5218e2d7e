"""Geospatial queries and indexes through the driver: what MongoDB's manual says of them, and answers against brute force."""
import math
import random
import time

import pytest
from pymongo import GEO2D, GEOSPHERE, IndexModel
from pymongo.errors import OperationFailure, WriteError

from failures import code

RADIUS = 6378100.0


def point(lng, lat):
    return {"type": "Point", "coordinates": [lng, lat]}


def square(lng, lat, size=1.0):
    far = [lng + size, lat + size]
    return {"type": "Polygon", "coordinates": [[[lng, lat], [far[0], lat], far, [lng, far[1]], [lng, lat]]]}


def metres(a, b):
    """The haversine formula."""
    (lng, lat), (to_lng, to_lat) = ([math.radians(each) for each in pair] for pair in (a, b))
    h = math.sin((to_lat - lat) / 2) ** 2 + math.cos(lat) * math.cos(to_lat) * math.sin((to_lng - lng) / 2) ** 2
    return 2 * RADIUS * math.asin(min(1.0, math.sqrt(h)))


CITIES = {"Paris": (2.3522, 48.8566), "London": (-0.1278, 51.5074), "Berlin": (13.405, 52.52), "Madrid": (-3.7038, 40.4168),
          "New York": (-74.006, 40.7128), "Suva": (178.4419, -18.1248), "Apia": (-171.7514, -13.8506)}


@pytest.fixture
def cities(db):
    db.c.insert_many([{"_id": name, "loc": point(*at), "size": len(name)} for name, at in CITIES.items()])
    db.c.create_index([("loc", GEOSPHERE)])
    return db.c


def test_the_index_is_listed_as_in_mongodb(db):
    db.c.create_indexes([IndexModel([("loc", GEOSPHERE)]), IndexModel([("kind", 1), ("loc", GEOSPHERE)], name="both"),
                         IndexModel([("flat", GEO2D)]), IndexModel([("flat", GEO2D), ("n", -1)], min=-10, max=10.5, bits=20)])
    listed = {index["name"]: index for index in db.c.list_indexes()}
    assert listed["loc_2dsphere"]["2dsphereIndexVersion"] == 3 and dict(listed["loc_2dsphere"]["key"]) == {"loc": "2dsphere"}
    assert dict(listed["both"]["key"]) == {"kind": 1, "loc": "2dsphere"}
    assert "bits" not in listed["flat_2d"]
    bounds = listed["flat_2d_n_-1"]
    assert (bounds["min"], bounds["max"], bounds["bits"]) == (-10, 10.5, 20)


@pytest.mark.parametrize("keys, options, expected", [
    ([("a", 1), ("b", "2d")], {}, 67), ([("a", "2d"), ("b", "2dsphere")], {}, 67), ([("a", "2dsphere")], {"unique": True}, 67),
    ([("a", "2dsphere")], {"expireAfterSeconds": 5}, 67), ([("a", "2d")], {"min": 5, "max": 5}, 72), ([("a", "2d")], {"bits": 99}, 72),
    ([("a", "2dsphere")], {"2dsphereIndexVersion": 9}, 67), ([("a", "2dcube")], {}, 67)])
def test_an_index_that_cannot_be_is_refused(db, keys, options, expected):
    spec = {"key": dict(keys), "name": "x", **options}
    assert code(lambda: db.command("createIndexes", "c", indexes=[spec])) == expected


def test_near_returns_the_nearest_first_within_metres(cities):
    near = {"$geometry": point(*CITIES["Paris"])}
    found = [each["_id"] for each in cities.find({"loc": {"$near": near}})]
    assert found == sorted(CITIES, key=lambda name: metres(CITIES["Paris"], CITIES[name]))
    assert [each["_id"] for each in cities.find({"loc": {"$nearSphere": {**near, "$maxDistance": 400e3}}})] == ["Paris", "London"]
    assert [each["_id"] for each in cities.find({"loc": {"$near": {**near, "$minDistance": 1000, "$maxDistance": 400e3}}})] == ["London"]
    # A pair has distances in radians.
    pair = {"$nearSphere": list(CITIES["Paris"]), "$maxDistance": 400e3 / RADIUS}
    assert [each["_id"] for each in cities.find({"loc": pair})] == ["Paris", "London"]
    assert [each["_id"] for each in cities.find({"loc": {"$near": near}, "size": 6}).limit(2)] == ["London", "Berlin"]
    assert [each["_id"] for each in cities.find({"loc": {"$near": near}}).sort("_id", -1).limit(2)] == ["Suva", "Paris"]
    assert [each["_id"] for each in cities.find({"loc": {"$near": near}}, batch_size=2)] == found
    over = {"$near": {"$geometry": point(179.9, -17), "$maxDistance": 1.5e6}}
    assert [each["_id"] for each in cities.find({"loc": over})] == ["Suva", "Apia"]


def test_geo_near_adds_distances(cities):
    stage = {"near": point(*CITIES["London"]), "distanceField": "far.metres", "includeLocs": "far.at", "query": {"size": {"$lt": 8}},
             "spherical": True, "maxDistance": 1500e3, "minDistance": 1}
    found = list(cities.aggregate([{"$geoNear": stage}, {"$project": {"far": 1}}]))
    assert [each["_id"] for each in found] == ["Paris", "Berlin", "Madrid"]
    for each in found:
        assert each["far"]["metres"] == pytest.approx(metres(CITIES["London"], CITIES[each["_id"]]), rel=1e-9)
        assert each["far"]["at"] == point(*CITIES[each["_id"]])
    radians = {"near": list(CITIES["London"]), "distanceField": "d", "spherical": True, "distanceMultiplier": RADIUS / 1000, "key": "loc"}
    first, second = cities.aggregate([{"$geoNear": radians}, {"$limit": 2}])
    assert first["d"] == 0 and second["d"] == pytest.approx(343.9, abs=1)
    assert list(cities.database.nothing.aggregate([{"$geoNear": {"near": [0, 0], "distanceField": "d"}}])) == []


def test_what_near_cannot_do_has_mongodbs_codes(cities):
    db, near = cities.database, {"loc": {"$near": {"$geometry": point(0, 0)}}}
    db.bare.insert_one({"_id": 1, "loc": point(0, 0)})
    assert code(lambda: list(db.bare.find(near))) == 291
    assert code(lambda: list(cities.find({"loc": {"$near": [0, 0]}}))) == 291, "a flat query needs a 2d index"
    assert code(lambda: list(cities.find(near).hint("_id_"))) == 291
    assert code(lambda: list(cities.aggregate([{"$match": near}]))) == 5626500
    assert code(lambda: cities.count_documents(near)) == 5626500
    assert code(lambda: list(cities.find({"$or": [near, {"size": 1}]}))) == 2
    assert code(lambda: list(cities.find({"$nor": [near]}))) == 2
    assert code(lambda: list(cities.find({"$and": [near, near]}))) == 2
    assert list(cities.find({"$and": [near, {"size": 4}]}))[0]["_id"] == "Suva"
    for operand, expected in [
        ({"$near": {"$geometry": point(0, 0), "$maxDistance": -1}}, 16900), ({"$near": {"$geometry": point(0, 0), "$maxDistance": "x"}}, 16899),
        ({"$near": {"$geometry": point(0, 0), "$minDistance": -1}}, 16898), ({"$near": {"$geometry": point(0, 0), "$minDistance": "x"}}, 16897),
        ({"$near": [0, 0], "$maxDistance": -1}, 16896), ({"$near": [0, 0], "$maxDistance": "x"}, 16895), ({"$near": [0, 0], "$minDistance": -1}, 16894),
        ({"$near": {"$geometry": square(0, 0)}}, 2), ({"$near": {"$geometry": point(0, 91)}}, 2), ({"$near": 5}, 2), ({"$nearSphere": [181, 0]}, 2),
        ({"$near": {"$geometry": point(0, 0), "$what": 1}}, 2), ({"$near": {"$geometry": [0, 0]}}, 16681),
    ]:
        assert code(lambda operand=operand: list(cities.find({"loc": operand}))) == expected, operand
    for stage, expected in [
        ({"distanceField": "d"}, 16605), ({"near": point(0, 0)}, 16606), ({"near": point(0, 0), "distanceField": 1}, 16606),
        ({"near": point(0, 0), "distanceField": "d", "includeLocs": 1}, 16607), ({"near": point(0, 0), "distanceField": "d", "limit": 1}, 40415),
        ({"near": [0, 0], "distanceField": "d"}, 291), ({"near": point(0, 0), "distanceField": "d", "key": "other"}, 291),
        ({"near": point(0, 0), "distanceField": "d", "query": near}, 5626500),
    ]:
        assert code(lambda stage=stage: list(cities.aggregate([{"$geoNear": stage}]))) == expected, stage
    stage = {"$geoNear": {"near": point(0, 0), "distanceField": "d"}}
    assert code(lambda: list(db.bare.aggregate([stage]))) == 27
    assert code(lambda: list(cities.aggregate([{"$match": {}}, stage]))) == 40602
    cities.create_index([("other", GEOSPHERE)])
    assert code(lambda: list(cities.aggregate([stage]))) == 27


def test_regions(cities):
    def names(operator):
        by_index = {each["_id"] for each in cities.find({"loc": operator})}
        assert by_index == {each["_id"] for each in cities.find({"loc": operator}).hint({"$natural": 1})}
        return by_index

    europe = {"type": "Polygon", "coordinates": [[[-10, 36], [20, 36], [20, 60], [-10, 60], [-10, 36]]]}
    assert names({"$geoWithin": {"$geometry": europe}}) == {"Paris", "London", "Berlin", "Madrid"}
    assert names({"$geoIntersects": {"$geometry": europe}}) == {"Paris", "London", "Berlin", "Madrid"}
    pacific = {"type": "MultiPolygon", "coordinates": [[[[175, -20], [-170, -20], [-170, -10], [175, -10], [175, -20]]], square(2, 48)["coordinates"]]}
    assert names({"$geoWithin": {"$geometry": pacific}}) == {"Suva", "Apia", "Paris"}
    assert names({"$geoWithin": {"$centerSphere": [CITIES["Paris"], 400e3 / RADIUS]}}) == {"Paris", "London"}
    assert names({"$geoWithin": {"$box": [[-80, 30], [0, 52]]}}) == {"London", "Madrid", "New York"}
    assert names({"$geoWithin": {"$polygon": [[0, 40], [5, 40], [5, 50], [0, 50]]}}) == {"Paris"}
    assert names({"$geoWithin": {"$center": [[0, 50], 3]}}) == {"Paris", "London"}
    assert names({"$not": {"$geoWithin": {"$geometry": europe}}}) == {"New York", "Suva", "Apia"}
    for bad in [{"$geoWithin": {"$geometry": point(0, 0)}}, {"$geoWithin": {"$what": 1}}, {"$geoIntersects": {"$box": [[0, 0], [1, 1]]}},
                {"$geoWithin": {"$geometry": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 1], [1, 0], [0, 0]]]}}}]:
        assert code(lambda bad=bad: list(cities.find({"loc": bad}))) == 2


def test_the_query_of_geo_near_may_use_variables(cities):
    stage = {"$geoNear": {"near": point(0, 50), "distanceField": "d", "query": {"$expr": {"$gt": ["$size", "$$least"]}}}}
    assert [each["_id"] for each in cities.aggregate([stage], let={"least": 6})] == ["New York"]
    inner = {"from": "c", "as": "other", "let": {"name": "$_id"},
             "pipeline": [{"$geoNear": {"near": point(0, 50), "distanceField": "d", "query": {"$expr": {"$ne": ["$_id", "$$name"]}}}}, {"$limit": 1}]}
    nearest = {each["_id"]: each["other"][0]["_id"] for each in cities.aggregate([{"$lookup": inner}])}
    assert nearest["London"] == "Paris" and nearest["Suva"] == "London"


def stages(plan):
    while plan:
        yield plan["stage"], plan.get("indexName")
        plan = plan.get("inputStage")


def test_explain_names_the_index(cities):
    def winning(filter, **options):
        return list(stages(cities.find(filter, **options).explain()["queryPlanner"]["winningPlan"]))

    assert winning({"loc": {"$geoWithin": {"$geometry": square(0, 0)}}}) == [("FETCH", None), ("IXSCAN", "loc_2dsphere")]
    assert winning({"loc": {"$near": {"$geometry": point(0, 0)}}}) == [("GEO_NEAR_2DSPHERE", "loc_2dsphere")]
    assert winning({"loc": {"$geoWithin": {"$box": [[0, 0], [1, 1]]}}}) == [("COLLSCAN", None)]
    ran = cities.database.command("explain", {"find": "c", "filter": {"loc": {"$near": {"$geometry": point(0, 0), "$maxDistance": 10}}}},
                                  verbosity="executionStats")
    assert ran["executionStats"]["nReturned"] == 0 and ran["executionStats"]["totalDocsExamined"] < 7
    cities.create_index([("loc", GEO2D)], partialFilterExpression={"flat": True})
    flat = {"loc": {"$near": [0, 0]}, "flat": True}
    assert winning(flat) == [("GEO_NEAR_2D", "loc_2d")]


def test_what_is_no_location_is_not_stored_where_there_is_an_index(cities):
    for location, reason in [("x", "array or object"), (5, "array or object"), ([200, 0], "out of bounds"), (point(0, 91), "out of bounds"),
                             ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]]}, "not closed"),
                             ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 1], [1, 0], [0, 0]]]}, "cross"),
                             ({"type": "GeometryCollection", "geometries": [{"type": "GeometryCollection", "geometries": [point(0, 0)]}]}, "nested"),
                             ([float("nan"), 1], "finite"), ([float("inf"), 1], "finite"), (["a", "b"], "array or object")]:
        with pytest.raises(WriteError, match="Can't extract geo keys.*" + reason) as failure:
            cities.insert_one({"_id": "bad", "loc": location})
        assert failure.value.code == 16755
    assert code(lambda: cities.update_one({"_id": "Paris"}, {"$set": {"loc": "gone"}})) == 16755
    cities.insert_many([{"_id": 1}, {"_id": 2, "loc": None}, {"_id": 3, "loc": []}])
    assert cities.find_one({"_id": "Paris"})["loc"] == point(*CITIES["Paris"])
    db = cities.database
    db.flat.create_index([("at", GEO2D)])
    assert code(lambda: db.flat.insert_one({"at": point(0, 0)})) == 13026
    assert code(lambda: db.flat.insert_one({"at": [181, 0]})) == 13027
    db.late.insert_one({"loc": "x"})
    assert code(lambda: db.late.create_index([("loc", GEOSPHERE)])) == 16755


def test_updates_and_deletions_take_the_nearest(cities):
    near = {"loc": {"$near": {"$geometry": point(-1, 50)}}}
    assert cities.find_one_and_update(near, {"$set": {"seen": 1}})["_id"] == "London"
    cities.update_one({**near, "seen": None}, {"$set": {"seen": 2}})
    assert cities.find_one({"seen": 2})["_id"] == "Paris"
    assert cities.delete_one(near).deleted_count == 1 and cities.count_documents({"_id": "London"}) == 0
    assert cities.database.command("count", "c", query=near)["n"] == 6
    assert cities.distinct("_id", {"loc": {"$near": {"$geometry": point(-1, 50), "$maxDistance": 500e3}}}) == ["Paris"]


def test_a_transaction_sees_its_own_locations(client, db):
    db.c.create_index([("loc", GEOSPHERE)])
    db.c.insert_one({"_id": 1, "loc": point(1, 1)})
    near = {"loc": {"$near": {"$geometry": point(0, 0)}}}
    stage = {"$geoNear": {"near": point(0, 0), "distanceField": "d"}}
    with client.start_session() as session:
        session.start_transaction()
        db.c.insert_one({"_id": 2, "loc": point(0, 0.5)}, session=session)
        db.c.update_one({"_id": 1}, {"$set": {"loc": point(0, 0.1)}}, session=session)
        assert [each["_id"] for each in db.c.find(near, session=session)] == [1, 2]
        assert [each["_id"] for each in db.c.aggregate([stage], session=session)] == [1, 2]
        session.abort_transaction()
    assert [each["_id"] for each in db.c.find(near)] == [1]


def test_a_compound_index_serves_equality_before_the_location(db):
    rng = random.Random(4)
    docs = [{"_id": n, "kind": n % 5, "loc": [rng.uniform(-20, 20), rng.uniform(-20, 20)]} for n in range(500)]
    db.c.insert_many(docs)
    db.c.create_index([("kind", 1), ("loc", GEOSPHERE)])
    near = {"$near": {"$geometry": point(0, 0)}}
    assert code(lambda: list(db.c.find({"loc": near}))) == 291
    for kinds in (3, {"$in": [1, 4]}):
        wanted = sorted((each for each in docs if each["kind"] in ([3] if kinds == 3 else [1, 4])), key=lambda each: metres((0, 0), each["loc"]))
        assert [each["_id"] for each in db.c.find({"kind": kinds, "loc": near})] == [each["_id"] for each in wanted]
        region = {"$geoWithin": {"$geometry": square(-5, -5, 10)}}
        plan = db.c.find({"kind": kinds, "loc": region}).explain()["queryPlanner"]["winningPlan"]
        assert ("IXSCAN", "kind_1_loc_2dsphere") in list(stages(plan))
        by_index, by_scan = ({each["_id"] for each in db.c.find({"kind": kinds, "loc": region}).hint(hint)}
                             for hint in ("kind_1_loc_2dsphere", {"$natural": 1}))
        assert by_index == by_scan and by_index
    # It has no documents without a location.
    db.c.insert_one({"_id": "nowhere", "kind": 3})
    assert db.c.count_documents({"kind": 3}) == 101


@pytest.mark.parametrize("kind", [GEOSPHERE, GEO2D])
def test_near_is_in_the_order_of_brute_force(db, kind):
    rng = random.Random(11)
    places = [(rng.gauss(10, 3), rng.gauss(50, 2)) if n % 3 else (rng.uniform(-180, 180), rng.uniform(-90, 90)) for n in range(3000)]
    db.c.insert_many([{"_id": n, "loc": list(at)} for n, at in enumerate(places)])
    db.c.create_index([("loc", kind)])
    for center in [(10, 50), (-179.9, 0), (12, 89.9), (100, -45)]:
        distance = math.dist if kind == GEO2D else metres
        wanted = sorted(range(len(places)), key=lambda n: distance(center, places[n]))
        query = {"$near": list(center)} if kind == GEO2D else {"$near": {"$geometry": point(*center)}}
        found = [each["_id"] for each in db.c.find({"loc": query}).limit(300)]
        assert all(distance(center, places[a]) == pytest.approx(distance(center, places[b]), abs=1e-6) for a, b in zip(found, wanted))
        least, most = distance(center, places[wanted[40]]), distance(center, places[wanted[90]])
        bounds = {"$minDistance": least + 1e-7, "$maxDistance": most + 1e-7}
        query = {**query, **bounds} if kind == GEO2D else {"$near": {**query["$near"], **bounds}}
        found = [each["_id"] for each in db.c.find({"loc": query})]
        assert set(found) == set(wanted[41:91])


def test_hostile_shapes_take_bounded_time(db):
    db.c.create_index([("loc", GEOSPHERE)])
    turn = [2 * math.pi * n / 100_000 for n in range(100_000)]
    ring = [[(40 + n % 2) * math.cos(a), (40 + n % 2) * math.sin(a)] for n, a in enumerate(turn)]
    great = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
    started = time.monotonic()
    db.c.insert_one({"_id": 1, "loc": great})
    db.c.insert_one({"_id": 2, "loc": {"type": "MultiPoint", "coordinates": ring}})
    db.c.insert_one({"_id": 3, "loc": {"type": "LineString", "coordinates": ring}})
    assert {each["_id"] for each in db.c.find({"loc": {"$geoIntersects": {"$geometry": great}}}, {"_id": 1})} == {1, 2, 3}
    assert [each["_id"] for each in db.c.find({"loc": {"$near": {"$geometry": point(0, 0)}}}, {"_id": 1})][0] == 1
    assert time.monotonic() - started < 60
    # Edges all over each other: the search for crossings ends with the first, or with the time limit.
    rng = random.Random(2)
    tangled = [[rng.uniform(-60, 60), rng.uniform(-60, 60)] for _ in range(50_000)]
    bad = {"type": "Polygon", "coordinates": [[*tangled, tangled[0]]]}
    started = time.monotonic()
    assert code(lambda: db.c.insert_one({"loc": bad})) == 16755
    lines = {"type": "LineString", "coordinates": tangled}
    assert code(lambda: list(db.c.find({"loc": {"$geoWithin": {"$geometry": great, "$x": 1}}}, max_time_ms=5000))) == 2
    try:
        list(db.c.find({"loc": {"$geoIntersects": {"$geometry": lines}}}, {"_id": 1}, max_time_ms=3000))
    except OperationFailure as failure:
        assert failure.code == 50
    assert time.monotonic() - started < 60
    deep = point(0, 0)
    for _ in range(40):
        deep = {"type": "GeometryCollection", "geometries": [deep]}
    assert code(lambda: list(db.c.find({"loc": {"$geoIntersects": {"$geometry": deep}}}))) == 2
