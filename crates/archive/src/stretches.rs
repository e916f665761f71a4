//! Distributions of neighboring intervals, merged during reading: memory does not grow with their number.

use std::collections::BTreeMap;

use record::histogram::CompactHistogram;
use record::series::{HistogramSlice, LatencyKind};

/// Response and service time of all operations together, in stretches of equally many intervals.
#[derive(Debug)]
pub(crate) struct Stretches {
    places: usize,
    kinds: BTreeMap<LatencyKind, Merging>,
}

/// Stretches of one kind.
#[derive(Debug)]
struct Merging {
    slices: Vec<HistogramSlice>,
    /// Intervals in each stretch but the last.
    each: usize,
    /// Intervals in the last.
    in_last: usize,
}

impl Stretches {
    /// - `places`: at most twice as many stretches of each kind are held, and at least as many if there are
    ///   more intervals.
    pub(crate) fn new(places: usize) -> Self {
        assert!(places > 0, "a drawing has places");
        Self { places, kinds: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, slice: HistogramSlice) {
        let is_drawn = matches!(slice.kind, LatencyKind::Response | LatencyKind::Service);
        if !is_drawn || !slice.operation.is_empty() {
            return;
        }
        let empty = || Merging { slices: Vec::new(), each: 1, in_last: 0 };
        let merging = self.kinds.entry(slice.kind).or_insert_with(empty);
        match merging.slices.last_mut() {
            Some(last) if merging.in_last < merging.each => {
                append(last, &slice);
                merging.in_last += 1;
                return;
            }
            _ => {}
        }
        if merging.slices.len() == 2 * self.places {
            merging.halve();
        }
        merging.slices.push(slice);
        merging.in_last = 1;
    }

    pub(crate) fn into_slices(self) -> Vec<HistogramSlice> {
        self.kinds.into_values().flat_map(|merging| merging.slices).collect()
    }
}

impl Merging {
    /// Merges each pair of an even number of full stretches.
    fn halve(&mut self) {
        let mut halved = Vec::with_capacity(self.slices.len());
        for slice in self.slices.drain(..) {
            match halved.last_mut() {
                Some((last, 1)) => {
                    append(last, &slice);
                    halved.last_mut().expect("there is one").1 = 2;
                }
                _ => halved.push((slice, 1)),
            }
        }
        self.slices.extend(halved.into_iter().map(|(slice, _)| slice));
        self.each *= 2;
    }
}

/// Extends `earlier` over `later`.
fn append(earlier: &mut HistogramSlice, later: &HistogramSlice) {
    let mut buckets: BTreeMap<u64, u64> = earlier.histogram.buckets().collect();
    later.histogram.buckets().for_each(|(lowest_ns, n)| *buckets.entry(lowest_ns).or_default() += n);
    earlier.histogram = CompactHistogram::of_buckets(buckets);
    earlier.for_ns = (later.from_ns + later.for_ns).saturating_sub(earlier.from_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(i: u64, kind: LatencyKind, operation: &str) -> HistogramSlice {
        let histogram = [(i % 7 * 1_000, 1), (i % 11 * 1_000_000, 2)].into_iter().collect();
        HistogramSlice { from_ns: i * 10, for_ns: 10, operation: operation.to_owned(), kind, histogram }
    }

    #[test]
    fn no_event_is_lost_and_few_stretches_are_held_however_many_intervals_there_are() {
        for n in [0, 1, 5, 6, 7, 12, 13, 1_000, 1_001] {
            let mut stretches = Stretches::new(3);
            for i in 0..n {
                for kind in [LatencyKind::Response, LatencyKind::Service, LatencyKind::Wait] {
                    stretches.add(slice(i, kind, ""));
                    stretches.add(slice(i, kind, "select"));
                }
                assert!(stretches.kinds.values().all(|merging| merging.slices.len() <= 6));
            }
            let all = stretches.into_slices();
            for kind in [LatencyKind::Response, LatencyKind::Service] {
                let of: Vec<&HistogramSlice> = all.iter().filter(|s| s.kind == kind).collect();
                assert!(of.len() as u64 >= n.min(3), "{n}: {}", of.len());
                let mut until_ns = 0;
                for stretch in &of {
                    assert_eq!(stretch.from_ns, until_ns);
                    until_ns += stretch.for_ns;
                }
                assert_eq!(until_ns, n * 10);
                let sum: BTreeMap<u64, u64> = (0..n)
                    .flat_map(|i| slice(i, kind, "").histogram.buckets().collect::<Vec<_>>())
                    .fold(BTreeMap::new(), |mut sum, (ns, count)| {
                        *sum.entry(ns).or_default() += count;
                        sum
                    });
                let mut found = BTreeMap::new();
                for (ns, count) in of.iter().flat_map(|s| s.histogram.buckets()) {
                    *found.entry(ns).or_default() += count;
                }
                assert_eq!(found, sum);
            }
            assert!(all.iter().all(|s| s.operation.is_empty() && s.kind != LatencyKind::Wait));
        }
    }
}
