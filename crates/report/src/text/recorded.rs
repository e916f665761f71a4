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
    for series in analysis::series(&run.series) {
        let value = |v: f64| (series_value(&series.name, v), None);
        let name = if series.labels.is_empty() {
            series.name.clone()
        } else {
            format!("{} {}", series.name, series.labels)
        };
        table.row(vec![
            (name, None),
            (count(series.points.len() as u64), None),
            value(series.mean),
            value(series.min),
            value(series.max),
        ]);
    }
    table.write(out, style)
}
