//! The sets of vectors. All are normalised, so that cosine distance and inner product give the same order.

use std::path::{Path, PathBuf};

use treedb_testing::Clusters;

use crate::Result;

/// Neighbours asked for in every search.
pub(crate) const K: usize = 10;
const QUERIES: usize = 1_000;
/// How the names of sets end that a formula makes.
const BY_FORMULA: &str = "by formula";

/// Vectors, held-out queries and the exact answers.
pub(crate) struct Set {
    pub name: String,
    pub dimensions: usize,
    pub vectors: Vec<Vec<f32>>,
    pub queries: Vec<Vec<f32>>,
    /// The distance of the [`K`]th nearest vector of each query, with room for rounding. Of equally distant ones any
    /// will do.
    limits: Vec<f32>,
}

fn normalised(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= length);
    vector
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    // Eight sums, so that the compiler can use vector instructions.
    let (mut sums, (a, b)) = ([0.0f32; 8], (a.as_chunks::<8>(), b.as_chunks::<8>()));
    for (a, b) in a.0.iter().zip(b.0) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f32>() + a.1.iter().zip(b.1).map(|(a, b)| a * b).sum::<f32>()
}

impl Set {
    fn new(name: String, vectors: Vec<Vec<f32>>, queries: Vec<Vec<f32>>) -> Set {
        let limit = |query: &Vec<f32>| {
            let mut distances: Vec<f32> = vectors.iter().map(|vector| 1.0 - dot(query, vector)).collect();
            let at = K.min(distances.len()) - 1;
            *distances.select_nth_unstable_by(at, f32::total_cmp).1 + 1e-5
        };
        let limits = queries.iter().map(limit).collect();
        let dimensions = queries.first().map_or(0, Vec::len);
        Set { name, dimensions, vectors, queries, limits }
    }

    /// The first of its vectors, with the same queries; this set if it has no more.
    pub(crate) fn first(&self, rows: usize) -> Set {
        let rows = rows.min(self.vectors.len());
        let name = self.name.replacen(&self.vectors.len().to_string(), &rows.to_string(), 1);
        Set::new(name, self.vectors[..rows].to_vec(), self.queries.clone())
    }

    /// The same vectors with some of them as queries, as the project's first benchmark asked for them.
    pub(crate) fn asked_for_its_own(&self) -> Set {
        let rows = self.vectors.len();
        let query = |n: usize| self.vectors[(n * 7919 + rows / 3 + 17) % rows].clone();
        let queries = (0..QUERIES.min(rows)).map(query).collect();
        Set::new(self.name.clone(), self.vectors.clone(), queries)
    }

    /// Whether it is a set of the project's first benchmark.
    pub(crate) fn is_by_formula(&self) -> bool {
        self.name.ends_with(BY_FORMULA)
    }

    /// How many of the vectors found for query `number` are among its [`K`] nearest.
    pub(crate) fn hits(&self, number: usize, found: &[u32]) -> usize {
        self.hits_within(number, found, self.limits[number])
    }

    /// Its first queries, at most so many.
    pub(crate) fn questions(&self, most: usize) -> Questions<'_> {
        let queries = self.queries.get(..most).unwrap_or(&self.queries);
        Questions { set: self, queries, limits: self.limits.clone(), rows: K.min(self.vectors.len()) }
    }

    /// The same among the vectors that match a filter, which lets so many of a thousand through.
    pub(crate) fn filtered_questions(&self, most: usize, part: u32) -> Questions<'_> {
        let queries = self.queries.get(..most).unwrap_or(&self.queries);
        let limits = self.limits_of(queries, part);
        Questions { set: self, queries, limits, rows: K.min(self.matching(part)) }
    }

    /// How many of the vectors match a filter that lets so many of a thousand through.
    pub(crate) fn matching(&self, part: u32) -> usize {
        (0..self.vectors.len() as u32).filter(|row| row % 1000 < part).count()
    }

    /// For queries from the first on, the distance of the [`K`]th nearest vector that matches, with room for rounding.
    pub(crate) fn limits_of(&self, queries: &[Vec<f32>], part: u32) -> Vec<f32> {
        let limit = |query: &Vec<f32>| {
            let matching = self.vectors.iter().enumerate().filter(|(row, _)| *row as u32 % 1000 < part);
            let mut distances: Vec<f32> = matching.map(|(_, vector)| 1.0 - dot(query, vector)).collect();
            distances.sort_unstable_by(f32::total_cmp);
            distances.get(K.min(distances.len()).saturating_sub(1)).map_or(0.0, |distance| distance + 1e-5)
        };
        queries.iter().map(limit).collect()
    }

    /// How many of the vectors found for query `number` are no farther than `limit`.
    pub(crate) fn hits_within(&self, number: usize, found: &[u32], limit: f32) -> usize {
        let query = &self.queries[number];
        found.iter().filter(|row| 1.0 - dot(query, &self.vectors[**row as usize]) <= limit).count()
    }
}

/// Queries of a set, and what answers them.
pub(crate) struct Questions<'s> {
    set: &'s Set,
    pub queries: &'s [Vec<f32>],
    /// For each query, how far the rows may be that answer it.
    limits: Vec<f32>,
    /// How many rows each of them should find.
    pub rows: usize,
}

impl Questions<'_> {
    /// How many of the vectors found for query `number` are among the nearest.
    pub(crate) fn hits(&self, number: usize, found: &[u32]) -> usize {
        self.set.hits_within(number, found, self.limits[number])
    }

    /// How many rows are to be found for all queries.
    pub(crate) fn all_rows(&self) -> usize {
        self.queries.len() * self.rows
    }
}

/// The formula of the project's first benchmark; neighbouring rows are near-duplicates. The queries lie half-way between
/// two rows.
fn formula(rows: usize, dimensions: usize) -> Set {
    let vector = |i: f64| {
        let element = |d: usize| {
            let (n, d) = ((i % 31.0).floor(), (d + 1) as f64);
            (((i + 1.0) * d * 0.013).sin() + ((i + 18.0) * d * 0.007).cos() + ((n + 1.0) * d * 0.019).sin())
                as f32
        };
        normalised((0..dimensions).map(element).collect())
    };
    let vectors = (0..rows).map(|i| vector(i as f64)).collect();
    let between = |n: usize| vector((n * rows / QUERIES.min(rows)) as f64 + 0.5);
    let queries = (0..QUERIES.min(rows)).map(between).collect();
    Set::new(format!("{rows} x {dimensions} {BY_FORMULA}"), vectors, queries)
}

fn clusters(rows: usize, dimensions: usize) -> Set {
    let mut data = Clusters::new(1, dimensions, 200, 24);
    let vectors = (0..rows).map(|_| normalised(data.vector())).collect();
    let queries = (0..QUERIES.min(rows)).map(|_| normalised(data.vector())).collect();
    Set::new(format!("{rows} x {dimensions} in clusters"), vectors, queries)
}

/// Where `bench/text_vectors.py` writes embeddings of texts about Debian packages: beside those of 384 dimensions are others.
fn text_vectors(dimensions: usize) -> PathBuf {
    let place = std::env::var_os("BENCH_TEXT_VECTORS").map(PathBuf::from);
    let place = place.unwrap_or_else(|| PathBuf::from("target/bench-data/text_vectors.f32"));
    beside(&place, dimensions)
}

fn beside(place: &Path, dimensions: usize) -> PathBuf {
    let stem = place.file_stem().unwrap_or_default().display();
    let end = place.extension().map(|end| format!(".{}", end.display())).unwrap_or_default();
    match dimensions {
        384 => place.to_owned(),
        _ => place.with_file_name(format!("{stem}_{dimensions}{end}")),
    }
}

/// Embeddings of real sentences, little-endian, one after another, at most so many; queries are evenly among them.
fn sentences(dimensions: usize, most: usize, divide: usize) -> Result<Set> {
    let file = text_vectors(dimensions);
    let bytes = std::fs::read(&file)?;
    let elements: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let all = elements.chunks_exact(dimensions);
    if !all.remainder().is_empty() {
        return Err(format!("{} has other vectors than of {dimensions} dimensions", file.display()).into());
    }
    let count = all.len();
    let (every, wanted) = (count / QUERIES.min(count / 2).max(1), count / divide);
    let (mut vectors, mut queries) = (Vec::new(), Vec::new());
    for (i, vector) in all.take(wanted).enumerate() {
        if vectors.len() == most {
            break;
        }
        let to = if i % every == 0 { &mut queries } else { &mut vectors };
        to.push(normalised(vector.to_vec()));
    }
    if vectors.len() < K {
        return Err(format!("{} has only {count} vectors", file.display()).into());
    }
    let fields = if dimensions == 1536 { ", two fields" } else { "" };
    Ok(Set::new(format!("{} x {dimensions} of sentences{fields}", vectors.len()), vectors, queries))
}

/// A set that is generated when it is needed.
pub(crate) type LateSet = Box<dyn Fn() -> Result<Set>>;

/// All sets of vectors in memory. Sets of sentences are left out if their files are missing.
pub(crate) fn sets(divide: u64) -> Vec<LateSet> {
    let divide = divide as usize;
    let mut sets: Vec<LateSet> = vec![
        Box::new(move || Ok(formula(10_000 / divide, 64))),
        Box::new(move || Ok(clusters(100_000 / divide, 128))),
    ];
    add_sentences(&mut sets, 384, usize::MAX, divide);
    add_sentences(&mut sets, 768, usize::MAX, divide);
    sets.push(Box::new(move || Ok(formula(10_000 / divide, 1536))));
    add_sentences(&mut sets, 1536, usize::MAX, divide);
    sets
}

/// The sets of a database server, of fewer vectors: there, building indexes takes most of the time. Sets of sentences are
/// left out if their files are missing.
pub(crate) fn table_sets(divide: u64) -> Vec<LateSet> {
    let divide = divide as usize;
    let mut sets: Vec<LateSet> = vec![
        Box::new(move || Ok(formula(20_000 / divide, 64))),
        Box::new(move || Ok(clusters(50_000 / divide, 128))),
    ];
    add_sentences(&mut sets, 384, 50_000 / divide, divide);
    add_sentences(&mut sets, 768, 10_000 / divide, divide);
    sets.push(Box::new(move || Ok(clusters(10_000 / divide, 1536))));
    add_sentences(&mut sets, 1536, 10_000 / divide, divide);
    sets
}

/// Adds a set of sentences, or says that its file is missing.
fn add_sentences(sets: &mut Vec<LateSet>, dimensions: usize, most: usize, divide: usize) {
    let file = text_vectors(dimensions);
    if file.exists() {
        sets.push(Box::new(move || sentences(dimensions, most, divide)));
    } else {
        eprintln!("no {}, so no such set of sentences: bench/text_vectors.py makes it", file.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_search_answers_every_question() {
        let set = clusters(2_000, 16);
        for (questions, part) in [(set.questions(20), 1_000), (set.filtered_questions(20, 10), 10)] {
            for (number, query) in questions.queries.iter().enumerate() {
                let mut rows: Vec<u32> = (0..2_000).filter(|row| row % 1_000 < part).collect();
                let near = |row: &u32| dot(query, &set.vectors[*row as usize]);
                rows.sort_by(|a, b| near(b).total_cmp(&near(a)));
                assert_eq!(questions.hits(number, &rows[..questions.rows]), K);
                assert_eq!(questions.hits(number, &rows[rows.len() - 1..]), 0, "the farthest is no answer");
            }
        }
    }

    #[test]
    fn every_query_of_a_set_that_is_asked_for_its_own_vectors_is_one() {
        let set = formula(500, 8).asked_for_its_own();
        assert!(set.is_by_formula() && set.queries.iter().all(|query| set.vectors.contains(query)));
        assert!(!clusters(100, 4).is_by_formula());
    }

    #[test]
    fn sets_of_other_dimensions_are_beside_the_file_that_is_named() {
        let named = Path::new("data/texts.f32");
        assert_eq!(beside(named, 384), named);
        assert_eq!(beside(named, 768), Path::new("data/texts_768.f32"));
    }
}
