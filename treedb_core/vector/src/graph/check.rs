//! Whether a graph is what it should be.

use std::collections::BTreeSet;

use super::insert::Limits;
use super::store::NodesMut;

/// What is wrong with a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage<N> {
    /// There are nodes, but none to begin at, or the one to begin at is not there or is not of the level that is said.
    Entry,
    /// A node has more links in a level than the limits say.
    TooMany(N, u8),
    /// A node links to itself, or to another one twice.
    Repeated(N, u8),
    /// A node links to one that is not there, is not in that level, or does not link back.
    OneWay(N, u8, N),
    /// Its parents do not lead to the root.
    Unreachable(N),
}

/// Checks a graph whose nodes are `nodes`; returns all that is wrong with it.
pub fn check<S: NodesMut>(
    store: &S,
    nodes: &BTreeSet<S::Node>,
    limits: &Limits,
) -> Result<Vec<Damage<S::Node>>, S::Error> {
    let mut damage = Vec::new();
    let (mut links, mut theirs) = (Vec::new(), Vec::new());
    for node in nodes {
        for level in 0..=store.level(*node)? {
            store.links(*node, level, &mut links)?;
            if links.len() > limits.at(level) {
                damage.push(Damage::TooMany(*node, level));
            }
            let different: BTreeSet<S::Node> = links.iter().copied().collect();
            if different.len() < links.len() || different.contains(node) {
                damage.push(Damage::Repeated(*node, level));
            }
            for other in different {
                let mut goes_back = nodes.contains(&other) && store.level(other)? >= level;
                if goes_back {
                    store.links(other, level, &mut theirs)?;
                    goes_back = theirs.contains(node);
                }
                if !goes_back {
                    damage.push(Damage::OneWay(*node, level, other));
                }
            }
        }
    }
    // Nodes of a higher level than the entry's are sound: an interrupted insertion or removal leaves such ones.
    let is_sound = match store.entry()? {
        Some((entry, level)) => nodes.contains(&entry) && store.level(entry)? == level,
        None => nodes.is_empty(),
    };
    if !is_sound {
        damage.push(Damage::Entry);
    }
    let root = store.root()?;
    let mut reached: BTreeSet<S::Node> = root.into_iter().collect();
    for node in nodes {
        let (mut way, mut at) = (BTreeSet::new(), *node);
        while !reached.contains(&at) && way.insert(at) {
            store.links(at, 0, &mut links)?;
            let Some(parent) = links.first() else { break };
            at = *parent;
        }
        if reached.contains(&at) {
            reached.extend(way);
        } else {
            damage.push(Damage::Unreachable(*node));
        }
    }
    Ok(damage)
}
