//! The sums in plain Rust, in lanes that the compiler can keep in vector registers.

use super::Kernels;

/// Independent sums: as many as two registers of eight floats hold.
const LANES: usize = 16;

pub(super) const KERNELS: Kernels = Kernels { name: "portable", dot, squares, differences, codes, unpack };

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

fn unpack(codes: &[u8], rest: &[u8], scale: f32, out: &mut [f32]) {
    unpack_each(codes, rest, scale, out);
}

/// A loop that the compiler turns into the vector instructions of whoever calls it.
#[inline(always)]
pub(super) fn unpack_each(codes: &[u8], rest: &[u8], scale: f32, out: &mut [f32]) {
    for ((code, rest), out) in codes.iter().zip(rest.as_chunks().0).zip(out) {
        let number = (i32::from(*code) << 16) + i32::from(u16::from_le_bytes(*rest)) - ((128 << 16) + (1 << 15));
        *out = number as f32 * scale;
    }
}
