//! The sums with the vector instructions of x86-64.

use std::arch::x86_64::*;

use super::portable::{
    apart_each, count_each, encode_each, from_bf16_each, from_f16_each, round_each, unpack_each,
};
use super::{Kernels, Packed};
use crate::neighbour::{Form, Rotation, Rounding};

/// The kernels of a module, whose instructions the processor has.
macro_rules! kernels {
    ($name:ident) => {
        Kernels {
            name: stringify!($name),
            // SAFETY: this value is made only where the processor has the instructions, and nothing else calls these.
            dot: |a, b| unsafe { $name::dot(a, b) },
            // SAFETY: as above.
            squares: |a, b| unsafe { $name::squares(a, b) },
            // SAFETY: as above.
            differences: |a, b| unsafe { $name::differences(a, b) },
            // SAFETY: as above.
            codes: |a, b| unsafe { $name::codes(a, b) },
            // SAFETY: as above.
            codes_of: |all, b, out| unsafe { $name::codes_of(all, b, out) },
            // SAFETY: as above.
            differing: |a, b| unsafe { $name::differing(a, b) },
            // SAFETY: as above.
            common: |a, b| unsafe { $name::common(a, b) },
            // SAFETY: as above.
            unpack: |codes, rest, scale, out| unsafe { $name::unpack(codes, rest, scale, out) },
            // SAFETY: as above.
            encode: |vector, codes| unsafe { $name::encode(vector, codes) },
            // SAFETY: as above.
            apart: |a, b| unsafe { $name::apart(a, b) },
            // SAFETY: as above.
            from_f16: |halves, out| unsafe { $name::from_f16(halves, out) },
            // SAFETY: as above.
            from_bf16: |halves, out| unsafe { $name::from_bf16(halves, out) },
            // SAFETY: as above.
            planes: |records, packed, numbers, out| unsafe { $name::planes(records, packed, numbers, out) },
            // SAFETY: as above.
            few_bits: |bits, plane, numbers| unsafe { $name::few_bits(bits, plane, numbers) },
            // SAFETY: as above.
            round: |floats, numbers| unsafe { $name::round(floats, numbers) },
            // SAFETY: as above.
            rotate: |rotation, vector| unsafe { $name::rotate(rotation, vector) },
            // SAFETY: as above.
            code: |form, rotated, own, bits| unsafe { $name::code(form, rotated, own, bits) },
        }
    };
}

/// The kernels that this processor can run, the fastest first.
pub(super) fn available() -> Vec<Kernels> {
    let mut all = Vec::new();
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("popcnt");
    if avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni")
    {
        let kernels = kernels!(avx512);
        all.push(match is_x86_feature_detected!("avx512vpopcntdq") {
            true => kernels,
            // The first processors with these instructions count no bits in them.
            false => {
                let Kernels { differing, common, .. } = kernels!(avx2);
                Kernels { differing, common, ..kernels }
            }
        });
    }
    if avx2 {
        all.push(kernels!(avx2));
    }
    all
}

mod avx512 {
    use super::*;

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn encode(vector: &[f32], codes: &mut [u8]) -> (f32, i32, i64) {
        encode_each(vector, codes)
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn unpack(codes: &[u8], rest: &[u8], scale: f32, out: &mut [f32]) {
        unpack_each(codes, rest, scale, out);
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn apart(a: &[u8], b: &[u8]) -> u32 {
        apart_each(a, b)
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn from_f16(halves: &[u16], out: &mut [f32]) {
        from_f16_each(halves, out);
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn from_bf16(halves: &[u16], out: &mut [f32]) {
        from_bf16_each(halves, out);
    }

    /// A mask of the first `count` of 16 lanes.
    fn first16(count: usize) -> __mmask16 {
        ((1_u32 << count.min(16)) - 1) as __mmask16
    }

    /// A mask of the first `count` of 64 lanes.
    fn first64(count: usize) -> __mmask64 {
        if count >= 64 { u64::MAX } else { (1 << count) - 1 }
    }

    macro_rules! sum_of_floats {
        ($name:ident, |$sum:ident, $a:ident, $b:ident| $step:expr) => {
            #[target_feature(enable = "avx512f")]
            pub(super) fn $name(a: &[f32], b: &[f32]) -> f32 {
                let len = a.len().min(b.len());
                let (mut even, mut odd) = (_mm512_setzero_ps(), _mm512_setzero_ps());
                let mut i = 0;
                while i + 32 <= len {
                    // SAFETY: there are 32 floats from `i` on in both.
                    unsafe {
                        let ($a, $b) =
                            (_mm512_loadu_ps(a.as_ptr().add(i)), _mm512_loadu_ps(b.as_ptr().add(i)));
                        let $sum = even;
                        even = $step;
                        let ($a, $b) = (
                            _mm512_loadu_ps(a.as_ptr().add(i + 16)),
                            _mm512_loadu_ps(b.as_ptr().add(i + 16)),
                        );
                        let $sum = odd;
                        odd = $step;
                    }
                    i += 32;
                }
                while i < len {
                    let mask = first16(len - i);
                    // SAFETY: the mask keeps the loads within both slices, which are at least `len` long.
                    let ($a, $b) = unsafe {
                        (
                            _mm512_maskz_loadu_ps(mask, a.as_ptr().add(i)),
                            _mm512_maskz_loadu_ps(mask, b.as_ptr().add(i)),
                        )
                    };
                    let $sum = even;
                    even = $step;
                    i += 16;
                }
                _mm512_reduce_add_ps(_mm512_add_ps(even, odd))
            }
        };
    }

    sum_of_floats!(dot, |sum, a, b| _mm512_fmadd_ps(a, b, sum));
    sum_of_floats!(squares, |sum, a, b| {
        let difference = _mm512_sub_ps(a, b);
        _mm512_fmadd_ps(difference, difference, sum)
    });
    sum_of_floats!(differences, |sum, a, b| _mm512_add_ps(sum, _mm512_abs_ps(_mm512_sub_ps(a, b))));

    macro_rules! count_of_bits {
        ($name:ident, $combine:ident) => {
            #[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq")]
            pub(super) fn $name(a: &[u8], b: &[u8]) -> u32 {
                let len = a.len().min(b.len());
                let mut sum = _mm512_setzero_si512();
                for i in (0..len).step_by(64) {
                    let mask = first64(len - i);
                    // SAFETY: the mask keeps the loads within both slices, which are at least `len` long.
                    let (x, y) = unsafe {
                        (
                            _mm512_maskz_loadu_epi8(mask, a.as_ptr().add(i).cast()),
                            _mm512_maskz_loadu_epi8(mask, b.as_ptr().add(i).cast()),
                        )
                    };
                    sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64($combine(x, y)));
                }
                _mm512_reduce_add_epi64(sum) as u32
            }
        };
    }

    count_of_bits!(differing, _mm512_xor_si512);
    count_of_bits!(common, _mm512_and_si512);

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn codes(a: &[u8], b: &[u8]) -> i32 {
        let len = a.len().min(b.len());
        let high = _mm512_set1_epi8(-128);
        let (mut even, mut odd) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        let mut i = 0;
        while i + 128 <= len {
            // SAFETY: there are 128 bytes from `i` on in both.
            unsafe {
                let (x, y) = (a.as_ptr().add(i), b.as_ptr().add(i));
                let first = _mm512_xor_si512(_mm512_loadu_si512(y.cast()), high);
                even = _mm512_dpbusd_epi32(even, _mm512_loadu_si512(x.cast()), first);
                let second = _mm512_xor_si512(_mm512_loadu_si512(y.add(64).cast()), high);
                odd = _mm512_dpbusd_epi32(odd, _mm512_loadu_si512(x.add(64).cast()), second);
            }
            i += 128;
        }
        while i < len {
            let mask = first64(len - i);
            // SAFETY: the mask keeps the loads within both slices, which are at least `len` long.
            let (x, y) = unsafe {
                (
                    _mm512_maskz_loadu_epi8(mask, a.as_ptr().add(i).cast()),
                    _mm512_maskz_loadu_epi8(mask, b.as_ptr().add(i).cast()),
                )
            };
            // Lanes beyond the end are 0 in `x`, so what they are in `y` does not matter.
            even = _mm512_dpbusd_epi32(even, x, _mm512_xor_si512(y, high));
            i += 64;
        }
        _mm512_reduce_add_epi32(_mm512_add_epi32(even, odd))
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn codes_of(all: &[&[u8]], b: &[u8], out: &mut [i32]) {
        for (some, out) in all.chunks(4).zip(out.chunks_mut(4)) {
            match some {
                // Three take no longer as four.
                [first, second, third, others @ ..] if some.iter().all(|a| a.len() >= b.len()) => {
                    let fourth = others.first().unwrap_or(third);
                    let sums = codes_of_four([first, second, third, fourth], b);
                    out.iter_mut().zip(sums).take(some.len()).for_each(|(out, sum)| *out = sum);
                }
                _ => out.iter_mut().zip(some).for_each(|(out, a)| *out = codes(a, b)),
            }
        }
    }

    /// The sums for four slices at once, none of which is shorter than `b`: what they are compared with is loaded once, and the lanes
    /// are added for all four together.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn codes_of_four(all: [&[u8]; 4], b: &[u8]) -> [i32; 4] {
        let len = all.iter().fold(b.len(), |len, a| len.min(a.len()));
        let high = _mm512_set1_epi8(-128);
        let mut sums = [_mm512_setzero_si512(); 4];
        let mut i = 0;
        while i + 64 <= len {
            // SAFETY: there are 64 bytes from `i` on in all of them.
            unsafe {
                let y = _mm512_xor_si512(_mm512_loadu_si512(b.as_ptr().add(i).cast()), high);
                for (sum, a) in sums.iter_mut().zip(all) {
                    *sum = _mm512_dpbusd_epi32(*sum, _mm512_loadu_si512(a.as_ptr().add(i).cast()), y);
                }
            }
            i += 64;
        }
        if i < len {
            let mask = first64(len - i);
            // SAFETY: the mask keeps the loads within the slices, which are at least `len` long.
            unsafe {
                // Lanes beyond the end are 0 in `x`, so what they are in `y` does not matter.
                let y = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, b.as_ptr().add(i).cast()), high);
                for (sum, a) in sums.iter_mut().zip(all) {
                    let x = _mm512_maskz_loadu_epi8(mask, a.as_ptr().add(i).cast());
                    *sum = _mm512_dpbusd_epi32(*sum, x, y);
                }
            }
        }
        totals(sums)
    }

    /// The sum of the lanes of each.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn totals(sums: [__m512i; 4]) -> [i32; 4] {
        // In each quarter of the register: two sums of both, then all sums of all four.
        let pairs = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let [first, second, third, fourth] = sums;
        let (low, high) = (pairs(first, second), pairs(third, fourth));
        let quarters = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
        let halves =
            _mm256_add_epi32(_mm512_castsi512_si256(quarters), _mm512_extracti64x4_epi64::<1>(quarters));
        let whole = _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
        let mut out = [0; 4];
        // SAFETY: 16 bytes.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), whole) };
        out
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn planes(records: &[u8], packed: Packed, numbers: &[i8], out: &mut Vec<i32>) {
        let mut bits = packed.records(records);
        while let Some(first) = bits.next() {
            let mut sums = [_mm512_setzero_si512(); 4];
            let mut count = 0;
            for (sum, bits) in sums.iter_mut().zip(std::iter::once(first).chain(&mut bits)) {
                *sum = lanes_of_few_bits(bits, packed.plane, numbers);
                count += 1;
            }
            let totals = totals(sums);
            out.extend_from_slice(totals.get(..count).unwrap_or(&totals));
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn few_bits(bits: &[u8], plane: usize, numbers: &[i8]) -> i32 {
        _mm512_reduce_add_epi32(lanes_of_few_bits(bits, plane, numbers))
    }

    /// The sum, still in lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn lanes_of_few_bits(bits: &[u8], plane: usize, numbers: &[i8]) -> __m512i {
        let numbers = numbers.as_chunks::<64>().0;
        let mut sum = _mm512_setzero_si512();
        let (mut rest, mut times) = (bits, 1);
        while plane > 0
            && let Some((bits, after)) = rest.split_at_checked(plane)
        {
            let (whole, last) = bits.as_chunks::<8>();
            for (word, numbers) in whole.iter().zip(numbers) {
                sum = add_set(sum, u64::from_le_bytes(*word), times, numbers);
            }
            if !last.is_empty()
                && let Some(numbers) = numbers.get(whole.len())
            {
                let word = last.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
                sum = add_set(sum, word, times, numbers);
            }
            (rest, times) = (after, times << 1);
        }
        sum
    }

    /// Adds those of 64 numbers whose bit is set, times `times`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn add_set(sum: __m512i, set: u64, times: i8, numbers: &[i8; 64]) -> __m512i {
        // SAFETY: 64 bytes.
        let numbers = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
        _mm512_dpbusd_epi32(sum, _mm512_maskz_set1_epi8(set, times), numbers)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn round(floats: &[f32], numbers: &mut [i8]) -> (f32, i32) {
        round_each(floats, numbers)
    }

    // Without instructions that round once where the others round twice.
    #[target_feature(enable = "avx512f")]
    pub(super) fn rotate(rotation: &Rotation, vector: &mut [f32]) {
        rotation.rotate_inline(vector);
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn code(form: Form, rotated: &[f32], own: &[f32], bits: &mut [u8]) -> Rounding {
        form.encode_inline(rotated, own, bits)
    }
}

mod avx2 {
    use super::*;

    #[target_feature(enable = "avx2")]
    pub(super) fn encode(vector: &[f32], codes: &mut [u8]) -> (f32, i32, i64) {
        encode_each(vector, codes)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn unpack(codes: &[u8], rest: &[u8], scale: f32, out: &mut [f32]) {
        unpack_each(codes, rest, scale, out);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn apart(a: &[u8], b: &[u8]) -> u32 {
        apart_each(a, b)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn from_f16(halves: &[u16], out: &mut [f32]) {
        from_f16_each(halves, out);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn from_bf16(halves: &[u16], out: &mut [f32]) {
        from_bf16_each(halves, out);
    }

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn differing(a: &[u8], b: &[u8]) -> u32 {
        count_each(a, b, |a, b| a ^ b)
    }

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn common(a: &[u8], b: &[u8]) -> u32 {
        count_each(a, b, |a, b| a & b)
    }

    #[target_feature(enable = "avx2")]
    fn total(sum: __m256) -> f32 {
        let half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
        let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
        _mm_cvtss_f32(_mm_add_ss(quarter, _mm_shuffle_ps::<1>(quarter, quarter)))
    }

    macro_rules! sum_of_floats {
        ($name:ident, |$sum:ident, $a:ident, $b:ident| $step:expr, |$x:ident, $y:ident| $term:expr) => {
            #[target_feature(enable = "avx2,fma")]
            pub(super) fn $name(a: &[f32], b: &[f32]) -> f32 {
                let ((a_lanes, a_rest), (b_lanes, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
                let (mut even, mut odd) = (_mm256_setzero_ps(), _mm256_setzero_ps());
                for (a, b) in a_lanes.iter().zip(b_lanes) {
                    // SAFETY: both have eight floats.
                    let ($a, $b) = unsafe { (_mm256_loadu_ps(a.as_ptr()), _mm256_loadu_ps(b.as_ptr())) };
                    let $sum = even;
                    // The two sums take turns.
                    (even, odd) = (odd, $step);
                }
                // Where one slice is longer, its rest stands beside whole lanes of the other.
                let len = a.len().min(b.len());
                let whole = len - len % 8;
                let rest =
                    a.get(whole..len).unwrap_or(a_rest).iter().zip(b.get(whole..len).unwrap_or(b_rest));
                total(_mm256_add_ps(even, odd)) + rest.map(|($x, $y)| $term).sum::<f32>()
            }
        };
    }

    sum_of_floats!(dot, |sum, a, b| _mm256_fmadd_ps(a, b, sum), |x, y| x * y);
    sum_of_floats!(
        squares,
        |sum, a, b| {
            let difference = _mm256_sub_ps(a, b);
            _mm256_fmadd_ps(difference, difference, sum)
        },
        |x, y| (x - y) * (x - y)
    );
    sum_of_floats!(
        differences,
        |sum, a, b| {
            let sign = _mm256_set1_ps(-0.0);
            _mm256_add_ps(sum, _mm256_andnot_ps(sign, _mm256_sub_ps(a, b)))
        },
        |x, y| (x - y).abs()
    );

    #[target_feature(enable = "avx2")]
    pub(super) fn codes(a: &[u8], b: &[u8]) -> i32 {
        let len = a.len().min(b.len());
        let high = _mm_set1_epi8(-128);
        let mut sum = _mm256_setzero_si256();
        for (a, b) in a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0) {
            // SAFETY: both have 16 bytes.
            let (x, y) = unsafe { (_mm_loadu_si128(a.as_ptr().cast()), _mm_loadu_si128(b.as_ptr().cast())) };
            // In 16 bits: products of 8-bit numbers added in pairs would not fit these.
            let (x, y) = (_mm256_cvtepu8_epi16(x), _mm256_cvtepi8_epi16(_mm_xor_si128(y, high)));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, y));
        }
        let whole = len - len % 16;
        let rest = a.get(whole..len).unwrap_or(&[]).iter().zip(b.get(whole..len).unwrap_or(&[]));
        total_of_integers(sum) + rest.map(|(x, y)| i32::from(*x) * (i32::from(*y) - 128)).sum::<i32>()
    }

    #[target_feature(enable = "avx2")]
    fn total_of_integers(sum: __m256i) -> i32 {
        let half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let quarter = _mm_add_epi32(half, _mm_shuffle_epi32::<0b1110>(half));
        _mm_cvtsi128_si32(_mm_add_epi32(quarter, _mm_shuffle_epi32::<1>(quarter)))
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn codes_of(all: &[&[u8]], b: &[u8], out: &mut [i32]) {
        out.iter_mut().zip(all).for_each(|(out, a)| *out = codes(a, b));
    }

    /// Words whose numbers are added in 16 bits, two at a time: at most 64 times 254.
    const WORDS: usize = 64;

    #[target_feature(enable = "avx2")]
    pub(super) fn planes(records: &[u8], packed: Packed, numbers: &[i8], out: &mut Vec<i32>) {
        for bits in packed.records(records) {
            out.push(few_bits(bits, packed.plane, numbers));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn few_bits(bits: &[u8], plane: usize, numbers: &[i8]) -> i32 {
        let (words, rest) = (plane / 4, plane % 4);
        let numbers = numbers.as_chunks::<32>().0;
        let (zero, one) = (_mm256_setzero_si256(), _mm256_set1_epi16(1));
        let mut sum = zero;
        for (place, bits) in bits.chunks_exact(plane.max(1)).enumerate() {
            let (whole, last) = bits.as_chunks::<4>();
            let mut plane = zero;
            for (words, numbers) in whole.chunks(WORDS).zip(numbers.chunks(WORDS)) {
                let mut pairs = zero;
                for (word, numbers) in words.iter().zip(numbers) {
                    pairs = add_set(pairs, u32::from_le_bytes(*word), numbers);
                }
                plane = _mm256_add_epi32(plane, _mm256_madd_epi16(pairs, one));
            }
            if rest > 0
                && let Some(numbers) = numbers.get(words)
            {
                let word = last.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
                plane = _mm256_add_epi32(plane, _mm256_madd_epi16(add_set(zero, word, numbers), one));
            }
            sum = _mm256_add_epi32(sum, _mm256_sll_epi32(plane, _mm_cvtsi32_si128(place as i32)));
        }
        total_of_integers(sum)
    }

    /// Adds those of 32 numbers whose bit is set, in pairs.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add_set(sum: __m256i, set: u32, numbers: &[i8; 32]) -> __m256i {
        // SAFETY: 32 bytes.
        let numbers = unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) };
        // In each byte the one that its bit is in, then that bit, then all bits if it is set.
        let (first, second) = (0, 0x0101_0101_0101_0101);
        let places = _mm256_setr_epi64x(first, second, 2 * second, 3 * second);
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(set.cast_signed()), places);
        let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
        let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_and_si256(is_set, numbers));
        _mm256_add_epi16(sum, pairs)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn round(floats: &[f32], numbers: &mut [i8]) -> (f32, i32) {
        round_each(floats, numbers)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn rotate(rotation: &Rotation, vector: &mut [f32]) {
        rotation.rotate_inline(vector);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn code(form: Form, rotated: &[f32], own: &[f32], bits: &mut [u8]) -> Rounding {
        form.encode_inline(rotated, own, bits)
    }
}
