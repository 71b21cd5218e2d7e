-- Validators: what they refuse, with which error, and how they are changed.
SET search_path = public, treedb;
SELECT create_collection('people', '{"validator": {"$jsonSchema": {"required": ["name"], "properties": {"age": {"minimum": 0}}}}}');
SELECT collection_options('people');
\d people
SELECT insert_one('people', '{"_id": 1, "name": "Ada", "age": 36}');
SELECT insert_one('people', '{"_id": 2, "age": 1}');
SELECT update_one('people', '{"_id": 1}', '{"$set": {"age": -1}}');
SELECT find_one_and_update('people', '{"_id": 1}', '{"$unset": {"name": 1}}');
-- SQL is no way around it.
INSERT INTO people VALUES ('{"_id": 3}');
COPY people FROM stdin;
{"_id": 4}
\.
SELECT bulk_write('people', '[{"insertOne": {"document": {"_id": 5}}}, {"insertOne": {"document": {"_id": 6, "name": "Grace"}}}]', '{"ordered": false}');
-- The fields of the error.
DO $$
DECLARE state text; con text; tab text; sch text; det text; hin text;
BEGIN
    PERFORM insert_one('people', '{"_id": 7}');
EXCEPTION WHEN check_violation THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, con = CONSTRAINT_NAME, tab = TABLE_NAME, sch = SCHEMA_NAME, det = PG_EXCEPTION_DETAIL, hin = PG_EXCEPTION_HINT;
    RAISE NOTICE '% % %.% | % | %', state, con, sch, tab, det, hin;
END $$;

-- Documents that are there already are not checked when the validator changes; moderate leaves those that do not match alone.
SELECT coll_mod('people', '{"validator": {"city": {"$exists": true}}}');
SELECT update_one('people', '{"_id": 1}', '{"$set": {"age": 37}}');
SELECT coll_mod('people', '{"validationLevel": "moderate"}'), collection_options('people');
SELECT update_one('people', '{"_id": 1}', '{"$set": {"age": 37}}');
SELECT insert_one('people', '{"_id": 8, "name": "Edsger"}');
SELECT insert_one('people', '{"_id": 8, "city": "Rotterdam"}');
SELECT update_one('people', '{"_id": 8}', '{"$unset": {"city": 1}}');
SELECT coll_mod('people', '{"validationLevel": "strict", "validationAction": "warn"}');
SELECT insert_one('people', '{"_id": 9}');
SELECT coll_mod('people', '{"validationLevel": "off"}');
SELECT insert_one('people', '{"_id": 10}');
SELECT coll_mod('people', '{"validator": null, "validationLevel": null, "validationAction": null}'), collection_options('people');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'people'::regclass;
SELECT coll_mod('people', '{"validator": {"$expr": {"$lt": ["$low", "$high"]}}}');
SELECT insert_one('people', '{"_id": 11, "low": 1, "high": 2}'), insert_one('people', '{"_id": 12, "low": 3, "high": 2}');
-- Wrong ones.
SELECT coll_mod('people', '{"validator": {"$grow": 1}}');
SELECT coll_mod('people', '{"validator": 1}');
SELECT coll_mod('people', '{"validationLevel": "high"}');
SELECT coll_mod('people', '{"validationAction": "cry"}');
SELECT coll_mod('people', '{"cappedSize": 1}');
SELECT coll_mod('nowhere', '{"validator": {}}');
SELECT create_collection('capped', '{"capped": true}');
SELECT create_collection('bad', '{"validator": {"a": {"$gt": {"$x": 1}, "$nope": 1}}}');
SELECT validate_document();
-- It is dumped with the table: as a trigger.
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'treedb_validator';
-- Only the owner changes it.
CREATE ROLE guest;
GRANT USAGE ON SCHEMA treedb TO guest;
GRANT SELECT, INSERT ON people TO guest;
SET ROLE guest;
SELECT coll_mod('people', '{"validator": {}}');
SELECT insert_one('people', '{"_id": 13}');
RESET ROLE;
DROP TABLE people;
REVOKE USAGE ON SCHEMA treedb FROM guest;
DROP ROLE guest;
