//! Whether scanning an index gives the requested sort order.

use super::OrderedIndex;
use crate::access::{Direction, KeyRange};
use crate::index::ordered::KeyPart;
use crate::query::Sort;

/// The direction in which scanning `ranges` gives the order of `sort`, if there is one. The first `equal`
/// fields of the index have the same value in all entries of a range; `bounded` tells whether the field after
/// them has bounds.
pub(super) fn gives_order(
    index: &OrderedIndex<'_>,
    equal: usize,
    bounded: bool,
    ranges: &[KeyRange],
    sort: &Sort,
) -> Option<Direction> {
    if !index.ordered || index.multikey && !gives_least_key_first(index, equal, bounded, ranges, sort) {
        return None;
    }
    let parts = &index.def.keys;
    // With one range the equal fields have one value each, so the sort may omit them; several ranges are in
    // the order of all fields.
    let first = if ranges.len() == 1 { (0..=equal.min(parts.len())).rev().collect() } else { vec![0] };
    first.into_iter().find_map(|skipped| {
        let used = parts.get(skipped..)?;
        // The sort may contain skipped fields; these do not affect the order.
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

/// In a multikey index a row is first found by the least of its scanned keys. The sort uses the least of all
/// its keys, so no key may be excluded by the fields of the sort: these have no bounds, and are not in an
/// array from which an equality selects elements.
fn gives_least_key_first(
    index: &OrderedIndex<'_>,
    equal: usize,
    bounded: bool,
    ranges: &[KeyRange],
    sort: &Sort,
) -> bool {
    let picked = || index.def.keys.iter().take(equal).map(|part| part.path.first());
    let apart = sort.keys.iter().all(|key| picked().all(|first| first != key.path.first()));
    !bounded && ranges.len() == 1 && apart
}
