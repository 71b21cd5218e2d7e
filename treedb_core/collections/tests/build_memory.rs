//! The memory that builds of vector indexes take.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use treedb_collections::bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_collections::{Collection, Database, Durability, IndexSpec, Options, VectorSearchRequest};
use treedb_testing::{Clusters, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DIMENSIONS: usize = 512;
const ROWS: i32 = 4000;
/// Bytes of a vector that the graph has as it is.
const VECTOR: usize = 4 * DIMENSIONS;
/// What a build takes beside the graph: rows that are being read, links of nodes that are being linked, what is committed.
const BESIDE: usize = 5 << 20;

fn fill(things: &Collection, seed: u64) -> Vec<f32> {
    let mut vectors = Clusters::new(seed, DIMENSIONS, 40, 12);
    let mut document = |id: i32| -> RawDocumentBuf {
        let vector: RawArrayBuf = vectors.vector().into_iter().map(f64::from).collect();
        rawdoc! { "_id": id, "v": vector }
    };
    let ids: Vec<i32> = (0..ROWS).collect();
    for ids in ids.chunks(500) {
        let documents: Vec<_> = ids.iter().map(|id| document(*id)).collect();
        things.insert_many(&documents, true).unwrap();
    }
    vectors.vector()
}

/// Builds an index whose graph has the vectors as they are.
fn build(things: &Collection) {
    let definition = rawdoc! {
        "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean", "quantization": "none",
        "hnswOptions": { "maxEdges": 8, "numEdgeCandidates": 20 },
    };
    things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
}

#[test]
fn builds_take_no_more_memory_than_they_may_together_and_index_all_rows_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    let db = Database::open_with(dir.path(), options).unwrap();
    let (one, other) = (db.collection("shop.one").unwrap(), db.collection("shop.other").unwrap());
    let queries = [fill(&one, 1), fill(&other, 2)];
    let both = || {
        std::thread::scope(|scope| {
            scope.spawn(|| build(&one));
            scope.spawn(|| build(&other));
        });
    };
    // All of both graphs in memory.
    let unbounded = Counting::peak(both);
    assert!(unbounded > 2 * ROWS as usize * VECTOR, "{unbounded}");
    for things in [&one, &other] {
        things.drop_search_index("near").unwrap();
    }
    // A quarter of both.
    let limit = ROWS as usize * VECTOR / 2;
    db.set_vector_memory(limit as u64);
    let bounded = Counting::peak(both);
    assert!(bounded < limit + 2 * BESIDE, "{bounded} of {limit} and what is beside it; {unbounded} without");
    assert!(bounded > limit / 2 && unbounded > limit + 2 * BESIDE, "{bounded} {unbounded}");
    for (things, query) in [&one, &other].into_iter().zip(queries) {
        let request = VectorSearchRequest::new("near", query, 10).candidates(200);
        let found = things.vector_search(&request).unwrap();
        let exact = things.vector_search(&request.exact()).unwrap();
        let hits = found.iter().filter(|one| exact.contains(one)).count();
        assert!(hits >= 9, "{hits}");
    }
    // Every row is in its index, and nothing else.
    db.check().unwrap();
}
