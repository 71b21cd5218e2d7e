//! Tests of the document API in a real directory.

// Clippy does not treat the helper functions of tests as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use treedb_collections::bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use treedb_collections::{
    Collection, Database, DeleteRequest, ErrorCode, FindRequest, IndexSpec, UpdateRequest,
};

fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    (dir, db)
}

fn all(collection: &Collection, request: FindRequest) -> Vec<Document> {
    collection.find(request).unwrap().map(|found| Document::try_from(&*found.unwrap()).unwrap()).collect()
}

/// `n` films with a year, a title and a cast.
fn films(db: &Database, n: i32) -> Collection {
    let films = db.collection("cinema.films").unwrap();
    let documents: Vec<RawDocumentBuf> = (0..n)
        .map(|i| rawdoc! { "_id": i, "title": format!("film {i:05}"), "year": 1950 + i % 70, "cast": [i % 7, i % 11] })
        .collect();
    assert_eq!(films.insert_many(&documents, true).unwrap().inserted, n as u64);
    films
}

#[test]
fn documents_survive_a_restart() {
    let (dir, db) = open();
    films(&db, 3000).create_index(rawdoc! { "year": 1 }).unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let films = db.collection("cinema.films").unwrap();
    assert_eq!(films.len().unwrap(), 3000);
    let found = films.find_one(rawdoc! { "_id": 77 }).unwrap().unwrap();
    assert_eq!(
        Document::try_from(&*found).unwrap(),
        doc! { "_id": 77, "title": "film 00077", "year": 1957, "cast": [0, 0] }
    );
    let checked = db.check().unwrap();
    assert_eq!(checked.collections[0].rows, 3000);
    assert_eq!(checked.collections[0].indexes, [("_id_".to_owned(), 3000), ("year_1".to_owned(), 3000)]);
}

#[test]
fn an_index_is_used_and_equals_a_scan() {
    let (_dir, db) = open();
    let films = films(&db, 2000);
    let requests = [
        FindRequest::filter(rawdoc! { "year": { "$gte": 1990, "$lt": 1993 } })
            .sort(rawdoc! { "year": -1, "_id": 1 }),
        FindRequest::filter(rawdoc! { "year": { "$in": [1960, 1955, 2000] } })
            .sort(rawdoc! { "_id": 1 })
            .skip(3)
            .limit(9),
        FindRequest::filter(rawdoc! { "cast": 10 }).sort(rawdoc! { "_id": -1 }),
        FindRequest::default()
            .sort(rawdoc! { "year": 1, "title": -1 })
            .limit(20)
            .projection(rawdoc! { "title": 1 }),
    ];
    let scanned: Vec<_> = requests.iter().map(|request| all(&films, request.clone())).collect();
    for keys in [rawdoc! { "year": -1, "title": 1 }, rawdoc! { "cast": 1 }] {
        films.create_index(keys).unwrap();
    }
    for (request, scanned) in requests.iter().zip(scanned) {
        let (plan, counters) = films.explain(request.clone()).unwrap().unwrap();
        assert!(matches!(plan.path, treedb_query::query::Path::Index { .. }), "{request:?} scans");
        assert!(counters.docs_examined < 2000, "{request:?} examines {} documents", counters.docs_examined);
        assert_eq!(all(&films, request.clone()), scanned, "{request:?}");
    }
}

#[test]
fn a_duplicate_key_is_refused_with_mongodbs_message_and_changes_nothing() {
    let (_dir, db) = open();
    let users = db.collection("app.users").unwrap();
    users.create_index(IndexSpec::new(rawdoc! { "mail": 1 }).unique()).unwrap();
    let batch = [
        rawdoc! { "_id": 1, "mail": "a" },
        rawdoc! { "_id": 2, "mail": "a" },
        rawdoc! { "_id": 1, "mail": "b" },
        rawdoc! { "_id": 3, "mail": "c" },
    ];
    let outcome = users.insert_many(&batch, false).unwrap();
    assert_eq!((outcome.inserted, outcome.errors.len()), (2, 2));
    let (at, error) = &outcome.errors[0];
    assert_eq!((*at, error.code), (1, ErrorCode::DuplicateKey));
    assert_eq!(
        error.message,
        r#"E11000 duplicate key error collection: app.users index: mail_1 dup key: { mail: "a" }"#
    );
    let duplicate = error.duplicate.as_ref().unwrap();
    assert_eq!(duplicate.key_pattern, rawdoc! { "mail": 1 });
    assert_eq!(duplicate.key_value, rawdoc! { "mail": "a" });
    assert_eq!(outcome.errors[1].1.duplicate.as_ref().unwrap().index, "_id_");

    let update = UpdateRequest::one(rawdoc! { "_id": 3 }, rawdoc! { "$set": { "mail": "a" } });
    assert_eq!(users.update(update).unwrap_err().code, ErrorCode::DuplicateKey);
    assert_eq!(
        all(&users, FindRequest::default().sort(rawdoc! { "_id": 1 })),
        [doc! { "_id": 1, "mail": "a" }, doc! { "_id": 3, "mail": "c" }]
    );
    db.check().unwrap();
}

#[test]
fn a_unique_index_over_duplicates_is_removed_again() {
    let (_dir, db) = open();
    let films = films(&db, 500);
    let error = films.create_index(IndexSpec::new(rawdoc! { "year": 1 }).unique()).unwrap_err();
    assert_eq!(error.code, ErrorCode::DuplicateKey);
    assert_eq!(films.indexes().unwrap().unwrap().len(), 1);
    films.create_index(rawdoc! { "year": 1 }).unwrap();
    db.check().unwrap();
}

#[test]
fn updates_and_deletes_maintain_every_index() {
    let (_dir, db) = open();
    let films = films(&db, 1500);
    films.create_index(rawdoc! { "year": 1, "title": -1 }).unwrap();
    films.create_index(rawdoc! { "cast": 1 }).unwrap();
    let outcome = films
        .update(UpdateRequest::many(
            rawdoc! { "year": { "$lt": 1960 } },
            rawdoc! { "$inc": { "year": 100 }, "$set": { "cast": [1, 2, 3] } },
        ))
        .unwrap();
    assert_eq!((outcome.matched, outcome.modified), (220, 220));
    assert_eq!(
        films
            .update(UpdateRequest::many(
                rawdoc! { "year": { "$gte": 2050 } },
                rawdoc! { "$set": { "cast": [1, 2, 3] } }
            ))
            .unwrap()
            .modified,
        0
    );
    assert_eq!(films.delete(DeleteRequest::many(rawdoc! { "cast": 3 })).unwrap(), films_deleted());
    assert_eq!(films.delete(DeleteRequest::one(rawdoc! { "year": 1970 })).unwrap(), 1);
    db.check().unwrap();
}

/// The number of these films with a 3 in their cast, counted without the database.
fn films_deleted() -> u64 {
    (0..1500).filter(|i| 1950 + i % 70 < 1960 || i % 7 == 3 || i % 11 == 3).count() as u64
}

#[test]
fn an_upsert_inserts_first_and_updates_afterwards() {
    let (_dir, db) = open();
    let counters = db.collection("app.counters").unwrap();
    for turn in 0..3 {
        let request =
            UpdateRequest::one(rawdoc! { "name": "visits" }, rawdoc! { "$inc": { "n": 1 } }).upsert();
        let outcome = counters.update(request).unwrap();
        assert_eq!(outcome.upserted.is_some(), turn == 0);
        assert_eq!(outcome.matched, u64::from(turn > 0));
    }
    assert_eq!(counters.find_one(rawdoc! {}).unwrap().unwrap().get_i32("n").unwrap(), 3);
}

#[test]
fn a_cursor_reads_the_snapshot_from_when_it_was_opened() {
    let (_dir, db) = open();
    let films = films(&db, 1000);
    let mut cursor = films.find(FindRequest::default()).unwrap();
    assert!(cursor.next().is_some());
    films.delete(DeleteRequest::many(rawdoc! {})).unwrap();
    db.drop_collection("cinema.films").unwrap();
    let rest = std::thread::spawn(move || cursor.count()).join().unwrap();
    assert_eq!(rest, 999);
    assert_eq!(films.count(FindRequest::default()).unwrap(), 0);
}

#[test]
fn collections_and_databases_are_listed_and_dropped() {
    let (_dir, db) = open();
    for name in ["b.x", "a.y", "a.x", "ab.x"] {
        db.create_collection(name, doc! {}).unwrap();
    }
    assert_eq!(db.create_collection("a.x", doc! {}).err().unwrap().code, ErrorCode::NamespaceExists);
    let names: Vec<String> =
        db.list_collections("a").unwrap().iter().map(|info| info.namespace.to_string()).collect();
    assert_eq!(names, ["a.x", "a.y"]);
    assert_eq!(db.list_databases().unwrap(), ["a", "ab", "b"]);
    assert_eq!(db.drop_database("a").unwrap(), 2);
    assert!(!db.drop_collection("a.x").unwrap());
    assert_eq!(db.list_databases().unwrap(), ["ab", "b"]);
    db.check().unwrap();
}

#[test]
fn ids_are_generated_moved_to_the_front_and_checked() {
    let (_dir, db) = open();
    let things = db.collection("a.things").unwrap();
    assert!(matches!(things.insert_one(rawdoc! { "a": 1 }).unwrap(), Bson::ObjectId(_)));
    assert_eq!(things.insert_one(rawdoc! { "a": 1, "_id": "x" }).unwrap(), Bson::String("x".into()));
    let found = things.find_one(rawdoc! { "_id": "x" }).unwrap().unwrap();
    assert_eq!(Document::try_from(&*found).unwrap().keys().collect::<Vec<_>>(), ["_id", "a"]);
    assert_eq!(things.insert_one(rawdoc! { "_id": [1] }).unwrap_err().code, ErrorCode::InvalidIdField);
    let large = rawdoc! { "_id": 1, "a": "x".repeat(16 << 20) };
    assert_eq!(things.insert_one(large).unwrap_err().code, ErrorCode::BSONObjectTooLarge);
    let fits = rawdoc! { "_id": 2, "a": "x".repeat((16 << 20) - 64) };
    things.insert_one(&fits).unwrap();
    assert_eq!(things.find_one(rawdoc! { "_id": 2 }).unwrap().unwrap(), fits);
}

#[test]
fn long_in_lists_are_looked_up_in_the_index_in_one_pass() {
    let (_dir, db) = open();
    let numbers = db.collection("test.numbers").unwrap();
    let documents: Vec<_> = (0..5000).map(|n| rawdoc! { "_id": n }).collect();
    numbers.insert_many(&documents, true).unwrap();
    let among = |numbers: std::ops::Range<i32>| doc! { "_id": { "$in": numbers.collect::<Vec<_>>() } };
    let found = |filter: Document| {
        let request = FindRequest::filter(RawDocumentBuf::try_from(&filter).unwrap());
        let (_, work) = numbers.explain(request).unwrap().unwrap();
        (work.returned, work.docs_examined)
    };
    assert_eq!(found(among(4000..5400)), (1000, 1000));
    assert_eq!(found(doc! { "$and": [among(0..60_000), among(4990..70_000)] }), (10, 10));
    // With too many values for lookups, the range that contains them is scanned.
    assert_eq!(found(among(-200_000..-1)), (0, 0));
    assert_eq!(found(among(1000..200_000)), (4000, 4000));
}

#[test]
fn a_find_by_id_equals_other_finds() {
    let (_dir, db) = open();
    let things = db.collection("test.things").unwrap();
    let ids = [
        Bson::Int32(1),
        Bson::Double(2.5),
        Bson::String("a".into()),
        Bson::String("x".repeat(900)),
        Bson::Boolean(true),
        Bson::DateTime(treedb_collections::bson::DateTime::from_millis(5)),
        Bson::ObjectId(treedb_collections::bson::oid::ObjectId::from_bytes([7; 12])),
        Bson::Document(doc! { "a": 1 }),
        Bson::Null,
    ];
    for id in &ids {
        things.insert_one(RawDocumentBuf::try_from(&doc! { "_id": id, "n": 1, "m": 2 }).unwrap()).unwrap();
    }
    let strangers = [
        Bson::Int64(1),
        Bson::Double(1.0),
        Bson::Int32(3),
        Bson::Boolean(false),
        Bson::String("y".repeat(5000)),
        Bson::Double(f64::NAN),
        Bson::Array(vec![Bson::Int32(1)]),
        Bson::MinKey,
        Bson::Document(doc! { "$gt": 1 }),
        Bson::Document(doc! { "$in": [1, "a", 2.5] }),
    ];
    for id in ids.iter().chain(&strangers) {
        let by_id = FindRequest::filter(RawDocumentBuf::try_from(&doc! { "_id": id }).unwrap());
        // The same query in a form that is not answered by a lookup by `_id`.
        let other = FindRequest::filter(RawDocumentBuf::try_from(&doc! { "$or": [{ "_id": id }] }).unwrap());
        for projection in [None, Some(rawdoc! { "m": 1 }), Some(rawdoc! { "_id": 0 })] {
            let ask = |request: &FindRequest| -> Vec<RawDocumentBuf> {
                let request = FindRequest { projection: projection.clone(), ..request.clone() };
                things.find(request).unwrap().map(Result::unwrap).collect()
            };
            assert_eq!(ask(&by_id), ask(&other), "{id} {projection:?}");
        }
        assert!(things.explain(by_id).unwrap().unwrap().1.docs_examined <= 3, "{id}");
    }
    let bad = FindRequest::filter(rawdoc! { "_id": 1 }).projection(rawdoc! { "a": 1, "b": 0 });
    assert!(things.find(bad).is_err());
    assert!(db.collection("test.none").unwrap().find_one(rawdoc! { "_id": 1 }).unwrap().is_none());
}
