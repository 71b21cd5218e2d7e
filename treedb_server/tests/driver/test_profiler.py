"""Which operations the profiler keeps and the log has: `sampleRate` and `filter` of the command `profile`."""
import time

import pytest
from pymongo.errors import OperationFailure

from failures import code
from server import Locked, Server

NOTE = "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log lines."


@pytest.fixture
def server(tmp_path):
    """Of its own: a rate is one for the whole server."""
    server = Server(tmp_path / "data")
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


@pytest.fixture
def db(server):
    with server.client() as client:
        yield client.profiled


def kept(db, filter=None):
    return list(db["system.profile"].find(filter or {}).sort("$natural", 1))


def logged(server, namespace, at_least=0):
    """The lines about slow operations; those that are still on their way are waited for."""
    deadline = time.monotonic() + 10
    while True:
        lines = [line for line in server.log if "slow operation" in line and namespace in line]
        if len(lines) >= at_least or time.monotonic() > deadline:
            return len(lines)
        time.sleep(0.05)


def test_a_part_of_the_slow_operations_is_kept_and_logged(server, db):
    assert db.command("profile", 1, slowms=0, sampleRate=0.5) == {"was": 0, "slowms": 100, "sampleRate": 1.0, "ok": 1.0}
    for n in range(400):
        db.half.insert_one({"_id": n})
    assert db.command("profile", -1)["sampleRate"] == 0.5
    some = len(kept(db, {"ns": "profiled.half"}))
    # Eight standard deviations.
    assert 120 < some < 280
    assert logged(server, "profiled.half", some) == some
    assert db.command("profile", 1, sampleRate=0)["sampleRate"] == 0.5
    for n in range(50):
        db.none.insert_one({"_id": n})
    assert kept(db, {"ns": "profiled.none"}) == [] and logged(server, "profiled.none") == 0
    # Everything is everything, and what is not slow is in no sample.
    db.command("profile", 2)
    db.all.insert_one({})
    assert len(kept(db, {"ns": "profiled.all"})) == 1
    db.command("profile", 1, slowms=60_000, sampleRate=1.0)
    db.fast.insert_one({})
    assert kept(db, {"ns": "profiled.fast"}) == []


def test_a_filter_says_what_is_kept_and_logged_of_its_database(server, db):
    wanted = {"op": "query", "nreturned": {"$gte": 2}, "command.comment": {"$exists": True}}
    db.films.insert_many([{"_id": n} for n in range(10)])
    done = db.command("profile", 1, slowms=60_000, filter=wanted)
    assert done == {"was": 0, "slowms": 100, "sampleRate": 1.0, "note": NOTE, "ok": 1.0}
    for limit in (1, 2, 3):
        list(db.films.find(comment="why").limit(limit))
        list(db.films.find().limit(limit))
    db.films.count_documents({})
    assert [entry["nreturned"] for entry in kept(db)] == [2, 3]
    assert logged(server, "profiled.films", 2) == 2
    # Of another database what it always was.
    db.client.other.command("profile", 1)
    list(db.client.other.films.find(comment="why"))
    assert kept(db.client.other) == []
    asked = db.command("profile", -1)
    assert (asked["was"], asked["filter"], asked["note"]) == (1, wanted, NOTE)
    # Everything is kept at level 2, and at level 0 nothing; the filter is about the log still.
    db.command("profile", 2)
    db.films.find_one()
    assert len(kept(db)) == 3
    db.command("profile", 0)
    list(db.films.find(comment="why"))
    assert len(kept(db)) == 3 and logged(server, "profiled.films", 3) == 3
    # Without the level, the filter alone is changed.
    db.command("profile", 1)
    assert db.command("profile", -1, filter={"errCode": 2})["filter"] == wanted
    with pytest.raises(OperationFailure):
        list(db.films.find({"$nonsense": 1}))
    assert kept(db)[-1]["errCode"] == 2
    assert db.command("profile", -1, filter="unset")["filter"] == {"errCode": 2}
    assert db.command("profile", -1) == {"was": 1, "slowms": 60_000, "sampleRate": 1.0, "ok": 1.0}
    list(db.films.find(comment="why"))
    assert len(kept(db)) == 4
    db.command("profile", 1, slowms=0)
    db.films.find_one()
    assert len(kept(db)) == 5


def test_what_is_wrong_is_refused_and_changes_nothing(db):
    for level, options, number in [
        (2, {"sampleRate": 1.1}, 2), (2, {"sampleRate": -0.1}, 2), (2, {"sampleRate": float("nan")}, 2), (2, {"sampleRate": "all"}, 14),
        (2, {"filter": "other"}, 2), (2, {"filter": 1}, 2), (2, {"filter": {"millis": {"$nonsense": 1}}}, 2),
        (2, {"slowms": 5, "sampleRate": 0.5, "filter": None}, 2),
    ]:
        assert code(lambda: db.command("profile", level, **options)) == number, options
    assert db.command("profile", -1) == {"was": 0, "slowms": 100, "sampleRate": 1.0, "ok": 1.0}


def test_who_may_read_the_profile_may_ask_and_not_change(tmp_path):
    server = Locked(tmp_path / "data")
    with server.as_user() as root:
        root.admin.command("createUser", "ann", pwd="secret", roles=["clusterMonitor"])
    with server.as_user("ann", "secret") as ann:
        assert ann.shop.command("profile", -1)["was"] == 0
        for options in ({"filter": {"op": "query"}}, {"filter": "unset"}, {"sampleRate": 0.5}, {"slowms": 0}):
            assert code(lambda: ann.shop.command("profile", -1, **options)) == 13
    assert server.stop() == 0
