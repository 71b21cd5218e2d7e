-- The extension's SQL objects. Every function names a symbol of treedb_pg.so; scripts/pg_symbols.sh checks that.
\echo Use "CREATE EXTENSION treedb" to load this file. \quit

-- Tables ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION table_handler(internal) RETURNS table_am_handler
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'treedb_table_handler';

CREATE ACCESS METHOD treedb TYPE TABLE HANDLER table_handler;
COMMENT ON ACCESS METHOD treedb IS 'the routine of heap, with its callbacks for index builds, CLUSTER and TOAST tables replaced';

-- Indexes --------------------------------------------------------------------------------------------------------

CREATE FUNCTION btree_handler(internal) RETURNS index_am_handler
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'treedb_btree_handler';

CREATE ACCESS METHOD treedb_btree TYPE INDEX HANDLER btree_handler;
COMMENT ON ACCESS METHOD treedb_btree IS 'ordered tree of TreeDB nodes';

-- Of an operator class, support function 1 is the type's comparison, as in btree; 11 says which kind of column it is
-- for, that is, how values are encoded in entries; 5 is reserved for options of operator classes, as in btree.
-- kind_generic() is for any type: entries have the values' own bytes, which are compared by function 1.
CREATE FUNCTION kind_int2() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_int2';
CREATE FUNCTION kind_int4() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_int4';
CREATE FUNCTION kind_int8() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_int8';
CREATE FUNCTION kind_float4() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_float4';
CREATE FUNCTION kind_float8() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_float8';
CREATE FUNCTION kind_text() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_text';
CREATE FUNCTION kind_text_pattern() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_text_pattern';
CREATE FUNCTION kind_name() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_name';
CREATE FUNCTION kind_bytea() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_bytea';
CREATE FUNCTION kind_byte() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_byte';
CREATE FUNCTION kind_uuid() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_uuid';
CREATE FUNCTION kind_oid() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_oid';
CREATE FUNCTION kind_uint8() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_uint8';
CREATE FUNCTION kind_tid() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_tid';
CREATE FUNCTION kind_macaddr() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_macaddr';
CREATE FUNCTION kind_macaddr8() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_macaddr8';
CREATE FUNCTION kind_generic() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_generic';
CREATE FUNCTION kind_value() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_value';
CREATE FUNCTION kind_keyset() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_keyset';
COMMENT ON FUNCTION kind_generic() IS 'support function 11 of operator classes for types of other extensions';

-- Types of one family compare with each other: bigint_column = 5 uses the index.
CREATE OPERATOR FAMILY integer_ops USING treedb_btree;
CREATE OPERATOR CLASS int2_ops DEFAULT FOR TYPE int2 USING treedb_btree FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btint2cmp(int2, int2), FUNCTION 11 kind_int2();
CREATE OPERATOR CLASS int4_ops DEFAULT FOR TYPE int4 USING treedb_btree FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btint4cmp(int4, int4), FUNCTION 11 kind_int4();
CREATE OPERATOR CLASS int8_ops DEFAULT FOR TYPE int8 USING treedb_btree FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btint8cmp(int8, int8), FUNCTION 11 kind_int8();
ALTER OPERATOR FAMILY integer_ops USING treedb_btree ADD
    OPERATOR 1 < (int8, int2), OPERATOR 2 <= (int8, int2), OPERATOR 3 = (int8, int2), OPERATOR 4 >= (int8, int2), OPERATOR 5 > (int8, int2),
    FUNCTION 1 (int8, int2) btint82cmp(int8, int2),
    OPERATOR 1 < (int8, int4), OPERATOR 2 <= (int8, int4), OPERATOR 3 = (int8, int4), OPERATOR 4 >= (int8, int4), OPERATOR 5 > (int8, int4),
    FUNCTION 1 (int8, int4) btint84cmp(int8, int4),
    OPERATOR 1 < (int2, int8), OPERATOR 2 <= (int2, int8), OPERATOR 3 = (int2, int8), OPERATOR 4 >= (int2, int8), OPERATOR 5 > (int2, int8),
    FUNCTION 1 (int2, int8) btint28cmp(int2, int8),
    OPERATOR 1 < (int2, int4), OPERATOR 2 <= (int2, int4), OPERATOR 3 = (int2, int4), OPERATOR 4 >= (int2, int4), OPERATOR 5 > (int2, int4),
    FUNCTION 1 (int2, int4) btint24cmp(int2, int4),
    OPERATOR 1 < (int4, int8), OPERATOR 2 <= (int4, int8), OPERATOR 3 = (int4, int8), OPERATOR 4 >= (int4, int8), OPERATOR 5 > (int4, int8),
    FUNCTION 1 (int4, int8) btint48cmp(int4, int8),
    OPERATOR 1 < (int4, int2), OPERATOR 2 <= (int4, int2), OPERATOR 3 = (int4, int2), OPERATOR 4 >= (int4, int2), OPERATOR 5 > (int4, int2),
    FUNCTION 1 (int4, int2) btint42cmp(int4, int2);

CREATE OPERATOR FAMILY float_ops USING treedb_btree;
CREATE OPERATOR CLASS float4_ops DEFAULT FOR TYPE float4 USING treedb_btree FAMILY float_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btfloat4cmp(float4, float4), FUNCTION 11 kind_float4();
CREATE OPERATOR CLASS float8_ops DEFAULT FOR TYPE float8 USING treedb_btree FAMILY float_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btfloat8cmp(float8, float8), FUNCTION 11 kind_float8();
ALTER OPERATOR FAMILY float_ops USING treedb_btree ADD
    OPERATOR 1 < (float4, float8), OPERATOR 2 <= (float4, float8), OPERATOR 3 = (float4, float8), OPERATOR 4 >= (float4, float8), OPERATOR 5 > (float4, float8),
    FUNCTION 1 (float4, float8) btfloat48cmp(float4, float8),
    OPERATOR 1 < (float8, float4), OPERATOR 2 <= (float8, float4), OPERATOR 3 = (float8, float4), OPERATOR 4 >= (float8, float4), OPERATOR 5 > (float8, float4),
    FUNCTION 1 (float8, float4) btfloat84cmp(float8, float4);

-- Types without an encoding that orders by its bytes: entries have the values themselves.
CREATE OPERATOR FAMILY numeric_ops USING treedb_btree;
CREATE OPERATOR CLASS numeric_ops DEFAULT FOR TYPE numeric USING treedb_btree FAMILY numeric_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 numeric_cmp(numeric, numeric), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY money_ops USING treedb_btree;
CREATE OPERATOR CLASS money_ops DEFAULT FOR TYPE money USING treedb_btree FAMILY money_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 cash_cmp(money, money), FUNCTION 11 kind_int8();

CREATE OPERATOR FAMILY oid_ops USING treedb_btree;
CREATE OPERATOR CLASS oid_ops DEFAULT FOR TYPE oid USING treedb_btree FAMILY oid_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btoidcmp(oid, oid), FUNCTION 11 kind_oid();

CREATE OPERATOR FAMILY bool_ops USING treedb_btree;
CREATE OPERATOR CLASS bool_ops DEFAULT FOR TYPE bool USING treedb_btree FAMILY bool_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btboolcmp(bool, bool), FUNCTION 11 kind_byte();

CREATE OPERATOR FAMILY text_ops USING treedb_btree;
CREATE OPERATOR CLASS name_ops DEFAULT FOR TYPE name USING treedb_btree FAMILY text_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btnamecmp(name, name), FUNCTION 11 kind_name();
CREATE OPERATOR CLASS text_ops DEFAULT FOR TYPE text USING treedb_btree FAMILY text_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bttextcmp(text, text), FUNCTION 11 kind_text();
CREATE OPERATOR CLASS varchar_ops FOR TYPE text USING treedb_btree FAMILY text_ops AS
    STORAGE text;
ALTER OPERATOR FAMILY text_ops USING treedb_btree ADD
    OPERATOR 1 < (name, text), OPERATOR 2 <= (name, text), OPERATOR 3 = (name, text), OPERATOR 4 >= (name, text), OPERATOR 5 > (name, text),
    FUNCTION 1 (name, text) btnametextcmp(name, text),
    OPERATOR 1 < (text, name), OPERATOR 2 <= (text, name), OPERATOR 3 = (text, name), OPERATOR 4 >= (text, name), OPERATOR 5 > (text, name),
    FUNCTION 1 (text, name) bttextnamecmp(text, name);

-- In the order of bytes, whatever the collation.
CREATE OPERATOR FAMILY text_pattern_ops USING treedb_btree;
CREATE OPERATOR CLASS text_pattern_ops FOR TYPE text USING treedb_btree FAMILY text_pattern_ops AS
    OPERATOR 1 ~<~, OPERATOR 2 ~<=~, OPERATOR 3 =, OPERATOR 4 ~>=~, OPERATOR 5 ~>~,
    FUNCTION 1 bttext_pattern_cmp(text, text), FUNCTION 11 kind_text_pattern();
CREATE OPERATOR CLASS varchar_pattern_ops FOR TYPE text USING treedb_btree FAMILY text_pattern_ops AS
    STORAGE text;

-- In the order of text_ops and bytea_ops, but with the values themselves in entries, compared by function 1. The default
-- classes have room for almost the same values, and are faster: these are kept for the indexes that were made with them.
CREATE OPERATOR FAMILY text_long_ops USING treedb_btree;
CREATE OPERATOR CLASS text_long_ops FOR TYPE text USING treedb_btree FAMILY text_long_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bttextcmp(text, text), FUNCTION 11 kind_generic();
CREATE OPERATOR FAMILY bytea_long_ops USING treedb_btree;
CREATE OPERATOR CLASS bytea_long_ops FOR TYPE bytea USING treedb_btree FAMILY bytea_long_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 byteacmp(bytea, bytea), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY bpchar_ops USING treedb_btree;
CREATE OPERATOR CLASS bpchar_ops DEFAULT FOR TYPE bpchar USING treedb_btree FAMILY bpchar_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bpcharcmp(bpchar, bpchar), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY bpchar_pattern_ops USING treedb_btree;
CREATE OPERATOR CLASS bpchar_pattern_ops FOR TYPE bpchar USING treedb_btree FAMILY bpchar_pattern_ops AS
    OPERATOR 1 ~<~, OPERATOR 2 ~<=~, OPERATOR 3 =, OPERATOR 4 ~>=~, OPERATOR 5 ~>~,
    FUNCTION 1 btbpchar_pattern_cmp(bpchar, bpchar), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY char_ops USING treedb_btree;
CREATE OPERATOR CLASS char_ops DEFAULT FOR TYPE "char" USING treedb_btree FAMILY char_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btcharcmp("char", "char"), FUNCTION 11 kind_byte();

CREATE OPERATOR FAMILY bytea_ops USING treedb_btree;
CREATE OPERATOR CLASS bytea_ops DEFAULT FOR TYPE bytea USING treedb_btree FAMILY bytea_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 byteacmp(bytea, bytea), FUNCTION 11 kind_bytea();

CREATE OPERATOR FAMILY uuid_ops USING treedb_btree;
CREATE OPERATOR CLASS uuid_ops DEFAULT FOR TYPE uuid USING treedb_btree FAMILY uuid_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 uuid_cmp(uuid, uuid), FUNCTION 11 kind_uuid();

CREATE OPERATOR FAMILY datetime_ops USING treedb_btree;
CREATE OPERATOR CLASS date_ops DEFAULT FOR TYPE date USING treedb_btree FAMILY datetime_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 date_cmp(date, date), FUNCTION 11 kind_int4();
CREATE OPERATOR CLASS timestamptz_ops DEFAULT FOR TYPE timestamptz USING treedb_btree FAMILY datetime_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 timestamptz_cmp(timestamptz, timestamptz), FUNCTION 11 kind_int8();
CREATE OPERATOR CLASS timestamp_ops DEFAULT FOR TYPE timestamp USING treedb_btree FAMILY datetime_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 timestamp_cmp(timestamp, timestamp), FUNCTION 11 kind_int8();
ALTER OPERATOR FAMILY datetime_ops USING treedb_btree ADD
    OPERATOR 1 < (date, timestamp), OPERATOR 2 <= (date, timestamp), OPERATOR 3 = (date, timestamp), OPERATOR 4 >= (date, timestamp), OPERATOR 5 > (date, timestamp),
    FUNCTION 1 (date, timestamp) date_cmp_timestamp(date, timestamp),
    OPERATOR 1 < (date, timestamptz), OPERATOR 2 <= (date, timestamptz), OPERATOR 3 = (date, timestamptz), OPERATOR 4 >= (date, timestamptz), OPERATOR 5 > (date, timestamptz),
    FUNCTION 1 (date, timestamptz) date_cmp_timestamptz(date, timestamptz),
    OPERATOR 1 < (timestamp, date), OPERATOR 2 <= (timestamp, date), OPERATOR 3 = (timestamp, date), OPERATOR 4 >= (timestamp, date), OPERATOR 5 > (timestamp, date),
    FUNCTION 1 (timestamp, date) timestamp_cmp_date(timestamp, date),
    OPERATOR 1 < (timestamp, timestamptz), OPERATOR 2 <= (timestamp, timestamptz), OPERATOR 3 = (timestamp, timestamptz), OPERATOR 4 >= (timestamp, timestamptz), OPERATOR 5 > (timestamp, timestamptz),
    FUNCTION 1 (timestamp, timestamptz) timestamp_cmp_timestamptz(timestamp, timestamptz),
    OPERATOR 1 < (timestamptz, date), OPERATOR 2 <= (timestamptz, date), OPERATOR 3 = (timestamptz, date), OPERATOR 4 >= (timestamptz, date), OPERATOR 5 > (timestamptz, date),
    FUNCTION 1 (timestamptz, date) timestamptz_cmp_date(timestamptz, date),
    OPERATOR 1 < (timestamptz, timestamp), OPERATOR 2 <= (timestamptz, timestamp), OPERATOR 3 = (timestamptz, timestamp), OPERATOR 4 >= (timestamptz, timestamp), OPERATOR 5 > (timestamptz, timestamp),
    FUNCTION 1 (timestamptz, timestamp) timestamptz_cmp_timestamp(timestamptz, timestamp);

CREATE OPERATOR FAMILY time_ops USING treedb_btree;
CREATE OPERATOR CLASS time_ops DEFAULT FOR TYPE time USING treedb_btree FAMILY time_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 time_cmp(time, time), FUNCTION 11 kind_int8();

CREATE OPERATOR FAMILY timetz_ops USING treedb_btree;
CREATE OPERATOR CLASS timetz_ops DEFAULT FOR TYPE timetz USING treedb_btree FAMILY timetz_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 timetz_cmp(timetz, timetz), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY interval_ops USING treedb_btree;
CREATE OPERATOR CLASS interval_ops DEFAULT FOR TYPE interval USING treedb_btree FAMILY interval_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 interval_cmp(interval, interval), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY network_ops USING treedb_btree;
CREATE OPERATOR CLASS inet_ops DEFAULT FOR TYPE inet USING treedb_btree FAMILY network_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 network_cmp(inet, inet), FUNCTION 11 kind_generic();
CREATE OPERATOR CLASS cidr_ops FOR TYPE inet USING treedb_btree FAMILY network_ops AS
    STORAGE inet;

CREATE OPERATOR FAMILY macaddr_ops USING treedb_btree;
CREATE OPERATOR CLASS macaddr_ops DEFAULT FOR TYPE macaddr USING treedb_btree FAMILY macaddr_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 macaddr_cmp(macaddr, macaddr), FUNCTION 11 kind_macaddr();

CREATE OPERATOR FAMILY macaddr8_ops USING treedb_btree;
CREATE OPERATOR CLASS macaddr8_ops DEFAULT FOR TYPE macaddr8 USING treedb_btree FAMILY macaddr8_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 macaddr8_cmp(macaddr8, macaddr8), FUNCTION 11 kind_macaddr8();

CREATE OPERATOR FAMILY bit_ops USING treedb_btree;
CREATE OPERATOR CLASS bit_ops DEFAULT FOR TYPE bit USING treedb_btree FAMILY bit_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bitcmp(bit, bit), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY varbit_ops USING treedb_btree;
CREATE OPERATOR CLASS varbit_ops DEFAULT FOR TYPE varbit USING treedb_btree FAMILY varbit_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 varbitcmp(varbit, varbit), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY enum_ops USING treedb_btree;
CREATE OPERATOR CLASS enum_ops DEFAULT FOR TYPE anyenum USING treedb_btree FAMILY enum_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 enum_cmp(anyenum, anyenum), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY array_ops USING treedb_btree;
CREATE OPERATOR CLASS array_ops DEFAULT FOR TYPE anyarray USING treedb_btree FAMILY array_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btarraycmp(anyarray, anyarray), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY range_ops USING treedb_btree;
CREATE OPERATOR CLASS range_ops DEFAULT FOR TYPE anyrange USING treedb_btree FAMILY range_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 range_cmp(anyrange, anyrange), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY multirange_ops USING treedb_btree;
CREATE OPERATOR CLASS multirange_ops DEFAULT FOR TYPE anymultirange USING treedb_btree FAMILY multirange_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 multirange_cmp(anymultirange, anymultirange), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY record_ops USING treedb_btree;
CREATE OPERATOR CLASS record_ops DEFAULT FOR TYPE record USING treedb_btree FAMILY record_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btrecordcmp(record, record), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY record_image_ops USING treedb_btree;
CREATE OPERATOR CLASS record_image_ops FOR TYPE record USING treedb_btree FAMILY record_image_ops AS
    OPERATOR 1 *<, OPERATOR 2 *<=, OPERATOR 3 *=, OPERATOR 4 *>=, OPERATOR 5 *>,
    FUNCTION 1 btrecordimagecmp(record, record), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY jsonb_ops USING treedb_btree;
CREATE OPERATOR CLASS jsonb_ops DEFAULT FOR TYPE jsonb USING treedb_btree FAMILY jsonb_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 jsonb_cmp(jsonb, jsonb), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY tsvector_ops USING treedb_btree;
CREATE OPERATOR CLASS tsvector_ops DEFAULT FOR TYPE tsvector USING treedb_btree FAMILY tsvector_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 tsvector_cmp(tsvector, tsvector), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY tsquery_ops USING treedb_btree;
CREATE OPERATOR CLASS tsquery_ops DEFAULT FOR TYPE tsquery USING treedb_btree FAMILY tsquery_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 tsquery_cmp(tsquery, tsquery), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY oidvector_ops USING treedb_btree;
CREATE OPERATOR CLASS oidvector_ops DEFAULT FOR TYPE oidvector USING treedb_btree FAMILY oidvector_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btoidvectorcmp(oidvector, oidvector), FUNCTION 11 kind_generic();

CREATE OPERATOR FAMILY tid_ops USING treedb_btree;
CREATE OPERATOR CLASS tid_ops DEFAULT FOR TYPE tid USING treedb_btree FAMILY tid_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bttidcmp(tid, tid), FUNCTION 11 kind_tid();

CREATE OPERATOR FAMILY pg_lsn_ops USING treedb_btree;
CREATE OPERATOR CLASS pg_lsn_ops DEFAULT FOR TYPE pg_lsn USING treedb_btree FAMILY pg_lsn_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 pg_lsn_cmp(pg_lsn, pg_lsn), FUNCTION 11 kind_uint8();

CREATE OPERATOR FAMILY xid8_ops USING treedb_btree;
CREATE OPERATOR CLASS xid8_ops DEFAULT FOR TYPE xid8 USING treedb_btree FAMILY xid8_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 xid8cmp(xid8, xid8), FUNCTION 11 kind_uint8();

-- A keyword of SQL: it needs its schema in front.
CREATE FUNCTION treedb.check(relation regclass, heapallindexed bool DEFAULT true) RETURNS SETOF text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'treedb_check';
CREATE FUNCTION treedb.index_page_objects(index regclass) RETURNS SETOF text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'treedb_index_page_objects';
COMMENT ON FUNCTION treedb.index_page_objects(regclass) IS
    'the pages of a treedb_btree index as JSON objects; see treedb.index_pages';
CREATE FUNCTION treedb.index_pages(index regclass, OUT block bigint, OUT kind text, OUT level int, OUT entries int,
        OUT appended int, OUT dead int, OUT free_bytes int, OUT next bigint) RETURNS SETOF record
    LANGUAGE sql STRICT AS $$
        SELECT page.* FROM treedb.index_page_objects(index) object,
            pg_catalog.jsonb_to_record(object::pg_catalog.jsonb) AS page(block pg_catalog.int8, kind pg_catalog.text,
                level pg_catalog.int4, entries pg_catalog.int4, appended pg_catalog.int4, dead pg_catalog.int4,
                free_bytes pg_catalog.int4, next pg_catalog.int8)
    $$;
COMMENT ON FUNCTION treedb.index_pages(regclass) IS
    'what each page of a treedb_btree index holds: entries, those of them in the append area, those marked as dead';
COMMENT ON FUNCTION treedb.check(regclass, bool) IS
    'what is wrong with an index of treedb, or with those of a table, compared with its rows unless heapallindexed is false; no rows: nothing';

-- Documents ------------------------------------------------------------------------------------------------------

CREATE TYPE bson;
CREATE FUNCTION bson_in(cstring) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_in';
CREATE FUNCTION bson_out(bson) RETURNS cstring LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_out';
CREATE FUNCTION bson_recv(internal) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_recv';
CREATE FUNCTION bson_send(bson) RETURNS bytea LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_bytes';
CREATE FUNCTION bson_analyze(internal) RETURNS bool LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_analyze';
COMMENT ON FUNCTION bson_analyze(internal) IS 'collects statistics of the values in documents, for ANALYZE';
CREATE TYPE bson (
    INPUT = bson_in, OUTPUT = bson_out, RECEIVE = bson_recv, SEND = bson_send, ANALYZE = bson_analyze,
    INTERNALLENGTH = VARIABLE, ALIGNMENT = int4, STORAGE = extended
);
COMMENT ON TYPE bson IS 'BSON document, written as relaxed extended JSON, ordered as MongoDB orders documents';

CREATE FUNCTION bson_lt(bson, bson) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_lt';
CREATE FUNCTION bson_le(bson, bson) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_le';
CREATE FUNCTION bson_eq(bson, bson) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_eq';
CREATE FUNCTION bson_ne(bson, bson) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_ne';
CREATE FUNCTION bson_ge(bson, bson) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_ge';
CREATE FUNCTION bson_gt(bson, bson) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_gt';
CREATE FUNCTION bson_cmp(bson, bson) RETURNS int4 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_cmp';
CREATE FUNCTION bson_hash(bson) RETURNS int4 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_hash';
CREATE FUNCTION bson_hash_extended(bson, int8) RETURNS int8 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_hash_extended';

CREATE OPERATOR < (LEFTARG = bson, RIGHTARG = bson, FUNCTION = bson_lt, COMMUTATOR = >, NEGATOR = >=,
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
CREATE OPERATOR <= (LEFTARG = bson, RIGHTARG = bson, FUNCTION = bson_le, COMMUTATOR = >=, NEGATOR = >,
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
CREATE OPERATOR = (LEFTARG = bson, RIGHTARG = bson, FUNCTION = bson_eq, COMMUTATOR = =, NEGATOR = <>,
    RESTRICT = eqsel, JOIN = eqjoinsel, MERGES, HASHES);
CREATE OPERATOR <> (LEFTARG = bson, RIGHTARG = bson, FUNCTION = bson_ne, COMMUTATOR = <>, NEGATOR = =,
    RESTRICT = neqsel, JOIN = neqjoinsel);
CREATE OPERATOR >= (LEFTARG = bson, RIGHTARG = bson, FUNCTION = bson_ge, COMMUTATOR = <=, NEGATOR = <,
    RESTRICT = scalargesel, JOIN = scalargejoinsel);
CREATE OPERATOR > (LEFTARG = bson, RIGHTARG = bson, FUNCTION = bson_gt, COMMUTATOR = <, NEGATOR = <=,
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel);

CREATE OPERATOR CLASS bson_ops DEFAULT FOR TYPE bson USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bson_cmp(bson, bson);
CREATE OPERATOR CLASS bson_ops DEFAULT FOR TYPE bson USING hash AS
    OPERATOR 1 =,
    FUNCTION 1 bson_hash(bson), FUNCTION 2 bson_hash_extended(bson, int8);
CREATE OPERATOR CLASS bson_ops DEFAULT FOR TYPE bson USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bson_cmp(bson, bson), FUNCTION 11 kind_generic();

-- Casts by way of text: both are JSON.
CREATE CAST (jsonb AS bson) WITH INOUT AS ASSIGNMENT;
CREATE CAST (bson AS jsonb) WITH INOUT AS ASSIGNMENT;
CREATE CAST (json AS bson) WITH INOUT AS ASSIGNMENT;
CREATE CAST (bson AS json) WITH INOUT AS ASSIGNMENT;
CREATE FUNCTION bson(bytea) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_from_bytea';
CREATE FUNCTION bytea(bson) RETURNS bytea LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_bytes';
CREATE CAST (bytea AS bson) WITH FUNCTION bson(bytea);
CREATE CAST (bson AS bytea) WITH FUNCTION bytea(bson);

-- Values ---------------------------------------------------------------------------------------------------------

CREATE TYPE bson_value;
CREATE FUNCTION bson_value_in(cstring) RETURNS bson_value LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_in';
CREATE FUNCTION bson_value_out(bson_value) RETURNS cstring LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_out';
CREATE FUNCTION bson_value_recv(internal) RETURNS bson_value LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_recv';
CREATE FUNCTION bson_value_send(bson_value) RETURNS bytea LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_send';
CREATE TYPE bson_value (
    INPUT = bson_value_in, OUTPUT = bson_value_out, RECEIVE = bson_value_recv, SEND = bson_value_send,
    INTERNALLENGTH = VARIABLE, ALIGNMENT = int4, STORAGE = extended
);
COMMENT ON TYPE bson_value IS 'one BSON value of any type, written as relaxed extended JSON, ordered as MongoDB orders values';

CREATE FUNCTION bson_value_lt(bson_value, bson_value) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_lt';
CREATE FUNCTION bson_value_le(bson_value, bson_value) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_le';
CREATE FUNCTION bson_value_eq(bson_value, bson_value) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_eq';
CREATE FUNCTION bson_value_ne(bson_value, bson_value) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_ne';
CREATE FUNCTION bson_value_ge(bson_value, bson_value) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_ge';
CREATE FUNCTION bson_value_gt(bson_value, bson_value) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_gt';
CREATE FUNCTION bson_value_cmp(bson_value, bson_value) RETURNS int4 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_cmp';
CREATE FUNCTION bson_value_hash(bson_value) RETURNS int4 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_hash';
CREATE FUNCTION bson_value_hash_extended(bson_value, int8) RETURNS int8 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_hash_extended';

CREATE FUNCTION valuesel(internal, oid, internal, int4) RETURNS float8 LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_valuesel';
COMMENT ON FUNCTION valuesel(internal, oid, internal, int4) IS 'tells the planner of how many rows a comparison of values is true';
CREATE FUNCTION valuejoinsel(internal, oid, internal, int2, internal) RETURNS float8 LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_valuejoinsel';
COMMENT ON FUNCTION valuejoinsel(internal, oid, internal, int2, internal) IS 'the same where the values come from two tables';
CREATE OPERATOR < (LEFTARG = bson_value, RIGHTARG = bson_value, FUNCTION = bson_value_lt, COMMUTATOR = >, NEGATOR = >=,
    RESTRICT = valuesel, JOIN = valuejoinsel);
CREATE OPERATOR <= (LEFTARG = bson_value, RIGHTARG = bson_value, FUNCTION = bson_value_le, COMMUTATOR = >=, NEGATOR = >,
    RESTRICT = valuesel, JOIN = valuejoinsel);
CREATE OPERATOR = (LEFTARG = bson_value, RIGHTARG = bson_value, FUNCTION = bson_value_eq, COMMUTATOR = =, NEGATOR = <>,
    RESTRICT = valuesel, JOIN = valuejoinsel, MERGES, HASHES);
CREATE OPERATOR <> (LEFTARG = bson_value, RIGHTARG = bson_value, FUNCTION = bson_value_ne, COMMUTATOR = <>, NEGATOR = =,
    RESTRICT = valuesel, JOIN = valuejoinsel);
CREATE OPERATOR >= (LEFTARG = bson_value, RIGHTARG = bson_value, FUNCTION = bson_value_ge, COMMUTATOR = <=, NEGATOR = <,
    RESTRICT = valuesel, JOIN = valuejoinsel);
CREATE OPERATOR > (LEFTARG = bson_value, RIGHTARG = bson_value, FUNCTION = bson_value_gt, COMMUTATOR = <, NEGATOR = <=,
    RESTRICT = valuesel, JOIN = valuejoinsel);

CREATE OPERATOR CLASS bson_value_ops DEFAULT FOR TYPE bson_value USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bson_value_cmp(bson_value, bson_value);
CREATE OPERATOR CLASS bson_value_ops DEFAULT FOR TYPE bson_value USING hash AS
    OPERATOR 1 =,
    FUNCTION 1 bson_value_hash(bson_value), FUNCTION 2 bson_value_hash_extended(bson_value, int8);

CREATE OPERATOR CLASS bson_value_ops DEFAULT FOR TYPE bson_value USING treedb_btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bson_value_cmp(bson_value, bson_value), FUNCTION 11 kind_value();

CREATE FUNCTION bson_value(bson) RETURNS bson_value LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_from_bson';
CREATE FUNCTION bson(bson_value) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_from_value';
-- A document is a value: where a function takes either, nothing need be said.
CREATE CAST (bson AS bson_value) WITH FUNCTION bson_value(bson) AS IMPLICIT;
CREATE CAST (bson_value AS bson) WITH FUNCTION bson(bson_value);
CREATE CAST (bson_value AS jsonb) WITH INOUT AS ASSIGNMENT;
CREATE CAST (jsonb AS bson_value) WITH INOUT AS ASSIGNMENT;

CREATE FUNCTION treedb.get(document bson, path text) RETURNS bson_value LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_get';
CREATE FUNCTION treedb.get(value bson_value, path text) RETURNS bson_value LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_get';
CREATE FUNCTION get_text(document bson, path text) RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_get_text';
CREATE FUNCTION get_text(value bson_value, path text) RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_get_text';
CREATE OPERATOR -> (LEFTARG = bson, RIGHTARG = text, FUNCTION = treedb.get);
CREATE OPERATOR -> (LEFTARG = bson_value, RIGHTARG = text, FUNCTION = treedb.get);
CREATE OPERATOR ->> (LEFTARG = bson, RIGHTARG = text, FUNCTION = get_text);
CREATE OPERATOR ->> (LEFTARG = bson_value, RIGHTARG = text, FUNCTION = get_text);
COMMENT ON FUNCTION treedb.get(bson, text) IS 'the value at a dotted path (names of fields, positions in arrays), or NULL';
COMMENT ON FUNCTION get_text(bson, text) IS 'the same as text: strings without quotes, null as NULL';

-- Filters --------------------------------------------------------------------------------------------------------

CREATE FUNCTION matches(document bson, filter bson) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 10 AS 'MODULE_PATHNAME', 'treedb_matches';
CREATE FUNCTION matchsel(internal, oid, internal, int4) RETURNS float8 LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_matchsel';
COMMENT ON FUNCTION matchsel(internal, oid, internal, int4) IS 'tells the planner how many documents match a filter';
CREATE FUNCTION matchjoinsel(internal, oid, internal, int2, internal) RETURNS float8 LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_matchjoinsel';
COMMENT ON FUNCTION matchjoinsel(internal, oid, internal, int2, internal) IS 'the same where the filter comes from another table';
CREATE OPERATOR @@ (LEFTARG = bson, RIGHTARG = bson, FUNCTION = matches, RESTRICT = matchsel, JOIN = matchjoinsel);
COMMENT ON FUNCTION matches(bson, bson) IS 'whether a document matches a MongoDB filter';

-- Index keys -----------------------------------------------------------------------------------------------------

CREATE TYPE keyset;
CREATE FUNCTION keyset_in(cstring) RETURNS keyset LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_keyset_in';
CREATE FUNCTION keyset_out(keyset) RETURNS cstring LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_keyset_out';
CREATE TYPE keyset (INPUT = keyset_in, OUTPUT = keyset_out, INTERNALLENGTH = VARIABLE, ALIGNMENT = int4, STORAGE = extended);
COMMENT ON TYPE keyset IS 'the keys of one document in an index of a collection';

CREATE OPERATOR CLASS keyset_ops DEFAULT FOR TYPE keyset USING treedb_btree AS
    FUNCTION 11 kind_keyset();

-- What an exclusion constraint does not allow of two documents makes an index unique.
CREATE FUNCTION keyset_overlaps(keyset, keyset) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_keyset_overlaps';
CREATE OPERATOR && (LEFTARG = keyset, RIGHTARG = keyset, FUNCTION = keyset_overlaps, COMMUTATOR = &&, RESTRICT = contsel, JOIN = contjoinsel);
ALTER OPERATOR FAMILY keyset_ops USING treedb_btree ADD OPERATOR 6 && (keyset, keyset);

CREATE FUNCTION keys(document bson, pattern bson) RETURNS keyset LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_keys';
CREATE FUNCTION unique_key(document bson, pattern bson) RETURNS bytea LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_unique_key';
COMMENT ON FUNCTION unique_key(bson, bson) IS 'the same for unique indexes that version 0.1.0 made';
COMMENT ON FUNCTION keys(bson, bson) IS 'what an index of key pattern {"field": 1, ..}, or of specification {"key": {"field": 1, ..}, "sparse": true, ..}, has for a document';

-- An index on values is searched by encoded keys, which is what queries have.
CREATE FUNCTION bson_value_cmp_key(bson_value, bytea) RETURNS int4 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_cmp_key';
CREATE FUNCTION bson_value_ge_key(bson_value, bytea) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_ge_key';
CREATE FUNCTION bson_value_lt_key(bson_value, bytea) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_value_lt_key';
ALTER OPERATOR FAMILY bson_value_ops USING btree ADD FUNCTION 1 (bson_value, bytea) bson_value_cmp_key(bson_value, bytea);

-- Collections ----------------------------------------------------------------------------------------------------

CREATE FUNCTION set_id() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'treedb_set_id';
COMMENT ON FUNCTION set_id() IS 'gives every document of a collection its _id, as the first field';

CREATE FUNCTION create_collection(name text, options bson DEFAULT '{}') RETURNS regclass LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_create_collection';
CREATE FUNCTION drop_collection(name text) RETURNS bool LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_drop_collection';
CREATE FUNCTION create_index(collection text, keys bson, options bson DEFAULT '{}') RETURNS text LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_create_index';
CREATE FUNCTION drop_index(collection text, name text) RETURNS void LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_drop_index';
CREATE FUNCTION list_indexes(collection text) RETURNS SETOF bson LANGUAGE c STABLE STRICT PARALLEL RESTRICTED ROWS 10 AS 'MODULE_PATHNAME', 'treedb_list_indexes';
CREATE FUNCTION list_collections() RETURNS SETOF regclass LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT c.oid::pg_catalog.regclass
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid
    WHERE c.relkind OPERATOR(pg_catalog.=) 'r' AND a.attname OPERATOR(pg_catalog.=) 'doc' AND NOT a.attisdropped
        AND a.atttypid OPERATOR(pg_catalog.=) 'treedb.bson'::pg_catalog.regtype
    ORDER BY c.relnamespace, c.relname
$$;
COMMENT ON FUNCTION create_collection(text, bson) IS 'creates a table of documents with a unique _id; options: validator, validationLevel, validationAction';
COMMENT ON FUNCTION drop_collection(text) IS 'drops a collection; false if there is none of that name';
COMMENT ON FUNCTION create_index(text, bson, bson) IS
    'creates an index {"field": 1, "other.field": -1}; options: name, unique, sparse, hidden, background, partialFilterExpression, expireAfterSeconds, collation, wildcardProjection, bits, min, max, 2dsphereIndexVersion';
COMMENT ON FUNCTION drop_index(text, text) IS 'drops an index by its name';
COMMENT ON FUNCTION list_indexes(text) IS 'the indexes of a collection, as MongoDB lists them';
COMMENT ON FUNCTION list_collections() IS 'the tables that are collections';

CREATE FUNCTION insert_one(collection text, document bson) RETURNS bson_value LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_insert_one';
CREATE FUNCTION insert_many(collection text, documents bson[]) RETURNS int8 LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_insert_many';
CREATE FUNCTION insert_many(collection text, documents text) RETURNS int8 LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_insert_json';
CREATE FUNCTION update_one(collection text, filter bson, update bson_value, options bson DEFAULT '{}') RETURNS bson LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_update_one';
CREATE FUNCTION update_many(collection text, filter bson, update bson_value, options bson DEFAULT '{}') RETURNS bson LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_update_many';
CREATE FUNCTION delete_one(collection text, filter bson, options bson DEFAULT '{}') RETURNS int8 LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_delete_one';
CREATE FUNCTION delete_many(collection text, filter bson, options bson DEFAULT '{}') RETURNS int8 LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_delete_many';
COMMENT ON FUNCTION insert_one(text, bson) IS 'inserts a document and returns its _id';
COMMENT ON FUNCTION insert_many(text, bson[]) IS 'inserts documents, all or none, and returns their number';
COMMENT ON FUNCTION insert_many(text, text) IS 'the same of a JSON array, or of JSON documents one after the other';
COMMENT ON FUNCTION update_one(text, bson, bson_value, bson) IS 'changes the first document found that matches, by operators, a new document or an array of stages; options: upsert, hint, collation, arrayFilters';
COMMENT ON FUNCTION update_many(text, bson, bson_value, bson) IS 'changes the documents that match, by operators or an array of stages; options: upsert, hint, collation, arrayFilters';
COMMENT ON FUNCTION delete_one(text, bson, bson) IS 'deletes the first document found that matches and returns 1, or 0; options: hint, collation';
COMMENT ON FUNCTION delete_many(text, bson, bson) IS 'deletes the documents that match and returns their number; options: hint, collation';

CREATE FUNCTION find_support(internal) RETURNS internal LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'treedb_find_support';
COMMENT ON FUNCTION find_support(internal) IS 'tells the planner how many documents find and aggregate return, and what they and count cost';
CREATE FUNCTION find(collection text, filter bson DEFAULT '{}', options bson DEFAULT '{}') RETURNS SETOF bson LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 1000 ROWS 100 SUPPORT treedb.find_support AS 'MODULE_PATHNAME', 'treedb_find';
CREATE FUNCTION aggregate(collection text, pipeline bson_value, options bson DEFAULT '{}') RETURNS SETOF bson LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 1000 ROWS 100 SUPPORT treedb.find_support AS 'MODULE_PATHNAME', 'treedb_aggregate';
COMMENT ON FUNCTION aggregate(text, bson_value, bson) IS 'the documents that a pipeline gives: an array of stages; options: hint, collation, let, maxTimeMS, allowDiskUse';
-- Not with one argument: count(text) would be found in place of the aggregate.
CREATE FUNCTION treedb.count(collection text, filter bson, options bson DEFAULT '{}') RETURNS int8 LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 1000 SUPPORT treedb.find_support AS 'MODULE_PATHNAME', 'treedb_count';
COMMENT ON FUNCTION find(text, bson, bson) IS 'the documents that match; options: sort, projection, skip, limit, hint, collation';
COMMENT ON FUNCTION treedb.count(text, bson, bson) IS 'how many documents match; options: skip, limit, hint, collation';

-- Operators of jsonb ---------------------------------------------------------------------------------------------

CREATE FUNCTION contains(document bson, part bson) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_contains';
CREATE FUNCTION contained(part bson, document bson) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_contained';
CREATE FUNCTION has_field(document bson, name text) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_exists';
CREATE FUNCTION has_any_field(document bson, names text[]) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_exists_any';
CREATE FUNCTION has_all_fields(document bson, names text[]) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_exists_all';
CREATE FUNCTION get_path(document bson, path text[]) RETURNS bson_value LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_get_path';
CREATE FUNCTION get_path_text(document bson, path text[]) RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_get_path_text';
CREATE OPERATOR @> (LEFTARG = bson, RIGHTARG = bson, FUNCTION = contains, COMMUTATOR = <@, RESTRICT = matchsel, JOIN = matchjoinsel);
CREATE OPERATOR <@ (LEFTARG = bson, RIGHTARG = bson, FUNCTION = contained, COMMUTATOR = @>, RESTRICT = matchsel, JOIN = matchjoinsel);
CREATE OPERATOR ? (LEFTARG = bson, RIGHTARG = text, FUNCTION = has_field, RESTRICT = matchsel, JOIN = matchjoinsel);
CREATE OPERATOR ?| (LEFTARG = bson, RIGHTARG = text[], FUNCTION = has_any_field, RESTRICT = matchsel, JOIN = matchjoinsel);
CREATE OPERATOR ?& (LEFTARG = bson, RIGHTARG = text[], FUNCTION = has_all_fields, RESTRICT = matchsel, JOIN = matchjoinsel);
CREATE OPERATOR #> (LEFTARG = bson, RIGHTARG = text[], FUNCTION = get_path);
CREATE OPERATOR #>> (LEFTARG = bson, RIGHTARG = text[], FUNCTION = get_path_text);
-- What the planner searches indexes for where a query has one of these operators.
CREATE FUNCTION contains_filter(part bson) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_contains_filter';
CREATE FUNCTION has_field_filter(name text) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_has_field_filter';
CREATE FUNCTION has_any_field_filter(names text[]) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_has_any_field_filter';
CREATE FUNCTION has_all_fields_filter(names text[]) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_has_all_fields_filter';
CREATE FUNCTION values_filter(path text, comparisons text, wanted bson_value[]) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_values_filter';
CREATE FUNCTION any_value_filter(path text, wanted bson_value[]) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_any_value_filter';
CREATE FUNCTION both_filters(one bson, other bson) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_both_filters';
COMMENT ON FUNCTION contains(bson, bson) IS 'whether a document has all fields of another, as jsonb says';
COMMENT ON FUNCTION get_path(bson, text[]) IS 'the value at a path of names of fields and positions in arrays, or NULL';

-- More of collections --------------------------------------------------------------------------------------------

CREATE FUNCTION rename_collection(from_name text, to_name text, drop_target bool DEFAULT false) RETURNS regclass LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_rename_collection';
CREATE FUNCTION coll_mod(collection text, options bson) RETURNS bson LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_coll_mod';
CREATE FUNCTION collection_options(collection text) RETURNS bson LANGUAGE c STABLE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'treedb_collection_options';
CREATE FUNCTION validate_document() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'treedb_validate_document';
COMMENT ON FUNCTION rename_collection(text, text, bool) IS 'renames a collection and its indexes; with drop_target a collection of the new name is dropped';
COMMENT ON FUNCTION coll_mod(text, bson) IS 'changes options of a collection: validator, validationLevel, validationAction, index (hidden, expireAfterSeconds)';
COMMENT ON FUNCTION collection_options(text) IS 'the validator of a collection, with its level and action';
COMMENT ON FUNCTION validate_document() IS 'refuses documents that the validator of a collection does not accept';

CREATE FUNCTION replace_one(collection text, filter bson, replacement bson, options bson DEFAULT '{}') RETURNS bson LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_replace_one';
CREATE FUNCTION find_one_and_update(collection text, filter bson, update bson_value, options bson DEFAULT '{}') RETURNS bson LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_find_one_and_update';
CREATE FUNCTION find_one_and_replace(collection text, filter bson, replacement bson, options bson DEFAULT '{}') RETURNS bson LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_find_one_and_replace';
CREATE FUNCTION find_one_and_delete(collection text, filter bson, options bson DEFAULT '{}') RETURNS bson LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_find_one_and_delete';
CREATE FUNCTION bulk_write(collection text, operations bson_value, options bson DEFAULT '{}') RETURNS bson LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_bulk_write';
COMMENT ON FUNCTION replace_one(text, bson, bson, bson) IS 'replaces the first document found that matches; options: upsert, hint, collation';
COMMENT ON FUNCTION find_one_and_update(text, bson, bson_value, bson) IS
    'updates the first document that matches and returns it; options: sort, projection, hint, collation, upsert, returnDocument, arrayFilters';
COMMENT ON FUNCTION find_one_and_replace(text, bson, bson, bson) IS
    'replaces the first document that matches and returns it; options: sort, projection, hint, collation, upsert, returnDocument';
COMMENT ON FUNCTION find_one_and_delete(text, bson, bson) IS
    'deletes the first document that matches and returns it; options: sort, projection, hint, collation';
COMMENT ON FUNCTION bulk_write(text, bson_value, bson) IS
    'carries out an array of operations, each of which may fail by itself, and returns what was done; options: ordered';

CREATE FUNCTION treedb.distinct(collection text, field text, filter bson DEFAULT '{}', options bson DEFAULT '{}') RETURNS SETOF bson_value LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 1000 ROWS 100 AS 'MODULE_PATHNAME', 'treedb_distinct';
CREATE FUNCTION treedb.explain(command bson, verbosity text DEFAULT 'executionStats') RETURNS bson LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED COST 1000 AS 'MODULE_PATHNAME', 'treedb_explain';
COMMENT ON FUNCTION treedb.distinct(text, text, bson, bson) IS 'the distinct values of a field in the documents that match; options: hint, collation';
COMMENT ON FUNCTION treedb.explain(bson, text) IS
    'the plan of a command {"find": "collection", "filter": {..}}, and the work it took; also count, distinct, aggregate, update, delete, findAndModify';

CREATE FUNCTION expire(collection text) RETURNS int8 LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_expire';
CREATE FUNCTION expire(OUT collection regclass, OUT deleted int8) RETURNS SETOF record LANGUAGE sql VOLATILE PARALLEL UNSAFE AS $$
    SELECT c, treedb.expire(c::pg_catalog.text)
    FROM treedb.list_collections() c JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) c
    WHERE pg_catalog.has_schema_privilege(t.relnamespace, 'USAGE')
        AND pg_catalog.has_table_privilege(c, 'SELECT') AND pg_catalog.has_table_privilege(c, 'DELETE')
        AND NOT pg_catalog.row_security_active(c) AND NOT pg_catalog.pg_is_other_temp_schema(t.relnamespace)
        AND EXISTS (SELECT FROM treedb.list_indexes(c::pg_catalog.text) i WHERE i OPERATOR(treedb.?) 'expireAfterSeconds')
$$;
COMMENT ON FUNCTION expire(text) IS 'deletes the documents that have expired by the TTL indexes of a collection and returns their number';
COMMENT ON FUNCTION expire() IS 'does so for every collection with a TTL index from which the caller may delete';

-- Statistics -----------------------------------------------------------------------------------------------------

CREATE VIEW stat_collections AS
    SELECT n.nspname AS schema, c.relname AS collection, m.amname AS access_method,
        CASE WHEN c.reltuples OPERATOR(pg_catalog.>=) 0 THEN c.reltuples::pg_catalog.int8 END AS rows_estimate,
        pg_catalog.pg_relation_size(c.oid) AS table_bytes,
        pg_catalog.pg_indexes_size(c.oid) AS index_bytes,
        pg_catalog.pg_total_relation_size(c.oid) AS total_bytes,
        s.seq_scan, s.seq_tup_read, s.idx_scan, s.idx_tup_fetch,
        s.n_tup_ins, s.n_tup_upd, s.n_tup_del, s.n_tup_hot_upd, s.n_live_tup, s.n_dead_tup,
        s.last_vacuum, s.last_autovacuum, s.last_analyze, s.last_autoanalyze
    FROM treedb.list_collections() l
        JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l
        JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
        JOIN pg_catalog.pg_am m ON m.oid OPERATOR(pg_catalog.=) c.relam
        LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid OPERATOR(pg_catalog.=) c.oid;
COMMENT ON VIEW stat_collections IS 'sizes of collections, and what was done to them since their statistics were reset';

CREATE VIEW stat_indexes AS
    SELECT n.nspname AS schema, c.relname AS collection, i.relname AS index, m.amname AS access_method,
        x.indisunique OR x.indisexclusion AS is_unique, x.indisvalid AS is_valid,
        CASE WHEN i.reltuples OPERATOR(pg_catalog.>=) 0 THEN i.reltuples::pg_catalog.int8 END AS entries_estimate,
        pg_catalog.pg_relation_size(i.oid) AS index_bytes,
        s.idx_scan, s.idx_tup_read, s.idx_tup_fetch
    FROM treedb.list_collections() l
        JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l
        JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
        JOIN pg_catalog.pg_index x ON x.indrelid OPERATOR(pg_catalog.=) c.oid
        JOIN pg_catalog.pg_class i ON i.oid OPERATOR(pg_catalog.=) x.indexrelid
        JOIN pg_catalog.pg_am m ON m.oid OPERATOR(pg_catalog.=) i.relam
        LEFT JOIN pg_catalog.pg_stat_all_indexes s ON s.indexrelid OPERATOR(pg_catalog.=) i.oid;
COMMENT ON VIEW stat_indexes IS 'sizes of the indexes of collections, and how they were used since their statistics were reset';
GRANT SELECT ON stat_collections, stat_indexes TO PUBLIC;

-- Vectors --------------------------------------------------------------------------------------------------------

CREATE FUNCTION hnsw_handler(internal) RETURNS index_am_handler
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'treedb_hnsw_handler';

CREATE ACCESS METHOD treedb_hnsw TYPE INDEX HANDLER hnsw_handler;
COMMENT ON ACCESS METHOD treedb_hnsw IS 'navigable graph of vectors';

CREATE FUNCTION l2_distance(float4[], float4[]) RETURNS float8 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_l2_distance';
CREATE FUNCTION negative_inner_product(float4[], float4[]) RETURNS float8 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_negative_inner_product';
CREATE FUNCTION cosine_distance(float4[], float4[]) RETURNS float8 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_cosine_distance';
CREATE FUNCTION l1_distance(float4[], float4[]) RETURNS float8 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_l1_distance';
CREATE FUNCTION hamming_distance(bit, bit) RETURNS float8 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_hamming_distance';
CREATE FUNCTION jaccard_distance(bit, bit) RETURNS float8 LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_jaccard_distance';

CREATE OPERATOR <-> (LEFTARG = float4[], RIGHTARG = float4[], FUNCTION = l2_distance, COMMUTATOR = <->);
CREATE OPERATOR <#> (LEFTARG = float4[], RIGHTARG = float4[], FUNCTION = negative_inner_product, COMMUTATOR = <#>);
CREATE OPERATOR <=> (LEFTARG = float4[], RIGHTARG = float4[], FUNCTION = cosine_distance, COMMUTATOR = <=>);
CREATE OPERATOR <+> (LEFTARG = float4[], RIGHTARG = float4[], FUNCTION = l1_distance, COMMUTATOR = <+>);
CREATE OPERATOR <~> (LEFTARG = bit, RIGHTARG = bit, FUNCTION = hamming_distance, COMMUTATOR = <~>);
CREATE OPERATOR <%> (LEFTARG = bit, RIGHTARG = bit, FUNCTION = jaccard_distance, COMMUTATOR = <%>);

-- Support function 1 says of which kind an operator class is: its metric, and how the column's type stores a vector.
CREATE FUNCTION kind_real_l2() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_real_l2';
CREATE FUNCTION kind_real_ip() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_real_ip';
CREATE FUNCTION kind_real_cosine() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_real_cosine';
CREATE FUNCTION kind_real_l1() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_real_l1';
CREATE FUNCTION kind_vector_l2() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_vector_l2';
CREATE FUNCTION kind_vector_ip() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_vector_ip';
CREATE FUNCTION kind_vector_cosine() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_vector_cosine';
CREATE FUNCTION kind_vector_l1() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_vector_l1';
CREATE FUNCTION kind_halfvec_l2() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_halfvec_l2';
CREATE FUNCTION kind_halfvec_ip() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_halfvec_ip';
CREATE FUNCTION kind_halfvec_cosine() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_halfvec_cosine';
CREATE FUNCTION kind_halfvec_l1() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_halfvec_l1';
CREATE FUNCTION kind_bit_hamming() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_bit_hamming';
CREATE FUNCTION kind_bit_jaccard() RETURNS int4 LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_kind_bit_jaccard';

CREATE OPERATOR FAMILY real_l2_ops USING treedb_hnsw;
CREATE OPERATOR CLASS real_l2_ops DEFAULT FOR TYPE float4[] USING treedb_hnsw FAMILY real_l2_ops AS
    OPERATOR 1 <-> (float4[], float4[]) FOR ORDER BY pg_catalog.float_ops, FUNCTION 1 kind_real_l2();
CREATE OPERATOR FAMILY real_ip_ops USING treedb_hnsw;
CREATE OPERATOR CLASS real_ip_ops FOR TYPE float4[] USING treedb_hnsw FAMILY real_ip_ops AS
    OPERATOR 1 <#> (float4[], float4[]) FOR ORDER BY pg_catalog.float_ops, FUNCTION 1 kind_real_ip();
CREATE OPERATOR FAMILY real_cosine_ops USING treedb_hnsw;
CREATE OPERATOR CLASS real_cosine_ops FOR TYPE float4[] USING treedb_hnsw FAMILY real_cosine_ops AS
    OPERATOR 1 <=> (float4[], float4[]) FOR ORDER BY pg_catalog.float_ops, FUNCTION 1 kind_real_cosine();
CREATE OPERATOR FAMILY real_l1_ops USING treedb_hnsw;
CREATE OPERATOR CLASS real_l1_ops FOR TYPE float4[] USING treedb_hnsw FAMILY real_l1_ops AS
    OPERATOR 1 <+> (float4[], float4[]) FOR ORDER BY pg_catalog.float_ops, FUNCTION 1 kind_real_l1();
CREATE OPERATOR FAMILY bit_hamming_ops USING treedb_hnsw;
CREATE OPERATOR CLASS bit_hamming_ops FOR TYPE bit USING treedb_hnsw FAMILY bit_hamming_ops AS
    OPERATOR 1 <~> (bit, bit) FOR ORDER BY pg_catalog.float_ops, FUNCTION 1 kind_bit_hamming();
CREATE OPERATOR FAMILY bit_jaccard_ops USING treedb_hnsw;
CREATE OPERATOR CLASS bit_jaccard_ops FOR TYPE bit USING treedb_hnsw FAMILY bit_jaccard_ops AS
    OPERATOR 1 <%> (bit, bit) FOR ORDER BY pg_catalog.float_ops, FUNCTION 1 kind_bit_jaccard();

-- pgvector's types, where that extension is installed: operator classes of the same names as those of its own hnsw, in its
-- schema, so that CREATE INDEX changes in nothing but the name of the access method.
CREATE FUNCTION enable_pgvector() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place name;
    class record;
BEGIN
    SELECT n.nspname INTO place FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector';
    IF place IS NULL THEN
        RAISE EXCEPTION 'the extension vector is not installed' USING ERRCODE = 'undefined_object', HINT = 'CREATE EXTENSION vector;';
    END IF;
    FOR class IN
        SELECT t.typname || '_' || m.name || '_ops' AS name, t.oid::regtype AS type, 'kind_' || t.typname || '_' || m.name AS kind, m.operator
        FROM pg_namespace n, pg_type t JOIN pg_namespace types ON types.oid = t.typnamespace,
            (VALUES ('l2', '<->'), ('ip', '<#>'), ('cosine', '<=>'), ('l1', '<+>'), ('hamming', '<~>'), ('jaccard', '<%>')) AS m(name, operator)
        WHERE n.nspname = place
            AND (types.nspname = place AND t.typname IN ('vector', 'halfvec') OR types.nspname = 'pg_catalog' AND t.typname = 'bit')
            -- versions before 0.7 have no L1 distance, and none of bits
            AND EXISTS (
                SELECT FROM pg_operator o
                WHERE o.oprname = m.operator AND o.oprnamespace = n.oid AND o.oprleft = t.oid AND o.oprright = t.oid)
            AND NOT EXISTS (
                SELECT FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
                WHERE a.amname = 'treedb_hnsw' AND c.opcnamespace = n.oid AND c.opcname = t.typname || '_' || m.name || '_ops')
    LOOP
        EXECUTE format(
            'CREATE OPERATOR CLASS %1$I.%2$I FOR TYPE %3$s USING treedb_hnsw AS '
            'OPERATOR 1 %1$I.%4$s (%3$s, %3$s) FOR ORDER BY float_ops, FUNCTION 1 treedb.%5$I()',
            place, class.name, class.type, class.operator, class.kind);
    END LOOP;
END $$;
COMMENT ON FUNCTION enable_pgvector() IS 'makes operator classes USING treedb_hnsw for the types and operators of pgvector';
COMMENT ON FUNCTION l2_distance(float4[], float4[]) IS 'the Euclidean distance of two vectors: <->';
COMMENT ON FUNCTION negative_inner_product(float4[], float4[]) IS 'the inner product of two vectors, negated: <#>';
COMMENT ON FUNCTION cosine_distance(float4[], float4[]) IS '1 minus the cosine of the angle between two vectors: <=>';
COMMENT ON FUNCTION l1_distance(float4[], float4[]) IS 'the sum of absolute differences of two vectors: <+>';
COMMENT ON FUNCTION hamming_distance(bit, bit) IS 'how many bits of two vectors of bits differ: <~>';
COMMENT ON FUNCTION jaccard_distance(bit, bit) IS '1 minus the part of the bits set in either of two vectors of bits that is set in both: <%>';

-- Vectors in documents -------------------------------------------------------------------------------------------

CREATE FUNCTION vector_at(document bson, path text, dimensions int4) RETURNS float4[] LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'treedb_vector_at';
CREATE FUNCTION bits_at(document bson, path text, bits int4) RETURNS varbit LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'treedb_bits_at';
CREATE FUNCTION create_search_index(collection text, definition bson, options bson DEFAULT '{}') RETURNS text LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_create_search_index';
CREATE FUNCTION list_search_indexes(collection text) RETURNS SETOF bson LANGUAGE c STABLE STRICT PARALLEL RESTRICTED ROWS 10 AS 'MODULE_PATHNAME', 'treedb_list_search_indexes';
CREATE FUNCTION update_search_index(collection text, name text, definition bson) RETURNS void LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_update_search_index';
CREATE FUNCTION drop_search_index(collection text, name text) RETURNS void LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'treedb_drop_search_index';
CREATE FUNCTION vector_search(collection text, index text, vector float4[], "limit" int8, filter bson DEFAULT '{}', options bson DEFAULT '{}',
        OUT document bson, OUT distance float8, OUT score float8) RETURNS SETOF record
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 1000 ROWS 10 AS 'MODULE_PATHNAME', 'treedb_vector_search';
COMMENT ON FUNCTION vector_at(bson, text, int4) IS 'the vector of so many dimensions at a path of a document, several as an array of two dimensions, or NULL';
COMMENT ON FUNCTION bits_at(bson, text, int4) IS 'the vector of so many bits at a path of a document, or NULL';
COMMENT ON FUNCTION create_search_index(text, bson, bson) IS
    'creates an index of vectors, {"fields": [{"type": "vector", "path": "embedding", "numDimensions": 384, "similarity": "cosine"}]}; option: name';
COMMENT ON FUNCTION list_search_indexes(text) IS 'the indexes of vectors of a collection';
COMMENT ON FUNCTION update_search_index(text, text, bson) IS 'builds an index of vectors anew, with another definition';
COMMENT ON FUNCTION drop_search_index(text, text) IS 'drops an index of vectors by its name';
COMMENT ON FUNCTION vector_search(text, text, float4[], int8, bson, bson) IS
    'the documents with the nearest vectors by an index, named by its name or path, among those that match; options: numCandidates, exact, within, projection, collation';
