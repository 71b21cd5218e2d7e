"""Random calls on a collection with indexes of every kind, against documents in Python's memory.

    scripts/pg_twin.sh --documents [CALLS] [SEED..]

Documents are inserted, updated, replaced and deleted one by one and many at once, in transactions that are rolled back now and then, or
to a savepoint. Every question is answered by the indexes, by the table alone (`$natural`), and by a few lines of Python that know
what the filters mean. The nearest vectors are compared with all vectors, the nearest locations with all locations. Now and then another session cancels a call, or ends its
backend, at a random moment; Python's documents change if and only if the transaction was committed.
"""
import copy
import json
import math
import random
import sys
import threading
import time

import psycopg

from cluster import Cluster

CALLS = 1500
KEPT = [1, 1795687111]
# With more documents than this, deletes are larger.
MANY = 400
INDEXES = [("k", '{"k": 1, "_id": -1}', "{}"), ("a", '{"a": 1, "k": 1}', "{}"), ("u", '{"u": 1}', '{"unique": true}'), ("p", '{"o.p": -1}', '{"sparse": true}'),
           ("part", '{"s": 1}', '{"partialFilterExpression": {"k": {"$gt": 20}}}'), ("wild", '{"o.$**": 1}', "{}"), ("hash", '{"s": "hashed"}', "{}"),
           ("globe", '{"g": "2dsphere"}', "{}"), ("globe of k", '{"k": 1, "g": "2dsphere", "u": -1}', "{}"), ("plane", '{"h": "2d", "k": 1}', '{"min": -20, "max": 20}')]
RADIUS = 6378100.0


def path(document, name):
    for part in name.split("."):
        if not isinstance(document, dict) or part not in document:
            return None
        document = document[part]
    return document


def compared(value, operator, with_value):
    """A comparison of MongoDB's, as far as it is used here: values of other types do not match."""
    def one(element):
        if operator == "$eq":
            return type(element) is type(with_value) and element == with_value
        if type(element) is not type(with_value):
            return False
        return {"$gt": element > with_value, "$gte": element >= with_value, "$lt": element < with_value, "$lte": element <= with_value}[operator]
    return any(one(element) for element in value) if isinstance(value, list) else value is not None and one(value)


def spots(value):
    """The pairs of a location, or of several in an array."""
    if isinstance(value, dict):
        return [value["coordinates"]]
    if not value:
        return []
    return [value] if isinstance(value[0], (int, float)) else [pair for one in value for pair in spots(one)]


def distance(value, metric, center):
    """That of the nearest of the locations in a value, on the sphere in metres; None if there is none."""
    def apart(spot):
        if metric == "plane":
            return math.dist(spot, center)
        (lng, lat), (to_lng, to_lat) = ([math.radians(degrees) for degrees in pair] for pair in (spot, center))
        h = math.sin((to_lat - lat) / 2) ** 2 + math.cos(lat) * math.cos(to_lat) * math.sin((to_lng - lng) / 2) ** 2
        return 2 * RADIUS * math.asin(min(1.0, math.sqrt(h)))
    return min(map(apart, spots(value)), default=None)


def is_within(spot, region):
    (kind, operand), = region.items()
    if kind == "$box":
        return all(operand[0][at] <= spot[at] <= operand[1][at] for at in (0, 1))
    center, radius = operand
    return distance(spot, "plane", center) <= radius if kind == "$center" else distance(spot, "sphere", center) <= radius * RADIUS


def matches(document, question):
    for name, wanted in question.items():
        if name in ("$or", "$and"):
            if not {"$or": any, "$and": all}[name](matches(document, part) for part in wanted):
                return False
            continue
        value = path(document, name)
        for operator, operand in (wanted.items() if isinstance(wanted, dict) else [("$eq", wanted)]):
            if operator == "$in":
                good = any(compared(value, "$eq", element) for element in operand)
            elif operator == "$nin":
                good = not any(compared(value, "$eq", element) for element in operand)
            elif operator == "$exists":
                good = (value is not None) == operand
            elif operator == "$size":
                good = isinstance(value, list) and len(value) == operand
            elif operator == "$geoWithin":
                good = any(is_within(spot, operand) for spot in spots(value))
            elif operator == "$elemMatch":
                good = isinstance(value, list) and any(all(compared(element, *part) for part in operand.items()) for element in value)
            else:
                good = compared(value, operator, operand)
            if not good:
                return False
    return True


def updated(document, update):
    document = copy.deepcopy(document)
    for operator, fields in update.items():
        for name, value in fields.items():
            *above, last = name.split(".")
            place = document
            for part in above:
                place = place.setdefault(part, {})
            if operator == "$set":
                place[last] = value
            elif operator == "$inc":
                place[last] = place.get(last, 0) + value
            elif operator == "$unset":
                place.pop(last, None)
            elif operator == "$push":
                place.setdefault(last, []).append(value)
            elif operator == "$pull" and last in place:
                place[last] = [element for element in place[last] if element != value or type(element) is not type(value)]
    return document


class Documents:
    def __init__(self, cluster, seed):
        self.seed, self.random, self.cluster, self.name = seed, random.Random(seed), cluster, f"d{seed}"
        # Whatever is about locations draws from numbers of its own: the seeds that are kept do what they did before there were any.
        self.places = random.Random(-seed)
        self.number, self.model, self.open = 0, {}, None
        self.cancelled = self.ended = self.survived = self.duplicates = self.near = self.near_found = self.asked = self.located = 0
        self.called = set()
        self.db, self.third = self.connect(), self.connect()
        # With every other seed a validator, which nothing violates: the server's trigger is then called for each row.
        options = '{"validator": {"u": {"$gte": 0}, "a": {"$not": {"$size": 99}}}}' if seed % 2 else "{}"
        self.db.execute("SELECT treedb.create_collection(%s, %s::text::treedb.bson)", (self.name, options))
        for name, keys, options in INDEXES:
            self.db.execute("SELECT treedb.create_index(%s, %s::text::treedb.bson, %s::text::treedb.bson)", (self.name, keys, json.dumps({**json.loads(options), "name": f"{self.name} {name}"})))
        self.db.execute("SELECT treedb.create_search_index(%s, '{\"fields\": [{\"type\": \"vector\", \"path\": \"e\", \"numDimensions\": 3, \"similarity\": \"euclidean\"}]}', '{\"name\": \"near\"}')", (self.name,))

    def connect(self):
        session = self.cluster.connect()
        session.execute("SET client_min_messages = error; SET jit = off; SET max_parallel_workers_per_gather = 0")
        return session

    # What is called: the name, arguments after the collection, and Python's documents afterwards.

    def document(self):
        r = self.random
        self.number += 1
        document = {"_id": self.number, "u": self.number * 10}
        if r.random() < .9:
            document["k"] = r.randint(0, 60)
        if r.random() < .9:
            document["a"] = [r.choice((r.randint(0, 12), r.choice("xyz"))) for _ in range(r.choice((0, 1, 2, 4)))]
        if r.random() < .5:
            document["o"] = {"p": r.randint(0, 20)}
        document["s"] = r.choice(("", "long " * 60, "s")) + str(r.randint(0, 99))
        if r.random() < .8:
            document["e"] = [r.randint(-50, 50), r.randint(-50, 50), r.randint(-9, 9)]
        for name in "gh":
            if self.places.random() < .8:
                document[name] = self.place(name)
        return document

    def spot(self):
        return [self.places.randint(-20, 20), self.places.randint(-20, 20)]

    def place(self, name):
        """A location on the sphere (g) or in the plane (h), or several."""
        r = self.places
        kinds = [self.spot, lambda: [self.spot() for _ in range(r.randint(0, 3))]]
        if name == "g":
            kinds += 2 * [lambda: {"type": "Point", "coordinates": self.spot()}] + [lambda: [{"type": "Point", "coordinates": self.spot()} for _ in range(r.randint(1, 3))]]
        return r.choice(kinds)()

    def change(self):
        """An update that keeps `_id` and `u`."""
        r = self.random
        return r.choice(({"$set": {"k": r.randint(0, 60)}}, {"$inc": {"k": r.randint(-3, 9)}}, {"$unset": {"k": ""}}, {"$push": {"a": r.randint(0, 12)}}, {"$pull": {"a": r.choice((3, "x", 7))}},
                         {"$set": {"o.p": r.randint(0, 20)}}, {"$set": {"e": [r.randint(-50, 50), r.randint(-50, 50), r.randint(-9, 9)]}}, {"$unset": {"e": ""}},
                         {"$set": {"s": f"s{r.randint(0, 99)}", "a": [r.randint(0, 12), "z"]}}, {"$set": {"n": r.randint(0, 5)}, "$inc": {"o.q": 1}}))

    def question(self, depth=1):
        r = self.random
        kind = r.randint(0, 12 if depth else 10)
        low = r.randint(-2, 60)
        if kind == 0:
            return {"k": low}
        if kind == 1:
            return {"k": {r.choice(("$gt", "$gte")): low, r.choice(("$lt", "$lte")): low + r.choice((1, 5, 40))}}
        if kind == 2:
            return {"a": r.choice((r.randint(0, 12), "x"))}
        if kind == 3:
            return {"a": {r.choice(("$gt", "$lte")): r.choice((r.randint(0, 12), "y"))}, "k": {"$lt": low}}
        if kind == 4:
            return {"a": {"$elemMatch": {"$gte": r.randint(0, 9), "$lt": r.randint(4, 13)}}}
        if kind == 5:
            return {"u": r.choice((r.randint(0, self.number) * 10, {"$gt": self.number * 9}))}
        if kind == 6:
            return {"o.p": r.choice((r.randint(0, 20), {"$lt": r.randint(0, 20)}))}
        if kind == 7:
            return {"s": f"s{r.randint(0, 99)}"}
        if kind == 8:
            return {r.choice(("k", "o.p", "a")): {r.choice(("$in", "$in", "$nin")): [r.randint(0, 20) for _ in range(r.randint(0, 5))]}}
        if kind == 9:
            return r.choice(({"k": {"$exists": False}}, {"a": {"$size": r.randint(0, 4)}}, {"k": {"$gt": 25}, "s": {"$gte": "s5"}}, {"n": 3}))
        if kind == 10:
            return {"_id": r.choice((r.randint(0, self.number), {"$in": [r.randint(0, self.number) for _ in range(4)]}, {"$gt": self.number - 20}))}
        return {r.choice(("$or", "$and")): [self.question(0), self.question(0)]}

    def some(self):
        return self.random.choice(list(self.model)) if self.model and self.random.random() < .95 else 0

    def write(self):
        """A call that writes: its name, its arguments, the documents after it, and what it returns, or part of that, if it is known."""
        r, model = self.random, dict(self.model)
        kind = r.random()
        if kind < .3:
            new = [self.document() for _ in range(r.choice((1, 5, 40)))]
            model.update({document["_id"]: document for document in new})
            if len(new) == 1:
                return "insert_one", new, model, None
            return "insert_many", [new], model, len(new)
        one = self.some()
        if kind < .55:
            # Few of them by the indexes, many now and then.
            question, change = (self.question(), self.change()) if r.random() < .8 else ({"k": {"$lt": r.randint(10, 60)}}, self.change())
            new = {i: updated(document, change) for i, document in model.items() if matches(document, question)}
            model.update(new)
            return "update_many", [question, change], model, {"matchedCount": len(new)}
        if kind < .65:
            change = self.change()
            if one in model:
                model[one] = updated(model[one], change)
            return r.choice(("update_one", "find_one_and_update")), [{"_id": one}, change], model, None
        if kind < .7:
            self.number += 1
            change = {"$set": {"k": r.randint(0, 60), "u": self.number * 10}}
            model[self.number] = updated({"_id": self.number}, change)
            return "update_one", [{"_id": self.number}, change, {"upsert": True}], model, None
        if kind < .75:
            replacement = {**self.document(), "_id": one}
            if one in model:
                model[one] = replacement
            return r.choice(("replace_one", "find_one_and_replace")), [{"_id": one}, replacement], model, None
        if kind < .8:
            model.pop(one, None)
            return r.choice(("delete_one", "find_one_and_delete")), [{"_id": one}], model, None
        if kind < .9:
            question = {"k": {"$lt": r.randint(5, 40)}} if len(model) > MANY else self.question()
            gone = [i for i, document in model.items() if matches(document, question)]
            for i in gone:
                del model[i]
            return "delete_many", [question], model, len(gone)
        operations, counts = [], {"insertedCount": 0, "matchedCount": 0, "deletedCount": 0}
        for _ in range(r.choice((1, 4, 12))):
            one, how = self.some(), r.randint(0, 4)
            if how == 0:
                new = self.document()
                model[new["_id"]] = new
                operations.append({"insertOne": {"document": new}})
                counts["insertedCount"] += 1
            elif how == 1:
                question, change = self.question(), self.change()
                changed = {i: updated(document, change) for i, document in model.items() if matches(document, question)}
                model.update(changed)
                operations.append({"updateMany": {"filter": question, "update": change}})
                counts["matchedCount"] += len(changed)
            elif how == 2:
                change = self.change()
                if one in model:
                    model[one] = updated(model[one], change)
                operations.append({"updateOne": {"filter": {"_id": one}, "update": change}})
                counts["matchedCount"] += one in model
            elif how == 3:
                counts["deletedCount"] += model.pop(one, None) is not None
                operations.append({"deleteOne": {"filter": {"_id": one}}})
            else:
                new = {**self.document(), "_id": one}
                if one in model:
                    model[one] = new
                operations.append({"replaceOne": {"filter": {"_id": one}, "replacement": new}})
                counts["matchedCount"] += one in model
        return "bulk_write", [operations], model, counts

    def call(self, name, arguments, session=None):
        """The rows that a function returns."""
        types = {"insert_many": ["treedb.bson[]"], "update_many": ["treedb.bson", "treedb.bson_value", "treedb.bson"], "update_one": ["treedb.bson", "treedb.bson_value", "treedb.bson"],
                 "find_one_and_update": ["treedb.bson", "treedb.bson_value"], "bulk_write": ["treedb.bson_value"], "aggregate": ["treedb.bson_value"], "distinct": ["text", "treedb.bson"]}
        kinds = types.get(name, ["treedb.bson"] * len(arguments))
        texts = [[json.dumps(part) for part in argument] if kind.endswith("[]") else argument if kind == "text" else json.dumps(argument) for kind, argument in zip(kinds, arguments, strict=False)]
        marks = "".join(f", %s::text[]::{kind}" if kind.endswith("[]") else f", %s::text::{kind}" for kind, _ in zip(kinds, arguments, strict=False))
        self.called.add(name)
        return [row for row, in (session or self.db).execute(f"SELECT x::text FROM treedb.{name}(%s{marks}) x", (self.name, *texts))]

    def step_write(self):
        name, arguments, model, returns = self.write()
        before = self.model
        found = self.call(name, arguments)
        self.model = model
        if isinstance(returns, dict):
            shown = json.loads(found[0])
            assert returns.items() <= shown.items() and "writeErrors" not in shown, f"{name}{arguments}: {shown}, not {returns}"
        elif returns is not None:
            assert found == [str(returns)], f"{name}{arguments}: {found}, not {returns}"
        if name.startswith("find_one_and"):
            old = before.get(arguments[0]["_id"])
            shown = json.loads(found[0]) if found and found[0] else None
            assert shown == old, f"{name}{arguments}: {shown}, not {old}"

    def step_duplicate(self):
        """A document, or an update, with a value that a unique index has already."""
        if self.open is not None or len(self.model) < 2:
            return
        one, other = self.random.sample(list(self.model), 2)
        name, arguments = self.random.choice((("insert_one", [{**self.document(), "u": self.model[one]["u"]}]), ("insert_one", [{**self.document(), "_id": one}]),
                                              ("update_one", [{"_id": other}, {"$set": {"u": self.model[one]["u"], "k": 1}}]),
                                              ("insert_many", [[self.document(), {**self.document(), "u": self.model[one]["u"]}]])))
        try:
            self.call(name, arguments)
        except psycopg.errors.UniqueViolation:
            self.duplicates += 1
            return
        raise AssertionError(f"{name}{arguments}: a second document with the same value")

    def step_disturbed(self):
        """A call that writes and is cancelled, or whose backend is ended, while it runs."""
        r = self.random
        if self.open is not None:
            return
        ends, after = r.random() < .4, r.random() ** 2 * .02
        statement = f"SELECT pg_{'terminate' if ends else 'cancel'}_backend(%s{', 10000' if ends else ''})"
        name, arguments, model, _ = self.write()
        self.db.execute("BEGIN")
        transaction, = self.db.execute("SELECT pg_current_xact_id()::text").fetchone()
        thread = threading.Thread(target=lambda pid: (time.sleep(after), self.third.execute(statement, (pid,))), args=(self.db.info.backend_pid,))
        thread.start()
        told = None
        try:
            self.call(name, arguments)
            self.db.execute("COMMIT")
        except (psycopg.errors.QueryCanceled, psycopg.OperationalError) as error:
            told = error
        thread.join()
        for last in ("ROLLBACK", "SELECT 1"):
            try:
                # A cancel that came late hits one of these.
                self.db.execute(last)
            except psycopg.errors.QueryCanceled:
                pass
            except psycopg.OperationalError as error:
                told = told or error
        assert not self.db.closed or ends, f"a cancelled call ended its session: {told}: {name}{arguments}"[:600]
        if self.db.closed:
            self.db = self.connect()
        self.cancelled += told is not None and not ends
        self.ended += told is not None and ends
        self.survived += told is None
        if self.third.execute("SELECT pg_xact_status(%s::xid8)", (transaction,)).fetchone() == ("committed",):
            self.model = model
        self.check()

    def step_transaction(self):
        r = self.random
        if self.open is None:
            self.db.execute("BEGIN ISOLATION LEVEL " + r.choice(("READ COMMITTED", "REPEATABLE READ")))
            self.open = self.model
        elif r.random() < .4:
            self.db.execute("SAVEPOINT s")
            before = self.model
            self.step_write()
            self.db.execute("ROLLBACK TO s")
            self.model = before
        else:
            ends = r.choice(("COMMIT", "ROLLBACK"))
            self.db.execute(ends)
            if ends == "ROLLBACK":
                self.model = self.open
            self.open = None

    def step_maintenance(self):
        if self.open is None:
            self.db.execute(self.random.choice((f"VACUUM {self.name}", f"VACUUM (INDEX_CLEANUP ON) {self.name}", f"ANALYZE {self.name}", f"REINDEX TABLE {self.name}", f"CREATE INDEX {self.name}_new ON {self.name}"
                                                f" USING treedb_btree (doc); DROP INDEX {self.name}_new")))

    def step_find(self):
        r = self.random
        question = self.question()
        found = [document for document in self.model.values() if matches(document, question)]
        kind = r.random()
        self.asked += 1
        if kind < .25:
            same(self.call("count", [question]), [str(len(found))], f"count {question}")
            return
        if kind < .4:
            values = {json.dumps(document["k"]) for document in found if "k" in document}
            same(set(self.call("distinct", ["k", question])), values, f"distinct k, {question}")
            return
        if kind < .5:
            groups = {}
            for document in found:
                groups[document.get("k")] = groups.get(document.get("k"), 0) + 1
            rows = [json.loads(row) for row in self.call("aggregate", [[{"$match": question}, {"$group": {"_id": "$k", "n": {"$sum": 1}}}]])]
            same({row["_id"]: row["n"] for row in rows}, groups, f"groups of {question}")
            return
        options, places = {}, lambda document: document["_id"]
        if r.random() < .6:
            way = r.choice((1, -1))
            options["sort"] = {"k": way, "_id": -way}
            places = lambda document: ((document.get("k") is not None, document.get("k") or 0), -document["_id"])  # noqa: E731
            found.sort(key=places, reverse=way < 0)
            if r.random() < .6:
                skip, limit = r.choice((0, 0, 3)), r.randint(1, 9)
                options.update(skip=skip, limit=limit)
                found = found[skip:skip + limit]
        ways = [options, {**options, "hint": "$natural"}]
        for way in ways:
            shown = [json.loads(row) for row in self.call("find", [question, way])]
            if "sort" not in options:
                shown, found = sorted(shown, key=places), sorted(found, key=places)
            if shown != found:
                self.explain(shown, found, question, way)

    def explain(self, shown, found, question, way):
        """Raises an error that tells a wrong answer of a find from a write before it that went wrong."""
        shown, found = ({document["_id"]: document for document in documents} for documents in (shown, found))
        others = {i: (shown[i], found[i]) for i in shown.keys() & found.keys() if shown[i] != found[i]}
        plan, = self.call("explain", [question, way]) if self.open is None else ["in a transaction"]
        raise AssertionError(f"find {question} {way}: {sorted(found.keys() - shown.keys())} missing, {sorted(shown.keys() - found.keys())} too many, other documents {others}, or in another order; {plan}")

    def region(self):
        """A filter by a region, whose border no location is on."""
        r = self.places
        (x, y), size = self.spot(), r.choice((1, 4, 12, 50)) + .37
        area = r.choice((lambda: {"$centerSphere": [[x, y], math.radians(size)]}, lambda: {"$center": [[x, y], size]}, lambda: {"$box": [[x - size, y - size], [x + size / 2, y + size]]}))()
        question = {"g" if "$centerSphere" in area else r.choice("hhhg"): {"$geoWithin": area}}
        if r.random() < .4:
            question["k"] = r.choice((r.randint(0, 60), {"$in": [r.randint(0, 60) for _ in range(5)]}, {"$lt": r.randint(0, 60)}))
        return question

    def step_located(self):
        """A question about locations, or a change of some."""
        r, self.located = self.places, self.located + 1
        question, kind = self.region(), r.random()
        if kind < .2:
            name = r.choice("gh")
            change = r.choice(({"$set": {name: self.place(name)}}, {"$unset": {name: ""}}, {"$set": {"o.q": r.randint(0, 9)}}))
            self.call("update_many", [question, change])
            self.model = {i: updated(document, change) if matches(document, question) else document for i, document in self.model.items()}
            return
        if kind < .5:
            found = [document for document in self.model.values() if matches(document, question)]
            same(self.call("count", [question]), [str(len(found))], f"count {question}")
            for options in ({}, {"hint": "$natural"}):
                shown = {document["_id"]: document for document in map(json.loads, self.call("find", [question, options]))}
                same(shown, {document["_id"]: document for document in found}, f"find {question} {options}")
            rows = self.db.execute(f"SELECT doc OPERATOR(treedb.->>) '_id' FROM {self.name} WHERE doc OPERATOR(treedb.@@) %s::text::treedb.bson", (json.dumps(question),))
            same(sorted(int(i) for i, in rows), sorted(document["_id"] for document in found), f"@@ {question}")
            return
        # By distance.
        name, most, limit, center = r.choice("gh"), r.choice((1, 5, 90)) + .37, r.choice((1, 4, 30)), self.spot()
        metric = "sphere" if name == "g" else "plane"
        unit = math.radians(RADIUS) if name == "g" else 1.0
        point = {"type": "Point", "coordinates": center} if name == "g" else center
        near = {name: {"$near": {"$geometry": point, "$maxDistance": most * unit}} if name == "g" else {"$near": point, "$maxDistance": most}}
        other = r.choice(({}, {"k": r.randint(0, 60)}, {"k": {"$lt": r.randint(0, 60)}}))
        far = {i: distance(document.get(name), metric, center) for i, document in self.model.items() if matches(document, other)}
        far = {i: away for i, away in far.items() if away is not None and away <= most * unit}
        nearest = sorted(far.values())

        def check(ids, what):
            same(len(set(ids)), len(ids), f"documents that {what} finds twice")
            same(len(ids), min(limit, len(nearest)), f"how many {what} finds")
            assert all(i in far and abs(far[i] - away) < 1e-3 for i, away in zip(ids, nearest, strict=False)), f"{what}: {[far.get(i) for i in ids]}, not {nearest[:limit]}"

        if kind < .8:
            check([json.loads(row)["_id"] for row in self.call("find", [{**near, **other}, {"limit": limit}])], f"find {near} {other}")
        elif kind < .9:
            stage = {"near": point, "distanceField": "far", "query": other, "maxDistance": most * unit, "key": name}
            found = [json.loads(row) for row in self.call("aggregate", [[{"$geoNear": stage}, {"$limit": limit}]])]
            check([document["_id"] for document in found], f"$geoNear {stage}")
            assert all(abs(document["far"] - far[document["_id"]]) < 1e-3 for document in found), f"distances of $geoNear {stage}"
        else:
            limit, change = 1, {"$set": {"o.q": r.randint(0, 9), name: self.place(name)}}
            ids = [json.loads(row)["_id"] for row in self.call("find_one_and_update", [{**near, **other}, change]) if row]
            check(ids, f"find_one_and_update {near} {other}")
            for i in ids:
                self.model = {**self.model, i: updated(self.model[i], change)}

    def step_nearest(self):
        r = self.random
        near, limit = [r.randint(-50, 50), r.randint(-50, 50), r.randint(-9, 9)], r.choice((1, 5, 20))
        question = r.choice(({}, {"k": {"$lt": r.randint(0, 60)}}, {"a": r.randint(0, 12)}))
        distances = sorted(sum((a - b) ** 2 for a, b in zip(document["e"], near, strict=True)) ** .5 for document in self.model.values() if "e" in document and matches(document, question))[:limit]
        for options in ('{"exact": true}', "{}"):
            found = [distance for distance, in self.db.execute("SELECT distance FROM treedb.vector_search(%s, 'near', %s::real[], %s, %s::text::treedb.bson, %s::text::treedb.bson)",
                                                               (self.name, near, limit, json.dumps(question), options))]
            same(len(found), len(distances), f"how many are nearest to {near}, {question}, {options}")
            # The server computes with 32 bits.
            if "exact" in options:
                assert all(abs(a - b) < 1e-3 for a, b in zip(found, distances, strict=True)), f"the nearest to {near}, {question}: {found} and {distances}"
            else:
                self.near_found, self.near = self.near_found + sum(distance < distances[-1] + 1e-3 for distance in found), self.near + len(found)

    def check(self):
        problems = self.third.execute("SELECT treedb.check(%s)", (self.name,)).fetchall() if self.open is None else []
        assert not problems, problems[:5]
        shown = {document["_id"]: document for document in (json.loads(row) for row, in self.db.execute(f"SELECT doc::text FROM {self.name}"))}
        if shown != self.model:
            other = [i for i in shown.keys() | self.model.keys() if shown.get(i) != self.model.get(i)]
            raise AssertionError(f"{len(other)} documents are others: {[(shown.get(i), self.model.get(i)) for i in other[:3]]}")

    def run(self, calls):
        weighted = 45 * [self.step_write] + 40 * [self.step_find] + 8 * [self.step_nearest] + 6 * [self.step_transaction] + 3 * [self.step_duplicate] + 5 * [self.step_disturbed] + 2 * [self.step_maintenance]
        for number in range(calls):
            # Which calls a disturbance cuts off is up to time; what the later ones are is not.
            self.random = random.Random(f"{self.seed} {number}")
            self.random.choice(weighted)()
            if self.places.random() < .3:
                self.step_located()
            if number % 100 == 99:
                self.check()
        if self.open is not None:
            self.db.execute("COMMIT")
            self.open = None
        self.check()
        if calls >= CALLS:
            assert self.cancelled + self.ended and self.duplicates, f"{self.cancelled} calls were cancelled, {self.ended} backends ended in one, {self.duplicates} duplicates refused"
            assert self.near_found >= .95 * self.near, f"the index found {self.near_found} of the {self.near} nearest vectors"
            missed = {"insert_one", "insert_many", "update_one", "update_many", "replace_one", "delete_one", "delete_many", "bulk_write", "find_one_and_update", "find_one_and_replace",
                      "find_one_and_delete", "find", "count", "distinct", "aggregate"} - self.called
            assert not missed, f"not called: {missed}"
        self.db.execute("SELECT treedb.drop_collection(%s)", (self.name,))
        self.db.close()
        self.third.close()
        return (f"{len(self.called)} functions, {self.asked} questions, {self.located} about locations, {self.near_found} of the {self.near} nearest vectors, {self.duplicates} duplicates refused, {self.cancelled} cancelled,"
                f" {self.ended} ended, {self.survived} too late")


def same(left, right, what):
    assert left == right, f"{what}: {left} and {right}"


def main():
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    seeds = [int(seed) for seed in sys.argv[2:]] or [*KEPT, int(time.time())]
    passed = failed = 0
    cluster = Cluster().create()
    try:
        for seed in seeds:
            started = time.monotonic()
            try:
                told = Documents(cluster, seed).run(calls)
                passed += 1
                print(f"seed {seed}: ok, {calls} calls, {told}, {time.monotonic() - started:.1f} s", flush=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, the seed repeats it
                failed += 1
                print(f"seed {seed} (KEPT has those that found something): {type(error).__name__}: {str(error)[:1500]}", flush=True)
    finally:
        cluster.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
