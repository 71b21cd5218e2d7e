"""Random statements against two tables that differ only in the access method of their indexes.

    scripts/pg_twin.sh [STATEMENTS] [SEED..]

One table has indexes of treedb_btree, the other the server's btree; both get the same inserts, updates, deletes,
rollbacks and vacuums. Every query is asked of both, each through its indexes, and of the second by a sequential scan:
rows, and their order where the query has one, must agree. Some queries are answered, and some indexes rebuilt, by several
processes. `treedb.check` runs now and then. Two sessions take turns, one
of them often with an open transaction, so that there are rows that only some see. The seeds below are always run: each of
them once found something, or covers what others do not.
"""
import random
import sys
import time

from cluster import Cluster

KEPT_SEEDS = [1, 2, 3]
STATEMENTS = 1500

# Column, its index expression, and a generator of literals. Values repeat, so that there are long runs of equal keys.
COLUMNS = {
    "i": ("i", lambda r: str(r.choice([r.randint(-5, 5), r.randint(-10**6, 10**6), 2**31 - 1, -2**31]))),
    "b": ("b", lambda r: str(r.choice([r.randint(-3, 3), r.randint(-2**63, 2**63 - 1)]))),
    "f": ("f", lambda r: r.choice(["'-0'", "0", "'NaN'", "'Infinity'", "'-Infinity'", f"{r.uniform(-9, 9):.2f}", "1e300"])),
    "t": ('t COLLATE "C"', lambda r: text(r)),
    "u": ("u", lambda r: f"md5('{r.randint(0, 400)}')::uuid"),
    "w": ("w", lambda r: f"'2026-01-01 00:00+00'::timestamptz + interval '{r.randint(-500, 500)} hours'"),
    "c": ('c COLLATE "en-x-icu"', lambda r: text(r)),
}


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
        self.random = random.Random(seed)
        # Dice of its own, so that a seed keeps its statements.
        self.parallel = random.Random(seed + 1)
        self.sessions = [cluster.connect(), cluster.connect()]
        self.open = [False, False]
        self.rows = 0
        self.seed = seed
        self.both(0, "SET client_min_messages = error")
        for session in self.sessions:
            session.execute("SET max_parallel_workers_per_gather = 0; SET max_parallel_maintenance_workers = 0;"
                            "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;"
                            "SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0")
        for name, method in (("mine", "treedb_btree"), ("theirs", "btree")):
            self.sessions[0].execute(f"DROP TABLE IF EXISTS {name}")
            self.sessions[0].execute(
                f"CREATE TABLE {name} (id int, i int, b bigint, f float8, t text, u uuid, w timestamptz, c text)"
                " WITH (autovacuum_enabled = off, parallel_workers = 2)")
            for column, (expression, _) in COLUMNS.items():
                how = self.random.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]) if name == "mine" else ""
                self.sessions[0].execute(f"CREATE INDEX {name}_{column} ON {name} USING {method} ({expression}{how})")
            self.sessions[0].execute(f"CREATE INDEX {name}_several ON {name} USING {method} (i, t COLLATE \"C\" DESC, b)")

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

    def change(self, who):
        r = self.random
        kind = r.random()
        if kind < .45:
            count = r.choice([1, 1, 1, 5, 60])
            rows = []
            for _ in range(count):
                self.rows += 1
                rows.append("(" + ", ".join([str(self.rows)] + [value(r, column) for column in COLUMNS]) + ")")
            self.both(who, f"INSERT INTO @ VALUES {', '.join(rows)}")
        elif kind < .7:
            column = r.choice(list(COLUMNS))
            # By number: both tables must change the same rows.
            start = r.randint(0, self.rows)
            self.both(who, f"UPDATE @ SET {column} = {value(r, column)} WHERE id BETWEEN {start} AND {start + r.choice([0, 3, 40])}")
        elif kind < .85:
            start = r.randint(0, self.rows)
            self.both(who, f"DELETE FROM @ WHERE id BETWEEN {start} AND {start + r.choice([0, 2, 25])}")
        elif not any(self.open):
            if r.random() < .3:
                self.both(who, "VACUUM @")
            elif r.random() < .2:
                workers = self.parallel.choice([0, 2])
                self.sessions[who].execute(f"SET max_parallel_maintenance_workers = {workers}")
                self.both(who, f"REINDEX INDEX @_{r.choice(list(COLUMNS))}")

    def question(self, who):
        r = self.random
        order, condition = self.condition()
        session = self.sessions[who]
        if r.random() < .2:
            # Index-only, in order.
            column, expression = r.choice([(name, expression) for name, (expression, _) in COLUMNS.items()])
            query = f"SELECT {column}::text FROM @ ORDER BY {expression} {r.choice(['', 'DESC'])}"
        elif order == "several":
            query = f"SELECT id FROM @ WHERE {condition} ORDER BY i, t COLLATE \"C\" DESC, b, id"
        else:
            limit = r.choice(["", "", f" LIMIT {r.randint(1, 9)}"])
            query = f"SELECT {order}::text FROM @ WHERE {condition} ORDER BY {COLUMNS[order][0]} {r.choice(['', 'DESC'])}{limit}"
            if r.random() < .4:
                query = f"SELECT id FROM @ WHERE {condition} ORDER BY id"
        settings = r.choice(["enable_bitmapscan", "enable_indexscan", "enable_indexonlyscan", "enable_sort"])
        session.execute(f"SET enable_seqscan = off; SET {settings} = off")
        workers = 2 if self.parallel.random() < .1 else 0
        session.execute(f"SET max_parallel_workers_per_gather = {workers}")
        answers = [session.execute(query.replace("@", name)).fetchall() for name in ("mine", "theirs")]
        session.execute("SET max_parallel_workers_per_gather = 0")
        session.execute("SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; RESET enable_seqscan")
        answers.append(session.execute(query.replace("@", "theirs")).fetchall())
        session.execute("RESET enable_indexscan; RESET enable_indexonlyscan; RESET enable_bitmapscan; RESET enable_sort; RESET enable_seqscan")
        # -0 and 0 are equal: among them any order will do, and with a limit any of them.
        plain = [[("0",) if row == ("-0",) else row for row in answer] for answer in answers]
        assert plain[0] == plain[1] == plain[2], f"{query}: {[answer[:20] for answer in answers]}"

    def check(self):
        problems = self.sessions[0].execute("SELECT treedb.check('mine')").fetchall()
        assert not problems, problems[:5]

    def run(self, statements):
        r = self.random
        for number in range(statements):
            who = r.randint(0, 1)
            step = r.random()
            if step < .04 and not any(self.open):
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
            if number % 500 == 499 and not any(self.open):
                self.check()
        for who in (0, 1):
            if self.open[who]:
                self.sessions[who].execute("COMMIT")
        self.check()
        for session in self.sessions:
            session.close()


def main():
    statements = int(sys.argv[1]) if len(sys.argv) > 1 else STATEMENTS
    seeds = [int(seed) for seed in sys.argv[2:]] or KEPT_SEEDS + [int(time.time())]
    failed = 0
    cluster = Cluster().create()
    try:
        for seed in seeds:
            started = time.monotonic()
            try:
                Twin(cluster, seed).run(statements)
                print(f"seed {seed}: ok, {statements} statements, {time.monotonic() - started:.1f} s", flush=True)
            except Exception as e:  # whatever it is, the seed repeats it
                failed += 1
                print(f"seed {seed}: {type(e).__name__}: {str(e)[:1500]}", flush=True)
    finally:
        cluster.close()
    print(f"{len(seeds) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
