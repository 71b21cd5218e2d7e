-- Where this is run collections are tables USING treedb, and their indexes what they are elsewhere.
SELECT treedb.create_collection('c');
SELECT treedb.create_index('c', '{"n": 1}');
SELECT amname, relkind, count(*) FROM pg_class JOIN pg_am ON pg_am.oid = relam WHERE pg_class.oid = 'c'::regclass OR pg_class.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'c'::regclass) GROUP BY 1, 2 ORDER BY 1;
SELECT treedb.drop_collection('c');
