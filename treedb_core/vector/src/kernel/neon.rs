//! The sums with the vector instructions of 64-bit ARM: NEON, which every such processor has, and the dot-product
//! instructions of ARMv8.2, which have to be asked for.
//!
//! Only what the compiler does not find by itself is here. As NEON is part of the target, the portable code of the other
//! kernels, which count bits or go from element to element, is compiled to it already.

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

use super::portable::{self, apart_each, from_f16_each};
use super::{Kernels, Packed};

const NEON: Kernels = Kernels {
    name: "neon",
    // SAFETY: `available` offers this value only where the processor has the instructions.
    dot: |a, b| unsafe { base::dot(a, b) },
    // SAFETY: as above.
    squares: |a, b| unsafe { base::squares(a, b) },
    // SAFETY: as above.
    differences: |a, b| unsafe { base::differences(a, b) },
    // SAFETY: as above.
    codes: |a, b| unsafe { base::codes(a, b) },
    // SAFETY: as above.
    codes_of: |all, b, out| unsafe { base::codes_of(all, b, out) },
    // SAFETY: as above.
    apart: |a, b| unsafe { base::apart(a, b) },
    // SAFETY: as above.
    from_f16: |halves, out| unsafe { base::from_f16(halves, out) },
    // SAFETY: as above.
    planes: |records, packed, numbers, out| unsafe { base::planes(records, packed, numbers, out) },
    // SAFETY: as above.
    few_bits: |bits, plane, numbers| unsafe { base::few_bits(bits, plane, numbers) },
    ..portable::KERNELS
};

const DOTPROD: Kernels = Kernels {
    name: "dotprod",
    // SAFETY: as for `NEON`.
    codes: |a, b| unsafe { dotprod::codes(a, b) },
    // SAFETY: as above.
    codes_of: |all, b, out| unsafe { dotprod::codes_of(all, b, out) },
    // SAFETY: as above.
    planes: |records, packed, numbers, out| unsafe { dotprod::planes(records, packed, numbers, out) },
    // SAFETY: as above.
    few_bits: |bits, plane, numbers| unsafe { dotprod::few_bits(bits, plane, numbers) },
    ..NEON
};

/// The kernels that this processor can run, the fastest first.
pub(super) fn available() -> Vec<Kernels> {
    let mut all = Vec::new();
    if is_aarch64_feature_detected!("neon") {
        if is_aarch64_feature_detected!("dotprod") {
            all.push(DOTPROD);
        }
        all.push(NEON);
    }
    all
}

#[inline]
#[target_feature(enable = "neon")]
fn load(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: 16 bytes.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load_numbers(numbers: &[i8; 16]) -> int8x16_t {
    // SAFETY: 16 bytes.
    unsafe { vld1q_s8(numbers.as_ptr()) }
}

/// The two slices up to the end of the shorter one: in pieces of 16, and the rest.
#[inline(always)]
#[allow(clippy::type_complexity, reason = "what `as_chunks` returns, twice")]
fn pieces<'s>(a: &'s [u8], b: &'s [u8]) -> ((&'s [[u8; 16]], &'s [u8]), (&'s [[u8; 16]], &'s [u8])) {
    let len = a.len().min(b.len());
    (a.get(..len).unwrap_or(a).as_chunks(), b.get(..len).unwrap_or(b).as_chunks())
}

/// Of each plane, which is to be multiplied by 2 to the power of its number: pieces of 64 bits, and the bits that are left, filled up
/// with zeros.
#[inline(always)]
fn each_plane(bits: &[u8], plane: usize) -> impl Iterator<Item = (usize, &[[u8; 8]], u64)> {
    bits.chunks_exact(plane.max(1)).enumerate().map(|(place, bits)| {
        let (whole, last) = bits.as_chunks();
        (place, whole, last.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    })
}

/// For each of 64 bits a byte, which has all its bits set where that bit is.
#[inline]
#[target_feature(enable = "neon")]
fn spread(set: u64) -> [uint8x16_t; 4] {
    // Of each byte's bit: in which byte of `set` it is, and what it is worth there.
    const PLACES: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
    const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    let (places, bits) = (load(&PLACES), load(&BITS));
    let set = vreinterpretq_u8_u64(vdupq_n_u64(set));
    let part = |first| vtstq_u8(vqtbl1q_u8(set, vaddq_u8(places, vdupq_n_u8(first))), bits);
    [part(0), part(2), part(4), part(6)]
}

mod base {
    use super::*;

    macro_rules! sum_of_floats {
        ($name:ident, |$sum:ident, $a:ident, $b:ident| $step:expr, |$x:ident, $y:ident| $term:expr) => {
            #[target_feature(enable = "neon")]
            pub(super) fn $name(a: &[f32], b: &[f32]) -> f32 {
                let len = a.len().min(b.len());
                let (a, b) = (a.get(..len).unwrap_or(a), b.get(..len).unwrap_or(b));
                let ((a_lanes, a_rest), (b_lanes, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
                // As many as the processor adds at the same time.
                let mut sums = [vdupq_n_f32(0.0); 4];
                for (a, b) in a_lanes.iter().zip(b_lanes) {
                    let quarters = a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0);
                    for (sum, (a, b)) in sums.iter_mut().zip(quarters) {
                        // SAFETY: both have four floats.
                        let ($a, $b) = unsafe { (vld1q_f32(a.as_ptr()), vld1q_f32(b.as_ptr())) };
                        let $sum = *sum;
                        *sum = $step;
                    }
                }
                let [first, second, third, fourth] = sums;
                let sum = vaddq_f32(vaddq_f32(first, second), vaddq_f32(third, fourth));
                vaddvq_f32(sum) + a_rest.iter().zip(b_rest).map(|($x, $y)| $term).sum::<f32>()
            }
        };
    }

    sum_of_floats!(dot, |sum, a, b| vfmaq_f32(sum, a, b), |x, y| x * y);
    sum_of_floats!(
        squares,
        |sum, a, b| {
            let difference = vsubq_f32(a, b);
            vfmaq_f32(sum, difference, difference)
        },
        |x, y| (x - y) * (x - y)
    );
    sum_of_floats!(differences, |sum, a, b| vaddq_f32(sum, vabdq_f32(a, b)), |x, y| (x - y).abs());

    #[target_feature(enable = "neon")]
    pub(super) fn codes(a: &[u8], b: &[u8]) -> i32 {
        let ((a, a_rest), (b, b_rest)) = pieces(a, b);
        // The second codes as they are stored; 128 times the first ones is too much then. A sum may wrap, the difference of both
        // does not.
        let (mut products, mut firsts) = (vdupq_n_u32(0), vdupq_n_u32(0));
        for (a, b) in a.iter().zip(b) {
            let (x, y) = (load(a), load(b));
            products = vpadalq_u16(products, vmull_u8(vget_low_u8(x), vget_low_u8(y)));
            products = vpadalq_u16(products, vmull_high_u8(x, y));
            firsts = vpadalq_u16(firsts, vpaddlq_u8(x));
        }
        let sum = vsubq_u32(products, vshlq_n_u32::<7>(firsts));
        vaddvq_u32(sum).cast_signed() + portable::codes(a_rest, b_rest)
    }

    #[target_feature(enable = "neon")]
    pub(super) fn codes_of(all: &[&[u8]], b: &[u8], out: &mut [i32]) {
        out.iter_mut().zip(all).for_each(|(out, a)| *out = codes(a, b));
    }

    /// Pieces of 16 bytes whose differences are added in 16 bits, two at a time.
    const SUMMED: usize = u16::MAX as usize / (2 * 255);

    #[target_feature(enable = "neon")]
    pub(super) fn apart(a: &[u8], b: &[u8]) -> u32 {
        let ((a, a_rest), (b, b_rest)) = pieces(a, b);
        let mut sum = vdupq_n_u32(0);
        for (a, b) in a.chunks(SUMMED).zip(b.chunks(SUMMED)) {
            let mut pairs = vdupq_n_u16(0);
            for (a, b) in a.iter().zip(b) {
                pairs = vpadalq_u8(pairs, vabdq_u8(load(a), load(b)));
            }
            sum = vpadalq_u16(sum, pairs);
        }
        vaddvq_u32(sum) + apart_each(a_rest, b_rest)
    }

    #[target_feature(enable = "neon")]
    pub(super) fn from_f16(halves: &[u16], out: &mut [f32]) {
        let len = halves.len().min(out.len());
        let (Some(halves), Some(out)) = (halves.get(..len), out.get_mut(..len)) else { return };
        let ((pieces, rest), (wide, wide_rest)) = (halves.as_chunks::<4>(), out.as_chunks_mut::<4>());
        for (halves, out) in pieces.iter().zip(wide) {
            // SAFETY: four numbers are read, four written.
            unsafe {
                let halves = vreinterpret_f16_u16(vld1_u16(halves.as_ptr()));
                vst1q_f32(out.as_mut_ptr(), vcvt_f32_f16(halves));
            }
        }
        from_f16_each(rest, wide_rest);
    }

    #[target_feature(enable = "neon")]
    pub(super) fn planes(records: &[u8], packed: Packed, numbers: &[i8], out: &mut Vec<i32>) {
        for bits in packed.records(records) {
            out.push(few_bits(bits, packed.plane, numbers));
        }
    }

    /// Pieces of 64 numbers that are added in 16 bits, two at a time: at most 128 times 254.
    const PIECES: usize = 32;

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn few_bits(bits: &[u8], plane: usize, numbers: &[i8]) -> i32 {
        let numbers = numbers.as_chunks::<64>().0;
        let mut total = 0;
        for (place, whole, last) in each_plane(bits, plane) {
            let mut sum = vdupq_n_s32(0);
            for (words, numbers) in whole.chunks(PIECES).zip(numbers.chunks(PIECES)) {
                let mut pairs = vdupq_n_s16(0);
                for (word, numbers) in words.iter().zip(numbers) {
                    pairs = add_set(pairs, u64::from_le_bytes(*word), numbers);
                }
                sum = vpadalq_s16(sum, pairs);
            }
            if let Some(numbers) = numbers.get(whole.len()) {
                sum = vpadalq_s16(sum, add_set(vdupq_n_s16(0), last, numbers));
            }
            total += vaddvq_s32(sum) << place;
        }
        total
    }

    /// Adds those of 64 numbers whose bit is set, in pairs.
    #[inline]
    #[target_feature(enable = "neon")]
    fn add_set(mut pairs: int16x8_t, set: u64, numbers: &[i8; 64]) -> int16x8_t {
        for (is_set, numbers) in spread(set).into_iter().zip(numbers.as_chunks::<16>().0) {
            pairs = vpadalq_s8(pairs, vandq_s8(vreinterpretq_s8_u8(is_set), load_numbers(numbers)));
        }
        pairs
    }
}

mod dotprod {
    use super::*;

    /// Adds the sums of four products each of numbers from 0 to 255. By name, as the library has no stable function for it.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    fn add_products(mut sum: uint32x4_t, a: uint8x16_t, b: uint8x16_t) -> uint32x4_t {
        // SAFETY: the instruction, which the caller may use, changes nothing but the register of the sum.
        unsafe {
            asm!(
                "udot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
                sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sum
    }

    /// The same of numbers from -128 to 127.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    fn add_signed_products(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: as above.
        unsafe {
            asm!(
                "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
                sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sum
    }

    #[target_feature(enable = "neon,dotprod")]
    pub(super) fn codes(a: &[u8], b: &[u8]) -> i32 {
        let ((a, a_rest), (b, b_rest)) = pieces(a, b);
        // As in `base::codes`.
        let (mut products, mut firsts, excess) = (vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u8(128));
        for (a, b) in a.iter().zip(b) {
            let x = load(a);
            products = add_products(products, x, load(b));
            firsts = add_products(firsts, x, excess);
        }
        vaddvq_u32(vsubq_u32(products, firsts)).cast_signed() + portable::codes(a_rest, b_rest)
    }

    #[target_feature(enable = "neon,dotprod")]
    pub(super) fn codes_of(all: &[&[u8]], b: &[u8], out: &mut [i32]) {
        for (some, out) in all.chunks(4).zip(out.chunks_mut(4)) {
            match (some, &mut *out) {
                ([first, second, third, fourth], [_, _, _, _]) if some.iter().all(|a| a.len() >= b.len()) => {
                    out.copy_from_slice(&codes_of_four([first, second, third, fourth], b));
                }
                _ => out.iter_mut().zip(some).for_each(|(out, a)| *out = codes(a, b)),
            }
        }
    }

    /// The sums for four slices at once, none of which is shorter than `b`, which is loaded once.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    fn codes_of_four(all: [&[u8]; 4], b: &[u8]) -> [i32; 4] {
        let len = all.iter().fold(b.len(), |len, a| len.min(a.len()));
        let (b, b_rest) = b.get(..len).unwrap_or(b).as_chunks::<16>();
        let all = all.map(|a| a.get(..len).unwrap_or(a).as_chunks::<16>());
        // As in `base::codes`.
        let excess = vdupq_n_u8(128);
        let mut sums = [(vdupq_n_u32(0), vdupq_n_u32(0)); 4];
        for (at, b) in b.iter().enumerate() {
            let y = load(b);
            for ((products, firsts), (a, _)) in sums.iter_mut().zip(all) {
                let Some(a) = a.get(at) else { continue };
                let x = load(a);
                *products = add_products(*products, x, y);
                *firsts = add_products(*firsts, x, excess);
            }
        }
        let mut out = [0; 4];
        for ((out, (products, firsts)), (_, rest)) in out.iter_mut().zip(sums).zip(all) {
            *out = vaddvq_u32(vsubq_u32(products, firsts)).cast_signed() + portable::codes(rest, b_rest);
        }
        out
    }

    #[target_feature(enable = "neon,dotprod")]
    pub(super) fn planes(records: &[u8], packed: Packed, numbers: &[i8], out: &mut Vec<i32>) {
        for bits in packed.records(records) {
            out.push(few_bits(bits, packed.plane, numbers));
        }
    }

    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    pub(super) fn few_bits(bits: &[u8], plane: usize, numbers: &[i8]) -> i32 {
        let numbers = numbers.as_chunks::<64>().0;
        let mut total = 0;
        for (place, whole, last) in each_plane(bits, plane) {
            let mut sums = [vdupq_n_s32(0); 4];
            for (word, numbers) in whole.iter().zip(numbers) {
                subtract_set(&mut sums, u64::from_le_bytes(*word), numbers);
            }
            if let Some(numbers) = numbers.get(whole.len()) {
                subtract_set(&mut sums, last, numbers);
            }
            let [first, second, third, fourth] = sums;
            let sum = vaddq_s32(vaddq_s32(first, second), vaddq_s32(third, fourth));
            total -= vaddvq_s32(sum) << place;
        }
        total
    }

    /// Subtracts those of 64 numbers whose bit is set: a byte that has all its bits set is -1.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    fn subtract_set(sums: &mut [int32x4_t; 4], set: u64, numbers: &[i8; 64]) {
        let parts = spread(set).into_iter().zip(numbers.as_chunks::<16>().0);
        for (sum, (is_set, numbers)) in sums.iter_mut().zip(parts) {
            *sum = add_signed_products(*sum, vreinterpretq_s8_u8(is_set), load_numbers(numbers));
        }
    }
}
