//! The lines of `events.jsonl`: what a bake-off was about to do, written before it did it.

use record::run::RunId;
use serde::{Deserialize, Serialize};

/// One line of a bake-off's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEvent {
    /// `CLOCK_REALTIME`, nanoseconds since 1970-01-01 UTC.
    pub at_unix_ns: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub at_monotonic_ns: u64,
    /// The series it is about, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<u32>,
    /// The trial it is about: its place in the order drawn, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<u32>,
    /// Which try at that trial or series it is, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What begins, or how something ended.
    #[serde(flatten)]
    pub step: Step,
}

/// What a line of the journal says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// A process has taken the bake-off; [`crate::Journal`] writes this itself.
    Opened {
        /// Its process id.
        pid: u32,
    },
    /// A place for processes is about to be made: what a later process ends and removes if this one dies.
    Workspace {
        /// The scratch folder, whose name is random.
        folder: String,
        /// The user that the folder belongs to.
        owner: u32,
        /// The control group of the processes; absent where this machine lets us make none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        control_group: Option<String>,
        /// The value of `BAKEOFF_SERIES` in the environment of the processes.
        mark: String,
    },
    /// The file that the plan was read from.
    PlanFile {
        /// Its path.
        path: String,
    },
    /// The plan's setup commands are about to run.
    SeriesSetup,
    /// The data set is about to be built.
    SeriesPrepare,
    /// The server is about to be started.
    SeriesStart,
    /// The server answers.
    SeriesReady,
    /// A trial is about to be begun.
    TrialWarming,
    /// Its measured phase begins.
    TrialMeasuring,
    /// Its cool-down begins; its end is on disk by then.
    TrialCooldown,
    /// The server is about to be stopped.
    SeriesTeardown,
    /// The trial was measured and is valid.
    TrialSealed {
        /// Its run, in the archive by now.
        #[serde(with = "name")]
        run: RunId,
    },
    /// The trial was measured and must not be compared.
    TrialInvalid {
        /// Its run, in the archive by now.
        #[serde(with = "name")]
        run: RunId,
        /// Why.
        reason: String,
    },
    /// The trial could not be measured.
    TrialFailed {
        /// Why.
        reason: String,
    },
    /// The attempt has no other end: its process died, or its user stopped it.
    TrialAbandoned {
        /// Why; in journals of old, that its process died.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The series could not be set up, or its server died.
    SeriesFailed {
        /// Why.
        reason: String,
    },
    /// The journal was damaged, and was written anew of the lines that read.
    JournalMended {
        /// What was wrong with it.
        damage: String,
    },
    /// Every trial has its end.
    BakeoffDone,
    /// The user stopped it; it can be resumed.
    Interrupted,
}

/// A run's name as text.
mod name {
    use record::run::RunId;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &RunId, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<RunId, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}
