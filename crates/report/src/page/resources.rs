//! Resources of every cell beside its speed: locks, I/O, memory, energy, places of threads; and how the
//! warm-ups went.

use std::collections::{BTreeMap, BTreeSet};

use analysis::placement::{Shares, by_cell};
use analysis::{Cell, Comparisons};
use record::bakeoff::{Bakeoff, Levels, Metric, Trial};
use record::resources::Resource;
use record::warm_up::{Course, WarmUp};

use super::figures::cells as cell_figures;
use super::{Block, Section, Table, Tone, Words};
use crate::number::{metric_ends, metric_value, outward, percent, share, significant_4, span};
use crate::words::{capital, cell_mean, configuration, metric as metric_name, named, only};

/// Metrics of the section.
const METRICS: [Metric; 4] =
    [Metric::LockCpu, Metric::IoPerEvent, Metric::MemoryGrowth, Metric::EnergyPerEvent];

/// CPUs in a cell of a table.
const CPUS_SHOWN: usize = 8;

/// The section; `None` if no run counted any of these resources.
pub(super) fn section(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Option<Section> {
    let known: Vec<Metric> = METRICS.into_iter().filter(|m| is_known(comparisons, *m)).collect();
    let mut blocks: Vec<Block> = instances(bakeoff).into_iter().map(Block::Table).collect();
    blocks.extend(placement(bakeoff, comparisons).map(Block::Table));
    blocks.extend(scopes(bakeoff).into_iter().map(Block::Text));
    for metric in &known {
        blocks.push(Block::Table(table(comparisons, *metric)));
        blocks.extend(cell_figures(comparisons, bakeoff, *metric).into_iter().map(Block::Figure));
    }
    blocks.extend(memory(bakeoff, comparisons).map(Block::Table));
    let missing: Vec<String> = METRICS
        .into_iter()
        .filter(|m| !known.contains(m) && comparisons.left_out.iter().all(|out| out.metric != *m))
        .filter(|m| was_asked_for(bakeoff, *m))
        .filter_map(|m| Some(format!("{} is missing: {}.", capital(metric_name(m)), why(comparisons, m)?)))
        .collect();
    if !missing.is_empty() {
        blocks.push(Block::List(missing));
    }
    (!blocks.is_empty()).then_some(Section { id: "resources", title: "Resources", blocks })
}

fn is_known(comparisons: &Comparisons, metric: Metric) -> bool {
    comparisons.cells_of(metric).any(|cell| cell.summary.is_ok())
}

/// Whether the runs have a value, or a reason that it is missing, for the metric's resource.
fn was_asked_for(bakeoff: &Bakeoff, metric: Metric) -> bool {
    let resource = match metric {
        Metric::LockCpu => Resource::LockSpin,
        Metric::EnergyPerEvent => Resource::Energy,
        _ => return false,
    };
    bakeoff.sealed().any(|(_, run)| run.resources.contains_key(&resource))
}

fn why(comparisons: &Comparisons, metric: Metric) -> Option<String> {
    comparisons.cells_of(metric).find_map(|cell| Some(cell.summary.as_ref().err()?.reason.clone()))
}

/// Sentences about numbers that are not the server's own.
fn scopes(bakeoff: &Bakeoff) -> Vec<String> {
    let of_machine = |resource| {
        bakeoff.sealed().any(|(_, run)| analysis::resources::of_machine(run, resource) == Some(true))
    };
    let mut told = Vec::new();
    if of_machine(Resource::LockSpin) {
        told.push(
            "Time spun for kernel locks is that of the whole machine, the load generator included: the server has no \
             control group of version 2."
                .to_owned(),
        );
    }
    if of_machine(Resource::Energy) {
        told.push(
            "Energy is that of the whole machine, the load generator included: its counters cannot tell processes \
             apart."
                .to_owned(),
        );
    }
    told
}

fn table(comparisons: &Comparisons, metric: Metric) -> Table {
    let level = format!("#{} interval", share(1.0 - comparisons.rules.alpha));
    let conditions = comparisons.conditions.join(", ");
    let mut table = Table::new(
        format!("{}: mean over blocks", capital(metric_name(metric))),
        &["configuration", &conditions, "#mean", &level, "#blocks", "missing"],
    );
    for cell in comparisons.cells_of(metric) {
        table.row(row(cell, comparisons));
    }
    table
}

/// Table of the CPUs on which threads ran; `None` if no run read them.
fn placement(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Option<Table> {
    let conditions = comparisons.conditions.join(", ");
    let mut table = Table::new(
        "Where threads ran: shares of their CPU time, means over the runs",
        &["configuration", &conditions, "threads of the load", "#of them on one CPU", "server", "#runs"],
    );
    for of in by_cell(bakeoff) {
        table.row(vec![
            configuration(&only(&of.levels, &comparisons.compared)).into(),
            named(&only(&of.levels, &comparisons.conditions)).into(),
            shares(&of.client).into(),
            format!("{} of {}", of.on_one, of.threads).into(),
            shares(&of.server).into(),
            of.runs.to_string().into(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// `CPU 0: 61.2 %, CPU 1: 38.8 %`: the largest shares.
fn shares(of: &Shares) -> String {
    let mut all: Vec<(u32, f64)> = of.iter().map(|(cpu, share)| (*cpu, *share)).collect();
    all.sort_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(&y.0)));
    let told: Vec<String> =
        all.iter().take(CPUS_SHOWN).map(|(cpu, share)| format!("CPU {cpu}: {}", percent(*share))).collect();
    match all.len() {
        0 => "-".to_owned(),
        n if n > CPUS_SHOWN => format!("{}, {} more", told.join(", "), n - CPUS_SHOWN),
        _ => told.join(", "),
    }
}

/// Slopes of the server's memory, or the reason that a cell has none; `None` if no trial read it.
fn memory(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Option<Table> {
    let alpha = comparisons.rules.alpha;
    let conditions = comparisons.conditions.join(", ");
    let mut table = Table::new(
        "Growth of the server's memory: Theil-Sen slopes of the trials. A trial grew for certain if the 95 % interval of its \
         own slope, by block bootstrap, lies above 0",
        &[
            "configuration",
            &conditions,
            "#bytes per second",
            &format!("#{} interval over blocks", share(1.0 - alpha)),
            "#trials",
            "#grew for certain",
            "#shrank for certain",
            "missing",
        ],
    );
    for of in analysis::memory_trends::memory_trends(bakeoff, alpha) {
        let ends = |interval: &(f64, f64)| {
            let (low, high) = outward(*interval, significant_4);
            format!("{low} to {high}")
        };
        table.row(vec![
            configuration(&only(&of.levels, &comparisons.compared)).into(),
            named(&only(&of.levels, &comparisons.conditions)).into(),
            of.per_s.as_ref().map_or("-".to_owned(), |per_s| significant_4(*per_s)).into(),
            of.interval_per_s.as_ref().map_or("-".to_owned(), ends).into(),
            of.trials.to_string().into(),
            of.grew.to_string().into(),
            of.shrank.to_string().into(),
            of.per_s.as_ref().err().map_or(String::new(), |why| why.reason.clone()).into(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

fn row(cell: &Cell, comparisons: &Comparisons) -> Vec<Words> {
    let interval = cell.summary.as_ref().ok().and_then(|s| s.interval.as_ref().ok());
    let told = |ends: &(f64, f64)| {
        let (low, high) = metric_ends(cell.metric, *ends);
        format!("{low} to {high}")
    };
    let known = cell.values.iter().filter(|v| v.value.is_ok()).count();
    let missing = cell.values.iter().find_map(|v| Some(v.value.as_ref().err()?.reason.clone()));
    vec![
        configuration(&only(&cell.levels, &comparisons.compared)).into(),
        named(&only(&cell.levels, &comparisons.conditions)).into(),
        cell_mean(cell, known).unwrap_or_else(|| "-".to_owned()).into(),
        interval.map_or("-".to_owned(), told).into(),
        known.to_string().into(),
        missing.unwrap_or_default().into(),
    ]
}

/// Work of each instance of the server by cell, means over the sealed runs; `None` with one instance.
fn instances(bakeoff: &Bakeoff) -> Option<Table> {
    let mut cells: BTreeMap<(&Levels, usize), (Vec<f64>, f64)> = BTreeMap::new();
    for (trial, run) in bakeoff.sealed() {
        let Some(load) = &run.load else { continue };
        let all = load.hosts.iter().map(|host| host.done).sum::<u64>().max(1);
        for (number, host) in load.hosts.iter().enumerate() {
            let (rates, shares) = cells.entry((&trial.levels, number)).or_default();
            rates.push(host.done as f64 / load.measured.as_secs_f64());
            *shares += host.done as f64 / all as f64;
        }
    }
    let mut table = Table::new(
        "Each instance",
        &["cell", "#instance", "#done", "#share of all", "#least", "#most", "#runs"],
    );
    for ((levels, number), (rates, shares)) in cells {
        let rate = |v: f64| metric_value(Metric::Throughput, v);
        let runs = rates.len() as f64;
        table.row(vec![
            named(levels).into(),
            (number + 1).to_string().into(),
            rate(rates.iter().sum::<f64>() / runs).into(),
            percent(shares / runs).into(),
            rate(rates.iter().copied().fold(f64::INFINITY, f64::min)).into(),
            rate(rates.iter().copied().fold(0.0, f64::max)).into(),
            rates.len().to_string().into(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The table of warm-ups by cell; `None` if none was judged.
pub(super) fn warm_ups(bakeoff: &Bakeoff) -> Option<Table> {
    let mut cells: BTreeMap<&Levels, Vec<&WarmUp>> = BTreeMap::new();
    let trials: BTreeMap<u32, &Trial> = bakeoff.trials.iter().map(|t| (t.index, t)).collect();
    for attempt in &bakeoff.attempts {
        let trial = trials.get(&attempt.trial);
        let warm_up = attempt.run.as_ref().and_then(|run| run.warm_up.as_ref());
        if let (Some(trial), Some(warm_up)) = (trial, warm_up) {
            cells.entry(&trial.levels).or_default().push(warm_up);
        }
    }
    let mut table = Table::new("Warm-ups, judged", &["cell", "class", "#took", "evidence"]);
    for (levels, all) in cells {
        let courses: BTreeSet<Course> = all.iter().map(|w| w.course).collect();
        let count = |course: Course| {
            let n = all.iter().filter(|w| w.course == course).count();
            if courses.len() == 1 { course.word().to_owned() } else { format!("{n} {}", course.word()) }
        };
        let class = courses.iter().map(|c| count(*c)).collect::<Vec<_>>().join(", ");
        let class = if courses.len() == 1 { class } else { format!("inconsistent: {class}") };
        let worst = all.iter().max_by_key(|w| w.course).expect("a cell has warm-ups");
        let took = |most: fn(f64, f64) -> f64| all.iter().map(|w| w.took_s).reduce(most).unwrap_or(0.0);
        let (least, most) = (span(took(f64::min)), span(took(f64::max)));
        let evidence: Vec<String> =
            worst.metrics.iter().map(|m| format!("{}: {}", m.metric, m.evidence)).collect();
        let tone = match worst.course {
            Course::NoSteadyState => Tone::Bad,
            _ if courses.len() > 1 => Tone::Doubt,
            Course::Slowdown | Course::Cycles => Tone::Doubt,
            Course::Flat | Course::WarmUp => Tone::Even,
        };
        table.row(vec![
            named(levels).into(),
            Words::toned(class, tone),
            if least == most { least } else { format!("{least} to {most}") }.into(),
            evidence.join("; ").into(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}
