//! Conducts a bake-off: a fresh server for each series, the trials in the order drawn, and no lost work if a
//! process dies.
//!
//! Every step is a line in the journal, on disk before the step is taken. The remaining work follows from the
//! journal and the runs alone, so [`run`] and [`resume`] are the same loop:
//!
//! - a sealed or invalid trial is done; no trial is repeated for a better result;
//! - a trial that a dead process left is recorded as abandoned, and repeated at the end of its block;
//! - a trial that failed is repeated once, on a fresh server at the end of its block, and then has failed for
//!   good;
//! - a series that lost its server gets a fresh server for the trials that are left.

mod account;
mod admission;
mod around;
mod begun;
mod beside;
mod budget;
mod build;
mod commands;
mod comparable;
mod conduct;
mod conductor;
mod control_group;
mod copies;
mod doctor;
mod error;
mod fingerprint;
mod generator;
mod ledger;
mod listener;
mod log;
mod machine;
mod memory_nodes;
mod options;
mod pidfd;
mod preflight;
mod process;
mod queue;
mod quotas;
mod random;
mod rates;
mod rounds;
mod scratch;
mod script;
mod secrets;
mod series;
mod server;
mod server_cpu;
mod server_settings;
mod server_use;
mod server_values;
mod slices;
mod spooled;
mod step;
mod strays;
mod surroundings;
mod sweep;
mod thread_places;
mod trial;
mod warm_up;
mod watching;
mod workspace;

use record::agents::Watched;
use record::bakeoff::{Trial, TrialState};
use record::run::{RunId, RunState};

pub use around::{Around, RecordError, RecordSettings, Recording, record};
pub use beside::Beside;
pub use commands::{
    CommandPlan, CommandsEvent, CommandsPlan, Conducted, Early, Failures, Output as CommandOutput,
    PILOT_ROUNDS, commands,
};
pub use comparable::{differing, facts_of};
pub use conduct::{resume, run};
pub use doctor::{Ability, Symptom, examine, mount_tracing};
pub use error::RunnerError;
pub use generator::{Generator, Order, Release};
pub use machine::holder_of_machine;
pub use options::{Foreign, Options};
pub use preflight::{Finding, Severity, preflight};
pub use rounds::{archived_plan, experiment};
pub use spooled::{Spooled, add_watched};
pub use watching::watch;

/// Progress of a bake-off.
#[derive(Debug)]
pub enum Event<'a> {
    /// The bake-off has its name and its place in the archive, or was resumed.
    Started {
        /// Id of the bake-off.
        id: RunId,
        /// Number of all trials.
        trials: u32,
        /// Number of trials that were done before.
        done: u32,
    },
    /// A message for the user: findings of preflight, missing data, remains of a dead process.
    Note(&'a str),
    /// A series begins a step: `setup`, `start`, `ready`, `prepare`, `teardown`.
    Series {
        /// Number of the series, from 1.
        series: u32,
        /// Number of its block, from 1.
        block: u32,
        /// Name of the step.
        step: &'static str,
    },
    /// A trial begins.
    Trial(&'a Trial),
    /// Description of the current activity, in a few words.
    Doing(&'a str),
    /// An event of the load.
    Load(&'a load::Event),
    /// An agent's numbers of its machine, after a load.
    Watched(&'a Watched),
    /// A trial has ended.
    Ended {
        /// The trial.
        trial: &'a Trial,
        /// State of the trial at its end.
        state: TrialState,
        /// Reason that it is not sealed.
        reason: Option<&'a str>,
        /// Number of trials done so far, including this one.
        done: u32,
        /// Number of all trials.
        trials: u32,
    },
}

/// Result of a bake-off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Id of the bake-off.
    pub id: RunId,
    /// [`RunState::Interrupted`] if the user stopped it; it can be resumed. Otherwise every trial has its
    /// end: [`RunState::Sealed`] if a trial is sealed, else [`RunState::Invalid`] or [`RunState::Failed`], as
    /// in the archive.
    pub state: RunState,
    /// Number of sealed trials.
    pub sealed: u32,
    /// Number of trials that were measured but are unfit for comparison.
    pub invalid: u32,
    /// Number of trials that could not be measured.
    pub failed: u32,
    /// Number of trials without an end.
    pub planned: u32,
}
