//! Interference while sizes were measured, and its cause.

use super::cost::Cost;
use super::round::Round;
use crate::change_point::levels;
use crate::robust::median;

/// A change of the machine's speed at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeShift {
    /// Seconds since the run began.
    pub at_s: f64,
    /// Time of a call after it, divided by that before it.
    pub ratio: f64,
    /// Change of another probe's value at that moment, in words; `None` if there was none.
    pub cause: Option<String>,
}

/// Smallest shift that is reported.
const SHIFT_MIN: f64 = 0.02;
/// Maximum number of values that are searched; more are grouped.
const VALUES_MAX: usize = 4_000;

/// Residual of each point, in time order.
pub(super) fn residuals(round: &Round, cost: &Cost) -> Vec<(f64, f64)> {
    round.points.iter().map(|(at_s, size, ns)| (*at_s, (ns / cost.call_ns(*size)).ln())).collect()
}

/// Each residual with the next one.
pub(super) fn neighbours(round: &Round, cost: &Cost) -> Vec<(f64, f64)> {
    let all = residuals(round, cost);
    let about = middle(&all);
    // One outlier must not dominate the correlation.
    let tame = |v: f64| (v - about).clamp(-0.5, 0.5);
    all.windows(2).map(|w| (tame(w[0].1), tame(w[1].1))).collect()
}

/// Shifts of all rounds, in time order.
pub(super) fn shifts(rounds: &[Round], cost: &Cost) -> Vec<TimeShift> {
    rounds.iter().flat_map(|round| of_round(round, cost)).collect()
}

fn of_round(round: &Round, cost: &Cost) -> Vec<TimeShift> {
    let all = residuals(round, cost);
    // Medians of five or more values, because one value is not a level.
    let group = all.len().div_ceil(VALUES_MAX).max(5);
    let values: Vec<(f64, f64)> =
        all.chunks(group).map(|g| (g[0].0, middle(g))).filter(|(_, v)| v.is_finite()).collect();
    let mut edges = vec![0];
    edges.extend(levels(&values.iter().map(|v| v.1).collect::<Vec<_>>()));
    edges.push(values.len());
    let by = |e: &[usize]| middle(&values[e[1]..e[2]]) - middle(&values[e[0]..e[1]]);
    // Shifts too small to report are merged, the smallest first.
    while let Some(least) = (1..edges.len() - 1)
        .min_by(|a, b| by(&edges[a - 1..=a + 1]).abs().total_cmp(&by(&edges[b - 1..=b + 1]).abs()))
    {
        if by(&edges[least - 1..=least + 1]).abs() >= SHIFT_MIN {
            break;
        }
        edges.remove(least);
    }
    let shift = |e: &[usize]| {
        let until = values.get(e[2]).map_or(f64::INFINITY, |v| v.0);
        let (from, at_s, by) = (values[e[0]].0, values[e[1]].0, by(e));
        TimeShift { at_s, ratio: by.exp(), cause: cause(round, by, from, at_s, until) }
    };
    edges.windows(3).map(shift).collect()
}

pub(super) fn middle(values: &[(f64, f64)]) -> f64 {
    median(&values.iter().map(|v| v.1).collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// Change of a probe's value that would explain the shift.
fn cause(round: &Round, by: f64, from: f64, at: f64, to: f64) -> Option<String> {
    let mean = |name: &str, from: f64, to: f64| {
        // A window describes the quarter of a second before its end.
        let windows = round.windows.get(name)?;
        let inside: Vec<f64> =
            windows.iter().filter(|(t, _)| *t > from && *t <= to + 0.25).map(|w| w.1).collect();
        (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
    };
    let change = |name: &str| Some((mean(name, from, at)?, mean(name, at, to)?));
    // Slower calls need more of it, faster ones less.
    let explains = |name: &str, least: f64| {
        change(name).filter(|(before, after)| (after - before) * by.signum() > least)
    };
    let percent = |ratio: f64| format!("{:.0} %", 100.0 * ratio);
    if let Some((before, after)) = explains("run_delay_ratio", 0.02) {
        return Some(format!(
            "the reader waited for a CPU: {} of the time, {} before",
            percent(after),
            percent(before)
        ));
    }
    if let Some((before, after)) = explains("steal_ratio", 0.01) {
        return Some(format!("the hypervisor took CPU time: {}, {} before", percent(after), percent(before)));
    }
    if let Some((before, after)) = change("frequency_hz").filter(|(b, a)| (b / a).ln() * by.signum() > 0.02) {
        return Some(format!("the clock frequency was {:.2} GHz, {:.2} before", after / 1e9, before / 1e9));
    }
    if let Some((before, after)) = explains("other_busy_ratio", 0.1) {
        return Some(format!("other work used {} of the CPUs, {} before", percent(after), percent(before)));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::curve::Estimate;
    use super::*;

    fn cost() -> Cost {
        let exactly = |value| Estimate { value, interval: None };
        let aligned_byte_ns = Err(record::missing::Missing::because("synthetic"));
        Cost { call_ns: exactly(400.0), byte_ns: exactly(0.1), aligned_byte_ns, page_ns: exactly(0.0) }
    }

    /// A round of 2,000 points of a millisecond, slower by `by` from 0.8 s to 1.4 s.
    fn round(by: f64, name: &str, (off, on): (f64, f64)) -> Round {
        let mut chance = crate::chance::SplitMix(1);
        let is_on = |t: f64| (0.8..1.4).contains(&t);
        let mut point = |i: u32| {
            let (t, size) = (f64::from(i) * 1e-3, chance.below(100_000) as u64 + 1);
            let wobble = 0.99 + 0.02 * chance.below(1_000) as f64 / 1_000.0;
            (t, size, cost().call_ns(size) * wobble * if is_on(t) { 1.0 + by } else { 1.0 })
        };
        let windows =
            (1..=8).map(|i| f64::from(i) * 0.25).map(|t| (t, if is_on(t - 0.1) { on } else { off }));
        Round {
            points: (0..2_000).map(&mut point).collect(),
            references: Vec::new(),
            windows: BTreeMap::from([(name.to_owned(), windows.collect())]),
        }
    }

    #[test]
    fn a_slower_moment_is_found_and_named_by_what_changed_with_it() {
        let found = shifts(&[round(0.2, "run_delay_ratio", (0.0, 0.3))], &cost());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].at_s - 0.8).abs() < 0.02 && (found[1].at_s - 1.4).abs() < 0.02, "{found:?}");
        assert!((found[0].ratio - 1.2).abs() < 0.02 && (found[1].ratio - 1.0 / 1.2).abs() < 0.02);
        assert!(
            found.iter().all(|s| s.cause.as_ref().is_some_and(|c| c.starts_with("the reader waited"))),
            "{found:?}"
        );
        let steal = shifts(&[round(0.1, "steal_ratio", (0.0, 0.1))], &cost());
        assert!(steal[0].cause.as_ref().unwrap().starts_with("the hypervisor"), "{steal:?}");
        let clock = shifts(&[round(0.1, "frequency_hz", (3e9, 2.7e9))], &cost());
        assert!(clock[0].cause.as_ref().unwrap().starts_with("the clock"), "{clock:?}");
    }

    #[test]
    fn what_changed_the_other_way_is_no_cause() {
        let found = shifts(&[round(0.2, "run_delay_ratio", (0.3, 0.0))], &cost());
        assert!(found.iter().all(|s| s.cause.is_none()) && found.len() == 2, "{found:?}");
    }

    #[test]
    fn a_machine_that_stands_still_has_no_shift() {
        assert!(shifts(&[round(0.0, "steal_ratio", (0.0, 0.0))], &cost()).is_empty());
    }
}
