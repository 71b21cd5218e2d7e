//! Finds with and without a projection, for callgrind: the difference between two numbers of rounds is the cost of finds alone.
//! `cargo run --release -p treedb_collections --example projection_cost -- ROUNDS scan|scan_all|scan_without|scan_id|index|one|none`

use std::error::Error;

use bson::{RawDocumentBuf, rawdoc};
use treedb_collections::{Database, FindRequest, IndexSpec};
use treedb_query::access::Flow;

fn document(n: i32) -> RawDocumentBuf {
    rawdoc! {
        "_id": n, "email": format!("user{n}@example.com"), "age": n % 90, "name": format!("user number {n}"),
        "city": "Reykjavik", "active": n % 2 == 0, "score": f64::from(n) / 7.0,
        "tags": ["a", "b"], "profile": { "rank": n, "bio": "x".repeat(96) },
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (rounds, name) = (args[1].parse::<u32>()?, args[2].as_str());
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path())?;
    let collection = database.collection("db.c")?;
    let all: Vec<_> = (0..1000).map(document).collect();
    collection.insert_many(&all, true)?;
    collection.create_index(IndexSpec::new(rawdoc! { "age": 1 }))?;
    let (filter, projection) = match name {
        "scan" => (rawdoc! { "score": { "$gte": 0.0 } }, Some(rawdoc! { "email": 1 })),
        "scan_all" => (rawdoc! {}, Some(rawdoc! { "email": 1 })),
        "scan_without" => (rawdoc! {}, Some(rawdoc! { "profile": 0 })),
        "scan_id" => (rawdoc! {}, Some(rawdoc! { "_id": 0 })),
        "index" => (rawdoc! { "age": { "$gte": 0 } }, Some(rawdoc! { "email": 1, "age": 1 })),
        "one" => (rawdoc! { "age": 33, "active": true }, Some(rawdoc! { "email": 1 })),
        _ => (rawdoc! {}, None),
    };
    let mut found = 0_u64;
    for _ in 0..rounds {
        let mut request = FindRequest::filter(filter.clone());
        request.projection = projection.clone();
        if name == "one" {
            request = request.limit(1);
        }
        collection.for_each(&request, &mut |_| {
            found += 1;
            Ok(Flow::Continue(()))
        })?;
    }
    println!("{found}");
    Ok(())
}
