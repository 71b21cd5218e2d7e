//! Vector indexes that get a centre while they grow, of vectors that have far more in common than they differ: as good as if they had been
//! built, whatever they were filled by, and whatever happens when the centre is chosen.

use std::sync::atomic::{AtomicBool, Ordering};

use bson::{Bson, doc, rawdoc};
use treedb_storage::disk::crash::Crash;
use treedb_storage::{Durability, Reads};
use treedb_testing::Alike;

use super::alike_vectors::{
    DIMENSIONS, SIMILARITIES, alike, create_index, document, entry, indexed, least, recall, things,
};
use super::*;
use crate::catalog::namespace::Namespace;
use crate::index::Progress;
use crate::maintenance::backfill::advance;
use crate::maintenance::index_build::add;
use crate::{DeleteRequest, IndexSpec, UpdateRequest, VectorSearchRequest};

/// Vectors that make an index be judged first, and if it is not alike then.
const JUDGED: i32 = 32;
const JUDGED_AGAIN: i32 = 256;

/// A collection without documents, with an index.
fn empty(disk: &SimDisk, similarity: &str, quantization: &str) -> Database {
    let db = open(disk).unwrap();
    db.create_collection("shop.things", doc! {}).unwrap();
    create_index(&db, similarity, quantization);
    db
}

/// Inserts documents of these numbers, one by one.
fn insert(db: &Database, alike: &mut Alike, ids: std::ops::Range<i32>) {
    let things = things(db).with_durability(Durability::None);
    ids.for_each(|id| drop(things.insert_one(document(alike, id)).unwrap()));
}

/// Inserts documents of the numbers up to this one, which has to be less than [`JUDGED_AGAIN`]: the first are not alike, as there are others among
/// them, which do not stay.
fn insert_unjudged(db: &Database, alike: &mut Alike, dimensions: usize, end: i32) {
    insert(db, &mut Alike::new(2, dimensions, 0.0), -4..0);
    insert(db, alike, 0..JUDGED);
    things(db).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 0 } })).unwrap();
    insert(db, alike, JUDGED..end);
    assert!(!has_centre(db));
}

/// The name of the index's table.
fn table_name(db: &Database) -> String {
    let entry = entry(db);
    let index = entry.get_array("indexes").unwrap()[1].as_document().unwrap();
    format!("index/{}/{}", entry.get_i64("id").unwrap(), index.get_i64("id").unwrap())
}

/// Whether the index has a centre; the catalog entry says so too.
fn has_centre(db: &Database) -> bool {
    let reads = db.store().begin_read().unwrap();
    let table = reads.table(&table_name(db)).unwrap().unwrap();
    let there = reads.visit_row(&table, 0, &mut |_| ()).unwrap();
    let is_noted = entry(db).get_array("indexes").unwrap()[1].as_document().unwrap().contains_key("centred");
    assert!(!there || is_noted);
    there
}

/// The recall by the image, and by the table.
fn recalls(db: &Database, alike: &mut Alike) -> [f64; 2] {
    [1 << 30, 0].map(|memory| {
        db.set_vector_memory(memory);
        recall(db, alike, if memory > 0 { 40 } else { 15 })
    })
}

#[test]
fn an_index_that_is_filled_one_by_one_finds_as_much_as_one_that_is_built() {
    for similarity in SIMILARITIES {
        for (quantization, count) in [
            ("scalar", JUDGED),
            ("scalar", JUDGED_AGAIN),
            ("bits4", JUDGED),
            ("bits2", JUDGED_AGAIN),
            ("binary", JUDGED_AGAIN),
        ] {
            let mut vectors = alike(20.0);
            let grown = empty(&SimDisk::new(), similarity, quantization);
            if count == JUDGED {
                insert(&grown, &mut vectors, 0..count - 1);
            } else {
                insert_unjudged(&grown, &mut vectors, DIMENSIONS, count - 1);
            }
            assert!(!has_centre(&grown), "{similarity}, {quantization}");
            insert(&grown, &mut vectors, count - 1..count);
            assert!(has_centre(&grown), "{similarity}, {quantization}");
            let at_once = recalls(&grown, &mut vectors);
            assert!(at_once[0] >= least(similarity), "{similarity}, {quantization}: {at_once:?}");
            grown.check().unwrap();
            insert(&grown, &mut vectors, count..1500);
            grown.check().unwrap();
            let found = recalls(&grown, &mut vectors);
            let mut same = alike(20.0);
            let built = indexed(&SimDisk::new(), &mut same, similarity, quantization);
            let by_build = recalls(&built, &mut same);
            println!(
                "{similarity}, {quantization}: {at_once:?} at once, {found:?} grown, {by_build:?} built"
            );
            let lost = if similarity == "dotProduct" { 0.1 } else { 0.03 };
            for (found, built) in found.into_iter().zip(by_build) {
                assert!(found >= built - lost, "{similarity}, {quantization}: {found}, built {built}");
            }
        }
    }
}

#[test]
fn an_index_that_is_filled_by_batches_of_any_size_gets_a_centre() {
    for (first, batch, count) in
        [(1, 5, 400), (1, 100, 400), (100, 1, 400), (1, 3000, 3001), (200, 2000, 2200)]
    {
        for similarity in SIMILARITIES {
            let (mut unlike, mut vectors) = (alike(0.0), alike(20.0));
            let db = empty(&SimDisk::new(), similarity, "scalar");
            // What comes first does not tell, but does not stay either.
            let documents: Vec<_> = (0..first).map(|id| document(&mut unlike, id)).collect();
            things(&db).insert_many(&documents, true).unwrap();
            let all = rawdoc! { "_id": { "$gte": 1 } };
            things(&db).delete(DeleteRequest::many(all)).unwrap();
            for from in (first..count).step_by(batch as usize) {
                let ids = from..(from + batch).min(count);
                let documents: Vec<_> = ids.map(|id| document(&mut vectors, id)).collect();
                things(&db).insert_many(&documents, true).unwrap();
            }
            assert!(has_centre(&db), "{similarity}, {first}, {batch}");
            let found = recall(&db, &mut vectors, 30);
            assert!(found >= least(similarity), "{similarity}, {first}, {batch}: {found}");
            db.check().unwrap();
        }
    }
}

#[test]
fn an_index_whose_first_vectors_are_of_another_kind_is_judged_again_when_it_has_many() {
    let (mut unlike, mut vectors) = (Alike::new(1, 8, 0.0), Alike::new(2, 8, 20.0));
    let db = open(&SimDisk::new()).unwrap();
    let definition =
        rawdoc! { "path": "v", "numDimensions": 8, "similarity": "euclidean", "quantization": "scalar" };
    db.create_collection("shop.things", doc! {}).unwrap();
    things(&db).create_index(IndexSpec::vector(definition).name("near")).unwrap();
    insert(&db, &mut unlike, 0..300);
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": 20, "$lt": 200 } })).unwrap();
    let documents: Vec<_> = (300..4200).map(|id| document(&mut vectors, id)).collect();
    for some in documents[..3800].chunks(950) {
        things(&db).insert_many(some, true).unwrap();
    }
    // Of the first there are 120 left.
    assert!(!has_centre(&db));
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 300 } })).unwrap();
    insert(&db, &mut vectors, 4200..4495);
    assert!(!has_centre(&db));
    insert(&db, &mut vectors, 4495..4497);
    assert!(has_centre(&db));
    db.check().unwrap();
    let found = recall(&db, &mut vectors, 30);
    assert!(found > 0.97, "{found}");
}

#[test]
fn an_index_of_an_earlier_version_that_has_no_centre_gets_one_with_the_next_vector() {
    // Such an index, and one of a database that is opened again, is not known to have been judged.
    let (disk, mut vectors) = (SimDisk::new(), alike(20.0));
    let db = empty(&disk, "cosine", "scalar");
    insert_unjudged(&db, &mut vectors, DIMENSIONS, JUDGED_AGAIN - 1);
    // One document has many vectors of another kind.
    let mut unlike = alike(0.0);
    let chunks: Vec<Bson> =
        (0..40).map(|_| unlike.vector().into_iter().map(f64::from).collect::<Vec<_>>().into()).collect();
    things(&db).insert_one(raw(&doc! { "_id": 1000, "v": chunks })).unwrap();
    things(&db).delete(DeleteRequest::one(rawdoc! { "_id": 1000 })).unwrap();
    insert(&db, &mut vectors, JUDGED_AGAIN - 1..350);
    assert!(!has_centre(&db));
    db.close().unwrap();
    let db = open(&disk).unwrap();
    assert!(!has_centre(&db));
    insert(&db, &mut vectors, 350..351);
    assert!(has_centre(&db));
    let found = recall(&db, &mut vectors, 30);
    assert!(found > 0.97, "{found}");
    db.check().unwrap();
}

#[test]
fn by_inner_product_an_index_is_linked_anew_when_its_vectors_have_outgrown_what_links_were_chosen_with() {
    // The last vectors are a little longer than the first, whose order by inner product is nearly that of their lengths.
    let (mut vectors, db) = (alike(100.0), empty(&SimDisk::new(), "dotProduct", "scalar"));
    let centre = || {
        let reads = db.store().begin_read().unwrap();
        let (table, mut centre) = (reads.table(&table_name(&db)).unwrap().unwrap(), Vec::new());
        reads.visit_row(&table, 0, &mut |row| centre = row.to_vec()).unwrap();
        centre
    };
    let mut insert_longer = |ids: std::ops::Range<i32>| {
        for id in ids {
            vectors.set_offset(100.0 + id as f32 / 100.0);
            insert(&db, &mut vectors, id..id + 1);
        }
    };
    insert_longer(0..JUDGED);
    let first = centre();
    insert_longer(JUDGED..JUDGED_AGAIN - 1);
    assert!(!first.is_empty() && centre() == first);
    insert_longer(JUDGED_AGAIN - 1..JUDGED_AGAIN);
    let second = centre();
    assert!(second.len() == first.len() && second != first);
    insert_longer(JUDGED_AGAIN..600);
    assert!(centre() == second);
    db.check().unwrap();
    let found = recalls(&db, &mut vectors);
    println!("{found:?}");
    assert!(found.iter().all(|found| *found >= 0.95), "{found:?}");
    // Others, of which none is longer than those before, leave an index as it is.
    for similarity in SIMILARITIES {
        let (mut vectors, db) = (alike(20.0), empty(&SimDisk::new(), similarity, "scalar"));
        insert(&db, &mut vectors, 0..JUDGED_AGAIN - 1);
        let table = db.store().begin_read().unwrap().table(&table_name(&db)).unwrap().unwrap();
        let row = |row: u64| {
            let mut bytes = Vec::new();
            db.store().begin_read().unwrap().visit_row(&table, row, &mut |row| bytes = row.to_vec()).unwrap();
            bytes
        };
        let before = row(0);
        insert(&db, &mut vectors, JUDGED_AGAIN - 1..JUDGED_AGAIN);
        assert!(!before.is_empty() && (similarity == "dotProduct" || row(0) == before), "{similarity}");
    }
}

#[test]
fn an_index_whose_links_have_scores_of_an_earlier_version_is_rebuilt_when_the_database_is_opened() {
    let (disk, mut vectors) = (SimDisk::new(), alike(20.0));
    let db = indexed(&disk, &mut vectors, "dotProduct", "scalar");
    let before = table_name(&db);
    db.close().unwrap();
    let store = treedb_storage::Store::open_with("/data/documents", options(&disk)).unwrap();
    let mut txn = store.begin_write().unwrap();
    let catalog = txn.table("catalog").unwrap().unwrap();
    let entry = txn.get(&catalog, b"shop.things").unwrap().unwrap();
    let mut entry = bson::Document::from_reader(entry).unwrap();
    assert_eq!(entry.insert("v", 14), Some(Bson::Int32(15)));
    let index = entry.get_array_mut("indexes").unwrap()[1].as_document_mut().unwrap();
    assert_eq!(index.insert("reaching", true), Some(Bson::Int32(2)));
    txn.put(&catalog, b"shop.things", &entry.to_vec().unwrap()).unwrap();
    txn.commit().unwrap();
    store.close().unwrap();
    let mut after = Vec::new();
    for _ in 0..2 {
        let db = open(&disk).unwrap();
        assert!(has_centre(&db));
        db.check().unwrap();
        let found = recalls(&db, &mut vectors);
        assert!(found.iter().all(|found| *found >= least("dotProduct")), "{found:?}");
        after.push(table_name(&db));
        db.close().unwrap();
    }
    // Once.
    assert!(after[0] == after[1] && after[0] != before, "{before}, {after:?}");
}

/// One to four vectors.
fn several(vectors: &mut Alike, id: i32) -> Bson {
    let mut vector = || vectors.vector().into_iter().map(f64::from).collect::<Vec<_>>();
    (0..1 + id % 4).map(|_| vector().into()).collect::<Vec<Bson>>().into()
}

#[test]
fn documents_with_several_vectors_and_updates_bring_an_index_to_its_centre() {
    for by_updates in [false, true] {
        let mut vectors = alike(20.0);
        let db = empty(&SimDisk::new(), "euclidean", "scalar");
        let mut count = 0;
        for id in 0..150 {
            let (value, before) = (several(&mut vectors, id), count);
            count += 1 + id % 4;
            if by_updates {
                things(&db).insert_one(raw(&doc! { "_id": id, "v": [1.0, 2.0] })).unwrap();
                let set = raw(&doc! { "$set": { "v": value } });
                things(&db).update(UpdateRequest::one(rawdoc! { "_id": id }, set)).unwrap();
            } else {
                things(&db).insert_one(raw(&doc! { "_id": id, "v": value })).unwrap();
            }
            assert_eq!(has_centre(&db), count >= JUDGED, "{before} vectors before document {id}");
        }
        db.check().unwrap();
        let found = recall(&db, &mut vectors, 30);
        assert!(found > 0.97, "{found}");
        // Vectors that are changed later are coded about it.
        for id in 0..100 {
            let set = raw(&doc! { "$set": { "v": several(&mut vectors, id) } });
            things(&db).update(UpdateRequest::one(rawdoc! { "_id": id }, set)).unwrap();
        }
        db.check().unwrap();
        let found = recall(&db, &mut vectors, 30);
        assert!(found > 0.97, "{found}");
    }
}

#[test]
fn vectors_that_are_not_alike_are_coded_about_zero_however_many_come() {
    for similarity in SIMILARITIES {
        let mut vectors = alike(0.0);
        let db = empty(&SimDisk::new(), similarity, "scalar");
        insert(&db, &mut vectors, 0..400);
        let documents: Vec<_> = (400..5000).map(|id| document(&mut vectors, id)).collect();
        things(&db).insert_many(&documents[..600], true).unwrap();
        assert!(!has_centre(&db));
        assert_eq!(entry(&db).get_i32("v").unwrap(), 7);
        db.check().unwrap();
    }
}

#[test]
fn a_build_without_memory_and_one_of_few_documents_choose_a_centre_too() {
    for (memory, count) in [(0, 1000), (0, 40), (1 << 30, 6), (1 << 30, 40)] {
        let mut vectors = alike(20.0);
        let db = open(&SimDisk::new()).unwrap();
        db.set_vector_memory(memory);
        let documents: Vec<_> = (0..count).map(|id| document(&mut vectors, id)).collect();
        things(&db).insert_many(&documents, true).unwrap();
        create_index(&db, "cosine", "scalar");
        assert_eq!(has_centre(&db), count >= 32, "{memory}, {count}");
        insert(&db, &mut vectors, count..JUDGED);
        assert!(has_centre(&db), "{memory}, {count}");
        let found = recall(&db, &mut vectors, 20);
        assert!(found > 0.97, "{memory}, {count}: {found}");
        db.check().unwrap();
    }
}

#[test]
fn a_build_has_a_centre_however_many_vectors_others_add_before_its_first_step() {
    for memory in [0, 1 << 30] {
        let mut vectors = Alike::new(1, 8, 20.0);
        let db = open(&SimDisk::new()).unwrap();
        db.set_vector_memory(memory);
        insert(&db, &mut vectors, 0..3);
        let namespace = Namespace::parse("shop.things").unwrap();
        let definition =
            rawdoc! { "path": "v", "numDimensions": 8, "similarity": "euclidean", "quantization": "scalar" };
        let spec = IndexSpec::vector(definition).name("near");
        let created = db
            .edit(&namespace, false, None, |edit| add(edit, &spec.definition(&edit.meta.collation)?))
            .unwrap();
        let id = created.flatten().unwrap();
        // More than are coded again: they are added to the index, which is being built.
        let documents: Vec<_> = (3..4200).map(|id| document(&mut vectors, id)).collect();
        things(&db).insert_many(&documents, true).unwrap();
        while !matches!(advance(&db, &namespace, id, |_| ()).unwrap(), Progress::Ready) {}
        assert!(has_centre(&db), "{memory}");
        db.check().unwrap();
        let found = recall(&db, &mut vectors, 20);
        assert!(found > 0.97, "{memory}: {found}");
    }
}

#[test]
fn searches_and_transactions_that_began_before_a_centre_was_chosen_find_what_they_see() {
    for memory in [1 << 30, 0] {
        let mut vectors = alike(20.0);
        let db = empty(&SimDisk::new(), "euclidean", "scalar");
        db.set_vector_memory(memory);
        insert_unjudged(&db, &mut vectors, DIMENSIONS, JUDGED_AGAIN - 1);
        recall(&db, &mut vectors, 5);
        let (mut first, mut second) = (db.begin().unwrap(), db.begin().unwrap());
        // The second has more of its own than makes the index be judged.
        first.collection("shop.things").unwrap().insert_one(document(&mut vectors, 1000)).unwrap();
        for id in 2000..2300 {
            second.collection("shop.things").unwrap().insert_one(document(&mut vectors, id)).unwrap();
        }
        let searched = |txn: &mut crate::Transaction, vectors: &mut Alike, count: usize| {
            let request = VectorSearchRequest::new("near", vectors.vector(), 2000).candidates(3000);
            let mine = txn.collection("shop.things").unwrap();
            let found = |request: &VectorSearchRequest| -> Vec<(u32, i32)> {
                let found = mine.vector_search(request).unwrap();
                let key =
                    |one: &crate::Neighbor| (one.distance.to_bits(), one.document.get_i32("_id").unwrap());
                let mut found: Vec<_> = found.iter().map(key).collect();
                found.sort_unstable();
                found
            };
            let exact = found(&request.clone().exact());
            assert_eq!(exact.len(), count);
            assert_eq!(found(&request), exact);
        };
        searched(&mut first, &mut vectors, 256);
        insert(&db, &mut vectors, JUDGED_AGAIN - 1..JUDGED_AGAIN);
        assert!(has_centre(&db));
        // Searches of the new state, and of the older ones, in turns.
        for _ in 0..3 {
            searched(&mut first, &mut vectors, 256);
            searched(&mut second, &mut vectors, 555);
            searched(&mut db.begin().unwrap(), &mut vectors, 256);
        }
        first.commit().unwrap();
        db.check().unwrap();
        second.commit().unwrap();
        db.check().unwrap();
        searched(&mut db.begin().unwrap(), &mut vectors, 557);
        let found = recall(&db, &mut vectors, 20);
        assert!(found > 0.97, "{found}");
    }
}

#[test]
fn a_transaction_that_chooses_a_centre_does_so_for_all_that_it_inserts_and_one_that_is_given_up_does_not() {
    let mut vectors = alike(20.0);
    let db = empty(&SimDisk::new(), "cosine", "scalar");
    insert(&db, &mut vectors, 0..20);
    for commits in [false, true] {
        let mut txn = db.begin().unwrap();
        for id in 20..700 {
            txn.collection("shop.things").unwrap().insert_one(document(&mut vectors, id)).unwrap();
        }
        if commits {
            txn.commit().unwrap();
        } else {
            txn.abort();
        }
        assert_eq!(has_centre(&db), commits);
        db.check().unwrap();
    }
    let found = recall(&db, &mut vectors, 30);
    assert!(found > 0.97, "{found}");
}

#[test]
fn what_was_judged_in_a_batch_that_is_given_up_is_judged_again() {
    let (mut vectors, mut unlike) = (alike(20.0), alike(0.0));
    let db = empty(&SimDisk::new(), "cosine", "scalar");
    insert(&db, &mut vectors, 0..20);
    for many in [false, true] {
        let mut batch = db.write_batch().unwrap();
        let documents: Vec<_> = (1000..1040).map(|id| document(&mut unlike, id)).collect();
        if many {
            batch.insert_many("shop.things", &documents, true).unwrap();
        } else {
            for document in &documents {
                batch.insert_many("shop.things", std::slice::from_ref(document), true).unwrap();
            }
        }
        drop(batch);
    }
    // One that would have made the index choose a centre, which it has not then.
    let mut batch = db.write_batch().unwrap();
    let documents: Vec<_> = (1000..1040).map(|id| document(&mut vectors, id)).collect();
    batch.insert_many("shop.things", &documents, true).unwrap();
    drop(batch);
    insert(&db, &mut vectors, 20..JUDGED - 1);
    assert!(!has_centre(&db));
    insert(&db, &mut vectors, JUDGED - 1..JUDGED);
    assert!(has_centre(&db));
    db.check().unwrap();
}

#[test]
fn searches_beside_a_writer_that_makes_an_index_choose_find_as_many_as_there_are() {
    let mut vectors = alike(20.0);
    let db = empty(&SimDisk::new(), "euclidean", "scalar");
    insert_unjudged(&db, &mut vectors, DIMENSIONS, 200);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut vectors = Alike::new(50 + seed, DIMENSIONS, 20.0);
                while !done.load(Ordering::Relaxed) {
                    let mut txn = db.begin().unwrap();
                    let mine = txn.collection("shop.things").unwrap();
                    let request = VectorSearchRequest::new("near", vectors.vector(), 500).candidates(1000);
                    let distances = |request: &VectorSearchRequest| -> Vec<u32> {
                        let found = mine.vector_search(request).unwrap();
                        found.iter().map(|one| one.distance.to_bits()).collect()
                    };
                    assert_eq!(distances(&request), distances(&request.clone().exact()));
                }
            });
        }
        insert(&db, &mut vectors, 200..330);
        done.store(true, Ordering::Relaxed);
    });
    assert!(has_centre(&db));
    db.check().unwrap();
}

#[test]
fn a_saved_image_of_an_index_that_has_got_a_centre_since_is_not_used() {
    let (disk, mut vectors) = (SimDisk::new(), alike(20.0));
    let db = empty(&disk, "euclidean", "scalar");
    insert_unjudged(&db, &mut vectors, DIMENSIONS, JUDGED_AGAIN - 1);
    recall(&db, &mut vectors, 5);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    insert(&db, &mut vectors, JUDGED_AGAIN - 1..300);
    let found = recall(&db, &mut vectors, 20);
    let memory = db.vector_memory_use();
    assert!(found > 0.97, "{found}");
    assert_eq!((memory.loaded, memory.built), (0, 1));
    db.close().unwrap();
    let db = open(&disk).unwrap();
    recall(&db, &mut vectors, 20);
    let memory = db.vector_memory_use();
    assert_eq!((memory.loaded, memory.built), (1, 0));
    db.check().unwrap();
}

#[test]
fn power_cuts_while_a_centre_is_chosen_leave_the_index_with_it_or_without() {
    let (disk, mut vectors) = (SimDisk::new(), Alike::new(1, 8, 20.0));
    let db = open(&disk).unwrap();
    db.create_collection("shop.things", doc! {}).unwrap();
    let definition =
        rawdoc! { "path": "v", "numDimensions": 8, "similarity": "cosine", "quantization": "scalar" };
    things(&db).create_index(IndexSpec::vector(definition).name("near")).unwrap();
    insert_unjudged(&db, &mut vectors, 8, JUDGED_AGAIN - 4);
    db.checkpoint().unwrap();
    disk.record();
    // When each of these documents was begun, and acknowledged.
    let mut inserted = Vec::new();
    for id in JUDGED_AGAIN - 4..JUDGED_AGAIN + 4 {
        let begun = disk.boundaries();
        let things = things(&db).with_durability(Durability::Durable);
        things.insert_one(document(&mut vectors, id)).unwrap();
        if id == JUDGED_AGAIN {
            db.checkpoint().unwrap();
        }
        inserted.push((begun, disk.boundaries()));
    }
    assert!(has_centre(&db));
    let (mut replay, mut states, mut boundaries) = (disk.replay(), BTreeSet::new(), 0);
    while let Some(point) = replay.next_point() {
        boundaries += 1;
        for crash in Crash::variants(point, 4) {
            let crashed = open(&replay.crash(crash)).unwrap();
            crashed.check().unwrap();
            let count = crashed.collection("shop.things").unwrap().len().unwrap() as i32;
            let least = inserted.iter().take_while(|(_, acked)| *acked <= point).count() as i32;
            let most = inserted.iter().take_while(|(begun, _)| *begun <= point).count() as i32;
            let new = count - (JUDGED_AGAIN - 4);
            assert!((least..=most).contains(&new), "{new} of {least} to {most} after {point} calls");
            assert_eq!(has_centre(&crashed), count >= JUDGED_AGAIN, "{count} after {point} calls");
            states.insert(count);
            // What comes afterwards makes up for it.
            let next = document(&mut vectors, 10_000);
            let things = things(&crashed).with_durability(Durability::None);
            (0..4).for_each(|id| drop(things.insert_one(document(&mut vectors, 20_000 + id)).unwrap()));
            things.insert_one(next).unwrap();
            assert!(has_centre(&crashed));
            crashed.check().unwrap();
        }
    }
    assert!(boundaries > 15 && states.len() >= 9, "{boundaries}, {states:?}");
}

#[test]
fn an_index_that_is_damaged_stays_as_it_is_when_it_grows() {
    let mut vectors = alike(20.0);
    let db = empty(&SimDisk::new(), "cosine", "scalar");
    insert_unjudged(&db, &mut vectors, DIMENSIONS, JUDGED_AGAIN - 1);
    // A node of a row that is not there.
    let mut txn = db.store().begin_write().unwrap();
    let table = txn.table(&table_name(&db)).unwrap().unwrap();
    txn.put_row(&table, 2 * 9000, &[0, 0]).unwrap();
    txn.put_row(&table, 2 * 9000 + 1, &[0; 12 + DIMENSIONS]).unwrap();
    txn.commit().unwrap();
    insert(&db, &mut vectors, JUDGED_AGAIN - 1..JUDGED_AGAIN + 10);
    assert!(!has_centre(&db));
    let error = db.check().unwrap_err().to_string();
    assert!(error.contains("has a node for row"), "{error}");
}
