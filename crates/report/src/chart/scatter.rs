//! Two numbers against each other: a mark for each thing, with its name beside it if there is room.

use super::scale::{Kind, Scale};
use super::svg::{Anchor, Canvas};
use super::{Drawing, Svg};

/// A chart of marks.
#[derive(Debug)]
pub(crate) struct Scatter<'a> {
    pub(crate) x_title: &'a str,
    pub(crate) y_title: &'a str,
    pub(crate) x_kind: Kind,
    pub(crate) x_label: fn(f64) -> String,
    pub(crate) y_label: fn(f64) -> String,
    /// Meanings of the marks' styles, for a legend; a single style needs no legend.
    pub(crate) styles: Vec<String>,
    pub(crate) things: Vec<PointGroup>,
}

/// One thing with its marks in all styles, joined by a line if they are apart, and named once.
#[derive(Debug)]
pub(crate) struct PointGroup {
    pub(crate) name: String,
    pub(crate) marks: Vec<Mark>,
}

/// One mark.
#[derive(Debug)]
pub(crate) struct Mark {
    /// Index of the style.
    pub(crate) style: usize,
    pub(crate) x: f64,
    pub(crate) x_interval: Option<(f64, f64)>,
    pub(crate) y: f64,
    pub(crate) y_interval: Option<(f64, f64)>,
}

const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 46.0;
const MARK: f64 = 4.5;
/// Approximate width and height of a letter in a label.
const LETTER: (f64, f64) = (7.3, 15.0);
/// Maximum reach of an interval beyond the marks, as a factor; the rest is cut off at the edge.
const REACH: f64 = 1.6;

/// Draws the chart.
pub(crate) fn scatter(chart: &Scatter) -> Drawing {
    Drawing::of(|width| draw(chart, width))
}

fn draw(chart: &Scatter, width: f64) -> Svg {
    let height = if width < 500.0 { 380.0 } else { 420.0 };
    let legend_rows = if chart.styles.len() > 1 { 1.0 } else { 0.0 };
    let top = 30.0 + legend_rows * 22.0;
    let x = x_scale(chart, LEFT + 14.0, width - RIGHT - 14.0);
    let y = y_scale(chart, height - BOTTOM, top);
    let mut canvas = Canvas::default();
    axes(&mut canvas, chart, &x, &y, width - RIGHT);
    if chart.styles.len() > 1 {
        legend(&mut canvas, &chart.styles);
    }
    for (number, thing) in chart.things.iter().enumerate() {
        draw_thing(&mut canvas, thing, number, &x, &y);
    }
    let field = Area { left: LEFT, top, right: width - 2.0, bottom: height - BOTTOM };
    labels(&mut canvas, chart, &x, &y, field);
    Svg { width, height, body: canvas.finish() }
}

fn marks<'a>(chart: &'a Scatter<'_>) -> impl Iterator<Item = &'a Mark> {
    chart.things.iter().flat_map(|thing| &thing.marks)
}

/// An axis over the marks, and over their intervals as far as [`REACH`] allows.
fn x_scale(chart: &Scatter, from: f64, to: f64) -> Scale {
    let low = marks(chart).map(|m| m.x).fold(f64::INFINITY, f64::min);
    let high = marks(chart).map(|m| m.x).fold(f64::NEG_INFINITY, f64::max);
    let ends = || marks(chart).filter_map(|m| m.x_interval);
    let interval_low = ends().map(|i| i.0).filter(|v| *v > 0.0).fold(low, f64::min);
    let interval_high = ends().map(|i| i.1).fold(high, f64::max);
    let (low, high) = (interval_low.max(low / REACH), interval_high.min(high * REACH));
    match chart.x_kind {
        Kind::Linear => Scale { kind: Kind::Linear, low: 0.0, high: high * 1.04, from, to },
        Kind::Log => Scale { kind: Kind::Log, low: low / 1.05, high: high * 1.05, from, to },
    }
}

/// An axis that does not start at 0: the chart compares positions, not lengths.
fn y_scale(chart: &Scatter, from: f64, to: f64) -> Scale {
    let all = || {
        marks(chart).flat_map(|m| [m.y].into_iter().chain(m.y_interval.into_iter().flat_map(|(l, h)| [l, h])))
    };
    let low = all().fold(f64::INFINITY, f64::min);
    let high = all().fold(f64::NEG_INFINITY, f64::max);
    let margin = if high > low { (high - low) * 0.08 } else { 1.0_f64.max(high.abs() * 0.01) };
    Scale { kind: Kind::Linear, low: low - margin, high: high + margin, from, to }
}

fn axes(canvas: &mut Canvas, chart: &Scatter, x: &Scale, y: &Scale, right: f64) {
    for value in y.ticks(6) {
        let at = y.at(value);
        canvas.line("grid", (LEFT, at), (right, at));
        canvas.text("tick", (LEFT - 8.0, at + 4.0), Anchor::End, &(chart.y_label)(value));
    }
    canvas.line("axis", (LEFT, y.from), (right, y.from));
    let mut free_from = f64::NEG_INFINITY;
    for value in x.ticks(7) {
        let (at, label) = (x.at(value), (chart.x_label)(value));
        let half = label.chars().count() as f64 * LETTER.0 / 2.0;
        canvas.line("axis", (at, y.from), (at, y.from + 5.0));
        if at - half > free_from {
            canvas.text("tick", (at, y.from + 19.0), Anchor::Middle, &label);
            free_from = at + half + 4.0;
        }
    }
    canvas.text("axis-title", (x.from.midpoint(x.to), y.from + 39.0), Anchor::Middle, chart.x_title);
    canvas.text("axis-title", (4.0, 14.0), Anchor::Start, chart.y_title);
}

fn legend(canvas: &mut Canvas, styles: &[String]) {
    let mut left = LEFT;
    for (style, text) in styles.iter().enumerate() {
        canvas.marker("mean s0", (left, 32.0), MARK, style);
        canvas.text("tick", (left + 10.0, 36.0), Anchor::Start, text);
        left += 10.0 + text.chars().count() as f64 * LETTER.0 + 22.0;
    }
}

fn draw_thing(canvas: &mut Canvas, thing: &PointGroup, number: usize, x: &Scale, y: &Scale) {
    let color = format!("s{}", number % 7);
    let through: Vec<_> = thing.marks.iter().map(|m| (x.at(m.x), y.at(m.y))).collect();
    // A level line would look like an interval, and level marks are in one row without it.
    if through.windows(2).any(|pair| (pair[0].1 - pair[1].1).abs() > MARK) {
        canvas.path(&format!("bar {color}"), &through);
    }
    for mark in &thing.marks {
        let (at_x, at_y) = (x.at(mark.x), y.at(mark.y));
        let bar = format!("bar {color}");
        if let Some((low, high)) = mark.x_interval {
            canvas.line(&bar, (x.at(low), at_y), (x.at(high), at_y));
            // An end is drawn only if it is on the axis.
            for end in [low, high].into_iter().filter(|end| x.holds(*end)) {
                canvas.line(&bar, (x.at(end), at_y - 4.0), (x.at(end), at_y + 4.0));
            }
        }
        if let Some((low, high)) = mark.y_interval.filter(|(low, high)| low < high) {
            canvas.line(&bar, (at_x, y.at(low)), (at_x, y.at(high)));
        }
    }
    for (mark, at) in thing.marks.iter().zip(through) {
        canvas.marker(&format!("mean {color}"), at, MARK, mark.style);
    }
}

/// A rectangle on the canvas.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Area {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Area {
    fn around((x, y): (f64, f64), half: f64) -> Self {
        Self { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }

    /// The overlap with another area, in square pixels.
    fn common(&self, other: &Self) -> f64 {
        let wide = self.right.min(other.right) - self.left.max(other.left);
        let high = self.bottom.min(other.bottom) - self.top.max(other.top);
        wide.max(0.0) * high.max(0.0)
    }

    fn is_within(&self, other: &Self) -> bool {
        self.left >= other.left
            && self.right <= other.right
            && self.top >= other.top
            && self.bottom <= other.bottom
    }
}

/// Writes a name beside one mark of each thing, with a thin line to it if the nearest free position is far
/// away.
fn labels(canvas: &mut Canvas, chart: &Scatter, x: &Scale, y: &Scale, field: Area) {
    let at = |m: &Mark| (x.at(m.x), y.at(m.y));
    let mut taken: Vec<Area> = marks(chart).map(|m| Area::around(at(m), MARK + 1.0)).collect();
    // A name may cross intervals if no other position is left, so they count as thin areas.
    taken.extend(marks(chart).filter_map(|m| {
        let ((low, high), (_, middle)) = (m.x_interval?, at(m));
        Some(Area { left: x.at(low), top: middle - 2.0, right: x.at(high), bottom: middle + 2.0 })
    }));
    for (number, thing) in chart.things.iter().enumerate() {
        let width = thing.name.chars().count() as f64 * LETTER.0;
        let anchors: Vec<_> = thing.marks.iter().map(at).collect();
        let Some((place, anchor)) = place(&anchors, width, &taken, field) else { continue };
        taken.push(place);
        let color = format!("s{}", number % 7);
        let near = (anchor.0.clamp(place.left, place.right), anchor.1.clamp(place.top, place.bottom));
        if (near.0 - anchor.0).hypot(near.1 - anchor.1) > 3.0 * MARK {
            canvas.line("grid", anchor, near);
        }
        canvas.text(&format!("label {color}"), (place.left, place.bottom - 3.5), Anchor::Start, &thing.name);
    }
}

/// The free position nearest to any of `anchors`; if none is free, the one that hides least.
fn place(anchors: &[(f64, f64)], width: f64, taken: &[Area], field: Area) -> Option<(Area, (f64, f64))> {
    let mut best: Option<(f64, Area, (f64, f64))> = None;
    for ring in 0..9 {
        let gap = MARK + 3.0 + f64::from(ring) * 9.0;
        for anchor in anchors {
            for (right, down) in [
                (1.0, 0.0),
                (-1.0, 0.0),
                (0.0, -1.0),
                (0.0, 1.0),
                (1.0, -1.0),
                (1.0, 1.0),
                (-1.0, -1.0),
                (-1.0, 1.0),
            ] {
                let middle = anchor.0 + right * (gap + width / 2.0);
                let line = anchor.1 + down * (gap + LETTER.1 / 2.0);
                let area = Area {
                    left: middle - width / 2.0,
                    right: middle + width / 2.0,
                    top: line - LETTER.1 / 2.0,
                    bottom: line + LETTER.1 / 2.0,
                };
                if !area.is_within(&field) {
                    continue;
                }
                let hidden: f64 = taken.iter().map(|t| area.common(t)).sum();
                if best.is_none_or(|(least, ..)| hidden < least) {
                    best = Some((hidden, area, *anchor));
                }
                if hidden == 0.0 {
                    return Some((area, *anchor));
                }
            }
        }
    }
    best.map(|(_, area, anchor)| (area, anchor))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELD: Area = Area { left: 0.0, top: 0.0, right: 300.0, bottom: 300.0 };

    #[test]
    fn names_of_things_that_lie_close_do_not_cover_each_other() {
        let anchors: Vec<(f64, f64)> =
            (0..8).map(|i| (150.0 + f64::from(i), 150.0 + 2.0 * f64::from(i))).collect();
        let mut taken: Vec<Area> = anchors.iter().map(|a| Area::around(*a, MARK)).collect();
        for anchor in &anchors {
            let (area, _) = place(&[*anchor], 80.0, &taken, FIELD).unwrap();
            assert!(taken.iter().all(|t| area.common(t) == 0.0), "{area:?}");
            taken.push(area);
        }
    }

    #[test]
    fn a_name_without_room_takes_the_place_that_hides_least_and_one_too_long_is_left_to_the_table() {
        let (area, _) = place(&[(10.0, 10.0)], 80.0, &[FIELD], FIELD).unwrap();
        assert!(area.is_within(&FIELD));
        assert_eq!(place(&[(10.0, 10.0)], 400.0, &[], FIELD), None);
    }

    #[test]
    fn an_interval_much_wider_than_the_rest_does_not_squeeze_it() {
        let mark = |x, interval| Mark { style: 0, x, x_interval: Some(interval), y: 1.0, y_interval: None };
        let thing =
            PointGroup { name: "a".into(), marks: vec![mark(10.0, (9.0, 11.0)), mark(20.0, (0.01, 4e4))] };
        let chart = Scatter {
            x_title: "",
            y_title: "",
            x_kind: Kind::Log,
            x_label: |_| String::new(),
            y_label: |_| String::new(),
            styles: Vec::new(),
            things: vec![thing],
        };
        let scale = x_scale(&chart, 0.0, 100.0);
        assert!(scale.low > 5.0 && scale.high < 40.0);
        assert!(!scale.holds(4e4) && scale.holds(9.0));
    }
}
