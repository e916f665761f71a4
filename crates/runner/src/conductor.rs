//! State that the steps of a bake-off share.

use std::collections::BTreeSet;
use std::sync::Arc;

use archive::{Archive, Step};
use load::Stop;
use plan::Plan;
use record::bakeoff::{Levels, Trial};
use record::environment::Environment;

use crate::Event;
use crate::account::Account;
use crate::beside::Beside;
use crate::build::Content;
use crate::error::RunnerError;
use crate::fingerprint::FirstPrograms;
use crate::generator::Generator;
use crate::ledger::{AGAINST_ITSELF, BESIDE_OTHERS, Ledger, Mark, SHORTENED, event, mark};
use crate::machine::Machine;
use crate::secrets::Secrets;
use crate::server_settings::Settings;

/// State that the steps of a bake-off share.
pub(crate) struct Conductor<'a> {
    /// Plan to be executed, with its secrets.
    pub(crate) plan: Plan,
    /// Plan to be stored, without secrets.
    pub(crate) public: Plan,
    pub(crate) secrets: Secrets,
    pub(crate) beside_others: bool,
    /// Fleet of a plan that has one.
    pub(crate) generator: Option<Arc<dyn Generator>>,
    /// Lock that is held until the end; `None` if no trial is left to measure.
    pub(crate) machine: Option<Machine>,
    pub(crate) archive: &'a Archive,
    pub(crate) stop: &'a Stop,
    pub(crate) on_event: &'a mut dyn FnMut(&Event<'_>),
    pub(crate) ledger: Ledger,
    /// Account of server and commands; `None`: that of this process.
    pub(crate) account: Option<Account>,
    pub(crate) beside: Beside,
    pub(crate) environment: Environment,
    /// State of the machine before the first trial, also of one that another process conducted.
    pub(crate) first: Environment,
    /// Programs of the first series of each configuration.
    pub(crate) programs: FirstPrograms,
    /// Contents that are built before the first trial.
    pub(crate) contents: Vec<Content>,
    /// First reading of the server's settings in this series.
    pub(crate) settings_at_first: Option<Settings>,
    /// Notes that the user has, of those that each trial would repeat.
    pub(crate) told: BTreeSet<String>,
}

impl Conductor<'_> {
    /// Fills a found rate into the plans.
    pub(crate) fn learn_rate(&mut self, cell: Levels, per_s: f64) {
        self.plan = self.plan.clone().with_rate(cell.clone(), per_s);
        self.public = self.public.clone().with_rate(cell, per_s);
    }

    /// Opens or closes the instruments, as the plan says for a block. What is closed costs nothing.
    pub(crate) fn observe_block(&mut self, block: u32) {
        let is_watched = self.plan.is_observed(block) && !self.plan.instruments().is_empty();
        if is_watched != self.beside.is_on() {
            self.beside = if is_watched { observers(&self.plan) } else { Beside::new(false) };
        }
    }

    /// Writes a line about a series to disk.
    pub(crate) fn say_of_series(&mut self, series: u32, attempt: u32, step: Step) -> Result<(), RunnerError> {
        let step = match step {
            Step::SeriesFailed { reason } => Step::SeriesFailed { reason: self.secrets.hide(&reason) },
            step => step,
        };
        Ok(self.ledger.journal.append(&event(Some(series), None, attempt, step))?)
    }

    /// Records the end of an attempt at a trial, in the journal first.
    pub(crate) fn end(&mut self, trial: &Trial, end: Step) -> Result<(), RunnerError> {
        let end = match end {
            Step::TrialFailed { reason } => Step::TrialFailed { reason: self.secrets.hide(&reason) },
            Step::TrialInvalid { run, reason } => {
                Step::TrialInvalid { run, reason: self.secrets.hide(&reason) }
            }
            end => end,
        };
        self.ledger.end(trial, end, self.on_event)
    }
}

/// Opens the instruments of a plan; any of them includes the CPUs.
pub(crate) fn observers(plan: &Plan) -> Beside {
    let names = plan.instruments().iter().map(String::as_str);
    let kinds = probes::observe::named(names).expect("the plan was checked");
    Beside::new(!plan.instruments().is_empty()).with_server(&kinds)
}

/// Returns the marks of a bake-off and of its runs.
pub(crate) fn marks(plan: &Plan, beside_others: bool) -> impl Iterator<Item = Mark> {
    let marks = [(SHORTENED, plan.is_shortened()), (BESIDE_OTHERS, beside_others)];
    let repetition = plan.repetition().map(|number| (AGAINST_ITSELF.to_owned(), number.to_string()));
    marks.into_iter().filter(|(_, is)| *is).map(|(name, _)| mark(name)).chain(repetition)
}
