-- treedb_hnsw over bits, by Hamming and Jaccard distance: brute force is the oracle, through building, inserting, deleting
-- and vacuuming; NULL, other lengths, no bits at all.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_bits;
SET search_path = hnsw_bits, treedb, public;
\set file :dir '/sql/include/bits.psql'
\i :file
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
-- the operators
SELECT B'11100' <~> B'01110' AS hamming, B'11100' <%> B'01110' AS jaccard, B'11100' <%> B'01100' AS a_third;
SELECT B'00000' <~> B'00000' AS hamming, B'00000' <%> B'00000' AS jaccard, B'00000' <%> B'00100' AS one;
SELECT B'' <~> B'' AS hamming, B'' <%> B'' AS jaccard, '101'::varbit <~> '110'::varbit AS varying, B'1' <~> NULL AS of_null;
SELECT repeat('1', 100000)::varbit <~> repeat('0', 100000)::varbit AS long;
SELECT B'101' <~> B'1010';
\echo :LAST_ERROR_SQLSTATE
SELECT B'101' <%> B'';

-- recall, with codes of the neighbours in each node, of 130 bits, and with more bits than fit, 3,000
SELECT setseed(0.5);
INSERT INTO kinds SELECT format('v%s_%s', bits, metric), bits, operator, format('bit_%s_ops', metric)
FROM unnest('{130,3000}'::int[]) bits, (VALUES ('hamming', '<~>'), ('jaccard', '<%>')) m(metric, operator);
SELECT each('CREATE TABLE %1$s (id int, part int, e bit(%2$s)) WITH (autovacuum_enabled = off)');
-- built
SELECT fill(1, 700);
SELECT each('CREATE INDEX %1$s_e ON %1$s USING treedb_hnsw (e %3$s)');
SELECT * FROM good();
-- inserted
SELECT fill(701, 1200);
SELECT * FROM good();
-- updated: the old versions are still in the index
SELECT each('UPDATE %1$s SET e = random_bits(id %% 30, %2$s) WHERE id %% 4 = 0');
SELECT * FROM good();
-- deleted, vacuumed, and the space used again
SELECT each('DELETE FROM %1$s WHERE id %% 3 = 0');
SELECT * FROM good();
SELECT format('VACUUM (INDEX_CLEANUP ON) %I', rel) FROM kinds ORDER BY rel \gexec
SELECT * FROM good();
CREATE TABLE sizes AS SELECT rel, pg_relation_size(rel || '_e') AS size FROM kinds;
SELECT fill(1201, 1500);
SELECT * FROM good();
SELECT rel, pg_relation_size(rel || '_e') = size AS same_size FROM sizes ORDER BY rel;
-- rebuilt, with less memory than the graph takes too
SET maintenance_work_mem = '1MB';
SET client_min_messages = warning;
CREATE TABLE paged AS SELECT i AS id, i % 100 AS part, random_bits(i % 30, 64)::bit(64) AS e FROM generate_series(1, 6000) i;
CREATE INDEX paged_e ON paged USING treedb_hnsw (e bit_hamming_ops);
RESET client_min_messages;
RESET maintenance_work_mem;
INSERT INTO kinds VALUES ('paged', 64, '<~>', 'bit_hamming_ops');
SELECT * FROM good();
SELECT each('REINDEX INDEX %1$s_e');
SELECT * FROM good();
-- the planner reads the index, in order
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT id FROM paged ORDER BY e <~> X'00FF00FF00FF00FF' LIMIT 5$$);
SELECT pg_temp.plan($$SELECT id FROM paged WHERE part < 50 ORDER BY e <~> X'00FF00FF00FF00FF' LIMIT 5$$);

-- what is refused, left out and taken
CREATE TABLE t (id int, e bit(5), many varbit, any_e bit varying(40001));
CREATE INDEX ON t USING treedb_hnsw (e);
\echo :LAST_ERROR_SQLSTATE
CREATE INDEX ON t USING treedb_hnsw (e bit_hamming_ops) WITH (dimensions = 6);
CREATE INDEX ON t USING treedb_hnsw (many bit_hamming_ops);
CREATE INDEX ON t USING treedb_hnsw (any_e bit_hamming_ops);
\echo :LAST_ERROR_SQLSTATE
CREATE INDEX ON t USING treedb_hnsw (many bit_hamming_ops) WITH (dimensions = 40001);
CREATE INDEX t_e ON t USING treedb_hnsw (e bit_hamming_ops);
CREATE INDEX t_many ON t USING treedb_hnsw (many bit_jaccard_ops) WITH (dimensions = 5);
SET enable_sort = off;
-- an empty table
SELECT id FROM t ORDER BY e <~> B'11111' LIMIT 5;
INSERT INTO t VALUES (1, B'11100', B'11100'), (2, NULL, NULL), (3, B'00000', B'00000'), (4, B'11111', B'11111'), (5, B'01110', B'01110');
INSERT INTO t VALUES (6, NULL, B'1111');
\echo :LAST_ERROR_SQLSTATE
INSERT INTO t VALUES (6, NULL, B'');
INSERT INTO t VALUES (6, B'111');
SELECT id, e <~> B'11100' AS distance FROM t WHERE e IS NOT NULL ORDER BY e <~> B'11100', id;
SELECT id, round((many <%> B'11100')::numeric, 3) AS distance FROM t ORDER BY many <%> B'11100';
SELECT count(*) FROM (SELECT id FROM t ORDER BY many <%> B'00000') x;
SELECT count(*) FROM (SELECT id FROM t ORDER BY e <~> NULL) x;
SELECT id FROM t ORDER BY e <~> B'1110';
SELECT id FROM t ORDER BY e <~> B'';
SELECT treedb.check('t');
RESET enable_sort;
-- the greatest number of bits, with the most links
CREATE TABLE wide (id int, e bit(40000));
CREATE INDEX wide_e ON wide USING treedb_hnsw (e bit_hamming_ops) WITH (m = 100);
INSERT INTO wide SELECT i, random_bits(i, 40000)::bit(40000) FROM generate_series(1, 60) i;
SELECT treedb.check('wide');
SELECT id FROM wide ORDER BY e <~> (SELECT e FROM wide WHERE id = 7) LIMIT 1;
-- signs of vectors, ordered again by the vectors themselves
CREATE TABLE signed (id int, v real[]);
CREATE FUNCTION signs(v real[]) RETURNS bit(64) IMMUTABLE LANGUAGE sql AS $$ SELECT string_agg(CASE WHEN x > 0 THEN '1' ELSE '0' END, '' ORDER BY at)::bit(64) FROM unnest(v) WITH ORDINALITY u(x, at) $$;
INSERT INTO signed SELECT i, (SELECT array_agg(sin(i * j + random())::real ORDER BY j) FROM generate_series(1, 64) j) FROM generate_series(1, 1000) i;
CREATE INDEX signed_v ON signed USING treedb_hnsw ((signs(v)::bit(64)) bit_hamming_ops);
SELECT pg_temp.plan($$SELECT id FROM (SELECT * FROM signed ORDER BY signs(v)::bit(64) <~> X'00FF00FF00FF00FF' LIMIT 40) x ORDER BY v <=> array_fill(1, ARRAY[64])::real[] LIMIT 1$$);
SELECT id FROM (SELECT * FROM signed ORDER BY signs(v)::bit(64) <~> (SELECT signs(v)::bit(64) FROM signed WHERE id = 7) LIMIT 40) x ORDER BY v <=> (SELECT v FROM signed WHERE id = 7) LIMIT 1;
SET client_min_messages = warning;
DROP SCHEMA hnsw_bits CASCADE;
