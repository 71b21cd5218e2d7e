//! Indexes that are built anew on request.

use bson::{Bson, doc, rawdoc};
use treedb_query::error::ErrorCode;
use treedb_storage::disk::crash::Crash;

use super::*;
use crate::maintenance::index_rebuild::begin_on_request;
use crate::{Collection, FindRequest, IndexSpec, Namespace};

/// A collection with indexes of several kinds.
fn films(disk: &SimDisk) -> (Database, Collection) {
    let db = open(disk).unwrap();
    let films = db.collection("shop.films").unwrap();
    let film =
        |id: i32| raw(&doc! { "_id": id, "year": id % 7, "tags": [id % 3, id % 5], "serial": 1000 - id });
    films.insert_many(&(0..300).map(film).collect::<Vec<_>>(), true).unwrap();
    films.create_index(IndexSpec::new(rawdoc! { "year": 1 })).unwrap();
    films.create_index(IndexSpec::new(rawdoc! { "tags": 1, "year": -1 })).unwrap();
    films.create_index(IndexSpec::new(rawdoc! { "serial": 1 }).unique()).unwrap();
    (db, films)
}

fn ids(films: &Collection, filter: Document, hint: &str) -> Vec<i32> {
    let find = FindRequest { hint: Some(hint.into()), ..FindRequest::filter(raw(&filter)) };
    let found = films.find(find).unwrap().map(|film| film.unwrap().get_i32("_id").unwrap());
    let mut ids: Vec<i32> = found.collect();
    ids.sort_unstable();
    ids
}

fn number(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

/// Empties the table of an index, as damage could.
fn empty(db: &Database, films: &Collection, name: &str) {
    let reads = db.store().begin_read().unwrap();
    let meta = db.inner.catalog.find(&reads, films.namespace()).unwrap().unwrap();
    drop(reads);
    let index = meta.indexes.iter().find(|index| index.def.name() == name).unwrap();
    let mut txn = db.store().begin_write().unwrap();
    assert!(txn.clear(&index.table).unwrap() > 0);
    txn.commit().unwrap();
}

#[test]
fn an_index_that_has_lost_its_entries_has_them_again() {
    let (db, films) = films(&SimDisk::new());
    let before = films.indexes().unwrap();
    let expected: Vec<i32> = (0..300).filter(|id| id % 7 == 3).collect();
    for damaged in ["year_1", "serial_1", "_id_"] {
        empty(&db, &films, damaged);
        assert!(films.check().is_err(), "{damaged}");
        assert_eq!(films.rebuild_indexes().unwrap(), 4);
        films.check().unwrap();
    }
    assert_eq!(ids(&films, doc! { "year": 3 }, "year_1"), expected);
    assert_eq!(films.indexes().unwrap(), before);
    db.check().unwrap();
    assert!(films.insert_one(rawdoc! { "_id": 301, "serial": 1000 }).is_err());
    assert_eq!(
        db.collection("shop.nothing").unwrap().rebuild_indexes().unwrap_err().code,
        ErrorCode::NamespaceNotFound
    );
}

#[test]
fn documents_that_contradict_a_unique_index_leave_it_as_it_was() {
    let (db, films) = films(&SimDisk::new());
    empty(&db, &films, "serial_1");
    films.insert_one(rawdoc! { "_id": 400, "serial": 1000 }).unwrap();
    assert_eq!(films.rebuild_indexes().unwrap_err().code, ErrorCode::DuplicateKey);
    assert_eq!(films.indexes().unwrap().unwrap().len(), 4);
    assert!(db.index_builds().is_empty());
    films.delete(crate::DeleteRequest::one(rawdoc! { "_id": 400 })).unwrap();
    assert_eq!(films.rebuild_indexes().unwrap(), 4);
    db.check().unwrap();
}

#[test]
fn options_that_are_changed_while_an_index_is_built_anew_are_kept() {
    let disk = SimDisk::new();
    let (db, films) = films(&disk);
    films.create_index(IndexSpec::new(rawdoc! { "at": 1 }).expire_after(60)).unwrap();
    let namespace = Namespace::parse("shop.films").unwrap();
    let begin = |name: &str| {
        let reads = db.store().begin_read().unwrap();
        let meta = db.inner.catalog.find(&reads, films.namespace()).unwrap().unwrap();
        drop(reads);
        let id = meta.indexes.iter().find(|index| index.def.name() == name).unwrap().id;
        assert!(
            db.edit(&namespace, false, None, |edit| begin_on_request(edit, id)).unwrap().flatten().is_some()
        );
    };
    begin("at_1");
    db.modify_index("shop.films", "at_1", Some(true), Some(10_000_000)).unwrap();
    let after = disk.crash(Crash::Everything);
    drop((films, db));
    // The build goes on.
    let db = open(&after).unwrap();
    let indexes = db.collection("shop.films").unwrap().indexes().unwrap().unwrap();
    let at: Vec<_> = indexes.iter().filter(|index| index.get_str("name").unwrap() == "at_1").collect();
    assert_eq!(at.len(), 1);
    assert!(at[0].get_bool("hidden").unwrap());
    assert_eq!(at[0].get("expireAfterSeconds").and_then(number), Some(10_000_000));
    db.check().unwrap();
}

#[test]
fn a_crash_while_an_index_is_built_anew_leaves_one_index_of_the_name() {
    let disk = SimDisk::new();
    let (db, films) = films(&disk);
    let reads = db.store().begin_read().unwrap();
    let meta = db.inner.catalog.find(&reads, films.namespace()).unwrap().unwrap();
    drop(reads);
    let namespace = Namespace::parse("shop.films").unwrap();
    let year = meta.indexes.iter().find(|index| index.def.name() == "year_1").unwrap().id;
    let begun = db.edit(&namespace, false, None, |edit| begin_on_request(edit, year)).unwrap();
    assert!(begun.flatten().is_some());
    // Another one has to wait until this one is done.
    let busy = films.rebuild_indexes().unwrap_err().code;
    assert_eq!(busy, ErrorCode::BackgroundOperationInProgressForNamespace);
    films.insert_one(rawdoc! { "_id": 500, "year": 3, "serial": 2000 }).unwrap();
    let after = disk.crash(Crash::Everything);
    drop((films, db));
    let db = open(&after).unwrap();
    let films = db.collection("shop.films").unwrap();
    let names: Vec<_> = films.indexes().unwrap().unwrap();
    assert_eq!(names.len(), 4);
    let expected: Vec<i32> = (0..300).filter(|id| id % 7 == 3).chain([500]).collect();
    assert_eq!(ids(&films, doc! { "year": 3 }, "year_1"), expected);
    let reads = db.store().begin_read().unwrap();
    let meta = db.inner.catalog.find(&reads, films.namespace()).unwrap().unwrap();
    assert_eq!(meta.indexes.iter().filter(|index| index.def.name() == "year_1").count(), 1);
    assert!(meta.indexes.iter().all(|index| index.id != year));
    db.check().unwrap();
}
