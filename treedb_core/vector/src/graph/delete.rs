//! Removing a node.

use super::insert::{Limits, attach, choose, connect, is_parent};
use super::store::{Link, NodesMut};

/// Takes a node out of the graph, and links those that linked to it to each other, so that what was near stays near. The
/// store may then forget the node. `highest` names a node of the highest level there is besides this one; it is asked
/// only if searches begin at the node.
pub fn delete<S: NodesMut>(
    store: &mut S,
    node: S::Node,
    limits: &Limits,
    highest: impl FnOnce(&S) -> Result<Option<(S::Node, u8)>, S::Error>,
) -> Result<(), S::Error> {
    let (mut links, mut theirs) = (Vec::new(), Vec::new());
    for level in 0..=store.level(node)? {
        store.scored_links(node, level, &mut links)?;
        store.set_links(node, level, &[])?;
        let mut orphans = Vec::new();
        let root = store.root()?;
        for link in &links {
            store.scored_links(link.node, level, &mut theirs)?;
            if level == 0 && root != Some(link.node) && is_parent(node, &theirs) {
                orphans.push(link.node);
            }
            theirs.retain(|other| other.node != node);
            store.set_links(link.node, level, &theirs)?;
        }
        if level == 0 {
            let mut parent = links.first().map(|first| first.node);
            if root == Some(node) {
                // One of its children takes its place: where there are other nodes, it has some.
                parent = (!orphans.is_empty()).then(|| orphans.remove(0));
                store.set_root(parent)?;
            }
            for (at, orphan) in orphans.iter().enumerate() {
                attach(store, *orphan, parent, orphans.get(at + 1..).unwrap_or(&[]), limits)?;
            }
        }
        for link in &links {
            replace_link(store, link.node, &links, level, limits)?;
        }
    }
    if store.entry()?.is_some_and(|(entry, _)| entry == node) {
        let other = highest(store)?;
        store.set_entry(other)?;
    }
    Ok(())
}

/// Links a node that has lost a link to one of `near`, the nearest that it is not linked to.
fn replace_link<S: NodesMut>(
    store: &mut S,
    node: S::Node,
    near: &[Link<S::Node>],
    level: u8,
    limits: &Limits,
) -> Result<(), S::Error> {
    let (mut own, mut chosen) = (Vec::new(), Vec::new());
    store.scored_links(node, level, &mut own)?;
    let mut others: Vec<Link<S::Node>> = Vec::new();
    for other in near {
        if other.node != node && own.iter().all(|known| known.node != other.node) {
            others.push(Link { score: store.between(node, other.node)?, node: other.node });
        }
    }
    others.sort_by(|a, b| a.score.total_cmp(&b.score).then(a.node.cmp(&b.node)));
    choose(store, others, 1, &mut chosen)?;
    match chosen.first() {
        Some(link) => connect(store, node, *link, level, limits),
        None => Ok(()),
    }
}
