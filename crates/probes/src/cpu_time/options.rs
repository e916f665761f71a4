//! What to watch of the CPUs, and how.

use std::collections::BTreeSet;
use std::path::PathBuf;

use record::cpu::Rung;

use crate::topology::Cores;
use crate::{cpu_list, proc_stat};

/// Options of [`super::open`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Folder that holds `proc` and `sys`: `/`, or a fixture, which only has the `/proc` rung.
    pub root: PathBuf,
    /// Rung to start from; lower ones are used if it is unavailable.
    pub highest: Rung,
    /// Add the samplers' view (at the tick, after it, and out of phase; needs the BPF rung), and the
    /// hardware's: cycles and instructions.
    pub ticks: bool,
    /// Account for every thread, on these cores. Needs the BPF rung.
    pub tasks: Option<Cores>,
    /// Store a histogram of waits for a CPU. Needs the BPF rung.
    pub waits: bool,
    /// Clock for the time of a switch on the BPF rung; with tasks it is always our own.
    pub clock: SwitchClock,
}

/// Clock for the time of a context switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchClock {
    /// `CLOCK_MONOTONIC`, read at each switch: most of the cost of watching a switch.
    Own,
    /// The scheduler's, which it read when it began to switch: nearly free. Time of the switch itself counts
    /// for the next task, and the balance is as good as the two clocks agree.
    Scheduler,
}

impl Options {
    /// Options for this machine, on the highest rung, without the samplers: for use beside a load.
    pub fn of_this_machine() -> Self {
        Self {
            root: PathBuf::from("/"),
            highest: Rung::Bpf,
            ticks: false,
            tasks: None,
            waits: false,
            clock: SwitchClock::Own,
        }
    }

    /// Adds the samplers' view beside the events.
    #[must_use]
    pub fn with_ticks(self) -> Self {
        Self { ticks: true, ..self }
    }

    /// Adds the CPU time of each thread, on these cores.
    #[must_use]
    pub fn with_tasks(self, cores: Cores) -> Self {
        Self { tasks: Some(cores), ..self }
    }

    /// Online CPUs; if `/sys` has no list, those that `/proc/stat` lists.
    pub(super) fn online(&self) -> BTreeSet<u32> {
        let listed = || proc_stat::read(&self.root).map(|stat| stat.keys().copied().collect());
        cpu_list::online(&self.root).unwrap_or_else(|| listed().unwrap_or_default())
    }
}
