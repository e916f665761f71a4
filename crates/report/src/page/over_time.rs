//! The latency of a load over its measured phase.

use record::histogram::Histogram;
use record::load::LoadRecord;
use record::series::{HistogramSlice, LatencyKind};

use super::{Figure, Table};
use crate::chart::{Kind, Line, Lines, Point, lines};
use crate::number::{latency, rate};

/// Maximum number of positions on the time axis; more intervals are merged without loss.
pub const PLACES_MAX: usize = 300;
/// The lines, by quantile.
const DRAWN: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

/// A merged group of neighbouring intervals.
struct Stretch {
    until_s: f64,
    for_s: f64,
    histogram: Histogram,
}

impl Stretch {
    /// A quantile, or `None` if there are too few events to hold it: it would be the maximum.
    fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        if quantile < 1.0 {
            self.histogram.held_quantile_ns(quantile)
        } else {
            self.histogram.quantile_ns(1.0)
        }
    }
}

/// Median, 99th percentile and maximum over time; `None` for fewer than two intervals.
pub(super) fn over_time(record: &LoadRecord) -> Option<Figure> {
    let kind = if record.response.is_ok() { LatencyKind::Response } else { LatencyKind::Service };
    let slices: Vec<&HistogramSlice> =
        record.slices.iter().filter(|s| s.kind == kind && s.operation.is_empty()).collect();
    if slices.len() < 2 {
        return None;
    }
    let stretches: Vec<Stretch> = slices.chunks(slices.len().div_ceil(PLACES_MAX)).map(stretch).collect();
    let name = if kind == LatencyKind::Response { "response time" } else { "service time" };
    let mut data = Table::new(
        format!("The {name} of events that ended in each interval"),
        &["#until", "#events", "#ended per second", "#p50", "#p99", "#max"],
    );
    for s in &stretches {
        let at = |q: f64| s.quantile_ns(q).map_or("-".to_owned(), |ns| latency(ns as f64));
        data.row(vec![
            format!("{:.1} s", s.until_s).into(),
            s.histogram.count().to_string().into(),
            rate(s.histogram.count() as f64 / s.for_s).into(),
            at(0.5).into(),
            at(0.99).into(),
            at(1.0).into(),
        ]);
    }
    let line = |(name, q): &(&str, f64)| Line {
        name: (*name).to_owned(),
        points: stretches.iter().filter_map(|s| point(s, *q)).collect(),
        banded: true,
        joined: true,
        gaps: stretches.iter().filter(|s| s.quantile_ns(*q).is_none()).map(|s| s.until_s).collect(),
    };
    let drawing = lines(&Lines {
        x_title: "seconds",
        y_title: name,
        x_kind: Kind::Linear,
        x_range: Some((0.0, stretches.last()?.until_s)),
        y_kind: Kind::Log,
        x_ticks: seconds_ticks(0.0, stretches.last()?.until_s),
        y_label: super::figures::tick_seconds,
        series: DRAWN.iter().map(line).filter(|l| !l.points.is_empty()).collect(),
    });
    Some(Figure {
        title: format!("{}{} over time", name[..1].to_uppercase(), &name[1..]),
        caption:
            "Each point is the distribution of the events that ended since the previous point. The 99th \
             percentile is missing at points with fewer than 100 events."
                .into(),
        description:
            "Median, 99th percentile and maximum from the start of the measured phase to its end; the \
                      numbers are in the table."
                .into(),
        drawing,
        data,
    })
}

fn stretch(slices: &[&HistogramSlice]) -> Stretch {
    let from_ns = slices[0].from_ns;
    let last = slices[slices.len() - 1];
    Stretch {
        until_s: (last.from_ns + last.for_ns) as f64 * 1e-9,
        for_s: (last.from_ns + last.for_ns - from_ns) as f64 * 1e-9,
        histogram: slices.iter().flat_map(|s| s.histogram.buckets()).collect(),
    }
}

fn point(stretch: &Stretch, quantile: f64) -> Option<Point> {
    let ns = stretch.quantile_ns(quantile)?;
    Some(Point { x: stretch.until_s, y: ns as f64 * 1e-9, interval: None, dots: Vec::new() })
}

pub(super) fn seconds_ticks(from_s: f64, until_s: f64) -> Vec<(f64, String)> {
    crate::chart::round_values(from_s, until_s, 8).into_iter().map(|v| (v, format!("{v}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_sixty_events_has_a_median_and_no_99th_percentile() {
        let of =
            |count| Stretch { until_s: 1.0, for_s: 1.0, histogram: (1..=count).map(|ns| (ns, 1)).collect() };
        assert_eq!((of(60).quantile_ns(0.5), of(60).quantile_ns(1.0)), (Some(30), Some(60)));
        assert!(point(&of(60), 0.99).is_none() && point(&of(99), 0.99).is_none());
        assert_eq!(of(100).quantile_ns(0.99), Some(99));
    }
}
