//! Leaves: keys and their values.

use std::cmp::Ordering;
use std::ops::Range;

use super::entry_run::{EntryRun, Piece};
use super::raw::{Cell, Load, Raw};
use super::raw_mut::{RawMut, Trend};
use super::{Found, Keys, NodeDamage, Value};

/// A leaf for reading.
#[derive(Clone, Copy)]
pub struct Leaf<'a> {
    raw: Raw<'a, false>,
}

impl<'a> Leaf<'a> {
    /// Opens a payload as a leaf; checks its header.
    #[inline]
    pub fn open(page: &'a [u8]) -> Result<Leaf<'a>, NodeDamage> {
        Ok(Leaf { raw: Raw::open(page)? })
    }

    /// Number of entries.
    #[inline]
    pub fn count(&self) -> usize {
        self.raw.count()
    }

    /// How the keys are ordered.
    pub fn keys(&self) -> Keys {
        self.raw.keys
    }

    /// The place of `key` in byte order.
    #[inline]
    pub fn search(&self, key: &[u8]) -> Result<Found, NodeDamage> {
        self.raw.search(key)
    }

    /// The value of `key`, in byte order; `None` if it is not there.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'a>>, NodeDamage> {
        self.raw.get(key)
    }

    /// The slot found by a search with `order`, which compares a stored key with the one wanted. Stored keys are put together
    /// in `buffer`.
    pub fn search_by(
        &self,
        buffer: &mut Vec<u8>,
        order: impl FnMut(&[u8]) -> Ordering,
    ) -> Result<Found, NodeDamage> {
        self.raw.search_by(buffer, order)
    }

    /// The order of key `i` against `key`, in byte order.
    #[inline]
    pub fn order(&self, i: usize, key: &[u8]) -> Result<Ordering, NodeDamage> {
        self.raw.order(i, key)
    }

    /// Appends key `i` to `out`.
    #[inline]
    pub fn append_key(&self, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        self.raw.append_key(i, out)
    }

    /// Writes key `i` to `out`, replacing what is there.
    pub fn key_into(&self, i: usize, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        self.raw.key_into(i, out)
    }

    /// Entry `i`.
    #[inline]
    pub fn cell(&self, i: usize) -> Result<Cell<'a>, NodeDamage> {
        self.raw.cell(i)
    }

    /// Writes key `i`, whose cell is `cell`, over the beginning of `out` and returns its length: `out` may be longer.
    /// If `known`, the last key written there was of this leaf.
    #[inline]
    pub fn write_key(&self, i: usize, cell: &Cell<'_>, out: &mut Vec<u8>, known: bool) -> usize {
        self.raw.write_key(i, cell, out, known)
    }

    /// Value `i`.
    #[inline]
    pub fn value(&self, i: usize) -> Result<Value<'a>, NodeDamage> {
        self.raw.value(i)
    }

    /// Bytes that are not used by any entry, dead cells included.
    pub fn free(&self) -> Result<usize, NodeDamage> {
        Ok(super::raw::Layout::parse::<false>(self.raw.page)?.free::<false>())
    }

    /// The bytes between the entry arrays and the lowest cell: they mean nothing, an owner that logs or compresses
    /// pages may leave them out.
    pub fn gap(&self) -> Result<Range<usize>, NodeDamage> {
        Ok(super::raw::Layout::parse::<false>(self.raw.page)?.gap())
    }

    /// Checks every entry; see the module's header.
    pub fn validate(&self) -> Result<(), NodeDamage> {
        self.raw.validate()
    }

    /// Plans to split a leaf into which `key` does not fit: it goes to place `i`, in place of the entry there if
    /// `replacing`. `self` must be a copy: the pages of both halves are written over.
    pub fn split<'b>(
        &self,
        i: usize,
        replacing: bool,
        key: &'b [u8],
        value: Value<'b>,
    ) -> Result<LeafSplit<'b>, NodeDamage>
    where
        'a: 'b,
    {
        let node = self.raw;
        let run = EntryRun::new([
            Piece::Part { node, from: 0, to: i },
            Piece::One { key, load: Load::value(value) },
            Piece::Part { node, from: i + usize::from(replacing), to: node.count() },
        ])?;
        // An append leaves the left leaf full: ascending keys fill every page.
        let append = i == node.count() && i > 0;
        let at = match append {
            true => i,
            false if !replacing && Trend::of(node.leftmost).leads_to(i) => run.cut_at(i, node.page.len())?,
            false => run.cut(node.page.len())?,
        };
        Ok(LeafSplit { run, at, append })
    }

    /// Plans to split this leaf in the middle, with nothing added. `self` must be a copy: the pages of both halves are
    /// written over. A leaf of fewer than two entries cannot be split.
    pub fn divide(&self) -> Result<LeafSplit<'a>, NodeDamage> {
        let node = self.raw;
        let run =
            EntryRun::new([Piece::Part { node, from: 0, to: node.count() }, Piece::Empty, Piece::Empty])?;
        Ok(LeafSplit { run, at: run.cut(node.page.len())?, append: false })
    }

    /// Plans to merge this leaf with its right neighbour, or to redistribute their entries. Both must be
    /// copies if their pages are written over.
    pub fn join<'b>(&self, right: &Leaf<'b>) -> Result<LeafJoin<'b>, NodeDamage>
    where
        'a: 'b,
    {
        let all = |node: Raw<'b, false>| Piece::Part { node, from: 0, to: node.count() };
        Ok(LeafJoin {
            run: EntryRun::new([all(self.raw), all(right.raw), Piece::Empty])?,
            payload: self.raw.page.len(),
        })
    }
}

/// The plan of a leaf's split.
pub struct LeafSplit<'a> {
    run: EntryRun<'a, false>,
    at: usize,
    append: bool,
}

impl LeafSplit<'_> {
    /// Whether the left half is the old leaf, unchanged: `left` need not be called.
    pub fn left_unchanged(&self) -> bool {
        self.append
    }

    /// Moves the cut so that the left half and its separator fit `left` bytes together and the right half fits
    /// `right` bytes, for owners that store the upper bound of a page next to the node; an append still leaves the
    /// left leaf as full as it can. `false` if no such cut was found: then [`Leaf::divide`] makes room first.
    pub fn fit_beside(&mut self, left: usize, right: usize) -> Result<bool, NodeDamage> {
        let Some(at) = self.run.cut_beside(self.at, left, right)? else { return Ok(false) };
        self.at = at;
        self.append = false;
        Ok(true)
    }

    /// Writes the left half over `page`.
    pub fn left(&self, page: &mut [u8]) -> Result<(), NodeDamage> {
        self.run.fill_best(0..self.at, 0, page)
    }

    /// Writes the right half over `page`.
    pub fn right(&self, page: &mut [u8]) -> Result<(), NodeDamage> {
        self.run.fill_best(self.at..self.run.len(), 0, page)
    }

    /// Bytes of payload the left and the right half need, for owners whose pages differ in size.
    pub fn sizes(&self) -> Result<(usize, usize), NodeDamage> {
        Ok((self.run.best_size(0..self.at)?, self.run.best_size(self.at..self.run.len())?))
    }

    /// The key that parts the halves: above all of the left, not above any of the right.
    pub fn separator(&self, out: &mut Vec<u8>) -> Result<(), NodeDamage> {
        self.run.separator(self.at, out)
    }

    /// How many entries go to the left half; the new one is counted.
    pub fn left_count(&self) -> usize {
        self.at
    }
}

/// The plan of putting two leaves together.
pub struct LeafJoin<'a> {
    run: EntryRun<'a, false>,
    payload: usize,
}

impl<'a> LeafJoin<'a> {
    /// Bytes a single leaf of both takes, to be compared with the payload.
    pub fn size(&self) -> Result<usize, NodeDamage> {
        self.run.best_size(0..self.run.len())
    }

    /// Writes one leaf of both over `page`.
    pub fn merge(&self, page: &mut [u8]) -> Result<(), NodeDamage> {
        self.run.fill_best(0..self.run.len(), 0, page)
    }

    /// Plans to share the entries out evenly.
    pub fn share(self) -> Result<LeafSplit<'a>, NodeDamage> {
        let at = self.run.cut(self.payload)?;
        Ok(LeafSplit { run: self.run, at, append: false })
    }
}

/// A leaf for changing.
pub struct LeafMut<'a> {
    raw: RawMut<'a, false>,
}

impl<'a> LeafMut<'a> {
    /// Makes a payload an empty leaf.
    pub fn init(page: &'a mut [u8], keys: Keys) -> Result<LeafMut<'a>, NodeDamage> {
        Ok(LeafMut { raw: RawMut::init(page, keys, &[], 0)? })
    }

    /// Makes a payload an empty leaf for keys (in byte order) that begin with `prefix`. Others may still come: that
    /// costs a rebuild.
    pub fn init_with_prefix(page: &'a mut [u8], prefix: &[u8]) -> Result<LeafMut<'a>, NodeDamage> {
        Ok(LeafMut { raw: RawMut::init(page, Keys::Bytewise, prefix, 0)? })
    }

    /// Opens a payload as a leaf; checks its header.
    #[inline]
    pub fn open(page: &'a mut [u8]) -> Result<LeafMut<'a>, NodeDamage> {
        Ok(LeafMut { raw: RawMut::open(page)? })
    }

    /// As [`LeafMut::open`] without the check: each change checks the header itself, before it stores anything.
    #[inline]
    pub fn over(page: &'a mut [u8]) -> LeafMut<'a> {
        LeafMut { raw: RawMut { page } }
    }

    /// The leaf for reading.
    #[inline]
    pub fn view(&self) -> Result<Leaf<'_>, NodeDamage> {
        Ok(Leaf { raw: self.raw.view()? })
    }

    /// Inserts an entry at place `i`; `false`, and no change, if the leaf is full.
    #[inline]
    pub fn insert(&mut self, i: usize, key: &[u8], value: Value<'_>) -> Result<bool, NodeDamage> {
        self.raw.insert(i, key, Load::value(value))
    }

    /// Inserts at place `i`, which is the first one's, as many of `entries`, keys and values, as are in byte order, belong
    /// there and fit without a rebuild; returns how many. `bound`, if any, is above every key of the leaf.
    pub fn insert_all(
        &mut self,
        i: usize,
        entries: &[(&[u8], &[u8])],
        bound: Option<&[u8]>,
    ) -> Result<usize, NodeDamage> {
        self.raw.insert_all(i, entries, bound)
    }

    /// Replaces value `i`; `false`, and no change, if the leaf is full.
    pub fn replace(&mut self, i: usize, value: Value<'_>) -> Result<bool, NodeDamage> {
        self.raw.replace(i, Load::value(value))
    }

    /// Removes entry `i`.
    pub fn remove(&mut self, i: usize) -> Result<(), NodeDamage> {
        self.raw.remove(i)
    }

    /// Writes the leaf anew over itself: takes the longest common prefix, drops dead cells.
    pub fn compact(&mut self) -> Result<(), NodeDamage> {
        self.raw.compact()
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::super::max_key;
    use super::*;

    /// A page of an owner that keeps the upper bound of a leaf beside it: both share `PAGE` bytes.
    struct Bounded {
        node: Vec<u8>,
        bound: Option<Vec<u8>>,
    }

    const PAGE: usize = 2048;

    fn insert(pages: &mut Vec<Bounded>, key: &[u8]) {
        loop {
            let at = pages.iter().position(|p| p.bound.as_deref().is_none_or(|bound| key < bound)).unwrap();
            let mut leaf = LeafMut::open(&mut pages[at].node).unwrap();
            let Err(i) = leaf.view().unwrap().search(key).unwrap() else { return };
            if leaf.insert(i, key, Value::inline(b"v")).unwrap() {
                return;
            }
            let old = pages[at].node.clone();
            let view = Leaf::open(&old).unwrap();
            let mut split = view.split(i, false, key, Value::inline(b"v")).unwrap();
            let whole = split.fit_beside(PAGE, old.len()).unwrap();
            if !whole {
                split = view.divide().unwrap();
                assert!(split.fit_beside(PAGE, old.len()).unwrap());
            }
            let mut bound = Vec::new();
            split.separator(&mut bound).unwrap();
            let (mut left, mut right) = (vec![0; PAGE - bound.len()], vec![0; old.len()]);
            split.left(&mut left).unwrap();
            split.right(&mut right).unwrap();
            let old_bound = pages[at].bound.replace(bound);
            pages[at].node = left;
            pages.insert(at + 1, Bounded { node: right, bound: old_bound });
            if whole {
                return;
            }
        }
    }

    #[test]
    fn ascending_keys_in_several_places_leave_full_pages() {
        // Rows come in order, and each belongs to one of a few groups: every group's keys grow.
        let (mut rng, mut pages, mut random) = (Rng::new(3), Vec::new(), Vec::new());
        for n in 0..20_000_u64 {
            let group = rng.below(5) as u8;
            insert_into(&mut pages, &[&[group; 3][..], &n.to_be_bytes()].concat());
            insert_into(&mut random, &rng.next_u64().to_be_bytes());
        }
        let used = |pages: &[Bounded]| {
            let used: usize = pages
                .iter()
                .map(|page| page.node.len() - Leaf::open(&page.node).unwrap().free().unwrap())
                .sum();
            used as f64 / (pages.len() * PAGE) as f64
        };
        assert!(used(&pages) > 0.85, "{}", used(&pages));
        assert!(used(&random) > 0.6, "keys in no order are parted in the middle: {}", used(&random));
    }

    fn insert_into(pages: &mut Vec<Bounded>, key: &[u8]) {
        if pages.is_empty() {
            pages.push(Bounded { node: vec![0; PAGE], bound: None });
            LeafMut::init(&mut pages[0].node, Keys::Bytewise).unwrap();
        }
        insert(pages, key);
    }

    #[test]
    fn a_split_leaves_room_for_the_bound_next_to_the_left_leaf() {
        for seed in 0..6 {
            let mut rng = Rng::new(seed + 1);
            let mut first = vec![0; PAGE];
            LeafMut::init(&mut first, Keys::Bytewise).unwrap();
            let mut pages = vec![Bounded { node: first, bound: None }];
            let mut keys = std::collections::BTreeSet::new();
            let longest = max_key(PAGE) * 3 / 4;
            for n in 0..treedb_testing::rounds(1500) as u32 {
                let number = n.to_be_bytes();
                let key = match (seed, rng.below(3)) {
                    (0, _) => number.to_vec(),
                    // A long prefix that most keys share and some do not.
                    (1..=3, 0 | 1) => {
                        [&vec![b'm'; longest - 4][..], &(rng.next_u64() as u32).to_be_bytes()].concat()
                    }
                    (1..=3, _) => vec![rng.next_u64() as u8; rng.below(longest)],
                    _ => (0..rng.below(longest)).map(|_| rng.next_u64() as u8).collect(),
                };
                insert(&mut pages, &key);
                keys.insert(key);
            }
            let mut found = Vec::new();
            for page in &pages {
                let leaf = Leaf::open(&page.node).unwrap();
                leaf.validate().unwrap();
                assert!(leaf.gap().unwrap().end <= page.node.len());
                for i in 0..leaf.count() {
                    let mut key = Vec::new();
                    leaf.key_into(i, &mut key).unwrap();
                    assert!(page.bound.as_ref().is_none_or(|bound| key < *bound));
                    found.push(key);
                }
            }
            assert_eq!(found, keys.into_iter().collect::<Vec<_>>(), "seed {seed}");
            if seed == 0 {
                assert!(pages.len() < 30, "keys that only grow fill every page: {}", pages.len());
            }
        }
    }
}
