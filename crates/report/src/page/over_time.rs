//! The latency of a load over its measured phase.

use analysis::intervals::{Interval, intervals};
use record::histogram::Histogram;
use record::load::LoadRecord;

use super::{Figure, Table};
use crate::chart::{Heat, HeatColumn, Kind, Line, Lines, Point, heat, lines};
use crate::heat_map::cells;
use crate::number::{latency, rate};

/// Maximum number of positions on the time axis; more intervals are merged without loss.
pub const PLACES_MAX: usize = 300;
/// Columns of a heat map at most: each has a cell for each latency, and a page has them twice.
const COLUMNS_MAX: usize = 80;
/// ... and at least: fewer show no course.
const COLUMNS_MIN: usize = 5;
/// The lines, by quantile.
const DRAWN: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

/// A merged group of neighbouring intervals.
#[derive(Default)]
struct Stretch {
    from_ns: u64,
    until_ns: u64,
    /// Events that ended well.
    ended: u64,
    /// Latencies of those, and of events that timed out or were unfinished at the end: lower bounds.
    latencies: Histogram,
    /// The least of the lower bounds, if there are any.
    least_bound_ns: Option<u64>,
}

impl Stretch {
    /// Merges neighboring intervals: at least one.
    fn of(intervals: &[Interval<'_>]) -> Self {
        let mut latencies = Histogram::new();
        for interval in intervals {
            interval.add_latencies_to(&mut latencies);
        }
        Self {
            from_ns: intervals[0].from_ns,
            until_ns: intervals[intervals.len() - 1].until_ns,
            ended: intervals.iter().map(Interval::ended).sum(),
            latencies,
            least_bound_ns: intervals.iter().filter_map(Interval::least_bound_ns).min(),
        }
    }

    /// A quantile on paper: with a sign if it is a lower bound, because an event may have lasted longer.
    fn quantile_text(&self, quantile: f64) -> String {
        let Some(ns) = self.quantile_ns(quantile) else { return "-".to_owned() };
        let at_least = if self.least_bound_ns.is_some_and(|bound_ns| bound_ns <= ns) { ">=" } else { "" };
        format!("{at_least}{}", latency(ns as f64))
    }

    /// The end on paper. Times of short intervals have three decimals, because one would not tell them apart.
    fn until_text(&self) -> String {
        let is_short = self.until_ns - self.from_ns < 100_000_000;
        if is_short { format!("{:.3} s", self.until_s()) } else { format!("{:.1} s", self.until_s()) }
    }

    /// A quantile, or `None` if there are too few events to hold it: it would be the maximum.
    fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        if quantile < 1.0 {
            self.latencies.held_quantile_ns(quantile)
        } else {
            self.latencies.quantile_ns(1.0)
        }
    }

    fn until_s(&self) -> f64 {
        self.until_ns as f64 * 1e-9
    }

    fn ended_per_s(&self) -> f64 {
        self.ended as f64 / ((self.until_ns - self.from_ns) as f64 * 1e-9)
    }
}

/// The latency of a load over time: quantiles, and every event. Nothing for fewer than two intervals.
pub(super) fn over_time(record: &LoadRecord) -> Vec<Figure> {
    let name = if record.response.is_ok() { "response time" } else { "service time" };
    let intervals = intervals(record);
    let quantiles = quantiles(&stretches(&intervals, PLACES_MAX), name);
    quantiles.into_iter().chain(every_event(&stretches(&intervals, COLUMNS_MAX), name)).collect()
}

/// Events over time and latency, where two modes and single slow events stay visible; `None` for few
/// intervals.
fn every_event(stretches: &[Stretch], name: &str) -> Option<Figure> {
    if stretches.len() < COLUMNS_MIN {
        return None;
    }
    let mut data = Table::new(
        format!("The {name} of all events of an interval"),
        &["#until", "#events", "#fastest quarter up to", "#slowest quarter from", "#max"],
    )
    .over_time(&["fastest quarter up to", "slowest quarter from", "max"], Kind::Log);
    for s in stretches {
        let at = |q: f64| s.quantile_text(q);
        let until = s.until_text();
        data.row(vec![
            until.into(),
            s.latencies.count().to_string().into(),
            at(0.25).into(),
            at(0.75).into(),
            at(1.0).into(),
        ]);
    }
    let column = |s: &Stretch| HeatColumn {
        from: s.from_ns as f64 * 1e-9,
        until: s.until_s(),
        cells: cells(s.latencies.buckets()),
    };
    Some(Figure {
        title: format!("Every {name}"),
        caption: "Each cell is a time and a latency; the more events it has, the darker it is, by the logarithm of \
                  their number: a single slow event is visible. Events that timed out, or were unfinished at the \
                  end, are included with the time that they had lasted."
            .into(),
        description: "Heat map of all events; the table has the quarters of each interval.".into(),
        drawing: heat(&Heat {
            x_title: "seconds",
            y_title: name,
            y_kind: Kind::Log,
            y_range: None,
            y_label: super::figures::tick_seconds,
            columns: stretches.iter().map(column).collect(),
        }),
        data,
    })
}

/// Median, 99th percentile and maximum over time; `None` for fewer than two intervals.
fn quantiles(stretches: &[Stretch], name: &str) -> Option<Figure> {
    if stretches.len() < 2 {
        return None;
    }
    let mut data = Table::new(
        format!("The {name} of events that ended in each interval"),
        &["#until", "#events", "#ended per second", "#p50", "#p99", "#max"],
    )
    .over_time(&DRAWN.map(|(name, _)| name), Kind::Log);
    for s in stretches {
        let at = |q: f64| s.quantile_text(q);
        data.row(vec![
            s.until_text().into(),
            s.ended.to_string().into(),
            rate(s.ended_per_s()).into(),
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
        gaps: stretches.iter().filter(|s| s.quantile_ns(*q).is_none()).map(Stretch::until_s).collect(),
    };
    let drawing = lines(&Lines {
        x_title: "seconds",
        y_title: name,
        x_kind: Kind::Linear,
        x_range: Some((0.0, stretches.last()?.until_s())),
        y_kind: Kind::Log,
        x_ticks: seconds_ticks(0.0, stretches.last()?.until_s()),
        y_label: super::figures::tick_seconds,
        series: DRAWN.iter().map(line).filter(|l| !l.points.is_empty()).collect(),
    });
    Some(Figure {
        title: format!("{}{} over time", name[..1].to_uppercase(), &name[1..]),
        caption:
            "Each point is the distribution of the events that ended since the previous point. Events that \
             timed out, or were unfinished at the end, are included with the time that they had lasted. The \
             99th percentile is missing at points with fewer than 100 events."
                .into(),
        description:
            "Median, 99th percentile and maximum from the start of the measured phase to its end; the \
                      numbers are in the table."
                .into(),
        drawing,
        data,
    })
}

/// The intervals, merged into at most so many stretches.
fn stretches(intervals: &[Interval<'_>], places: usize) -> Vec<Stretch> {
    let each = intervals.len().div_ceil(places).max(1);
    intervals.chunks(each).map(Stretch::of).collect()
}

fn point(stretch: &Stretch, quantile: f64) -> Option<Point> {
    let ns = stretch.quantile_ns(quantile)?;
    Some(Point { x: stretch.until_s(), y: ns as f64 * 1e-9, interval: None, dots: Vec::new() })
}

pub(super) fn seconds_ticks(from_s: f64, until_s: f64) -> Vec<(f64, String)> {
    crate::chart::round_values(from_s, until_s, 8).into_iter().map(|v| (v, format!("{v}"))).collect()
}

#[cfg(test)]
mod tests {
    use analysis::intervals::of_slices;
    use record::series::{HistogramSlice, LatencyKind};

    use super::*;

    #[test]
    fn a_place_of_sixty_events_has_a_median_and_no_99th_percentile() {
        let of = |count| Stretch { latencies: (1..=count).map(|ns| (ns, 1)).collect(), ..Stretch::default() };
        assert_eq!((of(60).quantile_ns(0.5), of(60).quantile_ns(1.0)), (Some(30), Some(60)));
        assert!(point(&of(60), 0.99).is_none() && point(&of(99), 0.99).is_none());
        assert_eq!(of(100).quantile_ns(0.99), Some(99));
    }

    #[test]
    fn a_quantile_that_an_unfinished_event_may_raise_is_a_lower_bound() {
        let mut slices = [slice(0, LatencyKind::Response, 100), slice(0, LatencyKind::ResponseAtLeast, 1)];
        slices[1].histogram = [(2_000_000, 1)].into_iter().collect();
        let intervals = of_slices(&slices, LatencyKind::Response, 1_000_000_000, 1_000_000_000);
        let s = Stretch::of(&intervals);
        assert_eq!((s.quantile_text(0.5).as_str(), s.quantile_text(0.99).as_str()), ("1.00 us", "1.00 us"));
        assert!(s.quantile_text(1.0).starts_with(">=2.0"), "{}", s.quantile_text(1.0));
        // A bound below the median makes it one too: the event may have lasted for any longer time.
        slices[1].histogram = [(1, 1)].into_iter().collect();
        let intervals = of_slices(&slices, LatencyKind::Response, 1_000_000_000, 1_000_000_000);
        assert_eq!(Stretch::of(&intervals).quantile_text(0.5), ">=1.00 us");
    }

    #[test]
    fn times_of_short_intervals_differ_on_paper() {
        let of = |from_ns, until_ns| Stretch { from_ns, until_ns, ..Stretch::default() }.until_text();
        assert_eq!((of(0, 20_000_000).as_str(), of(20_000_000, 40_000_000).as_str()), ("0.020 s", "0.040 s"));
        assert_eq!(of(0, 100_000_000), "0.1 s");
    }

    fn slice(second: u64, kind: LatencyKind, count: u64) -> HistogramSlice {
        let histogram = [(1_000, count)].into_iter().collect();
        let (from_ns, for_ns) = (second * 1_000_000_000, 1_000_000_000);
        HistogramSlice { from_ns, for_ns, operation: String::new(), kind, histogram }
    }

    #[test]
    fn a_heat_map_has_every_event_once_and_one_slow_event_has_a_cell() {
        let mut slices: Vec<HistogramSlice> =
            (0..200).map(|s| slice(s, LatencyKind::Response, 1_000)).collect();
        slices[100].histogram = [(1_000, 1_000), (2_000_000_000, 1)].into_iter().collect();
        let intervals = of_slices(&slices, LatencyKind::Response, 1_000_000_000, 200_000_000_000);
        let found = stretches(&intervals, COLUMNS_MAX);
        assert!(found.len() <= COLUMNS_MAX && found.len() > COLUMNS_MAX / 2, "{}", found.len());
        let all: Vec<_> = found.iter().flat_map(|s| cells(s.latencies.buckets())).collect();
        assert!((all.iter().map(|c| c.2).sum::<f64>() - 200_001.0).abs() < 0.5);
        assert_eq!(all.iter().filter(|c| c.0 <= 2.0 && 2.0 < c.1 * 1.001 && c.2 < 1.5).count(), 1);
        assert!(every_event(&found, "response time").is_some());
        assert!(every_event(&found[..COLUMNS_MIN - 1], "response time").is_none());
    }

    #[test]
    fn a_stretch_without_events_has_a_rate_of_0_and_no_quantile() {
        let slices = [slice(2, LatencyKind::Response, 100), slice(2, LatencyKind::CarriedIn, 50)];
        let intervals = of_slices(&slices, LatencyKind::Response, 1_000_000_000, 4_000_000_000);
        let found = stretches(&intervals, 2);
        let of = |s: &Stretch| (s.ended_per_s(), s.quantile_ns(0.5));
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), [(0.0, None), (75.0, Some(1_000))]);
    }
}
