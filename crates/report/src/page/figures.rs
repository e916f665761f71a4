//! The pictures of a bake-off with the numbers behind them.

use analysis::{Cell, Comparisons, Pair, SpectrumPoint, Verdict, spectrum};
use record::bakeoff::{Bakeoff, Factor, Levels, Metric};

use super::{Figure, Table, Tone, Words};
use crate::chart::{Forest, ForestRow, Kind, Line, Lines, Point, forest, lines};
use crate::names::Names;
use crate::number::{
    change_interval_of, change_of, count, latency, metric_value, outward, plain, share, significant_4,
};
use crate::words::{
    at, capital, configuration, difference_word, list, metric as metric_name, only, sense, short,
};

/// Maximum number of percentile spectra on a page.
const SPECTRA_MAX: usize = 6;
/// Quantiles in the table of a spectrum.
const TOLD: [f64; 9] = [0.5, 0.9, 0.95, 0.99, 0.995, 0.999, 0.999_9, 0.999_99, 0.999_999];
/// Points of a spectrum's line per factor of ten in rarity.
const POINTS_PER_NINE: i32 = 12;

/// Quantiles of a spectrum's line, from the median to one in a million; they include those of its table.
fn spectrum_quantiles() -> Vec<f64> {
    let rare = |i: i32| 0.5 * 10.0_f64.powf(-f64::from(i) / f64::from(POINTS_PER_NINE));
    let mut quantiles: Vec<f64> =
        (0..6 * POINTS_PER_NINE).map(rare).take_while(|r| *r > 1e-6).map(|r| 1.0 - r).chain(TOLD).collect();
    quantiles.sort_by(f64::total_cmp);
    quantiles.dedup();
    quantiles
}

/// A metric in every cell. If a condition is numeric, it is the x axis, with a picture for each value of the
/// other conditions; otherwise one picture shows the conditions, or the configurations, side by side.
pub(super) fn cells(comparisons: &Comparisons, bakeoff: &Bakeoff, metric: Metric) -> Vec<Figure> {
    let known: Vec<&Cell> = comparisons.cells_of(metric).filter(|c| c.summary.is_ok()).collect();
    let Some(factor) = numeric_factor(bakeoff, comparisons) else {
        return figure(comparisons, metric, &known, &Axis::of_names(comparisons, &known))
            .into_iter()
            .collect();
    };
    let rest = |cell: &Cell| {
        let mut rest = only(&cell.levels, &comparisons.conditions);
        rest.remove(&factor.name);
        rest
    };
    let mut others: Vec<Levels> = Vec::new();
    for cell in &known {
        if !others.contains(&rest(cell)) {
            others.push(rest(cell));
        }
    }
    let picture = |other: &Levels| {
        let those: Vec<&Cell> = known.iter().copied().filter(|c| rest(c) == *other).collect();
        figure(comparisons, metric, &those, &Axis::of_numbers(factor, other))
    };
    others.iter().filter_map(picture).collect()
}

/// The condition with the most values, if it has at least two and all are numbers.
pub(super) fn numeric_factor<'a>(bakeoff: &'a Bakeoff, comparisons: &Comparisons) -> Option<&'a Factor> {
    let is_numeric = |f: &&Factor| f.values.len() > 1 && f.values.iter().all(|v| v.parse::<f64>().is_ok());
    bakeoff
        .factors
        .iter()
        .filter(|f| comparisons.conditions.contains(&f.name))
        .filter(is_numeric)
        .max_by_key(|f| f.values.len())
}

/// The x axis.
struct Axis {
    /// Title of the axis; `title_end` ends the figure's title.
    title: String,
    title_end: String,
    kind: Kind,
    range: Option<(f64, f64)>,
    /// Positions and labels of the ticks.
    ticks: Vec<(f64, String)>,
    /// Factors that make up a label.
    factors: Vec<String>,
    joined: bool,
}

impl Axis {
    fn of_numbers(factor: &Factor, other: &Levels) -> Self {
        let ticks: Vec<(f64, String)> =
            factor.values.iter().filter_map(|v| Some((v.parse().ok()?, v.clone()))).collect();
        let low = ticks.iter().map(|t| t.0).fold(f64::INFINITY, f64::min);
        let high = ticks.iter().map(|t| t.0).fold(f64::NEG_INFINITY, f64::max);
        Self {
            title: factor.name.clone(),
            title_end: format!(" against {}{}", factor.name, at(other)),
            // Doubling thread counts crowd a linear axis from a factor of eight on.
            kind: if low > 0.0 && high / low >= 8.0 { Kind::Log } else { Kind::Linear },
            range: None,
            ticks,
            factors: vec![factor.name.clone()],
            joined: true,
        }
    }

    fn of_names(comparisons: &Comparisons, cells: &[&Cell]) -> Self {
        let factors =
            if comparisons.conditions.is_empty() { &comparisons.compared } else { &comparisons.conditions };
        let mut labels: Vec<String> = Vec::new();
        for cell in cells {
            let label = configuration(&only(&cell.levels, factors));
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        Self {
            title: list(factors),
            title_end: format!(" by {}", list(factors)),
            kind: Kind::Linear,
            range: Some((-0.5, labels.len() as f64 - 0.5)),
            ticks: labels.into_iter().enumerate().map(|(i, label)| (i as f64, label)).collect(),
            factors: factors.clone(),
            joined: false,
        }
    }

    fn label(&self, cell: &Cell) -> String {
        configuration(&only(&cell.levels, &self.factors))
    }

    fn point(&self, cell: &Cell) -> Option<Point> {
        let summary = cell.summary.as_ref().ok()?;
        let label = self.label(cell);
        let (x, _) = self.ticks.iter().find(|(_, l)| *l == label)?;
        let drawn = |value: f64| plain(cell.metric, value);
        Some(Point {
            x: *x,
            y: drawn(summary.mean),
            interval: summary.interval.as_ref().ok().map(|(low, high)| (drawn(*low), drawn(*high))),
            dots: known(cell).into_iter().map(drawn).collect(),
        })
    }
}

fn figure(comparisons: &Comparisons, metric: Metric, cells: &[&Cell], axis: &Axis) -> Option<Figure> {
    let points = |a: &Levels| cells.iter().filter(|c| is_of(c, a)).filter_map(|c| axis.point(c)).collect();
    let drawn: Vec<Line> = configurations(comparisons)
        .iter()
        .map(|a| Line {
            name: short(a),
            points: points(a),
            banded: false,
            joined: axis.joined,
            gaps: Vec::new(),
        })
        .collect();
    if drawn.iter().all(|l| l.points.is_empty()) {
        return None;
    }
    let title = format!("{}{}", capital(metric_name(metric)), axis.title_end);
    let level = share(1.0 - comparisons.rules.alpha);
    let mut data = Table::new(
        format!("{title}: mean over blocks with its {level} interval"),
        &[&axis.title, "configuration", "#mean", "#low", "#high", "#blocks", "each block"],
    );
    for cell in cells {
        data.row(data_row(cell, comparisons, axis, metric));
    }
    let drawing = lines(&Lines {
        x_title: &axis.title,
        y_title: match metric {
            Metric::Throughput => "events per second",
            Metric::P99 => "latency at the 99th percentile",
            Metric::P999 => "latency at the 99.9th percentile",
            Metric::CpuPerEvent => "server CPU time per event",
            Metric::LockCpu => "share of the time of all CPUs",
            Metric::IoPerEvent => "bytes per event",
            Metric::MemoryGrowth => "growth in the measured phase",
            Metric::EnergyPerEvent => "joules per event",
            Metric::Time => "time of the command",
            Metric::Cpu => "CPU time of the command",
        },
        x_kind: axis.kind,
        x_range: axis.range,
        y_kind: Kind::Linear,
        x_ticks: axis.ticks.clone(),
        y_label: match metric {
            Metric::P99 | Metric::P999 | Metric::CpuPerEvent | Metric::Time | Metric::Cpu => tick_seconds,
            Metric::LockCpu | Metric::MemoryGrowth => tick_share,
            Metric::Throughput | Metric::IoPerEvent | Metric::EnergyPerEvent => tick_rate,
        },
        series: drawn,
    });
    let caption = format!(
        "Filled marks: means over the blocks; bars: {level} intervals (without an end, they run off the \
         edge); open marks: single blocks."
    );
    Some(Figure { description: describe(cells, comparisons, metric, axis), caption, title, drawing, data })
}

fn data_row(cell: &Cell, comparisons: &Comparisons, axis: &Axis, metric: Metric) -> Vec<Words> {
    let told = |v: f64| metric_value(metric, v);
    let summary = cell.summary.as_ref().ok();
    let interval = summary.and_then(|s| s.interval.as_ref().ok());
    let dots: Vec<String> = known(cell).iter().map(|v| told(*v)).collect();
    vec![
        axis.label(cell).into(),
        configuration(&only(&cell.levels, &comparisons.compared)).into(),
        summary.map_or("-".to_owned(), |s| told(s.mean)).into(),
        interval.map_or("-".to_owned(), |(low, _)| told(*low)).into(),
        interval.map_or("-".to_owned(), |(_, high)| told(*high)).into(),
        dots.len().to_string().into(),
        dots.join(", ").into(),
    ]
}

/// Every mean, configuration by configuration.
fn describe(cells: &[&Cell], comparisons: &Comparisons, metric: Metric, axis: &Axis) -> String {
    let of = |a: &Levels| -> Option<String> {
        let told: Vec<String> = cells
            .iter()
            .filter(|c| is_of(c, a))
            .filter_map(|c| {
                let mean = metric_value(metric, c.summary.as_ref().ok()?.mean);
                Some(format!("{mean} at {} {}", axis.title, axis.label(c)))
            })
            .collect();
        (!told.is_empty()).then(|| format!("{}: {}", configuration(a), told.join(", ")))
    };
    let told: Vec<String> = configurations(comparisons).iter().filter_map(of).collect();
    format!("{}.", told.join("; "))
}

/// Every comparison of one metric against the reference.
pub(super) fn against_reference(comparisons: &Comparisons, metric: Metric) -> Option<Figure> {
    let series = configurations(comparisons);
    let mut pairs: Vec<&Pair> = comparisons.pairs.iter().filter(|p| p.metric == metric).collect();
    if pairs.iter().all(|p| p.estimate.is_err()) {
        return None;
    }
    let of = |pair: &&Pair| series.iter().position(|a| *a == pair.a).unwrap_or(0);
    pairs.sort_by_key(of);
    let names = Names::of(comparisons);
    let reference = names.configuration(&comparisons.reference);
    let title = format!("{} relative to {reference}", capital(metric_name(metric)));
    let mut data = Table::new(
        format!("{title}, each comparison and block"),
        &["configuration", "condition", "#change", "#interval", "verdict", "each block"],
    );
    for pair in &pairs {
        let estimate = pair.estimate.as_ref().ok();
        let dots: Vec<String> = pair.blocks.iter().map(|(_, r)| change_of(metric, *r)).collect();
        data.row(vec![
            names.configuration(&pair.a).into(),
            names.condition(&pair.levels).into(),
            estimate.map_or("-".to_owned(), |e| change_of(metric, e.ratio)).into(),
            estimate.map_or("-".to_owned(), |e| change_interval_of(metric, e.low, e.high)).into(),
            pair.verdict.word().into(),
            dots.join(", ").into(),
        ]);
    }
    let row = |pair: &&Pair| {
        let estimate = pair.estimate.as_ref().ok();
        let (sign, word, _) = mark(pair.verdict);
        ForestRow {
            group: names.configuration(&pair.a),
            label: names.condition(&pair.levels),
            series: of(pair),
            ratio: estimate.map(|e| e.ratio),
            interval: estimate.map(|e| (e.low, e.high)),
            adjusted: estimate.map(|e| (e.low_adjusted, e.high_adjusted)),
            dots: pair.blocks.iter().map(|(_, r)| *r).collect(),
            told: [
                estimate.map_or("-".to_owned(), |e| change_of(metric, e.ratio)),
                sign.to_owned(),
                word.to_owned(),
            ],
        }
    };
    let drawing = forest(&Forest {
        metric,
        rope_ratio: comparisons.rules.rope_ratio,
        x_title: format!("{} against {reference} ({})", difference_word(metric), sense(metric)),
        rows: pairs.iter().map(row).collect(),
    });
    let told = |pair: &&Pair| {
        let change = pair.estimate.as_ref().map_or("unknown".to_owned(), |e| change_of(metric, e.ratio));
        let condition = names.condition(&pair.levels);
        let at = if condition.is_empty() { String::new() } else { format!(" at {condition}") };
        format!("{}{at}: {change}, {}", names.configuration(&pair.a), pair.verdict.word())
    };
    let description = format!("{}.", pairs.iter().map(told).collect::<Vec<_>>().join("; "));
    let caption = format!(
        "Thick bar: {} interval; thin bar: the one that decides. Small marks: single blocks. Shaded: within {}, a \
         difference that does not matter.",
        share(1.0 - comparisons.rules.alpha),
        share(comparisons.rules.rope_ratio)
    );
    Some(Figure { title, caption, description, drawing, data })
}

/// Sign, word and tone of a verdict.
pub(super) fn mark(verdict: Verdict) -> (&'static str, &'static str, Tone) {
    match verdict {
        Verdict::Better => ("▲", "better", Tone::Good),
        Verdict::Worse => ("▼", "worse", Tone::Bad),
        Verdict::Equivalent => ("≈", "same", Tone::Even),
        Verdict::Inconclusive => ("?", "open", Tone::Doubt),
    }
}

/// Latency at every percentile, a picture for each condition, and how many conditions were left out.
pub(super) fn spectra(bakeoff: &Bakeoff, comparisons: &Comparisons) -> (Vec<Figure>, usize) {
    let mut conditions: Vec<Levels> = Vec::new();
    for cell in comparisons.cells_of(Metric::Throughput) {
        let condition = only(&cell.levels, &comparisons.conditions);
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
    let figures: Vec<Figure> = conditions
        .iter()
        .take(SPECTRA_MAX)
        .filter_map(|c| spectrum_figure(bakeoff, comparisons, c))
        .collect();
    (figures, conditions.len().saturating_sub(SPECTRA_MAX))
}

fn spectrum_figure(bakeoff: &Bakeoff, comparisons: &Comparisons, condition: &Levels) -> Option<Figure> {
    let quantiles = spectrum_quantiles();
    let line = |name, points| Line { name, points, banded: true, joined: true, gaps: Vec::new() };
    let mut drawn = Vec::new();
    let mut is_response = true;
    let mut data = Table::new(
        format!("Latency spectrum{}", at(condition)),
        &["configuration", "#percentile", "#latency", "#low", "#high", "#runs"],
    );
    for a in configurations(comparisons) {
        let levels: Levels = a.iter().chain(condition).map(|(k, v)| (k.clone(), v.clone())).collect();
        let name = short(&a);
        let Ok(spectrum) = spectrum(bakeoff, &levels, &quantiles) else {
            // The line is not drawn, and the others keep the colors that they have in every figure.
            drawn.push(line(name, Vec::new()));
            continue;
        };
        is_response = spectrum.is_response;
        for p in spectrum.points.iter().filter(|p| TOLD.contains(&p.quantile)) {
            let (low, high) = p
                .interval_ns
                .as_ref()
                .map_or(("-".to_owned(), "-".to_owned()), |(low, high)| outward((*low, *high), latency));
            let at_least = if p.at_least { ">=" } else { "" };
            data.row(vec![
                name.clone().into(),
                percentile(p.quantile).into(),
                format!("{at_least}{}", latency(p.latency_ns as f64)).into(),
                low.into(),
                high.into(),
                spectrum.runs.to_string().into(),
            ]);
        }
        drawn.push(line(name, spectrum.points.iter().map(spectrum_point).collect()));
    }
    if drawn.iter().all(|l| l.points.is_empty()) {
        return None;
    }
    let kind = if is_response { "Response time" } else { "Service time" };
    let deepest = drawn.iter().flat_map(|l| &l.points).map(|p| p.x).fold(0.0, f64::max);
    let ticks = [0.5, 0.9, 0.99, 0.999, 0.999_9, 0.999_99, 0.999_999];
    let drawing = lines(&Lines {
        x_title: "percentile",
        y_title: if is_response { "response time" } else { "service time" },
        x_kind: Kind::Log,
        x_range: None,
        y_kind: Kind::Log,
        x_ticks: ticks
            .iter()
            .map(|q| (1.0 / (1.0 - q), percentile(*q)))
            .filter(|(x, _)| *x <= deepest * 1.001)
            .collect(),
        y_label: tick_seconds,
        series: drawn,
    });
    Some(Figure {
        title: format!("{kind} at every percentile{}", at(condition)),
        caption: format!(
            "The merged distribution of all sealed runs; the band is the {} interval between runs.",
            share(1.0 - comparisons.rules.alpha)
        ),
        description:
            "Latency rises to the right, from the median to the rarest events; the numbers are in the table."
                .into(),
        drawing,
        data,
    })
}

fn spectrum_point(p: &SpectrumPoint) -> Point {
    Point {
        x: 1.0 / (1.0 - p.quantile),
        y: p.latency_ns as f64 * 1e-9,
        interval: p.interval_ns.as_ref().ok().map(|(low, high)| (low * 1e-9, high * 1e-9)),
        dots: Vec::new(),
    }
}

/// Combinations of the compared factors, the reference first: this order sets colors and markers.
pub(super) fn configurations(comparisons: &Comparisons) -> Vec<Levels> {
    let mut found = vec![comparisons.reference.clone()];
    for cell in &comparisons.cells {
        let a = only(&cell.levels, &comparisons.compared);
        if !found.contains(&a) {
            found.push(a);
        }
    }
    found
}

pub(super) fn is_of(cell: &Cell, configuration: &Levels) -> bool {
    configuration.iter().all(|(k, v)| cell.levels.get(k) == Some(v))
}

fn known(cell: &Cell) -> Vec<f64> {
    cell.values.iter().filter_map(|v| v.value.as_ref().ok()?.middle()).collect()
}

/// `p99.9`.
pub(super) fn percentile(quantile: f64) -> String {
    let text = format!("{:.4}", quantile * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

pub(super) fn tick_rate(v: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive tick")]
    if v >= 10.0 || v == 0.0 { count(v.round() as u64) } else { significant_4(v) }
}

/// `2.5 %` of a value that is drawn as 1 plus a share.
fn tick_share(v: f64) -> String {
    let text = format!("{:.3}", (v - 1.0) * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `2 ms`, `0.5 us`: a round latency without trailing zeros.
pub(super) fn tick_seconds(seconds: f64) -> String {
    if seconds <= 0.0 {
        return "0".to_owned();
    }
    let text = latency(seconds * 1e9);
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = &text[digits.len()..];
    let digits =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{digits} {unit}")
}
