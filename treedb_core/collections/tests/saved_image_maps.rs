//! What a process has mapped of the files of saved images: the file that was written last, to be read only, and no other.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use treedb_collections::bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_collections::{
    Collection, Database, DeleteRequest, Durability, IndexSpec, Options, SearchPath, VectorSearchRequest,
};
use treedb_testing::Clusters;

const DIMENSIONS: usize = 256;
/// More than one search builds an image of.
const ROWS: i32 = 5000;

fn vectors(seed: u64) -> Clusters {
    Clusters::new(seed, DIMENSIONS, 40, 12)
}

fn document(vectors: &mut Clusters, id: i32) -> RawDocumentBuf {
    let vector: RawArrayBuf = vectors.vector().into_iter().map(f64::from).collect();
    rawdoc! { "_id": id, "v": vector }
}

/// A database whose index has an image.
fn imaged(dir: &Path) -> (Database, Collection) {
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    let db = Database::open_with(dir, options).unwrap();
    let things = db.collection("shop.things").unwrap();
    let mut vectors = vectors(1);
    let documents: Vec<_> = (0..ROWS).map(|id| document(&mut vectors, id)).collect();
    documents.chunks(1000).for_each(|some| drop(things.insert_many(some, true).unwrap()));
    let definition = rawdoc! {
        "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean",
        "hnswOptions": { "maxEdges": 8, "numEdgeCandidates": 20 },
    };
    things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
    while db.vector_memory_use().built == 0 {
        things.vector_search(&VectorSearchRequest::new("near", vectors.vector(), 1)).unwrap();
    }
    (db, things)
}

/// The rights and the path of each mapping of a file of an image in the directory.
fn maps(dir: &Path) -> Vec<(String, String)> {
    let derived = format!("{}/derived/", std::fs::canonicalize(dir).unwrap().display());
    let all = std::fs::read_to_string("/proc/self/maps").unwrap();
    let of_file = all.lines().filter_map(|line| {
        let path = line.get(line.find(&derived)?..)?;
        Some((line.split_whitespace().nth(1)?.to_owned(), path.to_owned()))
    });
    of_file.collect()
}

/// That there is one mapping, of the file that has its name, and nothing can be written into it.
fn check_maps(dir: &Path) {
    let maps = maps(dir);
    let is_right = |(rights, path): &(String, String)| rights == "r--s" && Path::new(path).is_file();
    assert!(maps.len() == 1 && maps.iter().all(is_right), "{maps:?}");
}

/// Whether a search used an image; its answer is compared with an exact one of the same snapshot.
fn search(db: &Database, vectors: &mut Clusters) -> bool {
    let mut txn = db.begin().unwrap();
    let things = txn.collection("shop.things").unwrap();
    // With as many candidates nothing is missed.
    let request = VectorSearchRequest::new("near", vectors.vector(), 10)
        .candidates(8000)
        .filter(rawdoc! { "_id": { "$gte": 100, "$lt": 400 } });
    let answer = things.vector_search_answer(&request).unwrap();
    let ids = |found: &[treedb_collections::Neighbor]| -> Vec<i32> {
        found.iter().map(|one| one.document.get_i32("_id").unwrap()).collect()
    };
    assert_eq!(ids(&answer.neighbors), ids(&things.vector_search(&request.exact()).unwrap()));
    answer.work.path == SearchPath::MatchingRows
}

#[test]
fn an_image_that_is_saved_goes_on_in_its_file_and_gives_the_memory_and_the_file_before_back() {
    let dir = tempfile::tempdir().unwrap();
    let (db, things) = imaged(dir.path());
    let (own, mut rng) = (db.vector_memory(), vectors(2));
    assert!(maps(dir.path()).is_empty());
    db.save_vector_images().unwrap();
    check_maps(dir.path());
    let saved = db.vector_memory_use();
    println!("{own} bytes before, {} after, and {} mapped", saved.bytes, saved.mapped_bytes);
    assert!(saved.bytes < own / 4 && saved.mapped_bytes > own / 2, "{saved:?}");
    for round in 0..4 {
        assert!(search(&db, &mut rng));
        let filter = rawdoc! { "_id": { "$gte": 1000 + 50 * round, "$lt": 1040 + 50 * round } };
        things.delete(DeleteRequest::many(filter)).unwrap();
        things.insert_one(document(&mut rng, ROWS + round)).unwrap();
        // What was changed is in memory, and what was not in the file before.
        assert!(search(&db, &mut rng) && db.vector_memory() > saved.bytes);
        let before = db.vector_memory();
        db.save_vector_images().unwrap();
        check_maps(dir.path());
        assert!(db.vector_memory() < before && search(&db, &mut rng));
        let now = db.vector_memory_use();
        assert_eq!((now.built, now.loaded, now.images), (1, 0, 1));
    }
    db.check().unwrap();
}

#[test]
fn searches_that_overlap_all_the_time_without_a_write_leave_the_file_before() {
    let dir = tempfile::tempdir().unwrap();
    let (db, things) = imaged(dir.path());
    db.save_vector_images().unwrap();
    things.insert_one(document(&mut vectors(4), ROWS)).unwrap();
    assert!(search(&db, &mut vectors(5)));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (things, done) = (&things, &done);
            scope.spawn(move || {
                let mut rng = vectors(20 + seed);
                while !done.load(Ordering::Relaxed) {
                    let request = VectorSearchRequest::new("near", rng.vector(), 1).candidates(4000);
                    things.vector_search(&request).unwrap();
                }
            });
        }
        db.save_vector_images().unwrap();
        let begun = std::time::Instant::now();
        while maps(dir.path()).len() > 1 && begun.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // While they search.
        let mapped = maps(dir.path());
        println!("the file before was left after {:?}", begun.elapsed());
        done.store(true, Ordering::Relaxed);
        assert_eq!(mapped.len(), 1, "{mapped:?}");
    });
    check_maps(dir.path());
    assert_eq!(db.vector_memory_use().built, 1);
}

#[test]
fn searches_beside_writes_and_saving_find_what_exact_ones_find_and_none_builds_an_image() {
    let dir = tempfile::tempdir().unwrap();
    let (db, things) = imaged(dir.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let searchers: Vec<_> = (0..2)
            .map(|seed| {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let mut rng = vectors(10 + seed);
                    let (mut all, mut by_image) = (0, 0);
                    while !done.load(Ordering::Relaxed) {
                        by_image += u32::from(search(db, &mut rng));
                        all += 1;
                    }
                    (all, by_image)
                })
            })
            .collect();
        let mut rng = vectors(3);
        for round in 0..8 {
            // Some that the searches are about.
            for id in [100 + round, 200 + round, 1000 + round] {
                things.delete(DeleteRequest::many(rawdoc! { "_id": id })).unwrap();
                things.insert_one(document(&mut rng, id)).unwrap();
            }
            things.vector_search(&VectorSearchRequest::new("near", rng.vector(), 1)).unwrap();
            db.save_vector_images().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        for searcher in searchers {
            let (all, by_image) = searcher.join().unwrap();
            println!("{by_image} of {all} searches by the image");
            // How many depends on the machine: a snapshot that is older than the last two states reads the table.
            assert!(by_image > 0, "{by_image} of {all}");
        }
    });
    let memory = db.vector_memory_use();
    assert_eq!((memory.built, memory.loaded, memory.images), (1, 0, 1));
    check_maps(dir.path());
    db.check().unwrap();
}
