-- A treedb_hnsw index that several threads build is the one that the backend alone builds; CREATE INDEX and REINDEX can be cancelled,
-- and run CONCURRENTLY. One that outgrows its memory is sound, too.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_build;
SET search_path = hnsw_build, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set ECHO all
SELECT setseed(0.25);
CREATE TABLE queries AS SELECT i AS id, random_vector(i, 40) AS e FROM generate_series(1, 20) i;
CREATE TABLE t (id int, e real[]) WITH (autovacuum_enabled = off, parallel_workers = 3);
-- in groups of near-duplicates, one after another
INSERT INTO t SELECT i, random_vector(i / 100, 40) FROM generate_series(1, 4000) i;
SET max_parallel_maintenance_workers = 0;
SET client_min_messages = debug1;
\set VERBOSITY terse
CREATE INDEX t_e ON t USING treedb_hnsw (e) WITH (dimensions = 40);
RESET client_min_messages;
-- what a search for a few candidates finds depends on every link
SET treedb.hnsw_ef_search = 3;
SET treedb.hnsw_max_scan_tuples = 1;
SET enable_seqscan = off;
SET enable_sort = off;
CREATE TABLE found_by_one AS
    SELECT q.id, array(SELECT t.id FROM t ORDER BY t.e <-> q.e LIMIT 3) AS ids FROM queries q;
SELECT recall('t', '<->') < 0.9 AS is_only_a_part;
SET max_parallel_maintenance_workers = 3;
SET client_min_messages = debug1;
REINDEX INDEX t_e;
RESET client_min_messages;
SELECT count(*) FROM queries q JOIN found_by_one f USING (id) WHERE f.ids = array(SELECT t.id FROM t ORDER BY t.e <-> q.e LIMIT 3);
RESET treedb.hnsw_ef_search;
RESET treedb.hnsw_max_scan_tuples;
SELECT recall('t', '<->') > 0.97 AS recall_is_high;
SELECT treedb.check('t');
-- what the graph outgrows in memory is inserted page by page
SET maintenance_work_mem = '1MB';
SET client_min_messages = warning;
REINDEX INDEX t_e;
RESET client_min_messages;
RESET maintenance_work_mem;
SELECT recall('t', '<->') > 0.97 AS recall_is_high;
SELECT treedb.check('t');
-- cancelled
SET statement_timeout = 5;
REINDEX INDEX t_e;
RESET statement_timeout;
SELECT recall('t', '<->') > 0.97 AS recall_is_high;
-- a vector that the index cannot have
INSERT INTO t VALUES (0, ARRAY[1, 2]);
DROP INDEX t_e;
INSERT INTO t VALUES (0, ARRAY[1, 2]);
CREATE INDEX t_e ON t USING treedb_hnsw (e) WITH (dimensions = 40);
DELETE FROM t WHERE id = 0;
-- rows without a vector are not in the index
INSERT INTO t SELECT -i, NULL FROM generate_series(1, 10) i;
CREATE INDEX CONCURRENTLY t_e ON t USING treedb_hnsw (e) WITH (dimensions = 40);
SELECT recall('t', '<->') > 0.97 AS recall_is_high;
UPDATE t SET e = random_vector(id % 30, 40) WHERE id % 5 = 0;
REINDEX INDEX CONCURRENTLY t_e;
SELECT recall('t', '<->') > 0.97 AS recall_is_high;
SELECT treedb.check('t');
-- where a graph is built by codes, vectors that outgrow the memory go to a temporary file, and it is the graph that memory would have had
TRUNCATE queries;
INSERT INTO queries SELECT i, random_vector(i, 72) FROM generate_series(1, 20) i;
CREATE TABLE long AS SELECT i AS id, random_vector(i % 30, 72) AS e FROM generate_series(1, 2400) i;
CREATE INDEX long_e ON long USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 72);
SET treedb.hnsw_ef_search = 3;
SET treedb.hnsw_max_scan_tuples = 1;
CREATE TABLE found_in_long AS
    SELECT q.id, array(SELECT long.id FROM long ORDER BY long.e <=> q.e LIMIT 3) AS ids FROM queries q;
SET log_temp_files = -1;
SET maintenance_work_mem = '1MB';
SET max_parallel_maintenance_workers = 0;
SET client_min_messages = debug1;
REINDEX INDEX long_e;
RESET client_min_messages;
RESET max_parallel_maintenance_workers;
SELECT count(*) FROM queries q JOIN found_in_long f USING (id) WHERE f.ids = array(SELECT long.id FROM long ORDER BY long.e <=> q.e LIMIT 3);
RESET treedb.hnsw_ef_search;
RESET treedb.hnsw_max_scan_tuples;
SELECT recall('long', '<=>') > 0.97 AS recall_is_high;
SELECT treedb.check('long');
-- without a direction; by several threads; and when what is left outgrows it, too
DROP INDEX long_e;
ALTER TABLE long SET (parallel_workers = 2);
CREATE INDEX long_e ON long USING treedb_hnsw (e) WITH (dimensions = 72);
SELECT recall('long', '<->') > 0.97 AS recall_is_high;
SELECT treedb.check('long');
INSERT INTO long SELECT i, random_vector(i % 30, 72) FROM generate_series(2401, 4200) i;
REINDEX INDEX long_e;
SELECT recall('long', '<->') > 0.97 AS recall_is_high;
SELECT treedb.check('long');
-- vectors that are not in their nodes
TRUNCATE queries;
INSERT INTO queries SELECT i, random_vector(i, 1200) FROM generate_series(1, 5) i;
CREATE TABLE longest AS SELECT i AS id, random_vector(i % 9, 1200) AS e FROM generate_series(1, 600) i;
SET max_parallel_maintenance_workers = 0;
SET client_min_messages = debug1;
CREATE INDEX longest_e ON longest USING treedb_hnsw (e real_ip_ops) WITH (dimensions = 1200);
RESET client_min_messages;
RESET maintenance_work_mem;
SELECT recall('longest', '<#>') > 0.97 AS recall_is_high;
SELECT treedb.check('longest');
-- vectors that have far more in common than they differ: codes of them would not tell them apart, in a large table and in a small one
CREATE FUNCTION away(e real[], by real) RETURNS real[] IMMUTABLE RETURN (SELECT array_agg(x + by * (n % 3) ORDER BY n) FROM unnest(e) WITH ORDINALITY u (x, n));
TRUNCATE queries;
INSERT INTO queries SELECT i, away(random_vector(i, 72), 30) FROM generate_series(1, 10) i;
CREATE TABLE alike AS SELECT i AS id, away(random_vector(i % 30, 72), 30) AS e FROM generate_series(1, 2000) i;
CREATE INDEX alike_e ON alike USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 72);
SELECT recall('alike', '<=>') > 0.9 AS recall_is_high;
SELECT treedb.check('alike');
DELETE FROM alike WHERE id > 200;
REINDEX INDEX alike_e;
SET treedb.hnsw_ef_search = 20;
SELECT recall('alike', '<=>') > 0.97 AS recall_is_high;
RESET treedb.hnsw_ef_search;
SELECT treedb.check('alike');
SET client_min_messages = warning;
DROP SCHEMA hnsw_build CASCADE;
