-- From version 0.1.0 to 0.2.0 of the extension. scripts/pg/versions.py compares the result with what treedb.sql creates.
\echo Use "ALTER EXTENSION treedb UPDATE" to load this file. \quit

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
