//! The contents of the archive, one line per run.

use std::io::{self, Write};

use record::run::{RunHeader, RunState};

use super::table::{Align, Table};
use super::{Style, Tint};
use crate::number::date_time;

/// Writes runs and bake-offs in the order given. Names are never cut, so that they can be copied.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn runs_list<'a>(
    out: &mut dyn Write,
    headers: impl IntoIterator<Item = &'a RunHeader>,
    style: Style,
) -> io::Result<()> {
    let mut table = Table::default()
        .column("run", Align::Left, 0)
        .column("state", Align::Right, 0)
        .column("kind", Align::Right, 2)
        .column("started", Align::Right, 3)
        .column("labels", Align::Right, 4)
        .column("title", Align::Elastic, 1);
    let mut any = false;
    for header in headers {
        any = true;
        let labels: Vec<String> = header.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        table.row(vec![
            (header.id.to_string(), None),
            (header.state.word().to_owned(), Some(tint(header.state))),
            (header.kind.word().to_owned(), None),
            (date_time(header.anchor.unix_ns), None),
            (labels.join(","), None),
            (title(header), None),
        ]);
    }
    if any { table.write(out, style) } else { writeln!(out, "no runs") }
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
