"""Dumps of one moment, archives of the oplog, and restoring any moment after a backup when the directory is gone."""
import contextlib
import datetime
import gzip
import pathlib
import random
import shutil
import signal
import subprocess
import threading
import time

import bson
import pymongo
import pymongo.operations
import pytest
from bson import Binary, Int64, ObjectId
from bson.timestamp import Timestamp
from pymongo.errors import PyMongoError

from server import BIN, Locked, Server

SET = ("--change-log", "on", "--replica-set", "rs")


def treedb(*args):
    return subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=300)


def succeeds(*args):
    done = treedb(*args)
    assert done.returncode == 0, (args, done.stderr)
    return done.stderr


@contextlib.contextmanager
def serving(folder, *flags):
    server = Server(folder, *flags)
    try:
        with server.client() as client:
            yield server, client
    finally:
        server.stop()


def everything(client):
    """Options, indexes and documents of each collection; of capped ones in their order."""
    found = {}
    for name in client.list_database_names():
        if name in ("admin", "local", "config"):
            continue
        for info in client[name].list_collections():
            collection = client[name][info["name"]]
            documents = [bson.encode(document) for document in collection.find()]
            if not info["options"].get("capped"):
                documents.sort()
            indexes = {} if info["type"] == "view" else collection.index_information()
            found[f"{name}.{info['name']}"] = (info["type"], info["options"], indexes, documents)
    return found


def served(folder):
    with serving(folder) as (_, client):
        return everything(client)


def now():
    """The server's clock is this one. Changes after it are later by a millisecond at least."""
    time.sleep(0.005)
    moment = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(0.005)
    return moment


def newest(client):
    [entry] = client.local["oplog.rs"].find().sort("$natural", -1).limit(1)
    return entry["ts"]


def entries_of(path):
    data = path.read_bytes()
    return bson.decode_all(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


class Load:
    """Writes of all kinds, one thread each, until it is stopped."""

    def __init__(self, client):
        self.client, self.stopped, self.failures, self.rounds = client, threading.Event(), [], 0
        work = (self.documents, self.unique, self.transactions, self.definitions, self.capped)
        self.threads = [threading.Thread(target=self.run, args=(each, seed)) for seed, each in enumerate(work)]

    def __enter__(self):
        self.client.load.documents.create_index("n")
        self.client.load.documents.create_index([("tags", 1), ("n", -1)], name="by tag")
        self.client.load.unique.create_index("mail", unique=True)
        self.client.load.create_collection("capped", capped=True, size=100_000, max=20)
        for name in "ab":
            self.client.load[name].insert_one({"_id": 0, "n": 0})
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        # However slow the machine is.
        deadline = time.monotonic() + 60
        while self.rounds <= 20 and not self.failures and time.monotonic() < deadline:
            time.sleep(0.05)
        self.stop()
        assert not self.failures and self.rounds > 20, self.failures

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def run(self, work, seed):
        chance = random.Random(seed)
        while not self.stopped.is_set():
            try:
                work(chance)
                self.rounds += 1
            except PyMongoError as error:
                self.failures.append(error)
                return

    def documents(self, chance):
        documents = self.client.load.documents
        ids = [ObjectId() for _ in range(20)]
        documents.insert_many([{"_id": id, "n": i, "tags": [i % 3, "x"], "deep": {"list": [1, {"a": i}], "text": "x" * 40}}
                               for i, id in enumerate(ids)])
        documents.update_many({"n": {"$lt": 5}}, {"$inc": {"n": 7, "deep.list.1.a": 1}, "$set": {"new": {"b": 1}}})
        documents.update_one({"_id": ids[7]}, {"$push": {"tags": {"$each": ["p"], "$position": 0}}, "$unset": {"deep.text": 1}})
        documents.replace_one({"_id": ids[8]}, {"whole": chance.random(), "n": Int64(5)})
        documents.find_one_and_update({"_id": chance.choice(ids)}, [{"$set": {"tags": {"$size": {"$ifNull": ["$tags", []]}}}}])
        documents.update_one({"_id": f"upserted {chance.randrange(20)}"}, {"$inc": {"n": 1}}, upsert=True)
        documents.delete_many({"_id": {"$in": ids[10:]}})
        documents.bulk_write([pymongo.DeleteOne({"_id": ids[1]}), pymongo.InsertOne({"_id": ids[1], "back": True})])

    def unique(self, chance):
        """A key goes from one document to another, which no order of collections read one after the other would allow."""
        unique, holder = self.client.load.unique, ObjectId()
        mail = f"m{chance.randrange(5)}"
        unique.delete_one({"mail": mail})
        unique.insert_one({"_id": holder, "mail": mail, "bytes": Binary(b"\0\1")})
        unique.update_one({"_id": holder}, {"$set": {"mail": f"gone {holder}"}})
        unique.insert_one({"mail": mail})

    def transactions(self, chance):
        with self.client.start_session() as session:
            def both(session):
                self.client.load.a.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session)
                self.client.load.b.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session)
                self.client.load.b.insert_one({"_id": ObjectId(), "in": "a transaction"}, session=session)
            session.with_transaction(both)
            session.start_transaction()
            self.client.load.a.insert_one({"_id": ObjectId(), "never": 1}, session=session)
            session.abort_transaction()

    def definitions(self, chance):
        load, name = self.client.load, f"made{chance.randrange(3)}"
        load.drop_collection(name)
        load.create_collection(name, validator={"n": {"$type": "number"}}, collation={"locale": "de", "strength": 2})
        load[name].insert_many([{"_id": i, "n": i} for i in range(5)])
        load[name].create_index("n", name="n", expireAfterSeconds=100_000)
        load[name].create_index("m", name="m", sparse=True)
        load.command({"collMod": name, "index": {"name": "n", "expireAfterSeconds": 200_000}})
        load.command({"collMod": name, "validator": {"n": {"$gte": 0}}})
        load[name].drop_index("m")
        self.client.short.c.insert_one({})
        if chance.random() < 0.3:
            self.client.drop_database("short")

    def capped(self, chance):
        self.client.load.capped.insert_many([{"n": i} for i in range(chance.randrange(1, 9))])


@pytest.mark.parametrize("zipped", [False, True])
def test_a_dump_with_its_oplog_is_of_the_moment_when_it_ended(tmp_path, zipped):
    with serving(tmp_path / "data", *SET) as (server, client):
        client.load.documents.insert_many([{"_id": i, "n": i, "text": "x" * 200} for i in range(4_000)])
        with Load(client):
            time.sleep(0.5)
            flags = ["--gzip"] if zipped else []
            succeeds("dump", "--uri", server.uri, "--oplog", tmp_path / "dump", *flags)
        entries = entries_of(tmp_path / "dump" / "oplog.bson")
        assert len({entry["op"] for entry in entries} - {"n"}) == 4, "the load wrote while it was dumped"
        # What there was then is what an archive of all changes makes of nothing.
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
    told = succeeds("restore", tmp_path / "dump", "--dir", tmp_path / "restored", "--oplog-replay")
    end = entries[-1]["ts"]
    assert f"{end.time}:{end.inc}" in told
    succeeds("check", "--dir", tmp_path / "restored")
    [file] = (tmp_path / "archive").iterdir()
    expected = at(tmp_path, entries_of(file), end)
    assert served(tmp_path / "restored") == expected
    with serving(tmp_path / "other") as (other, client):
        succeeds("restore", tmp_path / "dump", "--uri", other.uri, "--oplogReplay")
        assert everything(client) == expected


def at(tmp_path, entries, end):
    """What PyMongo makes of an empty server with the entries up to `end`."""
    with serving(tmp_path / "model", "--durability", "relaxed") as (_, client):
        batch = []

        def apply():
            if batch:
                client.admin.command({"applyOps": batch, "bypassDocumentValidation": True})
                batch.clear()

        for entry in entries:
            if entry["ts"] > end or entry["op"] == "n":
                continue
            entry.pop("ui", None)
            if entry["op"] == "c" or len(batch) == 300:
                apply()
            batch.append(entry)
            if entry["op"] == "c":
                apply()
        apply()
        return everything(client)


def test_every_moment_since_a_backup_is_restored_when_the_directory_is_gone(tmp_path):
    moments = []
    server = Server(tmp_path / "data", *SET)
    client = server.client()
    client.shop.kept.insert_many([{"_id": i, "n": 0} for i in range(500)])
    client.shop.kept.create_index("n", name="before the backup")

    def pause():
        """Nobody writes for a moment, of which the driver keeps a copy, with the time and the entry before which it is."""
        moments.append((now(), everything(client), newest(client)))

    def archive():
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")

    archive()
    pause()
    for number in range(3):
        if number == 0:
            with Load(client):
                time.sleep(0.6)
                client.admin.command("backupTo", str(tmp_path / "backup"))
                archive()
                time.sleep(0.6)
        client.shop.kept.update_many({"_id": {"$mod": [7, number]}}, {"$inc": {"n": 1}})
        client.shop.kept.delete_one({"_id": number})
        pause()
        archive()
        client.shop[f"new{number}"].insert_one({"_id": 1})
        client.shop[f"new{number}"].rename(f"renamed{number}")
        if number:
            client.shop[f"renamed{number - 1}"].drop()
        pause()
    assert "nothing was changed" not in succeeds("archive", "--uri", server.uri, tmp_path / "archive", "--gzip")
    assert "nothing was changed" in succeeds("archive", "--uri", server.uri, tmp_path / "archive")
    files = sorted((tmp_path / "archive").iterdir())
    assert len(files) == 6 and files[-1].suffix == ".gz"
    client.shop.kept.insert_one({"_id": "lost: nobody archived it"})
    client.close()
    server.stop(signal.SIGKILL)
    shutil.rmtree(tmp_path / "data")
    backup = ("restore", tmp_path / "backup", "--oplog-file", tmp_path / "archive")
    for number, (moment, expected, last) in enumerate(moments):
        to = tmp_path / f"restored{number}"
        succeeds(*backup, "--dir", to, "--at", moment.isoformat())
        succeeds("check", "--dir", to)
        assert served(to) == expected, number
        if number:
            # Those before the next.
            limit = f"{last.time}:{last.inc + 1}"
            succeeds(*backup, "--dir", tmp_path / f"limited{number}", "--oplog-limit", limit)
            assert served(tmp_path / f"limited{number}") == expected, number
    assert f"{last.time}:{last.inc}" in succeeds(*backup, "--dir", tmp_path / "end")
    assert served(tmp_path / "end") == moments[-1][1]
    # In any order, and twice.
    several = [arg for file in [*reversed(files), files[2]] for arg in ("--oplog-file", file)]
    succeeds("restore", tmp_path / "backup", "--dir", tmp_path / "several", *several)
    assert served(tmp_path / "several") == moments[-1][1]
    told = succeeds(*backup, "--dir", tmp_path / "late", "--at", "2999-01-01T00:00:00Z")
    assert "the last change that is known is of" in told
    # A gap is told, and nothing is restored.
    files[3].unlink()
    done = treedb(*backup, "--dir", tmp_path / "gap")
    assert done.returncode == 1 and "the changes in between are missing" in done.stderr and files[4].name in done.stderr
    assert not (tmp_path / "gap").exists() and not (tmp_path / "gap.restoring").exists()
    # The moment of the backup is later than this limit.
    first = entries_of(files[0])[-1]["ts"]
    done = treedb(*backup, "--dir", tmp_path / "gap", "--oplog-limit", f"{first.time}:{first.inc}")
    assert done.returncode == 1 and "not before the limit" in done.stderr
    # The archive does not go on with what was restored: that has entries of its own.
    with serving(tmp_path / "end") as (server, client):
        client.shop.kept.insert_one({"_id": "after"})
        done = treedb("archive", "--uri", server.uri, tmp_path / "archive")
        assert done.returncode == 1 and "has no such entry" in done.stderr
    assert sorted((tmp_path / "archive").iterdir()) == [file for file in files if file != files[3]]


def test_a_backup_that_was_made_while_an_index_was_built_is_brought_forward(tmp_path):
    with serving(tmp_path / "data", *SET) as (server, client):
        building, names = client.load.building, [f"index {n}" for n in range(12)]
        building.insert_many([{"_id": i, "tags": [i * 7 + tag for tag in range(40)], **dict.fromkeys(names, i)} for i in range(5_000)])
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")

        def build():
            for name in names:
                if not unfinished:
                    building.create_index([("tags", 1), (name, -1)], name=name)

        def in_progress():
            [build, *_] = [*client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.createIndexes": "building"}}]), None]
            return build and build["command"]["indexes"][0]["name"]

        number = 0
        unfinished = None
        builder = threading.Thread(target=build)
        builder.start()
        while unfinished is None and builder.is_alive():
            before, number = in_progress(), number + 1
            if before:
                client.admin.command("backupTo", str(tmp_path / f"backup{number}"))
                unfinished = before if in_progress() == before else None
        builder.join()
        assert unfinished, "a backup was made while an index was built"
        created = everything(client)
        moment = now()
        building.insert_one({"_id": "later"})
        expected, last = everything(client), newest(client)
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
    backup = ("restore", tmp_path / f"backup{number}", "--oplog-file", tmp_path / "archive")
    limit = f"{last.time}:{last.inc}"
    for name, flags, wanted in [("end", (), expected), ("at", ("--at", moment.isoformat()), created),
                                ("limited", ("--oplog-limit", limit), created)]:
        succeeds(*backup, "--dir", tmp_path / name, *flags)
        assert served(tmp_path / name) == wanted, name
    # Just before the change that created it, it is not there yet.
    entries = [entry for file in sorted((tmp_path / "archive").iterdir()) for entry in entries_of(file)]
    [creation] = [entry["ts"] for entry in entries if entry["o"].get("name") == unfinished and "createIndexes" in entry["o"]]
    succeeds(*backup, "--dir", tmp_path / "before", "--oplog-limit", f"{creation.time}:{creation.inc}")
    with serving(tmp_path / "before") as (_, client):
        there = set(client.load.building.index_information()) - {"_id_"}
        assert there == set(names[:names.index(unfinished)])


def define(client):
    """Collections and indexes of all kinds, and what is done to them."""
    db, other = client.kinds, client.other
    db.create_collection("series", timeseries={"timeField": "at", "metaField": "m"})
    db.series.insert_many([{"_id": i, "at": datetime.datetime(2026, 1, 1), "m": 1, "v": i} for i in range(3)])
    db.command("collMod", "series", expireAfterSeconds=10**9, timeseries={"granularity": "hours"})
    db.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    db.clustered.insert_one({"_id": 5})
    db.converted.insert_many([{"_id": i} for i in range(5)])
    db.command("convertToCapped", "converted", size=100_000, max=4)
    db.converted.insert_one({"_id": 9})
    db.create_collection("capped", capped=True, size=100_000)
    db.capped.insert_many([{"_id": i} for i in range(5)])
    db.command("collMod", "capped", cappedMax=3, cappedSize=50_000)
    db.capped.insert_one({"_id": 9})
    db.replaced.insert_one({"_id": 77})
    db.replaced.create_index("z")
    db.converted.aggregate([{"$out": "replaced"}])
    db.converted.aggregate([{"$merge": "merged"}])
    db.dropped_by_rename.create_index("q")
    db.merged.rename("dropped_by_rename", dropTarget=True)
    other.moved.insert_one({"_id": 1})
    client.admin.command("renameCollection", "other.moved", to="kinds.moved")
    large = "x" * (16 * 1024 * 1024 - 40)
    db.large.insert_one({"_id": 1, "t": large})
    db.large.replace_one({"_id": 1}, {"t": large.replace("x", "y")})
    deep = {}
    for _ in range(97):
        deep = {"d": deep}
    db.large.insert_one({"_id": 2, **deep})
    db.large.update_one({"_id": 2}, {"$set": {"d.d.d.y": 1}})
    db.indexed.create_indexes([pymongo.IndexModel([("g", "2dsphere")]), pymongo.IndexModel([("h", "hashed")]), pymongo.IndexModel([("$**", 1)]),
                               pymongo.IndexModel("w", collation={"locale": "de", "strength": 2}, partialFilterExpression={"w": {"$gt": 1}})])
    db.indexed.insert_one({"_id": 1, "g": {"type": "Point", "coordinates": [1, 2]}, "h": 1, "w": 3})
    db.unique.create_index("k", unique=True)
    db.unique.insert_many([{"_id": 1, "k": "a"}, {"_id": 2, "k": "b"}])
    with client.start_session() as session, session.start_transaction():
        # Each takes the other's key.
        for id, key in ((1, "between"), (2, "a"), (1, "b")):
            db.unique.update_one({"_id": id}, {"$set": {"k": key}}, session=session)
        db.create_collection("in_a_transaction", session=session)
        db.in_a_transaction.insert_one({"_id": 1}, session=session)


def test_collections_and_indexes_of_all_kinds_are_replayed(tmp_path):
    with serving(tmp_path / "data", *SET) as (server, client):
        client.before.c.insert_one({"_id": 1})
        client.admin.command("backupTo", str(tmp_path / "backup"))
        define(client)
        # They are not in the oplog: those of the backup are restored.
        client.admin.command("createUser", "ann", pwd="secret", roles=["read"])
        expected = everything(client)
        client.before.create_collection("view", viewOn="c", pipeline=[])
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
    succeeds("restore", tmp_path / "backup", "--dir", tmp_path / "to", "--oplog-file", tmp_path / "archive")
    succeeds("check", "--dir", tmp_path / "to")
    assert served(tmp_path / "to") == expected


def test_the_commands_of_the_page_do_what_it_says(tmp_path):
    page = (pathlib.Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    section = page.split("### To any moment after it")[1].split("\n## ")[0]
    commands = [line.split("#")[0] for line in section.splitlines() if line.startswith("treedb ")]
    assert len(commands) == 5
    (tmp_path / "backups").mkdir()

    def run(command, **values):
        for old, new in {"/mnt": tmp_path, "./": f"{tmp_path}/", **values}.items():
            command = command.replace(old, str(new))
        succeeds(*command.split()[1:])

    with serving(tmp_path / "served", "--change-log", "on") as (server, client):
        uri = {"mongodb://127.0.0.1:27017": server.uri, "operator.password": tmp_path / "operator.password"}
        (tmp_path / "operator.password").write_text("secret\n")
        client.admin.command("createUser", "operator", pwd="secret", roles=["backup"])
        client.d.c.insert_one({"_id": 1})
        run(commands[0], **uri)
        run(commands[1], **uri)
        client.d.c.insert_one({"_id": 2})
        moment, last = now(), newest(client)
        client.d.c.insert_one({"_id": 3})
        run(commands[0], **uri)
    for command in commands[2:]:
        run(command, **{"2026-11-23T14:05:00Z": moment.isoformat(), "1795442700:1": f"{last.time}:{last.inc}"})
    for folder, ids in (("data", [1, 2, 3]), ("earlier", [1, 2]), ("limited", [1])):
        with serving(tmp_path / folder) as (_, client):
            assert [document["_id"] for document in client.d.c.find()] == ids


def test_an_archive_that_the_oplog_no_longer_reaches_is_told(tmp_path):
    with serving(tmp_path / "data", "--change-log", "on", "--change-bytes", "1MiB") as (server, client):
        client.d.c.insert_one({"_id": 0, "n": 0})
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
        before = sorted((tmp_path / "archive").iterdir())
        for n in range(40):
            client.d.c.update_one({"_id": 0}, {"$set": {"n": n, "text": chr(65 + n % 26) * 100_000}})
            time.sleep(0.06)
        client.d.c.update_one({"_id": 0}, {"$set": {"n": -1}})
        done = treedb("archive", "--uri", server.uri, tmp_path / "archive")
        assert done.returncode == 1 and "does not reach back that far" in done.stderr, done.stderr
        assert sorted((tmp_path / "archive").iterdir()) == before, "and nothing is left"
        done = treedb("archive", "--uri", server.uri, tmp_path / "archive", "--since", "1:0")
        assert done.returncode == 1 and "--since is for the first run" in done.stderr
        done = treedb("archive", "--uri", server.uri, tmp_path / "other", "--since", "1:0")
        assert done.returncode == 1 and "no longer has what was changed since 1:0" in done.stderr
        since = newest(client)
        client.d.c.insert_one({"_id": 1})
        succeeds("archive", "--uri", server.uri, tmp_path / "other", "--since", f"{since.time}:{since.inc}")
        [file] = (tmp_path / "other").iterdir()
        assert [entry["ts"] for entry in entries_of(file)][0] == since and entries_of(file)[-1]["o"] == {"_id": 1}
    with serving(tmp_path / "off", "--change-log", "off") as (server, client):
        client.d.c.insert_one({"_id": 0})
        for command in (("archive", "--uri", server.uri, tmp_path / "none"), ("dump", "--oplog", "--uri", server.uri, tmp_path / "none")):
            done = treedb(*command)
            assert done.returncode == 1 and "changes are not recorded" in done.stderr
        client.admin.command("backupTo", str(tmp_path / "backup"))
    done = treedb("restore", tmp_path / "backup", "--dir", tmp_path / "to", "--oplog-file", tmp_path / "other")
    assert done.returncode == 1 and "has no change log" in done.stderr


def entry(second, op, ns, o, number=1, **more):
    return {"op": op, "ns": ns, "ui": Binary(b"0" * 16, 4), "o": o, "ts": Timestamp(second, number), "t": Int64(1), "v": Int64(2),
            "wall": datetime.datetime.fromtimestamp(second, datetime.timezone.utc), **more}


def mongodump(folder, entries, zipped=False):
    """A dump as mongodump makes it of MongoDB, which has been changed meanwhile."""
    (folder / "d").mkdir(parents=True)
    (folder / "d" / "c.bson").write_bytes(bson.encode({"_id": 1, "mail": "x"}) + bson.encode({"_id": 3, "mail": "y"}))
    (folder / "d" / "c.metadata.json").write_text(
        '{"options":{},"indexes":[{"v":{"$numberInt":"2"},"key":{"_id":{"$numberInt":"1"}},"name":"_id_"},'
        '{"v":{"$numberInt":"2"},"key":{"mail":{"$numberInt":"1"}},"name":"mail_1","unique":true}],'
        '"uuid":"30303030303030303030303030303030","collectionName":"c","type":"collection"}')
    data = b"".join(map(bson.encode, entries))
    # It compresses this file too, and does not call it so.
    (folder / "oplog.bson").write_bytes(gzip.compress(data, mtime=0) if zipped else data)
    return folder


def transaction(second, number, changes, **more):
    return entry(second, "c", "admin.$cmd", {"applyOps": changes, **more}, lsid={"id": Binary(b"1" * 16, 4)}, txnNumber=Int64(number))


def entries_of_mongodb():
    insert = lambda id, **more: {"op": "i", "ns": "d.t", "ui": Binary(b"0" * 16, 4), "o": {"_id": id}, "o2": {"_id": id}, **more}
    session = {"lsid": {"id": Binary(b"1" * 16, 4)}}
    return [
        entry(100, "n", "", {"msg": "periodic noop"}),
        # A document that was deleted before its collection was read, and whose key another one has by now.
        entry(101, "i", "d.c", {"_id": 2, "mail": "y"}, o2={"_id": 2}),
        entry(102, "u", "d.c", {"$v": 2, "diff": {"u": {"mail": "z"}}}, o2={"_id": 9}),
        entry(103, "d", "d.c", {"_id": 2}),
        entry(104, "i", "d.c", {"_id": 3, "mail": "y"}, o2={"_id": 3}),
        # A collection that was dropped before the collections were listed.
        entry(105, "i", "d.gone", {"_id": 1}),
        entry(106, "c", "d.$cmd", {"drop": "gone"}),
        entry(107, "c", "d.$cmd", {"create": "t", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}}),
        entry(108, "c", "d.$cmd", {"startIndexBuild": "t", "indexBuildUUID": Binary(b"0" * 16, 4), "indexes": [{"v": 2, "key": {"a": 1}, "name": "a_1"}]}),
        entry(109, "c", "d.$cmd", {"commitIndexBuild": "t", "indexBuildUUID": Binary(b"0" * 16, 4), "indexes": [{"v": 2, "key": {"a": 1}, "name": "a_1"}]}),
        entry(110, "c", "d.$cmd", {"collMod": "t", "index": {"name": "a_1", "hidden": True}}, o2={"indexOptions_old": {"hidden": False}}),
        transaction(111, 1, [insert(1)]),
        # In several entries.
        transaction(112, 2, [insert(2)], partialTxn=True),
        entry(113, "u", "d.c", {"$v": 1, "$set": {"n": 5}}, o2={"_id": 1}),
        transaction(114, 2, [insert(3)], count=Int64(2)),
        # Prepared: committed, and not.
        transaction(115, 3, [insert(4)], prepare=True),
        transaction(116, 4, [insert(5)], prepare=True),
        entry(117, "c", "admin.$cmd", {"abortTransaction": 1}, **session, txnNumber=Int64(4)),
        entry(118, "c", "admin.$cmd", {"commitTransaction": 1, "commitTimestamp": Timestamp(118, 1)}, **session, txnNumber=Int64(3)),
        # One whose end is not in the dump.
        transaction(119, 5, [insert(6)], partialTxn=True),
        # What MongoDB keeps for itself.
        entry(120, "i", "config.transactions", {"_id": session["lsid"], "txnNum": Int64(1)}),
        entry(121, "i", "d.c", {"_id": 4, "mail": "retried"}, o2={"_id": 4}, **session, txnNumber=Int64(6), stmtId=0, prevOpTime={"ts": Timestamp(0, 0), "t": Int64(-1)}),
        entry(122, "c", "d.$cmd", {"dropIndexes": "c", "index": "mail_1"}, o2={"v": 2, "key": {"mail": 1}, "name": "mail_1"}),
        entry(123, "c", "d.$cmd", {"createIndexes": "c", "v": 2, "key": {"mail": -1}, "name": "mail_-1", "unique": True}),
    ]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("place", ["--dir", "--uri"])
def test_a_dump_of_mongodb_is_replayed_to_its_end_and_to_a_limit(tmp_path, zipped, place):
    dump = mongodump(tmp_path / "dump", entries_of_mongodb(), zipped)

    def restored(name, *flags):
        with serving(tmp_path / name) as (server, client):
            if place == "--uri":
                succeeds("restore", dump, "--uri", server.uri, *flags)
                return everything(client)
        shutil.rmtree(tmp_path / name)
        succeeds("restore", dump, "--dir", tmp_path / name, *flags)
        return served(tmp_path / name)

    documents = lambda found, name: [bson.decode(document) for document in found[name][3]]
    by_id = lambda documents: sorted(documents, key=lambda document: document["_id"])
    found = restored("all", "--oplog-replay")
    assert set(found) == {"d.c", "d.t"}
    assert by_id(documents(found, "d.c")) == [{"_id": 1, "mail": "x", "n": 5}, {"_id": 3, "mail": "y"}, {"_id": 4, "mail": "retried"}]
    assert by_id(documents(found, "d.t")) == [{"_id": 1}, {"_id": 2}, {"_id": 3}, {"_id": 4}]
    assert set(found["d.c"][2]) == {"_id_", "mail_-1"} and found["d.c"][2]["mail_-1"]["unique"]
    assert found["d.t"][2]["a_1"]["hidden"]
    for limit in (("--oplog-limit", "114"), ("--oplogLimit", "114:1")):
        found = restored(f"limited{limit[1].replace(':', '-')}", "--oplogReplay", *limit)
        assert documents(found, "d.t") == [{"_id": 1}], "and nothing of a transaction that is not complete"
        assert set(found["d.c"][2]) == {"_id_", "mail_1"}
    found = restored("none")
    assert set(found) == {"d.c"} and len(documents(found, "d.c")) == 2


def test_a_time_before_the_end_of_a_dump_is_refused_and_one_after_it_is_not(tmp_path):
    dump = mongodump(tmp_path / "dump", entries_of_mongodb())
    done = treedb("restore", dump, "--dir", tmp_path / "to", "--oplog-replay", "--at", "1970-01-01T00:01:53Z")
    assert done.returncode == 1 and "the dump ended after that time" in done.stderr
    assert not (tmp_path / "to").exists()
    succeeds("restore", dump, "--dir", tmp_path / "to", "--oplog-replay", "--at", "1970-01-01T00:02:03Z")
    succeeds("restore", dump, "--dir", tmp_path / "all", "--oplog-replay")
    assert served(tmp_path / "to") == served(tmp_path / "all")


def test_commands_about_collections_of_mongodb_itself_are_told_and_the_others_replayed(tmp_path):
    dump = mongodump(tmp_path / "dump", [
        entry(101, "c", "d.$cmd", {"create": "system.views", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}}),
        entry(102, "i", "d.system.views", {"_id": "d.v", "viewOn": "c", "pipeline": []}),
        entry(103, "c", "d.$cmd", {"create": "system.buckets.s", "clusteredIndex": True}),
        entry(104, "c", "d.$cmd", {"createIndexes": "system.buckets.s", "v": 2, "key": {"m": 1}, "name": "m_1"}),
        entry(105, "c", "d.$cmd", {"renameCollection": "d.system.buckets.s", "to": "d.system.buckets.t"}),
        entry(106, "c", "d.$cmd", {"drop": "system.profile"}),
        # A database may have that name.
        entry(107, "c", "system.$cmd", {"create": "a"}),
        entry(108, "c", "system.$cmd", {"renameCollection": "system.a", "to": "system.b"}),
        entry(109, "i", "d.c", {"_id": 7, "mail": "7"}),
    ])
    done = treedb("restore", dump, "--dir", tmp_path / "to", "--oplog-replay")
    assert done.returncode == 1
    told = [line for line in done.stderr.splitlines() if "not replayed" in line]
    assert told == [f"treedb: changes of d.system.{name} are not replayed" for name in ("buckets.s", "profile", "views")]
    found = served(tmp_path / "to")
    assert set(found) == {"d.c", "system.b"} and len(found["d.c"][3]) == 3


def test_an_archive_cannot_follow_a_dump_whose_oplog_is_empty(tmp_path):
    dump = mongodump(tmp_path / "dump", [])
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "later.bson").write_bytes(bson.encode(entry(500, "i", "d.c", {"_id": 9})))
    done = treedb("restore", dump, "--dir", tmp_path / "to", "--oplog-file", tmp_path / "archive")
    assert done.returncode == 1 and "oplog.bson: there are no entries in it" in done.stderr
    assert not (tmp_path / "to").exists()
    succeeds("restore", dump, "--dir", tmp_path / "to", "--oplog-replay")


def test_entries_that_cannot_be_replayed_are_told_with_their_place(tmp_path):
    good = bson.encode(entry(100, "i", "d.c", {"_id": 5, "mail": "5"}))
    second = lambda *args, **more: bson.encode(entry(101, *args, **more))
    at = f"oplog.bson: the entry at byte {len(good)}, of 101:1: "
    deep = {"op": "i", "ns": "d.c", "o": {"_id": 1}}
    for _ in range(15):
        deep = {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [deep]}}
    for number, (data, message) in enumerate([
        (second("c", "admin.$cmd", deep["o"]), at + "entries are nested too deep"),
        (second("c", "d.$cmd", {}), at + "a command that is empty"),
        (second("c", "d.$cmd", {"emptycapped": "c"}), at),
        (second("c", "d.$cmd", {"collMod": "c", "index": 5}), at + "an index that is no document"),
        (second("c", "d.$cmd", {"commitIndexBuild": "c"}), at),
        (second("c", "admin.$cmd", {"applyOps": 5}), at),
        (second("c", "admin.$cmd", {"applyOps": [5]}), at),
        (second("c", "admin.$cmd", {"commitTransaction": 1}, lsid={"id": Binary(b"1" * 16, 4)}, txnNumber=Int64(3)), at + "the changes of the transaction"),
        (second("x", "d.c", {"_id": 1}), at), (second("i", "d.c", {"n": 1}), at), (second("i", "nowhere", {"_id": 1}), at),
        (second("u", "d.c", {"_id": 1}), at), (second(5, "d.c", {"_id": 1}), at), (second("i", 5, {"_id": 1}), at), (second("i", "d.c", 5), at),
        (second("u", "d.c", {"$v": 2, "diff": {"z": 1}}, o2={"_id": 1}), at),
        (bson.encode({"op": "n"}), f"the document at byte {len(good)} is no entry of an oplog"),
        (bson.encode({"op": "n", "ts": 5}), f"the document at byte {len(good)} is no entry of an oplog"),
        (good[:-5], f"a document that is cut at byte {len(good)}"), (b"\xff\xff\xff\x7f", f"bytes at byte {len(good)}"),
    ]):
        dump = mongodump(tmp_path / f"dump{number}", [])
        (dump / "oplog.bson").write_bytes(good + data)
        done = treedb("restore", dump, "--dir", tmp_path / f"to{number}", "--oplog-replay")
        assert done.returncode == 1 and message in done.stderr and "panic" not in done.stderr, (number, done.stderr)


def test_bytes_of_an_oplog_that_are_changed_at_random_never_panic(server, tmp_path):
    whole = b"".join(map(bson.encode, entries_of_mongodb()))
    chance = random.Random(5)
    dump = mongodump(tmp_path / "dump", [])
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 3, 20))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        (dump / "oplog.bson").write_bytes(data)
        done = treedb("restore", dump, "--uri", server.uri, "--drop", "--oplog-replay")
        assert done.returncode in (0, 1) and "panic" not in done.stderr, (done.stderr, bytes(data))
        assert done.returncode == 0 or "treedb: " in done.stderr or ": index " in done.stderr, done.stderr


def test_a_rename_during_a_dump_with_its_oplog_is_told(tmp_path):
    with serving(tmp_path / "data", *SET) as (server, client):
        client.d.create_collection("c")
        client.d.c.insert_many([{"_id": i, "text": "x" * 500} for i in range(30_000)])
        stop = threading.Event()

        def rename():
            while not stop.is_set():
                client.d.a.insert_one({})
                client.d.a.rename("b", dropTarget=True)

        thread = threading.Thread(target=rename)
        thread.start()
        done = treedb("dump", "--uri", server.uri, "--oplog", tmp_path / "dump")
        stop.set()
        thread.join()
        assert done.returncode == 1 and "a collection was renamed during the dump" in done.stderr, done.stderr
    done = treedb("restore", tmp_path / "dump", "--dir", tmp_path / "to", "--oplog-replay")
    assert done.returncode == 1 and "this dump was interrupted" in done.stderr


def near(*paths):
    fields = [{"type": "vector", "path": path, "numDimensions": 2, "similarity": "euclidean"} for path in paths]
    return {"fields": fields}


def searchable(client):
    """What is nearest by each field of each search index."""
    found = {}
    for name in sorted(client.d.list_collection_names()):
        for index in client.d[name].list_search_indexes():
            assert index["status"] == "READY"
            for field in index["latestDefinition"]["fields"]:
                stage = {"index": index["name"], "path": field["path"], "queryVector": [7.2, 0], "numCandidates": 20, "limit": 2}
                found[name, index["name"], field["path"]] = [e["_id"] for e in client.d[name].aggregate([{"$vectorSearch": stage}])]
    return found


@pytest.mark.parametrize("kind", ["backup", "dump"])
def test_search_indexes_are_brought_forward_with_what_they_index(tmp_path, kind):
    moments = []
    with serving(tmp_path / "data", *SET) as (server, client):
        def archive():
            moments.append((now(), searchable(client)))
            succeeds("archive", "--uri", server.uri, tmp_path / "archive")

        model = lambda name, *paths: pymongo.operations.SearchIndexModel(near(*paths), name=name, type="vectorSearch")
        client.d.c.insert_many([{"_id": i, "a": [i, 0], "b": [0, i]} for i in range(50)])
        client.d.c.create_search_indexes([model("kept", "a"), model("changed", "a", "b"), model("dropped", "b")])
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
        if kind == "backup":
            client.admin.command("backupTo", str(tmp_path / "copy"))
        else:
            succeeds("dump", "--uri", server.uri, "--oplog", tmp_path / "copy")
        client.d.c.update_one({"_id": 40}, {"$set": {"a": [7, 0]}})
        client.d.other.insert_many([{"_id": i, "a": [i, 3]} for i in range(20)])
        client.d.other.create_search_index(model("new", "a"))
        archive()
        client.d.c.update_search_index("changed", near("b"))
        client.d.c.drop_search_index("dropped")
        client.d.other.rename("renamed")
        archive()
        client.d.c.update_search_index("changed", near("b", "a"))
        client.d.renamed.drop_search_index("new")
        client.d.c.insert_one({"_id": "late", "a": [7.2, 0], "b": [7, 7]})
        archive()
        # Others pass over them.
        said = [entry for entry in client.local["oplog.rs"].find({"op": "n"}) if "msg" not in entry["o"]]
        assert {next(iter(entry["o"])) for entry in said} == {"createSearchIndexes", "dropSearchIndex"}
    assert [len(found) for _, found in moments] == [5, 3, 3]
    for number, (moment, expected) in enumerate(moments):
        to = tmp_path / f"to{number}"
        flags = ("--oplog-replay",) if kind == "dump" else ()
        succeeds("restore", tmp_path / "copy", "--dir", to, *flags, "--oplog-file", tmp_path / "archive", "--at", moment.isoformat())
        succeeds("check", "--dir", to)
        with serving(to) as (_, client):
            assert searchable(client) == expected, number


def test_a_dump_goes_on_with_an_archive(tmp_path):
    with serving(tmp_path / "data", *SET) as (server, client):
        client.d.c.create_index("mail", unique=True)
        client.d.c.insert_many([{"_id": i, "mail": i} for i in range(100)])
        succeeds("dump", "--uri", server.uri, "--oplog", tmp_path / "dump")
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
        client.d.c.delete_many({"_id": {"$lt": 50}})
        client.d.c.update_many({}, {"$inc": {"mail": -50}})
        client.d.c.create_index("other")
        expected = everything(client)
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
    # From a directory too: nobody changes it.
    succeeds("dump", "--dir", tmp_path / "data", "--oplog", tmp_path / "later")
    assert len(entries_of(tmp_path / "later" / "oplog.bson")) == 1
    succeeds("restore", tmp_path / "dump", "--dir", tmp_path / "to", "--oplog-file", tmp_path / "archive")
    assert served(tmp_path / "to") == expected
    succeeds("restore", tmp_path / "later", "--dir", tmp_path / "to2", "--oplog-replay")
    assert served(tmp_path / "to2") == expected
    # A dump without it takes the earlier one away.
    succeeds("dump", "--dir", tmp_path / "data", tmp_path / "later")
    assert not (tmp_path / "later" / "oplog.bson").exists()
    for args, message in [
        (("restore", tmp_path / "later", "--dir", tmp_path / "x", "--oplog-replay"), "dump with --oplog"),
        (("restore", tmp_path / "later", "--dir", tmp_path / "x", "--oplog-file", tmp_path / "archive"), "dump with --oplog"),
        (("restore", tmp_path / "dump", "--dir", tmp_path / "x", "--oplog-replay", "--only", "d"), "restore without --only"),
        (("restore", tmp_path / "dump", "--dir", tmp_path / "x", "--oplog-limit", "5"), "--oplog-limit is for"),
        (("restore", tmp_path / "dump", "--dir", tmp_path / "x", "--oplog-replay", "--at", "change:5"), "name a time"),
        (("restore", tmp_path / "data", "--dir", tmp_path / "x", "--oplog-replay"), "--oplog-file"),
    ]:
        done = treedb(*args)
        assert done.returncode == 1 and message in done.stderr, (args, done.stderr)
        assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("before, after", [(10**8, 10**9), (10**8, "off"), (None, 10**9)])
def test_when_the_documents_of_a_time_series_expire_is_replayed_after_a_dump(tmp_path, before, after):
    with serving(tmp_path / "data", *SET) as (server, client):
        options = {"expireAfterSeconds": before} if before else {}
        client.d.create_collection("s", timeseries={"timeField": "at"}, **options)
        client.d.s.insert_one({"_id": 1, "at": datetime.datetime(2026, 1, 1)})
        # It has an index like that, and its own.
        client.d.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True}, **options)
        client.d.clustered.create_index("at", expireAfterSeconds=10**7)
        succeeds("dump", "--uri", server.uri, "--oplog", tmp_path / "dump")
        for name in ("s", "clustered"):
            client.d.command("collMod", name, expireAfterSeconds=after)
        expected = everything(client)
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
    succeeds("restore", tmp_path / "dump", "--dir", tmp_path / "to", "--oplog-file", tmp_path / "archive")
    assert served(tmp_path / "to") == expected


def test_collections_of_the_database_local_are_brought_forward_as_others(tmp_path):
    with serving(tmp_path / "data", *SET) as (server, client):
        client.local.notes.insert_one({"_id": 1})
        client.admin.command("backupTo", str(tmp_path / "backup"))
        succeeds("dump", "--uri", server.uri, "--oplog", tmp_path / "dump")
        client.local.notes.insert_one({"_id": 2})
        client.local.a.insert_one({"_id": 1})
        client.admin.command("renameCollection", "local.a", to="d.a")
        client.d.a.insert_one({"_id": 2})
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
    succeeds("restore", tmp_path / "backup", "--dir", tmp_path / "to", "--oplog-file", tmp_path / "archive")
    with serving(tmp_path / "to") as (_, client):
        for collection in (client.local.notes, client.d.a):
            assert list(collection.find()) == [{"_id": 1}, {"_id": 2}]
    # A dump has not the collection that was renamed.
    done = treedb("restore", tmp_path / "dump", "--dir", tmp_path / "of_dump", "--oplog-file", tmp_path / "archive")
    assert done.returncode == 1 and "changes of d.a are not replayed" in done.stderr


def test_changes_that_are_not_replayed_after_a_backup_are_told_by_the_exit_status(tmp_path):
    with serving(tmp_path / "data", *SET) as (server, client):
        client.d.c.insert_one({"_id": 1})
        client.admin.command("backupTo", str(tmp_path / "backup"))
        client.d.c.insert_one({"_id": 2})
        last = newest(client)
        expected = everything(client)
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
    [file] = (tmp_path / "archive").iterdir()
    file.write_bytes(file.read_bytes() + bson.encode(entry(last.time, "i", "d.system.js", {"_id": "f"}, last.inc + 1)))
    done = treedb("restore", tmp_path / "backup", "--dir", tmp_path / "to", "--oplog-file", file)
    assert done.returncode == 1 and "changes of d.system.js are not replayed" in done.stderr
    assert served(tmp_path / "to") == expected


def test_an_archive_that_goes_on_reads_no_entry_before_the_one_that_it_ends_with(tmp_path):
    """One of a dropped collection may be lost, whose documents are kept for a shorter time."""
    with serving(tmp_path / "data", *SET) as (server, client):
        client.d.c.insert_one({"_id": 1})
        client.local.command("profile", 2)
        # Between two entries.
        since = newest(client).time + 1
        time.sleep(1.1)

        def reads(*flags):
            client.d.c.insert_one({})
            before = client.local["system.profile"].count_documents({})
            succeeds("archive", "--uri", server.uri, tmp_path / "archive", *flags)
            commands = [each["command"] for each in client.local["system.profile"].find().skip(before)]
            return [command for command in commands if command.get("find") == "oplog.rs"]

        for flags in (("--since", f"{since}:0"), ()):
            found = reads(*flags)
            assert len(found) >= 2 and not [each for each in found if each.get("sort") == {"$natural": 1}], found


def test_who_has_the_role_backup_archives_and_a_reader_does_not(tmp_path):
    server = Locked(tmp_path / "data", "--change-log", "on")
    try:
        with server.as_user() as root:
            root.d.c.insert_one({"_id": 1})
            root.admin.command("createUser", "keeper", pwd="secret", roles=["backup"])
            root.admin.command("createUser", "reader", pwd="secret", roles=["readAnyDatabase"])
        host = "{}:{}".format(*server.addresses["mongo"])
        succeeds("archive", "--uri", f"mongodb://keeper:secret@{host}", tmp_path / "archive")
        done = treedb("archive", "--uri", f"mongodb://reader:secret@{host}", tmp_path / "other")
        assert done.returncode == 1 and "not authorized on local" in done.stderr and not list((tmp_path / "other").iterdir())
    finally:
        server.stop()


def test_an_encrypted_backup_is_brought_forward_with_its_key(tmp_path):
    key = tmp_path / "key"
    key.write_text("0123456789abcdef" * 4)
    with serving(tmp_path / "data", "--change-log", "on", "--key-file", str(key)) as (server, client):
        client.d.c.insert_one({"_id": 1})
        client.admin.command("backupTo", str(tmp_path / "backup"))
        client.d.c.insert_one({"_id": 2})
        succeeds("archive", "--uri", server.uri, tmp_path / "archive")
        expected = everything(client)
    succeeds("restore", tmp_path / "backup", "--dir", tmp_path / "to", "--key-file", key, "--oplog-file", tmp_path / "archive")
    with serving(tmp_path / "to", "--key-file", str(key)) as (_, client):
        assert everything(client) == expected
