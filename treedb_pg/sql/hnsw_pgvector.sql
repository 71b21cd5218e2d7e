-- treedb_hnsw over pgvector's types, where that extension is installed: the claims of hnsw_recall and of hnsw_input for vector and halfvec.
SELECT NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') AS no_pgvector \gset
\if :no_pgvector
\quit
\endif
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_pgvector;
SET search_path = hnsw_pgvector, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set file :dir '/sql/include/vector_stages.psql'
\i :file
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
CREATE EXTENSION vector SCHEMA hnsw_pgvector;
SELECT treedb.enable_pgvector();
SELECT treedb.enable_pgvector() AS again;
SELECT opcname, opcintype::regtype, amvalidate(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
WHERE amname = 'treedb_hnsw' AND opcnamespace = 'hnsw_pgvector'::regnamespace ORDER BY opcname;
SELECT setseed(0.5);
CREATE TABLE queries AS SELECT i AS id, random_vector(i, 72) AS e FROM generate_series(1, 6) i;
INSERT INTO metrics (type, operator, class)
SELECT type || '(72)', operator, format('%s_%s_ops', type, metric)
FROM unnest('{vector,halfvec}'::text[]) type, (VALUES (1, '<->', 'l2'), (2, '<#>', 'ip'), (3, '<=>', 'cosine'), (4, '<+>', 'l1')) m(place, operator, metric) ORDER BY type DESC, place;
SELECT each('CREATE TABLE %1$s (id int, part int, e %3$s) WITH (autovacuum_enabled = off)');
-- built
SELECT fill(1, 500);
SELECT each('CREATE INDEX %1$s_e ON %1$s USING treedb_hnsw (e %2$s) %4$s');
SELECT * FROM good();
-- inserted
SELECT fill(501, 1000);
SELECT * FROM good();
-- updated, deleted, vacuumed, inserted again
SELECT each('UPDATE %1$s SET e = random_vector(id %% 30, 72)::%3$s WHERE id %% 4 = 0');
SELECT * FROM good();
SELECT each('DELETE FROM %1$s WHERE id %% 3 = 0');
SELECT * FROM good();
SELECT vacuum() \gexec
SELECT * FROM good();
SELECT fill(1001, 1300);
SELECT * FROM good();

-- bits under pgvector's operators: the name of the access method is all that is other
SET search_path = hnsw_pgvector, public, treedb;
CREATE TABLE signed (id int, v vector(72));
INSERT INTO signed SELECT id, e FROM v1;
CREATE INDEX signed_bits ON signed USING treedb_hnsw ((binary_quantize(v)::bit(72)) bit_hamming_ops);
CREATE INDEX signed_sets ON signed USING treedb_hnsw ((binary_quantize(v)::bit(72)) bit_jaccard_ops);
SET enable_seqscan = off;
SET enable_sort = off;
SELECT pg_temp.plan($$SELECT id FROM signed ORDER BY binary_quantize(v)::bit(72) <~> X'00FF00FF00FF00FF00' LIMIT 5$$);
SELECT pg_temp.plan($$SELECT id FROM signed ORDER BY binary_quantize(v)::bit(72) <%> X'00FF00FF00FF00FF00' LIMIT 5$$);
SELECT array_agg(d) AS hamming FROM (SELECT binary_quantize(v)::bit(72) <~> (SELECT binary_quantize(v)::bit(72) FROM signed WHERE id = 7) AS d FROM signed ORDER BY 1 LIMIT 30) x \gset
SELECT array_agg(d) AS jaccard FROM (SELECT binary_quantize(v)::bit(72) <%> (SELECT binary_quantize(v)::bit(72) FROM signed WHERE id = 7) AS d FROM signed ORDER BY 1 LIMIT 30) x \gset
RESET enable_sort;
SELECT :'hamming'::float8[] = array_agg(d) AS same FROM (SELECT binary_quantize(v)::bit(72) <~> (SELECT binary_quantize(v)::bit(72) FROM signed WHERE id = 7) AS d FROM signed ORDER BY (binary_quantize(v)::bit(72) <~> (SELECT binary_quantize(v)::bit(72) FROM signed WHERE id = 7)) + 0 LIMIT 30) x;
SELECT :'jaccard'::float8[] = array_agg(d) AS same FROM (SELECT binary_quantize(v)::bit(72) <%> (SELECT binary_quantize(v)::bit(72) FROM signed WHERE id = 7) AS d FROM signed ORDER BY (binary_quantize(v)::bit(72) <%> (SELECT binary_quantize(v)::bit(72) FROM signed WHERE id = 7)) + 0 LIMIT 30) x;
-- ours give the same distances
SELECT count(*) FILTER (WHERE a <~> b <> a OPERATOR(treedb.<~>) b OR a <%> b <> a OPERATOR(treedb.<%>) b) AS others, count(*) > 5000 AS all_pairs
FROM (SELECT binary_quantize(one.v)::bit(72) AS a, binary_quantize(other.v)::bit(72) AS b FROM signed one, signed other WHERE one.id < 100) x;
SELECT treedb.check('signed');
RESET enable_seqscan;
SET search_path = hnsw_pgvector, treedb, public;

-- what is refused, left out and taken
CREATE TABLE t (id int, v vector(3), h halfvec(3), any_v vector, bits bit(3));
CREATE INDEX ON t USING treedb_hnsw (any_v vector_l2_ops);
\echo :LAST_ERROR_SQLSTATE
CREATE INDEX ON t USING treedb_hnsw (v vector_l2_ops) WITH (dimensions = 4);
CREATE INDEX ON t USING treedb_hnsw (bits);
CREATE TABLE long (v vector(2001), h halfvec(4001));
CREATE INDEX ON long USING treedb_hnsw (v vector_l2_ops);
\echo :LAST_ERROR_SQLSTATE
CREATE INDEX ON long USING treedb_hnsw (h halfvec_cosine_ops);
CREATE INDEX t_v ON t USING treedb_hnsw (v vector_cosine_ops);
CREATE INDEX t_h ON t USING treedb_hnsw (h halfvec_l2_ops);
CREATE INDEX t_any ON t USING treedb_hnsw (any_v vector_ip_ops) WITH (dimensions = 3);
INSERT INTO t (id, v) VALUES (1, '[1, 2]');
INSERT INTO t (id, any_v) VALUES (1, '[1, 2]');
\echo :LAST_ERROR_SQLSTATE
INSERT INTO t (id, v) VALUES (1, '[1, 2, NaN]');
INSERT INTO t (id, v) VALUES (1, '[1, 2, 1e30]');
INSERT INTO t (id, h) VALUES (1, '[1, 2, Infinity]');
-- an empty table
SET enable_seqscan = off;
SET enable_sort = off;
SELECT id FROM t ORDER BY v <=> '[1, 2, 3]' LIMIT 5;
INSERT INTO t SELECT i, v::vector, v::halfvec, v::vector FROM (VALUES (1, '[1, 2, 3]'), (2, NULL), (3, '[0, 0, 0]'), (4, '[-1, 1e-6, 0]'), (5, '[65504, 0, 0]')) r(i, v);
SELECT id FROM t ORDER BY v <=> '[1, 2, 3]';
SELECT id FROM t ORDER BY h <-> '[1, 2, 3]' LIMIT 10;
SELECT id FROM t ORDER BY any_v <#> '[1, 2, 3]' LIMIT 10;
SELECT id FROM t ORDER BY h <-> '[1, 2, 3]' LIMIT 0;
SELECT id FROM t ORDER BY any_v <#> '[1, 2]' LIMIT 5;
SELECT count(*) FROM (SELECT id FROM t ORDER BY v <=> '[0, 0, 0]' LIMIT 5) x;
SELECT pg_temp.plan($$SELECT id FROM t ORDER BY h <-> '[1, 2, 3]' LIMIT 10$$);
SELECT treedb.check('t');
RESET enable_seqscan;
RESET enable_sort;

-- switching: an index of pgvector is replaced by one statement, and the query stays as it is
CREATE TABLE items (id int, embedding vector(72));
INSERT INTO items SELECT id, e FROM v1;
CREATE INDEX items_hnsw ON items USING hnsw (embedding vector_cosine_ops);
CREATE INDEX items_embedding ON items USING treedb_hnsw (embedding vector_cosine_ops);
DROP INDEX items_hnsw;
ANALYZE items;
SET enable_seqscan = off;
SELECT e::vector AS one FROM queries WHERE id = 1 \gset
SELECT regexp_replace(pg_temp.plan(format('SELECT id FROM items ORDER BY embedding <=> %L LIMIT 5', :'one')), '\[.*\]', '[..]') AS plan;
-- recall, measured as docs/postgres.md says
SELECT round(avg(recall)::numeric, 2) > 0.95 AS recall_is_high FROM (
    SELECT (SELECT count(*) FROM (SELECT embedding <=> q.embedding AS d FROM items ORDER BY embedding <=> q.embedding LIMIT 10) found
            WHERE d <= exact.farthest) / exact.count::float AS recall
    FROM (SELECT embedding FROM items ORDER BY random() LIMIT 100) q, LATERAL (
        SELECT max(d) AS farthest, count(*) FROM (SELECT embedding <=> q.embedding AS d FROM items ORDER BY (embedding <=> q.embedding) + 0 LIMIT 10) x) exact
) each_query;
SET client_min_messages = warning;
DROP SCHEMA hnsw_pgvector CASCADE;
