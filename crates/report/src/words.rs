//! Names and sentences for reports.

use analysis::cycles::{Clock, Cycle};
use analysis::sweep::{Cost, Estimate, Shape};
use analysis::usl::{Cliff, Law, Scaling};
use analysis::{Cell, Comparisons};
use record::bakeoff::{Levels, Metric, Scale};

use crate::number::{bandwidth, count, metric_value, outward, percent, significant};

/// One configuration or condition: its value if there is one factor, otherwise `factor=value` for each.
pub(crate) fn configuration(levels: &Levels) -> String {
    match levels.len() {
        0 => "all".to_owned(),
        1 => levels.values().next().cloned().unwrap_or_default(),
        _ => named(levels),
    }
}

/// `wal, normal`: the values alone, in the order of the factors' names, for drawings without room for more.
pub(crate) fn short(levels: &Levels) -> String {
    if levels.is_empty() {
        configuration(levels)
    } else {
        levels.values().cloned().collect::<Vec<_>>().join(", ")
    }
}

/// `4, 500`: the values of these factors, in their order, for a column with the factors in its head.
pub(crate) fn values_of(levels: &Levels, factors: &[String]) -> String {
    factors.iter().filter_map(|f| levels.get(f).cloned()).collect::<Vec<_>>().join(", ")
}

/// `threads=4, rate=500`; empty without factors.
pub(crate) fn named(levels: &Levels) -> String {
    levels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(", ")
}

/// ` at threads=4`; empty without factors.
pub(crate) fn at(levels: &Levels) -> String {
    if levels.is_empty() { String::new() } else { format!(" at {}", named(levels)) }
}

/// The levels of these factors.
pub(crate) fn only(levels: &Levels, factors: &[String]) -> Levels {
    levels.iter().filter(|(k, _)| factors.contains(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// `throughput`, `p99 latency`, `CPU per event`.
pub(crate) fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "throughput",
        Metric::P99 => "p99 latency",
        Metric::P999 => "p99.9 latency",
        Metric::CpuPerEvent => "CPU per event",
        Metric::LockCpu => "CPU time spun for kernel locks",
        Metric::IoPerEvent => "I/O per event",
        Metric::MemoryGrowth => "memory growth",
        Metric::EnergyPerEvent => "energy per event",
        Metric::Time => "time",
        Metric::Cpu => "CPU time",
    }
}

/// The mean of a cell, with its number of blocks if that is below `blocks`: `12.3 ms (1 of 6 blocks)`.
///
/// If the value is uncertain by more than half a percent, both bounds are written.
pub(crate) fn cell_mean(cell: &Cell, blocks: usize) -> Option<String> {
    let summary = cell.summary.as_ref().ok()?;
    let (low, high) = summary.bracket;
    let value = if high / low > 1.005 {
        format!("{} to {}", metric_value(cell.metric, low), metric_value(cell.metric, high))
    } else {
        metric_value(cell.metric, summary.mean)
    };
    Some(if summary.n < blocks {
        format!("{value} ({} of {})", summary.n, plural(blocks, "block"))
    } else {
        value
    })
}

/// Comparisons of the plan that belong to no family, with the reason: a sentence for each metric.
pub(crate) fn not_judged(comparisons: &Comparisons) -> Vec<String> {
    let mut told: Vec<(Metric, String, usize)> = Vec::new();
    for out in &comparisons.left_out {
        // Counts of events differ from run to run: one reason per metric, its first, stands for all.
        match told.iter_mut().find(|(metric, ..)| *metric == out.metric) {
            Some((_, _, n)) => *n += 1,
            None => told.push((out.metric, out.why.reason.clone(), 1)),
        }
    }
    told.into_iter()
        .map(|(of, why, n)| {
            let judged = comparisons.pairs.iter().filter(|p| p.metric == of).count();
            let which =
                if judged == 0 { String::new() } else { format!(" in {n} of {} comparisons", judged + n) };
            capital(&format!("{} is not judged{which}: {why}.", metric(of)))
        })
        .collect()
}

/// The text with a capital first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Meaning of a ratio of two values of a metric: `change`, `difference in percentage points`.
pub(crate) fn difference_word(metric: Metric) -> &'static str {
    match metric.scale() {
        Scale::Ratio => "change",
        Scale::Points => "difference in percentage points",
    }
}

/// `more is better`, `less is better`.
pub(crate) fn sense(metric: Metric) -> &'static str {
    if metric.more_is_better() { "more is better" } else { "less is better" }
}

/// `1 block`, `6 blocks`.
pub(crate) fn plural(n: usize, noun: &str) -> String {
    record::quantity::plural(n as u64, noun)
}

/// Variant of [`plural`] for large numbers: `1 event`, `10,000 events`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(n)) }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A cliff, in a sentence.
///
/// - `unit`: the things that are counted: `copies`.
pub(crate) fn cliff_sentence(cliff: &Cliff, unit: &str) -> String {
    format!(
        "CLIFF at {} {unit}: {} of the throughput is left at {}; any scalability law with its peak there \
         leaves at least {}.",
        cliff.at,
        percent(cliff.left_ratio),
        cliff.next,
        percent(cliff.allowed_ratio)
    )
}

/// The fitted laws, one sentence each.
///
/// - `unit`: the things that are counted: `copies`.
pub(crate) fn law_sentence(scaling: &Scaling, unit: &str) -> Vec<String> {
    let mut told = Vec::new();
    match &scaling.chosen {
        Ok(law) => {
            let fitted = scaling.laws.iter().find(|f| f.law == *law).expect("it was fitted");
            let intervals = fitted.intervals.as_ref().expect("a law without intervals is not chosen");
            let part = |name: &str, value: f64, interval: (f64, f64)| {
                let (low, high) = outward(interval, significant);
                format!("{name} {} [{low}, {high}]", significant(value))
            };
            let mut parts = Vec::new();
            if *law != Law::Linear {
                parts.push(part("contention", fitted.curve.sigma, intervals[1]));
            }
            if *law == Law::Usl {
                parts.push(part("coherency", fitted.curve.kappa, intervals[2]));
            }
            told.push(match law {
                Law::Linear => {
                    format!("Scaling law: linear; contention may be 0{}.", may_be(scaling, Law::Amdahl))
                }
                Law::Amdahl => format!(
                    "Scaling law: Amdahl, {} if coherency is 0{}.",
                    parts.join(", "),
                    may_be(scaling, Law::Usl)
                ),
                Law::Usl => format!("Scaling law: USL, {}.", parts.join(", ")),
            });
            match &scaling.peak {
                Ok((at, (low, high))) => {
                    let (low, high) = outward((*low, *high), |n| format!("{n:.0}"));
                    told.push(format!("Its peak is at {at:.0} {unit} [{low}, {high}]."));
                }
                Err(missing) => told.push(format!("No peak: {missing}.")),
            }
        }
        Err(missing) => told.push(format!("No scaling law: {missing}.")),
    }
    if scaling.slow_tail {
        told.push(
            "Slow values are more frequent than symmetric noise explains: the rates include the machine's \
             disturbances; undisturbed, it does more."
                .to_owned(),
        );
    }
    if scaling.retrograde {
        let less = "does significantly less work than the best number";
        told.push(format!("The largest number of {unit} {less}."));
    }
    told
}

/// Interval of the next law's last parameter, which the levels do not distinguish from 0.
fn may_be(scaling: &Scaling, law: Law) -> String {
    match scaling.laws.iter().find(|fitted| fitted.law == law).map(|fitted| &fitted.last) {
        Some(Ok((low, high))) => {
            let from = if law == Law::Usl { ", as it may be" } else { "" };
            format!("{from} [{}, {}]", significant(*low), significant(*high))
        }
        _ => ", which so few levels cannot show".to_owned(),
    }
}

/// `highest about 14:30`, `highest Tuesday 14:30 to Tuesday 15:20`, `lowest at 03:00`: when a cycle that the
/// clock sets differs from the rest of it.
pub(crate) fn by_the_clock(cycle: &Cycle) -> Option<String> {
    let form = match cycle.clock? {
        Clock::Day => "%H:%M",
        Clock::Week => "%A %H:%M",
    };
    let told = |at_s: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
        let minutes = (at_s / 60.0).round() as i64;
        Some(jiff::Timestamp::from_second(minutes.checked_mul(60)?).ok()?.strftime(form).to_string())
    };
    let Some(window) = &cycle.window else { return Some(format!("highest about {}", told(cycle.crest_s)?)) };
    let most = if window.change > 0.0 { "highest" } else { "lowest" };
    let (from, to) = (told(window.from_s)?, told(window.last_s)?);
    Some(if from == to { format!("{most} at {from}") } else { format!("{most} {from} to {to}") })
}

/// A value with its interval, both formatted by `write`.
pub(crate) fn with_interval(e: Estimate, write: impl Fn(f64) -> String) -> String {
    match e.interval {
        Some(interval) => {
            let (low, high) = outward(interval, &write);
            format!("{} [{low}, {high}]", write(e.value))
        }
        None => write(e.value),
    }
}

/// The cost of a call, in a sentence.
pub(crate) fn cost_sentence(cost: &Cost) -> String {
    let ns = |v: f64| format!("{} ns", significant(v));
    let of = |e: Estimate| if e.is_nothing() { "nothing".to_owned() } else { with_interval(e, ns) };
    let aligned = cost
        .aligned_byte_ns
        .as_ref()
        .map_or_else(|_| String::new(), |e| format!(" ({} where calls start at multiples of 64)", of(*e)));
    let bound = |e: Estimate, what| e.is_nothing().then_some(what);
    let at_bound: Vec<&str> =
        [bound(cost.call_ns, "a call"), bound(cost.byte_ns, "a byte"), bound(cost.page_ns, "a page")]
            .into_iter()
            .flatten()
            .collect();
    let bound = match at_bound[..] {
        [] => String::new(),
        _ => format!("; the cost of {} is at its bound, as it cannot be below 0", at_bound.join(" and of ")),
    };
    format!(
        "{} + {} a byte{aligned} + {} a page{bound}",
        of(cost.call_ns),
        of(cost.byte_ns),
        of(cost.page_ns)
    )
}

/// Plateau, knee and peak, in a sentence.
pub(crate) fn shape_sentence(shape: &Shape) -> String {
    let bytes = |v: f64| format!("{v:.0}");
    let rises = if shape.still_rises { ", and it still rises there" } else { "" };
    format!(
        "plateau {}{rises}; 90 % of it from {} bytes on; peak {} at {} bytes",
        with_interval(shape.plateau_bytes_per_s, bandwidth),
        with_interval(shape.knee_bytes, bytes),
        with_interval(shape.peak_bytes_per_s, bandwidth),
        with_interval(shape.peak_bytes, bytes)
    )
}
