-- treedb_btree on every kind of table and through every command that rebuilds one; plans chosen as for the server's
-- own btree.
CREATE SCHEMA kinds;
SET search_path = kinds, public;

-- temporary tables, emptied at commit and truncated
CREATE TEMP TABLE tmp (id int, v text) USING treedb ON COMMIT DELETE ROWS;
CREATE INDEX tmp_id ON tmp USING treedb_btree (id);
CREATE INDEX tmp_v ON tmp USING treedb_btree (v COLLATE "C" DESC);
BEGIN;
INSERT INTO tmp SELECT i, md5(i::text) FROM generate_series(1, 5000) i;
SELECT treedb.check('tmp');
DELETE FROM tmp WHERE id % 3 = 0;
COMMIT;
SELECT count(*) FROM tmp; SELECT treedb.check('tmp');
BEGIN;
INSERT INTO tmp SELECT i, md5(i::text) FROM generate_series(1, 3000) i;
TRUNCATE tmp;
INSERT INTO tmp SELECT i, md5(i::text) FROM generate_series(1, 100) i;
SELECT treedb.check('tmp');
SET LOCAL enable_seqscan = off;
SELECT count(*), min(id), max(id) FROM tmp WHERE id > 0;
SAVEPOINT s;
TRUNCATE tmp;
CREATE INDEX tmp_again ON tmp USING treedb_btree (id, v COLLATE "C");
ROLLBACK TO s;
SELECT treedb.check('tmp');
SELECT count(*) FROM tmp WHERE id BETWEEN 5 AND 9;
COMMIT;

-- vacuum of a temporary table, in local buffers
CREATE TEMP TABLE tmp2 AS SELECT i AS id, md5(i::text) AS v FROM generate_series(1, 20000) i;
CREATE INDEX tmp2_v ON tmp2 USING treedb_btree (v COLLATE "C");
DELETE FROM tmp2 WHERE v COLLATE "C" < 'c';
VACUUM tmp2;
SELECT treedb.check('tmp2');
INSERT INTO tmp2 SELECT i, md5(i::text) FROM generate_series(1, 9000) i;
SELECT treedb.check('tmp2');

-- unlogged, logged, other access method, other tablespace, rewritten, clustered
CREATE UNLOGGED TABLE u (id int, v text, pad text) USING treedb;
CREATE INDEX u_id ON u USING treedb_btree (id DESC, v COLLATE "C");
INSERT INTO u SELECT i, md5(i::text), repeat('p', 30) FROM generate_series(1, 5000) i;
SELECT treedb.check('u');
ALTER TABLE u SET LOGGED; SELECT treedb.check('u');
ALTER TABLE u SET ACCESS METHOD heap; SELECT treedb.check('u');
INSERT INTO u SELECT i, md5(i::text), '' FROM generate_series(5001, 6000) i;
ALTER TABLE u SET ACCESS METHOD treedb; SELECT treedb.check('u');
DELETE FROM u WHERE id % 2 = 0;
UPDATE u SET pad = pad || '.' WHERE id % 5 = 0;
VACUUM FULL u; SELECT treedb.check('u');
CREATE INDEX u_v ON u USING treedb_btree (v COLLATE "C");
CLUSTER u USING u_v; SELECT treedb.check('u');
SELECT bool_and(v COLLATE "C" >= before) AS in_order FROM (SELECT v, lag(v, 1, '') OVER (ORDER BY ctid) COLLATE "C" AS before FROM u) o;
UPDATE u SET v = reverse(v); DELETE FROM u WHERE id % 7 = 0;
CLUSTER u; SELECT treedb.check('u');
SELECT bool_and(v COLLATE "C" >= before) AS in_order FROM (SELECT v, lag(v, 1, '') OVER (ORDER BY ctid) COLLATE "C" AS before FROM u) o;
ALTER TABLE u ALTER COLUMN id TYPE bigint; SELECT treedb.check('u');
ALTER TABLE u ALTER COLUMN v TYPE varchar(40); SELECT treedb.check('u');
ALTER TABLE u DROP COLUMN pad, ADD COLUMN n int DEFAULT 5; SELECT treedb.check('u');
TRUNCATE u; SELECT treedb.check('u');
INSERT INTO u VALUES (1, 'one'); SELECT treedb.check('u');

-- long values: the limit, out-of-line storage
CREATE TABLE long (v text) USING treedb;
CREATE INDEX long_v ON long USING treedb_btree (v COLLATE "C");
INSERT INTO long SELECT repeat(chr(97 + i % 26), 1800) || i FROM generate_series(1, 300) i;
SELECT treedb.check('long');
INSERT INTO long VALUES (repeat('x', 1000000));
INSERT INTO long SELECT string_agg(md5(i::text), '') FROM generate_series(1, 58) i;
SELECT treedb.check('long');
SET enable_seqscan = off;
SELECT count(*), min(length(v)), max(length(v)) FROM long WHERE v COLLATE "C" >= 'a';
RESET enable_seqscan;

-- partitions, an index on each
CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000) USING treedb;
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (1000) TO (2000) USING treedb;
CREATE INDEX ON p USING treedb_btree (v);
INSERT INTO p SELECT i, i % 50 FROM generate_series(0, 1999) i;
SELECT treedb.check('p1'); SELECT treedb.check('p2');
ANALYZE p;
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v FROM p ORDER BY v LIMIT 5;
SELECT count(*) FROM p WHERE v = 7;
RESET ALL; SET search_path = kinds, public;

-- plans: where the server's btree would be used, and where it would not
CREATE TABLE plain (a int, b text, c int) USING treedb;
INSERT INTO plain SELECT i, md5(i::text), i % 3 FROM generate_series(1, 20000) i;
CREATE INDEX plain_a ON plain USING treedb_btree (a);
CREATE INDEX plain_b ON plain USING treedb_btree (b COLLATE "C");
CREATE INDEX plain_c ON plain USING treedb_btree (c);
VACUUM ANALYZE plain;
EXPLAIN (COSTS OFF) SELECT * FROM plain WHERE a = 5;
EXPLAIN (COSTS OFF) SELECT a FROM plain WHERE a BETWEEN 5 AND 500;
EXPLAIN (COSTS OFF) SELECT * FROM plain WHERE b COLLATE "C" = 'x';
EXPLAIN (COSTS OFF) SELECT * FROM plain WHERE c = 1;
EXPLAIN (COSTS OFF) SELECT * FROM plain ORDER BY a LIMIT 10;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SELECT pg_temp.plan($$SELECT max(a) FROM plain$$);
EXPLAIN (COSTS OFF) SELECT * FROM plain x JOIN plain y ON x.a = y.a WHERE x.b COLLATE "C" = 'x';
-- prepared statements: generic plans, the index dropped and made again under them
PREPARE q (int) AS SELECT a, c FROM plain WHERE a = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE q (77);
DROP INDEX plain_a;
EXECUTE q (78);
CREATE INDEX plain_a ON plain USING treedb_btree (a);
EXECUTE q (79);
EXPLAIN (COSTS OFF) EXECUTE q (80);
RESET plan_cache_mode;
-- every scan is counted, from a session's first on
SELECT pg_stat_force_next_flush();
SELECT idx_scan >= 1 AS counted FROM pg_stat_user_indexes WHERE indexrelname = 'plain_a';

-- what it is not
CREATE UNIQUE INDEX ON plain USING treedb_btree (a);
SELECT treedb.check('pg_class_oid_index');
SELECT treedb.check('pg_class');

SET client_min_messages = warning;
DROP SCHEMA kinds CASCADE;
