//! fjall.

use std::path::Path;

use ::fjall::{Database, Iter, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use super::{DurabilityClass, EntryFormat, EntryGenerator, KeyValueStore, Scan};
use crate::Result;
use bench_common::Checksum;

/// fjall as a key/value store.
pub(super) struct FjallKeyValue {
    db: Database,
    table: Keyspace,
    /// How far a commit's journal entry is written.
    persist: PersistMode,
    format: EntryFormat,
}

impl FjallKeyValue {
    /// Opens the store in `dir`.
    pub(super) fn open(class: DurabilityClass, format: EntryFormat, dir: &Path) -> Result<FjallKeyValue> {
        let db = Database::builder(dir.join("db")).cache_size(1 << 30).open()?;
        let table = db.keyspace("t", KeyspaceCreateOptions::default)?;
        let persist = match class {
            DurabilityClass::Durable => PersistMode::SyncData,
            DurabilityClass::Relaxed => PersistMode::Buffer,
        };
        Ok(FjallKeyValue { db, table, persist, format })
    }

    fn scan_entries(&self, entries: Iter, scan: Scan, checksum: &mut Checksum) -> Result<()> {
        let mut each = |entry: ::fjall::Guard| -> Result<()> {
            let (key, value) = entry.into_inner()?;
            match scan {
                Scan::Verify => checksum.add_entry(&key, &value),
                _ => checksum.add_entry_prefix(&key, &value),
            }
            Ok(())
        };
        match scan {
            Scan::Backward => entries.rev().try_for_each(&mut each),
            _ => { entries }.try_for_each(&mut each),
        }
    }
}

impl KeyValueStore for FjallKeyValue {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        for numbers in numbers.chunks(batch) {
            let mut changes = self.db.batch().durability(Some(self.persist));
            for &n in numbers {
                let (key, value) = entries.entry(n, version);
                changes.insert(&self.table, key, value);
            }
            changes.commit()?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        for numbers in numbers.chunks(batch) {
            let snapshot = self.db.snapshot();
            for &n in numbers {
                checksum.add_prefix(&snapshot.get(&self.table, entries.key(n))?.ok_or("a key is missing")?);
            }
        }
        Ok(checksum.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        let snapshot = self.db.snapshot();
        for &n in numbers {
            let found = snapshot.range(&self.table, entries.key(n)..).next().ok_or("a key is missing")?;
            checksum.add_prefix(&found.value()?);
        }
        Ok(checksum.finish())
    }

    fn scan(&self, scan: Scan) -> Result<u64> {
        let mut checksum = Checksum::default();
        self.scan_entries(self.db.snapshot().iter(&self.table), scan, &mut checksum)?;
        Ok(checksum.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            std::hint::black_box(&self.db.snapshot());
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        self.table.rotate_memtable_and_wait()?;
        Ok(self.table.major_compact()?)
    }
}
