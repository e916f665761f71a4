//! What things are called on paper.

use record::bakeoff::{Levels, Metric};

/// One configuration or condition: its value where one factor is enough to tell, else `factor=value` for each.
pub(crate) fn configuration(levels: &Levels) -> String {
    match levels.len() {
        0 => "all".to_owned(),
        1 => levels.values().next().cloned().unwrap_or_default(),
        _ => named(levels),
    }
}

/// `wal, normal`: the values alone, in the order of the factors' names, where a drawing has no room for more.
pub(crate) fn short(levels: &Levels) -> String {
    if levels.is_empty() {
        configuration(levels)
    } else {
        levels.values().cloned().collect::<Vec<_>>().join(", ")
    }
}

/// `threads=4, rate=500`; empty of no factors.
pub(crate) fn named(levels: &Levels) -> String {
    levels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(", ")
}

/// ` at threads=4`; empty of no factors.
pub(crate) fn at(levels: &Levels) -> String {
    if levels.is_empty() { String::new() } else { format!(" at {}", named(levels)) }
}

/// The part of the levels that these factors make up.
pub(crate) fn only(levels: &Levels, factors: &[String]) -> Levels {
    levels.iter().filter(|(k, _)| factors.contains(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// `throughput`, `p99 latency`, `CPU per event`.
pub(crate) fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "throughput",
        Metric::P99 => "p99 latency",
        Metric::CpuPerEvent => "CPU per event",
    }
}

/// `more is better`, `less is better`.
pub(crate) fn sense(metric: Metric) -> &'static str {
    if metric.more_is_better() { "more is better" } else { "less is better" }
}

/// `1 block`, `6 blocks`.
pub(crate) fn plural(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
