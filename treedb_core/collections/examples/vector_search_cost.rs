//! The cost of a vector index: building it, inserting one by one, and searches by the number of candidates, with their recall; whole and
//! filtered. Vectors of 128 dimensions in clusters; one thread, CPU time.
//! `cargo run --release -p treedb_collections --example vector_search_cost`

use std::collections::BTreeSet;
use std::error::Error;

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use rustix::time::{ClockId, clock_gettime};
use treedb_collections::{Collection, Database, Durability, IndexSpec, Options, VectorSearchRequest};
use treedb_testing::Clusters;

const DOCUMENTS: i32 = 20_000;
const SINGLE: i32 = 1_000;
const SEARCHES: usize = 200;
const DIMENSIONS: usize = 128;
const CLUSTERS: usize = 200;
/// Directions in which a cluster varies.
const LATENT: usize = 24;
const LIMIT: usize = 10;

/// Microseconds of this thread.
fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn document(vectors: &mut Clusters, id: i32) -> RawDocumentBuf {
    let vector: RawArrayBuf = vectors.vector().into_iter().map(f64::from).collect();
    rawdoc! { "_id": id, "part": id % 1000, "title": format!("document number {id}"), "v": vector }
}

/// Recall, and microseconds of a search.
fn search(
    things: &Collection,
    queries: &[Vec<f32>],
    filter: Option<RawDocumentBuf>,
    candidates: usize,
) -> Result<(f64, f64), Box<dyn Error>> {
    let (mut found, mut wanted, mut time) = (0, 0, 0.0);
    for query in queries {
        let request = VectorSearchRequest::new("near", query.clone(), LIMIT).candidates(candidates);
        let request = VectorSearchRequest { filter: filter.clone(), ..request };
        let begun = now();
        let nearest = things.vector_search(&request)?;
        time += now() - begun;
        let ids = |all: Vec<treedb_collections::Neighbor>| {
            all.into_iter().map(|one| one.document.get_i32("_id")).collect::<Result<BTreeSet<_>, _>>()
        };
        let (nearest, exact) = (ids(nearest)?, ids(things.vector_search(&request.exact())?)?);
        found += nearest.intersection(&exact).count();
        wanted += exact.len();
    }
    Ok((found as f64 / wanted as f64, time / queries.len() as f64))
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    let database = Database::open_with(dir.path(), options)?;
    let things = database.collection("shop.things")?;
    let mut vectors = Clusters::new(1, DIMENSIONS, CLUSTERS, LATENT);
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(&mut vectors, id)).collect();
    for batch in documents.chunks(1_000) {
        things.insert_many(batch, true)?;
    }
    let field = rawdoc! { "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "cosine" };
    let begun = now();
    things.create_index(IndexSpec::vector(field).name("near"))?;
    println!("build: {:.0} us a document of {DOCUMENTS}", (now() - begun) / f64::from(DOCUMENTS));
    let queries: Vec<_> = (0..SEARCHES).map(|_| vectors.vector()).collect();
    for (from, is_searched) in [(DOCUMENTS, false), (DOCUMENTS + SINGLE, true)] {
        if is_searched {
            // From then on there is an image, which insertions use too.
            search(&things, &queries, None, 10)?;
        }
        let begun = now();
        for id in from..from + SINGLE {
            things.insert_one(document(&mut vectors, id))?;
        }
        let time = (now() - begun) / f64::from(SINGLE);
        println!(
            "insert: {time:.0} us a document, {}",
            if is_searched { "after searches" } else { "before any" }
        );
    }
    for candidates in [10, 20, 50, 100, 200, 400] {
        let (recall, time) = search(&things, &queries, None, candidates)?;
        println!("{candidates:4} candidates: recall@{LIMIT} {recall:.3}, {time:.0} us a search");
    }
    for indexed in [false, true] {
        if indexed {
            things.create_index(rawdoc! { "part": 1 })?;
        }
        for below in [500, 100, 10, 1] {
            let few = queries.get(..20).unwrap_or(&queries);
            let filter = Some(rawdoc! { "part": { "$lt": below } });
            let (recall, time) = search(&things, few, filter, 100)?;
            let by = if indexed { "with an index on the field" } else { "without an index" };
            println!(
                "{:4.1} % match, {by}: recall@{LIMIT} {recall:.3}, {time:.0} us a search",
                f64::from(below) / 10.0
            );
        }
    }
    Ok(())
}
