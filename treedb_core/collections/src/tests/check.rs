//! Checks by several threads, and how far they are.

use bson::doc;

use super::*;
use crate::{ChangeLogOptions, CheckProgress, DatabaseCheck, DeleteRequest, IndexSpec};

/// Checks a database by one thread and by four, which have to find the same.
pub(super) fn checked(db: &Database) -> Result<DatabaseCheck> {
    let (alone, together) = (db.check_with(1, |_| {}), db.check_with(4, |_| {}));
    assert_eq!(format!("{alone:?}"), format!("{together:?}"));
    alone
}

#[test]
fn progress_rises_from_zero_to_the_total_through_pages_documents_indexes_and_changes() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let collection = db.collection("a.x").unwrap();
    collection.create_index(IndexSpec::new(raw(&doc! { "tags": 1 }))).unwrap();
    let document =
        |n: i32| raw(&doc! { "_id": n, "tags": [n % 7, n % 11], "text": "x".repeat(n as usize % 90) });
    for batch in 0..50 {
        let documents: Vec<_> = (0..100).map(|n| document(100 * batch + n)).collect();
        collection.insert_many(&documents, true).unwrap();
    }
    collection.delete(DeleteRequest::one(raw(&doc! { "_id": 77 }))).unwrap();
    db.checkpoint().unwrap();
    let report = checked(&db).unwrap();
    assert!(report.collections[0].rows == 4999 && report.changes >= 5001, "{report:?}");
    let entries: u64 = report.collections[0].indexes.iter().map(|(_, entries)| entries).sum();
    for threads in [1, 4] {
        let mut seen: Vec<CheckProgress> = Vec::new();
        db.check_with(threads, |now| seen.push(now)).unwrap();
        assert!(seen.is_sorted_by(|a, b| a.done < b.done), "{seen:?}");
        let (first, last) = (seen[0], seen[seen.len() - 1]);
        assert_eq!((first.done, last.done), (0, last.total));
        assert!(seen.iter().all(|now| now.total == last.total));
        // The change log has a record for each batch, and an entry of the row history for what was deleted.
        assert!(last.total >= report.store.entries + 4999 + entries + 51, "{last:?} {report:?}");
        // Of each part there is some: the store's end is seen, and that of the collections.
        for end in [report.store.entries, report.store.entries + 4999 + entries] {
            assert!(seen.iter().any(|now| now.done == end), "{end}: {seen:?}");
        }
    }
}
