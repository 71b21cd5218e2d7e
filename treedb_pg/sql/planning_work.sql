-- What planning takes is bounded by the tables and conditions of a query: counted, as time would depend on the machine. (Counters of development builds.)
CREATE SCHEMA planning_work;
SET search_path = planning_work, treedb, public;
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
SELECT create_collection('c');
INSERT INTO c SELECT format('{"_id": %s, "n": %s, "m": %s}', n, n % 500, n % 40)::bson FROM generate_series(1, 2000) n;
SELECT create_index('c', '{"n": 1}'), create_index('c', '{"m": 1, "n": 1}');
CREATE TABLE a (id int, x bson_value, y bson_value);
INSERT INTO a SELECT n, n::text::bson_value, (n + 3)::text::bson_value FROM generate_series(1, 10) n;
CREATE TABLE p (part int, doc bson) PARTITION BY LIST (part);
DO $$ BEGIN
    FOR n IN 1 .. 40 LOOP
        EXECUTE format('CREATE TABLE p%s PARTITION OF p FOR VALUES IN (%s)', n, n);
        PERFORM create_index('p' || n, '{"n": 1}');
    END LOOP;
END $$;
INSERT INTO p SELECT 1 + n % 40, format('{"n": %s}', n)::bson FROM generate_series(1, 2000) n;
ANALYZE;
-- work(QUERY): how often, to plan a query, the indexes of a table are opened, the query layer is asked what they are searched by, and a condition is estimated.
CREATE FUNCTION counts() RETURNS int[] LANGUAGE sql AS $$
    SELECT array_agg(current_setting('treedb.' || name)::int ORDER BY n) FROM unnest('{estimated_searches,asked_indexes,estimated_conditions}'::text[]) WITH ORDINALITY x(name, n) $$;
CREATE FUNCTION work(query text, OUT opened int, OUT asked int, OUT conditions int) LANGUAGE plpgsql AS $$
DECLARE before int[] := counts(); after int[];
BEGIN
    EXECUTE 'EXPLAIN ' || query;
    after := counts();
    opened := after[1] - before[1]; asked := after[2] - before[2]; conditions := after[3] - before[3];
END $$;
CREATE FUNCTION joins(many int) RETURNS text LANGUAGE sql AS $$
    SELECT 'SELECT FROM c' || string_agg(format(' JOIN a a%s ON c.doc -> ''n'' BETWEEN a%1$s.x AND a%1$s.y', n), '') FROM generate_series(1, many) n $$;
-- The sets of tables whose rows a search may need do not grow with the square of the tables, or faster.
SELECT opened, asked, conditions BETWEEN 4 AND 10 AS conditions FROM work(joins(1));
SELECT opened, asked, conditions BETWEEN 70 AND 150 AS conditions FROM work(joins(8));
SELECT opened, asked, conditions BETWEEN 200 AND 400 AS conditions FROM work(joins(30));
-- Partitions are opened once each, and partitions that have the same indexes are asked about them once.
SELECT opened, asked, conditions BETWEEN 80 AND 400 AS conditions FROM work($$SELECT FROM a, a b, p WHERE p.doc -> 'n' = a.x AND p.doc -> 'n' >= b.x$$);
SELECT opened, asked, conditions BETWEEN 4 AND 20 AS conditions FROM work($$SELECT FROM a, a b, c WHERE c.doc -> 'm' = a.x AND c.doc -> 'n' >= b.x$$);
-- What is remembered is bounded by the bytes that it takes: indexes with long definitions are not all kept until the end of a statement, others are.
CREATE FUNCTION twice(OUT first int, OUT again int) LANGUAGE plpgsql AS $$
BEGIN
    FOR turn IN 1 .. 2 LOOP
        first := again; again := 0;
        FOR n IN 1 .. 12 LOOP
            again := again + (SELECT opened FROM work(format('SELECT FROM a, long%s c WHERE c.doc -> ''n'' = a.x', n)));
        END LOOP;
    END LOOP;
END $$;
DO $$ BEGIN
    FOR n IN 1 .. 12 LOOP
        EXECUTE format('CREATE TABLE long%s (doc bson)', n);
        PERFORM create_index('long' || n, '{"n": 1}');
    END LOOP;
END $$;
SELECT first >= 12 AS opened, again FROM twice();
DO $$ BEGIN
    FOR n IN 1 .. 12 LOOP
        PERFORM create_index('long' || n, '{"n": -1}', jsonb_build_object('name', 'partial', 'partialFilterExpression', jsonb_build_object('n', jsonb_build_object('$gt', repeat('x', 100000))))::bson);
    END LOOP;
END $$;
SELECT first >= 12 AS opened, again > 5 AS opened_again FROM twice();
DROP SCHEMA planning_work CASCADE;
