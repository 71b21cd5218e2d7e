//! What a node can keep of the vectors that it links to, so that a search estimates their scores without reading them.
//!
//! Of the difference between a neighbour's vector and the node's own, the direction is kept in a few bits for each
//! dimension, and one factor that makes up for its rounding (RaBitQ, Gao and Long 2024, with the node as the centre, as
//! SymphonyQG has it). Before, the difference is rotated at random, so that no dimension counts more than others. With `e`
//! the rotated difference, `x` the numbers that its bits stand for, and `y` the rotated difference between a query and the
//! node, `<e, y>` is about `<x, y> |e|² / <x, e>`. From this, the link's score and the query's to the node follows the
//! score of the neighbour. The nearer both are to the node, the smaller the error: it is a share of `|e| |y|`, wherever
//! the origin lies.
//!
//! Where all vectors are of length 1, a link also keeps `<x, c>` times the factor, of the rotated vector `c` of the node. Then
//! `<x, y>` is the difference of that and of the product with the rotated query itself, which is rotated once for a whole
//! search ([`Turned`]) and not once for each node; and differences are those of rotated vectors. Of vectors of any length it is not done: far from the origin the
//! two products would be large, and their difference inexact.
//!
//! Bits are in planes: the lowest bits of all dimensions, then the next ones. Of `b` bits, the number `k` stands for
//! `2 k - 2^b + 1`. A factor is `|e|² / <x, e>`, or 0 if `e` is.
//!
//! The same vectors have the same codes on every machine: the arithmetic of rotation and coding is in one order.

use crate::graph::Estimate;
use crate::kernel::{Kernels, Packed};
use crate::metric::Metric;

/// Lanes that the arithmetic goes by.
const LANES: usize = 16;
/// The share by which sums may differ that are of the same numbers.
const ALIKE: f32 = 0.02;
/// Rounds of a rotation.
const ROUNDS: usize = 1;

/// A random rotation of vectors of one number of dimensions: always the same one.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// What each element is multiplied with before each Hadamard transform: plus or minus one, and for the elements that it
    /// transforms also what keeps lengths.
    factors: [Vec<f32>; 2 * ROUNDS],
    /// Elements of a transform, a power of two: the first ones and the last ones take turns.
    part: usize,
}

impl Rotation {
    /// The rotation of vectors of so many dimensions.
    pub fn new(dimensions: usize) -> Rotation {
        let part = if dimensions == 0 { 0 } else { 1 << dimensions.ilog2() };
        let keeping = 1.0 / (part.max(1) as f32).sqrt();
        let mut state = 0_u64;
        let mut turn = 0;
        let factors = std::array::from_fn(|_| {
            let range = Rotation::range(dimensions, part, turn);
            turn += 1;
            let factor = |at| {
                // Steele and others' splitmix64.
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                let sign = if mixed >> 63 == 0 { 1.0 } else { -1.0 };
                if range.contains(&at) { sign * keeping } else { sign }
            };
            (0..dimensions).map(factor).collect()
        });
        Rotation { factors, part }
    }

    /// What the transform of a turn is of.
    fn range(dimensions: usize, part: usize, turn: usize) -> std::ops::Range<usize> {
        if turn.is_multiple_of(2) { 0..part } else { dimensions - part..dimensions }
    }

    /// Rotates a vector.
    pub fn rotate(&self, vector: &mut [f32]) {
        (Kernels::best().rotate)(self, vector);
    }

    /// The same, to be compiled for several sets of instructions.
    #[inline(always)]
    pub(crate) fn rotate_inline(&self, vector: &mut [f32]) {
        let turns = if self.part == vector.len() { ROUNDS } else { 2 * ROUNDS };
        for (turn, factors) in self.factors.iter().enumerate().take(turns) {
            for (element, factor) in vector.iter_mut().zip(factors) {
                *element *= factor;
            }
            let range = Rotation::range(vector.len(), self.part, turn);
            if let Some(part) = vector.get_mut(range) {
                hadamard(part);
            }
        }
    }
}

/// The Hadamard transform, times the root of the number of elements.
#[inline(always)]
fn hadamard(part: &mut [f32]) {
    let (rows, rest) = part.as_chunks_mut::<LANES>();
    // A part is a power of two: shorter than a row, or whole rows.
    let mut half = 1;
    while half < rest.len() {
        for pair in rest.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                (*low, *high) = (*low + *high, *low - *high);
            }
        }
        half *= 2;
    }
    for row in rows.iter_mut() {
        turn_row::<1>(row);
        turn_row::<2>(row);
        turn_row::<4>(row);
        turn_row::<8>(row);
    }
    let mut half = 1;
    while half < rows.len() {
        for pair in rows.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                for (low, high) in low.iter_mut().zip(high) {
                    (*low, *high) = (*low + *high, *low - *high);
                }
            }
        }
        half *= 2;
    }
}

/// One step within a row: sums and differences of elements that are `HALF` apart.
#[inline(always)]
fn turn_row<const HALF: usize>(row: &mut [f32; LANES]) {
    let old = *row;
    for (at, element) in row.iter_mut().enumerate() {
        let other = old[(at ^ HALF) % LANES];
        *element = if at & HALF == 0 { *element + other } else { other - *element };
    }
}

/// The sum of products in one order on every machine.
#[inline(always)]
fn product(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(a_rest).zip(b_rest) {
        *sum += a * b;
    }
    sums.iter().sum()
}

/// How codes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Dimensions of the vectors.
    pub dimensions: usize,
    /// Bits of a dimension, at most 4.
    pub bits: usize,
    /// The vectors are of length 1, and links have a product with the node's own.
    pub of_units: bool,
}

/// What is kept of a code beside its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rounding {
    /// What makes up for the rounding.
    factor: f32,
    /// The product of the code and the node's own rotated vector, times the factor; only of vectors of length 1.
    own: f32,
}

impl Rounding {
    /// What makes up for the rounding.
    pub(crate) fn factor(self) -> f32 {
        self.factor
    }

    /// Both, of which any that are no number are the same.
    #[cfg(test)]
    pub(crate) fn to_bits(self) -> [u32; 2] {
        [self.factor, self.own].map(|part| if part.is_nan() { f32::NAN } else { part }.to_bits())
    }
}

impl Form {
    /// The squared length of a vector, the same on every machine.
    pub(crate) fn squares(vector: &[f32]) -> f32 {
        product(vector, vector)
    }

    /// Bytes of a plane.
    fn plane(self) -> usize {
        self.dimensions.div_ceil(8)
    }

    /// Bytes of the bits of a code.
    pub fn bytes(self) -> usize {
        self.bits * self.plane()
    }

    /// The same, up to a multiple of 4.
    pub fn padded(self) -> usize {
        self.bytes().next_multiple_of(4)
    }

    /// The step between the numbers of a code, in standard deviations: what rounds a normal distribution best.
    fn step(self) -> f32 {
        match self.bits {
            ..=1 => 1.0,
            2 => 0.995,
            3 => 0.586,
            _ => 0.335,
        }
    }

    /// The form of codes that is fit for so many dimensions: of few, more bits must tell directions apart.
    pub fn of(metric: Metric, dimensions: usize) -> Form {
        let bits = match dimensions {
            0..=31 => 4,
            32..=128 => 2,
            _ => 1,
        };
        Form { dimensions, bits, of_units: metric == Metric::Cosine }
    }

    /// Bytes of what is kept beside the bits of a code.
    fn rounding(self) -> usize {
        if self.of_units { 8 } else { 4 }
    }

    /// Bytes of a code, with what is kept beside its bits: a multiple of 4.
    pub fn code(self) -> usize {
        self.rounding() + self.padded()
    }

    /// A vector as [`Form::code_of`] needs it: rotated, if it is of length 1.
    pub fn prepare(self, rotation: &Rotation, vector: &mut [f32]) {
        if self.of_units {
            rotation.rotate(vector);
        }
    }

    /// Appends the code of a neighbour, as a node sees it, both prepared; `difference` is overwritten.
    pub fn code_of(
        self,
        kernels: &Kernels,
        rotation: &Rotation,
        neighbour: &[f32],
        node: &[f32],
        difference: &mut Vec<f32>,
        out: &mut Vec<u8>,
    ) {
        difference.clear();
        difference.extend(neighbour.iter().zip(node).map(|(of, from)| of - from));
        if !self.of_units {
            (kernels.rotate)(rotation, difference);
        }
        let at = out.len();
        out.resize(at + self.code(), 0);
        let Some((places, bits)) =
            out.get_mut(at..).and_then(|code| code.split_at_mut_checked(self.rounding()))
        else {
            return;
        };
        if let Some(bits) = bits.get_mut(..self.bytes()) {
            let Rounding { factor, own } = (kernels.code)(self, difference, node, bits);
            let parts = [factor, own].map(f32::to_le_bytes);
            places.as_chunks_mut().0.iter_mut().zip(parts).for_each(|(place, part)| *place = part);
        }
    }

    /// Whether two codes can be of one vector. Sums are not the same to the last bit in all versions of this library, nor are
    /// numbers at the boundary of two.
    pub fn is_same(self, a: &[u8], b: &[u8]) -> bool {
        let (Some((a, a_bits)), Some((b, b_bits))) = (self.rounding_of(a), self.rounding_of(b)) else {
            return false;
        };
        // Of no difference, the bits are of no interest.
        if a.factor == 0.0 && b.factor == 0.0 {
            return true;
        }
        let most = a.factor.abs().max(b.factor.abs());
        let length = (self.dimensions as f32).sqrt();
        let has_same_sums =
            (a.factor - b.factor).abs() <= ALIKE * most && (a.own - b.own).abs() <= ALIKE * most * length;
        // Of one bit, numbers are signs, which have no boundary but at 0.
        has_same_sums
            && (0..self.dimensions).all(|at| {
                self.number(a_bits, at).abs_diff(self.number(b_bits, at)) <= u32::from(self.bits > 1)
            })
    }

    /// What is kept beside the bits of a code, and these.
    fn rounding_of(self, code: &[u8]) -> Option<(Rounding, &[u8])> {
        let (parts, bits) = code.split_at_checked(self.rounding())?;
        let mut parts = parts.as_chunks().0.iter().map(|part| f32::from_le_bytes(*part));
        let (factor, own) = (parts.next()?, parts.next().unwrap_or_default());
        (bits.len() == self.padded()).then_some((Rounding { factor, own }, bits))
    }

    /// The number of a dimension, by its bits.
    fn number(self, bits: &[u8], at: usize) -> u32 {
        let bit = |plane| bits.get(plane * self.plane() + at / 8).map_or(0, |byte| byte >> (at % 8) & 1);
        (0..self.bits).map(|plane| u32::from(bit(plane)) << plane).sum()
    }

    /// Writes the bits of a rotated difference over `bits`, which is as long as a code. `own` is the rotated vector of the
    /// node from which it goes out. To be compiled for several sets of instructions.
    #[inline(always)]
    pub(crate) fn encode_inline(self, rotated: &[f32], own: &[f32], bits: &mut [u8]) -> Rounding {
        let squares = product(rotated, rotated);
        // Of a vector of zeros no number is of interest.
        let width = (squares / self.dimensions.max(1) as f32).sqrt() * self.step();
        let steps = 1.0 / width;
        let (with_codes, product) = match self.bits {
            ..=1 => self.encode_numbers::<1>(rotated, own, 0.0, bits),
            2 => self.encode_numbers::<2>(rotated, own, steps, bits),
            3 => self.encode_numbers::<3>(rotated, own, steps, bits),
            _ => self.encode_numbers::<4>(rotated, own, steps, bits),
        };
        if with_codes <= 0.0 || with_codes.is_nan() {
            return Rounding::default();
        }
        let factor = squares / with_codes;
        let own = if self.of_units { factor * product } else { 0.0 };
        Rounding { factor, own }
    }

    /// Writes the bits of a rotated difference, of whose elements one is a step if it is multiplied with `steps`. Returns the sums of products
    /// of the numbers that they stand for with the difference, and with `own`.
    #[inline(always)]
    fn encode_numbers<const BITS: usize>(
        self,
        rotated: &[f32],
        own: &[f32],
        steps: f32,
        bits: &mut [u8],
    ) -> (f32, f32) {
        let mut sums = [[0.0_f32; LANES]; 2];
        let (chunks, rest) = rotated.as_chunks::<LANES>();
        let (own_chunks, own_rest) = own.as_chunks::<LANES>();
        for (at, elements) in chunks.iter().enumerate() {
            // There is nothing where no product is wanted.
            let own = own_chunks.get(at).unwrap_or(&[0.0; LANES]);
            let words = encode_lanes::<BITS>(elements, own, steps, &mut sums);
            for (plane, word) in words.into_iter().enumerate() {
                let from = plane * self.plane() + at * LANES / 8;
                if let Some(place) = bits.get_mut(from..).and_then(|bits| bits.first_chunk_mut()) {
                    *place = word.to_le_bytes();
                }
            }
        }
        if !rest.is_empty() {
            let (mut elements, mut last_own) = ([0.0; LANES], [0.0; LANES]);
            elements.iter_mut().zip(rest).for_each(|(place, element)| *place = *element);
            last_own.iter_mut().zip(own_rest).for_each(|(place, element)| *place = *element);
            let words = encode_lanes::<BITS>(&elements, &last_own, steps, &mut sums);
            for (plane, word) in words.into_iter().enumerate() {
                let used = word & ((1 << rest.len()) - 1);
                let places = bits.iter_mut().skip(plane * self.plane() + chunks.len() * LANES / 8);
                // The last plane ends here, another one where the next begins.
                let bytes = used.to_le_bytes().into_iter().take(rest.len().div_ceil(8));
                places.zip(bytes).for_each(|(place, byte)| *place = byte);
            }
        }
        let [with_codes, with_own] = sums;
        (with_codes.iter().sum(), with_own.iter().sum())
    }
}

/// The bits of so many numbers, a word for each plane; the products of what they stand for with the elements and with `own` are added to
/// the sums.
#[inline(always)]
fn encode_lanes<const BITS: usize>(
    elements: &[f32; LANES],
    own: &[f32; LANES],
    steps: f32,
    [with_codes, with_own]: &mut [[f32; LANES]; 2],
) -> [u16; BITS] {
    // Numbers from `-half` to `half - 1`.
    let half = (1_u32 << BITS >> 1) as f32;
    let mut numbers = [0_u8; LANES];
    for at in 0..LANES {
        let rounded = match BITS {
            1 => f32::from(elements[at] > 0.0) - 1.0,
            // The greater one of a NaN and a number is the number.
            _ => (elements[at] * steps).floor().max(-half).min(half - 1.0),
        };
        let stands_for = 2.0 * rounded + 1.0;
        with_codes[at] += stands_for * elements[at];
        with_own[at] += stands_for * own[at];
        // The lowest bits of the sum are the whole number that is added; a conversion would look for others.
        numbers[at] = (WHOLE + (rounded + half)).to_bits() as u8;
    }
    let (eights, _) = numbers.as_chunks::<8>();
    let mut words = [0; BITS];
    for (plane, word) in words.iter_mut().enumerate() {
        for (at, eight) in eights.iter().enumerate() {
            // One bit of each byte, which the product has in its highest byte.
            let bits = u64::from_le_bytes(*eight) >> plane & 0x0101_0101_0101_0101;
            *word |= (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56 << (8 * at)) as u16;
        }
    }
    words
}

/// Floats of this size are whole numbers.
const WHOLE: f32 = (1 << 23) as f32;

/// A rotated vector in whole numbers: kept from one to the next, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Turned {
    rotated: Vec<f32>,
    /// Padded to a multiple of 64.
    numbers: Vec<i8>,
    /// What a number stands for.
    scale: f32,
    sum: i32,
}

impl Turned {
    /// Rotates a vector.
    pub fn turn(&mut self, kernels: &Kernels, rotation: &Rotation, vector: impl Iterator<Item = f32>) {
        let Turned { rotated, numbers, .. } = self;
        rotated.clear();
        rotated.extend(vector);
        (kernels.rotate)(rotation, rotated);
        numbers.resize(rotated.len().next_multiple_of(64), 0);
        let (scale, sum) = (kernels.round)(rotated, numbers);
        (self.scale, self.sum) = (scale, sum);
    }

    /// The sum of products of the rotated vector and the numbers that a code's bits stand for.
    #[inline]
    pub(crate) fn product(&self, kernels: &Kernels, form: Form, bits: &[u8]) -> f32 {
        let odd = ((1 << form.bits) - 1) * self.sum;
        self.scale * (2 * (kernels.few_bits)(bits, form.plane(), &self.numbers) - odd) as f32
    }
}

/// How a query lies, seen from a node: kept from one node to the next, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The difference between query and node.
    turned: Turned,
    sums: Vec<i32>,
    /// The score of the node.
    pub score: f32,
    /// What is added to each link's score.
    added: f32,
    /// What products are multiplied with.
    times: f32,
    /// What a factor is to be multiplied with for the standard error.
    error: f32,
}

/// The standard error of an estimate as a share of `factor |y|`: about the same for every number of bits.
const ERROR: f32 = 0.6;

impl Seen {
    /// Looks from a node with this vector at a query.
    pub fn look(
        &mut self,
        metric: Metric,
        kernels: &Kernels,
        rotation: &Rotation,
        node: &[f32],
        query: &[f32],
    ) {
        let difference = query.iter().zip(node).map(|(query, node)| query - node);
        self.turned.turn(kernels, rotation, difference);
        self.score = metric.score(kernels, node, query, 1.0);
        (self.added, self.times) = match metric {
            Metric::L2 => (self.score, 2.0),
            // The link's score is -<v, c>, of the difference -<v - c, c> is needed.
            _ => (self.score + (kernels.dot)(node, node), 1.0),
        };
        let rotated = &self.turned.rotated;
        self.error = ERROR * self.times * (kernels.dot)(rotated, rotated).sqrt();
    }

    /// The same where both are of length 1: of the node only its score is needed, minus the cosine. Codes are
    /// [`Form::of_units`], and the query is turned.
    pub fn look_at_unit(&mut self, score: f32) {
        (self.score, self.added, self.times) = (score, score + 1.0, 1.0);
        self.error = ERROR * (2.0 + 2.0 * score).max(0.0).sqrt();
    }

    /// Writes over `out` what the scores of neighbours are about, for each of which `links` has a record of so many bytes: the
    /// node and the score of the link, 4 bytes each, and the code. `added` is added to each. `query` is the rotated query
    /// where codes are [`Form::of_units`], otherwise nothing.
    #[allow(clippy::too_many_arguments)]
    pub fn estimates(
        &mut self,
        kernels: &Kernels,
        form: Form,
        query: Option<&Turned>,
        links: &[u8],
        stride: usize,
        added: f32,
        out: &mut Vec<Estimate<u32>>,
    ) {
        let Seen { sums, .. } = self;
        let Turned { numbers, scale, sum, .. } = query.unwrap_or(&self.turned);
        sums.clear();
        let packed = Packed { stride, at: 8 + form.rounding(), plane: form.plane(), planes: form.bits };
        (kernels.planes)(links, packed, numbers, sums);
        let (odd, of_units) = (((1 << form.bits) - 1) * sum, form.of_units);
        let (added, times, error) = (self.added + added, self.times, self.error);
        out.clear();
        out.extend(links.chunks_exact(stride.max(1)).zip(&*sums).map(|(link, sum)| {
            // No code is shorter than 8 bytes.
            let [node, score, factor, own] = match link.as_chunks::<4>().0 {
                [node, score, factor, own, ..] => [*node, *score, *factor, *own],
                _ => [[0; 4]; 4],
            };
            let [score, factor, own] = [score, factor, own].map(f32::from_le_bytes);
            let own = if of_units { own } else { 0.0 };
            let product = factor * (scale * (2 * sum - odd) as f32) - own;
            let score = added + score - times * product;
            Estimate { node: u32::from_le_bytes(node), score, error: error * factor }
        }));
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    const METRICS: [Metric; 3] = [Metric::Cosine, Metric::L2, Metric::InnerProduct];

    /// What the score of one neighbour is about, and the standard error.
    fn estimate(seen: &mut Seen, form: Form, query: Option<&Turned>, link: f32, code: &[u8]) -> (f32, f32) {
        let mut record = 7_u32.to_le_bytes().to_vec();
        record.extend(link.to_le_bytes().iter().chain(code));
        let mut found = Vec::new();
        seen.estimates(&Kernels::best(), form, query, &record, record.len(), 0.0, &mut found);
        let [Estimate { node: 7, score, error }] = found[..] else { panic!("{found:?}") };
        (score, error)
    }

    #[test]
    fn a_code_is_its_vectors_whatever_the_last_bits_of_its_sums_are_and_no_other_ones() {
        let mut rng = Rng::new(9);
        for (dimensions, bits, of_units) in
            [(16, 4, false), (17, 4, true), (64, 2, true), (100, 2, false), (384, 1, true)]
        {
            let form = Form { dimensions, bits, of_units };
            let (kernels, rotation) = (Kernels::best(), Rotation::new(dimensions));
            let mut vector =
                || (0..dimensions).map(|_| rng.below(2001) as f32 / 1000.0 - 1.0).collect::<Vec<f32>>();
            let (node, neighbour, other) = (vector(), vector(), vector());
            let code = |of: &[f32]| {
                let mut code = Vec::new();
                form.code_of(&kernels, &rotation, of, &node, &mut Vec::new(), &mut code);
                code
            };
            let (own, others, none) = (code(&neighbour), code(&other), code(&node));
            assert!(form.is_same(&own, &own) && form.is_same(&none, &none), "{form:?}");
            assert!(!form.is_same(&own, &others) && !form.is_same(&own, &none), "{form:?}");
            assert!(!form.is_same(&own, &own[..own.len() - 4]) && !form.is_same(&own, &[]), "{form:?}");
            // The last bits of what is kept beside the numbers.
            let mut rounded = own.clone();
            rounded[0] ^= 3;
            assert!(form.is_same(&own, &rounded), "{form:?}");
            // The lowest bit of a number, which is a number beside it; of one bit it is another sign.
            let mut beside = own.clone();
            beside[form.rounding()] ^= 1;
            assert_eq!(form.is_same(&own, &beside), bits > 1, "{form:?}");
            let mut far = own.clone();
            far[form.rounding() + (bits - 1) * form.plane()] ^= 1;
            assert!(bits == 1 || !form.is_same(&own, &far), "{form:?}");
        }
    }

    /// The root of the mean square of the errors of estimates, as a share of the distances from the node of both, and of what
    /// the errors are said to be.
    fn error(metric: Metric, dimensions: usize, form: Form, origin: f32) -> (f32, f32) {
        let mut rng = Rng::new(7);
        let (kernels, rotation) = (Kernels::best(), Rotation::new(dimensions));
        let (mut sum, mut of_errors, mut count) = (0.0, 0.0, 0.0);
        let (mut seen, mut turned) = (Seen::default(), Turned::default());
        let (mut difference, mut code) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            let mut vector = || {
                let mut vector: Vec<f32> =
                    (0..dimensions).map(|_| origin + rng.below(2001) as f32 / 1000.0 - 1.0).collect();
                let unit = metric.check(&vector, dimensions).unwrap();
                vector.iter_mut().for_each(|element| *element *= unit);
                vector
            };
            let (node, neighbour, query) = (vector(), vector(), vector());
            let sizes = Metric::L2.distance(&neighbour, &node) * Metric::L2.distance(&query, &node);
            let [mut prepared, mut own] = [neighbour.clone(), node.clone()];
            form.prepare(&rotation, &mut prepared);
            form.prepare(&rotation, &mut own);
            code.clear();
            form.code_of(&kernels, &rotation, &prepared, &own, &mut difference, &mut code);
            let score = |a: &[f32], b: &[f32]| metric.score(&kernels, a, b, 1.0);
            let query_turned = form.of_units.then_some(&mut turned).map(|turned| {
                turned.turn(&kernels, &rotation, query.iter().copied());
                &*turned
            });
            match query_turned {
                Some(_) => seen.look_at_unit(score(&node, &query)),
                None => seen.look(metric, &kernels, &rotation, &node, &query),
            }
            assert_eq!(seen.score, score(&node, &query));
            let link = score(&neighbour, &node);
            let (found, error) = estimate(&mut seen, form, query_turned, link, &code);
            let off = found - score(&neighbour, &query);
            sum += (off / sizes).powi(2);
            of_errors += (off / error).powi(2);
            count += 1.0;
        }
        (f32::sqrt(sum / count), f32::sqrt(of_errors / count))
    }

    #[test]
    fn estimates_are_near_the_scores_wherever_the_origin_lies() {
        for metric in METRICS {
            for (dimensions, most) in
                [(16, 0.12), (32, 0.16), (64, 0.14), (100, 0.1), (384, 0.09), (1536, 0.05)]
            {
                for origin in [0.0, 3.0] {
                    let (found, said) = error(metric, dimensions, Form::of(metric, dimensions), origin);
                    let what = format!("{metric:?} of {dimensions} dimensions from {origin}");
                    assert!(found < most, "{what}: {found}");
                    assert!(
                        (0.7..1.4).contains(&said),
                        "{what}: errors are {said} of what they are said to be"
                    );
                }
            }
        }
    }

    #[test]
    fn more_bits_make_smaller_errors() {
        for metric in METRICS {
            let [one, two, four] =
                [1, 2, 4].map(|bits| error(metric, 100, Form { bits, ..Form::of(metric, 100) }, 0.0).0);
            assert!(two < 0.7 * one && four < 0.5 * two, "{metric:?}: {one} {two} {four}");
        }
    }

    #[test]
    fn a_copy_of_a_node_has_the_score_of_its_link() {
        for dimensions in [3, 64, 100] {
            let (form, kernels) = (Form::of(Metric::L2, dimensions), Kernels::best());
            let rotation = Rotation::new(dimensions);
            let (node, query) = (vec![0.5; dimensions], vec![-0.25; dimensions]);
            for form in [form, Form::of(Metric::Cosine, dimensions)] {
                let bits = &mut vec![0; form.bytes()];
                assert_eq!((kernels.code)(form, &vec![0.0; dimensions], &node, bits), Rounding::default());
            }
            let (mut code, mut seen) = (Vec::new(), Seen::default());
            form.code_of(&kernels, &rotation, &node, &node, &mut Vec::new(), &mut code);
            seen.look(Metric::L2, &kernels, &rotation, &node, &query);
            let score = seen.score;
            assert_eq!(estimate(&mut seen, form, None, 0.0, &code), (score, 0.0));
            // A query that is the node sees every neighbour at the distance of its link.
            seen.look(Metric::L2, &kernels, &rotation, &node, &node);
            assert_eq!(estimate(&mut seen, form, None, 7.0, &code), (7.0, 0.0));
        }
    }
}
