//! `resume` of a bake-off that another user could have written: it asks at a terminal, and refuses without
//! one.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

mod lab;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::{Command, Stdio};

use lab::Lab;

/// A bake-off that interrupts itself while the file `go` does not exist.
fn interrupted() -> Lab {
    let lab = Lab::new();
    let plan = format!(
        r#"
schema = 1
title  = "From a stranger"
[design]
blocks = 1
[load]
target = "null:"
rate   = 1000
[phases]
prepare = "none"
warm-up = {{ min = "20ms" }}
measure = {{ time = "100ms", interval = "100ms" }}
[values.planted_count]
run = "test -e {go} || (kill -INT $PPID; sleep 100); touch {planted}; echo 1"
"#,
        go = lab.path("go").display(),
        planted = lab.path("planted").display()
    );
    fs::write(lab.path("plan.toml"), plan).unwrap();
    let ended = lab.run(&["run", lab.path("plan.toml").to_str().unwrap()]);
    assert_eq!(ended.code, Some(130), "{}", ended.err);
    fs::write(lab.path("go"), "").unwrap();
    lab
}

/// Variant of [`interrupted`] with a plan that every user may write.
fn foreign() -> Lab {
    let lab = interrupted();
    let mut bakeoffs = fs::read_dir(lab.path("archive/bakeoffs")).unwrap();
    let plan = bakeoffs.next().unwrap().unwrap().path().join("plan.toml");
    fs::set_permissions(plan, fs::Permissions::from_mode(0o606)).unwrap();
    lab
}

/// Exit codes of a completed bake-off: on a busy machine its trial may be INVALID.
const RAN: [i32; 2] = [0, 3];

/// Input of the user at each question. `None`: the end of the input.
type Answers = &'static [Option<&'static [u8]>];

/// Resumes at a terminal as its controlling process; returns the exit code and all output. `None`: script(1)
/// is not installed.
fn at_terminal(lab: &Lab, more: &str, answers: Answers) -> Option<(i32, String)> {
    let command = format!("{} resume latest{more}", env!("CARGO_BIN_EXE_bakeoff"));
    let mut terminal = Command::new("script");
    let environment = lab.command(&[]);
    terminal.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
    terminal.args(["-qec", &command, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = terminal.spawn() else {
        eprintln!("skipped: script(1) is not installed");
        return None;
    };
    let (mut keys, mut screen) = (child.stdin.take(), child.stdout.take().unwrap());
    let (mut said, mut asked, mut room) = (Vec::new(), 0, [0; 4096]);
    while let Some(bytes) = screen.read(&mut room).ok().filter(|bytes| *bytes > 0) {
        said.extend_from_slice(&room[..bytes]);
        while String::from_utf8_lossy(&said).matches("[y/N]").count() > asked {
            match answers.get(asked).expect("no more questions than answers") {
                Some(answer) => keys.as_mut().unwrap().write_all(answer).unwrap(),
                None => drop(keys.take()),
            }
            asked += 1;
        }
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    assert_eq!(asked, answers.len(), "it asks: {said}");
    Some((child.wait().unwrap().code().unwrap(), said))
}

#[test]
fn at_a_terminal_only_a_yes_runs_it() {
    let answers: [(Answers, i32); 5] = [
        (&[Some(b"n\r")], 2),
        (&[Some(b"\r")], 2),
        (&[Some(b"yesterday\r")], 2),
        (&[None], 2),
        (&[Some(b"\x03")], 130),
    ];
    let lab = foreign();
    for (answer, code) in answers {
        let Some((found, said)) = at_terminal(&lab, "", answer) else { return };
        assert!(said.contains("touch") && said.contains("planted"), "it lists what would run: {said}");
        assert_eq!(found, code, "{answer:?}: {said}");
        assert!(!lab.path("planted").exists(), "{answer:?}: {said}");
    }
    let Some((found, said)) = at_terminal(&lab, "", &[Some(b"y\r")]) else { return };
    assert!(RAN.contains(&found), "{found}: {said}");
    assert!(lab.path("planted").exists(), "{said}");
}

#[test]
fn without_a_terminal_it_is_refused_unless_the_command_line_trusts_it() {
    let lab = foreign();
    let refused = lab.run(&["resume", "latest"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("--trust") && !refused.err.contains("[y/N]"), "{}", refused.err);
    assert!(!lab.path("planted").exists());
    let trusted = lab.run(&["resume", "latest", "--trust"]);
    assert!(trusted.code.is_some_and(|code| RAN.contains(&code)), "{}", trusted.err);
    assert!(trusted.err.contains("planted"), "it lists what runs: {}", trusted.err);
    assert!(lab.path("planted").exists());
}

#[test]
fn what_nobody_else_can_write_is_resumed_without_a_question() {
    let lab = interrupted();
    if let Some((code, said)) = at_terminal(&lab, "", &[]) {
        assert!(RAN.contains(&code), "{said}");
    } else {
        assert!(lab.run(&["resume", "latest"]).code.is_some_and(|code| RAN.contains(&code)));
    }
    assert!(lab.path("planted").exists());
}

#[test]
fn root_in_another_users_archive_is_asked_about_the_folder_too() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: only root meets another user's archive so");
    }
    let lab = interrupted();
    chown(lab.path("archive"), Some(65_534), Some(65_534)).unwrap();
    let refused = lab.run(&["resume", "latest"]);
    assert_eq!(refused.code, Some(6), "{}", refused.err);
    let Some((code, said)) = at_terminal(&lab, "", &[Some(b"n\r")]) else { return };
    assert_eq!(code, 6, "{said}");
    let (code, said) = at_terminal(&lab, "", &[Some(b"y\r"), Some(b"n\r")]).unwrap();
    assert_eq!(code, 2, "{said}");
    assert!(!lab.path("planted").exists(), "{said}");
    let (code, said) = at_terminal(&lab, "", &[Some(b"y\r"), Some(b"y\r")]).unwrap();
    assert!(RAN.contains(&code), "{said}");
    assert!(lab.path("planted").exists());
}
