"""getMore needs the privileges of the command that opened the cursor, as they are now."""
import pytest
from bson import Int64
from pymongo.errors import OperationFailure

from server import Locked


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    server = Locked(tmp_path_factory.mktemp("cursor-rights") / "data")
    with server.as_user() as root:
        root.shop.orders.insert_many([{"_id": i, "n": i} for i in range(50)])
        root.shop.secret.insert_many([{"_id": i} for i in range(50)])
        for field in "nopq":
            root.shop.orders.create_index(field)
        for name in "abc":
            root.shop.create_collection(name)
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


@pytest.fixture
def root(locked):
    with locked.as_user() as client:
        yield client


@pytest.fixture
def ann(locked, root):
    """A user with the roles `keeps` and `loses`, which a test fills."""
    for role in ("keeps", "loses"):
        root.shop.command("createRole", role, privileges=[], roles=[])
    root.shop.command("createUser", "ann", pwd="secret", roles=["keeps", "loses"])
    with locked.as_user("ann", "secret", "shop") as client:
        yield client
    root.shop.command("dropUser", "ann")
    for role in ("keeps", "loses"):
        root.shop.command("dropRole", role)


def grant(root, role, actions, collection="orders"):
    root.shop.command("grantPrivilegesToRole", role, privileges=[
        {"resource": {"db": "shop", "collection": collection}, "actions": actions}])


def opened(client, command):
    reply = client.shop.command(command)["cursor"]
    assert reply["id"] != 0, "the test needs a cursor that stays open"
    return Int64(reply["id"]), reply["ns"].removeprefix("shop.")


def more(client, cursor, collection):
    return client.shop.command({"getMore": cursor, "collection": collection, "batchSize": 1})["cursor"]["nextBatch"]


def unauthorized(run):
    with pytest.raises(OperationFailure) as error:
        run()
    assert error.value.code == 13, error.value


FEW = {"cursor": {"batchSize": 1}}
JOINS = [{"$lookup": {"from": "secret", "localField": "_id", "foreignField": "_id", "as": "found"}}]
UNION = [{"$limit": 1}, {"$unionWith": "secret"}]


# What opens a cursor, what it needs, and what is kept when that is taken away.
@pytest.mark.parametrize("command, needs, keeps", [
    # Rights on statistics of a collection are none to read it.
    ({"find": "orders", "batchSize": 1}, [(["find"], "orders")], [(["indexStats", "collStats", "listIndexes"], "orders")]),
    ({"aggregate": "orders", "pipeline": [], **FEW}, [(["find"], "orders")], [(["indexStats"], "orders")]),
    # The other collection of a pipeline counts like its own.
    ({"aggregate": "orders", "pipeline": JOINS, **FEW}, [(["find"], "secret")], [(["find"], "orders")]),
    ({"aggregate": "orders", "pipeline": UNION, **FEW}, [(["find"], "secret")], [(["find"], "orders")]),
    # Statistics do not need the right to read.
    ({"aggregate": "orders", "pipeline": [{"$indexStats": {}}], **FEW}, [(["indexStats"], "orders")], [(["find"], "orders")]),
    ({"listIndexes": "orders", **FEW}, [(["listIndexes"], "orders")], [(["find"], "orders")]),
    ({"listCollections": 1, **FEW}, [(["listCollections"], "")], [(["find"], "")]),
], ids=["find", "aggregate", "lookup", "unionWith", "indexStats", "listIndexes", "listCollections"])
def test_a_cursor_needs_what_opened_it_until_its_end(root, ann, command, needs, keeps):
    for actions, collection in needs:
        grant(root, "loses", actions, collection)
    for actions, collection in keeps:
        grant(root, "keeps", actions, collection)
    cursor, collection = opened(ann, command)
    assert len(more(ann, cursor, collection)) == 1
    root.shop.command("revokeRolesFromUser", "ann", roles=["loses"])
    unauthorized(lambda: more(ann, cursor, collection))
    # It is there still for who has got the right again.
    root.shop.command("grantRolesToUser", "ann", roles=["loses"])
    assert ann.shop.command({"getMore": cursor, "collection": collection})["cursor"]["nextBatch"] != []


def test_what_a_cursor_did_not_need_may_be_taken_away(root, ann):
    grant(root, "keeps", ["indexStats"])
    grant(root, "loses", ["find"])
    cursor, collection = opened(ann, {"aggregate": "orders", "pipeline": [{"$indexStats": {}}], **FEW})
    root.shop.command("revokeRolesFromUser", "ann", roles=["loses"])
    assert len(more(ann, cursor, collection)) == 1


def test_a_profile_is_read_on_only_by_who_may_read_it(root, ann):
    root.shop.command("profile", 2)
    for _ in range(5):
        root.shop.orders.find_one()
    root.shop.command("profile", 0)
    grant(root, "loses", ["find"], "system.profile")
    cursor, collection = opened(ann, {"find": "system.profile", "batchSize": 1})
    assert len(more(ann, cursor, collection)) == 1
    root.shop.command("revokeRolesFromUser", "ann", roles=["loses"])
    unauthorized(lambda: more(ann, cursor, collection))


def test_a_cursor_of_another_collection_is_refused_whatever_its_name(root, ann):
    """The name that a getMore gives is not what decides."""
    grant(root, "keeps", ["find"], "orders")
    grant(root, "loses", ["find"], "secret")
    cursor, collection = opened(ann, {"find": "secret", "batchSize": 1})
    root.shop.command("revokeRolesFromUser", "ann", roles=["loses"])
    for name in (collection, "orders", "$cmd.listCollections"):
        unauthorized(lambda: more(ann, cursor, name))
