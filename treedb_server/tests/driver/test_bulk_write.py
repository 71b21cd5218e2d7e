"""The command `bulkWrite`, sent as it is; `test_client_bulk_write.py` has it sent by the driver."""
import pytest
from bson.int64 import Int64

from failures import code
from test_access import locked, root, user  # noqa: F401
from test_transactions import Raw, connect, member, numbered  # noqa: F401
from wire import Wire


@pytest.fixture
def bulk(client, db):
    def run(ops, names=("a", "b"), **options):
        info = [{"ns": f"{db.name}.{name}"} for name in names]
        return client.admin.command({"bulkWrite": 1, "ops": ops, "nsInfo": info, **options})
    return run


def sums(reply):
    return [reply[name] for name in ["nInserted", "nMatched", "nModified", "nUpserted", "nDeleted", "nErrors"]]


def test_operations_on_several_collections_are_done_in_order(db, bulk):
    reply = bulk([
        {"insert": 0, "document": {"_id": 1, "n": 1}}, {"insert": 1, "document": {"_id": 1}},
        {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}},
        {"update": 0, "filter": {"_id": 2}, "updateMods": [{"$set": {"n": "$$v"}}], "upsert": True},
        {"update": 0, "filter": {}, "updateMods": {"$set": {"x": 1}}, "multi": True},
        {"update": 0, "filter": {}, "updateMods": {"$set": {"first": 1}}, "sort": {"_id": -1}},
        {"delete": 1, "filter": {"$expr": {"$eq": ["$_id", {"$subtract": ["$$v", 6]}]}}}, {"delete": 0, "filter": {"no": 1}, "multi": True},
    ], let={"v": 7})
    assert sums(reply) == [2, 4, 4, 1, 1, 0]
    outcomes = reply["cursor"]["firstBatch"]
    assert reply["cursor"]["id"] == 0 and reply["cursor"]["ns"] == "admin.$cmd.bulkWrite"
    # Drivers of typed languages take no int32 for it.
    assert isinstance(reply["cursor"]["id"], Int64)
    assert [o["idx"] for o in outcomes] == list(range(8)) and [o["n"] for o in outcomes] == [1, 1, 1, 1, 2, 1, 1, 0]
    assert outcomes[3]["upserted"] == {"_id": 2} and outcomes[4]["nModified"] == 2 and "nModified" not in outcomes[0]
    assert list(db.a.find()) == [{"_id": 1, "n": 2, "x": 1}, {"_id": 2, "n": 7, "x": 1, "first": 1}]
    assert db.b.count_documents({}) == 0


def test_an_error_ends_it_only_if_it_is_ordered(db, bulk):
    ops = [{"insert": 0, "document": {"_id": 1}}, {"insert": 0, "document": {"_id": 1}}, {"insert": 0, "document": {"_id": 2}}]
    reply = bulk(ops)
    assert sums(reply) == [1, 0, 0, 0, 0, 1]
    failed = reply["cursor"]["firstBatch"][1]
    assert (failed["ok"], failed["idx"], failed["code"], failed["n"]) == (0.0, 1, 11000, 0) and failed["keyValue"] == {"_id": 1}
    reply = bulk(ops, ordered=False, errorsOnly=True)
    assert sums(reply) == [1, 0, 0, 0, 0, 2] and [o["idx"] for o in reply["cursor"]["firstBatch"]] == [0, 1]


def test_outcomes_come_in_batches(client, db, bulk):
    reply = bulk([{"insert": i % 2, "document": {"_id": i}} for i in range(25)], cursor={"batchSize": 10})
    assert len(reply["cursor"]["firstBatch"]) == 10
    more = client.admin.command({"getMore": reply["cursor"]["id"], "collection": "$cmd.bulkWrite"})["cursor"]
    assert [o["idx"] for o in more["nextBatch"]] == list(range(10, 25)) and more["id"] == 0
    assert db.a.count_documents({}) == 13 and db.b.count_documents({}) == 12


def test_a_bulk_write_that_cannot_be_does_nothing(client, db, bulk):
    one = {"insert": 0, "document": {}}
    for ops, expected in [
        ([one, {"insert": 2, "document": {}}], 2), ([one, {"replace": 0}], 9), ([], 16), ([one, {"insert": 0}], 40414),
        ([one, {"update": 0, "filter": {}}], 40414), ([one, {"delete": 0}], 40414), ([one, {"delete": 0, "filter": {}, "no": 1}], 40415),
        ([one, {"update": 0, "filter": {}, "updateMods": {"a": 1}, "multi": True}], 9), ([one, {}], 9),
    ]:
        assert code(bulk, ops) == expected, ops
    assert code(bulk, [one], names=["a$"]) == 73
    assert code(db.command, {"bulkWrite": 1, "ops": [one], "nsInfo": [{"ns": "a.b"}]}) == 13, "on admin only"
    assert code(client.admin.command, {"bulkWrite": 1, "ops": [one]}) == 40414
    assert code(bulk, [one], noSuchOption=1) == 40415
    assert code(bulk, [one], stmtIds=[1, 2]) == 16 and code(bulk, [one], stmtId=1, stmtIds=[1]) == 72
    assert db.list_collection_names() == []


def test_operations_come_in_sections_of_a_message(server, db):
    with Wire(server) as wire:
        reply = wire.command({"bulkWrite": 1, "$db": "admin"},
                             ops=[{"insert": 0, "document": {"_id": i}} for i in range(3)], nsInfo=[{"ns": f"{db.name}.a"}])
    assert reply["nInserted"] == 3 and db.a.count_documents({}) == 3


def test_a_bulk_write_takes_part_in_transactions_and_is_retried_once(member):
    with connect(member) as client:
        db = client.bulk
        with client.start_session() as session, session.start_transaction():
            reply = client.admin.command({"bulkWrite": 1, "nsInfo": [{"ns": "bulk.a"}, {"ns": "bulk.b"}], "ops": [
                {"insert": 0, "document": {"_id": 1}}, {"insert": 1, "document": {"_id": 1}}]}, session=session)
            assert reply["nInserted"] == 2 and db.a.count_documents({}) == 0
        assert db.a.count_documents({}) == db.b.count_documents({}) == 1
    with Wire(member) as wire:
        command = {"bulkWrite": 1, "nsInfo": [{"ns": "bulk.a"}, {"ns": "bulk.b"}], "ops": [
            {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}}, {"insert": 1, "document": {"_id": 2}}],
            "$db": "admin", **numbered(1, "write", b"bulk write bulk ")}
        for _ in range(3):
            reply = wire.command(command)
            assert (reply["nModified"], reply["nInserted"], reply["nErrors"]) == (1, 1, 0), reply
        many = {**command, "ops": [{"delete": 0, "filter": {}, "multi": True}], **numbered(2, "write", b"bulk write bulk ")}
        assert wire.command(many)["cursor"]["firstBatch"][0]["code"] == 72
    with connect(member) as client:
        assert client.bulk.a.find_one() == {"_id": 1, "n": 1}


def test_each_operation_needs_its_right(root, user):
    root.admin.command("createRole", "inserter", roles=[], privileges=[
        {"resource": {"db": "shop", "collection": "bulk"}, "actions": ["insert", "update"]},
        {"resource": {"db": "shop", "collection": "orders"}, "actions": ["update"]}])
    writer = user([{"role": "inserter", "db": "admin"}])
    run = lambda *ops: writer.admin.command({"bulkWrite": 1, "ops": list(ops), "nsInfo": [{"ns": "shop.bulk"}, {"ns": "shop.orders"}]})
    change = {"update": 1, "filter": {"_id": -1}, "updateMods": {"$set": {"x": 1}}}
    assert run({"insert": 0, "document": {"_id": 1}}, change)["nInserted"] == 1
    for refused in [{"insert": 1, "document": {}}, {"delete": 0, "filter": {}}, {**change, "upsert": True}]:
        assert code(run, {"insert": 0, "document": {"_id": 2}}, refused) == 13
    assert root.shop.bulk.count_documents({}) == 1
    root.shop.bulk.drop()
    root.admin.command("dropRole", "inserter")


def test_a_reply_with_many_long_errors_names_their_values_only_in_the_first(db, bulk):
    db.a.create_index("k", unique=True)
    db.a.insert_one({"_id": 1, "k": "x" * 200_000})
    ops = [{"insert": 0, "document": {"_id": 2, "k": "x" * 200_000}}] * 60
    reply = bulk(ops, ordered=False, cursor={"batchSize": 1})
    assert sums(reply)[5] == 60
    cursor = reply["cursor"]
    errors = cursor["firstBatch"]
    while cursor["id"]:
        cursor = db.client.admin.command("getMore", cursor["id"], collection="$cmd.bulkWrite")["cursor"]
        errors += cursor["nextBatch"]
    assert [error["code"] for error in errors] == [11000] * 60
    assert len(errors[0]["keyValue"]["k"]) == 200_000 and "keyValue" not in errors[-1]
