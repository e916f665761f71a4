//! Due times of events: a pure, seeded function of an event's number.
//!
//! There is no queue. A worker takes a number, and this module returns when that event is due: for any
//! worker, in any order, any number of times.

mod due_times;
mod even;
mod path;
mod poisson;
mod replay;
mod shape;

use std::time::Duration;

use record::arrivals::Shape;
use record::load::Arrivals;

use self::due_times::DueTimes;
pub use self::due_times::{PaceSettings, Scratch};
use self::even::Even;
use self::poisson::Poisson;
use self::replay::Replay;
use self::shape::Shaped;

/// The highest rate.
pub(crate) const RATE_MAX: f64 = record::load::settings::RATE_MAX_PER_S;

/// The intended starts of one phase's events, in nanoseconds since the start of the phase.
#[derive(Debug)]
pub struct Pace(Box<dyn DueTimes>);

/// Kind of a phase.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// Arrivals follow the settings.
    Arrivals,
    /// The rate rises from nothing for this long, then stays constant; even, not random.
    Rising(Duration),
    /// The rate falls to nothing; even, not random.
    Falling,
}

/// The part of a phase that is over when its rate changes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Time since the beginning of the phase.
    pub(crate) offset: Duration,
    /// Part of a recording that was replayed; it differs after a change of the speed.
    pub(crate) played: Duration,
}

impl Pace {
    /// Lays out the phase.
    pub fn new(settings: &PaceSettings) -> Self {
        Self::laid_out(settings, Form::Arrivals, Progress::default(), 1.0)
    }

    /// Lays out the rest of a phase after `progress`, at `factor` times its rate. Due times count from there.
    pub(crate) fn laid_out(settings: &PaceSettings, form: Form, progress: Progress, factor: f64) -> Self {
        let Progress { offset, played } = progress;
        let rate_per_s = settings.rate_per_s * factor;
        assert!(rate_per_s.is_finite() && rate_per_s > 0.0, "a rate is over 0");
        assert!(settings.threads > 0, "somebody has to do it");
        let shape = match form {
            Form::Arrivals => Shape::of(&settings.arrivals, settings.span),
            Form::Rising(rise) => Some(Shape::rise(settings.rate_per_s, rise)),
            Form::Falling => Some(Shape::fall(settings.rate_per_s, settings.span)),
        };
        let span = settings.span.saturating_sub(offset);
        let rest = PaceSettings { rate_per_s, span, ..settings.clone() };
        Self(match (&settings.arrivals, shape) {
            (_, Some(shape)) => Box::new(Shaped::from_on(settings, shape, offset, factor)),
            (Arrivals::Jitter { ratio }, _) => Box::new(Even::new(&rest, *ratio)),
            (Arrivals::Poisson, _) => Box::new(Poisson::new(&rest)),
            (Arrivals::File(_), _) => Box::new(Replay::from_on(&rest, played, factor)),
            (_, None) => Box::new(Even::new(&rest, 0.0)),
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

    /// Number of events due before `t_ns`.
    pub fn count_before(&self, t_ns: u64, scratch: &mut Scratch) -> u64 {
        let (mut low, mut high) = self.0.ranks_around(t_ns);
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

/// The opening rate of arrivals that state their own rates, over a phase of length `span`; `None` if it is 0
/// or unknown.
pub(crate) fn opening_rate_per_s(arrivals: &Arrivals, span: Duration) -> Option<f64> {
    Shape::of(arrivals, span).map(|shape| shape.opening_per_s()).filter(|per_s| *per_s > 0.0)
}

/// The rate of such arrivals `t_s` into a phase of length `span`; `None` if they have a single rate, or a
/// recording's.
pub(crate) fn rate_per_s_at(arrivals: &Arrivals, span: Duration, t_s: f64) -> Option<f64> {
    Some(Shape::of(arrivals, span)?.per_s_at(t_s.min(span.as_secs_f64())))
}

/// Events until `t_s` of such arrivals over a phase of length `span`, not rounded; `None` as above.
pub(crate) fn events_until(arrivals: &Arrivals, span: Duration, t_s: f64) -> Option<f64> {
    Some(Shape::of(arrivals, span)?.events_until(t_s.min(span.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn pace(arrivals: Arrivals, rate_per_s: f64, threads: u32, span_s: u64) -> Pace {
        let span = Duration::from_secs(span_s);
        let recorded = Arc::from([]);
        Pace::new(&PaceSettings { arrivals, recorded, rate_per_s, threads, seed: 7, span, events_max: None })
    }

    fn shaped(text: &str, span_s: u64) -> Vec<u64> {
        in_order(&pace(Arrivals::parse(text).unwrap(), 1.0, 4, span_s))
    }

    /// Number of events due in [`from_s`, `until_s`).
    fn within(due: &[u64], from_s: f64, until_s: f64) -> usize {
        let at = |s: f64| due.partition_point(|t| (*t as f64) < s * 1e9);
        at(until_s) - at(from_s)
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
                let due = in_order(&pace(arrivals.clone(), rate, threads, span_s));
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
    fn a_billion_arrivals_are_laid_out_like_a_thousand() {
        let pace = pace(Arrivals::Poisson, 1_000_000.0, 8, 3_600);
        let mut scratch = Scratch::default();
        // Mean 3.6 billion, standard deviation 60,000.
        assert!(pace.count().abs_diff(3_600_000_000) < 300_000, "{}", pace.count());
        let mut random = crate::schedule::random::Random::of(11, 0);
        let mut gaps = Vec::new();
        for _ in 0..2_000 {
            let rank = random.below(pace.count() - 1);
            let (due_ns, next_ns) =
                (pace.in_order_ns(rank, &mut scratch), pace.in_order_ns(rank + 1, &mut scratch));
            assert!(due_ns <= next_ns && next_ns < 3_600 * SECOND_NS);
            // The due time of an event does not depend on the queries before.
            assert_eq!(pace.in_order_ns(rank, &mut Scratch::default()), due_ns);
            let before = pace.count_before(due_ns, &mut scratch);
            assert!(before <= rank && pace.count_before(next_ns + 1, &mut scratch) >= rank + 2);
            gaps.push((next_ns - due_ns) as f64);
        }
        // Gaps next to an event of random rank are exponential with mean 1 us.
        assert!(anderson_darling(&gaps, 1e3) < 6.0);
        assert_eq!(pace.count_before(u64::MAX, &mut scratch), pace.count());
        assert_eq!(pace.count_before(0, &mut scratch), 0);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_the_exponential() {
        let due = in_order(&pace(Arrivals::Poisson, 1_000.0, 8, 100));
        let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n;
        // 100,000 gaps: the mean is known to 0.3 %, and so is the ratio of spread to mean (1 for the
        // exponential).
        assert!((mean / 1e6 - 1.0).abs() < 0.015, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
        // Count in a phase: Poisson with mean 100,000 and standard deviation 316.
        assert!((98_500..101_500).contains(&due.len()), "{}", due.len());
    }

    /// Distance of gaps from the exponential distribution of mean `mean`: Anderson and Darling's A^2 of a
    /// distribution that is fully known. Its mean is 1; one sample in a hundred lies above 3.86, one in a
    /// thousand above 6.
    ///
    /// # Source
    ///
    /// Anderson and Darling, *A test of goodness of fit*, JASA 49 (1954).
    fn anderson_darling(gaps: &[f64], mean: f64) -> f64 {
        let mut sorted = gaps.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        // ln F and ln(1 - F) of the exponential; the latter is exact at any gap.
        let ln_f = |gap: f64| (-(-gap / mean).exp_m1()).ln();
        let terms =
            (0..n).map(|i| (2 * i + 1) as f64 * (ln_f(sorted[i].max(0.5)) - sorted[n - 1 - i] / mean));
        -(n as f64) - terms.sum::<f64>() / n as f64
    }

    #[test]
    fn poisson_gaps_pass_the_test_of_anderson_and_darling_and_other_gaps_fail_it() {
        let a2 = |arrivals: Arrivals, seed| {
            let span = Duration::from_secs(10);
            let recorded = Arc::from([]);
            let settings = PaceSettings {
                arrivals,
                recorded,
                rate_per_s: 1_000.0,
                threads: 8,
                seed,
                span,
                events_max: None,
            };
            let due = in_order(&Pace::new(&settings));
            let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
            anderson_darling(&gaps, 1e6)
        };
        let found: Vec<f64> = (1..=40).map(|seed| a2(Arrivals::Poisson, seed)).collect();
        assert!(found.iter().all(|a2| *a2 < 6.0), "{found:?}");
        assert!(found.iter().filter(|a2| **a2 > 2.492).count() <= 6, "one in twenty is expected: {found:?}");
        let mean = found.iter().sum::<f64>() / 40.0;
        assert!((0.6..1.6).contains(&mean), "A^2 has mean 1 where the gaps are exponential: {mean}");
        assert!(a2(Arrivals::Jitter { ratio: 0.1 }, 1) > 100.0);
    }

    #[test]
    fn a_ramp_rises_evenly_and_has_the_mean_of_its_ends() {
        let due = shaped("ramp:100-900", 10);
        assert_eq!(due.len(), 5_000);
        // At 5 s the rate is 500: the half second around it has 250.
        for (from_s, until_s, expected) in [(0.0, 1.0, 140), (4.75, 5.25, 250), (9.0, 10.0, 860)] {
            assert!(within(&due, from_s, until_s).abs_diff(expected) <= 1, "{from_s}");
        }
        assert_eq!(shaped("ramp:0-100", 10).len(), 500);
        assert_eq!(shaped("ramp:100-0", 10).len(), 500);
        assert_eq!(shaped("ramp:100-100", 10), in_order(&pace(Arrivals::Period, 100.0, 4, 10)));
    }

    #[test]
    fn steps_keep_their_rates_and_pauses_their_silence() {
        let due = shaped("step:100,0,300", 9);
        assert_eq!(due.len(), 1_200);
        let found =
            [(0.0, 3.0), (3.0, 6.0), (6.0, 9.0)].map(|(from_s, until_s)| within(&due, from_s, until_s));
        assert_eq!(found, [300, 0, 900]);
        let due = shaped("step:100@1s,200@500ms,50", 4);
        let found =
            [(0.0, 1.0), (1.0, 1.5), (1.5, 4.0)].map(|(from_s, until_s)| within(&due, from_s, until_s));
        assert_eq!(found, [100, 100, 125]);
    }

    #[test]
    fn bursts_come_back() {
        let due = shaped("burst:10-1000@100ms/1s", 5);
        assert_eq!(due.len(), 5 * 109);
        for second in 0..5 {
            let from_s = f64::from(second);
            let found = (within(&due, from_s, from_s + 0.1), within(&due, from_s + 0.1, from_s + 1.0));
            assert!(found.0.abs_diff(100) <= 1 && found.1.abs_diff(9) <= 1, "{second}: {found:?}");
        }
    }

    #[test]
    fn ramps_at_the_ends_of_a_load_have_half_the_events_of_its_rate() {
        let span = Duration::from_secs(10);
        let (arrivals, recorded) = (Arrivals::Period, Arc::from([]));
        let settings = PaceSettings {
            arrivals,
            recorded,
            rate_per_s: 100.0,
            threads: 1,
            seed: 1,
            span,
            events_max: None,
        };
        let laid_out = |form| in_order(&Pace::laid_out(&settings, form, Progress::default(), 1.0));
        let up = laid_out(Form::Rising(Duration::from_secs(4)));
        assert_eq!((up.len(), within(&up, 0.0, 4.0), within(&up, 4.0, 10.0)), (800, 200, 600));
        let down = laid_out(Form::Falling);
        assert_eq!((down.len(), within(&down, 0.0, 5.0)), (500, 375));
    }

    #[test]
    fn a_sine_swings_around_its_mean() {
        let due = shaped("sine:100-500@10s", 20);
        assert_eq!(due.len(), 6_000);
        // In the upper half of a swing the rate exceeds the mean of 300 by 200 x 2 / pi on average.
        let expected = 5.0 * (300.0 + 400.0 / std::f64::consts::PI);
        for from_s in [0.0, 10.0] {
            assert!((within(&due, from_s, from_s + 5.0) as f64 - expected).abs() <= 1.0);
        }
        assert!(due.is_sorted());
        assert_eq!(shaped("sine:0-100@1s", 3).len(), 150);
    }

    #[test]
    fn a_recording_is_played_as_it_was_until_the_phase_ends() {
        let arrivals = Arrivals::parse("file:x").unwrap();
        let recorded = Arc::from([0, 5, 5, 700, 2 * SECOND_NS]);
        let span = Duration::from_secs(2);
        let settings =
            PaceSettings { arrivals, recorded, rate_per_s: 1.0, threads: 2, seed: 1, span, events_max: None };
        assert_eq!(in_order(&Pace::new(&settings)), [0, 5, 5, 700]);
        assert_eq!(in_order(&Pace::new(&PaceSettings { events_max: Some(2), ..settings })), [0, 5]);
    }

    #[test]
    fn the_rest_of_a_phase_goes_on_where_it_was_at_another_rate() {
        let recorded: Arc<[u64]> = (0..1_000).map(|k| k * 10_000_000).collect();
        for (text, span_s, rate_per_s) in [
            ("jitter", 10, 100.0),
            ("period", 10, 100.0),
            ("poisson", 10, 100.0),
            ("ramp:50-150", 10, 100.0),
            ("step:100,0,200", 9, 100.0),
            ("burst:10-910@1s/10s", 10, 100.0),
            ("sine:0-200@5s", 10, 100.0),
            ("file:x", 10, 100.0),
        ] {
            let settings = PaceSettings {
                arrivals: Arrivals::parse(text).unwrap(),
                recorded: Arc::clone(&recorded),
                rate_per_s,
                threads: 4,
                seed: 1,
                span: Duration::from_secs(span_s),
                events_max: None,
            };
            let whole = Pace::new(&settings);
            let half_ns = span_s * SECOND_NS / 2;
            let left = whole.count() - whole.count_before(half_ns, &mut Scratch::default());
            for factor in [0.5, 1.0, 3.0] {
                let half = Duration::from_nanos(half_ns);
                let rest = Pace::laid_out(
                    &settings,
                    Form::Arrivals,
                    Progress { offset: half, played: half },
                    factor,
                );
                let due = in_order(&rest);
                assert!(due.is_sorted() && due.iter().all(|t| *t <= half_ns), "{text} x{factor}");
                let expected = match text {
                    // A recording that is replayed faster ends earlier; replayed slower, a part of it is
                    // left.
                    "file:x" => left as f64 * factor.min(1.0),
                    _ => left as f64 * factor,
                };
                // The number of Poisson events varies by its square root.
                let spread = if text == "poisson" { 5.0 * expected.sqrt() } else { 1.0 };
                assert!(
                    (due.len() as f64 - expected).abs() <= spread,
                    "{text} x{factor}: {} of {expected}",
                    due.len()
                );
            }
        }
    }

    #[test]
    fn the_mean_of_a_shape_is_its_events_over_its_time() {
        for (text, span_s, per_s) in [
            ("ramp:100-300", 10, 200.0),
            ("step:100@1s,400", 3, 300.0),
            ("burst:0-100@1s/2s", 10, 50.0),
            ("sine:100-300@2s", 4, 200.0),
        ] {
            let mean = Arrivals::parse(text).unwrap().mean_per_s(Duration::from_secs(span_s)).unwrap();
            assert!((mean - per_s).abs() < 1e-6, "{text}: {mean}");
        }
        assert_eq!(Arrivals::Poisson.mean_per_s(Duration::from_secs(1)), None);
    }

    #[test]
    fn counting_agrees_with_listing() {
        for arrivals in [Arrivals::Period, Arrivals::Jitter { ratio: 0.3 }, Arrivals::Poisson] {
            let pace = pace(arrivals.clone(), 333.0, 5, 3);
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
                recorded: Arc::from([]),
                rate_per_s: 100.0,
                threads: 1,
                seed: 1,
                span: Duration::from_secs(10),
                events_max: None,
            };
            let few = Pace::new(&PaceSettings { events_max: Some(100), ..all.clone() });
            assert_eq!(few.count(), 100);
            assert_eq!(in_order(&few)[..98], in_order(&Pace::new(&all))[..98]);
        }
    }
}
