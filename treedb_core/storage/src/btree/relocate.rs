//! Moving the pages of a tree that are far back in the file.
//!
//! A page is moved by copying it on write, as if its content changed; the owner decides where the copy goes. The walk
//! reads branches only, and can be resumed where it stopped: at a position given as the children taken from the root on. If
//! the tree has changed meanwhile, a few pages may be visited twice or not at all.

use super::branches::{Branches, Bytewise};
use super::check::depth_is_sound;
use super::path::At;
use super::root::TreeRoot;
use super::{RowRoot, RowTree, Tree};
use crate::Result;
use crate::page::{PageId, PageSink, PageSource};

/// The most branches one walk reads.
const READS: usize = 128;

/// Children taken from the root on.
pub type Position = Vec<usize>;

/// Where a walk is: the children of each branch on the way, and which of them is next.
struct Level {
    children: Vec<PageId>,
    next: usize,
}

impl Tree {
    /// Moves up to `most` pages for which `must_move` is true, and the branches above them, beginning at `from` (empty: at
    /// the root). Returns where to continue, if there may be more.
    pub fn relocate<S: PageSink + ?Sized>(
        sink: &mut S,
        root: &mut TreeRoot,
        from: &[usize],
        most: usize,
        must_move: &dyn Fn(PageId) -> bool,
    ) -> Result<Option<Position>> {
        relocate::<Bytewise, S>(sink, root, from, most, must_move)
    }
}

impl RowTree {
    /// As [`Tree::relocate`].
    pub fn relocate<S: PageSink + ?Sized>(
        sink: &mut S,
        root: &mut RowRoot,
        from: &[usize],
        most: usize,
        must_move: &dyn Fn(PageId) -> bool,
    ) -> Result<Option<Position>> {
        relocate::<super::rows::RowBranches, S>(sink, &mut root.tree, from, most, must_move)
    }
}

fn relocate<B: Branches, S: PageSink + ?Sized>(
    sink: &mut S,
    root: &mut TreeRoot,
    from: &[usize],
    most: usize,
    must_move: &dyn Fn(PageId) -> bool,
) -> Result<Option<Position>> {
    let (found, rest) = find::<B, S>(sink, root, from, most, must_move)?;
    for position in found {
        // Copying a page does not change the order of its children.
        let mut id = sink.writable(root.root)?;
        root.root = id;
        for c in position {
            let children = read::<B, S>(sink, id)?;
            let Some(&child) = children.get(c) else { break };
            id = B::own(sink, id, c, child)?;
        }
    }
    Ok(rest)
}

fn read<B: Branches, S: PageSource + ?Sized>(src: &S, id: PageId) -> Result<Vec<PageId>> {
    let mut children = Vec::new();
    B::children(src.page(id)?, &mut children).at(src, id)?;
    Ok(children)
}

/// The positions of pages to move, and where to continue.
fn find<B: Branches, S: PageSource + ?Sized>(
    src: &S,
    root: &TreeRoot,
    from: &[usize],
    most: usize,
    must_move: &dyn Fn(PageId) -> bool,
) -> Result<(Vec<Position>, Option<Position>)> {
    let mut found = Vec::new();
    if root.depth == 0 {
        return Ok((found, None));
    }
    depth_is_sound(src, root)?;
    let height = usize::from(root.depth) - 1;
    if from.is_empty() && must_move(root.root) {
        found.push(Vec::new());
    }
    let mut levels: Vec<Level> = Vec::new();
    if height > 0 {
        levels.push(Level {
            children: read::<B, S>(src, root.root)?,
            next: from.first().copied().unwrap_or(0),
        });
    }
    // Down to where the last walk stopped, as far as there is such a place.
    for &next in from.iter().skip(1).take(height.saturating_sub(1)) {
        let Some(level) = levels.last_mut() else { break };
        let Some(&child) = level.children.get(level.next) else { break };
        level.next += 1;
        levels.push(Level { children: read::<B, S>(src, child)?, next });
    }
    let mut reads = levels.len();
    while let Some(level) = levels.last_mut() {
        let Some(&child) = level.children.get(level.next) else {
            levels.pop();
            continue;
        };
        if found.len() >= most || reads >= READS {
            // Of the levels above the last, the child taken; of the last, the child to take.
            let taken = levels.len() - 1;
            let position = levels.iter().enumerate().map(|(i, level)| level.next - usize::from(i < taken));
            return Ok((found, Some(position.collect())));
        }
        level.next += 1;
        if must_move(child) {
            found.push(levels.iter().map(|level| level.next - 1).collect());
        }
        if levels.len() < height {
            reads += 1;
            levels.push(Level { children: read::<B, S>(src, child)?, next: 0 });
        }
    }
    Ok((found, None))
}
