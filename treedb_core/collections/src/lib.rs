//! Collections of raw BSON documents: catalog, rows, indexes, transactions and the change log, over `treedb_storage`.
//!
//! | module | what it holds |
//! |---|---|
//! | `database` | [`Database`]: a directory of collections: listing, creating, dropping, checking |
//! | `collection` | [`Collection`]: insert, find, update, delete, count, indexes |
//! | `request` | the arguments and results of these calls |
//! | `transaction` | [`Transaction`]: statements over any number of collections, committed atomically |
//! | [`changes`] | the change log: change streams, reads as of an earlier change, document history |
//! | `maintenance` | index builds, expiry, consistency checks |
//! | `write` | statements, rows, index entries, [`WriteBatch`] |
//! | `read` | [`Cursor`], [`Aggregation`], snapshots |
//! | `index` | what each kind of index does when documents change, and what it answers |
//! | `catalog` | [`Namespace`], [`IndexSpec`], a collection's entry, validators |
//!
//! Invariants: a row and its index entries change in one transaction; every row has an `_id`, which is unique and the
//! first field of the document; an index that is being built is maintained by every write and used by no query.

mod catalog;
pub mod changes;
mod collection;
mod database;
mod index;
mod maintenance;
mod read;
mod request;
#[cfg(test)]
mod tests;
mod transaction;
mod write;

pub use catalog::index_change::{IndexChoice, IndexModification};
pub use catalog::index_spec::IndexSpec;
pub use catalog::modification::Modification;
pub use catalog::namespace::{MAX_NAMESPACE, Namespace};
pub use catalog::search_index::SearchIndex;
pub use changes::{
    AsOf, ChangeLogOptions, ChangeLogStatus, ChangeStream, FullDocument, FullDocumentBeforeChange, Oplog,
    Revision, Rewound, WatchFrom, WatchRequest, Watched,
};
pub use collection::Collection;
pub use database::{CollectionInfo, Database, DatabaseCheck};
pub use index::VectorMemory;
pub use maintenance::check::CollectionCheck;
pub use maintenance::check_progress::CheckProgress;
pub use maintenance::index_build::{IndexBuild, IndexesCreated};
pub use maintenance::recall::Recall;
pub use maintenance::stats::{CappedLimits, CollectionStats, IndexSize};
pub use read::aggregate::{AggregateRequest, Aggregation, Explanation};
pub use read::cursor::Cursor;
pub use read::json::JsonCursor;
pub use read::tail::Tail;
pub use read::vector_searcher::VectorSearcher;
pub use request::{
    DeleteRequest, FindAndModifyOutcome, FindAndModifyRequest, FindRequest, InsertOutcome, UpdateOutcome,
    UpdateRequest, VectorSearchRequest,
};
pub use transaction::{
    MAX_BYTES as MAX_TRANSACTION_BYTES, Transaction, TransactionCollection, TransactionCursor,
};
pub use treedb_query::query::{
    KeyBounds, NearestAnswer, Neighbor, NeighborRef, Returns, SearchEnd, SearchPath, SearchWork,
};
pub use treedb_query::{DuplicateKey, ErrorCode, QueryError, RowId, bson};
pub use treedb_storage::{Corruption, Durability, Error, Key, Options, Store};
pub use write::change::MAX_DOCUMENT;
pub use write::row::Format;
pub use write::write_batch::WriteBatch;
