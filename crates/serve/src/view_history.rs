//! The page of the history: the values that its template shows.

use askama::Template;
use serde_json::Value;

use crate::printer::HISTORY_RUNS_MAX;

/// Size of a drawing, in its own units.
const DRAWING: (f64, f64) = (640.0, 110.0);
/// Series of a history that are shown; those with changes come first.
const SERIES_MAX: usize = 200;
/// Points of a series that are drawn, the newest ones.
const POINTS_MAX: usize = 300;

#[derive(Template)]
#[template(path = "history.html")]
pub(crate) struct HistoryPage {
    pub(crate) here: &'static str,
    pub(crate) metric: String,
    pub(crate) of: String,
    pub(crate) label: String,
    /// Query of the page, for that of the figures.
    query: String,
    /// Runs of the archive that are not read, the oldest ones.
    unread: usize,
    series: Vec<SeriesView>,
    more: usize,
    left_out: Vec<String>,
}

/// A metric on a machine, over the runs.
struct SeriesView {
    metric: String,
    subject: String,
    machine: String,
    runs: usize,
    /// Whether its runs changed; empty if the changes are listed.
    found: String,
    drawing: String,
    changes: Vec<ChangeView>,
    breaks: Vec<String>,
}

struct ChangeView {
    run: String,
    short: String,
    tone: &'static str,
    text: String,
}

impl HistoryPage {
    /// - `document`: of `bakeoff.history/1`.
    /// - `filter`: metric, subject and label.
    /// - `runs`: in the archive.
    pub(crate) fn of(document: &Value, filter: [String; 3], query: &str, runs: usize) -> Self {
        let [metric, of, label] = filter;
        let mut all: Vec<&Value> = list(&document["series"]).iter().collect();
        all.sort_by_key(|series| {
            let lacks = |what: &str| list(&series[what]).is_empty();
            (lacks("changes"), lacks("drifts"), open_excursion(series).is_none())
        });
        let why = |left: &Value| {
            format!("{}: {} ({} runs)", word(&left["metric"]), word(&left["why"]), left["runs"])
        };
        Self {
            here: "/history",
            metric,
            of,
            label,
            query: if query.is_empty() { String::new() } else { format!("?{query}") },
            unread: runs.saturating_sub(HISTORY_RUNS_MAX),
            more: all.len().saturating_sub(SERIES_MAX),
            series: all.into_iter().take(SERIES_MAX).map(SeriesView::of).collect(),
            left_out: list(&document["left_out"]).iter().map(why).collect(),
        }
    }
}

impl SeriesView {
    fn of(series: &Value) -> Self {
        let points = list(&series["points"]);
        let what = |found: &Value| format!("{}: {}", word(&found["at"]), facts(&found["what"]));
        Self {
            metric: word(&series["metric"]),
            subject: word(&series["subject"]),
            machine: word(&series["environment"]),
            runs: points.len(),
            found: found(points.len(), &series["untested"], &standing(series)),
            drawing: history_drawing(points, list(&series["changes"])),
            changes: list(&series["changes"]).iter().map(ChangeView::of).collect(),
            breaks: list(&series["breaks"]).iter().map(what).collect(),
        }
    }
}

/// The last drift of a series without a change, and its newest runs if they lie apart.
fn standing(series: &Value) -> String {
    let by = |found: &Value| match (found["ratio"].as_f64(), found["is_better"].as_bool()) {
        (Some(ratio), Some(true)) => format!(" by {} (better)", percent(ratio)),
        (Some(ratio), Some(false)) => format!(" by {} (worse)", percent(ratio)),
        (Some(ratio), None) => format!(" by {}", percent(ratio)),
        (None, _) => String::new(),
    };
    let newest = list(&series["points"]).last().map(|point| &point["run"]);
    let drifts = list(&series["drifts"]).last().map(|found| {
        if Some(&found["last_run"]) == newest {
            format!("drifts{} since {}", by(found), word(&found["at"]))
        } else {
            format!("drifted{} from {} to {}", by(found), word(&found["at"]), word(&found["last_at"]))
        }
    });
    let apart = open_excursion(series).map(|found| {
        let ratio = found["ratio"].as_f64().map_or(String::new(), |ratio| format!(" by {}", percent(ratio)));
        format!("the newest {} lie apart{ratio}: run it again", plural(&found["runs"]))
    });
    let found: Vec<String> = drifts.into_iter().chain(apart).collect();
    match (list(&series["changes"]), &found[..]) {
        ([], []) => ", no change".to_owned(),
        (_, []) => String::new(),
        (_, found) => format!(", {}", found.join("; ")),
    }
}

/// The excursion to which the newest runs belong: it may be the start of a new level.
fn open_excursion(series: &Value) -> Option<&Value> {
    list(&series["excursions"]).iter().find(|found| found["is_open"] == true)
}

fn plural(runs: &Value) -> String {
    if *runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") }
}

/// An end near no change does not read as no change.
fn percent(ratio: f64) -> String {
    match (ratio - 1.0) * 100.0 {
        small if small.abs() < 0.05 => format!("{small:+.4} %"),
        percent => format!("{percent:+.1} %"),
    }
}

/// Result of the test for changes. Runs that are too few to test are not unchanged.
fn found(runs: usize, untested: &Value, standing: &str) -> String {
    let untested = untested.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    if untested >= runs {
        return ", too few runs to test".to_owned();
    }
    let few = if untested == 1 { "1 run".to_owned() } else { format!("{untested} runs") };
    let few =
        if untested > 0 { format!("; {few} not tested: too few without a break") } else { String::new() };
    format!("{standing}{few}")
}

impl ChangeView {
    fn of(change: &Value) -> Self {
        let size = |name: &str| change[name].as_f64();
        let text = match (size("ratio"), size("low"), size("high")) {
            (Some(ratio), Some(low), Some(high)) => {
                format!("{} (95 %: {} to {})", percent(ratio), percent(low), percent(high))
            }
            _ => "changed".to_owned(),
        };
        let suspects = facts(&change["suspects"]);
        let suspects = if suspects.is_empty() { suspects } else { format!("; new there: {suspects}") };
        let run = word(&change["run"]);
        Self {
            short: run.get(run.len().saturating_sub(6)..).unwrap_or_default().to_lowercase(),
            tone: match change["is_better"].as_bool() {
                Some(true) => "good",
                Some(false) => "bad",
                None => "doubt",
            },
            text: format!("{}: {text}{suspects}", word(&change["at"])),
            run,
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

/// Facts that differ, before and after.
fn facts(all: &Value) -> String {
    let one = |fact: &Value| {
        format!("{} {} \u{2192} {}", word(&fact["what"]), word(&fact["before"]), word(&fact["after"]))
    };
    list(all).iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The newest values of a series as dots, and its changes as lines. The figures have scales.
fn history_drawing(points: &[Value], changes: &[Value]) -> String {
    let shown = &points[points.len().saturating_sub(POINTS_MAX)..];
    let values: Vec<f64> = shown.iter().filter_map(|point| point["value"].as_f64()).collect();
    let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
    if values.len() < 2 {
        return String::new();
    }
    let (width, height) = DRAWING;
    let x = |at: usize| 4.0 + at as f64 / (shown.len() - 1) as f64 * (width - 8.0);
    let y = |value: f64| {
        if high > low { height - 6.0 - (value - low) / (high - low) * (height - 12.0) } else { height / 2.0 }
    };
    let at_change = |change: &Value| {
        // An import is one run with many points.
        let is_it = |point: &Value| point["run"] == change["run"] && point["at"] == change["at"];
        shown.iter().position(is_it)
    };
    let line = |at: usize| format!("<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{height}\"/>", x(at));
    let dot = |(at, point): (usize, &Value)| {
        let value = point["value"].as_f64()?;
        Some(format!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>", x(at), y(value)))
    };
    format!(
        "<svg class=\"chart history\" viewBox=\"0 0 {width} {height}\" aria-hidden=\"true\">{}{}</svg>",
        changes.iter().filter_map(at_change).map(line).collect::<String>(),
        shown.iter().enumerate().filter_map(dot).collect::<String>(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_of_a_history_has_its_size_its_tone_and_what_is_new_there() {
        let change = json!({
            "run": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "at": "2026-11-25T00:00:00Z", "ratio": 1.2, "low": 1.1, "high": 1.3,
            "is_better": false, "suspects": [{"what": "kernel", "before": "6.1", "after": null}],
        });
        let view = ChangeView::of(&change);
        assert_eq!((view.tone, view.short.as_str()), ("bad", "9g5fav"));
        assert_eq!(
            view.text,
            "2026-11-25T00:00:00Z: +20.0 % (95 %: +10.0 % to +30.0 %); new there: kernel 6.1 \u{2192} -"
        );
        let unknown = ChangeView::of(&json!({"run": "X", "at": "-", "ratio": null}));
        assert_eq!((unknown.tone, unknown.text.as_str()), ("doubt", "-: changed"));
        let points = [json!({"run": "a", "value": 1.0}), json!({"run": "b", "value": null})];
        assert_eq!(history_drawing(&points, &[]), "", "one value is no history");
        let imported: Vec<Value> = (0..3).map(|at| json!({"run": "a", "at": at, "value": at})).collect();
        let drawn = history_drawing(&imported, &[json!({"run": "a", "at": 2})]);
        assert!(drawn.contains("<line x1=\"636.0\""), "at the third point, not at the first: {drawn}");
    }

    #[test]
    fn runs_that_are_too_few_to_test_are_not_called_unchanged() {
        let page = |untested: usize| {
            let series = json!({"points": [1, 2, 3], "changes": [], "breaks": [], "untested": untested});
            let document = json!({"series": [series], "left_out": []});
            crate::view_page::text(&HistoryPage::of(&document, Default::default(), "", 3))
        };
        assert!(page(0).contains(", no change</p>"), "{}", page(0));
        assert!(page(3).contains(", too few runs to test</p>"), "{}", page(3));
        assert!(
            page(2).contains(", no change; 2 runs not tested: too few without a break</p>"),
            "{}",
            page(2)
        );
    }

    #[test]
    fn drifts_and_newest_runs_that_lie_apart_are_told() {
        let runs = [json!({"run": "a"}), json!({"run": "b"}), json!({"run": "c"})];
        let of = |drifts: Value, excursions: Value| {
            standing(&json!({"points": runs, "changes": [], "drifts": drifts, "excursions": excursions}))
        };
        assert_eq!(of(json!([]), json!([])), ", no change");
        let drift = |last: &str| json!([{"run": "a", "at": "1 May", "last_run": last, "last_at": "9 May", "ratio": 1.18, "is_better": false}]);
        assert_eq!(of(drift("c"), json!([])), ", drifts by +18.0 % (worse) since 1 May");
        assert_eq!(of(drift("b"), json!([])), ", drifted by +18.0 % (worse) from 1 May to 9 May");
        let apart = |is_open: bool| json!([{"runs": 4, "ratio": 1.3, "is_open": is_open}]);
        assert_eq!(of(json!([]), apart(true)), ", the newest 4 runs lie apart by +30.0 %: run it again");
        assert_eq!(of(json!([]), apart(false)), ", no change");
    }
}
