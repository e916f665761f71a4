//! `bakeoff compare` as a user runs it: commands, archived runs, gates, exports, and what goes wrong.

mod lab;

use std::io::Read as _;
use std::process::Stdio;

use lab::Lab;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn last_line(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or_default()
}

/// A sleep of ten times the length is far beyond what a busy machine adds.
#[test]
fn the_last_line_says_which_command_is_faster_and_the_run_is_archived() {
    let lab = Lab::new();
    let words = ["compare", "--blocks", "10", "--seed", "7", "--", "sleep 0.1", "sleep 0.01"];
    let ended = lab.run(&words);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let answer = last_line(&ended.out).to_owned();
    assert!(answer.starts_with("B is ") && answer.contains("x as fast as A (95 %: "), "{}", ended.out);
    let rows: Vec<&str> = ended.out.lines().take(2).collect();
    assert!(rows[0].starts_with(" A  sleep 0.1 ") && rows[1].starts_with(" B  sleep 0.01 "), "{}", ended.out);
    assert!(rows.iter().all(|row| (row.contains(" ms  +-") || row.contains(" to "))
        && row.contains("CPU ")
        && row.ends_with("10 rounds")));
    assert!(ended.out.lines().all(|line| line.chars().count() <= 120), "{}", ended.out);

    let shown = lab.run(&["runs", "show", "latest"]);
    assert_eq!(last_line(&shown.out), answer);
    let listed = lab.json(&["runs", "list", "--kind", "compare"]);
    assert_eq!(listed["runs"][0]["title"], "sleep 0.1 | sleep 0.01");
    assert_eq!(last_line(&lab.run(&["compare", "latest"]).out), answer);
    let page = lab.run(&["report", "latest"]);
    assert!(page.out.contains(&answer) && page.out.contains("## Rounds"), "{}", page.out);
    let json = lab.json(&["report", "latest"]);
    assert_eq!((json["schema"].as_str(), json["seed"].as_u64()), (Some("bakeoff.compare/1"), Some(7)));
    // `sleep` has less than 4 MB; this program, of which each command begins as a copy, has more.
    let memory = |command: &Value| command["max_memory_bytes"].as_f64();
    let commands = json["commands"].as_array().expect("a list");
    assert!(
        commands.len() == 2 && commands.iter().all(|c| memory(c).is_none_or(|bytes| bytes < 4e6)),
        "{json}"
    );
    let pair = &json["pairs"][0];
    assert_eq!((pair["a"].as_str(), pair["b"].as_str()), (Some("B"), Some("A")));
    assert_eq!((pair["verdict"].as_str(), pair["blocks"].as_u64()), (Some("better"), Some(10)));
    let ratio = |name: &str| pair[name].as_f64().expect("a number");
    assert!(
        ratio("low") <= ratio("ratio") && ratio("ratio") <= ratio("high") && ratio("high") < 0.5,
        "{pair}"
    );
    assert_eq!(lab.run(&["runs", "verify"]).code, Some(0));
}

#[test]
fn the_order_is_drawn_from_the_seed_and_the_pilot_is_no_part_of_the_result() {
    let lab = Lab::new();
    let order = |seed: &str| {
        let words = ["compare", "--time", "5s", "--seed", seed, "--", "true", "sleep 0.001", "sleep 0.002"];
        assert_eq!(lab.run(&words).code, Some(0));
        let page = lab.run(&["report", "latest"]).out;
        let rows: Vec<String> = page
            .lines()
            .filter(|line| line.contains("| warm-up |") || line.contains("| pilot |"))
            .map(|line| line.split('|').nth(3).unwrap_or_default().trim().to_owned())
            .collect();
        assert_eq!(rows.len(), 9, "one round of warm-up and eight of the pilot: {page}");
        let measured = page.lines().filter(|line| line.contains("| measured |")).count();
        let json = lab.json(&["report", "latest"]);
        assert_eq!(json["rounds"].as_u64(), u64::try_from(measured).ok());
        rows
    };
    let first = order("3");
    assert_eq!(first, order("3"));
    assert_ne!(first, order("4"));
}

#[test]
fn a_command_that_does_not_exist_fails_or_hangs_gets_one_line_and_its_exit_code() {
    let lab = Lab::new();
    let of = |options: &[&str], b: &str| {
        let ended = lab.run(&[&["compare", "--blocks", "2"], options, &["--", "true", b]].concat());
        assert!(ended.out.is_empty(), "{}", ended.out);
        assert_eq!(ended.err.trim_end().lines().count(), 1, "{}", ended.err);
        (ended.code, ended.err)
    };
    let (code, said) = of(&[], "no-such-program-anywhere x");
    assert!(code == Some(2) && said.contains("cannot start B: no-such-program-anywhere x"), "{said}");
    let (code, said) = of(&[], "echo broken >&2; exit 3");
    assert!(
        code == Some(5) && said.contains("B ended with exit code 3 in warm-up round 1; it said: broken"),
        "{said}"
    );
    let (code, said) = of(&["--timeout", "50ms"], "sleep 1000");
    assert!(
        code == Some(5) && said.contains("B did not end within 50ms (--timeout) in warm-up round 1"),
        "{said}"
    );
    let (code, said) = of(&["--prepare", "exit 4"], "true");
    assert!(code == Some(5) && said.contains("--prepare `exit 4` ended with exit status: 4"), "{said}");
    // The files of an earlier comparison are replaced.
    let [junit, badge] = ["gates.xml", "badge.json"].map(|name| lab.path(name));
    for file in [&junit, &badge] {
        std::fs::write(file, "green").expect("a file");
    }
    let files = ["--junit", junit.to_str().expect("a path"), "--badge", badge.to_str().expect("a path")];
    let (code, _) = of(&files, "echo broken >&2; exit 3");
    let [xml, badge] = [&junit, &badge].map(|file| std::fs::read_to_string(file).expect("a file"));
    assert!(code == Some(5) && xml.contains("errors=\"1\"") && xml.contains("FAILED: B ended"), "{xml}");
    let badge: Value = serde_json::from_str(&badge).expect("JSON");
    assert_eq!(badge["color"], "red", "{badge}");
    let (code, said) = of(&["--input", "/no/such/file"], "true");
    assert!(code == Some(6) && said.contains("cannot read the input /no/such/file"), "{said}");
    assert_eq!(lab.run(&["runs", "list"]).out, "no runs\n");
}

#[test]
fn failures_are_measured_where_the_user_says_so_and_named() {
    let lab = Lab::new();
    let words =
        ["compare", "--blocks", "6", "--ignore-failure", "--", "sleep 0.01; exit 1", "sleep 0.02; exit 2"];
    let ended = lab.run(&words);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("A failed in 6 rounds, which was ignored"), "{}", ended.out);
    // A command that crashes at once is not faster than one that does its work.
    let badge = lab.path("badge.json");
    let words = ["compare", "--blocks", "6", "--ignore-failure", "--badge", badge.to_str().expect("a path")];
    let ended = lab.run(&[&words[..], &["--", "sleep 0.05; true", "exit 1"]].concat());
    let answer = "cannot tell yet: B failed in 6 of 6 rounds and A in 0, and what fails may stop early";
    assert_eq!(last_line(&ended.out), answer, "{}", ended.out);
    assert!(std::fs::read_to_string(badge).expect("a badge").contains("\"color\": \"yellow\""));
    let codes = ["compare", "--blocks", "2", "--ignore-failure=1", "--", "exit 1", "exit 2"];
    assert!(lab.run(&codes).err.contains("B ended with exit code 2"));
}

#[test]
fn processes_that_a_command_leaves_are_ended_and_told() {
    let lab = Lab::new();
    let left = "setsid sleep 4711.25 >/dev/null 2>&1 & sleep 4711.25 & exit 0";
    let ended = lab.run(&["compare", "--blocks", "6", "--", "true", left]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("B left processes behind after 6 rounds"), "{}", ended.out);
    let running = std::process::Command::new("pgrep").args(["-f", "sleep 4711.25"]).output();
    if let Ok(running) = running {
        assert!(running.stdout.is_empty(), "{}", String::from_utf8_lossy(&running.stdout));
    }
}

#[test]
fn ctrl_c_keeps_whole_rounds_gives_no_verdict_and_runs_the_cleanup() {
    let lab = Lab::new();
    let cleaned = lab.path("cleaned");
    let cleanup = format!("touch {}", cleaned.display());
    let count = lab.path("count");
    let counting = format!("echo x >> {}", count.display());
    let words = ["compare", "--blocks", "2000", "--cleanup", &cleanup, "--", "sleep 0.01", &counting];
    let mut child =
        lab.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    // The fifth execution is in the fourth measured round.
    while std::fs::read_to_string(&count).unwrap_or_default().lines().count() < 5 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it measured");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it runs");
    let mut out = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{out}");
    let answer = last_line(&out);
    assert!(
        answer.starts_with("INTERRUPTED: after ") && answer.contains("of 2000 rounds; no verdict"),
        "{out}"
    );
    assert!(cleaned.exists());
    let json = lab.json(&["report", "latest"]);
    assert_eq!(
        (json["state"].as_str(), json["pairs"][0]["verdict"].as_str()),
        (Some("interrupted"), Some("inconclusive"))
    );
}

#[test]
fn gates_decide_the_exit_code_and_write_what_continuous_integration_reads() {
    let lab = Lab::new();
    let path = |name: &str| lab.path(name).to_str().expect("a plain path").to_owned();
    let (junit, summary, badge, svg) =
        (path("gates.xml"), path("summary.md"), path("badge.json"), path("badge.svg"));
    let gate = ["--gate", "time not worse by 5%", "--gate", "time <= 10s"];
    let files = ["--junit", &junit, "--summary", &summary, "--badge", &badge];
    let commands = ["--", "sleep 0.01", "sleep 0.1"];
    let words = [&["compare", "--blocks", "10"], &gate[..], &files[..], &commands[..]].concat();
    let ended = lab.run(&words);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(
        last_line(&ended.out).starts_with("FAIL: 1 of 2 gates: time not worse than reference by 5%"),
        "{}",
        ended.out
    );
    assert!(last_line(&ended.out).contains("; B is "), "{}", ended.out);
    let xml = std::fs::read_to_string(&junit).expect("a file");
    assert!(xml.contains("tests=\"2\" failures=\"1\" errors=\"0\""), "{xml}");
    let markdown = std::fs::read_to_string(&summary).expect("a file");
    assert!(markdown.contains("| A | sleep 0.01 |") && markdown.contains("Gates: FAIL"), "{markdown}");
    let badge: Value = serde_json::from_str(&std::fs::read_to_string(&badge).expect("a file")).expect("JSON");
    assert_eq!((badge["color"].as_str(), badge["isError"].as_bool()), (Some("red"), Some(true)));

    // A stored comparison ends as it did when it was measured, and writes the same files.
    let stored = [&["compare", "latest"], &files[..]].concat();
    let (xml_then, csv) = (xml, path("again.csv"));
    std::fs::remove_file(&junit).expect("a file");
    let again = lab.run(&[&stored[..], &["--export-csv", &csv]].concat());
    assert_eq!((again.code, last_line(&again.out)), (Some(1), last_line(&ended.out)), "{}", again.err);
    assert_eq!(std::fs::read_to_string(&junit).expect("a file"), xml_then);
    assert_eq!(std::fs::read_to_string(&csv).expect("a file").lines().count(), 3);
    assert_eq!(lab.run(&["runs", "show", "latest"]).code, Some(0), "it shows a run, and judges none");
    for idle in [["--rope", "5%"], ["--gate", "time <= 1s"], ["--warmup", "3"]] {
        let refused = lab.run(&[&["compare", "latest"], &idle[..]].concat());
        let said = format!("{} has no effect on a stored comparison", idle[0]);
        assert!(refused.code == Some(2) && refused.err.contains(&said), "{}", refused.err);
    }

    // Two rounds decide nothing, however clear they are.
    let few = lab.run(&[&["compare", "--blocks", "2", "--badge", &svg], &gate[..2], &commands[..]].concat());
    assert_eq!(few.code, Some(4), "{}", few.out);
    assert!(std::fs::read_to_string(&svg).expect("a file").starts_with("<svg "));
    assert_eq!(lab.run(&["compare", "latest"]).code, Some(4));
    let wrong = lab.run(&["compare", "--gate", "p99 <= 20ms", "--", "true", "true"]);
    assert!(
        wrong.code == Some(2) && wrong.err.contains("`p99` is not a metric of commands"),
        "{}",
        wrong.err
    );
}

#[test]
fn parameters_make_commands_and_exports_have_the_forms_of_hyperfine() {
    let lab = Lab::new();
    let path = |name: &str| lab.path(name).to_str().expect("a plain path").to_owned();
    let (json, csv, markdown, marker) =
        (path("all.json"), path("all.csv"), path("all.md"), path("marker-{s}"));
    let prepare = format!("rm -f {marker}");
    let command = format!("sleep 0.0{{s}}; touch {marker}");
    let options = ["-L", "s", "1,3", "--prepare", &prepare, "-r", "6", "--warmup", "0"];
    let exports = ["--export-json", &json, "--export-csv", &csv, "--export-markdown", &markdown];
    let ended = lab.run(&[&["compare"], &options[..], &exports[..], &["--", &command]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(lab.path("marker-1").exists() && lab.path("marker-3").exists());
    let document: Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("a file")).expect("JSON");
    let results = document["results"].as_array().expect("results");
    assert_eq!(results.len(), 2);
    assert_eq!(results[1]["parameters"]["s"], "3");
    assert_eq!(results[0]["times"].as_array().expect("times").len(), 6);
    let table = std::fs::read_to_string(&csv).expect("a file");
    assert!(table.starts_with("command,mean,stddev,median,user,system,min,max,parameter_s\n"), "{table}");
    assert!(std::fs::read_to_string(&markdown).expect("a file").contains("| Against A |"));
}

#[test]
fn input_and_output_are_what_the_user_says_each_time_anew() {
    let lab = Lab::new();
    std::fs::write(lab.path("in"), "one\ntwo\n").expect("a file");
    let path = |name: &str| lab.path(name).to_str().expect("a plain path").to_owned();
    let (input, out_a, out_b) = (path("in"), path("a"), path("b"));
    let options = ["--blocks", "3", "--input", &input, "--output", &out_a, "--output", &out_b, "-N"];
    let ended = lab.run(&[&["compare"], &options[..], &["--", "cat", "wc -l"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(std::fs::read_to_string(&out_a).expect("a file"), "one\ntwo\n");
    assert_eq!(std::fs::read_to_string(&out_b).expect("a file").trim(), "2");
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_runs() {
    let lab = Lab::new();
    let refused = |words: &[&str], said: &str| {
        let ended = lab.run(&[&["compare"], words].concat());
        assert_eq!(ended.code, Some(2), "{words:?}: {}{}", ended.out, ended.err);
        assert!(ended.err.contains(said), "{words:?}: {}", ended.err);
    };
    refused(&[], "nothing to compare");
    refused(&["--", "true"], "at least two commands");
    refused(&["-L", "n", "1,2", "--", "true", "false"], "parameter n is not used");
    refused(&["--prepare", "a", "--prepare", "b", "--", "x", "y", "z"], "once for each of the 3 commands");
    refused(&["--junit", "/no/such/folder/x.xml", "--", "true", "true"], "folder that does not exist");
    refused(&["--shell", "/no/such/shell", "--", "true", "true"], "cannot start the shell `/no/such/shell`");
    refused(&["--gate", "time <= 20", "--", "true", "true"], "must be a time such as 20ms, not `20`");
    refused(&["--rope", "1", "--", "true", "true"], "percentage");
    refused(&["--force", "--", "true", "true"], "--force has no effect on commands");
    refused(&["--reference", "C", "--", "true", "true"], "letters of the commands are A to B");
    refused(&["--time", "9s", "--blocks", "9", "--", "true", "true"], "cannot be used with");
    lab.run(&["load", "null:", "--rate", "50", "--time", "200ms"]);
    refused(&["sleep 1", "sleep 2"], "commands come after `--`");
    refused(&["latest"], "is one side");
    for (name, value) in [("a", 1), ("b", 2)] {
        let path = lab.path(&format!("{name}.csv"));
        std::fs::write(&path, format!("time,p99\n1,{value}\n")).expect("a file");
        lab.json(&["history", "import", path.to_str().expect("a plain path")]);
    }
    let imports = lab.json(&["runs", "list", "--kind", "import"]);
    let import = |i: usize| imports["runs"][i]["run"].as_str().expect("an id").to_owned();
    refused(&[&import(0), &import(1)], "is an imported history: `bakeoff history` finds the changes in it");
    refused(&["build=none", "latest"], "no run has the label build=none");
    refused(&["latest", "a=b", "--prepare", "x", "-N"], "--prepare, -N have no effect on archived runs");
}

/// Runs of two labels, one after the other in turns: four of each decide.
#[test]
fn archived_runs_are_compared_by_label_with_what_differs_first() {
    let lab = Lab::new();
    for _ in 0..4 {
        for (build, nap) in [("build=old", "0.1"), ("build=new", "0.01")] {
            let ended = lab.run(&["record", "--label", build, "--", "sleep", nap]);
            assert_eq!(ended.code, Some(0), "{}", ended.err);
        }
    }
    let ended = lab.run(&["compare", "build=old", "build=new"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(
        last_line(&ended.out).starts_with("build=new is ")
            && last_line(&ended.out).contains("x as fast as build=old"),
        "{}",
        ended.out
    );
    assert!(ended.out.starts_with("what differs\n"), "{}", ended.out);
    assert!(ended.out.contains("recorded: sleep 0.1 (build=old), sleep 0.01 (build=new)"), "{}", ended.out);
    assert!(!ended.out.contains("one side after the other"), "{}", ended.out);
    let json = lab.json(&["compare", "build=old", "build=new"]);
    let time =
        json["pairs"].as_array().expect("pairs").iter().find(|p| p["metric"] == "time").expect("a time");
    assert_eq!((time["verdict"].as_str(), time["a_runs"].as_u64()), (Some("better"), Some(4)));
    let gated = lab.run(&["compare", "build=new", "build=old", "--gate", "time not worse by 5%"]);
    assert_eq!(gated.code, Some(1), "{}", gated.out);
    let alike =
        lab.run(&["compare", "build=new", "build=old", "--rope", "5000%", "--reference", "build=old"]);
    assert!(last_line(&alike.out).starts_with("no difference that matters"), "{}", alike.out);

    let ids: Vec<String> = lab.json(&["runs", "list"])["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|r| r["run"].as_str().expect("an id").to_owned())
        .collect();
    let one = lab.run(&["compare", &ids[1], &ids[0]]);
    assert!(
        last_line(&one.out).contains("cannot tell yet: about 4 runs of each side needed, 1 present"),
        "{}",
        one.out
    );
    let group = format!("{},{}", ids[1], ids[3]);
    // A side with one run has no interval: nothing could be judged.
    let few = lab.run(&["compare", &group, &ids[0], "--json"]);
    let found: Value = serde_json::from_str(&few.out).expect("one JSON document");
    assert_eq!((few.code, &found["pairs"][0]["verdict"]), (Some(4), &Value::from("inconclusive")));

    // A run counts once, on one side.
    let twice = format!("{0},{0}", ids[1]);
    for (words, says) in [
        (["compare", &twice, &ids[3]], format!("{} is twice in the side {twice}", ids[1])),
        (["compare", "build=old", "build=old"], "two sides are the same runs: both are build=old".to_owned()),
        (["compare", &ids[1], &ids[1]], format!("two sides are the same runs: both are {}", ids[1])),
        (["compare", &group, &ids[1]], format!("{} is in the sides {group} and {}", ids[1], ids[1])),
        (["compare", "build=old", &ids[7]], format!("{} is in the sides build=old and", ids[7])),
    ] {
        let ended = lab.run(&words);
        assert!(ended.code == Some(2) && ended.err.contains(&says), "{words:?}: {}{}", ended.out, ended.err);
    }

    // Another kind of run is no sample of the same thing.
    lab.run(&["load", "null:", "--rate", "50", "--time", "200ms", "--label", "build=load"]);
    let unlike = lab.run(&["compare", "build=old", "build=load"]);
    assert!(unlike.code == Some(2) && unlike.err.contains("measured different things"), "{}", unlike.err);
}

#[test]
fn of_three_sides_the_last_line_names_the_worst_and_the_best() {
    let lab = Lab::new();
    for _ in 0..4 {
        for (build, nap) in [("build=mid", "0.03"), ("build=old", "0.1"), ("build=new", "0.01")] {
            lab.run(&["record", "--label", build, "--", "sleep", nap]);
        }
    }
    for sides in [["build=old", "build=new"], ["build=new", "build=old"]] {
        let three = lab.run(&["compare", "build=mid", sides[0], sides[1]]);
        let answer = last_line(&three.out);
        assert!(
            answer.starts_with("build=old is ") && answer.contains(" as slow as build=mid"),
            "{}",
            three.out
        );
        assert!(
            answer.contains("; build=new is ") && answer.contains(" as fast as build=mid"),
            "{}",
            three.out
        );
    }
}

#[test]
fn a_side_with_a_failed_run_is_no_green_badge_although_others_are_judged() {
    let lab = Lab::new();
    for _ in 0..4 {
        for (build, nap) in [("build=old", "0.1"), ("build=new", "0.01"), ("build=odd", "0.05")] {
            lab.run(&["record", "--label", build, "--", "sleep", nap]);
        }
    }
    lab.run(&["record", "--label", "build=odd", "--", "sh", "-c", "exit 3"]);
    let [junit, badge] = ["gates.xml", "badge.json"].map(|name| lab.path(name));
    let files = ["--junit", junit.to_str().expect("a path"), "--badge", badge.to_str().expect("a path")];
    let sides = ["compare", "build=old", "build=new", "build=odd", "--force"];
    let ended = lab.run(&[&sides[..], &files[..]].concat());
    assert_eq!(ended.code, Some(4), "{}{}", ended.out, ended.err);
    let [xml, badge] = [&junit, &badge].map(|file| std::fs::read_to_string(file).expect("a file"));
    assert!(xml.contains("errors=\"1\"") && xml.contains("build=odd claims nothing"), "{xml}");
    let badge: Value = serde_json::from_str(&badge).expect("JSON");
    assert_eq!(badge["color"], "yellow", "{badge}");
    let two = lab.run(&[&sides[..3], &files[..]].concat());
    assert_eq!(two.code, Some(0), "{}{}", two.out, two.err);
}

/// The process ignores the end of its child, so the kernel does not count the child's CPU time for it.
#[test]
fn a_gate_of_cpu_time_judges_the_cpu_time_that_is_printed() {
    let lab = Lab::new();
    let spins = "perl -e '$SIG{CHLD} = q(IGNORE); unless (fork) { 1 while times < 0.2; exit } sleep 1 until wait == -1'";
    let words =
        ["compare", "--events", "--blocks", "8", "--json", "--gate", "cpu <= 100ms", "--", "true", spins];
    let ended = lab.run(&words);
    let found: Value = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}", ended.err));
    let Some(by_events_s) = found["commands"][1]["cpu_by_events_s"].as_f64() else {
        eprintln!("skipped: no CPU time by events: {found}");
        return;
    };
    assert!(by_events_s > 0.15, "{found}");
    assert_eq!((ended.code, &found["gates"][0]["outcome"]), (Some(1), &Value::from("fail")), "{found}");
}

/// The second bake-off sleeps five times as long. Trials that a busy machine makes INVALID leave its pairs
/// undecided; they never make it faster.
#[test]
fn two_bake_offs_are_compared_cell_by_cell() {
    let lab = Lab::new();
    let plan = |nap: &str| {
        let text = format!(
            r#"
schema = 1
title  = "Naps"
[factors.arm]
values    = ["1", "2"]
reference = "1"
level     = "whole-plot"
[design]
blocks = 4
[load]
target = "exec:sleep {nap}{{arm}}"
[phases]
prepare = "none"
warm-up = {{ min = "20ms" }}
measure = {{ time = "300ms" }}
cooldown = "0s"
[judge]
metrics = ["throughput"]
"#
        );
        let file = lab.path("plan.toml");
        std::fs::write(&file, text).expect("a plan");
        let run = lab.run(&[
            "run",
            file.to_str().expect("a plain path"),
            "--badge",
            lab.path("b.json").to_str().expect("a path"),
            "--json",
        ]);
        let run: Value = serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {}", run.err));
        let badge = std::fs::read_to_string(lab.path("b.json")).expect("a badge");
        assert!(badge.contains("\"color\": \"yellow\""), "four blocks decide nothing: {badge}");
        run["bakeoff"].as_str().expect("an id").to_owned()
    };
    let (fast, slow) = (plan("0.01"), plan("0.1"));
    let found = lab.json(&["compare", &fast, &slow]);
    let pairs: Vec<&Value> =
        found["pairs"].as_array().expect("pairs").iter().filter(|p| p["metric"] == "throughput").collect();
    let conditions: Vec<&str> = pairs.iter().filter_map(|p| p["condition"].as_str()).collect();
    assert_eq!(conditions, ["arm=1", "arm=2"], "{found}");
    for (side, pair) in found["sides"].as_array().expect("sides").iter().zip(["a_runs", "b_runs"]) {
        let is_whole = side["lost"].as_array().is_some_and(Vec::is_empty);
        assert!(!is_whole || pairs[0][pair] == 4, "{found}");
    }
    let lost = found["sides"].as_array().expect("sides").iter().any(|s| s["lost"] != serde_json::json!([]));
    for pair in pairs {
        assert_eq!((&pair["a"], &pair["b"]), (&Value::from(slow.as_str()), &Value::from(fast.as_str())));
        if lost {
            assert_eq!(pair["verdict"], "inconclusive", "{pair}");
        } else {
            assert_eq!(pair["verdict"], "worse", "{pair}");
            assert!(pair["high"].as_f64().expect("a number") < 0.5, "{pair}");
        }
    }
    let caveats = found["caveats"].to_string();
    assert!(
        caveats.contains("one side after the other") && caveats.contains("is a single bake-off"),
        "{caveats}"
    );
    assert!(found["differs"].to_string().contains("plan (sha256)"), "{found}");
    let answer = lab.run(&["compare", &fast, &slow]).out;
    let expected = if lost { "cannot tell yet" } else { "x as slow as" };
    assert!(last_line(&answer).contains(expected), "{answer}");
}

#[test]
fn a_plan_is_written_from_a_load_or_from_commands_and_checks() {
    let lab = Lab::new();
    let file = lab.path("plan.toml").to_str().expect("a plain path").to_owned();
    let target = lab.sqlite();
    let load = ["--", "load", target.as_str(), "--rate", "500", "--threads", "4", "--time", "2s"];
    let ended = lab.run(&[&["plan", "init", "-o", &file], &load[..]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(text.contains("rate      = 500"), "{text}");
    let labelled = lab.run(&[&["plan", "init"], &load[..], &["--label", "a=b"]].concat());
    assert!(
        labelled.code == Some(2) && labelled.err.contains("--label cannot be part of a plan"),
        "{}",
        labelled.err
    );
    let checked = lab.json(&["plan", "check", &file]);
    assert_eq!(checked["unbuilt"], serde_json::json!([]));
    assert_eq!(lab.run(&[&["plan", "init", "-o", &file], &load[..]].concat()).code, Some(2), "it exists");
    std::fs::remove_file(&file).expect("a file");
    let commands = ["plan", "init", "-o", &file, "--", "gzip -6 < 'a b'", "zstd -3 < 'a b'"];
    assert_eq!(lab.run(&commands).code, Some(0));
    let checked = lab.json(&["plan", "check", &file]);
    assert_eq!(checked["configurations"], 2);
    assert!(!checked["notes"].to_string().contains("raw"), "the tool wrote it: {checked}");
    std::fs::remove_file(&file).expect("a file");
    let mixed = ["plan", "init", "-o", &file, "--", "gzip -6 < 'a b'", "zstd -3 a"];
    assert_eq!(lab.run(&mixed).code, Some(0));
    let checked = lab.json(&["plan", "check", &file]);
    assert!(!checked["notes"].to_string().contains("raw"), "the tool wrote it: {checked}");
    let bad = lab.run(&["plan", "init", "--", "load", "sqlite:x", "--rate", "fast"]);
    assert!(bad.code == Some(2) && bad.err.contains("--rate"), "{}", bad.err);
}
