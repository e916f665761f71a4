//! From observed values to histories: sorted into series, cut at breaks, tested for changes.

use std::collections::BTreeMap;

use record::bakeoff::Metric;
use record::missing::{Maybe, Missing};

use super::conditions::{Part, breaks, parts};
use super::drift::drift;
use super::effect::{Sized, SizedShort, sizes, sizes_of_short};
use super::excursion::apart;
use super::point::{Identity, Key, Observed, Point};
use super::series::{Change, Drift, Excursion, History, Sense, VALUES_MAX, VALUES_MIN};
use super::suspect::suspects;
use crate::judge::Rules;
use crate::robust::median;

/// Words of work in the name of a rate.
const WORK: &str = "requests request queries query transactions operations events items rows records messages bytes \
                    calls commits inserts reads writes lookups jobs tasks";
/// Short forms and units of amounts that are moved.
const AMOUNTS: [&str; 14] =
    ["b", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "mbit", "gbit", "req", "reqs", "msgs"];
/// Words of faults, of which fewer are better.
const FAULTS: &str = "error errors failure failures failed fault faults miss misses timeout timeouts dropped drops \
                      retry retries loss lost rejected deadlocks rollbacks aborts conflicts stalls killed";

impl Sense {
    /// Sense of a metric of ours, or by the words of an imported name: `_per_s` and `throughput` are better
    /// if there is more of them, times, sizes, costs and errors if there is less. Unknown if the words of a
    /// name contradict each other.
    pub fn of(metric: &str) -> Self {
        if let Some(known) = Metric::from_word(metric) {
            return if known.more_is_better() { Self::More } else { Self::Less };
        }
        let name = metric.to_lowercase().replace('-', "_");
        let has = |words: &str| name.split(['_', '/']).any(|part| words.split(' ').any(|word| word == part));
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        // `write_mb_s` and `req_s` are rates, too, and no times.
        let mut from_the_end = name.rsplit('_');
        // `time_per_request_s` is a time.
        let is_amount_s = !has("per to for")
            && from_the_end.next() == Some("s")
            && from_the_end
                .next()
                .is_some_and(|of| WORK.split_whitespace().chain(AMOUNTS).any(|word| word == of));
        let is_per_s = ends(&["_per_s", "_per_second", "/s"]);
        let is_rate = is_amount_s || is_per_s;
        // More of a work a second is better; of another thing, the name does not say.
        let is_work = is_rate && (is_amount_s || has(WORK));
        let is_more = is_work || has("throughput bandwidth speed capacity qps rps tps iops ops score");
        let until_a_fault = name.contains("time_to_failure") || name.contains("time_between_failures");
        if until_a_fault {
            return Self::More;
        }
        let is_spare = has("free available saved fixed uptime mtbf");
        // `latency_reads_s` may be seconds or reads a second: the name contradicts itself.
        let is_cost =
            has("latency duration elapsed time memory rss size cost allocs allocations") && !is_per_s;
        let is_less = is_cost || has("stddev stdev deviation variance jitter") || has(FAULTS);
        match (is_more || is_spare, is_less) {
            (true, false) => Self::More,
            (false, true) => Self::Less,
            (false, false) if !is_rate && ends(&["_ns", "_us", "_ms", "_s", "_bytes"]) => Self::Less,
            (true, true) | (false, false) => Self::Unknown,
        }
    }

    /// Whether a change by `ratio` is an improvement; `None` if the sense is unknown.
    pub fn is_better(self, before: f64, after: f64) -> Option<bool> {
        match self {
            Self::More => Some(after > before),
            Self::Less => Some(after < before),
            Self::Unknown => None,
        }
    }
}

/// Sorts values into histories, and finds the changes of each. Each load has its own.
///
/// Each stretch between two breaks is tested at alpha. Its false changes: `docs/validation.md`.
///
/// - `observed`: values of one series, time, version and labels that come later replace those of an earlier
///   run; several of one run are averaged.
/// - `rules`: alpha of a stretch; smaller changes than `rope_ratio` are left out.
pub fn histories(observed: Vec<Observed>, rules: Rules) -> Vec<History> {
    let whole = |points: Counted| {
        let mut points: Vec<(usize, Point)> = points.into_values().collect();
        points.sort_by_key(|(order, point)| (point.at_unix_ns, *order));
        points.into_iter().map(|(_, point)| point).collect()
    };
    let of_key = |(key, points): (Key, Counted)| {
        let of_part = move |part| history(key.clone(), part, rules);
        parts(whole(points)).into_iter().map(of_part)
    };
    counted(observed).into_iter().flat_map(of_key).collect()
}

/// Effect of an import on the values before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Added {
    /// Number of values that were not there.
    pub new: usize,
    /// Number of values that differ from an earlier one, which no longer counts.
    pub replaced: usize,
    /// Number of values that are as before.
    pub unchanged: usize,
}

/// Compares values with earlier ones of the same series, time, version and labels.
pub fn added(earlier: Vec<Observed>, newer: Vec<Observed>) -> Added {
    let earlier = counted(earlier);
    let mut found = Added::default();
    for (key, points) in counted(newer) {
        let before = earlier.get(&key);
        for (identity, (_, point)) in points {
            match before.and_then(|before| before.get(&identity)) {
                None => found.new += 1,
                Some((_, old)) if old.value.to_bits() == point.value.to_bits() => found.unchanged += 1,
                Some(_) => found.replaced += 1,
            }
        }
    }
    found
}

/// Values of a series with their order.
type Counted = BTreeMap<Identity, (usize, Point)>;

/// The values that count: of one identity, the mean of those of the last run.
fn counted(observed: Vec<Observed>) -> BTreeMap<Key, Counted> {
    let mut series: BTreeMap<Key, BTreeMap<Identity, (usize, Vec<Point>)>> = BTreeMap::new();
    for (order, Observed { key, point }) in observed.into_iter().enumerate() {
        let of_series = series.entry(key).or_default();
        let (_, same) = of_series.entry(point.identity()).or_insert_with(|| (order, Vec::new()));
        if same.first().is_some_and(|earlier| earlier.run != point.run) {
            same.clear();
        }
        same.push(point);
    }
    let one = |(identity, (order, points))| Some((identity, (order, averaged(points)?)));
    let whole =
        |points: BTreeMap<Identity, (usize, Vec<Point>)>| points.into_iter().filter_map(one).collect();
    series.into_iter().map(|(key, points)| (key, whole(points))).collect()
}

/// One value for the values of one time.
fn averaged(mut points: Vec<Point>) -> Option<Point> {
    let mean = points.iter().map(|p| p.value).sum::<f64>() / points.len() as f64;
    let last = points.pop()?;
    if points.is_empty() {
        return Some(last);
    }
    let interval = Err(Missing::because("it is the mean of several values with the same time"));
    Some(Point { value: mean, interval, ..last })
}

fn history(key: Key, Part { told_apart, points }: Part, rules: Rules) -> History {
    let breaks = breaks(&points);
    let ends: Vec<usize> =
        std::iter::once(0).chain(breaks.iter().map(|b| b.at)).chain([points.len()]).collect();
    let (mut found, mut drifts, mut excursions, mut untested) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for stretch in ends.windows(2) {
        let (from, to) = (stretch[0].max(stretch[1].saturating_sub(VALUES_MAX)), stretch[1]);
        untested += from - stretch[0];
        if to - from < VALUES_MIN {
            untested += to - from;
            continue;
        }
        let Stretch { changes, drift, excursions: short } = of_stretch(&points[from..to], &key, rules);
        drifts.extend(drift.into_iter().map(|d| Drift { from: from + d.from, until: from + d.until, ..d }));
        found.extend(changes.into_iter().map(|c| Change { at: from + c.at, ..c }));
        excursions.extend(short.into_iter().map(|e| Excursion {
            from: from + e.from,
            until: from + e.until,
            ..e
        }));
    }
    for i in 0..found.len() {
        let neighbor = |at: Option<usize>, or: usize| at.unwrap_or(or);
        let at = found[i].at;
        let from = neighbor(ends.iter().copied().rfind(|end| *end < at), 0)
            .max(neighbor(i.checked_sub(1).map(|before| found[before].at), 0));
        let to = neighbor(ends.iter().copied().find(|end| *end > at), points.len())
            .min(neighbor(found.get(i + 1).map(|next| next.at), points.len()));
        found[i].suspects = suspects(&points[from..at], &points[at..to]);
    }
    let sense = Sense::of(&key.metric);
    History { sense, key, told_apart, points, breaks, changes: found, drifts, excursions, untested }
}

/// Unit in which values are compared.
enum Unit {
    /// Logarithms: changes are ratios.
    Log,
    /// Multiples of the median size, for values that are not all positive.
    Plain(f64),
}

impl Unit {
    /// The value that is compared as `level`.
    fn amount(&self, level: f64) -> f64 {
        match self {
            Self::Log => level.exp(),
            Self::Plain(size) => level * size,
        }
    }

    /// Ratio of two levels that are apart by `by`, with its interval.
    fn ratio(&self, by: f64, (low, high): (f64, f64)) -> Maybe<(f64, f64, f64)> {
        match self {
            Self::Log => Ok((by.exp(), low.exp(), high.exp())),
            Self::Plain(_) => Err(Missing::because("values that are not all positive have no ratio")),
        }
    }
}

/// Findings of a stretch without a break.
struct Stretch {
    changes: Vec<Change>,
    drift: Option<Drift>,
    excursions: Vec<Excursion>,
}

fn of_stretch(points: &[Point], key: &Key, rules: Rules) -> Stretch {
    let raw: Vec<f64> = points.iter().map(|p| p.value).collect();
    let unit = if raw.iter().all(|v| *v > 0.0) {
        Unit::Log
    } else {
        let sizes: Vec<f64> = raw.iter().map(|v| v.abs()).filter(|size| *size > 0.0).collect();
        let largest = sizes.iter().copied().fold(0.0, f64::max);
        // Squares of multiples of the size must be numbers.
        Unit::Plain(median(&sizes).unwrap_or(1.0).max(largest * 1e-100))
    };
    let values: Vec<f64> = raw
        .iter()
        .map(|v| match unit {
            Unit::Log => v.ln(),
            Unit::Plain(size) => v / size,
        })
        .collect();
    let band = match unit {
        Unit::Log => key.own_metric().map_or_else(|| rules.rope_ratio.ln_1p(), |m| rules.edge(m)),
        Unit::Plain(_) => rules.rope_ratio,
    };
    let found = apart(&values, rules.alpha, rules.seed);
    let lasting: Vec<f64> = found.lasting.iter().map(|i| values[*i]).collect();
    let in_all = |sized: &Sized| found.lasting[sized.found.at];
    let sized = sizes(&lasting, found.found.clone(), band);
    let changes: Vec<Change> = sized.iter().map(|one| change(one, in_all(one), &unit)).collect();
    let at: Vec<usize> = changes.iter().map(|change| change.at).collect();
    let short = sizes_of_short(&values, &at, &found.short, band);
    let excursion = |one: SizedShort| {
        let SizedShort { short, sized, then, is_back } = one;
        let Change { before, after, ratio, .. } = change(&sized, short.from, &unit);
        let then = then.map(|level| unit.amount(level));
        Excursion {
            from: short.from,
            until: short.until,
            before,
            level: after,
            then,
            is_back,
            ratio,
            p: short.p,
        }
    };
    let line = if changes.is_empty() { drift(&lasting, (rules.alpha, band), rules.seed) } else { None };
    let drift = line.map(|line| {
        let ratio = unit.ratio(line.after - line.before, line.interval);
        let (before, after) = (unit.amount(line.before), unit.amount(line.after));
        Drift { from: 0, until: points.len(), before, after, ratio, p: line.p }
    });
    Stretch { changes, drift, excursions: short.into_iter().map(excursion).collect() }
}

fn change(sized: &Sized, at: usize, unit: &Unit) -> Change {
    let Sized { found, before, after, interval: (low, high) } = *sized;
    let ratio = unit.ratio(after - before, (low, high));
    let (before, after) = (unit.amount(before), unit.amount(after));
    Change { at, before, after, ratio, p: found.p, suspects: Vec::new() }
}
