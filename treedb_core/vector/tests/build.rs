//! Graphs that are built in batches, by several threads, beside graphs of the same vectors inserted one by one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use treedb_testing::{Clusters, Rng};
use treedb_vector::graph::{Limits, Nodes, NodesMut};
use treedb_vector::memory::{Builder, Host, MemoryGraph, Searcher, Undisturbed};
use treedb_vector::metric::Metric;

fn empty(metric: Metric, dimensions: usize) -> MemoryGraph {
    MemoryGraph::new(metric, dimensions, Limits::default())
}

fn built(graph: MemoryGraph, vectors: &[Vec<f32>], threads: usize, host: impl Host) -> MemoryGraph {
    let mut builder = Builder::new(graph, threads, host);
    for vector in vectors {
        builder.add(vector).unwrap();
    }
    builder.finish()
}

fn inserted(mut graph: MemoryGraph, vectors: &[Vec<f32>]) -> MemoryGraph {
    for vector in vectors {
        graph.insert(vector).unwrap();
    }
    graph
}

/// The links of every node in every level, where searches begin, and the root.
type Links = (Vec<Vec<u32>>, Option<(u32, u8)>, Option<u32>);

fn links(graph: &MemoryGraph) -> Links {
    let mut all = Vec::new();
    for node in 0..graph.len() as u32 {
        for level in 0..=graph.level(node).unwrap() {
            let mut links = Vec::new();
            graph.links(node, level, &mut links).unwrap();
            all.push(links);
        }
    }
    (all, graph.entry().unwrap(), graph.root().unwrap())
}

/// The part of the 10 nearest that searches find.
fn recall(graph: &MemoryGraph, vectors: &[Vec<f32>], queries: &[Vec<f32>], ef: usize) -> f64 {
    let (mut searcher, mut hits) = (Searcher::default(), 0);
    for query in queries {
        let mut exact: Vec<f32> = vectors.iter().map(|vector| Metric::L2.distance(query, vector)).collect();
        let limit = *exact.select_nth_unstable_by(9, f32::total_cmp).1;
        let found = graph.search(query, 10, ef, &mut searcher).unwrap();
        hits += found.iter().filter(|(distance, _)| *distance <= limit * 1.00001).count();
    }
    hits as f64 / (10 * queries.len()) as f64
}

/// Asks to be interrupted now and then, and counts how often it was.
#[derive(Default)]
struct Interrupting {
    asked: usize,
    interrupted: usize,
}

impl Host for &mut Interrupting {
    fn is_interrupted(&mut self) -> bool {
        self.asked += 1;
        self.asked.is_multiple_of(2)
    }

    fn interrupt(&mut self) {
        self.interrupted += 1;
    }
}

#[test]
fn a_graph_is_the_same_however_many_threads_build_it_and_however_often_they_are_interrupted() {
    for metric in [Metric::Cosine, Metric::L2, Metric::L1] {
        let mut data = Clusters::new(7, 24, 15, 8);
        let vectors: Vec<Vec<f32>> = (0..3000).map(|_| data.vector()).collect();
        let one = links(&built(empty(metric, 24), &vectors, 1, Undisturbed));
        for threads in [2, 5] {
            assert!(one == links(&built(empty(metric, 24), &vectors, threads, Undisturbed)), "{metric:?}");
        }
        let mut host = Interrupting::default();
        assert!(one == links(&built(empty(metric, 24), &vectors, 3, &mut host)), "{metric:?}");
        assert!(host.interrupted > 0, "{metric:?}");
    }
}

#[test]
fn a_graph_that_forgets_its_vectors_in_the_middle_is_linked_as_one_that_keeps_them() {
    let mut data = Clusters::new(9, 24, 15, 8);
    let vectors: Vec<Vec<f32>> = (0..3000).map(|_| data.vector()).collect();
    for metric in [Metric::Cosine, Metric::L2, Metric::InnerProduct] {
        let whole = built(empty(metric, 24), &vectors, 2, Undisturbed);
        let mut builder = Builder::new(empty(metric, 24), 2, Undisturbed);
        for (at, vector) in vectors.iter().enumerate() {
            if at == 1777 {
                let before = builder.graph().bytes();
                assert!(builder.graph().can_forget_vectors());
                builder.forget_vectors();
                assert!(builder.graph().bytes() < before && !builder.graph().can_forget_vectors());
            }
            builder.add(vector).unwrap();
        }
        let graph = builder.finish();
        assert!(links(&whole) == links(&graph), "{metric:?}");
        for node in 0..graph.len() as u32 {
            assert!(graph.vector(node).is_empty() && graph.unit(node) == whole.unit(node), "{metric:?}");
        }
    }
    // One that is built by the vectors keeps them.
    let mut exact = built(empty(Metric::L1, 24), &vectors, 1, Undisturbed);
    exact.forget_vectors();
    assert_eq!(exact.vector(5), vectors[5]);
}

#[test]
fn recall_of_a_built_graph_is_that_of_one_whose_vectors_were_inserted_one_by_one() {
    const ROWS: usize = 5000;
    let mut data = Clusters::new(3, 32, 40, 12);
    let clustered: Vec<Vec<f32>> = (0..ROWS).map(|_| data.vector()).collect();
    let queries: Vec<Vec<f32>> = (0..300).map(|_| data.vector()).collect();
    let mut sorted = clustered.clone();
    sorted.sort_by(|a, b| a[0].total_cmp(&b[0]));
    // A slow walk: each vector is nearest to those just before it, which are in the same batch.
    let mut rng = Rng::new(5);
    let mut step = || rng.below(2001) as f32 / 1000.0 - 1.0;
    let mut at = vec![0.0f32; 32];
    let walk: Vec<Vec<f32>> = (0..ROWS)
        .map(|_| {
            at.iter_mut().for_each(|element| *element += 0.1 * step());
            at.clone()
        })
        .collect();
    let beside_walk: Vec<Vec<f32>> =
        walk.iter().step_by(29).map(|vector| vector.iter().map(|x| x + 0.05).collect()).collect();
    // Groups of near-duplicates in sequence, some of them copies.
    let groups: Vec<Vec<f32>> = clustered
        .iter()
        .step_by(40)
        .flat_map(|vector| (0..40).map(|n| vector.iter().map(|x| x + (n / 2) as f32 * 0.01).collect()))
        .collect();
    let sets = [
        ("in clusters", &clustered, &queries),
        ("sorted", &sorted, &queries),
        ("a walk", &walk, &beside_walk),
        ("near-duplicates", &groups, &queries),
    ];
    for (name, vectors, queries) in sets {
        let one_by_one = inserted(empty(Metric::L2, 32), vectors);
        let in_batches = built(empty(Metric::L2, 32), vectors, 2, Undisturbed);
        assert_eq!(in_batches.check(), [], "{name}");
        for ef in [10, 20, 40, 80] {
            let [before, after] = [&one_by_one, &in_batches].map(|graph| recall(graph, vectors, queries, ef));
            println!("{name}, ef {ef}: {before:.4} inserted one by one, {after:.4} built");
            assert!(after > before - 0.003, "{name}, ef {ef}: {before} and {after}");
        }
    }
}

#[test]
fn a_built_graph_is_sound_with_any_limits_whatever_was_in_it_before_and_is_removed_later() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let limits =
            Limits { links: 2 + rng.below(6), links_below: 8 + rng.below(20), ef: 10 + rng.below(30) };
        let mut data = Clusters::new(seed, 6, 1 + rng.below(5), 2);
        let mut graph = MemoryGraph::new(Metric::L2, 6, limits);
        let mut live: Vec<u32> = (0..rng.below(400)).map(|_| graph.insert(&data.vector()).unwrap()).collect();
        for _ in 0..3 {
            // Nodes of removed vectors are used again.
            for _ in 0..live.len() / 3 {
                graph.remove(live.swap_remove(rng.below(live.len())));
            }
            let mut builder = Builder::new(graph, 1 + rng.below(3), Undisturbed);
            for _ in 0..rng.below(1500) {
                let vector = if rng.below(4) == 0 { vec![1.0; 6] } else { data.vector() };
                live.push(builder.add(&vector).unwrap());
            }
            graph = builder.finish();
            assert_eq!((graph.check(), graph.len()), (Vec::new(), live.len()), "seed {seed}");
        }
        while let Some(node) = live.pop() {
            graph.remove(node);
        }
        assert_eq!((graph.check(), graph.len()), (Vec::new(), 0), "seed {seed}");
    }
}

#[test]
fn a_builder_that_gives_up_scores_takes_less_memory_and_builds_as_good_a_graph() {
    let mut data = Clusters::new(12, 32, 40, 10);
    let vectors: Vec<Vec<f32>> = (0..4000).map(|_| data.vector()).collect();
    let queries: Vec<Vec<f32>> = (0..100).map(|_| data.vector()).collect();
    let whole = built(empty(Metric::L2, 32), &vectors, 2, Undisturbed);
    let mut builder = Builder::new(empty(Metric::L2, 32), 2, Undisturbed);
    for (at, vector) in vectors.iter().enumerate() {
        if at == 1500 {
            let (bytes, estimate) = (builder.graph().bytes(), builder.bytes_of(4000));
            assert!(builder.shed() && !builder.shed());
            assert!(builder.graph().bytes() < bytes * 3 / 4, "{} of {bytes}", builder.graph().bytes());
            assert!(builder.bytes_of(4000) < estimate * 3 / 4);
        }
        builder.add(vector).unwrap();
    }
    let shed = builder.finish();
    assert_eq!(shed.check(), []);
    let (whole, shed) = (recall(&whole, &vectors, &queries, 40), recall(&shed, &vectors, &queries, 40));
    assert!(shed > 0.95 && shed > whole - 0.01, "{shed} and {whole}");
}

#[test]
fn a_builder_refuses_a_vector_that_does_not_fit_and_goes_on() {
    let mut builder = Builder::new(empty(Metric::Cosine, 2), 2, Undisturbed);
    for n in 0..300 {
        builder.add(&[1.0, n as f32]).unwrap();
        assert!(builder.add(&[0.0, 0.0]).is_err() && builder.add(&[1.0]).is_err());
        assert!(builder.add(&[1.0, f32::NAN]).is_err());
    }
    let graph = builder.finish();
    assert_eq!((graph.len(), graph.check()), (300, Vec::new()));
    let graph = Builder::new(empty(Metric::Cosine, 2), 2, Undisturbed).finish();
    assert_eq!((graph.len(), graph.check()), (0, Vec::new()));
}
