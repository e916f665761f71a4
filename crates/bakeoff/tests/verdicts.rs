//! The verdicts of a bake-off on real processes. No assertion depends on speed.
#![allow(clippy::print_stderr, reason = "a test that cannot run here says so")]

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

/// One command is four times as slow. Six blocks show it; the seventh has only the reference.
#[test]
fn a_beaten_configuration_is_dropped_and_its_trials_are_not_missing() {
    let lab = Lab::new();
    let run = run(
        &lab,
        r#"
schema = 1
title  = "Two naps, one long"
[factors.nap]
values    = ["0.005", "0.02"]
reference = "0.005"
level     = "whole-plot"
[factors.threads]
values = [1, 2]
level  = "sub-plot"
[design]
blocks     = 7
sequential = true
exclude    = [{ threads = 2 }]
[load]
target  = "exec:sleep {nap}"
threads = "{threads}"
[phases]
prepare = "none"
warm-up = { min = "50ms" }
measure = { time = "300ms" }
[judge]
metrics = ["throughput"]
"#,
    );
    assert_eq!(run["cells"]["planned"], 14, "{run}");
    let sealed = run["cells"]["sealed"].as_u64();
    if sealed != Some(13) {
        // A trial was lost on a busy machine: then nothing is dropped, or no claim is made.
        assert!(
            run["cells"]["invalid"].as_u64() > Some(0) || run["cells"]["failed"].as_u64() > Some(0),
            "{run}"
        );
        return;
    }
    assert_eq!(run["dropped"][0]["after_block"], 6, "{run}");
    assert_eq!(run["dropped"][0]["arm"]["nap"], "0.02", "{run}");
    assert_eq!(
        (run["state"].as_str(), run["cells"]["not_begun"].as_u64()),
        (Some("sealed"), Some(1)),
        "{run}"
    );
    let pair = comparison(&run, "throughput");
    assert_eq!((pair["verdict"].as_str(), pair["n"].as_u64()), (Some("worse"), Some(6)), "{run}");
    assert!(pair["high"].as_f64() < Some(0.6), "{run}");
    // A bake-off that is over stays over, and its text counts no trial as missing.
    let id = run["bakeoff"].as_str().expect("an id");
    let again = lab.run(&["resume", id]);
    assert_eq!(again.code, Some(0), "{}{}", again.out, again.err);
    assert!(again.out.contains("was dropped after block 6 of 7"), "{}", again.out);
    assert!(!again.out.contains("no sealed run"), "{}", again.out);
    // A process that died before the last line about block 6: its run decides as soon as it is adopted.
    let mut journals = lab.archived_bytes().into_iter().filter(|(path, _)| path.ends_with("events.jsonl"));
    let (path, bytes) = journals.next_back().expect("a journal");
    let text = String::from_utf8(bytes).expect("lines of text");
    let is_end = |line: &&str| line.contains("\"trial\":11,") && line.contains("trial-sealed");
    let kept: String = text.split_inclusive('\n').take_while(|line| !is_end(line)).collect();
    assert!(kept.len() < text.len(), "{text}");
    std::fs::write(&path, kept).expect("the archive is ours");
    let adopted = lab.json(&["resume", id]);
    assert_eq!(
        (adopted["cells"]["sealed"].as_u64(), &adopted["dropped"]),
        (sealed, &run["dropped"]),
        "{adopted}"
    );
}

fn git(folder: &std::path::Path, words: &[&str]) {
    let settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
    let done = std::process::Command::new("git").arg("-C").arg(folder).args(settings).args(words).output();
    let done = done.expect("git is there");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A repository with two tags of a program, and a plan that builds both.
struct Builds {
    lab: Lab,
    cache: tempfile::TempDir,
}

impl Builds {
    fn new() -> Option<Self> {
        if std::process::Command::new("git").arg("--version").output().is_err() {
            eprintln!("skipped: no git");
            return None;
        }
        // Servers of root run as another account, which must be able to enter the cache.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        let cache = tempfile::Builder::new().permissions(open).tempdir().expect("a folder");
        let lab = Lab::new();
        let repository = lab.path("source");
        std::fs::create_dir(&repository).expect("a folder");
        git(&repository, &["init", "-q"]);
        for (tag, nap) in [("v1", "0.004"), ("v2", "0.005")] {
            std::fs::write(repository.join("job"), format!("#!/bin/sh\nexec sleep {nap}\n")).expect("a file");
            let server = "#!/bin/sh\ntouch \"$1/up\"; exec sleep 1000\n";
            std::fs::write(repository.join("server"), server).expect("a file");
            git(&repository, &["add", "."]);
            git(&repository, &["commit", "-qm", tag]);
            git(&repository, &["tag", tag]);
        }
        Some(Self { lab, cache })
    }

    fn run(&self, revisions: &str, command: &str, server: &str) -> Ended {
        let plan = format!(
            r#"
schema = 1
title  = "Two revisions"
[factors.revision]
values    = [{revisions}]
reference = "v1"
level     = "whole-plot"
[design]
blocks = 2
[build]
source   = "source"
revision = "{{revision}}"
run      = "{command}"
env      = ["FLAVOR"]
{server}
[load]
target = "exec:{{build}}/job"
[phases]
prepare = "none"
measure = {{ time = "300ms" }}
"#
        );
        let path = self.lab.path("plan.toml");
        std::fs::write(&path, plan).expect("a plan");
        let mut run = self.lab.command(&["run", "--quick", "--json", path.to_str().expect("a plain path")]);
        run.env("XDG_CACHE_HOME", self.cache.path());
        Ended::of(run.output().expect("the binary starts"))
    }

    /// Number of runs of the command.
    fn times(&self) -> usize {
        std::fs::read_to_string(self.lab.path("count")).map_or(0, |text| text.lines().count())
    }
}

const TWO: &str = r#""v1", "v2""#;

#[test]
fn each_revision_is_built_once_and_its_failure_is_named() {
    let Some(builds) = Builds::new() else { return };
    let count = builds.lab.path("count");
    let command = format!("echo >>{}; install -m 755 job {{build}}/job", count.display());
    for time in 1..=2 {
        let ended = builds.run(TWO, &command, "");
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let run = json(&ended);
        let done =
            run["cells"]["sealed"].as_u64().unwrap_or(0) + run["cells"]["invalid"].as_u64().unwrap_or(0);
        assert_eq!((done, builds.times()), (4, 2), "{time}: {run}");
    }
    // The same files under another name are the same content; another command is another.
    let ended = builds.run(r#""v1", "v2", "HEAD""#, &command, "");
    assert_eq!((ended.code, builds.times()), (Some(0), 2), "{}", ended.err);
    let ended = builds.run(TWO, &format!("{command}; true"), "");
    assert_eq!((ended.code, builds.times()), (Some(0), 4), "{}", ended.err);

    let failed = builds.run(TWO, "echo no compiler; exit 3", "");
    assert_eq!(failed.code, Some(5), "{}", failed.err);
    let why = "cannot build revision=v1: build: ended with exit status: 3; it said: no compiler";
    assert!(failed.err.contains(why), "{}", failed.err);
    let empty = builds.run(TWO, "true", "");
    assert!(empty.code == Some(5) && empty.err.contains("wrote nothing to {build}"), "{}", empty.err);
    // A bake-off that could not build can be resumed, but not with another value of `build.env`.
    let begun = builds.run(TWO, &format!("test x$FLAVOR = xb || exit 3; {command}"), "");
    assert_eq!(begun.code, Some(5), "{}", begun.err);
    let mut resume = builds.lab.command(&["resume", "latest"]);
    resume.env("XDG_CACHE_HOME", builds.cache.path()).env("FLAVOR", "b");
    let resumed = Ended::of(resume.output().expect("the binary starts"));
    assert_eq!((resumed.code, builds.times()), (Some(2), 4), "{}", resumed.err);
    assert!(resumed.err.contains("a value of `build.env` (FLAVOR)"), "{}", resumed.err);
    let unknown = builds.run(r#""v1", "v9""#, &command, "");
    assert_eq!(unknown.code, Some(2), "{}", unknown.err);
    assert!(unknown.err.contains("the revision `v9`"), "{}", unknown.err);
    // bakeoff refuses an option of git in place of a revision.
    let option = builds.run(r#""v1", "--all""#, &command, "");
    assert_eq!(option.code, Some(2), "{}", option.err);
}

/// The command asks for the end in each build: the first is kept, and `resume` makes the second.
#[test]
fn a_request_to_stop_after_the_trial_ends_between_two_builds() {
    let Some(builds) = Builds::new() else { return };
    let count = builds.lab.path("count");
    let asks = "kill -USR1 $PPID; install -m 755 job {build}/job";
    let mut ended = builds.run(TWO, &format!("echo >>{}; {asks}", count.display()), "");
    for times in 1..=2 {
        assert_eq!((ended.code, builds.times()), (Some(130), times), "{}", ended.err);
        let mut resume = builds.lab.command(&["resume", "latest", "--json"]);
        resume.env("XDG_CACHE_HOME", builds.cache.path());
        ended = Ended::of(resume.output().expect("the binary starts"));
    }
    assert_eq!((ended.code, builds.times()), (Some(0), 2), "{}", ended.err);
}

/// For root, the server and the build run as accounts without rights: the build gives its files away.
#[test]
fn a_server_runs_what_was_built_and_owns_none_of_it() {
    let Some(builds) = Builds::new() else { return };
    let server = "[server]\ncommand = \"{build}/server {scratch}\"\nready = \"test -e {scratch}/up\"";
    let command = "install -m 6755 job server {build}; mkdir -m 777 {build}/open; ln -s /etc/shadow {build}/link; \
                   id -u >{build}/who";
    let ended = builds.run(TWO, command, server);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let cache = builds.cache.path().join("bakeoff/builds");
    let own = nix::unistd::geteuid();
    let mut built = 0;
    for entry in std::fs::read_dir(&cache).expect("the cache").flatten().filter(|e| e.path().is_dir()) {
        built += 1;
        let who = std::fs::read_to_string(entry.path().join("who")).expect("who built it");
        assert_ne!(who.trim(), "0", "the command ran as root");
        for name in ["", "job", "server", "open", "who", "link"] {
            let found = std::fs::symlink_metadata(entry.path().join(name)).expect("it was built");
            let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions());
            assert_eq!(std::os::unix::fs::MetadataExt::uid(&found), own.as_raw(), "{name}");
            if own.is_root() && name != "link" {
                assert_eq!(mode & 0o7022, 0, "{name} has mode {mode:o}");
            }
        }
    }
    assert_eq!(built, 2);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&cache).expect("it").permissions());
    assert_eq!(mode & 0o777, if own.is_root() { 0o711 } else { 0o700 });
}
