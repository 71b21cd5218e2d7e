"""The commands that drivers and shells send before the first query."""
import datetime

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure

from wire import Wire


def test_hello_describes_a_standalone(client):
    hello = client.admin.command("hello")
    assert hello["isWritablePrimary"] is True
    assert hello["maxBsonObjectSize"] == 16 * 1024 * 1024
    assert hello["maxMessageSizeBytes"] == 48_000_000
    assert hello["maxWriteBatchSize"] == 100_000
    assert hello["minWireVersion"] == 0 and hello["maxWireVersion"] >= 17
    assert hello["logicalSessionTimeoutMinutes"] == 30
    assert isinstance(hello["localTime"], datetime.datetime)
    assert "setName" not in hello and "compression" not in hello


def test_is_master_answers_the_old_names(client):
    for name in ("isMaster", "ismaster"):
        reply = client.admin.command({name: 1, "helloOk": True})
        assert reply["ismaster"] is True and reply["helloOk"] is True


def test_the_driver_sees_a_standalone_and_does_not_retry_writes(server):
    with server.client(retryWrites=True) as client:
        client.admin.command("ping")
        assert client.topology_description.topology_type_name == "Single"
        assert client.db.c.insert_one({}).acknowledged


def test_a_client_without_direct_connection_finds_the_server_too(server):
    host, port = server.addresses["mongo"]
    with pymongo.MongoClient(host, port, serverSelectionTimeoutMS=5000) as client:
        assert client.admin.command("ping")["ok"] == 1.0
        assert client.topology_description.has_writable_server()


def test_compressors_that_are_not_offered_are_not_used(server):
    with server.client(compressors="zlib") as client:
        assert client.admin.command("ping")["ok"] == 1.0


def test_build_info_tells_both_versions(client):
    info = client.server_info()
    assert info["version"].startswith("8.0.") and info["versionArray"][:2] == [8, 0]
    assert info["bits"] == 64 and info["maxBsonObjectSize"] == 16 * 1024 * 1024
    assert "version" in info["treedb"]
    assert client.admin.command("buildinfo")["ok"] == 1.0


def test_what_shells_ask_at_connect(client):
    admin = client.admin
    assert admin.command("ping") == {"ok": 1.0}
    assert admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == []
    assert admin.command("whatsmyuri")["you"].startswith("127.0.0.1:")
    assert admin.command("hostInfo")["system"]["numCores"] >= 1
    assert set(admin.command("getCmdLineOpts")["parsed"]) == {"storage"}
    assert admin.command({"getLog": "startupWarnings"})["log"] == []
    assert "global" in admin.command({"getLog": "*"})["names"]
    fcv = admin.command({"getParameter": 1, "featureCompatibilityVersion": 1})
    assert fcv["featureCompatibilityVersion"]["version"] == "8.0"
    assert "maxBSONDepth" in admin.command({"getParameter": "*"})
    status = admin.command("serverStatus")
    assert status["connections"]["current"] >= 1 and status["pid"] > 0
    with pytest.raises(OperationFailure) as failure:
        admin.command({"atlasVersion": 1})
    assert failure.value.code == 59


def test_commands_for_admin_are_refused_elsewhere(client):
    with pytest.raises(OperationFailure) as failure:
        client.other.command("listDatabases")
    assert failure.value.code == 13
    with pytest.raises(OperationFailure) as failure:
        client.admin.command({"getParameter": 1, "nonsense": 1})
    assert failure.value.code == 72
    with pytest.raises(OperationFailure) as failure:
        client.admin.command({"getLog": "nonsense"})
    assert failure.value.code == 96


def test_list_commands_lists_what_there_is(client):
    commands = client.admin.command("listCommands")["commands"]
    assert {"find", "insert", "getMore", "killCursors", "createIndexes"} <= set(commands)
    for name in commands:
        # Each one is known to the dispatcher, whatever it thinks of the missing arguments.
        reply = client.admin.command({name: 1, "nonsense": 1}, check=False)
        assert reply.get("code") != 59, name


def test_an_unknown_command_gets_mongodbs_error(client):
    with pytest.raises(OperationFailure) as failure:
        client.admin.command("notACommand")
    error = failure.value.details
    assert error["code"] == 59 and error["codeName"] == "CommandNotFound"
    assert error["errmsg"] == "no such command: 'notACommand'"


def test_sessions_are_accepted(client, db):
    started = client.admin.command("startSession")
    assert started["timeoutMinutes"] == 30 and started["id"]["id"].subtype == 4
    client.admin.command({"refreshSessions": [started["id"]]})
    client.admin.command({"endSessions": [started["id"]]})
    with client.start_session() as session:
        db.c.insert_one({"_id": 1}, session=session)
        assert db.c.find_one({}, session=session) == {"_id": 1}


def test_a_standalone_carries_out_transactions_and_numbered_writes_too(server, client, db):
    write = {"insert": "c", "documents": [{"_id": 1}], "txnNumber": bson.Int64(1),
             "lsid": {"id": bson.Binary(bytes(16), 4)}, "$db": db.name}
    with Wire(server) as wire:
        for _ in range(2):
            assert wire.command(write)["n"] == 1
    with client.start_session() as session, session.start_transaction():
        db.c.insert_one({"_id": 2}, session=session)
        assert db.c.find_one({"_id": 2}) is None
    assert db.c.count_documents({}) == 2
