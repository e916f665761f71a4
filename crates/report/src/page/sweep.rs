//! The page of a sweep over buffer sizes.

use analysis::sweep::{Cell, Speed, Sweep, Versus};
use record::bakeoff::Bakeoff;
use record::run::RunState;

use super::disclosure::{disclosure, plan};
use super::{Block, Figure, Page, Section, Table, Tone, Words};
use crate::chart::{Cloud, Kind, Line, Lines, Point, cloud, lines, round_values};
use crate::claim::beside_others;
use crate::number::{bandwidth, change, change_interval, date_time, latency, span};
use crate::words::{cost_sentence, plural, shape_sentence, with_interval};

/// Maximum number of rows in a table of numbers. The archive has all sizes.
const ROWS_MAX: usize = 200;
/// Maximum number of points on the line of a figure.
const LINE_MAX: usize = 2_000;

/// Lays out the page.
pub fn sweep(bakeoff: &Bakeoff, sweep: &Sweep, versus: &[Versus]) -> Page {
    let header = &bakeoff.header;
    let (word, tone) = match header.state {
        RunState::Sealed => ("measured", Tone::Good),
        _ => (header.state.word(), Tone::Doubt),
    };
    let claim = sweep.cells.first().map_or_else(
        || "Only the start of programs was measured.".to_owned(),
        |cell| format!("{} of {}: {}.", cell.how, cell.data, cell.headline()),
    );
    let others = sweep.cells.iter().skip(1);
    let others = others.map(|c| format!("{} of {}: {}.", c.how, c.data, c.headline()));
    let first = sweep.cells.first().and_then(figure).map(Block::Figure);
    let mut sections: Vec<Section> = vec![cells(sweep), shifts(sweep)];
    if !versus.is_empty() {
        sections.insert(0, compared(versus));
    }
    Page {
        title: header.title.clone(),
        question: String::new(),
        standing: Words::toned(word, tone),
        claim,
        lead: first.into_iter().collect(),
        caveats: beside_others(bakeoff).into_iter().chain(others).collect(),
        byline: vec![
            format!("as of {}", date_time(header.anchor.unix_ns)),
            format!("run {}", header.id),
            format!("{}, each in an order of its own", plural(bakeoff.blocks as usize, "round")),
            format!("seed {}", bakeoff.seed),
        ],
        sections,
        folded: vec![
            method(bakeoff).folded("rounds, batches, the reference"),
            disclosure(header, &bakeoff.environment, Vec::new(), vec![plan(&bakeoff.plan_text)])
                .folded("the command that repeats it, the plan, the machine"),
        ],
    }
}

fn cells(sweep: &Sweep) -> Section {
    let mut blocks = Vec::new();
    for (i, cell) in sweep.cells.iter().enumerate() {
        // The first one leads the page.
        if i > 0 {
            blocks.extend(figure(cell).map(Block::Figure));
        } else if sweep.cells.len() > 1 {
            blocks.push(Block::Text(format!("{} of {}:", cell.how, cell.data)));
        }
        let mut said = Vec::new();
        said.extend(cell.cost.as_ref().map(cost_sentence).ok());
        said.extend(cell.shape.as_ref().map(shape_sentence).ok());
        said.extend(cell.speed.as_ref().ok().and_then(Speed::sentence));
        let score = |s: &record::missing::Maybe<f64>| {
            s.as_ref().map_or_else(|m| format!("unknown ({m})"), |s| format!("{s:.1}"))
        };
        said.push(format!(
            "of 100: smoothness of the curve {}, quietness of the machine {}",
            score(&cell.smoothness),
            score(&cell.quietness)
        ));
        if let Ok([time, size, halves]) = &cell.correlations {
            said.push(format!(
                "correlation of neighbours in time {time:.2}, of neighbours in size {size:.2}, of the two halves of the rounds {halves:.2}"
            ));
        }
        blocks.push(Block::List(said));
    }
    let starts: Vec<String> = sweep
        .starts
        .iter()
        .map(|(how, found)| {
            let text = found.as_ref().map_or_else(ToString::to_string, |e| with_interval(*e, latency));
            format!("{how}: starts dd and waits for its end in {text}")
        })
        .collect();
    if !starts.is_empty() {
        blocks.push(Block::List(starts));
    }
    Section { id: "curve", title: "Every buffer size", blocks }
}

fn figure(cell: &Cell) -> Option<Figure> {
    let last = cell.points.last()?;
    let mut data = Table::new(
        format!(
            "{} of {}: {} of {} sizes",
            cell.how,
            cell.data,
            cell.points.len().min(ROWS_MAX),
            cell.points.len()
        ),
        &["#bytes", "#bandwidth", "#a call", "#lowest round", "#highest round"],
    );
    for p in cell.points.iter().step_by(cell.points.len().div_ceil(ROWS_MAX).max(1)) {
        data.row(vec![
            p.size_bytes.to_string().into(),
            bandwidth(p.bytes_per_s()).into(),
            latency(p.call_ns).into(),
            latency(p.call_ns_range.0).into(),
            latency(p.call_ns_range.1).into(),
        ]);
    }
    let every = cell.points.len().div_ceil(LINE_MAX).max(1);
    let dots = cell.points.iter().map(|p| (p.size_bytes as f64, p.bytes_per_s()));
    let fit: Vec<(f64, f64)> = cell
        .points
        .iter()
        .filter(|p| p.fitted_ns.is_finite() && !p.size_bytes.is_multiple_of(64))
        .map(|p| (p.size_bytes as f64, p.size_bytes as f64 / p.fitted_ns * 1e9))
        .collect();
    let drawing = cloud(&Cloud {
        x_title: "bytes per call",
        y_title: "bytes per second",
        dots: dots.collect(),
        line: fit.into_iter().step_by(every).collect(),
        marks: cell.size_shifts.iter().map(|s| (s.between.1 as f64, change(s.ratio))).collect(),
        x_max: last.size_bytes as f64,
        y_label: bandwidth,
    });
    Some(Figure {
        title: format!("{} of {}", cell.how, cell.data),
        caption: "A dot is a size, the median of its rounds, each against the reference beside it; the line \
                  is the sum of three costs; a vertical line is a shift by size that both halves of the \
                  rounds have."
            .into(),
        description: "Bandwidth against buffer size; some of the numbers are in the table.".into(),
        drawing,
        data,
    })
}

fn shifts(sweep: &Sweep) -> Section {
    let mut multiples = Table::new(
        "Time of a call at multiples of a number, relative to the two neighbouring sizes",
        &[
            "call and data",
            "#multiples of",
            "#time of a call",
            "#95 % interval",
            "#multiples",
            "a separate effect",
        ],
    );
    let mut by_time =
        Table::new("Shifts by time", &["call and data", "#at", "#time of a call", "what else changed"]);
    let mut others = Vec::new();
    for cell in &sweep.cells {
        let name = format!("{} of {}", cell.how, cell.data);
        for m in &cell.multiples {
            let word = match (m.is_period, m.confirmed) {
                (true, true) => Words::toned("yes", Tone::Good),
                (true, false) => "unlike half of it".into(),
                (false, true) => "as half of it".into(),
                (false, false) => "no".into(),
            };
            multiples.row(vec![
                name.clone().into(),
                m.of_bytes.to_string().into(),
                change(m.ratio).into(),
                change_interval(m.low, m.high).into(),
                m.n.to_string().into(),
                word,
            ]);
        }
        for s in &cell.time_shifts {
            let cause = s.cause.clone().unwrap_or_else(|| "nothing that was observed".into());
            by_time.row(vec![name.clone().into(), span(s.at_s).into(), change(s.ratio).into(), cause.into()]);
        }
        for s in &cell.size_shifts {
            others.push(format!(
                "{name}: {} in time of a call between {} and {} bytes",
                change(s.ratio),
                s.between.0,
                s.between.1
            ));
        }
        for b in &cell.bands {
            others.push(format!(
                "{name}: a band repeats every {:.0} bytes, its strongest wave {:.1} % from mean to crest; its waves are {}",
                b.period_bytes,
                100.0 * b.amplitude(),
                b.waves.iter().map(|w| format!("{:.0} bytes", w.length)).collect::<Vec<_>>().join(", ")
            ));
        }
    }
    if others.is_empty() {
        others.push("No shift and no band by size that both halves of the rounds have.".to_owned());
    }
    let mut blocks = vec![Block::List(others)];
    if !multiples.rows.is_empty() {
        blocks.push(Block::Table(multiples));
    }
    if by_time.rows.is_empty() {
        blocks.push(Block::Text("No shift by time.".into()));
    } else {
        blocks.push(Block::Folded(by_time));
    }
    Section { id: "shifts", title: "Shifts, by size and by time", blocks }
}

fn compared(versus: &[Versus]) -> Section {
    let mut blocks = Vec::new();
    for v in versus {
        let name = format!("{} of {}", v.how, v.data);
        blocks.push(Block::Text(format!("{name}: {}.", v.verdict)));
        let Ok(places) = &v.places else { continue };
        let mut data = Table::new(
            format!("{name}: this run's time of a call over the other's"),
            &["#from", "#to", "#ratio", "#band"],
        );
        for p in places {
            data.row(vec![
                p.sizes.0.to_string().into(),
                p.sizes.1.to_string().into(),
                change(p.ratio).into(),
                change_interval(p.low, p.high).into(),
            ]);
        }
        let point = |p: &analysis::sweep::Place| Point {
            x: (p.sizes.0 as f64).midpoint(p.sizes.1 as f64),
            y: p.ratio,
            interval: Some((p.low, p.high)),
            dots: Vec::new(),
        };
        let last = places.last().map_or(1.0, |p| p.sizes.1 as f64);
        let drawing = lines(&Lines {
            x_title: "bytes per call",
            y_title: "time of a call over the other's",
            x_kind: Kind::Linear,
            y_kind: Kind::Log,
            x_range: Some((0.0, last)),
            x_ticks: round_values(0.0, last, 6).into_iter().map(|v| (v, format!("{v:.0}"))).collect(),
            y_label: change,
            series: vec![Line {
                name: "ratio".into(),
                points: places.iter().map(point).collect(),
                banded: true,
                joined: true,
                gaps: Vec::new(),
            }],
        });
        blocks.push(Block::Figure(Figure {
            title: format!("{name}, against the other run"),
            caption: "The band covers the whole curve with a confidence of 95 %.".into(),
            description: "Ratio of the times of a call against buffer size; the numbers are in the table."
                .into(),
            drawing,
            data,
        }));
    }
    Section { id: "compared", title: "Against the other run", blocks }
}

fn method(bakeoff: &Bakeoff) -> Section {
    let text = format!(
        "Every size is measured for {} in each of {}, in an order drawn anew for each, into one warm buffer; \
         a point is eight batches of calls, of which the third fastest counts. A reference size is measured \
         again and again between them, as the machine's clock: a size's value is its time against the \
         reference beside it. Shifts, bands and special multiples are reported only if both the odd and the \
         even rounds show them.",
        span(bakeoff.measure.as_secs_f64()),
        plural(bakeoff.blocks as usize, "round")
    );
    Section { id: "method", title: "Method", blocks: vec![Block::Text(text)] }
}
