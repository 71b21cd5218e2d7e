-- Finds by the value of one indexed field answer as a scan of the collection does, whatever the index and the value.
SET search_path = public, treedb;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SELECT create_collection('p');
INSERT INTO p SELECT jsonb_build_object('_id', i, 'n', i % 4, 's', 's' || i % 10, 'tags', CASE WHEN i % 3 = 0 THEN to_jsonb(i % 5) ELSE jsonb_build_array(i % 5, 'x') END,
    'at', jsonb_build_object('x', i % 6), 'code', 'c' || i, 'w', jsonb_build_object('a', i % 3), 'part', i % 8, 'text', CASE i % 2 WHEN 0 THEN 'Text' ELSE 'text' END)::bson
FROM generate_series(1, 2000) i;
SELECT insert_many('p', '[{"code": 1, "_id": "x", "n": 2.0}, {"code": 2, "_id": 0.5, "n": {"$numberLong": "2"}}, {"code": 3, "_id": true, "n": {"$numberDecimal": "2.0"}},
    {"code": 4, "_id": {"$date": "2020-01-01T00:00:00Z"}, "n": "2"}, {"code": 5, "_id": {"$oid": "0123456789abcdef01234567"}, "n": null}, {"code": 6, "_id": null}, {"code": 7, "_id": {"a": 1}, "n": {"a": 2}},
    {"code": 8, "_id": -1, "n": true}, {"code": 9, "_id": -2, "n": {"$date": "2020-01-01T00:00:00Z"}}, {"code": 10, "_id": -3, "n": {"$binary": {"base64": "AQI=", "subType": "00"}}}]');
SELECT create_index('p', '{"n": 1}'), create_index('p', '{"tags": 1}'), create_index('p', '{"at.x": -1}'), create_index('p', '{"code": 1}', '{"unique": true}'),
    create_index('p', '{"s": 1, "_id": 1}'), create_index('p', '{"w.$**": 1}'), create_index('p', '{"part": 1}', '{"partialFilterExpression": {"part": {"$gt": 3}}}'),
    create_index('p', '{"text": 1}', '{"collation": {"locale": "en", "strength": 2}}');
ANALYZE p;
-- found(FILTER): how many documents FILTER finds in three ways, and whether those are the ones that a scan finds.
CREATE FUNCTION found(wanted text, OUT documents bigint, OUT by_find bool, OUT by_operator bool, OUT by_join bool) LANGUAGE plpgsql AS $$
DECLARE
    scanned text;
BEGIN
    SELECT count(*), string_agg(d::text, E'\n' ORDER BY d) INTO documents, scanned FROM find('p', wanted::bson, '{"hint": {"$natural": 1}}') d;
    by_find := scanned IS NOT DISTINCT FROM (SELECT string_agg(d::text, E'\n' ORDER BY d) FROM find('p', wanted::bson) d);
    by_operator := scanned IS NOT DISTINCT FROM (SELECT string_agg(doc::text, E'\n' ORDER BY doc) FROM p WHERE doc @@ wanted::bson);
    by_join := scanned IS NOT DISTINCT FROM (SELECT string_agg(d::text, E'\n' ORDER BY d) FROM (VALUES ('{"n": 0}'), (wanted)) w(w), LATERAL find('p', w::bson) d WHERE w = wanted);
END $$;
SELECT wanted, f.* FROM unnest(array['{"n": 2}', '{"n": 2.0}', '{"n": {"$numberDecimal": "2.00"}}', '{"n": "2"}', '{"n": 1e300}', '{"n": true}', '{"n": null}', '{"n": {"a": 2}}',
    '{"n": {"$date": "2020-01-01T00:00:00Z"}}', '{"n": {"$binary": {"base64": "AQI=", "subType": "00"}}}', '{"n": [2]}', '{"n": {"$gt": 2}}',
    '{"_id": 7}', '{"_id": 7.0}', '{"_id": "x"}', '{"_id": true}', '{"_id": null}', '{"_id": {"$oid": "0123456789abcdef01234567"}}', '{"_id": {"$date": "2020-01-01T00:00:00Z"}}', '{"_id": 99999}',
    '{"tags": 3}', '{"tags": "x"}', '{"tags": []}', '{"at.x": 3}', '{"at.x": "3"}', '{"at": 3}', '{"code": "c77"}', '{"code": "C77"}', '{"code": 3}', '{"s": "s3"}', '{"s": 3}',
    '{"w.a": 1}', '{"w": 1}', '{"part": 2}', '{"part": 5}', '{"text": "text"}', '{"none": 1}', '{"": 1}', '{}']) wanted, found(wanted) f;
-- A scan that begins again with another filter: by one key, by several indexes, by all rows, and by one key again.
SELECT w, c.n = (SELECT count(*) FROM find('p', w::bson, '{"hint": {"$natural": 1}}')) AS as_scanned
FROM unnest(array['{"code": "c9"}', '{"n": 2, "tags": 3}', '{"n": 2}', '{"n": {"$gt": 1}}', '{"none": 1}', '{"code": "c9"}', NULL, '{"code": "c10"}', '{"code": "none"}']) w,
    LATERAL (SELECT count(*) AS n FROM p WHERE doc @@ w::bson) c;
-- Errors in a filter are the same.
SELECT * FROM find('p', '{"$where": 1}');
SELECT * FROM find('p', '{"$n": 2}');
SELECT * FROM find('p', '{"n": 2}', '{"sorted": 1}');
SELECT * FROM find('nowhere', '{"n": 2}');
SELECT count(*) FROM p WHERE doc @@ '{"$n": 2}';
-- Rows of one key are read in batches, each from where the one before it ended.
SELECT count(*), count(DISTINCT d ->> '_id') FROM find('p', '{"n": 2}') d;
SELECT count(*) FROM (SELECT FROM find('p', '{"n": 2}') LIMIT 300) f;
BEGIN;
DECLARE c CURSOR FOR SELECT d ->> 'n' AS n FROM find('p', '{"n": 2}') d;
FETCH 2 FROM c;
MOVE 400 FROM c;
MOVE ALL FROM c;
FETCH 2 FROM c;
COMMIT;
SELECT pg_temp.run($$SELECT * FROM find('p', '{"n": 2}') LIMIT 10$$);
SELECT pg_temp.run($$SELECT * FROM find('p', '{"code": "c9"}')$$);
SELECT pg_temp.run($$SELECT * FROM p WHERE doc @@ '{"code": "c9"}'$$);
SELECT pg_temp.run($$SELECT i, d FROM generate_series(1, 3) i, LATERAL find('p', jsonb_build_object('code', 'c' || i)::bson) d$$);
-- A statement does not see what it changes; versions that are gone are not found.
SELECT sum((update_many('p', '{"n": 3}', '{"$set": {"n": 4}}') ->> 'modifiedCount')::int) FROM find('p', '{"_id": 1}');
SELECT * FROM found('{"n": 3}');
SELECT * FROM found('{"n": 4}');
SELECT delete_many('p', '{"n": 4}');
SELECT * FROM found('{"n": 4}');
-- Elements of arrays count too, each once, and arrays in arrays do not.
SELECT insert_many('p', '[{"_id": "array", "code": 0, "n": [1, 2, 2, 2.0]}, {"_id": "nested", "code": -1, "n": [[2]]}, {"_id": "both", "code": -2, "n": [[2], 2]}]');
SELECT * FROM found('{"n": 2}');
SELECT * FROM found('{"n": 1}');
SELECT d ->> '_id' AS id FROM find('p', '{"n": 2}') d WHERE d ->> '_id' IN ('array', 'nested', 'both') ORDER BY id;
SELECT pg_temp.run($$SELECT * FROM find('p', '{"n": 2}') d WHERE d ->> '_id' = 'array'$$);
-- A key that is stored shortened decides nothing.
SELECT insert_many('p', ('[{"_id": "long1", "code": "l1", "s": "' || repeat('x', 5000) || '1"}, {"_id": "long2", "code": "l2", "s": "' || repeat('x', 5000) || '2"}]')::text);
SELECT count(*) FROM find('p', ('{"s": "' || repeat('x', 5000) || '1"}')::bson);
SELECT count(*) FROM p WHERE doc @@ ('{"s": "' || repeat('x', 5000) || '2"}')::bson;
DROP FUNCTION found;
SELECT drop_collection('p');
