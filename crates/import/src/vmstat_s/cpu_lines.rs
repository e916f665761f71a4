//! The lines of `vmstat -s` that count ticks.

use crate::fields::{Fields, text, whole};

/// Use of CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In user mode, guests included.
    User,
    /// In the kernel, interrupts included.
    System,
    /// Idle.
    Idle,
    /// Idle, with I/O outstanding.
    Wait,
    /// Taken by the hypervisor.
    Stolen,
    /// In guests of this host. The kernel also counts this time as user time. procps 4 prints both unchanged;
    /// procps 3 prints only user time, guests included.
    Guest,
}

/// Lines that count ticks: Solaris and illumos, then Linux.
const CPU_LINES: [(&str, State); 14] = [
    ("user cpu", State::User),
    ("system cpu", State::System),
    ("idle cpu", State::Idle),
    ("wait cpu", State::Wait),
    ("non-nice user cpu ticks", State::User),
    ("nice user cpu ticks", State::User),
    ("system cpu ticks", State::System),
    ("idle cpu ticks", State::Idle),
    ("IO-wait cpu ticks", State::Wait),
    ("IRQ cpu ticks", State::System),
    ("softirq cpu ticks", State::System),
    ("stolen cpu ticks", State::Stolen),
    ("non-nice guest cpu ticks", State::Guest),
    ("nice guest cpu ticks", State::Guest),
];

/// Whether the line counts ticks as `vmstat -s` does.
pub(crate) fn is_cpu_line(line: &[u8]) -> bool {
    let mut fields = Fields::from(line, 0, 1);
    fields.next().is_some_and(|field| whole(field.bytes).is_some()) && cpu_state(&name(fields)).is_some()
}

pub(super) fn cpu_state(name: &str) -> Option<State> {
    CPU_LINES.iter().find(|(known, _)| *known == name).map(|&(_, state)| state)
}

/// Returns the rest of the line with single blanks.
pub(super) fn name(fields: Fields<'_>) -> String {
    let words: Vec<String> = fields.map(|field| text(field.bytes)).collect();
    words.join(" ")
}
