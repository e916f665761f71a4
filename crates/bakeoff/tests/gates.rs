//! Gates from the command line and from plans: exit codes, files, and what is refused before the first trial.

mod lab;

use lab::Lab;
use serde_json::Value;

/// Two commands in six blocks; the second sleeps `nap` seconds.
fn plan(nap: &str, gates: &str) -> String {
    format!(
        r#"
schema = 1
title  = "Two naps & <more>"
[factors.nap]
values    = ["0.02", "{nap}"]
reference = "0.02"
level     = "whole-plot"
[design]
blocks = 6
[load]
target = "exec:sleep {{nap}}"
[phases]
prepare = "none"
warm-up = {{ min = "20ms" }}
measure = {{ time = "300ms" }}
[judge]
metrics = ["throughput"]
{gates}
"#
    )
}

fn write(lab: &Lab, text: &str) -> String {
    let path = lab.path("plan.toml");
    std::fs::write(&path, text).expect("a plan");
    path.to_str().expect("a plain path").to_owned()
}

/// Sleeping four times as long is far beyond 20 % slower on any machine. Trials that a busy machine makes
/// INVALID may leave the gate inconclusive; it never passes.
#[test]
fn a_slower_candidate_fails_the_gates_of_plan_and_command_line_and_files_say_so() {
    let lab = Lab::new();
    let gate = "[[gate]]\nmetric = \"throughput\"\nrule = \"not worse than reference by 5%\"\n";
    let plan = write(&lab, &plan("0.08", gate));
    let (junit, summary) = (lab.path("junit.xml"), lab.path("summary.md"));
    std::fs::write(&summary, "before\n").expect("a file");
    let files = (junit.to_str().expect("a path"), summary.to_str().expect("a path"));
    let words = ["--gate", "throughput >= 0.01/s", "--junit", files.0, "--summary", files.1, "--json"];
    let ended = lab.run(&[&["run", plan.as_str()], &words[..]].concat());
    let run: Value = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}", ended.err));
    let outcome = |i: usize| run["gates"][i]["outcome"].as_str().expect("an outcome").to_owned();
    let is_whole = run["cells"]["planned"] == run["cells"]["sealed"];
    if is_whole {
        assert_eq!((outcome(0), outcome(1)), ("fail".into(), "pass".into()), "{run}");
        assert_eq!(ended.code, Some(1), "{}", ended.err);
    } else {
        assert!(outcome(0) != "pass" && matches!(ended.code, Some(1 | 4)), "{run}");
    }
    let xml = std::fs::read_to_string(&junit).expect("a file");
    assert!(xml.contains("tests=\"2\"") && xml.contains("name=\"Two naps &amp; &lt;more&gt;\""), "{xml}");
    let markdown = std::fs::read_to_string(&summary).expect("a file");
    assert!(markdown.starts_with("before\n## Two naps"), "appended: {markdown}");
    assert!(markdown.contains("| throughput not worse than reference by 5% |"), "{markdown}");
    // The gates are part of the archive: `report` shows those of the command line too.
    let page = lab.run(&["report", "latest"]);
    assert!(page.out.contains("## Gates") && page.out.contains("throughput &gt;= 0.01/s"), "{}", page.out);
    let again = lab.run(&["resume", run["bakeoff"].as_str().expect("a name")]);
    assert_eq!(again.code, ended.code, "nothing is left to do, and the gates are as before");
    std::fs::remove_file(&junit).expect("a file");
    let shown = lab.run(&["compare", "latest", "--junit", files.0]);
    assert_eq!((shown.code, shown.out.as_str()), (ended.code, again.out.as_str()), "{}", shown.err);
    assert_eq!(std::fs::read_to_string(&junit).expect("a file"), xml);
    let idle = lab.run(&["compare", "latest", "--export-csv", files.0]);
    assert!(idle.code == Some(2) && idle.err.contains("--export-csv has no effect"), "{}", idle.err);
    let last = again.out.trim_end().lines().last().unwrap_or_default().to_owned();
    assert!(again.out.contains("FAIL: 1 of 2 gates") || !is_whole, "{last}");
}

#[test]
fn a_gate_that_cannot_be_answered_is_refused_before_the_first_trial() {
    let lab = Lab::new();
    let sound = write(&lab, &plan("0.03", ""));
    let refused = |words: &[&str], said: &str| {
        let ended = lab.run(&[&["run", sound.as_str()], words].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains(said), "{}", ended.err);
    };
    refused(&["--gate", "p95 <= 20ms"], "`p95` is not a metric of bake-offs");
    refused(&["--gate", "p99 <= 20/s"], "the limit of p99 must be a time such as 20ms");
    refused(&["--gate", "p99 <= 20ms", "--quick"], "cannot be used with");
    refused(&["--junit", "/nonexistent/junit.xml"], "a folder that does not exist");
    let few = plan("0.03", "").replace("blocks = 6", "blocks = 5");
    let few = write(&lab, &few);
    let ended = lab.run(&["run", &few, "--gate", "p99 <= 20ms"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("takes at least 6 blocks"), "{}", ended.err);
    assert!(!lab.path("archive").exists(), "nothing was run");
}

/// A measurement that has the machine keeps the bake-off from beginning.
#[test]
fn a_bake_off_that_cannot_begin_replaces_the_files_of_an_earlier_one() {
    let lab = Lab::new();
    let plan = write(&lab, &plan("0.08", ""));
    let junit = lab.path("junit.xml");
    std::fs::write(&junit, "green").expect("a file");
    let begun = lab.path("begun");
    let holds = format!("touch {}; sleep 5", begun.display());
    let mut other =
        lab.command(&["compare", "--blocks", "2", "--", &holds, "true"]).spawn().expect("it starts");
    while !begun.exists() {
        std::thread::yield_now();
    }
    let refused = lab.run(&["run", &plan, "--quick", "--junit", junit.to_str().expect("a path")]);
    other.kill().expect("it runs");
    other.wait().expect("it ends");
    let xml = std::fs::read_to_string(&junit).expect("a file");
    assert!(xml.contains("errors=\"1\"") && xml.contains("Two naps"), "{xml}");
    assert_eq!(refused.code, Some(6), "{}", refused.err);
}
