//! Creating collections and indexes in a transaction: they come to be when it commits.
//!
//! As in MongoDB, indexes can only be created on a collection that the same transaction has created and not yet written to: there is nothing
//! to build, and nobody else has the collection.

use std::sync::Arc;

use bson::Document;

use treedb_query::doc::Collation;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::Definition;
use treedb_storage::WriteTxn;

use crate::catalog::index_spec::IndexSpec;
use crate::catalog::meta::{Meta, collation_of};
use crate::catalog::namespace::Namespace;
use crate::catalog::validator::Validator;
use crate::database::Database;
use crate::maintenance::index_build::{self, IndexesCreated};

use super::intents::Intent;
use super::overlay::Overlay;
use super::{Transaction, conflict};

/// A collection that a transaction creates.
#[derive(Debug, Clone, Default)]
pub(super) struct NewCollection {
    options: Document,
    pub(super) collation: Collation,
    pub(super) validator: Option<Validator>,
    /// Its indexes beside the one on `_id`.
    indexes: Vec<Definition>,
}

impl NewCollection {
    fn new(namespace: &Namespace, options: Document) -> Result<Self> {
        if ["capped", "timeseries", "viewOn", "clusteredIndex"]
            .iter()
            .any(|special| options.contains_key(*special))
        {
            return Err(QueryError::new(
                ErrorCode::OperationNotSupportedInTransaction,
                format!("Cannot create {namespace} in a multi-document transaction: only plain collections"),
            ));
        }
        let collation = collation_of(&options)?;
        let validator = Validator::from_options(namespace, &options, &collation)?;
        Ok(NewCollection { options, collation, validator, indexes: Vec::new() })
    }

    /// Creates it. Its indexes are ready, since it is empty.
    pub(super) fn create(
        &self,
        db: &Database,
        txn: &mut WriteTxn,
        namespace: &Namespace,
    ) -> Result<Arc<Meta>> {
        let meta = Arc::new(db.inner.catalog.create(txn, namespace, self.options.clone())?);
        let mut edit = db.edit_in(txn, meta)?;
        edit.record_creation();
        for def in &self.indexes {
            index_build::add_ready(&mut edit, def)?;
        }
        let meta = Arc::clone(&edit.meta);
        edit.finish()?;
        Ok(meta)
    }

    /// True if one of its indexes deletes documents that expire.
    pub(super) fn expires(&self) -> bool {
        self.indexes.iter().any(index_build::expires)
    }
}

impl Transaction {
    /// Creates an empty collection when the transaction commits. It can be used in the transaction at once.
    ///
    /// # Errors
    /// Those of [`Database::create_collection`].
    pub fn create_collection(&mut self, namespace: &str, options: Document) -> Result<()> {
        self.catalog_statement(&Namespace::parse(namespace)?, |transaction, namespace| {
            let used = transaction.overlays.get(namespace);
            let there = match used {
                Some(used) => used.base.is_some() || used.created.is_some() || !used.rows.is_empty(),
                None => transaction.db.inner.catalog.find(&transaction.reads, namespace)?.is_some(),
            };
            if there {
                return Err(QueryError::new(
                    ErrorCode::NamespaceExists,
                    format!("Collection {namespace} already exists."),
                ));
            }
            let created = NewCollection::new(namespace, options)?;
            transaction.claim_creation(namespace)?;
            transaction
                .overlays
                .insert(namespace.clone(), Arc::new(Overlay::of_created(namespace.clone(), created)));
            Ok(())
        })
    }

    /// Creates indexes of a collection that this transaction has created, or that does not exist, when the transaction commits.
    ///
    /// # Errors
    /// Those of the specifications; `OperationNotSupportedInTransaction` for a new index of a collection that existed before, or that has
    /// documents.
    pub fn create_indexes(&mut self, namespace: &str, specs: &[IndexSpec]) -> Result<IndexesCreated> {
        self.catalog_statement(&Namespace::parse(namespace)?, |transaction, namespace| {
            let refused = |what: &str| {
                QueryError::new(
                    ErrorCode::OperationNotSupportedInTransaction,
                    format!(
                        "Cannot create new indexes on {what} {namespace} in a multi-document transaction."
                    ),
                )
            };
            let base = match transaction.overlays.get(namespace) {
                Some(overlay) => overlay.base.clone(),
                None => transaction.db.inner.catalog.find(&transaction.reads, namespace)?,
            };
            if let Some(base) = base {
                for spec in specs {
                    for def in spec.definitions(&base.collation)? {
                        let mut same = false;
                        for index in &base.indexes {
                            same |= def.is_same_as(&index.def)?;
                        }
                        if !same {
                            return Err(refused("existing collection"));
                        }
                    }
                }
                let count = base.infos.len();
                return Ok(IndexesCreated { before: count, after: count, created_collection: false });
            }
            transaction.claim_creation(namespace)?;
            let before = transaction.overlays.get(namespace).map_or(1, |overlay| overlay.infos.len());
            let existed = transaction.overlays.contains_key(namespace);
            let overlay = transaction
                .overlays
                .entry(namespace.clone())
                .or_insert_with(|| Arc::new(Overlay::new(namespace.clone(), None)));
            let overlay = Arc::make_mut(overlay);
            for spec in specs {
                let mut created = overlay.created.clone().unwrap_or_default();
                let mut defs = spec.definitions(&created.collation)?;
                let Some(def) = defs.pop().filter(|def| def.as_ordered().is_some()) else {
                    return Err(refused("the vectors of"));
                };
                let mut same = def.is_id();
                for other in &created.indexes {
                    same |= def.is_same_as(other)?;
                }
                if same {
                    continue;
                }
                if !overlay.rows.is_empty() {
                    return Err(refused("non-empty collection"));
                }
                index_build::check_count(namespace, overlay.infos.len())?;
                created.indexes.push(def.clone());
                overlay.created = Some(created);
                overlay.add_index(def);
            }
            Ok(IndexesCreated { before, after: overlay.infos.len(), created_collection: !existed })
        })
    }

    /// `WriteConflict` if another open transaction creates the same collection.
    fn claim_creation(&mut self, namespace: &Namespace) -> Result<()> {
        let claimed = self.claims.claim(namespace, [Intent::Collection], self.reads.txn());
        claimed.map(drop).map_err(|winner| {
            self.lost_to = Some((winner, namespace.clone()));
            conflict(namespace)
        })
    }

    /// Runs a statement that changes the catalog. If it fails, the transaction is aborted.
    fn catalog_statement<T>(
        &mut self,
        namespace: &Namespace,
        work: impl FnOnce(&mut Self, &Namespace) -> Result<T>,
    ) -> Result<T> {
        self.statement(|transaction| work(transaction, namespace))
    }

    /// The collection that the transaction creates, whether it says so or only writes to it.
    pub(super) fn create_now(&self, txn: &mut WriteTxn, overlay: &Overlay) -> Result<Arc<Meta>> {
        overlay.created.clone().unwrap_or_default().create(&self.db, txn, &overlay.namespace)
    }

    /// Refuses a collection that another transaction has created meanwhile.
    pub(super) fn check_created(overlay: &Overlay) -> Result<()> {
        match overlay.created {
            Some(_) => Err(conflict(&overlay.namespace)),
            None => Ok(()),
        }
    }
}
