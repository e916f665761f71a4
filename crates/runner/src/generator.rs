//! Generation of a trial's load: here, or by a fleet, which the caller brings along.

use load::{Attachments, LoadError, Stop, ThreadCpus};
use plan::Plan;
use record::agents::FleetSettings;
use record::load::{LoadRecord, LoadSettings};
use record::run::RunId;

use crate::Event;

/// To be called once the record of a load is stored, or is not wanted: only then may agents remove what they
/// keep.
pub type Release = Box<dyn FnOnce()>;

/// The load of one trial.
#[derive(Debug)]
pub struct Order<'a> {
    /// Id of the trial's run.
    pub run: RunId,
    /// The agents.
    pub fleet: &'a FleetSettings,
    /// Settings of the whole load.
    pub settings: &'a LoadSettings,
    /// Ends the load early.
    pub stop: &'a Stop,
}

/// A fleet that generates the load of trials.
pub trait Generator: std::fmt::Debug + Send + Sync {
    /// Generates the load of a trial, and tells of it by [`Event::Load`], [`Event::Note`] and
    /// [`Event::Watched`].
    ///
    /// # Errors
    ///
    /// [`LoadError`] if nothing was measured. A lost agent is not an error: the record is INVALID or
    /// degraded.
    fn generate(
        &self,
        order: &Order<'_>,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(LoadRecord, Release), LoadError>;
}

/// Generates the load of a trial.
///
/// - `fleet`: the agents; `None` if this process generates the load.
/// - `client`: CPUs of the threads of this process.
pub(crate) fn generate(
    generator: Option<&dyn Generator>,
    (fleet, client): (Option<&FleetSettings>, &Attachments),
    (run, settings, stop): (RunId, &LoadSettings, &Stop),
    on_event: &mut dyn FnMut(&Event<'_>),
) -> (Result<LoadRecord, LoadError>, Option<Release>) {
    let Some(fleet) = fleet else {
        let record = load::run_with(settings, client, stop, &mut |told| on_event(&Event::Load(told)));
        return (record, None);
    };
    let generator = generator.expect("a plan with a fleet was refused without one");
    match generator.generate(&Order { run, fleet, settings, stop }, on_event) {
        Ok((record, release)) => (Ok(record), Some(release)),
        Err(error) => (Err(error), None),
    }
}

/// CPUs of the threads of the plan's loads, as a load takes them.
pub(crate) fn client_of(plan: &Plan) -> Attachments {
    let cpus = plan.client().map(|client| ThreadCpus { cpus: client.cpus.clone(), pinned: client.pinned });
    Attachments { cpus, ..Attachments::default() }
}
