//! The codes of vectors, each with the factors of its scores in the same record: a search reads both of every node that it meets, and looks
//! for them once.
//!
//! | bytes of a record | what |
//! |---|---|
//! | as many as a code has | the code |
//! | 4 | the scale of the code, a float |
//! | 4 | the sum of the code |
//! | 4 | its squared length, a float, if the scores need it |
//! | 4 | the squared length by which links are chosen, a float, if that is another |
//! | 4 | the element that is aside then ([`Factors::aside`]), a float |
//!
//! Numbers are little-endian.

use super::records::Records;
use crate::code::{Coded, Factors};
use crate::metric::Metric;

/// The codes of a graph.
#[derive(Clone, Debug)]
pub(super) struct Codes {
    records: Records<u8>,
    /// Bytes of a code.
    len: usize,
}

impl Codes {
    /// Codes of so many bytes, for such scores.
    pub(super) fn new(len: usize, scores_of: Metric) -> Codes {
        let factors = if scores_of == Metric::L2 { 12 } else { 8 };
        Codes { records: Records::in_lines(len + factors), len }
    }

    /// The same without any record, with other factors by which links are chosen.
    pub(super) fn emptied_for_links(&self) -> Codes {
        Codes { records: Records::in_lines(self.len + 20), len: self.len }
    }

    /// Codes of few bits, of so many bytes.
    pub(super) fn of_few_bits(len: usize) -> Codes {
        Codes { records: Records::new(len + 12), len }
    }

    /// The same without any record, for other scores.
    pub(super) fn emptied_for(&self, scores_of: Metric) -> Codes {
        Codes::new(self.len, scores_of)
    }

    pub(super) fn records(&self) -> &Records<u8> {
        &self.records
    }

    pub(super) fn records_mut(&mut self) -> &mut Records<u8> {
        &mut self.records
    }

    /// The record of a node, which begins with its code; empty if there is none.
    #[inline]
    pub(super) fn record(&self, node: u32) -> &[u8] {
        self.records.get(node)
    }

    /// The factors in a record.
    #[inline]
    pub(super) fn factors_in(&self, record: &[u8]) -> Factors {
        match record.get(self.len..).unwrap_or(&[]).as_chunks().0 {
            [scale, sum, squares, ..] => factors(*scale, *sum, *squares, [0; 4]),
            [scale, sum] => factors(*scale, *sum, [0; 4], [0; 4]),
            _ => Factors::default(),
        }
    }

    /// Those by which links are chosen.
    #[inline]
    pub(super) fn link_factors_in(&self, record: &[u8]) -> Factors {
        match record.get(self.len..).unwrap_or(&[]).as_chunks().0 {
            [scale, sum, _, squares, aside] => factors(*scale, *sum, *squares, *aside),
            _ => self.factors_in(record),
        }
    }

    /// The scale among them.
    #[inline]
    pub(super) fn scale_in(&self, record: &[u8]) -> f32 {
        let scale = record.get(self.len..).and_then(|factors| factors.first_chunk());
        f32::from_le_bytes(*scale.unwrap_or(&[0; 4]))
    }

    /// The code of a node with its factors, without the squared length if the scores do not need it.
    #[inline]
    pub(super) fn get(&self, node: u32) -> Coded<'_> {
        let record = self.record(node);
        Coded { factors: self.factors_in(record), codes: record.get(..self.len).unwrap_or(&[]) }
    }

    /// The same with the factors by which links are chosen.
    #[inline]
    pub(super) fn get_for_links(&self, node: u32) -> Coded<'_> {
        let record = self.record(node);
        Coded { factors: self.link_factors_in(record), codes: record.get(..self.len).unwrap_or(&[]) }
    }

    /// Sets the code of a node: `encode` writes it, and gives its factors, and those by which links are chosen.
    pub(super) fn set(&mut self, node: u32, encode: impl FnOnce(&mut [u8]) -> (Factors, Factors)) {
        if let Some((code, rest)) = self.records.get_mut(node).split_at_mut_checked(self.len) {
            let (Factors { scale, sum, squares, .. }, of_links) = encode(code);
            let of_links = [of_links.squares, of_links.aside].map(f32::to_bits);
            let numbers =
                [scale.to_bits(), sum.cast_unsigned(), squares.to_bits()].into_iter().chain(of_links);
            let places = rest.as_chunks_mut().0.iter_mut();
            places.zip(numbers).for_each(|(place, number)| *place = number.to_le_bytes());
        }
    }
}

/// The factors of these bytes.
#[inline]
fn factors(scale: [u8; 4], sum: [u8; 4], squares: [u8; 4], aside: [u8; 4]) -> Factors {
    let [scale, squares, aside] = [scale, squares, aside].map(f32::from_le_bytes);
    Factors { scale, squares, sum: i32::from_le_bytes(sum), aside }
}
