-- treedb.count in FROM is a node of the plan that shows how documents are counted. It answers as the function does.
CREATE SCHEMA counted;
SET search_path = counted, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SELECT create_collection('c');
ALTER TABLE c SET (autovacuum_enabled = off, parallel_workers = 2);
INSERT INTO c SELECT format('{"_id": %s, "n": %s, "k": %s, "b": %s, "tags": ["t%s", "t%s"], "s": "%s"}', n, n % 50, n % 7, n % 40, n % 40, n % 7, md5(n::text))::bson FROM generate_series(1, 10000) n;
SELECT create_index('c', '{"n": 1}'), create_index('c', '{"tags": 1}'), create_index('c', '{"k": 1, "n": 1}'), create_index('c', '{"b": 1}');
VACUUM ANALYZE c;

-- The plan is shown as explain names it: what keys decide needs no documents.
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{"n": 7}')$$);
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{"_id": {"$lt": 100}}', '{"skip": 3, "limit": 20}')$$);
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{"n": 7, "s": {"$gt": "8"}}')$$);
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{"n": 7, "b": 7}')$$);
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{"s": {"$gt": "8"}}')$$);
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{}')$$);
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{"n": {"$in": []}}')$$);
SELECT pg_temp.plan($$SELECT n + 1 AS more FROM treedb.count('c', '{"n": 7}') AS n WHERE n > 3$$, 'COSTS OFF, VERBOSE');
SELECT pg_temp.run($$SELECT * FROM treedb.count('c', '{"n": 7}')$$);
SELECT pg_temp.run($$SELECT * FROM treedb.count('c', '{"b": {"$gte": 7}}', '{"limit": 3}')$$);
SELECT pg_temp.run($$SELECT * FROM treedb.count('c', '{"n": 7, "s": {"$gt": "8"}}')$$);
SELECT pg_temp.run($$SELECT * FROM treedb.count('c', '{"n": 7, "b": 7}')$$);
SELECT pg_temp.run($$SELECT * FROM treedb.count('c', '{"s": {"$gt": "8"}}')$$);
-- explain says the same.
SELECT treedb.explain('{"count": "c"}') ->> 'queryPlanner.winningPlan.inputStage.stage' AS of_all;

-- Workers count a whole collection where a scan in SQL would have some.
SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{"s": {"$gt": "8"}}')$$);
SELECT pg_temp.run($$SELECT * FROM treedb.count('c', '{"s": {"$gt": "8"}}')$$);
SELECT pg_temp.run($$SELECT * FROM treedb.count('c', '{"n": 7}')$$);
SELECT pg_temp.run($$SELECT * FROM treedb.count('c', '{}', '{"limit": 9000}')$$);
SELECT (SELECT * FROM treedb.count('c', '{"s": {"$gt": "8"}}')) = (SELECT count(*) FROM c WHERE doc ->> 's' > '8' COLLATE "C") AS same;
RESET parallel_setup_cost; RESET min_parallel_table_scan_size; SET max_parallel_workers_per_gather = 0;

-- What it costs, in FROM and in a SELECT list: few entries less than many, keys less than documents, and pages that have to be looked at more than others.
CREATE FUNCTION cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
CREATE FUNCTION rows(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT cost($$SELECT * FROM treedb.count('c', '{"n": 7}')$$) < cost($$SELECT * FROM treedb.count('c', '{"n": {"$gte": 7}}')$$) / 5 AS few_entries,
    cost($$SELECT * FROM treedb.count('c', '{"n": 7}')$$) < cost($$SELECT * FROM treedb.count('c', '{"n": 7, "s": {"$gt": "8"}}')$$) / 5 AS keys,
    abs(cost($$SELECT * FROM treedb.count('c', '{}')$$) / cost($$SELECT count(*) FROM c WHERE doc IS NOT NULL$$) - 1) < .2 AS scan,
    rows($$SELECT * FROM treedb.count('c', '{}')$$) AS rows;
SELECT abs(cost($$SELECT * FROM treedb.count('c', '{"n": 7}')$$) / cost($$SELECT treedb.count('c', '{"n": 7}')$$) - 1) < .01 AS in_a_list;
CREATE TEMPORARY TABLE before AS SELECT cost($$SELECT * FROM treedb.count('c', '{"n": 7}')$$) AS cost;
UPDATE c SET doc = doc WHERE doc @@ '{"k": 3}';
SELECT cost($$SELECT * FROM treedb.count('c', '{"n": 7}')$$) >= before.cost AS after_changes FROM before;
VACUUM ANALYZE c;
-- With workers their beginning is paid, and the rows are divided.
SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 10; SET min_parallel_table_scan_size = 0;
SELECT cost($$SELECT * FROM treedb.count('c', '{"s": {"$gt": "8"}}')$$) AS together \gset
SET max_parallel_workers_per_gather = 0;
SELECT :together < cost($$SELECT * FROM treedb.count('c', '{"s": {"$gt": "8"}}')$$) AS cheaper;
RESET parallel_setup_cost; RESET min_parallel_table_scan_size;

-- Joins by a parameter: begun again for each row, for another collection, and with NULL, which is the answer to NULL.
SELECT create_collection('d'), insert_many('d', '[{"n": 1}, {"n": 1}, {"n": 2}]');
SELECT pg_temp.plan($$SELECT i, n FROM generate_series(1, 3) i, LATERAL treedb.count('c', jsonb_build_object('n', i)::bson) n$$);
SELECT i, n FROM generate_series(48, 51) i, LATERAL treedb.count('c', jsonb_build_object('n', i)::bson) n ORDER BY i;
SELECT pg_temp.run($$SELECT i, n FROM generate_series(1, 20) i, LATERAL treedb.count('c', jsonb_build_object('n', i)::bson) n$$);
SELECT t, n FROM (VALUES ('c'), ('d'), (NULL), ('c'), (NULL), ('d')) v(t), LATERAL treedb.count(t, '{"n": 1}') n;
SELECT * FROM treedb.count(NULL, '{}');
SELECT n IS NULL AS null FROM treedb.count('c', NULL) n;
SELECT n IS NULL AS null FROM treedb.count('c', '{}', NULL) n;
SELECT a, b FROM treedb.count('c', '{"k": 1}') a LEFT JOIN treedb.count('c', '{"k": 2}') b ON a < b;
SELECT (SELECT sum(n) FROM treedb.count('c', jsonb_build_object('k', i)::bson) n) FROM generate_series(1, 3) i;
-- Prepared statements.
PREPARE counts(text, bson, bson) AS SELECT * FROM treedb.count($1, $2, $3);
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.plan($$EXECUTE counts('c', '{"n": 7}', '{}')$$);
EXECUTE counts('c', '{"n": 7}', '{}');
SELECT pg_temp.run($$EXECUTE counts('c', '{"n": 7}', '{}')$$);
EXECUTE counts(NULL, '{}', '{}');
SET plan_cache_mode = force_custom_plan;
SELECT pg_temp.plan($$EXECUTE counts('c', '{"n": 7}', '{}')$$);
EXECUTE counts('c', '{"n": 7}', '{"limit": 5}');
-- A filter that varies is not planned for each of its values.
SET plan_cache_mode = auto;
PREPARE varies(bson) AS SELECT * FROM treedb.count('c', $1);
PREPARE in_a_list(bson) AS SELECT treedb.count('c', $1);
DO $$
BEGIN
    FOR i IN 1 .. 8 LOOP
        EXECUTE format('EXECUTE varies(%L)', jsonb_build_object('n', i * 10));
        EXECUTE format('EXECUTE in_a_list(%L)', jsonb_build_object('n', i * 10));
    END LOOP;
END $$;
SELECT name, generic_plans > 0 AS generic FROM pg_prepared_statements WHERE name IN ('varies', 'in_a_list') ORDER BY 1;
RESET plan_cache_mode;

-- What is not planned as a node: a SELECT list, ordinality, several functions, volatile arguments, rows as a whole, the setting.
SELECT pg_temp.plan($$SELECT treedb.count('c', '{"n": 7}')$$);
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{"n": 7}') WITH ORDINALITY$$);
SELECT pg_temp.plan($$SELECT * FROM ROWS FROM (treedb.count('c', '{"n": 7}'), generate_series(1, 2))$$);
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', jsonb_build_object('n', random())::bson)$$);
SET treedb.enable_find_scan = off;
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{"n": 7}')$$);
SELECT * FROM treedb.count('c', '{"n": 7}');
RESET treedb.enable_find_scan;
-- In a SELECT list, in expressions of PL/pgSQL, in conditions.
DO $$
DECLARE n bigint := treedb.count('c', '{"n": 7}');
BEGIN
    PERFORM treedb.count('c', '{"n": 8}');
    FOR i IN 1 .. 3 LOOP
        n := n + treedb.count('c', jsonb_build_object('n', i)::bson) + treedb.count('c', '{"n": 5}');
    END LOOP;
    RAISE WARNING '%', n;
END $$;
SELECT i FROM generate_series(48, 51) i WHERE treedb.count('c', jsonb_build_object('n', i)::bson) > 0 ORDER BY i;

-- Errors come when the call is executed; privileges are those of the caller.
SELECT pg_temp.plan($$SELECT * FROM treedb.count('nowhere', '{"$no": 1}')$$);
\set VERBOSITY terse
SELECT * FROM treedb.count('nowhere', '{}');
SELECT * FROM treedb.count('c', '{"$no": 1}');
SELECT * FROM treedb.count('c', '{}', '{"sort": {"n": 1}}');
SELECT * FROM treedb.count('c', '{}', '{"hint": "none"}');
CREATE ROLE counting_reader;
GRANT USAGE ON SCHEMA counted, treedb TO counting_reader;
SET ROLE counting_reader;
SELECT pg_temp.plan($$SELECT * FROM treedb.count('c', '{"n": 7}')$$);
SELECT * FROM treedb.count('c', '{"n": 7}');
RESET ROLE;
GRANT SELECT ON c TO counting_reader;
CREATE POLICY few ON c FOR SELECT TO counting_reader USING ((doc ->> 'n')::int < 10);
SET ROLE counting_reader;
SELECT * FROM treedb.count('c', '{"n": 7}');
RESET ROLE;
ALTER TABLE c ENABLE ROW LEVEL SECURITY;
SET ROLE counting_reader;
SELECT * FROM treedb.count('c', '{"n": 7}');
RESET ROLE;
ALTER TABLE c DISABLE ROW LEVEL SECURITY;
REVOKE EXECUTE ON FUNCTION treedb.count(text, bson, bson) FROM public;
SET ROLE counting_reader;
SELECT * FROM treedb.count('c', '{"n": 7}');
RESET ROLE;
GRANT EXECUTE ON FUNCTION treedb.count(text, bson, bson) TO public;
\set VERBOSITY default

-- The same answers with the node and without, and as SQL counts them.
CREATE TABLE asked (filter bson, options bson);
INSERT INTO asked SELECT filter, options FROM unnest(ARRAY['{}', '{"n": 3}', '{"n": {"$in": [1, 2, 60]}}', '{"n": {"$gte": 10, "$lt": 13}}', '{"tags": "t4"}', '{"tags": {"$gte": "t3"}}', '{"k": 2, "n": {"$lt": 9}}', '{"n": 7, "b": 7}',
        '{"$or": [{"n": 4}, {"k": 5}]}', '{"_id": {"$lt": 300}}', '{"_id": 17}', '{"none": null}', '{"tags": {"$size": 2}, "k": 1}', '{"s": {"$gt": "8"}}']::bson[]) filter,
    unnest(ARRAY['{}', '{"limit": 7}', '{"skip": 100, "limit": 250}']::bson[]) options;
CREATE TABLE by_node AS SELECT filter, options, n FROM asked, LATERAL treedb.count('c', filter, options) n;
SELECT count(*), count(*) FILTER (WHERE n IS DISTINCT FROM treedb.count('c', filter, options)) AS other_by_function,
    count(*) FILTER (WHERE options = '{}' AND n IS DISTINCT FROM (SELECT count(*) FROM c WHERE doc @@ filter)) AS other_by_sql FROM by_node;
DROP SCHEMA counted CASCADE;
REVOKE USAGE ON SCHEMA treedb FROM counting_reader;
DROP ROLE counting_reader;
