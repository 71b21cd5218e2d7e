-- Joins whose inner side is searched for with values of other rows have the rows that they have without: outer, semi and anti joins, several joins above
-- each other, subqueries for each row, and by several processes.
CREATE SCHEMA value_joins;
SET search_path = value_joins, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set file :dir '/sql/include/answers.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SET jit = off;
SELECT create_collection('c');
ALTER TABLE c SET (autovacuum_enabled = off, parallel_workers = 2);
CREATE TABLE kinds (n int GENERATED ALWAYS AS IDENTITY, v bson_value);
INSERT INTO kinds (v) SELECT unnest(ARRAY['1', '1.0', '{"$numberDecimal": "1"}', '2', '{"$numberDouble": "NaN"}', '"x"', '"y"', 'true', 'null', '{"$undefined": true}', '{"$oid": "5f43a1b2c3d4e5f607182930"}', '{"x": 1}', '[1]', '[0, 9]', '[]', NULL]::bson_value[]);
INSERT INTO c SELECT format('{"_id": %s, "year": %s, "kind": "k%s", "o": {"n": %s}}', n, 1900 + n * 37 % 120, n % 40, n * 7 % 1000)::bson FROM generate_series(1, 3000) n;
INSERT INTO c SELECT format('{"_id": %s, "mixed": %s}', 5000 + n, v)::bson FROM kinds WHERE v IS NOT NULL;
INSERT INTO c VALUES ('{"_id": 6000}');
SELECT create_index('c', '{"year": 1}'), create_index('c', '{"kind": 1, "o.n": -1}'), create_index('c', '{"mixed": 1}');
CREATE TABLE keys AS SELECT (1900 + n)::text::bson_value AS key, n FROM generate_series(1, 3) n;
INSERT INTO keys VALUES (NULL, 4), ('1', 5);
ANALYZE c;
ANALYZE kinds;
ANALYZE keys;
CREATE TABLE questions (n int GENERATED ALWAYS AS IDENTITY, query text);
-- The eighth has few rows outside: version 18 starts workers for each of them if nothing else is enabled.
INSERT INTO questions (query) VALUES
    ($$SELECT k.n, c.doc -> '_id' FROM kinds k JOIN c ON c.doc -> 'mixed' = k.v$$),
    ($$SELECT k.n, c.doc -> '_id' FROM kinds k LEFT JOIN c ON c.doc -> 'mixed' = k.v$$),
    ($$SELECT k.n, c.doc -> '_id' FROM kinds k LEFT JOIN c ON c.doc -> 'mixed' > k.v AND k.n < 5$$),
    ($$SELECT k.n FROM kinds k WHERE NOT EXISTS (SELECT FROM c WHERE c.doc -> 'mixed' = k.v)$$),
    ($$SELECT k.n FROM kinds k WHERE EXISTS (SELECT FROM c WHERE c.doc -> 'mixed' > k.v)$$),
    ($$SELECT k.n FROM kinds k WHERE k.v IN (SELECT doc -> 'mixed' FROM c)$$),
    ($$SELECT k.n FROM kinds k WHERE k.v NOT IN (SELECT doc -> 'mixed' FROM c WHERE doc -> 'mixed' = k.v)$$),
    ($$SELECT count(*) FROM (SELECT doc FROM c WHERE doc -> '_id' < '80' OR doc -> '_id' > '4990') c LEFT JOIN kinds k ON c.doc -> 'year' = '1950' AND k.n = 1$$),
    ($$SELECT count(*) FROM kinds k LEFT JOIN c ON c.doc -> 'year' = '1950' AND k.n = 1$$),
    ($$SELECT k.n, c.doc -> '_id' FROM kinds k LEFT JOIN keys b ON b.n = k.n LEFT JOIN c ON c.doc -> 'year' = b.key$$),
    ($$SELECT k.n, c.doc -> '_id' FROM kinds k LEFT JOIN (SELECT n, coalesce(key, '1950') AS key FROM keys) b ON b.n = k.n LEFT JOIN c ON c.doc -> 'year' = b.key$$),
    ($$SELECT k.n, c.doc -> '_id' FROM kinds k LEFT JOIN (keys b JOIN c ON c.doc -> 'year' = b.key) ON b.n = k.n$$),
    ($$SELECT a.n, count(c.doc) FROM kinds a JOIN kinds b ON a.n = b.n JOIN c ON c.doc -> 'mixed' = a.v GROUP BY a.n$$),
    ($$SELECT a.n, b.n, c.doc -> '_id' FROM keys a, keys b, c WHERE c.doc -> 'year' = a.key AND c.doc -> 'year' = b.key$$),
    ($$SELECT a.n, b.n, c.doc -> '_id' FROM keys a, keys b, c WHERE c.doc -> 'year' >= a.key AND c.doc -> 'year' <= b.key AND a.n < 3 AND b.n < 4$$),
    ($$SELECT d.doc -> '_id', c.doc -> '_id' FROM c d JOIN c ON c.doc -> 'mixed' = d.doc -> 'mixed'$$),
    ($$SELECT x, (SELECT doc -> 'o.n' FROM c WHERE doc -> 'kind' = v ORDER BY doc -> 'o.n' DESC LIMIT 1) FROM (VALUES (1, '"k3"'::bson_value), (2, NULL), (3, '"k3"'), (4, '"k4"'), (5, '"none"'), (6, '"k3"')) r(x, v)$$),
    ($$SELECT k.n, x.* FROM kinds k, LATERAL (SELECT count(*) FROM c WHERE doc -> 'mixed' < k.v OR doc -> 'mixed' = k.v) x$$),
    ($$SELECT k.n, x.* FROM kinds k, LATERAL (SELECT doc -> '_id' FROM c WHERE doc -> 'mixed' = ANY (ARRAY[k.v, '2']) ORDER BY 1 LIMIT 2) x$$),
    ($$SELECT count(*) FROM c WHERE doc -> 'year' BETWEEN (SELECT '1905'::bson_value) AND (SELECT '1907'::bson_value)$$),
    ($$SELECT doc -> '_id' FROM c WHERE doc -> 'kind' = (SELECT v FROM kinds WHERE n = 6) OR doc -> 'mixed' = (SELECT v FROM kinds WHERE n = 7)$$),
    ($$SELECT k.n, c.doc -> '_id' FROM kinds k LEFT JOIN LATERAL (SELECT * FROM c WHERE c.doc -> 'mixed' = k.v OFFSET 0) c ON true$$),
    ($$WITH old AS MATERIALIZED (SELECT v FROM kinds WHERE n < 4) SELECT c.doc -> '_id' FROM old JOIN c ON c.doc -> 'mixed' >= old.v$$);
SET treedb.enable_find_scan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
CREATE TABLE by_scan AS SELECT * FROM answers();
RESET treedb.enable_find_scan; RESET enable_indexscan; RESET enable_bitmapscan;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
CREATE TABLE by_index AS SELECT * FROM answers();
SET enable_memoize = off;
CREATE TABLE again AS SELECT * FROM answers();
-- Nearly all are searched for by an index.
SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM pg_temp.plan(query) line WHERE line LIKE '%Document Filter%')) >= 18 AS by_index FROM questions;
-- By several processes.
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;
CREATE TABLE in_parallel AS SELECT * FROM answers();
RESET enable_memoize;
CREATE TABLE in_parallel_again AS SELECT * FROM answers();
RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material;
CREATE TABLE as_chosen AS SELECT * FROM answers();
SELECT count(*) > 20 AS many, count(*) FILTER (WHERE s.answer NOT LIKE '0 %') > 18 AS with_rows, count(*) FILTER (WHERE NOT s.answer = ALL (ARRAY[i.answer, a.answer, p.answer, q.answer, c.answer])) AS different
    FROM by_scan s JOIN by_index i USING (n) JOIN again a USING (n) JOIN in_parallel p USING (n) JOIN in_parallel_again q USING (n) JOIN as_chosen c USING (n);
SELECT query FROM questions JOIN by_scan s USING (n) JOIN by_index i USING (n) JOIN again a USING (n) JOIN in_parallel p USING (n) JOIN in_parallel_again q USING (n) JOIN as_chosen c USING (n)
    WHERE i.answer <> s.answer OR a.answer <> s.answer OR p.answer <> s.answer OR q.answer <> s.answer OR c.answer <> s.answer ORDER BY n;
-- An index that is made in the function which searches for values unknown to the plan is used by it from then on.
CREATE FUNCTION later(x bson_value) RETURNS bigint LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE found bigint; line text;
BEGIN
    FOR i IN 1..2 LOOP
        FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT FROM c WHERE doc -> ''later'' = (SELECT %L::bson_value)', x) LOOP
            IF line LIKE '%Document Filter%' THEN RAISE WARNING 'by index in turn %', i; END IF;
        END LOOP;
        SELECT count(*) INTO found FROM c WHERE doc -> 'later' = x;
        IF i = 1 THEN PERFORM create_index('c', '{"later": 1}'); END IF;
    END LOOP;
    RETURN found;
END $$;
SET enable_seqscan = off;
SELECT later('1');
RESET enable_seqscan;
DROP SCHEMA value_joins CASCADE;
