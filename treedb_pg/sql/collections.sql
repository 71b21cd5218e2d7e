-- Collections: create, insert, find, count, update, delete, indexes, and the table underneath.
SELECT treedb.create_collection('films');
\d films
SELECT treedb.create_collection('films');
SELECT treedb.insert_one('films', '{"_id": 1, "title": "Alien", "year": 1979, "tags": ["horror", "space"]}');
-- Without an _id it gets one; one that is not first is moved to the front.
SELECT treedb.insert_one('films', '{"title": "Solaris", "_id": 2, "year": 1972, "tags": ["space"]}');
SELECT treedb.insert_one('films', '{"title": "Nameless"}')::text ~ '^{"\$oid":"[0-9a-f]{24}"}$' AS made;
SELECT treedb.delete_many('films', '{"title": "Nameless"}');
SELECT treedb.insert_many('films', ARRAY['{"_id": 3, "title": "Stalker", "year": 1979, "tags": []}', '{"_id": 4, "title": "Heat", "year": 1995}']::treedb.bson[]);
SELECT treedb.insert_many('films', '[{"_id": 5, "title": "Moon", "year": 2009.0, "tags": ["space"]}, {"_id": 6, "title": "Short", "year": null}]');
SELECT treedb.insert_many('films', '{"_id": "x", "title": "Line 1"}
{"_id": "y", "title": "Line 2"}');
SELECT treedb.insert_many('films', '[]'), treedb.insert_many('films', '{}'::treedb.bson[]);

-- find: filter, sort, projection, skip, limit.
SELECT treedb.find('films');
SELECT treedb.find('films', '{"tags": "space"}', '{"sort": {"year": -1}, "projection": {"title": 1, "_id": 0}}');
SELECT treedb.get(doc, 'title') AS title FROM treedb.find('films', '{"year": {"$gte": 1979}}', '{"sort": {"year": 1, "title": -1}, "skip": 1, "limit": 2}') doc;
SELECT doc FROM treedb.find('films', '{"_id": {"$in": [1, "y", 9]}}', '{"sort": {"_id": -1}}') doc;
SELECT treedb.find('films', '{"year": null}', '{"projection": {"tags": 0}}');
SELECT treedb.count('films', '{}'), treedb.count('films', '{"year": 1979}'), treedb.count('films', '{}', '{"skip": 6}'), treedb.count('films', '{}', '{"limit": 3}');
SELECT count(*) FROM films WHERE doc OPERATOR(treedb.@@) '{"year": 1979}';

-- update: one, many, upsert, replacement.
SELECT treedb.update_one('films', '{"year": 1979}', '{"$set": {"seen": true}}');
SELECT treedb.update_many('films', '{"tags": "space"}', '{"$inc": {"views": 2}, "$unset": {"seen": 1}}');
SELECT treedb.update_many('films', '{"tags": "space"}', '{"$set": {"views": 2}}');
SELECT treedb.update_one('films', '{"_id": 4}', '{"title": "Heat", "year": 1995, "replaced": true}');
SELECT treedb.update_one('films', '{"_id": 7, "title": "New"}', '{"$set": {"year": 2020}}', '{"upsert": true}');
SELECT treedb.update_one('films', '{"_id": 8}', '{"$set": {"year": 2020}}');
SELECT treedb.find('films', '{}', '{"sort": {"_id": 1}}');

-- delete.
SELECT treedb.delete_one('films', '{"year": 1979}'), treedb.delete_many('films', '{"_id": {"$in": ["x", "y", 7]}}'), treedb.delete_many('films', '{"_id": 99}');
SELECT treedb.count('films', '{}');

-- It is a table: SQL reads and writes it, and the _id is seen to.
INSERT INTO films VALUES ('{"title": "By hand", "_id": 10}'), ('{"_id": 11}');
UPDATE films SET doc = '{"title": "Replaced"}' WHERE doc OPERATOR(treedb.->) '_id' OPERATOR(treedb.=) '10';
COPY films FROM stdin;
{"_id": 20, "title": "Copied"}
{"title": "Copied too", "_id": 21}
\.
COPY (SELECT doc FROM films WHERE doc OPERATOR(treedb.@@) '{"_id": {"$gte": 10}}' ORDER BY doc) TO stdout;
INSERT INTO films VALUES ('{"_id": 10, "v": 2}') ON CONFLICT ((doc OPERATOR(treedb.->) '_id')) DO UPDATE SET doc = excluded.doc;
INSERT INTO films VALUES (NULL);
SELECT treedb.find('films', '{"_id": 10}');
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM films WHERE doc OPERATOR(treedb.->) '_id' OPERATOR(treedb.=) '10';
RESET enable_seqscan;

-- Duplicates.
SELECT treedb.insert_one('films', '{"_id": 10.0}');
SELECT treedb.insert_many('films', '[{"_id": 30}, {"_id": 30}]');
SELECT treedb.count('films', '{"_id": 30}');
INSERT INTO films VALUES ('{"_id": 10}');
BEGIN;
SELECT treedb.insert_one('films', '{"_id": 31}');
SAVEPOINT s;
SELECT treedb.insert_one('films', '{"_id": 31}');
ROLLBACK TO s;
SELECT treedb.insert_one('films', '{"_id": 32}');
SELECT treedb.count('films', '{"_id": {"$gt": 30}}');
ROLLBACK;
SELECT treedb.count('films', '{"_id": {"$gt": 30}}');

-- Functions of one statement see what the earlier ones did; a statement does not see what it is doing.
BEGIN;
DO $$ BEGIN
    PERFORM treedb.insert_one('films', '{"_id": 40, "n": 1}');
    PERFORM treedb.update_one('films', '{"_id": 40}', '{"$inc": {"n": 1}}');
    IF (SELECT doc OPERATOR(treedb.->>) 'n' FROM treedb.find('films', '{"_id": 40}') doc) <> '2' THEN RAISE 'not seen'; END IF;
END $$;
SELECT treedb.update_many('films', '{}', '{"$inc": {"n": 1}}') OPERATOR(treedb.->>) 'modifiedCount' = treedb.count('films', '{}')::text AS each_once;
ROLLBACK;

-- Triggers, more columns, constraints, generated columns: as for any UPDATE.
CREATE TABLE extended (id int GENERATED ALWAYS AS IDENTITY, note text DEFAULT 'none', doc treedb.bson CHECK (doc OPERATOR(treedb.@@) '{"n": {"$lt": 10}}'),
    n text GENERATED ALWAYS AS (treedb.get_text(doc, 'n')) STORED) USING treedb;
INSERT INTO extended (note, doc) VALUES ('kept', '{"_id": 1, "n": 1}');
SELECT treedb.update_many('extended', '{}', '{"$inc": {"n": 1}}');
SELECT * FROM extended;
SELECT treedb.update_many('extended', '{}', '{"$inc": {"n": 10}}');
CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% % %', TG_WHEN, TG_OP, TG_LEVEL; RETURN NEW; END $$;
CREATE TRIGGER told_after AFTER UPDATE ON extended FOR EACH ROW EXECUTE FUNCTION told();
CREATE TRIGGER told_before BEFORE UPDATE OF doc ON extended FOR EACH ROW EXECUTE FUNCTION told();
CREATE TRIGGER not_told BEFORE UPDATE OF note ON extended FOR EACH ROW EXECUTE FUNCTION told();
CREATE TRIGGER told_statement BEFORE INSERT OR UPDATE OF doc OR DELETE ON extended EXECUTE FUNCTION told();
CREATE TRIGGER told_statement_after AFTER INSERT OR UPDATE OR DELETE ON extended EXECUTE FUNCTION told();
SELECT treedb.update_many('extended', '{}', '{"$set": {"n": 5}}');
SELECT treedb.update_one('extended', '{"_id": 9}', '{"$set": {"n": 5}}', '{"upsert": true}');
SELECT treedb.insert_one('extended', '{"_id": 3, "n": 1}'), treedb.delete_many('extended', '{"_id": 3}');
SELECT * FROM extended ORDER BY doc;
CREATE TRIGGER told_table AFTER UPDATE ON extended REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION told();
SELECT treedb.update_many('extended', '{}', '{"$set": {"n": 6}}');
SELECT treedb.delete_many('extended', '{"_id": 9}');
DROP TABLE extended;
DROP FUNCTION told;

-- Indexes.
SELECT treedb.create_index('films', '{"year": 1, "title": -1}');
SELECT treedb.create_index('films', '{"year": 1, "title": -1}');
SELECT treedb.create_index('films', '{"year": 1, "title": -1}', '{"name": "other"}');
SELECT treedb.create_index('films', '{"tags": 1}', '{"name": "by_tag"}');
SELECT treedb.delete_many('films', '{"_id": {"$gte": 11}}');
SELECT treedb.create_index('films', '{"title": 1}', '{"unique": true}');
SELECT treedb.create_index('films', '{"year": 1}', '{"unique": true}');
SELECT treedb.list_indexes('films');
\d films
SELECT treedb.insert_one('films', '{"_id": 50, "title": "Solaris"}');
SELECT treedb.update_one('films', '{"title": "Heat"}', '{"$set": {"title": "Solaris"}}');
SELECT treedb.insert_one('films', '{"_id": 50, "title": ["in", "array"]}');
SELECT treedb.drop_index('films', 'title_1'), treedb.drop_index('films', 'films_by_tag');
SELECT treedb.drop_index('films', '_id_');
SELECT treedb.drop_index('films', 'nothing');
SELECT treedb.list_collections();
SELECT treedb.drop_collection('films'), treedb.drop_collection('films');
SELECT treedb.list_collections();

-- Names are SQL's: folded unless quoted, schemas.
CREATE SCHEMA app;
SELECT treedb.create_collection('app.Things'), treedb.create_collection('app."Big Things"');
SELECT treedb.insert_one('APP.things', '{"_id": 1}'), treedb.insert_one('app."Big Things"', '{"_id": 2}');
SELECT treedb.create_index('app."Big Things"', '{"a.b": 1}');
SELECT treedb.list_indexes('app."Big Things"');
SET search_path = app, public;
SELECT treedb.find('things'), treedb.drop_collection('"Big Things"');
RESET search_path;
DROP SCHEMA app CASCADE;
SELECT treedb.create_collection(repeat('x', 60));
SELECT treedb.create_collection('a.b.c.d');

-- Documents out of line: 200 kB, changed and found again. JSON lines as they are through COPY's csv format.
SELECT treedb.create_collection('big');
SELECT treedb.insert_one('big', jsonb_build_object('_id', i, 'n', 0, 'parts', (SELECT jsonb_agg(md5(i::text || p)) FROM generate_series(1, 5000) p))::treedb.bson) FROM generate_series(1, 5) i;
SELECT treedb.update_many('big', '{"_id": {"$lte": 3}}', '{"$inc": {"n": 1}}');
SELECT treedb.update_many('big', '{"n": 1}', '{"$unset": {"parts": 1}}');
SELECT doc OPERATOR(treedb.->) '_id' AS id, doc OPERATOR(treedb.->) 'n' AS n, length(doc::bytea) AS bytes, md5(treedb.get_text(doc, 'parts.4999')) = md5(md5(treedb.get_text(doc, '_id') || 5000)) AS whole FROM big ORDER BY 1;
SELECT treedb.count('big', '{"parts": {"$exists": true}}'), treedb.delete_many('big', '{}');
COPY big FROM stdin WITH (FORMAT csv, QUOTE e'\x01', DELIMITER e'\x02');
{"_id": 1, "text": "a \"quoted\" word, a tab \t and a comma", "big": 12345678901234567890, "long": 1234567890123}
\.
SELECT * FROM treedb.find('big');
INSERT INTO big VALUES (jsonb_build_object('_id', repeat('x', 20000))::treedb.bson);
SELECT treedb.insert_one('big', jsonb_build_object('_id', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i))::treedb.bson);

-- Errors that are caught leave nothing behind.
DO $$
DECLARE caught int := 0;
BEGIN
    FOR i IN 1 .. 300 LOOP
        BEGIN
            PERFORM treedb.insert_one('big', '{"_id": 2}');
            PERFORM treedb.update_many('big', '{}', '{"$inc": {"text": 1}}');
        EXCEPTION WHEN datatype_mismatch THEN caught := caught + 1;
        END;
        BEGIN
            PERFORM treedb.insert_many('big', '[{"_id": 3}, {"_id": 1}]');
        EXCEPTION WHEN unique_violation THEN caught := caught + 1;
        END;
    END LOOP;
    RAISE NOTICE 'caught %, documents %', caught, treedb.count('big', '{}');
END $$;
DROP TABLE big;

-- Wrong things.
SELECT treedb.find('nowhere');
SELECT treedb.insert_one('nowhere', '{}');
CREATE TABLE plain (a int);
CREATE VIEW seen AS SELECT '{}'::treedb.bson AS doc;
SELECT treedb.find('plain');
SELECT treedb.find('seen');
SELECT treedb.drop_collection('plain');
DROP TABLE plain; DROP VIEW seen;
SELECT treedb.create_collection('w');
SELECT treedb.find('w', '{}', '{"order": {"a": 1}}');
SELECT treedb.find('w', '{}', '{"limit": -1}');
SELECT treedb.find('w', '{}', '{"sort": 1}');
SELECT treedb.find('w', '{}', '{"sort": {"a": 2}}');
SELECT treedb.find('w', '{}', '{"projection": {"a": 1, "b": 0}}');
SELECT treedb.find('w', '{}', '{"hint": "nothing"}');
SELECT treedb.update_many('w', '{}', '{"$grow": {"a": 1}}');
SELECT treedb.update_many('w', '{}', '{"a": 1}');
SELECT treedb.insert_one('w', '{"_id": [1]}');
SELECT treedb.insert_many('w', ARRAY['{"a": 1}', NULL]::treedb.bson[]);
SELECT treedb.insert_many('w', '[{"a": 1}, 2]');
SELECT treedb.insert_one('w', '{"_id": 1, "a": "text"}');
SELECT treedb.update_many('w', '{}', '{"$inc": {"a": 1}}');
SELECT treedb.update_many('w', '{}', '{"$set": {"_id": 2}}');
SELECT treedb.create_index('w', '{"a": 0}');
SELECT treedb.create_index('w', '{"a": 1}', '{"dropDups": true}');
BEGIN READ ONLY;
SELECT treedb.insert_one('w', '{}');
ROLLBACK;

-- Privileges are the caller's.
CREATE ROLE reader_role;
GRANT USAGE ON SCHEMA treedb TO reader_role;
SET ROLE reader_role;
SELECT treedb.find('w');
RESET ROLE;
GRANT SELECT ON w TO reader_role;
SET ROLE reader_role;
SELECT treedb.find('w');
SELECT treedb.insert_one('w', '{}');
SELECT treedb.update_many('w', '{}', '{"$set": {"b": 1}}');
SELECT treedb.delete_many('w', '{}');
SELECT treedb.create_index('w', '{"a": 1}');
SELECT treedb.drop_collection('w');
RESET ROLE;
ALTER TABLE w ENABLE ROW LEVEL SECURITY;
SET ROLE reader_role;
SELECT treedb.find('w');
SELECT count(*) FROM w WHERE doc OPERATOR(treedb.@@) '{}';
RESET ROLE;
SELECT treedb.find('w');
DROP TABLE w;
REVOKE USAGE ON SCHEMA treedb FROM reader_role;
DROP ROLE reader_role;

-- Pipelines, with another table, and updates of some elements of an array.
SELECT treedb.create_collection('plays'), treedb.create_collection('houses');
SELECT treedb.insert_many('plays', '[{"_id": 1, "house": 1, "seats": 3}, {"_id": 2, "house": 2, "seats": 5}, {"_id": 3, "house": 1, "seats": 4}]');
SELECT treedb.insert_many('houses', '[{"_id": 1, "name": "Globe", "rows": [{"n": 1}, {"n": 7}]}, {"_id": 2, "name": "Rose"}]');
SELECT treedb.aggregate('plays', '[{"$group": {"_id": "$house", "seats": {"$sum": "$seats"}}}, {"$sort": {"_id": 1}}]');
SELECT doc FROM treedb.aggregate('plays', '[{"$match": {"seats": {"$gt": 3}}}, {"$sort": {"seats": -1}}, {"$lookup": {"from": "houses", "localField": "house", "foreignField": "_id", "as": "h"}}, {"$project": {"name": {"$first": "$h.name"}}}]') doc;
SELECT treedb.aggregate('plays', '[{"$lookup": {"from": "nothing", "localField": "house", "foreignField": "_id", "as": "h"}}, {"$count": "n"}]');
SELECT treedb.aggregate('plays', '[{"$out": "x"}]');
-- Options: a collation holds in all stages, and finds an index that has it; variables of `let`; limits of time and memory. Others are refused by name.
SELECT treedb.create_index('houses', '{"name": 1}', '{"collation": {"locale": "en", "strength": 2}}');
SELECT treedb.aggregate('houses', '[{"$match": {"name": "globe"}}, {"$project": {"same": {"$eq": ["$name", "GLOBE"]}}}]', '{"collation": {"locale": "en", "strength": 2}}');
SELECT treedb.aggregate('houses', '[{"$match": {"name": "globe"}}]');
SELECT treedb.aggregate('plays', '[{"$lookup": {"from": "houses", "as": "h", "pipeline": [{"$match": {"name": "ROSE"}}]}}, {"$group": {"_id": {"$first": "$h.name"}, "n": {"$sum": 1}}}]', '{"collation": {"locale": "en", "strength": 2}}');
SELECT * FROM treedb.aggregate('plays', '[{"$match": {"$expr": {"$gt": ["$seats", "$$least"]}}}, {"$sort": {"_id": 1}}, {"$project": {"more": {"$subtract": ["$seats", "$$least"]}}}]', '{"let": {"least": {"$add": [1, 2]}}, "maxTimeMS": 600000, "hint": "_id_"}');
SELECT treedb.aggregate('plays', '[{"$set": {"a": "$$none"}}]', '{"let": {"least": 3}}');
SELECT treedb.explain('{"aggregate": "houses", "pipeline": [{"$match": {"name": "globe"}}], "collation": {"locale": "en", "strength": 2}, "let": {"x": 1}, "cursor": {}}') OPERATOR(treedb.->) 'queryPlanner.winningPlan.inputStage.indexName' AS index;
SELECT treedb.explain('{"aggregate": "houses", "pipeline": [{"$match": {"name": "globe"}}], "cursor": {}}') OPERATOR(treedb.->) 'queryPlanner.winningPlan.stage' AS stage;
SET treedb.stage_mem = '64kB';
SELECT count(*) FROM treedb.aggregate('plays', '[{"$set": {"a": {"$range": [0, 5000]}}}, {"$unwind": "$a"}, {"$group": {"_id": {"p": "$_id", "a": "$a"}}}]') doc;
SELECT count(*) FROM treedb.aggregate('plays', '[{"$set": {"a": {"$range": [0, 5000]}}}, {"$unwind": "$a"}, {"$group": {"_id": {"p": "$_id", "a": "$a"}}}]', '{"allowDiskUse": false}') doc;
RESET treedb.stage_mem;
SELECT treedb.aggregate('plays', '[]', '{"batchSize": 10}');
SELECT * FROM treedb.aggregate('plays', '[]', '{"let": 1}');
SELECT treedb.explain('{"aggregate": "plays", "pipeline": [], "explain": true}');
SELECT treedb.drop_index('houses', 'name_1');
SELECT treedb.aggregate('nothing', '[]');
SELECT treedb.aggregate('plays', '{"$match": {}}');
SELECT treedb.update_one('houses', '{"_id": 1}', '{"$set": {"rows.$[r].full": true}}', '{"arrayFilters": [{"r.n": {"$gt": 5}}]}');
SELECT treedb.find('houses', '{"_id": 1}');
-- Updates by a pipeline, and by documents that are no literals.
SELECT treedb.update_many('plays', '{}', '[{"$set": {"price": {"$multiply": ["$seats", 2]}}}, {"$set": {"dear": {"$gt": ["$price", 7]}}}, {"$unset": "seats"}]');
SELECT treedb.update_one('plays', '{"_id": 4}', '[{"$set": {"house": {"$add": ["$_id", 1]}}}]', '{"upsert": true}');
SELECT treedb.update_many('plays', '{}', '[]');
SELECT treedb.find('plays', '{}', '{"sort": {"_id": 1}}');
SELECT treedb.update_one('plays', '{"_id": 4}', h.doc) FROM houses h WHERE h.doc OPERATOR(treedb.@@) '{"_id": 2}';
SELECT treedb.update_one('plays', '{"_id": 4}', treedb.find('houses', '{"_id": 3}'));
SELECT treedb.update_one('plays', '{"_id": 4}', jsonb_build_array(jsonb_build_object('$set', jsonb_build_object('n', 1)))::treedb.bson_value);
SELECT treedb.update_one('plays', '{"_id": 4}', '[{"$lookup": {"from": "houses", "as": "h", "pipeline": []}}]');
SELECT treedb.update_one('plays', '{"_id": 4}', '[{"$set": {"_id": 5}}]');
SELECT treedb.update_one('plays', '{"_id": 4}', '[{"$set": {"a": 1}}]', '{"arrayFilters": [{"r": 1}]}');
SELECT treedb.update_one('plays', '{"_id": 4}', '[{"$set": {"a": 1}}, 2]');
SELECT treedb.update_one('plays', '{"_id": 4}', '"text"');
SELECT treedb.update_one('plays', '{"_id": 4}', '{"$set": ');
SELECT treedb.delete_one('plays', '{"_id": 4}');
-- Who may not read a table does not see it in a pipeline either.
CREATE ROLE audience;
GRANT USAGE ON SCHEMA treedb TO audience;
GRANT SELECT ON plays TO audience;
SET ROLE audience;
SELECT treedb.aggregate('plays', '[{"$count": "n"}]');
SELECT treedb.aggregate('houses', '[{"$count": "n"}]');
SELECT treedb.aggregate('plays', '[{"$lookup": {"from": "houses", "localField": "house", "foreignField": "_id", "as": "h"}}]');
SELECT treedb.aggregate('plays', '[{"$unionWith": "houses"}]');
RESET ROLE;
DROP TABLE plays, houses;
REVOKE USAGE ON SCHEMA treedb FROM audience;
DROP ROLE audience;
