//! The metrics that MongoDB has not: the sum of differences, and distances of bits. Searches are compared with plain loops.

use std::collections::BTreeMap;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, doc, rawdoc};
use treedb_testing::Rng;

use super::*;
use crate::{Collection, DeleteRequest, IndexSpec, UpdateRequest, VectorSearchRequest};
use treedb_query::error::ErrorCode;

/// Not a multiple of 8.
const BITS: usize = 61;

/// Bits near one of a few patterns.
fn bits(rng: &mut Rng) -> Vec<bool> {
    let pattern = rng.below(8);
    (0..BITS).map(|at| ((at * (pattern + 3)) % 7 < 3) != rng.chance(20)).collect()
}

/// The vector as packed bits, as bytes, or as an array.
fn stored(vector: &[bool], kind: usize) -> Bson {
    let binary = |bytes: Vec<u8>| Binary { subtype: BinarySubtype::from(9), bytes }.into();
    match kind % 3 {
        0 => {
            let byte =
                |bits: &[bool]| (0..8).fold(0, |byte, at| byte << 1 | u8::from(bits.get(at) == Some(&true)));
            binary([0x10, (8 - BITS % 8) as u8].into_iter().chain(vector.chunks(8).map(byte)).collect())
        }
        1 => binary([3, 0].into_iter().chain(vector.iter().map(|bit| u8::from(*bit))).collect()),
        _ => vector.iter().map(|bit| i32::from(*bit)).collect::<Vec<_>>().into(),
    }
}

fn floats(vector: &[bool]) -> Vec<f32> {
    vector.iter().map(|bit| f32::from(u8::from(*bit))).collect()
}

fn count(a: &[bool], b: &[bool], which: impl Fn(bool, bool) -> bool) -> f32 {
    a.iter().zip(b).filter(|(a, b)| which(**a, **b)).count() as f32
}

fn hamming(a: &[bool], b: &[bool]) -> f32 {
    count(a, b, |a, b| a != b)
}

fn jaccard(a: &[bool], b: &[bool]) -> f32 {
    match count(a, b, |a, b| a && b) {
        0.0 => 1.0,
        both => 1.0 - both / count(a, b, |a, b| a || b),
    }
}

/// The ten nearest distances.
fn ten(mut all: Vec<f32>) -> Vec<f32> {
    all.sort_by(f32::total_cmp);
    all.truncate(10);
    all
}

fn distances(things: &Collection, request: &VectorSearchRequest) -> Vec<f32> {
    things.vector_search(request).unwrap().iter().map(|found| found.distance).collect()
}

#[test]
fn searches_of_bits_find_what_a_plain_loop_finds_after_any_change() {
    for (seed, (similarity, distance)) in
        (1..).zip([("hamming", hamming as fn(&[bool], &[bool]) -> f32), ("jaccard", jaccard)])
    {
        for images in [true, false] {
            let (mut rng, mut model) = (Rng::new(seed), BTreeMap::new());
            let db = open(&SimDisk::new()).unwrap();
            if !images {
                db.set_vector_memory(0);
            }
            let things = db.collection("shop.things").unwrap();
            let document = |rng: &mut Rng, id: i32| (bits(rng), id);
            let made = |vector: &[bool], id: i32| {
                raw(&doc! { "_id": id, "part": id % 20, "v": stored(vector, id as usize) })
            };
            let insert = |rng: &mut Rng, model: &mut BTreeMap<i32, Vec<bool>>, ids: std::ops::Range<i32>| {
                let new: Vec<_> = ids.map(|id| document(rng, id)).collect();
                let documents: Vec<_> = new.iter().map(|(vector, id)| made(vector, *id)).collect();
                things.insert_many(&documents, true).unwrap();
                model.extend(new.into_iter().map(|(vector, id)| (id, vector)));
            };
            insert(&mut rng, &mut model, 0..300);
            let definition = rawdoc! { "path": "v", "numDimensions": BITS as i32, "similarity": similarity };
            things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
            insert(&mut rng, &mut model, 300..500);
            for round in 0..4 {
                let (mut hits, mut all) = (0.0, 0.0);
                for _ in 0..15 {
                    let query = bits(&mut rng);
                    let wanted = ten(model.values().map(|own| distance(own, &query)).collect());
                    let request = VectorSearchRequest::new("near", floats(&query), 10);
                    assert_eq!(distances(&things, &request.clone().exact()), wanted);
                    let found = distances(&things, &request);
                    assert_eq!(found.len(), 10);
                    let most = wanted.last().copied().unwrap();
                    hits += found.iter().filter(|found| **found <= most).count() as f64;
                    all += 10.0;
                    let some = model.iter().filter(|(id, _)| *id % 20 == 3);
                    let wanted = ten(some.map(|(_, own)| distance(own, &query)).collect());
                    assert_eq!(distances(&things, &request.filter(rawdoc! { "part": 3 })), wanted);
                }
                assert!(hits / all >= 0.95, "{similarity} {images} {round}: {}", hits / all);
                assert_eq!(db.check().unwrap().collections[0].indexes[1].1, model.len() as u64);
                let gone = rawdoc! { "_id": { "$mod": [5, round] } };
                things.delete(DeleteRequest::many(gone)).unwrap();
                model.retain(|id, _| id % 5 != round);
                for id in (0..500).filter(|id| id % 11 == round) {
                    if let Some(own) = model.get_mut(&id) {
                        *own = bits(&mut rng);
                        let set = raw(&doc! { "$set": { "v": stored(own, rng.below(3)) } });
                        things.update(UpdateRequest::one(rawdoc! { "_id": id }, set)).unwrap();
                    }
                }
                insert(&mut rng, &mut model, 500 + 60 * round..560 + 60 * round);
            }
            assert_eq!(db.vector_memory() > 0, images);
        }
    }
}

#[test]
fn an_image_of_bits_takes_a_bit_for_each_dimension() {
    let mut rng = Rng::new(5);
    let db = open(&SimDisk::new()).unwrap();
    let things = db.collection("shop.things").unwrap();
    let bytes = |rng: &mut Rng| [0x10, 0].into_iter().chain((0..256).map(|_| rng.below(256) as u8)).collect();
    let documents: Vec<_> = (0..1000)
        .map(|id| {
            raw(&doc! { "_id": id, "v": Binary { subtype: BinarySubtype::from(9), bytes: bytes(&mut rng) } })
        })
        .collect();
    things.insert_many(&documents, true).unwrap();
    let definition = rawdoc! { "path": "v", "numDimensions": 2048, "similarity": "hamming" };
    things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
    for _ in 0..400 {
        things.vector_search(&VectorSearchRequest::new("near", vec![1.0; 2048], 1)).unwrap();
    }
    let each = db.vector_memory() / 1000;
    assert!((256..800).contains(&each), "{each} bytes for each vector");
}

#[test]
fn searches_by_the_sum_of_differences_find_what_a_plain_loop_finds() {
    let mut rng = Rng::new(3);
    for quantization in ["none", "scalar"] {
        let db = open(&SimDisk::new()).unwrap();
        let things = db.collection("shop.things").unwrap();
        let vector = |rng: &mut Rng| (0..12).map(|_| rng.below(2001) as f32 / 8.0).collect::<Vec<f32>>();
        let all: Vec<Vec<f32>> = (0..400).map(|_| vector(&mut rng)).collect();
        let floats = |vector: &Vec<f32>| vector.iter().map(|element| f64::from(*element)).collect::<Vec<_>>();
        let documents: Vec<_> =
            (0..).zip(&all).map(|(id, vector)| raw(&doc! { "_id": id, "v": floats(vector) })).collect();
        things.insert_many(&documents, true).unwrap();
        let definition = rawdoc! {
            "path": "v", "numDimensions": 12, "similarity": "manhattan", "quantization": quantization,
        };
        things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
        let mut hits = 0;
        for _ in 0..20 {
            let query = vector(&mut rng);
            let distance = |own: &Vec<f32>| own.iter().zip(&query).map(|(a, b)| (a - b).abs()).sum::<f32>();
            let wanted = ten(all.iter().map(distance).collect());
            let request = VectorSearchRequest::new("near", query.clone(), 10);
            let near = |found: &[f32]| found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-2);
            assert!(near(&distances(&things, &request.clone().exact())));
            hits += usize::from(near(&distances(&things, &request)));
        }
        assert!(hits >= 18, "{quantization}: {hits}");
        db.check().unwrap();
    }
}

#[test]
fn what_is_no_bit_is_refused_in_a_search_and_not_in_an_index_of_bits() {
    let db = open(&SimDisk::new()).unwrap();
    let things = db.collection("shop.things").unwrap();
    let definition = rawdoc! { "path": "v", "numDimensions": 4, "similarity": "jaccard" };
    things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
    let packed = Binary { subtype: BinarySubtype::from(9), bytes: vec![0x10, 4, 0b1010_1111] };
    for (id, vector) in (1..).zip([
        doc! { "v": [1, 0, 1, 0] },
        doc! { "v": packed },
        doc! { "v": [0, 0, 0, 0] },
        doc! { "v": [0, 0, 2, 0] },
        doc! { "v": [0, 0, 0.5, 0] },
        doc! { "v": [true, false, true, false] },
        doc! { "v": [1, 0, 1] },
    ]) {
        let mut document = vector;
        document.insert("_id", id);
        things.insert_one(raw(&document)).unwrap();
    }
    let request = VectorSearchRequest::new("near", vec![1.0, 0.0, 1.0, 1.0], 10);
    let found = things.vector_search(&request).unwrap();
    let found: Vec<_> = found.iter().map(|one| (one.document.get_i32("_id").unwrap(), one.score)).collect();
    assert_eq!(found.iter().map(|one| one.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!((found[0].1 - 2.0 / 3.0).abs() < 1e-6 && found[2].1 == 0.0, "{found:?}");
    let error =
        things.vector_search(&VectorSearchRequest::new("near", vec![1.0, 0.0, 3.0, 0.0], 1)).unwrap_err();
    assert!(error.code == ErrorCode::BadValue && error.message.contains("element 2 is not a bit"), "{error}");
    db.check().unwrap();
}
