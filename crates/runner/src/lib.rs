//! Conducts a bake-off: a fresh server for each series, the trials in the order drawn, nothing lost whatever dies.
//!
//! Every step is a line in the journal, on disk before the step is taken. From the journal and the runs alone follows
//! what is left to do, so that [`run`] and [`resume`] are the same loop:
//!
//! - a sealed or invalid trial is done; nothing is measured twice for a better result;
//! - a trial that a dead process left behind stays, as abandoned, and is done again at the end of its block;
//! - a trial that failed is done once more, on a fresh server at the end of its block, and then has failed for good;
//! - a series whose server died gets a fresh server for the trials that it still lacks.

mod account;
mod around;
mod beside;
mod budget;
mod comparable;
mod conduct;
mod control_group;
mod copies;
mod error;
mod fingerprint;
mod ledger;
mod listener;
mod log;
mod machine;
mod options;
mod preflight;
mod process;
mod queue;
mod quotas;
mod random;
mod rounds;
mod scratch;
mod secrets;
mod series;
mod server;
mod server_cpu;
mod spooled;
mod step;
mod strays;
mod sweep;
mod trial;
mod workspace;

use record::bakeoff::{Trial, TrialState};
use record::run::{RunId, RunState};

pub use around::{Around, RecordError, RecordSettings, Recording, record};
pub use beside::Beside;
pub use comparable::{differing, facts_of};
pub use conduct::{resume, run};
pub use error::RunnerError;
pub use options::{Foreign, Options};
pub use preflight::{Finding, Severity, preflight};
pub use rounds::{archived_plan, experiment};
pub use spooled::Spooled;

/// What a bake-off tells while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// It has its name and its place in the archive, or was taken up again.
    Started {
        /// Its name.
        id: RunId,
        /// Trials in all.
        trials: u32,
        /// Of these, done before.
        done: u32,
    },
    /// Something to know: what preflight found, what is recorded as missing, what was left behind.
    Note(&'a str),
    /// A series does its next step: `setup`, `start`, `ready`, `prepare`, `teardown`.
    Series {
        /// The series, from 1.
        series: u32,
        /// Its block, from 1.
        block: u32,
        /// The step.
        step: &'static str,
    },
    /// A trial begins.
    Trial(&'a Trial),
    /// What it is about to do next, or does, in a few words.
    Doing(&'a str),
    /// Its load tells something.
    Load(&'a load::Event),
    /// A trial has ended.
    Ended {
        /// The trial.
        trial: &'a Trial,
        /// How.
        state: TrialState,
        /// Why it is not sealed.
        reason: Option<&'a str>,
        /// Trials done so far, this one included.
        done: u32,
        /// Trials in all.
        trials: u32,
    },
}

/// How a bake-off ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its name.
    pub id: RunId,
    /// [`RunState::Interrupted`]: the user stopped it; it can be resumed. Otherwise every trial has its end, and this
    /// is the state that the archive gives it: [`RunState::Sealed`] if a trial is sealed, else [`RunState::Invalid`]
    /// or [`RunState::Failed`].
    pub state: RunState,
    /// Trials that are sealed.
    pub sealed: u32,
    /// Trials that were measured and are not fit for comparison.
    pub invalid: u32,
    /// Trials that could not be measured.
    pub failed: u32,
    /// Trials that have no end yet.
    pub planned: u32,
}
