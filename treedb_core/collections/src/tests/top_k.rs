//! Sorts with a limit, compared with the first documents of a full sort.

use super::*;
use crate::{AggregateRequest, DeleteRequest, Format};
use bson::{RawBson, rawdoc};
use treedb_query::error::ErrorCode;
use treedb_testing::{Rng, random_document};

const SORTS: usize = 9;

fn sort(number: usize) -> RawDocumentBuf {
    match number {
        0 => rawdoc! { "a": 1 },
        1 => rawdoc! { "a": -1 },
        2 => rawdoc! { "a.b": -1 },
        3 => rawdoc! { "b": 1, "_id": -1 },
        4 => rawdoc! { "number": -1 },
        5 => rawdoc! { "text": 1 },
        6 => rawdoc! { "text": -1, "a": 1 },
        7 => rawdoc! { "_id": -1 },
        _ => rawdoc! { "text": 1, "number": 1, "_id": 1 },
    }
}

/// Random documents with a string and a number of a few types.
fn documents(rng: &mut Rng, count: i32) -> Vec<RawDocumentBuf> {
    let one = |id: i32| {
        let mut doc = rawdoc! { "_id": id };
        let number = (rng.below(600) as i32) - 300;
        match rng.below(12) {
            0 => {}
            1 => doc.append(bson::raw::cstr!("number"), RawBson::Null),
            2 => doc.append(bson::raw::cstr!("number"), f64::from(number) + 0.25),
            3 => doc.append(bson::raw::cstr!("number"), i64::from(number) << 40),
            4 => doc.append(bson::raw::cstr!("number"), f64::NAN),
            _ => doc.append(bson::raw::cstr!("number"), number),
        }
        match rng.below(9) {
            0 => doc.append(bson::raw::cstr!("text"), RawBson::Null),
            1 => doc.append(bson::raw::cstr!("text"), "with\0zero"),
            _ => doc.append(bson::raw::cstr!("text"), format!("T{:03}", rng.below(200))),
        }
        if rng.below(3) > 0 {
            for field in &random_document(rng, 2) {
                let (name, value) = field.unwrap();
                doc.append(name, value);
            }
        }
        doc
    };
    (0..count).map(one).collect()
}

#[test]
fn a_sort_with_a_limit_gives_the_first_documents_of_the_full_sort() {
    let mut rng = Rng::new(77);
    for format in [Format::Template, Format::Bson, Format::Json] {
        let db = open(&SimDisk::default()).unwrap();
        db.create_collection("db.all", format.options()).unwrap();
        let all = db.collection("db.all").unwrap();
        all.insert_many(&documents(&mut rng, 400), true).unwrap();
        all.delete(DeleteRequest::many(rawdoc! { "_id": { "$gt": 120, "$lt": 190 } })).unwrap();
        for round in 0..90 {
            let sort = sort(round % SORTS);
            let filter = match rng.below(4) {
                0 => rawdoc! { "text": { "$gt": "T100" } },
                1 => rawdoc! { "$expr": { "$lt": ["$number", 100] } },
                _ => rawdoc! {},
            };
            let (skip, limit) = (rng.below(3) * rng.below(50), 1 + rng.below(5) * rng.below(60));
            let collation = (rng.below(4) == 0).then(|| rawdoc! { "locale": "en", "strength": 2 });
            let told = format!("{format:?} {filter:?} {sort:?} {skip} {limit} {collation:?}");
            let find = |skip: usize, limit: usize| {
                let request = FindRequest {
                    filter: Some(filter.clone()),
                    sort: Some(sort.clone()),
                    skip: skip as u64,
                    limit: limit as u64,
                    collation: collation.clone(),
                    ..FindRequest::default()
                };
                all.find(request).unwrap().collect::<Result<Vec<_>>>()
            };
            let Ok(expected) = find(0, 0) else {
                assert!(find(0, 1000).is_err(), "{told}");
                continue;
            };
            let expected: Vec<_> = expected.into_iter().skip(skip).take(limit).collect();
            assert_eq!(find(skip, limit).unwrap(), expected, "{told}");
            for (threads, memory) in [(1, 1 << 20), (2, 1 << 20), (5, 1 << 20), (3, 20_000), (1, 3000)] {
                let mut request = AggregateRequest::new([
                    rawdoc! { "$match": filter.clone() },
                    rawdoc! { "$sort": sort.clone() },
                    rawdoc! { "$skip": skip as i64 },
                    rawdoc! { "$limit": limit as i64 },
                ]);
                (request.threads, request.collation) = (Some(threads), collation.clone());
                let found = |request: &AggregateRequest| {
                    db.aggregate("db.all", request).unwrap().collect::<Result<Vec<_>>>()
                };
                assert_eq!(found(&request).unwrap(), expected, "{told} {threads}");
                // The simulated disk has no temporary files.
                request.memory = memory;
                match found(&request) {
                    Ok(found) => assert_eq!(found, expected, "{told} {threads} {memory}"),
                    Err(error) => {
                        assert_eq!(error.code, ErrorCode::QueryExceededMemoryLimitNoDiskUseAllowed);
                        assert!(memory < 1 << 20);
                    }
                }
            }
        }
    }
}

#[test]
fn a_sort_by_two_array_fields_is_refused_with_and_without_a_limit() {
    let db = open(&SimDisk::default()).unwrap();
    let all = db.collection("db.all").unwrap();
    let docs: Vec<_> = (0..20).map(|n| rawdoc! { "_id": n, "a": n, "b": n, "c": n }).collect();
    all.insert_many(&docs, true).unwrap();
    all.insert_one(&rawdoc! { "a": 99, "b": [1, 2], "c": [1, 2] }).unwrap();
    for (sort, refused) in [(rawdoc! { "a": 1, "b": 1 }, false), (rawdoc! { "a": 1, "b": 1, "c": 1 }, true)] {
        for limit in [0, 3] {
            let request = FindRequest { sort: Some(sort.clone()), limit, ..FindRequest::default() };
            let found: Result<Vec<_>> = all.find(request).unwrap().collect();
            assert_eq!(found.is_err(), refused, "{sort:?} {limit}");
        }
    }
}

#[test]
fn a_sort_with_a_limit_fails_at_its_deadline() {
    let db = open(&SimDisk::default()).unwrap();
    let docs: Vec<_> = (0..300).map(|n| rawdoc! { "_id": n, "a": n }).collect();
    db.collection("db.all").unwrap().insert_many(&docs, true).unwrap();
    for threads in [1, 3] {
        let stages = [rawdoc! { "$sort": { "a": 1 } }, rawdoc! { "$limit": 3 }];
        let mut request = AggregateRequest::new(stages);
        (request.threads, request.until) = (Some(threads), Some(std::time::Instant::now()));
        let error = db.aggregate("db.all", &request).unwrap().next().unwrap().unwrap_err();
        assert_eq!(error.code, ErrorCode::MaxTimeMSExpired);
    }
}
