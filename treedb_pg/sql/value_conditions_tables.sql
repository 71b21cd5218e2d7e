-- Comparisons and orders of values at paths over partitions, children of an inheritance, rows that policies hide, and by several
-- processes: the rows, and their order, are those of a scan.
CREATE SCHEMA condition_tables;
SET search_path = condition_tables, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

-- same(): how many rows a query has by indexes, how many nodes search them, and whether a scan of the tables answers the same.
CREATE FUNCTION answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
    EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(x::text, ''|'' ORDER BY at)), '''') FROM (SELECT x, row_number() OVER () AS at FROM (%s) x) y', query) INTO found;
    RETURN found;
END $$;
CREATE FUNCTION same(query text) RETURNS TABLE (rows text, nodes bigint, same bool) LANGUAGE plpgsql AS $$
DECLARE ours text; theirs text; workers text := current_setting('max_parallel_workers_per_gather');
BEGIN
    SET LOCAL enable_seqscan = off;
    nodes := (SELECT count(*) FROM pg_temp.plan(query) line WHERE line LIKE '%TreeDB Filter%');
    ours := answer(query);
    SET LOCAL enable_seqscan = on; SET LOCAL treedb.enable_find_scan = off; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL max_parallel_workers_per_gather = 0;
    theirs := answer(query);
    SET LOCAL treedb.enable_find_scan = on; SET LOCAL enable_indexscan = on; SET LOCAL enable_bitmapscan = on; SET LOCAL enable_indexonlyscan = on;
    PERFORM set_config('max_parallel_workers_per_gather', workers, true);
    rows := split_part(ours, ' ', 1);
    same := ours = theirs;
    RETURN NEXT;
END $$;
CREATE FUNCTION documents(low int, high int) RETURNS SETOF bson LANGUAGE sql AS $$
    SELECT format('{"_id": %s, "n": %s, "kind": "k%s", "o": {"n": %s}, "owner": "%s"%s}', i, CASE WHEN i % 97 = 0 THEN 'null' WHEN i % 89 = 0 THEN '"text"' ELSE (i * 37 % 1000)::text END, i % 7, i * 7 % 500,
        CASE i % 3 WHEN 0 THEN 'conditions_reader' ELSE 'other' END, CASE WHEN i % 50 > 0 THEN format(', "m": %s', i * 11 % 300) ELSE '' END)::bson FROM generate_series(low, high) i $$;

-- Partitions: with columns in another order, of two levels, without an index, with an array.
CREATE TABLE p (part int, doc bson, note text) PARTITION BY RANGE (part);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 (gone int, note text, doc bson, gone_too text, part int);
ALTER TABLE p2 DROP COLUMN gone, DROP COLUMN gone_too;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30) PARTITION BY LIST (part);
CREATE TABLE p31 PARTITION OF p3 FOR VALUES IN (20, 21);
CREATE TABLE p32 PARTITION OF p3 DEFAULT;
CREATE TABLE p4 PARTITION OF p DEFAULT;
INSERT INTO p SELECT (doc ->> '_id')::int % 45, doc, 'note' FROM documents(1, 4500) doc;
SELECT create_index(name, '{"n": 1}'), create_index(name, '{"kind": 1, "o.n": -1}') FROM unnest('{p1,p2,p31,p32}'::text[]) name;
INSERT INTO p VALUES (21, '{"_id": 9001, "n": [1, 500], "kind": "k1"}', 'array');
ANALYZE p;
-- Children, with more columns, of two parents.
CREATE TABLE parent (doc bson, id int);
CREATE TABLE another (other int);
CREATE TABLE child (extra text) INHERITS (another, parent);
CREATE TABLE grandchild (more text) INHERITS (child);
INSERT INTO parent SELECT doc, 1 FROM documents(1, 1500) doc;
INSERT INTO child SELECT 2, doc, 2, 'x' FROM documents(1501, 3000) doc;
INSERT INTO grandchild SELECT 3, doc, 3, 'y', 'z' FROM documents(3001, 4500) doc;
SELECT create_index(name, '{"n": 1}'), create_index(name, '{"kind": 1, "o.n": -1}') FROM unnest('{parent,child,grandchild}'::text[]) name;
ANALYZE parent, child, grandchild;

CREATE TABLE conditions (condition text);
INSERT INTO conditions VALUES ('doc -> ''n'' = ''5'''), ('doc -> ''n'' BETWEEN ''5'' AND ''20'''), ('doc -> ''n'' > ''990'''), ('doc #> ''{n}'' <= ''4'''), ('doc -> ''n'' IN (''1'', ''"text"'', ''null'', ''7'')'),
    ('doc -> ''kind'' = ''"k3"'' AND doc -> ''o.n'' < ''40'''), ('doc -> ''n'' < ''100'' AND doc -> ''kind'' = ''"k2"'''), ('doc -> ''n'' > ''"a"'''), ('doc -> ''n'' >= ''[1, 500]'''), ('doc -> ''n'' = ''1'' OR doc -> ''n'' = ''2''');
SELECT condition, s.* FROM conditions, same('SELECT * FROM p WHERE ' || condition || ' ORDER BY doc -> ''_id''') s ORDER BY condition COLLATE "C";
SELECT condition, s.* FROM conditions, same('SELECT * FROM parent WHERE ' || condition || ' ORDER BY doc -> ''_id''') s ORDER BY condition COLLATE "C";
SELECT count(*), bool_and(same) FROM conditions, unnest('{p1,p2,p3,p31,p4,parent,child,ONLY parent}'::text[]) t, unnest('{doc -> ''n'',doc #> ''\{n\}'' DESC,doc -> ''n'' NULLS FIRST,doc -> ''n'' DESC NULLS LAST}'::text[]) o,
    same(format('SELECT doc -> ''n'' FROM %s WHERE %s ORDER BY %s LIMIT 7', t, condition, o)) s;
SELECT s.* FROM same('SELECT doc -> ''n'' FROM p ORDER BY doc -> ''n'' DESC NULLS LAST LIMIT 20') s;
-- One partition is left after others are excluded; joins piece by piece.
SELECT s.* FROM same($$SELECT doc -> 'n' FROM p WHERE part = 12 AND doc -> 'n' BETWEEN '5' AND '20' ORDER BY doc -> 'n' LIMIT 3$$) s;
SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on;
SELECT s.* FROM same($$SELECT a.doc, b.note FROM p a JOIN p b ON a.part = b.part WHERE a.doc -> 'n' BETWEEN '5' AND '9' AND b.doc -> 'n' > '996' ORDER BY a.doc -> '_id', b.doc -> '_id'$$) s;
SELECT s.* FROM same($$SELECT part, count(*), min(doc ->> 'n') FROM p WHERE doc -> 'n' < '50' GROUP BY part ORDER BY part$$) s;
RESET enable_partitionwise_join; RESET enable_partitionwise_aggregate;
-- A subquery for each row, where the search begins again and again.
SELECT s.* FROM same($$SELECT i, (SELECT count(*) FROM p WHERE doc -> 'n' BETWEEN '5' AND '9' AND part > i) FROM generate_series(1, 5) i$$) s;
SELECT s.* FROM same($$SELECT i, x.n FROM generate_series(1, 5) i, LATERAL (SELECT doc -> 'n' AS n FROM p1 WHERE doc -> 'n' > '900' AND part >= i ORDER BY doc -> 'n' LIMIT 2) x$$) s;
-- Rows that are changed: within their partition, and into another one.
BEGIN;
UPDATE p SET note = 'changed' WHERE doc -> 'n' BETWEEN '5' AND '20' AND doc -> 'kind' = '"k3"';
UPDATE p SET part = part + 7 WHERE doc -> 'n' BETWEEN '15' AND '20';
DELETE FROM p WHERE doc -> 'n' < '5' AND doc -> 'kind' IN ('"k1"', '"k2"');
UPDATE parent SET id = id + 10 WHERE doc -> 'n' BETWEEN '5' AND '20';
SELECT count(*), count(*) FILTER (WHERE note = 'changed'), md5(string_agg(part || (doc ->> '_id'), ',' ORDER BY (doc ->> '_id')::int)) FROM p;
SELECT tableoid::regclass, count(*) FROM parent WHERE id > 10 GROUP BY 1 ORDER BY 1;
ROLLBACK;
BEGIN;
SET LOCAL treedb.enable_find_scan = off; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;
UPDATE p SET note = 'changed' WHERE doc -> 'n' BETWEEN '5' AND '20' AND doc -> 'kind' = '"k3"';
UPDATE p SET part = part + 7 WHERE doc -> 'n' BETWEEN '15' AND '20';
DELETE FROM p WHERE doc -> 'n' < '5' AND doc -> 'kind' IN ('"k1"', '"k2"');
UPDATE parent SET id = id + 10 WHERE doc -> 'n' BETWEEN '5' AND '20';
SELECT count(*), count(*) FILTER (WHERE note = 'changed'), md5(string_agg(part || (doc ->> '_id'), ',' ORDER BY (doc ->> '_id')::int)) FROM p;
SELECT tableoid::regclass, count(*) FROM parent WHERE id > 10 GROUP BY 1 ORDER BY 1;
ROLLBACK;

-- By several processes.
CREATE TABLE big (doc bson, pad text) WITH (parallel_workers = 3);
INSERT INTO big SELECT doc, repeat('x', 300) FROM documents(1, 12000) doc;
SELECT create_index('big', '{"n": 1}'), create_index('big', '{"kind": 1, "o.n": -1}'), create_index('big', '{"m": 1}');
CREATE INDEX big_o ON big USING treedb_btree ((doc -> 'o.n'));
VACUUM ANALYZE big;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 3;
SET enable_seqscan = off;
SELECT query, bool_or(line LIKE '%Parallel%') AS parallel FROM unnest(ARRAY['SELECT count(*) FROM big WHERE doc -> ''n'' BETWEEN ''5'' AND ''400''', 'SELECT doc -> ''n'' FROM big WHERE doc -> ''n'' BETWEEN ''5'' AND ''400'' ORDER BY doc -> ''n''',
    'SELECT count(*) FROM big WHERE doc -> ''o.n'' BETWEEN ''5'' AND ''400''']) query, pg_temp.plan(query) line GROUP BY query ORDER BY query COLLATE "C";
RESET enable_seqscan;
CREATE VIEW shapes AS SELECT format(shape, t, condition) AS query FROM conditions, unnest('{big,p,parent}'::text[]) t, unnest(ARRAY[
    'SELECT count(*), min((doc ->> ''_id'')::int), max((doc ->> ''o.n'')::float8) FROM %s WHERE %s', 'SELECT doc -> ''kind'' AS k, count(*) FROM %s WHERE %s GROUP BY 1 ORDER BY 1', 'SELECT doc FROM %s WHERE %s ORDER BY doc -> ''n'', doc -> ''_id''',
    'SELECT doc -> ''n'' FROM %s WHERE %s ORDER BY doc -> ''n'' DESC LIMIT 5', 'SELECT count(*) FROM %s WHERE (%s) AND doc -> ''o.n'' BETWEEN ''50'' AND ''300''']) shape;
SELECT count(*), bool_and(same) FROM shapes, same(query);
SELECT query, s.* FROM shapes, same(query) s WHERE NOT same ORDER BY query COLLATE "C" LIMIT 5;
SET parallel_leader_participation = off;
SELECT count(*), bool_and(same) FROM shapes, same(query);
RESET parallel_leader_participation;
SET enable_parallel_append = off;
SELECT count(*), bool_and(same) FROM shapes, same(query) WHERE query LIKE '%FROM p %';
RESET enable_parallel_append;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size; RESET min_parallel_index_scan_size; RESET max_parallel_workers_per_gather;
-- In one worker, whatever it costs.
SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('debug_parallel_query', 'force_parallel_mode');
SET max_parallel_workers_per_gather = 2;
SELECT count(*), bool_and(same) FROM shapes, same(query);
SELECT set_config(name, 'off', false) FROM pg_settings WHERE name IN ('debug_parallel_query', 'force_parallel_mode');
SET max_parallel_workers_per_gather = 0;

-- Policies that are comparisons, with conditions of the query's own.
CREATE ROLE conditions_reader;
GRANT USAGE ON SCHEMA condition_tables, treedb TO conditions_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA condition_tables TO conditions_reader;
CREATE POLICY own ON big FOR ALL TO conditions_reader USING (doc -> 'owner' = to_jsonb(current_user)::text::bson_value AND doc -> 'o.n' < '400') WITH CHECK (doc -> 'n' < '2000');
CREATE POLICY low ON p FOR SELECT TO conditions_reader USING (doc -> 'n' BETWEEN '5' AND '600');
CREATE POLICY high ON p FOR SELECT TO conditions_reader USING (doc #> '{n}' > '990');
CREATE POLICY own ON parent FOR SELECT TO conditions_reader USING (doc -> 'kind' IN ('"k1"', '"k3"'));
ALTER TABLE big ENABLE ROW LEVEL SECURITY;
ALTER TABLE p ENABLE ROW LEVEL SECURITY;
ALTER TABLE parent ENABLE ROW LEVEL SECURITY;
CREATE TABLE of_owner AS SELECT query, answer(replace(replace(replace(query, 'FROM big ', 'FROM (SELECT * FROM big WHERE doc -> ''owner'' = ''"conditions_reader"'' AND doc -> ''o.n'' < ''400'') big '),
    'FROM p ', 'FROM (SELECT * FROM p WHERE doc -> ''n'' BETWEEN ''5'' AND ''600'' OR doc -> ''n'' > ''990'') p '), 'FROM parent ', 'FROM (SELECT * FROM parent WHERE doc -> ''kind'' IN (''"k1"'', ''"k3"'')) parent ')) AS answer FROM shapes;
GRANT SELECT ON of_owner TO conditions_reader;
SET ROLE conditions_reader;
SET enable_seqscan = off;
SELECT count(*), count(*) FILTER (WHERE answer(query) IS DISTINCT FROM answer) AS different FROM of_owner;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 3;
SELECT count(*), count(*) FILTER (WHERE answer(query) IS DISTINCT FROM answer) AS different FROM of_owner;
RESET max_parallel_workers_per_gather;
-- What a policy hides is neither changed nor told of.
BEGIN;
WITH changed AS (UPDATE big SET pad = 'mine' WHERE doc -> 'n' BETWEEN '5' AND '20' RETURNING doc) SELECT count(*), count(*) FILTER (WHERE doc ->> 'owner' <> 'conditions_reader') AS of_others FROM changed;
WITH gone AS (DELETE FROM big WHERE doc -> 'n' > '990' RETURNING doc) SELECT count(*), count(*) FILTER (WHERE doc ->> 'owner' <> 'conditions_reader') AS of_others FROM gone;
ROLLBACK;
INSERT INTO big VALUES ('{"_id": 20001, "n": 2000, "owner": "conditions_reader", "o": {"n": 1}}');
RESET ROLE;
-- The table's owner sees all.
SELECT count(*) FROM big WHERE doc -> 'n' = '5';
RESET enable_seqscan;
-- A view with a barrier, and one without.
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM p1 WHERE doc -> 'n' > '500';
CREATE VIEW plain AS SELECT * FROM p1 WHERE doc -> 'n' > '500';
SELECT v, s.* FROM unnest('{barrier,plain}'::text[]) v, same(format('SELECT * FROM %s WHERE doc -> ''n'' < ''600'' ORDER BY doc -> ''n'', doc -> ''_id''', v)) s;
DROP SCHEMA condition_tables CASCADE;
REVOKE USAGE ON SCHEMA treedb FROM conditions_reader;
DROP ROLE conditions_reader;
