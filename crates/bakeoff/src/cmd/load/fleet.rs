//! `bakeoff load --fleet N`: the load of several agents.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::fleet::{self, Dev, Fleet, Helpers, Meant, Server, Told};
use load::Attachments;
use record::agents::{FleetSettings, OnLoss};
use record::load::{LoadRecord, LoadSettings};
use record::run::RunId;

use crate::cmd::agent::{address, agent_label, of_fleet};
use crate::exit::Exit;
use crate::signals;

/// Options of a load that a fleet plays.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetOptions {
    /// Generate the load with N agents of a fleet, which share rate, threads and connections; without a NATS
    /// server, bakeoff starts N agents on this machine for this load
    #[arg(long, value_name = "N", conflicts_with_all = ["search", "log", "control", "scripts"], value_parser = clap::value_parser!(u32).range(1..=1000))]
    fleet: Option<u32>,

    /// With --fleet: if an agent or intervals are lost, the run is INVALID, or it is shown with its losses
    /// and not judged
    #[arg(long, value_name = "WHAT", requires = "fleet", default_value = "invalid", value_parser = ["invalid", "degraded"])]
    on_loss: String,

    /// With --nats: take only agents with this label (`bakeoff agent --label`); repeat for several, all of
    /// which an agent must have
    #[arg(long, value_name = "NAME=VALUE", requires = "fleet", value_parser = agent_label)]
    place: Vec<(String, String)>,

    /// Also N agents that observe their machines during the measured phase (`bakeoff agent --role observe`):
    /// their numbers over time are in the run, with the host's name
    #[arg(long, value_name = "N", requires = "fleet", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    observers: u32,

    /// Also a latency probe of so many events per second, by an agent apart (`bakeoff agent --role probe`):
    /// its events are not in the totals, and its percentiles stand for themselves
    #[arg(long, value_name = "RATE", requires = "fleet", value_parser = probe_rate)]
    probe: Option<f64>,

    /// NATS server of the fleet: `nats://HOST:PORT` on this machine, `tls://HOST:PORT` on another [default:
    /// `$NATS_URL`]
    #[arg(long, value_name = "URL", requires = "fleet")]
    nats: Option<String>,

    /// With --nats: file with the seed of this conductor's nkey
    #[arg(long, value_name = "FILE", requires = "fleet")]
    nkey: Option<PathBuf>,

    /// With --nats: certificates to trust besides the system's (PEM)
    #[arg(long, value_name = "FILE", requires = "fleet")]
    nats_ca: Option<PathBuf>,
}

/// Events per second of a probe.
fn probe_rate(text: &str) -> Result<f64, String> {
    let per_s = text.parse().ok().filter(|per_s| *per_s > 0.0 && *per_s <= 100_000.0);
    per_s.ok_or_else(|| "expected a number of events per second, over 0 and at most 100000".to_owned())
}

/// Lets the agents remove their files, if the run is stored; returns what it could not do.
type Collected = Box<dyn FnOnce(bool) -> Option<String>>;

impl FleetOptions {
    /// The agents that are asked for; `None` without a fleet.
    pub(crate) fn asked(&self) -> Option<FleetSettings> {
        let on_loss = OnLoss::from_word(&self.on_loss).expect("one of its words");
        let place = self.place.iter().cloned().collect();
        let (observers, probe_per_s) = (self.observers, self.probe);
        self.fleet.map(|agents| FleetSettings { agents, on_loss, place, observers, probe_per_s })
    }

    /// Plays the load with the agents that are asked for.
    ///
    /// - `on_told`: receives what the load tells, and lines for people.
    ///
    /// Also yields what lets the agents remove their files, to be called with whether the run is stored.
    pub(super) fn drive(
        &self,
        asked: FleetSettings,
        run: RunId,
        settings: &LoadSettings,
        with: &Attachments,
        on_told: &mut dyn FnMut(&Told<'_>),
    ) -> anyhow::Result<(LoadRecord, Collected)> {
        let url = address(self.nats.as_deref())?;
        let helpers = Helpers::of(&asked);
        let agents = asked.agents;
        if url.is_none() && !asked.place.is_empty() {
            return Err(
                Exit::Usage.with("--place chooses among the agents of a NATS server: give --nats URL")
            );
        }
        let fit = Fleet {
            server: &Server::new("nats://127.0.0.1", None, None).map_err(of_fleet)?,
            asked,
            run: run.to_string(),
            words: crate::cmd::words(),
            meant: Meant {
                settings: settings.clone(),
                recorded: with.recorded.clone().unwrap_or_else(|| Arc::from([])),
            },
            patience: Duration::from_secs(3),
            lead: Duration::from_secs(3),
            stop: &signals::STOP,
        };
        fit.check().map_err(of_fleet)?;
        // A fleet of this load's own ends with it.
        let mut own = match &url {
            Some(_) => None,
            None => Some(Dev::start(&std::env::current_exe()?, agents, helpers).map_err(of_fleet)?),
        };
        // Its agents are on their way.
        let patience = if own.is_some() { Duration::from_secs(30) } else { fit.patience };
        let lead = if own.is_some() { Duration::from_secs(1) } else { fit.lead };
        let url = own.as_ref().map(Dev::url).or(url.as_deref()).unwrap_or_default();
        let server = Server::new(url, self.nkey.as_deref(), self.nats_ca.as_deref()).map_err(of_fleet)?;
        let conducted = fleet::conduct(&Fleet { server: &server, patience, lead, ..fit }, on_told);
        if let (Err(fleet::FleetError::File { .. }), Some(own)) = (&conducted, &mut own) {
            // The agents have what the conductor could not store.
            let folder = own.keep_spools(true);
            on_told(&Told::Note(format!("the agents' measurements are in {}", folder.display())));
        }
        let (record, spools) = conducted.map_err(|error| match error {
            // An agent failed as a load on this machine would have.
            fleet::FleetError::Agent { .. } => Exit::ServerFailed.with(error),
            error => of_fleet(error),
        })?;
        let folder = own.as_mut().map(|own| own.keep_spools(true));
        let release = move |is_stored| {
            if is_stored {
                spools.release();
                own.as_mut().map(|own| own.keep_spools(false));
                return None;
            }
            Some(match folder {
                Some(folder) => format!("the agents' measurements are in {}", folder.display()),
                None => "the agents keep their measurements in their spools".to_owned(),
            })
        };
        Ok((record, Box::new(release)))
    }
}
