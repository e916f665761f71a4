//! Drawings of the monitor: lines over the last intervals.

use std::fmt::Write as _;

use record::histogram::Bound;

use crate::followed::Point;
use crate::view::{duration, marked};

/// Size of a chart, in its own units.
const CHART: (f64, f64) = (640.0, 110.0);

/// Rate, p99 and lateness over the last intervals as a drawing; p99 and lateness have one scale. An interval
/// without the number breaks its line.
pub(crate) fn chart(points: &[Option<Point>]) -> String {
    let values = |read: fn(&Point) -> Option<f64>| {
        points.iter().map(|point| point.as_ref().and_then(read)).collect::<Vec<_>>()
    };
    let done = values(|point| point.done_per_s);
    let offered = values(|point| point.offered_per_s);
    let p99 = values(|point| point.p99_ns);
    let late = values(|point| point.lateness_p99_ns);
    let most = |all: &[Option<f64>]| all.iter().flatten().copied().fold(0.0, f64::max);
    let (rate_max, p99_max) = (most(&done).max(most(&offered)), most(&p99).max(most(&late)));
    if points.len() < 2 || rate_max <= 0.0 {
        return String::new();
    }
    let lines = [
        ("offered", &offered, rate_max),
        ("done", &done, rate_max),
        ("p99", &p99, p99_max),
        ("late", &late, p99_max),
    ];
    let drawn: String = lines.iter().map(|(class, all, top)| polylines(class, all, *top, CHART)).collect();
    let (width, height) = CHART;
    let has = |all: &[Option<f64>]| all.iter().any(Option::is_some);
    let of_offered = if has(&offered) { format!(" of {:.1}/s", most(&offered)) } else { String::new() };
    let of_p99 = if has(&p99) {
        let most = most(&p99);
        let bound = bound_of_most(points, most);
        format!(", p99 up to {}", marked(bound, &duration(whole(most))))
    } else {
        String::new()
    };
    let which = match (has(&p99), has(&late)) {
        (true, true) => " (p99 is the other line, its lateness is dotted)",
        (true, false) => " (p99 is the other line)",
        (false, _) => "",
    };
    // The template writes the drawing as it is.
    let of_p99 = of_p99.replace('<', "&lt;").replace('>', "&gt;");
    let label = format!("done up to {:.1}/s{of_offered}{of_p99}", most(&done));
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"The last {} intervals: {label}\">\
         {drawn}<text x=\"2\" y=\"10\">{label}{which}</text></svg>",
        points.len()
    )
}

/// Bound of the largest p99 of intervals: any lower bound may hide a larger one.
fn bound_of_most(points: &[Option<Point>], most: f64) -> Bound {
    let all: Vec<(Bound, f64)> =
        points.iter().flatten().filter_map(|point| Some((point.bound_of_p99, point.p99_ns?))).collect();
    let is_lower = all.iter().any(|(bound, _)| matches!(bound, Bound::Lower | Bound::Neither));
    let is_upper =
        all.iter().any(|(bound, ns)| *ns >= most && matches!(bound, Bound::Upper | Bound::Neither));
    Bound::of(is_lower, is_upper)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "nanoseconds that were whole numbers"
)]
fn whole(ns: f64) -> u64 {
    ns as u64
}

/// Values as lines, from 0 up to `top`. A value that is missing breaks the line.
pub(crate) fn polylines(
    class: &str,
    values: &[Option<f64>],
    top: f64,
    (width, height): (f64, f64),
) -> String {
    if top <= 0.0 {
        return String::new();
    }
    let step = width / values.len().saturating_sub(1).max(1) as f64;
    // A chart has a line of text at its top.
    let above = if height > 40.0 { 16.0 } else { 2.0 };
    let mut drawn = String::with_capacity(values.len() * 12);
    let mut is_open = false;
    for (i, value) in values.iter().enumerate() {
        if let Some(value) = value {
            if is_open {
                drawn.push(' ');
            } else {
                drawn.extend(["<polyline class=\"", class, "\" points=\""]);
            }
            let (x, y) = (i as f64 * step, (height - 2.0) - value / top * (height - 2.0 - above));
            write!(drawn, "{x:.1},{y:.1}").expect("a String takes all that is written to it");
        } else if is_open {
            drawn.push_str("\"/>");
        }
        is_open = value.is_some();
    }
    if is_open {
        drawn.push_str("\"/>");
    }
    drawn
}
