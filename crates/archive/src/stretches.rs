//! Distributions of neighboring intervals, merged during reading: memory does not grow with their number.

use std::collections::BTreeMap;

use record::histogram::CompactHistogram;
use record::series::{HistogramSlice, LatencyKind};

/// Distributions of whole events in stretches of equally many intervals; the same stretches for each kind.
#[derive(Debug)]
pub(crate) struct Stretches {
    places: usize,
    all: Vec<Stretch>,
    /// Intervals in each stretch but the last.
    each: usize,
    /// Intervals in the last.
    in_last: usize,
}

/// The values of each kind in one stretch.
#[derive(Debug)]
struct Stretch {
    from_ns: u64,
    until_ns: u64,
    kinds: BTreeMap<LatencyKind, CompactHistogram>,
}

impl Stretches {
    /// - `places`: at most twice as many stretches are held, and at least as many if there are as many
    ///   intervals.
    pub(crate) fn new(places: usize) -> Self {
        assert!(places > 0, "a drawing has places");
        Self { places, all: Vec::new(), each: 1, in_last: 0 }
    }

    /// Adds a slice. The slices of each kind come in the order of time.
    pub(crate) fn add(&mut self, slice: HistogramSlice) {
        let is_drawn =
            !matches!(slice.kind, LatencyKind::Wait | LatencyKind::Lateness | LatencyKind::Failure);
        if !is_drawn || !slice.operation.is_empty() {
            return;
        }
        let until_ns = slice.from_ns + slice.for_ns;
        match self.all.last_mut() {
            Some(last) if slice.from_ns < last.until_ns => {
                let of = self.all.partition_point(|s| s.until_ns <= slice.from_ns);
                self.all[of].add(slice.kind, slice.histogram);
            }
            Some(last) if self.in_last < self.each => {
                last.until_ns = until_ns;
                last.add(slice.kind, slice.histogram);
                self.in_last += 1;
            }
            _ => {
                if self.all.len() == 2 * self.places {
                    self.halve();
                }
                let kinds = BTreeMap::from([(slice.kind, slice.histogram)]);
                self.all.push(Stretch { from_ns: slice.from_ns, until_ns, kinds });
                self.in_last = 1;
            }
        }
    }

    pub(crate) fn into_slices(self) -> Vec<HistogramSlice> {
        let slices = self.all.into_iter().flat_map(|Stretch { from_ns, until_ns, kinds }| {
            let of_kind = move |(kind, histogram)| HistogramSlice {
                from_ns,
                for_ns: until_ns - from_ns,
                operation: String::new(),
                kind,
                histogram,
            };
            kinds.into_iter().map(of_kind)
        });
        slices.collect()
    }

    /// Merges each pair of an even number of full stretches.
    fn halve(&mut self) {
        let mut halved: Vec<Stretch> = Vec::with_capacity(self.all.len());
        for (number, stretch) in self.all.drain(..).enumerate() {
            match halved.last_mut() {
                Some(last) if number % 2 == 1 => {
                    last.until_ns = stretch.until_ns;
                    stretch.kinds.into_iter().for_each(|(kind, histogram)| last.add(kind, histogram));
                }
                _ => halved.push(stretch),
            }
        }
        self.all = halved;
        self.each *= 2;
    }
}

impl Stretch {
    fn add(&mut self, kind: LatencyKind, values: CompactHistogram) {
        let Some(sum) = self.kinds.get_mut(&kind) else {
            self.kinds.insert(kind, values);
            return;
        };
        let mut buckets: BTreeMap<u64, u64> = sum.buckets().collect();
        values.buckets().for_each(|(lowest_ns, n)| *buckets.entry(lowest_ns).or_default() += n);
        *sum = CompactHistogram::of_buckets(buckets);
    }
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
                assert!(stretches.all.len() <= 6);
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

    #[test]
    fn a_kind_that_few_intervals_have_is_in_the_stretch_of_its_interval() {
        let mut stretches = Stretches::new(3);
        for i in 0..90 {
            stretches.add(slice(i, LatencyKind::Service, ""));
        }
        for i in [0, 29, 59, 89] {
            stretches.add(slice(i, LatencyKind::ServiceAtLeast, ""));
        }
        let all = stretches.into_slices();
        let of = |kind| all.iter().filter(move |s| s.kind == kind);
        assert_eq!(of(LatencyKind::ServiceAtLeast).map(|s| s.histogram.count()).sum::<u64>(), 12);
        for few in of(LatencyKind::ServiceAtLeast) {
            let same =
                of(LatencyKind::Service).filter(|s| (s.from_ns, s.for_ns) == (few.from_ns, few.for_ns));
            assert_eq!(same.count(), 1, "{few:?}");
        }
    }
}
