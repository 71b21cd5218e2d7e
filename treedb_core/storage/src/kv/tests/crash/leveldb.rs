//! Power cuts with the LevelDB interface, and during destroy and repair.

use std::collections::BTreeMap;

use treedb_testing::Rng;

use super::super::*;
use super::model::{Op, dump};
use super::run::{Commit, Run};
use super::summary;
use crate::Error;
use crate::disk::Disk;
use crate::disk::crash::Crash;
use crate::kv::leveldb::{self, Db, ReadOptions, TABLE, WriteBatch, WriteOptions};

impl Run {
    /// A write with or without sync, or a compaction.
    pub(super) fn step_leveldb(&mut self, store: &Store) -> crate::Result<()> {
        if !self.state.contains_key(TABLE) {
            let commit = Commit {
                ops: vec![Op::Create { table: TABLE.into() }],
                how: Durability::Durable,
                begun: self.disk.boundaries(),
                acked: u64::MAX,
            };
            let visible = store.stats().txn;
            let made = Db::of(store.clone()).map(drop);
            self.ended(store, commit, visible, &made, Vec::new());
            made?;
        }
        if self.rng.chance(6) {
            return self.compact(store);
        }
        let db = Db::of(store.clone())?;
        let (mut batch, mut ops) = (WriteBatch::new(), Vec::new());
        for _ in 0..1 + self.rng.below(self.profile.ops) {
            let (table, key, value) = (TABLE.to_owned(), self.key(), self.value());
            if self.rng.chance(self.profile.delete) {
                batch.delete(&key);
                ops.push(Op::Remove { table, key });
            } else {
                batch.put(&key, &value);
                ops.push(Op::Set { table, key, value });
            }
        }
        let sync = self.rng.chance(self.profile.durable);
        let how = if sync { Durability::Durable } else { Durability::Relaxed };
        let (begun, visible) = (self.disk.boundaries(), store.stats().txn);
        let written = db.write(WriteOptions { sync }, &batch);
        self.ended(store, Commit { ops, how, begun, acked: u64::MAX }, visible, &written, Vec::new());
        written
    }
}

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn options_on(disk: &SimDisk) -> leveldb::Options {
    leveldb::Options { disk: Arc::new(disk.clone()), create_if_missing: true, ..leveldb::Options::default() }
}

/// A database with some keys and one large value, closed.
fn filled() -> (SimDisk, Entries) {
    let (disk, mut entries) = (SimDisk::new(), Entries::new());
    let db = Db::open(dir(), options_on(&disk)).unwrap();
    for n in 0..300u32 {
        let value = n.to_le_bytes().repeat(if n == 7 { 2000 } else { 10 });
        db.put(WriteOptions { sync: n % 50 == 0 }, &n.to_be_bytes(), &value).unwrap();
        entries.insert(n.to_be_bytes().to_vec(), value);
    }
    drop(db);
    (disk, entries)
}

fn entries(db: &Db) -> Entries {
    let (mut it, mut entries) = (db.iter(ReadOptions::default()).unwrap(), Entries::new());
    it.seek_to_first();
    while it.valid() {
        entries.insert(it.key().to_vec(), it.value().to_vec());
        it.next();
    }
    it.status().unwrap();
    entries
}

/// A selection of outcomes for these slower checks.
fn some(point: u64) -> [Crash; 5] {
    [Crash::Nothing, Crash::Everything, Crash::NamesOnly, Crash::Random(point), Crash::Random(!point)]
}

#[test]
fn an_interrupted_destroy_leaves_an_intact_database_or_one_that_can_be_destroyed() {
    let (disk, whole) = filled();
    disk.record();
    leveldb::destroy(dir(), &options_on(&disk)).unwrap();
    let end = disk.boundaries();
    let (mut replay, mut images, mut gone) = (disk.replay(), 0, 0);
    while let Some(point) = replay.next_point() {
        for crash in some(point) {
            let what = format!("power cut after {point} calls, {crash:?}");
            let disk = replay.crash(crash);
            images += 1;
            let there = disk.exists(&dir()).unwrap();
            assert!(point < end || !there, "{what}: the database reappeared");
            if disk.exists(&dir().join("pages")).unwrap() {
                assert_eq!(entries(&Db::open(dir(), options_on(&disk)).unwrap()), whole, "{what}");
            }
            leveldb::destroy(dir(), &options_on(&disk)).unwrap_or_else(|e| panic!("{what}: {e}"));
            gone += u32::from(!there);
            let db = Db::open(dir(), options_on(&disk)).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(entries(&db).is_empty(), "{what}");
        }
    }
    summary(&format!("LevelDB's destroy: {images} outcomes, the directory gone in {gone}"));
    assert!(images > 50 && gone > 0);
}

#[test]
fn after_an_interrupted_repair_the_database_is_not_empty_and_repair_can_be_completed() {
    let (disk, whole) = filled();
    // Damages one value in a leaf.
    let pages = dir().join("pages");
    let mut bytes = disk.contents(&pages).unwrap();
    let value = 150u32.to_le_bytes().repeat(10);
    let at = bytes.windows(value.len()).position(|window| window == value).unwrap();
    bytes[at] ^= 1;
    disk.overwrite(&pages, bytes);
    disk.record();
    assert!(leveldb::repair(dir(), &options_on(&disk)).unwrap());
    let repaired = entries(&Db::open(dir(), options_on(&disk)).unwrap());
    assert!(repaired.len() < whole.len() && repaired.len() > 100, "{}", repaired.len());
    let (mut replay, mut images, mut halves) = (disk.replay(), 0, 0);
    let mut rng = Rng::new(1);
    while let Some(point) = replay.next_point() {
        for crash in some(point) {
            let what = format!("power cut after {point} calls, {crash:?}");
            let disk = replay.crash(crash);
            let state = |what: &str| {
                disk.exists(&dir().with_file_name(format!("store.{what}")).join("pages")).unwrap()
            };
            let half = state("damaged") && state("repaired");
            // The steps between the two renames are tested completely; of the copying, which takes long, only
            // a sample.
            if !half && !state("damaged") && !rng.chance(20) {
                continue;
            }
            images += 1;
            halves += u32::from(half);
            if half {
                let refused = Db::open(dir(), options_on(&disk)).unwrap_err();
                assert!(
                    matches!(&refused, Error::Invalid(why) if why.contains("call repair")),
                    "{what}: {refused}"
                );
            }
            match leveldb::repair(dir(), &options_on(&disk)) {
                Ok(_) => {}
                // The repaired copy is already complete; it is not removed without being requested.
                Err(Error::Invalid(why)) => {
                    assert!(why.contains("store.repaired") && state("repaired"), "{what}: {why}");
                    leveldb::destroy(dir().with_file_name("store.repaired"), &options_on(&disk)).unwrap();
                    assert!(leveldb::repair(dir(), &options_on(&disk)).unwrap(), "{what}");
                }
                Err(other) => panic!("{what}: {other}"),
            }
            let db = Db::open(dir(), options_on(&disk)).unwrap_or_else(|e| panic!("{what}: {e}"));
            db.store().check().unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(dump(db.store()).unwrap()[TABLE], repaired, "{what}");
        }
    }
    summary(&format!("LevelDB's repair: {images} outcomes, {halves} of them between its two last steps"));
    assert!(images > 20 && halves > 0);
}
