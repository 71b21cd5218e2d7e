-- Parallel plans: conditions on documents and treedb.find by parallel scans of the table and of its indexes.
-- The rows are those of one process.
CREATE SCHEMA together;
SET search_path = together, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SET jit = off;
SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 2;
SELECT create_collection('c');
ALTER TABLE c SET (autovacuum_enabled = off, parallel_workers = 2);
INSERT INTO c SELECT format('{"_id": %s, "n": %s, "tags": ["t%s", "t%s"], "k": %s, "s": "%s"}', n, n % 100, n % 40, n % 7, n % 9, repeat(md5(n::text), 4))::bson FROM generate_series(1, 20000) n;
SELECT create_index('c', '{"n": 1}'), create_index('c', '{"tags": 1}'), create_index('c', '{"k": 1}');
DELETE FROM c WHERE doc @@ '{"n": 55}';
ANALYZE c;

-- A filter without an index is evaluated by a parallel scan of the table, by the server's own node.
SELECT pg_temp.plan($$SELECT count(*) FROM c WHERE doc @@ '{"s": {"$gt": "8"}}'$$);
-- One with an index by several processes that search by it: each returns the rows of the blocks that it claims.
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT count(*) FROM c WHERE doc @@ '{"n": {"$gte": 20, "$lt": 60}}' AND doc ->> 's' > '3'$$);
SELECT pg_temp.plan($$SELECT count(*) FROM c WHERE doc @> '{"k": 3}'$$);
RESET enable_seqscan;
-- find, where it reads the whole collection.
SELECT pg_temp.plan($$SELECT count(*) FROM find('c', '{"s": {"$gt": "8"}}')$$);
SELECT pg_temp.plan($$SELECT doc ->> '_id' FROM find('c', '{"s": {"$gt": "8"}}', '{"projection": {"n": 1}}') doc WHERE doc ->> 'n' = '7' ORDER BY 1$$);
SELECT pg_temp.plan($$SELECT f.doc ->> 'n', count(*) FROM find('c', '{"s": {"$gt": "8"}}') f(doc) JOIN c ON c.doc -> '_id' = f.doc -> '_id' GROUP BY 1$$);

-- ask(QUERY): the answer of several processes, which must have been there, against that of one.
CREATE FUNCTION ask(query text, workers boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE alone text; together text; rows bigint; line text; launched text; node text;
BEGIN
    query := format('SELECT count(*), md5(string_agg(q::text, E''\n'' ORDER BY q::text)) FROM (%s) q', query);
    SET LOCAL max_parallel_workers_per_gather = 0;
    EXECUTE query INTO rows, alone;
    SET LOCAL max_parallel_workers_per_gather = 2;
    EXECUTE query INTO rows, together;
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
        IF line LIKE '%Workers Launched%' THEN launched := trim(line); END IF;
        IF line LIKE '%Parallel Custom Scan%' THEN node := substring(line FROM 'Parallel Custom Scan \(([^)]*)\)'); END IF;
    END LOOP;
    IF workers <> (launched IS NOT DISTINCT FROM 'Workers Launched: 2' AND node IS NOT NULL) THEN RETURN format('%s, %s: %s', launched, node, query); END IF;
    RETURN CASE WHEN alone IS NOT DISTINCT FROM together THEN format('same: %s rows%s', rows, ', ' || node) ELSE format('DIFFERENT: %s', query) END;
END $$;
SET enable_seqscan = off;
SELECT ask($$SELECT doc FROM c WHERE doc @@ '{"n": {"$gte": 20, "$lt": 60}}'$$);
SELECT ask($$SELECT ctid, doc FROM c WHERE doc @@ '{"n": {"$in": [1, 2, 3, 54, 55, 56]}}' AND doc ->> 's' > '3'$$);
-- A row with several entries comes once; so does one of an intersection of two indexes.
SELECT ask($$SELECT doc FROM c WHERE doc @@ '{"tags": {"$gte": "t1", "$lt": "t30"}}'$$);
SELECT ask($$SELECT doc FROM c WHERE doc @@ '{"tags": {"$gte": "t3"}, "k": {"$gte": 6}}'$$);
SELECT ask($$SELECT doc FROM c WHERE doc @> '{"k": 3}'$$);
SELECT ask($$SELECT doc FROM c WHERE doc ->> 'n' < '3' AND doc @@ '{"$or": [{"k": 3}, {"n": {"$lt": 60}}]}'$$);
-- find: filters, projections, conditions of the query above it, nothing at all.
SELECT ask($$SELECT * FROM find('c')$$);
SELECT ask($$SELECT * FROM find('c', '{"s": {"$gt": "8"}}', '{"projection": {"n": 1, "t": {"$first": "$tags"}}}')$$);
SELECT ask($$SELECT doc -> 'n' FROM find('together.c', '{"none": null}') doc WHERE doc ->> 'k' = '4'$$);
SELECT ask($$SELECT * FROM find('c', '{"none": 1}')$$);
SELECT ask($$SELECT f.doc ->> 'n', c.doc ->> '_id' FROM find('c', '{"s": {"$gt": "8"}}') f(doc) JOIN c ON c.doc -> '_id' = f.doc -> '_id' WHERE c.doc @@ '{"n": 7}'$$);
-- What this session has changed, and what it has not committed, workers see too; other sessions' tables and rows as the statement does.
BEGIN;
DELETE FROM c WHERE doc @@ '{"k": 1}';
SELECT ask($$SELECT * FROM find('c')$$);
SELECT ask($$SELECT doc FROM c WHERE doc @@ '{"n": {"$gte": 20, "$lt": 60}}'$$);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT ask($$SELECT * FROM find('c', '{"s": {"$gt": "8"}}')$$);
COMMIT;
-- What an index finds: each process reads the entries, and returns the rows of the blocks that it claims. Several entries of a row, intersections, alternatives, answers made of keys.
SELECT ask($$SELECT * FROM find('c', '{"n": 7}')$$);
SELECT ask($$SELECT * FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}')$$);
SELECT ask($$SELECT * FROM find('c', '{"tags": {"$gte": "t1", "$lt": "t30"}}')$$);
SELECT ask($$SELECT * FROM find('c', '{"tags": {"$gte": "t3"}, "k": {"$gte": 6}}')$$);
SELECT ask($$SELECT * FROM find('c', '{"$or": [{"k": 3}, {"n": {"$lt": 40}}]}')$$);
SELECT ask($$SELECT * FROM find('c', '{"n": {"$in": [1, 2, 3, 54, 55, 56]}, "s": {"$gt": "3"}}', '{"projection": {"n": 1}}')$$);
SELECT ask($$SELECT * FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}', '{"projection": {"n": 1, "_id": 0}}')$$);
SELECT ask($$SELECT doc -> 's' FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}') doc WHERE doc ->> 'k' = '4'$$);
SELECT ask($$SELECT f.doc ->> 'n', count(*) FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}') f(doc) JOIN c ON c.doc -> '_id' = f.doc -> '_id' GROUP BY 1$$);
SELECT pg_temp.plan($$SELECT count(*) FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}')$$);
-- Sorted by each process and merged, or up to a limit, in SQL.
SELECT pg_temp.plan($$SELECT doc -> '_id' FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}') doc ORDER BY doc -> 's', doc -> '_id' LIMIT 5$$);
SELECT ask($$SELECT doc -> '_id' FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}') doc ORDER BY doc -> 's', doc -> '_id' LIMIT 5$$);
SELECT count(*) FROM (SELECT FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}') LIMIT 1234) first;
-- What is changed and not committed, under each level, and with entries that lead to dead rows.
BEGIN;
UPDATE c SET doc = (doc::jsonb || '{"n": 21}')::bson WHERE doc @@ '{"n": 70}';
DELETE FROM c WHERE doc @@ '{"n": 22}';
SELECT ask($$SELECT * FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}')$$);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT ask($$SELECT * FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}')$$);
COMMIT;
SELECT update_many('c', '{"n": {"$in": [30, 31]}}', '{"$set": {"k": 9}}') ->> 'modifiedCount' AS updated;
SELECT ask($$SELECT * FROM find('c', '{"k": 9}')$$);
-- The work of all processes: each visits all entries, a document is fetched by one.
SELECT bool_or(line LIKE '%Documents Examined: 7800') AS documents, bool_or(substring(line FROM 'Keys Examined: (\d+)')::int >= 3 * 7800) AS keys FROM pg_temp.run($$SELECT count(*) FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}')$$) line;
-- A plan outlives the index that it was made for: the processes scan the table then.
PREPARE by_k AS SELECT count(*) FROM find('c', '{"k": {"$gte": 3, "$lt": 6}}');
EXECUTE by_k;
BEGIN;
SELECT drop_index('c', 'k_1');
EXECUTE by_k;
ROLLBACK;
-- What one process does alone: in an order, up to a limit, what is one document, with values that are not known or differ between processes, and in a SELECT list.
SELECT ask($$SELECT * FROM find('c', '{"_id": 7}')$$, false);
SELECT ask($$SELECT * FROM find('c', '{"n": {"$gte": 20}}', '{"sort": {"n": 1}}')$$, false);
SELECT ask($$SELECT * FROM find('c', '{"n": {"$gte": 20}}', '{"skip": 3}')$$, false);
SELECT ask($$SELECT * FROM find('c', '{"n": {"$gte": 20}}', '{"hint": "n_1"}')$$, false);
SELECT ask($$SELECT * FROM find('c', '{}', '{"sort": {"s": 1}}')$$, false);
SELECT ask($$SELECT * FROM find('c', '{}', '{"limit": 20000}')$$, false);
SELECT ask($$SELECT * FROM find('c', '{}', '{"hint": "_id_"}')$$, false);
SELECT ask($a$SELECT * FROM find('c', '{"$expr": {"$lt": ["$s", "$$NOW"]}}')$a$, false);
SELECT ask($$SELECT * FROM find('c', jsonb_build_object('s', current_setting('search_path'))::bson)$$, false);
SELECT ask($$SELECT find('c', '{"s": {"$gt": "8"}}')$$, false);
SELECT ask($$SELECT * FROM find('c', '{"s": {"$gt": "8"}}') UNION ALL SELECT * FROM find('c', '{"s": {"$lt": "3"}}')$$, false);
CREATE TEMPORARY TABLE mine (doc bson NOT NULL);
INSERT INTO mine SELECT doc FROM c;
ANALYZE mine;
SELECT ask($$SELECT * FROM find('mine')$$, false);
-- A plan that was made for one table and meets a temporary one of its name leaves it to the leader.
PREPARE all_of_them AS SELECT count(*) FROM find('other');
CREATE TABLE other (doc bson NOT NULL) WITH (parallel_workers = 2);
INSERT INTO other SELECT doc FROM c;
ANALYZE other;
EXPLAIN (COSTS OFF) EXECUTE all_of_them;
EXECUTE all_of_them;
CREATE TEMPORARY TABLE other (doc bson NOT NULL);
INSERT INTO pg_temp.other VALUES ('{"n": 1}');
EXPLAIN (COSTS OFF) EXECUTE all_of_them;
EXECUTE all_of_them;
-- Without the leader nobody could: an error, and no answer without rows.
SET parallel_leader_participation = off;
EXECUTE all_of_them;
DISCARD PLANS;
EXECUTE all_of_them;
RESET parallel_leader_participation;
-- Begun again for each row of another table, and ended early. (With a LIMIT that grows, the server itself loses rows: its workers keep the first one.)
SET enable_material = off;
SELECT pg_temp.plan($$SELECT g, count(*) FROM generate_series(1, 3) g, LATERAL (SELECT FROM (SELECT FROM find('c', '{"s": {"$gt": "8"}}') OFFSET 0) all_of_them LIMIT (4 - g) * 4000) f GROUP BY g ORDER BY g$$);
SELECT g, count(*) FROM generate_series(1, 3) g, LATERAL (SELECT FROM (SELECT FROM find('c', '{"s": {"$gt": "8"}}') OFFSET 0) all_of_them LIMIT (4 - g) * 4000) f GROUP BY g ORDER BY g;
SELECT g, count(*) FROM generate_series(1, 3) g, LATERAL (SELECT FROM (SELECT FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}') OFFSET 0) all_of_them LIMIT (4 - g) * 3000) f GROUP BY g ORDER BY g;
SELECT pg_temp.plan($$SELECT g, count(*) FROM generate_series(1, 3) g, LATERAL (SELECT FROM (SELECT FROM c WHERE doc @@ '{"n": {"$gte": 20, "$lt": 60}}' OFFSET 0) all_of_them LIMIT (4 - g) * 3000) f GROUP BY g ORDER BY g$$);
SELECT g, count(*) FROM generate_series(1, 3) g, LATERAL (SELECT FROM (SELECT FROM c WHERE doc @@ '{"n": {"$gte": 20, "$lt": 60}}' OFFSET 0) all_of_them LIMIT (4 - g) * 3000) f GROUP BY g ORDER BY g;
RESET enable_material;
SET parallel_leader_participation = off;
SELECT ask($$SELECT * FROM find('c', '{"s": {"$gt": "8"}}')$$);
SELECT ask($$SELECT * FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}')$$);
SELECT ask($$SELECT doc FROM c WHERE doc @@ '{"n": {"$gte": 20, "$lt": 60}}'$$);
RESET parallel_leader_participation;
-- The documents that all processes have looked at.
SELECT trim(line) FROM pg_temp.run($$SELECT count(*) FROM find('c', '{"s": {"$gt": "8"}}')$$) line WHERE line LIKE '%Documents Examined%';
-- Without workers the leader does everything.
SET max_parallel_workers = 0;
SELECT count(*) FROM find('c', '{"n": {"$gte": 20, "$lt": 60}}');
SELECT count(*) FROM find('c', '{"s": {"$gt": "8"}}');
SELECT count(*) FROM c WHERE doc @@ '{"n": {"$gte": 20, "$lt": 60}}';
RESET max_parallel_workers;
-- Errors of workers are those of the statement; privileges are checked once, in the leader.
\set VERBOSITY terse
SELECT count(*) FROM find('c', '{"$expr": {"$gt": [{"$divide": [1, {"$subtract": ["$k", 3]}]}, 0]}}');
CREATE ROLE together_reader;
GRANT USAGE ON SCHEMA together, treedb TO together_reader;
SET ROLE together_reader;
SELECT count(*) FROM find('c', '{"s": {"$gt": "8"}}');
RESET ROLE;
GRANT SELECT ON c TO together_reader;
SET ROLE together_reader;
SELECT count(*) FROM find('c', '{"s": {"$gt": "8"}}');
RESET ROLE;
REVOKE USAGE ON SCHEMA treedb FROM together_reader;
DROP SCHEMA together CASCADE;
DROP ROLE together_reader;
