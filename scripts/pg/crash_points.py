#!/usr/bin/env python3
"""A backend that dies at each fault point of the extension: scripts/pg_crash.sh --points [POINT..]

`SET treedb.crash = 'leaf_split'` kills the backend, as `kill -9` does, right behind the change that the point is named for,
with its log on disk. The server ends all sessions and recovers, comparing each page that it restores with the page as it was
(wal_consistency_checking = all). Then:

* the tables have the rows of the statements that were acknowledged, and no others;
* treedb.check() finds nothing, every row of the table has its entries, and so does every graph of vectors;
* an ordered scan of each index, forward and backward, answers what a sequential scan and a sort answer;
* a collection's indexes, one of them into arrays and one unique, find the documents that its table has;
* all of it once more after further changes, which finish what the death left undone.

The points are those of the sources: one that nothing here comes to is a failure. Each is come to ROUNDS times, the later times
with what the earlier ones have left behind. Work that is done in pieces dies at its first, in the middle of them and at its last: what is left of it is done by
the next writer, or by the next vacuum. `TREEDB_SEED` repeats a run.
"""
import contextlib
import math
import os
import random
import re
import sys
import time

import psycopg

from claims import check, lines, one, same
from cluster import ROOT, Cluster

ROUNDS = 3
STEPS = 1000
# Without wal_log_hints the server's own check stops a recovery: the record that a page of a table is visible to all has no image of it then, and where
# the table was dropped or cut short later, the page that it is compared with has never been written.
SETTINGS = ["wal_consistency_checking = 'all'", "wal_log_hints = on", "max_wal_size = 4GB", "autovacuum = off", "max_parallel_workers_per_gather = 0"]

# Entries in packed leaves, in nodes by the order of bytes, and by a collation, in grouped leaves; keys that make branches of few children.
ROWS = """
CREATE TABLE t (id int, k int, n int, v text, w text) WITH (fillfactor = 100);
CREATE INDEX t_k ON t USING treedb_btree (k);
CREATE INDEX t_n ON t USING treedb_btree (n, k);
CREATE INDEX t_v ON t USING treedb_btree (v COLLATE "C");
CREATE INDEX t_w ON t USING treedb_btree (w COLLATE "C");
CREATE INDEX t_alike ON t USING treedb_btree (lpad(left(v,2),300) COLLATE "en-x-icu");
CREATE INDEX t_icu ON t USING treedb_btree (v COLLATE "en-x-icu" DESC, id);
SELECT treedb.create_collection('c'), treedb.create_index('c', '{"a": 1, "b": -1}'), treedb.create_index('c', '{"u": 1}', '{"unique": true}');
"""
ORDERS = {"t_k": "k", "t_n": "n, k", "t_v": 'v COLLATE "C"', "t_w": 'w COLLATE "C"', "t_alike": 'lpad(left(v,2),300) COLLATE "en-x-icu"', "t_icu": 'v COLLATE "en-x-icu" DESC, id'}
QUESTIONS = ['{"a": 3}', '{"a": {"$gte": 5, "$lt": 9}}', '{"a": 2, "b": {"$gt": 100}}', '{"u": {"$lt": 300}}', '{"u": 77}']

# Vectors in their nodes, with codes of their neighbours, as bits, on pages of their own, and several of a row.
VECTORS = "CREATE TABLE t (id int, e real[], f real[], b bit(40), s real[])"
GRAPHS = {
    name: f"CREATE INDEX {name} ON t USING treedb_hnsw ({column}) WITH ({options}m = 8, ef_construction = 40)"
    for name, column, options in (("t_e", "e", "dimensions = 3, "), ("t_f", "f treedb.real_cosine_ops", "dimensions = 70, "), ("t_b", "b treedb.bit_hamming_ops", ""),
                                  ("t_l", "f treedb.real_l1_ops", "dimensions = 70, "), ("t_s", "s", "dimensions = 2, "))
}
NEAREST = {"t_e": ("e OPERATOR(treedb.<->) %s::real[]", 3), "t_f": ("f OPERATOR(treedb.<=>) %s::real[]", 70), "t_b": ("b OPERATOR(treedb.<~>) %s::bit(40)", 0),
           "t_l": ("f OPERATOR(treedb.<+>) %s::real[]", 70), "t_s": ("s OPERATOR(treedb.<->) %s::real[]", 2)}

# Vectors that are much alike: in their nodes, and on pages of their own, as codes of 8 bits.
ALIKE = "CREATE TABLE t (id int, f real[])"
GRAPHS_ALIKE = {
    "t_f": "CREATE INDEX t_f ON t USING treedb_hnsw (f treedb.real_cosine_ops) WITH (dimensions = 500, m = 8)",
    "t_g": "CREATE INDEX t_g ON t USING treedb_hnsw (f treedb.real_ip_ops) WITH (dimensions = 500, m = 64)",
}
NEAREST_ALIKE = {"t_f": ("f OPERATOR(treedb.<=>) %s::real[]", 500), "t_g": ("f OPERATOR(treedb.<#>) %s::real[]", 500)}


class Rows:
    """A table with indexes of treedb_btree and a collection, and what they must have."""

    schema, tables = ROWS, ("t", "c")

    def __init__(self, dice):
        self.dice, self.number = dice, 0
        self.rows, self.documents = {}, {}

    def next_round(self, db):
        pass

    def finish(self, db, point):
        """Does what a death at a point has left undone, if it is to be seen that it is done."""

    def insert(self, db):
        rows = dict(self.rows)
        for _ in range(self.dice.choice((1, 4, 12))):
            self.number += 1
            text = f"{self.dice.randrange(60):03d}" + "y" * self.dice.choice((5, 400, 700)) + str(self.dice.randrange(10**9))
            rows[self.number] = (self.dice.randrange(2000), self.dice.randrange(9), text, self.long_text())
        new = [(i, *row) for i, row in rows.items() if i not in self.rows]
        db.execute("INSERT INTO t SELECT * FROM unnest(%s::int[], %s::int[], %s::int[], %s::text[], %s::text[])", [list(part) for part in zip(*new, strict=True)])
        self.rows = rows

    def long_text(self):
        """Mostly 3 to 20 KB that an index has to compress, some of which differ at their ends alone; sometimes a short one."""
        if self.dice.random() < .3:
            return f"{self.dice.randrange(60):03d}"
        piece = f"{random.Random(self.dice.randrange(20)).getrandbits(2400):0600x}"[:self.dice.choice((20, 300, 600))]
        return piece * (self.dice.randrange(3000, 20000) // len(piece)) + str(self.dice.randrange(10**9))

    def insert_documents(self, db):
        documents = dict(self.documents)
        for _ in range(self.dice.choice((1, 4, 12))):
            self.number += 1
            elements = [self.dice.randrange(12), "x" * self.dice.choice((1, 300, 600)) + str(self.dice.randrange(10**9)), self.dice.randrange(12)]
            documents[self.number] = (elements, self.dice.randrange(1000))
        texts = [f'{{"_id": {i}, "a": {str(a).replace(chr(39), chr(34))}, "b": {b}, "u": {i}}}' for i, (a, b) in documents.items() if i not in self.documents]
        db.execute("SELECT treedb.insert_many('c', ARRAY(SELECT d::treedb.bson FROM unnest(%s::text[]) d))", (texts,))
        self.documents = documents

    def update(self, db):
        """Other versions of rows: their entries in the indexes of unchanged columns have the same keys."""
        chosen = self.dice.sample(sorted(self.rows), min(len(self.rows), 60))
        db.execute("UPDATE t SET n = n + 1 WHERE id = ANY (%s)", (chosen,))
        self.rows.update({i: (k, n + 1, v, w) for i in chosen for k, n, v, w in (self.rows[i],)})

    def delete(self, db):
        """Rows that are neighbours in an index."""
        column = self.dice.choice((0, 2, 3))
        ordered = sorted(self.rows, key=lambda i: self.rows[i][column])
        start = self.dice.randrange(max(1, len(ordered)))
        chosen = ordered[start:start + self.dice.choice((3, 40, 150))]
        db.execute("DELETE FROM t WHERE id = ANY (%s)", (chosen,))
        self.rows = {i: row for i, row in self.rows.items() if i not in set(chosen)}

    def delete_documents(self, db):
        chosen = self.dice.sample(sorted(self.documents), len(self.documents) // 3)
        db.execute("SELECT treedb.delete_many('c', %s::text::treedb.bson)", (f'{{"_id": {{"$in": {chosen}}}}}',))
        self.documents = {i: document for i, document in self.documents.items() if i not in set(chosen)}

    def scan(self, db):
        """Scans that come across dead entries and mark them."""
        with only(db, "indexscan"):
            order = self.dice.choice(list(ORDERS.values()))
            db.execute(f"SELECT count(v) FROM (SELECT * FROM t ORDER BY {order}) x")

    def vacuum(self, db):
        db.execute(f"VACUUM (INDEX_CLEANUP ON, PARALLEL 0) {self.dice.choice(('t', 'c'))}")

    def compare(self, db):
        have = {i: (k, n, v, w) for i, k, n, v, w in db.execute("SELECT * FROM t")}
        same(len(have), one(db, "SELECT count(*) FROM t"), "rows with different numbers")
        check(have == self.rows, f"rows: {len(self.rows.keys() - have.keys())} are lost, {len(have.keys() - self.rows.keys())} were not acknowledged,"
                                 f" {len([i for i in have if i in self.rows and have[i] != self.rows[i]])} are others")
        found = {int(i) for i, in db.execute("SELECT doc OPERATOR(treedb.->>) '_id' FROM c")}
        same(found, set(self.documents), "documents")
        for index, order in ORDERS.items():
            for way in (order, reverse(order)):
                query = f"SELECT count(*), md5(string_agg(x::text, ',')) FROM (SELECT {columns(order)} FROM t ORDER BY {way}) x"
                with only(db, "seqscan", "sort"):
                    by_table = lines(db, query)
                with only(db, "indexscan", "indexonlyscan"):
                    check(index in "\n".join(lines(db, "EXPLAIN " + query)), f"not by {index}: {way}")
                    same(lines(db, query), by_table, f"ORDER BY {way}, by index and by table")
        for question in QUESTIONS:
            answers = [sorted(lines(db, "SELECT d::text FROM treedb.find('c', %s, %s) d", (question, options))) for options in ("{}", '{"hint": "$natural"}')]
            same(answers[0], answers[1], f"{question} by index and by table")


class Vectors:
    """A table with indexes of treedb_hnsw. The first of them comes to a point before the others do: each round it is another one."""

    tables, table, graphs, nearest, digits = ("t",), VECTORS, GRAPHS, NEAREST, 3
    # The share of the nearest rows that a search by an index finds at least, if it is not .9, with so many candidates.
    least, candidates = {}, 100

    def __init__(self, dice):
        self.dice, self.number, self.rows = dice, 0, set()
        self.order = dice.sample(sorted(self.graphs), len(self.graphs))
        self.schema = "; ".join([self.table, *(self.graphs[name] for name in self.order)])

    def next_round(self, db):
        first, *others = self.order
        self.order = [*others, first]
        db.execute(f"DROP INDEX {first}; {self.graphs[first]}")

    def finish(self, db, point):
        pass

    def insert(self, db):
        new = list(range(self.number + 1, self.number + 1 + self.dice.choice((1, 3, 8))))
        self.number = new[-1]
        r = self.dice
        values = [(i, [r.uniform(-9, 9) for _ in range(3)], [r.gauss(i % 7, 1) for _ in range(70)], f"{r.getrandbits(40):040b}",
                   [[r.uniform(-9, 9), r.uniform(-9, 9)] for _ in range(r.choice((1, 2, 4)))]) for i in new]
        db.cursor().execute("INSERT INTO t VALUES " + ", ".join(["(%s, %s, %s, %s::bit(40), %s)"] * len(values)), [part for row in values for part in row])
        self.rows |= set(new)

    def delete(self, db):
        chosen = self.dice.sample(sorted(self.rows), len(self.rows) // 4)
        db.execute("DELETE FROM t WHERE id = ANY (%s)", (chosen,))
        self.rows -= set(chosen)

    def vacuum(self, db):
        db.execute("VACUUM (INDEX_CLEANUP ON, PARALLEL 0) t")

    def compare(self, db):
        db.execute(f"SET treedb.hnsw_ef_search = {self.candidates}")
        same({i for i, in db.execute("SELECT id FROM t")}, self.rows, "rows")
        r = self.dice
        for index, (distance, dimensions) in self.nearest.items():
            found = asked = 0
            for _ in range(5):
                near = self.near(dimensions)
                query = f"SELECT round(({distance})::numeric, {self.digits})::text AS d FROM t ORDER BY {distance} LIMIT 10"
                with only(db, "seqscan", "sort"):
                    exact = lines(db, query, (near, near))
                with only(db, "indexscan"):
                    check(index in "\n".join(lines(db, "EXPLAIN " + query, (near, near))), f"not by {index}")
                    by_index = lines(db, query, (near, near))
                same(len(by_index), min(10, len(self.rows)), f"rows found by {index}")
                found, asked = found + sum(line in exact for line in by_index), asked + len(exact)
            check(found >= self.least.get(index, .9) * asked, f"{index} finds {found} of the {asked} nearest rows")

    def near(self, dimensions):
        r = self.dice
        return f"{r.getrandbits(40):040b}" if not dimensions else [r.gauss(3, 2) for _ in range(dimensions)]


class Alike(Vectors):
    """A table that is filled, again and again, until its indexes have chosen a centre."""

    table, graphs, nearest, digits = ALIKE, GRAPHS_ALIKE, NEAREST_ALIKE, 9
    # By inner product all queries want the same few of such vectors, and a graph leads to them or does not.
    least = {"t_g": .6}

    def __init__(self, dice):
        super().__init__(dice)
        self.finishes = dice.sample(("insert", "vacuum"), 2)

    def finish(self, db, point):
        """Has the next writer, or a vacuum, do the rest of making codes anew, by turns."""
        is_left = {index for index in self.graphs if self.is_left(db, index)}
        check(is_left or point == "hnsw_recoded", "no codes are left to be made anew")
        finish, other = self.finishes
        self.finishes = [other, finish]
        if finish == "vacuum":
            self.vacuum(db)
        else:
            # To empty the table would leave nothing to be done.
            self.insert(db, most=len(self.rows))
        left = {index for index in is_left if self.is_left(db, index)}
        check(not left, f"{left} of {is_left} are left as they were by {finish}")

    def is_left(self, db, index):
        """Whether codes of an index are still to be made anew, as its meta page says."""
        db.execute("CHECKPOINT")
        choice = one(db, "SELECT pg_read_binary_file(pg_relation_filepath(%s), 72, 2)", (index,))
        return choice[0] & 3 == 2

    def compare(self, db):
        super().compare(db)
        # With as many candidates as there are rows, what is missed is what no link leads to.
        self.least, self.candidates = {index: .98 for index in self.nearest}, 1000
        super().compare(db)
        del self.least, self.candidates

    def near(self, dimensions):
        r, cluster = self.dice, self.dice.randrange(7)
        return [60 * (-1) ** (n // 3) + math.sin(cluster * n) + r.gauss(0, .3) for n in range(dimensions)]

    def insert(self, db, most=300):
        """Inserts rows, into an empty table if there are more than `most`."""
        if len(self.rows) > most:
            db.execute("TRUNCATE t")
            self.rows = set()
        new = list(range(self.number + 1, self.number + 1 + self.dice.choice((5, 40, 90))))
        self.number = new[-1]
        db.cursor().execute("INSERT INTO t VALUES " + ", ".join(["(%s, %s)"] * len(new)), [part for i in new for part in (i, self.near(500))])
        self.rows |= set(new)


@contextlib.contextmanager
def only(db, *ways):
    """Lets the planner use only these ways to read a table."""
    switches = ("seqscan", "sort", "indexscan", "indexonlyscan", "bitmapscan")
    db.execute(";".join(f"SET enable_{switch} = {'on' if switch in ways else 'off'}" for switch in switches))
    try:
        yield
    finally:
        if not db.closed:
            db.execute(";".join(f"RESET enable_{switch}" for switch in switches))


def reverse(order):
    return ", ".join(part.removesuffix(" DESC") if part.endswith(" DESC") else part + " DESC" for part in order.split(", "))


def columns(order):
    return ", ".join(part.split()[0] for part in order.split(", "))


GROW = ["insert", "insert", "insert_documents"]
AGE = ["insert", "delete", "scan", "insert", "scan"]
PURGE = ["insert", "insert", "insert", "insert_documents", "insert_documents", "delete", "delete_documents", "vacuum"]
# What comes to each point.
POINTS = {
    "leaf_merge": (Rows, GROW), "leaf_split": (Rows, GROW), "branch_split": (Rows, GROW), "new_root": (Rows, GROW), "split_finished": (Rows, GROW),
    "entries_marked": (Rows, AGE), "marked_removed": (Rows, AGE), "versions_removed": (Rows, ["insert", "update", "update", "update"]),
    "leaf_vacuum": (Rows, PURGE), "leaf_deleted": (Rows, PURGE),
    "hnsw_page": (Vectors, ["insert"]), "hnsw_node": (Vectors, ["insert"]), "hnsw_settled": (Vectors, ["insert", "insert", "insert", "delete", "vacuum"]),
    "hnsw_centre": (Alike, ["insert"]), "hnsw_recoded": (Alike, ["insert", "vacuum"]),
    "hnsw_node_recoded": (Alike, ["insert", "vacuum"]), "hnsw_node_recoded 25": (Alike, ["insert", "vacuum"]), "hnsw_node_recoded 75": (Alike, ["insert", "vacuum"]),
    "hnsw_node_recoded 100": (Alike, ["insert", "vacuum"]),
    "hnsw_unlinked": (Vectors, ["insert", "insert", "delete", "vacuum"]), "hnsw_level_freed": (Vectors, ["insert", "insert", "delete", "vacuum"]),
}


def points_of_the_sources():
    found = set()
    for file in (ROOT / "treedb_pg" / "src").rglob("*.rs"):
        found |= set(re.findall(r'fault::(?:point|piece)\("(\w+)"', file.read_text()))
    return found


def recoveries(cluster):
    """How often the server has ended all sessions. It takes new ones until it sees that a backend has died."""
    return cluster.log().count("all server processes terminated; reinitializing")


def again(cluster, before):
    """A session, as soon as the server has recovered once more than `before`."""
    until = time.monotonic() + 60
    while True:
        try:
            if recoveries(cluster) > before:
                return cluster.connect()
        except psycopg.OperationalError:
            pass
        check(time.monotonic() < until, "the server does not come back: " + cluster.log()[-1500:])
        time.sleep(.02)


def changed(model, db, steps, count):
    """Some changes, one step after the other; how many there were when the session died, or None."""
    for number in range(count):
        try:
            getattr(model, model.dice.choice(steps))(db)
        except psycopg.OperationalError:
            check(db.closed, "an error that leaves the session")
            return number
    return None


def verify(model, db):
    for table in model.tables:
        same(lines(db, "SELECT treedb.check(%s::regclass, heapallindexed => true)", (table,)), [], f"check of {table}")
    model.compare(db)


def dies(cluster, point, seed):
    """Kills a backend at a point, ROUNDS times; what was done meanwhile."""
    make, steps = POINTS[point]
    model = make(random.Random(seed))
    with cluster.connect() as db:
        db.execute("DROP TABLE IF EXISTS t, c")
        db.execute(model.schema)
        changed(model, db, steps, model.dice.randrange(40))
    told = []
    for number in range(ROUNDS):
        with cluster.connect() as db:
            if number:
                model.next_round(db)
            db.execute(f"SET treedb.crash = '{point}'")
            before = recoveries(cluster)
            died = changed(model, db, steps, STEPS)
        check(died is not None, f"{STEPS} steps did not come to {point}")
        told.append(died)
        with again(cluster, before) as db:
            verify(model, db)
            model.finish(db, point)
            verify(model, db)
            check(changed(model, db, steps, 30) is None, "the session ended without being told to")
            verify(model, db)
    with cluster.connect() as db:
        for table in model.tables:
            db.execute(f"VACUUM (INDEX_CLEANUP ON) {table}")
        verify(model, db)
    return f"died after {' and '.join(map(str, told))} changes"


def main():
    seed = int(os.environ.get("TREEDB_SEED", time.time()))
    print(f"seed {seed}", flush=True)
    chosen = sys.argv[1:] or list(POINTS)
    passed = failed = 0
    if not sys.argv[1:]:
        missed = points_of_the_sources() ^ {point.split()[0] for point in POINTS}
        failed += bool(missed)
        print(f"fault points of the sources and of this test: {'the same' if not missed else f'FAILED, {sorted(missed)} are only in one'}", flush=True)
    cluster = Cluster(SETTINGS)
    try:
        cluster.create()
        for number, point in enumerate(chosen):
            started = time.monotonic()
            try:
                outcome = dies(cluster, point, seed + number)
                passed += 1
            except Exception as error:  # noqa: BLE001 - a finding
                failed += 1
                outcome = f"FAILED (TREEDB_SEED={seed + number}, {point}): {type(error).__name__}: {str(error)[:1500]}"
                time.sleep(1)
            print(f"{point}: {outcome}, {time.monotonic() - started:.1f} s", flush=True)
        for word in ("inconsistent page", "PANIC", "terminated by signal 6", "terminated by signal 11"):
            if word in cluster.log():
                failed += 1
                print(f"the server's log has {word!r}")
    finally:
        cluster.close(keep=bool(failed))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
