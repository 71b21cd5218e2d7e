//! A random workload and its change log.

use bson::doc;
use treedb_testing::{Rng, random_document, seeds};

use super::*;
use crate::tests::{open, raw};
use crate::{ChangeLogOptions, DeleteRequest, IndexSpec, UpdateRequest};
use treedb_query::error::ErrorCode;
use treedb_storage::Durability;
use treedb_storage::disk::SimDisk;

/// One random operation; some fail, some change nothing.
pub(super) fn step(db: &Database, rng: &mut Rng, next: &mut i32) {
    let name = *rng.pick(&["a.x", "a.y", "b.x"]);
    let collection = db.collection(name).unwrap().with_durability(Durability::None);
    let group = rng.below(6) as i32;
    let document = |rng: &mut Rng, id: i32| {
        let more = bson::Document::try_from(&*random_document(rng, 2)).unwrap();
        raw(&doc! { "_id": id, "g": rng.below(6) as i32, "u": id, "more": more })
    };
    match rng.below(20) {
        0..6 => {
            let docs: Vec<_> = (0..1 + rng.below(30))
                .map(|_| {
                    *next += 1;
                    let id = if rng.below(9) == 0 { rng.below(*next as usize) as i32 } else { *next };
                    document(rng, id)
                })
                .collect();
            collection.insert_many(&docs, rng.below(2) == 0).unwrap();
        }
        6..11 => {
            let update = match rng.below(4) {
                0 => doc! { "$inc": { "n": 1 } },
                1 => doc! { "$set": { "more.x": rng.below(99) as i32, "text": "t".repeat(rng.below(200)) } },
                2 => doc! { "$unset": { "more": 1 } },
                _ => doc! { "$push": { "list": rng.below(9) as i32 } },
            };
            let request = UpdateRequest::many(raw(&doc! { "g": group }), raw(&update));
            collection.update(request).unwrap();
        }
        11 => {
            // Fails at the second document; everything is rolled back.
            let update = doc! { "$set": { "u": 7 } };
            let refused = collection.update(UpdateRequest::many(raw(&doc! {}), raw(&update)));
            if let Err(error) = refused {
                assert_eq!(error.code, ErrorCode::DuplicateKey);
            }
        }
        12..14 => {
            let new = doc! { "g": group, "u": { "$literal": 1 }, "new": true };
            let request = UpdateRequest::one(raw(&doc! { "g": group }), raw(&new)).upsert();
            let _ = collection.update(request);
        }
        14..16 => {
            let filter = doc! { "g": group, "u": { "$lt": rng.below(*next as usize + 1) as i32 } };
            collection.delete(DeleteRequest::many(raw(&filter))).unwrap();
        }
        16 => {
            let _ = collection.create_index(IndexSpec::new(raw(&doc! { "u": 1 })).unique());
        }
        17 if rng.below(4) == 0 => {
            db.drop_collection(name).unwrap();
        }
        18 if rng.below(8) == 0 => {
            db.drop_database("a").unwrap();
        }
        _ => {
            collection
                .update(UpdateRequest::many(raw(&doc! { "_id": 3 }), raw(&doc! { "$inc": { "n": 1 } })))
                .unwrap();
        }
    }
}

#[test]
fn replaying_the_log_gives_the_present_state() {
    for seed in seeds(0..6) {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new();
        let mut db = open(&disk).unwrap();
        db.record_changes(Some(ChangeLogOptions::default())).unwrap();
        let mut next = 0;
        for at in 0..250 {
            step(&db, &mut rng, &mut next);
            if at % 50 == 49 {
                assert_eq!(replay(&db).unwrap(), present(&db).unwrap(), "seed {seed}, step {at}");
                let report = db.check().unwrap();
                let status = db.change_log().unwrap().unwrap();
                assert_eq!((status.first, status.next - 1), (1, report.changes));
            }
            if at % 70 == 69 {
                db.close().unwrap();
                db = open(&disk).unwrap();
            }
        }
    }
}
