-- Comparisons of values of documents are estimated by the statistics of documents: within a factor of two of the truth, as `@@` is.
CREATE SCHEMA value_estimates;
SET search_path = value_estimates, treedb, public;
\set ECHO none
\getenv dir PG_ABS_SRCDIR
\set file :dir '/sql/include/plans.psql'
\i :file
\set ECHO all
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SELECT create_collection('c');
ALTER TABLE c SET (autovacuum_enabled = off);
-- skewed: half of the documents have 0, few have 13; rare: in one of 20; w: strings; i: as many values as documents; o.n: 11 values.
INSERT INTO c SELECT format('{"_id": %s, "i": %1$s, "skewed": %s, "w": "w%s", "o": {"n": %s} %s}', n, floor(ln(8192.0 / (1 + n * 37 % 8192)) / ln(2)), n % 50, n % 11, CASE WHEN n % 20 = 0 THEN format(', "rare": %s', n % 3) ELSE '' END)::bson FROM generate_series(1, 8192) n;
SELECT create_index('c', '{"i": 1}'), create_index('c', '{"w": 1, "i": 1}');
CREATE FUNCTION expected(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
CREATE FUNCTION found(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE rows bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM (%s) x', query) INTO rows;
    RETURN rows;
END $$;
CREATE FUNCTION within_two(expected float8, found float8) RETURNS bool LANGUAGE sql AS
    $$ SELECT greatest(expected, found, 1) <= 2 * greatest(least(expected, found), 1) $$;
ANALYZE c;
CREATE TABLE questions (condition text, filter bson);
INSERT INTO questions VALUES
    ($$doc -> 'skewed' = '0'$$, '{"skewed": 0}'), ($$doc -> 'skewed' = '7'$$, '{"skewed": 7}'), ($$'0' = doc -> 'skewed'$$, '{"skewed": 0}'), ($$doc -> 'skewed' = '77'$$, '{"skewed": 77}'),
    ($$doc -> 'skewed' > '0'$$, '{"skewed": {"$gt": 0}}'), ($$doc -> 'skewed' >= '5'$$, '{"skewed": {"$gte": 5}}'), ($$'2' > doc -> 'skewed'$$, '{"skewed": {"$lt": 2}}'), ($$doc -> 'skewed' <= '0'$$, '{"skewed": {"$lte": 0}}'),
    ($$doc -> 'skewed' BETWEEN '2' AND '4'$$, '{"skewed": {"$gte": 2, "$lte": 4}}'), ($$doc -> 'skewed' > '9' AND doc -> 'skewed' < '9'$$, NULL), ($$doc -> 'skewed' <> '0'$$, '{"skewed": {"$ne": 0}}'),
    ($$doc -> 'skewed' IN ('1', '2')$$, '{"skewed": {"$in": [1, 2]}}'), ($$doc #> '{o,n}' = '3'$$, '{"o.n": 3}'), ($$doc #> '{o,n}' < '3'$$, '{"o.n": {"$lt": 3}}'), ($$doc -> 'o.n' BETWEEN '3' AND '4'$$, '{"o.n": {"$gte": 3, "$lte": 4}}'),
    ($$doc -> 'rare' = '1'$$, '{"rare": 1}'), ($$doc -> 'rare' > '0'$$, '{"rare": {"$gt": 0}}'), ($$doc -> 'rare' <> '1'$$, NULL), ($$doc -> 'rare' < '"x"'$$, NULL), ($$doc -> 'w' = '"w3"'$$, '{"w": "w3"}'), ($$doc -> 'w' > '"w4"'$$, '{"w": {"$gt": "w4"}}'),
    ($$doc -> 'i' = '5'$$, '{"i": 5}'), ($$doc -> 'i' > '8000'$$, '{"i": {"$gt": 8000}}'), ($$doc -> 'i' BETWEEN '4000' AND '4100'$$, '{"i": {"$gte": 4000, "$lte": 4100}}'), ($$doc -> 'i' <> '5'$$, '{"i": {"$ne": 5}}'),
    ($$doc -> 'skewed' = '0' AND doc -> 'w' = '"w3"'$$, '{"skewed": 0, "w": "w3"}'), ($$(doc -> 'skewed' = '0' OR doc -> 'skewed' = '1')$$, '{"skewed": {"$in": [0, 1]}}'), ($$doc -> 'skewed' = NULL$$, NULL);
SELECT condition, expected('SELECT FROM c WHERE ' || condition), found('SELECT FROM c WHERE ' || condition) FROM questions
    WHERE NOT within_two(expected('SELECT FROM c WHERE ' || condition), found('SELECT FROM c WHERE ' || condition));
SELECT count(*) FROM questions;
-- `@@` says the same, give or take 20 %.
SELECT condition, filter, expected('SELECT FROM c WHERE ' || condition) AS compared, expected(format('SELECT FROM c WHERE doc @@ %L', filter)) AS matched FROM questions
    WHERE filter IS NOT NULL AND abs(expected('SELECT FROM c WHERE ' || condition) - expected(format('SELECT FROM c WHERE doc @@ %L', filter))) > 2 + 0.2 * expected(format('SELECT FROM c WHERE doc @@ %L', filter));
-- So an index that has both a value and an order is read in that order: no Sort.
SELECT pg_temp.plan($$SELECT doc FROM c WHERE doc -> 'w' = '"w3"' ORDER BY doc -> 'i' LIMIT 3$$);
SELECT doc -> 'i' AS i FROM c WHERE doc -> 'w' = '"w3"' ORDER BY doc -> 'i' LIMIT 3;
-- A value that is not known: the average of all. Joins stand on the number of different values.
SET plan_cache_mode = force_generic_plan;
PREPARE unknown(bson_value) AS SELECT FROM c WHERE doc -> 'o.n' = $1;
SELECT expected($$EXECUTE unknown('3')$$) BETWEEN 600 AND 900 AS an_eleventh;
RESET plan_cache_mode;
CREATE TABLE keys AS SELECT n::text::bson_value AS key FROM generate_series(1, 10) n;
ANALYZE keys;
SELECT within_two(expected($$SELECT FROM keys JOIN c ON doc -> 'i' = key$$), 10) AS one_for_each, within_two(expected($$SELECT FROM keys JOIN c ON key = doc -> 'o.n'$$), found($$SELECT FROM keys JOIN c ON key = doc -> 'o.n'$$)) AS many_for_each;

-- Of ordinary columns, and of expressions that the server has statistics of, the server's own estimators say what they say.
CREATE TABLE t (v bson_value, other bson);
INSERT INTO t SELECT (n % 100)::text::bson_value, format('{"a": %s}', n % 100)::bson FROM generate_series(1, 5000) n;
CREATE INDEX ON t ((other -> 'a'));
ANALYZE t;
SELECT expected($$SELECT FROM t WHERE v = '5'$$) AS equal, within_two(expected($$SELECT FROM t WHERE v < '20'$$), 1000) AS range, within_two(expected($$SELECT FROM t WHERE v BETWEEN '20' AND '29'$$), 500) AS both_bounds,
    within_two(expected($$SELECT FROM t WHERE other -> 'a' > '10' AND other -> 'a' < '15'$$), 200) AS of_expression, within_two(expected($$SELECT FROM t WHERE v <> '5'$$), 4950) AS differs, within_two(expected($$SELECT FROM t a JOIN t b USING (v)$$), 250000) AS joined;
-- Two ends of a range in an arm of an OR are one range, of documents and of columns.
CREATE TABLE arms (condition text, ok bool);
INSERT INTO arms SELECT condition, within_two(expected('SELECT FROM ' || condition), found('SELECT FROM ' || condition)) FROM unnest(ARRAY[
    $$c WHERE doc -> 'i' > '4000' AND doc -> 'i' < '4200' OR doc -> 'i' = '7'$$, $$c WHERE (doc -> 'i' BETWEEN '100' AND '200') OR (doc -> 'i' BETWEEN '5000' AND '5100') OR doc -> 'skewed' = '12'$$,
    $$c WHERE doc -> 'rare' = '1' OR doc -> 'i' >= '10' AND (doc -> 'w' = '"w3"' AND doc -> 'i' <= '900')$$, $$c WHERE doc -> 'w' = '"w4"' AND (doc -> 'i' < '500' AND doc -> 'i' > '100' OR doc -> 'i' > '8000')$$,
    $$t WHERE v > '40' AND v < '45' OR v = '7'$$, $$t WHERE (other -> 'a' BETWEEN '20' AND '22') OR (other -> 'a' > '70' AND other -> 'a' < '75')$$]) condition;
SELECT condition, expected('SELECT FROM ' || condition), found('SELECT FROM ' || condition) FROM arms WHERE NOT ok;
SELECT count(*) FILTER (WHERE ok) AS estimated FROM arms;
-- So they are in as many arms as are looked at, which does not take long.
SET statement_timeout = '5s';
SELECT within_two(expected('SELECT FROM c WHERE ' || string_agg(format('doc -> ''i'' > %L AND doc -> ''i'' < %L', 80 * n, 80 * n + 11), ' OR ')), 1000) AS estimated FROM generate_series(1, 100) n;
RESET statement_timeout;
-- Conditions of one outer join are one range, those of several are not.
SELECT within_two(expected($$SELECT FROM c LEFT JOIN c other ON c.doc -> 'i' > '4000' AND c.doc -> 'i' < '4100'$$), 99 * 8192 + 8093) AS of_one,
    expected($$SELECT FROM c LEFT JOIN keys x ON doc -> 'i' > '4500' LEFT JOIN keys y ON doc -> 'i' < '4000'$$) > 3 * expected($$SELECT FROM c LEFT JOIN keys x ON doc -> 'i' > '4500'$$) AS of_several;

-- Of a range with an end in each of two others, a search with the row of one of them has that end alone: the other end, which is known later in the join (as
-- what has it depends on the first one), is not taken for given. That holds for the server's own index on an expression too.
CREATE TABLE highs AS SELECT (9000 + n)::text::bson_value AS y FROM generate_series(1, 5) n;
SELECT create_collection('arrays');
INSERT INTO arrays SELECT format('{"i": [%s, %1$s]}', n)::bson FROM generate_series(1, 2000) n;
SELECT create_index('arrays', '{"i": 1}');
ANALYZE highs, arrays;
CREATE FUNCTION of_scan(property text, query text) RETURNS float8 LANGUAGE plpgsql SET join_collapse_limit = 1 SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off SET enable_memoize = off AS $$
DECLARE plan jsonb;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN jsonb_path_query_first(plan, '$.** ? (@.Alias == "d")') ->> property;
END $$;
CREATE FUNCTION ends(d text, value text, OUT many bool, OUT one_end bool, OUT both_ends bool) LANGUAGE plpgsql AS $$
DECLARE
    alone float8 := of_scan('Plan Rows', format('SELECT FROM highs JOIN %s d ON %s <= y', d, value));
    one float8 := of_scan('Plan Rows', format('SELECT FROM highs JOIN %s d ON true JOIN LATERAL unnest(ARRAY[y]) x ON true WHERE %s >= x AND %2$s <= y', d, value));
    two float8 := of_scan('Plan Rows', format('SELECT FROM highs JOIN LATERAL unnest(ARRAY[y]) x ON true JOIN %s d ON true WHERE %s >= x AND %2$s <= y', d, value));
BEGIN
    many := alone > 1000; one_end := one = alone; both_ends := two < alone / 20;
END $$;
SELECT * FROM ends('c', $$d.doc -> 'i'$$);
SELECT many, one_end FROM ends('t', $$d.other -> 'a'$$);
-- An index with arrays is searched by one end, whichever of the two comes first.
CREATE TABLE lows_and_highs AS SELECT '5'::bson_value AS x, y FROM highs;
ANALYZE lows_and_highs;
SELECT of_scan('Total Cost', $$SELECT FROM lows_and_highs JOIN arrays d ON d.doc -> 'i' <= y AND d.doc -> 'i' >= x$$)
     = of_scan('Total Cost', $$SELECT FROM lows_and_highs JOIN arrays d ON d.doc -> 'i' >= x AND d.doc -> 'i' <= y$$) AS same_cost;

-- Who may read a whole table is told of its partitions and children, and of the column that may be read; nobody else is.
CREATE TABLE whole (part int, doc bson, secret int) PARTITION BY LIST (part);
CREATE TABLE half PARTITION OF whole FOR VALUES IN (0, 1) PARTITION BY LIST (part);
CREATE TABLE quarter PARTITION OF half FOR VALUES IN (0);
CREATE TABLE first (gone int, doc bson);
ALTER TABLE first DROP COLUMN gone;
CREATE TABLE second (more int) INHERITS (first);
INSERT INTO whole SELECT 0, format('{"a": %s}', n % 2000)::bson FROM generate_series(1, 4000) n;
INSERT INTO second SELECT format('{"a": %s}', n % 2000)::bson FROM generate_series(1, 4000) n;
ANALYZE whole, first, second;
CREATE ROLE estimates_reader;
GRANT USAGE ON SCHEMA value_estimates, treedb TO estimates_reader;
GRANT SELECT ON first TO estimates_reader;
GRANT SELECT (doc) ON whole TO estimates_reader;
CREATE FUNCTION told(name text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    RETURN within_two(expected(format('SELECT FROM %s WHERE doc -> ''a'' = ''77''', name)), 2) AND within_two(expected(format('SELECT FROM %s WHERE doc -> ''a'' > ''1000'' AND doc -> ''a'' < ''1100''', name)), 198);
EXCEPTION WHEN insufficient_privilege THEN RETURN NULL;
END $$;
SET ROLE estimates_reader;
SELECT name, told(name) FROM unnest('{whole,first,quarter,second}'::text[]) name;
RESET ROLE;
REVOKE SELECT (doc) ON whole FROM estimates_reader;
GRANT SELECT (secret) ON whole TO estimates_reader;
REVOKE SELECT ON first FROM estimates_reader;
SET ROLE estimates_reader;
SELECT name, told(name) FROM unnest('{whole,first}'::text[]) name;
RESET ROLE;
-- A view reads as its owner.
CREATE VIEW of_all AS SELECT doc FROM whole UNION ALL SELECT doc FROM first;
GRANT SELECT ON of_all TO estimates_reader;
SET ROLE estimates_reader;
SELECT within_two(expected($$SELECT FROM of_all WHERE doc -> 'a' = '77'$$), 4) AS of_view;
RESET ROLE;
-- Not of rows that policies of their own table hide.
ALTER TABLE second ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON first TO estimates_reader;
SET ROLE estimates_reader;
SELECT told('first');
RESET ROLE;
DROP OWNED BY estimates_reader;
DROP ROLE estimates_reader;

-- Without statistics and without indexes, guesses.
CREATE TABLE nothing (doc bson, v bson_value);
INSERT INTO nothing SELECT '{"a": 1}', '1' FROM generate_series(1, 1000);
SELECT expected($$SELECT FROM nothing WHERE doc -> 'a' = '1'$$) < 1000 AND expected($$SELECT FROM nothing WHERE v BETWEEN '1' AND '2'$$) < 100 AS guessed;
DROP SCHEMA value_estimates CASCADE;
