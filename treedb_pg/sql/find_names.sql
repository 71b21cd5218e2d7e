-- What a name stands for depends on the search path, on temporary tables and on who asks.
CREATE SCHEMA naming;
SET search_path = naming, treedb, public;
SET client_min_messages = warning;
CREATE SCHEMA earlier;
CREATE ROLE regress_asker;
SELECT treedb.create_collection('naming.named'), treedb.create_collection('earlier.named'), treedb.create_collection('naming.alone');
INSERT INTO naming.named VALUES ('{"_id": "naming"}');
INSERT INTO earlier.named VALUES ('{"_id": "earlier"}');
GRANT USAGE ON SCHEMA naming, treedb TO regress_asker;
GRANT SELECT ON naming.named, naming.alone TO regress_asker;
CREATE FUNCTION pg_temp.asked(name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT doc ->> '_id' FROM treedb.find(name, '{}') doc);
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
SET search_path = naming, treedb, public;
SELECT pg_temp.asked('named'), pg_temp.asked('earlier.named');
SET search_path = earlier, naming, treedb, public;
SELECT pg_temp.asked('named'), pg_temp.asked('naming.named');
CREATE TEMP TABLE named (doc treedb.bson);
INSERT INTO pg_temp.named VALUES ('{"_id": "temporary"}');
SELECT pg_temp.asked('named');
DROP TABLE pg_temp.named;
SELECT pg_temp.asked('named');
ALTER TABLE earlier.named RENAME TO renamed;
SELECT pg_temp.asked('named'), pg_temp.asked('earlier.named');
BEGIN;
ALTER TABLE earlier.renamed RENAME TO named;
SELECT pg_temp.asked('named');
ROLLBACK;
SELECT pg_temp.asked('named');
SET search_path = naming, treedb, public;
SET ROLE regress_asker;
SELECT pg_temp.asked('named'), pg_temp.asked('naming.named');
RESET ROLE;
REVOKE USAGE ON SCHEMA naming FROM regress_asker;
SET ROLE regress_asker;
SELECT pg_temp.asked('named'), pg_temp.asked('naming.named');
RESET ROLE;
SELECT pg_temp.asked('named'), pg_temp.asked('naming.named');
ALTER SCHEMA naming RENAME TO renamed;
SELECT pg_temp.asked('named'), pg_temp.asked('renamed.named');
ALTER SCHEMA renamed RENAME TO naming;
DROP SCHEMA earlier CASCADE;
DROP OWNED BY regress_asker;
DROP ROLE regress_asker;
DROP SCHEMA naming CASCADE;
