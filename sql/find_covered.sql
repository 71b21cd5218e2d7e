-- Documents made of index entries: only the index on _id has values with their types, so only it covers a projection. No other
-- plan says that it does; rows of pages that are visible to all are not read, and documents are exactly those of the rows.
SET search_path = public, treedb;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SELECT create_collection('ids');
ALTER TABLE ids SET (autovacuum_enabled = off);
SELECT create_index('ids', '{"n": 1}');
INSERT INTO ids SELECT jsonb_build_object('_id', i, 'n', i % 50) FROM generate_series(1, 2000) i;
SELECT insert_many('ids', '[{"_id": -1.0, "n": 1}, {"_id": -1.5}, {"_id": {"$numberLong": "-2"}}, {"_id": {"$numberDecimal": "-3.50"}}, {"_id": "x"}, {"_id": {"$symbol": "y"}}, {"_id": null}, {"_id": true},
    {"_id": {"a": 1, "b": 2.0}}, {"_id": {"$oid": "0123456789abcdef01234567"}}, {"_id": {"$date": "2020-01-01T00:00:00.123Z"}}, {"_id": {"$numberDouble": "-0.0"}}, {"_id": {"$numberDouble": "NaN"}},
    {"_id": {"$binary": {"base64": "AQI=", "subType": "80"}}}, {"_id": {"$timestamp": {"t": 5, "i": 6}}}, {"_id": {"$numberLong": "9007199254740993"}}, {"_id": 1e300}]');
VACUUM ANALYZE ids;
SELECT pg_temp.run($$SELECT * FROM find('ids', '{"_id": {"$gt": 100, "$lte": 110}}', '{"projection": {"_id": 1}}')$$);
SELECT pg_temp.run($$SELECT * FROM find('ids', '{"_id": 7}', '{"projection": {"_id": 1}}')$$);
-- Values whose type an entry does not tell are read from their rows.
SELECT pg_temp.run($$SELECT * FROM find('ids', '{}', '{"projection": {"_id": 1}, "sort": {"_id": 1}, "hint": "_id_"}')$$);
-- Key sets have no types: rows are read, and the plan says so.
SELECT pg_temp.run($$SELECT * FROM find('ids', '{"n": 7}', '{"projection": {"n": 1, "_id": 0}}') LIMIT 2$$);
SELECT jsonb_path_query(explain('{"find": "ids", "filter": {"n": 7}, "projection": {"n": 1, "_id": 0}}', 'queryPlanner')::jsonb, '$.**.stage');
SELECT jsonb_path_query(explain('{"find": "ids", "filter": {"_id": {"$lt": 7}}, "projection": {"_id": 1}}', 'queryPlanner')::jsonb, '$.**.stage');
-- The same documents, byte by byte, in the same order as those of the rows: streamed, collected, backward, beyond the first batches.
CREATE FUNCTION differ(sort text) RETURNS TABLE (covered bigint, different bigint) LANGUAGE sql AS $$
    SELECT count(c.doc), count(*) FILTER (WHERE c.doc::bytea IS DISTINCT FROM r.doc::bytea)
    FROM (SELECT row_number() OVER () AS n, doc FROM find('ids', '{}', format('{"projection": {"_id": 1}, "sort": %s}', sort)::bson) doc) c
    FULL JOIN (SELECT row_number() OVER () AS n, doc FROM find('ids', '{}', format('{"projection": {"_id": 1, "none": 1}, "sort": %s}', sort)::bson) doc) r USING (n)
$$;
SELECT * FROM differ('{"_id": 1}');
SELECT * FROM differ('{"_id": -1}');
SET treedb.enable_find_scan = off;
SELECT * FROM differ('{"_id": -1}');
RESET treedb.enable_find_scan;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM differ('{"_id": 1}');
COMMIT;
SELECT string_agg(doc::text, ' ') FROM (SELECT doc FROM find('ids', '{"_id": {"$not": {"$gt": 0}}}', '{"projection": {"_id": 1}, "sort": {"_id": 1}}') doc) d;
-- Rows that are gone or not there yet are not returned: where pages are not visible to all, the row says so.
DELETE FROM ids WHERE doc @@ '{"_id": {"$gt": 103, "$lt": 108}}';
SELECT pg_temp.run($$SELECT * FROM find('ids', '{"_id": {"$gt": 100, "$lte": 110}}', '{"projection": {"_id": 1}}')$$);
BEGIN;
SELECT insert_one('ids', '{"_id": 104}');
SELECT * FROM find('ids', '{"_id": {"$gt": 100, "$lte": 110}}', '{"projection": {"_id": 1}}');
ROLLBACK;
VACUUM ids;
SELECT * FROM find('ids', '{"_id": {"$gt": 100, "$lte": 110}}', '{"projection": {"_id": 1}}');
DROP FUNCTION differ;
-- A column that may be NULL: a row without a document is none, though the index on _id has an entry of it as of a document without an
-- _id. So is a row of a column that is declared NOT NULL, but not of its old rows, as since version 18.
CREATE TABLE nullable (doc bson);
CREATE UNIQUE INDEX nullable_id ON nullable ((doc -> '_id'));
INSERT INTO nullable VALUES ('{"_id": 1}'), (NULL), ('{"n": 1}'), (NULL), ('{"_id": "x"}');
VACUUM ANALYZE nullable;
SET enable_seqscan = off;
SELECT pg_temp.run($$SELECT * FROM find('nullable', '{}', '{"projection": {"_id": 1}, "sort": {"_id": 1}}')$$);
CREATE VIEW answers AS
    SELECT (SELECT string_agg(doc::text, ' ') FROM find('nullable', '{}', '{"projection": {"_id": 1}, "sort": {"_id": 1}}') doc) AS covered,
        (SELECT string_agg(doc::text, ' ') FROM find('nullable', '{"_id": {"$not": {"$gt": 0}}}', '{"projection": {"_id": 1}, "sort": {"_id": -1}}') doc) AS backward,
        (SELECT string_agg(doc::text, ' ') FROM find('nullable', '{"_id": null}') doc) AS null, count('nullable', '{"_id": null}') AS nulls, count('nullable', '{"_id": {"$not": {"$gt": 0}}}') AS not_above,
        (SELECT count(*) FROM nullable WHERE doc @@ '{"_id": null}') AS matching, (SELECT count(*) FROM nullable WHERE doc @@ '{"_id": {"$not": {"$gt": 0}}}') AS matching_too,
        aggregate('nullable', '[{"$match": {"_id": null}}, {"$count": "n"}]') AS counted;
SELECT * FROM answers;
DO $$ BEGIN IF current_setting('server_version_num')::int >= 180000 THEN EXECUTE 'ALTER TABLE nullable ADD CONSTRAINT later NOT NULL doc NOT VALID'; END IF; END $$;
SELECT * FROM answers;
DELETE FROM nullable WHERE doc IS NULL;
ALTER TABLE nullable ALTER doc SET NOT NULL;
VACUUM nullable;
SELECT * FROM answers;
SELECT pg_temp.run($$SELECT * FROM find('nullable', '{}', '{"projection": {"_id": 1}, "sort": {"_id": 1}}')$$);
DROP VIEW answers;
DROP TABLE nullable;
RESET enable_seqscan;
SELECT drop_collection('ids');
