//! Why a load could not be run.

use std::io;

use record::load::Workload;
use record::load::rules::Violation;
use record::load::settings::Setting;
use record::target::Target;

/// Whose fault it is that a load could not be run; the binary makes an exit code of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// What was asked for cannot be: mend the command line or the plan.
    Usage,
    /// The server under test failed.
    Server,
    /// This machine does not allow it.
    Environment,
    /// The user stopped it.
    Interrupted,
}

/// Why a load could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No driver goes by this scheme.
    #[error("`{target}` names no target: expected one of {expected}")]
    UnknownScheme {
        /// The target as written.
        target: Target,
        /// The forms that there are.
        expected: String,
    },
    /// The driver cannot read the target.
    #[error("`{target}`: {problem}")]
    Malformed {
        /// The target as written.
        target: Target,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// The target cannot do this.
    #[error("`{target}` has no workload {}: expected {expected}", workload.word())]
    UnsupportedWorkload {
        /// The target as written.
        target: Target,
        /// What was asked for.
        workload: Workload,
        /// What there is.
        expected: String,
    },
    /// A setting that contradicts another.
    #[error("{} {}", violation.setting, violation.why(str::to_owned))]
    BreaksRule {
        /// The setting and the rule.
        violation: Violation,
    },
    /// A number outside its bounds.
    #[error("{} is {found}: expected {}", setting.name, setting.values.expected())]
    OutOfBounds {
        /// The setting.
        setting: &'static Setting,
        /// Its value.
        found: u64,
    },
    /// A value that makes no load.
    #[error("{name} is {found}: expected {expected}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The server answers, and says no for a reason that waiting will not mend.
    #[error("{target}: {text}")]
    Refused {
        /// The target as written.
        target: Target,
        /// The server's words, and what to do.
        text: String,
    },
    /// Not every worker has its connection.
    #[error("{made} of {of} connected to {target}: {text}")]
    NotConnected {
        /// The target as written.
        target: Target,
        /// Connections that were made.
        made: u32,
        /// Connections that are needed.
        of: u32,
        /// Why the first of the others was not.
        text: String,
    },
    /// The data set is not there and may not be built.
    #[error("{target}: {problem}")]
    NoDataSet {
        /// The target as written.
        target: Target,
        /// What is missing, and what to do.
        problem: String,
    },
    /// The server failed while the data set was looked at or built.
    #[error("{target}: {doing}: {text}")]
    DataSet {
        /// The target as written.
        target: Target,
        /// What was being done: `building sbtest3`.
        doing: String,
        /// The server's words.
        text: String,
    },
    /// A file that this user cannot use, a full disk.
    #[error("{target}: {text}")]
    Machine {
        /// The target as written.
        target: Target,
        /// What this machine answered.
        text: String,
    },
    /// The system has no thread left for a worker.
    #[error("cannot start a worker thread")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
    /// The workers may not run at real-time priority.
    #[error(
        "the workers may not run at real-time priority: run as root, grant CAP_SYS_NICE or raise `ulimit -r`, or leave \
         --fifo out"
    )]
    RealTime {
        /// What the system said.
        source: io::Error,
    },
    /// The user stopped it before anything was measured.
    #[error("stopped before the measured phase: nothing was measured")]
    Interrupted,
}

impl LoadError {
    /// Whose fault it is.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownScheme { .. }
            | Self::Malformed { .. }
            | Self::UnsupportedWorkload { .. }
            | Self::BreaksRule { .. }
            | Self::OutOfBounds { .. }
            | Self::Setting { .. }
            | Self::Refused { .. }
            | Self::NoDataSet { .. } => ErrorClass::Usage,
            Self::NotConnected { .. } | Self::DataSet { .. } => ErrorClass::Server,
            Self::Machine { .. } | Self::Thread { .. } | Self::RealTime { .. } => ErrorClass::Environment,
            Self::Interrupted => ErrorClass::Interrupted,
        }
    }
}
