-- Indexes of every kind that the library has: what list_indexes says, whether queries use them, and that answers are
-- those of a collection without indexes.
SET search_path = public, treedb;
SELECT create_collection('bare'), create_collection('i');
INSERT INTO bare SELECT CASE n % 4
    WHEN 0 THEN jsonb_build_object('_id', n, 'a', n % 20, 's', 'Word' || n % 6, 'w', jsonb_build_object('k1', n % 7, 'k2', 'v' || n % 3))
    WHEN 1 THEN jsonb_build_object('_id', n, 'a', n % 20, 's', 'word' || n % 6, 'w', jsonb_build_object('k1', jsonb_build_array(n % 5, n % 3)))
    WHEN 2 THEN jsonb_build_object('_id', n, 's', 'WORD' || n % 6, 'w', n % 9)
    ELSE jsonb_build_object('_id', n, 'a', null, 'r', n) END::bson
FROM generate_series(1, 400) n;
INSERT INTO i SELECT doc FROM bare;
SELECT create_index('i', '{"a": 1}', '{"sparse": true, "name": "sparse"}');
SELECT create_index('i', '{"a": 1}', '{"partialFilterExpression": {"a": {"$gt": 15}}, "name": "partial"}');
SELECT create_index('i', '{"a": -1}', '{"hidden": true, "name": "hidden"}');
SELECT create_index('i', '{"s": 1}', '{"collation": {"locale": "en", "strength": 2}}');
SELECT create_index('i', '{"w.$**": 1}');
SELECT create_index('i', '{"$**": 1}', '{"wildcardProjection": {"r": 1}, "name": "some"}');
SELECT create_index('i', '{"s": "hashed"}');
SELECT create_index('i', '{"r": 1}', '{"unique": true, "sparse": true, "name": "unique_sparse"}');
SELECT create_index('i', '{"_id": 1}');
SELECT list_indexes('i');
\d i
-- Asked for again they are there; with other options they are refused.
SELECT create_index('i', '{"a": 1}', '{"sparse": true, "name": "sparse"}'), create_index('i', '{"w.$**": 1}');
SELECT create_index('i', '{"a": 1}', '{"sparse": true}');
SELECT create_index('i', '{"s": 1}', '{"name": "s_1"}');
ANALYZE i;

CREATE TABLE questions (n serial, filter bson, options bson);
INSERT INTO questions (filter, options) VALUES
    ('{"a": 3}', '{"sort": {"_id": 1}}'), ('{"a": null}', '{"sort": {"_id": 1}}'), ('{"a": {"$exists": false}}', '{"sort": {"_id": 1}}'),
    ('{"a": {"$gt": 16}}', '{"sort": {"a": 1, "_id": 1}}'), ('{"a": {"$gte": 15}}', '{"sort": {"_id": 1}}'), ('{}', '{"sort": {"a": 1, "_id": 1}}'),
    ('{"s": "word1"}', '{"sort": {"_id": 1}}'), ('{"s": "word1"}', '{"sort": {"_id": 1}, "collation": {"locale": "en", "strength": 2}}'),
    ('{"s": {"$gte": "WORD4"}}', '{"sort": {"s": 1, "_id": 1}, "collation": {"locale": "en", "strength": 2}}'),
    ('{"s": {"$in": ["Word0", "word5", null]}}', '{"sort": {"_id": 1}}'),
    ('{"w.k1": 3}', '{"sort": {"_id": 1}}'), ('{"w.k2": "v1"}', '{"sort": {"_id": 1}}'), ('{"w.k1": {"$gt": 4}}', '{"sort": {"_id": 1}}'), ('{"w": 5}', '{"sort": {"_id": 1}}'),
    ('{"w.k2": {"$exists": true}}', '{"sort": {"_id": 1}}'), ('{"r": 203}', '{}'), ('{"r": {"$gt": 390}}', '{"sort": {"r": -1}}'), ('{"r": null}', '{"sort": {"_id": 1}}');
CREATE VIEW answers AS
SELECT n, md5(string_agg(b::text, '' ORDER BY o)) AS bare, md5(string_agg(x::text, '' ORDER BY o)) AS indexed, count(b) AS rows
FROM questions LEFT JOIN LATERAL (SELECT b, x, o FROM
    (SELECT row_number() OVER () AS o, b FROM find('bare', filter, options) b) s FULL JOIN
    (SELECT row_number() OVER () AS o, x FROM find('i', filter, options) x) t USING (o)) both_sides ON true
GROUP BY 1;
SELECT count(*) AS questions, count(*) FILTER (WHERE bare IS DISTINCT FROM indexed) AS different, sum(rows) AS rows FROM answers;
SELECT n, filter, substring(e ->> 'queryPlanner.winningPlan' from '"indexName":"([^"]*)"') AS index
FROM questions, LATERAL treedb.explain((jsonb_build_object('find', 'i', 'filter', filter::jsonb) || options::jsonb)::bson, 'queryPlanner') e ORDER BY n;
-- A hidden index is not used, whatever the hint.
SELECT find('i', '{"a": 3}', '{"hint": "hidden"}');

-- Changes keep them right; so do a rebuild and a vacuum.
SELECT update_many('bare', '{"a": {"$lt": 5}}', '{"$set": {"a": 17, "s": "word0"}, "$unset": {"w": 1}}') ->> 'modifiedCount' = update_many('i', '{"a": {"$lt": 5}}', '{"$set": {"a": 17, "s": "word0"}, "$unset": {"w": 1}}') ->> 'modifiedCount' AS same;
SELECT update_many('bare', '{"a": 16}', '{"$unset": {"a": 1}}') ->> 'modifiedCount' = update_many('i', '{"a": 16}', '{"$unset": {"a": 1}}') ->> 'modifiedCount' AS same;
SELECT delete_many('bare', '{"s": {"$regex": "1$"}}') = delete_many('i', '{"s": {"$regex": "1$"}}') AS same;
SELECT count(*) AS questions, count(*) FILTER (WHERE bare IS DISTINCT FROM indexed) AS different FROM answers;
SELECT treedb.check('i');
VACUUM i; REINDEX TABLE i;
SELECT count(*) AS questions, count(*) FILTER (WHERE bare IS DISTINCT FROM indexed) AS different FROM answers;
SELECT treedb.check('i');

-- Unique: sparse and partial ones leave documents out; sql/unique_arrays.sql has the rest.
SELECT insert_one('i', '{"_id": 1001}'), insert_one('i', '{"_id": 1002}');
SELECT insert_one('i', '{"_id": 1003, "r": 203}');
SELECT insert_one('i', '{"_id": 1003, "r": [1, 2]}');
SELECT create_index('i', '{"mail": 1}', '{"unique": true, "collation": {"locale": "en", "strength": 2}, "partialFilterExpression": {"mail": {"$exists": true}}}');
SELECT insert_one('i', '{"_id": 1004, "mail": "Ada@x"}');
SELECT insert_one('i', '{"_id": 1005, "mail": "ada@X"}');
SELECT create_index('i', '{"a": 1}', '{"unique": true, "name": "a_unique"}');

-- coll_mod: hidden and expireAfterSeconds.
SELECT coll_mod('i', '{"index": {"name": "hidden", "hidden": false}}');
SELECT find('i', '{"_id": 2}', '{"hint": "hidden", "projection": {"s": 1}}');
SELECT coll_mod('i', '{"index": {"keyPattern": {"w.$**": 1}, "hidden": true}}'), coll_mod('i', '{"index": {"name": "unique_sparse", "hidden": true}}');
SELECT i FROM list_indexes('i') i WHERE i ? 'hidden';
SELECT insert_one('i', '{"_id": 1006, "r": 203}');
SELECT coll_mod('i', '{"index": {"name": "nothing", "hidden": true}}');
SELECT coll_mod('i', '{"index": {"hidden": true}}');
SELECT coll_mod('i', '{"index": {"name": "hidden"}}');
SELECT coll_mod('i', '{"index": {"name": "hidden", "sparse": true}}');
SELECT coll_mod('i', '{"index": {"name": "_id_", "hidden": true}}');
SELECT coll_mod('i', '{"index": {"name": "w.$**_1", "expireAfterSeconds": 1}}');

-- What was said of background is kept and listed, and makes no other index.
SELECT create_index('i', '{"b": 1}', '{"background": true}'), create_index('i', '{"b": -1}', '{"background": false, "unique": true, "sparse": true}'), create_index('i', '{"c": 1}');
SELECT create_index('i', '{"b": 1}'), create_index('i', '{"b": 1}', '{"background": false}'), create_index('i', '{"c": 1}', '{"background": true}');
SELECT i FROM list_indexes('i') i WHERE i ->> 'name' IN ('b_1', 'b_-1', 'c_1');
SELECT pg_get_indexdef('i_b_1'::regclass);
SELECT insert_one('i', '{"_id": 2001, "b": 7}');
SELECT find('i', '{"b": 7}', '{"hint": "b_1"}');
SELECT insert_one('i', '{"_id": 2002, "b": 7}');
SELECT coll_mod('i', '{"index": {"name": "b_1", "hidden": true}}');
SELECT i FROM list_indexes('i') i WHERE i ? 'background';
SELECT create_index('i', '{"x": 1}', '{"background": "yes"}');
SELECT create_index('i', '{"_id": 1}', '{"background": true}');

-- What does not go together, and what there is not.
SELECT create_index('i', '{"x": 1}', '{"sparse": true, "partialFilterExpression": {"x": 1}}');
SELECT create_index('i', '{"x": 1}', '{"partialFilterExpression": {"x": {"$ne": 1}}}');
SELECT create_index('i', '{"x": "hashed"}', '{"unique": true}');
SELECT create_index('i', '{"x": 1, "y": 1}', '{"expireAfterSeconds": 1}');
SELECT create_index('i', '{"x": 1}', '{"expireAfterSeconds": "soon"}');
SELECT create_index('i', '{"x": 1}', '{"collation": {"locale": "xx"}}');
SELECT create_index('i', '{"x": "text"}');
SELECT create_index('i', '{"$**": 1}', '{"sparse": true}');
SELECT create_index('i', '{"x": 1}', '{"wildcardProjection": {"x": 1}}');
SELECT create_index('i', '{"x": 1}', '{"sparse": "yes"}');
SELECT create_index('i', '{"x": 1}', '{"weights": {}}');

-- TTL: expire() deletes what has expired, and only that.
SELECT create_collection('sessions'), create_collection('half');
SELECT insert_many('sessions', ARRAY[
    '{"_id": 1, "seen": {"$date": "2020-01-01T00:00:00Z"}}', '{"_id": 2, "seen": {"$date": "2999-01-01T00:00:00Z"}}', '{"_id": 3, "seen": 5}', '{"_id": 4}',
    '{"_id": 5, "seen": [{"$date": "2999-01-01T00:00:00Z"}, {"$date": "2020-01-01T00:00:00Z"}]}', '{"_id": 6, "seen": "2020-01-01"}']::bson[]);
INSERT INTO sessions VALUES (jsonb_build_object('_id', 7, 'seen', jsonb_build_object('$date', to_char(now() AT TIME ZONE 'UTC' - interval '10 minutes', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')))::bson);
SELECT expire('sessions');
SELECT create_index('sessions', '{"seen": 1}', '{"expireAfterSeconds": 3600}'), list_indexes('sessions');
SELECT * FROM expire();
SELECT treedb.distinct('sessions', '_id');
SELECT coll_mod('sessions', '{"index": {"name": "seen_1", "expireAfterSeconds": 60}}'), expire('sessions'), expire('sessions');
SELECT create_index('half', '{"at": -1}', '{"expireAfterSeconds": 0, "partialFilterExpression": {"done": true}}');
SELECT insert_many('half', '[{"_id": 1, "at": {"$date": "2020-01-01T00:00:00Z"}, "done": true}, {"_id": 2, "at": {"$date": "2020-01-01T00:00:00Z"}}]');
CREATE ROLE sweeper;
GRANT USAGE ON SCHEMA treedb TO sweeper;
GRANT SELECT, DELETE ON half TO sweeper;
SET ROLE sweeper;
SELECT * FROM expire();
SELECT expire('sessions');
RESET ROLE;
SELECT find('half');
DROP VIEW answers;
DROP TABLE questions, bare, i, sessions, half;
REVOKE USAGE ON SCHEMA treedb FROM sweeper;
DROP ROLE sweeper;
