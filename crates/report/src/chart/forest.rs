//! Ratios against the reference, or differences in points: for each comparison a row with its interval and
//! blocks, and the region of equivalence.

use record::bakeoff::{Metric, Scale as MetricScale};

use super::scale::{Kind, Scale};
use super::svg::{Anchor, Canvas};
use super::{Drawing, Svg};
use crate::number::{MULTIPLES_FROM, Toward, change, multiple};

/// A chart of ratios.
#[derive(Debug)]
pub(crate) struct Forest {
    /// The metric, which has ratios or points.
    pub(crate) metric: Metric,
    pub(crate) rope_ratio: f64,
    pub(crate) x_title: String,
    pub(crate) rows: Vec<ForestRow>,
}

/// One comparison.
#[derive(Debug)]
pub(crate) struct ForestRow {
    /// The configuration; rows of one configuration follow one another under its name.
    pub(crate) group: String,
    /// The condition; may be empty.
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
    /// The ratio and the verdict: `6.6x`, `▲`, `better`. A narrow drawing leaves out the last.
    pub(crate) told: [String; 3],
}

const ROW: f64 = 23.0;
const HEAD: f64 = 21.0;
const GAP: f64 = 8.0;
const LETTER: f64 = 7.3;
/// Longest name beside its rows; a longer one stands above them.
const NAME_MAX: usize = 28;

/// Draws the chart.
pub(crate) fn forest(chart: &Forest) -> Drawing {
    Drawing::of(|width| draw(chart, width))
}

fn draw(chart: &Forest, width: f64) -> Svg {
    let is_narrow = width < 500.0;
    let longest = |of: &dyn Fn(&ForestRow) -> usize| chart.rows.iter().map(of).max().unwrap_or(0);
    let letters = |text: &str| text.chars().count();
    let told = |row: &ForestRow| row.told[..if is_narrow { 2 } else { 3 }].join(" ").trim_end().to_owned();
    let name = longest(&|r| letters(&r.group));
    let stands_above = is_narrow || name > NAME_MAX;
    let label = (longest(&|r| letters(&r.label)) as f64 * LETTER + 12.0).min(width / 3.0);
    let name = if stands_above { 0.0 } else { name as f64 * LETTER + 12.0 };
    let (left, right) = (name + label, longest(&|r| letters(&told(r))) as f64 * LETTER + 14.0);
    let x = scale(chart, left + 8.0, width - right - 8.0);

    let top = 6.0;
    let mut rows = Canvas::default();
    let mut y = top;
    for (i, row) in chart.rows.iter().enumerate() {
        let color = format!("s{}", row.series % 7);
        if i == 0 || chart.rows[i - 1].group != row.group {
            y += if i > 0 { GAP } else { 0.0 };
            let at = if stands_above { y + 14.0 } else { y + ROW / 2.0 + 4.5 };
            let letters_max = if stands_above { width / LETTER } else { f64::INFINITY };
            rows.text(&format!("label {color}"), (0.0, at), Anchor::Start, &cut(&row.group, letters_max));
            y += if stands_above { HEAD } else { 0.0 };
        }
        let middle = y + ROW / 2.0;
        rows.text("tick", (left - 8.0, middle + 4.5), Anchor::End, &cut(&row.label, label / LETTER));
        rows.text("label", (width - right + 10.0, middle + 4.5), Anchor::Start, &told(row));
        draw_row(&mut rows, row, &x, middle - 2.0);
        y += ROW;
    }
    let bottom = y + 4.0;
    let mut canvas = Canvas::default();
    axes(&mut canvas, chart, &x, top, bottom);
    Svg { width, height: bottom + 46.0, body: canvas.finish() + &rows.finish() }
}

/// The beginning of a text that is longer than so many letters.
fn cut(text: &str, letters_max: f64) -> String {
    if text.chars().count() as f64 <= letters_max {
        return text.to_owned();
    }
    let mut room = letters_max - 1.0;
    let fits = |_: &char| {
        room -= 1.0;
        room >= 0.0
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// The axis, on which a ratio of a share takes the place of the difference that it stands for.
struct Axis {
    x: Scale,
    in_points: bool,
}

impl Axis {
    fn at(&self, ratio: f64) -> f64 {
        self.x.at(if self.in_points { ratio.ln() } else { ratio })
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let label = |value: f64| {
            if self.in_points {
                points_label(value)
            } else {
                tick_label(value, self.x.high >= MULTIPLES_FROM)
            }
        };
        self.x.ticks(6).into_iter().map(|value| (self.x.at(value), label(value))).collect()
    }
}

/// A logarithmic axis, of points a linear one. It always includes the reference and the region of
/// equivalence.
fn scale(chart: &Forest, from: f64, to: f64) -> Axis {
    let in_points = chart.metric.scale() == MetricScale::Points;
    let edge = edge(chart).max(1.001);
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
    let (low, high) = (low / margin, high * margin);
    let x = if in_points {
        Scale { kind: Kind::Linear, low: low.ln(), high: high.ln(), from, to }
    } else {
        Scale { kind: Kind::Log, low, high, from, to }
    };
    Axis { x, in_points }
}

/// Upper end of the region of equivalence, as a ratio.
fn edge(chart: &Forest) -> f64 {
    match chart.metric.scale() {
        MetricScale::Ratio => 1.0 + chart.rope_ratio,
        MetricScale::Points => chart.rope_ratio.exp(),
    }
}

fn axes(canvas: &mut Canvas, chart: &Forest, x: &Axis, top: f64, bottom: f64) {
    let (rope_low, rope_high) = (x.at(1.0 / edge(chart)), x.at(edge(chart)));
    canvas.rect("rope", (rope_low, top), rope_high - rope_low, bottom - top);
    let mut free_from = f64::NEG_INFINITY;
    for (at, label) in x.ticks() {
        let half = label.chars().count() as f64 * LETTER / 2.0;
        canvas.line("grid", (at, top), (at, bottom));
        if at - half > free_from {
            canvas.text("tick", (at, bottom + 17.0), Anchor::Middle, &label);
            free_from = at + half + 6.0;
        }
    }
    canvas.line("axis", (x.at(1.0), top), (x.at(1.0), bottom));
    canvas.text("axis-title", (x.x.from.midpoint(x.x.to), bottom + 38.0), Anchor::Middle, &chart.x_title);
}

fn draw_row(canvas: &mut Canvas, row: &ForestRow, x: &Axis, y: f64) {
    let color = format!("s{}", row.series % 7);
    if let Some((low, high)) = row.adjusted {
        canvas.line(&format!("whisker {color}"), (x.at(low), y), (x.at(high), y));
    }
    if let Some((low, high)) = row.interval {
        canvas.line(&format!("thick {color}"), (x.at(low), y), (x.at(high), y));
    }
    for dot in &row.dots {
        canvas.marker(&format!("dot {color}"), (x.at(*dot), y + 8.0), 2.2, row.series);
    }
    if let Some(ratio) = row.ratio {
        canvas.marker(&format!("mean {color}"), (x.at(ratio), y), 4.5, row.series);
    }
}

/// `same`, `+5 %`, `2.5x`: a tick. On an axis that reaches twice, every tick is a multiple.
fn tick_label(ratio: f64, in_multiples: bool) -> String {
    if (ratio - 1.0).abs() < 1e-8 {
        "same".to_owned()
    } else if in_multiples {
        let text = multiple(ratio, Toward::Nearest);
        let short = text.trim_end_matches('0').trim_end_matches('.');
        format!("{}x", if text.contains('.') { short } else { &text })
    } else {
        change(ratio)
    }
}

/// `same`, `+5 pp`, `-0.25 pp`: a tick of a difference of shares.
fn points_label(difference: f64) -> String {
    let text = format!("{:+.3}", difference * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if matches!(text, "+" | "-" | "+0" | "-0") { "same".to_owned() } else { format!("{text} pp") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(metric: Metric, ratio: f64) -> Vec<String> {
        let row = ForestRow {
            group: String::new(),
            label: String::new(),
            series: 0,
            ratio: Some(ratio),
            interval: None,
            adjusted: None,
            dots: Vec::new(),
            told: ["", "", ""].map(str::to_owned),
        };
        let chart = Forest { metric, rope_ratio: 0.01, x_title: String::new(), rows: vec![row] };
        scale(&chart, 0.0, 600.0).ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn shares_have_points_on_their_axis_and_no_multiples() {
        assert_eq!(
            labels(Metric::LockCpu, 2.0_f64.exp()),
            ["same", "+50 pp", "+100 pp", "+150 pp", "+200 pp"]
        );
        assert_eq!(
            labels(Metric::LockCpu, (-0.09_f64).exp()),
            ["-8 pp", "-6 pp", "-4 pp", "-2 pp", "same", "+2 pp"]
        );
        assert!(labels(Metric::P99, 8.0).contains(&"5x".to_owned()), "{:?}", labels(Metric::P99, 8.0));
    }
}
