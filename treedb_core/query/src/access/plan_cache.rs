//! [`PlanCache`]: the index choices that the planner keeps between the queries of one collection.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Most query shapes of one collection; when there would be more, the cache is emptied.
const MAX_ENTRIES: usize = 512;

/// The index chosen for queries of one shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedPlan {
    /// Its position in [`Source::indexes`](super::Source::indexes).
    pub index: usize,
    /// Keys that the planner expected to examine.
    pub keys: u64,
    /// Rows in the collection at that time.
    pub rows: u64,
}

/// Chosen indexes by the shape of the query (everything but the values). A cache belongs to one set of indexes: after
/// they change, an empty one is needed.
#[derive(Debug, Default)]
pub struct PlanCache {
    shapes: Mutex<HashMap<u64, CachedPlan>>,
}

impl PlanCache {
    /// The entry for a shape.
    pub fn get(&self, shape: u64) -> Option<CachedPlan> {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).get(&shape).copied()
    }

    /// Adds or replaces the entry for a shape.
    pub fn insert(&self, shape: u64, plan: CachedPlan) {
        let mut shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        if shapes.len() >= MAX_ENTRIES && !shapes.contains_key(&shape) {
            shapes.clear();
        }
        shapes.insert(shape, plan);
    }

    /// Removes the entry for a shape: its next query is planned again.
    pub fn remove(&self, shape: u64) {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).remove(&shape);
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_never_exceeds_its_limit() {
        let cache = PlanCache::default();
        for shape in 0..2000 {
            cache.insert(shape, CachedPlan { index: 1, keys: shape, rows: 5 });
            assert_eq!(cache.get(shape).map(|found| found.keys), Some(shape));
            assert!(cache.len() <= MAX_ENTRIES);
        }
        cache.remove(1999);
        assert_eq!(cache.get(1999), None);
    }
}
