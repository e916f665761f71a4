//! Truths of the shared archive that are less kind: wrong pairs, bad files, hostile servers, other processes.

mod azure;
mod bounds;
mod faults;
mod own;
mod pair;
mod passwords;
mod prune;
mod queries;

use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::lab::Ended;

/// A command that ended, and the most memory that it had.
struct Watched {
    ended: Ended,
    most_kib: u64,
}

/// Runs a command that must end within a minute and stay below 2 GiB.
fn watched(mut command: Command) -> Watched {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut most_kib = 0;
    for _ in 0..3_000 {
        if child.try_wait().unwrap().is_some() {
            return Watched { ended: Ended::of(child.wait_with_output().unwrap()), most_kib };
        }
        most_kib = most_kib.max(memory_kib(&child));
        if most_kib > 2 << 20 {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    let mut err = String::new();
    let _ = child.stderr.take().unwrap().read_to_string(&mut err);
    child.wait().unwrap();
    panic!("it does not end or takes too much memory: {most_kib} KiB; {err}");
}

fn memory_kib(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Problems in the document of a transfer: the id and the text of each.
fn problems(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let listed = document["problems"].as_array().unwrap();
    listed.iter().map(|problem| (text(&problem["run"]), text(&problem["what"]))).collect()
}
