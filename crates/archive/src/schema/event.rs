//! Lines of `events.jsonl`: steps of a bake-off, written before they are taken.

use std::collections::BTreeMap;

use record::run::RunId;
use serde::{Deserialize, Serialize};

/// One line of a bake-off's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEvent {
    /// `CLOCK_REALTIME`, nanoseconds since 1970-01-01 UTC.
    pub at_unix_ns: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub at_monotonic_ns: u64,
    /// Number of the series, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<u32>,
    /// Position of the trial in the drawn order, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<u32>,
    /// Number of the attempt at that trial or series, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Step that begins or ended.
    #[serde(flatten)]
    pub step: Step,
}

/// Step in a line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// A process has taken the bake-off; [`crate::Journal`] writes this itself.
    Opened {
        /// Process id.
        pid: u32,
    },
    /// Resources for processes are about to be created. If this process dies, a later one ends the processes
    /// and removes the resources.
    Workspace {
        /// Scratch folder with a random name.
        folder: String,
        /// Owner of the folder.
        owner: u32,
        /// Control group of the processes; absent if this machine does not allow one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        control_group: Option<String>,
        /// Value of `BAKEOFF_SERIES` in the environment of the processes.
        mark: String,
    },
    /// File of the plan.
    PlanFile {
        /// Path of the file.
        path: String,
    },
    /// A rate was found on the reference configuration, before the first trial.
    RateFound {
        /// Levels of the sub-plot factors that it is for.
        cell: BTreeMap<String, String>,
        /// Events per second, in decimal digits: a step has no floats.
        per_s: String,
    },
    /// The plan's setup commands are about to run.
    SeriesSetup,
    /// The data set is about to be built.
    SeriesPrepare,
    /// The server is about to be started.
    SeriesStart,
    /// The server answers.
    SeriesReady,
    /// A trial is about to begin.
    TrialWarming,
    /// The trial's measured phase begins.
    TrialMeasuring,
    /// The data set and the configuration are about to be checked.
    TrialVerifying,
    /// The trial's cool-down begins; its end is on disk by then.
    TrialCooldown,
    /// The server is about to be stopped.
    SeriesTeardown,
    /// The trial was measured and is valid.
    TrialSealed {
        /// Run of the trial, in the archive by now.
        #[serde(with = "name")]
        run: RunId,
    },
    /// The trial was measured and must not be compared.
    TrialInvalid {
        /// Run of the trial, in the archive by now.
        #[serde(with = "name")]
        run: RunId,
        /// Reason.
        reason: String,
    },
    /// The trial could not be measured.
    TrialFailed {
        /// Reason.
        reason: String,
    },
    /// The attempt has no other end: its process died, or its user stopped it.
    TrialAbandoned {
        /// Reason; absent in old journals if its process died.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The series could not be set up, or its server died.
    SeriesFailed {
        /// Reason.
        reason: String,
    },
    /// A configuration is beaten: this process does not measure its trials in later blocks.
    ConfigurationDropped {
        /// Levels of the configuration.
        arm: BTreeMap<String, String>,
        /// Last block in which it counts.
        after_block: u32,
    },
    /// The journal was damaged, and was rewritten from its readable lines.
    JournalMended {
        /// Damage.
        damage: String,
    },
    /// Every trial has ended.
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
