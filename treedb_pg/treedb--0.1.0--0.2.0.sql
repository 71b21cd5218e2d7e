-- From version 0.1.0 to 0.2.0 of the extension. scripts/pg/versions.py compares the result with what treedb.sql creates.
\echo Use "ALTER EXTENSION treedb UPDATE" to load this file. \quit

-- What treedb.control says, which an update does not look at.
COMMENT ON EXTENSION treedb IS 'MongoDB''s documents, filters and pipelines, and indexes of them and of vectors';

-- Every name in the body has its schema.
CREATE OR REPLACE FUNCTION treedb.index_pages(index regclass, OUT block bigint, OUT kind text, OUT level int, OUT entries int,
        OUT appended int, OUT dead int, OUT free_bytes int, OUT next bigint) RETURNS SETOF record
    LANGUAGE sql STRICT AS $$
        SELECT page.* FROM treedb.index_page_objects(index) object,
            pg_catalog.jsonb_to_record(object::pg_catalog.jsonb) AS page(block pg_catalog.int8, kind pg_catalog.text,
                level pg_catalog.int4, entries pg_catalog.int4, appended pg_catalog.int4, dead pg_catalog.int4,
                free_bytes pg_catalog.int4, next pg_catalog.int8)
    $$;

-- What an exclusion constraint does not allow of two documents makes an index unique.
CREATE FUNCTION keyset_overlaps(keyset, keyset) RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_keyset_overlaps';
CREATE OPERATOR && (LEFTARG = keyset, RIGHTARG = keyset, FUNCTION = keyset_overlaps, COMMUTATOR = &&, RESTRICT = contsel, JOIN = contjoinsel);
ALTER OPERATOR FAMILY keyset_ops USING treedb_btree ADD OPERATOR 6 && (keyset, keyset);

CREATE OR REPLACE VIEW stat_indexes AS
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

COMMENT ON FUNCTION create_index(text, bson, bson) IS
    'creates an index {"field": 1, "other.field": -1}; options: name, unique, sparse, hidden, background, partialFilterExpression, expireAfterSeconds, collation, wildcardProjection, bits, min, max, 2dsphereIndexVersion';
COMMENT ON FUNCTION aggregate(text, bson_value, bson) IS 'the documents that a pipeline gives: an array of stages; options: hint, collation, let, maxTimeMS, allowDiskUse';
COMMENT ON FUNCTION drop_index(text, text) IS 'drops an index by its name';
COMMENT ON FUNCTION list_indexes(text) IS 'the indexes of a collection, as MongoDB lists them';
COMMENT ON FUNCTION unique_key(bson, bson) IS 'the same for unique indexes that version 0.1.0 made';

-- ANALYZE collects statistics of the values in documents.
CREATE FUNCTION bson_analyze(internal) RETURNS bool LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_bson_analyze';
COMMENT ON FUNCTION bson_analyze(internal) IS 'collects statistics of the values in documents, for ANALYZE';
ALTER TYPE bson SET (ANALYZE = bson_analyze);
CREATE FUNCTION matchjoinsel(internal, oid, internal, int2, internal) RETURNS float8 LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_matchjoinsel';
COMMENT ON FUNCTION matchjoinsel(internal, oid, internal, int2, internal) IS 'the same where the filter comes from another table';
ALTER OPERATOR @@ (bson, bson) SET (JOIN = matchjoinsel);

-- The planner is told what a count takes.
ALTER FUNCTION treedb.count(text, bson, bson) SUPPORT find_support;
COMMENT ON FUNCTION find_support(internal) IS 'tells the planner how many documents find and aggregate return, and what they and count cost';

-- Indexes are searched for documents that contain others or have fields.
CREATE FUNCTION contains_filter(part bson) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_contains_filter';
CREATE FUNCTION has_field_filter(name text) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_has_field_filter';
CREATE FUNCTION has_any_field_filter(names text[]) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_has_any_field_filter';
CREATE FUNCTION has_all_fields_filter(names text[]) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_has_all_fields_filter';
-- And for values that are known when a statement is executed.
CREATE FUNCTION values_filter(path text, comparisons text, wanted bson_value[]) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_values_filter';
CREATE FUNCTION any_value_filter(path text, wanted bson_value[]) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_any_value_filter';
CREATE FUNCTION both_filters(one bson, other bson) RETURNS bson LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_both_filters';
ALTER OPERATOR @> (bson, bson) SET (RESTRICT = matchsel, JOIN = matchjoinsel);
ALTER OPERATOR <@ (bson, bson) SET (RESTRICT = matchsel, JOIN = matchjoinsel);
ALTER OPERATOR ? (bson, text) SET (RESTRICT = matchsel, JOIN = matchjoinsel);
ALTER OPERATOR ?| (bson, text[]) SET (RESTRICT = matchsel, JOIN = matchjoinsel);
ALTER OPERATOR ?& (bson, text[]) SET (RESTRICT = matchsel, JOIN = matchjoinsel);

-- Comparisons of values are estimated by the statistics of documents.
CREATE FUNCTION valuesel(internal, oid, internal, int4) RETURNS float8 LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_valuesel';
COMMENT ON FUNCTION valuesel(internal, oid, internal, int4) IS 'tells the planner of how many rows a comparison of values is true';
CREATE FUNCTION valuejoinsel(internal, oid, internal, int2, internal) RETURNS float8 LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'treedb_valuejoinsel';
COMMENT ON FUNCTION valuejoinsel(internal, oid, internal, int2, internal) IS 'the same where the values come from two tables';
ALTER OPERATOR < (bson_value, bson_value) SET (RESTRICT = valuesel, JOIN = valuejoinsel);
ALTER OPERATOR <= (bson_value, bson_value) SET (RESTRICT = valuesel, JOIN = valuejoinsel);
ALTER OPERATOR = (bson_value, bson_value) SET (RESTRICT = valuesel, JOIN = valuejoinsel);
ALTER OPERATOR <> (bson_value, bson_value) SET (RESTRICT = valuesel, JOIN = valuejoinsel);
ALTER OPERATOR >= (bson_value, bson_value) SET (RESTRICT = valuesel, JOIN = valuejoinsel);
ALTER OPERATOR > (bson_value, bson_value) SET (RESTRICT = valuesel, JOIN = valuejoinsel);

-- Vectors: an access method for their indexes.

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
COMMENT ON FUNCTION treedb.check(regclass, bool) IS
    'what is wrong with an index of treedb, or with those of a table, compared with its rows unless heapallindexed is false; no rows: nothing';

-- Vectors in documents.
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
