-- WHERE doc @@ filter ORDER BY doc -> path: in the order of an index, sorted where no index gives the order any more.
CREATE SCHEMA orders;
SET search_path = orders, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SELECT create_collection('orders.c');
-- ANALYZE would make plans anew.
ALTER TABLE c SET (autovacuum_enabled = off);
SELECT create_index('orders.c', '{"n": 1}'), create_index('orders.c', '{"kind": 1, "a.d": -1}'), create_index('orders.c', '{"s": 1}');
-- n: some are null, some are missing; a.d: numbers of all types, strings, documents.
INSERT INTO c SELECT (jsonb_build_object('_id', n, 'kind', 'k' || n % 5, 's', md5(n::text), 'pad', repeat('x', 200))
        || CASE WHEN n % 50 = 0 THEN '{}' WHEN n % 75 = 0 THEN '{"n": null}' ELSE jsonb_build_object('n', n * 7919 % 6000) END
        || jsonb_build_object('a', CASE n % 11 WHEN 0 THEN '{}' WHEN 1 THEN '{"d": null}' WHEN 2 THEN jsonb_build_object('d', md5(n::text))
            WHEN 3 THEN jsonb_build_object('d', jsonb_build_object('x', n % 7)) WHEN 4 THEN '5' WHEN 5 THEN jsonb_build_object('d', n + 0.5) ELSE jsonb_build_object('d', n * 31 % 1000) END))::bson
    FROM generate_series(1, 6000) n;
ANALYZE c;

-- The first rows are read and no others; a sort of the server's there is none.
SELECT pg_temp.run($$SELECT doc -> 'n' AS n FROM c WHERE doc @@ '{"n": {"$gt": 100}}' ORDER BY doc -> 'n' LIMIT 3$$);
SELECT pg_temp.run($$SELECT doc -> 'a.d' FROM c WHERE doc @@ '{"kind": "k3", "a.d": {"$gte": 0}}' ORDER BY doc -> 'a.d' DESC LIMIT 3$$);
SELECT doc -> 'a.d' AS d FROM c WHERE doc @@ '{"kind": "k3", "a.d": {"$gte": 0}}' ORDER BY doc -> 'a.d' DESC LIMIT 3;
-- Without a filter, and with conditions of the server's.
SELECT pg_temp.run($$SELECT doc -> '_id' FROM c ORDER BY doc -> 's' LIMIT 3$$);
SELECT pg_temp.run($$SELECT doc -> '_id' FROM c WHERE doc @@ '{"n": {"$gte": 0}}' AND doc ->> 'kind' = 'k1' ORDER BY doc -> 'n' LIMIT 3$$);
-- Rows without a value are NULL to SQL, at the end or the beginning; null is a value.
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"kind": "k2"}' ORDER BY doc -> 'a.d' DESC NULLS LAST LIMIT 5;
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"kind": "k2"}' ORDER BY doc -> 'a.d' NULLS FIRST LIMIT 5;
SELECT doc -> 'n' AS n, count(*) FROM (SELECT doc FROM c ORDER BY doc -> 'n' DESC LIMIT 121) first GROUP BY 1 ORDER BY 1 NULLS FIRST;
SELECT doc -> 'n' AS n, count(*) FROM (SELECT doc FROM c ORDER BY doc -> 'n' LIMIT 42) first GROUP BY 1 ORDER BY 1;
-- A second key is sorted among rows with equal first ones.
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"n": {"$gt": 100}}' ORDER BY doc -> 'n', doc -> 's' DESC LIMIT 3;
-- Grouping, DISTINCT ON and joins use the order; expressions that are not that of an index do not.
EXPLAIN (COSTS OFF) SELECT DISTINCT ON (doc -> 'n') doc -> '_id' FROM c WHERE doc @@ '{"n": {"$lt": 1000}}' LIMIT 2;
EXPLAIN (COSTS OFF) SELECT x.doc, y.v FROM c x, LATERAL (VALUES (1), (2)) y(v) WHERE x.doc @@ '{"n": {"$gt": 5}}' ORDER BY x.doc -> 'n' LIMIT 2;
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"n": {"$lt": 30}}' ORDER BY doc ->> 'n' LIMIT 2;
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"n": {"$lt": 30}}' ORDER BY doc -> 'pad' LIMIT 2;

-- The same values in the same order as by a sort, in every direction, of all rows and of the first ones.
CREATE TABLE questions AS SELECT path, direction, filter, rows FROM
    unnest('{n,a.d,s,_id,kind}'::text[]) path, unnest(ARRAY['', ' NULLS FIRST', ' DESC', ' DESC NULLS LAST']) direction, (VALUES ('{}', NULL), ('{}', 130), ('{"n": {"$gt": 5000}}', NULL),
        ('{"kind": "k1"}', NULL), ('{"kind": "k1"}', 60), ('{"kind": "k2", "a.d": {"$lt": "c"}}', 20), ('{"n": null}', 100), ('{"_id": {"$gt": 5900}}', NULL), ('{"a.d": {"$exists": true}}', 30)) q(filter, rows);
CREATE FUNCTION answer(path text, direction text, filter text, rows int, by_index bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
    PERFORM set_config('treedb.enable_find_scan', by_index::text, true);
    -- Nothing but the order of the node, if it has one.
    PERFORM set_config('enable_sort', (NOT by_index)::text, true);
    EXECUTE format('SELECT md5(string_agg(coalesce(v::text, ''-''), '','' ORDER BY at)) || count(*) FROM (SELECT doc -> %L AS v, row_number() OVER () AS at FROM
        (SELECT doc FROM c WHERE doc @@ %L ORDER BY doc -> %1$L %3$s LIMIT %4$s) first) numbered', path, filter, direction, coalesce(rows::text, 'ALL')) INTO found;
    RETURN found;
END $$;
SELECT count(*), count(*) FILTER (WHERE answer(path, direction, filter, rows, true) = answer(path, direction, filter, rows, false)) AS same FROM questions;

-- A plan that is kept: the index gives the order until it gets an array; then rows are sorted, arrays as a whole.
SET plan_cache_mode = force_generic_plan;
PREPARE first_ones AS SELECT doc -> '_id' AS id, doc -> 'n' AS n FROM c WHERE doc @@ '{"n": {"$gte": 5990}}' ORDER BY doc -> 'n' DESC LIMIT 4;
PREPARE by_filter(bson) AS SELECT doc -> '_id' AS id, doc -> 'n' AS n FROM c WHERE doc @@ $1 ORDER BY doc -> 'n' DESC LIMIT 4;
SELECT pg_temp.run('EXECUTE first_ones');
EXECUTE first_ones;
EXECUTE by_filter('{"n": {"$gte": 5990}}');
SELECT pg_temp.run($$EXECUTE by_filter('{"n": {"$gte": 5990}}')$$);
SELECT pg_temp.run($$EXECUTE by_filter('{"pad": "y"}')$$);
EXECUTE by_filter(NULL);
PREPARE all_of_them AS SELECT doc -> 'n' AS n FROM c WHERE doc @@ '{"n": {"$gte": 0}}' ORDER BY doc -> 'n' DESC;
SET enable_seqscan = off;
SET enable_sort = off;
CREATE TEMP TABLE in_order AS EXECUTE all_of_them;
RESET enable_seqscan;
RESET enable_sort;
INSERT INTO c VALUES ('{"_id": 7001, "n": [1, 5999]}'), ('{"_id": 7002, "n": []}'), ('{"_id": 7003, "n": "text"}'), ('{"_id": 7004, "n": {"a": 1}}');
SELECT pg_temp.run('EXECUTE first_ones');
EXECUTE first_ones;
EXECUTE by_filter('{"n": {"$gte": 5990}}');
EXECUTE by_filter('{"_id": {"$gt": 7000}}');
PREPARE rising AS SELECT doc -> '_id' AS id, doc -> 'n' AS n FROM c WHERE doc @@ '{"_id": {"$gt": 5997}}' ORDER BY doc -> 'n';
EXECUTE rising;
RESET plan_cache_mode;
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"n": {"$gt": 100}}' ORDER BY doc -> 'n' LIMIT 3;
SELECT count(*), count(*) FILTER (WHERE answer(path, direction, filter, rows, true) = answer(path, direction, filter, rows, false)) AS same FROM questions;
-- Keys that are stored shortened are in no order either.
SET plan_cache_mode = force_generic_plan;
PREPARE long_ones AS SELECT doc -> '_id' AS id FROM c WHERE doc @@ '{"s": {"$gte": "fff"}}' ORDER BY doc -> 's' DESC LIMIT 3;
EXECUTE long_ones;
INSERT INTO c SELECT jsonb_build_object('_id', 8000 + n, 's', 'x' || repeat('y', 5000) || n) FROM generate_series(1, 3) n;
EXECUTE long_ones;
DELETE FROM c WHERE doc @@ '{"_id": {"$gte": 7000}}';
-- Sorted in temporary files where memory does not do.
SET work_mem = '64kB';
CREATE TEMP TABLE sorted AS EXECUTE all_of_them;
SELECT regexp_replace(line, ' \(actual.*| \d+$', '') AS line FROM pg_temp.run('EXECUTE all_of_them') line;
SELECT count(*) > 5000 AS many, count(*) FILTER (WHERE a.n IS DISTINCT FROM b.n) AS different FROM in_order a FULL JOIN sorted b ON a.ctid = b.ctid;
RESET work_mem;
RESET plan_cache_mode;

-- Other indexes of the table still give their order. Cursors, locks, and rows that come again.
SELECT create_collection('orders.d');
SELECT create_index('orders.d', '{"n": 1}');
ALTER TABLE d SET (autovacuum_enabled = off);
INSERT INTO d SELECT format('{"_id": %s, "n": %s}', n, n % 300)::bson FROM generate_series(1, 3000) n;
ANALYZE d;
EXPLAIN (COSTS OFF) SELECT doc FROM d WHERE doc @@ '{"n": {"$gt": 10}}' ORDER BY doc -> 'n' LIMIT 2 FOR UPDATE;
SELECT doc -> 'n' AS n FROM d WHERE doc @@ '{"n": {"$gt": 10}}' ORDER BY doc -> 'n' LIMIT 2 FOR UPDATE;
SELECT v, (SELECT string_agg(n::text, ' ') FROM (SELECT doc -> 'n' AS n FROM d WHERE doc @@ '{"n": {"$gte": 7}}' AND (doc ->> 'n')::int % 4 = v ORDER BY doc -> 'n' LIMIT 11) x) FROM generate_series(0, 2) v;
BEGIN;
DECLARE rows SCROLL CURSOR FOR SELECT doc -> 'n' AS n FROM d WHERE doc @@ '{"n": {"$gt": 295}}' ORDER BY doc -> 'n' DESC;
FETCH 2 FROM rows;
INSERT INTO d VALUES ('{"_id": -1, "n": [299, 0]}');
FETCH 2 FROM rows; FETCH LAST FROM rows; FETCH BACKWARD 2 FROM rows; FETCH FIRST FROM rows;
DECLARE later CURSOR FOR SELECT doc -> 'n' AS n FROM d WHERE doc @@ '{"n": {"$gt": 298}}' ORDER BY doc -> 'n' DESC;
FETCH 2 FROM later;
ROLLBACK;
-- An index on the expression itself gives the order too, and so does that on _id.
EXPLAIN (COSTS OFF) SELECT doc FROM d WHERE doc @@ '{"_id": {"$gt": 10}}' ORDER BY doc -> '_id' DESC LIMIT 2;
SELECT doc -> '_id' AS id FROM d WHERE doc @@ '{"_id": {"$gt": 10}}' ORDER BY doc -> '_id' DESC LIMIT 2;
-- The index goes, and with it the plan.
SET plan_cache_mode = force_generic_plan;
PREPARE by_n AS SELECT doc -> 'n' AS n FROM d WHERE doc @@ '{"n": {"$gte": 299}}' ORDER BY doc -> 'n' LIMIT 1;
EXECUTE by_n;
SELECT drop_index('orders.d', 'n_1');
EXECUTE by_n;
RESET plan_cache_mode;
-- Under row security rows that a policy hides are passed by; what EXPLAIN estimates does not depend on the filter.
SELECT create_index('orders.d', '{"n": -1}');
ALTER TABLE d ENABLE ROW LEVEL SECURITY;
CREATE POLICY some_rows ON d USING ((doc ->> '_id')::int % 500 = 7);
CREATE ROLE orders_reader;
GRANT USAGE ON SCHEMA orders, treedb TO orders_reader;
GRANT SELECT ON d TO orders_reader;
SET ROLE orders_reader;
SELECT doc FROM d WHERE doc @@ '{"n": {"$lt": 150}}' ORDER BY doc -> 'n' DESC LIMIT 3;
EXPLAIN (COSTS OFF) SELECT doc FROM d WHERE doc @@ '{"n": {"$lt": 150}}' ORDER BY doc -> 'n' DESC LIMIT 3;
RESET ROLE;
DROP SCHEMA orders CASCADE;
REVOKE USAGE ON SCHEMA treedb FROM orders_reader;
DROP ROLE orders_reader;
