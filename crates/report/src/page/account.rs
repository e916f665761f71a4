//! The account for a sceptic: what went wrong, the cost of observing, and the provenance of the numbers.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Comparisons;
use analysis::observing::ObservingCost;
use record::bakeoff::{Bakeoff, Trial, TrialState};
use record::run::Run;

use super::bakeoff::as_of_unix_ns;
use super::{Block, Section, Table, Tone, Words};
use crate::number::{change_interval_of, change_of, count, date_time, percent, share, significant, span};
use crate::text::cited;
use crate::words::{list, metric as metric_name, named};

/// The section of the attempts that are not in the comparison, and of what sealed runs suffered; `None` if
/// nothing went wrong.
pub(super) fn went_wrong(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Option<Section> {
    let mut table = Table::new(
        "Attempts that are not in the comparison",
        &["#trial", "#block", "cell", "ended", "reason", "run"],
    );
    let trials = by_index(bakeoff);
    for attempt in bakeoff.attempts.iter().filter(|a| a.state != TrialState::Sealed) {
        let tone = if attempt.state == TrialState::Abandoned { Tone::Doubt } else { Tone::Bad };
        let trial = trials.get(&attempt.trial);
        let ended = if attempt.state == TrialState::Invalid { "INVALID" } else { attempt.state.word() };
        table.row(vec![
            attempt.trial.to_string().into(),
            trial.map_or("-".to_owned(), |t| t.block.to_string()).into(),
            trial.map_or("-".to_owned(), |t| named(&t.levels)).into(),
            Words::toned(ended, tone),
            attempt.reason.clone().unwrap_or_else(|| "not said".to_owned()).into(),
            attempt.run.as_ref().map_or("-".to_owned(), |r| r.header.id.to_string()).into(),
        ]);
    }
    let mut blocks = Vec::new();
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table));
    }
    let sealed: BTreeSet<u32> = bakeoff.sealed().map(|(trial, _)| trial.index).collect();
    let is_open = |t: &&Trial| !sealed.contains(&t.index) && !comparisons.is_dropped(t);
    let open: Vec<&Trial> = bakeoff.trials.iter().filter(is_open).collect();
    if !open.is_empty() {
        let cells: Vec<String> =
            open.iter().map(|t| format!("block {}: {}", t.block, named(&t.levels))).collect();
        blocks.push(Block::Text("These cells have no sealed run:".into()));
        blocks.push(Block::List(cells));
    }
    let split = split_series(bakeoff);
    if !split.is_empty() {
        blocks.push(Block::Text(
            "The sealed runs of these series do not all come from the same server and data:".into(),
        ));
        blocks.push(Block::List(split));
    }
    let seen: Vec<String> = bakeoff.sealed().filter_map(|(trial, run)| blemish(trial, run)).collect();
    if !seen.is_empty() {
        blocks.push(Block::Text("Disturbances in sealed runs, within the limits of a valid run:".into()));
        blocks.push(Block::List(seen));
    }
    (!blocks.is_empty()).then_some(Section { id: "went-wrong", title: "What went wrong", blocks })
}

/// Series with sealed runs from several set-ups, because a resume repeated only the open trials.
///
/// Within one set-up, the trials of a series follow the drawn order. A step back in that order means a fresh
/// set-up.
fn split_series(bakeoff: &Bakeoff) -> Vec<String> {
    // By series: its block, the last trial tried, the number of set-ups, and the set-ups that have a sealed
    // run.
    let mut told: BTreeMap<u32, (u32, u32, u32, BTreeSet<u32>)> = BTreeMap::new();
    let trials = by_index(bakeoff);
    for attempt in &bakeoff.attempts {
        let Some(trial) = trials.get(&attempt.trial) else { continue };
        let (_, last, setups, sealed) =
            told.entry(trial.series).or_insert_with(|| (trial.block, u32::MAX, 0, BTreeSet::new()));
        if trial.index <= *last {
            *setups += 1;
        }
        *last = trial.index;
        if attempt.state == TrialState::Sealed {
            sealed.insert(*setups);
        }
    }
    told.iter()
        .filter(|(_, (.., sealed))| sealed.len() > 1)
        .map(|(series, (block, .., sealed))| {
            format!("block {block}, series {series}: set up {} times", sealed.len())
        })
        .collect()
}

fn by_index(bakeoff: &Bakeoff) -> BTreeMap<u32, &Trial> {
    bakeoff.trials.iter().map(|trial| (trial.index, trial)).collect()
}

/// Problems of a sealed run that a reader should know.
fn blemish(trial: &Trial, run: &Run) -> Option<String> {
    let load = run.load.as_ref()?;
    let told: Vec<String> = [
        (load.counts.failed, "failed"),
        (load.counts.skipped, "skipped"),
        (load.counts.unfinished, "unfinished"),
    ]
    .iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{} events {what}", count(*n)))
    .chain(load.outages.iter().map(|o| format!("an outage of {}", span(o.for_s))))
    .chain(cpu_blemish(run).map(str::to_owned))
    .collect();
    (!told.is_empty()).then(|| format!("block {}, {}: {}", trial.block, named(&trial.levels), list(&told)))
}

fn cpu_blemish(run: &Run) -> Option<&'static str> {
    if run.cpu.iter().any(|interval| interval.events_lost().next().is_some()) {
        return Some("events of the CPU probe lost");
    }
    let is_hidden = run.cpu.iter().any(|interval| interval.switches_unseen() > 0);
    is_hidden.then_some("context switches hidden from the CPU probe")
}

/// The section on the cost of the instruments and of the generator.
pub(super) fn observing(bakeoff: &Bakeoff) -> Section {
    let mut rungs: Vec<&str> =
        bakeoff.sealed().flat_map(|(_, run)| &run.cpu).map(|interval| interval.rung.word()).collect();
    rungs.sort_unstable();
    rungs.dedup();
    let watched = if rungs.is_empty() {
        "The CPUs were not measured.".to_owned()
    } else {
        format!("The CPUs were measured by: {}.", rungs.join(", "))
    };
    let clients: Vec<f64> = bakeoff
        .sealed()
        .filter_map(|(_, run)| run.load.as_ref()?.client.as_ref().ok())
        .map(|c| c.user_us_per_event + c.system_us_per_event)
        .collect();
    let generator = match (clients.iter().copied().reduce(f64::min), clients.iter().copied().reduce(f64::max))
    {
        (Some(low), Some(high)) => format!(
            "The load generator's own process used {} to {} us of CPU per event, on the same machine; for an embedded \
             database that includes the database.",
            significant(low),
            significant(high)
        ),
        _ => "The load generator's own CPU use is unknown.".to_owned(),
    };
    let costs = analysis::observing::costs(bakeoff);
    let mut blocks = if costs.is_empty() {
        vec![Block::Text(format!(
            "{watched} The cost of observing was not measured: the plan has no control arm."
        ))]
    } else {
        vec![Block::Text(watched), Block::Table(observing_costs(&costs, bakeoff.judge.alpha))]
    };
    blocks.extend([Block::Text(generator), Block::List(cited(&bakeoff.environment.calibration))]);
    Section { id: "observing", title: "Cost of observing", blocks }
}

/// Blocks with instruments against blocks without.
fn observing_costs(costs: &[ObservingCost], alpha: f64) -> Table {
    let level = format!("#{} interval", share(1.0 - alpha));
    let mut table = Table::new(
        "With instruments against without: the control arm",
        &["metric", "#change", &level, "#pairs of blocks", "missing"],
    );
    for cost in costs {
        let missing = cost.ratio.as_ref().err().or(cost.interval.as_ref().err());
        table.row(vec![
            metric_name(cost.metric).into(),
            cost.ratio.as_ref().map_or("-".to_owned(), |r| change_of(cost.metric, *r)).into(),
            cost.interval
                .as_ref()
                .map_or("-".to_owned(), |(low, high)| change_interval_of(cost.metric, *low, *high))
                .into(),
            cost.pairs.to_string().into(),
            missing.map_or(String::new(), |m| m.reason.clone()).into(),
        ]);
    }
    table
}

/// The section of dates, versions, checksums, and the command that repeats the run.
pub(super) fn statement(bakeoff: &Bakeoff) -> Section {
    let mut facts = Table::new("Disclosure", &["what", "value"]);
    let mut versions: Vec<&str> = bakeoff.sealed().map(|(_, r)| r.header.tool_version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut servers: Vec<&str> =
        bakeoff.sealed().filter_map(|(_, r)| r.load.as_ref()?.server_version.as_deref().ok()).collect();
    servers.sort_unstable();
    servers.dedup();
    let rows = [
        ("results as of", date_time(as_of_unix_ns(bakeoff))),
        ("bake-off", bakeoff.header.id.to_string()),
        ("started", date_time(bakeoff.header.anchor.unix_ns)),
        ("measured by", format!("bakeoff {}", versions.join(", "))),
        ("page written by", format!("bakeoff {}", env!("CARGO_PKG_VERSION"))),
        ("server", if servers.is_empty() { "did not report it".to_owned() } else { servers.join(", ") }),
        ("plan, SHA-256", bakeoff.plan_sha256.clone()),
        ("seed", bakeoff.seed.to_string()),
        ("command that repeats it", bakeoff.header.command.clone()),
        ("machine busy, mean of sealed runs", machine_busy(bakeoff)),
    ];
    for (name, value) in rows {
        facts.row(vec![name.into(), value.into()]);
    }
    let mut runs = Table::new("Sealed runs", &["#trial", "#block", "cell", "run", "started"]);
    for (trial, run) in bakeoff.sealed() {
        runs.row(vec![
            trial.index.to_string().into(),
            trial.block.to_string().into(),
            named(&trial.levels).into(),
            run.header.id.to_string().into(),
            date_time(run.header.anchor.unix_ns).into(),
        ]);
    }
    let blocks = vec![
        Block::Table(facts),
        Block::Folded(runs),
        Block::Code { title: "The plan".into(), text: bakeoff.plan_text.clone() },
        Block::Text(
            "Every run is in the archive with its distributions: bakeoff runs show RUN. The method in words: \
             docs/statistics.md; every word on this page: docs/glossary.md."
                .into(),
        ),
    ];
    Section { id: "disclosure", title: "Disclosure statement", blocks }
}

fn machine_busy(bakeoff: &Bakeoff) -> String {
    let busy: Vec<f64> = bakeoff
        .sealed()
        .filter_map(|(_, run)| analysis::machine(run.load.as_ref()?, &run.cpu).busy_ratio.ok())
        .collect();
    if busy.is_empty() { "unknown".to_owned() } else { percent(busy.iter().sum::<f64>() / busy.len() as f64) }
}
