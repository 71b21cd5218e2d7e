-- From a table with jsonb and GIN to a collection, as docs/postgres.md shows it: the same rows, by indexes.
SET search_path = public, treedb;
SET jit = off;
CREATE TABLE old_events (id bigint PRIMARY KEY, doc jsonb);
INSERT INTO old_events SELECT n, jsonb_build_object('kind', 'k' || n % 50, 'n', n, 'tags', jsonb_build_array('t' || n % 7)) FROM generate_series(1, 10000) n;
CREATE INDEX ON old_events USING gin (doc);
SELECT create_collection('events');
INSERT INTO events SELECT (jsonb_build_object('_id', id) || doc)::bson FROM old_events;
SELECT create_index('events', '{"kind": 1, "n": -1}');
SELECT create_index('events', '{"tags": 1}');
ANALYZE events;
ANALYZE old_events;
SELECT doc FROM events WHERE doc @> '{"kind": "k7", "tags": ["t1"]}' ORDER BY doc -> 'n' DESC LIMIT 5;
SELECT doc FROM old_events WHERE doc @> '{"kind": "k7", "tags": ["t1"]}' ORDER BY doc -> 'n' DESC LIMIT 5;
-- Each row of the table of what is written how.
CREATE FUNCTION plan_has_index(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE line text; found bool := false;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP found := found OR line ~ 'IXSCAN|Index'; END LOOP;
    RETURN found;
END $$;
CREATE FUNCTION answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
    EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg((x ->> ''n''), '' '' ORDER BY (x ->> ''n'')::numeric)), '''') FROM (%s) q(x)', query) INTO result;
    RETURN result;
END $$;
-- (so small a table is read as a whole otherwise)
SET enable_seqscan = off;
SELECT here, answer(here) = answer(there) AS same, plan_has_index(here) AS by_index FROM (VALUES
    ($$SELECT doc FROM events WHERE doc @> '{"kind": "k7"}'$$, $$SELECT doc FROM old_events WHERE doc @> '{"kind": "k7"}'$$),
    ($$SELECT doc FROM events WHERE doc -> 'kind' = '"k7"'$$, $$SELECT doc FROM old_events WHERE doc ->> 'kind' = 'k7'$$),
    ($$SELECT doc FROM events WHERE doc -> 'kind' = '"k7"' AND doc -> 'n' > '9000'$$, $$SELECT doc FROM old_events WHERE doc ->> 'kind' = 'k7' AND (doc ->> 'n')::int > 9000$$),
    ($$SELECT doc FROM events WHERE doc @@ '{"kind": "k7", "n": {"$gt": 9000}}'$$, $$SELECT doc FROM old_events WHERE doc @@ '$.kind == "k7" && $.n > 9000'$$),
    ($$SELECT doc FROM events WHERE doc -> 'tags' -> '0' = '"t1"'$$, $$SELECT doc FROM old_events WHERE doc -> 'tags' ->> 0 = 't1'$$)) v(here, there);
SELECT update_many('events', '{"kind": "k7"}', '{"$set": {"a": 1}}') ->> 'modifiedCount' AS modified;
SELECT count(*) FROM aggregate('events', '[{"$unwind": "$tags"}]');
DROP TABLE old_events;
SELECT drop_collection('events');
DROP FUNCTION answer;
