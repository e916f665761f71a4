//! What a plan says, each value with its place. A key that was wrong is as absent.

use std::time::Duration;

use record::bakeoff::{Metric, Plot};

use crate::error::Place;
use crate::load::LoadKeys;
use crate::meant::{Command, GateRule, OnInconclusive, Ready, Resolved, Scheduler, StopSignal};
use crate::template::Templated;

/// A value and where it stands; where it is a default, the place of its table.
#[derive(Debug, Clone)]
pub(crate) struct Written<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

#[derive(Debug)]
pub(crate) struct FactorWritten {
    pub(crate) name: Written<String>,
    pub(crate) values: Vec<Written<String>>,
    pub(crate) reference: Option<Written<String>>,
    pub(crate) level: Option<Written<Plot>>,
}

#[derive(Debug)]
pub(crate) struct DesignWritten {
    pub(crate) blocks: Option<Written<u32>>,
    pub(crate) seed: Option<Written<u64>>,
    pub(crate) time_budget: Option<Written<Duration>>,
}

/// One variable of the server's environment.
#[derive(Debug)]
pub(crate) struct EnvWritten {
    /// The value of a factor that it is for; `None`: for every configuration.
    pub(crate) only: Option<Written<String>>,
    pub(crate) name: String,
    pub(crate) value: Templated<String>,
}

#[derive(Debug)]
pub(crate) struct ServerWritten {
    pub(crate) command: Option<Templated<Command>>,
    pub(crate) ready: Option<Templated<Ready>>,
    pub(crate) ready_timeout: Option<Written<Duration>>,
    pub(crate) stop: Option<Written<StopSignal>>,
    pub(crate) stop_timeout: Option<Written<Duration>>,
    pub(crate) instances: Option<Written<u32>>,
    pub(crate) cpus: Option<Written<Vec<String>>>,
    pub(crate) scheduler: Option<Written<Scheduler>>,
    pub(crate) user: Option<Written<String>>,
    pub(crate) inherit_env: Option<Written<bool>>,
    pub(crate) env: Vec<EnvWritten>,
}

#[derive(Debug)]
pub(crate) struct RunWritten {
    pub(crate) run: Option<Templated<String>>,
    pub(crate) timeout: Option<Written<Duration>>,
    pub(crate) retries: Option<Written<u32>>,
}

/// A number of each trial, and the command that tells it.
#[derive(Debug)]
pub(crate) struct ValueWritten {
    pub(crate) name: Written<String>,
    pub(crate) run: RunWritten,
}

#[derive(Debug)]
pub(crate) enum PrepareWritten {
    Builtin,
    Nothing,
    Run(RunWritten),
}

#[derive(Debug)]
pub(crate) struct PhasesWritten {
    pub(crate) setup: Option<RunWritten>,
    pub(crate) prepare: Option<PrepareWritten>,
    pub(crate) warmup_min: Option<Written<Duration>>,
    pub(crate) warmup_max: Option<Written<Duration>>,
    pub(crate) warmup_judge: Option<Written<Vec<String>>>,
    pub(crate) measure: Option<Written<Duration>>,
    pub(crate) interval: Option<Written<Duration>>,
    pub(crate) cooldown: Option<Written<Duration>>,
}

#[derive(Debug)]
pub(crate) struct JudgeWritten {
    pub(crate) rope: Option<Written<f64>>,
    pub(crate) alpha: Option<Written<f64>>,
    pub(crate) family: Option<Written<String>>,
    pub(crate) metrics: Option<Written<Vec<String>>>,
}

#[derive(Debug)]
pub(crate) struct GateWritten {
    pub(crate) place: Place,
    pub(crate) metric: Option<Written<Metric>>,
    pub(crate) rule: Option<Written<GateRule>>,
    pub(crate) on_inconclusive: Option<Written<OnInconclusive>>,
}

/// A plan as written.
#[derive(Debug)]
pub(crate) struct PlanWritten {
    pub(crate) title: Option<Written<String>>,
    pub(crate) question: Option<Written<String>>,
    pub(crate) factors: Vec<FactorWritten>,
    pub(crate) design: DesignWritten,
    pub(crate) load: LoadKeys,
    pub(crate) server: Option<ServerWritten>,
    pub(crate) phases: PhasesWritten,
    pub(crate) instruments: Option<Written<Vec<String>>>,
    pub(crate) control_arm: Option<Written<bool>>,
    pub(crate) values: Vec<ValueWritten>,
    pub(crate) judge: JudgeWritten,
    pub(crate) gates: Vec<GateWritten>,
    pub(crate) sponsor: Option<Written<String>>,
    pub(crate) tuning: Option<Written<String>>,
    pub(crate) notes: Option<Written<String>>,
    /// Every key with the value it has, as written or by default.
    pub(crate) resolved: Vec<Resolved>,
}
