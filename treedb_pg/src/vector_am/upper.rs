//! What a backend remembers of the levels above 0: links and vectors of the nodes that its searches have come by.
//!
//! It is of one generation of the index's files, which the meta page tells at the beginning of each search. A search that is
//! under way when the index changes may still go by what was: it only chooses where to begin in level 0.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::graph::NodeHasher;

/// Bytes that a backend remembers of an index. Those of the highest levels, which every search needs, come first.
const MOST: usize = 16 << 20;

/// A generation of an index: the number of its files, and of their changes.
pub(super) type Generation = (u32, u32);

/// What is remembered of an index.
#[derive(Default)]
pub(super) struct Upper {
    of: Option<Generation>,
    vectors: HashMap<u32, Vec<f32>, BuildHasherDefault<NodeHasher>>,
    links: HashMap<(u32, u8), Vec<u32>, BuildHasherDefault<NodeHasher>>,
    bytes: usize,
}

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
        self.vectors.clear();
        self.links.clear();
        self.bytes = 0;
    }

    pub(super) fn vector(&self, node: u32) -> Option<&[f32]> {
        self.vectors.get(&node).map(Vec::as_slice)
    }

    pub(super) fn links(&self, node: u32, level: u8) -> Option<&[u32]> {
        self.links.get(&(node, level)).map(Vec::as_slice)
    }

    /// Makes room for so many bytes; false if there is none, or nothing is to be remembered now.
    fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.of.is_some() && self.bytes + bytes <= MOST;
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }

    pub(super) fn add_vector(&mut self, node: u32, vector: Vec<f32>) {
        if self.take(size_of_val(vector.as_slice())) {
            self.vectors.insert(node, vector);
        }
    }

    pub(super) fn add_links(&mut self, node: u32, level: u8, links: &[u32]) {
        if self.take(size_of_val(links)) {
            self.links.insert((node, level), links.to_vec());
        }
    }
}
