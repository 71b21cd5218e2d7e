"""The load: writers that note what they are about to ask for, ask, and note the answer.

Every document and value is a function of its key and its version, so that one which is there in part is seen to be.
A writer has keys of its own and waits for an answer before it touches a key again.
"""
import random

from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.errors import ConnectionFailure
from pymongo.operations import SearchIndexModel
from pymongo.write_concern import WriteConcern

import native

#: Lengths of a text; the longest ones do not fit into a page.
LENGTHS = [3, 20, 20, 100, 100, 400, 900, 1500, 6000]
#: Documents that a writer keeps, about; and values.
KEPT = 100
NAMESPACE = "load.docs"
TABLE = "load"
#: Indexes that come and go: name, keys, unique.
INDEXES = {
    "n_1": ([("n", 1)], False),
    "w_1_v_-1": ([("w", 1), ("v", -1)], False),
    "list": ([("a.c", 1)], False),
    "unique": ([("w", 1), ("_id", 1)], True),
}
#: A vector index that comes and goes.
NEAR = "near"
DIMENSIONS = 8
NEAR_DEFINITION = {"fields": [{"type": "vector", "path": "e", "numDimensions": DIMENSIONS, "similarity": "euclidean"}]}


def text(version):
    return (f"{version}-" * 6000)[:LENGTHS[version * 7 % len(LENGTHS)]]


def group_of(key):
    return key.split(".")[0]


def random_vector(rng):
    """Elements that floats of 32 bits hold exactly."""
    return [rng.randrange(-64, 65) / 64 for _ in range(DIMENSIONS)]


def vector(group, version):
    return random_vector(random.Random(f"{group} {version}"))


def fields(group, version):
    """What an update sets: everything that depends on the version, the same for all documents of a group."""
    return {"v": version, "n": version * 3, "s": text(version), "a.b": version, "a.c": [version, group],
            "e": vector(group, version)}


def document(key, version):
    group = group_of(key)
    return {"_id": key, "w": key.split("-")[0], "g": group, "v": version, "n": version * 3, "s": text(version),
            "a": {"b": version, "c": [version, group]}, "e": vector(group, version)}


def value(key, version):
    return f"{key}={version}={text(version)}".encode()


class Writer:
    """What writers have in common: names, versions and what they believe to be there."""

    def __init__(self, name, seed, journal):
        self.name = name
        self.rng = random.Random(f"{seed} {name}")
        self.journal = journal
        self.groups = 0
        self.version = 0
        self.docs = {}  # key -> version
        self.values = {}
        self.failures = []

    def run(self, server):
        """Writes until the server is gone. An error that the server answers with is a failure, and so is one of the writer."""
        try:
            self.work(server)
        except (ConnectionFailure, OSError):
            pass
        except Exception as error:
            self.failures.append(f"{self.name}: {error!r}")

    def settle(self, settled):
        """Takes over what is there after a kill."""
        def mine(prefix):
            return {key[len(prefix):]: version for key, version in settled.items()
                    if version is not None and key.startswith(f"{prefix}{self.name}-")}
        self.docs, self.values = mine("docs/"), mine("kv/")

    def note(self, door, changes):
        """Notes in the file that `changes` are being tried. Returns what :meth:`done` takes."""
        return self.journal.trying({f"{door}/{key}": version for key, version in changes.items()}), door, changes

    def done(self, noted, how):
        """Notes that they were acknowledged."""
        number, door, changes = noted
        self.journal.acknowledged(number, how)
        kept = self.docs if door == "docs" else self.values
        for key, version in changes.items():
            if version is None:
                kept.pop(key, None)
            else:
                kept[key] = version

    def next_version(self):
        self.version += 1
        return self.version

    def new_keys(self, count):
        """Keys of a new group."""
        self.groups += 1
        return [f"{self.name}-{self.groups}.{i}" for i in range(count)]

    def pick(self, kept, busy=()):
        keys = [key for key in kept if group_of(key) not in busy]
        return self.rng.choice(keys) if keys else None

    def group(self, key):
        return [other for other in self.docs if group_of(other) == group_of(key)]

    def kind(self, kept, weights):
        """One of the kinds, by weight; deleting where there is much, inserting where there is little."""
        if len(kept) > KEPT or len(kept) < KEPT // 4:
            wanted = "delete" if len(kept) > KEPT else "insert"
            weights = {kind: weight for kind, weight in weights.items() if kind.startswith(wanted)}
        return self.rng.choices(list(weights), weights.values())[0]


class MongoWriter(Writer):
    """Through PyMongo, one request after the other."""

    KINDS = {"insert": 3, "insert_group": 2, "update": 5, "update_group": 2, "increment": 2, "replace": 2, "upsert": 1,
             "bulk": 2, "delete": 2, "delete_group": 1}
    CONCERNS = [("durable", WriteConcern(w=1)), ("durable", WriteConcern(w="majority", j=True)),
                ("relaxed", WriteConcern(w=1, j=False)), ("relaxed", WriteConcern(w=1, j=False))]

    def work(self, server):
        docs = server.load_client.get_database("load").docs
        doors = [(how, docs.with_options(write_concern=concern)) for how, concern in self.CONCERNS]
        while True:
            how, door = self.rng.choice(doors)
            kind = self.kind(self.docs, self.KINDS)
            if kind == "bulk":
                self.bulk(how, door)
            else:
                changes, ask = getattr(self, kind)(door, self.pick(self.docs), self.next_version())
                noted = self.note("docs", changes)
                ask()
                self.done(noted, how)

    def insert(self, docs, _, version):
        key, = self.new_keys(1)
        return {key: version}, lambda: docs.insert_one(document(key, version))

    def insert_group(self, docs, _, version):
        keys = self.new_keys(self.rng.randrange(2, 16))
        return dict.fromkeys(keys, version), lambda: docs.insert_many([document(key, version) for key in keys])

    def update(self, docs, key, version):
        change = {"$set": fields(group_of(key), version)}
        return {key: version}, lambda: matched(docs.update_one({"_id": key}, change), 1)

    def update_group(self, docs, key, version):
        keys, change = self.group(key), {"$set": fields(group_of(key), version)}
        return (dict.fromkeys(keys, version),
                lambda: matched(docs.update_many({"g": group_of(key)}, change), len(keys)))

    def increment(self, docs, key, version):
        change, by = fields(group_of(key), version), version - self.docs[key]
        del change["v"], change["n"]
        change = {"$inc": {"v": by, "n": 3 * by}, "$set": change}
        return {key: version}, lambda: matched(docs.update_one({"_id": key}, change), 1)

    def replace(self, docs, key, version):
        return {key: version}, lambda: matched(docs.replace_one({"_id": key}, document(key, version)), 1)

    def upsert(self, docs, _, version):
        key, = self.new_keys(1)
        rest = document(key, version)
        del rest["_id"]
        return {key: version}, lambda: docs.update_one({"_id": key}, {"$set": rest}, upsert=True)

    def delete(self, docs, key, _):
        return {key: None}, lambda: deleted(docs.delete_one({"_id": key}), 1)

    def delete_group(self, docs, key, _):
        keys = self.group(key)
        return dict.fromkeys(keys), lambda: deleted(docs.delete_many({"g": group_of(key)}), len(keys))

    def bulk(self, how, docs):
        """Several statements in one command: each is all or nothing, and all of them are acknowledged at once."""
        noted, requests, busy = [], [], set()
        for _ in range(self.rng.randrange(2, 10)):
            version, key = self.next_version(), self.pick(self.docs, busy)
            kind = "insert" if key is None else self.rng.choice(["insert", "update", "update", "delete"])
            if kind == "insert":
                key, = self.new_keys(1)
                requests.append(InsertOne(document(key, version)))
            elif kind == "update":
                requests.append(UpdateOne({"_id": key}, {"$set": fields(group_of(key), version)}))
            else:
                requests.append(DeleteOne({"_id": key}))
            busy.add(group_of(key))
            noted.append(self.note("docs", {key: None if kind == "delete" else version}))
        docs.bulk_write(requests, ordered=self.rng.random() < 0.5)
        for each in noted:
            self.done(each, how)


def matched(result, count):
    assert result.matched_count == count, f"{result} for {count} documents"


def deleted(result, count):
    assert result.deleted_count == count, f"{result} for {count} documents"


class NativeWriter(Writer):
    """Through the native door: up to eight requests at a time, answered in any order."""

    KINDS = {"insert": 3, "update": 5, "update_group": 2, "delete": 3}
    FLAGS = [("durable", native.DEFAULT), ("durable", native.DURABLE), ("relaxed", native.RELAXED)]

    def work(self, server):
        connection = native.Native(server.addresses["native"])
        try:
            while True:
                # An answer may come before any other: only one request at a time for each group.
                busy, waiting = set(), {}
                for _ in range(self.rng.randrange(1, 9)):
                    how, flags = self.rng.choice(self.FLAGS)
                    ask = self.documents if self.rng.random() < 0.6 else self.entries
                    number, noted = ask(connection, flags, busy)
                    busy.update(group_of(key) for key in noted[2])
                    waiting[number] = noted, how
                while waiting:
                    number, _ = connection.answer()
                    self.done(*waiting.pop(number))
        finally:
            connection.close()

    def documents(self, connection, flags, busy):
        version, key = self.next_version(), self.pick(self.docs, busy)
        kind = self.kind(self.docs, self.KINDS) if key else "insert"
        if kind == "insert":
            keys = self.new_keys(self.rng.choice([1, 1, 5]))
            noted = self.note("docs", dict.fromkeys(keys, version))
            return connection.insert(NAMESPACE, [document(key, version) for key in keys], flags), noted
        if kind == "delete":
            noted = self.note("docs", {key: None})
            return connection.delete(NAMESPACE, {"_id": key}, flags), noted
        change, keys, query = {"$set": fields(group_of(key), version)}, [key], {"_id": key}
        if kind == "update_group":
            keys, query, flags = self.group(key), {"g": group_of(key)}, flags | native.MULTI
        noted = self.note("docs", dict.fromkeys(keys, version))
        return connection.update(NAMESPACE, query, change, flags), noted

    def entries(self, connection, flags, busy):
        version, key = self.next_version(), self.pick(self.values, busy)
        kind = self.kind(self.values, {"insert": 2, "put": 4, "batch": 3, "delete": 3}) if key else "insert"
        if kind == "insert":
            key, = self.new_keys(1)
        if kind == "delete":
            noted = self.note("kv", {key: None})
            return connection.kv_delete(TABLE, key.encode(), flags), noted
        if kind == "batch":
            others = [other for other in self.values if group_of(other) not in busy]
            changes = dict.fromkeys(self.rng.sample(others, min(len(others), 8)), version)
            changes |= dict.fromkeys(self.new_keys(3), version) | {key: None}
            noted = self.note("kv", changes)
            batch = {k.encode(): None if v is None else value(k, v) for k, v in changes.items()}
            return connection.kv_batch(TABLE, batch, flags), noted
        noted = self.note("kv", {key: version})
        return connection.kv_put(TABLE, key.encode(), value(key, version), flags), noted


class Builder(Writer):
    """Creates and drops indexes and collections, and makes checkpoints."""

    def __init__(self, *args):
        super().__init__(*args)
        self.indexes = set()
        self.collections = set()

    def settle(self, settled):
        there = {key for key, version in settled.items() if version is not None}
        self.indexes = {name for name in [*INDEXES, NEAR] if f"index/{name}" in there}
        self.collections = {key.split("/")[1] for key in there if key.startswith("collection/")}

    def work(self, server):
        client = server.load_client
        docs, extra = client.get_database("load").docs, client.get_database("extra")
        while True:
            kind = self.rng.choice(["index", "index", "index", "collection", "checkpoint"])
            if kind == "index":
                name = self.rng.choice([*INDEXES, NEAR])
                drop, create = self.statements(docs, name)
                if name in self.indexes:
                    self.tried(self.indexes, "index", name, None, drop)
                else:
                    self.tried(self.indexes, "index", name, 1, create)
            elif kind == "collection":
                name = f"c{self.rng.randrange(4)}"
                if name in self.collections:
                    self.tried(self.collections, "collection", name, None, lambda: extra.drop_collection(name))
                else:
                    self.tried(self.collections, "collection", name, 1, lambda: extra.create_collection(name))
            else:
                client.admin.command("fsync")

    def statements(self, docs, name):
        """What drops and what creates an index."""
        if name == NEAR:
            model = SearchIndexModel(NEAR_DEFINITION, name=NEAR, type="vectorSearch")
            return lambda: docs.drop_search_index(NEAR), lambda: docs.create_search_index(model)
        keys, unique = INDEXES[name]
        return lambda: docs.drop_index(name), lambda: docs.create_index(keys, name=name, unique=unique)

    def tried(self, kept, door, name, version, ask):
        number = self.journal.trying({f"{door}/{name}": version})
        ask()
        self.journal.acknowledged(number, "durable")
        (kept.discard if version is None else kept.add)(name)
