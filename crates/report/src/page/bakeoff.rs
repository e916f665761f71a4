//! The page of a bake-off: the claim, then the evidence, in the order of the printed form.

use std::collections::BTreeSet;

use analysis::{CellSummary, Comparisons, Pair, Verdict};
use record::bakeoff::{Bakeoff, Levels, Metric};
use record::missing::Maybe;

use super::account::{observing, statement, went_wrong};
use super::concurrency;
use super::configuration::{configuration_summary, differences};
use super::figures::{against_reference, cells, numeric_factor, spectra};
use super::functions::{self, Stacks};
use super::gates;
use super::lead::{lead, shows_all};
use super::method::method;
use super::noise;
use super::resources;
use super::values::against_throughput;
use super::{Block, Page, Section, Table, Tone, Words};
use crate::claim::{Claim, Standing, claim};
use crate::names::Names;
use crate::number::{
    change_interval_of, change_of, date_time, metric_ends, metric_value, outward, p_value, share,
    significant, significant_4,
};
use crate::words::{
    cell_mean, configuration, metric as metric_name, named, not_judged, only, plural, sense, values_of,
};

/// Lays out the page.
pub fn bakeoff(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Page {
    bakeoff_with(bakeoff, comparisons, &[])
}

/// Variant of [`bakeoff`] that also draws these stacks.
pub fn bakeoff_with(bakeoff: &Bakeoff, comparisons: &Comparisons, stacks: &[Stacks]) -> Page {
    let claim = claim(bakeoff, comparisons);
    let metric = claim.metric.or_else(|| comparisons.pairs.first().map(|p| p.metric));
    let sections = gates::section(comparisons)
        .into_iter()
        .chain([charts(bakeoff, comparisons, metric)])
        .chain(key_points(bakeoff))
        .collect();
    let differing = differences(bakeoff, comparisons).rows.len();
    let folded = [
        Some(numbers(bakeoff, comparisons, &claim).folded(numbers_note(comparisons))),
        concurrency::folded(bakeoff, comparisons),
        functions::folded(comparisons, stacks),
        resources::section(bakeoff, comparisons)
            .map(|section| section.folded("locks, I/O, memory, energy and places of threads of every cell")),
        noise::section(bakeoff, comparisons)
            .map(|section| section.folded("series, trials, chance, stolen time, placement, I/O")),
        Some(method(bakeoff, comparisons).folded("what an event is, the order drawn, the tests")),
        Some(
            configuration_summary(bakeoff, comparisons)
                .folded(format!("{} between configurations", plural(differing, "difference"))),
        ),
        went_wrong(bakeoff, comparisons)
            .map(|section| section.folded("attempts and events that did not go as planned")),
        Some(observing(bakeoff).folded("the instruments and the load generator")),
        Some(statement(bakeoff).folded("dates, versions, checksums, the plan, the command that repeats it")),
    ];
    Page {
        title: bakeoff.header.title.clone(),
        question: bakeoff.question.clone(),
        standing: standing(claim.standing),
        claim: claim.headline.clone(),
        lead: lead(comparisons, metric),
        caveats: claim.caveats.clone(),
        byline: byline(bakeoff, comparisons),
        sections,
        folded: folded.into_iter().flatten().collect(),
    }
}

fn numbers_note(comparisons: &Comparisons) -> String {
    let cells = plural(comparisons.cells_of(Metric::Throughput).count(), "cell");
    match comparisons.pairs.len() {
        0 => cells,
        n => format!("{cells}, {} with intervals and p", plural(n, "comparison")),
    }
}

fn standing(standing: Standing) -> Words {
    let tone = match standing {
        Standing::Invalid | Standing::Failed => Tone::Bad,
        Standing::Unfinished | Standing::Exploratory => Tone::Doubt,
        Standing::Difference => Tone::Good,
        Standing::NotCompared | Standing::Equivalent | Standing::NothingFound => Tone::Even,
    };
    Words::toned(standing.word(), tone)
}

fn byline(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Vec<String> {
    let sealed = bakeoff.sealed().count();
    let names = Names::of(comparisons);
    let conditions: BTreeSet<&Levels> = comparisons.pairs.iter().map(|p| &p.levels).collect();
    let conditions: Vec<&Levels> = conditions.into_iter().collect();
    let at = names.place(&conditions, conditions.len());
    let mut byline = vec![
        format!("as of {}", date_time(as_of_unix_ns(bakeoff))),
        format!("{sealed} of {} trials valid", bakeoff.trials.len() - comparisons.dropped_trials(bakeoff)),
        format!("{}{at}", blocks(bakeoff, comparisons)),
        system(bakeoff),
    ];
    if !comparisons.pairs.is_empty() {
        byline.insert(2, format!("in parentheses: {} intervals", share(1.0 - comparisons.rules.alpha)));
    }
    byline.extend(bakeoff.page.sponsor.iter().map(|s| format!("sponsor: {s}")));
    byline.extend(bakeoff.page.tuning.iter().map(|t| format!("tuning: {t}")));
    byline
}

/// Number of blocks, or how many have valid trials of both sides: the fewest and the most of all pairs.
fn blocks(bakeoff: &Bakeoff, comparisons: &Comparisons) -> String {
    let all = bakeoff.blocks as usize;
    let valid = || comparisons.pairs.iter().map(analysis::Pair::n);
    match (valid().min(), valid().max()) {
        (Some(least), Some(most)) if least < all && least < most => {
            format!("{least} to {most} of {}", plural(all, "block"))
        }
        (Some(least), _) if least < all => format!("{least} of {}", plural(all, "block")),
        _ => plural(all, "block"),
    }
}

/// Start of the last run that the page rests on.
pub(super) fn as_of_unix_ns(bakeoff: &Bakeoff) -> u64 {
    let last = bakeoff.sealed().map(|(_, run)| run.header.anchor.unix_ns).max();
    last.unwrap_or(bakeoff.header.anchor.unix_ns)
}

fn numbers(bakeoff: &Bakeoff, comparisons: &Comparisons, claim: &Claim) -> Section {
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
    blocks.extend(slopes(comparisons).map(Block::Table));
    let left_out = not_judged(comparisons);
    if !left_out.is_empty() {
        blocks.push(Block::List(left_out));
    }
    blocks.push(Block::Table(landscape(bakeoff, comparisons)));
    Section { id: "numbers", title: "All numbers", blocks }
}

fn verdicts(comparisons: &Comparisons, metric: Metric) -> Table {
    let level = share(1.0 - comparisons.rules.alpha);
    let caption = format!(
        "{} against {}: {} (family of the metrics)",
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
        table.row(verdict_row(pair, &comparisons.conditions));
    }
    table
}

/// Cost of an event on the server, if the plan has several rates.
fn slopes(comparisons: &Comparisons) -> Option<Table> {
    let interval = format!("#{} interval", share(1.0 - comparisons.rules.alpha));
    let mut table = Table::new(
        "CPU per event of the server: slope of its CPU use against the rate, over all rates",
        &[
            "configuration",
            "condition",
            "#CPU per event",
            &interval,
            "#background, CPUs",
            "#Theil-Sen",
            &format!("{interval} (bootstrap over blocks)"),
        ],
    );
    for slope in &comparisons.slopes {
        let seconds = |s: f64| metric_value(Metric::CpuPerEvent, s);
        let ends = |interval: &Maybe<(f64, f64)>| {
            interval.as_ref().map_or("-".to_owned(), |interval| {
                let (low, high) = outward(*interval, seconds);
                format!("{low} to {high}")
            })
        };
        table.row(vec![
            configuration(&slope.arm).into(),
            named(&slope.levels).into(),
            slope.value_s.as_ref().map_or_else(|m| m.reason.clone(), |s| seconds(*s)).into(),
            ends(&slope.interval_s).into(),
            slope.background_ratio.as_ref().map_or("-".to_owned(), |b| significant(*b)).into(),
            slope.robust_s.as_ref().map_or("-".to_owned(), |s| seconds(*s)).into(),
            ends(&slope.robust_interval_s).into(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

fn verdict_row(pair: &Pair, conditions: &[String]) -> Vec<Words> {
    let told = |of: &dyn Fn(&analysis::Estimate) -> String| -> Words {
        pair.estimate.as_ref().map_or("-".to_owned(), of).into()
    };
    vec![
        configuration(&pair.a).into(),
        values_of(&pair.levels, conditions).into(),
        verdict_words(pair.verdict),
        told(&|e| change_of(pair.metric, e.ratio)),
        told(&|e| change_interval_of(pair.metric, e.low, e.high)),
        told(&|e| match pair.verdict {
            Verdict::Equivalent => change_interval_of(pair.metric, e.low_equivalence, e.high_equivalence),
            _ => change_interval_of(pair.metric, e.low_adjusted, e.high_adjusted),
        }),
        told(&|e| p_value(e.p)),
        told(&|e| p_value(e.p_adjusted)),
        told(&|e| format!("{}{}", p_value(e.sign_flip.p), if e.sign_flip.exact { "" } else { " (drawn)" })),
        told(&|e| change_of(pair.metric, e.hodges_lehmann)),
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

fn landscape(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Table {
    let level = share(1.0 - comparisons.rules.alpha);
    let mut heads: Vec<String> = comparisons.conditions.clone();
    let has_energy = comparisons.cells_of(Metric::EnergyPerEvent).any(|cell| cell.summary.is_ok());
    heads.extend([
        "configuration".to_owned(),
        "#throughput".to_owned(),
        format!("#{level} interval"),
        "#per CPU".to_owned(),
    ]);
    heads.extend(
        has_energy.then(|| ["#per watt".to_owned(), format!("#{level} interval")]).into_iter().flatten(),
    );
    heads.extend([
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
        table.row(landscape_row(&levels, comparisons, (cpus, has_energy)));
    }
    table
}

/// Configurations grouped by condition, the conditions in the plan's order.
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

/// - `cpus`, `has_energy`: number of CPUs; whether throughput per watt is a column.
fn landscape_row(
    levels: &Levels,
    comparisons: &Comparisons,
    (cpus, has_energy): (Option<f64>, bool),
) -> Vec<Words> {
    let cell = |metric: Metric| comparisons.cells_of(metric).find(|c| c.levels == *levels);
    let summary = |metric: Metric| cell(metric).and_then(|c| c.summary.as_ref().ok());
    let blocks = cell(Metric::Throughput).map_or(0, |c| c.values.len());
    let mean = |metric: Metric| -> Words {
        cell(metric).and_then(|c| cell_mean(c, blocks)).unwrap_or_else(|| "-".to_owned()).into()
    };
    let interval = |metric: Metric| -> Words {
        let ends = summary(metric).and_then(|s| s.interval.as_ref().ok());
        let told = |ends: &(f64, f64)| {
            let (low, high) = metric_ends(metric, *ends);
            format!("{} to {high}", low.trim_end_matches("/s"))
        };
        ends.map_or("-".to_owned(), told).into()
    };
    let per_cpu = summary(Metric::Throughput).zip(cpus).filter(|(_, n)| *n > 0.0);
    let mut row: Vec<Words> =
        comparisons.conditions.iter().map(|f| levels.get(f).cloned().unwrap_or_default().into()).collect();
    row.extend([
        configuration(&only(levels, &comparisons.compared)).into(),
        mean(Metric::Throughput),
        interval(Metric::Throughput),
        per_cpu.map_or("-".to_owned(), |(s, n)| metric_value(Metric::Throughput, s.mean / n)).into(),
    ]);
    if has_energy {
        row.extend(per_watt(summary(Metric::EnergyPerEvent)).map(Words::from));
    }
    row.extend([
        mean(Metric::P99),
        interval(Metric::P99),
        mean(Metric::CpuPerEvent),
        blocks.to_string().into(),
    ]);
    row
}

/// Events per second and watt, and the interval: the reciprocals of joules per event.
fn per_watt(energy: Option<&CellSummary>) -> [String; 2] {
    let told = |joules: f64| significant_4(1.0 / joules);
    let interval = energy.and_then(|s| s.interval.as_ref().ok());
    let ends = |(low, high): &(f64, f64)| {
        let (low, high) = outward((1.0 / high, 1.0 / low), significant_4);
        format!("{low} to {high}")
    };
    [
        energy.map_or("-".to_owned(), |s| told(s.mean)),
        interval.filter(|(low, _)| *low > 0.0).map_or("-".to_owned(), ends),
    ]
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

/// The charts, without the one that leads the page.
fn charts(bakeoff: &Bakeoff, comparisons: &Comparisons, leading: Option<Metric>) -> Section {
    let mut blocks: Vec<Block> =
        against_throughput(bakeoff, comparisons).into_iter().map(Block::Figure).collect();
    let mut judged: Vec<Metric> = comparisons.pairs.iter().map(|p| p.metric).collect();
    judged.sort_unstable();
    judged.dedup();
    judged.retain(|metric| leading != Some(*metric) || !shows_all(comparisons, *metric));
    blocks.extend(cells(comparisons, bakeoff, Metric::Throughput).into_iter().map(Block::Figure));
    let mut loads = bakeoff.sealed().filter_map(|(_, run)| run.load.as_ref()).peekable();
    // All configurations get the same rates: their response times are compared at equal load.
    if loads.peek().is_some()
        && loads.all(|load| load.response.is_ok())
        && numeric_factor(bakeoff, comparisons).is_some()
    {
        blocks.extend(cells(comparisons, bakeoff, Metric::P99).into_iter().map(Block::Figure));
    }
    let knees = crate::knee::sentences(bakeoff, comparisons);
    if !knees.is_empty() {
        blocks.extend([Block::List(knees), Block::Text(crate::knee::method())]);
    }
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

fn key_points(bakeoff: &Bakeoff) -> Option<Section> {
    let notes = bakeoff.page.notes.clone()?;
    let title = "Key points and best practices";
    Some(Section { id: "key-points", title, blocks: vec![Block::Quoted(notes)] })
}
