-- Filters with several conditions that have an index each: the rows of the indexes are intersected before any is fetched.
-- Answers are those of a scan of all documents.
CREATE SCHEMA intersections;
SET search_path = intersections, treedb, public;
SET client_min_messages = warning;
SELECT create_collection('intersections.c');
-- Arrays, nulls, missing fields, strings, several types of numbers. Values of the fields recur together and apart.
INSERT INTO c SELECT format('{"_id": %s%s%s%s, "s": "%s", "g": %s}', n,
        CASE n % 17 WHEN 0 THEN '' WHEN 1 THEN ', "a": null' WHEN 2 THEN format(', "a": %s.0', n % 30) ELSE format(', "a": %s', n * 7 % 30) END,
        CASE n % 13 WHEN 0 THEN '' WHEN 1 THEN ', "b": null' ELSE format(', "b": %s', n * 11 % 23) END,
        CASE n % 19 WHEN 0 THEN '' WHEN 1 THEN ', "t": []' ELSE format(', "t": [%s, %s, "x%s"]', n % 21, n * 5 % 33, n % 9) END,
        (ARRAY['Apfel', 'apfel', 'ÄPFEL', 'Birne', 'birne'])[1 + n * 3 % 5] || n % 8, n % 12)::bson
    FROM generate_series(1, 20000) n;
SELECT create_index('c', '{"a": 1}'), create_index('c', '{"b": -1}'), create_index('c', '{"t": 1}'), create_index('c', '{"g": 1}'),
    create_index('c', '{"s": 1}', '{"collation": {"locale": "de", "strength": 1}}');
VACUUM ANALYZE c;

-- How many entries a value has is estimated from two descents, though a build ends leaves where a value ends.
CREATE FUNCTION expected(filter text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE format('EXPLAIN (FORMAT JSON) SELECT FROM c WHERE doc @@ %L', filter) INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT filter, expected(filter), treedb.count('c', filter::bson) FROM (SELECT format('{"%s": %s}', field, n) FROM unnest(ARRAY['a', 'b', 'g']) field, generate_series(0, 11) n) q(filter)
WHERE expected(filter) NOT BETWEEN treedb.count('c', filter::bson) / 2 AND treedb.count('c', filter::bson) * 2;

SELECT treedb.explain('{"find": "c", "filter": {"a": 3, "b": 5}}') -> 'queryPlanner.winningPlan.inputStage.stage' AS two;
SELECT treedb.explain('{"count": "c", "query": {"a": 3, "b": 5}}') ->> 'executionStats.totalDocsExamined' AS documents_read_to_count;

CREATE TABLE questions AS SELECT row_number() OVER () AS q, filter FROM (
    SELECT format('{%s, %s}', x, y) FROM unnest(ARRAY['"a": 3', '"a": null', '"a": {"$in": [4, 9, 27]}', '"a": {"$gte": 25}', '"a": {"$exists": false}', '"a": {"$ne": 3}']) x,
        unnest(ARRAY['"b": 5', '"b": null', '"b": {"$lt": 3}', '"b": {"$in": [1, null]}', '"b": {"$gt": 3, "$lte": 6}', '"b": {"$type": "number"}']) y
    UNION ALL SELECT format('{%s, %s}', x, y) FROM unnest(ARRAY['"t": 7', '"t": {"$gt": 3, "$lt": 5}', '"t": {"$all": [7, "x7"]}', '"t": {"$elemMatch": {"$gt": 30}}', '"t": "x3"', '"t": {"$size": 0}', '"t": []']) x,
        unnest(ARRAY['"a": 3', '"b": 5, "a": 9', '"b": {"$gte": 20}', '"g": 4', '"g": 4, "a": {"$lt": 9}, "b": {"$gt": 2}']) y
    UNION ALL SELECT format('{"$or": [{"a": %s, "b": %s}, {"g": %s, "t": "x4"}], "g": {"$lt": 9}}', n, n % 23, n % 12) FROM generate_series(1, 5) n
    UNION ALL SELECT format('{"$and": [{"a": {"$lt": %s}}, {"g": %s}], "$nor": [{"b": 3}]}', n, n) FROM generate_series(1, 5) n) all_of(filter);
CREATE FUNCTION answers() RETURNS TABLE (asked bigint, wrong bigint, intersected bool) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT count(*), count(*) FILTER (WHERE by_index IS DISTINCT FROM by_scan OR counted IS DISTINCT FROM by_scan_count OR matched IS DISTINCT FROM by_scan), bool_or(plan LIKE '%AND_SORTED%')
    FROM questions, LATERAL (SELECT
        (SELECT md5(string_agg(d ->> '_id', ',' ORDER BY (d ->> '_id')::int)) FROM treedb.find('c', filter::bson) d) AS by_index,
        (SELECT md5(string_agg(d ->> '_id', ',' ORDER BY (d ->> '_id')::int)) FROM treedb.find('c', filter::bson, '{"hint": {"$natural": 1}}') d) AS by_scan,
        (SELECT md5(string_agg(doc ->> '_id', ',' ORDER BY (doc ->> '_id')::int)) FROM c WHERE doc @@ filter::bson) AS matched,
        treedb.count('c', filter::bson) AS counted,
        (SELECT count(*) FROM treedb.find('c', filter::bson, '{"hint": {"$natural": 1}}')) AS by_scan_count,
        treedb.explain(format('{"find": "c", "filter": %s}', filter)::bson)::text AS plan) a;
END $$;
SELECT * FROM answers();

-- Of a page that is not visible to all, rows are looked at one by one. Dead rows, moved rows, HOT chains.
UPDATE c SET doc = doc WHERE (doc ->> '_id')::int % 50 = 7;
SELECT update_many('c', '{"g": 3}', '{"$set": {"a": 9}}') -> 'modifiedCount' AS modified;
SELECT delete_many('c', '{"b": 5, "a": {"$lt": 12}}');
SELECT update_many('c', '{"a": 4, "b": {"$gte": 10}}', '{"$set": {"b": 5}, "$push": {"t": 7}}') -> 'modifiedCount' AS modified;
SELECT * FROM answers();
BEGIN;
SELECT delete_many('c', '{"a": 9}');
SELECT * FROM answers();
ROLLBACK;
SELECT * FROM answers();
VACUUM c;
SELECT * FROM answers();
INSERT INTO c SELECT format('{"_id": %s, "a": 3, "b": 5, "t": 7, "g": 4}', n)::bson FROM generate_series(20001, 24000) n;
SELECT * FROM answers();

-- Under a collation, by an index with the same one.
SELECT count(*) FROM questions WHERE (SELECT count(*) FROM treedb.find('c', format('{"$and": [%s, {"s": "APFEL3"}]}', filter)::bson, '{"collation": {"locale": "de", "strength": 1}}'))
    <> (SELECT count(*) FROM treedb.find('c', format('{"$and": [%s, {"s": "APFEL3"}]}', filter)::bson, '{"collation": {"locale": "de", "strength": 1}, "hint": {"$natural": 1}}'));

-- Row ids that are changed are found in the same way.
SELECT update_many('c', '{"a": 3, "b": 5, "g": 4}', '{"$set": {"seen": true}}') -> 'matchedCount' AS matched;
SELECT treedb.count('c', '{"seen": true}');
DROP SCHEMA intersections CASCADE;
