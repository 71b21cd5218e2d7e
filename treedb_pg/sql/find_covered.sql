-- Documents made of index entries: the index on _id has values with their types, the others know which types there are. Rows of pages that are
-- visible to all are not read, and documents are exactly those of the rows.
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
-- Key sets: of 17 documents the field is missing, which the key of null does not tell; their rows are read.
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
SELECT pg_temp.run($$SELECT * FROM find('ids', '{"n": null}', '{"projection": {"n": 1, "_id": 0}}') LIMIT 2$$);
SELECT drop_collection('ids');

-- An index of a collection covers what it has, as long as the keys tell the types of its values; that is known of each index
-- since it was built.
SELECT create_collection('things');
ALTER TABLE things SET (autovacuum_enabled = off);
SELECT create_index('things', '{"s": 1, "n": -1}'), create_index('things', '{"o.d": 1}'), create_index('things', '{"n": 1}', '{"sparse": true, "name": "sparse"}');
INSERT INTO things SELECT format('{"_id": %s, "s": "s%s", "n": %s, "o": {"d": %s.5, "e": 1}}', i, i % 40, i % 90 * 1e8::int8, i % 7)::bson FROM generate_series(1, 2000) i;
VACUUM ANALYZE things;
SELECT pg_temp.run($$SELECT * FROM find('things', '{"s": "s7", "n": {"$gt": 5}}', '{"projection": {"s": 1, "n": 1, "_id": 0}}') LIMIT 3$$);
SELECT * FROM find('things', '{"s": "s7", "n": {"$gt": 5}}', '{"projection": {"s": 1, "n": 1, "_id": 0}}') LIMIT 3;
SELECT pg_temp.run($$SELECT * FROM find('things', '{"o.d": {"$gt": 6}}', '{"projection": {"o.d": 1, "_id": 0}, "sort": {"o.d": -1}}') LIMIT 2$$);
SELECT pg_temp.run($$SELECT * FROM find('things', '{"s": "s7"}', '{"projection": {"s": 1}}') LIMIT 3$$);
-- Documents by an index, and the same of the rows, byte by byte; and how many rows were read.
CREATE FUNCTION differ(filter text, projection text) RETURNS TABLE (covered bigint, different bigint, rows_read int) LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    EXECUTE format('SELECT count(c.doc), count(*) FILTER (WHERE c.doc::bytea IS DISTINCT FROM r.doc::bytea)
        FROM (SELECT row_number() OVER (ORDER BY doc, doc::bytea) AS n, doc FROM find(''things'', %1$L, ''{"projection": {%2$s, "_id": 0}}'') doc) c
        FULL JOIN (SELECT row_number() OVER (ORDER BY doc, doc::bytea) AS n, doc FROM find(''things'', %1$L, ''{"projection": {%2$s, "_id": 0, "none": 1}}'') doc) r USING (n)', filter, projection)
        INTO covered, different;
    FOR line IN SELECT pg_temp.run(format('SELECT * FROM find(''things'', %L, ''{"projection": {%s, "_id": 0}}'')', filter, projection)) LOOP
        rows_read := coalesce((regexp_match(line, 'Documents Examined: (\d+)'))[1]::int, rows_read);
    END LOOP;
    RETURN NEXT;
END $$;
CREATE VIEW ways AS SELECT what, d.* FROM (VALUES ('strings and numbers', '{"s": {"$gte": "s"}}', '"s": 1, "n": 1'), ('strings', '{"s": {"$gte": "s"}}', '"s": 1'), ('in a document', '{"o.d": {"$gte": 1}}', '"o.d": 1'),
    ('null', '{"s": null}', '"s": 1'), ('sparse', '{"n": {"$gte": 0}}', '"n": 1')) w(what, filter, projection), differ(filter, projection) d;
SELECT * FROM ways;
-- A long that is no int by its value is one by its key; one that would be an int is not, and then all numbers of that index are read from their rows.
SELECT update_one('things', '{"_id": 5}', '{"$set": {"n": {"$numberLong": "7"}}}') ->> 'modifiedCount' AS modified;
VACUUM things;
SELECT * FROM ways;
-- An update that leaves the keys as they are but not the types is seen: of a number in a document, of a string, of a missing field.
SELECT update_one('things', '{"_id": 8}', '{"$set": {"o.d": {"$numberDecimal": "1.5"}}}') ->> 'modifiedCount' AS modified, update_one('things', '{"_id": 9}', '{"$set": {"s": {"$symbol": "s9"}}}') ->> 'modifiedCount' AS modified;
VACUUM things;
SELECT * FROM ways;
SELECT update_one('things', '{"_id": 10}', '{"$set": {"s": null}}') ->> 'modifiedCount' AS modified;
SELECT * FROM find('things', '{"s": null}', '{"projection": {"s": 1, "_id": 0}}');
SELECT update_one('things', '{"_id": 10}', '{"$unset": {"s": 1}}') ->> 'modifiedCount' AS modified;
SELECT * FROM find('things', '{"s": null}', '{"projection": {"s": 1, "_id": 0}}');
VACUUM things;
SELECT * FROM ways;
-- Built again, an index knows of the types that there are now. Deleted and invisible rows are not returned.
SELECT update_many('things', '{}', '{"$set": {"s": "s", "n": 3, "o.d": 1.25}}') ->> 'modifiedCount' AS modified;
DELETE FROM things WHERE doc @@ '{"_id": {"$lt": 1900}}';
REINDEX TABLE things;
BEGIN;
SELECT insert_one('things', '{"_id": -1, "s": "s", "n": 3.5}');
SELECT count(*) FROM find('things', '{"s": "s"}', '{"projection": {"s": 1, "n": 1, "_id": 0}}') WHERE find ->> 'n' = '3.5';
ROLLBACK;
SELECT * FROM ways;
-- Collations, shortened keys and arrays rule it out.
SELECT create_index('things', '{"c": 1}', '{"collation": {"locale": "en", "strength": 2}}'), create_index('things', '{"long": 1}'), create_index('things', '{"tags": 1}');
SELECT insert_many('things', array_agg(jsonb_build_object('_id', -i, 'c', 'A' || i % 3, 'long', repeat('x', 3000 * (i % 2)), 'tags', jsonb_build_array(i))::bson)) FROM generate_series(1, 40) i;
SELECT jsonb_path_query(explain(format('{"find": "things", "filter": {%s: {"$gte": 0}}, "projection": {%1$s: 1, "_id": 0}}', field)::bson, 'queryPlanner')::jsonb, '$.queryPlanner.winningPlan.**.stage') AS stage FROM unnest('{"\"long\"","\"tags\"","\"n\""}'::text[]) field;
SELECT jsonb_path_query(explain('{"find": "things", "filter": {"c": "a1"}, "projection": {"c": 1, "_id": 0}, "collation": {"locale": "en", "strength": 2}}', 'queryPlanner')::jsonb, '$.queryPlanner.winningPlan.**.stage') AS stage;
SELECT count(*), min(find::text) FROM find('things', '{"c": "a1"}', '{"projection": {"c": 1, "_id": 0}, "collation": {"locale": "en", "strength": 2}}');
SELECT treedb.check('things');
DROP VIEW ways;
DROP FUNCTION differ;

-- distinct without a filter goes from one value of an index to the next: values of rows that are gone are none.
SELECT create_collection('colours');
SELECT create_index('colours', '{"c": 1}'), create_index('colours', '{"k": -1, "c": 1}');
INSERT INTO colours SELECT (jsonb_build_object('_id', i, 'c', CASE WHEN i % 10 = 0 THEN to_jsonb(i % 3) WHEN i % 10 = 1 THEN 'null' ELSE to_jsonb('c' || i % 5) END) || CASE WHEN i % 4 = 0 THEN '{"k": 1.5}'::jsonb ELSE '{}' END)::bson FROM generate_series(1, 3000) i;
SELECT string_agg(d::text, ' ') FROM treedb.distinct('colours', 'c') d;
SELECT string_agg(d::text, ' ') FROM treedb.distinct('colours', 'k') d;
SELECT string_agg(d::text, ' ' ORDER BY d) FROM treedb.distinct('colours', 'c', '{"_id": {"$gt": 0}}') d;
DELETE FROM colours WHERE doc @@ '{"c": "c2"}';
SELECT insert_many('colours', '[{"_id": -1, "c": 1.0}, {"_id": -2, "c": {"a": 1}}, {"_id": -3, "c": {"$symbol": "s"}}]');
SELECT string_agg(d::text, ' ') FROM treedb.distinct('colours', 'c') d;
VACUUM colours;
SELECT string_agg(d::text, ' ') FROM treedb.distinct('colours', 'c') d;
BEGIN;
DELETE FROM colours WHERE doc @@ '{"c": null}';
SELECT string_agg(d::text, ' ') FROM treedb.distinct('colours', 'c') d;
ROLLBACK;
SELECT insert_one('colours', '{"_id": -4, "c": ["c2", "new"]}');
SELECT string_agg(d::text, ' ' ORDER BY d) FROM treedb.distinct('colours', 'c') d;
SELECT drop_collection('colours'), drop_collection('things');
