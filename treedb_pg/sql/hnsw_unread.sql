-- A scan in the order of a distance does not compute it again where the query does not return it.
SET client_min_messages = warning;
CREATE SCHEMA hnsw_unread;
SET search_path = hnsw_unread, treedb, public;
CREATE TABLE points (id int, kind int, v real[]);
INSERT INTO points
SELECT i, i % 3, ARRAY[cos(i * 0.37), sin(i * 0.37), cos(i * 0.011), sin(i * 0.0071)]::real[] FROM generate_series(1, 600) i;
CREATE INDEX points_v ON points USING treedb_hnsw (v) WITH (dimensions = 4);
VACUUM ANALYZE points;
SET enable_seqscan = off;
SET treedb.hnsw_ef_search = 200;

-- The column that the query is ordered by is NULL in the plan, and the order is that of the distance.
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM points ORDER BY v <-> '{0.5,0.5,0.5,0.5}' LIMIT 5;
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM points ORDER BY v <-> '{0.5,0.5,0.5,0.5}';
SELECT id FROM points ORDER BY v <-> '{0.5,0.5,0.5,0.5}' LIMIT 5;
SET enable_indexscan = off;
SET enable_seqscan = on;
SELECT id FROM points ORDER BY v <-> '{0.5,0.5,0.5,0.5}' LIMIT 5;
RESET enable_indexscan;
SET enable_seqscan = off;

-- The same with the sides exchanged; returned, it is computed.
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM points ORDER BY '{0.5,0.5,0.5,0.5}' <-> v LIMIT 5;
SELECT id FROM points ORDER BY '{0.5,0.5,0.5,0.5}' <-> v LIMIT 5;
EXPLAIN (VERBOSE, COSTS OFF) SELECT id, v FROM points WHERE kind = 1 ORDER BY '{0.5,0.5,0.5,0.5}' <-> v;
SELECT id, far = (SELECT p.v <-> '{0.5,0.5,0.5,0.5}' FROM points p WHERE p.id = near.id) AS exact
FROM (SELECT id, '{0.5,0.5,0.5,0.5}' <-> v AS far FROM points ORDER BY far LIMIT 3) near;

-- A distance that is returned is computed, to its last bit.
EXPLAIN (VERBOSE, COSTS OFF)
SELECT v <-> '{0.5,0.5,0.5,0.5}' AS far FROM points ORDER BY far LIMIT 3;
SELECT id, far = (SELECT p.v <-> '{0.5,0.5,0.5,0.5}' FROM points p WHERE p.id = near.id) AS exact
FROM (SELECT id, v <-> '{0.5,0.5,0.5,0.5}' AS far FROM points ORDER BY far LIMIT 3) near;

-- Two distances: one gives the order and is not returned, the other one is.
SELECT id, round((v <-> '{1,0,0,0}')::numeric, 4) AS other
FROM points ORDER BY v <-> '{0.5,0.5,0.5,0.5}' LIMIT 3;

-- What stands between the scan and the end of the query may compare the distance: then it is computed.
INSERT INTO points VALUES (1001, 0, '{3,3,3,3}'), (1002, 0, '{3,3,3,3}'), (1003, 0, '{3,3,3,3}');
SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM points ORDER BY v <-> '{3,3,3,3}' FETCH FIRST 1 ROW WITH TIES) tied;
SELECT id FROM points ORDER BY v <-> '{3,3,3,3}', id DESC LIMIT 2;
EXPLAIN (VERBOSE, COSTS OFF)
SELECT id FROM points ORDER BY v <-> '{0.5,0.5,0.5,0.5}' LIMIT 2 FOR UPDATE;
SELECT id FROM points ORDER BY v <-> '{0.5,0.5,0.5,0.5}' LIMIT 2 FOR UPDATE;
DELETE FROM points WHERE id > 1000;

-- Partitions are merged by it.
CREATE TABLE parted (LIKE points) PARTITION BY LIST (kind);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1, 2);
INSERT INTO parted TABLE points;
CREATE INDEX parted_v ON parted USING treedb_hnsw (v) WITH (dimensions = 4);
ANALYZE parted;
EXPLAIN (COSTS OFF) SELECT id FROM parted ORDER BY v <-> '{0.5,0.5,0.5,0.5}' LIMIT 5;
SELECT id FROM parted ORDER BY v <-> '{0.5,0.5,0.5,0.5}' LIMIT 5;

-- In a subquery for each row of another table, and by a prepared statement.
SELECT q.id, (SELECT p.id FROM points p ORDER BY p.v <-> q.v LIMIT 1) AS nearest
FROM points q WHERE q.id IN (7, 77, 177) ORDER BY q.id;
SELECT q.id, near.id FROM points q,
    LATERAL (SELECT p.id FROM points p WHERE p.kind = 1 ORDER BY p.v <-> q.v LIMIT 2) near
WHERE q.id IN (7, 77) ORDER BY 1, 2;
SET plan_cache_mode = force_generic_plan;
PREPARE nearest(real[]) AS SELECT id, kind FROM points ORDER BY v <-> $1 LIMIT 2;
EXECUTE nearest('{0.5,0.5,0.5,0.5}');
EXECUTE nearest('{-0.5,0.5,0.5,0.5}');
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE nearest('{0.5,0.5,0.5,0.5}');

-- A cursor goes back and forth.
BEGIN;
DECLARE near SCROLL CURSOR FOR SELECT id FROM points ORDER BY v <-> '{0.5,0.5,0.5,0.5}';
FETCH 3 FROM near;
FETCH BACKWARD 1 FROM near;
COMMIT;
DROP SCHEMA hnsw_unread CASCADE;
