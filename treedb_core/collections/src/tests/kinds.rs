//! Kinds of index through the methods of a collection: what they refuse, contain and expire, and how they are
//! listed after reopening.

use std::time::Duration;

use bson::{DateTime, doc, rawdoc};

use super::*;
use crate::{Collection, DeleteRequest, FindAndModifyRequest, IndexSpec, UpdateRequest};
use treedb_query::error::ErrorCode;
use treedb_query::query::{Path, Plan};

fn collection(db: &Database) -> Collection {
    db.collection("shop.things").unwrap()
}

fn fill(collection: &Collection, docs: impl IntoIterator<Item = Document>) {
    let docs: Vec<_> = docs.into_iter().map(|doc| raw(&doc)).collect();
    assert_eq!(collection.insert_many(&docs, true).unwrap().inserted, docs.len() as u64);
}

fn ids(collection: &Collection, request: FindRequest) -> Vec<i32> {
    collection.find(request).unwrap().map(|doc| doc.unwrap().get_i32("_id").unwrap()).collect()
}

fn index_of(plan: &Plan) -> Option<&str> {
    match &plan.path {
        Path::Index { name, .. } => Some(name),
        _ => None,
    }
}

/// The index that a find uses.
fn used(collection: &Collection, filter: Document) -> Option<String> {
    let (plan, _) = collection.explain(FindRequest::filter(raw(&filter))).unwrap().unwrap();
    index_of(&plan).map(str::to_owned)
}

#[test]
fn a_wildcard_index_does_not_answer_exists_if_it_excludes_a_field_below() {
    let db = open(&SimDisk::new()).unwrap();
    let things = collection(&db);
    fill(&things, (0..200).map(|n| doc! { "_id": n, "b": { "x": n } }));
    fill(&things, [doc! { "_id": 200, "a": { "x": 1 } }, doc! { "_id": 201, "a": { "x": 1, "y": 1 } }]);
    let left_out = IndexSpec::new(rawdoc! { "$**": 1 }).wildcard_projection(rawdoc! { "a.x": 0 });
    things.create_index(left_out.name("wild")).unwrap();
    let exists = |path: &str| doc! { path: { "$exists": true } };
    assert_eq!(used(&things, exists("a")), None);
    assert_eq!(ids(&things, FindRequest::filter(raw(&exists("a")))), [200, 201]);
    assert_eq!(used(&things, exists("a.y")).as_deref(), Some("wild"));
    assert_eq!(ids(&things, FindRequest::filter(raw(&exists("a.y")))), [201]);
}

#[test]
fn a_unique_sparse_index_lets_any_number_of_documents_be_without_the_field() {
    let db = open(&SimDisk::new()).unwrap();
    let users = collection(&db);
    users.create_index(IndexSpec::new(rawdoc! { "mail": 1 }).unique().sparse()).unwrap();
    fill(
        &users,
        [
            doc! { "_id": 1 },
            doc! { "_id": 2 },
            doc! { "_id": 3, "mail": "x" },
            doc! { "_id": 4, "mail": null },
        ],
    );
    for twice in [doc! { "_id": 5, "mail": "x" }, doc! { "_id": 5, "mail": null }] {
        assert_eq!(users.insert_one(raw(&twice)).unwrap_err().code, ErrorCode::DuplicateKey);
    }
    let gain = UpdateRequest::one(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "mail": "x" } });
    assert_eq!(users.update(gain).unwrap_err().code, ErrorCode::DuplicateKey);
    let lose = UpdateRequest::one(rawdoc! { "_id": 3 }, rawdoc! { "$unset": { "mail": "" } });
    users.update(lose).unwrap();
    let gain = UpdateRequest::one(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "mail": "x" } });
    assert_eq!(users.update(gain).unwrap().modified, 1);
    // Documents without an entry are found if they can match; the index is used if they cannot.
    assert_eq!(used(&users, doc! { "mail": "x" }).as_deref(), Some("mail_1"));
    assert_eq!(used(&users, doc! { "mail": null }), None);
    assert_eq!(ids(&users, FindRequest::filter(rawdoc! { "mail": null })), [2, 3, 4]);
    assert_eq!(ids(&users, FindRequest::default().sort(rawdoc! { "mail": 1, "_id": 1 })), [2, 3, 4, 1]);
    db.check().unwrap();
}

#[test]
fn a_unique_partial_index_refuses_duplicates_only_among_the_documents_it_covers() {
    let db = open(&SimDisk::new()).unwrap();
    let users = collection(&db);
    let spec = IndexSpec::new(rawdoc! { "mail": 1 }).unique().partial(rawdoc! { "active": true });
    users.create_index(spec.clone()).unwrap();
    let user = |id: i32, active: bool| doc! { "_id": id, "mail": "x", "active": active };
    fill(&users, [user(1, false), user(2, false), user(3, true)]);
    assert_eq!(users.insert_one(raw(&user(4, true))).unwrap_err().code, ErrorCode::DuplicateKey);
    let join = UpdateRequest::one(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "active": true } });
    assert_eq!(users.update(join.clone()).unwrap_err().code, ErrorCode::DuplicateKey);
    users.update(UpdateRequest::one(rawdoc! { "_id": 3 }, rawdoc! { "$set": { "active": 1 } })).unwrap();
    assert_eq!(users.update(join).unwrap().modified, 1);
    assert_eq!(used(&users, doc! { "mail": "x", "active": true }).as_deref(), Some("mail_1"));
    assert_eq!(used(&users, doc! { "mail": "x" }), None);
    assert_eq!(ids(&users, FindRequest::filter(rawdoc! { "mail": "x" })), [1, 2, 3]);
    // With a hint only documents with entries are found, as in MongoDB.
    assert_eq!(ids(&users, FindRequest::filter(rawdoc! { "mail": "x" }).hint("mail_1")), [1]);
    // An index build over existing rows only checks those that the index covers.
    users.drop_index("mail_1").unwrap();
    users.create_index(spec).unwrap();
    db.check().unwrap();
}

#[test]
fn every_kind_of_index_is_listed_and_used_after_reopening() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let things = collection(&db);
    let specs = [
        doc! { "key": { "s": 1 }, "name": "sparse", "sparse": true },
        doc! { "key": { "p": 1 }, "name": "partial", "partialFilterExpression": { "p": { "$gt": 5 } } },
        doc! { "key": { "t": 1 }, "name": "ttl", "expireAfterSeconds": 60 },
        doc! { "key": { "h": "hashed" }, "name": "hashed" },
        doc! { "key": { "w.$**": 1 }, "name": "wild" },
        doc! { "key": { "x": 1 }, "name": "hidden", "hidden": true },
        doc! { "key": { "n": 1 }, "name": "background", "background": true },
        doc! { "key": { "c": 1 }, "name": "collated", "collation": { "locale": "en", "strength": 2 } },
    ];
    let requests: Vec<_> = specs.iter().map(|spec| IndexSpec::from_document(&raw(spec))).collect();
    assert_eq!(things.create_indexes(&requests).unwrap().after, specs.len() + 1);
    // All of them exist already.
    assert_eq!(things.create_indexes(&requests).unwrap().before, specs.len() + 1);
    fill(
        &things,
        (0..20).map(|n| {
            doc! { "_id": n, "s": n, "p": n, "h": n, "w": { "a": n, "b": [n, { "c": n }] }, "x": n, "c": format!("Ä{n}") }
        }),
    );
    drop(things);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    let things = collection(&db);
    let listed = things.indexes().unwrap().unwrap();
    for (spec, listed) in specs.iter().zip(listed.iter().skip(1)) {
        for (name, value) in spec {
            match (name.as_str(), value.as_document()) {
                ("collation", Some(asked)) => {
                    let shown = listed.get_document("collation").unwrap();
                    assert!(asked.iter().all(|(name, value)| shown.get(name) == Some(value)), "{shown}");
                }
                _ => assert_eq!(listed.get(name), Some(value), "{listed}"),
            }
        }
    }
    for (filter, index) in [
        (doc! { "s": 3 }, Some("sparse")),
        (doc! { "p": 7 }, Some("partial")),
        (doc! { "p": 3 }, None),
        (doc! { "h": 3 }, Some("hashed")),
        (doc! { "h": { "$gt": 17 } }, None),
        (doc! { "w.a": 3 }, Some("wild")),
        (doc! { "w.b.c": { "$in": [3, 4] } }, Some("wild")),
        (doc! { "w.a": null }, None),
        (doc! { "w": { "$exists": true } }, Some("wild")),
        (doc! { "x": 3 }, None),
        (doc! { "c": "Ä3" }, None),
    ] {
        let found = ids(&things, FindRequest::filter(raw(&filter)));
        assert_eq!(found, ids(&things, FindRequest::filter(raw(&filter)).hint("$natural")), "{filter}");
        let hashed = filter.get("h").is_some_and(|value| value.as_document().is_some());
        if !hashed {
            assert_eq!(used(&things, filter.clone()).as_deref(), index, "{filter}");
        }
    }
    let error = things.find(FindRequest::filter(rawdoc! { "x": 1 }).hint("hidden")).unwrap_err();
    assert_eq!(error.code, ErrorCode::BadValue);
    let error = things.find(FindRequest::filter(rawdoc! { "x": 1 }).hint("wild")).unwrap_err();
    assert_eq!(error.code, ErrorCode::NoQueryExecutionPlans);
    let refused = things.insert_one(rawdoc! { "_id": 99, "h": [1] }).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Location16766);
    assert_eq!(things.len().unwrap(), 20);
    db.check().unwrap();
}

#[test]
fn a_collation_applies_to_find_sort_update_and_delete() {
    let db = open(&SimDisk::new()).unwrap();
    let words = collection(&db);
    let collation = rawdoc! { "locale": "en", "strength": 2 };
    fill(&words, ["b", "a", "B", "A", "á"].iter().zip(1..).map(|(word, id)| doc! { "_id": id, "w": *word }));
    let find = |filter| FindRequest::filter(filter).collation(collation.clone());
    for indexed in [false, true] {
        if indexed {
            words.create_index(IndexSpec::new(rawdoc! { "w": 1 }).collation(collation.clone())).unwrap();
        }
        let (plan, _) = words.explain(find(rawdoc! { "w": "A" })).unwrap().unwrap();
        assert_eq!(index_of(&plan).is_some(), indexed);
        assert_eq!(ids(&words, find(rawdoc! { "w": "A" })), [2, 4]);
        assert_eq!(
            ids(&words, find(rawdoc! { "w": { "$gt": "A" } }).sort(rawdoc! { "w": 1, "_id": 1 })),
            [5, 1, 3]
        );
        assert_eq!(words.count(find(rawdoc! { "w": { "$in": ["B", "á"] } })).unwrap(), 3);
        // Without the collation strings are compared by bytes, whatever the index.
        assert_eq!(ids(&words, FindRequest::filter(rawdoc! { "w": "A" })), [4]);
        assert_eq!(ids(&words, FindRequest::default().sort(rawdoc! { "w": 1 })), [4, 3, 2, 1, 5]);
    }
    let all = UpdateRequest::many(rawdoc! { "w": "B" }, rawdoc! { "$set": { "n": 1 } });
    assert_eq!(words.update(all.collation(collation.clone())).unwrap().modified, 2);
    let upsert = UpdateRequest::one(rawdoc! { "w": "New" }, rawdoc! { "$set": { "n": 5 } }).upsert();
    let done = words.update(upsert.clone().collation(collation.clone())).unwrap();
    assert!(done.upserted.is_some());
    assert_eq!(words.find_one(rawdoc! { "n": 5 }).unwrap().unwrap().get_str("w").unwrap(), "New");
    let again = UpdateRequest { filter: rawdoc! { "w": "nEW" }, ..upsert };
    assert_eq!(words.update(again.collation(collation.clone())).unwrap().matched, 1);
    let request = FindAndModifyRequest {
        find: find(rawdoc! { "w": "NEW" }),
        update: Some(rawdoc! { "$inc": { "n": 1 } }.into()),
        after: true,
        ..FindAndModifyRequest::default()
    };
    let done = words.find_and_modify(request).unwrap().document.unwrap();
    assert_eq!(done.get_i32("n").unwrap(), 6);
    let gone = DeleteRequest::many(rawdoc! { "w": "a" }).collation(collation.clone());
    assert_eq!(words.delete(gone).unwrap(), 2);
    assert_eq!(ids(&words, find(rawdoc! { "$expr": { "$eq": ["$w", "B"] } })), [1, 3]);
    db.check().unwrap();
}

#[test]
fn a_unique_index_with_a_collation_refuses_strings_that_differ_only_in_case() {
    let db = open(&SimDisk::new()).unwrap();
    let users = collection(&db);
    let spec = IndexSpec::new(rawdoc! { "name": 1 }).unique();
    users.create_index(spec.collation(rawdoc! { "locale": "en", "strength": 2 })).unwrap();
    users.insert_one(rawdoc! { "name": "Ada" }).unwrap();
    let error = users.insert_one(rawdoc! { "name": "ADA" }).unwrap_err();
    assert_eq!(error.code, ErrorCode::DuplicateKey);
    assert!(error.message.contains("dup key: { name: \"ADA\" }"), "{}", error.message);
    users.insert_one(rawdoc! { "name": "Adá" }).unwrap();
}

#[test]
fn only_documents_with_a_past_date_expire_in_short_batches() {
    let db = open(&SimDisk::new()).unwrap();
    for direction in [1, -1] {
        let seen = collection(&db);
        seen.create_index(IndexSpec::new(rawdoc! { "at": direction }).expire_after(10)).unwrap();
        let at = |seconds: i64| DateTime::from_millis(seconds * 1000);
        fill(&seen, (0..23).map(|n| doc! { "_id": n, "at": at(n.into()) }));
        fill(
            &seen,
            [
                doc! { "_id": 100, "at": [at(500), at(3)] },
                doc! { "_id": 101, "at": [at(500), at(400)] },
                doc! { "_id": 102, "at": 5 },
                doc! { "_id": 103, "at": "1970-01-01" },
                doc! { "_id": 104 },
                doc! { "_id": 105, "at": [] },
            ],
        );
        assert_eq!(db.expire_now(at(9)).unwrap(), 0);
        // The documents of the seconds 0 to 15, and the one with an array.
        assert_eq!(db.expire_now(at(25)).unwrap(), 17);
        let left: Vec<i32> = (16..23).chain(101..106).collect();
        assert_eq!(ids(&seen, FindRequest::default().sort(rawdoc! { "_id": 1 })), left);
        let name = format!("at_{direction}");
        // Documents of a hidden index expire too; the time can be changed.
        let old = db.modify_index("shop.things", &name, Some(true), Some(0)).unwrap();
        assert_eq!((old.options.hidden, old.options.expire_after), (false, Some(10)));
        assert_eq!(used(&seen, doc! { "at": at(20) }), None);
        assert_eq!(db.expire_now(at(20)).unwrap(), 5);
        let error = db.modify_index("shop.things", &name, None, Some(-1)).unwrap_err();
        assert_eq!(error.code, ErrorCode::CannotCreateIndex);
        let error = db.modify_index("shop.things", "_id_", Some(true), None).unwrap_err();
        assert_eq!(error.code, ErrorCode::BadValue);
        let error = db.modify_index("shop.things", "no", Some(true), None).unwrap_err();
        assert_eq!(error.code, ErrorCode::IndexNotFound);
        db.check().unwrap();
        db.drop_collection("shop.things").unwrap();
    }
}

#[test]
fn expired_documents_are_deleted_in_the_background() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let seen = collection(&db);
    fill(&seen, (0..20).map(|n| doc! { "_id": n, "at": DateTime::from_millis(0) }));
    seen.create_index(IndexSpec::new(rawdoc! { "at": 1 }).expire_after(1)).unwrap();
    db.expire_every(Duration::from_millis(1));
    let begun = std::time::Instant::now();
    while !seen.is_empty().unwrap() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing expires");
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(seen);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    assert!(collection(&db).is_empty().unwrap());
}

#[test]
fn dropping_an_index_ends_its_build_and_progress_is_reported() {
    let db = open(&SimDisk::new()).unwrap();
    let things = collection(&db);
    fill(&things, (0..1000).map(|n| doc! { "_id": n, "n": n }));
    let (told, error) = std::thread::scope(|scope| {
        let build = scope.spawn(|| things.create_index(rawdoc! { "n": 1 }));
        let mut told = None;
        while !build.is_finished() {
            if let Some(build) = db.index_builds().into_iter().find(|build| build.done > 0) {
                told = Some(build);
                things.drop_index("n_1").unwrap();
                break;
            }
        }
        (told, build.join().unwrap())
    });
    // If the build finished before it was checked, the test does not fail.
    match told {
        Some(build) => {
            assert_eq!(
                (build.namespace.as_str(), build.name.as_str(), build.total),
                ("shop.things", "n_1", 1000)
            );
            match error {
                Err(error) => assert_eq!(error.code, ErrorCode::IndexBuildAborted),
                Ok(name) => assert_eq!(name, "n_1"),
            }
            assert_eq!(things.indexes().unwrap().unwrap().len(), 1);
        }
        None => assert!(error.is_ok()),
    }
    assert!(db.index_builds().is_empty());
    db.check().unwrap();
}
