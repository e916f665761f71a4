//! A comparison of commands at a terminal; the last line is the answer.

use std::io::{self, Write};

use analysis::commands::{CommandPair, Results, Span, Summary};
use analysis::{GateOutcome, Verdict};
use record::bakeoff::Metric;
use record::commands::{Comparison, Peak};
use record::missing::Maybe;
use record::run::{RunHeader, RunState};

use super::gates::gate_table;
use super::table::{Align, Table};
use super::{Detail, Style, Tint, ending, paragraph};
use crate::answer::{Compared, Unit, sentence};
use crate::gates;
use crate::number::{Toward, fixed, significant, significant_4, span};
use crate::words::plural;

/// Writes a row for each command, remarks, the gates, and the answer.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn commands(
    out: &mut dyn Write,
    header: &RunHeader,
    comparison: &Comparison,
    results: &Results,
    name: Option<&str>,
    (detail, style): (Detail, Style),
) -> io::Result<()> {
    table(comparison, results).write_rows(out, style)?;
    for remark in remarks(header, comparison, results) {
        paragraph(out, &format!(" {remark}"), 2, style)?;
    }
    if detail == Detail::Full {
        paragraph(out, &format!(" {}", method(comparison, results)), 2, style)?;
    }
    gate_table(out, &results.gates, style)?;
    ending::stored(out, name, "compare.html", style)?;
    ending::answer(out, &answer(header, comparison, results), style)
}

/// The answer: of the gates if one does not pass, and of the commands.
pub fn answer(header: &RunHeader, comparison: &Comparison, results: &Results) -> String {
    let reason = header.reason.as_deref();
    let of_commands = match header.state {
        RunState::Sealed => commands_answer(comparison, results),
        RunState::Invalid | RunState::Failed => {
            let word = if header.state == RunState::Failed { "FAILED" } else { "INVALID" };
            format!("{word}: {}", reason.unwrap_or("the archive does not name the reason"))
        }
        RunState::Interrupted | RunState::Running | RunState::Abandoned if results.rounds == 0 => {
            "INTERRUPTED: before the first measured round; no verdict".to_owned()
        }
        RunState::Interrupted | RunState::Running | RunState::Abandoned => format!(
            "INTERRUPTED: after {} of {}; no verdict before the last round",
            results.rounds,
            plural(comparison.rounds_planned as usize, "round")
        ),
    };
    match gates::answer(&results.gates).filter(|_| gates::worst(&results.gates) != Some(GateOutcome::Pass)) {
        Some(of_gates) if header.state == RunState::Sealed => format!("{of_gates}; {of_commands}"),
        _ => of_commands,
    }
}

/// The sentences of all pairs.
fn commands_answer(comparison: &Comparison, results: &Results) -> String {
    let several = results.pairs.len() > 1;
    let told = |pair: &CommandPair| {
        let text = pair_sentence(comparison, results, pair);
        let is_subject = matches!(pair.verdict, Verdict::Better | Verdict::Worse);
        if several && !is_subject { format!("{}: {text}", Comparison::letter(pair.a)) } else { text }
    };
    results.pairs.iter().map(told).collect::<Vec<_>>().join("; ")
}

/// The sentence of a pair.
pub(crate) fn pair_sentence(comparison: &Comparison, results: &Results, pair: &CommandPair) -> String {
    let (a, b) = (Comparison::letter(pair.a), Comparison::letter(pair.b));
    let compared = Compared {
        a: &a,
        b: &b,
        metric: Metric::Time,
        estimate: &pair.estimate,
        verdict: pair.verdict,
        needed: &pair.rounds_needed,
        have: results.rounds,
    };
    sentence(&compared, (1.0 - comparison.rules.alpha, comparison.rules.rope_ratio), Unit::Rounds)
}

/// ` A  gzip -6 -k -f x    412 ms   +-3   CPU 405 ms   1.9 MB   120 faults   38 rounds`
fn table(comparison: &Comparison, results: &Results) -> Table {
    let mut table = Table::default()
        .column("", Align::Left, 0)
        .column("", Align::Elastic, 0)
        .column("", Align::Right, 0)
        .column("", Align::Left, 0)
        .column("", Align::Left, 2)
        .column("", Align::Right, 3)
        .column("", Align::Right, 4)
        .column("", Align::Right, 5)
        .column("", Align::Right, 1);
    for (i, (name, summary)) in comparison.names().into_iter().zip(&results.summaries).enumerate() {
        let (time, around) = summary.time.as_ref().map_or(("-".to_owned(), String::new()), time_cells);
        table.row(vec![
            (format!(" {}", Comparison::letter(i)), Some(Tint::Strong)),
            (name, None),
            (time, None),
            (around, None),
            (cpu(summary), None),
            (summary.memory.as_ref().map_or_else(|_| "-".to_owned(), |peak| memory(*peak)), None),
            (faults(summary), None),
            (summary.instructions.as_ref().map_or_else(|_| String::new(), |n| instructions(*n)), None),
            (plural(results.rounds as usize, "round"), None),
        ]);
    }
    table
}

/// `412 ms` and `+-3`: the mean and a half width that covers its interval, in one unit.
fn time_cells(span: &Span) -> (String, String) {
    let (scale, unit) = scale_of(span.mean);
    let Some((low, high)) = span.interval else { return (time(span.mean), String::new()) };
    // The interval is symmetric in logs: its upper part is the wider one.
    let (value, half) = (span.mean * scale, (high - span.mean).max(span.mean - low) * scale);
    // The mean has the digits that its interval supports.
    let digits = match half {
        half if half >= 10.0 || (half >= 1.0 && value >= 99.95) => 0,
        half if half >= 0.1 => 1,
        half if half >= 0.01 => 2,
        _ => 3,
    };
    let value = fixed(value, digits, Toward::Nearest);
    // The printed mean is rounded, and the half width begins there.
    let from: f64 = value.parse().expect("it was just written");
    let half = (high * scale - from).max(from - low * scale);
    if half > HALF_WIDTH_MAX * from {
        // No time is below 0, as value minus half width would be: the ends are printed.
        let ends = [(low, Toward::Down), (high, Toward::Up)].map(|(end, toward)| end_of(end * scale, toward));
        return (time(span.mean), format!("{} to {} {unit}", ends[0], ends[1]));
    }
    (format!("{value} {unit}"), format!("+-{}", fixed(half, digits, Toward::Up)))
}

/// Widest interval that is printed as its half width, as a share of the mean.
const HALF_WIDTH_MAX: f64 = 0.3;

/// An end of an interval, rounded outward to some three digits.
fn end_of(end: f64, toward: Toward) -> String {
    let digits = match end {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    fixed(end, digits, toward)
}

/// `412 ms`, `61.3 us`: three significant digits.
fn time(seconds: f64) -> String {
    let (scale, unit) = scale_of(seconds);
    format!("{} {unit}", significant(seconds * scale))
}

fn scale_of(seconds: f64) -> (f64, &'static str) {
    match seconds {
        s if s < 999.5e-6 => (1e6, "us"),
        s if s < 999.5e-3 => (1e3, "ms"),
        _ => (1.0, "s"),
    }
}

/// CPU time: by events if they were seen, else by the kernel's account of the process.
fn cpu(summary: &Summary) -> String {
    let by_process = summary.cpu.clone().map(|(user, system)| user + system);
    match (&summary.cpu_by_events, by_process) {
        (Ok(seconds), _) => format!("CPU {} (events)", time(*seconds)),
        (Err(_), Ok(seconds)) => format!("CPU {}", time(seconds)),
        (Err(_), Err(_)) => "CPU -".to_owned(),
    }
}

/// `1.9 MB`, or `<=4.1 MB` if only a bound is known.
fn memory(peak: Peak) -> String {
    let megabytes = |bytes: f64| format!("{} MB", significant(bytes / 1e6));
    match peak {
        Peak::Bytes(bytes) => megabytes(bytes),
        Peak::AtMost(bytes) if bytes.is_finite() => format!("<={}", megabytes(bytes)),
        Peak::AtMost(_) => "-".to_owned(),
    }
}

/// `1.23 G instr`.
fn instructions(count: f64) -> String {
    let (scale, unit) = match count {
        n if n >= 999.5e6 => (1e-9, "G"),
        n if n >= 999.5e3 => (1e-6, "M"),
        _ => (1e-3, "k"),
    };
    format!("{} {unit} instr", significant(count * scale))
}

fn faults(summary: &Summary) -> String {
    let count: Maybe<String> = summary
        .faults
        .clone()
        .map(|faults| if faults < 999.5 { significant(faults) } else { significant_4(faults) });
    count.map_or_else(|_| "-".to_owned(), |count| format!("{count} faults"))
}

/// Sentences that a reader needs besides the numbers.
pub(crate) fn remarks(header: &RunHeader, comparison: &Comparison, results: &Results) -> Vec<String> {
    let mut told = Vec::new();
    for (i, summary) in results.summaries.iter().enumerate() {
        let letter = Comparison::letter(i);
        if summary.left > 0 {
            told.push(format!(
                "{letter} left processes behind after {}: they were killed, and their work is not in its \
                 time.",
                plural(summary.left as usize, "round")
            ));
        }
        if summary.failed > 0 {
            told.push(format!(
                "{letter} failed in {}, which was ignored.",
                plural(summary.failed as usize, "round")
            ));
        }
    }
    if header.labels.contains_key("beside-others") {
        told.push("Other measurements ran at the same time and may have slowed any command.".to_owned());
    }
    let short = results.rounds < comparison.rounds_planned && header.state == RunState::Sealed;
    if short {
        told.push(format!(
            "The time limit was reached after {} of {}.",
            results.rounds,
            plural(comparison.rounds_planned as usize, "planned round")
        ));
    }
    let undecided = results.pairs.iter().filter(|pair| pair.verdict == Verdict::Inconclusive);
    let most = undecided.filter_map(|pair| pair.rounds_needed.as_ref().ok()).max();
    if let (Some(needed), RunState::Sealed, Some(round_s)) = (most, header.state, comparison.round_s()) {
        let whole_s = round_s * f64::from(*needed);
        told.push(format!(
            "{needed} rounds of these commands take about {}: --blocks {needed}.",
            span(whole_s)
        ));
    }
    told.extend(starts(comparison, results));
    told.extend(results.pairs.iter().filter_map(|pair| changing(pair, results.pairs.len())));
    told
}

/// A remark if the ratio of a pair changes over the rounds, or may do so.
fn changing(pair: &CommandPair, pairs: usize) -> Option<String> {
    let estimate = pair.estimate.as_ref().ok()?;
    let (a, b) = (Comparison::letter(pair.a), Comparison::letter(pair.b));
    let of = if pairs > 1 { format!("{a} against {b}: the") } else { "The".to_owned() };
    if let Some(neighbors) = estimate.neighbors {
        return Some(format!(
            "{of} ratio changes during the comparison (correlation of neighbors {neighbors:.2}). The interval allows for that."
        ));
    }
    let unclear = estimate.unclear?;
    Some(format!(
        "{of} ratio may change during the comparison: the correlation of neighbors is {unclear:.2}, which {} rounds \
         do not show clearly. If it does change, the interval is too narrow; 40 rounds show it.",
        estimate.blocks
    ))
}

/// Shortest time beside which the start of a process is small.
const START_S: f64 = 5e-3;

/// A remark if starting processes is a large part of what was measured.
fn starts(comparison: &Comparison, results: &Results) -> Option<String> {
    let is_short = |i: &usize| results.summaries[*i].time.as_ref().is_ok_and(|time| time.mean < START_S);
    let short: Vec<String> =
        (0..comparison.commands.len()).filter(is_short).map(Comparison::letter).collect();
    let shell = comparison.settings.get("shell").filter(|shell| *shell != "none");
    let starts = shell.map_or_else(|| "a process".to_owned(), |shell| format!("`{shell}` and a process"));
    (!short.is_empty()).then(|| {
        let (letters, take) = (short.join(", "), if short.len() == 1 { "takes" } else { "take" });
        format!(
            "{letters} {take} less than 5 ms. Starting {starts} is part of that, and makes differences look smaller."
        )
    })
}

/// The path to the verdict.
fn method(comparison: &Comparison, results: &Results) -> String {
    let rules = &comparison.rules;
    format!(
        "{} of {} planned rounds, each with every command once in an order drawn from seed {}; the number was fixed before \
         the first of them. Times are geometric means with their {:.0} % intervals; p by Holm over {}, alpha {}; within \
         {} is no difference.",
        results.rounds,
        comparison.rounds_planned,
        rules.seed,
        (1.0 - rules.alpha) * 100.0,
        plural(results.pairs.len(), "pair"),
        rules.alpha,
        crate::number::share(rules.rope_ratio),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_and_its_half_width_have_one_unit_and_matching_digits() {
        let cells =
            |mean: f64, half: f64| time_cells(&Span { mean, interval: Some((mean - half, mean + half)) });
        let both = |mean, half| format!("{} {}", cells(mean, half).0, cells(mean, half).1);
        assert_eq!(both(0.412, 0.003), "412 ms +-3");
        assert_eq!(both(0.0612, 0.000_9), "61.2 ms +-0.9");
        assert_eq!(both(0.000_85, 0.000_012), "850 us +-12");
        assert_eq!(both(12.345, 0.021), "12.35 s +-0.03");
        assert_eq!(both(0.003_2, 0.000_7), "3.2 ms +-0.7");
        assert_eq!(both(0.001_234, 0.000_002), "1.234 ms +-0.002");
        // What is printed covers the interval: 3.1 ms +-0.3 would begin at 2.8.
        assert_eq!(both(0.003_06, 0.000_31), "3.1 ms +-0.4");
        // A wide interval is skewed; a mean minus its upper part would be below 0.
        let wide = |low, high| time_cells(&Span { mean: 0.003_2, interval: Some((low, high)) });
        assert_eq!(wide(0.002_2, 0.004_6), ("3.20 ms".to_owned(), "2.20 to 4.60 ms".to_owned()));
        assert_eq!(wide(0.000_8, 0.0151), ("3.20 ms".to_owned(), "0.800 to 15.1 ms".to_owned()));
        assert_eq!(wide(3e-7, 29.64), ("3.20 ms".to_owned(), "0.000 to 29640 ms".to_owned()));
        assert_eq!(time_cells(&Span { mean: 2.0, interval: None }), ("2.00 s".to_owned(), String::new()));
    }

    #[test]
    fn a_ratio_that_changes_during_the_comparison_is_told() {
        let told = |log_ratios: &[f64], pairs| {
            let rules = analysis::Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1 };
            let members = [analysis::Member::exact(Metric::Time, log_ratios)];
            let judged = analysis::judge(&members, rules).remove(0);
            let rounds_needed = Err(record::missing::Missing::because("not asked"));
            let (estimate, verdict) = (judged.estimate, judged.verdict);
            changing(&CommandPair { a: 1, b: 0, estimate, verdict, rounds_needed }, pairs)
        };
        let slower: Vec<f64> = (0..40).map(|i| 0.01 * f64::from(i)).collect();
        let expected = "ratio changes during the comparison (correlation of neighbors 0.95). The interval allows for that.";
        assert_eq!(told(&slower, 1), Some(format!("The {expected}")));
        assert_eq!(told(&slower, 2), Some(format!("B against A: the {expected}")));
        let steady: Vec<f64> = (0..40).map(|i| 0.01 * f64::from(i % 5)).collect();
        assert_eq!(told(&steady, 1), None);
        let few = [0.0, 0.1, 0.1, 0.0, 0.0, 0.1, 0.2, 0.2, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2];
        let said = told(&few, 1).expect("a remark");
        assert!(said.contains("may change") && said.contains("14 rounds do not show"), "{said}");
    }

    #[test]
    fn a_bound_of_memory_reads_as_one_and_instructions_have_a_scale() {
        assert_eq!(memory(Peak::Bytes(1.9e6)), "1.90 MB");
        assert_eq!(memory(Peak::AtMost(4.1e6)), "<=4.10 MB");
        assert_eq!(memory(Peak::AtMost(f64::INFINITY)), "-");
        assert_eq!(
            [2e3, 999_499.0, 1e6, 12.34e9].map(instructions),
            ["2.00 k instr", "999 k instr", "1.00 M instr", "12.3 G instr"]
        );
    }
}
