//! The checks of a changed document before anything is written. All ways of writing use them: write transactions, and
//! transactions that keep their changes in memory until they commit.

use bson::RawDocument;

use treedb_query::error::{ErrorCode, QueryError, Result};

use crate::catalog::validator::Validator;

/// Largest document, in bytes: MongoDB's limit.
pub const MAX_DOCUMENT: usize = 16 * 1024 * 1024;

/// Refuses `new`, which replaces `old`, if it is too large or the collection's validator refuses it.
pub(crate) fn check_document(
    validator: Option<&Validator>,
    old: Option<&RawDocument>,
    new: &RawDocument,
) -> Result<()> {
    let size = new.as_bytes().len();
    if size > MAX_DOCUMENT {
        return Err(QueryError::new(
            ErrorCode::BSONObjectTooLarge,
            format!("object to insert too large. size in bytes: {size}, max size: {MAX_DOCUMENT}"),
        ));
    }
    validator.map_or(Ok(()), |validator| validator.check(old, new))
}
