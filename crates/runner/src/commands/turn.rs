//! One execution of a command, from its start to its exit, with what the kernel counted for it.
//!
//! A command starts as a shell would start it: with the environment, the limits and the scheduling class of
//! this process, and no descriptors beyond the first three. It leads a process group, so a Ctrl-C at the
//! terminal does not look like its failure. The time begins before the fork and ends when the kernel reports
//! the exit.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use load::Stop;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::signal::Signal;
use nix::sys::time::TimeSpec;
use probes::process_time;
use record::clock::{Clock as _, Monotonic};
use record::command::CommandEnd;
use record::commands::Peak;

use super::settings::{CommandPlan, Output};
use crate::pidfd;
use crate::process::{Placement, Process, Waited};
use crate::strays;

/// Stored end of standard error, in bytes.
const SAID_BYTES: usize = 2_048;
/// Reads of a pipe between two looks at the process: enough to empty a full pipe.
const READS_A_LOOK: usize = 33;
/// Interval at which a request to stop is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Memory that a new process may touch between its report and the execution of the command: pages of the code
/// that does it.
const FLOOR_SLACK_BYTES: u64 = 1 << 20;
/// Time that a stopped command has to end by itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// Result of one execution.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) end: CommandEnd,
    pub(crate) status: ExitStatus,
    /// `None` if the command was killed before its exit.
    pub(crate) time: Option<Duration>,
    /// Reason that it was killed.
    pub(crate) waited: Waited,
    pub(crate) usage: Usage,
    /// Live processes of its group that were killed after its exit.
    pub(crate) left: u32,
    /// Last words on standard error.
    pub(crate) said: Option<String>,
}

/// The kernel's account of a command from its execution on, and of the children that it waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) memory: Peak,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
}

/// Pipes that all executions share, one after the other.
#[derive(Debug)]
pub(crate) struct Pipes {
    errors: Drain,
    output: Drain,
    /// Each child writes here its account up to the execution of the command.
    before: (PipeReader, PipeWriter),
}

/// A pipe that is read while a command runs: a full pipe would block it.
#[derive(Debug)]
struct Drain {
    from: PipeReader,
    to: PipeWriter,
    tail: Vec<u8>,
}

impl Pipes {
    pub(crate) fn new() -> io::Result<Self> {
        let before = io::pipe()?;
        fcntl(&before.0, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { errors: Drain::new()?, output: Drain::new()?, before })
    }

    /// Runs a command once. An `Err` is a program that does not start, or a failure of ours.
    ///
    /// - `mark`: variable that finds the processes that it leaves behind.
    pub(crate) fn run(
        &mut self,
        plan: &CommandPlan,
        input: Option<&File>,
        (mark, timeout): (&str, Duration),
        stop: &Stop,
    ) -> io::Result<Ran> {
        let command = self.command(plan, input, mark)?;
        self.execute(command, timeout, stop)
    }

    fn execute(&mut self, command: Command, timeout: Duration, stop: &Stop) -> io::Result<Ran> {
        self.errors.tail.clear();
        let began_ns = Monotonic.now_ns();
        let mut process = Process::spawn(command, &Placement::ANYWHERE)?;
        let (waited, ended_ns) = self.watch(&process, began_ns, timeout, stop)?;
        if waited != Waited::Done {
            process.ask(Signal::SIGTERM);
            let _ = process.wait(PATIENCE, &Stop::new());
        }
        let before = self.account_before()?;
        if waited != Waited::Done && !process.has_ended() {
            // The account of a process is complete at its exit.
            let _ = nix::sys::signal::killpg(process.pid(), Signal::SIGKILL);
        }
        let usage = usage(&process.watch_usage()?, before.as_ref(), own_peak_bytes());
        let (status, left) = strays::end_group_and_count(&mut process)?;
        self.errors.read()?;
        let end = match (status.code(), status.signal()) {
            (Some(code), _) => CommandEnd::Code(code),
            (None, signal) => CommandEnd::Signal(signal.unwrap_or(0)),
        };
        let time = (waited == Waited::Done).then(|| Duration::from_nanos(ended_ns - began_ns));
        Ok(Ran { end, status, time, waited, usage, left, said: self.errors.said() })
    }

    fn command(&self, plan: &CommandPlan, input: Option<&File>, mark: &str) -> io::Result<Command> {
        let mut command = Command::new(&plan.words[0]);
        command.args(&plan.words[1..]).env(strays::VARIABLE, mark);
        command.stdin(match input {
            None => Stdio::null(),
            // Every execution reads the file from its beginning.
            Some(file) => File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into(),
        });
        command.stderr(self.errors.to.try_clone()?);
        match &plan.output {
            Output::Null => command.stdout(Stdio::null()),
            Output::Pipe => command.stdout(self.output.to.try_clone()?),
            Output::Inherit => command.stdout(Stdio::inherit()).stderr(Stdio::inherit()),
            Output::File(path) => command.stdout(archive::whole_file::emptied(path)?),
        };
        let before = self.before.1.as_raw_fd();
        let tell = move || {
            let usage = own_usage();
            // SAFETY: the structure lives until the call returns. Without it, the memory has no bound: the
            // parent sees that, so an error needs no handling.
            unsafe { libc::write(before, (&raw const usage).cast(), size_of_val(&usage)) };
            Ok(())
        };
        // SAFETY: between fork and exec only system calls are made, which are async-signal-safe, on plain
        // values.
        unsafe { command.pre_exec(tell) };
        Ok(command)
    }

    /// Waits for the exit, and reads the pipes meanwhile. The command stays a zombie.
    ///
    /// A command that ends after the timeout has timed out, even if it ended before anything looked.
    fn watch(
        &mut self,
        process: &Process,
        began_ns: u64,
        timeout: Duration,
        stop: &Stop,
    ) -> io::Result<(Waited, u64)> {
        let end = pidfd::open(process.pid())?;
        loop {
            let watch = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let fds = [end.as_raw_fd(), self.errors.from.as_raw_fd(), self.output.from.as_raw_fd()];
            let mut watched = fds.map(watch);
            let at_most = TimeSpec::from_duration(look(Monotonic.now_ns() - began_ns, timeout));
            // SAFETY: the descriptors are open and owned here, and the array and the time outlive the call.
            let polled = Errno::result(unsafe {
                libc::ppoll(watched.as_mut_ptr(), 3, at_most.as_ref(), std::ptr::null())
            });
            let now_ns = Monotonic.now_ns();
            let is_over = u128::from(now_ns - began_ns) > timeout.as_nanos();
            match polled {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
            if polled.is_ok() && watched[0].revents != 0 {
                return Ok((if is_over { Waited::TimedOut } else { Waited::Done }, now_ns));
            }
            if polled.is_ok_and(|ready| ready > 0) {
                self.errors.read()?;
                self.output.read()?;
            }
            if stop.is_requested() {
                return Ok((Waited::Stopped, now_ns));
            }
            if is_over {
                return Ok((Waited::TimedOut, now_ns));
            }
        }
    }

    /// Account of the child up to the execution of the command.
    fn account_before(&mut self) -> io::Result<Option<libc::rusage>> {
        let mut bytes = [0; size_of::<libc::rusage>()];
        match self.before.0.read_exact(&mut bytes) {
            // SAFETY: a child wrote these bytes as a whole structure; every pattern of bits is a value of it.
            Ok(()) => Ok(Some(unsafe { bytes.as_ptr().cast::<libc::rusage>().read_unaligned() })),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::UnexpectedEof) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

impl Drain {
    fn new() -> io::Result<Self> {
        let (from, to) = io::pipe()?;
        fcntl(&from, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { from, to, tail: Vec::new() })
    }

    /// Reads a bounded amount without blocking: a process that the command left behind may write forever.
    fn read(&mut self) -> io::Result<()> {
        let mut room = [0; SAID_BYTES];
        for _ in 0..READS_A_LOOK {
            match self.from.read(&mut room) {
                Ok(0) => return Ok(()),
                Ok(bytes) => {
                    self.tail.extend_from_slice(&room[..bytes]);
                    let surplus = self.tail.len().saturating_sub(SAID_BYTES);
                    self.tail.drain(..surplus);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// The last line that was written.
    fn said(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.tail);
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(last.chars().take(400).collect())
    }
}

/// Time until the next look at a command: it never lasts past the timeout.
fn look(since_ns: u64, timeout: Duration) -> Duration {
    // One nanosecond after it, the timeout is over.
    let left = timeout.saturating_sub(Duration::from_nanos(since_ns)).saturating_add(Duration::from_nanos(1));
    LOOK_EVERY.min(left)
}

/// The kernel's account of this process.
fn own_usage() -> libc::rusage {
    // SAFETY: all zeros is a value of the structure; the kernel fills it in.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives until the call returns.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage
}

/// Largest resident memory of this program so far, in bytes; `None` if `/proc` does not tell it.
///
/// `ru_maxrss` would include the memory of the program that started this one.
fn own_peak_bytes() -> Option<u64> {
    let status = process_time::text("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Account of a command: what its process used since it executed the command.
///
/// - `before`: account of the process up to its last action before that.
/// - `own_peak_bytes`: largest memory of this program, of which the process began as a copy. Between its
///   report and the execution it touches pages of programs and libraries that this program has touched too.
fn usage(whole: &libc::rusage, before: Option<&libc::rusage>, own_peak_bytes: Option<u64>) -> Usage {
    let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
    let since = |of: fn(&libc::rusage) -> libc::c_long| {
        count(of(whole)).saturating_sub(before.map_or(0, |before| count(of(before))))
    };
    let span = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    // The kernel's split into modes is an estimate that changes over the life of a process: the part from
    // before is taken off both modes in the proportion of the whole.
    let all = span(whole.ru_utime) + span(whole.ru_stime);
    let earlier = before.map_or(Duration::ZERO, |before| span(before.ru_utime) + span(before.ru_stime));
    let share = if all.is_zero() { 0.0 } else { all.saturating_sub(earlier).div_duration_f64(all) };
    let bytes = count(whole.ru_maxrss) * 1024;
    let floor = before.zip(own_peak_bytes).map(|(before, own)| (count(before.ru_maxrss) * 1024).max(own));
    let memory = match floor {
        Some(floor) if bytes > floor + FLOOR_SLACK_BYTES => Peak::Bytes(bytes as f64),
        _ => Peak::AtMost(bytes as f64),
    };
    Usage {
        user: span(whole.ru_utime).mul_f64(share),
        system: span(whole.ru_stime).mul_f64(share),
        memory,
        minor_faults: since(|usage| usage.ru_minflt),
        major_faults: since(|usage| usage.ru_majflt),
    }
}

/// Runs a command of the user around the measured ones, by `sh`. `Err` is a sentence.
///
/// - `mark`: variable of its processes, which may outlive it.
pub(crate) fn hook(
    (name, text): (&str, &str),
    mark: &str,
    timeout: Duration,
    stop: &Stop,
) -> Result<Waited, String> {
    let failed = |e: io::Error| format!("--{name} `{text}` cannot be run: {e}");
    let mut errors = Drain::new().map_err(failed)?;
    let mut command = Command::new("sh");
    command.args(["-c", text]).env(strays::VARIABLE, mark).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(errors.to.try_clone().map_err(failed)?);
    let mut process = Process::spawn(command, &Placement::ANYWHERE).map_err(failed)?;
    let began_ns = Monotonic.now_ns();
    let waited = loop {
        errors.read().map_err(failed)?;
        // Ends soon after the command, and in time to read what it says.
        let at_most = look(Monotonic.now_ns() - began_ns, timeout).min(Duration::from_millis(20));
        match process.wait(at_most, stop) {
            Waited::TimedOut if u128::from(Monotonic.now_ns() - began_ns) <= timeout.as_nanos() => {}
            other => break other,
        }
    };
    let status =
        if waited == Waited::Done { process.finish_by_itself_with_status() } else { process.finish() };
    errors.read().map_err(failed)?;
    let said = errors.said().map_or(String::new(), |said| format!("; it said: {said}"));
    match (waited, status.map_err(failed)?) {
        (Waited::Stopped, _) => Ok(Waited::Stopped),
        (Waited::TimedOut, _) => {
            Err(format!("--{name} `{text}` did not end within {timeout:?} (--timeout){said}"))
        }
        (Waited::Done, status) if status.success() => Ok(Waited::Done),
        (Waited::Done, status) => Err(format!("--{name} `{text}` ended with {status}{said}")),
    }
}

/// Opens the standard input of the commands.
pub(crate) fn open_input(path: &std::path::Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Ran {
        let plan = CommandPlan {
            words: ["sh", "-c", script].map(str::to_owned).into(),
            output: Output::Pipe,
            setup: None,
            prepare: None,
            conclude: None,
            cleanup: None,
        };
        let mut pipes = Pipes::new().unwrap();
        pipes.run(&plan, None, ("mark", Duration::from_mins(1)), &Stop::new()).unwrap()
    }

    #[test]
    fn a_command_has_its_end_its_last_words_and_its_cpu_time() {
        let ran =
            run("i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo first >&2; echo last >&2; exit 3");
        assert_eq!((ran.end, ran.said.as_deref()), (CommandEnd::Code(3), Some("last")));
        let cpu = ran.usage.user + ran.usage.system;
        // One process: its CPU time is at most its time, but for the kernel's rounding.
        assert!(cpu > Duration::from_millis(1), "{ran:?}");
        assert!(cpu <= ran.time.unwrap() + Duration::from_millis(8), "{ran:?}");
        assert_eq!(run("kill -9 $$").end, CommandEnd::Signal(9));
    }

    #[test]
    fn output_that_overfills_every_pipe_does_not_block_the_command() {
        let ran = run("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2");
        assert_eq!(ran.end, CommandEnd::Code(0));
    }

    #[test]
    fn the_memory_of_a_command_is_not_that_of_the_program_that_starts_it() {
        // Every program is larger than `true`: only a bound is known.
        assert!(matches!(run("exec true").usage.memory, Peak::AtMost(_)));
        let ballast = vec![1_u8; 64 << 20];
        let ran = run("exec true");
        assert!(matches!(ran.usage.memory, Peak::AtMost(_)), "{ran:?} {}", ballast.len());
        // A command with more has a value: 200 MiB in one variable.
        let ran = run("x=$(head -c 209715200 /dev/zero | tr '\\0' a); echo ${#x} >/dev/null");
        let Peak::Bytes(bytes) = ran.usage.memory else { panic!("{ran:?} {}", ballast.len()) };
        assert!(bytes > 200e6, "{bytes}");
    }

    /// The new process reads 32 MiB of a file between its report and the execution, as it does with the pages
    /// of its program and libraries: memory that this program has too.
    #[test]
    fn memory_between_the_report_and_the_execution_is_not_that_of_the_command() {
        const BYTES: usize = 32 << 20;
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, &vec![1_u8; BYTES]).unwrap();
        // SAFETY: a new mapping of an open file, at an address that the kernel chooses; it is never unmapped.
        let mapped = unsafe {
            libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        // SAFETY: the mapping has that length, and nothing writes to the file any more.
        let mapped: &'static [u8] = unsafe { std::slice::from_raw_parts(mapped.cast(), BYTES) };
        let touch = move || {
            let sum: u64 = mapped.iter().step_by(4_096).map(|byte| u64::from(*byte)).sum();
            if sum > 0 { Ok(()) } else { Err(io::Error::from(Errno::EIO)) }
        };
        touch().unwrap();
        let plan = CommandPlan {
            words: ["true"].map(str::to_owned).into(),
            output: Output::Null,
            setup: None,
            prepare: None,
            conclude: None,
            cleanup: None,
        };
        let mut pipes = Pipes::new().unwrap();
        let mut command = pipes.command(&plan, None, "mark").unwrap();
        // SAFETY: reads memory, and makes no call that is not async-signal-safe.
        unsafe { command.pre_exec(touch) };
        let ran = pipes.execute(command, Duration::from_mins(1), &Stop::new()).unwrap();
        let Peak::AtMost(bytes) = ran.usage.memory else { panic!("`true` has no 32 MiB: {ran:?}") };
        assert!(bytes >= BYTES as f64, "the kernel counts them: {bytes}");
    }

    #[test]
    fn what_the_copy_used_before_the_execution_is_not_in_the_account_of_the_command() {
        let account = |faults: i64, user_us: i64, system_us: i64| {
            let mut usage = own_usage();
            (usage.ru_minflt, usage.ru_majflt) = (faults, 0);
            usage.ru_utime = libc::timeval { tv_sec: 0, tv_usec: user_us };
            usage.ru_stime = libc::timeval { tv_sec: 0, tv_usec: system_us };
            usage
        };
        let found = |before: Option<&libc::rusage>| {
            let usage = usage(&account(150, 600, 200), before, None);
            (usage.minor_faults, usage.user.as_micros(), usage.system.as_micros())
        };
        assert_eq!(found(None), (150, 600, 200));
        // The kernel had put all of it into the other mode.
        assert_eq!(found(Some(&account(70, 0, 400))), (80, 300, 100));
        assert_eq!(found(Some(&account(200, 900, 0))), (0, 0, 0));
    }

    #[test]
    fn a_process_that_the_command_leaves_behind_is_counted_and_ended() {
        let _alone = strays::alone();
        strays::adopt().unwrap();
        let ran = run("sleep 1000 & sleep 1000 & exit 0");
        assert_eq!((ran.left, ran.end), (2, CommandEnd::Code(0)));
        assert_eq!(run("true &").end, CommandEnd::Code(0));
    }

    #[test]
    fn a_command_that_hangs_is_ended_and_has_no_time() {
        let plan = CommandPlan {
            words: ["sh", "-c", "trap '' TERM; while :; do sleep 1000; done"].map(str::to_owned).into(),
            output: Output::Null,
            setup: None,
            prepare: None,
            conclude: None,
            cleanup: None,
        };
        let mut pipes = Pipes::new().unwrap();
        let ran = pipes.run(&plan, None, ("mark", Duration::from_millis(50)), &Stop::new()).unwrap();
        assert_eq!((ran.waited, ran.time), (Waited::TimedOut, None));
        let stop = Stop::new();
        stop.request();
        let ran = pipes.run(&plan, None, ("mark", Duration::from_mins(1)), &stop).unwrap();
        assert_eq!((ran.waited, ran.time), (Waited::Stopped, None));
    }
}
