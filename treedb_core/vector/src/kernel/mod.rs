//! Sums over two slices of equal length: what all distances are made of.
//!
//! [`Kernels::best`] chooses once, by the processor it runs on: AVX-512 with VNNI, or AVX2 with FMA; on 64-bit ARM NEON with or
//! without the dot-product instructions; or portable code, which the compiler turns into whatever the target always has. Bits are
//! counted by VPOPCNTDQ, POPCNT, or portable code. All give the same sums of codes and bits, and the same rotations; sums of floats differ in the last bits,
//! because they are added in another order.

mod memory;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod spread;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use memory::{floats, prefetch, prefetch_line};
pub use spread::{spread_doubles, spread_floats};

use std::sync::OnceLock;

use crate::neighbour::{Form, Rotation, Rounding};

/// Writes a code for each element: 128 and 127 times the element by the greatest one, rounded. Returns the greatest absolute
/// value, and the sum and the squared sum of the codes less 128.
pub type Encode = fn(&[f32], &mut [u8]) -> (f32, i32, i64);

/// Numbers of few bits in records of one length: the lowest bits of all of them, then the next ones. The first byte of such a
/// plane is for the first eight numbers, the lowest bit first.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    /// Bytes of a record.
    pub stride: usize,
    /// Where the planes begin in it.
    pub at: usize,
    /// Bytes of a plane.
    pub plane: usize,
    /// How many there are, at most 4.
    pub planes: usize,
}

impl Packed {
    /// The planes of each record.
    #[inline(always)]
    fn records<'r>(&self, records: &'r [u8]) -> impl Iterator<Item = &'r [u8]> {
        let bits = self.at..self.at + self.plane * self.planes;
        records.chunks_exact(self.stride.max(1)).map(move |record| record.get(bits.clone()).unwrap_or(&[]))
    }
}

/// The sums. Where two slices differ in length, the end of the longer one is left out.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// What they are made for: `avx512`, `avx2`, `dotprod` (NEON with dot products), `neon` or `portable`.
    pub name: &'static str,
    /// Sum of products.
    pub dot: fn(&[f32], &[f32]) -> f32,
    /// Sum of squares of differences.
    pub squares: fn(&[f32], &[f32]) -> f32,
    /// Sum of absolute values of differences.
    pub differences: fn(&[f32], &[f32]) -> f32,
    /// Sum of products of codes, of which the first are numbers from 0 to 255, the second from -128 to 127, stored with
    /// their highest bit inverted (128 added).
    pub codes: fn(&[u8], &[u8]) -> i32,
    /// The same sum of each of the first with the second, written over the third.
    pub codes_of: fn(&[&[u8]], &[u8], &mut [i32]),
    /// How many bits differ.
    pub differing: fn(&[u8], &[u8]) -> u32,
    /// How many bits are set in both.
    pub common: fn(&[u8], &[u8]) -> u32,
    /// Vectors of 24 bits for each element as floats: of a code, as above the second ones are, and a number of 16 bits with its
    /// highest bit inverted too, little-endian, times the scale of these numbers.
    pub unpack: fn(&[u8], &[u8], f32, &mut [f32]),
    /// Writes the codes of floats.
    pub encode: Encode,
    /// Sum of absolute values of differences of codes.
    pub apart: fn(&[u8], &[u8]) -> u32,
    /// Writes the floats that finite numbers of 16 bits are (`f16`, IEEE 754 binary16) over the second slice.
    pub from_f16: fn(&[u16], &mut [f32]),
    /// Writes the floats whose upper halves these are (`bf16`) over the second slice.
    pub from_bf16: fn(&[u16], &mut [f32]),
    /// Appends a sum for each record: of products of numbers and of those of few bits that it has. At most 8,192 numbers, and
    /// as many as the next multiple of 64.
    pub planes: fn(&[u8], Packed, &[i8], &mut Vec<i32>),
    /// The sum of one: its planes, the bytes of each, and the numbers.
    pub few_bits: fn(&[u8], usize, &[i8]) -> i32,
    /// Rounds floats to whole numbers from -127 to 127 times a scale; returns it, and the sum of the numbers.
    pub round: fn(&[f32], &mut [i8]) -> (f32, i32),
    /// Rotates a vector, in the same way as all others do, to the last bit.
    pub rotate: fn(&Rotation, &mut [f32]),
    /// Writes the bits of a rotated difference between a neighbour and a node, whose own rotated vector is the second one, in the same
    /// way as all others do, to the last bit.
    pub code: fn(Form, &[f32], &[f32], &mut [u8]) -> Rounding,
}

impl Kernels {
    /// The fastest that this processor has.
    pub fn best() -> Kernels {
        static BEST: OnceLock<Kernels> = OnceLock::new();
        *BEST.get_or_init(|| Kernels::all().into_iter().next().unwrap_or(portable::KERNELS))
    }

    /// All that this processor has, the fastest first.
    pub fn all() -> Vec<Kernels> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        all.extend(x86::available());
        #[cfg(target_arch = "aarch64")]
        all.extend(neon::available());
        all.push(portable::KERNELS);
        all
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;
    use crate::element::Element;

    fn floats(rng: &mut Rng, count: usize) -> Vec<f32> {
        (0..count).map(|_| rng.below(20_001) as f32 / 10_000.0 - 1.0).collect()
    }

    #[test]
    fn the_kernels_of_this_processor_are_offered_before_the_portable_ones() {
        let names: Vec<&str> = Kernels::all().iter().map(|kernels| kernels.name).collect();
        assert_eq!(names.last(), Some(&"portable"));
        #[cfg(target_arch = "aarch64")]
        {
            let dotprod = std::arch::is_aarch64_feature_detected!("dotprod");
            let wanted: &[&str] = if dotprod { &["dotprod", "neon"] } else { &["neon"] };
            assert_eq!(names.split_last().map(|(_, own)| own), Some(wanted));
        }
        // Of an emulated processor it is known.
        if let Ok(best) = std::env::var("TREEDB_BEST_KERNELS") {
            assert_eq!(Kernels::best().name, best);
        }
    }

    #[test]
    fn all_kernels_agree_with_a_plain_loop_at_every_length() {
        let mut rng = Rng::new(1);
        for len in (0..200).chain([256, 384, 511, 768, 1536]) {
            let (a, b) = (floats(&mut rng, len), floats(&mut rng, len));
            let codes = |rng: &mut Rng| (0..len).map(|_| rng.below(256) as u8).collect::<Vec<u8>>();
            let (x, y) = (codes(&mut rng), codes(&mut rng));
            let pairs = || a.iter().zip(&b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
            let dot: f64 = pairs().map(|(a, b)| a * b).sum();
            let squares: f64 = pairs().map(|(a, b)| (a - b) * (a - b)).sum();
            let differences: f64 = pairs().map(|(a, b)| (a - b).abs()).sum();
            let of_codes: i32 = x.iter().zip(&y).map(|(x, y)| i32::from(*x) * (i32::from(*y) - 128)).sum();
            for kernels in Kernels::all() {
                let near =
                    |found: f32, wanted: f64| (f64::from(found) - wanted).abs() < 1e-4 * (len as f64 + 1.0);
                assert!(near((kernels.dot)(&a, &b), dot), "{} dot at {len}", kernels.name);
                assert!(near((kernels.squares)(&a, &b), squares), "{} squares at {len}", kernels.name);
                assert!(
                    near((kernels.differences)(&a, &b), differences),
                    "{} differences at {len}",
                    kernels.name
                );
                assert_eq!((kernels.codes)(&x, &y), of_codes, "{} codes at {len}", kernels.name);
                let (mut sums, reversed) = ([7; 5], x.iter().rev().copied().collect::<Vec<u8>>());
                let all: [&[u8]; 4] = [&x, &[], &reversed, &x];
                (kernels.codes_of)(&all, &y, &mut sums);
                let of_reversed = (kernels.codes)(&reversed, &y);
                assert_eq!(
                    sums,
                    [of_codes, 0, of_reversed, of_codes, 7],
                    "{} codes_of at {len}",
                    kernels.name
                );
                let count =
                    |bits: fn(u8, u8) -> u8| x.iter().zip(&y).map(|(x, y)| bits(*x, *y).count_ones()).sum();
                let (differing, common): (u32, u32) = (count(|x, y| x ^ y), count(|x, y| x & y));
                assert_eq!((kernels.differing)(&x, &y), differing, "{} differing at {len}", kernels.name);
                assert_eq!((kernels.common)(&x, &y), common, "{} common at {len}", kernels.name);
                let apart: u32 = x.iter().zip(&y).map(|(x, y)| u32::from(x.abs_diff(*y))).sum();
                assert_eq!((kernels.apart)(&x, &y), apart, "{} apart at {len}", kernels.name);
            }
        }
    }

    #[test]
    fn sums_of_several_codes_at_once_are_those_of_each() {
        let mut rng = Rng::new(9);
        for len in [1, 15, 63, 64, 65, 100, 128, 384, 511] {
            let mut codes = |len: usize| (0..len).map(|_| rng.below(256) as u8).collect::<Vec<u8>>();
            let (b, all) = (codes(len), (0..9).map(|n| codes(len + n % 2)).collect::<Vec<_>>());
            let sum = |a: &[u8]| -> i32 {
                a.iter().zip(&b).map(|(x, y)| i32::from(*x) * (i32::from(*y) - 128)).sum()
            };
            let wanted: Vec<i32> = all.iter().map(|a| sum(a)).collect();
            for count in 0..=all.len() {
                let some: Vec<&[u8]> = all.iter().take(count).map(Vec::as_slice).collect();
                for kernels in Kernels::all() {
                    let mut sums = vec![7; count + 1];
                    (kernels.codes_of)(&some, &b, &mut sums);
                    assert_eq!(sums[..count], wanted[..count], "{} {count} of {len}", kernels.name);
                    assert_eq!(sums[count], 7, "{} {count} of {len}", kernels.name);
                }
            }
        }
    }

    #[test]
    fn all_kernels_give_the_same_codes() {
        let mut rng = Rng::new(3);
        for len in (0..70).chain([384, 1536]) {
            for size in [0.0, 1e-40, 0.3, 127.0, 1e38] {
                // Many elements lie half-way between two codes.
                let element = |rng: &mut Rng| (rng.below(509) as f32 - 254.0) / 254.0 * size;
                let vector: Vec<f32> = (0..len).map(|_| element(&mut rng)).collect();
                let greatest = vector.iter().fold(0.0_f32, |greatest, element| greatest.max(element.abs()));
                let numbers = vector.iter().map(|element| (element / greatest * 127.0).round() as i32);
                let wanted: Vec<u8> = numbers.clone().map(|number| (number + 128) as u8).collect();
                let sums = (greatest, numbers.clone().sum(), numbers.map(|n| i64::from(n * n)).sum());
                for kernels in Kernels::all() {
                    let mut codes = vec![0; len];
                    assert_eq!((kernels.encode)(&vector, &mut codes), sums, "{} at {len}", kernels.name);
                    assert_eq!(codes, wanted, "{} at {len}", kernels.name);
                }
            }
        }
    }

    #[test]
    fn all_kernels_widen_every_number_of_16_bits() {
        let halves: Vec<u16> = (0..=u16::MAX).collect();
        for kernels in Kernels::all() {
            for element in [Element::Float16, Element::BFloat16] {
                let mut wide = vec![0.0; halves.len()];
                element.widen(&kernels, &halves, &mut wide);
                for (half, found) in
                    halves.iter().zip(&wide).filter(|(half, _)| element.wide(**half).is_finite())
                {
                    assert_eq!(found.to_bits(), element.wide(*half).to_bits(), "{} {half}", kernels.name);
                }
                for len in 0..70 {
                    let mut some = vec![-7.0; len + 1];
                    element.widen(&kernels, &halves[15_000..15_000 + len], &mut some);
                    assert!(
                        some[..len] == wide[15_000..15_000 + len] && some[len] == -7.0,
                        "{} at {len}",
                        kernels.name
                    );
                }
            }
        }
    }

    #[test]
    fn all_kernels_unpack_the_same_floats() {
        let mut rng = Rng::new(2);
        for len in (0..70).chain([384, 1536]) {
            let mut bytes = |len: usize| (0..len).map(|_| rng.below(256) as u8).collect::<Vec<u8>>();
            let (codes, rest) = (bytes(len), bytes(2 * len));
            for kernels in Kernels::all() {
                let mut out = vec![0.0; len];
                (kernels.unpack)(&codes, &rest, 0.25, &mut out);
                for ((code, rest), found) in codes.iter().zip(rest.as_chunks::<2>().0).zip(out) {
                    let wanted =
                        (i32::from(*code) - 128) * 65_536 + i32::from(u16::from_le_bytes(*rest)) - 32_768;
                    assert_eq!(found, wanted as f32 / 4.0, "{} at {len}", kernels.name);
                }
            }
        }
    }

    #[test]
    fn all_kernels_agree_on_bits_and_rounded_numbers() {
        let mut rng = Rng::new(2);
        for len in (1..200).chain([256, 384, 511, 768, 1536, 2000, 2048, 5001, 8192]) {
            let a = floats(&mut rng, len);
            let plane = len.div_ceil(8);
            let bits: Vec<u8> = (0..3 * plane).map(|_| rng.below(256) as u8).collect();
            let packed = Packed { stride: 5 + 3 * plane, at: 3, plane, planes: 3 };
            let record = [&[255; 3], &bits[..], &[255; 2]].concat();
            let records = [&record[..], &vec![0; record.len()], &record[..], &[255]].concat();
            let mut wanted = vec![0_i8; len.next_multiple_of(64)];
            let (scale, sum) = (portable::KERNELS.round)(&a, &mut wanted);
            assert_eq!(sum, wanted.iter().map(|number| i32::from(*number)).sum::<i32>());
            for (element, number) in a.iter().zip(&wanted) {
                assert!(
                    (element - scale * f32::from(*number)).abs() <= 0.51 * scale,
                    "{element} is {number}"
                );
            }
            let bit = |at: usize, from: usize| {
                let byte = bits.get(from * plane + at / 8).filter(|_| at < 8 * plane);
                i32::from(byte.is_some_and(|byte| byte >> (at % 8) & 1 == 1))
            };
            let products = wanted
                .iter()
                .enumerate()
                .map(|(at, number)| i32::from(*number) * (bit(at, 0) + 2 * bit(at, 1) + 4 * bit(at, 2)));
            let of_bits: i32 = products.sum();
            for kernels in Kernels::all() {
                let mut numbers = vec![0_i8; wanted.len()];
                assert_eq!((kernels.round)(&a, &mut numbers), (scale, sum), "{} at {len}", kernels.name);
                assert_eq!(numbers, wanted, "{} at {len}", kernels.name);
                let mut found = Vec::new();
                (kernels.planes)(&records, packed, &numbers, &mut found);
                assert_eq!(found, [of_bits, 0, of_bits], "{} bits at {len}", kernels.name);
                let one = (kernels.few_bits)(&bits, plane, &numbers);
                assert_eq!(one, of_bits, "{} few_bits at {len}", kernels.name);
            }
            for kernels in Kernels::all() {
                let ones = vec![-127_i8; wanted.len()];
                let (plane, sum) = (wanted.len() / 8, -127 * wanted.len() as i32);
                let packed = Packed { stride: 4 * plane, at: 0, plane, planes: 4 };
                let mut found = Vec::new();
                (kernels.planes)(&vec![255; 4 * plane], packed, &ones, &mut found);
                assert_eq!(found, [15 * sum], "{}", kernels.name);
            }
        }
    }

    #[test]
    fn all_kernels_rotate_alike_and_keep_lengths() {
        let mut rng = Rng::new(4);
        for len in (0..80).chain([127, 128, 384, 1000, 1536, 2000]) {
            let vector = floats(&mut rng, len);
            let rotation = Rotation::new(len);
            let rotated = Kernels::all().into_iter().map(|kernels| {
                let mut rotated = vector.clone();
                (kernels.rotate)(&rotation, &mut rotated);
                rotated
            });
            let rotated: Vec<Vec<f32>> = rotated.collect();
            assert!(rotated.iter().all(|of| Some(of) == rotated.first()), "at {len}");
            let length = |of: &[f32]| of.iter().map(|element| element * element).sum::<f32>().sqrt();
            for of in &rotated {
                assert!((length(of) - length(&vector)).abs() < 1e-3, "at {len}");
            }
        }
    }

    #[test]
    fn all_kernels_make_the_same_codes_of_neighbours() {
        let mut rng = Rng::new(6);
        for dimensions in (1..80).chain([127, 128, 384, 1000, 2000]) {
            let (usual, own) = (floats(&mut rng, dimensions), floats(&mut rng, dimensions));
            let with_one = |one: f32| {
                let mut vector = vec![0.0; dimensions];
                *vector.last_mut().unwrap() = one;
                vector
            };
            // Of the last ones, squares are zero, infinite or no numbers.
            let unusual = [0.0, 1.0, 1e-25, 1e25, f32::INFINITY, f32::NAN].map(with_one);
            for difference in unusual.iter().chain([&usual]) {
                for (bits, of_units) in [(1, true), (1, false), (2, true), (3, false), (4, true)] {
                    let form = Form { dimensions, bits, of_units };
                    let codes = Kernels::all().into_iter().map(|kernels| {
                        let mut code = vec![0; form.bytes()];
                        let rounding = (kernels.code)(form, difference, &own, &mut code);
                        (code, rounding.to_bits())
                    });
                    let codes: Vec<_> = codes.collect();
                    assert!(
                        codes.iter().all(|code| Some(code) == codes.first()),
                        "{form:?} of {difference:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn codes_at_their_limits_do_not_overflow() {
        for kernels in Kernels::all() {
            for (x, y) in [(255, 255), (255, 0), (0, 0), (1, 255)] {
                let apart = 4096 * u32::from(u8::abs_diff(x, y));
                assert_eq!((kernels.apart)(&[x; 4096], &[y; 4096]), apart, "{}", kernels.name);
                let wanted = 4096 * i32::from(x) * (i32::from(y) - 128);
                assert_eq!((kernels.codes)(&[x; 4096], &[y; 4096]), wanted, "{}", kernels.name);
            }
            let (ones, bits) = (vec![255; 70_000], 8 * 70_000);
            assert_eq!((kernels.common)(&ones, &ones), bits, "{}", kernels.name);
            assert_eq!((kernels.differing)(&ones, &vec![0; 70_000]), bits, "{}", kernels.name);
        }
    }

    #[test]
    fn the_end_of_a_longer_slice_is_left_out() {
        for kernels in Kernels::all() {
            assert_eq!((kernels.dot)(&[1.0; 100], &[1.0; 70]), 70.0, "{}", kernels.name);
            assert_eq!((kernels.codes)(&[1; 70], &[129; 100]), 70, "{}", kernels.name);
            assert_eq!((kernels.differing)(&[255; 70], &[127; 100]), 70, "{}", kernels.name);
            assert_eq!((kernels.common)(&[255; 100], &[1; 70]), 70, "{}", kernels.name);
            assert_eq!((kernels.apart)(&[255; 100], &[254; 70]), 70, "{}", kernels.name);
            let (mut one, mut two) = ([7.0; 70], [7.0; 70]);
            (kernels.from_f16)(&[0x3c00; 67], &mut one);
            (kernels.from_f16)(&[0x3c00; 101], &mut two);
            assert!(one[..67].iter().all(|one| *one == 1.0), "{}", kernels.name);
            assert!(one[67..].iter().all(|rest| *rest == 7.0) && two == [1.0; 70], "{}", kernels.name);
        }
    }
}
