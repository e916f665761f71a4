//! Loads of different intensity are not compared.

use super::*;

fn at_rate(i: u64, value: f64, rate: &str) -> Observed {
    point(i, value, &[("load.rate", rate), ("load.threads", "8"), ("command", rate)])
}

/// The p99 at five times the rate is higher on any server: no change of the server.
#[test]
fn a_load_that_changes_is_another_series_and_no_change() {
    let mut chance = SplitMix(7);
    let mut value = |i: u64| {
        let (level, rate) = if i < 30 { (1.0, "1000/s") } else { (3.0, "5000/s") };
        at_rate(i, level * (1.0 + 0.02 * chance.normal()), rate)
    };
    let found = histories((0..60).map(&mut value).collect(), RULES);
    assert_eq!(found.len(), 2, "{found:?}");
    for (history, rate) in found.iter().zip(["1000/s", "5000/s"]) {
        // The number of threads is the same in both.
        assert_eq!(history.told_apart, [("rate".to_owned(), rate.to_owned())]);
        assert_eq!((history.points.len(), history.untested), (30, 0));
        assert!(history.breaks.is_empty() && history.changes.is_empty(), "{history:?}");
    }
    assert_eq!(found[0].subject(), "x, rate=1000/s");
}

/// Two loads run in turn, and each gets slower at another time. The step of each is found among its values,
/// and the difference between the two loads is not reported as a step.
#[test]
fn loads_that_alternate_are_series_with_their_own_changes() {
    let mut chance = SplitMix(11);
    let mut value = |i: u64| {
        let (level, rate, worse_from) =
            if i.is_multiple_of(2) { (1.0, "1000/s", 40) } else { (3.0, "5000/s", 80) };
        let level = if i < worse_from { level } else { 1.2 * level };
        at_rate(i, level * (1.0 + 0.01 * chance.normal()), rate)
    };
    let found = histories((0..120).map(&mut value).collect(), RULES);
    let told: Vec<_> = found
        .iter()
        .map(|h| {
            let at: Vec<u64> = h.changes.iter().map(|c| h.points[c.at].at_unix_ns / 1_000_000_000).collect();
            (h.subject(), h.points.len(), h.untested, h.breaks.len(), at)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("x, rate=1000/s".to_owned(), 60, 0, 0, vec![40]),
            ("x, rate=5000/s".to_owned(), 60, 0, 0, vec![81])
        ]
    );
}

fn on(i: u64, value: f64, machine: &str, kernel: &str, memory: &str) -> Observed {
    let facts = [("cpu.model", machine), ("kernel.release", kernel), ("memory.bytes", memory)];
    point(i, value, &facts.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>())
}

/// Containers of a service that gives a job one machine or another. Their memory is not quite the same in any
/// two runs, and some runs do not know it.
#[test]
fn machines_that_alternate_are_series_and_one_that_is_replaced_is_a_break() {
    let memory = |i: u64| if i.is_multiple_of(5) { String::new() } else { (1_000 + i % 7).to_string() };
    let value = |i: u64| {
        let (machine, level) = if (i / 3).is_multiple_of(2) { ("old", 2.0) } else { ("new", 1.0) };
        on(i, level, machine, "6.1", &memory(i))
    };
    let found = histories((0..60).map(value).collect(), RULES);
    let told = |found: &[History]| {
        let one = |h: &History| (h.subject(), h.points.len(), h.untested, h.breaks.len(), h.changes.len());
        found.iter().map(one).collect::<Vec<_>>()
    };
    let expected = |model: &str| (format!("x, cpu.model={model}"), 30, 0, 0, 0);
    let expected = [expected("old"), expected("new")];
    assert_eq!(told(&found), expected);

    let value = |i: u64| {
        on(i, 1.0, if i < 20 { "old" } else { "new" }, if i < 40 { "6.1" } else { "6.12" }, &memory(i))
    };
    let found = histories((0..60).map(value).collect(), RULES);
    assert_eq!(told(&found), [("x".to_owned(), 60, 0, 2, 0)], "one series with two breaks");
}

/// The load is the first condition: machines that alternate within one load cut no other load.
#[test]
fn each_load_has_the_machines_of_its_own_runs() {
    let value = |i: u64| {
        let (rate, machine) = match i % 3 {
            0 => ("1000/s", "a"),
            1 => ("5000/s", "a"),
            _ => ("5000/s", "b"),
        };
        point(i, 1.0, &[("load.rate", rate), ("cpu.model", machine)])
    };
    let found = histories((0..60).map(value).collect(), RULES);
    let subjects: Vec<String> = found.iter().map(History::subject).collect();
    assert_eq!(subjects, ["x, rate=1000/s", "x, rate=5000/s, cpu.model=a", "x, rate=5000/s, cpu.model=b"]);
}
