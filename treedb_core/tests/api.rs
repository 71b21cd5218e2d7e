//! Tests of the public API, as a program uses it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use treedb_core::bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use treedb_core::{
    AsOf, ChangeLogOptions, Collection, Database, Durability, Error, ErrorCode, FullDocument,
    FullDocumentBeforeChange, IndexModel, Options, ReturnDocument, StorageError,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Film {
    #[serde(rename = "_id")]
    id: i32,
    title: String,
    year: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rating: Option<f64>,
}

fn film(id: i32, title: &str, year: i32) -> Film {
    Film { id, title: title.into(), year, rating: None }
}

fn films() -> (Database, Collection<Film>) {
    let db = Database::in_memory().unwrap();
    let films = db.collection::<Film>("films");
    films
        .insert_many([film(1, "Alien", 1979), film(2, "Heat", 1995), film(3, "Aliens", 1986)])
        .run()
        .unwrap();
    (db, films)
}

fn titles(films: impl Iterator<Item = treedb_core::Result<Film>>) -> Vec<String> {
    films.map(|film| film.unwrap().title).collect()
}

fn ignoring_case() -> Document {
    doc! { "locale": "en", "strength": 2 }
}

#[test]
fn values_of_a_type_round_trip() {
    let (_, films) = films();
    let heat = Film { rating: Some(8.3), ..film(4, "Heat 2", 2027) };
    assert_eq!(films.insert_one(&heat).run().unwrap().inserted_id, Bson::Int32(4));
    assert_eq!(films.find_one(doc! { "_id": 4 }).run().unwrap(), Some(heat));
    assert_eq!(films.find_one(rawdoc! { "_id": 5 }).run().unwrap(), None);
    assert_eq!(films.estimated_document_count().unwrap(), 4);
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Place {
    #[serde(rename = "_id")]
    id: i32,
    kind: String,
    at: Vec<f32>,
}

fn places() -> (Database, Collection<Place>) {
    let db = Database::in_memory().unwrap();
    let places = db.collection::<Place>("places");
    let place = |id: i32| Place {
        id,
        kind: if id % 10 == 0 { "inn" } else { "farm" }.to_owned(),
        at: vec![id as f32, 0.0],
    };
    places.insert_many((1..=200).map(place)).run().unwrap();
    let definition = doc! { "fields": [
        { "type": "vector", "path": "at", "numDimensions": 2, "similarity": "euclidean", "quantization": "none" },
    ] };
    let model = treedb_core::SearchIndexModel::new(definition).name("near");
    assert_eq!(places.create_search_index(model).run().unwrap(), "near");
    (db, places)
}

#[test]
fn a_vector_search_finds_the_nearest_documents_with_scores() {
    let (_, places) = places();
    let ids = |found: Vec<treedb_core::Neighbor<Place>>| -> Vec<i32> {
        found.into_iter().map(|found| found.document.id).collect()
    };
    let found = places.vector_search("near", [7.2, 0.0], 3).run().unwrap();
    assert!((found[0].distance - 0.2).abs() < 1e-3 && (found[0].score - 1.0 / 1.2).abs() < 1e-3);
    assert_eq!(ids(found), [7, 8, 6]);
    let inns = || places.vector_search("near", [7.2, 0.0], 2).filter(doc! { "kind": "inn" });
    assert_eq!(ids(inns().run().unwrap()), [10, 20]);
    assert_eq!(ids(inns().exact().num_candidates(50).run().unwrap()), [10, 20]);
    places.delete_one(doc! { "_id": 7 }).run().unwrap();
    places.update_one(doc! { "_id": 150 }, doc! { "$set": { "at": [7, 0] } }).run().unwrap();
    assert_eq!(ids(places.vector_search("near", [7.2, 0.0], 2).run().unwrap()), [150, 8]);
}

#[test]
fn a_vector_search_in_a_transaction_finds_its_own_changes() {
    let (db, places) = places();
    db.transaction(|txn| {
        let inside = txn.collection::<Place>("places");
        inside.delete_one(doc! { "_id": 5 }).run()?;
        inside.insert_one(Place { id: 300, kind: "inn".into(), at: vec![5.1, 0.0] }).run()?;
        let found = inside.vector_search("near", [5.0, 0.0], 1).run()?;
        assert_eq!(found[0].document.id, 300);
        let outside = places.vector_search("near", [5.0, 0.0], 1).run()?;
        assert_eq!(outside[0].document.id, 5);
        Ok(())
    })
    .unwrap();
    assert_eq!(places.vector_search("near", [5.0, 0.0], 1).run().unwrap()[0].document.id, 300);
}

#[test]
fn what_a_vector_search_in_a_transaction_is_shown_to_may_use_the_transaction() {
    let (db, _) = places();
    db.transaction(|txn| {
        let inside = txn.collection::<Place>("places");
        let mut seen = Vec::new();
        inside.vector_search("near", [5.0, 0.0], 3).for_each(|found| {
            let id = found.document.get_i32("_id").unwrap();
            inside.delete_one(doc! { "_id": id }).run().unwrap();
            seen.push(id);
            if seen.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        assert_eq!(seen, [5, 4]);
        assert_eq!(inside.vector_search("near", [5.0, 0.0], 1).run()?[0].document.id, 6);
        Ok(())
    })
    .unwrap();
}

#[test]
fn all_documents_within_a_distance_are_found_and_none_beyond_it() {
    let (db, places) = places();
    let ids = |found: Vec<treedb_core::Neighbor<Place>>| -> Vec<i32> {
        found.into_iter().map(|found| found.document.id).collect()
    };
    let within = |distance| places.vector_search("near", [50.2, 0.0], 1000).within(distance);
    assert_eq!(ids(within(2.5).run().unwrap()), [50, 51, 49, 52, 48]);
    assert_eq!(ids(within(2.5).exact().run().unwrap()), [50, 51, 49, 52, 48]);
    assert_eq!(ids(within(11.0).filter(doc! { "kind": "inn" }).run().unwrap()), [50, 60, 40]);
    assert_eq!(within(0.1).run().unwrap(), []);
    assert_eq!(places.vector_search("near", [50.2, 0.0], 2).within(9.0).run().unwrap().len(), 2);
    assert_eq!(within(f32::NAN).run().unwrap_err().code(), ErrorCode::BadValue);
    db.transaction(|txn| {
        let inside = txn.collection::<Place>("places");
        inside.delete_one(doc! { "_id": 51 }).run()?;
        let found = inside.vector_search("near", [50.2, 0.0], 1000).within(2.5).run()?;
        assert_eq!(ids(found), [50, 49, 52, 48]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn many_searches_at_once_find_what_each_of_them_finds() {
    let (db, places) = places();
    let vectors: Vec<Vec<f32>> = (0..60).map(|at| vec![at as f32 * 3.1, 0.0]).collect();
    let inns = |places: &Collection<Place>| -> Vec<Vec<treedb_core::Neighbor<Place>>> {
        let many = places.vector_search_many("near", vectors.clone(), 3).filter(doc! { "kind": "inn" });
        many.num_candidates(50).run().unwrap()
    };
    let found = inns(&places);
    assert_eq!(found.len(), vectors.len());
    for (vector, found) in vectors.iter().zip(&found) {
        let one = places.vector_search("near", vector.clone(), 3).filter(doc! { "kind": "inn" }).exact();
        assert_eq!(*found, one.run().unwrap());
    }
    db.transaction(|txn| {
        let inside = txn.collection::<Place>("places");
        assert_eq!(inns(&inside), found);
        inside.delete_one(doc! { "_id": 10 }).run()?;
        assert!(inns(&inside)[0].iter().all(|found| found.document.id != 10));
        Ok(())
    })
    .unwrap();
    assert_eq!(places.vector_search_many("near", [[0.0; 2]; 0], 3).run().unwrap(), Vec::<Vec<_>>::new());
    let unfit = places.vector_search_many("near", [vec![1.0, 0.0], vec![1.0]], 3).run();
    assert_eq!(unfit.unwrap_err().code(), ErrorCode::BadValue);
    let bad = places.vector_search_many("near", [[0.0; 2]], 3).exact().filter(doc! { "$no": 1 }).run();
    assert_eq!(bad.unwrap_err().code(), ErrorCode::BadValue);
}

#[test]
fn the_recall_of_every_vector_index_is_measured_with_its_own_documents() {
    let (_, places) = places();
    let measured = places.recall(30).unwrap();
    assert_eq!(measured.len(), 1);
    let near = &measured[0];
    assert_eq!((near.index.as_str(), near.searches, near.candidates), ("near", 30, 110));
    assert!(near.recall > 0.95 && near.recall <= 1.0, "{near:?}");
}

#[test]
fn a_document_with_several_vectors_is_found_by_the_nearest_of_them() {
    let db = Database::in_memory().unwrap();
    let books = db.collection::<Document>("books");
    let definition = doc! { "fields": [
        { "type": "vector", "path": "chunks.at", "numDimensions": 2, "similarity": "manhattan" },
    ] };
    books.create_search_index(definition).run().unwrap();
    let chunk = |x: i32, y: i32| doc! { "at": [x, y] };
    let book = |id: i32, chunks: Vec<Document>| doc! { "_id": id, "chunks": chunks };
    let all =
        [book(1, vec![chunk(0, 0), chunk(9, 9)]), book(2, vec![chunk(3, 3), chunk(8, 9)]), book(3, vec![])];
    books.insert_many(all).run().unwrap();
    let found = books.vector_search("chunks.at_vectorSearch", [9.0, 8.0], 5).run().unwrap();
    let found: Vec<_> =
        found.iter().map(|one| (one.document.get_i32("_id").unwrap(), one.distance)).collect();
    assert_eq!(found, [(1, 1.0), (2, 2.0)]);
}

#[test]
fn search_indexes_are_listed_and_dropped_apart_from_other_indexes() {
    let (_, places) = places();
    places.create_index(doc! { "kind": 1 }).run().unwrap();
    let listed = places.list_search_indexes().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].get_str("name").unwrap(), "near");
    assert_eq!(listed[0].get_str("type").unwrap(), "vectorSearch");
    assert_eq!(places.list_indexes().unwrap().len(), 2);
    let code = |result: treedb_core::Result<()>| result.unwrap_err().code();
    assert_eq!(code(places.drop_search_index("kind_1")), ErrorCode::IndexNotFound);
    places.drop_search_index("near").unwrap();
    assert_eq!(code(places.vector_search("near", [1.0, 1.0], 1).run().map(drop)), ErrorCode::IndexNotFound);
}

#[test]
fn a_vector_that_cannot_be_compared_is_refused() {
    let (_, places) = places();
    for vector in [vec![1.0], vec![f32::NAN, 0.0], vec![]] {
        let error = places.vector_search("near", vector.clone(), 1).run().unwrap_err();
        assert_eq!(error.code(), ErrorCode::BadValue, "{vector:?}");
    }
    let error = places.vector_search("near", [1.0, 1.0], 0).run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::BadValue);
    let unfit = doc! { "fields": [{ "type": "vector", "path": "at", "similarity": "euclidean" }] };
    let error = places.create_search_index(unfit).run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::CannotCreateIndex);
}

#[test]
fn a_find_sorts_limits_and_projects() {
    let (_, films) = films();
    let newest = films.find(doc! {}).sort(doc! { "year": -1 }).skip(1).limit(1).allow_disk_use(false);
    assert_eq!(titles(newest.run().unwrap()), ["Aliens"]);
    let oldest = films.find_one(doc! {}).sort(doc! { "year": 1 }).skip(1).run().unwrap().unwrap();
    assert_eq!(oldest.title, "Aliens");
    let names = films.clone_with_type::<Document>();
    let names = names.find_one(doc! { "_id": 2 }).projection(doc! { "title": 1, "_id": 0 }).run().unwrap();
    assert_eq!(names, Some(doc! { "title": "Heat" }));
    let found = films.find(doc! { "title": "heat" }).collation(ignoring_case()).run().unwrap();
    assert_eq!(titles(found), ["Heat"]);
    let counted = films.count_documents(doc! { "title": "HEAT" }).collation(ignoring_case());
    assert_eq!(counted.run().unwrap(), 1);
    assert_eq!(films.count_documents(doc! {}).skip(1).limit(1).run().unwrap(), 1);
}

#[test]
fn documents_are_read_one_by_one_or_without_a_copy() {
    let (_, films) = films();
    let mut cursor = films.find(doc! { "year": { "$lt": 1990 } }).sort(doc! { "year": 1 }).run().unwrap();
    assert!(cursor.current().is_none());
    assert_eq!(cursor.deserialize_current().unwrap_err().code(), ErrorCode::CursorNotFound);
    assert!(cursor.advance().unwrap());
    assert_eq!(cursor.current().unwrap().get_str("title").unwrap(), "Alien");
    assert_eq!(cursor.deserialize_current().unwrap(), film(1, "Alien", 1979));
    let mut rest = cursor.with_type::<Document>();
    assert_eq!(rest.next().unwrap().unwrap().get_str("title").unwrap(), "Aliens");
    assert!(rest.next().is_none());

    let mut seen = Vec::new();
    let visit = |document: &treedb_core::bson::RawDocument| {
        seen.push(document.get_i32("_id").unwrap());
        if seen.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    films.find(doc! {}).hint("$natural").for_each(visit).unwrap();
    assert_eq!(seen, [1, 2]);
}

#[test]
fn updates_report_what_they_did() {
    let (_, films) = films();
    let old = doc! { "year": { "$lt": 1990 } };
    let done = films.update_many(old, doc! { "$inc": { "year": 100 } }).run().unwrap();
    assert_eq!((done.matched_count, done.modified_count, done.upserted_id), (2, 2, None));
    let stages = [doc! { "$set": { "year": { "$add": ["$year", 1] } } }];
    assert_eq!(films.update_one(doc! { "_id": 2 }, stages).run().unwrap().modified_count, 1);
    let stages = vec![doc! { "$set": { "title": { "$concat": ["$title", "!"] } } }];
    films.update_one(doc! { "title": "heat" }, stages).hint("_id_").collation(ignoring_case()).run().unwrap();
    assert_eq!(films.find_one(doc! { "_id": 2 }).run().unwrap(), Some(film(2, "Heat!", 1996)));

    let new = doc! { "$set": { "title": "Brazil", "year": 1985 } };
    let upserted = films.update_one(doc! { "_id": 9 }, new).upsert(true).run().unwrap();
    assert_eq!(upserted.upserted_id, Some(Bson::Int32(9)));
    let replaced = films.replace_one(doc! { "_id": 9 }, film(9, "Brasil", 1985)).run().unwrap();
    assert_eq!((replaced.matched_count, replaced.modified_count), (1, 1));
    let ran = films.replace_one(doc! { "title": "Ran" }, film(10, "Ran", 1985)).upsert(true).hint("_id_");
    assert_eq!(ran.collation(ignoring_case()).run().unwrap().upserted_id, Some(Bson::Int32(10)));

    let lists: Collection = films.clone_with_type();
    lists.insert_one(doc! { "_id": 20, "grades": [1, 5, 9] }).run().unwrap();
    let update = doc! { "$set": { "grades.$[low]": 0 } };
    let filters = [doc! { "low": { "$lt": 6 } }];
    lists.update_one(doc! { "_id": 20 }, update).array_filters(filters).run().unwrap();
    let grades = lists.find_one(doc! { "_id": 20 }).run().unwrap().unwrap();
    assert_eq!(grades, doc! { "_id": 20, "grades": [0, 0, 9] });
}

#[test]
fn an_update_needs_operators_and_a_replacement_has_none() {
    let (_, films) = films();
    let refused = films.update_one(doc! { "_id": 1 }, doc! { "title": "Alien" }).run().unwrap_err();
    assert!(
        refused.code() == ErrorCode::BadValue && refused.to_string().contains("replace_one"),
        "{refused}"
    );
    let films: Collection = films.clone_with_type();
    let refused = films.replace_one(doc! { "_id": 1 }, doc! { "$set": { "a": 1 } }).run().unwrap_err();
    assert!(refused.code() == ErrorCode::BadValue && refused.to_string().contains("update_one"), "{refused}");
    let refused = films.find_one_and_update(doc! {}, doc! { "a": 1 }).run().unwrap_err();
    assert_eq!(refused.code(), ErrorCode::BadValue);
}

#[test]
fn deletes_take_one_or_all() {
    let (_, films) = films();
    assert_eq!(films.delete_one(doc! { "year": { "$lt": 1990 } }).run().unwrap().deleted_count, 1);
    let heat = films.delete_many(doc! { "title": "HEAT" }).collation(ignoring_case());
    assert_eq!(heat.run().unwrap().deleted_count, 1);
    assert_eq!(films.delete_many(doc! { "_id": 3 }).hint(doc! { "_id": 1 }).run().unwrap().deleted_count, 1);
    assert_eq!(films.estimated_document_count().unwrap(), 0);
}

#[test]
fn one_document_is_changed_and_returned_atomically() {
    let (_, films) = films();
    let inc = doc! { "$inc": { "year": 1 } };
    let before = films.find_one_and_update(doc! {}, inc.clone()).sort(doc! { "year": 1 }).run().unwrap();
    assert_eq!(before, Some(film(1, "Alien", 1979)));
    let after = films.find_one_and_update(doc! { "_id": 1 }, inc).return_document(ReturnDocument::After);
    assert_eq!(after.hint("_id_").run().unwrap(), Some(film(1, "Alien", 1981)));
    let replaced = films.find_one_and_replace(doc! { "_id": 1 }, film(1, "Alien", 1979));
    assert_eq!(replaced.run().unwrap().unwrap().year, 1981);
    let new = films.find_one_and_replace(doc! { "_id": 7 }, film(7, "Ran", 1985)).upsert(true);
    assert_eq!(new.return_document(ReturnDocument::After).run().unwrap(), Some(film(7, "Ran", 1985)));
    assert_eq!(films.find_one_and_delete(doc! { "_id": 7 }).run().unwrap().unwrap().title, "Ran");
    assert_eq!(films.find_one_and_delete(doc! { "_id": 7 }).run().unwrap(), None);
    let names: Collection = films.clone_with_type();
    let gone = names.find_one_and_delete(doc! { "title": "heat" }).collation(ignoring_case());
    assert_eq!(gone.projection(doc! { "year": 1 }).run().unwrap(), Some(doc! { "_id": 2, "year": 1995 }));
    names.insert_one(doc! { "_id": 30, "grades": [1, 9] }).run().unwrap();
    let update = names.find_one_and_update(doc! { "_id": 30 }, doc! { "$set": { "grades.$[low]": 0 } });
    let update = update.array_filters(vec![doc! { "low": { "$lt": 6 } }]);
    let after = update.return_document(ReturnDocument::After).run().unwrap();
    assert_eq!(after, Some(doc! { "_id": 30, "grades": [0, 9] }));
}

#[test]
fn pipelines_have_their_own_type_and_variables() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Decade {
        _id: i32,
        count: i32,
    }
    let (_, films) = films();
    let decade = rawdoc! { "$subtract": ["$year", { "$mod": ["$year", 10] }] };
    let stages = [
        rawdoc! { "$match": { "$expr": { "$gte": ["$year", "$$since"] } } },
        rawdoc! { "$group": { "_id": decade, "count": { "$sum": 1 } } },
        rawdoc! { "$sort": { "_id": 1 } },
    ];
    let decades = films.aggregate(stages).let_vars(doc! { "since": 1980 }).allow_disk_use(false);
    let decades = decades.max_time(Duration::from_secs(60)).with_type::<Decade>().run().unwrap();
    let decades: Vec<Decade> = decades.map(Result::unwrap).collect();
    assert_eq!(decades, [Decade { _id: 1980, count: 1 }, Decade { _id: 1990, count: 1 }]);
    let matching = [doc! { "$match": { "title": "heat" } }];
    let found = films.aggregate(&matching[..]).collation(ignoring_case()).hint("_id_");
    assert_eq!(found.run().unwrap().count(), 1);
    let shown =
        films.aggregate(vec![doc! { "$match": { "_id": 1 } }, doc! { "$count": "n" }]).explain().unwrap();
    assert!(shown.contains_key("queryPlanner") && !shown.get_array("stages").unwrap().is_empty(), "{shown}");
}

#[test]
fn distinct_values_and_plans_are_returned() {
    let (_, films) = films();
    films.insert_one(film(4, "Heat", 1995)).run().unwrap();
    let values = films.distinct("title", doc! { "year": { "$gt": 1980 } }).run().unwrap();
    assert_eq!(values, [Bson::from("Heat"), Bson::from("Aliens")]);
    assert_eq!(films.distinct("year", doc! {}).hint("_id_").run().unwrap().len(), 3);
    films.create_index(doc! { "year": 1 }).run().unwrap();
    let shown = films.find(doc! { "year": 1995 }).explain().unwrap();
    let found = shown.get_document("executionStats").unwrap().get("nReturned").cloned();
    assert!(matches!(found, Some(Bson::Int32(2) | Bson::Int64(2))), "{shown}");
}

#[test]
fn indexes_are_created_listed_and_dropped() {
    let (_, films) = films();
    let with_mail = doc! { "mail": { "$exists": true } };
    let created = films.create_indexes([
        IndexModel::new(doc! { "title": 1, "year": -1 }),
        IndexModel::new(doc! { "year": 1 }).name("by_year").sparse(),
        IndexModel::new(doc! { "mail": 1 }).unique().partial_filter_expression(with_mail),
        IndexModel::new(doc! { "seen": 1 }).expire_after(Duration::from_secs(60)).hidden(),
        IndexModel::new(doc! { "$**": 1 }).wildcard_projection(doc! { "title": 0 }),
        IndexModel::new(doc! { "place": 1 }).collation(doc! { "locale": "en", "strength": 1 }),
    ]);
    let names = ["title_1_year_-1", "by_year", "mail_1", "seen_1", "$**_1", "place_1"];
    assert_eq!(created.run().unwrap(), names);
    films.drop_index("by_year").unwrap();
    assert_eq!(films.drop_index("by_year").unwrap_err().code(), ErrorCode::IndexNotFound);
    let listed = films.list_indexes().unwrap();
    let listed: Vec<_> = listed.iter().map(|index| index.get_str("name").unwrap()).collect();
    assert_eq!(listed, ["_id_", "title_1_year_-1", "mail_1", "seen_1", "$**_1", "place_1"]);
    films.drop().unwrap();
    films.drop().unwrap();
    assert_eq!(films.list_indexes().unwrap_err().code(), ErrorCode::NamespaceNotFound);
}

#[test]
fn only_the_transaction_sees_its_changes_until_it_commits() {
    let (db, films) = films();
    let txn = db.begin().unwrap();
    let inside = txn.collection::<Film>("films");
    inside.insert_one(film(4, "Ran", 1985)).run().unwrap();
    inside.insert_many([film(5, "Ikiru", 1952)]).run().unwrap();
    inside.update_one(doc! { "_id": 1 }, doc! { "$set": { "year": 1 } }).run().unwrap();
    assert_eq!(inside.find_one_and_delete(doc! { "_id": 2 }).run().unwrap().unwrap().title, "Heat");
    inside.delete_many(doc! { "_id": 3 }).run().unwrap();
    let by_id = |films: &Collection<Film>| titles(films.find(doc! {}).sort(doc! { "_id": 1 }).run().unwrap());
    assert_eq!(by_id(&inside), ["Alien", "Ran", "Ikiru"]);
    assert_eq!(inside.find_one(doc! { "_id": 4 }).run().unwrap(), Some(film(4, "Ran", 1985)));
    assert_eq!(inside.count_documents(doc! {}).run().unwrap(), 3);
    assert_eq!(inside.distinct("year", doc! {}).run().unwrap().len(), 3);
    assert_eq!(inside.aggregate([doc! { "$count": "n" }]).run().unwrap().count(), 1);
    let mut seen = 0;
    let count = |_: &treedb_core::bson::RawDocument| {
        seen += 1;
        ControlFlow::Continue(())
    };
    inside.find(doc! {}).for_each(count).unwrap();
    assert_eq!(seen, 3);
    assert_eq!(by_id(&films), ["Alien", "Heat", "Aliens"]);
    for refused in [
        inside.create_index(doc! { "year": 1 }).run().unwrap_err(),
        inside.estimated_document_count().unwrap_err(),
        inside.watch().run().err().unwrap(),
        inside.drop().unwrap_err(),
        inside.find(doc! {}).json().err().unwrap(),
    ] {
        assert_eq!(refused.code(), ErrorCode::OperationNotSupportedInTransaction, "{refused}");
    }
    txn.commit_with(Durability::Durable).unwrap();
    assert_eq!(by_id(&films), ["Alien", "Ran", "Ikiru"]);
    assert_eq!(inside.find_one(doc! {}).run().unwrap_err().code(), ErrorCode::NoSuchTransaction);
}

#[test]
fn an_aborted_transaction_changes_nothing_and_its_collections_cannot_be_used() {
    let (db, films) = films();
    for dropped in [false, true] {
        let txn = db.begin().unwrap();
        let inside = txn.collection::<Film>("films");
        inside.delete_many(doc! { "_id": 1 }).run().unwrap();
        let mut cursor = inside.find(doc! {}).run().unwrap();
        if dropped {
            drop(txn)
        } else {
            txn.abort()
        }
        assert_eq!(films.count_documents(doc! {}).run().unwrap(), 3);
        let late = inside.insert_one(film(8, "x", 1)).run().unwrap_err();
        assert_eq!(late.code(), ErrorCode::NoSuchTransaction);
        assert_eq!(cursor.advance().unwrap_err().code(), ErrorCode::NoSuchTransaction);
    }
}

#[test]
fn transfers_with_conflicting_transactions_preserve_the_sum() {
    let db = Database::in_memory().unwrap();
    let accounts: Collection = db.collection("accounts");
    accounts.insert_many((0..4).map(|id| doc! { "_id": id, "balance": 100 })).run().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = db.clone();
            scope.spawn(move || {
                for n in 0..50 {
                    let moved = db.transaction(|txn| {
                        let accounts = txn.collection::<Document>("accounts");
                        for (who, change) in [((thread + n) % 4, -1), (n % 4, 1)] {
                            let update = doc! { "$inc": { "balance": change } };
                            accounts.update_one(doc! { "_id": who }, update).run()?;
                        }
                        Ok(())
                    });
                    moved.unwrap();
                }
            });
        }
    });
    let balances = accounts.find(doc! {}).run().unwrap();
    assert_eq!(balances.map(|account| account.unwrap().get_i32("balance").unwrap()).sum::<i32>(), 400);
    let failed: treedb_core::Result<()> = db.transaction(|txn| {
        txn.collection("accounts").insert_one(doc! { "_id": 99 }).run()?;
        txn.collection("accounts").insert_one(doc! { "_id": 99 }).run()?;
        Ok(())
    });
    assert!(matches!(failed, Err(Error::DuplicateKey { .. })));
    assert_eq!(accounts.count_documents(doc! { "_id": 99 }).run().unwrap(), 0);
}

#[test]
fn refused_documents_are_reported_and_the_others_are_inserted() {
    let (_, films) = films();
    let some = || [film(10, "a", 1), film(1, "b", 1), film(11, "c", 1), film(2, "d", 1), film(12, "e", 1)];
    let Err(Error::InsertMany(ordered)) = films.insert_many(some()).run() else { panic!("not refused") };
    assert_eq!(ordered.inserted_ids, BTreeMap::from([(0, Bson::Int32(10))]));
    assert_eq!((ordered.errors.len(), ordered.errors[0].0, ordered.not_tried), (1, 1, 3));
    let error = films.insert_many(some()).ordered(false).run().unwrap_err();
    assert!(error.code() == ErrorCode::DuplicateKey && error.to_string().starts_with("3 of 5"), "{error}");
    let Error::InsertMany(unordered) = error else { panic!("{error}") };
    assert_eq!(unordered.inserted_ids.keys().copied().collect::<Vec<_>>(), [2, 4]);
    assert_eq!((unordered.errors.len(), unordered.not_tried), (3, 0));
    let without = films.clone_with_type::<Document>();
    let ids = without.insert_many([doc! { "a": 1 }, doc! { "a": 2 }]).run().unwrap().inserted_ids;
    assert!(ids.len() == 2 && ids.values().all(|id| matches!(id, Bson::ObjectId(_))));
}

#[test]
fn a_document_with_an_invalid_id_is_refused_by_its_position() {
    let db = Database::in_memory().unwrap();
    let things: Collection = db.collection("things");
    let error =
        things.insert_many([doc! { "_id": 1 }, doc! { "_id": [1] }, doc! { "_id": 2 }]).ordered(false).run();
    let Err(Error::InsertMany(done)) = error else { panic!("{error:?}") };
    assert_eq!((done.errors[0].0, done.errors[0].1.code()), (1, ErrorCode::InvalidIdField));
    assert_eq!(done.inserted_ids.keys().copied().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(things.estimated_document_count().unwrap(), 2);
}

#[test]
fn errors_are_distinguished_by_kind() {
    let (db, films) = films();
    let Err(Error::DuplicateKey { key, message }) = films.insert_one(film(1, "x", 1)).run() else { panic!() };
    assert!(key.index == "_id_" && message.starts_with("E11000"), "{message}");
    db.create_collection("checked").validator(doc! { "n": { "$gt": 0 } }).run().unwrap();
    let checked: Collection = db.collection("checked");
    let Err(Error::Validation { details, .. }) = checked.insert_one(doc! { "n": 0 }).run() else { panic!() };
    assert!(details.get("failingDocumentId").unwrap().is_some());
    assert_eq!(checked.find_one(doc! { "n": { "$no": 1 } }).run().unwrap_err().code(), ErrorCode::BadValue);
    assert_eq!(films.find_one(doc! { "a\0": 1 }).run().unwrap_err().code(), ErrorCode::InvalidBSON);
    checked.insert_one(doc! { "n": 1 }).run().unwrap();
    let wrong = checked.clone_with_type::<Film>().find_one(doc! {}).run().unwrap_err();
    assert!(matches!(wrong, Error::Bson(_)), "{wrong}");
    for name in ["", ".", "a..b", "$x", "a.system.x"] {
        let refused = db.collection::<Film>(name).find_one(doc! {}).run().unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidNamespace, "{name}: {refused}");
    }
    let (one, two) = (db.begin().unwrap(), db.begin().unwrap());
    let change = doc! { "$inc": { "year": 1 } };
    one.collection::<Film>("films").update_one(doc! { "_id": 1 }, change.clone()).run().unwrap();
    let conflict =
        two.collection::<Film>("films").update_one(doc! { "_id": 1 }, change.clone()).run().unwrap_err();
    assert!(matches!(conflict, Error::WriteConflict { .. }) && conflict.code() == ErrorCode::WriteConflict);
    assert_eq!(two.commit().unwrap_err().code(), ErrorCode::NoSuchTransaction);
    db.set_write_wait(std::time::Duration::from_millis(10), 1);
    let late = films.update_one(doc! { "_id": 1 }, change.clone()).run().unwrap_err();
    assert!(
        matches!(late, Error::WriteConflict { .. }) && late.to_string().contains("commit or abort it"),
        "{late}"
    );
    one.commit().unwrap();
    films.update_one(doc! { "_id": 1 }, change).run().unwrap();
}

#[test]
fn changes_are_watched_as_typed_values_and_past_states_are_read() {
    let (db, films) = films();
    assert_eq!(films.watch().run().err().unwrap().code(), ErrorCode::Location40573);
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    films.drop().unwrap();
    let images = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
    db.create_collection("films").options(images).run().unwrap();
    let watch = films.watch().full_document(FullDocument::UpdateLookup);
    let watch = watch.full_document_before_change(FullDocumentBeforeChange::WhenAvailable);
    let mut changes =
        watch.pipeline([doc! { "$match": { "operationType": { "$ne": "delete" } } }]).run().unwrap();
    films.insert_one(film(1, "Alein", 1979)).run().unwrap();
    films.update_one(doc! { "_id": 1 }, doc! { "$set": { "title": "Alien" } }).run().unwrap();
    let inserted = changes.next().unwrap().unwrap();
    assert_eq!(inserted.operation_type, "insert");
    assert_eq!(inserted.full_document, Some(film(1, "Alein", 1979)));
    assert_eq!(inserted.document_key, Some(doc! { "_id": 1 }));
    let token = changes.resume_token();
    let wait = Duration::from_secs(20);
    let updated = changes.next_timeout(wait).unwrap().unwrap();
    assert_eq!(updated.full_document_before_change, Some(film(1, "Alein", 1979)));
    assert!(updated.raw.get("updateDescription").unwrap().is_some());
    let again = films.watch().resume_after(token).run().unwrap().next_timeout(wait).unwrap().unwrap();
    assert_eq!(again.operation_type, "update");
    let since = inserted.raw.get_timestamp("clusterTime").unwrap();
    let mut since = films.watch().start_at_operation_time(since).run().unwrap();
    assert_eq!(since.next_timeout(wait).unwrap().unwrap().operation_type, "insert");

    let versions = films.history(1).unwrap();
    assert_eq!(versions.len(), 2);
    let first = films.find_one(doc! {}).as_of(AsOf::Change(versions[0].change)).run().unwrap().unwrap();
    assert_eq!(first.title, "Alein");
}

#[test]
fn collections_are_renamed_and_capped_and_read_by_views() {
    let (db, films) = films();
    let all = films.count_documents(doc! {}).run().unwrap();
    assert!(all > 2);
    let renamed = films.rename("pictures", false).unwrap();
    assert_eq!(renamed.namespace(), "test.pictures");
    assert_eq!(renamed.count_documents(doc! {}).run().unwrap(), all);
    assert_eq!(films.rename("x", false).unwrap_err().code(), ErrorCode::NamespaceNotFound);
    db.create_view("titles", "pictures", [doc! { "$match": { "_id": { "$lte": 2 } } }]).unwrap();
    let titles: Collection<Film> = db.collection("titles");
    assert_eq!(titles.count_documents(doc! {}).run().unwrap(), 2);
    let mut seen = 0;
    let count = |_: &bson::RawDocument| {
        seen += 1;
        std::ops::ControlFlow::Continue(())
    };
    titles.find(doc! {}).for_each(count).unwrap();
    assert_eq!(seen, 2);
    let refused = titles.insert_one(film(9, "Brazil", 1985)).run().unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CommandNotSupportedOnView);
    let over =
        renamed.find(doc! { "$expr": { "$gt": ["$_id", "$$n"] } }).let_vars(doc! { "n": 1 }).run().unwrap();
    assert_eq!(over.count() as u64, all - 1);
    let between =
        renamed.find(doc! {}).hint("_id_").min(doc! { "_id": 1 }).max(doc! { "_id": 2 }).run().unwrap();
    assert_eq!(between.count(), 1);
    let last =
        renamed.update_one(doc! {}, doc! { "$set": { "year": 1 } }).sort(doc! { "_id": -1 }).run().unwrap();
    assert_eq!(last.modified_count, 1);
    assert_eq!(
        renamed.find_one(doc! { "_id": { "$lt": 2 } }).run().unwrap().map(|film| film.year == 1),
        Some(false)
    );

    db.create_collection("log").options(doc! { "capped": true, "size": 4096, "max": 2 }).run().unwrap();
    let log: Collection = db.collection("log");
    log.insert_many((0..5).map(|n| doc! { "_id": n })).run().unwrap();
    let mut tail = log.tail(doc! {}).unwrap();
    let mut next =
        || tail.next_timeout(Duration::from_millis(1)).unwrap().map(|doc| doc.get_i32("_id").unwrap());
    assert_eq!((next(), next(), next()), (Some(3), Some(4), None));
    log.insert_one(doc! { "_id": 5 }).run().unwrap();
    assert_eq!(next(), Some(5));
}

#[test]
fn the_text_of_a_json_collection_round_trips_unchanged() {
    let db = Database::in_memory().unwrap();
    let format = doc! { "storageEngine": { "treedb": { "format": "json" } } };
    db.create_collection("notes").options(format).run().unwrap();
    let notes: Collection = db.collection("notes");
    let text = "{ \"_id\": 1,  \"text\" : \"as given\" }";
    assert_eq!(notes.insert_json(text).unwrap(), Bson::Int32(1));
    assert_eq!(notes.find(doc! {}).json().unwrap().map(Result::unwrap).collect::<Vec<_>>(), [text]);
}

#[test]
fn a_database_in_a_directory_persists_and_one_in_memory_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    let db = Database::open_with(dir.path(), options).unwrap();
    let films = db.collection::<RawDocumentBuf>("cinema.films").with_durability(Durability::Durable);
    assert_eq!(films.namespace(), "cinema.films");
    films.insert_one(rawdoc! { "_id": 1, "title": "Heat" }).run().unwrap();
    db.create_collection("places").collation(ignoring_case()).run().unwrap();
    let busy = Database::open(dir.path()).unwrap_err();
    assert!(matches!(busy, Error::Storage(StorageError::InUse { .. })), "{busy}");
    drop(films);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(db.list_collection_names().unwrap(), ["cinema.films", "test.places"]);
    assert_eq!(db.check().unwrap().collections.len(), 2);
    db.store().checkpoint().unwrap();
    assert_eq!(Database::in_memory().unwrap().list_collection_names().unwrap(), [""; 0]);
}
