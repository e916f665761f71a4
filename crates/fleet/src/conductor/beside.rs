//! Collection of what agents beside a load have left of a run without its conductor: the numbers of
//! observers, and the record of a probe.

use archive::documents;
use async_nats::Client;
use load::StopLevel;
use record::agents::Watched;
use record::load::OfProbe;
use record::missing::Missing;

use super::left::AllLeft;
use super::observers::{machine, observation, tell_of};
use super::office::{Conductor, HOST_BYTES_MAX, Helper, Tell, Told};
use super::parts::{Limit, Place, account};
use crate::error::FleetError;
use crate::wire::{self, Hello, Helpers, LeftSpool, SpoolFile, Start};

/// Spools of a run's helpers, each with the agent that answers for it.
pub(super) struct Beside {
    observers: Vec<(Hello, LeftSpool)>,
    probe: Option<(Hello, LeftSpool, Start)>,
}

impl Beside {
    pub(super) async fn find(client: &Client, left: &AllLeft, run: &str, limit: &Limit<'_>) -> Self {
        let of = |work: String| {
            let spools = left.iter().filter(move |((run, _), _)| *run == work);
            spools.map(|(_, (via, spool, _))| (via.clone(), spool.clone()))
        };
        let mut probe = None;
        for (via, spool) in of(wire::probed(run)) {
            let owner = owner(&via, &spool);
            let file = SpoolFile::Start;
            let place = Place { agent: &via.agent, owner: owner.as_deref(), run: &spool.run, file };
            let start = account(client, place, limit).await.ok();
            let start = start.and_then(|bytes| serde_json::from_slice::<Start>(&bytes).ok());
            if let Some(start) = start.filter(|start| start.run == spool.run && start.agent == spool.owner) {
                probe = Some((via, spool, start));
            }
        }
        Self { observers: of(wire::observed(run)).collect(), probe }
    }

    /// Whether the spools of all helpers are there.
    ///
    /// # Errors
    ///
    /// [`FleetError::Unfit`]: once the run is stored, nothing can be added to it.
    pub(super) fn check(&self, helpers: Helpers) -> Result<(), FleetError> {
        let observers = (helpers.observers as usize).saturating_sub(self.observers.len());
        let observers = (observers > 0).then(|| format!("{observers} of {} observers", helpers.observers));
        let probe = (helpers.probe && self.probe.is_none()).then(|| "the probe".to_owned());
        let missing: Vec<String> = observers.into_iter().chain(probe).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(FleetError::Unfit(format!(
            "no agent that answers has the spool of {}: start an agent on each machine that took part, or give \
             --incomplete to store the run without it",
            missing.join(" and of ")
        )))
    }
}

/// The agent that left the spool, if another one answers for it.
fn owner(via: &Hello, spool: &LeftSpool) -> Option<String> {
    (via.agent != spool.owner).then(|| spool.owner.clone())
}

impl Conductor<'_> {
    /// Hands over what observers have left, and returns what the probe has.
    ///
    /// - `asked`: the helpers that the load had.
    pub(super) async fn collect_left(
        &mut self,
        beside: Beside,
        asked: Helpers,
        measured_from_ns: u64,
        tell: Tell<'_>,
    ) -> Option<OfProbe> {
        for number in beside.observers.len()..asked.observers as usize {
            let (agent, host) = (format!("number {}", number + 1), "an unknown machine".to_owned());
            let seen = Err(Missing::because("no agent that answers has its spool"));
            tell_of(&Watched { agent, host, measured_from_ns, seen }, tell);
        }
        let hosts: Vec<String> = beside.observers.iter().map(|(via, _)| via.host.clone()).collect();
        for (via, spool) in beside.observers {
            let owner = owner(&via, &spool);
            let host = machine(&via.host, &spool.owner, hosts.iter().map(String::as_str));
            let agent = spool.owner.clone();
            let mut helper = Helper { hello: via, run: spool.run, owner, before: None, is_collected: false };
            let limit = Limit::new(self.fleet.stop, StopLevel::Finish);
            let place = helper.place(SpoolFile::Observed);
            let read = observation(&self.client, place, &limit, &host).await;
            helper.is_collected = read.is_ok();
            let seen = match read {
                Ok(_) if !spool.has_end => Err(Missing::because("it ended before its numbers were stored")),
                read => read.flatten(),
            };
            tell_of(&Watched { agent, host, measured_from_ns, seen }, tell);
            self.observers.push(helper);
        }
        let Some((via, spool, start)) = beside.probe else {
            if asked.probe {
                let text = "the numbers of the probe are missing: no agent that answers has its spool";
                tell(&Told::Note(text.to_owned()));
            }
            return None;
        };
        let owner = owner(&via, &spool);
        let mut helper = Helper { hello: via, run: spool.run, owner, before: None, is_collected: false };
        let limit = Limit::new(self.fleet.stop, StopLevel::Finish);
        let bytes = account(&self.client, helper.place(SpoolFile::End), &limit).await;
        let record = match bytes {
            Ok(bytes) if !bytes.is_empty() => self.record(&bytes),
            _ => Err(Missing::because("it sent no final report")),
        };
        helper.is_collected = record.is_ok();
        self.probe = Some(helper);
        let per_s = documents::settings(start.settings).ok()?.pace.per_s()?;
        let host = wire::cut(start.host, HOST_BYTES_MAX);
        Some(OfProbe { agent: start.agent, host, per_s, record: record.map(Box::new) })
    }
}
