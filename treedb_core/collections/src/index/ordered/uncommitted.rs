//! Scans of an ordered index in an open transaction: the entries of the snapshot and the transaction's own, merged.

use treedb_query::access::{Direction, Flow, KeyRange, RowId, Source, VisitTypedEntry};
use treedb_query::error::Result;
use treedb_storage::Reads;

use crate::index::Uncommitted;
use crate::read::view::View;

/// Visits the entries in `range`, as [`Probe::Range`](treedb_query::access::Probe::Range) asks for them.
pub(super) fn scan(
    base: Option<&View<'_, impl Reads>>,
    index: usize,
    uncommitted: &Uncommitted<'_>,
    range: &KeyRange,
    direction: Direction,
    after: Option<(&[u8], RowId)>,
    visit: &mut VisitTypedEntry<'_>,
) -> Result<()> {
    let Uncommitted { entries, rows } = uncommitted;
    let mut own = entries.range(range, direction, after).peekable();
    let mut stopped = false;
    if let Some(view) = base {
        view.index_range_typed(index, range, direction, after, &mut |row, key, type_bits| {
            // Entries that the transaction added and that come before this one.
            while let Some((own_key, own_row)) = own.peek() {
                let first = (own_key.as_slice(), *own_row);
                let comes = match direction {
                    Direction::Forward => first < (key, row),
                    Direction::Backward => first > (key, row),
                };
                if !comes {
                    break;
                }
                let (key, row) = first;
                let flow = visit(row, key, &[])?;
                own.next();
                if flow == Flow::Break(()) {
                    stopped = true;
                    return Ok(flow);
                }
            }
            if entries.has_removed(key, row) {
                return Ok(Flow::Continue(()));
            }
            // The type bits may be outdated if the row was changed and the entry stayed.
            let type_bits = if rows.contains_key(&row.0) { &[] } else { type_bits };
            let flow = visit(row, key, type_bits)?;
            stopped = flow == Flow::Break(());
            Ok(flow)
        })?;
    }
    if stopped {
        return Ok(());
    }
    for (key, row) in own {
        if visit(*row, key, &[])? == Flow::Break(()) {
            break;
        }
    }
    Ok(())
}
