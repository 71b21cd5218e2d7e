"""Authentication and authorization: users, roles, and what they permit."""
import contextlib
import hashlib
import ipaddress
import socket
import subprocess
from urllib.parse import quote

import bson
import pymongo
import pytest
from bson import Binary, Int64
from pymongo.errors import OperationFailure

import scram
from server import BIN, PASSWORD, ROOT, Locked, Server
from wire import Wire

@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    server = Locked(tmp_path_factory.mktemp("locked") / "data", native=True, admin=True)
    with server.as_user() as root:
        root.shop.orders.insert_many([{"_id": i, "n": i} for i in range(300)])
        root.shop.secret.insert_one({"_id": 1})
        root.other.things.insert_one({"_id": 1})
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]
    assert not [line for line in server.log if PASSWORD in line]


@pytest.fixture
def root(locked):
    with locked.as_user() as client:
        yield client


@pytest.fixture
def user(locked, root):
    """Makes users; returns clients that have authenticated as them."""
    made, clients = [], []

    def make(roles, database="admin", name=None, **options):
        name = name or f"user{len(made)}"
        root[database].command("createUser", name, pwd="secret", roles=roles, **options)
        made.append((database, name))
        client = locked.as_user(name, "secret", database)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()
    for database, name in made:
        if root[database].command("usersInfo", name)["users"]:
            root[database].command("dropUser", name)


def refused(run, code=13):
    with pytest.raises(OperationFailure) as error:
        run()
    assert error.value.code == code, error.value
    return error.value


def test_without_authentication_only_the_handshake_is_answered(locked):
    with locked.client() as client:
        assert client.admin.command("hello")["ok"] == 1.0
        assert client.admin.command("ping")["ok"] == 1.0
        assert client.admin.command("buildInfo")["ok"] == 1.0
        assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == []
        for run in [
            lambda: client.shop.orders.find_one(),
            lambda: client.shop.orders.insert_one({}),
            lambda: client.shop.command("create", "x"),
            lambda: client.list_database_names(),
            lambda: client.shop.list_collection_names(),
            lambda: client.admin.command("serverStatus"),
            lambda: client.admin.command("createUser", "mallory", pwd="x", roles=["root"]),
            lambda: client.admin.command("usersInfo", 1),
            lambda: client.admin.command("backupTo", "/tmp/never"),
            lambda: client.shop.command("getMore", Int64(7), collection="orders"),
        ]:
            assert "requires authentication" in str(refused(run))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_a_password_lets_its_user_in_by_both_mechanisms(locked, mechanism):
    with locked.as_user(authMechanism=mechanism) as client:
        assert client.shop.orders.count_documents({}) == 300
        status = client.admin.command("connectionStatus", showPrivileges=True)["authInfo"]
        assert status["authenticatedUsers"] == [{"user": "root", "db": "admin"}]
        assert {"role": "root", "db": "admin"} in status["authenticatedUserRoles"]
        assert status["authenticatedUserPrivileges"]


@pytest.mark.parametrize("name, password, database", [
    (ROOT, "wrong", "admin"), ("nobody", PASSWORD, "admin"), (ROOT, PASSWORD, "shop")])
def test_a_wrong_user_password_or_database_is_refused_in_the_same_words(locked, name, password, database):
    with locked.as_user(name, password, database) as client:
        assert refused(lambda: client.shop.orders.find_one(), 18).details["errmsg"] == "Authentication failed."
    # A success forgets the failures of this address.
    with locked.as_user() as client:
        client.admin.command("ping")


def test_a_user_has_only_the_mechanisms_that_were_asked_for(locked, user):
    user([], name="modern", mechanisms=["SCRAM-SHA-256"]).admin.command("ping")
    with locked.as_user("modern", "secret", authMechanism="SCRAM-SHA-1") as client:
        refused(lambda: client.shop.orders.find_one(), 18)
    with locked.client() as client:
        for name, mechanisms in [("modern", ["SCRAM-SHA-256"]), ("nobody", ["SCRAM-SHA-256", "SCRAM-SHA-1"])]:
            assert client.admin.command("hello", saslSupportedMechs=f"admin.{name}")["saslSupportedMechs"] == mechanisms
    with locked.as_user() as client:
        client.admin.command("ping")


# What each role may do in `shop`, where it belongs to a database: in that. R reads, W writes, D is the administrator of
# the data, U that of users; X drops databases.
ALLOWED = {
    "read": "R", "readWrite": "RW", "dbAdmin": "D", "dbOwner": "RWDU", "userAdmin": "U",
    "readAnyDatabase": "R", "readWriteAnyDatabase": "RW", "dbAdminAnyDatabase": "D", "userAdminAnyDatabase": "U",
    "clusterMonitor": "M", "hostManager": "H", "clusterManager": "C", "clusterAdmin": "MHCX", "backup": "rB", "restore": "wU",
    "root": "RWDUMHBC",
}
COMMANDS = [
    ({"find": "orders", "limit": 1}, "Rr"),
    ({"count": "orders"}, "Rr"),
    ({"distinct": "orders", "key": "n"}, "Rr"),
    ({"aggregate": "orders", "pipeline": [{"$limit": 1}], "cursor": {}}, "Rr"),
    ({"explain": {"find": "orders"}}, "Rr"),
    ({"explain": {"aggregate": "orders", "pipeline": [], "cursor": {}}}, "Rr"),
    ({"explain": {"update": "scratch", "updates": [{"q": {"_id": 1}, "u": {"$set": {"b": 1}}, "upsert": True}]}}, "Ww"),
    ({"explain": {"findAndModify": "scratch", "query": {"a": 1}, "update": {"$set": {"b": 1}}, "upsert": True}}, "W"),
    ({"explain": {"findAndModify": "scratch", "query": {"a": 1}, "remove": True}}, "W"),
    ({"aggregate": "orders", "pipeline": [{"$changeStream": {}}], "cursor": {}}, "R"),
    ({"insert": "scratch", "documents": [{}]}, "Ww"),
    ({"applyOps": [{"op": "i", "ns": "shop.scratch", "o": {"_id": "applied"}}, {"op": "d", "ns": "shop.scratch", "o": {"_id": "applied"}}], "$db": "admin"}, "Ww"),
    ({"applyOps": [{"op": "c", "ns": "shop.$cmd", "o": {"collMod": "scratch", "validationLevel": "off"}}], "$db": "admin"}, "Dw"),
    ({"update": "scratch", "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 1}}}]}, "Ww"),
    ({"update": "scratch", "updates": [{"q": {"_id": 1}, "u": {"$set": {"b": 1}}, "upsert": True}]}, "Ww"),
    ({"delete": "scratch", "deletes": [{"q": {"a": 1}, "limit": 0}]}, "Ww"),
    ({"findAndModify": "scratch", "query": {"a": 1}, "update": {"$set": {"b": 1}}}, "W"),
    ({"findAndModify": "scratch", "query": {"a": 1}, "remove": True}, "W"),
    ({"aggregate": "orders", "pipeline": [{"$limit": 1}, {"$out": "copy"}], "cursor": {}}, "W"),
    ({"aggregate": "orders", "pipeline": [{"$limit": 1}, {"$merge": "copy"}], "cursor": {}}, "W"),
    ({"listCollections": 1, "cursor": {}}, "RDrw"),
    ({"listIndexes": "orders"}, "RDr"),
    ({"listSearchIndexes": "orders"}, "RDr"),
    ({"createIndexes": "scratch", "indexes": [{"key": {"a": 1}, "name": "a"}]}, "WDw"),
    ({"dropIndexes": "scratch", "index": "a"}, "WD"),
    ({"create": "created"}, "WDw"),
    ({"drop": "created"}, "WDw"),
    ({"collMod": "scratch", "validationLevel": "off"}, "Dw"),
    ({"createUser": "temporary", "pwd": "x", "roles": []}, "U"),
    ({"usersInfo": 1}, "U"),
    ({"updateUser": "temporary", "customData": {}}, "U"),
    ({"grantRolesToUser": "temporary", "roles": ["read"]}, "U"),
    ({"revokeRolesFromUser": "temporary", "roles": ["read"]}, "U"),
    ({"dropUser": "temporary"}, "U"),
    ({"createRole": "temporary", "privileges": [], "roles": ["read"]}, "U"),
    ({"rolesInfo": 1}, "U"),
    ({"updateRole": "temporary", "roles": []}, "U"),
    ({"dropRole": "temporary"}, "U"),
    ({"serverStatus": 1}, "MB"),
    ({"hostInfo": 1, "$db": "admin"}, "M"),
    ({"getLog": "global", "$db": "admin"}, "M"),
    ({"getParameter": 1, "featureCompatibilityVersion": 1, "$db": "admin"}, "MBrw"),
    ({"getCmdLineOpts": 1, "$db": "admin"}, "M"),
    ({"logRotate": 1, "$db": "admin"}, "H"),
    ({"planCacheClear": "orders"}, "D"),
    ({"planCacheClearFilters": "orders"}, "D"),
    ({"planCacheListFilters": "orders"}, "D"),
    ({"currentOp": 1, "$db": "admin"}, "M"),
    ({"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": True}}], "cursor": {}, "$db": "admin"}, "M"),
    ({"aggregate": 1, "pipeline": [{"$listLocalSessions": {}}], "cursor": {}, "$db": "admin"}, "MC"),
    ({"top": 1, "$db": "admin"}, "M"),
    ({"connPoolStats": 1, "$db": "admin"}, "M"),
    ({"setParameter": 1, "cursorTimeoutMillis": 600000, "$db": "admin"}, "H"),
    ({"killOp": 1, "op": 1, "$db": "admin"}, "H"),
    ({"dbHash": 1}, "RD"),
    ({"dbStats": 1}, "RDM"),
    ({"collStats": "orders"}, "RDM"),
    ({"aggregate": "orders", "pipeline": [{"$collStats": {"count": {}, "latencyStats": {}}}], "cursor": {}}, "RDM"),
    ({"aggregate": "orders", "pipeline": [{"$indexStats": {}}], "cursor": {}}, "DM"),
    ({"dataSize": "shop.orders", "$db": "shop"}, "Rr"),
    ({"reIndex": "orders"}, "D"),
    ({"validate": "orders"}, "D"),
    ({"compact": "orders"}, "D"),
    ({"profile": 0}, "D"),
    ({"backupStatus": 1, "$db": "admin"}, "B"),
    ({"fsync": 1, "$db": "admin"}, "H"),
    ({"setFeatureCompatibilityVersion": "8.0", "confirm": True, "$db": "admin"}, "C"),
    ({"killAllSessions": [], "$db": "admin"}, "H"),
    ({"killAllSessionsByPattern": [], "$db": "admin"}, "H"),
    ({"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "shop.scratch"}], "$db": "admin"}, "Ww"),
    ({"convertToCapped": "scratch", "size": 100_000}, "WDw"),
    ({"renameCollection": "shop.scratch", "to": "shop.created", "dropTarget": True, "$db": "admin"}, "WD"),
    ({"createSearchIndexes": "scratch", "indexes": [
        {"name": "v", "type": "vectorSearch", "definition": {"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "cosine"}]}}]}, "WDw"),
    ({"dropSearchIndex": "scratch", "name": "v"}, "WD"),
    ({"grantRolesToRole": "temporary", "roles": ["read"]}, "U"),
    ({"revokeRolesFromRole": "temporary", "roles": ["read"]}, "U"),
    ({"grantPrivilegesToRole": "temporary", "privileges": [{"resource": {"db": "shop", "collection": ""}, "actions": ["find"]}]}, "U"),
    ({"revokePrivilegesFromRole": "temporary", "privileges": [{"resource": {"db": "shop", "collection": ""}, "actions": ["find"]}]}, "U"),
    ({"dropAllRolesFromDatabase": 1}, "U"),
    ({"dropAllUsersFromDatabase": 1}, "U"),
]

#: Commands that are not in the table above, and why.
ELSEWHERE = {
    "without authentication": {"authenticate", "buildInfo", "connectionStatus", "hello", "isMaster", "logout", "ping", "saslContinue", "saslStart", "whatsmyuri"},
    "every user, about what is its own": {"abortTransaction", "commitTransaction", "endSessions", "getMore", "killCursors", "killSessions",
                                          "listDatabases", "refreshSessions", "startSession"},
    "every user": {"listCommands"},
    "test_destructive_commands_need_their_roles": {"backupTo", "dropDatabase"},
    "test_only_who_manages_the_host_stops_the_server": {"shutdown"},
    "test_the_state_of_the_set_is_for_those_who_watch_it": {"replSetGetConfig", "replSetGetStatus"},
    "test_access_matrix.py": {"configureFailPoint", "fsyncUnlock", "getDefaultRWConcern", "updateSearchIndex"},
}


def test_every_command_is_in_the_table_of_roles(root):
    known = {next(iter(command)) for command, _ in COMMANDS}.union(*ELSEWHERE.values())
    assert set(root.admin.command("listCommands")["commands"]) - known == set()


@pytest.mark.parametrize("role", sorted(ALLOWED))
def test_destructive_commands_need_their_roles(root, user, tmp_path, role):
    own = role in ("read", "readWrite", "dbAdmin", "dbOwner", "userAdmin")
    root.doomed.c.insert_one({})
    client = user([{"role": role, "db": "doomed" if own else "admin"}])
    for command, letters in [({"dropDatabase": 1}, "DX"), ({"backupTo": str(tmp_path / "copy"), "$db": "admin"}, "B")]:
        database = client[command.get("$db", "doomed")]
        plain = {key: value for key, value in command.items() if key != "$db"}
        if set(ALLOWED[role]) & set(letters):
            database.command(plain)
        else:
            refused(lambda: database.command(plain))


@pytest.mark.parametrize("role", sorted(role for role in ALLOWED if "H" not in ALLOWED[role]))
def test_who_does_not_manage_the_host_does_not_stop_the_server(user, role):
    own = role in ("read", "readWrite", "dbAdmin", "dbOwner", "userAdmin")
    client = user([{"role": role, "db": "shop" if own else "admin"}])
    refused(lambda: client.admin.command("shutdown"))


def test_only_who_manages_the_host_stops_the_server(tmp_path):
    for role in [role for role in ALLOWED if "H" in ALLOWED[role]]:
        server = Locked(tmp_path / role)
        with server.as_user() as client:
            client.admin.command("createUser", "keeper", pwd="secret", roles=[role])
        with server.client() as client:
            refused(lambda: client.admin.command("shutdown"))
        with server.as_user("keeper", "secret") as client:
            assert client.admin.command("shutdown")["ok"] == 1
        assert server.process.wait(timeout=20) == 0, role
        server.stop()


@pytest.mark.parametrize("role", sorted(ALLOWED))
def test_the_state_of_the_set_is_for_those_who_watch_it(root, user, role):
    own = role in ("read", "readWrite", "dbAdmin", "dbOwner", "userAdmin")
    client = user([{"role": role, "db": "shop" if own else "admin"}])
    for name, letters in [("replSetGetStatus", "MC"), ("replSetGetConfig", "MC")]:
        # The server is a standalone: who may ask is told that.
        refused(lambda: client.admin.command(name), 76 if set(ALLOWED[role]) & set(letters) else 13)


# What a role that permits everything in one place permits there, and nowhere else: every kind of place, by every kind of command.
PLACES = [
    ({"db": "shop", "collection": "orders"}, {("shop", "orders")}),
    ({"db": "shop", "collection": ""}, {("shop", "orders"), ("shop", "secret")}),
    ({"db": "", "collection": "orders"}, {("shop", "orders"), ("other", "orders")}),
    ({"db": "", "collection": ""}, {("shop", "orders"), ("shop", "secret"), ("other", "orders"), ("other", "things")}),
]
ONE_COLLECTION = ["find", "insert", "update", "remove", "createIndex", "dropIndex", "listIndexes", "collStats", "validate", "collMod"]


@pytest.mark.parametrize("resource, places", PLACES)
def test_a_privilege_is_good_in_its_place_and_nowhere_else(root, user, resource, places):
    root.admin.command("createRole", "placed", roles=[], privileges=[{"resource": resource, "actions": ONE_COLLECTION}])
    root.other.orders.insert_one({"_id": 1})
    client = user(["placed"])
    try:
        # A resource of any database is one of these, too.
        own = {("config", "orders"), ("local", "orders"), ("admin", "orders")} if resource["db"] else set()
        for database, collection in PLACES[-1][1] | own:
            for command in [
                {"find": collection, "limit": 1}, {"count": collection}, {"distinct": collection, "key": "n"},
                {"aggregate": collection, "pipeline": [], "cursor": {}},
                {"insert": collection, "documents": [{"_id": "new"}]},
                {"update": collection, "updates": [{"q": {"_id": "new"}, "u": {"$set": {"x": 1}}}]},
                {"findAndModify": collection, "query": {"_id": "new"}, "update": {"$set": {"x": 2}}},
                {"delete": collection, "deletes": [{"q": {"_id": "new"}, "limit": 1}]},
                {"createIndexes": collection, "indexes": [{"key": {"zz": 1}, "name": "zz"}]},
                {"listIndexes": collection}, {"dropIndexes": collection, "index": "zz"},
                {"collStats": collection}, {"validate": collection}, {"collMod": collection, "validationLevel": "strict"},
            ]:
                if (database, collection) in places:
                    client[database].command(command)
                else:
                    refused(lambda: client[database].command(command))
    finally:
        root.other.orders.drop()
        root.admin.command("dropRole", "placed")


@pytest.mark.parametrize("role", sorted(ALLOWED))
def test_every_role_may_run_what_it_permits_and_nothing_else(root, user, role):
    own = role in ("read", "readWrite", "dbAdmin", "dbOwner", "userAdmin")
    client = user([{"role": role, "db": "shop" if own else "admin"}])
    root.shop.scratch.insert_one({"_id": 1})
    root.shop.scratch.create_index("a", name="a")
    root.shop.create_collection("created")
    try:
        for command, letters in COMMANDS:
            allowed = bool(set(ALLOWED[role]) & set(letters))
            # What a later command needs is there, whether or not the one before was allowed.
            name = next(iter(command))
            if name in ("updateUser", "dropUser", "grantRolesToUser", "revokeRolesFromUser"):
                if not root.shop.command("usersInfo", "temporary")["users"]:
                    root.shop.command("createUser", "temporary", pwd="x", roles=["read"])
            if name in ("updateRole", "dropRole", "grantRolesToRole", "revokeRolesFromRole", "grantPrivilegesToRole",
                        "revokePrivilegesFromRole") and not root.shop.command("rolesInfo", "temporary")["roles"]:
                root.shop.command("createRole", "temporary", privileges=[], roles=[])
            if name == "drop" and "created" not in root.shop.list_collection_names():
                root.shop.create_collection("created")
            if name == "create":
                root.shop.drop_collection("created")
            if name == "dropIndexes":
                root.shop.scratch.create_index("a", name="a")
            if name in ("renameCollection", "createSearchIndexes", "dropSearchIndex") and "scratch" not in root.shop.list_collection_names():
                root.shop.create_collection("scratch")
            if name == "dropSearchIndex" and not list(root.shop.scratch.list_search_indexes()):
                root.shop.command(COMMANDS[[next(iter(each)) for each, _ in COMMANDS].index("createSearchIndexes")][0])
            database = client[command.get("$db", "shop")]
            plain = {key: value for key, value in command.items() if key != "$db"}
            try:
                database.command(plain)
                done = True
            except OperationFailure as error:
                assert error.code == 13, (role, command, error)
                done = False
            assert done == allowed, (role, command)
            # Who may grant in a database may put its privileges into any role, as in MongoDB.
            elsewhere = "$db" in command or name in ("serverStatus", "grantPrivilegesToRole", "revokePrivilegesFromRole")
            if own and not elsewhere:
                refused(lambda: client.other.command(plain))
    finally:
        for name in ("scratch", "created", "copy"):
            root.shop.drop_collection(name)
        root.shop.command("dropAllUsersFromDatabase")
        root.shop.command("dropAllRolesFromDatabase")


def test_what_the_profiler_keeps_is_for_administrators_of_the_database(root, user):
    root.shop.command("profile", 2)
    root.shop.orders.find_one()
    root.shop.command("profile", 0)
    admin = user([{"role": "dbAdmin", "db": "shop"}])
    assert admin.shop["system.profile"].find_one({"op": "query"})["ns"] == "shop.orders"
    assert admin.shop.command("profile", -1)["was"] == 0
    refused(lambda: admin.other["system.profile"].find_one())
    refused(lambda: admin.shop.orders.find_one())
    reader = user([{"role": "read", "db": "shop"}])
    refused(lambda: reader.shop["system.profile"].find_one())
    refused(lambda: reader.shop.command("profile", -1))


def test_sessions_are_ended_by_their_user_and_not_by_others_whatever_id_they_name(locked, root, user):
    reader = user([{"role": "read", "db": "shop"}], name="reader")
    owner = root.admin.command("usersInfo", "reader")["users"][0]["userId"]
    with reader.start_session() as session:
        first, second = (reader.shop.orders.find({}, session=session, batch_size=2) for _ in range(2))
        assert next(first)["_id"] == next(second)["_id"] == 0
        named = session.session_id["id"]
        # By what the server knows the session, and lists it.
        listed = Binary(hashlib.sha256(bytes(named) + bytes(owner)).digest()[:16], 4)
        with Wire(locked) as stranger:
            for id in (named, listed):
                assert stranger.command({"endSessions": [{"id": id}], "$db": "admin"})["ok"] == 1
                root.admin.command({"endSessions": [{"id": id}]})
            for wrong, expected in [([5], 14), ([{"id": 5}], 14), ([{"id": Binary(b"short", 4)}], 207), (5, 14)]:
                assert stranger.command({"endSessions": wrong, "$db": "admin"})["code"] == expected, wrong
        assert len(list(first)) == 299
        reader.admin.command({"endSessions": [session.session_id]})
        refused(lambda: list(second), 43)
        # An administrator ends it by the id that is listed.
        third, fourth = (reader.shop.orders.find({}, session=session, batch_size=2) for _ in range(2))
        assert next(third)["_id"] == next(fourth)["_id"] == 0
        root.admin.command({"killAllSessionsByPattern": [{"lsid": {"id": named}}]})
        assert len(list(third)) == 299
        root.admin.command({"killAllSessionsByPattern": [{"lsid": {"id": listed}}]})
        refused(lambda: list(fourth), 43)


def test_ones_own_operations_may_be_seen_and_stopped_and_no_others(root, user):
    reader = user([{"role": "read", "db": "shop"}])
    own, = reader.admin.aggregate([{"$currentOp": {}}])
    assert own["effectiveUsers"][0]["db"] == "admin" and own["command"]["aggregate"] == 1
    assert len(reader.admin.command({"currentOp": 1, "$ownOps": True})["inprog"]) == 1
    refused(lambda: reader.admin.command("currentOp"))
    refused(lambda: reader.admin.command({"currentOp": 1, "$ownOps": False}))
    refused(lambda: list(reader.admin.aggregate([{"$currentOp": {"allUsers": True}}])))
    # One that has ended is nobody's.
    refused(lambda: reader.admin.command("killOp", op=own["opid"]))
    refused(lambda: reader.admin.command("killOp", op=root.admin.command("currentOp")["inprog"][0]["opid"]))
    # Explaining a write needs what the write does.
    refused(lambda: reader.shop.command({"explain": {"delete": "orders", "deletes": [{"q": {}, "limit": 0}]}}))


def test_stages_need_what_they_read_and_write(root, user):
    root.shop.command("createRole", "clerk", roles=[], privileges=[
        {"resource": {"db": "shop", "collection": "orders"}, "actions": ["find"]}])
    client = user([{"role": "clerk", "db": "shop"}])
    orders = client.shop.orders
    assert len(list(orders.aggregate([{"$match": {"n": 1}}]))) == 1
    secret = {"from": "secret", "as": "s", "localField": "_id", "foreignField": "_id"}
    for stage in [
        {"$lookup": secret},
        {"$lookup": {"from": "orders", "as": "s", "pipeline": [{"$unionWith": "secret"}]}},
        {"$unionWith": "secret"},
        {"$unionWith": {"coll": "secret", "pipeline": []}},
        {"$graphLookup": {"from": "secret", "as": "s", "startWith": 1, "connectFromField": "a", "connectToField": "b"}},
        {"$facet": {"a": [{"$lookup": secret}]}},
        {"$out": "stolen"},
        {"$out": {"db": "other", "coll": "stolen"}},
        {"$merge": "stolen"},
        {"$merge": {"into": {"db": "other", "coll": "stolen"}}},
    ]:
        refused(lambda: list(orders.aggregate([stage])))
        refused(lambda: client.shop.command("explain", {"aggregate": "orders", "pipeline": [stage], "cursor": {}}))
    refused(lambda: client.shop.watch())
    refused(lambda: client.watch())
    assert "stolen" not in root.shop.list_collection_names() + root.other.list_collection_names()
    root.shop.command("dropRole", "clerk")
    refused(lambda: orders.find_one())


def log_in(wire, name, password, database, meanwhile=lambda: None, code=None):
    """Authenticates a raw connection, by the messages of SCRAM-SHA-256. Something happens between them."""
    first = scram.first_message(name)
    begun = wire.command({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": Binary(b"n,," + first),
                          "options": {"skipEmptyExchange": True}, "$db": database})
    last = scram.last_message(password, first, begun["payload"])
    meanwhile()
    reply = wire.command({"saslContinue": 1, "conversationId": begun["conversationId"], "$db": database,
                         "payload": Binary(last)})
    assert reply.get("code") == code, reply
    return reply


def test_a_merge_reads_nothing_beside_its_target(root, user):
    root.shop.command("createRole", "own", roles=[], privileges=[
        {"resource": {"db": "shop", "collection": "mine"}, "actions": ["find", "insert", "update"]}])
    root.shop.mine.insert_one({"_id": 1})
    mine = user([{"role": "own", "db": "shop"}]).shop.mine
    for stage in [{"$lookup": {"from": "secret", "pipeline": [], "as": "x"}}, {"$unionWith": "secret"},
                  {"$facet": {"x": [{"$unionWith": "secret"}]}}]:
        merge = {"$merge": {"into": "mine", "whenMatched": [stage]}}
        refused(lambda: list(mine.aggregate([merge])))
        # Nobody else may either: such a pipeline makes one document of another.
        refused(lambda: list(root.shop.mine.aggregate([merge])), 9)
    list(mine.aggregate([{"$merge": {"into": "mine", "whenMatched": [{"$set": {"x": 1}}]}}]))
    assert list(root.shop.mine.find()) == [{"_id": 1, "x": 1}]
    root.shop.mine.drop()
    root.shop.command("dropRole", "own")


@pytest.mark.parametrize("off", [0, 0.0, Int64(0), False, None])
def test_a_find_and_modify_is_what_it_does_and_not_what_it_looks_like(root, user, off):
    root.shop.command("createRole", "remover", roles=[], privileges=[
        {"resource": {"db": "shop", "collection": "mine"}, "actions": ["find", "remove"]}])
    root.shop.mine.insert_one({"_id": 1})
    client = user([{"role": "remover", "db": "shop"}])
    refused(lambda: client.shop.command({"findAndModify": "mine", "query": {}, "update": {"$set": {"x": 1}},
                                         "remove": off}))
    assert client.shop.mine.find_one_and_delete({"_id": 1}) == {"_id": 1}
    root.shop.command("dropRole", "remover")


def test_a_change_stream_ends_with_the_right_to_read(user, root):
    client = user([{"role": "read", "db": "shop"}], name="ann")
    with client.shop.orders.watch(max_await_time_ms=100) as changes:
        root.shop.orders.insert_one({"_id": "seen"})
        assert changes.next()["documentKey"] == {"_id": "seen"}
        root.admin.command("revokeRolesFromUser", "ann", roles=[{"role": "read", "db": "shop"}])
        root.shop.orders.delete_one({"_id": "seen"})
        refused(lambda: client.shop.command("getMore", Int64(changes._cursor.cursor_id), collection="orders"))


def test_a_half_finished_authentication_does_not_outlive_its_password(locked, root, user):
    user([], name="ann")
    with Wire(locked) as wire:
        log_in(wire, "ann", "secret", "admin",
               meanwhile=lambda: root.admin.command("updateUser", "ann", pwd="another"), code=18)
    user([], name="bob")

    def again():
        root.admin.command("dropUser", "bob")
        root.admin.command("createUser", "bob", pwd="secret", roles=["root"])

    with Wire(locked) as wire:
        log_in(wire, "bob", "secret", "admin", meanwhile=again, code=18)
    with locked.as_user() as client:
        client.admin.command("ping")


def test_databases_that_cannot_be_are_refused(root, user):
    root.admin.command("createRole", "files", roles=[], privileges=[
        {"resource": {"db": "", "collection": "files"}, "actions": ["find", "insert", "remove"]}])
    client = user(["files"])
    client.shop.files.insert_one({"_id": 1})
    for command in [
        {"explain": {"find": "files"}, "$db": "shop.x"},
        {"find": "files", "$db": "shop.x"},
        {"aggregate": "files", "pipeline": [{"$out": {"db": "shop.x", "coll": "files"}}], "cursor": {}, "$db": "shop"},
    ]:
        with pytest.raises((OperationFailure, pymongo.errors.InvalidName)) as error:
            client[command.pop("$db")].command(command)
        assert getattr(error.value, "code", 73) in (13, 73)
    # What the server keeps of retried writes of others is not for every role.
    refused(lambda: client.config.transactions.find_one())
    root.shop.files.drop()
    root.admin.command("dropRole", "files")


def test_roles_and_privileges_are_limited(root):
    many = [f"r{i}" for i in range(2000)]
    refused(lambda: root.admin.command("createUser", "x", pwd="x", roles=many), 2)
    refused(lambda: root.admin.command("createRole", "x", roles=[], privileges=[
        {"resource": {"db": "a", "collection": f"c{i}"}, "actions": ["find"]} for i in range(2000)]), 2)


def test_a_field_that_occurs_twice_does_not_hide_what_a_command_does(locked, root, user):
    user([{"role": "read", "db": "shop"}], name="ann")

    def twice(command, again):
        """The bytes of a document with the fields of both."""
        fields = bson.encode(command)[4:-1] + bson.encode(again)[4:]
        return b"\0" + (len(fields) + 4).to_bytes(4, "little") + fields

    with Wire(locked) as wire:
        assert log_in(wire, "ann", "secret", "admin")["done"] is True
        writes = {"pipeline": [{"$out": "stolen"}]}
        for message in [
            twice({"aggregate": "orders", "$db": "shop", "cursor": {}, "pipeline": []}, writes),
            twice({"aggregate": "orders", "$db": "shop", "cursor": {}, **writes}, {"pipeline": []}),
            twice({"findAndModify": "orders", "$db": "shop", "query": {}, "remove": False}, {"remove": True}),
            twice({"find": "orders", "$db": "shop"}, {"find": "secret", "$db": "other"}),
        ]:
            wire.msg(message)
            reply = wire.reply()
            assert reply["ok"] == 0.0 or reply["cursor"]["ns"] == "shop.orders", reply
    assert "stolen" not in root.shop.list_collection_names() and root.shop.orders.count_documents({}) == 300


def test_names_are_listed_to_those_who_may_read_them(user, root):
    root.shop.command("createRole", "one", roles=[], privileges=[
        {"resource": {"db": "shop", "collection": "orders"}, "actions": ["find"]}])
    client = user([{"role": "one", "db": "shop"}])
    assert client.list_database_names() == ["shop"]
    names = client.shop.command("listCollections", nameOnly=True, authorizedCollections=True)
    assert [entry["name"] for entry in names["cursor"]["firstBatch"]] == ["orders"]
    refused(lambda: client.shop.command("listCollections"))
    refused(lambda: client.admin.command("listDatabases", authorizedDatabases=False))
    assert {"shop", "other"} <= set(root.list_database_names())
    assert "admin" not in user([{"role": "readWrite", "db": "shop"}]).list_database_names()
    root.shop.command("dropRole", "one")


def test_a_cursor_belongs_to_the_user_who_opened_it(user, root):
    ann, bob = (user([{"role": "read", "db": "shop"}]) for _ in range(2))
    opened = ann.shop.command("find", "orders", batchSize=1)["cursor"]["id"]
    more = lambda client: client.shop.command("getMore", Int64(opened), collection="orders")
    assert "not created by the authenticated user" in str(refused(lambda: more(bob)))
    refused(lambda: bob.shop.command("killCursors", "orders", cursors=[Int64(opened)]))
    assert more(ann)["cursor"]["nextBatch"]
    opened = ann.shop.command("find", "orders", batchSize=1)["cursor"]["id"]
    assert root.shop.command("killCursors", "orders", cursors=[Int64(opened)])["cursorsKilled"] == [opened]


def test_a_change_of_rights_reaches_connections_that_are_open(user, root):
    client = user([{"role": "read", "db": "shop"}], name="ann")
    orders = client.shop.orders
    orders.find_one()
    refused(lambda: orders.insert_one({}))
    root.admin.command("grantRolesToUser", "ann", roles=[{"role": "readWrite", "db": "shop"}])
    orders.insert_one({"_id": "new"})
    orders.delete_one({"_id": "new"})
    root.admin.command("revokeRolesFromUser", "ann", roles=[{"role": "readWrite", "db": "shop"}])
    refused(lambda: orders.insert_one({}))
    root.admin.command("dropUser", "ann")
    assert "requires authentication" in str(refused(lambda: orders.find_one()))


def test_users_change_their_own_passwords_only_where_a_role_permits_it(locked, user, root):
    root.admin.command("createRole", "own", roles=[], privileges=[
        {"resource": {"db": "admin", "collection": ""}, "actions": ["changeOwnPassword"]}])
    ann, bob = user(["own"], name="ann"), user([], name="bob")
    ann.admin.command("updateUser", "ann", pwd="new secret")
    refused(lambda: ann.admin.command("updateUser", "bob", pwd="x"))
    refused(lambda: bob.admin.command("updateUser", "bob", pwd="x"))
    refused(lambda: ann.admin.command("updateUser", "ann", roles=["root"]))
    with locked.as_user("ann", "new secret") as client:
        assert client.admin.command("usersInfo", "ann")["users"][0]["user"] == "ann"
        refused(lambda: client.admin.command("usersInfo", "bob"))
        refused(lambda: client.admin.command("usersInfo", "ann", showCredentials=True))
    with locked.as_user("ann", "secret") as client:
        refused(lambda: client.admin.command("usersInfo", "ann"), 18)
    root.admin.command("dropRole", "own")


def test_an_administrator_of_users_cannot_grant_roles_of_other_databases(user):
    client = user([{"role": "userAdmin", "db": "shop"}])
    refused(lambda: client.shop.command("createUser", "x", pwd="x", roles=[{"role": "root", "db": "admin"}]))
    refused(lambda: client.shop.command("createRole", "x", roles=[], privileges=[
        {"resource": {"cluster": True}, "actions": ["shutdown"]}]))
    refused(lambda: client.shop.command("createRole", "x", privileges=[], roles=[{"role": "read", "db": "other"}]))


@pytest.mark.parametrize("database, command, code", [
    ("admin", {"createUser": "", "pwd": "x", "roles": []}, 2),
    ("admin", {"createUser": "x", "roles": []}, 2),
    ("admin", {"createUser": "x", "pwd": "", "roles": []}, 2),
    ("admin", {"createUser": "x", "pwd": "x" * 2000, "roles": []}, 2),
    ("admin", {"createUser": "x", "pwd": "bell\a", "roles": []}, 2),
    ("admin", {"createUser": "x", "pwd": "x"}, 40414),
    ("admin", {"createUser": "x"}, 40414),
    ("admin", {"createUser": 7, "pwd": "x", "roles": []}, 14),
    ("admin", {"createUser": "x", "pwd": "x", "roles": ["flyer"]}, 31),
    ("admin", {"createUser": "x", "pwd": "x", "roles": [7]}, 2),
    ("admin", {"createUser": "x", "pwd": "x", "roles": [], "mechanisms": []}, 2),
    ("admin", {"createUser": "x", "pwd": "x", "roles": [], "mechanisms": ["PLAIN"]}, 2),
    ("admin", {"createUser": "x", "pwd": "x", "roles": [], "digestPassword": False}, 2),
    ("admin", {"createUser": "x", "pwd": "x", "roles": [], "fly": 1}, 40415),
    ("admin", {"createUser": "root", "pwd": "x", "roles": []}, 51003),
    ("admin", {"updateUser": "nobody", "pwd": "x"}, 11),
    ("admin", {"updateUser": "root"}, 2),
    ("admin", {"dropUser": "nobody"}, 11),
    ("admin", {"grantRolesToUser": "root", "roles": []}, 2),
    ("admin", {"createRole": "root", "privileges": [], "roles": []}, 2),
    ("admin", {"updateRole": "root", "privileges": [], "roles": []}, 35),
    ("admin", {"dropRole": "root"}, 35),
    ("admin", {"createRole": "x", "privileges": []}, 40414),
    ("admin", {"createRole": "x", "roles": []}, 40414),
    ("admin", {"createRole": "x", "roles": [], "privileges": [{"resource": {"db": "a"}, "actions": ["find"]}]}, 2),
    ("admin", {"createRole": "x", "roles": [], "privileges": [{"resource": {"cluster": True}, "actions": ["fly"]}]}, 9),
    ("admin", {"createRole": "x", "roles": [], "privileges": [{"resource": {"cluster": True}, "actions": []}]}, 2),
    ("shop", {"createRole": "x", "roles": [], "privileges": [{"resource": {"cluster": True}, "actions": ["top"]}]}, 35),
    ("admin", {"dropRole": "x"}, 31),
    ("admin", {"updateRole": "x", "roles": []}, 31),
    ("admin", {"saslStart": 1, "mechanism": "PLAIN", "payload": Binary(b"")}, 334),
    ("admin", {"saslStart": 1, "mechanism": "SCRAM-SHA-256"}, 40414),
    ("$external", {"authenticate": 1}, 40414),
    ("$external", {"authenticate": 1, "mechanism": "SCRAM-SHA-1"}, 334),
    ("admin", {"authenticate": 1, "mechanism": "MONGODB-X509"}, 17),
    ("$external", {"authenticate": 1, "mechanism": "MONGODB-X509"}, 18),
    ("$external", {"createUser": "CN=x", "pwd": "secret", "roles": []}, 2),
    ("$external", {"createUser": "CN=x", "mechanisms": ["SCRAM-SHA-1"], "roles": []}, 2),
    ("$external", {"createUser": "x" * 1025, "roles": []}, 2),
    ("admin", {"saslContinue": 1, "conversationId": 99, "payload": Binary(b"x")}, 17),
])
def test_a_wrong_command_is_refused_with_what_is_wrong(root, database, command, code):
    refused(lambda: root[database].command(command), code)


def test_a_role_may_have_actions_of_what_this_server_has_not(root, user):
    inert = ["addShard", "enableSharding", "getShardMap", "listShards", "moveChunk", "queryStatsRead", "replSetConfigure", "replSetStateChange"]
    cluster = {"resource": {"cluster": True}, "actions": [*inert, "serverStatus"]}
    root.admin.command("createRole", "operator", roles=[], privileges=[cluster, {"resource": {"db": "", "collection": ""}, "actions": ["dbCheck"]}])
    try:
        shown = root.admin.command("rolesInfo", "operator", showPrivileges=True)["roles"][0]["privileges"]
        assert {tuple(sorted(each["actions"])) for each in shown} == {tuple(sorted(cluster["actions"])), ("dbCheck",)}
        client = user(["operator"])
        assert client.admin.command("serverStatus")["ok"] == 1
        # They permit nothing.
        for work in [lambda: client.admin.command("replSetGetConfig"), lambda: client.shop.orders.find_one(),
                     lambda: client.admin.command("top"), lambda: client.shop.command("dropDatabase")]:
            refused(work)
        root.admin.command("revokePrivilegesFromRole", "operator", privileges=[{**cluster, "actions": inert}])
        assert root.admin.command("rolesInfo", "operator", showPrivileges=True)["roles"][0]["privileges"][0]["actions"] == ["serverStatus"]
    finally:
        root.admin.command("dropRole", "operator")


def test_roles_inherit_and_may_not_do_so_in_a_circle(root, user):
    shop = root.shop
    shop.command("createRole", "a", roles=["read"], privileges=[])
    shop.command("createRole", "b", roles=["a"], privileges=[])
    refused(lambda: shop.command("grantRolesToRole", "a", roles=["b"]), 35)
    refused(lambda: shop.command("updateRole", "a", roles=["a"]), 35)
    client = user([{"role": "b", "db": "shop"}])
    client.shop.orders.find_one()
    find = {"resource": {"db": "shop", "collection": "orders"}, "actions": ["insert", "remove"]}
    shop.command("grantPrivilegesToRole", "a", privileges=[find])
    client.shop.orders.insert_one({"_id": "x"})
    shop.command("revokePrivilegesFromRole", "a", privileges=[{**find, "actions": ["insert"]}])
    refused(lambda: client.shop.orders.insert_one({"_id": "y"}))
    client.shop.orders.delete_one({"_id": "x"})
    shown = shop.command("rolesInfo", "b", showPrivileges=True)["roles"][0]
    assert shown["roles"] == [{"role": "a", "db": "shop"}] and not shown["isBuiltin"]
    assert {"role": "read", "db": "shop"} in shown["inheritedRoles"] and shown["inheritedPrivileges"]
    names = [role["role"] for role in shop.command("rolesInfo", 1, showBuiltinRoles=True)["roles"]]
    assert {"a", "b", "read", "dbOwner"} <= set(names) and "root" not in names
    shop.command("revokeRolesFromRole", "b", roles=["a"])
    refused(lambda: client.shop.orders.find_one())
    assert shop.command("dropAllRolesFromDatabase")["n"] == 2


def test_users_are_shown_without_their_credentials_unless_asked_for(root):
    found = root.admin.command("usersInfo", ROOT)["users"][0]
    assert found["_id"] == "admin.root" and found["mechanisms"] == ["SCRAM-SHA-256", "SCRAM-SHA-1"]
    assert "credentials" not in found
    credentials = root.admin.command("usersInfo", ROOT, showCredentials=True)["users"][0]["credentials"]
    assert credentials["SCRAM-SHA-256"]["iterationCount"] == 15000
    assert len(root.admin.command("usersInfo", {"forAllDBs": True})["users"]) >= 1
    assert root.admin.command("usersInfo", {"user": ROOT, "db": "admin"}, filter={"user": "x"})["users"] == []


def test_no_query_reaches_the_users(root):
    for name in ("system.users", "system.roles"):
        for run in [
            lambda: root.admin[name].find_one(),
            lambda: root.admin[name].insert_one({}),
            lambda: root.admin[name].drop(),
            lambda: list(root.shop.orders.aggregate([{"$merge": {"into": {"db": "admin", "coll": name}}}])),
        ]:
            with pytest.raises(OperationFailure) as error:
                run()
            assert error.value.code in (13, 73), error.value
    assert "system.users" not in root.admin.list_collection_names()


def test_a_logged_out_connection_is_nobody(locked):
    with locked.as_user(maxPoolSize=1) as client:
        client.shop.orders.find_one()
        client.admin.command("logout")
        assert "requires authentication" in str(refused(lambda: client.shop.orders.find_one()))


def test_before_authentication_only_short_messages_are_read(locked):
    with Wire(locked) as wire:
        assert wire.command({"ping": 1, "$db": "admin", "comment": "x" * 60_000})["ok"] == 1.0
        wire.msg(b"\0" + bson.encode({"ping": 1, "$db": "admin", "comment": "x" * 70_000}))
        assert wire.is_closed()
    with locked.as_user() as client:
        assert client.admin.command({"ping": 1, "comment": "x" * 70_000})["ok"] == 1.0


def test_a_shell_that_does_not_skip_the_last_message_gets_in(locked):
    """Without skipEmptyExchange; and an attempt that failed is over."""
    with Wire(locked) as wire:
        reply = wire.command({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": Binary(b"n,,n=root,r=abc"),
                              "$db": "admin"})
        assert reply["ok"] == 1.0 and reply["done"] is False and reply["payload"].startswith(b"r=abc")
        again = wire.command({"saslContinue": 1, "conversationId": reply["conversationId"],
                              "payload": Binary(b"c=biws,r=abc,p=AAAA"), "$db": "admin"})
        assert again["code"] == 18
        # The attempt is over.
        again = wire.command({"saslContinue": 1, "conversationId": reply["conversationId"],
                              "payload": Binary(b"c=biws,r=abc,p=AAAA"), "$db": "admin"})
        assert again["code"] == 17
    with locked.as_user() as client:
        client.admin.command("ping")


def test_an_address_that_guesses_has_to_wait(tmp_path):
    server = Locked(tmp_path / "data")
    for _ in range(10):
        with server.as_user(password="open sesame") as client:
            refused(lambda: client.shop.orders.find_one(), 18)
        with server.as_user("other", "open sesame") as client:
            refused(lambda: client.shop.orders.find_one(), 18)
    with server.as_user() as client:
        assert "too many failed log-ins" in str(refused(lambda: client.shop.orders.find_one(), 18))
    assert server.stop() == 0
    failures = [line for line in server.log if "authentication failed" in line]
    assert len(failures) == 20 and "root@admin" in failures[0] and "sesame" not in "".join(server.log)


def test_the_first_user_is_created_from_this_machine_and_only_once(tmp_path):
    server = Server(tmp_path / "data", "--auth")
    with server.client() as client:
        refused(lambda: client.shop.orders.find_one())
        for database, roles in [("shop", ["dbOwner"]), ("admin", []), ("admin", ["read"])]:
            refused(lambda: client[database].command("createUser", "first", pwd="secret", roles=roles))
        client.admin.command("createUser", "first", pwd="secret", roles=["root"])
        refused(lambda: client.admin.command("createUser", "second", pwd="secret", roles=["root"]))
    with server.client(username="first", password="secret") as client:
        client.shop.orders.insert_one({})
    assert server.stop() == 0


def test_users_survive_kill_9_and_restarts(tmp_path):
    server = Locked(tmp_path / "data")
    with server.as_user() as root:
        root.shop.command("createUser", "ann", pwd="secret", roles=["readWrite"])
    server.stop(sig=9)
    server = Locked(tmp_path / "data")
    with server.as_user("ann", "secret", "shop") as ann:
        ann.shop.orders.insert_one({})
    assert server.stop() == 0


def test_beyond_loopback_the_server_does_not_start_without_authentication(tmp_path):
    for flags, hint in [
        (["--mongo", "0.0.0.0:0"], "--auth"),
        (["--mongo", "127.0.0.1:0", "--native", "0.0.0.0:0"], "--auth"),
        (["--mongo", "127.0.0.1:0", "--admin", "0.0.0.0:0", "--auth"], "--allow-unauthenticated admin"),
    ]:
        done = subprocess.run([BIN, "serve", "--dir", str(tmp_path / "d"), *flags], capture_output=True, text=True,
                              timeout=20)
        assert done.returncode == 1 and hint in done.stderr, done
        assert not (tmp_path / "d").exists()
    server = Locked(tmp_path / "open", "--mongo", "0.0.0.0:0")
    port = server.addresses["mongo"][1]
    address = socket.gethostbyname(socket.gethostname())
    with pymongo.MongoClient(address, port, username=ROOT, password=PASSWORD, directConnection=True) as client:
        client.shop.orders.insert_one({})
    assert server.stop() == 0
    server = Server(tmp_path / "trusted", "--mongo", "0.0.0.0:0", "--allow-unauthenticated", "clients")
    with pymongo.MongoClient(address, server.addresses["mongo"][1], directConnection=True) as client:
        client.shop.orders.insert_one({})
        if not ipaddress.ip_address(address).is_loopback:
            assert "must run from localhost" in str(refused(lambda: client.admin.command("shutdown")))
    assert server.stop() == 0


def test_command_line_tools_authenticate(locked, tmp_path):
    host, port = locked.addresses["native"]
    where = ["--native", f"{host}:{port}"]
    who = ["--user", ROOT, "--password-file", str(locked.password_file)]

    def treedb(*arguments):
        return subprocess.run([BIN, *arguments], capture_output=True, text=True, timeout=60)

    denied = treedb("find", "shop.orders", *where)
    assert denied.returncode == 1 and "requires authentication" in denied.stderr, denied
    found = treedb("find", "shop.orders", *where, *who, "--limit", "2")
    assert found.returncode == 0 and len(found.stdout.splitlines()) == 2, found
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong\n")
    denied = treedb("find", "shop.orders", *where, "--user", ROOT, "--password-file", str(wrong))
    assert denied.returncode == 1 and "Authentication failed" in denied.stderr, denied
    mongo = "{}:{}".format(*locked.addresses["mongo"])
    copy = treedb("backup", "--uri", f"mongodb://{ROOT}:{quote(PASSWORD, safe='')}@{mongo}/",
                  str(tmp_path / "copy"))
    assert copy.returncode == 0, copy
    denied = treedb("backup", "--uri", f"mongodb://{mongo}/", str(tmp_path / "copy2"))
    assert denied.returncode == 1 and "requires authentication" in denied.stderr, denied


def test_the_sessions_of_a_user_are_killed(tmp_path):
    server = Locked(tmp_path / "data", "--replica-set", "rs0")
    with server.as_user() as root, contextlib.ExitStack() as open_clients:
        root.shop.orders.insert_one({"_id": 0})
        clients = {}
        for name in ("ann", "bob"):
            root.admin.command("createUser", name, pwd="secret", roles=[{"role": "readWrite", "db": "shop"}])
            clients[name] = open_clients.enter_context(server.as_user(name, "secret"))

        def left(command, value, by=root):
            """Whose transactions go on after a command."""
            alive = set()
            with contextlib.ExitStack() as sessions:
                begun = {name: sessions.enter_context(client.start_session()) for name, client in clients.items()}
                for name, session in begun.items():
                    session.start_transaction()
                    clients[name].shop.orders.insert_one({}, session=session)
                known = root.admin.aggregate([{"$listLocalSessions": {"allUsers": True}}]).to_list()
                by.admin.command(command, value(known) if callable(value) else value)
                for name, session in begun.items():
                    try:
                        session.commit_transaction()
                        alive.add(name)
                    except OperationFailure as failure:
                        assert failure.code == 251
            return alive

        ann, nobody = {"user": "ann", "db": "admin"}, {"user": "nobody", "db": "admin"}
        assert left("killAllSessions", [ann]) == {"bob"}
        assert left("killAllSessions", [nobody]) == {"ann", "bob"}
        assert left("killAllSessions", []) == set()
        assert left("killSessions", [], by=clients["ann"]) == {"bob"}
        assert left("killSessions", []) == {"ann", "bob"}
        assert left("killAllSessionsByPattern", [{"users": [ann]}]) == {"bob"}
        assert left("killAllSessionsByPattern", [{"users": [nobody]}, {"users": []}]) == {"ann", "bob"}
        assert left("killAllSessionsByPattern", [{}]) == left("killAllSessionsByPattern", []) == set()
        assert left("killAllSessionsByPattern", lambda known: [{"lsid": each["_id"]} for each in known]) == set()
        for command, code in [({"killAllSessions": [{"user": "ann"}]}, 40414), ({"killAllSessions": ["ann"]}, 14),
                              ({"killAllSessionsByPattern": [{"uid": Binary(b"x" * 32)}]}, 238),
                              ({"killAllSessionsByPattern": [{"nonsense": 1}]}, 40415), ({"killAllSessionsByPattern": [1]}, 14)]:
            refused(lambda: root.admin.command(command), code)
    assert server.stop() == 0


def test_a_session_of_one_user_is_not_that_of_another(tmp_path):
    server = Locked(tmp_path / "data", "--replica-set", "rs0")
    with server.as_user() as root:
        root.shop.orders.insert_one({"_id": 0})
        root.admin.command("createUser", "ann", pwd="secret", roles=[{"role": "readWrite", "db": "shop"}])
        with server.as_user("ann", "secret") as ann, ann.start_session() as session:
            with session.start_transaction():
                ann.shop.orders.insert_one({"_id": 1}, session=session)
                lsid = session.session_id
                # The same id and number from somebody else do not reach the transaction.
                refused(lambda: root.shop.command(
                    {"find": "orders", "lsid": lsid, "txnNumber": Int64(1), "autocommit": False}), 251)
                root.admin.command("killSessions", [lsid])
            assert root.shop.orders.count_documents({}) == 2
    assert server.stop() == 0


def test_an_address_without_a_password_gets_half_of_the_connections(tmp_path):
    server = Locked(tmp_path / "data", "--max-connections", "40", native=True)
    flood = [socket.create_connection(server.addresses[door], timeout=10) for door in ["mongo", "native"] * 15]

    def is_closed(connection):
        connection.settimeout(0.5)
        try:
            return connection.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    held = [each for each in flood if not is_closed(each)]
    assert len(held) == 20
    # Another address has the others, also when those of the first stay silent.
    with socket.create_connection(server.addresses["mongo"], timeout=10, source_address=("127.0.0.2", 0)) as other:
        assert not is_closed(other)
    for each in held[:6]:
        each.close()
    # Who has authenticated no longer counts: many more than half, by one client.
    with server.as_user(maxPoolSize=10, minPoolSize=10) as client:
        client.admin.command("ping")
    for each in flood:
        each.close()
    clients = []
    for _ in range(25):
        wire = Wire(server)
        assert log_in(wire, ROOT, PASSWORD, "admin")["done"] is True
        clients.append(wire)
    with Wire(server) as another:
        assert another.command({"ping": 1, "$db": "admin"})["ok"] == 1
    for wire in clients:
        wire.socket.close()
    assert server.stop() == 0
    assert any("too many connections without authentication" in line for line in server.log)


def test_a_slow_greeting_before_authentication_holds_nobody_up(tmp_path):
    server = Locked(tmp_path / "data", "--stall-seconds", "1", native=True)
    hello = bson.encode({"hello": 1, "$db": "admin"})
    message = (21 + len(hello)).to_bytes(4, "little") + bytes(8) + (2013).to_bytes(4, "little") + bytes(5) + hello
    slow = []
    for cut in range(1, 60):
        for door, data in (("mongo", message), ("native", b"\x0c\0\0\0\1\0\0\0" + b"\1" * 8 + b"TREEDB\r\n")):
            connection = socket.create_connection(server.addresses[door], timeout=10)
            connection.sendall(data[:min(cut, len(data) - 1)])
            slow.append(connection)
    with server.as_user() as client:
        assert client.shop.orders.insert_one({"_id": 1}).inserted_id == 1
    for connection in slow:
        try:
            while connection.recv(1000):
                pass
        except ConnectionResetError:
            pass
        connection.close()
    assert server.stop() == 0
