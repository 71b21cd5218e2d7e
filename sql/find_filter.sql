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

-- Where rows themselves are needed, the server reads them.
EXPLAIN (COSTS OFF) SELECT ctid, doc FROM c WHERE doc @@ '{"n": 5}';
EXPLAIN (COSTS OFF) SELECT doc FROM c WHERE doc @@ '{"n": 5}' FOR UPDATE;
EXPLAIN (COSTS OFF) DELETE FROM c WHERE doc @@ '{"n": 5}';
EXPLAIN (COSTS OFF) SELECT c FROM c WHERE doc @@ '{"n": 5}';
CREATE TABLE more (label text, doc bson NOT NULL);
INSERT INTO more SELECT n, doc FROM c, generate_series(1, 2) n WHERE doc @@ '{"n": {"$lt": 200}}';
SELECT treedb.create_index('filters.more', '{"n": 1}');
ANALYZE more;
EXPLAIN (COSTS OFF) SELECT label FROM more WHERE doc @@ '{"n": 5}';
EXPLAIN (COSTS OFF) SELECT doc ->> '_id' FROM more WHERE doc @@ '{"n": 5}';
SELECT count(doc), count(DISTINCT doc ->> '_id') FROM more WHERE doc @@ '{"n": 5}';

-- Row security and privileges are those of the query.
CREATE ROLE filters_reader;
GRANT USAGE ON SCHEMA filters, treedb TO filters_reader;
GRANT SELECT ON more TO filters_reader;
CREATE VIEW owned AS SELECT doc FROM c WHERE doc @@ '{"n": 5}';
GRANT SELECT ON owned TO filters_reader;
ALTER TABLE more ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON more USING ((doc ->> '_id')::int % 1000 = 5);
SET ROLE filters_reader;
SELECT count(*) FROM more WHERE doc @@ '{"n": 5}';
SELECT count(*) FROM owned;
SELECT count(*) FROM c WHERE doc @@ '{"n": 5}';
RESET ROLE;
SELECT count(*) FROM more WHERE doc @@ '{"n": 5}';
-- In a transaction the statement sees its own changes and its own snapshot.
BEGIN;
DELETE FROM c WHERE doc @@ '{"_id": 5}';
SELECT count(*) FROM c WHERE doc @@ '{"n": 5}';
ROLLBACK;
DROP SCHEMA filters CASCADE;
REVOKE USAGE ON SCHEMA treedb FROM filters_reader;
DROP ROLE filters_reader;
