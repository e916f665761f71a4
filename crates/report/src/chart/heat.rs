//! Counts over two axes, time and a value, as cells; a higher count is a darker cell.

use std::collections::BTreeMap;

use super::scale::{Kind, Scale, round_values};
use super::svg::{Anchor, Canvas};
use super::{Drawing, Svg};

/// A heat map.
#[derive(Debug)]
pub(crate) struct Heat<'a> {
    pub(crate) x_title: &'a str,
    pub(crate) y_title: &'a str,
    pub(crate) y_kind: Kind,
    /// Ends of the axis; without them it ends with the cells.
    pub(crate) y_range: Option<(f64, f64)>,
    pub(crate) y_label: fn(f64) -> String,
    /// Columns in rising order; if empty, nothing is drawn.
    pub(crate) columns: Vec<HeatColumn>,
}

/// Counts of one time span.
#[derive(Debug)]
pub(crate) struct HeatColumn {
    pub(crate) from: f64,
    pub(crate) until: f64,
    /// Lower bound, upper bound (both over 0 on a logarithmic axis) and count.
    pub(crate) cells: Vec<(f64, f64, f64)>,
}

const LEFT: f64 = 62.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
const RIGHT: f64 = 12.0;
/// Opacity of the palest visible cell.
const PALEST: f64 = 0.12;
/// Number of distinct opacities. All cells of one opacity are one element: a page of some ten thousand
/// elements keeps browsers and accessibility checkers busy for seconds.
const SHADES: f64 = 24.0;

/// Draws the chart. Opacity follows the logarithm of the count, so one slow request among thousands is
/// visible.
pub(crate) fn heat(chart: &Heat) -> Drawing {
    Drawing::of(|width| draw(chart, width))
}

fn draw(chart: &Heat, width: f64) -> Svg {
    let height = if width < 500.0 { 260.0 } else { 350.0 };
    let cells = || chart.columns.iter().flat_map(|c| &c.cells);
    let of_cells = || {
        let low = cells().map(|c| c.0).fold(f64::INFINITY, f64::min);
        (low, cells().map(|c| c.1).fold(f64::NEG_INFINITY, f64::max))
    };
    let (low, high) = chart.y_range.unwrap_or_else(of_cells);
    let most = cells().map(|c| c.2).fold(1.0, f64::max);
    let (first, last) = match (chart.columns.first(), chart.columns.last()) {
        (Some(first), Some(last)) if low < high => (first.from, last.until),
        _ => return Svg { width, height, body: String::new() },
    };
    let x = Scale { kind: Kind::Linear, low: first, high: last, from: LEFT, to: width - RIGHT };
    let y = Scale { kind: chart.y_kind, low, high, from: height - BOTTOM, to: TOP };
    let mut canvas = Canvas::default();
    for value in y.ticks(6) {
        canvas.line("grid", (LEFT, y.at(value)), (width - RIGHT, y.at(value)));
        canvas.text("tick", (LEFT - 6.0, y.at(value) + 4.0), Anchor::End, &(chart.y_label)(value));
    }
    for (shade, cells) in shades(chart, most, &x, &y) {
        canvas.cells(PALEST + (1.0 - PALEST) * f64::from(shade) / SHADES, &cells);
    }
    canvas.line("axis", (LEFT, height - BOTTOM), (width - RIGHT, height - BOTTOM));
    for value in round_values(first, last, if width < 500.0 { 4 } else { 8 }) {
        canvas.text("tick", (x.at(value), height - BOTTOM + 18.0), Anchor::Middle, &format!("{value}"));
    }
    canvas.text("axis-title", (f64::midpoint(LEFT, width), height - 8.0), Anchor::Middle, chart.x_title);
    canvas.text("axis-title", (4.0, 16.0), Anchor::Start, chart.y_title);
    Svg { width, height, body: canvas.finish() }
}

/// A cell in pixels: its upper left corner, width and height.
type Cell = ((f64, f64), f64, f64);

/// The cells of each shade, the palest first.
fn shades(chart: &Heat, most: f64, x: &Scale, y: &Scale) -> BTreeMap<u32, Vec<Cell>> {
    let mut shades: BTreeMap<u32, Vec<Cell>> = BTreeMap::new();
    for column in &chart.columns {
        for (from, until, count) in &column.cells {
            let share = (1.0 + count).ln() / (1.0 + most).ln();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to SHADES")]
            let shade = (share * SHADES).round() as u32;
            let (left, top) = (x.at(column.from), y.at(*until));
            let width = (x.at(column.until) - left).max(1.0);
            shades.entry(shade).or_default().push(((left, top), width, y.at(*from) - top));
        }
    }
    shades
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_cells_there_are_elements_are_few() {
        let columns = (0..300_u32)
            .map(|t| HeatColumn {
                from: f64::from(t),
                until: f64::from(t + 1),
                cells: (0..100_u32)
                    .map(|c| (f64::from(c), f64::from(c + 1), f64::from((t * 31 + c * 17) % 5_000)))
                    .collect(),
            })
            .collect();
        let chart = Heat {
            x_title: "s",
            y_title: "busy",
            y_kind: Kind::Linear,
            y_range: Some((0.0, 100.0)),
            y_label: |v| format!("{v}"),
            columns,
        };
        let body = heat(&chart).wide.body;
        assert_eq!(body.matches('z').count(), 30_000);
        assert!(body.matches(r#"class="heat""#).count() <= 25, "{}", body.matches("class").count());
    }

    #[test]
    fn every_cell_is_drawn_inside_of_the_axes_and_the_fullest_is_the_darkest() {
        let columns = (0..10_u32)
            .map(|t| HeatColumn {
                from: f64::from(t),
                until: f64::from(t + 1),
                cells: vec![(1e-5, 2e-5, 1000.0), (1e-2, 2e-2, 1.0)],
            })
            .collect();
        let of = |columns| Heat {
            x_title: "s",
            y_title: "latency",
            y_kind: Kind::Log,
            y_range: None,
            y_label: |v| format!("{v}"),
            columns,
        };
        let chart = of(columns);
        let svg = heat(&chart).wide;
        // One element for each of the two shades, with ten cells each.
        assert_eq!(svg.body.matches(r#"class="heat""#).count(), 2);
        let darkest = svg.body.lines().find(|line| line.contains(r#"fill-opacity="1.00""#)).unwrap();
        assert_eq!(darkest.matches('z').count(), 10);
        assert_eq!(svg.body.matches('z').count(), 20);
        assert!(heat(&of(Vec::new())).wide.body.is_empty());
    }
}
