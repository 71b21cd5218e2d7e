//! Recall of the graph against exact search, and what it does with vectors that come and go.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use treedb_testing::{Clusters, Counting, Rng};
use treedb_vector::element::Element;
use treedb_vector::graph::{Limits, Part};
use treedb_vector::memory::{MemoryGraph, Searcher, Way};
use treedb_vector::metric::{Metric, Unfit};

const METRICS: [Metric; 4] = [Metric::Cosine, Metric::L2, Metric::InnerProduct, Metric::L1];

/// The part of the 10 nearest of `live` that a search finds, over some queries.
fn recall(
    graph: &MemoryGraph,
    metric: Metric,
    live: &[(u32, Vec<f32>)],
    queries: &[Vec<f32>],
    ef: usize,
) -> f64 {
    let mut searcher = Searcher::default();
    let mut hits = 0;
    for query in queries {
        let mut exact: Vec<(f32, u32)> =
            live.iter().map(|(node, vector)| (metric.distance(query, vector), *node)).collect();
        exact.sort_by(|a, b| a.0.total_cmp(&b.0));
        exact.truncate(10);
        let limit = exact.last().unwrap().0;
        let found = graph.search(query, 10, ef, &mut searcher).unwrap();
        assert_eq!(found.len(), 10);
        assert!(found.is_sorted_by(|a, b| a.0 <= b.0));
        // Of equally far ones, any will do.
        hits += found.iter().filter(|(distance, _)| *distance <= limit + limit.abs() * 1e-5).count();
    }
    hits as f64 / (10 * queries.len()) as f64
}

#[test]
fn recall_is_high_under_every_metric_after_inserts_and_stays_so_when_a_third_is_replaced() {
    for metric in METRICS {
        let mut data = Clusters::new(1, 48, 20, 12);
        let mut graph = MemoryGraph::new(metric, 48, Limits::default());
        let mut live: Vec<(u32, Vec<f32>)> = Vec::new();
        for _ in 0..3000 {
            let vector = data.vector();
            live.push((graph.insert(&vector).unwrap(), vector));
        }
        let queries: Vec<Vec<f32>> = (0..60).map(|_| data.vector()).collect();
        let before = recall(&graph, metric, &live, &queries, 80);
        assert!(before > 0.95, "{metric:?}: {before}");
        for round in 0..3 {
            for i in 0..300 {
                let at = (i * 7 + round) % live.len();
                let (node, _) = live.swap_remove(at);
                graph.remove(node);
                let vector = data.vector();
                live.push((graph.insert(&vector).unwrap(), vector));
            }
        }
        assert_eq!(graph.len(), live.len());
        assert_eq!(graph.check(), [], "{metric:?}");
        let after = recall(&graph, metric, &live, &queries, 80);
        assert!(after >= before - 0.005, "{metric:?}: {before} before, {after} after");
    }
}

#[test]
fn recall_of_bits_is_high_and_stays_so_when_a_third_is_replaced() {
    for metric in [Metric::Hamming, Metric::Jaccard] {
        let mut data = Clusters::new(2, 250, 20, 12);
        let mut bits = || -> Vec<f32> {
            data.vector().iter().map(|element| f32::from(u8::from(*element > 0.0))).collect()
        };
        let mut graph = MemoryGraph::new(metric, 250, Limits::default());
        let mut live: Vec<(u32, Vec<f32>)> = Vec::new();
        for _ in 0..2000 {
            let vector = bits();
            live.push((graph.insert(&vector).unwrap(), vector));
        }
        let queries: Vec<Vec<f32>> = (0..50).map(|_| bits()).collect();
        let before = recall(&graph, metric, &live, &queries, 80);
        assert!(before > 0.95, "{metric:?}: {before}");
        for at in 0..600 {
            let (node, _) = live.swap_remove(at * 7 % live.len());
            graph.remove(node);
            let vector = bits();
            live.push((graph.insert(&vector).unwrap(), vector));
        }
        assert_eq!(graph.check(), [], "{metric:?}");
        let after = recall(&graph, metric, &live, &queries, 80);
        assert!(after >= before - 0.005, "{metric:?}: {before} before, {after} after");
        // 32 bytes of bits, 12 of the rest, links and their scores.
        assert!(graph.bytes() / graph.len() < 32 + 12 + 64 + 2 * 4 * 60, "{}", graph.bytes() / graph.len());
        assert!(graph.insert(&[0.5; 250]).is_err());
    }
}

/// The part of the 10 nearest of `live` that are among the candidates that a graph says to compare exactly.
fn recall_of_candidates(
    graph: &MemoryGraph,
    metric: Metric,
    live: &[(u32, Vec<f32>)],
    queries: &[Vec<f32>],
    ef: usize,
) -> f64 {
    let (mut searcher, mut hits) = (Searcher::default(), 0);
    for query in queries {
        let mut exact: Vec<(f32, u32)> =
            live.iter().map(|(node, vector)| (metric.distance(query, vector), *node)).collect();
        exact.sort_by(|a, b| a.0.total_cmp(&b.0));
        exact.truncate(10);
        let ranked = graph.ranked(10, ef);
        let found: Vec<u32> =
            graph.search_candidates(query, ef, Part::Whole, &mut searcher).unwrap().take(ranked).collect();
        hits += exact.iter().filter(|(_, node)| found.contains(node)).count();
    }
    hits as f64 / (10 * queries.len()) as f64
}

#[test]
fn few_bits_of_each_dimension_find_the_candidates_to_compare_also_when_a_third_is_replaced() {
    const DIMENSIONS: usize = 200;
    for metric in [Metric::Cosine, Metric::L2, Metric::InnerProduct] {
        for bits in [1, 2, 4] {
            let mut data = Clusters::new(5, DIMENSIONS, 20, 12);
            let whole = MemoryGraph::new(metric, DIMENSIONS, Limits::default());
            let bytes = whole.bytes_of(1000) / 1000;
            let mut graph = whole.with_few_bits(bits);
            let saved = bytes - graph.bytes_of(1000) / 1000;
            assert!(saved >= DIMENSIONS * 5 - bits * DIMENSIONS / 8 - 8, "{metric:?} {bits}: {saved}");
            let mut live: Vec<(u32, Vec<f32>)> = Vec::new();
            for _ in 0..800 {
                let vector = data.vector();
                live.push((graph.insert(&vector).unwrap(), vector));
            }
            let queries: Vec<Vec<f32>> = (0..50).map(|_| data.vector()).collect();
            let before = recall_of_candidates(&graph, metric, &live, &queries, 60);
            assert!(before > 0.97, "{metric:?} {bits}: {before}");
            for at in 0..250 {
                let (node, _) = live.swap_remove(at * 7 % live.len());
                graph.remove(node);
                let vector = data.vector();
                live.push((graph.insert(&vector).unwrap(), vector));
            }
            assert_eq!(graph.check(), [], "{metric:?} {bits}");
            let after = recall_of_candidates(&graph, metric, &live, &queries, 60);
            assert!(after >= before - 0.01, "{metric:?} {bits}: {before} before, {after} after");
            let some: Vec<_> =
                live.iter().filter(|(node, _)| node % 3 == 0).map(|(node, vector)| (*node, vector)).collect();
            let (among, _) = recall_among(&graph, metric, &some, &queries, 60);
            assert!(among > 0.97, "{metric:?} {bits}, among some: {among}");
            // There are no vectors to read, and what is found is as far as the codes say.
            assert!(graph.vector(0).is_empty());
            let mut searcher = Searcher::default();
            let (node, vector) = &live[0];
            let found = graph.search(vector, 1, 100, &mut searcher).unwrap();
            let (size, own) =
                (metric.distance(vector, &vec![0.0; DIMENSIONS]), metric.distance(vector, vector));
            let size = if metric == Metric::Cosine { 1.0 } else { size.abs().max(own.abs()) };
            assert!(
                found[0].1 == *node && (found[0].0 - own).abs() < 0.5 * size,
                "{metric:?} {bits}: {found:?}"
            );
        }
    }
}

#[test]
fn few_bits_are_not_taken_of_vectors_that_are_compared_element_by_element() {
    for graph in [
        MemoryGraph::new(Metric::L1, 40, Limits::default()),
        MemoryGraph::new(Metric::Hamming, 40, Limits::default()),
        MemoryGraph::new(Metric::L2, 40, Limits::default()).exact(),
        MemoryGraph::new(Metric::L2, 40, Limits::default()).with_elements(Element::Int8),
    ] {
        let bytes = graph.bytes_of(1000);
        assert_eq!(graph.with_few_bits(1).bytes_of(1000), bytes);
    }
}

#[test]
fn a_graph_is_sound_after_any_inserts_and_removals() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let limits =
            Limits { links: 2 + rng.below(6), links_below: 8 + rng.below(20), ef: 10 + rng.below(30) };
        let metric = METRICS[rng.below(4)];
        let mut data = Clusters::new(seed, 6, 1 + rng.below(5), 2);
        let mut graph = MemoryGraph::new(metric, 6, limits);
        let mut live: Vec<u32> = Vec::new();
        for step in 0..600 {
            // Now it grows, now it shrinks, down to nothing.
            let removes = if step / 150 % 2 == 0 { 3 } else { 8 };
            if !live.is_empty() && rng.below(10) < removes {
                graph.remove(live.swap_remove(rng.below(live.len())));
            } else {
                // Some are the same as others.
                let vector = if rng.below(4) == 0 { vec![1.0; 6] } else { data.vector() };
                live.push(graph.insert(&vector).unwrap());
            }
            if step % 50 == 49 {
                assert_eq!(graph.check(), [], "seed {seed}, step {step}");
            }
        }
        while let Some(node) = live.pop() {
            graph.remove(node);
        }
        assert_eq!((graph.check(), graph.len()), (Vec::new(), 0), "seed {seed}");
        let mut searcher = Searcher::default();
        assert_eq!(graph.search(&[1.0; 6], 5, 10, &mut searcher).unwrap(), []);
    }
}

#[test]
fn the_answer_has_as_many_nodes_as_there_are_if_they_are_fewer_than_asked_for() {
    let mut graph = MemoryGraph::new(Metric::L2, 2, Limits::default());
    let mut searcher = Searcher::default();
    assert_eq!(graph.search(&[0.0, 0.0], 3, 10, &mut searcher).unwrap(), []);
    for x in [3.0, 1.0] {
        graph.insert(&[x, 0.0]).unwrap();
    }
    assert_eq!(graph.search(&[0.0, 0.0], 3, 1, &mut searcher).unwrap(), [(1.0, 1), (3.0, 0)]);
    assert_eq!(graph.search(&[0.0, 0.0], 0, 10, &mut searcher).unwrap(), []);
}

#[test]
fn a_vector_that_is_not_finite_is_refused_whatever_the_elements() {
    for element in [Element::Float32, Element::Float16, Element::BFloat16, Element::Int8] {
        let mut graph = MemoryGraph::new(Metric::L2, 2, Limits::default()).with_elements(element);
        let node = graph.insert(&[1.0, 2.0]).unwrap();
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(graph.insert(&[1.0, wrong]), Err(Unfit::NotFinite { at: 1 }), "{element:?}");
            assert_eq!(graph.set_vector(node, &[wrong, 1.0]), Err(Unfit::NotFinite { at: 0 }), "{element:?}");
        }
    }
}

#[test]
fn a_vector_that_does_not_fit_is_refused_with_what_is_wrong() {
    let mut graph = MemoryGraph::new(Metric::Cosine, 3, Limits::default());
    let refused = |vector: &[f32], graph: &mut MemoryGraph| graph.insert(vector).unwrap_err().to_string();
    assert_eq!(refused(&[1.0, 2.0], &mut graph), "expected 3 dimensions, found 2");
    assert_eq!(refused(&[1.0, f32::NAN, 2.0], &mut graph), "element 1 is NaN or infinite");
    assert_eq!(refused(&[1.0, 1.0, f32::INFINITY], &mut graph), "element 2 is NaN or infinite");
    let zeros = "a vector of zeros has no direction, which cosine distance needs";
    assert_eq!(refused(&[0.0; 3], &mut graph), zeros);
    assert_eq!(graph.len(), 0);
}

#[test]
fn a_search_allocates_nothing_once_its_searcher_has_grown() {
    let new = |metric| MemoryGraph::new(metric, 32, Limits::default());
    for (name, graph) in [
        ("float32", new(Metric::L2)),
        ("packed", new(Metric::Cosine).packed()),
        ("float16", new(Metric::L2).with_elements(Element::Float16)),
        ("bfloat16", new(Metric::L1).with_elements(Element::BFloat16)),
        ("int8", new(Metric::InnerProduct).with_elements(Element::Int8)),
        ("bits", new(Metric::Hamming)),
        ("few bits", new(Metric::L2).with_few_bits(1)),
    ] {
        let (mut graph, mut data) = (graph, Clusters::new(4, 32, 5, 6));
        let mut vector = || -> Vec<f32> {
            let vector = data.vector();
            let bit = |number: &f32| f32::from(u8::from(*number > 0.0));
            if name == "bits" { vector.iter().map(bit).collect() } else { vector }
        };
        for _ in 0..500 {
            graph.insert(&vector()).unwrap();
        }
        let mut searcher = Searcher::default();
        let queries: Vec<Vec<f32>> = (0..50).map(|_| vector()).collect();
        let (few, most): (Vec<u32>, Vec<u32>) = ((0..500).step_by(9).collect(), (0..450).collect());
        let search = |searcher: &mut Searcher| {
            for query in &queries {
                assert_eq!(graph.search(query, 10, 50, searcher).unwrap().len(), 10, "{name}");
                for (ef, part) in [(20, Part::First), (40, Part::Next), (80, Part::Next), (100, Part::Whole)]
                {
                    assert!(
                        graph.search_candidates(query, ef, part, searcher).unwrap().count() >= ef,
                        "{name}"
                    );
                }
                for nodes in [&few, &most] {
                    graph.search_among(query, nodes, 10, searcher).unwrap();
                    assert_eq!(searcher.found_among().len(), 10, "{name}");
                }
            }
        };
        search(&mut searcher);
        let before = Counting::allocations();
        search(&mut searcher);
        assert_eq!(Counting::allocations() - before, 0, "{name}");
    }
}

#[test]
fn a_search_among_many_nodes_ends_when_it_is_told_to() {
    let mut graph = MemoryGraph::new(Metric::L2, 8, Limits::default());
    let mut data = Clusters::new(6, 8, 20, 4);
    for _ in 0..6000 {
        graph.insert(&data.vector()).unwrap();
    }
    let (query, mut searcher) = (data.vector(), Searcher::default());
    // One by one, and by a walk.
    for (nodes, ef) in [((0..6000).collect::<Vec<u32>>(), 3000), ((0..5900).collect(), 300)] {
        let mut asked = 0;
        let mut stop = || {
            asked += 1;
            false
        };
        let way = graph.search_among_while(&query, &nodes, ef, &mut searcher, &mut stop).unwrap();
        assert_eq!((way, asked), (None, 1), "{ef}");
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_search_that_goes_on_finds_as_much_as_one_for_all_at_once_and_compares_no_node_again() {
    const PARTS: [usize; 5] = [10, 20, 40, 80, 160];
    let new = |metric| MemoryGraph::new(metric, 32, Limits::default());
    for mut graph in [new(Metric::Cosine), new(Metric::L1), new(Metric::L2).with_few_bits(4)] {
        let mut data = Clusters::new(9, 32, 30, 10);
        for _ in 0..3000 {
            graph.insert(&data.vector()).unwrap();
        }
        let (mut on, mut whole) = (Searcher::default(), Searcher::default());
        let (mut compared, mut compared_at_once, mut missed) = (0, 0, 0);
        for _ in 0..50 {
            let query = data.vector();
            let mut found: Vec<u32> = Vec::new();
            for (ef, part) in PARTS.into_iter().zip([Part::First].into_iter().chain([Part::Next; 4])) {
                let more: Vec<u32> = graph.search_candidates(&query, ef, part, &mut on).unwrap().collect();
                assert_eq!(more.len(), ef);
                compared += on.compared();
                found = more;
            }
            let at_once = graph.search_candidates(&query, 160, Part::Whole, &mut whole).unwrap();
            missed += at_once.filter(|node| !found.contains(node)).count();
            compared_at_once += whole.compared();
        }
        assert!(missed <= 50 * 160 / 500, "{missed}");
        // The last bit is for nodes that only one of the two has come by.
        assert!(compared <= compared_at_once * 21 / 20, "{compared} and {compared_at_once}");
    }
}

/// Finds the 10 nearest among some nodes by candidates, and compares them with the nearest of all; how they were found.
fn recall_among(
    graph: &MemoryGraph,
    metric: Metric,
    wanted: &[(u32, &Vec<f32>)],
    queries: &[Vec<f32>],
    ef: usize,
) -> (f64, Vec<Way>) {
    let (mut searcher, mut ways) = (Searcher::default(), Vec::new());
    let nodes: Vec<u32> = wanted.iter().map(|(node, _)| *node).collect();
    let (mut hits, mut all) = (0, 0);
    for query in queries {
        ways.push(graph.search_among(query, &nodes, ef, &mut searcher).unwrap());
        let compared = searcher.compared();
        assert!(compared > 0 && compared <= 2 * nodes.len() + 100, "{compared} of {}", nodes.len());
        let found: Vec<u32> = searcher.found_among().iter().map(|(_, node)| *node).collect();
        assert_eq!(found.len(), nodes.len().min(ef));
        let distance = |(node, vector): &(u32, &Vec<f32>)| (metric.distance(query, vector), *node);
        let mut exact: Vec<(f32, u32)> = wanted.iter().map(distance).collect();
        exact.sort_by(|a, b| a.0.total_cmp(&b.0));
        exact.truncate(10);
        hits += exact.iter().filter(|(_, node)| found.contains(node)).count();
        all += exact.len();
    }
    (hits as f64 / all as f64, ways)
}

#[test]
fn the_nearest_among_some_nodes_are_found_whatever_their_share_is() {
    for metric in METRICS {
        let mut data = Clusters::new(3, 24, 20, 12);
        let mut graph = MemoryGraph::new(metric, 24, Limits::default()).without_scores();
        let vectors: Vec<Vec<f32>> = (0..6000).map(|_| data.vector()).collect();
        let all: Vec<(u32, &Vec<f32>)> =
            vectors.iter().map(|vector| (graph.insert(vector).unwrap(), vector)).collect();
        let queries: Vec<Vec<f32>> = (0..30).map(|_| data.vector()).collect();
        for (thousandths, way) in
            [(500, Way::Walk), (100, Way::OneByOne), (10, Way::OneByOne), (1, Way::OneByOne)]
        {
            let wanted: Vec<_> = all.iter().copied().filter(|(node, _)| node % 1000 < thousandths).collect();
            let (recall, ways) = recall_among(&graph, metric, &wanted, &queries, 40);
            assert!(recall >= 0.95, "{metric:?}, {thousandths} of 1000: {recall}");
            assert!(ways.iter().all(|found| *found == way), "{metric:?}, {thousandths} of 1000: {ways:?}");
        }
    }
}

#[test]
fn the_nearest_among_nodes_that_are_far_away_are_found_after_a_walk_that_did_not_find_them() {
    let mut data = Clusters::new(4, 24, 12, 6);
    let mut graph = MemoryGraph::new(Metric::L2, 24, Limits::default());
    let vectors: Vec<Vec<f32>> = (0..4000).map(|_| data.vector()).collect();
    let all: Vec<(u32, &Vec<f32>)> =
        vectors.iter().map(|vector| (graph.insert(vector).unwrap(), vector)).collect();
    let queries: Vec<Vec<f32>> = (0..10).map(|_| data.vector()).collect();
    for query in &queries {
        // The farther half.
        let mut wanted = all.clone();
        wanted.sort_by(|(_, a), (_, b)| {
            Metric::L2.distance(query, b).total_cmp(&Metric::L2.distance(query, a))
        });
        wanted.truncate(1500);
        let (recall, ways) = recall_among(&graph, Metric::L2, &wanted, std::slice::from_ref(query), 40);
        assert!(recall >= 0.9 && ways == [Way::AfterWalk], "{recall} {ways:?}");
    }
}

#[test]
fn as_many_among_some_nodes_are_found_if_the_vectors_are_too_large_for_their_distances() {
    for (metric, magnitude) in
        [(Metric::L2, 1e18_f32), (Metric::L2, 1e25), (Metric::InnerProduct, 1e25), (Metric::L1, 3e38)]
    {
        let mut data = Clusters::new(5, 24, 20, 12);
        let mut graph = MemoryGraph::new(metric, 24, Limits::default()).without_scores();
        let large = |vector: Vec<f32>| -> Vec<f32> {
            let greatest = vector.iter().fold(0_f32, |greatest, x| greatest.max(x.abs()));
            vector.iter().map(|x| x / greatest * magnitude).collect()
        };
        let nodes: Vec<u32> = (0..4000).map(|_| graph.insert(&large(data.vector())).unwrap()).collect();
        let (mut searcher, half) = (Searcher::default(), nodes.iter().copied().filter(|node| node % 2 == 0));
        let half: Vec<u32> = half.collect();
        for _ in 0..10 {
            graph.search_among(&large(data.vector()), &half, 40, &mut searcher).unwrap();
            let mut found: Vec<u32> = searcher.found_among().iter().map(|(_, node)| *node).collect();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), 40, "{metric:?}, {magnitude:e}");
            assert!(found.iter().all(|node| node % 2 == 0));
        }
    }
}
