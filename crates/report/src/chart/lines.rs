//! Values against a number: a line for each series, with an interval and the dots of all blocks at each
//! point.

use super::scale::{Kind, Scale};
use super::svg::{Anchor, Canvas};
use super::{Drawing, Svg};

/// A chart of lines.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    pub(crate) x_title: &'a str,
    pub(crate) y_title: &'a str,
    pub(crate) x_kind: Kind,
    pub(crate) y_kind: Kind,
    /// Ends of the x axis; `None` takes those of the points.
    pub(crate) x_range: Option<(f64, f64)>,
    /// Labelled positions on the x axis.
    pub(crate) x_ticks: Vec<(f64, String)>,
    pub(crate) y_label: fn(f64) -> String,
    /// The place of a series gives its color; one without points keeps its place and is not drawn.
    pub(crate) series: Vec<Line>,
}

/// One series.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
    /// Whether the intervals are drawn as one band instead of a bar at each point.
    pub(crate) banded: bool,
    /// Whether its points follow each other on the x axis, so that a line may join them.
    pub(crate) joined: bool,
    /// Positions on the x axis with a missing value, rising; the line is broken there.
    pub(crate) gaps: Vec<f64>,
}

/// One place of a series.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) interval: Option<(f64, f64)>,
    /// The single values that the point summarizes.
    pub(crate) dots: Vec<f64>,
}

const LEFT: f64 = 58.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
/// Approximate width of a letter in a label.
const LETTER: f64 = 7.3;
/// ... in the name of a series, which is bold.
const BOLD_LETTER: f64 = 8.3;

/// Draws the chart.
pub(crate) fn lines(chart: &Lines) -> Drawing {
    Drawing::of(|width| draw(chart, width))
}

fn draw(chart: &Lines, width: f64) -> Svg {
    let is_narrow = width < 500.0;
    let height: f64 = if is_narrow { 260.0 } else { 350.0 };
    let drawn = || chart.series.iter().filter(|line| !line.points.is_empty());
    let label_width = drawn().map(|l| l.name.chars().count()).max().unwrap_or(0) as f64 * BOLD_LETTER;
    // On a narrow page the labels are above the chart instead of beside it.
    let legend_rows = if is_narrow { drawn().count() as f64 } else { 0.0 };
    let right = if is_narrow { 12.0 } else { (label_width + 20.0).min(240.0) };
    let top = TOP + legend_rows * 18.0;
    let height = height + legend_rows * 18.0;
    let x = x_scale(chart, LEFT + 14.0, width - right - 14.0);
    let y = y_scale(chart, height - BOTTOM, top);

    let mut canvas = Canvas::default();
    axes(&mut canvas, chart, &x, &y, width - right);
    let n = chart.series.len();
    for (series, line) in chart.series.iter().enumerate() {
        // Side by side, so that intervals at the same x do not hide one another.
        let dodge = if line.banded { 0.0 } else { (series as f64 - (n as f64 - 1.0) / 2.0) * 7.0 };
        draw_line(&mut canvas, line, series, dodge, &x, &y);
    }
    if is_narrow {
        legend(&mut canvas, chart);
    } else {
        end_labels(&mut canvas, chart, &y, width - right + 2.0);
    }
    Svg { width, height, body: canvas.finish() }
}

fn x_scale(chart: &Lines, from: f64, to: f64) -> Scale {
    let all = || chart.series.iter().flat_map(|l| &l.points).map(|p| p.x);
    let low = all().fold(f64::INFINITY, f64::min);
    let high = all().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = chart.x_range.unwrap_or((low, high));
    Scale { kind: chart.x_kind, low, high, from, to }
}

/// Maximum reach of an interval beyond the marks, as a factor. An interval of two or three blocks can be
/// wider than the marks by orders of magnitude and would flatten everything else; it is cut off at the edge,
/// without an end.
fn reach(kind: Kind) -> f64 {
    match kind {
        Kind::Linear => 1.5,
        Kind::Log => 4.0,
    }
}

/// An axis that starts at 0 if it is linear: lengths on it are amounts.
fn y_scale(chart: &Lines, from: f64, to: f64) -> Scale {
    let points = || chart.series.iter().flat_map(|l| &l.points);
    let measured = || points().flat_map(|p| p.dots.iter().copied().chain([p.y]));
    let ends = || points().filter_map(|p| p.interval);
    let least =
        |values: &mut dyn Iterator<Item = f64>| values.filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
    let (mark_low, mark_high) = (least(&mut measured()), measured().fold(f64::NEG_INFINITY, f64::max));
    let high = ends().map(|(_, high)| high).fold(mark_high, f64::max).min(mark_high * reach(chart.y_kind));
    let low = least(&mut ends().map(|(low, _)| low)).min(mark_low).max(mark_low / reach(chart.y_kind));
    match chart.y_kind {
        Kind::Linear => Scale { kind: Kind::Linear, low: 0.0, high: high * 1.06, from, to },
        Kind::Log => Scale { kind: Kind::Log, low: low / 1.15, high: high * 1.15, from, to },
    }
}

fn axes(canvas: &mut Canvas, chart: &Lines, x: &Scale, y: &Scale, right: f64) {
    for value in y.ticks(5) {
        let at = y.at(value);
        canvas.line("grid", (LEFT, at), (right, at));
        canvas.text("tick", (LEFT - 8.0, at + 4.0), Anchor::End, &(chart.y_label)(value));
    }
    canvas.line("axis", (LEFT, y.from), (right, y.from));
    let mut free_from = f64::NEG_INFINITY;
    for (value, label) in &chart.x_ticks {
        let at = x.at(*value);
        let half = label.chars().count() as f64 * LETTER / 2.0;
        canvas.line("axis", (at, y.from), (at, y.from + 5.0));
        if at - half > free_from {
            canvas.text("tick", (at, y.from + 19.0), Anchor::Middle, label);
            free_from = at + half + 4.0;
        }
    }
    canvas.text("axis-title", (x.from.midpoint(x.to), y.from + 39.0), Anchor::Middle, chart.x_title);
    canvas.text("axis-title", (4.0, 14.0), Anchor::Start, chart.y_title);
}

fn draw_line(canvas: &mut Canvas, line: &Line, series: usize, dodge: f64, x: &Scale, y: &Scale) {
    let at = |p: &Point, value: f64| (x.at(p.x) + dodge, y.at(value));
    let color = format!("s{}", series % 7);
    if line.banded {
        let known: Vec<(&Point, (f64, f64))> =
            line.points.iter().filter_map(|p| Some((p, p.interval?))).collect();
        let upper: Vec<_> = known.iter().map(|(p, (_, high))| at(p, *high)).collect();
        let lower: Vec<_> = known.iter().map(|(p, (low, _))| at(p, *low)).collect();
        canvas.band(&format!("band {color}"), &upper, &lower);
    }
    if line.joined {
        let is_whole = |a: &Point, b: &Point| !line.gaps.iter().any(|gap| (a.x..b.x).contains(gap));
        for piece in line.points.chunk_by(is_whole) {
            let through: Vec<_> = piece.iter().map(|p| at(p, p.y)).collect();
            canvas.path(&format!("line {color}"), &through);
            // A line through one point is not visible.
            if let ([alone], false) = (&*through, line.gaps.is_empty()) {
                canvas.marker(&format!("dot {color}"), *alone, 2.6, series);
            }
        }
    }
    for point in &line.points {
        for dot in &point.dots {
            canvas.marker(&format!("dot {color}"), at(point, *dot), 2.6, series);
        }
        if let Some((low, high)) = point.interval.filter(|_| !line.banded) {
            let (x, from) = at(point, low);
            let (_, to) = at(point, high);
            canvas.line(&format!("bar {color}"), (x, from), (x, to));
            for (_, at) in [(low, from), (high, to)].into_iter().filter(|(end, _)| y.holds(*end)) {
                canvas.line(&format!("bar {color}"), (x - 4.0, at), (x + 4.0, at));
            }
        }
        if !line.banded {
            canvas.marker(&format!("mean {color}"), at(point, point.y), 4.0, series);
        }
    }
}

/// Writes a name at the end of each line, and moves names apart that would overlap.
fn end_labels(canvas: &mut Canvas, chart: &Lines, y: &Scale, left: f64) {
    let mut ends: Vec<(f64, usize)> = chart
        .series
        .iter()
        .enumerate()
        .filter_map(|(series, line)| Some((y.at(line.points.last()?.y), series)))
        .collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free_from = y.to;
    for (at, series) in ends {
        let at = at.max(free_from);
        free_from = at + 17.0;
        let color = format!("s{}", series % 7);
        canvas.marker(&format!("mean {color}"), (left, at), 4.0, series);
        canvas.text(
            &format!("label {color}"),
            (left + 9.0, at + 4.5),
            Anchor::Start,
            &chart.series[series].name,
        );
    }
}

fn legend(canvas: &mut Canvas, chart: &Lines) {
    let drawn = chart.series.iter().enumerate().filter(|(_, line)| !line.points.is_empty());
    for (row, (series, line)) in drawn.enumerate() {
        let at = 34.0 + row as f64 * 18.0;
        let color = format!("s{}", series % 7);
        canvas.marker(&format!("mean {color}"), (10.0, at - 4.0), 4.0, series);
        canvas.text(&format!("label {color}"), (20.0, at), Anchor::Start, &line.name);
    }
}
