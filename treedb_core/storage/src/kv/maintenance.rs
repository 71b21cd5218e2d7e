//! Transactions that change where pages and values are, but no content.
//!
//! They run between those of the writers and are not logged: a crash before the next checkpoint leaves pages and values
//! where they were, and every command means the same in either place.

use super::command::FORMAT;
use super::edit::Edit;
use super::store::Inner;
use crate::Result;

impl Inner {
    /// Becomes the writer, runs `work`, and publishes its changes.
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
