//! Places of threads and of memory as the plan says. The only tests of this binary that generate load, so no
//! other load has threads of the same names.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

use archive::Archive;
use bakeoff_runner::{Event, Options, Outcome, RunnerError, run};
use load::Stop;
use nix::sched::sched_getaffinity;
use nix::unistd::Pid;
use record::bakeoff::Bakeoff;
use record::resources::{CLIENT_CPU_SHARE, SERVER_CPU_SHARE};

const BESIDE: Options = Options {
    beside_others: true,
    plan_file: None,
    wait: false,
    id: None,
    generator: None,
    trust: |_| false,
};

/// - `client`, `server`: lines of these tables.
fn plan(client: &str, server: &str) -> plan::Plan {
    let text = format!(
        r#"
schema = 1
title  = "Places"
[factors.arm]
values    = ["one", "other"]
reference = "one"
level     = "whole-plot"
[design]
blocks = 2
[load]
target  = "null:"
threads = 2
[client]
{client}
[server]
command = "sh -c 'echo > {{scratch}}/there; while :; do :; done'"
ready   = "test -e {{scratch}}/there"
{server}
[phases]
prepare = "none"
warm-up = {{ min = "20ms" }}
measure = {{ time = "500ms", interval = "100ms" }}
[observe]
instruments = ["cpu"]
"#
    );
    plan::read(&text, "test.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn conduct(plan: &plan::Plan) -> (Result<Outcome, RunnerError>, Option<Bakeoff>) {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut id = None;
    let outcome = run(plan, &archive, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Started { id: its, .. } = event {
            id = Some(*its);
        }
    });
    (outcome, id.map(|id| archive.bakeoff(id).unwrap()))
}

#[test]
fn threads_run_where_the_plan_says_and_the_record_says_so() {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cpus: Vec<usize> = (0..1_024).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let list = if first == last { first.to_string() } else { format!("{first},{last}") };
    let plan =
        plan(&format!("cpus = \"{list}\"\npin = true"), &format!("cpus = [\"{last}\"]\nmem = [\"0\"]"));
    let (outcome, bakeoff) = conduct(&plan);
    assert!(outcome.is_ok(), "{outcome:?}");
    let bakeoff = bakeoff.unwrap();
    assert_eq!(bakeoff.attempts.len(), 4);
    for run in bakeoff.attempts.iter().map(|attempt| attempt.run.as_ref().unwrap()) {
        let share = |name: &str, labels: String| {
            let of = |s: &&record::series::Sample| s.name == name && *s.labels == *labels;
            run.series.iter().find(of).map(|s| s.value)
        };
        let of_thread = |n: usize, cpu: usize| share(CLIENT_CPU_SHARE, format!("cpu={cpu},thread=load-{n}"));
        assert_eq!(of_thread(0, first), Some(1.0), "{:?}", run.series);
        assert_eq!(of_thread(1, last), Some(1.0), "{:?}", run.series);
        assert_eq!(share(SERVER_CPU_SHARE, format!("cpu={last}")), Some(1.0), "{:?}", run.series);
        let all = run.series.iter().filter(|s| s.name == CLIENT_CPU_SHARE || s.name == SERVER_CPU_SHARE);
        assert_eq!(all.count(), 3, "{:?}", run.series);
    }
}

#[test]
fn cpus_and_nodes_that_this_machine_does_not_have_are_refused_in_one_line_each() {
    for (client, server, why) in [
        ("cpus = \"1023\"", "", "`client.cpus` names CPU 1023, which is not online here"),
        ("cpus = \"0\"", "cpus = [\"1023\"]", "`server.cpus` names CPU 1023, which is not online here"),
        (
            "cpus = \"0\"",
            "mem = [\"1023\"]",
            "`server.mem` names memory node 1023, which this machine does not have",
        ),
    ] {
        let (outcome, bakeoff) = conduct(&plan(client, server));
        let Err(RunnerError::NotFit { problems }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(why) && !problems[0].contains('\n'), "{problems:?}");
        assert!(bakeoff.is_none(), "nothing was started");
    }
}
