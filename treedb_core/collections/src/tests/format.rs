//! Row formats: what is stored and what is returned.

use bson::{Bson, doc, rawdoc};
use treedb_testing::{Rng, random_document};

use super::*;
use crate::{Collection, Format, IndexSpec, UpdateRequest};
use treedb_query::error::ErrorCode;
use treedb_storage::{Reads, Store, TableKind};

/// The documents in the order of their ids.
fn all(collection: &Collection) -> Vec<RawDocumentBuf> {
    let request = FindRequest::default().sort(rawdoc! { "_id": 1 });
    collection.find(request).unwrap().collect::<Result<_>>().unwrap()
}

/// The stored rows of the only collection.
fn rows(db: &Database) -> Vec<Vec<u8>> {
    let reads = db.store().begin_read().unwrap();
    let table = reads.table("rows/1").unwrap().unwrap();
    reads.rows(&table, 0).unwrap().map(|row| row.unwrap().1.to_vec()).collect()
}

#[test]
fn every_format_returns_documents_byte_for_byte_after_any_change() {
    for format in [Format::Template, Format::Bson, Format::Json] {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(17));
        let mut db = open(&disk).unwrap();
        db.create_collection("t.c", format.options()).unwrap();
        let mut expected: BTreeMap<i32, RawDocumentBuf> = BTreeMap::new();
        for id in 0..200 {
            let mut doc = rawdoc! { "_id": id };
            for field in random_document(&mut rng, 4).iter() {
                let (name, value) = field.unwrap();
                doc.append(name, value);
            }
            let collection = db.collection("t.c").unwrap();
            collection.insert_one(&doc).unwrap();
            expected.insert(id, doc);
            if id % 3 == 0 {
                let changed = id / 2;
                let new = rawdoc! { "_id": changed, "new": { "at": id, "x": null }, "list": [{ "n": 1 }, { "n": "2" }] };
                let request = UpdateRequest::one(rawdoc! { "_id": changed }, new.clone());
                assert_eq!(collection.update(request).unwrap().modified, 1);
                expected.insert(changed, new);
            }
            let found = collection.find_one(rawdoc! { "_id": id / 3 }).unwrap();
            assert_eq!(found.as_ref(), expected.get(&(id / 3)));
            if id % 50 == 49 {
                assert!(all(&collection).iter().eq(expected.values()), "{format:?}");
                db.check().unwrap();
                drop(collection);
                db.close().unwrap();
                db = open(&disk).unwrap();
            }
        }
        let collection = db.collection("t.c").unwrap();
        collection.create_index(IndexSpec::new(rawdoc! { "new.at": 1 })).unwrap();
        assert!(collection.find_one(rawdoc! { "new.at": 99 }).unwrap().is_some());
        assert!(all(&collection).iter().eq(expected.values()), "{format:?}");
        db.check().unwrap();
    }
}

#[test]
fn rows_of_a_collection_have_the_format_it_was_created_with() {
    let doc = rawdoc! { "_id": 1, "name_of_a_field": "text", "number": 1, "on": true };
    for (options, plain) in [
        (Document::new(), false),
        (Format::Template.options(), false),
        (Format::Bson.options(), true),
        (doc! { "storageEngine": { "other": { "format": 1 } } }, false),
    ] {
        let db = open(&SimDisk::new()).unwrap();
        db.create_collection("t.c", options).unwrap().insert_one(&doc).unwrap();
        let row = rows(&db).remove(0);
        assert_eq!(row == doc.as_bytes(), plain);
        assert!(plain || row.len() < 12, "{row:?}");
    }
    for (format, code) in
        [(Bson::from("xml"), ErrorCode::InvalidOptions), (Bson::Int32(1), ErrorCode::TypeMismatch)]
    {
        let options = doc! { "storageEngine": { "treedb": { "format": format } } };
        let db = open(&SimDisk::new()).unwrap();
        assert_eq!(db.create_collection("t.c", options).err().unwrap().code, code);
        assert!(db.collection("t.c").unwrap().indexes().unwrap().is_none());
    }
}

#[test]
fn collections_without_a_format_are_read_and_written_as_plain_bson() {
    let disk = SimDisk::new();
    let doc = rawdoc! { "_id": 1, "a": [1, 2.5] };
    {
        let store = Store::open_with("/data/documents", options(&disk)).unwrap();
        let mut txn = store.begin_write().unwrap();
        let catalog = txn.create_table("catalog", TableKind::Ordered).unwrap();
        let table = txn.create_table("rows/1", TableKind::Rows).unwrap();
        let index = txn.create_table("index/1/0", TableKind::Ordered).unwrap();
        txn.put(&catalog, b"", &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let entry = doc! {
            "v": 1, "id": 1_i64, "uuid": bson::Uuid::new(), "format": 0, "options": {}, "next_index": 1_i64,
            "indexes": [{ "id": 0_i64, "name": "_id_", "key": { "_id": 1 }, "unique": true, "multikey": false }],
        };
        txn.put(&catalog, b"t.c", &entry.to_vec().unwrap()).unwrap();
        let row = txn.append_row(&table, doc.as_bytes()).unwrap();
        let mut key = Vec::new();
        treedb_query::doc::key::encode_value(treedb_query::doc::Value::Int32(1), &mut key);
        txn.put(&index, &key, &row.to_be_bytes()).unwrap();
        txn.commit().unwrap();
        store.close().unwrap();
    }
    let db = open(&disk).unwrap();
    db.check().unwrap();
    let collection = db.collection("t.c").unwrap();
    assert_eq!(collection.find_one(rawdoc! { "_id": 1 }).unwrap(), Some(doc.clone()));
    let other = rawdoc! { "_id": 2, "a": "b" };
    collection.insert_one(&other).unwrap();
    assert_eq!(rows(&db), [doc.as_bytes(), other.as_bytes()]);
}

#[test]
fn shapes_of_a_failed_request_are_rolled_back() {
    let db = open(&SimDisk::new()).unwrap();
    let collection = db.collection("t.c").unwrap();
    for id in 0..3 {
        let v = if id < 2 { Bson::Int32(id) } else { Bson::from("not a number") };
        collection.insert_one(raw(&doc! { "_id": id, "v": v })).unwrap();
    }
    let update = raw(&doc! { "$set": { "before": 1 }, "$inc": { "v": 1 } });
    assert!(collection.update(UpdateRequest::many(rawdoc! {}, update)).is_err());
    // Its shape gets the number of the one that was rolled back.
    let doc = rawdoc! { "_id": 3, "v": 4, "after": true };
    collection.insert_one(&doc).unwrap();
    let mut expected: Vec<_> = (0..2).map(|id| rawdoc! { "_id": id, "v": id }).collect();
    expected.extend([rawdoc! { "_id": 2, "v": "not a number" }, doc]);
    assert_eq!(all(&collection), expected);
    db.check().unwrap();
}

#[test]
fn a_cursor_reads_with_the_shapes_of_its_snapshot_while_writers_add_more() {
    let db = open(&SimDisk::new()).unwrap();
    let collection = db.collection("t.c").unwrap();
    collection
        .insert_many(&(0..500).map(|id| rawdoc! { "_id": id, "a": id }).collect::<Vec<_>>(), true)
        .unwrap();
    let mut cursor = collection.find(FindRequest::default()).unwrap();
    assert!(cursor.has_next().unwrap());
    for id in 500..520 {
        let mut doc = doc! { "_id": id };
        doc.insert(format!("f{id}"), true);
        collection.insert_one(raw(&doc)).unwrap();
    }
    let found: Vec<_> = cursor.collect::<Result<_>>().unwrap();
    assert!(found.iter().enumerate().all(|(n, doc)| *doc == rawdoc! { "_id": n as i32, "a": n as i32 }));
    assert_eq!((found.len(), all(&collection).len()), (500, 520));
}

#[test]
fn a_damaged_row_is_an_error_that_names_the_collection() {
    let db = open(&SimDisk::new()).unwrap();
    let collection = db.collection("t.c").unwrap();
    collection.insert_one(rawdoc! { "_id": 1, "a": "text" }).unwrap();
    let mut txn = db.store().begin_write().unwrap();
    let table = txn.table("rows/1").unwrap().unwrap();
    txn.put_row(&table, 1, &[1, 2, 200, 1]).unwrap();
    txn.commit().unwrap();
    for error in [
        collection.find_one(rawdoc! { "_id": 1 }).unwrap_err(),
        collection.find_one(rawdoc! { "a": "text" }).unwrap_err(),
        db.check().unwrap_err(),
    ] {
        assert!(
            error.code == ErrorCode::InternalError && error.message.starts_with("t.c: a row is damaged"),
            "{error}"
        );
    }
}

#[test]
fn json_text_is_returned_unchanged() {
    let db = open(&SimDisk::new()).unwrap();
    let collection = db.create_collection("t.c", Format::Json.options()).unwrap();
    let given = [
        "{ \"_id\" : 1,\t\"n\": 1.50, \"s\": \"\\u0041\" }",
        r#"{"b": {"$numberLong": "7"}, "_id": 2 , "n": 3}"#,
        "\n{\"_id\":3,\"n\":2,\"d\":{\"$date\":\"2020-01-01T00:00:00Z\"}}\n",
    ];
    for (at, text) in given.iter().enumerate() {
        assert_eq!(collection.insert_json(text).unwrap(), Bson::Int32(at as i32 + 1));
    }
    let texts = |request| collection.find_json(request).unwrap().collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(texts(FindRequest::default()), given);
    collection.create_index(IndexSpec::new(rawdoc! { "n": 1 })).unwrap();
    let big = FindRequest::filter(rawdoc! { "n": { "$gt": 1.75 } });
    assert_eq!(texts(big.clone().sort(rawdoc! { "n": -1 })), [given[1], given[2]]);
    assert_eq!(texts(big.projection(rawdoc! { "n": 1 })), [r#"{"_id":3,"n":2}"#, r#"{"_id":2,"n":3}"#]);
    assert_eq!(texts(FindRequest::filter(rawdoc! { "_id": 1 })), [given[0]]);
    let found = collection.find_one(rawdoc! { "_id": 2 }).unwrap();
    assert_eq!(found, Some(rawdoc! { "_id": 2, "b": 7_i64, "n": 3 }));

    // The text of a changed document is generated.
    let update = rawdoc! { "$set": { "n": 4_i64 } };
    collection.update(UpdateRequest::one(rawdoc! { "_id": 1 }, update)).unwrap();
    assert_eq!(
        collection.find_one(rawdoc! { "n": 4 }).unwrap(),
        Some(rawdoc! { "_id": 1, "n": 4_i64, "s": "A" })
    );

    // A missing `_id` is inserted at the front; invalid text is refused.
    let id = collection.insert_json(" { } ").unwrap().as_object_id().unwrap();
    let made = FindRequest::filter(rawdoc! { "_id": id });
    assert_eq!(texts(made), [format!(" {{\"_id\":{{\"$oid\":\"{id}\"}} }} ")]);
    assert_eq!(collection.insert_json(given[0]).unwrap_err().code, ErrorCode::DuplicateKey);
    assert_eq!(collection.insert_json("{\"a\": }").unwrap_err().code, ErrorCode::FailedToParse);
    db.check().unwrap();

    // In a collection of another format the text is parsed and generated.
    let other = db.collection("t.other").unwrap();
    other.insert_json(given[0]).unwrap();
    let texts: Vec<_> = other.find_json(FindRequest::default()).unwrap().collect::<Result<_>>().unwrap();
    assert_eq!(texts, [r#"{"_id":1,"n":1.5,"s":"A"}"#]);
}

#[test]
fn a_document_without_an_exact_json_text_is_stored_as_bson() {
    let db = open(&SimDisk::new()).unwrap();
    let collection = db.create_collection("t.c", Format::Json.options()).unwrap();
    let mut twice = rawdoc! { "_id": 1, "a": 1 };
    twice.append(bson::raw::cstr!("a"), 2);
    let docs = [twice, rawdoc! { "_id": 2, "a": { "$oid": "not one" }, "long": 1_i64, "double": 1.0 }];
    collection.insert_many(&docs, true).unwrap();
    assert_eq!(all(&collection), docs);
    db.check().unwrap();
}

#[test]
fn a_collection_of_an_earlier_version_goes_on_having_whole_doubles() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let vector: bson::RawArrayBuf = (0..100).map(|n| f64::from(n) / 4.0).collect();
    db.collection("t.c").unwrap().insert_one(&rawdoc! { "_id": 0, "v": vector.clone() }).unwrap();
    assert!(rows(&db)[0].len() < 500);
    db.close().unwrap();
    // As it was written before there were other rows.
    let store = Store::open_with("/data/documents", options(&disk)).unwrap();
    let mut txn = store.begin_write().unwrap();
    let catalog = txn.table("catalog").unwrap().unwrap();
    let mut entry = bson::Document::from_reader(txn.get(&catalog, b"t.c").unwrap().unwrap()).unwrap();
    assert_eq!(entry.insert("format", 1), Some(Bson::Int32(3)));
    txn.put(&catalog, b"t.c", &entry.to_vec().unwrap()).unwrap();
    txn.commit().unwrap();
    store.close().unwrap();
    let db = open(&disk).unwrap();
    let collection = db.collection("t.c").unwrap();
    collection.insert_one(&rawdoc! { "_id": 1, "v": vector.clone() }).unwrap();
    assert!(rows(&db)[1].len() > 800);
    assert_eq!(all(&collection), [0, 1].map(|id| rawdoc! { "_id": id, "v": vector.clone() }));
}
