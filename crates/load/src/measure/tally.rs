//! Histograms that cost in proportion to their values, not to their size: to add, to empty, to read.
//!
//! A worker records in a dozen [`Tally`]s, and an interval ends by adding those of all workers to [`Sum`]s.
//! The cost of that is memory traffic, since the memory was written on other CPUs. So the counts of a tally
//! are 16 bits wide, and the rare count that overflows carries over.

use std::fmt;
use std::ops::Range;

use record::histogram::{CompactHistogram, Histogram, LATENCY_NS_MAX};

/// Buckets for each octave in the layout of [`record::histogram`].
const PER_OCTAVE: u64 = 1024;
const BUCKETS: usize = bucket_of(LATENCY_NS_MAX) + 1;
/// Number of buckets that share one bit of the occupancy map.
const GROUP: usize = 64;
const GROUPS: usize = BUCKETS.div_ceil(GROUP);
/// Events that one carry stands for.
const CARRY: u64 = 1 << u16::BITS;

/// The groups in use. A mostly empty histogram is added and emptied without touching its other groups.
#[derive(Clone, Copy)]
struct Map([u64; GROUPS.div_ceil(64)]);

impl Map {
    const NONE: Self = Self([0; GROUPS.div_ceil(64)]);

    fn note(&mut self, group: usize) {
        self.0[group / 64] |= 1 << (group % 64);
    }

    fn add(&mut self, other: &Self) {
        for (all, others) in self.0.iter_mut().zip(other.0) {
            *all |= others;
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn groups(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(index, mut left)| {
            std::iter::from_fn(move || {
                let place = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(index * 64 + place)
            })
        })
    }
}

/// A worker's histogram: the buckets of [`Histogram`], modulo [`CARRY`].
pub(crate) struct Tally {
    counts: Box<[u16]>,
    /// Number of overflows of each count.
    carried: Box<[u32]>,
    has_carried: bool,
    occupied: Map,
}

impl Tally {
    pub(crate) fn new() -> Self {
        // Zeroed memory: pages without a value are never allocated.
        Self {
            counts: vec![0; GROUPS * GROUP].into_boxed_slice(),
            carried: vec![0; GROUPS * GROUP].into_boxed_slice(),
            has_carried: false,
            occupied: Map::NONE,
        }
    }

    pub(crate) fn record(&mut self, value_ns: u64) {
        let bucket = bucket_of(value_ns.min(LATENCY_NS_MAX));
        self.occupied.note(bucket / GROUP);
        let count = &mut self.counts[bucket];
        *count = count.wrapping_add(1);
        if *count == 0 {
            self.carry(bucket);
        }
    }

    #[cold]
    fn carry(&mut self, bucket: usize) {
        self.carried[bucket] += 1;
        self.has_carried = true;
    }
}

/// The sum of all workers' tallies.
pub(crate) struct Sum {
    counts: Box<[u64]>,
    occupied: Map,
}

impl Sum {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; GROUPS * GROUP].into_boxed_slice(), occupied: Map::NONE }
    }

    /// Adds all values of a worker's tally and empties the tally, without loss.
    pub(crate) fn take(&mut self, tally: &mut Tally) {
        self.occupied.add(&tally.occupied);
        for group in std::mem::replace(&mut tally.occupied, Map::NONE).groups() {
            let (sums, counts) = (&mut self.counts[buckets_of(group)], &mut tally.counts[buckets_of(group)]);
            for (sum, count) in sums.iter_mut().zip(&*counts) {
                *sum += u64::from(*count);
            }
            counts.fill(0);
            if tally.has_carried {
                let carried = &mut tally.carried[buckets_of(group)];
                for (sum, times) in sums.iter_mut().zip(&*carried) {
                    *sum += CARRY * u64::from(*times);
                }
                carried.fill(0);
            }
        }
        tally.has_carried = false;
    }

    /// Adds one value.
    pub(crate) fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Adds a value `count` times.
    pub(crate) fn record_n(&mut self, value_ns: u64, count: u64) {
        let bucket = bucket_of(value_ns.min(LATENCY_NS_MAX));
        self.occupied.note(bucket / GROUP);
        self.counts[bucket] += count;
    }

    /// Removes all values.
    pub(crate) fn clear(&mut self) {
        for group in std::mem::replace(&mut self.occupied, Map::NONE).groups() {
            self.counts[buckets_of(group)].fill(0);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.occupied.is_empty()
    }

    /// The occupied buckets in rising order: lowest value of the bucket, and its count.
    fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.occupied.groups().flat_map(|group| {
            let buckets = buckets_of(group).zip(&self.counts[buckets_of(group)]);
            buckets.filter(|(_, count)| **count > 0).map(|(bucket, count)| (lowest_of(bucket), *count))
        })
    }

    /// Adds all values to `histogram`.
    pub(crate) fn add_to(&self, histogram: &mut Histogram) {
        for (value_ns, count) in self.buckets() {
            histogram.record_n(value_ns, count);
        }
    }
}

impl From<&Sum> for Histogram {
    fn from(sum: &Sum) -> Self {
        sum.buckets().collect()
    }
}

impl From<&Sum> for CompactHistogram {
    fn from(sum: &Sum) -> Self {
        Self::of_buckets(sum.buckets())
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tally({} groups)", self.occupied.groups().count())
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sum({})", self.buckets().map(|(_, count)| count).sum::<u64>())
    }
}

fn buckets_of(group: usize) -> Range<usize> {
    group * GROUP..(group + 1) * GROUP
}

/// The bucket of a value in the layout of three significant digits: 2,048 single values, then 1,024 for each
/// octave.
#[expect(clippy::cast_possible_truncation, reason = "below 50,000 for any value that is recorded")]
const fn bucket_of(value_ns: u64) -> usize {
    let octave = (u64::BITS - (value_ns | (2 * PER_OCTAVE - 1)).leading_zeros()) as u64 - 11;
    (octave * PER_OCTAVE + (value_ns >> octave)) as usize
}

/// The lowest value of a bucket, the inverse of [`bucket_of`].
const fn lowest_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = (bucket / PER_OCTAVE).saturating_sub(1);
    (bucket - octave * PER_OCTAVE) << octave
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_the_common_layout() {
        for value in (0..5_000).chain((0..42).flat_map(|e| [(1 << e) - 1, 1 << e, (1 << e) + 1])) {
            let mut h = Histogram::new();
            h.record(value);
            let expected = h.buckets().next().map(|(lowest, _)| lowest);
            assert_eq!(Some(lowest_of(bucket_of(value))), expected, "{value}");
        }
        assert_eq!(bucket_of(lowest_of(BUCKETS - 1)), BUCKETS - 1);
    }

    #[test]
    fn what_is_taken_twice_is_neither_lost_nor_doubled() {
        let (mut tally, mut taken, mut direct) = (Tally::new(), Sum::new(), Histogram::new());
        for i in 0..10_000u64 {
            let value = i * i * i;
            tally.record(value);
            direct.record(value);
            if i == 5_000 {
                taken.take(&mut tally);
            }
        }
        tally.record(u64::MAX);
        direct.record(u64::MAX);
        taken.take(&mut tally);
        taken.take(&mut tally);
        let read = Histogram::from(&taken);
        assert!(read.buckets().eq(direct.buckets()));
        assert_eq!(read.summary().map(|s| s.max_ns), direct.summary().map(|s| s.max_ns));
        assert!(CompactHistogram::from(&taken).buckets().eq(direct.buckets()));
        let mut added = Histogram::new();
        taken.add_to(&mut added);
        taken.clear();
        assert!(taken.is_empty() && taken.buckets().next().is_none());
        assert!(added.buckets().eq(direct.buckets()));
    }

    #[test]
    fn a_bucket_counts_past_what_its_count_holds() {
        let (mut tally, mut sum) = (Tally::new(), Sum::new());
        for n in 1..=200_001u32 {
            tally.record(if n % 4 == 0 { 30 } else { 1_000_000 });
        }
        sum.take(&mut tally);
        sum.take(&mut tally);
        assert!(sum.buckets().eq([(30, 50_000), (lowest_of(bucket_of(1_000_000)), 150_001)]));
        tally.record(1_000_000);
        sum.take(&mut tally);
        assert_eq!(sum.buckets().last().map(|(_, count)| count), Some(150_002));
    }
}
