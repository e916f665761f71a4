//! Messages of `compare`, `history` and `aa` that name the cause, and count as people do.

mod lab;

use lab::Lab;

fn write(lab: &Lab, name: &str, text: &str) -> String {
    let path = lab.path(name);
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a plain path").to_owned()
}

#[test]
fn an_empty_history_says_what_left_it_empty() {
    let lab = Lab::new();
    let answer = |words: &[&str]| {
        let ended = lab.run(&[&["history"], words].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        ended.out.lines().last().unwrap_or_default().to_owned()
    };
    // What fails has no value.
    let failing = ["compare", "--blocks", "2", "--ignore-failure", "--", "exit 1", "exit 2"];
    assert_eq!(lab.run(&failing).code, Some(0));
    assert_eq!(answer(&[]), "no run has a metric that can be compared");
    let file = write(&lab, "nightly.csv", "time,p99,size\n1780000000,20,5\n1780086400,21,6\n");
    lab.json(&["history", "import", &file]);
    assert_eq!(answer(&["nosuch"]), "no run has the metric nosuch; the metrics are: p99, size");
    assert_eq!(answer(&["nosuch", "--of", "x"]), "no run has the metric nosuch; the metrics are: p99, size");
    assert_eq!(answer(&["--label", "branch=main"]), "--label leaves none of 4 values");
    assert_eq!(answer(&["p99", "--of", "other"]), "--of leaves none of 2 values of p99");
    assert_eq!(
        answer(&["p99", "--of", "other", "--since", "2100-01-01"]),
        "--of and --since leave none of 2 values of p99"
    );
    let page = lab.path("page.md");
    lab.run(&["history", "--of", "other", "-o", page.to_str().expect("a plain path")]);
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("leaves none of 4 values"), "{page}");
}

#[test]
fn one_is_not_counted_as_several_and_a_message_names_its_file() {
    let lab = Lab::new();
    let file = write(&lab, "one.csv", "time,p99,size\n2026-06-01T00:00:00,20,\n");
    let said = lab.run(&["history", "import", &file]).err;
    assert!(said.contains("1 time has no time zone and is read as local time"), "{said}");
    assert!(said.contains("1 cell has no value and is left out"), "{said}");
    let odd = write(&lab, "x.json", "{\"a\": 1}");
    let said = lab.run(&["history", "import", &odd]).err;
    assert!(said.contains("x.json: found JSON of an unknown form"), "{said}");
    let cell = write(&lab, "bad.csv", "time,p99\nsoon,20\n");
    let said = lab.run(&["history", "import", &cell]).err;
    assert!(said.contains("bad.csv:2:1: "), "{said}");
    let one = lab.run(&["aa", "--simulate", "1", "--seed", "1"]);
    assert!(one.out.contains("1 simulated family (seed 1)"), "{}", one.out);
    let alone = lab.run(&["aa"]);
    assert!(alone.code == Some(2) && alone.err.contains("--simulate N"), "{}", alone.err);
    let plan = r#"
schema = 1
title  = "t"
[factors.x]
values    = ["a b", "c d"]
reference = "a b"
level     = "whole-plot"
[design]
blocks = 6
[load]
target = "exec:echo {x}"
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "1s" }
"#;
    let plan = write(&lab, "plan.toml", plan);
    let notes = lab.run(&["plan", "check", &plan]).out;
    assert!(notes.contains("(and 1 more level)"), "{notes}");
}

/// Only the last line of a paragraph may be short.
#[test]
fn the_end_of_the_help_is_wrapped_once() {
    let help = Lab::new().run(&["compare", "--help"]).out;
    let end = help.trim_end().rsplit("\n\n").next().expect("a paragraph");
    let lines: Vec<&str> = end.lines().collect();
    assert!(end.starts_with("Warm-up and pilot") && lines.len() > 1, "{end}");
    let short = |line: &&&str| line.len() < 80;
    assert_eq!(lines[..lines.len() - 1].iter().filter(short).count(), 0, "{end}");
}
