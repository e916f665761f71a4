//! The verdicts of a bake-off on real processes. No assertion depends on speed.

mod lab;

use lab::{Ended, Lab};
use serde_json::Value;

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}{}", ended.out, ended.err))
}

fn run(lab: &Lab, plan: &str) -> Value {
    let path = lab.path("plan.toml");
    std::fs::write(&path, plan).expect("a plan");
    json(&lab.run(&["run", "--json", path.to_str().expect("a plain path")]))
}

fn comparison<'a>(run: &'a Value, metric: &str) -> &'a Value {
    let all = run["comparisons"].as_array().expect("comparisons");
    all.iter().find(|c| c["metric"] == metric).unwrap_or_else(|| panic!("no {metric}: {run}"))
}

/// Whether every trial is valid. A machine that starves the load makes trials INVALID: then no claim is
/// allowed, and the document must list the missing trials of each configuration.
fn is_whole(run: &Value) -> bool {
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("no {name}: {run}"));
    let cells = &run["cells"];
    let missing = count(cells, "planned") - count(cells, "sealed");
    if missing > 0 {
        let arms = run["fallen_out"].as_array().expect("a list");
        let named: u64 = arms.iter().map(|arm| count(arm, "invalid") + count(arm, "failed")).sum();
        assert_eq!(named, missing, "{run}");
        let comparisons = run["comparisons"].as_array().expect("comparisons");
        assert!(comparisons.iter().all(|c| c["verdict"] == "inconclusive"), "{run}");
    }
    missing == 0
}

/// Both commands do the same work and sleep for different times. CPU time of the whole machine per event
/// would make the one that sleeps four times as long four times as expensive, because other processes run
/// meanwhile.
#[test]
fn a_command_that_sleeps_longer_does_not_use_more_cpu() {
    let lab = Lab::new();
    let run = run(
        &lab,
        r#"
schema = 1
title  = "Two naps"
[factors.nap]
values    = ["0.02", "0.08"]
reference = "0.02"
level     = "whole-plot"
[design]
blocks = 6
[load]
target = "exec:sleep {nap}"
[phases]
prepare = "none"
warm-up = { min = "100ms" }
measure = { time = "800ms" }
[judge]
metrics = ["throughput", "cpu-per-event"]
"#,
    );
    let ratio = |metric: &str| comparison(&run, metric)["ratio"].as_f64();
    if is_whole(&run) {
        assert!(ratio("throughput").is_some_and(|r| r < 0.6), "{run}");
        // A stall at an edge of a phase of 800 ms can leave a trial without this metric.
        let cpu = comparison(&run, "cpu-per-event");
        let why = cpu["missing"]["ratio"].as_str().or_else(|| cpu["missing"]["low"].as_str());
        match ratio("cpu-per-event") {
            Some(ratio) => assert!((0.4..2.5).contains(&ratio), "{run}"),
            None => assert!(why.is_some_and(|why| why.contains("unevenly lost trials")), "{run}"),
        }
    }
}

/// One thread that sleeps 50 ms per event cannot reach 1000 events per second on any machine.
#[test]
fn a_bakeoff_whose_trials_are_all_invalid_ends_with_3_and_the_archive_says_the_same() {
    let lab = Lab::new();
    let path = lab.path("plan.toml");
    let plan = r#"
schema = 1
title  = "Too slow"
[design]
blocks = 2
[load]
target = "exec:sleep 0.05"
rate   = 1000
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "200ms", interval = "200ms" }
"#;
    std::fs::write(&path, plan).expect("a plan");
    let ended = lab.run(&["run", "--json", path.to_str().expect("a plain path")]);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    let run = json(&ended);
    assert_eq!((&run["cells"]["invalid"], &run["cells"]["sealed"]), (&2.into(), &0.into()), "{run}");
    let listed = lab.json(&["runs", "list", "--kind", "bakeoff"]);
    assert_eq!(listed["runs"][0]["state"], "invalid", "{listed}");
    let name = run["bakeoff"].as_str().expect("it has a name");
    assert_eq!(lab.run(&["resume", name]).code, Some(3), "nothing is left to do, and it is INVALID still");
    assert_eq!(lab.run(&["compare", name]).code, Some(3), "shown later, it is INVALID still");
}

/// A server that bakeoff starts in a scratch folder, at three rates: its CPU time, separate from its use at
/// rate 0.
#[test]
fn the_cpu_time_of_a_server_is_a_slope_over_the_rates() {
    if std::process::Command::new("memcached").arg("-V").output().is_err() {
        println!("skipped: memcached is not installed");
        return;
    }
    let lab = Lab::new();
    let run = run(
        &lab,
        r#"
schema = 1
title  = "memcached, one thread and two"
[factors.workers]
values    = [1, 2]
reference = 1
level     = "whole-plot"
[factors.rate]
values = [200, 800, 2400]
level  = "sub-plot"
[design]
blocks = 2
[load]
target   = "memcached+unix:{scratch}/m.sock"
keys     = 100
threads  = 2
rate     = "{rate}"
[server]
command = "memcached -u root -s {scratch}/m.sock -t {workers}"
ready   = "socket:{scratch}/m.sock"
[phases]
warm-up = { min = "100ms" }
measure = { time = "500ms" }
[judge]
metrics = ["p99", "cpu-per-event"]
"#,
    );
    let slopes = run["slopes"].as_array().expect("slopes");
    if is_whole(&run) {
        assert_eq!(slopes.len(), 2, "{run}");
        for slope in slopes {
            // A get of memcached takes about 10 us of CPU time; on any machine more than 0.1 us and less than
            // 1 ms.
            let value_ns = slope["value_ns"].as_f64();
            assert!(value_ns.is_some_and(|ns| (100.0..1e6).contains(&ns)), "{slope}");
        }
        // One comparison over all rates, not one at each.
        let of_cpu = |list: &str| {
            let all = run[list].as_array().unwrap();
            all.iter().filter(|c| c["metric"] == "cpu-per-event").count()
        };
        assert_eq!(of_cpu("comparisons") + of_cpu("not_judged"), 1, "{run}");
        // Too few events for a p99: the comparison is in no family, and the document says why.
        assert!(run["comparisons"].as_array().unwrap().iter().all(|c| c["metric"] != "p99"), "{run}");
        let reasons = run["not_judged"].as_array().unwrap().iter().filter(|out| out["metric"] == "p99");
        let said: Vec<&str> = reasons.filter_map(|out| out["reason"].as_str()).collect();
        assert!(said.len() == 3 && said.iter().all(|why| why.contains("needs 10000 events")), "{said:?}");
    }
}

#[test]
fn a_plan_says_before_the_run_what_its_phases_cannot_hold() {
    let lab = Lab::new();
    let path = lab.path("plan.toml");
    let plan = r#"
schema = 1
title  = "Too short"
[factors.name]
values    = ["one", "other"]
reference = "one"
level     = "whole-plot"
[design]
blocks = 6
[load]
target = "null:"
rate   = 900
[phases]
measure = { time = "2s" }
[judge]
metrics = ["p99", "cpu-per-event"]
"#;
    std::fs::write(&path, plan).expect("a plan");
    let path = path.to_str().expect("a plain path");
    let checked = json(&lab.run(&["plan", "check", "--json", path]));
    assert_eq!(checked["metrics"][0]["judged"], "no");
    assert_eq!(
        checked["metrics"][0]["reason"],
        "p99 needs 10000 events per trial, but this plan yields about 1,800"
    );
    assert_eq!(checked["metrics"][1]["judged"], "no");
    assert_eq!(checked["comparisons"], 0);
    let said = lab.run(&["plan", "check", path]);
    assert!(said.out.contains("p99 is not judged: p99 needs 10000 events per trial"), "{}", said.out);
}
