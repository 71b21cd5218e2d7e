//! Removing the nodes of rows that are gone. Each is unlinked, and its neighbours are linked to each other, before its slots
//! are free for other rows.
//!
//! A vacuum also finishes what is left of making codes anew ([`super::centre`]).

use pgrx::pg_sys;

use super::graph::Graph;
use super::meta::Choice;
use super::record;
use super::writer::{Writer, each_node_of_page};
use crate::pages::allocate::is_unused;
use crate::shim::buffer::{Page, Shared, free_space, settled_blocks};
use crate::shim::index_method::FindGone;
use crate::shim::vacuum::{Vacuum, delay};

/// Removes the nodes of rows that are gone.
pub(super) fn bulk_delete(vacuum: &mut Vacuum<'_>, find_gone: &mut FindGone<'_>) {
    let index = vacuum.index();
    vacuum.stats.estimated_count = false;
    vacuum.stats.num_index_tuples = 0.0;
    let graph = Graph::open(index);
    let (mut nodes, mut rows): (Vec<u32>, Vec<pg_sys::ItemPointerData>) = (Vec::new(), Vec::new());
    let (mut gone, mut unused) = (Vec::new(), false);
    // Rows that are gone were inserted before: their nodes are in these blocks, and no node moves.
    for block in 1..settled_blocks(index) {
        delay();
        nodes.clear();
        rows.clear();
        let page: Page<Shared> = Page::read_with(index, block, vacuum.strategy());
        each_node_of_page(&graph, &page, &mut |node, slot| {
            if let Some(row) = record::row(slot) {
                nodes.push(node);
                rows.push(row);
            }
        });
        // What a crash left between its addition and its first use.
        let is_unused = is_unused(page.bytes());
        drop(page);
        if is_unused {
            free_space::record(index, block);
            unused = true;
            continue;
        }
        find_gone(&rows, &mut gone);
        let removed: Vec<u32> =
            nodes.iter().zip(&gone).filter(|(_, gone)| **gone).map(|(node, _)| *node).collect();
        for node in &removed {
            delay();
            Writer::lock(index).remove(*node);
        }
        vacuum.stats.tuples_removed += removed.len() as f64;
        vacuum.stats.num_index_tuples += (rows.len() - removed.len()) as f64;
    }
    if unused {
        free_space::publish(index);
    }
}

/// Finishes codes that a session has begun to make anew, and counts pages.
pub(super) fn vacuum_cleanup(vacuum: &mut Vacuum<'_>) {
    let index = vacuum.index();
    if let Choice::Recoding { .. } = Graph::meta_now(index).choice {
        Writer::lock(index).finish_recoding();
    }
    vacuum.stats.num_pages = index.blocks();
}
