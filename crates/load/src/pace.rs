//! When events are due: a pure, seeded function of their number.
//!
//! Nobody queues anything. A worker takes a number, and this module says when that event is due, whoever asks, in
//! whatever order, and as often as they like.

mod even;
mod poisson;

use std::time::Duration;

use record::load::Arrivals;

use self::even::Even;
use self::poisson::Poisson;

/// The intended starts of one phase's events, in nanoseconds since the start of the phase.
#[derive(Debug)]
pub struct Pace(Box<dyn DueTimes>);

/// What a pace is made from.
#[derive(Debug, Clone, Copy)]
pub struct PaceSettings {
    /// How due times are spread.
    pub arrivals: Arrivals,
    /// Events per second over all threads; over 0.
    pub rate_per_s: f64,
    /// Workers; a thread's period is `threads / rate_per_s`.
    pub threads: u32,
    /// What chance follows from.
    pub seed: u64,
    /// Length of the phase.
    pub span: Duration,
    /// No more events than this.
    pub events_max: Option<u64>,
}

/// One way to spread due times. A new one is one file and one line in [`Pace::new`].
pub(crate) trait DueTimes: std::fmt::Debug + Send + Sync {
    /// Number of events in the phase.
    fn count(&self) -> u64;

    /// Due time of the event that is number `rank` in order of time, `rank < count`; never falls as `rank` rises.
    fn in_order_ns(&self, rank: u64, scratch: &mut Scratch) -> u64;

    /// Due time of slot `slot`, which belongs to thread `slot % threads`; rises within a thread.
    fn of_slot_ns(&self, slot: u64, scratch: &mut Scratch) -> u64 {
        self.in_order_ns(slot, scratch)
    }
}

/// Room for a computation on due times, so that it allocates nothing; one a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    window_ns: Vec<u64>,
}

impl Pace {
    /// Lays out the phase.
    pub fn new(settings: &PaceSettings) -> Self {
        assert!(settings.rate_per_s.is_finite() && settings.rate_per_s > 0.0, "a rate is over 0");
        assert!(settings.threads > 0, "somebody has to do it");
        Self(match settings.arrivals {
            Arrivals::Jitter { ratio } => Box::new(Even::new(settings, ratio)),
            Arrivals::Period => Box::new(Even::new(settings, 0.0)),
            Arrivals::Poisson => Box::new(Poisson::new(settings)),
        })
    }

    /// Number of events in the phase.
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// Due time of the event that is number `rank` in order of time.
    pub fn in_order_ns(&self, rank: u64, scratch: &mut Scratch) -> u64 {
        self.0.in_order_ns(rank, scratch)
    }

    /// Due time of slot `slot`, which belongs to thread `slot % threads`.
    pub fn of_slot_ns(&self, slot: u64, scratch: &mut Scratch) -> u64 {
        self.0.of_slot_ns(slot, scratch)
    }

    /// How many events are due before `t_ns`.
    pub fn count_before(&self, t_ns: u64, scratch: &mut Scratch) -> u64 {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            if self.in_order_ns(middle, scratch) < t_ns {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn pace(arrivals: Arrivals, rate_per_s: f64, threads: u32, span_s: u64) -> Pace {
        let span = Duration::from_secs(span_s);
        Pace::new(&PaceSettings { arrivals, rate_per_s, threads, seed: 7, span, events_max: None })
    }

    fn in_order(pace: &Pace) -> Vec<u64> {
        let mut scratch = Scratch::default();
        (0..pace.count()).map(|k| pace.in_order_ns(k, &mut scratch)).collect()
    }

    fn by_slot(pace: &Pace) -> Vec<u64> {
        let mut scratch = Scratch::default();
        (0..pace.count()).map(|k| pace.of_slot_ns(k, &mut scratch)).collect()
    }

    #[test]
    fn rate_times_span_events_are_due_exactly() {
        for (rate, threads, span_s, expected) in [
            (500.0, 8, 20, 10_000),
            (0.5, 4, 10, 5),
            (1.0 / 3.0, 1, 9, 3),
            (3.0, 2, 1, 3),
            (999.9, 7, 10, 9_999),
        ] {
            for arrivals in
                [Arrivals::Period, Arrivals::Jitter { ratio: 0.1 }, Arrivals::Jitter { ratio: 1.0 }]
            {
                let due = in_order(&pace(arrivals, rate, threads, span_s));
                assert_eq!(due.len(), expected, "{arrivals} {rate}/s {threads} threads");
                assert!(due.iter().all(|t| *t < span_s * SECOND_NS), "{arrivals} {rate}/s");
            }
        }
    }

    #[test]
    fn a_period_is_exactly_even_and_staggers_the_threads() {
        let due = in_order(&pace(Arrivals::Period, 1_000.0, 4, 1));
        assert!(due.iter().enumerate().all(|(k, t)| *t == k as u64 * 1_000_000));
    }

    #[test]
    fn jitter_stays_within_its_share_of_a_threads_period() {
        // 8 threads at 500/s: a thread's period is 16 ms, 10 % of it 1.6 ms.
        let due = by_slot(&pace(Arrivals::Jitter { ratio: 0.1 }, 500.0, 8, 20));
        let off: Vec<i64> = due
            .iter()
            .enumerate()
            .map(|(k, t)| t.cast_signed() - k.cast_signed() as i64 * 2_000_000)
            .collect();
        assert!(off.iter().all(|d| d.abs() <= 1_600_000));
        assert!(off.iter().any(|d| *d > 1_500_000) && off.iter().any(|d| *d < -1_500_000));
        let mean_ns = off.iter().sum::<i64>() as f64 / off.len() as f64;
        // Uniform on +-1.6 ms: standard deviation 0.92 ms, of the mean of 10,000: 9.2 us.
        assert!(mean_ns.abs() < 40_000.0, "{mean_ns}");
    }

    #[test]
    fn the_ordered_view_is_the_slots_sorted() {
        for (ratio, threads, rate) in [(0.1, 8, 500.0), (0.5, 3, 70.0), (1.0, 64, 1_000.0), (1.0, 16, 0.8)] {
            let pace = pace(Arrivals::Jitter { ratio }, rate, threads, 5);
            let mut slots = by_slot(&pace);
            slots.sort_unstable();
            assert_eq!(in_order(&pace), slots, "jitter {ratio}, {threads} threads, {rate}/s");
        }
    }

    #[test]
    fn the_due_times_of_a_thread_rise() {
        for (ratio, threads, rate) in
            [(0.5, 8, 500.0), (0.51, 8, 500.0), (1.0, 1, 100.0), (1.0, 3, 70.0), (1.0, 64, 1_000.0)]
        {
            let due = by_slot(&pace(Arrivals::Jitter { ratio }, rate, threads, 20));
            for thread in 0..threads as usize {
                let own: Vec<_> = due.iter().skip(thread).step_by(threads as usize).collect();
                assert!(own.is_sorted(), "jitter {ratio}, thread {thread} of {threads}");
            }
        }
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_the_exponential() {
        let due = in_order(&pace(Arrivals::Poisson, 1_000.0, 8, 100));
        let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n;
        // 100,000 gaps: the mean is known to 0.3 %, the ratio of spread to mean (1 for the exponential) as well.
        assert!((mean / 1e6 - 1.0).abs() < 0.015, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
        // Count in a phase: Poisson with mean 100,000 and standard deviation 316.
        assert!((98_500..101_500).contains(&due.len()), "{}", due.len());
    }

    #[test]
    fn counting_agrees_with_listing() {
        for arrivals in [Arrivals::Period, Arrivals::Jitter { ratio: 0.3 }, Arrivals::Poisson] {
            let pace = pace(arrivals, 333.0, 5, 3);
            let due = in_order(&pace);
            assert!(due.is_sorted());
            for t_ns in [0, 1, 5_000_000, SECOND_NS, 3 * SECOND_NS, u64::MAX] {
                let expected = due.iter().filter(|d| **d < t_ns).count() as u64;
                assert_eq!(pace.count_before(t_ns, &mut Scratch::default()), expected, "{arrivals} {t_ns}");
            }
        }
    }

    #[test]
    fn a_limit_of_events_takes_the_first_ones() {
        for arrivals in [Arrivals::Period, Arrivals::Jitter { ratio: 0.1 }, Arrivals::Poisson] {
            let all = PaceSettings {
                arrivals,
                rate_per_s: 100.0,
                threads: 1,
                seed: 1,
                span: Duration::from_secs(10),
                events_max: None,
            };
            let few = Pace::new(&PaceSettings { events_max: Some(100), ..all });
            assert_eq!(few.count(), 100);
            assert_eq!(in_order(&few)[..98], in_order(&Pace::new(&all))[..98]);
        }
    }
}
