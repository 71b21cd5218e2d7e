"""Who may do what over the native protocol: every opcode by users of every kind of role, in places that their roles name and do not name.

What a role permits is taken from `rolesInfo`, which is a command of the other protocol; what an opcode needs is the table below.
"""
import pathlib
import sys

import pytest
from pymongo.errors import OperationFailure

from server import PASSWORD, ROOT, Locked

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"))

import treedb  # noqa: E402
from treedb import Param, ServerError  # noqa: E402
from treedb.messages import Op, document, text, u32, u64  # noqa: E402

BUILT_IN = ["backup", "clusterMonitor", "dbAdminAnyDatabase", "readAnyDatabase", "readWriteAnyDatabase", "restore", "root",
            "userAdminAnyDatabase"]
OF_SHOP = ["dbAdmin", "dbOwner", "read", "readWrite", "userAdmin"]
SEARCH = {"name": "near", "type": "vectorSearch", "definition": {"fields": [
    {"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean"}]}}
PLACES = ["shop.orders", "shop.other", "elsewhere.orders"]
UNAUTHORIZED = 13


def raw(opcode, body=b"", flags=0):
    """A request about a collection or a table whose answer does not count."""
    return lambda db, place: db.connection.call(opcode, text(place) + body, lambda answer: answer.take(len(answer.body)), flags)


def prepared(prepare, *parameters, **options):
    """A statement that is prepared and executed."""
    return lambda db, place: prepare(db[place])(*parameters, **options)


# Name, what it needs, the request.
DOCUMENTS = [
    ("INSERT", {"insert"}, lambda db, place: db[place].insert_one({"n": 1})),
    ("GET", {"find"}, lambda db, place: db[place].get(1)),
    ("FIND", {"find"}, lambda db, place: list(db[place].find(limit=1))),
    ("COUNT", {"find"}, lambda db, place: db[place].count()),
    ("UPDATE", {"update"}, lambda db, place: db[place].update_one({"_id": 1}, {"$set": {"a": 1}})),
    ("UPDATE upsert", {"update", "insert"}, lambda db, place: db[place].update_one({"_id": 2}, {"$set": {"a": 1}}, upsert=True)),
    ("DELETE", {"remove"}, lambda db, place: db[place].delete({"_id": 99})),
    ("VECTOR_SEARCH", {"find"}, lambda db, place: db[place].vector_search("near", [1, 2])),
    ("LIST_INDEXES", {"listIndexes"}, lambda db, place: db[place].indexes()),
    ("LIST_INDEXES of every kind", {"listIndexes", "listSearchIndexes"}, raw(Op.LIST_INDEXES, flags=4)),
    ("CREATE_INDEX", {"createIndex"}, lambda db, place: db[place].create_index({"key": {"a": 1}})),
    ("CREATE_INDEX search", {"createSearchIndexes"}, lambda db, place: db[place].create_index(SEARCH)),
    ("UPDATE_SEARCH_INDEX", {"updateSearchIndex"}, raw(Op.UPDATE_SEARCH_INDEX, text("near") + document(SEARCH["definition"]))),
    ("DROP_INDEX", {"dropIndex"}, lambda db, place: db[place].drop_index("a_1")),
    ("DROP_INDEX search", {"dropIndex", "dropSearchIndex"}, lambda db, place: db[place].drop_index("near")),
    ("PREPARE get", {"find"}, prepared(lambda c: c.prepare_get(), 1)),
    ("PREPARE find", {"find"}, prepared(lambda c: c.prepare_find({"a": Param(0)}), 1)),
    ("PREPARE count", {"find"}, prepared(lambda c: c.prepare_count({"a": Param(0)}), 1)),
    ("PREPARE insert", {"insert"}, prepared(lambda c: c.prepare_insert({"a": Param(0)}), [[1]])),
    ("PREPARE update", {"update"}, prepared(lambda c: c.prepare_update({"a": Param(0)}, {"$set": {"a": 1}}), 5)),
    ("EXECUTE upsert", {"update", "insert"}, prepared(lambda c: c.prepare_update({"a": Param(0)}, {"$set": {"b": 1}}), 6, upsert=True)),
    ("PREPARE delete", {"remove"}, prepared(lambda c: c.prepare_delete({"a": Param(0)}), 7)),
]
TABLES = [
    ("KV_PUT", {"insert", "update"}, lambda db, table: db.table(table).__setitem__(b"k", b"v")),
    ("KV_GET", {"find"}, lambda db, table: db.table(table).get(b"k")),
    ("KV_RANGE", {"find"}, lambda db, table: list(db.table(table).range())),
    ("KV_BATCH puts", {"insert", "update"}, lambda db, table: db.table(table).write({b"a": b"b"})),
    ("KV_BATCH deletes", {"remove"}, lambda db, table: db.table(table).write(delete=[b"a"])),
    ("KV_BATCH both", {"insert", "update", "remove"}, lambda db, table: db.table(table).write({b"a": b"b"}, [b"c"])),
    ("KV_DELETE", {"remove"}, lambda db, table: db.table(table).__delitem__(b"x")),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Locked(tmp_path_factory.mktemp("native-permissions") / "data", native=True)
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


@pytest.fixture(scope="module")
def admin(server):
    with server.as_user() as client:
        yield client


def connected(server, user=None, password=PASSWORD):
    host, port = server.addresses["native"]
    return treedb.connect(f"{host}:{port}", user=user, password=password if user else None, timeout=30)


def is_refused(request, db, place):
    try:
        request(db, place)
    except ServerError as error:
        return error.code == UNAUTHORIZED
    except KeyError:
        pass
    return False


def permitted(privileges, database, collection):
    """The actions that privileges permit on a collection."""
    actions = set()
    for privilege in privileges:
        resource = privilege["resource"]
        if resource.get("anyResource") or (
                "db" in resource and resource["db"] in ("", database) and resource["collection"] in ("", collection)):
            actions |= set(privilege["actions"])
    return actions


def roles(admin):
    """Every kind of role, by the user who has it: where it is, and what it permits."""
    actions = sorted({action for _, needed, _ in DOCUMENTS for action in needed})
    for action in actions:
        admin.admin.command("createRole", f"only {action}", roles=[], privileges=[
            {"resource": {"db": "shop", "collection": "orders"}, "actions": [action]},
            {"resource": {"db": "kv", "collection": "settings"}, "actions": [action]}])
    all = [("admin", role) for role in [*BUILT_IN, *(f"only {action}" for action in actions)]]
    all += [("shop", role) for role in OF_SHOP] + [("kv", "read"), ("kv", "readWrite")]
    for database, role in all:
        info = admin[database].command("rolesInfo", {"role": role, "db": database}, showPrivileges=True)["roles"][0]
        user = f"{database} {role}"
        admin.admin.command("createUser", user, pwd=PASSWORD, roles=[{"role": role, "db": database}])
        yield user, info["inheritedPrivileges"]
    admin.admin.command("createUser", "nothing", pwd=PASSWORD, roles=[])
    yield "nothing", []


def test_every_opcode_is_permitted_to_whom_the_roles_permit_it_and_to_nobody_else(server, admin):
    tried = 0
    for user, privileges in roles(admin):
        # What a request drops has to be there.
        with connected(server, user) as db, connected(server, ROOT) as root:
            for place in PLACES:
                can = permitted(privileges, *place.split("."))
                for name, needed, request in DOCUMENTS:
                    if name.startswith("DROP_INDEX"):
                        root[place].create_index({"key": {"a": 1}} if name == "DROP_INDEX" else SEARCH)
                    assert is_refused(request, db, place) == (not needed <= can), (user, name, place)
                    tried += 1
            for table in ["settings", "other"]:
                can = permitted(privileges, "kv", table)
                for name, needed, request in TABLES:
                    assert is_refused(request, db, table) == (not needed <= can), (user, name, table)
                    tried += 1
    assert tried > 1_500


def test_what_needs_no_right_is_permitted_to_all_and_the_rest_not_to_strangers(server):
    with connected(server) as stranger:
        stranger.ping()
        for name, _, request in DOCUMENTS:
            assert is_refused(request, stranger, "shop.orders"), name
        for name, _, request in TABLES:
            assert is_refused(request, stranger, "settings"), name
        for opcode, body in [(Op.NEXT, u64(1) + u32(0)), (Op.CLOSE, u64(1)), (Op.FORGET, u32(1)), (Op.EXECUTE, u32(1)),
                             (Op.PULL, u64(1) + u32(0) + u32(1))]:
            with pytest.raises(ServerError) as refused:
                stranger.connection.call(opcode, body, lambda answer: None)
            assert refused.value.code == UNAUTHORIZED, opcode


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("how", ["role", "user"])
def test_a_cursor_gives_nothing_more_after_the_right_to_read_was_revoked(server, admin, how, stream):
    user = f"reader {how} {stream}"
    admin.admin.command("createUser", user, pwd=PASSWORD, roles=[{"role": "read", "db": "shop"}, {"role": "read", "db": "other"}])
    admin.shop.long.drop()
    admin.shop.long.insert_many([{"_id": n, "text": "x" * 1_000} for n in range(3_000)])
    with connected(server, user) as db:
        found = db["shop.long"].find(batch=10, stream=stream)
        assert next(found)["_id"] == 0
        if how == "role":
            admin.admin.command("revokeRolesFromUser", user, roles=[{"role": "read", "db": "shop"}])
        else:
            admin.admin.command("dropUser", user)
        with pytest.raises(ServerError) as refused:
            list(found)
        assert refused.value.code == UNAUTHORIZED


def test_search_indexes_are_listed_to_whom_the_other_protocol_lists_them(server, admin):
    admin.shop.listed.insert_one({"a": 1})
    admin.shop.listed.create_index("a")
    with connected(server, ROOT) as root:
        root["shop.listed"].create_index(SEARCH)
    for number, actions in enumerate((["listIndexes"], ["listIndexes", "listSearchIndexes"])):
        role = {"role": f"lister {number}", "db": "admin"}
        admin.admin.command("createRole", role["role"], roles=[], privileges=[{"resource": {"db": "shop", "collection": "listed"}, "actions": actions}])
        admin.admin.command("createUser", role["role"], pwd=PASSWORD, roles=[role])
        with server.as_user(role["role"]) as client, connected(server, role["role"]) as db:
            names = [index["name"] for index in client.shop.listed.list_indexes()]
            try:
                names += [index["name"] for index in client.shop.listed.list_search_indexes()]
            except OperationFailure as refused:
                assert refused.code == UNAUTHORIZED
            assert [index["name"] for index in db["shop.listed"].indexes()] == names == ["_id_", "a_1", "near"][:2 + number]


def test_the_other_protocol_agrees_on_search_indexes(server, admin):
    admin.admin.command("createRole", "indexer", roles=[], privileges=[
        {"resource": {"db": "shop", "collection": ""}, "actions": ["createIndex", "dropIndex"]}])
    admin.admin.command("createUser", "indexer", pwd=PASSWORD, roles=["indexer"])
    with server.as_user("indexer") as client:
        client.shop.agreed.create_index("a")
        with pytest.raises(OperationFailure) as refused:
            client.shop.command("createSearchIndexes", "agreed", indexes=[SEARCH])
        assert refused.value.code == UNAUTHORIZED
        with pytest.raises(OperationFailure):
            client.shop.command("createIndexes", "agreed", indexes=[{**SEARCH, "key": {"v": 1}}])
    admin.shop.command("createSearchIndexes", "agreed", indexes=[SEARCH])
    with server.as_user("indexer") as client:
        with pytest.raises(OperationFailure) as refused:
            client.shop.command("dropIndexes", "agreed", index="near")
        assert refused.value.code == UNAUTHORIZED
        client.shop.command("dropIndexes", "agreed", index="a_1")
