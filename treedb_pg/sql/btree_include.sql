-- Included columns, fill factors, long values.
CREATE SCHEMA included;
SET search_path = included, public;

-- included columns of every sort of storage, returned by index-only scans exactly as they are
CREATE TYPE pair AS (a int, b text);
CREATE TABLE t (id int, w float8, v text, n numeric, f float8, b bool, a int[], p pair, u uuid, c "char", d name, j jsonb, x text);
CREATE TABLE b (LIKE t);
CREATE INDEX t_w ON t USING treedb_btree (w, id DESC) INCLUDE (v, n, f, b, a, p, u, c, d, j);
CREATE INDEX b_w ON b USING btree (w, id DESC) INCLUDE (v, n, f, b, a, p, u, c, d, j);
INSERT INTO b SELECT i, CASE i % 10 WHEN 0 THEN '-0' WHEN 1 THEN '0' WHEN 2 THEN NULL ELSE i % 97 END::float8, CASE WHEN i % 7 > 0 THEN repeat(md5(i::text), i % 9) END,
        CASE WHEN i % 5 > 0 THEN round(i / 8.0, i % 4) END, CASE i % 3 WHEN 0 THEN '-0' WHEN 1 THEN 'NaN' END::float8, NULLIF(i % 3, 0) = 1, CASE WHEN i % 4 > 0 THEN ARRAY[i, NULL, i % 5] END,
        CASE WHEN i % 6 > 0 THEN row(i, md5(i::text))::pair END, md5(i::text)::uuid, chr(65 + i % 26)::"char", left(md5(i::text), i % 20)::name, jsonb_build_object('i', i, 'n', NULL), 'not in the index'
    FROM generate_series(1, 3000) i;
INSERT INTO t SELECT * FROM b ORDER BY id;
SELECT treedb.check('t');
VACUUM ANALYZE t; VACUUM ANALYZE b;
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT id, v, n, f, b, a, p, u, c, d, j FROM t WHERE w = 5;
EXPLAIN (COSTS OFF) SELECT id, x FROM t WHERE w = 5;
SELECT md5(string_agg(r::text, '')) = (SELECT md5(string_agg(r::text, '')) FROM (SELECT w, id, v, n, f, b, a, p, u, c, d, j FROM b ORDER BY w, id DESC) r) AS same
    FROM (SELECT w, id, v, n, f, b, a, p, u, c, d, j FROM t ORDER BY w, id DESC) r;
SELECT md5(string_agg(r::text, '')) = (SELECT md5(string_agg(r::text, '')) FROM (SELECT w, v, n, f, p FROM b WHERE w IN (0, 5, 90) AND id > 100 ORDER BY w DESC, id) r) AS same
    FROM (SELECT w, v, n, f, p FROM t WHERE w IN (0, 5, 90) AND id > 100 ORDER BY w DESC, id) r;
SELECT w, id, v, n, f, b, a, p, d, j FROM t WHERE w = 0 AND id IN (10, 21, 30) ORDER BY id DESC;
-- in an index by a comparison function, built over rows
CREATE INDEX t_n ON t USING treedb_btree (n) INCLUDE (w, v);
CREATE INDEX b_n ON b USING btree (n) INCLUDE (w, v);
SELECT md5(string_agg(r::text, '')) = (SELECT md5(string_agg(r::text, '')) FROM (SELECT n, w, v FROM b ORDER BY n) r) AS same FROM (SELECT n, w, v FROM t ORDER BY n) r;
UPDATE t SET v = 'changed' WHERE id % 3 = 0; UPDATE b SET v = 'changed' WHERE id % 3 = 0;
DELETE FROM t WHERE id % 5 = 0; DELETE FROM b WHERE id % 5 = 0;
VACUUM t; VACUUM b;
SELECT treedb.check('t');
SELECT md5(string_agg(r::text, '')) = (SELECT md5(string_agg(r::text, '')) FROM (SELECT n, w, v FROM b ORDER BY n) r) AS same FROM (SELECT n, w, v FROM t ORDER BY n) r;
REINDEX TABLE t;
SELECT treedb.check('t');
-- conditions on included columns are no conditions of the index
EXPLAIN (COSTS OFF) SELECT n FROM t WHERE n > 5 AND w = 3;
CREATE INDEX ON t USING treedb_btree (w) INCLUDE (v text_ops);
CREATE INDEX ON t USING treedb_btree (w) INCLUDE (v DESC);
CREATE INDEX ON t USING treedb_btree (w) INCLUDE (lower(v));
-- sorted in temporary files
SET maintenance_work_mem = '1MB';
CREATE INDEX t_big ON t USING treedb_btree (u) INCLUDE (v, j);
RESET maintenance_work_mem;
SELECT treedb.check('t_big');

-- fill factors
CREATE TABLE f AS SELECT i AS id FROM generate_series(1, 20000) i;
CREATE INDEX f_default ON f USING treedb_btree (id);
CREATE INDEX f_10 ON f USING treedb_btree (id) WITH (fillfactor = 10);
CREATE INDEX f_50 ON f USING treedb_btree (id) WITH (fillfactor = 50);
CREATE INDEX f_100 ON f USING treedb_btree (id) WITH (fillfactor = 100);
SELECT reloptions FROM pg_class WHERE relname = 'f_50';
-- a size in proportion to what is left free
CREATE FUNCTION ratio(a regclass, b regclass) RETURNS numeric LANGUAGE sql AS $$ SELECT round(pg_relation_size(a)::numeric / pg_relation_size(b), 1) $$;
SELECT ratio('f_10', 'f_100') > 7 AS tenth, ratio('f_50', 'f_100') BETWEEN 1.8 AND 2.2 AS half, ratio('f_default', 'f_100') BETWEEN 1.05 AND 1.2 AS nine_tenths;
SELECT treedb.check('f');
-- pages that rising keys leave behind are as full
CREATE TABLE rising (id int);
CREATE INDEX rising_default ON rising USING treedb_btree (id);
CREATE INDEX rising_50 ON rising USING treedb_btree (id) WITH (fillfactor = 50);
INSERT INTO rising SELECT i FROM generate_series(1, 20000) i;
SELECT ratio('rising_50', 'f_50') BETWEEN 0.9 AND 1.1 AS half, ratio('rising_default', 'f_default') BETWEEN 0.9 AND 1.1 AS nine_tenths;
SELECT treedb.check('rising');
ALTER INDEX rising_50 SET (fillfactor = 100);
REINDEX INDEX rising_50;
SELECT ratio('rising_50', 'f_100') AS full;
ALTER INDEX rising_50 RESET (fillfactor);
SELECT reloptions FROM pg_class WHERE relname = 'rising_50';
CREATE INDEX ON f USING treedb_btree (id) WITH (fillfactor = 9);
CREATE INDEX ON f USING treedb_btree (id) WITH (fillfactor = 101);
CREATE INDEX ON f USING treedb_btree (id) WITH (fillfactor = 'full');
CREATE INDEX ON f USING treedb_btree (id) WITH (deduplicate_items = off);
ALTER INDEX f_50 SET (buffering = on);

-- long values that compress
CREATE TABLE long (id int, v text COLLATE "en-x-icu", n numeric, a text[]);
CREATE INDEX long_v ON long USING treedb_btree (v);
CREATE INDEX long_a ON long USING treedb_btree (a) INCLUDE (v);
CREATE INDEX long_n ON long USING treedb_btree (n);
CREATE TABLE long_b (LIKE long);
CREATE INDEX ON long_b (v);
CREATE INDEX ON long_b (a) INCLUDE (v);
INSERT INTO long SELECT i, repeat(md5((i % 20)::text), 40 + i) || i, ('1e' || i * 200)::numeric, array_fill(md5((i % 7)::text), ARRAY[100 + i]) FROM generate_series(1, 60) i;
INSERT INTO long_b SELECT * FROM long ORDER BY id;
VACUUM ANALYZE long; VACUUM ANALYZE long_b;
SELECT treedb.check('long');
SELECT string_agg(id::text, ' ' ORDER BY place) = (SELECT string_agg(id::text, ' ' ORDER BY place) FROM (SELECT id, row_number() OVER (ORDER BY v) AS place FROM long_b) x) AS same
    FROM (SELECT id, row_number() OVER (ORDER BY v) AS place FROM long) x;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT v FROM long ORDER BY v;
SELECT md5(string_agg(v, '|')) = (SELECT md5(string_agg(v, '|')) FROM (SELECT v FROM long_b ORDER BY v) x) AS same FROM (SELECT v FROM long ORDER BY v) x;
SELECT md5(string_agg(r::text, '|')) = (SELECT md5(string_agg(r::text, '|')) FROM (SELECT a, v FROM long_b ORDER BY a) r) AS same FROM (SELECT a, v FROM long ORDER BY a) r;
SELECT id FROM long WHERE v = repeat(md5('3'), 43) || 3;
SELECT count(*) FROM long WHERE v > repeat(md5('3'), 1000) COLLATE "en-x-icu";
SELECT count(*) FROM long_b WHERE v > repeat(md5('3'), 1000) COLLATE "en-x-icu";
SELECT id FROM long WHERE n = 1e3000;
-- in the order of bytes
CREATE INDEX long_c ON long USING treedb_btree (v COLLATE "C");
SELECT string_agg(id::text, ' ' ORDER BY place) = (SELECT string_agg(id::text, ' ' ORDER BY place) FROM (SELECT id, row_number() OVER (ORDER BY v COLLATE "C") AS place FROM long_b) x) AS same
    FROM (SELECT id, row_number() OVER (ORDER BY v COLLATE "C") AS place FROM long) x;
DROP INDEX long_c;
CREATE INDEX long_c ON long USING treedb_btree (v COLLATE "C" treedb.text_long_ops);
SELECT string_agg(id::text, ' ' ORDER BY place) = (SELECT string_agg(id::text, ' ' ORDER BY place) FROM (SELECT id, row_number() OVER (ORDER BY v COLLATE "C") AS place FROM long_b) x) AS same
    FROM (SELECT id, row_number() OVER (ORDER BY v COLLATE "C") AS place FROM long) x;
CREATE INDEX long_bytes ON long USING treedb_btree ((v::bytea));
SELECT string_agg(id::text, ' ' ORDER BY place) = (SELECT string_agg(id::text, ' ' ORDER BY place) FROM (SELECT id, row_number() OVER (ORDER BY v COLLATE "C") AS place FROM long_b) x) AS same
    FROM (SELECT id, row_number() OVER (ORDER BY (v::bytea)) AS place FROM long) x;
DROP INDEX long_bytes;
CREATE INDEX long_bytes ON long USING treedb_btree ((v::bytea) treedb.bytea_long_ops);
EXPLAIN (COSTS OFF) SELECT id FROM long ORDER BY (v::bytea);
SELECT string_agg(id::text, ' ' ORDER BY place) = (SELECT string_agg(id::text, ' ' ORDER BY place) FROM (SELECT id, row_number() OVER (ORDER BY v COLLATE "C") AS place FROM long_b) x) AS same
    FROM (SELECT id, row_number() OVER (ORDER BY (v::bytea)) AS place FROM long) x;
SELECT treedb.check('long');
-- and one that does not
INSERT INTO long (v) SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i;
INSERT INTO long (id, a, v) SELECT 1, '{}', string_agg(md5(i::text), '') FROM generate_series(1, 400) i;
SELECT count(*) FROM long;
SELECT treedb.check('long');

-- the longest values that btree takes
CREATE FUNCTION noise(seed int, length int) RETURNS text LANGUAGE sql AS $$ SELECT left(string_agg(md5(seed || '/' || i), ''), length) FROM generate_series(1, 90) i $$;
CREATE TABLE most (c text COLLATE "C", icu text COLLATE "en-x-icu", bytes bytea, pad text);
CREATE FUNCTION takes(definition text, length int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE most;
    INSERT INTO most VALUES (noise(1, length), noise(1, length), noise(1, length)::bytea, noise(2, length - 20));
    EXECUTE 'CREATE INDEX most_index ON most USING ' || definition;
    DROP INDEX most_index;
    RETURN true;
EXCEPTION WHEN program_limit_exceeded THEN
    RETURN false;
END $$;
SELECT columns, max(length) FILTER (WHERE takes('btree ' || columns, length)) >= 2600 AS by_btree, bool_and(takes('treedb_btree ' || columns, length)) FILTER (WHERE takes('btree ' || columns, length)) AS by_both
    FROM unnest('{(c),(icu),(bytes)}'::text[]) columns, generate_series(2685, 2700) length GROUP BY columns
UNION ALL SELECT columns, NULL, bool_and(takes('treedb_btree ' || columns, length)) FILTER (WHERE takes('btree ' || columns, length))
    FROM unnest('{(left(c\,20)) INCLUDE (pad)}'::text[]) columns, generate_series(2685, 2710) length GROUP BY columns ORDER BY 1;
-- pages of such values, in any order
CREATE TABLE pages (id int, c text COLLATE "C", icu text COLLATE "en-x-icu");
CREATE TABLE pages_b (LIKE pages);
CREATE INDEX ON pages USING treedb_btree (c);
CREATE INDEX ON pages USING treedb_btree (icu DESC);
CREATE INDEX ON pages USING treedb_btree (id) INCLUDE (c);
CREATE INDEX ON pages_b USING btree (c);
CREATE INDEX ON pages_b USING btree (icu DESC);
INSERT INTO pages_b SELECT i, v, v FROM (SELECT i, noise(i % 400, CASE i % 4 WHEN 0 THEN i % 30 WHEN 1 THEN 2630 + i % 30 ELSE 100 + i * 7919 % 2580 END) AS v FROM generate_series(1, 1000) i) x;
INSERT INTO pages_b SELECT i, left(repeat('common', 400), 2300) || noise(i, i % 380), noise(i, 20 + i % 2600) FROM generate_series(1001, 1400) i;
INSERT INTO pages SELECT * FROM pages_b ORDER BY id;
SELECT treedb.check('pages');
CREATE INDEX ON pages USING treedb_btree (c DESC, id);
CREATE INDEX ON pages USING treedb_btree (icu) INCLUDE (id);
DELETE FROM pages WHERE id % 3 = 0; DELETE FROM pages_b WHERE id % 3 = 0;
VACUUM pages; VACUUM pages_b;
INSERT INTO pages SELECT id + 5000, c, icu FROM pages_b WHERE id % 3 = 1 ORDER BY md5(id::text);
INSERT INTO pages_b SELECT id + 5000, c, icu FROM pages_b WHERE id % 3 = 1 ORDER BY md5(id::text);
SELECT treedb.check('pages');
SET enable_sort = off;
SELECT md5(string_agg(c, '|')) = (SELECT md5(string_agg(c, '|')) FROM (SELECT c FROM pages_b ORDER BY c) x) AS same FROM (SELECT c FROM pages ORDER BY c) x;
SELECT md5(string_agg(icu, '|')) = (SELECT md5(string_agg(icu, '|')) FROM (SELECT icu FROM pages_b ORDER BY icu) x) AS same FROM (SELECT icu FROM pages ORDER BY icu) x;
REINDEX TABLE pages;
SELECT treedb.check('pages');
SET client_min_messages = warning;
DROP SCHEMA included CASCADE;
