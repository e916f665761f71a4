//! Cost of watching: time of our programs in the kernel, by event.

use std::fmt;

use record::clock::{Clock, Monotonic};
use record::missing::{Maybe, Missing};

/// Cost of watching since its start.
///
/// Excludes the kernel's path to a program, and the time of the process that reads the sums.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Cost by kind of event.
    pub events: Vec<OfEvent>,
    /// Time since the start.
    pub elapsed_ns: u64,
}

/// Cost of watching one kind of event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfEvent {
    /// Name with its article: `a request`.
    pub name: &'static str,
    /// Time of our programs for each, by the kernel's statistics, less the cost of these statistics.
    ///
    /// Measured in a burst of such events, so with warm caches.
    pub ns: f64,
    /// Number of events since the start.
    pub count: u64,
}

impl Cost {
    /// Total CPU time, as a share of one CPU since the start.
    pub fn ratio_of_one_cpu(&self) -> f64 {
        self.ns() / self.elapsed_ns.max(1) as f64
    }

    /// Total CPU time.
    pub fn ns(&self) -> f64 {
        self.events.iter().map(|event| event.ns * event.count as f64).sum()
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, OfEvent { name, ns, count }) in self.events.iter().enumerate() {
            let before = if k == 0 { "" } else { ", " };
            write!(f, "{before}{ns:.0} ns {name}, {count} of them")?;
        }
        write!(f, ": {:.3} % of one CPU", self.ratio_of_one_cpu() * 100.0)
    }
}

/// Cost of each kind of event, measured once, and the start of counting.
#[derive(Debug)]
pub(crate) struct Meter<const N: usize> {
    names: [&'static str; N],
    ns: Option<Maybe<[f64; N]>>,
    started_ns: u64,
}

impl<const N: usize> Meter<N> {
    pub(crate) fn new(names: [&'static str; N]) -> Self {
        Self { names, ns: None, started_ns: Monotonic.now_ns() }
    }

    /// Starts to count events.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.started_ns = now_ns;
    }

    /// Stores the result of `measure`, unless there is one.
    pub(crate) fn measure(&mut self, measure: impl FnOnce() -> Maybe<[f64; N]>) {
        self.ns.get_or_insert_with(measure);
    }

    /// Cost of `counts` events of each kind.
    ///
    /// # Errors
    ///
    /// Missing if it was not measured, or could not be.
    pub(crate) fn cost(&self, counts: [u64; N]) -> Maybe<Cost> {
        let not_yet = || Err(Missing::because("the cost of observing was not measured"));
        let each_ns = self.ns.clone().unwrap_or_else(not_yet)?;
        let events = self.names.into_iter().zip(each_ns).zip(counts);
        let events = events.map(|((name, ns), count)| OfEvent { name, ns, count }).collect();
        Ok(Cost { events, elapsed_ns: Monotonic.now_ns().saturating_sub(self.started_ns) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_several_kinds_of_events_add_up() {
        let of = |name, ns, count| OfEvent { name, ns, count };
        let events = vec![of("a switch", 50.0, 1_000), of("an interrupt", 200.0, 250)];
        let cost = Cost { events, elapsed_ns: 1_000_000_000 };
        assert!((cost.ratio_of_one_cpu() - 1e-4).abs() < 1e-12);
        assert_eq!(
            cost.to_string(),
            "50 ns a switch, 1000 of them, 200 ns an interrupt, 250 of them: 0.010 % of one CPU"
        );
    }

    #[test]
    fn what_was_not_measured_is_missing_and_what_was_measured_once_stays() {
        let mut meter = Meter::new(["an event"]);
        assert!(meter.cost([1]).is_err());
        meter.measure(|| Ok([10.0]));
        meter.measure(|| Ok([99.0]));
        assert!((meter.cost([7]).unwrap().events[0].ns - 10.0).abs() < f64::EPSILON);
    }
}
