//! What a new node may be linked to, found by the index's image instead of its table.
//!
//! To find that takes most of the time of an insertion in the table. The image has the same graph, if it is of the state that the table had
//! before the transaction, and the same codes, so it finds the same nodes with the same scores. What has changed since is known here:
//!
//! * Nodes that were removed are left out, and so many more are looked for. Those with a vector that replaces another one are the same nodes as before.
//! * Nodes that were linked are compared one by one.
//!
//! There is an image only of an index that is searched. An insertion never builds one, and brings one up to date only if it is a little behind,
//! which the next search would do otherwise.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use treedb_query::error::Result;
use treedb_query::index::vector::{Metric, VectorDef};
use treedb_storage::{Reads, WriteTxn};
use treedb_vector::graph::{self, Link, NodesMut};

use super::graph::{NodeSet, StoredGraph};
use super::image::Image;
use super::record::{Compared, position_of, row_of};
use super::workspace::with_workspace;
use crate::catalog::meta::{IndexMeta, Meta};

/// Nodes that were removed since are one for so many of the image at most, and so are those that were linked: these are no way to others, and each new
/// node is compared with all of them.
const SHARE: usize = 32;
/// And at most so many.
const MOST: usize = 256;

/// The image of an index before a transaction.
pub(super) struct Near {
    image: Arc<Image>,
    /// Nodes that the image does not have, or not as they are now.
    changed: RefCell<NodeSet>,
    /// How many of them it has.
    removed: Cell<usize>,
    /// Those of them that are linked.
    linked: RefCell<Vec<u64>>,
}

impl Near {
    /// That of a table that the transaction has not changed yet; `None` if there is none, or it has other scores.
    pub(super) fn before(
        def: &VectorDef,
        txn: &WriteTxn,
        meta: &Meta,
        index: &IndexMeta,
    ) -> Result<Option<Near>> {
        // An image compares sums of differences by the vectors.
        let has_other_scores = def.metric == Metric::L1 && def.has_codes();
        let has_few_bits = def.quantization.few_bits().is_some();
        if has_other_scores || has_few_bits || index.flags.reaching || index.building.is_some() {
            return Ok(None);
        }
        let image = meta.images.of_writer(def, txn, meta, &index.table)?;
        let (changed, removed, linked) = (RefCell::default(), Cell::default(), RefCell::default());
        Ok(image.map(|image| Near { image, changed, removed, linked }))
    }

    /// Notes that a node is removed.
    pub(super) fn remove(&self, node: u64) {
        if self.changed.borrow_mut().insert(node) {
            self.removed.update(|removed| removed + 1);
        }
    }

    /// Notes that nodes are about to be linked.
    pub(super) fn begin(&self, nodes: impl IntoIterator<Item = u64>) {
        self.changed.borrow_mut().extend(nodes);
    }

    /// Notes that a node is linked.
    pub(super) fn link(&self, node: u64) {
        self.linked.borrow_mut().push(node);
    }

    /// Whether scores are those of the table as it is now.
    pub(super) fn is_of(&self, stored: &StoredGraph<'_, impl Reads>) -> bool {
        self.image.graph.centre() == stored.centre.as_ref()
    }

    /// Writes the `ef` nearest nodes to a vector with this record over `out`; false, and nothing is written, if the table has to be searched.
    pub(super) fn nearest(
        &self,
        stored: &StoredGraph<'_, impl Reads>,
        (vector, record): (&[f32], &Compared<'_>),
        ef: usize,
        out: &mut Vec<(f32, u64)>,
    ) -> Result<bool> {
        let (changed, linked) = (self.changed.borrow(), self.linked.borrow());
        let (most, removed) = (MOST.min(self.image.graph.len() / SHARE), self.removed.get());
        if linked.len() > most || removed > most {
            return Ok(false);
        }
        let mut near: Vec<Link<u64>> = Vec::with_capacity(ef + linked.len());
        let is_found = with_workspace(|workspace| {
            let found = self.image.graph.search_to_link(vector, ef + removed, &mut workspace.searcher);
            let numbers =
                found.map(|found| found.map(|(score, node)| Link { score, node: self.image.number(node) }));
            let of_table = |link: &Link<u64>| link.node != 0 && !changed.contains(&link.node);
            numbers.map(|numbers| near.extend(numbers.filter(of_table))).is_ok()
        });
        // A node that is linked to none of those that were there would be linked to no node at all, or only to others like it.
        if !is_found || near.is_empty() || self.image.is_damaged() {
            return Ok(false);
        }
        // They may be more, as of those that are exactly as far one counts.
        let kept = if removed > 0 { ef } else { ef.max(near.len()) };
        for node in &*linked {
            let score = stored.with_vector(*node, |other| stored.comparison.score(other, record))?;
            near.push(Link { score, node: *node });
        }
        if !linked.is_empty() {
            near.sort_by(|a, b| a.score.total_cmp(&b.score));
            graph::limit_tied(&mut near);
        }
        near.truncate(kept);
        out.clear();
        out.extend(near.iter().map(|link| (link.score, link.node)));
        Ok(true)
    }

    /// The score of two nodes; `None` if the image does not have both of them as they are now.
    pub(super) fn between(&self, a: u64, b: u64) -> Option<f32> {
        let changed = self.changed.borrow();
        let node = |number: u64| self.image.node_of(row_of(number), position_of(number));
        let Ok(score) = match [a, b].iter().any(|number| changed.contains(number)) {
            true => return None,
            false => self.image.graph.between(node(a)?, node(b)?),
        };
        (!self.image.is_damaged()).then_some(score)
    }
}
