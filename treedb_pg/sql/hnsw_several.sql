-- Several vectors in a row or a document: each is in the index, the row is found once, by the nearest of them. Brute force is
-- the oracle, through building, inserting, updating, deleting and vacuuming.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_several;
SET search_path = hnsw_several, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
-- the operators
SELECT '{{3, 4}, {0, 1}, {6, 8}}'::real[] <-> '{0, 0}' AS nearest, '{0, 0}'::real[] <-> '{{3, 4}, {0, 1}}' AS other_way, '{{3, 4}}'::real[] <-> '{0, 0}' AS one_of_one;
SELECT '{{1, 0}, {0, 2}}'::real[] <#> '{1, 1}' AS product, '{{0, 0}, {0, 2}}'::real[] <=> '{0, 1}' AS cosine, '{{1, 0}, {0, 2}}'::real[] <+> '{1, 1}' AS sums, '{{0, 0}, {0, 0}}'::real[] <=> '{0, 1}' AS none;
SELECT '{{1, 0}, {0, 2}}'::real[] <-> '{{1, 0}, {0, 2}}';
\echo :LAST_ERROR_SQLSTATE
SELECT '{{1, 0}, {0, 2}}'::real[] <-> '{1, 2, 3}';
SELECT '{{1, 0}, {0, NULL}}'::real[] <-> '{1, 2}';
SELECT '{{{1, 0}, {0, 2}}}'::real[] <-> '{1, 2}';

-- several_vectors(CLUSTER, DIMENSIONS, COUNT): each in a cluster of its own
CREATE FUNCTION several_vectors(cluster int, dimensions int, count int) RETURNS real[] LANGUAGE sql VOLATILE AS $$
    SELECT array_agg(random_vector((cluster + 7 * i) % 30, dimensions)) FROM generate_series(1, count) i
$$;
-- once(TABLE, OPERATOR): whether an index that is read to its end returns every row once, and how many
CREATE FUNCTION once(rel regclass, operator text, OUT every_row bool, OUT once bool) LANGUAGE plpgsql AS $$
DECLARE found record; rows int8;
BEGIN
    PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true), set_config('treedb.hnsw_max_scan_tuples', '1000000', true);
    EXECUTE format('SELECT count(*) FROM %s', rel) INTO rows;
    EXECUTE format('SELECT count(*), count(DISTINCT id) AS ids FROM (SELECT id FROM %s ORDER BY e %s (SELECT e FROM queries WHERE id = 1)) x', rel, operator) INTO found;
    every_row := found.ids = rows;
    once := found.count = found.ids;
END $$;
SELECT setseed(0.5);
CREATE TABLE queries AS SELECT i AS id, random_vector(i, 20) AS e FROM generate_series(1, 10) i;
-- with codes of neighbours, and with every neighbour read
CREATE TABLE coded (id int, part int, e real[]) WITH (autovacuum_enabled = off);
CREATE TABLE plain (id int, part int, e real[]) WITH (autovacuum_enabled = off);
INSERT INTO coded SELECT i, i % 100, several_vectors(i, 20, 1 + i % 4) FROM generate_series(1, 600) i;
INSERT INTO plain SELECT * FROM coded;
CREATE INDEX coded_e ON coded USING treedb_hnsw (e) WITH (dimensions = 20);
CREATE INDEX plain_e ON plain USING treedb_hnsw (e real_l1_ops) WITH (dimensions = 20);
CREATE FUNCTION good() RETURNS TABLE (rel text, recall_is_high bool, a_tenth bool, every_row bool, once bool, problems int8) LANGUAGE sql AS $$
    SELECT rel, recall(rel, operator) > 0.97, recall(rel, operator, 'part < 10') > 0.95, all_rows.*, (SELECT count(*) FROM treedb.check(rel::regclass))
    FROM (VALUES ('coded', '<->'), ('plain', '<+>')) t(rel, operator), LATERAL once(rel, operator) AS all_rows
$$;
SELECT * FROM good();
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT pg_temp.plan($$SELECT id FROM coded ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 5$$);
COMMIT;
-- inserted
INSERT INTO coded SELECT i, i % 100, several_vectors(i, 20, 1 + i % 4) FROM generate_series(601, 1000) i;
INSERT INTO plain SELECT * FROM coded WHERE id > 600;
SELECT * FROM good();
-- updated: another number of vectors
UPDATE coded SET e = several_vectors(id + 3, 20, 1 + (id + 1) % 3) WHERE id % 4 = 0;
UPDATE plain SET e = coded.e FROM coded WHERE coded.id = plain.id AND coded.id % 4 = 0;
SELECT * FROM good();
-- deleted, vacuumed, the space used again
DELETE FROM coded WHERE id % 3 = 0;
DELETE FROM plain WHERE id % 3 = 0;
SELECT * FROM good();
VACUUM (INDEX_CLEANUP ON) coded;
VACUUM (INDEX_CLEANUP ON) plain;
SELECT * FROM good();
CREATE TABLE sizes AS SELECT pg_relation_size('coded_e') AS coded, pg_relation_size('plain_e') AS plain;
INSERT INTO coded SELECT i, i % 100, several_vectors(i, 20, 1 + i % 2) FROM generate_series(1001, 1300) i;
INSERT INTO plain SELECT * FROM coded WHERE id > 1000;
SELECT * FROM good();
SELECT pg_relation_size('coded_e') = coded AND pg_relation_size('plain_e') = plain AS same_size FROM sizes;
-- rebuilt, without the memory for it too
SET client_min_messages = warning;
SET maintenance_work_mem = '1MB';
INSERT INTO coded SELECT i, i % 100, several_vectors(i, 20, 4) FROM generate_series(1301, 2000) i;
REINDEX INDEX coded_e;
RESET maintenance_work_mem;
REINDEX INDEX plain_e;
RESET client_min_messages;
SELECT * FROM good();
-- the same vector many times, those without a direction, none at all
CREATE TABLE odd (id int, e real[]);
CREATE INDEX odd_e ON odd USING treedb_hnsw (e real_cosine_ops) WITH (dimensions = 2);
INSERT INTO odd SELECT 1, array_agg(ARRAY[1, 2]::real[]) FROM generate_series(1, 300);
INSERT INTO odd VALUES (2, '{{0, 0}, {1, 0}}'), (3, '{{0, 0}, {0, 0}}'), (4, NULL), (5, '{{0, 1}}'), (6, '{-1, 0}');
INSERT INTO odd VALUES (7, '{{1, 2, 3}, {1, 2, 3}}');
\echo :LAST_ERROR_SQLSTATE
INSERT INTO odd VALUES (7, '{{1, 2}, {1, NaN}}');
INSERT INTO odd VALUES (7, '{}');
SET enable_seqscan = off;
SET enable_sort = off;
SELECT id, round((e <=> '{1, 0}')::numeric, 4) AS distance FROM odd ORDER BY e <=> '{1, 0}';
SELECT id FROM odd ORDER BY e <=> '{{1, 0}, {0, 1}}';
\echo :LAST_ERROR_SQLSTATE
SELECT id FROM odd ORDER BY e <=> '{{1, 0}}' LIMIT 1;
SELECT treedb.check('odd');
RESET enable_seqscan;
RESET enable_sort;
-- what is said of a row of which a vector is missing
CREATE FUNCTION lying(id int, e real[]) RETURNS real[] IMMUTABLE LANGUAGE sql AS $$ SELECT CASE WHEN current_setting('hnsw_several.lie', true) = 'yes' THEN (e)[1:1] ELSE e END $$;
CREATE TABLE lies (id int, e real[]);
SET hnsw_several.lie = 'yes';
INSERT INTO lies VALUES (1, '{{1, 2}, {3, 4}, {5, 6}}');
CREATE INDEX lies_e ON lies USING treedb_hnsw (lying(id, e)) WITH (dimensions = 2);
SELECT treedb.check('lies');
SET hnsw_several.lie = 'no';
SELECT treedb.check('lies');

-- documents: arrays of vectors, and of documents with vectors
SELECT create_collection('docs');
INSERT INTO docs (doc) SELECT jsonb_build_object('_id', id, 'part', part, 'chunks', (SELECT jsonb_agg(jsonb_build_object('text', 'x', 'e', chunk)) FROM jsonb_array_elements(CASE WHEN array_ndims(e) = 1 THEN jsonb_build_array(e) ELSE to_jsonb(e) END) chunk), 'all', to_jsonb(e)) FROM coded;
SELECT vector_at('{"e": [[1, 2], [3, 4], [5], "x", [7, 1e18]]}', 'e', 2) AS two, vector_at('{"e": [[1, 2]]}', 'e', 2) AS one, vector_at('{"e": [1, 2]}', 'e', 2) AS plain,
    vector_at('{"e": [{"v": [1, 2]}, {"w": 1}, {"v": [3, 4]}, 5]}', 'e.v', 2) AS deep, vector_at('{"e": [[1], 2]}', 'e', 2) AS none;
SELECT array_ndims(vector_at(format('{"e": [%s]}', (SELECT string_agg('[1, 2]', ',') FROM generate_series(1, 1000)))::bson, 'e', 2)) AS most;
SELECT vector_at(format('{"e": [%s]}', (SELECT string_agg('[1, 2]', ',') FROM generate_series(1, 1001)))::bson, 'e', 2);
\echo :LAST_ERROR_SQLSTATE
SELECT create_search_index('docs', format('{"fields": [{"type": "vector", "path": "chunks.e", "numDimensions": 20, "similarity": "%s"}]}', s)::bson, format('{"name": "%s"}', s)::bson) FROM unnest('{cosine,euclidean,dotProduct}'::text[]) s;
SELECT create_search_index('docs', '{"fields": [{"type": "vector", "path": "all", "numDimensions": 20, "similarity": "euclidean"}]}', '{"name": "whole"}');
-- recall_of(INDEX, FILTER): as vector_search finds the 10 nearest of it, each once
CREATE FUNCTION recall_of(index text, filter bson DEFAULT '{}') RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE target real[]; exact float8[]; found float8[]; ids int8; hits float8 := 0; wanted float8 := 0;
BEGIN
    FOR target IN SELECT e FROM queries LOOP
        SELECT array_agg(distance) INTO exact FROM vector_search('docs', index, target, 10, filter, '{"exact": true}');
        SELECT array_agg(distance), count(DISTINCT document -> '_id') INTO found, ids FROM vector_search('docs', index, target, 10, filter);
        IF cardinality(exact) IS DISTINCT FROM cardinality(found) OR ids <> cardinality(found) THEN
            RAISE EXCEPTION 'the index finds % documents of %, % of them different', cardinality(found), cardinality(exact), ids;
        END IF;
        hits := hits + (SELECT count(*) FROM unnest(found) d WHERE d <= exact[cardinality(exact)]);
        wanted := wanted + cardinality(exact);
    END LOOP;
    RETURN hits / wanted;
END $$;
CREATE FUNCTION recalls() RETURNS TABLE (index text, recall_is_high bool, half bool, a_tenth bool, a_hundredth bool) LANGUAGE sql AS $$
    SELECT s, recall_of(s) > 0.95, recall_of(s, '{"part": {"$lt": 50}}') > 0.95, recall_of(s, '{"part": {"$lt": 10}}') > 0.95, recall_of(s, '{"part": 7}') > 0.95
    FROM unnest('{cosine,euclidean,dotProduct,whole}'::text[]) s
$$;
SELECT * FROM recalls();
SELECT count(*), count(DISTINCT document -> '_id') FROM vector_search('docs', 'euclidean', (SELECT e FROM queries WHERE id = 1), 5000);
SELECT count(DISTINCT document -> '_id') = (SELECT count(*) FROM docs) AS all_documents FROM vector_search('docs', 'euclidean', (SELECT e FROM queries WHERE id = 1), 5000);
-- SQL finds what the function does: both searches are of the same documents
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT pg_temp.plan($$SELECT doc FROM docs ORDER BY vector_at(doc, 'chunks.e', 20) <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 5$$);
COMMIT;
SELECT count(*) AS same FROM (SELECT vector_at(doc, 'chunks.e', 20) <-> (SELECT e FROM queries WHERE id = 1) AS d FROM docs ORDER BY 1 LIMIT 10) a
    JOIN vector_search('docs', 'euclidean', (SELECT e FROM queries WHERE id = 1), 10, '{}', '{"exact": true}') b ON a.d = b.distance;
-- a chunk added, one taken away, one changed; an update of another field adds nothing
SELECT update_one('docs', '{"_id": 1}', '{"$push": {"chunks": {"e": [90,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}}}') -> 'modifiedCount' AS updated;
SELECT document -> '_id' AS id, distance FROM vector_search('docs', 'euclidean', '{90,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}', 1);
SELECT update_one('docs', '{"_id": 1}', '{"$pop": {"chunks": 1}}') -> 'modifiedCount' AS updated;
SELECT document -> '_id' = '1' AS is_first, distance > 0 AS is_far FROM vector_search('docs', 'euclidean', '{90,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}', 1);
SELECT create_collection('few');
SELECT create_search_index('few', '{"fields": [{"type": "vector", "path": "chunks.e", "numDimensions": 2, "similarity": "euclidean"}]}', '{"name": "near"}');
SELECT insert_many('few', '[{"_id": 1, "chunks": [{"e": [1, 2]}, {"e": [3, 4]}]}, {"_id": 2, "chunks": []}]') AS inserted;
SELECT FROM pg_stat_force_next_flush();
BEGIN;
SELECT update_many('few', '{}', '{"$set": {"year": 1999}}') -> 'modifiedCount' AS updated;
SELECT pg_stat_get_xact_tuples_hot_updated('few'::regclass) AS hot_updated;
COMMIT;
SELECT delete_many('docs', '{"_id": {"$mod": [5, 0]}}') > 100 AS deleted;
VACUUM (INDEX_CLEANUP ON) docs;
SELECT * FROM recalls();
SELECT treedb.check('docs');
SET client_min_messages = warning;
DROP SCHEMA hnsw_several CASCADE;
