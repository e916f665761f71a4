//! Distributions are stored; quantiles are computed on reading.
//!
//! All latencies of all drivers use one layout, `HdrHistogram` with three significant digits from 1 ns to 1
//! h, so any two can be added without loss, over threads, seconds, runs and hosts.

use std::borrow::Cow;
use std::sync::LazyLock;

use hdrhistogram::Histogram as Hdr;

pub use crate::compact::CompactHistogram;

/// Upper end of the layout: one hour in nanoseconds. Larger values are recorded as this.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Significant decimal digits that a recorded value keeps.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// Quantiles of every summary, with their names in JSON.
pub const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999)];

/// A distribution of latencies in nanoseconds.
///
/// It takes 270 kB, so that no value needs a request for memory. A decoded one takes a few kB
/// ([`CompactHistogram`]) until a value is added.
#[derive(Debug, Clone)]
pub struct Histogram(Form);

#[derive(Debug, Clone)]
enum Form {
    /// A counter for each bucket of the layout.
    Open(Hdr<u64>),
    /// The occupied buckets.
    Packed(CompactHistogram),
}

/// The empty layout, which knows the ends of each bucket.
static LAYOUT: LazyLock<Hdr<u64>> = LazyLock::new(layout);

fn layout() -> Hdr<u64> {
    let hdr = Hdr::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS);
    hdr.expect("the bounds are constants that the layout accepts")
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.buckets().eq(other.buckets())
    }
}

impl Histogram {
    /// Empty distribution in the one layout.
    pub fn new() -> Self {
        Self(Form::Open(layout()))
    }

    /// Converts a decoded histogram to the one layout.
    ///
    /// Lossless if `hdr` already has the layout; otherwise each value moves to the layout's bucket that holds
    /// it.
    pub fn from_hdr(hdr: &Hdr<u64>) -> Self {
        let has_our_buckets =
            hdr.low() == 1 && hdr.sigfig() == SIGNIFICANT_DIGITS && hdr.max() <= LATENCY_NS_MAX;
        if has_our_buckets {
            return Self(Form::Packed(CompactHistogram::of_buckets(occupied(hdr))));
        }
        let recorded = hdr.iter_recorded();
        let values = recorded.map(|b| (b.value_iterated_to(), b.count_since_last_iteration()));
        Self(Form::Packed(CompactHistogram::from(&values.collect::<Self>())))
    }

    /// Adds one value; a value above [`LATENCY_NS_MAX`] counts as [`LATENCY_NS_MAX`].
    pub fn record(&mut self, value_ns: u64) {
        self.open().saturating_record(value_ns);
    }

    /// Adds `count` equal values.
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        self.open().saturating_record_n(value_ns, count);
    }

    /// Adds all of `other`, bucket by bucket, without loss.
    pub fn add(&mut self, other: &Self) {
        match &other.0 {
            Form::Open(other) if other.is_empty() => {}
            Form::Open(other) => self.open().add(other).expect("both have the one layout"),
            Form::Packed(other) => other.buckets().for_each(|(ns, count)| self.record_n(ns, count)),
        }
    }

    /// Removes all values and retains the memory.
    pub fn clear(&mut self) {
        self.open().reset();
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        match &self.0 {
            Form::Open(hdr) => hdr.len(),
            Form::Packed(packed) => packed.count(),
        }
    }

    /// Whether no value was recorded.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Form::Open(hdr) => hdr.is_empty(),
            Form::Packed(packed) => packed.is_empty(),
        }
    }

    /// Smallest value at or above a share `quantile` in [0, 1] of all values; `None` if empty.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&quantile), "a quantile lies in [0, 1]: {quantile}");
        match &self.0 {
            Form::Open(hdr) => (!hdr.is_empty()).then(|| hdr.value_at_quantile(quantile)),
            Form::Packed(packed) => {
                let (lowest, highest) = self.bucket_of_rank(rank_of(quantile, packed.count()))?;
                Some(if quantile == 0.0 { lowest } else { highest })
            }
        }
    }

    /// Variant of [`Self::quantile_ns`] that is `None` also if the sample is too small, see
    /// [`Summary::quantile_ns`].
    pub fn held_quantile_ns(&self, quantile: f64) -> Option<u64> {
        is_held(self.count(), quantile).then(|| self.quantile_ns(quantile)).flatten()
    }

    /// Lowest and highest value of the bucket that holds the value of this rank; `None` if there is no such
    /// rank.
    ///
    /// - `rank`: place among the values in rising order, from 1.
    pub fn bucket_of_rank(&self, rank: u64) -> Option<(u64, u64)> {
        let mut so_far = 0;
        let mut reaches = |count: u64| {
            so_far += count;
            rank > 0 && so_far >= rank
        };
        let (lowest, _) = self.buckets().find(|(_, count)| reaches(*count))?;
        Some((lowest, LAYOUT.highest_equivalent(lowest)))
    }

    /// Number of values in the bucket of `value_ns` or below it.
    pub fn count_at_or_below(&self, value_ns: u64) -> u64 {
        self.buckets().take_while(|(lowest, _)| *lowest <= value_ns).map(|(_, count)| count).sum()
    }

    /// Standard deviation over the mean; 0 if there are no values or all are 0.
    pub fn spread_ratio(&self) -> f64 {
        let hdr = self.as_hdr();
        let mean = hdr.mean();
        if mean > 0.0 { hdr.stdev() / mean } else { 0.0 }
    }

    /// Count, minimum, maximum, mean and the named quantiles; `None` if there are no values.
    pub fn summary(&self) -> Option<Summary> {
        let hdr = self.as_hdr();
        (!hdr.is_empty()).then(|| Summary {
            count: hdr.len(),
            min_ns: hdr.min(),
            mean_ns: hdr.mean(),
            quantiles_ns: QUANTILES.map(|(_, q)| hdr.value_at_quantile(q)),
            max_ns: hdr.max(),
            lower_bounds: Vec::new(),
            upper_bounds: Vec::new(),
        })
    }

    /// Occupied buckets in rising order: lowest value of the bucket, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (open, packed) = match &self.0 {
            Form::Open(hdr) => (Some(hdr), None),
            Form::Packed(packed) => (None, Some(packed)),
        };
        let open = open.into_iter().flat_map(occupied);
        open.chain(packed.into_iter().flat_map(CompactHistogram::buckets))
    }

    /// Histogram for encoders and readers of `HdrHistogram`'s own formats.
    pub fn as_hdr(&self) -> Cow<'_, Hdr<u64>> {
        match &self.0 {
            Form::Open(hdr) => Cow::Borrowed(hdr),
            Form::Packed(packed) => Cow::Owned(dense(packed)),
        }
    }

    /// The counters, which a decoded distribution has from here on.
    fn open(&mut self) -> &mut Hdr<u64> {
        if let Form::Packed(packed) = &self.0 {
            self.0 = Form::Open(dense(packed));
        }
        match &mut self.0 {
            Form::Open(hdr) => hdr,
            Form::Packed(_) => unreachable!("it was opened"),
        }
    }
}

/// Occupied buckets of a histogram with our buckets, as in [`Histogram::buckets`].
fn occupied(hdr: &Hdr<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
    hdr.iter_recorded()
        .map(move |b| (hdr.lowest_equivalent(b.value_iterated_to()), b.count_since_last_iteration()))
}

fn dense(packed: &CompactHistogram) -> Hdr<u64> {
    let mut hdr = layout();
    packed.buckets().for_each(|(ns, count)| hdr.saturating_record_n(ns, count));
    hdr
}

/// Rank of a quantile, as `HdrHistogram` counts it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the count")]
fn rank_of(quantile: f64, count: u64) -> u64 {
    ((quantile * count as f64).ceil() as u64).max(1)
}

impl CompactHistogram {
    /// Same distribution as a [`Histogram`], which computes quantiles and sums.
    pub fn expand(&self) -> Histogram {
        Histogram(Form::Open(dense(self)))
    }
}

impl From<&Histogram> for CompactHistogram {
    fn from(histogram: &Histogram) -> Self {
        Self::of_buckets(histogram.buckets())
    }
}

impl From<Histogram> for CompactHistogram {
    fn from(histogram: Histogram) -> Self {
        match histogram.0 {
            Form::Packed(packed) => packed,
            Form::Open(hdr) => Self::of_buckets(occupied(&hdr)),
        }
    }
}

impl FromIterator<(u64, u64)> for CompactHistogram {
    /// Collects values with their counts, in any order.
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(pairs: I) -> Self {
        Self::from(&pairs.into_iter().collect::<Histogram>())
    }
}

impl FromIterator<(u64, u64)> for Histogram {
    /// Collects values with their counts, in any order.
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(pairs: I) -> Self {
        let mut histogram = Self::new();
        for (value_ns, count) in pairs {
            histogram.record_n(value_ns, count);
        }
        histogram
    }
}

/// Count, minimum, maximum, mean and the named quantiles of a distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// Lowest value.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Values at [`QUANTILES`], in that order.
    pub quantiles_ns: [u64; QUANTILES.len()],
    /// Highest value.
    pub max_ns: u64,
    /// Names (of [`QUANTILES`], `mean`, `max`) of numbers that are lower bounds, because unfinished events
    /// could still raise them.
    pub lower_bounds: Vec<&'static str>,
    /// Names of numbers that are upper bounds, because more than half of the number is the lateness of the
    /// generator.
    pub upper_bounds: Vec<&'static str>,
}

/// Whether a value of the response is mostly the generator's: the same value of the server's part is less
/// than half of it.
pub fn is_generator_made(response_ns: f64, server_ns: f64) -> bool {
    server_ns < 0.5 * response_ns
}

/// JSON names of the numbers of a [`Summary`] that may be bounds: of [`QUANTILES`], `mean` and `max`.
pub fn bound_names() -> impl Iterator<Item = &'static str> {
    QUANTILES.iter().map(|(name, _)| *name).chain(["mean", "max"])
}

/// The one of [`bound_names`] that is `word`; `None` for any other word.
pub fn bound_name(word: &str) -> Option<&'static str> {
    bound_names().find(|name| *name == word)
}

/// Relation of a printed number to the true value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The number is the value.
    Exact,
    /// The value is at least the number.
    Lower,
    /// The value is at most the number.
    Upper,
    /// The value may be above or below the number: unfinished events could still raise it, and the
    /// generator's part of it is more than half.
    Neither,
}

impl Bound {
    /// Mark before a printed number.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::Lower => ">=",
            Self::Upper => "<=",
            Self::Neither => "~",
        }
    }

    /// Word in files; `None` for an exact number.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::Lower => Some("lower"),
            Self::Upper => Some("upper"),
            Self::Neither => Some("neither"),
        }
    }

    /// The bound of a number that is named among lower bounds, among upper bounds, or both.
    pub fn of(is_lower: bool, is_upper: bool) -> Self {
        match (is_lower, is_upper) {
            (false, false) => Self::Exact,
            (true, false) => Self::Lower,
            (false, true) => Self::Upper,
            (true, true) => Self::Neither,
        }
    }
}

impl Summary {
    /// Bound of the number with this name.
    pub fn bound(&self, name: &str) -> Bound {
        Bound::of(self.lower_bounds.contains(&name), self.upper_bounds.contains(&name))
    }

    /// Quantile at index `place` of [`QUANTILES`]; `None` if the sample is too small for a value above it:
    /// then it would equal the maximum.
    pub fn quantile_ns(&self, place: usize) -> Option<u64> {
        is_held(self.count, QUANTILES[place].1).then_some(self.quantiles_ns[place])
    }
}

/// Whether a sample of `count` values has a value above that quantile.
pub fn is_held(count: u64, quantile: f64) -> bool {
    count as f64 * (1.0 - quantile) > 1.0 - 1e-6
}

/// Distribution with lower bounds for some values: those of events that were due and had not ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CensoredHistogram {
    /// Known values.
    pub known: Histogram,
    /// Time that each unfinished event had lasted when the measurement ended.
    pub at_least: Histogram,
}

impl From<Histogram> for CensoredHistogram {
    /// Treats all values as known.
    fn from(known: Histogram) -> Self {
        Self { known, at_least: Histogram::new() }
    }
}

impl CensoredHistogram {
    /// Adds all of `other` without loss.
    pub fn add(&mut self, other: &Self) {
        self.known.add(&other.known);
        self.at_least.add(&other.at_least);
    }

    /// Number of values, known and censored.
    pub fn count(&self) -> u64 {
        self.known.count() + self.at_least.count()
    }

    /// Known and censored values as one distribution, the censored ones at their lower bound.
    pub fn merged(&self) -> Histogram {
        let mut all = self.known.clone();
        all.add(&self.at_least);
        all
    }

    /// Variant of [`Histogram::summary`] that names the values that censored events could raise.
    ///
    /// A quantile is exact while enough *known* values lie at or below it: then no unfinished event can
    /// change it, however long it takes.
    pub fn summary(&self) -> Option<Summary> {
        self.summary_beside(0)
    }

    /// Lowest value of [`Self::merged`] that is only a lower bound: smaller values are exact. `None` if all
    /// are exact.
    pub fn exact_below_ns(&self) -> Option<u64> {
        let merged = self.merged();
        let mut upto = 0;
        merged.buckets().find_map(|(lowest_ns, count)| {
            upto += count;
            (self.known.count_at_or_below(lowest_ns) < upto).then_some(lowest_ns)
        })
    }

    /// Variant of [`Self::summary`] with `unknown` further values, about which nothing is known.
    pub fn summary_beside(&self, unknown: u64) -> Option<Summary> {
        let mut summary = self.merged().summary()?;
        if unknown > 0 || !self.at_least.is_empty() {
            let count = (summary.count + unknown) as f64;
            let reached = QUANTILES
                .iter()
                .zip(summary.quantiles_ns)
                .filter(|((_, q), value)| (self.known.count_at_or_below(*value) as f64) < q * count);
            summary.lower_bounds = reached.map(|((name, _), _)| *name).chain(["mean", "max"]).collect();
        }
        Some(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_distribution_has_no_summary_instead_of_zeros() {
        assert_eq!(Histogram::new().summary(), None);
        assert_eq!(Histogram::new().quantile_ns(0.5), None);
    }

    #[test]
    fn a_rank_names_the_bucket_of_its_value() {
        let h: Histogram = [(5, 2), (1_000_000, 3)].into_iter().collect();
        assert_eq!(h.bucket_of_rank(0), None);
        assert_eq!(h.bucket_of_rank(2), Some((5, 5)));
        let (low, high) = h.bucket_of_rank(3).unwrap();
        assert!(low <= 1_000_000 && 1_000_000 <= high && high - low < 1_000, "{low} {high}");
        assert_eq!(h.bucket_of_rank(5), Some((low, high)));
        assert_eq!(h.bucket_of_rank(6), None);
    }

    #[test]
    fn a_decoded_distribution_takes_a_few_kb_and_has_every_number_of_the_recorded_one() {
        for (count, step) in [(0_u64, 1), (1, 0), (1, 5), (300, 7), (2_000, 1_000_003), (50, u64::MAX / 60)] {
            let mut recorded = Histogram::new();
            (0..count).for_each(|i| recorded.record_n(i * step, 1 + i % 5));
            let mut decoded = Histogram::from_hdr(&recorded.as_hdr());
            let Form::Packed(packed) = &decoded.0 else { panic!("it takes 270 kB") };
            assert!(packed.memory_bytes() <= 16 + 16 * usize::try_from(count).unwrap());
            assert_eq!(decoded, recorded);
            assert_eq!(decoded.as_hdr(), recorded.as_hdr());
            assert_eq!((decoded.count(), decoded.is_empty()), (recorded.count(), recorded.is_empty()));
            assert_eq!(decoded.summary(), recorded.summary());
            assert_eq!(decoded.spread_ratio().to_bits(), recorded.spread_ratio().to_bits());
            for q in (0..=1_000).map(|q| f64::from(q) / 1_000.0) {
                assert_eq!(decoded.quantile_ns(q), recorded.quantile_ns(q), "{count} {step} {q}");
            }
            for rank in 0..=recorded.count() + 1 {
                assert_eq!(decoded.bucket_of_rank(rank), recorded.bucket_of_rank(rank));
            }
            for below in [0, 1, 1_000, 4_000_000, u64::MAX] {
                assert_eq!(decoded.count_at_or_below(below), recorded.count_at_or_below(below));
            }
            assert_eq!(CompactHistogram::from(decoded.clone()), CompactHistogram::from(&recorded));
            let mut sum = Histogram::new();
            sum.add(&decoded);
            decoded.add(&recorded);
            sum.add(&recorded);
            assert_eq!(decoded, sum);
            decoded.clear();
            assert!(decoded.is_empty());
        }
    }

    #[test]
    fn merging_threads_equals_recording_in_one() {
        let (mut a, mut b, mut whole) = (Histogram::new(), Histogram::new(), Histogram::new());
        for i in 1..10_000u64 {
            let value = i * i;
            let half = if i % 3 == 0 { &mut a } else { &mut b };
            half.record(value);
            whole.record(value);
        }
        a.add(&b);
        assert_eq!(a, whole);
    }

    #[test]
    fn nothing_is_nothing_and_what_is_past_the_end_is_the_end() {
        let mut h = Histogram::new();
        h.record(0);
        h.record(u64::MAX);
        let s = h.summary().unwrap();
        assert_eq!((s.count, s.min_ns, s.quantiles_ns[0]), (2, 0, 0));
        assert!(s.max_ns >= LATENCY_NS_MAX);
    }

    #[test]
    fn a_quantile_below_every_unfinished_event_stays_exact() {
        let mut h = CensoredHistogram::default();
        h.known.record_n(1_000, 9_990);
        h.at_least.record_n(2_000, 10);
        let s = h.summary().unwrap();
        assert_eq!(s.count, 10_000);
        assert_eq!(s.lower_bounds, ["p99_99", "mean", "max"]);
    }

    #[test]
    fn an_unfinished_event_counts_even_where_its_lower_bound_is_short() {
        // Half of the events started at the very end: they have lasted 1 ns, and could last indefinitely.
        let mut h = CensoredHistogram::default();
        h.known.record_n(1_000, 50);
        h.at_least.record_n(1, 50);
        let s = h.summary().unwrap();
        assert_eq!(s.lower_bounds, ["p50", "p90", "p95", "p99", "p99_9", "p99_99", "mean", "max"]);
    }

    #[test]
    fn values_of_which_nothing_is_known_could_raise_what_they_are_more_than() {
        let known: Histogram = [(1_000, 9_990)].into_iter().collect();
        let h = CensoredHistogram { known, at_least: Histogram::new() };
        assert!(h.summary_beside(0).unwrap().lower_bounds.is_empty());
        assert_eq!(h.summary_beside(10).unwrap().lower_bounds, ["p99_99", "mean", "max"]);
        assert_eq!(h.summary_beside(1_000).unwrap().lower_bounds[0], "p95");
        assert_eq!(CensoredHistogram::default().summary_beside(1), None);
    }

    #[test]
    fn values_are_exact_below_the_first_that_an_unfinished_event_could_move() {
        let mut h = CensoredHistogram::default();
        assert_eq!(h.exact_below_ns(), None);
        h.known.record_n(1_000, 50);
        h.known.record_n(2_000, 50);
        assert_eq!(h.exact_below_ns(), None);
        h.at_least.record(1_500);
        // The event of 1,500 may end at any later time, so the 51st value is at least 1,500.
        assert_eq!(h.exact_below_ns(), Some(1_500));
        h.at_least.record(0);
        assert_eq!(h.exact_below_ns(), Some(0));
    }

    #[test]
    fn buckets_rebuild_the_same_distribution() {
        let mut h = Histogram::new();
        for i in 0..5_000u64 {
            h.record(i * 977);
        }
        let at_rest = CompactHistogram::from(&h);
        assert_eq!(at_rest.count(), 5_000);
        assert_eq!(CompactHistogram::of_buckets(h.buckets()), at_rest);
        let again = at_rest.expand();
        assert!(h.buckets().eq(again.buckets()));
        assert_eq!(h.quantile_ns(0.99), again.quantile_ns(0.99));
    }

    #[test]
    fn a_sample_holds_the_quantiles_that_leave_a_value_above_them() {
        for (count, held) in [(1, 0), (2, 1), (9, 1), (10, 2), (100, 4), (999, 4), (1_000, 5), (10_000, 6)] {
            let mut h = Histogram::new();
            h.record_n(7, count);
            let summary = h.summary().unwrap();
            let found = (0..QUANTILES.len()).filter(|place| summary.quantile_ns(*place).is_some());
            assert_eq!(found.count(), held, "{count} values");
            let found = QUANTILES.iter().filter(|(_, quantile)| h.held_quantile_ns(*quantile).is_some());
            assert_eq!(found.count(), held, "{count} values");
        }
    }
}
