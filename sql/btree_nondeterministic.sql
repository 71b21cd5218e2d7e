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
DROP COLLATION without_case;
