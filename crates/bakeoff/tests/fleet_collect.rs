//! A run of a killed conductor, collected into an archive.

#![cfg(feature = "fleet")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod lab;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lab::{Ended, Lab, assert_balanced};
use serde_json::{Value, json};

/// A NATS server and two agents, with their files in the lab's folder.
struct Dev {
    lab: Lab,
    child: Child,
    url: String,
}

impl Dev {
    fn start() -> Option<Self> {
        let lab = Lab::new();
        fs::create_dir(lab.path("tmp")).unwrap();
        let mut command = lab.command(&["fleet", "dev", "-n", "2"]);
        command.env("TMPDIR", lab.path("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url =
            lines.map_while(Result::ok).find_map(|line| Some(line.split_once("NATS_URL=")?.1.to_owned()));
        let Some(url) = url else {
            let err = Ended::of(child.wait_with_output().unwrap()).err;
            assert!(err.contains("nats-server: it is not installed"), "{err}");
            println!("skipped: no nats-server is installed");
            return None;
        };
        Some(Self { lab, child, url })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.lab.command(words);
        command.env("NATS_URL", &self.url).env("XDG_STATE_HOME", self.lab.path("state"));
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    /// Folders of runs in the agents' spools.
    fn left(&self) -> Vec<PathBuf> {
        let below = |folder: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
        };
        let scratch = below(&self.lab.path("tmp"));
        let spools = scratch.iter().map(|scratch| scratch.join("spool")).flat_map(|spool| below(&spool));
        spools.flat_map(|agent| below(&agent)).collect()
    }

    /// Plays a load of which the conductor is killed; returns the run once its agents have ended.
    fn killed(&self, label: &str) -> String {
        let words = [
            "load",
            "null:",
            "--rate",
            "600",
            "--arrivals",
            "period",
            "--threads",
            "2",
            "--warmup",
            "0",
            "--time",
            "1500ms",
            "--interval",
            "300ms",
            "--drain",
            "200ms",
            "--fleet",
            "2",
            "--observe",
            "none",
            "--title",
            "a title",
            "--label",
            label,
        ];
        let before = self.left();
        let mut conductor = self.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let new = || self.left().into_iter().filter(|path| !before.contains(path)).collect::<Vec<_>>();
        let has = |path: &Path, name: &str| fs::metadata(path.join(name)).is_ok_and(|file| file.len() > 0);
        while new().len() < 2 || !new().iter().all(|path| has(path, "slices.jsonl")) {
            assert!(conductor.try_wait().unwrap().is_none(), "the conductor ended before the load began");
            thread::sleep(Duration::from_millis(10));
        }
        conductor.kill().unwrap();
        conductor.wait().unwrap();
        let run = new()[0].file_name().unwrap().to_str().unwrap().to_owned();
        while !new().iter().all(|path| has(path, "end.json")) {
            thread::sleep(Duration::from_millis(20));
        }
        run
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_run_without_its_conductor_gets_into_the_archive_whole_and_once() {
    let Some(dev) = Dev::start() else { return };
    let run = dev.killed("try=1");
    let status = dev.run(&["fleet", "status", "--json"]);
    assert_eq!(status.code, Some(0), "{}", status.err);
    let status: Value = serde_json::from_str(&status.out).unwrap();
    let left = |agent: usize| status["agents"][agent]["left"][0].clone();
    assert_eq!(
        (&left(0)["run"], &left(1)["run"], &left(0)["ended"]),
        (&json!(run), &json!(run), &json!(true))
    );
    // A copy of the spools, for a collector that dies before they are removed.
    let spools = dev.left();
    for (number, spool) in spools.iter().enumerate() {
        copy(spool, &dev.lab.path(&format!("copy{number}")));
    }
    let collected = dev.run(&["fleet", "collect", "--json"]);
    let load: Value =
        serde_json::from_str(&collected.out).unwrap_or_else(|error| panic!("{error}: {}", collected.err));
    assert!(matches!(collected.code, Some(0 | 3)), "{}", collected.err);
    assert_balanced(&load);
    assert_eq!((&load["run"], load["planned"].as_u64()), (&json!(run), Some(900)));
    let checks = load["verdict"]["checks"].as_array().unwrap();
    for name in ["agents", "slices", "slice-sums", "clock-bound"] {
        assert!(
            checks.iter().any(|check| check["name"] == name && check["ok"] == true),
            "{name}: {checks:?}"
        );
    }
    assert_eq!(dev.left(), Vec::<PathBuf>::new(), "what is stored is removed");
    let list = || dev.lab.json(&["runs", "list"])["runs"].as_array().unwrap().clone();
    let runs = list();
    assert_eq!(
        (runs.len(), &runs[0]["run"], &runs[0]["title"]),
        (1, &json!(run), &json!("a title")),
        "{runs:?}"
    );
    assert_eq!(runs[0]["labels"]["try"], "1", "{runs:?}");
    let verified = dev.lab.run(&["runs", "verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    let none = dev.run(&["fleet", "collect"]);
    assert_eq!(none.code, Some(2), "{}", none.err);

    // The same spools again: they may go, and nothing is stored twice.
    for (number, spool) in spools.iter().enumerate() {
        copy(&dev.lab.path(&format!("copy{number}")), spool);
    }
    let again = dev.run(&["fleet", "collect", &run[20..]]);
    assert_eq!((again.code, dev.left().len(), list().len()), (Some(0), 0, 1), "{}", again.err);
    // Spools of one agent only have other measurements.
    copy(&dev.lab.path("copy0"), &spools[0]);
    let other = dev.run(&["fleet", "collect", &run, "--incomplete"]);
    assert_eq!((other.code, dev.left().len(), list().len()), (Some(6), 1, 1), "{}", other.err);
    assert!(other.err.contains("other measurements"), "{}", other.err);
}

#[test]
fn two_collectors_at_once_store_one_run() {
    let Some(dev) = Dev::start() else { return };
    let run = dev.killed("try=2");
    let collectors: Vec<Child> = (0..3)
        .map(|_| {
            dev.command(&["fleet", "collect", &run])
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let ended: Vec<Ended> =
        collectors.into_iter().map(|child| Ended::of(child.wait_with_output().unwrap())).collect();
    let said: Vec<&str> = ended.iter().map(|ended| ended.err.as_str()).collect();
    // The others find the run busy, stored, or no longer in any spool.
    assert!(ended.iter().any(|ended| matches!(ended.code, Some(0 | 3))), "{said:?}");
    assert_eq!(dev.left(), Vec::<PathBuf>::new(), "{said:?}");
    assert_eq!(dev.lab.json(&["runs", "list"])["runs"].as_array().unwrap().len(), 1, "{said:?}");
    assert_eq!(dev.lab.run(&["runs", "verify"]).code, Some(0));
}
