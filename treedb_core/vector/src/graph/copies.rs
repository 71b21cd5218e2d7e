//! Nodes with the same vector: of an empty text, or of a row and its older versions.
//!
//! To a search, a crowd of copies is a plateau: it sees many nodes that are as far, and none that is nearer, until it comes to one with
//! links to other nodes. If copies were linked like other nodes, most of them would have links to copies only, and searches that meet such a
//! one would end there. So only the first few, [`MOST_LINKED`], are. Each of the others is put below one of them in the tree
//! of level 0, and has no other links, and no place in the levels above. Then a search meets those few before all others.
//!
//! When a copy with links is removed, one that is below it inherits them.

use super::insert::{Room, attach, connect, is_parent};
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
            if *child == node || !is_parent(full, &theirs) || !store.is_copy(node, *child)? {
                continue;
            }
            if theirs.len() < most {
                return Ok(Some(*child));
            }
            below = below.or(Some(*child));
        }
        at = below;
    }
    Ok(last)
}

/// Links a node that was below another one with the same vector, which is being removed, to what that one was linked to.
pub(super) fn inherit<S: NodesMut>(
    store: &mut S,
    removed: S::Node,
    links: &[Link<S::Node>],
    room: &mut Room<'_, S::Node>,
) -> Result<(), S::Error> {
    let (mut copies, mut theirs) = (Vec::new(), Vec::new());
    for link in links {
        if store.is_copy(removed, link.node)? {
            store.linked(link.node, 0, &mut theirs)?;
            copies.push((theirs.len(), link.node));
        }
    }
    // The one with the fewest links needs others most.
    let Some((_, heir)) = copies.iter().min() else { return Ok(()) };
    for link in links {
        if !store.is_copy(removed, link.node)? {
            connect(store, *heir, *link, 0, room)?;
        }
    }
    Ok(())
}
