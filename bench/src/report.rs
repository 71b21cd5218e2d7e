//! The printed table and the result file.

use std::path::PathBuf;

use crate::Result;
use crate::comparison::{Samples, Unit, median};
use crate::results::{Machine, ResultFile};
use crate::suites::Measured;

/// The comparison with one peer in one workload.
#[derive(Debug, Clone)]
pub struct Row {
    /// The name of the workload.
    pub workload: String,
    /// The durability guarantee of both sides.
    pub durability: &'static str,
    /// The unit of the samples.
    pub unit: Unit,
    /// TreeDB's results.
    pub ours: Samples,
    /// The peer's results.
    pub peer: Samples,
    /// The ratio to reach, if there is one.
    pub goal: Option<f64>,
    /// Whether the row is shown without being counted: the peer does so much more for the same answer that the ratio is not one of speeds.
    pub aside: bool,
}

impl Row {
    /// How many times better TreeDB is than the peer; above 1 TreeDB is ahead. The median of the ratios within rounds.
    pub fn ratio(&self) -> f64 {
        let ratios: Vec<f64> = self
            .ours
            .rounds
            .iter()
            .zip(&self.peer.rounds)
            .map(|(ours, peer)| if self.unit.less_is_better() { peer / ours } else { ours / peer })
            .collect();
        median(&ratios)
    }
}

/// The peer of a row that compares a result with a fixed target. The ratio to reach is 1.
pub const THE_GOAL: &str = "target";

/// Minimum values of [`Row::ratio`], each for a peer.
pub type Goals<'a> = &'a [(&'a str, f64)];

/// A row for each peer. The first samples are TreeDB's.
pub fn rows(
    workload: &str,
    durability: &'static str,
    unit: Unit,
    samples: Vec<Samples>,
    goals: Goals<'_>,
) -> Vec<Row> {
    let mut samples = samples.into_iter();
    let Some(ours) = samples.next() else { return Vec::new() };
    let row = |mut peer: Samples| {
        if peer.name == THE_GOAL {
            // A target is the same in all rounds.
            peer.rounds = vec![peer.median(); ours.rounds.len()];
        }
        let goal = goals.iter().find(|(name, _)| *name == peer.name).map(|(_, goal)| *goal);
        Row { workload: workload.to_owned(), durability, unit, ours: ours.clone(), peer, goal, aside: false }
    };
    samples.map(row).collect()
}

/// Whether a ratio reaches its goal, as printed in tables; empty without a goal.
pub fn goal_status(ratio: f64, goal: Option<f64>) -> String {
    match goal {
        Some(goal) if ratio >= goal => format!("{goal:.2}: met"),
        Some(goal) => format!("{goal:.2}: not met"),
        None => String::new(),
    }
}

/// Formats a number with thousands separators.
pub fn format_number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Prints a finished row to stderr while the suite is still running.
pub fn progress(row: &Row) {
    let ours = format_number(row.ours.median());
    let peer = format_number(row.peer.median());
    eprintln!(
        "  {ours} : {peer} {}  {:.2} {}",
        row.peer.name,
        row.ratio(),
        goal_status(row.ratio(), row.goal)
    );
}

/// Prints the rows as a table.
pub fn print(suite: &str, rows: &[Row]) {
    println!("\n{suite}: TreeDB is ahead where the ratio is above 1; [minimum..maximum] of the rounds");
    println!(
        "{:<58} {:>9} {:>24} {:<28} {:>24} {:>7}   goal",
        "workload", "unit", "TreeDB", "peer", "peer result", "ratio"
    );
    for row in rows {
        let with_spread = |f: &Samples| {
            let (min, max) = f.spread();
            format!("{} [{}..{}]", format_number(f.median()), short(min), short(max))
        };
        println!(
            "{:<58} {:>9} {:>24} {:<28} {:>24} {:>6.2} {} {}",
            row.workload,
            row.unit.label(),
            with_spread(&row.ours),
            row.peer.name,
            with_spread(&row.peer),
            row.ratio(),
            if row.ratio() < 1.0 { "<" } else { " " },
            goal_status(row.ratio(), row.goal)
        );
    }
}

fn short(value: f64) -> String {
    match value {
        v if v >= 10_000_000.0 => format!("{:.0}M", v / 1e6),
        v if v >= 10_000.0 => format!("{:.0}k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

/// Writes the result file of a suite.
///
/// # Errors
/// From the file system.
pub fn write(suite: &str, about: &str, machine: Machine, measured: Measured) -> Result<PathBuf> {
    ResultFile {
        suite: suite.to_owned(),
        about: about.to_owned(),
        command: format!("make bench SUITE={suite}"),
        machine,
        rows: measured.rows.iter().map(Into::into).collect(),
        curves: measured.curves,
    }
    .write()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_means_treedb_is_ahead_whatever_the_unit() {
        let f = |name, rounds: &[f64]| Samples { name, rounds: rounds.to_vec() };
        let fast = vec![f("TreeDB", &[10.0, 10.0]), f("peer", &[20.0, 30.0])];
        let nanos = rows("w", "none", Unit::NanosPerOp, fast.clone(), &[("peer", 2.6)]);
        assert_eq!((nanos[0].ratio(), nanos[0].goal), (2.5, Some(2.6)));
        assert_eq!(rows("w", "none", Unit::OpsPerSecond, fast, &[])[0].ratio(), (0.5 + 10.0 / 30.0) / 2.0);
    }

    #[test]
    fn a_goal_is_met_or_not_met() {
        assert_eq!(goal_status(2.0, Some(2.0)), "2.00: met");
        assert_eq!(goal_status(1.9, Some(2.0)), "2.00: not met");
        assert_eq!(goal_status(1.9, None), "");
    }

    #[test]
    fn numbers_have_thousands_separators() {
        assert_eq!(format_number(1234567.0), "1,234,567");
        assert_eq!(format_number(999.4), "999");
        assert_eq!(format_number(12.34), "12.3");
    }
}
