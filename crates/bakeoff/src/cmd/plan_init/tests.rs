//! Every option of `compare` and `load`, from the definition of the command line, is in the plan or refused.

use std::collections::BTreeMap;

use clap::ArgAction;
use record::agents::{FleetSettings, OnLoss};
use record::load::settings::Values;

use super::*;
use crate::cmd::compare::samples::{arguments, dashed, sample};

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|&word| word.to_owned()).collect()
}

fn plan(line: &[&str]) -> Result<plan::Plan, String> {
    let text = text(&words(line), None).map_err(|error| format!("{error:#}"))?;
    plan::read(&text, "init.toml").map_err(|error| panic!("{error}\n{text}"))
}

/// Whether the plan has the value of the sample.
fn has_sample_of_compare(id: &str, plan: &plan::Plan) -> bool {
    let levels: Vec<&str> = plan.factors()[0].values.iter().map(String::as_str).collect();
    match id {
        "time" => plan.estimate().time_min.as_secs() == 120,
        "blocks" => plan.blocks() == 9,
        "shell" => plan.text().contains("exec:eval {command} ;"),
        "no_shell" => plan.text().contains("exec:{command|raw}"),
        "parameter_list" => levels == ["true 1", "true 2", "false"],
        "parameter_scan" => levels == ["true 1", "true 2", "true 3", "false"],
        "parameter_step_size" => levels == ["true 1", "true 3", "false"],
        "seed" => plan.seed() == 77,
        "title" => plan.title() == "Two of them",
        "reference" => plan.factors()[0].reference.as_deref() == Some("false"),
        "rope" => (plan.judge().rope_ratio - 0.03).abs() < 1e-12,
        "gates" => {
            let gates = plan.gates().iter().map(ToString::to_string);
            gates.eq(["cpu-per-event not worse than reference by 5%".to_owned()])
        }
        _ => false,
    }
}

#[test]
fn every_option_of_compare_is_in_the_plan_or_refused_by_its_name() {
    let mut wrong = Vec::new();
    let plain = plan(&["compare", "--", "true", "false"]).unwrap();
    for argument in arguments("compare") {
        let id = argument.get_id().as_str();
        if matches!(id, "commands" | "runs") {
            continue;
        }
        let sample = sample(id);
        let first = if id.starts_with("parameter") { "true {n}" } else { "true" };
        let found = plan(&[&["compare"], sample, &["--", first, "false"]].concat());
        // A plan that has no place for an option must not have this option's value by chance.
        assert!(id == "no_shell" || !has_sample_of_compare(id, &plain), "{id}");
        match found {
            Ok(found) if OF_COMMANDS.contains(&id) => {
                if !has_sample_of_compare(id, &found) {
                    wrong.push(format!("{id} is not in the plan:\n{}", found.text()));
                }
            }
            Ok(_) => wrong.push(format!("{id} was dropped")),
            Err(error) => {
                if OF_COMMANDS.contains(&id) || !error.contains(&dashed(&argument)) || error.contains('\n') {
                    wrong.push(format!("{id}: {error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn archived_runs_are_no_plan_and_an_option_of_run_is_for_run() {
    let refused = |line: &[&str]| plan(line).unwrap_err();
    assert!(refused(&["compare", "a", "b"]).contains("needs commands"));
    let error = refused(&["compare", "--junit", "x.xml", "--", "true", "false"]);
    assert_eq!(error, "--junit cannot be part of a plan: give it to `bakeoff run`");
    let error = refused(&["compare", "-w", "3", "--junit", "x.xml", "-n", "a", "--", "true", "false"]);
    assert_eq!(error, "--warmup, --command-name cannot be part of a plan");
    assert!(refused(&["compare", "--gate", "p99 <= 1ms", "--", "true", "false"]).contains("p99"));
    // A default that is written changes nothing.
    plan(&["compare", "--warmup", "1", "--timeout", "5m", "--", "true", "false"]).unwrap();
}

/// A target that has the setting, other options that it needs, and a value besides its default.
fn sample_of_load(setting: &Setting) -> (&'static str, Vec<&'static str>, String) {
    use record::load::rules::Family;
    let target = match setting.families {
        [] => "null:",
        families if families.contains(&Family::Database) && setting.name != "connections" => {
            "sqlite:/tmp/x.db"
        }
        families if families.contains(&Family::Cache) => "memcached://localhost:1",
        [Family::Command] => "exec:true",
        _ => "https://localhost:1/",
    };
    let (target, others): (_, &[&str]) = match setting.name {
        "workload" => ("sqlite:/tmp/x.db", &[]),
        "command" => ("redis://localhost:1", &[]),
        "verify" => ("memcached://localhost:1", &[]),
        "define" => (target, &["--script", "x.sql"]),
        "data" => ("https://localhost:1/", &[]),
        "streams" => (target, &["--http-version", "2"]),
        "cert" => (target, &["--key", "k.pem"]),
        "key" => (target, &["--cert", "c.pem"]),
        "rate" | "think" => (target, &[]),
        "delta" | "number_of_ranges" => (target, &["--workload", "select-random-ranges"]),
        "random_points" => (target, &["--workload", "select-random-points"]),
        "bulk_rows" => (target, &["--workload", "bulk-insert"]),
        _ => (target, &["--rate", "500"]),
    };
    let form = |name: &str| match name {
        "define" => "scale=10",
        "sizes" => "1024:1",
        "mix" => "get=50,set=50",
        "ttl" => "60s",
        "method" => "PUT",
        "header" => "Accept: text/html",
        "body" => "a {b} \"c\"",
        "env" => "LC_ALL=C",
        "arrivals" => "poisson",
        "late" => "drop",
        "think" => "exp:5ms",
        "command" => "GET x",
        _ => "some/file",
    };
    let value = match setting.values {
        Values::Whole { min, .. } if setting.default.is_none() => (min + 11).to_string(),
        Values::Whole { max, .. } => (setting.default_number() + 3).min(max).to_string(),
        Values::Percent { .. } => "7%".to_owned(),
        Values::Duration { .. } => "7s".to_owned(),
        Values::Bytes { .. } => "128MiB".to_owned(),
        Values::Rate { .. } => "30/m".to_owned(),
        Values::Switch => if setting.is_on() { "no" } else { "yes" }.to_owned(),
        Values::Word(known) => match setting.name {
            "prepare" => "never".to_owned(),
            "workload" => "oltp-read-only".to_owned(),
            _ => known().into_iter().find(|word| Some(*word) != setting.default).unwrap().to_owned(),
        },
        Values::Text | Values::AnyText | Values::Texts | Values::Forms(..) | Values::Form(_) => {
            form(setting.name).to_owned()
        }
    };
    (target, others.to_vec(), value)
}

/// A sample command line, after `load`, of an argument that is not a setting of the load.
fn other_sample_of_load(id: &str) -> &'static [&'static str] {
    match id {
        "title" => &["null:", "--title", "A load"],
        "observe" => &["null:", "--observe", "io"],
        "tx_jitter" => &["null:", "--rate", "500", "--tx-jitter", "5"],
        "replay" => &["http://localhost:1", "--replay", "access.log"],
        "speed" => &["http://localhost:1", "--replay", "access.log", "--speed", "2"],
        "replay_unsafe" => &["http://localhost:1", "--replay", "access.log", "--replay-unsafe"],
        "like" => &["null:", "--like", "wrk http://localhost:1"],
        "dry_run" => &["null:", "--like", "wrk http://localhost:1", "--dry-run"],
        "labels" => &["null:", "--label", "a=b"],
        "hlog" => &["null:", "--hlog", "x.hlog"],
        "log" => &["null:", "--log", "x.parquet"],
        "control" => &["null:", "--rate", "5", "--control", "x.sock"],
        "fleet" => &["null:", "--threads", "2", "--fleet", "2"],
        "on_loss" => &["null:", "--threads", "2", "--fleet", "2", "--on-loss", "degraded"],
        "observers" => &["null:", "--threads", "2", "--fleet", "2", "--observers", "1"],
        "probe" => &["null:", "--threads", "2", "--fleet", "2", "--probe", "2.5"],
        "place" => &["null:", "--threads", "2", "--fleet", "2", "--place", "a=b", "--place", "c=\"d"],
        "nats" => &["null:", "--fleet", "2", "--nats", "nats://localhost:1"],
        "nkey" => &["null:", "--fleet", "2", "--nkey", "x"],
        "nats_ca" => &["null:", "--fleet", "2", "--nats-ca", "x"],
        "search" => &["null:", "--search", "p99<10ms"],
        "strict" => &["null:", "--strict"],
        "verbose" => &["null:", "--verbose"],
        "no_archive" => &["null:", "--no-archive"],
        "archive" => &["null:", "--archive", "/tmp/a"],
        "json" => &["null:", "--json"],
        other => panic!("say here what `plan init -- load` does with {other}"),
    }
}

#[test]
fn every_option_of_load_is_in_the_plan_or_refused_by_its_name() {
    let mut wrong = Vec::new();
    // The load without the option, by its words.
    let mut plains: BTreeMap<String, Option<LoadSettings>> = BTreeMap::new();
    for argument in arguments("load") {
        let id = argument.get_id().as_str();
        if id == "target" {
            continue;
        }
        let name = dashed(&argument);
        let setting = settings::ALL.iter().copied().find(|setting| option(setting.name) == name);
        let Some(setting) = setting else {
            let found = plan(&[&["load"], other_sample_of_load(id)].concat());
            let is_good = match &found {
                Ok(plan) if id == "title" => plan.title() == "A load",
                Ok(plan) if id == "observe" => plan.instruments() == ["io"],
                Ok(plan) if id == "fleet" => plan.fleet() == Some(&FleetSettings::of(2)),
                Ok(plan) if id == "on_loss" => {
                    plan.fleet().is_some_and(|fleet| fleet.on_loss == OnLoss::Degraded)
                }
                Ok(plan) if id == "observers" => plan.fleet().is_some_and(|fleet| fleet.observers == 1),
                Ok(plan) if id == "probe" => plan.fleet().is_some_and(|fleet| fleet.probe_per_s == Some(2.5)),
                Ok(plan) if id == "place" => plan.fleet().is_some_and(|fleet| {
                    fleet.place == [("a", "b"), ("c", "\"d")].map(|(k, v)| (k.into(), v.into())).into()
                }),
                Ok(_) => false,
                Err(error) => !OF_LOADS.contains(&id) && error.contains(&name) && !error.contains('\n'),
            };
            if !is_good {
                wrong.push(format!("{id}: {:?}", found.map(|plan| plan.text().to_owned())));
            }
            continue;
        };
        let (target, others, value) = sample_of_load(setting);
        let takes_value = !matches!(argument.get_action(), ArgAction::SetTrue);
        let others: Vec<&str> = others.into_iter().filter(|word| *word != name).collect();
        let plain = [&["load", target], &others[..]].concat();
        let mut line = [&plain[..], &[&name]].concat();
        line.extend(takes_value.then_some(value.as_str()));
        match (plan(&line), NOT_OF_PLANS.contains(&setting.name) || setting.name == "define") {
            // `text` refuses a plan if its load is not the one of the command line.
            (Ok(found), false) => {
                let settings = |plan: &plan::Plan| plan.load_settings(&plan.trials()[0], Path::new("/"));
                let key = plain.join(" ");
                let plain =
                    plains.entry(key).or_insert_with(|| plan(&plain).ok().map(|plan| settings(&plan)));
                if plain.as_ref() == Some(&settings(&found)) {
                    wrong.push(format!("{line:?} has no effect on the plan:\n{}", found.text()));
                }
            }
            (Err(error), true) if error.contains("--script") || error.contains(&name) => {}
            (found, _) => wrong.push(format!("{line:?}: {:?}", found.map(|plan| plan.text().to_owned()))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_value_that_plans_do_not_have_is_refused() {
    for (line, said) in [
        (&["load", "sqlite:/x", "--prepare", "always"][..], "--prepare always cannot be part of a plan"),
        (&["load", "null:", "--observe", "none"], "--observe none cannot be part of a plan"),
        (&["load", "null:", "--arrivals", "file:/x"], "--arrivals file:/x cannot be part of a plan"),
        (&["load", "exec:true", "--env", "A={env:B}"], "--env A={env:B} cannot be part of a plan"),
        (&["compare", "--", "a\nb", "c"], "a command of several lines cannot be part of a plan"),
        (&["load", "null:", "--strict"], "--strict cannot be part of a plan"),
        (&["load", "null:", "--json"], "--json cannot be part of a plan: give it to `bakeoff run`"),
        (&["load", "null:", "--rows", "5"], "--rows is for databases"),
    ] {
        let error = plan(line).unwrap_err();
        assert!(error.contains(said) && !error.contains('\n'), "{line:?}: {error}");
    }
    let all = plan(&["load", "null:", "--observe", "all"]).unwrap();
    assert!(all.instruments().len() > 5, "{:?}", all.instruments());
    #[cfg(feature = "fleet")]
    {
        // A load with more agents than threads is refused, and the message names the key of the plan.
        let few = text(&words(&["load", "null:", "--threads", "2", "--fleet", "3"]), None).unwrap_err();
        let few = format!("{few:#}");
        assert!(few.contains("fleet.agents") && !few.contains("--fleet"), "{few}");
    }
    let twice = text(&words(&["load", "null:", "--title", "a"]), Some("b")).unwrap_err();
    assert_eq!(format!("{twice:#}"), "--title is given twice");
}
