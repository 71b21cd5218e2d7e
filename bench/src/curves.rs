//! The pictures of approximate searches: for each set of vectors a panel with the queries per second of every engine
//! over recall. The better an engine, the farther up and to the right is its curve. The same input gives the same bytes.

use svg::Document;
use svg::node::Node;
use svg::node::element::{Circle, Group, Line, Polyline, Rectangle, Text};

use crate::results::{Curve, ResultFile};

const PANEL: (f64, f64) = (500.0, 330.0);
/// Margins of the plot in its panel: left, right, top, bottom.
const MARGINS: (f64, f64, f64, f64) = (62.0, 18.0, 40.0, 44.0);
const TOP: f64 = 44.0;
const TEXT: &str = "#1f2328";
const MUTED: &str = "#59636e";
const GRID: &str = "#d8dee4";
/// Colours of the engines in the order of the file, with the dashes that tell them apart without colours.
const STYLES: [(&str, &str); 5] =
    [("#2f6fab", ""), ("#b84a00", ""), ("#8250df", "6 3"), ("#57606a", "2 3"), ("#1a7f37", "8 3 2 3")];
/// Recalls below this are not shown.
const LOWEST: f64 = 0.8;
const RECALLS: [f64; 7] = [0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999];

fn round(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

fn text(content: impl Into<String>, x: f64, y: f64) -> Text {
    Text::new(content).set("x", round(x)).set("y", round(y))
}

/// Names in the order of their first appearance.
fn distinct<'c>(names: impl Iterator<Item = &'c str>) -> Vec<&'c str> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

/// The plot of one set.
struct Panel {
    left: f64,
    top: f64,
    /// Decimal logarithms of the least and the greatest number of queries per second.
    speeds: (f64, f64),
}

impl Panel {
    fn new(number: usize, curves: &[&Curve]) -> Panel {
        let speeds = || {
            let shown = curves.iter().flat_map(|curve| &curve.points).filter(|point| point.recall >= LOWEST);
            shown.map(|point| point.per_second.max(1.0).log10())
        };
        let (least, most) = (speeds().fold(f64::INFINITY, f64::min), speeds().fold(0.0, f64::max));
        let speeds =
            if least <= most { (least.floor(), most.ceil().max(least.floor() + 1.0)) } else { (0.0, 1.0) };
        Panel { left: (number % 2) as f64 * PANEL.0, top: TOP + (number / 2) as f64 * PANEL.1, speeds }
    }

    /// The axis is logarithmic in what is missed, so that .98 and .99 are as far apart as .9 and .95 are.
    fn x(&self, recall: f64) -> f64 {
        let missed = |recall: f64| -(1.0 - recall).max(1e-3).log10();
        let part = (missed(recall) - missed(LOWEST)) / (missed(1.0) - missed(LOWEST));
        round(self.left + MARGINS.0 + part.clamp(0.0, 1.0) * (PANEL.0 - MARGINS.0 - MARGINS.1))
    }

    fn y(&self, per_second: f64) -> f64 {
        let part = (per_second.max(1.0).log10() - self.speeds.0) / (self.speeds.1 - self.speeds.0);
        round(self.top + PANEL.1 - MARGINS.3 - part.clamp(0.0, 1.0) * (PANEL.1 - MARGINS.2 - MARGINS.3))
    }

    fn grid(&self, title: &str) -> Group {
        let mut group = Group::new().set("fill", MUTED).set("font-size", 10);
        let (left, right) = (self.x(LOWEST), self.x(1.0));
        let (bottom, top) = (self.top + PANEL.1 - MARGINS.3, self.top + MARGINS.2);
        for recall in RECALLS {
            let x = self.x(recall);
            let line = Line::new().set("x1", x).set("x2", x).set("y1", round(top)).set("y2", round(bottom));
            group.append(line.set("stroke", GRID));
            group.append(text(recall.to_string(), x, bottom + 14.0).set("text-anchor", "middle"));
        }
        for decade in self.speeds.0 as i32..=self.speeds.1 as i32 {
            let speed = 10f64.powi(decade);
            let y = self.y(speed);
            group.append(
                Line::new().set("x1", left).set("x2", right).set("y1", y).set("y2", y).set("stroke", GRID),
            );
            let label = crate::report::format_number(speed).replace(".0", "");
            group.append(text(label, left - 6.0, y + 3.0).set("text-anchor", "end"));
        }
        let title = text(title, left, self.top + MARGINS.2 - 12.0).set("fill", TEXT);
        group.append(title.set("font-size", 13).set("font-weight", "bold"));
        group.append(text("recall@10", (left + right) / 2.0, bottom + 30.0).set("text-anchor", "middle"));
        group.append(text("queries/s", left - 6.0, top - 6.0).set("text-anchor", "end"));
        group
    }

    fn curve(&self, curve: &Curve, (colour, dashes): (&str, &str)) -> Group {
        let mut group = Group::new();
        let shown: Vec<(f64, f64)> = curve
            .points
            .iter()
            .filter(|point| point.recall >= LOWEST)
            .map(|point| (self.x(point.recall), self.y(point.per_second)))
            .collect();
        let points: Vec<String> = shown.iter().map(|(x, y)| format!("{x},{y}")).collect();
        let line = Polyline::new().set("points", points.join(" ")).set("fill", "none").set("stroke", colour);
        group.append(line.set("stroke-width", 1.8).set("stroke-dasharray", dashes));
        for (x, y) in shown {
            group.append(Circle::new().set("cx", x).set("cy", y).set("r", 2.2).set("fill", colour));
        }
        group
    }
}

/// The picture of a suite's curves; `None` if it has none.
pub(crate) fn render(file: &ResultFile) -> Option<String> {
    let sets = distinct(file.curves.iter().map(|curve| curve.set.as_str()));
    let engines = distinct(file.curves.iter().map(|curve| curve.engine.as_str()));
    if sets.is_empty() {
        return None;
    }
    let style = |engine: &str| {
        let at = engines.iter().position(|name| *name == engine).unwrap_or_default();
        STYLES[at % STYLES.len()]
    };
    let height = TOP + sets.len().div_ceil(2) as f64 * PANEL.1;
    let width = 2.0 * PANEL.0;
    let mut document = Document::new()
        .set("viewBox", (0, 0, width, round(height)))
        .set("width", width)
        .set("height", round(height))
        .set("font-family", "Helvetica, Arial, sans-serif")
        .set("font-size", 11)
        .set("fill", TEXT)
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white"));
    let title =
        format!("{}: queries per second at a recall, one thread; up and to the right is better", file.suite);
    document.append(text(title, 12.0, 18.0).set("font-size", 15).set("font-weight", "bold"));
    for (i, engine) in engines.iter().enumerate() {
        let (x, (colour, dashes)) = (14.0 + 130.0 * i as f64, style(engine));
        let line = Line::new().set("x1", x).set("x2", x + 24.0).set("y1", 34.0).set("y2", 34.0);
        document.append(line.set("stroke", colour).set("stroke-width", 1.8).set("stroke-dasharray", dashes));
        document.append(text(*engine, x + 30.0, 38.0));
    }
    for (number, set) in sets.iter().enumerate() {
        let curves: Vec<&Curve> = file.curves.iter().filter(|curve| curve.set == *set).collect();
        let panel = Panel::new(number, &curves);
        document.append(panel.grid(set));
        curves.iter().for_each(|curve| document.append(panel.curve(curve, style(&curve.engine))));
    }
    Some(format!("{document}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Point;
    use crate::results::tests::file;

    #[test]
    fn a_panel_for_each_set_shows_every_engine_from_the_lowest_recall_on() {
        let point = |ef, recall, per_second| Point { ef, recall, per_second };
        let curve = |set: &str, engine: &str| Curve {
            set: set.to_owned(),
            engine: engine.to_owned(),
            points: vec![point(10, 0.5, 9e4), point(20, 0.9, 5e4), point(40, 0.99, 2e4)],
        };
        let mut result = file(Vec::new());
        assert!(render(&result).is_none());
        result.curves = vec![curve("a", "X"), curve("a", "Y"), curve("b", "X")];
        let picture = render(&result).unwrap();
        assert_eq!(picture.matches("<polyline").count(), 3);
        assert_eq!(picture.matches("<circle").count(), 6, "two of three points are shown");
        assert_eq!(picture, render(&result).unwrap());
    }
}
