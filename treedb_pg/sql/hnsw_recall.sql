-- treedb_hnsw finds the nearest rows under every metric, however the rows came to be in the index: built, inserted, updated,
-- and after others were deleted and vacuumed, with filters that keep half of them, a tenth and a hundredth. Brute force is the oracle.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_recall;
SET search_path = hnsw_recall, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set file :dir '/sql/include/vector_stages.psql'
\i :file
\set ECHO all
SELECT setseed(0.5);
CREATE TABLE queries AS SELECT i AS id, random_vector(i, 72) AS e FROM generate_series(1, 10) i;
INSERT INTO metrics (type, operator, class, options)
VALUES ('real[]', '<->', 'real_l2_ops', 'WITH (dimensions = 72)'), ('real[]', '<#>', 'real_ip_ops', 'WITH (dimensions = 72)'),
    ('real[]', '<=>', 'real_cosine_ops', 'WITH (dimensions = 72)'), ('real[]', '<+>', 'real_l1_ops', 'WITH (dimensions = 72)');
SELECT each('CREATE TABLE %1$s (id int, part int, e %3$s) WITH (autovacuum_enabled = off)');
-- built
SELECT fill(1, 1000);
SELECT each('CREATE INDEX %1$s_e ON %1$s USING treedb_hnsw (e %2$s) %4$s');
SELECT * FROM good();
-- inserted
SELECT fill(1001, 2000);
SELECT * FROM good();
-- updated: the old versions are still in the index
SELECT each('UPDATE %1$s SET e = random_vector(id %% 30, 72) WHERE id %% 4 = 0');
SELECT * FROM good();
-- deleted
SELECT each('DELETE FROM %1$s WHERE id %% 3 = 0');
SELECT * FROM good();
SELECT vacuum() \gexec
SELECT * FROM good();
-- space is used again: as many rows as were deleted, no more pages
CREATE TABLE sizes AS SELECT number, pg_relation_size('v' || number || '_e') AS size FROM metrics;
SELECT fill(2001, 2600);
SELECT * FROM good();
SELECT number, pg_relation_size('v' || number || '_e') = size AS same_size FROM sizes ORDER BY number;
-- emptied, and filled again
SELECT each('DELETE FROM %1$s');
SELECT vacuum() \gexec
SELECT fill(1, 500);
SELECT * FROM good();
-- built page by page
SET maintenance_work_mem = '1MB';
SET client_min_messages = warning;
CREATE TABLE paged AS SELECT i AS id, random_vector(i % 30, 24) AS e FROM generate_series(1, 4000) i;
CREATE INDEX paged_e ON paged USING treedb_hnsw (e) WITH (dimensions = 24);
RESET client_min_messages;
TRUNCATE queries;
INSERT INTO queries SELECT i, random_vector(i, 24) FROM generate_series(1, 10) i;
SELECT recall('paged', '<->') > 0.97 AS recall_is_high;
SELECT treedb.check('paged');
-- the same of few dimensions, which the nodes have themselves: places that are near each other and far from zero
CREATE TABLE places AS SELECT i AS id, ARRAY[48 + i % 40 + random() * 0.01, 11 + i % 40 + random() * 0.01]::real[] AS e FROM generate_series(1, 3000) i;
CREATE INDEX places_e ON places USING treedb_hnsw (e) WITH (dimensions = 2);
TRUNCATE queries;
INSERT INTO queries SELECT i, ARRAY[48 + i + random() * 0.01, 11 + i + random() * 0.01]::real[] FROM generate_series(1, 10) i;
SELECT recall('places', '<->') > 0.97 AS recall_is_high;
INSERT INTO places SELECT i, ARRAY[48 + i % 40 + random() * 0.01, 11 + i % 40 + random() * 0.01] FROM generate_series(3001, 5000) i;
DELETE FROM places WHERE id % 5 = 0;
VACUUM (INDEX_CLEANUP ON) places;
SELECT recall('places', '<->') > 0.97 AS recall_is_high;
SELECT treedb.check('places');
-- of more dimensions, of which nodes have codes of 8 bits; and with so many links that these have no codes
CREATE TABLE long AS SELECT i AS id, random_vector(i % 30, 1100) AS e FROM generate_series(1, 400) i;
CREATE INDEX long_e ON long USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 1100);
CREATE INDEX long_m ON long USING treedb_hnsw (e) WITH (dimensions = 1100, m = 48);
INSERT INTO long SELECT i, random_vector(i % 30, 1100) FROM generate_series(401, 500) i;
DELETE FROM long WHERE id % 5 = 0;
VACUUM (INDEX_CLEANUP ON) long;
TRUNCATE queries;
INSERT INTO queries SELECT i, random_vector(i, 1100) FROM generate_series(1, 10) i;
SELECT recall('long', '<=>') > 0.97 AS recall_is_high;
SELECT recall('long', '<->') > 0.97 AS recall_is_high;
SELECT treedb.check('long');
-- vectors that are inserted are compared by their differences, however far from zero they are
CREATE TABLE far (id int, e real[]);
CREATE INDEX far_e ON far USING treedb_hnsw (e) WITH (dimensions = 80);
INSERT INTO far SELECT i, (SELECT array_agg((1000 + x)::real) FROM unnest(random_vector(i % 30, 80)) x) FROM generate_series(1, 1000) i;
TRUNCATE queries;
INSERT INTO queries SELECT i, (SELECT array_agg((1000 + x)::real) FROM unnest(random_vector(i, 80)) x) FROM generate_series(1, 10) i;
SELECT recall('far', '<->') > 0.97 AS recall_is_high;
SELECT treedb.check('far');
-- many rows with the same vector are all found
CREATE TABLE twins (id int, e real[]);
CREATE INDEX twins_e ON twins USING treedb_hnsw (e) WITH (dimensions = 2, m = 4);
INSERT INTO twins SELECT i, '{1, 2}' FROM generate_series(1, 700) i;
INSERT INTO twins SELECT i, '{5, 5}' FROM generate_series(701, 720) i;
SELECT treedb.check('twins');
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
SELECT count(DISTINCT id), count(*) FROM (SELECT id FROM twins ORDER BY e <-> '{1, 2}') x;
SELECT min(id), count(*) FROM (SELECT id FROM twins ORDER BY e <-> '{6, 6}' LIMIT 20) x;
COMMIT;
-- and do not hide others, whatever nodes have of their neighbours: crowds of copies among different vectors, in a random order
CREATE TABLE crowds AS SELECT d, format('crowd%s', d) AS name FROM unnest('{3, 40, 300}'::int[]) d;
SELECT format('CREATE TABLE %1$s (id int, e real[]); CREATE INDEX %1$s_e ON %1$s USING treedb_hnsw (e) WITH (dimensions = %2$s)', name, d) FROM crowds ORDER BY d \gexec
CREATE TABLE found AS SELECT d, ''::text AS stage, 0.0::float8 AS recall FROM crowds LIMIT 0;
CREATE PROCEDURE measure(stage text) LANGUAGE plpgsql AS $$
DECLARE crowd record;
BEGIN
    FOR crowd IN SELECT * FROM crowds ORDER BY d LOOP
        TRUNCATE queries;
        INSERT INTO queries SELECT i, random_vector(i, crowd.d) FROM generate_series(1, 30) i;
        INSERT INTO found SELECT crowd.d, stage, recall(crowd.name::regclass, '<->');
    END LOOP;
END $$;
SELECT format('INSERT INTO %1$s SELECT i, e FROM (SELECT i, random_vector(i %% 30, %2$s) AS e FROM generate_series(1, 400) i'
    ' UNION ALL SELECT i, c.e FROM (SELECT n, random_vector(n, %2$s) AS e FROM generate_series(1, 6) n) c, generate_series(1, 60) i) x ORDER BY random()', name, d) FROM crowds ORDER BY d \gexec
CALL measure('inserted');
SELECT format('REINDEX INDEX %s_e', name) FROM crowds ORDER BY d \gexec
CALL measure('built');
-- other versions of all rows, and without the old ones
SELECT format('UPDATE %s SET id = -id', name) FROM crowds ORDER BY d \gexec
CALL measure('updated');
SELECT format('VACUUM (INDEX_CLEANUP ON) %s', name) FROM crowds ORDER BY d \gexec
CALL measure('vacuumed');
SELECT d, stage, recall > 0.97 AS recall_is_high, CASE WHEN recall <= 0.97 THEN recall END AS recall FROM found ORDER BY d, stage;
SELECT name, c FROM crowds LEFT JOIN LATERAL treedb.check(name) c ON true ORDER BY d;
SET client_min_messages = warning;
DROP SCHEMA hnsw_recall CASCADE;
