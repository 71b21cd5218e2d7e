-- Settings: known once the library is loaded, with units; other names that begin with treedb. are refused.
SET search_path = public, treedb;
SET treedb.nothing = 1;
SELECT '{}'::bson;
SET treedb.enable_find_scam = off;
SELECT name, setting, unit, vartype, context, min_val, max_val FROM pg_settings WHERE name LIKE 'treedb.%' ORDER BY name;
SET treedb.stage_mem = '1MB';
SHOW treedb.stage_mem;
-- (versions word the first one differently)
\set VERBOSITY sqlstate
SET treedb.stage_mem = 63;
\set VERBOSITY default
SET treedb.stage_mem = '1 hour';
-- What a stage may hold: groups and sorts spill beyond it, and give the same answer; others fail and say so.
SELECT create_collection('held');
INSERT INTO held SELECT format('{"_id": %s, "s": "%s"}', n, repeat(md5(n::text), 4))::bson FROM generate_series(1, 20000) n;
CREATE FUNCTION answer(stages text) RETURNS text LANGUAGE sql AS $$ SELECT count(*) || ' ' || md5(string_agg(doc::text, ' ' ORDER BY doc::text)) FROM aggregate('held', stages::bson_value) doc $$;
CREATE TEMPORARY TABLE small AS SELECT stages, answer(stages) FROM (VALUES ('[{"$group": {"_id": "$s", "n": {"$sum": "$_id"}}}]'), ('[{"$sort": {"s": 1}}, {"$skip": 5000}]')) v(stages);
SELECT answer('[{"$bucketAuto": {"groupBy": "$s", "buckets": 3}}]');
RESET treedb.stage_mem;
SELECT stages, answer(stages) = answer AS same FROM small ORDER BY stages;
SELECT count(*) FROM aggregate('held', '[{"$bucketAuto": {"groupBy": "$s", "buckets": 3}}]');
DROP FUNCTION answer;
SELECT drop_collection('held');
-- Text that reads as the very same document: an int, a long and a double of the same worth.
CREATE TEMPORARY TABLE numbers (doc bson, value bson_value);
INSERT INTO numbers SELECT doc::bson, doc::bson -> 'a' FROM (VALUES ('{"a": 5}'), ('{"a": {"$numberLong": "5"}}'), ('{"a": 5.0}'), ('{"a": [{"$numberLong": "1"}, 1]}'), ('{"a": "5"}')) v(doc);
SELECT doc, value, doc::text::bson::bytea = doc::bytea AS same FROM numbers;
SET treedb.exact_text = on;
SELECT doc, value FROM numbers;
-- But casts, which are immutable and may be what an index is on, do not depend on it.
SELECT doc::text, doc::jsonb, value::text AS value FROM numbers;
RESET treedb.exact_text;
