//! Writing documents: statements, rows and the index entries that change with them.
//!
//! | file | what it holds |
//! |---|---|
//! | `statement` | inserts, updates and deletes over any [`Sink`](treedb_query::access::Sink) |
//! | `edit` | a collection in a write transaction, as a `Sink` |
//! | `change` | the checks of a changed document, and the index entries it adds and removes |
//! | `bulk` | inserts of many documents, their index entries sorted |
//! | `write_batch` | [`write_batch::WriteBatch`]: statements over several collections, committed as one |
//! | `row` | how documents are stored as rows |

pub(crate) mod bulk;
pub(crate) mod change;
pub(crate) mod edit;
pub(crate) mod row;
pub(crate) mod statement;
pub(crate) mod write_batch;
