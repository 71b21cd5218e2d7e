-- Objects of a user's own making that do not look as the extension makes them are refused, and never read as what they
-- are not.
CREATE SCHEMA safety;
SET search_path = safety, public;
SET client_min_messages = warning;

-- A collection with a btree index that has included columns: find may use it.
SELECT treedb.create_collection('safety.films');
SELECT treedb.insert_many('safety.films', array_agg(format('{"_id": %s, "n": %s}', n, n % 10)::treedb.bson))
    IS NOT NULL AS inserted FROM generate_series(1, 200) n;
DROP INDEX films__id_;
CREATE UNIQUE INDEX films_id ON films USING btree ((doc OPERATOR(treedb.->) '_id')) INCLUDE (doc);
SELECT treedb.find('safety.films', '{"_id": 7}'), treedb.count('safety.films', '{"_id": {"$gt": 20, "$lte": 150}}');
SELECT treedb.find('safety.films', '{"_id": {"$lt": 5}}', '{"sort": {"_id": -1}}');
SELECT treedb.find('safety.films', '{"_id": {"$in": [3, 400, 5]}}');

-- The trigger function on tables whose column doc is something else.
CREATE TABLE uuids (doc uuid);
CREATE TRIGGER set_id BEFORE INSERT OR UPDATE ON uuids FOR EACH ROW EXECUTE FUNCTION treedb.set_id();
INSERT INTO uuids VALUES ('00000000-0000-0000-0000-000000000001');
CREATE TABLE ints (doc int);
CREATE TRIGGER set_id BEFORE INSERT OR UPDATE ON ints FOR EACH ROW EXECUTE FUNCTION treedb.set_id();
INSERT INTO ints VALUES (5);
CREATE TABLE names (doc name);
CREATE TRIGGER set_id BEFORE INSERT OR UPDATE ON names FOR EACH ROW EXECUTE FUNCTION treedb.set_id();
INSERT INTO names VALUES ('a');
CREATE TABLE texts (doc text);
CREATE TRIGGER set_id BEFORE INSERT OR UPDATE ON texts FOR EACH ROW EXECUTE FUNCTION treedb.set_id();
INSERT INTO texts VALUES ('not a document');
SELECT count(*) FROM uuids, ints, names, texts;
DROP SCHEMA safety CASCADE;
