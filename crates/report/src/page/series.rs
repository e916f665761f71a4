//! Numbers over time from any tool or instrument: a table of all series, and a picture of series that change
//! together.

use std::collections::BTreeMap;

use analysis::{AllSeries, Series};

use super::over_time::{PLACES_MAX, seconds_ticks};
use super::{Block, Figure, Section, Table, Words};
use crate::chart::{Kind, Line, Lines, Point, lines};
use crate::number::{count, significant, significant_4, span};

/// Maximum number of lines in a readable picture.
const LINES_MAX: usize = 6;
/// Maximum number of pictures; the tables have the other series.
const FIGURES_MAX: usize = 100;
/// Maximum number of unfolded rows of one name; the largest are shown.
const ROWS_MAX: usize = 20;

/// The sentence with the number of recorded series and samples.
pub(super) fn claim(recorded: &[Series]) -> String {
    let moments = recorded.iter().map(|s| s.values).max().unwrap_or(0);
    let ends = || recorded.iter().flat_map(|s| &s.points).map(|(t_s, _)| *t_s);
    let over_s = ends().fold(f64::NEG_INFINITY, f64::max) - ends().fold(f64::INFINITY, f64::min);
    let series = count(recorded.len() as u64);
    match moments {
        0 => "Nothing was recorded over time.".to_owned(),
        1 => format!("{series} values at one moment."),
        n => format!("{series} series of up to {} values over {}.", count(n), span(over_s)),
    }
}

/// The section of recorded series, or `None` without any.
///
/// - `own`: the machine of the run, if there may be series of others, which are then named.
pub(super) fn section(recorded: &AllSeries, own: Option<&str>) -> Option<Section> {
    if *recorded == AllSeries::default() {
        return None;
    }
    let mut by_name: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
    for series in &recorded.series {
        by_name.entry(&series.name).or_default().push(series);
    }
    let mut blocks: Vec<Block> = recorded.note.iter().cloned().map(Block::Text).collect();
    blocks.extend(figures(&by_name, own).into_iter().take(FIGURES_MAX).map(Block::Figure));
    let (single, many): (Vec<_>, Vec<_>) = by_name.values().partition(|all| all.len() == 1);
    if !single.is_empty() {
        let mut table = table("Series with one line each", "series");
        for series in single.iter().flat_map(|all| all.iter()) {
            table.row(row(&of_machine(series.name.to_string(), series, own), series));
        }
        blocks.push(Block::Table(table));
    }
    blocks.extend(many.into_iter().map(|all| Block::Table(labelled(all, own))));
    Some(Section { id: "series", title: "Recorded over time", blocks })
}

/// The series of one name, the largest first.
fn labelled(all: &[&Series], own: Option<&str>) -> Table {
    let mut sorted = all.to_vec();
    sorted.sort_by(|a, b| b.mean.total_cmp(&a.mean));
    let shown = sorted.len().min(ROWS_MAX);
    let of = match sorted.len() - shown {
        0 => String::new(),
        _ => format!(", the {shown} greatest of {}", count(sorted.len() as u64)),
    };
    let mut table = table(&format!("{}{of}", all[0].name), "of what");
    for series in &sorted[..shown] {
        table.row(row(&identity(series, all, own), series));
    }
    table
}

/// A name with the machine, if that is not the run's.
fn of_machine(name: String, series: &Series, own: Option<&str>) -> String {
    match own {
        Some(own) if series.host != *own => format!("{name} on {}", series.host),
        _ => name,
    }
}

/// The parts of a series' identity that differ between series of its name, and a machine that is not the
/// run's.
fn identity(series: &Series, all: &[&Series], own: Option<&str>) -> String {
    let one_host =
        all.iter().all(|other| other.host == series.host) && own.is_none_or(|own| series.host == *own);
    match (one_host, series.labels.is_empty()) {
        (true, _) => series.labels.clone(),
        (false, true) => series.host.to_string(),
        (false, false) => format!("{} {}", series.host, series.labels),
    }
}

fn table(caption: &str, of: &str) -> Table {
    Table::new(caption, &[of, "#values", "#mean", "#least", "#greatest"])
}

fn row(name: &str, series: &Series) -> Vec<Words> {
    let value = |v: f64| Words::from(written(&series.name, v));
    vec![name.into(), count(series.values).into(), value(series.mean), value(series.min), value(series.max)]
}

/// A value formatted for its unit.
pub(crate) fn written(name: &str, value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, positive and below 1e15"
    )]
    if !name.ends_with("_ratio") && (0.0..1e15).contains(&value) && value.fract() == 0.0 {
        return count(value as u64);
    }
    match value.abs() {
        _ if name.ends_with("_ratio") => format!("{} %", significant(value * 100.0)),
        // A time of a benchmark may be some nanoseconds.
        small if small < 0.01 => significant(value),
        _ => significant_4(value),
    }
}

/// One picture for a tool's ratios, one for its other lines, and one for each name with many series.
fn figures(by_name: &BTreeMap<&str, Vec<&Series>>, own: Option<&str>) -> Vec<Figure> {
    let mut groups: BTreeMap<(String, bool), Vec<(&str, &Series)>> = BTreeMap::new();
    let mut found = Vec::new();
    for (name, all) in by_name {
        let moving: Vec<&Series> = all.iter().copied().filter(|s| s.points.len() > 1).collect();
        let is_share = name.ends_with("_ratio");
        match moving[..] {
            [] => {}
            [series] => {
                let tool = name.split('_').next().unwrap_or(name).to_owned();
                groups.entry((tool, is_share)).or_default().push((name, series));
            }
            _ => {
                let named: Vec<(String, &Series)> =
                    moving.iter().map(|s| (identity(s, all, own), *s)).collect();
                found.extend(figure((*name).to_owned(), is_share, named));
            }
        }
    }
    let grouped = groups.into_iter().filter_map(|((tool, is_share), all)| {
        let named = all.iter().map(|(name, s)| (of_machine(short(name, &tool), s, own), *s)).collect();
        let title = if is_share { format!("{tool}: shares over time") } else { format!("{tool} over time") };
        figure(title, is_share, named)
    });
    grouped.chain(found).collect()
}

fn short(name: &str, tool: &str) -> String {
    name.strip_prefix(tool).unwrap_or(name).trim_start_matches('_').trim_end_matches("_ratio").to_owned()
}

fn figure(title: String, is_share: bool, mut all: Vec<(String, &Series)>) -> Option<Figure> {
    // The largest are drawn; a line that is always 0 is left out.
    all.retain(|(_, s)| s.max > 0.0);
    all.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
    let left_out = all.len().saturating_sub(LINES_MAX);
    all.truncate(LINES_MAX);
    let ends = || all.iter().flat_map(|(_, s)| &s.points).map(|(t_s, _)| *t_s);
    let (from_s, until_s) = (ends().reduce(f64::min)?, ends().reduce(f64::max)?);
    let mut data = table("The lines", "line");
    for (name, series) in &all {
        data.row(row(name, series));
    }
    let drawing = lines(&Lines {
        x_title: "seconds since it began",
        y_title: if is_share { "%" } else { "value, in the unit of its name" },
        x_kind: Kind::Linear,
        x_range: Some((from_s, until_s)),
        y_kind: if is_share { Kind::Linear } else { Kind::Log },
        x_ticks: seconds_ticks(from_s, until_s),
        y_label: if is_share { tick_share } else { tick_value },
        series: all.iter().map(|(name, series)| line(name, series, is_share)).collect(),
    });
    let rest = match left_out {
        0 => String::new(),
        n => format!(" {n} smaller ones are left out."),
    };
    let is_merged = |s: &Series| s.points.len() > PLACES_MAX || s.values > s.points.len() as u64;
    let merged = if all.iter().any(|(_, s)| is_merged(s)) {
        " Neighbouring values are averaged, because a line cannot show more points."
    } else {
        ""
    };
    let zeros =
        if is_share { "" } else { " The logarithmic axis cannot show values of 0: a line is broken there." };
    Some(Figure {
        title,
        caption: format!("Each value stands at the end of the interval it describes.{merged}{zeros}{rest}"),
        description:
            "A line for each series, from its first value to its last; mean, least and greatest are in \
                      the table."
                .into(),
        drawing,
        data,
    })
}

/// A round value without trailing zeros; from ten thousand on in thousands (k), millions (M), thousand
/// millions (G), because the place for it is narrow.
pub(super) fn tick_value(value: f64) -> String {
    let (value, prefix) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v if v >= 1e3 || (v != 0.0 && v.abs() < 1e-5) => return significant(v),
        v => (v, ""),
    };
    format!("{}{prefix}", (value * 1e6).round() / 1e6)
}

fn tick_share(ratio: f64) -> String {
    tick_value(ratio * 100.0)
}

fn line(name: &str, series: &Series, is_share: bool) -> Line {
    let chunk = series.points.len().div_ceil(PLACES_MAX);
    let point = |some: &[(f64, f64)]| {
        let y = some.iter().map(|(_, value)| value).sum::<f64>() / some.len() as f64;
        Point { x: some[some.len() - 1].0, y, interval: None, dots: Vec::new() }
    };
    let all = series.points.chunks(chunk).map(point);
    let (points, hidden): (Vec<Point>, Vec<Point>) = all.partition(|p| is_share || p.y > 0.0);
    let gaps = hidden.iter().map(|p| p.x).collect();
    Line { name: cut(name), points, banded: true, joined: true, gaps }
}

/// The end of a long name: it distinguishes more than the beginning.
pub(super) fn cut(name: &str) -> String {
    const LETTERS_MAX: usize = 26;
    let letters = name.chars().count();
    if letters <= LETTERS_MAX {
        return name.to_owned();
    }
    std::iter::once('…').chain(name.chars().skip(letters - (LETTERS_MAX - 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_value_is_not_0() {
        for (value, shown) in
            [(1.57e-6, "1.57e-6"), (0.0012, "0.00120"), (0.0, "0"), (0.5, "0.500"), (7.0, "7")]
        {
            assert_eq!(written("time", value), shown);
        }
        assert_eq!(
            (tick_value(3e-7), tick_value(0.25), tick_value(0.0)),
            ("3.00e-7".into(), "0.25".into(), "0".into())
        );
    }

    #[test]
    fn a_line_on_a_logarithmic_axis_is_broken_where_the_value_is_0() {
        let points: Vec<(f64, f64)> =
            [5.0, 5.0, 0.0, 0.0, 5.0, 5.0].into_iter().zip(0..).map(|(v, t)| (f64::from(t), v)).collect();
        let (name, host, labels) = ("calls_per_s".into(), "h".into(), String::new());
        let series = Series { name, host, labels, values: 6, points, mean: 3.3, min: 0.0, max: 5.0 };
        let drawn = line("calls", &series, false);
        assert_eq!((drawn.points.len(), drawn.gaps), (4, vec![2.0, 3.0]));
        let share = line("calls", &series, true);
        assert_eq!((share.points.len(), share.gaps.len()), (6, 0), "0 is a share like any other");
    }
}
