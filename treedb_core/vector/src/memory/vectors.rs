//! The vectors beside the records.
//!
//! Packed, an element is a number of 24 bits: its code is the upper part, and the lower 16 bits are here. In these numbers the
//! greatest element is 127 * 2^16, so they are as exact as the greatest element is as a float.

use super::records::Records;
use crate::code::Coded;
use crate::kernel::{self, Kernels};

/// What the lower part of an element counts from: it is from -2^15 on.
const ZERO: i32 = 1 << 15;

/// The vectors of nodes.
#[derive(Debug, Clone)]
pub(super) enum Vectors {
    /// The elements, and what makes each vector of length 1.
    Floats(Records<f32>),
    /// The lower halves of their elements, little-endian.
    Packed(Records<u8>),
}

impl Vectors {
    /// Vectors of so many dimensions.
    pub(super) fn floats(dimensions: usize) -> Vectors {
        Vectors::Floats(Records::new(dimensions + 1))
    }

    /// Packed vectors of so many dimensions.
    pub(super) fn packed(dimensions: usize) -> Vectors {
        Vectors::Packed(Records::new(2 * dimensions))
    }

    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Vectors::Packed(_))
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Vectors::Floats(records) => records.count(),
            Vectors::Packed(records) => records.count(),
        }
    }

    pub(super) fn push(&mut self) {
        match self {
            Vectors::Floats(records) => records.push(),
            Vectors::Packed(records) => records.push(),
        }
    }

    /// Stores a vector, whose codes are `codes`.
    pub(super) fn set(&mut self, node: u32, vector: &[f32], unit: f32, codes: &[u8]) {
        match self {
            Vectors::Floats(records) => {
                if let Some((place, elements)) = records.get_mut(node).split_last_mut() {
                    *place = unit;
                    elements.iter_mut().zip(vector).for_each(|(to, from)| *to = *from);
                }
            }
            Vectors::Packed(records) => {
                let greatest = vector.iter().fold(0.0_f32, |greatest, element| greatest.max(element.abs()));
                let places = records.get_mut(node).as_chunks_mut::<2>().0;
                for ((place, element), code) in places.iter_mut().zip(vector).zip(codes) {
                    let number = (f64::from(element / greatest) * 127.0 * 65536.0).round() as i32;
                    let rest = number - ((i32::from(*code) - 128) << 16);
                    *place = ((rest + ZERO).clamp(0, 0xffff) as u16).to_le_bytes();
                }
            }
        }
    }

    /// The elements, and what makes them of length 1; of a packed vector nothing.
    #[inline]
    pub(super) fn get(&self, node: u32) -> (&[f32], f32) {
        match self {
            Vectors::Floats(records) => {
                records.get(node).split_last().map_or((&[], 0.0), |(unit, elements)| (elements, *unit))
            }
            Vectors::Packed(_) => (&[], 1.0),
        }
    }

    /// The elements of a packed vector, whose length is 1 where only its direction counts, in `place`.
    #[inline]
    pub(super) fn unpack<'p>(
        &self,
        node: u32,
        coded: Coded<'_>,
        kernels: &Kernels,
        place: &'p mut Vec<f32>,
    ) -> &'p [f32] {
        if let Vectors::Packed(records) = self {
            place.resize(coded.codes.len(), 0.0);
            (kernels.unpack)(coded.codes, records.get(node), coded.factors.scale / 65536.0, place);
        }
        place
    }

    #[inline]
    pub(super) fn prefetch(&self, node: u32) {
        match self {
            Vectors::Floats(records) => kernel::prefetch(records.get(node)),
            Vectors::Packed(records) => kernel::prefetch(records.get(node)),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Vectors::Floats(records) => records.bytes(),
            Vectors::Packed(records) => records.bytes(),
        }
    }

    /// Bytes that so many vectors take.
    pub(super) fn bytes_of(&self, count: usize) -> usize {
        match self {
            Vectors::Floats(records) => records.bytes_of(count),
            Vectors::Packed(records) => records.bytes_of(count),
        }
    }

    /// Bytes that they take besides those that they share with `other`.
    pub(super) fn bytes_beside(&self, other: &Vectors) -> usize {
        match (self, other) {
            (Vectors::Floats(own), Vectors::Floats(other)) => own.bytes_beside(other),
            (Vectors::Packed(own), Vectors::Packed(other)) => own.bytes_beside(other),
            _ => self.bytes(),
        }
    }
}
