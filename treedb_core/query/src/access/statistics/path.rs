//! [`PathStatistics`]: how the values at one path are distributed.
//!
//! As a document:
//!
//! | field | what |
//! |---|---|
//! | `path` | the path |
//! | `missing` | the share of the documents without a value there |
//! | `keys` | the number of different keys of a document, on average: above 1 where there are arrays |
//! | `distinct` | the number of different keys in the collection; if it is negative, as a multiple of the documents |
//! | `multikey` | true if there was an array on the path |
//! | `common` | the most common keys, as binary values |
//! | `shares` | the share of the documents that has each of them |
//! | `histogram` | bounds that divide the other keys into parts of equal size, as binary values |

use bson::spec::BinarySubtype;
use bson::{Binary, RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use crate::access::KeyRange;

/// Statistics of the values at a path.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PathStatistics {
    /// The path.
    pub path: String,
    /// The share of the documents without a value there.
    pub missing: f64,
    /// The average number of different keys of a document.
    pub keys: f64,
    /// The number of different keys; if it is negative, as a multiple of the number of documents.
    pub distinct: f64,
    /// True if there was an array on the path.
    pub multikey: bool,
    /// The most common keys in ascending order, with the share of the documents that have each.
    pub common: Vec<(Vec<u8>, f64)>,
    /// Bounds of parts of equal size of the other keys, ascending.
    pub histogram: Vec<Vec<u8>>,
}

impl PathStatistics {
    /// Which share of `documents` documents has exactly this key.
    pub fn share_of_key(&self, key: &[u8], documents: f64) -> f64 {
        if let Ok(at) = self.common.binary_search_by(|(common, _)| common.as_slice().cmp(key)) {
            return self.common.get(at).map_or(0.0, |(_, share)| *share);
        }
        let distinct = if self.distinct < 0.0 { -self.distinct * documents } else { self.distinct };
        let others = (distinct - self.common.len() as f64).max(1.0);
        self.rest() / others
    }

    /// Which share of the documents has a key in a range.
    pub fn share_of_range(&self, range: &KeyRange) -> f64 {
        let common: f64 =
            self.common.iter().filter(|(key, _)| range.contains(key)).map(|(_, share)| share).sum();
        let found = common + self.rest() * self.part_of_histogram(range);
        let keys = self.keys.max(1.0);
        // As if the keys of a document were independent of each other.
        let share = if keys > 1.0 { 1.0 - (1.0 - (found / keys).min(1.0)).powf(keys) } else { found };
        share.clamp(0.0, 1.0)
    }

    /// The average number of keys of a document that are not common.
    fn rest(&self) -> f64 {
        (self.keys - self.common.iter().map(|(_, share)| share).sum::<f64>()).max(0.0)
    }

    fn part_of_histogram(&self, range: &KeyRange) -> f64 {
        let low = self.place(&range.low);
        let high = range.high.as_deref().map_or(1.0, |high| self.place(high));
        (high - low).max(0.0)
    }

    /// Which part of the keys of the histogram lies below `key`.
    fn place(&self, key: &[u8]) -> f64 {
        let parts = self.histogram.len().saturating_sub(1);
        let above = self.histogram.partition_point(|bound| bound.as_slice() < key);
        let (Some(low), Some(high)) =
            (above.checked_sub(1).and_then(|at| self.histogram.get(at)), self.histogram.get(above))
        else {
            return if above == 0 { 0.0 } else { 1.0 };
        };
        (above as f64 - 1.0 + within(low, high, key)) / parts.max(1) as f64
    }

    /// The document that they are stored as.
    pub fn to_document(&self) -> RawDocumentBuf {
        let binary = |key: &[u8]| Binary { subtype: BinarySubtype::Generic, bytes: key.to_vec() };
        let (mut common, mut shares, mut histogram) =
            (RawArrayBuf::new(), RawArrayBuf::new(), RawArrayBuf::new());
        for (key, share) in &self.common {
            common.push(binary(key));
            shares.push(*share);
        }
        self.histogram.iter().for_each(|bound| histogram.push(binary(bound)));
        rawdoc! {
            "path": self.path.as_str(),
            "missing": self.missing,
            "keys": self.keys,
            "distinct": self.distinct,
            "multikey": self.multikey,
            "common": common,
            "shares": shares,
            "histogram": histogram,
        }
    }

    /// Reads what [`Self::to_document`] has written; `None` if it is something else.
    pub fn from_document(document: &RawDocument) -> Option<PathStatistics> {
        let keys = |name: &str| -> Option<Vec<Vec<u8>>> {
            let array = document.get_array(name).ok()?;
            array.into_iter().map(|one| Some(one.ok()?.as_binary()?.bytes.to_vec())).collect()
        };
        let shares = document.get_array("shares").ok()?;
        let shares: Option<Vec<f64>> = shares.into_iter().map(|one| one.ok()?.as_f64()).collect();
        Some(PathStatistics {
            path: document.get_str("path").ok()?.to_owned(),
            missing: document.get_f64("missing").ok()?,
            keys: document.get_f64("keys").ok()?,
            distinct: document.get_f64("distinct").ok()?,
            multikey: document.get_bool("multikey").ok()?,
            common: keys("common")?.into_iter().zip(shares?).collect(),
            histogram: keys("histogram")?,
        })
    }
}

/// How far `key` lies between `low` and `high`, from 0 to 1: by the eight bytes after those that both begin with.
fn within(low: &[u8], high: &[u8], key: &[u8]) -> f64 {
    let shared = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let number = |bytes: &[u8]| {
        let mut eight = [0; 8];
        bytes.iter().skip(shared).zip(&mut eight).for_each(|(from, to)| *to = *from);
        u64::from_be_bytes(eight) as f64
    };
    let (low, high, key) = (number(low), number(high), number(key));
    if high > low { ((key - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics() -> PathStatistics {
        PathStatistics {
            path: "a.b".to_owned(),
            missing: 0.1,
            keys: 1.0,
            distinct: 102.0,
            multikey: false,
            common: vec![(vec![5], 0.5), (vec![200, 7], 0.1)],
            histogram: (0..=4).map(|n| vec![n * 50, 0]).collect(),
        }
    }

    #[test]
    fn statistics_are_read_as_they_were_written() {
        let one = statistics();
        assert_eq!(PathStatistics::from_document(&one.to_document()), Some(one));
        assert_eq!(PathStatistics::from_document(&RawDocumentBuf::new()), None);
    }

    #[test]
    fn common_keys_have_their_share_and_the_others_divide_what_is_left() {
        let one = statistics();
        assert_eq!(one.share_of_key(&[5], 1e6), 0.5);
        assert!((one.share_of_key(&[6], 1e6) - 0.4 / 100.0).abs() < 1e-9);
        let of_all = PathStatistics { distinct: -0.1, ..one };
        assert!((of_all.share_of_key(&[6], 1020.0) - 0.4 / 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_range_has_its_common_keys_and_its_part_of_the_histogram() {
        let one = statistics();
        let share = |low: &[u8], high: Option<&[u8]>| {
            one.share_of_range(&KeyRange { low: low.to_vec(), high: high.map(<[u8]>::to_vec) })
        };
        assert!((share(&[], None) - 1.0).abs() < 1e-9);
        assert!((share(&[50, 0], Some(&[100, 0])) - 0.1).abs() < 1e-9);
        assert!((share(&[75, 0], Some(&[100, 0])) - 0.05).abs() < 1e-3);
        assert!((share(&[], Some(&[50, 0])) - 0.6).abs() < 1e-9);
        assert_eq!(share(&[250], None), 0.0);
    }
}
