//! Errors of a load.

use std::io;

use record::load::Workload;
use record::load::rules::Violation;
use record::load::settings::Setting;
use record::target::Target;

/// Cause of an error; the binary turns it into an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The command line or the plan: the user must change it.
    Usage,
    /// The server under test failed.
    Server,
    /// The machine: it does not allow the load.
    Environment,
    /// The user stopped it.
    Interrupted,
}

/// Reason why a load could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The scheme has no driver.
    #[error("unknown target `{target}`{advice}")]
    UnknownScheme {
        /// The target as written.
        target: Target,
        /// A clause: the scheme that was probably meant, or the known forms.
        advice: String,
    },
    /// The target is malformed.
    #[error("`{target}`: {problem}")]
    Malformed {
        /// The target as written.
        target: Target,
        /// The problem, and what to write instead.
        problem: String,
    },
    /// The target does not support the workload.
    #[error("`{target}` does not support the workload {}: expected {expected}", workload.word())]
    UnsupportedWorkload {
        /// The target as written.
        target: Target,
        /// The workload in the settings.
        workload: Workload,
        /// The supported workloads.
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
        /// The value in the settings.
        found: u64,
    },
    /// A value that no load can have.
    #[error("{name} is {found}: expected {expected}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The value in the settings.
        found: String,
        /// The values that are possible.
        expected: &'static str,
    },
    /// The server answers, and refuses for a reason that waiting will not change.
    #[error("{target}: {text}")]
    Refused {
        /// The target as written.
        target: Target,
        /// The server's message, and what to do.
        text: String,
    },
    /// A script has an error that shows before it runs: in its text, or in its options.
    #[error("{text}")]
    ScriptText {
        /// Place and message.
        text: String,
    },
    /// A script failed while it ran.
    #[error("{text}")]
    Script {
        /// Place, message and traceback.
        text: String,
    },
    /// Some workers have no connection.
    #[error("opened {made} of {of} connections to {target}: {text}")]
    NotConnected {
        /// The target as written.
        target: Target,
        /// Connections that were made.
        made: u32,
        /// Connections that are needed.
        of: u32,
        /// Reason of the first failure.
        text: String,
    },
    /// The data set is missing and may not be built.
    #[error("{target}: {problem}")]
    NoDataSet {
        /// The target as written.
        target: Target,
        /// The missing part, and what to do.
        problem: String,
    },
    /// The server failed while the data set was checked or built.
    #[error("{target}: {doing}: {text}")]
    DataSet {
        /// The target as written.
        target: Target,
        /// The step that failed: `building sbtest3`.
        doing: String,
        /// The server's message.
        text: String,
    },
    /// A local problem: a file that this user cannot use, a full disk.
    #[error("{target}: {text}")]
    Machine {
        /// The target as written.
        target: Target,
        /// The system's message.
        text: String,
    },
    /// The system has no thread left for a worker.
    #[error("cannot start a worker thread")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
    /// The workers may not run at real-time priority.
    #[error(
        "no permission to run the workers at real-time priority: run as root, grant CAP_SYS_NICE, raise \
         `ulimit -r`, or leave --fifo out"
    )]
    RealTime {
        /// The system's error.
        source: io::Error,
    },
    /// The fleet that was to generate the load did not.
    #[error("the fleet: {text}")]
    Fleet {
        /// The reason, and what to do.
        text: String,
    },
    /// The user stopped the load before the measured phase.
    #[error("stopped before the measured phase: nothing was measured")]
    Interrupted,
}

impl LoadError {
    /// Cause of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownScheme { .. }
            | Self::Malformed { .. }
            | Self::UnsupportedWorkload { .. }
            | Self::BreaksRule { .. }
            | Self::OutOfBounds { .. }
            | Self::Setting { .. }
            | Self::Refused { .. }
            | Self::ScriptText { .. }
            | Self::NoDataSet { .. } => ErrorClass::Usage,
            Self::NotConnected { .. } | Self::DataSet { .. } | Self::Script { .. } => ErrorClass::Server,
            Self::Machine { .. } | Self::Thread { .. } | Self::RealTime { .. } | Self::Fleet { .. } => {
                ErrorClass::Environment
            }
            Self::Interrupted => ErrorClass::Interrupted,
        }
    }
}
