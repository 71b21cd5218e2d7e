//! Images of each metric, type of elements and quantization, of documents with several vectors, and of next to nothing.

use bson::RawDocumentBuf;

use super::*;

/// A definition of an index of so many dimensions.
fn definition(similarity: &str, elements: &str, quantization: &str, dimensions: i32) -> RawDocumentBuf {
    let mut definition = doc! { "path": "v", "numDimensions": dimensions, "similarity": similarity };
    if !elements.is_empty() {
        definition.insert("elements", elements);
    }
    if !quantization.is_empty() {
        definition.insert("quantization", quantization);
    }
    raw(&definition)
}

/// A vector for such an index.
fn vector(similarity: &str, elements: &str, dimensions: i32, rng: &mut Rng) -> Vec<f32> {
    (0..dimensions)
        .map(|_| match (similarity, elements) {
            ("hamming" | "jaccard", _) => rng.below(2) as f32,
            (_, "int8") => rng.below(255) as f32 - 127.0,
            _ => rng.below(2001) as f32 / 1000.0 - 0.9995,
        })
        .collect()
}

/// Compares what a search with an image finds with what the same search of an exact one finds; how many of the ten nearest it has.
fn compare(db: &Database, query: &[f32]) -> usize {
    let request = VectorSearchRequest::new("near", query.to_vec(), 10).candidates(200);
    let near = |request: &VectorSearchRequest| -> Vec<(i32, u32)> {
        let found = things(db).vector_search(request).unwrap();
        found.iter().map(|one| (one.document.get_i32("_id").unwrap(), one.distance.to_bits())).collect()
    };
    let (found, exact) = (near(&request), near(&request.clone().exact()));
    let distances = |all: &[(i32, u32)]| all.iter().map(|(_, distance)| *distance).collect::<Vec<_>>();
    let worst = distances(&exact).into_iter().map(f32::from_bits).fold(f32::MIN, f32::max);
    found.iter().filter(|(_, distance)| f32::from_bits(*distance) <= worst).count()
}

#[test]
fn images_of_every_kind_come_back_as_they_were_and_follow_what_is_written_then() {
    let floats = ["", "float16", "bfloat16"];
    let mut kinds: Vec<(&str, &str, &str, bool)> = Vec::new();
    for (of, similarity) in ["cosine", "euclidean", "dotProduct"].into_iter().enumerate() {
        for (at, elements) in floats.into_iter().enumerate() {
            for (with, quantization) in ["none", "scalar", "binary", "bits2", "bits4"].into_iter().enumerate()
            {
                kinds.push((similarity, elements, quantization, (of + at + with) % 2 == 0));
            }
        }
        kinds.push((similarity, "int8", "", of == 1));
    }
    for quantization in ["none", "scalar"] {
        kinds.push(("manhattan", "", quantization, true));
        kinds.push(("manhattan", "float16", quantization, false));
    }
    kinds.push(("manhattan", "int8", "", true));
    kinds.extend([("hamming", "", "", true), ("hamming", "", "", false), ("jaccard", "", "", false)]);
    for (seed, (similarity, elements, quantization, several)) in (100..).zip(kinds) {
        let name = format!("{similarity} {elements} {quantization} {several}");
        let (disk, mut rng) = (SimDisk::new(), Rng::new(seed));
        let dimensions = if matches!(similarity, "hamming" | "jaccard") { 96 } else { 32 };
        let one = |rng: &mut Rng| {
            let vector = vector(similarity, elements, dimensions, rng);
            bson::Bson::from(vector.into_iter().map(f64::from).collect::<Vec<_>>())
        };
        let made = |id: i32, rng: &mut Rng| {
            let vectors = (0..1 + id % 3).map(|_| one(rng)).collect::<Vec<_>>();
            raw(&if several {
                doc! { "_id": id, "v": vectors }
            } else {
                doc! { "_id": id, "v": one(rng) }
            })
        };
        let db = open(&disk).unwrap();
        let documents: Vec<_> = (0..350).map(|id| made(id, &mut rng)).collect();
        things(&db).insert_many(&documents, true).unwrap();
        let spec = definition(similarity, elements, quantization, dimensions);
        things(&db).create_index(IndexSpec::vector(spec).name("near")).unwrap();
        let query = |rng: &mut Rng| vector(similarity, elements, dimensions, rng);
        let change = |db: &Database, from: i32, rng: &mut Rng| {
            things(db)
                .delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": from, "$lt": from + 15 } }))
                .unwrap();
            for id in from + 20..from + 30 {
                let document = Document::try_from(&made(id, rng)).unwrap();
                let set = raw(&doc! { "$set": { "v": document.get("v").unwrap() } });
                things(db).update(UpdateRequest::one(rawdoc! { "_id": id }, set)).unwrap();
            }
            things(db).insert_one(made(1000 + from, rng)).unwrap();
        };
        let find = |db: &Database, rng: &mut Rng| (0..30).map(|_| compare(db, &query(rng))).sum::<usize>();
        find(&db, &mut rng);
        change(&db, 0, &mut rng);
        let before = find(&db, &mut rng);
        db.close().unwrap();
        assert_eq!(files(&disk).len(), 1, "{name}");
        for round in 1..4 {
            let db = open(&disk).unwrap();
            let found = find(&db, &mut rng);
            let memory = db.vector_memory_use();
            assert_eq!((memory.built, memory.loaded), (0, 1), "{name}");
            assert!(found + 15 >= before && found >= 255, "{name}: {found} of {before}");
            change(&db, 50 * round, &mut rng);
            assert!(find(&db, &mut rng) >= 255, "{name}");
            db.check().unwrap();
            // Half of the time by what was recovered.
            if round % 2 == 0 { db.close().unwrap() } else { drop(db) }
        }
    }
}

#[test]
fn a_saved_image_of_which_all_vectors_are_deleted_and_an_index_without_any_are_searched() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(31));
    saved(&disk, &mut rng).close().unwrap();
    let db = open(&disk).unwrap();
    things(&db).delete(DeleteRequest::many(rawdoc! {})).unwrap();
    let nothing = |db: &Database| {
        let request = VectorSearchRequest::new("near", vec![0.5; DIMENSIONS], 5);
        assert_eq!((0..10).map(|_| things(db).vector_search(&request).unwrap().len()).sum::<usize>(), 0);
    };
    drop(db);
    for _ in 0..3 {
        let db = open(&disk).unwrap();
        nothing(&db);
        db.close().unwrap();
    }
    let db = open(&disk).unwrap();
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(id, &mut rng)).collect();
    things(&db).insert_many(&documents, true).unwrap();
    (0..30).for_each(|_| search(&db, &mut rng));
    check_all(&db, &mut rng);
    db.close().unwrap();
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
}
