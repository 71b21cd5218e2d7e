//! Statistics from a sample of documents.
//!
//! The first pass counts the paths that documents have values at; further ones collect the keys of some, of a few at a time:
//! first the paths that the owner wants, as queries are expected to ask for them, then those that most documents have. Of paths
//! with positions in arrays there are none. What they may hold in memory is bounded: paths, depth, elements of an array, bytes
//! of a key.

use std::collections::{BTreeMap, HashMap};

use bson::RawDocument;

use crate::doc::{Doc, Path, Value};
use crate::error::Result;
use crate::index::ordered::{IndexDef, KeyPart, SortOrder};

use super::{PathStatistics, Statistics};

/// Paths with statistics at most.
const MOST_PATHS: usize = 64;
/// Paths whose keys are collected at the same time.
const PATHS_PER_PASS: usize = 8;
/// Different paths that are counted at most.
const MOST_COUNTED: usize = 4096;
/// Names in a path at most.
const MOST_NAMES: usize = 5;
/// Elements of an array whose fields are counted.
const MOST_ELEMENTS: usize = 8;
/// Bytes of a key that are kept.
const MOST_BYTES: usize = 128;
/// The most different values, as a part of the documents, whose number is thought not to grow with the collection.
const MOST_SHARED: f64 = 0.1;
/// How much more often than the average key a common one is.
const MORE_COMMON: f64 = 1.25;

/// A sample of a collection, which is read several times.
pub trait Sample {
    /// Passes each document to `visit`.
    ///
    /// # Errors
    /// Those of `visit`.
    fn each(&mut self, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<()>;
}

impl Statistics {
    /// The statistics of a collection of `rows` documents by a sample, with at most `target` common values and parts of a
    /// histogram for each path. The paths in `wanted` have them before others.
    ///
    /// # Errors
    /// Those of the sample.
    pub fn of_sample(
        sample: &mut dyn Sample,
        wanted: &[String],
        rows: f64,
        target: usize,
    ) -> Result<Statistics> {
        let mut counts = PathCounts::new(wanted);
        let mut documents = 0_u64;
        sample.each(&mut |document| {
            documents += 1;
            counts.add(Doc::from(document), &mut Vec::new(), 1, documents);
            Ok(())
        })?;
        let mut counted: Vec<(Vec<u8>, Count)> = counts.counts.into_iter().collect();
        counted.retain(|_| documents > 0);
        counted.sort_by(|(a, count_a), (b, count_b)| {
            (count_b.wanted, count_b.documents, a).cmp(&(count_a.wanted, count_a.documents, b))
        });
        counted.truncate(MOST_PATHS);
        let mut paths = Vec::new();
        for some in counted.chunks(PATHS_PER_PASS) {
            let mut collected: Vec<Collected> =
                some.iter().filter_map(|(path, count)| Collected::begin(path, count)).collect();
            sample.each(&mut |document| {
                collected.iter_mut().for_each(|one| one.add(document));
                Ok(())
            })?;
            paths.extend(collected.into_iter().map(|one| one.finish(documents, rows, target)));
        }
        Ok(paths.into_iter().collect())
    }
}

/// The documents that have a value at a path.
#[derive(Default)]
struct Count {
    wanted: bool,
    documents: u64,
    /// The number of the last one.
    last: u64,
}

/// Whether a name cannot be told from several, or from a position in an array, where it is a part of a path.
fn is_ambiguous(name: &[u8]) -> bool {
    name.is_empty() || name.contains(&b'.') || name.iter().all(u8::is_ascii_digit)
}

/// The paths that documents have values at.
struct PathCounts {
    counts: HashMap<Vec<u8>, Count>,
    /// Names in a path at most.
    most_names: usize,
}

impl PathCounts {
    /// Those that are wanted, without documents.
    fn new(wanted: &[String]) -> PathCounts {
        let mut counts = HashMap::new();
        let mut most_names = MOST_NAMES;
        for path in wanted {
            let names = || path.split('.');
            if !names().any(|name| is_ambiguous(name.as_bytes())) {
                most_names = most_names.max(names().count());
                counts.insert(path.clone().into_bytes(), Count { wanted: true, ..Count::default() });
            }
        }
        PathCounts { counts, most_names }
    }

    /// Counts the paths of `document`, document number `number`, which is at `path`.
    fn add(&mut self, document: Doc<'_>, path: &mut Vec<u8>, depth: usize, number: u64) {
        for element in document.elements() {
            let name = element.name;
            if is_ambiguous(name) {
                continue;
            }
            let above = path.len();
            if above > 0 {
                path.push(b'.');
            }
            path.extend_from_slice(name);
            match element.value() {
                Value::Document(inner) if depth < self.most_names => {
                    // The paths below have the values, but an index may be on the document itself.
                    if self.counts.get(path.as_slice()).is_some_and(|count| count.wanted) {
                        self.count(path, number);
                    }
                    self.add(inner, path, depth + 1, number);
                }
                Value::Array(array) => {
                    self.count(path, number);
                    for element in array.elements().take(MOST_ELEMENTS) {
                        if let Value::Document(inner) = element.value()
                            && depth < self.most_names
                        {
                            self.add(inner, path, depth + 1, number);
                        }
                    }
                }
                _ => self.count(path, number),
            }
            path.truncate(above);
        }
    }

    fn count(&mut self, path: &[u8], number: u64) {
        if !self.counts.contains_key(path) && self.counts.len() < MOST_COUNTED {
            self.counts.insert(path.to_vec(), Count::default());
        }
        let Some(count) = self.counts.get_mut(path) else { return };
        if count.last != number {
            (count.last, count.documents) = (number, count.documents + 1);
        }
    }
}

/// The keys of a path.
struct Collected {
    path: String,
    index: IndexDef,
    present: u64,
    multikey: bool,
    /// How many documents have each key.
    keys: BTreeMap<Box<[u8]>, u64>,
    /// For the key of a document.
    key: Vec<u8>,
}

impl Collected {
    fn begin(path: &[u8], count: &Count) -> Option<Collected> {
        let path = std::str::from_utf8(path).ok()?.to_owned();
        let part = KeyPart { path: Path::new(&path), direction: SortOrder::Ascending };
        let index = IndexDef { keys: vec![part], ..IndexDef::id() };
        let (present, keys) = (count.documents, BTreeMap::new());
        Some(Collected { path, index, present, multikey: false, keys, key: Vec::new() })
    }

    fn add(&mut self, document: &RawDocument) {
        self.key.clear();
        if let Some(lengths) = self.index.single(document, &mut self.key) {
            let key = self.key.get(..lengths.key.min(MOST_BYTES)).unwrap_or(&[]);
            add(&mut self.keys, key);
            return;
        }
        // A document that cannot be indexed has no keys.
        let Ok(found) = self.index.keys(document) else { return };
        self.multikey |= found.multikey;
        for key in &found.keys {
            add(&mut self.keys, key.get(..MOST_BYTES).unwrap_or(key));
        }
    }

    fn finish(self, documents: u64, rows: f64, target: usize) -> PathStatistics {
        let documents = documents.max(1) as f64;
        let all = self.keys.values().sum::<u64>() as f64;
        let different = self.keys.len() as f64;
        let once = self.keys.values().filter(|count| **count == 1).count() as f64;
        let keys = all / documents;
        let distinct = distinct(all, different, once, rows * keys);
        // All values are known, as their number does not grow with the collection.
        let complete = self.keys.len() <= target && distinct <= MOST_SHARED * rows;
        let least = if complete {
            0.0
        } else {
            // No more than the part of a histogram, which has the value for sure then.
            (all / distinct.max(1.0) * MORE_COMMON).min(all / target.max(1) as f64).max(2.0)
        };
        let mut often: Vec<(&[u8], u64)> = self.keys.iter().map(|(key, count)| (&**key, *count)).collect();
        often.retain(|(_, count)| *count as f64 >= least);
        often.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        often.truncate(target);
        let mut common: Vec<(Vec<u8>, f64)> =
            often.into_iter().map(|(key, count)| (key.to_vec(), count as f64 / documents)).collect();
        common.sort_by(|a, b| a.0.cmp(&b.0));
        let is_common = |key: &[u8]| common.binary_search_by(|(one, _)| one.as_slice().cmp(key)).is_ok();
        let others: Vec<(&[u8], u64)> = self
            .keys
            .iter()
            .map(|(key, count)| (&**key, *count))
            .filter(|(key, _)| !is_common(key))
            .collect();
        let histogram = histogram(&others, target);
        PathStatistics {
            missing: (1.0 - self.present as f64 / documents).clamp(0.0, 1.0),
            keys,
            distinct: if distinct > MOST_SHARED * rows { -(distinct / rows.max(1.0)) } else { distinct },
            multikey: self.multikey,
            common,
            histogram,
            path: self.path,
        }
    }
}

fn add(keys: &mut BTreeMap<Box<[u8]>, u64>, key: &[u8]) {
    match keys.get_mut(key) {
        Some(count) => *count += 1,
        None => drop(keys.insert(key.into(), 1)),
    }
}

/// About how many different values there are among `total`, if a sample of `sampled` has `different` ones, of which `once`
/// occur once: the estimator of Haas and Stokes that the server's own statistics use.
fn distinct(sampled: f64, different: f64, once: f64, total: f64) -> f64 {
    if once == 0.0 || sampled == 0.0 {
        return different;
    }
    if once >= sampled {
        return total.max(different);
    }
    let denominator = sampled - once + once * sampled / total.max(sampled);
    (sampled * different / denominator).clamp(different, total.max(different))
}

/// Bounds that divide keys, given with their counts in ascending order, into `parts` parts of equal size.
fn histogram(keys: &[(&[u8], u64)], parts: usize) -> Vec<Vec<u8>> {
    let total: u64 = keys.iter().map(|(_, count)| count).sum();
    let parts = (parts as u64).min(keys.len().saturating_sub(1) as u64);
    if parts == 0 {
        return Vec::new();
    }
    let (mut bounds, mut before, mut next) = (Vec::new(), 0, 0);
    for (key, count) in keys {
        before += count;
        // The next bound is entry number `next * (total - 1) / parts`.
        while next <= parts && next * (total - 1) / parts < before {
            bounds.push(key.to_vec());
            next += 1;
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};

    impl Sample for Vec<RawDocumentBuf> {
        fn each(&mut self, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<()> {
            self.iter().try_for_each(|document| visit(document))
        }
    }

    fn key(value: i32) -> Vec<u8> {
        let mut key = Vec::new();
        crate::doc::key::encode_value(Value::Int32(value), &mut key);
        key
    }

    #[test]
    fn a_skewed_field_has_its_common_values_and_a_histogram_of_the_others() {
        let documents = (0..10_000).map(|n| rawdoc! { "_id": n, "v": if n % 2 == 0 { -1 } else { n } });
        let statistics =
            Statistics::of_sample(&mut documents.collect::<Vec<_>>(), &[], 10_000.0, 10).unwrap();
        let v = statistics.at("v").unwrap();
        assert_eq!(v.common, [(key(-1), 0.5)]);
        assert_eq!((v.histogram.first(), v.histogram.last()), (Some(&key(1)), Some(&key(9_999))));
        assert_eq!((v.histogram.len(), v.missing, v.keys, v.multikey), (11, 0.0, 1.0, false));
        let id = statistics.at("_id").unwrap();
        assert_eq!((id.distinct, id.common.len()), (-1.0, 0));
    }

    #[test]
    fn arrays_count_with_each_element_and_missing_fields_as_null() {
        let documents = (0..1_000).map(|n| match n % 4 {
            0 => rawdoc! { "other": 1 },
            n => rawdoc! { "tags": [n, 7, 7], "at": { "x": n } },
        });
        let statistics = Statistics::of_sample(&mut documents.collect::<Vec<_>>(), &[], 1_000.0, 10).unwrap();
        let tags = statistics.at("tags").unwrap();
        assert_eq!((tags.missing, tags.keys, tags.distinct, tags.multikey), (0.25, 1.75, 5.0, true));
        assert_eq!(tags.share_of_key(&key(7), 1_000.0), 0.75);
        assert_eq!(statistics.at("at.x").map(|x| x.missing), Some(0.25));
        assert_eq!(statistics.at("at"), None);
    }

    #[test]
    fn wanted_paths_have_statistics_before_those_that_more_documents_have() {
        let documents = (0..300).map(|n| {
            let mut document = rawdoc! { "_id": n };
            for field in 0..200 {
                document.append(bson::raw::CString::try_from(format!("f{field:03}")).unwrap(), n);
            }
            if n % 3 == 0 {
                document.append(
                    bson::raw::cstr!("z"),
                    rawdoc! { "a": { "b": { "c": { "d": { "e": n % 10 } } } } },
                );
            }
            document
        });
        let mut documents = documents.collect::<Vec<_>>();
        let wanted = ["z.a.b.c.d.e", "f199", "nowhere", "f100.0", "z.a"].map(String::from);
        let statistics = Statistics::of_sample(&mut documents, &wanted, 300.0, 10).unwrap();
        assert_eq!(statistics.paths().count(), MOST_PATHS);
        let deep = statistics.at("z.a.b.c.d.e").unwrap();
        assert!((deep.missing - 2.0 / 3.0).abs() < 1e-9 && deep.distinct == 11.0, "{deep:?}");
        assert!(statistics.at("f199").is_some() && statistics.at("f198").is_none());
        // The values are documents, whose paths have them.
        let above = statistics.at("z.a").unwrap();
        assert!((above.missing - 2.0 / 3.0).abs() < 1e-9, "{above:?}");
        // No document has a value there, which is something to know; positions in arrays are not looked at.
        assert_eq!(statistics.at("nowhere").map(|path| path.missing), Some(1.0));
        assert_eq!(statistics.at("f100.0"), None);
        let without = Statistics::of_sample(&mut documents, &[], 300.0, 10).unwrap();
        assert!(without.at("f199").is_none() && without.at("z.a.b.c.d.e").is_none());
    }
}
