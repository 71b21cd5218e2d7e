//! Linking a new node.
//!
//! First it is planned what to link the node to, which only reads the graph; then it is linked. So a batch of nodes can be planned
//! by several threads, each node with those before it in the batch among its candidates, and linked one after another.

use std::collections::VecDeque;

use super::choice::{Ranking, Spare, choose};
use super::copies::{self, MOST_LINKED};
use super::search::{Scratch, descend, in_level};
use super::store::{Link, NodesMut, Visited};

/// How many links a graph has.
///
/// Links go both ways, so a node gives up a link for its own sake and for others': it takes room for three times as many
/// as a new node gets to be found as well as in a graph with one-way links and room for twice as many (measured on 100,000
/// vectors of 128 dimensions in clusters: .981 of the 10 nearest after 460 comparisons against .980 after 452).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Links that a new node gets, and that a node has at most in levels above 0.
    pub links: usize,
    /// Links that a node has at most in level 0.
    pub links_below: usize,
    /// Nodes that are kept by the search for what to link a new node to.
    pub ef: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { links: 16, links_below: 48, ef: 128 }
    }
}

impl Limits {
    /// Links that a node has at most in a level.
    pub fn at(&self, level: u8) -> usize {
        if level == 0 { self.links_below } else { self.links }
    }

    /// A link is taken away only from a node that keeps so many, where there is such a one.
    pub(super) fn enough(&self) -> usize {
        (self.links / 4).max(1)
    }
}

/// The highest level there is.
const TOP: u8 = 24;

/// The level of a new node, from a uniformly distributed number: one in `links` nodes is above each level.
pub fn level_of(random: u64, limits: &Limits) -> u8 {
    let links = limits.links.max(2) as u64;
    let (mut level, mut rest) = (0, random);
    while level < TOP && rest % links == 0 {
        level += 1;
        rest /= links;
    }
    level
}

/// What a new node is to be linked to.
#[derive(Debug)]
pub struct Plan<N> {
    /// The level of the node.
    level: u8,
    /// The links of each level, the highest first.
    chosen: Vec<(u8, Vec<Link<N>>)>,
    /// Nodes with the same vector, if there are so many that the node is only put [below one of them](copies).
    copies: Vec<Link<N>>,
}

impl<N: Copy> Plan<N> {
    /// Every level with its links.
    pub fn links(&self) -> impl Iterator<Item = (u8, &[Link<N>])> {
        self.chosen.iter().map(|(level, links)| (*level, links.as_slice()))
    }

    /// Whether the node is only put below a copy of it: then it is in no level above 0, whatever level it was to be in.
    pub fn is_below_a_copy(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Plans no links in levels above 0 to nodes that turned out to be in none: searches that come to one of these go no farther.
    pub fn leave_out_above(&mut self, is_below: impl Fn(N) -> bool) {
        for (_, links) in self.chosen.iter_mut().filter(|(level, _)| *level > 0) {
            links.retain(|link| !is_below(link.node));
        }
    }
}

/// Links a node that the store has, without links, at `level`. `query` is the node's own vector.
pub fn insert<S: NodesMut>(
    store: &mut S,
    node: S::Node,
    level: u8,
    query: &S::Query<'_>,
    limits: &Limits,
    scratch: &mut Scratch<S::Node, impl Visited<S::Node>>,
) -> Result<(), S::Error> {
    let plan = plan(store, node, level, query, &[], limits, scratch)?;
    link(store, node, &plan, limits, &Spare::default(), &mut scratch.ranking)
}

/// Plans the links of a node of this level that the store has; `query` is its vector. `beside` are nodes, with their levels, that will be linked before it,
/// and are not yet. If one of them is [only put below a copy](Plan::is_below_a_copy), it is to be
/// [left out](Plan::leave_out_above) of the plan.
pub fn plan<S: NodesMut>(
    store: &S,
    node: S::Node,
    level: u8,
    query: &S::Query<'_>,
    beside: &[(S::Node, u8)],
    limits: &Limits,
    scratch: &mut Scratch<S::Node, impl Visited<S::Node>>,
) -> Result<Plan<S::Node>, S::Error> {
    let entry = store.entry()?;
    let mut near_beside = Vec::with_capacity(beside.len());
    if !beside.is_empty() {
        let Scratch { links, scores, .. } = scratch;
        links.clear();
        links.extend(beside.iter().map(|(other, _)| *other));
        store.scores(query, links, scores)?;
        let links = beside.iter().zip(&*scores);
        near_beside.extend(links.map(|((node, level), score)| (Link { score: *score, node: *node }, *level)));
    }
    let mut nearest = Vec::new();
    if let Some((entry, top)) = entry {
        nearest.push((store.score(query, entry)?, entry));
        scratch.visited.clear();
        for above in (level + 1..=top).rev() {
            if let Some(first) = nearest.first_mut() {
                let Scratch { links, scores, visited, compared, .. } = scratch;
                *first = descend(store, query, *first, above, (links, scores), visited, compared)?;
            }
        }
    }
    let linked = entry.map(|(_, level)| level);
    let mut chosen = Vec::new();
    if let Some(top) = linked.max(beside.iter().map(|(_, level)| *level).max()) {
        for level in (0..=level.min(top)).rev() {
            let mut near: Vec<Link<S::Node>> = Vec::with_capacity(limits.ef);
            if linked.is_some_and(|top| level <= top) {
                let from = std::mem::take(&mut nearest);
                if level > 0 || !store.nearest(query, &from, limits.ef, &mut nearest)? {
                    in_level(store, query, &from, level, limits.ef, scratch)?;
                    nearest.extend(scratch.pool.found().map(|found| (found.score, found.node)));
                }
                near.extend(nearest.iter().map(|(score, node)| Link { score: *score, node: *node }));
            }
            let farthest = near.last().filter(|_| near.len() >= limits.ef).map(|last| last.score);
            let is_near = |score: f32| farthest.is_none_or(|farthest| score < farthest);
            let found = near.len();
            near.extend(
                near_beside
                    .iter()
                    .filter(|(link, top)| *top >= level && is_near(link.score))
                    .map(|(link, _)| *link),
            );
            if near.len() > found {
                near.sort_by(|a, b| a.score.total_cmp(&b.score));
                copies::limit_tied(&mut near);
                near.truncate(limits.ef.max(found));
            }
            let copies = copies::take(store, node, &mut near)?;
            if level == 0 && copies.len() >= MOST_LINKED {
                return Ok(Plan { level: 0, chosen: Vec::new(), copies });
            }
            chosen.push((level, choose(store, &near, &copies, limits.links)?));
        }
    }
    Ok(Plan { level, chosen, copies: Vec::new() })
}

/// Links a node as planned; those that were `beside` are linked. `spare` may say which links can go where there are too many.
pub fn link<S: NodesMut>(
    store: &mut S,
    node: S::Node,
    plan: &Plan<S::Node>,
    limits: &Limits,
    spare: &Spare<S::Node>,
    ranking: &mut Ranking<S::Node>,
) -> Result<(), S::Error> {
    let Some((_, top)) = store.entry()? else {
        store.set_root(Some(node))?;
        store.set_entry(Some((node, plan.level)))?;
        return store.settle();
    };
    let mut room = Room { limits, spare, ranking };
    if !plan.copies.is_empty() {
        return copies::put_below(store, node, &plan.copies, &mut room);
    }
    for (level, chosen) in plan.chosen.iter().rev() {
        if *level == 0 {
            attach(store, node, chosen.first().map(|link| link.node), None, &mut room)?;
        }
        for link in chosen {
            connect(store, node, *link, *level, &mut room)?;
        }
    }
    if plan.level > top {
        store.set_entry(Some((node, plan.level)))?;
        store.settle()?;
    }
    Ok(())
}

/// How many links there may be, and what is needed to find those that go when there are more.
pub(super) struct Room<'r, N> {
    pub(super) limits: &'r Limits,
    pub(super) spare: &'r Spare<N>,
    pub(super) ranking: &'r mut Ranking<N>,
}

/// Gives a node without a parent one: `from`, or if that has no room, one below it in the tree, but none below
/// `except`.
pub(super) fn attach<S: NodesMut>(
    store: &mut S,
    node: S::Node,
    from: Option<S::Node>,
    except: Option<S::Node>,
    room: &mut Room<'_, S::Node>,
) -> Result<(), S::Error> {
    let (mut own, mut links, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let mut next: VecDeque<S::Node> = from.into_iter().collect();
    while let Some(parent) = next.pop_front() {
        store.scored_links(node, 0, &mut own)?;
        let known = own.iter().position(|link| link.node == parent);
        let link = match known {
            Some(at) => own.remove(at),
            None => Link { score: store.between(node, parent)?, node: parent },
        };
        own.insert(0, link);
        store.set_links(node, 0, &own)?;
        if known.is_some() || add(store, parent, Link { score: link.score, node }, 0, room)? {
            return store.settle();
        }
        own.remove(0);
        store.set_links(node, 0, &own)?;
        // All its links are to its parent and its children: one of these has room, or one of theirs.
        store.linked(parent, 0, &mut links)?;
        for child in &links {
            store.linked(*child, 0, &mut theirs)?;
            let other = *child != node && Some(*child) != except;
            if is_parent(parent, &theirs) && other && store.root()? != Some(*child) {
                next.push_back(*child);
            }
        }
    }
    Ok(())
}

/// Links two nodes, unless they are or one of them has no room.
pub(super) fn connect<S: NodesMut>(
    store: &mut S,
    node: S::Node,
    link: Link<S::Node>,
    level: u8,
    room: &mut Room<'_, S::Node>,
) -> Result<(), S::Error> {
    let own = &mut room.ranking.nodes;
    store.linked(node, level, own)?;
    if own.len() >= room.limits.at(level) || own.contains(&link.node) {
        return Ok(());
    }
    store.add_link(node, level, link)?;
    if !add(store, link.node, Link { score: link.score, node }, level, room)? {
        store.remove_link(node, level, link.node)?;
    }
    store.settle()
}

/// Whether a node with these links in level 0 has this parent. (Of the root it says nothing.)
pub(super) fn is_parent<N: Copy + Ord>(parent: N, links: &[N]) -> bool {
    links.first() == Some(&parent)
}

/// Adds a link to a node whose other end has it already. If there are too many then, one goes, at both ends: maybe the new
/// one, but not one between a node and its parent. False, and no change, if none can go.
fn add<S: NodesMut>(
    store: &mut S,
    node: S::Node,
    new: Link<S::Node>,
    level: u8,
    room: &mut Room<'_, S::Node>,
) -> Result<bool, S::Error> {
    let Room { limits, spare, ranking } = room;
    store.linked(node, level, &mut ranking.nodes)?;
    if ranking.nodes.len() < limits.at(level) {
        store.add_link(node, level, new)?;
        return Ok(true);
    }
    let spare = spare.of(node, level);
    let Some(gone) = ranking.least(store, (node, level), new, limits, spare)? else { return Ok(false) };
    if gone != new.node {
        store.replace_link(node, level, gone, new)?;
    }
    store.remove_link(gone, level, node)?;
    Ok(true)
}
