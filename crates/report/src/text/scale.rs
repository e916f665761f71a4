//! A scale run at a terminal.

use std::io::{self, Write};

use analysis::scale::{Level, Scale, Versus};
use record::bakeoff::Bakeoff;
use record::missing::Maybe;

use super::table::{Align, Table};
use super::{Style, Tint, ending, paragraph, tinted};
use crate::claim::beside_others;
use crate::number::{outward, percent, percent_digits, significant, significant_4};
use crate::words::{cliff_sentence, law_sentence, plural};

/// Writes a table of the levels, the fitted laws, and what one copy alone would have suggested.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn scale(
    out: &mut dyn Write,
    bakeoff: &Bakeoff,
    scale: &Scale,
    versus: Option<&Versus>,
    name: Option<&str>,
    style: Style,
) -> io::Result<()> {
    writeln!(out, "{}  {}", bakeoff.header.id, tinted(&bakeoff.header.title, Tint::Strong, style))?;
    writeln!(out)?;
    table(scale).write(out, style)?;
    writeln!(out)?;
    if let Some(sentence) = beside_others(bakeoff) {
        paragraph(out, &sentence, 2, style)?;
    }
    for level in scale.levels.iter().filter(|l| !l.invalid.is_empty()) {
        let rounds = if level.invalid.len() == 1 { "a round" } else { "rounds" };
        let copies = if level.copies == 1 { "copy" } else { "copies" };
        let text = format!("INVALID: {rounds} of {} {copies}: {}", level.copies, level.invalid.join("; "));
        paragraph(out, &text, 2, style)?;
    }
    let mut valid = scale.levels.iter().filter(|level| !level.rounds.is_empty()).peekable();
    if valid.peek().is_some() && valid.all(|level| level.others_ratio.is_err()) {
        paragraph(out, "Other work may have slowed the copies: it was not monitored.", 2, style)?;
    }
    for caveat in &scale.caveats {
        paragraph(out, &capital(caveat), 2, style)?;
    }
    if let Some(cliff) = &scale.scaling.cliff {
        paragraph(out, &cliff_sentence(cliff, "copies"), 2, style)?;
    }
    for sentence in law_sentence(&scale.scaling, "copies") {
        paragraph(out, &sentence, 2, style)?;
    }
    match &scale.seduction {
        Ok(sentence) => paragraph(out, &capital(sentence), 2, style)?,
        Err(missing) => paragraph(out, &format!("The result for one copy is unknown: {missing}."), 2, style)?,
    }
    if let Some(versus) = versus {
        paragraph(out, &capital(&versus.sentence), 2, style)?;
    }
    ending::stored(out, name, "scale.html", style)?;
    ending::answer(out, &ending::of_experiment(bakeoff, &answer(scale)), style)
}

/// Work of the most copies against the work of one.
fn answer(scale: &Scale) -> String {
    let compared =
        scale.levels.iter().rev().find_map(|level| Some((level, *level.efficiency.as_ref().ok()?)));
    let Some((level, efficiency)) = compared else {
        let rounds = scale.levels.iter().map(|level| level.rounds.len()).sum();
        return format!(
            "{} measured; without a valid level of 1 copy there is no ratio",
            plural(rounds, "round")
        );
    };
    let ratio = efficiency * f64::from(level.copies);
    let (copies, efficiency) =
        (plural(level.copies as usize, "copy").replace("copys", "copies"), percent(efficiency));
    if ratio >= 2.0 {
        format!("{copies} did {}x the work of 1, an efficiency of {efficiency}", significant(ratio))
    } else {
        format!("{copies} did {} of the work of 1, an efficiency of {efficiency}", percent(ratio))
    }
}

fn table(scale: &Scale) -> Table {
    let mut table = Table::default()
        .column("copies", Align::Right, 0)
        .column("work/s", Align::Right, 0)
        .column("95 % interval", Align::Right, 3)
        .column("a copy/s", Align::Right, 2)
        .column("efficiency %", Align::Right, 0)
        .column("fairness %", Align::Right, 6)
        .column("CPU s a run", Align::Right, 4)
        .column("busy %", Align::Right, 1)
        .column("full CPUs", Align::Right, 5)
        .column("n", Align::Right, 7);
    for level in &scale.levels {
        table.row(row(level));
    }
    table
}

fn row(level: &Level) -> Vec<(String, Option<Tint>)> {
    let or_dash = |value: Maybe<String>| value.unwrap_or_else(|_| "-".to_owned());
    let percent = |value: &Maybe<f64>| or_dash(value.clone().map(percent_digits));
    let work = match &level.work_per_s {
        Ok((work, _)) => (significant_4(*work), None),
        Err(_) => ("INVALID".to_owned(), Some(Tint::Bad)),
    };
    let interval = level.work_per_s.clone().and_then(|(_, interval)| interval);
    let interval = interval.map(|ends| {
        let (low, high) = outward(ends, significant_4);
        format!("{low}..{high}")
    });
    vec![
        (level.copies.to_string(), None),
        work,
        (or_dash(interval), None),
        (or_dash(level.per_copy_per_s.clone().map(significant_4)), None),
        (percent(&level.efficiency), None),
        (percent(&level.fairness), None),
        (or_dash(level.cpu_s_per_run.clone().map(significant)), None),
        (percent(&level.busy_ratio), None),
        (or_dash(level.saturated.clone().map(|s| s.len().to_string())), None),
        (level.rounds.len().to_string(), None),
    ]
}

/// A sentence with a capital letter and a full stop.
fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
