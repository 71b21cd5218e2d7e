"""Restoring a backup as it was at an earlier moment."""
import contextlib
import datetime
import subprocess
import time

import pymongo
import pymongo.operations

from server import BIN, Server


def treedb(*args):
    return subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=120)


@contextlib.contextmanager
def serving(folder, *flags):
    server = Server(folder, *flags)
    try:
        with pymongo.MongoClient(server.uri) as client:
            yield client
    finally:
        server.stop()


def now():
    """The server's clock is this one. Changes after it are later by a millisecond at least."""
    time.sleep(0.005)
    moment = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(0.005)
    return moment


def everything(client):
    return {
        f"{name}.{coll}": (sorted(client[name][coll].find(), key=repr), sorted(client[name][coll].index_information()))
        for name in client.list_database_names() if name not in ("admin", "local", "config")
        for coll in client[name].list_collection_names()
    }


def served(folder):
    with serving(folder) as client:
        return everything(client)


def test_a_backup_is_restored_as_it_was_before_the_accident(tmp_path):
    moments = []
    with serving(tmp_path / "data", "--change-log", "on") as client:
        shop = client.shop
        shop.orders.insert_many([{"_id": i, "n": 0, "text": "x" * 50} for i in range(3000)])
        shop.orders.create_index("n")
        shop.customers.insert_many([{"_id": i, "mail": f"m{i}"} for i in range(10)])
        shop.customers.create_index("mail", unique=True)
        moments.append((now(), everything(client)))
        shop.orders.update_many({"_id": {"$lt": 1500}}, {"$inc": {"n": 1}})
        shop.orders.delete_many({"_id": {"$gte": 2000}})
        # Unique keys that change hands.
        shop.customers.update_one({"_id": 1}, {"$set": {"mail": "between"}})
        shop.customers.update_one({"_id": 2}, {"$set": {"mail": "m1"}})
        shop.customers.update_one({"_id": 1}, {"$set": {"mail": "m2"}})
        client.other.new.insert_one({"_id": 1})
        moments.append((now(), everything(client)))
        shop.orders.drop_index("n_1")
        shop.customers.rename("clients")
        shop.drop_collection("orders")
        shop.orders.insert_one({"_id": "another"})
        moments.append((now(), everything(client)))
        client.admin.command("backupTo", str(tmp_path / "backup"))
        client.drop_database("shop")
    for number, (moment, expected) in enumerate(moments):
        to = tmp_path / f"restored{number}"
        # With a slash, as a shell completes it.
        done = treedb("restore", tmp_path / "backup", "--dir", f"{to}/", "--at", moment.isoformat())
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / f"restored{number}.restoring").exists()
        assert treedb("check", "--dir", to).returncode == 0
        assert served(to) == expected, done.stderr
    # From the directory of the server, after it has stopped.
    done = treedb("restore", tmp_path / "data", "--dir", tmp_path / "again", "--at", moments[-1][0].isoformat())
    assert done.returncode == 0, done.stderr
    assert served(tmp_path / "again") == moments[-1][1]
    late = treedb("restore", tmp_path / "backup", "--dir", tmp_path / "late", "--at", "2999-01-01T00:00:00Z")
    assert late.returncode == 0 and "the last change that is known is of" in late.stderr
    # And back to before that, from the result.
    done = treedb("restore", tmp_path / "again", "--dir", tmp_path / "first", "--at", moments[0][0].isoformat())
    assert done.returncode == 0, done.stderr
    assert served(tmp_path / "first") == moments[0][1]


def test_a_moment_that_cannot_be_restored_is_refused_and_nothing_is_left(tmp_path):
    with serving(tmp_path / "data", "--change-log", "off") as client:
        client.shop.orders.insert_one({"_id": 1})
    to = tmp_path / "to"
    for at, why in (
        ("2026-11-23", "2026-11-23T14:05:00Z"), ("change:x", "not the number of a change"),
        ("2026-11-23T14:05:00Z", "switch the change log on"),
    ):
        done = treedb("restore", tmp_path / "data", "--dir", to, "--at", at)
        assert done.returncode != 0 and why in done.stderr, done.stderr
        assert not to.exists() and not (tmp_path / "to.restoring").exists()
    with serving(tmp_path / "data", "--change-log", "on") as client:
        client.shop.orders.insert_one({"_id": 2})
    done = treedb("restore", tmp_path / "data", "--dir", to, "--at", "2001-01-01T00:00:00Z")
    assert done.returncode == 1 and "not kept that long" in done.stderr
    done = treedb("restore", tmp_path / "data", "--dir", tmp_path / "data", "--at", "change:1")
    assert done.returncode == 1 and "empty or a new directory" in done.stderr
    (tmp_path / "dump" / "shop").mkdir(parents=True)
    (tmp_path / "dump" / "shop" / "orders.bson").write_bytes(b"")
    done = treedb("restore", tmp_path / "dump", "--dir", to, "--at", "change:1")
    assert done.returncode == 1 and "--at is for backups" in done.stderr


def near(*paths):
    fields = [{"type": "vector", "path": path, "numDimensions": 2, "similarity": "euclidean"} for path in paths]
    return {"fields": fields}


def searchable(client):
    """Names and paths of the search indexes of each collection, and what is nearest by each path."""
    found = {}
    for name in client.shop.list_collection_names():
        for index in client.shop[name].list_search_indexes():
            for field in index["latestDefinition"]["fields"]:
                stage = {"index": index["name"], "path": field["path"], "queryVector": [7.2, 0], "numCandidates": 20, "limit": 2}
                ids = [d["_id"] for d in client.shop[name].aggregate([{"$vectorSearch": stage}])]
                found[name, index["name"], field["path"]] = ids
    return found


def test_search_indexes_come_back_as_they_were(tmp_path):
    moments = []
    with serving(tmp_path / "data", "--change-log", "on") as client:
        shop = client.shop
        with shop.watch(show_expanded_events=True) as stream:
            shop.films.insert_many([{"_id": n, "a": [n, 0], "b": [0, n]} for n in range(50)])
            shop.gone.insert_many([{"_id": n, "a": [n, 1]} for n in range(20)])
            moments.append((now(), searchable(client)))
            model = lambda name, *paths: pymongo.operations.SearchIndexModel(near(*paths), name=name, type="vectorSearch")
            shop.films.create_search_indexes([model("one", "a"), model("two", "a", "b")])
            shop.gone.create_search_index(model("one", "a"))
            moments.append((now(), searchable(client)))
            shop.films.update_search_index("one", near("b"))
            shop.films.update_search_index("two", near("b"))
            shop.films.update_one({"_id": 30}, {"$set": {"a": [7, 0]}})
            moments.append((now(), searchable(client)))
            shop.films.drop_search_index("two")
            shop.films.create_search_index(model("three", "a"))
            shop.drop_collection("gone")
            moments.append((now(), searchable(client)))
            # They are no events, as in MongoDB.
            kinds = set()
            while (event := stream.try_next()) is not None:
                kinds.add(event["operationType"])
            assert "drop" in kinds and not kinds & {"createIndexes", "dropIndexes"}, kinds
        shop.films.drop_search_index("three")
        client.admin.command("backupTo", str(tmp_path / "backup"))
    assert [len(found) for _, found in moments] == [0, 4, 3, 2]
    for number, (moment, expected) in enumerate(moments):
        to = tmp_path / f"restored{number}"
        done = treedb("restore", tmp_path / "backup", "--dir", to, "--at", moment.isoformat())
        assert done.returncode == 0, done.stderr
        assert treedb("check", "--dir", to).returncode == 0
        with serving(to) as client:
            assert searchable(client) == expected, number
    # And back to before that, from a result.
    done = treedb("restore", tmp_path / "restored3", "--dir", tmp_path / "again", "--at", moments[1][0].isoformat())
    assert done.returncode == 0, done.stderr
    with serving(tmp_path / "again") as client:
        assert searchable(client) == moments[1][1]
