//! What a backend remembers of the levels above 0: the links of the nodes that its searches have come by, and codes of 8 bits of
//! their vectors, or the vectors where codes could not tell them apart.
//!
//! It is of one generation of the index's files, which the meta page tells at the beginning of each search. A search that is
//! under way when the index changes may still go by what was, and codes are not the vectors: both only choose where to begin in
//! level 0.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use treedb_vector::centre::Centre;
use treedb_vector::code::{self, Coded, Factors, code_bytes};
use treedb_vector::element::Element;
use treedb_vector::kernel::{self, Kernels};
use treedb_vector::metric::Metric;

use super::graph::{NodeHasher, Query};
use super::record::Layout;

/// Bytes that a backend remembers of an index. Those of the highest levels, which every search needs, come first.
const MOST: usize = 16 << 20;

/// A generation of an index: the number of its files, and of their changes, and that of the centre that codes are about, 0 for none.
pub(super) type Generation = (u32, u32, u32);

/// What vectors are compared by; the metric is that of the scores of codes.
type By<'b> = (&'b Layout, &'b Kernels, Metric);

/// What is remembered of an index.
#[derive(Default)]
pub(super) struct Upper {
    of: Option<Generation>,
    /// Where vectors of nodes are among those that follow.
    places: HashMap<u32, usize, BuildHasherDefault<NodeHasher>>,
    /// One of the two is empty.
    codes: Vec<u8>,
    floats: Vec<f32>,
    /// Those of the codes.
    factors: Vec<Factors>,
    /// Where the links of nodes in a level are among those that follow.
    links: HashMap<(u32, u8), Range<usize>, BuildHasherDefault<NodeHasher>>,
    linked: Vec<u32>,
    /// The places of their vectors, as far as they were looked for: [`UNKNOWN`] otherwise.
    linked_at: Vec<u32>,
    bytes: usize,
}

/// The place of a vector that was not looked for, or not found.
const UNKNOWN: u32 = u32::MAX;

impl Upper {
    /// Forgets what is of another generation.
    pub(super) fn begin(&mut self, generation: Generation) {
        if self.of != Some(generation) {
            self.clear();
            self.of = Some(generation);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.of = None;
        self.places.clear();
        self.codes.clear();
        self.floats.clear();
        self.factors.clear();
        self.links.clear();
        self.linked.clear();
        self.linked_at.clear();
        self.bytes = 0;
    }

    /// Where the vector of a node is, which is asked for before it is needed.
    pub(super) fn find(&self, layout: &Layout, node: u32) -> Option<usize> {
        let place = self.places.get(&node).copied()?;
        self.prefetch(layout, place);
        Some(place)
    }

    #[inline]
    fn prefetch(&self, layout: &Layout, place: usize) {
        if layout.compares_codes() {
            kernel::prefetch(self.codes(layout, place));
        } else {
            kernel::prefetch(self.vector(layout, place));
        }
    }

    /// How far the vector at a place is from a query.
    pub(super) fn score(&self, (layout, kernels, scores_of): By<'_>, query: &Query<'_>, place: usize) -> f32 {
        if layout.compares_codes() {
            let factors = self.factors.get(place).copied().unwrap_or_default();
            let coded = Coded { factors, codes: self.codes(layout, place) };
            code::score(scores_of, kernels, coded, query.coded)
        } else {
            layout.metric.score(kernels, self.vector(layout, place), query.direction, 1.0)
        }
    }

    fn codes(&self, layout: &Layout, place: usize) -> &[u8] {
        let width = code_bytes(layout.metric, layout.dimensions);
        self.codes.get(place * width..(place + 1) * width).unwrap_or(&[])
    }

    fn vector(&self, layout: &Layout, place: usize) -> &[f32] {
        let width = layout.dimensions;
        self.floats.get(place * width..(place + 1) * width).unwrap_or(&[])
    }

    pub(super) fn links(&self, node: u32, level: u8) -> Option<&[u32]> {
        self.linked.get(self.links.get(&(node, level))?.clone())
    }

    /// Writes the links of a node in a level over `links`, and their scores over `scores`; false if not all of that is remembered.
    pub(super) fn scored_links(
        &mut self,
        by: By<'_>,
        query: &Query<'_>,
        (node, level): (u32, u8),
        (links, scores): (&mut Vec<u32>, &mut Vec<f32>),
    ) -> bool {
        let Some(range) = self.links.get(&(node, level)).cloned() else { return false };
        let (Some(linked), Some(places)) =
            (self.linked.get(range.clone()), self.linked_at.get_mut(range.clone()))
        else {
            return false;
        };
        for (place, node) in places.iter_mut().zip(linked).filter(|(place, _)| **place == UNKNOWN) {
            match self.places.get(node) {
                Some(found) => *place = *found as u32,
                None => return false,
            }
        }
        let places = self.linked_at.get(range).unwrap_or(&[]);
        // All are asked for before the first of them is needed.
        places.iter().for_each(|place| self.prefetch(by.0, *place as usize));
        links.clear();
        links.extend_from_slice(linked);
        scores.clear();
        scores.extend(places.iter().map(|place| self.score(by, query, *place as usize)));
        true
    }

    /// Makes room for so many bytes; false if there is none, or nothing is to be remembered now.
    fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.of.is_some() && self.bytes + bytes <= MOST;
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }

    /// Remembers the vector of a node, of length 1 where only its direction counts.
    pub(super) fn add_vector(
        &mut self,
        (layout, centre): (&Layout, Option<&Centre>),
        node: u32,
        vector: &[f32],
    ) {
        let codes = code_bytes(layout.metric, layout.dimensions);
        let bytes = if layout.compares_codes() { codes } else { size_of_val(vector) };
        if vector.len() != layout.dimensions || self.places.contains_key(&node) || !self.take(bytes) {
            return;
        }
        self.places.insert(node, self.places.len());
        if layout.compares_codes() {
            let from = self.codes.len();
            self.codes.resize(from + codes, 0);
            let place = self.codes.get_mut(from..).unwrap_or_default();
            self.factors.push(match centre {
                Some(centre) => centre.encode(vector, 1.0, &mut Vec::new(), place),
                None => code::encode_for(layout.metric, Element::Float32, vector, 1.0, place),
            });
        } else {
            self.floats.extend_from_slice(vector);
        }
    }

    pub(super) fn add_links(&mut self, node: u32, level: u8, links: &[u32]) {
        if self.take(2 * size_of_val(links)) {
            let from = self.linked.len();
            self.linked.extend_from_slice(links);
            self.linked_at.resize(self.linked.len(), UNKNOWN);
            self.links.insert((node, level), from..self.linked.len());
        }
    }
}
