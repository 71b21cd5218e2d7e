-- find and aggregate in FROM are nodes of the plan: they stream, stop early, take parameters, and answer as the functions do.
SET search_path = public, treedb;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SET plan_cache_mode = auto;
SELECT create_collection('items');
INSERT INTO items SELECT jsonb_build_object('_id', i, 'n', i % 50, 'k', i % 7, 'tags', jsonb_build_array(i % 3, 'x' || i % 11)) FROM generate_series(1, 5000) i;
SELECT create_index('items', '{"n": 1}'), create_index('items', '{"tags": 1}'), create_index('items', '{"k": 1, "_id": -1}');
ANALYZE items;

-- The plan is shown as explain names it.
EXPLAIN (COSTS OFF) SELECT * FROM find('items');
EXPLAIN (COSTS OFF) SELECT * FROM find('items', '{"n": 7}');
EXPLAIN (COSTS OFF) SELECT * FROM find('items', '{"_id": 7}');
EXPLAIN (COSTS OFF) SELECT * FROM find('items', '{"none": 7}', '{"limit": 3}');
EXPLAIN (COSTS OFF) SELECT doc ->> 'n' FROM find('items', '{"k": {"$gt": 3}}', '{"sort": {"k": -1, "_id": 1}, "limit": 5, "projection": {"n": 1}}') doc WHERE doc ->> '_id' <> '12' ORDER BY 1;
EXPLAIN (COSTS OFF) SELECT * FROM find('items', '{}', '{"sort": {"none": 1}}');
EXPLAIN (COSTS OFF) SELECT * FROM aggregate('items', '[{"$match": {"n": 1}}, {"$limit": 2}]');
EXPLAIN (COSTS OFF, VERBOSE) SELECT f.*, 1 AS one FROM find('items', '{"n": 7}') AS f(d);
SELECT pg_temp.plan($$SELECT * FROM find('items', '{"n": 7}')$$, 'COSTS OFF, FORMAT json');
-- In formats for programs nodes of every kind have what the server shows of its own, and what is theirs under names that the server has no other use for.
CREATE FUNCTION node(query text) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE plan jsonb; node jsonb;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, BUFFERS, FORMAT JSON) ' || query INTO plan;
    node := jsonb_path_query_first(plan, '$.** ? (@."Custom Plan Provider" like_regex "TreeDB")');
    RETURN QUERY SELECT jsonb_object_agg(key, value) FROM jsonb_each(node) WHERE key IN ('Plan', 'Custom Plan Provider', 'Schema', 'Relation Name', 'Collection', 'Search Plan', 'Indexes', 'Order By', 'Keys Examined', 'Documents Examined')
        UNION ALL SELECT jsonb_build_object('buffers', node ->> 'Shared Hit Blocks' IS NOT NULL, 'output', node -> 'Output', 'rows', (node ->> 'Actual Rows')::float8);
END $$;
SELECT node($$SELECT * FROM find('items', '{"n": 7}')$$);
SELECT node($$SELECT * FROM find('items', '{"$or": [{"n": 7}, {"k": 3, "_id": {"$lt": 20}}]}')$$);
SELECT node($$SELECT * FROM count('items', '{"n": 7}')$$);
SELECT node($$SELECT * FROM aggregate('items', '[{"$match": {"n": 7}}, {"$limit": 2}]')$$);
SELECT node($$SELECT doc -> '_id' FROM items WHERE doc @@ '{"k": 3}' ORDER BY doc -> 'k' LIMIT 3$$);
SELECT node($$SELECT n, doc FROM generate_series(1, 2) n, LATERAL (SELECT doc FROM items WHERE doc @@ format('{"n": %s}', n)::bson) d$$);
-- Estimates come from the collection.
CREATE FUNCTION estimated_rows(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT estimated_rows($$SELECT * FROM find('items')$$) AS all_of_them, estimated_rows($$SELECT * FROM find('items', '{"_id": 3}')$$) AS one,
    estimated_rows($$SELECT * FROM find('items', '{}', '{"limit": 12}')$$) AS limited, estimated_rows($$SELECT * FROM find('items', '{"n": 3}')$$) BETWEEN 2 AND 2000 AS some,
    estimated_rows($$SELECT * FROM aggregate('items', '[{"$count": "n"}]')$$) AS counted, estimated_rows($$SELECT * FROM aggregate('items', '[{"$limit": 5}]')$$) AS five,
    estimated_rows($$SELECT * FROM find('nowhere')$$) AS unknown;
SET treedb.enable_find_scan = off;
SELECT estimated_rows($$SELECT * FROM find('items')$$) AS all_of_them, estimated_rows($$SELECT * FROM find('items', '{}', '{"limit": 12}')$$) AS limited;
EXPLAIN (COSTS OFF) SELECT * FROM find('items');
RESET treedb.enable_find_scan;
-- What is not planned as a node: a SELECT list, ordinality, several functions, volatile arguments, rows as a whole.
EXPLAIN (COSTS OFF) SELECT find('items', '{"n": 7}');
EXPLAIN (COSTS OFF) SELECT * FROM find('items') WITH ORDINALITY;
EXPLAIN (COSTS OFF) SELECT * FROM ROWS FROM (find('items'), generate_series(1, 2));
EXPLAIN (COSTS OFF) SELECT * FROM find('items', jsonb_build_object('n', random())::bson);
EXPLAIN (COSTS OFF) UPDATE items SET doc = items.doc FROM find('items', '{"_id": 1}') f WHERE items.doc -> '_id' = f -> '_id';

-- A LIMIT stops it: as few documents are read as are wanted.
SELECT pg_temp.run($$SELECT * FROM find('items') LIMIT 1$$);
SELECT pg_temp.run($$SELECT * FROM find('items', '{"n": 7}') LIMIT 10$$);
SELECT pg_temp.run($$SELECT * FROM find('items', '{"_id": 9}')$$);
SELECT pg_temp.run($$SELECT * FROM find('items', '{"tags": "x3"}', '{"limit": 20}')$$);
SELECT pg_temp.run($$SELECT * FROM find('items', '{"k": {"$lt": 3}}', '{"sort": {"k": 1, "_id": -1}, "skip": 5}') LIMIT 2$$);
SELECT pg_temp.run($$SELECT EXISTS (SELECT FROM find('items', '{"n": 7}'))$$);
SELECT pg_temp.run($$SELECT * FROM find('items', '{"n": 7, "k": 100}')$$);

-- A pipeline is pulled document by document: nothing is computed of documents beyond the LIMIT.
SELECT f FROM aggregate('items', '[{"$sort": {"_id": 1}}, {"$project": {"x": {"$divide": [6, {"$subtract": [3, "$_id"]}]}}}]') f LIMIT 2;
SET treedb.enable_find_scan = off;
SELECT f FROM aggregate('items', '[{"$sort": {"_id": 1}}, {"$project": {"x": {"$divide": [6, {"$subtract": [3, "$_id"]}]}}}]') f LIMIT 2;
RESET treedb.enable_find_scan;

-- Joins by a parameter, in both directions, with reruns of the same call and of another collection.
EXPLAIN (COSTS OFF) SELECT f ->> '_id' FROM generate_series(1, 3) i, LATERAL find('items', jsonb_build_object('_id', i)::bson) f;
SELECT i, f ->> 'n' AS n FROM generate_series(1, 3) i, LATERAL find('items', jsonb_build_object('_id', i)::bson) f ORDER BY 1;
SELECT i, count(f), min((f ->> '_id')::int), max((f ->> '_id')::int) FROM generate_series(-1, 3) i LEFT JOIN LATERAL find('items', jsonb_build_object('n', i)::bson) f ON true GROUP BY 1 ORDER BY 1;
SELECT pg_temp.run($$SELECT f ->> '_id' FROM generate_series(1, 20) i, LATERAL find('items', jsonb_build_object('_id', i)::bson) f$$);
SELECT create_collection('others');
SELECT insert_many('others', '[{"_id": 1, "o": 1}, {"_id": 2, "o": 2}]');
SELECT c, f FROM (VALUES ('items'), ('others'), ('others'), ('items')) v(c), LATERAL find(c, '{"_id": 2}', '{"projection": {"tags": 0}}') f;
SELECT a ->> '_id' AS a, count(b) FROM find('others') a, find('items', '{"_id": {"$lte": 40}}') b WHERE a ->> '_id' = b ->> 'k' GROUP BY 1 ORDER BY 1;
SELECT (SELECT count(*) FROM find('items', jsonb_build_object('n', i)::bson)) FROM generate_series(1, 3) i;
SELECT count(*) FROM (SELECT d FROM find('items', '{"n": 1}') d UNION ALL SELECT d FROM find('items', '{"n": 2}') d) u WHERE d ->> 'k' = '3';
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT d FROM find('items', '{"n": 1}') d UNION ALL SELECT d FROM find('items', '{"n": 2}') d) u WHERE d ->> 'k' = '3';
SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT pg_temp.run($$SELECT count(*) FROM generate_series(1, 4) i LEFT JOIN find('items', '{"n": 7}') f ON f ->> 'k' = i::text$$);
RESET enable_material; RESET enable_hashjoin; RESET enable_mergejoin;

-- Prepared statements: with their parameters as constants, and without.
PREPARE by_filter(bson) AS SELECT f ->> '_id' AS id FROM find('items', $1, '{"sort": {"_id": 1}}') f LIMIT 2;
SET plan_cache_mode = force_custom_plan;
EXPLAIN (COSTS OFF) EXECUTE by_filter('{"n": 7}');
EXECUTE by_filter('{"n": 7}');
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_filter('{"n": 7}');
EXECUTE by_filter('{"n": 8}');
SELECT pg_temp.run($$EXECUTE by_filter('{"n": 8}')$$);
EXECUTE by_filter(NULL);
PREPARE by_name(text, bson, bson) AS SELECT count(*) FROM find($1, $2, $3);
EXECUTE by_name('items', '{}', '{"limit": 9}');
EXECUTE by_name('others', '{}', '{}');
EXECUTE by_name(NULL, '{}', '{}');
EXECUTE by_name('nowhere', '{}', '{}');
EXECUTE by_name('items', '{"$no": 1}', '{}');
EXECUTE by_name('items', '{}', '{"no": 1}');
-- An index that is dropped, or created, between two executions.
SELECT drop_index('items', 'n_1');
EXECUTE by_filter('{"n": 8}');
SELECT create_index('items', '{"n": 1}');
EXECUTE by_filter('{"n": 8}');
SELECT pg_temp.run($$EXECUTE by_filter('{"n": 8}')$$);
RESET plan_cache_mode;
-- What is known of indexes follows changes of their names, their tables' names and their columns.
SELECT count(*) FROM find('items', '{"n": 8}', '{"hint": "n_1"}');
ALTER INDEX items_n_1 RENAME TO items_by_n;
SELECT count(*) FROM find('items', '{"n": 8}', '{"hint": "n_1"}');
SELECT count(*) FROM find('items', '{"n": 8}', '{"hint": "by_n"}');
ALTER TABLE items RENAME TO things;
SELECT count(*) FROM find('things', '{"n": 8}', '{"hint": "items_by_n"}');
ALTER TABLE things RENAME TO items;
ALTER TABLE items RENAME COLUMN doc TO other;
SELECT count(*) FROM find('items', '{"n": 8}');
ALTER TABLE items RENAME COLUMN other TO doc;
BEGIN;
DROP INDEX items_by_n;
CREATE INDEX items_by_n ON items USING treedb_btree (keys(doc, '{"k": 1}'));
SELECT treedb.explain('{"find": "items", "filter": {"k": 3}, "hint": "by_n"}') ->> 'queryPlanner.winningPlan.inputStage.indexName' AS within;
ROLLBACK;
SELECT treedb.explain('{"find": "items", "filter": {"n": 3}, "hint": "by_n"}') ->> 'queryPlanner.winningPlan.inputStage.indexName' AS after;
ALTER INDEX items_by_n RENAME TO items_n_1;
-- NULL arguments: no rows, as of any strict function.
SELECT (SELECT count(*) FROM find(NULL)) AS name, (SELECT count(*) FROM find('items', NULL)) AS filter, (SELECT count(*) FROM find('items', '{}', NULL)) AS options;
EXPLAIN (COSTS OFF) SELECT * FROM find('items', NULL::bson);

-- Cursors.
BEGIN;
DECLARE c CURSOR FOR SELECT f ->> '_id' AS id FROM find('items', '{"_id": {"$gt": 10}}', '{"sort": {"_id": 1}}') f;
FETCH 2 FROM c;
-- What changes meanwhile is not seen: the cursor has its snapshot.
SELECT delete_many('items', '{"_id": {"$in": [13, 14]}}'), update_many('items', '{"_id": {"$gt": 10, "$lt": 20}}', '{"$set": {"_changed": true}, "$inc": {"n": 1}}') ->> 'modifiedCount' AS changed;
INSERT INTO items VALUES ('{"_id": 15.5}');
FETCH 4 FROM c;
MOVE 4980 IN c;
FETCH ALL FROM c;
FETCH BACKWARD 1 FROM c;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT f ->> '_id' AS id FROM find('items', '{"_id": {"$lt": 5}}') f;
FETCH ALL FROM c;
FETCH BACKWARD 2 FROM c;
DECLARE h CURSOR WITH HOLD FOR SELECT f ->> '_id' AS id FROM find('items', '{"_id": {"$lt": 5}}') f;
FETCH 1 FROM h;
COMMIT;
FETCH ALL FROM h;
CLOSE h;
-- A cursor of an outer transaction read in a subtransaction that is rolled back, and one that fails.
BEGIN;
DECLARE c CURSOR FOR SELECT f ->> '_id' AS id FROM find('items', '{"_id": {"$gt": 10}}') f;
SAVEPOINT s;
FETCH 1 FROM c;
ROLLBACK TO s;
FETCH 1 FROM c;
DECLARE wrong CURSOR FOR SELECT * FROM find('items', '{"_id": {"$lte": 3}}') f WHERE 1 / (3 - (f ->> '_id')::int) > 0;
SAVEPOINT s;
FETCH ALL FROM wrong;
ROLLBACK TO s;
FETCH ALL FROM wrong;
ROLLBACK TO s;
FETCH 1 FROM c;
COMMIT;
-- DDL on a collection that a cursor reads is refused, as for any table; afterwards it goes through.
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM find('items');
MOVE 1 IN c;
SAVEPOINT s;
DROP TABLE items;
ROLLBACK TO s;
CLOSE c;
TRUNCATE items;
ROLLBACK;

-- Loops in PL/pgSQL: updates of what is being read, leaving early, errors that are caught.
DO $$
DECLARE d bson; seen int := 0; caught int := 0;
BEGIN
    FOR d IN SELECT * FROM find('items', '{"k": 3}') LOOP
        PERFORM update_one('items', jsonb_build_object('_id', (d ->> '_id')::int)::bson, '{"$inc": {"k": 1}}');
        seen := seen + 1;
        EXIT WHEN seen = 500;
    END LOOP;
    RAISE NOTICE 'seen %, left %', seen, treedb.count('items', '{"k": 3}');
    FOR i IN 1 .. 200 LOOP
        BEGIN
            FOR d IN SELECT * FROM find('items', '{}') LOOP
                PERFORM 1 / ((d ->> '_id')::int - 3);
            END LOOP;
        EXCEPTION WHEN division_by_zero THEN caught := caught + 1;
        END;
        BEGIN
            PERFORM * FROM find('items', '{"$wrong": 1}');
        EXCEPTION WHEN invalid_parameter_value THEN caught := caught + 1;
        END;
    END LOOP;
    RAISE NOTICE 'caught %', caught;
    FOR d IN SELECT * FROM find('others') LOOP
        COMMIT;
        RAISE NOTICE '%', d;
    END LOOP;
END $$;

-- Errors come when the call is executed, not when it is planned.
EXPLAIN (COSTS OFF) SELECT * FROM find('nowhere', '{"$no": 1}');
EXPLAIN (COSTS OFF) SELECT * FROM find('a.b.c.d."');
SELECT 1 AS one WHERE false AND EXISTS (SELECT FROM find('nowhere'));
SELECT * FROM find('nowhere');
SELECT * FROM find('a.b.c.d."');
SELECT * FROM find('items', '{"$no": 1}');
SELECT * FROM find('items', '{}', '{"order": 1}');
SELECT * FROM find('items', '{}', '{"hint": "no"}');
SELECT * FROM find('pg_class');
SELECT * FROM aggregate('nowhere', '[]');
SELECT * FROM aggregate('items', '{"a": 1}');
SELECT * FROM aggregate('items', '[{"$out": "x"}]');

-- Privileges and row security: the same with and without the node.
CREATE ROLE scan_reader;
CREATE SCHEMA hidden;
GRANT USAGE ON SCHEMA treedb TO scan_reader;
SELECT create_collection('hidden.h'), insert_one('hidden.h', '{"_id": 1}');
CREATE FUNCTION as_owner() RETURNS SETOF bson LANGUAGE sql SECURITY DEFINER SET search_path = public, treedb AS $$ SELECT * FROM find('others') $$;
CREATE VIEW through_view AS SELECT * FROM find('others') AS doc;
GRANT SELECT ON through_view TO scan_reader;
SET ROLE scan_reader;
EXPLAIN (COSTS OFF) SELECT * FROM find('others');
SELECT * FROM find('others');
SELECT * FROM find('hidden.h');
SELECT * FROM through_view;
SELECT count(*) FROM as_owner();
SET treedb.enable_find_scan = off;
SELECT * FROM find('others');
SELECT * FROM find('hidden.h');
SELECT * FROM through_view;
SELECT count(*) FROM as_owner();
RESET treedb.enable_find_scan;
RESET ROLE;
GRANT SELECT ON others TO scan_reader;
SET ROLE scan_reader;
SELECT * FROM through_view;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION find(text, bson, bson) FROM public;
SET ROLE scan_reader;
SELECT * FROM find('others');
EXPLAIN (COSTS OFF) SELECT * FROM find('others');
SET treedb.enable_find_scan = off;
SELECT * FROM find('others');
RESET treedb.enable_find_scan;
RESET ROLE;
GRANT EXECUTE ON FUNCTION find(text, bson, bson) TO public;
ALTER TABLE others ENABLE ROW LEVEL SECURITY;
SET ROLE scan_reader;
EXPLAIN (COSTS OFF) SELECT * FROM find('others');
SELECT * FROM find('others');
SET row_security = off;
EXPLAIN (COSTS OFF) SELECT * FROM find('others');
SELECT * FROM find('others');
RESET row_security;
RESET ROLE;
SELECT count(*) FROM find('others');
ALTER TABLE others DISABLE ROW LEVEL SECURITY;
-- Read-only transactions, and names along the search path.
BEGIN READ ONLY;
SELECT count(*) FROM find('others');
ROLLBACK;
SET search_path = hidden, public, treedb;
SELECT * FROM find('h');
SET search_path = public, treedb;
SELECT * FROM find('h');
PREPARE along AS SELECT * FROM find('h');
SET search_path = hidden, treedb;
EXECUTE along;
SET search_path = public, treedb;
EXECUTE along;

-- A long find can be cancelled: one that goes through many documents, and one that is called again and again.
SET statement_timeout = '100ms';
SELECT count(*) FROM generate_series(1, 100000000) i, LATERAL find('items', jsonb_build_object('none', i)::bson) f;
SELECT count(*) FROM find('items', '{"$expr": {"$reduce": {"input": {"$range": [0, 100000]}, "initialValue": 0, "in": {"$add": ["$$value", 1]}}}, "none": null}') f;
RESET statement_timeout;

-- Sorts and groups larger than work_mem go to temporary files.
SET work_mem = '64kB';
SELECT count(*), count(*) FILTER (WHERE a.f IS DISTINCT FROM b.doc) AS different FROM
    (SELECT row_number() OVER () AS at, f FROM find('items', '{}', '{"sort": {"tags.1": -1, "_id": 1}}') f) a FULL JOIN
    (SELECT row_number() OVER (ORDER BY doc ->> 'tags.1' COLLATE "C" DESC, doc -> '_id') AS at, doc FROM items) b USING (at);
SELECT count(*) FROM find('items', '{}', '{"sort": {"tags.1": 1}, "skip": 10, "limit": 4000}');
SELECT count(*), min(f ->> 'n') FROM aggregate('items', '[{"$group": {"_id": "$_id", "n": {"$sum": 1}}}]') f;
SELECT f ->> '_id' FROM find('items', '{}', '{"sort": {"tags.1": 1, "_id": -1}}') f LIMIT 2;
RESET work_mem;

-- The same answers with the node and without, over many queries; sorted by what is unique, or as a multiset.
CREATE TABLE asked (n int GENERATED ALWAYS AS IDENTITY, filter bson, options bson);
INSERT INTO asked (filter, options)
SELECT filter, options FROM unnest(ARRAY['{}', '{"n": 3}', '{"n": {"$in": [1, 2, 60]}}', '{"n": {"$gte": 10, "$lt": 13}}', '{"tags": "x4"}', '{"tags": {"$all": [1, "x4"]}}', '{"k": {"$ne": 2}}',
        '{"$or": [{"n": 4}, {"k": 5}]}', '{"_id": {"$lt": 300}}', '{"_id": 17}', '{"_id": null}', '{"tags": {"$size": 2}, "k": 1}', '{"$and": [{"n": {"$gt": 48}}, {"k": {"$lte": 1}}]}', '{"_id": {"$mod": [97, 3]}}']::bson[]) filter,
    unnest(ARRAY['{}', '{"sort": {"_id": -1}}', '{"sort": {"n": 1, "_id": 1}, "skip": 3, "limit": 40}', '{"sort": {"k": -1, "_id": 1}, "projection": {"n": 1, "_id": 0}}', '{"limit": 7, "sort": {"_id": 1}}', '{"projection": {"tags": {"$slice": 1}}}', '{"sort": {"tags": 1, "_id": 1}}']::bson[]) options;
CREATE FUNCTION answers() RETURNS TABLE (n int, rows bigint, answer text) LANGUAGE sql AS $$
    SELECT n, count(f), md5(string_agg(f::text, '' ORDER BY CASE WHEN (options ->> 'sort') IS NULL THEN f ->> '_id' END, at)) FROM asked,
        LATERAL (SELECT f, row_number() OVER () AS at FROM find('items', filter, options) f) found GROUP BY n, options ->> 'sort'
$$;
CREATE TABLE streamed AS SELECT * FROM answers();
SET treedb.enable_find_scan = off;
CREATE TABLE collected AS SELECT * FROM answers();
RESET treedb.enable_find_scan;
SELECT count(*) AS questions, sum(rows) AS documents, count(*) FILTER (WHERE s IS DISTINCT FROM c) AS different FROM streamed s FULL JOIN collected c USING (n, rows, answer);

DROP VIEW through_view;
DROP TABLE asked, streamed, collected, items, others;
DROP FUNCTION answers, estimated_rows, as_owner;
DROP SCHEMA hidden CASCADE;
REVOKE USAGE ON SCHEMA treedb FROM scan_reader;
DROP ROLE scan_reader;
