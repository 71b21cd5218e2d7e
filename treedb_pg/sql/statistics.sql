-- Statistics of collections, the access method they are made with, and privileges.
SET search_path = public, treedb;
SELECT create_collection('on_heap');
SHOW treedb.table_access_method;
SET treedb.table_access_method = 'treedb';
SELECT create_collection('on_treedb');
SET treedb.table_access_method = 'nothing';
SELECT create_collection('on_nothing');
RESET treedb.table_access_method;
SELECT insert_many('on_heap', (SELECT array_agg(jsonb_build_object('_id', i, 'n', i % 10)::bson) FROM generate_series(1, 500) i));
SELECT create_index('on_heap', '{"n": 1}');
SELECT delete_many('on_heap', '{"n": 1}');
SELECT treedb.count('on_heap', '{"n": 2}');
SELECT pg_stat_force_next_flush();
VACUUM ANALYZE on_heap;
SELECT collection, access_method, rows_estimate, table_bytes > 0 AS has_table, index_bytes > 0 AS has_indexes, total_bytes >= table_bytes + index_bytes AS adds_up, n_tup_ins, n_tup_del, n_live_tup, n_dead_tup,
    last_vacuum IS NOT NULL AS vacuumed, last_analyze IS NOT NULL AS analyzed
FROM stat_collections WHERE schema = 'public' ORDER BY collection;
SELECT collection, index, access_method, is_unique, is_valid, entries_estimate, index_bytes > 0 AS has_pages, idx_scan > 0 AS scanned
FROM stat_indexes WHERE schema = 'public' ORDER BY collection, index;

-- Who may do what: the functions run as whoever calls them.
SELECT count(*) AS security_definer FROM pg_proc WHERE pronamespace = 'treedb'::regnamespace AND prosecdef;
CREATE ROLE reader; CREATE ROLE stranger; CREATE ROLE writer;
GRANT USAGE ON SCHEMA treedb TO reader, writer;
GRANT SELECT ON on_heap TO reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON on_heap TO writer;
SET ROLE reader;
SELECT treedb.count('on_heap', '{"n": 2}'), (SELECT count(*) FROM find('on_heap', '{"n": 2}')) AS found;
SELECT treedb.distinct('on_heap', 'n', '{"n": 2}');
SELECT treedb.explain('{"find": "on_heap"}') ->> 'executionStats.nReturned' AS returned;
SELECT treedb.explain('{"delete": "on_heap", "deletes": [{"q": {}, "limit": 0}]}') ->> 'executionStats.executionStages.nWouldDelete' AS would_delete;
SELECT insert_one('on_heap', '{}');
SELECT find_one_and_update('on_heap', '{}', '{"$set": {"n": 1}}');
SELECT find_one_and_delete('on_heap', '{}');
SELECT replace_one('on_heap', '{}', '{}');
SELECT bulk_write('on_heap', '[{"insertOne": {"document": {}}}, {"deleteOne": {"filter": {}}}]', '{"ordered": false}') -> 'writeErrors' AS errors;
SELECT expire('on_heap');
SELECT rename_collection('on_heap', 'mine');
SELECT coll_mod('on_heap', '{"validator": {}}'), coll_mod('on_heap', '{"index": {"name": "n_1", "hidden": true}}');
SELECT treedb.explain('{"find": "on_treedb"}');
SELECT collection FROM stat_collections WHERE schema = 'public' ORDER BY collection;
SET ROLE writer;
-- An upsert needs no more than INSERT, SELECT and UPDATE.
SELECT find_one_and_update('on_heap', '{"_id": "w"}', '{"$set": {"n": 1}}', '{"upsert": true, "returnDocument": "after"}'), find_one_and_delete('on_heap', '{"_id": "w"}');
SET ROLE stranger;
SELECT treedb.find('on_heap');
SELECT '{}'::treedb.bson;
RESET ROLE;
REVOKE INSERT ON on_heap FROM writer;
SET ROLE writer;
SELECT find_one_and_update('on_heap', '{"_id": "w"}', '{"$set": {"n": 1}}', '{"upsert": true}');
SELECT update_one('on_heap', '{"_id": 2}', '{"$set": {"seen": true}}');
RESET ROLE;
-- Row security: the functions refuse those it restricts; SQL applies the policies; the owner is not restricted.
ALTER TABLE on_heap ENABLE ROW LEVEL SECURITY;
CREATE POLICY low ON on_heap FOR SELECT TO reader USING (doc @@ '{"_id": {"$lte": 5}}');
SET ROLE reader;
SELECT find('on_heap');
SELECT treedb.distinct('on_heap', 'n');
SELECT find_one_and_delete('on_heap', '{}');
SELECT doc FROM on_heap WHERE doc @@ '{"n": {"$gt": 2}}' ORDER BY doc;
RESET ROLE;
SELECT treedb.count('on_heap', '{"_id": {"$lte": 5}}');
DROP TABLE on_heap, on_treedb;
REVOKE USAGE ON SCHEMA treedb FROM reader, writer;
DROP ROLE reader, stranger, writer;
