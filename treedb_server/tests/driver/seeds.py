"""Messages that are right, which the tests of bad input begin with: of each command and each opcode one at least.

None of them is meant to take long, whatever is changed in it: nothing waits for an event (`awaitData`, change streams that are read, `hello` for
a new topology), and transactions write to a collection that nothing else writes to, since a write outside of a transaction waits for one.
No change of them reaches the databases `canary` and `scratch`.
"""
import datetime
import struct
import uuid

import bson
from bson import Binary, Int64

from wire import PING

#: Commands that are not sent, and why.
NOT_SENT = {"shutdown": "it stops the server"}

#: Stands for a cursor that is open, which who sends the message puts there.
CURSOR = 0x7472656564622D63
#: Stands for the exchange of messages of an authentication that was begun last.
EXCHANGE = 0x54524545
#: The user of these messages, who may exist but has another password.
GUEST = "guest"

SESSION = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(1)}
INSIDE = {**SESSION, "autocommit": False}
BEGIN = {**INSIDE, "startTransaction": True}
VECTOR = {"fields": [{"type": "vector", "path": "v", "numDimensions": 4, "similarity": "cosine"}, {"type": "filter", "path": "a"}]}
POINT = {"type": "Point", "coordinates": [2.5, 48.5]}
SQUARE = {"type": "Polygon", "coordinates": [[[0, 40], [10, 40], [10, 50], [0, 50], [0, 40]]]}
DAY = datetime.datetime(2024, 2, 29, 12)


def reads(db):
    """Queries."""
    yield {"find": "f", "filter": {"a": {"$gt": 1, "$in": [1, 2]}, "$or": [{"b": 1}, {"c": {"$not": {"$lt": 3}}}]},
           "sort": {"a": 1, "b": -1}, "projection": {"a": 1, "_id": 0}, "skip": 1, "limit": 5, "batchSize": 2,
           "hint": "_id_", "$db": db}, {}
    yield {"find": "f", "filter": {}, "batchSize": 1, "$db": db}, {}
    yield {"find": "f", "filter": {"$expr": {"$and": [{"$gte": ["$a", "$$least"]}, {"$regexMatch": {"input": {"$toString": "$_id"}, "regex": "^a+"}}]}},
           "let": {"least": 1}, "collation": {"locale": "de", "strength": 3, "numericOrdering": True, "caseFirst": "upper"},
           "projection": {"x": {"$concat": ["a", {"$toString": "$n"}]}, "a": {"$slice": [0, 1]}}, "hint": {"$natural": -1},
           "maxTimeMS": 900, "readConcern": {"level": "majority"}, "allowDiskUse": True, "$db": db}, {}
    yield {"find": "f", "filter": {"a": 1}, "min": {"a": 0, "b": 0}, "max": {"a": 9, "b": 9}, "hint": {"a": 1, "b": -1}, "returnKey": True,
           "showRecordId": True, "singleBatch": True, "$db": db}, {}
    yield {"find": "f", "filter": {"t": {"$elemMatch": {"$regex": "^(?=(a))b|c\\1", "$options": "i"}}, "n": {"$mod": [3, 1]},
                                   "b": {"$type": ["int", "string"]}, "k": {"$bitsAllSet": [1, 5]}, "l": {"$size": 2, "$all": [1, 2]},
                                   "$nor": [{"x": {"$exists": True}}], "$jsonSchema": {"required": ["a"], "properties": {"a": {"minimum": 1}}}}, "$db": db}, {}
    yield {"find": "geo", "filter": {"at": {"$nearSphere": {"$geometry": POINT, "$maxDistance": 9000.0}}}, "$db": db}, {}
    yield {"find": "geo", "filter": {"at": {"$geoWithin": {"$geometry": SQUARE}}, "flat": {"$geoWithin": {"$box": [[0, 0], [9, 9]]}}}, "$db": db}, {}
    yield {"find": "geo", "filter": {"at": {"$geoIntersects": {"$geometry": SQUARE}}}, "limit": 3, "$db": db}, {}
    yield {"find": "capped", "tailable": True, "$db": db}, {}
    yield {"find": "series", "filter": {"at": {"$gte": DAY}, "m": "x"}, "$db": db}, {}
    yield {"find": "view", "filter": {"a": 1}, "sort": {"a": 1}, "$db": db}, {}
    yield {"find": "system.profile", "sort": {"$natural": -1}, "limit": 2, "$db": db}, {}
    yield {"find": "oplog.rs", "filter": {"op": "i"}, "limit": 2, "$db": "local"}, {}
    yield {"getMore": Int64(CURSOR), "collection": "f", "batchSize": 3, "$db": db}, {}
    yield {"killCursors": "f", "cursors": [Int64(CURSOR)], "$db": db}, {}
    yield {"count": "f", "query": {"a": 1}, "skip": 1, "limit": 3, "hint": "_id_", "collation": {"locale": "en"}, "$db": db}, {}
    yield {"distinct": "f", "key": "a.b", "query": {}, "$db": db}, {}


def aggregates(db):
    """Pipelines, with the stages and many of the operators."""
    def aggregate(*stages, on="f", **more):
        return {"aggregate": on, "pipeline": list(stages), "cursor": {"batchSize": 2}, "$db": db, **more}, {}

    yield aggregate({"$match": {"a": 1}}, {"$sort": {"a": 1}}, {"$skip": 1}, {"$limit": 2}, {"$project": {"a": 1}},
                    {"$group": {"_id": 1, "n": {"$sum": 1}, "l": {"$push": "$a"}, "s": {"$addToSet": "$b"}, "x": {"$avg": "$n"}}})
    yield aggregate({"$limit": 5}, {"$lookup": {"from": "g", "let": {"a": "$a"}, "as": "g", "pipeline": [{"$match": {"$expr": {"$eq": ["$_id", "$$a"]}}}]}},
                    {"$unwind": {"path": "$g", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "i"}})
    yield aggregate({"$limit": 5}, {"$lookup": {"from": "g", "localField": "a", "foreignField": "_id", "as": "g"}},
                    {"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "a", "connectToField": "_id", "as": "p", "maxDepth": 3}})
    yield aggregate({"$match": {"n": {"$gte": 0}}}, {"$limit": 9}, {"$facet": {"a": [{"$sortByCount": "$a"}], "b": [{"$bucket": {"groupBy": "$n", "boundaries": [0, 5, 9], "default": "x"}}],
                                               "c": [{"$bucketAuto": {"groupBy": "$n", "buckets": 2}}]}}, {"$unionWith": {"coll": "g", "pipeline": []}})
    yield aggregate({"$limit": 9}, {"$setWindowFields": {"partitionBy": "$b", "sortBy": {"n": 1}, "output": {
        "r": {"$rank": {}}, "s": {"$sum": "$n", "window": {"documents": ["unbounded", 0]}}, "e": {"$expMovingAvg": {"input": "$n", "N": 2}}}}},
        {"$fill": {"sortBy": {"n": 1}, "output": {"x": {"method": "linear"}}}}, {"$densify": {"field": "n", "range": {"step": 1, "bounds": [0, 9]}}})
    yield aggregate({"$limit": 9}, {"$set": {
        "s": {"$switch": {"branches": [{"case": {"$lt": ["$a", 3]}, "then": {"$toUpper": "$t"}}], "default": None}},
        "m": {"$map": {"input": {"$range": [0, 5]}, "as": "i", "in": {"$multiply": ["$$i", {"$ifNull": ["$n", 2]}]}}},
        "r": {"$reduce": {"input": [1, 2, 3], "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}},
        "d": {"$dateToString": {"date": {"$dateAdd": {"startDate": DAY, "unit": "month", "amount": 1, "timezone": "Europe/Paris"}}, "format": "%Y-%m-%dT%H"}},
        "z": {"$zip": {"inputs": [[1, 2], ["a"]], "useLongestLength": True, "defaults": [0, "b"]}},
        "c": {"$convert": {"input": "$t", "to": "double", "onError": -1}}, "o": {"$objectToArray": "$$ROOT"},
        "f": {"$sortArray": {"input": [3, 1], "sortBy": 1}}, "p": {"$replaceAll": {"input": "aba", "find": "a", "replacement": "c"}}}},
        {"$unset": ["s", "m"]}, {"$replaceRoot": {"newRoot": {"$mergeObjects": ["$$ROOT", {"k": 1}]}}}, {"$redact": "$$KEEP"}, {"$count": "n"},
        let={"least": 1}, collation={"locale": "fr"})
    yield aggregate({"$geoNear": {"near": POINT, "distanceField": "d", "key": "at", "maxDistance": 9000.0, "query": {}}}, on="geo")
    yield aggregate({"$vectorSearch": {"index": "near", "path": "v", "queryVector": [1.0, 0.0, 0.5, 2.0], "numCandidates": 10, "limit": 3,
                                       "filter": {"a": {"$gt": 0}}}}, {"$set": {"s": {"$meta": "vectorSearchScore"}}}, {"$unset": "v"})
    yield aggregate({"$collStats": {"count": {}, "latencyStats": {"histograms": True}}})
    yield aggregate({"$indexStats": {}}, {"$sample": {"size": 2}})
    yield aggregate({"$listSearchIndexes": {"name": "near"}})
    yield aggregate({"$limit": 3}, {"$out": "out"})
    yield aggregate({"$limit": 3}, {"$merge": {"into": "merged", "on": "_id", "whenMatched": [{"$set": {"x": "$$new.a"}}], "whenNotMatched": "insert"}})
    yield aggregate({"$changeStream": {"fullDocument": "updateLookup", "showExpandedEvents": True}}, {"$match": {"operationType": "insert"}})
    yield aggregate({"$documents": [{"a": 1}, {"a": [1, 2]}]}, {"$unwind": "$a"}, on=1)
    yield {"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": True, "idleConnections": True}}, {"$limit": 1}], "cursor": {}, "$db": "admin"}, {}
    yield {"aggregate": 1, "pipeline": [{"$listLocalSessions": {"allUsers": True}}], "cursor": {}, "$db": "admin"}, {}


def writes(db):
    """Changes of documents."""
    yield {"insert": "f", "ordered": False, "writeConcern": {"w": 1, "j": False}, "$db": db}, {
        "documents": [{"_id": 1, "a": [1, {"b": "c"}]}, {"a": {"b": 2}, "n": 3, "t": "word", "v": [1.0, 0.5, 0.0, 2.0]}]}
    yield {"insert": "f", "bypassDocumentValidation": True, "documents": [{"a": n, "n": n} for n in range(3)], **SESSION, "$db": db}, {}
    yield {"insert": "geo", "$db": db}, {"documents": [{"at": POINT, "flat": [1, 2]}, {"at": SQUARE}]}
    yield {"insert": "series", "$db": db}, {"documents": [{"at": DAY, "m": "x", "n": 1}]}
    yield {"insert": "capped", "$db": db}, {"documents": [{"n": 1}, {"n": 2}]}
    yield {"update": "f", "$db": db}, {"updates": [
        {"q": {"a": 1}, "u": {"$set": {"x.y": 1}, "$inc": {"n": 1}, "$unset": {"z": ""}}, "multi": True, "upsert": True},
        {"q": {"_id": 1}, "u": {"r": [1, 2]}}]}
    yield {"update": "f", "let": {"k": 2}, "updates": [
        {"q": {"n": {"$lt": 5}}, "u": {"$push": {"l": {"$each": [3, 1], "$sort": 1, "$slice": -3, "$position": 0}}, "$max": {"m": 4},
                                       "$bit": {"k": {"or": 5}}, "$rename": {"o": "p"}, "$currentDate": {"when": {"$type": "timestamp"}}}},
        {"q": {"l": {"$gte": 1}}, "u": {"$set": {"l.$[x]": 1}}, "arrayFilters": [{"x": {"$gt": 2}}], "collation": {"locale": "en"}},
        {"q": {"l": 1}, "u": {"$set": {"l.$": 2}}},
        {"q": {"n": 3}, "u": [{"$set": {"s": {"$add": ["$n", "$$k"]}}}], "sort": {"_id": -1}, "hint": "_id_"},
        {"q": {"n": 4}, "u": {"$pull": {"l": {"$in": [1]}}, "$addToSet": {"set": {"$each": [1]}}, "$mul": {"n": 2}}}], **SESSION, "$db": db}, {}
    yield {"findAndModify": "f", "query": {"a": 1}, "update": {"$inc": {"n": 1}}, "new": True, "upsert": True,
           "sort": {"a": 1}, "fields": {"a": 1}, "$db": db}, {}
    yield {"findAndModify": "f", "query": {"n": {"$gt": 90}}, "remove": True, "let": {"x": 1}, **SESSION, "$db": db}, {}
    yield {"delete": "f", "$db": db}, {"deletes": [{"q": {"a": {"$gte": 7}}, "limit": 0}, {"q": {}, "limit": 1}]}
    yield {"bulkWrite": 1, "ordered": True, "errorsOnly": False, "let": {"k": 1}, "$db": "admin"}, {
        "ops": [{"insert": 0, "document": {"a": 1}}, {"update": 0, "filter": {"a": 1}, "updateMods": {"$set": {"b": 2}}, "multi": True, "upsert": True},
                {"update": 1, "filter": {"_id": 1}, "updateMods": {"$inc": {"l.$[x]": 1}}, "arrayFilters": [{"x": 1}]},
                {"delete": 1, "filter": {"a": {"$gt": 7}}, "multi": False}],
        "nsInfo": [{"ns": f"{db}.f"}, {"ns": f"{db}.g"}]}
    yield {"applyOps": [{"op": "i", "ns": f"{db}.g", "o": {"_id": 5, "a": 1}}, {"op": "u", "ns": f"{db}.g", "o2": {"_id": 5}, "o": {"$v": 2, "diff": {"u": {"a": 2}}}},
                        {"op": "d", "ns": f"{db}.g", "o": {"_id": 5}}, {"op": "n", "ns": "", "o": {}},
                        {"op": "c", "ns": f"{db}.$cmd", "o": {"collMod": "g", "validationLevel": "off"}}], "$db": "admin"}, {}


def transactions(db):
    """The parts of transactions of one session."""
    yield {"insert": "t", "documents": [{"n": 1}], **BEGIN, "readConcern": {"level": "snapshot"}, "$db": db}, {}
    yield {"find": "t", "filter": {}, "batchSize": 1, **BEGIN, "$db": db}, {}
    yield {"update": "t", "updates": [{"q": {"n": 1}, "u": {"$inc": {"m": 1}}, "upsert": True}], **INSIDE, "$db": db}, {}
    yield {"findAndModify": "t", "query": {"n": 1}, "update": {"$set": {"x": 1}}, **INSIDE, "$db": db}, {}
    yield {"delete": "t", "deletes": [{"q": {"n": 1}, "limit": 1}], **INSIDE, "$db": db}, {}
    yield {"aggregate": "t", "pipeline": [{"$group": {"_id": "$n"}}], "cursor": {}, **INSIDE, "$db": db}, {}
    yield {"create": "tc", **INSIDE, "$db": db}, {}
    yield {"commitTransaction": 1, **INSIDE, "writeConcern": {"w": "majority"}, "$db": "admin"}, {}
    yield {"abortTransaction": 1, **INSIDE, "$db": "admin"}, {}


def definitions(db):
    """Collections and indexes."""
    yield {"create": "g", "validator": {"a": {"$gte": 0}}, "validationLevel": "moderate", "collation": {"locale": "en"},
           "changeStreamPreAndPostImages": {"enabled": True}, "$db": db}, {}
    yield {"create": "capped", "capped": True, "size": 100_000, "max": 100, "$db": db}, {}
    yield {"create": "series", "timeseries": {"timeField": "at", "metaField": "m", "granularity": "minutes"}, "expireAfterSeconds": 86400, "$db": db}, {}
    yield {"create": "view", "viewOn": "f", "pipeline": [{"$match": {"a": {"$gt": 0}}}], "$db": db}, {}
    yield {"create": "clustered", "clusteredIndex": {"key": {"_id": 1}, "unique": True}, "$db": db}, {}
    yield {"collMod": "g", "validator": {"a": {"$type": "int"}}, "validationAction": "warn", "$db": db}, {}
    yield {"collMod": "f", "index": {"keyPattern": {"a": 1, "b": -1}, "hidden": True}, "$db": db}, {}
    yield {"createIndexes": "f", "indexes": [{"key": {"a": 1, "b": -1}, "name": "ab", "unique": False, "hidden": False}], "$db": db}, {}
    yield {"createIndexes": "f", "indexes": [
        {"key": {"t": 1}, "name": "t", "sparse": True, "collation": {"locale": "sv"}}, {"key": {"$**": 1}, "name": "all", "wildcardProjection": {"a": 1}},
        {"key": {"when": 1}, "name": "when", "expireAfterSeconds": 3600, "partialFilterExpression": {"n": {"$gt": 1}}}], "$db": db}, {}
    yield {"createIndexes": "geo", "indexes": [{"key": {"at": "2dsphere"}, "name": "at"}, {"key": {"flat": "2d"}, "name": "flat", "bits": 20}], "$db": db}, {}
    yield {"dropIndexes": "f", "index": "ab", "$db": db}, {}
    yield {"listIndexes": "f", "cursor": {}, "$db": db}, {}
    yield {"createSearchIndexes": "f", "indexes": [{"name": "near", "type": "vectorSearch", "definition": VECTOR}], "$db": db}, {}
    yield {"updateSearchIndex": "f", "name": "near", "definition": VECTOR, "$db": db}, {}
    yield {"listSearchIndexes": "f", "name": "near", "$db": db}, {}
    yield {"dropSearchIndex": "f", "name": "near", "$db": db}, {}
    yield {"listCollections": 1, "filter": {"name": "f"}, "nameOnly": False, "cursor": {}, "$db": db}, {}
    yield {"renameCollection": f"{db}.g", "to": f"{db}.h", "dropTarget": True, "$db": "admin"}, {}
    yield {"convertToCapped": "h", "size": 100_000, "max": 10, "$db": db}, {}
    yield {"drop": "h", "$db": db}, {}
    yield {"dropDatabase": 1, "$db": f"{db}-dropped"}, {}


def statistics(db):
    """What the server tells of itself and its data."""
    yield PING, {}
    yield {"buildInfo": 1, "$db": "admin"}, {}
    yield {"collStats": "f", "scale": 1024, "$db": db}, {}
    yield {"connPoolStats": 1, "$db": "admin"}, {}
    yield {"currentOp": 1, "$all": True, "secs_running": {"$gt": 1}, "$db": "admin"}, {}
    yield {"dataSize": f"{db}.f", "estimate": True, "$db": db}, {}
    yield {"dbHash": 1, "collections": ["f"], "$db": db}, {}
    yield {"dbStats": 1, "scale": 1024, "freeStorage": 1, "$db": db}, {}
    for explained in [{"find": "f", "filter": {"a": 1}}, {"aggregate": "f", "pipeline": [{"$group": {"_id": "$a"}}], "cursor": {}},
                      {"update": "f", "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 1}}, "multi": True}]},
                      {"delete": "f", "deletes": [{"q": {"a": 1}, "limit": 0}]}, {"findAndModify": "f", "query": {"a": 1}, "remove": True},
                      {"count": "f", "query": {"a": 1}}, {"distinct": "f", "key": "a", "query": {"b": 1}}]:
        yield {"explain": explained, "verbosity": "executionStats", "$db": db}, {}
    yield {"getCmdLineOpts": 1, "$db": "admin"}, {}
    yield {"getDefaultRWConcern": 1, "inMemory": True, "$db": "admin"}, {}
    yield {"getLog": "global", "$db": "admin"}, {}
    yield {"getParameter": 1, "cursorTimeoutMillis": 1, "$db": "admin"}, {}
    yield {"hostInfo": 1, "$db": "admin"}, {}
    yield {"listCommands": 1, "$db": "admin"}, {}
    yield {"listDatabases": 1, "filter": {"name": db}, "nameOnly": True, "$db": "admin"}, {}
    yield {"replSetGetConfig": 1, "$db": "admin"}, {}
    yield {"replSetGetStatus": 1, "$db": "admin"}, {}
    yield {"serverStatus": 1, "metrics": 1, "$db": "admin"}, {}
    yield {"top": 1, "$db": "admin"}, {}
    yield {"reIndex": "f", "$db": db}, {}
    yield {"validate": "f", "full": True, "$db": db}, {}
    yield {"whatsmyuri": 1, "$db": "admin"}, {}


def administration(db):
    """What operators do. A backup needs an absolute path, which no change makes of this one."""
    yield {"backupStatus": 1, "$db": "admin"}, {}
    yield {"backupTo": "relative", "$db": "admin"}, {}
    yield {"compact": "f", "force": True, "$db": db}, {}
    yield {"configureFailPoint": "failCommand", "mode": "off", "data": {"failCommands": ["find"], "errorCode": 91, "errorLabels": ["x"]}, "$db": "admin"}, {}
    # Without `lock`: what is sent after it would wait.
    yield {"fsync": 1, "$db": "admin"}, {}
    yield {"fsyncUnlock": 1, "$db": "admin"}, {}
    yield {"setFeatureCompatibilityVersion": "8.0", "confirm": True, "$db": "admin"}, {}
    yield {"killOp": 1, "op": 5, "$db": "admin"}, {}
    yield {"logRotate": "server", "$db": "admin"}, {}
    yield {"planCacheClear": "f", "query": {"a": 1}, "sort": {"b": 1}, "$db": db}, {}
    yield {"planCacheClearFilters": "f", "$db": db}, {}
    yield {"planCacheListFilters": "f", "$db": db}, {}
    yield {"profile": 2, "sampleRate": 1.0, "$db": db}, {}
    yield {"setParameter": 1, "cursorTimeoutMillis": 600_000, "logComponentVerbosity": {"verbosity": 0, "command": {"verbosity": -1}}, "$db": "admin"}, {}
    for name in ("endSessions", "killSessions", "refreshSessions"):
        yield {name: [SESSION["lsid"]], "$db": "admin"}, {}
    yield {"killAllSessions": [], "$db": "admin"}, {}
    yield {"killAllSessionsByPattern": [{"users": [{"user": "nobody", "db": "admin"}]}], "$db": "admin"}, {}
    yield {"startSession": 1, "$db": "admin"}, {}


def authentication():
    """The handshake, and every mechanism, also in `hello`. All that needs no password."""
    first = Binary(f"n,,n={GUEST},r=abcdefghijklmnop".encode())
    last = Binary(b"c=biws,r=abcdefghijklmnop,p=" + b"A" * 43 + b"=")
    yield {"hello": 1, "$db": "admin", "client": {"application": {"name": "x"}, "driver": {"name": "d", "version": "1"}, "os": {"type": "Linux"}},
           "compression": ["zstd", "snappy"], "saslSupportedMechs": f"admin.{GUEST}", "helloOk": True}, {}
    yield {"hello": 1, "speculativeAuthenticate": {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": first, "db": "admin"}, "$db": "admin"}, {}
    yield {"isMaster": 1, "loadBalanced": False, "speculativeAuthenticate": {"authenticate": 1, "mechanism": "MONGODB-X509", "db": "$external"}, "$db": "admin"}, {}
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-1"):
        yield {"saslStart": 1, "mechanism": mechanism, "payload": first, "options": {"skipEmptyExchange": True}, "$db": "admin"}, {}
    for number in (EXCHANGE, 1):
        yield {"saslContinue": 1, "conversationId": number, "payload": last, "$db": "admin"}, {}
    yield {"authenticate": 1, "mechanism": "MONGODB-X509", "user": "CN=guest", "$db": "$external"}, {}
    yield {"connectionStatus": 1, "showPrivileges": True, "$db": "admin"}, {}
    yield {"logout": 1, "$db": "admin"}, {}


def users(db):
    """Users and roles, of a database of their own."""
    db += "-users"
    privilege = {"resource": {"db": db, "collection": ""}, "actions": ["find", "insert"]}
    yield {"createUser": "ann", "pwd": "secret", "roles": ["read", {"role": "readWrite", "db": db}], "mechanisms": ["SCRAM-SHA-256"],
           "customData": {"a": 1}, "$db": db}, {}
    yield {"updateUser": "ann", "roles": ["dbAdmin"], "customData": {"a": [1]}, "$db": db}, {}
    yield {"grantRolesToUser": "ann", "roles": ["userAdmin"], "$db": db}, {}
    yield {"revokeRolesFromUser": "ann", "roles": ["userAdmin"], "$db": db}, {}
    yield {"usersInfo": {"user": "ann", "db": db}, "showPrivileges": True, "showCredentials": False, "$db": db}, {}
    yield {"createRole": "clerk", "privileges": [privilege], "roles": ["read"], "$db": db}, {}
    yield {"updateRole": "clerk", "privileges": [privilege], "roles": [], "$db": db}, {}
    yield {"grantRolesToRole": "clerk", "roles": ["readWrite"], "$db": db}, {}
    yield {"revokeRolesFromRole": "clerk", "roles": ["readWrite"], "$db": db}, {}
    yield {"grantPrivilegesToRole": "clerk", "privileges": [privilege], "$db": db}, {}
    yield {"revokePrivilegesFromRole": "clerk", "privileges": [privilege], "$db": db}, {}
    yield {"rolesInfo": {"role": "clerk", "db": db}, "showPrivileges": True, "$db": db}, {}
    yield {"dropUser": "ann", "$db": db}, {}
    yield {"dropRole": "clerk", "$db": db}, {}
    yield {"dropAllUsersFromDatabase": 1, "$db": db}, {}
    yield {"dropAllRolesFromDatabase": 1, "$db": db}, {}


def commands(db):
    """Every command but those that are not sent, with the documents of their sections."""
    yield from definitions(db)
    # Often what reads and changes documents, so that there are some.
    for _ in range(3):
        yield from reads(db)
        yield from writes(db)
    for _ in range(2):
        yield from aggregates(db)
        yield from authentication()
        yield from transactions(db)
    for make in (statistics, administration, users):
        yield from make(db)


def without_a_seed(listed):
    """The commands that a server lists and that are not tried."""
    tried = {next(iter(command)) for command, _ in commands("fuzz")}
    return sorted(set(listed) - tried - set(NOT_SENT))


class Session:
    """Gives the commands of sessions numbers that go up, so that their transactions begin and end."""

    def __init__(self, rng):
        self.lsid, self.number = {"id": Binary(uuid.UUID(int=rng.getrandbits(128)).bytes, 4)}, 1

    def numbered(self, command):
        if "txnNumber" not in command:
            return command
        if "startTransaction" in command or "autocommit" not in command:
            self.number += 1
        return {**command, "lsid": self.lsid, "txnNumber": Int64(self.number)}


def text(value):
    return struct.pack("<H", len(value)) + value.encode()


def blob(value):
    return struct.pack("<I", len(value)) + value


#: Flags of requests of the native protocol.
RELAXED, UNORDERED, MULTI, UPSERT, EXACT, PROJECTED, DESCENDING = 2, 4, 4, 8, 4, 8, 4


def native_requests():
    """Requests of the native protocol: opcode, flags, body."""
    name, table = text("fuzz.f"), text("t")
    query, update = bson.encode({"a": {"$gt": 1}}), bson.encode({"$set": {"x": 1}})
    yield 0x02, 0, b"hello"
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-1"):
        yield 0x03, 0, text("admin") + text(mechanism) + blob(f"n,,n={GUEST},r=abcdefgh".encode())
    for number in (2, 1):
        yield 0x04, 0, struct.pack("<I", number) + blob(b"c=biws,r=abc,p=" + b"A" * 43 + b"=")
    # Statements: one of each kind is prepared as it is, and most numbers that a client may think of are tried.
    param = {"$param": 0}
    yield 0x05, 0, struct.pack("<H", 0x11) + name + bson.encode({"_id": param})
    yield 0x05, 0, struct.pack("<H", 0x10) + name + bson.encode({"_id": param, "a": [{"b": {"$param": 1}}], "c": "d"})
    yield 0x05, 0, struct.pack("<H", 0x12) + name + b"\3" + bson.encode({"a": {"$gt": param, "$in": [param]}}) + bson.encode({"a": 1}) + bson.encode({"a": 1})
    yield 0x05, 0, struct.pack("<H", 0x15) + name + bson.encode({"a": param}) + bson.encode({"$set": {"x": {"$param": 1}}})
    yield 0x05, 0, struct.pack("<H", 0x16) + name + bson.encode({"$and": [{"a": param}, {"b": {"$elemMatch": {"c": param}}}]})
    yield 0x05, 0, struct.pack("<H", 0x17) + name + bson.encode({"a": {"b": [param, {"$param": 1}]}})
    one, two = bson.encode({"": 1}), struct.pack("<I", 17) + b"\x10\0" + struct.pack("<I", 1) + b"\x10\0" + struct.pack("<I", 2) + b"\0"
    for statement in range(1, 7):
        number = struct.pack("<I", statement)
        yield 0x06, 0, number + one
        yield 0x06, 0, number + struct.pack("<I", 2) + two + two
        yield 0x06, 0, number + struct.pack("<IQQ", 1, 0, 0) + one
        yield 0x06, MULTI | UPSERT, number + two
        yield 0x06, 0, number + struct.pack("<Q", 1) + one
        yield 0x06, 0, number + struct.pack("<QQ", 0, 0) + two
    yield 0x07, 0, struct.pack("<I", 1)
    vectors = {"fields": [{"type": "vector", "path": "near", "numDimensions": 4, "similarity": "euclidean"}]}
    yield 0x19, 0, name + bson.encode({"key": {"a": 1}, "name": "a_1"})
    yield 0x19, 0, name + bson.encode({"name": "near", "type": "vectorSearch", "definition": vectors})
    yield 0x10, UNORDERED, name + struct.pack("<I", 3) + b"".join(map(bson.encode, ({"a": [1, {"b": "c"}]}, {"a": 2}, {"near": [1.0, 2.0, 3.0, 4.0]})))
    yield 0x11, 0, name + bson.encode({"_id": 1})
    yield 0x12, 0, name + struct.pack("<IQQB", 1, 0, 0, 0) + query
    yield 0x12, 0, name + struct.pack("<IQQB", 2, 1, 9, 3) + query + bson.encode({"a": -1}) + bson.encode({"a": 1})
    yield 0x13, 0, struct.pack("<QI", 1, 10)
    yield 0x14, 0, struct.pack("<Q", 1)
    yield 0x1D, 0, struct.pack("<QII", 1, 1, 2)
    yield 0x1E, 0, struct.pack("<QI", 1, 3)
    yield 0x15, MULTI | UPSERT, name + query + update
    yield 0x16, 0, name + struct.pack("<Q", 0) + bson.encode({"a": {"$gt": 1000}})
    yield 0x17, 0, name + struct.pack("<QQ", 0, 5) + query
    search = name + text("near") + struct.pack("<III", 5, 10, 4) + struct.pack("<ffff", 1, 2, 3, 4) + query
    yield 0x18, 0, search
    yield 0x18, EXACT | PROJECTED, search + bson.encode({"near": 0})
    yield 0x1A, 0, name
    yield 0x1C, 0, name + text("near") + bson.encode(vectors)
    yield 0x1B, 0, name + text("a_1")
    yield 0x1B, 0, name + text("near")
    yield 0x20, 0, table + blob(b"k")
    yield 0x21, RELAXED, table + blob(b"k") + blob(b"v")
    yield 0x22, 0, table + blob(b"k")
    yield 0x23, 0, table + b"\0\0" + struct.pack("<II", 0, 0)
    yield 0x23, DESCENDING, table + b"\1" + blob(b"a") + b"\2" + blob(b"z") + struct.pack("<II", 5, 100)
    yield 0x24, 0, table + struct.pack("<I", 2) + b"\1" + blob(b"k") + blob(b"v") + b"\0" + blob(b"x")
