-- The extension's SQL objects. Every function names a symbol of treedb_pg.so; scripts/pg_symbols.sh checks that.
\echo Use "CREATE EXTENSION treedb" to load this file. \quit

-- Tables ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION table_handler(internal) RETURNS table_am_handler
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'treedb_table_handler';

CREATE ACCESS METHOD treedb TYPE TABLE HANDLER table_handler;
COMMENT ON ACCESS METHOD treedb IS 'rows in heap page format, read by TreeDB';
