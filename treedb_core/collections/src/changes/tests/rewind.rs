//! Rewinding a database, against copies of what it was.

use std::collections::BTreeMap;

use bson::{DateTime, Document, doc, rawdoc};
use treedb_testing::{Rng, seeds};

use super::model::step;
use super::*;
use crate::tests::{open, raw};
use crate::{AsOf, ChangeLogOptions, FindRequest, IndexSpec, UpdateRequest};
use treedb_query::error::ErrorCode;
use treedb_storage::disk::SimDisk;

/// Documents sorted by their bytes, and names of indexes, of every collection.
type State = BTreeMap<String, (Vec<Vec<u8>>, Vec<String>)>;

fn state(db: &Database) -> State {
    let mut state = State::new();
    for info in ["a", "b"].iter().flat_map(|database| db.list_collections(database).unwrap()) {
        let name = info.namespace.as_str().to_owned();
        let found = db.collection(&name).unwrap().find(FindRequest::default()).unwrap();
        let mut documents: Vec<_> = found.map(|document| document.unwrap().into_bytes()).collect();
        documents.sort();
        let mut indexes = indexes(db, &name);
        indexes.sort();
        state.insert(name, (documents, indexes));
    }
    state
}

fn indexes(db: &Database, name: &str) -> Vec<String> {
    let reads = db.inner.store.begin_read().unwrap();
    let namespace = crate::Namespace::parse(name).unwrap();
    let meta = db.inner.catalog.find(&reads, &namespace).unwrap().unwrap();
    meta.indexes.iter().map(|index| index.def.name().to_owned()).collect()
}

fn last(db: &Database) -> u64 {
    db.change_log().unwrap().unwrap().next - 1
}

#[test]
fn a_rewound_database_is_what_it_was_and_can_be_rewound_again() {
    for seed in seeds(20..24) {
        let mut rng = Rng::new(seed);
        let db = open(&SimDisk::new()).unwrap();
        db.record_changes(Some(ChangeLogOptions::default())).unwrap();
        let (mut next, mut moments) = (0, Vec::new());
        for at in 0..120 {
            step(&db, &mut rng, &mut next);
            if rng.below(12) == 0 {
                let names = ["a.x", "a.y", "b.x", "b.z"];
                let (from, to) = (*rng.pick(&names), *rng.pick(&names));
                let _ = db.rename_collection(from, to, rng.below(3) == 0);
            }
            if rng.below(12) == 0 {
                let name = *rng.pick(&["a.x", "b.z"]);
                let _ = db.collection(name).unwrap().drop_index("u_1");
            }
            if at % 20 == 19 {
                moments.push((last(&db), state(&db)));
            }
        }
        // In any order: a rewind is recorded, and can be undone.
        for _ in 0..6 {
            let (change, expected) = rng.pick(&moments);
            let mut seen = (0, 0);
            let done = db.rewind(AsOf::Change(*change), &mut |at, of| seen = (at, of)).unwrap();
            let notes = &done.notes;
            assert!(notes.is_empty(), "{notes:?}");
            let found = state(&db);
            assert!(found.keys().eq(expected.keys()), "seed {seed}, change {change}: {:?}", found.keys());
            for (name, (documents, indexes)) in expected {
                let (found, found_indexes) = &found[name];
                assert_eq!(found_indexes, indexes, "seed {seed}, change {change}, {name}");
                assert!(found == documents, "seed {seed}, change {change}: documents of {name}");
            }
            assert_eq!((done.change, done.documents), (*change, seen.0));
            assert!(seen.0 <= seen.1);
            db.check().unwrap();
        }
    }
}

/// The specifications of the indexes of a collection.
fn specs(db: &Database, name: &str) -> Vec<Document> {
    let reads = db.inner.store.begin_read().unwrap();
    let meta = db.inner.catalog.find(&reads, &crate::Namespace::parse(name).unwrap()).unwrap().unwrap();
    let mut specs: Vec<_> =
        meta.indexes.iter().map(|index| Document::try_from(index.def.spec()).unwrap()).collect();
    specs.sort_by_key(|spec| spec.get_str("name").unwrap().to_owned());
    specs
}

#[test]
fn indexes_come_back_as_they_were_with_or_without_their_collection() {
    for drops in [false, true] {
        let db = open(&SimDisk::new()).unwrap();
        db.record_changes(Some(ChangeLogOptions::default())).unwrap();
        let folded = doc! { "collation": { "locale": "en", "strength": 2 } };
        let people = db.create_collection("a.people", folded).unwrap();
        for id in 0..4 {
            people
                .insert_one(raw(
                    &doc! { "_id": id, "n": 1, "u": if id % 2 == 0 { "a" } else { "A" }, "v": id },
                ))
                .unwrap();
        }
        people.create_index(IndexSpec::new(raw(&doc! { "n": 1 })).name("x")).unwrap();
        people.create_index(IndexSpec::new(raw(&doc! { "at": 1 })).expire_after(60)).unwrap();
        db.modify_index("a.people", "at_1", None, Some(3_000)).unwrap();
        let simple = raw(&doc! { "locale": "simple" });
        let exact = IndexSpec::new(raw(&doc! { "v": 1, "u": 1 })).name("exact").collation(simple).unique();
        people.create_index(exact).unwrap();
        let (change, before, were) = (last(&db), state(&db), specs(&db, "a.people"));
        people.drop_index("exact").unwrap();
        people.drop_index("x").unwrap();
        people.delete(crate::DeleteRequest::many(raw(&doc! { "_id": { "$gt": 0 } }))).unwrap();
        // The name of an index that the documents of then could not have.
        people.create_index(IndexSpec::new(raw(&doc! { "n": 1 })).name("x").unique()).unwrap();
        if drops {
            db.drop_collection("a.people").unwrap();
        }
        let done = db.rewind(AsOf::Change(change), &mut |_, _| {}).unwrap();
        assert!(done.notes.is_empty(), "{:?}", done.notes);
        assert!(state(&db) == before);
        assert_eq!(specs(&db, "a.people"), were);
    }
}

#[test]
fn search_indexes_come_back_as_they_were_with_or_without_their_collection() {
    let db = open(&SimDisk::new()).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let definition = |paths: &[&str]| {
        let field = |path: &&str| doc! { "type": "vector", "path": *path, "numDimensions": 2, "similarity": "cosine" };
        doc! { "fields": paths.iter().map(field).collect::<Vec<_>>() }
    };
    let spec = |name: &str, paths: &[&str]| {
        raw(&doc! { "name": name, "type": "vectorSearch", "definition": definition(paths) })
    };
    let listed = |db: &Database| -> BTreeMap<(String, String), Vec<u8>> {
        let all = db.list_collections("a").unwrap().into_iter().flat_map(|info| {
            let collection = db.collection(info.namespace.as_str()).unwrap();
            let name = info.namespace.as_str().to_owned();
            let indexes = collection.search_indexes().unwrap().unwrap();
            assert!(indexes.iter().all(|index| index.ready));
            indexes.into_iter().map(move |index| ((name.clone(), index.name), index.spec.into_bytes()))
        });
        all.collect()
    };
    let (x, y) = (db.collection("a.x").unwrap(), db.collection("a.y").unwrap());
    let mut moments = Vec::new();
    let mut mark = |db: &Database| moments.push((last(db), listed(db)));
    for collection in [&x, &y] {
        let documents: Vec<_> =
            (0..30).map(|id| raw(&doc! { "_id": id, "v": [id, 1], "w": [1, id] })).collect();
        collection.insert_many(&documents, true).unwrap();
        mark(&db);
        collection.create_search_indexes(&[spec("one", &["v"]), spec("two", &["v", "w"])]).unwrap();
        mark(&db);
        collection.update_search_index("one", &raw(&definition(&["w"]))).unwrap();
        collection.update_search_index("two", &raw(&definition(&["w"]))).unwrap();
        mark(&db);
        collection.drop_search_index("two").unwrap();
        mark(&db);
    }
    db.rename_collection("a.x", "a.z", false).unwrap();
    db.drop_collection("a.y").unwrap();
    mark(&db);
    assert_eq!(
        moments.iter().map(|(_, listed)| listed.len()).collect::<Vec<_>>(),
        [0, 2, 2, 1, 1, 3, 3, 2, 1]
    );
    for at in [6, 2, 8, 0, 5, 3, 7, 1] {
        let (change, expected) = &moments[at];
        let done = db.rewind(AsOf::Change(*change), &mut |_, _| {}).unwrap();
        assert_eq!(listed(&db), *expected, "{at}: {:?}", done.notes);
        assert!(done.notes.is_empty(), "{:?}", done.notes);
        db.check().unwrap();
    }
}

#[test]
fn a_collection_that_was_made_capped_or_dropped_as_a_time_series_comes_back_with_all_its_documents() {
    let db = open(&SimDisk::new()).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let things = db.collection("a.things").unwrap();
    let docs: Vec<_> = (0..50).map(|id| raw(&doc! { "_id": id, "text": "x".repeat(200) })).collect();
    things.insert_many(&docs, true).unwrap();
    let series = doc! { "timeseries": { "timeField": "t", "granularity": "minutes" } };
    let measured = db.create_collection("a.measured", series).unwrap();
    measured.insert_one(raw(&doc! { "t": DateTime::from_millis(5), "n": 1 })).unwrap();
    let (change, before) = (last(&db), state(&db));
    db.convert_to_capped("a.things", 4096, None).unwrap();
    assert!(things.len().unwrap() < 20);
    db.drop_collection("a.measured").unwrap();
    let done = db.rewind(AsOf::Change(change), &mut |_, _| {}).unwrap();
    assert_eq!(done.notes, ["limits of the capped collection a.things were changed since: it has none now"]);
    assert!(state(&db) == before);
}

#[test]
fn a_rewind_that_was_interrupted_between_two_names_can_be_repeated() {
    let db = open(&SimDisk::new()).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    for name in ["a.x", "a.y"] {
        db.collection(name).unwrap().insert_one(raw(&doc! { "_id": name })).unwrap();
    }
    let (change, before) = (last(&db), state(&db));
    for (from, to) in [("a.x", "a.z"), ("a.y", "a.x"), ("a.z", "a.y")] {
        db.rename_collection(from, to, false).unwrap();
    }
    let reads = db.inner.store.begin_read().unwrap();
    let id = db.inner.catalog.find(&reads, &crate::Namespace::parse("a.y").unwrap()).unwrap().unwrap().id;
    db.rename_collection("a.y", &format!("a.treedb_rewind_{id}"), false).unwrap();
    db.rewind(AsOf::Change(change), &mut |_, _| {}).unwrap();
    assert!(state(&db) == before);
}

#[test]
fn what_a_rewind_needs_is_not_removed_by_its_own_commits() {
    let db = open(&SimDisk::new()).unwrap();
    let clock = &db.inner.changes;
    clock.set_now(1_000);
    db.record_changes(Some(ChangeLogOptions {
        keep: std::time::Duration::from_secs(10),
        ..ChangeLogOptions::default()
    }))
    .unwrap();
    let things = db.collection("a.things").unwrap();
    let docs: Vec<_> = (0..3_000).map(|id| raw(&doc! { "_id": id, "n": 0 })).collect();
    things.insert_many(&docs, true).unwrap();
    let (change, before) = (last(&db), state(&db));
    things.update(UpdateRequest::many(raw(&doc! {}), raw(&doc! { "$set": { "n": 1 } }))).unwrap();
    db.drop_collection("a.things").unwrap();
    // Nobody has written since, so it is all there.
    clock.set_now(100_000);
    db.rewind(AsOf::Change(change), &mut |_, _| {}).unwrap();
    assert!(state(&db) == before);
    let log = db.change_log().unwrap().unwrap();
    assert!(log.first <= change, "{log:?}");
    db.trim_changes().unwrap();
    assert!(db.change_log().unwrap().unwrap().first > change);
}

#[test]
fn a_rewind_by_time_leaves_alone_what_has_not_changed() {
    let db = open(&SimDisk::new()).unwrap();
    let clock = &db.inner.changes;
    clock.set_now(1_000);
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let things = db.collection("a.things").unwrap();
    let docs: Vec<_> = (0..50).map(|id| raw(&doc! { "_id": id, "n": 0 })).collect();
    things.insert_many(&docs, true).unwrap();
    let before = state(&db);
    clock.set_now(2_000);
    things.update(UpdateRequest::one(raw(&doc! { "_id": 7 }), raw(&doc! { "$set": { "n": 1 } }))).unwrap();
    db.collection("a.new").unwrap().insert_one(raw(&doc! { "_id": 1 })).unwrap();
    things.create_index(IndexSpec::new(raw(&doc! { "n": 1 })).unique()).unwrap_err();
    things.create_index(raw(&doc! { "n": 1 })).unwrap();
    let done = db.rewind(AsOf::Time(DateTime::from_millis(1_500)), &mut |_, _| {}).unwrap();
    assert_eq!((done.documents, done.collections, done.notes), (1, 2, vec![]));
    assert_eq!(state(&db), before);
}

#[test]
fn a_capped_collection_comes_back_in_its_order() {
    let db = open(&SimDisk::new()).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let options: Document = doc! { "capped": true, "size": 4096, "max": 5 };
    let log = db.create_collection("a.log", options).unwrap();
    let add = |range: std::ops::Range<i32>| {
        for id in range {
            log.insert_one(raw(&doc! { "_id": id })).unwrap();
        }
    };
    let ids = || -> Vec<i32> {
        let found = log.find(FindRequest::default()).unwrap();
        found.map(|document| document.unwrap().get_i32("_id").unwrap()).collect()
    };
    add(0..7);
    let change = last(&db);
    add(7..10);
    assert_eq!(ids(), [5, 6, 7, 8, 9]);
    db.rewind(AsOf::Change(change), &mut |_, _| {}).unwrap();
    assert_eq!(ids(), [2, 3, 4, 5, 6]);
    add(10..11);
    assert_eq!(ids(), [3, 4, 5, 6, 10]);
}

#[test]
fn what_cannot_be_undone_is_refused_before_anything_is_changed_or_told() {
    let db = open(&SimDisk::new()).unwrap();
    let things = db.collection("a.things").unwrap();
    things.insert_one(raw(&doc! { "_id": 1 })).unwrap();
    let rewind = |at| db.rewind(AsOf::Change(at), &mut |_, _| {});
    assert_eq!(rewind(0).unwrap_err().code, ErrorCode::IllegalOperation);
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    things.insert_one(raw(&doc! { "_id": 2 })).unwrap();
    let change = last(&db);
    assert_eq!(rewind(change + 1).unwrap_err().code, ErrorCode::BadValue);
    db.modify_collection("a.things", doc! { "validator": { "n": { "$exists": true } } }).unwrap();
    things.delete(crate::DeleteRequest::many(raw(&doc! {}))).unwrap();
    let done = rewind(change).unwrap();
    assert_eq!(done.notes, ["options of a.things were changed since, and stay as they are"]);
    // They are not what the validator asks for, but they were there.
    assert_eq!(things.len().unwrap(), 2);
    db.rename_collection("a.things", "a.others", false).unwrap();
    db.create_view("a.things", "others", vec![]).unwrap();
    let before = last(&db);
    let refused = rewind(change).unwrap_err();
    assert_eq!(refused.code, ErrorCode::NamespaceExists, "{refused}");
    assert_eq!(last(&db), before);
}

#[test]
fn a_rewind_deletes_large_documents_a_few_in_a_transaction() {
    use treedb_storage::Reads as _;
    let db = open(&SimDisk::new()).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let large = db.collection("a.large").unwrap();
    large.insert_one(&rawdoc! { "_id": -1 }).unwrap();
    let change = last(&db);
    for id in 0..40 {
        large.insert_one(&rawdoc! { "_id": id, "text": "x".repeat(1 << 20) }).unwrap();
    }
    let transactions = |db: &Database| db.inner.store.begin_read().unwrap().committed().unwrap();
    let before = transactions(&db);
    let done = db.rewind(AsOf::Change(change), &mut |_, _| {}).unwrap();
    assert_eq!(large.count(Default::default()).unwrap(), 1, "{done:?}");
    assert!(transactions(&db) - before >= 3, "40 MiB in one transaction");
}
