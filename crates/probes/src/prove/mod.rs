//! Calibration: each instrument against workloads with a known truth, on this very machine.
//!
//! A subject is one file here, and one line in [`SUBJECTS`]: it starts its workloads through `Bench::start`,
//! each in a separate process, and reports the results through `Bench::tell`. If something cannot be proved
//! here (no such tool, no regular tick, no permission), the proof states the reason; it is never an error and
//! never silent.

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
use record::cpu::Rung;
use record::missing::{Maybe, Missing};
use record::proof::{Proof, Unit};

use crate::cpu_time::{self, Options};
use crate::process_ids;
use crate::topology::Cores;

/// Subjects that this machine's own probes can prove.
pub const SUBJECTS: &[Subject] =
    &[cpu::SUBJECT, interrupts::SUBJECT, run_queue::SUBJECT, locks::SUBJECT, block_io::SUBJECT, nic::SUBJECT];

/// An instrument, or several that measure the same thing.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// Name for the command line: `cpu`.
    pub name: &'static str,
    /// Workloads of the subject, in one clause for people.
    pub about: &'static str,
    prove: fn(&mut Bench<'_>),
}

impl Subject {
    /// Runs every workload of the subject under its instruments; ends early if [`Bench`] is stopped.
    pub fn prove(&self, bench: &mut Bench<'_>) {
        (self.prove)(bench);
    }
}

/// Settings of a proof.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Time for which each workload is watched, in whole seconds: other tools accept no fractions.
    pub seconds: u64,
    /// CPU on which hogs hide; `None`: the last one that this process may use.
    pub cpu: Option<u32>,
    /// Run other tools at the same time, if they are installed.
    pub peers: bool,
}

/// Environment of a proof: its settings, and the sinks of its results.
pub struct Bench<'a> {
    /// Settings of the user.
    pub settings: Settings,
    /// Builds the command that runs this workload in a separate process, from words such as `hide --cpu 1
    /// --share 70%`. It prints `ready` when the work starts, and works until its input ends.
    pub hog: &'a dyn Fn(&[String]) -> Command,
    /// Whether the user wants to stop.
    pub stopped: &'a dyn Fn() -> bool,
    /// Receives each event immediately.
    pub on_event: &'a mut dyn FnMut(Event<'_>),
}

/// Progress of a proof.
#[derive(Debug)]
pub enum Event<'a> {
    /// A workload starts; the first is number 1.
    Workload {
        /// Workload name.
        name: &'a str,
        /// Workload number.
        number: usize,
        /// Number of workloads of this subject.
        of: usize,
    },
    /// Something is proved, or cannot be.
    Proof(Proof),
}

impl Bench<'_> {
    /// Reports that a workload starts; `false` if the user wants to stop.
    pub(crate) fn begin(&mut self, name: &str, number: usize, of: usize) -> bool {
        if (self.stopped)() {
            return false;
        }
        (self.on_event)(Event::Workload { name, number, of });
        true
    }

    /// Reports a result.
    pub(crate) fn tell(&mut self, proof: Proof) {
        (self.on_event)(Event::Proof(proof));
    }

    /// Fails the subject if its programs were refused although this process may load them, and the kernel has
    /// BTF and is that version or later: a verifier refused them, or an event is not as they expect.
    pub(crate) fn check_loading(&mut self, subject: &str, since: (u32, u32), opened: Result<(), String>) {
        if let Some(proof) = refused(subject, must_load(since), opened) {
            self.tell(proof);
        }
    }

    /// Starts a workload and returns once it is at work.
    ///
    /// # Errors
    ///
    /// The reason why it did not start, in its own words if it printed any.
    pub(crate) fn start(&self, words: &[String]) -> Maybe<Workload> {
        Workload::start((self.hog)(words))
    }

    /// Sleeps until then; `false` if the user wants to stop before.
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

/// A workload in a separate process; dropping this ends it.
#[derive(Debug)]
pub(crate) struct Workload {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Open until the workload has printed its last line.
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
        // Its output is closed, so it is about to exit.
        let _ = BufReader::new(stderr).read_to_string(&mut why);
        let why = why.lines().last().unwrap_or("it printed nothing").trim_start_matches("bakeoff: ");
        Err(Missing::because(format!("the workload did not start: {why}")))
    }

    /// Process id of the workload.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Time for which its threads saw themselves run so far: see [`crate::hog::seen_ns`].
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
        ns.ok_or_else(|| Missing::because("the workload did not report how long it ran"))
    }

    /// CPU time of its process so far, by the scheduler's clock.
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
        // It ends when its input does; if it hangs, it is killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether programs must load here.
#[cfg(feature = "bpf")]
fn must_load((major, minor): (u32, u32)) -> bool {
    use crate::program::{KERNEL_BTF, kernel_is_at_least, may_load};

    may_load() && std::path::Path::new(KERNEL_BTF).exists() && kernel_is_at_least(major, minor)
}

#[cfg(not(feature = "bpf"))]
fn must_load(_: (u32, u32)) -> bool {
    false
}

fn refused(subject: &str, must_load: bool, opened: Result<(), String>) -> Option<Proof> {
    let why = opened.err().filter(|_| must_load)?;
    Some(Proof {
        subject: subject.to_owned(),
        instrument: "its programs".to_owned(),
        ours: true,
        workload: "loading".to_owned(),
        truth: Ok(1.0),
        found: Ok(0.0),
        limit: 0.0,
        unit: Unit::Count,
        cost_ratio: Err(Missing::because("nothing was loaded")),
        remark: Some(why),
    })
}

/// The Linux version from which on the programs of `cpu`, `io` and `ulocks` load: see `docs/kernels.md`.
const PROGRAMS_SINCE: (u32, u32) = (5, 12);

/// Whether switches, interrupts and threads are seen by our programs, or why not.
fn cpu_programs() -> Result<(), String> {
    let mut probe = cpu_time::open(&Options::of_this_machine().with_ticks().with_tasks(Cores::default()));
    if probe.rung() != Rung::Bpf {
        return Err(probe.notes().join("; "));
    }
    probe.start();
    let interval = probe.read();
    interval.mean(|cpu| cpu.irq_ratio.clone()).map_err(|why| why.reason)?;
    match probe.tasks() {
        // In a PID namespace, older kernels do not show all threads.
        Err(why) if process_ids::are_the_machines() => Err(why.reason),
        _ => Ok(()),
    }
}

/// Unused path for a file of one proof.
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
    fn programs_that_must_load_and_do_not_are_a_failure() {
        let no = || Err("the verifier refused it".to_owned());
        let proof = refused("io", true, no()).unwrap();
        assert_eq!(proof.verdict(), record::proof::ProofVerdict::Fail);
        assert_eq!(proof.remark.unwrap(), "the verifier refused it");
        // Without the rights, or on a kernel without the events, it cannot be proved.
        assert_eq!(refused("io", false, no()), None);
        assert_eq!(refused("io", true, Ok(())), None);
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
