#!/usr/bin/env python3
"""Hostile arguments for every SQL function of the extension: scripts/pg_hostile.sh [CALLS] [SEED..]

The functions come from the catalog, so that a new one is called too; left out are only those that SQL cannot call, which
take or return `internal` or are triggers. An argument of a type that nothing is made of here is a finding. Documents are
random: of the words of MongoDB's
language in places where they belong and where they do not, with every BSON type, deep, large, and with bytes changed. Each
call must return or raise an error with a SQLSTATE of its own, one of the engine's also with a hint; an internal error (XX000), damage (XX001, XX002), a statement
that does not end, a backend that dies, or a collection whose indexes no longer agree with it, is a finding. The seeds in
KEPT are always run: each of them once found something, or covers what others do not.
"""
import random
import struct
import sys
import time

import psycopg

from cluster import Cluster

KEPT = [1, 2]
CALLS = 4000

FIELDS = ["a", "n", "_id", "tags", "a.b", "tags.0", "a..b", "", "$", "a.$[]", "a.$[x]", "tags.$", "at", "x" * 300, "é", "0", "n.$**", "$**"]
FILTERS = """$eq $ne $gt $gte $lt $lte $in $nin $and $or $nor $not $exists $type $expr $jsonSchema $mod $regex $options $where $all $elemMatch
    $size $bitsAllClear $bitsAnySet $comment $text $near $geoWithin $sampleRate""".split()
PLACES = ["Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection", "What"]
REGIONS = ["$geoWithin", "$geoIntersects", "$near", "$nearSphere"]
AREAS = ["$geometry", "$geometry", "$box", "$center", "$centerSphere", "$polygon", "$maxDistance"]
UPDATES = """$set $unset $inc $mul $min $max $rename $setOnInsert $currentDate $push $pull $pullAll $addToSet $pop $bit $each $slice $sort
    $position""".split()
STAGES = """$match $project $group $sort $limit $skip $unwind $lookup $graphLookup $facet $bucket $bucketAuto $count $addFields $set $unset
    $replaceRoot $replaceWith $sample $sortByCount $redact $unionWith $setWindowFields $densify $fill $out $merge $documents $geoNear""".split()
EXPRESSIONS = """$add $subtract $multiply $divide $mod $pow $sqrt $log $exp $abs $ceil $floor $round $trunc $concat $substr $substrCP $toLower $toUpper
    $split $strLenCP $indexOfCP $trim $replaceAll $regexMatch $regexFind $cond $ifNull $switch $let $map $filter $reduce $zip $range
    $reverseArray $arrayElemAt $slice $size $in $concatArrays $setUnion $mergeObjects $objectToArray $arrayToObject $dateToString
    $dateFromString $dateAdd $dateTrunc $year $toInt $toDate $toObjectId $convert $type $literal $getField $setField $sum $avg $first $push
    $stdDevPop $percentile $sortArray $rand $function""".split()
OPTIONS = """sort projection skip limit hint collation allowDiskUse upsert arrayFilters returnDocument ordered name unique sparse hidden
    partialFilterExpression expireAfterSeconds wildcardProjection validator validationLevel validationAction index keyPattern locale
    strength find filter query pipeline aggregate count distinct update updates delete deletes findAndModify key q u multi batchSize
    insertOne updateOne updateMany replaceOne deleteOne deleteMany document replacement from localField foreignField as let input vars
    cond in default branches case then near distanceField spherical maxDistance includeLocs bits min max 2dsphereIndexVersion""".split()
WORDS = FIELDS * 3 + FILTERS + UPDATES + STAGES + EXPRESSIONS + OPTIONS
STRINGS = ["", "a", "$a", "$$ROOT", "$$NOW.x", "$n", "simple", "de", "after", "h", "other", "n_1", "_id_", "$natural", "(", "[a-", "(?:x+x+)+y", "a" * 5000, "\U0001f600", "2026-01-01", "%Y %q",
           "hashed", "text", "2dsphere", "2d", "at", "UTC", "Mars/Olympus", "warn", "moderate", "drop", "long", "decimal"]
NUMBERS = [0, 1, -1, 2, 7, 100, 255, 2**31 - 1, -2**31, 2**53 + 1, 2**63 - 1, -2**63]
FLOATS = [0.0, -0.0, 0.5, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324, 1e19]


def value(r, depth):
    """A random value: the number of its type, and its bytes."""
    kind = r.random()
    if depth > 0 and kind < .35:
        return 3, document(r, depth - 1)
    if depth > 0 and kind < .5:
        return 4, array(r, depth - 1)
    kind = r.randrange(20)
    if kind < 5:
        return 2, string(r)
    if kind < 8:
        return 16, struct.pack("<i", max(min(r.choice(NUMBERS), 2**31 - 1), -2**31))
    if kind == 8:
        return 18, struct.pack("<q", r.choice(NUMBERS))
    if kind == 9:
        return 1, struct.pack("<d", r.choice(FLOATS))
    if kind == 10:
        return 8, bytes([r.randrange(2)])
    if kind == 11:
        return r.choice([6, 10, 127, 255]), b""
    if kind == 12:
        return 9, struct.pack("<q", r.choice(NUMBERS))
    if kind == 13:
        return 11, r.choice(STRINGS)[:50].replace("\0", "").encode() + b"\0" + r.choice([b"", b"i", b"imsx", b"zz", b"u"]) + b"\0"
    if kind == 14:
        data = r.randbytes(r.choice([0, 1, 16, 300]))
        return 5, struct.pack("<iB", len(data), r.choice([0, 2, 4, 5, 128])) + data
    if kind == 15:
        return 7, r.randbytes(12)
    if kind == 16:
        return 19, r.choice([bytes(16), b"\xff" * 16, r.randbytes(16), bytes(14) + b"\x40\x30"])
    if kind == 17:
        return 17, struct.pack("<q", r.choice(NUMBERS))
    if kind == 18:
        return r.choice([13, 14]), string(r)
    return 15, scoped(r)


def string(r):
    data = r.choice(STRINGS).encode()
    return struct.pack("<i", len(data) + 1) + data + b"\0"


def scoped(r):
    inner = string(r) + document(r, 0)
    return struct.pack("<i", len(inner) + 4) + inner


def wrapped(elements):
    data = b"".join(bytes([kind]) + name + b"\0" + content for name, (kind, content) in elements)
    return struct.pack("<i", len(data) + 5) + data + b"\0"


def document(r, depth):
    count = r.choice([0, 1, 1, 1, 2, 3])
    return wrapped((r.choice(WORDS).replace("\0", "").encode(), value(r, depth)) for _ in range(count))


def array(r, depth):
    return wrapped((str(i).encode(), value(r, depth)) for i in range(r.choice([0, 1, 1, 2, 4])))


def deep(levels, kind):
    """A document in a document, or an array in an array, so many times."""
    inner = wrapped([])
    for _ in range(levels):
        inner = wrapped([(b"0" if kind == 4 else b"a", (kind, inner))])
    return inner


def coordinates(r, depth):
    """Numbers, mostly, in arrays of arrays."""
    if depth == 0:
        return r.choice([(1, struct.pack("<d", r.choice([*FLOATS, r.uniform(-180, 180), r.uniform(-90, 90)]))), (16, struct.pack("<i", r.randint(-190, 190))), (16, struct.pack("<i", r.randint(-3, 3)))])
    inner = [value(r, 1) if r.random() < .02 else coordinates(r, depth - 1) for _ in range(2 if depth == 1 and r.random() < .95 else r.choice([0, 1, 2, 4, 5, 40]))]
    if depth == 2 and inner and r.random() < .7:
        # a closed ring
        inner.append(inner[0])
    return 4, wrapped((str(i).encode(), one) for i, one in enumerate(inner))


def place(r):
    """A location, or what looks like one."""
    if r.random() < .3:
        return coordinates(r, r.choice([1, 1, 2]))
    kind = r.choice(PLACES).encode()
    return 3, wrapped([(b"type", (2, struct.pack("<i", len(kind) + 1) + kind + b"\0")), (b"coordinates", coordinates(r, r.choice([1, 2, 3, 3, 4])))])


def shaped(r):
    """What a function might take: a filter, an update, a pipeline, options, locations."""
    kind = r.randrange(8)
    field = r.choice(FIELDS[:6]).encode()
    if kind == 0:
        return wrapped([(field, (3, wrapped([(r.choice(FILTERS).encode(), value(r, 2))])))])
    if kind == 1:
        return wrapped([(r.choice(UPDATES).encode(), (3, wrapped([(field, value(r, 2))])))])
    if kind == 2:
        return wrapped([(b"$expr", (3, wrapped([(r.choice(EXPRESSIONS).encode(), value(r, 3))])))])
    if kind == 3:
        return wrapped([(r.choice(OPTIONS).encode(), value(r, 2))])
    if kind == 4:
        return wrapped([(field, (16, struct.pack("<i", r.choice([1, -1, 0, 5]))))])
    if kind == 5:
        return wrapped([(b"at", place(r))])
    if kind == 6:
        area = wrapped([(r.choice(AREAS).encode(), r.choice([place, place, lambda r: coordinates(r, 2), lambda r: value(r, 2)])(r))])
        return wrapped([(b"at", (3, wrapped([(r.choice(REGIONS).encode(), (3, area))])))])
    return wrapped([(r.choice([b"find", b"aggregate", b"count", b"distinct", b"update", b"delete", b"findAndModify"]), (2, struct.pack("<i", 2) + b"h\0")),
                    (r.choice(OPTIONS).encode(), value(r, 2))])


def stages(r):
    return wrapped((str(i).encode(), (3, wrapped([(r.choice(STAGES).encode(), value(r, 3))]))) for i in range(r.choice([1, 1, 2, 3])))


def bytes_of(r):
    """The bytes of a document, an eighth of them with some changed."""
    kind = r.random()
    data = bytearray(shaped(r) if kind < .45 else document(r, 4) if kind < .93 else deep(r.choice([5, 50, 99, 100, 101, 250, 4000]), r.choice([3, 4])))
    if r.random() < .12:
        for _ in range(r.choice([1, 1, 2, 8])):
            how = r.random()
            at = r.randrange(len(data)) if data else 0
            if how < .6 and data:
                data[at] = r.choice([0, 1, 2, 3, 4, 5, 127, 128, 255, r.randrange(256)])
            elif how < .8:
                del data[at:at + r.choice([1, 4, 50])]
            else:
                data[at:at] = r.randbytes(r.choice([1, 4]))
    return bytes(data)


def argument(r, kind, name):
    """An SQL expression of a type, and its parameter."""
    if kind == "treedb.bson" and r.random() < {"options": .7, "filter": .4}.get(name, 0):
        return "%s::bytea::treedb.bson", wrapped([])
    if kind == "treedb.bson":
        return "%s::bytea::treedb.bson", bytes_of(r)
    if kind == "treedb.bson_value":
        if name in ("pipeline", "operations", "update") and r.random() < .5:
            return "treedb.get(%s::bytea::treedb.bson, 'v')", wrapped([(b"v", (4, stages(r)))])
        if r.random() < .4:
            return "%s::bytea::treedb.bson::treedb.bson_value", bytes_of(r)
        return "treedb.get(%s::bytea::treedb.bson, 'v')", wrapped([(b"v", value(r, 4))])
    if kind == "treedb.bson_value[]":
        return "ARRAY[treedb.get(%s::bytea::treedb.bson, 'v'), NULL, '1']", wrapped([(b"v", value(r, 4))])
    if kind == "treedb.bson[]":
        return "ARRAY[%s::bytea::treedb.bson, NULL]" if r.random() < .2 else "ARRAY[%s::bytea::treedb.bson]", bytes_of(r)
    if kind == "bytea":
        return "%s::bytea", bytes_of(r) if r.random() < .5 else r.randbytes(r.choice([0, 1, 3, 9, 40]))
    if kind == "text":
        if name in ("collection", "name", "from_name"):
            if r.random() < .1:
                return "%s::text", r.choice(["near", "n_1", "_id_"])
            return "%s::text", r.choice(["h"] * 12 + ["", "H", "a.b.c", "pg_class", "plain", "h_n_1", '"', "x" * 100, "treedb.h", "nothing"])
        if name == "index" and r.random() < .8:
            return "%s::text", "near"
        return "%s::text", r.choice(FIELDS + STRINGS + ["queryPlanner", "[{}]", "{", "[" * 300])
    if kind == "text[]":
        return "%s::text[]", [r.choice([*FIELDS, "-1", "99999999999999999999", None]) for _ in range(r.choice([0, 1, 3, 50]))]
    if kind == "regclass":
        return "%s::regclass", r.choice(["h", "h_n_1", "h__id_", "plain", "pg_class", "pg_class_oid_index", "treedb.stat_indexes"])
    if kind in ("integer", "bigint"):
        return f"%s::{kind}", r.choice(NUMBERS if kind == "bigint" else [0, 1, -1, 2**31 - 1, -2**31])
    if kind == "boolean":
        return "%s::boolean", r.random() < .5
    if kind == "real[]":
        return "%s::real[]", vector(r)
    if kind == "bit":
        width = r.choice([1, 8, 8, 8, 64, 4000])
        return f"%s::varbit::bit({width})", "".join(r.choice("01") for _ in range(width))
    if kind == "treedb.keyset":
        if r.random() < .3:
            return "%s::text::treedb.keyset", r.choice(["", "{}", "\\x", "\\x00ff", "[", "1" * 5000])
        return "treedb.keys(%s::bytea::treedb.bson, '{\"n\": 1, \"tags\": -1}')", bytes_of(r)
    if kind == "cstring":
        return "textout(%s::text)", r.choice([*STRINGS, "{}", '{"a": [1, {"$numberLong": "x"}]}', "[" * 300, '{"a": 1e999}', "\\x05000000"])
    return None


def vector(r):
    """An array of numbers as text: of several sizes and dimensions, with elements that no vector may have."""
    kind = r.random()
    if kind < .5:
        return "{" + ",".join(f"{r.uniform(-9, 9):.3f}" for _ in range(3)) + "}"
    if kind < .6:
        return "{{1,2,3},{4,5,6}}"
    if kind < .7:
        return "[-2147483648:-2147483646]={1,2,3}"
    size = r.choice([0, 1, 2, 3, 3, 3, 70, 2001, 20000])
    return "{" + ",".join(str(r.choice(["0", "1", "-0", "NaN", "Infinity", "-Infinity", "3e38", "1e-45", "NULL"])) for _ in range(size)) + "}"


FUNCTIONS = """SELECT p.proname, p.oid::regprocedure::text, p.proretset,
    ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY a (t, n) ORDER BY n), p.proargnames,
    'internal'::regtype = ANY (p.proargtypes) OR p.prorettype IN ('internal'::regtype, 'trigger'::regtype) AS not_from_sql
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'treedb') ORDER BY 2"""
SCHEMA = """SELECT treedb.create_collection('h') WHERE to_regclass('h') IS NULL;
SELECT treedb.create_index('h', '{"n": 1}'), treedb.create_index('h', '{"tags": 1, "a": -1}'), treedb.create_index('h', '{"a.$**": 1}'), treedb.create_index('h', '{"a": 1}', '{"sparse": true}'), treedb.create_index('h', '{"at": "2dsphere", "n": 1}');
SELECT treedb.create_search_index('h', '{"fields": [{"type": "vector", "path": "e", "numDimensions": 3, "similarity": "euclidean"}]}', '{"name": "near"}')
    WHERE NOT EXISTS (SELECT FROM treedb.list_search_indexes('h') s WHERE s OPERATOR(treedb.->>) 'name' = 'near');
SELECT treedb.delete_many('h', '{}') WHERE treedb.count('h', '{}') > 300;
SELECT treedb.insert_many('h', ARRAY(SELECT jsonb_build_object('n', i, 'a', jsonb_build_object('b', i % 5), 'tags', jsonb_build_array(i % 3, 'x'), 'e', jsonb_build_array(i, i % 5, -i), 'at', jsonb_build_array(i, -i))::treedb.bson FROM generate_series(1, 20) i));
SELECT treedb.create_collection('other') WHERE to_regclass('other') IS NULL;"""


class Campaign:
    def __init__(self, cluster, seed):
        self.cluster, self.random = cluster, random.Random(seed)
        self.db = cluster.connect()
        self.db.execute("SET client_min_messages = error; SET statement_timeout = '30s'")
        self.functions, self.findings = [], []
        for name, signature, is_set, types, names, not_from_sql in self.db.execute(FUNCTIONS):
            unknown = [kind for kind in types if not argument(self.random, kind, "")]
            if not not_from_sql and not unknown:
                self.functions.append((name, signature, is_set, types, names or [""] * len(types)))
            elif not not_from_sql:
                self.findings.append(f"{signature} is not called: nothing is known of {unknown}")
        # Those that read and write collections do more than those that compare.
        self.weighted = self.functions + 9 * [function for function in self.functions if {"collection", "command", "filter"} & set(function[4])]
        self.returned, self.states = 0, {}
        self.renew()

    def renew(self):
        """The collections, whatever was done to them."""
        try:
            self.db.execute(SCHEMA)
        except psycopg.Error:
            # A validator that nothing passes, a unique index that stands in the way, a collection of another name with these indexes.
            for name, in self.db.execute("SELECT c::text FROM treedb.list_collections() c").fetchall():
                self.db.execute(f"DROP TABLE {name}")
            self.db.execute(SCHEMA)

    def call(self, function):
        r = self.random
        name, _, is_set, types, names = function
        arguments = [argument(r, kind, of) for kind, of in zip(types, names, strict=False)]
        parts, values = [part for part, _ in arguments], tuple(value for _, value in arguments)
        call = f"treedb.{name}({', '.join(parts)})"
        # What it returns is written out, as text or as bytes.
        statement = f"SELECT x::text FROM {call} x" if is_set and r.random() < .5 else f"SELECT {call}::text"
        try:
            self.db.execute(statement, values, binary=r.random() < .3)
            self.returned += 1
        except psycopg.Error as error:
            self.judge(error, statement, values)

    def copy(self):
        """The receive functions, by COPY in binary form."""
        r = self.random
        column = r.choice(["doc", "v"])
        data = bytes_of(r)
        if column == "v":
            kind, content = value(r, 3)
            data = bytes([kind]) + content if r.random() < .7 else data
        statement = f"COPY received ({column}) FROM STDIN WITH (FORMAT binary)"
        try:
            with self.db.cursor().copy(statement) as copy:
                copy.write(b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0) + struct.pack(">hi", 1, len(data)) + data + struct.pack(">h", -1))
            self.returned += 1
            self.db.execute("SELECT doc::text, v::text, doc OPERATOR(treedb.<) doc, v OPERATOR(treedb.<) v, doc::bytea FROM received; TRUNCATE received")
        except psycopg.Error as error:
            self.judge(error, statement, data)

    def judge(self, error, statement, values):
        state = error.sqlstate
        self.states[state] = self.states.get(state, 0) + 1
        if (error.diag.message_detail or "").startswith("MongoDB error") and not error.diag.message_hint:
            self.findings.append(f"{error.diag.message_primary[:200]}: an error of the engine without a hint")
        if state is None or state[:2] in ("XX", "57", "08", "58") or state == "42883" or self.db.closed:
            self.findings.append(f"{state} {str(error).strip()[:300]}: {statement} {[v.hex() if isinstance(v, bytes) else v for v in (values if isinstance(values, tuple) else (values,))]}"[:4000])
        if self.db.closed:
            time.sleep(3)
            self.db = self.cluster.connect()
            self.db.execute("SET client_min_messages = error; SET statement_timeout = '30s'")

    def run(self, calls):
        self.db.execute("CREATE TABLE IF NOT EXISTS received (doc treedb.bson, v treedb.bson_value); CREATE TABLE IF NOT EXISTS plain (id int)")
        for number in range(calls):
            if number >= len(self.functions) and self.random.random() < .05:
                self.copy()
            else:
                # Each of them, and then at random.
                self.call(self.functions[number] if number < len(self.functions) else self.random.choice(self.weighted))
            if number % 100 == 99:
                self.renew()
            if len(self.findings) > 5:
                break
        self.findings += [line for line, in self.db.execute("SELECT treedb.check('h')")]
        if calls < len(self.functions):
            self.findings.append(f"{calls} calls are fewer than there are functions")
        self.db.close()


def main():
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    seeds = [int(seed) for seed in sys.argv[2:]] or KEPT + [int(time.time())]
    failed = 0
    cluster = Cluster().create()
    try:
        for seed in seeds:
            started = time.monotonic()
            campaign = Campaign(cluster, seed)
            campaign.run(calls)
            failed += bool(campaign.findings)
            for finding in campaign.findings:
                print(f"seed {seed}: {finding}", flush=True)
            print(f"seed {seed}: {'FAILED' if campaign.findings else 'ok'}, {calls} calls of {len(campaign.functions)} functions, {campaign.returned} returned, "
                  f"errors {dict(sorted(campaign.states.items(), key=lambda s: -s[1]))}, {time.monotonic() - started:.1f} s", flush=True)
        for line in cluster.log().splitlines():
            if "PANIC" in line or "terminated by signal" in line:
                failed += 1
                print(line)
                break
    finally:
        cluster.close()
    print(f"{len(seeds) - min(failed, len(seeds))} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
