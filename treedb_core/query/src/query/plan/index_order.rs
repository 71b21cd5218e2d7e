//! Whether walking an index gives the requested sort order.

use crate::access::{Direction, IndexInfo, KeyRange};
use crate::index::ordered::KeyPart;
use crate::query::Sort;

/// Which way walking `ranges` gives the order of `sort`, if either does. `equal` fields at the front of the index
/// have the same value in all entries of a range; `bounded` tells whether the field after them has bounds.
pub(super) fn gives_order(
    index: &IndexInfo,
    equal: usize,
    bounded: bool,
    ranges: &[KeyRange],
    sort: &Sort,
) -> Option<Direction> {
    if !index.ordered || index.multikey && !gives_least_key_first(index, equal, bounded, ranges, sort) {
        return None;
    }
    let parts = &index.def.keys;
    // One range has one value in each equal field, so those may be left out of the sort; several ranges follow each
    // other in the order of all the fields.
    let first = if ranges.len() == 1 { (0..=equal.min(parts.len())).rev().collect() } else { vec![0] };
    first.into_iter().find_map(|skipped| {
        let used = parts.get(skipped..)?;
        // Of the skipped fields the sort may name any; they decide nothing.
        let asked: Vec<&KeyPart> = sort
            .keys
            .iter()
            .filter(|key| !parts.iter().take(skipped).any(|part| part.path == key.path))
            .collect();
        if asked.len() > used.len() || asked.iter().zip(used).any(|(asked, part)| asked.path != part.path) {
            return None;
        }
        let same = asked.iter().zip(used).all(|(asked, part)| asked.direction == part.direction);
        let turned = asked.iter().zip(used).all(|(asked, part)| asked.direction == part.direction.reversed());
        match (same, turned) {
            (true, _) => Some(Direction::Forward),
            (_, true) => Some(Direction::Backward),
            _ => None,
        }
    })
}

/// A row of a multikey index is met first under the least of its keys that are walked. The sort goes by the least
/// of all, so every key must be walked as far as the sort's fields go: these have no bounds, and lie in no array
/// that an equality picks elements from.
fn gives_least_key_first(
    index: &IndexInfo,
    equal: usize,
    bounded: bool,
    ranges: &[KeyRange],
    sort: &Sort,
) -> bool {
    let picked = || index.def.keys.iter().take(equal).map(|part| part.path.first());
    let apart = sort.keys.iter().all(|key| picked().all(|first| first != key.path.first()));
    !bounded && ranges.len() == 1 && apart
}
