//! Truncated and bit-flipped files: a typed error, or the right answer.

use std::io::Write;
use std::path::Path;

use super::*;
use crate::disk::Disk;
use crate::disk::crash::{Crash, Dice};
use crate::error::Error;

/// What a table holds.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// A store with a checkpoint, and commits in the log after it. Returns the states after each of the latter.
fn prepared() -> (SimDisk, Vec<Entries>) {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    for n in 0..120u32 {
        let len = if n % 30 == 7 { 2500 } else { 90 };
        txn.put(&table, &n.to_be_bytes(), &vec![n as u8; len]).unwrap();
    }
    // One key's values fit in its cell, the other's have a tree.
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

fn files(disk: &SimDisk) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for sub in ["", "log", "values"] {
        let dir = dir().join(sub);
        files.extend(disk.list(&dir).unwrap().into_iter().map(|name| dir.join(name)));
    }
    files
}

/// Opens and reads everything, as a user and as `check` would.
fn read_all(disk: &SimDisk) -> crate::Result<Entries> {
    let store = open(disk)?;
    let seen = all(&store)?;
    store.check()?;
    Ok(seen)
}

/// A typed error that names the file, or one of the right answers. Returns true if it was an error.
fn judge(outcome: crate::Result<Entries>, path: &Path, states: &[Entries], what: &str) -> bool {
    let in_log = path.parent().is_some_and(|p| p.ends_with("log"));
    match outcome {
        Ok(seen) => {
            let newest = states.last().is_some_and(|s| *s == seen);
            // Damage to the last frame of the log cannot be told from a commit that power cut short.
            let last = in_log && states.iter().rev().nth(1).is_some_and(|s| *s == seen);
            assert!(newest || last, "{what}: a wrong answer");
            false
        }
        Err(Error::Corrupt(damage)) => {
            // Of a missing log only the directory is known.
            let named = damage.file == path || path.parent() == Some(&damage.file);
            assert!(named && !damage.expected.is_empty() && !damage.found.is_empty(), "{what}: {damage}");
            true
        }
        Err(Error::Format { path: file, .. }) if file == path => true,
        Err(other) => panic!("{what}: {other}"),
    }
}

#[test]
fn every_flipped_header_byte_is_found_or_harmless() {
    let (image, states) = prepared();
    let (mut flips, mut found) = (0, 0);
    let mut dice = Dice::new(5);
    for path in files(&image) {
        let whole = image.contents(&path).unwrap();
        let pages = path.ends_with("pages");
        for at in 0..whole.len() {
            let header = if pages { at < 8192 || at % 4096 < 16 } else { at < 64 };
            // Frames and records: most bytes of the log's beginning; samples of the rest.
            let body = if pages { at % 61 == 0 } else { (512..3000).contains(&at) && at % 5 == 0 };
            if !header && !body && !dice.chance(1) {
                continue;
            }
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << dice.below(8);
            let disk = image.crash(Crash::Everything);
            disk.overwrite(&path, bytes);
            flips += 1;
            let what = format!("{} byte {at}", path.display());
            found += u32::from(judge(read_all(&disk), &path, &states, &what));
        }
    }
    let _ = writeln!(
        std::io::stdout().lock(),
        "\nsummary: kv damage: {flips} flipped bytes, {found} found, the others harmless, 0 wrong answers"
    );
    assert!(flips > 8000 && found > 500);
}

#[test]
fn a_file_cut_anywhere_is_a_typed_error_or_the_end_of_the_log() {
    let (image, states) = prepared();
    let mut dice = Dice::new(6);
    for path in files(&image) {
        let whole = image.contents(&path).unwrap();
        for _ in 0..60 {
            let len = dice.below(whole.len());
            let disk = image.crash(Crash::Everything);
            disk.overwrite(&path, whole[..len].to_vec());
            judge(read_all(&disk), &path, &states, &format!("{} cut to {len} bytes", path.display()));
        }
    }
}

#[test]
fn a_missing_file_is_a_typed_error() {
    let (image, states) = prepared();
    for path in files(&image).into_iter().filter(|p| !p.ends_with("LOCK")) {
        let disk = image.crash(Crash::Everything);
        disk.remove(&path).unwrap();
        disk.sync_dir(path.parent().unwrap()).unwrap();
        let error = judge(read_all(&disk), &path, &states, &format!("{} removed", path.display()));
        let spare = path.extension().is_some_and(|e| e == "spare");
        assert!(error || spare, "{} removed: opened all the same", path.display());
    }
}

#[test]
fn foreign_and_newer_files_are_refused() {
    let (image, _) = prepared();
    for path in files(&image).into_iter().filter(|p| p.extension().is_none_or(|e| e != "spare")) {
        let disk = image.crash(Crash::Everything);
        disk.overwrite(&path, b"#!/bin/sh\necho not a database\n".repeat(1000));
        let error = read_all(&disk).unwrap_err();
        assert!(matches!(error, Error::Format { .. } | Error::Corrupt(_)), "{}: {error}", path.display());
    }
}
