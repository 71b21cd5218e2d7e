use treedb_testing::Rng;

use super::crash::model::{State, dump};
use super::*;
use crate::Error;
use crate::disk::Disk;
use crate::disk::sim::Fault;

fn copy() -> PathBuf {
    PathBuf::from("/data/copy")
}

/// A store with tables of every kind, large values, free pages, and a dropped table with the highest number.
fn sample(disk: &SimDisk) -> Store {
    filled(disk, 3000)
}

fn filled(disk: &SimDisk, entries: u32) -> Store {
    let store = open(disk).unwrap();
    let mut rng = Rng::new(1);
    let mut txn = store.begin_write().unwrap();
    let keys = txn.create_table("keys", TableKind::Ordered).unwrap();
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    txn.create_table("dropped", TableKind::Rows).unwrap();
    txn.create_table("empty", TableKind::Ordered).unwrap();
    let pairs = txn.create_table("pairs", TableKind::Dup).unwrap();
    for n in 0..entries.min(400) {
        txn.put_pair(&pairs, if n < 9 { b"few" } else { b"many" }, format!("value {n}").as_bytes()).unwrap();
    }
    txn.create_table("gone", TableKind::Ordered).unwrap();
    txn.drop_table("gone").unwrap();
    for n in 0..entries {
        let len = if n.is_multiple_of(100) { 2000 + rng.below(300_000) } else { rng.below(200) };
        txn.put(&keys, format!("key {n:05}").as_bytes(), &vec![n as u8; len]).unwrap();
        txn.append_row(&rows, &vec![n as u8; rng.below(1500)]).unwrap();
    }
    txn.put(&keys, b"", b"the empty key").unwrap();
    let entries = u64::from(entries);
    for row in (entries * 9 / 10..=entries).chain(1..entries / 6) {
        txn.delete_row(&rows, row).unwrap();
    }
    txn.commit().unwrap();
    store
}

fn options_of_copy(disk: &SimDisk) -> Options {
    Options { max_bytes: 32 << 20, ..options(disk) }
}

fn open_copy(disk: &SimDisk) -> crate::Result<Store> {
    Store::open_with(copy(), options_of_copy(disk))
}

/// The contents of a store, and its next transaction and table numbers.
fn everything(store: &Store) -> (State, u64, u32) {
    store.check().unwrap();
    let state = dump(store).unwrap();
    let mut txn = store.begin_write().unwrap();
    let rows = txn.table("rows").unwrap().unwrap();
    let row = txn.append_row(&rows, b"").unwrap();
    let table = txn.create_table("another", TableKind::Rows).unwrap();
    (state, row, table.id())
}

#[test]
fn a_copy_has_everything_and_continues_the_numbering_of_the_original() {
    let disk = SimDisk::new();
    let store = sample(&disk);
    let mut told = Vec::new();
    let copied = store.backup_to(copy(), |so_far| told.push(so_far)).unwrap();
    assert_eq!(everything(&open_copy(&disk).unwrap()), everything(&store));
    assert_eq!(copied.entries, copied.of);
    assert_eq!(told.last(), Some(&copied));
    assert!(told.len() > 1 && told.is_sorted_by_key(|c| (c.entries, c.bytes)), "{told:?}");
    assert!(store.readers().is_empty());
    assert!(!disk.exists(Path::new("/data/copy.partial")).unwrap());
}

#[test]
fn a_stream_restores_everything() {
    let disk = SimDisk::new();
    let store = sample(&disk);
    let mut stream = Vec::new();
    let written = store.backup(&mut stream, |_| {}).unwrap();
    let read = Store::restore(&mut &*stream, copy(), &options_of_copy(&disk), |_| {}).unwrap();
    assert_eq!((read.entries, read.of), (written.entries, written.of));
    assert_eq!(everything(&open_copy(&disk).unwrap()), everything(&store));
}

#[test]
fn a_copy_is_compact_and_has_no_log_to_replay() {
    let disk = SimDisk::new();
    let store = sample(&disk);
    let mut txn = store.begin_write().unwrap();
    let keys = txn.table("keys").unwrap().unwrap();
    for n in (0..3000u32).filter(|n| n % 7 != 0) {
        txn.delete(&keys, format!("key {n:05}").as_bytes()).unwrap();
    }
    txn.commit().unwrap();
    store.backup_to(copy(), |_| {}).unwrap();
    let (before, after) = (store.stats(), open_copy(&disk).unwrap().stats());
    assert!(after.pages.live <= before.pages.live);
    assert!(after.pages.free <= after.pages.live / 8 + 16, "{after:?}");
    assert!(after.values.bytes * 9 / 10 <= after.values.live, "{after:?}");
    assert!(after.log.bytes < 200, "{after:?}");
}

#[test]
fn writers_are_not_blocked_by_a_copy_of_a_snapshot() {
    let disk = SimDisk::new();
    let store = sample(&disk);
    let before = dump(&store).unwrap();
    let mut commits = 0;
    store
        .backup_to(copy(), |_| {
            let mut txn = store.begin_write().unwrap();
            let keys = txn.table("keys").unwrap().unwrap();
            txn.put(&keys, b"later", &[commits; 5000]).unwrap();
            txn.delete(&keys, format!("key {:05}", 2999 - u32::from(commits)).as_bytes()).unwrap();
            txn.commit().unwrap();
            commits += 1;
            store.checkpoint().unwrap();
        })
        .unwrap();
    assert!(commits >= 1);
    assert_eq!(dump(&open_copy(&disk).unwrap()).unwrap(), before);
    store.check().unwrap();
}

#[test]
fn a_copy_is_not_made_to_a_directory_that_is_not_empty() {
    let disk = SimDisk::new();
    let store = sample(&disk);
    store.backup_to(copy(), |_| {}).unwrap();
    for refused in [
        store.backup_to(copy(), |_| {}),
        store.backup_to(dir(), |_| {}),
        store.backup_to("/", |_| {}),
        Store::restore(&mut &b""[..], copy(), &options(&disk), |_| {}),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Invalid(_) | Error::Corrupt(_)), "{error}");
    }
    let error = store.backup_to(copy(), |_| {}).unwrap_err().to_string();
    assert!(error.contains("/data/copy") && error.contains("name a directory that is empty"), "{error}");
    // An empty directory is accepted.
    disk.create_dir(Path::new("/data/empty")).unwrap();
    store.backup_to("/data/empty", |_| {}).unwrap();
}

#[test]
fn a_copy_on_a_real_disk_opens() {
    let temp = TempDir::new("backup");
    let store =
        Store::open_with(temp.path().join("store"), Options { background: false, ..Options::default() })
            .unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Rows).unwrap();
    for n in 0..100u8 {
        txn.append_row(&table, &vec![n; usize::from(n) * 50]).unwrap();
    }
    txn.commit().unwrap();
    let to = temp.path().join("copy");
    std::fs::create_dir_all(to.with_file_name("copy.partial/values")).unwrap();
    std::fs::write(to.with_file_name("copy.partial/values/x"), b"left by an interrupted copy").unwrap();
    store.backup_to(&to, |_| {}).unwrap();
    assert_eq!(dump(&Store::open(&to).unwrap()).unwrap(), dump(&store).unwrap());
    let error = store.backup_to(&to, |_| {}).unwrap_err().to_string();
    assert!(error.contains("is in it"), "{error}");
    assert!(!to.with_file_name("copy.partial").exists());
}

#[test]
fn a_damaged_or_truncated_stream_restores_nothing() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let keys = txn.create_table("keys", TableKind::Ordered).unwrap();
    for n in 0..20u8 {
        txn.put(&keys, &[n], &[n; 30]).unwrap();
    }
    txn.commit().unwrap();
    let mut stream = Vec::new();
    store.backup(&mut stream, |_| {}).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        let error = Store::restore(&mut &*bytes, copy(), &options_of_copy(&disk), |_| {}).expect_err(what);
        assert!(matches!(error, Error::Corrupt(_) | Error::Format { .. }), "{what}: {error}");
        assert!(!disk.exists(&copy()).unwrap(), "{what}");
        assert!(!disk.exists(Path::new("/data/copy.partial")).unwrap(), "{what}");
    };
    for len in 0..stream.len() {
        refused(&stream[..len], &format!("cut at {len}"));
    }
    for at in 0..stream.len() {
        let mut bad = stream.clone();
        bad[at] ^= 1 << (at % 8);
        refused(&bad, &format!("byte {at} flipped"));
    }
    Store::restore(&mut &*stream, copy(), &options_of_copy(&disk), |_| {}).unwrap();
}

#[test]
fn a_copy_that_fails_leaves_no_files_and_does_not_affect_the_store() {
    let disk = SimDisk::new();
    let store = filled(&disk, 60);
    // Values that are only in memory are written when they are read; this must not fail as part of the copy.
    dump(&store).unwrap();
    let used = disk.used();
    let mut failures = 0;
    for call in 0.. {
        let fault = if call % 2 == 0 { Fault::Full } else { Fault::Io };
        disk.fail_at(disk.tried() + call, fault, false);
        let done = store.backup_to(copy(), |_| {});
        disk.heal();
        match done {
            Ok(_) => break,
            Err(Error::DiskFull { .. } | Error::Io { .. } | Error::Poisoned { .. }) => failures += 1,
            Err(other) => panic!("call {call}: {other}"),
        }
        assert_eq!(disk.used(), used, "call {call}");
        assert!(!disk.exists(&copy()).unwrap());
    }
    assert!(failures > 10, "{failures}");
    assert_eq!(store.poisoned(), None);
    assert_eq!(dump(&open_copy(&disk).unwrap()).unwrap(), dump(&store).unwrap());
}
