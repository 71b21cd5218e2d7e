//! Branches of the row tree.

use treedb_formats::node::{MAX_PAYLOAD, MIN_PAYLOAD, NodeDamage, lower_bound, store, store_u16};

/// Kind byte.
const KIND: u8 = 4;
/// Bytes before the firsts.
pub(super) const HEADER: usize = 16;
/// Bytes of an entry: the first id of a child, the child.
const ENTRY: usize = 12;

/// How many children a branch of this payload has room for.
fn capacity(payload: usize) -> usize {
    payload.saturating_sub(HEADER) / ENTRY
}

/// A branch for reading.
#[derive(Clone, Copy)]
pub(super) struct RowBranch<'a> {
    firsts: &'a [[u8; 8]],
    children: &'a [[u8; 4]],
    capacity: usize,
}

impl<'a> RowBranch<'a> {
    /// Opens a payload as a branch; checks its header in constant time.
    #[inline(always)]
    pub(super) fn open(page: &'a [u8]) -> Result<RowBranch<'a>, NodeDamage> {
        let Some(h) = page.first_chunk::<HEADER>() else {
            return Err(NodeDamage::new(0, "a payload longer than the branch header", page.len()));
        };
        if h[0] != KIND {
            return Err(NodeDamage::new(0, "kind 4, a branch of rows", h[0] as usize));
        }
        let count = u16::from_le_bytes([h[2], h[3]]) as usize;
        let capacity = capacity(page.len());
        let children = HEADER + 8 * capacity;
        match (page.get(HEADER..HEADER + 8 * count), page.get(children..children + 4 * count)) {
            (Some(firsts), Some(children))
                if count >= 1 && count <= capacity && page.len() <= MAX_PAYLOAD =>
            {
                Ok(RowBranch { firsts: firsts.as_chunks().0, children: children.as_chunks().0, capacity })
            }
            _ => Err(NodeDamage::new(2, "a count of children from 1 to the capacity", count)),
        }
    }

    /// Number of children.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.children.len()
    }

    /// Room for children.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The child in whose range row `id` lies.
    #[inline(always)]
    pub(super) fn find(&self, id: u64) -> usize {
        match (id.checked_add(1), self.firsts.get(1..)) {
            (Some(above), Some(firsts)) => lower_bound(firsts, above),
            _ => self.children.len().saturating_sub(1),
        }
    }

    /// Child `c`.
    #[inline(always)]
    pub(super) fn child(&self, c: usize) -> Result<u32, NodeDamage> {
        match self.children.get(c) {
            Some(child) => Ok(u32::from_le_bytes(*child)),
            None => Err(NodeDamage::new(2, "a child at the place asked for", c)),
        }
    }

    /// The lowest id child `c` may hold; not read for child 0.
    pub(super) fn first(&self, c: usize) -> Result<u64, NodeDamage> {
        match self.firsts.get(c) {
            Some(first) => Ok(u64::from_le_bytes(*first)),
            None => Err(NodeDamage::new(2, "a child at the place asked for", c)),
        }
    }
}

/// A branch for changing.
pub(super) struct RowBranchMut<'a> {
    page: &'a mut [u8],
}

impl<'a> RowBranchMut<'a> {
    /// Makes a payload a branch with one child.
    pub(super) fn init(page: &'a mut [u8], first: u64, child: u32) -> Result<RowBranchMut<'a>, NodeDamage> {
        if !(MIN_PAYLOAD..=MAX_PAYLOAD).contains(&page.len()) {
            return Err(NodeDamage::new(0, "a payload of 256 bytes to 32 KiB", page.len()));
        }
        page.fill(0);
        store(page, 0, &[KIND])?;
        store_u16(page, 2, 1)?;
        let mut branch = RowBranchMut { page };
        branch.write(0, first, child)?;
        Ok(branch)
    }

    pub(super) fn open(page: &'a mut [u8]) -> Result<RowBranchMut<'a>, NodeDamage> {
        RowBranch::open(page)?;
        Ok(RowBranchMut { page })
    }

    fn view(&self) -> Result<RowBranch<'_>, NodeDamage> {
        RowBranch::open(self.page)
    }

    fn write(&mut self, c: usize, first: u64, child: u32) -> Result<(), NodeDamage> {
        let children = HEADER + 8 * capacity(self.page.len());
        store(self.page, HEADER + 8 * c, &first.to_le_bytes())?;
        store(self.page, children + 4 * c, &child.to_le_bytes())
    }

    /// Moves the entries from `from` on to `to`; the counts tell that both are within the arrays.
    fn shift(&mut self, from: usize, to: usize, count: usize) {
        let children = HEADER + 8 * capacity(self.page.len());
        self.page.copy_within(HEADER + 8 * from..HEADER + 8 * count, HEADER + 8 * to);
        self.page.copy_within(children + 4 * from..children + 4 * count, children + 4 * to);
    }

    /// Inserts a child as child `c`, which is not 0; `false`, and no change, if the branch is full.
    pub(super) fn insert(&mut self, c: usize, first: u64, child: u32) -> Result<bool, NodeDamage> {
        let view = self.view()?;
        let count = view.count();
        if c == 0 || c > count {
            return Err(NodeDamage::new(2, "a place for a new child", c));
        }
        if count == view.capacity() {
            return Ok(false);
        }
        self.shift(c, c + 1, count);
        self.write(c, first, child)?;
        store_u16(self.page, 2, count + 1)?;
        Ok(true)
    }

    /// Removes child `c`; the last child cannot be removed.
    pub(super) fn remove(&mut self, c: usize) -> Result<(), NodeDamage> {
        let count = self.view()?.count();
        if c >= count || count == 1 {
            return Err(NodeDamage::new(2, "a child beside another", c));
        }
        self.shift(c + 1, c, count);
        store_u16(self.page, 2, count - 1)
    }

    /// Points child `c` to another page.
    pub(super) fn set_child(&mut self, c: usize, child: u32) -> Result<(), NodeDamage> {
        let first = self.view()?.first(c)?;
        self.write(c, first, child)
    }

    /// Adds the children `from..to` of another branch after its own. `first` is the lowest id of the first of them,
    /// which its own branch does not know.
    pub(super) fn take(
        &mut self,
        other: &RowBranch<'_>,
        from: usize,
        to: usize,
        first: u64,
    ) -> Result<(), NodeDamage> {
        for c in from..to {
            let first = if c == from { first } else { other.first(c)? };
            if !self.insert(self.view()?.count(), first, other.child(c)?)? {
                return Err(NodeDamage::new(2, "children that fit the branch", c));
            }
        }
        Ok(())
    }

    /// Drops the children from `count` on.
    pub(super) fn truncate(&mut self, count: usize) -> Result<(), NodeDamage> {
        if count == 0 || count > self.view()?.count() {
            return Err(NodeDamage::new(2, "children to keep", count));
        }
        store_u16(self.page, 2, count)
    }
}
