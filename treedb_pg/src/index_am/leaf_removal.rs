//! Removing entries from a leaf, as a vacuum does: what stays is moved together, not read and written anew.
//!
//! Entries are taken as they lie in the page, those of the sorted part first, then those of the append area from its
//! beginning on; their order does not matter here. Packed and grouped leaves close their gaps in place. In a node, where each removal
//! moves the arrays, that is done for a few entries only, and beyond that the node is written anew. The append area
//! keeps what stays.

use pgrx::pg_sys;
use treedb_formats::append_area::{appended_header, mark_appended};
use treedb_formats::grouped::{is_grouped, remove_grouped};
use treedb_formats::node::LeafMut;
use treedb_formats::packed::{is_packed, remove_packed};

use super::leaf::{LeafView, Place};
use super::leaf_entries::LeafEntries;
use super::schema::{Schema, no_row, row_numbered, row_of};
use crate::pages::page::{Damage, ViewMut, flag};

/// Entries that are removed from a node one by one.
const FEW: usize = 16;

/// Appends the rows of all entries to `out`; `key` is for keys of entries.
pub(super) fn rows(
    leaf: &LeafView<'_>,
    key: &mut Vec<u8>,
    out: &mut Vec<pg_sys::ItemPointerData>,
) -> Result<(), Damage> {
    let count = leaf.sorted_count();
    out.reserve(count);
    let mut damaged = false;
    let shown = leaf.sorted_addresses(|address| {
        damaged |= address as u16 == 0;
        out.push(row_numbered(address));
    })?;
    if damaged {
        return Err(no_row());
    }
    if !shown {
        for i in 0..count {
            out.push(leaf.row(Place::Sorted(i), key)?);
        }
    }
    for entry in leaf.appended() {
        out.push(row_of(entry?.key)?);
    }
    Ok(())
}

/// Removes the entries that are `gone`: an element for each, as [`rows`] has them. `old` is the leaf, `page` a copy of
/// its page.
pub(super) fn remove(
    old: &LeafView<'_>,
    schema: &Schema,
    gone: &[bool],
    page: &mut ViewMut<'_>,
) -> Result<(), Damage> {
    let (sorted, appended) = gone.split_at_checked(old.sorted_count()).unwrap_or((gone, &[]));
    let removed = sorted.iter().filter(|gone| **gone).count();
    let in_place = is_packed(page.payload()) || is_grouped(page.payload());
    if in_place && !appended.contains(&true) {
        let end = remove_sorted(page.payload(), sorted)?;
        return page.begin_hole(end);
    }
    let (area, marked) = area_without(old, appended)?;
    let payload = page.payload();
    let hole = if in_place {
        let end = remove_sorted(payload, sorted)?;
        Some(end..payload.len())
    } else if removed <= FEW {
        let mut node = LeafMut::open(payload)?;
        for (i, _) in sorted.iter().enumerate().rev().filter(|(_, gone)| **gone) {
            node.remove(i)?;
        }
        Some(node.view()?.gap()?)
    } else {
        None
    };
    match hole {
        Some(hole) => page.set_hole(hole),
        None => {
            let mut left = LeafEntries::sorted_of(old, schema)?;
            left.retain(|i| !sorted.get(i).copied().unwrap_or(false));
            left.write(0..left.len(), page)?;
        }
    }
    if marked {
        page.set_flags(flag::MARKED, 0);
    }
    page.put_area(&area)
}

/// Removes entries of a packed or a grouped leaf; returns where it ends then.
fn remove_sorted(payload: &mut [u8], gone: &[bool]) -> Result<usize, Damage> {
    let gone = |i: usize| gone.get(i).copied().unwrap_or(false);
    Ok(if is_packed(payload) { remove_packed(payload, gone) } else { remove_grouped(payload, gone) }?)
}

/// The append area without the entries that are `gone`, and whether any of the rest is marked.
fn area_without(old: &LeafView<'_>, gone: &[bool]) -> Result<(Vec<u8>, bool), Damage> {
    let (mut area, mut marked) = (Vec::with_capacity(old.area_len()), false);
    for (i, entry) in old.appended().enumerate() {
        let entry = entry?;
        if gone.get(i).copied().unwrap_or(false) {
            continue;
        }
        let at = area.len();
        area.extend_from_slice(&appended_header(entry.key, entry.value));
        area.extend_from_slice(entry.key);
        area.extend_from_slice(entry.value);
        if entry.marked {
            mark_appended(&mut area, at)?;
            marked = true;
        }
    }
    Ok((area, marked))
}
