//! `bakeoff.history/1`: metrics over the runs of an archive.

use analysis::history::{Break, Change, Drift, Excursion, History, Key, Point, Sense, Suspect};
use record::missing::{Maybe, Missing};
use serde_json::{Value, json};

use super::object::Object;
use crate::number::{plain_of, rfc3339};

/// The document of histories.
///
/// - `left_out`: metrics of runs without a value: metric, reason, number of runs.
/// - `alpha`: probability of a false change that each tested stretch was allowed.
pub fn history(histories: &[History], alpha: f64, left_out: &[(String, String, usize)]) -> Value {
    let left_out =
        left_out.iter().map(|(metric, why, runs)| json!({"metric": metric, "why": why, "runs": runs}));
    json!({
        "schema": "bakeoff.history/1",
        "alpha": alpha,
        "series": histories.iter().map(series).collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
    })
}

fn series(history: &History) -> Value {
    let sense = match history.sense {
        Sense::More => Ok("more"),
        Sense::Less => Ok("less"),
        Sense::Unknown => Err(Missing::because("the metric's name does not show it")),
    };
    let unit = history.key.unit().map(str::to_owned);
    let at = |index: usize| &history.points[index];
    Object::default()
        .with("metric", history.key.metric.clone())
        .with("subject", history.subject())
        .with("environment", history.key.host.clone())
        .maybe("better", sense)
        .maybe("unit", unit.ok_or_else(|| Missing::because("bakeoff does not know this metric's unit")))
        .with("points", history.points.iter().map(|p| point(p, &history.key)).collect::<Vec<_>>())
        .with("changes", history.changes.iter().map(|c| change(c, at(c.at), history)).collect::<Vec<_>>())
        .with("drifts", history.drifts.iter().map(|d| drift(d, history)).collect::<Vec<_>>())
        .with("excursions", history.excursions.iter().map(|e| excursion(e, history)).collect::<Vec<_>>())
        .with("breaks", history.breaks.iter().map(|b| of_break(b, at(b.at))).collect::<Vec<_>>())
        .with("untested", history.untested)
        .finish()
}

fn point(point: &Point, key: &Key) -> Value {
    let plain = |value: f64| plain_of(key, value);
    let end = |of: fn(&(f64, f64)) -> f64| -> Maybe<f64> {
        point.interval.as_ref().map(|interval| plain(of(interval))).map_err(Clone::clone)
    };
    let object = Object::default()
        .with("run", point.run.to_string())
        .with("at", rfc3339(point.at_unix_ns))
        .with("value", plain(point.value))
        .maybe("low", end(|interval| interval.0))
        .maybe("high", end(|interval| interval.1));
    match &point.version {
        Some(version) => object.with("version", version.clone()).finish(),
        None => object.finish(),
    }
}

/// A part of a ratio with its interval.
fn part(of: &Maybe<(f64, f64, f64)>, history: &History, part: fn(&(f64, f64, f64)) -> f64) -> Maybe<f64> {
    of.as_ref().map(|ratio| plain_of(&history.key, part(ratio))).map_err(Clone::clone)
}

fn excursion(found: &Excursion, history: &History) -> Value {
    let plain = |value: f64| plain_of(&history.key, value);
    let (first, last) = (&history.points[found.from], &history.points[found.until - 1]);
    Object::default()
        .with("run", first.run.to_string())
        .with("at", rfc3339(first.at_unix_ns))
        .with("last_run", last.run.to_string())
        .with("last_at", rfc3339(last.at_unix_ns))
        .with("runs", found.until - found.from)
        .with("before", plain(found.before))
        .with("level", plain(found.level))
        .with("is_open", history.is_open(found))
        .with("is_back", found.is_back)
        .maybe("then", found.then.map(plain).ok_or_else(|| Missing::because("no later run is comparable")))
        .maybe("ratio", part(&found.ratio, history, |r| r.0))
        .maybe("low", part(&found.ratio, history, |r| r.1))
        .maybe("high", part(&found.ratio, history, |r| r.2))
        .with("p", found.p)
        .finish()
}

fn drift(found: &Drift, history: &History) -> Value {
    let plain = |value: f64| plain_of(&history.key, value);
    let (first, last) = (&history.points[found.from], &history.points[found.until - 1]);
    let better = history.sense.is_better(found.before, found.after);
    Object::default()
        .with("run", first.run.to_string())
        .with("at", rfc3339(first.at_unix_ns))
        .with("last_run", last.run.to_string())
        .with("last_at", rfc3339(last.at_unix_ns))
        .with("runs", found.until - found.from)
        .with("before", plain(found.before))
        .with("after", plain(found.after))
        .maybe("ratio", part(&found.ratio, history, |r| r.0))
        .maybe("low", part(&found.ratio, history, |r| r.1))
        .maybe("high", part(&found.ratio, history, |r| r.2))
        .with("p", found.p)
        .maybe("is_better", better.ok_or_else(|| Missing::because("the metric's name does not show it")))
        .finish()
}

fn change(change: &Change, at: &Point, history: &History) -> Value {
    let plain = |value: f64| plain_of(&history.key, value);
    let part = |of: fn(&(f64, f64, f64)) -> f64| part(&change.ratio, history, of);
    let better = history.sense.is_better(change.before, change.after);
    Object::default()
        .with("run", at.run.to_string())
        .with("at", rfc3339(at.at_unix_ns))
        .with("before", plain(change.before))
        .with("after", plain(change.after))
        .maybe("ratio", part(|r| r.0))
        .maybe("low", part(|r| r.1))
        .maybe("high", part(|r| r.2))
        .with("p", change.p)
        .maybe("is_better", better.ok_or_else(|| Missing::because("the metric's name does not show it")))
        .with("suspects", change.suspects.iter().map(suspect).collect::<Vec<_>>())
        .finish()
}

fn of_break(found: &Break, at: &Point) -> Value {
    json!({
        "run": at.run.to_string(),
        "at": rfc3339(at.at_unix_ns),
        "what": found.what.iter().map(suspect).collect::<Vec<_>>(),
    })
}

fn suspect(suspect: &Suspect) -> Value {
    let none =
        |side: Option<&String>| side.cloned().ok_or_else(|| Missing::because("the run did not record it"));
    Object::default()
        .with("what", suspect.what.clone())
        .maybe("before", none(suspect.before.as_ref()))
        .maybe("after", none(suspect.after.as_ref()))
        .finish()
}
