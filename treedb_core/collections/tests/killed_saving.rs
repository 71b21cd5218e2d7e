//! A process that writes, searches and closes a database with a vector index again and again is killed with SIGKILL at random times: the
//! image that it has saved, or has not, never answers of another state than the documents.
//!
//! The child runs this program too. `TREEDB_KILL_ROUNDS=N` sets the number of rounds.

// Clippy does not treat the helper functions of tests as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, RawDocumentBuf, rawdoc};
use treedb_collections::{Collection, Database, DeleteRequest, IndexSpec, VectorSearchRequest};
use treedb_testing::Rng;

/// The environment variable that tells a child which directory to write to.
const DIRECTORY: &str = "TREEDB_KILL_DIRECTORY";
/// What the child says when it has begun.
const READY: &str = "the child has begun";
/// Few vectors of many dimensions: enough elements for a file, and a graph that is soon built.
const DIMENSIONS: usize = 4096;
const DOCUMENTS: i32 = 280;

fn vector(rng: &mut Rng) -> Vec<f32> {
    (0..DIMENSIONS).map(|_| rng.below(2001) as f32 / 1000.0 - 0.9995).collect()
}

fn document(id: i32, rng: &mut Rng) -> RawDocumentBuf {
    let elements = vector(rng).into_iter().flat_map(f32::to_le_bytes);
    let bytes = [0x27, 0].into_iter().chain(elements).collect();
    rawdoc! { "_id": id, "v": Binary { subtype: BinarySubtype::from(9), bytes } }
}

fn things(db: &Database) -> Collection {
    db.collection("shop.things").unwrap()
}

fn search(db: &Database, rng: &mut Rng) {
    things(db).vector_search(&VectorSearchRequest::new("near", vector(rng), 3)).unwrap();
}

fn create(dir: &Path, rng: &mut Rng) {
    let db = Database::open(dir).unwrap();
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(id, rng)).collect();
    things(&db).insert_many(&documents, true).unwrap();
    let field = rawdoc! { "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean" };
    things(&db).create_index(IndexSpec::vector(field).name("near")).unwrap();
    (0..10).for_each(|_| search(&db, rng));
    db.close().unwrap();
}

/// Works until it is killed.
fn child(dir: &Path) -> ! {
    let mut rng = Rng::new(u64::from(std::process::id()));
    loop {
        let db = Database::open(dir).unwrap();
        (0..4).for_each(|_| search(&db, &mut rng));
        println!("{READY}");
        for _ in 0..1 + rng.below(3) {
            let id = rng.below(DOCUMENTS as usize) as i32;
            things(&db).delete(DeleteRequest::one(rawdoc! { "_id": id })).unwrap();
            search(&db, &mut rng);
            things(&db).insert_one(document(id, &mut rng)).unwrap();
            search(&db, &mut rng);
            if rng.chance(30) {
                db.save_vector_images().unwrap();
            }
        }
        if rng.chance(80) {
            db.close().unwrap();
        }
    }
}

#[test]
fn what_a_killed_process_has_saved_never_answers_of_another_state() {
    if let Some(dir) = std::env::var_os(DIRECTORY) {
        child(Path::new(&dir));
    }
    let rounds = std::env::var("TREEDB_KILL_ROUNDS").ok().map_or(12, |rounds| rounds.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(5);
    create(dir.path(), &mut rng);
    let mut loads = 0;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--nocapture", "--test-threads=1"])
            .env(DIRECTORY, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line.contains(READY))), "the child ended");
        std::thread::sleep(Duration::from_millis(rng.below(300) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let db = Database::open(dir.path()).unwrap();
        (0..4).for_each(|_| search(&db, &mut rng));
        for _ in 0..3 {
            let request = VectorSearchRequest::new("near", vector(&mut rng), 400).candidates(1_000);
            let all = |request: &VectorSearchRequest| -> Vec<(i32, u32)> {
                let found = things(&db).vector_search(request).unwrap();
                let mut all: Vec<_> = found
                    .iter()
                    .map(|one| (one.document.get_i32("_id").unwrap(), one.distance.to_bits()))
                    .collect();
                all.sort_unstable();
                all
            };
            assert_eq!(all(&request), all(&request.clone().exact()), "round {round}");
        }
        loads += db.vector_memory_use().loaded;
        db.check().unwrap();
        drop(db);
    }
    assert!(loads > 0, "no image was read");
    println!("\nsummary: killed while saving: {rounds} rounds, {loads} images read");
}
