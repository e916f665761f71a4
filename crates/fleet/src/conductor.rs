//! The load as a whole: gathers agents, starts them together, watches them, and collects what they kept.

mod beside;
mod collect;
mod gather;
mod left;
mod observers;
pub(crate) mod office;
mod parts;
mod play;
mod probe;
pub(crate) mod recover;

use record::load::LoadRecord;
use record::series::HistogramSlice;

use self::office::{Conductor, Fleet, Spools, Tell, Told};
use crate::error::FleetError;
use crate::merge::part::Part;
use crate::{clock, merge, wire};

/// Plays the load with a fleet, and returns the record of the whole and the spools that the agents keep until
/// it is stored.
///
/// The distributions of the intervals are only in [`load::Event::IntervalClosed`].
///
/// # Errors
///
/// [`FleetError`] if nothing was measured. An agent that is lost during the load is not an error: the record
/// shows it, and is INVALID or degraded.
pub fn conduct(
    fleet: &Fleet<'_>,
    tell: &mut dyn FnMut(&Told<'_>),
) -> Result<(LoadRecord, Spools), FleetError> {
    fleet.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|e| FleetError::Program { program: "the runtime".into(), text: e.to_string() })?;
    let (record, conductor) = runtime.block_on(async {
        let client = fleet.server.connect(wire::CONDUCTOR).await?;
        let (members, observers) = (Vec::new(), Vec::new());
        let mut conductor = Conductor { fleet, client, members, observers, probe: None };
        conductor.gather().await?;
        let played = conductor.play(tell).await;
        let whole = match played {
            Ok(measured_from_ns) => {
                conductor.collect(tell).await;
                conductor.end_helpers(measured_from_ns).await;
                conductor.collect_observers(measured_from_ns, tell).await;
                let probe = conductor.collect_probe(tell).await;
                let record = conductor.merged(measured_from_ns, tell);
                record.map(|record| LoadRecord { probe, ..record })
            }
            Err(error) => {
                conductor.stop_all().await;
                conductor.stop_helpers().await;
                Err(error)
            }
        };
        conductor.remove_stream().await;
        whole.map(|record| (record, conductor))
    })?;
    Ok((record, Spools::new(runtime, conductor)))
}

impl Conductor<'_> {
    fn merged(&mut self, measured_from_ns: u64, tell: Tell<'_>) -> Result<LoadRecord, FleetError> {
        let mut closed =
            |slices: Vec<HistogramSlice>| tell(&Told::Load(&load::Event::IntervalClosed(slices)));
        let parts = self.members.iter().enumerate().map(|(index, member)| Part {
            index: u32::try_from(index).expect("as many as asked for"),
            agent: member.hello.agent.clone(),
            host: member.hello.host.clone(),
            received: &member.received,
            clock: member.before.zip(member.after).map(|(before, after)| clock::over_a_load(before, after)),
            start_ns: member.start_ns,
            lost_at_s: member.lost_ns.map(|ns| (ns as f64 - measured_from_ns as f64) / 1e9),
            failed: member.failed.clone(),
        });
        let (fleet, dealt) = (self.fleet, self.dealt());
        merge::whole(
            (&fleet.meant, &dealt),
            &parts.collect::<Vec<_>>(),
            measured_from_ns,
            fleet.stop.is_requested(),
            &mut closed,
        )
    }
}
