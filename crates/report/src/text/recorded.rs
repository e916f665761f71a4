//! A run without a load, at a terminal: the recorded series.

use std::io::{self, Write};

use record::run::{Run, RunState};

use super::table::{Align, Table};
use super::{Style, Tint, paragraph, tinted};
use crate::number::{count, date_time};
use crate::page::series_value;

/// Writes the title of a run, its validity, and its series with their means and extremes.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn recorded(out: &mut dyn Write, run: &Run, style: Style) -> io::Result<()> {
    let header = &run.header;
    paragraph(out, &format!("{}  {}", header.id, header.title), 2, style)?;
    let tint = if header.state == RunState::Sealed { Tint::Good } else { Tint::Bad };
    let state = tinted(header.state.word(), tint, style);
    let began = date_time(header.anchor.unix_ns);
    paragraph(out, &format!("{}, {state}, began {began}", header.kind.word()), 2, style)?;
    if let Some(reason) = &header.reason {
        paragraph(out, reason, 2, style)?;
    }
    writeln!(out)?;
    let mut table = Table::default()
        .column("series", Align::Elastic, 0)
        .column("values", Align::Right, 3)
        .column("mean", Align::Right, 0)
        .column("least", Align::Right, 2)
        .column("greatest", Align::Right, 1);
    let analysis::AllSeries { series: all, note } = analysis::series(run);
    let has_hosts = all.iter().any(|series| series.host != all[0].host);
    for series in &all {
        let value = |v: f64| (series_value(&series.name, v), None);
        let host = if has_hosts { series.host.as_str() } else { "" };
        let parts = [series.name.as_str(), series.labels.as_str(), host];
        let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        table.row(vec![
            (name, None),
            (count(series.points.len() as u64), None),
            value(series.mean),
            value(series.min),
            value(series.max),
        ]);
    }
    table.write(out, style)?;
    note.map_or(Ok(()), |note| paragraph(out, &note, 2, style))
}
