//! The answer at a glance: one figure of ratios, and a small grid of configurations by conditions.

use analysis::{Comparisons, Pair, Verdict};
use record::bakeoff::{Levels, Metric};

use super::figures::{against_reference, configurations, mark};
use super::{Block, Figure, Grid, GridCell, GridRow, Table};
use crate::chart::{Forest, ForestRow, forest};
use crate::names::Names;
use crate::number::{change_interval_of, change_of, share};
use crate::words::{capital, difference_word, metric as metric_name, sense};

/// Most rows of the leading figure. With more comparisons, each configuration has one row.
const ROWS_MAX: usize = 24;

/// The leading figure by one metric, and a grid for each judged metric.
pub(super) fn lead(comparisons: &Comparisons, metric: Option<Metric>) -> Vec<Block> {
    let mut blocks: Vec<Block> =
        metric.and_then(|m| figure(comparisons, m)).map(Block::Figure).into_iter().collect();
    let mut metrics: Vec<Metric> = comparisons.pairs.iter().map(|p| p.metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    if !metrics.is_empty() {
        blocks.push(Block::Grids(metrics.into_iter().map(|m| grid(comparisons, m)).collect()));
    }
    blocks
}

/// Whether the leading figure by this metric shows every comparison.
pub(super) fn shows_all(comparisons: &Comparisons, metric: Metric) -> bool {
    comparisons.pairs.iter().filter(|p| p.metric == metric).count() <= ROWS_MAX
}

fn figure(comparisons: &Comparisons, metric: Metric) -> Option<Figure> {
    if shows_all(comparisons, metric) {
        return against_reference(comparisons, metric);
    }
    let names = Names::of(comparisons);
    let series = configurations(comparisons);
    let mut rows = Vec::new();
    let mut data = Table::new(
        format!("{} of each configuration, over its conditions", capital(metric_name(metric))),
        &["configuration", "#least", "#most", "#interval of both", "conditions"],
    );
    let mut told = Vec::new();
    for (i, a) in series.iter().enumerate() {
        let pairs: Vec<&Pair> =
            comparisons.pairs.iter().filter(|p| p.metric == metric && p.a == *a).collect();
        let known: Vec<_> = pairs.iter().filter_map(|p| p.estimate.as_ref().ok()).collect();
        let ratios: Vec<f64> = known.iter().map(|e| e.ratio).collect();
        let (Some(least), Some(most)) =
            (ratios.iter().copied().reduce(f64::min), ratios.iter().copied().reduce(f64::max))
        else {
            continue;
        };
        let low = known.iter().map(|e| e.low).fold(f64::INFINITY, f64::min);
        let high = known.iter().map(|e| e.high).fold(0.0, f64::max);
        let count = |v: Verdict| pairs.iter().filter(|p| p.verdict == v).count();
        let [better, worse] = [count(Verdict::Better), count(Verdict::Worse)];
        let name = names.configuration(a);
        let verdicts = format!("{better} better, {worse} worse of {}", pairs.len());
        told.push(format!("{name}: {} to {}, {verdicts}", change_of(metric, least), change_of(metric, most)));
        data.row(vec![
            name.clone().into(),
            change_of(metric, least).into(),
            change_of(metric, most).into(),
            change_interval_of(metric, low, high).into(),
            verdicts.into(),
        ]);
        rows.push(ForestRow {
            group: name,
            label: String::new(),
            series: i,
            ratio: None,
            interval: Some((low, high)),
            adjusted: None,
            dots: ratios,
            told: [format!("▲{better} ▼{worse}"), format!("of {}", pairs.len()), String::new()],
        });
    }
    let reference = names.configuration(&comparisons.reference);
    let title = format!("{} relative to {reference}", capital(metric_name(metric)));
    let drawing = forest(&Forest {
        metric,
        rope_ratio: comparisons.rules.rope_ratio,
        x_title: format!("{} against {reference} ({})", difference_word(metric), sense(metric)),
        rows,
    });
    let caption = format!(
        "Small marks: one for each condition; bar: from the lowest to the highest end of their {} intervals. Shaded: \
         within {}, a difference that does not matter.",
        share(1.0 - comparisons.rules.alpha),
        share(comparisons.rules.rope_ratio)
    );
    Some(Figure { title, caption, description: format!("{}.", told.join("; ")), drawing, data })
}

/// One metric: configurations by conditions.
fn grid(comparisons: &Comparisons, metric: Metric) -> Grid {
    let names = Names::of(comparisons);
    let pairs: Vec<&Pair> = comparisons.pairs.iter().filter(|p| p.metric == metric).collect();
    let mut conditions: Vec<&Levels> = Vec::new();
    for pair in &pairs {
        if !conditions.contains(&&pair.levels) {
            conditions.push(&pair.levels);
        }
    }
    let row = |(series, a): (usize, &Levels)| {
        let of = |levels: &&Levels| pairs.iter().find(|p| p.a == *a && p.levels == **levels);
        let cells: Vec<Option<GridCell>> =
            conditions.iter().map(|c| of(c).map(|pair| grid_cell(pair))).collect();
        let is_known = cells.iter().any(Option::is_some);
        is_known.then(|| GridRow { name: names.configuration(a), series, cells })
    };
    Grid {
        caption: format!("{}, {}", capital(metric_name(metric)), sense(metric)),
        columns: conditions.iter().map(|c| names.condition(c)).collect(),
        rows: configurations(comparisons).iter().enumerate().filter_map(row).collect(),
    }
}

fn grid_cell(pair: &Pair) -> GridCell {
    let (sign, word, tone) = mark(pair.verdict);
    GridCell {
        ratio: pair.estimate.as_ref().map_or("-".to_owned(), |e| change_of(pair.metric, e.ratio)),
        sign,
        word,
        tone,
    }
}
