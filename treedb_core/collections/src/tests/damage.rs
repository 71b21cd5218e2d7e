//! Truncated files and flipped bits: the result is a typed error that names the file, or correct.

use std::io::Write;
use std::path::Path;
use treedb_testing::Rng;

use bson::doc;

use super::*;
use crate::{DeleteRequest, IndexSpec, UpdateRequest};
use treedb_storage::disk::crash::Crash;
use treedb_storage::disk::damage::{cut, files, flip, is_reported, is_right};

const DIR: &str = "/data/documents";

/// A database with a checkpoint, large documents, indexes, and a log that continues after the checkpoint.
/// Also returns the states after each operation in the log, oldest first.
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

/// Opens and checks the database and reads everything, by rows and by indexes.
fn read_all(disk: &SimDisk) -> Result<State> {
    let db = open(disk)?;
    let state = dump(&db)?;
    check::checked(&db)?;
    let collection = db.collection("shop.orders")?;
    for filter in [doc! { "tags": 1 }, doc! { "serial": { "$gt": 960 } }, doc! { "_id": 33 }] {
        for found in collection.find(FindRequest::filter(raw(&filter)))? {
            let found = Document::try_from(&*found?)?;
            assert_eq!(state["shop.orders"].docs.get(&found.get_i32("_id").unwrap()), Some(&found));
        }
    }
    Ok(state)
}

/// Checks that opening gives a typed error that names the file, or one of the correct states. True for an
/// error.
fn error_or_correct(disk: &SimDisk, path: &Path, states: &[State], what: &str) -> bool {
    match read_all(disk) {
        Ok(state) => assert!(is_right(&state, states, path), "{what}: a wrong answer"),
        Err(error) => {
            let told = error.source.as_deref().is_some_and(|error| is_reported(error, path));
            assert!(told, "{what}: {error}");
            return true;
        }
    }
    false
}

#[test]
fn a_flipped_byte_is_a_typed_error_or_changes_no_document() {
    let (image, states) = prepared();
    assert_eq!(read_all(&image).unwrap(), states[states.len() - 1]);
    // The other bytes of the headers are tested in the storage package.
    let header = |path: &Path, at: usize| {
        if path.ends_with("pages") {
            at % 4096 < 16 && at.is_multiple_of(3)
        } else {
            at < 64 && at.is_multiple_of(5)
        }
    };
    let mut rng = Rng::new(1);
    let flips = flip(
        &image,
        &files(&image, Path::new(DIR)),
        header,
        2500,
        &mut |below| rng.below(below),
        |disk, path, what| error_or_correct(disk, path, &states, what),
    );
    let _ = writeln!(
        std::io::stdout().lock(),
        "\nsummary: documents damage: {} flipped bytes, {} found, the others harmless, 0 wrong answers",
        flips.tried,
        flips.found
    );
    assert!(flips.tried > 3000 && flips.found > 300, "{flips:?}");
}

#[test]
fn a_truncated_file_is_a_typed_error_or_the_end_of_the_log() {
    let (image, states) = prepared();
    let mut rng = Rng::new(1);
    cut(&image, &files(&image, Path::new(DIR)), 40, &mut |below| rng.below(below), |disk, path, what| {
        error_or_correct(disk, path, &states, what);
    });
}
