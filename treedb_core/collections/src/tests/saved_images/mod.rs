//! Images of vector indexes in files: the first searches after an opening begin with them, and they are never of another state.

mod close;
mod crash;
mod damage;
mod follow;
mod kinds;
mod power;
mod room;
mod without_room;

use std::path::{Path, PathBuf};

use bson::{doc, rawdoc};
use treedb_storage::disk::Disk;
use treedb_storage::disk::crash::Crash;
use treedb_testing::Rng;

use super::*;
use crate::{Collection, DeleteRequest, IndexSpec, UpdateRequest, VectorSearchRequest};

const DIMENSIONS: usize = 12;
const DOCUMENTS: i32 = 1200;

fn floats(rng: &mut Rng) -> Vec<f32> {
    (0..DIMENSIONS).map(|_| rng.below(2001) as f32 / 1000.0 - 1.0 + 0.0005).collect()
}

fn document(id: i32, rng: &mut Rng) -> RawDocumentBuf {
    let vector: Vec<f64> = floats(rng).into_iter().map(f64::from).collect();
    raw(&doc! { "_id": id, "v": vector })
}

pub(crate) fn things(db: &Database) -> Collection {
    db.collection("shop.things").unwrap()
}

pub(crate) fn search(db: &Database, rng: &mut Rng) {
    things(db).vector_search(&VectorSearchRequest::new("near", floats(rng), 1)).unwrap();
}

/// Compares a search for all documents with an exact one.
pub(crate) fn check_all(db: &Database, rng: &mut Rng) {
    let request = VectorSearchRequest::new("near", floats(rng), 5_000).candidates(8_000);
    let all = |request: &VectorSearchRequest| {
        let found = things(db).vector_search(request).unwrap();
        let mut all: Vec<(u32, i32)> =
            found.iter().map(|one| (one.distance.to_bits(), one.document.get_i32("_id").unwrap())).collect();
        all.sort_unstable();
        all
    };
    assert!(all(&request) == all(&request.clone().exact()));
}

/// A database with an index whose image is saved.
fn saved(disk: &SimDisk, rng: &mut Rng) -> Database {
    saved_in(open(disk).unwrap(), rng)
}

/// The same of a database that was opened.
fn saved_in(db: Database, rng: &mut Rng) -> Database {
    build(&db, rng);
    db.save_vector_images().unwrap();
    db
}

/// Makes an index that has an image.
pub(crate) fn build(db: &Database, rng: &mut Rng) {
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(id, rng)).collect();
    things(db).insert_many(&documents, true).unwrap();
    let definition = rawdoc! { "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean" };
    things(db).create_index(IndexSpec::vector(definition).name("near")).unwrap();
    (0..30).for_each(|_| search(db, rng));
    assert_eq!(db.vector_memory_use().built, 1);
}

pub(crate) fn files(disk: &SimDisk) -> Vec<PathBuf> {
    let dir = Path::new("/data/documents/derived");
    disk.list(dir).unwrap_or_default().into_iter().map(|name| dir.join(name)).collect()
}

const PAGES: &str = "/data/documents/pages";

/// The number of the checkpoint that a meta page describes.
fn checkpoint_at(pages: &[u8], meta: usize) -> u64 {
    u64::from_le_bytes(pages[meta + 16..meta + 24].try_into().unwrap())
}

/// Where the meta page with the highest number is in the page file.
fn newest_meta(pages: &[u8]) -> usize {
    if checkpoint_at(pages, 0) > checkpoint_at(pages, 4096) { 0 } else { 4096 }
}

/// Opens the database and searches it; how many images were built and loaded.
pub(crate) fn reopened(disk: &SimDisk, rng: &mut Rng) -> (u64, u64) {
    let db = open(disk).unwrap();
    (0..30).for_each(|_| search(&db, rng));
    check_all(&db, rng);
    let memory = db.vector_memory_use();
    (memory.built, memory.loaded)
}

#[test]
fn searches_after_an_opening_read_the_saved_image_and_build_none() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(1));
    saved(&disk, &mut rng).close().unwrap();
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
    // What is written later follows, and so does what is recovered.
    let db = open(&disk).unwrap();
    let new: Vec<_> = (0..40).map(|id| document(DOCUMENTS + id, &mut rng)).collect();
    things(&db).insert_many(&new, true).unwrap();
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 20 } })).unwrap();
    let crashed = disk.crash(Crash::Everything);
    assert_eq!(reopened(&crashed, &mut rng), (0, 1));
    db.close().unwrap();
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
}

#[test]
fn an_image_counts_as_soon_as_it_is_saved_whatever_happens_then() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(15));
    let db = saved(&disk, &mut rng);
    assert_eq!(reopened(&disk.crash(Crash::Nothing), &mut rng), (0, 1));
    assert_eq!(reopened(&disk.crash(Crash::Everything), &mut rng), (0, 1));
    drop(db);
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
}

#[test]
fn a_file_that_was_removed_while_the_database_is_open_is_written_again() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(16));
    let db = saved(&disk, &mut rng);
    disk.remove(&files(&disk)[0]).unwrap();
    db.close().unwrap();
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
}

#[test]
fn an_image_that_is_missing_damaged_or_of_another_state_is_built_anew() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(2));
    saved(&disk, &mut rng).close().unwrap();
    let [file] = &*files(&disk) else { panic!("one file") };
    let bytes = disk.contents(file).unwrap();
    let before = disk.crash(Crash::Everything);
    let (mut noticed, mut not_used) = (0, 0);
    let checksums = bytes.len() - 4 * (bytes.len() - 4096).div_ceil(4100);
    let parts = (0..128)
        .step_by(3)
        .chain((128..bytes.len()).step_by(bytes.len() / 60))
        .chain(checksums..checksums + 20);
    for at in parts {
        let copy = disk.crash(Crash::Everything);
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << rng.below(8);
        copy.overwrite(file, damaged);
        // It compares answers with exact ones.
        match (reopened(&copy, &mut rng), at) {
            // The header, the beginning and the end of the content, and the checksums are checked at once.
            (found, 0..128 | 4096..8192) => assert_eq!(found, (1, 0), "{at}"),
            (found, at) if at >= checksums - 8 => assert_eq!(found, (1, 0), "{at}"),
            // By a search, or before there is one.
            ((1, 0 | 1), _) => noticed += 1,
            // There is nothing, or it was not needed.
            (found, _) => {
                assert_eq!(found, (0, 1), "{at}");
                not_used += 1;
            }
        }
    }
    assert!(noticed > 40 && not_used < 10, "{noticed} {not_used}");
    let copy = disk.crash(Crash::Everything);
    copy.remove(file).unwrap();
    assert_eq!(reopened(&copy, &mut rng), (1, 0));
    // A later image of the same index, and one of another database.
    let db = open(&disk).unwrap();
    (0..30).for_each(|_| search(&db, &mut rng));
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 5 } })).unwrap();
    (0..30).for_each(|_| search(&db, &mut rng));
    db.close().unwrap();
    let other = SimDisk::new();
    saved(&other, &mut rng).close().unwrap();
    for foreign in [disk.contents(file).unwrap(), other.contents(file).unwrap()] {
        assert!(foreign != bytes);
        let copy = before.crash(Crash::Everything);
        copy.overwrite(file, foreign);
        assert_eq!(reopened(&copy, &mut rng), (1, 0));
    }
    // Histories that part after the image: each follows its own.
    let copy = before.crash(Crash::Everything);
    let db = open(&copy).unwrap();
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": 900 } })).unwrap();
    db.close().unwrap();
    assert_eq!(reopened(&copy, &mut rng), (0, 1));
}

#[test]
fn a_dropped_index_leaves_no_file_and_a_backup_has_none() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(4));
    let db = saved(&disk, &mut rng);
    assert_eq!(files(&disk).len(), 1);
    db.store().backup_to("/data/copy", |_| {}).unwrap();
    assert!(!disk.exists(Path::new("/data/copy/derived")).unwrap());
    let copy = Database::open_with("/data/copy", options(&disk)).unwrap();
    (0..30).for_each(|_| search(&copy, &mut rng));
    check_all(&copy, &mut rng);
    assert_eq!((copy.vector_memory_use().built, copy.vector_memory_use().loaded), (1, 0));
    db.check().unwrap();
    db.drop_collection("shop.things").unwrap();
    assert!(files(&disk).is_empty());
}

#[test]
fn checkpoints_save_no_image_and_closing_saves_those_that_changed() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(5));
    let db = saved(&disk, &mut rng);
    let contents = |disk: &SimDisk| disk.contents(&files(disk)[0]).unwrap();
    let before = contents(&disk);
    db.save_vector_images().unwrap();
    assert!(contents(&disk) == before, "saved again");
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": 7 })).unwrap();
    search(&db, &mut rng);
    db.checkpoint().unwrap();
    assert!(contents(&disk) == before, "saved by a checkpoint");
    db.close().unwrap();
    assert!(contents(&disk) != before);
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
}

#[test]
fn a_full_disk_is_no_error_of_closing_and_an_image_that_cannot_be_saved_leaves_the_file_that_it_is_in() {
    for left in [0, 1, 40_000, 200_000] {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(6));
        let db = saved(&disk, &mut rng);
        things(&db).delete(DeleteRequest::many(rawdoc! { "_id": 7 })).unwrap();
        search(&db, &mut rng);
        let image = disk.contents(&files(&disk)[0]).unwrap().len() as u64;
        assert!(image > 100_000);
        disk.set_room(Some(disk.used() + left));
        check_all(&db, &mut rng);
        let result = db.save_vector_images();
        assert_eq!(result.unwrap_err().code, treedb_query::error::ErrorCode::OutOfDiskSpace, "{left}");
        assert_eq!(files(&disk).len(), 1, "{left}");
        db.checkpoint().unwrap();
        check_all(&db, &mut rng);
        db.close().unwrap();
        assert_eq!(files(&disk).len(), 1, "{left}");
        // It follows what was written since. The next one with enough room saves it.
        disk.set_room(Some(disk.used() + 5 * image));
        let (db, before) = (open(&disk).unwrap(), disk.contents(&files(&disk)[0]));
        (0..30).for_each(|_| search(&db, &mut rng));
        check_all(&db, &mut rng);
        let memory = db.vector_memory_use();
        assert_eq!((memory.built, memory.loaded), (0, 1), "{left}");
        db.close().unwrap();
        assert!(disk.contents(&files(&disk)[0]) != before, "{left}");
        assert_eq!(reopened(&disk, &mut rng), (0, 1));
    }
}

#[test]
fn two_threads_that_save_at_once_among_writes_leave_one_whole_file() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(7));
    let db = saved(&disk, &mut rng);
    std::thread::scope(|scope| {
        for of in 0..2 {
            let db = &db;
            scope.spawn(move || {
                let mut rng = Rng::new(of as u64);
                for id in 0..30 {
                    things(db).delete(DeleteRequest::many(rawdoc! { "_id": 2 * id + of })).unwrap();
                    search(db, &mut rng);
                    db.save_vector_images().unwrap();
                }
            });
        }
    });
    let [_] = &*files(&disk) else { panic!("{:?}", files(&disk)) };
    db.close().unwrap();
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
}

/// Whether any file in the directory has these bytes.
fn has(disk: &SimDisk, bytes: &[u8]) -> bool {
    let dir = Path::new("/data/documents");
    let inner = ["", "log", "values", "derived"].map(|name| dir.join(name));
    let all = inner
        .iter()
        .flat_map(|dir| disk.list(dir).unwrap_or_default().into_iter().map(|name| dir.join(name)));
    all.filter_map(|path| disk.contents(&path))
        .any(|file| file.windows(bytes.len()).any(|part| part == bytes))
}

#[test]
fn an_encrypted_database_and_one_in_memory_write_no_image() {
    let (mut rng, plain) = (Rng::new(14), SimDisk::new());
    let vector: Vec<f32> = (0..DIMENSIONS).map(|at| 0.123 + at as f32).collect();
    let with_vector = |options: Options, rng: &mut Rng| {
        let db = Database::open_with("/data/documents", options).unwrap();
        let elements: Vec<f64> = vector.iter().map(|element| f64::from(*element)).collect();
        things(&db).insert_one(raw(&doc! { "_id": -1, "v": elements })).unwrap();
        let db = saved_in(db, rng);
        db.save_vector_images().unwrap();
        db
    };
    let bytes = |vector: &[f32]| vector.iter().flat_map(|element| element.to_le_bytes()).collect::<Vec<u8>>();
    drop(with_vector(options(&plain), &mut rng));
    assert!(files(&plain).len() == 1 && has(&plain, &bytes(&vector)));
    let disk = SimDisk::new();
    let encrypted = || {
        let mut options = options(&disk);
        options.key = Some(treedb_storage::Key::new([7; treedb_storage::Key::LEN]));
        options
    };
    with_vector(encrypted(), &mut rng).close().unwrap();
    assert!(!disk.exists(Path::new("/data/documents/derived")).unwrap());
    assert!(!has(&disk, &bytes(&vector)) && !has(&disk, &bytes(&vector[..2])));
    // What there may be of before is removed, and nothing else.
    let dir = Path::new("/data/documents/derived");
    ["vector-7", "vector-9.new", "notes"].iter().for_each(|name| disk.overwrite(&dir.join(name), vec![1]));
    Database::open_with("/data/documents", encrypted()).unwrap().close().unwrap();
    assert_eq!(files(&disk), [dir.join("notes")]);
    let memory = Arc::new(treedb_storage::disk::MemoryDisk::new());
    let mut in_memory = options(&disk);
    in_memory.disk = memory.clone();
    with_vector(in_memory, &mut rng).close().unwrap();
    assert!(!memory.exists(dir).unwrap());
}

#[test]
fn only_files_of_images_are_removed() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(8));
    saved(&disk, &mut rng).close().unwrap();
    let [own] = &*files(&disk) else { panic!("one file") };
    let others = ["vector-x", "vector-", "vector-01", "vector-4294967296", "vector-7.old", "notes"];
    let gone = ["vector-4294967295", "vector-9.new"];
    for name in others.iter().chain(&gone) {
        disk.overwrite(&own.with_file_name(name), vec![1]);
    }
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
    let left = files(&disk);
    assert!(others.iter().all(|name| left.contains(&own.with_file_name(name))) && left.contains(own));
    assert_eq!(left.len(), others.len() + 1);
}

#[test]
fn a_transaction_that_is_older_than_the_saved_image_does_not_read_it() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(9));
    let db = saved(&disk, &mut rng);
    let mut old = db.begin().unwrap();
    let request = VectorSearchRequest::new("near", floats(&mut rng), 5_000).candidates(8_000);
    let find = |old: &mut crate::Transaction| {
        old.collection("shop.things").unwrap().vector_search(&request).unwrap().len()
    };
    assert_eq!(find(&mut old), DOCUMENTS as usize);
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 100 } })).unwrap();
    (0..30).for_each(|_| search(&db, &mut rng));
    db.save_vector_images().unwrap();
    // The image is given up, and the file is what there is.
    db.set_vector_memory(0);
    db.set_vector_memory(1 << 30);
    for _ in 0..20 {
        assert_eq!(find(&mut old), DOCUMENTS as usize);
    }
    assert_eq!((db.vector_memory_use().loaded, db.vector_memory_use().bytes), (0, 0));
    drop(old);
    (0..30).for_each(|_| search(&db, &mut rng));
    check_all(&db, &mut rng);
    assert_eq!(db.vector_memory_use().loaded, 1);
}

#[test]
fn a_transaction_that_is_older_than_an_image_that_is_brought_up_to_date_leaves_it_alone() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(10));
    saved(&disk, &mut rng).close().unwrap();
    let db = open(&disk).unwrap();
    let mut old = db.begin().unwrap();
    let request = VectorSearchRequest::new("near", floats(&mut rng), 5_000).candidates(8_000);
    let find = |old: &mut crate::Transaction| {
        old.collection("shop.things").unwrap().vector_search(&request).unwrap().len()
    };
    // Rows that the transaction does not know.
    let new: Vec<_> = (0..100).map(|id| document(DOCUMENTS + id, &mut rng)).collect();
    things(&db).insert_many(&new, true).unwrap();
    // Some of the nodes in the file are listed.
    search(&db, &mut rng);
    let half = db.vector_memory_use();
    assert!(half.loaded == 0 && half.bytes > 0 && half.mapped_bytes > half.bytes, "{half:?}");
    for _ in 0..50 {
        assert_eq!(find(&mut old), DOCUMENTS as usize);
    }
    assert_eq!(db.vector_memory_use(), half);
    (0..30).for_each(|_| search(&db, &mut rng));
    check_all(&db, &mut rng);
    let whole = db.vector_memory_use();
    assert_eq!((whole.built, whole.loaded), (0, 1));
}

#[test]
fn the_first_search_after_an_opening_is_answered_from_the_file_of_which_little_is_in_memory() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(17));
    let db = saved(&disk, &mut rng);
    let whole = db.vector_memory_use().bytes + db.vector_memory_use().mapped_bytes;
    db.close().unwrap();
    let db = open(&disk).unwrap();
    search(&db, &mut rng);
    let first = db.vector_memory_use();
    assert_eq!((first.built, first.loaded, first.images), (0, 1, 1));
    assert!(first.bytes < whole / 4 && first.mapped_bytes > whole / 2, "{first:?} of {whole}");
    // What is written is in memory, and what is not, stays in the file.
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": 700 })).unwrap();
    (0..30).for_each(|_| search(&db, &mut rng));
    check_all(&db, &mut rng);
    let then = db.vector_memory_use();
    assert!(then.bytes > first.bytes && then.mapped_bytes < first.mapped_bytes && then.mapped_bytes > 0);
    // Also what a search filters.
    let filtered =
        VectorSearchRequest::new("near", floats(&mut rng), 2_000).filter(rawdoc! { "_id": { "$lt": 500 } });
    assert_eq!(things(&db).vector_search(&filtered).unwrap().len(), 500);
}

#[test]
fn a_file_that_is_removed_or_replaced_while_searches_use_it_changes_no_answer() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(18));
    saved(&disk, &mut rng).close().unwrap();
    let db = open(&disk).unwrap();
    search(&db, &mut rng);
    let [file] = &*files(&disk) else { panic!("one file") };
    disk.remove(file).unwrap();
    check_all(&db, &mut rng);
    for id in 0..3 {
        things(&db).delete(DeleteRequest::many(rawdoc! { "_id": id })).unwrap();
        (0..30).for_each(|_| search(&db, &mut rng));
        db.save_vector_images().unwrap();
        check_all(&db, &mut rng);
    }
    assert_eq!((db.vector_memory_use().built, db.vector_memory_use().loaded), (0, 1));
    db.close().unwrap();
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
}

/// How many bytes images take before and after the first search with a filter in an image of a file, and the nodes that it has. Of so many rows one has a
/// vector.
fn listed(every: i32, rng: &mut Rng) -> (u64, u64, u64) {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let nodes = 800;
    let made = |id: i32, rng: &mut Rng| match id % every {
        0 => document(id, rng),
        _ => rawdoc! { "_id": id },
    };
    let documents: Vec<_> = (0..nodes * every).map(|id| made(id, rng)).collect();
    documents.chunks(10_000).for_each(|some| drop(things(&db).insert_many(some, true).unwrap()));
    let definition = rawdoc! { "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean" };
    things(&db).create_index(IndexSpec::vector(definition).name("near")).unwrap();
    (0..30).for_each(|_| search(&db, rng));
    db.close().unwrap();
    let db = open(&disk).unwrap();
    search(&db, rng);
    let before = db.vector_memory();
    let some = rawdoc! { "_id": { "$lt": 50 * every } };
    let request = VectorSearchRequest::new("near", floats(rng), 100).filter(some);
    assert_eq!(things(&db).vector_search(&request).unwrap().len(), 50);
    assert_eq!(db.vector_memory_use().loaded, 1);
    (before, db.vector_memory(), nodes as u64)
}

#[test]
fn what_a_search_lists_of_an_image_in_a_file_counts_before_it_is_listed_and_all_that_it_takes_at_once_then() {
    let mut rng = Rng::new(19);
    let (before, after, nodes) = listed(1, &mut rng);
    assert!(before > 4 * nodes && before.abs_diff(after) < 600, "{before} {after}");
    // Rows that are far apart take far more than it is known before.
    let (before, after, nodes) = listed(70, &mut rng);
    assert!(after > before + 200 * nodes, "{before} {after}");
}
