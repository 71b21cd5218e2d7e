"""`MongoClient.bulk_write`, which PyMongo sends as the command `bulkWrite` to servers of MongoDB 8.0 and later."""
import time

import pymongo
import pytest
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne, WriteConcern
from pymongo.errors import ClientBulkWriteException, InvalidOperation
from pymongo.monitoring import CommandListener

from server import Server
from test_transactions import connect, member  # noqa: F401


class Commands(CommandListener):
    """The names of the commands that were sent."""

    def __init__(self):
        self.names = []

    def started(self, event):
        self.names.append(event.command_name)

    def succeeded(self, event):
        pass

    failed = succeeded


@pytest.fixture
def names(db):
    return f"{db.name}.a", f"{db.name}.b"


def counts(result):
    return [result.inserted_count, result.matched_count, result.modified_count, result.upserted_count, result.deleted_count]


def test_the_server_is_one_of_mongodb_8_0_to_a_driver(client):
    assert client.admin.command("hello")["maxWireVersion"] == 25
    info = client.server_info()
    assert info["version"].startswith("8.0.") and info["versionArray"][:2] == [8, 0]
    parameter = client.admin.command("getParameter", 1, featureCompatibilityVersion=1)
    assert parameter["featureCompatibilityVersion"]["version"] == "8.0"


def test_writes_of_every_kind_to_several_collections_have_their_results(client, db, names):
    a, b = names
    result = client.bulk_write([
        InsertOne({"_id": 1, "n": 1}, namespace=a), InsertOne({"_id": 1}, namespace=b), InsertOne({"n": 5}, namespace=b),
        UpdateOne({"_id": 1}, {"$inc": {"n": 1}}, namespace=a), UpdateMany({}, [{"$set": {"v": "$$v"}}], namespace=b),
        ReplaceOne({"_id": 2}, {"n": 2}, upsert=True, namespace=a), UpdateOne({"_id": 3}, {"$set": {"n": 3}}, upsert=True, namespace=a),
        UpdateOne({"l": {"$exists": False}}, {"$set": {"l": [1, 2]}}, sort={"_id": -1}, namespace=a),
        UpdateOne({"_id": 3}, {"$set": {"l.$[x]": 9}}, array_filters=[{"x": 2}], namespace=a),
        DeleteOne({"_id": 1}, namespace=b), DeleteMany({"n": {"$lt": 3}}, namespace=a),
    ], verbose_results=True, let={"v": 7})
    assert counts(result) == [3, 5, 5, 2, 3] and result.acknowledged and result.has_verbose_results
    assert {at: inserted.inserted_id for at, inserted in result.insert_results.items()}[0] == 1
    assert db.b.find_one({"_id": result.insert_results[2].inserted_id}) == {"_id": result.insert_results[2].inserted_id, "n": 5, "v": 7}
    updates = {at: (done.matched_count, done.modified_count, done.upserted_id, done.did_upsert) for at, done in result.update_results.items()}
    assert updates == {3: (1, 1, None, False), 4: (2, 2, None, False), 5: (1, 0, 2, True), 6: (1, 0, 3, True),
                       7: (1, 1, None, False), 8: (1, 1, None, False)}
    assert {at: done.deleted_count for at, done in result.delete_results.items()} == {9: 1, 10: 2}
    assert list(db.a.find()) == [{"_id": 3, "n": 3, "l": [1, 9]}]


def test_results_are_only_counted_unless_they_are_asked_for(client, names):
    result = client.bulk_write([InsertOne({"_id": 1}, namespace=names[0])])
    assert counts(result) == [1, 0, 0, 0, 0] and not result.has_verbose_results
    with pytest.raises(InvalidOperation):
        result.insert_results


@pytest.mark.parametrize("verbose", [False, True])
def test_each_write_that_fails_has_its_error_and_the_others_their_results(client, db, names, verbose):
    a, b = names
    db.b.create_index("k", unique=True)
    writes = [InsertOne({"_id": 1}, namespace=a), InsertOne({"_id": 1}, namespace=a), InsertOne({"_id": 1, "k": 1}, namespace=b),
              InsertOne({"_id": 2, "k": 1}, namespace=b), UpdateOne({"_id": 1}, {"$set": {"x": 1}}, namespace=b)]
    with pytest.raises(ClientBulkWriteException) as failure:
        client.bulk_write(writes, verbose_results=verbose)
    error = failure.value
    assert [(e["idx"], e["code"]) for e in error.write_errors] == [(1, 11000)] and error.error is None
    assert counts(error.partial_result) == [1, 0, 0, 0, 0] and db.b.count_documents({}) == 0
    db.a.drop()
    with pytest.raises(ClientBulkWriteException) as failure:
        client.bulk_write(writes, ordered=False, verbose_results=verbose)
    error = failure.value
    assert [(e["idx"], e["code"], e["keyValue"]) for e in error.write_errors] == [(1, 11000, {"_id": 1}), (3, 11000, {"k": 1})]
    assert counts(error.partial_result) == [2, 1, 1, 0, 0]
    if verbose:
        assert sorted(error.partial_result.insert_results) == [0, 2] and sorted(error.partial_result.update_results) == [4]


def test_a_command_that_fails_as_a_whole_is_the_error_of_the_bulk_write(client, names):
    with pytest.raises(ClientBulkWriteException) as failure:
        client.bulk_write([InsertOne({}, namespace="admin$.a")])
    assert failure.value.error.code == 73 and failure.value.partial_result is None


def test_an_unacknowledged_bulk_write_is_executed(client, db, names):
    a, b = names
    writes = [InsertOne({"_id": i}, namespace=(a, b)[i % 2]) for i in range(20)]
    result = client.bulk_write(writes, ordered=False, write_concern=WriteConcern(w=0))
    assert not result.acknowledged
    deadline = time.monotonic() + 10
    while db.a.count_documents({}) + db.b.count_documents({}) < 20:
        assert time.monotonic() < deadline
    # The connection is still in step.
    assert client.admin.command("ping")["ok"] == 1


def test_writes_beyond_a_message_go_in_several_commands(server, db, names):
    sent = Commands()
    with server.client(event_listeners=[sent]) as client:
        large = [InsertOne({"_id": i, "s": "x" * (8 << 20)}, namespace=names[0]) for i in range(7)]
        assert client.bulk_write(large).inserted_count == 7 and sent.names == ["bulkWrite"] * 2
        sent.names.clear()
        many = [InsertOne({"_id": i}, namespace=names[1]) for i in range(100_001)]
        assert client.bulk_write(many, ordered=False).inserted_count == 100_001 and sent.names == ["bulkWrite"] * 2


def test_results_that_do_not_fit_a_batch_are_read_with_get_more(server, db, names):
    sent = Commands()
    upserts = [UpdateOne({"_id": f"{i} " + "x" * (3 << 20)}, {"$set": {"n": i}}, upsert=True, namespace=names[0]) for i in range(6)]
    with server.client(event_listeners=[sent]) as client:
        result = client.bulk_write(upserts, verbose_results=True)
        assert sent.names == ["bulkWrite", "getMore"]
        assert [result.update_results[i].upserted_id[0] for i in range(6)] == list("012345")
        with client.start_session() as session:
            again = client.bulk_write(upserts, verbose_results=True, session=session)
            assert counts(again) == [0, 6, 0, 0, 0]


def test_a_bulk_write_in_a_transaction_is_committed_or_aborted_with_it(member):
    with connect(member) as client:
        a, b = client.client_bulk.a, client.client_bulk.b
        with client.start_session() as session:
            session.start_transaction()
            result = client.bulk_write([InsertOne({"_id": 1}, namespace="client_bulk.a"), InsertOne({"_id": 1}, namespace="client_bulk.b"),
                                        UpdateMany({}, {"$set": {"x": 1}}, namespace="client_bulk.a")], session=session, verbose_results=True)
            assert counts(result) == [2, 1, 1, 0, 0] and a.count_documents({}) == 0
            session.abort_transaction()
            assert a.count_documents({}) == b.count_documents({}) == 0
            # Results of more than a batch are read in the transaction too.
            with session.start_transaction():
                upserts = [UpdateOne({"_id": f"{i} " + "x" * (3 << 20)}, {"$set": {"n": i}}, upsert=True, namespace="client_bulk.a") for i in range(6)]
                assert client.bulk_write(upserts, session=session, verbose_results=True).upserted_count == 6
            assert a.count_documents({}) == 6
            with pytest.raises(ClientBulkWriteException) as failure, session.start_transaction():
                client.bulk_write([InsertOne({"_id": 2}, namespace="client_bulk.b"), InsertOne({"_id": 2}, namespace="client_bulk.b")], session=session)
            assert failure.value.write_errors[0]["code"] == 11000 and b.count_documents({}) == 0


def test_a_retried_bulk_write_is_done_once(tmp_path):
    server = Server(tmp_path / "retries", "--replica-set", "rs0", "--enable-test-commands")
    sent = Commands()
    with connect(server, event_listeners=[sent]) as client:
        writes = [InsertOne({"_id": 1}, namespace="shop.a"), UpdateOne({"_id": 1}, {"$inc": {"n": 1}}, namespace="shop.a"),
                  InsertOne({"_id": 1}, namespace="shop.b")]
        for failure in [{"closeConnection": True}, {"errorCode": 262, "errorLabels": ["RetryableWriteError"]},
                        {"writeConcernError": {"code": 91, "errmsg": "stopping", "errorLabels": ["RetryableWriteError"]}}]:
            client.drop_database("shop")
            client.admin.command({"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": {"failCommands": ["bulkWrite"], **failure}})
            sent.names.clear()
            result = client.bulk_write(writes, verbose_results=True)
            assert sent.names.count("bulkWrite") == 2, failure
            assert counts(result) == [2, 1, 1, 0, 0] and client.shop.a.find_one() == {"_id": 1, "n": 1}, failure
            assert sorted(result.insert_results) == [0, 2] and sorted(result.update_results) == [1]
        # A write to many documents is not retried: another attempt could find others.
        client.admin.command({"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": {"failCommands": ["bulkWrite"], "closeConnection": True}})
        with pytest.raises(ClientBulkWriteException):
            client.bulk_write([*writes, DeleteMany({}, namespace="shop.a")])
    assert server.stop() == 0


def test_an_unacknowledged_update_may_have_a_sort(server, db):
    db.c.insert_many([{"_id": i} for i in range(3)])
    with server.client(w=0) as client:
        client[db.name].c.update_one({}, {"$set": {"x": 1}}, sort={"_id": -1})
        client[db.name].c.bulk_write([pymongo.ReplaceOne({"x": {"$exists": False}}, {"x": 2}, sort={"_id": -1})])
    deadline = time.monotonic() + 10
    while db.c.count_documents({"x": {"$exists": True}}) < 2:
        assert time.monotonic() < deadline
    assert list(db.c.find()) == [{"_id": 0}, {"_id": 1, "x": 2}, {"_id": 2, "x": 1}]


def test_the_operations_of_a_bulk_write_are_counted_as_what_they_are(client, db, names):
    def counters():
        status = client.admin.command("serverStatus")
        return {**status["opcounters"], **{name: status["metrics"]["document"][name] for name in ["inserted", "updated", "deleted"]}}

    before = counters()
    with pytest.raises(ClientBulkWriteException):
        client.bulk_write([
            InsertOne({"_id": 1}, namespace=names[0]), InsertOne({"_id": 2}, namespace=names[1]), UpdateMany({}, {"$set": {"x": 1}}, namespace=names[0]),
            DeleteOne({"_id": 7}, namespace=names[0]), InsertOne({"_id": 1}, namespace=names[0]), InsertOne({"_id": 3}, namespace=names[0])])
    after = counters()
    # Neither what comes after the error, nor the command itself.
    assert {name: after[name] - before[name] for name in after} == {
        "insert": 3, "update": 1, "delete": 1, "query": 0, "getmore": 0, "command": 1, "inserted": 2, "updated": 1, "deleted": 0}
