//! The PostgreSQL extension `treedb`: the engine's documents, filters and trees inside a Postgres database.
//!
//! | module | what it is |
//! |---|---|
//! | [`shim`] | all `unsafe` code: safe types around the server's functions and structures, and its callbacks |
//! | [`types`] | the SQL types: `bson`, `bson_value`, `keyset` |
//! | [`table_am`] | access method `treedb` for tables |
//! | [`index_am`] | access method `treedb_btree` for indexes |
//! | [`vector_am`] | access method `treedb_hnsw` for indexes |
//! | [`collection`] | tables of documents as MongoDB's collections: find, update, indexes |
//! | [`planner`] | `find` and `aggregate` as parts of the server's plans |
//!
//! The SQL side is `treedb.sql`, written by hand. `scripts/pg_symbols.sh` checks that every function it names
//! is in the library, the compiler that it declares the types that the code reads and returns ([`shim::declared`]).
//! Everything lies in relation files, through the buffer manager and the server's WAL: crash recovery, replicas,
//! backups, DROP and TRUNCATE are the server's own.
//!
//! The server calls in through [`shim::function::pg_function`], which defines one SQL-callable function, and through
//! the callbacks of [`shim::index_method`] and [`shim::table_method`]. A Rust panic becomes an SQL error there, and an
//! SQL error raised by the server's code runs Rust destructors on its way out.

// `unsafe` is for `shim`, and for the entry points that its macro `pg_function` writes.
#![deny(unsafe_code)]

pgrx::pg_module_magic!();

// `#[pg_guard]` on a block of declared C functions looks for this name at the root.
pub(crate) use pgrx::pg_sys::ffi;

mod collection;
mod index_am;
mod pages;
mod planner;
#[allow(unsafe_code)]
mod shim;
mod table_am;
mod types;
mod vector_am;
