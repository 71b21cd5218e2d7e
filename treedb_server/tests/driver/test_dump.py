"""Dumps in the layout of mongodump, read and written by PyMongo's own BSON library, and JSON and CSV through a server."""
import datetime
import gzip
import json
import os
import socket
import struct
import subprocess
import threading

import bson
import pytest
import bson.raw_bson
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp, json_util
from bson.codec_options import CodecOptions

from pymongo.operations import SearchIndexModel

from server import BIN, Locked, Server

CANONICAL = json_util.CANONICAL_JSON_OPTIONS

ODD = {
    "_id": ObjectId("0123456789abcdef01234567"), "int": 1, "long": Int64(1), "double": 1.0, "text": "\0 é \"", "none": None,
    "date": datetime.datetime(2026, 1, 2, 3, 4, 5, 6000), "bytes": b"\0\1", "uuid": Binary(b"0" * 16, 4), "re": Regex("^a", "im"),
    "code": Code("f()"), "ts": Timestamp(5, 6), "dec": Decimal128("1.50"), "min": MinKey(), "max": MaxKey(),
    "ref": DBRef("x", 1), "list": [1, [2, {}], []], "nested": {"a": {"b": {"$c": 1}}},
}


def treedb(*args):
    return subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=120)


def fill(db):
    db.create_collection("odd", validator={"none": {"$type": "null"}}, validationLevel="moderate")
    db.odd.insert_one(ODD)
    db.create_collection("capped", capped=True, size=100_000, max=7)
    db.capped.insert_many([{"_id": i} for i in range(9)])
    db.many.insert_many([{"_id": i, "year": 1990 + i % 7, "name": f"n{i % 50}", "text": "x" * 300} for i in range(2500)])
    db.many.create_index([("year", 1), ("name", -1)], name="by year", partialFilterExpression={"year": {"$gt": 1991}})
    db.many.create_index("name", collation={"locale": "de", "strength": 2})
    db.many.create_index("gone", expireAfterSeconds=5000, sparse=True)
    db["a/b c%é"].insert_one({"_id": 1})
    db.create_collection("empty")
    db.create_collection("old", viewOn="many", pipeline=[{"$match": {"year": {"$lt": 1992}}}])


def everything(db):
    """Options, indexes and documents of each collection."""
    found = {}
    for info in db.list_collections():
        name = info["name"]
        indexes = [] if info["type"] == "view" else sorted(db[name].list_indexes(), key=lambda index: index["name"])
        found[name] = (info["type"], info["options"], indexes, list(db[name].find()))
    return found


@pytest.mark.parametrize("zipped", [False, True])
def test_a_dump_is_read_by_bson_and_restored_as_it_was(server, client, db, tmp_path, zipped):
    fill(db)
    before = everything(db)
    done = treedb("dump", "--uri", server.uri, "--only", db.name, tmp_path, *(["--gzip"] if zipped else []))
    assert done.returncode == 0, done.stderr
    folder, end = tmp_path / db.name, ".gz" if zipped else ""
    assert {path.name for path in folder.iterdir()} == {
        f"{name}{part}{end}" for name in ("odd", "capped", "many", "a%2Fb%20c%25%C3%A9", "empty", "old")
        for part in (".bson", ".metadata.json") if (name, part) != ("old", ".bson")}
    opened = gzip.open if zipped else open
    with opened(folder / f"odd.bson{end}", "rb") as file:
        assert list(bson.decode_file_iter(file)) == [ODD]
    with opened(folder / f"many.bson{end}", "rb") as file:
        assert list(bson.decode_file_iter(file)) == before["many"][3]
    with opened(folder / f"many.metadata.json{end}", "rb") as file:
        metadata = json_util.loads(file.read())
    assert metadata["collectionName"] == "many" and metadata["type"] == "collection" and len(metadata["uuid"]) == 32
    assert sorted(metadata["indexes"], key=lambda index: index["name"]) == before["many"][2]
    client.drop_database(db.name)
    done = treedb("restore", tmp_path, "--uri", server.uri)
    assert done.returncode == 0, done.stderr
    assert everything(db) == before
    # A second time every document is there already; with --drop it is not.
    done = treedb("restore", tmp_path, "--uri", server.uri, "--only", f"{db.name}.many")
    assert done.returncode == 1 and "E11000" in done.stderr and "and 2480 more failures" in done.stderr
    done = treedb("restore", tmp_path, "--uri", server.uri, "--drop")
    assert done.returncode == 0 and everything(db) == before


def test_a_dump_goes_from_a_server_into_a_directory_and_back(server, client, db, tmp_path):
    fill(db)
    before = everything(db)
    steps = [
        ("dump", "--uri", server.uri, "--only", db.name, tmp_path / "first"),
        ("restore", tmp_path / "first", "--dir", tmp_path / "data"),
        ("check", "--dir", tmp_path / "data"),
        ("dump", "--dir", tmp_path / "data", tmp_path / "second", "--gzip"),
    ]
    for step in steps:
        done = treedb(*step)
        assert done.returncode == 0, (step, done.stderr)
    client.drop_database(db.name)
    done = treedb("restore", tmp_path / "second", "--uri", server.uri)
    assert done.returncode == 0, done.stderr
    assert everything(db) == before


def test_a_dump_that_another_program_wrote_is_restored(server, db, tmp_path):
    folder = tmp_path / db.name
    folder.mkdir()
    documents = [ODD, {"_id": 2, "x": "y" * 1_000_000}]
    (folder / "things.bson").write_bytes(b"".join(map(bson.encode, documents)))
    metadata = {"options": {}, "indexes": [
        {"v": 2, "key": {"_id": 1}, "name": "_id_", "ns": f"{db.name}.things"},
        {"v": 2, "unique": True, "key": {"x": 1}, "name": "x_1", "ns": f"{db.name}.things", "background": True},
        {"v": 2, "key": {"y": "columnstore"}, "name": "unknown"},
    ], "uuid": "0" * 32}
    (folder / "things.metadata.json").write_text(json_util.dumps(metadata, json_options=CANONICAL))
    (folder / "bare.bson").write_bytes(bson.encode({"_id": 1}))
    (tmp_path / "oplog.bson").write_bytes(b"")
    (tmp_path / "prelude.json").write_text("{}")
    done = treedb("restore", tmp_path, "--uri", server.uri)
    # The index that does not exist is told; everything else is there.
    assert done.returncode == 1 and "index unknown" in done.stderr, done.stderr
    assert list(db.things.find(sort=[("_id", 1)])) == [documents[1], documents[0]]
    made = db.things.index_information()["x_1"]
    assert (made["unique"], made["background"]) == (True, True)
    assert list(db.bare.find()) == [{"_id": 1}]


def test_a_damaged_dump_is_an_error_with_its_place(server, db, tmp_path):
    folder = tmp_path / db.name
    folder.mkdir()
    (folder / "cut.bson").write_bytes(bson.encode({"_id": 1}) + bson.encode({"_id": 2})[:-1])
    done = treedb("restore", tmp_path, "--uri", server.uri)
    assert done.returncode == 1 and "cut.bson: a document that is cut at byte 14" in done.stderr, done.stderr
    done = treedb("restore", folder, "--uri", server.uri)
    assert done.returncode == 1 and "name the directory above" in done.stderr


def test_who_may_not_list_search_indexes_is_told_that_they_are_left_out(tmp_path):
    server = Locked(tmp_path / "data", native=True)
    password = tmp_path / "clerk.password"
    password.write_text("secret\n")
    with server.as_user() as root:
        root.shop.films.insert_many([{"_id": n, "v": [1.0, n], "year": n} for n in range(3)])
        root.shop.films.create_index("year", name="by year")
        near = {"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean"}]}
        root.shop.films.create_search_index(SearchIndexModel(near, name="near", type="vectorSearch"))
        reads = ["find", "listIndexes", "listCollections", "collStats"]
        resource = {"db": "shop", "collection": ""}
        root.shop.command("createRole", "clerk", roles=[], privileges=[{"resource": resource, "actions": reads}])
        root.shop.command("createRole", "all", roles=["clerk"], privileges=[{"resource": resource, "actions": ["listSearchIndexes"]}])
        for name in ("clerk", "all"):
            root.admin.command("createUser", name, pwd="secret", roles=[{"role": name, "db": "shop"}])
    indexes, documents = tmp_path / "films.indexes", tmp_path / "films.jsonl"
    metadata = tmp_path / "dump/shop/films.metadata.json"
    export = ("export", "shop.films", documents, "--indexes", indexes)
    for user, names, status in (("all", ["by year", "near"], 0), ("clerk", ["by year"], 1)):
        by_drivers, who = ("--uri", server.uri), ("--user", user, "--password-file", password)
        by_native = ("--native", native_of(server))
        for command in ((*export, *by_drivers), (*export, *by_native), ("dump", tmp_path / "dump", "--only", "shop", *by_drivers)):
            indexes.unlink(missing_ok=True)
            done = treedb(*command, *who)
            told = "treedb: shop.films: its search indexes are left out" in done.stderr and "listSearchIndexes" in done.stderr
            assert (done.returncode, told) == (status, status == 1), done.stderr
            if command[0] == "export":
                assert sorted(json.loads(line)["name"] for line in indexes.read_text().splitlines()) == names
        assert len(documents.read_text().splitlines()) == 3
        dumped = json_util.loads(metadata.read_text())
        found = dumped["indexes"] + dumped.get("treedbSearchIndexes", [])
        assert sorted(index["name"] for index in found if index["name"] != "_id_") == names
        assert not (tmp_path / "dump/dump.unfinished").exists()
    server.stop()


def test_a_server_without_search_indexes_is_exported_and_with_other_errors_of_listing_them_all_but_these_is(tmp_path):
    server = Server(tmp_path / "data", "--enable-test-commands")
    with server.client() as client:
        client.shop.films.insert_one({"_id": 1})
        client.shop.films.create_index("year", name="by year")
        for code, status in ((31082, 0), (40324, 0), (59, 0), (304, 0), (8000, 1)):
            fails = {"failCommands": ["aggregate"], "errorCode": code}
            client.admin.command({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": fails})
            indexes = tmp_path / f"indexes{code}"
            done = treedb("export", "shop.films", tmp_path / "films.jsonl", "--indexes", indexes, "--uri", server.uri)
            assert done.returncode == status and ("failCommand" in done.stderr) == (status == 1), done.stderr
            assert ("its search indexes are left out" in done.stderr) == (status == 1)
            assert [json.loads(line)["name"] for line in indexes.read_text().splitlines()] == ["by year"]
    server.stop()


@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_of_a_dump_that_is_cut_anywhere_is_an_error(server, db, tmp_path, zipped):
    folder = tmp_path / db.name
    folder.mkdir()
    documents = [bson.encode({"_id": i, "text": os.urandom(5)}) for i in range(2)]
    whole = gzip.compress(b"".join(documents)) if zipped else b"".join(documents)
    between = set() if zipped else {len(b"".join(documents[:n])) for n in range(3)}
    for end in range(0, len(whole), 3 if zipped else 1):
        (folder / f"cut.bson{'.gz' if zipped else ''}").write_bytes(whole[:end])
        done = treedb("restore", tmp_path, "--uri", server.uri, "--drop")
        assert (done.returncode == 0) == (end in between) and (end in between or "cut.bson" in done.stderr), (end, done.stderr)


#: Writes down the calls that make files durable, and can end the process after one of them.
OBSERVER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void note(const char *what, const char *path, const char *to) {
    static int calls;
    int log = open(getenv("OBSERVED"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dprintf(log, "%s\t%s\t%s\n", what, path, to);
    close(log);
    const char *last = getenv("LAST_CALL");
    if (last && ++calls == atoi(last)) _exit(86);
}

int fsync(int fd) {
    char link[64], path[4096];
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int done = real(fd);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    note("fsync", path, "");
    return done;
}

int rename(const char *from, const char *to) {
    int (*real)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    int done = real(from, to);
    note("rename", from, to);
    return done;
}

int unlink(const char *path) {
    int (*real)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "unlink");
    int done = real(path);
    note("unlink", path, "");
    return done;
}
"""


@pytest.fixture(scope="module")
def observer(tmp_path_factory):
    """Runs the program and returns what it did to make its files durable, in order; only up to the call `last` if that is given."""
    folder = tmp_path_factory.mktemp("observer")
    (folder / "observer.c").write_text(OBSERVER)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", folder / "observer.so", folder / "observer.c", "-ldl"], check=True)

    def run(*args, last=None):
        log = folder / "calls"
        log.write_text("")
        environment = {**os.environ, "LD_PRELOAD": str(folder / "observer.so"), "OBSERVED": str(log)}
        if last:
            environment["LAST_CALL"] = str(last)
        done = subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == (86 if last else 0), done.stderr
        return [tuple(line.split("\t")) for line in log.read_text().splitlines()]

    return run


def assert_durable(calls, folder, files):
    """Each file was on disk before it got its name, and its name afterwards."""
    for file in files:
        [(at, temporary)] = [(at, call[1]) for at, call in enumerate(calls) if call[0] == "rename" and call[2] == str(file)]
        assert ("fsync", temporary, "") in calls[:at] and ("fsync", str(folder), "") in calls[at:], (file, calls)


def test_an_export_is_on_disk_when_the_command_ends(native, observer, tmp_path):
    with native.client() as client:
        client.shop.many.insert_many([{"_id": i} for i in range(3)])
    files = [tmp_path / "many.jsonl", tmp_path / "many.indexes"]
    calls = observer("export", "shop.many", files[0], "--indexes", files[1], "--native", native_of(native))
    assert_durable(calls, tmp_path, files)
    assert files[0].read_text() == '{"_id":0}\n{"_id":1}\n{"_id":2}\n'
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_a_dump_that_was_interrupted_anywhere_is_not_restored(server, client, db, observer, tmp_path):
    db.a.insert_many([{"_id": i} for i in range(3)])
    db.b.insert_one({"_id": 1})
    db.b.create_index("x")
    to = tmp_path / "new/to"
    dump = ("dump", "--uri", server.uri, "--only", db.name, to)
    calls = observer(*dump)
    folder = to / db.name
    files = [folder / f"{name}{part}" for name in "ab" for part in (".bson", ".metadata.json")]
    assert_durable(calls, folder, files)
    for above, created in [(to, folder), (to.parent, to), (tmp_path, to.parent)]:
        assert ("fsync", str(above), "") in calls, f"the name of {created}"
    marker = to / "dump.unfinished"
    [removed] = [at for at, call in enumerate(calls) if call[:2] == ("unlink", str(marker))]
    assert [call[:2] for call in calls[removed + 1:]] == [("fsync", str(to))]
    assert calls.index(("fsync", str(marker), "")) < min(at for at, call in enumerate(calls) if call[0] == "rename")
    # Over the earlier dump, which it makes useless until it is complete.
    db.b.drop_index("x_1")
    db.b.insert_one({"_id": 2})
    again = observer(*dump)
    removed = next(at for at, call in enumerate(again) if call[:2] == ("unlink", str(marker)))
    for last in range(1, len(again) + 1):
        observer(*dump, last=last)
        done = treedb("restore", to, "--uri", server.uri, "--drop")
        if last <= removed:
            assert done.returncode == 1 and f"{marker}: this dump was interrupted" in done.stderr, (last, done.stderr)
        else:
            assert done.returncode == 0 and list(db.b.find()) == [{"_id": 1}, {"_id": 2}], (last, done.stderr)
    # What there is can still be had.
    observer(*dump, last=2)
    marker.unlink()
    assert treedb("restore", to, "--uri", server.uri, "--drop").returncode == 0


def test_what_cannot_be_dumped_or_restored_is_told(server, db, tmp_path):
    for args, status, message in [
        (("dump", "--uri", server.uri, "--only", "nosuch", tmp_path), 1, "there is nothing called nosuch"),
        (("dump", "--dir", tmp_path / "none", tmp_path / "to"), 1, "contains no database"),
        (("dump", tmp_path), 2, "--dir <DIR>|--uri"),
        (("restore", tmp_path / "none", "--uri", server.uri), 1, "a backup becomes a directory"),
        (("restore", tmp_path / "none", "--dir", tmp_path / "to", "--drop"), 1, "are for dumps"),
    ]:
        done = treedb(*args)
        assert done.returncode == status and message in done.stderr, (args, done.stderr)


def test_the_bytes_of_documents_are_kept(server, client, db, tmp_path):
    """Field order and kinds of numbers, which comparing documents does not show."""
    raw = db.get_collection("raw", codec_options=CodecOptions(document_class=bson.raw_bson.RawBSONDocument))
    raw.insert_many([bson.raw_bson.RawBSONDocument(bson.encode(ODD)), bson.raw_bson.RawBSONDocument(bson.encode({"_id": 2, "b": 1, "a": 2}))])
    before = [document.raw for document in raw.find()]
    assert treedb("dump", "--uri", server.uri, "--only", f"{db.name}.raw", tmp_path).returncode == 0
    assert (tmp_path / db.name / "raw.bson").read_bytes() == b"".join(before)
    assert treedb("restore", tmp_path, "--uri", server.uri, "--drop").returncode == 0
    assert [document.raw for document in raw.find()] == before
    assert json.loads((tmp_path / db.name / "raw.metadata.json").read_text())["collectionName"] == "raw"


@pytest.mark.parametrize("first", [["--gzip"], []])
def test_a_dump_replaces_one_into_the_same_folder_compressed_or_not(server, client, db, tmp_path, first):
    second = [] if first else ["--gzip"]
    db.c.insert_one({"_id": 1})
    db.c.create_index("old")
    db.becomes_a_view.insert_one({"_id": 1})
    dump = ("dump", "--uri", server.uri, "--only", db.name, tmp_path)
    assert treedb(*dump, *first).returncode == 0
    db.c.replace_one({"_id": 1}, {"_id": 1, "now": True})
    db.c.drop_indexes()
    db.becomes_a_view.drop()
    db.create_collection("becomes_a_view", viewOn="c", pipeline=[])
    before = everything(db)
    assert treedb(*dump, *second).returncode == 0
    end = "" if first else ".gz"
    assert {path.name for path in (tmp_path / db.name).iterdir()} == {
        f"c.bson{end}", f"c.metadata.json{end}", f"becomes_a_view.metadata.json{end}"}
    client.drop_database(db.name)
    done = treedb("restore", tmp_path, "--uri", server.uri)
    assert done.returncode == 0 and everything(db) == before, done.stderr


def test_a_collection_of_two_dumps_is_not_restored_and_the_user_is_told_what_to_do(server, client, db, tmp_path):
    folder = tmp_path / db.name
    folder.mkdir()
    (folder / "c.bson").write_bytes(bson.encode({"_id": "new"}))
    (folder / "c.bson.gz").write_bytes(gzip.compress(bson.encode({"_id": "old"})))
    (folder / "other.bson").write_bytes(bson.encode({"_id": 1}))
    done = treedb("restore", tmp_path, "--uri", server.uri)
    assert done.returncode == 1 and "are of two dumps: remove" in done.stderr and "c.bson.gz" in done.stderr, done.stderr
    assert db.list_collection_names() == [], "nothing is restored before that is known"
    done = treedb("restore", tmp_path, "--uri", server.uri, "--only", f"{db.name}.other")
    assert done.returncode == 0 and db.list_collection_names() == ["other"], done.stderr


@pytest.mark.parametrize("zipped", [False, True])
def test_collections_with_the_longest_names_are_dumped_and_restored(server, client, tmp_path, zipped):
    db = client["long_names"]
    client.drop_database(db.name)
    for name in ["x" * 230, "x" * 240, "é" * 80, "é" * 79 + "è"]:
        db[name].insert_one({"_id": name})
        db[name].create_index("a")
    before = everything(db)
    done = treedb("dump", "--uri", server.uri, "--only", db.name, tmp_path, *(["--gzip"] if zipped else []))
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / db.name).iterdir())) == 8, "and no temporary file"
    client.drop_database(db.name)
    done = treedb("restore", tmp_path, "--uri", server.uri)
    assert done.returncode == 0 and everything(db) == before, done.stderr
    client.drop_database(db.name)


@pytest.fixture
def native(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("native"), native=True)
    yield server
    assert server.stop() == 0


def native_of(server):
    return "{}:{}".format(*server.addresses["native"])


def test_an_export_may_have_the_longest_name_of_a_file(native, tmp_path):
    with native.client() as client:
        client.d.c.insert_one({"_id": 1})
    to = tmp_path / ("x" * 255)
    done = treedb("export", "d.c", to, "--native", native_of(native))
    assert done.returncode == 0 and to.read_text() == '{"_id":1}\n', done.stderr
    assert list(tmp_path.iterdir()) == [to]


def test_a_view_is_exported_like_a_collection(native, tmp_path):
    with native.client() as client:
        client.d.c.insert_many([{"_id": i} for i in range(5)])
        client.d.create_collection("v", viewOn="c", pipeline=[{"$match": {"_id": {"$gt": 2}}}])
    indexes, server = tmp_path / "indexes", native_of(native)
    done = treedb("export", "d.v", "--native", server, "--indexes", indexes)
    assert done.returncode == 0 and done.stdout == '{"_id":3}\n{"_id":4}\n' and indexes.read_text() == "", done.stderr
    done = treedb("export", "d.none", "--native", server)
    assert done.returncode == 1 and "there is no collection" in done.stderr


@pytest.mark.parametrize("zipped", [False, True])
def test_buckets_of_a_time_series_are_told_as_what_was_not_restored(server, db, tmp_path, zipped):
    folder, end = tmp_path / db.name, ".gz" if zipped else ""
    folder.mkdir()
    pack = gzip.compress if zipped else bytes
    options = {"timeseries": {"timeField": "at", "granularity": "seconds", "bucketMaxSpanSeconds": 3600}}
    for name in ("weather", "quiet"):
        metadata = json_util.dumps({"options": options, "indexes": [], "collectionName": name, "type": "timeseries"},
                                   json_options=CANONICAL)
        (folder / f"{name}.metadata.json{end}").write_bytes(pack(metadata.encode()))
    bucket = {"_id": ObjectId(), "control": {"version": 1}, "data": {"at": {"0": datetime.datetime(2026, 1, 1)}}}
    (folder / f"system.buckets.weather.bson{end}").write_bytes(pack(bson.encode(bucket)))
    (folder / f"system.buckets.quiet.bson{end}").write_bytes(pack(b""))
    (folder / f"plain.bson{end}").write_bytes(pack(bson.encode({"_id": 1})))
    done = treedb("restore", tmp_path, "--uri", server.uri, "--only", f"{db.name}.plain")
    assert done.returncode == 0, done.stderr
    for only in ([], ["--only", f"{db.name}.weather"]):
        done = treedb("restore", tmp_path, "--uri", server.uri, "--drop", *only)
        assert done.returncode == 1 and f"{db.name}.weather: " in done.stderr and "treedb dump --uri" in done.stderr, done.stderr
        assert "quiet" not in done.stderr
    assert db.plain.count_documents({}) == 1


class Impostor(threading.Thread):
    """A server that has one collection, called as it likes."""

    def __init__(self, database, collection):
        super().__init__(daemon=True)
        self.names = database, collection
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"mongodb://127.0.0.1:{self.listener.getsockname()[1]}"

    def reply(self, command):
        database, collection = self.names
        answers = {
            "listDatabases": {"databases": [{"name": database}]},
            "listCollections": {"cursor": {"id": Int64(0), "ns": "x", "firstBatch": [{"name": collection, "options": {}}]}},
            "listIndexes": {"cursor": {"id": Int64(0), "ns": "x", "firstBatch": []}},
            "find": {"cursor": {"id": Int64(0), "ns": "x", "firstBatch": [{"_id": 1}]}},
            "count": {"n": 1},
        }
        name = next(iter(command))
        if name not in answers:
            return {"ok": 0.0, "code": 59, "errmsg": f"no such command: '{name}'"}
        return {**answers[name], "ok": 1.0}

    def run(self):
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb") as stream:
            while head := stream.read(16):
                length, number, _, _ = struct.unpack("<iiii", head)
                body = stream.read(length - 16)
                answer = b"\0" * 5 + bson.encode(self.reply(bson.decode(body[5:])))
                connection.sendall(struct.pack("<iiii", 16 + len(answer), 1, number, 2013) + answer)


@pytest.mark.parametrize("database, collection, message", [
    ("..", "c", "Invalid database name '..'"),
    (".", "c", "Invalid database name '.'"),
    ("a", "c$d", "Invalid collection name 'c$d'"),
    ("a", "", "Invalid collection name ''"),
])
def test_a_dump_writes_nothing_outside_of_its_folder_whatever_a_server_calls_its_databases(tmp_path, database, collection, message):
    impostor = Impostor(database, collection)
    impostor.start()
    done = treedb("dump", "--uri", impostor.uri, tmp_path / "in/to")
    assert done.returncode == 1 and message in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_dump_of_what_another_server_says_is_written(tmp_path):
    """That what the tests above refuse are the names."""
    impostor = Impostor("a", "c")
    impostor.start()
    done = treedb("dump", "--uri", impostor.uri, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a/c.bson").read_bytes() == bson.encode({"_id": 1})
