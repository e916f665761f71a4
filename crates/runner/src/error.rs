//! Why a bake-off could not be conducted.

use std::io;
use std::path::PathBuf;

use archive::ArchiveError;
use load::{ErrorClass, LoadError};
use plan::{NotAnExperiment, PlanErrors};
use record::run::RunId;

use crate::options::Foreign;

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
    /// The server's user may not enter a folder above the scratch folder.
    #[error(
        "the server's user, {uid}, may not enter {}: set TMPDIR to a folder that all may enter, or name another \
         account with `server.user`",
        path.display()
    )]
    OutOfReach {
        /// The folder.
        path: PathBuf,
        /// The user.
        uid: u32,
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
    /// The plan has a secret written out, which the archive masked.
    #[error(
        "{id} cannot be resumed from the archive: its plan has a secret written out, which the archive masks{}; name \
         the plan's own file with --plan FILE, and write `{{env:NAME}}` or `{{file:PATH}}` in the next plan",
        tried.as_deref().map(|file| format!(", and {file} is not that plan (sha256 {sha256})")).unwrap_or_default()
    )]
    PlanMasked {
        /// The bake-off.
        id: RunId,
        /// The file that was tried.
        tried: Option<String>,
        /// The checksum of the plan.
        sha256: String,
    },
    /// A file was named for the plan, and holds another one.
    #[error("{file} is not the plan of {id}: its sha256 is {found}, and the plan's is {sha256}")]
    AnotherPlan {
        /// The bake-off.
        id: RunId,
        /// The file.
        file: String,
        /// Its checksum.
        found: String,
        /// The checksum of the plan.
        sha256: String,
    },
    /// The file that was named for the plan cannot be read.
    #[error("cannot read the plan {}", path.display())]
    PlanFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A secret that the plan refers to is not there.
    #[error("the plan refers to `{reference}`, which cannot be read: {why}")]
    Secret {
        /// The reference.
        reference: String,
        /// Why not.
        why: String,
    },
    /// Another bake-off runs on this machine.
    #[error(
        "another measurement runs on this machine: {holder}, holds {}; wait for it, or measure beside it with --beside-others, \
         which marks every trial; if that is not a measurement, BAKEOFF_MACHINE_LOCK names another file",
        path.display()
    )]
    MachineBusy {
        /// The process, as the kernel knows it.
        holder: String,
        /// The lock file.
        path: PathBuf,
    },
    /// The lock that keeps bake-offs apart cannot be used.
    #[error("cannot use {}, the lock that keeps bake-offs on a machine apart; BAKEOFF_MACHINE_LOCK names another", path.display())]
    MachineLock {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another user could have written what would be executed.
    #[error(
        "{} belongs to another user ({}), whose commands would run as this one:\n  {}\nread them, and say --trust",
        foreign.id, foreign.owner, foreign.commands.join("\n  ")
    )]
    Untrusted {
        /// Whose it is, and what would run.
        foreign: Foreign,
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
            | Self::AnotherPlan { .. }
            | Self::PlanFile { .. }
            | Self::Secret { .. }
            | Self::Untrusted { .. }
            | Self::AnotherOrder { .. }
            | Self::NoCommand { .. }
            | Self::ArchivedExperiment { .. } => ErrorClass::Usage,
            Self::BlockFailed { .. } | Self::Rehearsal { .. } => ErrorClass::Server,
            Self::StoppedBefore => ErrorClass::Interrupted,
            Self::NotFit { .. }
            | Self::Data { .. }
            | Self::Archive(_)
            | Self::OutOfReach { .. }
            | Self::MachineBusy { .. }
            | Self::MachineLock { .. }
            | Self::Scratch { .. } => ErrorClass::Environment,
        }
    }
}
