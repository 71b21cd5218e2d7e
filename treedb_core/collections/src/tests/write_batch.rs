//! Tests of write batches.

use bson::rawdoc;

use super::*;
use crate::{DeleteRequest, FindAndModifyRequest, IndexSpec, UpdateRequest};
use treedb_query::error::ErrorCode;
use treedb_storage::Durability;

#[test]
fn statements_of_a_batch_see_earlier_ones_and_commit_or_roll_back_as_one() {
    let db = open(&SimDisk::new()).unwrap();
    let (a, b) = (db.collection("t.a").unwrap(), db.collection("t.b").unwrap());
    a.create_index(IndexSpec::new(rawdoc! { "u": 1 }).unique()).unwrap();
    for commits in [false, true] {
        let mut all = db.write_batch().unwrap();
        assert_eq!(all.changes(), 0);
        // The index becomes multikey and the other collection is created within the batch.
        let docs: Vec<_> = (0..20).map(|n| rawdoc! { "_id": n, "u": [n, 100 + n] }).collect();
        assert_eq!(all.insert_many("t.a", &docs, true).unwrap().inserted, 20);
        all.insert_one("t.b", rawdoc! { "_id": 1 }).unwrap();
        let refused =
            all.insert_many("t.a", &[rawdoc! { "_id": 50, "u": 107 }, rawdoc! { "_id": 51 }], false).unwrap();
        assert_eq!((refused.inserted, refused.errors.len(), refused.errors[0].0), (1, 1, 0));
        assert_eq!(refused.errors[0].1.code, ErrorCode::DuplicateKey);
        let update = UpdateRequest::many(rawdoc! { "u": { "$gte": 118 } }, rawdoc! { "$set": { "n": 1 } });
        assert_eq!(all.update("t.a", update).unwrap().modified, 2);
        let upsert = UpdateRequest::one(rawdoc! { "_id": 2 }, rawdoc! { "$set": { "n": 1 } }).upsert();
        assert!(all.update("t.b", upsert).unwrap().upserted.is_some());
        assert_eq!(all.delete("t.a", DeleteRequest::many(rawdoc! { "u": 3 })).unwrap(), 1);
        let take = FindAndModifyRequest {
            find: FindRequest::filter(rawdoc! { "u": 104 }),
            ..FindAndModifyRequest::default()
        };
        assert!(all.find_and_modify("t.a", take).unwrap().matched);
        assert_eq!(all.delete("t.none", DeleteRequest::many(rawdoc! {})).unwrap(), 0);
        assert_eq!(all.changes(), 27);
        assert_eq!((a.len().unwrap(), b.len().unwrap()), (0, 0));
        if commits {
            all.commit_with(Durability::Durable).unwrap();
        }
    }
    assert_eq!((a.len().unwrap(), b.len().unwrap()), (19, 2));
    assert_eq!(a.count(FindRequest::filter(rawdoc! { "u": 105 })).unwrap(), 1);
    assert_eq!(db.list_collections("t").unwrap().len(), 2);
    db.check().unwrap();
}

#[test]
fn a_failed_statement_prevents_the_commit_of_the_batch() {
    let db = open(&SimDisk::new()).unwrap();
    let a = db.collection("t.a").unwrap();
    a.insert_one(rawdoc! { "_id": 1, "n": "text" }).unwrap();
    let mut all = db.write_batch().unwrap();
    all.insert_one("t.a", rawdoc! { "_id": 0, "n": 1 }).unwrap();
    let update = UpdateRequest::many(rawdoc! {}, rawdoc! { "$inc": { "n": 1 } });
    assert_eq!(all.update("t.a", update).unwrap_err().code, ErrorCode::TypeMismatch);
    all.insert_one("t.a", rawdoc! { "_id": 2 }).unwrap();
    assert_eq!(all.commit_with(Durability::Durable).unwrap_err().code, ErrorCode::NoSuchTransaction);
    assert_eq!(a.len().unwrap(), 1);
    // The writer lock is free again.
    a.insert_one(rawdoc! { "_id": 3 }).unwrap();
    db.check().unwrap();
}
