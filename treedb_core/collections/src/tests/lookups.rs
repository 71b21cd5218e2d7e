//! `$lookup` followed by `$unwind` of its array, which is done without building the array, compared with
//! separate stages.

use treedb_testing::Rng;

use super::*;
use crate::{AggregateRequest, IndexSpec};
use bson::{RawBson, rawdoc};

/// Visits whose person is missing, null, unknown, an array, or one of many.
fn collections() -> Database {
    let db = open(&SimDisk::default()).unwrap();
    let people: Vec<_> = (0..60)
        .map(|n| {
            let mut person =
                rawdoc! { "_id": n, "name": format!("p{n}"), "city": format!("c{}", n % 7), "kind": n % 9 };
            match n % 5 {
                0 => {}
                1 => person.append(bson::raw::cstr!("alias"), RawBson::Null),
                2 => person.append(bson::raw::cstr!("alias"), bson::rawbson!([n % 9, n % 4])),
                _ => person.append(bson::raw::cstr!("alias"), n % 9),
            }
            person
        })
        .collect();
    db.collection("db.people").unwrap().insert_many(&people, true).unwrap();
    let mut rng = Rng::new(4);
    let visits: Vec<_> = (0..200)
        .map(|n| {
            let mut visit = rawdoc! { "_id": n, "amount": n % 11, "found": "before" };
            let person = rng.below(80) as i32;
            match rng.below(8) {
                0 => {}
                1 => visit.append(bson::raw::cstr!("person"), RawBson::Null),
                2 => visit.append(bson::raw::cstr!("person"), bson::rawbson!([person, person % 9])),
                3 => visit.append(bson::raw::cstr!("person"), f64::from(person)),
                _ => visit.append(bson::raw::cstr!("person"), person),
            }
            visit
        })
        .collect();
    db.collection("db.visits").unwrap().insert_many(&visits, true).unwrap();
    db
}

#[test]
fn unwinding_within_the_lookup_gives_the_same_as_a_separate_unwind() {
    let db = collections();
    let unwinds = [
        rawdoc! { "$unwind": "$found" },
        rawdoc! { "$unwind": { "path": "$found", "preserveNullAndEmptyArrays": true } },
        rawdoc! { "$unwind": { "path": "$found", "includeArrayIndex": "at" } },
    ];
    let following: [&[RawDocumentBuf]; 6] = [
        &[],
        &[
            rawdoc! { "$group": { "_id": "$found.city", "sum": { "$sum": "$amount" }, "who": { "$push": "$found.name" } } },
            rawdoc! { "$sort": { "_id": 1 } },
        ],
        &[
            rawdoc! { "$group": { "_id": "$amount", "all": { "$push": "$found" } } },
            rawdoc! { "$sort": { "_id": 1 } },
        ],
        &[
            rawdoc! { "$match": { "found.kind": { "$gt": 2 } } },
            rawdoc! { "$group": { "_id": null, "n": { "$sum": "$found.kind" } } },
        ],
        &[
            rawdoc! { "$sort": { "found.city": 1, "_id": 1, "found._id": 1 } },
            rawdoc! { "$group": { "_id": "$found.kind", "first": { "$first": "$found.name" } } },
            rawdoc! { "$sort": { "_id": 1 } },
        ],
        &[rawdoc! { "$project": { "amount": 1 } }, rawdoc! { "$limit": 50 }],
    ];
    let mut compared = 0;
    for indexed in [false, true] {
        if indexed {
            let people = db.collection("db.people").unwrap();
            people.create_index(IndexSpec::new(rawdoc! { "kind": 1 })).unwrap();
            people.create_index(IndexSpec::new(rawdoc! { "alias": -1 })).unwrap();
        }
        for field in ["_id", "kind", "alias", "name"] {
            for unwind in &unwinds {
                for following in following {
                    let look = rawdoc! { "$lookup": {
                        "from": "people", "localField": "person", "foreignField": field, "as": "found",
                    } };
                    let run = |between: Option<RawDocumentBuf>, threads| {
                        let front = [Some(look.clone()), between, Some(unwind.clone())];
                        let stages = front.into_iter().flatten().chain(following.iter().cloned());
                        let mut request = AggregateRequest::new(stages);
                        request.threads = Some(threads);
                        db.aggregate("db.visits", &request).unwrap().collect::<Result<Vec<_>>>().unwrap()
                    };
                    let expected = run(Some(rawdoc! { "$skip": 0 }), 1);
                    for threads in [1, 3] {
                        assert_eq!(
                            run(None, threads),
                            expected,
                            "{field} {unwind:?} {following:?} {threads}"
                        );
                    }
                    compared += expected.len();
                }
            }
        }
    }
    assert!(compared > 2000, "{compared}");
}
