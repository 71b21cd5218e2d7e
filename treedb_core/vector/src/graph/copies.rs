//! Copies: nodes with the same vector, be it that of an empty text, or of older versions of a row.
//!
//! All copies of a vector are as far from a query, so a search that has come to many of them sees no nearer node until it expands a copy
//! that is linked to one. If copies were linked like other nodes, most of them would have links to copies only, and searches would end at
//! these. So only the first few, [`MOST_LINKED`], are. Each of the others gets a parent among the copies, in the tree of level 0, and no other
//! link, and it is in no level above. So a search comes to those few before it comes to the others.
//!
//! When a copy that is linked to other nodes is removed, a copy that was linked to it gets these links.

use std::cmp::Reverse;

use super::insert::{Room, attach, connect, is_parent};
use super::search::TIED;
use super::store::{Link, NodesMut};

/// Copies of one vector that are linked as other nodes are. Versions of one row are seldom more.
pub(super) const MOST_LINKED: usize = 16;

/// How far down the tree a place for a copy is looked for: with three links for each node there are places for more copies than there
/// are node numbers.
const DEPTH: usize = 64;

/// How many of these nodes, from the first one on, have the same vector as a node.
///
/// Where the nearest come first, these are all of them, but under the inner product, where longer vectors are nearer.
pub(super) fn leading<S: NodesMut>(
    store: &S,
    node: S::Node,
    near: &[Link<S::Node>],
) -> Result<usize, S::Error> {
    for (at, link) in near.iter().enumerate() {
        if !store.is_copy(node, link.node)? {
            return Ok(at);
        }
    }
    Ok(near.len())
}

/// Takes the copies of a node away from nodes that are near, the nearest first, and returns them.
///
/// Only the first ones are looked at, and those that are exactly as far as another one: under the inner product, where copies need not be the
/// first, a single one is not found, which is linked as any other node.
pub(super) fn take<S: NodesMut>(
    store: &S,
    node: S::Node,
    near: &mut Vec<Link<S::Node>>,
) -> Result<Vec<Link<S::Node>>, S::Error> {
    const FIRST: usize = 2;
    let mut copies = Vec::new();
    let mut last = None;
    for (at, link) in near.iter().enumerate() {
        let next = near.get(at + 1).map(|next| next.score);
        let is_tied = last == Some(link.score) || next == Some(link.score);
        if (at < FIRST || is_tied) && store.is_copy(node, link.node)? {
            copies.push(*link);
        }
        last = Some(link.score);
    }
    if !copies.is_empty() {
        near.retain(|link| !copies.iter().any(|copy| copy.node == link.node));
    }
    Ok(copies)
}

/// Of nodes that are exactly as far as each other, as a search keeps them, leaves [`TIED`].
pub fn limit_tied<N: Copy>(near: &mut Vec<Link<N>>) {
    let (mut last, mut tied) = (None, 0);
    near.retain(|link| {
        tied = if last == Some(link.score) { tied + 1 } else { 0 };
        last = Some(link.score);
        tied < TIED
    });
}

/// Puts a node below one of its copies in the tree.
pub(super) fn put_below<S: NodesMut>(
    store: &mut S,
    node: S::Node,
    copies: &[Link<S::Node>],
    room: &mut Room<'_, S::Node>,
) -> Result<(), S::Error> {
    let parent = parent(store, node, copies, room)?;
    attach(store, node, parent, None, room)
}

/// A copy that has room for one more link, if there is one.
fn parent<S: NodesMut>(
    store: &S,
    node: S::Node,
    copies: &[Link<S::Node>],
    room: &mut Room<'_, S::Node>,
) -> Result<Option<S::Node>, S::Error> {
    let most = room.limits.at(0);
    let (mut links, mut theirs) = (Vec::new(), Vec::new());
    // Those with other links were met first: they are to keep them.
    for copy in copies.iter().rev() {
        store.linked(copy.node, 0, &mut links)?;
        if links.len() < most {
            return Ok(Some(copy.node));
        }
    }
    let last = copies.last().map(|copy| copy.node);
    let mut at = last;
    for _ in 0..DEPTH {
        let Some(full) = at else { break };
        store.linked(full, 0, &mut links)?;
        room.ranking.turn = room.ranking.turn.wrapping_add(1);
        let (before, after) = links.split_at(room.ranking.turn % links.len().max(1));
        let mut below = None;
        for child in after.iter().chain(before) {
            store.linked(*child, 0, &mut theirs)?;
            let is_of_use = theirs.len() < most || below.is_none();
            if *child == node || !is_of_use || !is_parent(full, &theirs) || !store.is_copy(node, *child)? {
                continue;
            }
            if theirs.len() < most {
                return Ok(Some(*child));
            }
            below = Some(*child);
        }
        at = below;
    }
    Ok(last)
}

/// The child of a node that its other children with the same vector are to be put below when it is removed, which becomes the second of
/// the node's links: the first child to get another parent. So the new parent needs one place only. `None` if there is no such child.
pub(super) fn first_child<S: NodesMut>(
    store: &S,
    node: S::Node,
    links: &mut [Link<S::Node>],
) -> Result<Option<S::Node>, S::Error> {
    let [_, others @ ..] = links else { return Ok(None) };
    let (mut fewest, mut theirs) = (None, Vec::new());
    for (at, link) in others.iter().enumerate() {
        store.linked(link.node, 0, &mut theirs)?;
        let is_fewer = fewest.is_none_or(|(fewest, _)| theirs.len() < fewest);
        if is_fewer && is_parent(node, &theirs) && store.is_copy(node, link.node)? {
            fewest = Some((theirs.len(), at));
        }
    }
    let Some((_, at)) = fewest else { return Ok(None) };
    others.swap(0, at);
    Ok(others.first().map(|first| first.node))
}

/// Links a copy of a node that has just been removed, one that was linked to it, to the other nodes that it was linked to. Returns the
/// links to those.
pub(super) fn inherit<S: NodesMut>(
    store: &mut S,
    removed: S::Node,
    links: Vec<Link<S::Node>>,
    room: &mut Room<'_, S::Node>,
) -> Result<Vec<Link<S::Node>>, S::Error> {
    let (mut copies, mut others, mut theirs) = (Vec::new(), Vec::with_capacity(links.len()), Vec::new());
    for link in links {
        if store.is_copy(removed, link.node)? {
            store.linked(link.node, 0, &mut theirs)?;
            copies.push((theirs.len(), link));
        } else {
            others.push(link);
        }
    }
    // The one with the fewest links needs others most; if all are full, one below them.
    copies.sort_by_key(|(count, _)| Reverse(*count));
    let copies: Vec<Link<S::Node>> = copies.into_iter().map(|(_, link)| link).collect();
    if let Some(heir) = parent(store, removed, &copies, room)? {
        for link in &others {
            connect(store, heir, *link, 0, room)?;
        }
    }
    Ok(others)
}
