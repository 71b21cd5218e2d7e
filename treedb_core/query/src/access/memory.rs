//! What a planner remembers between queries of one collection.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Shapes remembered for one collection; beyond it all are forgotten, to be learned again.
const MAX_SHAPES: usize = 512;

/// The index that served queries of a shape best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remembered {
    /// Its position in [`Source::indexes`](super::Source::indexes).
    pub index: usize,
    /// Keys a walk of it was expected to look at.
    pub keys: u64,
    /// Rows the collection had then.
    pub rows: u64,
}

/// Which index was chosen for which shape of query (all of it but the values). It belongs to one state of a
/// collection's indexes: whoever changes them begins with an empty one.
#[derive(Debug, Default)]
pub struct PlanMemory {
    shapes: Mutex<HashMap<u64, Remembered>>,
}

impl PlanMemory {
    /// What is remembered of a shape.
    pub fn recall(&self, shape: u64) -> Option<Remembered> {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).get(&shape).copied()
    }

    /// Remembers a shape.
    pub fn remember(&self, shape: u64, what: Remembered) {
        let mut shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        if shapes.len() >= MAX_SHAPES && !shapes.contains_key(&shape) {
            shapes.clear();
        }
        shapes.insert(shape, what);
    }

    /// Forgets a shape: its next query is planned anew.
    pub fn forget(&self, shape: u64) {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).remove(&shape);
    }

    /// How many shapes are remembered.
    pub fn len(&self) -> usize {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True if nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_shapes_are_remembered_than_there_is_room_for() {
        let memory = PlanMemory::default();
        for shape in 0..2000 {
            memory.remember(shape, Remembered { index: 1, keys: shape, rows: 5 });
            assert_eq!(memory.recall(shape).map(|found| found.keys), Some(shape));
            assert!(memory.len() <= MAX_SHAPES);
        }
        memory.forget(1999);
        assert_eq!(memory.recall(1999), None);
    }
}
