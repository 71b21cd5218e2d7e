//! Documents with several vectors: each of them finds the document, which counts once, by the nearest.

use std::collections::BTreeMap;

use bson::{Bson, doc, rawdoc};
use treedb_testing::Rng;

use super::*;
use crate::{Collection, DeleteRequest, IndexSpec, Neighbor, SearchPath, UpdateRequest, VectorSearchRequest};
use treedb_query::error::ErrorCode;
use treedb_query::index::vector::Metric;

const DIMENSIONS: usize = 16;

fn floats(rng: &mut Rng) -> Vec<f32> {
    (0..DIMENSIONS).map(|_| rng.below(2001) as f32 / 1000.0 - 1.0 + 0.0005).collect()
}

fn array(vector: &[f32]) -> Bson {
    vector.iter().map(|element| f64::from(*element)).collect::<Vec<f64>>().into()
}

/// The vectors of the documents, as the oracle has them.
type Model = BTreeMap<i32, Vec<Vec<f32>>>;

/// Chunks with these vectors, and one without any.
fn chunks(vectors: &[Vec<f32>]) -> Bson {
    let mut chunks: Vec<Bson> =
        vectors.iter().map(|vector| doc! { "text": "t", "embedding": array(vector) }.into()).collect();
    chunks.insert(chunks.len() / 2, doc! { "text": "not embedded" }.into());
    chunks.into()
}

fn document(rng: &mut Rng, model: &mut Model, id: i32) -> RawDocumentBuf {
    let vectors: Vec<Vec<f32>> = (0..rng.below(6)).map(|_| floats(rng)).collect();
    let document = raw(&doc! { "_id": id, "part": id % 100, "chunks": chunks(&vectors) });
    model.insert(id, vectors);
    document
}

fn spec(similarity: &str, quantization: &str) -> IndexSpec {
    IndexSpec::vector(rawdoc! {
        "path": "chunks.embedding", "numDimensions": DIMENSIONS as i32, "similarity": similarity, "quantization": quantization,
    })
    .name("near")
}

/// The nearest documents that a model has.
fn nearest(model: &Model, metric: Metric, vector: &[f32], most: usize) -> Vec<(f32, i32)> {
    let distance = |vectors: &Vec<Vec<f32>>| {
        vectors.iter().map(|own| metric.distance(vector, own)).min_by(f32::total_cmp)
    };
    let mut all: Vec<(f32, i32)> =
        model.iter().filter_map(|(id, vectors)| Some((distance(vectors)?, *id))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.truncate(most);
    all
}

fn pairs(found: &[Neighbor]) -> Vec<(f32, i32)> {
    found.iter().map(|one| (one.distance, one.document.get_i32("_id").unwrap())).collect()
}

/// Compares searches with the model; returns the share of the ten nearest that the index finds.
fn compare(things: &Collection, model: &Model, metric: Metric, rng: &mut Rng) -> f64 {
    let (mut hits, mut wanted) = (0, 0);
    for _ in 0..8 {
        let request = VectorSearchRequest::new("near", floats(rng), 10);
        let oracle = nearest(model, metric, &request.vector, 10);
        assert_eq!(pairs(&things.vector_search(&request.clone().exact()).unwrap()), oracle);
        let found = pairs(&things.vector_search(&request).unwrap());
        assert_eq!(found.len(), oracle.len());
        for (distance, id) in &found {
            // The distance is that of the best vector, whichever of them was found.
            let own =
                model.iter().filter(|(own, _)| *own == id).map(|(id, own)| (*id, own.clone())).collect();
            assert!(are_alike(&nearest(&own, metric, &request.vector, 1), &[(*distance, *id)]));
        }
        assert_eq!(found.iter().map(|(_, id)| id).collect::<BTreeSet<_>>().len(), found.len(), "{found:?}");
        hits += found.iter().filter(|one| oracle.iter().any(|other| other.1 == one.1)).count();
        wanted += oracle.len();
        // All documents there are, whatever the graph leads to.
        let all = VectorSearchRequest { limit: model.len() + 5, ..request };
        let mut found = pairs(&things.vector_search(&all).unwrap());
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        assert!(are_alike(&found, &nearest(model, metric, &all.vector, usize::MAX)));
    }
    hits as f64 / f64::from(wanted as u32).max(1.0)
}

/// Whether two answers are the same, but for what rounding does to distances.
fn are_alike(found: &[(f32, i32)], wanted: &[(f32, i32)]) -> bool {
    let alike = |a: &(f32, i32), b: &(f32, i32)| a.1 == b.1 && (a.0 - b.0).abs() < 1e-6;
    found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| alike(a, b))
}

fn vectors_of(model: &Model) -> u64 {
    model.values().map(|vectors| vectors.len() as u64).sum()
}

#[test]
fn a_document_is_found_once_by_its_best_vector_under_every_metric_however_it_was_written() {
    let metrics =
        [("cosine", Metric::Cosine), ("euclidean", Metric::L2), ("dotProduct", Metric::InnerProduct)];
    for (seed, (similarity, metric)) in (1..).zip(metrics) {
        for (quantization, images) in
            [("scalar", true), ("scalar", false), ("none", true), ("bits4", true), ("binary", false)]
        {
            let (mut rng, mut model) = (Rng::new(seed), Model::new());
            let db = open(&SimDisk::new()).unwrap();
            if !images {
                db.set_vector_memory(0);
            }
            let things = db.collection("shop.things").unwrap();
            let documents: Vec<_> = (0..240).map(|id| document(&mut rng, &mut model, id)).collect();
            let (first, rest) = documents.split_at(80);
            let (bulk, single) = rest.split_at(80);
            things.insert_many(first, true).unwrap();
            things.create_index(spec(similarity, quantization)).unwrap();
            things.insert_many(bulk, true).unwrap();
            single.iter().for_each(|document| drop(things.insert_one(document).unwrap()));
            let recall = compare(&things, &model, metric, &mut rng);
            assert!(recall >= 0.97, "{similarity} {quantization}: {recall}");
            let report = db.check().unwrap();
            assert_eq!(report.collections[0].indexes[1], ("near".to_owned(), vectors_of(&model)));
        }
    }
}

#[test]
fn a_filtered_search_compares_documents_with_several_vectors_in_memory_and_follows_their_changes() {
    for (seed, similarity, metric, quantization) in [
        (31, "euclidean", Metric::L2, "scalar"),
        (32, "cosine", Metric::Cosine, "scalar"),
        (33, "dotProduct", Metric::InnerProduct, "none"),
        (34, "euclidean", Metric::L2, "bits4"),
    ] {
        let (mut rng, mut model) = (Rng::new(seed), Model::new());
        let db = open(&SimDisk::new()).unwrap();
        let things = db.collection("shop.things").unwrap();
        let documents: Vec<_> = (0..1500).map(|id| document(&mut rng, &mut model, id)).collect();
        things.insert_many(&documents, true).unwrap();
        things.create_index(rawdoc! { "part": 1 }).unwrap();
        things.create_index(spec(similarity, quantization)).unwrap();
        for _ in 0..30 {
            things.vector_search(&VectorSearchRequest::new("near", floats(&mut rng), 1)).unwrap();
        }
        let (mut hits, mut wanted, mut in_memory) = (0, 0, 0);
        for round in 0..40 {
            let changed = rng.below(1500) as i32;
            let vectors = model.get_mut(&changed).unwrap();
            match round % 3 {
                0 => drop(vectors.pop()),
                1 => vectors.insert(0, floats(&mut rng)),
                _ => vectors.push(floats(&mut rng)),
            }
            let set = doc! { "$set": { "chunks": chunks(vectors) } };
            things.update(UpdateRequest::one(rawdoc! { "_id": changed }, raw(&set))).unwrap();
            let below = 1 + rng.below(20) as i32;
            let request = VectorSearchRequest::new("near", floats(&mut rng), 10).candidates(20 + 10 * round);
            let request = request.filter(rawdoc! { "part": { "$lt": below } });
            let answer = things.vector_search_answer(&request).unwrap();
            // Not while an image is brought up to date, which takes some searches here.
            if matches!(answer.work.path, SearchPath::MatchingRows | SearchPath::GraphOfMatchingRows) {
                in_memory += 1;
                assert_eq!(answer.work.documents_examined > 0, quantization == "bits4", "{:?}", answer.work);
            }
            let matching: Model = { model.iter() }
                .filter(|(id, _)| *id % 100 < below)
                .map(|(id, vectors)| (*id, vectors.clone()))
                .collect();
            let oracle = nearest(&matching, metric, &request.vector, 10);
            let found = pairs(&answer.neighbors);
            assert_eq!(found.len(), oracle.len());
            for one in &found {
                let own = Model::from([(one.1, matching[&one.1].clone())]);
                assert!(are_alike(&nearest(&own, metric, &request.vector, 1), &[*one]));
            }
            hits += found.iter().filter(|one| oracle.iter().any(|other| other.1 == one.1)).count();
            wanted += oracle.len();
        }
        assert!(hits * 100 >= wanted * 97, "{similarity} {quantization}: {hits} of {wanted}");
        assert!(in_memory >= 20, "{similarity} {quantization}: {in_memory}");
        assert!(db.check().is_ok());
    }
}

#[test]
fn a_search_follows_changes_of_single_vectors() {
    for (seed, quantization) in [(1, "scalar"), (2, "none"), (3, "bits4")] {
        let (mut rng, mut model) = (Rng::new(seed), Model::new());
        let db = open(&SimDisk::new()).unwrap();
        let things = db.collection("shop.things").unwrap();
        let documents: Vec<_> = (0..250).map(|id| document(&mut rng, &mut model, id)).collect();
        things.insert_many(&documents, true).unwrap();
        things.create_index(spec("euclidean", quantization)).unwrap();
        let mut next = 250;
        for _ in 0..25 {
            for _ in 0..rng.below(16) {
                let id = rng.below(next as usize) as i32;
                let filter = rawdoc! { "_id": id };
                match (rng.below(5), model.get_mut(&id)) {
                    (0, _) => {
                        things.insert_one(document(&mut rng, &mut model, next)).unwrap();
                        next += 1;
                    }
                    (1, Some(_)) => {
                        things.delete(DeleteRequest::one(filter)).unwrap();
                        model.remove(&id);
                    }
                    (2, Some(vectors)) => {
                        let added = floats(&mut rng);
                        let push = doc! { "$push": { "chunks": { "embedding": array(&added) } } };
                        things.update(UpdateRequest::one(filter, raw(&push))).unwrap();
                        vectors.push(added);
                    }
                    (3, Some(vectors)) if !vectors.is_empty() => {
                        vectors.remove(rng.below(vectors.len()));
                        let set = doc! { "$set": { "chunks": chunks(vectors) } };
                        things.update(UpdateRequest::one(filter, raw(&set))).unwrap();
                    }
                    (_, Some(vectors)) if !vectors.is_empty() => {
                        let at = rng.below(vectors.len());
                        vectors[at] = floats(&mut rng);
                        let set = doc! { "$set": { "chunks": chunks(vectors) } };
                        things.update(UpdateRequest::one(filter, raw(&set))).unwrap();
                    }
                    _ => {}
                }
            }
            let recall = compare(&things, &model, Metric::L2, &mut rng);
            assert!(recall >= 0.95, "{quantization}: {recall}");
        }
        assert!(db.vector_memory() > 0);
        assert_eq!(db.check().unwrap().collections[0].indexes[1].1, vectors_of(&model));
    }
}

#[test]
fn as_many_documents_are_found_as_are_asked_for_if_one_has_most_of_the_near_vectors() {
    let mut rng = Rng::new(3);
    for images in [true, false] {
        let db = open(&SimDisk::new()).unwrap();
        if !images {
            db.set_vector_memory(0);
        }
        let things = db.collection("shop.things").unwrap();
        things.create_index(spec("euclidean", "scalar")).unwrap();
        let around = |rng: &mut Rng, count: usize, far: f32| -> Vec<Vec<f32>> {
            let mut near = || floats(rng).iter().map(|element| far + element / 100.0).collect::<Vec<f32>>();
            (0..count).map(|_| near()).collect()
        };
        let mut model = Model::new();
        for (id, count, far) in [(0, 999, 0.0), (1, 500, 0.1), (2, 1, 0.2), (3, 300, 0.3), (4, 2, 0.4)] {
            let vectors = around(&mut rng, count, far);
            let all: Vec<Bson> = vectors.iter().map(|vector| array(vector)).collect();
            // An array of vectors in one chunk.
            things.insert_one(raw(&doc! { "_id": id, "chunks": { "embedding": all } })).unwrap();
            model.insert(id, vectors);
        }
        for limit in [1, 2, 3, 4, 5, 50] {
            let request = VectorSearchRequest::new("near", vec![0.0; DIMENSIONS], limit).candidates(50);
            let found = pairs(&things.vector_search(&request).unwrap());
            assert_eq!(found, nearest(&model, Metric::L2, &request.vector, limit), "{images} {limit}");
            let odd = request.filter(rawdoc! { "_id": { "$mod": [2, 1] } });
            let ids: Vec<i32> = pairs(&things.vector_search(&odd).unwrap()).iter().map(|one| one.1).collect();
            assert_eq!(ids, [1, 3][..limit.min(2)]);
        }
        db.check().unwrap();
    }
}

#[test]
fn a_transaction_finds_every_vector_of_a_document_of_which_it_has_changed_one() {
    let (mut rng, mut model) = (Rng::new(4), Model::new());
    let db = open(&SimDisk::new()).unwrap();
    let things = db.collection("shop.things").unwrap();
    let documents: Vec<_> = (0..80).map(|id| document(&mut rng, &mut model, id)).collect();
    things.insert_many(&documents, true).unwrap();
    things.create_index(spec("euclidean", "scalar")).unwrap();
    let before = model.clone();
    let mut txn = db.begin().unwrap();
    let mut mine = txn.collection("shop.things").unwrap();
    for id in (0..80).step_by(3) {
        let vectors = model.get_mut(&id).unwrap();
        match vectors.first_mut() {
            Some(first) => *first = floats(&mut rng),
            None => vectors.push(floats(&mut rng)),
        }
        let set = doc! { "$set": { "chunks": chunks(vectors) } };
        mine.update(UpdateRequest::one(rawdoc! { "_id": id }, raw(&set))).unwrap();
    }
    mine.insert_one(document(&mut rng, &mut model, 100)).unwrap();
    mine.delete(DeleteRequest::one(rawdoc! { "_id": 7 })).unwrap();
    model.remove(&7);
    for _ in 0..10 {
        let request = VectorSearchRequest::new("near", floats(&mut rng), 200);
        let found = pairs(&mine.vector_search(&request).unwrap());
        assert_eq!(found, nearest(&model, Metric::L2, &request.vector, usize::MAX));
        let others = pairs(&things.vector_search(&request).unwrap());
        assert_eq!(others, nearest(&before, Metric::L2, &request.vector, usize::MAX));
    }
    txn.commit().unwrap();
    assert!(compare(&things, &model, Metric::L2, &mut rng) > 0.97);
    assert_eq!(db.check().unwrap().collections[0].indexes[1].1, vectors_of(&model));
}

#[test]
fn a_document_with_more_vectors_than_an_index_takes_is_refused() {
    let db = open(&SimDisk::new()).unwrap();
    let things = db.collection("shop.things").unwrap();
    let document = |id: i32, count: usize| {
        let vectors = vec![vec![0.5; DIMENSIONS]; count];
        raw(
            &doc! { "_id": id, "chunks": { "embedding": vectors.iter().map(|one| array(one)).collect::<Vec<_>>() } },
        )
    };
    let refused = |error: treedb_query::QueryError| {
        assert_eq!(error.code, ErrorCode::BadValue);
        assert!(error.message.contains("more than 1000 vectors in 'chunks.embedding'"), "{error}");
    };
    things.insert_one(document(0, 1001)).unwrap();
    refused(things.create_index(spec("euclidean", "scalar")).unwrap_err());
    assert!(things.search_indexes().unwrap().unwrap().is_empty());
    things.delete(DeleteRequest::one(rawdoc! { "_id": 0 })).unwrap();
    things.create_index(spec("euclidean", "scalar")).unwrap();
    refused(things.insert_one(document(1, 1001)).unwrap_err());
    things.insert_one(document(2, 1000)).unwrap();
    let push = raw(&doc! { "$push": { "chunks.embedding": array(&[0.5; DIMENSIONS]) } });
    refused(things.update(UpdateRequest::one(rawdoc! { "_id": 2 }, push)).unwrap_err());
    let many: Vec<_> = (10..30).map(|id| document(id, if id == 20 { 1001 } else { 2 })).collect();
    let outcome = things.insert_many(&many, false).unwrap();
    assert_eq!((outcome.inserted, outcome.errors.len()), (19, 1));
    assert_eq!(db.check().unwrap().collections[0].indexes[1].1, 1000 + 2 * 19);
}
