//! RocksDB, the system's library, with zstd.

use std::path::Path;

use ::rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRawIterator, FlushOptions, Options, ReadOptions,
    WriteBatch, WriteOptions,
};

use super::{DurabilityClass, EntryFormat, EntryGenerator, KeyValueStore, Scan};
use crate::Result;
use bench_common::Checksum;

/// RocksDB as a key/value store.
pub(super) struct RocksDbKeyValue {
    db: DB,
    write: WriteOptions,
    format: EntryFormat,
}

/// Options for point and range reads, with a block cache of `cache` bytes.
fn options(cache: usize) -> Result<Options> {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(cache)?);
    blocks.set_bloom_filter(10.0, false);
    blocks.set_cache_index_and_filter_blocks(true);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::Zstd);
    options.increase_parallelism(2);
    Ok(options)
}

impl RocksDbKeyValue {
    /// Opens the store in `dir`, with a block cache of `cache` bytes.
    pub(super) fn open(
        class: DurabilityClass,
        format: EntryFormat,
        dir: &Path,
        cache: usize,
    ) -> Result<RocksDbKeyValue> {
        let db = DB::open(&options(cache)?, dir.join("db"))?;
        let mut write = WriteOptions::default();
        write.set_sync(class == DurabilityClass::Durable);
        Ok(RocksDbKeyValue { db, write, format })
    }
}

/// The entry at an iterator's position.
#[inline]
fn entry<'i>(on: &'i DBRawIterator<'_>) -> Option<(&'i [u8], &'i [u8])> {
    Some((on.key()?, on.value()?))
}

impl KeyValueStore for RocksDbKeyValue {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        for numbers in numbers.chunks(batch) {
            let mut changes = WriteBatch::default();
            for &n in numbers {
                let (key, value) = entries.entry(n, version);
                changes.put(key, value);
            }
            self.db.write_opt(changes, &self.write)?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        for numbers in numbers.chunks(batch) {
            // A single get needs no explicit snapshot.
            let snapshot = (batch > 1).then(|| self.db.snapshot());
            let mut options = ReadOptions::default();
            if let Some(snapshot) = &snapshot {
                options.set_snapshot(snapshot);
            }
            for &n in numbers {
                let found = self.db.get_pinned_opt(entries.key(n), &options)?;
                checksum.add_prefix(&found.ok_or("a key is missing")?);
            }
        }
        Ok(checksum.finish())
    }

    fn get_many(&self, numbers: &[u64], group: usize) -> Result<u64> {
        let mut checksum = Checksum::default();
        let mut buffers = vec![[0; 64]; group];
        for numbers in numbers.chunks(group) {
            let keys = numbers.iter().zip(&mut buffers).map(|(&n, buffer)| self.format.key(n, buffer));
            for found in self.db.multi_get(keys) {
                checksum.add_prefix(&found?.ok_or("a key is missing")?);
            }
        }
        Ok(checksum.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        let mut cursor = self.db.raw_iterator();
        for &n in numbers {
            cursor.seek(entries.key(n));
            checksum.add_prefix(entry(&cursor).ok_or("a key is missing")?.1);
        }
        Ok(cursor.status().map(|()| checksum.finish())?)
    }

    fn scan(&self, scan: Scan) -> Result<u64> {
        let mut checksum = Checksum::default();
        let mut cursor = self.db.raw_iterator();
        if scan == Scan::Backward {
            cursor.seek_to_last()
        } else {
            cursor.seek_to_first()
        }
        while let Some((key, value)) = entry(&cursor) {
            match scan {
                Scan::Verify => checksum.add_entry(key, value),
                _ => checksum.add_entry_prefix(key, value),
            }
            if scan == Scan::Backward { cursor.prev() } else { cursor.next() }
        }
        Ok(cursor.status().map(|()| checksum.finish())?)
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            std::hint::black_box(&self.db.snapshot());
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        let mut wait = FlushOptions::default();
        wait.set_wait(true);
        self.db.flush_opt(&wait)?;
        self.db.compact_range::<&[u8], &[u8]>(None, None);
        Ok(())
    }
}
