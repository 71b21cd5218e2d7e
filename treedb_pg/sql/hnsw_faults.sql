-- Inserts and vacuums of a treedb_hnsw index that end in the middle (treedb.fault raises an error there), as a crash would
-- end them: the graph stays whole, rows that are there are found, and a later vacuum removes what is left over.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_faults;
SET search_path = hnsw_faults, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set ECHO all
SELECT setseed(0.75);
CREATE TABLE queries AS SELECT i AS id, random_vector(i, 70) AS e FROM generate_series(1, 10) i;
CREATE TABLE f (id int, e real[]) WITH (autovacuum_enabled = off);
CREATE INDEX f_e ON f USING treedb_hnsw (e) WITH (dimensions = 70);

-- fill(FAULT, FROM, TO): inserts row by row, some of them with the fault; whether it struck.
CREATE FUNCTION fill(fault text, low int, high int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    struck int := 0;
    i int;
BEGIN
    FOR i IN SELECT generate_series(low, high) LOOP
        PERFORM set_config('treedb.fault', CASE WHEN i % 5 = 0 OR fault = 'hnsw_page' THEN fault ELSE '' END, true);
        BEGIN
            INSERT INTO f VALUES (i, random_vector(i % 12, 70));
        EXCEPTION WHEN internal_error THEN
            IF SQLERRM NOT LIKE 'fault asked for%' THEN RAISE; END IF;
            struck := struck + 1;
        END;
    END LOOP;
    PERFORM set_config('treedb.fault', '', true);
    RETURN struck > 0;
END $$;

SELECT fill('hnsw_page', 1, 400) AS struck;
SELECT treedb.check('f');
SELECT fill('hnsw_node', 401, 800) AS struck;
SELECT treedb.check('f');
SELECT fill('hnsw_settled', 801, 1200) AS struck;
SELECT treedb.check('f');
SELECT recall('f', '<->') > 0.95 AS recall_is_high;
VACUUM (INDEX_CLEANUP ON) f;
SELECT treedb.check('f');
SELECT recall('f', '<->') > 0.95 AS recall_is_high;
-- a vacuum that is stopped goes on the next time
DELETE FROM f WHERE id % 3 = 0;
\set VERBOSITY terse
SET treedb.fault = 'hnsw_settled';
VACUUM (INDEX_CLEANUP ON, PARALLEL 0) f;
VACUUM (INDEX_CLEANUP ON, PARALLEL 0) f;
RESET treedb.fault;
SELECT treedb.check('f');
SET treedb.fault = 'hnsw_unlinked';
VACUUM (INDEX_CLEANUP ON, PARALLEL 0) f;
VACUUM (INDEX_CLEANUP ON, PARALLEL 0) f;
RESET treedb.fault;
SELECT treedb.check('f');
SELECT recall('f', '<->') > 0.95 AS recall_is_high;
VACUUM (INDEX_CLEANUP ON) f;
SELECT treedb.check('f');
SELECT recall('f', '<->') > 0.95 AS recall_is_high;
SET client_min_messages = warning;
DROP SCHEMA hnsw_faults CASCADE;
