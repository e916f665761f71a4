//! The contents of the archive, one line per run.

use std::io::{self, Write};

use record::load::LoadRecord;
use record::run::{RunHeader, RunKind, RunState};
use record::verdict::Validity;

use super::table::{Align, Table};
use super::{Style, Tint, latency_cell, paragraph};
use crate::json::achieved_per_s;
use crate::number::{date_time, rate};

/// A run or bake-off of the list.
#[derive(Debug)]
pub struct RunLine<'a> {
    /// Header of the run.
    pub header: &'a RunHeader,
    /// Name in the list: accepted wherever a run is named.
    pub name: String,
    /// The result of a load; `None` for other kinds, and if it cannot be read.
    pub load: Option<LoadRecord>,
}

/// Writes runs and bake-offs in the order given. Names are never cut, so that they can be copied.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn runs_list(out: &mut dyn Write, lines: &[RunLine<'_>], style: Style) -> io::Result<()> {
    let mut table = Table::default()
        .column("run", Align::Left, 0)
        .column("result", Align::Left, 0)
        .column("rate/s", Align::Right, 2)
        .column("p99", Align::Right, 1)
        .column("kind", Align::Right, 3)
        .column("started", Align::Right, 4)
        .column("labels", Align::Right, 5)
        .column("title", Align::Elastic, 1);
    for RunLine { header, name, load } in lines {
        let labels: Vec<String> = header.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        table.row(vec![
            (name.clone(), None),
            result(header, load.as_ref()),
            (
                load.as_ref().map_or_else(String::new, |load| {
                    achieved_per_s(load).map_or_else(|_| "-".to_owned(), rate)
                }),
                None,
            ),
            (load.as_ref().map_or_else(String::new, p99), None),
            (header.kind.word().to_owned(), None),
            (date_time(header.anchor.unix_ns), None),
            (labels.join(","), None),
            (title(header), None),
        ]);
    }
    if lines.is_empty() {
        return writeln!(out, "no runs");
    }
    table.write(out, style)?;
    if lines.iter().any(|line| line.load.as_ref().is_some_and(|load| load.response.is_err())) {
        paragraph(out, "* service time: a closed loop has no response time", 0, style)?;
    }
    let dropped = table.dropped(style.width);
    if !dropped.is_empty() {
        paragraph(out, &format!("left out, the terminal is too narrow: {}", dropped.join(", ")), 0, style)?;
    }
    Ok(())
}

/// The verdict of a load; of another kind, whether it is complete.
fn result(header: &RunHeader, load: Option<&LoadRecord>) -> (String, Option<Tint>) {
    let word = match header.state {
        _ if load.is_some_and(|load| load.verdict.state == Validity::Degraded) => {
            return (Validity::Degraded.word().to_owned(), Some(Tint::Doubt));
        }
        RunState::Sealed if header.kind == RunKind::Load => "valid",
        RunState::Sealed => "complete",
        RunState::Invalid => "INVALID",
        state => state.word(),
    };
    (word.to_owned(), Some(tint(header.state)))
}

/// p99 of the response; of a closed loop, of the service, with a mark.
fn p99(load: &LoadRecord) -> String {
    let (summary, mark) =
        load.response_summary().map_or_else(|_| (load.service_summary(), "*"), |summary| (summary, ""));
    summary.map_or_else(|| "-".to_owned(), |summary| latency_cell(&summary, "p99") + mark)
}

fn title(header: &RunHeader) -> String {
    match &header.reason {
        // The reason that a sealed run is incomplete must not be cut off.
        Some(reason) if header.state == RunState::Sealed => format!("{reason}: {}", header.title),
        Some(reason) => format!("{} ({reason})", header.title),
        None => header.title.clone(),
    }
}

fn tint(state: RunState) -> Tint {
    match state {
        RunState::Sealed => Tint::Good,
        RunState::Invalid | RunState::Failed => Tint::Bad,
        RunState::Running | RunState::Interrupted | RunState::Abandoned => Tint::Doubt,
    }
}
