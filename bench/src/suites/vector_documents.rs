//! What documents add to a search of vectors: of the library's collections, filtered ones and those during inserts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Result;
use crate::comparison::{Clock, Samples, Unit, median};
use crate::report::{Goals, THE_GOAL};
use crate::vectors::{Documents, EFS, K, Set, VectorIndex, all_indexes};

/// Vectors of a set that are searched for through documents.
const DOCUMENTS: usize = 20_000;
/// What documents may add to a search, in microseconds.
const DOCUMENTS_GOAL: f64 = 15.0;

/// A row of the table for each peer.
pub(super) struct Compared {
    pub workload: String,
    pub unit: Unit,
    pub samples: Vec<Samples>,
    pub goals: Goals<'static>,
}

/// All that is measured of the first documents of a set.
pub(super) fn measure(set: &Set, rounds: u64) -> Result<Vec<Compared>> {
    let set = set.first(DOCUMENTS);
    let documents = Documents::load(&set)?;
    let mut out = with_and_without(&set, &documents, rounds)?;
    out.extend(filtered(&set, &documents, rounds)?);
    out.push(deleted_and_inserted_again(&set, &documents, rounds)?);
    // The last, because it adds documents.
    out.push(during_inserts(&set, &documents, rounds)?);
    Ok(out)
}

/// A search with documents, and of the graph alone, for some `ef`.
fn with_and_without(set: &Set, documents: &Documents, rounds: u64) -> Result<Vec<Compared>> {
    let ours = all_indexes().into_iter().next().ok_or("no index")?;
    let mut graph = (ours.build)(set, 1)?;
    let all = (set.queries.len() * K) as f64;
    let mut out = Vec::new();
    for ef in [20, 40, 100] {
        let mut hits = [0, 0];
        documents.search(&set.queries, K, ef, &mut |query, found| hits[0] += set.hits(query, found))?;
        graph.search(&set.queries, K, ef, &mut |query, found| hits[1] += set.hits(query, found))?;
        let [with, without] = hits.map(|hits| hits as f64 / all);
        let mut samples =
            ["TreeDB", "TreeDB, without documents"].map(|name| Samples { name, rounds: Vec::new() });
        for round in 0..rounds {
            for turn in [round % 2, (round + 1) % 2] {
                let (mut found, start) = (0, Clock::chosen().now());
                let each = &mut |_, rows: &[u32]| found += rows.len();
                match turn {
                    0 => documents.search(&set.queries, K, ef, each)?,
                    _ => graph.search(&set.queries, K, ef, each)?,
                }
                let spent = Clock::chosen().now() - start;
                samples[turn as usize].rounds.push(spent.as_secs_f64() * 1e6 / set.queries.len() as f64);
            }
        }
        let [ours, alone] = samples;
        let goal = Samples::target(alone.median() + DOCUMENTS_GOAL);
        out.push(Compared {
            workload: format!(
                "search with documents at ef {ef}, recall@10 of {with:.3}, without them {without:.3}, {}",
                set.name
            ),
            unit: Unit::Microseconds,
            samples: vec![ours, alone, goal],
            goals: &[(THE_GOAL, 1.0)],
        });
    }
    Ok(out)
}

/// Parts of a thousand rows that match the filters.
const FILTERS: [u32; 3] = [100, 10, 1];
/// The least recall of filtered searches.
const FILTERED_RECALL: f64 = 0.95;
/// A sample of filtered searches repeats them for so long at least: a single pass takes half a millisecond where few rows match.
const LEAST: Duration = Duration::from_millis(10);

/// Searches for documents that match a filter, compared with an exact search for them and with a search of a peer that
/// asks for each row whether it matches. A peer whose recall is too low is left out.
fn filtered(set: &Set, documents: &Documents, rounds: u64) -> Result<Vec<Compared>> {
    const FEW: usize = 100;
    let queries = set.queries.get(..FEW).unwrap_or(&set.queries);
    let peer = all_indexes().into_iter().find(|engine| engine.name == "USearch f32");
    let mut peer = peer.map(|peer| (peer.build)(set, 1)).transpose()?;
    let each_of =
        |name, bytes: f64| Samples { name, rounds: vec![bytes / set.vectors.len() as f64; rounds as usize] };
    let ours = each_of("TreeDB", documents.index_bytes() as f64);
    let theirs = peer.iter().map(|peer| each_of("USearch f32", peer.bytes() as f64));
    let mut out = vec![Compared {
        workload: format!("memory of the index of a collection, per vector, {}", set.name),
        unit: Unit::BytesPerDocument,
        samples: std::iter::once(ours).chain(theirs).collect(),
        goals: &[("USearch f32", 1.0)],
    }];
    for part in FILTERS {
        let limits = set.limits_of(queries, part);
        let wanted = (queries.len() * K.min(set.matching(part))) as f64;
        let recall = |hits: usize| hits as f64 / wanted;
        // The least effort of each side with which its recall is high enough; a collection is asked for at least as many candidates as results.
        let mut effort = [None; 2];
        for ef in EFS.into_iter().filter(|ef| *ef >= K) {
            for (side, effort) in effort.iter_mut().enumerate().filter(|(_, effort)| effort.is_none()) {
                let (mut hits, mut found) = (0, 0);
                let each = &mut |query, rows: &[u32]| {
                    hits += set.hits_within(query, rows, limits[query]);
                    found += rows.len();
                };
                match (side, &mut peer) {
                    (0, _) => documents.search_filtered(queries, K, part, Some(ef), each)?,
                    (_, Some(peer)) => drop(peer.search_filtered(queries, K, ef, part, each)?),
                    _ => {}
                }
                if side == 0 && found as f64 != wanted {
                    return Err(format!("{found} rows match a filter, and {wanted} should").into());
                }
                if recall(hits) >= FILTERED_RECALL {
                    *effort = Some((ef, recall(hits)));
                }
            }
        }
        let [Some((our_effort, ours)), effort] = effort else {
            return Err(format!("a filtered search does not reach a recall of {FILTERED_RECALL}").into());
        };
        let mut names = vec!["TreeDB", "TreeDB, exact"];
        names.extend(effort.map(|_| "USearch f32"));
        let mut samples: Vec<_> = names.iter().map(|name| Samples { name, rounds: Vec::new() }).collect();
        let search = |i: usize,
                      queries: &[Vec<f32>],
                      peer: &mut Option<Box<dyn VectorIndex>>|
         -> Result<()> {
            let mut found = 0;
            let each = &mut |_, rows: &[u32]| found += rows.len();
            match (i, peer, effort) {
                (0, ..) => documents.search_filtered(queries, K, part, Some(our_effort), each),
                (1, ..) => documents.search_filtered(queries, K, part, None, each),
                (_, Some(peer), Some((ef, _))) => peer.search_filtered(queries, K, ef, part, each).map(drop),
                _ => Ok(()),
            }
        };
        for round in 0..rounds as usize {
            for turn in 0..names.len() {
                let i = (turn + round) % names.len();
                // What the side before has driven out of the caches comes back in the first pass, which does not count: one side always
                // follows the peer, which reads most of its vectors.
                search(i, queries, &mut peer)?;
                let start = Clock::chosen().now();
                let mut passes = 0;
                let spent = loop {
                    search(i, queries, &mut peer)?;
                    passes += 1;
                    let spent = Clock::chosen().now() - start;
                    if spent >= LEAST {
                        break spent;
                    }
                };
                samples[i].rounds.push(spent.as_secs_f64() * 1e6 / (passes * queries.len()) as f64);
            }
        }
        let theirs = match effort {
            Some((ef, recall)) => format!(", USearch's {recall:.3} at ef {ef}"),
            None => String::new(),
        };
        let percent = f64::from(part) / 10.0;
        out.push(Compared {
            workload: format!(
                "filtered search, {percent} % match, recall@10 of {ours:.3} at ef {our_effort}{theirs}, {}",
                set.name
            ),
            unit: Unit::Microseconds,
            samples,
            goals: &[("TreeDB, exact", 1.0), ("USearch f32", 1.0)],
        });
    }
    Ok(out)
}

/// Documents of a thousand that are deleted and inserted again.
const CHANGED: usize = 300;

/// Searches before and after some of the documents were deleted and inserted again, with their recall.
fn deleted_and_inserted_again(set: &Set, documents: &Documents, rounds: u64) -> Result<Compared> {
    const EF: usize = 40;
    let all = (set.queries.len() * K) as f64;
    let measure = |name| -> Result<(f64, Samples)> {
        let (mut hits, mut samples) = (0, Samples { name, rounds: Vec::new() });
        // The first also brings the index in memory up to date.
        documents.search(&set.queries, K, EF, &mut |query, found| hits += set.hits(query, found))?;
        for _ in 0..rounds {
            let start = Clock::chosen().now();
            documents.search(&set.queries, K, EF, &mut |_, _| {})?;
            let spent = Clock::chosen().now() - start;
            samples.rounds.push(spent.as_secs_f64() * 1e6 / set.queries.len() as f64);
        }
        Ok((hits as f64 / all, samples))
    };
    let (recall_before, before) = measure("TreeDB, before")?;
    documents.delete_and_insert_again(set, CHANGED)?;
    let (recall, after) = measure("TreeDB")?;
    Ok(Compared {
        workload: format!(
            "search after {} % were deleted and inserted again at ef {EF}, recall@10 of {recall:.4}, before {recall_before:.4}, {}",
            CHANGED / 10,
            set.name
        ),
        unit: Unit::Microseconds,
        samples: vec![after, before],
        goals: &[],
    })
}

/// Searches in one thread while another inserts documents one by one, into the collection or into another one like it, and alone. The other
/// collection tells what is lost because two threads use one machine and one log; the rest is for following the inserts.
fn during_inserts(set: &Set, documents: &Documents, rounds: u64) -> Result<Compared> {
    const EF: usize = 40;
    let names = ["TreeDB", "TreeDB, inserts into another collection", "TreeDB, no inserts"];
    let mut samples = names.map(|name| Samples { name, rounds: Vec::new() }).to_vec();
    let others = documents.beside(set)?;
    let (next, mut rates) = (AtomicUsize::new(set.vectors.len()), Vec::new());
    for round in 0..rounds as usize {
        for turn in 0..names.len() {
            let at = (turn + round) % names.len();
            let samples = &mut samples[at];
            let into = [Some(documents), Some(&others), None][at];
            let done = AtomicBool::new(false);
            let insert = |into: &Documents| -> Result<usize> {
                let mut inserted = 0;
                while !done.load(Ordering::Relaxed) {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    // Half-way between two vectors of the set, so that none is inserted twice for a long time.
                    let [one, other] =
                        [id, id.wrapping_mul(7_919)].map(|n| &set.vectors[n % set.vectors.len()]);
                    let between: Vec<f32> = one.iter().zip(other).map(|(a, b)| a + b).collect();
                    into.insert(id, &between)?;
                    inserted += 1;
                }
                Ok(inserted)
            };
            let start = Instant::now();
            let (searched, inserted) = std::thread::scope(|scope| {
                let insert = &insert;
                let writer = into.map(|into| scope.spawn(move || insert(into).map_err(|e| e.to_string())));
                let searched = documents.search(&set.queries, K, EF, &mut |_, _| {});
                let spent = start.elapsed().as_secs_f64();
                done.store(true, Ordering::Relaxed);
                (searched.map(|()| spent), writer.map(|writer| writer.join()))
            });
            let spent = searched?;
            samples.rounds.push(set.queries.len() as f64 / spent);
            if let Some(inserted) = inserted {
                let rate = inserted.map_err(|_| "the writer failed")?? as f64 / spent;
                rates.extend((at == 0).then_some(rate));
            }
        }
    }
    Ok(Compared {
        workload: format!("searches during {:.0} inserts a second at ef {EF}, {}", median(&rates), set.name),
        unit: Unit::OpsPerSecond,
        samples,
        goals: &[("TreeDB, no inserts", 0.8)],
    })
}
