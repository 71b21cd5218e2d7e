//! The LevelDB interface and its semantics.

use super::TempDir;
use crate::Error;
use crate::kv::leveldb::*;
use crate::kv::{Reads, Store};

fn create() -> Options {
    Options { create_if_missing: true, ..Options::default() }
}

fn open(dir: &TempDir) -> Db {
    Db::open(dir.path(), create()).unwrap()
}

const SYNC: WriteOptions = WriteOptions { sync: true };

fn put(db: &Db, key: &str, value: &str) {
    db.put(WriteOptions::default(), key.as_bytes(), value.as_bytes()).unwrap();
}

fn get(db: &Db, key: &str) -> Option<String> {
    let value = db.get(ReadOptions::default(), key.as_bytes()).unwrap();
    value.map(|value| String::from_utf8(value).unwrap())
}

fn keys(mut it: DbIterator<'_>) -> Vec<String> {
    let mut keys = Vec::new();
    it.seek_to_first();
    while it.valid() {
        keys.push(String::from_utf8(it.key().to_vec()).unwrap());
        it.next();
    }
    it.status().unwrap();
    keys
}

#[test]
fn create_if_missing_and_error_if_exists_are_honoured() {
    let dir = TempDir::new("leveldb-open");
    let missing = Db::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(&missing, Error::Invalid(why) if why.contains("create_if_missing")), "{missing}");
    assert!(!dir.path().exists());
    put(&open(&dir), "k", "v");
    let there = Db::open(dir.path(), Options { error_if_exists: true, ..create() }).unwrap_err();
    assert!(matches!(&there, Error::Invalid(why) if why.contains("error_if_exists")), "{there}");
    assert_eq!(get(&Db::open(dir.path(), Options::default()).unwrap(), "k").as_deref(), Some("v"));
}

#[test]
fn the_last_write_of_a_key_wins_and_a_missing_key_may_be_deleted() {
    let dir = TempDir::new("leveldb-put");
    let db = open(&dir);
    put(&db, "a", "1");
    put(&db, "a", "2");
    put(&db, "", "the empty key");
    db.delete(SYNC, b"nothing").unwrap();
    assert_eq!((get(&db, "a").as_deref(), get(&db, "").as_deref()), (Some("2"), Some("the empty key")));
    db.delete(SYNC, b"a").unwrap();
    assert_eq!(get(&db, "a"), None);
}

#[test]
fn a_batch_is_applied_in_order_and_atomically() {
    let dir = TempDir::new("leveldb-batch");
    let db = open(&dir);
    let (mut batch, mut more) = (WriteBatch::new(), WriteBatch::new());
    batch.put(b"a", b"1");
    batch.delete(b"a");
    batch.put(b"b", b"2");
    more.put(b"b", b"3");
    more.delete(b"");
    batch.append(&more);
    let changes: Vec<_> = batch.iter().collect();
    assert_eq!((changes.len(), batch.len(), batch.approximate_size()), (5, 5, 7));
    assert_eq!((changes[1], changes[3]), (Change::Delete(b"a"), Change::Put(b"b", b"3")));
    db.write(SYNC, &batch).unwrap();
    assert_eq!((get(&db, "a"), get(&db, "b").as_deref()), (None, Some("3")));
    // One key is too long: none of the batch is applied.
    batch.put(&[0; 5000], b"");
    batch.put(b"c", b"4");
    assert!(matches!(db.write(SYNC, &batch), Err(Error::KeyTooLong { .. })));
    assert_eq!(get(&db, "c"), None);
    batch.clear();
    assert!(batch.is_empty() && batch.iter().next().is_none());
}

#[test]
fn an_iterator_moves_in_both_directions_and_is_invalid_beyond_the_ends() {
    let dir = TempDir::new("leveldb-iter");
    let db = open(&dir);
    let mut empty = db.iter(ReadOptions::default()).unwrap();
    empty.seek_to_first();
    assert!(!empty.valid());
    drop(empty);
    for key in ["b", "d", "f"] {
        put(&db, key, &key.to_uppercase());
    }
    let mut it = db.iter(ReadOptions::default()).unwrap();
    assert!(!it.valid());
    it.seek(b"c");
    assert_eq!(it.entry(), (&b"d"[..], &b"D"[..]));
    it.prev();
    assert_eq!(it.key(), b"b");
    it.prev();
    assert!(!it.valid() && it.entry() == (&b""[..], &b""[..]));
    it.next();
    assert!(!it.valid(), "only a seek makes it valid again");
    it.seek_to_last();
    assert_eq!(it.key(), b"f");
    it.next();
    assert!(!it.valid());
    it.seek(b"g");
    assert!(!it.valid());
    it.status().unwrap();
}

#[test]
fn a_snapshot_and_an_iterator_see_the_state_at_their_creation() {
    let dir = TempDir::new("leveldb-snapshot");
    let db = open(&dir);
    put(&db, "a", "1");
    let snapshot = db.snapshot().unwrap();
    let it = db.iter(ReadOptions::default()).unwrap();
    put(&db, "a", "2");
    put(&db, "b", "2");
    let then = ReadOptions { snapshot: Some(&snapshot) };
    assert_eq!(db.get(then, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!((keys(it), keys(db.iter(then).unwrap())), (vec!["a".to_owned()], vec!["a".to_owned()]));
    assert_eq!(keys(db.iter(ReadOptions::default()).unwrap()), ["a", "b"]);
    assert_eq!(db.store().readers().len(), 1);
}

#[test]
fn properties_and_approximate_sizes_are_approximately_correct() {
    let dir = TempDir::new("leveldb-about");
    let db = open(&dir);
    let mut batch = WriteBatch::new();
    for n in 0..10_000u32 {
        batch.put(&n.to_be_bytes(), &[7; 100]);
    }
    db.write(WriteOptions::default(), &batch).unwrap();
    db.compact_range(None, None).unwrap();
    let key = |n: u32| n.to_be_bytes();
    let ranges: [(&[u8], &[u8]); 3] = [(&key(0), &key(5000)), (&key(2000), &key(4000)), (&key(9), &key(3))];
    let sizes = db.approximate_sizes(&ranges).unwrap();
    let part = |bytes: u64| bytes as f64 / 1_160_000.0;
    assert!((0.4..0.7).contains(&part(sizes[0])) && (0.12..0.3).contains(&part(sizes[1])), "{sizes:?}");
    assert_eq!(sizes[2], 0);
    let stats = db.property("leveldb.stats").unwrap().unwrap();
    assert!(stats.contains("10000 keys"), "{stats}");
    assert!(db.property("leveldb.sstables").unwrap().unwrap().starts_with("pages "));
    assert_eq!(db.property("leveldb.num-files-at-level0").unwrap().as_deref(), Some("1"));
    assert!(db.property("leveldb.approximate-memory-usage").unwrap().unwrap().parse::<u64>().is_ok());
    for unknown in ["leveldb.num-files-at-level7", "leveldb.nonsense", "stats"] {
        assert_eq!(db.property(unknown).unwrap(), None);
    }
}

#[test]
fn destroy_removes_the_database_and_nothing_else() {
    let dir = TempDir::new("leveldb-destroy");
    put(&open(&dir), "a", "1");
    std::fs::write(dir.path().join("letter.txt"), "mine").unwrap();
    destroy(dir.path(), &Options::default()).unwrap();
    assert!(Db::open(dir.path(), Options::default()).is_err());
    assert_eq!(std::fs::read(dir.path().join("letter.txt")).unwrap(), b"mine");
    std::fs::remove_file(dir.path().join("letter.txt")).unwrap();
    put(&open(&dir), "b", "2");
    destroy(dir.path(), &Options::default()).unwrap();
    assert!(!dir.path().exists());
    destroy(dir.path(), &Options::default()).unwrap();
}

#[test]
fn repair_keeps_readable_entries_and_does_not_change_an_intact_database() {
    let dir = TempDir::new("leveldb-repair");
    let aside = format!("{}.damaged", dir.path().display());
    let _ = std::fs::remove_dir_all(&aside);
    let db = open(&dir);
    let mut batch = WriteBatch::new();
    for n in 0..5000u32 {
        batch.put(&n.to_be_bytes(), &[&n.to_be_bytes()[..], &[7; 60]].concat());
    }
    db.write(SYNC, &batch).unwrap();
    drop(db);
    assert!(!repair(dir.path(), &Options::default()).unwrap());
    // One leaf somewhere in the middle is damaged.
    let pages = dir.path().join("pages");
    let mut bytes = std::fs::read(&pages).unwrap();
    let value = [&2500u32.to_be_bytes()[..], &[7; 60]].concat();
    let at = bytes.windows(value.len()).position(|window| window == value).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&pages, bytes).unwrap();
    assert!(Store::open(dir.path()).unwrap().check().is_err());
    assert!(repair(dir.path(), &Options::default()).unwrap());
    let db = open(&dir);
    db.store().check().unwrap();
    let read = db.store().begin_read().unwrap();
    let table = read.table(TABLE).unwrap().unwrap();
    let left = read.len(&table).unwrap();
    assert!((4800..5000).contains(&left), "{left}");
    assert_eq!(read.first(&table).unwrap().unwrap().0, 0u32.to_be_bytes());
    assert_eq!(read.last(&table).unwrap().unwrap().0, 4999u32.to_be_bytes());
    assert!(std::path::Path::new(&aside).join("pages").exists());
    std::fs::remove_dir_all(aside).unwrap();
}
