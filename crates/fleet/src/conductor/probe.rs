//! A latency probe beside the load: an agent without a share plays few events of the same kind. They are in
//! no number of the load.

use std::sync::Arc;
use std::time::Duration;

use archive::documents;
use futures_util::StreamExt as _;
use record::clock::{Clock as _, Monotonic};
use record::load::{LoadRecord, LoadSettings, Loop, OfProbe, OpenLoop, PreparePolicy};
use record::missing::{Maybe, Missing};

use super::office::{self, Conductor, Helper, Tell, Told};
use crate::error::FleetError;
use crate::meant::{Meant, Sent};
use crate::received::{self, Received};
use crate::wire::{self, Beat, Dealt, Hello, Helpers, Order, Plan, Seal, WHY_BYTES_MAX};

/// Time in which a probe has to connect.
const READY_NS: u64 = 20_000_000_000;
/// Attempts to find the end of its load.
const END_TRIES: u32 = 40;
/// Separates the random rows of a probe from those of the load.
const SEED: u64 = 0x5eed_0f70_be00_0000;

/// Whether an agent can be a probe now.
pub(super) fn probes(hello: &Hello) -> bool {
    hello.probes && hello.version == wire::VERSION && hello.busy.is_none()
}

impl Conductor<'_> {
    /// Chooses the agent for the probe, if one is asked for.
    pub(super) fn chosen_probe(&self, hellos: &[Hello]) -> Result<Option<Helper>, FleetError> {
        if self.fleet.asked.probe_per_s.is_none() || self.fleet.stop.is_requested() {
            return Ok(None);
        }
        let hello = hellos.iter().find(|hello| probes(hello)).cloned().ok_or_else(|| {
            let text = "no agent for the probe is ready: start one with `bakeoff agent --role probe`";
            FleetError::Unfit(text.to_owned())
        })?;
        let run = wire::probed(&self.fleet.run);
        Ok(Some(Helper { hello, run, owner: None, before: None, is_collected: false }))
    }

    /// Brings the probe to the line, and reads its clock.
    pub(super) async fn prepare_probe(&mut self) -> Result<(), FleetError> {
        let (Some(probe), Some(per_s)) = (&self.probe, self.fleet.asked.probe_per_s) else { return Ok(()) };
        let (hello, run) = (probe.hello.clone(), probe.run.clone());
        let settings = settings(&self.fleet.meant.settings, per_s);
        if let Some(violation) = settings.violation() {
            let setting = violation.setting;
            return Err(FleetError::Unfit(format!(
                "a probe has one connection, which does not go with {setting}"
            )));
        }
        let sent = Sent::of(&settings).map_err(FleetError::Unfit)?;
        let meant = Meant { settings, recorded: Arc::from([]) };
        let helpers = Helpers::default();
        let dealt = Dealt { of: 1, weights: Vec::new(), accepts_loss: false, helpers };
        let seal = Seal::new(&run, &[], &dealt, &meant).map_err(FleetError::Unfit)?;
        let plan = Plan {
            run: run.clone(),
            words: Vec::new(),
            settings: Some(sent),
            index: 0,
            of: 1,
            weights: Vec::new(),
            accepts_loss: false,
            helpers,
            sha256: seal.of(0),
        };
        let refused = |text: String| FleetError::Server { url: self.fleet.server.shown(), text };
        let beats = self.client.subscribe(wire::beat(&run, &hello.agent)).await;
        let mut beats = beats.map_err(|error| refused(error.to_string()))?;
        self.command(&hello, Order::Prepare(plan)).await?;
        let deadline_ns = Monotonic.now_ns() + READY_NS;
        loop {
            let beat = tokio::time::timeout(Duration::from_millis(500), beats.next()).await;
            let beat = beat.ok().flatten().and_then(|message| serde_json::from_slice(&message.payload).ok());
            match beat {
                Some(Beat::Ready) => break,
                Some(Beat::Failed { why }) => {
                    let text = wire::cut(why, WHY_BYTES_MAX);
                    return Err(FleetError::Agent { agent: hello.agent, text });
                }
                Some(Beat::Refused { why }) => {
                    return Err(Self::absent(&hello.agent, format!("refused: {why}")));
                }
                _ if self.fleet.stop.is_requested() => return Err(FleetError::Interrupted),
                _ if Monotonic.now_ns() > deadline_ns => {
                    return Err(Self::absent(&hello.agent, "the probe is not ready".to_owned()));
                }
                // The agents of the load wait.
                _ => self.call(&Order::Clock).await,
            }
        }
        let offset = office::offset(&self.client, &hello).await;
        let absent = || Self::absent(&hello.agent, "it does not report its clock".to_owned());
        let offset = offset.ok_or_else(absent)?;
        if let Some(probe) = &mut self.probe {
            probe.before = Some(offset);
        }
        Ok(())
    }

    /// The results of the probe; `None` if none was asked for.
    pub(super) async fn collect_probe(&mut self, tell: Tell<'_>) -> Option<OfProbe> {
        let per_s = self.fleet.asked.probe_per_s?;
        let probe = self.probe.as_ref()?;
        let end = self.end_of(probe, END_TRIES, &self.limit()).await;
        let record = end.and_then(|bytes| self.record(&bytes));
        let Hello { agent, host, .. } = probe.hello.clone();
        if let Err(missing) = &record {
            let reason = &missing.reason;
            tell(&Told::Note(format!("the numbers of probe {agent} on {host} are missing: {reason}")));
        }
        if let Some(probe) = &mut self.probe {
            probe.is_collected = record.is_ok();
        }
        Some(OfProbe { agent, host, per_s, record: record.map(Box::new) })
    }

    /// The record in an account of an end.
    pub(super) fn record(&self, bytes: &[u8]) -> Maybe<LoadRecord> {
        let unreadable = || Missing::because("its account cannot be read");
        let slices_max = received::slices_max(&self.fleet.meant.settings);
        let mut received = Received::new(slices_max).map_err(|_| unreadable())?;
        received.take_end(bytes);
        let end = received.end.take().ok_or_else(unreadable)?;
        documents::load(end.load).map_err(|_| unreadable())
    }
}

/// The settings of a probe beside a load.
fn settings(whole: &LoadSettings, per_s: f64) -> LoadSettings {
    LoadSettings {
        threads: 1,
        connections: None,
        pace: Loop::Open(OpenLoop::plain(per_s)),
        // The first agent has built the data set.
        prepare: PreparePolicy::Never,
        ramp_up: Duration::ZERO,
        warmup: whole.ramp_up + whole.warmup,
        ramp_down: Duration::ZERO,
        events_max: None,
        seed: (whole.seed ^ SEED) & i64::MAX.cast_unsigned(),
        ..whole.clone()
    }
}
