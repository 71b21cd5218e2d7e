-- What treedb_hnsw refuses, what it leaves out, and what it takes.
CREATE SCHEMA hnsw_input;
SET search_path = hnsw_input, treedb, public;
-- distances
SELECT '{1, 2, 3}'::real[] <-> '{4, 6, 3}', '{1, 2, 3}'::real[] <#> '{4, 5, 6}', '{1, 2, 3}'::real[] <+> '{4, 6, 3}';
SELECT '{1, 0}'::real[] <=> '{0, 3}', '{1, 0}'::real[] <=> '{-3, 0}', '{1, 0}'::real[] <=> '{7, 0}', '{1, 0}'::real[] <=> '{0, 0}';
SELECT '{}'::real[] <-> '{}', NULL::real[] <-> '{1}';
-- long and short vectors have directions
SELECT '{5e9, 0}'::real[] <=> '{5e9, 0}', '{5e9, 0}'::real[] <=> '{0, 5e9}', '{1e-12, 0}'::real[] <=> '{0, 1e-12}', '{1e30, 0}'::real[] <=> '{-1e30, 0}';
-- an array without NULL that had one
SELECT ('{1, 2, NULL}'::real[])[1:2] <-> '{1, 2}', ('{1, 2, NULL}'::real[])[1:2] <-> '{4, 6}';
SELECT '{1, 2}'::real[] <-> '{1, 2, 3}';
\echo :LAST_ERROR_SQLSTATE
SELECT '{1, NULL}'::real[] <-> '{1, 2}';
\echo :LAST_ERROR_SQLSTATE
SELECT '{{{1, 2}}}'::real[] <-> '{1, 2}';
CREATE TABLE v (id int, e real[]);
CREATE INDEX ON v USING treedb_hnsw (e);
\echo :LAST_ERROR_SQLSTATE
CREATE INDEX ON v USING treedb_hnsw (e) WITH (dimensions = 2001);
CREATE INDEX ON v USING treedb_hnsw (e) WITH (dimensions = 3, m = 1);
CREATE INDEX ON v USING treedb_hnsw (e) WITH (dimensions = 3, lists = 1);
CREATE INDEX ON v USING treedb_hnsw (id) WITH (dimensions = 3);
CREATE INDEX ON v USING treedb_hnsw (e, e) WITH (dimensions = 3);
CREATE UNIQUE INDEX ON v USING treedb_hnsw (e) WITH (dimensions = 3);
CREATE INDEX v_l2 ON v USING treedb_hnsw (e) WITH (dimensions = 3);
CREATE INDEX v_cosine ON v USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 3);
INSERT INTO v VALUES (1, '{1, 2}');
\echo :LAST_ERROR_SQLSTATE
INSERT INTO v VALUES (1, '{1, 2, 3, 4}');
INSERT INTO v VALUES (1, '{1, 2, NaN}');
\echo :LAST_ERROR_SQLSTATE
INSERT INTO v VALUES (1, '{1, 2, -Infinity}');
INSERT INTO v VALUES (1, '{1, 2, 1e30}');
INSERT INTO v VALUES (1, '{1, 2, NULL}');
INSERT INTO v VALUES (1, '{{{1, 2, 3}}}');
INSERT INTO v VALUES (1, '{}');
SELECT treedb.check('v');
-- an empty index
SET enable_seqscan = off;
SET enable_sort = off;
SELECT id FROM v ORDER BY e <-> '{1, 2, 3}' LIMIT 5;
INSERT INTO v VALUES (1, '{1, 2, 3}'), (2, NULL), (3, '{0, 0, 0}'), (4, '{-1, 1e-20, 0}'), (5, '{1e17, 0, 0}');
SELECT id, e <-> '{1, 2, 3}' AS d FROM v ORDER BY e <-> '{1, 2, 3}' LIMIT 5;
-- without NULL; under cosine distance without the vector that has no direction
SELECT id FROM v ORDER BY e <-> '{1, 2, 3}';
SELECT id FROM v ORDER BY e <=> '{1, 2, 3}';
SELECT id FROM v ORDER BY e <=> '{1, 2, 3}' LIMIT 0;
SELECT id FROM v ORDER BY e <-> '{1, 2}' LIMIT 5;
SELECT id FROM v ORDER BY e <-> '{1, 2, NaN}' LIMIT 5;
-- from nowhere, all are as far
SELECT count(*) FROM (SELECT id FROM v ORDER BY e <-> NULL LIMIT 5) x;
SELECT count(*) FROM (SELECT id FROM v ORDER BY e <=> '{0, 0, 0}' LIMIT 5) x;
-- settings
SET treedb.hnsw_ef_search = 0;
SET treedb.hnsw_ef_search = 10001;
-- operator classes
CREATE FUNCTION no_kind() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 99';
CREATE OPERATOR CLASS wrong_ops FOR TYPE real[] USING treedb_hnsw AS OPERATOR 1 <-> (real[], real[]) FOR ORDER BY float_ops, FUNCTION 1 no_kind();
CREATE OPERATOR CLASS empty_ops FOR TYPE int[] USING treedb_hnsw AS STORAGE int[];
SELECT opcname, amvalidate(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod WHERE amname = 'treedb_hnsw' ORDER BY opcname;
CREATE INDEX v_wrong ON v USING treedb_hnsw (e wrong_ops) WITH (dimensions = 3);
-- temporary and unlogged tables, rebuilding, concurrently too; transactions that are rolled back
CREATE TEMP TABLE t (id int, e real[]);
CREATE INDEX t_e ON t USING treedb_hnsw (e) WITH (dimensions = 1);
INSERT INTO t SELECT i, ARRAY[i] FROM generate_series(1, 300) i;
SELECT id FROM t ORDER BY e <-> '{17.2}' LIMIT 3;
CREATE UNLOGGED TABLE u (id int, e real[]);
CREATE INDEX u_e ON u USING treedb_hnsw (e) WITH (dimensions = 1);
INSERT INTO u SELECT i, ARRAY[i] FROM generate_series(1, 300) i;
SELECT id FROM u ORDER BY e <-> '{17.2}' LIMIT 3;
BEGIN;
INSERT INTO u SELECT i, ARRAY[17.2] FROM generate_series(1, 50) i;
SAVEPOINT s;
INSERT INTO u SELECT i, ARRAY[17.3] FROM generate_series(1, 50) i;
ROLLBACK TO s;
SELECT count(*) FROM (SELECT id FROM u ORDER BY e <-> '{17.2}' LIMIT 60) x;
ROLLBACK;
SELECT id FROM u ORDER BY e <-> '{17.2}' LIMIT 3;
SELECT treedb.check('u');
REINDEX INDEX CONCURRENTLY u_e;
SELECT treedb.check('u');
SELECT id FROM u ORDER BY e <-> '{17.2}' LIMIT 3;
DROP INDEX u_e;
CREATE INDEX CONCURRENTLY u_e ON u USING treedb_hnsw (e) WITH (dimensions = 1);
SELECT treedb.check('u');
TRUNCATE u;
SELECT id FROM u ORDER BY e <-> '{17.2}' LIMIT 3;
INSERT INTO u VALUES (1, '{1}');
SELECT id FROM u ORDER BY e <-> '{17.2}' LIMIT 3;
VACUUM FULL u;
SELECT treedb.check('u');
SELECT treedb.enable_pgvector();
\echo :LAST_ERROR_SQLSTATE
SET client_min_messages = warning;
DROP SCHEMA hnsw_input CASCADE;
