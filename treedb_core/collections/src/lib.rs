//! Collections: catalog, rows by [`RowId`], index maintenance, the document API.
//!
//! | file | what it holds |
//! |---|---|
//! | `database` | [`Database`]: a directory with collections; listing, dropping, checking |
//! | `handle` | [`Collection`]: insert, find, update, delete, count, indexes |
//! | `request` | what those calls take and return |
//! | `distinct` | the distinct values of a field |
//! | `for_each` | documents of a find, borrowed |
//! | `cursor` | [`Cursor`]: the answer of a find, over a snapshot of its own |
//! | `batch` | documents found and not handed out yet |
//! | `point_lookup` | finds by `_id` and other indexed values, without a plan |
//! | `text` | documents as JSON text |
//! | `aggregate` | pipelines over the collections of one snapshot |
//! | `namespace` | [`Namespace`]: `database.collection` |
//! | `catalog`, `meta` | which collections and indexes there are; the catalog entry's bytes |
//! | `known` | what a thread remembers of the catalog |
//! | `validator`, `unmatched` | what a collection's documents must match, and why one does not |
//! | `row` | how documents are stored as rows |
//! | `view`, `edit` | the native implementation of [`treedb_query::access`], for reading and for writing |
//! | `long_key` | keys that are too long for an entry |
//! | `change` | what a document that changes asks for, before anything is written |
//! | `statement` | inserts, updates and deletes, wherever a collection is written |
//! | `index_spec` | [`IndexSpec`]: an index to create |
//! | `bulk` | many documents at once, their index entries in order |
//! | `write_batch` | [`WriteBatch`]: statements over several collections, carried out at once and committed as one |
//! | `transaction` | [`Transaction`]: many statements over many collections, at once or not at all |
//! | `index_build` | creating indexes of a live collection in short steps, resumed after a crash |
//! | `index_rebuild` | rebuilding indexes whose sort keys are of another version |
//! | `backfill` | the entries of a build: read in a snapshot, put in order, written |
//! | `index_change` | what `collMod` changes of an index |
//! | `expiry` | documents that are deleted when their time is over |
//! | `top_k` | the first documents of an order |
//! | `parallel_scan` | a scan of a collection by several threads |
//! | `check` | rows against indexes, both ways |
//! | [`changes`] | the change log: what happened to documents, by sequence number |
//!
//! Invariants: a row and its index entries change in one transaction; every row has an `_id`, unique and first in
//! the document; an index being built is maintained by every write and read by none.

mod aggregate;
mod backfill;
mod batch;
mod bulk;
mod catalog;
mod change;
pub mod changes;
mod check;
mod cursor;
mod database;
mod distinct;
mod edit;
mod expiry;
mod for_each;
mod handle;
mod index_build;
mod index_change;
mod index_rebuild;
mod index_spec;
mod known;
mod long_key;
mod meta;
mod namespace;
mod parallel_scan;
mod point_lookup;
mod request;
mod row;
mod statement;
#[cfg(test)]
mod tests;
mod text;
mod top_k;
mod transaction;
mod unmatched;
mod validator;
mod view;
mod write_batch;

pub use aggregate::{AggregateRequest, Aggregation, Explanation};
pub use change::MAX_DOCUMENT;
pub use changes::{
    AsOf, ChangeLogOptions, ChangeLogStatus, ChangeStream, FullDocument, FullDocumentBeforeChange, Revision,
    WatchFrom, WatchRequest, Watched,
};
pub use check::CollectionCheck;
pub use cursor::Cursor;
pub use database::{CollectionInfo, Database, DatabaseCheck};
pub use handle::Collection;
pub use index_build::{IndexBuild, IndexesCreated};
pub use index_spec::IndexSpec;
pub use namespace::{MAX_NAMESPACE, Namespace};
pub use request::{
    DeleteRequest, FindAndModifyOutcome, FindAndModifyRequest, FindRequest, InsertOutcome, UpdateOutcome,
    UpdateRequest,
};
pub use row::Format;
pub use text::Texts;
pub use transaction::{
    MAX_BYTES as MAX_TRANSACTION_BYTES, Transaction, TransactionCollection, TransactionCursor,
};
pub use treedb_query::{DuplicateKey, ErrorCode, QueryError, RowId, bson};
pub use treedb_storage::{Corruption, Durability, Error, Key, Options, Store};
pub use write_batch::WriteBatch;
