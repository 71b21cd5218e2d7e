//! Which links a node gets, and which one goes when it has too many.
//!
//! Of the nodes that are near, those are chosen that are nearer to the node than to any that was chosen before: they lie
//! in different directions. Then the nearest of the others fill up the list; without them, graphs of near-duplicates
//! fall apart (recall stops at .92).
//!
//! Copies of the node's own vector, being at no distance, would rule all other candidates out. One of them is chosen, and rules
//! nothing out; the others are the first links that go. Of several copies of another vector, one is a candidate; the others only fill up
//! the list when there is nothing else.

use super::copies;
use super::insert::{Limits, is_parent};
use super::store::{Link, NodesMut};

/// Chooses at most `most` links of a node from nodes that are near, the nearest first, and from copies of it.
pub(super) fn choose<S: NodesMut>(
    store: &S,
    near: &[Link<S::Node>],
    copies: &[Link<S::Node>],
    most: usize,
) -> Result<Vec<Link<S::Node>>, S::Error> {
    let (first, more) = copies.split_at(copies.len().min(1).min(most));
    let (mut chosen, mut others) = (Vec::with_capacity(most), Vec::with_capacity(most));
    let (mut apart, mut repeated) = (Vec::with_capacity(most), Vec::new());
    let mut last: Option<Link<S::Node>> = None;
    for link in near {
        if first.len() + chosen.len() == most {
            break;
        }
        // Copies of one vector are next to each other.
        let before = last.replace(*link).filter(|before| before.score == link.score);
        if let Some(before) = before
            && store.is_copy(before.node, link.node)?
        {
            repeated.push(*link);
        } else if store.first_within(link.node, link.score, &apart, |_| false)?.is_none() {
            // Those that are copies of each other are in the same direction: they must not take all links.
            chosen.push(*link);
            apart.push(link.node);
        } else if others.len() < most {
            others.push(*link);
        }
    }
    chosen.splice(..0, first.iter().copied());
    let left = most - chosen.len();
    chosen.extend(others.into_iter().chain(repeated).chain(more.iter().copied()).take(left));
    Ok(chosen)
}

/// The links of a node by how much they are needed: first those that would be chosen in different directions, then the others, the
/// nearest first, and at last all copies but one. What is not asked for is not computed.
///
/// Kept from one node to the next, it allocates nothing.
#[derive(Debug)]
pub struct Ranking<N> {
    /// The nearest first.
    links: Vec<Link<N>>,
    /// Their nodes.
    ranked: Vec<N>,
    /// How many of them are copies of the node.
    copies: usize,
    /// Which child of a copy is looked at first by who looks for room below it: another one each time.
    pub(super) turn: usize,
    /// Whether each of them is in a direction of its own, as far as it is known.
    apart: Vec<Option<bool>>,
    /// The nodes that a node is linked to, without scores.
    pub(super) nodes: Vec<N>,
    theirs: Vec<N>,
}

impl<N> Default for Ranking<N> {
    fn default() -> Self {
        Ranking {
            links: Vec::new(),
            ranked: Vec::new(),
            copies: 0,
            turn: 0,
            apart: Vec::new(),
            nodes: Vec::new(),
            theirs: Vec::new(),
        }
    }
}

impl<N: Copy + Ord> Ranking<N> {
    /// Says which child of a copy is looked at first by who looks for room below it. Writers that keep nothing from one node to the next
    /// say something else for each node: otherwise all copies are put below the same few.
    pub fn begin_with_child(&mut self, child: usize) {
        self.turn = child;
    }

    /// Puts `links`, those of a node, in order.
    fn rank<S: NodesMut<Node = N>>(&mut self, store: &S, node: N) -> Result<(), S::Error> {
        self.links.sort_by(|a, b| a.score.total_cmp(&b.score).then(a.node.cmp(&b.node)));
        self.copies = copies::leading(store, node, &self.links)?;
        self.ranked.clear();
        self.ranked.extend(self.links.iter().map(|link| link.node));
        self.apart.clear();
        self.apart.resize(self.links.len(), None);
        Ok(())
    }

    /// Whether the link at a place is in another direction than all before it that are in directions of their own.
    fn is_apart<S: NodesMut<Node = N>>(&mut self, store: &S, at: usize) -> Result<bool, S::Error> {
        if let Some(Some(known)) = self.apart.get(at) {
            return Ok(*known);
        }
        let mut apart = true;
        if let Some(link) = self.links.get(at).copied() {
            let mut from = self.copies;
            while let Some(others) = self.ranked.get(from..at) {
                let known = self.apart.get(from..at).unwrap_or(&[]);
                let is_in_direction = |at: usize| known.get(at) == Some(&Some(false));
                let near = store.first_within(link.node, link.score, others, is_in_direction)?;
                let Some(before) = near.map(|near| from + near) else { break };
                if self.is_apart(store, before)? {
                    apart = false;
                    break;
                }
                from = before + 1;
            }
        }
        if let Some(place) = self.apart.get_mut(at) {
            *place = Some(apart);
        }
        Ok(apart)
    }

    /// Calls `each` with the nodes, what is needed least first, until it returns true: copies of the node but for one, then the farthest
    /// in the direction of another one, and at last the farthest of those in directions of their own, and the copy.
    fn least_first<S: NodesMut<Node = N>>(
        &mut self,
        store: &S,
        mut each: impl FnMut(&mut Vec<N>, N) -> Result<bool, S::Error>,
    ) -> Result<(), S::Error> {
        for at in (1..self.copies).rev() {
            if let Some(link) = self.links.get(at)
                && each(&mut self.theirs, link.node)?
            {
                return Ok(());
            }
        }
        for apart in [false, true] {
            let one_copy = usize::from(apart && self.copies > 0);
            for at in (0..one_copy).chain(self.copies..self.links.len()).rev() {
                if (at < self.copies || self.is_apart(store, at)? == apart)
                    && let Some(link) = self.links.get(at)
                    && each(&mut self.theirs, link.node)?
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The node to which a node with all the links it can have is linked no longer when it gets a new one: maybe the new one.
    /// `None` if all are between a node and its parent.
    pub(super) fn least<S: NodesMut<Node = N>>(
        &mut self,
        store: &S,
        (node, level): (N, u8),
        new: Link<N>,
        limits: &Limits,
        spare: &[N],
    ) -> Result<Option<N>, S::Error> {
        let is_root = store.root()? == Some(node);
        let parent = self.nodes.first().copied().filter(|_| level == 0 && !is_root);
        let root = store.root()?;
        // How many links the other end has; `None` if its parent is here.
        let count = |theirs: &mut Vec<N>, other: N| {
            store.linked(other, level, theirs)?;
            let is_child = level == 0 && root != Some(other) && is_parent(node, theirs);
            Ok((!is_child && Some(other) != parent).then_some(theirs.len()))
        };
        // Rather one whose other end keeps enough links.
        for other in spare {
            if (*other == new.node || self.nodes.contains(other))
                && count(&mut self.theirs, *other)?.is_some_and(|count| count > limits.enough())
            {
                return Ok(Some(*other));
            }
        }
        let mut links = std::mem::take(&mut self.links);
        store.scored_links(node, level, &mut links)?;
        links.push(new);
        self.links = links;
        self.rank(store, node)?;
        let mut least = None;
        self.least_first(store, |theirs, other| {
            let Some(count) = count(theirs, other)? else { return Ok(false) };
            if count > limits.enough() {
                least = Some(other);
                return Ok(true);
            }
            least.get_or_insert(other);
            Ok(false)
        })?;
        Ok(least)
    }
}

/// Links that can go, for nodes that are about to get more than they can have: what is needed least, found out while nothing
/// changed.
#[derive(Debug)]
pub struct Spare<N> {
    /// In order; where the links of each begin.
    nodes: Vec<(N, u8, usize)>,
    links: Vec<N>,
}

impl<N> Default for Spare<N> {
    fn default() -> Self {
        Spare { nodes: Vec::new(), links: Vec::new() }
    }
}

/// Links beyond those that are too many: not each of them can go when it is to.
const BEYOND: usize = 2;

impl<N: Copy + Ord> Spare<N> {
    /// Adds those of a node that is after all before.
    pub fn push(&mut self, node: N, level: u8, links: &[N]) {
        self.nodes.push((node, level, self.links.len()));
        self.links.extend_from_slice(links);
    }

    /// Those of a node; none if they are not known.
    pub fn of(&self, node: N, level: u8) -> &[N] {
        let Ok(at) = self.nodes.binary_search_by(|(other, of, _)| (*other, *of).cmp(&(node, level))) else {
            return &[];
        };
        let start = |at: usize| self.nodes.get(at).map_or(self.links.len(), |(_, _, start)| *start);
        self.links.get(start(at)..start(at + 1)).unwrap_or(&[])
    }
}

/// The links that can go when a node gets these new ones, what is needed least first; none if it has room for all of them.
pub fn spare_links<S: NodesMut>(
    store: &S,
    node: S::Node,
    level: u8,
    new: impl Iterator<Item = Link<S::Node>>,
    limits: &Limits,
    ranking: &mut Ranking<S::Node>,
) -> Result<Vec<S::Node>, S::Error> {
    let mut links = std::mem::take(&mut ranking.links);
    store.scored_links(node, level, &mut links)?;
    links.extend(new);
    let excess = links.len().saturating_sub(limits.at(level));
    ranking.links = links;
    let mut out = Vec::new();
    if excess > 0 {
        // They are compared with one another.
        ranking.links.iter().for_each(|link| store.prefetch(link.node));
        ranking.rank(store, node)?;
        ranking.least_first(store, |_, other| {
            out.push(other);
            Ok(out.len() == excess + BEYOND)
        })?;
    }
    Ok(out)
}
