"""`dbHash`: sums that are equal where the documents are."""
import hashlib
import random
import threading

import bson
import pymongo
import pytest

import server as servers
from failures import code


def expected(documents):
    """The sum of these documents, as MongoDB makes it."""
    return hashlib.md5(b"".join(map(bson.encode, documents))).hexdigest()


def fill(db, seed):
    """The same documents for every seed, in another order, over other ways."""
    dice = random.Random(seed)
    documents = [{"_id": i, "n": i % 13, "in": {"s": "x" * (i % 40)}, "list": [i, None, 1.5]} for i in range(500)]
    documents += [{"_id": name, "at": bson.Timestamp(i, 1)} for i, name in enumerate("abc")]
    shuffled = documents[:]
    dice.shuffle(shuffled)
    db.films.insert_many(shuffled)
    db.films.insert_one({"_id": "gone"})
    db.films.delete_one({"_id": "gone"})
    if seed % 2:
        db.films.create_index("n")
    db.people.insert_many({"_id": bson.Int64(i), "name": f"p{i}"} for i in range(10))
    db.create_collection("empty")
    return documents


def test_the_sum_of_a_collection_is_over_its_documents_in_the_order_of_id(db):
    documents = fill(db, 1)
    found = db.command("dbHash")
    # Numbers come before strings.
    assert found["collections"] == {
        "empty": hashlib.md5(b"").hexdigest(), "films": expected(documents), "people": expected(db.people.find().sort("_id", 1))}
    assert found["md5"] == hashlib.md5("".join(found["collections"][name] for name in ("empty", "films", "people")).encode()).hexdigest()
    assert found["capped"] == [] and found["host"] and found["timeMillis"] >= 0
    assert found["uuids"] == {each["name"]: each["info"]["uuid"] for each in db.list_collections()}
    db.films.update_one({"_id": 3}, {"$set": {"n": 77}})
    after = db.command("dbHash")
    assert after["md5"] != found["md5"] and after["collections"]["people"] == found["collections"]["people"]
    assert after["collections"]["films"] != found["collections"]["films"]


def test_two_servers_with_the_same_documents_have_the_same_sums(db, tmp_path):
    fill(db, 1)
    server = servers.Server(tmp_path / "other")
    try:
        with server.client() as other:
            fill(other.shop, 2)
            one, two = db.command("dbHash"), other.shop.command("dbHash")
            assert one["collections"] == two["collections"] and one["md5"] == two["md5"]
            assert one["uuids"] != two["uuids"]
    finally:
        assert server.stop() == 0


def test_only_the_collections_that_are_named_are_summed(db):
    documents = fill(db, 1)
    found = db.command("dbHash", collections=["films", "nothing"])
    assert found["collections"] == {"films": expected(documents)} and list(found["uuids"]) == ["films"]
    assert found["md5"] == hashlib.md5(found["collections"]["films"].encode()).hexdigest()
    assert db.command("dbHash", collections=[])["md5"] == db.command("dbHash")["md5"]
    assert code(db.command, "dbHash", collections=[5]) == 2
    assert code(db.command, "dbHash", collections="films") == 14
    assert code(db.command, "dbHash", collection=["films"]) == 40415


def test_capped_collections_are_read_in_the_order_of_insertion_and_views_not_at_all(db):
    db.create_collection("log", capped=True, size=4096)
    documents = [{"_id": i} for i in (3, 1, 2)]
    db.log.insert_many(documents)
    db.create_collection("seen", viewOn="log")
    found = db.command("dbHash")
    assert found["collections"] == {"log": expected(documents)} and found["capped"] == ["log"]


def test_the_sums_are_of_one_moment(db):
    db.a.insert_one({"_id": 1, "n": 0})
    db.b.insert_one({"_id": 1, "n": 0})
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            for collection in (db.a, db.b):
                collection.update_one({"_id": 1}, {"$set": {"n": number}})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            found = db.command("dbHash")["collections"]
            # `b` follows `a`, so that `b` never is ahead.
            numbers = {name: next(n for n in range(100_000) if expected([{"_id": 1, "n": n}]) == found[name]) for name in "ab"}
            assert 0 <= numbers["a"] - numbers["b"] <= 1
    finally:
        stop.set()
        writer.join()


def test_a_user_needs_the_right_to_it(tmp_path):
    server = servers.Locked(tmp_path / "data")
    try:
        with server.as_user() as root:
            root.shop.c.insert_one({"_id": 1})
            for name, role in [("reader", "read"), ("writer", "readWrite"), ("nobody", "userAdmin")]:
                root.admin.command("createUser", name, pwd=servers.PASSWORD, roles=[{"role": role, "db": "shop"}])
        with server.as_user("reader") as reader:
            assert reader.shop.command("dbHash")["collections"] == {"c": expected([{"_id": 1}])}
        with server.as_user("nobody") as nobody, pytest.raises(pymongo.errors.OperationFailure) as refused:
            nobody.shop.command("dbHash")
        assert refused.value.code == 13
    finally:
        assert server.stop() == 0
