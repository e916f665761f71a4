//! Calibration: each instrument against workloads whose truth is known, on this very machine.
//!
//! A subject is one file here, and one line in [`SUBJECTS`]: it starts its workloads through `Bench::start`,
//! each in a process of its own, and tells what came of them through `Bench::tell`. What cannot be proved
//! here (no such tool, no regular tick, no permission) is a proof that says so, never an error and never
//! silence.

mod block_io;
mod cpu;
mod interrupts;
mod locks;
mod nic;
mod run_queue;
mod slow_file;

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use record::clock::{Clock, Monotonic};
use record::missing::{Maybe, Missing};
use record::proof::Proof;

/// Everything that can be proved on this machine by its own probes.
pub const SUBJECTS: &[Subject] =
    &[cpu::SUBJECT, interrupts::SUBJECT, run_queue::SUBJECT, locks::SUBJECT, block_io::SUBJECT, nic::SUBJECT];

/// An instrument, or several that look at the same thing.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// As a user names it: `cpu`.
    pub name: &'static str,
    /// Its workloads, in one clause for people.
    pub about: &'static str,
    prove: fn(&mut Bench<'_>),
}

impl Subject {
    /// Runs every workload of the subject under its instruments; ends early where [`Bench`] is told to stop.
    pub fn prove(&self, bench: &mut Bench<'_>) {
        (self.prove)(bench);
    }
}

/// How instruments are proved.
#[derive(Debug, Clone)]
pub struct Settings {
    /// For how long each workload is watched, in whole seconds: the others' tools know no parts of one.
    pub seconds: u64,
    /// The CPU on which hogs hide; `None`: the last one that this process may use.
    pub cpu: Option<u32>,
    /// Run the others' tools beside, where they are installed.
    pub peers: bool,
}

/// Where proofs are made: what a subject is given, and whom it tells.
pub struct Bench<'a> {
    /// What the user wants.
    pub settings: Settings,
    /// Makes the command that does the work of these words in a process of its own: `hide --cpu 1 --share
    /// 70%`. It prints `ready` when the work starts, and works until its input ends.
    pub hog: &'a dyn Fn(&[String]) -> Command,
    /// Whether the user wants it to end.
    pub stopped: &'a dyn Fn() -> bool,
    /// Is told what happens as it happens.
    pub on_event: &'a mut dyn FnMut(Event<'_>),
}

/// What happens while instruments are proved.
#[derive(Debug)]
pub enum Event<'a> {
    /// A workload starts, the first of them being number 1.
    Workload {
        /// Its name.
        name: &'a str,
        /// Its number.
        number: usize,
        /// How many there are of this subject.
        of: usize,
    },
    /// Something is proved, or cannot be.
    Proof(Proof),
}

impl Bench<'_> {
    /// Tells that a workload starts; `false` where the user wants no more of them.
    pub(crate) fn begin(&mut self, name: &str, number: usize, of: usize) -> bool {
        if (self.stopped)() {
            return false;
        }
        (self.on_event)(Event::Workload { name, number, of });
        true
    }

    /// Tells what came of it.
    pub(crate) fn tell(&mut self, proof: Proof) {
        (self.on_event)(Event::Proof(proof));
    }

    /// Starts a workload and returns once it is at work.
    ///
    /// # Errors
    ///
    /// Why it cannot be had, in its own words where it has any.
    pub(crate) fn start(&self, words: &[String]) -> Maybe<Workload> {
        Workload::start((self.hog)(words))
    }

    /// Sleeps until then; `false` where the user wants it to end before.
    pub(crate) fn wait_until(&self, deadline_ns: u64) -> bool {
        const LOOK_EVERY_NS: u64 = 100_000_000;
        while !(self.stopped)() {
            let now_ns = Monotonic.now_ns();
            if now_ns >= deadline_ns {
                return true;
            }
            Monotonic.sleep_until_ns(deadline_ns.min(now_ns + LOOK_EVERY_NS));
        }
        false
    }
}

impl fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A workload in a process of its own; ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Workload {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Open until it has said its last words.
    stdout: BufReader<ChildStdout>,
}

impl Workload {
    fn start(mut command: Command) -> Maybe<Self> {
        let refused = |e: io::Error| Missing::because(format!("the workload cannot be run: {e}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C at a terminal is for the prover, which then ends its workload.
        command.process_group(0);
        let mut child = command.spawn().map_err(refused)?;
        let stdin = child.stdin.take();
        let stderr = child.stderr.take().expect("it is piped");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut workload = Self { child, stdin, stdout };
        let mut line = String::new();
        workload.stdout.read_line(&mut line).map_err(refused)?;
        if line.trim() == "ready" {
            return Ok(workload);
        }
        let mut why = String::new();
        // It has closed its output, so it is at its end.
        let _ = BufReader::new(stderr).read_to_string(&mut why);
        let why = why.lines().last().unwrap_or("it said nothing").trim_start_matches("bakeoff: ");
        Err(Missing::because(format!("the workload did not start: {why}")))
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// For how long its threads saw themselves run so far: see [`crate::hog::seen_ns`].
    pub(crate) fn seen_ns(&mut self) -> Maybe<u64> {
        let mut ask = || -> io::Result<String> {
            let stdin = self.stdin.as_mut().expect("open until it is dropped");
            stdin.write_all(b"?")?;
            stdin.flush()?;
            let mut line = String::new();
            self.stdout.read_line(&mut line)?;
            Ok(line)
        };
        let line = ask().map_err(|e| Missing::because(format!("the workload does not answer: {e}")))?;
        let ns = line.trim().strip_prefix("seen ").and_then(|ns| ns.parse().ok());
        ns.ok_or_else(|| Missing::because("the workload does not say for how long it ran"))
    }

    /// CPU time of its process so far, by the scheduler's own clock.
    pub(crate) fn cpu_ns(&self) -> Maybe<u64> {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let time = clock_getcpuclockid(pid).and_then(clock_gettime);
        let time = time.map_err(|e| Missing::because(format!("the workload's clock cannot be read: {e}")))?;
        Ok(u64::try_from(Duration::from(time).as_nanos()).expect("less than 584 years"))
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends when its input does; should it hang, it is ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where nothing is yet, for a file of a proof's own.
fn own_path(kind: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("bakeoff-prove-{}-{number}.{kind}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_workload_is_ready_and_works_until_its_input_ends() {
        let mut workload = Workload::start(shell("echo ready; cat; echo 23 done")).unwrap();
        assert!(workload.pid() > 0);
        assert!(workload.cpu_ns().is_ok());
        drop(workload.stdin.take());
        let mut words = String::new();
        workload.stdout.read_to_string(&mut words).unwrap();
        assert_eq!(words, "23 done\n");
    }

    #[test]
    fn a_workload_that_does_not_start_says_why_in_its_own_words() {
        let why = Workload::start(shell("echo bakeoff: no tick here >&2; exit 6")).unwrap_err();
        assert_eq!(why.reason, "the workload did not start: no tick here");
        let why = Workload::start(Command::new("/nowhere/at/all")).unwrap_err();
        assert!(why.reason.starts_with("the workload cannot be run"), "{why}");
    }
}
