//! Collection of what agents beside a load have left of a run without its conductor: the numbers of
//! observers, and the record of a probe.

use archive::documents;
use async_nats::Client;
use record::agents::Watched;
use record::load::OfProbe;
use record::missing::Missing;

use super::left::{AllLeft, read_whole};
use super::observers::{machine, observation, tell_of};
use super::office::{Conductor, Helper, Tell, Told};
use crate::error::FleetError;
use crate::wire::{self, Hello, Helpers, LeftSpool, SpoolFile, Start};

/// Spools of a run's helpers, each with the agent that answers for it.
pub(super) struct Beside {
    observers: Vec<(Hello, LeftSpool)>,
    probe: Option<(Hello, LeftSpool, Start)>,
}

impl Beside {
    pub(super) async fn find(client: &Client, left: &AllLeft, run: &str) -> Self {
        let of = |work: String| {
            let spools = left.iter().filter(move |((run, _), _)| *run == work);
            spools.map(|(_, (via, spool, _))| (via.clone(), spool.clone()))
        };
        let mut probe = None;
        for (via, spool) in of(wire::probed(run)) {
            let owner = owner(&via, &spool);
            let start = read_whole(client, &via.agent, owner.as_deref(), &spool.run, SpoolFile::Start).await;
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
            let file = SpoolFile::Observed;
            let bytes = read_whole(&self.client, &via.agent, owner.as_deref(), &spool.run, file).await;
            let seen = match &bytes {
                None => Err(Missing::because("its numbers cannot be read")),
                Some(_) if !spool.has_end => Err(Missing::because("it ended before its numbers were stored")),
                Some(bytes) => observation(bytes, &host),
            };
            let agent = spool.owner.clone();
            tell_of(&Watched { agent, host, measured_from_ns, seen }, tell);
            let (run, is_collected) = (spool.run, bytes.is_some());
            self.observers.push(Helper { hello: via, run, owner, before: None, is_collected });
        }
        let Some((via, spool, start)) = beside.probe else {
            if asked.probe {
                let text = "the numbers of the probe are missing: no agent that answers has its spool";
                tell(&Told::Note(text.to_owned()));
            }
            return None;
        };
        let owner = owner(&via, &spool);
        let bytes = read_whole(&self.client, &via.agent, owner.as_deref(), &spool.run, SpoolFile::End).await;
        let record = match bytes.filter(|bytes| !bytes.is_empty()) {
            None => Err(Missing::because("it sent no final report")),
            Some(bytes) => self.record(&bytes),
        };
        let (run, is_collected) = (spool.run, record.is_ok());
        self.probe = Some(Helper { hello: via, run, owner, before: None, is_collected });
        let per_s = documents::settings(start.settings).ok()?.pace.per_s()?;
        Some(OfProbe { agent: start.agent, host: start.host, per_s, record: record.map(Box::new) })
    }
}
