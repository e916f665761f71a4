//! Recording around a command, as stored.

use record::command::{CommandEnd, CpuSplit, Recorded};
use serde::{Deserialize, Serialize};

use super::cpu::Interval;
use super::{Reasons, Wrong};

/// The recording in a manifest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecordedForm {
    /// Exit status of the command; both are absent for a recorded stretch of time.
    exit_code: Option<i32>,
    signal: Option<i32>,
    window: Option<Interval>,
    by_events_ns: Option<u64>,
    #[serde(default)]
    interrupted_ns: Option<u64>,
    by_proc_ns: Option<u64>,
    by_rusage: Option<Split>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct Split {
    user_ns: u64,
    system_ns: u64,
}

impl RecordedForm {
    pub(crate) fn of(recorded: &Recorded) -> Self {
        let Recorded { end, window, by_events_ns, interrupted_ns, by_proc_ns, by_rusage } = recorded;
        let (exit_code, signal) = match end {
            CommandEnd::Code(code) => (Some(*code), None),
            CommandEnd::Signal(signal) => (None, Some(*signal)),
            CommandEnd::NoCommand => (None, None),
        };
        let mut missing = Reasons::default();
        Self {
            exit_code,
            signal,
            window: missing.split("window", window, Interval::of),
            by_events_ns: missing.split("by_events_ns", by_events_ns, |v| *v),
            interrupted_ns: missing.split("interrupted_ns", interrupted_ns, |v| *v),
            by_proc_ns: missing.split("by_proc_ns", by_proc_ns, |v| *v),
            by_rusage: missing.split("by_rusage", by_rusage, |CpuSplit { user_ns, system_ns }| Split {
                user_ns: *user_ns,
                system_ns: *system_ns,
            }),
            missing,
        }
    }

    pub(crate) fn read(self) -> Result<Recorded, Wrong> {
        let m = &self.missing;
        let split = |s: Split| Ok(CpuSplit { user_ns: s.user_ns, system_ns: s.system_ns });
        Ok(Recorded {
            end: match (self.exit_code, self.signal) {
                (Some(code), _) => CommandEnd::Code(code),
                (None, Some(signal)) => CommandEnd::Signal(signal),
                (None, None) => CommandEnd::NoCommand,
            },
            window: m.join("window", self.window, Interval::read)?,
            by_events_ns: m.join("by_events_ns", self.by_events_ns, Ok)?,
            interrupted_ns: m.join_newer("interrupted_ns", self.interrupted_ns, Ok)?,
            by_proc_ns: m.join("by_proc_ns", self.by_proc_ns, Ok)?,
            by_rusage: m.join("by_rusage", self.by_rusage, split)?,
        })
    }
}
