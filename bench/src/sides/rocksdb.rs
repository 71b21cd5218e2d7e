//! RocksDB, the system's library, with zstd.

use std::path::Path;

use ::rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRawIterator, FlushOptions, Options, ReadOptions,
    WriteBatch, WriteOptions,
};

use super::{Class, Form, Keys, Maker, Walk};
use crate::Result;
use crate::contest::Answer;

/// RocksDB as a key/value store.
pub(super) struct RocksDbKeys {
    db: DB,
    write: WriteOptions,
    form: Form,
}

/// Options for a store that reads points and ranges, with a cache of `cache` bytes.
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

impl RocksDbKeys {
    /// The store in `dir`, with a cache of `cache` bytes.
    pub(super) fn open(class: Class, form: Form, dir: &Path, cache: usize) -> Result<RocksDbKeys> {
        let db = DB::open(&options(cache)?, dir.join("db"))?;
        let mut write = WriteOptions::default();
        write.set_sync(class == Class::Durable);
        Ok(RocksDbKeys { db, write, form })
    }
}

/// The entry an iterator is on.
#[inline]
fn entry<'i>(on: &'i DBRawIterator<'_>) -> Option<(&'i [u8], &'i [u8])> {
    Some((on.key()?, on.value()?))
}

impl Keys for RocksDbKeys {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut make = Maker::pairs(self.form);
        for numbers in numbers.chunks(batch) {
            let mut changes = WriteBatch::default();
            for &n in numbers {
                let (key, value) = make.pair(n, version);
                changes.put(key, value);
            }
            self.db.write_opt(changes, &self.write)?;
        }
        Ok(())
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        for numbers in numbers.chunks(batch) {
            // A single get is a snapshot of its own.
            let snapshot = (batch > 1).then(|| self.db.snapshot());
            let mut options = ReadOptions::default();
            if let Some(snapshot) = &snapshot {
                options.set_snapshot(snapshot);
            }
            for &n in numbers {
                let found = self.db.get_pinned_opt(make.key(n), &options)?;
                answer.glance(&found.ok_or("a key is missing")?);
            }
        }
        Ok(answer.finish())
    }

    fn get_many(&self, numbers: &[u64], group: usize) -> Result<u64> {
        let mut answer = Answer::default();
        let mut rooms = vec![[0; 64]; group];
        for numbers in numbers.chunks(group) {
            let keys = numbers.iter().zip(&mut rooms).map(|(&n, room)| self.form.key(n, room));
            for found in self.db.multi_get(keys) {
                answer.glance(&found?.ok_or("a key is missing")?);
            }
        }
        Ok(answer.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut make, mut answer) = (Maker::keys(self.form), Answer::default());
        let mut cursor = self.db.raw_iterator();
        for &n in numbers {
            cursor.seek(make.key(n));
            answer.glance(entry(&cursor).ok_or("a key is missing")?.1);
        }
        Ok(cursor.status().map(|()| answer.finish())?)
    }

    fn walk(&self, how: Walk) -> Result<u64> {
        let mut answer = Answer::default();
        let mut cursor = self.db.raw_iterator();
        if how == Walk::Backward {
            cursor.seek_to_last()
        } else {
            cursor.seek_to_first()
        }
        while let Some((key, value)) = entry(&cursor) {
            match how {
                Walk::Whole => answer.pair(key, value),
                _ => answer.pass(key, value),
            }
            if how == Walk::Backward { cursor.prev() } else { cursor.next() }
        }
        Ok(cursor.status().map(|()| answer.finish())?)
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            std::hint::black_box(&self.db.snapshot());
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let mut wait = FlushOptions::default();
        wait.set_wait(true);
        self.db.flush_opt(&wait)?;
        self.db.compact_range::<&[u8], &[u8]>(None, None);
        Ok(())
    }
}
