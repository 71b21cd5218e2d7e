-- Indexes of locations, 2dsphere and 2d: what list_indexes says, which questions they answer, and that answers are those of a scan and of
-- formulas.
SET search_path = public, treedb;
SET client_min_messages = warning;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
-- r(N, K): a number from 0 to 1 that looks random
CREATE FUNCTION r(n int, k int) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$ SELECT ('x' || substr(md5(n || '.' || k), 1, 8))::bit(32)::bigint / 4294967296.0 $$;
-- place(LNG, LAT, SIZE, KIND): a point as GeoJSON or as a pair, a polygon, a line, two points far from each other
CREATE FUNCTION place(lng float8, lat float8, size float8, kind int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE kind WHEN 0 THEN format('{"type": "Point", "coordinates": [%s, %s]}', lng, lat) WHEN 1 THEN format('[%s, %s]', lng, lat)
        WHEN 2 THEN format('{"type": "Polygon", "coordinates": [[[%1$s, %2$s], [%3$s, %2$s], [%3$s, %4$s], [%1$s, %2$s]]]}', lng, lat, lng + size, lat + size)
        WHEN 3 THEN format('{"type": "LineString", "coordinates": [[%s, %s], [%s, %s]]}', lng, lat, lng + size, lat + size)
        ELSE format('[{"type": "Point", "coordinates": [%s, %s]}, {"type": "Point", "coordinates": [%s, %s]}]', lng, lat, -lng, -lat) END
$$;
SELECT '{"at": [2.35, 48.86]}'::bson @@ '{"at": {"$geoWithin": {"$centerSphere": [[2, 49], 0.01]}}}' AS near, '{"at": [2.35, 48.86]}'::bson @@ '{"at": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [2, 49]}}}}' AS there;
SELECT create_collection('bare'), create_collection('g');
INSERT INTO bare SELECT format('{"_id": %s, "kind": %s, "at": %s, "spot": [%s, %s]}', n, n % 7, place(round((r(n, 1) * 358 - 179)::numeric, 4), round((r(n, 2) * 176 - 88)::numeric, 4), round((r(n, 3) * 2)::numeric, 4), n % 5),
    round((r(n, 4) * 200 - 100)::numeric, 3), round((r(n, 5) * 200 - 100)::numeric, 3))::bson FROM generate_series(1, 2500) n;
INSERT INTO bare VALUES ('{"_id": 3001}'), ('{"_id": 3002, "at": null, "spot": null}'), ('{"_id": 3003, "at": [], "spot": []}');
-- Some of them are there when the indexes are built, some come later.
INSERT INTO g SELECT doc FROM bare WHERE doc @@ '{"_id": {"$mod": [2, 0]}}';
SELECT create_index('g', '{"at": "2dsphere"}'), create_index('g', '{"kind": 1, "at": "2dsphere"}', '{"2dsphereIndexVersion": 2}'), create_index('g', '{"spot": "2d", "kind": -1}', '{"min": -100, "max": 100.5, "bits": 20}');
INSERT INTO g SELECT doc FROM bare WHERE doc @@ '{"_id": {"$mod": [2, 1]}}';
SELECT list_indexes('g');
\d g
SELECT create_index('g', '{"at": "2dsphere"}');
ANALYZE g;

-- Regions: as a scan finds them.
CREATE TABLE questions AS SELECT n, format(CASE n % 6
    WHEN 0 THEN '{"at": {"$geoWithin": {"$centerSphere": [[%1$s, %2$s], %3$s]}}}'
    WHEN 1 THEN '{"at": {"$geoWithin": {"$geometry": {"type": "Polygon", "coordinates": [[[%1$s, %2$s], [%4$s, %2$s], [%4$s, %5$s], [%1$s, %5$s], [%1$s, %2$s]]]}}}}'
    WHEN 2 THEN '{"at": {"$geoIntersects": {"$geometry": {"type": "Polygon", "coordinates": [[[%1$s, %2$s], [%4$s, %2$s], [%4$s, %5$s], [%1$s, %2$s]]]}}}}'
    WHEN 3 THEN '{"at": {"$geoIntersects": {"$geometry": {"type": "LineString", "coordinates": [[%1$s, %2$s], [%4$s, %5$s]]}}}, "kind": {"$in": [1, 2, 5]}}'
    WHEN 4 THEN '{"spot": {"$geoWithin": {"$box": [[%1$s, %2$s], [%4$s, %5$s]]}}}'
    ELSE '{"spot": {"$geoWithin": {"$center": [[%1$s, %2$s], %6$s]}}, "kind": {"$gt": 2}}' END,
    round((r(n, 6) * 180 - 90)::numeric, 3), round((r(n, 7) * 140 - 70)::numeric, 3), round((r(n, 8) * .4)::numeric, 3), round((r(n, 6) * 180 - 90 + 1 + r(n, 8) * 50)::numeric, 3), round((r(n, 7) * 140 - 70 + 1 + r(n, 9) * 15)::numeric, 3),
    round((r(n, 8) * 60)::numeric, 3))::text AS filter FROM generate_series(1, 72) n;
INSERT INTO questions VALUES (1001, '{"at": {"$geoWithin": {"$geometry": {"type": "MultiPolygon", "coordinates": [[[[170, -20], [-170, -20], [-170, 20], [170, 20], [170, -20]]], [[[0, 80], [120, 80], [-120, 80], [0, 80]]]]}}}}'),
    (1002, '{"$or": [{"at": {"$geoWithin": {"$centerSphere": [[0, 0], 0.1]}}}, {"spot": {"$geoWithin": {"$box": [[0, 0], [9, 9]]}}}]}'), (1003, '{"at": {"$not": {"$geoWithin": {"$centerSphere": [[0, 0], 2]}}}}'), (1004, '{"at": null}'),
    (1005, '{"at": {"$geoWithin": {"$box": [[-20, -20], [20, 20]]}}}'), (1006, '{"kind": 3, "at": {"$geoWithin": {"$centerSphere": [[50, 20], 0.7]}}, "spot": {"$geoWithin": {"$center": [[0, 0], 80]}}}'), (1007, '{"kind": 3}');
CREATE VIEW answers AS SELECT n, filter, rows, find = scan AS find, "@@" = scan AS "@@", rows = count AS count FROM questions,
    LATERAL (SELECT md5(string_agg(f::text, '' ORDER BY f ->> '_id')) AS find FROM find('g', filter::bson) f) f,
    LATERAL (SELECT md5(string_agg(b::text, '' ORDER BY b ->> '_id')) AS scan, count(*) AS rows FROM find('bare', filter::bson) b) b,
    LATERAL (SELECT md5(string_agg(doc::text, '' ORDER BY doc ->> '_id')) AS "@@" FROM g WHERE doc @@ filter::bson) d,
    LATERAL (SELECT treedb.count('g', filter::bson) AS count) c;
SELECT count(*) AS questions, count(*) FILTER (WHERE rows > 0) AS some, sum(rows) > 2500 AS many, bool_and(coalesce(find AND "@@", rows = 0) AND count) AS same FROM answers;
SELECT n, filter, rows FROM answers WHERE NOT coalesce(find AND "@@", rows = 0) OR NOT count;
-- The indexes that answer them, and how few documents are looked at.
SELECT n % 6 AS kind, max(filter) FILTER (WHERE n <= 6) AS for_example, mode() WITHIN GROUP (ORDER BY substring(e ->> 'queryPlanner.winningPlan' from '"indexName":"([^"]*)"')) AS index,
    sum((e ->> 'executionStats.totalDocsExamined')::int) < 3 * sum((e ->> 'executionStats.nReturned')::int) + 500 AS few
FROM (SELECT n, filter, treedb.explain(jsonb_build_object('find', 'g', 'filter', filter::jsonb)::bson) e FROM questions WHERE n <= 72) e GROUP BY 1 ORDER BY 1;
SET random_page_cost = 1.5;
SELECT pg_temp.plan($$SELECT doc FROM g WHERE doc @@ '{"at": {"$geoWithin": {"$centerSphere": [[10, 10], 0.01]}}}'$$);
SELECT pg_temp.plan($$SELECT doc FROM g WHERE doc @@ '{"spot": {"$geoWithin": {"$box": [[10, 10], [12, 12]]}}}'$$);
SELECT pg_temp.plan($$DELETE FROM g WHERE doc @@ '{"at": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [1, 1]}}}, "kind": 2}'$$);
SELECT pg_temp.plan($$SELECT * FROM find('g', '{"at": {"$geoWithin": {"$box": [[10, 10], [12, 12]]}}}')$$);
-- Rows are estimated by the index.
CREATE FUNCTION estimated(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT estimated($$SELECT doc FROM g WHERE doc @@ '{"at": {"$geoWithin": {"$centerSphere": [[10, 10], 0.02]}}}'$$) < 50 AS few, estimated($$SELECT doc FROM g WHERE doc @@ '{"at": {"$geoWithin": {"$centerSphere": [[10, 10], 3]}}}'$$) > 1000 AS many,
    estimated($$SELECT * FROM find('g', '{"at": {"$geoWithin": {"$centerSphere": [[10, 10], 0.02]}}}')$$) < 50 AS few_found,
    estimated($$SELECT * FROM find('g', '{"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [10, 10]}, "$maxDistance": 120000}}}')$$) < 50 AS few_in_reach, estimated($$SELECT * FROM find('g', '{"spot": {"$near": [10, 10]}}')$$) BETWEEN 2000 AND 3000 AS all;

-- The nearest first, as the haversine formula and that of Pythagoras have it.
CREATE FUNCTION metres(lng float8, lat float8, to_lng float8, to_lat float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT 2 * 6378100 * asin(least(1, sqrt(sind((to_lat - lat) / 2) ^ 2 + cosd(lat) * cosd(to_lat) * sind((to_lng - lng) / 2) ^ 2)))
$$;
CREATE VIEW points AS SELECT (doc ->> '_id')::int AS id, (doc ->> 'kind')::int AS kind, coalesce(doc ->> 'at.coordinates.0', doc ->> 'at.0')::float8 AS lng, coalesce(doc ->> 'at.coordinates.1', doc ->> 'at.1')::float8 AS lat,
    (doc ->> 'spot.0')::float8 AS x, (doc ->> 'spot.1')::float8 AS y FROM g WHERE doc @@ '{"_id": {"$lt": 3000, "$mod": [5, 0]}}' OR doc @@ '{"_id": {"$lt": 3000, "$mod": [5, 1]}}';
SELECT create_collection('p');
INSERT INTO p SELECT doc FROM g WHERE (doc ->> '_id')::int IN (SELECT id FROM points);
SELECT create_index('p', '{"kind": 1, "at": "2dsphere"}'), create_index('p', '{"at": "2dsphere"}', '{"name": "at"}'), create_index('p', '{"spot": "2d"}');
ANALYZE p;
CREATE VIEW nearest AS SELECT n, sphere = by_formula AS sphere, kind = of_kind AS kind, plane = by_pythagoras AS plane, abs(far - farthest) < 1e-3 AS distance, cardinality(sphere) AS rows FROM generate_series(1, 15) n,
    LATERAL (SELECT round((r(n, 11) * 360 - 180)::numeric, 3) AS lng, round((r(n, 12) * 180 - 90)::numeric, 3) AS lat, round(r(n, 13) * 8000000) AS most) c,
    LATERAL (SELECT array_agg((f ->> '_id')::int) AS sphere FROM find('p', format('{"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [%s, %s]}, "$minDistance": 200000, "$maxDistance": %s}}}', lng, lat, most)::bson, '{"limit": 40}') f) s,
    LATERAL (SELECT array_agg(id ORDER BY d) AS by_formula FROM (SELECT id, d FROM points, LATERAL (SELECT metres(lng, lat, c.lng, c.lat) AS d) m WHERE d BETWEEN 200000 AND most ORDER BY d LIMIT 40) x) h0,
    LATERAL (SELECT array_agg((f ->> '_id')::int) AS kind FROM find('p', format('{"at": {"$nearSphere": [%s, %s]}, "kind": {"$in": [2, 4]}}', lng, lat)::bson) f) k,
    LATERAL (SELECT array_agg(id ORDER BY metres(lng, lat, c.lng, c.lat)) AS of_kind FROM points WHERE kind IN (2, 4)) k0,
    LATERAL (SELECT array_agg((f ->> '_id')::int) AS plane FROM find('p', format('{"spot": {"$near": [%s, %s], "$maxDistance": 40}}', lng / 2, lat)::bson) f) f,
    LATERAL (SELECT array_agg(id ORDER BY (x - c.lng / 2) ^ 2 + (y - c.lat) ^ 2) AS by_pythagoras FROM points WHERE sqrt((x - c.lng / 2) ^ 2 + (y - c.lat) ^ 2) <= 40) f0,
    LATERAL (SELECT max((a ->> 'far.metres')::float8) AS far FROM aggregate('p', format('[{"$geoNear": {"near": {"type": "Point", "coordinates": [%s, %s]}, "distanceField": "far.metres", "key": "at", "query": {"kind": {"$lt": 5}}}}, {"$limit": 60}]', lng, lat)::bson_value) a) a,
    LATERAL (SELECT max(d) AS farthest FROM (SELECT metres(lng, lat, c.lng, c.lat) AS d FROM points WHERE kind < 5 ORDER BY 1 LIMIT 60) x) a0;
SELECT count(*) AS searches, sum(rows) > 150 AS many, bool_and(coalesce(sphere, rows IS NULL)) AS sphere, bool_and(kind) AS kind, bool_and(plane) AS plane, bool_and(distance) AS distance FROM nearest;
-- As few are looked at as are asked for.
SELECT pg_temp.plan($$SELECT * FROM find('p', '{"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [5, 45]}}}}') LIMIT 3$$);
SELECT pg_temp.plan($$SELECT * FROM find('p', '{"spot": {"$near": [5, 45]}, "kind": 2}', '{"sort": {"_id": 1}, "limit": 2}')$$);
CREATE FUNCTION examined(query text) RETURNS int LANGUAGE sql AS $$ SELECT substring(line from 'Documents Examined: (\d+)')::int FROM pg_temp.run(query) line WHERE line LIKE '%Documents Examined%' $$;
SELECT examined($$SELECT * FROM find('p', '{"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [5, 45]}}}}') LIMIT 3$$) BETWEEN 3 AND 150 AS few, examined($$SELECT * FROM find('p', '{"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [5, 45]}}}}')$$) AS all;
BEGIN;
DECLARE near CURSOR FOR SELECT f ->> '_id' AS id FROM find('p', '{"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [5, 45]}}}}') f;
FETCH 2 FROM near; FETCH 2 FROM near;
COMMIT;
SELECT array_agg(id ORDER BY d) FROM (SELECT id, metres(lng, lat, 5, 45) AS d FROM points ORDER BY d LIMIT 4) x;
-- For each row of another table the nearest of a collection.
SELECT bool_and(found = id) AS same FROM (SELECT id, lng, lat FROM points WHERE id < 60) c, LATERAL (SELECT (f ->> '_id')::int AS found FROM find('p', format('{"at": {"$nearSphere": [%s, %s]}}', lng, lat)::bson) f LIMIT 1) f;
SELECT array_agg((a ->> 'near.0._id')::int ORDER BY a ->> '_id') = (SELECT array_agg(id ORDER BY kind::text) FROM (SELECT DISTINCT ON (kind) kind, id FROM points ORDER BY kind, metres(lng, lat, 10, 10)) x) AS same
FROM aggregate('p', '[{"$group": {"_id": "$kind"}}, {"$lookup": {"from": "p", "as": "near", "let": {"kind": "$_id"}, "pipeline": [
    {"$geoNear": {"near": [10, 10], "spherical": true, "key": "at", "distanceField": "d", "query": {"$expr": {"$eq": ["$kind", "$$kind"]}}}}, {"$limit": 1}]}}]') a;

-- Updates and deletions take the nearest, or all in reach.
SELECT update_one('p', '{"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [5, 45]}}}}', '{"$set": {"seen": 1}}') ->> 'modifiedCount' AS one;
SELECT find_one_and_update('p', '{"at": {"$nearSphere": [5, 45]}, "seen": null}', '{"$set": {"seen": 2}}') ->> '_id' AS next;
SELECT update_many('p', '{"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [5, 45]}, "$maxDistance": 1000000}}}', '{"$set": {"near": true}}') ->> 'matchedCount' AS matched, (SELECT count(*) FROM points WHERE metres(lng, lat, 5, 45) <= 1000000) AS wanted;
SELECT treedb.count('p', '{"near": true}') AS near;
SELECT array_agg(d::text ORDER BY d) = (SELECT array_agg(to_json(id)::text ORDER BY id) FROM points WHERE metres(lng, lat, 5, 45) <= 1000000) AS same FROM treedb.distinct('p', '_id', '{"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [5, 45]}, "$maxDistance": 1000000}}}') d;
SELECT find_one_and_delete('p', '{"at": {"$nearSphere": [5, 45]}}') ->> 'seen' AS first;
SELECT delete_one('p', '{"at": {"$nearSphere": [5, 45]}}') AS second;
SELECT treedb.count('p', '{"seen": {"$gt": 0}}') AS left;
SELECT bulk_write('p', '[{"updateOne": {"filter": {"spot": {"$near": [0, 0]}}, "update": {"$set": {"spot": [99, 99]}}}}, {"deleteMany": {"filter": {"spot": {"$near": [99, 99], "$maxDistance": 0.01}}}}]') ->> 'deletedCount' AS deleted;
SELECT treedb.check('p');

-- A changed path is noticed, whatever is HOT; what is rolled back is not found.
CREATE FUNCTION hot(statement text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE was_hot bigint := pg_stat_get_xact_tuples_hot_updated('g'::regclass);
BEGIN
    EXECUTE statement;
    RETURN pg_stat_get_xact_tuples_hot_updated('g'::regclass) > was_hot;
END $$;
SELECT hot($$SELECT update_one('g', '{"_id": 5}', '{"$set": {"note": 1}}')$$) AS note, hot($$SELECT update_one('g', '{"_id": 5}', '{"$set": {"at": {"type": "Point", "coordinates": [-150.5, -80.25]}}}')$$) AS at,
    hot($$SELECT update_one('g', '{"_id": 10}', '{"$set": {"spot": [99.5, -99.5]}}')$$) AS spot, hot($$SELECT update_one('g', '{"_id": 15}', '{"$set": {"kind": 77}}')$$) AS kind;
SELECT f ->> '_id' AS id FROM find('g', '{"at": {"$geoWithin": {"$centerSphere": [[-150.5, -80.25], 0.00001]}}}') f;
SELECT f ->> '_id' AS id FROM find('g', '{"spot": {"$near": [99.5, -99.5]}}', '{"limit": 1}') f;
SELECT count(*) FROM g WHERE doc @@ '{"kind": 77, "at": {"$geoWithin": {"$centerSphere": [[0, 0], 3.2]}}}';
BEGIN;
SELECT insert_one('g', '{"_id": 4001, "at": [-150.4, -80.2], "spot": [99.6, -99.6]}'), update_one('g', '{"_id": 5}', '{"$set": {"at": [0, 0]}}') ->> 'modifiedCount' AS modified;
SELECT f ->> '_id' AS id FROM find('g', '{"at": {"$nearSphere": [-150.5, -80.25], "$maxDistance": 0.01}}') f;
SAVEPOINT s;
SELECT delete_one('g', '{"at": {"$nearSphere": [-150.5, -80.25]}}');
SELECT f ->> '_id' AS id FROM find('g', '{"at": {"$nearSphere": [-150.5, -80.25], "$maxDistance": 0.01}}') f;
ROLLBACK TO s;
SELECT a ->> '_id' AS id, round((a ->> 'd')::numeric) AS metres FROM aggregate('g', '[{"$geoNear": {"near": {"type": "Point", "coordinates": [-150.5, -80.25]}, "distanceField": "d", "key": "at", "maxDistance": 10000}}]') a;
ROLLBACK;
SELECT f ->> '_id' AS id FROM find('g', '{"at": {"$nearSphere": [-150.5, -80.25], "$maxDistance": 0.01}}') f;
-- COPY and INSERT, a vacuum and a rebuild.
COPY g (doc) FROM STDIN;
{"_id": 5001, "at": [-150.5, -80.26], "spot": [1, 1]}
{"_id": 5002, "at": {"type": "MultiPoint", "coordinates": [[-150.5, -80.27], [100, 50]]}}
{"_id": 5003}
\.
INSERT INTO g VALUES ('{"_id": 5004, "at": {"lng": -150.5, "lat": -80.28}}') RETURNING doc ->> '_id' AS id;
SELECT f ->> '_id' AS id FROM find('g', '{"at": {"$nearSphere": [-150.5, -80.25], "$maxDistance": 0.01}}') f;
UPDATE g SET doc = '{"_id": 5004, "at": [-150.5, -80.24]}' WHERE doc @@ '{"at": {"$geoWithin": {"$centerSphere": [[-150.5, -80.28], 0.00001]}}}';
SELECT f ->> '_id' AS id FROM find('g', '{"at": {"$nearSphere": [-150.5, -80.22], "$maxDistance": 0.01}}') f;
DELETE FROM g WHERE doc @@ '{"_id": {"$mod": [3, 0]}}';
SELECT treedb.check('g');
VACUUM g;
SELECT treedb.check('g');
TRUNCATE bare;
INSERT INTO bare SELECT doc FROM g;
SELECT bool_and(coalesce(find AND "@@", rows = 0) AND count) AS same FROM answers;
REINDEX TABLE g;
SELECT bool_and(coalesce(find AND "@@", rows = 0) AND count) AS same FROM answers;
SELECT treedb.check('g');

-- What is no location is not stored where there is an index.
SELECT insert_one('g', '{"_id": 0, "at": "here"}');
SELECT insert_one('g', '{"_id": 0, "at": [200, 0]}');
SELECT insert_one('g', '{"_id": 0, "at": {"type": "Point", "coordinates": [0, 91]}}');
SELECT insert_one('g', '{"_id": 0, "at": [{"$numberDouble": "NaN"}, 1]}');
SELECT insert_one('g', '{"_id": 0, "at": {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]]}}');
SELECT insert_one('g', '{"_id": 0, "at": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 1], [1, 0], [0, 0]]]}}');
SELECT insert_one('g', '{"_id": 0, "spot": [100.6, 0]}');
SELECT insert_one('g', '{"_id": 0, "spot": {"type": "Point", "coordinates": [1, 1]}}');
SELECT update_one('g', '{"_id": 5002}', '{"$set": {"at": 7}}');
SELECT update_one('g', '{"_id": 5002}', '{"$set": {"spot": [1000, 1000]}}');
INSERT INTO g VALUES ('{"_id": 0, "at": {"type": "What", "coordinates": [1, 1]}}');
COPY g (doc) FROM STDIN;
{"_id": 6001, "at": [1, 1]}
{"_id": 6002, "at": [1, 100]}
\.
SELECT bulk_write('g', '[{"insertOne": {"document": {"_id": 6003, "at": "x"}}}, {"insertOne": {"document": {"_id": 6004, "at": [1, 1]}}}]', '{"ordered": false}') -> 'writeErrors' AS errors;
SELECT treedb.count('g', '{"_id": {"$gt": 6000}}');
CREATE TABLE odd (doc bson);
INSERT INTO odd VALUES ('{"_id": 1, "at": [1, 1]}'), (NULL), ('{"_id": 2, "at": "x", "list": [1, 2]}');
SELECT create_index('odd', '{"at": "2dsphere"}');
SELECT create_index('odd', '{"at": "2dsphere", "kind": 1}', '{"partialFilterExpression": {"_id": 1}}');
SELECT find('odd', '{"_id": 1, "at": {"$nearSphere": [0, 0]}}');
SELECT find('odd', '{"at": {"$nearSphere": [0, 0]}}');
SELECT list_indexes('odd'), treedb.check('odd');

-- Options that cannot be, and conditions that cannot.
SELECT create_index('g', '{"a": "2dsphere"}', '{"unique": true}');
SELECT create_index('g', '{"a": "2dsphere"}', '{"expireAfterSeconds": 5}');
SELECT create_index('g', '{"a": "2dsphere"}', '{"2dsphereIndexVersion": 4}');
SELECT create_index('g', '{"a": 1, "b": "2d"}');
SELECT create_index('g', '{"a": "2d"}', '{"min": 5, "max": 5}');
SELECT create_index('g', '{"a": "2d"}', '{"bits": 33}');
SELECT create_index('g', '{"a": "2d"}', '{"collation": {"locale": "en"}}');
SELECT create_index('g', '{"a": "2d", "b": "2dsphere"}');
SELECT find('g', '{"other": {"$near": [0, 0]}}');
SELECT find('g', '{"at": {"$near": [0, 0]}}');
SELECT find('g', '{"at": {"$nearSphere": [0, 0]}}', '{"hint": "_id_"}');
SELECT find('g', '{"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [0, 0]}, "$maxDistance": -1}}}');
SELECT find('g', '{"$or": [{"at": {"$nearSphere": [0, 0]}}, {"kind": 1}]}');
SELECT doc FROM g WHERE doc @@ '{"at": {"$nearSphere": [0, 0]}}';
SELECT aggregate('g', '[{"$match": {"at": {"$nearSphere": [0, 0]}}}]');
CREATE INDEX ON g USING treedb_btree (keys(doc, '{"key": {"other": "2dsphere"}}'));
SELECT aggregate('g', '[{"$geoNear": {"near": {"type": "Point", "coordinates": [0, 0]}, "distanceField": "d"}}]');
SELECT aggregate('g', '[{"$match": {}}, {"$geoNear": {"near": [0, 0], "distanceField": "d"}}]');
SELECT aggregate('g', '[{"$geoNear": {"distanceField": "d"}}]');
SELECT aggregate('bare', '[{"$geoNear": {"near": [0, 0], "distanceField": "d"}}]');
SELECT aggregate('nothing', '[{"$geoNear": {"near": [0, 0], "distanceField": "d"}}]');
SELECT coll_mod('g', '{"validator": {"at": {"$near": [0, 0]}}}');

-- Hidden, and gone.
SELECT coll_mod('g', '{"index": {"keyPattern": {"at": "2dsphere"}, "hidden": true}}');
SELECT find('g', '{"at": {"$nearSphere": [-150.5, -80.25]}}', '{"limit": 1}');
SELECT f ->> '_id' AS id FROM find('g', '{"at": {"$nearSphere": [-150.5, -80.25]}, "kind": 1}', '{"limit": 1}') f;
SELECT drop_index('g', 'at_2dsphere'), drop_index('g', 'kind_1_at_2dsphere'), drop_index('g', 'spot_2d_kind_-1');
SELECT insert_one('g', '{"_id": 7001, "at": "anything", "spot": 5}');
SELECT treedb.count('g', '{"at": {"$geoWithin": {"$centerSphere": [[-150.5, -80.25], 0.01]}}}');

DROP VIEW answers, nearest, points;
DROP TABLE questions, bare, g, p, odd;
DROP FUNCTION r, place, metres, estimated, examined, hot;
