-- treedb_hnsw finds the nearest of vectors that have far more in common than they differ, under each metric: in an index that was built,
-- with its vectors in memory or in a file, in one that was filled row by row, and after rows were deleted. Brute force is the oracle.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_alike;
SET search_path = hnsw_alike, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set ECHO all
SELECT setseed(0.25);
-- away(VECTOR, BY): so far from zero in every dimension; the spread of random_vector() is 0.77
CREATE FUNCTION away(e real[], by real) RETURNS real[] IMMUTABLE RETURN (SELECT array_agg(x + CASE WHEN n % 3 = 0 THEN -by ELSE by END ORDER BY n) FROM unnest(e) WITH ORDINALITY u (x, n));
CREATE TABLE queries (id int, e real[]);
CREATE TABLE metrics (number int, class text, operator text);
INSERT INTO metrics VALUES (1, 'real_cosine_ops', '<=>'), (2, 'real_l2_ops', '<->'), (3, 'real_ip_ops', '<#>'), (4, 'real_l1_ops', '<+>');
-- each(STATEMENT): for each metric, with its number and operator class
CREATE FUNCTION each(statement text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE m metrics;
BEGIN
    FOR m IN SELECT * FROM metrics ORDER BY number LOOP EXECUTE format(statement, m.number, m.class); END LOOP;
END $$;
-- good(NAME): whether recall is high in the tables of a name, and nothing is wrong with their indexes. By inner product such vectors are in about
-- the same order for all queries, so that a graph leads to the same few of them or to none, by their vectors as by codes.
CREATE FUNCTION good(name text, by_product float8 DEFAULT 0.3) RETURNS TABLE (metric text, recall_is_high bool, problems bigint) LANGUAGE sql AS $$
    SELECT operator, recall(name || number, operator) > CASE operator WHEN '<#>' THEN by_product ELSE 0.95 END, (SELECT count(*) FROM treedb.check((name || number)::regclass)) FROM metrics ORDER BY number
$$;
-- fill(DIMENSIONS, ROWS, FAR): tables `built1` and so on with an index that is built over their rows, and `filled1`, with one that is filled
CREATE FUNCTION fill(dimensions int, rows int, far real) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE queries;
    INSERT INTO queries SELECT i, away(random_vector(i, dimensions), far) FROM generate_series(1, 10) i;
    DROP TABLE IF EXISTS base;
    CREATE TABLE base AS SELECT i AS id, away(random_vector(i % 30, dimensions), far) AS e FROM generate_series(1, rows) i;
    PERFORM each('DROP TABLE IF EXISTS built%1$s, filled%1$s');
    PERFORM each('CREATE TABLE built%1$s WITH (autovacuum_enabled = off) AS SELECT * FROM base');
    PERFORM each(format('CREATE INDEX built%%1$s_e ON built%%1$s USING treedb_hnsw (e %%2$s) WITH (dimensions = %s)', dimensions));
    PERFORM each('CREATE TABLE filled%1$s (id int, e real[]) WITH (autovacuum_enabled = off)');
    PERFORM each(format('CREATE INDEX filled%%1$s_e ON filled%%1$s USING treedb_hnsw (e %%2$s) WITH (dimensions = %s)', dimensions));
    PERFORM each('INSERT INTO filled%1$s SELECT * FROM base');
END $$;
SET client_min_messages = warning;
SET jit = off;
-- 20 and 100 times the spread, of vectors in their nodes
SELECT fill(72, 1500, 15);
SELECT * FROM good('built');
SELECT * FROM good('filled');
SELECT fill(72, 1500, 77);
SELECT * FROM good('built');
SELECT * FROM good('filled');
-- more come, and others go
SELECT each('INSERT INTO built%1$s SELECT id + 1500, away(random_vector(id %% 30, 72), 77) FROM base WHERE id <= 500');
SELECT each('DELETE FROM built%1$s WHERE id %% 3 = 0');
SELECT each('DELETE FROM filled%1$s WHERE id %% 3 = 0');
VACUUM (INDEX_CLEANUP ON) built1, built2, built3, built4, filled1, filled2, filled3, filled4;
SELECT * FROM good('built');
SELECT * FROM good('filled');
-- of few dimensions
SELECT fill(40, 1500, 77);
SELECT * FROM good('built');
SELECT * FROM good('filled');
-- on pages of their own, as codes of 8 bits
SELECT fill(1200, 500, 15);
SELECT * FROM good('built', 0.9);
SELECT * FROM good('filled', 0.9);
SELECT fill(1200, 500, 77);
SELECT * FROM good('built', 0.9);
SELECT * FROM good('filled', 0.9);
SELECT each('INSERT INTO built%1$s SELECT id + 1500, away(random_vector(id %% 30, 1200), 77) FROM base WHERE id <= 100');
SELECT each('DELETE FROM built%1$s WHERE id %% 3 = 0');
VACUUM (INDEX_CLEANUP ON) built1, built2, built3, built4;
SELECT * FROM good('built', 0.9);
-- an index that was filled is the same again when it is built, and one that was emptied can be filled
SELECT each('REINDEX INDEX filled%1$s_e');
SELECT * FROM good('filled', 0.9);
SELECT each('DELETE FROM filled%1$s');
VACUUM (INDEX_CLEANUP ON) filled1, filled2, filled3, filled4;
SELECT each('INSERT INTO filled%1$s SELECT * FROM base');
SELECT * FROM good('filled', 0.9);
-- vectors that outgrow the memory go to a temporary file, and the graph is the one that memory would have had
TRUNCATE queries;
INSERT INTO queries SELECT i, away(random_vector(i, 72), 77) FROM generate_series(1, 20) i;
CREATE TABLE long AS SELECT i AS id, away(random_vector(i % 30, 72), 77) AS e FROM generate_series(1, 2400) i;
SET max_parallel_maintenance_workers = 0;
CREATE INDEX long_e ON long USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 72);
SET treedb.hnsw_ef_search = 3;
SET treedb.hnsw_max_scan_tuples = 1;
SET enable_seqscan = off;
SET enable_sort = off;
CREATE TABLE found_in_long AS
    SELECT q.id, array(SELECT long.id FROM long ORDER BY long.e <=> q.e LIMIT 3) AS ids FROM queries q;
SET log_temp_files = -1;
SET maintenance_work_mem = '1MB';
SET client_min_messages = debug1;
\set VERBOSITY terse
REINDEX INDEX long_e;
SET client_min_messages = warning;
SELECT count(*) FROM queries q JOIN found_in_long f USING (id) WHERE f.ids = array(SELECT long.id FROM long ORDER BY long.e <=> q.e LIMIT 3);
RESET treedb.hnsw_ef_search;
RESET treedb.hnsw_max_scan_tuples;
SELECT recall('long', '<=>') > 0.95 AS recall_is_high;
SELECT treedb.check('long');
-- what a table begins with does not decide: only its first rows are alike
CREATE TABLE begins AS SELECT i AS id, CASE WHEN i <= 300 THEN away(random_vector(1, 72), 77) ELSE random_vector(i % 30, 72) END AS e FROM generate_series(1, 2400) i;
SET client_min_messages = debug1;
CREATE INDEX begins_e ON begins USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 72);
RESET maintenance_work_mem;
SET client_min_messages = warning;
SET client_min_messages = warning;
DROP SCHEMA hnsw_alike CASCADE;
