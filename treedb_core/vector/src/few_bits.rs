//! Vectors as codes of one, two or four bits for each dimension, and distances from these codes.
//!
//! The codes are those of [`crate::neighbour`] (RaBitQ, Gao and Long 2024) with zero as the centre: a vector is rotated at random, so that
//! no dimension counts more than others, and each element of what comes out is rounded to a number of so many bits. With `e` the rotated
//! vector and `x` these numbers, what is kept beside them makes up for the rounding: the factor `|e|² / <x, e>`; the squared length
//! `|e|²`; and `<x, x>`.
//!
//! - [`FewBits::score`] compares codes with a query that is known exactly: rotated and rounded to 8 bits once. `<e, q>` is about
//!   `<x, q>` times the factor; the error is a share of `|e| |q|` that falls with the root of the dimensions, and with every bit.
//! - [`FewBits::between`] compares codes with each other, where the vectors are not at hand: the rounding of both counts.
//!
//! The smaller a score, the nearer two vectors are, as in [`crate::code`]. What a search finds by them is to be put in exact order.

use crate::centre::Centre;
use crate::code::{Coded, Factors};
use crate::kernel::Kernels;
use crate::metric::Metric;
use crate::neighbour::{Form, Rotation, Turned};

/// Makes and compares codes of so many bits of vectors of so many dimensions.
#[derive(Clone, Debug)]
pub struct FewBits {
    metric: Metric,
    form: Form,
    rotation: Rotation,
}

/// A vector to compare codes with: kept from one to the next, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Target {
    turned: Turned,
    /// The squared length.
    squares: f32,
}

impl FewBits {
    /// Codes under a metric of products (cosine, L2, inner product). Others say little of a rotated vector.
    pub fn new(metric: Metric, dimensions: usize, bits: usize) -> FewBits {
        let form = Form { dimensions, bits, of_units: false };
        FewBits { metric, form, rotation: Rotation::new(dimensions) }
    }

    /// The same beside a centre: of differences from it, if [it moves them](Centre::moves_few_bits).
    pub(crate) fn about(&self, centre: &Centre) -> FewBits {
        FewBits { metric: centre.few_bits_scores(), ..self.clone() }
    }

    /// Whether codes of few bits say how near vectors are under this metric.
    pub fn is_for(metric: Metric) -> bool {
        matches!(metric, Metric::Cosine | Metric::L2 | Metric::InnerProduct)
    }

    /// How many of `candidates` are to be compared exactly: the fewer bits say how near they are, the more.
    pub fn ranked(&self, candidates: usize) -> usize {
        candidates.saturating_mul(2) / self.form.bits.max(2)
    }

    /// Bytes of the codes of a vector.
    pub fn code_bytes(&self) -> usize {
        self.form.bytes()
    }

    /// Writes the codes of a vector over `codes`, which is as long as they are; `unit` is what [`Metric::check`] has returned for it.
    pub fn encode(&self, vector: &[f32], unit: f32, codes: &mut [u8]) -> Factors {
        // By a power of two, which is exact: so squares neither overflow nor lose digits, but where the vector's own do.
        let greatest = vector.iter().fold(0.0_f32, |greatest, element| greatest.max(element.abs()));
        let size = if unit == 1.0 { power_of_two(greatest) } else { 1.0 / unit };
        let mut rotated: Vec<f32> = vector.iter().map(|element| element / size).collect();
        let kernels = Kernels::best();
        (kernels.rotate)(&self.rotation, &mut rotated);
        let factor = (kernels.code)(self.form, &rotated, &[], codes).factor();
        let squares = Form::squares(&rotated);
        let size = if unit == 1.0 { size } else { 1.0 };
        Factors {
            scale: factor * size,
            squares: squares * size * size,
            sum: self.products(codes, codes),
            aside: 0.0,
        }
    }

    /// Makes `target` a vector to compare codes with.
    pub fn aim(&self, kernels: &Kernels, vector: &[f32], unit: f32, target: &mut Target) {
        target.turned.turn(kernels, &self.rotation, vector.iter().map(|element| element * unit));
        target.squares = (kernels.dot)(vector, vector) * unit * unit;
    }

    /// The score of codes and a vector.
    #[inline]
    pub fn score(&self, kernels: &Kernels, target: &Target, coded: Coded<'_>) -> f32 {
        let dot = coded.factors.scale * target.turned.product(kernels, self.form, coded.codes);
        self.score_of(dot, target.squares, coded.factors.squares)
    }

    /// The score of two vectors' codes.
    pub fn between(&self, a: Coded<'_>, b: Coded<'_>) -> f32 {
        let size = |of: Coded<'_>| of.factors.squares.sqrt();
        let length = |of: Coded<'_>| (of.factors.sum as f32).sqrt();
        // The cosine between a vector and its code.
        let kept = |of: Coded<'_>| match of.factors.scale {
            scale if scale > 0.0 => (size(of) / (scale * length(of))).clamp(0.1, 1.0),
            _ => 1.0,
        };
        let cosine = self.products(a.codes, b.codes) as f32 / (length(a) * length(b)).max(1.0);
        // Where the vectors have little in common, roundings are independent: the cosine is that between the codes, divided by both.
        // The same vectors have the same codes. Between lies about this (of normal distributions, off by a hundredth at most); of one
        // bit it is the arcsine law.
        let (times, power) = (1.0 / (kept(a) * kept(b)), if self.form.bits == 1 { 2 } else { 8 });
        let cosine = (cosine * (times - (times - 1.0) * cosine.powi(power))).clamp(-1.0, 1.0);
        let is_zero = a.factors.scale == 0.0 || b.factors.scale == 0.0;
        let dot = if is_zero { 0.0 } else { size(a) * size(b) * cosine };
        self.score_of(dot, a.factors.squares, b.factors.squares)
    }

    #[inline]
    fn score_of(&self, dot: f32, a_squares: f32, b_squares: f32) -> f32 {
        match self.metric {
            Metric::L2 => a_squares + b_squares - 2.0 * dot,
            _ => -dot,
        }
    }

    /// The sum of products of the numbers that two codes stand for.
    fn products(&self, a: &[u8], b: &[u8]) -> i32 {
        let (kernels, plane, bits) =
            (Kernels::best(), self.form.bytes() / self.form.bits.max(1), self.form.bits);
        let count = |a: &[u8], b: &[u8]| (kernels.common)(a, b).cast_signed();
        let (mut both, mut alone) = (0, 0);
        for (place, a) in a.chunks_exact(plane.max(1)).enumerate() {
            alone += count(a, a) << place;
            for (other, b) in b.chunks_exact(plane.max(1)).enumerate() {
                both += count(a, b) << (place + other);
            }
        }
        for (place, b) in b.chunks_exact(plane.max(1)).enumerate() {
            alone += count(b, b) << place;
        }
        // The number `k` stands for `2 k - odd`.
        let odd = (1 << bits) - 1;
        4 * both - 2 * odd * alone + odd * odd * self.form.dimensions as i32
    }
}

/// The greatest power of two that is not greater than a number; 1 of zero.
fn power_of_two(number: f32) -> f32 {
    let power = f32::from_bits(number.to_bits() & 0x7f80_0000);
    if power > 0.0 && power.is_finite() { power } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    const METRICS: [Metric; 3] = [Metric::Cosine, Metric::L2, Metric::InnerProduct];

    fn vector(rng: &mut Rng, dimensions: usize) -> Vec<f32> {
        (0..dimensions).map(|_| rng.below(2001) as f32 / 1000.0 - 1.0 + 0.0005).collect()
    }

    fn coded(few: &FewBits, metric: Metric, vector: &[f32]) -> (Vec<u8>, Factors) {
        let mut codes = vec![0; few.code_bytes()];
        let unit = metric.check(vector, vector.len()).unwrap();
        let factors = few.encode(vector, unit, &mut codes);
        (codes, factors)
    }

    /// The score that the vectors have.
    fn exact(metric: Metric, a: &[f32], b: &[f32]) -> f32 {
        let units: f32 = [a, b].map(|of| metric.check(of, of.len()).unwrap()).iter().product();
        metric.score(&Kernels::best(), a, b, units)
    }

    /// The roots of the mean squares of the errors of both kinds of scores, as shares of the products of both lengths.
    fn errors(metric: Metric, dimensions: usize, bits: usize) -> [f32; 2] {
        let (few, kernels) = (FewBits::new(metric, dimensions, bits), Kernels::best());
        let (mut rng, mut sums, mut target) = (Rng::new(5), [0.0; 2], Target::default());
        for round in 0..300 {
            let a = vector(&mut rng, dimensions);
            // From far away to near.
            let near = (round % 10) as f32 / 10.0;
            let b: Vec<f32> = a
                .iter()
                .zip(vector(&mut rng, dimensions))
                .map(|(a, b)| near * a + (1.0 - near) * b)
                .collect();
            let size = |of: &[f32]| {
                let unit = metric.check(of, dimensions).unwrap();
                (kernels.dot)(of, of).sqrt() * unit
            };
            let sizes = size(&a) * size(&b) * if metric == Metric::L2 { 2.0 } else { 1.0 };
            let ((x, x_factors), (y, y_factors)) = (coded(&few, metric, &a), coded(&few, metric, &b));
            let x = Coded { factors: x_factors, codes: &x };
            let y = Coded { factors: y_factors, codes: &y };
            few.aim(&kernels, &b, metric.check(&b, dimensions).unwrap(), &mut target);
            let wanted = exact(metric, &a, &b);
            assert_eq!(few.between(x, y), few.between(y, x));
            for (sum, found) in sums.iter_mut().zip([few.score(&kernels, &target, x), few.between(x, y)]) {
                *sum += ((found - wanted) / sizes).powi(2);
            }
        }
        sums.map(|sum| f32::sqrt(sum / 300.0))
    }

    #[test]
    fn scores_are_near_those_of_the_vectors_and_nearer_with_every_bit_and_dimension() {
        for metric in METRICS {
            for (dimensions, most) in [(20, 0.20), (64, 0.12), (100, 0.10), (384, 0.06), (1536, 0.03)] {
                let [one, two, four] = [1, 2, 4].map(|bits| errors(metric, dimensions, bits));
                let what = format!("{metric:?} of {dimensions} dimensions: {one:?} {two:?} {four:?}");
                assert!(one[0] < most && one[1] < 1.3 * most, "{what}");
                assert!(two[0] < 0.7 * one[0] && two[1] < 0.7 * one[1], "{what}");
                assert!(four[0] < 0.5 * two[0] && four[1] < 0.5 * two[1], "{what}");
            }
        }
    }

    #[test]
    fn a_code_compared_with_itself_is_as_near_as_a_copy() {
        let mut rng = Rng::new(2);
        for metric in METRICS {
            for (dimensions, bits) in [(3, 1), (21, 1), (384, 1), (21, 2), (384, 4), (8192, 4)] {
                let (few, vector) = (FewBits::new(metric, dimensions, bits), vector(&mut rng, dimensions));
                let (codes, factors) = coded(&few, metric, &vector);
                let own = Coded { factors, codes: &codes };
                let (found, wanted) = (few.between(own, own), exact(metric, &vector, &vector));
                assert!(
                    (found - wanted).abs() < 1e-3 * factors.squares,
                    "{metric:?} {dimensions} {bits}: {found}"
                );
            }
        }
    }

    #[test]
    fn codes_do_not_depend_on_the_length_of_a_vector() {
        let mut rng = Rng::new(3);
        for bits in [1, 2, 4] {
            let whole = vector(&mut rng, 100);
            let mut before = None;
            for size in [1e-30_f32, 2.0_f32.powi(-70), 1.0, 2.0_f32.powi(70), 1e30] {
                let vector: Vec<f32> = whole.iter().map(|element| element * size).collect();
                for metric in METRICS {
                    let few = FewBits::new(metric, 100, bits);
                    let (codes, factors) = coded(&few, metric, &vector);
                    let differing = before.get_or_insert_with(|| codes.clone());
                    let differing = (Kernels::best().differing)(differing, &codes);
                    assert!(differing <= bits as u32, "{metric:?} {size} {bits}: {differing}");
                    assert!(
                        factors.scale.is_finite() && factors.scale > 0.0,
                        "{metric:?} {size}: {factors:?}"
                    );
                    if metric == Metric::Cosine {
                        assert!((factors.squares - 1.0).abs() < 1e-4, "{size}: {factors:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_vector_of_zeros_is_as_far_from_others_as_they_are_long() {
        let (kernels, mut target) = (Kernels::best(), Target::default());
        for bits in [1, 2, 4] {
            let (l2, product) =
                (FewBits::new(Metric::L2, 5, bits), FewBits::new(Metric::InnerProduct, 5, bits));
            let (codes, factors) = coded(&l2, Metric::L2, &[0.0; 5]);
            let zeros = Coded { factors, codes: &codes };
            let (codes, factors) = coded(&l2, Metric::L2, &[0.0, 3.0, 0.0, 4.0, 0.0]);
            let other = Coded { factors, codes: &codes };
            l2.aim(&kernels, &[0.0, 3.0, 0.0, 4.0, 0.0], 1.0, &mut target);
            assert_eq!(
                (l2.score(&kernels, &target, zeros), product.score(&kernels, &target, zeros)),
                (25.0, 0.0)
            );
            assert!((l2.between(zeros, other) - 25.0).abs() < 1e-4);
            assert_eq!((l2.between(zeros, zeros), product.between(zeros, other)), (0.0, 0.0));
        }
    }
}
