//! fjall.

use std::path::Path;

use ::fjall::{Database, Iter, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use super::{Class, Form, Keys, Maker, Walk};
use crate::Result;
use crate::contest::Answer;

/// fjall as a key/value store.
pub(super) struct FjallKeys {
    db: Database,
    table: Keyspace,
    /// How far a commit's journal entry goes.
    persist: PersistMode,
    form: Form,
}

impl FjallKeys {
    /// The store in `dir`.
    pub(super) fn open(class: Class, form: Form, dir: &Path) -> Result<FjallKeys> {
        let db = Database::builder(dir.join("db")).cache_size(1 << 30).open()?;
        let table = db.keyspace("t", KeyspaceCreateOptions::default)?;
        let persist = match class {
            Class::Durable => PersistMode::SyncData,
            Class::Relaxed => PersistMode::Buffer,
        };
        Ok(FjallKeys { db, table, persist, form })
    }

    fn pass(&self, entries: Iter, how: Walk, answer: &mut Answer) -> Result<()> {
        let mut each = |entry: ::fjall::Guard| -> Result<()> {
            let (key, value) = entry.into_inner()?;
            match how {
                Walk::Whole => answer.pair(&key, &value),
                _ => answer.pass(&key, &value),
            }
            Ok(())
        };
        match how {
            Walk::Backward => entries.rev().try_for_each(&mut each),
            _ => { entries }.try_for_each(&mut each),
        }
    }
}

impl Keys for FjallKeys {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut make = Maker::pairs(self.form);
        for numbers in numbers.chunks(batch) {
            let mut changes = self.db.batch().durability(Some(self.persist));
            for &n in numbers {
                let (key, value) = make.pair(n, version);
                changes.insert(&self.table, key, value);
            }
            changes.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        for numbers in numbers.chunks(batch) {
            let snapshot = self.db.snapshot();
            for &n in numbers {
                answer.glance(&snapshot.get(&self.table, make.key(n))?.ok_or("a key is missing")?);
            }
        }
        Ok(answer.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        let snapshot = self.db.snapshot();
        for &n in numbers {
            let found = snapshot.range(&self.table, make.key(n)..).next().ok_or("a key is missing")?;
            answer.glance(&found.value()?);
        }
        Ok(answer.finish())
    }

    fn walk(&self, how: Walk) -> Result<u64> {
        let mut answer = Answer::default();
        self.pass(self.db.snapshot().iter(&self.table), how, &mut answer)?;
        Ok(answer.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            std::hint::black_box(&self.db.snapshot());
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.table.rotate_memtable_and_wait()?;
        Ok(self.table.major_compact()?)
    }
}
