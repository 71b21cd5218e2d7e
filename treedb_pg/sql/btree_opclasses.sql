-- Operator classes of treedb_btree: all are valid, there is one for each of btree's, and what is wrong with others is said.
CREATE SCHEMA opclasses;
SET search_path = opclasses, public;

SELECT opcname, opcintype::regtype, amvalidate(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod WHERE amname = 'treedb_btree' ORDER BY opcname, opcintype::regtype::text;
-- what btree has and treedb_btree has not
SELECT opcname, opcintype::regtype FROM pg_opclass b JOIN pg_namespace n ON n.oid = opcnamespace
    WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree') AND nspname IN ('pg_catalog', 'treedb') AND NOT EXISTS (
        SELECT FROM pg_opclass t WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'treedb_btree')
            AND (t.opcname, t.opcintype, t.opcdefault) = (b.opcname, b.opcintype, b.opcdefault)) ORDER BY 1;
-- operators and comparison functions of pairs of types
WITH family AS (SELECT f.oid, opfname, amname FROM pg_opfamily f JOIN pg_am a ON a.oid = opfmethod JOIN pg_namespace n ON n.oid = opfnamespace WHERE nspname IN ('pg_catalog', 'treedb'))
SELECT opfname, amoplefttype::regtype, amoprighttype::regtype, amopstrategy FROM pg_amop JOIN family f ON f.oid = amopfamily WHERE amname = 'btree'
EXCEPT SELECT opfname, amoplefttype::regtype, amoprighttype::regtype, amopstrategy FROM pg_amop JOIN family f ON f.oid = amopfamily WHERE amname = 'treedb_btree';
WITH family AS (SELECT f.oid, opfname, amname FROM pg_opfamily f JOIN pg_am a ON a.oid = opfmethod JOIN pg_namespace n ON n.oid = opfnamespace WHERE nspname = 'pg_catalog' OR nspname = 'treedb')
SELECT opfname, amproclefttype::regtype, amprocrighttype::regtype, amproc FROM pg_amproc JOIN family f ON f.oid = amprocfamily WHERE amname = 'btree' AND amprocnum = 1
EXCEPT SELECT opfname, amproclefttype::regtype, amprocrighttype::regtype, amproc FROM pg_amproc JOIN family f ON f.oid = amprocfamily WHERE amname = 'treedb_btree' AND amprocnum = 1
ORDER BY 1;

-- validate(NAME): whether an operator class of this schema is valid
CREATE FUNCTION validate(name text) RETURNS bool LANGUAGE sql AS $$ SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = name AND opcnamespace = 'opclasses'::regnamespace $$;
CREATE OPERATOR CLASS without_kind FOR TYPE int4 USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4);
CREATE OPERATOR CLASS without_comparison FOR TYPE int4 USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 11 treedb.kind_int4();
CREATE OPERATOR CLASS of_another_kind FOR TYPE int4 USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4), FUNCTION 11 treedb.kind_text();
CREATE FUNCTION no_kind() RETURNS int4 LANGUAGE sql IMMUTABLE AS 'SELECT 99';
CREATE OPERATOR CLASS of_no_kind FOR TYPE int4 USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4), FUNCTION 11 no_kind();
CREATE OPERATOR CLASS of_wrong_functions FOR TYPE int4 USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 (int4, int4) btint8cmp(int8, int8), FUNCTION 11 int4abs(int4);
CREATE OPERATOR CLASS of_few_operators FOR TYPE int4 USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 3 =, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4), FUNCTION 11 treedb.kind_int4();
CREATE OPERATOR CLASS of_wrong_operators FOR TYPE int4 USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <= (int8, int8), OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4), FUNCTION 11 treedb.kind_int4();
CREATE OPERATOR CLASS of_pairs FOR TYPE int4 USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, OPERATOR 3 = (int4, int8), FUNCTION 1 btint4cmp(int4, int4), FUNCTION 11 treedb.kind_int4();
CREATE OPERATOR CLASS keys_in_order FOR TYPE treedb.keyset USING treedb_btree AS
    OPERATOR 3 = (int4, int4), FUNCTION 11 treedb.kind_keyset();
CREATE OPERATOR CLASS of_seven FOR TYPE int4 USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4), FUNCTION 7 int4abs(int4), FUNCTION 11 treedb.kind_int4();
SELECT name, validate(name) FROM unnest('{without_kind,without_comparison,of_another_kind,of_no_kind,of_wrong_functions,of_few_operators,of_wrong_operators,of_pairs,keys_in_order,of_seven}'::text[]) name;
-- 6 is && of key sets, and of nothing else
CREATE OPERATOR CLASS of_six FOR TYPE int4 USING treedb_btree AS OPERATOR 6 <>, FUNCTION 1 btint4cmp(int4, int4), FUNCTION 11 treedb.kind_int4();
SELECT validate('of_six');
CREATE TABLE six (a int4);
CREATE INDEX six_a ON six USING treedb_btree (a of_six);
INSERT INTO six VALUES (1);
SET enable_seqscan = off;
SELECT * FROM six WHERE a <> 2;
RESET enable_seqscan;
DROP TABLE six;
-- the server itself refuses other numbers
CREATE OPERATOR CLASS of_operator_seven FOR TYPE int4 USING treedb_btree AS OPERATOR 7 <>, FUNCTION 1 btint4cmp(int4, int4), FUNCTION 11 treedb.kind_int4();
CREATE OPERATOR CLASS of_twelve FOR TYPE int4 USING treedb_btree AS OPERATOR 1 <, FUNCTION 12 btint4cmp(int4, int4);

-- using them anyway
CREATE TABLE t (a int4, b int8);
INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
CREATE INDEX ON t USING treedb_btree (a without_kind);
CREATE INDEX ON t USING treedb_btree (a of_no_kind);
CREATE INDEX ON t USING treedb_btree (a of_another_kind);
CREATE INDEX ON t USING treedb_btree (a treedb.int4_ops(siglen = 5));

-- a type of another extension: an order of one's own, by a function of one's own
CREATE FUNCTION compare_backwards(text, text) RETURNS int4 LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT bttextcmp(reverse($1), reverse($2)) $$;
CREATE FUNCTION before_backwards(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN compare_backwards($1, $2) < 0; END $$;
CREATE FUNCTION up_to_backwards(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN compare_backwards($1, $2) <= 0; END $$;
CREATE FUNCTION from_backwards(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN compare_backwards($1, $2) >= 0; END $$;
CREATE FUNCTION after_backwards(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN compare_backwards($1, $2) > 0; END $$;
CREATE OPERATOR <| (LEFTARG = text, RIGHTARG = text, FUNCTION = before_backwards, COMMUTATOR = |>, NEGATOR = |>=);
CREATE OPERATOR <=| (LEFTARG = text, RIGHTARG = text, FUNCTION = up_to_backwards, COMMUTATOR = |>=, NEGATOR = |>);
CREATE OPERATOR |>= (LEFTARG = text, RIGHTARG = text, FUNCTION = from_backwards, COMMUTATOR = <=|, NEGATOR = <|);
CREATE OPERATOR |> (LEFTARG = text, RIGHTARG = text, FUNCTION = after_backwards, COMMUTATOR = <|, NEGATOR = <=|);
CREATE OPERATOR CLASS backwards FOR TYPE text USING treedb_btree AS
    OPERATOR 1 <|, OPERATOR 2 <=|, OPERATOR 3 =, OPERATOR 4 |>=, OPERATOR 5 |>, FUNCTION 1 compare_backwards(text, text), FUNCTION 11 treedb.kind_generic();
CREATE OPERATOR CLASS backwards FOR TYPE text USING btree AS
    OPERATOR 1 <|, OPERATOR 2 <=|, OPERATOR 3 =, OPERATOR 4 |>=, OPERATOR 5 |>, FUNCTION 1 compare_backwards(text, text);
SELECT validate('backwards');
CREATE TABLE words (v text);
INSERT INTO words SELECT md5(i::text) FROM generate_series(1, 500) i;
CREATE INDEX words_v ON words USING treedb_btree (v backwards);
INSERT INTO words SELECT md5(i::text) FROM generate_series(501, 600) i;
SELECT treedb.check('words');
ANALYZE words;
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v FROM words WHERE v <| 'c0' ORDER BY v USING <|;
SELECT count(*), bool_and(reverse(v) >= reverse(before)) AS in_order FROM (SELECT v, lag(v) OVER (ORDER BY v USING <|) AS before FROM words WHERE v <| 'c0') x;
SELECT count(*) FROM words WHERE reverse(v) < '0c';
-- an error raised while values are compared leaves nothing behind
CREATE FUNCTION compare_picky(int4, int4) RETURNS int4 LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF $1 = 700 OR $2 = 700 THEN RAISE 'not 700'; END IF;
    RETURN btint4cmp($1, $2);
END $$;
CREATE OPERATOR CLASS picky FOR TYPE int4 USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 compare_picky(int4, int4), FUNCTION 11 treedb.kind_generic();
CREATE INDEX ON t USING treedb_btree (a picky);
DELETE FROM t WHERE a = 700;
VACUUM t;
CREATE INDEX t_picky ON t USING treedb_btree (a picky);
INSERT INTO t VALUES (700);
INSERT INTO t SELECT i FROM generate_series(690, 699) i;
SELECT a FROM t WHERE a = 700;
SELECT count(*) FROM t WHERE a BETWEEN 690 AND 701;
SELECT treedb.check('t_picky');
SELECT count(*) FROM pg_backend_memory_contexts WHERE name LIKE '%treedb_btree%';
SET client_min_messages = warning;
DROP SCHEMA opclasses CASCADE;
