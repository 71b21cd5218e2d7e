"""Random statements against two tables that differ only in the access method of their indexes.

    scripts/pg_twin.sh [STATEMENTS] [SEED..]

One table has indexes of treedb_btree, and with every other seed the access method treedb, the other the server's btree; both get the same inserts, updates, deletes,
rollbacks and vacuums. Every query is asked of both, each through its indexes, and of the second by a sequential scan:
rows, and their order where the query has one, must agree. The first table also has an index of treedb_hnsw, of another metric, element
type of codes and place for each seed; its searches look at the whole graph, so that they have to find the same nearest rows as the sort of the second. Some queries are answered, and some indexes rebuilt, by several
processes. `treedb.check` runs now and then. Two sessions take turns, one
of them often with an open transaction, so that there are rows that only some see. Now and then a third session cancels a
statement on the first table, or ends its backend, at a random moment; the second table gets the same change if and only if
the transaction was committed. The seeds in twin_seeds.txt are always run, two at a time, and one of the clock's.
"""
import concurrent.futures
import pathlib
import random
import sys
import threading
import time

import psycopg

from cluster import Cluster

SEEDS = pathlib.Path(__file__).with_name("twin_seeds.txt")
STATEMENTS = 5000
# With more rows than this, deletes are larger.
ROWS = 1000

# Column, its index expression, and a generator of literals. Values repeat, so that there are long runs of equal keys.
COLUMNS = {
    "i": ("i", lambda r: str(r.choice([r.randint(-5, 5), r.randint(-10**6, 10**6), 2**31 - 1, -2**31]))),
    "b": ("b", lambda r: str(r.choice([r.randint(-3, 3), r.randint(-2**63, 2**63 - 1)]))),
    "f": ("f", lambda r: r.choice(["'-0'", "0", "'NaN'", "'Infinity'", "'-Infinity'", f"{r.uniform(-9, 9):.2f}", "1e300"])),
    "t": ('t COLLATE "C"', lambda r: text(r)),
    "u": ("u", lambda r: f"md5('{r.randint(0, 400)}')::uuid"),
    "w": ("w", lambda r: f"'2026-01-01 00:00+00'::timestamptz + interval '{r.randint(-500, 500)} hours'"),
    "c": ('c COLLATE "en-x-icu"', lambda r: text(r)),
    "n": ("n", lambda r: r.choice(["0", "'NaN'", "'-Infinity'", f"{r.randint(-50, 50) / 4}", f"{r.randint(-9, 9)}e{r.choice([-30, 30, 200])}"])),
    "s": ("s", lambda r: str(r.randint(-300, 300))),
    "r": ("r", lambda r: r.choice(["'-0'", "'NaN'", f"{r.uniform(-9, 9):.1f}", "3e38"])),
}
# Columns of which equal values look different, such as 0 and -0, as what looks the same: among them any order will do, and with a
# limit any of them.
SHOWN = {"n": "trim_scale(n)", "f": "f + 0", "r": "r + 0"}


# Few values, and long ones, so that a leaf of rows with equal values under a collation is split; NULL where the column is.
ALIKE = "repeat(left(c, 1), 300) COLLATE \"en-x-icu\""


# What vectors are indexed by: the operator, and its operator class.
METRICS = [("<->", "real_l2_ops"), ("<#>", "real_ip_ops"), ("<=>", "real_cosine_ops"), ("<+>", "real_l1_ops")]
# Dimensions of vectors that nodes have themselves, and of those of whose neighbours they have codes.
DIMENSIONS = [3, 70]
# More than there are nodes: a search looks at all of them.
EF = 10_000


def text(r):
    kind = r.randint(0, 5)
    if kind == 0:
        return "''"
    if kind == 1:
        return "repeat('{}', {})".format(r.choice("aäB"), r.randint(1, 300))
    if kind == 2:
        return "'key{:05d}'".format(r.randint(0, 99999))
    return "'" + "".join(r.choice("abcABCäöé -_09") for _ in range(r.randint(1, 12))) + "'"


def value(r, column):
    return "NULL" if r.random() < .08 else COLUMNS[column][1](r)


class Twin:
    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.random = random.Random(seed)
        # Dice of its own, so that a seed keeps its statements.
        self.parallel = random.Random(seed + 1)
        self.alike = random.Random(seed + 2)
        self.near = random.Random(seed + 3)
        self.operator, self.operators = METRICS[seed % len(METRICS)]
        self.dimensions = self.near.choice(DIMENSIONS)
        # Far from zero, so that codes are about a centre, or not.
        self.place = [self.near.choice([0, 0, 50]) * self.near.choice([-1, 1]) for _ in range(self.dimensions)]
        self.schema = f"twin_{seed}"
        self.open = [False, False]
        self.rows = 0
        self.live = 0
        self.cancelled = self.ended = self.survived = 0
        self.sessions = [self.connect(), self.connect()]
        # The one that cancels.
        self.third = self.connect()
        self.sessions[0].execute(f"CREATE SCHEMA {self.schema}")
        for name, method in (("mine", "treedb_btree"), ("theirs", "btree")):
            self.sessions[0].execute(
                f"CREATE TABLE {name} (id int, i int, b bigint, f float8, t text, u uuid, w timestamptz, c text, n numeric, s smallint, r real, e real[])"
                f" USING {'treedb' if name == 'mine' and seed % 2 else 'heap'} WITH (autovacuum_enabled = off, parallel_workers = 2)")
            for column, (expression, _) in COLUMNS.items():
                how = self.random.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]) if name == "mine" else ""
                self.sessions[0].execute(f"CREATE INDEX {name}_{column} ON {name} USING {method} ({expression}{how})")
            self.sessions[0].execute(f"CREATE INDEX {name}_several ON {name} USING {method} (i, t COLLATE \"C\" DESC, b)")
            self.sessions[0].execute(f"CREATE INDEX {name}_alike ON {name} USING {method} ({ALIKE})")
            if name == "mine":
                self.sessions[0].execute(f"CREATE INDEX mine_e ON mine USING treedb_hnsw (e treedb.{self.operators}) WITH (dimensions = {self.dimensions}, m = 6)")
            self.sessions[0].execute(f"CREATE INDEX {name}_more ON {name} USING {method} (s) INCLUDE (t, n, id)")

    def connect(self):
        session = self.cluster.connect()
        session.execute(f"SET client_min_messages = error; SET jit = off; SET max_parallel_workers_per_gather = 0; SET search_path = {self.schema}, public;"
                        "SET max_parallel_maintenance_workers = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;"
                        "SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0;"
                        f"SET treedb.hnsw_ef_search = {EF}")
        return session

    def both(self, who, statement):
        """Runs a statement on both tables; `@` stands for the table. The same number of rows must be concerned."""
        counts = [self.sessions[who].execute(statement.replace("@", name)).rowcount for name in ("mine", "theirs")]
        assert counts[0] == counts[1], f"{counts[0]} and {counts[1]} rows: {statement}"

    def condition(self):
        r = self.random
        column = r.choice(list(COLUMNS))
        expression = COLUMNS[column][0]
        kind = r.randint(0, 9)
        if kind == 0:
            return column, f"{column} IS {r.choice(['', 'NOT '])}NULL"
        if kind == 1:
            values = ", ".join(value(r, column) for _ in range(r.randint(1, 6)))
            return column, f"{expression} IN ({values})"
        if kind == 2:
            low, high = value(r, column), value(r, column)
            return column, f"{expression} {r.choice(['>', '>='])} {low} AND {expression} {r.choice(['<', '<='])} {high}"
        if kind == 3:
            return "several", f"i = {value(r, 'i')} AND t COLLATE \"C\" {r.choice(['<', '>=', '='])} {value(r, 't')}"
        return column, f"{expression} {r.choice(['<', '<=', '=', '>=', '>'])} {value(r, column)}"

    def vector(self):
        """A literal of a vector: few of them, so that some are equal, or any; or none."""
        r = self.near
        if r.random() < .08:
            return "NULL"
        dice = random.Random(r.randrange(6)) if r.random() < .3 else r
        # Elements without rounding, so that equal rows are equally far.
        elements = [place + dice.randint(-64, 64) / 64 for place in self.place]
        return f"'{{{','.join(map(str, elements))}}}'"

    def change(self, who):
        r = self.random
        if self.near.random() < .1:
            start = self.near.randint(0, self.rows)
            self.both(who, f"UPDATE @ SET e = {self.vector()} WHERE id BETWEEN {start} AND {start + self.near.choice([0, 3, 40])}")
        kind = r.random()
        if kind < .45:
            count = r.choice([1, 1, 1, 5, 60])
            self.both(who, self.insert(count))
        elif kind < .7:
            column = r.choice(list(COLUMNS))
            # By number: both tables must change the same rows.
            start = r.randint(0, self.rows)
            self.both(who, f"UPDATE @ SET {column} = {value(r, column)} WHERE id BETWEEN {start} AND {start + r.choice([0, 3, 40])}")
        elif kind < .85:
            start = r.randint(0, self.rows)
            many = [0, 2, 25, 400] if self.live > ROWS else [0, 2, 25]
            self.both(who, f"DELETE FROM @ WHERE id BETWEEN {start} AND {start + r.choice(many)}")
        elif not any(self.open):
            if r.random() < .3:
                self.both(who, "VACUUM @")
            elif r.random() < .2:
                workers = self.parallel.choice([0, 2])
                self.sessions[who].execute(f"SET max_parallel_maintenance_workers = {workers}")
                self.both(who, f"REINDEX INDEX @_{r.choice(list(COLUMNS))}")
                if self.near.random() < .3:
                    self.sessions[who].execute("REINDEX INDEX mine_e")

    def insert(self, count):
        rows = []
        for _ in range(count):
            self.rows += 1
            rows.append("(" + ", ".join([str(self.rows)] + [value(self.random, column) for column in COLUMNS] + [self.vector()]) + ")")
        return f"INSERT INTO @ VALUES {', '.join(rows)}"

    def disturbed(self, who):
        """A statement on the first table that is cancelled, or whose backend is ended, while it runs."""
        r = self.random
        kind, start = r.random(), r.randint(0, self.rows)
        alone = False
        if kind < .4:
            statement = self.insert(r.choice([40, 150]))
        elif kind < .6:
            column = r.choice(list(COLUMNS))
            statement = f"UPDATE @ SET {column} = {value(r, column)} WHERE id BETWEEN {start} AND {start + 300}"
        elif kind < .7:
            statement = f"DELETE FROM @ WHERE id BETWEEN {start} AND {start + 200}"
        else:
            alone = True
            statement = r.choice(["VACUUM @", "VACUUM (INDEX_CLEANUP ON) @", f"REINDEX INDEX @_{r.choice(list(COLUMNS))}", "REINDEX TABLE @"])
        session = self.sessions[who]
        ends = r.random() < .4
        after = r.random() ** 2 * .01
        transaction = None
        if not alone:
            session.execute("BEGIN")
            transaction = session.execute("SELECT pg_current_xact_id()::text").fetchone()[0]
        call = "SELECT pg_terminate_backend(%s, 10000)" if ends else "SELECT pg_cancel_backend(%s)"

        def disturb(pid):
            time.sleep(after)
            self.third.execute(call, (pid,))

        thread = threading.Thread(target=disturb, args=(session.info.backend_pid,))
        thread.start()
        told = None
        try:
            session.execute(statement.replace("@", "mine"))
            if not alone:
                session.execute("COMMIT")
        except (psycopg.errors.QueryCanceled, psycopg.OperationalError) as error:
            told = error
        thread.join()
        try:
            # A cancel that came late hits this one.
            session.execute("ROLLBACK" if told else "SELECT 1")
            session.execute("SELECT 1")
        except psycopg.errors.QueryCanceled:
            pass
        except psycopg.OperationalError as error:
            told = told or error
        assert not session.closed or ends, f"a cancelled statement ended its session: {told}: {statement[:300]}"
        if session.closed:
            self.sessions[who] = self.connect()
        self.cancelled += told is not None and not ends
        self.ended += told is not None and ends
        self.survived += told is None
        if transaction and self.third.execute("SELECT pg_xact_status(%s::xid8)", (transaction,)).fetchone() == ("committed",):
            self.third.execute(statement.replace("@", "theirs"))
        if r.random() < .3:
            self.check()

    def question(self, who):
        r = self.random
        order, condition = self.condition()
        session = self.sessions[who]
        if self.alike.random() < .1:
            query = self.alike_question()
        elif r.random() < .2:
            # Index-only, in order.
            column, expression = r.choice([(name, expression) for name, (expression, _) in COLUMNS.items()])
            query = f"SELECT ({SHOWN.get(column, column)})::text FROM @ ORDER BY {expression} {r.choice(['', 'DESC'])}"
        elif order == "several":
            query = f"SELECT id FROM @ WHERE {condition} ORDER BY i, t COLLATE \"C\" DESC, b, id"
        else:
            limit = r.choice(["", "", f" LIMIT {r.randint(1, 9)}"])
            query = f"SELECT ({SHOWN.get(order, order)})::text FROM @ WHERE {condition} ORDER BY {COLUMNS[order][0]} {r.choice(['', 'DESC'])}{limit}"
            if r.random() < .4:
                query = f"SELECT id FROM @ WHERE {condition} ORDER BY id"
        settings = r.choice(["enable_bitmapscan", "enable_indexscan", "enable_indexonlyscan", "enable_sort"])
        by_table = "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; RESET enable_seqscan;"
        reset = "RESET enable_indexscan; RESET enable_indexonlyscan; RESET enable_bitmapscan; RESET enable_sort; RESET enable_seqscan"
        workers = 2 if self.parallel.random() < .1 else 0
        digest = "SELECT count(*), md5(string_agg(coalesce(x::text, '~'), '|')) FROM ({}) q(x);"

        def answers(form):
            asked = (f"SET enable_seqscan = off; SET {settings} = off; SET max_parallel_workers_per_gather = {workers};" + form.format(query.replace("@", "mine")) + form.format(query.replace("@", "theirs"))
                     + by_table + form.format(query.replace("@", "theirs")) + reset)
            found, cursor = [], session.execute(asked)
            while True:
                if cursor.description:
                    found.append(cursor.fetchall())
                if not cursor.nextset():
                    return found

        found = answers(digest)
        if not found[0] == found[1] == found[2]:
            raise AssertionError(f"{query}: {found}: {[rows[:20] for rows in answers('{};')]}")

    def nearest(self, who):
        """The rows nearest to a vector, all or those that a condition keeps: as far away by the index as by a sort of the other table."""
        r, session = self.near, self.sessions[who]
        query = self.vector().replace("NULL", f"'{{{','.join(['0.25'] * self.dimensions)}}}'")
        condition = r.choice(["true", f"id % {r.randint(2, 40)} = 0", f"id > {r.randint(0, self.rows)}", f"coalesce(s, 0) < {r.randint(-300, 300)}"])
        order = f"e OPERATOR(treedb.{self.operator}) {query}::real[]"
        ask = f"SELECT {order} AS d FROM @ WHERE e IS NOT NULL AND {condition} ORDER BY {order} LIMIT {r.choice([1, 5, 30])}"
        session.execute("SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off")
        plan = "\n".join(line for line, in session.execute("EXPLAIN (COSTS OFF) " + ask.replace("@", "mine")))
        assert "using mine_e" in plan, f"not by the index: {ask}: {plan}"
        by_index = session.execute(ask.replace("@", "mine")).fetchall()
        session.execute("RESET enable_seqscan; RESET enable_sort; RESET enable_bitmapscan; SET enable_indexscan = off")
        by_sort = session.execute(ask.replace("@", "theirs")).fetchall()
        session.execute("RESET enable_indexscan")
        assert by_index == by_sort, f"{ask}: {by_index} by the index, {by_sort} by a sort"

    def alike_question(self):
        """A question about rows with equal values under a collation."""
        r = self.alike
        some = f"repeat('{r.choice('aäBbCk -')}', 300)"
        condition = r.choice([f"{ALIKE} = {some}", f"{ALIKE} >= {some}", f"{ALIKE} < {some}", f"{ALIKE} IN ({some}, repeat('A', 300))", f"{ALIKE} IS NOT NULL"])
        if r.random() < .5:
            return f"SELECT id FROM @ WHERE {condition} ORDER BY id"
        return f"SELECT {ALIKE} FROM @ WHERE {condition} ORDER BY {ALIKE} {r.choice(['', 'DESC'])}{r.choice(['', ' LIMIT 50'])}"

    def check(self):
        problems = self.third.execute("SELECT treedb.check('mine')").fetchall()
        assert not problems, problems[:5]
        same = self.third.execute("SELECT (SELECT count(*) FROM (TABLE mine EXCEPT ALL TABLE theirs) d), (SELECT count(*) FROM (TABLE theirs EXCEPT ALL TABLE mine) d),"
                                  " (SELECT count(*) FROM mine)").fetchone()
        assert same[:2] == (0, 0), f"{same[0]} rows are only in the first table, {same[1]} only in the second"
        self.live = same[2]

    def run(self, statements):
        r = self.random
        for number in range(statements):
            who = r.randint(0, 1)
            step = r.random()
            if step < .03 and not any(self.open):
                self.disturbed(who)
            elif step < .06 and not any(self.open):
                self.sessions[who].execute("BEGIN ISOLATION LEVEL " + r.choice(["READ COMMITTED", "REPEATABLE READ"]))
                self.open[who] = True
            elif step < .10 and self.open[who]:
                self.sessions[who].execute(r.choice(["COMMIT", "ROLLBACK"]))
                self.open[who] = False
            elif step < .5:
                # While one session has an open transaction, only that one changes rows: the other would wait for it.
                writer = self.open.index(True) if any(self.open) else who
                self.change(writer)
            else:
                self.question(who)
                if self.near.random() < .2:
                    self.nearest(who)
            if number % 250 == 249 and not any(self.open):
                self.check()
        for who in (0, 1):
            if self.open[who]:
                self.sessions[who].execute("COMMIT")
        self.check()
        self.third.execute(f"DROP SCHEMA {self.schema} CASCADE")
        for session in [*self.sessions, self.third]:
            session.close()
        # So many that it would be an accident if none met its statement.
        if self.cancelled + self.ended + self.survived >= 50:
            assert self.cancelled and self.ended, f"{self.cancelled} statements were cancelled and {self.ended} backends ended in the middle of one"
        return f"{self.cancelled} cancelled, {self.ended} ended, {self.survived} too late"


def kept_seeds():
    """The seeds of the file: the first word of each line that is no comment."""
    return [int(line.split()[0]) for line in SEEDS.read_text().splitlines() if line.strip() and not line.startswith("#")]


def one_seed(cluster, seed, statements):
    """Whether the twins agreed."""
    started = time.monotonic()
    try:
        told = Twin(cluster, seed).run(statements)
        print(f"seed {seed}: ok, {statements} statements, {told}, {time.monotonic() - started:.1f} s", flush=True)
        return True
    except Exception as e:  # noqa: BLE001 - whatever it is, the seed repeats it
        print(f"seed {seed} ({SEEDS.name} keeps those that found something): {type(e).__name__}: {str(e)[:1500]}", flush=True)
        return False


def main():
    statements = int(sys.argv[1]) if len(sys.argv) > 1 else STATEMENTS
    seeds = [int(seed) for seed in sys.argv[2:]] or [*kept_seeds(), int(time.time())]
    cluster = Cluster().create()
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            passed = list(pool.map(lambda seed: one_seed(cluster, seed, statements), seeds))
    finally:
        cluster.close(keep=False)
    print(f"summary: {len(seeds) * statements} statements, {len(seeds)} seeds")
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    sys.exit(0 if all(passed) else 1)


main()
