//! The pictures of `docs/benchmarks.md`: one SVG per suite, with a bar for each workload on a logarithmic axis.
//!
//! A bar shows the ratio to the peer that TreeDB does worst against in that workload, which the line names; circles
//! show the other peers. Bars of workloads in which TreeDB is ahead are solid and go right from the line at 1; those in
//! which it is behind are hatched, go left, and say so in words. The background is white, so that the text is readable
//! in a dark theme too. The same input gives the same bytes.
//!
//! Uses the `svg` crate, which has no dependencies and sorts attributes. The larger plotting crates either have no
//! hatched fill (`plotters`) or need a JavaScript engine to draw without a browser (`charming`).

use svg::Document;
use svg::node::Node;
use svg::node::element::{Circle, Group, Line, Path, Pattern, Rectangle, Text};

use crate::results::{ResultFile, ResultRow};

const WIDTH: f64 = 1000.0;
/// Right end of the workloads' names, and left and right end of the plot.
const NAMES_END: f64 = 452.0;
const PLOT: (f64, f64) = (462.0, 772.0);
/// Right end of the ratios, and left end of the peers' names.
const RATIOS_END: f64 = 812.0;
const PEERS_START: f64 = 820.0;
/// Top of the first workload.
const TOP: f64 = 84.0;
/// Height of a workload whose name fits one line, and of each further line.
const LINE: f64 = 18.0;
const FURTHER_LINE: f64 = 12.0;
/// Characters of a name that fit one line.
const NAME_CHARS: usize = 70;
const BAR: f64 = 10.0;

const TEXT: &str = "#1f2328";
const MUTED: &str = "#59636e";
const STRIPE: &str = "#f6f8fa";
const GRID: &str = "#d8dee4";
const AHEAD: &str = "#2f6fab";
const BEHIND: &str = "#b84a00";

/// Values at which the axis may have a grid line.
const TICKS: [f64; 16] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// A workload with the ratios to its peers, lowest first.
struct Workload<'r> {
    name: &'r str,
    rows: Vec<&'r ResultRow>,
}

/// The workloads in the order of the result file. Rows without a peer are left out.
fn workloads(file: &ResultFile) -> Vec<Workload<'_>> {
    let mut out: Vec<Workload<'_>> = Vec::new();
    for row in file.rows.iter().filter(|row| row.is_peer()) {
        match out.iter_mut().find(|workload| workload.name == row.workload) {
            Some(workload) => workload.rows.push(row),
            None => out.push(Workload { name: &row.workload, rows: vec![row] }),
        }
    }
    out.iter_mut().for_each(|workload| workload.rows.sort_by(|a, b| a.ratio.total_cmp(&b.ratio)));
    out
}

/// Breaks a name into lines at spaces.
fn lines(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in name.replace('`', "").split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= NAME_CHARS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A logarithmic axis between two ticks.
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    /// Covers all ratios, and at least 0.5 to 2.
    fn covering(ratios: impl Iterator<Item = f64> + Clone) -> Axis {
        let min = ratios.clone().fold(0.5, f64::min);
        let max = ratios.fold(2.0, f64::max);
        let from = TICKS.iter().rev().find(|tick| **tick <= min).copied();
        let to = TICKS.iter().find(|tick| **tick >= max).copied();
        Axis { from: from.unwrap_or(TICKS[0]), to: to.unwrap_or(TICKS[TICKS.len() - 1]) }
    }

    fn x(&self, ratio: f64) -> f64 {
        let part = (ratio / self.from).ln() / (self.to / self.from).ln();
        round(PLOT.0 + part.clamp(0.0, 1.0) * (PLOT.1 - PLOT.0))
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (from, to) = (self.from, self.to);
        TICKS.into_iter().filter(move |tick| *tick >= from && *tick <= to)
    }
}

/// Tenths of a pixel are enough, and keep the files small.
fn round(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

fn text(content: impl Into<String>, x: f64, y: f64) -> Text {
    Text::new(content).set("x", round(x)).set("y", round(y))
}

fn bar(x: f64, y: f64, width: f64, ahead: bool) -> Rectangle {
    let bar = Rectangle::new()
        .set("x", round(x))
        .set("y", round(y))
        .set("width", round(width.max(1.0)))
        .set("height", BAR);
    if ahead { bar.set("fill", AHEAD) } else { bar.set("fill", "url(#behind)").set("stroke", BEHIND) }
}

fn circle(x: f64, y: f64) -> Circle {
    Circle::new().set("cx", round(x)).set("cy", round(y)).set("r", 2.5)
}

/// Title and legend.
fn head(suite: &str) -> Group {
    let mut group = Group::new();
    let title = format!("{suite}: how many times faster or smaller TreeDB is, per workload");
    group.append(text(title, 12.0, 22.0).set("font-size", 15).set("font-weight", "bold"));
    let mut x = 12.0;
    let (y, baseline) = (34.0, 43.0);
    let legend = |x: f64, what: &str| text(what, x, baseline).set("fill", MUTED);
    group.append(bar(x, y, 26.0, true));
    group.append(legend(x + 32.0, "ahead of the peer named at the right"));
    x += 250.0;
    group.append(bar(x, y, 26.0, false));
    group.append(legend(x + 32.0, "behind the peer named at the right"));
    x += 245.0;
    group.append(circle(x, y + BAR / 2.0).set("fill", "white").set("stroke", MUTED));
    group.append(legend(x + 9.0, "other peers (their ratios are in the tables)"));
    group
}

/// Grid lines with their values above and below.
fn grid(axis: &Axis, bottom: f64) -> Group {
    let mut group = Group::new().set("text-anchor", "middle").set("fill", MUTED).set("font-size", 10);
    for tick in axis.ticks() {
        let x = axis.x(tick);
        let line = Line::new().set("x1", x).set("x2", x).set("y1", TOP - 4.0).set("y2", bottom);
        let line = match tick {
            1.0 => line.set("stroke", TEXT).set("stroke-width", 1.5),
            _ => line.set("stroke", GRID),
        };
        group.append(line);
        // Only the important one has a unit: the others are close together.
        let label = if tick == 1.0 { "1x".to_owned() } else { tick.to_string() };
        group.append(text(label.as_str(), x, TOP - 9.0));
        group.append(text(label, x, bottom + 13.0));
    }
    group
}

/// The picture of a suite; `None` if it has no row with a peer.
pub fn render(file: &ResultFile) -> Option<String> {
    let workloads = workloads(file);
    if workloads.is_empty() {
        return None;
    }
    let axis = Axis::covering(file.rows.iter().filter(|row| row.is_peer()).map(|row| row.ratio));
    // Stripes are drawn first, the grid over them, then bars and text.
    let (mut stripes, mut marks) = (Group::new(), Group::new());
    let mut y = TOP;
    for (number, workload) in workloads.iter().enumerate() {
        let (Some(lowest), others) = (workload.rows.first(), workload.rows.get(1..).unwrap_or_default())
        else {
            continue;
        };
        let lines = lines(workload.name);
        let height = LINE + FURTHER_LINE * (lines.len() - 1) as f64;
        let middle = y + height / 2.0;
        if number % 2 == 0 {
            let stripe = Rectangle::new().set("x", 0).set("y", y).set("width", WIDTH).set("height", height);
            stripes.append(stripe.set("fill", STRIPE));
        }
        let first = middle + 4.0 - FURTHER_LINE * (lines.len() - 1) as f64 / 2.0;
        for (i, line) in lines.into_iter().enumerate() {
            let name = text(line, NAMES_END, first + FURTHER_LINE * i as f64);
            marks.append(name.set("text-anchor", "end"));
        }
        let (one, end) = (axis.x(1.0), axis.x(lowest.ratio));
        let ahead = lowest.ratio >= 1.0;
        marks.append(bar(one.min(end), middle - BAR / 2.0, (end - one).abs(), ahead));
        for other in others {
            marks.append(circle(axis.x(other.ratio), middle).set("fill", "white").set("stroke", MUTED));
        }
        let ratio = text(format!("{:.2}", lowest.ratio), RATIOS_END, middle + 4.0).set("text-anchor", "end");
        let peer = match lowest.ratio {
            ratio if ratio < 1.0 => format!("{}, behind", lowest.peer),
            _ => lowest.peer.clone(),
        };
        let peer = text(peer, PEERS_START, middle + 4.0);
        let bold = |text: Text| {
            if ahead { text } else { text.set("font-weight", "bold").set("fill", BEHIND) }
        };
        marks.append(bold(ratio));
        marks.append(bold(peer));
        y += height;
    }
    let height = y + 22.0;
    let hatch = Pattern::new()
        .set("id", "behind")
        .set("width", 5)
        .set("height", 5)
        .set("patternUnits", "userSpaceOnUse")
        .add(Rectangle::new().set("width", 5).set("height", 5).set("fill", "#ffe3d1"))
        .add(
            Path::new().set("d", "M-1 1L1-1M0 5L5 0M4 6L6 4").set("stroke", BEHIND).set("stroke-width", 1.4),
        );
    let mut document = Document::new()
        .set("viewBox", (0, 0, WIDTH, round(height)))
        .set("width", WIDTH)
        .set("height", round(height))
        .set("font-family", "Helvetica, Arial, sans-serif")
        .set("font-size", 11)
        .set("fill", TEXT)
        .add(hatch)
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white"));
    document.append(stripes);
    document.append(grid(&axis, y));
    document.append(head(&file.suite));
    document.append(marks);
    Some(format!("{document}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{file, row};

    #[test]
    fn a_bar_shows_the_peer_that_treedb_does_worst_against() {
        let result = file(vec![row("w", "slow", 8.0), row("w", "fast", 0.5), row("w", "target", 0.1)]);
        let picture = render(&result).unwrap();
        assert!(picture.contains("fast, behind") && picture.contains("0.50"));
        assert!(!picture.contains("slow"), "other peers are circles without a name");
        assert_eq!(picture.matches("<circle").count(), 2, "one in the legend, one for the other peer");
        assert_eq!(picture, render(&result).unwrap());
    }

    #[test]
    fn a_suite_without_peers_has_no_picture() {
        assert!(render(&file(vec![row("w", "target", 2.0)])).is_none());
    }

    #[test]
    fn long_names_are_broken_at_spaces() {
        let name = "word ".repeat(30);
        let broken = lines(name.trim());
        assert!(broken.len() > 1 && broken.iter().all(|line| line.chars().count() <= NAME_CHARS));
        assert_eq!(broken.join(" "), name.trim());
    }
}
