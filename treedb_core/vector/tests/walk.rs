//! Searches that go on, by scores and by estimates of them that are off by as much as they are said to be.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::cell::{Cell, RefCell};
use std::convert::Infallible;

use treedb_testing::Rng;
use treedb_vector::graph::{Estimate, Limits, Nodes, Walk};
use treedb_vector::memory::MemoryGraph;
use treedb_vector::metric::Metric;

const DIMENSIONS: usize = 8;

/// A graph that estimates scores, unless its errors are 0.
struct Noisy {
    graph: MemoryGraph,
    error: f32,
    rng: RefCell<Rng>,
    expanded: Cell<usize>,
}

impl Noisy {
    fn exact(&self, query: &[f32], node: u32) -> f32 {
        Metric::L2.distance(query, self.graph.vector(node))
    }
}

impl Nodes for Noisy {
    type Node = u32;
    type Query<'q> = &'q [f32];
    type Error = Infallible;

    fn entry(&self) -> Result<Option<(u32, u8)>, Infallible> {
        self.graph.entry()
    }

    fn links(&self, node: u32, level: u8, out: &mut Vec<u32>) -> Result<(), Infallible> {
        self.graph.links(node, level, out)
    }

    fn estimates(
        &self,
        query: &&[f32],
        node: u32,
        out: &mut Vec<Estimate<u32>>,
    ) -> Result<Option<f32>, Infallible> {
        self.expanded.set(self.expanded.get() + 1);
        if self.error == 0.0 {
            return Ok(None);
        }
        let mut links = Vec::new();
        self.links(node, 0, &mut links)?;
        out.clear();
        out.extend(links.into_iter().map(|node| {
            let mut rng = self.rng.borrow_mut();
            // Some know better than others.
            let error = self.error * (1 + rng.below(3)) as f32;
            let off = error * (rng.below(2001) as f32 / 1000.0 - 1.0);
            Estimate { node, score: self.exact(query, node) + off, error }
        }));
        Ok(Some(self.exact(query, node)))
    }

    fn score(&self, query: &&[f32], node: u32) -> Result<f32, Infallible> {
        Ok(self.exact(query, node))
    }

    fn prefetch(&self, _: u32) {}

    fn prefetch_links(&self, _: u32) {}
}

fn vector(rng: &mut Rng) -> Vec<f32> {
    (0..DIMENSIONS).map(|_| rng.below(1000) as f32 / 100.0).collect()
}

fn noisy(count: usize, error: f32) -> Noisy {
    let mut rng = Rng::new(11);
    let limits = Limits { links: 8, links_below: 24, ef: 40 };
    let mut graph = MemoryGraph::new(Metric::L2, DIMENSIONS, limits);
    for _ in 0..count {
        graph.insert(&vector(&mut rng)).unwrap();
    }
    Noisy { graph, error, rng: RefCell::new(rng), expanded: Cell::new(0) }
}

#[test]
fn the_nearest_are_found_in_order_whether_scores_are_known_or_estimated() {
    let mut walk = Walk::default();
    for error in [0.0, 0.1, 0.5] {
        let store = noisy(2000, error);
        let (mut rng, mut found) = (Rng::new(12), 0);
        for _ in 0..50 {
            let query = &vector(&mut rng)[..];
            let mut exact: Vec<f32> = (0..2000).map(|node| store.exact(query, node)).collect();
            exact.sort_by(f32::total_cmp);
            let Ok(()) = walk.begin(&store, &query);
            let Ok(()) = walk.search(&store, &query, 60, usize::MAX);
            let scores: Vec<f32> = walk.found().map(|found| found.score).collect();
            assert!(scores.is_sorted() && scores.len() >= 60);
            assert!(walk.found().all(|found| found.score == store.exact(query, found.node)));
            found += scores.iter().take(10).filter(|score| **score <= exact[9]).count();
        }
        assert!(found >= 490, "{found} of 500 with errors of {error}");
        // Of 2,000 nodes.
        assert!(store.expanded.get() < 50 * 300, "{} expanded with errors of {error}", store.expanded.get());
    }
}

#[test]
fn a_walk_to_the_end_finds_every_node_once() {
    for error in [0.0, 0.3] {
        for wanted in [1, 10, 300] {
            let store = noisy(1000, error);
            let (mut walk, query) = (Walk::default(), &vector(&mut Rng::new(13))[..]);
            let Ok(()) = walk.begin(&store, &query);
            let (mut nodes, mut late, mut farthest) = (Vec::new(), 0, 0.0);
            loop {
                if nodes.len() == 20 {
                    walk.go_on();
                }
                let Ok(()) = walk.search(&store, &query, wanted, usize::MAX);
                let Some(found) = walk.take() else { break };
                nodes.push(found.node);
                late += usize::from(found.score < farthest);
                farthest = found.score.max(farthest);
            }
            nodes.sort_unstable();
            assert_eq!(nodes, (0..1000).collect::<Vec<_>>());
            assert!(wanted < 300 || late < 10, "{late} were late with errors of {error}");
        }
    }
}

#[test]
fn a_budget_ends_a_walk_with_the_nodes_that_it_has_met() {
    for error in [0.0, 0.3] {
        let store = noisy(1000, error);
        let (mut walk, query) = (Walk::default(), &vector(&mut Rng::new(14))[..]);
        let Ok(()) = walk.begin(&store, &query);
        let mut count = 0;
        loop {
            let Ok(()) = walk.search(&store, &query, 5, 200);
            match walk.take() {
                Some(_) => count += 1,
                None => break,
            }
        }
        // The last node that was expanded may have brought more; in the levels above, nodes were compared too.
        assert!((150..230).contains(&count) && count <= walk.compared(), "{count} of {}", walk.compared());
    }
}

#[test]
fn a_walk_can_be_used_again() {
    let store = noisy(500, 0.2);
    let mut walk = Walk::default();
    for seed in 0..20 {
        let query = &vector(&mut Rng::new(seed))[..];
        let Ok(()) = walk.begin(&store, &query);
        walk.go_on();
        let Ok(()) = walk.search(&store, &query, 500, usize::MAX);
        assert_eq!(walk.count(), 500);
    }
    let Ok(()) = walk.begin(&noisy(0, 0.2), &&[0.0; DIMENSIONS][..]);
    assert_eq!(walk.take(), None);
}
