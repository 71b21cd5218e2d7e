-- The same statements on a heap table and on a treedb table: counts, rows and errors must be the same. Where the rows lie in
-- their pages need not be: what else runs in the cluster decides when dead rows can be removed.
CREATE SCHEMA twin;
SET search_path = twin, public;

-- run(SQL): carries SQL out twice, {} standing for the table, and compares row count or error.
CREATE FUNCTION run(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    outcome text[];
    target text;
    rows bigint;
BEGIN
    FOREACH target IN ARRAY ARRAY['h', 't'] LOOP
        BEGIN
            EXECUTE replace(statement, '{}', target);
            GET DIAGNOSTICS rows = ROW_COUNT;
            outcome := outcome || (rows || ' rows');
        EXCEPTION WHEN OTHERS THEN
            outcome := outcome || (SQLSTATE || ' ' || regexp_replace(SQLERRM, '"((child_)?)[ht]([_"])', '"\1{}\3', 'g'));
        END;
    END LOOP;
    RETURN CASE WHEN outcome[1] = outcome[2] THEN 'same: ' || outcome[1]
                ELSE 'DIFFERENT: heap ' || outcome[1] || ', treedb ' || outcome[2] END;
END $$;

-- ask(SQL): compares the answers of a query, as sets of rows unless it has an order.
CREATE FUNCTION ask(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    heap text;
    tree text;
    counted bigint;
    wrap text := 'SELECT count(*), md5(string_agg(r::text, E''\n'' ' ||
                 CASE WHEN query ~* 'order by' THEN '' ELSE 'ORDER BY r::text' END || ')) FROM (%s) r';
BEGIN
    EXECUTE format(wrap, replace(query, '{}', 'h')) INTO counted, heap;
    EXECUTE format(wrap, replace(query, '{}', 't')) INTO counted, tree;
    RETURN CASE WHEN heap IS NOT DISTINCT FROM tree THEN 'same: ' || counted || ' rows'
                ELSE 'DIFFERENT: ' || query END;
END $$;

CREATE TABLE h (id int PRIMARY KEY, grp int, name text, big text, at timestamptz, extra int) USING heap WITH (autovacuum_enabled = off);
CREATE TABLE t (id int PRIMARY KEY, grp int, name text, big text, at timestamptz, extra int) USING treedb WITH (autovacuum_enabled = off);
SELECT relname, amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE relname IN ('h', 't') ORDER BY 1;
-- TOAST tables are heap tables.
SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
    WHERE c.oid = (SELECT reltoastrelid FROM pg_class WHERE oid = 't'::regclass);

SELECT run($$INSERT INTO {} SELECT i, i % 17, 'name ' || i, NULL, 'epoch'::timestamptz + i * interval '1 min'
             FROM generate_series(1, 5000) i$$);
SELECT run($$INSERT INTO {} VALUES (1, 1, 'twice')$$);
SELECT run($$INSERT INTO {} VALUES (1, 99, 'upsert') ON CONFLICT (id) DO UPDATE SET grp = excluded.grp$$);
SELECT run($$INSERT INTO {} VALUES (1, 100), (6000, 1) ON CONFLICT DO NOTHING$$);
SELECT run($$UPDATE {} SET grp = grp + 1 WHERE id % 3 = 0$$);
SELECT run($$UPDATE {} SET name = upper(name) WHERE grp = 5$$);
SELECT run($$DELETE FROM {} WHERE id % 7 = 0$$);
SELECT run($$UPDATE {} SET id = id + 10000 WHERE id BETWEEN 100 AND 200$$);
SELECT ask('SELECT * FROM {}');
SELECT ask('SELECT xmin = xmin, * FROM {} ORDER BY id');
SELECT ask('SELECT 1 FROM {} HAVING count(*) = count(DISTINCT ctid)');

-- TOAST: out of line and compressed, replaced, deleted
SELECT run($$UPDATE {} SET big = (SELECT string_agg(md5((i * id)::text), '') FROM generate_series(1, 300) i)
             WHERE id <= 50$$);
SELECT run($$UPDATE {} SET big = repeat('x', 100000) WHERE id BETWEEN 51 AND 60$$);
SELECT ask('SELECT id, length(big), md5(big) FROM {} ORDER BY id');
SELECT run($$UPDATE {} SET big = big || '!' WHERE id BETWEEN 40 AND 55$$);
SELECT run($$DELETE FROM {} WHERE id BETWEEN 10 AND 20$$);
SELECT ask('SELECT id, substr(big, 5, 10), right(big, 5) FROM {} ORDER BY id');

-- indexes of every kind over the table, built and used
SELECT run($$CREATE INDEX ON {} (grp, name)$$);
SELECT run($$CREATE INDEX ON {} (lower(name)) WHERE grp > 3$$);
SELECT run($$CREATE INDEX ON {} USING hash (name)$$);
SELECT run($$CREATE INDEX ON {} USING brin (id)$$);
SELECT run($$CREATE INDEX ON {} USING gin (to_tsvector('simple', coalesce(name, '')))$$);
CREATE INDEX CONCURRENTLY h_at ON h (at);
CREATE INDEX CONCURRENTLY t_at ON t (at);
SET enable_seqscan = off;
SELECT ask('SELECT * FROM {} WHERE grp = 4 ORDER BY grp, name, id');
SELECT ask($$SELECT * FROM {} WHERE lower(name) = 'name 77' AND grp > 3$$);
SELECT ask($$SELECT * FROM {} WHERE name = 'name 100'$$);
SELECT ask($$SELECT * FROM {} WHERE to_tsvector('simple', coalesce(name, '')) @@ 'name & 300'::tsquery$$);
SELECT ask($$SELECT * FROM {} WHERE at < 'epoch'::timestamptz + interval '40 min' ORDER BY at$$);
SET enable_indexscan = off;
SELECT ask('SELECT * FROM {} WHERE grp IN (1, 2, 3) OR id < 100');
SELECT ask('SELECT * FROM {} WHERE id BETWEEN 500 AND 700');
RESET enable_indexscan;
SELECT ask($$SELECT id FROM {} WHERE ctid = (SELECT ctid FROM {} WHERE id = 1501)$$);
SELECT ask($$SELECT id FROM {} WHERE ctid >= (SELECT ctid FROM {} WHERE id = 1501) UNION ALL SELECT id FROM {} WHERE ctid < (SELECT ctid FROM {} WHERE id = 1501)$$);
SELECT ask($$SELECT id FROM {} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {} WHERE id IN (1501, 1502, 4001)) || ARRAY['(90000,1)', '(2,2000)']::tid[])$$);
RESET enable_seqscan;
-- a sample is of pages and places in them: all of it is compared, of a part how many rows it has
SELECT ask('SELECT * FROM {} TABLESAMPLE SYSTEM (100)');
SELECT ask('SELECT * FROM {} TABLESAMPLE BERNOULLI (100)');
SELECT ask('SELECT 1 FROM {} TABLESAMPLE SYSTEM (40) REPEATABLE (3) HAVING count(*) BETWEEN 500 AND 3500 AND count(*) = count(DISTINCT id)');
SELECT ask('SELECT 1 FROM {} TABLESAMPLE BERNOULLI (10) REPEATABLE (3) HAVING count(*) BETWEEN 250 AND 650 AND count(*) = count(DISTINCT id)');

-- an index built over rows that this very transaction updated in place (HOT), inserted and deleted
BEGIN;
SELECT run($$UPDATE {} SET extra = id % 11 WHERE id % 4 = 1$$);
SELECT run($$UPDATE {} SET extra = extra + 1 WHERE id % 8 = 1$$);
SELECT run($$DELETE FROM {} WHERE id % 40 = 2$$);
SELECT run($$INSERT INTO {} (id, extra) SELECT i, i FROM generate_series(50000, 50020) i$$);
SELECT run($$CREATE INDEX {}_extra ON {} (extra)$$);
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
SELECT ask('SELECT id, extra FROM {} WHERE extra > 2 ORDER BY extra, id');
ROLLBACK;

-- savepoints and cursors
BEGIN;
SELECT run($$INSERT INTO {} VALUES (20001, 1, 'kept')$$);
SAVEPOINT a;
SELECT run($$INSERT INTO {} VALUES (20002, 1, 'lost')$$);
SELECT run($$DELETE FROM {} WHERE id < 500$$);
ROLLBACK TO a;
SELECT ask('SELECT * FROM {} WHERE id >= 20000 OR id < 500');
SELECT run($$SELECT * FROM {} WHERE id < 30 FOR UPDATE$$);
SELECT run($$SELECT * FROM {} WHERE id < 30 FOR KEY SHARE SKIP LOCKED$$);
SELECT run($$SELECT * FROM {} WHERE id < 30 FOR NO KEY UPDATE NOWAIT$$);
DECLARE hc SCROLL CURSOR FOR SELECT id FROM h WHERE id > 100;
DECLARE tc SCROLL CURSOR FOR SELECT id FROM t WHERE id > 100;
FETCH 4 FROM hc; FETCH 4 FROM tc;
FETCH BACKWARD 2 FROM hc; FETCH BACKWARD 2 FROM tc;
FETCH LAST FROM hc; FETCH LAST FROM tc;
FETCH BACKWARD 2 FROM hc; FETCH BACKWARD 2 FROM tc;
UPDATE h SET name = 'here' WHERE CURRENT OF hc;
UPDATE t SET name = 'here' WHERE CURRENT OF tc;
COMMIT;
SELECT ask('SELECT * FROM {}');

-- maintenance
VACUUM h; VACUUM t;
VACUUM (FREEZE, ANALYZE) h; VACUUM (FREEZE, ANALYZE) t;
SELECT h.reltuples = t.reltuples AS tuples, abs(h.relpages - t.relpages) <= 2 AS pages, abs(h.relallvisible - t.relallvisible) <= 2 AS visible,
       h.relfrozenxid <> '0' AND t.relfrozenxid <> '0' AS frozen
    FROM pg_class h, pg_class t WHERE h.oid = 'twin.h'::regclass AND t.oid = 'twin.t'::regclass;
SELECT ask($$SELECT attname, null_frac, avg_width, n_distinct FROM pg_stats WHERE schemaname = 'twin' AND tablename = '{}'$$);
SELECT run($$DELETE FROM {} WHERE id % 2 = 0$$);
VACUUM FULL h; VACUUM FULL t;
SELECT ask('SELECT * FROM {} ORDER BY id');
SELECT ask('SELECT 1 FROM {} HAVING count(*) = count(DISTINCT ctid)');
SELECT run($$UPDATE {} SET grp = -grp WHERE id % 5 = 0$$);
CREATE INDEX h_grp ON h (grp, id); CREATE INDEX t_grp ON t (grp, id);
CLUSTER h USING h_grp; CLUSTER t USING t_grp;
-- (the order of the index)
SELECT ask('SELECT * FROM {} ORDER BY ctid');
SET enable_seqscan = off; SET enable_sort = off;
CLUSTER h USING h_at; CLUSTER t USING t_at;
RESET enable_seqscan; RESET enable_sort;
SELECT ask('SELECT * FROM {} ORDER BY ctid');
SELECT run($$ALTER TABLE {} DROP COLUMN at$$);
SELECT run($$ALTER TABLE {} ADD COLUMN more int DEFAULT 7$$);
SELECT run($$ALTER TABLE {} ALTER COLUMN grp TYPE bigint$$);
VACUUM FULL h; VACUUM FULL t;
SELECT ask('SELECT * FROM {}');
REINDEX TABLE h; REINDEX TABLE t;
REINDEX TABLE CONCURRENTLY h; REINDEX TABLE CONCURRENTLY t;
SET enable_seqscan = off;
SELECT ask('SELECT * FROM {} WHERE grp > 3 ORDER BY grp, id');
RESET enable_seqscan;

-- parallel plans
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM t WHERE grp <> 3;
SELECT ask('SELECT count(*), sum(id), sum(grp) FROM {} WHERE grp <> 3');
SET max_parallel_maintenance_workers = 2; SET maintenance_work_mem = '64MB';
ALTER TABLE t SET (parallel_workers = 2);
SELECT run($$CREATE INDEX {}_par ON {} (name, id)$$);
SET enable_seqscan = off;
SELECT ask($$SELECT name, id FROM {} WHERE name > '' ORDER BY name, id$$);
RESET ALL; SET search_path = twin, public;

-- kinds of tables
CREATE TEMP TABLE tmp_h USING heap AS SELECT * FROM h;
CREATE TEMP TABLE tmp_t USING treedb AS SELECT * FROM t;
SELECT ask('SELECT * FROM tmp_{}');
CREATE UNLOGGED TABLE u_h USING heap AS SELECT * FROM h;
CREATE UNLOGGED TABLE u_t USING treedb AS SELECT * FROM t;
SELECT ask('SELECT * FROM u_{}');
ALTER TABLE u_h SET LOGGED; ALTER TABLE u_t SET LOGGED;
SELECT ask('SELECT * FROM u_{}');
ALTER TABLE u_t SET ACCESS METHOD heap; SELECT ask('SELECT * FROM u_{}');
ALTER TABLE u_t SET ACCESS METHOD treedb; SELECT ask('SELECT * FROM u_{}');
CREATE MATERIALIZED VIEW m_h USING heap AS SELECT grp, count(*) FROM h GROUP BY grp;
CREATE MATERIALIZED VIEW m_t USING treedb AS SELECT grp, count(*) FROM t GROUP BY grp;
SELECT run('REFRESH MATERIALIZED VIEW m_{}');
SELECT ask('SELECT * FROM m_{}');
SET default_table_access_method = treedb;
CREATE TABLE parts (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (100) TO (200);
RESET default_table_access_method;
INSERT INTO parts SELECT i, 'v' || i FROM generate_series(0, 199) i;
UPDATE parts SET id = id + 100 WHERE id < 3;
SELECT tableoid::regclass, count(*) FROM parts GROUP BY 1 ORDER BY 1;
COPY t (id, name) FROM stdin;
30001	copied
30002	copied too
\.
COPY h (id, name) FROM stdin;
30001	copied
30002	copied too
\.
SELECT ask('SELECT * FROM {}');

-- TRUNCATE, rolled back and not
BEGIN; TRUNCATE t; SELECT count(*) FROM t; ROLLBACK;
SELECT ask('SELECT * FROM {}');
SELECT run('TRUNCATE {}');
SELECT ask('SELECT * FROM {}');

-- foreign keys, triggers, constraints
CREATE TABLE child_h (id int REFERENCES h ON DELETE CASCADE, n int CHECK (n > 0)) USING heap;
CREATE TABLE child_t (id int REFERENCES t ON DELETE CASCADE, n int CHECK (n > 0)) USING treedb;
SELECT run('INSERT INTO {} (id) VALUES (1), (2), (3)');
SELECT run('INSERT INTO child_{} VALUES (1, 1), (1, 2), (3, 3)');
SELECT run('INSERT INTO child_{} VALUES (4, 4)');
SELECT run('INSERT INTO child_{} VALUES (1, 0)');
SELECT run('DELETE FROM {} WHERE id = 1');
SELECT ask('SELECT * FROM child_{}');

SET client_min_messages = warning;
DROP SCHEMA twin CASCADE;
