//! The PostgreSQL extension `treedb`: the engine's documents, filters and trees inside a Postgres database.
//!
//! | module | what it is |
//! |---|---|
//! | [`shim`] | the only way from here into the server's C functions: calls, pages, buffers, errors |
//! | [`types`] | the SQL types: `bson`, `bson_value`, `keyset` |
//! | [`table_am`] | access method `treedb` for tables |
//! | [`index_am`] | access method `treedb_btree` for indexes |
//! | [`collection`] | tables of documents as MongoDB's collections: find, update, indexes |
//!
//! The SQL side is `treedb--0.1.0.sql`, written by hand; `scripts/pg_symbols.sh` checks that every function it names
//! is in the library. Everything lies in relation files, through the buffer manager and the server's WAL: crash
//! recovery, replicas, backups, DROP and TRUNCATE are the server's own.
//!
//! How functions get here: [`shim::function::pg_function`] defines one SQL-callable function with its `pg_finfo_`
//! record. A Rust panic in one becomes an SQL error, and an SQL error raised by the server's code runs Rust
//! destructors on its way out.

// Every function here lies between C and Rust: "unsafe" says nothing more than "called by the server".
#![allow(clippy::missing_safety_doc)]

pgrx::pg_module_magic!();

// `#[pg_guard]` on a block of declared C functions looks for this name at the root.
pub(crate) use pgrx::pg_sys::ffi;

mod collection;
mod index_am;
mod shim;
mod table_am;
mod types;
