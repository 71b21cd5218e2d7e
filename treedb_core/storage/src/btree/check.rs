//! Check: every page once, every key in order and within its separators, counts right.
//!
//! A tree is walked by *parts*: a page, all below it, and the bounds that the branches above set for what may be there. A part is
//! checked without the rest of the tree, so that threads can share a tree; [`Part::check_page`] finds the parts below a page.

use std::collections::HashSet;
use std::sync::Arc;

use super::path::At;
use super::root::MAX_DEPTH;
use super::{Tree, TreeRoot, Value};
use crate::Result;
use crate::page::{PageId, PageSource};
use treedb_formats::node::{Branch, Leaf, NODE_HEADER, NodeDamage, compare};

/// What [`Tree::check`] counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Levels.
    pub depth: u16,
    /// Entries.
    pub entries: u64,
    /// Leaf pages.
    pub leaves: u64,
    /// Branch pages.
    pub branches: u64,
    /// Bytes of all pages' payloads that entries use.
    pub used: u64,
    /// Bytes of all pages' payloads, node headers left out.
    pub room: u64,
}

/// What else is to be done with a tree while it is checked.
pub(crate) trait Visitor {
    /// A page, before it is read. One that was met before must be an error: in a forged tree the walk might not end otherwise.
    fn page(&mut self, id: PageId) -> Result<()>;
    /// The value of an entry, in a leaf that is sound.
    fn value(&mut self, value: Value<'_>) -> Result<()>;
    /// The page has been read, and nothing that was borrowed from it is used any more.
    fn page_is_done(&mut self) -> Result<()>;
}

/// How the pages of a kind of tree are checked.
pub(crate) trait CheckedTree {
    /// What separates the children of a branch.
    type Bound: Clone + Send + Sync;

    /// Checks a branch, the top of `part`. Adds what is below it to `children`, in order.
    fn branch<S: PageSource + ?Sized>(
        src: &S,
        part: &Part<Self::Bound>,
        page: &[u8],
        stats: &mut TreeStats,
        children: &mut Vec<Part<Self::Bound>>,
    ) -> Result<()>;

    /// Checks a leaf, which is all of `part`, and visits its values.
    fn leaf<S: PageSource + ?Sized, V: Visitor>(
        src: &S,
        part: &Part<Self::Bound>,
        page: &[u8],
        stats: &mut TreeStats,
        visitor: &mut V,
    ) -> Result<()>;
}

/// A page of a tree and all below it.
#[derive(Debug, Clone)]
pub(crate) struct Part<B> {
    pub(super) page: PageId,
    /// 1 for a leaf.
    pub(super) level: u16,
    /// What is in it must lie in `low..high`.
    pub(super) low: B,
    pub(super) high: B,
}

impl<B: Clone> Part<B> {
    /// The whole tree; `None` if it is empty.
    pub(super) fn whole<S: PageSource + ?Sized>(
        src: &S,
        root: &TreeRoot,
        low: B,
        high: B,
    ) -> Result<Option<Part<B>>> {
        if root.depth == 0 {
            return Ok(None);
        }
        depth_is_sound(src, root)?;
        Ok(Some(Part { page: root.root, level: root.depth, low, high }))
    }

    /// True if there may be other parts below its top.
    pub(crate) fn has_children(&self) -> bool {
        self.level > 1
    }

    /// Checks the page at its top. Adds the parts below that to `children`, in order.
    pub(crate) fn check_page<T: CheckedTree<Bound = B>, S: PageSource + ?Sized, V: Visitor>(
        &self,
        src: &S,
        visitor: &mut V,
        stats: &mut TreeStats,
        children: &mut Vec<Part<B>>,
    ) -> Result<()> {
        visitor.page(self.page)?;
        let page = src.page(self.page)?;
        if self.level == 1 {
            stats.leaves += 1;
            T::leaf(src, self, page, stats, visitor)?;
        } else {
            stats.branches += 1;
            T::branch(src, self, page, stats, children)?;
        }
        visitor.page_is_done()
    }

    /// Checks all of it. The first damage found is the error.
    pub(crate) fn check<T: CheckedTree<Bound = B>, S: PageSource + ?Sized, V: Visitor>(
        &self,
        src: &S,
        visitor: &mut V,
    ) -> Result<TreeStats> {
        let mut stats = TreeStats { depth: self.level, ..TreeStats::default() };
        let mut todo = vec![self.clone()];
        while let Some(part) = todo.pop() {
            let below = todo.len();
            part.check_page::<T, S, V>(src, visitor, &mut stats, &mut todo)?;
            if let Some(children) = todo.get_mut(below..) {
                children.reverse();
            }
        }
        Ok(stats)
    }
}

/// A bound of keys; at the ends of a tree there is none.
pub(crate) type KeyBound = Option<Arc<[u8]>>;

impl Tree {
    /// All of a tree, to be checked; `None` if it is empty.
    pub(crate) fn part<S: PageSource + ?Sized>(src: &S, root: &TreeRoot) -> Result<Option<Part<KeyBound>>> {
        Part::whole(src, root, None, None)
    }

    /// Reads the whole tree and checks its structure; `visit` gets every page once. The first damage found is the
    /// error.
    pub fn check<S: PageSource + ?Sized>(
        src: &S,
        root: &TreeRoot,
        visit: &mut dyn FnMut(PageId),
    ) -> Result<TreeStats> {
        let Some(part) = Tree::part(src, root)? else { return Ok(TreeStats::default()) };
        let stats = part.check::<Tree, S, _>(src, &mut Alone { src, seen: HashSet::new(), visit })?;
        root.expect_entries(src, stats.entries)?;
        Ok(stats)
    }

    /// Numbers of branch pages and of leaf pages; leaves are not read.
    pub fn count_pages<S: PageSource + ?Sized>(src: &S, root: &TreeRoot) -> Result<(u64, u64)> {
        let mut count = PageCount::default();
        pages(src, root, &mut |_, level| count.add(level))?;
        Ok(count.0)
    }
}

impl TreeRoot {
    /// `Ok` if a walk that found so many entries found as many as there should be.
    pub(crate) fn expect_entries<S: PageSource + ?Sized>(&self, src: &S, found: u64) -> Result<()> {
        if found == self.entries {
            return Ok(());
        }
        Err(src.damaged(self.root, 0, &format!("{} entries", self.entries), &found.to_string()))
    }
}

/// The check of a tree by itself.
pub(super) struct Alone<'a, S: ?Sized> {
    pub(super) src: &'a S,
    pub(super) seen: HashSet<PageId>,
    pub(super) visit: &'a mut dyn FnMut(PageId),
}

impl<S: PageSource + ?Sized> Visitor for Alone<'_, S> {
    fn page(&mut self, id: PageId) -> Result<()> {
        first_visit(self.src, &mut self.seen, id)?;
        (self.visit)(id);
        Ok(())
    }

    fn value(&mut self, _: Value<'_>) -> Result<()> {
        Ok(())
    }

    fn page_is_done(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Branch pages and leaf pages of a tree.
#[derive(Default)]
pub(super) struct PageCount(pub(super) (u64, u64));

impl PageCount {
    /// Counts a page of this level.
    pub(super) fn add(&mut self, level: u16) {
        if level > 1 { self.0.0 += 1 } else { self.0.1 += 1 }
    }
}

pub(super) fn depth_is_sound<S: PageSource + ?Sized>(src: &S, root: &TreeRoot) -> Result<()> {
    if usize::from(root.depth) > MAX_DEPTH {
        return Err(src.damaged(root.root, 0, "a tree of at most 40 levels", &root.depth.to_string()));
    }
    Ok(())
}

pub(super) fn first_visit<S: PageSource + ?Sized>(
    src: &S,
    seen: &mut HashSet<PageId>,
    id: PageId,
) -> Result<()> {
    if !seen.insert(id) {
        return Err(src.damaged(id, 0, "a page with one reference", "two references"));
    }
    Ok(())
}

/// Every page of a tree, with its level (1 for leaves), parents before children; leaves are not read.
pub(super) fn pages<S: PageSource + ?Sized>(
    src: &S,
    root: &TreeRoot,
    visit: &mut dyn FnMut(PageId, u16),
) -> Result<()> {
    walk_pages(src, root, visit, branch_children)
}

/// Adds the children of a branch to `out`.
pub(super) fn branch_children(page: &[u8], out: &mut Vec<PageId>) -> Result<(), NodeDamage> {
    let branch = Branch::open(page)?;
    for c in 0..=branch.count() {
        out.push(PageId(branch.child(c)?));
    }
    Ok(())
}

/// Every page of a tree whose branches' children `children_of` lists, with its level.
pub(super) fn walk_pages<S: PageSource + ?Sized>(
    src: &S,
    root: &TreeRoot,
    visit: &mut dyn FnMut(PageId, u16),
    children_of: impl Fn(&[u8], &mut Vec<PageId>) -> Result<(), NodeDamage>,
) -> Result<()> {
    if root.depth == 0 {
        return Ok(());
    }
    depth_is_sound(src, root)?;
    let mut seen = HashSet::new();
    let mut children = Vec::new();
    let mut todo = vec![(root.root, root.depth)];
    while let Some((id, level)) = todo.pop() {
        first_visit(src, &mut seen, id)?;
        visit(id, level);
        if level > 1 {
            children_of(src.page(id)?, &mut children).at(src, id)?;
            todo.extend(children.drain(..).map(|child| (child, level - 1)));
        }
    }
    Ok(())
}

impl CheckedTree for Tree {
    type Bound = KeyBound;

    fn branch<S: PageSource + ?Sized>(
        src: &S,
        part: &Part<KeyBound>,
        page: &[u8],
        stats: &mut TreeStats,
        children: &mut Vec<Part<KeyBound>>,
    ) -> Result<()> {
        let id = part.page;
        let branch = Branch::open(page).at(src, id)?;
        branch.validate().at(src, id)?;
        count_room(stats, page, branch.free().at(src, id)?);
        let mut separator = Vec::new();
        let mut low = part.low.clone();
        for c in 0..=branch.count() {
            let high = if c < branch.count() {
                branch.separator_into(c, &mut separator).at(src, id)?;
                within(src, id, &separator, low.as_deref(), part.high.as_deref())?;
                Some(Arc::from(separator.as_slice()))
            } else {
                part.high.clone()
            };
            let page = PageId(branch.child(c).at(src, id)?);
            children.push(Part { page, level: part.level - 1, low, high: high.clone() });
            low = high;
        }
        Ok(())
    }

    fn leaf<S: PageSource + ?Sized, V: Visitor>(
        src: &S,
        part: &Part<KeyBound>,
        page: &[u8],
        stats: &mut TreeStats,
        visitor: &mut V,
    ) -> Result<()> {
        let id = part.page;
        let leaf = Leaf::open(page).at(src, id)?;
        leaf.validate().at(src, id)?;
        stats.entries += leaf.count() as u64;
        count_room(stats, page, leaf.free().at(src, id)?);
        let Some(last) = leaf.count().checked_sub(1) else {
            return Err(src.damaged(id, 2, "a leaf with entries", "none"));
        };
        let mut key = Vec::new();
        // The keys in between rise: `validate` has seen that.
        for slot in [0, last] {
            leaf.key_into(slot, &mut key).at(src, id)?;
            within(src, id, &key, part.low.as_deref(), part.high.as_deref())?;
        }
        for slot in 0..=last {
            visitor.value(leaf.value(slot).at(src, id)?)?;
        }
        Ok(())
    }
}

fn count_room(stats: &mut TreeStats, page: &[u8], free: usize) {
    stats.room += page.len().saturating_sub(NODE_HEADER) as u64;
    stats.used += page.len().saturating_sub(NODE_HEADER + free) as u64;
}

fn within<S: PageSource + ?Sized>(
    src: &S,
    id: PageId,
    key: &[u8],
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) -> Result<()> {
    if low.is_some_and(|low| compare(key, low).is_lt()) {
        return Err(src.damaged(id, 0, "keys not below the separator left of them", "a key below it"));
    }
    if high.is_some_and(|high| compare(key, high).is_ge()) {
        return Err(src.damaged(id, 0, "keys below the separator right of them", "a key above it"));
    }
    Ok(())
}
