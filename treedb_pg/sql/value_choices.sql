-- Of several indexes that serve values which are not known when a statement is planned, the one counts that leaves the fewest rows. Contradictions with what is
-- known, wildcard indexes and arrays do not mislead the planner; statements that change or lock rows, and row security, find what a scan finds.
CREATE SCHEMA value_choices;
SET search_path = value_choices, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set file :dir '/sql/include/answers.psql'
\i :file
\set pattern 'TreeDB Filter|Document Filter:|Plan:|Seq Scan on [^ab]'
\set file :dir '/sql/include/searches.psql'
\i :file
\set ECHO all
CREATE FUNCTION cost(query text) RETURNS float LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan #>> '{0,Plan,Total Cost}';
END $$;
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION document(n int) RETURNS bson LANGUAGE sql IMMUTABLE AS $$
    SELECT format('{"_id": %s, "kind": "k%s", "n": %s, "o": [{"x": %s, "y": %s}], "part": %s}', n, n % 4, CASE WHEN n % 101 = 0 THEN 'null' ELSE (n % 2000)::text END, n % 70, n % 90, n % 4)::bson $$;
-- The same documents, with indexes on a field of four values and on one of many, made in either order; with one index on all fields; on one with arrays on its path;
-- with sparse and partial indexes.
SELECT create_collection(name) FROM unnest('{first,last,one,every,arrays,sparse}'::text[]) name;
ALTER TABLE first SET (autovacuum_enabled = off); ALTER TABLE last SET (autovacuum_enabled = off); ALTER TABLE one SET (autovacuum_enabled = off);
ALTER TABLE every SET (autovacuum_enabled = off); ALTER TABLE arrays SET (autovacuum_enabled = off); ALTER TABLE sparse SET (autovacuum_enabled = off);
INSERT INTO first SELECT document(n) FROM generate_series(1, 4000) n;
INSERT INTO last SELECT * FROM first;
INSERT INTO one SELECT * FROM first;
INSERT INTO every SELECT * FROM first;
INSERT INTO arrays SELECT * FROM first;
INSERT INTO sparse SELECT * FROM first;
SELECT create_index('first', '{"n": 1}'), create_index('first', '{"kind": 1}'), create_index('last', '{"kind": 1}'), create_index('last', '{"n": 1}'), create_index('one', '{"n": 1}'), create_index('every', '{"$**": 1}');
SELECT create_index('arrays', '{"o.x": 1, "o.y": 1}'), create_index('sparse', '{"n": 1}', '{"sparse": true}'), create_index('sparse', '{"kind": 1, "n": 1}', '{"partialFilterExpression": {"part": {"$gt": 1}}, "name": "partial"}');
CREATE TABLE a (id int, x bson_value, kind bson_value, part int, list bson_value[]);
CREATE TABLE b (id int, y bson_value, part int);
INSERT INTO a SELECT n, v, format('"k%s"', n % 5)::bson_value, n % 4, ARRAY[v, '5', NULL] FROM unnest(ARRAY['3', '4.0', '"text"', 'null', NULL, '[3, 5]', '700', '1999', '{"$numberDouble": "NaN"}']::bson_value[]) WITH ORDINALITY x(v, n);
INSERT INTO b SELECT n, v, n % 4 FROM unnest(ARRAY['6', '12', '"k1"', NULL, '69', '800']::bson_value[]) WITH ORDINALITY x(v, n);
ANALYZE;

-- Whichever index was made first, the one with many values counts, in joins and in generic plans.
SELECT pg_temp.searches(format($$SELECT FROM a, %I c WHERE c.doc -> 'kind' = a.kind AND c.doc -> 'n' = a.x$$, t)) FROM unnest('{first,last}'::text[]) t;
CREATE TABLE costs (t text, of_join float, of_generic float, generic_plans int);
PREPARE of_first(bson_value, bson_value) AS SELECT FROM first WHERE doc -> 'kind' = $1 AND doc -> 'n' = $2;
PREPARE of_last(bson_value, bson_value) AS SELECT FROM last WHERE doc -> 'kind' = $1 AND doc -> 'n' = $2;
PREPARE of_one(bson_value, bson_value) AS SELECT FROM one WHERE doc -> 'kind' = $1 AND doc -> 'n' = $2;
SET plan_cache_mode = force_generic_plan;
INSERT INTO costs SELECT t, cost(format($$SELECT FROM a, %I c WHERE c.doc -> 'kind' = a.kind AND c.doc -> 'n' = a.x$$, t)), cost(format($$EXECUTE of_%s('"k1"', '77')$$, t)) FROM unnest('{first,last,one}'::text[]) t;
RESET plan_cache_mode;
SELECT count(DISTINCT of_join::numeric) AS costs_of_join, count(DISTINCT of_generic::numeric) AS costs_of_generic FROM costs;
-- So the server keeps to the generic plan.
DEALLOCATE of_last;
PREPARE of_last(bson_value, bson_value) AS SELECT FROM last WHERE doc -> 'kind' = $1 AND doc -> 'n' = $2;
DO $$ BEGIN FOR n IN 1 .. 8 LOOP EXECUTE 'EXECUTE of_last(''"k1"'', ''77'')'; END LOOP; END $$;
SELECT generic_plans > 0 AS generic FROM pg_prepared_statements WHERE name = 'of_last';
-- What is known may contradict any number that stands for what is not.
SELECT pg_temp.searches($$SELECT FROM a, one c WHERE c.doc -> 'n' = a.x AND c.doc @@ '{"n": {"$gte": 100}}'$$);
SELECT pg_temp.searches($$SELECT FROM a, one c WHERE c.doc -> 'n' = a.x AND c.doc @@ '{"n": {"$lt": -5}}'$$);
-- A wildcard index, whichever of its paths comes first.
SELECT pg_temp.searches($$SELECT FROM a, every c WHERE c.doc -> 'kind' = '"k1"' AND c.doc -> 'n' = a.x$$);
SELECT pg_temp.searches($$SELECT FROM a, every c WHERE c.doc -> 'kind' = a.kind AND c.doc -> 'n' = a.x$$);
-- A sparse one.
SELECT pg_temp.searches($$SELECT FROM a, sparse c WHERE c.doc -> 'n' = a.x$$);
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
-- A partial index serves where its filter is known to hold.
SELECT pg_temp.searches($$SELECT FROM a, sparse c WHERE c.doc -> 'kind' = a.kind AND c.doc @@ '{"part": 3}'$$);
SELECT pg_temp.searches($$SELECT FROM a, sparse c WHERE c.doc -> 'kind' = a.kind$$);
-- A value that is not known does not tell that its filter holds, whatever value stands for it: one on the same path would have to be read as a whole table.
SELECT create_collection(name) FROM unnest('{partial,pairs}'::text[]) name;
ALTER TABLE partial SET (autovacuum_enabled = off); ALTER TABLE pairs SET (autovacuum_enabled = off);
INSERT INTO partial SELECT * FROM first;
INSERT INTO pairs SELECT * FROM first;
SELECT create_index('partial', '{"n": 1}', '{"partialFilterExpression": {"n": {"$gt": 0}}}'), create_index('partial', '{"kind": 1, "n": 1}', '{"partialFilterExpression": {"part": {"$gt": 1}}}'), create_index('pairs', '{"kind": 1, "n": 1}');
ANALYZE partial, pairs;
SELECT pg_temp.searches($$SELECT FROM a, partial c WHERE c.doc -> 'n' = a.x$$);
SELECT pg_temp.searches($$SELECT FROM a, partial c WHERE c.doc -> 'n' >= a.x AND c.doc -> 'kind' = a.kind$$);
-- What is greater than a number may be a text here, but not in a filter.
SELECT pg_temp.searches($$SELECT FROM a, partial c WHERE c.doc -> 'n' = a.x AND c.doc -> 'n' > '5'$$);
SELECT pg_temp.searches($$SELECT FROM a, partial c WHERE c.doc -> 'n' = a.x AND c.doc @@ '{"n": {"$gt": 5}}'$$);
SELECT pg_temp.searches($$SELECT FROM a, partial c WHERE c.doc -> 'n' = a.x AND c.doc -> 'kind' = a.kind AND c.doc @@ '{"part": 3}'$$);
-- What contradicts a value that stands for one that is not known bounds an index as other conditions do.
SELECT pg_temp.searches($$SELECT FROM a, pairs c WHERE c.doc -> 'n' = a.x AND c.doc @@ '{"kind": "k1", "n": {"$gte": 100}}'$$);
PREPARE listed(bson_value[], bson_value) AS SELECT FROM one WHERE doc -> 'n' = ANY ($1) AND doc -> 'n' > $2;
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.searches($$EXECUTE listed('{5,7}', '3')$$);
RESET plan_cache_mode;
-- Two fields of one array do not bound the same entries: nothing waits for both tables.
SELECT pg_temp.searches($$SELECT FROM a, b, arrays c WHERE c.doc -> 'o.x' = a.x AND c.doc -> 'o.y' = b.y$$);
-- A condition on a path of no index is left to the server.
SELECT pg_temp.searches($$SELECT FROM a, b, one c WHERE c.doc -> 'n' = a.x AND c.doc -> 'other' = b.y$$);

-- Random joins, by index and by scan.
CREATE TABLE p (part int, doc bson, changed int) PARTITION BY LIST (part);
CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0);
CREATE TABLE p1 (gone int, doc bson, changed int, part int);
ALTER TABLE p1 DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2, 3) PARTITION BY LIST (part);
CREATE TABLE p22 PARTITION OF p2 FOR VALUES IN (2);
CREATE TABLE p23 PARTITION OF p2 FOR VALUES IN (3);
INSERT INTO p SELECT n % 4, document(n), 0 FROM generate_series(1, 2000) n;
SELECT create_index('p0', '{"n": 1}'), create_index('p0', '{"kind": 1}'), create_index('p1', '{"n": -1, "kind": 1}'), create_index('p22', '{"$**": 1}'), create_index('p23', '{"n": 1, "o.x": 1}');
ANALYZE p;
-- pick(SEED, LIST): one of a list, the same each time.
CREATE FUNCTION pick(seed text, list text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT list[1 + ('x' || substr(md5(seed), 1, 7))::bit(28)::int % cardinality(list)] $$;
CREATE FUNCTION condition(seed text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(pick(seed, '{"c.doc -> ''<path>'' <op> <value>","c.doc -> ''<path>'' <op> <value>","c.doc -> ''<path>'' <op> <value>","c.doc -> ''<path>'' = ANY (a.list)","c.doc -> ''<path>'' IN (<value>, ''7'', ''\"k2\"'')","c.doc @@ ''{\"<path>\": {\"$gte\": 5}}''","c.doc -> ''<path>'' BETWEEN a.x AND b.y"}'),
        '<path>', pick(seed || 'path', '{kind,n,n,o.x,o.y}')) $$;
CREATE TABLE questions (n int, query text);
INSERT INTO questions SELECT n, format('SELECT a.id AS a, b.id AS b, c.doc -> ''_id'' AS c FROM a %s b ON %s %s %s c ON %s', pick(n || 'join', '{JOIN,JOIN,"LEFT JOIN"}'), pick(n || 'on', '{true,"a.part = b.part"}'),
    pick(n || 'second', '{JOIN,JOIN,"LEFT JOIN"}'), pick(n || 't', '{first,last,one,every,arrays,sparse,p,p,"(SELECT doc FROM every UNION ALL SELECT doc FROM p)"}'), conditions)
    FROM generate_series(1, 150) n, LATERAL (SELECT string_agg(replace(replace(condition(n || ' ' || k), '<op>', pick(n || 'op' || k, '{=,=,=,<,<=,>=,>}')), '<value>', pick(n || 'value' || k, '{a.x,a.x,b.y,a.kind,"''12''","''\"k1\"''","(SELECT y FROM b WHERE id = 2)"}')), ' AND ') FROM generate_series(1, 1 + n % 3) k) x(conditions);
CREATE TABLE by_index AS SELECT * FROM answers();
SELECT count(*) > 90 AS most_by_index FROM questions WHERE EXISTS (SELECT FROM pg_temp.searches(query) line WHERE line LIKE '%TreeDB Filter%');
RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material; RESET enable_memoize;
CREATE TABLE as_chosen AS SELECT * FROM answers();
SET treedb.enable_find_scan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
CREATE TABLE by_scan AS SELECT * FROM answers();
RESET treedb.enable_find_scan; RESET enable_indexscan; RESET enable_bitmapscan;
SELECT count(*) AS questions, count(*) FILTER (WHERE s.answer NOT LIKE '0 %') AS with_rows, count(*) FILTER (WHERE NOT s.answer = ALL (ARRAY[i.answer, c.answer])) AS different FROM by_scan s JOIN by_index i USING (n) JOIN as_chosen c USING (n);
SELECT n, query, s.answer, i.answer, c.answer FROM questions JOIN by_scan s USING (n) JOIN by_index i USING (n) JOIN as_chosen c USING (n) WHERE NOT s.answer = ALL (ARRAY[i.answer, c.answer]) ORDER BY n LIMIT 5;

-- Changes of partitions, by index and by scan.
CREATE TABLE original AS SELECT * FROM p;
CREATE TABLE changes (n int GENERATED ALWAYS AS IDENTITY, change text);
INSERT INTO changes (change) VALUES
    ($$UPDATE p SET changed = a.id FROM a WHERE p.doc -> 'n' = a.x AND p.doc -> 'kind' = a.kind$$),
    ($$UPDATE p SET changed = a.id + b.id FROM a, b WHERE p.doc -> 'n' = a.x AND p.doc -> 'kind' = '"k3"' AND b.id = a.id$$),
    ($$UPDATE p SET part = (p.part + 1) % 4, changed = 1 FROM a WHERE p.doc -> 'n' = a.x$$),
    ($$UPDATE p SET doc = format('{"_id": %s, "n": 3, "kind": "k1"}', p.doc ->> '_id')::bson, changed = 2 FROM a WHERE p.doc -> 'n' = a.x$$),
    ($$DELETE FROM p USING a WHERE p.doc -> 'n' = a.x AND p.part <> 1$$),
    ($$DELETE FROM p USING a, b WHERE p.doc -> 'n' = a.x AND p.doc -> 'kind' = a.kind AND a.part = b.part$$),
    ($$DELETE FROM p WHERE EXISTS (SELECT FROM a WHERE p.doc -> 'n' = ANY (a.list) AND a.id < 9)$$),
    ($$MERGE INTO p USING a ON p.doc -> 'n' = a.x WHEN MATCHED AND a.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET changed = a.id$$),
    ($$MERGE INTO p USING a ON p.doc -> 'n' = a.x AND p.doc -> 'kind' = a.kind WHEN MATCHED THEN UPDATE SET changed = a.id WHEN NOT MATCHED THEN INSERT VALUES (a.part, format('{"_id": -%s}', a.id)::bson, -1)$$),
    ($$WITH locked AS MATERIALIZED (SELECT p.doc -> '_id' AS id FROM a, p WHERE p.doc -> 'n' = a.x FOR UPDATE) UPDATE p SET changed = 5 FROM locked WHERE p.doc -> '_id' = locked.id$$),
    ($$WITH locked AS MATERIALIZED (SELECT p.doc -> '_id' AS id FROM a, p WHERE p.doc -> 'n' = a.x AND p.doc -> 'kind' > a.kind FOR SHARE OF p) UPDATE p SET changed = 6 FROM locked WHERE p.doc -> '_id' = locked.id$$);
CREATE FUNCTION changed() RETURNS TABLE (n int, answer text) LANGUAGE plpgsql AS $$
DECLARE c record;
BEGIN
    FOR c IN SELECT * FROM changes LOOP
        TRUNCATE p;
        INSERT INTO p SELECT * FROM original;
        EXECUTE c.change;
        n := c.n;
        SELECT count(*) || ' ' || count(*) FILTER (WHERE changed <> 0) || ' ' || md5(string_agg(format('%s %s %s', part, doc, changed), ' ' ORDER BY doc ->> '_id', part)) INTO answer FROM p;
        RETURN NEXT;
    END LOOP;
END $$;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT count(*) AS by_index FROM changes WHERE EXISTS (SELECT FROM pg_temp.searches(change) line WHERE line LIKE '%TreeDB Filter%');
CREATE TABLE changed_by_index AS SELECT * FROM changed();
RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin;
SET treedb.enable_find_scan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
CREATE TABLE changed_by_scan AS SELECT * FROM changed();
RESET treedb.enable_find_scan; RESET enable_indexscan; RESET enable_bitmapscan;
SELECT count(*) AS changes, count(*) FILTER (WHERE s.answer <> (SELECT count(*) || ' 0 ' || md5(string_agg(format('%s %s %s', part, doc, changed), ' ' ORDER BY doc ->> '_id', part)) FROM original)) AS changing, count(*) FILTER (WHERE s.answer <> i.answer) AS different FROM changed_by_scan s JOIN changed_by_index i USING (n);
SELECT n, change, s.answer, i.answer FROM changes JOIN changed_by_scan s USING (n) JOIN changed_by_index i USING (n) WHERE s.answer <> i.answer ORDER BY n;

-- Policies: a join by index or by scan has the rows that the user may see, and no condition of the user's is evaluated on others.
TRUNCATE p;
INSERT INTO p SELECT * FROM original;
CREATE ROLE value_choices_user;
GRANT USAGE ON SCHEMA value_choices, treedb TO value_choices_user;
GRANT SELECT, UPDATE ON p, p0, one, a, b, questions TO value_choices_user;
ALTER TABLE p ENABLE ROW LEVEL SECURITY;
ALTER TABLE one ENABLE ROW LEVEL SECURITY;
CREATE POLICY odd ON p USING (part % 2 = 1);
CREATE POLICY kinds ON one USING (doc -> 'kind' = '"k1"');
CREATE FUNCTION tells(doc bson) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$
BEGIN
    IF doc -> 'kind' NOT IN ('"k1"', '"k3"') THEN RAISE EXCEPTION 'a hidden document: %', doc; END IF;
    RETURN true;
END $$;
TRUNCATE questions;
INSERT INTO questions SELECT row_number() OVER (), replace(query, '<t>', t) FROM unnest('{one,p}'::text[]) t, unnest(ARRAY[
    $$SELECT a.id, c.doc -> '_id' FROM a JOIN <t> c ON c.doc -> 'n' = a.x AND tells(c.doc)$$,
    $$SELECT a.id, b.id AS b, c.doc -> '_id' FROM a, b, <t> c WHERE c.doc -> 'n' = a.x AND c.doc -> 'kind' > b.y AND tells(c.doc)$$,
    $$SELECT a.id, c.doc -> '_id' FROM a LEFT JOIN <t> c ON c.doc -> 'n' >= a.x AND c.doc -> 'kind' = '"k1"' AND tells(c.doc)$$,
    $$SELECT a.id, c.doc -> '_id' FROM (SELECT id, format('{"n": %s}', id)::bson AS filter FROM a OFFSET 0) a JOIN <t> c ON c.doc @@ a.filter AND tells(c.doc)$$,
    $$SELECT a.id FROM a WHERE NOT EXISTS (SELECT FROM <t> c WHERE c.doc -> 'n' = a.x AND tells(c.doc))$$]) query;
CREATE FUNCTION of_user(OUT answer text) LANGUAGE sql AS $$ SELECT string_agg(x::text, ' ' ORDER BY n) FROM answers() x $$;
SET ROLE value_choices_user;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT answer AS by_index FROM of_user() \gset
RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin;
SELECT answer AS as_chosen FROM of_user() \gset
SET treedb.enable_find_scan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
SELECT answer AS by_scan FROM of_user() \gset
RESET treedb.enable_find_scan; RESET enable_indexscan; RESET enable_bitmapscan;
SELECT :'by_index' = :'by_scan' AND :'as_chosen' = :'by_scan' AS same;
WITH changed AS (UPDATE p SET changed = 7 FROM a WHERE p.doc -> 'n' = a.x AND tells(p.doc) RETURNING p.part) SELECT DISTINCT part FROM changed ORDER BY part;
RESET ROLE;
SELECT DISTINCT part FROM p WHERE changed = 7 ORDER BY part;
DROP OWNED BY value_choices_user;
DROP ROLE value_choices_user;
DROP SCHEMA value_choices CASCADE;
