-- Of 12,000 rows one in a thousand fulfils a condition, two more than are wanted: under every metric a scan of a treedb_hnsw index finds the
-- ten nearest of them, and so does treedb.vector_search among documents. Brute force is the oracle.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_thousandth;
SET search_path = hnsw_thousandth, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set ECHO all
SELECT setseed(0.25);
CREATE TABLE t AS SELECT i AS id, i % 1000 AS part, random_vector(i % 23, 16) AS e, (i::bigint * 2654435761 % 1099511627776)::bit(40) AS b FROM generate_series(1, 12000) i;
ANALYZE t;
CREATE TABLE metrics (similarity text PRIMARY KEY, operator text, indexed text, query text);
INSERT INTO metrics VALUES ('euclidean', '<->', 'e real_l2_ops', 'e'), ('dotProduct', '<#>', 'e real_ip_ops', 'e'), ('cosine', '<=>', 'e real_cosine_ops', 'e'),
    ('manhattan', '<+>', 'e real_l1_ops', 'e'), ('hamming', '<~>', 'b bit_hamming_ops', 'b'), ('jaccard', '<%>', 'b bit_jaccard_ops', 'b');
SELECT create_collection('docs');
INSERT INTO docs (doc) SELECT jsonb_build_object('_id', id, 'part', part, 'e', to_jsonb(e), 'b', to_jsonb(string_to_array(b::text, NULL)::int[])) FROM t;

-- nearest(METRIC, PART, ID, BY_INDEX): the distances of the ten nearest rows of a part to another row, and whether the plan has the metric's index
CREATE FUNCTION nearest(m metrics, part int, id int, by_index bool, OUT distances numeric[], OUT has_index bool) LANGUAGE plpgsql AS $$
DECLARE
    target text := (SELECT CASE m.query WHEN 'e' THEN format('%L::real[]', e) ELSE format('%L::varbit', b) END FROM t WHERE t.id = nearest.id);
    query text := format('SELECT %1$s %2$s %3$s AS d FROM t WHERE part = %4$s ORDER BY %1$s %2$s %3$s LIMIT 10', m.query, m.operator, target, part);
    line text;
BEGIN
    PERFORM set_config('enable_seqscan', CASE WHEN by_index THEN 'off' ELSE 'on' END, true),
        set_config('enable_sort', CASE WHEN by_index THEN 'off' ELSE 'on' END, true), set_config('enable_indexscan', CASE WHEN by_index THEN 'on' ELSE 'off' END, true);
    EXECUTE format('SELECT array_agg(round(d::numeric, 4) ORDER BY d) FROM (%s) x', query) INTO distances;
    has_index := false;
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP has_index := has_index OR line ILIKE '%Index Scan using t_' || m.similarity || ' on %'; END LOOP;
END $$;
-- of_documents(METRIC, PART, ID, OPTIONS): the same of the collection
CREATE FUNCTION of_documents(m metrics, part int, id int, options text) RETURNS numeric[] LANGUAGE sql AS $$
    SELECT array_agg(round(distance::numeric, 4) ORDER BY distance) FROM vector_search('docs', m.similarity,
        (SELECT CASE m.query WHEN 'e' THEN e ELSE string_to_array(b::text, NULL)::real[] END FROM t WHERE t.id = of_documents.id), 10, format('{"part": %s}', part)::bson, options::bson)
$$;
-- the part of those that are found: wanted is what there is
CREATE FUNCTION share(found numeric[], wanted numeric[]) RETURNS float8 LANGUAGE sql AS $$
    SELECT count(*) FILTER (WHERE d <= wanted[cardinality(wanted)]) / 10.0 FROM unnest(found) d
$$;

-- one index at a time
CREATE TABLE outcomes (similarity text, rows_always bool, recall float8, by_index bool, documents_always bool, recall_of_documents float8);
DO $$
DECLARE m metrics;
BEGIN
    FOR m IN SELECT * FROM metrics LOOP
        EXECUTE format('CREATE INDEX t_%s ON t USING treedb_hnsw (%s) %s', m.similarity, m.indexed, CASE m.query WHEN 'e' THEN 'WITH (dimensions = 16)' END);
        PERFORM create_search_index('docs', format('{"fields": [{"type": "vector", "path": "%s", "numDimensions": %s, "similarity": "%s"}]}',
            m.query, CASE m.query WHEN 'e' THEN 16 ELSE 40 END, m.similarity)::bson, format('{"name": "%s"}', m.similarity)::bson);
        INSERT INTO outcomes
            SELECT m.similarity, bool_and(cardinality(found.distances) = 10), avg(share(found.distances, wanted.distances)), bool_and(found.has_index AND NOT wanted.has_index),
                bool_and(cardinality(documents) = 10), avg(share(documents, wanted_documents))
            FROM generate_series(1, 4) i, LATERAL nearest(m, i * 97, i * 1001, true) found, LATERAL nearest(m, i * 97, i * 1001, false) wanted,
                LATERAL of_documents(m, i * 97, i * 1001, '{}') documents, LATERAL of_documents(m, i * 97, i * 1001, '{"exact": true}') wanted_documents;
        EXECUTE format('DROP INDEX t_%s', m.similarity);
        PERFORM drop_search_index('docs', m.similarity);
    END LOOP;
END $$;
SELECT similarity, rows_always, recall > 0.95 AS recall_is_high, by_index, documents_always, recall_of_documents > 0.95 AS recall_of_documents_is_high FROM outcomes ORDER BY similarity;
SET client_min_messages = warning;
DROP SCHEMA hnsw_thousandth CASCADE;
