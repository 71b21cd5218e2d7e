-- Updates of documents: which of them are HOT, and what indexes find afterwards.
SET search_path = public, treedb;
SET client_min_messages = warning;
SELECT create_collection('h');
SELECT create_index('h', '{"n": 1}'), create_index('h', '{"tags": 1}'), create_index('h', '{"u": 1}', '{"unique": true}');
CREATE INDEX h_sql ON h ((doc ->> 's')) WHERE (doc ->> 'p') IS NOT NULL;
SELECT insert_many('h', (SELECT array_agg(format('{"_id": %s, "n": %s, "tags": [%s, "x"], "u": "u%s", "s": "s", "v": 0}', i, i % 10, i % 3, i)::bson) FROM generate_series(1, 200) i));

-- How many row versions of a table got entries in its indexes, and how many did not, of those an update made.
CREATE FUNCTION updated(statement text, OUT versions bigint, OUT hot bigint) LANGUAGE plpgsql AS $$
DECLARE was_versions bigint := pg_stat_get_xact_tuples_updated('h'::regclass); was_hot bigint := pg_stat_get_xact_tuples_hot_updated('h'::regclass);
BEGIN
    EXECUTE statement;
    versions := pg_stat_get_xact_tuples_updated('h'::regclass) - was_versions;
    hot := pg_stat_get_xact_tuples_hot_updated('h'::regclass) - was_hot;
END $$;

-- Nothing that is indexed changes.
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 1}', '{"$inc": {"v": 1}}')$$);
SELECT * FROM updated($$SELECT update_one('h', '{"u": "u1"}', '{"$set": {"new": [1, 2]}}')$$);
SELECT * FROM updated($$SELECT replace_one('h', '{"_id": 2}', '{"v": 7, "s": "s", "u": "u2", "tags": ["x", 2], "n": 2}')$$);
SELECT * FROM updated($$SELECT find_one_and_update('h', '{"_id": 3}', '{"$inc": {"v": 5}}')$$);
-- The order of an array's elements, and one that comes twice, change no key.
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 4}', '{"$set": {"tags": ["x", 1, "x"]}}')$$);
-- Something that is indexed does: in an index of a path, in one over an array, in a unique one, in one of SQL's, in its predicate.
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 5}', '{"$inc": {"n": 1}}')$$);
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 5}', '{"$push": {"tags": "y"}}')$$);
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 5}', '{"$set": {"u": "five"}}')$$);
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 6}', '{"$set": {"p": 1}}')$$);
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 6}', '{"$set": {"s": "t"}}')$$);
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 7}', '{"$set": {"s": "t"}}')$$);
-- A number of another type has the same key, but the index notes the type; a missing field is the same as null only where the keys say so.
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 8}', '{"$set": {"n": {"$numberLong": "8"}}}')$$);
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 9}', '{"$unset": {"n": ""}}')$$);
-- Nothing at all changes.
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 1}', '{"$set": {"v": 1}}')$$);
-- Many at once, some of them HOT.
SELECT versions, hot > 0 AND hot < versions AS some FROM updated($$SELECT update_many('h', '{"_id": {"$gt": 100}}', '[{"$set": {"n": {"$cond": [{"$lt": ["$_id", 150]}, "$n", 99]}, "v": 9}}]')$$);

-- What the indexes find is what reading all documents finds.
SET enable_seqscan = off;
CREATE FUNCTION found(filter bson) RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM find('h', filter) $$;
SELECT found('{"n": 99}'), found('{"n": 1}'), found('{"tags": "y"}'), found('{"tags": 1}'), found('{"u": "five"}'), found('{"u": "u5"}'), found('{"v": 9}');
SELECT count(*) FROM h WHERE doc ->> 's' = 't' AND (doc ->> 'p') IS NOT NULL;
RESET enable_seqscan;
SELECT count(*) AS different FROM h WHERE (doc ->> 'n') = '99' AND doc NOT IN (SELECT find('h', '{"n": 99}'));

-- An index that is made over HOT chains, and one that is made anew.
BEGIN;
SELECT update_one('h', '{"_id": 1}', '{"$set": {"v": 1000}}');
SELECT create_index('h', '{"v": 1}');
SELECT doc ->> '_id' AS id FROM find('h', '{"v": 1000}') doc;
COMMIT;
SELECT doc ->> '_id' AS id FROM find('h', '{"v": 1000}') doc;
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 1}', '{"$inc": {"v": 1}}')$$);
REINDEX TABLE h;
SELECT found('{"v": 1001}'), found('{"v": 1000}'), found('{"v": 9}');
VACUUM h;
SELECT found('{"v": 1001}'), found('{"v": 9}'), found('{"n": 99}');
SELECT * FROM treedb.check('h');

-- A table whose update another trigger may change takes the server's way, and so does one of rolled back changes.
CREATE FUNCTION to_n() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.doc := (NEW.doc::text::jsonb || '{"n": 77}')::text::bson; RETURN NEW; END $$;
CREATE TRIGGER change BEFORE UPDATE ON h FOR EACH ROW EXECUTE FUNCTION to_n();
SELECT * FROM updated($$SELECT update_one('h', '{"_id": 10}', '{"$inc": {"x": 1}}')$$);
SELECT found('{"n": 77}');
DROP TRIGGER change ON h;
BEGIN;
SELECT update_one('h', '{"_id": 11}', '{"$inc": {"x": 1}}');
SAVEPOINT s;
SELECT update_one('h', '{"_id": 11}', '{"$inc": {"x": 1}}');
ROLLBACK TO s;
SELECT doc ->> 'x' AS x FROM find('h', '{"_id": 11}') doc;
ROLLBACK;
SELECT doc ->> 'x' AS x FROM find('h', '{"_id": 11}') doc;
-- A constraint is checked, and an error leaves everything as it was: the next update of an indexed field gets its entries.
ALTER TABLE h ADD CONSTRAINT small CHECK (coalesce((doc ->> 'x')::int, 0) < 5);
SELECT update_one('h', '{"_id": 12}', '{"$set": {"x": 5}}');
ALTER TABLE h DROP CONSTRAINT small;
SELECT * FROM updated($$UPDATE h SET doc = (doc::text::jsonb || '{"n": 78}')::text::bson WHERE doc -> '_id' = '12'$$);
SELECT found('{"n": 78}');

-- Documents out of line.
SELECT insert_one('h', format('{"_id": "long", "n": 500, "text": "%s"}', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1000) i))::bson);
SELECT * FROM updated($$SELECT update_one('h', '{"_id": "long"}', '{"$inc": {"w": 1}}')$$);
SELECT * FROM updated($$SELECT update_one('h', '{"_id": "long"}', '{"$inc": {"n": 1}}')$$);
SELECT found('{"n": 500}'), found('{"n": 501}');

-- A trigger that gives documents their _id still does where one has none.
ALTER TABLE h DISABLE TRIGGER treedb_id;
INSERT INTO h VALUES ('{"n": -1, "u": "none"}'), ('{"n": -2, "_id": "second", "u": "place"}');
ALTER TABLE h ENABLE TRIGGER treedb_id;
SELECT update_many('h', '{"n": {"$lt": 0}}', '{"$set": {"v": 3}}');
SELECT doc ? '_id' AS has_id, left(doc::text, 6) = '{"_id"' AS first FROM h WHERE (doc ->> 'n')::int < 0;

-- A unique index: one answer for each insert, whatever was rolled back before it.
INSERT INTO h VALUES ('{"_id": "a", "u": "same"}'), ('{"_id": "b", "u": "same"}');
BEGIN;
SAVEPOINT s;
SELECT insert_one('h', '{"_id": "a", "u": "same"}');
ROLLBACK TO s;
SELECT insert_one('h', '{"_id": "b", "u": "same"}');
SAVEPOINT s;
INSERT INTO h VALUES ('{"_id": "c", "u": "same"}') ON CONFLICT DO NOTHING;
INSERT INTO h VALUES ('{"_id": "c", "u": ["same", "other"]}') ON CONFLICT DO NOTHING;
SELECT insert_one('h', '{"_id": "c", "u": ["same", "other"]}');
ROLLBACK TO s;
SELECT delete_one('h', '{"u": "same"}'), insert_one('h', '{"_id": "c", "u": ["same", "other"]}');
COMMIT;
SELECT doc FROM find('h', '{"u": "same"}') doc;
INSERT INTO h VALUES ('{"_id": "d", "u": "other"}');
SELECT * FROM treedb.check('h');
SELECT drop_collection('h');
DROP FUNCTION updated, found, to_n;

-- An index whose building has failed has no say in updates: it would fail again.
SELECT create_collection('broken');
SELECT insert_one('broken', '{"_id": 1, "v": 0}');
CREATE INDEX CONCURRENTLY broken_v ON broken ((1 / get_text(doc, 'v')::int));
SELECT update_one('broken', '{"_id": 1}', '{"$set": {"w": 1}}');
SELECT update_one('broken', '{"_id": 1}', '{"$set": {"v": 2}}');
REINDEX INDEX broken_v;
SELECT update_one('broken', '{"_id": 1}', '{"$set": {"v": 4}}');
SET enable_seqscan = off;
SELECT doc FROM broken WHERE 1 / get_text(doc, 'v')::int = 0;
RESET enable_seqscan;
