//! Collections: tables with documents in a column `doc`, read and written as MongoDB's collections are.
//!
//! | module | what it is |
//! |---|---|
//! | [`table`] | a table by name: is it a collection, may the caller do that |
//! | [`catalog_cache`] | what this backend has read of tables and their indexes |
//! | [`index`] | its indexes that queries can use, as the engine knows indexes |
//! | [`search_index`] | its indexes of vectors |
//! | [`reader`] | [`treedb_query::access::Source`]: rows and index ranges under a snapshot |
//! | [`writer`] | [`treedb_query::access::Sink`]: insert, lock and change rows through the executor |
//! | [`identity`] | the trigger that gives every document its `_id` |
//! | [`validator`] | the trigger that checks documents, and its options |
//! | [`options`] | the last argument of the SQL functions |
//! | [`find`], [`distinct`], [`aggregate`], [`vector_search`], [`explain`] | the SQL functions that read |
//! | [`parallel_pipeline`] | pipelines whose `$group` several processes make |
//! | [`write`], [`find_and_modify`], [`bulk`] | those that write |
//! | [`manage`], [`manage_index`], [`manage_search_index`] | those that create and change collections and indexes |
//! | [`find_stream`], [`aggregate_stream`] | `find` and `aggregate` in FROM, one document after the other |
//! | [`count_stream`] | `count` in FROM |
//! | [`point_scan`] | finds by one key of an index |
//! | [`filter_rows`] | rows of a table in FROM that `WHERE doc @@ filter` selects, by its indexes |
//! | [`ordered_rows`] | the same in the order of a value of their documents |
//! | [`shown_plan`] | how they are searched for, as EXPLAIN shows it |
//! | [`estimate`] | what executing them is expected to take |
//! | [`answers`] | such estimates that were made before, as long as they hold |
//! | [`statistics`] | how values in documents are distributed: what ANALYZE collects |
//! | [`spill`] | memory and temporary files of sorts |
//!
//! A collection is a plain table (with the access method that `treedb.table_access_method` names) with a column `doc` of
//! type `treedb.bson`, a trigger that adds missing `_id`s, and a unique index of the server's own btree on
//! `(doc -> '_id')`. So COPY, INSERT, GRANT, TRUNCATE, DROP and pg_dump work as on any table. The functions run as whoever
//! calls them. The functions refuse tables with policies that decide which
//! rows are visible: `WHERE doc @@ filter` applies them.

mod aggregate;
mod aggregate_stream;
mod answers;
mod bulk;
mod catalog_cache;
mod count_stream;
mod distinct;
mod estimate;
mod explain;
mod filter_rows;
mod find;
mod find_and_modify;
mod find_stream;
mod identity;
mod index;
mod manage;
mod manage_index;
mod manage_search_index;
mod options;
mod ordered_rows;
mod parallel_pipeline;
mod point_scan;
mod reader;
mod search_index;
mod shown_plan;
mod spill;
mod statistics;
mod table;
mod validator;
mod vector_search;
mod write;
mod writer;

pub(crate) use aggregate::STAGE_MEM;
pub(crate) use aggregate_stream::AggregateStream;
pub(crate) use catalog_cache::changed as forget_changed;
pub(crate) use count_stream::CountStream;
pub(crate) use estimate::ASKED_INDEXES;
pub(crate) use filter_rows::FilterRows;
pub(crate) use find_stream::FindStream;
pub(crate) use manage::TABLE_ACCESS_METHOD;
pub(crate) use reader::ESTIMATED as ESTIMATED_SEARCHES;
