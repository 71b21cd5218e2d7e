//! Files of derived data, local tables, and the numbers of transactions after a lost checkpoint.

use std::io::Write;

use super::*;
use crate::Error;
use crate::disk::Disk;
use crate::disk::crash::Crash;

const NAME: &str = "some-7";
const OF: Identity = [7; 64];

/// What a file has, as far as it can be read.
fn read(files: &DerivedFiles, of: &Identity) -> Option<Vec<u8>> {
    let map = files.map(NAME, of).unwrap()?;
    map.read(0..map.len()).ok().map(<[u8]>::to_vec)
}

#[test]
fn a_derived_file_is_there_whole_and_of_its_identity_or_not_at_all() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let files = store.derived_files().unwrap();
    let path = dir().join("derived").join(NAME);
    for len in [0, 1, 4_095, 4_096, 4_097, 65_535, 65_536, 65_537, 150_000] {
        let content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        files.write(NAME, &OF, |out| out.write_all(&content)).unwrap();
        assert_eq!(read(&files, &OF), Some(content.clone()));
        assert_eq!(read(&files, &[8; 64]), None);
        let bytes = disk.contents(&path).unwrap();
        let chosen = |at: &usize| *at < 200 || at.is_multiple_of(4_999) || at + 300 > bytes.len();
        for at in (0..bytes.len()).filter(chosen) {
            // A file has other bytes only under another name, or after another opening of the disk.
            let disk = SimDisk::new();
            let store = open(&disk).unwrap();
            let files = store.derived_files().unwrap();
            disk.overwrite(&path, bytes[..at].to_vec());
            assert_eq!(read(&files, &OF), None, "{at} of {len}");
            // Between the header and the content there is nothing.
            if (128..4_096).contains(&at) {
                continue;
            }
            disk.remove(&path).unwrap();
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
fn a_damaged_block_of_a_mapped_file_is_told_when_it_is_asked_for_and_the_others_are_read() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let files = store.derived_files().unwrap();
    let path = dir().join("derived").join(NAME);
    let content: Vec<u8> = (0..50_000).map(|at| (at % 251) as u8).collect();
    files.write(NAME, &OF, |out| out.write_all(&content)).unwrap();
    let mut bytes = disk.contents(&path).unwrap();
    let block = 4_096;
    bytes[block + 5 * block + 17] ^= 4;
    disk.overwrite(&path, bytes);
    let map = files.map(NAME, &OF).unwrap().unwrap();
    assert_eq!((map.len(), map.bytes().as_ptr() as usize % block), (50_000, 0));
    for at in 0..50_000 / block {
        let range = at * block + 10..at * block + 11;
        assert_eq!(map.read(range.clone()).ok(), (at != 5).then(|| &content[range]), "{at}");
    }
    assert!(!map.is_intact(0..50_000) && map.is_intact(6 * block..50_000) && map.is_intact(7..7));
    assert!(!map.is_intact(6 * block..50_001) && map.read(50_000..50_001).is_err());
    assert!(map.read(5 * block - 1..5 * block).is_ok() && map.read(5 * block - 1..5 * block + 1).is_err());
}

#[test]
fn a_mapped_file_keeps_its_bytes_when_another_takes_its_name_and_when_it_is_removed() {
    let of_system = tempfile::tempdir().unwrap();
    for on_disk in [false, true] {
        let store =
            if on_disk { Store::open(of_system.path()).unwrap() } else { open(&SimDisk::new()).unwrap() };
        let files = store.derived_files().unwrap();
        let write = |byte: u8| files.write(NAME, &OF, |out| out.write_all(&[byte; 30_000])).unwrap();
        write(1);
        let first = files.map(NAME, &OF).unwrap().unwrap();
        assert!(first.is_intact(0..10));
        write(2);
        let second = files.map(NAME, &OF).unwrap().unwrap();
        files.remove(NAME).unwrap();
        assert!(files.map(NAME, &OF).unwrap().is_none());
        store.close().unwrap();
        assert_eq!(first.read(0..30_000).unwrap(), [1; 30_000]);
        assert_eq!(second.read(0..30_000).unwrap(), [2; 30_000]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_derived_file_is_mapped_so_that_the_system_lets_nothing_be_written_into_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let files = store.derived_files().unwrap();
    files.write(NAME, &OF, |out| out.write_all(&[1; 30_000])).unwrap();
    let map = files.map(NAME, &OF).unwrap().unwrap();
    let path = std::fs::canonicalize(directory.path().join("derived").join(NAME)).unwrap();
    let all = std::fs::read_to_string("/proc/self/maps").unwrap();
    let rights = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let of_file: Vec<_> =
        all.lines().filter(|line| line.ends_with(path.to_str().unwrap())).map(rights).collect();
    assert_eq!(of_file, [Some("r--s".to_owned())]);
    assert_eq!(map.read(0..30_000).unwrap(), [1; 30_000]);
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
