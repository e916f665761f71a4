//! Measurements around a command or over a period.

use crate::cpu::CpuInterval;
use crate::missing::Maybe;

/// Measurements around a command or over a period.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Outcome of the command.
    pub end: CommandEnd,
    /// The machine over exactly that period, from counters at its two ends.
    pub window: Maybe<CpuInterval>,
    /// CPU time of the command and its descendants, by events; without interrupts.
    pub by_events_ns: Maybe<u64>,
    /// Time of interrupts while the command had a CPU; part of the two figures below.
    pub interrupted_ns: Maybe<u64>,
    /// CPU time by `/proc`, in ticks of 10 ms, without processes that no parent waited for.
    pub by_proc_ns: Maybe<u64>,
    /// CPU time by `getrusage`, without processes that no parent waited for.
    pub by_rusage: Maybe<CpuSplit>,
}

/// Outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// Exit with this code.
    Code(i32),
    /// Termination by this signal.
    Signal(i32),
    /// Record of a period, without a command.
    NoCommand,
}

/// CPU time by mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSplit {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl CpuSplit {
    /// Sum of both.
    pub fn sum_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }
}
