-- Long values that only lz4 makes short enough for an entry: treedb_btree takes what btree takes where values are compressed by it, in any
-- order, in indexes of several columns and included ones too, and answers as btree does.
CREATE SCHEMA lz4_keys;
SET search_path = lz4_keys, public, treedb;
SET client_min_messages = warning;
-- A server without lz4 has nothing to compare with.
SELECT NOT 'lz4' = ANY (enumvals) AS without_lz4 FROM pg_settings WHERE name = 'default_toast_compression' \gset
\if :without_lz4
\echo this server is built without lz4
DROP SCHEMA lz4_keys;
\quit
\endif
-- text that does not compress, of a length
CREATE FUNCTION noise(seed text, length int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT left(string_agg(md5(seed || '/' || i), ''), length) FROM generate_series(1, length / 32 + 1) i $$;
SET default_toast_compression = lz4;
CREATE TABLE tried (a text COLLATE "C", b text COLLATE "C", en text COLLATE "en-x-icu", v bson_value);
ALTER TABLE tried ALTER a SET COMPRESSION lz4, ALTER b SET COMPRESSION lz4, ALTER en SET COMPRESSION lz4, ALTER v SET COMPRESSION lz4;
CREATE FUNCTION takes(definition text, one text, two text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE tried;
    INSERT INTO tried VALUES (one, two, one, to_jsonb(one)::text::bson_value);
    EXECUTE 'CREATE INDEX tried_index ON tried USING ' || definition;
    DROP INDEX tried_index;
    RETURN true;
EXCEPTION WHEN program_limit_exceeded THEN
    RETURN false;
END $$;
-- What comes again too far away for pglz, often, or in long runs; of several columns.
CREATE TABLE kinds AS
          SELECT 'far apart' AS what, columns, 2300 AS low, 2700 AS high FROM unnest('{(a),(a text_pattern_ops),(a DESC),((a::bytea)),((a::varchar)),(en),(en DESC),((ARRAY[a])),((ARRAY[a::bytea]) DESC),(v),(v DESC)}'::text[]) columns
UNION ALL SELECT 'often', columns, 2150, 2400 FROM unnest('{(a),((a::bytea)),(en)}'::text[]) columns
UNION ALL SELECT 'one letter', columns, 2500, 2800 FROM unnest('{(a),(en),((ARRAY[a]))}'::text[]) columns
UNION ALL SELECT 'two columns', columns, 1100, 1400 FROM unnest('{(a\,b),(a)~INCLUDE~(b),(en\,b),(b)~INCLUDE~(en)}'::text[]) columns;
CREATE FUNCTION value_a(what text, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT CASE what WHEN 'often' THEN repeat(noise('a', n), 40) WHEN 'one letter' THEN repeat('x', n * 250) ELSE noise('a', n) || repeat('y', 6000) || noise('a', n) END $$;
CREATE FUNCTION value_b(what text, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT CASE what WHEN 'two columns' THEN noise('b', n) || repeat('z', 6000) || noise('b', n) ELSE '' END $$;
CREATE FUNCTION theirs(what text, columns text, n int) RETURNS bool LANGUAGE sql AS $$ SELECT takes('btree ' || replace(replace(columns, '~', ' '), 'text_pattern', 'pg_catalog.text_pattern'), value_a(what, n), value_b(what, n)) $$;
CREATE FUNCTION ours(what text, columns text, n int) RETURNS bool LANGUAGE sql AS $$ SELECT takes('treedb_btree ' || replace(replace(columns, '~', ' '), 'text_pattern', 'treedb.text_pattern'), value_a(what, n), value_b(what, n)) $$;
-- The longest that btree takes, and one and two bytes less: indexes of one column of text or bytea take them too, others what is shorter by 15.
CREATE FUNCTION longest(what text, columns text, low int, high int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF NOT theirs(what, columns, low) OR theirs(what, columns, high) THEN RAISE 'btree takes % of % or not %', high, what, low; END IF;
    WHILE high - low > 1 LOOP
        IF theirs(what, columns, (low + high) / 2) THEN low := (low + high) / 2; ELSE high := (low + high) / 2; END IF;
    END LOOP;
    RETURN low;
END $$;
CREATE TABLE tries AS SELECT what, columns, longest(what, columns, low, high) AS n FROM kinds;
SELECT what, columns, ours(what, columns, n) AND (NOT theirs(what, columns, n - 1) OR ours(what, columns, n - 1)) AND (NOT theirs(what, columns, n - 2) OR ours(what, columns, n - 2)) AS ours_too, ours(what, columns, n - 15) AS ours_if_shorter
    FROM tries ORDER BY what COLLATE "C", columns COLLATE "C";
-- The longest are found again, in order, and given back by the index alone.
CREATE TABLE edge_theirs AS SELECT what || ' ' || less AS id, value_a(what, min(n) - less) COLLATE "C" AS v FROM tries, generate_series(0, 2) less WHERE columns IN ('(a)', '(en)') GROUP BY what, less;
CREATE TABLE edge_ours (LIKE edge_theirs);
ALTER TABLE edge_ours ALTER v SET COMPRESSION lz4;
CREATE INDEX edge_ours_v ON edge_ours USING treedb_btree (v);
CREATE INDEX edge_ours_icu ON edge_ours USING treedb_btree ((v COLLATE "en-x-icu") DESC);
INSERT INTO edge_ours SELECT * FROM edge_theirs ORDER BY md5(id);
SELECT treedb.check('edge_ours', true);
VACUUM ANALYZE edge_ours;
SELECT count(*) FROM edge_ours;
SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v FROM edge_ours ORDER BY v;
SELECT array_agg(v) = (SELECT array_agg(v) FROM (SELECT v FROM edge_theirs ORDER BY v) x) AS same FROM (SELECT v FROM edge_ours ORDER BY v) x;
EXPLAIN (COSTS OFF) SELECT id FROM edge_ours ORDER BY v COLLATE "en-x-icu" DESC;
SELECT array_agg(id) = (SELECT array_agg(id) FROM (SELECT id FROM edge_theirs ORDER BY v COLLATE "en-x-icu" DESC) x) AS same FROM (SELECT id FROM edge_ours ORDER BY v COLLATE "en-x-icu" DESC) x;
SELECT count(*) AS not_found FROM edge_theirs x WHERE (SELECT array_agg(id) FROM edge_ours y WHERE y.v = x.v) <> ARRAY[id] OR (SELECT array_agg(id) FROM edge_ours y WHERE y.v COLLATE "en-x-icu" = x.v) <> ARRAY[id];
RESET enable_seqscan; RESET enable_sort; RESET enable_bitmapscan;
REINDEX TABLE edge_ours;
SELECT treedb.check('edge_ours', true);
-- Short and long values, that begin alike for longer than an entry, in pages that were full of short ones.
CREATE FUNCTION long(seed text, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT noise(seed, 1900) || repeat('y', 5000 + n % 4 * 100) || noise(seed, 1900) || n $$;
CREATE TABLE theirs (id int, v text COLLATE "C");
CREATE TABLE ours (LIKE theirs);
INSERT INTO theirs
          SELECT i, noise(i::text, i % 50) FROM generate_series(1, 2000) i
UNION ALL SELECT i, long((i % 9)::text, i % 70) FROM generate_series(2001, 2200) i
UNION ALL SELECT i, repeat('common', 2000) || noise((i % 40)::text, i % 300) FROM generate_series(2301, 2400) i
UNION ALL SELECT i, repeat('common', 45000 + i % 3) FROM generate_series(2501, 2510) i
UNION ALL SELECT i, CASE i % 2 WHEN 0 THEN '' END FROM generate_series(2531, 2540) i;
CREATE INDEX ours_v ON ours USING treedb_btree (v);
CREATE INDEX ours_down ON ours USING treedb_btree (v DESC, id);
CREATE INDEX ours_bytes ON ours USING treedb_btree ((v::bytea), id DESC);
CREATE INDEX ours_icu ON ours USING treedb_btree ((v COLLATE "en-x-icu"));
CREATE INDEX ours_second ON ours USING treedb_btree (id) INCLUDE (v);
CREATE INDEX theirs_v ON theirs (v);
CREATE INDEX theirs_down ON theirs (v DESC, id);
CREATE INDEX theirs_bytes ON theirs ((v::bytea), id DESC);
CREATE INDEX theirs_icu ON theirs ((v COLLATE "en-x-icu"));
CREATE INDEX theirs_second ON theirs (id) INCLUDE (v);
INSERT INTO ours SELECT * FROM theirs ORDER BY md5(id::text);
SELECT treedb.check('ours', true);
CREATE FUNCTION same(query text) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off SET enable_incremental_sort = off AS $$
DECLARE
    answer text; other text;
BEGIN
    EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(hash_record_extended(x, 0)::text, ''|'')), '''') FROM (%s) x', replace(query, '<t>', 'ours')) INTO answer;
    EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(hash_record_extended(x, 0)::text, ''|'')), '''') FROM (%s) x', replace(query, '<t>', 'theirs')) INTO other;
    RETURN CASE WHEN answer = other THEN 'same: ' || split_part(answer, ' ', 1) ELSE answer || ' but ' || other END;
END $$;
CREATE VIEW answers AS SELECT query, same(query) AS answer FROM unnest(ARRAY[
    'SELECT v FROM <t> ORDER BY v', 'SELECT v FROM <t> ORDER BY v DESC', 'SELECT v, id FROM <t> ORDER BY v DESC, id', 'SELECT v::bytea, id FROM <t> ORDER BY v::bytea, id DESC', 'SELECT v COLLATE "en-x-icu" FROM <t> ORDER BY v COLLATE "en-x-icu"',
    'SELECT v, id FROM <t> WHERE id BETWEEN 1990 AND 2520 ORDER BY id', 'SELECT v FROM <t> WHERE v = long(''3'', 0) ORDER BY v', 'SELECT v FROM <t> WHERE v BETWEEN least(long(''3'', 0), long(''5'', 2)) AND greatest(long(''3'', 0), long(''5'', 2)) ORDER BY v',
    'SELECT v FROM <t> WHERE v COLLATE "en-x-icu" IN (long(''3'', 0), long(''5'', 2), repeat(''common'', 45001)) ORDER BY v COLLATE "en-x-icu"', 'SELECT v FROM <t> WHERE v >= repeat(''common'', 44000) ORDER BY v',
    'SELECT v FROM <t> WHERE v IN (repeat(''common'', 45002), repeat(''common'', 2000), noise(''7'', 7)) ORDER BY v', 'SELECT v FROM <t> WHERE v IS NULL OR v = '''' ORDER BY v', 'SELECT x.id, y.id FROM <t> x JOIN <t> y ON x.v = y.v WHERE x.id % 40 = 0 ORDER BY x.v, x.id, y.id']) query;
SELECT query, answer FROM answers;
VACUUM ANALYZE ours; VACUUM ANALYZE theirs;
SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v FROM ours WHERE v > 'common' ORDER BY v;
RESET enable_seqscan; RESET enable_sort; RESET enable_bitmapscan;
SELECT query, answer FROM answers WHERE answer NOT LIKE 'same%';
DELETE FROM ours WHERE id % 3 = 0; DELETE FROM theirs WHERE id % 3 = 0;
VACUUM ours; VACUUM theirs;
INSERT INTO ours SELECT id + 5000, v FROM theirs WHERE id % 3 = 1 ORDER BY md5(id::text);
INSERT INTO theirs SELECT id + 5000, v FROM theirs WHERE id % 3 = 1;
SELECT treedb.check('ours', true);
SELECT query, answer FROM answers WHERE answer NOT LIKE 'same%';
REINDEX TABLE ours;
SELECT treedb.check('ours', true);
SELECT query, answer FROM answers WHERE answer NOT LIKE 'same%';
-- Values that the table has compressed in either way, or outside of its pages, have the same entry.
CREATE TABLE stored (way text, v text COLLATE "C", EXCLUDE USING treedb_btree (v WITH =));
INSERT INTO stored VALUES ('lz4', long('a', 1));
ALTER TABLE stored ALTER v SET COMPRESSION pglz;
\set VERBOSITY terse
INSERT INTO stored VALUES ('pglz', long('a', 1));
ALTER TABLE stored ALTER v SET STORAGE EXTERNAL;
INSERT INTO stored VALUES ('external', long('a', 1));
\set VERBOSITY default
INSERT INTO stored VALUES ('external', long('a', 2));
SELECT treedb.check('stored', true);
DROP SCHEMA lz4_keys CASCADE;
