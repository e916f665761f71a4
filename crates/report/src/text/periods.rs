//! Cycles at a terminal.

use std::io::{self, Write};

use analysis::cycles::{Clock, Cycle, Cycles, Window};

use super::table::{Align, Table};
use super::{Style, Tint, ending, labelled, paragraph};
use crate::number::{MULTIPLES_FROM, long_span, multiple_of, p_value, percent, share, significant, spread};
use crate::words::{by_the_clock, list, plural};

/// Cells of a file that need a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cells {
    /// Number without a value.
    pub missing: usize,
    /// Number in an hour that the local clock shows twice.
    pub in_repeated_hour: usize,
}

/// Writes the cycles, what the values cannot tell, and the answer as last line.
///
/// - `zone`: name of the time zone of the local times.
/// - `cells`: what the cells of the file lacked.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn periods(
    out: &mut dyn Write,
    (metric, zone): (&str, &str),
    (alpha, cells): (f64, Cells),
    found: &Cycles,
    style: Style,
) -> io::Result<()> {
    let steps = if found.even { "at even steps" } else { "at uneven steps" };
    let noise = match &found.background {
        Ok(background) => format!("; noise with a correlation of neighbors of {:.2}", background.ar1),
        Err(missing) => format!("; noise unknown: {missing}"),
    };
    let values = plural(found.n, "value");
    let text = format!("{metric}: {values} {steps} over {}{noise}.", long_span(found.span_s));
    paragraph(out, &text, 2, style)?;
    if cells.missing > 0 {
        let missing = plural(cells.missing, "cell");
        paragraph(out, &format!("{missing} of the file without a number: left out."), 2, style)?;
    }
    if cells.in_repeated_hour > 0 {
        let values = plural(cells.in_repeated_hour, "value");
        let text = format!(
            "{values} of the file in an hour that the clock shows twice: the order of the lines tells which."
        );
        paragraph(out, &text, 2, style)?;
    }
    if found.doubled > 0 {
        let same = format!("{} shared their time with another one, and were averaged.", found.doubled);
        paragraph(out, &same, 2, style)?;
    }
    if !found.cycles.is_empty() {
        table(&found.cycles, found.mean).write(out, style)?;
    }
    // Without cycles, the last line tells a reason that holds for any period.
    for period in found.cannot_tell.iter().filter(|c| c.period_s.is_ok() || !found.cycles.is_empty()) {
        // The reason names a usual period by its word.
        let named = period.why.starts_with("a ");
        let of = period.period_s.as_ref().ok().filter(|_| !named);
        let of = of.map_or(String::new(), |s| format!("{}: ", long_span(*s)));
        labelled(out, ("cannot tell ", Some(Tint::Doubt)), &format!("{of}{}", period.why), 13, style)?;
    }
    ending::answer(out, &answer(found, alpha, zone), style)
}

fn table(cycles: &[Cycle], mean: f64) -> Table {
    let mut table = Table::default()
        .column("period", Align::Left, 0)
        .column("p", Align::Right, 0)
        .column("size", Align::Right, 1)
        .column("of mean", Align::Right, 2)
        .column("of variance", Align::Right, 4)
        .column("harmonics", Align::Left, 3)
        .column("local time", Align::Left, 1);
    for cycle in cycles {
        let harmonics: Vec<String> = cycle.harmonics.iter().map(ToString::to_string).collect();
        table.row(vec![
            (long_span(cycle.period_s), Some(Tint::Strong)),
            (p_value(cycle.p), None),
            (size(cycle), None),
            (of_mean(cycle, mean).unwrap_or_else(|| "-".to_owned()), None),
            (percent(cycle.strength), None),
            (harmonics.join(" "), None),
            (
                by_the_clock(cycle)
                    .map_or(String::new(), |at| at + if cycle.is_universal { " UTC" } else { "" }),
                None,
            ),
        ]);
    }
    table
}

/// `+-5.2` of a sine, `+40.1` of a part of the cycle against the rest of it.
fn size(cycle: &Cycle) -> String {
    let signed =
        |w: &Window| format!("{}{}", if w.change > 0.0 { "+" } else { "-" }, significant(w.change.abs()));
    cycle.window.as_ref().map_or_else(|| format!("+-{}", significant(cycle.amplitude)), signed)
}

/// The same as a share of the mean, or of the rest of the cycle; from twice the rest on as a multiple of it.
fn of_mean(cycle: &Cycle, mean: f64) -> Option<String> {
    let Some(window) = &cycle.window else {
        let ratio = cycle.amplitude / mean.abs();
        return ratio.is_finite().then(|| format!("+-{}", spread(ratio)));
    };
    let ratio = window.change / window.rest.abs();
    let is_multiple = window.rest > 0.0 && ratio + 1.0 >= MULTIPLES_FROM;
    let signed = || format!("{}{}", if ratio > 0.0 { "+" } else { "-" }, spread(ratio.abs()));
    ratio.is_finite().then(|| if is_multiple { format!("{}x", multiple_of(ratio + 1.0)) } else { signed() })
}

fn answer(found: &Cycles, alpha: f64, zone: &str) -> String {
    if found.cycles.is_empty() {
        // A reason about the values themselves stands before one about long periods.
        let no_period = found.cannot_tell.iter().find(|c| c.period_s.is_err());
        if let Some(no_period) = no_period {
            return format!("cannot tell: {}", no_period.why);
        }
        let unknown: Vec<String> = found
            .cannot_tell
            .iter()
            .filter_map(|c| c.period_s.as_ref().ok())
            .map(|s| long_span(*s))
            .collect();
        let but = match unknown[..] {
            [] => String::new(),
            _ => format!("; cannot tell about {}", list(&unknown)),
        };
        return format!("no cycle at {}{but}", share(alpha));
    }
    let told = |cycle: &Cycle| {
        let name = match cycle.clock {
            Some(Clock::Day) => "a daily cycle".to_owned(),
            Some(Clock::Week) => "a weekly cycle".to_owned(),
            None => format!("a cycle of {}", long_span(cycle.period_s)),
        };
        let zone = if cycle.is_universal { "UTC" } else { zone };
        let local = by_the_clock(cycle).map_or(String::new(), |crest| format!(", {crest} ({zone})"));
        let Some(window) = &cycle.window else {
            let size = of_mean(cycle, found.mean).map_or(String::new(), |of| {
                let of_the = if of.ends_with('%') { "of the" } else { "the" };
                format!(", {of} {of_the} mean")
            });
            return format!("{name}{local}{size}");
        };
        let of = of_mean(cycle, found.mean).unwrap_or_else(|| size(cycle));
        let is_multiple = of.ends_with('x') && !of.starts_with(['+', '-']);
        let the_rest = if is_multiple { " the rest" } else { "" };
        let interval = window.interval.as_ref().map_or(String::new(), |(low, high)| {
            let part = |v: f64| v / window.rest.abs();
            if is_multiple {
                format!(" (95 %: {}x to {}x)", multiple_of(part(*low) + 1.0), multiple_of(part(*high) + 1.0))
            } else if window.rest.abs() > 0.0 {
                format!(
                    " (95 %: {} to {} %)",
                    significant(part(*low) * 100.0),
                    significant(part(*high) * 100.0)
                )
            } else {
                format!(" (95 %: {} to {})", significant(*low), significant(*high))
            }
        });
        let part = match cycle.clock {
            None if window.last_s > window.from_s => format!(" for {} of it", long_span(window.length_s)),
            None => " in one value of each".to_owned(),
            Some(_) => String::new(),
        };
        format!("{name}{local}, {of}{the_rest}{part}{interval}")
    };
    found.cycles.iter().map(told).collect::<Vec<_>>().join("; ")
}
