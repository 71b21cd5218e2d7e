-- The same questions to a collection with indexes and to one without: the same answers, whatever the plan.
SET search_path = public, treedb;
CREATE TEMP TABLE source AS
SELECT i, CASE
    WHEN i % 17 = 0 THEN jsonb_build_object('_id', i, 'k', null)
    WHEN i % 13 = 0 THEN jsonb_build_object('_id', 'id' || i, 'k', 's' || i % 7, 'n', i % 40, 'deep', jsonb_build_object('v', i % 5))
    WHEN i % 11 = 0 THEN jsonb_build_object('_id', i, 'k', jsonb_build_array(i % 9, 'x', i % 4), 'n', i % 40)
    WHEN i % 7 = 0 THEN jsonb_build_object('_id', i, 'k', '[]'::jsonb, 'n', i % 40 + 0.5, 'deep', jsonb_build_array(jsonb_build_object('v', i % 5), jsonb_build_object('v', 'z')))
    WHEN i % 5 = 0 THEN jsonb_build_object('_id', i, 'n', i % 40)
    ELSE jsonb_build_object('_id', i, 'k', i % 50, 'n', i % 40, 'deep', jsonb_build_object('v', i % 5)) END AS doc
FROM generate_series(1, 2000) i;
SELECT create_collection('bare'), create_collection('indexed');
SELECT create_index('indexed', '{"k": 1}'), create_index('indexed', '{"n": -1, "k": 1}');
INSERT INTO bare SELECT doc FROM source ORDER BY i;
INSERT INTO indexed SELECT doc FROM source ORDER BY i;
-- One index is built over rows that are there.
SELECT create_index('indexed', '{"deep.v": 1, "_id": -1}');
ANALYZE bare; ANALYZE indexed;

CREATE TEMP TABLE questions (n serial, filter bson, options bson);
INSERT INTO questions (filter, options) VALUES
    ('{}', '{"sort": {"_id": 1}}'), ('{}', '{"sort": {"_id": -1}, "limit": 10}'),
    ('{"k": 5}', '{"sort": {"_id": 1}}'), ('{"k": "x"}', '{"sort": {"_id": 1}}'), ('{"k": null}', '{"sort": {"_id": 1}}'),
    ('{"k": []}', '{"sort": {"_id": 1}}'), ('{"k": {"$gt": 45}}', '{"sort": {"_id": 1}}'), ('{"k": {"$gte": "s3", "$lt": "s5"}}', '{"sort": {"_id": 1}}'),
    ('{"k": {"$in": [1, "s2", null]}}', '{"sort": {"_id": 1}}'), ('{"k": {"$ne": 3}}', '{"sort": {"_id": 1}}'), ('{"k": {"$nin": [3, "x"]}}', '{"sort": {"_id": 1}}'),
    ('{"k": {"$exists": false}}', '{"sort": {"_id": 1}}'), ('{"k": {"$gt": 2, "$lt": 4}}', '{"sort": {"_id": 1}}'),
    ('{"n": 7}', '{"sort": {"k": 1, "_id": 1}}'), ('{"n": 7, "k": {"$gte": 10}}', '{"sort": {"_id": 1}}'), ('{"n": {"$gte": 38}}', '{"sort": {"n": -1, "k": 1, "_id": 1}}'),
    ('{"n": {"$lt": 3}}', '{"sort": {"n": 1, "_id": 1}, "skip": 7, "limit": 20}'), ('{"n": 3.5}', '{"sort": {"_id": 1}}'),
    ('{}', '{"sort": {"n": -1, "_id": 1}, "limit": 50}'), ('{}', '{"sort": {"k": 1, "_id": 1}}'), ('{}', '{"sort": {"k": -1, "_id": 1}, "limit": 100}'),
    ('{"deep.v": 2}', '{"sort": {"_id": -1}}'), ('{"deep.v": "z"}', '{"sort": {"_id": 1}}'), ('{"deep.v": {"$gte": 3}}', '{"sort": {"_id": 1}, "projection": {"deep": 1}}'),
    ('{"deep": {"v": 2}}', '{"sort": {"_id": 1}}'), ('{"_id": 77}', '{}'), ('{"_id": 77.0}', '{}'), ('{"_id": "id13"}', '{}'), ('{"_id": {"$gte": 1990}}', '{"sort": {"_id": 1}}'),
    ('{"_id": {"$lt": 12}}', '{"sort": {"_id": -1}}'), ('{"_id": null}', '{}'), ('{"_id": {"$in": [5, 6, "id26", null, 5.5]}}', '{"sort": {"_id": 1}}'),
    ('{"$or": [{"k": 1}, {"n": 39}]}', '{"sort": {"_id": 1}}'), ('{"$and": [{"k": {"$gt": 3}}, {"k": {"$lt": 5}}, {"n": {"$gt": 20}}]}', '{"sort": {"_id": 1}}'),
    ('{"$nor": [{"k": {"$gt": 3}}, {"n": {"$gt": 2}}]}', '{"sort": {"_id": 1}}'), ('{"k": {"$not": {"$gt": 3}}, "n": 1}', '{"sort": {"_id": 1}}');

CREATE VIEW answers AS
SELECT n, filter, options, md5(string_agg(b::text, '' ORDER BY ob)) AS bare, md5(string_agg(x::text, '' ORDER BY ob)) AS indexed, count(b) AS rows
FROM questions, LATERAL (SELECT b, x, ob FROM
    (SELECT row_number() OVER () AS ob, b FROM find('bare', filter, options) b) s FULL JOIN
    (SELECT row_number() OVER () AS ob, x FROM find('indexed', filter, options) x) t USING (ob)) both_sides
GROUP BY 1, 2, 3;
SELECT count(*) AS questions, count(*) FILTER (WHERE bare IS DISTINCT FROM indexed) AS different FROM answers;
-- What the operator says, row by row, is what count says.
SELECT count(*) AS questions, count(*) FILTER (WHERE treedb.count('indexed', filter) <> (SELECT count(*) FROM bare WHERE doc @@ filter)) AS different FROM questions;
-- Indexes were used where they help.
CREATE FUNCTION plan_of(filter bson, options bson) RETURNS bson LANGUAGE sql AS $$
    SELECT treedb.explain((jsonb_build_object('find', 'indexed', 'filter', filter::jsonb) || options::jsonb)::bson)
$$;
SELECT n, filter, substring(plan from 'COLLSCAN|IXSCAN|IDHACK') AS stage, substring(plan from '"indexName":"([^"]*)"') AS index,
    (e ->> 'executionStats.totalKeysExamined')::int < 800 AS few, e ->> 'executionStats.nReturned' AS returned
FROM questions, LATERAL plan_of(filter, options) e, LATERAL (SELECT e ->> 'queryPlanner.winningPlan') p(plan)
WHERE n IN (2, 3, 9, 14, 22, 26, 29, 30, 31) ORDER BY n;
SELECT plan_of('{"k": 5}', '{"hint": "$natural"}') ->> 'queryPlanner.winningPlan.stage', plan_of('{"n": 7, "k": 5}', '{"hint": "k_1"}') ->> 'queryPlanner.winningPlan.inputStage.indexName';

-- After updates and deletes of many rows, with old entries in the indexes, and after a vacuum.
SELECT update_many('bare', '{"n": {"$gte": 30}}', '{"$inc": {"n": -30, "k2": 1}, "$unset": {"deep": 1}}'), update_many('indexed', '{"n": {"$gte": 30}}', '{"$inc": {"n": -30, "k2": 1}, "$unset": {"deep": 1}}');
SELECT delete_many('bare', '{"k": {"$in": [1, 2, "x"]}}'), delete_many('indexed', '{"k": {"$in": [1, 2, "x"]}}');
SELECT count(*) AS questions, count(*) FILTER (WHERE bare IS DISTINCT FROM indexed) AS different FROM answers;
VACUUM indexed;
SELECT count(*) AS questions, count(*) FILTER (WHERE bare IS DISTINCT FROM indexed) AS different FROM answers;
VACUUM FULL indexed;
REINDEX TABLE indexed;
SELECT count(*) AS questions, count(*) FILTER (WHERE bare IS DISTINCT FROM indexed) AS different FROM answers;
SELECT treedb.check('indexed');
-- HOT updates: another column changes, the documents' entries lead to the root of the chain.
ALTER TABLE indexed ADD COLUMN touched int;
UPDATE indexed SET touched = 1;
UPDATE indexed SET touched = 2 WHERE doc @@ '{"n": {"$lt": 5}}';
SELECT count(*) AS questions, count(*) FILTER (WHERE bare IS DISTINCT FROM indexed) AS different FROM answers;
SELECT update_many('indexed', '{"n": {"$lt": 5}}', '{"$set": {"hot": true}}') ->> 'modifiedCount' = treedb.count('bare', '{"n": {"$lt": 5}}')::text AS all_found;
SELECT count(*), count(touched) FROM indexed WHERE doc @@ '{"hot": true}' AND touched = 2;

-- Rows without an _id (the trigger was off) have the key of null.
ALTER TABLE bare DISABLE TRIGGER treedb_id; ALTER TABLE indexed DISABLE TRIGGER treedb_id;
INSERT INTO bare VALUES ('{"none": 1}'), ('{"_id": null, "none": 2}'); INSERT INTO indexed VALUES ('{"none": 1}'), ('{"_id": null, "none": 2}');
SELECT find('indexed', '{"_id": null}', '{"sort": {"none": 1}}');
SELECT find('indexed', '{"_id": {"$in": [null, 1]}}', '{"sort": {"_id": -1}, "projection": {"_id": 1, "none": 1}}');
SELECT plan_of('{"_id": null}', '{}') ->> 'queryPlanner.winningPlan.stage' AS stage;

-- Keys longer than entries are stored shortened: found, and ordered by a sort.
SELECT create_collection('long');
SELECT create_index('long', '{"t": 1}');
INSERT INTO long SELECT jsonb_build_object('_id', i, 't', repeat('p', 2800 + i % 3) || i) FROM generate_series(1, 40) i;
SELECT treedb.count('long', jsonb_build_object('t', repeat('p', 2801) || '7')::bson), treedb.count('long', jsonb_build_object('t', jsonb_build_object('$gte', repeat('p', 2801)))::bson),
    treedb.count('long', jsonb_build_object('t', jsonb_build_object('$lt', repeat('p', 2801)))::bson);
SELECT count(*), count(*) FILTER (WHERE a.doc IS DISTINCT FROM b.doc) AS different FROM
    (SELECT row_number() OVER () AS n, doc FROM find('long', '{}', '{"sort": {"t": 1}}') doc) a FULL JOIN
    (SELECT row_number() OVER (ORDER BY doc -> 't') AS n, doc FROM long) b USING (n);
SELECT treedb.explain('{"find": "long", "sort": {"t": 1}}') ->> 'queryPlanner.winningPlan.stage' AS stage;
DROP VIEW answers;
DROP FUNCTION plan_of;
DROP TABLE bare, indexed, long;
