//! TreeDB's collections.

pub mod collection;
pub use collection::{
    AggregateRequest, Aggregation, AsOf, ChangeLogOptions, ChangeLogStatus, ChangeStream, Collection,
    CollectionInfo, Cursor, Database, DatabaseCheck, DeleteRequest, Explanation, FindAndModifyOutcome,
    FindAndModifyRequest, FindRequest, Format, IndexBuild, IndexSpec, IndexesCreated, InsertOutcome,
    MAX_TRANSACTION_BYTES, Namespace, Revision, Texts, Transaction, TransactionCollection, TransactionCursor,
    UpdateOutcome, UpdateRequest, WatchFrom, WatchRequest, Watched, WriteBatch,
};
pub use treedb_query::{DuplicateKey, ErrorCode, QueryError, access::RowId, bson};
pub use treedb_storage::{Corruption, Durability, Error, Key, Options, Result, Store};

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../../docs/collections.md")]
struct Collections;
