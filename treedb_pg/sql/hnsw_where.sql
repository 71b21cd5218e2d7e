-- WHERE .. ORDER BY embedding <-> '{..}' LIMIT .. by an index of vectors: the answer is that of the table without its index, or
-- nearly so where there are more rows than the query wants.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA hnsw_where;
SET search_path = hnsw_where, treedb, public;
\set file :dir '/sql/include/vectors.psql'
\i :file
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SELECT setseed(0.5);
CREATE TABLE queries AS SELECT i AS id, random_vector(i, 24) AS e FROM generate_series(1, 12) i;
CREATE TABLE v (id int PRIMARY KEY, part int, note text, e real[]);
INSERT INTO v SELECT i, i % 500, CASE WHEN i % 3 = 0 THEN 'note ' || i END, random_vector(i % 20, 24) FROM generate_series(1, 5000) i;
CREATE INDEX v_e ON v USING treedb_hnsw (e) WITH (dimensions = 24);
ANALYZE v;
SET enable_seqscan = off;
SET enable_sort = off;
SELECT e AS one FROM queries WHERE id = 1 \gset

-- EXPLAIN shows the index, the order and the conditions
SELECT pg_temp.plan($$SELECT id FROM v WHERE part = 7 ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 3$$);
SELECT pg_temp.plan($$SELECT id FROM v WHERE part = 7 AND note IS NULL ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 3$$, 'COSTS OFF, VERBOSE');
SELECT count(*) FROM pg_temp.run($$SELECT id FROM v WHERE part < 50 ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 3$$) x WHERE x ~ 'Rows Removed by Filter: [1-9]';
-- without conditions
SELECT pg_temp.plan($$SELECT id FROM v ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 3$$);

-- twin(FILTER, LIMIT): queries whose answer by the index is not the exact one
CREATE FUNCTION twin(filter text, rows int) RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE
    target record;
    query text := format('SELECT e <-> $1 AS d FROM v WHERE %s ORDER BY e <-> $1 LIMIT %s', filter, rows);
BEGIN
    FOR target IN SELECT id, e FROM queries ORDER BY id LOOP
        IF answer(query, target.e, true) IS DISTINCT FROM answer(query, target.e, false) THEN
            RETURN NEXT target.id;
        END IF;
    END LOOP;
END $$;

-- every row that there is comes, in order, whatever the condition is
SELECT filter, (SELECT count(*) FROM twin(filter, 30)) AS differ FROM (VALUES
    ('part = 7'), ('part = 7 AND note IS NOT NULL'), ('note LIKE ''note 4__5'''), ('id IN (1, 77, 4077)'), ('id = 4999'), ('false OR id < 0'),
    ('part = 7 OR id = 3'), ('length(note) + part < 7'), ('e[1] > 2.2')) f(filter);
SET treedb.hnsw_ef_search = 1;
SELECT count(*) AS differ FROM twin('part = 7', 30);
SET treedb.hnsw_strict_order = off;
SELECT bool_and(found = 10) AS all_found FROM (SELECT q.id, (SELECT count(*) FROM (SELECT 1 FROM v WHERE part = q.id ORDER BY v.e <-> q.e LIMIT 30) x) AS found FROM queries q) y;
RESET treedb.hnsw_strict_order;
RESET treedb.hnsw_ef_search;
-- where there are more, the nearest are found
SELECT filter, recall('v', '<->', filter) > 0.95 AS recall_is_high FROM (VALUES ('part < 250'), ('part < 50'), ('part < 5'), ('note IS NOT NULL')) f(filter);
-- vectors without codes of their neighbours: of few dimensions, under L1
CREATE INDEX v_short ON v USING treedb_hnsw ((e[1:6])) WITH (dimensions = 6);
CREATE INDEX v_l1 ON v USING treedb_hnsw (e real_l1_ops) WITH (dimensions = 24);
SELECT pg_temp.plan($$SELECT id FROM v WHERE part = 7 ORDER BY e[1:6] <-> '{1,2,3,4,5,6}' LIMIT 3$$);
SELECT array_agg(id) AS found FROM (SELECT id FROM v WHERE part = 7 ORDER BY e[1:6] <-> '{1,2,3,4,5,6}' LIMIT 30) x \gset
SELECT array_agg(id) = :'found' AS same FROM (SELECT id FROM v WHERE part = 7 ORDER BY (e[1:6] <-> '{1,2,3,4,5,6}') + 0) x;
SELECT array_agg(id) AS found FROM (SELECT id FROM v WHERE part = 7 ORDER BY e <+> :'one'::real[] LIMIT 30) x \gset
SELECT array_agg(id) = :'found' AS same FROM (SELECT id FROM v WHERE part = 7 ORDER BY (e <+> :'one'::real[]) + 0) x;
DROP INDEX v_l1, v_short;

-- columns, system columns, whole rows, distances
SELECT id, part, note, round((e <-> :'one')::numeric, 3) = round(d::numeric, 3) AS same, tableoid::regclass, ctid IS NOT NULL AS has_ctid, xmin IS NOT NULL AS has_xmin, (v).part AS part_of_row
FROM (SELECT *, tableoid, ctid, xmin, v, e <-> :'one' AS d FROM v WHERE part = 7 ORDER BY e <-> :'one' LIMIT 2) v;
-- parameters, of a generic plan too; NULL as the vector; the condition and the vector of an outer row
PREPARE nearest(int, real[], int) AS SELECT id FROM v WHERE part = $1 ORDER BY e <-> $2 LIMIT $3;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE nearest(7, :'one', 2);
EXECUTE nearest(7, :'one', 2);
EXECUTE nearest(8, :'one', 2);
SELECT count(*) FROM (SELECT id FROM v WHERE part = 7 ORDER BY e <-> NULL::real[] LIMIT 30) x;
RESET plan_cache_mode;
SELECT * FROM pg_temp.plan($$SELECT q.id, n.id FROM queries q, LATERAL (SELECT id FROM v WHERE part = q.id AND note IS NULL ORDER BY v.e <-> q.e LIMIT 2) n$$) x WHERE x !~ 'Disabled: true';
SELECT count(*) AS differ FROM queries q,
    LATERAL (SELECT array_agg(id) AS found FROM (SELECT id FROM v WHERE part = q.id AND note IS NULL ORDER BY v.e <-> q.e LIMIT 4) x) n,
    LATERAL (SELECT array_agg(id) AS exact FROM (SELECT id FROM v WHERE part = q.id AND note IS NULL ORDER BY (v.e <-> q.e) + 0 LIMIT 4) x) m
WHERE found IS DISTINCT FROM exact;
-- joined to others; windows, which rely on the order; a cursor that goes back
SELECT count(*) FROM (SELECT id FROM v WHERE part = 7 ORDER BY e <-> :'one' LIMIT 5) n JOIN v USING (id);
SELECT bool_and(place = rank) FROM (SELECT row_number() OVER (ORDER BY e <-> :'one') AS place, rank() OVER (ORDER BY (e <-> :'one') + 0) AS rank FROM v WHERE part = 7) x;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM v WHERE part = 7 ORDER BY e <-> :'one';
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
-- a cursor's rows are those of its snapshot
UPDATE v SET part = 8 WHERE part = 7 AND id <> 7;
SELECT count(*) FROM (SELECT id FROM v WHERE part = 7 ORDER BY e <-> :'one' LIMIT 30) x;
SELECT count(*) FROM (SELECT id FROM v WHERE part = 8 ORDER BY e <-> :'one' LIMIT 30) x;
FETCH ALL FROM c;
ROLLBACK;
-- rows that were deleted, or moved to a new version
BEGIN;
DELETE FROM v WHERE part = 7 AND id < 2000;
UPDATE v SET e = e, note = 'new' WHERE part = 7 AND id < 3000;
SELECT count(*), count(*) FILTER (WHERE note = 'new') AS new FROM (SELECT note FROM v WHERE part = 7 ORDER BY e <-> :'one' LIMIT 30) x;
ROLLBACK;
SELECT id, note FROM v WHERE part = 7 ORDER BY e <-> :'one' LIMIT 1 FOR UPDATE;

-- an error of a condition is an error of the query, and nothing is left of it
SELECT id FROM v WHERE 1 / (id - 77) >= 0 ORDER BY e <-> :'one' LIMIT 5000;
SELECT count(*) FROM (SELECT id FROM v WHERE 1 / (id - 5077) <= 0 ORDER BY e <-> :'one' LIMIT 5) x;
-- a condition that searches the same index
CREATE FUNCTION is_near(row_id int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN RETURN row_id IN (SELECT id FROM v WHERE part < 250 ORDER BY e <-> (SELECT e FROM queries WHERE id = 2) LIMIT 3); END $$;
SELECT count(*) FROM (SELECT id FROM v WHERE part = 7 AND NOT is_near(id) ORDER BY e <-> :'one' LIMIT 30) x;
-- conditions with plans of their own are evaluated as ever
SELECT count(*) FROM pg_temp.plan($$SELECT id FROM v WHERE EXISTS (SELECT FROM queries q WHERE q.id = v.part) OR part = 400 ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 3$$) x WHERE x ~ 'Index Scan using v_e';

-- row security: a function that tells what it sees is asked only about rows that the policy shows
CREATE ROLE hnsw_where_reader;
GRANT USAGE ON SCHEMA hnsw_where, treedb TO hnsw_where_reader;
GRANT SELECT ON v, queries TO hnsw_where_reader;
ALTER TABLE v ENABLE ROW LEVEL SECURITY;
CREATE POLICY parts ON v FOR SELECT TO hnsw_where_reader USING (part IN (7, 8));
CREATE FUNCTION tells(part int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$
BEGIN
    IF part NOT IN (7, 8) THEN RAISE NOTICE 'saw a row of part %', part; END IF;
    RETURN true;
END $$;
SET ROLE hnsw_where_reader;
SELECT pg_temp.plan($$SELECT id FROM v WHERE tells(part) ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 3$$);
SELECT count(*), min(part), max(part) FROM (SELECT part FROM v WHERE tells(part) ORDER BY e <-> :'one' LIMIT 30) x;
RESET ROLE;
ALTER TABLE v DISABLE ROW LEVEL SECURITY;

-- partitions, each by its own index; a partial index; a table of treedb's
CREATE TABLE p (id int, part int, e real[]) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (2500);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (2500) TO (9999);
CREATE INDEX ON p USING treedb_hnsw (e) WITH (dimensions = 24);
INSERT INTO p SELECT id, part, e FROM v;
ANALYZE p;
SELECT pg_temp.plan($$SELECT id FROM p WHERE part = 7 ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 3$$);
SELECT array_agg(id) AS found FROM (SELECT id FROM p WHERE part = 7 ORDER BY e <-> :'one' LIMIT 30) x \gset
SELECT array_agg(id) = :'found' AS same FROM (SELECT id FROM p WHERE part = 7 ORDER BY (e <-> :'one') + 0) x;
DROP INDEX v_e;
CREATE INDEX v_part ON v USING treedb_hnsw (e) WITH (dimensions = 24) WHERE part < 20;
SELECT pg_temp.plan($$SELECT id FROM v WHERE part < 20 ORDER BY e <-> '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}' LIMIT 3$$);
SELECT count(*) AS differ FROM twin('part < 20 AND note IS NULL AND id % 7 = 0', 100);
CREATE TABLE t (LIKE v) USING treedb;
INSERT INTO t SELECT * FROM v;
CREATE INDEX t_e ON t USING treedb_hnsw (e) WITH (dimensions = 24);
ANALYZE t;
SELECT array_agg(id) AS found FROM (SELECT id FROM t WHERE part = 7 ORDER BY e <-> :'one' LIMIT 30) x \gset
SELECT array_agg(id) = :'found' AS same FROM (SELECT id FROM t WHERE part = 7 ORDER BY (e <-> :'one') + 0) x;
-- what a vacuum has removed
DELETE FROM t WHERE part = 7 AND id < 2000 OR part <> 7 AND id % 3 > 0;
VACUUM t;
SELECT array_agg(id) AS found FROM (SELECT id FROM t WHERE part = 7 ORDER BY e <-> :'one' LIMIT 30) x \gset
SELECT array_agg(id) = :'found' AS same FROM (SELECT id FROM t WHERE part = 7 ORDER BY (e <-> :'one') + 0) x;

SET client_min_messages = warning;
DROP SCHEMA hnsw_where CASCADE;
REVOKE ALL ON SCHEMA treedb FROM hnsw_where_reader;
DROP ROLE hnsw_where_reader;
