-- Groups that several processes make are those that one process makes; what depends on the order of the documents, on rows
-- that workers cannot read, or on more memory than there is, one process does alone.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
CREATE SCHEMA grouped;
SET search_path = grouped, treedb, public;
SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;
SELECT create_collection('items');
ALTER TABLE items SET (autovacuum_enabled = off, parallel_workers = 2);
INSERT INTO items SELECT format('{"_id": %s, "k": %s, "n": %s, "x": %s, "s": "%s", "d": {"$numberDecimal": "%s.5"}, "l": {"$numberLong": "%s"}, "tags": [%s, %s]%s}',
    i, i % 97, i % 1000, (i % 512) / 4.0, md5((i % 3000)::text), i % 10, i * 1000000000000, i % 3, i % 5, CASE WHEN i % 7 = 0 THEN ', "z": null' WHEN i % 7 > 4 THEN ', "z": ' || i % 4 ELSE '' END)::bson
    FROM generate_series(1, 20000) i;
SELECT create_index('items', '{"n": 1}');
ANALYZE items;

-- ask(STAGES, WORKERS): the answer with workers, which must have been there, against that of one process.
CREATE FUNCTION ask(stages text, workers boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE query text := format('SELECT count(*), md5(string_agg(doc::text, E''\n'' ORDER BY doc::text)) FROM aggregate(''items'', %L) doc', stages);
    alone text; together text; counted bigint; line text; launched text;
BEGIN
    SET LOCAL max_parallel_workers_per_gather = 0;
    EXECUTE query INTO counted, alone;
    SET LOCAL max_parallel_workers_per_gather = 2;
    EXECUTE query INTO counted, together;
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
        IF line LIKE '%Workers Launched%' THEN launched := trim(line); END IF;
    END LOOP;
    IF (launched = 'Workers Launched: 2') IS DISTINCT FROM (CASE WHEN workers THEN true END) THEN RETURN 'workers: ' || coalesce(launched, 'none'); END IF;
    RETURN CASE WHEN alone IS NOT DISTINCT FROM together THEN 'same: ' || counted || ' documents' ELSE 'DIFFERENT: ' || stages END;
END $$;

-- Every accumulator whose result does not depend on the order. Sums of halves are exact.
SELECT ask('[{"$group": {"_id": "$k", "n": {"$sum": "$n"}, "l": {"$sum": "$l"}, "d": {"$sum": "$d"}, "x": {"$sum": "$x"}, "c": {"$count": {}}}}]');
SELECT ask('[{"$group": {"_id": "$k", "a": {"$avg": "$x"}, "z": {"$avg": "$z"}, "none": {"$avg": "$nothing"}, "m": {"$min": "$s"}, "M": {"$max": "$s"}, "mz": {"$min": "$z"}, "none2": {"$max": "$nothing"}}}]');
SELECT ask('[{"$group": {"_id": "$k", "top": {"$maxN": {"n": 3, "input": "$s"}}, "low": {"$minN": {"n": 2, "input": "$n"}}, "p": {"$percentile": {"input": "$n", "p": [0.1, 0.5, 0.99], "method": "approximate"}}, "m": {"$median": {"input": "$x", "method": "approximate"}}}}]');
SELECT ask('[{"$group": {"_id": "$k", "d": {"$stdDevPop": "$n"}, "e": {"$stdDevSamp": "$nothing"}}}, {"$project": {"d": {"$round": ["$d", 6]}, "e": 1}}]');
-- Groups by every kind of key: none, several fields, a computed one, a missing one, more groups than a message holds.
SELECT ask('[{"$group": {"_id": null, "n": {"$sum": "$n"}}}]');
SELECT ask('[{"$count": "n"}]');
SELECT ask('[{"$group": {"_id": {"k": "$k", "z": "$z"}, "n": {"$sum": 1}}}]');
SELECT ask('[{"$group": {"_id": {"$concat": ["$s", "!"]}, "n": {"$sum": {"$multiply": ["$n", 2]}}}}]');
SELECT ask('[{"$group": {"_id": "$z", "n": {"$sum": 1}}}]');
SELECT ask('[{"$group": {"_id": "$_id", "s": {"$max": "$s"}}}]');
SELECT ask('[{"$sortByCount": "$s"}]');
-- Stages before and after it.
SELECT ask('[{"$match": {"x": {"$gt": 20}, "z": {"$exists": true}}}, {"$addFields": {"y": {"$add": ["$n", "$z"]}}}, {"$unwind": "$tags"}, {"$group": {"_id": "$tags", "y": {"$sum": "$y"}, "n": {"$sum": 1}}}, {"$match": {"_id": {"$lt": 4}}}, {"$sort": {"y": -1}}, {"$limit": 2}]');
SELECT ask('[{"$group": {"_id": "$k", "n": {"$sum": 1}}}, {"$group": {"_id": "$n", "groups": {"$push": "$_id"}}}, {"$project": {"groups": {"$size": "$groups"}}}]');
SELECT ask('[{"$match": {"x": {"$lt": 0}}}, {"$group": {"_id": null, "n": {"$sum": 1}}}]');
SELECT ask('[{"$group": {"_id": "$k", "now": {"$max": "$$NOW"}}}, {"$group": {"_id": "$now"}}, {"$count": "times"}]');

-- What one process does alone: what depends on the order, what an index finds, what is not a group of a scan.
SELECT ask('[{"$group": {"_id": "$k", "all": {"$push": "$n"}}}]', false);
SELECT ask('[{"$group": {"_id": "$k", "f": {"$first": "$n"}, "l": {"$last": "$s"}, "s": {"$addToSet": "$z"}}}]', false);
SELECT ask('[{"$match": {"n": 7}}, {"$group": {"_id": "$k", "n": {"$sum": 1}}}]', false);
SELECT ask('[{"$sort": {"s": 1}}, {"$limit": 100}, {"$group": {"_id": "$k", "n": {"$sum": 1}}}]', false);
SELECT ask('[{"$lookup": {"from": "items", "localField": "n", "foreignField": "_id", "as": "o"}}, {"$match": {"_id": {"$lt": 5}}}, {"$group": {"_id": {"$size": "$o"}}}]', false);
SELECT ask('[{"$match": {"_id": {"$gt": 0}}}, {"$project": {"k": 1}}]', false);
SELECT pg_temp.plan($$SELECT count(*) FROM aggregate('items', '[{"$group": {"_id": "$k"}}]', '{"collation": {"locale": "en"}}')$$);

-- count().
SET max_parallel_workers_per_gather = 0; SELECT treedb.count('items', '{}'), treedb.count('items', '{"x": {"$gt": 100}}'), treedb.count('items', '{"x": 1000}');
SET max_parallel_workers_per_gather = 2; SELECT treedb.count('items', '{}'), treedb.count('items', '{"x": {"$gt": 100}}'), treedb.count('items', '{"x": 1000}');
SELECT treedb.count('items', '{"x": {"$gt": 100}}', '{"limit": 10}'), treedb.count('items', '{"x": {"$oops": 100}}');

-- The plan, and the settings that decide how many workers there are.
SELECT pg_temp.run($$SELECT count(*) FROM aggregate('items', '[{"$group": {"_id": "$k"}}]')$$);
SET parallel_leader_participation = off;
SELECT ask('[{"$group": {"_id": "$k", "n": {"$sum": "$n"}}}]');
RESET parallel_leader_participation;
SET parallel_setup_cost = 1e6; SELECT pg_temp.plan($$SELECT count(*) FROM aggregate('items', '[{"$group": {"_id": "$k"}}]')$$);
SET parallel_setup_cost = 0; ALTER TABLE items SET (parallel_workers = 0); SELECT pg_temp.plan($$SELECT count(*) FROM aggregate('items', '[{"$group": {"_id": "$k"}}]')$$);
ALTER TABLE items RESET (parallel_workers); SET min_parallel_table_scan_size = '100MB'; SELECT pg_temp.plan($$SELECT count(*) FROM aggregate('items', '[{"$group": {"_id": "$k"}}]')$$);
SET min_parallel_table_scan_size = 0; ALTER TABLE items SET (parallel_workers = 2);
SELECT pg_temp.plan($$SELECT count(*) FROM aggregate('nowhere', '[{"$group": {"_id": "$k"}}]')$$);

-- A transaction's own changes are seen by the workers, and those of a command that has not ended are not.
BEGIN;
UPDATE items SET doc = jsonb_set(doc::jsonb, '{n}', '1000000')::bson WHERE doc @@ '{"_id": {"$lte": 100}}';
DELETE FROM items WHERE doc @@ '{"_id": {"$gt": 19000}}';
INSERT INTO items SELECT format('{"_id": %s, "k": 1, "n": 5}', 30000 + i)::bson FROM generate_series(1, 500) i;
SELECT ask('[{"$group": {"_id": "$k", "n": {"$sum": "$n"}, "c": {"$sum": 1}}}]');
SELECT doc FROM aggregate('items', '[{"$group": {"_id": null, "n": {"$sum": "$n"}, "c": {"$sum": 1}}}]') doc;
SAVEPOINT s;
DELETE FROM items;
SELECT ask('[{"$group": {"_id": null, "c": {"$sum": 1}}}]');
ROLLBACK TO s;
SELECT ask('[{"$group": {"_id": null, "c": {"$sum": 1}}}]');
INSERT INTO items SELECT jsonb_build_object('_id', 50000, 'c', doc ->> 'c')::bson FROM aggregate('items', '[{"$group": {"_id": null, "c": {"$sum": 1}}}]') doc RETURNING doc;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT ask('[{"$group": {"_id": "$k", "n": {"$sum": "$n"}}}]');
COMMIT;
-- In a table that this transaction has made, and in one of another schema by the role that may read it.
BEGIN;
SELECT create_collection('fresh');
ALTER TABLE fresh SET (parallel_workers = 2);
INSERT INTO fresh SELECT format('{"_id": %s}', i)::bson FROM generate_series(1, 5000) i;
SELECT pg_temp.run($$SELECT * FROM aggregate('fresh', '[{"$count": "n"}]')$$);
SELECT * FROM aggregate('fresh', '[{"$count": "n"}]');
ROLLBACK;
CREATE ROLE grouped_reader; GRANT USAGE ON SCHEMA grouped, treedb TO grouped_reader;
SET ROLE grouped_reader;
SELECT * FROM aggregate('grouped.items', '[{"$count": "n"}]');
RESET ROLE; GRANT SELECT ON items TO grouped_reader; SET ROLE grouped_reader;
SELECT * FROM aggregate('grouped.items', '[{"$count": "n"}]');
RESET ROLE; REVOKE SELECT ON items FROM grouped_reader; SET ROLE grouped_reader;
SELECT * FROM aggregate('grouped.items', '[{"$count": "n"}]');
RESET ROLE;
-- A temporary table is read by its own process.
CREATE TEMP TABLE passing (doc bson); INSERT INTO passing SELECT doc FROM items; ANALYZE passing;
SELECT pg_temp.plan($$SELECT * FROM aggregate('passing', '[{"$count": "n"}]')$$);
SELECT * FROM aggregate('passing', '[{"$count": "n"}]');

-- Errors of workers are those of the statement, which the transaction survives in a savepoint.
\set VERBOSITY terse
SELECT * FROM aggregate('items', '[{"$group": {"_id": "$k", "n": {"$sum": {"$divide": [1, {"$subtract": ["$_id", 19999]}]}}}}]');
SELECT * FROM aggregate('items', '[{"$group": {"_id": {"$divide": [1, {"$subtract": ["$n", "$n"]}]}}}]');
BEGIN;
SAVEPOINT s;
SELECT * FROM aggregate('items', '[{"$group": {"_id": {"$divide": [1, {"$subtract": ["$n", "$n"]}]}}}]');
ROLLBACK TO s;
SELECT ask('[{"$group": {"_id": "$k", "n": {"$sum": "$n"}}}]');
COMMIT;
DO $$ BEGIN PERFORM * FROM aggregate('items', '[{"$group": {"_id": {"$divide": [1, {"$subtract": ["$n", "$n"]}]}}}]'); EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught'; END $$;
SELECT ask('[{"$group": {"_id": "$k", "n": {"$sum": "$n"}}}]');
-- A statement that takes too long is cancelled, workers and all.
SET statement_timeout = '20ms';
SELECT count(*) FROM generate_series(1, 1000) i, LATERAL aggregate('items', ('[{"$group": {"_id": {"$mod": ["$_id", ' || 1000 + i || ']}, "n": {"$sum": "$n"}}}]')::bson_value) doc;
RESET statement_timeout;
SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND query LIKE '%$mod%' AND state_change < now() - interval '1 minute';
-- Row security is not for this function, whoever reads.
ALTER TABLE items ENABLE ROW LEVEL SECURITY; ALTER TABLE items FORCE ROW LEVEL SECURITY;
GRANT SELECT ON items TO grouped_reader; SET ROLE grouped_reader;
SELECT * FROM aggregate('grouped.items', '[{"$count": "n"}]');
RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA grouped CASCADE; REVOKE ALL ON SCHEMA treedb FROM grouped_reader; DROP ROLE grouped_reader;
