//! Keeping at least half of the value log live.
//!
//! Segments of the value log are append-only, so values that died leave holes in them. When less than half of the log's
//! bytes are live after a checkpoint, the live values of segments that are mostly dead are appended again, a bounded
//! number of bytes in each of many small transactions, and their cells are updated. The next checkpoint makes that durable
//! and releases the old values; the one after it no longer refers to the old segments, and removes them. So after a
//! checkpoint with no older snapshot left, at least half of the value log's bytes are live.

use super::catalog::TableKind;
use super::command::Command;
use super::edit::Edit;
use super::store::Inner;
use crate::Result;
use crate::btree::{RowRoot, RowTree, Tree, Value};
use crate::vlog::Record;

/// Bytes of values read by one transaction, about.
const STEP: u64 = 1 << 20;

impl Inner {
    /// True if less than half of the value log's bytes are live.
    pub(super) fn half_dead(&self) -> bool {
        let stats = self.values.stats();
        stats.live * 2 < stats.bytes
    }

    /// Moves live values out of segments that are mostly dead. Call while checkpoints are held off: they remove
    /// segments.
    pub(super) fn move_values(&self) -> Result<()> {
        for segment in self.values.sparse() {
            let mut records = self.values.records(segment)?;
            let mut more = true;
            while more {
                more = self.run_maintenance(|edit| {
                    let mut bytes = 0;
                    while bytes < STEP {
                        let Some(record) = records.next().transpose()? else { return Ok(false) };
                        bytes += record.value.len() as u64;
                        edit.rescue(&record)?;
                    }
                    Ok(true)
                })?;
            }
        }
        Ok(())
    }
}

/// The table and the key of a value, from the owner's name that the value log stores with it.
fn owner(name: &[u8]) -> Option<(TableKind, u32, &[u8])> {
    let (&kind, rest) = name.split_first()?;
    let (table, key) = rest.split_first_chunk()?;
    Some((TableKind::from_byte(kind)?, u32::from_le_bytes(*table), key))
}

impl Edit<'_> {
    /// Stores a value again if its owner still holds it there.
    fn rescue(&mut self, record: &Record<'_>) -> Result<()> {
        let Some((kind, id, key)) = owner(&record.owner) else { return Ok(()) };
        let Some(table) = self.writer.record(self.pager, id)?.filter(|table| table.kind == kind) else {
            return Ok(());
        };
        let epoch = self.pager.enter_epoch();
        let (cell, command) = match kind {
            TableKind::Ordered => (
                Tree::get(self.pager, &table.root, key)?,
                Command::Put { table: id, key, value: &record.value },
            ),
            // Values of dup tables are not in the value log.
            TableKind::Dup => return Ok(()),
            TableKind::Rows => {
                let Ok(row) = key.try_into().map(u64::from_le_bytes) else { return Ok(()) };
                let root = RowRoot { tree: table.root, next: table.next_row };
                (
                    RowTree::get(self.pager, &root.tree, row)?,
                    Command::PutRow { table: id, row, value: &record.value },
                )
            }
        };
        let live = cell.is_some_and(|cell: Value<'_>| cell.pointer && cell.bytes == record.ptr.to_bytes());
        drop(epoch);
        if live {
            self.apply(&command)?;
        }
        Ok(())
    }
}
