//! What to watch of the CPUs, and how.

use std::collections::BTreeSet;
use std::path::PathBuf;

use record::cpu::Rung;

use crate::topology::Cores;
use crate::{cpu_list, proc_stat};

/// What to watch, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The folder under which `proc` and `sys` are found: `/`, or a fixture, which only has the `/proc` rung.
    pub root: PathBuf,
    /// The rung to start from; lower ones are taken where it cannot be had.
    pub highest: Rung,
    /// Also take the samplers' view (at the tick, after it, and out of phase; needs the BPF rung), and the
    /// hardware's: cycles and instructions.
    pub ticks: bool,
    /// Also account for every thread, on these cores. Needs the BPF rung.
    pub tasks: Option<Cores>,
    /// Also keep a histogram of how long threads waited for a CPU. Needs the BPF rung.
    pub waits: bool,
    /// Whose clock tells the time of a switch on the BPF rung; with tasks it is always our own.
    pub clock: SwitchClock,
}

/// Whose clock tells the time of a context switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchClock {
    /// `CLOCK_MONOTONIC`, read at each switch: most of what watching a switch costs.
    Own,
    /// The scheduler's, which it read as it began to switch: nearly free. Time that the switch itself took is
    /// booked to whoever comes next, and the books balance as well as the two clocks agree.
    Scheduler,
}

impl Options {
    /// This machine, on the highest rung that it gives, without the samplers: what runs beside a load.
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

    /// The same with the samplers' view beside the events.
    #[must_use]
    pub fn with_ticks(self) -> Self {
        Self { ticks: true, ..self }
    }

    /// The same with what each thread had of the CPUs, which make up these cores.
    #[must_use]
    pub fn with_tasks(self, cores: Cores) -> Self {
        Self { tasks: Some(cores), ..self }
    }

    /// The CPUs that are online; if `/sys` does not tell, those that `/proc/stat` lists.
    pub(super) fn online(&self) -> BTreeSet<u32> {
        let listed = || proc_stat::read(&self.root).map(|stat| stat.keys().copied().collect());
        cpu_list::online(&self.root).unwrap_or_else(|| listed().unwrap_or_default())
    }
}
