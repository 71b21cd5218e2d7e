//! Files of derived data, local tables, and the numbers of transactions after a lost checkpoint.

use std::io::{Read, Write};

use super::*;
use crate::Error;
use crate::disk::Disk;
use crate::disk::crash::Crash;

const NAME: &str = "some-7";
const OF: Identity = [7; 64];

/// What a file has, as far as it can be read.
fn read(files: &DerivedFiles, of: &Identity) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let mut reader = files.open(NAME, of).unwrap()?;
    reader.read_to_end(&mut all).ok().map(|_| all)
}

#[test]
fn a_derived_file_is_there_whole_and_of_its_identity_or_not_at_all() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let files = store.derived_files().unwrap();
    let path = dir().join("derived").join(NAME);
    for len in [0, 1, 65_535, 65_536, 65_537, 150_000] {
        let content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        files.write(NAME, &OF, |out| out.write_all(&content)).unwrap();
        assert_eq!(read(&files, &OF), Some(content.clone()));
        assert_eq!(read(&files, &[8; 64]), None);
        let bytes = disk.contents(&path).unwrap();
        for at in (0..bytes.len()).filter(|at| *at < 200 || at % 4_999 == 0 || at + 10 > bytes.len()) {
            disk.overwrite(&path, bytes[..at].to_vec());
            assert_eq!(read(&files, &OF), None, "{at} of {len}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            disk.overwrite(&path, flipped);
            assert_eq!(read(&files, &OF), None, "{at} of {len}");
        }
    }
    assert_eq!(files.names().unwrap(), [NAME]);
    files.remove(NAME).unwrap();
    assert_eq!(read(&files, &OF), None);
}

#[test]
fn a_store_that_is_encrypted_or_in_memory_writes_no_derived_files_and_removes_those_that_it_finds() {
    let disk = SimDisk::new();
    let with_key = Options { key: Some(crate::Key::new([1; crate::Key::LEN])), ..options(&disk) };
    let encrypted = Store::open_with(dir(), with_key).unwrap();
    assert!(encrypted.derived_files().is_none());
    let (path, other) = (dir().join("derived").join(NAME), dir().join("derived").join("other"));
    [&path, &other].into_iter().for_each(|path| disk.overwrite(path, vec![1]));
    assert!(encrypted.remove_derived_files(|name| name == NAME));
    assert!(!disk.exists(&path).unwrap() && disk.exists(&other).unwrap());
    assert!(!encrypted.remove_derived_files(|name| name == NAME));
    let mut in_memory = options(&disk);
    in_memory.disk = Arc::new(crate::disk::MemoryDisk::new());
    assert!(Store::open_with(dir(), in_memory).unwrap().derived_files().is_none());
    assert!(open(&SimDisk::new()).unwrap().derived_files().is_some());
}

#[test]
fn what_goes_on_writing_after_a_failed_write_gets_the_same_error() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let files = store.derived_files().unwrap();
    disk.set_room(Some(disk.used() + 100_000));
    let mut failures = Vec::new();
    let result = files.write(NAME, &OF, |out| {
        for _ in 0..10 {
            failures.extend(out.write_all(&[7; 50_000]).err().map(|error| error.to_string()));
        }
        Ok(())
    });
    assert!(matches!(result, Err(Error::DiskFull { .. })), "{result:?}");
    assert!(failures.len() > 2 && failures.iter().all(|failure| *failure == failures[0]), "{failures:?}");
    assert!(files.names().unwrap().is_empty());
}

#[test]
fn names_of_local_tables_are_refused_but_where_they_are_asked_for() {
    let store = open(&SimDisk::new()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let local = format!("{LOCAL_TABLES}own");
    let is_refused = |result: crate::Result<()>| matches!(result, Err(Error::Invalid(_)));
    assert!(is_refused(txn.create_table(&local, TableKind::Ordered).map(drop)));
    assert!(is_refused(txn.open_table(&local, TableKind::Ordered).map(drop)));
    assert!(is_refused(txn.open_local_table("own", TableKind::Ordered).map(drop)));
    let table = txn.open_local_table(&local, TableKind::Ordered).unwrap();
    txn.put(&table, b"a", b"1").unwrap();
    assert!(is_refused(txn.rename_table(&local, "own").map(drop)));
    txn.create_table("other", TableKind::Ordered).unwrap();
    assert!(is_refused(txn.rename_table("other", &format!("{LOCAL_TABLES}other")).map(drop)));
    assert_eq!(txn.open_local_table(&local, TableKind::Ordered).unwrap().id(), table.id());
    txn.commit().unwrap();
}

#[test]
fn derived_files_without_a_page_file_are_no_beginning_of_a_store() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.derived_files().unwrap().write(NAME, &OF, |out| out.write_all(b"x")).unwrap();
    store.close().unwrap();
    disk.remove(&dir().join("pages")).unwrap();
    assert!(matches!(open(&disk).unwrap_err(), Error::Corrupt(_)));
    let other = SimDisk::new();
    other.overwrite(&dir().join("derived").join(NAME), vec![1]);
    assert!(matches!(open(&other).unwrap_err(), Error::Invalid(_)));
}

#[test]
fn what_is_recovered_without_the_newest_checkpoint_is_of_a_later_transaction_than_it() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let put = |store: &Store, row: u64| {
        let mut txn = store.begin_write().unwrap();
        let table = txn.open_table("rows", TableKind::Rows).unwrap();
        txn.put_row(&table, row, &row.to_le_bytes()).unwrap();
        txn.commit().unwrap();
    };
    put(&store, 1);
    store.checkpoint().unwrap();
    (2..12).for_each(|row| put(&store, row));
    store.checkpoint().unwrap();
    let since = store.stats().checkpoint;
    let disk = disk.crash(Crash::Everything);
    let path = dir().join("pages");
    let mut pages = disk.contents(&path).unwrap();
    let number = |at: usize| u64::from_le_bytes(pages[at + 16..at + 24].try_into().unwrap());
    let newest = if number(0) > number(4096) { 0 } else { 4096 };
    pages[newest + 30] ^= 1;
    disk.overwrite(&path, pages);
    for round in 0..3 {
        let store = open(&disk).unwrap();
        let reads = store.begin_read().unwrap();
        let stats = store.stats();
        assert!(stats.txn > since, "{round}");
        // As many as there were, about: what was recovered is one.
        assert!(stats.commits() > 2 && stats.commits() < 100, "{stats:?}");
        assert!(stats.commits_since_checkpoint() < 20, "{stats:?}");
        let table = reads.table("rows").unwrap().unwrap();
        let ranges = reads.new_rows(&table, since).unwrap();
        assert!((2..12).all(|row| ranges.iter().any(|range| range.contains(&row))), "{round}");
        drop(reads);
        put(&store, 12 + round);
        store.close().unwrap();
        assert_eq!(open(&disk).unwrap().check().unwrap().tables, 1);
    }
}
