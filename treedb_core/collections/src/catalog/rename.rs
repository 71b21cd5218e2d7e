//! Renaming collections. Rows, indexes and everything else belong to the collection's id, so that only the key of its catalog entry changes.

use treedb_query::error::{ErrorCode, QueryError, Result};

use crate::catalog::namespace::Namespace;
use crate::database::Database;

impl Database {
    /// Gives the collection `from` the name `to`, also in another database, in one transaction. Its documents, indexes and options stay
    /// as they are; open cursors go on. With `drop_target` a collection that has the name already is dropped.
    ///
    /// # Errors
    /// `NamespaceNotFound`; `NamespaceExists` without `drop_target`; `IllegalOperation` for the same name or the database `config`;
    /// `BackgroundOperationInProgressForNamespace` while an index of either is built.
    pub fn rename_collection(&self, from: &str, to: &str, drop_target: bool) -> Result<()> {
        let (from, to) = (Namespace::parse(from)?, Namespace::parse(to)?);
        let illegal = |why: &str| Err(QueryError::new(ErrorCode::IllegalOperation, why));
        to.check_not_oplog()?;
        if from == to {
            return illegal("Can't rename a collection to itself");
        }
        if !from.is_recorded() || !to.is_recorded() {
            return illegal("Cannot rename collections of the database config");
        }
        let catalog = &self.inner.catalog;
        let mut txn = self.inner.store.begin_write()?;
        let Some(meta) = catalog.read(&txn, &from)? else {
            return Err(QueryError::new(
                ErrorCode::NamespaceNotFound,
                format!("Source collection {from} does not exist"),
            ));
        };
        if catalog.view(&txn, &to)?.is_some() {
            return Err(QueryError::new(
                ErrorCode::NamespaceExists,
                format!("a view already exists with that name: {to}"),
            ));
        }
        let replaced = catalog.read(&txn, &to)?;
        if replaced.is_some() && !drop_target {
            return Err(QueryError::new(ErrorCode::NamespaceExists, "target namespace exists"));
        }
        for meta in replaced.iter().chain([&meta]) {
            if meta.indexes.iter().any(|index| index.building.is_some()) {
                return Err(QueryError::new(
                    ErrorCode::BackgroundOperationInProgressForNamespace,
                    format!(
                        "cannot perform operation: an index build is currently running for collection '{}'",
                        meta.namespace
                    ),
                ));
            }
        }
        let replaced = catalog.drop_collection(&mut txn, &to)?;
        catalog.check_free(&txn, &to)?;
        catalog.rename(&mut txn, &meta, &to)?;
        self.inner.changes.collection_renamed(&mut txn, meta.id, (&from, &to), replaced.as_ref())?;
        txn.commit()?;
        if let Some(replaced) = replaced {
            catalog.images().remove(replaced.vector_tables());
        }
        self.after_commit();
        Ok(())
    }
}
