#!/usr/bin/env python3
"""The SQL functions and the server say the same: indexes of every kind, created and listed at both doors; locations, stored and found at both."""
import pathlib
import random
import sys
import tempfile

import bson
import bson.json_util
import psycopg
from bson import SON, Int64
from pymongo.errors import OperationFailure

from claims import check, run, same

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "treedb_server" / "tests" / "driver"))
from server import Server  # noqa: E402 - found there

# Keys and options of each index, as both doors take them.
INDEXES = [
    (SON(a=1), {}),
    (SON(a=-1), {"name": "down"}),
    (SON([("a", 1), ("b.c", -1), ("_id", 1)]), {}),
    (SON(u=1), {"unique": True}),
    (SON([("u", 1), ("v", 1)]), {"unique": True, "sparse": True, "name": "two"}),
    (SON(s=1), {"sparse": True}),
    (SON(s=1), {"sparse": False, "name": "not sparse"}),
    (SON(p=1), {"partialFilterExpression": SON([("p", {"$gt": 20}), ("q", {"$exists": True})])}),
    (SON(p=-1), {"unique": True, "partialFilterExpression": {"p": {"$type": "string"}}, "name": "unique of some"}),
    (SON(t=1), {"expireAfterSeconds": 3600}),
    (SON(t=-1), {"expireAfterSeconds": Int64(0), "name": "at once"}),
    (SON(h="hashed"), {}),
    (SON([("h", "hashed"), ("i", 1)]), {}),
    (SON([("w.$**", 1)]), {}),
    (SON([("$**", 1)]), {"wildcardProjection": {"c": 1, "d.e": 1}, "name": "some of all"}),
    (SON([("$**", 1)]), {"wildcardProjection": {"c": 0}, "name": "all but one"}),
    (SON(c=1), {"collation": {"locale": "en", "strength": 2}}),
    (SON(c=1), {"collation": {"locale": "de", "numericOrdering": True, "caseFirst": "upper"}, "name": "numbers", "unique": True}),
    (SON(c=1), {"collation": {"locale": "simple"}, "name": "simple"}),
    (SON(x=1), {"hidden": True}),
    (SON(x=-1), {"hidden": False, "name": "not hidden"}),
    (SON(y=1), {"unique": 1, "hidden": 7.5}),
    (SON(g=1), {"background": True}),
    (SON(f=1.0), {}),
    (SON(f=Int64(-1)), {}),
    (SON(where="2dsphere"), {}),
    (SON([("kind", 1), ("where", "2dsphere"), ("to", "2dsphere"), ("n", -1)]), {"2dsphereIndexVersion": 2}),
    (SON(where="2dsphere"), {"partialFilterExpression": {"kind": 1}, "collation": {"locale": "en"}, "name": "where of some"}),
    (SON(spot="2d"), {}),
    (SON([("spot", "2d"), ("n", 1)]), {"bits": 20, "min": -10, "max": 10.5, "sparse": True, "hidden": True}),
    (SON([("m", 1), ("n", -1)]), {"sparse": True, "hidden": True, "collation": {"locale": "fr", "backwards": True}, "name": "mixed"}),
]

# What neither takes.
REFUSED = [
    (SON(), {}),
    (SON(a=0), {}),
    (SON(a="text"), {}),
    (SON(a=1), {"partialFilterExpression": {"a": {"$ne": 1}}, "name": "wrong"}),
    (SON([("a", 1), ("b", "hashed"), ("c", "hashed")]), {"name": "wrong"}),
    (SON([("$**", 1)]), {"unique": True, "name": "wrong"}),
    (SON(a=1), {"expireAfterSeconds": -1, "name": "wrong"}),
    (SON(a=1), {"collation": {"locale": "nowhere"}, "name": "wrong"}),
    (SON(a="2dsphere"), {"unique": True}),
    (SON(a="2dsphere"), {"expireAfterSeconds": 5}),
    (SON(a="2dsphere"), {"2dsphereIndexVersion": 9}),
    (SON([("a", 1), ("b", "2d")]), {}),
    (SON([("a", "2d"), ("b", "2dsphere")]), {}),
    (SON(a="2d"), {"min": 5, "max": 5}),
    (SON(a="2d"), {"min": "x"}),
    (SON(a="2d"), {"bits": 33}),
    (SON(a="2d"), {"collation": {"locale": "en"}}),
    (SON(a="2dcube"), {}),
]

DOCUMENTS = bson.CodecOptions(document_class=SON)


def point(lng, lat):
    return SON(type="Point", coordinates=[lng, lat])


def ring(*corners):
    return [list(corner) for corner in (*corners, corners[0])]


def polygon(*corners):
    return SON(type="Polygon", coordinates=[ring(*corners)])


# What is stored in a field with an index "2dsphere", and in one with an index "2d"; some of it is no location.
PLACES = [
    "x", 5, True, {}, {"a": 1}, None, [], [1], [200, 0], [0, 90.0001], [float("nan"), 1], [1, float("inf")], ["a", "b"], [[1, 2], "x"], [[1, 2], [3, 4]], [1, 2, 3], SON(lng=1, lat=2), SON(lat="x", lng=1),
    point(0, 91), point(-180, -90), point(180, 90), point(float("nan"), 0), SON(type="Point"), SON(type="Point", coordinates=[]), SON(type="What", coordinates=[1, 2]), SON(type=1, coordinates=[1, 2]),
    SON(type="LineString", coordinates=[[0, 0], [1, 1]]), SON(type="LineString", coordinates=[[0, 0]]), SON(type="LineString", coordinates=[[0, 0], [180, 0]]),
    polygon((0, 0), (1, 0), (1, 1)), SON(type="Polygon", coordinates=[[[0, 0], [1, 0], [1, 1]]]), polygon((0, 0), (1, 1), (0, 1), (1, 0)), SON(type="Polygon", coordinates=[]), polygon((0, 0), (0, 0), (0, 0)),
    SON(type="Polygon", coordinates=[ring((0, 0), (9, 0), (9, 9), (0, 9)), ring((2, 2), (2, 3), (3, 3))]), SON(type="Polygon", coordinates=[ring((0, 0), (9, 0), (9, 9), (0, 9)), ring((20, 2), (20, 3), (30, 3))]),
    SON(type="MultiPoint", coordinates=[[1, 2], [3, 4]]), SON(type="MultiPoint", coordinates=[]), SON(type="MultiLineString", coordinates=[[[1, 2], [3, 4]]]), SON(type="MultiPolygon", coordinates=[[ring((0, 0), (1, 0), (1, 1))]]),
    SON(type="GeometryCollection", geometries=[point(1, 2), polygon((0, 0), (1, 0), (1, 1))]), SON(type="GeometryCollection", geometries=[SON(type="GeometryCollection", geometries=[point(1, 2)])]),
    [point(1, 2), point(50, 50)], [point(1, 2), "x"],
]
SPOTS = [[1, 2], [10.25, -3], [10.5, 10.5], [10.6, 0], [-10.1, 0], SON(x=1, y=2), [[1, 2], [3, 4]], "x", 7, None, [], [1], point(1, 2), [float("nan"), 1]]

EUROPE = polygon((-10, 36), (20, 36), (20, 60), (-10, 60))
PACIFIC = SON(type="MultiPolygon", coordinates=[[ring((175, -20), (-170, -20), (-170, -10), (175, -10))], [ring((2, 40), (9, 40), (9, 50), (2, 50))]])
# Filters; those by distance have an order. Some are refused.
FILTERS = [
    *({"where": {operator: {"$geometry": area}}} for operator in ("$geoWithin", "$geoIntersects") for area in (EUROPE, PACIFIC, point(0, 0), point(1, 2), SON(type="LineString", coordinates=[[-20, 0], [40, 50]]))),
    {"where": {"$geoWithin": {"$centerSphere": [[5, 45], .3]}}}, {"where": {"$geoWithin": {"$centerSphere": [[5, 45], 4]}}}, {"where": {"$geoWithin": {"$box": [[-20, -20], [20, 20]]}}}, {"where": {"$geoWithin": {"$polygon": [[0, 0], [40, 0], [20, 60]]}}},
    {"where": {"$geoWithin": {"$center": [[0, 0], 30]}}}, {"where": {"$not": {"$geoWithin": {"$geometry": EUROPE}}}}, {"kind": 2, "where": {"$geoWithin": {"$geometry": EUROPE}}}, {"kind": {"$in": [0, 3]}, "where": {"$geoIntersects": {"$geometry": EUROPE}}},
    {"$or": [{"where": {"$geoWithin": {"$geometry": EUROPE}}}, {"spot": {"$geoWithin": {"$box": [[0, 0], [3, 3]]}}}]}, {"spot": {"$geoWithin": {"$center": [[0, 0], 4]}}}, {"spot": {"$geoWithin": {"$box": [[2, 2], [1e9, -3]]}}},
    {"spot": {"$geoWithin": {"$polygon": [[-5, -5], [5, -5], [0, 5]]}}}, {"spot": {"$geoIntersects": {"$geometry": EUROPE}}}, {"spot": {"$geoWithin": {"$geometry": EUROPE}}}, {"where": None}, {"where": {"$exists": False}}, {"where": []},
    {"where": {"$near": {"$geometry": point(5, 45)}}}, {"where": {"$nearSphere": {"$geometry": point(179, -15), "$maxDistance": 3e6}}}, {"where": {"$near": {"$geometry": point(-5, 5), "$minDistance": 1e6, "$maxDistance": 4e6}}},
    {"where": {"$nearSphere": [5, 45], "$maxDistance": .5}}, {"where": {"$nearSphere": [0, 90]}, "kind": {"$lt": 2}}, {"kind": 3, "where": {"$near": {"$geometry": point(0, 0)}}}, {"$and": [{"where": {"$near": {"$geometry": point(9, 9)}}}, {"n": {"$gt": 200}}]},
    {"spot": {"$near": [1, 1]}}, {"spot": {"$near": [1, 1], "$maxDistance": 5, "$minDistance": 2}}, {"spot": {"$near": [1, 1, 3]}}, {"spot": {"$nearSphere": [1, 1], "$maxDistance": .1}}, {"spot": {"$near": {"$geometry": point(1, 1)}}},
    {"where": {"$near": [0, 0]}}, {"other": {"$near": [0, 0]}}, {"where": {"$near": 5}}, {"where": {"$near": {"$geometry": point(0, 91)}}}, {"where": {"$near": {"$geometry": EUROPE}}}, {"where": {"$near": {"$geometry": point(0, 0), "$maxDistance": -1}}},
    {"where": {"$near": {"$geometry": point(0, 0), "$maxDistance": "x"}}}, {"where": {"$near": {"$geometry": [0, 0]}}}, {"where": {"$nearSphere": [0, 0], "$maxDistance": float("nan")}}, {"$or": [{"where": {"$near": {"$geometry": point(0, 0)}}}, {"n": 1}]},
    {"$and": 2 * [{"where": {"$near": {"$geometry": point(0, 0)}}}]}, {"where": {"$geoWithin": {"$what": 1}}}, {"where": {"$geoWithin": {"$geometry": polygon((0, 0), (1, 1), (0, 1), (1, 0))}}}, {"where": {"$geoIntersects": {"$box": [[0, 0], [1, 1]]}}},
    {"where": {"$geoWithin": {"$centerSphere": [[200, 0], 1]}}}, {"where": {"$geoWithin": {"$center": [[0, 0], -1]}}}, {"where": {"$geoWithin": 5}},
]
# Operands of $geoNear.
NEAREST = [
    {"near": point(5, 45), "distanceField": "far.metres", "includeLocs": "far.at", "key": "where"}, {"near": point(5, 45), "distanceField": "d", "key": "where", "minDistance": 1e5, "maxDistance": 5e6, "query": {"kind": 1}, "distanceMultiplier": .001},
    {"near": [5, 45], "spherical": True, "distanceField": "d", "key": "where", "maxDistance": 1}, {"near": [1, 1], "distanceField": "d", "key": "spot"}, {"near": [1, 1], "distanceField": "d"}, {"near": point(5, 45), "distanceField": "d"},
    {"near": point(5, 45), "distanceField": "d", "key": "where", "query": {"$expr": {"$gt": ["$n", 100]}}}, {"near": point(5, 45), "distanceField": "d", "key": "nothing"}, {"distanceField": "d"}, {"near": point(5, 45)}, {"near": point(5, 95), "distanceField": "d"},
    {"near": point(5, 45), "distanceField": 1}, {"near": point(5, 45), "distanceField": "d", "includeLocs": 1}, {"near": point(5, 45), "distanceField": "d", "limit": 1}, {"near": point(5, 45), "distanceField": "d", "maxDistance": -1},
    {"near": point(5, 45), "distanceField": "d", "query": {"where": {"$near": [0, 0]}}}, {"near": [0, 0], "distanceField": "d", "key": "where"},
]


def shown(document):
    """A document with the order of its fields and the types of its numbers."""
    return bson.json_util.dumps(document, json_options=bson.json_util.CANONICAL_JSON_OPTIONS)


def number_of(error):
    """MongoDB's number of an SQL error, which its detail has: MongoDB error 67 (CannotCreateIndex)."""
    numbers = [int(word) for word in (error.diag.message_detail or "").replace("(", " ").split() if word.isdigit()]
    return numbers[0] if numbers else f"{error.sqlstate}: {error}"


class Doors:
    """A collection of the same name at both doors."""

    def __init__(self, db, mongo):
        self.db, self.mongo = db, mongo
        db.execute("SELECT treedb.create_collection('things')")
        mongo.create_collection("things")

    def create(self, keys, options):
        """The name that each says, or that it refused, and with which of MongoDB's errors."""
        spec = SON([("key", keys), ("name", "_".join(f"{name}_{kind if isinstance(kind, str) else int(kind)}" for name, kind in keys.items()))])
        spec.update(options)
        try:
            self.mongo.command("createIndexes", "things", indexes=[spec])
            server = spec["name"]
        except OperationFailure as error:
            server = error.code
        try:
            # In one document, as PyMongo puts _id first in the outermost one.
            query = """SELECT treedb.create_index('things', treedb.bson(treedb.get(d, 'keys')), treedb.bson(treedb.get(d, 'options')))
                       FROM treedb.bson(%s::bytea) d"""
            sql = self.db.execute(query, [bson.encode(SON(keys=keys, options=options))]).fetchone()[0]
        except psycopg.Error as error:
            sql = number_of(error)
        return server, sql

    def lists(self):
        """What each lists."""
        server = self.mongo.command("listIndexes", "things", codec_options=DOCUMENTS)["cursor"]["firstBatch"]
        rows = self.db.execute("SELECT i::bytea FROM treedb.list_indexes('things') i").fetchall()
        return server, [bson.decode(row[0], DOCUMENTS) for row in rows]


def at_both_doors(compared):
    """A claim of what is the same at both doors."""
    def claim(cluster):
        with tempfile.TemporaryDirectory() as directory:
            server = Server(directory)
            try:
                with cluster.connect() as db, server.client() as client:
                    return compared(db, client.things)
            finally:
                server.stop()

    claim.__name__ = compared.__name__
    return claim


def answer(call):
    """What a call returns, or with which of MongoDB's errors it is refused."""
    try:
        return call()
    except OperationFailure as error:
        return error.code
    except psycopg.Error as error:
        return number_of(error)


@at_both_doors
def both_doors_store_and_find_locations_alike(db, mongo):
    db.execute("SELECT treedb.create_collection('places')")
    places = mongo.get_collection("places", codec_options=DOCUMENTS)
    for keys, options in [(SON(where="2dsphere"), {}), (SON([("kind", 1), ("where", "2dsphere")]), {}), (SON(spot="2d"), {"min": -10, "max": 10.5})]:
        places.create_index(list(keys.items()), **options)
        db.execute("SELECT treedb.create_index('places', treedb.bson(%s::bytea), treedb.bson(%s::bytea))", (bson.encode(keys), bson.encode(options)))

    def insert(document):
        server = answer(lambda: bool(places.insert_one(document).acknowledged))
        data = bson.encode(document)
        same(server, answer(lambda: db.execute("SELECT treedb.insert_one('places', treedb.bson(%s::bytea)) IS NOT NULL", (data,)).fetchone()[0]), f"insert of {document}")
        if isinstance(server, int) and not isinstance(server, bool):
            # As SQL's own commands have it.
            same(server, answer(lambda: db.execute("INSERT INTO places VALUES (treedb.bson(%s::bytea))", (data,))), f"INSERT of {document}")
        return server is True

    rng = random.Random(11)
    stored = sum(insert(SON([("_id", f"w{at}"), ("kind", at % 4), ("where", where)])) for at, where in enumerate(PLACES)) + sum(insert(SON(_id=f"s{at}", spot=spot)) for at, spot in enumerate(SPOTS))
    for n in range(300):
        lng, lat, size = rng.uniform(-180, 179), rng.uniform(-89, 88), rng.uniform(0, 1)
        lng, lat = (lng, lat) if n % 3 else (lng / 9, 20 + lat / 3)
        where = [point(lng, lat), [lng, lat], polygon((lng, lat), (lng + size, lat), (lng + size, lat + size)), SON(type="LineString", coordinates=[[lng, lat], [lng + size, lat + size]])][n % 4]
        insert(SON([("_id", n), ("n", n), ("kind", n % 5), ("where", where), ("spot", [rng.uniform(-10, 10), rng.uniform(-10, 10)])]))
    found = 0
    for question in FILTERS:
        data = bson.encode(question)
        in_order = "$near" in repr(question)

        def ids(documents, in_order=in_order):
            documents = [shown(document) for document in documents]
            return documents if in_order else sorted(documents)

        def sql(query, data=data):
            return [bson.decode(row[0], DOCUMENTS) for row in db.execute(query, (data,)).fetchall()]

        server = answer(lambda: ids(places.find(question)))
        same(server, answer(lambda: ids(sql("SELECT f::bytea FROM treedb.find('places', treedb.bson(%s::bytea)) f"))), f"find {question}")
        same(server, answer(lambda: ids(sql("SELECT treedb.find('places', treedb.bson(%s::bytea))::bytea"))), f"find {question} in a SELECT list")
        if isinstance(server, list):
            found += len(server)
            same(answer(lambda: mongo.command("count", "places", query=question)["n"]), db.execute("SELECT treedb.count('places', treedb.bson(%s::bytea))", (data,)).fetchone()[0], f"count {question}")
        where = answer(lambda: ids(sql("SELECT doc::bytea FROM places WHERE doc OPERATOR(treedb.@@) treedb.bson(%s::bytea)")))
        matched = answer(lambda: ids(places.aggregate([{"$match": question}])))
        same(matched, where, f"@@ {question}")
    for operand in NEAREST:
        stages = [{"$geoNear": operand}, {"$limit": 150}]
        server = answer(lambda: [shown(document) for document in places.aggregate(stages)])
        query = "SELECT a::bytea FROM treedb.aggregate('places', treedb.get(treedb.bson(%s::bytea), 'p')) a"
        same(server, answer(lambda: [shown(bson.decode(row[0], DOCUMENTS)) for row in db.execute(query, (bson.encode({"p": stages}),)).fetchall()]), f"$geoNear {operand}")
        found += len(server) if isinstance(server, list) else 0
    check(found > 3000, f"{found} documents found")
    problems = db.execute("SELECT treedb.check('places')").fetchall()
    same(problems, [], "problems of the indexes")
    return f"{stored} of {len(PLACES) + len(SPOTS)} odd documents stored, {len(FILTERS)} filters and {len(NEAREST)} $geoNear, {found} documents found"


@at_both_doors
def both_doors_list_every_kind_of_index_alike(db, mongo):
    doors = Doors(db, mongo)
    for keys, options in INDEXES:
        server, sql = doors.create(keys, options)
        same(server, sql, f"{keys} {options}")
        check(isinstance(sql, str), f"{keys} {options} was refused: {sql}")
    for keys, options in REFUSED:
        server, sql = doors.create(keys, options)
        check(isinstance(server, int), f"the server took {keys} {options}")
        same(server, sql, f"{keys} {options}")
    server, sql = doors.lists()
    same(len(server), len(INDEXES) + 1, "indexes")
    same(sorted(map(shown, server)), sorted(map(shown, sql)), "lists")
    return f"{len(INDEXES)} indexes, {len(REFUSED)} refused"


if __name__ == "__main__":
    sys.exit(run([both_doors_list_every_kind_of_index_alike, both_doors_store_and_find_locations_alike]))
