//! Everything that a plan may ask for: instruments and their control arm, judged warm-ups, the server's own
//! values, rates that are found first, several instances.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use archive::Archive;
use bakeoff_runner::{Event, Options, Outcome, resume, run};
use load::Stop;
use plan::Plan;
use record::bakeoff::{Attempt, Bakeoff, CONTROL_ARM, TrialState};
use record::resources::{Resource, SERVER_MEMORY, UsedBy};
use record::run::Run;
use record::warm_up::Course;
use tempfile::TempDir;

/// Tests run in parallel.
const BESIDE: Options = Options {
    beside_others: true,
    wait: false,
    plan_file: None,
    id: None,
    generator: None,
    trust: |_| false,
};

fn plan(text: &str) -> Plan {
    plan::read(text, "test.toml").unwrap_or_else(|e| panic!("{e}"))
}

/// The head of a plan: one factor of two names, `rest` after the design.
fn two_arms(blocks: u32, rest: &str) -> Plan {
    plan(&format!(
        r#"
schema = 1
title  = "Two arms"
[factors.arm]
values    = ["one", "other"]
reference = "one"
level     = "whole-plot"
[design]
blocks = {blocks}
{rest}
"#
    ))
}

/// One configuration, one block.
fn one_trial(rest: &str) -> Plan {
    plan(&format!("schema = 1\ntitle = \"One trial\"\n[design]\nblocks = 1\n{rest}\n"))
}

struct Conducted {
    outcome: Outcome,
    bakeoff: Bakeoff,
    notes: Vec<String>,
    folder: TempDir,
}

fn conduct(plan: &Plan) -> Conducted {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut notes = Vec::new();
    let outcome = run(plan, &archive, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Note(note) = event {
            notes.push((*note).to_owned());
        }
    });
    let outcome = outcome.unwrap_or_else(|e| panic!("{e}; {notes:?}"));
    let bakeoff = archive.bakeoff(outcome.id).unwrap();
    Conducted { outcome, bakeoff, notes, folder }
}

/// Runs with their trials, INVALID ones too: a busy machine makes some.
fn runs(bakeoff: &Bakeoff) -> Vec<(u32, &Run)> {
    let block = |a: &Attempt| bakeoff.trials[a.trial as usize].block;
    bakeoff.attempts.iter().filter_map(|a| Some((block(a), a.run.as_ref()?))).collect()
}

fn is_installed(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|o| o.status.success())
}

const CACHE: &str = r#"
[load]
target  = "memcached+unix:{scratch}/m.sock"
keys    = 100
threads = 2
[server]
command = "memcached -u nobody -s {scratch}/m.sock"
ready   = "socket:{scratch}/m.sock"
"#;

#[test]
fn instruments_watch_half_of_the_blocks_and_their_numbers_are_in_each_run() {
    if !is_installed("memcached") {
        println!("skipped: memcached is not installed");
        return;
    }
    let found = conduct(&two_arms(
        2,
        &format!(
            r#"{CACHE}
[phases]
warm-up = {{ min = "50ms" }}
measure = {{ time = "2s", interval = "100ms" }}
[observe]
instruments = ["cpu", "io", "nic", "locks", "ulocks", "memory", "power"]
control_arm = true
[judge]
metrics = ["throughput", "io-per-event", "memory-growth"]
"#
        ),
    ));
    let all = runs(&found.bakeoff);
    assert_eq!(all.len(), 4, "{:?}", found.notes);
    let of = |control: bool| -> BTreeSet<u32> {
        let is = |run: &Run| run.header.labels.contains_key(CONTROL_ARM) == control;
        all.iter().filter(|(_, run)| is(run)).map(|(block, _)| *block).collect()
    };
    assert_eq!((of(true).len(), of(false).len()), (1, 1), "one block of two has no instruments");
    for (_, run) in &all {
        let names: BTreeSet<&str> = run.series.iter().map(|s| s.name.as_str()).collect();
        let is_control = run.header.labels.contains_key(CONTROL_ARM);
        assert_eq!(run.cpu.is_empty(), is_control);
        for name in [SERVER_MEMORY, "memory_available_bytes", "nic_rx_bytes_per_s"] {
            assert_eq!(names.contains(name), !is_control, "{name}: {names:?}");
        }
        // What needs no instrument is known in both.
        assert!(run.server_cpu.is_ok(), "{:?}", run.server_cpu);
        let used = |resource| run.resources.get(&resource).cloned();
        assert!(
            used(Resource::Written).unwrap().is_ok_and(|used| used.by == UsedBy::Server),
            "{:?}",
            run.resources
        );
        assert_eq!(used(Resource::LockSpin).is_some(), !is_control, "{:?}", run.resources);
        // This machine may have no counters; then the reason is stored.
        assert_eq!(used(Resource::Energy).is_some(), !is_control, "{:?}", run.resources);
        if is_control {
            continue;
        }
        let levels: Vec<f64> =
            run.series.iter().filter(|s| s.name == SERVER_MEMORY).map(|s| s.value).collect();
        assert!(levels.len() >= 9, "one at the beginning and at the end of each interval: {levels:?}");
        assert!(levels.iter().all(|bytes| (100e3..1e9).contains(bytes)), "{levels:?}");
        let locks = used(Resource::LockSpin).unwrap();
        if let Ok(locks) = locks {
            assert!((0.0..1.0).contains(&locks.amount), "{locks:?}");
            // They start with the phase and are read at its end: seven take half a second, unoptimized.
            assert!(locks.span_s() > 0.8 && locks.span_s() < 3.2, "of a phase of 2 s: {locks:?}");
            assert!(!run.instruments.missing.contains_key("locks"));
        } else {
            assert!(run.instruments.missing.contains_key("locks"), "{:?}", run.instruments.missing);
        }
    }
}

/// Each event writes a file of 256 KiB through to the disk.
#[test]
fn io_per_event_is_what_an_event_writes() {
    let plan = one_trial(
        r#"
[load]
target  = "exec:dd if=/dev/zero of={scratch}/file bs=64k count=4 conv=fsync 2>/dev/null"
threads = 1
[phases]
prepare = "none"
warm-up = { min = "50ms" }
measure = { time = "1s" }
[judge]
metrics = ["io-per-event"]
"#,
    );
    let found = conduct(&plan);
    let (_, run) = runs(&found.bakeoff)[0];
    let (load, written) = (run.load.as_ref().unwrap(), run.resources[&Resource::Written].clone().unwrap());
    if written.amount == 0.0 {
        println!("skipped: the scratch folder is in memory");
        return;
    }
    let per_event = written.amount / written.span_s() / load.achieved_per_s;
    // At either end of the phase, one event more or less.
    let slack = 1.0 / load.counts.done as f64;
    let kib = per_event / 1024.0;
    assert!(((1.0 - 2.0 * slack) * 256.0..(1.0 + 2.0 * slack) * 300.0).contains(&kib), "{kib} KiB, {load:?}");
}

/// Every value that is read is checked: also those that the judged warm-up wrote.
#[test]
fn a_judged_warm_up_writes_the_values_of_the_data_set() {
    if !is_installed("memcached") {
        println!("skipped: memcached is not installed");
        return;
    }
    let load = CACHE.replace("threads = 2", "threads = 2\nverify  = true").replace("100\n", "5000\n");
    let found = conduct(&one_trial(&format!(
        r#"{load}
[phases]
warm-up = {{ min = "200ms", max = "1s", judge = ["throughput"] }}
measure = {{ time = "200ms", interval = "100ms" }}
"#
    )));
    let run =
        found.bakeoff.attempts[0].run.as_ref().unwrap_or_else(|| panic!("{:?}", found.bakeoff.attempts));
    let load = run.load.as_ref().unwrap();
    assert!(load.counts.done > 100 && run.warm_up.is_some(), "{load:?}");
    assert_eq!((load.errors.verify, load.settings.verify), (0, true), "{:?}", load.error_samples);
}

const JUDGED: &str = r#"
[load]
target = "null:"
rate   = 1000
[phases]
prepare = "none"
warm-up = { min = "100ms", max = "2s", judge = ["rss"] }
measure = { time = "300ms", interval = "100ms" }
"#;

/// Some 2 MB more, fifty times a second. Each string has its own length, so none shares memory.
const LEAK: &str = r#"push(@x, "x" x (2000000 + @x)), select(undef, undef, undef, 0.02) while 1;"#;

fn warm_up(server: &str) -> (Run, Option<String>) {
    let text = format!(
        "[server]\ncommand = \"sh -c '{server}'\"\nready = \"test -e {{scratch}}/ready\"\n\
         [server.files]\nleak = '{LEAK}'\n{JUDGED}"
    );
    let found = conduct(&one_trial(&text));
    let attempt = &found.bakeoff.attempts[0];
    (attempt.run.clone().expect("it was measured"), attempt.reason.clone())
}

#[test]
fn a_level_that_stays_is_flat_and_the_warm_up_ends_early() {
    let (run, _) = warm_up("touch {scratch}/ready; exec sleep 1000");
    let warm_up = run.warm_up.unwrap();
    assert_eq!(warm_up.course, Course::Flat, "{warm_up:?}");
    assert!(warm_up.took_s < 1.9, "{warm_up:?}");
    assert!((warm_up.batch_s - 0.1).abs() < 0.02, "{warm_up:?}");
}

#[test]
fn a_leak_is_never_steady_and_its_trial_is_invalid() {
    let (run, reason) = warm_up("touch {scratch}/ready; exec perl leak");
    let warm_up = run.warm_up.unwrap();
    assert_eq!(warm_up.course, Course::NoSteadyState, "{warm_up:?}");
    assert!((warm_up.took_s - 2.0).abs() < 0.3, "{warm_up:?}");
    assert!(reason.unwrap().contains("not-steady: "), "the reason names it");
}

#[test]
fn a_metric_that_the_target_lacks_is_said_and_not_judged() {
    let text = JUDGED.replace("[\"rss\"]", "[\"throughput\", \"rss\"]");
    let found = conduct(&one_trial(&text));
    assert!(
        found.notes.iter().any(|n| n.starts_with("rss is not judged in the warm-up: ")),
        "{:?}",
        found.notes
    );
    let run = found.bakeoff.attempts[0].run.as_ref().unwrap();
    let metrics: Vec<&str> =
        run.warm_up.as_ref().unwrap().metrics.iter().map(|m| m.metric.as_str()).collect();
    assert_eq!(metrics, ["throughput"]);
}

#[test]
fn what_the_server_says_of_itself_is_a_series() {
    let text = r#"
[load]
target = "null:"
rate   = 1000
[server]
command = "sh -c 'printf \"Threads 4\nRows:\t17\nName x\n\" > {scratch}/status; touch {scratch}/ready; exec sleep 1000'"
ready   = "test -e {scratch}/ready"
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "600ms", interval = "200ms" }
[values.status]
run  = "cat {scratch}/status"
when = "interval"
keep = ["Rows"]
[values.broken]
run  = "echo no number; exit 3"
when = "interval"
"#;
    let found = conduct(&one_trial(text));
    let run = found.bakeoff.attempts[0].run.as_ref().expect("a broken value fails no trial");
    let own: Vec<(&str, f64)> =
        run.series.iter().filter(|s| s.name == "status").map(|s| (s.labels.as_str(), s.value)).collect();
    assert!(own.len() >= 2 && own.iter().all(|sample| *sample == ("name=Rows", 17.0)), "{own:?}");
    assert!(run.instruments.missing["values.broken"].reason.contains("exit status: 3"));
}

/// A value of the first trial changes the configuration: nothing else would notice.
#[test]
fn a_configuration_that_changes_once_spoils_every_later_trial_of_its_series() {
    let text = r#"
[factors.threads]
values = [1, 2, 3]
level  = "sub-plot"
[load]
target  = "null:"
rate    = 500
threads = "{threads}"
[server]
command = "sh -c 'touch {scratch}/ready; exec sleep 1000'"
ready   = "test -e {scratch}/ready"
[server.files]
conf = "max 1\n"
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "100ms", interval = "100ms" }
[values.settings]
run  = "cat {scratch}/conf"
when = "settings"
[values.of_change_count]
run = "echo max 2 > {scratch}/conf; echo 1"
"#;
    let found = conduct(&one_trial(text));
    let reasons: Vec<&str> =
        found.bakeoff.attempts.iter().map(|a| a.reason.as_deref().unwrap_or_default()).collect();
    assert_eq!(reasons.len(), 3, "{:?}", found.bakeoff.attempts);
    assert!(!reasons[0].contains("max"), "{reasons:?}");
    assert!(reasons[1..].iter().all(|why| why.contains("max changed from 1 to 2")), "{reasons:?}");
}

#[test]
fn settings_that_cannot_be_read_are_a_failed_check() {
    let text = r#"
[load]
target = "null:"
rate   = 500
[server]
command = "sh -c 'touch {scratch}/ready; exec sleep 1000'"
ready   = "test -e {scratch}/ready"
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "100ms", interval = "100ms" }
[values.settings]
run  = "echo down; exit 3"
when = "settings"
"#;
    let found = conduct(&one_trial(text));
    let reason = found.bakeoff.attempts[0].reason.clone().unwrap_or_default();
    assert!(reason.contains("settings: ended with exit status: 3; it said: down"), "{reason}");
}

/// The command passes after the first trial and not after the second, and is asked once for each.
#[test]
fn a_trial_whose_data_set_is_not_whole_is_invalid_with_what_the_check_said() {
    let text = r#"
[factors.threads]
values = [1, 2]
level  = "sub-plot"
[load]
target  = "null:"
rate    = 500
threads = "{threads}"
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "100ms", interval = "100ms" }
[phases.verify]
run = "if test -e {scratch}/seen; then echo 3 rows of 4 at {threads}; exit 1; fi; touch {scratch}/seen"
"#;
    let found = conduct(&one_trial(text));
    let reasons: Vec<&str> =
        found.bakeoff.attempts.iter().map(|a| a.reason.as_deref().unwrap_or_default()).collect();
    let threads = &found.bakeoff.trials[1].levels["threads"];
    let expected = format!("verify: ended with exit status: 1; it said: 3 rows of 4 at {threads}");
    assert!(!reasons[0].contains("verify") && reasons[1].contains(&expected), "{reasons:?}");
    let checks = |number: usize| {
        let run = found.bakeoff.attempts[number].run.as_ref().unwrap();
        let checks = run.load.as_ref().unwrap().verdict.checks.iter();
        checks.filter(|check| check.name == "verify").map(|check| check.ok).collect::<Vec<_>>()
    };
    assert_eq!((checks(0), checks(1)), (vec![true], vec![false]));
    let journal = journal(&found.folder, &found.outcome);
    assert_eq!(journal.matches("\"step\":\"trial-verifying\"").count(), 2, "{journal}");
}

/// The null target has no event in flight at the end of the phase, and the reader still has two commands to
/// run.
#[test]
fn the_servers_numbers_end_with_the_measured_phase_and_not_with_the_commands_for_values() {
    let text = r#"
[load]
target = "null:"
rate   = 500
[server]
command = "sh -c 'touch {scratch}/ready; exec sleep 1000'"
ready   = "test -e {scratch}/ready"
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "300ms", interval = "100ms" }
[observe]
instruments = ["cpu", "locks"]
[values.slow]
run  = "sleep 0.4; echo x 1"
when = "interval"
"#;
    let found = conduct(&one_trial(text));
    let run = found.bakeoff.attempts[0].run.as_ref().expect("it was measured");
    let measured_s = run.load.as_ref().unwrap().measured.as_secs_f64();
    // The commands end half a second after the phase.
    let is_off = |span_s: f64| (span_s - measured_s).abs() > 0.25;
    let cpu = run.server_cpu.clone().unwrap();
    assert!(!is_off(cpu.span_s()), "{cpu:?}");
    for (resource, used) in &run.resources {
        if let Ok(used) = used {
            assert!(!is_off(used.span_s()), "{resource:?}: {used:?}");
        }
    }
    let until_ns = run.cpu.iter().map(|interval| interval.until_ns).max().unwrap();
    let from_ns = run.cpu.iter().map(|interval| interval.from_ns).min().unwrap();
    assert!(!is_off((until_ns - from_ns) as f64 * 1e-9), "{:?}", run.cpu.last());
}

/// Some 80 events a second at most; `rate` as shares of that.
fn shares() -> Plan {
    two_arms(
        1,
        r#"
[load]
target  = "exec:sleep 0.01"
threads = 1
rate    = ["50%", "25%"]
[phases]
prepare = "none"
warm-up = { min = "50ms" }
measure = { time = "500ms" }
"#,
    )
}

fn rates(bakeoff: &Bakeoff) -> BTreeMap<String, BTreeSet<u64>> {
    let mut rates: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for (_, run) in runs(bakeoff) {
        let per_s = run.load.as_ref().unwrap().settings.pace.per_s().unwrap();
        rates.entry(run.header.labels["rate"].clone()).or_default().insert(per_s.to_bits());
    }
    rates
}

fn journal(folder: &TempDir, outcome: &Outcome) -> String {
    std::fs::read_to_string(folder.path().join(format!("bakeoffs/{}/events.jsonl", outcome.id))).unwrap()
}

#[test]
fn every_arm_gets_the_same_shares_of_the_capacity_that_was_found_first() {
    let found = conduct(&shares());
    let rates = rates(&found.bakeoff);
    assert_eq!(rates.keys().collect::<Vec<_>>(), ["25%", "50%"]);
    assert!(rates.values().all(|of_level| of_level.len() == 1), "{rates:?}");
    let rate = |level: &str| f64::from_bits(*rates[level].first().unwrap());
    assert!((rate("50%") / rate("25%") - 2.0).abs() < 1e-9);
    assert!((5.0..50.0).contains(&rate("50%")), "half of at most 100/s: {}", rate("50%"));
    let journal = journal(&found.folder, &found.outcome);
    assert_eq!(journal.matches("\"step\":\"rate-found\"").count(), 1, "{journal}");
    assert!(found.notes.iter().any(|n| n.starts_with("capacity of the reference: ")), "{:?}", found.notes);
}

#[test]
fn a_bakeoff_that_is_resumed_keeps_its_capacity() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let stop = Stop::new();
    let outcome = run(&shares(), &archive, &BESIDE, &stop, &mut |event| {
        if let Event::Ended { .. } = event {
            stop.request();
        }
    })
    .unwrap();
    assert_eq!(outcome.planned, 3);
    let resumed = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    let bakeoff = archive.bakeoff(resumed.id).unwrap();
    assert_eq!(runs(&bakeoff).len(), 4);
    assert!(rates(&bakeoff).values().all(|of_level| of_level.len() == 1));
    assert_eq!(journal(&folder, &outcome).matches("\"step\":\"rate-found\"").count(), 1);
}

#[test]
fn a_promise_is_kept_at_the_rate_that_a_search_found() {
    // A sleep of 10 ms keeps 100 ms up to its capacity, and breaks it beyond.
    let text = shares().text().replace("[\"50%\", \"25%\"]", "{ slo = \"p90<100ms\" }");
    let found = conduct(&plan(&text));
    let all = runs(&found.bakeoff);
    let per_s: BTreeSet<u64> =
        all.iter().map(|(_, r)| r.load.as_ref().unwrap().settings.pace.per_s().unwrap().to_bits()).collect();
    assert_eq!((all.len(), per_s.len()), (2, 1));
    let per_s = f64::from_bits(*per_s.first().unwrap());
    assert!((20.0..=100.0).contains(&per_s), "{per_s}");
}

#[test]
fn a_rate_that_cannot_be_found_ends_the_bakeoff_and_it_can_be_resumed() {
    let text = shares().text().replace("exec:sleep 0.01", "exec:sh -c 'exit 7'");
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut id = None;
    let error = run(&plan(&text), &archive, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Started { id: its, .. } = event {
            id = Some(*its);
        }
    })
    .unwrap_err();
    assert!(error.to_string().contains("a closed loop completed no event"), "{error}");
    assert_eq!(error.class(), load::ErrorClass::Server);
    let bakeoff = archive.bakeoff(id.unwrap()).unwrap();
    assert!(bakeoff.attempts.is_empty());
    assert_eq!(bakeoff.header.state, record::run::RunState::Interrupted);
}

#[test]
fn a_capacity_of_failures_is_no_rate() {
    let flips = "exec:if test -e {scratch}/odd; then rm {scratch}/odd; exit 7; fi; touch {scratch}/odd";
    let text = shares().text().replace("exec:sleep 0.01", flips);
    let archive_folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(archive_folder.path()).unwrap();
    let error = run(&plan(&text), &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, bakeoff_runner::RunnerError::NoRate { .. }), "{error}");
    assert!(error.to_string().contains("failed"), "the reason names the failures: {error}");
}

#[test]
fn instances_have_folders_cpus_and_logs_of_their_own_and_the_load_drives_all() {
    if !is_installed("memcached") || std::thread::available_parallelism().is_ok_and(|n| n.get() < 2) {
        println!("skipped: memcached is not installed, or there is one CPU");
        return;
    }
    let text = r#"
[load]
target  = "memcached+unix:{scratch}/m.sock"
keys    = 100
threads = 4
[server]
command   = "sh -c 'echo {instance} on $(grep Cpus_allowed_list /proc/self/status); cat note; exec memcached -u nobody -s {scratch}/m.sock'"
ready     = "socket:{scratch}/m.sock"
instances = 2
cpus      = ["0", "1"]
nice      = 3
[server.files]
note = "number {instance}\n"
[phases]
setup   = { run = "test -d {scratch} && touch {scratch}/of-{instance}" }
warm-up = { min = "50ms" }
measure = { time = "500ms", interval = "100ms" }
"#;
    let found = conduct(&one_trial(text));
    let run =
        found.bakeoff.attempts[0].run.as_ref().unwrap_or_else(|| panic!("{:?}", found.bakeoff.attempts));
    let load = run.load.as_ref().unwrap();
    assert_eq!(load.hosts.len(), 2, "{:?}", load.hosts);
    assert!(load.hosts.iter().all(|host| host.done > 0));
    assert_eq!(load.hosts.iter().map(|host| host.done).sum::<u64>(), load.counts.done);
    assert!(load.hosts[0].host.ends_with("/1/m.sock") && load.hosts[1].host.ends_with("/2/m.sock"));
    let log = |name: &str| {
        let file = found.folder.path().join(format!("runs/{}/{name}.zst", run.header.id));
        let unpacked = Command::new("zstd").args(["-dc"]).arg(file).output();
        unpacked.map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
    };
    match (log("server.log"), log("server-2.log")) {
        (Ok(one), Ok(two)) => {
            assert!(one.contains("1 on Cpus_allowed_list: 0\nnumber 1"), "{one}");
            assert!(two.contains("2 on Cpus_allowed_list: 1\nnumber 2"), "{two}");
        }
        _ => println!("skipped: zstd is not installed"),
    }
    let command = run.environment.fact("server.command").unwrap();
    assert!(command.contains("memcached -u nobody -s {scratch}/1/m.sock"), "{command}");
    assert_eq!(run.environment.fact("server.file.note"), Some("number 1\n"));
    assert!(run.server_cpu.is_ok() || run.server_cpu.as_ref().is_err_and(|m| m.reason.contains("several")));
    assert!(matches!(found.bakeoff.attempts[0].state, TrialState::Sealed | TrialState::Invalid));
}
