-- treedb_hnsw indexes that are created before their rows choose what their codes are about when they have enough rows to tell, which a session
-- may begin and another one, or a vacuum, end; the rows near a vector are found all the while. Brute force is the oracle.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_grown;
SET search_path = hnsw_grown, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set ECHO all
SELECT setseed(0.25);
-- away(VECTOR, BY): so far from zero in every dimension; the spread of random_vector() is 0.77
CREATE FUNCTION away(e real[], by real) RETURNS real[] IMMUTABLE RETURN (SELECT array_agg(x + CASE WHEN n % 3 = 0 THEN -by ELSE by END ORDER BY n) FROM unnest(e) WITH ORDINALITY u (x, n));
CREATE TABLE queries AS SELECT i AS id, away(random_vector(i, 72), 77) AS e FROM generate_series(1, 20) i;
CREATE TABLE long AS SELECT i AS id, away(random_vector(i % 30, 72), 77) AS e FROM generate_series(1, 600) i;
SET client_min_messages = warning;
SET jit = off;
\set VERBOSITY terse
-- an index chooses when it has enough rows to tell, and once
CREATE TABLE grows (id int, e real[]);
CREATE INDEX grows_e ON grows USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 72);
INSERT INTO grows SELECT id, e FROM long WHERE id <= 31;
SET client_min_messages = debug1;
INSERT INTO grows SELECT id, e FROM long WHERE id BETWEEN 32 AND 50;
INSERT INTO grows SELECT id, e FROM long WHERE id BETWEEN 51 AND 600;
SET client_min_messages = warning;
SELECT treedb.check('grows');
SELECT recall('grows', '<=>') > 0.95 AS recall_is_high;
-- if the first are not alike, with 256 of them, and with 4,096
CREATE FUNCTION odd_first(low int, high int, odd int) RETURNS SETOF grows LANGUAGE sql AS $$
    SELECT i, CASE WHEN i <= odd THEN random_vector(i, 72) ELSE away(random_vector(i % 30, 72), 77) END FROM generate_series(low, high) i
$$;
TRUNCATE grows;
INSERT INTO grows SELECT * FROM odd_first(1, 250, 4);
SET client_min_messages = debug1;
INSERT INTO grows SELECT * FROM odd_first(251, 300, 4);
SET client_min_messages = warning;
SELECT treedb.check('grows');
SELECT recall('grows', '<=>') > 0.95 AS recall_is_high;
TRUNCATE grows;
INSERT INTO grows SELECT * FROM odd_first(1, 4040, 60);
SET client_min_messages = debug1;
INSERT INTO grows SELECT * FROM odd_first(4041, 4110, 60);
SET client_min_messages = warning;
SELECT treedb.check('grows');
SELECT recall('grows', '<=>') > 0.95 AS recall_is_high;
-- one that is built of few rows goes on so
TRUNCATE grows;
INSERT INTO grows SELECT * FROM odd_first(1, 200, 20);
REINDEX INDEX grows_e;
SET client_min_messages = debug1;
INSERT INTO grows SELECT * FROM odd_first(201, 300, 20);
SET client_min_messages = warning;
-- one whose build outgrows its memory is as large as it is in the end: its rows decide, of which there were enough
CREATE TABLE outgrown WITH (autovacuum_enabled = off) AS SELECT i AS id, CASE WHEN i % 7 = 0 THEN random_vector(i, 72) ELSE away(random_vector(i % 30, 72), 77) END AS e FROM generate_series(1, 8000) i;
SET maintenance_work_mem = '1MB';
CREATE INDEX outgrown_e ON outgrown USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 72);
RESET maintenance_work_mem;
SET client_min_messages = warning;
DELETE FROM outgrown WHERE id % 7 = 0;
VACUUM (INDEX_CLEANUP ON) outgrown;
SET client_min_messages = debug1;
INSERT INTO outgrown SELECT i, away(random_vector(i % 30, 72), 77) FROM generate_series(8001, 8300) i;
SET client_min_messages = warning;
SELECT treedb.check('outgrown');
-- a session that ends in the middle of that leaves the rest to the next one
CREATE TABLE ends (id int, e real[]) WITH (autovacuum_enabled = off);
CREATE INDEX ends_e ON ends USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 72);
INSERT INTO ends SELECT id, CASE WHEN id <= 4 THEN away(e, -77) ELSE e END FROM long WHERE id <= 250;
SET treedb.fault = 'hnsw_centre';
INSERT INTO ends SELECT id, e FROM long WHERE id BETWEEN 251 AND 300;
RESET treedb.fault;
SELECT treedb.check('ends');
SELECT recall('ends', '<=>') > 0.95 AS recall_is_high;
-- which makes progress, however soon it ends
SET treedb.fault = 'hnsw_node_recoded';
SET client_min_messages = debug1;
INSERT INTO ends SELECT id, e FROM long WHERE id = 301;
INSERT INTO ends SELECT id, e FROM long WHERE id = 301;
INSERT INTO ends SELECT id, e FROM long WHERE id = 301;
SET client_min_messages = warning;
RESET treedb.fault;
SELECT treedb.check('ends', true);
SELECT recall('ends', '<=>') > 0.95 AS recall_is_high;
-- and a vacuum does the rest
SET client_min_messages = debug1;
VACUUM ends;
VACUUM ends;
SET client_min_messages = warning;
SELECT treedb.check('ends', true);
SELECT recall('ends', '<=>') > 0.95 AS recall_is_high;
INSERT INTO ends SELECT id, e FROM long WHERE id BETWEEN 251 AND 600;
SELECT treedb.check('ends');
SELECT recall('ends', '<=>') > 0.95 AS recall_is_high;
-- where codes are in place of vectors, those of all nodes are made anew before those of links
CREATE TABLE wide_rows AS SELECT i AS id, away(random_vector(i % 30, 1900), 77) AS e FROM generate_series(1, 270) i;
CREATE TABLE wide (id int, e real[]) WITH (autovacuum_enabled = off);
CREATE INDEX wide_e ON wide USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 1900);
INSERT INTO wide SELECT id, CASE WHEN id <= 4 THEN away(e, -77) ELSE e END FROM wide_rows WHERE id <= 250;
SET treedb.fault = 'hnsw_centre';
INSERT INTO wide SELECT id, e FROM wide_rows WHERE id > 250;
SET treedb.fault = 'hnsw_node_recoded';
DO $$
BEGIN
    FOR i IN 1..300 LOOP
        BEGIN
            INSERT INTO wide SELECT id, e FROM wide_rows WHERE id = 251;
            RAISE EXCEPTION 'it was not at fault';
        EXCEPTION WHEN internal_error THEN
            NULL;
        END;
    END LOOP;
END $$;
RESET treedb.fault;
SELECT treedb.check('wide', true);
SET client_min_messages = debug1;
VACUUM (INDEX_CLEANUP ON) wide;
SET client_min_messages = warning;
SELECT treedb.check('wide', true);
TRUNCATE queries;
INSERT INTO queries SELECT i, away(random_vector(i, 1900), 77) FROM generate_series(1, 5) i;
SELECT recall('wide', '<=>') > 0.9 AS recall_is_high;
-- vectors that are not alike have none
CREATE TABLE usual (id int, e real[]);
CREATE INDEX usual_e ON usual USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 72);
SET client_min_messages = debug1;
INSERT INTO usual SELECT i, random_vector(i % 30, 72) FROM generate_series(1, 600) i;
REINDEX INDEX usual_e;
SET client_min_messages = warning;
DROP SCHEMA hnsw_grown CASCADE;
