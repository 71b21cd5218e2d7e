"""What runs and has run: currentOp, killOp, top, the profiler, the log, counters and parameters."""
import contextlib
import json
import threading
import time
import uuid

import bson
import pymongo
import pytest
from pymongo.errors import ExecutionTimeout, OperationFailure

from failures import code
from server import Server
from wire import Wire


@pytest.fixture
def slow(db):
    """A collection that keeps a cross join of itself busy for minutes."""
    db.slow.insert_many([{"_id": i, "n": i % 10, "text": "x" * 50} for i in range(20_000)])
    return db.slow


# Each looks at every pair of documents.
PAIRS = [{"$lookup": {"from": "slow", "let": {"n": "$n"}, "as": "pairs", "pipeline": [
    {"$match": {"$expr": {"$and": [{"$eq": ["$$n", -1]}, {"$ne": ["$text", "$$n"]}]}}}]}}, {"$match": {"pairs": {"$ne": []}}}]


def wait_for(client, **filter):
    for _ in range(200):
        found = client.admin.command("currentOp", **filter)["inprog"]
        if found:
            return found[0]
        time.sleep(0.02)
    raise AssertionError("it does not run")


def in_background(call):
    """Runs `call` on another thread; the result waits for it and returns what it raised."""
    raised = []

    def run():
        try:
            call()
        except pymongo.errors.PyMongoError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def join():
        thread.join(30)
        assert not thread.is_alive()
        return raised[0] if raised else None

    return join


def test_a_long_aggregation_is_listed_and_killed(server, client, slow):
    with server.client(appname="the-slow-one") as other:
        pairs = other[slow.database.name].slow
        join = in_background(lambda: list(pairs.aggregate(PAIRS, comment="look at me")))
        op = wait_for(client, planSummary="COLLSCAN", **{"command.comment": "look at me"})
        assert op["ns"] == slow.full_name and op["op"] == "command" and op["active"] is True
        assert op["appName"] == "the-slow-one" and op["client"].startswith("127.0.0.1:")
        assert op["command"]["aggregate"] == "slow" and op["secs_running"] >= 0 and op["desc"] == f"conn{op['connectionId']}"
        assert op["clientMetadata"]["driver"]["name"].startswith("PyMongo")
        began = time.monotonic()
        assert client.admin.command("killOp", op=op["opid"])["ok"] == 1
        assert join().code == 11601
        assert time.monotonic() - began < 5
        assert pairs.count_documents({}) == 20_000


@pytest.mark.parametrize("run", [
    lambda c: c.find_one({"$expr": {"$eq": [{"$reduce": {"input": {"$range": [0, 5000]}, "initialValue": 0,
                                                        "in": {"$add": ["$$value", "$$this"]}}}, -1]}}),
    lambda c: list(c.find({"$expr": {"$gt": [{"$reduce": {"input": {"$range": [0, 5000]}, "initialValue": 0,
                                                         "in": {"$add": ["$$value", "$$this"]}}}, -1]}}).sort("text", 1)),
    lambda c: c.count_documents({"$expr": {"$eq": [{"$reduce": {"input": {"$range": [0, 5000]}, "initialValue": 0,
                                                              "in": {"$add": ["$$value", "$$this"]}}}, -1]}}),
    lambda c: c.update_many({"$expr": {"$eq": [{"$reduce": {"input": {"$range": [0, 5000]}, "initialValue": 0,
                                                          "in": {"$add": ["$$value", "$$this"]}}}, -1]}}, {"$set": {"a": 1}}),
], ids=["find", "sort", "count", "update"])
def test_finds_sorts_counts_and_updates_are_killed(server, client, slow, run):
    with server.client() as other:
        join = in_background(lambda: run(other[slow.database.name].slow))
        op = wait_for(client, ns=slow.full_name)
        client.admin.command("killOp", op=op["opid"])
        assert join().code == 11601


def test_a_time_limit_ends_any_command(db, slow):
    expr = {"$expr": {"$eq": [{"$reduce": {"input": {"$range": [0, 5000]}, "initialValue": 0,
                                         "in": {"$add": ["$$value", "$$this"]}}}, -1]}}
    for command in [{"find": "slow", "filter": expr}, {"count": "slow", "query": expr},
                    {"distinct": "slow", "key": "n", "query": expr},
                    {"update": "slow", "updates": [{"q": expr, "u": {"$set": {"a": 1}}}]},
                    {"findAndModify": "slow", "query": expr, "remove": True}]:
        reply = db.command({**command, "maxTimeMS": 30}, check=False)
        found = reply["writeErrors"][0]["code"] if "writeErrors" in reply else reply.get("code")
        assert found == 50, (command, reply)
    assert code(lambda: db.command("ping", maxTimeMS="x")) == 14
    with pytest.raises(ExecutionTimeout):
        db.slow.find(expr).max_time_ms(30).to_list()


def test_few_documents_that_many_lookups_multiply_are_stopped_too(server, client, db):
    db.few.insert_many([{"_id": i} for i in range(50)])
    pipeline = [stage for n in range(5) for stage in (
        {"$lookup": {"from": "few", "pipeline": [], "as": f"x{n}"}}, {"$unwind": f"$x{n}"})] + [{"$count": "n"}]
    began = time.monotonic()
    assert code(lambda: list(db.few.aggregate(pipeline, maxTimeMS=100))) == 50
    with server.client() as other:
        join = in_background(lambda: list(other[db.name].few.aggregate(pipeline)))
        op = wait_for(client, ns=db.few.full_name)
        client.admin.command("killOp", op=op["opid"])
        assert join().code == 11601
    assert time.monotonic() - began < 15


def test_an_index_build_is_killed_and_leaves_no_index(server, client, db):
    db.c.insert_many([{"_id": i, "words": [f"word {j} of {i}" for j in range(60)]} for i in range(20_000)])
    with server.client() as other:
        join = in_background(lambda: other[db.name].c.create_index("words"))
        op = wait_for(client, **{"command.createIndexes": "c", "opid": {"$exists": True}})
        client.admin.command("killOp", op=op["opid"])
        assert join().code == 11601
    assert set(db.c.index_information()) == {"_id_"}
    db.c.create_index("words")


@pytest.mark.parametrize("kill", [
    lambda client, lsid: client.admin.command("killAllSessions", []),
    lambda client, lsid: client.admin.command("killAllSessionsByPattern", [{"lsid": lsid}]),
    lambda client, lsid: client.admin.command("killSessions", [lsid]),
    lambda client, lsid: client.admin.command("killSessions", []),
], ids=["all", "by pattern", "own", "all own"])
def test_killing_a_session_stops_what_it_runs_and_closes_its_cursors(server, client, slow, kill):
    """And of those that are not meant nothing: an operation and a cursor without a session go on."""
    with server.client() as other, other.start_session() as session, Wire(server) as wire:
        found = other[slow.database.name].slow.find({}, session=session, batch_size=2)
        next(found)
        without = wire.command({"find": "slow", "batchSize": 2, "$db": slow.database.name})["cursor"]["id"]
        join = in_background(lambda: list(other[slow.database.name].slow.aggregate(PAIRS, session=session, comment="of a session")))
        wait_for(client, **{"command.comment": "of a session"})
        kill(client, session.session_id)
        assert join().code == 11601
        assert code(lambda: list(found)) == 43
        more = wire.command({"getMore": without, "collection": "slow", "batchSize": 2, "$db": slow.database.name})
        assert len(more["cursor"]["nextBatch"]) == 2


@pytest.mark.parametrize("arguments, expected", [
    ({}, 4), ({"op": "x"}, 14), ({"op": 2**40}, 26823), ({"op": 1, "nonsense": 1}, 40415)])
def test_kill_op_refuses_bad_arguments(client, arguments, expected):
    assert code(lambda: client.admin.command({"killOp": 1, **arguments})) == expected
    assert code(lambda: client.other.command({"killOp": 1, "op": 1})) == 13


def test_an_operation_that_is_no_more_may_be_killed(client):
    assert client.admin.command("killOp", op=2_000_000_000)["info"] == "attempting to kill op"


def test_the_stages_of_a_whole_server(server, client, db):
    with server.client(appname="idler") as idler:
        idler.admin.command("ping")
        ops = list(client.admin.aggregate([{"$currentOp": {"allUsers": True, "idleConnections": True}},
                                           {"$match": {"appName": "idler"}}]))
        assert ops and all(op["active"] is False for op in ops)
    own, = client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.pipeline.0": {"$exists": True}}}])
    assert own["command"]["aggregate"] == 1
    assert code(lambda: list(db.aggregate([{"$currentOp": {}}]))) == 73
    assert code(lambda: list(db.c.aggregate([{"$currentOp": {}}]))) == 73
    assert code(lambda: list(client.admin.aggregate([{"$currentOp": {"nonsense": 1}}]))) == 40415
    assert code(lambda: list(client.admin.aggregate([{"$currentOp": 1}]))) == 9
    lsid = bson.Binary.from_uuid(uuid.uuid4())
    with Wire(server) as wire:
        command = {"insert": "c", "documents": [{}], "lsid": {"id": lsid}, "txnNumber": bson.Int64(7), "$db": db.name}
        assert wire.command(command)["n"] == 1
    local = db.aggregate([{"$listLocalSessions": {}}])
    stored = client.config["system.sessions"].aggregate([{"$listSessions": {"allUsers": True}}])
    for listed in (local, stored):
        assert bytes(lsid) in [bytes(each["_id"]["id"]) for each in listed]
    assert code(lambda: list(db.c.aggregate([{"$listLocalSessions": {}}]))) == 73
    assert code(lambda: list(db.c.aggregate([{"$listSessions": {}}]))) == 73


def test_server_status_counts_operations_and_documents(client, db):
    before = client.admin.command("serverStatus")
    db.c.insert_many([{"_id": i} for i in range(10)])
    db.c.bulk_write([pymongo.UpdateOne({"_id": i}, {"$set": {"a": 1}}) for i in range(3)])
    db.c.delete_many({"_id": {"$gte": 8}})
    assert len(list(db.c.find({}, batch_size=5))) == 8
    after = client.admin.command("serverStatus")
    ops = {kind: after["opcounters"][kind] - before["opcounters"][kind] for kind in after["opcounters"]}
    assert (ops["insert"], ops["update"], ops["delete"], ops["query"], ops["getmore"]) == (10, 3, 1, 1, 1)
    assert ops["command"] >= 1
    documents = {kind: after["metrics"]["document"][kind] - before["metrics"]["document"][kind]
                 for kind in after["metrics"]["document"]}
    assert documents == {"inserted": 10, "updated": 3, "deleted": 2, "returned": 8}
    assert after["network"]["numRequests"] > before["network"]["numRequests"]
    assert after["mem"]["resident"] > 0 and after["globalLock"]["activeClients"]["total"] >= 1
    assert "repl" not in after


def test_server_status_counts_errors_transactions_and_cursors_that_timed_out(client, db):
    def counted():
        status = client.admin.command("serverStatus")
        return status["asserts"]["user"], status["transactions"], status["metrics"]["cursor"]["timedOut"]

    db.c.insert_one({})
    errors, transactions, timed_out = counted()
    assert code(lambda: db.command("find", "c", filter={"$nonsense": 1})) == 2
    with client.start_session() as session:
        for ends in (session.commit_transaction, session.abort_transaction, session.commit_transaction):
            session.start_transaction()
            db.c.insert_one({}, session=session)
            assert counted()[1]["currentOpen"] == 1
            ends()
    after = counted()
    assert after[0] > errors and after[2] == timed_out
    assert {name: after[1][name] - transactions[name] for name in transactions} == {
        "currentOpen": 0, "totalStarted": 3, "totalCommitted": 2, "totalAborted": 1}


def test_statements_of_writes_are_counted_if_they_were_executed(client, db):
    def counted(run):
        before = client.admin.command("serverStatus")["opcounters"]
        with contextlib.suppress(OperationFailure):
            run()
        after = client.admin.command("serverStatus")["opcounters"]
        return [after[kind] - before[kind] for kind in ("insert", "update", "delete")]

    db.c.insert_one({"_id": 3})
    documents = [{"_id": i} for i in range(10)]
    # An ordered write ends with the first statement that fails.
    assert counted(lambda: db.c.insert_many(documents)) == [4, 0, 0]
    assert counted(lambda: db.c.insert_many(documents, ordered=False)) == [10, 0, 0]
    updates = [{"q": {}, "u": {"$set": {"a": 1}}}, {"q": {}, "u": {"$nonsense": {"a": 1}}}, {"q": {}, "u": {"$set": {"a": 2}}}]
    assert counted(lambda: db.command({"update": "c", "updates": updates})) == [0, 2, 0]
    # What is refused as a whole counts once.
    assert counted(lambda: db.command({"insert": "c", "documents": documents, "ordered": "yes"})) == [1, 0, 0]
    assert counted(lambda: db.command({"delete": "c", "deletes": [{"q": {}}] * 5})) == [0, 0, 1]


def test_server_status_counts_the_cursors_that_timed_out(tmp_path):
    server = Server(tmp_path, "--cursor-seconds", "1")
    with server.client() as client:
        client.shop.c.insert_many([{} for _ in range(200)])
        timed_out = lambda: client.admin.command("serverStatus")["metrics"]["cursor"]["timedOut"]
        assert timed_out() == 0
        opened = client.shop.command("find", "c")["cursor"]["id"]
        until = time.monotonic() + 20
        while timed_out() == 0 and time.monotonic() < until:
            time.sleep(0.1)
        assert timed_out() == 1
        assert code(lambda: client.shop.command("getMore", opened, collection="c")) == 43
    assert server.stop() == 0


@pytest.mark.parametrize("run, lock", [
    (lambda c: c.find_one(), "readLock"),
    (lambda c: c.count_documents({}), "readLock"),
    (lambda c: c.distinct("a"), "readLock"),
    (lambda c: list(c.list_indexes()), "readLock"),
    (lambda c: list(c.aggregate([{"$match": {}}])), "readLock"),
    (lambda c: list(c.aggregate([{"$match": {}}, {"$out": "copy"}])), "writeLock"),
    (lambda c: list(c.aggregate([{"$merge": "copy"}])), "writeLock"),
    (lambda c: c.insert_one({}), "writeLock"),
    (lambda c: c.find_one_and_update({}, {"$set": {"a": 1}}), "writeLock"),
    (lambda c: c.create_index("a"), "writeLock"),
    (lambda c: c.database.command("collMod", c.name, validationLevel="off"), "writeLock"),
])
def test_top_tells_those_that_read_from_those_that_write(client, db, run, lock):
    db.c.insert_one({"_id": 1})

    def counted():
        found = client.admin.command("top")["totals"][db.c.full_name]
        return {name: found[name]["count"] for name in ("readLock", "writeLock")}

    before = counted()
    run(db.c)
    assert {name: count - before[name] for name, count in counted().items()} == {"readLock": 0, "writeLock": 0, lock: 1}


def test_top_counts_by_collection_and_forgets_what_is_dropped(client, db):
    db.c.insert_one({"_id": 1})
    db.c.find_one()
    db.c.update_one({}, {"$set": {"a": 1}})
    db.c.delete_one({})
    totals = client.admin.command("top")["totals"]
    found = totals[f"{db.name}.c"]
    assert [found[kind]["count"] for kind in ("insert", "queries", "update", "remove", "total")] == [1, 1, 1, 1, 4]
    assert found["writeLock"]["time"] >= found["insert"]["time"] > 0 and found["readLock"]["count"] == 1
    # What no collection can be called is refused and not counted.
    assert code(lambda: db.command("find", "a\0b")) == 73
    db.drop_collection("c")
    assert f"{db.name}.c" not in client.admin.command("top")["totals"]


def test_the_profiler_keeps_what_its_level_says(client, db):
    assert db.command("profile", -1) == {"was": 0, "slowms": 100, "sampleRate": 1.0, "ok": 1.0}
    db.command("profile", 2)
    try:
        db.c.insert_many([{"_id": i} for i in range(5)])
        list(db.c.find({"_id": {"$gt": 1}}, comment="kept"))
        with pytest.raises(OperationFailure):
            list(db.c.find({"$nonsense": 1}))
        db.c.insert_one({"text": "y" * 5_000})
        kept = list(db["system.profile"].find().sort("$natural", 1))
        assert [each["op"] for each in kept] == ["insert", "query", "query", "insert"]
        found = db["system.profile"].find_one({"command.comment": "kept"})
        assert found["ns"] == f"{db.name}.c" and found["nreturned"] == 3 and found["millis"] >= 0
        failed, = db["system.profile"].find({"ok": 0}, {"errCode": 1, "errName": 1})
        assert (failed["errCode"], failed["errName"]) == (2, "BadValue")
        assert db["system.profile"].count_documents({"op": "insert"}) == 2
        assert db.command("count", "system.profile", query={"op": "query"})["n"] == 2
        # Commands are kept by their beginning, so that the profiler takes little memory.
        assert all(len(str(each)) < 4_000 for each in kept)
        assert db.command("profile", 1, slowms=60_000)["was"] == 2
        list(db.c.find())
        assert db["system.profile"].count_documents({}) == 4
    finally:
        db.command("profile", 0, slowms=100)
    assert code(lambda: db.command("profile", "x")) == 14


def test_the_profile_is_read_and_dropped_as_a_collection_is(client, db):
    profile = db["system.profile"]
    db.command("profile", 2)
    db.c.insert_many([{"_id": i} for i in range(5)])
    list(db.c.find(comment="one"))
    list(db.c.find({"_id": 1}, comment="two"))
    assert sorted(profile.distinct("op")) == ["insert", "query"]
    assert profile.distinct("command.comment", {"op": "query"}) == ["one", "two"]
    assert profile.distinct("command.filter._id") == [1]
    stats = db.command("collStats", "system.profile")
    assert (stats["ns"], stats["count"], stats["capped"], stats["max"]) == (profile.full_name, 3, True, 1000)
    assert 0 < stats["size"] < stats["maxSize"]
    [staged] = profile.aggregate([{"$collStats": {"storageStats": {}, "count": {}}}])
    assert (staged["count"], staged["storageStats"]["capped"]) == (3, True)
    # The way to another size: off, dropped, created, on again.
    assert code(lambda: profile.drop()) == 20
    assert code(lambda: db.command("create", "system.profile", capped=True, size=1 << 20)) == 48
    db.command("profile", 0)
    assert db.command("drop", "system.profile")["ns"] == profile.full_name
    assert profile.count_documents({}) == 0 and db.command("drop", "system.profile")["ok"] == 1
    assert code(lambda: db.command("create", "system.profile")) == 72
    assert db.command("create", "system.profile", capped=True, size=4_000_000)["ok"] == 1
    db.command("profile", 2)
    list(db.c.find())
    db.command("profile", 0)
    assert profile.count_documents({}) == 1
    for refused in ({"insert": "system.profile", "documents": [{}]}, {"create": "system.views"}, {"drop": "system.users"}):
        assert code(lambda: db.command(refused)) == 73


#: What is done with a collection that has indexes on `a`, on `b` and `c`, and of the locations `p`; its kind of operation; and how
#: its documents are found.
FOUND = [
    (lambda c: c.find_one({"_id": 3}), "query", "IDHACK"),
    (lambda c: c.find_one({"a": 3}), "query", "IXSCAN { a: 1 }"),
    (lambda c: c.find_one({"_id": {"$gt": 290}}), "query", "IXSCAN { _id: 1 }"),
    (lambda c: list(c.find({"b": {"$gt": 1, "$lt": 4}})), "query", "IXSCAN { b: 1, c: -1 }"),
    (lambda c: list(c.find({"$or": [{"a": 1}, {"b": 2}]})), "query", "IXSCAN { a: 1 }, IXSCAN { b: 1, c: -1 }"),
    (lambda c: list(c.find({"x": 1})), "query", "COLLSCAN"),
    (lambda c: list(c.find({"a": 3}).hint([("$natural", 1)])), "query", "COLLSCAN"),
    (lambda c: list(c.find({"p": {"$near": {"$geometry": {"type": "Point", "coordinates": [0, 0]}}}}).limit(1)),
     "query", 'GEO_NEAR_2DSPHERE { p: "2dsphere" }'),
    (lambda c: list(c.database.missing.find({"a": 1})), "query", "EOF"),
    (lambda c: c.database.command("count", "c", query={"a": 3}), "command", "COUNT_SCAN { a: 1 }"),
    (lambda c: c.database.command("count", "c", query={"x": 3}), "command", "COLLSCAN"),
    (lambda c: c.estimated_document_count(), "command", "RECORD_STORE_FAST_COUNT"),
    (lambda c: c.count_documents({}), "command", "RECORD_STORE_FAST_COUNT"),
    (lambda c: c.distinct("a"), "command", "DISTINCT_SCAN { a: 1 }"),
    (lambda c: c.distinct("x", {"a": 3}), "command", "IXSCAN { a: 1 }"),
    (lambda c: c.update_one({"_id": 5}, {"$set": {"y": 1}}), "update", "IDHACK"),
    (lambda c: c.update_many({"a": 5}, {"$set": {"y": 1}}), "update", "IXSCAN { a: 1 }"),
    (lambda c: c.find_one_and_update({"x": 5}, {"$set": {"y": 1}}), "command", "COLLSCAN"),
    (lambda c: c.delete_many({"b": 100}), "remove", "IXSCAN { b: 1, c: -1 }"),
    # Of the collection that is read first, not of those that are looked up.
    (lambda c: list(c.aggregate([{"$match": {"a": 3}}, {"$lookup": {"from": "c", "localField": "x", "foreignField": "y", "as": "z"}}])),
     "command", "IXSCAN { a: 1 }"),
    (lambda c: list(c.aggregate([{"$limit": 9}, {"$lookup": {"from": "c", "localField": "x", "foreignField": "a", "as": "z"}}])),
     "command", "COLLSCAN"),
    (lambda c: list(c.aggregate([{"$group": {"_id": "$x", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}, {"$limit": 9}])), "command", "COLLSCAN"),
    (lambda c: c.insert_one({"a": 3}), "insert", None),
    (lambda c: c.database.command("ping"), "command", None),
]


def test_the_profiler_says_how_the_documents_were_found(db):
    db.c.insert_many([{"_id": i, "a": i, "b": i, "c": i, "x": i, "p": [i / 10, 0]} for i in range(300)])
    db.c.create_indexes([pymongo.IndexModel("a"), pymongo.IndexModel([("b", 1), ("c", -1)]),
                         pymongo.IndexModel([("p", "2dsphere")])])
    db.command("profile", 2)
    try:
        for run, _, _ in FOUND:
            run(db.c)
        kept = list(db["system.profile"].find().sort("$natural", 1))
    finally:
        db.command("profile", 0)
    assert [(each["op"], each.get("planSummary")) for each in kept] == [(op, plan) for _, op, plan in FOUND]


def test_the_batches_of_a_cursor_have_the_plan_that_opened_it(db):
    db.c.insert_many([{"_id": i, "a": i} for i in range(10)])
    db.c.create_index("a")
    db.command("profile", 2)
    try:
        assert len(list(db.c.find({"a": {"$gt": 1}}, batch_size=3))) == 8
        assert len(list(db.c.aggregate([{"$sort": {"x": 1}}], batchSize=8))) == 10
        kept = list(db["system.profile"].find().sort("$natural", 1))
    finally:
        db.command("profile", 0)
    index = "IXSCAN { a: 1 }"
    assert [(each["op"], each.get("planSummary")) for each in kept] == [
        ("query", index), ("getmore", index), ("getmore", index), ("command", "COLLSCAN"), ("getmore", "COLLSCAN")]


def test_the_records_of_retryable_writes_are_no_part_of_a_plan(tmp_path):
    server = Server(tmp_path, "--replica-set", "rs0")
    with server.client(replicaSet="rs0") as client:
        db = client.plans
        db.c.insert_many([{"_id": i, "x": i} for i in range(5)])
        db.command("profile", 2)
        with client.start_session() as session:
            for i in range(3):
                db.c.insert_one({"_id": 10 + i}, session=session)
                assert db.c.update_one({"x": i}, {"$set": {"y": 1}}, session=session).modified_count == 1
        kept = list(db["system.profile"].find().sort("$natural", 1))
        assert all("txnNumber" in each["command"] for each in kept)
        assert [(each["op"], each.get("planSummary")) for each in kept] == [("insert", None), ("update", "COLLSCAN")] * 3
    assert server.stop() == 0


def test_slow_operations_are_logged_without_what_users_store(server, client, db):
    db.command("profile", 0, slowms=0)
    try:
        db.c.insert_one({})
        list(db.c.find({"name": "do not log me"}))
    finally:
        db.command("profile", 0, slowms=100)
    lines = [json.loads(line) for line in client.admin.command({"getLog": "global"})["log"]]
    slow = [line for line in lines if line["msg"] == "slow operation" and line["attr"]["namespace"] == f"{db.name}.c"
            and line["attr"]["command"] == "find"]
    assert slow and slow[0]["attr"]["plan"] == "COLLSCAN"
    assert slow[0]["attr"]["command"] == "find" and slow[0]["s"] == "I" and "$date" in slow[0]["t"]
    assert not [line for line in lines if line["s"] == "I" and "do not log me" in json.dumps(line)]


def test_parameters_are_read_and_changed(client):
    admin = client.admin
    was = admin.command({"getParameter": 1, "cursorTimeoutMillis": 1})["cursorTimeoutMillis"]
    try:
        assert admin.command({"setParameter": 1, "cursorTimeoutMillis": 1234})["was"] == was
        assert admin.command({"getParameter": 1, "cursorTimeoutMillis": 1})["cursorTimeoutMillis"] == 1234
    finally:
        admin.command({"setParameter": 1, "cursorTimeoutMillis": was})
    assert admin.command({"setParameter": 1, "logLevel": 1})["was"] == 1
    assert admin.command({"getParameter": 1, "transactionLifetimeLimitSeconds": 1})["transactionLifetimeLimitSeconds"] == 60
    for command, expected in [({"nonsense": 1}, 72), ({}, 72), ({"maxBSONDepth": 5}, 20), ({"logLevel": 9}, 2),
                              ({"cursorTimeoutMillis": 0}, 2), ({"cursorTimeoutMillis": "x"}, 14)]:
        assert code(lambda: admin.command({"setParameter": 1, **command})) == expected


def test_a_replica_set_says_what_it_is(tmp_path, client):
    for name in ("replSetGetStatus", "replSetGetConfig"):
        assert code(lambda: client.admin.command(name)) == 76
    assert client.admin.command("connPoolStats")["totalCreated"] == 0
    server = Server(tmp_path, "--replica-set", "rs0")
    with server.client() as member:
        status = member.admin.command("replSetGetStatus")
        assert (status["set"], status["myState"]) == ("rs0", 1)
        assert [each["stateStr"] for each in status["members"]] == ["PRIMARY"]
        config = member.admin.command("replSetGetConfig")["config"]
        assert config["_id"] == "rs0" and config["members"][0]["host"] == status["members"][0]["name"]
        assert member.admin.command("serverStatus")["repl"]["setName"] == "rs0"
    assert server.stop() == 0


def test_what_is_refused_is_neither_counted_nor_kept_and_long_names_are_cut(client, db):
    db.command("profile", 2)
    try:
        with pytest.raises(OperationFailure):
            db.command("find", "x" * 2_000_000)
        kept, = db["system.profile"].find()
        assert len(kept["ns"]) < 400 and len(bson.encode(kept)) < 4_000
    finally:
        db.command("profile", 0)
    client.drop_database(db.name)
    db.c.insert_one({})
    client.drop_database(db.name)
    assert db["system.profile"].count_documents({}) == 0


def test_the_profile_is_read_with_variables_and_collations(db):
    db.command("profile", 2)
    try:
        db.c.insert_one({"_id": 1})
        found = db["system.profile"].find({"op": "INSERT"}, collation={"locale": "en", "strength": 2})
        assert [each["ns"] for each in found] == [f"{db.name}.c"]
        found = db["system.profile"].find({"$expr": {"$eq": ["$op", "$$kind"]}}, let={"kind": "insert"})
        assert [each["op"] for each in found] == ["insert"]
    finally:
        db.command("profile", 0)
