-- Equalities of values at paths, `doc -> 'a.b' = value` and `doc #> '{a,b}' = value`, by the indexes of a collection. The rows are those of a scan.
CREATE SCHEMA at_paths;
SET search_path = at_paths, treedb, public;
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
-- Values of all types at "a" and "o.b", alone, in arrays, in arrays of arrays and of documents.
CREATE TABLE kinds (n int GENERATED ALWAYS AS IDENTITY, v bson_value);
INSERT INTO kinds (v) SELECT unnest(ARRAY['1', '1.0', '2.5', '{"$numberDecimal": "1"}', '{"$numberLong": "1"}', '{"$numberDouble": "NaN"}', '"x"', '"1"', '""', 'true', 'false', 'null', '{"$date": "2020-01-01T00:00:00Z"}',
    '{"$oid": "5f43a1b2c3d4e5f607182930"}', '{"$timestamp": {"t": 1, "i": 1}}', '{"$undefined": true}', '{"$symbol": "x"}', '{"$minKey": 1}', '{"$regularExpression": {"pattern": "x", "options": ""}}', '{"$binary": {"base64": "AAEC", "subType": "00"}}',
    '{"x": 1}', '[]', '[1]', '[1, 2]', '[[1]]', '["x", 1]', '{"b": 1}', '[{"b": 1}]', '{"0": 1}']::bson_value[]);
INSERT INTO c SELECT format('{"_id": %s, "a": %s, "o": {"b": %s}}', row_number() OVER (), a.v, b.v)::bson FROM kinds a, kinds b;
INSERT INTO c SELECT format('{"_id": %s, "o": [{"b": %s}, {"b": 7}], "f": %s}', 10000 + n, v, n)::bson FROM kinds;
INSERT INTO c SELECT format('{"_id": %s, "f": %s}', 20000 + n, n)::bson FROM generate_series(1, 3000) n;
SELECT create_index('c', '{"a": 1}'), create_index('c', '{"o.b": 1}'), create_index('c', '{"f": 1}'), create_index('c', '{"a.0": 1}');
ANALYZE c;
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'f' = '17'$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE '17' = doc #> '{f}'$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'f' = '17' AND doc -> 'a' > '3'$$);
SELECT pg_temp.plan($$UPDATE c SET doc = doc WHERE doc #> '{f}' = '1.7e1'$$);
SELECT pg_temp.run($$SELECT count(*) FROM c WHERE doc -> 'f' = '17'$$);
-- What is not searched for: by the server's own index, positions, paths and values that are not known, `<>`. Null and documents are searched for by their types; arrays are not, as "a" has some.
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> '_id' = '17'$$);
SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_seqscan = off;
SELECT query, bool_or(line LIKE '%TreeDB%') AS searched FROM unnest(ARRAY['doc -> ''_id'' = ''17''', 'doc -> ''a.0'' = ''1''', 'doc #> ''{a,-1}'' = ''1''', 'doc -> ''a'' = ''null''', 'doc -> ''a'' = ''[1]''', 'doc -> ''a'' = ''{"x": 1}''', 'doc #> ''{}'' = ''1''',
    'doc -> (doc ->> ''f'') = ''1''', 'doc -> ''a'' = doc -> ''f''', 'doc -> ''f'' < ''3''', 'doc -> ''f'' <> ''3''', 'doc -> '''' = ''1''', 'doc #> ''{f,NULL}'' = ''1''', 'doc -> ''$f'' = ''1''', 'doc -> ''f'' = NULL', 'doc #> ''{f}'' = ''3''']) query,
    LATERAL pg_temp.plan('SELECT FROM c WHERE ' || query) line GROUP BY query ORDER BY query COLLATE "C";
RESET enable_indexscan; RESET enable_bitmapscan; RESET enable_seqscan;
PREPARE by_f(bson_value) AS SELECT count(*) FROM c WHERE doc -> 'f' = $1;
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.plan($$EXECUTE by_f('17')$$);
EXECUTE by_f('17');
SET plan_cache_mode = auto;
EXECUTE by_f('18');
SELECT pg_temp.plan($$EXECUTE by_f('17')$$);

-- The same rows as a scan finds, of every value, at every path, by both operators.
CREATE FUNCTION answers() RETURNS TABLE (question text, rows bigint, ids text) LANGUAGE plpgsql AS $$
DECLARE path text; question text; value bson_value;
BEGIN
    FOR path, value IN SELECT p, v FROM unnest(ARRAY['-> ''a''', '-> ''o.b''', '#> ''{a}''', '#> ''{o,b}''', '-> ''a.b''', '#> ''{o,0,b}''', '-> ''a.0''', '#> ''{a,-1}''', '#> ''{a,0}''']) p, kinds LOOP
        question := format('doc %s = %L', path, value);
        RETURN QUERY EXECUTE format('SELECT %L, count(*), string_agg(doc ->> ''_id'', '' '' ORDER BY doc ->> ''_id'') FROM c WHERE %s', question, question);
    END LOOP;
END $$;
SET enable_seqscan = off;
CREATE TABLE by_index AS SELECT * FROM answers();
SET treedb.enable_find_scan = off;
CREATE TABLE by_scan AS SELECT * FROM answers();
RESET treedb.enable_find_scan; RESET enable_seqscan;
SELECT count(*) AS questions, sum(s.rows) AS rows, count(*) FILTER (WHERE i IS DISTINCT FROM s) AS different FROM by_index i FULL JOIN by_scan s USING (question);
-- Row security: a policy's condition comes first, and what is hidden is not searched for.
CREATE ROLE at_reader;
GRANT USAGE ON SCHEMA at_paths, treedb TO at_reader;
GRANT SELECT ON c TO at_reader;
CREATE POLICY few ON c FOR SELECT TO at_reader USING ((doc ->> 'f')::int < 100);
ALTER TABLE c ENABLE ROW LEVEL SECURITY;
SET ROLE at_reader;
SELECT pg_temp.plan($$SELECT count(*) FROM c WHERE doc -> 'f' = '17'$$);
SELECT count(*) FROM c WHERE doc -> 'f' = '17';
SELECT count(*) FROM c WHERE doc -> 'f' = '170';
RESET ROLE;
-- So it is with an index of the server's own on the expression, of documents and of jsonb: their comparisons are not leakproof.
CREATE TABLE expressions (doc bson, jdoc jsonb);
INSERT INTO expressions SELECT jsonb_build_object('f', n), jsonb_build_object('f', n) FROM generate_series(1, 2000) n;
CREATE INDEX ON expressions ((doc -> 'f'));
CREATE INDEX ON expressions ((jdoc -> 'f'));
ANALYZE expressions;
GRANT SELECT ON expressions TO at_reader;
CREATE POLICY few ON expressions FOR SELECT TO at_reader USING ((doc ->> 'f')::int < 100);
SELECT pg_temp.plan($$SELECT FROM expressions WHERE doc -> 'f' = '17'$$);
SELECT pg_temp.plan($$SELECT FROM expressions WHERE jdoc -> 'f' = '17'$$);
ALTER TABLE expressions ENABLE ROW LEVEL SECURITY;
SET ROLE at_reader;
SELECT pg_temp.plan($$SELECT FROM expressions WHERE doc -> 'f' = '17'$$);
SELECT pg_temp.plan($$SELECT FROM expressions WHERE jdoc -> 'f' = '17'$$);
RESET ROLE;
DROP SCHEMA at_paths CASCADE;
REVOKE USAGE ON SCHEMA treedb FROM at_reader;
DROP ROLE at_reader;
