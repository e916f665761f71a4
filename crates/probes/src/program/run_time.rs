//! Run time of a program, by the kernel's statistics.

use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{fmt, fs, io};

use libbpf_rs::ProgramMut;
use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats};
use record::missing::{Maybe, Missing};

/// The kernel's statistics of one program so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunTime {
    pub(crate) ns: u64,
    pub(crate) runs: u64,
}

impl RunTime {
    /// # Errors
    ///
    /// Missing if the kernel does not report it.
    pub(crate) fn of(program: BorrowedFd<'_>) -> Maybe<Self> {
        Ok(Self { ns: told_of(program, "run_time_ns")?, runs: told_of(program, "run_cnt")? })
    }

    fn of_all(programs: &[BorrowedFd<'_>]) -> Maybe<Vec<Self>> {
        programs.iter().map(|program| Self::of(*program)).collect()
    }
}

/// Time that a program took in a burst, less the cost of the statistics.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BurstTime {
    pub(crate) ns: f64,
    pub(crate) runs: u64,
}

impl BurstTime {
    /// Mean time of a run; at least 0, since the subtracted cost is a mean too.
    ///
    /// # Errors
    ///
    /// Missing if there was no run.
    pub(crate) fn ns_per_run(self) -> Maybe<f64> {
        if self.runs == 0 {
            return Err(Missing::because("the program did not run"));
        }
        Ok((self.ns / self.runs as f64).max(0.0))
    }
}

impl std::iter::Sum for BurstTime {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self { ns: sum.ns + one.ns, runs: sum.runs + one.runs })
    }
}

/// Times of attached programs in a burst of the events that they watch, each separately and in their order.
///
/// - `nothing`: an empty program, on an event of the burst; not attached.
///
/// # Errors
///
/// Missing if the kernel's run statistics are unavailable, or there was no burst.
pub(crate) fn in_a_burst<const N: usize, E: fmt::Display>(
    programs: [BorrowedFd<'_>; N],
    nothing: &ProgramMut<'_>,
    burst: impl FnOnce() -> Result<(), E>,
) -> Maybe<[BurstTime; N]> {
    let all = each_in_a_burst(&programs, nothing, burst)?;
    Ok(std::array::from_fn(|k| all[k]))
}

/// Same for any number of programs.
///
/// # Errors
///
/// As above.
pub(crate) fn each_in_a_burst<E: fmt::Display>(
    programs: &[BorrowedFd<'_>],
    nothing: &ProgramMut<'_>,
    burst: impl FnOnce() -> Result<(), E>,
) -> Maybe<Vec<BurstTime>> {
    let failed = |what: &str, e: &dyn fmt::Display| Missing::because(format!("{what}: {e}"));
    let _statistics =
        run_statistics().map_err(|e| failed("no access to the kernel's BPF run statistics", &e))?;
    let _nothing = nothing.attach().map_err(|e| failed("the empty program cannot be attached", &e))?;
    let (before, nothing_before) = (RunTime::of_all(programs)?, RunTime::of(nothing.as_fd())?);
    burst().map_err(|e| failed("cannot generate a burst of events", &e))?;
    let (after, nothing_after) = (RunTime::of_all(programs)?, RunTime::of(nothing.as_fd())?);
    let runs = nothing_after.runs - nothing_before.runs;
    if runs == 0 {
        return Err(Missing::because("no event of the burst was observed"));
    }
    let nothing_ns = (nothing_after.ns - nothing_before.ns) as f64 / runs as f64;
    let grown = |(before, after): (&RunTime, &RunTime)| {
        let runs = after.runs - before.runs;
        BurstTime { ns: (after.ns - before.ns) as f64 - nothing_ns * runs as f64, runs }
    };
    Ok(before.iter().zip(&after).map(grown).collect())
}

/// Enables the kernel's run statistics for as long as the result lives.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn run_statistics() -> io::Result<OwnedFd> {
    // SAFETY: takes a number, returns a descriptor or a negative error.
    let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Number of times that the kernel skipped a program because it was already running on that CPU.
///
/// # Errors
///
/// Missing if the kernel does not report it.
pub(crate) fn recursion_misses(program: BorrowedFd<'_>) -> Maybe<u64> {
    told_of(program, "recursion_misses")
}

fn told_of(program: BorrowedFd<'_>, name: &str) -> Maybe<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))
        .map_err(|e| Missing::because(format!("a program's statistics cannot be read: {e}")))?;
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    let value = line.and_then(|v| v.trim().parse().ok());
    value.ok_or_else(|| Missing::because(format!("this kernel does not report a program's {name}")))
}
