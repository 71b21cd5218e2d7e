-- The same questions asked of the server's btree and of treedb_btree: the same answers, in the same order.
CREATE SCHEMA bt;
SET search_path = bt, public;

-- ask(QUERY, [PLAN NODE]): answers must be the same, and the treedb side must use the plan node it is told.
CREATE FUNCTION ask(query text, node text DEFAULT 'Index') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    b text;
    t text;
    counted bigint;
    line text;
    plan text := '';
    wrap text := 'SELECT count(*), md5(string_agg(r::text, E''\n'')) FROM (%s) r';
BEGIN
    EXECUTE format(wrap, replace(query, '{}', 'b')) INTO counted, b;
    EXECUTE format(wrap, replace(query, '{}', 't')) INTO counted, t;
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(query, '{}', 't') LOOP
        plan := plan || line || E'\n';
    END LOOP;
    IF plan NOT LIKE '%' || node || '%' THEN
        RETURN 'NOT BY ' || node || ': ' || plan;
    END IF;
    IF node NOT LIKE '%Sort' AND query ~* 'order by' AND plan LIKE '%Sort%' THEN
        RETURN 'SORTED: ' || plan;
    END IF;
    RETURN CASE WHEN b IS NOT DISTINCT FROM t THEN 'same: ' || counted || ' rows' ELSE 'DIFFERENT: ' || query END;
END $$;

CREATE TABLE b (i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, v text, u uuid, ts timestamptz);
SELECT setseed(0.25);
INSERT INTO b
    SELECT (n % 300 - 150)::int2, (random() * 4000 - 2000)::int4, ((random() - 0.5) * 2e18)::int8,
           ((random() - 0.5) * 100)::float4, (random() - 0.5) * 1e300,
           CASE n % 5 WHEN 0 THEN md5(n::text) WHEN 1 THEN 'Straße ' || n % 97 WHEN 2 THEN upper(left(md5(n::text), 3))
                      WHEN 3 THEN left(md5(n::text), n % 7) ELSE 'a-b c' || chr(97 + n % 26) || chr(228 + n % 9) END,
           md5((n % 4000)::text)::uuid, 'epoch'::timestamptz + (random() * 2e9) * interval '1 sec'
    FROM generate_series(1, 3000) n;
-- values at the edges, and NULLs in every column
INSERT INTO b VALUES
    (-32768, -2147483648, -9223372036854775808, '-Infinity', '-Infinity', '', '00000000-0000-0000-0000-000000000000', '-infinity'),
    (32767, 2147483647, 9223372036854775807, 'Infinity', 'Infinity', repeat('z', 300), 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'infinity'),
    (0, 0, 0, 'NaN', 'NaN', chr(1), NULL, NULL), (0, 0, 0, '-0', '-0', chr(1114111), NULL, NULL), (0, 0, 0, 0, 0, 'a', NULL, NULL),
    (1, 1, 1, 1e-45, 5e-324, 'a b', NULL, NULL), (-1, -1, -1, -1e-45, -5e-324, 'ab', NULL, NULL);
INSERT INTO b SELECT NULLIF(n % 3, 0), NULLIF(n % 4, 0), NULLIF(n % 5, 0), NULL, NULL, NULL, NULL, NULL FROM generate_series(1, 200) n;
CREATE TABLE t (LIKE b);
-- half of t goes in before its indexes exist, half after: built and inserted entries
INSERT INTO t SELECT * FROM b WHERE ctid < '(20,0)';

DO $$
DECLARE keys text; side text;
BEGIN
    FOR keys, side IN SELECT c, am FROM unnest(ARRAY['i2', 'i4', 'i8', 'f4', 'f8', 'v COLLATE "C"', 'v COLLATE "en-x-icu"',
            'v COLLATE "de-x-icu" DESC', 'u', 'ts', 'ts DESC NULLS LAST', 'i4 NULLS FIRST, v COLLATE "C" DESC', 'i2, v COLLATE "en-x-icu", i8 DESC',
            'u, f8 DESC', 'lower(v) COLLATE "C"']) c,
            unnest(ARRAY['b', 't']) am LOOP
        EXECUTE format('CREATE INDEX ON %s USING %s (%s)', side, CASE side WHEN 'b' THEN 'btree' ELSE 'treedb_btree' END, keys);
    END LOOP;
END $$;
CREATE INDEX ON b (i8) WHERE i2 > 100;
CREATE INDEX ON t USING treedb_btree (i8) WHERE i2 > 100;
INSERT INTO t SELECT * FROM b WHERE ctid >= '(20,0)';
ANALYZE b; ANALYZE t;
SELECT treedb.check('t');

SET enable_seqscan = off; SET enable_bitmapscan = off;
-- order, both ways, with and without NULLs first
SELECT c, ask(format('SELECT %s FROM {} ORDER BY %s', c, c)) AS up, ask(format('SELECT %s FROM {} ORDER BY %s DESC', c, c)) AS down
    FROM unnest(ARRAY['i2', 'i4', 'i8', 'f4', 'f8', 'u', 'ts', 'v COLLATE "C"', 'v COLLATE "en-x-icu"']) c;
SELECT ask('SELECT v COLLATE "de-x-icu" FROM {} ORDER BY v COLLATE "de-x-icu" DESC'), ask('SELECT v FROM {} ORDER BY v COLLATE "de-x-icu"');
SELECT ask('SELECT ts FROM {} ORDER BY ts DESC NULLS LAST'), ask('SELECT ts FROM {} ORDER BY ts NULLS FIRST');
SELECT ask('SELECT i4, v FROM {} ORDER BY i4 NULLS FIRST, v COLLATE "C" DESC'), ask('SELECT i4, v FROM {} ORDER BY i4 DESC NULLS LAST, v COLLATE "C"');
SELECT ask('SELECT i2, v, i8 FROM {} ORDER BY i2, v COLLATE "en-x-icu", i8 DESC');
SELECT ask('SELECT u, f8 FROM {} ORDER BY u DESC, f8');

-- comparisons, across types of a family too; -0 and NaN; out of range
SELECT q, ask('SELECT i2 FROM {} WHERE i2 ' || q || ' ORDER BY i2') FROM unnest(ARRAY['< 5', '<= 5', '= 5', '>= 5', '> 5', '> 100000', '< 99999999999', '= 5::int8', 'BETWEEN 3 AND 7', 'BETWEEN 7 AND 3']) q;
SELECT q, ask('SELECT i4 FROM {} WHERE i4 ' || q || ' ORDER BY i4') FROM unnest(ARRAY['< -1990', '= 3', '> 1990', '> 5000000000', '= 7::int2', '>= -2147483648', '<= 2147483647::int8']) q;
SELECT q, ask('SELECT i8 FROM {} WHERE i8 ' || q || ' ORDER BY i8') FROM unnest(ARRAY['< -990000000000000000', '= 3', '> 990000000000000000', '= -9223372036854775808', '> 5::int2']) q;
SELECT q, ask('SELECT f8 FROM {} WHERE f8 ' || q || ' ORDER BY f8') FROM unnest(ARRAY['= 0', '= ''-0''', '< 0', '>= ''NaN''', '< ''NaN''', '> 4.9e299', '= ''Infinity''::float4', '< -1.5::float4', '> 1e-310']) q;
SELECT q, ask('SELECT f4 FROM {} WHERE f4 ' || q || ' ORDER BY f4') FROM unnest(ARRAY['= 0', '< -49.9', '>= ''NaN''', '> 0.1::float8', '= 1e-45::float4']) q;
SELECT q, ask('SELECT v FROM {} WHERE v ' || q) FROM unnest(ARRAY['= ''a'' COLLATE "C"', '< ''0a'' COLLATE "C"', '> ''f'' COLLATE "C" AND v < ''fa'' COLLATE "C"', '>= ''Straße 9'' COLLATE "en-x-icu" AND v < ''Straße a'' COLLATE "en-x-icu"', '= '''' COLLATE "C"', '<= chr(1) COLLATE "C"', '> ''zz'' COLLATE "en-x-icu"']) q;
SELECT ask('SELECT u FROM {} WHERE u = ''cfcd208495d565ef66e7dff9f98764da'''), ask('SELECT u FROM {} WHERE u > ''ff000000-0000-0000-0000-000000000000'' ORDER BY u'), ask('SELECT u FROM {} WHERE u <= ''00000000-0000-0000-0000-000000000000''');
SELECT ask('SELECT ts FROM {} WHERE ts < ''1975-01-01'' ORDER BY ts'), ask('SELECT ts FROM {} WHERE ts = ''infinity'''), ask('SELECT ts FROM {} WHERE ts > ''1971-01-01'' AND ts < ''1971-03-01'' ORDER BY ts DESC');
SELECT ask('SELECT lower(v) COLLATE "C" FROM {} WHERE lower(v) COLLATE "C" = ''a-b ca''');
SELECT ask('SELECT i8 FROM {} WHERE i2 > 100 AND i8 > 0 ORDER BY i8');

-- NULLs
SELECT ask('SELECT i4 FROM {} WHERE i4 IS NULL'), ask('SELECT i4 FROM {} WHERE i4 IS NOT NULL ORDER BY i4'), ask('SELECT ts FROM {} WHERE ts IS NULL'),
       ask('SELECT i4, v FROM {} WHERE i4 IS NULL AND v IS NULL'), ask('SELECT i2, v FROM {} WHERE i2 IS NULL AND v > ''a'' COLLATE "en-x-icu"');

-- arrays; order across the elements
SELECT ask('SELECT i4 FROM {} WHERE i4 = ANY (ARRAY[5, 3, 3, NULL, -7, 100000]) ORDER BY i4'), ask('SELECT i4 FROM {} WHERE i4 IN (1, 2, 3) ORDER BY i4 DESC'),
       ask('SELECT i2 FROM {} WHERE i2 = ANY (ARRAY[5, 3]::int8[])'), ask('SELECT i4 FROM {} WHERE i4 = ANY (ARRAY[]::int[])'), ask('SELECT i4 FROM {} WHERE i4 > ANY (ARRAY[1995, 1990])'),
       ask('SELECT v FROM {} WHERE v COLLATE "en-x-icu" = ANY (ARRAY[''ab'', ''Straße 5'', ''nothing''])'), ask('SELECT u FROM {} WHERE u = ANY (ARRAY[md5(''1''), md5(''2'')]::uuid[])');

-- several columns
SELECT ask('SELECT i4, v FROM {} WHERE i4 = 3 AND v > ''b'' COLLATE "C"'), ask('SELECT i4, v FROM {} WHERE i4 IN (3, 4) AND v = ''a'' COLLATE "C"'), ask('SELECT i4, v FROM {} WHERE i4 > 1980 AND v < ''b'' COLLATE "C"'),
       ask('SELECT i2, v, i8 FROM {} WHERE i2 = 7 AND v >= ''S'' COLLATE "en-x-icu" AND i8 > 0'), ask('SELECT u, f8 FROM {} WHERE u = md5(''77'')::uuid AND f8 < 0'), ask('SELECT u, f8 FROM {} WHERE u IN (md5(''5'')::uuid, md5(''6'')::uuid) ORDER BY u, f8 DESC');

-- index-only scans give the values back
VACUUM b; VACUUM t;
SELECT c, ask(format('SELECT %s FROM {} WHERE %s IS NOT NULL ORDER BY %s', c, c, c), 'Index Only Scan') FROM unnest(ARRAY['i2', 'i4', 'i8', 'f4', 'f8', 'u', 'ts']) c;
SELECT ask('SELECT v FROM {} ORDER BY v COLLATE "C"', 'Index Only Scan'), ask('SELECT v FROM {} ORDER BY v COLLATE "en-x-icu"', 'Index Only Scan'), ask('SELECT i4, v FROM {} ORDER BY i4 NULLS FIRST, v COLLATE "C" DESC', 'Index Only Scan');
SELECT f8, f4 FROM t WHERE f8 = 0 ORDER BY f8::text;

-- bitmaps
SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = on;
SELECT ask('SELECT count(*), sum(i8 % 1000) FROM {} WHERE i4 < 0', 'Bitmap Index Scan'), ask('SELECT count(*) FROM {} WHERE i4 IN (5, 6, 7)', 'Bitmap Index Scan'),
       ask('SELECT count(*) FROM {} WHERE i4 < 100 AND u > ''a0000000-0000-0000-0000-000000000000''', 'Bitmap'), ask('SELECT count(*) FROM {} WHERE i4 = 5 OR ts IS NULL', 'BitmapOr'),
       ask('SELECT count(*) FROM {} WHERE v > ''S'' COLLATE "en-x-icu"', 'Bitmap Index Scan');
RESET enable_indexscan; RESET enable_indexonlyscan; SET enable_bitmapscan = off;

-- merge join (mark and restore), min and max, DISTINCT ON, incremental sort, LIMIT
SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off;
SELECT ask('SELECT count(*), sum(x.i8 % 100) FROM {} x JOIN {} y ON x.i4 = y.i4', 'Merge Join'), ask('SELECT count(*) FROM {} x JOIN {} y ON x.u = y.u', 'Merge Join');
RESET enable_hashjoin; RESET enable_nestloop; RESET enable_material;
SELECT ask('SELECT min(i4), max(i4), min(f8), max(f8), min(ts), max(ts) FROM {}'), ask('SELECT DISTINCT ON (i4) i4 FROM {} ORDER BY i4'), ask('SELECT i4, i2 FROM {} ORDER BY i4, i2', 'Incremental Sort'),
       ask('SELECT i4 FROM {} ORDER BY i4 LIMIT 7'), ask('SELECT i4 FROM {} WHERE i4 > 17 ORDER BY i4 DESC LIMIT 7 OFFSET 3'),
       ask('SELECT (SELECT max(y.i4) FROM {} y WHERE y.i4 < x.i4) FROM {} x WHERE x.i4 BETWEEN 5 AND 15 ORDER BY x.i4');

-- scroll cursors: back and forth, across the ends
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT i4 FROM t WHERE i4 BETWEEN 10 AND 400 ORDER BY i4;
DECLARE d SCROLL CURSOR FOR SELECT i4 FROM b WHERE i4 BETWEEN 10 AND 400 ORDER BY i4;
CREATE FUNCTION step(name refcursor, how text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE got int; line text := '';
BEGIN
    FOR i IN 1..4 LOOP
        EXECUTE format('FETCH %s FROM %I', how, name) INTO got;
        line := line || ' ' || coalesce(got::text, '-');
    END LOOP;
    RETURN line;
END $$;
SELECT how, treedb, treedb = btree AS same FROM unnest(ARRAY['NEXT', 'PRIOR', 'PRIOR', 'NEXT', 'LAST', 'PRIOR', 'RELATIVE -100', 'RELATIVE 60', 'FIRST', 'ABSOLUTE 300', 'PRIOR', 'RELATIVE 500', 'PRIOR', 'RELATIVE -2000', 'NEXT']) how,
    LATERAL (SELECT step('c', how) AS treedb, step('d', how) AS btree OFFSET 0) both_cursors;
COMMIT;

-- after updates, deletes and vacuum
UPDATE b SET i4 = i4 + 1, v = v || 'x' WHERE i2 % 3 = 0; UPDATE t SET i4 = i4 + 1, v = v || 'x' WHERE i2 % 3 = 0;
DELETE FROM b WHERE i2 % 4 = 1; DELETE FROM t WHERE i2 % 4 = 1;
SELECT ask('SELECT i4 FROM {} ORDER BY i4'), ask('SELECT v FROM {} ORDER BY v COLLATE "en-x-icu" DESC');
VACUUM b; VACUUM t;
SELECT treedb.check('t');
SELECT ask('SELECT i4 FROM {} ORDER BY i4'), ask('SELECT v FROM {} ORDER BY v COLLATE "en-x-icu" DESC'), ask('SELECT i8 FROM {} WHERE i8 > 0 ORDER BY i8');
REINDEX TABLE t; SELECT treedb.check('t');
REINDEX TABLE CONCURRENTLY t; SELECT treedb.check('t');
SELECT ask('SELECT i4 FROM {} ORDER BY i4'), ask('SELECT v FROM {} ORDER BY v COLLATE "en-x-icu" DESC'), ask('SELECT ts FROM {} ORDER BY ts DESC NULLS LAST');
SET client_min_messages = warning;
DROP SCHEMA bt CASCADE;
