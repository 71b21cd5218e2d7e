-- Leaves of treedb_btree: the append area and its merges, packed leaves, dead entries that scans mark and inserts remove.
CREATE SCHEMA leaf;
SET search_path = leaf, public;

-- agree(TABLE, COLUMN): whether the index gives the rows that a sequential scan gives, forward, backward and by key.
CREATE FUNCTION agree(tab text, col text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    by_scan text; by_index text; backward text; points bigint; rows bigint;
    query text := format('SELECT md5(string_agg(x::text, '','')) FROM (SELECT %s x FROM %s ORDER BY %1$s', col, tab);
BEGIN
    SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
    EXECUTE query || ') s' INTO by_scan;
    EXECUTE format('SELECT count(*) FROM %s', tab) INTO rows;
    SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on;
    SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off;
    EXECUTE query || ') s' INTO by_index;
    EXECUTE format('SELECT md5(string_agg(x::text, '','' ORDER BY n DESC)) FROM (SELECT %s x, row_number() OVER () n FROM (SELECT %1$s FROM %s ORDER BY %1$s DESC) r) s', col, tab) INTO backward;
    EXECUTE format('SELECT sum((SELECT count(*) FROM %s b WHERE b.%s = a.%2$s)) FROM (SELECT DISTINCT %2$s FROM %1$s) a', tab, col) INTO points;
    RETURN by_scan IS NOT DISTINCT FROM by_index AND by_scan IS NOT DISTINCT FROM backward AND coalesce(points, 0) = rows;
END $$;

-- Inserts in all orders, one statement for each row, so that leaves have appended entries.
CREATE FUNCTION scatter(n bigint) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT ((n * 2654435761) % 2147483647)::int $$;
CREATE TABLE i (k int, j int, t text, u uuid);
CREATE INDEX i_k ON i USING treedb_btree (k);
CREATE INDEX i_t ON i USING treedb_btree (t);
CREATE INDEX i_u ON i USING treedb_btree (u);
CREATE INDEX i_j ON i USING treedb_btree (j, t);
INSERT INTO i SELECT scatter(n), n % 7, repeat('x', (n % 13)::int) || n, md5(n::text)::uuid FROM generate_series(1, 3000) n;
SELECT count(*) > 0 AS has_appended FROM treedb.index_pages('i_k') WHERE appended > 0;
SELECT agree('i', 'k') AS k, agree('i', 't') AS t, agree('i', 'u') AS u;
INSERT INTO i SELECT scatter(-n), n % 7, repeat('x', (n % 13)::int) || -n, md5(n || 'b')::uuid FROM generate_series(1, 3000) n;
INSERT INTO i SELECT n, n, 'ascending' || lpad(n::text, 9, '0'), NULL FROM generate_series(1, 3000) n;
INSERT INTO i SELECT -n, n, 'descending' || lpad((9999 - n)::text, 9, '0'), NULL FROM generate_series(1, 3000) n;
SELECT agree('i', 'k') AS k, agree('i', 't') AS t;
SELECT treedb.check('i');

-- A leaf of int4 keys without a value is packed: an entry takes less than in btree.
CREATE INDEX i_b ON i USING btree (k);
REINDEX INDEX i_k;
SELECT pg_relation_size('i_k') < pg_relation_size('i_b') * 3 / 4 AS smaller;
SELECT agree('i', 'k') AS k;
-- Entries of another length, and one with a value (-0), come to packed leaves.
CREATE TABLE f (k float8, t text COLLATE "C");
CREATE INDEX f_k ON f USING treedb_btree (k);
CREATE INDEX f_t ON f USING treedb_btree (t);
INSERT INTO f SELECT n, md5(n::text) FROM generate_series(0, 2000) n;
REINDEX INDEX f_k; REINDEX INDEX f_t;
INSERT INTO f SELECT '-0'::float8, substr(md5(n::text), 1, 20) || repeat('y', n) FROM generate_series(1, 300) n;
SELECT agree('f', 't') AS t;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*) FILTER (WHERE k::text = '-0') AS negative, count(*) FROM f WHERE k = 0;
RESET enable_seqscan; RESET enable_bitmapscan;
SELECT treedb.check('f');
-- An entry with a value among very many packed ones, whose leaf would fill more than two pages of nodes.
CREATE TABLE z (k float8);
CREATE INDEX z_k ON z USING treedb_btree (k);
INSERT INTO z SELECT 0 FROM generate_series(1, 5000);
REINDEX INDEX z_k;
INSERT INTO z SELECT CASE n % 50 WHEN 0 THEN '-0'::float8 ELSE 0 END FROM generate_series(1, 2000) n;
DELETE FROM z WHERE ctid IN (SELECT ctid FROM z TABLESAMPLE SYSTEM (20) REPEATABLE (1));
VACUUM z;
INSERT INTO z SELECT CASE n % 50 WHEN 0 THEN '-0'::float8 ELSE 0 END FROM generate_series(1, 2000) n;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*) = (SELECT count(*) FROM z) AS k, count(*) FILTER (WHERE k::text = '-0') > 40 AS negative FROM z WHERE k = 0;
RESET enable_seqscan; RESET enable_bitmapscan;
SELECT treedb.check('z');

-- Values of up to the longest key: few entries in a page.
CREATE TABLE l (t text COLLATE "C");
CREATE INDEX l_t ON l USING treedb_btree (t);
INSERT INTO l SELECT repeat(chr(97 + n % 26), 1700) || lpad(n::text, 5, '0') FROM generate_series(1, 200) n;
INSERT INTO l SELECT n::text FROM generate_series(1, 200) n;
SELECT agree('l', 't') AS t;
SELECT treedb.check('l');

-- Builds under a collation sort by abbreviated keys: NULLs on either side, both directions, texts that begin alike.
CREATE TABLE c (t text);
INSERT INTO c SELECT CASE WHEN n % 50 = 0 THEN NULL WHEN n % 3 = 0 THEN 'user' || n || '@example.org'
    WHEN n % 7 = 0 THEN chr(192 + n % 60) || n ELSE md5(n::text) END FROM generate_series(1, 5000) n;
CREATE INDEX c_1 ON c USING treedb_btree (t COLLATE "en-x-icu");
CREATE INDEX c_2 ON c USING treedb_btree (t COLLATE "en-x-icu" DESC NULLS LAST);
CREATE INDEX c_3 ON c USING treedb_btree (t COLLATE "de-x-icu" NULLS FIRST);
CREATE INDEX c_4 ON c USING treedb_btree (t COLLATE "en-x-icu" DESC NULLS FIRST, (length(t)));
SELECT treedb.check('c');
DELETE FROM c WHERE t IS NULL;
SELECT agree('c', 't COLLATE "en-x-icu"') AS t;

-- Updates of another column leave dead entries, which later inserts into a full leaf remove: the index does not grow.
CREATE TABLE d (k int, v int) WITH (autovacuum_enabled = off);
CREATE INDEX d_k ON d USING treedb_btree (k);
CREATE INDEX d_v ON d USING btree (v);
INSERT INTO d SELECT n, 0 FROM generate_series(1, 100) n;
CREATE PROCEDURE churn(rounds int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..rounds LOOP
        UPDATE d SET v = v + 1;
        COMMIT;
    END LOOP;
END $$;
CALL churn(300);
SELECT pg_relation_size('d_k') <= 8 * 8192 AS small;
SELECT agree('d', 'k') AS k;
SELECT treedb.check('d');

-- Also where the rows are in any order, so that versions of neighbours in the index are in different blocks of the table, and
-- where the index is on an expression of the column that changes, so that the server does not tell that its value is the same.
CREATE TABLE r (k int, t text, v int) WITH (autovacuum_enabled = off);
INSERT INTO r SELECT scatter(n), md5(n::text), 0 FROM generate_series(1, 4000) n;
CREATE INDEX r_k ON r USING treedb_btree (k);
CREATE INDEX r_t ON r USING treedb_btree (t);
CREATE INDEX r_e ON r USING treedb_btree ((k + v - v));
CREATE INDEX r_v ON r USING btree (v);
CREATE TEMP TABLE built AS SELECT i AS index, pg_relation_size(i::regclass) AS size FROM unnest('{r_k,r_t,r_e}'::text[]) i;
CREATE PROCEDURE rise(rounds int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..rounds LOOP
        UPDATE r SET v = v + 1;
        COMMIT;
    END LOOP;
END $$;
CALL rise(30);
SELECT index, pg_relation_size(index::regclass) < size * 8 AS small FROM built;
SELECT agree('r', 'k') AS k, agree('r', 't') AS t;
SELECT treedb.check('r');
-- Not while a transaction may still see the versions.
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE old CURSOR FOR SELECT count(*), min(v), max(v) FROM r;
UPDATE r SET v = v + 1; UPDATE r SET v = v + 1; UPDATE r SET v = v + 1;
FETCH old;
SELECT agree('r', 'k') AS k, agree('r', 't') AS t;
ROLLBACK;
SELECT count(*), min(v), max(v) FROM r;
SELECT agree('r', 'k') AS k, agree('r', 't') AS t;
SELECT treedb.check('r');
VACUUM r;
SELECT treedb.check('r');

-- A scan marks entries whose rows it finds dead to every transaction; the next one does not visit these rows.
CREATE TABLE m (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO m SELECT n, n FROM generate_series(1, 1000) n;
CREATE INDEX m_k ON m USING treedb_btree (k);
DELETE FROM m WHERE k <= 400;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SELECT count(*) FROM m WHERE k BETWEEN 0 AND 1000;
SELECT sum(dead) AS dead FROM treedb.index_pages('m_k');
SELECT count(*), min(k) FROM m WHERE k BETWEEN 0 AND 1000;
SELECT k FROM m WHERE k < 403 ORDER BY k DESC;
SELECT treedb.check('m');
VACUUM m;
SELECT sum(entries) AS entries, sum(dead) AS dead FROM treedb.index_pages('m_k') WHERE kind = 'leaf';
SELECT treedb.check('m');
RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexonlyscan;

-- Rows of one value go in at the end of that value's entries: their leaves stay full, as a build makes them.
CREATE TABLE few (k int) WITH (autovacuum_enabled = off);
CREATE INDEX few_t ON few USING treedb_btree (k);
CREATE INDEX few_b ON few (k);
INSERT INTO few SELECT n % 20 FROM generate_series(1, 60000) n;
SELECT pg_relation_size('few_t') <= pg_relation_size('few_b') AS no_larger_than_btree;
SELECT treedb.check('few');
-- Also where the values come in any order: a leaf of several values is split between two of them.
CREATE TABLE mixed (k int) WITH (autovacuum_enabled = off);
CREATE INDEX mixed_t ON mixed USING treedb_btree (k);
CREATE INDEX mixed_b ON mixed (k);
INSERT INTO mixed SELECT scatter(n) % 50 FROM generate_series(1, 50000) n;
SELECT pg_relation_size('mixed_t') <= pg_relation_size('mixed_b') AS no_larger_than_btree;
SELECT treedb.check('mixed');

-- Rows with equal values have the value once in a leaf, whatever the order of the values: built, and filled by inserts in any order.
CREATE TYPE color AS ENUM ('red', 'green', 'blue', 'black', 'white');
CREATE TABLE alike (t text COLLATE "en-x-icu", c text COLLATE "C", e color, a inet, n int, v int) WITH (autovacuum_enabled = off);
CREATE FUNCTION alike_rows(first int, last int) RETURNS SETOF alike LANGUAGE sql AS $$
    SELECT md5((scatter(n) % 100)::text), repeat('c', 1 + scatter(n) % 100), ('{red,green,blue,black,white}'::color[])[1 + scatter(n) % 5],
        '10.0.0.0'::inet + scatter(n) % 100, n, 0 FROM generate_series(first, last) n
$$;
CREATE FUNCTION alike_sizes(OUT col text, OUT no_larger_than_btree bool) RETURNS SETOF record LANGUAGE sql AS $$
    SELECT c, pg_relation_size(('alike_' || c)::regclass) <= pg_relation_size(('alike_' || c || '_btree')::regclass) FROM unnest('{t,c,e,a}'::text[]) c
$$;
INSERT INTO alike SELECT * FROM alike_rows(1, 40000);
CREATE INDEX alike_t ON alike USING treedb_btree (t); CREATE INDEX alike_t_btree ON alike (t);
CREATE INDEX alike_c ON alike USING treedb_btree (c); CREATE INDEX alike_c_btree ON alike (c);
CREATE INDEX alike_e ON alike USING treedb_btree (e); CREATE INDEX alike_e_btree ON alike (e);
CREATE INDEX alike_a ON alike USING treedb_btree (a); CREATE INDEX alike_a_btree ON alike (a);
SELECT * FROM alike_sizes();
SELECT agree('alike', 't') AS t, agree('alike', 'c') AS c, agree('alike', 'e') AS e, agree('alike', 'a') AS a;
TRUNCATE alike;
INSERT INTO alike SELECT * FROM alike_rows(1, 40000);
SELECT * FROM alike_sizes();
SELECT agree('alike', 't') AS t, agree('alike', 'c') AS c, agree('alike', 'e') AS e, agree('alike', 'a') AS a;
SELECT treedb.check('alike');
DROP INDEX alike_t_btree, alike_c_btree, alike_e_btree, alike_a_btree;
-- Entries of dead rows are marked, removed by inserts and by a vacuum, and by updates of another column.
CREATE INDEX alike_v ON alike USING btree (v);
DELETE FROM alike WHERE n % 3 = 0;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SELECT count(*) FROM alike WHERE t = md5('7');
SELECT sum(dead) > 0 AS marked FROM treedb.index_pages('alike_t');
SELECT count(*) FROM alike WHERE t = md5('7');
RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexonlyscan;
INSERT INTO alike SELECT * FROM alike_rows(40001, 44000);
SELECT agree('alike', 't') AS t, agree('alike', 'c') AS c, agree('alike', 'e') AS e, agree('alike', 'a') AS a;
SELECT treedb.check('alike');
SELECT pg_relation_size('alike_t') AS before \gset
UPDATE alike SET v = v + 1;
VACUUM alike;
UPDATE alike SET v = v + 1;
VACUUM alike;
SELECT pg_relation_size('alike_t') < 3 * :before AS small;
SELECT agree('alike', 't') AS t, agree('alike', 'c') AS c, agree('alike', 'e') AS e, agree('alike', 'a') AS a;
SELECT treedb.check('alike');
-- Pages that become empty are given back, values that are all different come in between, and rows of one value beside others.
DELETE FROM alike WHERE t < 'a';
VACUUM alike;
INSERT INTO alike SELECT md5(n::text), md5(n::text), 'white', '11.0.0.0'::inet + n, n, 0 FROM generate_series(50001, 52000) n;
SELECT agree('alike', 't') AS t, agree('alike', 'c') AS c, agree('alike', 'e') AS e, agree('alike', 'a') AS a;
SELECT treedb.check('alike');
-- Several columns, included ones, NULLs, -0, and values of up to the longest key: what differs beside the row is not taken for one.
CREATE TABLE beside (t text COLLATE "en-x-icu", f float8, l text COLLATE "en-x-icu", n int) WITH (autovacuum_enabled = off);
CREATE FUNCTION beside_rows(first int, last int) RETURNS SETOF beside LANGUAGE sql AS $$
    SELECT NULLIF('value ' || n % 7, 'value 3'), CASE scatter(n) % 3 WHEN 0 THEN '-0' WHEN 1 THEN 0 END::float8,
        (SELECT string_agg(md5((n % 5)::text || i), '') FROM generate_series(1, 40 + n % 5 * 10) i), n % 4 FROM generate_series(first, last) n
$$;
INSERT INTO beside SELECT * FROM beside_rows(1, 3000);
CREATE INDEX beside_f ON beside USING treedb_btree (t DESC, f);
CREATE INDEX beside_n ON beside USING treedb_btree (t) INCLUDE (n);
CREATE INDEX beside_l ON beside USING treedb_btree (l);
INSERT INTO beside SELECT * FROM beside_rows(3001, 9000);
DELETE FROM beside WHERE ctid IN (SELECT ctid FROM beside TABLESAMPLE SYSTEM (30) REPEATABLE (1));
VACUUM beside;
INSERT INTO beside SELECT * FROM beside_rows(9001, 12000);
SELECT max(entries) > 500 AS many FROM treedb.index_pages('beside_l') WHERE kind = 'leaf';
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT (SELECT count(*) FROM (SELECT t, f::text FROM beside WHERE t >= '' EXCEPT ALL SELECT t, f::text FROM beside WHERE t || '' >= '') x) AS wrong_f,
    (SELECT count(*) FROM (SELECT t, n FROM beside WHERE t >= '' EXCEPT ALL SELECT t, n FROM beside WHERE t || '' >= '') x) AS wrong_n,
    (SELECT count(*) FROM (SELECT l FROM beside WHERE l >= '' EXCEPT ALL SELECT l FROM beside WHERE l || '' >= '') x) AS wrong_l;
SELECT count(*) FILTER (WHERE f::text = '-0') = (SELECT count(*) FROM beside WHERE t || '' = 'value 1' AND f::text = '-0') AS negative FROM beside WHERE t = 'value 1';
RESET enable_seqscan; RESET enable_bitmapscan;
SELECT treedb.check('beside');
-- NULLs beside values of fixed length make a leaf one of groups, and go: what is left, and what comes, still fits.
CREATE TABLE shorter (u uuid, n int) WITH (autovacuum_enabled = off);
CREATE FUNCTION shorter_rows(first int, last int) RETURNS SETOF shorter LANGUAGE sql AS $$
    SELECT md5((n % 10)::text)::uuid, n FROM generate_series(first, last) n
$$;
INSERT INTO shorter SELECT NULL, -n FROM generate_series(1, 20) n;
INSERT INTO shorter SELECT * FROM shorter_rows(1, 1600);
CREATE INDEX shorter_u ON shorter USING treedb_btree (u NULLS FIRST);
DELETE FROM shorter WHERE u IS NULL;
VACUUM (INDEX_CLEANUP ON) shorter;
INSERT INTO shorter SELECT * FROM shorter_rows(1601, 2400);
INSERT INTO shorter SELECT md5(n::text)::uuid, n FROM shorter_rows(2401, 5000);
SELECT agree('shorter', 'u') AS u;
SELECT treedb.check('shorter');

-- An insert in any order logs little more than its own bytes: 220 with a row of a uuid, of which 75 are that of the table.
CREATE TABLE logs (k uuid) WITH (autovacuum_enabled = off);
CREATE INDEX logs_k ON logs USING treedb_btree (k);
CHECKPOINT;
SELECT pg_current_wal_insert_lsn() AS before \gset
INSERT INTO logs SELECT md5(n::text)::uuid FROM generate_series(1, 50000) n;
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), :'before') / 50000 < 220 AS logs_little;
SELECT agree('logs', 'k') AS k;
SELECT treedb.check('logs');

-- Index-only scans of columns of fixed length, whose entries are formed many at a time: NULLs, recent inserts, dead
-- entries, both directions.
CREATE TABLE w (a smallint, u uuid, m macaddr, b bigint, c "char", d date) WITH (autovacuum_enabled = off);
CREATE INDEX w_all ON w USING treedb_btree (a, u, m, b DESC, c, d NULLS FIRST);
CREATE FUNCTION w_rows(first int, last int) RETURNS SETOF w LANGUAGE sql AS $$
    SELECT n % 5 - 2, md5((n % 50)::text)::uuid, ('0800' || lpad(to_hex(n), 8, '0'))::macaddr,
        -n * 4294967297, chr(65 + n % 26)::"char", date '2000-01-01' + n
    FROM generate_series(first, last) n
$$;
INSERT INTO w SELECT * FROM w_rows(1, 4000);
REINDEX INDEX w_all;
-- Whether the index gives the rows of the table in this order; NULL if that is not an index-only scan.
CREATE FUNCTION w_agrees(ordered text) RETURNS bool LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
    plan text;
    query text := 'SELECT a, u, m, b, c, d FROM w ORDER BY ' || ordered;
    differ bigint;
BEGIN
    SET LOCAL enable_indexonlyscan = on; SET LOCAL enable_indexscan = on;
    SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
    EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) ' || query INTO plan;
    DROP TABLE IF EXISTS by_index;
    EXECUTE 'CREATE TEMP TABLE by_index AS SELECT row_number() OVER () AS number, rows.* FROM (' || query || ') rows';
    SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_indexscan = off;
    EXECUTE 'SELECT count(*) FROM by_index FULL JOIN (SELECT row_number() OVER () AS number, rows.* FROM (' || query || ') rows) sorted USING (number)
        WHERE by_index IS DISTINCT FROM sorted' INTO differ;
    RETURN CASE WHEN plan LIKE '%Index Only Scan%' THEN differ = 0 END;
END $$;
\set forward 'a, u, m, b DESC, c, d NULLS FIRST'
\set backward 'a DESC, u DESC, m DESC, b, c DESC, d DESC NULLS LAST'
SELECT w_agrees(:'forward') AS forward, w_agrees(:'backward') AS backward;
INSERT INTO w SELECT * FROM w_rows(4001, 4100);
SELECT w_agrees(:'forward') AS forward, w_agrees(:'backward') AS backward;
INSERT INTO w SELECT a, NULLIF(u, md5('7')::uuid), m, NULLIF(b % 3, 0), c, CASE WHEN b % 2 = 0 THEN d END FROM w_rows(5000, 5500);
INSERT INTO w SELECT NULL FROM generate_series(1, 1000);
SELECT w_agrees(:'forward') AS forward, w_agrees(:'backward') AS backward;
DELETE FROM w WHERE b % 3 = 0;
SELECT w_agrees(:'forward') AS forward;
SELECT sum(dead) > 0 AS marked FROM treedb.index_pages('w_all');
SELECT w_agrees(:'forward') AS forward, w_agrees(:'backward') AS backward;
VACUUM w;
SELECT w_agrees(:'backward') AS backward;
SELECT treedb.check('w');
DROP TABLE by_index;

-- A merge join goes back to an entry that it has marked several leaves before.
ANALYZE few;
CREATE TABLE twice (k int);
INSERT INTO twice SELECT 3 FROM generate_series(1, 3) UNION ALL SELECT 19 FROM generate_series(1, 2) UNION ALL SELECT generate_series(100, 20000);
CREATE INDEX ON twice USING treedb_btree (k);
VACUUM ANALYZE twice;
SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off; SET enable_seqscan = off; SET enable_bitmapscan = off;
DROP INDEX few_b;
EXPLAIN (COSTS OFF) SELECT count(*) FROM twice LEFT JOIN few USING (k) WHERE twice.k < 100;
SELECT k, count(*), count(DISTINCT few.ctid) FROM twice LEFT JOIN few USING (k) WHERE twice.k < 100 GROUP BY k;
SET enable_indexonlyscan = off;
SELECT k, count(*), count(DISTINCT few.ctid) FROM twice LEFT JOIN few USING (k) WHERE twice.k < 100 GROUP BY k;
RESET enable_hashjoin; RESET enable_nestloop; RESET enable_material; RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexonlyscan;

-- treedb.index_pages is for owners and for indexes of treedb_btree.
SELECT kind, level, entries IS NULL AS no_entries FROM treedb.index_pages('m_k') WHERE block = 0;
SELECT treedb.index_pages('i_b');
SELECT treedb.index_pages('m');
CREATE ROLE leaf_reader;
GRANT USAGE ON SCHEMA leaf, treedb TO leaf_reader;
SET ROLE leaf_reader;
SELECT treedb.index_pages('m_k');
RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA leaf CASCADE;
REVOKE USAGE ON SCHEMA treedb FROM leaf_reader;
DROP ROLE leaf_reader;
