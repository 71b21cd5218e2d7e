-- treedb_btree with nondeterministic collations.
SELECT count(*) = 0 AS no_icu FROM pg_collation WHERE collname = 'en-x-icu' AND collprovider = 'i' \gset
\if :no_icu
\quit
\endif
CREATE COLLATION without_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
-- equal in a collation, but not in its bytes: no order for patterns
CREATE TABLE patterns (v text COLLATE without_case);
CREATE INDEX ON patterns USING treedb_btree (v treedb.text_pattern_ops);
DROP TABLE patterns;
-- equal values of which some are spelled otherwise: a leaf has each spelling as it is, in the order of the rows
CREATE TABLE spelled (v text COLLATE without_case, n int) WITH (autovacuum_enabled = off);
CREATE INDEX spelled_v ON spelled USING treedb_btree (v);
INSERT INTO spelled SELECT CASE WHEN n % 11 = 0 THEN upper(v) ELSE v END, n
    FROM (SELECT n, 'value ' || n % 5 || repeat(' and more', 4) AS v FROM generate_series(1, 20000) n) x;
DELETE FROM spelled WHERE n % 13 = 0;
VACUUM spelled;
INSERT INTO spelled SELECT upper(v), n FROM spelled WHERE n % 17 = 0;
SELECT max(entries) > 300 AS many FROM treedb.index_pages('spelled_v') WHERE kind = 'leaf';
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v FROM spelled WHERE v = 'VALUE 3' || repeat(' and more', 4);
SELECT count(*), count(*) FILTER (WHERE v COLLATE "C" = upper(v) COLLATE "C") AS upper FROM spelled WHERE v = 'VALUE 3' || repeat(' and more', 4);
RESET enable_seqscan; RESET enable_bitmapscan;
SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;
SELECT count(*), count(*) FILTER (WHERE v COLLATE "C" = upper(v) COLLATE "C") AS upper FROM spelled WHERE v = 'VALUE 3' || repeat(' and more', 4);
RESET enable_indexscan; RESET enable_indexonlyscan; RESET enable_bitmapscan;
SELECT treedb.check('spelled');
DROP TABLE spelled;
DROP COLLATION without_case;
