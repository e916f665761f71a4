//! Arrivals at a rate that changes with time: ramps, steps, bursts, a sine.
//!
//! A shape computes the number of events due by a time; event k is due when that number reaches k. Both
//! directions have a closed form or a bounded search and nothing is summed event by event, so the k-th due
//! time is a pure function of k.

use std::f64::consts::TAU;
use std::time::Duration;

use super::Arrivals;

/// Rate over time: of arrivals that define their own rates, or of one rate that rises or falls.
#[derive(Debug, Clone)]
pub struct Shape(Form);

#[derive(Debug, Clone)]
enum Form {
    /// Consecutive straight lines; the last one is endless unless the lines repeat in cycles.
    Lines { lines: Vec<Line>, cycle: Option<Cycle> },
    /// Sine between two rates; begins at their mean and rises.
    Sine { mean_per_s: f64, swing_per_s: f64, period_s: f64 },
}

/// Interval in which the rate changes linearly.
#[derive(Debug, Clone, Copy)]
struct Line {
    from_s: f64,
    /// Events due before the line begins.
    before: f64,
    per_s: f64,
    /// Change of the rate per second.
    slope: f64,
}

/// Length of the repeating part and its number of events.
#[derive(Debug, Clone, Copy)]
struct Cycle {
    length_s: f64,
    events: f64,
}

impl Shape {
    /// Shape of `arrivals` over a phase of length `span`; `None` if their rate is constant or recorded.
    pub fn of(arrivals: &Arrivals, span: Duration) -> Option<Self> {
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
                let lines = lines(vec![(*high_per_s, 0.0, length_s), (*low_per_s, 0.0, every_s - length_s)]);
                let events = high_per_s * length_s + low_per_s * (every_s - length_s);
                Some(Self(Form::Lines { lines, cycle: Some(Cycle { length_s: every_s, events }) }))
            }
            Arrivals::Sine { low_per_s, high_per_s, period } => Some(Self(Form::Sine {
                mean_per_s: low_per_s.midpoint(*high_per_s),
                swing_per_s: (high_per_s - low_per_s) / 2.0,
                period_s: period.as_secs_f64(),
            })),
        }
    }

    /// Rate that rises linearly from 0 to `per_s` during `rise` and then stays at `per_s`.
    pub fn rise(per_s: f64, rise: Duration) -> Self {
        let rise_s = rise.as_secs_f64();
        Self::lines(vec![(0.0, per_s / rise_s, rise_s), (per_s, 0.0, f64::INFINITY)])
    }

    /// Rate that falls linearly from `per_s` to 0 during `fall`.
    pub fn fall(per_s: f64, fall: Duration) -> Self {
        let fall_s = fall.as_secs_f64();
        Self::lines(vec![(per_s, -per_s / fall_s, fall_s), (0.0, 0.0, f64::INFINITY)])
    }

    fn lines(parts: Vec<(f64, f64, f64)>) -> Self {
        Self(Form::Lines { lines: lines(parts), cycle: None })
    }

    /// Events due before `t_s`, not rounded.
    pub fn events_until(&self, t_s: f64) -> f64 {
        match &self.0 {
            Form::Lines { lines, cycle } => {
                let (cycles, t_s) =
                    cycle.map_or((0.0, t_s), |c| ((t_s / c.length_s).floor(), t_s.rem_euclid(c.length_s)));
                let at = lines.partition_point(|line| line.from_s <= t_s).max(1) - 1;
                cycles * cycle.map_or(0.0, |c| c.events) + lines[at].events_until(t_s)
            }
            Form::Sine { mean_per_s, swing_per_s, period_s } => {
                let extra = swing_per_s * period_s / TAU * (1.0 - (TAU * t_s / period_s).cos());
                mean_per_s * t_s + extra
            }
        }
    }

    /// Time at which the number of events due reaches `events`.
    pub fn time_of_s(&self, events: f64) -> f64 {
        match &self.0 {
            Form::Lines { lines, cycle } => {
                let cycles = cycle.map_or(0.0, |c| (events / c.events).floor());
                let (from_s, events) = cycle.map_or((0.0, events), |c| {
                    (cycles * c.length_s, (events - cycles * c.events).clamp(0.0, c.events))
                });
                // The last line with at most so many events before it: a pause adds no events.
                let at = lines.partition_point(|line| line.before <= events).max(1) - 1;
                from_s + lines[at].time_of_s(events)
            }
            Form::Sine { mean_per_s, period_s, .. } => {
                // Every period has the same number of events, and the number never falls, so bisection finds
                // the time.
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

    /// Rate at `t_s`.
    pub fn per_s_at(&self, t_s: f64) -> f64 {
        match &self.0 {
            Form::Lines { lines, cycle } => {
                let t_s = cycle.map_or(t_s, |c| t_s.rem_euclid(c.length_s));
                let at = lines.partition_point(|line| line.from_s <= t_s).max(1) - 1;
                lines[at].per_s + lines[at].slope * (t_s - lines[at].from_s)
            }
            Form::Sine { mean_per_s, swing_per_s, period_s } => {
                mean_per_s + swing_per_s * (TAU * t_s / period_s).sin()
            }
        }
    }

    /// Rate at the beginning.
    pub fn opening_per_s(&self) -> f64 {
        match &self.0 {
            Form::Lines { lines, .. } => lines[0].per_s,
            Form::Sine { mean_per_s, .. } => *mean_per_s,
        }
    }
}

/// Consecutive lines from (rate, slope, length).
fn lines(parts: Vec<(f64, f64, f64)>) -> Vec<Line> {
    let (mut from_s, mut before) = (0.0, 0.0);
    let line = |(per_s, slope, length_s): (f64, f64, f64)| {
        let line = Line { from_s, before, per_s, slope };
        from_s += length_s;
        before = line.events_until(from_s);
        line
    };
    parts.into_iter().map(line).collect()
}

/// Bisections of a period: the result is below a nanosecond even for a period of a year.
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
        // The root of `per_s t + slope t^2 / 2 = more`, in the form that stays accurate for a small slope.
        let root = (self.per_s * self.per_s + 2.0 * self.slope * more).max(0.0).sqrt();
        self.from_s + 2.0 * more / (self.per_s + root)
    }
}
