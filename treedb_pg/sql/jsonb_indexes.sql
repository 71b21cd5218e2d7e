-- @>, <@, ?, ?| and ?& of documents are searched for by the indexes that @@ is, and find the same rows as a scan of all of them.
CREATE SCHEMA contained;
SET search_path = contained, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SET jit = off;
SELECT create_collection('c');
ALTER TABLE c SET (autovacuum_enabled = off);
SELECT create_index('c', '{"a": 1}'), create_index('c', '{"a.b": 1}'), create_index('c', '{"a.b.c": 1, "a.b.a": -1}'), create_index('c', '{"e": 1}'), create_index('c', '{"r": 1}', '{"sparse": true}'), create_index('c', '{"d.$**": 1}'), create_index('c', '{"b": 1}'),
    create_index('c', '{"q": 1}', '{"partialFilterExpression": {"q": {"$exists": true}}}'), create_index('c', '{"s": 1}', '{"collation": {"locale": "simple"}}');

-- value(DEPTH, SEED): a random value as extended JSON, of few different ones, so that they recur: numbers of all types, the values that are
-- mistaken for each other, empty documents and arrays, arrays in arrays, and names that paths take for something else.
CREATE FUNCTION value(depth int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE kind int := floor(random() * CASE WHEN depth > 0 THEN 30 ELSE 20 END);
BEGIN
    IF kind < 20 THEN
        RETURN (ARRAY['0', '1', '2', '1.0', '1.5', '{"$numberLong": "1"}', '{"$numberDecimal": "1.0"}', '{"$numberDecimal": "1.50"}', '{"$numberDouble": "NaN"}', '{"$numberDouble": "-0.0"}', 'null', 'null', 'true', 'false',
            '"x"', '"1"', '{"$symbol": "x"}', '{"$date": "2020-01-01T00:00:00Z"}', '[]', '{}'])[kind + 1];
    ELSIF kind < 25 THEN
        RETURN '[' || coalesce((SELECT string_agg(contained.value(depth - 1), ', ') FROM generate_series(1, 1 + floor(random() * 3)::int)), '') || ']';
    END IF;
    RETURN contained.document(depth - 1);
END $$;
CREATE FUNCTION document(depth int, id text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN '{' || id || coalesce((SELECT string_agg(format('"%s": %s', (ARRAY['a', 'a', 'a', 'b', 'b', 'c', 'd', 'e', '0', 'x.y', '', 'ü'])[1 + floor(random() * 12)::int], contained.value(depth)), ', ')
        FROM generate_series(1, 1 + floor(random() * 3)::int)), '') || '}';
END $$;
SELECT setseed(0.25);
-- Documents that the compound index cannot take, as two fields are arrays, are left out.
DO $$
DECLARE document text;
BEGIN
    FOR n IN 1..3000 LOOP
        document := contained.document(3, format('"_id": %s, %s', n, CASE WHEN n % 97 = 0 THEN '"r": null, ' WHEN n % 89 = 0 THEN '"q": 1, ' ELSE '' END));
        BEGIN INSERT INTO contained.c VALUES (document::bson); EXCEPTION WHEN OTHERS THEN IF SQLERRM NOT LIKE 'cannot index parallel arrays%' THEN RAISE; END IF; END;
    END LOOP;
END $$;
SELECT count(*) > 2500 AS documents FROM c;
-- Those of other types, regular expressions and duplicate names.
INSERT INTO c SELECT format('{"_id": %s, "a": %s, "e": [%s], "a": 2}', 5000 + n, v, v)::bson
    FROM unnest(ARRAY['{"$regularExpression": {"pattern": "x", "options": ""}}', '{"$minKey": 1}', '{"$maxKey": 1}', '{"$undefined": true}', '{"$binary": {"base64": "AQI=", "subType": "00"}}', '{"$timestamp": {"t": 1, "i": 1}}',
        '{"$oid": "65a000000000000000000000"}', '{"$code": "x"}', '{"$numberDecimal": "NaN"}', '{"$numberLong": "9007199254740993"}', '9007199254740992.0']) WITH ORDINALITY AS values(v, n);
-- What is asked for: random documents, parts of those that are there, and those with fields of them left out or in another order.
CREATE TABLE parts (n serial, part bson);
INSERT INTO parts (part) SELECT document(2)::bson FROM generate_series(1, 500);
INSERT INTO parts (part) SELECT format('{"%s": %s}', name, document(1))::bson FROM generate_series(1, 100), unnest(ARRAY['a', 'd', 'e']) name;
INSERT INTO parts (part) SELECT format('{"a": {"b": %s}}', value(1))::bson FROM generate_series(1, 100);
INSERT INTO parts (part) SELECT format('{"a": [%s, {"b": %s}]}', value(1), value(1))::bson FROM generate_series(1, 100);
INSERT INTO parts (part) SELECT jsonb_build_object(key, value)::bson FROM (SELECT doc FROM c WHERE (doc ->> '_id')::int % 11 = 3 AND NOT doc::text ~ 'NaN|\$|-0.0') d, jsonb_each(doc::jsonb) WHERE key <> '_id';
INSERT INTO parts (part) SELECT format('{"%s": %s}', name, doc -> name)::bson FROM c, unnest(ARRAY['a', 'c', 'e']) name WHERE doc ? name AND ((doc ->> '_id')::int % 17 = 4 OR (doc ->> '_id')::int > 5000);
ANALYZE c;

-- found(PART): the rows by a statement with the part as a constant, and whether it was searched for by indexes.
CREATE FUNCTION found(condition text, OUT ids int[], OUT searched boolean) LANGUAGE plpgsql AS $$
DECLARE line text; query text := 'SELECT array_agg((doc ->> ''_id'')::int ORDER BY (doc ->> ''_id'')::int) FROM contained.c WHERE ' || condition;
BEGIN
    EXECUTE query INTO ids;
    searched := false;
    FOR line IN EXECUTE 'EXPLAIN ' || query LOOP searched := searched OR line LIKE '%TreeDB Filter%'; END LOOP;
END $$;
SET enable_seqscan = off;
CREATE TABLE searched AS SELECT n, f.* FROM parts, found(format('doc @> %L', part)) f;
SET treedb.enable_find_scan = off;
CREATE TABLE scanned AS SELECT n, array_agg((doc ->> '_id')::int ORDER BY (doc ->> '_id')::int) FILTER (WHERE doc IS NOT NULL) AS ids FROM parts LEFT JOIN c ON doc @> part GROUP BY n;
RESET treedb.enable_find_scan;
SELECT count(*) > 1000 AS many, count(*) FILTER (WHERE searched) > 600 AS most_by_indexes, count(*) FILTER (WHERE searched AND r.ids IS NOT NULL) > 300 AS that_find_some,
    count(*) FILTER (WHERE s.ids IS DISTINCT FROM r.ids) AS different FROM searched s JOIN scanned r USING (n);
SELECT n, part, s.ids, r.ids FROM searched s JOIN scanned r USING (n) JOIN parts USING (n) WHERE s.ids IS DISTINCT FROM r.ids ORDER BY n LIMIT 5;
-- The same where the part is another table's, and as <@.
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT n, doc FROM parts JOIN c ON part <@ doc WHERE n < 10;
SET enable_seqscan = off;
SELECT count(*) AS different FROM (SELECT n, array_agg((doc ->> '_id')::int ORDER BY (doc ->> '_id')::int) FILTER (WHERE doc IS NOT NULL) AS ids FROM parts LEFT JOIN c ON part <@ doc GROUP BY n) s JOIN scanned r USING (n) WHERE s.ids IS DISTINCT FROM r.ids;
-- Fields that are there.
CREATE TABLE names AS SELECT names FROM (VALUES ('{e}'), ('{c}'), ('{e,c}'), ('{}'), ('{e,NULL}'), ('{0}'), ('{""}'), ('{x.y,e}'), ('{ü}'), ('{e,a}'), ('{$e}'), ('{none}'), ('{e,e}'), ('{r}'), ('{q}'), ('{r,NULL,q}'), ('{a,r}')) v(names);
CREATE TABLE fields AS SELECT names, operator, (found(format('doc %s %L::text[]', operator, names))).* FROM names, unnest(ARRAY['?|', '?&']) operator;
INSERT INTO fields SELECT name, '?', (found(format('doc ? %L', name))).* FROM unnest(ARRAY['e', 'c', '0', '', 'x.y', 'ü', '$e', 'none', 'r', 'q']) name;
SET treedb.enable_find_scan = off;
SELECT operator, names, searched, coalesce(array_length(ids, 1), 0) > 0 AS some,
    ids IS DISTINCT FROM (SELECT array_agg((doc ->> '_id')::int ORDER BY (doc ->> '_id')::int) FROM c WHERE CASE operator WHEN '?' THEN doc ? names WHEN '?|' THEN doc ?| names::text[] ELSE doc ?& names::text[] END) AS different
FROM fields ORDER BY operator COLLATE "C", names COLLATE "C";
RESET treedb.enable_find_scan; RESET enable_seqscan;
-- The filter that is searched for is shown; the operator is evaluated on each row that is found.
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc @> '{"a": {"b": {"c": 1}}, "b": 2}'$$);
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc @> '{"a": [1, [2], {"b": [{"c": "x"}]}]}' AND doc ->> 'b' > '1'$$);
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc ? 'r'$$);
RESET enable_seqscan;
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc <@ '{"a": 1}'$$);
SELECT contains_filter('{"a": {"b": 1, "c": {}}, "0": 1, "x.y": 1, "$z": 2, "r": {"$minKey": 1}}'), contains_filter('{}'), contains_filter('{"x.y": 1}'), has_field_filter('a'), has_any_field_filter('{a,b.c}'), has_any_field_filter('{a,b}'), has_all_fields_filter('{a,b.c,NULL}');
-- Parameters, rows that are changed, and estimates.
PREPARE containing(bson) AS SELECT count(*) FROM c WHERE doc @> $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE containing('{"a": {"b": 1}}');
EXECUTE containing('{"a": {"b": 1}}'); EXECUTE containing(NULL); EXECUTE containing('{}');
RESET plan_cache_mode;
BEGIN;
DELETE FROM c WHERE doc @> '{"a": {"b": 1}}';
EXECUTE containing('{"a": {"b": 1}}');
ROLLBACK;
SELECT create_collection('e');
INSERT INTO e SELECT format('{"_id": %s, "k": %s, "t": [%s, "z"]%s}', n, n % 50, n % 20, CASE WHEN n % 100 = 0 THEN ', "rare": 1' ELSE '' END)::bson FROM generate_series(1, 5000) n;
SELECT create_index('e', '{"k": 1}');
ANALYZE e;
CREATE FUNCTION estimated(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan' -> 'Plan Rows';
END $$;
SELECT estimated($$SELECT FROM e WHERE doc @> '{"k": 7}'$$) BETWEEN 50 AND 200 AS k, estimated($$SELECT FROM e WHERE doc @> '{"t": [7]}'$$) BETWEEN 100 AND 500 AS t,
    estimated($$SELECT FROM e WHERE doc ? 'rare'$$) BETWEEN 10 AND 200 AS rare, estimated($$SELECT FROM e WHERE doc ? 't'$$) > 4000 AS all_of_them, estimated($$SELECT FROM e WHERE doc @> '{"t": [7], "k": 7}'$$) < 50 AS both;
-- Row security: an index leads to rows, and the policy says which of them the operator sees.
CREATE ROLE contained_reader;
GRANT USAGE ON SCHEMA contained, treedb TO contained_reader;
GRANT SELECT ON e TO contained_reader;
ALTER TABLE e ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON e USING ((doc ->> '_id')::int < 100);
SET ROLE contained_reader;
EXPLAIN (COSTS OFF) SELECT doc FROM e WHERE doc @> '{"k": 7}';
SELECT doc FROM e WHERE doc @> '{"k": 7}' ORDER BY 1;
-- Who may execute find and the functions behind operators needs no other function, whatever the plans call: those that make filters of
-- the arguments of operators are nothing that a query asks for. Unless a query does.
RESET ROLE;
ALTER TABLE e DISABLE ROW LEVEL SECURITY;
BEGIN;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA treedb FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find(text, bson, bson), count(text, bson, bson), matches(bson, bson), contains(bson, bson), contained(bson, bson), has_field(bson, text), has_any_field(bson, text[]) TO contained_reader;
SET LOCAL ROLE contained_reader;
EXPLAIN (COSTS OFF) SELECT doc FROM e WHERE doc @> '{"_id": 7}';
SELECT (SELECT string_agg(doc::text, ' ') FROM find('e', '{"k": 7}', '{"sort": {"_id": 1}, "limit": 2}') doc) AS found, count('e', '{"k": 7}') AS counted,
    (SELECT count(*) FROM e WHERE doc @@ '{"k": 7}') AS matching, (SELECT count(*) FROM e WHERE doc @> '{"_id": 7}') AS containing, (SELECT count(*) FROM e WHERE '{"_id": 7}' <@ doc) AS contained,
    (SELECT count(*) FROM e WHERE doc ? 'rare') AS rare, (SELECT count(*) FROM e WHERE doc ?| '{rare,none}') AS rare_or_none, (SELECT count(*) FROM e WHERE doc @> NULL) AS none;
SET LOCAL plan_cache_mode = force_generic_plan;
PREPARE of_k(bson) AS SELECT count(*) FROM e WHERE doc @> $1;
EXPLAIN (COSTS OFF) EXECUTE of_k('{"k": 7}');
EXECUTE of_k('{"k": 7}'); EXECUTE of_k(NULL); EXECUTE of_k('{"k": 8, "t": [8]}');
DEALLOCATE of_k;
SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_material = off; SET LOCAL enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT n, count(*) FROM (VALUES (1, '{"k": 7}'::bson), (2, NULL), (3, '{"k": 8, "t": [8]}')) parts(n, part) JOIN e ON doc @> part GROUP BY n ORDER BY n;
SELECT n, count(*) FROM (VALUES (1, '{"k": 7}'::bson), (2, NULL), (3, '{"k": 8, "t": [8]}')) parts(n, part) JOIN e ON doc @> part GROUP BY n ORDER BY n;
SELECT count(*) FROM e WHERE doc @@ contains_filter('{"k": 7}');
ROLLBACK;
REVOKE USAGE ON SCHEMA treedb FROM contained_reader;
DROP SCHEMA contained CASCADE;
DROP ROLE contained_reader;
