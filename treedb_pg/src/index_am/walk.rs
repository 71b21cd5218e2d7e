//! Reading an index of key sets in the order of its keys, as queries over documents do.
//!
//! The rows are shown as the entries have them; whoever looks at them decides by a snapshot of its own whether they
//! are there. That must be an MVCC snapshot: the pages are not kept from being vacuumed.

use std::ops::ControlFlow;

use pgrx::pg_sys;
use treedb_core::access::{KeyRange, Way, after_prefix};

use super::edge::Edge;
use super::meta::fact;
use super::range::{Range, Wanted};
use super::scan::Ask;
use super::schema::{ADDRESS, Schema, append_address, shortened};
use super::tree::Tree;
use crate::shim::relation::Index;
use crate::shim::snapshot::Snapshot;

/// What is shown of each entry: row and key (shortened if it was too long to be stored).
pub(crate) type Visit<'v, E> = dyn FnMut(pg_sys::ItemPointerData, &[u8]) -> Result<ControlFlow<()>, E> + 'v;

/// What is known of all entries of an index.
pub(crate) struct Facts {
    /// Some row may have several entries.
    pub(crate) multikey: bool,
    /// Entries come in the order of their keys.
    pub(crate) ordered: bool,
}

/// What is known of the entries of an open index.
pub(crate) fn facts(index: Index<'_>) -> Facts {
    let schema = Schema::of(index);
    let facts = Tree::new(index, &schema).meta().facts;
    Facts { multikey: facts & fact::MULTIKEY != 0, ordered: facts & fact::SHORTENED == 0 }
}

/// Shows the entries in `range` that `snapshot` may need to `visit`. With `after` it begins behind that entry.
pub(crate) fn walk<E>(
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    range: &KeyRange,
    way: Way,
    after: Option<(&[u8], pg_sys::ItemPointerData)>,
    visit: &mut Visit<'_, E>,
) -> Result<(), E> {
    let schema = Schema::of(index);
    let mut wanted =
        Range { low: Edge::Bytes(shortened(&range.low).to_vec()), high: high(range.high.as_deref()) };
    if let Some((key, row)) = after {
        let mut entry = shortened(key).to_vec();
        append_address(row, &mut entry);
        match way {
            Way::Forward => wanted.low = schema.behind_key(&entry),
            Way::Backward => wanted.high = schema.before_key(&entry),
        }
    }
    let wanted = Wanted::range(wanted);
    index.count_scan();
    let ask = Ask { tree: Tree::new(index, &schema), wanted: &wanted, keys: true, pin: false, snapshot: Some(snapshot) };
    let mut place = ask.next(None, way);
    while let Some(here) = place {
        if let Some(item) = here.loaded.items.get(here.at) {
            let entry = here.loaded.bytes.get(item.key.0 as usize..item.key.1 as usize).unwrap_or(&[]);
            let key = entry.get(..entry.len().saturating_sub(ADDRESS)).unwrap_or(&[]);
            if visit(item.row, key)?.is_break() {
                return Ok(());
            }
        }
        place = ask.next(Some(here), way);
    }
    Ok(())
}

/// The upper end of a range. A stored key may be the beginning of a limit that is longer than keys are stored: then
/// everything that begins so is in.
fn high(limit: Option<&[u8]>) -> Edge {
    let Some(limit) = limit else { return Edge::End };
    let kept = shortened(limit);
    if kept.len() == limit.len() {
        return Edge::Bytes(limit.to_vec());
    }
    after_prefix(kept).map_or(Edge::End, Edge::Bytes)
}
