//! An embedded document database with the API of the `mongodb` crate, in a directory of its own.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use treedb_core::{Database, bson::doc};
//!
//! #[derive(Debug, Serialize, Deserialize)]
//! struct Film {
//!     title: String,
//!     year: i32,
//! }
//!
//! # fn main() -> treedb_core::Result<()> {
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! # let path = dir.path();
//! let db = Database::open(path)?;
//! let films = db.collection::<Film>("films");
//! films.insert_many([
//!     Film { title: "Alien".into(), year: 1979 },
//!     Film { title: "Heat".into(), year: 1995 },
//! ]).run()?;
//! films.create_index(doc! { "year": 1 }).run()?;
//!
//! for film in films.find(doc! { "year": { "$gt": 1990 } }).sort(doc! { "year": -1 }).run()? {
//!     println!("{}", film?.title);
//! }
//! films.update_one(doc! { "title": "Heat" }, doc! { "$set": { "year": 1996 } }).run()?;
//! # assert_eq!(films.find_one(doc! { "title": "Heat" }).run()?.map(|film| film.year), Some(1996));
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | open a database, run a transaction, create a collection with options | [`Database`] |
//! | insert, find, update, delete, aggregate, index, watch | [`Collection`] |
//! | search for the nearest vectors | [`Collection::create_search_index`], [`Collection::vector_search`] |
//! | read answers, with or without copying | [`Cursor`], [`Find::for_each`] |
//! | copy a database while it is used | [`Database::backup_to`] |
//! | commit several statements at once | [`Database::transaction`], [`Transaction`] |
//! | handle errors | [`Error`], [`ErrorCode`] |
//!
//! An action (`find`, `insert_one` ..) is put together by its methods and carried out by `run()`. Documents are given as
//! `doc!`, `rawdoc!`, values of your own types, owned or borrowed. Calls block the thread: from async code, run them
//! with `spawn_blocking`, as the guide `docs/library.md` in the repository shows.
//!
//! Below this package: `treedb_collections` (catalog, rows, indexes, change log; raw documents), `treedb_query`
//! (filters, updates, plans, pipelines), `treedb_storage` (the key/value store), `treedb_formats`.

mod aggregate;
mod collection;
mod convert;
mod cursor;
mod database;
mod delete;
mod error;
mod find;
mod find_and_modify;
mod index;
mod insert;
mod target;
mod transaction;
mod update;
mod vector_search;
mod watch;

pub use aggregate::Aggregate;
pub use bson;
pub use collection::Collection;
pub use convert::{IntoDocument, IntoPipeline, UpdateModifications};
pub use cursor::Cursor;
pub use database::{CreateCollection, Database};
pub use delete::{Delete, DeleteResult};
pub use error::{DuplicateKey, Error, ErrorCode, InsertManyError, Result, StorageError};
pub use find::{CountDocuments, Distinct, Find, FindOne};
pub use find_and_modify::{FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate, ReturnDocument};
pub use index::{CreateIndexes, IndexModel};
pub use insert::{InsertMany, InsertManyResult, InsertOne, InsertOneResult};
pub use transaction::Transaction;
pub use treedb_collections::{
    AsOf, ChangeLogOptions, DatabaseCheck, IndexBuild, Namespace, NeighborRef, Recall, Revision, Rewound,
    SearchEnd, SearchPath, SearchWork, Tail, VectorMemory, VectorSearcher,
};
pub use treedb_query::query::Hint;
pub use treedb_storage::{Durability, Key, Options, Store};
pub use update::{Replace, Update, UpdateResult};
pub use vector_search::{
    CreateSearchIndex, Neighbor, SearchIndexModel, VectorAnswer, VectorSearch, VectorSearchMany,
};
pub use watch::{ChangeStream, ChangeStreamEvent, FullDocument, FullDocumentBeforeChange, Watch};

// The Rust examples of these pages are compiled and run as tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../../docs/library.md")]
struct Library;
