//! Recall where vectors have far more in common than they differ, by codes about a centre.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use treedb_testing::{Alike, Counting, Rng};
use treedb_vector::centre::Centre;
use treedb_vector::element::Element;
use treedb_vector::graph::{Limits, NodesMut, Part};
use treedb_vector::memory::{Builder, MemoryGraph, Searcher, Undisturbed};
use treedb_vector::metric::Metric;

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::L2, Metric::InnerProduct];
const DIMENSIONS: usize = 96;
const VECTORS: usize = 2000;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The distance in 64 bits: in 32 it does not tell vectors apart that are so much alike.
fn distance(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let sum = |term: fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| term(f64::from(*a), f64::from(*b))).sum()
    };
    match metric {
        Metric::Cosine => {
            let length = |of: &[f32]| of.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>().sqrt();
            1.0 - sum(|a, b| a * b) / (length(a) * length(b))
        }
        Metric::L2 => sum(|a, b| (a - b) * (a - b)),
        _ => -sum(|a, b| a * b),
    }
}

/// The 10 nearest of `live`.
fn nearest(metric: Metric, query: &[f32], live: &[(u32, Vec<f32>)]) -> Vec<u32> {
    let mut exact: Vec<(f64, u32)> =
        live.iter().map(|(node, vector)| (distance(metric, query, vector), *node)).collect();
    exact.sort_by(|a, b| a.0.total_cmp(&b.0));
    exact.into_iter().take(10).map(|(_, node)| node).collect()
}

/// The part of the 10 nearest of `live` that are among the nearest 20 of `ef` candidates.
fn recall(
    graph: &MemoryGraph,
    metric: Metric,
    live: &[(u32, Vec<f32>)],
    queries: &[Vec<f32>],
    ef: usize,
) -> f64 {
    let (mut searcher, mut hits) = (Searcher::default(), 0);
    for query in queries {
        let found = graph.search_candidates(query, ef, Part::Whole, &mut searcher).unwrap();
        let found: Vec<u32> = found.take(20).collect();
        hits += nearest(metric, query, live).iter().filter(|node| found.contains(node)).count();
    }
    f64::from(hits as u32) / f64::from(10 * queries.len() as u32)
}

/// A graph of vectors by codes about a centre of some of them, if there is one.
fn centred(metric: Metric, vectors: &[Vec<f32>]) -> MemoryGraph {
    let mut graph = MemoryGraph::new(metric, DIMENSIONS, Limits::default());
    let sample: Vec<&[f32]> = vectors.iter().step_by(8).map(Vec::as_slice).collect();
    if let Some(centre) = Centre::of_alike(metric, Element::Float32, &sample) {
        let reach = centre.reach(&sample);
        assert_eq!(reach.is_some(), metric == Metric::InnerProduct);
        graph.set_centre(Arc::new(centre));
        reach.into_iter().for_each(|reach| graph.set_reach(reach));
    }
    built(graph, vectors)
}

fn built(graph: MemoryGraph, vectors: &[Vec<f32>]) -> MemoryGraph {
    let mut builder = Builder::new(graph, 2, Undisturbed);
    for vector in vectors {
        builder.add(vector).unwrap();
    }
    builder.finish()
}

fn numbered(vectors: &[Vec<f32>]) -> Vec<(u32, Vec<f32>)> {
    (0..).zip(vectors.iter().cloned()).collect()
}

#[test]
fn codes_about_a_centre_find_what_whole_vectors_find_however_far_from_zero_all_are() {
    for metric in METRICS {
        for offset in [5.0, 10.0, 20.0, 100.0] {
            let mut data = Alike::new(1, DIMENSIONS, offset);
            let vectors = data.vectors(VECTORS);
            let (queries, live) = (data.vectors(60), numbered(&vectors));
            let new = || MemoryGraph::new(metric, DIMENSIONS, Limits::default());
            let [codes, whole] = [new(), new().exact()].map(|graph| {
                let graph = built(graph, &vectors);
                recall(&graph, metric, &live, &queries, 64)
            });
            let graph = centred(metric, &vectors);
            assert!(graph.centre().is_some(), "{metric:?}, {offset}");
            let found = recall(&graph, metric, &live, &queries, 64);
            println!(
                "{metric:?}, {offset}: {codes} by codes about zero, {found} about a centre, {whole} by vectors"
            );
            let sure = told_apart(&graph, &live, &queries, metric, 20);
            assert!(sure >= 0.995, "{metric:?}, {offset}: {sure}");
            assert!(found >= whole - 0.02, "{metric:?}, {offset}: {found}, by vectors {whole}");
            // All queries have about the same order of such vectors: links that are chosen by it lead to few of them.
            assert!(found >= 0.95, "{metric:?}, {offset}: {found}");
        }
    }
}

/// The part of the 10 nearest of `live` that are among the nearest so many by the codes, whatever the links are.
fn told_apart(
    graph: &MemoryGraph,
    live: &[(u32, Vec<f32>)],
    queries: &[Vec<f32>],
    metric: Metric,
    candidates: usize,
) -> f64 {
    let (mut searcher, mut hits) = (Searcher::default(), 0);
    let nodes: Vec<u32> = live.iter().map(|(node, _)| *node).collect();
    for query in queries {
        // The graph is not walked: as many are wanted as there are.
        graph.search_among(query, &nodes, nodes.len() / 4, &mut searcher).unwrap();
        let found: Vec<u32> = searcher.found_among().iter().map(|(_, node)| *node).take(candidates).collect();
        hits += nearest(metric, query, live).iter().filter(|node| found.contains(node)).count();
    }
    f64::from(hits as u32) / f64::from(10 * queries.len() as u32)
}

#[test]
fn by_inner_product_short_and_long_queries_find_as_much() {
    for offset in [5.0, 20.0] {
        let vectors = Alike::new(1, DIMENSIONS, offset).vectors(VECTORS);
        let (graph, live) = (centred(Metric::InnerProduct, &vectors), numbered(&vectors));
        assert!(graph.centre().is_some(), "{offset}");
        let directions = Alike::new(9, DIMENSIONS, 0.0).vectors(40);
        for length in [1e-6, 1e-3, 1.0, 1e3, 1e6] {
            let longer = |query: &Vec<f32>| query.iter().map(|element| element * length).collect();
            let queries: Vec<Vec<f32>> = directions.iter().map(longer).collect();
            let sure = told_apart(&graph, &live, &queries, Metric::InnerProduct, 20);
            assert!(sure >= 0.99, "{offset}, {length} times as long: {sure}");
        }
    }
}

#[test]
fn what_links_are_chosen_by_keeps_its_digits_however_far_from_zero_and_however_long_some_vectors_are() {
    for offset in [20.0, 200.0, 1000.0] {
        let mut vectors = Alike::new(1, DIMENSIONS, offset).vectors(1000);
        for vector in vectors.iter_mut().step_by(25) {
            vector.iter_mut().for_each(|element| *element *= 1.5);
        }
        let graph = centred(Metric::InnerProduct, &vectors);
        let reach = f64::from(graph.reach().unwrap().number());
        // What the codes of a node stand for, and the element that makes all vectors equally long.
        let coded = |node: u32| -> (Vec<f32>, f64) {
            let elements: Vec<f32> = graph.coded(node).elements().collect();
            let square = -distance(Metric::InnerProduct, &elements, &elements);
            let left = reach + f64::from(graph.coded(node).factors.squares) - square;
            (elements, left.max(0.0).sqrt())
        };
        let mut most = 0.0_f64;
        // None of these is longer than others.
        for node in (1..900).step_by(25) {
            let apart = |other: u32| {
                let ((a, aside), (b, other_aside)) = (coded(node), coded(other));
                distance(Metric::L2, &a, &b) + (aside - other_aside).powi(2)
            };
            let score = |other: u32| f64::from(graph.between(node, other).unwrap());
            let exact = apart(node + 1) - apart(node + 2);
            most = most.max((score(node + 1) - score(node + 2) - exact).abs());
        }
        println!("{offset}: {most} off");
        // Vectors of two clusters are some 400 apart.
        assert!(most < 0.1, "{offset}: {most}");
    }
}

#[test]
fn a_few_vectors_that_are_unlike_the_others_do_not_let_chance_decide_about_a_centre() {
    for metric in METRICS {
        for percent in [1, 2, 3] {
            let (mut alike, mut others) = (Alike::new(1, DIMENSIONS, 77.0), Alike::new(2, DIMENSIONS, 0.0));
            let (alike, others, mut rng) = (alike.vectors(400), others.vectors(100), Rng::new(3));
            for sample in 0..200 {
                let mut pick = || match rng.below(100) < percent {
                    true => others[rng.below(others.len())].as_slice(),
                    false => alike[rng.below(alike.len())].as_slice(),
                };
                let vectors: Vec<&[f32]> = (0..256).map(|_| pick()).collect();
                let centre = Centre::of_alike(metric, Element::Float32, &vectors);
                assert!(centre.is_some(), "{metric:?}, {percent} %, sample {sample}");
            }
        }
    }
}

#[test]
fn where_one_in_eight_vectors_is_unlike_the_others_a_centre_costs_little() {
    for metric in [Metric::Cosine, Metric::L2] {
        let (mut alike, mut others) = (Alike::new(1, DIMENSIONS, 200.0), Alike::new(2, DIMENSIONS, 0.0));
        let mut mixed = |count: usize| -> Vec<Vec<f32>> {
            (0..count).map(|at| if at % 8 == 0 { others.vector() } else { alike.vector() }).collect()
        };
        let (vectors, queries) = (mixed(VECTORS), mixed(80));
        let mean = |at: usize| {
            let of = |vector: &Vec<f32>| vector[at] * metric.check(vector, DIMENSIONS).unwrap();
            vectors.iter().map(of).sum::<f32>() / VECTORS as f32
        };
        let centre = Centre::new(metric, Element::Float32, (0..DIMENSIONS).map(mean).collect()).unwrap();
        let mut graph = MemoryGraph::new(metric, DIMENSIONS, Limits::default());
        let zero = built(MemoryGraph::new(metric, DIMENSIONS, Limits::default()), &vectors);
        graph.set_centre(Arc::new(centre));
        let about_centre = built(graph, &vectors);
        let live = numbered(&vectors);
        let [zero, centre] = [&zero, &about_centre].map(|graph| recall(graph, metric, &live, &queries, 64));
        println!("{metric:?}: {zero} about zero, {centre} about a centre");
        assert!(centre >= 0.95 && centre > zero, "{metric:?}: {centre}, about zero {zero}");
    }
}

#[test]
fn vectors_of_which_some_are_much_smaller_than_the_others_have_no_centre() {
    for metric in METRICS {
        let (mut large, mut small) = (Alike::new(1, DIMENSIONS, 200.0), Alike::new(2, DIMENSIONS, 0.0));
        let vectors: Vec<_> =
            (0..500).map(|at| if at % 7 == 0 { small.vector() } else { large.vector() }).collect();
        assert!(centred(metric, &vectors).centre().is_none(), "{metric:?}");
    }
}

#[test]
fn few_bits_of_the_differences_from_a_centre_tell_apart_what_those_of_whole_vectors_do_not() {
    for metric in [Metric::Cosine, Metric::L2] {
        for (bits, candidates, least) in [(1, 120, 0.9), (2, 60, 0.9), (4, 30, 0.97)] {
            let mut data = Alike::new(6, DIMENSIONS, 20.0);
            let vectors = data.vectors(1000);
            let (queries, live) = (data.vectors(30), numbered(&vectors));
            let [zero, centre] = [false, true].map(|about_centre| {
                let mut graph = MemoryGraph::new(metric, DIMENSIONS, Limits::default()).with_few_bits(bits);
                let sample: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
                let centre = Centre::of_alike(metric, Element::Float32, &sample).unwrap();
                if about_centre {
                    graph.set_centre(Arc::new(centre));
                }
                for vector in &vectors {
                    graph.insert(vector).unwrap();
                }
                told_apart(&graph, &live, &queries, metric, candidates)
            });
            println!("{metric:?}, {bits} bits: {zero} about zero, {centre} about a centre");
            assert!(centre >= least && centre > zero, "{metric:?}, {bits} bits: {centre}, about zero {zero}");
        }
    }
}

#[test]
fn vectors_that_are_not_alike_have_no_centre() {
    for metric in METRICS {
        let graph = centred(metric, &Alike::new(2, DIMENSIONS, 0.0).vectors(500));
        assert!(graph.centre().is_none(), "{metric:?}");
        // Too few to say.
        let few = Alike::new(2, DIMENSIONS, 20.0).vectors(20);
        let few: Vec<&[f32]> = few.iter().map(Vec::as_slice).collect();
        assert!(Centre::of_alike(metric, Element::Float32, &few).is_none(), "{metric:?}");
    }
    let alike = Alike::new(2, DIMENSIONS, 20.0).vectors(100);
    for (metric, element) in [(Metric::L2, Element::Int8), (Metric::Hamming, Element::Float32)] {
        let vectors: Vec<&[f32]> = alike.iter().map(Vec::as_slice).collect();
        assert!(Centre::of_alike(metric, element, &vectors).is_none(), "{metric:?} {element:?}");
        let mut graph = MemoryGraph::new(metric, DIMENSIONS, Limits::default()).with_elements(element);
        graph.set_centre(Arc::new(Centre::new(Metric::L2, Element::Float32, vec![1.0; DIMENSIONS]).unwrap()));
        assert!(graph.centre().is_none(), "{metric:?} {element:?}");
    }
}

/// Vectors in tight clusters that are far from each other, and as far from zero.
fn far_apart(vectors: usize, seed: u64) -> Vec<Vec<f32>> {
    const CLUSTERS: usize = 6;
    let mut rng = Rng::new(seed);
    let mut places = Alike::new(7, DIMENSIONS, 0.0).vectors(CLUSTERS);
    places.iter_mut().flatten().for_each(|element| *element *= 20.0);
    let mut noise = Alike::new(seed, DIMENSIONS, 0.0);
    (0..vectors)
        .map(|_| {
            let place = &places[rng.below(CLUSTERS)];
            place.iter().zip(noise.vector()).map(|(place, noise)| place + noise).collect()
        })
        .collect()
}

#[test]
fn a_centre_among_clusters_that_are_far_apart_costs_no_recall_and_one_in_one_of_them_little() {
    for metric in METRICS {
        let vectors = far_apart(VECTORS, 3);
        let (queries, live) = (far_apart(60, 4), numbered(&vectors));
        let whole = built(MemoryGraph::new(metric, DIMENSIONS, Limits::default()), &vectors);
        let by_whole = recall(&whole, metric, &live, &queries, 64);
        let unit = |vector: &[f32]| metric.check(vector, DIMENSIONS).unwrap();
        let mean = |of: &[Vec<f32>]| -> Vec<f32> {
            let sum = |at: usize| of.iter().map(|vector| vector[at] * unit(vector)).sum::<f32>();
            (0..DIMENSIONS).map(|at| sum(at) / of.len() as f32).collect()
        };
        for (centre, cost) in [(mean(&vectors), 0.01), (mean(&vectors[..1]), 0.04)] {
            let mut graph = MemoryGraph::new(metric, DIMENSIONS, Limits::default());
            graph.set_centre(Arc::new(Centre::new(metric, Element::Float32, centre).unwrap()));
            let graph = built(graph, &vectors);
            let found = recall(&graph, metric, &live, &queries, 64);
            println!("{metric:?}: {by_whole} by codes about zero, {found} about a centre");
            assert!(found >= by_whole - cost, "{metric:?}: {found}, about zero {by_whole}");
        }
    }
}

#[test]
fn vectors_that_come_later_are_found_as_by_whole_vectors_also_beside_the_centre() {
    for metric in METRICS {
        let mut data = Alike::new(4, DIMENSIONS, 20.0);
        let vectors = data.vectors(1500);
        let exact = built(MemoryGraph::new(metric, DIMENSIONS, Limits::default()).exact(), &vectors);
        let mut graphs = [centred(metric, &vectors), exact];
        let mut live = numbered(&vectors);
        // Those of the second round are another mean away from those that the centre is of.
        for offset in [20.0, 24.0] {
            data.set_offset(offset);
            for at in 0..500 {
                let (node, _) = live.swap_remove(at * 7 % live.len());
                let vector = data.vector();
                for graph in &mut graphs {
                    graph.remove(node);
                    assert_eq!(graph.insert(&vector), Ok(node));
                }
                live.push((node, vector));
            }
            let queries = data.vectors(50);
            let [found, whole] = graphs.each_ref().map(|graph| {
                assert_eq!(graph.check(), [], "{metric:?}");
                recall(graph, metric, &live, &queries, 80)
            });
            println!("{metric:?}, {offset}: {found} about a centre, {whole} by vectors");
            assert!(found >= whole - 0.02, "{metric:?}, {offset}: {found}, by vectors {whole}");
        }
    }
}

#[test]
fn a_search_about_a_centre_allocates_nothing_and_reads_vectors_as_exactly() {
    for metric in METRICS {
        let mut data = Alike::new(5, DIMENSIONS, 20.0);
        let vectors = data.vectors(600);
        let graph = centred(metric, &vectors);
        let (packed, floats) = (graph.clone().packed(), graph);
        let (mut searcher, queries) = (Searcher::default(), data.vectors(20));
        let nodes: Vec<u32> = (0..500).collect();
        for graph in [&packed, &floats] {
            let search = |searcher: &mut Searcher| {
                for query in &queries {
                    assert_eq!(graph.search(query, 10, 50, searcher).unwrap().len(), 10);
                    graph.search_among(query, &nodes, 10, searcher).unwrap();
                    assert_eq!(searcher.found_among().len(), 10);
                }
            };
            search(&mut searcher);
            let before = Counting::allocations();
            search(&mut searcher);
            assert_eq!(Counting::allocations() - before, 0, "{metric:?}");
        }
        let mut place = Vec::new();
        for (node, vector) in (0..).zip(&vectors) {
            let unit = if metric == Metric::Cosine { metric.check(vector, DIMENSIONS).unwrap() } else { 1.0 };
            let greatest = vector.iter().fold(0.0_f32, |greatest, element| greatest.max(element.abs()));
            for (read, element) in packed.read_vector(node, &mut place).iter().zip(vector) {
                assert!((read - element * unit).abs() <= 3e-7 * greatest * unit, "{metric:?}");
            }
        }
    }
}

#[test]
fn an_element_that_is_far_too_large_for_a_difference_is_coded_as_the_greatest_one() {
    for metric in METRICS {
        let centre = Centre::new(metric, Element::Float32, vec![f32::MAX, -1.0, 0.0]).unwrap();
        let (mut difference, mut codes) = (Vec::new(), [0; 3]);
        let factors = centre.encode(&[f32::MIN, 3.0, 0.0], 1.0, &mut difference, &mut codes);
        assert_eq!((codes, difference[0]), ([1, 128, 128], f32::MIN), "{metric:?}");
        assert!(factors.scale.is_finite());
    }
    assert_eq!(Centre::new(Metric::L2, Element::Float32, vec![f32::NAN]), None);
    assert_eq!(Centre::new(Metric::L2, Element::Float32, vec![f32::INFINITY]), None);
}
