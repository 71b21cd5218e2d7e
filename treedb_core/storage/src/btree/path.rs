//! The path from the root to a node: page numbers and the children taken. Fixed in size, so that a descent
//! allocates nothing and cannot run away.

use super::root::{MAX_DEPTH, TreeRoot};
use crate::page::{PageId, PageSink, PageSource};
use crate::{Error, Result};
use treedb_formats::node::NodeDamage;

/// One branch on the way: its page and the child taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) page: PageId,
    pub(crate) child: u32,
}

/// The branches above a leaf, the root first.
#[derive(Clone)]
pub(crate) struct Path {
    steps: [Step; MAX_DEPTH],
    len: usize,
}

impl Path {
    pub(crate) fn new() -> Path {
        Path { steps: [Step { page: PageId::NONE, child: 0 }; MAX_DEPTH], len: 0 }
    }

    /// Adds a step; a tree deeper than any can be is damaged.
    #[inline]
    pub(crate) fn push<S: PageSource + ?Sized>(
        &mut self,
        src: &S,
        page: PageId,
        child: usize,
    ) -> Result<(), Error> {
        match self.steps.get_mut(self.len) {
            Some(step) => {
                *step = Step { page, child: child as u32 };
                self.len += 1;
                Ok(())
            }
            None => Err(src.damaged(page, 0, "a tree of at most 40 levels", "more")),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Step> {
        self.len = self.len.checked_sub(1)?;
        self.steps.get(self.len).copied()
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes its pages and the leaf below it this transaction's own; returns the leaf. `own_child` does that for a child
    /// of a page that is, given the parent, the child's place in it and the child.
    pub(super) fn own<S: PageSink + ?Sized>(
        &mut self,
        sink: &mut S,
        root: &mut TreeRoot,
        leaf: PageId,
        own_child: impl Fn(&mut S, PageId, usize, PageId) -> Result<PageId>,
    ) -> Result<PageId> {
        let mut above: Option<Step> = None;
        let mut own = |above: Option<Step>, id| match above {
            Some(step) => own_child(sink, step.page, step.child as usize, id),
            None => {
                root.root = sink.writable(id)?;
                Ok(root.root)
            }
        };
        for step in self.steps_mut() {
            step.page = own(above, step.page)?;
            above = Some(*step);
        }
        own(above, leaf)
    }

    pub(crate) fn steps(&self) -> &[Step] {
        self.steps.get(..self.len).unwrap_or(&[])
    }

    pub(crate) fn steps_mut(&mut self) -> &mut [Step] {
        self.steps.get_mut(..self.len).unwrap_or(&mut [])
    }
}

/// Turns a node's damage into the error that names the file.
pub(crate) trait At<T> {
    /// The error for page `id` of `src`.
    fn at<S: PageSource + ?Sized>(self, src: &S, id: PageId) -> Result<T, Error>;
}

impl<T> At<T> for Result<T, NodeDamage> {
    #[inline(always)]
    fn at<S: PageSource + ?Sized>(self, src: &S, id: PageId) -> Result<T, Error> {
        match self {
            Ok(done) => Ok(done),
            Err(damage) => Err(report(src, id, damage)),
        }
    }
}

#[cold]
#[inline(never)]
fn report<S: PageSource + ?Sized>(src: &S, id: PageId, damage: NodeDamage) -> Error {
    src.damaged(id, damage.at, damage.expected, &damage.found.to_string())
}
