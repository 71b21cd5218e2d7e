//! Files of derived data make room for the others.

use std::io::Write;
use std::sync::Mutex;

use super::*;
use crate::Error;
use crate::disk::Disk;
use crate::disk::sim::Fault;

const NAME: &str = "some-7";

/// Adds a file of derived data of so many bytes.
fn add_file(store: &Store, name: &str, bytes: usize) {
    let files = store.derived_files().unwrap();
    files.write(name, &[7; 64], |out| out.write_all(&vec![1; bytes])).unwrap();
}

fn names(store: &Store) -> Vec<String> {
    store.derived_files().unwrap().names().unwrap()
}

fn put(store: &Store, key: u32, value: &[u8]) -> crate::Result<()> {
    let mut txn = store.begin_write()?;
    let table = txn.open_table("own", TableKind::Ordered)?;
    txn.put(&table, &key.to_be_bytes(), value)?;
    txn.commit()
}

/// Small and large values, and checkpoints among them.
fn work(store: &Store) -> crate::Result<()> {
    for key in 0..60 {
        put(store, key, &vec![key as u8; if key % 9 == 0 { 9_000 } else { 700 }])?;
        if key % 20 == 7 {
            store.checkpoint()?;
        }
    }
    store.checkpoint()
}

#[test]
fn a_full_disk_is_not_noticed_while_files_of_derived_data_make_room() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    add_file(&store, NAME, 500_000);
    add_file(&store, "other-12", 500_000);
    let others = ["notes", "some-07", "some-x", "-7", "Some-7", "some-4294967296"];
    others.iter().for_each(|name| disk.overwrite(&dir().join("derived").join(name), vec![1]));
    disk.set_room(Some(disk.used()));
    work(&store).unwrap();
    assert!(names(&store).is_empty());
    let dir = dir().join("derived");
    assert!(others.iter().all(|name| disk.exists(&dir.join(name)).unwrap()));
    assert_eq!(store.check().unwrap().tables, 1);
    drop(store);
    assert_eq!(open(&disk).unwrap().check().unwrap().tables, 1);
}

#[test]
fn a_full_disk_at_any_call_is_made_room_on_and_the_call_repeated_but_a_flush_is_not() {
    let begin = || {
        let disk = SimDisk::new();
        let store = open(&disk).unwrap();
        add_file(&store, NAME, 100);
        (disk, store)
    };
    let (disk, store) = begin();
    let before = disk.tried();
    work(&store).unwrap();
    let (calls, mut repeated) = (disk.tried() - before, 0);
    drop(store);
    for call in 0..calls {
        let (disk, store) = begin();
        disk.fail_at(before + call, Fault::Full, false);
        match work(&store) {
            Ok(()) => repeated += u64::from(names(&store).is_empty()),
            Err(error) => {
                assert_eq!(names(&store), [NAME], "call {call}: {error}");
                assert!(matches!(error, Error::DiskFull { .. } | Error::Poisoned { .. }), "{call}: {error}");
            }
        }
        let _ = store.close();
        open(&disk).unwrap().check().unwrap();
    }
    assert!(repeated > 20 && repeated < calls, "{repeated} of {calls}");
}

#[test]
fn an_opening_that_finds_the_disk_full_gets_the_room_of_derived_data() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    put(&store, 0, b"").unwrap();
    store.checkpoint().unwrap();
    add_file(&store, NAME, 300_000);
    // As after the death of the process, with much to recover.
    for key in 0..40 {
        put(&store, key, &[key as u8; 900]).unwrap();
    }
    let disk = disk.crash(crate::disk::crash::Crash::Everything);
    disk.set_room(Some(disk.used()));
    let path = dir().join("derived").join(NAME);
    let store = open(&disk).unwrap();
    assert!(!disk.exists(&path).unwrap());
    assert_eq!(store.check().unwrap().tables, 1);
}

#[test]
fn what_cannot_be_removed_makes_no_room_and_the_error_is_that_of_the_full_disk() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    disk.create_dir(&dir().join("derived").join(NAME)).unwrap();
    disk.set_room(Some(disk.used()));
    let error = work(&store).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert_eq!((store.poisoned(), names(&store)), (None, vec![NAME.to_owned()]));
    // Beside what can be.
    disk.set_room(None);
    add_file(&store, "some-8", 500_000);
    disk.set_room(Some(disk.used()));
    work(&store).unwrap();
    assert_eq!(names(&store), [NAME]);
}

#[test]
fn a_file_of_derived_data_for_which_there_is_no_room_leaves_the_others() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    add_file(&store, NAME, 300_000);
    disk.set_room(Some(disk.used() + 1_000));
    let files = store.derived_files().unwrap();
    let result = files.write("some-8", &[7; 64], |out| out.write_all(&[1; 200_000]));
    assert!(matches!(result, Err(Error::DiskFull { .. })), "{result:?}");
    assert_eq!(names(&store), [NAME]);
}

#[test]
fn derived_data_has_names_of_a_word_and_a_number() {
    let store = open(&SimDisk::new()).unwrap();
    let files = store.derived_files().unwrap();
    for name in [
        "notes",
        "some-",
        "-7",
        "some-07",
        "some-7.new",
        "some-7.old",
        "../some-7",
        "Some-7",
        "some-4294967296",
    ] {
        let result = files.write(name, &[7; 64], |out| out.write_all(b"x"));
        assert!(matches!(result, Err(Error::Invalid(_))), "{name}: {result:?}");
    }
    add_file(&store, "some-4294967295", 1);
    assert_eq!(DerivedFiles::number_of("some-4294967295.new", "some"), Some(u32::MAX));
    assert_eq!(DerivedFiles::number_of("some-4294967295", "other"), None);
}

#[test]
fn a_mapped_file_makes_room_when_who_has_it_lets_go_and_not_before() {
    for (asked, removed) in [(true, false), (true, true), (false, false)] {
        let disk = SimDisk::new();
        let store = open(&disk).unwrap();
        add_file(&store, NAME, 500_000);
        let files = store.derived_files().unwrap();
        let held = Arc::new(Mutex::new(files.map(NAME, &[7; 64]).unwrap()));
        if asked {
            let held = Arc::clone(&held);
            files.on_full_disk(move || held.lock().unwrap().take().is_some());
        }
        if removed {
            // By somebody else: its bytes are still there.
            let used = disk.used();
            files.remove(NAME).unwrap();
            assert_eq!(disk.used(), used);
        }
        disk.set_room(Some(disk.used()));
        match (work(&store), asked) {
            (Ok(()), true) => assert!(held.lock().unwrap().is_none()),
            (Err(Error::DiskFull { .. }), false) => {
                let map = held.lock().unwrap().take().unwrap();
                assert_eq!(map.read(0..10).unwrap(), [1; 10]);
                drop(map);
                work(&store).unwrap();
            }
            other => panic!("{other:?}"),
        }
        assert!(names(&store).is_empty());
        store.check().unwrap();
    }
}
