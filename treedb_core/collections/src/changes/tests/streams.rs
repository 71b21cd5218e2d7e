//! Tests of change streams.

use std::time::Duration;

use bson::{Bson, Document, Timestamp, doc};
use treedb_testing::Rng;

use super::model::step;
use super::*;
use crate::changes::{
    ChangeStream, FullDocument, FullDocumentBeforeChange, WatchFrom, WatchRequest, Watched,
};
use crate::tests::{open, raw};
use crate::{ChangeLogOptions, DeleteRequest, UpdateRequest};
use treedb_query::error::ErrorCode;
use treedb_storage::disk::SimDisk;

fn database() -> Database {
    let db = open(&SimDisk::new()).unwrap();
    db.inner.changes.set_now(1_000_000);
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    db
}

/// The events as bytes: unlike fields (NaN), bytes are always equal to themselves.
fn bytes(stream: &mut ChangeStream) -> Vec<RawDocumentBuf> {
    std::iter::from_fn(|| stream.try_next().unwrap()).collect()
}

fn event(stream: &mut ChangeStream) -> Option<Document> {
    stream.try_next().unwrap().map(|event| Document::try_from(&*event).unwrap())
}

fn events(stream: &mut ChangeStream) -> Vec<Document> {
    std::iter::from_fn(|| event(stream)).collect()
}

/// The types of the events.
fn kinds(stream: &mut ChangeStream) -> Vec<String> {
    events(stream).iter().map(|event| event.get_str("operationType").unwrap().to_owned()).collect()
}

fn from(from: WatchFrom) -> WatchRequest {
    WatchRequest { from, ..WatchRequest::default() }
}

fn pipeline(stages: &[Document]) -> WatchRequest {
    let mut all = bson::RawArrayBuf::new();
    stages.iter().for_each(|stage| all.push(raw(stage)));
    WatchRequest { pipeline: all, ..WatchRequest::default() }
}

#[test]
fn a_stream_returns_every_kind_of_event_as_mongodb_does() {
    let db = database();
    let collection = db.collection("shop.orders").unwrap();
    let mut stream = collection.watch(WatchRequest::default()).unwrap();
    assert_eq!(event(&mut stream), None);
    collection.insert_one(raw(&doc! { "_id": 1, "a": { "b": 1 }, "l": [1, 2, 3] })).unwrap();
    let set = doc! { "$set": { "a.b": 2 }, "$unset": { "l": 1 } };
    collection.update(UpdateRequest::one(raw(&doc! { "_id": 1 }), raw(&set))).unwrap();
    collection.update(UpdateRequest::one(raw(&doc! { "_id": 1 }), raw(&doc! { "c": 3 }))).unwrap();
    collection.delete(DeleteRequest::one(raw(&doc! { "_id": 1 }))).unwrap();
    db.collection("shop.other").unwrap().insert_one(raw(&doc! { "_id": 1 })).unwrap();
    db.drop_collection("shop.orders").unwrap();
    collection.insert_one(raw(&doc! { "_id": 2 })).unwrap();
    let mut all = events(&mut stream);
    assert!(stream.is_closed());
    let mut times = Vec::new();
    for event in &mut all {
        times.push(event.get_timestamp("clusterTime").unwrap());
        for field in ["_id", "clusterTime", "wallTime"] {
            assert!(event.remove(field).is_some(), "{field}");
        }
    }
    assert!(times.is_sorted());
    let ns = doc! { "db": "shop", "coll": "orders" };
    let key = doc! { "_id": 1 };
    let expected = [
        doc! {
            "operationType": "insert", "fullDocument": { "_id": 1, "a": { "b": 1 }, "l": [1, 2, 3] }, "ns": ns.clone(),
            "documentKey": key.clone(),
        },
        doc! {
            "operationType": "update", "ns": ns.clone(), "documentKey": key.clone(),
            "updateDescription": { "updatedFields": { "a.b": 2 }, "removedFields": ["l"], "truncatedArrays": [] },
        },
        doc! {
            "operationType": "replace", "fullDocument": { "_id": 1, "c": 3 }, "ns": ns.clone(), "documentKey": key.clone(),
        },
        doc! { "operationType": "delete", "ns": ns.clone(), "documentKey": key },
        doc! { "operationType": "drop", "ns": ns },
        doc! { "operationType": "invalidate" },
    ];
    assert_eq!(all, expected);
    // A stream cannot be resumed after the invalidation, but another one can be started there.
    let token = stream.resume_token();
    let refused = collection.watch(from(WatchFrom::ResumeAfter(token.clone()))).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidResumeToken);
    let mut again = collection.watch(from(WatchFrom::StartAfter(token))).unwrap();
    assert_eq!(kinds(&mut again), ["insert"]);
}

#[test]
fn pre_and_post_images_are_available_if_the_collection_enables_them() {
    let db = database();
    let collection = db.collection("a.x").unwrap();
    collection.insert_one(raw(&doc! { "_id": 1, "n": 1 })).unwrap();
    let available = WatchRequest {
        full_document: FullDocument::WhenAvailable,
        before: FullDocumentBeforeChange::WhenAvailable,
        ..WatchRequest::default()
    };
    let lookup = WatchRequest { full_document: FullDocument::UpdateLookup, ..WatchRequest::default() };
    let required = WatchRequest { before: FullDocumentBeforeChange::Required, ..WatchRequest::default() };
    let behind = WatchRequest { full_document: FullDocument::Required, ..WatchRequest::default() };
    let mut streams =
        [&available, &lookup, &required, &behind].map(|request| collection.watch(request.clone()).unwrap());
    let inc = || {
        collection
            .update(UpdateRequest::one(raw(&doc! { "_id": 1 }), raw(&doc! { "$inc": { "n": 1 } })))
            .unwrap()
    };
    inc();
    inc();
    let all = events(&mut streams[0]);
    assert!(all.iter().all(|event| event.get("fullDocument") == Some(&Bson::Null)));
    assert!(all.iter().all(|event| event.get("fullDocumentBeforeChange") == Some(&Bson::Null)));
    let all = events(&mut streams[1]);
    assert!(all.iter().all(|event| event.get("fullDocument") == Some(&doc! { "_id": 1, "n": 3 }.into())));
    for stream in &mut streams[2..] {
        assert_eq!(stream.try_next().unwrap_err().code, ErrorCode::NoMatchingDocument);
    }
    db.modify_collection("a.x", doc! { "changeStreamPreAndPostImages": { "enabled": true } }).unwrap();
    let mut streams =
        [&available, &lookup, &required, &behind].map(|request| collection.watch(request.clone()).unwrap());
    inc();
    inc();
    collection.delete(DeleteRequest::one(raw(&doc! { "_id": 1 }))).unwrap();
    let n = |event: &Document, field: &str| event.get_document(field).and_then(|doc| doc.get_i32("n")).ok();
    let versions: Vec<_> = events(&mut streams[0])
        .iter()
        .map(|event| (n(event, "fullDocumentBeforeChange"), n(event, "fullDocument")))
        .collect();
    assert_eq!(versions, [(Some(3), Some(4)), (Some(4), Some(5)), (Some(5), None)]);
    // The document is looked up now, after it was deleted.
    let all = events(&mut streams[1]);
    assert_eq!(all[0].get("fullDocument"), Some(&Bson::Null));
    assert_eq!(events(&mut streams[2]).len(), 3);
    assert_eq!(n(&events(&mut streams[3])[1], "fullDocument"), Some(5));
}

#[test]
fn a_database_and_all_databases_can_be_watched() {
    let db = database();
    let mut one = db.watch(Watched::Database("a".into()), WatchRequest::default()).unwrap();
    let mut all = db.watch(Watched::Everything, WatchRequest::default()).unwrap();
    for name in ["a.x", "b.x", "a.y"] {
        db.collection(name).unwrap().insert_one(raw(&doc! { "_id": 1 })).unwrap();
    }
    db.drop_database("b").unwrap();
    db.drop_collection("a.x").unwrap();
    db.drop_database("a").unwrap();
    assert_eq!(kinds(&mut one), ["insert", "insert", "drop", "drop", "dropDatabase", "invalidate"]);
    assert!(one.is_closed());
    let expected = ["insert", "insert", "insert", "drop", "dropDatabase", "drop", "drop", "dropDatabase"];
    assert_eq!(kinds(&mut all), expected);
    assert!(!all.is_closed());
}

#[test]
fn a_stream_can_be_resumed_after_any_event() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let mut stream = db.watch(Watched::Everything, WatchRequest::default()).unwrap();
    let (mut rng, mut next) = (Rng::new(77), 0);
    (0..60).for_each(|_| step(&db, &mut rng, &mut next));
    let begin = stream.resume_token();
    let all = bytes(&mut stream);
    assert!(all.len() > 300, "{}", all.len());
    drop(stream);
    let id = |at: usize| all[at].get_document("_id").unwrap().to_owned();
    db.close().unwrap();
    let db = open(&disk).unwrap();
    let again = |token: RawDocumentBuf| {
        let request = from(WatchFrom::ResumeAfter(token));
        let mut stream = db.watch(Watched::Everything, request).unwrap();
        bytes(&mut stream)
    };
    assert!(again(begin) == all);
    for at in (0..all.len()).step_by(37) {
        let token = id(at);
        assert!(again(token) == all[at + 1..], "{at}");
        let time = all[at].get_timestamp("clusterTime").unwrap();
        let mut stream = db.watch(Watched::Everything, from(WatchFrom::OperationTime(time))).unwrap();
        assert!(bytes(&mut stream) == all[at..], "{at}");
    }
    // The resume token after every event.
    let mut stream = db.watch(Watched::Everything, from(WatchFrom::ResumeAfter(id(0)))).unwrap();
    for at in 1..40 {
        assert_eq!(stream.try_next().unwrap().unwrap(), all[at]);
        let mut other =
            db.watch(Watched::Everything, from(WatchFrom::ResumeAfter(stream.resume_token()))).unwrap();
        assert_eq!(other.try_next().unwrap().unwrap(), all[at + 1]);
    }
}

#[test]
fn stages_are_applied_to_events_and_must_not_change_their_ids() {
    let db = database();
    let collection = db.collection("a.x").unwrap();
    let stages = [
        doc! { "$match": { "operationType": "insert", "fullDocument.n": { "$gte": 8 } } },
        doc! { "$project": { "n": "$fullDocument.n" } },
    ];
    let mut some = collection.watch(pipeline(&stages)).unwrap();
    let mut bad = collection.watch(pipeline(&[doc! { "$project": { "_id": 0 } }])).unwrap();
    (0..10).for_each(|n| {
        collection.insert_one(raw(&doc! { "_id": n, "n": n })).unwrap();
    });
    let found: Vec<_> =
        events(&mut some).iter().map(|event| (event.len(), event.get_i32("n").unwrap())).collect();
    assert_eq!(found, [(2, 8), (2, 9)]);
    assert_eq!(bad.try_next().unwrap_err().code, ErrorCode::ChangeStreamFatalError);
    let refused = collection.watch(pipeline(&[doc! { "$group": { "_id": 1 } }])).unwrap_err();
    assert_eq!(refused.code, ErrorCode::IllegalOperation);
}

#[test]
fn resuming_from_a_removed_change_is_history_lost() {
    let db = database();
    let collection = db.collection("a.x").unwrap();
    let mut slow = collection.watch(WatchRequest::default()).unwrap();
    let begin = slow.resume_token();
    for n in 0..5 {
        collection.insert_one(raw(&doc! { "_id": n })).unwrap();
    }
    let token = |at: usize| {
        let mut stream = collection.watch(from(WatchFrom::ResumeAfter(begin.clone()))).unwrap();
        raw(events(&mut stream)[at].get_document("_id").unwrap())
    };
    let (second, fourth, last) = (token(1), token(3), token(4));
    db.inner.changes.set_now(1_000_000 + 48 * 3_600_000);
    db.trim_changes().unwrap();
    assert_eq!(slow.try_next().unwrap_err().code, ErrorCode::ChangeStreamHistoryLost);
    let lost = |from_: WatchFrom| collection.watch(from(from_)).unwrap_err().code;
    assert_eq!(lost(WatchFrom::ResumeAfter(begin.clone())), ErrorCode::ChangeStreamHistoryLost);
    assert_eq!(lost(WatchFrom::ResumeAfter(second)), ErrorCode::ChangeStreamHistoryLost);
    let time = Timestamp { time: 1_000, increment: 0 };
    assert_eq!(lost(WatchFrom::OperationTime(time)), ErrorCode::ChangeStreamHistoryLost);
    assert_eq!(kinds(&mut collection.watch(from(WatchFrom::ResumeAfter(fourth))).unwrap()), ["insert"]);
    assert!(kinds(&mut collection.watch(from(WatchFrom::ResumeAfter(last))).unwrap()).is_empty());
    // A token for a change that was lost in a power cut; its number now has another change, or none yet.
    let token =
        crate::changes::resume_token::ResumeToken { seq: 6, time: 999, invalidated: false, fragment: None };
    assert_eq!(lost(WatchFrom::ResumeAfter(token.encode())), ErrorCode::ChangeStreamHistoryLost);
    let token = crate::changes::resume_token::ResumeToken { seq: 7, ..token };
    assert_eq!(lost(WatchFrom::ResumeAfter(token.encode())), ErrorCode::ChangeStreamHistoryLost);
    db.record_changes(None).unwrap();
    assert_eq!(lost(WatchFrom::Now), ErrorCode::Location40573);
}

#[test]
fn a_waiting_stream_wakes_at_a_commit() {
    let db = database();
    let collection = db.collection("a.x").unwrap();
    let mut stream = collection.watch(WatchRequest::default()).unwrap();
    let writer = collection.clone();
    let begun = std::time::Instant::now();
    let thread = std::thread::spawn(move || {
        for n in 0..50 {
            writer.insert_one(raw(&doc! { "_id": n })).unwrap();
            std::thread::sleep(Duration::from_micros(n as u64 * 37 % 500));
        }
    });
    for n in 0..50 {
        let event = stream.next_timeout(Duration::from_secs(60)).unwrap().unwrap();
        let event = Document::try_from(&*event).unwrap();
        assert_eq!(event.get_document("documentKey").unwrap(), &doc! { "_id": n });
    }
    thread.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(50));
    assert_eq!(stream.next_timeout(Duration::from_millis(5)).unwrap(), None);
}
