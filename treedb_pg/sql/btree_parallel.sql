-- Several processes on one index of treedb_btree: parallel scans give what one process gives, and an index that workers
-- have helped to build is the index that one process builds.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
CREATE SCHEMA par;
SET search_path = par, public;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0;
-- merging the rows of the workers costs nothing, making them much
SET cpu_operator_cost = 0; SET cpu_tuple_cost = 10;

-- ask(QUERY, NODE): the query by two workers, in whose plan NODE must be, against a sequential scan by one process. Rows
-- are compared in order where the query has one.
CREATE FUNCTION ask(query text, node text DEFAULT 'Parallel Index') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ordered text := CASE WHEN query ILIKE '%order by%' THEN '' ELSE ' ORDER BY r::text' END;
    wrapped text := format('SELECT count(*), md5(string_agg(r::text, E''\n'' %s)) FROM (%s) r', ordered, query);
    alone text; together text; counted bigint; line text; plan text := '';
BEGIN
    SET LOCAL max_parallel_workers_per_gather = 0;
    SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
    EXECUTE wrapped INTO counted, alone;
    RESET enable_indexscan; RESET enable_indexonlyscan;
    SET LOCAL max_parallel_workers_per_gather = 2; SET LOCAL enable_seqscan = off;
    IF node LIKE '%Bitmap%' THEN SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = on; END IF;
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        plan := plan || line || E'\n';
    END LOOP;
    IF plan NOT LIKE '%' || node || '%' THEN RETURN 'NOT BY ' || node || ': ' || plan; END IF;
    IF query ILIKE '%order by%' AND query NOT LIKE '%i = 17%' AND plan NOT LIKE '%Gather Merge%' THEN RETURN 'NOT MERGED: ' || plan; END IF;
    EXECUTE wrapped INTO counted, together;
    RETURN CASE WHEN alone IS NOT DISTINCT FROM together THEN 'same: ' || counted || ' rows' ELSE 'DIFFERENT: ' || query END;
END $$;

CREATE TABLE t (i int, n numeric, v text, u uuid, pad text) WITH (autovacuum_enabled = off, parallel_workers = 2);
SELECT setseed(0.5);
INSERT INTO t SELECT CASE WHEN g % 50 > 0 THEN (g * 7919) % 10007 - 5000 END, (g % 3000) / 7.0, md5((g % 9000)::text), md5(g::text)::uuid, 'x'
    FROM generate_series(1, 20000) g;
-- a value that has a leaf of its own
INSERT INTO t SELECT 17, 1000000, 'seventeen', NULL, 'x' FROM generate_series(1, 3000);
CREATE INDEX t_i ON t USING treedb_btree (i);
CREATE INDEX t_n ON t USING treedb_btree (n DESC);
CREATE INDEX t_v ON t USING treedb_btree (v COLLATE "en-x-icu", i);
CREATE INDEX t_u ON t USING treedb_btree (u);
VACUUM ANALYZE t;
SELECT treedb.check('t');

EXPLAIN (COSTS OFF) SELECT i FROM t WHERE i > 100;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT i FROM t WHERE i > 100;
-- workers do start
SELECT count(*) FROM (SELECT i FROM t WHERE i > 100) x;
SELECT line FROM pg_temp.run('SELECT i FROM t WHERE i > 4900') line WHERE line !~ 'Index Searches';
RESET enable_seqscan;

-- index-only, both ways, with and without an order
SELECT ask('SELECT i FROM t', 'Parallel Index Only Scan using t_i'), ask('SELECT i FROM t ORDER BY i', 'Parallel Index Only Scan using t_i'),
       ask('SELECT i FROM t ORDER BY i DESC', 'Parallel Index Only Scan Backward using t_i');
SELECT ask('SELECT n FROM t ORDER BY n', 'Parallel Index Only Scan Backward using t_n'), ask('SELECT n FROM t ORDER BY n DESC', 'Parallel Index Only Scan using t_n'),
       ask('SELECT u FROM t ORDER BY u', 'Parallel Index Only Scan'), ask('SELECT v COLLATE "en-x-icu", i FROM t ORDER BY v COLLATE "en-x-icu", i', 'Parallel Index Only Scan'),
       ask('SELECT v COLLATE "en-x-icu", i FROM t ORDER BY v COLLATE "en-x-icu" DESC, i DESC', 'Parallel Index Only Scan Backward');
-- with rows of the table
SELECT ask('SELECT i, pad FROM t WHERE i < 0', 'Parallel Index Scan'), ask('SELECT i, pad FROM t WHERE i < 0 ORDER BY i', 'Parallel Index Scan'),
       ask('SELECT n, pad FROM t WHERE n > 200 ORDER BY n', 'Parallel Index Scan Backward');
-- ranges with ends, none, one leaf, beyond the ends, NULLs
SELECT q, ask('SELECT i FROM t WHERE i ' || q), ask('SELECT i FROM t WHERE i ' || q || ' ORDER BY i'), ask('SELECT i FROM t WHERE i ' || q || ' ORDER BY i DESC')
    FROM unnest(ARRAY['BETWEEN -100 AND 3000', '= 17', '> 100000', '< -4990', 'BETWEEN 7 AND 3', 'IS NULL', 'IS NOT NULL', '>= 5007']) q;
-- lists: many ranges, in the order of the index, whose leaves are one or many
SELECT ask('SELECT i FROM t WHERE i = ANY (ARRAY[5, 3, 3, NULL, -7, 100000])'), ask('SELECT i FROM t WHERE i IN (1, -2000, 4000) ORDER BY i'),
       ask('SELECT i FROM t WHERE i IN (1, -2000, 4000) ORDER BY i DESC'), ask('SELECT i FROM t WHERE i = ANY (ARRAY[]::int[])'),
       ask('SELECT i FROM t WHERE i = ANY (ARRAY(SELECT generate_series(-5000, 5000, 3)))'), ask('SELECT i FROM t WHERE i = ANY (ARRAY(SELECT generate_series(-5000, 5000, 3))) ORDER BY i DESC'),
       ask('SELECT v COLLATE "en-x-icu", i FROM t WHERE v COLLATE "en-x-icu" = ANY (ARRAY(SELECT md5(g::text) FROM generate_series(1, 500) g)) AND i IN (1, 2, 3, NULL) OR v COLLATE "en-x-icu" < ''000'' AND false');
-- lists of so many values that they are looked up in the list
SELECT ask('SELECT i FROM t WHERE i = ANY (ARRAY(SELECT generate_series(-10000, 10000))) AND i > -4000'), ask('SELECT i FROM t WHERE i = ANY (ARRAY(SELECT generate_series(-75000, 75000, 1))) ORDER BY i');
-- conditions that are no ranges
SELECT ask('SELECT v COLLATE "en-x-icu", i FROM t WHERE v COLLATE "en-x-icu" > ''8'' AND i BETWEEN 100 AND 200', 'Parallel Index Only Scan using t_v'),
       ask('SELECT v COLLATE "en-x-icu", i FROM t WHERE v COLLATE "en-x-icu" > ''8'' AND i BETWEEN 100 AND 200 ORDER BY v COLLATE "en-x-icu", i', 'Parallel Index Only Scan using t_v');
-- under a bitmap scan of the table that is shared
SELECT ask('SELECT i, pad FROM t WHERE i BETWEEN 0 AND 2000', 'Parallel Bitmap Heap Scan');
-- aggregates and joins: hash join, merge join with mark and restore in each worker
SELECT ask('SELECT count(*), sum(i), min(i), max(i) FROM t WHERE i > -1000', 'Parallel Index Only Scan');
SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(x.i::bigint * y.i) FROM t x JOIN t y ON x.i = y.i WHERE x.i BETWEEN -900 AND 900;
RESET enable_seqscan;
SELECT ask('SELECT count(*), sum(x.i::bigint * y.i) FROM t x JOIN t y ON x.i = y.i WHERE x.i BETWEEN -900 AND 900', 'Merge Join');
RESET enable_hashjoin; RESET enable_nestloop;
-- rescans: the workers begin the scan anew each time
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT count(i) FROM t WHERE i > 1000) s RIGHT JOIN (VALUES (1), (2), (3)) x (n) ON true;
SELECT * FROM (SELECT count(i) FROM t WHERE i > 1000) s RIGHT JOIN (VALUES (1), (2), (3)) x (n) ON true;
SELECT * FROM (SELECT count(i) FROM t WHERE i IN (1000, 2000, 3000)) s RIGHT JOIN (VALUES (1), (2), (3)) x (n) ON true;
RESET enable_material;
-- a scan that is not read to its end
SELECT count(*) FROM (SELECT i FROM t WHERE i > -4000 LIMIT 3000) x;
SELECT i FROM t WHERE i > 4000 ORDER BY i LIMIT 2;

-- an error in one of the processes ends all, and so does a timeout; what comes afterwards is not disturbed
\set VERBOSITY terse
SELECT sum(1 / (i - 1234)) FROM t WHERE i > 0;
CREATE FUNCTION slow(i int) RETURNS bool LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN true; END $$;
SET statement_timeout = '300ms';
SELECT count(*) FROM t WHERE i > 0 AND slow(i);
RESET statement_timeout;
\set VERBOSITY default
SELECT count(*) FROM t WHERE i > 4000;

-- while rows are deleted and inserted in the same transaction, before and after
BEGIN;
DELETE FROM t WHERE i % 3 = 0;
INSERT INTO t SELECT g, g, g::text, NULL, 'new' FROM generate_series(1, 5000) g;
SELECT ask('SELECT i FROM t'), ask('SELECT i FROM t ORDER BY i DESC');
COMMIT;
SELECT ask('SELECT i FROM t'), ask('SELECT i FROM t ORDER BY i DESC');
VACUUM t;
SELECT ask('SELECT i FROM t'), ask('SELECT i FROM t ORDER BY i DESC');

-- Builds. same(INDEX): whether an index has the pages that one process builds, and agrees with its table.
CREATE FUNCTION leaves(name regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE got text;
BEGIN
    SELECT md5(string_agg(p::text, E'\n' ORDER BY p.block)) INTO got FROM treedb.index_pages(name) p;
    RETURN got;
END $$;
CREATE FUNCTION same(name regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE alone text; problems text;
BEGIN
    PERFORM set_config('max_parallel_maintenance_workers', '2', true);
    EXECUTE format('REINDEX INDEX %s', name);
    alone := leaves(name);
    SELECT string_agg(c, E'\n') INTO problems FROM treedb.check(name) c;
    PERFORM set_config('max_parallel_maintenance_workers', '0', true);
    EXECUTE format('REINDEX INDEX %s', name);
    RETURN coalesce(problems, CASE WHEN leaves(name) = alone THEN 'the same' ELSE 'OTHER PAGES' END);
END $$;
SELECT name, same(name) FROM unnest(ARRAY['t_i', 't_n', 't_v', 't_u']::regclass[]) name;
-- with so little memory that every process writes several runs
SET maintenance_work_mem = '1MB';
SELECT name, same(name) FROM unnest(ARRAY['t_i', 't_n', 't_v', 't_u']::regclass[]) name;
RESET maintenance_work_mem;
-- keys of documents, several for a row: what is known of the whole index is known of every worker's part
CREATE TABLE docs (doc treedb.bson) WITH (parallel_workers = 2);
INSERT INTO docs SELECT format('{"a": [%s, %s], "b": "%s"}', g % 100, g % 77, g)::treedb.bson FROM generate_series(1, 20000) g;
CREATE INDEX docs_a ON docs USING treedb_btree ((treedb.keys(doc, '{"a": 1}')));
SELECT name, same(name) FROM unnest(ARRAY['docs_a']::regclass[]) name;

-- workers take part: an entry tells whether a worker made it; the leader is slow, so that workers find something to do
CREATE TABLE made (leader int DEFAULT pg_backend_pid(), k int, pad text DEFAULT repeat('x', 100)) WITH (parallel_workers = 2);
INSERT INTO made (k) SELECT generate_series(1, 30000);
CREATE FUNCTION by_worker(leader int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
    IF leader = pg_backend_pid() THEN PERFORM pg_sleep(0.0001); END IF;
    RETURN (leader <> pg_backend_pid())::int;
END $$;
CREATE INDEX made_by ON made USING treedb_btree (by_worker(leader));
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS OFF) SELECT count(*) FROM made WHERE by_worker(leader) = 1;
SELECT count(*) > 0 AS some FROM made WHERE by_worker(leader) = 1;
SELECT (SELECT count(*) FROM made WHERE by_worker(leader) = 1) + (SELECT count(*) FROM made WHERE by_worker(leader) = 0) AS all_rows;
RESET enable_seqscan;
-- without a lock against writers
CREATE INDEX CONCURRENTLY made_k ON made USING treedb_btree (k);
REINDEX INDEX CONCURRENTLY made_k;
SELECT treedb.check('made_k');
-- a partial index, and one whose expression no worker may compute
CREATE INDEX made_some ON made USING treedb_btree (k) WHERE k % 3 = 0;
SELECT treedb.check('made_some');
CREATE FUNCTION restricted(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL RESTRICTED AS $$ BEGIN RETURN -k; END $$;
SET client_min_messages = debug1;
CREATE INDEX made_alone ON made USING treedb_btree (restricted(k));
RESET client_min_messages;
SELECT treedb.check('made_alone');

-- an error in a worker, one in any process, and a timeout leave nothing behind
CREATE FUNCTION failing(leader int, k int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
    IF leader = pg_backend_pid() THEN PERFORM pg_sleep(0.0001); END IF;
    IF k > 100 AND leader <> pg_backend_pid() THEN RAISE 'not in a worker' USING ERRCODE = 'ZZ001'; END IF;
    RETURN k;
END $$;
CREATE FUNCTION slow_key(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN PERFORM pg_sleep(0.0001); RETURN k; END $$;
SET maintenance_work_mem = '1MB';
\set VERBOSITY terse
CREATE INDEX made_failing ON made USING treedb_btree (failing(leader, k), pad);
CREATE INDEX made_failing ON made USING treedb_btree ((1 / (k - 25000)), pad);
SET statement_timeout = '500ms';
CREATE INDEX made_slow ON made USING treedb_btree (slow_key(k), pad);
RESET statement_timeout;
-- (in a block that goes on after the error, too)
DO $$ BEGIN
    CREATE INDEX made_failing ON made USING treedb_btree (failing(leader, k), pad);
EXCEPTION WHEN SQLSTATE 'ZZ001' THEN
    RAISE NOTICE '%', SQLERRM;
    CREATE INDEX made_after ON made USING treedb_btree (k, pad);
END $$;
SELECT treedb.check('made_after');
\set VERBOSITY default
SELECT count(*) AS files FROM pg_ls_dir('base/pgsql_tmp', true, false);
SELECT relname FROM pg_class WHERE relname LIKE 'made_%' ORDER BY 1;
-- files count against their limit
SET temp_file_limit = '256kB';
\set VERBOSITY sqlstate
CREATE INDEX made_limited ON made USING treedb_btree (k, pad);
\set VERBOSITY default
RESET temp_file_limit;
RESET maintenance_work_mem;
SELECT count(*) AS files FROM pg_ls_dir('base/pgsql_tmp', true, false);

DROP SCHEMA par CASCADE;
