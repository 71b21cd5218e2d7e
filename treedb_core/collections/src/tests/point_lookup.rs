//! Point lookups compared with the same finds by a plan and by a collection scan.

use bson::{Bson, Decimal128, RawDocumentBuf, doc, rawdoc};

use super::raw;
use crate::collection::Collection;
use crate::{Database, FindRequest, IndexSpec};
use treedb_query::access::Flow;
use treedb_query::query::Path;

/// Values for fields and for filters: equal numbers of all types, values that equal no others, arrays.
fn values() -> Vec<Bson> {
    let decimal = |text: &str| Bson::Decimal128(text.parse::<Decimal128>().unwrap());
    vec![
        1.into(),
        1_i64.into(),
        1.0.into(),
        decimal("1.00"),
        0.into(),
        (-0.0).into(),
        f64::NAN.into(),
        (-7.5).into(),
        i64::MAX.into(),
        "x".into(),
        "X".into(),
        "".into(),
        "x\u{0}y\u{1}".into(),
        Bson::Symbol("x".into()),
        true.into(),
        false.into(),
        bson::DateTime::from_millis(-1).into(),
        bson::oid::ObjectId::from_bytes([7; 12]).into(),
        bson::Binary { subtype: bson::spec::BinarySubtype::BinaryOld, bytes: vec![1, 2] }.into(),
        Bson::Timestamp(bson::Timestamp { time: 1, increment: 2 }),
        Bson::Null,
        Bson::Undefined,
        Bson::MinKey,
        bson::Regex { pattern: bson::raw::cstr!("x").to_owned(), options: bson::raw::cstr!("").to_owned() }
            .into(),
        doc! { "c": 1 }.into(),
        doc! { "0": "x" }.into(),
        vec![Bson::from(1), "x".into()].into(),
        vec![Bson::from(1), 1.0.into()].into(),
        vec![Bson::from(vec![Bson::from(1)])].into(),
        vec![Bson::from(doc! { "c": 1 }), doc! { "c": "x" }.into()].into(),
        Bson::Array(Vec::new()),
    ]
}

/// Documents with the values at `a` and below `b`, with or without arrays.
fn documents(arrays: bool) -> Vec<RawDocumentBuf> {
    let all = values();
    let usable: Vec<&Bson> = all.iter().filter(|value| arrays || !matches!(value, Bson::Array(_))).collect();
    let mut found = Vec::new();
    for (n, a) in usable.iter().enumerate() {
        for (m, b) in usable.iter().enumerate().filter(|(m, _)| (n + m) % 3 == 0) {
            let id = (100 * n + m) as i32;
            found.push(raw(&doc! { "_id": id, "a": (*a).clone(), "b": { "c": (*b).clone() } }));
        }
        found.push(raw(&doc! { "_id": format!("b{n}"), "b": (*a).clone() }));
    }
    found
}

fn ids(collection: &Collection, request: &FindRequest, planned: bool) -> Vec<Bson> {
    let mut cursor =
        if planned { collection.find_by_plan(request.clone()) } else { collection.find(request.clone()) }
            .unwrap();
    let ids: Vec<Bson> = cursor.by_ref().map(|doc| id(&doc.unwrap())).collect();
    let mut lent = Vec::new();
    let by_key = collection.lend_by_key(request, &mut |document| {
        lent.push(id(&document.to_owned()));
        Ok(Flow::Continue(()))
    });
    assert_eq!(lent, if by_key.unwrap() { ids.as_slice() } else { &[] }, "{request:?}");
    let other = collection.find_by_plan(request.clone()).map(|mut cursor| {
        cursor.by_ref().for_each(drop);
        (cursor.counters(), ranges(cursor.plan().unwrap()))
    });
    assert_eq!((cursor.counters(), ranges(cursor.plan().unwrap())), other.unwrap(), "{request:?}");
    ids
}

fn id(document: &RawDocumentBuf) -> Bson {
    document.get("_id").unwrap().unwrap().to_owned().try_into().unwrap()
}

/// The index of a plan and the ranges of its keys.
fn ranges(plan: &treedb_query::query::Plan) -> String {
    match &plan.path {
        Path::Index { name, ranges, direction, .. } => format!("{name} {ranges:?} {direction:?}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn documents_are_lent_by_key_as_far_as_they_are_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let collection = db.collection("a.b").unwrap();
    let request = FindRequest::filter(rawdoc! { "n": 1 });
    let lend = |request: &FindRequest, most: usize| {
        let mut lent = 0;
        let by_key = collection.lend_by_key(request, &mut |_| {
            lent += 1;
            Ok(if lent < most { Flow::Continue(()) } else { Flow::Break(()) })
        });
        by_key.unwrap().then_some(lent)
    };
    assert_eq!(lend(&request, 9), Some(0), "there is no collection");
    let docs: Vec<_> = (0..12).map(|id| rawdoc! { "_id": id, "n": id % 2 }).collect();
    collection.insert_many(&docs, true).unwrap();
    assert_eq!(lend(&request, 9), None, "there is no index");
    collection.create_index(rawdoc! { "n": 1 }).unwrap();
    assert_eq!(lend(&request, 9), Some(6));
    assert_eq!(lend(&request, 2), Some(2), "the caller has enough");
    assert_eq!(lend(&request.clone().limit(4), 9), Some(4));
    assert_eq!(lend(&request.clone().limit(1), 9), Some(1));
    assert_eq!(lend(&request.clone().skip(1), 9), None);
    assert_eq!(lend(&request.clone().sort(rawdoc! { "_id": 1 }), 9), None);
    db.create_view("a.view", "b", Vec::new()).unwrap();
    let view = db.collection("a.view").unwrap();
    assert!(!view.lend_by_key(&request, &mut |_| Ok(Flow::Continue(()))).unwrap());
    let mut all = 0;
    let count = |_: &bson::RawDocument| {
        all += 1;
        Ok(Flow::Continue(()))
    };
    view.for_each(&request, &mut { count }).unwrap();
    assert_eq!(all, 6);
}

#[test]
fn a_find_by_one_value_equals_its_plan_and_a_collection_scan() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let plain = |keys: RawDocumentBuf| vec![IndexSpec::new(keys)];
    let sets: Vec<Vec<IndexSpec>> = vec![
        plain(rawdoc! { "a": 1 }),
        plain(rawdoc! { "a": -1 }),
        plain(rawdoc! { "b.c": 1 }),
        plain(rawdoc! { "a.0": 1 }),
        plain(rawdoc! { "a": 1, "b.c": -1 }),
        plain(rawdoc! { "b.c": 1, "a": 1 }),
        plain(rawdoc! { "a": "hashed" }),
        plain(rawdoc! { "$**": 1 }),
        vec![IndexSpec::new(rawdoc! { "a": 1 }).sparse()],
        vec![IndexSpec::new(rawdoc! { "a": 1 }).hidden()],
        vec![IndexSpec::new(rawdoc! { "a": 1 }).partial(rawdoc! { "a": { "$gt": 0 } })],
        vec![IndexSpec::new(rawdoc! { "a": 1 }).collation(rawdoc! { "locale": "en", "strength": 2 })],
        vec![IndexSpec::new(rawdoc! { "a": 1 }), IndexSpec::new(rawdoc! { "a": 1, "b.c": 1 })],
        vec![IndexSpec::new(rawdoc! { "a": 1, "_id": 1 }).unique(), IndexSpec::new(rawdoc! { "b": 1 })],
    ];
    let mut asked = 0;
    for (number, specs) in sets.iter().enumerate() {
        for arrays in [false, true] {
            let collection = db.collection(&format!("test.set{number}{arrays}")).unwrap();
            collection.create_indexes(specs).unwrap();
            // Some indexes refuse some documents.
            assert!(collection.insert_many(&documents(arrays), false).unwrap().inserted > 200);
            // Comparing with undefined is an error.
            for value in values().into_iter().filter(|value| *value != Bson::Undefined) {
                for field in ["a", "b.c", "a.0", "_id", "b"] {
                    let request = FindRequest::filter(raw(&doc! { field: value.clone() }));
                    let found = ids(&collection, &request, false);
                    assert_eq!(found, ids(&collection, &request, true), "{specs:?} {request:?}");
                    let mut scanned = ids(&collection, &request.clone().hint("$natural"), true);
                    let mut sorted = found.clone();
                    sorted.sort_by_key(ToString::to_string);
                    scanned.sort_by_key(ToString::to_string);
                    assert_eq!(sorted, scanned, "{specs:?} {request:?}");
                    let limited = ids(&collection, &request.clone().limit(2), false);
                    assert_eq!(limited, found.get(..2).unwrap_or(&found), "{specs:?} {request:?}");
                    let first = collection.find_one(request.filter.unwrap()).unwrap();
                    assert_eq!(first.as_ref().map(id).as_ref(), found.first(), "{specs:?} {field} {value}");
                    asked += found.len();
                }
            }
        }
    }
    assert!(asked > 5_000, "{asked}");
}

#[test]
fn a_find_by_all_fields_of_a_unique_index_equals_its_plan() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let unique = |keys: RawDocumentBuf| IndexSpec::new(keys).unique();
    let sets = [
        unique(rawdoc! { "a": 1, "b.c": -1 }),
        unique(rawdoc! { "b.c": 1, "a": 1 }).sparse(),
        unique(rawdoc! { "a": 1, "b.c": 1 }).partial(rawdoc! { "a": { "$gt": 0 } }),
        unique(rawdoc! { "a": 1, "b.c": 1 }).collation(rawdoc! { "locale": "en", "strength": 2 }),
        unique(rawdoc! { "a": 1, "b.c": 1 }).hidden(),
        unique(rawdoc! { "a": 1, "b.c": 1, "_id": 1 }),
        IndexSpec::new(rawdoc! { "a": 1, "b.c": 1 }),
    ];
    let mut found = 0;
    for (number, spec) in sets.iter().enumerate() {
        for arrays in [false, true] {
            let collection = db.collection(&format!("test.all{number}{arrays}")).unwrap();
            collection.create_index(spec.clone()).unwrap();
            // A unique index refuses documents with the same key as others.
            assert!(collection.insert_many(&documents(arrays), false).unwrap().inserted > 50);
            let values: Vec<Bson> = values().into_iter().filter(|value| *value != Bson::Undefined).collect();
            for (n, a) in values.iter().enumerate() {
                for (m, c) in values.iter().enumerate() {
                    let mut filter = doc! { "b.c": c.clone(), "a": a.clone() };
                    if (n + m) % 4 == 0 {
                        filter.insert("_id", (100 * n + m) as i32);
                    }
                    let request = FindRequest::filter(raw(&filter)).limit(1);
                    let planned: Vec<Bson> = ids(&collection, &request, true);
                    let one = collection.find_one(raw(&filter)).unwrap();
                    assert_eq!(one.as_ref().map(id).as_ref(), planned.first(), "{spec:?} {filter}");
                    found += planned.len();
                }
            }
        }
    }
    assert!(found > 1000, "{found}");
}

#[test]
fn a_find_of_many_documents_by_one_value_continues_after_each_batch() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let people = db.collection("test.people").unwrap();
    people.create_index(rawdoc! { "city": 1 }).unwrap();
    let person = |n: i32| rawdoc! { "_id": n, "city": n % 3, "pad": "x".repeat(if n % 500 == 1 { 600_000 } else { 5 }) };
    people.insert_many(&(0..3000).map(person).collect::<Vec<_>>(), true).unwrap();
    let request = FindRequest::filter(rawdoc! { "city": 1 });
    let mut cursor = people.find(request.clone()).unwrap();
    let before: Vec<Bson> = cursor.by_ref().take(200).map(|doc| id(&doc.unwrap())).collect();
    // The cursor continues on its own snapshot.
    people.delete(crate::DeleteRequest::many(rawdoc! { "city": 1 })).unwrap();
    people.drop_index("city_1").unwrap();
    let all: Vec<Bson> = before.into_iter().chain(cursor.by_ref().map(|doc| id(&doc.unwrap()))).collect();
    assert_eq!(all, (0..1000).map(|n| Bson::from(3 * n + 1)).collect::<Vec<_>>());
    assert_eq!((cursor.counters().keys_examined, cursor.counters().returned), (1000, 1000));
    assert_eq!(people.find(request).unwrap().count(), 0);
}

#[test]
fn the_catalog_cache_of_a_thread_follows_its_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let other_dir = tempfile::tempdir().unwrap();
    let other = Database::open(other_dir.path()).unwrap();
    let one = |db: &Database, n: i32| {
        let found = db.collection("a.b").unwrap().find_one(rawdoc! { "n": n }).unwrap();
        found.map(|document| id(&document))
    };
    assert_eq!(one(&db, 1), None);
    let both = [&db, &other].map(|db| db.collection("a.b").unwrap());
    both[0].insert_one(rawdoc! { "_id": "first", "n": 1 }).unwrap();
    both[1].insert_one(rawdoc! { "_id": "second", "n": 1 }).unwrap();
    for _ in 0..2 {
        assert_eq!((one(&db, 1), one(&other, 1)), (Some("first".into()), Some("second".into())));
        both.iter().for_each(|collection| drop(collection.create_index(rawdoc! { "n": 1 }).unwrap()));
    }
    // From here on the index is multikey.
    both[0].insert_one(rawdoc! { "_id": "array", "n": [2, 3] }).unwrap();
    assert_eq!((one(&db, 2), one(&db, 3)), (Some("array".into()), Some("array".into())));
    let kept = both[0].find(FindRequest::filter(rawdoc! { "n": 1 })).unwrap();
    both[0].drop_index("n_1").unwrap();
    assert_eq!(one(&db, 3), Some("array".into()));
    assert!(db.drop_collection("a.b").unwrap());
    assert_eq!((one(&db, 1), one(&other, 1)), (None, Some("second".into())));
    assert_eq!(kept.map(|document| id(&document.unwrap())).collect::<Vec<_>>(), ["first".into()]);
}

#[test]
fn a_filter_of_one_value_that_is_not_valid_bson_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let people = db.collection("test.people").unwrap();
    people.insert_one(rawdoc! { "_id": "abc" }).unwrap();
    let good = rawdoc! { "_id": "abc" }.into_bytes();
    let mut found = 0;
    for at in 4..good.len() {
        for byte in [0, 1, 3, 0x0a, 0x7f, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            let Ok(filter) = RawDocumentBuf::from_bytes(bytes.clone()) else { continue };
            let request = FindRequest::filter(filter.clone());
            let direct = people.find(request.clone()).map(Iterator::count).map_err(|error| error.code);
            let planned = people.find_by_plan(request).map(Iterator::count).map_err(|error| error.code);
            assert_eq!(direct, planned, "{bytes:?}");
            let one = people.find_one(filter).map(|found| usize::from(found.is_some()));
            assert_eq!(one.map_err(|error| error.code), planned, "{bytes:?}");
            found += usize::from(planned.is_err());
        }
    }
    assert!(found > 20, "{found}");
}
