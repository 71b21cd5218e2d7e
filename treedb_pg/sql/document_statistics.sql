-- Statistics of the values in documents: what ANALYZE collects, and how good the planner's estimates of rows are.
CREATE SCHEMA document_statistics;
SET search_path = document_statistics, treedb, public;
SET client_min_messages = warning;
SELECT create_collection('document_statistics.c');
-- Half of all documents have the value 0 of "skewed", the others have values that double in number; some fields are often
-- missing, arrays have from no to five elements. Only "i" has an index.
INSERT INTO c SELECT format('{"_id": %s, "i": %s, "skewed": %s, "even": %s, "word": "%s", "n": %s, "at": {"x": %s}%s%s}',
        n, n % 250, CASE WHEN n % 2 = 0 THEN 0 ELSE floor(log(2, n))::int END, n % 40, md5((n % 3000)::text), n, n % 7,
        CASE WHEN n % 10 = 0 THEN format(', "rare": %s', CASE WHEN n % 20 = 0 THEN 'null' ELSE (n % 4)::text END) ELSE '' END,
        CASE WHEN n % 3 = 0 THEN format(', "tags": [%s], "items": [{"sku": %s}, {"sku": %s}]', (SELECT coalesce(string_agg(format('"t%s"', (n + k * k) % 25), ','), '') FROM generate_series(1, n % 6) k), n % 50, n % 11) ELSE '' END)::bson
    FROM generate_series(1, 12000) n;
SELECT create_index('c', '{"i": 1}');

-- How many rows the planner expects of a query.
CREATE FUNCTION expected(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
CREATE FUNCTION within_two(expected float8, found float8) RETURNS bool LANGUAGE sql AS
    $$ SELECT greatest(expected, found, 1) <= 2 * greatest(least(expected, found), 1) $$;
CREATE TABLE questions (filter text);
INSERT INTO questions VALUES ('{}'), ('{"skewed": 0}'), ('{"skewed": 13}'), ('{"skewed": 5}'), ('{"skewed": {"$gt": 0}}'), ('{"skewed": {"$gte": 11, "$lt": 13}}'),
    ('{"skewed": {"$ne": 0}}'), ('{"skewed": {"$in": [0, 12]}}'), ('{"skewed": 77}'), ('{"even": 3}'), ('{"even": {"$lt": 10}}'), ('{"even": 3, "at.x": 2}'),
    ('{"word": "eccbc87e4b5ce2fe28308fd9f2a7baf3"}'), ('{"word": {"$gte": "8"}}'), ('{"word": {"$regex": "^a"}}'), ('{"n": {"$gt": 9000}}'), ('{"n": {"$gt": 4000, "$lte": 4100}}'), ('{"n": 17}'),
    ('{"_id": {"$lt": 600}}'), ('{"_id": 5}'), ('{"i": 3}'), ('{"i": {"$lt": 25}}'), ('{"rare": 2}'), ('{"rare": {"$exists": true}}'), ('{"rare": {"$exists": false}}'), ('{"rare": null}'),
    ('{"tags": "t3"}'), ('{"tags": {"$in": ["t3", "t4"]}}'), ('{"tags": {"$gte": "t2", "$lt": "t3"}}'), ('{"tags": {"$exists": true}}'), ('{"items.sku": 7}'), ('{"items": {"$elemMatch": {"sku": 7}}}'),
    ('{"at.x": {"$gte": 5}}'), ('{"at.x": {"$type": "string"}}'), ('{"$or": [{"even": 3}, {"even": 4}]}'), ('{"$or": [{"even": 3}, {"at.x": 1}]}'), ('{"$nor": [{"even": 3}, {"at.x": 1}]}'), ('{"nowhere": {"$exists": false}}');

-- Without statistics these are guesses.
SELECT expected($$SELECT FROM c WHERE doc @@ '{"skewed": 0}'$$) < 3000 AS guessed;
ANALYZE c;
-- With them, `@@` and find are within a factor of two of the truth.
SELECT filter, expected(format('SELECT FROM c WHERE doc @@ %L', filter)) AS expected, treedb.count('c', filter::bson) AS found
FROM questions
WHERE NOT within_two(expected(format('SELECT FROM c WHERE doc @@ %L', filter)), treedb.count('c', filter::bson))
    OR NOT within_two(expected(format('SELECT * FROM treedb.find(''c'', %L)', filter)), treedb.count('c', filter::bson));
SELECT count(*) FROM questions;
-- Joins and groups stand on these estimates.
CREATE TABLE few AS SELECT n AS i FROM generate_series(1, 10) n;
ANALYZE few;
SELECT expected($$SELECT FROM few JOIN c ON doc @@ format('{"i": %s}', few.i)::bson$$) AS ten_for_each;
EXPLAIN (COSTS OFF) SELECT FROM few JOIN c ON (doc ->> 'i')::int = few.i WHERE doc @@ '{"n": {"$gt": 11998}}';

-- They lie in the server's own catalog, in a slot of a private kind, beside what it collects of any column.
CREATE VIEW slots AS SELECT s.starelid::regclass::text AS relation, s.stanullfrac, k.kind, k.stored
    FROM pg_statistic s, LATERAL (VALUES (stakind1, stavalues1::text), (stakind2, stavalues2::text), (stakind3, stavalues3::text), (stakind4, stavalues4::text), (stakind5, stavalues5::text)) k(kind, stored)
    WHERE k.kind = 12121;
SELECT relation, d -> 'path' AS path, round((d ->> 'missing')::numeric, 3) AS missing, round((d ->> 'keys')::numeric, 3) AS keys, round((d ->> 'distinct')::numeric, 2) AS distinct,
    d ->> 'multikey' AS multikey, jsonb_array_length((d -> 'common')::text::jsonb) AS common, jsonb_array_length((d -> 'histogram')::text::jsonb) AS histogram
FROM slots, unnest(stored::bson[]) d ORDER BY (d ->> 'path') COLLATE "C";
SELECT attname, null_frac, n_distinct FROM pg_stats WHERE schemaname = 'document_statistics' AND tablename = 'c' AND attname = 'doc';

-- ALTER TABLE .. SET STATISTICS counts. Rows without a document, and none at all.
ALTER TABLE c ALTER doc SET STATISTICS 10;
ANALYZE c;
SELECT max(jsonb_array_length((d -> 'common')::text::jsonb)), max(jsonb_array_length((d -> 'histogram')::text::jsonb)) FROM slots, unnest(stored::bson[]) d;
CREATE TABLE holes (doc bson);
INSERT INTO holes SELECT CASE WHEN n % 4 > 0 THEN format('{"n": %s}', n % 2)::bson END FROM generate_series(1, 400) n;
ANALYZE holes;
SELECT relation, stanullfrac, d -> 'path' AS path FROM slots, unnest(stored::bson[]) d WHERE relation = 'holes';
SELECT within_two(expected($$SELECT FROM holes WHERE doc @@ '{"n": 1}'$$), 200);
CREATE TABLE empty (doc bson);
ANALYZE empty;
SELECT count(*) FROM slots WHERE relation = 'empty';

-- Nobody learns from estimates of documents that a policy hides, or that he may not read.
CREATE ROLE guarded_reader; CREATE ROLE no_reader;
GRANT USAGE ON SCHEMA document_statistics, treedb TO guarded_reader, no_reader;
GRANT SELECT ON c TO guarded_reader;
CREATE POLICY few ON c FOR SELECT TO guarded_reader USING ((doc ->> 'n')::int < 10);
ALTER TABLE c ENABLE ROW LEVEL SECURITY;
SELECT within_two(expected($$SELECT FROM c WHERE doc @@ '{"skewed": 0}'$$), 6000) AS owner_knows;
SET ROLE guarded_reader;
SELECT expected($$SELECT FROM c WHERE doc @@ '{"even": {"$gte": 0}}'$$) = expected($$SELECT FROM c WHERE doc @@ '{"even": {"$gte": 50}}'$$) AS reader_does_not;
RESET ROLE;
ALTER TABLE c DISABLE ROW LEVEL SECURITY;
SET ROLE no_reader;
SELECT expected($$SELECT * FROM treedb.find('c', '{"even": 3}')$$) = expected($$SELECT * FROM treedb.find('c', '{"even": {"$gte": 0}}')$$) AS stranger_does_not;
RESET ROLE;

-- Of many fields those of indexes have statistics, also where they are not the first of their index, and those that are named; of others the ones that most documents have.
SELECT create_collection('wide');
INSERT INTO wide SELECT format('{"_id": %s, %s, "y": %s, "z": {"deep": %s}, "zz": %s}', n, (SELECT string_agg(format('"f%s": %s', lpad(k::text, 3, '0'), n % (k + 2)), ', ') FROM generate_series(1, 200) k),
    n % 8, CASE WHEN n % 4 = 0 THEN 1 ELSE n END, CASE WHEN n % 2 = 0 THEN 'null' ELSE (n % 3)::text END)::bson FROM generate_series(1, 2000) n;
SELECT create_index('wide', '{"f001": 1, "z.deep": 1}'), create_index('wide', '{"f002": 1, "y": -1}', '{"sparse": true}'), create_index('wide', '{"w.$**": 1}');
CREATE FUNCTION known_paths() RETURNS text LANGUAGE sql AS $$ SELECT count(*) || ': ' || string_agg(d ->> 'path', ' ' ORDER BY (d ->> 'path') COLLATE "C") FILTER (WHERE d ->> 'path' >= 'g') FROM slots, unnest(stored::bson[]) d WHERE relation = 'wide' $$;
ANALYZE wide;
SELECT known_paths();
SELECT within_two(expected($$SELECT FROM wide WHERE doc @@ '{"z.deep": 1}'$$), 500) AS second_of_an_index, within_two(expected($$SELECT FROM wide WHERE doc @@ '{"y": {"$lt": 2}}'$$), 500) AS of_a_sparse_one,
    within_two(expected($$SELECT * FROM treedb.find('wide', '{"z.deep": 1}')$$), 500) AS find, within_two(expected($$SELECT FROM wide WHERE doc @@ '{"zz": null}'$$), 1000) AS neither;
CREATE STATISTICS wide_zz ON (doc -> 'zz') FROM wide;
CREATE STATISTICS wide_more (mcv) ON (doc -> 'f199'), (doc ->> 'f198') FROM wide;
ANALYZE wide;
SELECT known_paths();
SELECT within_two(expected($$SELECT FROM wide WHERE doc @@ '{"zz": null}'$$), 1000) AS named, within_two(expected($$SELECT FROM wide WHERE doc @@ '{"f199": {"$lt": 20}}'$$), 200) AS named_with_others;
-- The server's statistics of the expression are beside.
SELECT within_two(expected($$SELECT FROM wide WHERE doc -> 'zz' = 'null'$$), 1000) AS of_the_server;
DROP STATISTICS wide_zz, wide_more;
ANALYZE wide;
SELECT known_paths();

-- DROP takes them along.
DROP TABLE c, wide;
SELECT relation FROM slots ORDER BY relation;
DROP SCHEMA document_statistics CASCADE;
DROP OWNED BY guarded_reader, no_reader;
DROP ROLE guarded_reader, no_reader;
