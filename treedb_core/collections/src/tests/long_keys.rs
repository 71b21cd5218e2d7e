//! Values longer than stored keys, with lengths on both sides of every limit: index scans, operations with
//! and without indexes, and duplicates in unique indexes.

use bson::{Bson, doc, rawdoc};
use treedb_testing::{Rng, seeds};

use super::*;
use crate::index::ordered::long_key::{MAX_STORED_LEN, PREFIX_LEN, is_shortened, stored};
use crate::read::view::View;
use crate::{Collection, DeleteRequest, IndexSpec, UpdateRequest};
use treedb_query::access::{Direction, Flow, KeyRange, RowId, Source, after_prefix};
use treedb_query::error::ErrorCode;
use treedb_storage::Reads;

/// Strings with a common prefix that differ near the beginning, near the length of stored keys, or at the
/// end.
fn text(rng: &mut Rng) -> String {
    let around = [
        PREFIX_LEN - 2,
        PREFIX_LEN - 1,
        PREFIX_LEN,
        MAX_STORED_LEN - 3,
        MAX_STORED_LEN - 2,
        MAX_STORED_LEN - 1,
    ];
    let mut text = match rng.below(8) {
        0 => "x".repeat(rng.below(3)),
        1..4 => "x".repeat(*rng.pick(&around)),
        _ => "x".repeat(*rng.pick(&[1000, 1500, 5000])),
    };
    if !text.is_empty() && rng.below(3) > 0 {
        let places = [1, PREFIX_LEN - 3, PREFIX_LEN, PREFIX_LEN + 20, 990, text.len() - 1];
        let at = (*rng.pick(&places)).min(text.len() - 1);
        text.replace_range(at..=at, rng.pick::<&str>(&["y", "W", "\u{1}"]));
    }
    text
}

fn value(rng: &mut Rng) -> Bson {
    match rng.below(14) {
        0 => Bson::Null,
        1 => Bson::Int32(rng.below(3) as i32),
        2 => Bson::Binary(bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes: vec![7; *rng.pick(&[3, PREFIX_LEN - 6, MAX_STORED_LEN - 6, 2000])],
        }),
        3 => doc! { "deep": text(rng) }.into(),
        _ => text(rng).into(),
    }
}

fn document(rng: &mut Rng, id: Bson) -> Document {
    let mut doc = doc! { "_id": id, "n": rng.below(3) as i32, "t": text(rng) };
    match rng.below(8) {
        0 => {}
        1 | 2 => drop(doc.insert("a", (0..rng.below(4)).map(|_| value(rng)).collect::<Vec<_>>())),
        _ => drop(doc.insert("a", value(rng))),
    }
    if rng.below(3) > 0 {
        doc.insert("b", doc! { "c": value(rng), "d": text(rng) });
    }
    doc
}

/// Indexes of every kind.
fn specs() -> Vec<Document> {
    vec![
        doc! { "key": { "t": 1 } },
        doc! { "key": { "a": -1 } },
        doc! { "key": { "a": 1, "n": -1 }, "name": "a and n" },
        doc! { "key": { "n": -1, "t": -1 } },
        doc! { "key": { "t": -1, "b.c": 1 } },
        doc! { "key": { "b.d": 1, "a": -1 }, "sparse": true },
        doc! { "key": { "t": 1 }, "name": "some", "partialFilterExpression": { "n": { "$gte": 1 } } },
        doc! { "key": { "t": 1 }, "name": "folded", "collation": { "locale": "en", "strength": 2 } },
        doc! { "key": { "b.c": "hashed", "t": 1 } },
        doc! { "key": { "b.d": "hashed" } },
        doc! { "key": { "$**": 1 } },
        doc! { "key": { "b.$**": 1 } },
    ]
}

/// An entry as an index scan returns it.
type ScannedEntry = (Vec<u8>, RowId);

#[test]
fn a_scan_returns_whole_keys_in_order_from_any_start() {
    let (mut rng, db) = (Rng::new(5), open(&SimDisk::new()).unwrap());
    let collection = db.collection("t.c").unwrap();
    for spec in specs() {
        collection.create_index(IndexSpec::from_document(&raw(&spec))).unwrap();
    }
    let docs: Vec<_> = (0..40).map(|id| raw(&document(&mut rng, id.into()))).collect();
    collection.insert_many(&docs, true).unwrap();
    db.check().unwrap();
    let reads = db.inner.store.begin_read().unwrap();
    let meta = db.inner.catalog.find(&reads, collection.namespace()).unwrap().unwrap();
    let view = View { reads: &reads, meta: &meta };
    let mut shortened = 0;
    for (number, index) in meta.indexes.iter().enumerate() {
        let mut all: Vec<ScannedEntry> = Vec::new();
        view.scan(Direction::Forward, None, &mut |row, doc| {
            all.extend(index.def.as_ordered().unwrap().keys(doc)?.keys.into_iter().map(|key| (key, row)));
            Ok(Flow::Continue(()))
        })
        .unwrap();
        all.sort();
        shortened += all.iter().filter(|(key, _)| is_shortened(&stored(key))).count();
        assert_eq!(reads.len(&index.table).unwrap(), all.len() as u64);
        let walk = |range: &KeyRange, direction, after: Option<(&[u8], RowId)>, most: usize| {
            let mut found: Vec<ScannedEntry> = Vec::new();
            view.index_range(number, range, direction, after, &mut |row, key| {
                found.push((key.to_vec(), row));
                Ok(if found.len() < most { Flow::Continue(()) } else { Flow::Break(()) })
            })
            .unwrap();
            found
        };
        for _ in 0..20 {
            let bound = |rng: &mut Rng| {
                let key = &rng.pick(&all).0;
                let cuts = [
                    key.len(),
                    key.len() - 1,
                    PREFIX_LEN - 1,
                    PREFIX_LEN,
                    PREFIX_LEN + 1,
                    PREFIX_LEN + 30,
                    MAX_STORED_LEN,
                ];
                key[..(*rng.pick(&cuts)).min(key.len())].to_vec()
            };
            let low = bound(&mut rng);
            let range = match rng.below(4) {
                0 => KeyRange::ALL,
                1 => KeyRange::prefix(low),
                2 => KeyRange { low, high: after_prefix(&bound(&mut rng)) },
                _ => KeyRange { low, high: Some(bound(&mut rng)) },
            };
            let mut expected: Vec<ScannedEntry> =
                all.iter().filter(|(key, _)| range.contains(key)).cloned().collect();
            let direction = *rng.pick(&[Direction::Forward, Direction::Backward]);
            if direction == Direction::Backward {
                expected.reverse();
            }
            assert!(walk(&range, direction, None, usize::MAX) == expected, "{:?}", index.def.name());
            assert!(view.estimate(number, &range).is_some());
            // In several scans of a few entries, each starting where the last one ended.
            let (mut found, step): (Vec<ScannedEntry>, _) = (Vec::new(), 3 + rng.below(9));
            loop {
                let last = found.last().cloned();
                let after = last.as_ref().map(|(key, row)| (key.as_slice(), *row));
                let next = walk(&range, direction, after, step);
                if next.is_empty() {
                    break;
                }
                found.extend(next);
            }
            assert!(found == expected, "{:?}", index.def.name());
        }
    }
    println!("{shortened} keys are shortened");
    assert!(shortened > 100, "{shortened}");
}

fn filter(rng: &mut Rng) -> Document {
    let (n, t, v) = (rng.below(3) as i32, text(rng), value(rng));
    match rng.below(13) {
        0 => doc! { "_id": t },
        1 | 2 => doc! { "t": t },
        3 => doc! { "t": { "$gte": t }, "n": n },
        4 => doc! { "a": v },
        5 => doc! { "a": { "$gt": t }, "n": { "$ne": n } },
        6 => doc! { "t": { "$in": [t, text(rng), text(rng)] } },
        7 => doc! { "b.c": v, "t": { "$lt": t } },
        8 => doc! { "n": n, "t": { "$gt": text(rng), "$lte": t } },
        9 => doc! { "b.d": t },
        10 => doc! { "$or": [{ "t": t }, { "b.d": text(rng) }] },
        11 => doc! { "t": { "$regex": *rng.pick(&["^x{900}", "y$", "W", "^xy", "x{980}"]) } },
        _ => doc! { "a": { "$elemMatch": { "$gte": t } } },
    }
}

fn all(collection: &Collection, request: FindRequest) -> Vec<Document> {
    collection.find(request).unwrap().map(|doc| Document::try_from(&*doc.unwrap()).unwrap()).collect()
}

/// The documents in the order of their ids.
fn contents(collection: &Collection) -> Vec<Document> {
    all(collection, FindRequest::default().sort(rawdoc! { "_id": 1 }).hint("$natural"))
}

#[test]
fn indexes_of_long_values_do_not_change_the_result_of_operations() {
    let (mut used, mut covered) = (0, 0);
    for seed in seeds(0..6) {
        let mut rng = Rng::new(seed);
        let (disk, mut next) = (SimDisk::new(), 0);
        let mut db = open(&disk).unwrap();
        for step in 0..75 {
            let (fast, plain) = (db.collection("t.fast").unwrap(), db.collection("t.plain").unwrap());
            match rng.below(12) {
                0..4 => {
                    let docs: Vec<_> = (0..1 + rng.below(14))
                        .map(|_| {
                            next += 1;
                            let id =
                                if rng.below(3) == 0 { text(&mut rng).into() } else { Bson::Int32(next) };
                            raw(&document(&mut rng, id))
                        })
                        .collect();
                    let done =
                        [&fast, &plain].map(|collection| collection.insert_many(&docs, false).unwrap());
                    let errors =
                        done.each_ref().map(|done| done.errors.iter().map(|(at, _)| *at).collect::<Vec<_>>());
                    assert_eq!((done[0].inserted, &errors[0]), (done[1].inserted, &errors[1]));
                }
                4..7 => {
                    let update = match rng.below(4) {
                        0 => doc! { "$inc": { "n": 1 } },
                        1 => doc! { "$set": { "t": text(&mut rng), "b.c": value(&mut rng) } },
                        2 => doc! { "$unset": { "a": "", "b.d": "" } },
                        _ => doc! { "$set": { "a": [value(&mut rng), text(&mut rng)] } },
                    };
                    let request = UpdateRequest::many(raw(&filter(&mut rng)), raw(&update));
                    let done = [&fast, &plain]
                        .map(|collection| collection.update(request.clone()).map_err(|error| error.code));
                    assert_eq!(done[0], done[1]);
                }
                7 => {
                    let filter = raw(&doc! { "$and": [filter(&mut rng), { "n": { "$gt": 1 } }] });
                    let done = [&fast, &plain]
                        .map(|collection| collection.delete(DeleteRequest::many(filter.clone())).unwrap());
                    assert_eq!(done[0], done[1]);
                }
                8 => {
                    let spec = rng.pick(&specs()).clone();
                    fast.create_index(IndexSpec::from_document(&raw(&spec))).unwrap();
                }
                9 if rng.below(3) == 0 => {
                    let names = fast.indexes().unwrap().unwrap_or_default();
                    if let Some(index) = names.get(1) {
                        fast.drop_index(index.get_str("name").unwrap()).unwrap();
                    }
                }
                _ => {
                    let sort = doc! { *rng.pick(&["n", "t", "b.c", "a"]): if rng.below(2) == 0 { 1 } else { -1 }, "_id": 1 };
                    let filter = filter(&mut rng);
                    let mut request = FindRequest::filter(raw(&filter));
                    if rng.below(4) == 0 {
                        request = request.collation(rawdoc! { "locale": "en", "strength": 2 });
                    }
                    // A collation ignores control characters, so that different strings can be equal.
                    let ordered = |mut sort: Document| {
                        if request.collation.is_some() {
                            sort.insert("_id", 1);
                        }
                        raw(&sort)
                    };
                    let (by_text, by_both) = (ordered(doc! { "t": 1 }), ordered(doc! { "n": -1, "t": -1 }));
                    let request = match rng.below(4) {
                        0 => request.projection(rawdoc! { "t": 1, "_id": 0 }).sort(by_text),
                        1 => request.projection(rawdoc! { "t": 1, "n": 1, "_id": 0 }).sort(by_both),
                        _ => request.sort(raw(&sort)).skip(rng.below(3) as u64).limit(rng.below(20) as u64),
                    };
                    let expected = all(&plain, request.clone().hint("$natural"));
                    assert!(all(&plain, request.clone()) == expected, "{filter}");
                    assert!(all(&fast, request.clone()) == expected, "{filter}");
                    assert_eq!(fast.count(request.clone()).unwrap(), plain.count(request.clone()).unwrap());
                    let (plan, counters) = match fast.explain(request.clone()).unwrap() {
                        Some(explain_find) => explain_find,
                        None => continue,
                    };
                    let by_index = matches!(plan.path, treedb_query::query::Path::Index { .. });
                    used += usize::from(by_index);
                    covered += usize::from(by_index && counters.docs_examined < counters.returned);
                    let indexes = fast.indexes().unwrap().unwrap_or_default();
                    for index in indexes.iter().filter(|_| rng.below(3) == 0) {
                        let name = index.get_str("name").unwrap();
                        // Documents without an entry are not found by these indexes.
                        if index.contains_key("sparse") || index.contains_key("partialFilterExpression") {
                            continue;
                        }
                        match fast.find(request.clone().hint(name)) {
                            Ok(found) => {
                                let found: Vec<_> =
                                    found.map(|doc| Document::try_from(&*doc.unwrap()).unwrap()).collect();
                                assert!(found == expected, "{name}: {filter}");
                            }
                            Err(error) => assert_eq!(error.code, ErrorCode::NoQueryExecutionPlans),
                        }
                    }
                }
            }
            if step % 25 == 24 {
                assert!(contents(&fast) == contents(&plain), "seed {seed}, step {step}");
                db.check().unwrap();
                drop((fast, plain));
                db.close().unwrap();
                db = open(&disk).unwrap();
            }
        }
    }
    println!("{used} finds by an index, {covered} of them covered");
    assert!(used > 15 && covered > 0, "{used} {covered}");
}

#[test]
fn long_ids_are_found_updated_and_unique() {
    let db = open(&SimDisk::new()).unwrap();
    let collection = db.collection("t.c").unwrap();
    let id = |end: &str| format!("{}{end}", "i".repeat(5000));
    for end in ["a", "b", ""] {
        collection.insert_one(rawdoc! { "_id": id(end), "v": end }).unwrap();
    }
    let many: Vec<_> = (0..20).map(|n| rawdoc! { "_id": id(&n.to_string()), "v": "n" }).collect();
    collection.insert_many(&many, true).unwrap();
    let again = collection.insert_one(rawdoc! { "_id": id("b") }).unwrap_err();
    assert_eq!(again.code, ErrorCode::DuplicateKey);
    assert!(again.message.len() < 1000, "the key must be truncated: {}", again.message);
    assert_eq!(again.duplicate.unwrap().key_value, rawdoc! { "_id": id("b") });
    let one = |end: &str| collection.find_one(rawdoc! { "_id": id(end) }).unwrap();
    assert_eq!(one("b").unwrap(), rawdoc! { "_id": id("b"), "v": "b" });
    assert!(one("zz").is_none() && one("0").is_some());
    let plan = collection.explain(FindRequest::filter(rawdoc! { "_id": id("b") })).unwrap().unwrap();
    assert_eq!((plan.1.keys_examined, plan.1.docs_examined), (1, 1));
    let set = rawdoc! { "$set": { "v": "new" } };
    let updated = collection.update(UpdateRequest::one(rawdoc! { "_id": id("a") }, set.clone())).unwrap();
    assert_eq!(updated.modified, 1);
    let upsert = UpdateRequest::one(rawdoc! { "_id": id("up") }, set.clone()).upsert();
    assert_eq!(collection.update(upsert.clone()).unwrap().upserted, Some(id("up").into()));
    assert_eq!(collection.update(upsert).unwrap().matched, 1);
    let find = UpdateRequest::one(rawdoc! { "_id": id("b") }, set);
    assert_eq!(collection.update(find).unwrap().modified, 1);
    assert_eq!(collection.delete(DeleteRequest::one(rawdoc! { "_id": id("a") })).unwrap(), 1);
    assert!(one("a").is_none());
    assert_eq!(one("").unwrap(), rawdoc! { "_id": id(""), "v": "" });
    db.check().unwrap();
}

#[test]
fn a_unique_index_distinguishes_long_values_by_all_their_bytes() {
    let db = open(&SimDisk::new()).unwrap();
    let collection = db.collection("t.c").unwrap();
    collection.create_index(IndexSpec::new(rawdoc! { "n": 1, "t": -1 }).unique()).unwrap();
    let doc =
        |id: i32, n: i32, end: &str| rawdoc! { "_id": id, "n": n, "t": format!("{}{end}", "x".repeat(4000)) };
    collection.insert_one(doc(1, 1, "a")).unwrap();
    collection.insert_one(doc(2, 1, "b")).unwrap();
    collection.insert_one(doc(3, 2, "a")).unwrap();
    let refused = |error: treedb_query::error::QueryError| {
        assert_eq!(error.code, ErrorCode::DuplicateKey);
        assert!(error.message.len() < 1000, "{}", error.message);
    };
    refused(collection.insert_one(doc(4, 1, "b")).unwrap_err());
    let change = |end: &str| rawdoc! { "$set": { "t": format!("{}{end}", "x".repeat(4000)) } };
    refused(collection.update(UpdateRequest::one(rawdoc! { "_id": 1 }, change("b"))).unwrap_err());
    collection.update(UpdateRequest::one(rawdoc! { "_id": 1 }, change("c"))).unwrap();
    collection.insert_one(doc(5, 1, "a")).unwrap();
    // Many in one insert: some exist already, some are duplicates of each other.
    let many: Vec<_> = ["d", "e", "b", "f", "e", "g", "h", "i", "c"]
        .iter()
        .zip(10..)
        .map(|(end, id)| doc(id, 1, end))
        .collect();
    let done = collection.insert_many(&many, false).unwrap();
    assert_eq!(done.inserted, 6);
    assert_eq!(done.errors.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [2, 4, 8]);
    db.check().unwrap();
    // A transaction detects duplicates of its own documents and of others.
    for (n, end) in [(7, "a"), (1, "b")] {
        let mut transaction = db.begin().unwrap();
        let mut inside = transaction.collection("t.c").unwrap();
        inside.insert_one(doc(30, 7, "a")).unwrap();
        let own = inside.find_one(rawdoc! { "n": 7, "t": { "$gt": "x".repeat(3000) } }).unwrap();
        assert_eq!(own, Some(doc(30, 7, "a")));
        refused(inside.insert_one(doc(31, n, end)).unwrap_err());
    }
}

#[test]
fn an_index_build_handles_long_keys_and_finds_duplicates_among_them() {
    let db = open(&SimDisk::new()).unwrap();
    let collection = db.collection("t.c").unwrap();
    let long = |n: i32| format!("{}{n}", "x".repeat(if n < 20 { 10 } else { 3000 }));
    let docs: Vec<_> = (0..60).map(|n| rawdoc! { "_id": n, "t": long(n), "u": long(n.min(58)) }).collect();
    collection.insert_many(&docs, true).unwrap();
    collection.create_index(IndexSpec::new(rawdoc! { "t": 1 }).unique()).unwrap();
    let refused = collection.create_index(IndexSpec::new(rawdoc! { "u": 1 }).unique()).unwrap_err();
    assert_eq!(refused.code, ErrorCode::DuplicateKey);
    assert_eq!(refused.duplicate.unwrap().key_value, rawdoc! { "u": long(58) });
    let found = all(&collection, FindRequest::filter(rawdoc! { "t": long(45) }));
    assert_eq!(found.len(), 1);
    let request = FindRequest::default().sort(rawdoc! { "t": -1 });
    assert!(!collection.explain(request.clone()).unwrap().unwrap().0.sort_in_memory);
    let order: Vec<_> =
        all(&collection, request).iter().map(|doc| doc.get_str("t").unwrap().to_owned()).collect();
    assert!(order.is_sorted_by(|a, b| a > b) && order.len() == 60);
    db.check().unwrap();
}

#[test]
fn joins_and_merges_match_long_values() {
    let db = open(&SimDisk::new()).unwrap();
    let (left, right) = (db.collection("t.left").unwrap(), db.collection("t.right").unwrap());
    let long = |n: i32| format!("{}{n}", "x".repeat(3000));
    for n in 0..12 {
        left.insert_one(rawdoc! { "_id": n, "t": long(n % 3) }).unwrap();
        right.insert_one(rawdoc! { "_id": long(n), "t": long(n % 4), "v": n }).unwrap();
    }
    right.create_index(IndexSpec::new(rawdoc! { "t": 1 })).unwrap();
    let run = |stages: Vec<Document>| -> Vec<Document> {
        let stages: Vec<_> = stages.iter().map(raw).collect();
        let request = crate::AggregateRequest::new(stages);
        let found = left.aggregate(&request).unwrap();
        found.map(|doc| Document::try_from(&*doc.unwrap()).unwrap()).collect()
    };
    for field in ["t", "_id"] {
        let lookup = doc! { "from": "right", "localField": "t", "foreignField": field, "as": "found" };
        let found = run(vec![doc! { "$lookup": lookup }, doc! { "$sort": { "_id": 1 } }]);
        for (n, doc) in found.iter().enumerate() {
            let found: Vec<i32> = doc
                .get_array("found")
                .unwrap()
                .iter()
                .map(|doc| doc.as_document().unwrap().get_i32("v").unwrap())
                .collect();
            let n = n as i32 % 3;
            assert_eq!(found, if field == "t" { vec![n, n + 4, n + 8] } else { vec![n] });
        }
    }
    run(vec![
        doc! { "$project": { "_id": { "$concat": ["$t", "!"] }, "t": 1 } },
        doc! { "$group": { "_id": "$_id", "t": { "$first": "$t" } } },
        doc! { "$merge": { "into": "right" } },
    ]);
    run(vec![
        doc! { "$group": { "_id": "$t", "sum": { "$sum": 1 } } },
        doc! { "$merge": { "into": "right", "whenMatched": "merge", "whenNotMatched": "fail" } },
    ]);
    assert_eq!(right.len().unwrap(), 15);
    let merged = right.find_one(rawdoc! { "_id": long(2) }).unwrap().unwrap();
    assert_eq!(merged, rawdoc! { "_id": long(2), "t": long(2), "v": 2, "sum": 4 });
    db.check().unwrap();
}

#[test]
fn the_shortened_flag_of_an_index_is_permanent() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let collection = db.collection("t.c").unwrap();
    collection.create_index(IndexSpec::new(rawdoc! { "t": 1 })).unwrap();
    let entry = |db: &Database| {
        let reads = db.store().begin_read().unwrap();
        let table = reads.table("catalog").unwrap().unwrap();
        Document::from_reader(reads.get(&table, b"t.c").unwrap().unwrap()).unwrap()
    };
    let says = |db: &Database| {
        let entry = entry(db);
        let indexes = entry.get_array("indexes").unwrap().iter();
        let flags = indexes.map(|index| index.as_document().unwrap().get_bool("shortened").is_ok());
        (entry.get_i32("v").unwrap(), flags.collect::<Vec<_>>())
    };
    collection.insert_one(rawdoc! { "_id": 1, "t": "x".repeat(900) }).unwrap();
    assert_eq!(says(&db), (1, vec![false, false]));
    let mut transaction = db.begin().unwrap();
    transaction.collection("t.c").unwrap().insert_one(rawdoc! { "_id": 2, "t": "x".repeat(9000) }).unwrap();
    assert_eq!(says(&db), (1, vec![false, false]));
    transaction.commit().unwrap();
    assert_eq!(says(&db), (4, vec![false, true]));
    collection.delete(DeleteRequest::one(rawdoc! { "_id": 2 })).unwrap();
    drop(collection);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    assert_eq!(says(&db), (4, vec![false, true]));
    let ids: Vec<_> = (0..9).map(|n| rawdoc! { "_id": "i".repeat(2000 + n) }).collect();
    db.collection("t.c").unwrap().insert_many(&ids, true).unwrap();
    assert_eq!(says(&db), (4, vec![true, true]));
    db.check().unwrap();
}
