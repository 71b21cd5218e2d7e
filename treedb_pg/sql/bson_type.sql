-- treedb.bson and treedb.bson_value: text in and out, casts, order, accessors, filters.
SET search_path = public, treedb;

-- Text is relaxed extended JSON; the order of fields stays.
SELECT '{"b": 1, "a": [1.5, true, null, "x"], "n": 5000000000}'::bson;
SELECT '{"_id": {"$oid": "64b7f8a2c3d4e5f6a7b8c9d0"}, "at": {"$date": "2020-01-01T00:00:00Z"}, "d": {"$numberDecimal": "1.10"}}'::bson;
SELECT '{}'::bson, '1'::bson_value, '"text"'::bson_value, '[1, {"a": 2}]'::bson_value;

-- Casts.
SELECT '{"a": 1}'::jsonb::bson, '{"b": 1, "a": 2.5}'::bson::jsonb, '{"a" : 1}'::json::bson, '{"a": [1]}'::bson::json;
SELECT '{"a": 1}'::bson::bytea, '\x0c0000001061000100000000'::bytea::bson;
SELECT '{"a": {"b": 1}}'::bson -> 'a', ('{"a": {"b": 1}}'::bson -> 'a')::bson, '{"a": 1}'::bson::bson_value;
CREATE TEMP TABLE assigned (doc bson, value bson_value);
INSERT INTO assigned VALUES (jsonb_build_object('a', 1), to_jsonb(2.5));
SELECT * FROM assigned;

-- Accessors: dotted paths through documents by name, through arrays by position.
WITH d(doc) AS (VALUES ('{"name": "Ann", "age": 41, "tags": ["x", {"y": null}], "addr": {"city": "Ulm"}, "gone": null}'::bson))
SELECT doc -> 'name' AS name, doc ->> 'name' AS name_text, doc -> 'addr.city' AS city, doc -> 'tags.1.y' AS y,
       doc ->> 'tags' AS tags, (doc ->> 'age')::int + 1 AS age, doc -> 'addr' -> 'city' AS chained,
       doc ->> 'gone' IS NULL AS null_text, doc -> 'gone' AS null_value, doc -> 'none' IS NULL AS none,
       treedb.get(doc, 'tags.0') AS first, doc -> 'tags' ->> '0' AS first_text, doc -> '' IS NULL AS empty
FROM d;

-- Order of values: MongoDB's, across all types; numbers by what they are worth.
SELECT v FROM (VALUES ('true'::bson_value), ('"a"'), ('{"a": 1}'), ('null'), ('[1]'), ('{"$oid": "64b7f8a2c3d4e5f6a7b8c9d0"}'),
    ('{"$date": "2020-01-01T00:00:00Z"}'), ('2.5'), ('{"$numberLong": "2"}'), ('-1'), ('{"$minKey": 1}'), ('{"$maxKey": 1}'),
    ('{"$binary": {"base64": "AA==", "subType": "00"}}'), ('{"$regularExpression": {"pattern": "a", "options": ""}}'),
    ('{"$timestamp": {"t": 1, "i": 1}}'), ('"A"'), ('false')) AS t(v) ORDER BY v;
SELECT '1'::bson_value = '1.0' AS equal, '{"$numberLong": "1"}'::bson_value = '1' AS equal_long,
       '1'::bson_value < '"1"' AS number_before_string, '{"a": 1}'::bson = '{"a": 1.0}' AS documents,
       '{"a": 1, "b": 2}'::bson = '{"b": 2, "a": 1}' AS order_counts, '{"a": 1}'::bson <> '{"a": 2}' AS differ;
SELECT bson_value_cmp('1', '2'), bson_value_cmp('2', '2.0'), bson_value_cmp('"b"', '"a"');

-- DISTINCT, GROUP BY, joins by hash and by merge, unique constraints.
CREATE TEMP TABLE docs (id int, doc bson);
INSERT INTO docs SELECT i, jsonb_build_object('n', i % 3, 't', CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END) FROM generate_series(1, 12) i;
SELECT DISTINCT doc -> 'n' AS n FROM docs ORDER BY n;
SET enable_hashagg = off;
SELECT doc -> 't' AS t, count(*) FROM docs GROUP BY 1 ORDER BY 1 DESC;
SET enable_hashagg = on;
SET enable_sort = off;
SELECT count(*) FROM (SELECT doc FROM docs GROUP BY doc) s;
SET enable_sort = on;
SET enable_hashjoin = off; SET enable_nestloop = off;
SELECT count(*) FROM docs a JOIN docs b ON a.doc = b.doc;
SET enable_hashjoin = on; SET enable_mergejoin = off;
SELECT count(*) FROM docs a JOIN docs b ON a.doc = b.doc;
RESET enable_nestloop; RESET enable_mergejoin;
SELECT bson_value_hash('1') = bson_value_hash('1.0') AS same_hash, bson_hash('{"a": 1}') = bson_hash('{"a": {"$numberLong": "1"}}') AS same_doc_hash;
CREATE TEMP TABLE uniques (doc bson UNIQUE);
INSERT INTO uniques VALUES ('{"a": 1}'), ('{"a": 2}');
INSERT INTO uniques VALUES ('{"a": 1.0}');
INSERT INTO uniques VALUES ('{"a": 1.0}'), ('{"a": 3}') ON CONFLICT DO NOTHING;
SELECT doc FROM uniques ORDER BY doc DESC;

-- Indexes on a value: the server's btree and TreeDB's give the same order and the same rows.
CREATE TABLE ordered (id int, doc bson) USING treedb;
INSERT INTO ordered SELECT i, jsonb_build_object('v', CASE i % 4 WHEN 0 THEN to_jsonb(i % 50) WHEN 1 THEN to_jsonb('s' || i % 50)
    WHEN 2 THEN to_jsonb(i % 50 + 0.5) ELSE jsonb_build_array(i % 50) END) FROM generate_series(1, 400) i;
CREATE INDEX ordered_treedb ON ordered USING treedb_btree ((doc -> 'v'));
SET enable_seqscan = off; SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT doc -> 'v' FROM ordered ORDER BY doc -> 'v';
CREATE TEMP TABLE by_treedb AS SELECT row_number() OVER () AS n, v FROM (SELECT doc -> 'v' AS v FROM ordered ORDER BY doc -> 'v') s;
SELECT count(*) FROM ordered WHERE doc -> 'v' >= '10' AND doc -> 'v' < '20';
RESET enable_seqscan; RESET enable_sort;
DROP INDEX ordered_treedb;
CREATE TEMP TABLE by_sort AS SELECT row_number() OVER () AS n, v FROM (SELECT doc -> 'v' AS v FROM ordered ORDER BY doc -> 'v') s;
SELECT count(*) AS rows, count(*) FILTER (WHERE a.v <> b.v) AS different FROM by_treedb a JOIN by_sort b USING (n);
SELECT count(*) FROM ordered WHERE doc -> 'v' >= '10' AND doc -> 'v' < '20';
DROP TABLE ordered;

-- Filters.
SELECT f, '{"a": 5, "tags": ["x", "y"], "sub": [{"k": 1, "v": 2}, {"k": 2, "v": 1}], "s": "Hello", "z": null}'::bson @@ f::bson AS matches
FROM (VALUES ('{}'), ('{"a": 5}'), ('{"a": 5.0}'), ('{"a": {"$gt": 4, "$lt": 6}}'), ('{"a": {"$gt": 5}}'), ('{"a": {"$in": [1, 5]}}'),
    ('{"a": {"$nin": [1, 5]}}'), ('{"a": "5"}'), ('{"a": {"$ne": 5}}'), ('{"tags": "x"}'), ('{"tags": ["x", "y"]}'), ('{"tags": ["x"]}'),
    ('{"tags.1": "y"}'), ('{"sub.k": 1, "sub.v": 1}'), ('{"sub.k": 3}'), ('{"missing": null}'), ('{"z": null}'), ('{"z": {"$exists": true}}'),
    ('{"missing": {"$exists": true}}'), ('{"$or": [{"a": 1}, {"s": "Hello"}]}'), ('{"$nor": [{"a": 1}]}'), ('{"$and": [{"a": 5}, {"s": "x"}]}'),
    ('{"a": {"$not": {"$gt": 5}}}'), ('{"s": {"$gte": "H"}}')) AS t(f);
SELECT count(*) FROM docs WHERE doc @@ '{"n": {"$gte": 1}, "t": "odd"}';
-- A filter that changes from row to row.
SELECT count(*) FROM docs WHERE doc @@ jsonb_build_object('n', id % 3)::bson;
SELECT count(*) FROM docs WHERE doc @@ NULL;
