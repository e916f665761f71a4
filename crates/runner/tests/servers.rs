//! Misbehaving servers: one keeps the address, one leaves helpers, one has another process answer.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use archive::Archive;
use bakeoff_runner::{Event, Options, Outcome, RunnerError, run};
use load::Stop;
use record::bakeoff::{Bakeoff, TrialState};

/// Tests run in parallel.
const BESIDE: Options = Options {
    beside_others: true,
    plan_file: None,
    wait: false,
    id: None,
    generator: None,
    trust: |_| false,
};

fn plan(server: &str) -> plan::Plan {
    plan_with(server, "")
}

/// - `end`: more tables.
fn plan_with(server: &str, end: &str) -> plan::Plan {
    let text = format!(
        r#"
schema = 1
title  = "Servers that do not do as they should"
[factors.arm]
values    = ["one", "other"]
reference = "one"
level     = "whole-plot"
[design]
blocks = 2
[load]
target = "null:"
rate   = 1000
[server]
{server}
ready_timeout = "1m"
[phases]
prepare = "none"
warm-up = {{ min = "20ms" }}
measure = {{ time = "100ms", interval = "100ms" }}
{end}"#
    );
    plan::read(&text, "test.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn conduct(plan: &plan::Plan) -> (Result<Outcome, RunnerError>, Bakeoff, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let (mut id, mut notes) = (None, Vec::new());
    let outcome = run(plan, &archive, &BESIDE, &Stop::new(), &mut |event| match event {
        Event::Started { id: its, .. } => id = Some(*its),
        Event::Note(note) => notes.push((*note).to_owned()),
        _ => {}
    });
    let bakeoff = archive.bakeoff(id.expect("it began")).unwrap();
    (outcome, bakeoff, notes)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn is_installed(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|o| o.status.success())
}

fn measured(bakeoff: &Bakeoff) -> usize {
    let measured = |state| matches!(state, TrialState::Sealed | TrialState::Invalid);
    bakeoff.attempts.iter().filter(|a| measured(a.state)).count()
}

#[test]
fn a_server_that_leaves_its_group_and_session_does_not_answer_for_the_next_arm() {
    if !is_installed("memcached") {
        println!("skipped: memcached is not installed");
        return;
    }
    let port = free_port();
    // The wrapper ends when asked; its child would keep the port.
    let server = format!(
        "command = \"sh -c 'setsid memcached -l 127.0.0.1 -p {port} -U 0 & exec sleep 1000'\"\nready = \"tcp:127.0.0.1:{port}\""
    );
    let (outcome, bakeoff, notes) = conduct(&plan(&server));
    let outcome = outcome.unwrap_or_else(|e| panic!("{e}; {notes:?}"));
    assert_eq!((outcome.planned, measured(&bakeoff)), (0, 4), "{notes:?}");
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "nothing has the port in the end");
}

/// Returns the file of that name on PATH, with links resolved.
fn file_of(program: &str) -> String {
    let asked = Command::new("sh").args(["-c", &format!("readlink -f $(command -v {program})")]).output();
    String::from_utf8(asked.unwrap().stdout).unwrap().trim().to_owned()
}

/// Returns the `sha256sum` of that file.
fn sum_of(file: &str) -> String {
    let asked = Command::new("sha256sum").arg(file).output().unwrap();
    String::from_utf8(asked.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_trial_names_the_program_that_listens_and_not_the_shell_around_it() {
    if !is_installed("memcached") {
        println!("skipped: memcached is not installed");
        return;
    }
    let (port, memcached) = (free_port(), file_of("memcached"));
    // Neither shell becomes the server: both wait for it. The helper belongs to the series and does not
    // listen.
    let server = format!(
        "command = \"sh -c 'sleep 1000 & sh -c \\\"memcached -l 127.0.0.1 -p {port} -U 0; :\\\"; :'\"\n\
         ready = \"tcp:127.0.0.1:{port}\""
    );
    let (outcome, bakeoff, notes) = conduct(&plan(&server));
    let outcome = outcome.unwrap_or_else(|e| panic!("{e}; {notes:?}"));
    assert_eq!((outcome.planned, measured(&bakeoff)), (0, 4), "{notes:?}");
    for run in bakeoff.attempts.iter().filter_map(|a| a.run.as_ref()) {
        assert_eq!(run.environment.fact("server.program"), Some(memcached.as_str()));
        assert_eq!(run.environment.fact("server.program.sha256"), Some(sum_of(&memcached).as_str()));
    }
}

#[test]
fn a_trial_names_all_programs_of_a_server_whose_address_is_not_known() {
    let server =
        "command = \"sh -c 'sleep 1000 & touch {scratch}/ready; wait'\"\nready = \"test -e {scratch}/ready\"";
    let (outcome, bakeoff, notes) = conduct(&plan(server));
    outcome.unwrap_or_else(|e| panic!("{e}; {notes:?}"));
    let shell = file_of("sh");
    let run = bakeoff.attempts.iter().find_map(|a| a.run.as_ref()).unwrap();
    let programs: Vec<&str> = run.environment.fact("server.program").unwrap().split(", ").collect();
    assert!(programs.contains(&shell.as_str()), "{programs:?}");
    let sums: Vec<String> = programs.iter().map(|program| sum_of(program)).collect();
    assert_eq!(run.environment.fact("server.program.sha256"), Some(sums.join(", ").as_str()));
}

#[test]
fn a_process_that_this_series_did_not_start_is_not_measured() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::set_permissions(outside.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (go, port) = (outside.path().join("go"), free_port());
    let server = format!(
        "command = \"sh -c 'touch {0}; exec sleep 1000'\"\nready = \"tcp:127.0.0.1:{port}\"",
        go.display()
    );
    let over = AtomicBool::new(false);
    let (outcome, bakeoff) = std::thread::scope(|scope| {
        // This test is the other server: it takes the address as soon as the real one is started, and keeps
        // it.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) && !go.exists() {
                std::thread::yield_now();
            }
            let _listener = TcpListener::bind(("127.0.0.1", port));
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let (outcome, bakeoff, _) = conduct(&plan(&server));
        over.store(true, Ordering::Relaxed);
        (outcome, bakeoff)
    });
    assert!(matches!(outcome, Err(RunnerError::BlockFailed { .. })), "{outcome:?}");
    assert_eq!(measured(&bakeoff), 0);
    let reasons: Vec<&str> = bakeoff.attempts.iter().filter_map(|a| a.reason.as_deref()).collect();
    assert!(reasons[0].contains(&format!("process {} (", std::process::id())), "{reasons:?}");
    assert!(reasons[0].contains("`docker run`"), "{reasons:?}");
    assert!(reasons[1].contains("another server already answers at"), "{reasons:?}");
}

#[test]
fn a_helper_that_still_writes_when_its_series_ends_does_not_end_the_bakeoff() {
    // Started by the server in another session, it writes files without end.
    let helper = "i=0; while :; do i=$((i+1)); echo x >{scratch}/junk.$i; done";
    let server = format!(
        "command = \"sh -c 'setsid sh -c \\\"{helper}\\\" & touch {{scratch}}/ready; exec sleep 1000'\"\nready = \"test -e {{scratch}}/ready\""
    );
    let (outcome, bakeoff, notes) = conduct(&plan(&server));
    let outcome = outcome.unwrap_or_else(|e| panic!("{e}; {notes:?}"));
    assert_eq!((outcome.planned, measured(&bakeoff)), (0, 4), "{notes:?}");
    assert!(!notes.iter().any(|note| note.contains("cannot remove")), "{notes:?}");
}

#[test]
fn a_ready_command_that_succeeds_without_the_server_proves_nothing() {
    let (outcome, bakeoff, _) = conduct(&plan("command = \"sleep 1000\"\nready = \"true\""));
    assert!(matches!(outcome, Err(RunnerError::BlockFailed { .. })), "{outcome:?}");
    let reason = bakeoff.attempts[0].reason.as_deref().unwrap();
    assert!(reason.contains("`true` (ready) succeeds before the server starts"), "{reason}");
}

/// The process that was started lives on as a wrapper without a server, and `exec:` does not connect.
#[test]
fn a_trial_whose_server_died_behind_its_wrapper_has_failed() {
    if !is_installed("memcached") {
        println!("skipped: memcached is not installed");
        return;
    }
    let port = free_port();
    let text = format!(
        r#"
schema = 1
title  = "A server that dies behind its wrapper"
[design]
blocks = 1
[load]
target = "exec:touch {{scratch}}/kill; until test -e {{scratch}}/dead; do sleep 0.01; done"
[server]
command = "sh -c 'memcached -l 127.0.0.1 -p {port} -U 0 & M=$!; until test -e {{scratch}}/kill; do sleep 0.01; done; kill -9 $M; wait $M; touch {{scratch}}/dead; exec sleep 1000'"
ready = "tcp:127.0.0.1:{port}"
ready_timeout = "1m"
[phases]
prepare = "none"
warm-up = {{ min = "20ms" }}
measure = {{ time = "300ms", interval = "100ms" }}
"#
    );
    let (outcome, bakeoff, notes) =
        conduct(&plan::read(&text, "test.toml").unwrap_or_else(|e| panic!("{e}")));
    let states: Vec<TrialState> = bakeoff.attempts.iter().map(|a| a.state).collect();
    assert_eq!(states, [TrialState::Failed, TrialState::Failed], "{notes:?}");
    let reason = bakeoff.attempts[0].reason.clone().unwrap();
    assert!(reason.starts_with(&format!("after the trial, 127.0.0.1:{port} no longer answers")), "{reason}");
    assert!(matches!(outcome, Err(RunnerError::BlockFailed { .. })), "{notes:?}");
}

/// An upgrade of a package between two blocks does this.
#[test]
fn a_server_whose_program_is_replaced_between_two_series_is_flagged() {
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(folder.path(), open(0o755)).unwrap();
    let program = folder.path().join("nap");
    let install = |more: &[u8]| {
        let mut bytes = std::fs::read(file_of("sleep")).unwrap();
        bytes.extend(more);
        let new = folder.path().join("new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::set_permissions(&new, open(0o755)).unwrap();
        std::fs::rename(&new, &program).unwrap();
    };
    install(&[]);
    // Ready once a process has this program: the server's facts are those of the process at that time.
    let runs = folder.path().join("runs");
    let look = format!(
        "#!/bin/sh\nfor exe in /proc/[0-9]*/exe; do [ \"$(readlink $exe)\" = {} ] && exit 0; done; exit 1\n",
        program.display()
    );
    std::fs::write(&runs, look).unwrap();
    std::fs::set_permissions(&runs, open(0o755)).unwrap();
    let server = format!("command = \"{} 1000\"\nready = \"{}\"", program.display(), runs.display());
    let archive_folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(archive_folder.path()).unwrap();
    let mut ended = 0;
    let outcome = run(&plan(&server), &archive, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Ended { .. } = event {
            ended += 1;
            if ended == 2 {
                install(b"another version");
            }
        }
    });
    let bakeoff = archive.bakeoff(outcome.unwrap().id).unwrap();
    let flags: Vec<(u32, bool)> = bakeoff
        .attempts
        .iter()
        .map(|a| (a.trial, a.run.as_ref().unwrap()))
        .map(|(trial, run)| {
            (bakeoff.trials[trial as usize].block, run.environment.fact("trial.flag.program").is_some())
        })
        .collect();
    assert!(flags.iter().all(|(block, is_flagged)| *is_flagged == (*block > 1)), "{flags:?}");
}

#[test]
fn a_server_has_the_layout_of_memory_that_the_plan_says() {
    let seen = tempfile::tempdir().unwrap();
    // Root's servers run as an unprivileged user.
    std::fs::set_permissions(seen.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // The shell has the layout that its server gets.
    let server = format!(
        r#"
command       = "sh -c 'cat /proc/self/personality /proc/self/status > {}/$$; echo $$ > {{scratch}}/pid; exec sleep 1000'"
ready         = "test -s {{scratch}}/pid"
address_space = "fixed"
huge_pages    = "never"
"#,
        seen.path().display()
    );
    let (outcome, _, notes) = conduct(&plan_with(&server, ""));
    assert!(outcome.is_ok(), "{notes:?}");
    let texts: Vec<String> = std::fs::read_dir(seen.path())
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    assert!(texts.len() >= 2, "{}", texts.len());
    for text in texts {
        // `ADDR_NO_RANDOMIZE`.
        assert!(text.starts_with("00040000\n") && text.contains("\nTHP_enabled:\t0\n"), "{text}");
    }
}

/// The load connects to nothing: only the address of the second instance tells that it is dead.
#[test]
fn a_trial_whose_second_instance_died_behind_its_wrapper_has_failed() {
    if !is_installed("memcached") {
        println!("skipped: memcached is not installed");
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    std::fs::set_permissions(outside.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let out = outside.path().display();
    let text = format!(
        r#"
schema = 1
title  = "The second of two servers dies behind its wrapper"
[design]
blocks = 1
[load]
target = "exec:touch {out}/kill; until test -e {out}/dead; do sleep 0.01; done"
[server]
command   = "sh -c 'memcached -s {{scratch}}/m.sock & M=$!; if test {{instance}} = 2; then until test -e {out}/kill; do sleep 0.01; done; kill -9 $M; wait $M; touch {out}/dead; fi; exec sleep 1000'"
ready     = "socket:{{scratch}}/m.sock"
instances = 2
[phases]
setup   = {{ run = "rm -f {out}/kill {out}/dead" }}
prepare = "none"
warm-up = {{ min = "20ms" }}
measure = {{ time = "300ms", interval = "100ms" }}
"#
    );
    let (_, bakeoff, notes) = conduct(&plan::read(&text, "test.toml").unwrap_or_else(|e| panic!("{e}")));
    let states: Vec<TrialState> = bakeoff.attempts.iter().map(|a| a.state).collect();
    assert_eq!(states, [TrialState::Failed, TrialState::Failed], "{notes:?}");
    let reason = bakeoff.attempts[0].reason.clone().unwrap();
    assert!(reason.contains("/2/m.sock no longer answers"), "{reason}");
}

#[test]
fn each_instance_is_asked_for_its_numbers_and_settings() {
    let server = r#"
command   = "sh -c 'touch {scratch}/there; exec sleep 1000'"
ready     = "test -e {scratch}/there"
instances = 2"#;
    let values = r#"
[values.info]
run  = "echo number {instance}; basename {scratch}"
when = "interval"
[values.settings]
run  = "echo which {instance}; echo same 1; echo path {scratch}/there"
when = "settings"
"#;
    let (outcome, bakeoff, notes) = conduct(&plan_with(server, values));
    assert!(outcome.is_ok(), "{notes:?}");
    let run = bakeoff.attempts[0].run.as_ref().unwrap();
    for instance in ["1", "2"] {
        let of = |labels: &str| {
            let of = run.series.iter().filter(|s| s.name == "info" && *s.labels == *labels);
            of.map(|s| s.value.to_string()).collect::<Vec<_>>()
        };
        let (named, plain) =
            (of(&format!("instance={instance},name=number")), of(&format!("instance={instance}")));
        assert!(!named.is_empty() && named.len() == plain.len(), "{:?}", run.series);
        assert!(named.iter().chain(&plain).all(|value| value == instance), "{:?}", run.series);
    }
    let setting = |name: &str| run.environment.fact(&format!("server.setting.{name}"));
    assert_eq!((setting("which"), setting("instance-2.which")), (Some("1"), Some("2")));
    assert_eq!((setting("same"), setting("instance-2.same")), (Some("1"), None));
    let paths = ["path", "instance-2.path"].map(setting);
    assert_eq!(paths, [Some("{scratch}/1/there"), Some("{scratch}/2/there")]);
}
