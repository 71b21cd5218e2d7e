"""Options that are accepted and ignored: each one that the documentation lists is sent; unknown ones are refused."""
import pathlib
import re

import bson
import pytest

from wire import Wire

PAGE = pathlib.Path(__file__).parents[3] / "docs/mongodb-compatibility.md"
SECTION = "\n## Options that are accepted and ignored\n"

# A value that means something for each option: false or null would be accepted of many that are refused.
VALUES = {
    "$clusterTime": {"clusterTime": bson.Timestamp(1, 1), "signature": {"hash": bytes(20), "keyId": 0}},
    "$readPreference": {"mode": "secondary"},
    "apiVersion": "1",
    "commitQuorum": "majority",
    "fields": {"a": 1},
    "flags": 1,
    "ns": "elsewhere.c",
    "v": 1,
    "version": "57.1",
    "comment": "why",
    "$comment": "why",
    "maxTimeMS": 1000,
    "afterClusterTime": bson.Timestamp(1, 1),
    "provenance": "clientSupplied",
    "wtimeout": 1,
    "wtimeoutMS": 1,
}


def listed():
    """(where, option) of each row of the page's table."""
    section = PAGE.read_text().split(SECTION)[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")]
    return [(where.strip("`"), option.strip("`")) for where, option, _ in rows[1:]]


# A valid command of each place that may carry an ignored option, with `option` added to it.
PLACES = {
    "any command": lambda option: {"find": "c", **option},
    "$changeStream": lambda option: {"aggregate": "c", "pipeline": [{"$changeStream": option}], "cursor": {}},
    "collation": lambda option: {"find": "c", "collation": {"locale": "en", **option}},
    "count": lambda option: {"count": "c", **option},
    "create": lambda option: {"create": "new", **option},
    "createIndexes": lambda option: {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}], **option},
    "createIndexes.indexes": lambda option: {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", **option}]},
    "currentOp": lambda option: {"currentOp": 1, "$db": "admin", **option},
    "a filter": lambda option: {"find": "c", "filter": {"a": 1, **option}},
    "find": lambda option: {"find": "c", **option},
    "fsync": lambda option: {"fsync": 1, "$db": "admin", **option},
    "hello": lambda option: {"hello": 1, **option},
    "isMaster": lambda option: {"isMaster": 1, **option},
    "listCollections": lambda option: {"listCollections": 1, **option},
    "listDatabases": lambda option: {"listDatabases": 1, "$db": "admin", **option},
    "readConcern": lambda option: {"find": "c", "readConcern": {"level": "local", **option}},
    "validate": lambda option: {"validate": "c", **option},
    "writeConcern": lambda option: {"insert": "c", "documents": [{"a": 1}], "writeConcern": {"w": 1, **option}},
}


@pytest.mark.parametrize("where, option", listed())
def test_every_listed_option_is_accepted(server, db, where, option):
    db.c.insert_one({"a": 1})
    names = ["client", "compression", "saslSupportedMechs", "whatDriversWillSend"] if option == "all others" else [option]
    for name in names:
        command = PLACES[where]({name: VALUES.get(name, True)})
        command.setdefault("$db", db.name)
        with Wire(server) as wire:
            reply = wire.command(command)
        assert reply["ok"] == 1 and "writeErrors" not in reply, reply


@pytest.mark.parametrize("option", [option for where, option in listed() if where == "any command"])
def test_options_of_any_command_are_accepted_by_commands_without_options_of_their_own(server, db, option):
    with Wire(server) as wire:
        for command in [{"ping": 1}, {"buildInfo": 1}, {"insert": "c", "documents": [{}]}, {"count": "c"}, {"drop": "c"}]:
            reply = wire.command({**command, option: VALUES.get(option, True), "$db": db.name})
            assert reply["ok"] == 1, (command, reply)


ARGUMENTS = {
    "aggregate": {"aggregate": "c", "pipeline": [], "cursor": {}},
    "collMod": {"collMod": "c"},
    "count": {"count": "c"},
    "create": {"create": "new"},
    "createIndexes": {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]},
    "delete": {"delete": "c", "deletes": [{"q": {}, "limit": 1}]},
    "distinct": {"distinct": "c", "key": "a"},
    "drop": {"drop": "c"},
    "dropIndexes": {"dropIndexes": "c", "index": "*"},
    "endSessions": {"endSessions": []},
    "explain": {"explain": {"find": "c"}},
    "find": {"find": "c"},
    "findAndModify": {"findAndModify": "c", "query": {}, "remove": True},
    "getLog": {"getLog": "global"},
    "killOp": {"killOp": 1, "op": 1},
    "getMore": {"getMore": bson.Int64(1), "collection": "c"},
    "convertToCapped": {"convertToCapped": "c", "size": 1000},
    "bulkWrite": {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "a.b"}]},
    "insert": {"insert": "c", "documents": [{}]},
    "killAllSessions": {"killAllSessions": []},
    "killAllSessionsByPattern": {"killAllSessionsByPattern": []},
    "killCursors": {"killCursors": "c", "cursors": []},
    "killSessions": {"killSessions": []},
    "listIndexes": {"listIndexes": "c"},
    "planCacheClear": {"planCacheClear": "c"},
    "planCacheClearFilters": {"planCacheClearFilters": "c"},
    "planCacheListFilters": {"planCacheListFilters": "c"},
    "refreshSessions": {"refreshSessions": []},
    "renameCollection": {"renameCollection": "a.b", "to": "a.c"},
    "update": {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 2}}}]},
    "backupTo": {"backupTo": "/nowhere/backup"},
}

# Where a field that is no option means something: any of the driver's, a filter, the name of a section or a parameter; or
# the command is about a transaction, without which it is refused before.
OPEN = {"hello", "isMaster", "currentOp", "serverStatus", "getParameter", "setParameter", "abortTransaction",
        "commitTransaction"}


def test_an_unknown_option_of_any_command_is_refused(server, db, client):
    db.c.insert_one({"a": 1})
    commands = client.admin.command("listCommands")["commands"]
    with Wire(server) as wire:
        for name, about in commands.items():
            if name in OPEN:
                continue
            database = "admin" if about["adminOnly"] else db.name
            command = {**ARGUMENTS.get(name, {name: 1}), "noSuchOption": 1, "$db": database}
            reply = wire.command(command)
            assert reply.get("code") == 40415, (command, reply)
            assert "noSuchOption" in reply["errmsg"]
    assert db.c.count_documents({"a": 1}) == 1


@pytest.mark.parametrize("command, code", [
    ({"insert": "c", "documents": [{}], "writeConcern": {"x": 1}}, 9),
    ({"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "comment": 1}]}, 40415),
    ({"delete": "c", "deletes": [{"q": {}, "limit": 0, "comment": 1}]}, 40415),
    ({"find": "c", "readConcern": {"level": "all"}}, 2),
    ({"find": "c", "readConcern": {"x": 1}}, 40415),
    ({"find": "c", "readConcern": "local"}, 14),
    ({"find": "c", "writeConcern": {"w": 1}}, 72),
    ({"insert": "c", "documents": [{}], "readConcern": {"level": "majority"}}, 72),
    ({"insert": "c", "documents": [{}], "readConcern": {"level": "snapshot"}}, 72),
    ({"delete": "c", "deletes": [{"q": {}, "limit": 0}], "readConcern": {"level": "available"}}, 72),
    ({"listIndexes": "c", "readConcern": {"level": "linearizable"}}, 72),
    ({"ping": 1, "readConcern": {"level": "majority"}}, 72),
    ({"find": "c", "hint": {"$natural": -2}}, 2),
    ({"find": "c", "shardVersion": [1]}, 238),
    ({"aggregate": "c", "pipeline": [], "cursor": {}, "exchange": {"a": 1}}, 238),
    ({"create": "new", "autoIndexId": False}, 238),
    ({"create": "new", "temp": True}, 238),
    ({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "noSuchOption": 1}]}, 197),
    ({"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "_id_", "background": True}]}, 197),
])
def test_options_that_would_change_the_answer_are_refused(server, db, command, code):
    with Wire(server) as wire:
        reply = wire.command({**command, "$db": db.name})
    found = reply["writeErrors"][0]["code"] if "writeErrors" in reply else reply.get("code")
    assert found == code, reply


def test_commands_that_do_not_read_take_the_read_concern_local(db):
    for level in [{}, {"level": "local"}]:
        assert db.command({"insert": "c", "documents": [{}], "readConcern": level})["n"] == 1
        assert db.command({"ping": 1, "readConcern": level})["ok"] == 1
    for level in ["local", "available", "majority", "linearizable"]:
        assert db.command({"count": "c", "readConcern": {"level": level}})["n"] == 2
        assert db.command({"explain": {"find": "c"}, "readConcern": {"level": level}})["ok"] == 1


def test_unknown_index_options_are_left_out_if_the_command_says_so(db):
    index = {"key": {"a": 1}, "name": "a", "unique": True, "noSuchOption": 1}
    db.command("createIndexes", "c", indexes=[index], ignoreUnknownIndexOptions=True)
    assert db.c.index_information()["a"] == {"v": 2, "key": [("a", 1)], "unique": True}


def test_server_status_leaves_out_the_sections_that_are_0(client):
    assert "network" not in client.admin.command("serverStatus", network=0)
    assert "network" in client.admin.command("serverStatus", network=1, other=0)


def test_privileges_are_shown_when_asked_for(client):
    info = client.admin.command("connectionStatus", showPrivileges=True)["authInfo"]
    assert info["authenticatedUserPrivileges"] == []
    assert "authenticatedUserPrivileges" not in client.admin.command("connectionStatus")["authInfo"]


def test_current_op_takes_a_filter(client):
    assert client.admin.command("currentOp", active=False)["inprog"] == []
    own, = client.admin.command({"currentOp": 1, "$ownOps": True, "active": True})["inprog"]
    assert own["command"]["$ownOps"] is True and own["op"] == "command" and own["secs_running"] == 0
    with pytest.raises(Exception, match=re.escape("unknown operator: $nonsense")):
        client.admin.command("currentOp", active={"$nonsense": 1})
