"""Limits of docs/mongodb-compatibility.md that no other test reaches: what is at the limit works, and one more does not."""
import bson
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from server import Server
from wire import Wire, body


@pytest.fixture
def some(db):
    db.c.insert_many([{"_id": i, "n": i % 3} for i in range(400)])
    return db


def deep(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_document_has_the_size_and_the_depth_of_the_page(some):
    # With the names of the fields and the _id.
    some.c.insert_one({"_id": "large", "b": bson.Binary(b"x" * (16 * 1024 * 1024 - 64))})
    some.c.insert_one({"_id": "deep", **deep(99)})
    for document in ({"_id": "larger", "b": bson.Binary(b"x" * 16 * 1024 * 1024)}, {"_id": "deeper", **deep(101)}):
        with pytest.raises(PyMongoError):
            some.c.insert_one(document)
    assert some.c.count_documents({"_id": {"$in": ["large", "deep", "larger", "deeper"]}}) == 2


def test_a_command_has_as_many_statements_as_the_page_says(server, some):
    statements = [{"q": {"_id": -1}, "limit": 1}] * 100_001
    with Wire(server) as wire:
        reply = wire.command({"delete": "c", "$db": some.name}, deletes=statements)
        assert (reply["code"], reply["codeName"]) == (16, "InvalidLength"), reply
        assert wire.command({"insert": "c", "$db": some.name}, documents=[{}] * 100_000)["n"] == 100_000


def test_as_many_cursors_are_open_as_the_page_says(tmp_path):
    server = Server(tmp_path, "--durability", "relaxed")
    with server.client() as client, Wire(server) as wire:
        client.d.c.insert_many([{}, {}])
        find = body({"find": "c", "batchSize": 0, "$db": "d"})
        replies = []
        for _ in range(10):
            for _ in range(1_000):
                wire.msg(find)
            replies += [wire.reply() for _ in range(1_000)]
        assert all(reply["ok"] for reply in replies)
        assert "10000 cursors are open already" in wire.command({"find": "c", "batchSize": 0, "$db": "d"})["errmsg"]
        closed = wire.command({"killCursors": "c", "cursors": [replies[0]["cursor"]["id"]], "$db": "d"})
        assert len(closed["cursorsKilled"]) == 1
        assert wire.command({"find": "c", "batchSize": 0, "$db": "d"})["ok"] == 1
    assert server.stop() == 0


def test_a_collection_has_as_many_indexes_as_the_page_says(db):
    # With the one on _id.
    db.command("createIndexes", "c", indexes=[{"key": {f"a{i}": 1}, "name": f"a{i}"} for i in range(63)])
    with pytest.raises(OperationFailure) as raised:
        db.c.create_index("one more")
    assert raised.value.code == 67
    assert len(db.c.index_information()) == 64
    db.other.create_index([(f"a{i}", 1) for i in range(32)], name="widest")
    with pytest.raises(OperationFailure):
        db.other.create_index([(f"a{i}", 1) for i in range(33)], name="wider")


def test_a_pipeline_has_as_many_stages_as_the_page_says(some):
    stage = {"$match": {"n": 1}}
    assert len(list(some.c.aggregate([stage] * 1_000))) == 133
    with pytest.raises(OperationFailure, match="no longer than 1000 stages"):
        some.c.aggregate([stage] * 1_001)
