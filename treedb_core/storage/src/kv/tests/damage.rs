//! Truncated files and flipped bits: the result is a typed error or correct.

use std::io::Write;
use std::path::Path;
use treedb_testing::Rng;

use super::*;
use crate::Error;
use crate::disk::Disk;
use crate::disk::crash::Crash;
use crate::disk::damage::{cut, files, flip, is_reported, is_right};

/// The entries of a table.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// A store with a checkpoint, and commits in the log after it. Returns the state after each of these commits.
fn prepared() -> (SimDisk, Vec<Entries>) {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    for n in 0..120u32 {
        let len = if n % 30 == 7 { 2500 } else { 90 };
        txn.put(&table, &n.to_be_bytes(), &vec![n as u8; len]).unwrap();
    }
    // The values of one key fit in its cell, those of the other have a value tree.
    let pairs = txn.create_table("pairs", TableKind::Dup).unwrap();
    for n in 0..150u32 {
        txn.put_pair(&pairs, if n < 20 { b"few" } else { b"many" }, format!("value {n}").as_bytes()).unwrap();
    }
    txn.commit().unwrap();
    for n in 0..3u32 {
        let mut txn = store.begin_write().unwrap();
        txn.put(&table, &(n * 40).to_be_bytes(), b"second").unwrap();
        txn.commit().unwrap();
        store.checkpoint().unwrap();
    }
    let mut states = vec![all(&store).unwrap()];
    for n in 0..5u32 {
        let mut txn = store.begin_write().unwrap();
        txn.put(&table, &(n * 11).to_be_bytes(), &vec![n as u8; 500 * n as usize]).unwrap();
        txn.put_pair(&pairs, b"many", &n.to_be_bytes()).unwrap();
        txn.commit().unwrap();
        states.push(all(&store).unwrap());
    }
    let image = disk.crash(Crash::Everything);
    (image, states)
}

fn all(store: &Store) -> crate::Result<Entries> {
    let read = store.snapshot()?;
    let Some(table) = read.table("t")? else { return Ok(Vec::new()) };
    let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let entries = read.range(&table, everything)?.map(|e| e.map(|(k, v)| (k, v.to_vec())));
    let Some(pairs) = read.table("pairs")? else { return entries.collect() };
    entries.chain(read.pairs(&pairs, everything)?).collect()
}

/// Opens the store, checks it and reads everything.
fn read_all(disk: &SimDisk) -> crate::Result<Entries> {
    let store = open(disk)?;
    let seen = all(&store)?;
    checked(&store)?;
    Ok(seen)
}

/// Checks that opening gives a typed error that names the file, or one of the correct states. True for an
/// error.
fn error_or_correct(disk: &SimDisk, path: &Path, states: &[Entries], what: &str) -> bool {
    match read_all(disk) {
        Ok(seen) => assert!(is_right(&seen, states, path), "{what}: a wrong answer"),
        Err(error) => {
            assert!(is_reported(&error, path), "{what}: {error}");
            return true;
        }
    }
    false
}

#[test]
fn every_flipped_header_byte_and_20000_other_flips_are_detected_or_harmless() {
    let (image, states) = prepared();
    let header = |path: &Path, at: usize| {
        if path.ends_with("pages") { at < 8192 || at % 4096 < 16 } else { at < 64 }
    };
    let mut rng = Rng::new(1);
    let flips = flip(
        &image,
        &files(&image, &dir()),
        header,
        20_000,
        &mut |below| rng.below(below),
        |disk, path, what| error_or_correct(disk, path, &states, what),
    );
    let _ = writeln!(
        std::io::stdout().lock(),
        "\nsummary: kv damage: {} flips (every header and meta byte in 3 ways, 20000 anywhere), {} found, \
         the others harmless, 0 wrong answers, 0 panics",
        flips.tried,
        flips.found
    );
    assert!(flips.tried > 44_000 && flips.found > 5000, "{flips:?}");
}

#[test]
fn a_file_truncated_anywhere_is_a_typed_error_or_the_end_of_the_log() {
    let (image, states) = prepared();
    let mut rng = Rng::new(1);
    cut(&image, &files(&image, &dir()), 60, &mut |below| rng.below(below), |disk, path, what| {
        error_or_correct(disk, path, &states, what);
    });
}

#[test]
fn a_missing_file_is_a_typed_error() {
    let (image, states) = prepared();
    for path in files(&image, &dir()).into_iter().filter(|p| !p.ends_with("LOCK")) {
        let disk = image.crash(Crash::Everything);
        disk.remove(&path).unwrap();
        disk.sync_dir(path.parent().unwrap()).unwrap();
        let error = error_or_correct(&disk, &path, &states, &format!("{} removed", path.display()));
        let spare = path.extension().is_some_and(|e| e == "spare");
        assert!(error || spare, "{} removed, but the store was opened", path.display());
    }
}

#[test]
fn foreign_and_newer_files_are_refused() {
    let (image, _) = prepared();
    for path in files(&image, &dir()).into_iter().filter(|p| p.extension().is_none_or(|e| e != "spare")) {
        let disk = image.crash(Crash::Everything);
        disk.overwrite(&path, b"#!/bin/sh\necho not a database\n".repeat(1000));
        let error = read_all(&disk).unwrap_err();
        assert!(matches!(error, Error::Format { .. } | Error::Corrupt(_)), "{}: {error}", path.display());
    }
}

#[test]
fn flips_and_truncation_of_cached_and_encrypted_stores_are_detected_or_harmless() {
    for mode in [Mode::Cached, Mode::Encrypted] {
        in_mode(mode, || {
            let (image, states) = prepared();
            let files = files(&image, &dir());
            let header = |path: &Path, at: usize| at < 160 && !path.ends_with("LOCK") && at.is_multiple_of(3);
            let mut rng = Rng::new(1);
            let flips =
                flip(&image, &files, header, 1500, &mut |below| rng.below(below), |disk, path, what| {
                    error_or_correct(disk, path, &states, what)
                });
            assert!(flips.found > 200, "{mode:?}: {flips:?}");
            let mut rng = Rng::new(1);
            cut(&image, &files, 10, &mut |below| rng.below(below), |disk, path, what| {
                error_or_correct(disk, path, &states, what);
            });
        });
    }
}
