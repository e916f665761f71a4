//! A fleet that generates the load of a bake-off's trials.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fleet::{Dev, Fleet, FleetError, Helpers, Meant, Server, Told};
use load::LoadError;
use record::agents::FleetSettings;
use record::load::LoadRecord;
use runner::{Event, Generator, Order, Release};

use crate::cmd::agent::{address, of_fleet};
use crate::exit::Exit;

/// Time in which the agents of a NATS server answer, and least time before a start.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same of agents that this process starts.
const OWN_PATIENCE: Duration = Duration::from_secs(30);
const OWN_LEAD: Duration = Duration::from_secs(1);

/// Options of a bake-off with `[fleet]` in its plan.
#[derive(Debug, clap::Args)]
pub(crate) struct NatsOptions {
    /// NATS server of the plan's fleet: `nats://HOST:PORT` on this machine, `tls://HOST:PORT` on another
    /// [default: `$NATS_URL`]
    #[arg(long, value_name = "URL")]
    nats: Option<String>,

    /// With --nats: file with the seed of this conductor's nkey
    #[arg(long, value_name = "FILE")]
    nkey: Option<PathBuf>,

    /// With --nats: certificates to trust besides the system's (PEM)
    #[arg(long, value_name = "FILE")]
    nats_ca: Option<PathBuf>,
}

impl NatsOptions {
    /// Checks the address of the server.
    ///
    /// - `fleet`: the agents that the plan asks for.
    pub(super) fn check(&self, fleet: &FleetSettings) -> anyhow::Result<()> {
        if self.server()?.is_none() && !fleet.place.is_empty() {
            let text = "`place` in `[fleet]` chooses among the agents of a NATS server: give --nats URL";
            return Err(Exit::Usage.with(text));
        }
        Ok(())
    }

    /// The fleet. Only a plan that has one meets an error of the address, which may be the environment's.
    pub(super) fn fleet(&self) -> Arc<dyn Generator> {
        Arc::new(OfTrials { server: self.server().map_err(|error| format!("{error:#}")) })
    }

    fn server(&self) -> anyhow::Result<Option<Server>> {
        let server = |url: String| Server::new(&url, self.nkey.as_deref(), self.nats_ca.as_deref());
        address(self.nats.as_deref())?.map(server).transpose().map_err(of_fleet)
    }
}

/// The fleet of a bake-off.
#[derive(Debug)]
struct OfTrials {
    /// `None`: each trial has agents on this machine, which end with it.
    server: Result<Option<Server>, String>,
}

impl Generator for OfTrials {
    fn generate(
        &self,
        order: &Order<'_>,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(LoadRecord, Release), LoadError> {
        let server = self.server.as_ref().map_err(|text| LoadError::Fleet { text: text.clone() })?;
        if let Some(server) = server {
            return conduct(server, order, (PATIENCE, PATIENCE), on_event);
        }
        let program =
            std::env::current_exe().map_err(|error| LoadError::Fleet { text: error.to_string() })?;
        let own = Dev::start(&program, order.fleet.agents, Helpers::of(order.fleet)).map_err(of_trial)?;
        let server = Server::new(own.url(), None, None).map_err(of_trial)?;
        let (record, release) = conduct(&server, order, (OWN_PATIENCE, OWN_LEAD), on_event)?;
        let release = move || {
            release();
            drop(own);
        };
        Ok((record, Box::new(release)))
    }
}

fn conduct(
    server: &Server,
    order: &Order<'_>,
    (patience, lead): (Duration, Duration),
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<(LoadRecord, Release), LoadError> {
    let Order { run, fleet, settings, stop } = *order;
    let fleet = Fleet {
        server,
        asked: fleet.clone(),
        run: run.to_string(),
        // A trial has no command line.
        words: Vec::new(),
        meant: Meant { settings: settings.clone(), recorded: Arc::from([]) },
        patience,
        lead,
        stop,
    };
    let (record, spools) = fleet::conduct(&fleet, &mut |told| match told {
        Told::Load(event) => on_event(&Event::Load(event)),
        Told::Note(text) => on_event(&Event::Note(text)),
        Told::Watched(watched) => on_event(&Event::Watched(watched)),
    })
    .map_err(of_trial)?;
    Ok((record, Box::new(move || spools.release())))
}

/// The error of a trial.
fn of_trial(error: FleetError) -> LoadError {
    match error {
        FleetError::Interrupted => LoadError::Interrupted,
        other => LoadError::Fleet { text: other.to_string() },
    }
}
