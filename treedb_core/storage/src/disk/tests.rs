//! Tests that both disks meet the contract, and the outcomes of a simulated power cut.

use std::path::{Path, PathBuf};

use super::crash::Crash;
use super::sim::{Fault, SimDisk};
use super::{Disk, Map, RealDisk};
use crate::Error;

/// A new temporary directory, removed when dropped.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let dir = std::env::temp_dir().join(format!("treedb-disk-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        TempDir(dir)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn store(map: &dyn Map, at: usize, bytes: &[u8]) {
    assert!(at + bytes.len() <= map.len());
    // SAFETY: the range is inside the mapping; the tests write only inside the file and from one thread.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), map.as_ptr().add(at), bytes.len()) };
}

fn load(map: &dyn Map, at: usize, len: usize) -> Vec<u8> {
    assert!(at + len <= map.len());
    // SAFETY: as in `store`.
    unsafe { std::slice::from_raw_parts(map.as_ptr().add(at), len) }.to_vec()
}

fn check_contract(disk: &dyn Disk, dir: &Path) {
    disk.create_dir(dir).unwrap();
    let path = dir.join("a");
    assert!(!disk.exists(&path).unwrap());
    assert!(matches!(disk.open(&path, false), Err(Error::Io { op: "open", .. })));
    let file = disk.open(&path, true).unwrap();
    assert!(file.is_empty().unwrap());
    file.write_at(b"hello", 3).unwrap();
    assert_eq!(file.len().unwrap(), 8);
    let mut buf = [9u8; 8];
    file.read_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"\0\0\0hello");
    assert!(file.read_at(&mut buf, 1).is_err(), "reading past the end is an error");

    // A map longer than the file, which then grows under it.
    let map = file.map(1 << 20).unwrap();
    assert_eq!(load(&*map, 0, 8), b"\0\0\0hello");
    file.reserve(64 * 1024).unwrap();
    map.prefault(4096, 64 * 1024);
    store(&*map, 60_000, b"mapped");
    let mut buf = [0u8; 6];
    file.read_at(&mut buf, 60_000).unwrap();
    assert_eq!(&buf, b"mapped");
    file.write_at(b"written", 50_000).unwrap();
    assert_eq!(load(&*map, 50_000, 7), b"written");
    file.set_len(55_000).unwrap();
    file.set_len(64 * 1024).unwrap();
    file.read_at(&mut buf, 60_000).unwrap();
    assert_eq!(buf, [0; 6], "a file that was truncated and grown again reads as zeroes");
    file.sync().unwrap();
    // The same bytes through a second handle and a second map.
    let again = disk.open(&path, false).unwrap();
    assert_eq!(load(&*again.map(1 << 16).unwrap(), 50_000, 7), b"written");

    disk.open(&dir.join("b"), true).unwrap();
    disk.rename(&path, &dir.join("c")).unwrap();
    disk.remove(&dir.join("b")).unwrap();
    disk.sync_dir(dir).unwrap();
    assert_eq!(disk.list(dir).unwrap(), ["c"]);
    assert_eq!(load(&*map, 50_000, 7), b"written", "a map stays valid after its file is removed");

    let held = disk.lock(dir).unwrap();
    match disk.lock(dir) {
        Err(Error::InUse { pid, .. }) => assert_eq!(pid, std::process::id()),
        other => panic!("locked twice: {:?}", other.err()),
    }
    drop(held);
    disk.lock(dir).unwrap();
}

#[test]
fn the_real_disk_meets_the_contract() {
    let dir = TempDir::new("contract");
    check_contract(&RealDisk, &dir.0);
}

#[cfg(not(miri))]
#[test]
fn memory_goes_back_in_whole_pages_of_the_system() {
    const UNIT: usize = 16 << 10;
    super::test_unit::with(UNIT, || {
        let map = super::memory(4 * UNIT as u64).unwrap();
        let kept = || (0..4 * UNIT).step_by(4096).map(|at| load(&*map, at, 1)[0]).collect::<Vec<u8>>();
        let fill = || (0..4 * UNIT).step_by(4096).for_each(|at| store(&*map, at, &[1]));
        fill();
        map.discard(UNIT, UNIT + 4096);
        map.discard(UNIT + 4096, 2 * UNIT);
        assert_eq!(kept(), [1; 16], "others are in the same page");
        map.discard(UNIT - 4096, 3 * UNIT - 4096);
        assert_eq!(kept(), [[1; 4], [0; 4], [1; 4], [1; 4]].concat());
        map.prefault(UNIT + 4096, 2 * UNIT + 4096);
        map.will_need(UNIT + 4096, 2 * UNIT + 4096);
        assert_eq!(kept(), [[1; 4], [0; 4], [1; 4], [1; 4]].concat());
    });
}

#[test]
fn the_simulated_disk_meets_the_contract() {
    check_contract(&SimDisk::new(), Path::new("/db"));
}

const DIR: &str = "/db";

fn path() -> PathBuf {
    Path::new(DIR).join("f")
}

/// A disk with one durable file of 4 sectors of `o`.
fn prepared() -> SimDisk {
    let disk = SimDisk::with_dir(Path::new(DIR));
    let file = disk.open(&path(), true).unwrap();
    file.write_at(&[b'o'; 2048], 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    disk
}

/// The first byte of each sector of the file.
fn sectors(disk: &SimDisk) -> String {
    let bytes = disk.contents(&path()).unwrap();
    bytes.chunks(512).map(|s| if s[0] == 0 { '.' } else { char::from(s[0]) }).collect()
}

#[test]
fn unsynced_sectors_are_old_or_new_depending_on_the_crash() {
    let disk = prepared();
    let file = disk.open(&path(), false).unwrap();
    file.write_at(&[b'1'; 1024], 0).unwrap();
    file.write_at(&[b'2'; 2048], 1024).unwrap();
    for (crash, want) in [
        (Crash::Nothing, "oooo"),
        (Crash::NamesOnly, "oooo"),
        (Crash::Everything, "112222"),
        (Crash::EvenSectors, "1o2o2."),
        (Crash::OddSectors, "o1o2.2"),
        (Crash::Torn, "1122.."),
        (Crash::LengthWithoutData, "oooo.."),
        (Crash::DataWithoutLength, "1122"),
    ] {
        assert_eq!(sectors(&disk.crash(crash)), want, "{crash:?}");
    }
    let seen: std::collections::BTreeSet<String> =
        (0..200).map(|seed| sectors(&disk.crash(Crash::Random(seed)))).collect();
    assert!(seen.len() > 30, "random crashes give many outcomes: {seen:?}");
    assert_eq!(sectors(&disk.crash(Crash::Random(7))), sectors(&disk.crash(Crash::Random(7))));
    file.sync().unwrap();
    assert!(Crash::variants(1, 5).into_iter().all(|crash| sectors(&disk.crash(crash)) == "112222"));
}

#[test]
fn stores_through_a_map_are_lost_unless_synced() {
    let disk = prepared();
    let file = disk.open(&path(), false).unwrap();
    let map = file.map(4096).unwrap();
    store(&*map, 512, &[b'm'; 512]);
    assert_eq!(sectors(&disk.crash(Crash::Nothing)), "oooo");
    assert_eq!(sectors(&disk.crash(Crash::Everything)), "omoo");
    store(&*map, 512, &[b'n'; 512]);
    assert_eq!(sectors(&disk.crash(Crash::FirstVersions)), "omoo", "written back between the two stores");
    file.sync().unwrap();
    assert_eq!(sectors(&disk.crash(Crash::Nothing)), "onoo");
}

#[test]
fn names_are_lost_until_the_directory_is_synced() {
    let dir = Path::new(DIR);
    let disk = prepared();
    disk.open(&dir.join("g"), true).unwrap().sync().unwrap();
    disk.rename(&path(), &dir.join("h")).unwrap();
    assert_eq!(disk.crash(Crash::NamesLost).list(dir).unwrap(), ["f"]);
    assert_eq!(disk.crash(Crash::NamesOnly).list(dir).unwrap(), ["g", "h"]);
    disk.sync_dir(dir).unwrap();
    assert_eq!(disk.crash(Crash::NamesLost).list(dir).unwrap(), ["g", "h"]);
}

#[test]
fn a_directory_and_its_contents_are_lost_until_its_parent_is_synced() {
    let (top, inner) = (Path::new("/new"), Path::new("/new/inner"));
    let disk = SimDisk::new();
    disk.create_dir(inner).unwrap();
    disk.open(&inner.join("f"), true).unwrap().sync().unwrap();
    disk.sync_dir(inner).unwrap();
    disk.sync_dir(top).unwrap();
    assert!(disk.crash(Crash::Everything).exists(&inner.join("f")).unwrap());
    assert!(!disk.crash(Crash::Nothing).exists(top).unwrap());
    disk.sync_dir(Path::new("/")).unwrap();
    assert!(disk.crash(Crash::Nothing).exists(&inner.join("f")).unwrap());

    let moved = Path::new("/moved");
    assert!(disk.rename(inner, top).is_err(), "the target is a directory that is not empty");
    disk.rename(inner, moved).unwrap();
    disk.remove(&moved.join("f")).unwrap();
    disk.remove_dir(moved).unwrap();
    assert!(!disk.exists(moved).unwrap());
    let after = disk.crash(Crash::NamesLost);
    assert!(after.exists(&inner.join("f")).unwrap(), "neither the move nor the removal was durable");
    assert_eq!(disk.crash(Crash::NamesOnly).list(Path::new("/")).unwrap(), ["new"]);
}

#[test]
fn after_a_power_cut_every_call_fails() {
    let disk = prepared();
    let file = disk.open(&path(), false).unwrap();
    disk.cut_at(disk.boundaries() + 1);
    file.write_at(&[b'1'; 512], 0).unwrap();
    assert!(file.sync().is_err());
    assert!(file.write_at(&[b'2'; 512], 0).is_err());
    assert!(file.len().is_err() && disk.open(&path(), false).is_err());
    assert_eq!(sectors(&disk.crash(Crash::Everything)), "1ooo");
    assert_eq!(sectors(&disk.crash(Crash::Nothing)), "oooo");
}

#[test]
fn a_recording_is_replayed_boundary_by_boundary() {
    let disk = prepared();
    let file = disk.open(&path(), false).unwrap();
    let map = file.map(4096).unwrap();
    disk.record();
    let first = disk.boundaries();
    file.write_at(&[b'1'; 512], 0).unwrap();
    store(&*map, 512, &[b'm'; 512]);
    file.sync().unwrap();
    file.write_at(&[b'2'; 512], 0).unwrap();
    let mut replay = disk.replay();
    let mut seen = Vec::new();
    while let Some(point) = replay.next_point() {
        let at = |crash| sectors(&replay.crash(crash));
        seen.push((point - first, at(Crash::Nothing), at(Crash::Everything)));
    }
    let want = [(0, "oooo", "oooo"), (1, "oooo", "1moo"), (2, "1moo", "1moo"), (3, "1moo", "2moo")];
    assert_eq!(seen, want.map(|(n, a, b)| (n, a.to_owned(), b.to_owned())));
}

#[test]
fn injected_failures_have_no_effect_on_the_disk_and_end() {
    let disk = prepared();
    let file = disk.open(&path(), false).unwrap();
    disk.fail_at(disk.tried(), Fault::Io, false);
    assert!(matches!(file.write_at(b"x", 0), Err(Error::Io { .. })));
    file.write_at(b"y", 0).unwrap();
    disk.fail_at(disk.tried(), Fault::Full, true);
    assert!(matches!(file.reserve(1 << 16), Err(Error::DiskFull { .. })));
    assert!(matches!(file.reserve(1 << 16), Err(Error::DiskFull { .. })));
    disk.heal();
    disk.set_room(Some(disk.used() + 512));
    assert!(matches!(file.reserve(1 << 16), Err(Error::DiskFull { .. })));
    file.reserve(2048 + 512).unwrap();
    assert_eq!(sectors(&disk), "yooo.");
}
