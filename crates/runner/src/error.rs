//! Why a bake-off could not be conducted.

use std::io;
use std::path::PathBuf;

use archive::ArchiveError;
use load::{ErrorClass, LoadError};
use plan::{NotAnExperiment, PlanErrors};
use record::run::RunId;

/// Why a bake-off could not be conducted, or had to be left.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The plan asks for what this version cannot do.
    #[error("{}", .what.join("\n"))]
    NotBuilt {
        /// What, each with its place.
        what: Vec<String>,
    },
    /// This machine is not fit for the plan.
    #[error("{}", .problems.join("\n"))]
    NotFit {
        /// Why not.
        problems: Vec<String>,
    },
    /// A target that no driver takes.
    #[error("{plan}: the target of the load")]
    Target {
        /// The plan.
        plan: String,
        /// What the driver says.
        source: LoadError,
    },
    /// The unit of work of a scale run does not start.
    #[error("{command} does not start: is it written as in a shell, and installed?")]
    NoCommand {
        /// Its words.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The unit of work of a scale run does not do its work alone: many of it would be no better.
    #[error("one run of the command, before any is measured: {what}")]
    Rehearsal {
        /// How it ended.
        what: String,
    },
    /// The user stopped it before anything was begun.
    #[error("stopped before anything was measured")]
    StoppedBefore,
    /// A file that is to be read cannot be made or read.
    #[error("{what}")]
    Data {
        /// What was done with which file.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The archived plan of an experiment is none for this version.
    #[error("the plan of {id} as the archive has it")]
    ArchivedExperiment {
        /// The run.
        id: RunId,
        /// What is wrong with it.
        source: NotAnExperiment,
    },
    /// The file with the author's key points cannot be read.
    #[error("cannot read the notes {}, which the plan names", path.display())]
    Notes {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The archive fails.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The scratch folder fails.
    #[error("cannot use the scratch folder {}; $TMPDIR says where else it may be", path.display())]
    Scratch {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing could be measured in a whole block: the rest would be no better.
    #[error(
        "no trial of block {block} could be measured, the first because {reason}; it can be resumed as {id}"
    )]
    BlockFailed {
        /// The bake-off.
        id: RunId,
        /// The block.
        block: u32,
        /// What the first one died of.
        reason: String,
    },
    /// The archived plan is none for this version.
    #[error("the plan of {id} as the archive has it")]
    ArchivedPlan {
        /// The bake-off.
        id: RunId,
        /// What is wrong with it.
        source: PlanErrors,
    },
    /// The plan held a password, which the archive does not keep.
    #[error(
        "{id} cannot be resumed: its plan held a password, and the archive keeps none; use a user without a password on a socket, and start again"
    )]
    PlanMasked {
        /// The bake-off.
        id: RunId,
    },
    /// This version draws another order from the same plan.
    #[error(
        "{id} cannot be resumed: this version draws another order from its plan; finish it with version {version}"
    )]
    AnotherOrder {
        /// The bake-off.
        id: RunId,
        /// The version that began it.
        version: String,
    },
}

impl RunnerError {
    /// Whose fault it is.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotBuilt { .. }
            | Self::Target { .. }
            | Self::Notes { .. }
            | Self::ArchivedPlan { .. }
            | Self::PlanMasked { .. }
            | Self::AnotherOrder { .. }
            | Self::NoCommand { .. }
            | Self::ArchivedExperiment { .. } => ErrorClass::Usage,
            Self::BlockFailed { .. } | Self::Rehearsal { .. } => ErrorClass::Server,
            Self::StoppedBefore => ErrorClass::Interrupted,
            Self::NotFit { .. } | Self::Data { .. } | Self::Archive(_) | Self::Scratch { .. } => {
                ErrorClass::Environment
            }
        }
    }
}
