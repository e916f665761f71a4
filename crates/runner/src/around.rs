//! Measurement of a command, or of a period of time, from its first instruction to its last.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use load::{Stop, StopLevel};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use probes::cpu_time::{self, Adopt, CpuProbe, Options};
use probes::observe::{Instrument, Kind};
use probes::process_time;
use probes::schedule::Deadlines;
use probes::topology::Cores;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::command::{CommandEnd, CpuSplit, Recorded};
use record::cpu::CpuInterval;
use record::limits::Throttled;
use record::missing::{Maybe, Missing};
use record::series::Sample;

use crate::quotas::Quotas;

/// Settings of a recording.
#[derive(Debug, Clone)]
pub struct RecordSettings {
    /// Length of an interval of the series.
    pub interval: Duration,
    /// Instruments besides the CPU probe.
    pub others: Vec<Kind>,
    /// Host name in the series.
    pub host: String,
    /// Time origin of the series.
    pub anchor: WallAnchor,
}

/// Subject of a recording.
#[derive(Debug)]
pub enum Around {
    /// A command, from its first instruction until it has ended.
    Command(Command),
    /// A period of time.
    Time(Duration),
}

/// Result of a recording.
#[derive(Debug)]
pub struct Recording {
    /// Totals over the whole recording.
    pub recorded: Recorded,
    /// CPU intervals.
    pub cpu: Vec<CpuInterval>,
    /// Data of the other instruments that is not a number.
    pub seen: record::instruments::Instruments,
    /// Values of the other instruments, by interval.
    pub series: Vec<Sample>,
    /// Throttling by a CPU quota, over the same period.
    pub throttled: Maybe<Throttled>,
    /// Notes on data that is missing, and how to get it.
    pub notes: Vec<String>,
    /// Whether the user ended the recording.
    pub stopped: bool,
}

/// Reason that a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The command cannot be started.
    #[error("cannot start `{program}`")]
    Start {
        /// Name of the command.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// Waiting for the command failed.
    #[error("cannot wait for the command")]
    Wait(#[source] io::Error),
}

/// Records until the command has ended, the time is over, or the user stops it.
///
/// After the first stop the command has a second to end by itself, since the terminal has signalled it too. A
/// second stop kills it.
///
/// - `on_started`: called once the instruments and the command have started.
///
/// # Errors
///
/// [`RecordError`].
pub fn record(
    around: Around,
    settings: &RecordSettings,
    stop: &Stop,
    on_started: &dyn Fn(),
) -> Result<Recording, RecordError> {
    let mut instruments = Instruments::open(settings);
    match around {
        Around::Time(length) => {
            instruments.start();
            on_started();
            let end_ns = Monotonic.now_ns() + u64::try_from(length.as_nanos()).unwrap_or(u64::MAX / 2);
            let stopped = instruments.watch_until(stop, |wait_ns| {
                let now_ns = Monotonic.now_ns();
                Monotonic.sleep_until_ns(end_ns.min(now_ns + wait_ns));
                Monotonic.now_ns() >= end_ns
            });
            instruments.end();
            let none = || Missing::because("no command was recorded");
            let recorded = Recorded {
                end: CommandEnd::NoCommand,
                window: instruments.cpu.since_start(),
                by_events_ns: Err(none()),
                interrupted_ns: Err(none()),
                by_proc_ns: Err(none()),
                by_rusage: Err(none()),
            };
            Ok(instruments.finish(recorded, stopped))
        }
        Around::Command(command) => record_command(command, instruments, stop, on_started),
    }
}

fn record_command(
    mut command: Command,
    mut instruments: Instruments<'_>,
    stop: &Stop,
    on_started: &dyn Fn(),
) -> Result<Recording, RecordError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let before = children_usage();
    instruments.start();
    instruments.cpu.adopt(Adopt::Children);
    let child = command.spawn();
    instruments.cpu.adopt(Adopt::Nobody);
    on_started();
    let child = child.map_err(|source| RecordError::Start { program, source })?;
    let pid = child.id();
    let ended = watch_end(pid).map_err(RecordError::Wait)?;
    let mut asked = Asked::default();
    let stopped = instruments.watch_until(stop, |wait_ns| {
        asked.ask(pid, stop);
        ended.recv_timeout(Duration::from_nanos(wait_ns)) != Err(RecvTimeoutError::Timeout)
    });
    if stopped {
        // The command was asked to end; recording continues until it has.
        while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            asked.ask(pid, stop);
        }
    }
    instruments.end();
    let by_proc_ns = process_time::with_children_ns(pid);
    let status = reap(child).map_err(RecordError::Wait)?;
    // If the terminal signalled both, the command may have ended before this process noticed.
    let stopped = stop.is_requested() || status.signal() == Some(Signal::SIGINT as i32);
    let recorded = Recorded {
        end: end_of(status),
        window: instruments.cpu.since_start(),
        by_events_ns: instruments.cpu.members_ns(),
        interrupted_ns: instruments.cpu.members_interrupted_ns(),
        by_proc_ns,
        by_rusage: before.and_then(|before| Ok(since(before, children_usage()?))),
    };
    Ok(instruments.finish(recorded, stopped))
}

/// Interval at which a request to stop is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Running instruments.
struct Instruments<'a> {
    settings: &'a RecordSettings,
    cpu: CpuProbe,
    others: Vec<Box<dyn Instrument>>,
    deadlines: Deadlines,
    intervals: Vec<CpuInterval>,
    series: Vec<Sample>,
    quotas: Quotas,
}

impl<'a> Instruments<'a> {
    fn open(settings: &'a RecordSettings) -> Self {
        // The accounting by tasks assigns threads to processes. The shares of cores are not needed.
        let cpu = cpu_time::open(&Options::of_this_machine().with_tasks(Cores::default()));
        let others = settings.others.iter().map(|kind| (kind.open)()).collect();
        let deadlines = Deadlines::new(Monotonic.now_ns(), settings.interval);
        let quotas = Quotas::new();
        Self { settings, cpu, others, deadlines, intervals: Vec::new(), series: Vec::new(), quotas }
    }

    fn start(&mut self) {
        self.quotas.open();
        self.cpu.measure_cost();
        self.others.iter_mut().for_each(|o| o.measure_cost());
        self.others.iter_mut().for_each(|o| o.start());
        // The CPU probe starts last, so its window is that of the command.
        self.cpu.start();
        self.deadlines = Deadlines::new(Monotonic.now_ns(), self.settings.interval);
    }

    /// Reads at every deadline until `wait` returns `true`; its argument is the longest wait in nanoseconds.
    /// Returns `true` if the user stopped it before.
    fn watch_until(&mut self, stop: &Stop, mut wait: impl FnMut(u64) -> bool) -> bool {
        let look_ns = u64::try_from(LOOK_EVERY.as_nanos()).expect("a few milliseconds");
        loop {
            let left_ns = self.deadlines.next_ns().saturating_sub(Monotonic.now_ns());
            if wait(left_ns.min(look_ns)) {
                return false;
            }
            if stop.is_requested() {
                return true;
            }
            if Monotonic.now_ns() >= self.deadlines.next_ns() {
                self.read();
            }
        }
    }

    fn read(&mut self) {
        let mut interval = self.cpu.read();
        interval.missed_deadline = self.deadlines.answered_at(interval.until_ns) > 0;
        let anchor = self.settings.anchor;
        let t_ns = anchor.unix_ns_at(interval.until_ns).cast_signed() - anchor.unix_ns.cast_signed();
        for reading in self.others.iter_mut().flat_map(|o| o.read()) {
            self.series.push(Sample {
                t_ms: t_ns / 1_000_000,
                host: self.settings.host.as_str().into(),
                name: reading.name.into(),
                labels: reading.labels.into(),
                value: reading.value,
            });
        }
        self.intervals.push(interval);
    }

    /// Ends the last interval, and the observation.
    fn end(&mut self) {
        self.others.iter_mut().for_each(|other| other.end());
        self.read();
    }

    fn finish(mut self, recorded: Recorded, stopped: bool) -> Recording {
        let mut seen = record::instruments::Instruments::default();
        self.others.iter_mut().for_each(|other| other.hand_over(&mut seen));
        self.others.iter_mut().for_each(|other| other.hand_over_whole(&mut seen));
        let mut notes = self.cpu.notes().to_vec();
        notes.extend(self.others.iter().flat_map(|o| o.notes()));
        notes.extend(self.cpu.cost().map(|cost| format!("overhead of watching the CPUs: {cost}")).ok());
        let named = self.settings.others.iter().zip(&mut self.others);
        notes.extend(named.filter_map(|(kind, other)| {
            Some(format!("overhead of watching `{}`: {}", kind.name, other.cost().ok()?))
        }));
        let throttled = self.quotas.take();
        notes.extend(self.quotas.lost().map(str::to_owned));
        Recording { recorded, cpu: self.intervals, seen, series: self.series, throttled, notes, stopped }
    }
}

/// Sends one message when the process has ended, but does not reap it: `/proc` still describes it until then.
fn watch_end(pid: u32) -> io::Result<mpsc::Receiver<()>> {
    let (tell, told) = mpsc::channel();
    let id = Pid::from_raw(pid.cast_signed());
    let wait = move || {
        while waitid(Id::Pid(id), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
            == Err(nix::errno::Errno::EINTR)
        {}
        // If the recording has failed, the receiver is gone.
        let _ = tell.send(());
    };
    thread::Builder::new().name("command-end".into()).spawn(wait)?;
    Ok(told)
}

fn reap(mut child: Child) -> io::Result<ExitStatus> {
    child.wait()
}

/// Progress of ending the command.
#[derive(Debug, Default)]
struct Asked {
    since_ns: Option<u64>,
    told: bool,
    killed: bool,
}

impl Asked {
    fn ask(&mut self, pid: u32, stop: &Stop) {
        const PATIENCE_NS: u64 = 1_000_000_000;
        if !stop.is_requested() {
            return;
        }
        let now_ns = Monotonic.now_ns();
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let send = |signal: Signal| {
            // It may just have ended.
            let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
        };
        if stop.level() > StopLevel::Finish && !self.killed {
            send(Signal::SIGKILL);
            self.killed = true;
        } else if now_ns - since_ns > PATIENCE_NS && !self.told {
            send(Signal::SIGTERM);
            self.told = true;
        }
    }
}

fn end_of(status: ExitStatus) -> CommandEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandEnd::Code(code),
        (None, signal) => CommandEnd::Signal(signal.unwrap_or(0)),
    }
}

/// Returns the CPU time of the children that this process has reaped, including that of their reaped
/// children.
fn children_usage() -> Maybe<CpuSplit> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN);
    let usage = usage.map_err(|e| Missing::because(format!("getrusage: {e}")))?;
    let ns = |t: nix::sys::time::TimeVal| {
        t.tv_sec().cast_unsigned() * 1_000_000_000 + t.tv_usec().cast_unsigned() * 1_000
    };
    Ok(CpuSplit { user_ns: ns(usage.user_time()), system_ns: ns(usage.system_time()) })
}

fn since(before: CpuSplit, after: CpuSplit) -> CpuSplit {
    CpuSplit {
        user_ns: after.user_ns.saturating_sub(before.user_ns),
        system_ns: after.system_ns.saturating_sub(before.system_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ended_before_anybody_looked_was_stopped_still() {
        // Like Ctrl-C at a terminal: the command is signalled too, and may end first.
        let stop = Stop::new();
        stop.request();
        let settings = RecordSettings {
            interval: Duration::from_secs(1),
            others: Vec::new(),
            host: "here".into(),
            anchor: WallAnchor::now(),
        };
        let recording = record(Around::Command(Command::new("true")), &settings, &stop, &|| ()).unwrap();
        assert!(recording.stopped);
    }
}
