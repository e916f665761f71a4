//! A sweep over buffer sizes at a terminal, with a plot in characters.

use std::io::{self, Write};

use analysis::sweep::{Cell, Point, Sweep, Versus};
use record::bakeoff::Bakeoff;

use super::{Style, Tint, ending, labelled, paragraph, tinted};
use crate::claim::beside_others;
use crate::number::{bandwidth, latency, significant};
use crate::words::{cost_sentence, plural, shape_sentence, with_interval};

/// Writes the plot, the costs and the verdict for every call and data.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn sweep(
    out: &mut dyn Write,
    bakeoff: &Bakeoff,
    sweep: &Sweep,
    versus: &[Versus],
    name: Option<&str>,
    style: Style,
) -> io::Result<()> {
    writeln!(out, "{}  {}", bakeoff.header.id, tinted(&bakeoff.header.title, Tint::Strong, style))?;
    let fact = |name: &str| bakeoff.environment.fact(name);
    if let (Some(kind), Some(device)) = (fact("data.file_system"), fact("data.device")) {
        let direct = fact("data.direct").map_or(String::new(), |direct| format!("; direct: {direct}"));
        labelled(out, ("read from", None), &format!("{kind} on {device}{direct}"), 11, style)?;
    }
    if let Some(sentence) = beside_others(bakeoff) {
        paragraph(out, &sentence, 2, style)?;
    }
    for cell in &sweep.cells {
        writeln!(out)?;
        of_cell(out, cell, style)?;
    }
    for (how, found) in &sweep.starts {
        let text = found.as_ref().map_or_else(ToString::to_string, |e| with_interval(*e, latency));
        labelled(
            out,
            (how, Some(Tint::Strong)),
            &format!("starts dd and waits for its end in {text}"),
            13,
            style,
        )?;
    }
    for versus in versus {
        let name = format!("{} {}", versus.how, versus.data);
        paragraph(out, &format!("{name} against the other run: {}.", versus.verdict), 2, style)?;
    }
    ending::stored(out, name, "dder.html", style)?;
    ending::answer(out, &ending::of_experiment(bakeoff, &answer(sweep)), style)
}

/// The peak of the fastest curve, and the first finding there.
///
/// The highest single size is not the peak: among thousands of noisy sizes one is too fast by chance.
fn answer(sweep: &Sweep) -> String {
    let peaks = sweep.cells.iter().filter_map(|cell| cell.shape.as_ref().ok().map(|shape| (cell, shape)));
    let highest = peaks.max_by(|a, b| a.1.peak_bytes_per_s.value.total_cmp(&b.1.peak_bytes_per_s.value));
    if let Some((cell, shape)) = highest {
        let finding = cell.headline().replace("are below", "are above");
        let peak = with_interval(shape.peak_bytes_per_s, bandwidth);
        let at = format!("{:.0}", shape.peak_bytes.value);
        return format!("{} of {} reached {peak} at {at} bytes; {finding}", cell.how, cell.data);
    }
    match sweep.cells.iter().find(|cell| !cell.points.is_empty()) {
        Some(cell) => {
            format!("{} of {}: {}", cell.how, cell.data, cell.headline().replace("are below", "are above"))
        }
        None => "no size was measured".to_owned(),
    }
}

fn of_cell(out: &mut dyn Write, cell: &Cell, style: Style) -> io::Result<()> {
    let head = format!("{} of {}", cell.how, cell.data);
    let size = format!("{} in {}", plural(cell.points.len(), "size"), plural(cell.rounds as usize, "round"));
    writeln!(out, "{}  {size}", tinted(&head, Tint::Strong, style))?;
    plot(out, &cell.points, style)?;
    let mut line = |label: &str, text: &str| labelled(out, (label, Some(Tint::Quiet)), text, 11, style);
    match &cell.cost {
        Ok(cost) => line("a call", &cost_sentence(cost))?,
        Err(missing) => line("a call", &format!("unknown: {missing}"))?,
    }
    match &cell.shape {
        Ok(shape) => line("bandwidth", &shape_sentence(shape))?,
        Err(missing) => line("bandwidth", &format!("unknown: {missing}"))?,
    }
    let score = |s: &record::missing::Maybe<f64>| {
        s.as_ref().map_or_else(|_| "unknown".to_owned(), |s| format!("{s:.1}"))
    };
    let spread = cell
        .spread_ratio
        .as_ref()
        .map_or_else(|m| format!("unknown: {m}"), |s| format!("{} %", significant(100.0 * s)));
    line(
        "of 100",
        &format!(
            "smoothness of the curve {}, quietness of the machine {}; a size's rounds spread by {spread}",
            score(&cell.smoothness),
            score(&cell.quietness)
        ),
    )?;
    line("verdict", &format!("{}.", cell.verdict()))?;
    for shift in cell.time_shifts.iter().take(5) {
        // It changed at the same moment, perhaps by chance.
        let beside = shift.cause.as_ref().map_or_else(
            || "nothing else that was observed changed".to_owned(),
            |cause| format!("at the same time {cause}"),
        );
        line("", &format!("at {:.1} s calls took x {:.2}; {beside}", shift.at_s, shift.ratio))?;
    }
    if cell.time_shifts.len() > 5 {
        line("", &format!("and {} more", cell.time_shifts.len() - 5))?;
    }
    Ok(())
}

const ROWS: usize = 12;
/// Columns for the numbers beside the plot.
const AXIS: usize = 11;

/// Bandwidth over size, both axes linear; the mark of a column spans the values of all its sizes.
fn plot(out: &mut dyn Write, points: &[Point], style: Style) -> io::Result<()> {
    let columns = style.width.min(100).saturating_sub(AXIS + 1);
    let (Some(last), true) = (points.last(), columns >= 20) else { return Ok(()) };
    let highest = points.iter().map(Point::bytes_per_s).fold(0.0, f64::max);
    let size_max = last.size_bytes as f64;
    let place = |share: f64, n: usize| -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among n")]
        let at = (share * n as f64) as usize;
        at.min(n - 1)
    };
    let mut marks = vec![vec![0_u32; columns]; ROWS];
    for point in points {
        let column = place((point.size_bytes as f64 - 1.0) / size_max, columns);
        let row = ROWS - 1 - place(point.bytes_per_s() / highest, ROWS);
        marks[row][column] += 1;
    }
    for (i, row) in marks.iter().enumerate() {
        let label =
            if i % 4 == 0 { bandwidth(highest * (ROWS - i) as f64 / ROWS as f64) } else { String::new() };
        let busiest = |n: &u32| match n {
            0 => ' ',
            1..=2 => '.',
            3..=9 => 'o',
            _ => '#',
        };
        let line: String = row.iter().map(busiest).collect();
        writeln!(out, "{label:>AXIS$}|{}", line.trim_end())?;
    }
    writeln!(out, "{:>AXIS$}+{}", "", "-".repeat(columns))?;
    let end = format!("{} bytes", last.size_bytes);
    writeln!(out, "{:>AXIS$} 1{end:>width$}", "", width = columns - 1)
}
