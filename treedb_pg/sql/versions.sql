-- Where the versions of the server ask different things of an ordered access method, the answers are the same.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
CREATE SCHEMA versions;
SET search_path = versions, public, treedb;
SET client_min_messages = warning;
CREATE TABLE n (a int, b int, d bson);
INSERT INTO n SELECT i % 40, i % 7, format('{"a": %s}', i % 100)::bson FROM generate_series(1, 4000) i;
CREATE TABLE t AS SELECT * FROM n;

-- From 18 on the order of a query may be one of any access method: that of btree's indexes is still found, for types of
-- the server and of the extension.
CREATE INDEX n_a ON n (a);
CREATE INDEX n_d ON n (d);
ANALYZE n;
SET enable_sort = off; SET enable_seqscan = off;
SELECT pg_temp.plan('SELECT a FROM n ORDER BY a LIMIT 5');
SELECT pg_temp.plan('SELECT d FROM n ORDER BY d DESC LIMIT 5');
RESET enable_sort; RESET enable_seqscan;
CREATE INDEX t_ab ON t USING treedb_btree (a, b DESC);
CREATE INDEX t_d ON t USING treedb_btree (d);
VACUUM ANALYZE t;

-- Merge joins and window frames find btree's support functions.
SET enable_hashjoin = off; SET enable_nestloop = off;
SELECT count(*), sum(x.b + y.b) FROM t x JOIN t y ON x.a = y.a AND x.b = y.b;
SELECT count(*) FROM t x JOIN n y ON x.d = y.d;
RESET enable_hashjoin; RESET enable_nestloop;
SELECT a, count(*), min(near), max(near) FROM (SELECT a, count(*) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near FROM t WHERE a < 3) x GROUP BY a ORDER BY a;

-- From 17 on the server does not sort what an index returns, whatever arrays it is searched by: few elements, and more
-- than become ranges of the index.
CREATE INDEX n_ab ON n (a, b DESC);
CREATE FUNCTION ordered(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text[]; line record; "table" text;
BEGIN
    FOREACH "table" IN ARRAY '{t,n}'::text[] LOOP
        FOR line IN EXECUTE replace(query, '<table>', "table") LOOP
            found[("table" = 'n')::int] := concat(found[("table" = 'n')::int], line, ' ');
        END LOOP;
    END LOOP;
    RETURN CASE WHEN found[0] = found[1] THEN 'same: ' || length(found[0]) ELSE 'differs: ' || left(found[0], 100) || ' but ' || left(found[1], 100) END;
END $$;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT q, ordered('SELECT a, b FROM <table> WHERE ' || q) FROM unnest(ARRAY[
    'a IN (9, 3, 17) AND b IN (5, 1) ORDER BY a, b DESC', 'a IN (9, 3, 17) AND b IN (5, 1) ORDER BY a DESC, b',
    'a > 30 AND b IN (6, 0, 2) ORDER BY a, b DESC', 'a > 30 AND b IN (6, 0, 2) ORDER BY a DESC, b',
    'b IN (6, 0, 2) ORDER BY a, b DESC LIMIT 500', 'a = ANY (ARRAY(SELECT generate_series(39, 0, -2))) AND b = ANY (ARRAY(SELECT generate_series(0, 500))) ORDER BY a, b DESC',
    'a = ANY (ARRAY(SELECT generate_series(-3000, 3000))) AND b = ANY (ARRAY(SELECT generate_series(0, 500))) ORDER BY a DESC, b']) q;
RESET enable_seqscan; RESET enable_bitmapscan;

-- From 18 on the server's own btrees can skip from one value of a column to the next, ours cannot: a condition on the
-- second column alone costs a good part of what reading the whole index and returning its rows does.
CREATE FUNCTION cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
CREATE TABLE g AS SELECT i % 3 AS a, i / 3 AS b, i AS c FROM generate_series(1, 30000) i;
CREATE INDEX g_abc ON g USING treedb_btree (a, b, c);
VACUUM ANALYZE g;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT q, cost('SELECT a, b, c FROM g WHERE ' || q) / cost('SELECT a, b, c FROM g') > part AS costs_that_part FROM (VALUES
    ('b = 77', .3), ('a > 0 AND b = 77', .2), ('a = 1 AND c = 77', .1), ('a IN (0, 1) AND c = 77', .2)) x (q, part);
SELECT cost('SELECT a, b, c FROM g WHERE a = 1 AND b = 77 AND c > 3') / cost('SELECT a, b, c FROM g') < .03 AS little;
RESET enable_seqscan; RESET enable_bitmapscan;

-- An index that the planner must not take is not taken, even if everything else is disabled: from 18 on it counts
-- disabled nodes, and looks at costs only then.
CREATE INDEX t_keys ON t USING treedb_btree (keys(d, '{"a": 1}')) WHERE b = 3;
DROP INDEX t_ab, t_d;
SET enable_seqscan = off;
SELECT count(*) FROM pg_temp.plan('SELECT a FROM t WHERE b = 3') plan WHERE plan LIKE '%t_keys%';
SELECT count(*), sum(a) FROM t WHERE b = 3;
RESET enable_seqscan;
DROP SCHEMA versions CASCADE;
