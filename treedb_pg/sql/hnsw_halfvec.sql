-- treedb_hnsw over halfvec of more dimensions than fit on a page as floats, and what takes its place for the other types, where pgvector is installed.
SELECT NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') AS no_pgvector \gset
\if :no_pgvector
\quit
\endif
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_halfvec;
SET search_path = hnsw_halfvec, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set file :dir '/sql/include/vector_stages.psql'
\i :file
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
CREATE EXTENSION vector SCHEMA hnsw_halfvec;
SELECT treedb.enable_pgvector();
SELECT setseed(0.5);
CREATE TABLE source AS SELECT i AS id, random_vector(i % 20, 4000) AS e FROM generate_series(1, 306) i;
-- the last six rows are queries
CREATE VIEW queries AS SELECT id, e[1:current_setting('test.dimensions')::int] AS e FROM source WHERE id > 300;
INSERT INTO metrics (type, operator, class, options)
SELECT format('halfvec(%s)', dimensions), operator, format('halfvec_%s_ops', metric), dimensions
FROM unnest('{3072,4000}'::int[]) dimensions, (VALUES (1, '<->', 'l2'), (2, '<#>', 'ip'), (3, '<=>', 'cosine'), (4, '<+>', 'l1')) m(place, operator, metric) ORDER BY dimensions, place;
-- and some that are stored in the same way, of fewer dimensions
INSERT INTO metrics (type, operator, class, options) VALUES ('halfvec(1536)', '<=>', 'halfvec_cosine_ops', 1536), ('halfvec(100)', '<+>', 'halfvec_l1_ops', 100);
-- few(FROM, TO): rows of the source into each table
CREATE FUNCTION few(first int, last int) RETURNS void LANGUAGE sql AS $$
    SELECT each(format('INSERT INTO %%1$s SELECT id, e[1:%%4$s]::%%3$s FROM source WHERE id BETWEEN %s AND %s', first, last))
$$;
-- found(): whether recall is high, by a plan with the index, and the graph whole
CREATE FUNCTION found() RETURNS TABLE (type text, metric text, recall_is_high bool, by_index bool, problems bigint) LANGUAGE plpgsql AS $$
DECLARE
    m metrics;
    rel text;
BEGIN
    FOR m IN SELECT * FROM metrics ORDER BY number LOOP
        rel := 'v' || m.number;
        type := m.type;
        metric := m.operator;
        PERFORM set_config('test.dimensions', m.options, false);
        recall_is_high := recall(rel, m.operator) > 0.97;
        by_index := uses_index(m, 'true');
        problems := (SELECT count(*) FROM treedb.check(rel::regclass));
        RETURN NEXT;
    END LOOP;
END $$;
SELECT each('CREATE TABLE %1$s (id int, e %3$s) WITH (autovacuum_enabled = off)');
-- built
SELECT few(1, 150);
SELECT each('CREATE INDEX %1$s_e ON %1$s USING treedb_hnsw (e %2$s)');
SELECT * FROM found();
-- inserted
SELECT few(151, 250);
SELECT * FROM found();
-- updated, deleted, vacuumed, inserted again
SELECT each('UPDATE %1$s v SET e = s.e[1:%4$s]::%3$s FROM source s WHERE s.id = 301 - v.id AND v.id %% 4 = 0');
SELECT * FROM found();
SELECT each('DELETE FROM %1$s WHERE id %% 3 = 0');
SELECT * FROM found();
SELECT vacuum() \gexec
SELECT * FROM found();
SELECT few(251, 300);
SELECT * FROM found();
-- built of the same rows
SELECT each('REINDEX INDEX %1$s_e');
SELECT * FROM found();

-- much alike, so that codes are about a centre: built, and come one by one
SELECT each('TRUNCATE %1$s');
SELECT each('INSERT INTO %1$s SELECT id, (SELECT array_agg(10 + a ORDER BY n) FROM unnest(e[1:%4$s]) WITH ORDINALITY a(a, n))::%3$s FROM source WHERE id <= 100');
UPDATE source SET e = (SELECT array_agg(10 + a ORDER BY n) FROM unnest(e) WITH ORDINALITY a(a, n));
DELETE FROM metrics WHERE operator = '<#>';
SELECT * FROM found();
SELECT each('REINDEX INDEX %1$s_e');
SELECT * FROM found();

-- elements are in the index as they are in the column: the least, the greatest, those that are no round numbers
CREATE TABLE exact (id int, h halfvec(70));
INSERT INTO exact SELECT i, array_cat((CASE i WHEN 1 THEN '{65504,-65504}' WHEN 2 THEN '{6e-8,-6e-8}' WHEN 3 THEN '{6e-5,-0}' ELSE ARRAY[i / 7.0, -i / 1000.0] END)::real[], array_fill(0.1, ARRAY[68])::real[]) FROM generate_series(1, 40) i;
CREATE INDEX ON exact USING treedb_hnsw (h halfvec_l1_ops);
SET enable_sort = off;
SELECT array_agg(id) AS by_index FROM (SELECT id FROM exact ORDER BY h <+> array_fill(0, ARRAY[70])::real[]::halfvec(70)) x \gset
RESET enable_sort;
SELECT :'by_index'::int[] = array_agg(id) AS same FROM (SELECT id FROM exact ORDER BY (h <+> array_fill(0, ARRAY[70])::real[]::halfvec(70)) + 0) x;
SELECT * FROM treedb.check('exact');

-- an index of halfvec takes less than one of the same vectors as vector
CREATE TABLE sizes (v vector(1536), h halfvec(1536));
INSERT INTO sizes SELECT e[1:1536], e[1:1536] FROM source;
CREATE INDEX sizes_v ON sizes USING treedb_hnsw (v vector_l2_ops);
CREATE INDEX sizes_h ON sizes USING treedb_hnsw (h halfvec_l2_ops);
SELECT pg_relation_size('sizes_h') < 0.65 * pg_relation_size('sizes_v') AS smaller;

-- limits, and the way round them
CREATE TABLE long (r real[], v vector(2001), longest vector(4001), h halfvec(4001));
CREATE INDEX ON long USING treedb_hnsw (h halfvec_l2_ops);
\echo :LAST_ERROR_SQLSTATE
CREATE INDEX ON long USING treedb_hnsw (v vector_l2_ops);
CREATE INDEX ON long USING treedb_hnsw (longest vector_l2_ops);
CREATE INDEX ON long USING treedb_hnsw (r) WITH (dimensions = 3072);
CREATE TABLE wide (id int, r real[], v vector(3072));
INSERT INTO wide SELECT id, e[1:3072], e[1:3072] FROM source;
CREATE INDEX wide_r ON wide USING treedb_hnsw ((r::halfvec(3072)) halfvec_cosine_ops);
CREATE INDEX wide_v ON wide USING treedb_hnsw ((v::halfvec(3072)) halfvec_cosine_ops);
SELECT r AS one FROM wide WHERE id = 7 \gset
SET enable_seqscan = off;
SELECT regexp_replace(pg_temp.plan(format('SELECT id FROM wide ORDER BY r::halfvec(3072) <=> %L LIMIT 5', :'one'::real[]::halfvec(3072))), '\[.*\]', '[..]') AS plan;
SELECT regexp_replace(pg_temp.plan(format('SELECT id FROM wide ORDER BY v::halfvec(3072) <=> %L LIMIT 5', :'one'::real[]::halfvec(3072))), '\[.*\]', '[..]') AS plan;
SET enable_sort = off;
SELECT array_agg(id) AS of_r FROM (SELECT id FROM wide ORDER BY r::halfvec(3072) <=> :'one'::real[]::halfvec(3072) LIMIT 5) x \gset
SELECT array_agg(id) AS of_v FROM (SELECT id FROM wide ORDER BY v::halfvec(3072) <=> :'one'::real[]::halfvec(3072) LIMIT 5) x \gset
RESET enable_sort;
SELECT :'of_r'::int[] = array_agg(id) AS same, :'of_v'::int[] = array_agg(id) AS same_of_v FROM (SELECT id FROM wide ORDER BY (r::halfvec(3072) <=> :'one'::real[]::halfvec(3072)) + 0 LIMIT 5) x;
-- vectors in documents
SELECT create_collection('films');
SELECT insert_many('films', ARRAY(SELECT jsonb_build_object('_id', id, 'e', r)::bson FROM wide));
SELECT insert_one('films', '{"_id": 1000}');
SELECT create_search_index('films', '{"fields": [{"type": "vector", "path": "e", "numDimensions": 3072, "similarity": "cosine"}]}', '{"name": "by_e"}');
CREATE INDEX films_e ON films USING treedb_hnsw ((vector_at(doc, 'e', 3072)::halfvec(3072)) halfvec_cosine_ops);
SELECT insert_one('films', '{"_id": 1001, "e": "none"}'), insert_one('films', '{"_id": 1002, "e": [1, 2]}');
SELECT regexp_replace(pg_temp.plan(format($$SELECT doc -> '_id' FROM films ORDER BY vector_at(doc, 'e', 3072)::halfvec(3072) <=> %L LIMIT 5$$, :'one'::real[]::halfvec(3072))), '\[.*\]', '[..]') AS plan;
SET enable_sort = off;
SELECT :'of_r'::int[] = array_agg(id) AS same FROM (SELECT (doc ->> '_id')::int AS id FROM films ORDER BY vector_at(doc, 'e', 3072)::halfvec(3072) <=> :'one'::real[]::halfvec(3072) LIMIT 5) x;
SELECT vector_at('{}', 'e', 4001);
SELECT treedb.check('wide');
SELECT treedb.check('films');
SET client_min_messages = warning;
DROP SCHEMA hnsw_halfvec CASCADE;
