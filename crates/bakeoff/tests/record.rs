//! `bakeoff record` as a user runs it.

mod lab;

use std::process::Stdio;

use lab::{Ended, Lab};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const SPIN: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

#[test]
fn a_commands_cpu_time_is_told_three_times_and_its_exit_code_shown() {
    let lab = Lab::new();
    // Two children that the shell waits for, and the shell itself.
    let script = format!("({SPIN}); ({SPIN}); {SPIN}; exit 3");
    let ended = lab.run(&["record", "--json", "--interval", "100ms", "--", "sh", "-c", &script]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["schema"], "bakeoff.record/1");
    assert_eq!(document["exit_code"], 3);
    let of = |name: &str| document[name].as_f64();
    let rusage = of("cpu_by_rusage_s").expect("every kernel tells it");
    assert!(rusage > 0.0, "{document}");
    // Ticks of 10 ms, in four columns that are each rounded down.
    let proc = of("cpu_by_proc_s").expect("the command was not yet waited for");
    assert!((proc - rusage).abs() < 0.06 + 0.05 * rusage, "{document}");
    match of("cpu_by_events_s") {
        // Both clocks measure the same time; some kernels hide a part from their tracers. The scheduler's
        // clock leaves out what the host stole from the CPUs.
        Some(events) => {
            let all = &document["machine"]["all"];
            let stolen_ratio = all["stolen_ratio"].as_f64().unwrap_or(0.0);
            let stolen = stolen_ratio * all["cpus"].as_f64().unwrap() * of("wall_s").unwrap();
            let (found, margin) = (events + of("interrupted_s").unwrap_or(0.0), 0.05 + 0.05 * rusage);
            assert!((rusage - margin..rusage + stolen + margin).contains(&found), "{document}");
        }
        None => assert!(document["missing"]["cpu_by_events_s"].is_string(), "{document}"),
    }
    let (machine, wall) = (&document["machine"], of("wall_s").expect("the window has a length"));
    assert!((machine["interval_s"].as_f64().unwrap() - wall).abs() < 1e-9, "{document}");

    let listed = lab.json(&["runs", "list", "--kind", "record"]);
    assert_eq!(listed["runs"][0]["run"], document["run"]);
    let shown = lab.run(&["runs", "show", document["run"].as_str().unwrap()]);
    assert!(shown.out.contains("exit code 3") && shown.out.contains("rusage"), "{}", shown.out);
    let exported = lab.run(&["runs", "export", document["run"].as_str().unwrap(), "--format", "json"]);
    assert!(exported.out.contains("cpu"), "{}", exported.out);
}

#[test]
fn of_waits_that_began_before_a_window_of_milliseconds_nothing_is_claimed() {
    let lab = Lab::new();
    // Next to other work a short command may take long: at least one of many did not.
    for _ in 0..50 {
        let ended = lab.run(&["record", "--json", "--no-archive", "--", "true"]);
        let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        let machine = &document["machine"];
        if machine["interval_s"].as_f64().unwrap() < 0.05 {
            let wait = &machine["all"]["run_queue_wait_s"];
            assert!(wait.is_null(), "a wait that ends in it may be longer than it: {machine}");
            return;
        }
    }
    panic!("no command ended in 50 ms");
}

#[test]
fn a_stretch_of_time_is_recorded_without_a_command() {
    let lab = Lab::new();
    let document = lab.json(&["record", "--time", "200ms"]);
    assert!(document["wall_s"].as_f64().unwrap() >= 0.2, "{document}");
    assert!(document["missing"]["exit_code"].is_string(), "{document}");
    let text = lab.run(&["record", "--time", "100ms", "--no-archive"]);
    assert!(text.out.contains("The machine over exactly that window"), "{}", text.out);
}

#[test]
fn an_interrupt_ends_the_command_and_keeps_what_was_recorded() {
    let lab = Lab::new();
    let mut command = lab.command(&["record", "--", "sh", "-c", "echo started; exec sleep 600"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 7];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{} {}", ended.out, ended.err);
    let listed = lab.json(&["runs", "list", "--kind", "record"]);
    assert_eq!(listed["runs"][0]["state"], "interrupted", "{listed}");
}

#[test]
fn what_cannot_be_recorded_is_told() {
    let lab = Lab::new();
    for (words, code, word) in [
        (&["record"][..], 2, "--time"),
        (&["record", "--time", "1s", "--", "true"], 2, "--time"),
        (&["record", "--", "no-such-program-anywhere"], 2, "no-such-program"),
        (&["record", "--", "/"], 6, "cannot start"),
        (&["record", "--time", "1s", "--observe", "weather"], 2, "weather"),
    ] {
        let ended = lab.run(words);
        assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.err);
        assert!(ended.err.contains(word), "{words:?}: {}", ended.err);
        assert!(lab.archived_bytes().iter().all(|(path, _)| !path.to_string_lossy().contains(".partial")));
    }
}
