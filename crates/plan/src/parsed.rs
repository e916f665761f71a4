//! A plan as written, each value with its position. A key with an invalid value counts as absent.

use std::time::Duration;

use record::agents::OnLoss;
use record::bakeoff::{Metric, Plot};
use record::gate::{GateRule, OnInconclusive};

use crate::admission::Otherwise;
use crate::error::Located;
use crate::load::LoadKeys;
use crate::matrix::Pattern;
use crate::phases::When;
use crate::places::Places;
use crate::reader::Resolved;
use crate::server::{AddressSpace, Command, HugePages, Ready, Scheduler, StopSignal};
use crate::template::Templated;

#[derive(Debug)]
pub(crate) struct ParsedFactor {
    pub(crate) name: Located<String>,
    pub(crate) values: Vec<Located<String>>,
    pub(crate) reference: Option<Located<String>>,
    pub(crate) level: Option<Located<Plot>>,
    pub(crate) only: Option<Located<Pattern>>,
}

/// Order in time of the series of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One after another.
    Series,
    /// All at once, in turns.
    Slices,
}

impl Mode {
    pub(crate) fn read(word: &str) -> Option<Self> {
        match word {
            "series" => Some(Self::Series),
            "slices" => Some(Self::Slices),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ParsedDesign {
    pub(crate) blocks: Option<Located<u32>>,
    pub(crate) seed: Option<Located<u64>>,
    pub(crate) time_budget: Option<Located<Duration>>,
    pub(crate) sequential: Option<Located<bool>>,
    pub(crate) mode: Option<Located<Mode>>,
    pub(crate) slice: Option<Located<Duration>>,
    pub(crate) exclude: Vec<Located<Pattern>>,
    pub(crate) include: Vec<Located<Pattern>>,
}

/// Command that builds what is compared.
#[derive(Debug)]
pub(crate) struct ParsedBuild {
    pub(crate) run: ParsedRun,
    pub(crate) source: Option<Located<String>>,
    pub(crate) revision: Option<Templated<String>>,
    pub(crate) env: Option<Located<Vec<String>>>,
}

/// Environment variable of the server.
#[derive(Debug)]
pub(crate) struct ParsedVariable {
    /// Value of a factor that it is for; `None`: for every configuration.
    pub(crate) only: Option<Located<String>>,
    pub(crate) name: String,
    pub(crate) value: Templated<String>,
}

/// CPUs of the threads of the load.
#[derive(Debug)]
pub(crate) struct ParsedClient {
    pub(crate) cpus: Located<Vec<u32>>,
    pub(crate) pin: Option<Located<bool>>,
}

#[derive(Debug)]
pub(crate) struct ParsedServer {
    pub(crate) command: Option<Templated<Command>>,
    pub(crate) ready: Option<Templated<Ready>>,
    pub(crate) ready_timeout: Option<Located<Duration>>,
    pub(crate) stop: Option<Located<StopSignal>>,
    pub(crate) stop_timeout: Option<Located<Duration>>,
    pub(crate) instances: Option<Templated<u32>>,
    pub(crate) cpus: Option<Places>,
    pub(crate) mem: Option<Places>,
    pub(crate) scheduler: Option<Templated<Scheduler>>,
    pub(crate) user: Option<Located<String>>,
    pub(crate) inherit_env: Option<Located<bool>>,
    pub(crate) nice: Option<Templated<i32>>,
    pub(crate) address_space: Option<Located<AddressSpace>>,
    pub(crate) huge_pages: Option<Located<HugePages>>,
    pub(crate) cpu_max: Option<Located<f64>>,
    pub(crate) memory_max: Option<Located<u64>>,
    pub(crate) env: Vec<ParsedVariable>,
    pub(crate) files: Vec<ParsedFile>,
}

/// File that is written before the server starts.
#[derive(Debug)]
pub(crate) struct ParsedFile {
    pub(crate) name: Located<String>,
    pub(crate) text: Templated<String>,
}

#[derive(Debug)]
pub(crate) struct ParsedRun {
    pub(crate) run: Option<Templated<String>>,
    pub(crate) timeout: Option<Located<Duration>>,
    pub(crate) retries: Option<Located<u32>>,
}

/// Number of each trial, and the command that prints it.
#[derive(Debug)]
pub(crate) struct ParsedValue {
    pub(crate) name: Located<String>,
    pub(crate) run: ParsedRun,
    pub(crate) when: Option<Located<When>>,
    pub(crate) keep: Option<Located<Vec<String>>>,
}

#[derive(Debug)]
pub(crate) enum ParsedPrepare {
    Builtin,
    Nothing,
    Run(ParsedRun),
}

#[derive(Debug)]
pub(crate) struct ParsedPhases {
    pub(crate) setup: Option<ParsedRun>,
    pub(crate) prepare: Option<ParsedPrepare>,
    pub(crate) warmup_min: Option<Located<Duration>>,
    pub(crate) warmup_max: Option<Located<Duration>>,
    pub(crate) warmup_judge: Option<Located<Vec<String>>>,
    pub(crate) measure: Option<Located<Duration>>,
    pub(crate) interval: Option<Located<Duration>>,
    pub(crate) verify: Option<ParsedRun>,
    pub(crate) cooldown: Option<Located<Duration>>,
}

#[derive(Debug)]
pub(crate) struct ParsedJudge {
    pub(crate) rope: Option<Located<f64>>,
    pub(crate) alpha: Option<Located<f64>>,
    pub(crate) family: Option<Located<String>>,
    pub(crate) metrics: Option<Located<Vec<String>>>,
}

#[derive(Debug)]
pub(crate) struct ParsedGate {
    pub(crate) metric: Option<Located<Metric>>,
    pub(crate) rule: Option<Located<GateRule>>,
    pub(crate) on_inconclusive: Option<Located<OnInconclusive>>,
}

/// The fleet of a plan as written.
#[derive(Debug)]
pub(crate) struct ParsedFleet {
    pub(crate) agents: Located<u32>,
    pub(crate) on_loss: Option<Located<OnLoss>>,
    pub(crate) place: Option<Located<Vec<String>>>,
    pub(crate) observers: Option<Located<u32>>,
    pub(crate) probe: Option<Located<f64>>,
}

/// Conditions under which a trial begins, as written.
#[derive(Debug)]
pub(crate) struct ParsedAdmission {
    pub(crate) busy: Option<Located<f64>>,
    pub(crate) free: Option<Located<u64>>,
    pub(crate) wait: Option<Located<Duration>>,
    pub(crate) otherwise: Option<Located<Otherwise>>,
}

/// A plan as written.
#[derive(Debug)]
pub(crate) struct ParsedPlan {
    pub(crate) title: Option<Located<String>>,
    pub(crate) question: Option<Located<String>>,
    pub(crate) factors: Vec<ParsedFactor>,
    pub(crate) design: ParsedDesign,
    pub(crate) build: Option<ParsedBuild>,
    pub(crate) admission: Option<ParsedAdmission>,
    pub(crate) load: LoadKeys,
    pub(crate) client: Option<ParsedClient>,
    pub(crate) fleet: Option<ParsedFleet>,
    pub(crate) server: Option<ParsedServer>,
    pub(crate) phases: ParsedPhases,
    pub(crate) instruments: Option<Located<Vec<String>>>,
    pub(crate) control_arm: Option<Located<bool>>,
    pub(crate) values: Vec<ParsedValue>,
    pub(crate) judge: ParsedJudge,
    pub(crate) gates: Vec<ParsedGate>,
    pub(crate) sponsor: Option<Located<String>>,
    pub(crate) tuning: Option<Located<String>>,
    pub(crate) notes: Option<Located<String>>,
    /// All keys with their values, written or default.
    pub(crate) resolved: Vec<Resolved>,
}
