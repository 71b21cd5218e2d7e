//! Retention: what is removed from the log and what is kept.

use std::time::Duration;

use bson::doc;

use super::*;
use crate::tests::{open, raw};
use crate::{ChangeLogOptions, UpdateRequest};
use treedb_storage::disk::SimDisk;

const HOUR: i64 = 3_600_000;

fn database(options: ChangeLogOptions) -> Database {
    let db = open(&SimDisk::new()).unwrap();
    db.inner.changes.set_now(1000 * HOUR);
    db.record_changes(Some(options)).unwrap();
    db
}

fn tables(db: &Database) -> Vec<String> {
    let reads = db.inner.store.begin_read().unwrap();
    reads.tables().unwrap().iter().map(|table| table.name().to_owned()).collect()
}

#[test]
fn changes_that_are_too_old_are_removed() {
    let db = database(ChangeLogOptions { keep: Duration::from_secs(3600), ..Default::default() });
    let collection = db.collection("a.x").unwrap();
    for hour in 0..6 {
        db.inner.changes.set_now((1000 + hour) * HOUR);
        for n in 0..10 {
            collection.insert_one(raw(&doc! { "_id": hour * 10 + n })).unwrap();
            let set = UpdateRequest::one(raw(&doc! { "_id": 0 }), raw(&doc! { "$inc": { "n": 1 } }));
            collection.update(set).unwrap();
        }
        let status = db.change_log().unwrap().unwrap();
        // The first is the creation of the collection.
        assert_eq!(status.next, 2 + 20 * (hour as u64 + 1));
        assert!(status.oldest >= (1000 + hour - 1) * HOUR, "{status:?}");
        db.check().unwrap();
    }
    // The last record marks the end of the log, so it is kept.
    db.inner.changes.set_now(2000 * HOUR);
    db.trim_changes().unwrap();
    let status = db.change_log().unwrap().unwrap();
    assert_eq!((status.first, status.next), (121, 122));
    assert_eq!(db.check().unwrap().changes, 1);
}

#[test]
fn log_and_row_history_stay_below_the_size_limit() {
    let limit = 20_000;
    let db = database(ChangeLogOptions { bytes: limit, ..Default::default() });
    let collection = db.collection("a.x").unwrap();
    collection.insert_many(&(0..50).map(|n| raw(&doc! { "_id": n })).collect::<Vec<_>>(), true).unwrap();
    for round in 0..3000 {
        let set = doc! { "$set": { "text": "t".repeat(round % 90), "round": round as i32 } };
        let request = UpdateRequest::one(raw(&doc! { "_id": (round % 50) as i32 }), raw(&set));
        collection.with_durability(treedb_storage::Durability::None).update(request).unwrap();
        // One update every tenth of a second.
        db.inner.changes.set_now(1000 * HOUR + round as i64 * 100);
        let status = db.change_log().unwrap().unwrap();
        assert!(status.bytes < limit + 5000, "{status:?}");
    }
    let status = db.change_log().unwrap().unwrap();
    assert!(status.bytes > limit / 2, "{status:?}");
    db.check().unwrap();
}

#[test]
fn rows_of_a_dropped_collection_are_kept_while_the_log_needs_them() {
    let db = database(ChangeLogOptions { keep: Duration::from_secs(3600), bytes: 100_000 });
    let collection = db.collection("a.x").unwrap();
    let docs: Vec<_> = (0..50).map(|n| raw(&doc! { "_id": n, "text": "t".repeat(300) })).collect();
    collection.insert_many(&docs, true).unwrap();
    assert!(db.drop_collection("a.x").unwrap());
    assert!(tables(&db).contains(&"rows/1".to_owned()));
    assert_eq!(replay(&db).unwrap(), Rows::new());
    db.check().unwrap();
    db.inner.changes.set_now(1002 * HOUR);
    db.collection("a.y").unwrap().insert_one(raw(&doc! { "_id": 1 })).unwrap();
    assert!(!tables(&db).contains(&"rows/1".to_owned()), "{:?}", tables(&db));
    db.check().unwrap();
}

#[test]
fn a_large_dropped_collection_is_removed_early() {
    let db = database(ChangeLogOptions { bytes: 100_000, ..Default::default() });
    let collection = db.collection("a.x").unwrap();
    let docs: Vec<_> = (0..500).map(|n| raw(&doc! { "_id": n, "text": "t".repeat(300) })).collect();
    collection.insert_many(&docs, true).unwrap();
    db.drop_collection("a.x").unwrap();
    db.inner.changes.set_now(1000 * HOUR + 30_000);
    db.trim_changes().unwrap();
    assert!(tables(&db).contains(&"rows/1".to_owned()));
    db.inner.changes.set_now(1000 * HOUR + 90_000);
    db.trim_changes().unwrap();
    assert!(!tables(&db).contains(&"rows/1".to_owned()));
    assert_eq!(db.check().unwrap().changes, 502);
}

#[test]
fn a_log_that_is_switched_off_and_on_is_empty_and_continues_its_numbers() {
    let db = database(ChangeLogOptions::default());
    let collection = db.collection("a.x").unwrap();
    collection.insert_one(raw(&doc! { "_id": 1 })).unwrap();
    db.drop_collection("a.x").unwrap();
    collection.insert_one(raw(&doc! { "_id": 1 })).unwrap();
    db.record_changes(None).unwrap();
    assert!(db.change_log().unwrap().is_none() && db.change_log_is_configured().unwrap());
    collection.insert_one(raw(&doc! { "_id": 2 })).unwrap();
    assert_eq!(tables(&db), ["catalog", "changes", "index/2/0", "rows/2"]);
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    collection.insert_one(raw(&doc! { "_id": 3 })).unwrap();
    let status = db.change_log().unwrap().unwrap();
    assert_eq!((status.first, status.next), (6, 7));
    assert_eq!(db.check().unwrap().changes, 1);
}
