"""A standby that follows what is done to indexes and collections of each kind, with every page that it makes compared."""
import contextlib
import threading
import time

import psycopg

from claims import check, index_only, lines, one, refused, same
from cluster import Cluster, shell

PAGES = "SELECT block, kind, entries, appended, next FROM treedb.index_pages(%s)"
# What a collection is asked on both servers.
FINDS = [f"SELECT d::text FROM treedb.find('s', '{filter}', '{options}') d" for filter in ('{"a": 7}', '{"a": {"$gte": 3, "$lt": 6}, "k": {"$lt": 40}}', '{"u": {"$gt": 3700}}', '{"u": 77}')
         for options in ('{"sort": {"_id": 1}}', '{"sort": {"_id": 1}, "hint": "$natural"}')]
NEAREST = [f"SELECT document, distance FROM treedb.vector_search('s', 'near', '{{50, 20, 3}}', 10, '{filter}', '{options}')"
           for filter in ("{}", '{"k": {"$lt": 50}}') for options in ("{}", '{"exact": true}')]
# A search of the whole graph, and of the table.
NEAR_DOCUMENTS = [f"SELECT string_agg(distance::text, ',') FROM treedb.vector_search('s', 'near', '{{50, 20, 3}}', 10, '{{}}', '{options}')"
                  for options in ('{"numCandidates": 10000}', '{"exact": true}')]
# Vectors that are much alike, of so many dimensions that nodes have codes instead of them.
ALIKE = "array_fill(9, ARRAY[1630])::real[] || f"
# Graphs of each kind of pages: what each is over, its storage parameters, what rows are ordered by.
GRAPHS = {
    "g_coded": ("f treedb.real_cosine_ops", "dimensions = 70, ", "f OPERATOR(treedb.<=>) array_fill(0.5, ARRAY[70])::real[]"),
    "g_several": ("s", "dimensions = 2, ", "s OPERATOR(treedb.<->) '{0.5, 0.5}'::real[]"),
    "g_apart": ("f treedb.real_l1_ops", "dimensions = 70, ", "f OPERATOR(treedb.<+>) array_fill(0.5, ARRAY[70])::real[]"),
    "g_bits": ("b treedb.bit_hamming_ops", "", "b OPERATOR(treedb.<~>) X'0F0F0F0F0F'::bit(40)"),
    "g_alike": (f"({ALIKE})", "dimensions = 1700, ", f"({ALIKE}) OPERATOR(treedb.<->) (array_fill(9, ARRAY[1630])::real[] || array_fill(0.5, ARRAY[70])::real[])"),
}
# Where the server has pgvector, one with elements of 2 bytes too, and a centre of those.
HALVES = "(array_fill(5, ARRAY[3002])::real[] || f)::halfvec(3072)"
GRAPH_OF_HALVES = (f"({HALVES}) halfvec_l2_ops", "", f"{HALVES} <-> (array_fill(5, ARRAY[3002])::real[] || array_fill(0.5, ARRAY[70])::real[])::halfvec(3072)")
# What the primary does to them, one step after another, while the standby is read.
BUILDS = ["CREATE INDEX {g_apart}", "CREATE INDEX CONCURRENTLY {g_bits}", "REINDEX INDEX g_coded", "REINDEX INDEX CONCURRENTLY g_several"]


def graph(graphs, name):
    key, options, _ = graphs[name]
    return f"{name} ON g USING treedb_hnsw ({key}) WITH ({options}m = 8)"


def vectors(first, last):
    return ("INSERT INTO g SELECT i, ARRAY(SELECT sin(i * j) FROM generate_series(1, 70) j)::real[], (i::bigint * 2654435761 % 1099511627776)::bit(40),"
            f" ARRAY[[sin(i), cos(i)], [sin(2 * i), cos(3 * i)]]::real[] FROM generate_series({first}, {last}) i")


def centre_of(cluster, db, index):
    """What the meta page of a graph says of its centre."""
    db.execute("CHECKPOINT")
    return (cluster.data / one(db, "SELECT pg_relation_filepath(%s)", (index,))).read_bytes()[64:74]


def nearest(order):
    return f"SELECT string_agg(round(d::numeric, 4)::text, ',') FROM (SELECT {order} AS d FROM g ORDER BY {order} LIMIT 5) x"


def documents(first, last):
    return ("SELECT treedb.insert_many('s', ARRAY(SELECT jsonb_build_object('_id', i, 'k', i % 100, 'u', i, 'a', jsonb_build_array(i % 9, i % 31, 'x' || i % 50), 'e',"
            f" jsonb_build_array(i % 100, i % 37, i % 11))::treedb.bson FROM generate_series({first}, {last}) i))")


class Leaves:
    """What has happened to the leaves of an index, as its pages tell from one look to the next."""

    def __init__(self, index):
        self.index, self.before = index, {}
        self.splits = self.merges = self.deletions = 0

    def look(self, db):
        pages = {block: what for block, *what in db.execute(PAGES, (self.index,))}
        for block, (kind, entries, appended, right) in pages.items():
            old_kind, old_entries, old_appended, old_right = self.before.get(block, (None, 0, 0, None))
            self.splits += old_kind is not None and kind == old_kind == "leaf" and right != old_right and entries < old_entries
            # The same leaf, with more entries in its sorted part: only a merge puts them there.
            self.merges += kind == old_kind == "leaf" and right == old_right and entries - appended > old_entries - old_appended
            self.deletions += kind == "deleted" and old_kind == "leaf"
        self.before = pages


def follows(standby, db):
    """Waits until a standby has replayed what its primary has logged, for as long as it goes on."""
    position = one(db, "SELECT pg_current_wal_flush_lsn()")
    with standby.connect() as reader:
        last, since = None, time.monotonic()
        while time.monotonic() < since + 30:
            replayed, all_of_it = reader.execute("SELECT r, r >= %s::pg_lsn FROM pg_last_wal_replay_lsn() r", (position,)).fetchone()
            if all_of_it:
                return
            if replayed != last:
                last, since = replayed, time.monotonic()
            time.sleep(0.05)
    raise AssertionError("the standby does not follow: " + standby.log()[-600:])


@contextlib.contextmanager
def standby_of(cluster):
    """A cluster that `start_standby` makes a standby; closed in the end, and its slot dropped."""
    standby = Cluster()
    try:
        yield standby
    finally:
        standby.close()
        with cluster.connect() as db:
            db.execute("SELECT pg_drop_replication_slot('follower') FROM pg_replication_slots WHERE slot_name = 'follower' AND NOT active")


def start_standby(standby, cluster):
    """Starts a standby from a base backup of its primary."""
    cluster.program("pg_basebackup", "-D", str(standby.data), "-R", "-c", "fast", "--no-sync", "-C", "-S", "follower")
    standby.start()


def a_standby_answers_as_the_primary(cluster):
    """Redo gives the same pages (the server compares them), and the standby's scans and functions the same answers."""
    graphs = dict(GRAPHS)
    with standby_of(cluster) as standby:
        with cluster.connect() as db:
            db.execute("ALTER SYSTEM SET wal_consistency_checking = 'all'")
            db.execute("SELECT pg_reload_conf()")
            db.execute("CREATE TABLE r (id int PRIMARY KEY, k int, t text) USING treedb")
            db.execute("ALTER TABLE r SET (autovacuum_enabled = off)")
            db.execute("CREATE INDEX r_k ON r USING treedb_btree (k)")
            db.execute("CREATE INDEX r_wide ON r USING treedb_btree (k, t)")
            # Some values are compressed in entries.
            long = "(repeat(t, CASE WHEN mod(k, 9) = 0 THEN 150 ELSE 1 END) COLLATE \"C\")"
            db.execute(f"CREATE INDEX r_long ON r USING treedb_btree ({long})")
            db.execute("CREATE INDEX r_near ON r USING treedb_hnsw ((ARRAY[k, id]::real[])) WITH (dimensions = 2, m = 4) WHERE id <= 100")
            db.execute("CREATE INDEX r_coded ON r USING treedb_hnsw ((ARRAY[k, id]::real[] || array_fill(mod(k, 9), ARRAY[68])::real[])) WITH (dimensions = 70, m = 8) WHERE id <= 100")
            db.execute("INSERT INTO r SELECT i, i % 100, md5(i::text) FROM generate_series(1, 4000) i")
            db.execute("SELECT treedb.create_collection('s')")
            db.execute("ALTER TABLE s SET (autovacuum_enabled = off)")
            db.execute("""SELECT treedb.create_index('s', '{"a": 1, "k": 1}'), treedb.create_index('s', '{"u": 1}', '{"unique": true}'), treedb.create_search_index('s',
                '{"fields": [{"type": "vector", "path": "e", "numDimensions": 3, "similarity": "euclidean"}, {"type": "filter", "path": "k"}]}', '{"name": "near"}')""")
            db.execute(documents(1, 600))
            db.execute("CREATE TABLE g (id int, f real[], b bit(40), s real[]) WITH (autovacuum_enabled = off)")
            # Four rows that are unlike the others are too many among 32 for a centre, and few enough among 256, when the standby follows.
            alike = ["g_alike"]
            if one(db, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"):
                db.execute("CREATE EXTENSION vector; SELECT treedb.enable_pgvector()")
                graphs["g_halves"] = GRAPH_OF_HALVES
                alike.append("g_halves")
            for name in alike:
                db.execute(f"CREATE INDEX {graph(graphs, name)}")
            db.execute("INSERT INTO g SELECT -i, ARRAY(SELECT 100 * sin(i * j) FROM generate_series(1, 70) j)::real[], i::bit(40), ARRAY[[i, -i]]::real[] FROM generate_series(1, 4) i")
            db.execute(vectors(1, 200))
            for name in alike:
                check(not any(centre_of(cluster, db, name)[:4]), f"{name} has chosen a centre already")
            for name in ("g_coded", "g_several"):
                db.execute(f"CREATE INDEX {graph(graphs, name)}")
            start_standby(standby, cluster)
            db.execute('CREATE INDEX r_t ON r USING treedb_btree (t COLLATE "en-x-icu")')
            stop = threading.Event()
            wrong, compared = [], [0]
            # That of `g_alike` is under way, at times, when its codes are made anew about a centre.
            meanwhile = [order for _, _, order in graphs.values()]

            def read():
                with standby.connect() as reader:
                    index_only(reader)
                    # More than there are: searches see the whole graph, whose answers are exact then.
                    reader.execute("SET treedb.hnsw_ef_search = 2000")
                    while not stop.is_set():
                        try:
                            # The same rows through the index and from the table, in one snapshot.
                            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                            by_index = [one(reader, "SELECT sum(hashtextextended(x::text, 0)) FROM (SELECT * FROM r WHERE k > 5 ORDER BY k) x")]
                            by_index += [one(reader, f"SELECT count(*) || md5(string_agg(d, ',')) FROM ({find}) d(d)") for find in FINDS[::2]]
                            by_index += [one(reader, nearest(order)) for order in meanwhile] + [one(reader, NEAR_DOCUMENTS[0])]
                            reader.execute("SET LOCAL enable_indexscan = off; SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on")
                            by_table = [one(reader, "SELECT sum(hashtextextended(x::text, 0)) FROM (SELECT * FROM r WHERE k > 5) x")]
                            by_table += [one(reader, f"SELECT count(*) || md5(string_agg(d, ',')) FROM ({find}) d(d)") for find in FINDS[1::2]]
                            by_table += [one(reader, nearest(order)) for order in meanwhile] + [one(reader, NEAR_DOCUMENTS[1])]
                            reader.execute("COMMIT")
                            compared[0] += 1
                            if by_index != by_table:
                                wrong.append(f"{by_index} by index, {by_table} by table")
                        except (psycopg.errors.SerializationFailure, psycopg.errors.QueryCanceled):
                            reader.execute("ROLLBACK")

            thread = threading.Thread(target=read, daemon=True)
            thread.start()
            leaves = [Leaves("r_wide"), Leaves("s_a_1_k_1")]
            for number in range(4):
                low = number * 20
                db.execute("DELETE FROM r WHERE k BETWEEN %s AND %s", (low, low + 25))
                db.execute(f"SELECT treedb.delete_many('s', '{{\"a\": {{\"$in\": [{number}, \"x{number}\"]}}}}')")
                db.execute("VACUUM (INDEX_CLEANUP ON) r")
                db.execute("VACUUM (INDEX_CLEANUP ON) s")
                for index in leaves:
                    index.look(db)
                # Few rows each time, so that there are leaves that take them without a split.
                for start in range(1, 4801, 400):
                    db.execute("INSERT INTO r SELECT i, i %% 100, md5(i::text) FROM generate_series(%s::int, %s::int) i ON CONFLICT (id) DO UPDATE SET k = r.k + 1", (start, start + 399))
                    if start % 1200 == 1:
                        for index in leaves:
                            index.look(db)
                db.execute(documents(1000 + 700 * number, 1699 + 700 * number))
                db.execute(f"""SELECT treedb.update_many('s', '{{"k": {number}}}', '[{{"$set": {{"a": ["new", {number}], "e": [{number}, "$k", 1]}}}}]')""")
                for index in leaves:
                    index.look(db)
                db.execute("DELETE FROM g WHERE id %% 4 = %s", (number,))
                db.execute("VACUUM (INDEX_CLEANUP ON) g")
                db.execute(vectors(1000 + 100 * number, 1059 + 100 * number))
                db.execute(BUILDS[number].format(**{name: graph(graphs, name) for name in graphs}))
                db.execute(vectors(1060 + 100 * number, 1099 + 100 * number))
            for name in alike:
                centre = centre_of(cluster, db, name)
                check(any(centre[:4]) and not any(centre[8:]), f"{name} has chosen no centre: {centre.hex()}")
            told = []
            for index in leaves:
                told.append(f"{index.index}: {index.splits} splits, {index.merges} merges, {index.deletions} deletions")
                check(index.splits and index.merges, f"what was to be replayed did not happen: {told}")
            check(leaves[0].deletions, f"no leaf was deleted: {told}")
            follows(standby, db)
            stop.set()
            thread.join(60)
            check(not thread.is_alive(), "the reader on the standby does not end")
            check(not wrong, f"a scan on the standby: {wrong[:3]}")
            check(compared[0] > 0, "nothing was compared on the standby meanwhile")
            with standby.connect() as reader:
                index_only(reader)
                index_only(db)
                for order in ("k", 't COLLATE "en-x-icu"', "k DESC", long):
                    query = f"SELECT count(*) || md5(string_agg(x::text, ',')) FROM (SELECT * FROM r ORDER BY {order}, id) x"
                    db.execute("SET enable_sort = on")
                    reader.execute("SET enable_sort = on")
                    same(one(db, query), one(reader, query), f"ORDER BY {order}")
                query = ("SELECT string_agg(id::text, ',') FROM (SELECT id FROM r WHERE id <= 100"
                         " ORDER BY ARRAY[k, id]::real[] OPERATOR(treedb.<->) '{50, 70}' LIMIT 20) x")
                same(one(db, query), one(reader, query), "the nearest rows")
                query = ("SELECT string_agg(id::text, ',') FROM (SELECT id FROM r WHERE id <= 100 ORDER BY"
                         " ARRAY[k, id]::real[] || array_fill(mod(k, 9), ARRAY[68])::real[] OPERATOR(treedb.<->) array_fill(5, ARRAY[70])::real[] LIMIT 20) x")
                same(one(db, query), one(reader, query), "the nearest rows by codes of neighbours")
                for name, (_, _, order) in graphs.items():
                    reader.execute("SET enable_sort = off")
                    check(name in "\n".join(lines(reader, "EXPLAIN (COSTS OFF) " + nearest(order))), f"not by {name}")
                    same(one(db, nearest(order)), one(reader, nearest(order)), f"the nearest rows by {name}")
                plan = "\n".join(line for line, in reader.execute("EXPLAIN (COSTS OFF) SELECT k FROM r WHERE k = 5"))
                check("Index Only" not in plan, f"an index-only scan on a standby: {plan}")
                for query in FINDS + NEAREST + NEAR_DOCUMENTS:
                    found = lines(reader, query)
                    check(found, f"nothing is found: {query}")
                    same(found, lines(db, query), query)
                for table in ("r", "s", "g"):
                    same(lines(reader, "SELECT treedb.check(%s)", (table,)), [], f"check of {table} on the standby")
                follows(standby, db)
                for index in ("r_k", "r_wide", "r_t", "s_a_1_k_1"):
                    same(lines(reader, PAGES, (index,)), lines(db, PAGES, (index,)), f"pages of {index}")
                refused(reader, "SELECT treedb.insert_one('s', '{}')", "25006")
            shell('as_pg "$PG_BIN/pg_ctl" -D "$1" -w -s promote', standby.data)
            with standby.connect() as promoted:
                for table in ("r", "s", "g"):
                    same(lines(promoted, "SELECT treedb.check(%s)", (table,)), [], f"check of {table} after promotion")
                promoted.execute("INSERT INTO r SELECT i, i, 'new' FROM generate_series(10000, 13000) i")
                promoted.execute(documents(20000, 21000))
                promoted.execute("SELECT treedb.delete_many('s', '{\"a\": 5}')")
                promoted.execute("VACUUM s")
                promoted.execute("DELETE FROM g WHERE id % 3 = 0")
                promoted.execute("VACUUM (INDEX_CLEANUP ON) g")
                promoted.execute(vectors(5000, 5200))
                refused(promoted, "SELECT treedb.insert_one('s', '{\"u\": 20500}')", "23505")
                for by_index, by_table in zip(FINDS[::2], FINDS[1::2], strict=True):
                    same(lines(promoted, by_index), lines(promoted, by_table), f"after promotion: {by_index}")
                for table in ("r", "s", "g"):
                    same(lines(promoted, "SELECT treedb.check(%s)", (table,)), [], f"check of {table} after changes")
            for log in (standby.log(), cluster.log()):
                check("inconsistent page" not in log, "redo made another page than the primary had")
            db.execute("ALTER SYSTEM RESET wal_consistency_checking")
            db.execute("SELECT pg_reload_conf()")
            db.execute("DROP TABLE r, s, g")
            if len(alike) > 1:
                db.execute("DROP EXTENSION vector CASCADE")
    return f"{'; '.join(told)}; {compared[0]} comparisons meanwhile"


# What is indexed of rows that are much alike, but for four of them, which are too many among 32 for a centre, and few enough among 256.
MUCH_ALIKE = ("ARRAY(SELECT CASE WHEN i <= 4 THEN 0 WHEN j % 3 = 0 THEN -60 ELSE 60 END + sin((i % 9 + 1) * j * 1.7) + 0.6 * sin(i * j * 1.3)"
              " FROM generate_series(1, {dimensions}) j)::real[]")


def a_check_on_a_standby_bears_with_codes_that_are_made_anew_meanwhile(cluster):
    """All codes are made anew, and that is replayed, between what a check reads of an index first and what it compares: it takes none for wrong."""
    # Codes of neighbours in nodes, and codes in place of vectors.
    tables = {"c_near": ("treedb.real_cosine_ops", 24), "c_far": ("treedb.real_l2_ops", 1900)}
    rows = "INSERT INTO {table} SELECT i, {vector} FROM generate_series({first}, {last}) i"
    with standby_of(cluster) as standby:
        with cluster.connect() as db:
            for table, (operators, dimensions) in tables.items():
                db.execute(f"CREATE TABLE {table} (id int, e real[]) WITH (autovacuum_enabled = off)")
                db.execute(f"CREATE INDEX {table}_e ON {table} USING treedb_hnsw (e {operators}) WITH (dimensions = {dimensions}, m = 6)")
                db.execute(rows.format(table=table, vector=MUCH_ALIKE.format(dimensions=dimensions), first=1, last=250))
                check(not any(centre_of(cluster, db, f"{table}_e")[:4]), f"{table}_e has chosen a centre already")
            start_standby(standby, cluster)
            follows(standby, db)
            with standby.connect() as holder, standby.connect() as reader:
                reader.execute("SET treedb.pause = 'hnsw_check'")
                for table, (_, dimensions) in tables.items():
                    holder.execute("SELECT pg_advisory_lock(0)")
                    found = []
                    thread = threading.Thread(target=lambda of=table, into=found: into.append(lines(reader, "SELECT treedb.check(%s)", (of,))), daemon=True)
                    thread.start()
                    until = time.monotonic() + 60
                    while not one(holder, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
                        check(thread.is_alive() and time.monotonic() < until, f"the check of {table} does not wait: {found}")
                        time.sleep(.02)
                    db.execute(rows.format(table=table, vector=MUCH_ALIKE.format(dimensions=dimensions), first=251, last=300))
                    centre = centre_of(cluster, db, f"{table}_e")
                    check(any(centre[:4]) and not any(centre[8:]), f"{table}_e has chosen no centre: {centre.hex()}")
                    follows(standby, db)
                    check(thread.is_alive(), "the check did not wait until that was replayed")
                    holder.execute("SELECT pg_advisory_unlock(0)")
                    thread.join(60)
                    same(found, [[]], f"check of {table} while its codes are made anew")
                    same(lines(holder, "SELECT treedb.check(%s, true)", (table,)), [], f"check of {table} afterwards")
            db.execute(f"DROP TABLE {', '.join(tables)}")
