//! Arrivals whose rate changes with time: ramps, steps, bursts, a sine.
//!
//! A shape knows how many events are due by a time; event k is due when that number reaches k. Both directions are
//! computed, nothing is added up event by event, and so the k-th due time is a pure function of k.

use std::f64::consts::TAU;
use std::time::Duration;

use record::load::Arrivals;

use super::{DueTimes, PaceSettings, Scratch};

/// A rate over time.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// Straight lines, one after the other; the last one goes on for ever unless they come in cycles.
    Lines { lines: Vec<Line>, cycle: Option<Cycle> },
    /// There and back between two rates, beginning in the middle and rising.
    Sine { mean_per_s: f64, swing_per_s: f64, period_s: f64 },
}

/// A stretch in which the rate changes evenly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    from_s: f64,
    /// Events due before it begins.
    before: f64,
    per_s: f64,
    /// Change of the rate per second.
    slope: f64,
}

/// What recurs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cycle {
    length_s: f64,
    events: f64,
}

/// Due times of a shape.
#[derive(Debug)]
pub(super) struct Shaped {
    shape: Shape,
    /// Where in the shape this begins.
    offset_s: f64,
    /// Events due before that.
    before: f64,
    /// The rate beside that of the shape.
    factor: f64,
    count: u64,
    span_ns: u64,
}

impl Shape {
    /// The shape of `arrivals` over a phase of length `span`; `None` where they have one rate only.
    pub(super) fn of(arrivals: &Arrivals, span: Duration) -> Option<Self> {
        let span_s = span.as_secs_f64();
        match arrivals {
            Arrivals::Jitter { .. } | Arrivals::Period | Arrivals::Poisson | Arrivals::File(_) => None,
            Arrivals::Ramp { from_per_s, to_per_s } => {
                let slope = (to_per_s - from_per_s) / span_s;
                Some(Self::lines(vec![(*from_per_s, slope, span_s), (*to_per_s, 0.0, f64::INFINITY)]))
            }
            Arrivals::Step(steps) => {
                let equal_s = span_s / steps.len() as f64;
                let lengths =
                    steps.iter().map(|s| (s.per_s, 0.0, s.length.map_or(equal_s, |l| l.as_secs_f64())));
                Some(Self::lines(lengths.collect()))
            }
            Arrivals::Burst { low_per_s, high_per_s, length, every } => {
                let (length_s, every_s) = (length.as_secs_f64(), every.as_secs_f64());
                let Self::Lines { lines, .. } =
                    Self::lines(vec![(*high_per_s, 0.0, length_s), (*low_per_s, 0.0, every_s - length_s)])
                else {
                    unreachable!("lines are lines")
                };
                let events = high_per_s * length_s + low_per_s * (every_s - length_s);
                Some(Self::Lines { lines, cycle: Some(Cycle { length_s: every_s, events }) })
            }
            Arrivals::Sine { low_per_s, high_per_s, period } => Some(Self::Sine {
                mean_per_s: low_per_s.midpoint(*high_per_s),
                swing_per_s: (high_per_s - low_per_s) / 2.0,
                period_s: period.as_secs_f64(),
            }),
        }
    }

    /// From nothing to `per_s` in `rise`, and no higher.
    pub(super) fn rise(per_s: f64, rise: Duration) -> Self {
        let rise_s = rise.as_secs_f64();
        Self::lines(vec![(0.0, per_s / rise_s, rise_s), (per_s, 0.0, f64::INFINITY)])
    }

    /// From `per_s` to nothing in `fall`.
    pub(super) fn fall(per_s: f64, fall: Duration) -> Self {
        let fall_s = fall.as_secs_f64();
        Self::lines(vec![(per_s, -per_s / fall_s, fall_s), (0.0, 0.0, f64::INFINITY)])
    }

    /// Lines of (rate, slope, length), one after the other.
    fn lines(parts: Vec<(f64, f64, f64)>) -> Self {
        let (mut from_s, mut before) = (0.0, 0.0);
        let lines = parts.into_iter().map(|(per_s, slope, length_s)| {
            let line = Line { from_s, before, per_s, slope };
            from_s += length_s;
            before = line.events_until(from_s);
            line
        });
        Self::Lines { lines: lines.collect(), cycle: None }
    }

    /// Events due before `t_s`, not rounded.
    pub(super) fn events_until(&self, t_s: f64) -> f64 {
        match self {
            Self::Lines { lines, cycle } => {
                let (cycles, t_s) =
                    cycle.map_or((0.0, t_s), |c| ((t_s / c.length_s).floor(), t_s.rem_euclid(c.length_s)));
                let at = lines.partition_point(|line| line.from_s <= t_s).max(1) - 1;
                cycles * cycle.map_or(0.0, |c| c.events) + lines[at].events_until(t_s)
            }
            Self::Sine { mean_per_s, swing_per_s, period_s } => {
                let extra = swing_per_s * period_s / TAU * (1.0 - (TAU * t_s / period_s).cos());
                mean_per_s * t_s + extra
            }
        }
    }

    /// When the number of events due reaches `events`.
    fn time_of_s(&self, events: f64) -> f64 {
        match self {
            Self::Lines { lines, cycle } => {
                let cycles = cycle.map_or(0.0, |c| (events / c.events).floor());
                let (from_s, events) = cycle.map_or((0.0, events), |c| {
                    (cycles * c.length_s, (events - cycles * c.events).clamp(0.0, c.events))
                });
                // The last of those that begin with so many: a pause has none of its own.
                let at = lines.partition_point(|line| line.before <= events).max(1) - 1;
                from_s + lines[at].time_of_s(events)
            }
            Self::Sine { mean_per_s, period_s, .. } => {
                // Every period has the mean; within one the number only rises, so halving finds it.
                let cycles = (events / (mean_per_s * period_s)).floor();
                let (mut low_s, mut high_s) = (cycles * period_s, (cycles + 1.0) * period_s);
                for _ in 0..HALVINGS {
                    let middle_s = low_s.midpoint(high_s);
                    if self.events_until(middle_s) < events {
                        low_s = middle_s;
                    } else {
                        high_s = middle_s;
                    }
                }
                high_s
            }
        }
    }

    /// The rate at `t_s`.
    pub(super) fn per_s_at(&self, t_s: f64) -> f64 {
        match self {
            Self::Lines { lines, cycle } => {
                let t_s = cycle.map_or(t_s, |c| t_s.rem_euclid(c.length_s));
                let at = lines.partition_point(|line| line.from_s <= t_s).max(1) - 1;
                lines[at].per_s + lines[at].slope * (t_s - lines[at].from_s)
            }
            Self::Sine { mean_per_s, swing_per_s, period_s } => {
                mean_per_s + swing_per_s * (TAU * t_s / period_s).sin()
            }
        }
    }

    /// The rate at the beginning.
    pub(super) fn opening_per_s(&self) -> f64 {
        match self {
            Self::Lines { lines, .. } => lines[0].per_s,
            Self::Sine { mean_per_s, .. } => *mean_per_s,
        }
    }
}

/// A period halved so often is below a nanosecond even where it is a year.
const HALVINGS: u32 = 56;

impl Line {
    fn events_until(&self, t_s: f64) -> f64 {
        let since_s = t_s - self.from_s;
        if self.slope == 0.0 && self.per_s == 0.0 {
            return self.before;
        }
        self.before + self.per_s * since_s + self.slope * since_s * since_s / 2.0
    }

    fn time_of_s(&self, events: f64) -> f64 {
        let more = events - self.before;
        if more <= 0.0 {
            return self.from_s;
        }
        // The root of `per_s t + slope t^2 / 2 = more` in the form that loses no digits where the slope is small.
        let root = (self.per_s * self.per_s + 2.0 * self.slope * more).max(0.0).sqrt();
        self.from_s + 2.0 * more / (self.per_s + root)
    }
}

impl Shaped {
    /// What is left of the shape from `offset` on, at `factor` times its rate.
    pub(super) fn from_on(settings: &PaceSettings, shape: Shape, offset: Duration, factor: f64) -> Self {
        let before = shape.events_until(offset.as_secs_f64());
        let total = (shape.events_until(settings.span.as_secs_f64()) - before) * factor;
        let count = super::whole_events(total).min(settings.events_max.unwrap_or(u64::MAX));
        let span_ns = crate::engine::to_ns(settings.span.saturating_sub(offset));
        Self { shape, offset_s: offset.as_secs_f64(), before, factor, count, span_ns }
    }
}

impl DueTimes for Shaped {
    fn count(&self) -> u64 {
        self.count
    }

    fn in_order_ns(&self, rank: u64, _: &mut Scratch) -> u64 {
        let t_s = self.shape.time_of_s(self.before + rank as f64 / self.factor) - self.offset_s;
        let t_ns = (t_s * 1e9).round().max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time in a phase, from 0 on"
        )]
        let t_ns = t_ns as u64;
        t_ns.min(self.span_ns.saturating_sub(1))
    }
}
