//! The vectors beside the records.
//!
//! Packed, an element is a number of 24 bits: its code is the upper part, and the lower 16 bits are here. In these numbers the
//! greatest element is 127 * 2^16, so they are as exact as the greatest element is as a float.

use super::records::Records;
use crate::centre::Centre;
use crate::code::Coded;
use crate::element::Element;
use crate::kernel::{self, Kernels};
use crate::metric::Metric;

/// What the lower part of an element counts from: it is from -2^15 on.
const ZERO: i32 = 1 << 15;

/// The vectors of nodes.
#[derive(Debug, Clone)]
pub(super) enum Vectors {
    /// The elements, and what makes each vector of length 1.
    Floats(Records<f32>),
    /// The elements in 2 bytes each, of this type, and the two halves of what makes each vector of length 1.
    Halves(Records<u16>, Element),
    /// The lower halves of their elements, little-endian.
    Packed(Records<u8>),
    /// The codes are the vectors, or all that there is of them: only what makes each of length 1.
    Coded(Records<f32>),
}

/// A vector that is compared, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Elements<'v> {
    Floats(&'v [f32]),
    Halves(&'v [u16], Element),
}

/// Elements that are made floats at a time: they stay in the nearest cache.
const WIDENED: usize = 128;

impl Vectors {
    /// Vectors of so many dimensions, with elements of this type; of bits, if `bits`.
    pub(super) fn new(dimensions: usize, element: Element, bits: bool) -> Vectors {
        match element {
            _ if bits => Vectors::Coded(Records::new(1)),
            Element::Float32 => Vectors::Floats(Records::new(dimensions + 1)),
            Element::Float16 | Element::BFloat16 => Vectors::Halves(Records::new(dimensions + 2), element),
            Element::Int8 => Vectors::Coded(Records::new(1)),
        }
    }

    /// Packed vectors of so many dimensions.
    pub(super) fn packed(dimensions: usize) -> Vectors {
        Vectors::Packed(Records::new(2 * dimensions))
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => records.count(),
            Vectors::Halves(records, _) => records.count(),
            Vectors::Packed(records) => records.count(),
        }
    }

    pub(super) fn push(&mut self) {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => records.push(),
            Vectors::Halves(records, _) => records.push(),
            Vectors::Packed(records) => records.push(),
        }
    }

    /// Stores a vector, with what its codes are of, if it is not the vector itself, and the codes.
    pub(super) fn set(&mut self, node: u32, vector: &[f32], unit: f32, (coded, codes): (&[f32], &[u8])) {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => {
                if let Some((place, elements)) = records.get_mut(node).split_last_mut() {
                    *place = unit;
                    elements.iter_mut().zip(vector).for_each(|(to, from)| *to = *from);
                }
            }
            Vectors::Halves(records, element) => {
                let bits = unit.to_bits();
                let elements = vector.iter().map(|number| element.half(*number));
                let all = elements.chain([(bits >> 16) as u16, bits as u16]);
                records.get_mut(node).iter_mut().zip(all).for_each(|(to, from)| *to = from);
            }
            Vectors::Packed(records) => {
                let greatest = coded.iter().fold(0.0_f32, |greatest, element| greatest.max(element.abs()));
                let places = records.get_mut(node).as_chunks_mut::<2>().0;
                for ((place, element), code) in places.iter_mut().zip(coded).zip(codes) {
                    let number = (f64::from(element / greatest) * 127.0 * 65536.0).round() as i32;
                    let rest = number - ((i32::from(*code) - 128) << 16);
                    *place = ((rest + ZERO).clamp(0, 0xffff) as u16).to_le_bytes();
                }
            }
        }
    }

    /// The elements of a vector that has them as floats; otherwise nothing.
    #[inline]
    pub(super) fn floats(&self, node: u32) -> &[f32] {
        match self {
            Vectors::Floats(records) => records.get(node).split_last().map_or(&[], |(_, elements)| elements),
            _ => &[],
        }
    }

    /// The elements as they are stored, and what makes them of length 1; of a packed vector nothing, nor of one whose codes it is.
    #[inline]
    pub(super) fn get(&self, node: u32) -> (Elements<'_>, f32) {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => {
                let (unit, elements) = records.get(node).split_last().unwrap_or((&0.0, &[]));
                (Elements::Floats(elements), *unit)
            }
            Vectors::Halves(records, element) => match records.get(node) {
                [elements @ .., high, low] => {
                    let unit = f32::from_bits(u32::from(*high) << 16 | u32::from(*low));
                    (Elements::Halves(elements, *element), unit)
                }
                _ => (Elements::Floats(&[]), 0.0),
            },
            Vectors::Packed(_) => (Elements::Floats(&[]), 1.0),
        }
    }

    /// The elements, and what makes them of length 1. Those that are not floats are written into `place`.
    #[inline]
    pub(super) fn read<'p>(
        &'p self,
        node: u32,
        (coded, centre): (Coded<'_>, Option<&Centre>),
        kernels: &Kernels,
        place: &'p mut Vec<f32>,
    ) -> (&'p [f32], f32) {
        match self {
            Vectors::Packed(records) => {
                place.resize(coded.codes.len(), 0.0);
                (kernels.unpack)(coded.codes, records.get(node), coded.factors.scale / 65536.0, place);
                centre.into_iter().for_each(|centre| centre.add_to(place));
                (place, 1.0)
            }
            Vectors::Coded(_) => {
                place.clear();
                place.extend(Coded { factors: coded.factors.whole(), ..coded }.elements());
                (place, self.get(node).1)
            }
            _ => match self.get(node) {
                (Elements::Floats(elements), unit) => (elements, unit),
                (Elements::Halves(elements, element), unit) => {
                    place.resize(elements.len(), 0.0);
                    element.widen(kernels, elements, place);
                    (place, unit)
                }
            },
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, node: u32) {
        match self {
            Vectors::Floats(records) => kernel::prefetch(records.get(node)),
            Vectors::Halves(records, _) => kernel::prefetch(records.get(node)),
            Vectors::Packed(records) => kernel::prefetch(records.get(node)),
            Vectors::Coded(_) => {}
        }
    }

    /// Asks whether it is there.
    pub(super) fn touch(&self, node: u32) {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => drop(records.get(node)),
            Vectors::Halves(records, _) => drop(records.get(node)),
            Vectors::Packed(records) => drop(records.get(node)),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => records.bytes(),
            Vectors::Halves(records, _) => records.bytes(),
            Vectors::Packed(records) => records.bytes(),
        }
    }

    /// Bytes that are in a file.
    pub(super) fn mapped_bytes(&self) -> usize {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => records.mapped_bytes(),
            Vectors::Halves(records, _) => records.mapped_bytes(),
            Vectors::Packed(records) => records.mapped_bytes(),
        }
    }

    /// Bytes that so many vectors take.
    pub(super) fn bytes_of(&self, count: usize) -> usize {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => records.bytes_of(count),
            Vectors::Halves(records, _) => records.bytes_of(count),
            Vectors::Packed(records) => records.bytes_of(count),
        }
    }

    /// Bytes that so many vectors take while all are in a file.
    pub(super) fn bytes_of_mapped(&self, count: usize) -> usize {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => records.bytes_of_mapped(count),
            Vectors::Halves(records, _) => records.bytes_of_mapped(count),
            Vectors::Packed(records) => records.bytes_of_mapped(count),
        }
    }

    /// Bytes that they take besides those that they share with `other`.
    pub(super) fn bytes_beside(&self, other: &Vectors) -> usize {
        match (self, other) {
            (Vectors::Floats(own), Vectors::Floats(other)) => own.bytes_beside(other),
            (Vectors::Coded(own), Vectors::Coded(other)) => own.bytes_beside(other),
            (Vectors::Halves(own, _), Vectors::Halves(other, _)) => own.bytes_beside(other),
            (Vectors::Packed(own), Vectors::Packed(other)) => own.bytes_beside(other),
            _ => self.bytes(),
        }
    }
}

impl Elements<'_> {
    /// [`Metric::score`] of two vectors of numbers as they are stored.
    #[inline]
    pub(super) fn score(self, other: Elements<'_>, metric: Metric, kernels: &Kernels, unit: f32) -> f32 {
        if let (Elements::Floats(a), Elements::Floats(b)) = (self, other) {
            return metric.score(kernels, a, b, unit);
        }
        // All these scores are sums over the elements, but for what they are multiplied with.
        let (mut a, mut b) = ([0.0; WIDENED], [0.0; WIDENED]);
        let mut sum = 0.0;
        for from in (0..self.len().min(other.len())).step_by(WIDENED) {
            let (a, b) = (self.some(from, kernels, &mut a), other.some(from, kernels, &mut b));
            sum += metric.score(kernels, a, b, 1.0);
        }
        sum * unit
    }

    fn len(self) -> usize {
        match self {
            Elements::Floats(elements) => elements.len(),
            Elements::Halves(elements, _) => elements.len(),
        }
    }

    /// At most [`WIDENED`] elements from one on, as floats: in `place`, if they are none.
    #[inline]
    fn some<'p>(self, from: usize, kernels: &Kernels, place: &'p mut [f32; WIDENED]) -> &'p [f32]
    where
        Self: 'p,
    {
        let to = self.len().min(from + WIDENED);
        match self {
            Elements::Floats(elements) => elements.get(from..to).unwrap_or(&[]),
            Elements::Halves(elements, element) => {
                let elements = elements.get(from..to).unwrap_or(&[]);
                element.widen(kernels, elements, place);
                place.get(..elements.len()).unwrap_or(&[])
            }
        }
    }
}
