-- What the planner is told of searches is remembered for as long as a message of the client is planned, and forgotten when something changes that it depends on:
-- settings of costs, what the transaction has written, the user, the schemas that are searched. (To the server a function is one statement.)
CREATE SCHEMA remembered;
CREATE SCHEMA remembered_too;
SET search_path = remembered, treedb, public;
SET client_min_messages = warning;
SET jit = off;
SELECT create_collection('c'), create_collection('remembered_too.c');
ALTER TABLE c SET (autovacuum_enabled = off);
INSERT INTO c SELECT format('{"_id": %s, "n": %s}', n, n % 500)::bson FROM generate_series(1, 3000) n;
INSERT INTO remembered_too.c VALUES ('{"n": 7}');
SELECT create_index('c', '{"n": 1}'), create_index('remembered_too.c', '{"n": 1}');
ANALYZE;
CREATE FUNCTION expected(query text, OUT rows float8, OUT cost float8) LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    rows := plan -> 0 -> 'Plan' ->> 'Plan Rows';
    cost := plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
-- changes(QUERY, CHANGE): how many times the rows and the cost are what they were before a change in the same statement.
CREATE FUNCTION changes(query text, change text, OUT rows float8, OUT cost float8) LANGUAGE plpgsql SET random_page_cost = 4 SET seq_page_cost = 1 AS $$
DECLARE before record; after record;
BEGIN
    SELECT * INTO before FROM expected(query);
    EXECUTE change;
    SELECT * INTO after FROM expected(query);
    rows := after.rows / before.rows;
    cost := after.cost / before.cost;
END $$;
SET enable_seqscan = off;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE searches (n int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO searches (query) VALUES ($$SELECT FROM c WHERE doc @@ '{"n": {"$lt": 20}}'$$), ($$SELECT FROM c WHERE doc -> 'n' BETWEEN '7' AND '20'$$), ($$SELECT FROM c WHERE doc @@ '{"n": {"$lt": 20}}' ORDER BY doc -> 'n'$$),
    ($$SELECT FROM find('c', '{"n": 7}')$$), ($$SELECT FROM count('c', '{"n": {"$gt": 5}}')$$);
SELECT n, round(rows::numeric, 2) AS rows, cost > 10 AS dearer FROM searches, changes(query, 'SET LOCAL random_page_cost = 400') ORDER BY n;
SELECT n, round(rows::numeric, 2) AS rows, cost > 10 AS dearer FROM (VALUES (1, $$SELECT FROM find('c')$$), (2, $$SELECT FROM aggregate('c', '[]')$$)) x(n, query), changes(query, 'SET LOCAL seq_page_cost = 400') ORDER BY n;
-- How many workers there may be.
ALTER TABLE c SET (parallel_workers = 4);
SELECT cost < 1 AS cheaper FROM changes($$SELECT FROM count('c', '{"k": 1}')$$, 'SET LOCAL max_parallel_workers_per_gather = 4; SET LOCAL parallel_setup_cost = 0; SET LOCAL min_parallel_table_scan_size = 0');
-- What the transaction has written, and after it has ended.
SELECT cost > 3 AS dearer FROM changes($$SELECT FROM find('c')$$, $$INSERT INTO c SELECT format('{"_id": %s, "n": %s}', 3000 + n, n % 500)::bson FROM generate_series(1, 30000) n$$);
TRUNCATE c;
INSERT INTO c SELECT format('{"_id": %s, "n": %s}', n, n % 500)::bson FROM generate_series(1, 3000) n;
ANALYZE c;
CREATE PROCEDURE grows(INOUT dearer bool) LANGUAGE plpgsql AS $$
DECLARE before float8; after float8;
BEGIN
    before := (SELECT cost FROM expected('SELECT FROM find(''c'')'));
    INSERT INTO c SELECT format('{"_id": %s, "n": %s}', 3000 + n, n % 500)::bson FROM generate_series(1, 30000) n;
    COMMIT;
    after := (SELECT cost FROM expected('SELECT FROM find(''c'')'));
    dearer := after > 3 * before;
END $$;
CALL grows(NULL);
-- The schemas that are searched.
SELECT rows < 0.1 AS fewer FROM changes($$SELECT FROM find('c')$$, 'SET LOCAL search_path = remembered_too, remembered, treedb, public');
-- The user: who may not read a table is not told how many rows it has.
CREATE ROLE remembered_reader;
GRANT USAGE ON SCHEMA remembered, treedb TO remembered_reader;
CREATE FUNCTION as_reader(query text) RETURNS float8 LANGUAGE plpgsql AS $$
BEGIN
    PERFORM expected(query);
    SET LOCAL ROLE remembered_reader;
    RETURN (SELECT rows FROM expected(query));
END $$;
SELECT as_reader($$SELECT FROM find('c')$$) = (SELECT rows FROM expected($$SELECT FROM find('nowhere')$$)) AS as_if_unknown;
DROP OWNED BY remembered_reader;
DROP ROLE remembered_reader;
DROP SCHEMA remembered, remembered_too CASCADE;
