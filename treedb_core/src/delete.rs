//! Deleting documents.

use treedb_collections::DeleteRequest;

use crate::Hint;
use crate::convert::{Deferred, IntoDocument};
use crate::error::Result;
use crate::target::Target;

/// The action of [`Collection::delete_one`](crate::Collection::delete_one) and
/// [`delete_many`](crate::Collection::delete_many).
#[must_use = "an action does nothing until it is run"]
pub struct Delete<'c> {
    target: &'c Target,
    request: DeleteRequest,
    deferred: Deferred,
}

impl<'c> Delete<'c> {
    pub(crate) fn new(target: &'c Target, filter: impl IntoDocument, limit: u64) -> Self {
        let mut deferred = Deferred::default();
        let filter = deferred.take(filter).unwrap_or_default();
        let request = DeleteRequest { limit, ..DeleteRequest::many(filter) };
        Delete { target, request, deferred }
    }

    /// Finds the documents with the index of this name or key pattern.
    pub fn hint(mut self, index: impl Into<Hint>) -> Self {
        self.request.hint = Some(index.into());
        self
    }

    /// Strings of the filter are compared as this says.
    pub fn collation(mut self, collation: impl IntoDocument) -> Self {
        self.request.collation = self.deferred.take(collation);
        self
    }

    /// Deletes the documents.
    ///
    /// # Errors
    /// Those of the filter.
    pub fn run(self) -> Result<DeleteResult> {
        self.deferred.check()?;
        Ok(DeleteResult { deleted_count: self.target.delete(self.request)? })
    }
}

/// What a delete did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DeleteResult {
    /// Documents deleted.
    pub deleted_count: u64,
}
