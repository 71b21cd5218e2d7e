//! Images of vector indexes: never stale, whatever is written between searches, and never larger than they may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bson::{doc, rawdoc};
use treedb_query::error::ErrorCode;
use treedb_query::query::interrupt::Interrupt;
use treedb_storage::Reads;
use treedb_testing::Rng;

use super::*;
use crate::{
    Collection, DeleteRequest, IndexSpec, Neighbor, SearchEnd, SearchPath, UpdateRequest, VectorSearchRequest,
};

const DIMENSIONS: usize = 12;

fn floats(rng: &mut Rng) -> Vec<f32> {
    (0..DIMENSIONS).map(|_| rng.below(2001) as f32 / 1000.0 - 1.0 + 0.0005).collect()
}

fn document(id: i32, vector: &[f32]) -> RawDocumentBuf {
    let vector: Vec<f64> = vector.iter().map(|element| f64::from(*element)).collect();
    raw(&doc! { "_id": id, "v": vector, "n": 0 })
}

fn set(vector: &[f32]) -> RawDocumentBuf {
    let vector: Vec<f64> = vector.iter().map(|element| f64::from(*element)).collect();
    raw(&doc! { "$set": { "v": vector } })
}

/// A collection with a vector index over documents `0..count`.
fn things(db: &Database, count: i32, quantization: &str, rng: &mut Rng) -> Collection {
    things_called(db, "shop.things", count, ("euclidean", quantization), rng)
}

/// The same of another name, with another similarity.
fn things_called(
    db: &Database,
    name: &str,
    count: i32,
    (similarity, quantization): (&str, &str),
    rng: &mut Rng,
) -> Collection {
    let things = db.collection(name).unwrap();
    let documents: Vec<_> = (0..count).map(|id| document(id, &floats(rng))).collect();
    things.insert_many(&documents, true).unwrap();
    let definition = rawdoc! {
        "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": similarity, "quantization": quantization,
    };
    things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
    things
}

/// A search for all documents, most of them by the graph: every row is found, with its exact distance.
fn all(vector: Vec<f32>) -> VectorSearchRequest {
    VectorSearchRequest::new("near", vector, 5_000).candidates(8_000)
}

/// What was found, in an order that does not depend on that of rows of the same distance.
fn in_order(found: Vec<Neighbor>) -> Vec<(u32, i32)> {
    let mut found: Vec<(u32, i32)> =
        found.iter().map(|one| (one.distance.to_bits(), one.document.get_i32("_id").unwrap())).collect();
    found.sort_unstable();
    found
}

/// Compares a search for all documents with an exact one.
fn check_all(things: &Collection, rng: &mut Rng) {
    let request = all(floats(rng));
    let exact = in_order(things.vector_search(&request.clone().exact()).unwrap());
    assert!(in_order(things.vector_search(&request).unwrap()) == exact);
}

/// Searches until there is an image.
fn build_image(db: &Database, things: &Collection, rng: &mut Rng) {
    let documents = things.count(FindRequest::default()).unwrap();
    for _ in 0..=documents / 50 + 2 {
        things.vector_search(&VectorSearchRequest::new("near", floats(rng), 1)).unwrap();
    }
    assert!(db.vector_memory() > documents * DIMENSIONS as u64 * 4, "{}", db.vector_memory());
}

#[test]
fn a_search_after_any_write_finds_exactly_what_is_there() {
    for (seed, quantization) in [(1, "scalar"), (2, "none"), (3, "binary"), (4, "bits4")] {
        let mut rng = Rng::new(seed);
        let db = open(&SimDisk::new()).unwrap();
        let things = things(&db, 1500, quantization, &mut rng);
        let mut next = 1500;
        for round in 0..60 {
            // The first rounds fall between the parts of the build.
            match rng.below(5) {
                0 => {
                    for _ in 0..rng.below(40) {
                        things.insert_one(document(next, &floats(&mut rng))).unwrap();
                        next += 1;
                    }
                }
                1 => {
                    let some: Vec<_> =
                        (0..rng.below(100) as i32).map(|i| document(next + i, &floats(&mut rng))).collect();
                    things.insert_many(&some, true).unwrap();
                    next += some.len() as i32;
                }
                2 => {
                    let id = rng.below(next as usize) as i32;
                    things
                        .delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": id, "$lt": id + 25 } }))
                        .unwrap();
                }
                3 => {
                    for _ in 0..rng.below(20) {
                        let id = rng.below(next as usize) as i32;
                        things
                            .update(UpdateRequest::one(rawdoc! { "_id": id }, set(&floats(&mut rng))))
                            .unwrap();
                    }
                }
                _ => {
                    let id = rng.below(next as usize) as i32;
                    let filter = rawdoc! { "_id": { "$gte": id, "$lt": id + 10 } };
                    let change = if round % 2 == 0 {
                        rawdoc! { "$unset": { "v": 1 } }
                    } else {
                        rawdoc! { "$inc": { "n": 1 } }
                    };
                    things.update(UpdateRequest::many(filter, change)).unwrap();
                }
            }
            check_all(&things, &mut rng);
        }
        build_image(&db, &things, &mut rng);
        db.check().unwrap();
    }
}

#[test]
fn the_rows_of_a_filter_are_as_far_as_their_documents_say_after_any_write() {
    for (seed, quantization) in [(21, "scalar"), (22, "none"), (23, "binary"), (24, "bits2"), (25, "bits4")] {
        let mut rng = Rng::new(seed);
        let db = open(&SimDisk::new()).unwrap();
        let things = things(&db, 1500, quantization, &mut rng);
        build_image(&db, &things, &mut rng);
        for round in 0..60 {
            let id = rng.below(1500) as i32;
            let some = rawdoc! { "_id": { "$gte": id, "$lt": id + 10 } };
            match round % 4 {
                0 => drop(things.insert_one(document(1500 + round, &floats(&mut rng))).unwrap()),
                1 => drop(things.delete(DeleteRequest::many(some)).unwrap()),
                2 => drop(things.update(UpdateRequest::one(some, set(&floats(&mut rng)))).unwrap()),
                _ => {
                    drop(things.update(UpdateRequest::many(some, rawdoc! { "$unset": { "v": 1 } })).unwrap())
                }
            }
            let (from, below) = (id - 50, id + 1 + rng.below(150) as i32);
            let request = all(floats(&mut rng));
            // Without a filter, an exact search reads the documents.
            let mut exact = things.vector_search(&request.clone().exact()).unwrap();
            exact.retain(|one| (from..below).contains(&one.document.get_i32("_id").unwrap()));
            let filtered = request.filter(rawdoc! { "_id": { "$gte": from, "$lt": below } });
            assert_eq!(in_order(things.vector_search(&filtered).unwrap()), in_order(exact.clone()));
            assert_eq!(
                in_order(things.vector_search(&filtered.clone().exact()).unwrap()),
                in_order(exact.clone())
            );
            // Those of a transaction are in its documents.
            let mut txn = db.begin().unwrap();
            let mut mine = txn.collection("shop.things").unwrap();
            let gone =
                mine.delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": from, "$lt": id } })).unwrap();
            exact.retain(|one| one.document.get_i32("_id").unwrap() >= id);
            assert_eq!(in_order(mine.vector_search(&filtered).unwrap()), in_order(exact), "{gone:?}");
        }
    }
}

#[test]
fn a_change_of_a_vector_that_leaves_its_codes_as_they_were_is_seen() {
    let mut rng = Rng::new(3);
    let db = open(&SimDisk::new()).unwrap();
    let things = things(&db, 300, "scalar", &mut rng);
    build_image(&db, &things, &mut rng);
    for step in 1..20 {
        let mut vector = vec![0.25; DIMENSIONS];
        // The greatest element gives the scale of the codes.
        vector[0] = 1.0;
        vector[1] += step as f32 * 1e-5;
        things.update(UpdateRequest::one(rawdoc! { "_id": 7 }, set(&vector))).unwrap();
        let nearest = things.vector_search(&VectorSearchRequest::new("near", vector, 1)).unwrap();
        assert_eq!((nearest[0].document.get_i32("_id").unwrap(), nearest[0].distance), (7, 0.0));
    }
}

#[test]
fn rows_whose_pages_are_gone_are_not_found() {
    let mut rng = Rng::new(4);
    let db = open(&SimDisk::new()).unwrap();
    let things = things(&db, 2000, "scalar", &mut rng);
    build_image(&db, &things, &mut rng);
    for range in [(500, 900), (0, 300), (1900, 2000), (901, 1899), (0, 2000)] {
        let filter = rawdoc! { "_id": { "$gte": range.0, "$lt": range.1 } };
        things.delete(DeleteRequest::many(filter)).unwrap();
        check_all(&things, &mut rng);
    }
    things.insert_one(document(1, &floats(&mut rng))).unwrap();
    check_all(&things, &mut rng);
}

#[test]
fn searches_beside_writers_find_what_exact_comparison_finds_in_their_snapshot() {
    let mut rng = Rng::new(5);
    let db = open(&SimDisk::new()).unwrap();
    let things = things(&db, 1000, "scalar", &mut rng);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let searchers: Vec<_> = (0..3)
            .map(|seed| {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let mut rng = Rng::new(100 + seed);
                    let (mut searches, mut hits) = (0, 0);
                    while !done.load(Ordering::Relaxed) || searches < 20 {
                        // A transaction sees one snapshot.
                        let mut txn = db.begin().unwrap();
                        let mut mine = txn.collection("shop.things").unwrap();
                        if searches % 5 == 0 {
                            // No other transaction may insert the same.
                            let id = 1_000_000 * (1 + seed as i32) + searches;
                            mine.insert_one(document(id, &floats(&mut rng))).unwrap();
                        }
                        let request = all(floats(&mut rng));
                        let exact = mine.vector_search(&request.clone().exact()).unwrap();
                        let few = VectorSearchRequest { limit: 10, ..request.clone() };
                        let few = in_order(mine.vector_search(&few).unwrap());
                        let nearest = in_order(exact[..10].to_vec());
                        hits += few.iter().filter(|one| nearest.contains(one)).count();
                        assert_eq!(in_order(mine.vector_search(&request).unwrap()), in_order(exact));
                        searches += 1;
                    }
                    hits as f64 / f64::from(10 * searches)
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|part: i32| {
                let things = &things;
                scope.spawn(move || {
                    let mut rng = Rng::new(u64::from(200 + part.unsigned_abs()));
                    for round in 0..80 {
                        let id = 2 * (rng.below(500) as i32) + part;
                        match round % 4 {
                            0 => drop(things.delete(DeleteRequest::one(rawdoc! { "_id": id })).unwrap()),
                            1 => {
                                let new = document(10_000 + 2 * round + part, &floats(&mut rng));
                                things.insert_one(new).unwrap();
                            }
                            _ => {
                                let set = set(&floats(&mut rng));
                                things.update(UpdateRequest::one(rawdoc! { "_id": id }, set)).unwrap();
                            }
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        for searcher in searchers {
            let recall = searcher.join().unwrap();
            assert!(recall > 0.95, "{recall}");
        }
    });
    build_image(&db, &things, &mut rng);
    check_all(&things, &mut rng);
    db.check().unwrap();
}

#[test]
fn a_build_whose_parts_are_read_in_snapshots_going_backwards_has_nothing_too_new() {
    let mut rng = Rng::new(7);
    for (quantization, deletes) in
        [("scalar", false), ("scalar", true), ("none", false), ("none", true), ("bits2", true)]
    {
        let db = open(&SimDisk::new()).unwrap();
        let things = things(&db, 1800, quantization, &mut rng);
        // The first part.
        things.vector_search(&VectorSearchRequest::new("near", floats(&mut rng), 1)).unwrap();
        things.insert_one(document(-1, &floats(&mut rng))).unwrap();
        let mut txn = db.begin().unwrap();
        let before = txn.collection("shop.things").unwrap();
        for id in 900..930 {
            let filter = rawdoc! { "_id": id };
            if deletes {
                things.delete(DeleteRequest::one(filter)).unwrap();
            } else {
                things.update(UpdateRequest::one(filter, set(&floats(&mut rng)))).unwrap();
            }
        }
        // The second one, which has the changed rows.
        things.vector_search(&VectorSearchRequest::new("near", floats(&mut rng), 1)).unwrap();
        for _ in 0..6 {
            let request = all(floats(&mut rng));
            let exact = in_order(before.vector_search(&request.clone().exact()).unwrap());
            assert!(in_order(before.vector_search(&request).unwrap()) == exact, "{quantization} {deletes}");
        }
        build_image(&db, &things, &mut rng);
        check_all(&things, &mut rng);
    }
}

#[test]
fn a_damaged_row_fails_only_the_searches_that_read_it() {
    let mut rng = Rng::new(8);
    let db = open(&SimDisk::new()).unwrap();
    let things = things(&db, 600, "scalar", &mut rng);
    let far = vec![9.0; DIMENSIONS];
    things.insert_one(document(1000, &far)).unwrap();
    let mut txn = db.store().begin_write().unwrap();
    let table = txn.table("index/1/1").unwrap().unwrap();
    let links = 2 * 601;
    let whole = txn.row(&table, links).unwrap().unwrap().to_vec();
    txn.put_row(&table, links, &[0, 200]).unwrap();
    txn.commit().unwrap();
    let near = VectorSearchRequest::new("near", vec![-0.9; DIMENSIONS], 3).candidates(10);
    for _ in 0..5 {
        assert_eq!(things.vector_search(&near).unwrap().len(), 3);
        assert_eq!(db.vector_memory(), 0);
    }
    let error = things.vector_search(&VectorSearchRequest::new("near", far.clone(), 3)).unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
    // The next version is read again.
    let mut txn = db.store().begin_write().unwrap();
    txn.put_row(&table, links, &whole).unwrap();
    txn.commit().unwrap();
    build_image(&db, &things, &mut rng);
    check_all(&things, &mut rng);
}

#[test]
fn an_image_is_not_made_of_records_of_codes_that_are_no_vector_of_the_index() {
    let mut rng = Rng::new(15);
    for quantization in ["binary", "bits2", "bits4"] {
        let db = open(&SimDisk::new()).unwrap();
        let things = things(&db, 300, quantization, &mut rng);
        let table = db.store().begin_read().unwrap().table("index/1/1").unwrap().unwrap();
        let row = 2 * 100 + 1;
        let put = |record: &[u8]| {
            let mut txn = db.store().begin_write().unwrap();
            txn.put_row(&table, row, record).unwrap();
            txn.commit().unwrap();
        };
        let whole = db.store().begin_read().unwrap().row(&table, row).unwrap().unwrap().to_vec();
        let not_a_number = [&f32::NAN.to_le_bytes()[..], &whole[4..]].concat();
        let too_long = [&whole[..], &[7]].concat();
        for record in
            [&[][..], &whole[..5], &whole[..12], &whole[..whole.len() - 1], &too_long, &not_a_number]
        {
            put(record);
            let near = VectorSearchRequest::new("near", floats(&mut rng), 3).candidates(10);
            for _ in 0..20 {
                // By the table, where such a record is near to nothing or to anything; documents tell how near it is.
                let found = things.vector_search(&near).unwrap();
                assert!(found.len() == 3 && found.is_sorted_by(|a, b| a.distance <= b.distance));
                assert_eq!(db.vector_memory(), 0, "{quantization} {record:?}");
            }
            assert!(db.check().is_err(), "{quantization} {record:?}");
        }
        put(&whole);
        build_image(&db, &things, &mut rng);
        check_all(&things, &mut rng);
        db.check().unwrap();
    }
}

#[test]
fn a_change_of_all_vectors_is_read_in_parts_within_the_memory_limit() {
    let mut rng = Rng::new(9);
    let db = open(&SimDisk::new()).unwrap();
    let things = things(&db, 1500, "scalar", &mut rng);
    build_image(&db, &things, &mut rng);
    let whole = db.vector_memory();
    let limit = whole + whole / 5;
    db.set_vector_memory(limit);
    let all: Vec<RawDocumentBuf> = (0..500).map(|id| document(id, &floats(&mut rng))).collect();
    things.delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 500 } })).unwrap();
    things.insert_many(&all, true).unwrap();
    for id in (500..1500).step_by(3) {
        things.update(UpdateRequest::one(rawdoc! { "_id": id }, set(&floats(&mut rng)))).unwrap();
    }
    let mut sizes = BTreeSet::new();
    for round in 0..9 {
        check_all(&things, &mut rng);
        sizes.insert(db.vector_memory());
        assert!(db.vector_memory() <= limit, "{} of {limit}", db.vector_memory());
        if round % 3 == 0 {
            // Changes between the parts.
            things.delete(DeleteRequest::one(rawdoc! { "_id": round * 50 })).unwrap();
            things
                .update(UpdateRequest::one(rawdoc! { "_id": round * 50 + 1 }, set(&floats(&mut rng))))
                .unwrap();
        }
    }
    assert!(sizes.len() > 2 && db.vector_memory() > whole / 2, "{sizes:?}");
    db.check().unwrap();
}

#[test]
fn images_take_no_more_memory_than_they_may_and_go_with_their_index() {
    let mut rng = Rng::new(6);
    let db = open(&SimDisk::new()).unwrap();
    let things = things(&db, 1000, "scalar", &mut rng);
    build_image(&db, &things, &mut rng);
    let whole = db.vector_memory();
    db.set_vector_memory(0);
    assert_eq!(db.vector_memory(), 0);
    check_all(&things, &mut rng);
    assert_eq!(db.vector_memory(), 0);
    db.set_vector_memory(whole / 2);
    for _ in 0..20 {
        check_all(&things, &mut rng);
        assert!(db.vector_memory() <= whole / 2);
    }
    db.set_vector_memory(2 * whole);
    build_image(&db, &things, &mut rng);
    // It grows beyond the limit.
    let more: Vec<_> = (5000..9000).map(|id| document(id, &floats(&mut rng))).collect();
    things.insert_many(&more, true).unwrap();
    check_all(&things, &mut rng);
    assert_eq!(db.vector_memory(), 0);
    db.set_vector_memory(20 * whole);
    build_image(&db, &things, &mut rng);
    let mut txn = db.begin().unwrap();
    let before = txn.collection("shop.things").unwrap();
    things.drop_index("near").unwrap();
    assert_eq!(db.vector_memory(), 0);
    // A search of an older snapshot reads the table.
    assert_eq!(
        before.vector_search(&VectorSearchRequest::new("near", floats(&mut rng), 3)).unwrap().len(),
        3
    );
    assert_eq!(db.vector_memory(), 0);
    let definition = rawdoc! { "path": "w", "numDimensions": 2, "similarity": "euclidean" };
    things.create_index(IndexSpec::vector(definition).name("other")).unwrap();
    things.insert_one(rawdoc! { "_id": -1, "w": [1, 2] }).unwrap();
    let found = things.vector_search(&VectorSearchRequest::new("other", vec![0.0, 0.0], 3)).unwrap();
    assert_eq!(found.len(), 1);
    let bytes = db.vector_memory();
    assert!(bytes > 0 && bytes < whole / 2, "{bytes}");
    assert!(db.drop_collection("shop.things").unwrap());
    assert_eq!(db.vector_memory(), 0);
}

/// Whether a search uses an image.
fn uses_image(things: &Collection, rng: &mut Rng) -> bool {
    let request = VectorSearchRequest::new("near", floats(rng), 1).filter(rawdoc! { "_id": { "$lt": 100 } });
    things.vector_search_answer(&request).unwrap().work.path == SearchPath::MatchingRows
}

#[test]
fn an_index_that_is_searched_gets_the_room_of_one_that_is_not_any_more_but_not_of_one_that_is() {
    let mut rng = Rng::new(41);
    let db = open(&SimDisk::new()).unwrap();
    let one = things(&db, 1000, "scalar", &mut rng);
    let other = things_called(&db, "shop.others", 1000, ("euclidean", "none"), &mut rng);
    build_image(&db, &one, &mut rng);
    let limit = db.vector_memory() * 3 / 2;
    db.set_vector_memory(limit);
    for _ in 0..12 {
        assert!(uses_image(&one, &mut rng) && !uses_image(&other, &mut rng));
        std::thread::sleep(Duration::from_millis(10));
    }
    let memory = db.vector_memory_use();
    assert_eq!((memory.images, memory.without_image, memory.limit_bytes), (1, 1, limit));
    for (now, before) in [(&other, &one), (&one, &other)] {
        // Nobody searches the one before from here on.
        uses_image(now, &mut rng);
        std::thread::sleep(Duration::from_millis(120));
        let used: Vec<bool> = (0..20).map(|_| uses_image(now, &mut rng)).collect();
        assert!(used.ends_with(&[true]), "{used:?}");
        assert!(db.vector_memory() <= limit && db.vector_memory_use().images == 1);
        check_all(now, &mut rng);
        check_all(before, &mut rng);
        assert!(uses_image(now, &mut rng) && !uses_image(before, &mut rng));
    }
}

#[test]
fn distances_of_images_with_packed_vectors_are_those_of_the_documents_but_for_their_last_digits() {
    for (seed, similarity) in [(51, "cosine"), (52, "dotProduct")] {
        let mut rng = Rng::new(seed);
        let db = open(&SimDisk::new()).unwrap();
        let things = things_called(&db, "shop.things", 1500, (similarity, "scalar"), &mut rng);
        build_image(&db, &things, &mut rng);
        for round in 0..30 {
            let id = rng.below(1500) as i32;
            things.update(UpdateRequest::one(rawdoc! { "_id": id }, set(&floats(&mut rng)))).unwrap();
            let request = all(floats(&mut rng));
            for request in [request.clone(), request.filter(rawdoc! { "_id": { "$lt": 20 * round + 5 } })] {
                let exact = things.vector_search(&request.clone().exact()).unwrap();
                let found = things.vector_search(&request).unwrap();
                assert_eq!(found.len(), exact.len());
                let distances: BTreeMap<i32, f32> =
                    found.iter().map(|one| (one.document.get_i32("_id").unwrap(), one.distance)).collect();
                assert!(found.is_sorted_by(|a, b| a.distance <= b.distance + 1e-5));
                for one in &exact {
                    let distance = distances[&one.document.get_i32("_id").unwrap()];
                    assert!((distance - one.distance).abs() < 1e-6, "{distance} {}", one.distance);
                }
            }
        }
    }
}

#[test]
fn a_small_element_beside_a_great_one_counts_in_products() {
    let mut rng = Rng::new(53);
    let db = open(&SimDisk::new()).unwrap();
    let things = things_called(&db, "shop.things", 1500, ("dotProduct", "scalar"), &mut rng);
    let vector = |first: f32, second: f32| {
        let mut vector = vec![0.0; floats(&mut Rng::new(1)).len()];
        (vector[0], vector[1]) = (first, second);
        vector
    };
    for (id, second) in [(0, 0.01), (1, 0.05)] {
        things.update(UpdateRequest::one(rawdoc! { "_id": id }, set(&vector(1e6, second)))).unwrap();
    }
    build_image(&db, &things, &mut rng);
    let request = all(vector(0.0, 1.0)).filter(rawdoc! { "_id": { "$lt": 2 } });
    for request in [request.clone(), request.exact()] {
        let found = things.vector_search(&request).unwrap();
        let found: Vec<_> =
            found.iter().map(|one| (one.document.get_i32("_id").unwrap(), one.distance)).collect();
        assert_eq!(found, [(1, -0.05), (0, -0.01)]);
    }
}

#[test]
fn an_image_that_turns_out_to_be_too_large_is_not_built_again_until_there_is_more_room() {
    for quantization in ["scalar", "bits2"] {
        check_outgrown(quantization);
    }
}

fn check_outgrown(quantization: &str) {
    let mut rng = Rng::new(14);
    let db = open(&SimDisk::new()).unwrap();
    let things = things(&db, 0, quantization, &mut rng);
    // Rows with a vector are so far apart that each takes a leaf of its own.
    let documents: Vec<_> = (0..1000 * 70)
        .map(|id| match id % 70 {
            0 => document(id, &floats(&mut rng)),
            _ => raw(&doc! { "_id": id }),
        })
        .collect();
    documents.chunks(10_000).for_each(|some| drop(things.insert_many(some, true).unwrap()));
    // Which of some searches have used an image.
    let mut search = |times: usize| -> Vec<bool> {
        let request =
            VectorSearchRequest::new("near", floats(&mut rng), 1).filter(rawdoc! { "_id": { "$lt": 100 } });
        let path = |_| things.vector_search_answer(&request).unwrap().work.path;
        (0..times).map(path).map(|path| path == SearchPath::MatchingRows).collect()
    };
    assert!(search(10).ends_with(&[true]));
    let whole = db.vector_memory();
    db.set_vector_memory(0);
    db.set_vector_memory(whole - 1000);
    // Only the search that has read the last part.
    let used = search(30);
    assert_eq!(used.iter().filter(|used| **used).count(), 1, "{whole}: {used:?}");
    assert_eq!(db.vector_memory(), 0);
    db.set_vector_memory(2 * whole);
    assert!(
        search(10).ends_with(&[true]) && db.vector_memory() >= whole,
        "{} of {whole}",
        db.vector_memory()
    );
    check_all(&things, &mut rng);
}

/// A collection of 1,000 documents with an image.
fn imaged(quantization: &str, rng: &mut Rng) -> (Database, Collection) {
    let db = open(&SimDisk::new()).unwrap();
    let things = things(&db, 1000, quantization, rng);
    build_image(&db, &things, rng);
    (db, things)
}

#[test]
fn vectors_of_the_greatest_floats_are_in_images_of_few_bits() {
    let mut rng = Rng::new(31);
    for quantization in ["binary", "bits2", "bits4"] {
        let (db, things) = imaged(quantization, &mut rng);
        for (id, element) in [(2000, f32::MAX), (2001, f32::MIN)] {
            let mut vector = floats(&mut rng);
            vector[3] = element;
            things.insert_one(document(id, &vector)).unwrap();
            let some = VectorSearchRequest::new("near", floats(&mut rng), 1)
                .filter(rawdoc! { "_id": { "$lt": 10 } });
            assert_eq!(things.vector_search_answer(&some).unwrap().work.path, SearchPath::MatchingRows);
            check_all(&things, &mut rng);
        }
        db.check().unwrap();
    }
}

#[test]
fn a_search_by_few_bits_tells_how_many_documents_it_has_read_and_that_it_has_passed_over_some() {
    let mut rng = Rng::new(32);
    for (quantization, [few, many, filtered]) in [
        ("scalar", [0, 0, 0]),
        ("binary", [100, 400, 100]),
        ("bits2", [100, 200, 100]),
        ("bits4", [50, 100, 100]),
    ] {
        let (_db, things) = imaged(quantization, &mut rng);
        let mut work = |limit, filter| {
            let request =
                VectorSearchRequest::new("near", floats(&mut rng), limit).candidates(100).filter(filter);
            let work = things.vector_search_answer(&request).unwrap().work;
            (work.path, work.end, work.documents_examined)
        };
        assert_eq!(work(10, rawdoc! {}), (SearchPath::Graph, SearchEnd::Limit, few), "{quantization}");
        assert_eq!(work(100, rawdoc! {}), (SearchPath::Graph, SearchEnd::Limit, many), "{quantization}");
        let (_, end, read) = work(10, rawdoc! { "_id": { "$lt": 150 } });
        let passed_over = if quantization == "scalar" { SearchEnd::All } else { SearchEnd::Candidates };
        assert_eq!((end, read), (passed_over, filtered), "{quantization}");
        let (_, end, read) = work(10, rawdoc! { "_id": { "$lt": 50 } });
        assert_eq!((end, read), (SearchEnd::All, if filtered > 0 { 50 } else { 0 }), "{quantization}");
        assert_eq!(
            things
                .vector_search(&VectorSearchRequest::new("near", floats(&mut rng), usize::MAX))
                .unwrap()
                .len(),
            1000
        );
    }
}

#[test]
fn a_search_by_few_bits_ends_when_it_is_told_to_while_it_reads_documents() {
    let mut rng = Rng::new(33);
    let (_db, things) = imaged("binary", &mut rng);
    let request = VectorSearchRequest::new("near", floats(&mut rng), 1).candidates(900);
    assert_eq!(things.vector_search(&request).unwrap().len(), 1);
    let _operation = Arc::new(Interrupt::new(Some(Instant::now()))).enter();
    assert_eq!(things.vector_search(&request).unwrap_err().code, ErrorCode::MaxTimeMSExpired);
}

#[test]
fn a_search_that_discards_rows_goes_on_and_compares_no_vector_again() {
    let mut rng = Rng::new(31);
    let db = open(&SimDisk::new()).unwrap();
    let things = things(&db, 2000, "scalar", &mut rng);
    let one_in_twenty = rawdoc! { "_id": { "$mod": [20, 0] } };
    things.update(UpdateRequest::many(one_in_twenty, rawdoc! { "$set": { "n": 1 } })).unwrap();
    // By the image, and by the table.
    for memory in [1 << 30, 0] {
        db.set_vector_memory(memory);
        if memory > 0 {
            build_image(&db, &things, &mut rng);
        }
        let (mut hits, mut filtered, mut whole) = (0, 0, 0);
        for _ in 0..10 {
            let request = VectorSearchRequest::new("near", floats(&mut rng), 10).candidates(20);
            let matching = request.clone().filter(rawdoc! { "n": 1 });
            let answer = things.vector_search_answer(&matching).unwrap();
            assert_eq!((answer.work.path, answer.work.end), (SearchPath::Graph, SearchEnd::Limit));
            let mut ef = 20;
            while ef < answer.work.documents_examined as usize {
                ef *= 2;
            }
            filtered += answer.work.vectors_compared;
            whole += things.vector_search_answer(&request.candidates(ef)).unwrap().work.vectors_compared;
            let exact = things.vector_search(&matching.exact()).unwrap();
            hits += answer.neighbors.iter().filter(|one| exact.contains(one)).count();
        }
        assert!(filtered <= whole * 11 / 10, "{filtered} and {whole}");
        assert!(hits >= 95, "{hits}");
    }
}

#[test]
fn vectors_that_are_inserted_by_an_image_are_linked_as_well_as_by_the_table() {
    let seeds = [(21, "euclidean", "scalar"), (22, "cosine", "none"), (23, "dotProduct", "scalar")];
    for (seed, similarity, quantization) in seeds {
        let recalls = [true, false].map(|images| {
            let mut rng = Rng::new(seed);
            let db = open(&SimDisk::new()).unwrap();
            let things = things_called(&db, "shop.things", 400, (similarity, quantization), &mut rng);
            if images {
                build_image(&db, &things, &mut rng.clone());
            } else {
                db.set_vector_memory(0);
            }
            let mut next = 400;
            for round in 0..120 {
                let some: Vec<_> = (0..1 + rng.below(20) as i32)
                    .map(|at| {
                        // Some are copies of each other, more than are linked as others are.
                        let vector =
                            if round % 10 == 3 { floats(&mut Rng::new(7)) } else { floats(&mut rng) };
                        document(next + at, &vector)
                    })
                    .collect();
                next += some.len() as i32;
                let mut id = || rng.below(next as usize) as i32;
                match round % 4 {
                    0 => drop(things.insert_many(&some, true).unwrap()),
                    1 => some.iter().for_each(|one| drop(things.insert_one(one).unwrap())),
                    2 => {
                        things.insert_many(&some, true).unwrap();
                        let ids: Vec<i32> = some.iter().map(|_| id()).collect();
                        let vector = floats(&mut rng);
                        for id in ids {
                            things.update(UpdateRequest::one(rawdoc! { "_id": id }, set(&vector))).unwrap();
                        }
                    }
                    _ => {
                        things.insert_many(&some, true).unwrap();
                        let from = id();
                        let gone = rawdoc! { "_id": { "$gte": from, "$lt": from + 8 } };
                        things.delete(DeleteRequest::many(gone)).unwrap();
                        // One transaction removes, replaces and adds.
                        let mut txn = db.begin().unwrap();
                        let mut things = txn.collection("shop.things").unwrap();
                        let (gone, changed) = (id(), id());
                        things.delete(DeleteRequest::one(rawdoc! { "_id": gone })).unwrap();
                        let changed = UpdateRequest::one(rawdoc! { "_id": changed }, set(&floats(&mut rng)));
                        things.update(changed).unwrap();
                        things.insert_one(document(next, &floats(&mut rng))).unwrap();
                        next += 1;
                        match rng.below(4) {
                            0 => drop(txn),
                            _ => txn.commit().unwrap(),
                        }
                    }
                }
            }
            db.check().unwrap();
            let (mut found, mut wanted) = (0, 0);
            for _ in 0..100 {
                let request = VectorSearchRequest::new("near", floats(&mut rng), 10).candidates(12);
                let distances = |request: &VectorSearchRequest| -> Vec<f32> {
                    things.vector_search(request).unwrap().iter().map(|one| one.distance).collect()
                };
                let (near, exact) = (distances(&request), distances(&request.clone().exact()));
                let last = exact.last().copied().unwrap();
                found += near.iter().filter(|distance| **distance <= last).count();
                wanted += exact.len();
            }
            f64::from(found as u32) / f64::from(wanted as u32)
        });
        let [by_image, by_table] = recalls;
        println!("{similarity} {quantization}: {by_image} {by_table}");
        assert!(by_image > 0.9 && by_image > by_table - 0.02, "{similarity} {quantization}: {recalls:?}");
    }
}

#[test]
fn a_document_whose_many_vectors_are_replaced_is_linked_to_others() {
    for (count, candidates) in [(150, 100), (40, 10)] {
        let mut rng = Rng::new(31);
        let db = open(&SimDisk::new()).unwrap();
        let things = db.collection("shop.things").unwrap();
        let near = |rng: &mut Rng, centre: f64| -> Vec<f64> {
            (0..DIMENSIONS).map(|_| centre + rng.below(1000) as f64 / 20_000.0).collect()
        };
        let chunks = |rng: &mut Rng| -> Vec<Vec<f64>> { (0..count).map(|_| near(rng, 5.0)).collect() };
        let others: Vec<_> = (1..1500).map(|id| document(id, &floats(&mut rng))).collect();
        things.insert_many(&others, true).unwrap();
        things.insert_one(raw(&doc! { "_id": 0, "v": chunks(&mut rng) })).unwrap();
        let definition = rawdoc! {
            "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean",
            "hnswOptions": { "numEdgeCandidates": candidates },
        };
        things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
        build_image(&db, &things, &mut rng);
        for _ in 0..3 {
            let change = raw(&doc! { "$set": { "v": chunks(&mut rng) } });
            things.update(UpdateRequest::one(rawdoc! { "_id": 0 }, change)).unwrap();
            db.check().unwrap();
            let vector = near(&mut rng, 5.0).into_iter().map(|element| element as f32).collect();
            let found = things.vector_search(&VectorSearchRequest::new("near", vector, 1)).unwrap();
            assert_eq!(found[0].document.get_i32("_id").unwrap(), 0);
        }
    }
}

#[test]
fn a_transaction_that_empties_a_collection_and_fills_it_again_finds_nothing_of_what_was_there() {
    for quantization in ["none", "scalar"] {
        let mut rng = Rng::new(32);
        let db = open(&SimDisk::new()).unwrap();
        let things = things(&db, 300, quantization, &mut rng);
        build_image(&db, &things, &mut rng);
        for round in 1..4 {
            let mut txn = db.begin().unwrap();
            let mut own = txn.collection("shop.things").unwrap();
            own.delete(DeleteRequest::many(rawdoc! {})).unwrap();
            // The second vector is linked while the table has the first.
            let two: Vec<Vec<f64>> =
                (0..2).map(|_| floats(&mut rng).into_iter().map(f64::from).collect()).collect();
            own.insert_one(raw(&doc! { "_id": -round, "v": two })).unwrap();
            for id in 0..200 {
                own.insert_one(document(1000 * round + id, &floats(&mut rng))).unwrap();
            }
            match round {
                1 => drop(txn),
                _ => txn.commit().unwrap(),
            }
            db.check().unwrap();
            check_all(&things, &mut rng);
        }
        things.delete(DeleteRequest::many(rawdoc! {})).unwrap();
        assert_eq!(things.vector_search(&all(floats(&mut rng))).unwrap(), []);
        let new: Vec<_> = (0..20).map(|id| document(id, &floats(&mut rng))).collect();
        things.insert_many(&new, true).unwrap();
        check_all(&things, &mut rng);
        db.check().unwrap();
    }
}
