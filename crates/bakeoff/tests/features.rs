//! A build without a feature names it, instead of an option with a similar name.

#![cfg(not(all(feature = "fleet", feature = "shared")))]

mod lab;

use lab::Lab;

#[cfg(not(feature = "fleet"))]
const PLAN: &str = r#"
schema = 1
title  = "Two numbers of threads"
[factors.threads]
values    = ["2", "4"]
reference = "2"
level     = "whole-plot"
[design]
blocks = 2
[load]
target   = "null:"
rate     = 600
threads  = "{threads}"
[fleet]
agents = 2
[phases]
measure = { time = "800ms" }
"#;

#[track_caller]
fn names(lab: &Lab, words: &[&str], feature: &str) {
    let ended = lab.run(words);
    let text = format!("this build has no `{feature}`: build with --features {feature}");
    assert!(ended.err.starts_with("bakeoff: ") && ended.err.contains(&text), "{words:?}: {}", ended.err);
    assert!(!ended.err.contains("did you mean"), "{words:?}: {}", ended.err);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{words:?}");
    assert!(lab.archived_bytes().is_empty(), "{words:?}");
}

#[cfg(not(feature = "fleet"))]
#[test]
fn what_needs_a_fleet_names_the_feature_and_runs_nothing() {
    let lab = Lab::new();
    let plan = lab.path("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    let plan = plan.display().to_string();
    for words in [
        &["load", "null:", "--fleet", "2"][..],
        &["load", "null:", "--fleet=2", "--nats", "nats://127.0.0.1:4222"],
        &["load", "null:", "--observers", "1"],
        &["agent"],
        &["agent", "--server", "nats://127.0.0.1:4222"],
        &["fleet", "up", "hosts.toml"],
        &["run", "plan.toml", "--nats", "nats://127.0.0.1:4222"],
        &["run", &plan],
    ] {
        names(&lab, words, "fleet");
    }
}

#[cfg(not(feature = "shared"))]
#[test]
fn what_needs_a_shared_archive_names_the_feature_and_no_password() {
    let lab = Lab::new();
    let url = "postgres://lab:geheim@127.0.0.1/lab,s3://127.0.0.1/lab";
    for words in [&["archive", "push"][..], &["runs", "list", "--archive", url]] {
        names(&lab, words, "shared");
        assert!(!lab.run(words).err.contains("geheim"));
    }
}

#[test]
fn a_wrong_option_that_no_feature_has_gets_a_similar_one() {
    let err = Lab::new().run(&["load", "null:", "--obsrve", "cpu"]).err;
    assert!(err.contains("did you mean `--observe`?") && !err.contains("this build"), "{err}");
}
