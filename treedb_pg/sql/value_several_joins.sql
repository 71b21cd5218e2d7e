-- Comparisons of values at paths with rows of several tables, or of a table and a parameter, are searched for together; partitions, children and arms of a
-- UNION ALL are searched for as tables are. The rows are those of a scan.
CREATE SCHEMA several_joins;
SET search_path = several_joins, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set file :dir '/sql/include/answers.psql'
\i :file
\set pattern 'TreeDB Filter|Document Filter:|Plan:'
\set file :dir '/sql/include/searches.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION document(n int) RETURNS bson LANGUAGE sql IMMUTABLE AS $$
    SELECT format('{"_id": %s, "x": %s, "y": %s, "z": "z%s", "part": %s}', n, CASE WHEN n % 101 = 0 THEN 'null' ELSE (n % 70)::text END, CASE WHEN n % 103 = 0 THEN '"text"' ELSE (n * 7 % 90)::text END, n % 11, n % 4)::bson $$;
SELECT create_collection('c');
ALTER TABLE c SET (autovacuum_enabled = off);
INSERT INTO c SELECT document(n) FROM generate_series(1, 6000) n;
INSERT INTO c VALUES ('{"_id": 7001, "x": [3, 5], "y": 6}'), ('{"_id": 7002, "x": 3, "y": [6, 7], "z": "z1"}'), ('{"_id": 7003}');
SELECT create_index('c', '{"x": 1, "y": 1}');
CREATE TABLE p (part int, doc bson) PARTITION BY LIST (part);
CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0);
CREATE TABLE p1 (doc bson, gone int, part int);
ALTER TABLE p1 DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2, 3) PARTITION BY LIST (part);
CREATE TABLE p22 PARTITION OF p2 FOR VALUES IN (2);
CREATE TABLE p23 PARTITION OF p2 FOR VALUES IN (3);
INSERT INTO p SELECT n % 4, document(n) FROM generate_series(1, 6000) n;
SELECT create_index(name, '{"x": 1, "y": 1}') FROM unnest('{p0,p1,p22,p23}'::text[]) name;
CREATE TABLE parent (doc bson);
CREATE TABLE child (more int) INHERITS (parent);
INSERT INTO parent SELECT document(n) FROM generate_series(1, 2000) n;
INSERT INTO child SELECT document(n) FROM generate_series(2001, 4000) n;
SELECT create_index(name, '{"x": 1}') FROM unnest('{parent,child}'::text[]) name;
CREATE TABLE a (id int, x bson_value, part int, list bson_value[], filter bson);
CREATE TABLE b (id int, y bson_value, part int);
INSERT INTO a SELECT n, v, n % 4, ARRAY[v, '5', NULL], format('{"x": %s}', coalesce(v, '1'))::bson FROM unnest(ARRAY['3', '4.0', '"text"', 'null', NULL, '[3, 5]']::bson_value[]) WITH ORDINALITY x(v, n);
INSERT INTO b SELECT n, v, n % 4 FROM unnest(ARRAY['6', '12', '"text"', NULL, '[6, 7]']::bson_value[]) WITH ORDINALITY x(v, n);
ANALYZE;

-- With rows of two tables, that nothing connects, by an index over both paths.
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
SELECT pg_temp.searches($$SELECT a.id, b.id, c.doc -> '_id' FROM a, b, c WHERE c.doc -> 'x' = a.x AND c.doc -> 'y' = b.y$$);
-- With a row and a parameter. What is known is asked for once, beside what is not.
SET plan_cache_mode = force_generic_plan;
PREPARE pair(bson_value) AS SELECT a.id, c.doc -> '_id' FROM a, c WHERE c.doc -> 'x' = a.x AND c.doc -> 'y' = $1;
SELECT pg_temp.searches($$EXECUTE pair('6')$$);
PREPARE range(bson_value) AS SELECT count(*) FROM c WHERE doc -> 'x' = '3' AND doc -> 'y' > $1 AND doc -> 'y' <= '40' AND doc -> 'z' = '"z1"';
SELECT pg_temp.searches($$EXECUTE range('6')$$);
PREPARE listed(bson_value) AS SELECT count(*) FROM c WHERE doc -> 'x' IN ('3', '4') AND doc -> 'x' >= $1;
SELECT pg_temp.searches($$EXECUTE listed('4')$$);
RESET plan_cache_mode;
-- An index over one of the paths does not make a path that waits for both tables.
SELECT pg_temp.searches($$SELECT FROM a, b, ONLY parent c WHERE c.doc -> 'x' = a.x AND c.doc -> 'z' = b.y$$);
-- Partitions.
SELECT pg_temp.searches($$SELECT a.id, p.doc -> '_id' FROM a JOIN p ON p.doc -> 'x' = a.x$$);
SELECT pg_temp.searches($$SELECT a.id, b.id, p.doc -> '_id' FROM a, b, p WHERE p.doc -> 'x' = a.x AND p.doc -> 'y' = b.y$$);
-- Partition by partition.
CREATE TABLE q (part int, x bson_value) PARTITION BY LIST (part);
CREATE TABLE q0 PARTITION OF q FOR VALUES IN (0);
CREATE TABLE q1 PARTITION OF q FOR VALUES IN (1);
CREATE TABLE q2 PARTITION OF q FOR VALUES IN (2, 3) PARTITION BY LIST (part);
CREATE TABLE q22 PARTITION OF q2 FOR VALUES IN (2);
CREATE TABLE q23 PARTITION OF q2 FOR VALUES IN (3);
INSERT INTO q SELECT part, x FROM a;
ANALYZE q;
SET enable_partitionwise_join = on;
SELECT pg_temp.searches($$SELECT q.x, p.doc -> '_id' FROM q JOIN p ON p.part = q.part AND p.doc -> 'x' = q.x$$);
RESET enable_partitionwise_join;

-- Answers.
CREATE TABLE questions (n int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO questions (query)
SELECT replace(query, '<t>', t) FROM unnest('{c,p,parent,"(SELECT doc FROM p0 UNION ALL SELECT doc FROM child)"}'::text[]) t, unnest(ARRAY[
    $$SELECT a.id, b.id AS b, c.doc -> '_id' FROM a, b, <t> c WHERE c.doc -> 'x' = a.x AND c.doc -> 'y' = b.y$$,
    $$SELECT a.id, b.id AS b, c.doc -> '_id' FROM a, b, <t> c WHERE c.doc -> 'x' = a.x AND c.doc -> 'y' = b.y AND c.doc -> 'z' > '"z3"'$$,
    $$SELECT a.id, b.id AS b, count(*) FROM a, b, <t> c WHERE c.doc -> 'x' >= a.x AND c.doc -> 'y' < b.y GROUP BY 1, 2$$,
    $$SELECT a.id, b.id AS b, count(*) FROM a, b, <t> c WHERE c.doc -> 'x' BETWEEN a.x AND b.y GROUP BY 1, 2$$,
    $$SELECT a.id, b.id AS b, count(*) FROM a, b, <t> c WHERE c.doc -> 'x' = a.x AND c.doc -> 'x' = b.y GROUP BY 1, 2$$,
    $$SELECT a.id, c.doc -> '_id' FROM a JOIN <t> c ON c.doc -> 'x' = a.x AND c.doc -> 'y' < '40' AND c.doc -> 'y' > (SELECT y FROM b WHERE id = 1)$$,
    $$SELECT a.id, c.doc -> '_id' FROM a LEFT JOIN <t> c ON c.doc -> 'x' = a.x AND c.doc -> 'y' IN ('6', '7')$$,
    $$SELECT a.id, b.id AS b, c.doc -> '_id' FROM a LEFT JOIN b ON a.id = b.id LEFT JOIN <t> c ON c.doc -> 'x' = a.x AND c.doc -> 'y' = b.y$$,
    $$SELECT a.id, b.id AS b, c.doc -> '_id' FROM a JOIN b ON a.part = b.part LEFT JOIN <t> c ON c.doc -> 'x' = a.x AND c.doc -> 'y' = b.y$$,
    $$SELECT a.id FROM a, b WHERE EXISTS (SELECT FROM <t> c WHERE c.doc -> 'x' = a.x AND c.doc -> 'y' = b.y)$$,
    $$SELECT a.id FROM a WHERE NOT EXISTS (SELECT FROM <t> c WHERE c.doc -> 'x' = a.x)$$,
    $$SELECT a.id, c.doc -> '_id' FROM a JOIN <t> c ON c.doc -> 'x' = ANY (a.list)$$,
    $$SELECT a.id, b.id AS b, c.doc -> '_id' FROM a, b, <t> c WHERE c.doc -> 'x' = ANY (a.list) AND c.doc -> 'y' = b.y$$,
    $$SELECT a.id, c.doc -> '_id' FROM a JOIN <t> c ON c.doc @@ a.filter$$,
    $$SELECT a.id, b.id AS b, c.doc -> '_id' FROM a, b, <t> c WHERE c.doc @@ a.filter AND c.doc -> 'y' = b.y$$,
    $$SELECT a.id, x.* FROM a, LATERAL (SELECT b.id AS b, c.doc -> '_id' FROM b, <t> c WHERE c.doc -> 'x' = a.x AND c.doc -> 'y' = b.y OFFSET 0) x$$]) query;
INSERT INTO questions (query)
SELECT query FROM unnest(ARRAY[
    $$SELECT q.x, p.doc -> '_id' FROM q JOIN p ON p.part = q.part AND p.doc -> 'x' = q.x$$,
    $$SELECT q.x, b.id, p.doc -> '_id' FROM b, q JOIN p ON p.part = q.part AND p.doc -> 'x' = q.x WHERE p.doc -> 'y' = b.y$$,
    $$SELECT q.x, p.doc -> '_id' FROM q LEFT JOIN p ON p.part = q.part AND p.doc -> 'x' = q.x AND p.doc -> 'y' > '30'$$,
    $$SELECT a.doc -> '_id', p.doc -> '_id' AS p FROM p a JOIN p ON p.part = a.part AND p.doc -> 'x' = a.doc -> 'y' WHERE a.doc -> '_id' < '200'$$,
    $$SELECT a.filter, p.doc -> '_id' FROM (SELECT part, format('{"x": %s}', x)::bson AS filter FROM q WHERE x < '100') a JOIN p ON p.part = a.part AND p.doc @@ a.filter$$]) query;
CREATE TABLE by_index AS SELECT * FROM answers();
SELECT count(*) AS questions, count(*) FILTER (WHERE EXISTS (SELECT FROM pg_temp.searches(query) line WHERE line LIKE '%TreeDB Filter%')) AS by_index FROM questions;
SET enable_partitionwise_join = on;
CREATE TABLE piece_by_piece AS SELECT * FROM answers();
RESET enable_partitionwise_join;
RESET enable_memoize; RESET enable_material;
CREATE TABLE memoized AS SELECT * FROM answers();
RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin;
CREATE TABLE as_chosen AS SELECT * FROM answers();
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2; SET enable_seqscan = off;
CREATE TABLE in_parallel AS SELECT * FROM answers();
RESET max_parallel_workers_per_gather;
SET max_parallel_workers_per_gather = 0; RESET enable_seqscan;
SET treedb.enable_find_scan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
CREATE TABLE by_scan AS SELECT * FROM answers();
RESET treedb.enable_find_scan; RESET enable_indexscan; RESET enable_bitmapscan;
SELECT count(*) FILTER (WHERE s.answer NOT LIKE '0 %') AS with_rows, count(*) FILTER (WHERE NOT s.answer = ALL (ARRAY[i.answer, p.answer, m.answer, c.answer, w.answer])) AS different
    FROM by_scan s JOIN by_index i USING (n) JOIN piece_by_piece p USING (n) JOIN memoized m USING (n) JOIN as_chosen c USING (n) JOIN in_parallel w USING (n);
SELECT query, s.answer, i.answer, p.answer, m.answer, c.answer, w.answer FROM questions JOIN by_scan s USING (n) JOIN by_index i USING (n) JOIN piece_by_piece p USING (n) JOIN memoized m USING (n) JOIN as_chosen c USING (n) JOIN in_parallel w USING (n)
    WHERE NOT s.answer = ALL (ARRAY[i.answer, p.answer, m.answer, c.answer, w.answer]) ORDER BY n LIMIT 5;
-- Generic plans, with values of several types.
CREATE FUNCTION generic() RETURNS TABLE (question text, answer text) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE name text; x bson_value;
BEGIN
    FOREACH name IN ARRAY '{pair,range,listed}'::text[] LOOP
        FOR x IN SELECT a.x FROM a UNION ALL SELECT y FROM b LOOP
            question := format('%s(%s)', name, x);
            answer := '';
            FOR answer IN EXECUTE format('EXECUTE %s(%L)', name, x) LOOP
                RETURN NEXT;
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
DEALLOCATE pair;
PREPARE pair(bson_value) AS SELECT count(*) || ' ' || coalesce(md5(string_agg(a.id || ' ' || (c.doc ->> '_id'), ' ' ORDER BY a.id, c.doc ->> '_id')), '') FROM a, c WHERE c.doc -> 'x' = a.x AND c.doc -> 'y' = $1;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
CREATE TABLE generic_by_index AS SELECT * FROM generic();
RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin;
SET treedb.enable_find_scan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
DISCARD PLANS;
CREATE TABLE generic_by_scan AS SELECT * FROM generic();
RESET treedb.enable_find_scan; RESET enable_indexscan; RESET enable_bitmapscan;
SELECT count(*) AS answers, count(*) FILTER (WHERE s.answer NOT LIKE '0%') AS with_rows, count(*) FILTER (WHERE i IS DISTINCT FROM s) AS different FROM generic_by_index i FULL JOIN generic_by_scan s USING (question);
DROP SCHEMA several_joins CASCADE;

-- Once the extension is gone, queries are planned as without it.
SET search_path = public;
BEGIN;
CREATE TABLE plain (doc text, v int);
CREATE FUNCTION find(text, text, text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT $1 $$;
INSERT INTO plain VALUES ('a', 1);
SELECT '1'::treedb.bson_value IS NOT NULL AS loaded;
DROP SCHEMA treedb CASCADE;
SELECT doc FROM plain WHERE doc = 'a' AND v + 1 = 2 ORDER BY doc;
SELECT * FROM find('x', 'y', 'z');
SELECT a.doc FROM plain a JOIN plain b ON a.doc = b.doc AND a.doc >= 'a';
ROLLBACK;
