//! The page of a bake-off: the claim first, then everything that a sceptic needs, in the order of the printed form.

use std::collections::{BTreeMap, BTreeSet};

use analysis::{Comparisons, Pair, Verdict};
use record::bakeoff::{Bakeoff, Levels, Metric, Plot, Trial, TrialState};
use record::load::{LoadSettings, Rate, Workload};
use record::run::Run;

use super::figures::{against_reference, cells, configurations, spectra};
use super::{Block, Page, Section, Table, Tone, Words};
use crate::claim::{Claim, Standing, claim};
use crate::number::{
    change, change_interval, count, date_time, metric_value, p_value, percent, share, significant, span,
};
use crate::words::{configuration, list, metric as metric_name, named, only, plural, sense};

/// Lays out the page.
pub(crate) fn bakeoff(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Page {
    let claim = claim(bakeoff, comparisons);
    let sections = vec![
        significance(comparisons, &claim),
        landscape(bakeoff, comparisons),
        charts(bakeoff, comparisons),
        configuration_summary(bakeoff, comparisons),
        benchmark(bakeoff),
        method(bakeoff, comparisons),
        key_points(bakeoff),
        went_wrong(bakeoff),
        observing(bakeoff),
        see_also(),
        disclosure(bakeoff),
    ];
    Page {
        title: bakeoff.header.title.clone(),
        question: bakeoff.question.clone(),
        standing: standing(claim.standing),
        claim: claim.headline.clone(),
        caveats: claim.caveats.clone(),
        byline: byline(bakeoff, comparisons),
        sections,
    }
}

fn standing(standing: Standing) -> Words {
    let tone = match standing {
        Standing::Invalid => Tone::Bad,
        Standing::Unfinished | Standing::Exploratory => Tone::Doubt,
        Standing::Difference => Tone::Good,
        Standing::NotCompared | Standing::Equivalent | Standing::NothingFound => Tone::Even,
    };
    Words::toned(standing.word(), tone)
}

fn byline(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Vec<String> {
    let sealed = bakeoff.sealed().count();
    let mut byline = vec![
        format!("as of {}", date_time(as_of_unix_ns(bakeoff))),
        format!("{sealed} of {} cells sealed", bakeoff.trials.len()),
        plural(bakeoff.blocks as usize, "block"),
        format!("in brackets: {} intervals", share(1.0 - comparisons.rules.alpha)),
    ];
    byline.extend(bakeoff.page.sponsor.iter().map(|s| format!("sponsor: {s}")));
    byline.extend(bakeoff.page.tuning.iter().map(|t| format!("tuning: {t}")));
    byline
}

/// When the last run started that the page rests on.
fn as_of_unix_ns(bakeoff: &Bakeoff) -> u64 {
    let last = bakeoff.sealed().map(|(_, run)| run.header.anchor.unix_ns).max();
    last.unwrap_or(bakeoff.header.anchor.unix_ns)
}

fn significance(comparisons: &Comparisons, claim: &Claim) -> Section {
    let mut blocks = Vec::new();
    if !claim.findings.is_empty() {
        blocks.push(Block::List(claim.findings.iter().map(|f| f.text.clone()).collect()));
    }
    let mut metrics: Vec<Metric> = Vec::new();
    for pair in &comparisons.pairs {
        if !metrics.contains(&pair.metric) {
            metrics.push(pair.metric);
        }
    }
    blocks.extend(metrics.into_iter().map(|m| Block::Table(verdicts(comparisons, m))));
    if blocks.is_empty() {
        blocks.push(Block::Text("The plan names no reference, so nothing was compared.".into()));
    }
    Section { id: "significance", title: "Significance of results", blocks }
}

fn verdicts(comparisons: &Comparisons, metric: Metric) -> Table {
    let level = share(1.0 - comparisons.rules.alpha);
    let caption = format!(
        "{} against {}: {}",
        metric_name(metric),
        configuration(&comparisons.reference),
        sense(metric)
    );
    let conditions = comparisons.conditions.join(", ");
    let interval = format!("#{level} interval");
    let mut table = Table::new(
        caption,
        &[
            "configuration",
            &conditions,
            "verdict",
            "#change",
            &interval,
            "#deciding interval",
            "#p",
            "#p (Holm)",
            "#p (sign flip)",
            "#Hodges-Lehmann",
            "#blocks",
            "#blocks needed",
        ],
    );
    for pair in comparisons.pairs.iter().filter(|p| p.metric == metric) {
        table.row(verdict_row(pair));
    }
    table
}

fn verdict_row(pair: &Pair) -> Vec<Words> {
    let told = |of: &dyn Fn(&analysis::Estimate) -> String| -> Words {
        pair.estimate.as_ref().map_or("-".to_owned(), of).into()
    };
    vec![
        configuration(&pair.a).into(),
        pair.levels.values().cloned().collect::<Vec<_>>().join(", ").into(),
        verdict_words(pair.verdict),
        told(&|e| change(e.ratio)),
        told(&|e| change_interval(e.low, e.high)),
        told(&|e| match pair.verdict {
            Verdict::Equivalent => change_interval(e.low_equivalence, e.high_equivalence),
            _ => change_interval(e.low_adjusted, e.high_adjusted),
        }),
        told(&|e| p_value(e.p)),
        told(&|e| p_value(e.p_adjusted)),
        told(&|e| format!("{}{}", p_value(e.sign_flip.p), if e.sign_flip.exact { "" } else { " (drawn)" })),
        told(&|e| change(e.hodges_lehmann)),
        pair.n().to_string().into(),
        pair.blocks_needed.as_ref().map_or("-".to_owned(), u32::to_string).into(),
    ]
}

fn verdict_words(verdict: Verdict) -> Words {
    let tone = match verdict {
        Verdict::Better => Tone::Good,
        Verdict::Worse => Tone::Bad,
        Verdict::Equivalent => Tone::Even,
        Verdict::Inconclusive => Tone::Doubt,
    };
    Words::toned(verdict.word(), tone)
}

fn landscape(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Section {
    let level = share(1.0 - comparisons.rules.alpha);
    let mut heads: Vec<String> = comparisons.conditions.clone();
    heads.extend([
        "configuration".to_owned(),
        "#throughput".to_owned(),
        format!("#{level} interval"),
        "#per CPU".to_owned(),
        "#p99".to_owned(),
        format!("#{level} interval"),
        "#CPU per event".to_owned(),
        "#blocks".to_owned(),
    ]);
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("Every cell: geometric mean over its blocks", &heads);
    let cpus: Option<f64> = bakeoff.environment.fact("cpu.count").and_then(|c| c.parse().ok());
    let cells: Vec<Levels> = comparisons.cells_of(Metric::Throughput).map(|c| c.levels.clone()).collect();
    for levels in by_condition(cells, comparisons) {
        table.row(landscape_row(&levels, comparisons, cpus));
    }
    let tuning = bakeoff.page.tuning.as_ref().map(|t| format!(" Tuning: {t}.")).unwrap_or_default();
    let system = format!("System: {}.{tuning}", system(bakeoff));
    Section {
        id: "landscape",
        title: "Performance landscape",
        blocks: vec![Block::Text(system), Block::Table(table)],
    }
}

/// Configurations of one condition under each other, the conditions in the plan's order.
fn by_condition(cells: Vec<Levels>, comparisons: &Comparisons) -> Vec<Levels> {
    let mut conditions: Vec<Levels> = Vec::new();
    for levels in &cells {
        let condition = only(levels, &comparisons.conditions);
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
    let mut cells = cells;
    cells.sort_by_key(|levels| {
        let condition = only(levels, &comparisons.conditions);
        conditions.iter().position(|c| *c == condition)
    });
    cells
}

fn landscape_row(levels: &Levels, comparisons: &Comparisons, cpus: Option<f64>) -> Vec<Words> {
    let cell = |metric: Metric| comparisons.cells_of(metric).find(|c| c.levels == *levels);
    let summary = |metric: Metric| cell(metric).and_then(|c| c.summary.as_ref().ok());
    let mean = |metric: Metric| -> Words {
        summary(metric).map_or("-".to_owned(), |s| metric_value(metric, s.mean)).into()
    };
    let interval = |metric: Metric| -> Words {
        let ends = summary(metric).and_then(|s| s.interval.as_ref().ok());
        let told = |(low, high): &(f64, f64)| {
            let low = metric_value(metric, *low);
            format!("{} to {}", low.trim_end_matches("/s"), metric_value(metric, *high))
        };
        ends.map_or("-".to_owned(), told).into()
    };
    let per_cpu = summary(Metric::Throughput).zip(cpus).filter(|(_, n)| *n > 0.0);
    let blocks = summary(Metric::Throughput).map_or(0, |s| s.n);
    let mut row: Vec<Words> =
        comparisons.conditions.iter().map(|f| levels.get(f).cloned().unwrap_or_default().into()).collect();
    row.extend([
        configuration(&only(levels, &comparisons.compared)).into(),
        mean(Metric::Throughput),
        interval(Metric::Throughput),
        per_cpu.map_or("-".to_owned(), |(s, n)| metric_value(Metric::Throughput, s.mean / n)).into(),
        mean(Metric::P99),
        interval(Metric::P99),
        mean(Metric::CpuPerEvent),
        blocks.to_string().into(),
    ]);
    row
}

/// `Example CPU 3.0 GHz, 2 CPUs, 7.75 GiB, Debian GNU/Linux 12, kernel 6.1.0`.
fn system(bakeoff: &Bakeoff) -> String {
    let fact = |name: &str| bakeoff.environment.fact(name).map(str::to_owned);
    let memory = fact("memory.bytes").and_then(|b| b.parse::<f64>().ok());
    let parts: Vec<String> = [
        fact("cpu.model"),
        fact("cpu.count").map(|n| format!("{n} CPUs")),
        memory.map(|b| format!("{} GiB of memory", significant(b / 1_073_741_824.0))),
        fact("os.name"),
        fact("kernel.release").map(|k| format!("Linux {k}")),
        fact("virtualization").map(|v| format!("virtualization: {v}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { "unknown".to_owned() } else { parts.join(", ") }
}

fn charts(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Section {
    let mut blocks = Vec::new();
    let mut judged: Vec<Metric> = comparisons.pairs.iter().map(|p| p.metric).collect();
    judged.sort_unstable();
    judged.dedup();
    blocks.extend(cells(comparisons, bakeoff, Metric::Throughput).into_iter().map(Block::Figure));
    blocks.extend(judged.iter().filter_map(|m| against_reference(comparisons, *m)).map(Block::Figure));
    let cpu = cells(comparisons, bakeoff, Metric::CpuPerEvent);
    if cpu.is_empty() {
        let why = comparisons
            .cells_of(Metric::CpuPerEvent)
            .find_map(|c| c.summary.as_ref().err())
            .map_or("no cell has a value".to_owned(), |m| m.reason.clone());
        blocks.push(Block::Text(format!("CPU per event is not drawn: {why}.")));
    }
    blocks.extend(cpu.into_iter().map(Block::Figure));
    let (spectra, left_out) = spectra(bakeoff, comparisons);
    blocks.extend(spectra.into_iter().map(Block::Figure));
    if left_out > 0 {
        blocks.push(Block::Text(format!(
            "The percentile spectra of {left_out} further conditions are not drawn."
        )));
    }
    Section { id: "charts", title: "Charts", blocks }
}

fn configuration_summary(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Section {
    let mut facts = Table::new("The machine", &["fact", "value"]);
    for (name, value) in &bakeoff.environment.facts {
        let value: Words = match value {
            Ok(value) => value.clone().into(),
            Err(missing) => Words::toned(format!("unknown: {missing}"), Tone::Doubt),
        };
        facts.row(vec![name.clone().into(), value]);
    }
    let blocks = vec![
        Block::Table(differences(bakeoff, comparisons)),
        Block::Table(settings_table(bakeoff)),
        Block::Folded(facts),
    ];
    Section { id: "configuration", title: "Results and configuration summary", blocks }
}

/// What is not the same in all configurations: by design, and as found in the runs.
fn differences(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Table {
    let configurations = configurations(comparisons);
    let names: Vec<String> = configurations.iter().map(configuration).collect();
    let heads: Vec<&str> = std::iter::once("what").chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new("What differs between the configurations", &heads);
    let found: Vec<BTreeMap<String, String>> =
        configurations.iter().map(|a| properties(bakeoff, comparisons, a)).collect();
    let mut keys: Vec<&String> = found.iter().flat_map(BTreeMap::keys).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let values: Vec<Option<&String>> = found.iter().map(|f| f.get(key)).collect();
        if values.windows(2).any(|w| w[0] != w[1]) {
            let cells = values.into_iter().map(|v| v.cloned().unwrap_or_else(|| "-".to_owned()).into());
            table.row(std::iter::once(key.clone().into()).chain(cells).collect());
        }
    }
    table
}

/// Everything that is known of a configuration's sealed runs: all values that occurred, where there are several.
fn properties(bakeoff: &Bakeoff, comparisons: &Comparisons, a: &Levels) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut note = |key: String, value: String| {
        let values = found.entry(key).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    };
    for (name, value) in a {
        note(format!("factor {name}"), value.clone());
    }
    for (_, run) in bakeoff.sealed().filter(|(t, _)| only(&t.levels, &comparisons.compared) == *a) {
        for (name, value) in &run.environment.facts {
            if let Ok(value) = value {
                note(format!("machine {name}"), value.clone());
            }
        }
        for (name, value) in run.load.iter().flat_map(|l| settings(&l.settings)) {
            note(format!("load {name}"), value);
        }
        if let Some(Ok(version)) = run.load.as_ref().map(|l| l.server_version.as_ref()) {
            note("server version".into(), version.clone());
        }
    }
    found
        .into_iter()
        .map(|(key, mut values)| {
            sort_as_read(&mut values);
            (key, values.join(", "))
        })
        .collect()
}

/// Numbers by size, then words by letter.
fn sort_as_read(values: &mut [String]) {
    let number = |v: &String| v.parse::<f64>().unwrap_or(f64::INFINITY);
    values.sort_by(|a, b| number(a).total_cmp(&number(b)).then_with(|| a.cmp(b)));
}

fn settings_table(bakeoff: &Bakeoff) -> Table {
    let mut table = Table::new("The load, as every run was asked for it", &["setting", "value"]);
    let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for (_, run) in bakeoff.sealed() {
        for (name, value) in run.load.iter().flat_map(|l| settings(&l.settings)) {
            let values = found.entry(name).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    for (name, mut values) in found {
        sort_as_read(&mut values);
        table.row(vec![name.into(), values.join(", ").into()]);
    }
    table
}

/// What a load was asked to do, by name.
pub(super) fn settings(s: &LoadSettings) -> Vec<(&'static str, String)> {
    let mut told = vec![
        ("target", s.target.masked()),
        ("workload", s.workload.word().to_owned()),
        ("threads", s.threads.to_string()),
        ("retries at most", s.retries_max.to_string()),
        ("warm-up", span(s.warmup.as_secs_f64())),
        ("measured", span(s.time.as_secs_f64())),
        ("seed", s.seed.to_string()),
    ];
    match s.rate {
        Rate::Max => told.push(("rate", "closed loop, as fast as it goes".to_owned())),
        Rate::PerSecond(r) => told.extend([
            ("rate", format!("{}/s", crate::number::rate(r))),
            ("arrivals", s.arrivals.to_string()),
            ("schedule", s.schedule.word().to_owned()),
            ("late events", s.late.to_string()),
        ]),
    }
    if s.workload != Workload::Native {
        let o = &s.oltp;
        told.extend([
            ("tables", o.tables.to_string()),
            ("rows per table", count(o.rows)),
            ("row distribution", o.distribution.to_string()),
            ("statements", if o.prepared { "prepared".to_owned() } else { "not prepared".to_owned() }),
        ]);
    }
    told
}

fn benchmark(bakeoff: &Bakeoff) -> Section {
    let first = bakeoff.sealed().next().and_then(|(_, run)| run.load.as_ref());
    let what = first.map_or("No run was sealed.".to_owned(), |load| {
        let s = &load.settings;
        let what = match s.workload {
            Workload::OltpReadWrite => format!(
                "Each event is a transaction of {} point selects, four range queries over {} rows each, two updates, \
                 a delete and an insert, with the meaning that users know from sysbench",
                s.oltp.point_selects, s.oltp.range_size
            ),
            Workload::OltpReadOnly => format!(
                "Each event is a transaction of {} point selects and four range queries over {} rows each",
                s.oltp.point_selects, s.oltp.range_size
            ),
            Workload::OltpWriteOnly => {
                "Each event is a transaction of two updates, a delete and an insert".to_owned()
            }
            Workload::OltpPointSelect => "Each event reads one row by its primary key".to_owned(),
            Workload::Native => "Each event is one run of the target itself".to_owned(),
        };
        let pace = match s.rate {
            Rate::Max => "The loop is closed: a thread starts its next event when the last one ends, so latency is \
                          service time, and waiting that users would do does not show in it"
                .to_owned(),
            Rate::PerSecond(r) => format!(
                "The loop is open: events fall due {} times a second whether or not earlier ones have ended, and \
                 response time counts from the due time",
                crate::number::rate(r)
            ),
        };
        format!("{what} ({}). {pace}.", s.workload.word())
    });
    let phases = format!(
        "Each trial warms up for {} and is measured for {}; nothing of the warm-up counts.",
        span(bakeoff.warmup.as_secs_f64()),
        span(bakeoff.measure.as_secs_f64())
    );
    Section {
        id: "benchmark",
        title: "Benchmark description",
        blocks: vec![Block::Text(what), Block::Text(phases)],
    }
}

fn method(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Section {
    let rules = comparisons.rules;
    let mut factors = Table::new("Factors", &["factor", "level of the design", "values", "reference"]);
    for f in &bakeoff.factors {
        let plot = match f.plot {
            Plot::Whole => "whole plot: a fresh server each time",
            Plot::Sub => "sub plot: varied within one warmed server",
        };
        let reference = f.reference.clone().unwrap_or_else(|| "not compared".to_owned());
        factors.row(vec![f.name.clone().into(), plot.into(), f.values.join(", ").into(), reference.into()]);
    }
    let design = format!(
        "{} of every configuration, each in a series of its own, in an order drawn at random from the seed {}. What a \
         block's time did to all of them cancels in their ratios. The unit of replication is the series; seconds and \
         requests of one run are not independent and are never used as if they were.",
        plural(bakeoff.blocks as usize, "block"),
        bakeoff.seed
    );
    let tests = vec![
        format!(
            "Effect: for each block, d = ln(A / B) of the two runs of the same cell; the ratio is exp(mean d), its \
             {} interval exp(mean d ± t(R - 1) s / √R) over R blocks.",
            share(1.0 - rules.alpha)
        ),
        format!(
            "Better or worse: the interval at the level that Holm's procedure grants within the family lies wholly \
             outside [1/(1 + δ), 1 + δ], δ = {}, and the sign-flip test over all 2^R signs has p ≤ {}.",
            share(rules.rope_ratio),
            rules.alpha
        ),
        format!(
            "Equivalent: the {} interval lies wholly inside (two one-sided tests at {}). Inconclusive: anything else, \
             and anything that rests on fewer than {} blocks.",
            share(1.0 - 2.0 * rules.alpha),
            rules.alpha,
            comparisons.blocks_min
        ),
        format!(
            "Family: {}; {} over {}, adjusted together, so that the rate of any false better or worse among them is \
             at most {}. The deciding interval in the tables is the one at Holm's level; for equivalent, that of the \
             two one-sided tests.",
            bakeoff.judge.family,
            plural(comparisons.pairs.len(), "comparison"),
            list(&bakeoff.judge.metrics.iter().map(|m| metric_name(*m).to_owned()).collect::<Vec<_>>()),
            rules.alpha
        ),
        "Percentiles are those of the merged distribution of a cell's runs, never means of percentiles; their \
         intervals come from the runs, not from the requests."
            .to_owned(),
        "Blocks needed: the number that would decide with a power of 80 % if what was seen is how it is.".to_owned(),
    ];
    let blocks = vec![
        Block::Text(design),
        Block::Table(factors),
        Block::List(tests),
        Block::Code { title: "The order drawn".into(), text: order(bakeoff) },
    ];
    Section { id: "method", title: "Method", blocks }
}

/// `block 1: wal (threads=4, threads=1), delete (...)`, a line a block.
fn order(bakeoff: &Bakeoff) -> String {
    let whole: Vec<String> =
        bakeoff.factors.iter().filter(|f| f.plot == Plot::Whole).map(|f| f.name.clone()).collect();
    let sub: Vec<String> =
        bakeoff.factors.iter().filter(|f| f.plot == Plot::Sub).map(|f| f.name.clone()).collect();
    let series_text = |trials: &[Trial]| {
        let cells: Vec<String> = trials.iter().map(|t| configuration(&only(&t.levels, &sub))).collect();
        format!("{} ({})", configuration(&only(&trials[0].levels, &whole)), cells.join(", "))
    };
    let block_text = |trials: &[Trial]| {
        let series: Vec<String> = trials.chunk_by(|a, b| a.series == b.series).map(series_text).collect();
        format!("block {}: {}", trials[0].block, series.join(", "))
    };
    bakeoff.trials.chunk_by(|a, b| a.block == b.block).map(block_text).collect::<Vec<_>>().join("\n")
}

fn key_points(bakeoff: &Bakeoff) -> Section {
    let block = match &bakeoff.page.notes {
        Some(notes) => Block::Quoted(notes.clone()),
        None => Block::Text("The author wrote none.".into()),
    };
    Section { id: "key-points", title: "Key points and best practices", blocks: vec![block] }
}

fn went_wrong(bakeoff: &Bakeoff) -> Section {
    let mut table = Table::new(
        "Attempts that are not in the comparison",
        &["#trial", "#block", "cell", "ended", "reason", "run"],
    );
    let trial = |index: u32| bakeoff.trials.iter().find(|t| t.index == index);
    for attempt in bakeoff.attempts.iter().filter(|a| a.state != TrialState::Sealed) {
        let tone = if attempt.state == TrialState::Abandoned { Tone::Doubt } else { Tone::Bad };
        let trial = trial(attempt.trial);
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
    if table.rows.is_empty() {
        blocks.push(Block::Text("Every attempt was sealed.".into()));
    } else {
        blocks.push(Block::Table(table));
    }
    let sealed: BTreeSet<u32> = bakeoff.sealed().map(|(trial, _)| trial.index).collect();
    let open: Vec<&Trial> = bakeoff.trials.iter().filter(|t| !sealed.contains(&t.index)).collect();
    if !open.is_empty() {
        let cells: Vec<String> =
            open.iter().map(|t| format!("block {}: {}", t.block, named(&t.levels))).collect();
        blocks.push(Block::Text("These cells have no sealed run:".into()));
        blocks.push(Block::List(cells));
    }
    let seen: Vec<String> = bakeoff.sealed().filter_map(|(trial, run)| blemish(trial, run)).collect();
    if !seen.is_empty() {
        blocks.push(Block::Text("Seen in sealed runs, within the limits that a valid run has:".into()));
        blocks.push(Block::List(seen));
    }
    Section { id: "went-wrong", title: "What went wrong", blocks }
}

/// What a sealed run saw that a reader would want to know.
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
    .chain(run.cpu.iter().any(|c| !c.lost.is_empty()).then(|| "events of the CPU probe lost".to_owned()))
    .collect();
    (!told.is_empty()).then(|| format!("block {}, {}: {}", trial.block, named(&trial.levels), list(&told)))
}

fn observing(bakeoff: &Bakeoff) -> Section {
    let mut rungs: Vec<&str> =
        bakeoff.sealed().flat_map(|(_, run)| &run.cpu).map(|interval| interval.rung.word()).collect();
    rungs.sort_unstable();
    rungs.dedup();
    let watched = if rungs.is_empty() {
        "The CPUs were not watched.".to_owned()
    } else {
        format!("The CPUs were watched by: {}.", rungs.join(", "))
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
        _ => "What the load generator itself used is not known.".to_owned(),
    };
    let blocks = vec![
        Block::Text(format!(
            "{watched} What watching cost was not measured: the plan has no control arm without it."
        )),
        Block::Text(generator),
    ];
    Section { id: "observing", title: "What observing cost", blocks }
}

fn see_also() -> Section {
    let items = vec![
        "docs/statistics.md: the method in words.".to_owned(),
        "docs/glossary.md: what each word on this page means.".to_owned(),
        "Every run listed below is in the archive with its distributions: bakeoff runs show RUN.".to_owned(),
    ];
    Section { id: "see-also", title: "See also", blocks: vec![Block::List(items)] }
}

fn disclosure(bakeoff: &Bakeoff) -> Section {
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
        ("server", if servers.is_empty() { "does not say".to_owned() } else { servers.join(", ") }),
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
