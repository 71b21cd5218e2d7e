-- The calls that change one document and return it, bulk writes, distinct values, renaming, explain.
SET search_path = public, treedb;
SELECT create_collection('tasks');
SELECT insert_many('tasks', '[{"_id": 1, "p": 3, "s": "new"}, {"_id": 2, "p": 5, "s": "new"}, {"_id": 3, "p": 1, "s": "New", "parts": [{"n": 1}, {"n": 7}]}]');

-- The first of an order is changed; it is returned as it was, or as it is.
SELECT find_one_and_update('tasks', '{"s": "new"}', '{"$set": {"s": "taken"}}', '{"sort": {"p": -1}}');
SELECT find_one_and_update('tasks', '{"s": "new"}', '{"$set": {"s": "taken"}, "$inc": {"p": 1}}', '{"sort": {"p": -1}, "returnDocument": "after", "projection": {"_id": 0, "p": 1}}');
SELECT find_one_and_update('tasks', '{"s": "new"}', '{"$set": {"s": "taken"}}') IS NULL AS none;
SELECT find_one_and_update('tasks', '{"s": "new"}', '[{"$set": {"double": {"$multiply": ["$p", 2]}}}]', '{"collation": {"locale": "en", "strength": 2}, "returnNewDocument": true}');
SELECT find_one_and_update('tasks', '{"_id": 3}', '{"$set": {"parts.$[x].big": true}, "$unset": {"double": 1}}', '{"arrayFilters": [{"x.n": {"$gt": 5}}], "returnDocument": "after"}');
SELECT find_one_and_update('tasks', '{"_id": 3, "parts.n": 7}', '{"$inc": {"parts.$.n": 1}}', '{"returnDocument": "after", "hint": {"_id": 1}}');
SELECT find_one_and_update('tasks', '{"_id": 9}', '{"$set": {"p": 0}}', '{"upsert": true}') IS NULL AS nothing_before;
SELECT find_one_and_update('tasks', '{"_id": 10}', '{"$set": {"p": 0}}', '{"upsert": true, "returnDocument": "after"}');
SELECT find_one_and_replace('tasks', '{"_id": 9}', '{"replaced": true}', '{"returnDocument": "after"}');
SELECT find_one_and_replace('tasks', '{"_id": 9}', '{"replaced": "again"}');
SELECT find_one_and_delete('tasks', '{"_id": {"$gte": 9}}', '{"sort": {"_id": -1}, "projection": {"p": 1}}');
SELECT find_one_and_delete('tasks', '{"_id": 10}') IS NULL AS gone;
SELECT replace_one('tasks', '{"_id": 9}', '{"third": 1}'), replace_one('tasks', '{"_id": 11}', '{"p": 1}', '{"upsert": true}'), replace_one('tasks', '{"_id": 12}', '{"p": 1}');
SELECT update_many('tasks', '{"s": "TAKEN"}', '{"$set": {"seen": true}}', '{"collation": {"locale": "en", "strength": 2}}');
SELECT delete_one('tasks', '{"s": "NEW"}', '{"collation": {"locale": "en", "strength": 2}}'), delete_many('tasks', '{"_id": {"$gt": 8}}', '{"hint": "_id_"}');
SELECT * FROM find('tasks', '{}', '{"sort": {"_id": 1}}');

-- What a trigger makes of a document is what is returned.
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.doc := (NEW.doc::jsonb || '{"stamped": true}')::bson; RETURN NEW; END $$;
CREATE TRIGGER zz_stamp BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION stamp();
SELECT find_one_and_update('tasks', '{"_id": 1}', '{"$set": {"p": 7}}', '{"returnDocument": "after"}');
DROP TRIGGER zz_stamp ON tasks; DROP FUNCTION stamp;

-- Each function refuses what is not its own.
SELECT find_one_and_update('tasks', '{}', '{"p": 1}');
SELECT find_one_and_replace('tasks', '{}', '{"$set": {"p": 1}}');
SELECT replace_one('tasks', '{}', '{"$set": {"p": 1}}');
SELECT find_one_and_update('tasks', '{}', '{"$set": {"p": 1}}', '{"returnDocument": "both"}');
SELECT find_one_and_update('tasks', '{}', '{"$set": {"p": 1}}', '{"maxTimeMS": 5}');
SELECT find_one_and_replace('tasks', '{}', '{"p": 1}', '{"arrayFilters": []}');
SELECT find_one_and_delete('tasks', '{}', '{"upsert": true}');
SELECT delete_one('tasks', '{}', '{"limit": 1}');
SELECT update_one('tasks', '{}', '{"$set": {"p": 1}}', '{"upsert": "yes"}');
SELECT find_one_and_update('tasks', '{"_id": 1}', '{"$set": {"_id": 2}}');

-- distinct: elements of arrays, values that are equal, a filter, a collation.
SELECT create_collection('words');
SELECT insert_many('words', '[{"_id": 1, "w": ["a", "b"], "n": 1}, {"_id": 2, "w": "A", "n": 1.0}, {"_id": 3, "w": "b", "n": 2}, {"_id": 4, "d": {"w": null}}, {"_id": 5, "d": [{"w": 1}, {"w": [2, 3]}]}]');
SELECT treedb.distinct('words', 'w');
SELECT treedb.distinct('words', 'w', '{}', '{"collation": {"locale": "en", "strength": 2}}');
SELECT treedb.distinct('words', 'n'), treedb.distinct('words', 'w', '{"n": 2}');
SELECT treedb.distinct('words', 'd.w');
SELECT treedb.distinct('words', 'nothing');
SELECT treedb.distinct('words', 'w', '{}', '{"sort": {"w": 1}}');

-- bulk_write: each operation by itself, in order.
SELECT bulk_write('words', '[
    {"insertOne": {"document": {"_id": 6, "w": "x"}}},
    {"updateOne": {"filter": {"_id": 6}, "update": {"$set": {"n": 6}}}},
    {"updateMany": {"filter": {"n": 1}, "update": {"$inc": {"n": 10}}}},
    {"replaceOne": {"filter": {"_id": 2}, "replacement": {"w": "replaced"}}},
    {"updateOne": {"filter": {"_id": 7}, "update": {"$set": {"n": 7}}, "upsert": true}},
    {"deleteOne": {"filter": {"w": "x"}}},
    {"deleteMany": {"filter": {"d": {"$exists": true}}}}]');
SELECT * FROM find('words', '{}', '{"sort": {"_id": 1}}');
-- Ordered, the first failure ends it, and what was done before stays; unordered, the others go on.
SELECT bulk_write('words', '[{"insertOne": {"document": {"_id": 20}}}, {"insertOne": {"document": {"_id": 20}}}, {"insertOne": {"document": {"_id": 21}}}]');
SELECT bulk_write('words', '[{"insertOne": {"document": {"_id": 21}}}, {"insertOne": {"document": {"_id": 20}}}, {"updateOne": {"filter": {"_id": 1}, "update": {"$inc": {"w": 1}}}}, {"updateOne": {"filter": {}, "update": {"$grow": 1}}}, {"deleteMany": {"filter": {"_id": {"$gte": 20}}}}]', '{"ordered": false}');
-- An operation that failed leaves nothing behind: here the second document of two.
SELECT create_index('words', '{"u": 1}', '{"unique": true, "sparse": true}');
SELECT bulk_write('words', '[{"updateMany": {"filter": {"_id": {"$in": [1, 3]}}, "update": {"$set": {"u": 1}}}}, {"insertOne": {"document": {"_id": 30, "u": 1}}}]', '{"ordered": false}');
SELECT * FROM find('words', '{"u": {"$exists": true}}');
-- Inside PL/pgSQL, in a block that catches errors, 500 failures.
DO $$
DECLARE done bson;
BEGIN
    SELECT bulk_write('words', (SELECT jsonb_agg(jsonb_build_object('insertOne', jsonb_build_object('document', jsonb_build_object('_id', i % 100 + 1000)))) FROM generate_series(0, 599) i)::bson_value, '{"ordered": false}') INTO done;
    RAISE NOTICE 'inserted %, errors %', done ->> 'insertedCount', (SELECT count(*) FROM jsonb_array_elements((done -> 'writeErrors')::jsonb));
    PERFORM bulk_write('words', '[{"insertOne": {"document": {"_id": 2000}}}]');
    RAISE EXCEPTION 'undo';
EXCEPTION WHEN raise_exception THEN RAISE NOTICE 'undone';
END $$;
SELECT treedb.count('words', '{"_id": {"$gte": 1000}}');
SELECT bulk_write('words', '[]');
SELECT bulk_write('words', '{}');
SELECT bulk_write('words', '[{"insertOne": {"document": {"_id": 40}}}, {"insertMany": {"documents": []}}]');
SELECT bulk_write('words', '[{"insertOne": {"document": {}, "upsert": true}}]');
SELECT bulk_write('words', '[{"updateOne": {"filter": {}}}]');
SELECT bulk_write('words', '[{"updateOne": {"filter": {}, "update": {"a": 1}}}]');
SELECT bulk_write('words', '[{"deleteOne": {"filter": 1}}]');
SELECT bulk_write('words', '[{"deleteOne": {"filter": {}}, "deleteMany": {"filter": {}}}]');
SELECT bulk_write('words', '[1]');
SELECT bulk_write('words', '[]', '{"bypassDocumentValidation": true}');
SELECT bulk_write('nowhere', '[]');
SELECT treedb.count('words', '{"_id": 40}');
BEGIN READ ONLY;
SELECT bulk_write('words', '[{"insertOne": {"document": {"_id": 41}}}]');
ROLLBACK;

-- rename_collection: the table and its indexes; into another schema; over another collection.
SELECT create_index('words', '{"n": 1}');
CREATE INDEX own_name ON words USING treedb_btree (keys(doc, '{"w": 1}'));
SELECT rename_collection('words', 'terms');
SELECT indexrelid::regclass AS index FROM pg_index WHERE indrelid = 'terms'::regclass ORDER BY indexrelid::regclass::text;
SELECT list_indexes('terms');
CREATE SCHEMA archive;
SELECT rename_collection('terms', 'archive.terms'), rename_collection('archive.terms', '"Old Terms"');
SELECT treedb.count('archive."Old Terms"', '{}');
SELECT rename_collection('archive."Old Terms"', 'public.tasks');
SELECT rename_collection('archive."Old Terms"', 'public.tasks', true);
SELECT * FROM find('tasks', '{}', '{"sort": {"_id": 1}, "limit": 1}');
SELECT rename_collection('tasks', 'tasks', true);
SELECT rename_collection('nowhere', 'somewhere');
SELECT rename_collection('tasks', repeat('t', 62));
DROP SCHEMA archive;

-- explain: the command is MongoDB's; nothing is changed.
CREATE FUNCTION shown(command bson) RETURNS TABLE (plan text, examined text, returned text) LANGUAGE sql AS $$
    SELECT (SELECT string_agg(m[1], ' < ' ORDER BY o DESC) FROM regexp_matches(e ->> 'queryPlanner.winningPlan', '"stage":"([A-Z_]+)"', 'g') WITH ORDINALITY r(m, o)),
        e ->> 'executionStats.totalDocsExamined', e ->> 'executionStats.nReturned'
    FROM treedb.explain(command) e
$$;
SELECT delete_many('tasks', '{}'), insert_many('tasks', (SELECT array_agg(jsonb_build_object('_id', i, 'n', i % 10)::bson) FROM generate_series(1, 100) i));
ANALYZE tasks;
SELECT * FROM shown('{"find": "tasks", "filter": {"n": 3}, "sort": {"_id": 1}, "limit": 4}');
SELECT * FROM shown('{"find": "tasks", "filter": {"_id": 3}, "projection": {"n": 1}}');
SELECT * FROM shown('{"count": "tasks", "query": {"n": 3}}');
SELECT * FROM shown('{"distinct": "tasks", "key": "n", "query": {"n": {"$gt": 7}}}');
-- Without a filter, the values of an index: that is what is shown, and what is done.
SELECT plan, returned FROM shown('{"distinct": "tasks", "key": "n"}');
SELECT * FROM shown('{"distinct": "tasks", "key": "n", "hint": "n_1"}');
SELECT * FROM shown('{"distinct": "tasks", "key": "n", "collation": {"locale": "en"}}');
SELECT * FROM shown('{"distinct": "tasks", "key": "m"}');
CREATE FUNCTION table_scans(field text) RETURNS TABLE (different bigint, table_scans bigint) LANGUAGE plpgsql AS $$
DECLARE before bigint := pg_stat_get_xact_numscans('tasks'::regclass);
BEGIN
    different := (SELECT count(*) FROM treedb.distinct('tasks', field));
    table_scans := pg_stat_get_xact_numscans('tasks'::regclass) - before;
    RETURN NEXT;
END $$;
SELECT * FROM table_scans('n');
SELECT * FROM table_scans('m');
SELECT * FROM shown('{"update": "tasks", "updates": [{"q": {"n": 3}, "u": {"$set": {"n": 4}}, "multi": true}]}');
SELECT * FROM shown('{"delete": "tasks", "deletes": [{"q": {"_id": 3}, "limit": 1}]}');
SELECT * FROM shown('{"findAndModify": "tasks", "query": {"n": 3}, "sort": {"_id": -1}, "remove": true}');
SELECT * FROM shown('{"aggregate": "tasks", "pipeline": [{"$match": {"_id": 3}}], "cursor": {}}');
SELECT e -> 'stages.0.$cursor.queryPlanner.winningPlan.stage' AS first, e -> 'stages.0.$cursor.executionStats.totalDocsExamined' AS examined, e -> 'stages.1' AS second
FROM treedb.explain('{"aggregate": "tasks", "pipeline": [{"$match": {"n": 3}}, {"$group": {"_id": "$n", "c": {"$sum": 1}}}]}') e;
SELECT aggregate('tasks', '[{"$set": {"a": {"$range": [0, 1000]}}}, {"$unwind": "$a"}, {"$count": "n"}]', '{"maxTimeMS": 1}');
SELECT aggregate('tasks', '[{"$set": {"a": {"$range": [0, 1000]}}}, {"$unwind": "$a"}, {"$count": "n"}]', '{"maxTimeMS": 0}');
SELECT e -> 'executionStats.executionStages.nWouldModify' AS would_modify, e -> 'executionStats.executionStages.nWouldUpsert' AS would_upsert
FROM treedb.explain('{"update": "tasks", "updates": [{"q": {"n": 3}, "u": {"$set": {"n": 3}}, "multi": true}]}') e;
SELECT e -> 'executionStats.executionStages.nWouldUpsert' AS would_upsert FROM treedb.explain('{"update": "tasks", "updates": [{"q": {"_id": 0}, "u": {"$set": {"n": 3}}, "upsert": true}]}') e;
SELECT e -> 'executionStats.executionStages.nWouldDelete' AS would_delete FROM treedb.explain('{"delete": "tasks", "deletes": [{"q": {"n": 3}, "limit": 0}]}') e;
SELECT treedb.explain('{"find": "tasks", "filter": {"n": 3}}', 'queryPlanner');
SELECT treedb.count('tasks', '{}'), treedb.count('tasks', '{"n": 3}');
SELECT treedb.explain('{}');
SELECT treedb.explain('{"insert": "tasks"}');
SELECT treedb.explain('{"find": "nowhere"}');
SELECT treedb.explain('{"find": "tasks", "query": {}}');
SELECT treedb.explain('{"find": "tasks"}', 'everything');
SELECT treedb.explain('{"update": "tasks", "updates": []}');
SELECT treedb.explain('{"aggregate": "tasks", "pipeline": [{"$out": "x"}]}');
DROP FUNCTION shown;
DROP TABLE tasks;
