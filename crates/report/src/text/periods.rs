//! Cycles at a terminal.

use std::io::{self, Write};

use analysis::cycles::{Clock, Cycle, Cycles, Window};

use super::table::{Align, Table};
use super::{Style, Tint, ending, labelled, paragraph};
use crate::number::{long_span, p_value, percent, share, significant};
use crate::words::{by_the_clock, list, plural};

/// Writes the cycles, what the values cannot tell, and the answer as last line.
///
/// - `zone`: name of the time zone of the local times.
/// - `missing`: cells of the file without a value.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn periods(
    out: &mut dyn Write,
    (metric, zone): (&str, &str),
    (alpha, missing): (f64, usize),
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
    if missing > 0 {
        let cells = plural(missing, "cell");
        paragraph(out, &format!("{cells} of the file without a number: left out."), 2, style)?;
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
            (by_the_clock(cycle).unwrap_or_default(), None),
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

/// The same as a share of the mean, or of the rest of the cycle.
fn of_mean(cycle: &Cycle, mean: f64) -> Option<String> {
    let Some(window) = &cycle.window else {
        let ratio = cycle.amplitude / mean.abs();
        return ratio.is_finite().then(|| format!("+-{}", percent(ratio)));
    };
    let ratio = window.change.abs() / window.rest.abs();
    ratio.is_finite().then(|| format!("{}{}", if window.change > 0.0 { "+" } else { "-" }, percent(ratio)))
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
        let local = by_the_clock(cycle).map_or(String::new(), |crest| format!(", {crest} ({zone})"));
        let Some(window) = &cycle.window else {
            let size = of_mean(cycle, found.mean).map_or(String::new(), |of| format!(", {of} of the mean"));
            return format!("{name}{local}{size}");
        };
        let of = of_mean(cycle, found.mean).unwrap_or_else(|| size(cycle));
        let interval = window.interval.as_ref().map_or(String::new(), |(low, high)| {
            let part = |v: f64| significant(v / window.rest.abs() * 100.0);
            if window.rest.abs() > 0.0 {
                format!(" (95 %: {} to {} %)", part(*low), part(*high))
            } else {
                format!(" (95 %: {} to {})", significant(*low), significant(*high))
            }
        });
        let part = match cycle.clock {
            None if window.length_s > 0.0 => format!(" for {} of it", long_span(window.length_s)),
            None => " in one value of each".to_owned(),
            Some(_) => String::new(),
        };
        format!("{name}{local}, {of}{part}{interval}")
    };
    found.cycles.iter().map(told).collect::<Vec<_>>().join("; ")
}
