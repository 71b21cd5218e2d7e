#!/usr/bin/env python3
"""What SQL alone cannot test of the Postgres extension: scripts/pg_faults.sh [TEST..]

Damaged index files (damage.py), a standby (standby.py), dump and restore, cancelling long work, waits for pins. Every test is a
function that raises what it finds.
"""
import random
import sys
import threading
import time

import psycopg

from claims import PAGE, check, index_only, lines, one, refused, run, same
from damage import (
    a_backward_scan_of_a_damaged_index_never_goes_round,
    a_check_finds_a_wrong_code_of_a_neighbour,
    an_entry_that_says_that_a_text_is_minus_zero_has_its_text,
    an_infinite_element_of_a_centre_of_halves_is_damage,
    damaged_bytes_of_a_compressed_key_are_errors,
    damaged_pages_are_errors_and_never_crashes,
    pages_that_lead_back_end_every_walk,
)
from standby import a_check_on_a_standby_bears_with_codes_that_are_made_anew_meanwhile, a_standby_answers_as_the_primary

SETTINGS = ["shared_buffers = 8MB", "wal_keep_size = 1GB", "max_wal_senders = 4", "hot_standby = on", "deadlock_timeout = 100ms"]


def only_superusers_kill_backends_at_a_point(cluster):
    """Settings for tests, which development builds have: what makes the server recover is for superusers."""
    with cluster.connect() as db:
        db.execute("LOAD 'treedb_pg'")
        db.execute("CREATE ROLE somebody")
        db.execute("SET ROLE somebody")
        refused(db, "SET treedb.crash = 'leaf_split'", "42501")
        db.execute("SET treedb.fault = 'none'")
        db.execute("RESET ROLE")
        db.execute("SET treedb.crash = 'none'")
        db.execute("RESET treedb.crash; DROP ROLE somebody")


def vacuum_waits_for_the_page_of_an_index_only_scan(cluster):
    with cluster.connect() as reader, cluster.connect() as vacuum:
        vacuum.execute("CREATE TABLE pin (id int) USING treedb")
        vacuum.execute("INSERT INTO pin SELECT generate_series(1, 5000)")
        vacuum.execute("CREATE INDEX pin_id ON pin USING treedb_btree (id)")
        vacuum.execute("VACUUM ANALYZE pin")
        vacuum.execute("DELETE FROM pin WHERE id BETWEEN 20 AND 40")
        index_only(reader)
        reader.execute("BEGIN")
        reader.execute("DECLARE c CURSOR FOR SELECT id FROM pin WHERE id > 10 ORDER BY id")
        same(reader.execute("FETCH 3 FROM c").fetchall(), [(11,), (12,), (13,)], "the scan begins")
        thread = threading.Thread(target=vacuum.execute, args=("VACUUM (INDEX_CLEANUP ON) pin",), daemon=True)
        thread.start()
        thread.join(1)
        check(thread.is_alive(), "vacuum did not wait for the scan's page")
        with cluster.connect() as db:
            same(one(db, "SELECT wait_event FROM pg_stat_activity WHERE query LIKE 'VACUUM%%pin'"), "BufferPin", "what vacuum waits for")
        rows = reader.execute("FETCH ALL FROM c").fetchall()
        same(len(rows), 5000 - 13 - 21, "rows of the scan")
        reader.execute("COMMIT")
        thread.join(20)
        check(not thread.is_alive(), "vacuum still waits after the scan has ended")
        same(one(vacuum, "SELECT count(*) FROM treedb.check('pin')"), 0, "check")


def pages_that_a_crash_left_empty_are_used_again(cluster):
    leaves = "SELECT count(*) FROM treedb.index_pages('left_i') WHERE kind = 'leaf'"
    with cluster.connect() as db:
        db.execute("CREATE TABLE left_empty (id int) WITH (autovacuum_enabled = off)")
        db.execute("INSERT INTO left_empty SELECT generate_series(1, 20000)")
        db.execute("CREATE INDEX left_i ON left_empty USING treedb_btree (id)")
        path = one(db, "SELECT pg_relation_filepath('left_i')")
    # As a crash leaves them: added to the file, and nothing written to them yet.
    cluster.stop()
    with (cluster.data / path).open("ab") as file:
        file.write(bytes(3 * PAGE))
    cluster.start()
    with cluster.connect() as db:
        before, size = one(db, leaves), one(db, "SELECT pg_relation_size('left_i')")
        db.execute("DELETE FROM left_empty WHERE id % 1000 = 0")
        db.execute("VACUUM (INDEX_CLEANUP ON) left_empty")
        start = 20001
        while one(db, leaves) < before + 3:
            check(start < 100000, "the inserts split no leaves")
            db.execute("INSERT INTO left_empty SELECT generate_series(%s::int, %s::int)", (start, start + 99))
            start += 100
        same(one(db, "SELECT pg_relation_size('left_i')"), size, "the index's size after three splits")
        same(one(db, "SELECT count(*) FROM treedb.check('left_i')"), 0, "check")


def progress_of_builds(cluster, table, index, counts, wanted):
    """Builds an index on a table until all wanted phases were seen; returns the counts that were seen in each phase."""
    phases, stop = {}, threading.Event()
    with cluster.connect() as db, cluster.connect() as watcher:
        for statement in table:
            db.execute(statement)

        def watch():
            while not stop.is_set():
                for phase, *seen in watcher.execute(f"SELECT phase, {counts} FROM pg_stat_progress_create_index"):
                    phases.setdefault(phase, set()).add(tuple(seen))

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        for _ in range(20):
            db.execute(f"CREATE INDEX watched_i ON watched {index}")
            db.execute("DROP INDEX watched_i")
            if set(wanted) <= phases.keys():
                break
        stop.set()
        thread.join(20)
        db.execute("DROP TABLE watched")
    check(set(wanted) <= phases.keys(), f"phases seen: {list(phases)}")
    return [phases[phase] for phase in wanted]


def a_build_shows_how_far_it_is(cluster):
    rows = 400000
    table = ("CREATE TABLE watched (id int) WITH (parallel_workers = 1)",
             f"INSERT INTO watched SELECT i * 5 % 1000003 FROM generate_series(1, {rows}) i")
    scans, loads = progress_of_builds(cluster, table, "USING treedb_btree (id)", "blocks_total, blocks_done, tuples_total, tuples_done",
                                      ("building index: scanning table", "building index: loading tuples in tree"))
    check(any(0 < done <= total for total, done, _, _ in scans), f"blocks while the table is read: {scans}")
    check(any(total == rows and 0 < done <= total for _, _, total, done in loads), f"entries while leaves are written: {loads}")


def a_build_of_a_graph_shows_how_far_it_is(cluster):
    rows = 6000
    table = ("CREATE TABLE watched (e real[]) WITH (parallel_workers = 1)",
             f"INSERT INTO watched SELECT ARRAY(SELECT sin(i * j) FROM generate_series(1, 24) j)::real[] FROM generate_series(1, {rows}) i")
    graphs, pages = progress_of_builds(cluster, table, "USING treedb_hnsw (e) WITH (dimensions = 24)", "blocks_total, blocks_done, tuples_done",
                                       ("building index: building graph", "building index: writing pages"))
    check(any(0 < blocks <= total for total, blocks, _ in graphs), f"blocks while the graph is built: {graphs}")
    check(len({done for _, _, done in graphs}) > 1 and all(done <= rows for _, _, done in graphs), f"rows while the graph is built: {graphs}")
    check(all(done == rows for _, _, done in pages), f"rows while pages are written: {pages}")


def a_check_goes_on_beside_changes_and_reports_none_of_them(cluster):
    seconds, stop, failed, checks = 8, threading.Event(), [], 0
    with cluster.connect() as db:
        db.execute("CREATE TABLE busy (id int, v text) WITH (autovacuum_enabled = off)")
        db.execute("INSERT INTO busy SELECT i, md5(i::text) || repeat('k', 100) FROM generate_series(1, 4000) i")
        db.execute("CREATE INDEX busy_id ON busy USING treedb_btree (id)")
        db.execute('CREATE INDEX busy_v ON busy USING treedb_btree (v COLLATE "en-x-icu")')

    def work(number):
        dice = random.Random(number)
        try:
            with cluster.connect() as db:
                while not stop.is_set():
                    start = dice.randrange(1, 8000)
                    if number == 0:
                        db.execute("VACUUM (INDEX_CLEANUP ON) busy")
                    elif number == 1:
                        db.execute("DELETE FROM busy WHERE id BETWEEN %s AND %s", (start, start + 600))
                    else:
                        db.execute("INSERT INTO busy SELECT i, md5((i * 7)::text) || repeat('k', 100) FROM generate_series(%s::int, %s::int) i",
                                   (start, start + 300))
        except Exception as error:
            failed.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    with cluster.connect() as db:
        before = db.execute("SELECT pg_relation_size('busy_id'), pg_relation_size('busy_v')").fetchone()
        while time.monotonic() < until:
            for relation, rows in (("busy", "true"), ("busy_v", "false")):
                same(db.execute(f"SELECT treedb.check('{relation}', heapallindexed => {rows})").fetchall(), [], f"check of {relation}")
                checks += 1
        after = db.execute("SELECT pg_relation_size('busy_id'), pg_relation_size('busy_v')").fetchone()
    stop.set()
    for thread in threads:
        thread.join(30)
    check(not failed, f"beside the checks: {failed[:2]}")
    check(after != before, "the indexes did not change meanwhile")
    with cluster.connect() as db:
        same(db.execute("SELECT treedb.check('busy')").fetchall(), [], "check afterwards")
        db.execute("BEGIN")
        db.execute("SELECT treedb.check('busy')")
        modes = db.execute("SELECT DISTINCT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN ('busy'::regclass, 'busy_id'::regclass, 'busy_v'::regclass)")
        same(modes.fetchall(), [("AccessShareLock",)], "locks of a check")
        db.execute("ROLLBACK")
        db.execute("DROP TABLE busy")
    return f"{checks} checks"


def a_check_finds_what_is_missing_and_what_is_too_much(cluster):
    with cluster.connect() as db:
        db.execute("CREATE TABLE odd (id int) WITH (autovacuum_enabled = off)")
        db.execute("INSERT INTO odd SELECT generate_series(1, 20000)")
        db.execute("CREATE INDEX odd_i ON odd USING treedb_btree (id)")
        db.execute("CHECKPOINT")
        path, leaf, next_leaf = one(db, "SELECT pg_relation_filepath('odd_i')"), *[row[0] for row in db.execute(
            "SELECT block FROM treedb.index_pages('odd_i') WHERE kind = 'leaf' ORDER BY block OFFSET 3 LIMIT 2").fetchall()]
    file = cluster.data / path
    whole = file.read_bytes()

    def found(change, rows=True):
        cluster.stop()
        data = bytearray(whole)
        change(data)
        file.write_bytes(data)
        cluster.start()
        with cluster.connect() as db:
            return [row[0] for row in db.execute(f"SELECT treedb.check('odd_i', {rows})").fetchall()]

    def last_entry_away(data):
        # A packed leaf: the number of entries is 2 bytes from the payload's beginning, marks and hole follow the entries.
        at = leaf * PAGE
        count, prefix, width = (int.from_bytes(data[at + 24 + n:at + 26 + n], "little") for n in (2, 4, 6))
        data[at + 26:at + 28] = (count - 1).to_bytes(2, "little")
        end = at + 24 + 8 + prefix + (count - 1) * width
        marks = (count - 1 + 7) // 8
        lower = end + marks - at
        data[at + 12:at + 14] = lower.to_bytes(2, "little")
        data[end:at + 24 + 8 + prefix + count * width + (count + 7) // 8] = bytes(width + (count + 7) // 8)

    def past_the_next(data):
        data[leaf * PAGE + PAGE - 24:leaf * PAGE + PAGE - 20] = (next_leaf + 1).to_bytes(4, "little")

    missing = found(last_entry_away)
    check(len(missing) == 1 and "has no entry" in missing[0], f"a missing entry: {missing}")
    same(found(last_entry_away, rows=False), [], "a missing entry, without the table")
    skipped = found(past_the_next, rows=False)
    check(skipped and any("parent" in line or "no page leads to it" in line or "below it" in line for line in skipped), f"a leaf out of its chain: {skipped}")
    cluster.stop()
    file.write_bytes(whole)
    cluster.start()
    with cluster.connect() as db:
        same(db.execute("SELECT treedb.check('odd_i')").fetchall(), [], "check of the whole index")
        db.execute("DELETE FROM odd WHERE id % 2 = 0")
        db.execute("CHECKPOINT")
        old = file.read_bytes()
        db.execute("VACUUM (INDEX_CLEANUP ON) odd")
    cluster.stop()
    file.write_bytes(old)
    cluster.start()
    with cluster.connect() as db:
        dangling = [row[0] for row in db.execute("SELECT treedb.check('odd_i')").fetchall()]
        check(len(dangling) == 100 and "free for reuse" in dangling[0], f"entries of rows that are gone: {dangling[:2]}")
        db.execute("DROP TABLE odd")


def compressed_value(cluster, table, index):
    """Of an index with values that repeat `common`, stops the server and returns its file, what is in it, its first leaf, and where a compressed value of that begins."""
    with cluster.connect() as db:
        same(lines(db, f"SELECT treedb.check('{table}', true)"), [], "check of the whole index")
        db.execute("CHECKPOINT")
        path = one(db, f"SELECT pg_relation_filepath('{index}')")
        leaf = one(db, f"SELECT min(block) FROM treedb.index_pages('{index}') WHERE kind = 'leaf'")
    cluster.stop()
    file = cluster.data / path
    whole = file.read_bytes()
    # It begins with the length of what it stands for; then come a byte of pglz's and the first letters.
    at = whole.index((12000).to_bytes(4, "big"), leaf * PAGE, (leaf + 1) * PAGE)
    same(whole[at + 5:at + 11], b"common", "what is compressed")
    return file, whole, leaf, at


def a_check_reports_compressed_keys_that_are_damaged(cluster):
    with cluster.connect() as db:
        db.execute("CREATE TABLE deep (id int, v text COLLATE \"C\")")
        db.execute("INSERT INTO deep SELECT i, repeat('common', 1990) || lpad(i::text, 60, '0') FROM generate_series(1, 200) i")
        db.execute("CREATE INDEX deep_v ON deep USING treedb_btree (v)")
    file, whole, leaf, at = compressed_value(cluster, "deep", "deep_v")
    wrong_length = whole[:at] + (12001).to_bytes(4, "big") + whole[at + 4:]
    other_value = whole[:at + 6] + b"x" + whole[at + 7:]
    # The other value is greater than what separates the leaf from its right neighbour.
    for damaged, problem in ((wrong_length, f"block {leaf}: expected a compressed value, found bytes that cannot be decompressed"),
                             (other_value, "found one below it")):
        file.write_bytes(damaged)
        cluster.start()
        with cluster.connect() as db:
            found = lines(db, "SELECT treedb.check('deep')")
            check(len(found) == 1 and problem in found[0], f"{problem}: {found}")
        cluster.stop()
    file.write_bytes(whole)
    cluster.start()
    with cluster.connect() as db:
        same(lines(db, "SELECT treedb.check('deep')"), [], "check of the index as it was")
        db.execute("REINDEX TABLE deep")
        same(lines(db, "SELECT treedb.check('deep')"), [], "check after REINDEX")
        db.execute("DROP TABLE deep")


def a_check_reports_included_values_that_are_damaged(cluster):
    """Included values are compared with those of the rows: one that cannot be decompressed is reported as one that is another."""
    with cluster.connect() as db:
        db.execute("CREATE TABLE kept (id int, v text)")
        db.execute("INSERT INTO kept SELECT i, repeat('common', 1990) || lpad(i::text, 60, '0') FROM generate_series(1, 20) i")
        db.execute("CREATE INDEX kept_id ON kept USING treedb_btree (id) INCLUDE (v)")
    file, whole, _, at = compressed_value(cluster, "kept", "kept_id")
    wrong_length = whole[:at] + (12001).to_bytes(4, "big") + whole[at + 4:]
    no_method = whole[:at] + (3 << 30 | 12000).to_bytes(4, "big") + whole[at + 4:]
    other_value = whole[:at + 6] + b"x" + whole[at + 7:]
    for damaged in (wrong_length, no_method, other_value):
        file.write_bytes(damaged)
        cluster.start()
        with cluster.connect() as db:
            found = lines(db, "SELECT treedb.check('kept', true)")
            check(len(found) == 1 and "has other included values" in found[0], f"{found}")
        cluster.stop()
    file.write_bytes(whole)
    cluster.start()
    with cluster.connect() as db:
        same(lines(db, "SELECT treedb.check('kept', true)"), [], "check of the index as it was")
        db.execute("DROP TABLE kept")


def long_work_can_be_cancelled(cluster):
    with cluster.connect() as db:
        db.execute("CREATE TABLE long (id int, v text) USING treedb")
        db.execute("INSERT INTO long SELECT i, md5(i::text) FROM generate_series(1, 120000) i")
        db.execute("SET maintenance_work_mem = '64MB'")
        slow = {
            "build": 'CREATE INDEX cancelled ON long USING treedb_btree (v COLLATE "en-x-icu")',
            "build, one column": "CREATE INDEX cancelled ON long USING treedb_btree (id)",
            "build with temporary files": 'SET LOCAL maintenance_work_mem = 1024; CREATE INDEX cancelled ON long USING treedb_btree (v COLLATE "C")',
            "inserts": "INSERT INTO long SELECT i, md5(i::text) FROM generate_series(1, 3000000) i",
            "build of a graph": "CREATE INDEX cancelled ON long USING treedb_hnsw ((ARRAY[id, id % 7, id % 11]::real[])) WITH (dimensions = 3)",
            "check": "SELECT count(*) FROM treedb.check('long')",
            "scan": "SELECT count(*) FROM long x WHERE v COLLATE \"C\" > '0' AND v COLLATE \"C\" < (SELECT max(v) FROM long) AND id < 0",
            "vacuum": "VACUUM (INDEX_CLEANUP ON) long",
        }
        told = []
        for what, statement in slow.items():
            cancelled = 0
            if what == "inserts":
                db.execute('CREATE INDEX long_v ON long USING treedb_btree (v COLLATE "C")')
            if what == "scan":
                index_only(db)
            if what == "vacuum":
                db.execute("UPDATE long SET v = v || 'x'")
            for after in (5, 60):
                db.execute(f"SET statement_timeout = {after}")
                started = time.monotonic()
                try:
                    db.execute(statement)
                except psycopg.errors.QueryCanceled:
                    cancelled += 1
                took = time.monotonic() - started
                db.execute("RESET statement_timeout")
                check(took < after / 1000 + 2, f"{what}: cancelled after {after} ms, it took {took:.1f} s")
                db.execute("DROP INDEX IF EXISTS cancelled")
            check(cancelled > 0, f"{what}: it ended before it could be cancelled")
            told.append(f"{what} {cancelled}")
        # Keys that are compressed, and begin alike for longer than a sort remembers of them: to compare them takes most of a build.
        db.execute("CREATE TABLE alike (v text) USING treedb")
        db.execute("INSERT INTO alike SELECT repeat('x', 200000) || i FROM generate_series(1, 700) i")
        build = "CREATE INDEX cancelled ON alike USING treedb_btree (v COLLATE \"C\")"
        started = time.monotonic()
        db.execute(build + "; DROP INDEX cancelled")
        whole = time.monotonic() - started
        cancelled = 0
        for part in (.1, .25, .5):
            db.execute(f"SET statement_timeout = {int(1000 * whole * part)}")
            started = time.monotonic()
            try:
                db.execute(build)
            except psycopg.errors.QueryCanceled:
                cancelled += 1
            took = time.monotonic() - started
            db.execute("RESET statement_timeout")
            db.execute("DROP INDEX IF EXISTS cancelled")
            check(took < whole * part + 2, f"build over compressed keys: cancelled after {whole * part:.1f} s, it took {took:.1f} s")
        # The first one may have taken much longer, on a machine that is busy with other things.
        check(cancelled > 0, f"build over compressed keys: it ended before a tenth of {whole:.1f} s")
        told.append(f"build over compressed keys {cancelled} of 3 in {whole:.1f} s")
        db.execute("RESET ALL")
        same(one(db, "SELECT count(*) FROM treedb.check('long')"), 0, "check after it all")
        db.execute("DROP TABLE long, alike")
    return "cancelled of 2: " + ", ".join(told)


# What is in an index's pages, as far as the log says it.


def a_dump_restores_tables_and_indexes(cluster):
    with cluster.connect() as db:
        db.execute("CREATE SCHEMA dumped")
        db.execute("CREATE TABLE dumped.a (id int PRIMARY KEY, v text, at timestamptz) USING treedb")
        db.execute("CREATE INDEX a_v ON dumped.a USING treedb_btree (v COLLATE \"en-x-icu\" DESC, at) WHERE id > 10")
        db.execute("CREATE INDEX a_low ON dumped.a USING treedb_btree (lower(v) treedb.text_ops)")
        db.execute("INSERT INTO dumped.a SELECT i, md5(i::text), now() FROM generate_series(1, 3000) i")
        db.execute("CREATE DATABASE restored")
        file = cluster.dir / "dump"
        cluster.program("pg_dump", "-Fc", "-f", str(file), "postgres")
        cluster.program("pg_restore", "--exit-on-error", "-d", "restored", str(file))
        facts = """SELECT c.relname, a.amname, CASE WHEN c.relkind = 'i' THEN pg_get_indexdef(c.oid) END
                   FROM pg_class c JOIN pg_am a ON a.oid = c.relam
                   WHERE c.relnamespace = 'dumped'::regnamespace ORDER BY 1"""
        rows = "SELECT md5(string_agg(a::text, ',' ORDER BY id)) FROM dumped.a"
        with psycopg.connect(host=str(cluster.dir), port=cluster.port, user="postgres", dbname="restored",
                             autocommit=True) as other:
            same(db.execute(facts).fetchall(), other.execute(facts).fetchall(), "tables and indexes")
            same(one(db, rows), one(other, rows), "rows")
            same(other.execute("SELECT treedb.check('dumped.a')").fetchall(), [], "check")
        db.execute("DROP DATABASE restored")


def writers_of_one_unique_index_over_arrays_never_share_an_element_and_never_deadlock(cluster):
    """The second writer of a key waits before it inserts its entries, so two writers never wait for each other."""
    with cluster.connect() as db:
        db.execute("SELECT treedb.create_collection('un'); SELECT treedb.create_index('un', '{\"e\": 1}', '{\"unique\": true}')")
    told, problems = {}, []

    def write(seed):
        dice = random.Random(seed)
        with cluster.connect() as session:
            for number in range(400):
                elements = sorted(dice.sample(range(12), dice.choice((1, 1, 2, 3))), key=lambda _: dice.random())
                document = f'{{"_id": "{seed} {number}", "e": {elements}}}'
                statement = dice.choice((
                    f"SELECT treedb.insert_one('un', '{document}')",
                    f"SELECT treedb.update_one('un', '{{\"e\": {elements[0]}}}', '{{\"$set\": {{\"by\": {seed}}}}}', '{{\"upsert\": true}}')",
                    f"SELECT treedb.delete_one('un', '{{\"e\": {elements[0]}}}')",
                    f"SELECT treedb.delete_one('un', '{{\"e\": {elements[0]}}}')",
                    f"INSERT INTO un VALUES ('{document}') ON CONFLICT DO NOTHING"))
                try:
                    session.execute(statement)
                    told["ok"] = told.get("ok", 0) + 1
                except psycopg.Error as error:
                    told[error.sqlstate] = told.get(error.sqlstate, 0) + 1
                    # An upsert meets no duplicate: it updates what there is.
                    if error.sqlstate != "23505" or "upsert" in statement:
                        problems.append(f"{statement}: {error}")

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not problems, "\n".join(problems[:5]))
    with cluster.connect() as db:
        shared = db.execute("SELECT e, count(*) FROM un, LATERAL jsonb_array_elements(CASE jsonb_typeof(doc::jsonb -> 'e') WHEN 'array' THEN doc::jsonb -> 'e' ELSE"
                            " jsonb_build_array(doc::jsonb -> 'e') END) e GROUP BY e HAVING count(*) > 1").fetchall()
        same(shared, [], "elements of several documents")
        same(db.execute("SELECT treedb.check('un')").fetchall(), [], "check")
        db.execute("DROP TABLE un")
    check(told.get("23505", 0) > 20, f"the writers did not meet: {told}")
    return f"{told['ok']} done, {told['23505']} duplicates"


TESTS = [writers_of_one_unique_index_over_arrays_never_share_an_element_and_never_deadlock,
         vacuum_waits_for_the_page_of_an_index_only_scan, pages_that_a_crash_left_empty_are_used_again,
         a_build_shows_how_far_it_is, a_build_of_a_graph_shows_how_far_it_is, a_check_goes_on_beside_changes_and_reports_none_of_them,
         a_check_finds_what_is_missing_and_what_is_too_much, a_check_reports_compressed_keys_that_are_damaged, a_check_reports_included_values_that_are_damaged, damaged_bytes_of_a_compressed_key_are_errors, long_work_can_be_cancelled,
         a_dump_restores_tables_and_indexes, a_standby_answers_as_the_primary, a_check_on_a_standby_bears_with_codes_that_are_made_anew_meanwhile,
         a_check_finds_a_wrong_code_of_a_neighbour, an_infinite_element_of_a_centre_of_halves_is_damage, only_superusers_kill_backends_at_a_point, a_backward_scan_of_a_damaged_index_never_goes_round, an_entry_that_says_that_a_text_is_minus_zero_has_its_text,
         pages_that_lead_back_end_every_walk, damaged_pages_are_errors_and_never_crashes]


if __name__ == "__main__":
    sys.exit(run(TESTS, SETTINGS))
