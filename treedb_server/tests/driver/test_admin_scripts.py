"""What the shells' helpers and administrators' scripts send, and what they read of the answers."""
import pathlib

import pymongo
import pytest

import server as servers
from failures import code


def test_the_default_concerns_are_those_of_the_server(tmp_path, client):
    assert code(client.admin.command, "getDefaultRWConcern") == 51300
    for durability, acknowledged in [("durable", "majority"), ("relaxed", 1)]:
        server = servers.Server(tmp_path / durability, "--replica-set", "rs0", "--durability", durability)
        try:
            with server.client() as member:
                found = member.admin.command("getDefaultRWConcern", inMemory=True)
                assert found["defaultReadConcern"] == {"level": "local"}
                assert found["defaultWriteConcern"] == {"w": acknowledged, "wtimeout": 0}
                assert found["defaultWriteConcernSource"] == found["defaultReadConcernSource"] == "implicit"
        finally:
            server.stop()


def test_caches_of_plans_are_cleared_and_filters_listed(db):
    db.c.insert_one({"a": 1})
    assert db.command("planCacheClear", "c", query={"a": 1}, sort={"a": 1}, projection={"a": 1})["ok"] == 1
    assert db.command("planCacheListFilters", "c")["filters"] == []
    assert db.command("planCacheClearFilters", "c")["ok"] == 1
    assert code(db.command, {"planCacheClear": 1}) == 73
    assert code(db.command, {"planCacheClear": "c", "query": 5}) == 14


def test_there_are_no_plans_in_a_cache_and_no_statistics_of_queries(client, db):
    db.c.insert_one({"a": 1})
    list(db.c.find({"a": 1}))

    def stats(collection, **options):
        return list(collection.aggregate([{"$planCacheStats": options}, {"$match": {}}]))

    assert stats(db.c) == stats(db.c, allHosts=False) == []
    assert code(stats, db.c, allHosts=True) == 4503200
    assert code(stats, db.c, nothing=True) == 9
    assert code(stats, db.nothing) == 50933
    assert code(db.c.aggregate, [{"$match": {}}, {"$planCacheStats": {}}]) == 40602
    assert code(db.c.aggregate, [{"$planCacheStats": 1}]) == 9
    # As a MongoDB that does not collect them.
    with pytest.raises(pymongo.errors.OperationFailure, match="not allowed") as refused:
        client.admin.aggregate([{"$queryStats": {}}])
    assert (refused.value.code, refused.value.details["codeName"]) == (224, "QueryFeatureNotAllowed")
    assert code(db.c.aggregate, [{"$queryStats": {}}]) == 73


def test_the_version_of_the_features_is_set_to_what_it_is(client):
    def to(version, **options):
        return client.admin.command("setFeatureCompatibilityVersion", version, **options)

    shown = client.admin.command("getParameter", 1, featureCompatibilityVersion=1)["featureCompatibilityVersion"]["version"]
    assert client.server_info()["version"].startswith(shown)
    assert to(shown, confirm=True)["ok"] == to(shown, confirm=True, writeConcern={"wtimeout": 1000})["ok"] == 1
    with pytest.raises(pymongo.errors.OperationFailure, match="confirm: true") as refused:
        to(shown)
    assert refused.value.code == 7369100
    assert code(to, "7.0", confirm=True) == 5147403 and code(to, "7.0") == 7369100
    assert code(to, "4.4", confirm=True) == code(to, "new", confirm=True) == 4926900
    assert code(to, 8.0, confirm=True) == 14
    assert client.admin.command("getParameter", 1, featureCompatibilityVersion=1)["featureCompatibilityVersion"]["version"] == shown


def test_a_log_is_rotated_by_who_reads_it(client):
    for log in (1, True, "server"):
        assert client.admin.command("logRotate", log, comment="monday")["ok"] == 1
    assert code(client.admin.command, "logRotate", "audit") == code(client.admin.command, "logRotate", "nothing") == 4


def test_the_level_of_the_log_is_read_and_set_as_shells_do(client):
    def levels():
        return client.admin.command("getParameter", 1, logComponentVerbosity=1)["logComponentVerbosity"]

    before = levels()["verbosity"]
    try:
        assert levels()["command"] == {"verbosity": -1}
        was = client.admin.command("setParameter", 1, logComponentVerbosity={"verbosity": 1})["was"]
        assert was["verbosity"] == before
        assert levels()["verbosity"] == client.admin.command("getParameter", 1, logLevel=1)["logLevel"] == 1
        for refused, expected in [({"command": {"verbosity": 2}}, 238), ({"nothing": {"verbosity": 2}}, 2), ({"verbosity": 9}, 2), (5, 14)]:
            assert code(client.admin.command, "setParameter", 1, logComponentVerbosity=refused) == expected, refused
        assert levels()["verbosity"] == 1
        assert client.admin.command("getParameter", 1, ttlMonitorEnabled=1, notablescan=1).items() >= {"ttlMonitorEnabled": True, "notablescan": False}.items()
    finally:
        client.admin.command("setParameter", 1, logLevel=before)


def limits_of_the_control_group(process):
    """Of the memory of a process, in MiB: its group's and those of the groups above."""
    for line in pathlib.Path(f"/proc/{process}/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers != "" and "memory" not in controllers.split(","):
            continue
        mount, file = ("/sys/fs/cgroup", "memory.max") if controllers == "" else ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        group = pathlib.PurePath(name.lstrip("/"))
        for at in [group, *group.parents]:
            limit = pathlib.Path(mount, at, file)
            if limit.exists() and (text := limit.read_text().strip()).isdigit():
                yield int(text) >> 20


def test_the_machine_and_the_command_line_are_described_as_tools_read_them(server, client):
    host = client.admin.command("hostInfo")
    assert host["system"]["memSizeMB"] > 0 and host["system"]["numCoresAvailableToProcess"] >= 1
    assert host["os"]["type"] == "Linux" and host["os"]["name"]
    assert host["extra"]["pageSize"] * host["extra"]["numPages"] >> 20 == host["system"]["memSizeMB"]
    assert host["extra"]["kernelVersion"]
    assert host["system"]["memLimitMB"] == min([host["system"]["memSizeMB"], *limits_of_the_control_group(server.process.pid)])
    parsed = client.admin.command("getCmdLineOpts")["parsed"]
    assert parsed == {"storage": {"dbPath": str(server.directory)}}


@pytest.mark.parametrize("clients", ["one client", "another client"])
def test_cursors_of_an_ended_session_are_closed_and_others_stay(server, client, db, clients):
    db.c.insert_many([{"_id": i} for i in range(10)])
    with client.start_session() as ended, client.start_session() as other:
        cursors = {session: db.c.find({}, session=session, batch_size=2) for session in (ended, other)}
        free = db.c.find({}, batch_size=2)
        for cursor in (*cursors.values(), free):
            next(cursor)
        with server.client() as second:
            (client if clients == "one client" else second).admin.command({"endSessions": [ended.session_id]})
        assert code(list, cursors[ended]) == 43
        assert len(list(cursors[other])) == len(list(free)) == 9


def test_a_client_that_is_closed_leaves_no_cursor_and_no_transaction(tmp_path):
    server = servers.Server(tmp_path / "data", "--replica-set", "rs0")
    try:
        with server.client() as watcher:
            watcher.d.c.insert_many([{"_id": i} for i in range(10)])
            closed = server.client()
            session = closed.start_session()
            cursor = closed.d.c.find({}, session=session, batch_size=2)
            next(cursor)
            assert watcher.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"] == 1
            # As `close` does for the sessions that were given back.
            closed.admin.command({"endSessions": [session.session_id]})
            assert watcher.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"] == 0
            busy = closed.start_session()
            busy.start_transaction()
            closed.d.c.insert_one({"_id": "lost"}, session=busy)
            closed.admin.command({"endSessions": [busy.session_id]})
            assert watcher.admin.command("serverStatus")["transactions"]["currentOpen"] == 0
            assert watcher.d.c.count_documents({"_id": "lost"}) == 0
            with pytest.raises(pymongo.errors.PyMongoError):
                busy.commit_transaction()
            closed.close()
    finally:
        server.stop()
