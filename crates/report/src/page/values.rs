//! Values that a plan records for each trial besides time, such as a compressed size, against throughput.

use std::collections::BTreeMap;

use analysis::{Cell, Comparisons};
use record::bakeoff::{Bakeoff, Levels, Metric};
use record::series::Sample;

use super::figures::{configurations, is_of, numeric_factor, tick_rate};
use super::{Figure, Table, Words};
use crate::chart::{Kind, Mark, PointGroup, Scatter, scatter};
use crate::number::{metric_value, share, significant_4};
use crate::words::{at, capital, configuration, only, short};

/// A value of one cell over its blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    mean: f64,
    least: f64,
    most: f64,
    n: usize,
}

/// A picture of each value against throughput, for each condition except the one that sets the style of the
/// marks.
pub(super) fn against_throughput(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Vec<Figure> {
    let style = numeric_factor(bakeoff, comparisons).map(|factor| factor.name.clone());
    let rest = |cell: &Cell| {
        let mut rest = only(&cell.levels, &comparisons.conditions);
        rest.retain(|name, _| Some(name) != style.as_ref());
        rest
    };
    let mut conditions: Vec<Levels> = Vec::new();
    for cell in comparisons.cells_of(Metric::Throughput) {
        if !conditions.contains(&rest(cell)) {
            conditions.push(rest(cell));
        }
    }
    let mut figures = Vec::new();
    for (name, values) in values(bakeoff) {
        for condition in &conditions {
            let cells: Vec<&Cell> = comparisons
                .cells_of(Metric::Throughput)
                .filter(|cell| rest(cell) == *condition)
                .filter(|cell| cell.summary.is_ok() && values.contains_key(&cell.levels))
                .collect();
            let picture = Picture { name, values: &values, cells, condition, style: style.as_deref() };
            figures.extend(picture.figure(comparisons));
        }
    }
    figures
}

/// Every recorded value of the trials, by name and cell.
fn values(bakeoff: &Bakeoff) -> BTreeMap<&str, BTreeMap<&Levels, Spread>> {
    let mut found: BTreeMap<&str, BTreeMap<&Levels, Vec<f64>>> = BTreeMap::new();
    for (trial, run) in bakeoff.sealed() {
        for sample in run.series.iter().filter(|sample| sample.labels == Sample::OF_TRIAL) {
            found.entry(&sample.name).or_default().entry(&trial.levels).or_default().push(sample.value);
        }
    }
    let spread = |values: Vec<f64>| Spread {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        least: values.iter().copied().fold(f64::INFINITY, f64::min),
        most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        n: values.len(),
    };
    let spreads = |cells: BTreeMap<_, _>| cells.into_iter().map(|(levels, v)| (levels, spread(v))).collect();
    found.into_iter().map(|(name, cells)| (name, spreads(cells))).collect()
}

struct Picture<'a> {
    name: &'a str,
    values: &'a BTreeMap<&'a Levels, Spread>,
    cells: Vec<&'a Cell>,
    condition: &'a Levels,
    /// The factor that sets the style of the marks.
    style: Option<&'a str>,
}

impl Picture<'_> {
    fn figure(&self, comparisons: &Comparisons) -> Option<Figure> {
        let styles = self.styles();
        let things: Vec<PointGroup> = configurations(comparisons)
            .iter()
            .map(|a| PointGroup { name: short(a), marks: self.marks(a, &styles) })
            .filter(|thing| !thing.marks.is_empty())
            .collect();
        if things.is_empty() {
            return None;
        }
        let (what, unit) = paper_name(self.name);
        let y_title = if unit.is_empty() { what.clone() } else { format!("{what}, {unit}") };
        let title = format!("{} against throughput{}", capital(&what), at(self.condition));
        let speeds = || self.cells.iter().filter_map(|c| Some(c.summary.as_ref().ok()?.mean));
        let (low, high) = (speeds().fold(f64::INFINITY, f64::min), speeds().fold(0.0, f64::max));
        let legend = |value: &String| self.style.map_or(String::new(), |name| format!("{name} {value}"));
        let drawing = scatter(&Scatter {
            x_title: "events per second",
            y_title: &y_title,
            x_kind: if low > 0.0 && high / low >= 8.0 { Kind::Log } else { Kind::Linear },
            x_label: tick_rate,
            y_label: tick,
            styles: styles.iter().map(legend).collect(),
            things,
        });
        let level = share(1.0 - comparisons.rules.alpha);
        let caption = format!(
            "One mark a cell; level bars: {level} interval of throughput, which runs off the edge where it \
             is much wider than all marks; vertical bars: least and most {what} of a block."
        );
        let data = self.data(comparisons, &title, &y_title, &level);
        Some(Figure { title, caption, description: self.describe(comparisons, &what, unit), drawing, data })
    }

    /// Values of the style factor, in the order of the cells; one empty name if there is no such factor.
    fn styles(&self) -> Vec<String> {
        let mut styles = Vec::new();
        for cell in &self.cells {
            let style = self.style_of(cell);
            if !styles.contains(&style) {
                styles.push(style);
            }
        }
        styles
    }

    fn style_of(&self, cell: &Cell) -> String {
        self.style.and_then(|name| cell.levels.get(name)).cloned().unwrap_or_default()
    }

    fn cells_of<'a>(&'a self, a: &'a Levels) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().copied().filter(|cell| is_of(cell, a))
    }

    fn marks(&self, a: &Levels, styles: &[String]) -> Vec<Mark> {
        let mark = |cell: &Cell| {
            let (speed, value) = (cell.summary.as_ref().ok()?, self.values.get(&cell.levels)?);
            Some(Mark {
                style: styles.iter().position(|style| *style == self.style_of(cell))?,
                x: speed.mean,
                x_interval: speed.interval.as_ref().ok().copied(),
                y: value.mean,
                y_interval: Some((value.least, value.most)),
            })
        };
        self.cells_of(a).filter_map(mark).collect()
    }

    fn data(&self, comparisons: &Comparisons, title: &str, y_title: &str, level: &str) -> Table {
        let style = self.style.unwrap_or("condition");
        let heads = [
            "configuration",
            style,
            &format!("#{y_title}"),
            "#least",
            "#most",
            "#throughput",
            "#low",
            "#high",
            "#blocks",
        ];
        let mut data =
            Table::new(format!("{title}: means over blocks, {level} interval of throughput"), &heads);
        for a in configurations(comparisons) {
            for cell in self.cells_of(&a) {
                let (Ok(speed), Some(value)) = (cell.summary.as_ref(), self.values.get(&cell.levels)) else {
                    continue;
                };
                let rate = |v: f64| metric_value(Metric::Throughput, v);
                let ends = speed.interval.as_ref().ok();
                let row: [String; 9] = [
                    configuration(&a),
                    self.style_of(cell),
                    significant_4(value.mean),
                    significant_4(value.least),
                    significant_4(value.most),
                    rate(speed.mean),
                    ends.map_or("-".to_owned(), |e| rate(e.0)),
                    ends.map_or("-".to_owned(), |e| rate(e.1)),
                    value.n.to_string(),
                ];
                data.row(row.into_iter().map(Words::from).collect());
            }
        }
        data
    }

    fn describe(&self, comparisons: &Comparisons, what: &str, unit: &str) -> String {
        let mut told = Vec::new();
        for a in configurations(comparisons) {
            let marks = self.cells_of(&a).filter_map(|cell| {
                let (speed, value) = (cell.summary.as_ref().ok()?, self.values.get(&cell.levels)?);
                let style =
                    self.style.map_or(String::new(), |name| format!(" at {name} {}", self.style_of(cell)));
                let speed = metric_value(Metric::Throughput, speed.mean);
                Some(format!("{what} {} at {speed}{style}", with_unit(value.mean, unit)))
            });
            let marks: Vec<String> = marks.collect();
            if !marks.is_empty() {
                told.push(format!("{}: {}", configuration(&a), marks.join(", ")));
            }
        }
        format!("{}.", told.join("; "))
    }
}

fn with_unit(value: f64, unit: &str) -> String {
    let value = significant_4(value);
    if unit.is_empty() { value } else { format!("{value} {unit}") }
}

/// A round value without trailing zeros.
fn tick(value: f64) -> String {
    let text = significant_4(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The label and the unit of a value: `reduction_pct` is `reduction` in `%`.
fn paper_name(name: &str) -> (String, &'static str) {
    let units =
        [("_pct", "%"), ("_ratio", ""), ("_bytes", "bytes"), ("_ns", "ns"), ("_s", "s"), ("_count", "")];
    let known = units.into_iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, unit)));
    let (what, unit) = known.unwrap_or((name, ""));
    (what.replace('_', " "), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_on_paper_has_its_unit_apart() {
        assert_eq!(paper_name("reduction_pct"), ("reduction".into(), "%"));
        assert_eq!(paper_name("peak_memory_bytes"), ("peak memory".into(), "bytes"));
        assert_eq!(paper_name("restart_s"), ("restart".into(), "s"));
        assert_eq!(paper_name("pages"), ("pages".into(), ""));
    }
}
