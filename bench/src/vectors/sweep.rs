//! Recall and speed of approximate searches for each of several values of `ef`, the engines taking turns, and the time at a
//! recall, which lies between two of these.

use super::index::VectorSearch;
use super::sets::{K, Questions};
use crate::Result;
use crate::comparison::{Clock, Samples, median};
use crate::results::{Curve, Point};

/// Below 10, only TreeDB's graph in memory does less than with 10: it keeps 10 nodes, but expands fewer.
pub(crate) const EFS: [usize; 17] = [3, 4, 6, 8, 10, 14, 20, 28, 40, 56, 80, 112, 160, 226, 320, 452, 640];

/// What is tried.
pub(crate) struct Plan<'e> {
    /// Values of `ef`, in ascending order.
    pub efs: &'e [usize],
    pub rounds: u64,
    /// What the searches are timed by.
    pub clock: Clock,
    /// The sweep ends when all engines have this recall.
    pub enough: f64,
}

/// Recall and time of an engine for each `ef`.
pub(crate) struct Sweep {
    pub name: &'static str,
    efs: Vec<usize>,
    recalls: Vec<f64>,
    /// The fewest rows that a query found.
    pub fewest: usize,
    /// Microseconds per query in each round.
    times: Vec<Vec<f64>>,
}

impl Sweep {
    fn new(name: &'static str) -> Sweep {
        Sweep { name, efs: Vec::new(), recalls: Vec::new(), fewest: usize::MAX, times: Vec::new() }
    }

    /// Microseconds per query at a recall, in each round; `None` if it is not reached.
    pub(crate) fn at(&self, recall: f64) -> Option<Samples> {
        let reached = self.recalls.iter().position(|found| *found >= recall)?;
        let before = reached.checked_sub(1);
        let part = before.map_or(1.0, |before| {
            (recall - self.recalls[before]) / (self.recalls[reached] - self.recalls[before])
        });
        let times = |round: usize| {
            let (from, to) = (self.times[before.unwrap_or(reached)][round], self.times[reached][round]);
            from + (to - from) * part
        };
        let rounds = (0..self.times[reached].len()).map(times).collect();
        Some(Samples { name: self.name, rounds })
    }

    /// Recall and microseconds per query with one of the values of `ef`; `None` if it was not tried.
    pub(crate) fn with(&self, ef: usize) -> Option<(f64, Samples)> {
        let at = self.efs.iter().position(|tried| *tried == ef)?;
        Some((self.recalls[at], Samples { name: self.name, rounds: self.times[at].clone() }))
    }

    /// The greatest recall.
    pub(crate) fn best(&self) -> f64 {
        self.recalls.iter().copied().fold(0.0, f64::max)
    }

    pub(crate) fn curve(&self, set: &str) -> Curve {
        let point = |i: usize| Point {
            ef: self.efs[i],
            recall: (self.recalls[i] * 1e4).round() / 1e4,
            per_second: (1e6 / median(&self.times[i])).round(),
        };
        Curve {
            set: set.to_owned(),
            engine: self.name.to_owned(),
            points: (0..self.efs.len()).map(point).collect(),
        }
    }
}

/// Searches with every `ef` in every round, the engines taking turns. An engine must find as many rows in each round as when
/// its recall was taken.
pub(crate) fn sweep<E: VectorSearch + ?Sized>(
    questions: &Questions<'_>,
    engines: &mut [Box<E>],
    plan: &Plan<'_>,
) -> Result<Vec<Sweep>> {
    let mut sweeps: Vec<Sweep> = engines.iter().map(|engine| Sweep::new(engine.name())).collect();
    let count = questions.queries.len();
    for ef in plan.efs {
        let mut expected = Vec::new();
        for (engine, sweep) in engines.iter_mut().zip(&mut sweeps) {
            let answers = answers(questions, engine.as_mut(), *ef)?;
            sweep.efs.push(*ef);
            sweep.recalls.push(answers.recall);
            sweep.fewest = sweep.fewest.min(answers.fewest);
            sweep.times.push(Vec::new());
            expected.push(answers.rows);
        }
        for round in 0..plan.rounds as usize {
            for turn in 0..engines.len() {
                let i = (turn + round) % engines.len();
                let (mut found, start) = (0, plan.clock.now());
                engines[i].search(questions.queries, K, *ef, &mut |_, rows| found += rows.len())?;
                let spent = plan.clock.now() - start;
                if found != expected[i] {
                    let (name, before) = (engines[i].name(), expected[i]);
                    return Err(format!("{name} found {found} rows, and {before} before").into());
                }
                if let Some(times) = sweeps[i].times.last_mut() {
                    times.push(spent.as_secs_f64() * 1e6 / count as f64);
                }
            }
        }
        if sweeps.iter().all(|sweep| sweep.recalls.last().is_some_and(|recall| *recall >= plan.enough)) {
            break;
        }
    }
    Ok(sweeps)
}

/// What an engine finds.
struct Answers {
    recall: f64,
    /// By all queries together.
    rows: usize,
    /// By the query that finds the fewest.
    fewest: usize,
}

fn answers<E: VectorSearch + ?Sized>(
    questions: &Questions<'_>,
    engine: &mut E,
    ef: usize,
) -> Result<Answers> {
    let (mut hits, mut rows, mut fewest) = (0, 0, usize::MAX);
    engine.search(questions.queries, K, ef, &mut |query, found| {
        hits += questions.hits(query, found);
        rows += found.len();
        fewest = fewest.min(found.len());
    })?;
    Ok(Answers { recall: hits as f64 / questions.all_rows().max(1) as f64, rows, fewest })
}

/// What the recall of a graph is compared at.
pub(crate) const RECALL_EF: usize = 40;

/// The recall of an engine at [`RECALL_EF`].
pub(crate) fn recall<E: VectorSearch + ?Sized>(questions: &Questions<'_>, engine: &mut E) -> Result<f64> {
    Ok(answers(questions, engine, RECALL_EF)?.recall)
}

/// The recall of each engine at [`RECALL_EF`], in words.
pub(crate) fn recalls<E: VectorSearch + ?Sized>(
    questions: &Questions<'_>,
    engines: &mut [Box<E>],
) -> Result<String> {
    let mut words = Vec::new();
    for engine in engines {
        words.push(format!("{} {:.3}", engine.name(), recall(questions, engine.as_mut())?));
    }
    Ok(format!("recall@10 at ef {RECALL_EF}: {}", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swept(recalls: &[f64], times: &[f64]) -> Sweep {
        Sweep {
            name: "TreeDB",
            efs: (1..=recalls.len()).map(|i| i * 10).collect(),
            recalls: recalls.to_vec(),
            fewest: K,
            times: times.iter().map(|time| vec![*time, time * 2.0]).collect(),
        }
    }

    #[test]
    fn the_time_at_a_recall_lies_between_those_of_two_ef() {
        let sweep = swept(&[0.90, 0.96, 0.995], &[10.0, 20.0, 40.0]);
        let at = |recall| sweep.at(recall).map(|samples| samples.rounds);
        let close = |rounds: Option<Vec<f64>>, expected: [f64; 2]| {
            rounds.is_some_and(|rounds| rounds.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6))
        };
        assert!(close(at(0.93), [15.0, 30.0]));
        assert!(close(at(0.96), [20.0, 40.0]));
        assert!(close(at(0.5), [10.0, 20.0]), "the least ef has a higher recall already");
        assert_eq!(at(0.999), None);
    }

    #[test]
    fn a_curve_has_a_point_for_each_ef_that_was_tried() {
        let sweep = swept(&[0.9, 0.99], &[10.0, 20.0]);
        let curve = sweep.curve("a set");
        let points: Vec<_> = curve.points.iter().map(|point| (point.ef, point.recall)).collect();
        assert_eq!((curve.set.as_str(), points), ("a set", vec![(10, 0.9), (20, 0.99)]));
        assert_eq!((sweep.best(), sweep.with(20).map(|(recall, _)| recall)), (0.99, Some(0.99)));
        assert!(sweep.with(30).is_none());
    }
}
