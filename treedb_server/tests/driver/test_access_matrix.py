"""Who may do what over MongoDB's protocol: every command by users of every role, in every kind of place.

What a role permits is taken from `rolesInfo`; what it covers (`covers`) and what a command needs (`in_collection` and the others) is said here once
more, after MongoDB's manual. What the roles themselves should permit outside of ordinary databases is in `ENDS`.

A command that would change something is sent in a form that fails after its rights were checked: with an unknown field, or about something
that there is not. That it works when it is permitted is shown by test_access.py.
"""
import pytest
from pymongo.errors import OperationFailure

from server import PASSWORD, Locked
from test_access import log_in
from wire import Wire

UNAUTHORIZED = 13
DATABASES = ["shop", "other", "admin", "local", "config"]
OF_ADMIN = ["backup", "clusterAdmin", "clusterManager", "clusterMonitor", "dbAdminAnyDatabase", "hostManager", "readAnyDatabase",
            "readWriteAnyDatabase", "restore", "root", "userAdminAnyDatabase"]
OF_ANY_DATABASE = ["dbAdmin", "dbOwner", "read", "readWrite", "userAdmin"]
PLACES = [(database, "orders") for database in DATABASES] + [
    ("shop", "system.profile"), ("local", "oplog.rs"), ("config", "transactions"), ("admin", "system.users"), ("admin", "system.roles")]
#: Collections that no role gives access to.
PROTECTED = {("admin", "system.users"), ("admin", "system.roles")}
#: Refused by every command that reads it.
PROBE = {"unknownField": 1}
CLUSTER = ("cluster",)

#: Commands that are not tried here, and why.
ELSEWHERE = {
    "part of authenticating": {"authenticate", "logout", "saslContinue", "saslStart"},
    "depends on the cursor": {"getMore"},
}


def all_of(*needed):
    """Permitted to who may do all of these: pairs of an action and what it is done to."""
    return lambda can: all(can(action, target) for action, target in needed)


def in_collection(database, collection):
    """The commands about a collection: name, command, database to send it to, what it needs."""
    here, out, absent = ("collection", database, collection), ("collection", database, "out"), ("collection", database, "absent")
    whole = ("database", database)
    full = f"{database}.{collection}"

    def needs(*actions, target=here):
        return all_of(*((action, target) for action in actions))

    def aggregate(*stages):
        return {"aggregate": collection, "pipeline": list(stages), "cursor": {}}

    vectors = {"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "cosine"}]}
    one = [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]
    own = [
        ({"find": collection, "limit": 1}, needs("find")),
        ({"count": collection}, needs("find")),
        ({"distinct": collection, "key": "a"}, needs("find")),
        (aggregate(), needs("find")),
        (aggregate({"$collStats": {"count": {}}}), needs("collStats")),
        (aggregate({"$indexStats": {}}), needs("indexStats")),
        (aggregate({"$listSearchIndexes": {}}), needs("listSearchIndexes")),
        (aggregate({"$planCacheStats": {}}), needs("planCacheRead")),
        (aggregate({"$changeStream": {}}), needs("changeStream", "find")),
        # A stage after the last one is an error of the pipeline.
        (aggregate({"$out": "out"}, {"$limit": 1}), all_of(("find", here), ("insert", out), ("remove", out))),
        (aggregate({"$merge": "out"}, {"$limit": 1}), all_of(("find", here), ("insert", out), ("update", out))),
        (aggregate({"$merge": {"into": {"db": "other", "coll": "out"}}}, {"$limit": 1}),
         all_of(("find", here), ("insert", ("collection", "other", "out")), ("update", ("collection", "other", "out")))),
        (aggregate({"$limit": 1}, {"$lookup": {"from": "absent", "pipeline": [], "as": "x"}}), all_of(("find", here), ("find", absent))),
        (aggregate({"$limit": 1}, {"$unionWith": "absent"}), all_of(("find", here), ("find", absent))),
        ({"explain": {"find": collection}}, needs("find")),
        ({"explain": {"count": collection}}, needs("find")),
        ({"explain": aggregate({"$match": {"a": 1}})}, needs("find")),
        ({"explain": aggregate({"$out": "out"})}, all_of(("find", here), ("insert", out), ("remove", out))),
        ({"explain": {**aggregate({"$out": "out"}), "bypassDocumentValidation": True}},
         all_of(("find", here), ("insert", out), ("remove", out), ("bypassDocumentValidation", out))),
        ({"explain": {**aggregate({"$merge": "out"}), "bypassDocumentValidation": True}},
         all_of(("find", here), ("insert", out), ("update", out), ("bypassDocumentValidation", out))),
        ({"explain": {"update": collection, "updates": one}}, needs("update")),
        ({"explain": {"update": collection, "updates": [{**one[0], "upsert": True}]}}, needs("update", "insert")),
        ({"explain": {"update": collection, "updates": one, "bypassDocumentValidation": True}}, needs("update", "bypassDocumentValidation")),
        ({"explain": {"delete": collection, "deletes": [{"q": {"a": 1}, "limit": 1}]}}, needs("remove")),
        ({"explain": {"findAndModify": collection, "query": {}, "update": {"$set": {"a": 1}}}}, needs("find", "update")),
        ({"explain": {"findandmodify": collection, "query": {}, "update": {"$set": {"a": 1}}, "upsert": True}}, needs("find", "update", "insert")),
        ({"explain": {"findAndModify": collection, "query": {}, "remove": True}}, needs("find", "remove")),
        ({"insert": collection, "documents": [{}], **PROBE}, needs("insert")),
        ({"insert": collection, "documents": [{}], "bypassDocumentValidation": True, **PROBE}, needs("insert", "bypassDocumentValidation")),
        ({"update": collection, "updates": one, **PROBE}, needs("update")),
        ({"update": collection, "updates": [{**one[0], "upsert": True}], **PROBE}, needs("update", "insert")),
        ({"delete": collection, "deletes": [{"q": {}, "limit": 1}], **PROBE}, needs("remove")),
        ({"findAndModify": collection, "query": {}, "update": {"$set": {"a": 1}}, **PROBE}, needs("find", "update")),
        ({"findAndModify": collection, "query": {}, "update": {"$set": {"a": 1}}, "upsert": True, **PROBE}, needs("find", "update", "insert")),
        ({"findAndModify": collection, "query": {}, "remove": True, **PROBE}, needs("find", "remove")),
        ({"listIndexes": collection}, needs("listIndexes")),
        ({"createIndexes": collection, "indexes": [{"key": {"a": 1}, "name": "a"}], **PROBE}, needs("createIndex")),
        ({"dropIndexes": collection, "index": "absent", **PROBE}, needs("dropIndex")),
        ({"listSearchIndexes": collection}, needs("listSearchIndexes")),
        ({"createSearchIndexes": collection, "indexes": [{"name": "v", "type": "vectorSearch", "definition": vectors}], **PROBE}, needs("createSearchIndexes")),
        ({"updateSearchIndex": collection, "name": "absent", "definition": vectors, **PROBE}, needs("updateSearchIndex")),
        ({"dropSearchIndex": collection, "name": "absent", **PROBE}, needs("dropSearchIndex")),
        ({"create": collection, **PROBE}, needs("createCollection")),
        ({"drop": collection, **PROBE}, needs("dropCollection")),
        ({"collMod": collection, **PROBE}, needs("collMod")),
        ({"collStats": collection}, needs("collStats")),
        ({"planCacheClear": collection}, needs("planCacheWrite")),
        ({"planCacheClearFilters": collection}, needs("planCacheIndexFilter")),
        ({"planCacheListFilters": collection}, needs("planCacheIndexFilter")),
        ({"reIndex": collection, **PROBE}, needs("reIndex")),
        ({"validate": collection}, needs("validate")),
        ({"compact": collection, **PROBE}, needs("compact")),
        ({"convertToCapped": collection, "size": 1000, **PROBE}, needs("convertToCapped")),
        ({"killCursors": collection, "cursors": []}, needs()),
    ]
    # A name that is given away makes no documents readable that were not.
    elsewhere = ("collection", "other", "moved")
    of_admin = [
        ({"renameCollection": f"{database}.absent", "to": full}, lambda can: (
            can("renameCollectionSameDB", whole) and (can("find", absent) or not can("find", here))
            or needs("createCollection", "insert", "createIndex")(can) and needs("find", "dropCollection", target=absent)(can))),
        ({"renameCollection": f"{database}.absent", "to": "other.moved", "dropTarget": True}, lambda can: (
            database == "other" and can("renameCollectionSameDB", whole) and can("dropCollection", elsewhere) and (can("find", absent) or not can("find", elsewhere))
            or needs("find", "dropCollection", target=absent)(can) and needs("createCollection", "insert", "createIndex", "dropCollection", target=elsewhere)(can))),
        ({"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": full}], **PROBE}, needs("insert")),
        ({"bulkWrite": 1, "ops": [{"update": 0, "filter": {}, "updateMods": {"$set": {"a": 1}}, "upsert": True}], "nsInfo": [{"ns": full}], **PROBE},
         needs("insert", "update")),
        ({"bulkWrite": 1, "ops": [{"delete": 0, "filter": {}}], "nsInfo": [{"ns": full}], **PROBE}, needs("remove")),
    ]
    if collection == "orders":
        absent_name = f"{database}.absent"
        of_admin += [
            ({"applyOps": [{"op": "i", "ns": absent_name, "o": {"_id": 1}}]}, all_of(("insert", absent))),
            ({"applyOps": [{"op": "u", "ns": absent_name, "o2": {"_id": 1}, "o": {"$set": {"a": 1}}}]}, all_of(("update", absent))),
            ({"applyOps": [{"op": "d", "ns": absent_name, "o": {"_id": 1}}]}, all_of(("remove", absent))),
            ({"applyOps": [{"op": "c", "ns": f"{database}.$cmd", "o": {"drop": "absent"}}]}, all_of(("dropCollection", absent))),
            ({"applyOps": [{"op": "c", "ns": f"{database}.$cmd", "o": {"collMod": "absent", "validationLevel": "off"}}]}, all_of(("collMod", absent))),
        ]
    for command, needed in own:
        yield command, database, needed
    # Reserved names in whole ones are refused before anything is asked.
    if not collection.startswith("system."):
        yield {"dataSize": full}, database, needs("find")
        for command, needed in of_admin:
            yield command, "admin", needed


def in_database(database):
    """The commands about a database."""
    here, profile = ("database", database), ("collection", database, "system.profile")

    def needs(*actions):
        return all_of(*((action, here) for action in actions))

    privilege = {"resource": {"db": database, "collection": "x"}, "actions": ["find"]}
    yield {"aggregate": 1, "pipeline": [{"$documents": [{"a": 1}]}], "cursor": {}}, database, needs()
    yield {"listCollections": 1, "cursor": {}}, database, needs("listCollections")
    yield {"listCollections": 1, "nameOnly": True, "authorizedCollections": True}, database, needs()
    yield {"dbStats": 1}, database, needs("dbStats")
    yield {"dbHash": 1}, database, needs("dbHash")
    yield {"dropDatabase": 1, **PROBE}, database, needs("dropDatabase")
    yield {"profile": -1}, database, lambda can: can("find", profile) or can("enableProfiler", here)
    yield {"profile": 0}, database, needs("enableProfiler")
    # Users and roles that are there already, or are not.
    yield {"createUser": "taken", "pwd": "x", "roles": [], "mechanisms": ["SCRAM-SHA-1"]}, database, needs("createUser")
    yield {"createUser": "taken", "pwd": "x", "roles": ["read"], "mechanisms": ["SCRAM-SHA-1"]}, database, needs("createUser", "grantRole")
    yield {"updateUser": "absent", "customData": {}}, database, needs("changeCustomData")
    yield {"updateUser": "absent", "mechanisms": ["SCRAM-SHA-1"]}, database, needs("changePassword")
    yield {"updateUser": "absent", "roles": ["read"]}, database, needs("revokeRole", "grantRole")
    yield {"grantRolesToUser": "absent", "roles": ["read"]}, database, needs("grantRole")
    yield {"grantRolesToUser": "absent", "roles": [{"role": "root", "db": "admin"}]}, database, all_of(("grantRole", ("database", "admin")))
    yield {"revokeRolesFromUser": "absent", "roles": ["read"]}, database, needs("revokeRole")
    yield {"dropUser": "absent"}, database, needs("dropUser")
    yield {"usersInfo": 1}, database, needs("viewUser")
    yield {"usersInfo": "taken", "showCredentials": True}, database, needs("viewUser")
    yield {"createRole": "taken", "privileges": [], "roles": []}, database, needs("createRole")
    yield {"createRole": "taken", "privileges": [privilege], "roles": ["read"]}, database, needs("createRole", "grantRole")
    yield {"updateRole": "absent", "roles": []}, database, needs("revokeRole")
    yield {"updateRole": "absent", "privileges": [privilege]}, database, needs("revokeRole", "grantRole")
    yield {"grantRolesToRole": "absent", "roles": ["read"]}, database, needs("grantRole")
    yield {"revokeRolesFromRole": "absent", "roles": ["read"]}, database, needs("revokeRole")
    yield {"grantPrivilegesToRole": "absent", "privileges": [privilege]}, database, needs("grantRole")
    yield {"grantPrivilegesToRole": "absent", "privileges": [{"resource": {"cluster": True}, "actions": ["shutdown"]}]}, database, all_of(
        ("grantRole", ("database", "admin")))
    yield {"revokePrivilegesFromRole": "absent", "privileges": [privilege]}, database, needs("revokeRole")
    yield {"dropRole": "absent"}, database, needs("dropRole")
    yield {"rolesInfo": 1}, database, needs("viewRole")
    yield {"rolesInfo": "taken", "showPrivileges": True}, database, needs("viewRole")
    yield {"dropAllUsersFromDatabase": 1, **PROBE}, database, needs("dropUser")
    yield {"dropAllRolesFromDatabase": 1, **PROBE}, database, needs("dropRole")
    # About the server, sent to any database.
    for command, action in [({"serverStatus": 1}, "serverStatus"), ({"hostInfo": 1}, "hostInfo"), ({"connPoolStats": 1}, "connPoolStats"),
                            ({"killAllSessions": [{"user": "x", "db": "y"}]}, "killAnySession"),
                            ({"killAllSessionsByPattern": [{"users": [{"user": "x", "db": "y"}]}]}, "killAnySession")]:
        yield command, database, all_of((action, CLUSTER))
    # Any authenticated user.
    for command in [{"ping": 1}, {"buildInfo": 1}, {"hello": 1}, {"isMaster": 1}, {"connectionStatus": 1}, {"whatsmyuri": 1}, {"listCommands": 1},
                    {"startSession": 1}, {"refreshSessions": []}, {"endSessions": []}, {"killSessions": []}]:
        yield command, database, needs()


def in_admin():
    """The commands about the server that are for `admin`."""
    def first(stage):
        return {"aggregate": 1, "pipeline": [stage], "cursor": {}}

    for command, *actions in [
        ({"abortTransaction": 1},), ({"commitTransaction": 1},), ({"configureFailPoint": "failCommand", "mode": "off"},), ({"listDatabases": 1},),
        ({"currentOp": 1, "$ownOps": True},), (first({"$currentOp": {}}),),
        ({"listDatabases": 1, "authorizedDatabases": False}, "listDatabases"),
        ({"currentOp": 1}, "inprog"), (first({"$currentOp": {"allUsers": True}}), "inprog"), (first({"$listLocalSessions": {}}), "listSessions"),
        (first({"$queryStats": {}}), "queryStatsRead"), (first({"$queryStats": {"transformIdentifiers": {}}}), "queryStatsReadTransformed"),
        ({"getLog": "global"}, "getLog"), ({"getParameter": "*"}, "getParameter"), ({"getCmdLineOpts": 1}, "getCmdLineOpts"),
        ({"getDefaultRWConcern": 1}, "getDefaultRWConcern"), ({"logRotate": 1}, "logRotate"),
        ({"top": 1}, "top"),
        ({"replSetGetStatus": 1}, "replSetGetStatus"), ({"replSetGetConfig": 1}, "replSetGetConfig"),
        ({"setParameter": 1, "cursorTimeoutMillis": 600_000}, "setParameter"), ({"killOp": 1, "op": 2**31 - 1}, "killop"),
        ({"fsync": 1, **PROBE}, "fsync"), ({"fsyncUnlock": 1}, "unlock"),
        ({"setFeatureCompatibilityVersion": "8.0", "confirm": True}, "setFeatureCompatibilityVersion"), ({"shutdown": 1, **PROBE}, "shutdown"),
        ({"backupStatus": 1}, "backup"), ({"backupTo": "relative"}, "backup"),
    ]:
        yield command, "admin", all_of(*((action, CLUSTER) for action in actions))
    yield {"usersInfo": {"forAllDBs": True}}, "admin", all_of(("viewUser", ("database", "")))
    yield ({"aggregate": 1, "pipeline": [{"$changeStream": {"allChangesForCluster": True}}], "cursor": {}}, "admin",
           all_of(("changeStream", ("collection", "", "")), ("find", ("collection", "", ""))))


def everything():
    """Every command in every place."""
    for place in PLACES:
        yield from ((*each, place in PROTECTED) for each in in_collection(*place))
    for database in DATABASES:
        yield from ((*each, False) for each in in_database(database))
    yield from ((*each, False) for each in in_admin())


def covers(resource, target):
    """Whether a privilege on `resource` is one on `target`."""
    if resource.get("anyResource"):
        return True
    if resource.get("cluster") or target == CLUSTER:
        return bool(resource.get("cluster")) and target == CLUSTER
    _, database, *collection = target
    if resource["db"] != database and not (resource["db"] == "" and database not in ("local", "config")):
        return False
    if resource["collection"] != "":
        return collection == [resource["collection"]]
    # Collections of the server's are only meant by their names. That of retryable writes has the replies to all users.
    return not collection or not collection[0].startswith("system.") and target != ("collection", "config", "transactions")


def permits(privileges):
    """What a user with these privileges can do."""
    return lambda action, target: any(
        covers(each["resource"], target) and (action in each["actions"] or "anyAction" in each["actions"]) for each in privileges)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Locked(tmp_path_factory.mktemp("matrix") / "data", "--enable-test-commands")
    with server.as_user() as root:
        for database in ("shop", "other", "admin"):
            root[database].orders.insert_one({"_id": 1, "a": 1})
        for database in DATABASES:
            root[database].command("createUser", "taken", pwd="x", roles=[])
            root[database].command("createRole", "taken", privileges=[], roles=[])
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


@pytest.fixture(scope="module")
def root(server):
    with server.as_user() as client:
        yield client


def user_of(root, role, database):
    """A user with a role, and what this permits."""
    name = f"{role} of {database}"
    root.admin.command("createUser", name, pwd=PASSWORD, roles=[{"role": role, "db": database}], mechanisms=["SCRAM-SHA-256"])
    info = root[database].command("rolesInfo", {"role": role, "db": database}, showPrivileges=True)["roles"][0]
    return name, info["inheritedPrivileges"]


def test_every_command_is_in_the_table(root):
    tried = {next(iter(command)) for command, *_ in everything()}.union(*ELSEWHERE.values())
    assert set(root.admin.command("listCommands")["commands"]) == tried


ROLES = [(role, "admin") for role in OF_ADMIN] + [(role, database) for role in OF_ANY_DATABASE for database in ("shop", "admin", "local", "config")]


@pytest.mark.parametrize("role, database", ROLES)
def test_every_command_is_permitted_where_the_role_permits_it_and_nowhere_else(server, root, role, database):
    name, privileges = user_of(root, role, database)
    can, wrong, tried = permits(privileges), [], 0
    with Wire(server) as wire:
        log_in(wire, name, PASSWORD, "admin")
        for command, to, needed, is_protected in everything():
            reply = wire.command({**command, "$db": to})
            refused = reply.get("code") == UNAUTHORIZED
            tried += 1
            if refused == needed(can) and not (refused and is_protected):
                wrong.append((command, to, reply.get("errmsg", "done")))
    assert not wrong, (len(wrong), wrong[:10])
    assert tried > 600
    for database in ("shop", "other", "admin"):
        assert root[database].orders.find_one() == {"_id": 1, "a": 1} and root[database].orders.count_documents({}) == 1


def test_strangers_may_do_nothing_but_the_handshake(server):
    open_to_all = {"ping", "buildInfo", "hello", "isMaster", "connectionStatus", "whatsmyuri", "listCommands", "endSessions"}
    with Wire(server) as wire:
        for command, to, _, _ in everything():
            refused = wire.command({**command, "$db": to}).get("code") == UNAUTHORIZED
            assert refused == (next(iter(command)) not in open_to_all), (command, to)


def test_commands_for_admin_are_refused_in_other_databases(root):
    of_admin = {name for name, about in root.admin.command("listCommands")["commands"].items() if about["adminOnly"]}
    assert {next(iter(command)) for command, *_ in in_admin()} - {"aggregate", "usersInfo"} <= of_admin
    for name in of_admin - {"shutdown"}:
        for database in set(DATABASES) - {"admin"}:
            with pytest.raises(OperationFailure) as refused:
                root[database].command(name)
            assert refused.value.code == UNAUTHORIZED, name


#: What the roles of all databases permit, by MongoDB's manual, in the places of which `rolesInfo` says nothing that is easily read:
#: (find, insert, createIndex, createUser, viewUser) in shop, admin, local, config.
ENDS = {
    "readAnyDatabase": ("find", "find", "", ""),
    "readWriteAnyDatabase": ("find insert createIndex", "find insert createIndex", "", ""),
    "dbAdminAnyDatabase": ("createIndex", "createIndex", "", ""),
    "userAdminAnyDatabase": ("createUser viewUser",) * 4,
    "backup": ("find",) * 4,
    "restore": ("insert createIndex createUser viewUser", "insert createIndex createUser viewUser", "", ""),
    "clusterMonitor": ("", "", "find", "find"),
    "clusterManager": ("",) * 4,
    "hostManager": ("",) * 4,
    "clusterAdmin": ("", "", "find", "find"),
    "root": ("find insert createIndex createUser viewUser", "find insert createIndex createUser viewUser", "find createUser viewUser",
             "find createUser viewUser"),
}


@pytest.mark.parametrize("role", OF_ADMIN)
def test_roles_of_all_databases_end_where_mongodbs_do(server, root, role):
    name = f"end of {role}"
    root.admin.command("createUser", name, pwd=PASSWORD, roles=[role], mechanisms=["SCRAM-SHA-256"])
    with Wire(server) as wire:
        log_in(wire, name, PASSWORD, "admin")
        for database, expected in zip(("shop", "admin", "local", "config"), ENDS[role]):
            for action, command in [
                ("find", {"find": "orders"}), ("insert", {"insert": "orders", "documents": [{}], **PROBE}),
                ("createIndex", {"createIndexes": "orders", "indexes": [{"key": {"a": 1}, "name": "a"}], **PROBE}),
                ("createUser", {"createUser": "taken", "pwd": "x", "roles": [], "mechanisms": ["SCRAM-SHA-1"]}), ("viewUser", {"usersInfo": 1}),
            ]:
                refused = wire.command({**command, "$db": database}).get("code") == UNAUTHORIZED
                assert refused == (action not in expected.split()), (role, action, database)
