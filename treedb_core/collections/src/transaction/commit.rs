//! Commit.
//!
//! The transaction takes the write lock and checks that each row of its snapshot that it changes is still the same. Then it applies
//! its changes in order like any other write: indexes and validators that were added meanwhile, and the change log, take effect. A
//! duplicate key that did not exist in the snapshot is a conflict as well. All of this is one transaction of the store, and so one
//! frame of the log.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use treedb_query::access::{Change, RowId, Sink};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::{Durability, Reads, WriteTxn};

use super::catalog::NewCollection;
use super::overlay::{FIRST_NEW_ROW, Op, Overlay};
use super::{Transaction, conflict};

impl Transaction {
    pub(super) fn commit_as(mut self, durability: Option<Durability>) -> Result<()> {
        self.check_active()?;
        if self.changes() == 0 {
            return Ok(());
        }
        let ops = std::mem::take(&mut self.ops);
        let mut txn = self.db.inner.store.begin_write()?;
        let mut metas = BTreeMap::new();
        for (namespace, overlay) in &self.overlays {
            // A statement used the collection without changing it.
            if overlay.is_unchanged() {
                continue;
            }
            metas.insert(namespace.clone(), self.collection_now(&mut txn, overlay)?);
        }
        // The real ids of new rows.
        let mut rows: HashMap<(&Namespace, u64), RowId> = HashMap::new();
        for run in ops.chunk_by(|(one, _), (next, _)| one == next) {
            let Some((namespace, _)) = run.first() else { continue };
            let Some(meta) = metas.remove(namespace) else { continue };
            let mut edit = self.db.edit_in(&mut txn, meta)?;
            edit.owner = Some(self.claims.owner());
            for (_, op) in run {
                let real = |row: &RowId| match row {
                    RowId(FIRST_NEW_ROW..) => rows.get(&(namespace, row.0)).copied(),
                    old => Some(*old),
                };
                let overlay = self.overlays.get(namespace);
                edit.validates = overlay.is_none_or(|overlay| !overlay.unvalidated.contains(&op.row().0));
                let done = match op {
                    Op::Insert(row, document) => edit.insert(document).map(|real| {
                        rows.insert((namespace, row.0), real);
                        true
                    }),
                    Op::Replace { row, document, whole } => match real(row) {
                        Some(row) => {
                            let change = if *whole { Change::Replace } else { Change::Update };
                            edit.modify(row, &mut |_| Ok(change(document.clone())))
                        }
                        None => Ok(false),
                    },
                    Op::Delete(row) => match real(row) {
                        Some(row) => edit.modify(row, &mut |_| Ok(Change::Delete)),
                        None => Ok(false),
                    },
                };
                match done {
                    Ok(true) => {}
                    Ok(false) => return Err(conflict(namespace)),
                    Err(error) => return Err(self.commit_error(namespace, error)),
                }
            }
            let meta = Arc::clone(&edit.meta);
            edit.finish()?;
            metas.insert(namespace.clone(), meta);
        }
        // The lock is held: the next snapshot has these changes.
        self.claims.publish_after(self.db.inner.store.snapshot()?.txn());
        match durability {
            Some(durability) => txn.commit_with(durability)?,
            None => txn.commit()?,
        }
        self.db.after_commit();
        if self.overlays.values().filter_map(|overlay| overlay.created.as_ref()).any(NewCollection::expires) {
            self.db.inner.ttl_monitor.start(&self.db);
        }
        Ok(())
    }

    /// The collection in its present state, created if it did not exist; `WriteConflict` if it is not the one in the snapshot, or
    /// if a row that the transaction changes was changed.
    fn collection_now(&self, txn: &mut WriteTxn, overlay: &Overlay) -> Result<Arc<Meta>> {
        let catalog = &self.db.inner.catalog;
        let lost = || conflict(&overlay.namespace);
        let now = match catalog.read(txn, &overlay.namespace)? {
            Some(now) => {
                Self::check_created(overlay)?;
                Arc::new(now)
            }
            None if overlay.base.is_none() => self.create_now(txn, overlay)?,
            None => return Err(lost()),
        };
        let Some(base) = &overlay.base else { return Ok(now) };
        if base.id != now.id {
            return Err(lost());
        }
        for &row in overlay.rows.keys().filter(|&&row| row < FIRST_NEW_ROW) {
            if txn.row(&now.rows, row)? != self.reads.row(&base.rows, row)? {
                return Err(lost());
            }
        }
        Ok(now)
    }

    /// The error of the commit if a change that had succeeded in the snapshot fails with `error`.
    fn commit_error(&self, namespace: &Namespace, error: QueryError) -> QueryError {
        let known = |name: &str| {
            let overlay = self.overlays.get(namespace);
            overlay.is_some_and(|overlay| overlay.infos.iter().any(|info| info.def.name() == name))
        };
        match &error.duplicate {
            Some(duplicate) if error.code == ErrorCode::DuplicateKey && known(&duplicate.index) => {
                conflict(namespace)
            }
            _ => error,
        }
    }
}
