-- Errors of the server keep all their fields on the way through the extension: context, names of objects, detail, hint.
SET search_path = public, treedb;
CREATE FUNCTION fields(command text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE state text; message text; detail text; hint text; context text; sch text; tab text; col text; typ text; con text;
BEGIN
    EXECUTE command;
    RAISE NOTICE 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT,
        sch = SCHEMA_NAME, tab = TABLE_NAME, col = COLUMN_NAME, typ = PG_DATATYPE_NAME, con = CONSTRAINT_NAME;
    RAISE NOTICE E'% %\n  detail: %\n  hint: %\n  schema: %, table: %, column: %, type: %, constraint: %\n  context: %', state, message, detail, hint, sch, tab, col, typ, con,
        regexp_replace(regexp_replace(context, E'\n', ' / ', 'g'), 'USING (heap|treedb) WITH', 'USING .. WITH');
END $$;
SELECT create_collection('t');
ALTER TABLE t ADD COLUMN n int NOT NULL DEFAULT 1;
ALTER TABLE t ADD CONSTRAINT small CHECK (doc @@ '{"a": {"$lt": 10}}' OR NOT doc ? 'a');
SELECT create_index('t', '{"u": 1}', '{"unique": true}');
SELECT insert_one('t', '{"_id": 1, "u": 1, "a": 1}');
-- A constraint, by each way to write.
SELECT fields($$SELECT insert_one('t', '{"_id": 2, "a": 20}')$$);
SELECT fields($$SELECT update_one('t', '{"_id": 1}', '{"$set": {"a": 20}}')$$);
SELECT fields($$SELECT find_one_and_update('t', '{"_id": 1}', '{"$set": {"a": 20}}')$$);
SELECT fields($$INSERT INTO t VALUES ('{"_id": 2, "a": 20}')$$);
-- A unique index, in MongoDB's words, with the index's name; one that is no index of a collection, in the server's.
SELECT fields($$SELECT insert_one('t', '{"_id": 1}')$$);
SELECT fields($$SELECT update_one('t', '{"_id": 5}', '{"$set": {"u": 1}}', '{"upsert": true}')$$);
CREATE UNIQUE INDEX t_other ON t ((doc ->> 'o'));
SELECT insert_one('t', '{"_id": 3, "u": 3, "o": "x"}');
SELECT fields($$SELECT insert_one('t', '{"_id": 4, "u": 4, "o": "x"}')$$);
-- A column that may not be NULL, a foreign key, a domain.
ALTER TABLE t ALTER n SET DEFAULT NULL;
SELECT fields($$SELECT insert_one('t', '{"_id": 6, "u": 6}')$$);
ALTER TABLE t ALTER n SET DEFAULT 1;
CREATE TABLE parent (id text PRIMARY KEY);
ALTER TABLE t ADD COLUMN p text GENERATED ALWAYS AS (doc ->> 'p') STORED REFERENCES parent;
SELECT fields($$SELECT insert_one('t', '{"_id": 7, "u": 7, "p": "nobody"}')$$);
CREATE DOMAIN short AS text CONSTRAINT at_most_3 CHECK (length(VALUE) <= 3);
ALTER TABLE t ADD COLUMN d short GENERATED ALWAYS AS (doc ->> 'd') STORED;
SELECT fields($$SELECT insert_one('t', '{"_id": 8, "u": 8, "d": "long"}')$$);
-- A value that no index entry has room for: the row, and the index as the constraint, as of a btree.
CREATE TABLE long_values (v text);
CREATE INDEX long_values_v ON long_values USING treedb_btree (v);
SELECT fields($$INSERT INTO long_values SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i$$);
DROP INDEX long_values_v;
CREATE INDEX long_values_v ON long_values (v);
SELECT fields($$INSERT INTO long_values SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i$$);
DROP TABLE long_values;
-- The function of an index's expression, in an insert, and while the index is built by this extension's access method.
CREATE FUNCTION picky(doc bson) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF doc OPERATOR(treedb.@@) '{"bad": true}' THEN
        RAISE EXCEPTION 'bad document' USING ERRCODE = 'TD001', DETAIL = 'it says so', HINT = 'say something else', TABLE = 'some_table', COLUMN = 'some_column', CONSTRAINT = 'some_constraint', DATATYPE = 'some_type', SCHEMA = 'some_schema';
    END IF;
    RETURN doc OPERATOR(treedb.->>) 'x';
END $$;
CREATE INDEX t_picky ON t (picky(doc));
SELECT fields($$SELECT insert_one('t', '{"_id": 9, "u": 9, "bad": true}')$$);
DROP INDEX t_picky;
SELECT insert_one('t', '{"_id": 9, "u": 9, "bad": true}');
SELECT fields($$CREATE INDEX t_picky ON t USING treedb_btree (picky(doc))$$);
-- A trigger, through a function of ours that another function of ours called.
CREATE FUNCTION relay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM treedb.insert_one('t', '{"_id": 1}'); RETURN NEW; END $$;
SELECT create_collection('outer_one');
CREATE TRIGGER relay AFTER INSERT ON outer_one FOR EACH ROW EXECUTE FUNCTION relay();
SELECT fields($$SELECT insert_one('outer_one', '{"_id": 1}')$$);
-- A command that a function runs; a name that is none; a syntax error inside.
SELECT fields($$SELECT create_collection('pg_catalog.x')$$);
SELECT fields($$SELECT create_collection('a b')$$);
SELECT fields($$SELECT find('t', '{"a": ')$$);
SELECT fields($$SELECT find('t', '{"$where": 1}')$$);
-- While a query is planned: an argument that the planner evaluates for its estimate.
CREATE FUNCTION unsteady(bson) RETURNS bson LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE EXCEPTION 'not to be planned' USING ERRCODE = 'data_exception', DETAIL = 'it says so', HINT = 'say something else', TABLE = 'some_table', COLUMN = 'some_column', CONSTRAINT = 'some_constraint', DATATYPE = 'some_type', SCHEMA = 'some_schema';
END $$;
SELECT fields($$EXPLAIN SELECT * FROM find('t', unsteady('{}'))$$);
SELECT fields($$EXPLAIN SELECT doc FROM t WHERE doc @@ unsteady('{}')$$);
-- In an upsert, whose insert is a subtransaction.
SELECT fields($$SELECT update_one('t', '{"_id": 30}', '{"$set": {"a": 20}}', '{"upsert": true}')$$);
SELECT fields($$SELECT update_one('t', '{"_id": 30}', '{"$set": {"o": "x"}}', '{"upsert": true}')$$);
-- An error that was caught inside leaves nothing for the next one.
SELECT bulk_write('t', '[{"insertOne": {"document": {"_id": 1}}}, {"insertOne": {"document": {"_id": 20, "u": 20, "a": 20}}}]', '{"ordered": false}') -> 'writeErrors' AS errors;
SELECT fields($$SELECT bulk_write('t', '[{"insertOne": {"document": {"_id": 1}}}]') -> 'x' || update_one('t', '{"_id": 1}', '{"$inc": {"_id": 1}}')::text$$);
DROP TABLE outer_one, t, parent;
DROP FUNCTION relay, picky, unsteady, fields;
DROP DOMAIN short;
