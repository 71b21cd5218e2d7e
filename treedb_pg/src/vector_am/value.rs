//! Vectors as SQL has them: read from values, checked, and compared by the distance functions.

use std::collections::HashSet;
use std::ops::Deref;

use treedb_query::index::vector::{VectorDef, Vectors};
use treedb_vector::kernel::Kernels;
use treedb_vector::metric::{Metric, Unfit};

use super::kind::{Element, Kind};
use super::record;
use crate::shim::error::{SqlState, accept, fail};
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::Varlena;
use crate::shim::text;
use crate::shim::vector_options::{MOST_BITS, MOST_HALVES};
use crate::types::bson;

/// Elements of an indexed vector are no greater than this: their squares must have a sum.
pub(crate) const GREATEST: f32 = 1e17;
/// `real` in the catalog.
const REAL: i32 = 700;

fn unfit(message: impl Into<String>, hint: &str) -> ! {
    fail(SqlState::ERRCODE_DATA_EXCEPTION, message, hint)
}

/// An integer of an array's header.
fn int(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| i32::from_ne_bytes(*bytes))
}

/// Appends the elements of a value, without the header of its length, to `vector`: one vector, or several, one after the
/// other. Returns how many elements each of them has.
fn read(element: Element, bytes: &[u8], vector: &mut Vec<f32>) -> usize {
    let before = vector.len();
    match element {
        Element::Real => {
            // Number of dimensions, where elements begin if there is a bitmap of NULLs, their type; lengths and lower bounds.
            let (dimensions, data, of) = (int(bytes, 0), int(bytes, 4), int(bytes, 8));
            let length = |at| usize::try_from(int(bytes, at)).unwrap_or(0);
            let (count, width, header) = match dimensions {
                0 => return 0,
                1 if of == REAL => (1, length(12), 20),
                2 if of == REAL => (length(12), length(16), 28),
                _ => unfit(
                    "a vector is an array of one dimension, and several vectors are one of two",
                    "Pass an array as '{1, 2, 3}', or several vectors as '{{1, 2, 3}, {4, 5, 6}}'.",
                ),
            };
            let count = count.saturating_mul(width);
            // The offset counts from the header of the length.
            let data = usize::try_from(data).ok().and_then(|data| data.checked_sub(4));
            if data.is_some() && has_null(bytes.get(header..).unwrap_or(&[]), count) {
                fail(
                    SqlState::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                    "a vector has no NULL elements",
                    "Store NULL instead of the array, or remove the NULL element.",
                )
            }
            let elements = bytes.get(data.unwrap_or(header)..).unwrap_or(&[]).as_chunks().0.iter();
            vector.extend(elements.take(count).map(|element| f32::from_ne_bytes(*element)));
            return width;
        }
        // The number of elements, two bytes unused.
        Element::Vector => {
            let elements = bytes.get(4..).unwrap_or(&[]).as_chunks().0.iter();
            vector.extend(elements.map(|element| f32::from_ne_bytes(*element)));
        }
        Element::Half => {
            let elements = bytes.get(4..).unwrap_or(&[]).as_chunks().0.iter();
            vector.extend(elements.map(|element| from_half(u16::from_ne_bytes(*element))));
        }
        Element::Bit => {
            let (count, bits) = bits(bytes);
            vector.extend(record::bits(bits, count));
        }
    }
    vector.len() - before
}

/// How many bits a value of type `bit` has, without the header of its length, and those, the first in the highest place.
fn bits(bytes: &[u8]) -> (usize, &[u8]) {
    (usize::try_from(int(bytes, 0)).unwrap_or(0), bytes.get(4..).unwrap_or(&[]))
}

/// The elements of a `real[]`, without the header of its length.
pub(crate) fn elements(array: &[u8]) -> Vec<f32> {
    let mut vector = Vec::new();
    read(Element::Real, array, &mut vector);
    vector
}

/// The `real[]` of a vector, without the header of its length.
pub(crate) fn array(vector: &[f32]) -> Vec<u8> {
    // One dimension, no NULLs, the type, as many elements, counted from 1.
    array_of(&[1, 0, REAL, vector.len() as i32, 1], vector)
}

/// The `varbit` of a vector of bits, without the header of its length.
pub(crate) fn bit_string(vector: &[f32]) -> Vec<u8> {
    let mut value = (vector.len() as i32).to_ne_bytes().to_vec();
    record::push_bits(vector, &mut value);
    value
}

/// The `real[]` of so many vectors, one after the other.
fn array_of_several(vectors: &[f32], count: usize) -> Vec<u8> {
    let dimensions = vectors.len() / count.max(1);
    array_of(&[2, 0, REAL, count as i32, dimensions as i32, 1, 1], vectors)
}

fn array_of(header: &[i32], elements: &[f32]) -> Vec<u8> {
    let header = header.iter().flat_map(|int| int.to_ne_bytes());
    header.chain(elements.iter().flat_map(|element| element.to_ne_bytes())).collect()
}

/// Whether an element of an array is NULL: its bit in the array's bitmap is 0. An array may have a bitmap and no NULL.
fn has_null(bitmap: &[u8], count: usize) -> bool {
    (0..count).any(|at| bitmap.get(at / 8).is_some_and(|bits| bits >> (at % 8) & 1 == 0))
}

/// A number of 16 bits (IEEE 754 binary16).
fn from_half(half: u16) -> f32 {
    let (sign, exponent, fraction) = (u32::from(half >> 15) << 31, half >> 10 & 31, u32::from(half & 0x3ff));
    match exponent {
        0 => fraction as f32 / 16_777_216.0 * if sign == 0 { 1.0 } else { -1.0 },
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (u32::from(exponent) + 112) << 23 | fraction << 13),
    }
}

/// Reads a value of a column and shows each of its different vectors that the index has to `each`, with what makes it of length 1 before
/// its direction is compared, otherwise 1; `all` is overwritten. An SQL error if an index of so many dimensions cannot have one
/// of them.
pub(super) fn each_indexable(
    kind: Kind,
    dimensions: usize,
    bytes: impl Deref<Target = [u8]>,
    all: &mut Vec<f32>,
    mut each: impl FnMut(&[f32], f32),
) {
    all.clear();
    let width = read(kind.element, &bytes, all);
    if width != dimensions {
        unit(kind, dimensions, all.get(..width).unwrap_or(&[]));
    }
    if all.len() <= width {
        if let Some(unit) = unit(kind, dimensions, all) {
            each(all, unit);
        }
        return;
    }
    // None is linked if one of the others is refused, nor one that is the same as another: nodes that are alike only keep a search
    // among themselves.
    let units: Vec<Option<f32>> =
        all.chunks_exact(width.max(1)).map(|vector| unit(kind, dimensions, vector)).collect();
    let mut known = HashSet::new();
    for (vector, unit) in all.chunks_exact(width.max(1)).zip(units) {
        let bits: Vec<u32> = vector.iter().map(|element| element.to_bits()).collect();
        if let Some(unit) = unit
            && known.insert(bits)
        {
            each(vector, unit);
        }
    }
}

/// Reads what a column is compared with into `vector`. Returns what makes it of length 1 before its
/// direction is compared, otherwise 1; `None` if it has no direction, which the metric needs. An SQL error if it cannot be compared
/// with the vectors of an index of so many dimensions.
pub(super) fn target(
    kind: Kind,
    dimensions: usize,
    bytes: impl Deref<Target = [u8]>,
    vector: &mut Vec<f32>,
) -> Option<f32> {
    vector.clear();
    if read(kind.element, &bytes, vector) < vector.len() {
        unfit(
            "rows are ordered by the distance from one vector, not several",
            "Search for one after the other.",
        );
    }
    // If an element were too large, its square would be.
    let squares = (Kernels::best().dot)(vector, vector);
    if squares > GREATEST * GREATEST || squares.is_nan() {
        return unit(kind, dimensions, vector);
    }
    scale(kind.metric.check_query(vector, dimensions))
}

/// What [`each_indexable`] and [`target`] say of a vector.
fn unit(kind: Kind, dimensions: usize, vector: &[f32]) -> Option<f32> {
    if vector.iter().any(|element| element.is_finite() && element.abs() > GREATEST) {
        unfit(
            "an element of the vector is too large for an index",
            "Elements of indexed vectors are numbers from -1e17 to 1e17.",
        );
    }
    scale(kind.metric.check(vector, dimensions))
}

/// What a check of a vector says to multiply it with; `None` if it has no direction.
fn scale(checked: Result<f32, Unfit>) -> Option<f32> {
    match checked {
        Ok(unit) => Some(unit),
        Err(Unfit::NoDirection) => None,
        Err(error @ Unfit::Dimensions { .. }) => {
            unfit(error.to_string(), "All vectors of an index have the same number of dimensions.")
        }
        Err(error @ Unfit::NotFinite { .. }) => {
            unfit(error.to_string(), "Elements of indexed vectors are finite numbers.")
        }
        Err(error @ Unfit::NotABit { .. }) => {
            unfit(error.to_string(), "Elements of vectors of bits are 0 or 1.")
        }
    }
}

/// The distance of two arguments; of one that is several vectors, that of the nearest of them.
fn distance(args: &Args, metric: Metric) -> f64 {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let widths = [read(Element::Real, &args.bytes(0), &mut a), read(Element::Real, &args.bytes(1), &mut b)];
    let [one, other] = widths;
    check_dimensions(one, other);
    let (vector, several) = if a.len() > one { (&b, &a) } else { (&a, &b) };
    if vector.len() > one {
        unfit("several vectors have no distance from several others", "Compare with one after the other.");
    }
    if several.len() == one {
        return metric.distance(vector, several).into();
    }
    // Those without a direction have no distance.
    several.chunks_exact(one.max(1)).map(|own| metric.distance(own, vector)).fold(f32::NAN, f32::min).into()
}

/// An SQL error unless two vectors have as many dimensions.
fn check_dimensions(one: usize, other: usize) {
    if one != other {
        unfit(
            format!("vectors of {one} and of {other} dimensions have no distance"),
            "Compare vectors of the same number of dimensions.",
        );
    }
}

/// The distance of two arguments of type `bit`, from how many bits are set in one, in the other, in both.
fn distance_of_bits(args: &Args, distance: impl FnOnce(u32, u32, u32) -> f64) -> f64 {
    let (a, b) = (args.bytes(0), args.bytes(1));
    let ((count, a), (other, b)) = (bits(&a), bits(&b));
    check_dimensions(count, other);
    let set = |bytes: &mut dyn Iterator<Item = u8>| bytes.map(u8::count_ones).sum();
    distance(
        set(&mut a.iter().copied()),
        set(&mut b.iter().copied()),
        set(&mut a.iter().zip(b).map(|(a, b)| a & b)),
    )
}

pg_function! {
    /// `real[] <-> real[]`: the Euclidean distance.
    fn treedb_l2_distance(args: [Varlena, Varlena]) -> f64 {
        distance(args, Metric::L2)
    }
}

pg_function! {
    /// `real[] <#> real[]`: the inner product, negated.
    fn treedb_negative_inner_product(args: [Varlena, Varlena]) -> f64 {
        distance(args, Metric::InnerProduct)
    }
}

pg_function! {
    /// `real[] <=> real[]`: 1 minus the cosine of the angle, NaN if one of them has no direction.
    fn treedb_cosine_distance(args: [Varlena, Varlena]) -> f64 {
        distance(args, Metric::Cosine)
    }
}

pg_function! {
    /// `real[] <+> real[]`: the sum of absolute differences.
    fn treedb_l1_distance(args: [Varlena, Varlena]) -> f64 {
        distance(args, Metric::L1)
    }
}

pg_function! {
    /// `bit <~> bit`: how many bits differ.
    fn treedb_hamming_distance(args: [Varlena, Varlena]) -> f64 {
        distance_of_bits(args, |one, other, both| f64::from(one + other - 2 * both))
    }
}

pg_function! {
    /// `bit <%> bit`: 1 minus the part of the bits that are set in one of them that is set in both; 1 if none is.
    fn treedb_jaccard_distance(args: [Varlena, Varlena]) -> f64 {
        distance_of_bits(args, |one, other, both| match both {
            0 => 1.0,
            _ => 1.0 - f64::from(both) / f64::from(one + other - both),
        })
    }
}

/// A definition with what indexes in PostgreSQL require of vectors: a value of bits is one vector.
pub(crate) fn limited(def: VectorDef) -> VectorDef {
    VectorDef { greatest: Some(GREATEST), one_vector: def.metric.is_of_bits(), ..def }
}

/// The definition that stands for the path and the dimensions of a call site, made once.
#[derive(Default)]
struct KnownPath {
    text: Vec<u8>,
    def: Option<VectorDef>,
}

impl KnownPath {
    /// The definition for a metric, which each function always passes the same, so that it is not compared.
    fn of(&mut self, text: &[u8], dimensions: usize, metric: Metric) -> &VectorDef {
        if self.text != text || self.def.as_ref().is_some_and(|def| def.dimensions != dimensions) {
            (self.text, self.def) = (text.to_vec(), None);
        }
        self.def.get_or_insert_with(|| limited(VectorDef::new(&text::to_utf8(text), dimensions, metric)))
    }
}

/// The vectors at the path of a document that the arguments of a function name: document, path, dimensions.
fn vectors_at(args: &Args, metric: Metric, most: i32, example: &str) -> Vectors {
    let dimensions = match usize::try_from(args.int4(2)) {
        Ok(dimensions) if (1..=most as usize).contains(&dimensions) => dimensions,
        _ => fail(
            SqlState::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("a vector cannot have {} dimensions", args.int4(2)),
            format!("Pass the number of elements that the vectors have, at most {most}: {example}."),
        ),
    };
    let (document, path) = (args.bytes(0), args.bytes(1));
    accept(args.with_kept(|known: &mut KnownPath| {
        known.of(&path, dimensions, metric).vectors(bson::document(&document))
    }))
}

pg_function! {
    /// `treedb.vector_at(document, path, dimensions)`: the vector at a path of a document, or several, as an array of two
    /// dimensions; NULL if there is none of so many dimensions whose elements an index can have. So an index over this takes
    /// every document. One of more dimensions than an index takes of `real[]` can be indexed as pgvector's `halfvec`.
    fn treedb_vector_at(args: [Varlena, Varlena, Int4]) -> Option<Varlena<'_>> {
        // Whatever is finite has a Euclidean distance.
        let vectors = vectors_at(args, Metric::L2, MOST_HALVES, "vector_at(doc, 'embedding', 384)");
        let array = match vectors.len() {
            0 => return None,
            1 => array(vectors.elements()),
            count => array_of_several(vectors.elements(), count),
        };
        Some(args.memory().varlena(&array))
    }
}

pg_function! {
    /// `treedb.bits_at(document, path, bits)`: the vector of so many bits at a path of a document; NULL if there is none, or if there are
    /// several.
    fn treedb_bits_at(args: [Varlena, Varlena, Int4]) -> Option<Varlena<'_>> {
        let vectors = vectors_at(args, Metric::Hamming, MOST_BITS, "bits_at(doc, 'hash', 64)");
        (!vectors.is_empty()).then(|| args.memory().varlena(&bit_string(vectors.elements())))
    }
}
