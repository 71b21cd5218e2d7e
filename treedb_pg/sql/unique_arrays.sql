-- Unique indexes of collections over arrays: each element is unique among documents, as in MongoDB.
SET search_path = public, treedb;
SELECT create_collection('u');
SELECT create_index('u', '{"tags": 1}', '{"unique": true}'), create_index('u', '{"at": 1, "who": -1}', '{"unique": true, "sparse": true, "name": "pair"}');
SELECT list_indexes('u');
SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'u'::regclass AND contype <> 'n' ORDER BY 1;
-- Within one document an element may be there more than once; a document without the field has the key null.
SELECT insert_one('u', '{"_id": 1, "tags": ["a", "b", "a"]}'), insert_one('u', '{"_id": 2, "tags": "c"}'), insert_one('u', '{"_id": 3}'), insert_one('u', '{"_id": 4, "tags": [["a", "b"], {"x": 1}]}'), insert_one('u', '{"_id": 5, "tags": []}');
SELECT insert_one('u', '{"_id": 10, "tags": ["x", "b"]}');
SELECT insert_one('u', '{"_id": 10, "tags": "b"}');
SELECT insert_one('u', '{"_id": 10, "tags": ["c"]}');
SELECT insert_one('u', '{"_id": 10, "tags": null}');
SELECT insert_one('u', '{"_id": 10}');
SELECT insert_one('u', '{"_id": 10, "tags": []}');
SELECT insert_one('u', '{"_id": 10, "tags": [{"x": 1.0}]}');
SELECT insert_one('u', '{"_id": 10, "tags": [["a", "b"]]}');
SELECT insert_many('u', '[{"_id": 11, "tags": ["m"]}, {"_id": 12, "tags": ["n", "m"]}]');
SELECT treedb.count('u', '{"_id": {"$gte": 10}}');
-- Updates: the document's own elements do not stand in its way; another's do.
SELECT update_one('u', '{"_id": 1}', '{"$push": {"tags": "a"}}'), update_one('u', '{"_id": 1}', '{"$set": {"n": 1}}'), update_one('u', '{"_id": 2}', '{"$set": {"tags": ["c", "d"]}}');
SELECT update_one('u', '{"_id": 2}', '{"$push": {"tags": "a"}}');
SELECT update_many('u', '{"_id": {"$in": [1, 2]}}', '{"$set": {"tags": ["same"]}}');
SELECT update_one('u', '{"_id": 1}', '{"$set": {"tags": ["z"]}}'), insert_one('u', '{"_id": 6, "tags": ["a", "b"]}');
SELECT bulk_write('u', '[{"insertOne": {"document": {"_id": 7, "tags": ["z"]}}}, {"insertOne": {"document": {"_id": 8, "tags": ["y"]}}}]', '{"ordered": false}') -> 'writeErrors' AS errors;
SELECT update_one('u', '{"tags": "y"}', '{"$set": {"n": 2}}', '{"upsert": true}'), update_one('u', '{"tags": "w"}', '{"$set": {"n": 2}}', '{"upsert": true}') ->> 'matchedCount' AS matched;
-- SQL says it in the server's words; ON CONFLICT DO NOTHING leaves the row out.
INSERT INTO u VALUES ('{"_id": 20, "tags": ["y"]}');
INSERT INTO u VALUES ('{"_id": 20, "tags": ["y"]}') ON CONFLICT DO NOTHING;
INSERT INTO u VALUES ('{"_id": 8, "tags": ["y", "y2"]}') ON CONFLICT ((doc -> '_id')) DO UPDATE SET doc = excluded.doc;
COPY u (doc) FROM STDIN;
{"_id": 21, "tags": ["y2"]}
\.
-- Several fields, one of them an array; sparse: without either field there is no key.
SELECT insert_one('u', '{"_id": 30, "tags": 30, "at": [1, 2], "who": "x"}'), insert_one('u', '{"_id": 31, "tags": 31, "at": [1, 2], "who": "y"}'), insert_one('u', '{"_id": 32, "tags": 32, "at": [3]}');
SELECT insert_one('u', '{"_id": 33, "tags": 33, "at": [5, 2], "who": "x"}');
SELECT insert_one('u', '{"_id": 33, "tags": 33, "at": 3, "who": null}');
-- Long keys, which entries have only the beginning of.
SELECT insert_one('u', jsonb_build_object('_id', 40, 'tags', jsonb_build_array(repeat('k', 3000) || 1, repeat('k', 3000) || 2))::bson);
SELECT insert_one('u', jsonb_build_object('_id', 41, 'tags', jsonb_build_array(repeat('k', 3000) || 3))::bson);
SELECT insert_one('u', jsonb_build_object('_id', 42, 'tags', jsonb_build_array(repeat('k', 3000) || 2))::bson) IS NULL AS inserted;
-- Queries are read by it.
SELECT treedb.explain('{"find": "u", "filter": {"tags": "z"}}') -> 'queryPlanner.winningPlan.inputStage.indexName' AS index;
SELECT find('u', '{"tags": "z"}');
SELECT collection, index, is_unique FROM stat_indexes WHERE collection = 'u' ORDER BY index;
-- Over documents that are there already.
SELECT create_index('u', '{"n": 1}', '{"unique": true}');
SELECT create_index('u', '{"n": 1}', '{"unique": true, "partialFilterExpression": {"n": {"$gt": 1}}}');
SELECT coll_mod('u', '{"index": {"name": "tags_1", "hidden": true}}');
SELECT insert_one('u', '{"_id": 50, "tags": ["z"]}');
SELECT rename_collection('u', 'renamed');
SELECT conname FROM pg_constraint WHERE conrelid = 'renamed'::regclass AND contype <> 'n' ORDER BY 1;
SELECT list_indexes('renamed') ->> 'name' AS name;
REINDEX TABLE renamed;
VACUUM FULL renamed;
SELECT treedb.check('renamed');
SELECT insert_one('renamed', '{"_id": 50, "tags": ["z"]}');
SELECT drop_index('renamed', 'tags_1');
SELECT insert_one('renamed', '{"_id": 50, "tags": ["z"]}');
SELECT create_index('renamed', '{"tags": 1}', '{"unique": true}');
DROP TABLE renamed;
-- An index that version 0.1.0 made: the server's btree, which refuses arrays.
SELECT create_collection('old_one');
CREATE UNIQUE INDEX old_one_k_1 ON old_one USING btree (unique_key(doc, '{"k": 1}'));
SELECT list_indexes('old_one');
SELECT insert_one('old_one', '{"_id": 1, "k": 1}');
SELECT insert_one('old_one', '{"_id": 2, "k": 1}');
SELECT insert_one('old_one', '{"_id": 2, "k": [1]}');
SELECT drop_index('old_one', 'k_1'), create_index('old_one', '{"k": 1}', '{"unique": true}');
SELECT insert_one('old_one', '{"_id": 2, "k": [2, 3]}');
DROP TABLE old_one;
-- What the operator is for, and what it is not for.
SELECT keys('{"a": [1, 2]}', '{"a": 1}') && keys('{"a": [2, 3]}', '{"a": 1}') AS overlap, keys('{"a": [1, 2]}', '{"a": 1}') && keys('{"a": 3}', '{"a": 1}') AS apart, keys('{}', '{"key": {"a": 1}, "sparse": true}') && keys('{}', '{"key": {"a": 1}, "sparse": true}') AS none;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'keyset_ops';
