//! The sums in plain Rust, in lanes that the compiler can keep in vector registers.

use super::Kernels;
use crate::neighbour::Rotation;

/// Independent sums: as many as two registers of eight floats hold.
const LANES: usize = 16;

pub(super) const KERNELS: Kernels =
    Kernels { name: "portable", dot, squares, differences, codes, bits, round, rotate };

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

fn codes(a: &[u8], b: &[u8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * (i32::from(*b) - 128)).sum()
}

/// Of 2,048 numbers from -127 to 127, each of eight sums is below 2^15.
#[inline(always)]
pub(super) fn bits(bits: &[u8], numbers: &[i8]) -> i32 {
    let mut sums = [0_i16; 8];
    for (byte, numbers) in bits.iter().zip(numbers.as_chunks::<8>().0) {
        for (at, (sum, number)) in sums.iter_mut().zip(numbers).enumerate() {
            let is_set = byte & 1 << at != 0;
            *sum += if is_set { i16::from(*number) } else { 0 };
        }
    }
    sums.iter().map(|sum| i32::from(*sum)).sum()
}

#[inline(always)]
pub(super) fn round(floats: &[f32], numbers: &mut [i8]) -> (f32, i32) {
    let greatest = floats.iter().fold(0.0_f32, |greatest, float| greatest.max(float.abs()));
    let scale = greatest / 127.0;
    // Of a tiny scale this is infinite, and products with it are; their integers are in range again.
    let times = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let mut sum = 0;
    for (number, float) in numbers.iter_mut().zip(floats) {
        let scaled = (float * times).clamp(-127.0, 127.0);
        *number = (scaled + 0.5_f32.copysign(scaled)) as i8;
        sum += i32::from(*number);
    }
    (scale, sum)
}

fn rotate(rotation: &Rotation, vector: &mut [f32]) {
    rotation.rotate_inline(vector);
}
