//! Pages for new content.
//!
//! A page that is taken out of an index keeps its content, marked [`flag::DELETED`], until no backend can be on its way
//! to it any more. The free space map names pages that may be reused; it is not logged, so it is only a hint.

use super::page::{View, flag};
use crate::shim::buffer::{Exclusive, Page, free_space};
use crate::shim::relation::Index;
use crate::shim::snapshot;

/// A page to be written over: one that was deleted long enough ago, or a new one at the end of the relation.
pub(crate) fn allocate(index: Index<'_>) -> Page<Exclusive> {
    loop {
        let Some(block) = free_space::take(index) else {
            return Page::extend_shared(index);
        };
        // The map may name a page that is in use. A locked page is in use; waiting for it could be a deadlock with
        // ourselves.
        if let Some(page) = Page::try_read(index, block)
            && reusable(page.bytes())
        {
            return page;
        }
    }
}

/// True if no backend can be on its way to this page any more: it was never used, or was deleted before every running
/// transaction began.
pub(crate) fn reusable(page: &[u8]) -> bool {
    if is_unused(page) {
        return true;
    }
    let Ok(view) = View::open(page) else { return false };
    view.has(flag::DELETED) && snapshot::is_before_every_snapshot(view.deleted_at())
}

/// Whether the server added the page, but nothing was ever written to it, as after a crash.
pub(crate) fn is_unused(page: &[u8]) -> bool {
    // Only such a page has no end of its hole.
    page.get(14..16) == Some(&[0, 0])
}
