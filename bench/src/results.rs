//! The result files, `bench/results/SUITE.json`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Result;
use crate::report::{Row, THE_GOAL};
use crate::suites::MIN_ROUNDS;

/// A result file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResultFile {
    /// The suite's name.
    pub suite: String,
    /// Its description.
    pub about: String,
    /// The command that wrote the file.
    pub command: String,
    /// What it was measured on.
    pub machine: Machine,
    /// One row per workload and peer.
    pub rows: Vec<ResultRow>,
    /// Recall and speed of approximate searches, a curve for each set and engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
}

/// Recall and speed of an engine over a set of vectors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the set.
    pub set: String,
    /// Name of the engine.
    pub engine: String,
    /// One point per value of `ef`, in ascending order.
    pub points: Vec<Point>,
}

/// A point of a [`Curve`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Point {
    /// Candidates that a search keeps.
    pub ef: usize,
    /// The part of the 10 nearest vectors that it finds.
    pub recall: f64,
    /// Queries per second, the median of the rounds.
    pub per_second: f64,
}

/// The machine, the commit and the peers' versions.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Number of cores.
    pub cores: usize,
    /// Model of the processor.
    pub cpu: String,
    /// Size of the memory.
    pub memory: String,
    /// Version of the kernel.
    pub kernel: String,
    /// Type of the file system with the engines' files.
    pub file_system: String,
    /// Median time to write 4 KiB and flush them, in microseconds.
    pub write_and_fdatasync_us: f64,
    /// Load average when the suite began.
    pub load_at_start: String,
    /// Version of the compiler.
    pub rustc: String,
    /// The commit that was measured.
    pub commit: String,
    /// Whether there were uncommitted changes.
    #[serde(default)]
    pub dirty: bool,
    /// Version of each peer.
    pub peers: Map<String, Value>,
}

/// The comparison with one peer in one workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResultRow {
    /// Name of the workload.
    pub workload: String,
    /// Durability guarantee of both sides.
    pub durability: String,
    /// Unit of the results.
    pub unit: String,
    /// Whether smaller results are better.
    pub less_is_better: bool,
    /// TreeDB's median.
    pub ours: f64,
    /// TreeDB's minimum and maximum.
    pub ours_spread: [f64; 2],
    /// Name of the peer.
    pub peer: String,
    /// The peer's median.
    pub peer_value: f64,
    /// The peer's minimum and maximum.
    pub peer_spread: [f64; 2],
    /// How many times better TreeDB is: the median of the ratios within rounds.
    pub ratio: f64,
    /// The ratio to reach, if there is one.
    pub goal: Option<f64>,
    /// Whether the row is shown without being counted: see [`Row::aside`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aside: bool,
    /// Number of rounds.
    pub rounds: u64,
    /// Always `equal`: a run with different results fails and writes no file.
    pub answers: String,
}

/// Rounds to a sensible precision.
fn round(value: f64) -> f64 {
    if value >= 100.0 { value.round() } else { (value * 10.0).round() / 10.0 }
}

impl From<&Row> for ResultRow {
    fn from(row: &Row) -> ResultRow {
        let spread = |(min, max)| [round(min), round(max)];
        ResultRow {
            workload: row.workload.clone(),
            durability: row.durability.to_owned(),
            unit: row.unit.label().to_owned(),
            less_is_better: row.unit.less_is_better(),
            ours: round(row.ours.median()),
            ours_spread: spread(row.ours.spread()),
            peer: row.peer.name.to_owned(),
            peer_value: round(row.peer.median()),
            peer_spread: spread(row.peer.spread()),
            ratio: (row.ratio() * 100.0).round() / 100.0,
            goal: row.goal,
            aside: row.aside,
            rounds: row.ours.rounds.len() as u64,
            answers: "equal".to_owned(),
        }
    }
}

/// What stands in the place of a peer and is no engine that does the same: a target, the bare disk, the same server without a search.
const REFERENCES: [&str; 3] = [THE_GOAL, "the disk", "nbtree, no search"];

impl ResultRow {
    /// Whether this counts as a comparison of TreeDB with another engine, rather than with itself or a reference.
    pub fn is_peer(&self) -> bool {
        !self.aside && !self.peer.starts_with("TreeDB") && !REFERENCES.contains(&self.peer.as_str())
    }
}

impl ResultFile {
    /// Why the file should not be published, in sentences; empty if nothing is wrong with it.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.machine.dirty {
            problems
                .push(format!("It was measured with uncommitted changes on top of {}.", self.machine.commit));
        }
        if self.machine.commit.is_empty() || self.machine.commit == "unknown" {
            problems.push("It does not name a commit.".to_owned());
        }
        let few = self.rows.iter().filter(|row| row.rounds < MIN_ROUNDS).count();
        if few > 0 {
            problems.push(format!("{few} of {} rows have fewer than {MIN_ROUNDS} rounds.", self.rows.len()));
        }
        problems
    }

    /// The smallest and the largest number of rounds of a row.
    pub fn rounds(&self) -> (u64, u64) {
        let rounds = || self.rows.iter().map(|row| row.rounds);
        (rounds().min().unwrap_or_default(), rounds().max().unwrap_or_default())
    }

    /// Writes the file.
    ///
    /// # Errors
    /// From the file system.
    pub fn write(&self) -> Result<PathBuf> {
        fs::create_dir_all(dir())?;
        let path = dir().join(format!("{}.json", self.suite));
        fs::write(&path, serde_json::to_string_pretty(self)? + "\n")?;
        Ok(path)
    }
}

/// The directory of result files: `bench/results` of the checkout that the program was built from.
pub fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// Reads all result files, in the order of their names.
///
/// # Errors
/// If a file cannot be read.
pub fn read_all() -> Result<Vec<ResultFile>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir())?.map(|entry| entry.map(|e| e.path())).collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    let read = |path: &PathBuf| -> Result<ResultFile> {
        serde_json::from_str(&fs::read_to_string(path)?)
            .map_err(|e| format!("{}: {e}", path.display()).into())
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(workload: &str, peer: &str, ratio: f64) -> ResultRow {
        ResultRow {
            workload: workload.to_owned(),
            durability: "none".to_owned(),
            unit: "ns/op".to_owned(),
            less_is_better: true,
            ours: 1.0,
            ours_spread: [1.0, 1.0],
            peer: peer.to_owned(),
            peer_value: ratio,
            peer_spread: [ratio, ratio],
            ratio,
            goal: None,
            aside: false,
            rounds: MIN_ROUNDS,
            answers: "equal".to_owned(),
        }
    }

    pub(crate) fn file(rows: Vec<ResultRow>) -> ResultFile {
        let machine = Machine { commit: "0123456789ab".to_owned(), ..Machine::default() };
        let text = |text: &str| text.to_owned();
        ResultFile {
            suite: text("s"),
            about: text("About."),
            command: text("make"),
            machine,
            rows,
            curves: Vec::new(),
        }
    }

    #[test]
    fn a_dirty_commit_and_too_few_rounds_are_problems() {
        let mut result = file(vec![row("w", "P", 2.0)]);
        assert!(result.problems().is_empty());
        result.machine.dirty = true;
        result.rows[0].rounds = MIN_ROUNDS - 1;
        assert_eq!(result.problems().len(), 2);
    }

    #[test]
    fn checked_in_results_are_from_clean_commits_with_enough_rounds() {
        for result in read_all().unwrap() {
            assert_eq!(result.problems(), Vec::<String>::new(), "{}.json", result.suite);
        }
    }
}
