-- Splits that end between their two parts (treedb.fault raises an error there), as a crash would end them: the
-- tree stays sound and complete, and later inserts finish what was begun, on every level.
CREATE SCHEMA faults;
SET search_path = faults, public;

CREATE TABLE f (id int, v text);
CREATE INDEX f_id ON f USING treedb_btree (id);
CREATE INDEX f_v ON f USING treedb_btree (v COLLATE "en-x-icu");

-- fill(FAULT, FROM, TO, STEP): inserts row by row, half of the time with the fault; how often it struck.
CREATE FUNCTION fill(fault text, low int, high int, step int, width int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    struck int := 0;
    i int;
BEGIN
    FOR i IN SELECT generate_series(low, high, step) LOOP
        PERFORM set_config('treedb.fault', CASE WHEN i % 16 < 8 THEN fault ELSE '' END, true);
        BEGIN
            INSERT INTO f VALUES (i, lpad(i::text, width, '0'));
        EXCEPTION WHEN internal_error THEN
            -- (the name stands for its whole class)
            IF SQLERRM NOT LIKE 'fault asked for%' THEN RAISE; END IF;
            struck := struck + 1;
        END;
    END LOOP;
    PERFORM set_config('treedb.fault', '', true);
    RETURN struck > 0;
END $$;

-- same(): whether each index says what the table says.
CREATE FUNCTION same() RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    ids text; vs text; ids_by_index text; vs_by_index text;
BEGIN
    SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
    SELECT md5(string_agg(id::text, ',')) INTO ids FROM (SELECT id FROM f ORDER BY id) x;
    SELECT md5(string_agg(v, ',')) INTO vs FROM (SELECT v FROM f ORDER BY v COLLATE "en-x-icu") x;
    SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off;
    SELECT md5(string_agg(id::text, ',')) INTO ids_by_index FROM (SELECT id FROM f ORDER BY id) x;
    SELECT md5(string_agg(v, ',')) INTO vs_by_index FROM (SELECT v FROM f ORDER BY v COLLATE "en-x-icu") x;
    RETURN ids = ids_by_index AND vs = vs_by_index;
END $$;

-- rising keys: the half that the parent does not know is the one that is split again
SELECT fill('leaf_split', 100001, 130000, 7, 60) AS struck;
SELECT treedb.check('f');
SELECT same();
-- falling keys, and keys in between
SELECT fill('leaf_split', 130001, 100001, -11, 60) AS struck;
SELECT treedb.check('f');
-- branches too: long keys make many of them
SELECT fill('branch_split', 100003, 130000, 3, 900) AS struck;
SELECT treedb.check('f');
SELECT same();
-- nothing is left undone when inserts have come by everywhere
SELECT fill('', 100002, 130000, 5, 700) AS struck;
SELECT treedb.check('f');
SELECT same();
-- vacuum between unfinished splits
SELECT fill('leaf_split', 200001, 210000, 2, 300) AS struck;
DELETE FROM f WHERE id % 100 > 3;
VACUUM f;
SELECT treedb.check('f');
SELECT fill('leaf_split', 100001, 210000, 37, 300) AS struck;
-- Merges of append areas that end right after they are logged.
SELECT fill('leaf_merge', 300001, 306000, 1, 40) AS struck;
SELECT treedb.check('f');
SELECT same();

-- root(FAULT, ROWS): the first split of the root breaks off, so that there is no page above it; its right half, which
-- bears no mark, is split in its turn
CREATE FUNCTION root(fault text, rows int) RETURNS TABLE (struck bool, problems bigint, missing bigint) LANGUAGE plpgsql AS $$
DECLARE
    i int := 0;
    there int := 0;
BEGIN
    DROP TABLE IF EXISTS r;
    CREATE TABLE r (id int, v text);
    CREATE INDEX r_v ON r USING treedb_btree (v);
    struck := false;
    PERFORM set_config('treedb.fault', fault, true);
    WHILE i < rows LOOP
        BEGIN
            INSERT INTO r VALUES (i, lpad(i::text, 8, '0') || repeat('x', 900));
            there := there + 1;
        EXCEPTION WHEN internal_error THEN
            IF SQLERRM NOT LIKE 'fault asked for%' THEN RAISE; END IF;
            struck := true;
            PERFORM set_config('treedb.fault', '', true);
        END;
        i := i + 1;
    END LOOP;
    SELECT count(*) INTO problems FROM treedb.check('r');
    SET LOCAL enable_seqscan = off;
    SELECT there - count(*) INTO missing FROM (SELECT v FROM r WHERE v > '' ORDER BY v) x;
    RETURN NEXT;
END $$;
SET client_min_messages = warning;
SELECT * FROM root('leaf_split', 2000);
SELECT * FROM root('branch_split', 20000);

-- Sort keys of the C library only suggest an order. An index that is built by wrong ones (treedb.fault says that they are) has the
-- order in which the server compares, of values that are distinct or not, in memory and merged from files.
CREATE COLLATION usual (provider = libc, locale = 'C.UTF-8');
CREATE TABLE w (v text COLLATE usual, n int);
INSERT INTO w SELECT CASE WHEN n % 50 > 0 THEN md5((n % 30011)::text) END, n FROM generate_series(1, 20000) n;
INSERT INTO w SELECT chr(228 + n % 7) || left(md5((n % 7)::text), n % 3), n FROM generate_series(1, 10000) n;
SET treedb.fault = 'library_sort_keys';
CREATE INDEX w_v ON w USING treedb_btree (v);
CREATE INDEX w_down ON w USING treedb_btree (v DESC NULLS LAST, n);
SET maintenance_work_mem = '1MB';
CREATE INDEX w_files ON w USING treedb_btree (v NULLS FIRST, n DESC);
RESET maintenance_work_mem;
RESET treedb.fault;
SELECT treedb.check('w');
CREATE TABLE w_sorted AS SELECT v, n FROM w;
SET enable_seqscan = off; SET enable_sort = off; SET enable_incremental_sort = off;
SELECT by_index = sorted AS same FROM (SELECT md5(string_agg(concat(v, ' ', n), ',')) FROM (SELECT v, n FROM w ORDER BY v DESC NULLS LAST, n) x) a (by_index),
    (SELECT md5(string_agg(concat(v, ' ', n), ',')) FROM (SELECT v, n FROM w_sorted ORDER BY v DESC NULLS LAST, n) x) b (sorted);
SELECT by_index = sorted AS same FROM (SELECT md5(string_agg(concat(v, ' ', n), ',')) FROM (SELECT v, n FROM w ORDER BY v NULLS FIRST, n DESC) x) a (by_index),
    (SELECT md5(string_agg(concat(v, ' ', n), ',')) FROM (SELECT v, n FROM w_sorted ORDER BY v NULLS FIRST, n DESC) x) b (sorted);
RESET enable_seqscan; RESET enable_sort; RESET enable_incremental_sort;

DROP SCHEMA faults CASCADE;
