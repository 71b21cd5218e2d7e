//! Vector search at equal recall, and what documents add to it.

use std::time::Instant;

use treedb_vector::memory::Searcher;

use super::{MIN_ROUNDS, Measured, Scale, vector_documents};
use crate::Result;
use crate::comparison::{Clock, Samples, Unit};
use crate::report::{Goals, progress, rows};
use crate::vectors::{
    EFS, K, Plan, RECALL_EF, Set, VectorIndex, all_indexes, recall, recalls, sets, sweep, with_candidates,
};

pub(super) const ABOUT: &str = "The 10 nearest of a set of normalised vectors under cosine distance, one query at a time in one \
    thread, in memory, with held-out queries. Sentences are what Debian says of its packages: 384 dimensions are embeddings of one-line \
    descriptions by all-MiniLM-L6-v2, 768 of those with the package's name by all-mpnet-base-v2, and 1,536 of two fields by the same, that text and the \
    beginning of the long description, one vector behind the other. Sets by formula are those of the project's first implementation, in Go, which published 23,229 searches a second of \
    10000 x 64 and 6,072 of 10000 x 1536, of other machines than this: rows of searches for stored vectors ask as it did, one thread, 128 candidates. Each engine builds its own graph: 16 links for a new node, 128 candidates; with two threads, except for hnswlib, \
    and the smallest set with one thread too; and TreeDB's once more with only as many candidates as give it, at an `ef` of 40, the recall that USearch f32 \
    has with 128. \
    `ef` is swept, and the time at a recall is interpolated between the two values of `ef` on either side of it; recall \
    is checked against an exact search. TreeDB searches codes of 8 bits and compares the nearest exactly, and with an `ef` below 10 still keeps 10 nodes, but expands fewer; `USearch i8` is \
    given integers scaled to the set's largest element, which is better than its own conversion; hnswlib is compiled for this processor. An engine that does not \
    reach a recall with any `ef` up to 640 has no row for it, only its curve in the pictures. Sizes are what USearch \
    writes to a file, hnswlib's vectors, labels and links, and all the memory that TreeDB's graph takes, whose vectors have 24 bits for \
    each element. Where documents are returned, the vectors are in documents of a collection with a vector index: `vector_search` of \
    the library is compared with the graph alone, of the same vectors inserted in the same order, and with the goal of 15 us more \
    than that. Filtered searches ask for the documents whose number is below a limit, over an index of the number, and are compared with \
    an exact search of the same documents and with USearch's search by a predicate, which returns no documents, each at its least `ef` with \
    a recall of .95; all of them are made once before, which is not measured, and then again and again for ten milliseconds at least. The memory of the index of a collection is what `Database::vector_memory` says, and all that searches of it use. Of the \
    documents 30 % are deleted and inserted again, and searches before and after that compared. Searches during inserts run in one thread while another inserts \
    documents into the same collection, or into another one like it, one by one, as fast as it can.";

const RECALLS: [f64; 3] = [0.95, 0.98, 0.99];
const DURABILITY: &str = "none";

/// Ratios to reach, by the set's dimensions and the recall.
fn goals(set: &Set, recall: f64) -> Goals<'static> {
    match set.dimensions {
        _ if recall > 0.98 => &[],
        64 => &[("USearch f32", 2.5), ("USearch i8", 2.0)],
        128 => &[("USearch f32", 4.5), ("USearch i8", 2.4)],
        384 => &[("USearch f32", 6.0), ("USearch i8", 2.5), ("hnswlib f32", 3.5)],
        _ => &[],
    }
}

/// Candidates of a search in the project's first benchmark.
const FIRST_EF: usize = 128;

/// Threads that build an index.
const BUILD_THREADS: usize = 2;
/// Elements of the largest set that is built with one thread too.
const BUILT_BY_ONE: usize = 1_000_000;

/// One of each engine, TreeDB's first.
type Indexes = Vec<Box<dyn VectorIndex>>;

/// Indexes and what building them took.
struct Built {
    /// The last ones.
    indexes: Indexes,
    samples: Vec<Samples>,
    /// TreeDB's, with as few candidates as give the recall of USearch f32: how many, the recalls, and the times of both.
    equal: Option<(usize, String, Vec<Samples>)>,
}

/// Builds every index with so many threads once per round. With several, those that can.
fn build(set: &Set, threads: usize, rounds: u64) -> Result<Built> {
    let engines: Vec<_> =
        all_indexes().into_iter().filter(|engine| threads == 1 || engine.has_threads).collect();
    let mut samples: Vec<Samples> =
        engines.iter().map(|engine| Samples { name: engine.name, rounds: Vec::new() }).collect();
    let timed = |work: &mut dyn FnMut() -> Result<Box<dyn VectorIndex>>| -> Result<_> {
        // Processor time if one thread does it all.
        let (start, begun) = (Clock::chosen().now(), Instant::now());
        let index = work()?;
        let spent = if threads == 1 { Clock::chosen().now() - start } else { begun.elapsed() };
        Ok((index, spent.as_secs_f64() * 1e6 / set.vectors.len() as f64))
    };
    let mut indexes = Vec::new();
    let mut equal: Option<(usize, String, Vec<f64>)> = None;
    for round in 0..rounds.min(MIN_ROUNDS) {
        indexes.clear();
        for (engine, samples) in engines.iter().zip(&mut samples) {
            let (index, spent) = timed(&mut || (engine.build)(set, threads))?;
            indexes.push(index);
            samples.rounds.push(spent);
        }
        if round == 0 {
            equal = equal_candidates(set, threads, &mut indexes)?;
        }
        if let Some((candidates, _, times)) = &mut equal {
            times.push(timed(&mut || with_candidates(set, threads, *candidates))?.1);
        }
    }
    let equal = equal.and_then(|(candidates, words, times)| {
        let peer = samples.iter().find(|samples| samples.name == EQUAL_TO)?.clone();
        Some((candidates, words, vec![Samples { name: "TreeDB", rounds: times }, peer]))
    });
    Ok(Built { indexes, samples, equal })
}

/// The peer that TreeDB is built to the recall of.
const EQUAL_TO: &str = "USearch f32";

/// The least number of candidates that gives TreeDB's graph the recall of [`EQUAL_TO`], and both recalls in words; `None`
/// without the peer, or if none of those tried does.
fn equal_candidates(
    set: &Set,
    threads: usize,
    indexes: &mut Indexes,
) -> Result<Option<(usize, String, Vec<f64>)>> {
    let Some(peer) = indexes.iter_mut().find(|index| index.name() == EQUAL_TO) else { return Ok(None) };
    let questions = set.questions(usize::MAX);
    let goal = recall(&questions, peer.as_mut())?;
    for candidates in [16, 24, 32, 48, 64, 96, 128] {
        let reached = recall(&questions, with_candidates(set, threads, candidates)?.as_mut())?;
        if reached >= goal {
            let words = format!("recall@10 at ef {RECALL_EF}: TreeDB {reached:.3}, {EQUAL_TO} {goal:.3}");
            return Ok(Some((candidates, words, Vec::new())));
        }
    }
    Ok(None)
}

/// Searches per second for vectors that are stored, with as many candidates as the project's first benchmark had, and the recall of each engine in words.
fn first_benchmark(set: &Set, indexes: &mut Indexes, rounds: u64) -> Result<(String, Vec<Samples>)> {
    let set = set.asked_for_its_own();
    let plan = Plan { efs: &[FIRST_EF], rounds, clock: Clock::chosen(), enough: f64::INFINITY };
    let (mut words, mut all) = (Vec::new(), Vec::new());
    for sweep in sweep(&set.questions(usize::MAX), indexes, &plan)? {
        let (recall, samples) = sweep.with(FIRST_EF).ok_or("nothing was measured")?;
        words.push(format!("{} {recall:.3}", samples.name));
        let rounds = samples.rounds.iter().map(|microseconds| 1e6 / microseconds).collect();
        all.push(Samples { rounds, ..samples });
    }
    Ok((format!("recall@10: {}", words.join(", ")), all))
}

/// Searches per second of one and of two threads that share TreeDB's graph.
fn threads(set: &Set, index: &dyn VectorIndex, rounds: u64) -> Result<Vec<Samples>> {
    let graph = index.graph().ok_or("the first index is not TreeDB's")?;
    let mut samples =
        ["TreeDB", "TreeDB, one thread"].map(|name| Samples { name, rounds: Vec::new() }).to_vec();
    for _ in 0..rounds {
        for (threads, samples) in [2, 1].into_iter().zip(&mut samples) {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        let mut searcher = Searcher::default();
                        set.queries
                            .iter()
                            .filter(|query| graph.search(query, K, 80, &mut searcher).is_ok())
                            .count()
                    });
                }
            });
            samples.rounds.push((threads * set.queries.len()) as f64 / start.elapsed().as_secs_f64());
        }
    }
    Ok(samples)
}

pub(super) fn run(scale: Scale) -> Result<Measured> {
    let mut out = Measured::default();
    for set in sets(scale.divide) {
        let set = set()?;
        if !scale.wants(&set.name) {
            continue;
        }
        eprintln!("vectors: {}", set.name);
        let mut add = |workload: String, unit: Unit, samples: Vec<Samples>, goals: Goals<'_>| {
            let rows = rows(&workload, DURABILITY, unit, samples, goals);
            eprintln!("{workload}");
            rows.iter().for_each(progress);
            out.rows.extend(rows);
        };
        let questions = set.questions(usize::MAX);
        let goal = &[("USearch f32", 3.0)];
        let mut all = Vec::new();
        // With one thread the larger sets would take most of the suite's time.
        let by_one = set.vectors.len() * set.dimensions <= BUILT_BY_ONE;
        for threads in [BUILD_THREADS, 1].into_iter().take(1 + usize::from(by_one)) {
            let by = if threads == 1 { "build".to_owned() } else { format!("build by {threads} threads") };
            let mut built = build(&set, threads, scale.rounds)?;
            let found = recalls(&questions, &mut built.indexes)?;
            add(format!("{by}, {}, per vector ({found})", set.name), Unit::Microseconds, built.samples, goal);
            if let Some((candidates, found, samples)) = built.equal {
                let name = format!(
                    "{by} to the recall of {EQUAL_TO}, {}, per vector ({candidates} candidates; {found})",
                    set.name
                );
                add(name, Unit::Microseconds, samples, goal);
            }
            all = built.indexes;
        }
        let mut indexes = all;
        // Those that no builder above made.
        for engine in all_indexes() {
            if !indexes.iter().any(|index| index.name() == engine.name) {
                indexes.push((engine.build)(&set, 1)?);
            }
        }
        let size = |index: &dyn VectorIndex| Samples {
            name: index.name(),
            rounds: vec![index.bytes() as f64 / set.vectors.len() as f64; MIN_ROUNDS as usize],
        };
        let sizes = indexes.iter().map(|index| size(index.as_ref())).collect();
        add(format!("size, {}", set.name), Unit::BytesPerDocument, sizes, &[("USearch f32", 1.0)]);
        let plan = Plan { efs: &EFS, rounds: scale.rounds, clock: Clock::chosen(), enough: f64::INFINITY };
        let sweeps = sweep(&questions, &mut indexes, &plan)?;
        if let Some(few) = sweeps.iter().find(|sweep| sweep.fewest < K) {
            return Err(format!("{} found {} rows for a query", few.name, few.fewest).into());
        }
        for recall in RECALLS {
            let samples: Vec<Samples> = sweeps.iter().filter_map(|sweep| sweep.at(recall)).collect();
            if samples.first().is_some_and(|samples| samples.name == "TreeDB") {
                let workload = format!("search at recall@10 of {recall}, {}", set.name);
                add(workload, Unit::Microseconds, samples, goals(&set, recall));
            } else {
                eprintln!("  TreeDB does not reach a recall of {recall}");
            }
        }
        if set.is_by_formula() {
            let (words, samples) = first_benchmark(&set, &mut indexes, scale.rounds)?;
            let workload = format!("searches for stored vectors at ef {FIRST_EF}, {} ({words})", set.name);
            add(workload, Unit::OpsPerSecond, samples, &[]);
        }
        let samples = threads(&set, indexes.first().ok_or("no index")?.as_ref(), scale.rounds)?;
        let goal = &[("TreeDB, one thread", 1.9)];
        add(format!("two threads, {}", set.name), Unit::OpsPerSecond, samples, goal);
        for measured in vector_documents::measure(&set, scale.rounds)? {
            add(measured.workload, measured.unit, measured.samples, measured.goals);
        }
        out.curves.extend(sweeps.iter().map(|sweep| sweep.curve(&set.name)));
    }
    Ok(out)
}
