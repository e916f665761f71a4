//! Errors of a bake-off.

use std::io;
use std::path::PathBuf;

use archive::ArchiveError;
use load::{ErrorClass, LoadError};
use plan::{NotAnExperiment, PlanErrors};
use record::run::RunId;

use crate::options::Foreign;

/// Reason that a bake-off could not be conducted, or had to be interrupted.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The plan needs a feature that this version lacks.
    #[error("{}", .what.join("\n"))]
    NotBuilt {
        /// Missing features, each with its place.
        what: Vec<String>,
    },
    /// The machine is unfit for the plan.
    #[error("{}", .problems.join("\n"))]
    NotFit {
        /// Problems of the machine.
        problems: Vec<String>,
    },
    /// The target is accepted by no driver.
    #[error("{plan}: invalid target of the load")]
    Target {
        /// Name of the plan.
        plan: String,
        /// Error of the driver.
        source: LoadError,
    },
    /// The unit of work of a scale run does not start.
    #[error("cannot start {command}: is it installed, and spelled as in a shell?")]
    NoCommand {
        /// Command line.
        command: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The shell that compared commands run in does not start.
    #[error(
        "cannot start the shell `{shell}`, which runs the commands: is it installed? --shell names another"
    )]
    NoShell {
        /// Program and its options.
        shell: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The unit of work of a scale run fails when it runs alone, so many copies would fail too.
    #[error("the command failed in its first run, before the measurement: {what}")]
    Rehearsal {
        /// Description of the failure.
        what: String,
    },
    /// A compared command, or a command around it, failed before the first measured round.
    #[error("{what}")]
    Command {
        /// Description of the failure.
        what: String,
    },
    /// The user stopped it before the first step.
    #[error("stopped before anything was measured")]
    StoppedBefore,
    /// An input file cannot be created or read.
    #[error("{what}")]
    Data {
        /// Failed operation and its file.
        what: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The archived plan of an experiment is not valid for this version.
    #[error("the archived plan of {id} is invalid")]
    ArchivedExperiment {
        /// Id of the run.
        id: RunId,
        /// Fault of the plan.
        source: NotAnExperiment,
    },
    /// The file with the author's key points cannot be read.
    #[error("cannot read the file {}, which the plan names as its notes", path.display())]
    Notes {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The script in Lua that the plan names cannot be used.
    #[error("the plan's script: {source}")]
    Script {
        /// The script's error.
        source: LoadError,
    },
    /// The script in Lua, or a module of it, cannot be read.
    #[error("cannot read the plan's script {}: pass the plan beside it with --plan FILE", path.display())]
    ScriptFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The script in Lua, or a module of it, has changed.
    #[error(
        "{id} cannot be resumed: {name}, or a module that it loads, has changed since the bake-off began"
    )]
    AnotherScript {
        /// Id of the bake-off.
        id: RunId,
        /// Path of the script.
        name: String,
    },
    /// The archive fails.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The scratch folder fails.
    #[error("cannot use the scratch folder {}; set $TMPDIR to use another", path.display())]
    Scratch {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The server's user may not enter a folder above the scratch folder.
    #[error(
        "the server's user, {uid}, may not enter {}: set TMPDIR to a folder that all users may enter, or \
         set another `server.user`",
        path.display()
    )]
    OutOfReach {
        /// Path of the folder.
        path: PathBuf,
        /// User id of the server.
        uid: u32,
    },
    /// The rate that the plan is relative to was not found.
    #[error("cannot find the plan's rate on the reference configuration: {reason}")]
    NoRate {
        /// Reason.
        reason: String,
    },
    /// The source of a build is not there.
    #[error("cannot build {what}: {reason}")]
    Revision {
        /// Configuration.
        what: String,
        /// Reason.
        reason: String,
    },
    /// A bake-off that is resumed would build something else than it began with.
    #[error(
        "the bake-off cannot be resumed: the build of {what} would be another one: {differs} has changed"
    )]
    AnotherBuild {
        /// Configuration.
        what: String,
        /// The difference.
        differs: String,
    },
    /// A command of `[build]` failed.
    #[error("cannot build {what}: {reason}")]
    Build {
        /// Configuration.
        what: String,
        /// Reason.
        reason: String,
    },
    /// All trials of a block failed. The bake-off stops, since later blocks would fail too.
    #[error("all trials of block {block} failed; first reason: {reason}; `bakeoff resume {id}` continues")]
    BlockFailed {
        /// Id of the bake-off.
        id: RunId,
        /// Number of the block.
        block: u32,
        /// Reason of the first failure.
        reason: String,
    },
    /// The archived plan is not valid for this version.
    #[error("the archived plan of {id} is invalid")]
    ArchivedPlan {
        /// Id of the bake-off.
        id: RunId,
        /// Faults of the plan.
        source: PlanErrors,
    },
    /// The plan contains a secret in plain text, which the archive masked.
    #[error(
        "{id} cannot be resumed from the archive: its plan contains a secret in plain text, which the \
         archive masks{}; pass the original plan with --plan FILE, and use `{{env:NAME}}` or \
         `{{file:PATH}}` in the next plan",
        tried.as_deref().map(|file| format!(", and {file} is not that plan (sha256 {sha256})")).unwrap_or_default()
    )]
    PlanMasked {
        /// Id of the bake-off.
        id: RunId,
        /// File that was tried.
        tried: Option<String>,
        /// Checksum of the plan.
        sha256: String,
    },
    /// The file that the user named contains another plan.
    #[error("{file} is not the plan of {id}: its sha256 is {found}, expected {sha256}")]
    AnotherPlan {
        /// Id of the bake-off.
        id: RunId,
        /// Name of the file.
        file: String,
        /// Checksum of the file.
        found: String,
        /// Checksum of the plan.
        sha256: String,
    },
    /// The plan file that the user named cannot be read.
    #[error("cannot read the plan {}", path.display())]
    PlanFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A secret that the plan refers to is missing.
    #[error("cannot read `{reference}`, which the plan refers to: {why}")]
    Secret {
        /// Reference to the secret.
        reference: String,
        /// Reason that it cannot be read.
        why: String,
    },
    /// Another measurement runs on this machine.
    #[error(
        "another measurement runs on this machine: {holder} holds {}; wait for it, or measure at the same \
         time with --beside-others, which marks every trial; if it is not a measurement, set \
         BAKEOFF_MACHINE_LOCK to another file",
        path.display()
    )]
    MachineBusy {
        /// Process that holds the lock, as the kernel reports it.
        holder: String,
        /// Path of the lock file.
        path: PathBuf,
    },
    /// The lock that keeps bake-offs apart cannot be used.
    #[error("cannot use {}, the lock that allows one measurement at a time; set BAKEOFF_MACHINE_LOCK to use \
         another", path.display())]
    MachineLock {
        /// Path of the lock file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another user could have written commands that would run.
    #[error(
        "another user can change {} ({}), and its commands would run as you:\n  {}\ncheck them, then use \
         --trust",
        foreign.id, foreign.owner, foreign.commands.join("\n  ")
    )]
    Untrusted {
        /// Owner and commands.
        foreign: Foreign,
    },
    /// The files of a bake-off changed after they were read.
    #[error(
        "{id} cannot be resumed: its plan, its order or its machine changed while `resume` read it; another user \
         may have changed the files: check them"
    )]
    Swapped {
        /// Id of the bake-off.
        id: RunId,
    },
    /// The order that this version draws from the plan is not that of the bake-off.
    #[error(
        "{id} cannot be resumed: this version derives a different order from its plan; finish it with \
         version {version}"
    )]
    AnotherOrder {
        /// Id of the bake-off.
        id: RunId,
        /// Version that began it.
        version: String,
    },
}

impl RunnerError {
    /// Returns the class of the error.
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
            | Self::Revision { .. }
            | Self::Untrusted { .. }
            | Self::Swapped { .. }
            | Self::AnotherOrder { .. }
            | Self::AnotherScript { .. }
            | Self::AnotherBuild { .. }
            | Self::ScriptFile { .. }
            | Self::NoCommand { .. }
            | Self::NoShell { .. }
            | Self::ArchivedExperiment { .. } => ErrorClass::Usage,
            Self::BlockFailed { .. }
            | Self::NoRate { .. }
            | Self::Build { .. }
            | Self::Rehearsal { .. }
            | Self::Command { .. } => ErrorClass::Server,
            Self::StoppedBefore => ErrorClass::Interrupted,
            Self::Script { source } => source.class(),
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
