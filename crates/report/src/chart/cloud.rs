//! Many dots, a line through them, and vertical marks.

use super::scale::{Kind, Scale, round_values};
use super::svg::{Anchor, Canvas};
use super::{Drawing, Svg};

/// A chart of many values.
#[derive(Debug)]
pub(crate) struct Cloud<'a> {
    pub(crate) x_title: &'a str,
    pub(crate) y_title: &'a str,
    pub(crate) dots: Vec<(f64, f64)>,
    pub(crate) line: Vec<(f64, f64)>,
    /// Positions on the x axis, with a word each.
    pub(crate) marks: Vec<(f64, String)>,
    pub(crate) x_max: f64,
    pub(crate) y_label: fn(f64) -> String,
}

const LEFT: f64 = 74.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
/// Number of rows of labels at marks.
const LABEL_ROWS: usize = 3;
/// Width of a letter in a label, with some margin.
const LETTER: f64 = 8.0;

/// Draws the chart, both axes from 0.
pub(crate) fn cloud(chart: &Cloud) -> Drawing {
    Drawing::of(|width| draw(chart, width))
}

fn draw(chart: &Cloud, width: f64) -> Svg {
    let is_narrow = width < 500.0;
    let height = if is_narrow { 260.0 } else { 380.0 };
    let high = chart.dots.iter().chain(&chart.line).map(|p| p.1).fold(0.0, f64::max);
    let x = Scale { kind: Kind::Linear, low: 0.0, high: chart.x_max, from: LEFT, to: width - 16.0 };
    let y = Scale { kind: Kind::Linear, low: 0.0, high: high * 1.05, from: height - BOTTOM, to: TOP };
    let mut canvas = Canvas::default();
    for value in y.ticks(5) {
        canvas.line("grid", (LEFT, y.at(value)), (x.to, y.at(value)));
        canvas.text("tick", (LEFT - 8.0, y.at(value) + 4.0), Anchor::End, &(chart.y_label)(value));
    }
    canvas.line("axis", (LEFT, y.from), (x.to, y.from));
    for value in round_values(0.0, chart.x_max, if is_narrow { 3 } else { 6 }) {
        canvas.line("axis", (x.at(value), y.from), (x.at(value), y.from + 5.0));
        canvas.text("tick", (x.at(value), y.from + 19.0), Anchor::Middle, &format!("{value:.0}"));
    }
    canvas.text("axis-title", (x.from.midpoint(x.to), y.from + 39.0), Anchor::Middle, chart.x_title);
    canvas.text("axis-title", (4.0, 14.0), Anchor::Start, chart.y_title);
    canvas.dots("dots s0", chart.dots.iter().map(|(at, value)| (x.at(*at), y.at(*value))));
    let through: Vec<(f64, f64)> = chart.line.iter().map(|(at, value)| (x.at(*at), y.at(*value))).collect();
    canvas.path("line s1", &through);
    // Ends of the words in each row of labels: a word goes to the first row with room for it.
    let mut rows = [f64::NEG_INFINITY; LABEL_ROWS];
    for (at, word) in &chart.marks {
        canvas.line("whisker s2", (x.at(*at), y.from), (x.at(*at), y.to));
        let wide = word.chars().count() as f64 * LETTER;
        let is_last = x.at(*at) + 4.0 + wide > width;
        let start = if is_last { x.at(*at) - 4.0 - wide } else { x.at(*at) + 4.0 };
        // Words without room are left out: the page lists all shifts.
        if let Some((row, end)) = rows.iter_mut().enumerate().find(|(_, end)| **end < start) {
            *end = start + wide;
            // Below the curve, which rises to the right and leaves that corner free.
            let baseline = y.from - 10.0 - 15.0 * row as f64;
            canvas.text("label s2", (start, baseline), Anchor::Start, word);
        }
    }
    Svg { width, height, body: canvas.finish() }
}
