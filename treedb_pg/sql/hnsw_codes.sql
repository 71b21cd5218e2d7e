-- The claims of hnsw_recall for vectors that treedb_hnsw has other codes of: neighbours' of one bit for each element, of 400 dimensions, and
-- a node's own of eight bits, of 1,200. Every stage of a table's life, filters that keep half of the rows to one in a thousand, brute force.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_codes;
SET search_path = hnsw_codes, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set file :dir '/sql/include/vector_stages.psql'
\i :file
\set ECHO all
SELECT setseed(0.5);
-- begin(DIMENSIONS): empty tables, one for each metric
CREATE TABLE queries (id int, e real[]);
CREATE FUNCTION begin(dimensions int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE queries, metrics RESTART IDENTITY;
    INSERT INTO queries SELECT i, random_vector(i, dimensions) FROM generate_series(1, 5) i;
    INSERT INTO metrics (type, operator, class, options, dimensions)
        SELECT 'real[]', operator, class, format('WITH (dimensions = %s)', dimensions), dimensions
        FROM (VALUES ('<->', 'real_l2_ops'), ('<#>', 'real_ip_ops'), ('<=>', 'real_cosine_ops'), ('<+>', 'real_l1_ops')) m(operator, class);
    PERFORM each('CREATE TABLE %1$s (id int, part int, e %3$s) WITH (autovacuum_enabled = off)');
END $$;

-- one bit
SELECT begin(400);
-- built
SELECT fill(1, 500);
SELECT each('CREATE INDEX %1$s_e ON %1$s USING treedb_hnsw (e %2$s) %4$s');
SELECT * FROM good();
-- inserted
SELECT fill(501, 800);
SELECT * FROM good();
-- updated: the old versions are still in the index
SELECT each('UPDATE %1$s SET e = random_vector(id %% 30, %5$s) WHERE id %% 4 = 0');
SELECT * FROM good();
-- deleted
SELECT each('DELETE FROM %1$s WHERE id %% 3 = 0');
SELECT * FROM good();
SELECT vacuum() \gexec
SELECT * FROM good();
-- space is used again
SELECT fill(801, 1020);
SELECT * FROM good();
SELECT each('DROP TABLE %1$s');

-- eight bits
SELECT begin(1200);
-- built
SELECT fill(1, 300);
SELECT each('CREATE INDEX %1$s_e ON %1$s USING treedb_hnsw (e %2$s) %4$s');
SELECT * FROM good();
-- inserted
SELECT fill(301, 450);
SELECT * FROM good();
-- updated: the old versions are still in the index
SELECT each('UPDATE %1$s SET e = random_vector(id %% 30, %5$s) WHERE id %% 4 = 0');
SELECT * FROM good();
-- deleted
SELECT each('DELETE FROM %1$s WHERE id %% 3 = 0');
SELECT * FROM good();
SELECT vacuum() \gexec
SELECT * FROM good();
-- space is used again
SELECT fill(451, 570);
SELECT * FROM good();
SET client_min_messages = warning;
DROP SCHEMA hnsw_codes CASCADE;
