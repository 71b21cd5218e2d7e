//! The change log as an oplog: applied to nothing it gives the present contents, in both directions and within its bounds.

use std::time::Duration;

use bson::{Bson, Document, doc};
use treedb_testing::{Rng, seeds};

use super::model::step;
use super::*;
use crate::changes::document_diff::tests::apply;
use crate::tests::{open, raw};
use crate::{ChangeLogOptions, FindRequest, Oplog};
use treedb_query::error::ErrorCode;
use treedb_storage::disk::SimDisk;

/// Documents by collection and `_id`.
type Collections = BTreeMap<String, BTreeMap<String, RawDocumentBuf>>;

fn request(filter: Document, sort: Document) -> FindRequest {
    FindRequest::filter(raw(&filter)).sort(raw(&sort))
}

fn all(db: &Database, filter: Document, order: i32) -> Vec<RawDocumentBuf> {
    let oplog: Oplog = db.oplog(&request(filter, doc! { "$natural": order }), false).unwrap();
    oplog.map(Result::unwrap).collect()
}

fn id(document: &Document) -> String {
    document.get("_id").unwrap().to_string()
}

/// Applies entries as a secondary would: nothing is there that they did not create.
fn replayed(entries: &[RawDocumentBuf]) -> Collections {
    let mut all = Collections::new();
    fn of<'a>(all: &'a mut Collections, ns: &str) -> &'a mut BTreeMap<String, RawDocumentBuf> {
        all.get_mut(ns).unwrap_or_else(|| panic!("{ns} was not created"))
    }
    for entry in entries {
        let entry = Document::try_from(&**entry).unwrap();
        let (o, ns) = (entry.get_document("o").unwrap(), entry.get_str("ns").unwrap());
        let database = ns.split('.').next().unwrap();
        let full = |name: &str| format!("{database}.{name}");
        match entry.get_str("op").unwrap() {
            "n" => {}
            "i" => assert!(of(&mut all, ns).insert(id(o), raw(o)).is_none(), "inserted twice: {entry}"),
            "d" => assert!(of(&mut all, ns).remove(&id(o)).is_some(), "{entry}"),
            "u" => {
                let old = of(&mut all, ns).get_mut(&id(entry.get_document("o2").unwrap())).unwrap();
                *old = match o.get_document("diff") {
                    Ok(diff) => {
                        let mut new = Document::try_from(&**old).unwrap();
                        apply(&mut new, diff);
                        raw(&new)
                    }
                    Err(_) => raw(o),
                };
            }
            _ => match o.iter().next().unwrap() {
                (command, Bson::String(name)) if command == "create" => {
                    assert!(all.insert(full(name), BTreeMap::new()).is_none(), "created twice: {entry}");
                }
                (command, Bson::String(name)) if command == "drop" => {
                    assert!(all.remove(&full(name)).is_some(), "{entry}");
                }
                (command, Bson::String(from)) if command == "renameCollection" => {
                    let to = o.get_str("to").unwrap();
                    assert_eq!(o.contains_key("dropTarget"), all.contains_key(to), "{entry}");
                    let renamed = all.remove(from).unwrap();
                    all.insert(to.to_owned(), renamed);
                }
                (command, _) if command == "dropDatabase" => {
                    assert!(!all.keys().any(|name| name.starts_with(&full(""))), "{entry}");
                }
                (command, _) => assert!(command == "createIndexes" || command == "dropIndexes", "{entry}"),
            },
        }
    }
    all
}

fn contents(db: &Database) -> Collections {
    let mut all = Collections::new();
    let list = |database| db.list_collections(database).unwrap();
    for info in list("a").into_iter().chain(list("b")) {
        let found = db.collection(info.namespace.as_str()).unwrap().find(FindRequest::default()).unwrap();
        let documents = found.map(|document| {
            let document = document.unwrap();
            (id(&Document::try_from(&*document).unwrap()), document)
        });
        all.insert(info.namespace.to_string(), documents.collect());
    }
    all
}

#[test]
fn an_oplog_applied_to_nothing_gives_the_present_contents_and_backward_it_is_the_same() {
    for seed in seeds(40..44) {
        let mut rng = Rng::new(seed);
        let db = open(&SimDisk::new()).unwrap();
        db.record_changes(Some(ChangeLogOptions::default())).unwrap();
        let mut next = 0;
        for at in 0..200 {
            step(&db, &mut rng, &mut next);
            if at % 9 == 8 {
                // Some do not exist.
                let names = [*rng.pick(&["a.x", "a.y", "b.x"]), *rng.pick(&["a.z", "b.x", "b.z"])];
                let _ = db.rename_collection(names[rng.below(2)], names[rng.below(2)], rng.below(2) == 0);
            }
        }
        let forward = all(&db, doc! {}, 1);
        assert_eq!(forward[0].get_str("op").unwrap(), "n");
        assert_eq!(replayed(&forward), contents(&db), "seed {seed}");
        let mut backward = all(&db, doc! {}, -1);
        backward.reverse();
        assert_eq!(backward, forward, "seed {seed}");
        for _ in 0..20 {
            let mut bounds = [rng.below(forward.len()), rng.below(forward.len())];
            bounds.sort_unstable();
            let [from, to] = bounds;
            let time = |at: usize| forward[at].get_timestamp("ts").unwrap();
            let between = doc! { "ts": { "$gte": time(from), "$lt": time(to) } };
            assert_eq!(all(&db, between.clone(), 1), forward[from..to], "seed {seed}, {from} to {to}");
            let mut found = all(&db, between, -1);
            found.reverse();
            assert_eq!(found, forward[from..to], "seed {seed}, {from} to {to}");
        }
    }
}

#[test]
fn a_pipeline_over_the_oplog_is_that_over_a_collection_of_its_entries() {
    for seed in seeds(50..53) {
        let mut rng = Rng::new(seed);
        let (db, other) = (open(&SimDisk::new()).unwrap(), open(&SimDisk::new()).unwrap());
        db.record_changes(Some(ChangeLogOptions::default())).unwrap();
        let mut next = 0;
        (0..150).for_each(|_| step(&db, &mut rng, &mut next));
        let entries = all(&db, doc! {}, 1);
        other.collection("c.copy").unwrap().insert_many(&entries, true).unwrap();
        for _ in 0..60 {
            let times = [0, 1].map(|_| entries[rng.below(entries.len())].get_timestamp("ts").unwrap());
            let filters = [
                doc! { "ts": { "$gte": times[0] } },
                doc! { "ts": { "$gt": times[0], "$lte": times[1] } },
                doc! { "op": { "$in": ["i", "d"] } },
                doc! { "op": "u", "ts": { "$lt": times[0] } },
            ];
            let sorts = [
                doc! { "ts": 1 },
                doc! { "ts": -1 },
                doc! { "ts": -1, "op": 1 },
                doc! { "op": 1, "ts": 1 },
                doc! { "ns": -1, "ts": 1 },
            ];
            let limit = 1 + rng.below(40) as i32;
            let some = [
                vec![doc! { "$match": rng.pick(&filters).clone() }],
                vec![doc! { "$sort": rng.pick(&sorts).clone() }],
                vec![doc! { "$skip": rng.below(20) as i32 }, doc! { "$limit": limit }],
                vec![doc! { "$project": { "op": 1, "ts": 1, "o._id": 1 } }],
                vec![
                    doc! { "$group": { "_id": "$op", "n": { "$sum": 1 }, "last": { "$max": "$ts" } } },
                    doc! { "$sort": { "_id": 1 } },
                ],
                vec![doc! { "$count": "n" }],
            ];
            // In this order, each or not; at the end one that groups at most.
            let mut pipeline: Vec<Document> =
                some[..4].iter().filter(|_| rng.below(2) == 0).flatten().cloned().collect();
            match rng.below(3) {
                0 => {}
                which => pipeline.extend(some[3 + which].clone()),
            }
            let run = |db: &Database, namespace: &str, stages: &[Document]| -> Vec<RawDocumentBuf> {
                let request = crate::AggregateRequest::new(stages.iter().map(raw));
                db.aggregate(namespace, &request).unwrap().map(Result::unwrap).collect()
            };
            let copied: Vec<_> = [doc! { "$unset": "_id" }].into_iter().chain(pipeline.clone()).collect();
            let expected = run(&other, "c.copy", &copied);
            assert_eq!(run(&db, "local.oplog.rs", &pipeline), expected, "seed {seed}: {pipeline:?}");
        }
    }
}

#[test]
fn large_entries_are_read_some_at_a_time_in_both_directions() {
    let db = open(&SimDisk::new()).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let text = "t".repeat(1 << 19);
    let documents: Vec<_> = (0..40).map(|n| raw(&doc! { "_id": n, "text": &text })).collect();
    db.collection("a.x").unwrap().insert_many(&documents, true).unwrap();
    for order in [1, -1] {
        let mut oplog = db.oplog(&request(doc! { "op": "i" }, doc! { "$natural": order }), false).unwrap();
        let (mut count, mut most) = (0, 0);
        while oplog.next_timeout(Duration::ZERO).unwrap().is_some() {
            count += 1;
            most = most.max(oplog.bytes_ready());
        }
        assert_eq!(count, 40);
        assert!(most < 2 << 20, "{most} bytes are kept");
    }
}

#[test]
fn a_tail_that_is_too_slow_is_told_and_a_find_begins_with_what_is_kept() {
    let db = open(&SimDisk::new()).unwrap();
    db.inner.changes.set_now(1_700_000_000_000);
    let options = ChangeLogOptions { keep: Duration::from_secs(3600), ..Default::default() };
    db.record_changes(Some(options)).unwrap();
    let collection = db.collection("a.x").unwrap();
    collection.insert_one(raw(&doc! { "_id": 1 })).unwrap();
    let mut tail = db.oplog(&request(doc! { "op": "i" }, doc! {}), true).unwrap();
    assert!(tail.next_timeout(Duration::ZERO).unwrap().is_some());
    assert!(tail.next_timeout(Duration::ZERO).unwrap().is_none() && !tail.is_closed());
    for (hours, id) in [(2, 2), (4, 3)] {
        db.inner.changes.set_now(1_700_000_000_000 + hours * 3_600_000);
        collection.insert_one(raw(&doc! { "_id": id })).unwrap();
    }
    db.trim_changes().unwrap();
    let lost = tail.next_timeout(Duration::ZERO).unwrap_err();
    assert_eq!(lost.code, ErrorCode::CappedPositionLost);
    for order in [1, -1] {
        let kept = all(&db, doc! {}, order);
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(Document::try_from(kept[0].get_document("o").unwrap()).unwrap(), doc! { "_id": 3 });
    }
}

#[test]
fn the_oplog_cannot_be_created_or_sorted_by_others_than_its_order() {
    let db = open(&SimDisk::new()).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    db.create_collection("local.x", doc! {}).unwrap();
    let refused = [
        db.create_collection("local.oplog.rs", doc! {}).map(drop),
        db.create_view("local.oplog.rs", "x", vec![]).map(drop),
        db.rename_collection("local.x", "local.oplog.rs", true),
        db.collection("local.oplog.rs").unwrap().insert_one(raw(&doc! {})).map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().code, ErrorCode::IllegalOperation);
    }
    for (sort, tailable) in [
        (doc! { "op": 1 }, false),
        (doc! { "op": 1, "ts": 1 }, false),
        (doc! { "$natural": -1 }, true),
        (doc! { "ts": -1 }, true),
    ] {
        let refused = db.oplog(&request(doc! {}, sort), tailable).unwrap_err();
        assert_eq!(refused.code, ErrorCode::BadValue);
    }
}

#[test]
fn the_first_entry_is_read_without_the_second_which_may_be_lost() {
    let db = open(&SimDisk::new()).unwrap();
    db.inner.changes.set_now(1_700_000_000_000);
    // So that the second entry is one of a document.
    db.create_collection("a.x", doc! {}).unwrap();
    db.record_changes(Some(ChangeLogOptions { bytes: 100_000, ..Default::default() })).unwrap();
    let collection = db.collection("a.x").unwrap();
    let documents: Vec<_> = (0..500).map(|id| raw(&doc! { "_id": id, "t": "t".repeat(300) })).collect();
    collection.insert_many(&documents, true).unwrap();
    db.drop_collection("a.x").unwrap();
    db.inner.changes.set_now(1_700_000_000_000 + 120_000);
    db.trim_changes().unwrap();
    let first = |filter: Document| {
        let request = FindRequest { limit: 1, ..request(filter, doc! { "$natural": 1 }) };
        db.oplog(&request, false).unwrap().next().unwrap()
    };
    let lost = first(doc! { "op": "i" }).unwrap_err();
    assert_eq!(lost.code, ErrorCode::CappedPositionLost);
    assert_eq!(first(doc! { "op": "n" }).unwrap().get_str("op").unwrap(), "n");
}
