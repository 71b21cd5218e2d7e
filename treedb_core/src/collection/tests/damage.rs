//! Truncated and bit-flipped files under a database: a typed error that names the file, or the right answer.

use std::io::Write;
use std::path::{Path, PathBuf};

use bson::doc;

use super::*;
use crate::collection::{DeleteRequest, IndexSpec, UpdateRequest};
use crate::disk::Disk;
use crate::disk::crash::{Crash, Dice};
use crate::error::Error;

const DIR: &str = "/data/documents";

/// A database with a checkpoint, large documents, indexes, and a log that goes on behind the checkpoint. Returns the
/// states after each operation in the log, oldest first.
fn prepared() -> (SimDisk, Vec<State>) {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let collection = db.collection("shop.orders").unwrap();
    let document = |id: i32| {
        let note = "n".repeat(if id % 9 == 0 { 2000 } else { 20 });
        raw(&doc! { "_id": id, "kind": id % 5, "tags": [id % 3, id % 7], "serial": 1000 - id, "note": note })
    };
    collection.insert_many(&(0..60).map(document).collect::<Vec<_>>(), true).unwrap();
    collection.create_index(IndexSpec::new(raw(&doc! { "tags": 1, "kind": -1 }))).unwrap();
    collection.create_index(IndexSpec::new(raw(&doc! { "serial": 1 })).unique()).unwrap();
    for round in 0..2 {
        // Both meta pages have been written, and there are free pages.
        collection.delete(DeleteRequest::many(raw(&doc! { "_id": { "$lt": 5 * round } }))).unwrap();
        db.checkpoint().unwrap();
    }
    let mut states = vec![dump(&db).unwrap()];
    for id in 60..65 {
        collection.insert_one(document(id)).unwrap();
        states.push(dump(&db).unwrap());
        let update = raw(&doc! { "$inc": { "kind": 1 } });
        collection.update(UpdateRequest::many(raw(&doc! { "kind": id % 5 }), update)).unwrap();
        states.push(dump(&db).unwrap());
    }
    (disk.crash(Crash::Everything), states)
}

fn files(disk: &SimDisk) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for sub in ["", "log", "values"] {
        let dir = Path::new(DIR).join(sub);
        files.extend(disk.list(&dir).unwrap().into_iter().map(|name| dir.join(name)));
    }
    assert!(files.len() > 2, "{files:?}");
    files
}

/// Opens, checks and reads everything, by the rows and by the indexes.
fn read_all(disk: &SimDisk) -> Result<State> {
    let db = open(disk)?;
    let state = dump(&db)?;
    db.check()?;
    let collection = db.collection("shop.orders")?;
    for filter in [doc! { "tags": 1 }, doc! { "serial": { "$gt": 960 } }, doc! { "_id": 33 }] {
        for found in collection.find(FindRequest::filter(raw(&filter)))? {
            let found = Document::try_from(&*found?)?;
            assert_eq!(state["shop.orders"].docs.get(&found.get_i32("_id").unwrap()), Some(&found));
        }
    }
    Ok(state)
}

/// A typed error that says where the damage is, or one of the right answers. Returns true if it was an error.
fn judge(outcome: Result<State>, path: &Path, states: &[State], what: &str) -> bool {
    let error = match outcome {
        Ok(state) => {
            let newest = states.last().is_some_and(|newest| *newest == state);
            // Damage to the last frame of the log cannot be told from a commit that power cut short.
            let in_log = path.parent().is_some_and(|dir| dir.ends_with("log"));
            let last = in_log && states.iter().rev().nth(1).is_some_and(|last| *last == state);
            assert!(newest || last, "{what}: a wrong answer");
            return false;
        }
        Err(error) => error,
    };
    match error.source.as_deref() {
        Some(Error::Corrupt(damage)) => {
            let whole = !damage.expected.is_empty() && !damage.found.is_empty();
            assert!(damage.file == path && whole, "{what}: {damage}");
        }
        Some(Error::Format { path: file, .. }) => assert_eq!(file, path, "{what}: {error}"),
        _ => panic!("{what}: {error}"),
    }
    true
}

#[test]
fn a_flipped_byte_is_a_typed_error_or_harmless_to_every_document() {
    let (image, states) = prepared();
    assert_eq!(read_all(&image).unwrap(), states[states.len() - 1]);
    let (mut flips, mut found) = (0, 0);
    let mut dice = Dice::new(11);
    for path in files(&image) {
        let whole = image.contents(&path).unwrap();
        let pages = path.ends_with("pages");
        for at in 0..whole.len() {
            let header = if pages { at % 4096 < if at < 8192 { 80 } else { 16 } } else { at < 64 };
            let checksum = pages && at < 8192 && at % 4096 >= 4092;
            if !header && !checksum && !dice.chance(1) {
                continue;
            }
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << dice.below(8);
            let disk = image.crash(Crash::Everything);
            disk.overwrite(&path, bytes);
            flips += 1;
            found +=
                u32::from(judge(read_all(&disk), &path, &states, &format!("{} byte {at}", path.display())));
        }
    }
    let _ = writeln!(
        std::io::stdout().lock(),
        "\nsummary: documents damage: {flips} flipped bytes, {found} found, the others harmless, 0 wrong answers"
    );
    assert!(flips > 1000 && found > 500, "{flips} {found}");
}

#[test]
fn a_file_cut_anywhere_is_a_typed_error_or_the_end_of_the_log_to_a_database() {
    let (image, states) = prepared();
    let mut dice = Dice::new(12);
    for path in files(&image) {
        let whole = image.contents(&path).unwrap();
        for i in 0..40 {
            let len = if i == 0 { 0 } else { dice.below(whole.len()) };
            let disk = image.crash(Crash::Everything);
            disk.overwrite(&path, whole[..len].to_vec());
            judge(read_all(&disk), &path, &states, &format!("{} cut to {len} bytes", path.display()));
        }
    }
}
