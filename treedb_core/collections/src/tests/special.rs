//! Renamed and capped collections, and views.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, doc, rawdoc};
use treedb_query::error::ErrorCode;
use treedb_query::query::interrupt::Interrupt;
use treedb_storage::disk::SimDisk;
use treedb_testing::Rng;

use super::{open, raw};
use crate::changes::tests::{present, replay};
use crate::{
    AggregateRequest, AsOf, ChangeLogOptions, Collection, Database, DeleteRequest, FindRequest,
    UpdateRequest, WatchRequest,
};

fn documents(collection: &Collection) -> Vec<Document> {
    let found = collection.find(FindRequest::default()).unwrap();
    found.map(|document| Document::try_from(&*document.unwrap()).unwrap()).collect()
}

fn ids(collection: &Collection) -> Vec<i32> {
    documents(collection).iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

fn recording() -> Database {
    let db = open(&SimDisk::new()).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    db
}

#[test]
fn the_past_of_a_renamed_collection_is_read_by_the_name_it_had() {
    let db = recording();
    let last = || AsOf::Change(db.change_log().unwrap().unwrap().next - 1);
    let (a, b) = (db.collection("x.a").unwrap(), db.collection("x.b").unwrap());
    a.insert_one(rawdoc! { "_id": 1 }).unwrap();
    b.insert_one(rawdoc! { "_id": 2 }).unwrap();
    let first = last();
    a.rename("x.c", false).unwrap();
    let c = db.collection("x.c").unwrap();
    c.update(UpdateRequest::one(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "n": 1 } })).unwrap();
    let second = last();
    b.rename("x.c", true).unwrap();
    a.insert_one(rawdoc! { "_id": 3 }).unwrap();
    let at = |collection: &Collection, at| -> Vec<Document> {
        let found = collection.find(FindRequest::default().as_of(at)).unwrap();
        found.map(|document| Document::try_from(&*document.unwrap()).unwrap()).collect()
    };
    assert_eq!(at(&a, first), [doc! { "_id": 1 }]);
    assert_eq!(at(&b, first), [doc! { "_id": 2 }]);
    assert_eq!(at(&c, first), [] as [Document; 0]);
    assert_eq!(at(&a, second), [] as [Document; 0]);
    assert_eq!(at(&b, second), [doc! { "_id": 2 }]);
    assert_eq!(at(&c, second), [doc! { "_id": 1, "n": 1 }]);
    assert_eq!(documents(&c), [doc! { "_id": 2 }]);
    assert_eq!(replay(&db).unwrap(), present(&db).unwrap());
    db.check().unwrap();
}

#[test]
fn a_stream_opened_before_a_rename_names_each_change_as_it_was() {
    let db = recording();
    let a = db.collection("x.a").unwrap();
    let mut stream = db.watch(crate::Watched::Database("x".to_owned()), WatchRequest::default()).unwrap();
    let mut names = Vec::new();
    for (at, to) in ["x.b", "x.a", "y.a", "x.c"].into_iter().enumerate() {
        let from = db
            .list_collections("x")
            .unwrap()
            .pop()
            .map_or("y.a".to_owned(), |info| info.namespace.to_string());
        let from = db.collection(&from).unwrap();
        let from = if at == 0 { a.clone() } else { from };
        from.insert_one(rawdoc! { "_id": at as i32 }).unwrap();
        from.rename(to, false).unwrap();
        if at == 1 {
            // Read in two parts.
            names.extend(std::iter::from_fn(|| stream.try_next().unwrap()));
        }
    }
    names.extend(std::iter::from_fn(|| stream.try_next().unwrap()));
    let told: Vec<String> = names
        .iter()
        .map(|event| {
            let event = Document::try_from(&**event).unwrap();
            let ns = event.get_document("ns").unwrap();
            let (db, coll) = (ns.get_str("db").unwrap(), ns.get_str("coll").unwrap());
            format!("{} {db}.{coll}", event.get_str("operationType").unwrap())
        })
        .collect();
    let expected =
        ["insert x.a", "rename x.a", "insert x.b", "rename x.b", "insert x.a", "rename x.a", "rename y.a"];
    assert_eq!(told, expected);
}

#[test]
fn a_capped_collection_is_what_a_queue_with_its_limits_is() {
    let mut rng = Rng::new(11);
    for round in 0..6 {
        let disk = SimDisk::new();
        let mut db = open(&disk).unwrap();
        let size = 256 * (1 + rng.below(8)) as i64;
        let max = if round % 2 == 0 { Some(1 + rng.below(12)) } else { None };
        let mut options = doc! { "capped": true, "size": size };
        if let Some(max) = max {
            options.insert("max", max as i64);
        }
        db.create_collection("x.log", options).unwrap();
        let mut model: VecDeque<(i32, usize)> = VecDeque::new();
        let mut next = 0;
        for _ in 0..120 {
            let log = db.collection("x.log").unwrap();
            let mut made = Vec::new();
            match rng.below(10) {
                0 => {
                    let gone = rng.below(next as usize + 1) as i32;
                    log.delete(DeleteRequest::one(rawdoc! { "_id": gone })).unwrap();
                    model.retain(|(id, _)| *id != gone);
                }
                1 => {
                    let changed = rng.below(next as usize + 1) as i32;
                    let text = "y".repeat(rng.below(120));
                    let set = rawdoc! { "$set": { "text": text.as_str() } };
                    log.update(UpdateRequest::one(rawdoc! { "_id": changed }, set)).unwrap();
                    let len = raw(&doc! { "_id": changed, "text": text }).as_bytes().len();
                    model.iter_mut().filter(|(id, _)| *id == changed).for_each(|(_, bytes)| *bytes = len);
                }
                2 => {
                    drop(log);
                    drop(db);
                    db = open(&disk).unwrap();
                }
                _ => {
                    for _ in 0..1 + rng.below(12) {
                        made.push(raw(&doc! { "_id": next, "text": "x".repeat(rng.below(100)) }));
                        next += 1;
                    }
                    log.insert_many(&made, true).unwrap();
                    model.extend(
                        (next - made.len() as i32..).zip(made.iter().map(|doc| doc.as_bytes().len())),
                    );
                }
            }
            while model.len() > 1
                && (model.iter().map(|(_, bytes)| *bytes as i64).sum::<i64>() > size
                    || max.is_some_and(|max| model.len() > max))
            {
                model.pop_front();
            }
            let log = db.collection("x.log").unwrap();
            assert_eq!(ids(&log), model.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        }
        db.check().unwrap();
    }
}

#[test]
fn a_tail_waits_and_goes_on_and_tells_that_it_was_overtaken() {
    let db = open(&SimDisk::new()).unwrap();
    let log = db.create_collection("x.log", doc! { "capped": true, "size": 10_000, "max": 4 }).unwrap();
    assert!(log.tail(&FindRequest::default()).unwrap().is_closed(), "nothing there");
    log.insert_one(rawdoc! { "_id": 0 }).unwrap();
    let mut tail = log.tail(&FindRequest::filter(rawdoc! { "_id": { "$ne": 1 } })).unwrap();
    let mut next = |wait| {
        tail.next_timeout(Duration::from_millis(wait))
            .map(|found| found.map(|doc| doc.get_i32("_id").unwrap()))
    };
    assert_eq!(next(0).unwrap(), Some(0));
    assert_eq!(next(20).unwrap(), None);
    let writer = std::thread::spawn({
        let log = log.clone();
        move || {
            std::thread::sleep(Duration::from_millis(50));
            (1..4).for_each(|id| drop(log.insert_one(rawdoc! { "_id": id }).unwrap()));
        }
    });
    assert_eq!((next(20_000).unwrap(), next(20_000).unwrap()), (Some(2), Some(3)));
    writer.join().unwrap();
    (4..8).for_each(|id| drop(log.insert_one(rawdoc! { "_id": id }).unwrap()));
    assert_eq!(next(0).unwrap(), Some(4), "the last row read is gone, but none was missed");
    (8..20).for_each(|id| drop(log.insert_one(rawdoc! { "_id": id }).unwrap()));
    let read = [next(0).unwrap(), next(0).unwrap(), next(0).unwrap()];
    assert_eq!(read, [Some(5), Some(6), Some(7)], "these were read already");
    assert_eq!(next(0).unwrap_err().code, ErrorCode::CappedPositionLost);
}

#[test]
fn a_find_in_a_view_is_that_find_in_what_its_pipeline_makes() {
    let mut rng = Rng::new(5);
    let db = open(&SimDisk::new()).unwrap();
    let source = db.collection("x.source").unwrap();
    let all: Vec<_> = (0..60)
        .map(|id| raw(&doc! { "_id": id, "a": rng.below(6) as i32, "b": rng.below(4) as i32 }))
        .collect();
    source.insert_many(&all, true).unwrap();
    source.create_index(rawdoc! { "a": 1 }).unwrap();
    let stages =
        vec![doc! { "$match": { "a": { "$gt": 1 } } }, doc! { "$set": { "sum": { "$add": ["$a", "$b"] } } }];
    let view = db.create_view("x.view", "source", stages.clone()).unwrap();
    let plain = db.collection("x.plain").unwrap();
    let made = source.aggregate(&AggregateRequest::new(stages.iter().map(raw))).unwrap();
    plain.insert_many(&made.map(|document| document.unwrap()).collect::<Vec<_>>(), true).unwrap();
    for _ in 0..60 {
        let mut request = FindRequest::default().sort(rawdoc! { "b": 1, "_id": -1 });
        if rng.chance(70) {
            request.filter =
                Some(rawdoc! { "sum": { "$gte": rng.below(9) as i32 }, "a": { "$ne": rng.below(6) as i32 } });
        }
        (request.skip, request.limit) = (rng.below(4) as u64, rng.below(12) as u64);
        if rng.chance(50) {
            request.projection = Some(rawdoc! { "sum": 1, "twice": { "$multiply": ["$a", 2] } });
        }
        let read = |collection: &Collection| -> Vec<_> {
            collection.find(request.clone()).unwrap().map(|document| document.unwrap()).collect()
        };
        assert_eq!(read(&view), read(&plain), "{request:?}");
        assert_eq!(view.count(request.clone()).unwrap(), plain.count(request.clone()).unwrap());
        let mut txn = db.begin().unwrap();
        let in_txn = txn.collection("x.view").unwrap().find(&request).unwrap();
        assert_eq!(in_txn.collect(&txn).unwrap(), read(&plain));
    }
    assert_eq!(view.insert_one(rawdoc! {}).unwrap_err().code, ErrorCode::CommandNotSupportedOnView);
    let mut txn = db.begin().unwrap();
    let refused = txn.collection("x.view").unwrap().insert_one(rawdoc! {}).unwrap_err();
    assert_eq!(refused.code, ErrorCode::CommandNotSupportedOnView);
    assert!(db.check().unwrap().collections.len() == 2);
}

#[test]
fn options_that_make_a_collection_what_it_is_are_not_changed_like_others() {
    let db = open(&SimDisk::new()).unwrap();
    let code = |namespace: &str, options: Document| {
        db.modify_collection(namespace, options).map(drop).map_err(|error| error.code)
    };
    db.create_collection("x.plain", doc! {}).unwrap();
    db.create_collection("x.capped", doc! { "capped": true, "size": 4096 }).unwrap();
    db.create_collection("x.series", doc! { "timeseries": { "timeField": "at" } }).unwrap();
    for options in [
        doc! { "capped": true },
        doc! { "size": 1 },
        doc! { "max": 1 },
        doc! { "clusteredIndex": {} },
        doc! { "timeseries": { "timeField": "at" } },
        doc! { "expireAfterSeconds": 5 },
        doc! { "storageEngine": {} },
        doc! { "validator": {}, "anything": 1 },
    ] {
        for namespace in ["x.plain", "x.capped"] {
            assert_eq!(code(namespace, options.clone()), Err(ErrorCode::InvalidOptions), "{options}");
        }
    }
    assert_eq!(code("x.series", doc! { "validator": {} }), Err(ErrorCode::InvalidOptions));
    let listed = db.list_collections("x").unwrap();
    let options = |name: &str| {
        listed.iter().find(|info| info.namespace.as_str() == name).map(|info| info.options.clone()).unwrap()
    };
    assert_eq!(options("x.plain"), doc! {});
    assert_eq!(options("x.capped"), doc! { "capped": true, "size": 4096 });
    assert_eq!(code("x.capped", doc! { "validator": { "n": 1 }, "validationLevel": "moderate" }), Ok(()));
}

#[test]
fn finds_counts_and_distinct_values_of_a_view_are_explained_as_its_pipeline() {
    let db = open(&SimDisk::new()).unwrap();
    let source = db.collection("x.source").unwrap();
    let documents: Vec<_> = (0..20).map(|n| raw(&doc! { "_id": n, "a": n, "b": n % 2 })).collect();
    source.insert_many(&documents, true).unwrap();
    let view = db.create_view("x.view", "source", vec![doc! { "$match": { "a": { "$gt": 9 } } }]).unwrap();
    let request = FindRequest::filter(rawdoc! { "b": 1 });
    for (execute, expected) in [(true, Some(5)), (false, None)] {
        for shown in [
            view.explain_find(&request, false, execute),
            view.explain_find(&request, true, execute),
            view.explain_distinct("b", &request, execute),
        ] {
            let shown = Document::try_from(&*shown.unwrap()).unwrap();
            assert!(shown.contains_key("queryPlanner"), "{shown}");
            let stats = shown.get_document("executionStats").ok();
            assert_eq!(stats.map(|stats| stats.get_i32("nReturned").unwrap()), expected, "{shown}");
        }
    }
}

#[test]
fn changes_of_a_collection_are_made_together_or_not_at_all() {
    let db = open(&SimDisk::new()).unwrap();
    db.create_collection("x.c", doc! {}).unwrap();
    let options = || db.list_collections("x").unwrap().pop().unwrap().options;
    let validator = doc! { "validator": { "n": { "$gt": 0 } } };
    let with = |index: &str| crate::Modification {
        options: validator.clone(),
        index: Some(crate::IndexModification {
            index: crate::IndexChoice::Name(index.to_owned()),
            hidden: Some(true),
            expire_after: None,
        }),
        ..Default::default()
    };
    assert_eq!(db.modify_collection("x.c", with("none")).unwrap_err().code, ErrorCode::IndexNotFound);
    let limits = crate::Modification { limits: doc! { "size": 4096 }, ..validator.clone().into() };
    assert_eq!(db.modify_collection("x.c", limits).unwrap_err().code, ErrorCode::InvalidOptions);
    assert_eq!(options(), doc! {});
    let name = db.collection("x.c").unwrap().create_index(rawdoc! { "n": 1 }).unwrap();
    assert!(!db.modify_collection("x.c", with(&name)).unwrap().unwrap().options.hidden);
    assert_eq!(options(), validator);
}

#[test]
fn a_time_series_whose_index_cannot_be_built_or_whose_other_changes_are_refused_stays_as_it_is() {
    let db = recording();
    db.create_collection("x.s", doc! { "timeseries": { "timeField": "at", "granularity": "minutes" } })
        .unwrap();
    let series = db.collection("x.s").unwrap();
    series.insert_one(raw(&doc! { "_id": 1, "at": bson::DateTime::now() })).unwrap();
    let with = |granularity: &str| crate::Modification {
        buckets: Some(doc! { "granularity": granularity }),
        expire_after: Some(Some(86_400)),
        ..Default::default()
    };
    let state = || {
        let options = db.list_collections("x").unwrap().pop().unwrap().options;
        (options, series.indexes().unwrap().unwrap())
    };
    let before = state();
    {
        let operation = Arc::new(Interrupt::new(None));
        operation.kill();
        let _operation = operation.enter();
        let killed = db.modify_collection("x.s", with("hours")).unwrap_err();
        assert_eq!(killed.code, ErrorCode::Interrupted);
    }
    assert_eq!(state(), before);
    // A shorter span than before.
    let refused = db.modify_collection("x.s", with("seconds")).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidOptions);
    assert_eq!(state(), before);
    db.modify_collection("x.s", with("hours")).unwrap();
    let (options, indexes) = state();
    assert_eq!(options.get_i64("expireAfterSeconds").unwrap(), 86_400);
    assert_eq!(options.get_document("timeseries").unwrap().get_str("granularity").unwrap(), "hours");
    let by_date = indexes.iter().find(|index| index.get_str("name").unwrap() == "at_1").unwrap();
    assert!(by_date.contains_key("expireAfterSeconds"));
}
