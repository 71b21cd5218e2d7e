//! The vectors of a build that has no memory for them: in a temporary file, one after another in the order of their nodes.
//!
//! A graph of codes that is in memory does not need them before its pages are written. Then those of some nodes are read at a time, with
//! those that they are linked to where slots have codes of them ([`Fetched`]): each of them once, in the order of the file.

use std::collections::HashMap;

use pgrx::check_for_interrupts;

use crate::shim::error::{SqlState, fail};
use crate::shim::temp_file::TransactionFile;

/// The vectors of all nodes.
pub(super) struct SpilledVectors {
    file: TransactionFile,
    /// A vector as the file has it.
    bytes: Vec<u8>,
}

impl SpilledVectors {
    /// Of no node yet.
    pub(super) fn create(dimensions: usize) -> SpilledVectors {
        SpilledVectors { file: TransactionFile::create(), bytes: vec![0; size_of::<f32>() * dimensions] }
    }

    /// Appends the vector of the next node.
    pub(super) fn push(&mut self, vector: &[f32]) {
        let places = self.bytes.as_chunks_mut().0.iter_mut();
        places.zip(vector).for_each(|(place, element)| *place = element.to_ne_bytes());
        self.file.write(&self.bytes);
    }

    /// Reads the vector of a node over `out`.
    pub(super) fn read(&mut self, node: u32, out: &mut Vec<f32>) {
        let length = self.bytes.len();
        if self.file.read_at(u64::from(node) * length as u64, &mut self.bytes) < length {
            fail(
                SqlState::ERRCODE_IO_ERROR,
                "a temporary file is shorter than what was written to it",
                "Check the temporary directory's disk.",
            );
        }
        out.clear();
        out.extend(self.bytes.as_chunks().0.iter().map(|element| f32::from_ne_bytes(*element)));
    }
}

/// The vectors of some nodes that follow each other, and of their neighbours.
#[derive(Default)]
pub(super) struct Fetched {
    dimensions: usize,
    from: u32,
    /// Those of the nodes themselves.
    own: Vec<f32>,
    /// Where in `prepared` that of a node is.
    places: HashMap<u32, usize>,
    prepared: Vec<f32>,
}

impl Fetched {
    /// Reads the vectors of nodes from `from` to `to`, and prepares them and those of `others`, if codes of them are to be made: `prepare`
    /// appends what it makes of the vector of a node.
    pub(super) fn fetch(
        &mut self,
        spilled: &mut SpilledVectors,
        (from, to): (u32, u32),
        others: &mut Vec<u32>,
        mut prepare: Option<impl FnMut(u32, &[f32], &mut Vec<f32>)>,
    ) {
        self.from = from;
        self.own.clear();
        self.places.clear();
        self.prepared.clear();
        others.extend(from..to);
        others.sort_unstable();
        others.dedup();
        let mut vector = Vec::new();
        for node in others.drain(..) {
            check_for_interrupts!();
            spilled.read(node, &mut vector);
            self.dimensions = vector.len();
            if (from..to).contains(&node) {
                self.own.extend_from_slice(&vector);
            }
            if let Some(prepare) = &mut prepare {
                self.places.insert(node, self.prepared.len());
                prepare(node, &vector, &mut self.prepared);
            }
        }
    }

    /// The vector of one of the nodes.
    pub(super) fn vector(&self, node: u32) -> &[f32] {
        let at = node.saturating_sub(self.from) as usize * self.dimensions;
        self.own.get(at..at + self.dimensions).unwrap_or(&[])
    }

    /// The prepared vector of one of the nodes, or of a neighbour.
    pub(super) fn prepared(&self, node: u32) -> &[f32] {
        let place = self.places.get(&node).and_then(|at| self.prepared.get(*at..*at + self.dimensions));
        place.unwrap_or(&[])
    }
}
