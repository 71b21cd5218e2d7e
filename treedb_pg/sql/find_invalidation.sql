-- What a backend remembers of collections and their indexes is forgotten when it changes, also between two executions of
-- a prepared statement.
CREATE SCHEMA changing;
SET search_path = changing, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SET plan_cache_mode = force_generic_plan;
SELECT treedb.create_collection('changing.c');
INSERT INTO c SELECT format('{"_id": %s, "n": %s, "m": %s}', n, n % 100, n % 10)::bson FROM generate_series(1, 2000) n;
ANALYZE c;
PREPARE found(bson) AS SELECT count(*), sum((doc ->> '_id')::int) FROM treedb.find('c', $1) doc;
PREPARE filtered(bson) AS SELECT count(*), sum((doc ->> '_id')::int) FROM c WHERE doc @@ $1;
-- Indexes that come and go.
EXECUTE found('{"n": 5}'); EXECUTE filtered('{"n": 5}');
SELECT treedb.create_index('c', '{"n": 1}');
EXECUTE found('{"n": 5}'); EXECUTE filtered('{"n": 5}');
SELECT pg_temp.run($$EXECUTE found('{"n": 5}')$$);
SELECT pg_temp.run($$EXECUTE filtered('{"n": 5}')$$);
SELECT treedb.create_index('c', '{"m": 1}');
SELECT pg_temp.run($$EXECUTE found('{"m": 5}')$$);
DROP INDEX c_n_1;
EXECUTE found('{"n": 5}'); EXECUTE filtered('{"n": 5}');
SELECT pg_temp.run($$EXECUTE found('{"n": 5}')$$);
-- Another index of the same name.
CREATE INDEX c_n_1 ON c USING treedb_btree (treedb.keys(doc, '{"m": 1, "n": 1}'));
EXECUTE found('{"n": 5, "m": 5}'); EXECUTE filtered('{"n": 5, "m": 5}');
SELECT treedb.coll_mod('c', '{"index": {"keyPattern": {"m": 1}, "hidden": true}}');
SELECT pg_temp.run($$EXECUTE found('{"m": 5}')$$);
BEGIN;
SELECT treedb.create_index('c', '{"n": 1}', '{"name": "mine"}');
SELECT pg_temp.run($$EXECUTE found('{"n": 5}')$$);
ROLLBACK;
SELECT pg_temp.run($$EXECUTE found('{"n": 5}')$$);

-- An index that becomes one with several entries for a row: no document is found twice.
SELECT treedb.create_index('c', '{"n": 1}', '{"name": "numbers"}');
EXECUTE found('{"n": {"$gte": 98}}'); EXECUTE filtered('{"n": {"$gte": 98}}');
INSERT INTO c VALUES ('{"_id": 2001, "n": [98, 99, 100]}');
EXECUTE found('{"n": {"$gte": 98}}'); EXECUTE filtered('{"n": {"$gte": 98}}');
EXECUTE found('{"n": 99}'); EXECUTE filtered('{"n": 99}');
EXECUTE found('{"n": {"$gt": 98, "$lt": 99}}'); EXECUTE filtered('{"n": {"$gt": 98, "$lt": 99}}');
-- One whose keys are not all stored as they are.
INSERT INTO c SELECT format('{"_id": %s, "n": "%s%s"}', 2001 + n, repeat('x', 5000), n)::bson FROM generate_series(1, 3) n;
EXECUTE found(format('{"n": "%s2"}', repeat('x', 5000))::bson); EXECUTE filtered(format('{"n": "%s2"}', repeat('x', 5000))::bson);
DELETE FROM c WHERE doc @@ '{"_id": {"$gt": 2000}}';
REINDEX TABLE c;
EXECUTE found('{"n": {"$gte": 98}}'); EXECUTE filtered('{"n": {"$gte": 98}}');

-- Another collection of the name, another column of documents, none at all.
SELECT treedb.rename_collection('c', 'old');
EXECUTE found('{"n": 5}');
SELECT treedb.create_collection('changing.c');
INSERT INTO c VALUES ('{"_id": 1, "n": 5}');
EXECUTE found('{"n": 5}'); EXECUTE filtered('{"n": 5}');
ALTER TABLE c RENAME COLUMN doc TO document;
EXECUTE found('{"n": 5}');
ALTER TABLE c ADD COLUMN doc text;
EXECUTE found('{"n": 5}');
ALTER TABLE c DROP COLUMN doc;
ALTER TABLE c ADD COLUMN doc bson DEFAULT '{"_id": 2, "n": 5}';
EXECUTE found('{"n": 5}');
CREATE SCHEMA before;
SET search_path = before, changing, treedb, public;
EXECUTE found('{"n": 5}');
SELECT treedb.create_collection('before.c');
EXECUTE found('{"n": 5}');
SET search_path = changing, treedb, public;
EXECUTE found('{"n": 5}');
DROP TABLE c;
EXECUTE found('{"n": 5}');

-- Privileges and policies that change.
SELECT treedb.rename_collection('old', 'c');
CREATE ROLE changing_reader;
GRANT USAGE ON SCHEMA changing, treedb TO changing_reader;
GRANT SELECT ON c TO changing_reader;
SET ROLE changing_reader;
EXECUTE found('{"n": 5}'); EXECUTE filtered('{"n": 5}');
RESET ROLE;
CREATE POLICY few ON c USING ((doc ->> 'm')::int < 3);
ALTER TABLE c ENABLE ROW LEVEL SECURITY;
SET ROLE changing_reader;
EXECUTE found('{"n": 5}');
EXECUTE filtered('{"n": 5}'); EXECUTE filtered('{"n": 2}');
RESET ROLE;
ALTER TABLE c DISABLE ROW LEVEL SECURITY;
REVOKE SELECT ON c FROM changing_reader;
SET ROLE changing_reader;
EXECUTE found('{"n": 5}'); EXECUTE filtered('{"n": 5}');
RESET ROLE;

-- A condition that keys decide is not evaluated on the rows again; others are, and so is it on rows that keys do not decide.
CREATE FUNCTION noticed(n int) RETURNS bson LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE WARNING 'asked for %', n;
    RETURN format('{"n": %s}', n);
END $$;
SET enable_seqscan = off;
PREPARE alone(int) AS SELECT count(*) FROM c WHERE doc @@ noticed($1);
PREPARE beside(int) AS SELECT count(*) FROM c WHERE doc @@ noticed($1) AND (doc ->> '_id')::int < 1000;
PREPARE with_part(int) AS SELECT count(*) FROM c WHERE doc @@ noticed($1) AND (SELECT count(*) FROM pg_namespace WHERE nspname = doc ->> '_id') = 0 AND doc ->> '_id' LIKE '10%';
SET client_min_messages = error;
EXECUTE alone(5); EXECUTE beside(5); EXECUTE with_part(5);
SET client_min_messages = warning;
EXECUTE alone(6); EXECUTE beside(6); EXECUTE with_part(6);
SELECT count(*) FROM generate_series(3, 5) n, LATERAL (SELECT 1 FROM c WHERE doc @@ format('{"n": %s, "m": %s}', n, n)::bson) x;
SELECT count(*) FROM generate_series(1, 6) n, LATERAL (SELECT 1 FROM c WHERE doc @@ format(CASE n % 3 WHEN 0 THEN '{"n": %s}' WHEN 1 THEN '{"_id": %s}' ELSE '{"n": %s, "_id": {"$mod": [200, 2]}}' END, n)::bson) x;
DROP SCHEMA changing, before CASCADE;
REVOKE USAGE ON SCHEMA treedb FROM changing_reader;
DROP ROLE changing_reader;
