//! The judgement of one configuration against the reference, as a sentence that a person would say.

use std::collections::BTreeSet;

use analysis::{Comparisons, Estimate, Pair, Verdict};
use record::bakeoff::{Levels, Metric, Scale};

use crate::names::Names;
use crate::number::{MULTIPLES_FROM, Toward, clear_of, count, multiple, share};
use crate::words::{list, metric as metric_name, plural};

/// One sentence about one configuration and one metric: first the differences that are claimed, then the
/// other conditions.
pub(crate) fn sentence(comparisons: &Comparisons, names: &Names, pairs: &[&Pair]) -> String {
    let of =
        |verdict: Verdict| -> Vec<&Pair> { pairs.iter().copied().filter(|p| p.verdict == verdict).collect() };
    let (better, worse) = (of(Verdict::Better), of(Verdict::Worse));
    let claims = if worse.len() > better.len() { [worse, better] } else { [better, worse] };
    let (a, b) = (names.configuration(&pairs[0].a), names.configuration(&pairs[0].b));
    let metric = metric_name(pairs[0].metric);
    let all = conditions(comparisons, pairs[0].metric);
    let mut told: Vec<String> = Vec::new();
    for group in claims.iter().filter(|group| !group.is_empty()) {
        let subject = if told.is_empty() { a.as_str() } else { "it" };
        let claim = claim(comparisons, &b, group);
        told.push(format!("{subject} {claim}{}", place(names, group, all)));
    }
    let equal = of(Verdict::Equivalent);
    if !equal.is_empty() {
        let at = place(names, &equal, all);
        let within = share(comparisons.rules.rope_ratio);
        told.push(if told.is_empty() {
            format!("No difference that matters between {a} and {b} in {metric}{at} (within {within})")
        } else {
            format!("no difference that matters{at}")
        });
    }
    let open = of(Verdict::Inconclusive);
    if !open.is_empty() {
        let at = place(names, &open, all);
        let needed = needed(&open);
        told.push(if told.is_empty() {
            format!("Cannot tell yet whether {a} and {b} differ in {metric}{at}{needed}")
        } else {
            format!("cannot tell yet{at}{needed}")
        });
    }
    format!("{}.", told.join("; "))
}

/// The sentence if no pair is judged better or worse.
pub(crate) fn nothing_found(comparisons: &Comparisons, names: &Names) -> String {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut configurations: Vec<&Levels> = Vec::new();
    for pair in &comparisons.pairs {
        if !metrics.contains(&pair.metric) {
            metrics.push(pair.metric);
        }
        if !configurations.contains(&&pair.a) {
            configurations.push(&pair.a);
        }
    }
    let is_equal = |metric: &Metric| {
        let mut pairs = comparisons.pairs.iter().filter(|p| p.metric == *metric);
        pairs.all(|p| p.verdict == Verdict::Equivalent)
    };
    let (equal, open): (Vec<Metric>, Vec<Metric>) = metrics.into_iter().partition(is_equal);
    let told =
        |metrics: &[Metric]| list(&metrics.iter().map(|m| metric_name(*m).to_owned()).collect::<Vec<_>>());
    let reference = names.configuration(&comparisons.reference);
    let (between, whether) = if let [a] = configurations[..] {
        let a = names.configuration(a);
        (format!("{a} and {reference}"), format!("{a} and {reference} differ"))
    } else {
        let others = plural(configurations.len(), "other configuration");
        (format!("{reference} and the {others}"), format!("any of the {others} differs from {reference}"))
    };
    let undecided: Vec<&Pair> = comparisons.pairs.iter().filter(|p| open.contains(&p.metric)).collect();
    let needed = needed(&undecided);
    let within = share(comparisons.rules.rope_ratio);
    match (equal.is_empty(), open.is_empty()) {
        (true, _) => format!("Cannot tell yet whether {whether} in {}{needed}.", told(&open)),
        (false, true) => {
            format!("No difference that matters between {between} in {} (within {within}).", told(&equal))
        }
        (false, false) => format!(
            "No difference that matters between {between} in {} (within {within}); cannot tell yet in \
             {}{needed}.",
            told(&equal),
            told(&open)
        ),
    }
}

/// Number of conditions under which any configuration is compared by this metric. A configuration that lacks
/// some of them is not better everywhere.
fn conditions(comparisons: &Comparisons, metric: Metric) -> usize {
    let judged = comparisons.pairs.iter().filter(|p| p.metric == metric).map(|p| &p.levels);
    let left_out = comparisons.left_out.iter().filter(|out| out.metric == metric).map(|out| &out.levels);
    judged.chain(left_out).collect::<BTreeSet<_>>().len()
}

/// The conditions of these pairs out of `all`; empty for all of them.
fn place(names: &Names, group: &[&Pair], all: usize) -> String {
    if group.len() == all && all > 1 {
        return String::new();
    }
    names.place(&group.iter().map(|p| &p.levels).collect::<Vec<_>>(), all)
}

/// `is 6.6 to 7.3 times as fast as delete (95 %: 5.2 to 10.1)`: pairs that differ in the same direction. The
/// interval is the one that decides, at the level that the family of pairs leaves to each.
fn claim(comparisons: &Comparisons, reference: &str, group: &[&Pair]) -> String {
    let estimates: Vec<Estimate> = group.iter().filter_map(|p| p.estimate.as_ref().ok().copied()).collect();
    let least = |of: fn(&Estimate) -> f64| estimates.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&Estimate) -> f64| estimates.iter().map(of).fold(0.0, f64::max);
    let (ratio, interval) =
        ((least(|e| e.ratio), most(|e| e.ratio)), (least(|e| e.low_adjusted), most(|e| e.high_adjusted)));
    let is_more = (group[0].verdict == Verdict::Better) == group[0].metric.more_is_better();
    let level = share(1.0 - comparisons.rules.alpha);
    // One form for the range and its interval, so that they can be compared at a glance.
    let scale = group[0].metric.scale();
    if scale == Scale::Ratio && is_more && interval.1 >= MULTIPLES_FROM {
        let evidence = format!("({level}: {})", outwards(interval, multiple));
        let times = range(ratio, |ratio| multiple(ratio, Toward::Nearest));
        return match group[0].metric {
            Metric::Throughput => format!("is {times} times as fast as {reference} {evidence}"),
            metric => format!(
                "{} {times} times the {} of {reference} {evidence}",
                verb(metric),
                metric_name(metric)
            ),
        };
    }
    let over = |ratio: f64| if scale == Scale::Points { ratio.ln() } else { ratio - 1.0 };
    let ends = |(low, high): (f64, f64)| {
        if is_more { (over(low), over(high)) } else { (-over(high), -over(low)) }
    };
    let evidence = format!("({level}: {} %)", outwards(ends(interval), percent));
    let percent = format!("{} %", range(ends(ratio), |share| percent(share, Toward::Nearest)));
    match (group[0].metric, is_more) {
        (Metric::Throughput, true) => format!("is {percent} faster than {reference} {evidence}"),
        (Metric::Throughput, false) => format!("is {percent} slower than {reference} {evidence}"),
        (metric @ (Metric::P99 | Metric::P999), is_more) => {
            let word = if is_more { "higher" } else { "lower" };
            format!("has a {} {percent} {word} than that of {reference} {evidence}", metric_name(metric))
        }
        (Metric::MemoryGrowth, is_more) => {
            let more = if is_more { "more" } else { "less" };
            format!(
                "has a memory growth that is {percent} of its memory {more} than that of {reference} {evidence}"
            )
        }
        (Metric::LockCpu, is_more) => {
            let more = if is_more { "more" } else { "less" };
            format!("spins for kernel locks in {percent} of all CPU time {more} than {reference} {evidence}")
        }
        (metric, is_more) => {
            let word = if is_more { "more" } else { "less" };
            format!("{} {percent} {word} {} than {reference} {evidence}", verb(metric), metric_name(metric))
        }
    }
}

/// Verb that goes with a metric.
fn verb(metric: Metric) -> &'static str {
    if metric.quantile().is_some() { "has" } else { "uses" }
}

/// `6.6 to 7.3`, or one value if both read the same.
fn range((low, high): (f64, f64), write: impl Fn(f64) -> String) -> String {
    let (low, high) = (write(low), write(high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// An interval that covers the true one: its ends are rounded outwards.
fn outwards((low, high): (f64, f64), write: fn(f64, Toward) -> String) -> String {
    let (low, high) = (write(low, Toward::Down), write(high, Toward::Up));
    if low == high { low } else { format!("{low} to {high}") }
}

/// A share as a percentage without its sign.
fn percent(share: f64, toward: Toward) -> String {
    match share * 100.0 {
        p if p.abs() < 0.995 || (99.5..99.995).contains(&p) => clear_of(0.0, p, 2, toward),
        p if p.abs() < 9.95 => clear_of(0.0, p, 1, toward),
        p => clear_of(0.0, p, 0, toward),
    }
}

/// `: about 40 more blocks would probably decide`, if that is known for all undecided pairs.
fn needed(pairs: &[&Pair]) -> String {
    let open = || pairs.iter().filter(|p| p.verdict == Verdict::Inconclusive);
    let more = |p: &&Pair| Some(u64::from(*p.blocks_needed.as_ref().ok()?).saturating_sub(p.n() as u64));
    let known: Vec<u64> = open().filter_map(more).collect();
    if open().next().is_some() && open().all(|p| p.n() == 0) {
        return ": no block has valid trials of both".to_owned();
    }
    match known.iter().max() {
        Some(1) if known.len() == open().count() => ": about 1 more block would probably decide".to_owned(),
        Some(most) if known.len() == open().count() && *most > 0 => {
            format!(": about {} more blocks would probably decide", count(*most))
        }
        _ => String::new(),
    }
}
