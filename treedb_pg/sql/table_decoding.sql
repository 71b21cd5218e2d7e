-- Logical decoding hands out every change of a treedb table, as it does for heap.
-- Not every installation has the plugin.
SELECT (pg_stat_file(setting || '/test_decoding.so', true)).size IS NULL AS missing FROM pg_config WHERE name = 'PKGLIBDIR' \gset
\if :missing
\quit
\endif
CREATE TABLE dec_h (id int PRIMARY KEY, v text, big text) USING heap;
CREATE TABLE dec_t (id int PRIMARY KEY, v text, big text) USING treedb;
ALTER TABLE dec_h REPLICA IDENTITY FULL;
ALTER TABLE dec_t REPLICA IDENTITY FULL;
SELECT 'slot' FROM pg_create_logical_replication_slot('treedb_decoding', 'test_decoding');
DO $$
DECLARE target text;
BEGIN
    FOREACH target IN ARRAY ARRAY['dec_h', 'dec_t'] LOOP
        EXECUTE format('INSERT INTO %s SELECT i, ''v'' || i FROM generate_series(1, 20) i', target);
        EXECUTE format('INSERT INTO %s VALUES (21, ''long'', (SELECT string_agg(md5(i::text), '''') FROM generate_series(1, 400) i))', target);
        EXECUTE format('UPDATE %s SET v = v || ''!'' WHERE id %% 4 = 0', target);
        EXECUTE format('UPDATE %s SET id = 100 WHERE id = 7', target);
        EXECUTE format('INSERT INTO %s VALUES (5, ''again'') ON CONFLICT (id) DO UPDATE SET v = excluded.v', target);
        EXECUTE format('DELETE FROM %s WHERE id > 15 AND id < 21', target);
    END LOOP;
END $$;
CREATE TABLE copied (id int, v text) USING treedb;
COPY copied FROM stdin;
1	one
2	two
\.
CREATE TABLE selected USING treedb AS SELECT id, v FROM dec_t WHERE id < 4;
TRUNCATE copied;
CREATE TEMP TABLE changes AS
    SELECT row_number() OVER () AS n, data FROM pg_logical_slot_get_changes('treedb_decoding', NULL, NULL, 'include-xids', '0')
    WHERE data NOT IN ('BEGIN', 'COMMIT');
-- the same changes from both tables, in the same order
WITH told AS (
    SELECT CASE WHEN data LIKE 'table public.dec_h:%' THEN 'heap' ELSE 'treedb' END AS am,
           array_agg(regexp_replace(data, 'dec_[ht]', 'dec') ORDER BY n) AS changes
    FROM changes WHERE data LIKE 'table public.dec_%' GROUP BY 1)
SELECT h.changes = t.changes AS same, cardinality(t.changes) AS changes
    FROM told h, told t WHERE h.am = 'heap' AND t.am = 'treedb';
SELECT left(data, 70) FROM changes WHERE data LIKE '%dec_t%' AND data NOT LIKE '%INSERT%' ORDER BY n;
SELECT data FROM changes WHERE data LIKE '%copied%' OR data LIKE '%selected%' ORDER BY n;
SELECT 'dropped' FROM pg_drop_replication_slot('treedb_decoding');
DROP TABLE dec_h, dec_t, copied, selected;
