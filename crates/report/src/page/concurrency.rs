//! How the throughput of a bake-off grows with the number of workers.

use analysis::Comparisons;
use analysis::concurrency::{Concurrency, Step, concurrency};
use record::bakeoff::{Bakeoff, Metric};

use super::figures::tick_rate;
use super::{Block, Figure, Folded, Section, Table, Words};
use crate::chart::{Kind, Line, Lines, Point, lines};
use crate::concurrency::{name, sentences};
use crate::names::Names;
use crate::number::{metric_ends, metric_value, percent, significant};
use crate::words::{capital, plural};

/// Configurations with a figure and a table.
const SHOWN: usize = 6;
/// Largest number of workers over the smallest, from which on the axis is logarithmic.
const LOG_FROM: f64 = 8.0;

/// The section; `None` for a bake-off without numbers of workers.
pub(super) fn folded(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Option<Folded> {
    let names = Names::of(comparisons);
    let all = concurrency(bakeoff, comparisons);
    let first = all.first()?;
    let mut blocks = vec![Block::Text(method(&first.factor))];
    for of in all.iter().take(SHOWN) {
        let name = name(of, &names);
        blocks.push(Block::Text(format!("{}. {}", capital(&name), sentences(of).join(" "))));
        blocks.push(Block::Figure(figure(of, &name)));
    }
    if all.len() > SHOWN {
        let more = plural(all.len() - SHOWN, "more configuration");
        blocks.push(Block::Text(format!("{more} are in the document of `runs show --json`.")));
    }
    let note = format!("throughput against {}: laws, and what limits it", first.factor);
    let section = Section { id: "scaling", title: "How it scales", blocks };
    Some(section.folded(note))
}

fn method(factor: &str) -> String {
    format!(
        "X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) is fitted to the logarithms of throughput at N {factor}; linear has \
         neither sigma nor kappa, Amdahl's law no kappa. A law and its intervals need six blocks that are valid at every N: one fit \
         for each block. A peak is named only if kappa is significantly over 0 and the peak lies within 1.5 times the largest N. If \
         the levels miss every curve by more than blocks differ, as with a sharp bend where the CPUs end, no law is chosen."
    )
}

fn table(of: &Concurrency, title: &str) -> Table {
    let mut table = Table::new(
        title,
        &[
            &format!("#{}", of.factor),
            "#throughput",
            "#interval",
            "#efficiency",
            "#CPU per event",
            "#CPUs busy",
            "#threads waiting",
            "#lock CPU",
            "#blocks",
        ],
    );
    for step in &of.steps {
        table.row(row(step));
    }
    table
}

fn row(step: &Step) -> Vec<Words> {
    let or_dash =
        |value: record::missing::Maybe<String>| -> Words { value.unwrap_or_else(|_| "-".to_owned()).into() };
    let interval = step.throughput.clone().and_then(|(_, interval)| interval);
    vec![
        step.workers.to_string().into(),
        or_dash(step.throughput.clone().map(|(x, _)| metric_value(Metric::Throughput, x))),
        or_dash(interval.map(|ends| {
            let (low, high) = metric_ends(Metric::Throughput, ends);
            format!("{} to {high}", low.trim_end_matches("/s"))
        })),
        or_dash(step.efficiency.clone().map(percent)),
        or_dash(step.cpu_per_event_s.clone().map(|s| metric_value(Metric::CpuPerEvent, s))),
        or_dash(step.busy_ratio.clone().map(percent)),
        or_dash(step.waiting.clone().map(significant)),
        or_dash(step.lock_cpu_ratio.clone().map(percent)),
        step.blocks.len().to_string().into(),
    ]
}

fn figure(of: &Concurrency, name: &str) -> Figure {
    let line = |name: &str, points: Vec<Point>, banded: bool| Line {
        name: name.into(),
        points,
        banded,
        joined: true,
        gaps: Vec::new(),
    };
    let point = |step: &Step| {
        let (y, interval) = step.throughput.clone().ok()?;
        let dots = step.blocks.iter().map(|(_, x)| *x).collect();
        Some(Point { x: step.workers, y, interval: interval.ok(), dots })
    };
    let mut series = vec![line("measured", of.steps.iter().filter_map(point).collect(), false)];
    if let Ok(chosen) = &of.scaling.chosen {
        let fitted = of.scaling.laws.iter().find(|f| f.law == *chosen).expect("it was fitted");
        let along = fitted.band.iter().map(|(n, band)| Point {
            x: *n,
            y: fitted.curve.at(*n),
            interval: *band,
            dots: Vec::new(),
        });
        series.push(line(chosen.word(), along.collect(), true));
    }
    let (low, high) = (of.steps[0].workers, of.steps[of.steps.len() - 1].workers);
    let title = format!("Throughput of {name} against {}", of.factor);
    Figure {
        caption:
            "Dots are blocks, bars intervals over blocks; the second line is the fitted law with its band."
                .into(),
        description: format!("Throughput against {}; the numbers are in the table.", of.factor),
        drawing: lines(&Lines {
            x_title: &of.factor,
            y_title: "events per second",
            x_kind: if high / low >= LOG_FROM { Kind::Log } else { Kind::Linear },
            y_kind: Kind::Linear,
            x_range: None,
            x_ticks: of.steps.iter().map(|step| (step.workers, step.workers.to_string())).collect(),
            y_label: tick_rate,
            series,
        }),
        data: table(of, &title),
        title,
    }
}
