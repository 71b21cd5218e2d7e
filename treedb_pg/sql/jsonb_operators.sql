-- The operators of jsonb on documents: the answers are those of jsonb over the same documents.
CREATE TABLE samples (n serial, j jsonb);
INSERT INTO samples (j) VALUES
    ('{}'), ('{"a": 1}'), ('{"a": 1.0}'), ('{"a": 2}'), ('{"a": "1"}'), ('{"a": null}'), ('{"a": true}'), ('{"a": []}'), ('{"a": {}}'),
    ('{"a": [1, 2, 3]}'), ('{"a": [3, 1]}'), ('{"a": [1, 1]}'), ('{"a": [[1, 2], 3]}'), ('{"a": [[1]]}'), ('{"a": [{"b": 1}, {"c": [1]}]}'), ('{"a": [{"b": 1, "c": 2}]}'),
    ('{"a": {"b": {"c": [1, {"d": null}]}}, "e": "x"}'), ('{"a": {"b": {"c": [{}]}}}'), ('{"e": "x", "b": -0.5}'), ('{"": 1}'), ('{"0": "zero", "-1": "minus"}'),
    ('{"a": [null, "x", false]}'), ('{"a": [null]}'), ('{"b": 12345678901, "c": 1e-7}'), ('{"ü": ["ß"]}');
SELECT count(*) AS pairs, count(*) FILTER (WHERE x.j @> y.j) AS hold,
    count(*) FILTER (WHERE (x.j @> y.j) <> (x.j::treedb.bson OPERATOR(treedb.@>) y.j::treedb.bson)) AS contains_differs,
    count(*) FILTER (WHERE (x.j <@ y.j) <> (x.j::treedb.bson OPERATOR(treedb.<@) y.j::treedb.bson)) AS contained_differs
FROM samples x, samples y;
CREATE TABLE names (name text);
INSERT INTO names VALUES ('a'), ('b'), ('e'), (''), ('0'), ('-1'), ('ü'), ('nothing');
SELECT count(*) FILTER (WHERE j ? name) AS hold, count(*) FILTER (WHERE (j ? name) <> (j::treedb.bson OPERATOR(treedb.?) name)) AS exists_differs,
    count(*) FILTER (WHERE (j ?| ARRAY[name, 'b', NULL]) <> (j::treedb.bson OPERATOR(treedb.?|) ARRAY[name, 'b', NULL])) AS any_differs,
    count(*) FILTER (WHERE (j ?& ARRAY[name, 'a', NULL]) <> (j::treedb.bson OPERATOR(treedb.?&) ARRAY[name, 'a', NULL])) AS all_differs,
    count(*) FILTER (WHERE (j ?| '{}') <> (j::treedb.bson OPERATOR(treedb.?|) '{}') OR (j ?& '{}') <> (j::treedb.bson OPERATOR(treedb.?&) '{}')) AS none_differs
FROM samples, names;
CREATE TABLE paths (path text[]);
INSERT INTO paths VALUES ('{}'), ('{a}'), ('{a,0}'), ('{a,-1}'), ('{a,-9}'), ('{a,9}'), ('{a,0,b}'), ('{a,0,0}'), ('{a,b,c,1,d}'), ('{a,b,c,-1}'), ('{e}'), ('{e,0}'), ('{""}'),
    ('{0}'), ('{-1}'), ('{a,x}'), ('{a,NULL}'), ('{a," 1"}'), ('{a,+1}'), ('{a,1x}'), ('{a,""}'), ('{ü,0}'), ('{a,99999999999}'), ('{a,-2147483648}');
-- As jsonb again, so that spaces and the way numbers are written do not count.
SELECT count(*) FILTER (WHERE j #> path IS NOT NULL) AS there,
    count(*) FILTER (WHERE (j #> path) IS DISTINCT FROM (j::treedb.bson OPERATOR(treedb.#>) path)::jsonb) AS path_differs,
    count(*) FILTER (WHERE jsonb_typeof(j #> path) NOT IN ('object', 'array', 'number') AND (j #>> path) IS DISTINCT FROM (j::treedb.bson OPERATOR(treedb.#>>) path)) AS text_differs,
    count(*) FILTER (WHERE (j #>> path IS NULL) <> ((j::treedb.bson OPERATOR(treedb.#>>) path) IS NULL)) AS null_differs
FROM samples, paths;
-- BSON's own types: equal values of the same type, numbers by what they are worth.
SELECT '{"a": {"$numberDecimal": "1.0"}, "o": {"$oid": "65a000000000000000000000"}, "d": {"$date": "2024-01-01T00:00:00Z"}}'::treedb.bson OPERATOR(treedb.@>) part AS has, part
FROM (VALUES ('{"a": 1}'::treedb.bson), ('{"o": {"$oid": "65a000000000000000000000"}}'), ('{"o": "65a000000000000000000000"}'), ('{"d": {"$date": "2024-01-01T00:00:00Z"}}'), ('{"d": {"$date": "2024-01-02T00:00:00Z"}}')) v(part);
-- The planner knows the commutator and the estimators.
SELECT oprname, oprleft::regtype, oprright::regtype, oprcom::regoperator, oprrest, oprjoin FROM pg_operator
WHERE oprnamespace = 'treedb'::regnamespace AND oprname IN ('@>', '<@', '?', '?|', '?&', '#>', '#>>') ORDER BY oprname::text COLLATE "C";
CREATE TABLE d AS SELECT jsonb_build_object('n', i % 10, 'i', i)::treedb.bson AS doc FROM generate_series(1, 200) i;
SELECT count(*) FROM d WHERE doc OPERATOR(treedb.@>) '{"n": 3}';
SELECT count(*) FROM d WHERE '{"n": 3}' OPERATOR(treedb.<@) doc AND doc OPERATOR(treedb.?) 'i';
SELECT '{"a": 1}'::treedb.bson OPERATOR(treedb.@>) '[1]';
DROP TABLE samples, names, paths, d;
