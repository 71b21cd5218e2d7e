//! What the graph algorithms require of a node store.

use std::fmt::Debug;

/// A link to a node, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link<N> {
    /// The score between both ends.
    pub score: f32,
    /// The other end.
    pub node: N,
}

/// What the score of a node is about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate<N> {
    /// The node.
    pub node: N,
    /// Its score.
    pub score: f32,
    /// The standard error of that.
    pub error: f32,
}

/// A place where nodes are, for reading.
pub trait Nodes {
    /// The name of a node.
    type Node: Copy + Ord + Debug;
    /// A query, prepared for scores.
    type Query<'q>;
    /// What can go wrong.
    type Error;

    /// The node where a search begins now, and its level; `None` if there is none.
    fn entry(&self) -> Result<Option<(Self::Node, u8)>, Self::Error>;
    /// Writes the nodes that a node links to in a level over `out`.
    fn links(&self, node: Self::Node, level: u8, out: &mut Vec<Self::Node>) -> Result<(), Self::Error>;
    /// Writes the nodes that a node links to in level 0 over `out`, each with what its score is about, and returns the
    /// node's own score. `None` from a store that keeps nothing to tell that from: then each is asked for its score.
    fn estimates(
        &self,
        query: &Self::Query<'_>,
        node: Self::Node,
        out: &mut Vec<Estimate<Self::Node>>,
    ) -> Result<Option<f32>, Self::Error> {
        let _ = (query, node, out);
        Ok(None)
    }
    /// How far a node is from a query: the less, the nearer.
    fn score(&self, query: &Self::Query<'_>, node: Self::Node) -> Result<f32, Self::Error>;
    /// Writes the scores of nodes over `out`, in their order. A store that can compute several at once does.
    fn scores(
        &self,
        query: &Self::Query<'_>,
        nodes: &[Self::Node],
        out: &mut Vec<f32>,
    ) -> Result<(), Self::Error> {
        out.clear();
        // All nodes are asked for before the first of them is needed.
        nodes.iter().for_each(|node| self.prefetch(*node));
        for node in nodes {
            out.push(self.score(query, *node)?);
        }
        Ok(())
    }
    /// Writes the nodes that a node links to in a level above 0 over `links`, and their scores over `scores`. A store that
    /// remembers those levels can do that with less work than one after the other.
    fn scored_links_above(
        &self,
        query: &Self::Query<'_>,
        (node, level): (Self::Node, u8),
        (links, scores): (&mut Vec<Self::Node>, &mut Vec<f32>),
    ) -> Result<(), Self::Error> {
        self.links(node, level, links)?;
        self.scores(query, links, scores)
    }
    /// The same without nodes that have been met, if leaving them out takes less time than to compare them again.
    fn new_links_above(
        &self,
        query: &Self::Query<'_>,
        place: (Self::Node, u8),
        (links, scores): (&mut Vec<Self::Node>, &mut Vec<f32>),
        met: &mut impl Visited<Self::Node>,
    ) -> Result<(), Self::Error> {
        let _ = met;
        self.scored_links_above(query, place, (links, scores))
    }
    /// Whether nodes with exactly the same score are likely to have the same vector, as it is where elements are not just bits.
    fn tied_are_copies(&self) -> bool {
        true
    }
    /// Tells that the score of a node is about to be asked for.
    fn prefetch(&self, node: Self::Node);
    /// Tells that the links of a node in level 0 are about to be asked for.
    fn prefetch_links(&self, node: Self::Node);
}

/// The same for writing.
pub trait NodesMut: Nodes {
    /// The root of the tree that keeps level 0 in one piece (see [`super`]); `None` if there is no node.
    fn root(&self) -> Result<Option<Self::Node>, Self::Error>;
    /// Sets the root.
    fn set_root(&mut self, root: Option<Self::Node>) -> Result<(), Self::Error>;
    /// Sets the node where a search begins.
    fn set_entry(&mut self, entry: Option<(Self::Node, u8)>) -> Result<(), Self::Error>;
    /// Writes the links of a node in a level, with their scores, over `out`, in the order in which they were set.
    fn scored_links(
        &self,
        node: Self::Node,
        level: u8,
        out: &mut Vec<Link<Self::Node>>,
    ) -> Result<(), Self::Error>;
    /// Replaces the links of a node in a level. There are at most as many as its [`super::Limits`] say.
    fn set_links(
        &mut self,
        node: Self::Node,
        level: u8,
        links: &[Link<Self::Node>],
    ) -> Result<(), Self::Error>;
    /// Writes the `ef` nearest nodes of level 0 over `out`, found from `from` on; false from a store that has no search of its
    /// own.
    fn nearest(
        &self,
        query: &Self::Query<'_>,
        from: &[(f32, Self::Node)],
        ef: usize,
        out: &mut Vec<(f32, Self::Node)>,
    ) -> Result<bool, Self::Error> {
        let _ = (query, from, ef, out);
        Ok(false)
    }
    /// Writes the nodes that a node links to in a level over `out`, in the order in which they were set. Unlike
    /// [`Nodes::links`], it has what was set since [`NodesMut::settle`].
    fn linked(&self, node: Self::Node, level: u8, out: &mut Vec<Self::Node>) -> Result<(), Self::Error> {
        let mut links = Vec::new();
        self.scored_links(node, level, &mut links)?;
        out.clear();
        out.extend(links.iter().map(|link| link.node));
        Ok(())
    }
    /// Adds a link, after the first one.
    fn add_link(&mut self, node: Self::Node, level: u8, link: Link<Self::Node>) -> Result<(), Self::Error> {
        let mut links = Vec::new();
        self.scored_links(node, level, &mut links)?;
        links.push(link);
        self.set_links(node, level, &links)
    }
    /// Takes the link to another node away.
    fn remove_link(&mut self, node: Self::Node, level: u8, other: Self::Node) -> Result<(), Self::Error> {
        let mut links = Vec::new();
        self.scored_links(node, level, &mut links)?;
        links.retain(|link| link.node != other);
        self.set_links(node, level, &links)
    }
    /// Takes the link to another node away, and adds one, after the first one.
    fn replace_link(
        &mut self,
        node: Self::Node,
        level: u8,
        other: Self::Node,
        link: Link<Self::Node>,
    ) -> Result<(), Self::Error> {
        let mut links = Vec::new();
        self.scored_links(node, level, &mut links)?;
        links.retain(|link| link.node != other);
        links.push(link);
        self.set_links(node, level, &links)
    }
    /// The level of a node.
    fn level(&self, node: Self::Node) -> Result<u8, Self::Error>;
    /// How far two nodes are from each other.
    fn between(&self, a: Self::Node, b: Self::Node) -> Result<f32, Self::Error>;
    /// The place of the first of other nodes that is at most so far from a node, without those that are left out.
    fn first_within(
        &self,
        node: Self::Node,
        score: f32,
        others: &[Self::Node],
        is_left_out: impl Fn(usize) -> bool,
    ) -> Result<Option<usize>, Self::Error> {
        for (at, other) in others.iter().enumerate() {
            if !is_left_out(at) && self.between(node, *other)? <= score {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
    /// Whether two nodes have the same vector, as far as scores can tell.
    fn is_copy(&self, a: Self::Node, b: Self::Node) -> Result<bool, Self::Error>;
    /// The invariants hold after the changes made since the last call, of at most four nodes, or of the root, the entry
    /// and one node. A store that must be whole after a crash makes them last here, all or none.
    fn settle(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A set of nodes that a search has met.
pub trait Visited<N> {
    /// Empties it, before a search in a store of so many nodes.
    fn clear(&mut self);
    /// Adds a node; false if it is in there.
    fn insert(&mut self, node: N) -> bool;
    /// Adds nodes, and takes those away that are in there.
    fn keep_new(&mut self, nodes: &mut Vec<N>)
    where
        N: Copy,
    {
        nodes.retain(|node| self.insert(*node));
    }
}

/// No set: it keeps nothing, so that every node is new.
impl<N> Visited<N> for () {
    fn clear(&mut self) {}

    fn insert(&mut self, _: N) -> bool {
        true
    }
}

/// A set of nodes that are numbered from 0: a byte for each.
#[derive(Debug, Default)]
pub struct Stamps {
    stamps: Vec<u8>,
    now: u8,
}

impl Stamps {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.stamps.capacity()
    }

    /// Gives a node a stamp that has none yet.
    #[cold]
    fn make_room(&mut self, node: u32) {
        self.stamps.resize((node as usize + 1).next_power_of_two(), 0);
    }
}

impl Visited<u32> for Stamps {
    fn clear(&mut self) {
        // Stamps of 255 searches ago would look like those of this one.
        self.now = match self.now.checked_add(1) {
            Some(now) => now,
            None => {
                self.stamps.fill(0);
                1
            }
        };
    }

    #[inline]
    fn insert(&mut self, node: u32) -> bool {
        if node as usize >= self.stamps.len() {
            self.make_room(node);
        }
        let Some(stamp) = self.stamps.get_mut(node as usize) else { return false };
        std::mem::replace(stamp, self.now) != self.now
    }

    #[inline]
    fn keep_new(&mut self, nodes: &mut Vec<u32>) {
        let (mut at, mut new) = (0, 0);
        loop {
            let (stamps, all, now) = (self.stamps.as_mut_slice(), nodes.as_mut_slice(), self.now);
            // Without a branch: whether a node has been met cannot be predicted.
            while let Some(node) = all.get(at).copied()
                && let Some(stamp) = stamps.get_mut(node as usize)
            {
                let is_new = std::mem::replace(stamp, now) != now;
                if let Some(place) = all.get_mut(new) {
                    *place = node;
                }
                (at, new) = (at + 1, new + usize::from(is_new));
            }
            let Some(node) = all.get(at).copied() else { break };
            self.make_room(node);
        }
        nodes.truncate(new);
    }
}

/// A set of nodes with whatever numbers: a hash table with open addressing.
#[derive(Debug)]
pub struct Hashed {
    /// When a place was taken (upper half), and by which node.
    places: Vec<u64>,
    now: u32,
    count: usize,
}

impl Default for Hashed {
    fn default() -> Self {
        Hashed { places: vec![0; 1024], now: 1, count: 0 }
    }
}

impl Hashed {
    /// Puts a node into a table that has room; false if it is in there.
    #[inline]
    fn put(places: &mut [u64], now: u32, node: u32) -> bool {
        let wanted = u64::from(now) << 32 | u64::from(node);
        let mask = places.len() - 1;
        // Fibonacci hashing.
        let mut at = (u64::from(node).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while let Some(place) = places.get_mut(at) {
            if *place == wanted {
                return false;
            }
            if *place >> 32 != u64::from(now) {
                *place = wanted;
                return true;
            }
            at = (at + 1) & mask;
        }
        false
    }
}

impl Visited<u32> for Hashed {
    fn clear(&mut self) {
        self.count = 0;
        self.now = match self.now.checked_add(1) {
            Some(now) => now,
            None => {
                self.places.fill(0);
                1
            }
        };
    }

    #[inline]
    fn insert(&mut self, node: u32) -> bool {
        if 2 * self.count >= self.places.len() {
            let mut larger = vec![0; 2 * self.places.len()];
            for place in self.places.iter().filter(|place| **place >> 32 == u64::from(self.now)) {
                Hashed::put(&mut larger, self.now, *place as u32);
            }
            self.places = larger;
        }
        let new = Hashed::put(&mut self.places, self.now, node);
        self.count += usize::from(new);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_clears(mut set: impl Visited<u32>) {
        for _ in 0..600 {
            set.clear();
            assert!(set.insert(3) && set.insert(1000) && !set.insert(3) && !set.insert(1000));
            let mut nodes = vec![1000, 7, 3, 100_000, 7];
            set.keep_new(&mut nodes);
            assert_eq!(nodes, [7, 100_000]);
            set.keep_new(&mut nodes);
            assert!(nodes.is_empty() && !set.insert(7) && set.insert(8));
        }
    }

    #[test]
    fn a_set_is_empty_after_every_clear() {
        check_clears(Stamps::default());
        check_clears(Hashed::default());
    }

    #[test]
    fn a_hashed_set_keeps_every_node_as_it_grows() {
        let mut set = Hashed::default();
        set.clear();
        let nodes = || (0..100_000_u32).map(|n| n.wrapping_mul(2_654_435_761));
        assert!(nodes().all(|node| set.insert(node)));
        assert!(nodes().all(|node| !set.insert(node)));
    }
}
