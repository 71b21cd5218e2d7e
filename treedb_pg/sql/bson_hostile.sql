-- Bytes, text and filters that are wrong: an ERROR with a SQLSTATE each, and the server lives on.
SET search_path = public, treedb;

-- What went wrong: SQLSTATE, message, hint.
CREATE FUNCTION refused(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE state text; message text; hint text; detail text;
BEGIN
    EXECUTE command;
    RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT, detail = PG_EXCEPTION_DETAIL;
    RETURN state || ': ' || left(message, 150) || CASE WHEN detail <> '' THEN ' | ' || detail ELSE '' END
        || CASE WHEN hint <> '' THEN ' | has a hint' ELSE ' | no hint' END;
END $$;

-- Bytes.
SELECT b, refused(format('SELECT %L::bytea::treedb.bson', b)) FROM (VALUES
    ('\x'), ('\x05'), ('\x0500000000'), ('\x0500000001'), ('\x0600000000'), ('\xffffffff00'), ('\x00000000'),
    -- an int with no bytes left; a string longer than the document; one without its NUL; one that is not UTF-8
    ('\x0a000000106100010000'), ('\x0e000000026100ff000000610000'), ('\x0e00000002610002000000616200'),
    ('\x0e00000002610002000000ff0000'),
    -- a type there is none of; a name without end; a boolean of 2; a document that ends early
    ('\x0c0000005061000100000000'), ('\x0800000010616161'), ('\x090000000861000200'), ('\x0d0000000361000c0000000000'),
    -- an array that says it is longer than its parent
    ('\x0d000000046100ffffff7f0000')) AS t(b);

-- 16 MiB and a byte; nesting of 100 and of 101.
SELECT refused($c$SELECT ('\x' || repeat('00', 16777217))::bytea::treedb.bson$c$);
SELECT refused(format('SELECT %L::treedb.bson', repeat('{"a":', 100) || '1' || repeat('}', 100)));
SELECT refused(format('SELECT %L::treedb.bson', repeat('{"a":', 101) || '1' || repeat('}', 101)));
SELECT refused(format('SELECT %L::treedb.bson', repeat('{"a":', 100000)));
SELECT refused(format('SELECT %L::jsonb::treedb.bson', repeat('[', 5000) || repeat(']', 5000)));

-- Text.
SELECT t, refused(format('SELECT %L::treedb.bson', t)) FROM (VALUES
    (''), ('1'), ('[]'), ('{'), ('{"a"}'), ('{"a": }'), ('{"a": 1} x'), ('{"a": {"$oid": "short"}}'), ('{"a": {"$date": "never"}}'),
    ('{"a": {"$numberLong": "x"}}'), ('{"a": 1e999}'), ('null')) AS v(t);
SELECT t, refused(format('SELECT %L::treedb.bson_value', t)) FROM (VALUES (''), ('abc'), ('1, 2'), ('1}, {"b": 1')) AS v(t);
SELECT refused($c$SELECT '{"a": "x\u0000y"}'::treedb.bson ->> 'a'$c$);
SELECT refused($c$SELECT '{"a": "x\u0000y"}'::treedb.bson::jsonb$c$);
SELECT refused($c$SELECT ('{"a": 1}'::treedb.bson -> 'a')::treedb.bson$c$);
SELECT refused($c$SELECT '{ab}'::treedb.keyset$c$);

-- Filters.
SELECT f, refused(format('SELECT ''{"a": 1}''::treedb.bson @@ %L', f)) FROM (VALUES
    ('{"a": {"$near": 1}}'), ('{"$what": 1}'), ('{"$and": 1}'), ('{"$or": []}'), ('{"a": {"$in": 1}}'),
    ('{"a": {"$gt": 1, "b": 2}}'), ('{"a": {"$exists": 1, "$no": 1}}'), ('{"a": {"$not": 1}}'), ('{"$where": "1"}')) AS t(f);

-- Key patterns.
SELECT p, refused(format('SELECT treedb.keys(''{"a": 1}'', %L)', p)) FROM (VALUES
    ('{}'), ('{"a": 0}'), ('{"a": "text"}'), ('{"": 1}'), ('{"$a": 1}'), ('{"a": 1, "b": "x"}')) AS t(p);
SELECT refused($c$SELECT treedb.keys('{"a": [1], "b": [2]}', '{"a": 1, "b": 1}')$c$);
SELECT refused($c$SELECT treedb.unique_key('{"a": [1, 2]}', '{"a": 1}')$c$);

-- Binary COPY: good bytes come back as they were, damaged ones are refused.
\getenv abs_builddir PG_ABS_BUILDDIR
\set file :abs_builddir '/results/bson_binary.data'
CREATE TABLE binaries (doc treedb.bson, value treedb.bson_value);
INSERT INTO binaries VALUES ('{"a": 1, "b": [1, "x"]}', '[1]');
COPY binaries TO :'file' (FORMAT binary);
COPY binaries FROM :'file' (FORMAT binary);
SELECT doc, value, count(*) FROM binaries GROUP BY 1, 2;
CREATE TABLE bytes (doc bytea, value bytea);
INSERT INTO bytes VALUES ('\x0d000000046100ffffff7f0000', NULL);
COPY bytes TO :'file' (FORMAT binary);
COPY binaries FROM :'file' (FORMAT binary);
UPDATE bytes SET doc = NULL, value = '\x02ffffff7f00';
COPY bytes TO :'file' (FORMAT binary);
COPY binaries FROM :'file' (FORMAT binary);
UPDATE bytes SET value = '\x';
COPY bytes TO :'file' (FORMAT binary);
COPY binaries FROM :'file' (FORMAT binary);
SELECT count(*) FROM binaries;
DROP TABLE binaries, bytes;
DROP FUNCTION refused;
