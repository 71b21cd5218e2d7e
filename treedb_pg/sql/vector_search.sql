-- Search indexes of collections and treedb.vector_search: definitions are MongoDB's, every document is stored, those with a
-- vector of the index's dimensions are found, and a filter gets as many documents as match, up to the limit.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA vector_search;
SET search_path = vector_search, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
-- definitions
SELECT create_collection('items');
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "embedding", "numDimensions": 3, "similarity": "cosine"}, {"type": "filter", "path": "year"}]}', '{"name": "by_meaning"}');
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "embedding", "numDimensions": 3, "similarity": "cosine"}]}', '{"name": "by_meaning"}') AS again;
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "embedding", "numDimensions": 3, "similarity": "euclidean"}]}', '{"name": "by_meaning"}') AS another;
\echo :LAST_ERROR_SQLSTATE
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "it''s.deep", "numDimensions": 2, "similarity": "euclidean", "hnswOptions": {"maxEdges": 8, "numEdgeCandidates": 40}}]}', '{"name": "Deep ones"}');
SELECT create_search_index('items', '{"name": "product", "type": "vectorSearch", "definition": {"fields": [{"type": "vector", "path": "embedding", "numDimensions": 3, "similarity": "dotProduct"}]}}');
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "plain", "numDimensions": 2, "similarity": "euclidean"}]}');
SELECT * FROM list_search_indexes('items');
SELECT list_indexes('items') ->> 'name' AS ordered_ones;
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'items'::regclass ORDER BY indexrelid::regclass::text COLLATE "C";
-- what is missing or wrong is named
SELECT create_search_index('items', '{}');
\echo :LAST_ERROR_SQLSTATE
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "v", "similarity": "cosine"}]}');
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 3, "similarity": "manhattan", "quantization": "binary"}]}');
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 3, "similarity": "jaccard", "quantization": "scalar"}]}');
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 2001, "similarity": "cosine"}]}');
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 3, "similarity": "cosine", "quantization": "bits3"}]}');
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 3, "similarity": "cosine", "elements": "float16"}]}');
SELECT create_search_index('items', '{"name": "text", "type": "search", "definition": {"mappings": {"dynamic": true}}}');
SELECT create_search_index('items', '{"fields": []}', '{"nmae": "x"}');
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 3, "similarity": "cosine"}]}', '{"name": "_id_"}');
SELECT create_search_index('nowhere', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 3, "similarity": "cosine"}]}');
\echo :LAST_ERROR_SQLSTATE
SELECT drop_search_index('items', 'nothing');
\echo :LAST_ERROR_SQLSTATE
SELECT drop_search_index('items', '_id_');
-- an empty collection
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 5);
-- MongoDB's quantizations: the definition is kept as it was given, and answers are the same
SELECT create_collection('quantized');
SELECT insert_many('quantized', '[{"_id": 1, "v": [1, 0.001]}, {"_id": 2, "v": [1, 0.002]}, {"_id": 3, "v": [1, 0.003]}, {"_id": 4, "v": [-1, 5]}]') AS inserted;
SELECT create_search_index('quantized', format('{"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean", "quantization": "%s"}]}', q)::bson, format('{"name": "%s"}', q)::bson) FROM unnest('{none,scalar,binary}'::text[]) q;
SELECT create_search_index('quantized', format('{"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean", "quantization": "%s"}]}', q)::bson, format('{"name": "%s"}', q)::bson) AS again FROM unnest('{none,scalar,binary}'::text[]) q;
SELECT create_search_index('quantized', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean"}]}', '{"name": "binary"}') AS another;
\echo :LAST_ERROR_SQLSTATE
SELECT create_search_index('quantized', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "manhattan", "quantization": "scalar"}]}', '{"name": "sums"}');
SELECT s ->> 'name' AS name, s #>> '{definition,fields,0,quantization}' AS quantization FROM list_search_indexes('quantized') s;
SELECT create_search_index('quantized', s) AS the_same FROM list_search_indexes('quantized') s;
SELECT q, array_agg(document ->> '_id') AS ids FROM unnest('{none,scalar,binary,sums}'::text[]) q, LATERAL vector_search('quantized', q, '{1, 0}', 3) GROUP BY q ORDER BY q;
SELECT pg_get_indexdef('quantized_binary'::regclass);
-- another one takes no new index
SELECT pg_relation_filenode('quantized_binary') AS filenode \gset
SELECT update_search_index('quantized', 'binary', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean", "quantization": "none"}]}');
SELECT s #>> '{definition,fields,0,quantization}' AS quantization, pg_relation_filenode('quantized_binary') = :filenode AS same_index FROM list_search_indexes('quantized') s WHERE s ->> 'name' = 'binary';
-- plain SQL can say it too, of what no definition can not
CREATE INDEX quantized_odd ON quantized USING treedb_hnsw (vector_at(doc, 'v', 2) real_l1_ops) WITH (dimensions = 2, quantization = binary);
SELECT s #>> '{definition,fields,0,quantization}' AS quantization FROM list_search_indexes('quantized') s WHERE s ->> 'name' = 'odd';
CREATE INDEX ON quantized USING treedb_hnsw (vector_at(doc, 'v', 2)) WITH (dimensions = 2, quantization = 'bits3');
SELECT drop_collection('quantized');

-- what can be compared is found, everything is stored
SELECT insert_many('items', '[
    {"_id": 1, "embedding": [1, 0, 0], "plain": [0, 0]}, {"_id": 2, "embedding": [0.6, 0.8, 0], "plain": [3, 4]}, {"_id": 3, "embedding": [-2, 0, 0]},
    {"_id": 4, "embedding": {"$binary": {"base64": "AwAAfwA=", "subType": "09"}}}, {"_id": 5, "embedding": {"$binary": {"base64": "JwAAAIA/AAAAAAAAgD8=", "subType": "09"}}},
    {"_id": 10}, {"_id": 11, "embedding": null}, {"_id": 12, "embedding": [1, 2]}, {"_id": 13, "embedding": [1, 2, 3, 4]}, {"_id": 14, "embedding": "1, 2, 3"}, {"_id": 15, "embedding": [1, "2", 3]},
    {"_id": 16, "embedding": [0, 0, 0]}, {"_id": 17, "embedding": [1, 2, {"$numberDouble": "NaN"}]}, {"_id": 18, "embedding": [1, 2, {"$numberDouble": "-Infinity"}]}, {"_id": 19, "embedding": [1, 2, 1e30]},
    {"_id": 20, "embedding": []}, {"_id": 21, "embedding": [[1, 2, 3]]}, {"_id": 22, "it''s": {"deep": [1, 1]}}, {"_id": 23, "it''s": [{"deep": [1, 1]}]}]');
SELECT treedb.count('items', '{}');
SELECT document -> '_id' AS id, round(distance::numeric, 5) AS distance, round(score::numeric, 5) AS score FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 50);
SELECT document -> '_id' AS id, round(distance::numeric, 5) AS distance, round(score::numeric, 5) AS score FROM vector_search('items', 'product', '{1, 0, 0}', 3);
SELECT document -> '_id' AS id, distance, round(score::numeric, 5) AS score FROM vector_search('items', 'plain', '{0, 0}', 3);
SELECT document -> '_id' AS id FROM vector_search('items', 'Deep ones', '{1, 1}', 3);
SELECT treedb.check('items');
-- by the sum of differences; of each document only the fields that are wanted
SELECT create_search_index('items', '{"fields": [{"type": "vector", "path": "plain", "numDimensions": 2, "similarity": "manhattan"}]}', '{"name": "by_sum"}');
SELECT s -> 'definition' AS definition FROM list_search_indexes('items') s WHERE s ->> 'name' = 'by_sum';
SELECT * FROM vector_search('items', 'by_sum', '{0, 1}', 3, '{}', '{"projection": {"plain": 1}}');
SELECT document FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 2, '{}', '{"projection": {"embedding": 0}}');
SELECT document FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 2, '{}', '{"projection": {"embedding": 0}, "exact": true}');
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 2, '{}', '{"projection": {"a": 1, "b": 0}}');
SELECT treedb.check('items');
SELECT drop_search_index('items', 'by_sum');
-- those within a distance, by the graph and by all documents
SELECT document -> '_id' AS id, distance FROM vector_search('items', 'plain', '{3, 3}', 10, '{}', '{"within": 1}');
SELECT document -> '_id' AS id, distance FROM vector_search('items', 'plain', '{3, 3}', 10, '{}', '{"within": 0.5, "exact": true}');
SELECT document -> '_id' AS id, distance FROM vector_search('items', 'plain', '{0, 0}', 10, '{"_id": 2}', '{"within": 5.0}');
SELECT count(*) FROM vector_search('items', 'plain', '{0, 0}', 1, '{}', '{"within": {"$numberLong": "7"}}');
SELECT * FROM vector_search('items', 'plain', '{0, 0}', 10, '{}', '{"within": "1"}');
SELECT * FROM vector_search('items', 'plain', '{0, 0}', 10, '{}', '{"within": {"$numberDouble": "NaN"}}');
-- by a path, if one index has it
SELECT document -> '_id' AS id FROM vector_search('items', 'it''s.deep', '{1, 1}', 3);
SELECT * FROM vector_search('items', 'embedding', '{1, 0, 0}', 3);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM vector_search('items', 'nowhere', '{1, 0, 0}', 3);
\echo :LAST_ERROR_SQLSTATE
-- what cannot be asked
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0}', 3);
SELECT * FROM vector_search('items', 'by_meaning', '{0, 0, 0}', 3);
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, NaN}', 3);
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, Infinity}', 3, '{}', '{"exact": true}');
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, NULL}', 3);
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 0);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, 0}', -1);
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 5, '{}', '{"numCandidates": 4}');
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 5, '{}', '{"sort": {"a": 1}}');
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 5, '{"$where": "1"}');
SELECT count(*) FROM vector_search('items', 'by_meaning', NULL, 5);
SHOW treedb.hnsw_ef_search;

-- a transaction finds its own changes, and nothing of what it undid
BEGIN;
SELECT update_one('items', '{"_id": 3}', '{"$set": {"embedding": [1, 0.001, 0]}}');
SELECT delete_one('items', '{"_id": 1}');
SAVEPOINT s;
SELECT insert_one('items', '{"_id": 30, "embedding": [1, 0.002, 0]}');
SELECT document -> '_id' AS id FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 3);
ROLLBACK TO s;
SELECT document -> '_id' AS id FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 3);
SELECT * FROM vector_search('items', 'by_meaning', '{1, 0, Infinity}', 3);
ROLLBACK;
SHOW treedb.hnsw_ef_search;
SELECT document -> '_id' AS id FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 3);
-- an update of another field adds nothing to the index
SELECT FROM pg_stat_force_next_flush();
BEGIN;
SELECT update_many('items', '{"_id": {"$lt": 6}}', '{"$set": {"year": 1999}}');
SELECT pg_stat_get_xact_tuples_hot_updated('items'::regclass) AS hot_updated;
COMMIT;
SELECT document -> '_id' AS id, document -> 'year' AS year FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 2);

-- another definition: the index is built anew under its name; one that cannot be leaves the old one, and so does a transaction that is undone
SELECT update_search_index('items', 'by_meaning', '{"fields": [{"type": "vector", "path": "plain", "numDimensions": 2, "similarity": "manhattan", "hnswOptions": {"maxEdges": 4}}]}');
SELECT * FROM vector_search('items', 'by_meaning', '{0, 1}', 2, '{}', '{"projection": {"_id": 1}}');
SELECT s -> 'definition' AS definition FROM list_search_indexes('items') s WHERE s ->> 'name' = 'by_meaning';
SELECT update_search_index('items', 'by_meaning', '{"fields": [{"type": "vector", "path": "plain", "numDimensions": 2001, "similarity": "cosine"}]}');
SELECT update_search_index('items', 'nothing', '{"fields": [{"type": "vector", "path": "plain", "numDimensions": 2, "similarity": "cosine"}]}');
\echo :LAST_ERROR_SQLSTATE
SELECT pg_relation_filenode('items_by_meaning') AS file \gset
SELECT update_search_index('items', 'by_meaning', '{"fields": [{"type": "vector", "path": "plain", "numDimensions": 2, "similarity": "manhattan", "hnswOptions": {"maxEdges": 4}}]}');
SELECT pg_relation_filenode('items_by_meaning') = :file AS is_the_same;
BEGIN;
SELECT update_search_index('items', 'by_meaning', '{"fields": [{"type": "vector", "path": "embedding", "numDimensions": 3, "similarity": "cosine"}]}');
SELECT document -> '_id' AS id FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 3);
ROLLBACK;
SELECT * FROM vector_search('items', 'by_meaning', '{0, 1}', 2, '{}', '{"projection": {"_id": 1}}');
SELECT update_search_index('items', 'by_meaning', '{"fields": [{"type": "vector", "path": "embedding", "numDimensions": 3, "similarity": "cosine"}]}');
SELECT document -> '_id' AS id FROM vector_search('items', 'by_meaning', '{1, 0, 0}', 3);
SELECT relname FROM pg_class WHERE relname LIKE 'treedb_replaced%';
SELECT treedb.check('items');

-- vectors of bits: arrays of zeros and ones, and binary vectors of bits or bytes
SELECT create_collection('hashes');
SELECT create_search_index('hashes', '{"fields": [{"type": "vector", "path": "h.bits", "numDimensions": 10, "similarity": "hamming"}]}', '{"name": "by_bits"}');
SELECT create_search_index('hashes', '{"fields": [{"type": "vector", "path": "h.bits", "numDimensions": 10, "similarity": "jaccard"}]}', '{"name": "by_part"}');
SELECT list_search_indexes('hashes') -> 'definition' AS definition;
SELECT pg_get_indexdef('hashes_by_bits'::regclass);
SELECT insert_many('hashes', '[{"_id": 1, "h": {"bits": [1, 1, 1, 1, 0, 0, 0, 0, 1, 0]}}, {"_id": 2, "h": {"bits": {"$binary": {"base64": "EAbwgA==", "subType": "09"}}}},
    {"_id": 3, "h": {"bits": {"$binary": {"base64": "AwABAAAAAAAAAAAB", "subType": "09"}}}}, {"_id": 4, "h": {"bits": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}},
    {"_id": 5, "h": {"bits": [1, 2, 0, 0, 0, 0, 0, 0, 0, 0]}}, {"_id": 6, "h": {"bits": [1, 0]}}, {"_id": 7, "h": {"bits": {"$binary": {"base64": "EADwgA==", "subType": "09"}}}},
    {"_id": 8, "h": {"bits": [[1, 1, 1, 1, 0, 0, 0, 0, 1, 0]]}}, {"_id": 9, "h": 1}]') AS inserted;
SELECT doc -> '_id' AS id, bits_at(doc, 'h.bits', 10) FROM hashes ORDER BY 1;
SELECT document -> '_id' AS id, distance, score FROM vector_search('hashes', 'by_bits', '{1, 1, 1, 1, 0, 0, 0, 0, 1, 0}', 10);
SELECT document -> '_id' AS id, distance, score FROM vector_search('hashes', 'by_bits', '{1, 1, 1, 1, 0, 0, 0, 0, 1, 0}', 10, '{}', '{"exact": true}');
SELECT document -> '_id' AS id, distance, score FROM vector_search('hashes', 'by_part', '{1, 1, 1, 1, 0, 0, 0, 0, 1, 0}', 10, '{"_id": {"$ne": 2}}', '{"within": 0.9}');
SELECT a FROM aggregate('hashes', '[{"$vectorSearch": {"index": "by_bits", "path": "h.bits", "queryVector": {"$binary": {"base64": "EAbwgA==", "subType": "09"}}, "numCandidates": 10, "limit": 2}}, {"$project": {"score": {"$meta": "vectorSearchScore"}}}]') a;
SELECT * FROM vector_search('hashes', 'by_bits', '{1, 1, 1, 1, 0, 0, 0, 0, 2, 0}', 10);
SELECT bits_at('{}', 'h', 0);
SELECT bits_at('{}', 'h', 40001);
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT doc -> '_id' FROM hashes ORDER BY bits_at(doc, 'h.bits', 10) <~> B'1111000010' LIMIT 2$$);
SELECT doc -> '_id' AS id FROM hashes ORDER BY bits_at(doc, 'h.bits', 10) <~> B'1111000010' LIMIT 2;
RESET enable_seqscan;
SELECT update_search_index('hashes', 'by_part', '{"fields": [{"type": "vector", "path": "h.bits", "numDimensions": 10, "similarity": "hamming"}]}');
SELECT document -> '_id' AS id, distance FROM vector_search('hashes', 'by_part', '{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}', 2);
SELECT treedb.check('hashes');

-- names go with the collection; an index of the whole specification is the same again
SELECT rename_collection('items', 'things');
SELECT list_search_indexes('things') ->> 'name' AS name;
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'things'::regclass ORDER BY indexrelid::regclass::text COLLATE "C";
SELECT create_collection('others');
SELECT create_search_index('others', s) FROM list_search_indexes('things') s ORDER BY s ->> 'name';
SELECT count(*) FROM (SELECT * FROM list_search_indexes('things') EXCEPT SELECT * FROM list_search_indexes('others')) x;
SELECT drop_search_index('things', 'by_meaning'), drop_search_index('things', 'things_product');
SELECT list_search_indexes('things') ->> 'name' AS name;
SELECT drop_collection('others'), drop_collection('things');

-- recall, by a graph of more than a page
SELECT setseed(0.25);
CREATE TABLE queries AS SELECT i AS id, random_vector(i, 16) AS e FROM generate_series(1, 10) i;
SELECT create_collection('docs');
SELECT create_index('docs', '{"indexed": 1}');
INSERT INTO docs (doc) SELECT jsonb_build_object('_id', i, 'part', i % 100, 'indexed', i % 100, 'meta', jsonb_build_object('e', to_jsonb(random_vector(i % 20, 16)))) FROM generate_series(1, 2000) i;
INSERT INTO docs (doc) SELECT jsonb_build_object('_id', i, 'part', i % 100, 'meta', '[]'::jsonb) FROM generate_series(2001, 2100) i;
SELECT create_search_index('docs', format('{"fields": [{"type": "vector", "path": "meta.e", "numDimensions": 16, "similarity": "%s"}]}', s)::bson, format('{"name": "%s"}', s)::bson)
FROM unnest('{cosine,euclidean,dotProduct}'::text[]) s;
ANALYZE docs;
-- recall_of(INDEX, FILTER, K): the part of the K nearest documents that a search finds; an error if it returns fewer than there are
CREATE FUNCTION recall_of(index text, filter bson DEFAULT '{}', k int DEFAULT 10) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE target real[]; exact float8[]; found float8[]; hits float8 := 0; wanted float8 := 0;
BEGIN
    FOR target IN SELECT e FROM queries LOOP
        SELECT array_agg(distance) INTO exact FROM vector_search('docs', index, target, k, filter, '{"exact": true}');
        SELECT array_agg(distance) INTO found FROM vector_search('docs', index, target, k, filter);
        IF cardinality(exact) IS DISTINCT FROM cardinality(found) THEN
            RAISE EXCEPTION 'the index finds % documents of %', cardinality(found), cardinality(exact);
        END IF;
        IF found <> (SELECT array_agg(d ORDER BY d) FROM unnest(found) d) THEN RAISE EXCEPTION 'not in order'; END IF;
        hits := hits + (SELECT count(*) FROM unnest(found) d WHERE d <= exact[cardinality(exact)]);
        wanted := wanted + cardinality(exact);
    END LOOP;
    RETURN hits / wanted;
END $$;
-- recalls(): of all documents, and of those that filters keep, which have an index or none
CREATE FUNCTION recalls() RETURNS TABLE (index text, recall_is_high bool, half bool, a_tenth bool, a_hundredth bool, a_hundredth_by_index bool, more_than_candidates bool) LANGUAGE sql AS $$
    SELECT s, recall_of(s) > 0.95, recall_of(s, '{"part": {"$lt": 50}}') > 0.95, recall_of(s, '{"part": {"$lt": 10}}') > 0.95, recall_of(s, '{"part": 7}') > 0.95,
        recall_of(s, '{"indexed": 7}') > 0.95, recall_of(s, '{}', 300) > 0.95
    FROM unnest('{cosine,euclidean,dotProduct}'::text[]) s
$$;
SELECT * FROM recalls();
-- neither budget nor candidates of a scan limit a search
SET treedb.hnsw_max_scan_tuples = 1;
SET treedb.hnsw_ef_search = 1;
SELECT * FROM recalls();
RESET treedb.hnsw_max_scan_tuples;
RESET treedb.hnsw_ef_search;
-- beyond the number of documents with a vector; a filter that nothing matches, and one that keeps a few
SELECT count(*), count(DISTINCT document -> '_id') FROM vector_search('docs', 'euclidean', (SELECT e FROM queries WHERE id = 1), 5000);
SELECT count(*) FROM vector_search('docs', 'euclidean', (SELECT e FROM queries WHERE id = 1), 10, '{"part": 100}');
SELECT document -> '_id' AS id FROM vector_search('docs', 'euclidean', (SELECT e FROM queries WHERE id = 1), 10, '{"part": 3, "_id": {"$lte": 203}}') ORDER BY 1;
-- the index is what is searched, unless that is not wanted
SELECT FROM pg_stat_force_next_flush();
BEGIN;
SELECT count(*) FROM vector_search('docs', 'cosine', (SELECT e FROM queries WHERE id = 1), 10);
SELECT pg_stat_get_xact_numscans('docs_cosine'::regclass) AS scans_of_index, pg_stat_get_xact_numscans('docs'::regclass) AS scans_of_table;
SELECT count(*) FROM vector_search('docs', 'cosine', (SELECT e FROM queries WHERE id = 1), 10, '{}', '{"exact": true}');
SELECT pg_stat_get_xact_numscans('docs_cosine'::regclass) AS scans_of_index, pg_stat_get_xact_numscans('docs'::regclass) AS scans_of_table;
COMMIT;
-- updated, deleted, vacuumed, inserted
SELECT treedb.update_many('docs', '{"_id": {"$mod": [4, 0], "$lte": 2000}}', '[{"$set": {"meta.e": {"$reverseArray": "$meta.e"}}}]') -> 'modifiedCount' AS updated;
SELECT * FROM recalls();
SELECT delete_many('docs', '{"_id": {"$mod": [3, 0]}}');
SELECT * FROM recalls();
VACUUM (INDEX_CLEANUP ON) docs;
SELECT * FROM recalls();
INSERT INTO docs (doc) SELECT jsonb_build_object('_id', i, 'part', i % 100, 'indexed', i % 100, 'meta', jsonb_build_object('e', to_jsonb(random_vector(i % 20, 16)))) FROM generate_series(3001, 3600) i;
SELECT * FROM recalls();
SELECT treedb.check('docs');

-- the same in SQL, planned: an index over an expression
SELECT vector_at('{"a": {"v": [1, 2.5, -3]}}', 'a.v', 3), vector_at('{"v": [1, 2]}', 'v', 3), vector_at('{"v": 1}', 'v', 1), vector_at('{}', '', 1), vector_at('{"v": [1e18]}', 'v', 1), vector_at('{"v": [1e17]}', 'v', 1);
SELECT vector_at('{"v": [1]}', 'v', 0);
\echo :LAST_ERROR_SQLSTATE
SELECT vector_at('{"v": 1}', 'v', 4001);
SELECT vector_at('{"v": 1}', 'v', 2147483647);
\echo :LAST_ERROR_SQLSTATE
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT doc FROM docs ORDER BY vector_at(doc, 'meta.e', 16) <=> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 5$$);
SELECT pg_temp.plan($$SELECT doc FROM docs WHERE doc @@ '{"part": {"$lt": 50}}' ORDER BY vector_at(doc, 'meta.e', 16) <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 5$$);
RESET enable_seqscan;
-- of other dimensions than the index's it is another expression
SELECT pg_temp.plan($$SELECT doc FROM docs ORDER BY vector_at(doc, 'meta.e', 4) <=> '{1,1,1,1}' LIMIT 5$$);
CREATE FUNCTION same_as_sql(metric text, symbol text, filter bson) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE target real[]; by_function float8[]; by_index float8[]; by_sort float8[];
    query text := format('SELECT vector_at(doc, ''meta.e'', 16) %1$s $1 AS d FROM docs WHERE doc @@ %2$L ORDER BY vector_at(doc, ''meta.e'', 16) %1$s $1 LIMIT 10', symbol, filter);
BEGIN
    FOR target IN SELECT e FROM queries LOOP
        SELECT array_agg(distance) INTO by_function FROM vector_search('docs', metric, target, 10, filter, '{"exact": true}');
        by_index := answer(query, target, true);
        by_sort := answer(query, target, false);
        IF by_function <> by_sort OR cardinality(by_index) <> cardinality(by_sort) THEN
            RAISE EXCEPTION '% and % and %', by_function, by_sort, by_index;
        END IF;
    END LOOP;
    RETURN true;
END $$;
SELECT m, same_as_sql(m, s, '{}'), same_as_sql(m, s, '{"part": {"$lt": 10}}'), same_as_sql(m, s, '{"indexed": 7}')
FROM (VALUES ('cosine', '<=>'), ('euclidean', '<->'), ('dotProduct', '<#>')) v(m, s);
-- by the sum of differences, and of some documents, in SQL alone
CREATE INDEX docs_l1 ON docs USING treedb_hnsw (vector_at(doc, 'meta.e', 16) real_l1_ops) WITH (dimensions = 16);
CREATE INDEX docs_some ON docs USING treedb_hnsw (vector_at(doc, 'meta.e', 16)) WITH (dimensions = 16) WHERE doc @@ '{"part": 7}';
SELECT pg_temp.plan($$SELECT doc FROM docs ORDER BY vector_at(doc, 'meta.e', 16) <+> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 5$$);
SELECT same_as_sql('euclidean', '<->', '{"part": 7}');
SELECT list_search_indexes('docs') ->> 'name' AS name;
-- nested loops: documents near to others
SELECT q.id, count(*) FROM queries q, LATERAL vector_search('docs', 'cosine', q.e, 3) n WHERE q.id < 4 GROUP BY q.id ORDER BY q.id;
SELECT (vector_search('docs', 'cosine', e, 1)).score > 0.5 AS near FROM queries WHERE id = 1;
-- the stage of a pipeline finds the same, with the same scores
SELECT format('[{"$vectorSearch": {"index": "cosine", "path": "meta.e", "queryVector": %s, "numCandidates": 100, "limit": 10, "filter": {"part": {"$lt": 50}}}}, {"$project": {"score": {"$meta": "vectorSearchScore"}}}]',
    to_jsonb(e)) AS stages FROM queries WHERE id = 1 \gset
SELECT count(*) AS same FROM aggregate('docs', :'stages') a JOIN vector_search('docs', 'cosine', (SELECT e FROM queries WHERE id = 1), 10, '{"part": {"$lt": 50}}') s
    ON a -> '_id' = s.document -> '_id' AND (a ->> 'score')::float8 = s.score;
SELECT count(*) FROM (SELECT aggregate('docs', :'stages')) x;
SELECT * FROM aggregate('nowhere', :'stages');
-- explain tells what it did: by which path, why it ended, how much was compared
CREATE FUNCTION work_of(filter text, options text DEFAULT '"numCandidates": 100', verbosity text DEFAULT 'executionStats') RETURNS TABLE (path text, ended text, returned int, compared bool, examined bool) LANGUAGE sql AS $$
    SELECT did ->> 'path', did ->> 'end', (stats ->> 'nReturned')::int, (did ->> 'vectorsCompared')::int > 0, (did ->> 'documentsExamined')::int > 0
    FROM treedb.explain(format('{"aggregate": "docs", "pipeline": [{"$vectorSearch": {"index": "cosine", "path": "meta.e", "queryVector": %s, "limit": 10, "filter": %s, %s}}, {"$limit": 20}], "cursor": {}}',
        (SELECT to_jsonb(e) FROM queries WHERE id = 1), filter, options)::bson, verbosity) e, LATERAL (SELECT e #> '{stages,0,executionStats}') s (stats), LATERAL (SELECT stats -> 'executionStages') w (did)
$$;
SELECT * FROM work_of('{}');
SELECT * FROM work_of('{"part": {"$lt": 50}}');
SELECT * FROM work_of('{"indexed": 7}');
SELECT * FROM work_of('{"part": 1000}');
SELECT * FROM work_of('{}', '"exact": true');
SELECT * FROM work_of('{}', '"numCandidates": 100', 'queryPlanner');
SELECT treedb.explain('{"aggregate": "nowhere", "pipeline": [{"$vectorSearch": {"index": "cosine", "path": "meta.e", "queryVector": [1], "limit": 1, "exact": true}}]}') -> 'stages' AS stages;
SELECT * FROM aggregate('docs', '[{"$vectorSearch": {"index": "cosine", "path": "other", "queryVector": [1], "limit": 1, "exact": true}}]');
-- two definitions of one table by SQL and by the function are the same kind of thing
SELECT drop_search_index('docs', 'euclidean');
CREATE INDEX docs_euclidean ON docs USING treedb_hnsw (vector_at(doc, 'meta.e', 16)) WITH (dimensions = 16, ef_construction = 100);
SELECT recall_of('euclidean') > 0.95 AS recall_is_high;
-- dimensions that contradict each other make no search index
CREATE INDEX docs_wrong ON docs USING treedb_hnsw (vector_at(doc, 'none', 3)) WITH (dimensions = 4);
SELECT * FROM vector_search('docs', 'wrong', '{1, 2, 3}', 1);
-- an index that is too new to be scanned, as rows were updated within their pages before, is there, and all documents are compared
SELECT create_collection('fresh');
SELECT insert_many('fresh', '[{"_id": 1, "v": [1, 0]}, {"_id": 2, "v": [0, 1]}]') AS inserted;
SELECT FROM pg_stat_force_next_flush();
BEGIN;
SELECT treedb.update_many('fresh', '{}', '{"$set": {"a": 1}}') -> 'modifiedCount' AS updated;
SELECT create_search_index('fresh', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean"}]}', '{"name": "near"}');
SELECT create_index('fresh', '{"a": 1}');
SELECT indexrelid::regclass, indisvalid, indcheckxmin FROM pg_index WHERE indrelid = 'fresh'::regclass AND NOT indisunique ORDER BY indexrelid;
SELECT create_search_index('fresh', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean"}]}', '{"name": "near"}') AS again;
SELECT create_index('fresh', '{"a": 1}') AS again;
SELECT list_search_indexes('fresh') ->> 'name' AS name;
SELECT list_indexes('fresh') ->> 'name' AS name;
SELECT document -> '_id' AS id, distance FROM vector_search('fresh', 'near', '{1, 0}', 2);
SELECT a -> '_id' AS id FROM aggregate('fresh', '[{"$vectorSearch": {"index": "near", "path": "v", "queryVector": [0, 1], "numCandidates": 10, "limit": 1}}]') a;
SELECT pg_stat_get_xact_numscans('fresh_near'::regclass) AS scans_of_index;
COMMIT;
BEGIN;
SELECT document -> '_id' AS id, distance FROM vector_search('fresh', 'near', '{1, 0}', 2);
SELECT pg_stat_get_xact_numscans('fresh_near'::regclass) AS scans_of_index;
COMMIT;
-- the same documents are found whether the graph is searched or documents are compared
SELECT insert_many('fresh', '[{"_id": 3, "a": 2, "v": [1e18, 0]}, {"_id": 4, "a": 2, "v": [1e17, 0]}, {"_id": 5, "a": 2, "v": [-1.1e17, 0]}]') AS inserted;
SELECT document -> '_id' AS id FROM vector_search('fresh', 'near', '{1, 0}', 9);
SELECT document -> '_id' AS id FROM vector_search('fresh', 'near', '{1, 0}', 9, '{}', '{"exact": true}');
SELECT document -> '_id' AS id FROM vector_search('fresh', 'near', '{1, 0}', 9, '{"a": 2}');
SELECT * FROM vector_search('fresh', 'near', '{1e18, 0}', 9);
SELECT * FROM vector_search('fresh', 'near', '{1e18, 0}', 9, '{}', '{"exact": true}');
\echo :LAST_ERROR_SQLSTATE
-- ANALYZE collects no statistics of vectors
ANALYZE fresh;
SELECT tablename FROM pg_stats WHERE schemaname = 'vector_search' AND tablename = 'fresh_near';
-- the name of an index comes before the name of another one's relation
SELECT create_search_index('fresh', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "cosine"}]}', '{"name": "fresh_near"}');
SELECT document -> '_id' AS id, distance FROM vector_search('fresh', 'fresh_near', '{0, 2}', 1);
SELECT drop_search_index('fresh', 'fresh_near');
SELECT list_search_indexes('fresh') ->> 'name' AS name;
SELECT create_index('fresh', '{"b": 1}', '{"name": "fresh_a_1"}');
SELECT drop_index('fresh', 'fresh_a_1');
SELECT list_indexes('fresh') ->> 'name' AS name;
-- a pipeline that searches for each of many documents keeps nothing of a search; kB, where the system tells them
CREATE FUNCTION peak_memory() RETURNS int8 LANGUAGE sql AS $$
    SELECT coalesce((regexp_match(pg_read_file('/proc/self/status', 0, 10000, true), 'VmHWM:\s+(\d+)'))[1]::int8, 0)
$$;
SELECT '{"$lookup": {"from": "docs", "let": {"id": "$_id"}, "as": "near", "pipeline": [
    {"$vectorSearch": {"index": "cosine", "path": "meta.e", "queryVector": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], "numCandidates": 300, "limit": 1}},
    {"$match": {"$expr": {"$ne": ["$_id", "$$id"]}}}]}}' AS stage \gset
SELECT format('[{"$limit": 10}, %s]', :'stage') AS few, format('[{"$limit": 1000}, %s]', :'stage') AS many \gset
SELECT count(a #> '{near,0}') > 8 AS found FROM aggregate('docs', :'few') a;
SELECT peak_memory() AS before \gset
SELECT count(a #> '{near,0}') > 998 AS found FROM aggregate('docs', :'many') a;
SELECT peak_memory() - :before < 10000 AS keeps_little;
SET client_min_messages = warning;
DROP SCHEMA vector_search CASCADE;
