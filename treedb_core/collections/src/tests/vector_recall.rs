//! Recall of vector indexes for every type of elements, metric and quantization, however the vectors came and went: searches are compared
//! with plain loops over the vectors, rounded to the type, in the graph's table and in its image.

use std::collections::BTreeMap;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, doc};
use treedb_testing::Rng;

use super::*;
use crate::{Collection, DeleteRequest, IndexSpec, UpdateRequest, VectorSearchRequest};
use treedb_query::index::vector::Element;

/// Not a multiple of the lanes of any kernel.
const DIMENSIONS: usize = 21;
/// The elements and quantizations of indexes.
const TYPES: [(&str, Element, &str); 7] = [
    ("float32", Element::Float32, "none"),
    ("float32", Element::Float32, "scalar"),
    ("float16", Element::Float16, "none"),
    ("float16", Element::Float16, "scalar"),
    ("bfloat16", Element::BFloat16, "none"),
    ("bfloat16", Element::BFloat16, "scalar"),
    ("int8", Element::Int8, "none"),
];
/// Candidates of searches by few bits, which tell little of so few dimensions.
const FEW_BITS_CANDIDATES: usize = 400;
/// Those with few bits for each element in memory, which are for metrics of products.
const FEW_BITS: [(&str, Element, &str); 5] = [
    ("float32", Element::Float32, "binary"),
    ("float32", Element::Float32, "bits2"),
    ("float32", Element::Float32, "bits4"),
    ("float16", Element::Float16, "binary"),
    ("bfloat16", Element::BFloat16, "bits4"),
];

/// The vectors that documents have, rounded, and the number that filters ask for.
type Model = BTreeMap<i32, (Vec<f32>, i32)>;

/// How far two vectors are from each other.
type Distance = fn(&[f32], &[f32]) -> f64;

fn sum(a: &[f32], b: &[f32], term: impl Fn(f64, f64) -> f64) -> f64 {
    a.iter().zip(b).map(|(a, b)| term(f64::from(*a), f64::from(*b))).sum()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let product = |a, b| sum(a, b, |a, b| a * b);
    1.0 - product(a, b) / (product(a, a) * product(b, b)).sqrt()
}

fn euclidean(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |a, b| (a - b) * (a - b)).sqrt()
}

fn inner_product(a: &[f32], b: &[f32]) -> f64 {
    -sum(a, b, |a, b| a * b)
}

fn manhattan(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |a, b| (a - b).abs())
}

fn hamming(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |a, b| if a == b { 0.0 } else { 1.0 })
}

fn jaccard(a: &[f32], b: &[f32]) -> f64 {
    match sum(a, b, |a, b| a * b) {
        0.0 => 1.0,
        both => 1.0 - both / sum(a, b, f64::max),
    }
}

/// What is searched.
struct Searched {
    db: Database,
    things: Collection,
    model: Model,
    element: Element,
    bits: bool,
    few_bits: bool,
    distance: Distance,
    rng: Rng,
    name: String,
}

impl Searched {
    fn new(
        similarity: &str,
        distance: Distance,
        (name, element, quantization): (&str, Element, &str),
    ) -> Self {
        let db = open(&SimDisk::new()).unwrap();
        let things = db.collection("shop.things").unwrap();
        let bits = matches!(similarity, "hamming" | "jaccard");
        let few_bits = !matches!(quantization, "none" | "scalar");
        let name = format!("{name}, {quantization}, {similarity}");
        Searched {
            db,
            things,
            model: Model::new(),
            element,
            bits,
            few_bits,
            distance,
            rng: Rng::new(7),
            name,
        }
    }

    /// A vector in one of a few clusters.
    fn vector(&mut self) -> Vec<f32> {
        let cluster = self.rng.below(15) as f32;
        let (bits, element) = (self.bits, self.element);
        let elements = (0..DIMENSIONS).map(|at| {
            let noise = self.rng.below(2001) as f32 / 1000.0 - 1.0;
            let number = (cluster * (at as f32 + 1.0)).sin() + 0.5 * noise;
            match element {
                _ if bits => f32::from(u8::from(number > 0.0)),
                Element::Int8 => (number * 80.0).round(),
                _ => number,
            }
        });
        elements.collect()
    }

    /// A vector as a document has it: an array, or binary data.
    fn stored(&mut self, vector: &[f32]) -> Bson {
        let binary = |bytes| Binary { subtype: BinarySubtype::from(9), bytes }.into();
        match self.rng.below(2) {
            1 if self.bits => {
                let byte = |bits: &[f32]| {
                    (0..8).fold(0, |byte, at| byte << 1 | u8::from(bits.get(at) == Some(&1.0)))
                };
                let unused = (8 - DIMENSIONS % 8) as u8;
                binary([0x10, unused].into_iter().chain(vector.chunks(8).map(byte)).collect())
            }
            1 if self.element == Element::Int8 => binary(
                [3, 0]
                    .into_iter()
                    .chain(vector.iter().map(|number| (*number as i8).cast_unsigned()))
                    .collect(),
            ),
            1 => binary(
                [0x27, 0].into_iter().chain(vector.iter().flat_map(|number| number.to_le_bytes())).collect(),
            ),
            _ => vector.iter().map(|number| f64::from(*number)).collect::<Vec<_>>().into(),
        }
    }

    fn document(&mut self, id: i32) -> RawDocumentBuf {
        let vector = self.vector();
        let part = id % 1000;
        let stored = self.stored(&vector);
        self.model.insert(id, (vector.iter().map(|number| self.element.nearest(*number)).collect(), part));
        raw(&doc! { "_id": id, "part": part, "v": stored })
    }

    fn insert(&mut self, ids: std::ops::Range<i32>) {
        let documents: Vec<_> = ids.map(|id| self.document(id)).collect();
        self.things.insert_many(&documents, true).unwrap();
    }

    /// Compares searches with plain loops over the documents of which so many thousandths match.
    fn compare(&mut self, when: &str, thousandths: i32, searches: usize) {
        let (mut hits, mut wanted) = (0, 0);
        for _ in 0..searches {
            let query = self.vector();
            let matching = self.model.values().filter(|(_, part)| *part < thousandths);
            let mut nearest: Vec<f64> = matching.map(|(own, _)| (self.distance)(&query, own)).collect();
            nearest.sort_by(f64::total_cmp);
            nearest.truncate(10);
            let mut request = VectorSearchRequest::new("near", query, 10);
            if self.few_bits {
                request = request.candidates(FEW_BITS_CANDIDATES);
            }
            if thousandths < 1000 {
                request = request.filter(raw(&doc! { "part": { "$lt": thousandths } }));
            }
            let found = |request: &VectorSearchRequest| -> Vec<f64> {
                let found = self.things.vector_search(request).unwrap();
                found.iter().map(|one| f64::from(one.distance)).collect()
            };
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
            let exact = found(&request.clone().exact());
            let same = exact.len() == nearest.len() && exact.iter().zip(&nearest).all(|(a, b)| near(*a, *b));
            assert!(same, "{}, {when}, exact: {exact:?}, not {nearest:?}", self.name);
            let found = found(&request);
            assert_eq!(
                found.len(),
                nearest.len(),
                "{}, {when}: as many as match, up to the limit",
                self.name
            );
            let most = nearest.last().copied().unwrap_or(0.0);
            hits += found.iter().filter(|distance| **distance <= most || near(**distance, most)).count();
            wanted += nearest.len();
        }
        let recall = f64::from(hits as u32) / f64::from(wanted as u32);
        assert!(recall >= 0.95, "{}, {when}, {thousandths} of 1000 match: {recall}", self.name);
    }

    /// The same by the image and by the table, for several filters, and the check.
    fn compare_all(&mut self, when: &str) {
        for (memory, searches) in [(1 << 30, 8), (0, 2)] {
            self.db.set_vector_memory(memory);
            for thousandths in [1000, 500, 100, 10, 1] {
                self.compare(when, thousandths, searches);
            }
            assert_eq!(self.db.vector_memory() > 0, memory > 0, "{}, {when}", self.name);
        }
        self.db.set_vector_memory(1 << 30);
        let checked = self.db.check().unwrap();
        assert_eq!(checked.collections[0].indexes[1].1, self.model.len() as u64, "{}, {when}", self.name);
    }
}

/// Recall is at least .95 after each way in which vectors come and go.
fn recall_stays_high(similarity: &str, distance: Distance, kind: (&str, Element, &str)) {
    let mut all = Searched::new(similarity, distance, kind);
    all.insert(0..500);
    let mut field = doc! {
        "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": similarity, "quantization": kind.2,
    };
    if !all.bits {
        field.insert("elements", kind.0);
    }
    all.things.create_index(IndexSpec::vector(raw(&field)).name("near")).unwrap();
    all.compare_all("build");
    all.insert(500..1100);
    all.compare_all("insert");
    all.things.delete(DeleteRequest::many(raw(&doc! { "_id": { "$mod": [3, 1] } }))).unwrap();
    all.model.retain(|id, _| id % 3 != 1);
    all.compare_all("delete");
    for id in (0..1100).filter(|id| id % 7 == 0 && id % 3 != 1) {
        let document = Document::try_from(all.document(id)).unwrap();
        let set = raw(&doc! { "$set": { "v": document.get("v").unwrap() } });
        all.things.update(UpdateRequest::one(raw(&doc! { "_id": id }), set)).unwrap();
    }
    all.compare_all("update");
    let again: Vec<_> = (0..1100).filter(|id| id % 3 == 1).map(|id| all.document(id)).collect();
    all.things.insert_many(&again, true).unwrap();
    all.compare_all("insert again");
}

/// Of many rows so few match that it is one of a thousand, and yet as many as are asked for.
fn recall_stays_high_if_one_of_a_thousand_matches(
    similarity: &str,
    distance: Distance,
    kind: (&str, Element, &str),
) {
    const ROWS: i32 = 12_000;
    let mut all = Searched::new(similarity, distance, kind);
    all.insert(0..ROWS);
    let field = doc! {
        "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": similarity, "quantization": kind.2,
        "hnswOptions": { "maxEdges": 8, "numEdgeCandidates": 40 },
    };
    all.things.create_index(IndexSpec::vector(raw(&field)).name("near")).unwrap();
    for indexed in [false, true] {
        if indexed {
            all.things.create_index(raw(&doc! { "part": 1 })).unwrap();
        }
        for (memory, searches) in [(1 << 30, 20), (0, 4)] {
            all.db.set_vector_memory(memory);
            for thousandths in [1, 2] {
                let when = format!("by an index: {indexed}, memory {memory}");
                all.compare(&when, thousandths, searches);
            }
        }
    }
    let matching = all.model.values().filter(|(_, part)| *part < 1).count();
    assert_eq!(matching, ROWS as usize / 1000);
}

macro_rules! recall_tests {
    ($($name:ident: $similarity:literal, $distance:ident, $types:expr;)*) => {
        $(
            #[test]
            fn $name() {
                $types.into_iter().for_each(|kind| recall_stays_high($similarity, $distance, kind));
            }
        )*
    };
}

/// Bits have no other type.
const BITS: [(&str, Element, &str); 1] = [("bit", Element::Float32, "none")];

recall_tests! {
    recall_stays_high_under_cosine_for_every_type_of_elements: "cosine", cosine, TYPES;
    recall_stays_high_by_euclidean_distance_for_every_type_of_elements: "euclidean", euclidean, TYPES;
    recall_stays_high_by_inner_product_for_every_type_of_elements: "dotProduct", inner_product, TYPES;
    recall_of_few_bits_stays_high_under_cosine: "cosine", cosine, FEW_BITS;
    recall_of_few_bits_stays_high_by_euclidean_distance: "euclidean", euclidean, FEW_BITS;
    recall_of_few_bits_stays_high_by_inner_product: "dotProduct", inner_product, FEW_BITS;
    recall_stays_high_by_the_sum_of_differences_for_every_type_of_elements: "manhattan", manhattan, TYPES;
    recall_of_bits_stays_high_by_hamming_distance: "hamming", hamming, BITS;
    recall_of_bits_stays_high_by_jaccard_distance: "jaccard", jaccard, BITS;
}

#[test]
fn as_many_as_are_asked_for_are_found_if_one_of_a_thousand_matches_under_every_metric() {
    for (similarity, distance, kind) in [
        ("cosine", cosine as Distance, TYPES[1]),
        ("euclidean", euclidean, TYPES[1]),
        ("dotProduct", inner_product, FEW_BITS[2]),
        ("manhattan", manhattan, TYPES[0]),
        ("hamming", hamming, BITS[0]),
        ("jaccard", jaccard, BITS[0]),
    ] {
        recall_stays_high_if_one_of_a_thousand_matches(similarity, distance, kind);
    }
}

#[test]
fn an_image_takes_as_many_bytes_or_bits_for_each_element_as_its_type_and_quantization_say() {
    const LONG: usize = 512;
    for (name, quantization, most) in [
        ("float32", "none", 5 * LONG + 450),
        ("float32", "scalar", 3 * LONG + 450),
        ("float16", "scalar", 3 * LONG + 450),
        ("int8", "none", LONG + 450),
        ("float32", "bits4", LONG / 2 + 450),
        ("float16", "bits2", LONG / 4 + 450),
        ("float32", "binary", LONG / 8 + 450),
    ] {
        let mut rng = Rng::new(3);
        let db = open(&SimDisk::new()).unwrap();
        let things = db.collection("shop.things").unwrap();
        let documents: Vec<_> = (0..640)
            .map(|id| {
                let vector: Vec<i32> = (0..LONG).map(|_| rng.below(256) as i32 - 128).collect();
                raw(&doc! { "_id": id, "v": vector })
            })
            .collect();
        things.insert_many(&documents, true).unwrap();
        let definition = doc! { "path": "v", "numDimensions": LONG as i32, "similarity": "cosine", "elements": name, "quantization": quantization };
        things.create_index(IndexSpec::vector(raw(&definition)).name("near")).unwrap();
        while db.vector_memory() == 0
            || things.vector_search(&VectorSearchRequest::new("near", vec![1.0; LONG], 1)).unwrap().is_empty()
        {
            things.vector_search(&VectorSearchRequest::new("near", vec![1.0; LONG], 1)).unwrap();
        }
        for _ in 0..200 {
            things.vector_search(&VectorSearchRequest::new("near", vec![1.0; LONG], 1)).unwrap();
        }
        let each = db.vector_memory() as usize / 640;
        assert!((most - 450..most).contains(&each), "{name} {quantization}: {each} bytes for each vector");
    }
}

#[test]
fn a_search_of_whole_numbers_may_ask_for_others_and_finds_no_vector_that_has_others() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let things = db.collection("shop.things").unwrap();
    let definition = doc! { "path": "v", "numDimensions": 2, "similarity": "euclidean", "elements": "int8" };
    things.create_index(IndexSpec::vector(raw(&definition)).name("near")).unwrap();
    for (id, vector) in (1..).zip([
        Bson::from(vec![1, 2]),
        vec![-128, 127].into(),
        vec![0.5, 1.0].into(),
        vec![128, 0].into(),
        vec![f64::NAN, 0.0].into(),
        Binary { subtype: BinarySubtype::from(9), bytes: vec![3, 0, 3, 4] }.into(),
        vec![1].into(),
        Bson::Null,
    ]) {
        things.insert_one(raw(&doc! { "_id": id, "v": vector })).unwrap();
    }
    things.insert_one(raw(&doc! { "_id": 20 })).unwrap();
    let found = |vector: Vec<f32>| -> Vec<(i32, f32)> {
        let found = things.vector_search(&VectorSearchRequest::new("near", vector, 10)).unwrap();
        found.iter().map(|one| (one.document.get_i32("_id").unwrap(), one.distance)).collect()
    };
    for _ in 0..3 {
        assert_eq!(found(vec![1.5, 2.0]).iter().map(|one| one.0).collect::<Vec<_>>(), [1, 6, 2]);
        assert_eq!(found(vec![1.5, 2.0])[0].1, 0.5);
        assert_eq!(found(vec![1e6, 2.0])[0], (6, 1e6 - 3.0));
    }
    db.check().unwrap();
    drop(things);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    let things = db.collection("shop.things").unwrap();
    let listed = things.search_indexes().unwrap().unwrap();
    assert!(listed[0].spec.as_bytes().windows(4).any(|four| four == b"int8"), "{listed:?}");
    things.drop_index("near").unwrap();
    db.check().unwrap();
}

#[test]
fn vectors_may_have_one_dimension_and_as_many_as_mongodb_allows() {
    const MOST: usize = 8192;
    for (name, element, quantization) in TYPES.into_iter().chain(FEW_BITS) {
        for dimensions in [1, MOST] {
            let mut rng = Rng::new(9);
            let db = open(&SimDisk::new()).unwrap();
            let things = db.collection("shop.things").unwrap();
            let definition = doc! {
                "path": "v", "numDimensions": dimensions as i32, "similarity": "euclidean", "quantization": quantization,
                "elements": name,
            };
            things.create_index(IndexSpec::vector(raw(&definition)).name("near")).unwrap();
            let mut vector =
                || -> Vec<f32> { (0..dimensions).map(|_| rng.below(255) as f32 - 127.0).collect() };
            let all: Vec<Vec<f32>> = (0..12).map(|_| vector()).collect();
            let documents: Vec<_> = (0..)
                .zip(&all)
                .map(|(id, vector): (i32, _)| {
                    let bytes =
                        [0x27, 0].into_iter().chain(vector.iter().flat_map(|number| number.to_le_bytes()));
                    let vector = Binary { subtype: BinarySubtype::from(9), bytes: bytes.collect() };
                    raw(&doc! { "_id": id, "v": vector })
                })
                .collect();
            things.insert_many(&documents, true).unwrap();
            // One more or less is another number of dimensions.
            for other in [dimensions + 1, dimensions - 1] {
                things.insert_one(raw(&doc! { "v": vec![1; other] })).unwrap();
            }
            let query = vector();
            let rounded =
                |own: &Vec<f32>| own.iter().map(|number| element.nearest(*number)).collect::<Vec<_>>();
            let mut nearest: Vec<f64> = all.iter().map(|own| euclidean(&query, &rounded(own))).collect();
            nearest.sort_by(f64::total_cmp);
            for _ in 0..40 {
                let found =
                    things.vector_search(&VectorSearchRequest::new("near", query.clone(), 50)).unwrap();
                let found: Vec<f64> = found.iter().map(|one| f64::from(one.distance)).collect();
                let same = found.iter().zip(&nearest).all(|(a, b)| (a - b).abs() <= 1e-3 * b.max(1.0));
                assert!(
                    found.len() == 12 && same,
                    "{name} {quantization} {dimensions}: {found:?}, not {nearest:?}"
                );
            }
            db.check().unwrap();
        }
        let definition =
            doc! { "path": "v", "numDimensions": MOST as i32 + 1, "similarity": "cosine", "elements": name };
        let db = open(&SimDisk::new()).unwrap();
        let refused = db.collection("shop.things").unwrap().create_index(IndexSpec::vector(raw(&definition)));
        assert!(refused.unwrap_err().message.contains("8192"));
    }
}
