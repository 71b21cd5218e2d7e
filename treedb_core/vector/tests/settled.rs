//! What a store finds at every `settle`: a graph that holds together, after a change of at most four nodes. Then a crash
//! between any two of them loses no node.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use treedb_testing::Rng;
use treedb_vector::graph::{self, Hashed, Limits, Link, Nodes, NodesMut, Scratch, Walk};
use treedb_vector::metric::Metric;

#[derive(Default)]
struct Node {
    vector: Vec<f32>,
    levels: Vec<Vec<Link<u32>>>,
}

#[derive(Default)]
struct Store {
    nodes: BTreeMap<u32, Node>,
    entry: Option<(u32, u8)>,
    root: Option<u32>,
    changed: BTreeSet<u32>,
    limits: Limits,
    settled: usize,
}

impl Nodes for Store {
    type Node = u32;
    type Query<'q> = &'q [f32];
    type Error = Infallible;

    fn entry(&self) -> Result<Option<(u32, u8)>, Infallible> {
        Ok(self.entry)
    }

    fn links(&self, node: u32, level: u8, out: &mut Vec<u32>) -> Result<(), Infallible> {
        out.clear();
        out.extend(self.nodes[&node].levels[usize::from(level)].iter().map(|link| link.node));
        Ok(())
    }

    fn score(&self, query: &&[f32], node: u32) -> Result<f32, Infallible> {
        Ok(Metric::L2.distance(query, &self.nodes[&node].vector))
    }

    fn prefetch(&self, _: u32) {}

    fn prefetch_links(&self, _: u32) {}
}

impl NodesMut for Store {
    fn root(&self) -> Result<Option<u32>, Infallible> {
        Ok(self.root)
    }

    fn set_root(&mut self, root: Option<u32>) -> Result<(), Infallible> {
        self.root = root;
        Ok(())
    }

    fn set_entry(&mut self, entry: Option<(u32, u8)>) -> Result<(), Infallible> {
        self.entry = entry;
        Ok(())
    }

    fn scored_links(&self, node: u32, level: u8, out: &mut Vec<Link<u32>>) -> Result<(), Infallible> {
        out.clear();
        out.extend(&self.nodes[&node].levels[usize::from(level)]);
        Ok(())
    }

    fn set_links(&mut self, node: u32, level: u8, links: &[Link<u32>]) -> Result<(), Infallible> {
        let place = &mut self.nodes.get_mut(&node).unwrap().levels[usize::from(level)];
        if place != links {
            *place = links.to_vec();
            self.changed.insert(node);
        }
        Ok(())
    }

    fn level(&self, node: u32) -> Result<u8, Infallible> {
        Ok(self.nodes[&node].levels.len() as u8 - 1)
    }

    fn between(&self, a: u32, b: u32) -> Result<f32, Infallible> {
        self.score(&&self.nodes[&a].vector[..], b)
    }

    fn is_copy(&self, a: u32, b: u32) -> Result<bool, Infallible> {
        Ok(self.nodes[&a].vector == self.nodes[&b].vector)
    }

    fn settle(&mut self) -> Result<(), Infallible> {
        assert!(self.changed.len() <= 4, "{} nodes changed at once", self.changed.len());
        self.changed.clear();
        self.settled += 1;
        // A node that has no links yet, or no longer, is not in the graph, and searches do not begin there.
        let linked = |node: &Node| node.levels.iter().any(|links| !links.is_empty());
        let nodes = self.nodes.iter().filter(|(node, held)| self.root == Some(**node) || linked(held));
        let nodes: BTreeSet<u32> = nodes.map(|(node, _)| *node).collect();
        let Ok(damage) = graph::check(self, &nodes, &self.limits);
        assert_eq!(damage, [], "after {} changes", self.settled);
        for (node, held) in self.nodes.iter().filter(|(node, _)| self.root != Some(**node)) {
            let [below, above @ ..] = &held.levels[..] else { panic!("no levels") };
            assert!(!below.is_empty() || above.iter().all(Vec::is_empty), "{node} is linked above only");
        }
        Ok(())
    }
}

#[test]
fn the_graph_holds_together_after_every_change_of_four_nodes() {
    // Vectors of a few different ones are copies, most of which are only put below others.
    for (links, different) in [(2, 6), (6, 6), (2, 2), (6, 2)] {
        let limits = Limits { links, links_below: 3 * links, ef: 20 };
        let mut store = Store { limits, ..Store::default() };
        let (mut rng, mut scratch) = (Rng::new(links as u64), Scratch::<u32, Hashed>::default());
        for round in 0..500_u32 {
            if round % 3 == 2 && store.nodes.len() > 40 || round >= 470 {
                let all: Vec<u32> = store.nodes.keys().copied().collect();
                let Some(node) = all.get(rng.below(all.len().max(1))) else { break };
                // Now and then the root or the entry.
                let node = match rng.below(5) {
                    0 => store.root.unwrap(),
                    1 => store.entry.unwrap().0,
                    _ => *node,
                };
                let Ok(()) = graph::delete(&mut store, node, &limits);
                store.nodes.remove(&node);
                continue;
            }
            // Many are the same.
            let vector: Vec<f32> = (0..3).map(|_| rng.below(different) as f32).collect();
            let level = graph::level_of(rng.next_u64(), &limits);
            let levels = vec![Vec::new(); usize::from(level) + 1];
            store.nodes.insert(round, Node { vector: vector.clone(), levels });
            let Ok(()) = graph::insert(&mut store, round, level, &&vector[..], &limits, &mut scratch);
        }
        assert!(store.settled > 500, "{}", store.settled);
    }
}

#[test]
fn an_entry_that_is_removed_is_replaced_by_the_highest_node_that_it_was_linked_to() {
    let mut store = filled(400);
    for _ in 0..100 {
        let (entry, top) = store.entry.unwrap();
        let links = (0..=top).rev().map(|level| &store.nodes[&entry].levels[usize::from(level)]);
        let links = links.into_iter().find(|links| !links.is_empty()).unwrap();
        let highest = links.iter().map(|link| store.nodes[&link.node].levels.len() as u8 - 1).max();
        let near: Vec<u32> = links.iter().map(|link| link.node).collect();
        let limits = store.limits;
        let Ok(()) = graph::delete(&mut store, entry, &limits);
        store.nodes.remove(&entry);
        let (entry, level) = store.entry.unwrap();
        assert!(near.contains(&entry), "{entry} was not linked to the entry");
        assert_eq!(Some(level), highest);
    }
}

/// A store of so many nodes.
fn filled(count: u32) -> Store {
    let limits = Limits { links: 4, links_below: 12, ef: 20 };
    let mut store = Store { limits, ..Store::default() };
    let (mut rng, mut scratch) = (Rng::new(9), Scratch::<u32, Hashed>::default());
    for node in 0..count {
        let vector: Vec<f32> = (0..3).map(|_| rng.below(100) as f32).collect();
        let level = graph::level_of(rng.next_u64(), &limits);
        let levels = vec![Vec::new(); usize::from(level) + 1];
        store.nodes.insert(node, Node { vector: vector.clone(), levels });
        let Ok(()) = graph::insert(&mut store, node, level, &&vector[..], &limits, &mut scratch);
    }
    store
}

/// A store from which nodes are unlinked just before a search reads their links in level 0, until so many are.
struct Unlinking {
    store: RefCell<Store>,
    left: Cell<u32>,
}

impl Nodes for Unlinking {
    type Node = u32;
    type Query<'q> = &'q [f32];
    type Error = Infallible;

    fn entry(&self) -> Result<Option<(u32, u8)>, Infallible> {
        self.store.borrow().entry()
    }

    fn links(&self, node: u32, level: u8, out: &mut Vec<u32>) -> Result<(), Infallible> {
        if level == 0 && self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            let limits = self.store.borrow().limits;
            graph::delete(&mut *self.store.borrow_mut(), node, &limits)?;
        }
        self.store.borrow().links(node, level, out)
    }

    fn score(&self, query: &&[f32], node: u32) -> Result<f32, Infallible> {
        self.store.borrow().score(query, node)
    }

    fn prefetch(&self, _: u32) {}

    fn prefetch_links(&self, _: u32) {}
}

/// How many of so many nodes a walk finds; it may find more, if some are exactly as far.
fn found(store: &Unlinking, wanted: usize) -> usize {
    let (mut walk, query) = (Walk::default(), &[50.0, 50.0, 50.0][..]);
    let Ok(()) = walk.begin(store, &query);
    let Ok(()) = walk.search(store, &query, wanted, usize::MAX);
    walk.count().min(wanted)
}

#[test]
fn a_search_whose_node_is_unlinked_under_it_begins_again() {
    for unlinked in [0, 1, 5] {
        let store = Unlinking { store: RefCell::new(filled(200)), left: Cell::new(unlinked) };
        assert_eq!(found(&store, 20), 20, "after {unlinked} removals");
        assert_eq!(store.left.get(), 0);
    }
}

#[test]
fn a_search_finds_the_only_node_or_none() {
    for count in [0, 1] {
        let store = Unlinking { store: RefCell::new(filled(count)), left: Cell::new(0) };
        assert_eq!(found(&store, 20), count as usize);
    }
}
