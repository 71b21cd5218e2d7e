"""`fsync` with `lock`, and `fsyncUnlock`: writes wait, reads go on, and the files can be copied."""
import shutil
import signal
import socket
import threading
import time

import pymongo
import pytest

import server as servers
from failures import code
from test_native_client import HEADER, MAGIC, Op, address, blob, text, treedb
from wire import Wire, body

MAX_TIME_EXPIRED, INTERRUPTED, LOCK_TIMEOUT = 50, 11601, 24


@pytest.fixture
def server(tmp_path):
    """One of its own: its lock concerns all writes."""
    server = servers.Server(tmp_path / "data", "--replica-set", "rs0", native=True)
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


class Sent:
    """What is done by a thread of its own, and how it ends."""

    def __init__(self, work):
        self.result = self.error = None
        self.thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self.thread.start()

    def _run(self, work):
        try:
            self.result = work()
        except Exception as error:  # what a test looks at
            self.error = error

    def waits(self):
        self.thread.join(0.3)
        return self.thread.is_alive()

    def done(self):
        self.thread.join(20)
        assert not self.thread.is_alive()
        if self.error:
            raise self.error
        return self.result


def lock(client, **options):
    return client.admin.command("fsync", lock=True, **options)


def unlock(client):
    return client.admin.command("fsyncUnlock")


WRITES = {
    "insert": lambda db: db.c.insert_one({"_id": 9}),
    "update": lambda db: db.c.update_one({"_id": 1}, {"$set": {"a": 2}}),
    "delete": lambda db: db.c.delete_one({"_id": 2}),
    "findAndModify": lambda db: db.c.find_one_and_update({"_id": 1}, {"$set": {"b": 2}}),
    "bulkWrite": lambda db: db.client.admin.command("bulkWrite", 1, ops=[{"insert": 0, "document": {"_id": 8}}], nsInfo=[{"ns": db.c.full_name}]),
    "aggregate": lambda db: list(db.c.aggregate([{"$out": "copy"}])),
    "create": lambda db: db.create_collection("new"),
    "createIndexes": lambda db: db.c.create_index("a"),
    "dropIndexes": lambda db: db.d.drop_index("n_1"),
    "collMod": lambda db: db.command("collMod", "d", validationLevel="moderate"),
    "drop": lambda db: db.e.drop(),
    "renameCollection": lambda db: db.f.rename("g"),
    "dropDatabase": lambda db: db.client.drop_database("gone"),
    "createUser": lambda db: db.command("createUser", "u", pwd="p", roles=[]),
    "createRole": lambda db: db.command("createRole", "r", privileges=[], roles=[]),
    "applyOps": lambda db: db.command("applyOps", [{"op": "i", "ns": "shop.c", "o": {"_id": 7}}]),
    "compact": lambda db: db.command("compact", "c"),
    "validate": lambda db: db.command("validate", "c", full=True),
}


def prepare(client):
    db = client.shop
    db.c.insert_many([{"_id": 1, "a": 1}, {"_id": 2}])
    db.d.create_index("n")
    db.e.insert_one({})
    db.f.insert_one({})
    client.gone.c.insert_one({})
    return db


def test_writes_wait_for_the_unlock_and_reads_go_on(client):
    db = prepare(client)
    locked = lock(client)
    assert locked["lockCount"] == 1 and "fsyncUnlock" in locked["info"] and locked["seeAlso"]
    assert lock(client)["lockCount"] == 2
    sent = {name: Sent(lambda work=work: work(db)) for name, work in WRITES.items()}
    time.sleep(0.5)
    assert [name for name, each in sent.items() if not each.thread.is_alive()] == []
    # Whatever reads goes on, and sees what was there.
    assert list(db.c.find().sort("_id", 1)) == [{"_id": 1, "a": 1}, {"_id": 2}]
    assert db.c.count_documents({}) == 2 and db.c.distinct("a") == [1]
    assert list(db.c.aggregate([{"$group": {"_id": None, "n": {"$sum": 1}}}])) == [{"_id": None, "n": 2}]
    assert db.command("dbStats")["objects"] == 4 and db.command("dbHash")["md5"]
    assert client.admin.command("fsync")["numFiles"] == 1
    shown = client.admin.command("currentOp")
    assert shown["fsyncLock"] is True and "fsyncUnlock" in shown["info"]
    waiting = [each for each in shown["inprog"] if each.get("waitingForLock")]
    assert len(waiting) == len(WRITES)
    assert {next(iter(each["command"])) for each in waiting} >= {"insert", "update", "delete", "createIndexes", "drop"}
    once = unlock(client)
    assert (once["info"], once["lockCount"]) == ("fsyncUnlock completed", 1)
    assert all(each.thread.is_alive() for each in sent.values())
    assert unlock(client)["lockCount"] == 0
    for name, each in sent.items():
        each.done()
    assert code(unlock, client) == 20
    assert "fsyncLock" not in client.admin.command("currentOp")
    assert db.c.find_one({"_id": 1}) == {"_id": 1, "a": 2, "b": 2}
    assert sorted(db.c.distinct("_id")) == [1, 7, 8, 9]
    assert {"new", "g", "copy"} <= set(db.list_collection_names()) and "e" not in db.list_collection_names()


def test_a_write_waits_no_longer_than_it_may_and_can_be_killed(client):
    db = prepare(client)
    lock(client)
    try:
        began = time.monotonic()
        assert code(db.command, "insert", "c", documents=[{"_id": "late"}], maxTimeMS=300) == MAX_TIME_EXPIRED
        assert 0.25 < time.monotonic() - began < 5
        sent = Sent(lambda: db.command("insert", "c", documents=[{"_id": "killed"}], comment="kill me"))
        assert sent.waits()
        found, = [each for each in client.admin.command("currentOp")["inprog"] if each["command"].get("comment") == "kill me"]
        assert found["waitingForLock"] is True and found["op"] == "insert" and found["ns"] == "shop.c"
        client.admin.command("killOp", 1, op=found["opid"])
        with pytest.raises(pymongo.errors.OperationFailure) as refused:
            sent.done()
        assert refused.value.code == INTERRUPTED
    finally:
        unlock(client)
    assert sorted(db.c.distinct("_id")) == [1, 2]
    # What has waited and goes on has waited part of its time.
    lock(client)
    sent = Sent(lambda: db.command("insert", "c", documents=[{"_id": "in time"}], maxTimeMS=20_000))
    assert sent.waits()
    unlock(client)
    assert sent.done()["n"] == 1


def test_hundreds_of_writes_that_wait_keep_nobody_from_reading_or_unlocking(server, client):
    db = prepare(client)
    with server.client(maxPoolSize=700) as many:
        lock(client)
        sent = [Sent(lambda i=i: many.shop.c.insert_one({"_id": f"w{i}"})) for i in range(600)]
        time.sleep(2)
        assert all(each.thread.is_alive() for each in sent)
        began = time.monotonic()
        assert db.c.count_documents({}) == 2
        unlock(client)
        assert time.monotonic() - began < 5
        for each in sent:
            each.done()
    assert db.c.count_documents({"_id": {"$regex": "^w"}}) == 600


def test_large_waiting_writes_leave_memory_for_a_login_that_unlocks(tmp_path):
    server = servers.Locked(tmp_path / "data", "--max-inflight-bytes", "48MiB", native=True)
    try:
        with server.as_user() as root, treedb.connect(address(server), timeout=30, user="root", password=servers.PASSWORD) as native:
            root.shop.c.insert_one({"_id": "first"})
            lock(root)
            text = "x" * 1_000_000
            sent = {i: Sent(lambda i=i: root.shop.c.insert_one({"_id": i, "text": text})) for i in range(30)}
            time.sleep(2)
            waiting = [i for i, each in sent.items() if each.thread.is_alive()]
            # A quarter of the budget.
            assert 5 <= len(waiting) <= 12
            refused = [each for each in sent.values() if not each.thread.is_alive()]
            assert {each.error.code for each in refused} == {146}
            with pytest.raises(treedb.ServerError) as error:
                native["shop.c"].insert_many([{"_id": f"n{i}", "text": text} for i in range(12)])
            assert error.value.code == 146
            with server.as_user() as another:
                assert another.shop.c.count_documents({}) == 1
                assert unlock(another)["lockCount"] == 0
            for i in waiting:
                sent[i].done()
            assert sorted(root.shop.c.distinct("_id", {"text": {"$exists": True}})) == waiting
    finally:
        assert server.stop() == 0


def test_requests_of_the_native_protocol_wait_too(server, client):
    with treedb.connect(address(server), timeout=30) as db, treedb.connect(address(server), timeout=30) as other:
        db["shop.c"].insert_many([{"_id": 1, "a": 1}, {"_id": 2}])
        lock(client)
        sent = [Sent(lambda: db["shop.c"].insert_one({"_id": 3})), Sent(lambda: other["shop.c"].update_one({"_id": 1}, {"$set": {"a": 2}}))]
        assert all(each.waits() for each in sent)
        with treedb.connect(address(server), timeout=30) as reader:
            assert reader["shop.c"].get(1) == {"_id": 1, "a": 1} and reader["shop.c"].count() == 2
        unlock(client)
        assert sent[0].done() == 3 and sent[1].done().modified == 1
        assert db["shop.c"].get(1) == {"_id": 1, "a": 2}


def test_transactions_wait_where_they_would_write(client):
    db = prepare(client)
    with client.start_session() as session:
        with session.start_transaction():
            db.c.insert_one({"_id": "t"}, session=session)
            lock(client)
            assert db.c.find_one({"_id": "t"}, session=session)
            sent = Sent(session.commit_transaction)
            assert sent.waits()
            assert db.c.find_one({"_id": "t"}) is None
            unlock(client)
            sent.done()
    assert db.c.find_one({"_id": "t"})


def write_that_waits_for(session, db):
    """A write of a document that a transaction of the session, which it starts, has changed."""
    session.start_transaction()
    db.c.update_one({"_id": 1}, {"$set": {"a": "t"}}, session=session)
    write = Sent(lambda: db.c.update_one({"_id": 1}, {"$set": {"b": "w"}}))
    assert write.waits()
    return write


def test_a_lock_waits_for_writes_that_have_begun_and_for_the_transactions_that_they_wait_for(client):
    db = prepare(client)
    with client.start_session() as session:
        write = write_that_waits_for(session, db)
        locked = Sent(lambda: lock(client))
        assert locked.waits()
        # Others wait already, the transaction does not.
        other = Sent(lambda: db.c.insert_one({"_id": "o"}))
        assert other.waits()
        db.c.insert_one({"_id": "t"}, session=session)
        session.commit_transaction()
        write.done()
        assert locked.done()["lockCount"] == 1
    assert other.waits()
    assert db.c.find_one({"_id": 1}) == {"_id": 1, "a": "t", "b": "w"}
    unlock(client)
    other.done()


def test_a_lock_that_cannot_be_taken_in_time_is_refused_and_writes_go_on(client):
    db = prepare(client)
    with client.start_session() as session:
        write = write_that_waits_for(session, db)
        assert code(lock, client, fsyncLockAcquisitionTimeoutMillis=200) == LOCK_TIMEOUT
        assert code(lock, client, maxTimeMS=200) == MAX_TIME_EXPIRED
        db.c.insert_one({"_id": "o"})
        session.abort_transaction()
        write.done()
    assert code(unlock, client) == 20


def test_files_that_are_copied_under_the_lock_are_a_database(server, client, tmp_path):
    db = client.shop
    db.c.create_index("n")
    stop, acknowledged = threading.Event(), []

    def write():
        with server.client() as own:
            while not stop.is_set():
                number = len(acknowledged)
                own.shop.c.insert_one({"_id": number, "n": number % 10, "text": "x" * 500})
                acknowledged.append(number)

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(1)
    copies = []
    for round in range(3):
        lock(client)
        before = len(acknowledged)
        copy = tmp_path / f"copy{round}"
        files = {path.name: path.stat().st_mtime_ns for path in server.directory.iterdir()}
        shutil.copytree(server.directory, copy)
        time.sleep(0.3)
        assert {path.name: path.stat().st_mtime_ns for path in server.directory.iterdir()} == files
        assert len(acknowledged) == before
        copies.append((copy, db.c.count_documents({}), db.command("dbHash")["md5"]))
        assert copies[-1][1] in (before, before + 1)
        unlock(client)
        time.sleep(0.3)
    stop.set()
    writer.join()
    assert len(acknowledged) > copies[-1][1] > copies[0][1] > 0
    for copy, count, md5 in copies:
        copied = servers.Server(copy)
        try:
            with copied.client() as other:
                assert other.shop.c.count_documents({}) == count and other.shop.command("dbHash")["md5"] == md5
                assert other.shop.command("validate", "c", full=True)["valid"]
        finally:
            assert copied.stop() == 0


@pytest.mark.parametrize("sig", [signal.SIGTERM, "shutdown"])
def test_a_server_that_is_locked_can_be_stopped_and_executes_what_waits(tmp_path, sig):
    server = servers.Server(tmp_path / "data")
    with server.client(retryWrites=False) as client:
        client.shop.c.insert_one({"_id": 1})
        lock(client)
        lock(client)
        sent = Sent(lambda: client.shop.c.insert_one({"_id": 2}))
        assert sent.waits()
        began = time.monotonic()
        if sig == "shutdown":
            with pytest.raises(pymongo.errors.AutoReconnect):
                client.admin.command("shutdown")
                client.admin.command("ping")
            assert server.process.wait(timeout=20) == 0
        else:
            assert server.stop(sig) == 0
        assert time.monotonic() - began < 8
        sent.done()
    assert not [line for line in server.log if "panic" in line]
    server = servers.Server(tmp_path / "data")
    with server.client() as client:
        assert client.shop.c.distinct("_id") == [1, 2]
    assert server.stop() == 0


def test_unlocking_takes_a_right_of_its_own(tmp_path):
    server = servers.Locked(tmp_path / "data")
    try:
        with server.as_user() as root:
            root.admin.command("createRole", "locker", privileges=[{"resource": {"cluster": True}, "actions": ["fsync"]}], roles=[])
            root.admin.command("createUser", "locker", pwd=servers.PASSWORD, roles=["locker"])
            root.admin.command("createUser", "host", pwd=servers.PASSWORD, roles=["hostManager"])
            root.admin.command("createUser", "reader", pwd=servers.PASSWORD, roles=[{"role": "read", "db": "shop"}])
            with server.as_user("locker") as locker, server.as_user("host") as host, server.as_user("reader") as reader:
                lock(locker)
                assert code(unlock, locker) == 13
                # Who may not write is told so at once.
                assert code(reader.shop.c.insert_one, {}) == 13
                assert unlock(host)["lockCount"] == 0
    finally:
        assert server.stop() == 0


def waiting(client):
    """The operations that wait for the lock."""
    return [each for each in client.admin.command("currentOp")["inprog"] if each.get("waitingForLock")]


def until(look, expected):
    """Looks until it sees what is expected, for half a minute at most; what was seen last."""
    end = time.monotonic() + 30
    while (seen := look()) != expected and time.monotonic() < end:
        time.sleep(0.02)
    return seen


def nobody_waits(client):
    return until(lambda: waiting(client), []) == []


def test_requests_of_the_native_protocol_that_wait_are_listed_and_can_be_killed(server, client):
    with treedb.connect(address(server), timeout=30) as db:
        db["shop.c"].insert_one({"_id": 1})
        add = db["shop.c"].prepare_insert({"_id": treedb.Param(0)})
        settings = db.table("settings")
        requests = {
            "insert": lambda: db["shop.c"].insert_one({"_id": 2}),
            "update": lambda: db["shop.c"].update_one({"_id": 1}, {"$set": {"a": 2}}),
            "delete": lambda: db["shop.c"].delete({"_id": 1}),
            "create_index": lambda: db["shop.c"].create_index({"key": {"a": 1}}),
            "execute": lambda: add([(3,)]),
            "kv_put": lambda: settings.__setitem__(b"colour", b"green"),
        }
        for name, request in requests.items():
            lock(client)
            try:
                sent = Sent(request)
                assert sent.waits(), name
                found, = waiting(client)
                assert next(iter(found["command"])) == name and found["desc"].startswith("conn")
                assert found["ns"] == ("kv.settings" if name == "kv_put" else "shop.c")
                client.admin.command("killOp", 1, op=found["opid"])
                with pytest.raises(treedb.ServerError) as refused:
                    sent.done()
                assert refused.value.code == INTERRUPTED, name
                assert not waiting(client)
            finally:
                unlock(client)
        assert list(db["shop.c"].find({})) == [{"_id": 1}] and settings.get(b"colour") is None
        # What is not killed is executed, and listed no longer.
        lock(client)
        sent = Sent(requests["insert"])
        assert sent.waits()
        unlock(client)
        assert sent.done() == 2 and not waiting(client)


def test_a_write_whose_client_has_gone_waits_no_longer_and_is_not_executed(server, client):
    db = prepare(client)

    def connections():
        return {each["connectionId"] for each in client.admin.command("currentOp", **{"$all": True})["inprog"]}

    lock(client)
    with server.client(retryWrites=False, socketTimeoutMS=4000, maxPoolSize=20) as impatient:
        sent = [Sent(lambda i=i: impatient.shop.c.insert_one({"_id": f"gone{i}"})) for i in range(10)]
        # Not all at once, if that takes long: some clients may be gone before others come.
        theirs = set()

        def seen():
            theirs.update(each["connectionId"] for each in waiting(client))
            return len(theirs)

        assert until(seen, 10) == 10
        for each in sent:
            with pytest.raises(pymongo.errors.NetworkTimeout):
                each.done()
    assert nobody_waits(client)
    native = treedb.connect(address(server), timeout=4)
    sent = Sent(lambda: native["shop.c"].insert_one({"_id": "gone"}))
    found, = waits(client, 1)
    assert found["connectionId"] not in theirs
    theirs.add(found["connectionId"])
    with pytest.raises(treedb.ConnectionLost):
        sent.done()
    native.close()
    assert nobody_waits(client)
    assert until(lambda: connections() & theirs, set()) == set()
    unlock(client)
    time.sleep(0.5)
    assert sorted(db.c.distinct("_id")) == [1, 2]


class Frames:
    """A raw connection of the native protocol, whose answers nobody reads."""

    def __init__(self, server):
        self.socket = socket.create_connection(server.addresses["native"], timeout=10)
        self.request(Op.HELLO, MAGIC + bytes([1, 0, 1, 0]))
        assert self.socket.recv(HEADER.size)

    def request(self, op, body, number=1):
        self.socket.sendall(HEADER.pack(len(body), op, 0, number) + body)

    def put(self, key, number=1):
        self.request(Op.KV_PUT, text("gone") + blob(key) + blob(b"value"), number)

    def close(self):
        # Without a reset, which the answer of the greeting that is half read would cause.
        self.socket.setblocking(False)
        try:
            self.socket.recv(1 << 20)
        except BlockingIOError:
            pass
        self.socket.close()


def waits(client, count):
    """The operations that wait for the lock, once they are so many."""
    found = []

    def look():
        found[:] = waiting(client)
        return len(found)

    assert until(look, count) == count
    return found


def test_a_write_that_is_killed_just_before_the_unlock_is_not_executed(server, client):
    db = prepare(client)
    with treedb.connect(address(server), timeout=30) as native:
        doors = {"mongo": lambda: db.command("insert", "c", documents=[{"_id": "killed"}]), "native": lambda: native["shop.c"].insert_one({"_id": "killed"})}
        for name, write in doors.items():
            for _ in range(20):
                lock(client)
                sent = Sent(write)
                waits(client, 1)
                client.admin.command("killOp", 1, op=waiting(client)[0]["opid"])
                unlock(client)
                with pytest.raises((pymongo.errors.OperationFailure, treedb.ServerError)) as refused:
                    sent.done()
                assert refused.value.code == INTERRUPTED, name
    assert sorted(db.c.distinct("_id")) == [1, 2]


def test_a_write_that_has_waited_is_the_same_operation_when_it_runs(server, client):
    db = prepare(client)

    def updates():
        return [each["opid"] for each in client.admin.command("currentOp")["inprog"] if each.get("ns") == "shop.c" and each["op"] == "update"]

    with treedb.connect(address(server), timeout=30) as native, client.start_session() as session:
        doors = {"mongo": lambda: db.c.update_one({"_id": 1}, {"$set": {"b": "w"}}), "native": lambda: native["shop.c"].update_one({"_id": 1}, {"$set": {"b": "w"}})}
        for name, write in doors.items():
            session.start_transaction()
            db.c.update_one({"_id": 1}, {"$set": {"a": name}}, session=session)
            lock(client)
            sent = Sent(write)
            found, = waits(client, 1)
            unlock(client)
            # Now it waits for the transaction.
            assert nobody_waits(client)
            assert until(updates, [found["opid"]]) == [found["opid"]], name
            assert sent.waits()
            client.admin.command("killOp", 1, op=found["opid"])
            with pytest.raises((pymongo.errors.OperationFailure, treedb.ServerError)) as refused:
                sent.done()
            assert refused.value.code == INTERRUPTED, name
            session.abort_transaction()
    assert db.c.find_one({"_id": 1}) == {"_id": 1, "a": 1}


def test_writes_of_mongodb_clients_that_close_just_before_the_unlock_are_not_executed(server, client):
    db = prepare(client)
    for _ in range(20):
        lock(client)
        gone = Wire(server)
        for number in range(3):
            gone.msg(body({"insert": "c", "documents": [{"_id": f"gone{number}"}], "$db": "shop"}))
        waits(client, 1)
        gone.socket.close()
        unlock(client)
        assert nobody_waits(client)
    time.sleep(0.5)
    assert sorted(db.c.distinct("_id")) == [1, 2]


@pytest.mark.parametrize("count", [1, 100])
def test_writes_of_native_clients_that_close_just_before_the_unlock_are_not_executed(server, client, count):
    with treedb.connect(address(server), timeout=30) as db:
        for _ in range(10):
            lock(client)
            gone = Frames(server)
            for number in range(1, count + 1):
                gone.put(b"%d" % number, number)
            # More than the server reads before it has answered.
            waits(client, min(count, 64))
            gone.close()
            unlock(client)
            assert nobody_waits(client)
        time.sleep(0.5)
        assert list(db.table("gone").range()) == []


def test_writes_of_native_clients_that_close_end_although_more_was_sent_than_is_read(server, client):
    with treedb.connect(address(server), timeout=30) as db:
        lock(client)
        gone = Frames(server)
        for number in range(1, 101):
            gone.put(b"%d" % number, number)
        waits(client, 64)
        gone.close()
        assert nobody_waits(client)
        unlock(client)
        time.sleep(0.5)
        assert list(db.table("gone").range()) == []


@pytest.mark.parametrize("frame", [HEADER.pack(0, Op.PING, 0, 0), HEADER.pack(0xFFFFFFFF, Op.PING, 0, 7)], ids=["number 0", "too long"])
def test_a_native_write_does_not_wait_for_a_client_that_has_broken_the_protocol_and_left(server, client, frame):
    with treedb.connect(address(server), timeout=30) as db:
        for at_once in (False, True):
            lock(client)
            gone = Frames(server)
            gone.put(b"key")
            waits(client, 1)
            gone.socket.sendall(frame)
            time.sleep(0.2)
            gone.close()
            if not at_once:
                assert nobody_waits(client)
            unlock(client)
            assert nobody_waits(client)
        time.sleep(0.3)
        assert list(db.table("gone").range()) == []


def test_strangers_are_refused_and_do_not_wait(tmp_path):
    server = servers.Locked(tmp_path / "data")
    try:
        with server.as_user() as root, server.client() as stranger:
            lock(root)
            try:
                for command in ("createUser", "createRole", "dropUser", "insert", "drop"):
                    began = time.monotonic()
                    assert code(stranger.admin.command, command, "x", pwd=servers.PASSWORD, roles=["root"]) == 13, command
                    assert time.monotonic() - began < 5 and not waiting(root)
            finally:
                unlock(root)
    finally:
        assert server.stop() == 0


def test_a_write_without_a_reply_is_executed_although_its_client_has_gone(server, client):
    db = prepare(client)
    lock(client)
    with server.client(w=0) as hasty:
        hasty.shop.c.insert_one({"_id": "sent"})
    time.sleep(2)
    found, = waiting(client)
    assert found["op"] == "insert"
    unlock(client)
    assert nobody_waits(client)
    assert until(lambda: db.c.count_documents({"_id": "sent"}), 1) == 1


def test_native_clients_that_may_not_write_are_told_so_at_once(tmp_path):
    server = servers.Locked(tmp_path / "data", native=True)
    try:
        with server.as_user() as root:
            root.shop.c.insert_one({"_id": 1})
            root.admin.command("createUser", "reader", pwd=servers.PASSWORD, roles=[{"role": "read", "db": "shop"}])
            with treedb.connect(address(server), timeout=30, user="reader", password=servers.PASSWORD) as reader:
                lock(root)
                with pytest.raises(treedb.ServerError) as refused:
                    reader["shop.c"].insert_one({"_id": 2})
                assert refused.value.code == 13
                assert reader["shop.c"].count() == 1
                unlock(root)
    finally:
        assert server.stop() == 0
