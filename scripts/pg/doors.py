#!/usr/bin/env python3
"""The SQL functions and the server say the same: indexes of every kind, created and listed at both doors."""
import pathlib
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
]

# The classes of indexes that only the server has: docs/postgres.md says so.
ONLY_THE_SERVER = [(SON(where="2dsphere"), {}), (SON(where="2d"), {})]

DOCUMENTS = bson.CodecOptions(document_class=SON)


def shown(document):
    """A document with the order of its fields and the types of its numbers."""
    return bson.json_util.dumps(document, json_options=bson.json_util.CANONICAL_JSON_OPTIONS)


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
            # The detail has MongoDB's number: MongoDB's error 67 (CannotCreateIndex).
            numbers = [int(word) for word in (error.diag.message_detail or "").replace("(", " ").split() if word.isdigit()]
            sql = numbers[0] if numbers else f"{error.sqlstate}: {error}"
        return server, sql

    def lists(self):
        """What each lists."""
        server = self.mongo.command("listIndexes", "things", codec_options=DOCUMENTS)["cursor"]["firstBatch"]
        rows = self.db.execute("SELECT i::bytea FROM treedb.list_indexes('things') i").fetchall()
        return server, [bson.decode(row[0], DOCUMENTS) for row in rows]


def both_doors_list_every_kind_of_index_alike(cluster):
    with tempfile.TemporaryDirectory() as directory:
        server = Server(directory)
        try:
            with cluster.connect() as db, server.client() as client:
                return compared(Doors(db, client.things))
        finally:
            server.stop()


def compared(doors):
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
    for keys, options in ONLY_THE_SERVER:
        server, sql = doors.create(keys, options)
        check(isinstance(server, str) and isinstance(sql, int), f"{keys}: {server}, {sql}")
    return f"{len(INDEXES)} indexes, {len(REFUSED)} refused"


if __name__ == "__main__":
    sys.exit(run([both_doors_list_every_kind_of_index_alike]))
