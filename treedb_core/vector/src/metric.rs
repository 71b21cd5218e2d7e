//! Distances between vectors: the less, the nearer.

use std::ops::RangeInclusive;

use crate::kernel::Kernels;

/// How far two vectors are from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// 1 minus the cosine of the angle between them: 0 to 2. Vectors of zeros have none.
    Cosine,
    /// The Euclidean distance.
    L2,
    /// The inner product, negated.
    InnerProduct,
    /// The sum of absolute differences.
    L1,
    /// Of bits: how many differ.
    Hamming,
    /// Of bits: 1 minus the part of the bits that are set in one of the vectors that is set in both; 1 if none is.
    Jaccard,
}

/// What is wrong with a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// It has another number of dimensions.
    Dimensions {
        /// What the index has.
        expected: usize,
        /// What the vector has.
        found: usize,
    },
    /// It has a NaN or an infinity at this place.
    NotFinite {
        /// The place, from 0.
        at: usize,
    },
    /// It has an element at this place, from 0, that is no bit: neither 0 nor 1.
    NotABit {
        /// The place, from 0.
        at: usize,
    },
    /// It is all zeros, or so small that it has no direction, which the cosine needs.
    NoDirection,
}

impl std::error::Error for Unfit {}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unfit::Dimensions { expected, found } => {
                write!(f, "expected {expected} dimensions, found {found}")
            }
            Unfit::NotFinite { at } => write!(f, "element {at} is NaN or infinite"),
            Unfit::NotABit { at } => write!(f, "element {at} is not a bit: neither 0 nor 1"),
            Unfit::NoDirection => {
                write!(f, "a vector of zeros has no direction, which cosine distance needs")
            }
        }
    }
}

impl Metric {
    /// Whether it compares bits. Elements of their vectors are 0 or 1.
    #[inline]
    pub fn is_of_bits(self) -> bool {
        matches!(self, Metric::Hamming | Metric::Jaccard)
    }

    /// The same as [`Metric::check`] of a vector that is only searched for: what it returns may differ in the last bits, since it takes the
    /// fastest way to add.
    pub fn check_query(self, vector: &[f32], dimensions: usize) -> Result<f32, Unfit> {
        if vector.len() != dimensions || self.is_of_bits() {
            return self.check(vector, dimensions);
        }
        // Neither NaN nor an infinity leaves the sum finite.
        let squares = (Kernels::best().dot)(vector, vector);
        match self {
            Metric::Cosine if PRECISE.contains(&squares) => Ok(1.0 / squares.sqrt()),
            Metric::L2 | Metric::InnerProduct | Metric::L1 if squares.is_finite() => Ok(1.0),
            _ => self.check(vector, dimensions),
        }
    }

    /// The distance; both vectors are fit for it (see [`Metric::check`]) and have as many dimensions.
    pub fn distance(self, a: &[f32], b: &[f32]) -> f32 {
        let kernels = Kernels::best();
        self.distance_from(&kernels, (a, self.squares(&kernels, a)), b)
    }

    /// What [`Metric::distance_from`] needs of the first vector beside it: its squared length, or nothing.
    pub fn squares(self, kernels: &Kernels, vector: &[f32]) -> f32 {
        match self {
            Metric::Cosine => (kernels.dot)(vector, vector),
            _ => 0.0,
        }
    }

    /// The same distance as [`Metric::distance`], to the last bit, of many vectors from one.
    #[inline]
    pub fn distance_from(self, kernels: &Kernels, (a, squares): (&[f32], f32), b: &[f32]) -> f32 {
        match self {
            Metric::Cosine => {
                let squares = [squares, (kernels.dot)(b, b)];
                if !squares.iter().all(|squares| PRECISE.contains(squares)) {
                    return cosine_distance(a, b);
                }
                let lengths: f32 = squares.iter().map(|squares| squares.sqrt()).product();
                1.0 - ((kernels.dot)(a, b) / lengths).clamp(-1.0, 1.0)
            }
            Metric::L2 => (kernels.squares)(a, b).sqrt(),
            Metric::InnerProduct => -(kernels.dot)(a, b),
            // Of numbers that are 0 or 1, sums of products count those that are set in both.
            Metric::L1 | Metric::Hamming => (kernels.differences)(a, b),
            Metric::Jaccard => {
                let set = [(a, a), (b, b), (a, b)].map(|(a, b)| (kernels.dot)(a, b));
                jaccard(set[0], set[1], set[2])
            }
        }
    }

    /// A score: the smaller it is, the nearer two vectors are, in the order of the distance. `unit` is
    /// the product of what [`Metric::check`] has returned for both.
    #[inline]
    pub fn score(self, kernels: &Kernels, a: &[f32], b: &[f32], unit: f32) -> f32 {
        match self {
            Metric::L2 => (kernels.squares)(a, b),
            Metric::Cosine | Metric::InnerProduct => -(kernels.dot)(a, b) * unit,
            Metric::L1 => (kernels.differences)(a, b),
            Metric::Hamming | Metric::Jaccard => self.distance(a, b),
        }
    }

    /// Checks a vector for an index of so many dimensions. Returns what it is to be multiplied with before its direction is
    /// compared: what makes its length 1 under [`Metric::Cosine`], otherwise 1.
    pub fn check(self, vector: &[f32], dimensions: usize) -> Result<f32, Unfit> {
        if vector.len() != dimensions {
            return Err(Unfit::Dimensions { expected: dimensions, found: vector.len() });
        }
        if let Some(at) = vector.iter().position(|element| !element.is_finite()) {
            return Err(Unfit::NotFinite { at });
        }
        match self {
            Metric::Cosine => unit_scale(vector).ok_or(Unfit::NoDirection),
            Metric::L2 | Metric::InnerProduct | Metric::L1 => Ok(1.0),
            Metric::Hamming | Metric::Jaccard => {
                match vector.iter().position(|element| *element != 0.0 && *element != 1.0) {
                    Some(at) => Err(Unfit::NotABit { at }),
                    None => Ok(1.0),
                }
            }
        }
    }
}

/// The Jaccard distance of vectors of which so many bits are set, and so many in both.
#[inline]
pub(crate) fn jaccard(one: f32, other: f32, both: f32) -> f32 {
    if both == 0.0 { 1.0 } else { 1.0 - both / (one + other - both) }
}

/// Squared lengths between which `f32` neither overflows nor loses digits to underflow.
const PRECISE: RangeInclusive<f32> = 1e-24..=1e30;

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The length of a vector; `None` if it has no direction.
fn length(vector: &[f32]) -> Option<f64> {
    let length = dot(vector, vector).sqrt();
    // The scale of a vector is kept as `f32`.
    (length > 0.0 && ((1.0 / length) as f32).is_finite()).then_some(length)
}

/// What to multiply a vector with to make its length 1; `None` if it has no direction.
fn unit_scale(vector: &[f32]) -> Option<f32> {
    length(vector).map(|length| (1.0 / length) as f32)
}

/// The cosine distance of vectors of any length; NaN if one of them has no direction.
fn cosine_distance(a: &[f32], b: &[f32]) -> f32 {
    match (length(a), length(b)) {
        (Some(one), Some(other)) => (1.0 - (dot(a, b) / (one * other)).clamp(-1.0, 1.0)) as f32,
        _ => f32::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosine_distance_depends_only_on_directions() {
        for one in [1e-38, 1e-30, 1e-19, 1e-12, 1e-6, 1.0, 5e9, 1e16, 1e19, 1e37] {
            for other in [1e-37, 1e-12, 1.0, 5e9, 1e18, 1e37] {
                let (a, b) = ([3.0 * one, 4.0 * one, 0.0], [0.0, 0.0, 2.0 * other]);
                let distance = Metric::Cosine.distance(&a, &b);
                assert!((distance - 1.0).abs() < 1e-6, "{one} and {other}: {distance}");
                let distance = Metric::Cosine.distance(&a, &[0.0, other, 0.0]);
                assert!((distance - 0.2).abs() < 1e-6, "{one} and {other}: {distance}");
            }
        }
    }

    #[test]
    fn a_query_is_checked_as_a_vector_of_the_index_is() {
        let metrics =
            [Metric::Cosine, Metric::L2, Metric::InnerProduct, Metric::L1, Metric::Hamming, Metric::Jaccard];
        for metric in metrics {
            for element in
                [0.0, 1e-45, 1e-38, 1e-20, 1e-7, 0.5, 1.0, 7.0, 1e18, 1e20, 3e38, f32::NAN, f32::INFINITY]
            {
                for len in [1, 2, 3, 40, 64, 65] {
                    let vector = vec![element; len];
                    for dimensions in [len, len + 1] {
                        let (query, own) =
                            (metric.check_query(&vector, dimensions), metric.check(&vector, dimensions));
                        match (query, own) {
                            (Ok(query), Ok(own)) => {
                                assert!((query / own - 1.0).abs() < 1e-5, "{metric:?} {element}")
                            }
                            (query, own) => assert_eq!(query, own, "{metric:?} {element} {len}"),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn distances_of_bits_are_those_of_sets() {
        let (a, b) = ([1.0, 1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0, 0.0]);
        assert_eq!((Metric::Hamming.distance(&a, &b), Metric::Jaccard.distance(&a, &b)), (2.0, 0.5));
        assert_eq!((Metric::Hamming.distance(&a, &a), Metric::Jaccard.distance(&a, &a)), (0.0, 0.0));
        assert_eq!(Metric::Jaccard.distance(&[0.0; 5], &[0.0; 5]), 1.0);
        assert_eq!(Metric::Hamming.check(&[0.0, 1.0, 0.5], 3), Err(Unfit::NotABit { at: 2 }));
        assert_eq!(Metric::Jaccard.check(&[0.0; 3], 3), Ok(1.0));
    }

    #[test]
    fn a_vector_has_a_cosine_distance_if_an_index_takes_it() {
        for element in [0.0, 1e-45, 1e-40, 2e-39, 1e-38, 1e-20, 1.0, 1e38] {
            let vector = [element, 0.0];
            let is_indexable = Metric::Cosine.check(&vector, 2).is_ok();
            assert_eq!(!Metric::Cosine.distance(&vector, &[1.0, 0.0]).is_nan(), is_indexable, "{element}");
        }
    }
}
