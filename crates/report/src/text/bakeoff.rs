//! A bake-off at a terminal: the claim, the verdicts, and what went wrong.

use std::io::{self, Write};

use analysis::{Comparisons, Pair, Verdict};
use record::bakeoff::{Bakeoff, Metric};

use super::table::{Align, Table};
use super::{Style, Tint, ending, paragraph, tinted};
use crate::claim::{Claim, Standing, claim};
use crate::number::{change_interval_of, change_of, metric_value, p_value, share};
use crate::words::{cell_mean, configuration, metric as metric_name, not_judged, plural, sense, values_of};

/// Writes a table of verdicts for each judged metric, the limits of the claim, and the claim itself last.
///
/// - `name`: short name of the bake-off in the archive, `None` if it is not stored.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn bakeoff(
    out: &mut dyn Write,
    bakeoff: &Bakeoff,
    comparisons: &Comparisons,
    name: Option<&str>,
    style: Style,
) -> io::Result<()> {
    self::comparisons(out, comparisons, style)?;
    super::concurrency::concurrency(out, bakeoff, comparisons, style)?;
    for knee in crate::knee::sentences(bakeoff, comparisons) {
        paragraph(out, &knee, 0, style)?;
    }
    super::functions::functions(out, comparisons, style)?;
    if let Some(cost) = observing(bakeoff) {
        paragraph(out, &cost, 0, style)?;
    }
    writeln!(out)?;
    let claim = claim(bakeoff, comparisons);
    let tint = match claim.standing {
        Standing::Invalid | Standing::Failed => Tint::Bad,
        Standing::Unfinished | Standing::Exploratory => Tint::Doubt,
        _ => Tint::Strong,
    };
    for caveat in &claim.caveats {
        paragraph(out, &format!("- {caveat}"), 2, style)?;
    }
    writeln!(out, "{}", tinted(claim.standing.word(), tint, style))?;
    ending::stored(out, name, "page.html", style)?;
    ending::answer(out, &answer_of(bakeoff, &claim), style)?;
    super::gates::gates(out, &comparisons.gates, style)
}

/// The answer of a bake-off in a line, without its gates.
pub fn answer(bakeoff: &Bakeoff, comparisons: &Comparisons) -> String {
    answer_of(bakeoff, &claim(bakeoff, comparisons))
}

fn answer_of(bakeoff: &Bakeoff, claim: &Claim) -> String {
    let headline = &claim.headline;
    match claim.standing {
        standing @ (Standing::Invalid | Standing::Failed) if bakeoff.sealed().next().is_none() => {
            format!("{}: {}", standing.word(), ending::nothing_valid(bakeoff))
        }
        standing @ (Standing::Invalid | Standing::Failed) => format!("{}: {headline}", standing.word()),
        Standing::Unfinished => format!("INTERRUPTED: {headline}"),
        Standing::Exploratory | Standing::NotCompared => format!("VALID: {headline}"),
        Standing::Difference | Standing::Equivalent | Standing::NothingFound => headline.clone(),
    }
}

/// Writes a table of verdicts for each judged metric, and the method.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn comparisons(out: &mut dyn Write, comparisons: &Comparisons, style: Style) -> io::Result<()> {
    let mut metrics: Vec<Metric> = Vec::new();
    for pair in &comparisons.pairs {
        if !metrics.contains(&pair.metric) {
            metrics.push(pair.metric);
        }
    }
    for metric in metrics {
        let title = format!("{} ({})", metric_name(metric), sense(metric));
        writeln!(out, "{}", tinted(&title, Tint::Strong, style))?;
        table(comparisons, metric).write(out, style)?;
        writeln!(out)?;
    }
    for text in not_judged(comparisons) {
        paragraph(out, &text, 0, style)?;
    }
    if comparisons.pairs.is_empty() {
        return cells(out, comparisons, style);
    }
    paragraph(out, &method(comparisons), 0, style)
}

/// Cost of watching in throughput, or in the first metric with a value; `None` without a control arm.
fn observing(bakeoff: &Bakeoff) -> Option<String> {
    let costs = analysis::observing::costs(bakeoff);
    let cost = costs.iter().find(|cost| cost.ratio.is_ok()).or(costs.first())?;
    let of = metric_name(cost.metric);
    let level = share(1.0 - bakeoff.judge.alpha);
    Some(match (&cost.ratio, &cost.interval) {
        (Err(missing), _) => format!("The cost of observing is missing: {missing}."),
        (Ok(ratio), Err(missing)) => {
            format!(
                "With instruments, {of} changed by {} (interval missing: {missing}).",
                change_of(cost.metric, *ratio)
            )
        }
        (Ok(ratio), Ok((low, high))) => format!(
            "With instruments, {of} changed by {} ({level}: {}; {} pairs of blocks).",
            change_of(cost.metric, *ratio),
            change_interval_of(cost.metric, *low, *high),
            cost.pairs
        ),
    })
}

/// The method behind the verdicts, one sentence per rule.
fn method(comparisons: &Comparisons) -> String {
    let rules = comparisons.rules;
    let level = share(1.0 - rules.alpha);
    let no_claim = if comparisons.exploratory {
        format!(" Exploratory: a claim needs {} blocks.", comparisons.blocks_min)
    } else if comparisons.unfinished {
        " Not over: no claim is made before the last trial.".to_owned()
    } else {
        String::new()
    };
    format!(
        "Against {}; change with its {level} interval, by block. Family of the metrics, {}: p by Holm, alpha {}; within {} is no \
         difference.{no_claim}",
        configuration(&comparisons.reference),
        plural(comparisons.pairs.len(), "comparison"),
        rules.alpha,
        share(rules.rope_ratio),
    )
}

fn table(comparisons: &Comparisons, metric: Metric) -> Table {
    let conditions = comparisons.conditions.join(", ");
    let mut table = Table::default()
        .column(conditions, Align::Left, 0)
        .column("config", Align::Left, 0)
        .column("value", Align::Right, 4)
        .column("reference", Align::Right, 5)
        .column("change", Align::Right, 0)
        .column("interval", Align::Right, 1)
        .column("p (Holm)", Align::Right, 2)
        .column("blocks", Align::Right, 3)
        .column("verdict", Align::Left, 0);
    for pair in comparisons.pairs.iter().filter(|p| p.metric == metric) {
        let estimate =
            |of: &dyn Fn(&analysis::Estimate) -> String| pair.estimate.as_ref().map_or("-".to_owned(), of);
        table.row(vec![
            (values_of(&pair.levels, &comparisons.conditions), None),
            (configuration(&pair.a), None),
            (mean(pair, |means| means.0), None),
            (mean(pair, |means| means.1), None),
            (estimate(&|e| change_of(metric, e.ratio)), None),
            (estimate(&|e| change_interval_of(metric, e.low, e.high)), None),
            (estimate(&|e| p_value(e.p_adjusted)), None),
            (pair.n().to_string(), None),
            (pair.verdict.word().to_owned(), Some(verdict_tint(pair.verdict))),
        ]);
    }
    table
}

pub(super) fn verdict_tint(verdict: Verdict) -> Tint {
    match verdict {
        Verdict::Better => Tint::Good,
        Verdict::Worse => Tint::Bad,
        Verdict::Equivalent => Tint::Strong,
        Verdict::Inconclusive => Tint::Doubt,
    }
}

/// Mean of one side of a pair, over the blocks that the pair rests on, so the table agrees with its block
/// count.
fn mean(pair: &Pair, side: fn(&(f64, f64)) -> f64) -> String {
    match (&pair.estimate, &pair.means) {
        (Ok(_), Ok(means)) => metric_value(pair.metric, side(means)),
        _ => "-".to_owned(),
    }
}

/// The cells themselves, if the plan compares nothing.
fn cells(out: &mut dyn Write, comparisons: &Comparisons, style: Style) -> io::Result<()> {
    let factors = comparisons.conditions.iter();
    let mut table = factors
        .fold(Table::default(), |t, name| t.column(name, Align::Left, 0))
        .column("throughput", Align::Right, 0)
        .column("p99", Align::Right, 1)
        .column("blocks", Align::Right, 2);
    for cell in comparisons.cells_of(Metric::Throughput) {
        let told = |metric: Metric| {
            let of_metric = comparisons.cells_of(metric).find(|c| c.levels == cell.levels)?;
            cell_mean(of_metric, cell.values.len())
        };
        let level = |name: &String| cell.levels.get(name).cloned().unwrap_or_default();
        let numbers = [
            told(Metric::Throughput).unwrap_or_else(|| "-".to_owned()),
            told(Metric::P99).unwrap_or_else(|| "-".to_owned()),
            cell.values.len().to_string(),
        ];
        table.row(comparisons.conditions.iter().map(level).chain(numbers).map(|text| (text, None)).collect());
    }
    table.write(out, style)
}
