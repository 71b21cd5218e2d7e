-- The extension's SQL objects. Every function names a symbol of treedb_pg.so; scripts/pg_symbols.sh checks that.
\echo Use "CREATE EXTENSION treedb" to load this file. \quit

-- Tables ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION table_handler(internal) RETURNS table_am_handler
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'treedb_table_handler';

CREATE ACCESS METHOD treedb TYPE TABLE HANDLER table_handler;
COMMENT ON ACCESS METHOD treedb IS 'rows in heap page format, read by TreeDB';

-- Indexes --------------------------------------------------------------------------------------------------------

CREATE FUNCTION btree_handler(internal) RETURNS index_am_handler
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'treedb_btree_handler';

CREATE ACCESS METHOD treedb_btree TYPE INDEX HANDLER btree_handler;
COMMENT ON ACCESS METHOD treedb_btree IS 'ordered tree of TreeDB nodes';

-- Support function 1 of an operator class says which kind of column it is for.
CREATE FUNCTION kind_int2() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_int2';
CREATE FUNCTION kind_int4() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_int4';
CREATE FUNCTION kind_int8() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_int8';
CREATE FUNCTION kind_float4() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_float4';
CREATE FUNCTION kind_float8() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_float8';
CREATE FUNCTION kind_text() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_text';
CREATE FUNCTION kind_uuid() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_uuid';
CREATE FUNCTION kind_value() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_value';
CREATE FUNCTION kind_keyset() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_keyset';

-- Types of one family compare with each other: bigint_column = 5 uses the index.
CREATE OPERATOR FAMILY integer_ops USING treedb_btree;

CREATE OPERATOR CLASS int2_ops DEFAULT FOR TYPE int2 USING treedb_btree FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 kind_int2();

CREATE OPERATOR CLASS int4_ops DEFAULT FOR TYPE int4 USING treedb_btree FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 kind_int4();

CREATE OPERATOR CLASS int8_ops DEFAULT FOR TYPE int8 USING treedb_btree FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 kind_int8();

ALTER OPERATOR FAMILY integer_ops USING treedb_btree ADD
    OPERATOR 1 < (int2, int4), OPERATOR 2 <= (int2, int4), OPERATOR 3 = (int2, int4), OPERATOR 4 >= (int2, int4), OPERATOR 5 > (int2, int4),
    OPERATOR 1 < (int2, int8), OPERATOR 2 <= (int2, int8), OPERATOR 3 = (int2, int8), OPERATOR 4 >= (int2, int8), OPERATOR 5 > (int2, int8),
    OPERATOR 1 < (int4, int2), OPERATOR 2 <= (int4, int2), OPERATOR 3 = (int4, int2), OPERATOR 4 >= (int4, int2), OPERATOR 5 > (int4, int2),
    OPERATOR 1 < (int4, int8), OPERATOR 2 <= (int4, int8), OPERATOR 3 = (int4, int8), OPERATOR 4 >= (int4, int8), OPERATOR 5 > (int4, int8),
    OPERATOR 1 < (int8, int2), OPERATOR 2 <= (int8, int2), OPERATOR 3 = (int8, int2), OPERATOR 4 >= (int8, int2), OPERATOR 5 > (int8, int2),
    OPERATOR 1 < (int8, int4), OPERATOR 2 <= (int8, int4), OPERATOR 3 = (int8, int4), OPERATOR 4 >= (int8, int4), OPERATOR 5 > (int8, int4);

CREATE OPERATOR FAMILY float_ops USING treedb_btree;

CREATE OPERATOR CLASS float4_ops DEFAULT FOR TYPE float4 USING treedb_btree FAMILY float_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 kind_float4();

CREATE OPERATOR CLASS float8_ops DEFAULT FOR TYPE float8 USING treedb_btree FAMILY float_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 kind_float8();

ALTER OPERATOR FAMILY float_ops USING treedb_btree ADD
    OPERATOR 1 < (float4, float8), OPERATOR 2 <= (float4, float8), OPERATOR 3 = (float4, float8), OPERATOR 4 >= (float4, float8), OPERATOR 5 > (float4, float8),
    OPERATOR 1 < (float8, float4), OPERATOR 2 <= (float8, float4), OPERATOR 3 = (float8, float4), OPERATOR 4 >= (float8, float4), OPERATOR 5 > (float8, float4);

CREATE OPERATOR FAMILY text_ops USING treedb_btree;
CREATE OPERATOR CLASS text_ops DEFAULT FOR TYPE text USING treedb_btree FAMILY text_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 kind_text();

CREATE OPERATOR FAMILY uuid_ops USING treedb_btree;
CREATE OPERATOR CLASS uuid_ops DEFAULT FOR TYPE uuid USING treedb_btree FAMILY uuid_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 kind_uuid();

CREATE OPERATOR FAMILY timestamptz_ops USING treedb_btree;
CREATE OPERATOR CLASS timestamptz_ops DEFAULT FOR TYPE timestamptz USING treedb_btree FAMILY timestamptz_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 kind_int8();

-- A keyword of SQL: it needs its schema in front.
CREATE FUNCTION treedb.check(relation regclass) RETURNS SETOF text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'treedb_check';
COMMENT ON FUNCTION treedb.check(regclass) IS
    'what is wrong with a treedb_btree index, or with those of a table; no rows: nothing';
