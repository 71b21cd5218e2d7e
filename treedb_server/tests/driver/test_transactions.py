"""Transactions and retryable writes, as PyMongo and the wire use them."""
import concurrent.futures
import contextlib
import datetime
import signal
import socket
import threading
import time
import uuid

import bson
import pymongo
import pytest
from pymongo.errors import ConnectionFailure, DuplicateKeyError, OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from failures import code
from server import Server
from wire import Wire

TRANSIENT = "TransientTransactionError"


def connect(server, **options):
    """A client that finds the replica set by itself, as one does that is given nothing but the address."""
    return pymongo.MongoClient(*server.addresses["mongo"], **{"serverSelectionTimeoutMS": 5000, "socketTimeoutMS": 30000, **options})


@pytest.fixture(scope="module")
def member(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("member"), "--replica-set", "rs0", "--transaction-seconds", "2")
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


@pytest.fixture(scope="module")
def client(member):
    with connect(member) as client:
        yield client


def numbered(number, kind, session=None, **more):
    """The fields of a command of a session: 'write', 'begin' or 'continue'."""
    fields = {"lsid": {"id": bson.Binary(session or bytes(16), 4)}, "txnNumber": bson.Int64(number), **more}
    if kind != "write":
        fields["autocommit"] = False
    if kind == "begin":
        fields["startTransaction"] = True
    return fields


class Raw:
    """Commands as they are: a driver would put a session of its own in the place of theirs."""

    def __init__(self, server, database):
        self.wire, self.database = Wire(server), database

    def __call__(self, command, database=None):
        reply = self.wire.command({**command, "$db": database or self.database})
        if reply["ok"] != 1.0:
            raise OperationFailure(reply["errmsg"], reply["code"], reply)
        return reply

    def admin(self, command):
        return self(command, "admin")


@pytest.fixture
def raw(member, db):
    raw = Raw(member, db.name)
    with raw.wire:
        yield raw


def test_drivers_see_a_replica_set_of_one(member, client):
    hello = client.admin.command("hello")
    address = "{}:{}".format(*member.addresses["mongo"])
    assert hello["setName"] == "rs0" and hello["me"] == hello["primary"] == address and hello["hosts"] == [address]
    assert client.topology_description.topology_type_name == "ReplicaSetWithPrimary"
    assert client.topology_description.replica_set_name == "rs0"
    with pymongo.MongoClient(*member.addresses["mongo"], replicaSet="other", serverSelectionTimeoutMS=300) as wrong:
        with pytest.raises(ConnectionFailure):
            wrong.admin.command("ping")


def test_a_transaction_reads_its_own_writes_and_nobody_else_does_before_the_commit(db):
    db.a.insert_one({"_id": 0, "n": 1})
    with db.client.start_session() as session:
        with session.start_transaction():
            db.a.insert_many([{"_id": i} for i in range(1, 300)], session=session)
            db.b.insert_one({"_id": 1, "x": 1}, session=session)
            assert db.a.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session).modified_count == 1
            assert db.a.update_many({"_id": {"$gt": 290}}, {"$set": {"z": 1}}, session=session).modified_count == 9
            assert db.a.delete_many({"_id": {"$gt": 295}}, session=session).deleted_count == 4
            assert db.b.find_one_and_update({}, {"$inc": {"x": 1}}, session=session, return_document=True)["x"] == 2
            # More than one batch.
            assert len(list(db.a.find({}, session=session, batch_size=50))) == 296
            assert sorted(db.a.distinct("n", session=session)) == [2]
            assert db.a.count_documents({}) == 1 and db.b.count_documents({}) == 0
        assert db.a.count_documents({}) == 296 and db.a.find_one({"_id": 0})["n"] == 2
        assert db.b.find_one() == {"_id": 1, "x": 2}


def test_an_aborted_transaction_leaves_nothing_and_its_cursors_are_closed(db):
    db.a.insert_many([{"_id": i} for i in range(10)])
    with db.client.start_session() as session:
        session.start_transaction()
        db.a.insert_one({"_id": 99}, session=session)
        cursor = db.a.find({}, session=session, batch_size=2)
        next(cursor)
        outside = {"getMore": bson.Int64(cursor.cursor_id), "collection": "a"}
        assert code(db.command, outside) == 50740
        session.abort_transaction()
        assert db.a.find_one({"_id": 99}) is None
        assert code(db.command, outside) == 43
        # The session continues.
        with session.start_transaction():
            db.a.insert_one({"_id": 100}, session=session)
    assert db.a.find_one({"_id": 100})


def test_the_second_of_two_that_change_one_document_gets_a_conflict_it_may_retry(db):
    db.a.insert_one({"_id": 0, "n": 0})
    with db.client.start_session() as one, db.client.start_session() as two:
        one.start_transaction()
        two.start_transaction()
        for session in one, two:
            assert db.a.find_one({}, session=session)["n"] == 0
        db.a.update_one({"_id": 0}, {"$set": {"n": 1}}, session=one)
        db.b.insert_one({"_id": 2}, session=two)
        one.commit_transaction()
        with pytest.raises(OperationFailure) as failure:
            db.a.update_one({"_id": 0}, {"$set": {"n": 2}}, session=two)
        assert failure.value.code == 112 and failure.value.has_error_label(TRANSIENT)
        with pytest.raises(OperationFailure) as failure:
            two.commit_transaction()
        assert failure.value.code == 251 and failure.value.has_error_label(TRANSIENT)
    assert db.a.find_one()["n"] == 1 and db.b.find_one() is None


def test_of_two_open_transactions_that_change_one_document_the_second_fails_at_its_write(db):
    db.a.insert_many([{"_id": 0, "n": 0}, {"_id": 1, "n": 0}])
    db.a.create_index("u", unique=True, sparse=True)
    writes = [
        lambda session: db.a.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session),
        lambda session: db.a.delete_one({"_id": 0}, session=session),
        lambda session: db.a.find_one_and_update({"n": 0}, {"$inc": {"n": 1}}, session=session),
        lambda session: db.a.insert_one({"_id": 7}, session=session),
        lambda session: db.a.insert_one({"u": 7}, session=session),
    ]
    for first, second in [(0, 0), (0, 1), (1, 0), (2, 2), (3, 3), (4, 4)]:
        with db.client.start_session() as one, db.client.start_session() as two:
            one.start_transaction()
            two.start_transaction()
            writes[first](one)
            began = time.monotonic()
            with pytest.raises(OperationFailure) as failure:
                writes[second](two)
            assert failure.value.code == 112 and failure.value.has_error_label(TRANSIENT)
            assert time.monotonic() - began < 1
            # The first may commit, the second is over.
            assert code(db.a.find_one, {}, session=two) == 251
            one.abort_transaction()
    assert db.a.find_one({"_id": 0})["n"] == 0


def waits(pool, work):
    """Starts work that has to wait for a transaction."""
    future = pool.submit(work)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0.3)
    return future


@pytest.mark.parametrize("retries", [True, False])
def test_a_write_beside_a_transaction_that_has_changed_the_document_waits_for_it(member, db, retries):
    with connect(member, retryWrites=retries) as other, concurrent.futures.ThreadPoolExecutor(4) as pool:
        own = other[db.name].a
        for ending in ["commit_transaction", "abort_transaction"]:
            db.a.delete_many({})
            db.a.insert_many([{"_id": i, "n": 0} for i in range(4)])
            with db.client.start_session() as session:
                session.start_transaction()
                db.a.update_one({"_id": 0}, {"$set": {"n": 10}}, session=session)
                db.a.insert_one({"_id": 9, "n": 0}, session=session)
                # What it has not changed can be written.
                own.update_one({"_id": 1}, {"$inc": {"n": 1}})
                futures = [
                    waits(pool, lambda: own.update_one({"_id": 0}, {"$inc": {"n": 1}})),
                    waits(pool, lambda: own.update_many({"_id": {"$gte": 0}}, {"$inc": {"n": 1}})),
                    waits(pool, lambda: own.find_one_and_update({"_id": 0}, {"$inc": {"n": 1}})),
                    waits(pool, lambda: code(own.insert_many, [{"_id": 9, "n": 0}, {"_id": 10, "n": 0}])
                          if ending == "commit_transaction" else own.insert_one({"_id": 9, "n": 0})),
                ]
                getattr(session, ending)()
                for future in futures:
                    future.result(10)
            assert db.a.find_one({"_id": 0})["n"] == (13 if ending == "commit_transaction" else 3)


def test_a_write_that_holds_the_memory_for_messages_does_not_wait_for_a_transaction_that_needs_it(tmp_path):
    server = Server(tmp_path, "--replica-set", "rs0", "--transaction-seconds", "20", "--max-inflight-bytes", "48MiB")
    with connect(server) as one, connect(server, retryWrites=False) as two, one.start_session() as session:
        one.db.a.insert_one({"_id": 0})
        session.start_transaction()
        one.db.a.insert_one({"_id": 1}, session=session)
        began = time.monotonic()
        large = [{"_id": i, "text": "x" * 10_000_000} for i in range(1, 5)]
        assert code(two.db.a.insert_many, large) == 112
        one.db.a.insert_one({"_id": 9, "text": "x" * 15_000_000}, session=session)
        session.commit_transaction()
        assert time.monotonic() - began < 10
        assert one.db.a.count_documents({}) == 3
    assert server.stop() == 0


def test_a_write_waits_longer_where_transactions_may_last_longer(tmp_path):
    server = Server(tmp_path, "--replica-set", "rs0", "--transaction-seconds", "1")
    with connect(server) as one, connect(server, retryWrites=False) as two, concurrent.futures.ThreadPoolExecutor() as pool:
        one.admin.command({"setParameter": 1, "transactionLifetimeLimitSeconds": 30})
        one.db.a.insert_one({"_id": 0, "n": 0})
        with one.start_session() as session:
            session.start_transaction()
            one.db.a.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session)
            write = pool.submit(two.db.a.update_one, {"_id": 0}, {"$inc": {"n": 1}})
            time.sleep(3)
            session.commit_transaction()
        assert write.result(10).modified_count == 1
        assert one.db.a.find_one()["n"] == 2
    assert server.stop() == 0


def test_statements_of_one_command_before_the_one_that_waits_are_applied_once(member, db):
    db.a.insert_many([{"_id": i, "n": 0} for i in range(3)])
    with connect(member) as other, concurrent.futures.ThreadPoolExecutor() as pool:
        own = other[db.name].a
        with db.client.start_session() as session:
            session.start_transaction()
            db.a.update_one({"_id": 1}, {"$set": {"n": 10}}, session=session)
            updates = [pymongo.UpdateOne({"_id": i}, {"$inc": {"n": 1}}) for i in range(3)]
            future = waits(pool, lambda: own.bulk_write(updates))
            session.commit_transaction()
            assert future.result(10).modified_count == 3
    assert [document["n"] for document in db.a.find().sort("_id")] == [1, 11, 1]


def test_waiting_ends_by_max_time_by_kill_op_and_when_the_transaction_expires(member, db):
    db.a.insert_one({"_id": 0, "n": 0})
    update = {"update": "a", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"n": 1}}}]}
    with db.client.start_session() as session, concurrent.futures.ThreadPoolExecutor() as pool:
        session.start_transaction()
        db.a.update_one({"_id": 0}, {"$set": {"n": 5}}, session=session)
        def ended(**more):
            [error] = db.command({**update, **more})["writeErrors"]
            return error["code"]
        assert ended(maxTimeMS=100) == 50
        killed = waits(pool, lambda: ended(comment="killed"))
        [found] = db.client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.comment": "killed"}}])
        db.client.admin.command("killOp", op=found["opid"])
        assert killed.result(5) == 11601
        # The transaction may live for two seconds.
        db.command(update)
        assert code(session.commit_transaction) == 251
    assert db.a.find_one()["n"] == 1


def test_a_client_that_crashes_in_a_transaction_holds_nobody_up_for_longer_than_it_may_live(member, db):
    db.a.insert_one({"_id": 0, "n": 0})
    raw = Raw(member, db.name)
    with raw.wire:
        raw({"update": "a", "updates": [{"q": {"_id": 0}, "u": {"$set": {"n": 5}}}],
             **numbered(1, "begin", uuid.uuid4().bytes)})
    began = time.monotonic()
    db.a.update_one({"_id": 0}, {"$inc": {"n": 1}})
    assert time.monotonic() - began < 10
    assert db.a.find_one()["n"] == 1


def test_many_writers_in_and_beside_transactions_lose_no_increment(member, db):
    db.a.insert_many([{"_id": i, "n": 0} for i in range(3)])
    done = [0, 0, 0]
    lock = threading.Lock()

    def work(number):
        with connect(member) as own:
            a = own[db.name].a
            for round in range(15):
                at = (number + round) % 3
                def both(session):
                    for i in at, (at + 1) % 3:
                        n = a.find_one({"_id": i}, session=session)["n"]
                        a.update_one({"_id": i}, {"$set": {"n": n + 1}}, session=session)
                if number % 2:
                    with own.start_session() as session:
                        session.with_transaction(both)
                    changed = [at, (at + 1) % 3]
                else:
                    a.update_one({"_id": at}, {"$inc": {"n": 1}})
                    changed = [at]
                with lock:
                    for i in changed:
                        done[i] += 1

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, number) for number in range(8)]:
            future.result(120)
    assert [document["n"] for document in db.a.find().sort("_id")] == done


def test_with_transaction_runs_what_conflicts_again(db):
    db.a.insert_one({"_id": 0, "n": 0})
    db.a.insert_one({"_id": 1, "n": 0})
    attempts = []

    def work(session):
        attempts.append(1)
        n = db.a.find_one({"_id": 0}, session=session)["n"]
        db.a.update_one({"_id": 0}, {"$set": {"n": n + 1}}, session=session)
        db.a.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)

    def client_of_its_own(_):
        for _ in range(10):
            with db.client.start_session() as session:
                session.with_transaction(work, ReadConcern("snapshot"), WriteConcern("majority"))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(client_of_its_own, range(4)))
    assert [document["n"] for document in db.a.find().sort("_id")] == [40, 40]
    assert len(attempts) >= 40


def test_a_statement_that_fails_ends_the_transaction(db):
    db.a.insert_one({"_id": 1})
    with db.client.start_session() as session:
        session.start_transaction()
        db.a.insert_one({"_id": 2}, session=session)
        with pytest.raises(DuplicateKeyError):
            db.a.insert_one({"_id": 1}, session=session)
        assert code(db.a.insert_one, {"_id": 3}, session=session) == 251
        session.abort_transaction()
    assert db.a.count_documents({}) == 1


def test_numbers_that_do_not_fit_are_told_apart(db, raw):
    session = uuid.uuid4().bytes
    def insert(number, kind):
        return {"insert": "a", "documents": [{"_id": bson.ObjectId()}], **numbered(number, kind, session)}
    def end(name, number):
        return {name: 1, **numbered(number, "continue", session)}
    assert code(raw, insert(1, "continue")) == 251
    raw(insert(5, "begin"))
    assert code(raw, insert(5, "begin")) == 117
    assert code(raw, insert(4, "begin")) == 225
    assert code(raw, insert(4, "write")) == 225
    assert code(raw, insert(6, "continue")) == 251
    assert code(raw, insert(5, "write")) == 217
    raw.admin(end("commitTransaction", 5))
    raw.admin(end("commitTransaction", 5))
    assert code(raw, insert(5, "continue")) == 256
    assert code(raw.admin, end("abortTransaction", 5)) == 256
    raw(insert(6, "begin"))
    raw.admin(end("abortTransaction", 6))
    assert code(raw.admin, end("commitTransaction", 6)) == 251
    # A greater number ends what was open.
    raw(insert(7, "begin"))
    raw(insert(8, "begin"))
    assert code(raw.admin, end("commitTransaction", 7)) == 225
    raw.admin(end("commitTransaction", 8))
    assert db.a.count_documents({}) == 2
    assert code(raw.admin, {"commitTransaction": 1}) == 125
    assert code(raw, end("commitTransaction", 8)) == 13
    assert code(raw, {**insert(9, "begin"), "writeConcern": {"w": 1}}) == 72
    assert code(raw, {"find": "a", **numbered(9, "begin", session, readConcern={"level": "linearizable"})}) == 72
    assert code(raw, {"find": "a", **numbered(9, "write", session)}) == 50768
    for command in ({"dropIndexes": "a", "index": "x"}, {"count": "a"}, {"drop": "a"}, {"ping": 1}, {"hello": 1}):
        assert code(raw, {**command, **numbered(9, "begin", session)}) == 263
    assert code(raw, insert(9, "begin"), "config") == 263


def test_a_transaction_that_nobody_goes_on_with_is_undone(db, raw):
    db.a.insert_one({"_id": 0})
    session, ended = uuid.uuid4().bytes, uuid.uuid4().bytes
    for number, of in (1, session), (1, ended):
        raw({"insert": "a", "documents": [{"_id": of}], **numbered(number, "begin", of)})
    cursor = raw({"find": "a", "batchSize": 1, **numbered(1, "continue", session)})["cursor"]["id"]
    raw.admin({"endSessions": [{"id": bson.Binary(ended, 4)}]})
    assert raw.admin({"serverStatus": 1})["transactions"]["currentOpen"] == 1
    assert code(raw.admin, {"commitTransaction": 1, **numbered(1, "continue", ended)}) == 251
    until = time.monotonic() + 10
    while raw.admin({"serverStatus": 1})["transactions"]["currentOpen"] and time.monotonic() < until:
        time.sleep(0.1)
    assert code(raw, {"getMore": cursor, "collection": "a"}) == 43
    assert code(raw, {"insert": "a", "documents": [{}], **numbered(1, "continue", session)}) == 251
    assert db.a.count_documents({}) == 1


def test_a_write_that_is_sent_again_is_not_applied_again(db, raw):
    session, numbers = uuid.uuid4().bytes, iter(range(1, 100))
    def twice(command):
        command = {**command, **numbered(next(numbers), "write", session)}
        first = raw(command)
        again = raw(command)
        for reply in first, again:
            del reply["$clusterTime"], reply["operationTime"]
        assert first == again
        return first
    assert twice({"insert": "a", "documents": [{"n": i} for i in range(3)]})["n"] == 3
    assert twice({"insert": "a", "documents": [{"_id": i, "n": 0} for i in range(3)]})["n"] == 3
    assert db.a.count_documents({}) == 6
    reply = twice({"update": "a", "updates": [
        {"q": {"_id": 0}, "u": {"$inc": {"n": 1}}}, {"q": {"_id": "new"}, "u": {"$inc": {"n": 1}}, "upsert": True},
        {"q": {"_id": "none"}, "u": {"$inc": {"n": 1}}}, {"q": {"_id": 1}, "u": {"$inc": {"n": 5}}}]})
    assert (reply["n"], reply["nModified"], reply["upserted"]) == (3, 2, [{"index": 1, "_id": "new"}])
    assert [db.a.find_one({"_id": i})["n"] for i in (0, 1, "new")] == [1, 5, 1]
    reply = twice({"findAndModify": "a", "query": {"_id": 0}, "update": {"$inc": {"n": 1}}, "new": True})
    assert reply["value"]["n"] == 2 == db.a.find_one({"_id": 0})["n"]
    assert twice({"delete": "a", "deletes": [{"q": {"n": 0}, "limit": 1}]})["n"] == 1
    assert db.a.count_documents({}) == 6
    many = {"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}
    refused = raw({"update": "a", "updates": [many], **numbered(next(numbers), "write", session)})
    assert refused["writeErrors"][0]["code"] == 72


def test_of_a_command_that_half_succeeded_the_rest_is_done_when_it_is_sent_again(db, raw):
    session = uuid.uuid4().bytes
    db.a.insert_one({"_id": 3})
    documents = [{"_id": i} for i in range(6)]
    for number, ordered, n, after in (1, True, 3, 4), (2, False, 2, 6):
        command = {"insert": "a", "documents": documents, "ordered": ordered, **numbered(number, "write", session)}
        first = raw(command)
        assert first["n"] == n and first["writeErrors"][0]["code"] == 11000
        assert db.a.count_documents({}) == after
    # What failed is tried again, what was done is not.
    db.a.delete_many({})
    again = raw(command)
    assert again["n"] == 6 and "writeErrors" not in again
    assert sorted(document["_id"] for document in db.a.find()) == [0, 1, 2, 3]


def test_the_driver_itself_sends_a_write_again_whose_answer_was_lost(member, tmp_path):
    """A wire in between that breaks when the answer comes."""
    cut = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def pump(source, sink, answers):
        try:
            while data := source.recv(65536):
                if answers and cut.is_set() and b"nModified" in data:
                    cut.clear()
                    break
                # The driver is to find the server under the address of the wire.
                sink.sendall(data.replace(b"%d\0" % member.addresses["mongo"][1], b"%d\0" % port) if answers else data)
        except OSError:
            pass
        for end in source, sink:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept():
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(member.addresses["mongo"])
            threading.Thread(target=pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=pump, args=(far, near, True), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    assert len(str(port)) == len(str(member.addresses["mongo"][1]))
    with pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=5000) as client:
        db = client[f"lost{port}"]
        db.a.insert_one({"_id": 0, "n": 0})
        cut.set()
        assert db.a.update_one({"_id": 0}, {"$inc": {"n": 1}}).modified_count == 1
        assert not cut.is_set()
        assert db.a.find_one()["n"] == 1
    listener.close()


def test_a_change_stream_begins_at_the_time_of_a_session(db, client):
    with client.start_session(causal_consistency=True) as session:
        db.a.insert_one({"_id": 1}, session=session)
        at = session.operation_time
        assert db.a.find_one({"_id": 1}, session=session)
        db.a.insert_one({"_id": 2}, session=session)
    # A transaction's changes are there with its commit.
    with client.start_session() as session, session.start_transaction():
        db.a.insert_one({"_id": 3}, session=session)
        db.b.insert_one({"_id": 4}, session=session)
    with client.watch([{"$match": {"ns.db": {"$in": [db.name, "config"]}}}], start_at_operation_time=at,
                      max_await_time_ms=200) as stream:
        events = []
        until = time.monotonic() + 10
        while len(events) < 4 and time.monotonic() < until:
            event = stream.try_next()
            events += [event["documentKey"]["_id"]] if event else []
        assert sorted(events) == [1, 2, 3, 4] and stream.try_next() is None


def test_what_was_committed_is_known_after_a_kill_and_what_was_not_is_gone(tmp_path):
    session = uuid.uuid4().bytes
    write = {"update": "a", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"n": 1}}}], **numbered(1, "write", session)}
    commit = {"commitTransaction": 1, **numbered(2, "continue", session)}

    def again():
        server = Server(tmp_path, "--replica-set", "rs0")
        return server, Raw(server, "db")

    def documents(raw):
        return [(d["_id"], d.get("n")) for d in raw({"find": "a", "sort": {"_id": 1}})["cursor"]["firstBatch"]]

    server, raw = again()
    raw({"insert": "a", "documents": [{"_id": 0, "n": 0}]})
    raw(write)
    server.stop(signal.SIGKILL)

    server, raw = again()
    assert raw(write)["nModified"] == 1
    assert documents(raw) == [(0, 1)]
    raw({"insert": "a", "documents": [{"_id": 1}], **numbered(2, "begin", session)})
    raw.admin(commit)
    server.stop(signal.SIGKILL)

    server, raw = again()
    assert documents(raw) == [(0, 1), (1, None)]
    raw.admin(commit)
    raw({"insert": "a", "documents": [{"_id": 2}], **numbered(3, "begin", session)})
    server.stop(signal.SIGKILL)

    server, raw = again()
    with pytest.raises(OperationFailure) as failure:
        raw.admin({"commitTransaction": 1, **numbered(3, "continue", session)})
    assert failure.value.code == 251 and failure.value.has_error_label(TRANSIENT)
    assert code(raw, write) == 225
    assert documents(raw) == [(0, 1), (1, None)]
    raw.wire.socket.close()
    assert server.stop() == 0


def test_a_pipeline_in_a_transaction_sees_its_changes_and_writes_nothing(client):
    db = client["pipelines"]
    db.users.insert_one({"_id": 1, "name": "ada"})
    with client.start_session() as session, session.start_transaction():
        db.orders.insert_many([{"user": 1, "much": n} for n in range(200)], session=session)
        join = [{"$lookup": {"from": "orders", "localField": "_id", "foreignField": "user", "as": "orders"}},
                {"$set": {"orders": {"$size": "$orders"}}}]
        assert list(db.users.aggregate(join, session=session)) == [{"_id": 1, "name": "ada", "orders": 200}]
        assert db.orders.count_documents({}, session=session) == 200
        # In several batches.
        listed = db.orders.aggregate([{"$sort": {"much": -1}}], session=session, batchSize=50)
        assert [order["much"] for order in listed] == list(range(199, -1, -1))
        assert db.orders.count_documents({}) == 0
    assert db.orders.count_documents({}) == 200
    with client.start_session() as session:
        session.start_transaction()
        assert code(db.orders.aggregate, [{"$out": "copy"}], session=session) == 263
        # What fails ends it.
        session.abort_transaction()


def test_reads_of_a_snapshot_session_see_one_time(client, db, raw):
    db.c.insert_many([{"_id": n, "k": n % 2} for n in range(4)])
    with client.start_session(snapshot=True) as session:
        assert db.c.distinct("k", session=session) == [0, 1]
        db.c.delete_many({"k": 1})
        db.c.insert_one({"_id": 9, "k": 2})
        assert [doc["_id"] for doc in db.c.find(session=session, batch_size=2).sort("_id")] == [0, 1, 2, 3]
        assert sorted(db.c.distinct("k", session=session)) == [0, 1]
        assert [doc["_id"] for doc in db.c.aggregate([{"$sort": {"_id": 1}}], session=session)] == [0, 1, 2, 3]
        assert db.c.count_documents({}, session=session) == 4
        with pytest.raises(OperationFailure) as refused:
            db.command("collStats", "c", session=session)
        assert refused.value.code == 72 and "aggregate, count, distinct, find do" in str(refused.value)
    assert [doc["_id"] for doc in db.c.find().sort("_id")] == [0, 2, 9]
    now = db.command("ping")["operationTime"]
    to_come = bson.Timestamp(now.time, now.inc + 1000)
    for concern, wanted in [({"level": "majority", "atClusterTime": now}, 72), ({"atClusterTime": now}, 72),
                            ({"level": "snapshot", "atClusterTime": 1}, 14), ({"level": "snapshot", "atClusterTime": to_come}, 246),
                            ({"level": "snapshot", "atClusterTime": bson.Timestamp(now.time + 3600, 1)}, 246),
                            ({"level": "snapshot", "atClusterTime": bson.Timestamp(now.time - 3600, now.inc)}, 239)]:
        assert db.command({"find": "c", "readConcern": concern}, check=False)["code"] == wanted, concern


def test_pipelines_and_counts_at_a_time_read_every_collection_as_it_was_then(db, raw):
    db.orders.create_index("item")
    db.orders.insert_many([{"_id": n, "item": n % 3} for n in range(9)])
    db.items.insert_many([{"_id": n, "name": f"item {n}"} for n in range(3)])
    db.command("create", "named", viewOn="items", pipeline=[{"$set": {"seen": True}}])
    pipelines = [
        ("orders", [{"$sort": {"_id": 1}}]),
        ("orders", [{"$match": {"item": 1}}, {"$count": "n"}]),
        ("orders", [{"$group": {"_id": "$item", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]),
        ("orders", [{"$lookup": {"from": "items", "localField": "item", "foreignField": "_id", "as": "found"}}]),
        ("items", [{"$unionWith": "orders"}, {"$group": {"_id": None, "sum": {"$sum": "$_id"}}}]),
        ("items", [{"$graphLookup": {"from": "orders", "startWith": "$_id", "connectFromField": "item", "connectToField": "_id",
                                     "as": "found"}}, {"$project": {"found": {"$size": "$found"}}}]),
        ("named", [{"$sort": {"_id": -1}}]),
    ]
    filters = [{}, {"item": 1}, {"_id": {"$gt": 5}}]

    def answers(**options):
        found = [db.command("aggregate", name, pipeline=stages, cursor={}, **options)["cursor"]["firstBatch"]
                 for name, stages in pipelines]
        return found, [db.command("count", "orders", query=filter, **options)["n"] for filter in filters]

    moments = []
    for step in range(4):
        moments.append((db.command("ping")["operationTime"], answers()))
        db.orders.delete_one({"_id": step})
        db.orders.insert_one({"_id": 100 + step, "item": step % 2})
        db.orders.update_many({"item": 2}, {"$inc": {"n": 1}})
        db.items.update_one({"_id": step % 3}, {"$set": {"name": f"changed {step}"}})
        db.items.insert_one({"_id": 10 + step})
    db.items.drop()
    db.items.insert_one({"_id": 0, "name": "new"})
    for time, expected in moments:
        assert answers(readConcern={"level": "snapshot", "atClusterTime": time}) == expected
        reply = raw({"aggregate": "orders", "pipeline": [], "cursor": {}, "readConcern": {"level": "snapshot", "atClusterTime": time}})
        assert reply["cursor"]["atClusterTime"] == time
        reply = raw({"count": "orders", "readConcern": {"level": "snapshot", "atClusterTime": time}})
        assert (reply["n"], reply["atClusterTime"]) == (9, time)
    # What is written is written now.
    time, (documents, _) = moments[0]
    snapshot = {"level": "snapshot", "atClusterTime": time}
    db.command("aggregate", "orders", pipeline=[{"$out": "copied"}], cursor={}, readConcern=snapshot)
    assert list(db.copied.find().sort("_id")) == documents[0]
    for stages in [[{"$collStats": {"count": {}}}], [{"$indexStats": {}}], [{"$changeStream": {}}]]:
        refused = db.command({"aggregate": "orders", "pipeline": stages, "cursor": {}, "readConcern": snapshot}, check=False)
        assert refused["code"] == 72, stages


def test_what_a_pipeline_at_a_time_writes_to_is_checked_as_it_is_now(db):
    db.c.insert_many([{"_id": n, "t": datetime.datetime(2026, 1, 1)} for n in range(3)])
    now = {"level": "snapshot", "atClusterTime": db.command("ping")["operationTime"]}
    db.create_collection("capped", capped=True, size=4096)
    db.create_collection("series", timeseries={"timeField": "t"})
    for stage, wanted in [({"$out": "capped"}, 17152), ({"$merge": "series"}, 166)]:
        refused = db.command({"aggregate": "c", "pipeline": [stage], "cursor": {}, "readConcern": now}, check=False)
        assert refused["code"] == wanted, stage


def test_views_are_found_counted_and_made_distinct_at_a_time(client, db):
    db.c.insert_many([{"_id": n, "k": n % 2} for n in range(6)])
    db.command("create", "odd", viewOn="c", pipeline=[{"$match": {"k": 1}}])
    with client.start_session(snapshot=True) as session:
        assert [doc["_id"] for doc in db.odd.find(session=session).sort("_id")] == [1, 3, 5]
        db.c.delete_many({"_id": {"$lt": 4}})
        assert [doc["_id"] for doc in db.odd.find({"_id": {"$gt": 1}}, {"_id": 1}, session=session).sort("_id")] == [3, 5]
        assert sorted(db.odd.distinct("_id", {"_id": {"$gt": 1}}, session=session)) == [3, 5]
        reads = {"level": "snapshot", "atClusterTime": session._snapshot_time}
        assert db.command("count", "odd", query={"_id": {"$lt": 5}}, readConcern=reads)["n"] == 2
    assert [doc["_id"] for doc in db.odd.find()] == [5]


def test_of_numbered_inserts_those_that_are_not_refused_are_made_once(db, raw):
    db.c.create_index("u", unique=True)
    db.c.insert_one({"_id": 5, "u": 5})
    docs = [{"_id": n, "u": min(n, 20)} for n in range(30)]
    command = {"insert": "c", "documents": docs, "ordered": False, **numbered(1, "write")}
    for attempt in range(2):
        reply = raw(command)
        # The existing one, and those after the first with the same `u`.
        assert reply["n"] == 20 and [error["index"] for error in reply["writeErrors"]] == [5, *range(21, 30)], attempt
        assert {error["code"] for error in reply["writeErrors"]} == {11000}
        assert db.c.count_documents({}) == 21
    ordered = {"insert": "c", "documents": [{"_id": 100 + n, "u": 100 + n} for n in range(10)] + [{"_id": 0}], **numbered(2, "write")}
    for attempt in range(2):
        reply = raw(ordered)
        assert reply["n"] == 10 and [error["index"] for error in reply["writeErrors"]] == [10]
    assert db.c.count_documents({}) == 31
