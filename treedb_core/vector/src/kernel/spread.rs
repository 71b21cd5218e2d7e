//! Doubles in elements with more bytes, such as those of an array in BSON, which have a type and a name each.
//!
//! An element of `stride` bytes, 11 to 14 of an array with up to 9,999 elements, ends with its double; what comes before it is copied from
//! elements that are like it. AVX-512 with VBMI puts the doubles of four elements between the bytes of their names at once.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Appends an element for each float, as a double: `stride` bytes each, at least 8, of which the others are those of `like`, which has as
/// many or more. Of fewer, nothing is appended for those that are missing.
#[inline]
pub fn spread_floats(floats: &[[u8; 4]], like: &[u8], stride: usize, out: &mut Vec<u8>) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if is_available() {
        // SAFETY: the processor has the instructions.
        done = unsafe { floats_by_vbmi(floats, like, stride, out) };
    }
    let double = |float: &[u8; 4]| f64::from(f32::from_le_bytes(*float)).to_le_bytes();
    spread_rest(floats, done, like, stride, out, double);
}

/// [`spread_floats`] of doubles.
#[inline]
pub fn spread_doubles(doubles: &[[u8; 8]], like: &[u8], stride: usize, out: &mut Vec<u8>) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if is_available() {
        // SAFETY: the processor has the instructions.
        done = unsafe { doubles_by_vbmi(doubles, like, stride, out) };
    }
    spread_rest(doubles, done, like, stride, out, |double| *double);
}

/// Appends the elements after the first `done`.
fn spread_rest<const SIZE: usize>(
    values: &[[u8; SIZE]],
    done: usize,
    like: &[u8],
    stride: usize,
    out: &mut Vec<u8>,
    double: impl Fn(&[u8; SIZE]) -> [u8; 8],
) {
    let (values, like) = (values.get(done..).unwrap_or(&[]), like.get(done * stride..).unwrap_or(&[]));
    let from = out.len();
    out.extend_from_slice(like.get(..values.len() * stride).unwrap_or(like));
    let places = out.get_mut(from..).unwrap_or_default();
    match stride {
        11 => set_values::<11, SIZE>(places, values, double),
        12 => set_values::<12, SIZE>(places, values, double),
        13 => set_values::<13, SIZE>(places, values, double),
        14 => set_values::<14, SIZE>(places, values, double),
        _ => places.chunks_exact_mut(stride.max(8)).zip(values).for_each(|(element, value)| {
            if let Some(place) = element.last_chunk_mut() {
                *place = double(value);
            }
        }),
    }
}

/// Sets the values of elements of `STRIDE` bytes.
fn set_values<const STRIDE: usize, const SIZE: usize>(
    elements: &mut [u8],
    values: &[[u8; SIZE]],
    double: impl Fn(&[u8; SIZE]) -> [u8; 8],
) {
    for (element, value) in elements.as_chunks_mut::<STRIDE>().0.iter_mut().zip(values) {
        if let Some(place) = element.last_chunk_mut() {
            *place = double(value);
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn is_available() -> bool {
    is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512f")
}

/// Elements that are made at once: as many as fit in a register.
#[cfg(target_arch = "x86_64")]
const TOGETHER: usize = 4;

/// For elements of one size: which byte of the doubles each of their bytes is, and which of them are bytes of doubles.
#[cfg(target_arch = "x86_64")]
type Places = ([u8; 64], u64);

#[cfg(target_arch = "x86_64")]
const fn places(stride: usize) -> Places {
    let (mut bytes, mut of_doubles, mut at) = ([0; 64], 0, 0);
    while at < TOGETHER * stride {
        let (element, byte) = (at / stride, at % stride);
        if byte + 8 >= stride {
            bytes[at] = (8 * element + byte + 8 - stride) as u8;
            of_doubles |= 1 << at;
        }
        at += 1;
    }
    (bytes, of_doubles)
}

/// Those of 11 to 14 bytes.
#[cfg(target_arch = "x86_64")]
static PLACES: [Places; 4] = [places(11), places(12), places(13), places(14)];

#[cfg(target_arch = "x86_64")]
macro_rules! by_vbmi {
    ($name:ident, $size:literal, |$at:ident| $doubles:expr) => {
        /// Appends elements, but for some of the last; returns how many.
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        fn $name(values: &[[u8; $size]], like: &[u8], stride: usize, out: &mut Vec<u8>) -> usize {
            let Some((bytes, of_doubles)) = stride.checked_sub(11).and_then(|at| PLACES.get(at)) else {
                return 0;
            };
            let (start, mut done) = (out.len(), 0);
            let all = like.len().min(values.len() * stride);
            out.reserve(all);
            // SAFETY: each time there are four more values and 64 bytes of `like` to read, and room for 64 bytes behind the elements that are
            // there. Four elements are at most 56 of these, so all before the next ones are written when the length is set.
            unsafe {
                let bytes = _mm512_loadu_epi8(bytes.as_ptr().cast());
                let to = out.as_mut_ptr().add(start);
                while done + TOGETHER <= values.len() && done * stride + 64 <= all {
                    let $at = values.as_ptr().add(done).cast::<u8>();
                    let (doubles, names) =
                        ($doubles, _mm512_loadu_epi8(like.as_ptr().add(done * stride).cast()));
                    let elements = _mm512_mask_permutexvar_epi8(names, *of_doubles, bytes, doubles);
                    _mm512_storeu_epi8(to.add(done * stride).cast(), elements);
                    done += TOGETHER;
                }
                out.set_len(start + done * stride);
            }
            done
        }
    };
}

#[cfg(target_arch = "x86_64")]
by_vbmi!(floats_by_vbmi, 4, |at| _mm512_castpd_si512(_mm512_zextpd256_pd512(_mm256_cvtps_pd(_mm_loadu_ps(
    at.cast()
)))));
#[cfg(target_arch = "x86_64")]
by_vbmi!(doubles_by_vbmi, 8, |at| _mm512_zextsi256_si512(_mm256_loadu_si256(at.cast())));

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    #[test]
    fn elements_have_the_bytes_of_those_that_they_are_like_and_their_own_doubles() {
        let mut rng = Rng::new(8);
        let mut like = vec![0; 2_000];
        like.fill_with(|| rng.below(256) as u8);
        for stride in 8..20 {
            for count in 0..80 {
                let values: Vec<f32> = (0..count).map(|n| n as f32 * 0.37 - 5.0).collect();
                let wanted: Vec<u8> =
                    values.iter().zip(like.chunks(stride)).fold(vec![7], |mut all, (value, like)| {
                        all.extend_from_slice(&like[..stride - 8]);
                        all.extend_from_slice(&f64::from(*value).to_le_bytes());
                        all
                    });
                let floats: Vec<_> = values.iter().map(|value| value.to_le_bytes()).collect();
                let doubles: Vec<_> = values.iter().map(|value| f64::from(*value).to_le_bytes()).collect();
                // As much as is needed, and more.
                for like in [&like[..count * stride], &like[..]] {
                    let (mut of_floats, mut of_doubles) = (vec![7], vec![7]);
                    spread_floats(&floats, like, stride, &mut of_floats);
                    spread_doubles(&doubles, like, stride, &mut of_doubles);
                    assert_eq!(of_floats, wanted, "{count} of {stride}");
                    assert_eq!(of_doubles, wanted, "{count} of {stride}");
                }
            }
        }
    }
}
