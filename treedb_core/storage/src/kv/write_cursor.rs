//! A cursor that puts and deletes.

use super::catalog::{Table, TableKind};
use super::command::Command;
use super::cursor::Cursor;
use super::edit::{Outcome, check_limits};
use super::reads::Reads;
use super::write::{Change, WriteTxn};
use crate::Result;
use crate::btree::TreeRoot;

/// Which part of the cursor knows its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// The tree cursor.
    Tree,
    /// The key, which is in the tree: its leaf must be sought.
    Key,
    /// The key, which was deleted: the cursor is between its neighbours.
    Gap,
}

/// A position in an ordered table of a write transaction, which moves in both directions, and to put and delete at. Its own changes
/// never make it lose its position. It starts outside: `next` goes to the first key, `prev` to the last.
///
/// After an error other than `KeyTooLong` and `ValueTooLong` it has no position, and the transaction can only be
/// dropped or rolled back.
pub struct WriteCursor<'t> {
    change: Change<'t>,
    table: Table,
    /// Between a change and the next read it has no position, so that it borrows no page that changes.
    tree: Cursor<'t>,
    /// The tree has another root than `tree` knows.
    stale: bool,
    at: At,
    key: Vec<u8>,
}

impl WriteTxn {
    /// A cursor over the keys, not yet on any, that can put and delete. The transaction can be used otherwise when it
    /// is gone.
    pub fn write_cursor(&mut self, table: &Table) -> Result<WriteCursor<'_>> {
        table.expect(TableKind::Ordered)?;
        let root = self.find(table)?.record.root;
        let change = self.change()?;
        let tree = Cursor::new(&change.inner.pager, &change.inner.values, &root);
        Ok(WriteCursor { change, table: table.clone(), tree, stale: false, at: At::Tree, key: Vec::new() })
    }
}

impl<'t> WriteCursor<'t> {
    /// Goes to the first key not below `key`; false if there is none.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.at = At::Tree;
        self.tree()?.seek(key)
    }

    /// Goes to `key`; false if it is not there.
    pub fn seek_exact(&mut self, key: &[u8]) -> Result<bool> {
        self.at = At::Tree;
        self.tree()?.seek_exact(key)
    }

    /// Goes to the last key not above `key`; false if there is none.
    pub fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.at = At::Tree;
        self.tree()?.seek_back(key)
    }

    /// Goes to the first key; false if the table is empty.
    pub fn first(&mut self) -> Result<bool> {
        self.at = At::Tree;
        self.tree()?.first()
    }

    /// Goes to the last key; false if the table is empty.
    pub fn last(&mut self) -> Result<bool> {
        self.at = At::Tree;
        self.tree()?.last()
    }

    /// Goes to the next key, from a deleted one to the one after it; false after the last.
    #[expect(clippy::should_implement_trait, reason = "keys are borrowed from the cursor")]
    pub fn next(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.at, At::Tree) {
            At::Gap => {
                self.tree()?;
                self.tree.seek(&self.key)
            }
            At::Key => Ok(self.return_to_key()? && self.tree.next()?),
            At::Tree => self.tree.next(),
        }
    }

    /// Goes to the previous key, from a deleted one to the one before it; false before the first.
    pub fn prev(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.at, At::Tree) {
            At::Gap => {
                self.tree()?;
                self.tree.seek_back(&self.key)
            }
            At::Key => Ok(self.return_to_key()? && self.tree.prev()?),
            At::Tree => self.tree.prev(),
        }
    }

    /// The key it is on; `None` if it is outside, or where one was deleted.
    pub fn key(&mut self) -> Result<Option<&[u8]>> {
        match self.at {
            At::Tree => self.tree.key(),
            At::Key => Ok(Some(&self.key)),
            At::Gap => Ok(None),
        }
    }

    /// The value it is on.
    pub fn value(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.entry()?.map(|(_, value)| value))
    }

    /// Key and value it is on.
    pub fn entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.at == At::Key {
            self.at = At::Tree;
            self.return_to_key()?;
        }
        if self.at == At::Gap { Ok(None) } else { self.tree.entry() }
    }

    /// Stores `value` under `key`, instead of what was there, and moves to it. Limits as for [`WriteTxn::put`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_limits(key, value.len())?;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.put_at_key(value)
    }

    /// Stores `value` under the key it is on; false, and no change, if it is on none. Limits as for
    /// [`WriteTxn::put`].
    pub fn update(&mut self, value: &[u8]) -> Result<bool> {
        check_limits(&[], value.len())?;
        let on = self.know_key()?;
        if on {
            self.put_at_key(value)?;
        }
        Ok(on)
    }

    /// Removes the key it is on; the cursor is then between its neighbours. False, and no change, if it is on none.
    pub fn delete(&mut self) -> Result<bool> {
        let on = self.know_key()?;
        if on {
            self.run(|table, key| Command::Delete { table, key }, At::Gap)?;
        }
        Ok(on)
    }

    fn put_at_key(&mut self, value: &[u8]) -> Result<()> {
        self.run(|table, key| Command::Put { table, key, value }, At::Key)
    }

    /// Makes `key` the key it is on; false if it is on none.
    fn know_key(&mut self) -> Result<bool> {
        match self.at {
            At::Key => Ok(true),
            At::Gap => Ok(false),
            At::Tree => {
                let Some(key) = self.tree.key()? else { return Ok(false) };
                self.key.clear();
                self.key.extend_from_slice(key);
                Ok(true)
            }
        }
    }

    /// The tree cursor, over the current root.
    fn tree(&mut self) -> Result<&mut Cursor<'t>> {
        if self.stale {
            let record = self.change.writer.record(&self.change.inner.pager, self.table.id)?;
            self.tree.reset(&record.ok_or_else(|| self.table.gone())?.root);
            self.stale = false;
        }
        Ok(&mut self.tree)
    }

    /// Moves the tree cursor to the key.
    fn return_to_key(&mut self) -> Result<bool> {
        self.tree()?;
        self.tree.seek_exact(&self.key)
    }

    /// Makes a change to `key`, which is the position from then on.
    fn run<'c>(&'c mut self, command: impl FnOnce(u32, &'c [u8]) -> Command<'c>, then: At) -> Result<()> {
        if !self.stale {
            // No page is checked from here until the change is made.
            self.tree.reset(&TreeRoot::EMPTY);
            self.stale = true;
        }
        self.at = At::Gap;
        if self.change.run(&command(self.table.id, &self.key))? == Outcome::NoTable {
            return Err(self.table.gone());
        }
        self.at = then;
        Ok(())
    }
}
