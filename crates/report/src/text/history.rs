//! Metrics over the runs of an archive, at a terminal: a chart in characters, the levels, the changes.

mod chart;
mod suspects;

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::history::{Change, Drift, Excursion, History, Key, LEVEL_MIN, VALUES_MAX, VALUES_MIN};
use record::missing::Maybe;
use record::run::RunId;

use self::chart::chart;
pub(crate) use self::suspects::all_suspects;
use super::table::{Align, Table};
use super::{Style, Tint, ending, labelled, paragraph, tinted};
use crate::number::{
    change_named, date_time, interval_named, metric_name, named_value, p_value, share, significant,
};
use crate::words::plural;

/// Metrics without a value, with the reason and the number of runs.
pub type Left<'a> = &'a [(String, String, usize)];

/// Histories that are drawn; of more, only those with changes.
const DRAWN_MAX: usize = 3;
/// Suspects that are named for a change.
const SUSPECTS_MAX: usize = 6;

/// Writes each history with its changes, and the newest change and newest runs apart as last line.
///
/// - `alpha`: probability of a false change that each series was allowed.
/// - `none`: the answer if there is no history.
/// - `name`: short name of a run.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn history(
    out: &mut dyn Write,
    histories: &[History],
    left_out: Left<'_>,
    (alpha, none): (f64, &str),
    name: &dyn Fn(RunId) -> String,
    style: Style,
) -> io::Result<()> {
    if histories.len() > 1 {
        overview(histories).write(out, style)?;
        writeln!(out)?;
    }
    let has_found = |history: &History| {
        !history.changes.is_empty() || !history.drifts.is_empty() || !history.excursions.is_empty()
    };
    let is_drawn = |history: &&History| histories.len() <= DRAWN_MAX || has_found(history);
    for history in histories.iter().filter(is_drawn) {
        one(out, history, name, style)?;
    }
    for (metric, why, runs) in left_out {
        paragraph(out, &format!("{metric} of {} is left out: {why}.", plural(*runs, "run")), 2, style)?;
    }
    for line in conditions(histories) {
        paragraph(out, &line, 2, style)?;
    }
    if let Some(by_chance) = by_chance(histories, alpha) {
        paragraph(out, &by_chance, 2, style)?;
    }
    ending::answer(out, &history_answer(histories, none, name), style)
}

/// Time of the first run and number of runs, by condition.
type Conditions = BTreeMap<String, (u64, usize)>;

/// `X on h has 2 series: rate=1000/s (30 runs); rate=5000/s (9 runs). They are not compared.`
fn conditions(histories: &[History]) -> Vec<String> {
    let mut all: BTreeMap<(&str, &str), Conditions> = BTreeMap::new();
    for history in histories {
        let Some(condition) = history.condition() else { continue };
        let key = (history.key.subject.as_str(), history.key.host.as_str());
        let since_ns = history.points.first().map_or(0, |point| point.at_unix_ns);
        // A run may lack some of the metrics.
        let (first_ns, runs) = all.entry(key).or_default().entry(condition).or_insert((since_ns, 0));
        (*first_ns, *runs) = (since_ns.min(*first_ns), history.points.len().max(*runs));
    }
    let told = |((subject, host), conditions): ((&str, &str), Conditions)| {
        let mut conditions: Vec<(String, (u64, usize))> = conditions.into_iter().collect();
        conditions.sort_by_key(|(_, (first_ns, _))| *first_ns);
        let of: Vec<String> = conditions
            .iter()
            .map(|(condition, (_, runs))| format!("{condition} ({})", plural(*runs, "run")))
            .collect();
        let what = if subject.is_empty() { String::new() } else { format!("{subject} ") };
        format!("{what}on {host} has {} series: {}. They are not compared.", of.len(), of.join("; "))
    };
    all.into_iter().map(told).collect()
}

/// Number of tested series from which chance is mentioned.
const MANY: usize = 10;

/// Number of series that noise alone would give a change.
fn by_chance(histories: &[History], alpha: f64) -> Option<String> {
    let tested = histories.iter().filter(|history| history.untested < history.points.len()).count();
    (tested >= MANY).then(|| {
        format!(
            "{tested} series were tested, each at {}: noise alone gives about {} of them a change, as many a \
             drift, and {} newest runs that lie apart.",
            share(alpha),
            significant(tested as f64 * alpha),
            significant(tested as f64 * alpha * analysis::history::OF_NEWEST)
        )
    })
}

fn overview(histories: &[History]) -> Table {
    let mut table = Table::default()
        .column("metric", Align::Left, 0)
        .column("of", Align::Elastic, 1)
        .column("on", Align::Elastic, 4)
        .column("runs", Align::Right, 3)
        .column("newest", Align::Right, 2)
        .column("last change", Align::Left, 0);
    for history in histories {
        let key = &history.key;
        let newest = history.points.last().map_or(String::new(), |p| named_value(key, p.value));
        let last = match history.changes.last() {
            Some(change) => (size_of_change(key, change), tint(history, change)),
            None if history.untested == history.points.len() => ("too few runs".to_owned(), Tint::Doubt),
            None if newest_apart(history).is_some() => ("newest runs apart".to_owned(), Tint::Doubt),
            None if !history.drifts.is_empty() => drift_cell(history),
            None if !history.excursions.is_empty() => ("an excursion".to_owned(), Tint::Doubt),
            None => ("none".to_owned(), Tint::Quiet),
        };
        table.row(vec![
            (key.metric.clone(), None),
            (history.subject(), None),
            (key.host.clone(), None),
            (history.points.len().to_string(), None),
            (newest, None),
            (last.0, Some(last.1)),
        ]);
    }
    table
}

/// `drifts +18 %`, or `drifted` before a break: the last one.
fn drift_cell(history: &History) -> (String, Tint) {
    let cell =
        |found: &Drift| format!("{} {}", drifts_word(history, found), size_of_drift(&history.key, found));
    (history.drifts.last().map_or(String::new(), cell), Tint::Doubt)
}

fn drifts_word(history: &History, found: &Drift) -> &'static str {
    if history.goes_on(found) { "drifts" } else { "drifted" }
}

fn one(
    out: &mut dyn Write,
    history: &History,
    name: &dyn Fn(RunId) -> String,
    style: Style,
) -> io::Result<()> {
    let (Some(first), Some(last)) = (history.points.first(), history.points.last()) else { return Ok(()) };
    let key = &history.key;
    let of = history.subject();
    let of = if of.is_empty() { of } else { format!(" of {of}") };
    let title = tinted(&metric_name(key), Tint::Strong, style);
    writeln!(out, "{title}{}", tinted(&format!("{of} on {}", key.host), Tint::Quiet, style))?;
    chart(out, history, style)?;
    let (from, to) = (date_time(first.at_unix_ns), date_time(last.at_unix_ns));
    paragraph(out, &format!("{} from {from} to {to}.", plural(history.points.len(), "run")), 2, style)?;
    if !history.changes.is_empty() {
        levels(history, name).write(out, style)?;
    }
    for (number, change) in history.changes.iter().enumerate() {
        suspects(out, number + 1, change, style)?;
    }
    for found in &history.drifts {
        labelled(out, ("drift: ", Some(Tint::Doubt)), &drift(history, found, name), 4, style)?;
    }
    for found in &history.excursions {
        labelled(out, ("excursion: ", Some(Tint::Doubt)), &excursion(history, found, name), 4, style)?;
    }
    for found in &history.breaks {
        let run = name(history.points[found.at].run);
        let text = format!("at run {run}: {}; not compared across it", all_suspects(&found.what));
        labelled(out, ("break: ", Some(Tint::Doubt)), &text, 7, style)?;
    }
    if history.untested > 0 {
        let few = plural(history.untested, "run");
        // Either cause, or both.
        let text = if history.points.len() > VALUES_MAX {
            format!(
                "{few} not tested: of a stretch without a break the newest {VALUES_MAX} runs are tested, and it needs \
                 {VALUES_MIN}."
            )
        } else {
            format!("{few} not tested: a stretch without a break needs {VALUES_MIN} runs.")
        };
        paragraph(out, &text, 2, style)?;
    }
    writeln!(out)
}

/// Levels between changes and breaks.
fn levels(history: &History, name: &dyn Fn(RunId) -> String) -> Table {
    let mut table = Table::default()
        .column("", Align::Right, 0)
        .column("since", Align::Left, 2)
        .column("first run", Align::Left, 3)
        .column("version", Align::Elastic, 4)
        .column("level", Align::Right, 0)
        .column("change", Align::Right, 0)
        .column("95 %", Align::Left, 1)
        .column("p", Align::Right, 3);
    let key = &history.key;
    for (number, change) in history.changes.iter().enumerate() {
        let point = &history.points[change.at];
        let interval =
            change.ratio.as_ref().map_or(String::new(), |(_, low, high)| interval_named(key, *low, *high));
        table.row(vec![
            ((number + 1).to_string(), None),
            (date_time(point.at_unix_ns), None),
            (name(point.run), None),
            (point.version.clone().unwrap_or_default(), None),
            (format!("{} -> {}", named_value(key, change.before), named_value(key, change.after)), None),
            (size_of_change(key, change), Some(tint(history, change))),
            (interval, None),
            (p_value(change.p), None),
        ]);
    }
    table
}

/// `4 runs, DATE (run a) to DATE (run b): 1.00 ms -> 1.30 ms, +30 % [+28 %, +32 %], and back`; of the newest
/// runs: `newest 4 runs, since DATE (run a): ...: too few to be a level (5); run it again`.
pub(crate) fn excursion(history: &History, found: &Excursion, name: &dyn Fn(RunId) -> String) -> String {
    let key = &history.key;
    let end = |at: usize| {
        let point = &history.points[at];
        format!("{} (run {})", date_time(point.at_unix_ns), name(point.run))
    };
    let (runs, from, last) = (plural(found.until - found.from, "run"), end(found.from), end(found.until - 1));
    let is_open = history.is_open(found);
    let when = match found.until - found.from {
        _ if is_open => format!("newest {runs}, since {from}"),
        1 => format!("1 run, {from}"),
        _ => format!("{runs}, {from} to {last}"),
    };
    let size = found.ratio.as_ref().map_or(String::new(), |(ratio, low, high)| {
        format!(", {} {}", change_named(key, *ratio), interval_named(key, *low, *high))
    });
    let (before, level) = (named_value(key, found.before), named_value(key, found.level));
    let after = match found.then {
        _ if is_open => format!(": too few to be a level ({LEVEL_MIN}); run it again"),
        Some(_) if found.is_back => ", and back".to_owned(),
        Some(then) => format!(", then {}", named_value(key, then)),
        None => ", up to a break".to_owned(),
    };
    format!("{when}: {before} -> {level}{size}{after}")
}

/// `DATE (run a) to DATE (run b): 100.0 -> 117.7, +18 % [+15 %, +20 %], p 0.001; no single step stands out`.
pub(crate) fn drift(history: &History, found: &Drift, name: &dyn Fn(RunId) -> String) -> String {
    let key = &history.key;
    let at = |index: usize| {
        let point = &history.points[index];
        format!("{} (run {})", date_time(point.at_unix_ns), name(point.run))
    };
    let interval = found
        .ratio
        .as_ref()
        .map_or(String::new(), |(_, low, high)| format!(" {}", interval_named(key, *low, *high)));
    format!(
        "{} to {}: {}{interval}, p {}; no single step stands out",
        at(found.from),
        at(found.until - 1),
        drift_size(history, found),
        p_value(found.p)
    )
}

/// `100.0 -> 117.7, +18 % (worse)`.
fn drift_size(history: &History, found: &Drift) -> String {
    let key = &history.key;
    let (before, after) = (named_value(key, found.before), named_value(key, found.after));
    let size = size_of_drift(key, found);
    format!("{before} -> {after}, {size}{}", sense(history, found.before, found.after))
}

/// `+18 %`; without a ratio, the difference.
pub(crate) fn size_of_drift(key: &Key, found: &Drift) -> String {
    size_of(key, &found.ratio, found.after - found.before)
}

/// The newest runs, if they lie apart and are too few to be a level.
fn newest_apart(history: &History) -> Option<&Excursion> {
    history.excursions.last().filter(|found| history.is_open(found))
}

/// `+8.1 %`; without a ratio, the difference.
pub(crate) fn size_of_change(key: &Key, change: &Change) -> String {
    size_of(key, &change.ratio, change.after - change.before)
}

fn size_of(key: &Key, ratio: &Maybe<(f64, f64, f64)>, by: f64) -> String {
    match ratio {
        Ok((ratio, ..)) => change_named(key, *ratio),
        Err(_) => format!("{}{}", if by > 0.0 { "+" } else { "" }, named_value(key, by)),
    }
}

fn tint(history: &History, change: &Change) -> Tint {
    match history.sense.is_better(change.before, change.after) {
        Some(true) => Tint::Good,
        Some(false) => Tint::Bad,
        None => Tint::Strong,
    }
}

fn suspects(out: &mut dyn Write, number: usize, change: &Change, style: Style) -> io::Result<()> {
    let label = format!("new with {number}: ");
    let text = if change.suspects.is_empty() {
        "nothing that the runs recorded".to_owned()
    } else {
        let shown = &change.suspects[..change.suspects.len().min(SUSPECTS_MAX)];
        let more = match change.suspects.len() - shown.len() {
            0 => String::new(),
            more => format!("; and {more} more (--json)"),
        };
        all_suspects(shown) + &more
    };
    labelled(out, (&label, Some(Tint::Quiet)), &text, 4, style)
}

/// Names the number of values that is too small: of one series, or of its longest stretch without a break.
fn cannot_tell(all: usize, histories: &[History]) -> String {
    let stretches = histories.iter().flat_map(|history| {
        let breaks = history.breaks.iter().map(|found| found.at);
        let ends: Vec<usize> = std::iter::once(0).chain(breaks).chain([history.points.len()]).collect();
        ends.windows(2).map(|ends| ends[1] - ends[0]).collect::<Vec<_>>()
    });
    let longest = stretches.max().unwrap_or(0);
    let of_one = histories.iter().map(|history| history.points.len()).max().unwrap_or(0);
    let values = plural(all, "value");
    let needed = if of_one > longest {
        format!("at most {longest} of one series without a break, {VALUES_MIN} needed")
    } else if histories.len() > 1 {
        format!("at most {longest} of one series, {VALUES_MIN} needed")
    } else {
        format!("{VALUES_MIN} needed")
    };
    let series = if histories.len() > 1 { format!(" in {} series", histories.len()) } else { String::new() };
    format!("cannot tell: {values}{series}, {needed}")
}

/// `, 1 excursion that ended`.
fn excursions(histories: &[History]) -> String {
    let ended = |history: &History| history.excursions.iter().filter(|e| !history.is_open(e)).count();
    match histories.iter().map(ended).sum() {
        0 => String::new(),
        all => format!(", {} that ended", plural(all, "excursion")),
    }
}

/// `; newest 4 runs of p99 +30 % (worse): too few to be a level, run it again`.
fn newest_runs(histories: &[History]) -> String {
    let open: Vec<(&History, &Excursion)> =
        histories.iter().filter_map(|h| Some((h, newest_apart(h)?))).collect();
    match &open[..] {
        [] => String::new(),
        [(history, found)] => format!(
            "; newest {} of {} {}{}: too few to be a level, run it again",
            plural(found.until - found.from, "run"),
            history.key.metric,
            size_of(&history.key, &found.ratio, found.level - found.before),
            sense(history, found.before, found.level)
        ),
        _ => format!("; newest runs lie apart in {} series: too few to be levels, run again", open.len()),
    }
}

/// ` (worse)`.
fn sense(history: &History, before: f64, after: f64) -> &'static str {
    match history.sense.is_better(before, after) {
        Some(true) => " (better)",
        Some(false) => " (worse)",
        None => "",
    }
}

/// The newest change of all histories, in a line; `none` without a value.
pub(crate) fn history_answer(histories: &[History], none: &str, name: &dyn Fn(RunId) -> String) -> String {
    let newest = histories.iter().flat_map(|h| h.changes.iter().map(move |c| (h, c)));
    let newest = newest.max_by_key(|(h, c)| h.points[c.at].at_unix_ns);
    let Some((history, change)) = newest else {
        if let Some(drifts) = drifts_answer(histories) {
            return format!("{drifts}{}{}", excursions(histories), newest_runs(histories));
        }
        let tested: usize = histories.iter().map(|h| h.points.len() - h.untested).sum();
        let all: usize = histories.iter().map(|h| h.points.len()).sum();
        return match (all, tested) {
            (0, _) => none.to_owned(),
            (_, 0) => cannot_tell(all, histories),
            _ => {
                let series = histories.len();
                format!(
                    "no change in {} of {series} series{}{}",
                    plural(tested, "value"),
                    excursions(histories),
                    newest_runs(histories)
                )
            }
        };
    };
    let (key, point) = (&history.key, &history.points[change.at]);
    let sense = sense(history, change.before, change.after);
    let interval = change.ratio.as_ref().map_or(String::new(), |(_, low, high)| {
        format!(", 95 %: {}", interval_named(key, *low, *high).trim_matches(['[', ']']).replace(", ", " to "))
    });
    let version = point.version.as_ref().map_or_else(|| format!("run {}", name(point.run)), Clone::clone);
    let at = history.condition().map_or(String::new(), |condition| format!(" at {condition}"));
    format!(
        "{}{at} {}{sense}{interval}, since {} ({version}){}{}",
        key.metric,
        size_of_change(key, change),
        date_time(point.at_unix_ns),
        drifts_answer(histories).map_or(String::new(), |drifts| format!("; {drifts}")),
        newest_runs(histories)
    )
}

/// `p99 drifts: 1.00 ms -> 1.18 ms, +18 % (worse) over the span; no single step stands out`; of several, the
/// last one that goes on, and the number of others.
fn drifts_answer(histories: &[History]) -> Option<String> {
    let all = || histories.iter().flat_map(|h| h.drifts.iter().map(move |d| (h, d)));
    let (history, found) = all().max_by_key(|(h, d)| (h.goes_on(d), h.points[d.until - 1].at_unix_ns))?;
    let others = match all().count() - 1 {
        0 => String::new(),
        others => format!("; {}", plural(others, "more drift")),
    };
    let at = history.condition().map_or(String::new(), |condition| format!(" at {condition}"));
    let size = drift_size(history, found);
    let date = |index: usize| date_time(history.points[index].at_unix_ns);
    let since = match found.from {
        from if !history.goes_on(found) => format!("from {} to {}", date(from), date(found.until - 1)),
        0 => "over the span".to_owned(),
        from => format!("since {}", date(from)),
    };
    let (metric, drifts) = (&history.key.metric, drifts_word(history, found));
    Some(format!("{metric}{at} {drifts}: {size} {since}; no single step stands out{others}"))
}

#[cfg(test)]
mod tests {
    use analysis::history::Break;

    use super::*;

    fn key(metric: &str) -> Key {
        let numbers = analysis::history::Numbers::Ours;
        Key { metric: metric.into(), subject: "s".into(), host: "h".into(), numbers }
    }

    /// A series of `n` values that were not tested.
    fn history_of(n: u64, breaks: &[usize]) -> History {
        use analysis::history::{Point, Sense};
        let point = |i: u64| Point {
            at_unix_ns: i,
            run: "00000000000000000000000001".parse().expect("an id"),
            host: "h".into(),
            version: None,
            value: 1.0,
            interval: Err(record::missing::Missing::because("one value")),
            facts: std::sync::Arc::default(),
        };
        History {
            key: key("time"),
            told_apart: Vec::new(),
            sense: Sense::Less,
            points: (0..n).map(point).collect(),
            breaks: breaks.iter().map(|at| Break { at: *at, what: Vec::new() }).collect(),
            changes: Vec::new(),
            drifts: Vec::new(),
            excursions: Vec::new(),
            untested: usize::try_from(n).expect("a few"),
        }
    }

    /// A tested series of `n` days, in units of another tool.
    fn history_with(n: u64, value: impl Fn(usize) -> f64) -> History {
        let mut history = History { untested: 0, key: key("of another tool"), ..history_of(n, &[]) };
        for (i, point) in history.points.iter_mut().enumerate() {
            (point.at_unix_ns, point.value) = (86_400_000_000_000 * i as u64, value(i));
        }
        history
    }

    #[test]
    fn a_drift_is_in_the_last_line_and_has_a_line() {
        let mut rises = history_with(60, |i| 100.0 + 0.3 * i as f64);
        let told = |histories: &[History]| history_answer(histories, "none", &|_| "a".to_owned());
        assert_eq!(told(&[rises.clone()]), "no change in 60 values of 1 series");
        let ratio = Ok((1.177, 1.15, 1.2));
        rises.drifts = vec![Drift { from: 0, until: 60, before: 100.0, after: 117.7, ratio, p: 0.001 }];
        let expected =
            "of another tool drifts: 100.0 -> 117.7, +18 % (worse) over the span; no single step stands out";
        assert_eq!(told(&[rises.clone()]), expected);
        let two = [rises.clone(), rises.clone()];
        assert_eq!(told(&two), format!("{expected}; 1 more drift"));
        // A break ended the drift: the newest runs are level.
        let mut ended = rises.clone();
        ended.drifts[0].until = 30;
        let said = told(&[ended.clone()]);
        assert!(said.contains("drifted: 100.0 -> 117.7, +18 % (worse) from 1970-01-01"), "{said}");
        assert!(told(&[ended, rises.clone()]).starts_with(expected), "the one that goes on first");
        let mut text = Vec::new();
        history(&mut text, &two, &[], (0.05, "none"), &|_| "a".to_owned(), Style::PIPE).expect("memory");
        let text = String::from_utf8(text).expect("text");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("drifts +18 %") && text.contains("drift: 1970-01-01 00:00"), "{text}");
    }

    #[test]
    fn series_of_one_subject_are_named_by_what_tells_them_apart() {
        let of = |metric: &str, rate: &str, runs: u64| History {
            key: key(metric),
            told_apart: vec![("rate".to_owned(), rate.to_owned()), ("threads".to_owned(), "2".to_owned())],
            ..history_of(runs, &[])
        };
        // The slower one was measured too late for a p99.
        let all = [of("cpu-per-event", "900/s", 3), of("cpu-per-event", "5000/s", 2), of("p99", "5000/s", 1)];
        let mut text = Vec::new();
        history(&mut text, &all, &[], (0.05, "none"), &|_| String::new(), Style::PIPE).expect("memory");
        let text = String::from_utf8(text).expect("text");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // They began at the same time.
        let expected = "on h has 2 series: rate=5000/s, threads=2 (2 runs); rate=900/s, threads=2 (3 runs). They \
                        are not compared.";
        assert!(text.contains(expected) && text.contains(", rate=900/s, threads=2"), "{text}");
        assert!(conditions(&[history_of(3, &[])]).is_empty());
    }

    #[test]
    fn cannot_tell_names_the_number_that_is_too_small() {
        let told = |histories: &[History]| history_answer(histories, "none", &|_| String::new());
        let four: Vec<History> = (0..4).map(|_| history_of(4, &[])).collect();
        assert_eq!(told(&four), "cannot tell: 16 values in 4 series, at most 4 of one series, 11 needed");
        assert_eq!(told(&[history_of(4, &[])]), "cannot tell: 4 values, 11 needed");
        let broken = told(&[history_of(16, &[10])]);
        assert_eq!(broken, "cannot tell: 16 values, at most 10 of one series without a break, 11 needed");
    }

    #[test]
    fn a_change_of_a_share_is_in_points() {
        let change = |ratio: f64| Change {
            at: 1,
            before: 1.0,
            after: ratio,
            ratio: Ok((ratio, ratio, ratio)),
            p: 0.01,
            suspects: Vec::new(),
        };
        assert_eq!(size_of_change(&key("memory-growth"), &change(0.05_f64.exp())), "+5.00 pp");
        assert_eq!(size_of_change(&key("p99"), &change(1.05)), "+5.0 %");
        assert_eq!(size_of_change(&key("of another tool"), &change(1.05)), "+5.0 %");
    }

    #[test]
    fn a_value_beyond_the_chart_is_not_drawn_as_if_it_were_at_its_edge() {
        let value = |i: usize| match i {
            30 => 999.0,
            _ => 100.0 + (i % 5) as f64,
        };
        let history = history_with(100, value);
        let drawn = |history: &History| {
            let mut text = Vec::new();
            chart(&mut text, history, Style::PIPE).expect("memory");
            String::from_utf8(text).expect("text")
        };
        let text = drawn(&history);
        let top = text.lines().next().expect("a row");
        assert!(
            top.contains('^') && text.contains("1 value beyond the chart: 999.0 on 1970-01-31"),
            "{text}"
        );
        let text = drawn(&history_with(100, |i| 100.0 + (i % 5) as f64));
        assert!(!text.contains("beyond") && !text.contains('^'), "{text}");
        let low = drawn(&history_with(100, |i| if i % 60 == 9 { 1.0 } else { value(i) }));
        assert!(low.contains("3 values beyond the chart: the farthest is 999.0 on 1970-01-31"), "{low}");
        assert!(low.lines().nth(8).is_some_and(|line| line.contains('v')), "{low}");
    }
}
