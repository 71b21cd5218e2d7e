//! Search indexes with several fields of vectors: one index for those who list, change and drop it, and a graph for each field.

use bson::{Bson, doc};

use super::*;
use crate::maintenance::backfill::advance;
use crate::maintenance::index_build::add_empty;
use crate::{
    AggregateRequest, Collection, DeleteRequest, IndexSpec, Neighbor, UpdateRequest, VectorSearchRequest,
};
use treedb_query::doc::Collation;
use treedb_query::error::ErrorCode;
use treedb_query::index::Definition;
use treedb_storage::Reads;
use treedb_storage::disk::crash::Crash;

fn field(path: &str, dimensions: i32, similarity: &str) -> Document {
    doc! { "type": "vector", "path": path, "numDimensions": dimensions, "similarity": similarity }
}

fn title() -> Document {
    field("title", 2, "euclidean")
}

fn picture() -> Document {
    let mut picture = field("picture.codes", 3, "cosine");
    picture.insert("quantization", "none");
    picture
}

fn sound() -> Document {
    field("sound", 64, "dotProduct")
}

fn definition(fields: &[Document]) -> Document {
    let mut fields = fields.to_vec();
    fields.push(doc! { "type": "filter", "path": "odd" });
    doc! { "fields": fields }
}

fn spec(fields: &[Document]) -> RawDocumentBuf {
    raw(&doc! { "name": "near", "type": "vectorSearch", "definition": definition(fields) })
}

fn film(at: i32) -> RawDocumentBuf {
    let sound: Vec<f64> = (0..64).map(|n| f64::from((at + n) % 7)).collect();
    raw(&doc! {
        "_id": at, "title": [at, 0], "odd": at % 2 == 1, "sound": sound,
        "picture": { "codes": [f64::from(at), 10.0, f64::from(at * at) / 10.0] },
    })
}

fn films_on(disk: &SimDisk) -> (Database, Collection) {
    let db = open(disk).unwrap();
    let films = db.collection("shop.films").unwrap();
    films.insert_many(&(0..50).map(film).collect::<Vec<_>>(), true).unwrap();
    (db, films)
}

fn ids(found: &[Neighbor]) -> Vec<i32> {
    found.iter().map(|found| found.document.get_i32("_id").unwrap()).collect()
}

fn by(path: &str, vector: &[f32]) -> VectorSearchRequest {
    VectorSearchRequest::new("near", vector.to_vec(), 3).path(path)
}

/// A search by a path, which agrees with an exact one.
fn found(films: &Collection, path: &str, vector: &[f32]) -> Vec<i32> {
    let found = films.vector_search(&by(path, vector)).unwrap();
    assert_eq!(ids(&found), ids(&films.vector_search(&by(path, vector).exact()).unwrap()));
    ids(&found)
}

fn code<T>(result: Result<T>) -> ErrorCode {
    result.map(drop).unwrap_err().code
}

fn paths(films: &Collection) -> Vec<String> {
    let listed = films.search_indexes().unwrap().unwrap();
    assert_eq!(listed.len(), 1);
    let spec = Document::try_from(&listed[0].spec).unwrap();
    let fields = spec.get_document("definition").unwrap().get_array("fields").unwrap().clone();
    fields.iter().map(|field| field.as_document().unwrap().get_str("path").unwrap().to_owned()).collect()
}

/// The tables of the graphs.
fn tables(db: &Database, films: &Collection) -> BTreeMap<String, u32> {
    let reads = db.inner.store.begin_read().unwrap();
    let meta = db.inner.catalog.find(&reads, films.namespace()).unwrap().unwrap();
    let vectors = meta.indexes.iter().filter_map(|index| Some((index.def.as_vector()?, index.table.id())));
    vectors.map(|(def, table)| (def.path.as_str().to_owned(), table)).collect()
}

#[test]
fn each_field_of_a_search_index_is_searched_by_its_own_graph_and_metric() {
    let disk = SimDisk::new();
    let (db, films) = films_on(&disk);
    let created = films.create_search_indexes(&[spec(&[title(), picture(), sound()])]).unwrap();
    assert_eq!(created.len(), 1);
    assert!(created[0].ready && created[0].queryable);
    assert_eq!(paths(&films), ["title", "picture.codes", "sound", "odd"]);
    let check = |films: &Collection| {
        assert_eq!(found(films, "title", &[20.1, 0.0]), [20, 21, 19]);
        assert_eq!(found(films, "picture.codes", &[4.0, 10.0, 1.6])[0], 4);
        let odd = by("title", &[20.1, 0.0]).filter(raw(&doc! { "odd": true }));
        assert_eq!(ids(&films.vector_search(&odd).unwrap()), [21, 19, 23]);
        let measured = films.recall(20).unwrap();
        let fields: Vec<_> = measured.iter().map(|one| (one.index.as_str(), one.path.as_str())).collect();
        assert_eq!(fields, [("near", "title"), ("near", "picture.codes"), ("near", "sound")]);
        assert!(measured.iter().all(|one| one.recall > 0.9), "{measured:?}");
    };
    check(&films);
    let checked = db.check().unwrap();
    let indexes = &checked.collections[0].indexes;
    assert_eq!(indexes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["_id_", "near"]);
    // Writes keep all of them up to date, and a document may be in some.
    films
        .update(UpdateRequest::one(raw(&doc! { "_id": 3 }), raw(&doc! { "$set": { "title": [20, 0] } })))
        .unwrap();
    films.delete(DeleteRequest::many(raw(&doc! { "_id": 21 }))).unwrap();
    films.insert_one(raw(&doc! { "_id": 70, "picture": { "codes": [0, 0, 1] } })).unwrap();
    assert_eq!(found(&films, "title", &[20.1, 0.0]), [3, 20, 19]);
    assert_eq!(found(&films, "picture.codes", &[0.0, 0.0, 1.0])[0], 70);
    db.check().unwrap();
    drop(films);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    let films = db.collection("shop.films").unwrap();
    assert_eq!(found(&films, "title", &[20.1, 0.0]), [3, 20, 19]);
    // All of it goes at once.
    films.drop_search_index("near").unwrap();
    assert_eq!(code(films.vector_search(&by("sound", &[0.0; 64]))), ErrorCode::IndexNotFound);
    assert!(tables(&db, &films).is_empty());
    db.check().unwrap();
}

#[test]
fn a_search_names_one_of_the_fields_that_are_indexed_as_vectors() {
    let (_db, films) = films_on(&SimDisk::new());
    films.create_search_indexes(&[spec(&[title(), picture()])]).unwrap();
    let search = |path: &str| {
        let stage = doc! { "$vectorSearch": {
            "index": "near", "path": path, "queryVector": [1.0, 2.0], "numCandidates": 10, "limit": 1,
        } };
        films.aggregate(&AggregateRequest::new([raw(&stage)])).map(Iterator::count)
    };
    assert_eq!(search("title").unwrap(), 1);
    for path in ["odd", "picture", "none"] {
        let error = search(path).unwrap_err();
        assert_eq!(error.code, ErrorCode::BadValue);
        assert!(error.message.contains(&format!("Path '{path}' needs to be indexed as vector")), "{error}");
        assert!(error.message.contains("'title', 'picture.codes'"), "{error}");
    }
    // The dimensions of another field.
    let error = search("picture.codes").unwrap_err();
    assert!(error.message.contains("near of 'picture.codes'"), "{error}");
    let unsaid = films.vector_search(&VectorSearchRequest::new("near", vec![1.0, 2.0], 3));
    assert_eq!(code(unsaid), ErrorCode::BadValue);
    let mut searcher = films.vector_searcher("near").path("title");
    let mut nearest = Vec::new();
    searcher.search(&[7.0, 0.0], 1, 10, |id, _| nearest.push(id.as_i32())).unwrap();
    assert_eq!(nearest, [Some(7)]);
    assert_eq!(
        code(films.vector_searcher("near").search(&[7.0, 0.0], 1, 10, |_, _| {})),
        ErrorCode::BadValue
    );
}

#[test]
fn an_update_builds_only_the_fields_that_have_changed() {
    let (db, films) = films_on(&SimDisk::new());
    films.create_search_indexes(&[spec(&[title(), picture()])]).unwrap();
    let id = films.search_indexes().unwrap().unwrap()[0].id.clone();
    let first = tables(&db, &films);
    let update = |fields: &[Document]| films.update_search_index("near", &raw(&definition(fields)));
    // One more, and in another order.
    update(&[sound(), title(), picture()]).unwrap();
    assert_eq!(paths(&films), ["sound", "title", "picture.codes", "odd"]);
    let second = tables(&db, &films);
    assert_eq!((second["title"], second["picture.codes"]), (first["title"], first["picture.codes"]));
    assert_eq!(films.vector_search(&by("sound", &[1.0; 64])).unwrap().len(), 3);
    db.check().unwrap();
    // One less: nothing is built.
    update(&[sound(), picture()]).unwrap();
    assert_eq!(paths(&films), ["sound", "picture.codes", "odd"]);
    assert_eq!(code(films.vector_search(&by("title", &[1.0, 1.0]))), ErrorCode::BadValue);
    assert_eq!(tables(&db, &films)["sound"], second["sound"]);
    db.check().unwrap();
    // One that is different.
    let mut other = picture();
    other.insert("similarity", "euclidean");
    update(&[sound(), other.clone()]).unwrap();
    let third = tables(&db, &films);
    assert!(third["sound"] == second["sound"] && third["picture.codes"] != second["picture.codes"]);
    assert_eq!(found(&films, "picture.codes", &[4.0, 10.0, 1.6])[0], 4);
    // One alone, which the others do not need.
    update(&[other]).unwrap();
    let alone = VectorSearchRequest::new("near", vec![4.0, 10.0, 1.6], 1);
    assert_eq!(ids(&films.vector_search(&alone).unwrap()), [4]);
    assert_eq!(films.search_indexes().unwrap().unwrap()[0].id, id);
    db.check().unwrap();
}

#[test]
fn two_fields_of_one_path_and_other_indexes_of_the_name_are_refused() {
    let (db, films) = films_on(&SimDisk::new());
    let error = films.create_search_indexes(&[spec(&[title(), picture(), title()])]).unwrap_err();
    assert_eq!(error.code, ErrorCode::CannotCreateIndex);
    assert!(error.message.contains("'title'"), "{error}");
    films.create_search_indexes(&[spec(&[title(), picture()])]).unwrap();
    // The same again is no error; with a field less it is another index.
    films.create_search_indexes(&[spec(&[title(), picture()])]).unwrap();
    assert_eq!(tables(&db, &films).len(), 2);
    for fields in [vec![title()], vec![picture(), title()], vec![title(), picture(), sound()]] {
        assert_eq!(code(films.create_search_indexes(&[spec(&fields)])), ErrorCode::IndexAlreadyExists);
    }
    assert_eq!(
        code(films.update_search_index("near", &raw(&definition(&[title(), title()])))),
        ErrorCode::CannotCreateIndex
    );
    assert_eq!(paths(&films), ["title", "picture.codes", "odd"]);
}

#[test]
fn a_definition_that_would_take_much_memory_for_each_field_is_refused() {
    let (_, films) = films_on(&SimDisk::new());
    let many: Vec<_> = (0..20_000).map(|at| field(&format!("v{at}"), 1, "cosine")).collect();
    let filters: Vec<_> = (0..5000).map(|at| doc! { "type": "filter", "path": format!("f{at}") }).collect();
    let long = field(&"v".repeat(1 << 16), 2, "cosine");
    for fields in [many, vec![title(), long.clone()], [vec![title(), sound()], filters.clone()].concat()] {
        let spec = raw(&doc! { "name": "near", "type": "vectorSearch", "definition": { "fields": fields } });
        assert_eq!(code(films.create_search_indexes(&[spec])), ErrorCode::CannotCreateIndex);
    }
    // One field is none too many.
    for fields in [vec![long], [vec![title()], filters].concat()] {
        let spec = raw(&doc! { "name": "near", "type": "vectorSearch", "definition": { "fields": fields } });
        films.create_search_indexes(&[spec]).unwrap();
        films.drop_search_index("near").unwrap();
    }
}

#[test]
fn a_field_that_is_rebuilt_for_its_scores_leaves_the_others_of_its_search_index() {
    let disk = SimDisk::new();
    let (db, films) = films_on(&disk);
    films.create_search_indexes(&[spec(&[title(), picture(), sound()])]).unwrap();
    let before = tables(&db, &films);
    drop(films);
    db.close().unwrap();
    let store = treedb_storage::Store::open_with("/data/documents", options(&disk)).unwrap();
    let mut txn = store.begin_write().unwrap();
    let catalog = txn.table("catalog").unwrap().unwrap();
    let entry = txn.get(&catalog, b"shop.films").unwrap().unwrap();
    let mut entry = Document::from_reader(entry).unwrap();
    for index in entry.get_array_mut("indexes").unwrap() {
        let index = index.as_document_mut().unwrap();
        if index.get_str("path").is_ok_and(|path| path == "picture.codes") {
            index.insert("reaching", true);
        }
    }
    txn.put(&catalog, b"shop.films", &entry.to_vec().unwrap()).unwrap();
    txn.commit().unwrap();
    store.close().unwrap();
    let db = open(&disk).unwrap();
    let films = db.collection("shop.films").unwrap();
    let after = tables(&db, &films);
    assert_eq!(after.len(), 3);
    for (path, table) in &before {
        assert_eq!(after[path] == *table, path != "picture.codes", "{path}");
    }
    assert_eq!(found(&films, "title", &[7.0, 0.0]).first(), Some(&7));
    db.check().unwrap();
}

/// The definitions of the fields.
fn definitions(fields: &[Document]) -> Vec<Definition> {
    IndexSpec::from_document(&spec(fields)).definitions(&Collation::Simple).unwrap()
}

/// Builds an index until it has read all rows.
fn build(db: &Database, films: &Collection, id: i64) {
    while advance(db, films.namespace(), id, |_| {}).unwrap() == crate::index::Progress::More {}
}

#[test]
fn a_search_index_is_queryable_when_its_last_field_is_built_also_after_a_crash_in_between() {
    for crash in [false, true] {
        let disk = SimDisk::new();
        let (db, films) = films_on(&disk);
        let begun = db.edit(films.namespace(), false, None, |edit| {
            definitions(&[title(), picture()])
                .iter()
                .map(|def| add_empty(edit, def))
                .collect::<Result<Vec<_>>>()
        });
        let new = begun.unwrap().unwrap();
        build(&db, &films, new[0]);
        let listed = &films.search_indexes().unwrap().unwrap()[0];
        assert_eq!((listed.ready, listed.queryable), (false, false));
        assert_eq!(code(films.vector_search(&by("title", &[20.1, 0.0]))), ErrorCode::IndexNotFound);
        db.check().unwrap();
        // What is written meanwhile is in the field that is complete.
        films.insert_one(raw(&doc! { "_id": 90, "title": [20, 0] })).unwrap();
        let (db, films) = if crash {
            drop((films, db));
            let db = open(&disk.crash(Crash::Everything)).unwrap();
            let films = db.collection("shop.films").unwrap();
            (db, films)
        } else {
            build(&db, &films, new[1]);
            (db, films)
        };
        let listed = &films.search_indexes().unwrap().unwrap()[0];
        assert!(listed.ready && listed.queryable);
        let mut nearest = found(&films, "title", &[20.1, 0.0]);
        nearest.truncate(2);
        nearest.sort_unstable();
        assert_eq!(nearest, [20, 90]);
        assert_eq!(found(&films, "picture.codes", &[4.0, 10.0, 1.6])[0], 4);
        db.check().unwrap();
    }
}

#[test]
fn searches_use_the_index_as_it_was_until_all_new_fields_are_built() {
    let disk = SimDisk::new();
    let (db, films) = films_on(&disk);
    films.create_search_indexes(&[spec(&[title(), sound()])]).unwrap();
    let mut other = title();
    other.insert("similarity", "cosine");
    let begun = db.edit(films.namespace(), false, None, |edit| {
        let new = definitions(&[other.clone(), picture(), sound()]);
        new.iter().take(2).map(|def| add_empty(edit, def)).collect::<Result<Vec<_>>>()
    });
    let new = begun.unwrap().unwrap();
    build(&db, &films, new[1]);
    let listed = &films.search_indexes().unwrap().unwrap()[0];
    assert_eq!((listed.ready, listed.queryable), (false, true));
    assert_eq!(paths(&films), ["title", "picture.codes", "sound", "odd"]);
    assert_eq!(found(&films, "title", &[20.1, 0.0]), [20, 21, 19]);
    assert_eq!(code(films.vector_search(&by("picture.codes", &[1.0; 3]))), ErrorCode::BadValue);
    // Another update gives that up.
    films.update_search_index("near", &raw(&definition(&[sound(), title()]))).unwrap();
    assert_eq!(tables(&db, &films).len(), 2);
    assert_eq!(paths(&films), ["sound", "title", "odd"]);
    db.check().unwrap();
    films.update_search_index("near", &raw(&definition(&[other, picture(), sound()]))).unwrap();
    assert_eq!(tables(&db, &films).len(), 3);
    assert_eq!(films.vector_search(&by("sound", &[1.0; 64])).unwrap().len(), 3);
    let scores = |path, vector: &[f32]| films.vector_search(&by(path, vector)).unwrap()[0].score;
    assert!((scores("title", &[1.0, 0.0]) - 1.0).abs() < 1e-6);
    db.check().unwrap();
}

#[test]
fn a_copy_that_is_made_during_an_update_has_the_index_as_it_was() {
    let disk = SimDisk::new();
    let (db, films) = films_on(&disk);
    films.create_search_indexes(&[spec(&[title()])]).unwrap();
    let new = definitions(&[title(), picture()]).remove(1);
    db.edit(films.namespace(), false, None, |edit| add_empty(edit, &new)).unwrap().unwrap();
    db.store().backup_to("/data/copy", |_| {}).unwrap();
    let copy = Database::open_copy("/data/copy", options(&disk)).unwrap();
    let films = copy.collection("shop.films").unwrap();
    assert_eq!(paths(&films), ["title", "odd"]);
    assert!(films.search_indexes().unwrap().unwrap()[0].ready);
    copy.check().unwrap();
}

#[test]
fn an_index_that_an_earlier_version_was_replacing_for_its_filters_is_there_once() {
    let (db, films) = films_on(&SimDisk::new());
    let without =
        raw(&doc! { "name": "near", "type": "vectorSearch", "definition": { "fields": [title()] } });
    films.create_search_indexes(&[without]).unwrap();
    let begun = db.edit(films.namespace(), false, None, |edit| add_empty(edit, &definitions(&[title()])[0]));
    build(&db, &films, begun.unwrap().unwrap());
    assert_eq!(paths(&films), ["title", "odd"]);
    let reads = db.inner.store.begin_read().unwrap();
    assert_eq!(db.inner.catalog.find(&reads, films.namespace()).unwrap().unwrap().indexes.len(), 2);
}

#[test]
fn statistics_count_the_fields_of_a_search_index_as_one() {
    let (db, films) = films_on(&SimDisk::new());
    films.create_search_indexes(&[spec(&[title(), picture()])]).unwrap();
    films.vector_search(&by("title", &[1.0, 1.0])).unwrap();
    films.vector_search(&by("picture.codes", &[1.0; 3])).unwrap();
    let uses = db.index_uses(10).unwrap();
    assert_eq!(uses.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>(), ["_id_", "near"]);
    let stats = films.aggregate(&AggregateRequest::new([raw(&doc! { "$indexStats": {} })])).unwrap();
    let stats: Vec<_> = stats.map(|one| Document::try_from(&*one.unwrap()).unwrap()).collect();
    assert_eq!(stats.len(), 2);
    let near = &stats[1];
    assert!(near.get_document("accesses").unwrap().get_i64("ops").is_ok());
    let key = near.get_document("key").unwrap();
    assert_eq!(key, &doc! { "title": "vectorSearch", "picture.codes": "vectorSearch" });
    let stats = doc! { "$collStats": { "storageStats": {} } };
    let stats = films.aggregate(&AggregateRequest::new([raw(&stats)])).unwrap().next().unwrap().unwrap();
    let stats = Document::try_from(&*stats).unwrap();
    let stats = stats.get_document("storageStats").unwrap();
    assert_eq!(stats.get("nindexes"), Some(&Bson::Int32(2)));
    assert_eq!(stats.get_document("indexSizes").unwrap().len(), 2);
}
