//! The disk and network instruments as a user runs them. Activity of other processes is not asserted.

mod lab;

use std::process::Stdio;

use lab::{Ended, Lab};
use serde_json::Value;

#[test]
fn interfaces_are_told_as_csv_as_json_and_as_a_list() {
    let lab = Lab::new();
    let csv = lab.run(&["nic", "--csv", "100ms", "2", "-i", "lo"]);
    assert_eq!(csv.code, Some(0), "{}", csv.err);
    let fields: Vec<usize> = csv.out.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(fields, [15, 15, 15], "{}", csv.out);

    let lines = lab.run(&["nic", "--json", "100ms", "2"]);
    let lines: Vec<Value> =
        lines.out.lines().map(|l| serde_json::from_str(l).expect("an object a line")).collect();
    assert_eq!(lines.len(), 2);
    let lo = lines[1]["interfaces"].as_array().expect("a list").iter().find(|i| i["name"] == "lo");
    let lo = lo.expect("every machine has a loopback");
    // Its speed is unknown, so its utilization is unknown too.
    assert_eq!(lo["util_ratio"], Value::Null);
    assert!(lo["missing"]["util_ratio"].is_string() && lo["rx_bytes"].is_u64(), "{lo}");

    let list = lab.json(&["nic", "--list"]);
    assert_eq!(list["schema"], "bakeoff.nic-list/1");
    let told = lab.run(&["nic", "--speed", "lo=10Gbit", "--json", "100ms", "1"]);
    let told: Value = serde_json::from_str(&told.out).expect("one object");
    let lo = told["interfaces"].as_array().expect("a list").iter().find(|i| i["name"] == "lo").expect("lo");
    assert_eq!(lo["speed_bits_per_s"], 10_000_000_000_u64);
    assert!(lo["util_ratio"].is_f64(), "{lo}");
}

#[test]
fn root_every_instrument_says_what_watching_itself_costs() {
    let lab = Lab::new();
    let is_root = nix::unistd::geteuid().is_root();
    let has_programs = is_root && std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
    for (instrument, needs_programs) in
        [("nic", false), ("cpu", true), ("io", true), ("locks", true), ("ulocks", true)]
    {
        if needs_programs && !has_programs {
            eprintln!("skipped: {instrument} needs root and a kernel with BTF");
            continue;
        }
        let ended = lab.run(&[instrument, "--json", "200ms", "2"]);
        assert_eq!(ended.code, Some(0), "{instrument}: {}", ended.err);
        assert!(ended.err.contains(&format!("bakeoff {instrument}: watching cost ")), "{}", ended.err);
        assert!(!ended.err.contains("unknown"), "{}", ended.err);
        let last = ended.out.lines().last().expect("a line an interval");
        let last: Value = serde_json::from_str(last).expect("an object a line");
        let own = &last["own_cost"];
        assert!(own["process_ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{own}");
        if needs_programs {
            let event = &own["events"][0];
            assert!(event["ns_per_event"].as_f64().is_some_and(|ns| ns > 0.0), "{instrument}: {own}");
            let of_all = own["events"].as_array().expect("a list").iter();
            let ns: f64 = of_all
                .map(|e| e["ns_per_event"].as_f64().expect("ns") * e["count"].as_f64().expect("a count"))
                .sum();
            let elapsed_ns = ns / own["programs_ratio"].as_f64().expect("a ratio");
            assert!(ns == 0.0 || elapsed_ns >= 2e8, "{instrument}: {own}");
        }
    }
}

#[test]
fn a_closed_pipe_ends_the_reports_of_every_instrument_as_ctrl_c_does() {
    let lab = Lab::new();
    let is_root = nix::unistd::geteuid().is_root();
    let has_programs = is_root && std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
    let of_programs = ["io", "locks", "ulocks"].into_iter().filter(|_| has_programs);
    for instrument in ["cpu", "nic", "memory"].into_iter().chain(of_programs) {
        let mut command = lab.command(&[instrument, "100ms", "--json"]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("our own program");
        drop(child.stdout.take());
        let ended = Ended::of(child.wait_with_output().expect("it ends by itself"));
        assert_eq!(ended.code, Some(0), "{instrument}: {}", ended.err);
        assert!(ended.err.contains(&format!("bakeoff {instrument}: watching cost ")), "{}", ended.err);
    }
}

#[test]
fn what_is_wrong_is_told_and_ends_with_2() {
    let lab = Lab::new();
    for (words, word) in [
        (&["nic", "--speed", "eth0=10"][..], "25Gbit"),
        (&["nic", "--speed", "10Gbit"], "NAME=SPEED"),
        (&["nic", "--csv", "-t"], "cannot be used with"),
        (&["nic", "--list", "-t"], "cannot be used with"),
        (&["nic", "--list", "1", "1"], "cannot be used with"),
        (&["nic", "--list", "-i", "no-such-link"], "no-such-link"),
        (&["nic", "--json", "-p"], "--parseable"),
        (&["nic", "--speed", "lo=10Gbit", "--speed", "lo=1Gbit"], "twice"),
        (&["nic", "0"], "100ms"),
        (&["io", "--by", "colour"], "device"),
        (&["io", "--op", "scribble"], "discard"),
        (&["io", "--dev", "no-such-disk"], "no-such-disk"),
        (&["io", "--latency", "issue", "--histogram", "latency"], "issue-latency"),
        (&["io", "--latency", "none", "--heat-map", "x.svg"], "no latency"),
        (&["io", "--latency", "none", "--pid", "1"], "--latency both"),
        (&["io", "--latency", "issue", "--comm", "fio"], "--latency both"),
        (&["io", "--latency", "issue", "--by", "op,comm"], "--latency both"),
        (&["watch"], "terminal"),
        (&["load", "null:", "--observe", "moon"], "nic"),
    ] {
        let ended = lab.run(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.err);
        assert!(ended.err.contains(word), "{words:?}: {}", ended.err);
    }
}

#[test]
fn what_was_observed_beside_a_load_is_kept_and_has_its_section() {
    let lab = Lab::new();
    let load =
        ["load", "null:", "--rate", "200", "--time", "600ms", "--observe", "all", "--interval", "200ms"];
    let run = lab.json(&load)["run"].as_str().expect("a name").to_owned();
    let page = lab.run(&["report", &run]);
    assert_eq!(page.code, Some(0), "{}", page.err);
    // Without root or BTF, disks and locks cannot be observed, and the page reports this.
    for heading in [
        "Network",
        "Block I/O",
        "Locks of the kernel",
        "Locks of programs",
        "Profile: time on a CPU",
        "Profile: time off the CPU",
    ] {
        assert!(page.out.contains(heading), "{}", page.out);
    }
    assert_eq!(lab.run(&["runs", "verify"]).code, Some(0));
}
