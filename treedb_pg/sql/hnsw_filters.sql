-- A scan of a treedb_hnsw index goes on until the query has its rows: with conditions that keep half of them, a tenth, a
-- hundredth, one in a thousand. A budget ends it, which a notice says.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_filters;
SET search_path = hnsw_filters, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SELECT setseed(0.25);
CREATE TABLE queries AS SELECT i AS id, random_vector(i, 16) AS e FROM generate_series(1, 15) i;
CREATE TABLE v AS SELECT i AS id, i % 1000 AS part, random_vector(i % 20, 16) AS e FROM generate_series(1, 6000) i;
CREATE INDEX v_e ON v USING treedb_hnsw (e) WITH (dimensions = 16, m = 12, ef_construction = 48);
ANALYZE v;

SELECT share, recall('v', '<->', filter) > 0.95 AS recall_is_high
FROM (VALUES (1, 'part < 1000'), (2, 'part < 500'), (3, 'part < 100'), (4, 'part < 10'), (5, 'part = 7')) AS f(share, filter) ORDER BY 1;
-- more rows than the candidates of a search, and all there are
SET enable_seqscan = off;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM v ORDER BY e <-> (SELECT e FROM queries WHERE id = 1) LIMIT 100) x;
SET enable_sort = off;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM v ORDER BY e <-> (SELECT e FROM queries WHERE id = 1)) x;
SET treedb.hnsw_strict_order = off;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM v ORDER BY e <-> (SELECT e FROM queries WHERE id = 1)) x;
RESET treedb.hnsw_strict_order;
-- a budget ends the search, not the answer's rows that were met; a notice says so, one for all scans of a plan's node
SET treedb.hnsw_max_scan_tuples = 100;
SELECT count(*) < 3000 AS ended FROM (SELECT id FROM v ORDER BY e <-> (SELECT e FROM queries WHERE id = 1)) x;
SELECT count(*) AS queries, max(count) < 3000 AS ended FROM (
    SELECT (SELECT count(*) FROM (SELECT id FROM v ORDER BY v.e <-> q.e) x) FROM queries q) y;
RESET treedb.hnsw_max_scan_tuples;
-- rows come in order, on which incremental sorts, window functions and WITH TIES rely: those found too late come last
SHOW treedb.hnsw_strict_order;
SET treedb.hnsw_ef_search = 5;
WITH found AS MATERIALIZED (
    SELECT row_number() OVER () AS place, d FROM (SELECT e <-> (SELECT e FROM queries WHERE id = 1) AS d FROM v ORDER BY e <-> (SELECT e FROM queries WHERE id = 1) LIMIT 500) x
) SELECT count(*) FILTER (WHERE d < before) AS out_of_order, count(*) > 100 AS has_rows
FROM (SELECT d, lag(d) OVER (ORDER BY place) AS before FROM found) x;
-- the k rows of a filter are there all the same
SELECT q.id, count(n.id) FROM queries q, LATERAL (SELECT id FROM v WHERE part < 20 ORDER BY v.e <-> q.e LIMIT 10) n GROUP BY q.id HAVING count(n.id) < 10;
-- where no more rows are left than the query asks for, it gets every one of them
SELECT count(*) AS queries, min(count), max(count) FROM (
    SELECT count(n.id) FROM queries q, generate_series(0, 990, 90) AS p(part),
        LATERAL (SELECT id FROM v WHERE part = p.part OR part = p.part + 1 AND id < 4000 ORDER BY v.e <-> q.e LIMIT 10) n
    GROUP BY q.id, p.part) x;
RESET treedb.hnsw_ef_search;
RESET enable_seqscan;
RESET enable_sort;

-- recall, measured as docs/postgres.md says: one side of the query takes the index, the other sorts
SELECT 'SELECT avg(recall) AS recall FROM (
    SELECT (SELECT count(*) FROM (SELECT e <-> q.e AS d FROM v ORDER BY e <-> q.e LIMIT 10) found
            WHERE d <= exact.farthest) / exact.count::float AS recall
    FROM (SELECT e FROM v ORDER BY random() LIMIT 100) q, LATERAL (
        SELECT max(d) AS farthest, count(*) FROM (SELECT e <-> q.e AS d FROM v ORDER BY (e <-> q.e) + 0 LIMIT 10) x) exact
) each_query' AS measure \gset
SELECT pg_temp.plan(:'measure');
SELECT recall > 0.95 AS recall_is_high FROM (:measure) x;
SET treedb.hnsw_ef_search = 1;
SET treedb.hnsw_max_scan_tuples = 20;
SELECT recall < 0.9 AS recall_is_low FROM (:measure) x;
RESET treedb.hnsw_ef_search;
RESET treedb.hnsw_max_scan_tuples;

-- the planner takes the index for a few rows, and not for all of them
SELECT pg_temp.plan($$SELECT id FROM v ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 5$$);
SELECT pg_temp.plan($$SELECT id FROM v ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}'$$);
SELECT pg_temp.plan($$SELECT id FROM v WHERE part < 500 ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 5$$);
-- nor where it would meet more rows than the budget allows before the limit's number fulfils a condition
CREATE TABLE many AS SELECT i AS id, i % 1000 AS part, random_vector(i % 23, 8) AS e FROM generate_series(1, 30000) i;
CREATE INDEX many_e ON many USING treedb_hnsw (e) WITH (dimensions = 8, m = 8, ef_construction = 32);
ANALYZE many;
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT id FROM many WHERE part < 100 ORDER BY e <-> '{1,1,1,1,1,1,1,1}' LIMIT 10$$);
SELECT * FROM pg_temp.plan($$SELECT id FROM many WHERE part < 10 ORDER BY e <-> '{1,1,1,1,1,1,1,1}' LIMIT 10$$) AS x(plan) WHERE plan !~ 'Disabled: true';
SELECT * FROM pg_temp.plan($$SELECT id FROM many WHERE part = 7 ORDER BY e <-> '{1,1,1,1,1,1,1,1}' LIMIT 10$$) AS x(plan) WHERE plan !~ 'Disabled: true';
SELECT count(*) FROM (SELECT id FROM many WHERE part = 7 ORDER BY e <-> '{1,1,1,1,1,1,1,1}' LIMIT 10) x;
SET treedb.hnsw_max_scan_tuples = 100000;
SELECT * FROM pg_temp.plan($$SELECT id FROM many WHERE part = 7 ORDER BY e <-> '{1,1,1,1,1,1,1,1}' LIMIT 10$$) AS x(plan) WHERE plan !~ 'Disabled: true';
SELECT count(*) FROM (SELECT id FROM many WHERE part = 7 ORDER BY e <-> '{1,1,1,1,1,1,1,1}' LIMIT 10) x;
SET treedb.hnsw_max_scan_tuples = 1000;
SELECT * FROM pg_temp.plan($$SELECT id FROM many WHERE part < 10 ORDER BY e <-> '{1,1,1,1,1,1,1,1}' LIMIT 10$$) AS x(plan) WHERE plan !~ 'Disabled: true';
-- where more rows match near the vector by the planner's estimate than there are, a notice says that the budget has ended the scan
SET treedb.hnsw_max_scan_tuples = 5000;
CREATE FUNCTION is_far(real[]) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1[1] > 1; END $$;
SELECT pg_temp.plan($$SELECT id FROM many WHERE is_far(e) ORDER BY e <-> '{-9,-9,-9,-9,-9,-9,-9,-9}' LIMIT 500$$);
SELECT count(*) < 500 AS fewer FROM (SELECT id FROM many WHERE is_far(e) ORDER BY e <-> '{-9,-9,-9,-9,-9,-9,-9,-9}' LIMIT 500) x;
RESET treedb.hnsw_max_scan_tuples;
SELECT count(*) > 500 AS there_are FROM many WHERE is_far(e);
RESET enable_seqscan;
-- another operator than the index's, and no order at all
SELECT pg_temp.plan($$SELECT id FROM v ORDER BY e <=> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 5$$);
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM v;
COMMIT;
-- a prepared statement, a join to each of several vectors, a partial index, an expression
PREPARE nearest(real[]) AS SELECT id FROM v ORDER BY e <-> $1 LIMIT 1;
SET plan_cache_mode = force_generic_plan;
SELECT e AS one FROM v WHERE id = 77 \gset
SELECT e AS other FROM v WHERE id = 4077 \gset
EXPLAIN (COSTS OFF) EXECUTE nearest(:'one');
EXECUTE nearest(:'one');
EXECUTE nearest(:'other');
RESET plan_cache_mode;
SELECT pg_temp.plan('SELECT q.id, n.id FROM queries q, LATERAL (SELECT id FROM v ORDER BY v.e <-> q.e LIMIT 2) n');
SELECT count(*), count(DISTINCT q.id) FROM queries q, LATERAL (SELECT id FROM v ORDER BY v.e <-> q.e LIMIT 2) n;
CREATE INDEX v_part ON v USING treedb_hnsw ((e[1:4]) real_cosine_ops) WITH (dimensions = 4) WHERE part = 3;
SELECT pg_temp.plan($$SELECT id FROM v WHERE part = 3 ORDER BY e[1:4] <=> '{1,2,3,4}' LIMIT 2$$);
SET enable_sort = off;
SELECT count(*) FROM (SELECT id FROM v WHERE part = 3 ORDER BY e[1:4] <=> '{1,2,3,4}' LIMIT 50) x;
SELECT treedb.check('v');
SET client_min_messages = warning;
DROP SCHEMA hnsw_filters CASCADE;
