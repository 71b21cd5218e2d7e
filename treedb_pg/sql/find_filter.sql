-- WHERE doc @@ filter on a collection: read by its indexes, as treedb.find reads them.
CREATE SCHEMA filters;
SET search_path = filters, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SELECT treedb.create_collection('filters.c');
SELECT treedb.create_index('filters.c', '{"n": 1}'), treedb.create_index('filters.c', '{"tags": 1}'), treedb.create_index('filters.c', '{"a.b": 1, "n": -1}');
INSERT INTO c SELECT format('{"_id": %s, "n": %s, "tags": ["t%s", "t%s"], "a": {"b": %s}, "s": "%s"}', n, n % 500, n % 40, n % 7, n % 90, md5(n::text))::bson
    FROM generate_series(1, 6000) n;
ANALYZE c;

-- A filter on an indexed path is answered by the index, one on another path by a sequential scan.
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"n": 5}';
EXPLAIN (COSTS OFF) SELECT count(*) FROM c WHERE doc @@ '{"tags": "t39"}';
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"s": "x"}';
SELECT pg_temp.run($$SELECT doc -> '_id' FROM c WHERE doc @@ '{"a.b": 3, "n": {"$lt": 100}}' AND doc ->> 's' > '8'$$);
SELECT count(*), min(doc ->> '_id') FROM c WHERE doc @@ '{"n": 5}';

-- The same answers with and without the node.
CREATE FUNCTION ids(filter text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
    EXECUTE format('SELECT md5(string_agg(doc ->> ''_id'', '','' ORDER BY (doc ->> ''_id'')::int)) || count(*) FROM c WHERE doc @@ %L', filter) INTO found;
    RETURN found;
END $$;
CREATE TABLE questions AS SELECT filter FROM (VALUES ('{}'), ('{"n": 5}'), ('{"n": {"$in": [1, 2, 499]}}'), ('{"tags": "t3"}'),
    ('{"tags": {"$all": ["t3", "t4"]}}'), ('{"tags": {"$gte": "t38"}}'), ('{"a.b": 7}'), ('{"a.b": {"$gt": 80}, "n": {"$lte": 20}}'),
    ('{"$or": [{"n": 3}, {"_id": 17}]}'), ('{"_id": {"$lt": 10}}'), ('{"_id": 6001}'), ('{"n": null}'), ('{"n": {"$ne": 4}}'), ('{"missing": {"$exists": false}, "n": 7}')) q(filter);
CREATE TABLE with_node AS SELECT filter, ids(filter) FROM questions;
SET treedb.enable_find_scan = off;
SELECT filter, ids(filter) = with_node.ids AS same FROM with_node ORDER BY filter COLLATE "C";
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"n": 5}';
RESET treedb.enable_find_scan;

-- Parameters, initial plans, several filters, joins.
PREPARE by(bson) AS SELECT count(*) FROM c WHERE doc @@ $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by('{"n": 5}');
EXECUTE by('{"n": 5}'); EXECUTE by(NULL); EXECUTE by('{"tags": "t39"}');
EXECUTE by('{"n": {"$unknown": 1}}');
RESET plan_cache_mode;
SELECT count(*) FROM c WHERE doc @@ '{"n": 5}' AND doc @@ '{"tags": "t5"}';
SELECT count(*) FROM c x JOIN c y ON x.doc ->> 'n' = y.doc ->> 'n' WHERE x.doc @@ '{"n": 5}' AND y.doc @@ '{"_id": 5}';
SELECT count(*) FROM generate_series(1, 3) n, LATERAL (SELECT 1 FROM c WHERE doc @@ ('{"n": ' || n || '}')::bson) x;

-- Rows with other columns, rows that are changed or locked, and system columns that a row has without its header.
EXPLAIN (COSTS OFF) SELECT ctid, doc FROM c WHERE doc @@ '{"n": 5}';
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"n": 5}' FOR UPDATE;
EXPLAIN (COSTS OFF) DELETE FROM c WHERE doc @@ '{"n": 5}';
EXPLAIN (COSTS OFF) SELECT c FROM c WHERE doc @@ '{"n": 5}';
EXPLAIN (COSTS OFF) SELECT xmin, doc FROM c WHERE doc @@ '{"n": 5}';
CREATE TABLE more (label text, doc bson NOT NULL, gone int, amount int DEFAULT 7);
ALTER TABLE more DROP COLUMN gone;
INSERT INTO more SELECT 'label ' || n, doc FROM c, generate_series(1, 2) n WHERE doc @@ '{"n": {"$lt": 200}}';
SELECT treedb.create_index('filters.more', '{"n": 1}');
ANALYZE more;
EXPLAIN (COSTS OFF) SELECT label FROM more WHERE doc @@ '{"n": 5}';
SELECT label, amount, count(*), count(DISTINCT ctid), min(tableoid::regclass::text) FROM more WHERE doc @@ '{"n": 5}' GROUP BY 1, 2 ORDER BY 1;
SELECT count(more), min(more.label) FROM more WHERE doc @@ '{"n": 5}' AND label LIKE '%2';
UPDATE more SET amount = amount + 1 WHERE doc @@ '{"n": 5}' AND label = 'label 1';
SELECT amount, count(*) FROM more WHERE doc @@ '{"n": 5}' GROUP BY 1 ORDER BY 1;
UPDATE more SET doc = '{"n": 5}' WHERE doc @@ '{"n": {"$in": [4, 5, 6]}}' AND label = 'label 1' AND doc @@ '{"n": {"$ne": 5}}';
SELECT count(*) FROM more WHERE doc @@ '{"n": 5}';
BEGIN;
DECLARE rows CURSOR FOR SELECT label, doc ->> 'n' AS n FROM more WHERE doc @@ '{"n": {"$gte": 7, "$lte": 8}}' FOR UPDATE;
FETCH 2 FROM rows;
UPDATE more SET label = 'moved' WHERE CURRENT OF rows;
SELECT label, count(*) FROM more WHERE doc @@ '{"n": 7}' GROUP BY 1 ORDER BY 1;
DECLARE both_ways SCROLL CURSOR FOR SELECT label, doc ->> 'n' AS n FROM more WHERE doc @@ '{"n": {"$gte": 7, "$lte": 8}}';
FETCH 2 FROM both_ways; FETCH BACKWARD 1 FROM both_ways; FETCH LAST FROM both_ways; FETCH BACKWARD 2 FROM both_ways;
ROLLBACK;
MERGE INTO more USING (VALUES (9)) v(n) ON doc @@ ('{"n": ' || v.n || '}')::bson WHEN MATCHED THEN DELETE;
SELECT count(*) FROM more WHERE doc @@ '{"n": 9}';

-- A filter that depends on another table is searched for each of its rows.
CREATE TABLE wanted (n int, tag text);
INSERT INTO wanted SELECT n, 't' || n % 40 FROM generate_series(1, 400, 7) n;
ANALYZE wanted;
EXPLAIN (COSTS OFF) SELECT w.n, doc FROM wanted w JOIN c ON doc @@ format('{"_id": %s}', w.n)::bson WHERE w.n < 100;
SELECT count(*), sum((doc ->> 'n')::int) FROM wanted w JOIN c ON doc @@ format('{"_id": %s}', w.n)::bson;
SELECT count(*), count(doc) FROM wanted w LEFT JOIN c ON doc @@ format('{"_id": %s, "tags": "%s"}', w.n, w.tag)::bson;
SELECT count(*) FROM wanted w WHERE NOT EXISTS (SELECT 1 FROM c WHERE doc @@ format('{"n": %s, "s": {"$lt": "4"}}', w.n)::bson);

-- Rows are estimated by the index.
CREATE FUNCTION estimated(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan' -> 'Plan Rows';
END $$;
SELECT estimated($$SELECT doc FROM c WHERE doc @@ '{"_id": 7}'$$), estimated($$SELECT doc FROM c WHERE doc @@ '{"n": 5}'$$) BETWEEN 6 AND 24,
    estimated($$SELECT doc FROM c WHERE doc @@ '{"n": {"$gte": 250}}'$$) BETWEEN 1500 AND 6000, estimated($$SELECT doc FROM c WHERE doc @@ '{"n": -1}'$$) <= 2;

-- Partitions are searched by the indexes that they have.
CREATE TABLE parts (region int, doc bson NOT NULL) PARTITION BY LIST (region);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
INSERT INTO parts SELECT 1 + (doc ->> '_id')::int % 2, doc FROM c;
SELECT treedb.create_index('filters.parts_1', '{"n": 1}');
ANALYZE parts;
EXPLAIN (COSTS OFF) SELECT region FROM parts WHERE doc @@ '{"n": 5}';
SELECT region, count(*) FROM parts WHERE doc @@ '{"n": {"$in": [4, 5]}}' GROUP BY 1 ORDER BY 1;

-- Row security and privileges are those of the query.
CREATE ROLE filters_reader;
GRANT USAGE ON SCHEMA filters, treedb TO filters_reader;
GRANT SELECT ON more TO filters_reader;
CREATE VIEW owned AS SELECT doc FROM c WHERE doc @@ '{"n": 5}';
GRANT SELECT ON owned TO filters_reader;
ALTER TABLE more ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON more USING ((doc ->> '_id')::int % 1000 = 5);
-- A document that a policy hides is not looked at: neither by a function of the query's nor by the filter.
INSERT INTO more (label, doc) VALUES ('hidden', '{"_id": 1, "n": 600, "zero": 0}'), ('shown', '{"_id": 1005, "n": 600, "zero": 1}');
CREATE FUNCTION spy(document bson) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE WARNING 'saw %', document ->> '_id'; RETURN true; END $$;
SET ROLE filters_reader;
EXPLAIN (COSTS OFF) SELECT label FROM more WHERE doc @@ '{"n": 5}';
SELECT count(*) FROM more WHERE doc @@ '{"n": 5}';
SELECT label FROM more WHERE doc @@ '{"n": 600}' AND filters.spy(doc);
SELECT label FROM more WHERE doc @@ '{"n": 600, "$expr": {"$gte": [{"$divide": [1, "$zero"]}, 1]}}';
SELECT count(*) FROM owned;
SELECT count(*) FROM c WHERE doc @@ '{"n": 5}';
EXPLAIN (COSTS OFF) SELECT count(*) FROM c WHERE doc @@ '{"n": 5}';
RESET ROLE;
SELECT label FROM more WHERE doc @@ '{"n": 600, "$expr": {"$gte": [{"$divide": [1, "$zero"]}, 1]}}';
SELECT count(*) FROM more WHERE doc @@ '{"n": 5}';
-- A view with security_barrier stays a query of its own, below conditions that are not leakproof.
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM more WHERE label = 'shown';
EXPLAIN (COSTS OFF) SELECT label FROM barrier WHERE doc @@ '{"n": 600}' AND filters.spy(doc);
SELECT label FROM barrier WHERE doc @@ '{"n": 600, "$expr": {"$gte": [{"$divide": [1, "$zero"]}, 1]}}' AND filters.spy(doc);
-- A count by an index does not read rows of pages that are visible to all, and counts no row that is gone.
VACUUM c;
SELECT treedb.count('c', '{"n": {"$lt": 250}}');
DELETE FROM c WHERE doc @@ '{"n": {"$lt": 10}}';
SELECT treedb.count('c', '{"n": {"$lt": 250}}');
VACUUM c;
SELECT treedb.count('c', '{"n": {"$lt": 250}}'), treedb.count('c', '{"tags": {"$gte": "t38"}}'), count(*) FILTER (WHERE doc @@ '{"tags": {"$gte": "t38"}}') FROM c;
INSERT INTO c VALUES ('{"_id": 7000, "n": 20}');
BEGIN;
UPDATE c SET doc = '{"_id": 7000, "n": 21}' WHERE doc @@ '{"_id": 7000}';
SELECT treedb.count('c', '{"n": 20}'), treedb.count('c', '{"n": 21}');
ROLLBACK;
SELECT treedb.count('c', '{"n": 20}'), treedb.count('c', '{"n": 21}');
-- Keys that are too long are stored shortened: what they do not decide is decided by the document.
SELECT treedb.create_collection('filters.long');
SELECT treedb.create_index('filters.long', '{"s": 1}');
INSERT INTO long SELECT format('{"_id": %s, "s": "%s%s"}', n, repeat('x', 5000), n % 3)::bson FROM generate_series(1, 9) n;
SELECT treedb.count('long', f), (SELECT count(*) FROM treedb.find('long', f)), (SELECT count(*) FROM long WHERE doc @@ f)
    FROM (SELECT format('{"s": "%s1"}', repeat('x', 5000))::bson) filters(f);
-- In a transaction the statement sees its own changes and its own snapshot.
BEGIN;
DELETE FROM c WHERE doc @@ '{"_id": 505}';
SELECT count(*) FROM c WHERE doc @@ '{"n": 20}';
DELETE FROM c WHERE doc @@ '{"_id": 520}';
SELECT count(*) FROM c WHERE doc @@ '{"n": 20}';
ROLLBACK;
DROP SCHEMA filters CASCADE;
REVOKE USAGE ON SCHEMA treedb FROM filters_reader;
DROP ROLE filters_reader;

-- What EXPLAIN shows of a filter under a policy does not depend on rows that the policy hides.
SET search_path = public;
SELECT treedb.create_collection('hidden');
SELECT treedb.create_index('hidden', '{"ssn": 1}');
INSERT INTO hidden SELECT jsonb_build_object('_id', i, 'ssn', i)::treedb.bson FROM generate_series(1, 40) i;
ANALYZE hidden;
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
CREATE POLICY nothing ON hidden USING (false OR current_user = 'nobody at all');
CREATE ROLE reader_of_hidden;
GRANT USAGE ON SCHEMA treedb TO reader_of_hidden;
GRANT SELECT ON hidden TO reader_of_hidden;
CREATE FUNCTION explained(filter text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE format('EXPLAIN SELECT doc FROM hidden WHERE doc OPERATOR(treedb.@@) %L', filter) LOOP
        RETURN NEXT replace(line, filter, 'FILTER');
    END LOOP;
END $$;
SET ROLE reader_of_hidden;
SET enable_seqscan = off;
SELECT count(DISTINCT plan) AS plans FROM (
    SELECT regexp_replace(string_agg(line, E'\n'), 'ssn[^}]*', '', 'g') AS plan
    FROM unnest(ARRAY['{"ssn":5}', '{"ssn":5555}']) filter, explained(filter) line GROUP BY filter) t;
RESET enable_seqscan;
RESET ROLE;
REVOKE USAGE ON SCHEMA treedb FROM reader_of_hidden;
DROP FUNCTION explained; DROP TABLE hidden; DROP ROLE reader_of_hidden;
