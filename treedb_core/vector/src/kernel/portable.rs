//! The sums in plain Rust, in lanes that the compiler can keep in vector registers.

use super::{Kernels, Packed};
use crate::element::{from_bf16 as wide_bf16, from_f16_finite};
use crate::neighbour::{Form, Rotation, Rounding};

/// Independent sums: as many as two registers of eight floats hold.
const LANES: usize = 16;

pub(super) const KERNELS: Kernels = Kernels {
    name: "portable",
    dot,
    squares,
    differences,
    codes,
    codes_of,
    differing,
    common,
    unpack,
    encode,
    apart,
    from_f16,
    from_bf16,
    planes,
    few_bits,
    round,
    rotate,
    code,
};

#[inline]
fn sum(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let len = a.len().min(b.len());
    let (a, b) = (a.get(..len).unwrap_or(a), b.get(..len).unwrap_or(b));
    let ((a_lanes, a_rest), (b_lanes, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += term(*a, *b);
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| term(*a, *b)).sum::<f32>()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |a, b| a * b)
}

fn squares(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |a, b| (a - b) * (a - b))
}

fn differences(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |a, b| (a - b).abs())
}

#[inline]
pub(super) fn codes(a: &[u8], b: &[u8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * (i32::from(*b) - 128)).sum()
}

fn codes_of(all: &[&[u8]], b: &[u8], out: &mut [i32]) {
    out.iter_mut().zip(all).for_each(|(out, a)| *out = codes(a, b));
}

fn differing(a: &[u8], b: &[u8]) -> u32 {
    count_each(a, b, |a, b| a ^ b)
}

fn common(a: &[u8], b: &[u8]) -> u32 {
    count_each(a, b, |a, b| a & b)
}

/// The bits that are set in what `combine` makes of two slices. Inlined as [`unpack_each`] is.
#[inline(always)]
pub(super) fn count_each(a: &[u8], b: &[u8], combine: impl Fn(u64, u64) -> u64) -> u32 {
    let len = a.len().min(b.len());
    let (a, b) = (a.get(..len).unwrap_or(a), b.get(..len).unwrap_or(b));
    let ((a_words, a_rest), (b_words, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let words =
        a_words.iter().zip(b_words).map(|(a, b)| combine(u64::from_ne_bytes(*a), u64::from_ne_bytes(*b)));
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| combine(u64::from(*a), u64::from(*b)));
    words.chain(rest).map(u64::count_ones).sum()
}

fn unpack(codes: &[u8], rest: &[u8], scale: f32, out: &mut [f32]) {
    unpack_each(codes, rest, scale, out);
}

/// Inlined into its callers, so that the compiler vectorizes the loop with the instructions that each caller enables.
#[inline(always)]
pub(super) fn unpack_each(codes: &[u8], rest: &[u8], scale: f32, out: &mut [f32]) {
    for ((code, rest), out) in codes.iter().zip(rest.as_chunks().0).zip(out) {
        let number =
            (i32::from(*code) << 16) + i32::from(u16::from_le_bytes(*rest)) - ((128 << 16) + (1 << 15));
        *out = number as f32 * scale;
    }
}

fn encode(vector: &[f32], codes: &mut [u8]) -> (f32, i32, i64) {
    encode_each(vector, codes)
}

/// As [`unpack_each`].
#[inline(always)]
pub(super) fn encode_each(vector: &[f32], codes: &mut [u8]) -> (f32, i32, i64) {
    let (lanes, rest) = vector.as_chunks::<LANES>();
    let greater = |a: f32, b: f32| if b > a { b } else { a };
    let mut greatest = [0.0_f32; LANES];
    for elements in lanes {
        greatest.iter_mut().zip(elements).for_each(|(most, element)| *most = greater(*most, element.abs()));
    }
    let all = greatest.iter().copied().chain(rest.iter().map(|element| element.abs()));
    let greatest = all.fold(0.0, greater);
    // Dividing first: 127 divided by a tiny number is infinite. Of a vector of zeros this is NaN, whose integer is 0.
    let number = |element: f32| (element / greatest * 127.0).round() as i32;
    let (mut sums, mut squares) = ([0_i32; LANES], [0_i32; LANES]);
    let (code_lanes, code_rest) = codes.as_chunks_mut::<LANES>();
    for (codes, elements) in code_lanes.iter_mut().zip(lanes) {
        let places = codes.iter_mut().zip(&mut sums).zip(&mut squares);
        for (((code, sum), square), element) in places.zip(elements) {
            let number = number(*element);
            *code = (number + 128) as u8;
            *sum += number;
            *square += number * number;
        }
    }
    let (mut sum, mut square) =
        (sums.iter().sum::<i32>(), squares.iter().copied().map(i64::from).sum::<i64>());
    for (code, element) in code_rest.iter_mut().zip(rest) {
        let number = number(*element);
        *code = (number + 128) as u8;
        sum += number;
        square += i64::from(number * number);
    }
    (greatest, sum, square)
}

fn apart(a: &[u8], b: &[u8]) -> u32 {
    apart_each(a, b)
}

/// As [`unpack_each`].
#[inline(always)]
pub(super) fn apart_each(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(*b))).sum()
}

fn from_f16(halves: &[u16], out: &mut [f32]) {
    from_f16_each(halves, out);
}

/// As [`unpack_each`].
#[inline(always)]
pub(super) fn from_f16_each(halves: &[u16], out: &mut [f32]) {
    halves.iter().zip(out).for_each(|(half, out)| *out = from_f16_finite(*half));
}

fn from_bf16(halves: &[u16], out: &mut [f32]) {
    from_bf16_each(halves, out);
}

/// As [`unpack_each`].
#[inline(always)]
pub(super) fn from_bf16_each(halves: &[u16], out: &mut [f32]) {
    halves.iter().zip(out).for_each(|(half, out)| *out = wide_bf16(*half));
}

fn planes(records: &[u8], packed: Packed, numbers: &[i8], out: &mut Vec<i32>) {
    out.extend(packed.records(records).map(|bits| few_bits(bits, packed.plane, numbers)));
}

/// Bytes of a plane whose sums are of 16 bits: of 2,048 numbers from -127 to 127, each of eight sums is below 2^15.
const SUMMED: usize = 256;

fn few_bits(bits: &[u8], plane: usize, numbers: &[i8]) -> i32 {
    let mut total = 0;
    for (place, bits) in bits.chunks_exact(plane.max(1)).enumerate() {
        for (bytes, numbers) in bits.chunks(SUMMED).zip(numbers.as_chunks::<8>().0.chunks(SUMMED)) {
            let mut sums = [0_i16; 8];
            for (byte, numbers) in bytes.iter().zip(numbers) {
                for (at, (sum, number)) in sums.iter_mut().zip(numbers).enumerate() {
                    let is_set = byte & 1 << at != 0;
                    *sum += if is_set { i16::from(*number) } else { 0 };
                }
            }
            total += sums.iter().map(|sum| i32::from(*sum)).sum::<i32>() << place;
        }
    }
    total
}

fn round(floats: &[f32], numbers: &mut [i8]) -> (f32, i32) {
    round_each(floats, numbers)
}

/// As [`unpack_each`].
#[inline(always)]
pub(super) fn round_each(floats: &[f32], numbers: &mut [i8]) -> (f32, i32) {
    let (lanes, rest) = floats.as_chunks::<LANES>();
    let greater = |a: f32, b: f32| if b > a { b } else { a };
    let mut greatest = [0.0_f32; LANES];
    for floats in lanes {
        greatest.iter_mut().zip(floats).for_each(|(most, float)| *most = greater(*most, float.abs()));
    }
    let all = greatest.iter().copied().chain(rest.iter().map(|float| float.abs()));
    let scale = all.fold(0.0, greater) / 127.0;
    // Of a tiny scale this is infinite, and products with it are; their integers are in range again.
    let times = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let mut sum = 0;
    for (number, float) in numbers.iter_mut().zip(floats) {
        let scaled = (float * times).clamp(-127.0, 127.0);
        let rounded = (scaled + 0.5_f32.copysign(scaled)) as i32;
        *number = rounded as i8;
        sum += rounded;
    }
    (scale, sum)
}

fn rotate(rotation: &Rotation, vector: &mut [f32]) {
    rotation.rotate_inline(vector);
}

fn code(form: Form, rotated: &[f32], own: &[f32], bits: &mut [u8]) -> Rounding {
    form.encode_inline(rotated, own, bits)
}
