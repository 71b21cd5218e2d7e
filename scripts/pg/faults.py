#!/usr/bin/env python3
"""What SQL alone cannot test of the Postgres extension: scripts/pg_faults.sh [TEST..]

Damaged index files, a standby, dump and restore, cancelling long work, waits for pins. Every test is a
function that raises what it finds.
"""
import os
import random
import shutil
import sys
import threading
import time

import psycopg

from claims import PAGE, check, lines, one, refused, run, same
from cluster import Cluster, shell

SETTINGS = ["shared_buffers = 8MB", "wal_keep_size = 1GB", "max_wal_senders = 4", "hot_standby = on", "deadlock_timeout = 100ms"]


def index_only(db):
    for setting in ("seqscan", "bitmapscan", "sort"):
        db.execute(f"SET enable_{setting} = off")


# Each damages a file in its own way: bytes of the file, dice.
def flip_bytes(data, dice):
    page = dice.randrange(len(data) // PAGE) * PAGE
    for _ in range(dice.randrange(1, 9)):
        data[page + dice.randrange(PAGE)] = dice.randrange(256)


def flip_slots(data, dice):
    page = dice.randrange(1, len(data) // PAGE) * PAGE
    for _ in range(dice.randrange(1, 30)):
        data[page + 24 + dice.randrange(300)] = dice.choice((0, 1, 127, 255, dice.randrange(256)))


def flip_end(data, dice):
    page = dice.randrange(len(data) // PAGE) * PAGE
    for _ in range(dice.randrange(1, 4)):
        data[page + PAGE - 24 + dice.randrange(20)] = dice.choice((0, 1, 2, 4, 255, dice.randrange(256)))


def garbage(data, dice):
    page = dice.randrange(len(data) // PAGE) * PAGE
    start = page + dice.randrange(24, PAGE - 200)
    data[start:start + 200] = dice.randbytes(200)


def zero_page(data, dice):
    page = dice.randrange(len(data) // PAGE) * PAGE
    data[page:page + PAGE] = bytes(PAGE)


def swap_pages(data, dice):
    a, b = (dice.randrange(len(data) // PAGE) * PAGE for _ in range(2))
    data[a:a + PAGE], data[b:b + PAGE] = data[b:b + PAGE], data[a:a + PAGE]


def cut_short(data, dice):
    del data[dice.randrange(1, len(data) // PAGE) * PAGE:]


def link_ring(data, dice):
    pages = len(data) // PAGE
    page = dice.randrange(1, pages) * PAGE
    data[page + PAGE - 24:page + PAGE - 20] = dice.randrange(pages).to_bytes(4, "little")


# Where a page has its right neighbour and its flags.
NEXT, FLAGS = PAGE - 24, PAGE - 18
INCOMPLETE = 2


def put(data, block, at, number, size):
    data[block * PAGE + at:block * PAGE + at + size] = number.to_bytes(size, "little")


def copy_separator(data, branch, source, target):
    """Makes a separator of a branch what another one is: its head and its slot. The children stay as they are."""
    node = branch * PAGE + 24
    capacity, prefix = (int.from_bytes(data[node + at:node + at + 2], "little") for at in (4, 6))
    heads = node + 16 + -(-prefix // 8) * 8
    for array, size in ((heads, 8), (heads + 12 * capacity, 2)):
        data[array + size * target:array + size * (target + 1)] = data[array + size * source:array + size * (source + 1)]


def damage(cluster, victims):
    """Stops the server and changes files: by path, what changes the bytes."""
    cluster.stop()
    for path, change in victims:
        file = cluster.data / path
        data = bytearray(file.read_bytes())
        change(data)
        file.write_bytes(data)
    cluster.start()


def pages_of(db, index):
    """The root of an index, and its leaves from left to right."""
    pages = {block: (kind, next) for block, kind, next in db.execute("SELECT block, kind, next FROM treedb.index_pages(%s)", (index,))}
    right = {next for kind, next in pages.values() if kind == "leaf"}
    leaves = [block for block, (kind, _) in pages.items() if kind == "leaf" and block not in right]
    while pages[leaves[-1]][1] is not None:
        leaves.append(pages[leaves[-1]][1])
    return pages[0][1], leaves


def a_backward_scan_of_a_damaged_index_never_goes_round(cluster):
    """A separator that is higher than what is searched for sends a scan that goes on before it back to where it was."""
    victims, scans = [], []
    with cluster.connect() as db:
        for order, key in (("c", 'v COLLATE "C"'), ("icu", 'v COLLATE "en-x-icu"')):
            # One table for each separator.
            number = leaves = 0
            while number < max(leaves - 2, 1):
                name = f"round_{order}_{number}"
                db.execute(f"CREATE TABLE {name} AS SELECT md5(i::text) || repeat('k', 150) v FROM generate_series(1, 400) i")
                db.execute(f"CREATE INDEX {name}_i ON {name} USING treedb_btree ({key})")
                root, blocks = pages_of(db, f"{name}_i")
                leaves = len(blocks)
                victims.append((one(db, "SELECT pg_relation_filepath(%s)", (f"{name}_i",)),
                                lambda data, root=root, last=leaves - 2, number=number: copy_separator(data, root, last, number)))
                scans.append((order, f"SELECT count(*) FROM (SELECT v FROM {name} ORDER BY {key} DESC OFFSET 0) x"))
                number += 1
    damage(cluster, victims)
    told = {}
    with cluster.connect() as db:
        index_only(db)
        db.execute("SET statement_timeout = '5s'")
        for order, scan in scans:
            try:
                db.execute(scan)
            except psycopg.errors.IndexCorrupted as error:
                check(tells_what_and_what_to_do(error), str(error))
                told.setdefault(order, []).append(error.diag.message_detail)
    for order in ("c", "icu"):
        check(any("found a higher one" in detail for detail in told.get(order, [])), f"no scan met the separator: {told}")
    return f"{len(scans)} scans, {sum(map(len, told.values()))} refused"


def pages_that_lead_back_end_every_walk(cluster):
    """A ring of leaves; a branch that leads to a leaf that is to be deleted; a root that says it was split and is none."""
    def made(db, name):
        db.execute(f"CREATE TABLE {name} AS SELECT i n FROM generate_series(1, 5000) i")
        db.execute(f"ALTER TABLE {name} SET (autovacuum_enabled = off)")
        db.execute(f"CREATE INDEX {name}_n ON {name} USING treedb_btree (n)")
        return one(db, "SELECT pg_relation_filepath(%s)", (f"{name}_n",)), *pages_of(db, f"{name}_n")

    with cluster.connect() as db:
        ring, _, ring_leaves = made(db, "ring")
        held, held_root, held_leaves = made(db, "held")
        db.execute("CREATE TABLE alone AS SELECT 1 n")
        db.execute("CREATE INDEX alone_n ON alone USING treedb_btree (n)")
        alone = one(db, "SELECT pg_relation_filepath('alone_n')")

    def split_and_no_root(data):
        # A bound above every key, where the hole was.
        put(data, 1, NEXT, 1, 4)
        put(data, 1, FLAGS, INCOMPLETE, 2)
        put(data, 1, NEXT - 8, 2 ** 64 - 1, 8)
        put(data, 1, PAGE - 8, 8, 2)
        put(data, 1, 14, NEXT - 8, 2)

    damage(cluster, [(ring, lambda data: put(data, ring_leaves[-1], NEXT, ring_leaves[0], 4)),
                     (held, lambda data: put(data, held_root, NEXT, held_leaves[0], 4)),
                     (alone, split_and_no_root)])
    with cluster.connect() as db:
        index_only(db)
        db.execute("SET statement_timeout = '5s'")
        for statement in ("SELECT count(*) FROM (SELECT n FROM ring ORDER BY n OFFSET 0) x", "INSERT INTO ring VALUES (6000)", "VACUUM (INDEX_CLEANUP ON) ring"):
            db.execute("DELETE FROM ring WHERE n = 1")
            error = refused(db, statement, "XX002", "is damaged")
            check("found a ring" in error.diag.message_detail, f"{statement}: {error}")
        db.execute("SET enable_seqscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off; DELETE FROM held WHERE n < 4000")
        refused(db, "VACUUM (INDEX_CLEANUP ON) held", "XX002", "is damaged")
        refused(db, "INSERT INTO alone VALUES (2)", "XX002", "is damaged")
        for table in ("ring", "held", "alone"):
            check(db.execute("SELECT treedb.check(%s)", (table,)).fetchall(), f"nothing wrong with {table}")
            db.execute(f"REINDEX TABLE {table}")
            same(db.execute("SELECT treedb.check(%s)", (table,)).fetchall(), [], f"{table} after REINDEX")
    for word in ("terminated by signal", "PANIC"):
        check(word not in cluster.log(), f"the server's log has {word!r}")


def damaged_bytes_of_a_compressed_key_are_errors(cluster):
    """The length, the method and the bytes of keys that are compressed by pglz and by lz4, changed in many ways, in indexes in the order of
    bytes and of a collation: a scan answers or is refused, a check reports it or all is as it was, and REINDEX heals it."""
    dice, victims, made = random.Random(5), [], []
    noise = "(SELECT string_agg(md5(i || '/' || j), '') FROM generate_series(1, 60) j)"
    # What comes again after as many bytes is found by lz4 only.
    values = {"pglz": f"repeat(left({noise}, 300), 20)", "lz4": f"{noise} || repeat('y', 6000) || {noise}"}
    with cluster.connect() as db:
        for kind, value in values.items():
            for order, key in (("c", 'v COLLATE "C"'), ("icu", 'v COLLATE "en-x-icu"')):
                for number in range(12):
                    name = f"z_{kind}_{order}_{number}"
                    db.execute(f"CREATE TABLE {name} AS SELECT i n, {value} v FROM generate_series(1, 3) i")
                    db.execute(f"CREATE INDEX {name}_v ON {name} USING treedb_btree ({key})")
                    made.append((name, kind, key))
                    victims.append((one(db, "SELECT pg_relation_filepath(%s)", (f"{name}_v",)), kind, order, number))
        whole = {kind: one(db, f"SELECT length(v) FROM z_{kind}_c_0 LIMIT 1") for kind in values}

    def change(kind, order, number):
        def changed(data):
            # Where the bytes of a key of the only leaf, a node, lie: the first eight in an array of numbers, the others in a cell.
            node = PAGE + 24
            count, capacity, prefix = (int.from_bytes(data[node + at:node + at + 2], "little") for at in (2, 4, 6))
            check(data[node] == 1 and count == 3 and prefix == 0, f"expected a node of 3 entries, found kind {data[node]} with {count}, prefix {prefix}")
            heads, key = node + 16, dice.randrange(count)
            slot = heads + 8 * capacity + 2 * key
            cell = node + int.from_bytes(data[slot:slot + 2], "little")

            def place(at):
                return heads + 8 * key + 7 - at if at < 8 else cell + 4 + at - 8

            def read(at, size):
                return int.from_bytes([data[place(i)] for i in range(at, at + size)], "big")

            def write(at, new):
                for i, byte in enumerate(new):
                    data[place(at + i)] = byte

            # In the order of bytes a marker of the key and one of the column come before the value, otherwise one.
            value = 2 if order == "c" else 1
            word, bits = value + 2, {"pglz": 0, "lz4": 1}[kind] << 30
            check(read(word, 4) == whole[kind] | bits, f"expected a value compressed by {kind}, found {read(word, 4):x}")
            length, end = read(value, 2) & 0x7fff, word + (read(value, 2) & 0x7fff)
            match number % 6:
                case 0:  # the method
                    write(word, dice.choice((2 << 30 | whole[kind], 3 << 30 | whole[kind], whole[kind] | bits ^ 1 << 30, 2 ** 32 - 1)).to_bytes(4, "big"))
                case 1:  # the length of the value, by little or much
                    write(word, (bits | dice.choice((0, 1, whole[kind] - 1, whole[kind] + 1, 2 * whole[kind], 2 ** 30 - 1))).to_bytes(4, "big"))
                case 2:  # the first instructions
                    write(word + 4, dice.randbytes(8))
                case 3:  # everything from somewhere on
                    start = dice.randrange(word + 4, end)
                    write(start, dice.randbytes(end - start))
                case 4:  # one bit near the end
                    at = end - 1 - dice.randrange(20)
                    write(at, [read(at, 1) ^ 1 << dice.randrange(8)])
                case 5:  # the length of what is compressed
                    write(value, (2 ** 15 | dice.choice((0, 1, 3, 4, 5, length - 1, length + 1, 2 ** 15 - 1))).to_bytes(2, "big"))

        return changed

    damage(cluster, [(path, change(kind, order, number)) for path, kind, order, number in victims])
    told, wrong = dict.fromkeys(values, 0), []
    for name, kind, key in made:
        with cluster.connect() as db:
            index_only(db)
            db.execute("SET statement_timeout = '5s'")
            for statement in (f"SELECT count(*), max(length(v)) FROM (SELECT v FROM {name} ORDER BY {key} OFFSET 0) x", f"SELECT count(*) FROM {name} WHERE {key} >= (SELECT v FROM {name} WHERE n = 2)",
                              f"INSERT INTO {name} SELECT n + 10, v || n FROM {name} ORDER BY n", f"SELECT count(*) FROM treedb.check('{name}', true)", f"DELETE FROM {name} WHERE n % 2 = 0",
                              f"VACUUM (INDEX_CLEANUP ON) {name}"):
                try:
                    db.execute(statement)
                except psycopg.Error as error:
                    if error.sqlstate not in ("XX001", "XX002") or not tells_what_and_what_to_do(error):
                        wrong.append(f"{name}, {statement}: {error.sqlstate} {error}")
                    if db.closed:
                        raise
                    told[kind] += 1
            db.execute(f"REINDEX TABLE {name}")
            same(db.execute("SELECT treedb.check(%s, true)", (name,)).fetchall(), [], f"{name} after REINDEX")
    check(not wrong, "\n".join(wrong))
    check(min(told.values()) > 20, f"few statements met the damage: {told}")
    for word in ("terminated by signal", "PANIC"):
        check(word not in cluster.log(), f"the server's log has {word!r}")
    return f"{len(made)} indexes, statements refused: {told}"


def an_entry_that_says_that_a_text_is_minus_zero_has_its_text(cluster):
    """Entries keep the columns that are -0 beside their keys, where damage may name a column that is no float."""
    with cluster.connect() as db:
        db.execute("CREATE TABLE texts AS SELECT 'text ' || i v FROM generate_series(1, 3) i")
        db.execute('CREATE INDEX texts_v ON texts USING treedb_btree (v COLLATE "en-x-icu")')
        path = one(db, "SELECT pg_relation_filepath('texts_v')")

    def lengthen(data):
        node = PAGE + 24
        count, capacity, prefix = (int.from_bytes(data[node + at:node + at + 2], "little") for at in (2, 4, 6))
        check(data[node] == 1 and count == 3, f"expected a node of 3 entries, found kind {data[node]} with {count}")
        slots = node + 16 + -(-prefix // 8) * 8 + 8 * capacity
        cells = [int.from_bytes(data[slots + 2 * i:slots + 2 * i + 2], "little") for i in range(count)]
        # The value is the length of the next cell's key then, of which one byte is 0.
        put(data, 1, 24 + min(cells) + 2, 2, 2)

    damage(cluster, [(path, lengthen)])
    with cluster.connect() as db:
        index_only(db)
        query = 'SELECT v FROM texts ORDER BY v COLLATE "en-x-icu"'
        db.execute("VACUUM (INDEX_CLEANUP OFF) texts")
        check("Index Only Scan" in "\n".join(lines(db, "EXPLAIN " + query)), "no index-only scan")
        same(lines(db, query), ["text 1", "text 2", "text 3"], "the texts")


def a_check_finds_a_wrong_code_of_a_neighbour(cluster):
    """One bit of the factor of the first link of a graph: searches go on, the check reports it, REINDEX heals it."""
    with cluster.connect() as db:
        db.execute("CREATE TABLE coded (e real[])")
        db.execute("INSERT INTO coded SELECT ARRAY[i] || array_fill(i % 7, ARRAY[69])::real[] FROM generate_series(1, 300) i")
        db.execute("CREATE INDEX coded_e ON coded USING treedb_hnsw (e) WITH (dimensions = 70)")
        same(db.execute("SELECT treedb.check('coded')").fetchall(), [], "check before")
        path = one(db, "SELECT pg_relation_filepath('coded_e')")
    cluster.stop()
    file = cluster.data / path
    data = bytearray(file.read_bytes())
    # The page's header, the node's, and of its first link node and score. A bit of the exponent: a check has to pass over
    # the last bits of sums, and over bits of the code by which a number is one more or one less.
    data[PAGE + 24 + 24 + 8 + 3] ^= 1
    file.write_bytes(data)
    cluster.start()
    with cluster.connect() as db:
        found = [problem for problem, in db.execute("SELECT treedb.check('coded')::text")]
        check(len(found) == 1 and "slot 0 of block 1" in found[0], f"found {found}")
        index_only(db)
        db.execute("SET enable_sort = off")
        same(one(db, "SELECT e[1] FROM coded ORDER BY e OPERATOR(treedb.<->) (SELECT e FROM coded WHERE e[1] = 9) LIMIT 1"), 9.0, "the nearest")
        db.execute("REINDEX INDEX coded_e")
        same(db.execute("SELECT treedb.check('coded')").fetchall(), [], "check after REINDEX")
    return found[0]


# Each makes a table of this name with an index, and reads and changes it: what makes it, the index, the statements.
def column_with_index(name, key):
    column, plain = key.split()[0], key.replace(" DESC", "")
    some = "17" if column == "n" else "'3' || left(md5('5'), 9)"

    def rows(low, high):
        return f"INSERT INTO {name} SELECT i, md5(i::text) || repeat('k', 150) FROM generate_series({low}, {high}) i"

    return [f"CREATE TABLE {name} (n int, v text) USING treedb", rows(1, 600), f"CREATE INDEX {name}_i ON {name} USING treedb_btree ({key})"], f"{name}_i", [
        f"SELECT count(*) FROM (SELECT {column} FROM {name} ORDER BY {key} OFFSET 0) x",
        f"SELECT count(*) FROM (SELECT * FROM {name} ORDER BY {plain} OFFSET 0) x",
        f"SELECT count(*) FROM {name} WHERE {plain} = {some}",
        f"SELECT count(*) FROM {name} WHERE {plain} > {some}",
        f"SET max_parallel_workers_per_gather = 2; SELECT count(*) FROM {name} WHERE {plain} > {some}; SET max_parallel_workers_per_gather = 0",
        f"SELECT count(*) FROM treedb.check('{name}')", rows(1000, 1100), f"DELETE FROM {name} WHERE n % 3 = 0", f"VACUUM (INDEX_CLEANUP ON) {name}", rows(2000, 2050),
        f"SELECT count(*) FROM treedb.check('{name}')"]


def collection_with_multikey_index(name):
    def rows(low, high):
        return (f"INSERT INTO {name} SELECT jsonb_build_object('_id', i, 'n', i, 'tags', jsonb_build_array('t' || i % 40, i % 7, md5(i::text)))::treedb.bson"
                f" FROM generate_series({low}, {high}) i")

    return [f"SELECT treedb.create_collection('{name}')", rows(1, 400), f"""SELECT treedb.create_index('{name}', '{{"tags": 1, "n": 1}}')"""], f"{name}_tags_1_n_1", [
        f"""SELECT count(*) FROM treedb.find('{name}', '{{"tags": "t3"}}')""",
        f"""SELECT count(*) FROM treedb.find('{name}', '{{}}', '{{"sort": {{"tags": -1}}, "hint": "tags_1_n_1"}}')""",
        f"""SELECT treedb.count('{name}', '{{"tags": {{"$gt": "t2"}}}}')""",
        f"""SELECT count(*) FROM {name} WHERE doc OPERATOR(treedb.@@) '{{"tags": {{"$in": ["t1", 5]}}}}'""",
        f"SELECT count(*) FROM treedb.check('{name}')", rows(1000, 1100),
        f"""SELECT treedb.update_many('{name}', '{{"tags": "t5"}}', '{{"$push": {{"tags": "new"}}}}')""",
        f"""SELECT treedb.delete_many('{name}', '{{"n": {{"$mod": [3, 0]}}}}')""", f"VACUUM (INDEX_CLEANUP ON) {name}", rows(2000, 2050),
        f"SELECT count(*) FROM treedb.check('{name}')"]


def vectors_with_index(name, dimensions):
    def rows(low, high):
        return f"INSERT INTO {name} SELECT i, ARRAY(SELECT sin(i * j) FROM generate_series(1, {dimensions}) j)::real[] FROM generate_series({low}, {high}) i"

    def nearest(limit):
        return f"SELECT count(*) FROM (SELECT id FROM {name} ORDER BY e OPERATOR(treedb.<->) (SELECT e FROM {name} WHERE id = 9) LIMIT {limit}) x"

    made = [f"CREATE TABLE {name} (id int, e real[])", rows(1, 150), f"CREATE INDEX {name}_e ON {name} USING treedb_hnsw (e) WITH (dimensions = {dimensions}, m = 8)"]
    return made, f"{name}_e", [
        nearest(10), nearest(1000), f"SELECT count(*) FROM treedb.check('{name}')", rows(1000, 1010), f"DELETE FROM {name} WHERE id % 3 = 0",
        f"VACUUM (INDEX_CLEANUP ON) {name}", rows(2000, 2010), nearest(20), f"SELECT count(*) FROM treedb.check('{name}')"]


def tells_what_and_what_to_do(error):
    """Whether an error about a damaged page says what was expected and found, and what to do. The server's own have neither detail nor hint."""
    diag = error.diag
    if diag.message_primary.startswith(("invalid page in block", "could not read block", "heap tid from index tuple")):
        return True
    return "damaged" in diag.message_primary and bool(diag.message_detail) and "REINDEX" in (diag.message_hint or "")


WAYS = [flip_bytes, flip_slots, flip_end, garbage, zero_page, swap_pages, cut_short, link_ring]
# Order of bytes, and order of a collation: two kinds of nodes; packed leaves, and grouped ones. Vectors whose nodes have codes of their neighbours, few dimensions,
# and vectors on pages of their own.
KINDS = {"bytes": lambda name: column_with_index(name, "v COLLATE \"C\""), "icu": lambda name: column_with_index(name, "v COLLATE \"en-x-icu\" DESC"),
         "int": lambda name: column_with_index(name, "n"),
         "alike": lambda name: column_with_index(name, "repeat(left(v,1),200) COLLATE \"en-x-icu\""), "multikey": collection_with_multikey_index,
         "coded": lambda name: vectors_with_index(name, 70), "short": lambda name: vectors_with_index(name, 3), "long": lambda name: vectors_with_index(name, 1200)}
# Other dice damage other places: the first two rounds always, the others as long as no more seconds than these have passed.
SEEDS, ALWAYS, SECONDS = (7, 11, *range(101, 120)), 2, 100


def damaged_round(cluster, seed, refused, wrong):
    """Damages one index of each kind in each way; `refused` counts the statements that met it, `wrong` has the errors that are none of damage. The indexes."""
    dice, victims = random.Random(seed), []
    with cluster.connect() as db:
        for kind, make in KINDS.items():
            # Vectors take longer to index.
            for number, way in enumerate(WAYS if kind in ("coded", "short", "long") else 2 * WAYS):
                name = f"d_{kind}_{number}"
                made, index, statements = make(name)
                for statement in made:
                    db.execute(statement)
                victims.append((name, way, one(db, "SELECT pg_relation_filepath(%s)", (index,)), statements))
    damage(cluster, [(path, lambda data, way=way: way(data, dice)) for _, way, path, _ in victims])
    for name, way, _, statements in victims:
        with cluster.connect() as db:
            index_only(db)
            db.execute("SET statement_timeout = '5s'")
            db.execute("SET max_parallel_workers_per_gather = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;"
                       "SET min_parallel_index_scan_size = 0; SET cpu_tuple_cost = 10")
            for statement in statements:
                try:
                    db.execute(statement)
                except psycopg.Error as error:
                    state = getattr(error, "sqlstate", None)
                    if state not in ("XX001", "XX002") or not tells_what_and_what_to_do(error):
                        wrong.append(f"seed {seed}, {name}, {way.__name__}, {statement}: {state} {error}")
                    if db.closed:
                        raise
                    refused[name.split("_")[1]] += 1
            db.execute(f"REINDEX TABLE {name}")
            same(one(db, f"SELECT count(*) FROM treedb.check('{name}')"), 0, f"{name} after REINDEX")
            db.execute(f"DROP TABLE {name}")
    return len(victims)


def damaged_pages_are_errors_and_never_crashes(cluster):
    """Whatever the bytes of an index file: an answer or SQLSTATE XX001/XX002 with detail and hint, and REINDEX heals it."""
    refused, wrong, began = dict.fromkeys(KINDS, 0), [], time.monotonic()
    damaged = rounds = 0
    for seed in SEEDS:
        if rounds >= ALWAYS and time.monotonic() - began > SECONDS:
            break
        damaged += damaged_round(cluster, seed, refused, wrong)
        rounds += 1
    check(not wrong, "\n".join(wrong))
    check(min(refused.values()) > 10 * rounds, f"few statements met the damage: {refused}")
    log = cluster.log()
    for word in ("terminated by signal", "PANIC"):
        check(word not in log, f"the server's log has {word!r}")
    return f"{damaged} indexes damaged in {rounds} rounds, statements refused: {refused}"


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
# What the primary does to them, one step after another, while the standby is read.
BUILDS = ["CREATE INDEX {g_apart}", "CREATE INDEX CONCURRENTLY {g_bits}", "REINDEX INDEX g_coded", "REINDEX INDEX CONCURRENTLY g_several"]


def graph(name):
    key, options, _ = GRAPHS[name]
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


def a_standby_answers_as_the_primary(cluster):
    """Redo gives the same pages (the server compares them), and the standby's scans and functions the same answers."""
    standby = Cluster()
    try:
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
            db.execute(f"CREATE INDEX {graph('g_alike')}")
            db.execute("INSERT INTO g SELECT -i, ARRAY(SELECT 100 * sin(i * j) FROM generate_series(1, 70) j)::real[], i::bit(40), ARRAY[[i, -i]]::real[] FROM generate_series(1, 4) i")
            db.execute(vectors(1, 200))
            check(not any(centre_of(cluster, db, "g_alike")[:4]), "g_alike has chosen a centre already")
            for name in ("g_coded", "g_several"):
                db.execute(f"CREATE INDEX {graph(name)}")
            cluster.program("pg_basebackup", "-D", str(standby.data), "-R", "-c", "fast", "--no-sync", "-C", "-S", "follower")
            standby.start()
            db.execute('CREATE INDEX r_t ON r USING treedb_btree (t COLLATE "en-x-icu")')
            stop = threading.Event()
            wrong, compared = [], [0]
            # That of `g_alike` is under way, at times, when its codes are made anew about a centre.
            meanwhile = [order for _, _, order in GRAPHS.values()]

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
                db.execute(BUILDS[number].format(**{name: graph(name) for name in GRAPHS}))
                db.execute(vectors(1060 + 100 * number, 1099 + 100 * number))
            centre = centre_of(cluster, db, "g_alike")
            check(any(centre[:4]) and not any(centre[8:]), f"g_alike has chosen no centre: {centre.hex()}")
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
                for name, (_, _, order) in GRAPHS.items():
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
    finally:
        standby.close()
        with cluster.connect() as db:
            db.execute("SELECT pg_drop_replication_slot('follower') FROM pg_replication_slots WHERE slot_name = 'follower' AND NOT active")
    return f"{'; '.join(told)}; {compared[0]} comparisons meanwhile"


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
         a_dump_restores_tables_and_indexes, a_standby_answers_as_the_primary,
         a_check_finds_a_wrong_code_of_a_neighbour, a_backward_scan_of_a_damaged_index_never_goes_round, an_entry_that_says_that_a_text_is_minus_zero_has_its_text,
         pages_that_lead_back_end_every_walk, damaged_pages_are_errors_and_never_crashes]


if __name__ == "__main__":
    sys.exit(run(TESTS, SETTINGS))
