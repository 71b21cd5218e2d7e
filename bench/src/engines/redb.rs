//! redb.

use ::redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use std::path::Path;

use super::{DurabilityClass, EntryFormat, EntryGenerator, KeyValueStore, Scan};
use crate::Result;
use bench_common::Checksum;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("t");

/// redb as a key/value store.
pub(super) struct RedbKeyValue {
    db: Database,
    durability: Durability,
    format: EntryFormat,
}

impl RedbKeyValue {
    /// Opens the store in `dir`.
    pub(super) fn open(class: DurabilityClass, format: EntryFormat, dir: &Path) -> Result<RedbKeyValue> {
        let db = Database::builder().set_cache_size(1 << 30).create(dir.join("db.redb"))?;
        if db.begin_read()?.open_table(TABLE).is_err() {
            let txn = db.begin_write()?;
            txn.open_table(TABLE)?;
            txn.commit()?;
        }
        let durability = match class {
            DurabilityClass::Durable => Durability::Immediate,
            DurabilityClass::Relaxed => Durability::None,
        };
        Ok(RedbKeyValue { db, durability, format })
    }
}

impl KeyValueStore for RedbKeyValue {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        for numbers in numbers.chunks(batch) {
            let mut txn = self.db.begin_write()?;
            txn.set_durability(self.durability)?;
            let mut table = txn.open_table(TABLE)?;
            for &n in numbers {
                let (key, value) = entries.entry(n, version);
                table.insert(key, value)?;
            }
            drop(table);
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        for numbers in numbers.chunks(batch) {
            let table = self.db.begin_read()?.open_table(TABLE)?;
            for &n in numbers {
                checksum.add_prefix(table.get(entries.key(n))?.ok_or("a key is missing")?.value());
            }
        }
        Ok(checksum.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        let table = self.db.begin_read()?.open_table(TABLE)?;
        for &n in numbers {
            let found = table.range(entries.key(n)..)?.next().ok_or("a key is missing")??;
            checksum.add_prefix(found.1.value());
        }
        Ok(checksum.finish())
    }

    fn scan(&self, scan: Scan) -> Result<u64> {
        let mut checksum = Checksum::default();
        let table = self.db.begin_read()?.open_table(TABLE)?;
        if scan == Scan::Backward {
            for entry in table.iter()?.rev() {
                let (key, value) = entry?;
                checksum.add_entry_prefix(key.value(), value.value());
            }
            return Ok(checksum.finish());
        }
        for entry in table.iter()? {
            let (key, value) = entry?;
            match scan {
                Scan::Verify => checksum.add_entry(key.value(), value.value()),
                _ => checksum.add_entry_prefix(key.value(), value.value()),
            }
        }
        Ok(checksum.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            std::hint::black_box(&self.db.begin_read()?);
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        // A durable commit makes all earlier commits durable.
        Ok(self.db.begin_write()?.commit()?)
    }
}
