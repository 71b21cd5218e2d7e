//! What the graph's algorithms need of a place where nodes are.

use std::fmt::Debug;

/// A link to a node, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link<N> {
    /// The score between both ends.
    pub score: f32,
    /// The other end.
    pub node: N,
}

/// A place where nodes are, for reading.
pub trait Nodes {
    /// The name of a node.
    type Node: Copy + Ord + Debug;
    /// A query, prepared for scores.
    type Query<'q>;
    /// What can go wrong.
    type Error;

    /// The node where a search begins, and its level; `None` if there is none.
    fn entry(&self) -> Result<Option<(Self::Node, u8)>, Self::Error>;
    /// Writes the nodes that a node links to in a level over `out`.
    fn links(&self, node: Self::Node, level: u8, out: &mut Vec<Self::Node>) -> Result<(), Self::Error>;
    /// How far a node is from a query: the less, the nearer.
    fn score(&self, query: &Self::Query<'_>, node: Self::Node) -> Result<f32, Self::Error>;
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
    /// The level of a node.
    fn level(&self, node: Self::Node) -> Result<u8, Self::Error>;
    /// How far two nodes are from each other.
    fn between(&self, a: Self::Node, b: Self::Node) -> Result<f32, Self::Error>;
}

/// A set of nodes that a search has met.
pub trait Visited<N> {
    /// Empties it, before a search in a store of so many nodes.
    fn clear(&mut self);
    /// Adds a node; false if it is in there.
    fn insert(&mut self, node: N) -> bool;
}

/// A set of nodes that are numbered from 0: a byte for each.
#[derive(Debug, Default)]
pub struct Stamps {
    stamps: Vec<u8>,
    now: u8,
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
        let at = node as usize;
        if at >= self.stamps.len() {
            self.stamps.resize((at + 1).next_power_of_two(), 0);
        }
        match self.stamps.get_mut(at) {
            Some(stamp) if *stamp != self.now => {
                *stamp = self.now;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_empty_after_every_clear() {
        let mut set = Stamps::default();
        for _ in 0..600 {
            set.clear();
            assert!(set.insert(3) && set.insert(1000) && !set.insert(3) && !set.insert(1000));
        }
    }
}
