//! Encrypted stores: no plaintext in files, wrong and missing keys, moved pages.

use super::*;
use crate::Error;
use crate::disk::Disk;
use crate::disk::crash::Crash;
use crate::disk::damage::files;

/// A string that is part of every key, value and table name.
const MARKER: &[u8] = b"this must be encrypted";

/// The files that contain the marker.
fn marked(disk: &SimDisk) -> Vec<PathBuf> {
    let mut files = files(disk, &dir());
    files.retain(|path| {
        let bytes = disk.contents(path).unwrap_or_default();
        bytes.windows(MARKER.len()).any(|window| window == MARKER)
    });
    files
}

/// Stores the marker everywhere a user can store bytes, before and after a checkpoint.
fn fill(store: &Store) {
    let name = |what: &str| format!("{what} {}", String::from_utf8_lossy(MARKER));
    for round in 0..3u32 {
        let mut txn = store.begin_write().unwrap();
        let keys = txn.open_table(&name("keys"), TableKind::Ordered).unwrap();
        let rows = txn.open_table(&name("rows"), TableKind::Rows).unwrap();
        let pairs = txn.open_table(&name("pairs"), TableKind::Dup).unwrap();
        for n in 0..240u32 {
            let key = [MARKER, &(n + round).to_be_bytes()].concat();
            txn.put(&keys, &key, &MARKER.repeat(if n % 20 == 0 { 200 } else { 3 })).unwrap();
            txn.append_row(&rows, &MARKER.repeat(if n % 30 == 0 { 300 } else { 2 })).unwrap();
            txn.put_pair(&pairs, &key, &key).unwrap();
        }
        let how = [Durability::Durable, Durability::Relaxed, Durability::None];
        txn.commit_with(how[round as usize % how.len()]).unwrap();
        if round == 1 {
            store.checkpoint().unwrap();
        }
    }
    store.flush().unwrap();
}

#[test]
fn no_user_data_is_in_any_file_unencrypted() {
    for (mode, clear) in [(Mode::Cached, false), (Mode::Encrypted, true)] {
        in_mode(mode, || {
            let disk = SimDisk::new();
            let store = open(&disk).unwrap();
            fill(&store);
            // The files after the process was killed, then after the store was closed.
            let killed = disk.crash(Crash::Everything);
            let at = |disk: &SimDisk| if clear { marked(disk) } else { Vec::new() };
            assert_eq!(at(&disk), Vec::<PathBuf>::new());
            assert_eq!(at(&killed), Vec::<PathBuf>::new());
            if !clear {
                // Without encryption the marker is found, so the test works.
                let names = ["pages", ".wal", ".val"];
                let found = marked(&killed);
                assert!(names.iter().all(|n| found.iter().any(|path| path.to_string_lossy().ends_with(n))));
            }
            drop(store);
            let store = open(&killed).unwrap();
            assert_eq!(at(&killed), Vec::<PathBuf>::new());
            let report = store.check().unwrap();
            assert!(report.tables == 3 && report.large_values > 10, "{report:?}");
            store.close().unwrap();
            assert_eq!(at(&killed), Vec::<PathBuf>::new());
        });
    }
}

#[test]
fn a_wrong_a_missing_and_an_unneeded_key_are_typed_errors() {
    let other = Key::new([1; Key::LEN]);
    let with = |disk: &SimDisk, key: Option<Key>| Store::open_with(dir(), Options { key, ..options(disk) });
    let disk = SimDisk::new();
    drop(with(&disk, Some(key())).unwrap());
    let error = with(&disk, None).unwrap_err();
    assert!(matches!(error, Error::Encrypted { .. }), "{error}");
    let error = with(&disk, Some(other.clone())).unwrap_err();
    assert!(matches!(error, Error::WrongKey { .. }), "{error}");
    drop(with(&disk, Some(key())).unwrap());
    let plain = SimDisk::new();
    drop(with(&plain, None).unwrap());
    let error = with(&plain, Some(key())).unwrap_err();
    assert!(matches!(error, Error::NotEncrypted { .. }), "{error}");
    let shown = format!("{:?}", Options { key: Some(other), ..options(&disk) });
    assert!(!shown.contains('1'), "{shown}");
}

/// An encrypted store with a checkpoint and an empty log, and its contents.
fn sealed() -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    fill(&store);
    store.close().unwrap();
    let pages = disk.contents(&dir().join("pages")).unwrap();
    (disk.crash(Crash::Everything), pages)
}

/// Opens and reads everything.
fn read(disk: &SimDisk) -> crate::Result<CheckReport> {
    checked(&open(disk)?)
}

#[test]
fn moved_exchanged_or_truncated_pages_are_detected() {
    in_mode(Mode::Encrypted, || {
        let (disk, pages) = sealed();
        let (_, others) = sealed();
        let path = dir().join("pages");
        let good = read(&disk).unwrap();
        assert!(good.pages > 20);
        let count = pages.len() / 4096;
        let mut found = 0;
        for page in 2..count {
            let at = page * 4096;
            let exchanged = |with: &[u8]| {
                let mut bytes = pages.clone();
                bytes[at..at + 4096].copy_from_slice(with);
                bytes
            };
            let next = if page + 1 < count { at + 4096 } else { 2 * 4096 };
            let mut cut = pages[at..at + 4096].to_vec();
            cut[4095] ^= 1;
            let other = others.get(at..at + 4096).unwrap_or(&cut);
            for with in [&pages[next..next + 4096], other, &cut] {
                let image = disk.crash(Crash::Everything);
                image.overwrite(&path, exchanged(with));
                match read(&image) {
                    // A free page.
                    Ok(report) => assert_eq!(report, good),
                    Err(Error::Corrupt(damage)) => {
                        assert_eq!(damage.page, Some(page as u64), "{damage}");
                        found += 1;
                    }
                    Err(other) => panic!("page {page}: {other}"),
                }
            }
        }
        assert!(found > 30, "{found}");
    });
}

#[test]
fn a_log_and_values_of_another_store_with_the_same_key_are_detected() {
    in_mode(Mode::Encrypted, || {
        for (closed, folder) in [(false, "log"), (true, "values")] {
            let make = || {
                let disk = SimDisk::new();
                let store = open(&disk).unwrap();
                fill(&store);
                if closed {
                    store.close().unwrap();
                    return disk.crash(Crash::Everything);
                }
                disk.crash(Crash::Everything)
            };
            let (disk, other) = (make(), make());
            let folder = dir().join(folder);
            for name in disk.list(&folder).unwrap() {
                let path = folder.join(name);
                disk.overwrite(&path, other.contents(&path).unwrap());
            }
            let error = read(&disk).unwrap_err();
            assert!(matches!(error, Error::Corrupt(_)), "{error}");
            read(&other).unwrap();
        }
    });
}
