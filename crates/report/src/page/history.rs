//! Metrics over the runs of an archive: a figure for each, with its levels, changes and breaks.

use analysis::history::{Break, Change, Drift, Excursion, History, Key};
use record::bakeoff::Metric;
use record::run::RunId;

use super::{Block, Figure, Page, Section, Table, Tone, Words};
use crate::chart::{Kind, Line, Lines, Point, lines, round_values};
use crate::number::{
    date_time, interval_named, metric_name, metric_value, named_value, p_value, significant,
};
use crate::text::{all_suspects, drift, excursion, history_answer, size_of_change, size_of_drift};

/// Figures on one page; histories with changes come first.
const FIGURES_MAX: usize = 40;
const DAY_NS: f64 = 86_400e9;

/// Lays out histories; those with changes come first.
///
/// - `none`: the claim if there is no history.
/// - `name`: short name of a run.
pub fn history(histories: &[History], none: &str, name: &dyn Fn(RunId) -> String) -> Page {
    let mut drawn: Vec<&History> = histories.iter().filter(|h| h.points.len() > 1).collect();
    drawn.sort_by_key(|history| (history.changes.is_empty(), history.drifts.is_empty()));
    let changes: usize = histories.iter().map(|h| h.changes.len()).sum();
    let is_open = histories.iter().any(|h| h.excursions.iter().any(|e| h.is_open(e)));
    let drifts = histories.iter().any(|h| !h.drifts.is_empty());
    let standing = match changes {
        0 if drifts => "drifts",
        0 if is_open => "newest runs apart",
        0 => "no change",
        _ => "changed",
    };
    let mut blocks: Vec<Block> =
        drawn.iter().take(FIGURES_MAX).map(|h| Block::Figure(figure(h, name))).collect();
    if drawn.len() > FIGURES_MAX {
        blocks.push(Block::Text(format!("{} more series are not drawn.", drawn.len() - FIGURES_MAX)));
    }
    Page {
        title: "History".to_owned(),
        question: String::new(),
        standing: Words::from(standing),
        claim: format!("{}.", history_answer(histories, none, name)),
        lead: Vec::new(),
        caveats: Vec::new(),
        byline: Vec::new(),
        sections: vec![Section { id: "history", title: "Metrics over all runs", blocks }],
        folded: Vec::new(),
    }
}

fn figure(history: &History, name: &dyn Fn(RunId) -> String) -> Figure {
    let key = &history.key;
    let of = history.subject();
    let of = if of.is_empty() { of } else { format!(" of {of}") };
    let days =
        |index: usize| (history.points[index].at_unix_ns - history.points[0].at_unix_ns) as f64 / DAY_NS;
    let last = days(history.points.len() - 1).max(1e-9);
    let at = |day: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of the chart")]
        let since = (day * DAY_NS) as u64;
        date_time(history.points[0].at_unix_ns + since)
    };
    // Beyond ten days the hour does not matter.
    let tick = |day: f64| (day, at(day).chars().take(if last > 10.0 { 10 } else { 16 }).collect::<String>());
    let runs = Line {
        name: "runs".to_owned(),
        points: (0..history.points.len()).map(|i| point(days(i), history.points[i].value)).collect(),
        banded: false,
        joined: false,
        gaps: Vec::new(),
    };
    let is_positive = history.points.iter().all(|p| p.value > 0.0);
    let drawing = lines(&Lines {
        x_title: "date (UTC)",
        y_title: &metric_name(key),
        x_kind: Kind::Linear,
        y_kind: if is_positive { Kind::Log } else { Kind::Linear },
        x_range: Some((0.0, last)),
        x_ticks: round_values(0.0, last, 5).into_iter().map(tick).collect(),
        y_label: value_tick(key),
        series: std::iter::once(runs).chain(levels(history, &days)).collect(),
    });
    Figure {
        title: format!("{}{of} on {}", metric_name(key), key.host),
        caption: "A mark is a run; the line is the level between changes.".to_owned(),
        description: format!(
            "{} runs from {} to {}; the changes are in the table.",
            history.points.len(),
            at(0.0),
            at(last)
        ),
        drawing,
        data: events(history, name),
    }
}

/// The writer of the labels beside the values, which are stored in a metric's base unit.
fn value_tick(key: &Key) -> fn(f64) -> String {
    match key.own_metric() {
        None if key.unit() == Some("s") => |v| metric_value(Metric::Time, v),
        None => significant,
        Some(Metric::Throughput) => |v| metric_value(Metric::Throughput, v),
        Some(Metric::P99 | Metric::P999 | Metric::CpuPerEvent | Metric::Time | Metric::Cpu) => {
            |v| metric_value(Metric::Time, v)
        }
        Some(Metric::LockCpu | Metric::MemoryGrowth) => |v| metric_value(Metric::LockCpu, v),
        Some(Metric::IoPerEvent) => |v| metric_value(Metric::IoPerEvent, v),
        Some(Metric::EnergyPerEvent) => |v| metric_value(Metric::EnergyPerEvent, v),
    }
}

fn point(x: f64, y: f64) -> Point {
    Point { x, y, interval: None, dots: Vec::new() }
}

/// The levels beside changes, if there are any.
fn levels(history: &History, days: &dyn Fn(usize) -> f64) -> Option<Line> {
    let first = history.changes.first()?;
    let mut points: Vec<Point> = (0..first.at).map(|i| point(days(i), first.before)).collect();
    for (change, next) in history
        .changes
        .iter()
        .zip(history.changes[1..].iter().map(|next| next.at).chain([history.points.len()]))
    {
        points.extend((change.at..next).map(|i| point(days(i), change.after)));
    }
    let gaps = history.changes.iter().map(|change| days(change.at - 1)).collect();
    Some(Line { name: "level".to_owned(), points, banded: true, joined: true, gaps })
}

/// Changes, drifts, excursions and breaks in time order.
fn events(history: &History, name: &dyn Fn(RunId) -> String) -> Table {
    let heads = ["since", "first run", "version", "#before", "#after", "change", "95 %", "#p", "new with it"];
    let mut table = Table::new("Changes, drifts, excursions and breaks", &heads);
    let mut rows: Vec<(usize, Vec<Words>)> =
        history.changes.iter().map(|c| (c.at, change(history, c, name))).collect();
    rows.extend(history.drifts.iter().map(|d| (d.from, of_drift(history, d, name))));
    rows.extend(history.excursions.iter().map(|e| (e.from, of_excursion(history, e, name))));
    rows.extend(history.breaks.iter().map(|b| (b.at, of_break(history, b, name))));
    rows.sort_by_key(|(at, _)| *at);
    for (_, row) in rows {
        table.row(row);
    }
    table
}

fn change(history: &History, change: &Change, name: &dyn Fn(RunId) -> String) -> Vec<Words> {
    let (key, at) = (&history.key, &history.points[change.at]);
    let size = judged(history, size_of_change(key, change), (change.before, change.after));
    let interval =
        change.ratio.as_ref().map_or(String::new(), |(_, low, high)| interval_named(key, *low, *high));
    vec![
        date_time(at.at_unix_ns).into(),
        name(at.run).into(),
        at.version.clone().unwrap_or_default().into(),
        named_value(key, change.before).into(),
        named_value(key, change.after).into(),
        size,
        interval.into(),
        p_value(change.p).into(),
        all_suspects(&change.suspects).into(),
    ]
}

/// `+18 %, worse`.
fn judged(history: &History, size: String, (before, after): (f64, f64)) -> Words {
    match history.sense.is_better(before, after) {
        Some(true) => Words::toned(format!("{size}, better"), Tone::Good),
        Some(false) => Words::toned(format!("{size}, worse"), Tone::Bad),
        None => size.into(),
    }
}

fn of_drift(history: &History, found: &Drift, name: &dyn Fn(RunId) -> String) -> Vec<Words> {
    let (key, at) = (&history.key, &history.points[found.from]);
    let size = format!("drift, {}", size_of_drift(key, found));
    let interval =
        found.ratio.as_ref().map_or(String::new(), |(_, low, high)| interval_named(key, *low, *high));
    vec![
        date_time(at.at_unix_ns).into(),
        name(at.run).into(),
        at.version.clone().unwrap_or_default().into(),
        named_value(key, found.before).into(),
        named_value(key, found.after).into(),
        judged(history, size, (found.before, found.after)),
        interval.into(),
        p_value(found.p).into(),
        drift(history, found, name).into(),
    ]
}

fn of_excursion(history: &History, found: &Excursion, name: &dyn Fn(RunId) -> String) -> Vec<Words> {
    let (key, at) = (&history.key, &history.points[found.from]);
    let interval =
        found.ratio.as_ref().map_or(String::new(), |(_, low, high)| interval_named(key, *low, *high));
    vec![
        date_time(at.at_unix_ns).into(),
        name(at.run).into(),
        at.version.clone().unwrap_or_default().into(),
        named_value(key, found.before).into(),
        named_value(key, found.level).into(),
        Words::toned(
            if history.is_open(found) { "newest runs: too few to be a level" } else { "excursion: it ended" },
            Tone::Doubt,
        ),
        interval.into(),
        p_value(found.p).into(),
        excursion(history, found, name).into(),
    ]
}

fn of_break(history: &History, found: &Break, name: &dyn Fn(RunId) -> String) -> Vec<Words> {
    let at = &history.points[found.at];
    let none = || Words::from("");
    vec![
        date_time(at.at_unix_ns).into(),
        name(at.run).into(),
        at.version.clone().unwrap_or_default().into(),
        none(),
        none(),
        Words::toned("break: not compared", Tone::Doubt),
        none(),
        none(),
        all_suspects(&found.what).into(),
    ]
}

#[cfg(test)]
mod tests {
    use analysis::history::{Numbers, Point as Value, Sense};
    use record::missing::Missing;

    use super::*;

    #[test]
    fn the_axis_has_the_unit_of_the_table() {
        let value = |i: u64| Value {
            at_unix_ns: i * 86_400_000_000_000,
            run: "00000000000000000000000001".parse().expect("an id"),
            host: "h".into(),
            version: None,
            value: 0.004 + 0.001 * i as f64,
            interval: Err(Missing::because("one value")),
            facts: std::sync::Arc::default(),
        };
        let drawn = |numbers| {
            let key = Key { metric: "p99".into(), subject: "s".into(), host: "h".into(), numbers };
            let points = (0..5).map(value).collect();
            let history = History {
                key,
                told_apart: Vec::new(),
                sense: Sense::Less,
                points,
                breaks: Vec::new(),
                changes: Vec::new(),
                drifts: Vec::new(),
                excursions: Vec::new(),
                untested: 5,
            };
            figure(&history, &|_| String::new()).drawing.wide.body
        };
        assert!(drawn(Numbers::Ours).contains("ms</text>"), "{}", drawn(Numbers::Ours));
        assert!(drawn(Numbers::OfFile("s".into())).contains("ms</text>"));
        assert!(!drawn(Numbers::OfFile(String::new())).contains("ms</text>"));
    }
}
