-- The commonest conditions on values of documents: comparisons, BETWEEN and ORDER BY with `doc -> 'a.b'` and `doc #> '{a,b}'`, by the indexes that create_index makes and
-- by indexes on the expression. The rows, and their order, are those of a scan.
CREATE SCHEMA ranges;
SET search_path = ranges, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SELECT create_collection('c');
ALTER TABLE c SET (autovacuum_enabled = off);
-- year: numbers, no value in some; kind and o.n: an index over both; mixed: values of all types but arrays; tags: arrays among numbers.
CREATE TABLE kinds (n int GENERATED ALWAYS AS IDENTITY, v bson_value);
INSERT INTO kinds (v) SELECT unnest(ARRAY['1', '1.5', '{"$numberDecimal": "2"}', '{"$numberDouble": "NaN"}', '{"$numberDecimal": "NaN"}', '{"$numberDouble": "-Infinity"}', '{"$numberDouble": "Infinity"}', '-7', '"x"', '""', '"y"', '{"$symbol": "xx"}',
    'true', 'false', 'null', '{"$undefined": true}', '{"$date": "2020-01-01T00:00:00Z"}', '{"$date": "1950-01-01T00:00:00Z"}', '{"$oid": "5f43a1b2c3d4e5f607182930"}', '{"$timestamp": {"t": 1, "i": 1}}', '{"$minKey": 1}', '{"$maxKey": 1}',
    '{"$regularExpression": {"pattern": "x", "options": ""}}', '{"$binary": {"base64": "AAEC", "subType": "00"}}', '{"$code": "x"}', '{"x": 1}', '{}']::bson_value[]);
CREATE TABLE arrays (n int GENERATED ALWAYS AS IDENTITY, v bson_value);
INSERT INTO arrays (v) SELECT unnest(ARRAY['[]', '[1]', '[0, 9]', '["x", 1]', '[[1]]', '[null]', '[{"x": 1}]']::bson_value[]);
INSERT INTO c SELECT format('{"_id": %s, "year": %s, "kind": "k%s", "o": {"n": %s}, "pad": "%s"}', n, 1900 + n * 37 % 120, n % 4, n * 7 % 1000, repeat('x', 400))::bson FROM generate_series(1, 1500) n;
INSERT INTO c SELECT format('{"_id": %s, "kind": "none"}', 4000 + n)::bson FROM generate_series(1, 20) n;
INSERT INTO c SELECT format('{"_id": %s, "mixed": %s, "tags": %2$s}', 5000 + n, v)::bson FROM kinds;
INSERT INTO c SELECT format('{"_id": %s, "tags": %s, "list": [{"n": %s}]}', 6000 + n, v, n)::bson FROM arrays;
SELECT create_index('c', '{"year": 1}'), create_index('c', '{"kind": 1, "o.n": -1}'), create_index('c', '{"mixed": -1}'), create_index('c', '{"tags": 1}'), create_index('c', '{"list.n": 1}');
ANALYZE c;

-- A range is one range of the index, what is open reaches to the last type.
SELECT pg_temp.run($$SELECT doc FROM c WHERE doc -> 'year' BETWEEN '1950' AND '1951'$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'year' > '2017'$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE '1902' > doc #> '{year}' AND doc #> '{year}' >= '1901'$$);
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'mixed' > 'true'$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'mixed' <= '{"$numberDouble": "-Infinity"}'$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'mixed' = '{"$binary": {"base64": "AAEC", "subType": "00"}}'$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'mixed' > '{"$timestamp": {"t": 1, "i": 0}}' AND doc -> 'mixed' < '{"$timestamp": {"t": 2, "i": 0}}'$$);
RESET enable_seqscan;
SELECT pg_temp.run($$SELECT doc FROM c WHERE doc -> 'year' IN ('1950', '1900', NULL, '"x"')$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'kind' = ANY ('{}')$$);
-- Conditions on several paths are one search, so that an index over both serves them; so with other operators.
SELECT pg_temp.run($$SELECT doc FROM c WHERE doc -> 'kind' = '"k3"' AND doc -> 'o.n' >= '5' AND doc -> 'o.n' < '13'$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc @> '{"kind": "k3"}' AND doc #> '{o,n}' = '5'$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc @@ '{"kind": {"$in": ["k1", "k3"]}}' AND doc #> '{o,n}' = '5' AND doc -> 'year' > '1950'$$);
SELECT count(*) FROM c WHERE doc @@ '{"kind": {"$in": ["k1", "k3"]}}' AND doc #> '{o,n}' = '5' AND doc -> 'year' > '1950';
-- Conditions that contradict each other, and bounds of other types than the values.
SELECT pg_temp.run($$SELECT doc FROM c WHERE doc -> 'year' > '5' AND doc -> 'year' < '4'$$);
SELECT count(*) FROM c WHERE doc -> 'year' > '"a"';
-- ORDER BY with them, by both operators.
SELECT pg_temp.run($$SELECT doc -> 'year' FROM c WHERE doc -> 'year' > '1980' ORDER BY doc -> 'year' LIMIT 3$$);
SELECT pg_temp.run($$SELECT doc -> 'year' FROM c WHERE doc #> '{year}' < '1980' ORDER BY doc #> '{year}' DESC LIMIT 3$$);
SELECT pg_temp.plan($$SELECT doc FROM c ORDER BY doc #> '{year}' LIMIT 3$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'kind' = '"k2"' ORDER BY doc #> '{o,n}' DESC NULLS LAST LIMIT 3$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'year' >= '1990' ORDER BY doc -> 'year', doc -> '_id' LIMIT 3$$);
SELECT pg_temp.plan($$SELECT doc FROM c ORDER BY doc -> '_id' LIMIT 3$$);
SELECT pg_temp.plan($$SELECT doc FROM c ORDER BY doc #> '{_id}' LIMIT 3$$);
-- Arrays are compared as a whole: an index with arrays serves ranges without them, and gives no order.
SET enable_seqscan = off;
SELECT query, max(line) FILTER (WHERE line LIKE '%Plan:%') AS plan FROM unnest(ARRAY['doc -> ''tags'' < ''2''', 'doc -> ''tags'' BETWEEN ''2'' AND ''3''', 'doc -> ''tags'' > ''2''', 'doc -> ''tags'' > ''true''', 'doc -> ''tags'' >= ''[1]''',
    'doc -> ''list.n'' < ''2''', 'doc #> ''{list,0,n}'' < ''2''', 'doc #> ''{a.b}'' < ''2''', 'doc -> ''year'' <> ''2''', 'doc ->> ''year'' > ''2''', 'doc -> ''year'' > doc -> ''tags''', 'doc -> ''year'' > NULL']) query,
    LATERAL pg_temp.plan('SELECT FROM c WHERE ' || query) line GROUP BY query ORDER BY query COLLATE "C";
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'tags' < '2' ORDER BY doc -> 'tags' LIMIT 3$$);
RESET enable_seqscan;
-- Positions, and what is no path of names, have no order by an index.
SELECT query, bool_or(line LIKE '%Order By%') AS by_index FROM unnest(ARRAY['doc #> ''{year}''', 'doc #> ''{o,n}''', 'doc #> ''{list,0,n}''', 'doc #> ''{year,-1}''', 'doc #> ''{o.n}''', 'doc #> ''{}''', 'doc #> ''{year,NULL}''', 'doc ->> ''year''', 'doc #>> ''{year}''']) query,
    LATERAL pg_temp.plan('SELECT FROM c WHERE doc @@ ''{"kind": "k1"}'' ORDER BY ' || query || ' LIMIT 1') line GROUP BY query ORDER BY query COLLATE "C";
-- A value that is a parameter is known where the statement is planned with it.
SET enable_seqscan = off;
PREPARE since(bson_value) AS SELECT count(*) FROM c WHERE doc -> 'year' BETWEEN $1 AND '2019';
SELECT pg_temp.plan($$EXECUTE since('2017')$$);
EXECUTE since('2017');
RESET enable_seqscan;
-- A filter of a stable function is known where the statement is executed, however often, and not where it is planned.
SET my.year = '1911';
PREPARE before AS SELECT count(*) FROM c WHERE doc @@ format('{"year": {"$lt": %s}}', current_setting('my.year'))::bson AND doc -> 'kind' = '"k3"';
PREPARE with_year AS SELECT count(*) FROM c WHERE doc @> format('{"year": %s}', current_setting('my.year'))::bson AND doc -> 'kind' = '"k3"';
EXECUTE before;
EXECUTE with_year;
SET my.year = '1991';
EXECUTE before;
EXECUTE with_year;
SET treedb.enable_find_scan = off;
EXECUTE before;
EXECUTE with_year;
RESET treedb.enable_find_scan;

-- The same rows as a scan finds, for every bound of every type, and in the same order.
CREATE FUNCTION answers() RETURNS TABLE (question text, answer text) LANGUAGE plpgsql AS $$
DECLARE path text; question text; value bson_value; other bson_value; operator text;
BEGIN
    FOR path, value, operator IN SELECT p, v, o FROM unnest(ARRAY['-> ''mixed''', '-> ''tags''', '#> ''{tags}''', '-> ''year''', '-> ''list.n''', '#> ''{o,n}''']) p, (SELECT v FROM kinds UNION ALL SELECT v FROM arrays UNION ALL SELECT '1990') k(v), unnest('{<,<=,=,>=,>}'::text[]) o LOOP
        question := format('doc %s %s %L', path, operator, value);
        RETURN QUERY EXECUTE format('SELECT %L, count(*) || '' '' || coalesce(md5(string_agg(doc ->> ''_id'', '' '' ORDER BY doc ->> ''_id'')), '''') FROM c WHERE %s', question, question);
    END LOOP;
    FOR path, value, other IN SELECT p, a.v, b.v FROM unnest(ARRAY['-> ''mixed''', '#> ''{tags}''']) p, kinds a, (SELECT v FROM arrays UNION ALL SELECT v FROM kinds WHERE n % 4 = 0) b LOOP
        question := format('doc %s IN (%L, %L, NULL, ''7'')', path, value, other);
        RETURN QUERY EXECUTE format('SELECT %L, count(*) || '' '' || coalesce(string_agg(doc ->> ''_id'', '' '' ORDER BY doc ->> ''_id''), '''') FROM c WHERE %s', question, question);
    END LOOP;
    FOR path, value, other IN SELECT p, a.v, b.v FROM unnest(ARRAY['-> ''mixed''', '#> ''{tags}''']) p, kinds a, kinds b LOOP
        question := format('doc %s BETWEEN %L AND %L', path, value, other);
        RETURN QUERY EXECUTE format('SELECT %L, count(*) || '' '' || coalesce(string_agg(doc ->> ''_id'', '' '' ORDER BY doc ->> ''_id''), '''') FROM c WHERE %s', question, question);
        question := format('doc %s > %L AND %L > doc %1$s', path, value, other);
        RETURN QUERY EXECUTE format('SELECT %L, count(*) || '' '' || coalesce(string_agg(doc ->> ''_id'', '' '' ORDER BY doc ->> ''_id''), '''') FROM c WHERE %s', question, question);
    END LOOP;
    FOR path, value, operator IN SELECT p, v, o || d FROM unnest(ARRAY['-> ''mixed''', '#> ''{mixed}''', '#> ''{tags}''', '#> ''{o,n}''']) p, kinds, unnest('{<,>=}'::text[]) o, unnest(ARRAY['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST']) d LOOP
        question := format('doc %s %s %L ORDER BY doc %1$s %4$s LIMIT 15', path, split_part(operator, ' ', 1), value, substr(operator, length(split_part(operator, ' ', 1)) + 1));
        RETURN QUERY EXECUTE format('SELECT %L, string_agg(replace(v::text, ''$numberDecimal":"NaN'', ''$numberDouble":"NaN''), '' '' ORDER BY at) FROM (SELECT doc %s AS v, row_number() OVER () AS at FROM (SELECT doc FROM c WHERE %s) x) y', question, path, question);
    END LOOP;
END $$;
SET enable_seqscan = off; SET enable_sort = off;
CREATE TABLE by_index AS SELECT * FROM answers();
RESET enable_seqscan; RESET enable_sort;
SET treedb.enable_find_scan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
CREATE TABLE by_scan AS SELECT * FROM answers();
RESET treedb.enable_find_scan; RESET enable_indexscan; RESET enable_bitmapscan;
SELECT count(*) > 5000 AS many, count(*) FILTER (WHERE s.answer NOT LIKE '0 %') > 3000 AS with_rows, count(*) FILTER (WHERE i IS DISTINCT FROM s) AS different FROM by_index i FULL JOIN by_scan s USING (question);
SELECT question, i.answer, s.answer FROM by_index i FULL JOIN by_scan s USING (question) WHERE i IS DISTINCT FROM s ORDER BY question COLLATE "C" LIMIT 5;
-- By indexes of other kinds too, which may have no entries of some rows, or of none.
CREATE FUNCTION differences(keys text, options text) RETURNS TABLE (keys_of text, options_of text, different bigint, by_a_search bigint) LANGUAGE plpgsql AS $$
DECLARE name text := create_index('c', keys::bson, options::bson);
BEGIN
    SET enable_seqscan = off; SET enable_sort = off;
    RETURN QUERY SELECT keys, options, count(*) FILTER (WHERE i IS DISTINCT FROM s), (SELECT count(*) FROM pg_temp.plan('SELECT doc FROM c WHERE doc -> ''mixed'' BETWEEN ''1'' AND ''5''') l WHERE l LIKE '%TreeDB%') FROM answers() i FULL JOIN by_scan s USING (question);
    RESET enable_seqscan; RESET enable_sort;
    PERFORM drop_index('c', name);
END $$;
SELECT drop_index('c', 'mixed_-1');
SELECT d.* FROM (VALUES ('{"mixed": 1}', '{"sparse": true}'), ('{"mixed": 1}', '{"partialFilterExpression": {"mixed": {"$gt": 1}}}'), ('{"$**": 1}', '{}'), ('{"mixed": "hashed"}', '{}'), ('{"mixed": 1}', '{"collation": {"locale": "en", "strength": 2}}'),
    ('{"mixed": 1, "year": -1}', '{}'), ('{"mixed": 1}', '{"expireAfterSeconds": 1000000000}')) v(k, o), LATERAL differences(k, o) d;
SELECT create_index('c', '{"mixed": -1}');
-- A plan that is kept, of an index that gets arrays later.
SET plan_cache_mode = force_generic_plan;
PREPARE late AS SELECT count(*) FROM c WHERE doc -> 'mixed' > '{"$date": "2019-01-01T00:00:00Z"}';
PREPARE arrays_too AS SELECT doc -> 'mixed' AS mixed FROM c WHERE doc -> 'mixed' > '{"x": 1}' ORDER BY doc -> 'mixed' LIMIT 3;
EXECUTE late;
EXECUTE arrays_too;
INSERT INTO c VALUES ('{"_id": 7001, "mixed": [1, {"$date": "2021-01-01T00:00:00Z"}]}'), ('{"_id": 7002, "mixed": []}');
EXECUTE late;
EXECUTE arrays_too;
RESET plan_cache_mode;

-- An index on the expression itself serves comparisons and orders in the server's own way, arrays too.
CREATE TABLE t (id int, document bson);
INSERT INTO t SELECT row_number() OVER (), doc FROM c;
CREATE INDEX t_tags ON t USING treedb_btree ((document -> 'tags'));
CREATE INDEX t_on ON t USING treedb_btree ((document #> '{o,n}'), id);
ANALYZE t;
SELECT pg_temp.plan($$SELECT document FROM t WHERE document -> 'tags' > '[1]' ORDER BY document -> 'tags' LIMIT 3$$);
SELECT pg_temp.plan($$SELECT document FROM t WHERE document #> '{o,n}' BETWEEN '3' AND '5' ORDER BY document #> '{o,n}', id$$);
SELECT document -> 'tags' AS tags FROM t WHERE document -> 'tags' > '[]' ORDER BY document -> 'tags' LIMIT 4;

-- Under row security no filter is made of comparisons.
CREATE ROLE ranges_reader;
GRANT USAGE ON SCHEMA ranges, treedb TO ranges_reader;
GRANT SELECT ON c TO ranges_reader;
CREATE POLICY few ON c FOR SELECT TO ranges_reader USING ((doc ->> '_id')::int < 2000);
ALTER TABLE c ENABLE ROW LEVEL SECURITY;
SET ROLE ranges_reader;
SELECT pg_temp.plan($$SELECT count(*) FROM c WHERE doc -> 'year' > '2017'$$);
SELECT count(*) FROM c WHERE doc -> 'year' > '2017';
RESET ROLE;
DROP SCHEMA ranges CASCADE;
REVOKE USAGE ON SCHEMA treedb FROM ranges_reader;
DROP ROLE ranges_reader;
