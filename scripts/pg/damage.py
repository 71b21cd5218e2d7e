"""What damaged index files do: errors that tell what is wrong and what to do, walks that end, checks that find it."""
import random
import time

import psycopg

from claims import PAGE, check, index_only, lines, one, refused, same


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


def an_infinite_element_of_a_centre_of_halves_is_damage(cluster):
    """Elements of 2 bytes that are infinite or NaN are read as finite ones: they must be told by their bits."""
    with cluster.connect() as db:
        if not one(db, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"):
            return "the server has no pgvector: nothing to test"
        db.execute("CREATE EXTENSION IF NOT EXISTS vector; SELECT treedb.enable_pgvector()")
        db.execute("CREATE TABLE halves (id int, e halfvec(2100)) WITH (autovacuum_enabled = off)")
        db.execute("CREATE INDEX halves_e ON halves USING treedb_hnsw (e halfvec_l2_ops) WITH (m = 6)")
        db.execute("INSERT INTO halves SELECT i, (SELECT array_agg((20 + sin(i * j))::real ORDER BY j) FROM generate_series(1, 2100) j)::halfvec FROM generate_series(1, 100) i")
        path = one(db, "SELECT pg_relation_filepath('halves_e')")
    query = "SELECT id FROM halves ORDER BY e <-> (SELECT e FROM halves WHERE id = 7) LIMIT 1"
    told = []
    for element in (0x7c00, 0xfc00, 0x7e01, None):
        kept = {}

        def change(data):
            block = int.from_bytes(data[24 + 40:24 + 44], "little")
            check(block > 0, "the index has no centre")
            at = block * PAGE + 24 + 2 * 1234
            kept[at] = bytes(data[at:at + 2])
            if element is not None:
                data[at:at + 2] = element.to_bytes(2, "little")

        damage(cluster, [(path, change)])
        with cluster.connect() as db:
            index_only(db)
            if element is None:
                same(one(db, query), 7, "the nearest")
            else:
                told.append(refused(db, query, "XX002", "the page of a centre"))

        def restore(data):
            for at, bytes_ in kept.items():
                data[at:at + 2] = bytes_

        damage(cluster, [(path, restore)])
    return str(told[0])


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
