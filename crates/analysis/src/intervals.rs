//! The intervals of a load's measured phase, without gaps: completions and latencies of each.

use std::collections::BTreeMap;

use record::histogram::{CensoredHistogram, Histogram};
use record::load::LoadRecord;
use record::series::{HistogramSlice, LatencyKind};

/// An interval, with the distributions of the events that ended in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval<'a> {
    /// Start, in nanoseconds since the start of the measured phase.
    pub from_ns: u64,
    /// End.
    pub until_ns: u64,
    slices: Vec<&'a HistogramSlice>,
}

/// The intervals of the measured phase in order; empty if the record has no distributions by interval.
///
/// An interval in which no event ended has no distribution, and is included: a stall is a rate of 0, not a
/// gap.
pub fn intervals(load: &LoadRecord) -> Vec<Interval<'_>> {
    let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    of_slices(&load.slices, load.latency_kind(), ns(load.settings.interval), ns(load.measured))
}

/// Variant of [`intervals`] for distributions without a record.
///
/// - `kind`: response, or service in a closed loop.
/// - `interval_ns`: planned length of an interval; those of a merged series are longer.
/// - `until_ns`: end of the measured phase.
pub fn of_slices(
    slices: &[HistogramSlice],
    kind: LatencyKind,
    interval_ns: u64,
    until_ns: u64,
) -> Vec<Interval<'_>> {
    let mut known: BTreeMap<u64, Interval<'_>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.is_of_events(kind) && slice.for_ns > 0) {
        let from_ns = slice.from_ns;
        let new = || Interval { from_ns, until_ns: from_ns, slices: Vec::new() };
        let interval = known.entry(from_ns).or_insert_with(new);
        interval.until_ns = interval.until_ns.max(from_ns.saturating_add(slice.for_ns));
        interval.slices.push(slice);
    }
    let Some(first) = known.values().next() else { return Vec::new() };
    let each_ns = interval_ns.max(first.until_ns - first.from_ns);
    let mut all: Vec<Interval<'_>> = Vec::with_capacity(known.len());
    for interval in known.into_values() {
        fill(&mut all, interval.from_ns, each_ns);
        all.push(interval);
    }
    fill(&mut all, until_ns, each_ns);
    all
}

/// Adds intervals without events, of `each_ns` or less, until `until_ns`.
fn fill(all: &mut Vec<Interval<'_>>, until_ns: u64, each_ns: u64) {
    let mut from_ns = all.last().map_or(0, |last| last.until_ns);
    // A rest this short comes from the rounding of a file.
    while from_ns + each_ns / 100 < until_ns {
        let end_ns = from_ns.saturating_add(each_ns).min(until_ns);
        all.push(Interval { from_ns, until_ns: end_ns, slices: Vec::new() });
        from_ns = end_ns;
    }
}

impl Interval<'_> {
    /// Number of events that ended well, including those that were due or began before the phase.
    pub fn ended(&self) -> u64 {
        let ended = self.slices.iter().filter(|s| is_ended(s.kind));
        ended.map(|s| s.histogram.count()).sum()
    }

    /// Events that ended well per second.
    pub fn ended_per_s(&self) -> f64 {
        self.ended() as f64 / ((self.until_ns - self.from_ns) as f64 * 1e-9)
    }

    /// Latencies of events of the phase that ended, and lower bounds of those that timed out or were
    /// unfinished at the end.
    pub fn latencies(&self) -> Histogram {
        let mut all = CensoredHistogram::default();
        self.add_latencies_to(&mut all);
        all.merged()
    }

    /// Adds [`Self::latencies`] to `all`.
    pub fn add_latencies_to(&self, all: &mut CensoredHistogram) {
        // Events that began before the phase are no sample of its latencies.
        for slice in self.slices.iter().filter(|s| s.kind != LatencyKind::CarriedIn) {
            let part = if is_ended(slice.kind) { &mut all.known } else { &mut all.at_least };
            slice.histogram.buckets().for_each(|(ns, count)| part.record_n(ns, count));
        }
    }
}

/// Whether the events of a kind ended well in their interval.
fn is_ended(kind: LatencyKind) -> bool {
    matches!(kind, LatencyKind::Response | LatencyKind::Service | LatencyKind::CarriedIn)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn slice(second: u64, kind: LatencyKind, count: u64) -> HistogramSlice {
        let histogram = [(1_000, count)].into_iter().collect();
        HistogramSlice { from_ns: second * S, for_ns: S, operation: String::new(), kind, histogram }
    }

    /// Start and end in seconds, events that ended well, latencies.
    fn found(slices: &[HistogramSlice], kind: LatencyKind, until_ns: u64) -> Vec<(f64, f64, u64, u64)> {
        let of = |i: &Interval<'_>| {
            (i.from_ns as f64 / 1e9, i.until_ns as f64 / 1e9, i.ended(), i.latencies().count())
        };
        of_slices(slices, kind, S, until_ns).iter().map(of).collect()
    }

    #[test]
    fn the_rate_counts_what_began_before_the_phase_and_the_latencies_what_timed_out() {
        for (known, at_least) in [
            (LatencyKind::Service, LatencyKind::ServiceAtLeast),
            (LatencyKind::Response, LatencyKind::ResponseAtLeast),
        ] {
            let slices = [
                slice(0, known, 8),
                slice(0, LatencyKind::CarriedIn, 8),
                slice(1, known, 10),
                slice(1, at_least, 3),
                slice(1, LatencyKind::Failure, 3),
            ];
            assert_eq!(found(&slices, known, 2 * S), [(0.0, 1.0, 16, 8), (1.0, 2.0, 10, 13)]);
        }
        // The service times of an open loop are not its latencies.
        assert_eq!(found(&[slice(0, LatencyKind::Service, 8)], LatencyKind::Response, S), []);
    }

    #[test]
    fn intervals_in_which_nothing_ended_are_intervals_with_a_rate_of_0() {
        let slices = [1, 4].map(|second| slice(second, LatencyKind::Response, 100));
        let empty = |from_s: f64, until_s: f64| (from_s, until_s, 0, 0);
        assert_eq!(
            found(&slices, LatencyKind::Response, 65 * S / 10),
            [
                empty(0.0, 1.0),
                (1.0, 2.0, 100, 100),
                empty(2.0, 3.0),
                empty(3.0, 4.0),
                (4.0, 5.0, 100, 100),
                empty(5.0, 6.0),
                empty(6.0, 6.5),
            ]
        );
    }
}
