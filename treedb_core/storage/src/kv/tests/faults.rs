//! Full and failing disks: which calls fail, which still work, and what is stored afterwards.

use std::io::Write;
use std::process::Command;

use super::crash::model::{State, dump};
use super::*;
use crate::Error;
use crate::disk::faulty::FaultyDisk;
use crate::disk::sim::Fault;

/// Commits transaction `n` of a workload: keys, rows and a large value; some replace existing ones.
fn commit(store: &Store, n: u32) -> crate::Result<()> {
    let mut txn = store.begin_write()?;
    let keys = txn.open_table("k", TableKind::Ordered)?;
    let rows = txn.open_table("r", TableKind::Rows)?;
    for i in 0..8u32 {
        txn.put(&keys, &(n * 5 + i).to_be_bytes(), &[n as u8; 300])?;
        txn.append_row(&rows, &[n as u8; 200])?;
    }
    txn.put(&keys, b"large", &vec![n as u8; 3000 + n as usize])?;
    txn.commit_with(if n.is_multiple_of(3) { Durability::Durable } else { Durability::Relaxed })
}

const TRANSACTIONS: u32 = 12;

/// Runs the workload until its end or the first error; adds the state after each commit to `states`.
fn run(store: &Store, states: &mut Vec<State>) -> crate::Result<()> {
    for n in states.len() as u32 - 1..TRANSACTIONS {
        commit(store, n)?;
        states.push(dump(store)?);
        if n % 5 == 4 {
            store.checkpoint()?;
        }
    }
    Ok(())
}

#[test]
fn a_full_disk_refuses_writes_but_not_reads_until_there_is_room() {
    let disk = SimDisk::new();
    run(&open(&disk).unwrap(), &mut vec![State::new()]).unwrap();
    let whole = disk.used();
    let disk = SimDisk::new();
    drop(open(&disk).unwrap());
    let empty = disk.used();
    let (mut full, mut tried) = (0, 0);
    for room in (empty..whole + 8192).step_by(6000) {
        let disk = SimDisk::new();
        let store = open(&disk).unwrap();
        let mut states = vec![State::new()];
        disk.set_room(Some(room));
        tried += 1;
        while let Err(error) = run(&store, &mut states) {
            full += 1;
            assert!(
                matches!(&error, Error::DiskFull { path } if path.starts_with(dir())),
                "room {room}: {error}"
            );
            assert_eq!(store.poisoned(), None, "room {room}");
            assert_eq!(Some(&dump(&store).unwrap()), states.last(), "room {room}");
            store.check().unwrap();
            // Some space becomes free, but not enough for everything.
            disk.set_room(Some(disk.used() + 100_000));
        }
        assert_eq!(Some(&dump(&store).unwrap()), states.last());
        assert_eq!(states.len() as u32, TRANSACTIONS + 1);
        disk.set_room(None);
        drop(store);
        let store = open(&disk).unwrap();
        store.check().unwrap();
        assert_eq!(Some(&dump(&store).unwrap()), states.last(), "room {room}");
    }
    assert!(full > tried, "{full} refusals in {tried} runs");
    println!("summary: disk full: {tried} sizes, {full} refusals, each recovered from without a restart");
}

/// Checks a store after a failure: reads still work, writes are refused if the store is poisoned, and after a
/// restart the store has one of the committed states.
fn after_failure(disk: &SimDisk, store: Store, states: &[State], error: &Error, what: &str) {
    let poisoned = store.poisoned();
    let seen = dump(&store).unwrap_or_else(|e| panic!("{what}: reading: {e}"));
    // A commit whose flush failed is visible.
    assert!(states.last() == Some(&seen) || poisoned.is_some(), "{what}");
    if let Some(reason) = &poisoned {
        assert!(reason.contains("/data/store/"), "{what}: the reason names no file: {reason}");
        let refused = commit(&store, 99).expect_err(what);
        assert!(matches!(refused, Error::Poisoned { .. }), "{what}: {refused}");
    } else {
        assert!(matches!(error, Error::DiskFull { .. } | Error::Io { .. }), "{what}: {error}");
    }
    drop(store);
    let store = open(disk).unwrap_or_else(|e| panic!("{what}: opening: {e}"));
    store.check().unwrap_or_else(|e| panic!("{what}: check: {e}"));
    let found = dump(&store).unwrap();
    assert!(found == seen || states.last() == Some(&found), "{what}: the state is not the same as before");
    commit(&store, 99).unwrap();
}

#[test]
fn after_an_io_error_the_store_is_poisoned_naming_the_file_and_reads_still_work() {
    let disk = SimDisk::new();
    let first = {
        drop(open(&disk).unwrap());
        disk.tried()
    };
    let (mut failures, mut poisoned) = (0, 0);
    for call in 0.. {
        let disk = SimDisk::new();
        drop(open(&disk).unwrap());
        let store = open(&disk).unwrap();
        disk.fail_at(first + call, Fault::Io, true);
        let mut states = vec![State::new()];
        let done = run(&store, &mut states);
        disk.heal();
        let Err(error) = done else { break };
        failures += 1;
        poisoned += u32::from(store.poisoned().is_some());
        after_failure(&disk, store, &states, &error, &format!("call {call} and all after it"));
    }
    assert!(failures > 40 && poisoned > failures / 2, "{failures}, {poisoned}");
    println!("summary: I/O errors: {failures} calls, {poisoned} of them poisoned the store");
}

#[test]
fn a_partial_write_loses_no_acknowledged_commit() {
    let mut failures = 0;
    for fault in [Fault::Io, Fault::Full] {
        for write in 0.. {
            let disk = SimDisk::new();
            drop(open(&disk).unwrap());
            let faulty = FaultyDisk::new(&disk, fault, write);
            let opened =
                Store::open_with(dir(), Options { disk: Arc::new(faulty.clone()), ..options(&disk) });
            let Ok(store) = opened else { continue };
            let mut states = vec![State::new()];
            match run(&store, &mut states) {
                Ok(()) if !faulty.has_failed() => break,
                // The write was made ahead of use, or was retried.
                Ok(()) => {}
                Err(error) => {
                    failures += 1;
                    after_failure(
                        &disk,
                        store,
                        &states,
                        &error,
                        &format!("write {write} stopped, {fault:?}"),
                    );
                }
            }
        }
    }
    assert!(failures > 40, "{failures}");
    println!("summary: short writes: {failures} runs stopped by one, 0 violations");
}

/// A small file system in memory, if this process may mount one.
struct SmallFileSystem(PathBuf);

impl SmallFileSystem {
    fn mount(name: &str, size: &str) -> Option<SmallFileSystem> {
        let at = std::env::temp_dir().join(format!("treedb-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&at).ok()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&at)
            .output()
            .is_ok_and(|done| done.status.success());
        if !mounted {
            let _ = std::fs::remove_dir(&at);
        }
        mounted.then_some(SmallFileSystem(at))
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_real_file_system_that_is_full_refuses_writes_and_recovers_when_there_is_room() {
    let Some(small) = SmallFileSystem::mount("full", "8m") else {
        println!("skipped: this process may not mount a small file system");
        return;
    };
    let ballast = small.0.join("ballast");
    std::fs::write(&ballast, vec![1; 2 << 20]).unwrap();
    let store = Store::open_with(
        small.0.join("store"),
        Options { background: false, growth: 16, log_segment_bytes: 256 << 10, ..Options::default() },
    )
    .unwrap();
    let mut n = 0;
    let error = loop {
        match commit(&store, n) {
            Ok(()) => n += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::DiskFull { path } if path.starts_with(&small.0)), "{error}");
    let before = dump(&store).unwrap();
    store.check().unwrap();
    std::fs::remove_file(&ballast).unwrap();
    for more in 0..20 {
        commit(&store, n + more).unwrap();
    }
    store.check().unwrap();
    assert!(n > 20 && before["r"].len() as u32 == 8 * n);
    let state = dump(&store).unwrap();
    drop(store);
    let store = Store::open(small.0.join("store")).unwrap();
    store.check().unwrap();
    assert_eq!(dump(&store).unwrap(), state);
    println!("summary: full file system: refused after {n} commits, 20 more when there was room");
}

#[test]
fn a_real_file_system_that_is_full_gets_the_room_of_derived_data() {
    let Some(small) = SmallFileSystem::mount("derived", "8m") else {
        println!("skipped: this process may not mount a small file system");
        return;
    };
    let options =
        Options { background: false, growth: 16, log_segment_bytes: 256 << 10, ..Options::default() };
    let store = Store::open_with(small.0.join("store"), options).unwrap();
    let files = store.derived_files().unwrap();
    files.write("some-7", &[7; 64], |out| out.write_all(&vec![1; 2 << 20])).unwrap();
    // Somebody reads it.
    let held = Arc::new(std::sync::Mutex::new(files.map("some-7", &[7; 64]).unwrap()));
    let holder = Arc::clone(&held);
    files.on_full_disk(move || holder.lock().unwrap().take().is_some());
    assert!(held.lock().unwrap().as_ref().unwrap().is_intact(0..2 << 20));
    let mut n = 0;
    while !files.names().unwrap().is_empty() {
        commit(&store, n).unwrap();
        n += 1;
    }
    assert!(n > 20, "{n}");
    assert!(held.lock().unwrap().is_none());
    (n..n + 20).for_each(|n| commit(&store, n).unwrap());
    store.check().unwrap();
}

#[test]
fn a_pinned_snapshot_grows_the_file_by_at_most_a_copy_of_its_pages() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    for n in 0..3000u32 {
        txn.put(&table, &n.to_be_bytes(), &[1; 200]).unwrap();
    }
    txn.commit().unwrap();
    store.checkpoint().unwrap();
    let live = store.stats().pages.live;
    let write = |rounds: u32| {
        let mut most = 0;
        for round in 0..rounds {
            for part in 0..30u32 {
                let mut txn = store.begin_write().unwrap();
                for n in 0..100u32 {
                    let key = (part * 100 + n).wrapping_mul(7919) % 3000;
                    txn.put(&table, &key.to_be_bytes(), &[round as u8; 200]).unwrap();
                }
                txn.commit_with(Durability::Relaxed).unwrap();
            }
            store.checkpoint().unwrap();
            most = most.max(store.stats().pages.used);
        }
        most
    };
    let alone = write(6);
    let pinned: Vec<_> = (0..2)
        .map(|_| {
            write(1);
            store.begin_read().unwrap()
        })
        .collect();
    let beside = write(12);
    assert!(
        beside <= alone + pinned.len() as u32 * live + live / 4,
        "{live} live pages: {alone} used without a reader, {beside} beside two that stay"
    );
    for read in &pinned {
        assert_eq!(read.len(&table).unwrap(), 3000);
    }
    println!("summary: long readers: {live} live pages, {alone} used without one, {beside} beside two");
}
