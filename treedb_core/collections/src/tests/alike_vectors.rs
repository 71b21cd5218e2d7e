//! Vector indexes of vectors that have far more in common than they differ: their codes are about a centre.

use bson::{Document, doc, rawdoc};
use treedb_storage::Reads;
use treedb_testing::{Alike, Rng};

use super::*;
use crate::{Collection, DeleteRequest, IndexSpec, UpdateRequest, VectorSearchRequest};

pub(super) const DIMENSIONS: usize = 96;
const DOCUMENTS: i32 = 1500;
pub(super) const SIMILARITIES: [&str; 3] = ["cosine", "euclidean", "dotProduct"];

/// Vectors of these tests, whose elements are so many times as far from zero as they are spread.
pub(super) fn alike(offset: f32) -> Alike {
    Alike::new(1, DIMENSIONS, offset)
}

fn stored(alike: &mut Alike) -> Vec<f64> {
    alike.vector().into_iter().map(f64::from).collect()
}

pub(super) fn document(alike: &mut Alike, id: i32) -> RawDocumentBuf {
    raw(&doc! { "_id": id, "v": stored(alike) })
}

pub(super) fn things(db: &Database) -> Collection {
    db.collection("shop.things").unwrap()
}

pub(super) fn create_index(db: &Database, similarity: &str, quantization: &str) {
    let definition = rawdoc! {
        "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": similarity, "quantization": quantization,
    };
    things(db).create_index(IndexSpec::vector(definition).name("near")).unwrap();
}

/// A collection of vectors that are alike, with an index.
pub(super) fn indexed(disk: &SimDisk, alike: &mut Alike, similarity: &str, quantization: &str) -> Database {
    let db = open(disk).unwrap();
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(alike, id)).collect();
    things(&db).insert_many(&documents, true).unwrap();
    create_index(&db, similarity, quantization);
    db
}

/// The part of the ten nearest that searches with some candidates find.
pub(super) fn recall(db: &Database, alike: &mut Alike, searches: usize) -> f64 {
    let mut hits = 0;
    for _ in 0..searches {
        let request = VectorSearchRequest::new("near", alike.vector(), 10).candidates(60);
        let ids = |request: &VectorSearchRequest| -> Vec<i32> {
            let found = things(db).vector_search(request).unwrap();
            found.iter().map(|one| one.document.get_i32("_id").unwrap()).collect()
        };
        let (found, exact) = (ids(&request), ids(&request.clone().exact()));
        assert_eq!(found.len(), 10);
        hits += exact.iter().filter(|id| found.contains(id)).count();
    }
    f64::from(hits as u32) / (10 * searches) as f64
}

/// What searches find at least. By inner product, such vectors are in about the same order for all queries.
pub(super) fn least(similarity: &str) -> f64 {
    if similarity == "dotProduct" { 0.95 } else { 0.97 }
}

/// The version of a catalog entry with an index that has a centre.
fn version(similarity: &str) -> i32 {
    if similarity == "dotProduct" { 15 } else { 13 }
}

/// The catalog entry of the collection.
pub(super) fn entry(db: &Database) -> Document {
    let reads = db.store().begin_read().unwrap();
    let catalog = reads.table("catalog").unwrap().unwrap();
    Document::from_reader(reads.get(&catalog, b"shop.things").unwrap().unwrap()).unwrap()
}

#[test]
fn scalar_finds_as_much_as_none_however_far_from_zero_all_vectors_are() {
    for similarity in SIMILARITIES {
        for offset in [5.0, 10.0, 20.0] {
            let [scalar, none] = ["scalar", "none"].map(|quantization| {
                let mut alike = alike(offset);
                let db = indexed(&SimDisk::new(), &mut alike, similarity, quantization);
                let centred = entry(&db).get_array("indexes").unwrap()[1]
                    .as_document()
                    .unwrap()
                    .contains_key("centred");
                assert_eq!(centred, quantization == "scalar", "{similarity}, {offset}");
                assert_eq!(entry(&db).get_i32("v").unwrap() == version(similarity), centred);
                // By the image, and by the table.
                [1 << 30, 0].map(|memory| {
                    db.set_vector_memory(memory);
                    recall(&db, &mut alike, if memory > 0 { 40 } else { 15 })
                })
            });
            println!("{similarity}, {offset}: {scalar:?} scalar, {none:?} none");
            for (scalar, none) in scalar.into_iter().zip(none) {
                assert!(scalar >= none - 0.02, "{similarity}, {offset}: {scalar}, none {none}");
            }
        }
    }
}

#[test]
fn what_is_written_after_a_build_is_coded_about_the_same_centre_and_found() {
    for similarity in SIMILARITIES {
        let lost = if similarity == "dotProduct" { 0.05 } else { 0.03 };
        let (disk, mut alike, mut rng) = (SimDisk::new(), alike(20.0), Rng::new(3));
        let db = indexed(&disk, &mut alike, similarity, "scalar");
        let before = recall(&db, &mut alike, 30);
        let mut next = DOCUMENTS;
        for _ in 0..3 {
            let from = rng.below(next as usize - 150) as i32;
            things(&db)
                .delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": from, "$lt": from + 100 } }))
                .unwrap();
            for id in from + 100..from + 150 {
                let set = raw(&doc! { "$set": { "v": stored(&mut alike) } });
                things(&db).update(UpdateRequest::one(rawdoc! { "_id": id }, set)).unwrap();
            }
            let new: Vec<_> = (next..next + 100).map(|id| document(&mut alike, id)).collect();
            things(&db).insert_many(&new, true).unwrap();
            next += 100;
            for memory in [1 << 30, 0] {
                db.set_vector_memory(memory);
                let after = recall(&db, &mut alike, 20);
                assert!(after >= before - lost, "{similarity}: {before} before, {after} after");
            }
            db.check().unwrap();
        }
        // An image of it is saved and read again.
        db.set_vector_memory(1 << 30);
        let before = recall(&db, &mut alike, 30);
        db.close().unwrap();
        let db = open(&disk).unwrap();
        let after = recall(&db, &mut alike, 30);
        let memory = db.vector_memory_use();
        assert_eq!((memory.built, memory.loaded), (0, 1), "{similarity}");
        assert!(after >= before - lost, "{similarity}: {before} before, {after} after");
        // All vectors may go, and others come.
        things(&db).delete(DeleteRequest::many(rawdoc! {})).unwrap();
        assert!(
            things(&db)
                .vector_search(&VectorSearchRequest::new("near", alike.vector(), 5))
                .unwrap()
                .is_empty()
        );
        db.check().unwrap();
        let new: Vec<_> = (0..300).map(|id| document(&mut alike, id)).collect();
        things(&db).insert_many(&new, true).unwrap();
        let found = recall(&db, &mut alike, 20);
        assert!(found >= least(similarity), "{similarity}: {found}");
        db.check().unwrap();
    }
}

#[test]
fn an_index_that_was_made_before_there_were_documents_has_the_centre_of_the_first_that_come_together() {
    for (similarity, offset) in [("cosine", 20.0), ("euclidean", 20.0), ("dotProduct", 20.0), ("cosine", 0.0)]
    {
        let (mut alike, db) = (alike(offset), open(&SimDisk::new()).unwrap());
        things(&db).insert_one(raw(&doc! { "_id": -1 })).unwrap();
        create_index(&db, similarity, "scalar");
        for from in [0, 100, 200] {
            let documents: Vec<_> = (from..from + 100).map(|id| document(&mut alike, id)).collect();
            things(&db).insert_many(&documents, true).unwrap();
        }
        assert_eq!(entry(&db).get_i32("v").unwrap(), if offset > 0.0 { version(similarity) } else { 7 });
        let found = recall(&db, &mut alike, 20);
        assert!(found >= least(similarity), "{similarity}: {found}");
        db.check().unwrap();
    }
}

#[test]
fn an_image_is_built_anew_when_an_index_that_was_emptied_gets_a_centre() {
    let (mut unlike, mut alike, db) = (alike(0.0), alike(20.0), open(&SimDisk::new()).unwrap());
    let documents: Vec<_> = (0..300).map(|id| document(&mut unlike, id)).collect();
    things(&db).insert_many(&documents, true).unwrap();
    create_index(&db, "cosine", "scalar");
    recall(&db, &mut unlike, 30);
    assert_eq!((entry(&db).get_i32("v").unwrap(), db.vector_memory_use().built), (7, 1));
    things(&db).delete(DeleteRequest::many(rawdoc! {})).unwrap();
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(&mut alike, id)).collect();
    things(&db).insert_many(&documents, true).unwrap();
    let found = recall(&db, &mut alike, 30);
    assert!(found > 0.97, "{found}");
    assert_eq!((entry(&db).get_i32("v").unwrap(), db.vector_memory_use().built), (13, 2));
}

#[test]
fn documents_without_vectors_do_not_hide_that_vectors_are_alike() {
    for index_first in [false, true] {
        let (mut alike, db) = (alike(20.0), open(&SimDisk::new()).unwrap());
        things(&db).insert_one(raw(&doc! { "_id": -1 })).unwrap();
        if index_first {
            create_index(&db, "cosine", "scalar");
        }
        let with_some =
            |id: i32| if id % 40 == 0 { document(&mut alike, id) } else { raw(&doc! { "_id": id }) };
        let documents: Vec<_> = (0..12_000).map(with_some).collect();
        things(&db).insert_many(&documents, true).unwrap();
        if !index_first {
            create_index(&db, "cosine", "scalar");
        }
        assert_eq!(entry(&db).get_i32("v").unwrap(), 13);
        db.check().unwrap();
    }
}

#[test]
fn vectors_that_are_not_alike_and_quantizations_without_codes_have_no_centre() {
    for (offset, quantization, centred) in
        [(0.0, "scalar", false), (20.0, "none", false), (20.0, "bits4", true), (20.0, "scalar", true)]
    {
        let mut alike = alike(offset);
        let db = indexed(&SimDisk::new(), &mut alike, "euclidean", quantization);
        let entry = entry(&db);
        let index = entry.get_array("indexes").unwrap()[1].as_document().unwrap();
        assert_eq!(index.contains_key("centred"), centred, "{offset} {quantization}");
        // What a search finds is in exact order, by documents too.
        let candidates = VectorSearchRequest::new("near", alike.vector(), 10).candidates(1500);
        let distances = |request: &VectorSearchRequest| -> Vec<u32> {
            let found = things(&db).vector_search(request).unwrap();
            found.iter().map(|one| one.distance.to_bits()).collect()
        };
        assert_eq!(distances(&candidates), distances(&candidates.clone().exact()), "{offset} {quantization}");
        db.check().unwrap();
    }
}

#[test]
fn by_inner_product_the_nearest_of_alike_vectors_are_found_however_the_index_got_them() {
    for offset in [5.0, 20.0, 100.0] {
        let (disk, mut alike) = (SimDisk::new(), alike(offset));
        let db = indexed(&disk, &mut alike, "dotProduct", "scalar");
        let found = |db: &Database, alike: &mut Alike| {
            [1 << 30, 0].map(|memory| {
                db.set_vector_memory(memory);
                recall(db, alike, if memory > 0 { 40 } else { 15 })
            })
        };
        let built = found(&db, &mut alike);
        for id in DOCUMENTS..DOCUMENTS + 300 {
            things(&db).insert_one(document(&mut alike, id)).unwrap();
        }
        things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 600 } })).unwrap();
        let later = found(&db, &mut alike);
        println!("{offset}: {built:?} built, {later:?} later");
        assert!(built.iter().chain(&later).all(|found| *found >= 0.95), "{offset}: {built:?}, {later:?}");
        db.check().unwrap();
    }
}

#[test]
fn an_index_whose_links_were_chosen_by_inner_products_goes_on_so() {
    let (disk, mut alike) = (SimDisk::new(), alike(20.0));
    let db = indexed(&disk, &mut alike, "dotProduct", "scalar");
    let name = format!("index/{}/1", entry(&db).get_i64("id").unwrap());
    let centre = |db: &Database| {
        let (reads, mut found) = (db.store().begin_read().unwrap(), Vec::new());
        let table = reads.table(&name).unwrap().unwrap();
        assert!(reads.visit_row(&table, 0, &mut |record| found = record.to_vec()).unwrap());
        found
    };
    let record = centre(&db);
    assert_eq!(record.len(), 4 * DIMENSIONS + 4);
    // As an earlier version has written it.
    let mut txn = db.store().begin_write().unwrap();
    let table = txn.table(&name).unwrap().unwrap();
    txn.put_row(&table, 0, &record[..4 * DIMENSIONS]).unwrap();
    txn.commit().unwrap();
    db.check().unwrap();
    let new: Vec<_> = (DOCUMENTS..DOCUMENTS + 100).map(|id| document(&mut alike, id)).collect();
    things(&db).insert_many(&new, true).unwrap();
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 50 } })).unwrap();
    recall(&db, &mut alike, 5);
    db.check().unwrap();
    assert_eq!(centre(&db), record[..4 * DIMENSIONS]);
}

#[test]
fn a_centre_that_is_damaged_is_reported() {
    let mut alike = alike(20.0);
    let db = indexed(&SimDisk::new(), &mut alike, "cosine", "scalar");
    let entry = entry(&db);
    let index = entry.get_array("indexes").unwrap()[1].as_document().unwrap().get_i64("id").unwrap();
    let name = format!("index/{}/{index}", entry.get_i64("id").unwrap());
    let store = db.store();
    let (reads, mut longer) = (store.begin_read().unwrap(), Vec::new());
    let table = reads.table(&name).unwrap().unwrap();
    assert!(reads.visit_row(&table, 0, &mut |record| longer = record.to_vec()).unwrap());
    drop(reads);
    longer.push(0);
    for bytes in [Some(longer), Some(vec![1, 2, 3]), Some([255; 4 * DIMENSIONS].to_vec()), None] {
        let mut txn = store.begin_write().unwrap();
        let table = txn.table(&name).unwrap().unwrap();
        match bytes {
            Some(bytes) => txn.put_row(&table, 0, &bytes).unwrap(),
            None => drop(txn.delete_row(&table, 0).unwrap()),
        }
        txn.commit().unwrap();
        assert!(db.check().is_err());
    }
}
