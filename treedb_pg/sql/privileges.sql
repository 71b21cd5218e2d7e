-- Privileges: every function is SECURITY INVOKER, so the privileges on the table decide, as they do for SQL.
SET search_path = public, treedb;
SET client_min_messages = warning;
CREATE ROLE p_outside; CREATE ROLE p_none; CREATE ROLE p_select; CREATE ROLE p_insert; CREATE ROLE p_update; CREATE ROLE p_delete; CREATE ROLE p_owner;
GRANT USAGE ON SCHEMA treedb TO p_none, p_select, p_insert, p_update, p_delete, p_owner;
GRANT CREATE ON SCHEMA public TO p_owner;
SET ROLE p_owner;
SELECT create_collection('c', '{"validator": {"n": {"$gte": 0}}}');
SELECT create_index('c', '{"n": 1}'), create_index('c', '{"at": 1}', '{"expireAfterSeconds": 60}');
SELECT create_search_index('c', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean"}]}', '{"name": "v"}');
SELECT insert_many('c', '[{"_id": 1, "n": 1}, {"_id": 2, "n": 2, "at": {"$date": "2001-01-01T00:00:00Z"}}]');
CREATE TABLE plain (id int, v text);
CREATE INDEX plain_id ON plain USING treedb_btree (id);
INSERT INTO plain VALUES (1, 'secret');
GRANT SELECT ON c, plain TO p_select;
GRANT INSERT ON c, plain TO p_insert;
GRANT SELECT, UPDATE ON c, plain TO p_update;
GRANT SELECT, DELETE ON c, plain TO p_delete;
RESET ROLE;
CREATE TABLE commands (number int GENERATED ALWAYS AS IDENTITY, command text);
INSERT INTO commands (command) VALUES
    ('SELECT treedb.find(''c'')'), ('SELECT * FROM treedb.find(''c'')'), ('SELECT treedb.count(''c'', ''{}'')'), ('SELECT treedb.distinct(''c'', ''n'')'),
    ('SELECT treedb.aggregate(''c'', ''[{"$match": {"n": 1}}]'')'), ('SELECT * FROM treedb.aggregate(''c'', ''[]'')'),
    ('SELECT * FROM treedb.vector_search(''c'', ''v'', ''{1, 2}'', 1)'), ('SELECT treedb.create_search_index(''c'', ''{"fields": [{"type": "vector", "path": "w", "numDimensions": 2, "similarity": "cosine"}]}'')'),
    ('SELECT treedb.list_search_indexes(''c'')'), ('SELECT treedb.drop_search_index(''c'', ''v'')'), ('SELECT treedb.vector_at(''{"v": [1]}'', ''v'', 1)'),
    ('SELECT treedb.update_search_index(''c'', ''v'', ''{"fields": [{"type": "vector", "path": "w", "numDimensions": 2, "similarity": "cosine"}]}'')'), ('SELECT treedb.bits_at(''{"v": [1]}'', ''v'', 1)'),
    ('SELECT treedb.explain(''{"find": "c"}'')'), ('SELECT treedb.explain(''{"delete": "c", "deletes": [{"q": {}, "limit": 0}]}'')'),
    ('SELECT doc FROM c'), ('SELECT count(*) FROM c WHERE doc OPERATOR(treedb.@@) ''{"n": 1}'''),
    ('SELECT treedb.insert_one(''c'', ''{}'')'), ('SELECT treedb.insert_many(''c'', ''[{}]'')'), ('SELECT treedb.insert_many(''c'', ARRAY[''{}''::treedb.bson])'),
    ('SELECT treedb.update_one(''c'', ''{"_id": 1}'', ''{"$set": {"n": 5}}'')'), ('SELECT treedb.update_many(''c'', ''{}'', ''{"$set": {"n": 5}}'')'),
    ('SELECT treedb.update_one(''c'', ''{"_id": 3}'', ''{"$set": {"n": 5}}'', ''{"upsert": true}'')'), ('SELECT treedb.replace_one(''c'', ''{"_id": 1}'', ''{}'')'),
    ('SELECT treedb.find_one_and_update(''c'', ''{}'', ''{"$set": {"n": 5}}'')'), ('SELECT treedb.find_one_and_replace(''c'', ''{}'', ''{}'')'),
    ('SELECT treedb.delete_one(''c'', ''{"_id": 1}'')'), ('SELECT treedb.delete_many(''c'', ''{}'')'), ('SELECT treedb.find_one_and_delete(''c'', ''{}'')'), ('SELECT treedb.expire(''c'')'),
    ('SELECT treedb.create_index(''c'', ''{"x": 1}'')'), ('SELECT treedb.create_index(''c'', ''{"x": 1}'', ''{"unique": true, "sparse": true}'')'), ('SELECT treedb.drop_index(''c'', ''n_1'')'),
    ('SELECT treedb.coll_mod(''c'', ''{"validator": {}}'')'), ('SELECT treedb.coll_mod(''c'', ''{"index": {"name": "n_1", "hidden": true}}'')'),
    ('SELECT treedb.rename_collection(''c'', ''d'')'), ('SELECT treedb.drop_collection(''c'')'), ('SELECT treedb.create_collection(''new'')'),
    ('SELECT treedb.create_collection(''treedb.new'')'), ('SELECT treedb.create_collection(''pg_catalog.new'')'),
    ('SELECT treedb.list_indexes(''c'')'), ('SELECT treedb.collection_options(''c'')'), ('SELECT treedb.list_collections()'),
    ('SELECT * FROM treedb.stat_collections'), ('SELECT * FROM treedb.stat_indexes'),
    ('SELECT treedb.check(''c'')'), ('SELECT treedb.check(''c_n_1'')'), ('SELECT treedb.check(''plain'')'), ('SELECT treedb.check(''plain_id'')'),
    ('SELECT treedb.index_pages(''c_n_1'')'), ('SELECT treedb.index_page_objects(''plain_id'')'),
    ('SELECT ''{"a": 1}''::treedb.bson');

-- attempt(): what comes of a command under a role; nothing stays of it.
CREATE FUNCTION attempt(role name, command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    PERFORM set_config('role', role, true);
    BEGIN
        EXECUTE command;
        RAISE EXCEPTION USING ERRCODE = 'ZZ000';
    EXCEPTION
        WHEN SQLSTATE 'ZZ000' THEN told := 'yes';
        WHEN insufficient_privilege THEN told := 'no';
        WHEN OTHERS THEN told := SQLSTATE || ' ' || SQLERRM;
    END;
    PERFORM set_config('role', 'none', true);
    RETURN told;
END $$;
-- A bulk write reports what its operations may not do, and expire() leaves out what the caller may not delete from.
SELECT command, attempt('p_outside', command) AS outside, attempt('p_none', command) AS none, attempt('p_select', command) AS "select", attempt('p_insert', command) AS insert,
    attempt('p_update', command) AS update, attempt('p_delete', command) AS delete, attempt('p_owner', command) AS owner
FROM commands ORDER BY number;
GRANT INSERT ON c TO p_update;
SELECT attempt('p_update', 'SELECT treedb.update_one(''c'', ''{"_id": 3}'', ''{"$set": {"n": 5}}'', ''{"upsert": true}'')') AS upsert_with_insert;
SET ROLE p_select;
SELECT bulk_write('c', '[{"insertOne": {"document": {}}}, {"updateOne": {"filter": {}, "update": {"$set": {"n": 1}}}}, {"deleteMany": {"filter": {}}}]', '{"ordered": false}') -> 'writeErrors' AS errors;
SELECT * FROM expire();
SET ROLE p_delete;
SELECT * FROM expire();
RESET ROLE;
-- Sizes and names are shown to all, as the server's own views show them; documents are not.
SET ROLE p_none;
SELECT collection, rows_estimate IS NULL OR rows_estimate >= 0 AS has_estimate FROM stat_collections WHERE schema = 'public';
RESET ROLE;

-- Row security. Those whom no policy restricts use the functions; the others are told how to ask.
ALTER TABLE c ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON c TO p_select, p_update USING (doc @@ '{"n": {"$lte": 1}}');
SET ROLE p_select;
SELECT find('c');
SELECT * FROM find('c');
SELECT treedb.count('c', '{}');
SELECT * FROM treedb.vector_search('c', 'v', '{1, 2}', 1);
SELECT treedb.aggregate('c', '[{"$count": "all"}]');
SELECT treedb.explain('{"find": "c"}');
SELECT doc FROM c;
SELECT doc FROM c WHERE doc @@ '{"n": {"$gte": 0}}';
SELECT count(*) FROM c WHERE doc @@ '{"n": 2}';
RESET ROLE;
SET ROLE p_update;
SELECT update_many('c', '{}', '{"$set": {"n": 0}}');
UPDATE c SET doc = '{"_id": 1, "n": 0}' WHERE doc @@ '{}';
SELECT attempt('p_update', 'UPDATE c SET doc = ''{"_id": 1, "n": 7}''') AS out_of_policy;
RESET ROLE;
-- A stage that reads another collection needs what reading it needs.
SET ROLE p_owner;
SELECT create_collection('open');
SELECT insert_one('open', '{"_id": 1}');
GRANT SELECT ON open TO p_none, p_select;
RESET ROLE;
SET ROLE p_none;
SELECT treedb.aggregate('open', '[{"$lookup": {"from": "c", "localField": "_id", "foreignField": "_id", "as": "c"}}]');
SELECT treedb.aggregate('open', '[{"$unionWith": "c"}]');
SET ROLE p_select;
SELECT treedb.aggregate('open', '[{"$lookup": {"from": "c", "localField": "_id", "foreignField": "_id", "as": "c"}}]');
RESET ROLE;
SET ROLE p_owner;
SELECT find('c', '{}', '{"sort": {"_id": 1}}');
ALTER TABLE c FORCE ROW LEVEL SECURITY;
SELECT find('c');
RESET ROLE;

-- Nothing runs with the rights of another, and no name in the extension's own SQL depends on the caller's search path:
-- a schema in front of pg_catalog with functions, operators and types of the same names changes nothing.
SELECT count(*) AS security_definer FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
    AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'treedb') AND d.deptype = 'e' WHERE p.prosecdef;
CREATE SCHEMA trap;
CREATE FUNCTION trap.sprung() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the trap has sprung'; END $$;
CREATE FUNCTION trap.oids(oid, oid) RETURNS bool LANGUAGE sql AS 'SELECT trap.sprung()';
CREATE OPERATOR trap.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = trap.oids);
CREATE FUNCTION trap.chars("char", "char") RETURNS bool LANGUAGE sql AS 'SELECT trap.sprung()';
CREATE OPERATOR trap.= (LEFTARG = "char", RIGHTARG = "char", FUNCTION = trap.chars);
CREATE FUNCTION trap.names(name, name) RETURNS bool LANGUAGE sql AS 'SELECT trap.sprung()';
CREATE OPERATOR trap.= (LEFTARG = name, RIGHTARG = name, FUNCTION = trap.names);
CREATE FUNCTION trap.floats(float4, int) RETURNS bool LANGUAGE sql AS 'SELECT trap.sprung()';
CREATE OPERATOR trap.>= (LEFTARG = float4, RIGHTARG = int, FUNCTION = trap.floats);
CREATE FUNCTION trap.has(treedb.bson, text) RETURNS bool LANGUAGE sql AS 'SELECT trap.sprung()';
CREATE OPERATOR trap.? (LEFTARG = treedb.bson, RIGHTARG = text, FUNCTION = trap.has);
CREATE FUNCTION trap.value(treedb.bson, text) RETURNS treedb.bson_value LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the trap has sprung'; END $$;
CREATE OPERATOR trap.-> (LEFTARG = treedb.bson, RIGHTARG = text, FUNCTION = trap.value);
CREATE FUNCTION trap.jsonb_to_record(jsonb) RETURNS record LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the trap has sprung'; END $$;
CREATE FUNCTION trap.pg_relation_size(oid) RETURNS bigint LANGUAGE sql AS 'SELECT trap.sprung()::int::bigint';
CREATE FUNCTION trap.has_table_privilege(regclass, text) RETURNS bool LANGUAGE sql AS 'SELECT trap.sprung()';
CREATE DOMAIN trap.int4 AS pg_catalog.int4 CHECK (trap.sprung());
CREATE DOMAIN trap.int8 AS pg_catalog.int8 CHECK (trap.sprung());
CREATE DOMAIN trap.text AS pg_catalog.text CHECK (trap.sprung());
CREATE DOMAIN trap.jsonb AS pg_catalog.jsonb CHECK (trap.sprung());
CREATE TABLE trap.pg_class (oid oid);
CREATE FUNCTION trap.set_id() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the trap has sprung'; END $$;
SET search_path = trap, pg_catalog;
SELECT count(*) > 0 AS pages FROM treedb.index_pages('public.plain_id');
SELECT count(*) > 0 AS found FROM treedb.list_collections();
SELECT count(*) > 0 AS found FROM treedb.stat_collections;
SELECT count(*) > 0 AS found FROM treedb.stat_indexes;
SELECT treedb.create_collection('public.trapped', '{"validator": {"n": {"$gte": 0}}}');
SELECT treedb.create_index('public.trapped', '{"n": 1}'), treedb.create_index('public.trapped', '{"u": 1}', '{"unique": true}'), treedb.create_index('public.trapped', '{"at": 1}', '{"expireAfterSeconds": 1}');
SELECT treedb.insert_one('public.trapped', '{"_id": 1, "n": 1, "u": 1, "at": {"$date": "2001-01-01T00:00:00Z"}}');
SELECT * FROM treedb.expire();
SELECT treedb.coll_mod('public.trapped', '{"index": {"name": "n_1", "hidden": true}}');
CREATE FUNCTION trap.vector_at(treedb.bson, text, int) RETURNS real[] LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE EXCEPTION 'the trap has sprung'; END $$;
SELECT treedb.create_search_index('public.trapped', '{"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "cosine"}]}', '{"name": "v"}');
SELECT document FROM treedb.vector_search('public.trapped', 'v', '{1, 2}', 1);
SELECT treedb.rename_collection('public.trapped', 'public.caught');
SELECT treedb.drop_search_index('public.caught', 'v');
SELECT treedb.drop_index('public.caught', 'n_1');
SELECT treedb.drop_collection('public.caught');
SELECT treedb.check('public.c');
SET search_path = public, treedb;

SET client_min_messages = error;
DROP SCHEMA trap CASCADE;
DROP TABLE c, plain, open, commands;
DROP FUNCTION attempt;
REVOKE CREATE ON SCHEMA public FROM p_owner;
REVOKE USAGE ON SCHEMA treedb FROM p_none, p_select, p_insert, p_update, p_delete, p_owner;
DROP ROLE p_outside, p_none, p_select, p_insert, p_update, p_delete, p_owner;
