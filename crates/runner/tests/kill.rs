//! kill -9 at any time: no trial is lost, none counts twice.

#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use archive::{Archive, Filter, PartOf};
use record::bakeoff::{Bakeoff, TrialState};
use record::clock::{Clock as _, Monotonic};
use record::run::{RunId, RunState};

/// Returns the number of kills: `BAKEOFF_KILLS` if set, for a long test (`scripts/torture`).
fn kills_wanted() -> u64 {
    std::env::var("BAKEOFF_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(20)
}

/// Builds a plan with two configurations, two cells, two blocks. The server is a grandchild of a wrapper, and
/// a helper leaves group and session: each would outlive us if it could.
///
/// - `nonce`: an argument that no other process has.
fn plan(nonce: &str) -> String {
    let is_installed = Command::new("memcached").arg("-V").output().is_ok();
    let (target, server, ready) = if is_installed {
        let memcached = r#"sh -c \"memcached -u root -s {scratch}/m.sock; :\""#;
        ("target = \"memcached+unix:{scratch}/m.sock\"\nkeys = 100", memcached, "socket:{scratch}/m.sock")
    } else {
        // The server of this plan does not listen.
        let sleep = r#"sh -c \"touch {scratch}/ready; sleep NONCE; :\""#;
        let target = "target = \"sqlite:{scratch}/bench.db?journal_mode=wal&synchronous=off\"\nrows = 100";
        (target, sleep, "test -e {scratch}/ready")
    };
    format!(
        r#"
schema = 1
title  = "Killed"
[factors.name]
values    = ["one", "other"]
reference = "one"
level     = "whole-plot"
[factors.threads]
values = [1, 2]
level  = "sub-plot"
[design]
blocks = 2
[load]
{target}
threads = "{{threads}}"
[server]
command = "sh -c 'setsid sleep NONCE & {server}; wait'"
ready   = "{ready}"
[phases]
warm-up = {{ min = "20ms" }}
measure = {{ time = "100ms", interval = "100ms" }}
"#
    )
    .replace("NONCE", nonce)
}

/// Returns a command for the example in the same target directory as this test.
fn conduct(arguments: &[&str]) -> Command {
    let here = std::env::current_exe().expect("a test knows where it is");
    let examples = here.ancestors().nth(2).expect("target/PROFILE/deps/test").join("examples");
    let mut command = Command::new(examples.join("conduct"));
    command.args(arguments).stdout(Stdio::piped());
    command
}

/// Starts it and returns the bake-off's id as soon as it has one.
fn begin(arguments: &[&str]) -> (Child, RunId) {
    let mut child = conduct(arguments).spawn().expect("cargo builds examples for tests");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is piped"))
        .read_line(&mut line)
        .expect("its output is text");
    (child, line.trim().parse().unwrap_or_else(|_| panic!("`{line}` is no name")))
}

/// Times spread over 0 to 0.9 s by a fixed multiplier: equal in every run of the test.
fn moment(k: u64) -> Duration {
    Duration::from_millis((k * k * 7_919 + k * 131) % 900)
}

fn sleep(time: Duration) {
    let until_ns = Monotonic.now_ns() + u64::try_from(time.as_nanos()).expect("a few seconds");
    while Monotonic.now_ns() < until_ns {
        Monotonic.sleep_until_ns(until_ns);
    }
}

/// A living process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Living {
    pid: i32,
    name: String,
    arguments: String,
}

/// Returns every live process with one of `words` in its arguments, in any folder, group and session.
fn living_with(words: &[String]) -> Vec<Living> {
    let processes = std::fs::read_dir("/proc").expect("Linux has it").flatten();
    let living = processes.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        // Empty for a zombie.
        let arguments = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let name = String::from_utf8_lossy(&read("comm")).trim().to_owned();
        words.iter().any(|word| arguments.contains(word)).then_some(Living { pid, name, arguments })
    });
    living.collect()
}

/// Returns the values of `key` in the journal of a bake-off: its scratch folders, its control groups.
fn named(archive: &str, id: RunId, key: &str) -> Vec<String> {
    let journal = std::fs::read_to_string(format!("{archive}/bakeoffs/{id}/events.jsonl"));
    let journal = journal.expect("a bake-off has a journal");
    let key = format!("\"{key}\":\"");
    let value = |line: &str| Some(line.split_once(&key)?.1.split_once('"')?.0.to_owned());
    journal.lines().filter_map(value).collect()
}

/// Kills the server behind its wrappers with SIGKILL. Returns whether there was one.
fn kill_server(words: &[String]) -> bool {
    let is_server = |process: &&Living| matches!(process.name.as_str(), "memcached" | "sleep");
    let mut living = living_with(words);
    // The server first; the helper if no server runs.
    living.sort_by_key(|process| process.name != "memcached");
    let Some(server) = living.iter().find(is_server) else { return false };
    let server = nix::unistd::Pid::from_raw(server.pid);
    nix::sys::signal::kill(server, nix::sys::signal::Signal::SIGKILL).is_ok()
}

/// Kills and resumes bake-offs, one after the other, until all kills are used. Returns them, and the number
/// of servers killed.
fn kill_and_resume(dir: &str, file: &str, nonce: &str, wanted: u64) -> (Vec<RunId>, u64) {
    let (mut kills, mut moments) = (0, (0..).map(moment));
    let (mut of_servers, mut bakeoffs) = (0, Vec::new());
    while kills < wanted {
        let (mut child, id) = begin(&["run", dir, file]);
        bakeoffs.push(id);
        // A trial that loses its server twice has failed for good: only one server dies without the bake-off.
        let mut may_die_alone = true;
        loop {
            sleep(moments.next().unwrap());
            let was_over = child.try_wait().unwrap().is_some();
            let words: Vec<String> = named(dir, id, "folder").into_iter().chain([nonce.to_owned()]).collect();
            let has_killed = !was_over && kills % 3 != 0 && kill_server(&words);
            of_servers += u64::from(has_killed);
            if has_killed && kills % 3 == 1 && may_die_alone {
                may_die_alone = false;
                kills += 1;
                if kills < wanted {
                    continue;
                }
            } else {
                child.kill().unwrap();
                child.wait().unwrap();
                if was_over {
                    break;
                }
                kills += 1;
                (child, _) = begin(&["resume", dir, &id.to_string()]);
            }
            if kills == wanted {
                assert!(child.wait().unwrap().success());
                break;
            }
        }
    }
    (bakeoffs, of_servers)
}

/// Checks that no folder, control group or process of a bake-off is left.
fn check_no_remains(dir: &str, id: RunId) {
    let folders = named(dir, id, "folder");
    assert!(!folders.is_empty());
    assert_eq!(folders.iter().find(|folder| Path::new(folder).exists()), None, "a scratch folder is left");
    let groups = named(dir, id, "control_group");
    assert_eq!(groups.iter().find(|group| Path::new(group).exists()), None, "a control group is left");
    assert_eq!(living_with(&folders), [], "a process is left that knows its folder");
}

/// Checks that each trial was measured exactly once, or lost its server twice. Returns the number of failed
/// attempts.
fn check_attempts(bakeoff: &Bakeoff) -> usize {
    let mut failed = 0;
    // On a busy machine every trial may be INVALID.
    assert!(
        matches!(bakeoff.header.state, RunState::Sealed | RunState::Invalid),
        "{:?}",
        bakeoff.header.state
    );
    for trial in &bakeoff.trials {
        let states = bakeoff.attempts.iter().filter(|a| a.trial == trial.index).map(|a| a.state);
        let states: Vec<TrialState> = states.collect();
        let measured =
            states.iter().filter(|s| matches!(s, TrialState::Sealed | TrialState::Invalid)).count();
        let failures = states.iter().filter(|s| **s == TrialState::Failed).count();
        assert!(
            measured == 1 || (measured == 0 && failures == 2),
            "trial {} of {} is measured exactly once, or its server was killed twice: {states:?}",
            trial.index,
            bakeoff.header.id
        );
        failed += failures;
    }
    failed
}

/// The plan with everything that a trial may have: rates that are found first, instruments in half of the
/// blocks, values of the server, a configuration file.
fn plan_in_full(nonce: &str) -> String {
    let text = plan(nonce)
        .replace("threads = \"{threads}\"", "threads = \"{threads}\"\nrate    = [\"10%\"]")
        .replace("[phases]", "[server.files]\nnote = \"{name}\"\n[phases]");
    format!(
        "{text}\n[observe]\ninstruments = [\"cpu\", \"memory\"]\ncontrol_arm = true\n[values.note]\nrun = \"echo x \
         1\"\nwhen = \"interval\"\n"
    )
}

#[test]
fn killed_at_any_moment_a_plan_in_full_keeps_its_rates_and_measures_every_trial_once() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, file) = (folder.path().join("archive"), folder.path().join("plan.toml"));
    let nonce = format!("4000.1{}", std::process::id());
    std::fs::write(&file, plan_in_full(&nonce)).unwrap();
    let (dir, file) = (dir.to_str().unwrap(), file.to_str().unwrap());
    let (bakeoffs, _) = kill_and_resume(dir, file, &nonce, kills_wanted() / 2);
    let archive = Archive::open(Path::new(dir)).unwrap();
    for id in &bakeoffs {
        check_no_remains(dir, *id);
        let bakeoff = archive.bakeoff(*id).unwrap();
        check_attempts(&bakeoff);
        // One rate for each number of threads, whichever process measured.
        let mut rates: std::collections::BTreeMap<&str, std::collections::BTreeSet<u64>> =
            std::collections::BTreeMap::default();
        for run in bakeoff.attempts.iter().filter_map(|a| a.run.as_ref()) {
            let per_s = run.load.as_ref().unwrap().settings.pace.per_s().unwrap();
            rates.entry(&run.header.labels["threads"]).or_default().insert(per_s.to_bits());
        }
        assert!(rates.values().all(|of_threads| of_threads.len() == 1), "{rates:?}");
        let journal = std::fs::read_to_string(format!("{dir}/bakeoffs/{id}/events.jsonl")).unwrap();
        assert_eq!(journal.matches("\"step\":\"rate-found\"").count(), 2, "{journal}");
    }
    assert_eq!(living_with(&[nonce]), [], "no server, wrapper or helper is left");
}

#[test]
fn killed_at_any_moment_every_trial_is_sealed_exactly_once_and_nothing_is_left() {
    let wanted = kills_wanted();
    let folder = tempfile::tempdir().unwrap();
    let (dir, file) = (folder.path().join("archive"), folder.path().join("plan.toml"));
    let nonce = format!("4000.0{}", std::process::id());
    std::fs::write(&file, plan(&nonce)).unwrap();
    let (dir, file) = (dir.to_str().unwrap(), file.to_str().unwrap());

    let (bakeoffs, of_servers) = kill_and_resume(dir, file, &nonce, wanted);

    let archive = Archive::open(Path::new(dir)).unwrap();
    let (mut abandoned, mut failed) = (0, 0);
    for id in &bakeoffs {
        check_no_remains(dir, *id);
        let bakeoff = archive.bakeoff(*id).unwrap();
        failed += check_attempts(&bakeoff);
        abandoned += bakeoff.attempts_that_ended(TrialState::Abandoned);
        // Each abandoned attempt has its end in the journal, once.
        let journal = std::fs::read_to_string(format!("{dir}/bakeoffs/{id}/events.jsonl")).unwrap();
        let ends = journal.matches("\"step\":\"trial-abandoned\"").count();
        assert_eq!(ends, bakeoff.attempts_that_ended(TrialState::Abandoned), "{journal}");
        // Every run in the archive of this bake-off is an attempt of it.
        let filter = Filter { part_of: PartOf::Bakeoff(*id), ..Filter::default() };
        let runs = bakeoff.attempts.iter().filter(|a| a.run.is_some()).count();
        assert_eq!(archive.list(&filter).unwrap().len(), runs);
    }
    assert_eq!(living_with(&[nonce]), [], "no server, wrapper or helper is left");
    assert!(abandoned > 0, "at least one kill hit a trial");
    // A series has two trials; both fail if its server dies before the first.
    assert!(failed as u64 <= 2 * of_servers, "{failed} trials failed, {of_servers} servers were killed");
    let before = archive.list(&Filter::default()).unwrap();
    for verified in archive.verify(&[]).unwrap() {
        assert!(verified.problems.is_empty(), "{verified:?}");
    }
    assert_eq!(archive.reindex().unwrap().same, Some(true));
    assert_eq!(archive.list(&Filter::default()).unwrap(), before);
    println!(
        "{wanted} kills over {} bake-offs, {of_servers} of them with a server; {abandoned} attempts abandoned, {failed} failed",
        bakeoffs.len()
    );
}
