//! Ratios against the reference: for each comparison a row with its interval and blocks, and the region of
//! equivalence.

use super::scale::{Kind, Scale};
use super::svg::{Anchor, Canvas};
use super::{Drawing, Svg};
use crate::number::change;

/// A chart of ratios.
#[derive(Debug)]
pub(crate) struct Forest {
    pub(crate) rope_ratio: f64,
    pub(crate) x_title: String,
    pub(crate) rows: Vec<ForestRow>,
}

/// One comparison.
#[derive(Debug)]
pub(crate) struct ForestRow {
    pub(crate) label: String,
    /// Index of the configuration's color and marker.
    pub(crate) series: usize,
    pub(crate) ratio: Option<f64>,
    /// The interval that is printed.
    pub(crate) interval: Option<(f64, f64)>,
    /// The interval that decides the verdict.
    pub(crate) adjusted: Option<(f64, f64)>,
    /// Each block's ratio.
    pub(crate) dots: Vec<f64>,
    pub(crate) verdict: &'static str,
}

const ROW: f64 = 30.0;
const LETTER: f64 = 7.3;

/// Draws the chart.
pub(crate) fn forest(chart: &Forest) -> Drawing {
    Drawing::of(|width| draw(chart, width))
}

fn draw(chart: &Forest, width: f64) -> Svg {
    let is_narrow = width < 500.0;
    let longest = |of: fn(&ForestRow) -> usize| chart.rows.iter().map(of).max().unwrap_or(0) as f64 * LETTER;
    // On a narrow page a row's label is above its bar.
    let (left, right) = if is_narrow {
        (10.0, 10.0)
    } else {
        ((longest(|r| r.label.chars().count()) + 16.0).min(240.0), longest(|r| r.verdict.len()) + 20.0)
    };
    let row_height = if is_narrow { ROW + 18.0 } else { ROW };
    let top = 12.0;
    let bottom = top + chart.rows.len() as f64 * row_height + 6.0;
    let x = scale(chart, left + 8.0, width - right - 8.0);

    let mut canvas = Canvas::default();
    axes(&mut canvas, chart, &x, top, bottom);
    for (i, row) in chart.rows.iter().enumerate() {
        let middle = top + (i as f64 + 0.5) * row_height;
        let bar_at = if is_narrow { middle + 9.0 } else { middle };
        if is_narrow {
            canvas.text("label", (left, middle - 7.0), Anchor::Start, &row.label);
            canvas.text("label", (width - right, middle - 7.0), Anchor::End, row.verdict);
        } else {
            canvas.text("label", (left - 8.0, middle + 4.5), Anchor::End, &row.label);
            canvas.text("label", (width - right + 10.0, middle + 4.5), Anchor::Start, row.verdict);
        }
        draw_row(&mut canvas, row, &x, bar_at);
    }
    Svg { width, height: bottom + 46.0, body: canvas.finish() }
}

/// A logarithmic axis that always includes the reference and the region of equivalence.
fn scale(chart: &Forest, from: f64, to: f64) -> Scale {
    let edge = 1.0 + chart.rope_ratio.max(0.001);
    let all = chart.rows.iter().flat_map(|r| {
        let ends = [r.interval, r.adjusted].into_iter().flatten().flat_map(|(low, high)| [low, high]);
        r.dots.iter().copied().chain(r.ratio).chain(ends)
    });
    let (mut low, mut high) = (1.0 / (edge * edge), edge * edge);
    for ratio in all.filter(|r| r.is_finite() && *r > 0.0) {
        (low, high) = (low.min(ratio), high.max(ratio));
    }
    // Two blocks can give an interval over many decades: the part beyond a factor of 100 either way is cut
    // off at the edge.
    let (low, high) = (low.max(0.01), high.min(100.0));
    let margin = (high / low).powf(0.04);
    Scale { kind: Kind::Log, low: low / margin, high: high * margin, from, to }
}

fn axes(canvas: &mut Canvas, chart: &Forest, x: &Scale, top: f64, bottom: f64) {
    let (rope_low, rope_high) = (x.at(1.0 / (1.0 + chart.rope_ratio)), x.at(1.0 + chart.rope_ratio));
    canvas.rect("rope", (rope_low, top), rope_high - rope_low, bottom - top);
    let mut free_from = f64::NEG_INFINITY;
    for ratio in x.ticks(6) {
        let at = x.at(ratio);
        let label = short_change(ratio);
        let half = label.chars().count() as f64 * LETTER / 2.0;
        canvas.line("grid", (at, top), (at, bottom));
        if at - half > free_from {
            canvas.text("tick", (at, bottom + 17.0), Anchor::Middle, &label);
            free_from = at + half + 6.0;
        }
    }
    canvas.line("axis", (x.at(1.0), top), (x.at(1.0), bottom));
    canvas.text("axis-title", (x.from.midpoint(x.to), bottom + 38.0), Anchor::Middle, &chart.x_title);
}

fn draw_row(canvas: &mut Canvas, row: &ForestRow, x: &Scale, y: f64) {
    let color = format!("s{}", row.series % 7);
    if let Some((low, high)) = row.adjusted {
        canvas.line(&format!("whisker {color}"), (x.at(low), y), (x.at(high), y));
    }
    if let Some((low, high)) = row.interval {
        canvas.line(&format!("thick {color}"), (x.at(low), y), (x.at(high), y));
    }
    for dot in &row.dots {
        canvas.marker(&format!("dot {color}"), (x.at(*dot), y + 9.0), 2.6, row.series);
    }
    if let Some(ratio) = row.ratio {
        canvas.marker(&format!("mean {color}"), (x.at(ratio), y), 4.5, row.series);
    }
}

/// `+5 %`, `0 %`, `-50 %`, `x 10`: a tick.
fn short_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 1e-6 {
        "0 %".to_owned()
    } else if percent >= 999.0 {
        format!("x {ratio:.0}")
    } else if (percent - percent.round()).abs() < 1e-6 {
        format!("{percent:+.0} %")
    } else if (percent * 10.0 - (percent * 10.0).round()).abs() < 1e-6 {
        format!("{percent:+.1} %")
    } else {
        change(ratio)
    }
}
