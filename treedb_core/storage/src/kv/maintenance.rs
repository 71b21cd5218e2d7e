//! Changes that no command says: where pages and values lie.
//!
//! They are made by small transactions of their own, between those of the writers, and are not in the log: a crash
//! before the next checkpoint leaves pages and values where they were, and every command means the same in either
//! place.

use super::command::FORMAT;
use super::edit::Edit;
use super::store::Inner;
use crate::Result;

impl Inner {
    /// Becomes the writer, makes changes with `work`, and publishes them.
    pub(super) fn run_maintenance<T>(&self, work: impl FnOnce(&mut Edit<'_>) -> Result<T>) -> Result<T> {
        self.refuse_poisoned()?;
        self.with_writer(|writer| {
            self.pager.begin(&mut writer.alloc);
            writer.frame.clear();
            writer.frame.push(FORMAT);
            let mut edit = Edit { pager: &self.pager, values: &self.values, writer };
            match work(&mut edit).and_then(|done| Ok((done, edit.finish()?))) {
                Ok((done, root)) => {
                    let txn = self.pager.publish(&mut writer.alloc, &root);
                    self.dead.add(txn, &writer.committed());
                    Ok(done)
                }
                Err(error) => {
                    self.pager.roll_back(&mut writer.alloc);
                    if let Err(error) = writer.rolled_back(&self.values) {
                        self.poison(&error);
                    }
                    Err(error)
                }
            }
        })
    }
}
