"""Requests of the native protocol among the operations of the server: currentOp, killOp, the profiler, the log of slow ones, counters."""
import pathlib
import sys
import threading
import time

import pytest

from server import Server

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"))

import treedb  # noqa: E402
from treedb import Param, ServerError  # noqa: E402

#: Takes about as long for each document as a thousand point look-ups.
SLOW = {"$expr": {"$gt": [
    {"$reduce": {"input": {"$range": [0, 20_000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}, -1]}}
INTERRUPTED = 11601


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("native-operations"), "--replica-set", "rs0", native=True)
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


@pytest.fixture(scope="module")
def client(server):
    with server.client() as client:
        yield client


def connected(server):
    host, port = server.addresses["native"]
    return treedb.connect(f"{host}:{port}", timeout=60)


@pytest.fixture
def db(server):
    with connected(server) as db:
        yield db


def running(client, seconds=20, **filter):
    """The operation that currentOp shows for a filter."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = client.admin.command({"currentOp": 1, **filter})["inprog"]
        if found:
            return found[0]
        time.sleep(0.01)
    raise AssertionError(f"nothing runs that is {filter}")


def in_thread(work):
    """What `work` raises in a thread of its own, when that is joined."""
    raised = []

    def run():
        try:
            work()
        except Exception as error:  # noqa: BLE001
            raised.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def slow_requests(db):
    films = db["shop.big"]
    return [
        ("count", "command", lambda: films.count(SLOW)),
        ("find", "query", lambda: list(films.find({**SLOW, "missing": 1}))),
        ("update", "update", lambda: films.update_many({**SLOW, "missing": 1}, {"$set": {"x": 1}})),
        ("delete", "remove", lambda: films.delete({**SLOW, "missing": 1})),
        ("execute", "command", lambda: films.prepare_count({**SLOW, "missing": {"$ne": Param(0)}})(1)),
    ]


@pytest.mark.parametrize("at", range(5))
def test_a_long_request_is_shown_and_can_be_killed(server, client, at):
    if at == 0:
        client.shop.big.insert_many([{"_id": n, "missing": 1} for n in range(2_000)])
    with connected(server) as db:
        name, op, work = slow_requests(db)[at]
        thread, raised = in_thread(work)
        shown = running(client, ns="shop.big", op=op)
        assert shown["active"] is True and shown["type"] == "op" and shown["command"][name] == "big"
        assert shown["command"]["$db"] == "shop"
        if name in ("find", "update", "delete"):
            assert "$expr" in shown["command"]["filter"]
        began = time.monotonic()
        client.admin.command("killOp", op=shown["opid"])
        thread.join(30)
        assert not thread.is_alive() and time.monotonic() - began < 10
        assert isinstance(raised[0], ServerError) and raised[0].code == INTERRUPTED
        assert not client.admin.command({"currentOp": 1, "ns": "shop.big", "opid": shown["opid"]})["inprog"]
        db.ping()


WAITING = {
    "by a scan": ("update", lambda c: c.update_one({"n": {"$exists": False}}, {"$set": {"n": 1}})),
    "prepared, by _id": ("update", lambda c: c.prepare_update({"_id": Param(0)}, {"$set": {"n": 1}})(1)),
    "a deletion, by _id": ("remove", lambda c: c.prepare_delete({"_id": Param(0)})(1)),
}


@pytest.mark.parametrize("which", WAITING)
def test_a_write_that_waits_for_a_transaction_is_shown_and_can_be_killed(server, client, db, which):
    client.shop.waited.drop()
    client.shop.waited.insert_one({"_id": 1})
    op, work = WAITING[which]
    with client.start_session() as session:
        session.start_transaction()
        client.shop.waited.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
        thread, raised = in_thread(lambda: work(db["shop.waited"]))
        shown = running(client, ns="shop.waited", op=op)
        client.admin.command("killOp", op=shown["opid"])
        thread.join(30)
        assert raised[0].code == INTERRUPTED
        session.abort_transaction()
    assert client.shop.waited.find_one() == {"_id": 1}


BY_ID = {
    "get": lambda c: c.get(1),
    "prepared get": lambda c: c.prepare_get()(1),
    "find": lambda c: list(c.find({"_id": 1})),
    "prepared find": lambda c: list(c.prepare_find({"_id": Param(0)})(1)),
    "count": lambda c: c.count({"_id": 1}),
}


@pytest.mark.parametrize("which", BY_ID)
def test_a_document_of_a_view_is_asked_for_by_its_id_in_an_operation_that_is_shown_and_can_be_killed(client, db, which):
    client.viewed.drop_collection("all")
    client.viewed.big.drop()
    client.viewed.big.insert_many([{"_id": n} for n in range(2_000)])
    client.viewed.command("create", "all", viewOn="big", pipeline=[{"$match": SLOW}, {"$group": {"_id": "$_id"}}])
    thread, raised = in_thread(lambda: BY_ID[which](db["viewed.all"]))
    shown = running(client, ns="viewed.all")
    client.admin.command("killOp", op=shown["opid"])
    thread.join(30)
    assert raised[0].code == INTERRUPTED
    # The connection goes on.
    client.viewed.drop_collection("all")
    client.viewed.command("create", "all", viewOn="big", pipeline=[{"$set": {"seen": True}}])
    assert db["viewed.all"].get(1) == {"_id": 1, "seen": True}
    assert db["viewed.all"].get(-1) is None


def test_idle_connections_are_listed(server, client, db):
    db.ping()
    host, port = db.connection.socket.getsockname()[:2]
    listed = [each for each in client.admin.command({"currentOp": 1, "$all": True})["inprog"] if each["client"] == f"{host}:{port}"]
    assert [each["active"] for each in listed] == [False]
    assert not [each for each in client.admin.command({"currentOp": 1})["inprog"] if each["client"] == f"{host}:{port}"]


def test_requests_are_counted_by_kind_and_collection(client, db):
    films = db["shop.counted"]
    get = films.prepare_get()
    insert = films.prepare_insert({"_id": Param(0)})

    def counts():
        status = client.admin.command("serverStatus")
        return {**status["opcounters"], **{f"docs {kind}": n for kind, n in status["metrics"]["document"].items()}}

    before = counts()
    films.insert_many([{"_id": n} for n in range(10)])
    insert([[100], [101], [102]])
    films.get(1), get(2), list(films.find({"_id": 3})), list(films.find())
    films.update_one({"_id": 1}, {"$set": {"a": 1}}), films.update_many({}, {"$set": {"b": 1}})
    films.delete({"_id": 1}), films.delete({"_id": {"$lt": 5}})
    # What is refused as a whole counts once, whatever number of rows it says that it has.
    with pytest.raises(ServerError):
        insert([[200, 1], [201, 1], [202, 1]])
    after = counts()
    grown = {kind: after[kind] - before[kind] for kind in before}
    assert (grown["insert"], grown["query"], grown["update"], grown["delete"]) == (14, 4, 2, 2)
    assert (grown["docs inserted"], grown["docs updated"], grown["docs deleted"]) == (13, 14, 5)
    used = client.admin.command("top")["totals"]["shop.counted"]
    assert used["queries"]["count"] == 4 and used["insert"]["count"] == 3 and used["update"]["count"] == 2 and used["remove"]["count"] == 2
    # Each batch of a cursor, asked for or pulled.
    films.insert_many([{"_id": 1_000 + n} for n in range(100)])
    for stream in (False, True):
        before = client.admin.command("top")["totals"]["shop.counted"]["getmore"]["count"]
        assert len(list(films.find({"_id": {"$gte": 1_000}}, batch=30, stream=stream))) == 100
        assert client.admin.command("top")["totals"]["shop.counted"]["getmore"]["count"] - before == 3
    db.table("counted")[b"k"] = b"v"
    assert client.admin.command("top")["totals"]["kv.counted"]["update"]["count"] == 1


def test_requests_are_profiled(client, db):
    films = db["profiled.films"]
    films.insert_many([{"_id": n, "year": 1990 + n} for n in range(5)])
    client.profiled.command("profile", 2)
    try:
        list(films.find({"year": {"$gt": 1992}}))
        films.update_many({"year": {"$lt": 1992}}, {"$set": {"old": True}})
        films.get(1)
        list(films.prepare_find({"_id": {"$gte": Param(0)}})(3))
        with pytest.raises(ServerError):
            films.count({"$nonsense": 1})
    finally:
        client.profiled.command("profile", 0)
    find, update, get, prepare, prepared, count = client.profiled.system.profile.find({"ns": "profiled.films"})
    assert (find["op"], find["nreturned"], find["planSummary"]) == ("query", 2, "COLLSCAN")
    assert find["command"] == {"find": "films", "$db": "profiled", "filter": {"year": {"$gt": 1992}}}
    assert (update["op"], update["n"], update["nModified"]) == ("update", 2, 2)
    assert (get["op"], get["command"]) == ("query", {"get": "films", "$db": "profiled"})
    assert prepare["command"] == {"prepare": "films", "$db": "profiled"}
    assert (prepared["op"], prepared["nreturned"]) == ("query", 2) and "nreturned" not in get
    assert (count["op"], count["ok"], count["errCode"], count["errName"]) == ("command", 0.0, 2, "BadValue")
    assert find["client"].startswith("127.0.0.1:") and find["millis"] >= 0 and find["responseLength"] > 12


def test_slow_requests_are_logged(server, client, db):
    was = client.admin.command("profile", -1)["slowms"]
    client.admin.command("profile", 0, slowms=0)
    try:
        list(db["shop.logged"].find({"a": 1}))
    finally:
        client.admin.command("profile", 0, slowms=was)
    until = time.monotonic() + 10
    while not [line for line in server.log if "slow operation" in line and "native" in line and "shop.logged" in line]:
        assert time.monotonic() < until, server.log[-5:]
        time.sleep(0.05)
