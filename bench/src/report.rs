//! The table on the screen and the result file.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Result;
use crate::contest::{Figures, Unit, median};

/// One comparison with one peer.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was done.
    pub workload: String,
    /// What both sides promise about a crash while doing it.
    pub durability: &'static str,
    /// What the figures count.
    pub unit: Unit,
    /// TreeDB's figures.
    pub ours: Figures,
    /// The peer's figures.
    pub peer: Figures,
    /// The ratio that was set as a goal.
    pub goal: Option<f64>,
}

impl Row {
    /// How many times better TreeDB is than the peer: above 1 it is ahead. The median of the rounds' own ratios.
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

    fn json(&self) -> Value {
        json!({
            "workload": self.workload,
            "durability": self.durability,
            "unit": self.unit.label(),
            "less_is_better": self.unit.less_is_better(),
            "ours": round(self.ours.median()),
            "ours_spread": [round(self.ours.spread().0), round(self.ours.spread().1)],
            "peer": self.peer.name,
            "peer_value": round(self.peer.median()),
            "peer_spread": [round(self.peer.spread().0), round(self.peer.spread().1)],
            "ratio": (self.ratio() * 100.0).round() / 100.0,
            "goal": self.goal,
            "rounds": self.ours.rounds.len(),
            // A run with different answers ends in an error and writes no file.
            "answers": "equal",
        })
    }
}

/// The peer of a row that compares a figure with one that was set as a goal. The ratio to reach is 1.
pub const THE_GOAL: &str = "the goal";

/// Ratios to reach, each against a peer: [`Row::ratio`] at least.
pub type Goals<'a> = &'a [(&'a str, f64)];

/// A row for each peer, the first of `figures` being TreeDB's.
pub fn rows(
    workload: &str,
    durability: &'static str,
    unit: Unit,
    figures: Vec<Figures>,
    goals: Goals<'_>,
) -> Vec<Row> {
    let mut figures = figures.into_iter();
    let Some(ours) = figures.next() else { return Vec::new() };
    let row = |mut peer: Figures| {
        if peer.name == THE_GOAL {
            // The same in all rounds.
            peer.rounds = vec![peer.median(); ours.rounds.len()];
        }
        let goal = goals.iter().find(|(name, _)| *name == peer.name).map(|(_, goal)| *goal);
        Row { workload: workload.to_owned(), durability, unit, ours: ours.clone(), peer, goal }
    };
    figures.map(row).collect()
}

/// Whether a ratio reaches a goal, in words; nothing without a goal.
pub fn verdict(ratio: f64, goal: Option<f64>) -> String {
    match goal {
        Some(goal) if ratio >= goal => format!("{goal:.2}: met"),
        Some(goal) => format!("{goal:.2}: not met"),
        None => String::new(),
    }
}

/// Three digits are all that such a figure carries.
fn round(figure: f64) -> f64 {
    if figure >= 100.0 { figure.round() } else { (figure * 10.0).round() / 10.0 }
}

/// A figure with thousands separated, for people.
pub fn figure(value: f64) -> String {
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

/// Tells of a row while others are still to come.
pub fn hint(row: &Row) {
    let ours = figure(row.ours.median());
    let peer = figure(row.peer.median());
    eprintln!("  {ours} : {peer} {}  {:.2} {}", row.peer.name, row.ratio(), verdict(row.ratio(), row.goal));
}

/// Prints the rows as a table.
pub fn print(suite: &str, rows: &[Row]) {
    println!("\n{suite}: ratio above 1 means TreeDB is ahead; [least..most] of the rounds");
    println!(
        "{:<58} {:>9} {:>24} {:<18} {:>24} {:>7}   goal",
        "workload", "unit", "TreeDB", "peer", "its figure", "ratio"
    );
    for row in rows {
        let with_spread = |f: &Figures| {
            let (least, most) = f.spread();
            format!("{} [{}..{}]", figure(f.median()), short(least), short(most))
        };
        println!(
            "{:<58} {:>9} {:>24} {:<18} {:>24} {:>6.2} {} {}",
            row.workload,
            row.unit.label(),
            with_spread(&row.ours),
            row.peer.name,
            with_spread(&row.peer),
            row.ratio(),
            if row.ratio() < 1.0 { "<" } else { " " },
            verdict(row.ratio(), row.goal)
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

/// The folder of result files: `bench/results` of the checkout that the program was built from.
pub fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// Writes `bench/results/SUITE.json`.
///
/// # Errors
/// From the file system.
pub fn write(suite: &str, about: &str, machine: &Value, rows: &[Row]) -> Result<PathBuf> {
    let file = json!({
        "suite": suite,
        "about": about,
        "command": format!("make bench SUITE={suite}"),
        "machine": machine,
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    fs::create_dir_all(results())?;
    let path = results().join(format!("{suite}.json"));
    fs::write(&path, serde_json::to_string_pretty(&file)? + "\n")?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_ours_whatever_the_unit() {
        let f = |name, rounds: &[f64]| Figures { name, rounds: rounds.to_vec() };
        let fast = vec![f("TreeDB", &[10.0, 10.0]), f("peer", &[20.0, 30.0])];
        let nanos = rows("w", "none", Unit::NanosPerOp, fast.clone(), &[("peer", 2.6)]);
        assert_eq!((nanos[0].ratio(), nanos[0].goal), (2.5, Some(2.6)));
        assert_eq!(rows("w", "none", Unit::OpsPerSecond, fast, &[])[0].ratio(), (0.5 + 10.0 / 30.0) / 2.0);
    }

    #[test]
    fn a_goal_is_met_or_not() {
        assert_eq!(verdict(2.0, Some(2.0)), "2.00: met");
        assert_eq!(verdict(1.9, Some(2.0)), "2.00: not met");
        assert_eq!(verdict(1.9, None), "");
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!(figure(1234567.0), "1,234,567");
        assert_eq!(figure(999.4), "999");
        assert_eq!(figure(12.34), "12.3");
    }
}
