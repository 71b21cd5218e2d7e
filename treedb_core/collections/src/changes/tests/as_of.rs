//! Reading as of earlier changes, against a model that keeps all versions.

use bson::{Document, Timestamp, doc};
use treedb_testing::{Rng, seeds};

use super::model::step;
use super::*;
use crate::tests::{open, raw};
use crate::{AggregateRequest, AsOf, ChangeLogOptions, FindRequest, UpdateRequest};
use treedb_query::error::ErrorCode;
use treedb_storage::disk::SimDisk;

/// The documents of a collection at some time, by a scan.
fn documents(db: &Database, name: &str, at: Option<AsOf>) -> Vec<RawDocumentBuf> {
    let request = FindRequest { as_of: at, ..FindRequest::default() };
    db.collection(name).unwrap().find(request).unwrap().map(Result::unwrap).collect()
}

/// Pipelines over `a.x`, some of which read `a.y`, the collection itself again, or one that there never was.
fn pipelines() -> Vec<Vec<Document>> {
    let other = |stages: Vec<Document>| doc! { "$unionWith": { "coll": "y", "pipeline": stages } };
    let lookup = |from: &str, by: &str| {
        doc! { "$lookup": { "from": from, "localField": "g", "foreignField": by, "as": "found" } }
    };
    let counted = doc! { "count": { "$sum": 1 }, "ids": { "$push": "$_id" } };
    let mut by_group = doc! { "_id": "$g" };
    by_group.extend(counted);
    let graph = doc! { "$graphLookup": {
        "from": "y", "startWith": "$g", "connectFromField": "g", "connectToField": "u", "as": "found", "maxDepth": 2,
    } };
    vec![
        vec![doc! { "$group": by_group }, doc! { "$sort": { "_id": 1 } }],
        vec![
            doc! { "$match": { "_id": { "$gte": 2 }, "u": { "$lt": 90 } } },
            doc! { "$sort": { "u": -1, "_id": 1 } },
        ],
        vec![doc! { "$match": { "u": 7 } }],
        vec![doc! { "$count": "n" }],
        vec![lookup("y", "_id")],
        vec![
            lookup("y", "u"),
            doc! { "$unwind": "$found" },
            doc! { "$group": { "_id": "$found.g", "n": { "$sum": 1 } } },
            doc! { "$sort": { "_id": 1 } },
        ],
        vec![lookup("x", "_id")],
        vec![lookup("never", "u")],
        vec![graph, doc! { "$project": { "found": { "$size": "$found" } } }],
        vec![
            other(vec![doc! { "$match": { "g": { "$gt": 3 } } }]),
            doc! { "$group": { "_id": null, "sum": { "$sum": "$_id" } } },
        ],
        vec![doc! { "$facet": { "few": [{ "$limit": 3 }], "many": [{ "$count": "n" }] } }],
    ]
}

#[test]
fn every_change_that_is_kept_can_be_read_as_of() {
    for seed in seeds(10..13) {
        let mut rng = Rng::new(seed);
        let db = open(&SimDisk::new()).unwrap();
        db.record_changes(Some(ChangeLogOptions::default())).unwrap();
        let (mut next, mut moments) = (0, Vec::new());
        for at in 0..150 {
            step(&db, &mut rng, &mut next);
            let seq = db.change_log().unwrap().unwrap().next - 1;
            if at % 9 == 0 {
                let all = ["a.x", "a.y", "b.x"].map(|name| documents(&db, name, None));
                moments.push((seq, all));
            }
        }
        for (seq, [a, y, b]) in moments {
            let at = Some(AsOf::Change(seq));
            // A collection that does not exist yet or no longer exists is empty.
            assert_eq!(documents(&db, "a.x", at), a, "seed {seed}, change {seq}");
            assert_eq!(documents(&db, "b.x", at), b, "seed {seed}, change {seq}");
            // Sorted, in descending order.
            let request = FindRequest::filter(raw(&doc! { "g": { "$gt": 2 }, "_id": { "$gte": 0 } }))
                .sort(raw(&doc! { "_id": -1 }))
                .as_of(AsOf::Change(seq));
            let mut expected: Vec<_> =
                b.iter().filter(|doc| doc.get_i32("g").is_ok_and(|g| g > 2)).cloned().collect();
            expected.retain(|doc: &RawDocumentBuf| doc.get_i32("_id").is_ok());
            expected.sort_by_key(|doc| std::cmp::Reverse(doc.get_i32("_id").ok()));
            let found = db.collection("b.x").unwrap().find(request.clone()).unwrap();
            let found: Vec<_> = found.map(Result::unwrap).collect();
            assert_eq!(found, expected, "seed {seed}, change {seq}");
            assert_eq!(db.collection("b.x").unwrap().count(request).unwrap(), found.len() as u64);
            let past = open(&SimDisk::new()).unwrap();
            for (name, documents) in [("a.x", &a), ("a.y", &y)] {
                let refused = past.collection(name).unwrap().insert_many(documents, true).unwrap().errors;
                assert!(refused.is_empty());
            }
            for stages in pipelines() {
                let mut request = AggregateRequest::new(stages.iter().map(raw));
                let expected: Vec<_> = past.aggregate("a.x", &request).unwrap().map(Result::unwrap).collect();
                request.as_of = Some(AsOf::Change(seq));
                let found: Vec<_> = db.aggregate("a.x", &request).unwrap().map(Result::unwrap).collect();
                assert_eq!(found, expected, "seed {seed}, change {seq}, {stages:?}");
            }
        }
    }
}

#[test]
fn a_document_has_a_history_and_can_be_read_by_time() {
    let db = open(&SimDisk::new()).unwrap();
    let clock = &db.inner.changes;
    clock.set_now(1_000);
    let collection = db.collection("a.x").unwrap();
    collection.insert_one(raw(&doc! { "_id": 0, "n": 0 })).unwrap();
    let refused = collection.find_one_as_of(raw(&doc! { "_id": 1 }), AsOf::Change(1)).unwrap_err();
    assert_eq!(refused.code, ErrorCode::IllegalOperation);
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let set = |id: i32, n: i32| {
        let request = UpdateRequest::one(raw(&doc! { "_id": id }), raw(&doc! { "$set": { "n": n } }));
        collection.update(request).unwrap();
    };
    clock.set_now(2_000);
    collection.insert_one(raw(&doc! { "_id": 1, "n": 1 })).unwrap();
    set(0, 5);
    clock.set_now(3_000);
    set(1, 2);
    clock.set_now(4_000);
    collection.delete(crate::DeleteRequest::one(raw(&doc! { "_id": 1 }))).unwrap();
    clock.set_now(5_000);
    collection.insert_one(raw(&doc! { "_id": 1, "n": 3 })).unwrap();
    let n = |time: i64| {
        let at = AsOf::Time(bson::DateTime::from_millis(time));
        let found = collection.find_one_as_of(raw(&doc! { "_id": 1 }), at).unwrap();
        found.map(|doc| doc.get_i32("n").unwrap())
    };
    let times = [1_500, 2_000, 2_999, 3_000, 3_500, 4_500, 5_000, 9_000];
    assert_eq!(times.map(n), [None, Some(1), Some(1), Some(2), Some(2), None, Some(3), Some(3)]);
    let history: Vec<_> = collection
        .history(1)
        .unwrap()
        .into_iter()
        .map(|version| {
            (
                version.change,
                version.time.timestamp_millis(),
                version.document.map(|doc| doc.get_i32("n").unwrap()),
            )
        })
        .collect();
    let expected = [(1, 2_000, Some(1)), (3, 3_000, Some(2)), (4, 4_000, None), (5, 5_000, Some(3))];
    assert_eq!(history, expected);
    // The document from before the change log was enabled comes first.
    let history = collection.history(0).unwrap();
    assert_eq!(history.iter().map(|version| version.change).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(history[0].document.as_ref().unwrap().get_i32("n").unwrap(), 0);
    let refused = collection.find_one_as_of(raw(&doc! {}), AsOf::Change(99)).unwrap_err();
    assert_eq!(refused.code, ErrorCode::BadValue);
    let at = AsOf::Time(bson::DateTime::from_millis(10));
    let refused = collection.find_one_as_of(raw(&doc! {}), at).unwrap_err();
    assert_eq!(refused.code, ErrorCode::SnapshotTooOld);
    // All changes but the last are removed.
    clock.set_now(100_000_000_000);
    db.trim_changes().unwrap();
    let refused = collection.find_one_as_of(raw(&doc! {}), AsOf::Change(2)).unwrap_err();
    assert_eq!(refused.code, ErrorCode::SnapshotTooOld);
    assert_eq!(collection.history(1).unwrap().len(), 1);
}

#[test]
fn a_cluster_time_is_the_state_after_the_last_change_that_is_not_later() {
    let db = open(&SimDisk::new()).unwrap();
    let clock = &db.inner.changes;
    let resolve = |time: u32, increment: u32| match db.at_operation_time(Timestamp { time, increment }) {
        Ok(AsOf::Change(seq)) => Ok(seq),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.code),
    };
    assert_eq!(resolve(1, 0), Err(ErrorCode::SnapshotUnavailable));
    let collection = db.collection("a.x").unwrap();
    collection.insert_one(raw(&doc! {})).unwrap();
    clock.set_now(10_500);
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    assert_eq!(db.operation_time().unwrap(), Some(Timestamp { time: 10, increment: 0 }));
    assert_eq!([resolve(10, 0), resolve(10, 1)], [Ok(0), Err(ErrorCode::SnapshotUnavailable)]);
    // Changes 1 and 2 in second 10, 3 to 5 in second 20, 6 in second 30.
    for (time, count) in [(10_600, 1), (10_900, 1), (20_000, 2), (20_999, 1), (30_000, 1)] {
        clock.set_now(time);
        let documents: Vec<_> = (0..count).map(|_| raw(&doc! {})).collect();
        collection.insert_many(&documents, true).unwrap();
    }
    use ErrorCode::{SnapshotTooOld, SnapshotUnavailable};
    let expected = [
        ((9, 1), Err(SnapshotTooOld)),
        ((9, 6), Err(SnapshotTooOld)),
        ((10, 0), Ok(0)),
        ((10, 1), Ok(1)),
        ((10, 9), Ok(2)),
        ((15, 0), Ok(2)),
        ((15, 1), Ok(2)),
        ((20, 0), Ok(2)),
        ((20, 2), Ok(2)),
        ((20, 3), Ok(3)),
        ((20, 4), Ok(4)),
        ((20, u32::MAX), Ok(5)),
        ((29, 1), Ok(5)),
        ((30, 1), Ok(5)),
        ((30, 6), Ok(6)),
        ((30, 7), Err(SnapshotUnavailable)),
        ((31, 1), Err(SnapshotUnavailable)),
        ((u32::MAX, 1), Err(SnapshotUnavailable)),
    ];
    for ((time, increment), seq) in expected {
        assert_eq!(resolve(time, increment), seq, "({time}, {increment})");
    }
    // All records but the last are removed.
    clock.set_now(100_000_000_000);
    db.trim_changes().unwrap();
    let expected = [((20, 5), Err(SnapshotTooOld)), ((30, 5), Err(SnapshotTooOld)), ((30, 6), Ok(6))];
    for ((time, increment), seq) in expected {
        assert_eq!(resolve(time, increment), seq, "({time}, {increment}) of a log that was trimmed");
    }
}

#[test]
fn pipelines_that_read_the_past_share_one_budget_ignore_hints_and_check_what_they_write_to() {
    let db = open(&SimDisk::new()).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let filler = "x".repeat(10_000);
    for name in ["a.x", "a.y"] {
        let documents: Vec<_> = (0..10).map(|id| raw(&doc! { "_id": id, "f": &filler })).collect();
        db.collection(name).unwrap().insert_many(&documents, true).unwrap();
    }
    let at = Some(AsOf::Change(db.change_log().unwrap().unwrap().next - 1));
    for name in ["a.x", "a.y"] {
        db.collection(name).unwrap().delete(crate::DeleteRequest::many(raw(&doc! {}))).unwrap();
    }
    let run = |memory: usize, hint: Option<&str>, stages: &[Document]| {
        let mut request = AggregateRequest::new(stages.iter().map(raw));
        (request.as_of, request.memory, request.hint) = (at, memory, hint.map(Into::into));
        let documents: Result<Vec<_>> = db.aggregate("a.x", &request)?.collect();
        documents.map(|documents| documents.len())
    };
    let both = [doc! { "$unionWith": "y" }];
    assert_eq!(run(400_000, None, &both).unwrap(), 20);
    assert_eq!(run(150_000, None, &[]).unwrap(), 10);
    assert_eq!(run(150_000, None, &both).unwrap_err().code, ErrorCode::ExceededMemoryLimit);
    // There are no indexes in the past.
    assert_eq!(run(400_000, Some("none"), &[]).unwrap(), 10);
    let mut request = FindRequest { as_of: at, ..FindRequest::default() }.hint("none");
    assert_eq!(db.collection("a.x").unwrap().find(request.clone()).unwrap().count(), 10);
    request.bounds.min = Some(raw(&doc! { "_id": 3 }));
    let refused = db.collection("a.x").unwrap().find(request).unwrap_err();
    assert!(refused.code == ErrorCode::BadValue && refused.message.contains("into the filter"), "{refused}");
    let search = doc! { "$vectorSearch": {
        "index": "v", "path": "v", "queryVector": [1.0, 2.0], "numCandidates": 10, "limit": 3,
    } };
    let refused = run(400_000, None, &[search]).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidOptions);
    assert!(refused.message.ends_with("use another read concern to read what there is now"), "{refused}");
}
