-- Indexes that do not have every document, or compare texts in a way of their own, and values that are not known when a statement is planned: a partial, sparse
-- or wildcard index is counted on where what is known says that it has the rows, whatever the value is, and one with a collation is not.
CREATE SCHEMA value_partial;
SET search_path = value_partial, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set file :dir '/sql/include/answers.psql'
\i :file
\set pattern 'TreeDB Filter|Document Filter:|Seq Scan on [^ab]'
\set file :dir '/sql/include/searches.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
-- Values of several types, null and none; texts that differ in case alone; arrays on the way and at its end.
CREATE FUNCTION document(n int) RETURNS bson LANGUAGE sql IMMUTABLE AS $$
    SELECT format('{"_id": %s%s, "t": "%s%s", "o": [{"x": %s}, {"y": 1}], "part": %s}', n,
        CASE n % 7 WHEN 0 THEN '' WHEN 1 THEN ', "n": null' WHEN 2 THEN format(', "n": "t%s"', n % 50) ELSE format(', "n": %s', n % 400) END,
        CASE WHEN n % 2 = 0 THEN 'w' ELSE 'W' END, n % 60, CASE n % 5 WHEN 0 THEN 'null' WHEN 1 THEN '[3, 5]' ELSE (n % 90)::text END, n % 4)::bson $$;
SELECT create_collection(name) FROM unnest('{there,greater,sparse,sparse_arrays,french,every,two}'::text[]) name;
INSERT INTO there SELECT document(n) FROM generate_series(1, 1500) n;
INSERT INTO greater SELECT * FROM there;
INSERT INTO sparse SELECT * FROM there;
INSERT INTO sparse_arrays SELECT * FROM there;
INSERT INTO french SELECT * FROM there;
INSERT INTO every SELECT * FROM there;
INSERT INTO two SELECT * FROM there;
SELECT create_index('there', '{"n": 1}', '{"partialFilterExpression": {"n": {"$exists": true}}}'), create_index('greater', '{"n": 1}', '{"partialFilterExpression": {"n": {"$gt": 3}}}'),
    create_index('sparse', '{"n": 1, "part": 1}', '{"sparse": true}'), create_index('sparse_arrays', '{"o.x": 1}', '{"sparse": true}'),
    create_index('french', '{"t": 1}', '{"collation": {"locale": "fr", "strength": 2}}'), create_index('french', '{"part": 1, "t": 1}', '{"collation": {"locale": "fr"}, "name": "pair"}'),
    create_index('every', '{"$**": 1}'), create_index('two', '{"t": 1}', '{"collation": {"locale": "fr"}, "name": "french"}'), create_index('two', '{"t": 1}', '{"name": "plain"}');
CREATE TABLE a (id int, x bson_value, list bson_value[]);
CREATE TABLE b (id int, y bson_value);
INSERT INTO a SELECT n, v, ARRAY[v, '5', NULL] FROM unnest(ARRAY['3', '7.0', '"t9"', '"w12"', 'null', NULL, '[3, 5]', '{"$numberDouble": "NaN"}', '{"$undefined": true}', '{"$minKey": 1}', 'true']::bson_value[]) WITH ORDINALITY x(v, n);
INSERT INTO b SELECT n, v FROM unnest(ARRAY['6', '"w5"', '"W12"', NULL, 'null', '300']::bson_value[]) WITH ORDINALITY x(v, n);
ANALYZE;

SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
-- A comparison is true of no missing value: a partial index of all documents with one serves it, whatever it is.
SELECT pg_temp.searches($$SELECT FROM a, there c WHERE c.doc -> 'n' = a.x$$);
SELECT pg_temp.searches($$SELECT FROM a, there c WHERE c.doc -> 'n' = ANY (a.list)$$);
PREPARE there(bson_value) AS SELECT count(*) FROM there WHERE doc -> 'n' = $1;
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.searches($$EXECUTE there('5')$$);
RESET plan_cache_mode;
-- But not one of documents with another value.
SELECT pg_temp.searches($$SELECT FROM a, there c WHERE c.doc -> 't' = a.x$$);
-- What is known of the same path says that a partial index has the rows; the value that stands for the one that is not known does not undo it.
SELECT pg_temp.searches($$SELECT FROM a, greater c WHERE c.doc -> 'n' = a.x AND c.doc -> 'n' BETWEEN '5' AND '300'$$);
SELECT pg_temp.searches($$SELECT FROM a, greater c WHERE c.doc -> 'n' = ANY (a.list) AND c.doc -> 'n' BETWEEN '5' AND '300'$$);
SELECT pg_temp.searches($$SELECT FROM a, greater c WHERE c.doc -> 'n' = a.x AND c.doc -> 'n' < '10'$$);
-- A sparse index has the rows with any of its fields.
SELECT pg_temp.searches($$SELECT FROM a, sparse c WHERE c.doc -> 'n' = a.x$$);
SELECT pg_temp.searches($$SELECT FROM a, sparse_arrays c WHERE c.doc -> 'o.x' = a.x$$);
-- An index with a collation has texts in another order than the comparison: it serves numbers that are known, and no value that may be a text.
SELECT pg_temp.searches($$SELECT FROM a, french c WHERE c.doc -> 't' = a.x$$);
SELECT pg_temp.searches($$SELECT FROM a, french c WHERE c.doc -> 't' >= a.x AND c.doc -> 't' < '5'$$);
SELECT pg_temp.searches($$SELECT FROM a, two c WHERE c.doc -> 't' = a.x$$);
SELECT pg_temp.searches($$SELECT FROM a, french c WHERE c.doc -> 't' = a.x AND c.doc -> 'part' = '3'$$);
-- Nor is it credited with such a value where something is known of the same field: what is known is searched for, once for all rows.
SELECT pg_temp.searches($$SELECT FROM a, french c WHERE c.doc -> 't' = a.x AND c.doc @@ '{"t": {"$lt": 5}}'$$);
SELECT pg_temp.searches($$SELECT FROM a, french c WHERE c.doc -> 't' = a.x AND c.doc -> 't' IN ('5', '7')$$);
SELECT pg_temp.searches($$SELECT FROM a, french c WHERE c.doc -> 't' > a.x AND c.doc -> 't' = '1'$$);
-- A wildcard index.
SELECT pg_temp.searches($$SELECT FROM a, every c WHERE c.doc -> 'n' = a.x$$);

-- An index that is counted on is used: no value makes a search read all rows.
CREATE FUNCTION read_all(query text) RETURNS SETOF bson_value LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE x bson_value;
BEGIN
    EXECUTE 'PREPARE searched(bson_value) AS ' || query;
    FOR x IN SELECT a.x FROM a LOOP
        IF NOT EXISTS (SELECT FROM pg_temp.run(format('EXECUTE searched(%L)', x)) line WHERE line LIKE '%Plan: %')
            OR EXISTS (SELECT FROM pg_temp.run(format('EXECUTE searched(%L)', x)) line WHERE line ~ 'COLLSCAN') THEN RETURN NEXT x; END IF;
    END LOOP;
    DEALLOCATE searched;
END $$;
SELECT count(*) FROM read_all($$SELECT FROM there WHERE doc -> 'n' = $1$$);
SELECT count(*) FROM read_all($$SELECT FROM there WHERE doc -> 'n' >= $1$$);
SELECT count(*) FROM read_all($$SELECT FROM there WHERE doc -> 'n' < $1$$);
SELECT count(*) FROM read_all($$SELECT FROM there WHERE doc -> 'n' = ANY (ARRAY[$1, '5'])$$);
SELECT count(*) FROM read_all($$SELECT FROM greater WHERE doc -> 'n' = $1 AND doc -> 'n' BETWEEN '5' AND '10'$$);
SELECT count(*) FROM read_all($$SELECT FROM greater WHERE doc -> 'n' <= $1 AND doc -> 'n' BETWEEN '5' AND '10'$$);
SELECT count(*) FROM read_all($$SELECT FROM sparse WHERE doc -> 'n' = $1$$);
SELECT count(*) FROM read_all($$SELECT FROM sparse WHERE doc -> 'n' = $1 AND doc -> 'part' > '1'$$);
SELECT count(*) FROM read_all($$SELECT FROM two WHERE doc -> 't' = $1$$);
-- A wildcard index has no entry for an array or a document as a whole: for such a value all rows are read.
SELECT * FROM read_all($$SELECT FROM every WHERE doc -> 'n' = $1$$);

-- Random joins, by index and by scan.
CREATE FUNCTION pick(seed text, list text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT list[1 + ('x' || substr(md5(seed), 1, 7))::bit(28)::int % cardinality(list)] $$;
CREATE FUNCTION condition(seed text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(pick(seed, '{"c.doc -> ''<path>'' <op> <value>","c.doc -> ''<path>'' <op> <value>","c.doc -> ''<path>'' <op> <value>","c.doc -> ''<path>'' = ANY (a.list)","c.doc -> ''<path>'' BETWEEN ''5'' AND ''10''","c.doc @@ ''{\"<path>\": {\"$gte\": 5}}''","c.doc @@ ''{\"<path>\": {\"$exists\": true}}''","c.doc -> ''<path>'' BETWEEN a.x AND b.y"}'),
        '<path>', pick(seed || 'path', '{n,n,n,t,t,o.x,part}')) $$;
CREATE TABLE questions (n int, query text);
INSERT INTO questions SELECT n, format('SELECT a.id AS a, b.id AS b, c.doc -> ''_id'' AS c FROM a %s b ON %s %s %s c ON %s', pick(n || 'join', '{JOIN,"LEFT JOIN"}'), pick(n || 'on', '{a.id = b.id,"a.id = b.id + 4"}'),
    pick(n || 'second', '{JOIN,JOIN,"LEFT JOIN"}'), pick(n || 't', '{there,there,greater,greater,sparse,sparse_arrays,french,french,every,two}'), conditions)
    FROM generate_series(1, 150) n, LATERAL (SELECT string_agg(replace(replace(condition(n || ' ' || k), '<op>', pick(n || 'op' || k, '{=,=,=,<,<=,>=,>}')), '<value>', pick(n || 'value' || k, '{a.x,a.x,a.x,b.y,"''12''","(SELECT y FROM b WHERE id = 2)"}')), ' AND ') FROM generate_series(1, 1 + n % 3) k) x(conditions);
CREATE TABLE by_index AS SELECT * FROM answers();
SELECT count(*) > 60 AS many_by_index FROM questions WHERE EXISTS (SELECT FROM pg_temp.searches(query) line WHERE line LIKE '%TreeDB Filter%');
RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material; RESET enable_memoize;
CREATE TABLE as_chosen AS SELECT * FROM answers();
SET treedb.enable_find_scan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
CREATE TABLE by_scan AS SELECT * FROM answers();
RESET treedb.enable_find_scan; RESET enable_indexscan; RESET enable_bitmapscan;
SELECT count(*) AS questions, count(*) FILTER (WHERE s.answer NOT LIKE '0 %') > 75 AS most_with_rows, count(*) FILTER (WHERE NOT s.answer = ALL (ARRAY[i.answer, c.answer])) AS different FROM by_scan s JOIN by_index i USING (n) JOIN as_chosen c USING (n);
SELECT n, query, s.answer, i.answer, c.answer FROM questions JOIN by_scan s USING (n) JOIN by_index i USING (n) JOIN as_chosen c USING (n) WHERE NOT s.answer = ALL (ARRAY[i.answer, c.answer]) ORDER BY n LIMIT 5;
DROP SCHEMA value_partial CASCADE;
