//! Finds decode only what their projection keeps: what they return is that of whole documents.

use bson::{doc, rawdoc};
use treedb_query::query::Projection;

use super::*;

/// Documents of several shapes: fields that are missing, of other types, and nested.
fn documents() -> Vec<RawDocumentBuf> {
    let shape = |n: i32| match n % 4 {
        0 => {
            doc! { "_id": n, "a": n % 7, "b": { "c": n, "d": [1, 2, { "e": n }] }, "text": format!("text {n}"), "big": "x".repeat(300) }
        }
        1 => {
            doc! { "_id": n, "text": format!("text {n}"), "list": [{ "x": n % 3, "y": 1 }, { "x": 1 }], "a": [n % 7, 8] }
        }
        2 => doc! { "_id": n, "b": n, "a": (n % 7).to_string(), "list": [] },
        _ => doc! { "b": { "c": n % 50 }, "_id": n, "a": n % 7, "last": { "a": { "b": { "c": n } } } },
    };
    (0..400).map(|n| raw(&shape(n))).collect()
}

#[test]
fn a_find_with_a_projection_returns_the_projections_of_whole_documents() {
    let db = open(&SimDisk::default()).unwrap();
    let things = db.collection("shop.things").unwrap();
    things.insert_many(&documents(), true).unwrap();
    let filters = [
        doc! {},
        doc! { "a": 3 },
        doc! { "a": { "$gt": 2 }, "text": { "$exists": true } },
        doc! { "b.c": { "$lt": 50 } },
        doc! { "b.c": { "$lt": 50 }, "last": { "$exists": false } },
        doc! { "$or": [{ "a": 1 }, { "b.c": 3 }] },
        doc! { "list": { "$elemMatch": { "x": 1 } } },
        doc! { "$expr": { "$eq": ["$a", "$b.c"] } },
        doc! { "_id": { "$in": [1, 5, 7, 300, 1000] } },
        doc! { "text": { "$regex": "9$" } },
    ];
    let projections = [
        doc! { "a": 1 },
        doc! { "_id": 0, "a": 1 },
        doc! { "_id": 1 },
        doc! { "_id": 0 },
        doc! { "big": 0 },
        doc! { "_id": 0, "b": 0, "text": 0 },
        doc! { "b.c": 1, "last.a": 1 },
        doc! { "b.d.e": 0 },
        doc! { "list": { "$slice": 1 } },
        doc! { "list": { "$slice": -1 }, "a": 1 },
        doc! { "list": { "$elemMatch": { "x": 1 } } },
        doc! { "a": 1, "twice": { "$concat": ["$text", "$text"] } },
        doc! { "all": "$$ROOT" },
        doc! { "none": 1 },
        doc! {},
    ];
    let patterns = [None, Some(doc! { "a": 1 }), Some(doc! { "b.c": 1 }), Some(doc! { "a": 1, "b.c": 1 })];
    for pattern in patterns {
        if let Some(pattern) = &pattern {
            things.create_index(raw(pattern)).unwrap();
        }
        for (filter, projection) in filters.iter().flat_map(|f| projections.iter().map(move |p| (f, p))) {
            let parsed = Projection::parse(&raw(projection)).unwrap();
            for sort in [None, Some(rawdoc! { "_id": -1 }), Some(rawdoc! { "b.c": -1, "_id": 1 })] {
                let ordered = sort.is_some();
                let request = FindRequest { sort, ..FindRequest::filter(raw(filter)) };
                let all = |request: FindRequest| {
                    let found: Result<Vec<_>> = things.find(request).unwrap().collect();
                    found.unwrap()
                };
                let whole = all(request.clone());
                let mut expected: Vec<RawDocumentBuf> = { whole.iter() }
                    .map(|document| match &parsed {
                        Some(parsed) => parsed.apply(document).unwrap(),
                        None => document.clone(),
                    })
                    .collect();
                let mut found = all(request.clone().projection(raw(projection)));
                if !ordered {
                    // An index that has all fields may be read instead of the collection.
                    let bytes = |document: &RawDocumentBuf| document.as_bytes().to_vec();
                    expected.sort_by_key(bytes);
                    found.sort_by_key(bytes);
                }
                assert_eq!(found, expected, "{pattern:?}: {filter}, {projection}");
            }
        }
    }
}
