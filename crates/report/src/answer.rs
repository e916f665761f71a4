//! The answer of a comparison in one sentence: `B is 22 % faster than A (95 %: 18 % to 26 %)`.
//!
//! *Faster* by 22 % means that A takes 1.22 times as long as B; *slower* by 22 % that B takes 1.22 times as
//! long as A. So both words have one scale, and swapping the two commands changes the word alone.

use analysis::{Estimate, Verdict};
use record::bakeoff::{Metric, Scale};
use record::missing::Maybe;

use crate::number::{MULTIPLES_FROM, Toward, change_of, clear_of, point_ends, share};
use crate::words::metric as metric_name;

/// A pair of which a sentence is made.
#[derive(Debug, Clone)]
pub(crate) struct Compared<'a> {
    /// Name of the judged side.
    pub(crate) a: &'a str,
    /// Name of the reference.
    pub(crate) b: &'a str,
    /// The metric.
    pub(crate) metric: Metric,
    /// A divided by B.
    pub(crate) estimate: &'a Maybe<Estimate>,
    /// The verdict on A.
    pub(crate) verdict: Verdict,
    /// Number of replicates that would probably decide it.
    pub(crate) needed: &'a Maybe<u32>,
    /// Number of replicates that there are.
    pub(crate) have: u32,
}

/// Unit of replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Rounds of a comparison of commands.
    Rounds,
    /// Archived runs of each side.
    Runs,
}

/// The sentence of a pair, without its full stop.
///
/// - `level`: confidence of the interval.
pub(crate) fn sentence(of: &Compared<'_>, (level, rope_ratio): (f64, f64), unit: Unit) -> String {
    let subject = match of.metric {
        Metric::Time | Metric::Throughput => String::new(),
        metric => format!("{}: ", metric_name(metric)),
    };
    match (of.verdict, of.estimate) {
        (Verdict::Better | Verdict::Worse, Ok(estimate)) => {
            format!("{subject}{}", claim(of, estimate, level))
        }
        (Verdict::Equivalent, _) => {
            let within = match of.metric.scale() {
                Scale::Ratio => share(rope_ratio),
                Scale::Points => share(rope_ratio).replace('%', "pp"),
            };
            format!("{subject}no difference that matters: within {within} of {}", of.b)
        }
        _ => {
            // The option's name, as the user knows it.
            let edge = format!("{} (--rope)", share(rope_ratio));
            format!("{subject}cannot tell yet: {}", needed(of, unit).replace("the ROPE", &edge))
        }
    }
}

/// Need of an undecided pair: `about 40 more rounds`.
fn needed(of: &Compared<'_>, unit: Unit) -> String {
    match (of.needed, unit) {
        (Ok(needed), Unit::Rounds) => {
            let more = needed.saturating_sub(of.have).max(1);
            format!("about {} more {}", rounded(more), if more == 1 { "round" } else { "rounds" })
        }
        (Ok(needed), Unit::Runs) => {
            format!("about {} runs of each side needed, {} present", rounded(*needed), of.have)
        }
        // Too many for any number: the reason names the limit.
        (Err(why), unit) => match why.reason.split_once(": ") {
            Some((limit, reason)) if limit.starts_with("more than ") => {
                let unit = if unit == Unit::Rounds { "rounds" } else { "runs of each side" };
                format!("{limit} {unit}, because {reason}")
            }
            _ => why.reason.clone(),
        },
    }
}

/// Two significant digits, upwards: a number of rounds is an estimate.
fn rounded(n: u32) -> u32 {
    let step = match n {
        0..100 => 1,
        100..1_000 => 10,
        _ => 100,
    };
    n.div_ceil(step) * step
}

fn claim(of: &Compared<'_>, estimate: &Estimate, level: f64) -> String {
    let ends = (estimate.ratio, estimate.low, estimate.high);
    let inverse = (1.0 / estimate.ratio, 1.0 / estimate.high, 1.0 / estimate.low);
    let (a, b) = (of.a, of.b);
    if matches!(of.metric, Metric::Time | Metric::Throughput) {
        let is_faster = of.verdict == Verdict::Better;
        let times = if (of.metric == Metric::Time) == is_faster { inverse } else { ends };
        let word = if is_faster { "fast" } else { "slow" };
        return match amounts(times, level) {
            Amounts::Times(times, evidence) => format!("{a} is {times} as {word} as {b} {evidence}"),
            Amounts::Percent(percent, evidence) => {
                let word = if is_faster { "faster" } else { "slower" };
                format!("{a} is {percent} {word} than {b} {evidence}")
            }
        };
    }
    if of.metric.scale() == Scale::Points {
        let (low, high) = point_ends(estimate.low, estimate.high);
        let change = change_of(of.metric, estimate.ratio);
        return format!("{a} differs from {b} by {change} ({}: {low} to {high})", share(level));
    }
    if estimate.ratio > 1.0 {
        return match amounts(ends, level) {
            Amounts::Times(times, evidence) => format!("{a} is {times} that of {b} {evidence}"),
            Amounts::Percent(percent, evidence) => format!("{a} is {percent} higher than {b} {evidence}"),
        };
    }
    let (of_point, evidence) = percents((1.0 - ends.0, 1.0 - ends.2, 1.0 - ends.1), level);
    format!("{a} is {of_point} lower than {b} {evidence}")
}

/// A factor and its interval, both in one form.
enum Amounts {
    /// `6.8x`, and its interval.
    Times(String, String),
    /// `22 %`, and its interval.
    Percent(String, String),
}

/// - `(times, low, high)`: a factor over 1 and its interval.
fn amounts((times, low, high): (f64, f64, f64), level: f64) -> Amounts {
    if times < MULTIPLES_FROM {
        let (percent, evidence) = percents((times - 1.0, low - 1.0, high - 1.0), level);
        return Amounts::Percent(percent, evidence);
    }
    let digits = match (high - low) / 2.0 {
        half if half < 0.05 => 2,
        half if half < 5.0 => 1,
        _ => 0,
    };
    let write = |value: f64, toward: Toward| format!("{}x", clear_of(1.0, value, digits, toward));
    let (low, high) = (write(low, Toward::Down), write(high, Toward::Up));
    Amounts::Times(write(times, Toward::Nearest), format!("({}: {low} to {high})", share(level)))
}

/// A share and its interval as percentages, with the digits that the interval supports. The interval is
/// rounded outwards.
fn percents((of, low, high): (f64, f64, f64), level: f64) -> (String, String) {
    let half = (high - low) * 50.0;
    let digits = match half {
        half if half >= 1.0 => 0,
        half if half >= 0.1 => 1,
        half if half >= 0.005 => 2,
        _ => 4,
    };
    let write = |ratio: f64, toward: Toward| {
        let text = format!("{} %", clear_of(0.0, ratio * 100.0, digits, toward));
        if text.trim_start_matches('-').chars().all(|c| matches!(c, '0' | '.' | ' ' | '%')) {
            return text.trim_start_matches('-').to_owned();
        }
        text
    };
    let (low, high) = (write(low, Toward::Down), write(high, Toward::Up));
    (write(of, Toward::Nearest), format!("({}: {low} to {high})", share(level)))
}

#[cfg(test)]
mod tests {
    use analysis::{Member, Rules, judge};
    use record::missing::Missing;

    use super::*;
    use crate::number::change_interval_of;

    fn said(metric: Metric, center: f64, spread: f64) -> String {
        let noise = [1.0, -1.0, 0.5, -0.5, 0.8, -0.8, 0.2, -0.2];
        let log_ratios: Vec<f64> = noise.iter().map(|n| center.ln() + n * spread).collect();
        let rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1 };
        let judged = judge(&[Member::exact(metric, &log_ratios)], rules).remove(0);
        let compared = Compared {
            a: "B",
            b: "A",
            metric,
            estimate: &judged.estimate,
            verdict: judged.verdict,
            needed: &Ok(48),
            have: 8,
        };
        sentence(&compared, (0.95, 0.01), Unit::Rounds)
    }

    #[test]
    fn the_answer_has_one_of_four_forms() {
        assert_eq!(said(Metric::Time, 1.0 / 1.22, 0.06), "B is 22 % faster than A (95 %: 17 % to 27 %)");
        assert_eq!(said(Metric::Time, 1.22, 0.06), "B is 22 % slower than A (95 %: 17 % to 27 %)");
        assert_eq!(said(Metric::Time, 1.0 / 6.75, 0.03), "B is 6.8x as fast as A (95 %: 6.6x to 6.9x)");
        assert_eq!(said(Metric::Time, 6.75, 0.03), "B is 6.8x as slow as A (95 %: 6.6x to 6.9x)");
        assert_eq!(said(Metric::Time, 1.001, 0.002), "no difference that matters: within 1 % of A");
        assert_eq!(said(Metric::Time, 1.01, 0.05), "cannot tell yet: about 40 more rounds");
    }

    #[test]
    fn digits_are_those_that_the_interval_supports() {
        assert_eq!(said(Metric::Time, 1.034, 0.004), "B is 3.4 % slower than A (95 %: 3.1 % to 3.7 %)");
        assert_eq!(said(Metric::Time, 2.5, 0.004), "B is 2.50x as slow as A (95 %: 2.49x to 2.51x)");
        assert_eq!(said(Metric::Time, 900.0, 0.1), "B is 900x as slow as A (95 %: 845x to 958x)");
        // The interval of a factor below 2 may reach over it: it keeps the form of the factor.
        assert_eq!(said(Metric::Time, 1.95, 0.1), "B is 95 % slower than A (95 %: 83 % to 108 %)");
    }

    /// Numbers of a text, with their signs.
    fn numbers(text: &str) -> Vec<f64> {
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
        let parts = text.split(|c| !is_part(c)).map(|part| part.trim_end_matches('.'));
        parts.filter_map(|part| part.parse().ok()).collect()
    }

    #[test]
    fn a_claim_never_contradicts_its_interval() {
        let (mut chance, mut claims, mut equal) = (1_u64, 0, 0);
        // Uniform in [0, 1).
        let mut next = || {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 11) as f64 / (1_u64 << 53) as f64
        };
        let metrics = [
            Metric::Time,
            Metric::Throughput,
            Metric::P99,
            Metric::Cpu,
            Metric::LockCpu,
            Metric::MemoryGrowth,
        ];
        for i in 0..3_000 {
            let metric = metrics[i % metrics.len()];
            let rules = Rules { rope_ratio: [0.0, 0.000_1, 0.003, 0.01, 0.05][i % 5], alpha: 0.05, seed: 1 };
            let (center, spread) = (0.5 * (next() - 0.5).powi(3) * 20.0, 0.3 * next().powi(4));
            let log_ratios: Vec<f64> = (0..8).map(|_| center + spread * (next() + next() - 1.0)).collect();
            let judged = judge(&[Member::exact(metric, &log_ratios)], rules).remove(0);
            let Ok(estimate) = &judged.estimate else { panic!("eight blocks are enough") };
            let compared = Compared {
                a: "B",
                b: "A",
                metric,
                estimate: &judged.estimate,
                verdict: judged.verdict,
                needed: &Ok(48),
                have: 8,
            };
            let text = sentence(&compared, (0.95, rules.rope_ratio), Unit::Rounds);
            let row = change_interval_of(metric, estimate.low, estimate.high);
            let [low, high] = numbers(&row)[..] else { panic!("{row}") };
            let times = row.contains('x');
            let none = if times { 1.0 } else { 0.0 };
            match judged.verdict {
                Verdict::Better | Verdict::Worse => {
                    claims += 1;
                    assert!(low > none || high < none, "{text}: {row}");
                    assert_eq!((judged.verdict == Verdict::Better) == metric.more_is_better(), low > none);
                    let (said, evidence) =
                        text.trim_start_matches("p99 ").split_once(" (95 %: ").expect(&text);
                    let ([value], [from, to]) = (&numbers(said)[..], &numbers(evidence)[..]) else {
                        panic!("{text}")
                    };
                    let none = if said.contains("x ") { 1.0 } else { 0.0 };
                    assert!(*from > none || *to < none, "{text}");
                    assert!(from <= value && value <= to, "{text}");
                }
                Verdict::Equivalent => {
                    equal += 1;
                    let edge = 100.0 * rules.rope_ratio + 1e-9;
                    assert!(!times && -edge <= low && high <= edge, "{text}: {row}");
                }
                Verdict::Inconclusive => {}
            }
        }
        assert!(claims > 1_000 && equal > 50, "{claims}, {equal}");
    }

    #[test]
    fn throughput_is_speed_and_other_metrics_are_amounts() {
        assert_eq!(said(Metric::Throughput, 1.22, 0.06), "B is 22 % faster than A (95 %: 17 % to 27 %)");
        assert_eq!(
            said(Metric::Throughput, 1.0 / 1.22, 0.06),
            "B is 22 % slower than A (95 %: 17 % to 27 %)"
        );
        assert!(said(Metric::P99, 0.5, 0.06).starts_with("p99 latency: B is 50 % lower than A"));
        assert!(said(Metric::Cpu, 3.0, 0.06).starts_with("CPU time: B is 3.0x that of A"));
        // The value is e to the share: five points, not 5 % of the share.
        let points = said(Metric::LockCpu, 0.05_f64.exp(), 0.01);
        assert!(
            points.contains(": B differs from A by +5.00 pp (95 %: +4.") && points.ends_with(" pp)"),
            "{points}"
        );
        let equal = said(Metric::MemoryGrowth, 1.0, 0.001);
        assert!(equal.ends_with("no difference that matters: within 1 pp of A"), "{equal}");
    }

    #[test]
    fn an_undecided_pair_says_what_it_needs_or_why_nothing_helps() {
        let (estimate, why) = (Err(Missing::because("x")), Err(Missing::because("the run was stopped")));
        let mut compared = Compared {
            a: "B",
            b: "A",
            metric: Metric::Time,
            estimate: &estimate,
            verdict: Verdict::Inconclusive,
            needed: &why,
            have: 1,
        };
        let rules = (0.95, 0.01);
        assert_eq!(sentence(&compared, rules, Unit::Rounds), "cannot tell yet: the run was stopped");
        compared.needed = &Ok(4);
        assert_eq!(
            sentence(&compared, rules, Unit::Runs),
            "cannot tell yet: about 4 runs of each side needed, 1 present"
        );
        let edge = Err(Missing::because("more than 1000: the difference is small"));
        let of_edge = Compared { needed: &edge, ..compared.clone() };
        assert_eq!(
            sentence(&of_edge, rules, Unit::Rounds),
            "cannot tell yet: more than 1000 rounds, because the difference is small"
        );
        let why = "more than 1000: the noise is too large for a difference this close to the ROPE";
        let of_edge = Compared { needed: &Err(Missing::because(why)), ..compared.clone() };
        assert!(
            sentence(&of_edge, rules, Unit::Rounds).ends_with(" for a difference this close to 1 % (--rope)")
        );
        compared.needed = &Ok(2);
        assert_eq!(sentence(&compared, rules, Unit::Rounds), "cannot tell yet: about 1 more round");
        assert_eq!([99, 101, 999, 1_001].map(rounded), [99, 110, 1_000, 1_100]);
    }
}
