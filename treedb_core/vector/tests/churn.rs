//! What inserts and removals do to recall, beside what a graph has that is built of the same vectors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use treedb_testing::Clusters;
use treedb_vector::graph::Limits;
use treedb_vector::memory::{MemoryGraph, Searcher};
use treedb_vector::metric::Metric;

const DIMENSIONS: usize = 512;
const NODES: usize = 6000;

fn limits(links: usize, ef: usize) -> Limits {
    Limits { links, links_below: 3 * links, ef }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Recall of the ten nearest among `vectors`, which are the nodes of a graph.
fn recall(graph: &MemoryGraph, vectors: &[(u32, Vec<f32>)], queries: &[Vec<f32>], ef: usize) -> f64 {
    let (mut searcher, mut hits) = (Searcher::default(), 0);
    for query in queries {
        let mut exact: Vec<(f32, u32)> =
            vectors.iter().map(|(node, vector)| (distance(query, vector), *node)).collect();
        exact.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        exact.truncate(10);
        let found = graph.search(query, 10, ef, &mut searcher).unwrap();
        hits += found.iter().filter(|(_, found)| exact.iter().any(|(_, node)| node == found)).count();
    }
    hits as f64 / (10 * queries.len()) as f64
}

fn built(limits: Limits, vectors: &[Vec<f32>]) -> (MemoryGraph, Vec<(u32, Vec<f32>)>) {
    let mut graph = MemoryGraph::new(Metric::L2, DIMENSIONS, limits);
    let nodes = vectors.iter().map(|vector| (graph.insert(vector).unwrap(), vector.clone())).collect();
    (graph, nodes)
}

#[test]
#[ignore = "a measurement"]
fn what_comes_and_goes_beside_a_fresh_graph() {
    for (links, ef_build) in [(8, 20), (8, 100), (16, 100)] {
        for seed in 1..6 {
            let mut clusters = Clusters::new(seed, DIMENSIONS, 40, 12);
            let vectors: Vec<Vec<f32>> = (0..NODES).map(|_| clusters.vector()).collect();
            let queries: Vec<Vec<f32>> = (0..100).map(|_| clusters.vector()).collect();
            let (mut graph, nodes) = built(limits(links, ef_build), &vectors);
            let fresh = recall(&graph, &nodes, &queries, 400);
            let mut found = Vec::new();
            for _ in 0..2 {
                let new: Vec<u32> = (0..60).map(|_| graph.insert(&clusters.vector()).unwrap()).collect();
                new.into_iter().for_each(|node| graph.remove(node));
                found.push(recall(&graph, &nodes, &queries, 400));
            }
            // The same vectors in another order.
            let mut other = vectors.clone();
            other.rotate_left(NODES / 3);
            let (again, all) = built(limits(links, ef_build), &other);
            let again = recall(&again, &all, &queries, 400);
            // 30 % removed and inserted again.
            let mut nodes = nodes;
            for (node, vector) in nodes.iter_mut().take(3 * NODES / 10) {
                graph.remove(*node);
                *node = graph.insert(vector).unwrap();
            }
            let churned = recall(&graph, &nodes, &queries, 400);
            println!(
                "links {links} ef {ef_build} seed {seed}: fresh {fresh}, in another order {again}; 60 in and out {found:?}, then 30 % {churned}"
            );
        }
    }
}
