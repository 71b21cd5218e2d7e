//! A vector index that is several times as large as the memory that it may take: what a build, searches, writes, saving and an opening take, and that
//! the answers are the same.
//!
//! The figures are of the allocator, for this process has nothing else that grows: what is mapped of files is the system's to take back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use treedb_collections::bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_collections::{
    Collection, Database, DeleteRequest, Durability, IndexSpec, Options, VectorSearchRequest,
};
use treedb_testing::{Clusters, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DIMENSIONS: usize = 512;
const ROWS: i32 = 6000;
/// What images and builds may take.
const BUDGET: u64 = 1 << 21;
const LARGE: u64 = 1 << 30;
/// What a build takes beside the graph: rows that are being read, links of nodes that are being linked, what is committed.
const BESIDE: usize = 5 << 20;

/// What one test takes is not to be counted for another.
static ALONE: Mutex<()> = Mutex::new(());

fn document(vectors: &mut Clusters, id: i32) -> RawDocumentBuf {
    let vector: RawArrayBuf = vectors.vector().into_iter().map(f64::from).collect();
    rawdoc! { "_id": id, "v": vector }
}

fn open(dir: &std::path::Path) -> (Database, Collection) {
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    let db = Database::open_with(dir, options).unwrap();
    // What a build takes depends on it.
    db.set_vector_build_threads(2);
    let things = db.collection("shop.things").unwrap();
    (db, things)
}

fn build(things: &Collection) {
    let definition = rawdoc! {
        "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean",
        "hnswOptions": { "maxEdges": 8, "numEdgeCandidates": 20 },
    };
    things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
}

/// The ten nearest to each of the queries, by what a search finds, or exactly.
fn answers(things: &Collection, queries: &[Vec<f32>], exact: bool) -> Vec<Vec<i32>> {
    let answer = |query: &Vec<f32>| {
        let request = VectorSearchRequest::new("near", query.clone(), 10).candidates(400);
        let found = things.vector_search(&if exact { request.exact() } else { request }).unwrap();
        found.iter().map(|one| one.document.get_i32("_id").unwrap()).collect()
    };
    queries.iter().map(answer).collect()
}

fn recall(found: &[Vec<i32>], exact: &[Vec<i32>]) -> f64 {
    let hits =
        found.iter().zip(exact).flat_map(|(found, exact)| found.iter().filter(|id| exact.contains(id)));
    hits.count() as f64 / exact.iter().flatten().count() as f64
}

/// Megabytes of the process, of `/proc/self/status`.
#[cfg(target_os = "linux")]
fn memory(kind: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1e3
}

#[cfg(not(target_os = "linux"))]
fn memory(_: &str) -> f64 {
    0.0
}

/// Does some work; what it took at most beside what there was.
fn peak(what: &str, work: impl FnOnce()) -> usize {
    let begun = Instant::now();
    let peak = Counting::peak(work);
    println!(
        "{what}: {peak} bytes at most, {:.1} s; of the process {:.1} MB of its own, {:.1} MB of files",
        begun.elapsed().as_secs_f64(),
        memory("RssAnon"),
        memory("RssFile")
    );
    peak
}

/// How long a search takes, the least of some rounds.
fn search_time(things: &Collection, queries: &[Vec<f32>]) -> Duration {
    let round = |_| {
        let begun = Instant::now();
        for query in queries {
            things
                .vector_search(&VectorSearchRequest::new("near", query.clone(), 10).candidates(100))
                .unwrap();
        }
        begun.elapsed() / queries.len() as u32
    };
    (0..5).map(round).min().unwrap()
}

/// Searches until there is one more image, or for so long that there would be.
fn search_often(db: &Database, things: &Collection, queries: &[Vec<f32>]) {
    let made = || db.vector_memory_use().built + db.vector_memory_use().loaded;
    let before = made();
    for query in queries.iter().cycle().take(40) {
        if made() > before {
            break;
        }
        things.vector_search(&VectorSearchRequest::new("near", query.clone(), 1)).unwrap();
    }
}

#[test]
fn an_index_that_is_many_times_its_memory_is_built_searched_written_and_saved_within_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let (db, things) = open(dir.path());
    let mut vectors = Clusters::new(1, DIMENSIONS, 40, 12);
    for first in (0..ROWS).step_by(500) {
        let documents: Vec<_> = (first..first + 500).map(|id| document(&mut vectors, id)).collect();
        things.insert_many(&documents, true).unwrap();
    }
    let queries: Vec<Vec<f32>> = (0..25).map(|_| vectors.vector()).collect();

    // With all the memory that it wants.
    db.set_vector_memory(LARGE);
    let unbounded = peak("build with memory", || build(&things));
    search_often(&db, &things, &queries);
    let whole = db.vector_memory();
    let exact = answers(&things, &queries, true);
    let by_large = recall(&answers(&things, &queries, false), &exact);
    let image_time = search_time(&things, &queries);
    println!("the image takes {whole} bytes, the budget is {BUDGET}; recall {by_large}");
    assert!(whole > 6 * BUDGET && unbounded > 2 * BUDGET as usize, "{whole} {unbounded}");
    things.drop_search_index("near").unwrap();

    // A build, which writes the image that does not fit straight into its file; searches of that, and the same of the table.
    db.set_vector_memory(BUDGET);
    let built = peak("build", || build(&things));
    assert!(built < BUDGET as usize + BESIDE, "{built}");
    assert_eq!(db.vector_memory_use().streamed, 1);
    let mut found = Vec::new();
    let searched = peak("searches of the file", || {
        search_often(&db, &things, &queries);
        found = answers(&things, &queries, false);
    });
    let memory_use = db.vector_memory_use();
    assert!(memory_use.images == 1 && memory_use.bytes < BUDGET && memory_use.loaded == 1, "{memory_use:?}");
    assert!(memory_use.mapped_bytes > 6 * BUDGET && searched < BESIDE, "{memory_use:?} {searched}");
    let file_time = search_time(&things, &queries);
    let by_file = recall(&found, &exact);
    db.set_vector_memory(0);
    let by_table = recall(&answers(&things, &queries, false), &exact);
    let table_time = search_time(&things, &queries);
    db.set_vector_memory(BUDGET);
    println!("a search: {image_time:?} with memory, {file_time:?} in the file, {table_time:?} in the table");
    println!("recall {by_file} in the file, {by_table} in the table, {by_large} with memory");
    assert!(by_file > 0.97 && by_file > by_large - 0.03 && by_file > by_table - 0.005);
    assert!(file_time < table_time, "{file_time:?} {table_time:?}");
    let written = peak("writes", || {
        for id in ROWS..ROWS + 60 {
            things.insert_one(document(&mut vectors, id)).unwrap();
            things.delete(DeleteRequest::many(rawdoc! { "_id": id })).unwrap();
        }
    });
    assert!(written < BESIDE, "{written}");
    let found = answers(&things, &queries, false);
    let saved = peak("saving what was followed first", || db.save_vector_images().unwrap());
    // Or another file was written beside the searches before, which the next ones read.
    assert!(recall(&answers(&things, &queries, false), &found) > 0.99);
    let memory_use = db.vector_memory_use();
    let own = db.vector_memory();
    assert!(saved < BESIDE && memory_use.images == 1 && memory_use.built == 1, "{saved} {memory_use:?}");
    drop(things);
    db.close().unwrap();
    // What the store has for itself is no matter of the index.
    let alone = peak("opening alone", || drop(open(dir.path())));
    let mut reopened = None;
    let opened = peak("opening and searches of the file", || {
        let (db, things) = open(dir.path());
        db.set_vector_memory(BUDGET);
        assert!(recall(&answers(&things, &queries, false), &found) > 0.99);
        reopened = Some((db, things));
    });
    let (db, things) = reopened.unwrap();
    let memory_use = db.vector_memory_use();
    assert!(opened < alone + BUDGET as usize && memory_use.loaded == 1, "{opened} {alone} {memory_use:?}");
    // So much that no other file is written meanwhile.
    db.set_vector_memory(2 * BUDGET);
    let followed = peak("writes, which the file's image follows", || {
        let new: Vec<_> = (ROWS..ROWS + 60).map(|id| document(&mut vectors, id)).collect();
        things.insert_many(&new, true).unwrap();
        answers(&things, &queries, false);
        things.delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": ROWS } })).unwrap();
        answers(&things, &queries, false);
    });
    let delta = db.vector_memory();
    assert!(
        followed < BESIDE + BUDGET as usize && delta <= BUDGET && delta > own,
        "{followed} {delta} {own}"
    );
    let saved = peak("saving what was followed", || db.save_vector_images().unwrap());
    let now = db.vector_memory_use();
    println!("{delta} bytes with what followed, {} after saving it", now.bytes);
    assert!(
        saved < BESIDE && now.bytes < delta && (now.built, now.loaded, now.images) == (0, 1, 1),
        "{now:?}"
    );
    // The graph is as good as the table's, of which the image is a copy.
    let last = answers(&things, &queries, false);
    db.set_vector_memory(0);
    let table = answers(&things, &queries, false);
    let recalls = [&found, &last, &table].map(|found| recall(found, &exact));
    println!("recall {recalls:?} before, by the image in the end, and by the table");
    assert!(recall(&last, &table) > 0.99 && recalls[1] > 0.9, "{recalls:?}");
    db.check().unwrap();
}

/// Removes the files of images.
fn remove_files(dir: &std::path::Path) {
    std::fs::remove_dir_all(dir.join("derived")).unwrap();
}

#[test]
fn searches_of_an_index_without_a_file_or_room_for_its_image_get_a_file_and_closing_does_not_wait_for_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let (db, things) = open(dir.path());
    let mut vectors = Clusters::new(2, DIMENSIONS, 40, 12);
    let documents: Vec<_> = (0..ROWS).map(|id| document(&mut vectors, id)).collect();
    documents.chunks(1000).for_each(|some| drop(things.insert_many(some, true).unwrap()));
    build(&things);
    db.set_save_vector_images_at_close(false);
    drop(things);
    db.close().unwrap();
    let query = || VectorSearchRequest::new("near", Clusters::new(3, DIMENSIONS, 40, 12).vector(), 1);
    let (db, things) = open(dir.path());
    db.set_vector_memory(BUDGET);
    let peak = peak("a file beside searches", || {
        let begun = Instant::now();
        // The file is there a moment before it is counted.
        while (db.vector_memory_use().streamed, db.vector_memory_use().images) != (1, 1) {
            things.vector_search(&query()).unwrap();
            assert!(begun.elapsed().as_secs() < 120, "{:?}", db.vector_memory_use());
        }
    });
    let memory_use = db.vector_memory_use();
    assert!(memory_use.loaded > 0 && memory_use.built == 0, "{memory_use:?}");
    assert!(peak < BESIDE + BUDGET as usize, "{peak}");
    // What follows is written into a new file before it takes all of the room.
    for round in 0..10 {
        let new: Vec<_> = (0..30).map(|id| document(&mut vectors, ROWS + 30 * round + id)).collect();
        things.insert_many(&new, true).unwrap();
        things.vector_search(&query()).unwrap();
    }
    let begun = Instant::now();
    while db.vector_memory_use().images == 0 || db.vector_memory() > BUDGET {
        things.vector_search(&query()).unwrap();
        assert!(begun.elapsed().as_secs() < 120, "{:?}", db.vector_memory_use());
    }
    drop(things);
    db.close().unwrap();
    for round in 0..4 {
        remove_files(dir.path());
        let (db, things) = open(dir.path());
        db.set_vector_memory(BUDGET);
        things.vector_search(&query()).unwrap();
        // Sometimes nothing is written yet, sometimes a part.
        std::thread::sleep(Duration::from_millis(30 * round));
        drop(things);
        let begun = Instant::now();
        match round % 2 {
            0 => db.close().unwrap(),
            _ => drop(db),
        }
        println!("closed after {:?}", begun.elapsed());
        let left = std::fs::read_dir(dir.path().join("derived")).map_or(0, |files| {
            files.filter(|file| file.as_ref().unwrap().path().extension().is_some()).count()
        });
        assert_eq!(left, 0, "a part of a file is left");
        drop(open(dir.path()));
        std::fs::create_dir_all(dir.path().join("derived")).unwrap();
    }
}
