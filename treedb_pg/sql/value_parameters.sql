-- Comparisons of values of documents with parameters, variables and values of other tables' rows are read by the indexes that create_index makes.
-- The rows are those of a scan, whatever type a value turns out to have.
CREATE SCHEMA value_parameters;
SET search_path = value_parameters, treedb, public;
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
CREATE TABLE kinds (n int GENERATED ALWAYS AS IDENTITY, v bson_value);
INSERT INTO kinds (v) SELECT unnest(ARRAY['1', '1.0', '1.5', '{"$numberDecimal": "1"}', '{"$numberDecimal": "2"}', '{"$numberLong": "2"}', '{"$numberDouble": "NaN"}', '{"$numberDecimal": "NaN"}', '{"$numberDouble": "-0.0"}', '0', '{"$numberDecimal": "-0"}', '{"$numberDouble": "-Infinity"}', '{"$numberDouble": "Infinity"}', '-7', '9007199254740993', '9007199254740992.0',
    '"x"', '""', '"y"', '{"$symbol": "x"}', 'true', 'false', 'null', '{"$undefined": true}', '{"$date": "2020-01-01T00:00:00Z"}', '{"$date": "1950-01-01T00:00:00Z"}', '{"$oid": "5f43a1b2c3d4e5f607182930"}', '{"$timestamp": {"t": 1, "i": 1}}', '{"$minKey": 1}', '{"$maxKey": 1}',
    '{"$regularExpression": {"pattern": "x", "options": ""}}', '{"$binary": {"base64": "AAEC", "subType": "00"}}', '{"$binary": {"base64": "AAEC", "subType": "05"}}', '{"$code": "x"}', '{"$code": "x", "$scope": {}}', '{"x": 1}', '{}', '{"x": {"y": null}}',
    '[]', '[1]', '[0, 9]', '["x", 1]', '[[1]]', '[null]', '[{"x": 1}]', NULL]::bson_value[]);
INSERT INTO c SELECT format('{"_id": %s, "year": %s, "kind": "k%s", "o": {"n": %s}, "pad": "%s"}', n, 1900 + n * 37 % 120, n % 40, n * 7 % 1000, repeat('x', 400))::bson FROM generate_series(1, 3000) n;
INSERT INTO c SELECT format('{"_id": %s, "plain": %s, "mixed": %2$s}', 5000 + n, v)::bson FROM kinds WHERE n <= 38;
INSERT INTO c SELECT format('{"_id": %s, "mixed": %s}', 6000 + n, v)::bson FROM kinds WHERE n > 38 AND v IS NOT NULL;
SELECT create_index('c', '{"year": 1}'), create_index('c', '{"kind": 1, "o.n": -1}'), create_index('c', '{"plain": -1}'), create_index('c', '{"mixed": 1}');
ANALYZE c;
ANALYZE kinds;

-- A generic plan.
PREPARE of_year(bson_value) AS SELECT count(*) FROM c WHERE doc -> 'year' = $1;
PREPARE between(bson_value, bson_value) AS SELECT count(*) FROM c WHERE doc #> '{year}' BETWEEN $1 AND $2;
PREPARE in_list(bson_value[]) AS SELECT count(*) FROM c WHERE doc -> 'year' = ANY ($1);
PREPARE of_both(bson_value, bson_value) AS SELECT count(*) FROM c WHERE doc -> 'kind' = $1 AND doc -> 'o.n' < $2 AND doc -> 'o.n' >= '100';
PREPARE with_known(bson_value) AS SELECT count(*) FROM c WHERE doc @@ '{"kind": "k3"}' AND $1 < doc -> 'o.n';
PREPARE first_three(bson_value) AS SELECT doc -> 'o.n' AS n FROM c WHERE doc -> 'kind' = $1 ORDER BY doc -> 'o.n' DESC LIMIT 3;
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.run($$EXECUTE of_year('1950')$$);
SELECT pg_temp.run($$EXECUTE between('1950', '1951')$$);
SELECT pg_temp.run($$EXECUTE in_list('{1950,NULL,1900}')$$);
SELECT pg_temp.run($$EXECUTE of_both('"k3"', '300')$$);
SELECT pg_temp.plan($$EXECUTE with_known('300')$$);
EXECUTE with_known('300');
SELECT pg_temp.plan($$EXECUTE first_three('"k3"')$$);
EXECUTE first_three('"k3"');
EXECUTE of_year(NULL);
EXECUTE between('1950', NULL);
EXECUTE in_list(NULL);
EXECUTE in_list('{}');
-- What no index begins with is not searched for, nor what has no path, nor what is volatile.
PREPARE elsewhere(bson_value) AS SELECT count(*) FROM c WHERE doc -> 'nowhere' = $1 OR doc -> 'year' = $1;
SELECT pg_temp.plan($$EXECUTE elsewhere('1')$$);
SELECT pg_temp.plan($$SELECT FROM c WHERE doc -> 'year' = random()::text::bson_value$$);
RESET plan_cache_mode;
-- What the server chooses by itself in the end.
DO $$ DECLARE n bigint; BEGIN FOR i IN 1..8 LOOP EXECUTE 'EXECUTE of_year(''1950'')' INTO n; END LOOP; END $$;
SELECT generic_plans + custom_plans >= 8 AS executed FROM pg_prepared_statements WHERE name = 'of_year';
EXECUTE of_year('1950');
-- A variable, and a subquery that is executed once.
CREATE FUNCTION years(wanted bson_value) RETURNS bigint LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE n bigint;
BEGIN
    SELECT count(*) INTO n FROM c WHERE doc -> 'year' = wanted;
    RETURN n;
END $$;
SELECT years('1950'), years('1951'), years(NULL), years('"x"');
-- (Versions name its result differently.)
SELECT replace(line, '(InitPlan 1).col1', '$0') AS run FROM pg_temp.run($$SELECT count(*) FROM c WHERE doc -> 'year' = (SELECT '1950'::bson_value FROM kinds WHERE n = 1)$$) line;
-- Joins.
CREATE TABLE keys AS SELECT (1900 + n)::text::bson_value AS key, n FROM generate_series(1, 3) n;
ANALYZE keys;
SELECT pg_temp.run($$SELECT count(*) FROM keys JOIN c ON key = doc -> 'year'$$);
SELECT pg_temp.run($$SELECT count(*) FROM keys LEFT JOIN c ON doc -> 'year' = key AND doc -> 'kind' = '"k1"'$$);
SELECT pg_temp.run($$SELECT key, last FROM keys, LATERAL (SELECT doc -> 'o.n' AS last FROM c WHERE doc -> 'year' = key ORDER BY doc -> '_id' LIMIT 1) x$$);
SELECT pg_temp.run($$SELECT count(*) FROM keys, LATERAL (SELECT FROM c WHERE doc #> '{year}' = key OFFSET 0) x$$);

-- The same rows as a scan finds, for values of every type.
CREATE FUNCTION answers() RETURNS TABLE (question text, answer text) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE path text; operator text; a bson_value; b bson_value;
BEGIN
    FOR path IN SELECT unnest(ARRAY['-> ''plain''', '#> ''{mixed}''', '-> ''year''']) LOOP
        FOREACH operator IN ARRAY '{<,<=,=,>=,>}'::text[] LOOP
            EXECUTE format('PREPARE one(bson_value) AS SELECT count(*) || '' '' || coalesce(md5(string_agg(doc ->> ''_id'', '' '' ORDER BY doc ->> ''_id'')), '''') FROM c WHERE doc %s %s $1', path, operator);
            FOR a IN SELECT v FROM kinds UNION ALL SELECT '1990' LOOP
                question := format('%s %s %L', path, operator, a);
                EXECUTE format('EXECUTE one(%L)', a) INTO answer;
                RETURN NEXT;
            END LOOP;
            DEALLOCATE one;
            question := format('join %s %s', path, operator);
            EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(n || '' '' || (doc ->> ''_id''), '' '' ORDER BY n, doc ->> ''_id'')), '''') FROM kinds JOIN c ON doc %s %s v', path, operator) INTO answer;
            RETURN NEXT;
            question := format('lateral %s %s', path, operator);
            EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(n || '' '' || rows, '' '' ORDER BY n)), '''') FROM kinds, LATERAL (SELECT count(*) AS rows FROM c WHERE doc %s %s v) x', path, operator) INTO answer;
            RETURN NEXT;
        END LOOP;
        EXECUTE format('PREPARE two(bson_value, bson_value) AS SELECT count(*) || '' '' || coalesce(md5(string_agg(doc ->> ''_id'', '' '' ORDER BY doc ->> ''_id'')), '''') FROM c WHERE doc %s BETWEEN $1 AND $2', path);
        EXECUTE format('PREPARE list(bson_value[]) AS SELECT count(*) || '' '' || coalesce(md5(string_agg(doc ->> ''_id'', '' '' ORDER BY doc ->> ''_id'')), '''') FROM c WHERE doc %s = ANY ($1)', path);
        EXECUTE format('PREPARE mixed(bson_value, bson_value) AS SELECT count(*) || '' '' || coalesce(md5(string_agg(doc ->> ''_id'', '' '' ORDER BY doc ->> ''_id'')), '''') FROM c WHERE $1 < doc %s AND doc %1$s < ''{"x": 1}'' AND doc -> ''mixed'' <= $2', path);
        FOR a, b IN SELECT x.v, y.v FROM kinds x, kinds y WHERE (x.n + y.n) % 3 = 0 LOOP
            question := format('%s between %L and %L', path, a, b);
            EXECUTE format('EXECUTE two(%L, %L)', a, b) INTO answer;
            RETURN NEXT;
            question := format('%s in (%L, %L)', path, a, b);
            EXECUTE format('EXECUTE list(%L::bson_value[])', ARRAY[a, b]) INTO answer;
            RETURN NEXT;
            question := format('%s mixed (%L, %L)', path, a, b);
            EXECUTE format('EXECUTE mixed(%L, %L)', a, b) INTO answer;
            RETURN NEXT;
        END LOOP;
        DEALLOCATE two; DEALLOCATE list; DEALLOCATE mixed;
    END LOOP;
END $$;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT bool_and(line IS NOT NULL) AS by_index FROM (SELECT (SELECT l FROM pg_temp.plan(format('SELECT FROM kinds JOIN c ON doc -> ''mixed'' %s v', o)) l WHERE l LIKE '%TreeDB Filter%') AS line FROM unnest('{<,<=,=,>=,>}'::text[]) o) x;
CREATE TABLE by_index AS SELECT * FROM answers();
RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin;
SET treedb.enable_find_scan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
CREATE TABLE by_scan AS SELECT * FROM answers();
RESET treedb.enable_find_scan; RESET enable_indexscan; RESET enable_bitmapscan;
SELECT count(*) > 6000 AS many, count(*) FILTER (WHERE s.answer NOT LIKE '0 %') > 1500 AS with_rows, count(*) FILTER (WHERE i IS DISTINCT FROM s) AS different FROM by_index i FULL JOIN by_scan s USING (question);
SELECT question, i.answer, s.answer FROM by_index i FULL JOIN by_scan s USING (question) WHERE i IS DISTINCT FROM s ORDER BY question COLLATE "C" LIMIT 5;
-- A plan that is kept, of an index that gets arrays later.
SET plan_cache_mode = force_generic_plan;
PREPARE late(bson_value) AS SELECT count(*) FROM c WHERE doc -> 'plain' > $1;
EXECUTE late('{"x": 1}');
INSERT INTO c VALUES ('{"_id": 7001, "plain": [1, {"$date": "2021-01-01T00:00:00Z"}]}'), ('{"_id": 7002, "plain": []}');
EXECUTE late('{"x": 1}');
DROP SCHEMA value_parameters CASCADE;
