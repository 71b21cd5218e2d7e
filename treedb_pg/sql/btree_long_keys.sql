-- Long values in the order of their bytes: an index of one column takes what btree takes as it is or compressed by pglz, compressed
-- where an entry would be too long, and stays an index in that order, with values that it gives back.
CREATE SCHEMA long_keys;
SET search_path = long_keys, public, treedb;
SET client_min_messages = warning;
-- text that does not compress, of a length
CREATE FUNCTION noise(seed text, length int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT left(string_agg(md5(seed || '/' || i), ''), length) FROM generate_series(1, length / 32 + 1) i $$;

-- Values around the longest that btree takes: of noise that comes several times, of one letter, of noise alone, of bytes with
-- many zeros, of two columns.
CREATE TABLE tried (a text COLLATE "C", b text COLLATE "C");
CREATE FUNCTION takes(definition text, a text, b text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE tried;
    INSERT INTO tried VALUES (a, b);
    EXECUTE 'CREATE INDEX tried_index ON tried USING ' || definition;
    DROP INDEX tried_index;
    RETURN true;
EXCEPTION WHEN program_limit_exceeded THEN
    RETURN false;
END $$;
CREATE TABLE cases AS
          SELECT 'noise three times' AS what, columns, n, repeat(noise('a', n), 3) AS a, '' AS b FROM unnest('{(a),(a text_pattern_ops),(a DESC),((a::bytea)),((a::varchar))}'::text[]) columns, generate_series(2360, 2410) n
UNION ALL SELECT 'one letter', '(a)', n, repeat('x', n * 100), '' FROM generate_series(2300, 2500, 2) n
UNION ALL SELECT 'noise', columns, n, noise('a', n), '' FROM unnest('{(a),((a::bytea))}'::text[]) columns, generate_series(2680, 2700) n
UNION ALL SELECT 'zeros in between', '(decode(a, ''hex''))', n, repeat('00', 60) || noise('a', 2 * n) || repeat('00', 60), '' FROM generate_series(2540, 2600, 2) n
UNION ALL SELECT 'two columns', '(a, b)', n, repeat(noise('a', n), 4), repeat(noise('b', n), 4) FROM generate_series(1170, 1200) n
UNION ALL SELECT 'one of two columns', '(a, b)', n, noise('a', 900), repeat(noise('b', n), 4) FROM generate_series(1500, 1610, 2) n;
SELECT what, columns, count(*) FILTER (WHERE theirs) > 0 AS some, count(*) FILTER (WHERE NOT theirs) > 0 AS not_all, bool_and(ours) FILTER (WHERE theirs) AS ours_too
    FROM (SELECT what, columns, takes('btree ' || replace(columns, 'text_pattern', 'pg_catalog.text_pattern'), a, b) AS theirs, takes('treedb_btree ' || replace(columns, 'text_pattern', 'treedb.text_pattern'), a, b) AS ours FROM cases) x
    GROUP BY what, columns ORDER BY what, columns;
SELECT takes('treedb_btree (a)', noise('a', 3000), '');
INSERT INTO tried VALUES (noise('a', 3000));
CREATE INDEX ON tried USING treedb_btree (a);

-- Short and long values, that begin alike for a few bytes, for more than an entry has, or in pages that were full of short ones.
CREATE TABLE theirs (id int, v text COLLATE "C");
CREATE TABLE ours (LIKE theirs);
INSERT INTO theirs
          SELECT i, noise(i::text, i % 50) FROM generate_series(1, 3000) i
UNION ALL SELECT i, noise((i % 90)::text, 20) || repeat(noise((i % 7)::text, 150), 10 + i % 30) || i % 60 FROM generate_series(3001, 3400) i
UNION ALL SELECT i, repeat('common', 2000) || noise((i % 40)::text, i % 300) FROM generate_series(3401, 3600) i
UNION ALL SELECT i, repeat('common', 2000 + i % 3) FROM generate_series(3601, 3630) i
UNION ALL SELECT i, 'common' || noise(i::text, 2400) FROM generate_series(3631, 3700) i
UNION ALL SELECT i, CASE i % 2 WHEN 0 THEN '' END FROM generate_series(3701, 3720) i;
CREATE INDEX ours_v ON ours USING treedb_btree (v);
CREATE INDEX ours_down ON ours USING treedb_btree (v DESC, id);
CREATE INDEX ours_bytes ON ours USING treedb_btree ((v::bytea), id DESC);
CREATE INDEX ours_second ON ours USING treedb_btree ((id % 3), v) INCLUDE (id);
CREATE INDEX ours_icu ON ours USING treedb_btree ((left(v, 20) COLLATE "en-x-icu"), v);
CREATE INDEX theirs_v ON theirs (v);
CREATE INDEX theirs_down ON theirs (v DESC, id);
CREATE INDEX theirs_bytes ON theirs ((v::bytea), id DESC);
CREATE INDEX theirs_second ON theirs ((id % 3), v) INCLUDE (id);
CREATE INDEX theirs_icu ON theirs ((left(v, 20) COLLATE "en-x-icu"), v);
INSERT INTO ours SELECT * FROM theirs ORDER BY md5(id::text);
SELECT treedb.check('ours');

-- same(): whether a query answers the same of both tables, by their indexes.
CREATE FUNCTION same(query text) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off SET enable_incremental_sort = off AS $$
DECLARE
    answer text; other text;
BEGIN
    EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(hash_record_extended(x, 0)::text, ''|'')), '''') FROM (%s) x', replace(query, '<t>', 'ours')) INTO answer;
    EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(hash_record_extended(x, 0)::text, ''|'')), '''') FROM (%s) x', replace(query, '<t>', 'theirs')) INTO other;
    RETURN CASE WHEN answer = other THEN 'same: ' || split_part(answer, ' ', 1) ELSE answer || ' but ' || other END;
END $$;
CREATE VIEW answers AS SELECT query, same(query) AS answer FROM unnest(ARRAY[
    'SELECT v FROM <t> ORDER BY v', 'SELECT v FROM <t> ORDER BY v DESC', 'SELECT v, id FROM <t> ORDER BY v DESC, id', 'SELECT v, id FROM <t> ORDER BY v, id DESC',
    'SELECT v::bytea, id FROM <t> ORDER BY v::bytea, id DESC', 'SELECT id % 3, v FROM <t> ORDER BY id % 3, v', 'SELECT id % 3, v FROM <t> WHERE id % 3 = 1 AND v > repeat(''common'', 1999) ORDER BY v',
    'SELECT v FROM <t> ORDER BY left(v, 20) COLLATE "en-x-icu", v', 'SELECT v FROM <t> WHERE left(v, 20) COLLATE "en-x-icu" = left(repeat(''common'', 4), 20) AND v > repeat(''common'', 2000) ORDER BY v',
    'SELECT v FROM <t> WHERE v >= ''common'' AND v < ''commoo'' ORDER BY v', 'SELECT v FROM <t> WHERE v > repeat(''common'', 2000) ORDER BY v', 'SELECT v FROM <t> WHERE v >= repeat(''common'', 2000) ORDER BY v',
    'SELECT v FROM <t> WHERE v <= repeat(''common'', 2000) ORDER BY v DESC', 'SELECT v FROM <t> WHERE v > repeat(''common'', 2000) || noise(''7'', 100) AND v < repeat(''common'', 2000) || noise(''3'', 43) ORDER BY v',
    'SELECT id FROM <t> WHERE v = repeat(''common'', 2001) ORDER BY v DESC, id', 'SELECT v FROM <t> WHERE v IN (repeat(''common'', 2002), repeat(''common'', 1500), noise(''7'', 7), ''common'') ORDER BY v',
    'SELECT v FROM <t> WHERE v LIKE ''commoncommon%'' ORDER BY v', 'SELECT v FROM <t> WHERE v IS NULL OR v = '''' ORDER BY v', 'SELECT v FROM <t> WHERE v IS NOT NULL ORDER BY v',
    'SELECT id FROM <t> WHERE v::bytea > convert_to(repeat(''common'', 2000), ''UTF8'') ORDER BY v::bytea, id DESC',
    'SELECT v FROM <t> WHERE v > ''c'' AND v = ANY (ARRAY(SELECT v FROM theirs WHERE id % 5 = 0)) ORDER BY v',
    'SELECT x.id, y.id FROM <t> x JOIN <t> y ON x.v = y.v WHERE x.id % 40 = 0 ORDER BY x.v, x.id, y.id']) query;
SELECT * FROM answers;
VACUUM ANALYZE ours; VACUUM ANALYZE theirs;
SELECT * FROM answers WHERE answer NOT LIKE 'same%';
SET enable_sort = off; SET enable_seqscan = off;
-- a join that goes back to where it was
SET enable_hashjoin = off; SET enable_nestloop = off;
SELECT count(*), sum(length(x.v)) FROM ours x JOIN ours y ON x.v = y.v;
SELECT count(*), sum(length(x.v)) FROM theirs x JOIN theirs y ON x.v = y.v;
RESET enable_hashjoin; RESET enable_nestloop;
-- a cursor both ways
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT md5(v) FROM ours WHERE v >= repeat('common', 1990) ORDER BY v;
MOVE 120 FROM c;
FETCH 2 FROM c;
MOVE BACKWARD 100 FROM c;
FETCH BACKWARD 2 FROM c;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT md5(v) FROM theirs WHERE v >= repeat('common', 1990) ORDER BY v;
MOVE 120 FROM c;
FETCH 2 FROM c;
MOVE BACKWARD 100 FROM c;
FETCH BACKWARD 2 FROM c;
ROLLBACK;
-- by several processes
SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 2;
SELECT md5(string_agg(v, '|')) = (SELECT md5(string_agg(v, '|')) FROM (SELECT v FROM theirs ORDER BY v) x) AS same FROM (SELECT v FROM ours ORDER BY v) x;
SELECT count(*), sum(length(v)) FROM ours WHERE v > repeat('common', 1990);
SELECT count(*), sum(length(v)) FROM theirs WHERE v > repeat('common', 1990);
RESET min_parallel_index_scan_size; RESET min_parallel_table_scan_size; RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET max_parallel_workers_per_gather;
RESET enable_sort; RESET enable_seqscan;

-- Rows that go, and come again; an index that is built anew, in memory and with temporary files.
DELETE FROM ours WHERE id % 3 = 0; DELETE FROM theirs WHERE id % 3 = 0;
VACUUM ours; VACUUM theirs;
SELECT treedb.check('ours');
INSERT INTO ours SELECT id + 5000, v FROM theirs WHERE id % 3 = 1 ORDER BY md5(id::text);
INSERT INTO theirs SELECT id + 5000, v FROM theirs WHERE id % 3 = 1;
UPDATE ours SET v = v || 'x' WHERE id % 7 = 0; UPDATE theirs SET v = v || 'x' WHERE id % 7 = 0;
SELECT treedb.check('ours');
SELECT * FROM answers WHERE answer NOT LIKE 'same%';
REINDEX TABLE ours;
SELECT treedb.check('ours');
SET maintenance_work_mem = '1MB';
INSERT INTO ours SELECT id + 20000, v || id FROM theirs; INSERT INTO theirs SELECT id + 20000, v || id FROM theirs;
REINDEX TABLE ours;
RESET maintenance_work_mem;
SELECT treedb.check('ours');
SELECT * FROM answers WHERE answer NOT LIKE 'same%';
-- only long values, that differ at their ends
CREATE TABLE alike (id int, v text COLLATE "C");
CREATE INDEX alike_v ON alike USING treedb_btree (v);
INSERT INTO alike SELECT i, repeat(noise('a', 2100), 3) || noise(i::text, i * 7 % 200) FROM generate_series(1, 1500) i;
SELECT treedb.check('alike');
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT v FROM alike ORDER BY v;
SELECT array_agg(id ORDER BY v, id) = (SELECT array_agg(id ORDER BY v || '', id) FROM alike) AS same FROM alike;
SELECT count(*) FROM (SELECT (SELECT count(*) FROM alike y WHERE y.v = x.v) AS n FROM alike x OFFSET 0) z WHERE n = 0;
DELETE FROM alike WHERE id % 4 > 0;
VACUUM alike;
SELECT treedb.check('alike');
-- a constraint on them
CREATE TABLE no_two (v text COLLATE "C", EXCLUDE USING treedb_btree (v WITH =));
INSERT INTO no_two SELECT repeat('same', 3000) || i FROM generate_series(1, 50) i;
INSERT INTO no_two VALUES (repeat('same', 3000) || 51);
\set VERBOSITY terse
DO $$ BEGIN INSERT INTO no_two VALUES (repeat('same', 3000) || 25); EXCEPTION WHEN exclusion_violation THEN RAISE WARNING 'refused'; END $$;
\set VERBOSITY default
-- values of documents
CREATE TABLE documents (id int, d bson);
INSERT INTO documents SELECT i, jsonb_build_object('k', repeat('document', 500 + i % 20) || i % 60)::text::bson FROM generate_series(1, 200) i;
CREATE INDEX documents_k ON documents USING treedb_btree ((d -> 'k'));
SELECT treedb.check('documents');
SELECT count(*) FROM documents WHERE d -> 'k' = (SELECT d -> 'k' FROM documents WHERE id = 77);
SELECT array_agg(id) = (SELECT array_agg(id ORDER BY d ->> 'k' COLLATE "C", id) FROM documents) AS same FROM (SELECT id FROM documents ORDER BY d -> 'k', id) x;
DROP SCHEMA long_keys CASCADE;
