//! What the elements of vectors are kept as.
//!
//! An index keeps every vector as its elements rounded to one type, and compares these. So whatever holds them, floats of
//! 4 bytes or the type itself, gives the same distances.

use crate::kernel::Kernels;

/// The type of the elements of an index's vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Element {
    /// IEEE 754 binary32.
    #[default]
    Float32,
    /// IEEE 754 binary16: 11 significant bits, up to 65,504.
    Float16,
    /// The upper half of binary32: 8 significant bits.
    BFloat16,
    /// Whole numbers from -128 to 127.
    Int8,
}

impl Element {
    /// Rounds elements to this type, ties to even; false if one of them has no place in it: it is not finite, too large, or, of whole
    /// numbers, no such number. Some may have been rounded then.
    pub fn round(self, vector: &mut [f32]) -> bool {
        match self {
            Element::Float32 => vector.iter().all(|element| element.is_finite()),
            Element::Float16 | Element::BFloat16 => vector.iter_mut().all(|element| {
                *element = self.nearest(*element);
                element.is_finite()
            }),
            Element::Int8 => vector.iter().copied().all(is_int8),
        }
    }

    /// The number of this type that is nearest to another one: infinite if that is too large for a floating-point type.
    pub fn nearest(self, element: f32) -> f32 {
        match self {
            Element::Float32 => element,
            Element::Float16 | Element::BFloat16 => self.wide(self.half(element)),
            Element::Int8 => f32::from(element.round_ties_even() as i8),
        }
    }

    /// Whether an element takes 2 bytes.
    pub fn is_half(self) -> bool {
        matches!(self, Element::Float16 | Element::BFloat16)
    }

    /// The bits of an element that takes 2 bytes; of `f16` or, for all other types, of `bf16`.
    pub fn half(self, element: f32) -> u16 {
        if self == Element::Float16 { to_f16(element) } else { to_bf16(element) }
    }

    /// The element that such bits are.
    pub fn wide(self, half: u16) -> f32 {
        if self == Element::Float16 { from_f16(half) } else { from_bf16(half) }
    }

    /// Writes the elements of such bits over `out`, which is as long.
    #[inline]
    pub fn widen(self, kernels: &Kernels, halves: &[u16], out: &mut [f32]) {
        match self {
            Element::Float16 => (kernels.from_f16)(halves, out),
            _ => (kernels.from_bf16)(halves, out),
        }
    }
}

/// Whether an element is a whole number from -128 to 127.
#[inline]
pub fn is_int8(element: f32) -> bool {
    element == f32::from(element as i8)
}

/// Infinite for what is too large.
fn to_f16(element: f32) -> u16 {
    const LEAST_NORMAL: f32 = 6.103_515_6e-5;
    const TOO_LARGE: f32 = 65_520.0;
    let (sign, size) = ((element.to_bits() >> 16 & 0x8000) as u16, element.abs());
    let half = if size < LEAST_NORMAL {
        // In units of 2^-24; 1024 of them are the least normal number, whose bits that is too.
        (size * 16_777_216.0).round_ties_even() as u16
    } else if size < TOO_LARGE {
        let bits = size.to_bits() - (112 << 23);
        ((bits + 0xfff + (bits >> 13 & 1)) >> 13) as u16
    } else {
        0x7c00 | u16::from(size.is_nan()) << 9
    };
    sign | half
}

/// Without a branch, so that loops over it are vectorized; what is infinite or NaN becomes a finite number from 65,536 on.
#[inline(always)]
pub(crate) fn from_f16_finite(half: u16) -> f32 {
    // The exponent of a half is 112 less than that of the same float, which also makes its subnormal numbers floats.
    let size = f32::from_bits((u32::from(half) & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
    f32::from_bits(size.to_bits() | (u32::from(half) & 0x8000) << 16)
}

fn from_f16(half: u16) -> f32 {
    match half >> 10 & 31 {
        31 => {
            f32::from_bits((u32::from(half) & 0x8000) << 16 | 0x7f80_0000 | (u32::from(half) & 0x3ff) << 13)
        }
        _ => from_f16_finite(half),
    }
}

/// Infinite for what is too large.
fn to_bf16(element: f32) -> u16 {
    let bits = element.to_bits();
    if element.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[inline(always)]
pub(crate) fn from_bf16(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    const HALVES: [Element; 2] = [Element::Float16, Element::BFloat16];

    #[test]
    fn every_number_of_16_bits_comes_back() {
        for element in HALVES {
            for half in 0..=u16::MAX {
                let wide = element.wide(half);
                if wide.is_nan() {
                    assert!(element.wide(element.half(wide)).is_nan());
                } else {
                    assert_eq!(element.half(wide), half, "{element:?} {wide}");
                }
            }
        }
        assert_eq!(Element::Float16.wide(0x3c01), 1.0 + 1.0 / 1024.0);
        assert_eq!((Element::Float16.wide(0x7bff), Element::Float16.wide(1)), (65_504.0, 2.0_f32.powi(-24)));
        assert_eq!(Element::BFloat16.wide(0x3f81), 1.0 + 1.0 / 128.0);
    }

    #[test]
    fn a_number_is_rounded_to_the_nearest_and_a_tie_to_even() {
        let mut rng = Rng::new(1);
        for element in HALVES {
            for _ in 0..100_000 {
                let number = f32::from_bits(rng.next_u64() as u32);
                if number.is_nan() {
                    continue;
                }
                let half = element.half(number);
                let (found, size) = (f64::from(element.wide(half)), f64::from(number).abs());
                // As far apart as the two numbers of 16 bits on either side of it.
                let [below, above] =
                    [half & 0x7fff, (half & 0x7fff) + 1].map(|half| f64::from(element.wide(half)));
                let least =
                    if half & 0x7fff == 0 { 0.0 } else { f64::from(element.wide((half & 0x7fff) - 1)) };
                if found.is_infinite() {
                    let greatest = f64::from(element.wide((half & 0x7fff) - 1));
                    assert!(size >= greatest, "{element:?} {number}");
                    continue;
                }
                let error = (found.abs() - size).abs();
                let above = if above.is_infinite() { 2.0 * below - least } else { above };
                assert!(
                    error <= (above - size).abs() && error <= (size - least).abs(),
                    "{element:?} {number}"
                );
                assert_eq!(found.is_sign_negative(), number.is_sign_negative());
            }
            let (one, next) = (element.half(1.0), element.half(1.0) + 1);
            let tie = f64::midpoint(f64::from(element.wide(one)), f64::from(element.wide(next))) as f32;
            assert_eq!((element.half(tie), element.half(tie + 1e-6)), (one, next));
            let tie = f64::midpoint(f64::from(element.wide(next)), f64::from(element.wide(next + 1))) as f32;
            assert_eq!((element.half(tie), element.half(tie - 1e-6)), (next + 1, next));
        }
    }

    #[test]
    fn a_vector_with_an_element_that_has_no_place_in_the_type_is_refused() {
        for (element, good, bad) in [
            (Element::Float32, vec![3.4e38, -1e-45, 0.1], vec![f32::NAN, f32::INFINITY]),
            (Element::Float16, vec![65_504.0, -65_519.0, 1e-30], vec![65_520.0, -1e10, f32::NAN]),
            (Element::BFloat16, vec![3.38e38, 1e-30], vec![f32::MAX, f32::NEG_INFINITY, f32::NAN]),
            (
                Element::Int8,
                vec![-128.0, 127.0, 0.0, -0.0],
                vec![128.0, -129.0, 0.5, f32::NAN, f32::INFINITY],
            ),
        ] {
            let mut rounded = good.clone();
            assert!(element.round(&mut rounded), "{element:?}");
            let again = rounded.clone();
            assert!(
                element.round(&mut rounded) && rounded == again,
                "{element:?}: rounded twice is rounded once"
            );
            if matches!(element, Element::Float32 | Element::Int8) {
                assert_eq!(rounded, good);
            }
            assert!(good.iter().map(|number| element.nearest(*number)).eq(again));
            for bad in bad {
                assert!(!element.round(&mut [1.0, bad]), "{element:?} {bad}");
            }
        }
    }
}
