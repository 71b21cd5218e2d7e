//! Graphs in which many nodes have the same vector.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use treedb_testing::{Clusters, Rng};
use treedb_vector::graph::{Limits, Nodes, NodesMut};
use treedb_vector::memory::{Builder, MemoryGraph, Searcher, Undisturbed};
use treedb_vector::metric::Metric;

const DIMENSIONS: usize = 32;

type Live = Vec<(u32, Vec<f32>)>;

fn empty(metric: Metric) -> MemoryGraph {
    MemoryGraph::new(metric, DIMENSIONS, Limits::default())
}

/// The part of the 10 nearest that searches find, and the worst search's.
fn recall(graph: &MemoryGraph, metric: Metric, live: &Live, queries: &[Vec<f32>], ef: usize) -> (f64, usize) {
    assert_eq!(graph.check(), []);
    assert_eq!(graph.len(), live.len());
    let there: BTreeSet<u32> = live.iter().map(|(node, _)| *node).collect();
    let (mut searcher, mut hits, mut worst) = (Searcher::default(), 0, 10);
    for query in queries {
        let mut exact: Vec<f32> = live.iter().map(|(_, vector)| metric.distance(query, vector)).collect();
        exact.sort_by(f32::total_cmp);
        let found = graph.search(query, 10, ef, &mut searcher).unwrap();
        let nodes: BTreeSet<u32> = found.iter().map(|(_, node)| *node).collect();
        assert!(nodes.len() == 10 && nodes.is_subset(&there), "{found:?}");
        let limit = exact[9] + exact[9].abs() * 1e-5;
        let good = found.iter().filter(|(distance, _)| *distance <= limit).count();
        (hits, worst) = (hits + good, worst.min(good));
    }
    (hits as f64 / (10 * queries.len()) as f64, worst)
}

/// Vectors in a random order, of each of `crowds` so many copies, and queries.
fn crowded(seed: u64, others: usize, crowds: usize, copies: usize) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let mut data = Clusters::new(seed, DIMENSIONS, 20, 8);
    let mut vectors: Vec<Vec<f32>> = (0..others).map(|_| data.vector()).collect();
    for _ in 0..crowds {
        let crowd = data.vector();
        vectors.extend((0..copies).map(|_| crowd.clone()));
    }
    let mut rng = Rng::new(seed);
    for at in (1..vectors.len()).rev() {
        vectors.swap(at, rng.below(at + 1));
    }
    let queries = (0..200).map(|_| data.vector()).collect();
    (vectors, queries)
}

fn inserted(metric: Metric, vectors: &[Vec<f32>]) -> (MemoryGraph, Live) {
    let mut graph = empty(metric);
    let live = vectors.iter().map(|vector| (graph.insert(vector).unwrap(), vector.clone())).collect();
    (graph, live)
}

/// Says what a search found, and checks it.
fn expect(what: &str, (recall, worst): (f64, usize), least: (f64, usize)) {
    println!("{what}: recall {recall:.4}, worst {worst} of 10");
    assert!(recall >= least.0 && worst >= least.1, "{what}: recall {recall}, worst {worst} of 10");
}

#[test]
fn copies_of_a_vector_do_not_hide_other_vectors() {
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        for (others, crowds, copies) in [(2000, 1, 600), (1000, 1, 1500), (800, 30, 50), (300, 300, 5)] {
            let (vectors, queries) = crowded(7, others, crowds, copies);
            let what = format!("{metric:?}, {others} and {crowds} times {copies}");
            let (graph, live) = inserted(metric, &vectors);
            expect(&what, recall(&graph, metric, &live, &queries, 60), (0.99, 5));
            // In a random order, and with all copies in one batch.
            let mut sorted = vectors.clone();
            sorted.sort_by(|a, b| a[0].total_cmp(&b[0]));
            for (order, vectors) in [("built", vectors), ("built in order", sorted)] {
                let mut builder = Builder::new(empty(metric), 2, Undisturbed);
                let live: Live =
                    vectors.iter().map(|vector| (builder.add(vector).unwrap(), vector.clone())).collect();
                let graph = builder.finish();
                let found = recall(&graph, metric, &live, &queries, 60);
                expect(&format!("{what}, {order}"), found, (0.99, 5));
            }
        }
    }
}

#[test]
fn a_copy_below_others_is_linked_in_no_level_above_to_what_came_in_the_same_batch() {
    for seed in 0..8 {
        let (mut vectors, _) = crowded(seed, 2000, 1, 600);
        // All copies in one batch or two, with others after them.
        vectors.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let mut builder = Builder::new(empty(Metric::Cosine), 1, Undisturbed);
        vectors.iter().for_each(|vector| {
            builder.add(vector).unwrap();
        });
        let graph = builder.finish();
        let is_copy = |a: u32, b: u32| vectors[a as usize] == vectors[b as usize];
        let (mut links, mut above) = (Vec::new(), 0);
        for node in 0..graph.len() as u32 {
            graph.links(node, 0, &mut links).unwrap();
            if links.iter().all(|link| is_copy(node, *link)) {
                for level in 1..=graph.level(node).unwrap() {
                    graph.links(node, level, &mut links).unwrap();
                    assert_eq!(links, [0; 0], "seed {seed}: {node} in level {level}");
                    above += 1;
                }
            }
        }
        assert!(above > 10, "seed {seed}: {above} would have been in levels above");
    }
}

#[test]
fn a_crowd_of_copies_that_comes_at_once_and_goes_leaves_a_good_graph() {
    for metric in [Metric::L2, Metric::Cosine] {
        let mut data = Clusters::new(3, DIMENSIONS, 20, 8);
        let (mut graph, mut live) = (empty(metric), Live::new());
        let add = |graph: &mut MemoryGraph, live: &mut Live, vector: Vec<f32>| {
            live.push((graph.insert(&vector).unwrap(), vector));
        };
        for _ in 0..1000 {
            add(&mut graph, &mut live, data.vector());
        }
        let crowd = data.vector();
        for _ in 0..1000 {
            add(&mut graph, &mut live, crowd.clone());
        }
        for _ in 0..1000 {
            add(&mut graph, &mut live, data.vector());
        }
        let mut queries: Vec<Vec<f32>> = (0..200).map(|_| data.vector()).collect();
        queries.push(crowd.clone());
        expect("with the crowd", recall(&graph, metric, &live, &queries, 60), (0.99, 8));
        // The oldest copies first, as when rows are updated.
        for left in [100, 0] {
            let mut copies = live.iter().filter(|(_, vector)| *vector == crowd).count();
            live.retain(|(node, vector)| {
                let goes = *vector == crowd && copies > left;
                if goes {
                    copies -= 1;
                    graph.remove(*node);
                }
                !goes
            });
            let found = recall(&graph, metric, &live, &queries, 60);
            expect(&format!("{left} left of the crowd"), found, (0.99, 8));
        }
    }
}

#[test]
fn vectors_of_rows_that_are_updated_again_and_again_are_found() {
    for metric in [Metric::L2, Metric::Cosine] {
        // Some of the rows are copies to begin with.
        let (vectors, queries) = crowded(4, 250, 4, 60);
        let (mut graph, mut live) = inserted(metric, &vectors);
        // Old versions go after so many new ones have come. Of 21 each, a search sees few that differ, and the last ones are in no
        // level above.
        for (versions, least) in [(1, (0.99, 6)), (3, (0.99, 6)), (20, (0.95, 0)), (1, (0.99, 6))] {
            let old = live.clone();
            for _ in 0..versions {
                live.extend(old.iter().map(|(_, vector)| (graph.insert(vector).unwrap(), vector.clone())));
            }
            let found = recall(&graph, metric, &live, &queries, 60);
            expect(&format!("{metric:?} with {versions} old versions"), found, least);
            let keep = live.len() - old.len();
            for (node, _) in live.drain(..keep) {
                graph.remove(node);
            }
            let found = recall(&graph, metric, &live, &queries, 60);
            expect(&format!("{metric:?} after {versions} old versions"), found, least);
        }
    }
}
