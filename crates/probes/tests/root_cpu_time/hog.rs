//! A load with a known truth, by its own account and by the kernel's.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// A hog in a separate process; ends when this is dropped.
pub(crate) struct Hog {
    pub(crate) child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Hog {
    /// Starts it and returns when it is at work.
    pub(crate) fn start(words: &[&str]) -> Self {
        let mut child = Command::new(hog_binary())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo builds the examples with the tests");
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "hog {words:?} did not start");
        Self { child, stdin, stdout }
    }

    /// CPU time of its process so far, by the scheduler's clock.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let t = clock_gettime(clock_getcpuclockid(pid).unwrap()).unwrap();
        t.tv_sec().cast_unsigned() * 1_000_000_000 + t.tv_nsec().cast_unsigned()
    }

    /// Time for which it saw itself run so far.
    pub(crate) fn seen_ns(&mut self) -> u64 {
        self.stdin.write_all(b"?").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().strip_prefix("seen ").unwrap().parse().unwrap()
    }

    /// Totals of its threads so far, by the kernel.
    pub(crate) fn totals(&self) -> Totals {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let status = |t: fs::DirEntry| fs::read_to_string(t.path().join("status")).unwrap();
        let switches = threads.map(|t| switches(&status(t.unwrap()))).sum();
        Totals { cpu_ns: self.cpu_ns(), switches }
    }

    /// Id of its thread of that name, as soon as there is one.
    pub(crate) fn thread(&self, name: &str) -> u32 {
        loop {
            for task in fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap() {
                let path = task.unwrap().path();
                if fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name) {
                    return path.file_name().unwrap().to_str().unwrap().parse().unwrap();
                }
            }
            std::thread::yield_now();
        }
    }

    /// Time for which that thread waited for a CPU, by the scheduler.
    pub(crate) fn run_delay_ns(&self, tid: u32) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/task/{tid}/schedstat", self.child.id())).unwrap();
        text.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn run_delay_of_all_ns(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let tid = |t: fs::DirEntry| t.file_name().to_str().unwrap().parse().unwrap();
        tasks.map(|t| self.run_delay_ns(tid(t.unwrap()))).sum()
    }

    pub(crate) fn stop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) cpu_ns: u64,
    pub(crate) switches: u64,
}

impl Totals {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self { cpu_ns: self.cpu_ns - before.cpu_ns, switches: self.switches - before.switches }
    }
}

/// Voluntary and involuntary switches, from the text of a `status` file.
fn switches(status: &str) -> u64 {
    let counts = status.lines().filter_map(|l| l.split_once("voluntary_ctxt_switches:"));
    counts.map(|(_, n)| n.trim().parse::<u64>().unwrap()).sum()
}

fn hog_binary() -> PathBuf {
    // target/debug/deps/this-test -> target/debug/examples/hog
    let this = std::env::current_exe().unwrap();
    this.parent().unwrap().parent().unwrap().join("examples/hog")
}
