-- Vectors at paths of documents by the sum of differences, and bits by Hamming and Jaccard distance: treedb.vector_search finds the nearest
-- documents, and so does a query that is ordered by the distance, which takes the index: through building, inserting, updating, deleting and
-- vacuuming, with filters that keep half of the documents to one in a thousand. The oracle is arithmetic over the same rows in a plain table.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_paths;
SET search_path = hnsw_paths, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set file :dir '/sql/include/bits.psql'
\i :file
\set ECHO all
SELECT setseed(0.25);
CREATE TABLE t (id int PRIMARY KEY, part int, e real[], b bit(40));
CREATE TABLE queries AS SELECT i AS id, random_vector(i, 16) AS e, random_bits(i, 40)::bit(40) AS b FROM generate_series(1, 5) i;
CREATE TABLE similarities (name text PRIMARY KEY, path text, dimensions int, call text, operator text, target text);
INSERT INTO similarities VALUES ('manhattan', 'deep.e', 16, 'vector_at(doc, ''deep.e'', 16)', '<+>', '$1'), ('hamming', 'bits', 40, 'bits_at(doc, ''bits'', 40)', '<~>', '$2'),
    ('jaccard', 'bits', 40, 'bits_at(doc, ''bits'', 40)', '<%>', '$2');
CREATE TABLE filters (place int PRIMARY KEY, filter text, condition text);
INSERT INTO filters VALUES (1, '{}', 'true'), (2, '{"part": {"$lt": 50}}', 'part < 50'), (3, '{"part": {"$lt": 10}}', 'part < 10'), (4, '{"part": 7}', 'part = 7'),
    (5, '{"_id": {"$mod": [1000, 7]}}', 'id % 1000 = 7');
SELECT create_collection('docs');
CREATE FUNCTION document(t) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('_id', $1.id, 'part', $1.part, 'deep', jsonb_build_object('e', to_jsonb($1.e)), 'bits', to_jsonb(string_to_array($1.b::text, NULL)::int[]))
$$;
-- fill(FROM, TO): rows and the same documents
CREATE FUNCTION fill_both(first int, last int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO t SELECT i, i % 100, random_vector(i % 30, 16), random_bits(i % 30, 40)::bit(40) FROM generate_series(first, last) i;
    INSERT INTO docs (doc) SELECT document(t) FROM t WHERE id BETWEEN first AND last;
$$;
-- distances(SIMILARITY, QUERY): of every row
CREATE FUNCTION distances(similarity text, q queries) RETURNS TABLE (id int, part int, d float8) LANGUAGE sql AS $$
    SELECT t.id, t.part, CASE similarity
        WHEN 'manhattan' THEN (SELECT sum(abs(x::float8 - y)) FROM unnest(t.e, q.e) u(x, y))
        WHEN 'hamming' THEN bit_count(t.b # q.b)
        ELSE 1 - bit_count(t.b & q.b)::float8 / bit_count(t.b | q.b) END
    FROM t
$$;
-- all_good(): for each similarity the part of the ten nearest that are found over all filters, by vector_search and in SQL, the filters for which fewer than
-- there are were found, and those for which the plan of the query in SQL has no index
CREATE FUNCTION all_good() RETURNS TABLE (similarity text, recall_is_high bool, recall_in_sql_is_high bool, too_few text, without_index text, problems int8) LANGUAGE plpgsql AS $$
DECLARE
    s similarities;
    f filters;
    q queries;
    wanted float8[];
    ids int[];
    ids_in_sql int[];
    command text;
    plan text;
    hits int8;
    hits_in_sql int8;
    all_wanted int8;
BEGIN
    PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
    FOR s IN SELECT * FROM similarities ORDER BY name LOOP
        hits := 0; hits_in_sql := 0; all_wanted := 0;
        similarity := s.name; too_few := NULL; without_index := NULL;
        FOR f IN SELECT * FROM filters ORDER BY place LOOP
            command := format('SELECT (doc ->> ''_id'')::int AS id FROM docs WHERE doc @@ %L ORDER BY %s %s %s LIMIT 10', f.filter, s.call, s.operator, s.target);
            FOR q IN SELECT * FROM queries ORDER BY id LOOP
                EXECUTE format('CREATE TEMP TABLE near ON COMMIT DROP AS SELECT id, d, row_number() OVER (ORDER BY d) AS place FROM distances($1, $2) WHERE %s', f.condition) USING s.name, q;
                SELECT array_agg((document ->> '_id')::int) INTO ids FROM vector_search('docs', s.name, CASE s.name WHEN 'manhattan' THEN q.e ELSE string_to_array(q.b::text, NULL)::real[] END, 10, f.filter::bson);
                EXECUTE format('SELECT array_agg(id) FROM (%s) x', command) INTO ids_in_sql USING q.e, q.b;
                SELECT array_agg(d ORDER BY d) INTO wanted FROM near WHERE place <= 10;
                IF cardinality(wanted) <> ALL (ARRAY[coalesce(cardinality(ids), 0), coalesce(cardinality(ids_in_sql), 0)]) THEN
                    too_few := concat_ws(' ', too_few, f.filter);
                END IF;
                -- the oracle's sums are exact, those of elements of 4 bytes are not
                hits := hits + (SELECT count(*) FROM near WHERE id = ANY (ids) AND d <= wanted[cardinality(wanted)] + 1e-4);
                hits_in_sql := hits_in_sql + (SELECT count(*) FROM near WHERE id = ANY (ids_in_sql) AND d <= wanted[cardinality(wanted)] + 1e-4);
                all_wanted := all_wanted + cardinality(wanted);
                DROP TABLE near;
            END LOOP;
            EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) ' || replace(replace(command, '$1', quote_literal(q.e) || '::real[]'), '$2', quote_literal(q.b) || '::bit(40)') INTO plan;
            IF plan NOT LIKE '%"Index Name": "docs\_' || s.name || '"%' THEN without_index := concat_ws(' ', without_index, f.filter); END IF;
        END LOOP;
        recall_is_high := hits > 0.97 * all_wanted;
        recall_in_sql_is_high := hits_in_sql > 0.97 * all_wanted;
        problems := (SELECT count(*) FROM treedb.check('docs'));
        RETURN NEXT;
    END LOOP;
END $$;
SET client_min_messages = warning;
-- built
SELECT fill_both(1, 800);
SELECT create_search_index('docs', format('{"fields": [{"type": "vector", "path": "%s", "numDimensions": %s, "similarity": "%s"}]}', path, dimensions, name)::bson, format('{"name": "%s"}', name)::bson) FROM similarities ORDER BY name;
SELECT * FROM all_good();
-- inserted
SELECT fill_both(801, 1300);
SELECT * FROM all_good();
-- updated: the old versions are still in the index
UPDATE t SET e = random_vector(id % 30, 16), b = random_bits(id % 30, 40)::bit(40) WHERE id % 4 = 0;
UPDATE docs SET doc = document(t) FROM t WHERE (doc ->> '_id')::int = t.id AND t.id % 4 = 0;
SELECT * FROM all_good();
-- deleted
DELETE FROM t WHERE id % 3 = 0;
SELECT delete_many('docs', '{"_id": {"$mod": [3, 0]}}') AS deleted;
SELECT * FROM all_good();
VACUUM (INDEX_CLEANUP ON) docs;
SELECT * FROM all_good();
-- space is used again
SELECT fill_both(1301, 1700);
SELECT * FROM all_good();
DROP SCHEMA hnsw_paths CASCADE;
