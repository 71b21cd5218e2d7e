//! redb.

use ::redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use std::path::Path;

use super::{Class, Form, Keys, Maker, Walk};
use crate::Result;
use crate::contest::Answer;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("t");

/// redb as a key/value store.
pub(super) struct RedbKeys {
    db: Database,
    durability: Durability,
    form: Form,
}

impl RedbKeys {
    /// The store in `dir`.
    pub(super) fn open(class: Class, form: Form, dir: &Path) -> Result<RedbKeys> {
        let db = Database::builder().set_cache_size(1 << 30).create(dir.join("db.redb"))?;
        if db.begin_read()?.open_table(TABLE).is_err() {
            let txn = db.begin_write()?;
            txn.open_table(TABLE)?;
            txn.commit()?;
        }
        let durability = match class {
            Class::Durable => Durability::Immediate,
            Class::Relaxed => Durability::None,
        };
        Ok(RedbKeys { db, durability, form })
    }
}

impl Keys for RedbKeys {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut make = Maker::pairs(self.form);
        for numbers in numbers.chunks(batch) {
            let mut txn = self.db.begin_write()?;
            txn.set_durability(self.durability)?;
            let mut table = txn.open_table(TABLE)?;
            for &n in numbers {
                let (key, value) = make.pair(n, version);
                table.insert(key, value)?;
            }
            drop(table);
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        for numbers in numbers.chunks(batch) {
            let table = self.db.begin_read()?.open_table(TABLE)?;
            for &n in numbers {
                answer.glance(table.get(make.key(n))?.ok_or("a key is missing")?.value());
            }
        }
        Ok(answer.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        let table = self.db.begin_read()?.open_table(TABLE)?;
        for &n in numbers {
            let found = table.range(make.key(n)..)?.next().ok_or("a key is missing")??;
            answer.glance(found.1.value());
        }
        Ok(answer.finish())
    }

    fn walk(&self, how: Walk) -> Result<u64> {
        let mut answer = Answer::default();
        let table = self.db.begin_read()?.open_table(TABLE)?;
        if how == Walk::Backward {
            for entry in table.iter()?.rev() {
                let (key, value) = entry?;
                answer.pass(key.value(), value.value());
            }
            return Ok(answer.finish());
        }
        for entry in table.iter()? {
            let (key, value) = entry?;
            match how {
                Walk::Whole => answer.pair(key.value(), value.value()),
                _ => answer.pass(key.value(), value.value()),
            }
        }
        Ok(answer.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            std::hint::black_box(&self.db.begin_read()?);
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        // The commits before become durable with one that is.
        Ok(self.db.begin_write()?.commit()?)
    }
}
