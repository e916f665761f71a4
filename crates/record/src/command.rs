//! A command, or a stretch of time, with instruments around it.

use crate::cpu::CpuInterval;
use crate::missing::Maybe;

/// What was recorded around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// How it ended.
    pub end: CommandEnd,
    /// The machine over exactly that window, from counters at its two edges.
    pub window: Maybe<CpuInterval>,
    /// CPU time of the command and everything it started, by events; interrupts are not in it.
    pub by_events_ns: Maybe<u64>,
    /// What interrupts took while the command had a CPU: part of the two figures below.
    pub interrupted_ns: Maybe<u64>,
    /// The same as `/proc` tells it, in ticks of 10 ms, without processes that nobody waited for.
    pub by_proc_ns: Maybe<u64>,
    /// The same as the kernel tells its parent (`getrusage`), without processes that nobody waited for.
    pub by_rusage: Maybe<CpuSplit>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// There was none: a stretch of time was recorded.
    NoCommand,
}

/// CPU time in the two modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSplit {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl CpuSplit {
    /// Both.
    pub fn sum_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }
}
