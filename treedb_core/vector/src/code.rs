//! Vectors as codes of 8 bits, and distances between codes.
//!
//! An element of a vector is its code, a number from -127 to 127, times the scale of the vector. A code is stored with 128
//! added. With it are kept: the scale; the sum of the codes; the squared length of the vector that the codes stand for. Of a
//! vector under cosine, the codes are those of the vector of length 1 in its direction.
//!
//! The codes of whole numbers of 8 bits ([`Element::Int8`]) are these numbers, and the scale is 1 (under cosine, what makes the length
//! 1): a code says exactly what the vector is.
//!
//! The codes of bits ([`Metric::is_of_bits`]) are the bits, 8 in a byte, the first in the highest place, and the sum counts those that are
//! set: their scores are distances.
//!
//! The graph is built and walked on these scores; what it finds is put in exact order by [`Metric::distance`]. Scores of
//! [`Metric::L1`] are slow unless both scales are the same: the differences of codes with two scales are not a sum of products.

use crate::element::{Element, is_int8};
use crate::kernel::Kernels;
use crate::metric::{Metric, jaccard};

/// A code of zero.
const ZERO: u8 = 128;

/// What is kept with the codes of a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Factors {
    /// What a code is to be multiplied with.
    pub scale: f32,
    /// The squared length.
    pub squares: f32,
    /// The sum of the codes.
    pub sum: i32,
    /// One more element, which no code has: what links beside a centre are chosen with ([`crate::centre::Reach`]). `squares` are without
    /// its square, and scores of [`Metric::L2`] with that of the difference. Usually 0.
    pub aside: f32,
}

impl Factors {
    /// Bytes of the factors.
    pub const BYTES: usize = 12;

    /// Those of a vector of whole numbers whose direction alone is compared, without what makes its length 1.
    pub(crate) fn whole(self) -> Factors {
        Factors { scale: 1.0, ..self }
    }

    /// As bytes: the fields in order, little-endian, without the one that is aside, which the others tell.
    pub fn to_bytes(self) -> [u8; Factors::BYTES] {
        let mut bytes = [0; Factors::BYTES];
        let (parts, _) = bytes.as_chunks_mut::<4>();
        for (part, field) in parts.iter_mut().zip([
            self.scale.to_le_bytes(),
            self.squares.to_le_bytes(),
            self.sum.to_le_bytes(),
        ]) {
            *part = field;
        }
        bytes
    }

    /// From such bytes; zeros for those that are missing.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Factors {
        match bytes.as_chunks::<4>().0 {
            [scale, squares, sum, ..] => Factors {
                scale: f32::from_le_bytes(*scale),
                squares: f32::from_le_bytes(*squares),
                sum: i32::from_le_bytes(*sum),
                aside: 0.0,
            },
            _ => Factors::default(),
        }
    }
}

/// A vector as codes.
#[derive(Clone, Copy, Debug)]
pub struct Coded<'c> {
    /// What is kept with them.
    pub factors: Factors,
    /// One byte for each element, or for 8 bits.
    pub codes: &'c [u8],
}

impl<'c> Coded<'c> {
    /// The codes of bits, with the factors that [`encode_for`] gives them.
    pub fn of_bits(codes: &'c [u8]) -> Coded<'c> {
        let sum: i32 = codes.iter().map(|code| code.count_ones().cast_signed()).sum();
        Coded { factors: Factors { scale: 1.0, squares: sum as f32, sum, aside: 0.0 }, codes }
    }

    /// The factors with the squared length computed from the codes.
    pub fn with_squares(&self) -> Factors {
        let numbers = self.codes.iter().map(|code| i32::from(*code) - i32::from(ZERO));
        // No vector has so many elements that this is too large.
        let squares: i32 = numbers.map(|number| number * number).sum();
        Factors { squares: squares as f32 * self.factors.scale * self.factors.scale, ..self.factors }
    }

    /// The elements that the codes stand for.
    pub fn elements(self) -> impl Iterator<Item = f32> + use<'c> {
        self.codes.iter().map(move |code| self.factors.scale * f32::from(i16::from(*code) - i16::from(ZERO)))
    }
}

/// Bytes of the codes of a vector.
pub fn code_bytes(metric: Metric, dimensions: usize) -> usize {
    if metric.is_of_bits() { dimensions.div_ceil(8) } else { dimensions }
}

/// Writes the codes of a vector over `codes`, which has [`code_bytes`]; `unit` is what [`Metric::check`] has returned for it. A vector
/// that is compared with whole numbers and has others gets codes as if it were one of floats.
pub fn encode_for(metric: Metric, element: Element, vector: &[f32], unit: f32, codes: &mut [u8]) -> Factors {
    if !metric.is_of_bits() {
        return match element == Element::Int8 && vector.iter().copied().all(is_int8) {
            true => encode_whole(vector, unit, codes),
            false => encode(vector, unit, codes),
        };
    }
    for (code, bits) in codes.iter_mut().zip(vector.chunks(8)) {
        *code =
            { bits.iter().enumerate() }.fold(0, |code, (at, bit)| code | u8::from(*bit != 0.0) << (7 - at));
    }
    Coded::of_bits(codes).factors
}

/// Writes the codes of a vector of numbers over `codes`, which is as long.
///
/// Stored indexes have these bytes, and a check compares them with those of the row: the same on every processor, and a
/// change of them is a change of the file format.
pub fn encode(vector: &[f32], unit: f32, codes: &mut [u8]) -> Factors {
    let (greatest, sum, squares) = (Kernels::best().encode)(vector, codes);
    let scale = greatest * unit / 127.0;
    Factors { scale, squares: squares as f32 * scale * scale, sum, aside: 0.0 }
}

/// Writes the codes of whole numbers from -128 to 127 over `codes`, which is as long.
fn encode_whole(vector: &[f32], unit: f32, codes: &mut [u8]) -> Factors {
    for (code, element) in codes.iter_mut().zip(vector) {
        *code = (*element as i32 + i32::from(ZERO)) as u8;
    }
    let sum = codes.iter().map(|code| i32::from(*code) - i32::from(ZERO)).sum();
    let factors = Factors { scale: unit, squares: 0.0, sum, aside: 0.0 };
    Coded { factors, codes }.with_squares()
}

/// A score: the smaller it is, the nearer two vectors are, in the order of the metric's distance.
#[inline]
pub fn score(metric: Metric, kernels: &Kernels, a: Coded<'_>, b: Coded<'_>) -> f32 {
    if metric == Metric::Hamming {
        return (kernels.differing)(a.codes, b.codes) as f32;
    }
    if metric == Metric::Jaccard {
        let both = (kernels.common)(a.codes, b.codes) as f32;
        return jaccard(a.factors.sum as f32, b.factors.sum as f32, both);
    }
    if metric == Metric::L1 {
        if a.factors.scale == b.factors.scale {
            return a.factors.scale * (kernels.apart)(a.codes, b.codes) as f32;
        }
        return a.elements().zip(b.elements()).map(|(x, y)| (x - y).abs()).sum();
    }
    score_of(metric, a.factors, b.factors, (kernels.codes)(a.codes, b.codes))
}

/// The score of two vectors under a metric of products, from what [`Kernels::codes`] has made of their codes.
#[inline]
pub(crate) fn score_of(metric: Metric, a: Factors, b: Factors, products: i32) -> f32 {
    let dot = a.scale * b.scale * (products - i32::from(ZERO) * b.sum) as f32;
    match metric {
        Metric::L2 => {
            // Apart from the others, which it may be much greater than.
            let aside = a.aside - b.aside;
            a.squares + b.squares - 2.0 * dot + aside * aside
        }
        _ => -dot,
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    #[test]
    fn scores_of_codes_are_near_those_of_the_vectors() {
        let mut rng = Rng::new(3);
        for dimensions in [1, 3, 64, 384, 1536] {
            for _ in 0..50 {
                let mut vector = || -> Vec<f32> {
                    (0..dimensions).map(|_| rng.below(2001) as f32 / 1000.0 - 1.0 + 0.0005).collect()
                };
                let (a, b) = (vector(), vector());
                for metric in [Metric::Cosine, Metric::L2, Metric::InnerProduct, Metric::L1] {
                    let (mut x, mut y) = (vec![0; dimensions], vec![0; dimensions]);
                    let unit = |vector: &[f32]| metric.check(vector, dimensions).unwrap();
                    let a_coded = Coded { factors: encode(&a, unit(&a), &mut x), codes: &x };
                    let b_coded = Coded { factors: encode(&b, unit(&b), &mut y), codes: &y };
                    let found = score(metric, &Kernels::best(), a_coded, b_coded);
                    let exact = match metric {
                        Metric::Cosine => metric.distance(&a, &b) - 1.0,
                        Metric::L2 => metric.distance(&a, &b).powi(2),
                        _ => metric.distance(&a, &b),
                    };
                    let size = if metric == Metric::Cosine { 1.0 } else { dimensions as f32 };
                    assert!(
                        (found - exact).abs() < 0.02 * size,
                        "{metric:?} {dimensions}: {found} and {exact}"
                    );
                    let swapped = score(metric, &Kernels::best(), b_coded, a_coded);
                    assert!((found - swapped).abs() <= 1e-5 * size, "{metric:?} is not symmetric");
                }
            }
        }
    }

    #[test]
    fn the_squared_length_comes_back_from_the_codes() {
        let mut rng = Rng::new(4);
        for dimensions in [1, 20, 384] {
            let vector: Vec<f32> = (0..dimensions).map(|_| rng.below(2001) as f32 / 999.0 - 1.0).collect();
            let mut codes = vec![0; dimensions];
            let factors = encode(&vector, 0.3, &mut codes);
            let coded = Coded { factors: Factors { squares: 0.0, ..factors }, codes: &codes };
            assert_eq!(coded.with_squares(), factors);
        }
    }

    #[test]
    fn scores_of_bits_are_their_distances() {
        let mut rng = Rng::new(6);
        for dimensions in [1, 8, 13, 64, 1024, 1500] {
            let mut vector = || -> Vec<f32> { (0..dimensions).map(|_| rng.below(2) as f32).collect() };
            let (a, b, zeros) = (vector(), vector(), vec![0.0; dimensions]);
            for (a, b) in [(&a, &b), (&a, &a), (&a, &zeros), (&zeros, &zeros)] {
                for metric in [Metric::Hamming, Metric::Jaccard] {
                    let (mut x, mut y) = (vec![0; dimensions.div_ceil(8)], vec![0; dimensions.div_ceil(8)]);
                    let a_coded =
                        Coded { factors: encode_for(metric, Element::Float32, a, 1.0, &mut x), codes: &x };
                    let b_coded =
                        Coded { factors: encode_for(metric, Element::Float32, b, 1.0, &mut y), codes: &y };
                    let found = score(metric, &Kernels::best(), a_coded, b_coded);
                    assert!((found - metric.distance(a, b)).abs() < 1e-6, "{metric:?} {dimensions}");
                }
            }
        }
    }

    #[test]
    fn codes_of_whole_numbers_are_exact() {
        let mut rng = Rng::new(7);
        for dimensions in [1, 3, 64, 100, 384] {
            let mut vector =
                || -> Vec<f32> { (0..dimensions).map(|_| rng.below(256) as f32 - 128.0).collect() };
            let (a, b) = (vector(), vector());
            for metric in [Metric::Cosine, Metric::L2, Metric::InnerProduct, Metric::L1] {
                let coded = |vector: &[f32], codes: &mut [u8]| {
                    encode_for(
                        metric,
                        Element::Int8,
                        vector,
                        metric.check(vector, dimensions).unwrap(),
                        codes,
                    )
                };
                let (mut x, mut y) = (vec![0; dimensions], vec![0; dimensions]);
                let a_coded = Coded { factors: coded(&a, &mut x), codes: &x };
                let b_coded = Coded { factors: coded(&b, &mut y), codes: &y };
                assert!(
                    a.iter().zip(a_coded.codes).all(|(element, code)| *element == f32::from(*code) - 128.0)
                );
                let found = score(metric, &Kernels::best(), a_coded, b_coded);
                let exact = match metric {
                    Metric::Cosine => metric.distance(&a, &b) - 1.0,
                    Metric::L2 => metric.distance(&a, &b).powi(2),
                    _ => metric.distance(&a, &b),
                };
                assert!((found - exact).abs() <= 2e-6 * exact.abs().max(1.0), "{metric:?}: {found}, {exact}");
            }
        }
        // What is compared with whole numbers need not be one.
        let mut codes = [0; 2];
        assert_eq!(encode_for(Metric::L2, Element::Int8, &[0.5, -1.0], 1.0, &mut codes).scale, 1.0 / 127.0);
    }

    #[test]
    fn factors_come_back_from_their_bytes() {
        let factors = Factors { scale: 0.25, squares: 3.5, sum: -77, aside: 0.0 };
        assert_eq!(Factors::from_bytes(&factors.to_bytes()), factors);
        assert_eq!(Factors::from_bytes(&[1, 2]), Factors::default());
    }

    #[test]
    fn codes_do_not_depend_on_the_length_of_a_vector() {
        for size in [1e-38, 3e-38, 1e-30, 1.0, 1e17] {
            let mut codes = [0; 3];
            let vector = [size, -0.25 * size, 0.0];
            let factors = encode(&vector, Metric::Cosine.check(&vector, 3).unwrap(), &mut codes);
            assert_eq!(codes, [ZERO + 127, ZERO - 32, ZERO], "{size}");
            assert!((factors.squares - 1.0).abs() < 0.01, "{size}: {factors:?}");
        }
    }

    #[test]
    fn a_vector_of_zeros_has_codes_of_zero() {
        let mut codes = [0; 5];
        let factors = encode(&[0.0; 5], 1.0, &mut codes);
        assert_eq!((codes, factors), ([ZERO; 5], Factors::default()));
    }
}
