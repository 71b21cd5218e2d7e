//! Removing a node.

use super::choice::{Ranking, Spare, choose};
use super::copies;
use super::insert::{Limits, Room, attach, connect, is_parent};
use super::store::{Link, NodesMut};

/// Takes a node out of the graph, and links those that linked to it to each other, so that what was near stays near. The
/// store may then forget the node. If searches begin at the node, another one takes its place: one that it is linked to in
/// its highest level. So only neighbours are read, however many nodes there are.
///
/// The node loses its links one by one, those above level 0 first, the one to its parent last.
pub fn delete<S: NodesMut>(store: &mut S, node: S::Node, limits: &Limits) -> Result<(), S::Error> {
    let mut room = Room { limits, spare: &Spare::default(), ranking: &mut Ranking::default() };
    let mut links = Vec::new();
    store.scored_links(node, 0, &mut links)?;
    let is_root = store.root()? == Some(node);
    if is_root && links.is_empty() {
        store.set_root(None)?;
        store.set_entry(None)?;
        return store.settle();
    }
    if store.entry()?.is_some_and(|(entry, _)| entry == node) {
        let other = next_entry(store, node)?;
        store.set_entry(other)?;
        store.settle()?;
    }
    for level in (1..=store.level(node)?).rev() {
        store.scored_links(node, level, &mut links)?;
        for link in &links {
            disconnect(store, node, link.node, level)?;
            store.settle()?;
        }
        for link in &links {
            relink(store, link.node, &links, level, &mut room)?;
        }
    }
    if is_root {
        hand_over(store, node)?;
    }
    store.scored_links(node, 0, &mut links)?;
    let parent = links.first().map(|first| first.node);
    let mut theirs = Vec::new();
    let first_copy = copies::first_child(store, node, &mut links)?;
    for link in links.iter().skip(1) {
        store.linked(link.node, 0, &mut theirs)?;
        let is_child = store.root()? != Some(link.node) && is_parent(node, &theirs);
        disconnect(store, node, link.node, 0)?;
        if is_child {
            // Copies stay together.
            let from = match first_copy.filter(|first| *first != link.node) {
                Some(first) if store.is_copy(node, link.node)? => Some(first),
                _ => parent,
            };
            attach(store, link.node, from, Some(node), &mut room)?;
        }
        store.settle()?;
    }
    if let Some(parent) = parent {
        disconnect(store, node, parent, 0)?;
        store.settle()?;
    }
    // Copies of the node are linked by the tree, and one of them is linked to all others now.
    let others = copies::inherit(store, node, links, &mut room)?;
    for link in &others {
        relink(store, link.node, &others, 0, &mut room)?;
    }
    Ok(())
}

/// Where searches are to begin instead of at `entry`: of the nodes that it is linked to in the highest level where it has
/// links, one of the highest level. The root, if it has none.
fn next_entry<S: NodesMut>(store: &S, entry: S::Node) -> Result<Option<(S::Node, u8)>, S::Error> {
    let mut links = Vec::new();
    for level in (0..=store.level(entry)?).rev() {
        store.links(entry, level, &mut links)?;
        if !links.is_empty() {
            break;
        }
    }
    links.extend(store.root()?.filter(|_| links.is_empty()));
    let (mut highest, mut theirs) = (None, Vec::new());
    for node in links {
        // Copies of a vector may have levels in which they are not linked.
        let mut linked = store.level(node)?;
        while linked > 0 {
            store.links(node, linked, &mut theirs)?;
            if !theirs.is_empty() {
                break;
            }
            linked -= 1;
        }
        highest = highest.max(Some((linked, store.level(node)?, node)));
    }
    Ok(highest.map(|(_, level, node)| (node, level)))
}

/// Makes a child of the root the root; the old root becomes its child.
fn hand_over<S: NodesMut>(store: &mut S, root: S::Node) -> Result<(), S::Error> {
    let (mut links, mut theirs) = (Vec::new(), Vec::new());
    store.scored_links(root, 0, &mut links)?;
    for at in 0..links.len() {
        let Some(link) = links.get(at).copied() else { continue };
        store.linked(link.node, 0, &mut theirs)?;
        if is_parent(root, &theirs) {
            links.remove(at);
            links.insert(0, link);
            store.set_links(root, 0, &links)?;
            store.set_root(Some(link.node))?;
            break;
        }
    }
    store.settle()
}

/// Takes the links between two nodes away.
fn disconnect<S: NodesMut>(store: &mut S, a: S::Node, b: S::Node, level: u8) -> Result<(), S::Error> {
    store.remove_link(a, level, b)?;
    store.remove_link(b, level, a)
}

/// Links a node that has lost a link to one of `near`, the nearest that it is not linked to.
fn relink<S: NodesMut>(
    store: &mut S,
    node: S::Node,
    near: &[Link<S::Node>],
    level: u8,
    room: &mut Room<'_, S::Node>,
) -> Result<(), S::Error> {
    let mut own = Vec::new();
    store.linked(node, level, &mut own)?;
    let mut others: Vec<Link<S::Node>> = Vec::new();
    for other in near {
        if other.node != node && !own.contains(&other.node) {
            others.push(Link { score: store.between(node, other.node)?, node: other.node });
        }
    }
    others.sort_by(|a, b| a.score.total_cmp(&b.score).then(a.node.cmp(&b.node)));
    // Under the inner product its copies need not be the nearest: it is rather linked to what is.
    match choose(store, &others, &[], 1)?.first() {
        Some(link) => connect(store, node, *link, level, room),
        None => Ok(()),
    }
}
