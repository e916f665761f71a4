//! The load as a whole: gathers agents, starts them together, watches them, and collects what they kept.

mod collect;
mod gather;
mod play;

use std::time::Duration;

use async_nats::Client;
use load::Stop;
use record::clock::{Clock as _, Monotonic};
use record::load::LoadRecord;
use record::series::HistogramSlice;
use serde::de::DeserializeOwned;

use crate::clock::{self, Offset, PROBES, Trip};
use crate::error::FleetError;
use crate::received::Received;
use crate::wire::{self, Answer, Hello, Order};
use crate::{Meant, Server, merge};

/// Time for an answer to an order.
const ANSWER: Duration = Duration::from_secs(2);

/// A load, and the fleet that is to play it.
#[derive(Debug)]
pub struct Fleet<'a> {
    /// The NATS server.
    pub server: &'a Server,
    /// Number of agents.
    pub agents: u32,
    /// Name of the run.
    pub run: String,
    /// The command line of the load, from the program's name on.
    pub words: Vec<String>,
    /// What it means on this machine.
    pub meant: Meant,
    /// Ends the load early.
    pub stop: &'a Stop,
}

/// What a conductor tells while the load runs.
#[derive(Debug)]
pub enum Told<'a> {
    /// Something about the load, as from one generator.
    Load(&'a load::Event),
    /// A line for people.
    Note(String),
}

type Tell<'a> = &'a mut dyn FnMut(&Told<'_>);

/// What the conductor knows of an agent.
#[derive(Debug)]
struct Member {
    hello: Hello,
    received: Received,
    before: Option<Offset>,
    after: Option<Offset>,
    /// The order to begin, on the agent's clock.
    start_ns: u64,
    is_over: bool,
    lost_ns: Option<u64>,
    /// Why it failed.
    failed: Option<String>,
}

/// A conductor with its connection.
struct Conductor<'a> {
    fleet: &'a Fleet<'a>,
    client: Client,
    members: Vec<Member>,
}

/// Plays the load with a fleet, and returns the record of the whole.
///
/// The distributions of the intervals are only in [`load::Event::IntervalClosed`].
///
/// # Errors
///
/// [`FleetError`] if nothing was measured. An agent that is lost during the load is not an error: the record
/// shows it, and is INVALID.
pub fn conduct(fleet: &Fleet<'_>, tell: &mut dyn FnMut(&Told<'_>)) -> Result<LoadRecord, FleetError> {
    fleet.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| FleetError::Program { program: "the runtime".into(), text: e.to_string() })?;
    runtime.block_on(async {
        let client = fleet.server.connect(wire::CONDUCTOR).await?;
        let mut conductor = Conductor { fleet, client, members: Vec::new() };
        conductor.gather().await?;
        let played = conductor.play(tell).await;
        let whole = match played {
            Ok(measured_from_ns) => {
                conductor.collect(tell).await;
                conductor.merged(measured_from_ns, tell)
            }
            Err(error) => {
                conductor.stop_all().await;
                Err(error)
            }
        };
        conductor.leave(whole.is_ok()).await;
        whole
    })
}

impl Fleet<'_> {
    /// Whether the load suits a fleet of this size.
    ///
    /// # Errors
    ///
    /// [`FleetError::Unfit`].
    pub fn check(&self) -> Result<(), FleetError> {
        if !wire::is_name(&self.run) {
            return Err(FleetError::Unfit(format!("{} is no name of a run", self.run)));
        }
        if self.agents == 0 || self.meant.settings.threads < self.agents {
            return Err(FleetError::Unfit(format!(
                "--fleet {} needs --threads {} or more: the agents share the threads, and each needs one",
                self.agents,
                self.agents.max(1)
            )));
        }
        Ok(())
    }
}

impl Conductor<'_> {
    /// Gives an order to an agent and waits for the answer.
    async fn order(&self, agent: &str, order: &Order) -> Result<Answer, FleetError> {
        self.ask(agent, order).await
    }

    async fn ask<T: DeserializeOwned>(&self, agent: &str, order: &Order) -> Result<T, FleetError> {
        let bytes = self.ask_bytes(agent, order).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.of_agent(agent, format!("an answer that is none: {error}")))
    }

    async fn ask_bytes(&self, agent: &str, order: &Order) -> Result<bytes::Bytes, FleetError> {
        let asked = self.client.request(wire::orders(agent), wire::bytes(order).into());
        match tokio::time::timeout(ANSWER, asked).await {
            Ok(Ok(message)) => Ok(message.payload),
            Ok(Err(error)) => Err(self.of_agent(agent, format!("no answer: {error}"))),
            Err(_) => Err(self.of_agent(agent, format!("no answer within {ANSWER:?}"))),
        }
    }

    fn of_agent(&self, agent: &str, text: String) -> FleetError {
        FleetError::Agent { agent: agent.to_owned(), text }
    }

    /// Gives an order that must be obeyed.
    async fn command(&self, agent: &str, order: &Order) -> Result<(), FleetError> {
        match self.order(agent, order).await? {
            Answer::Done => Ok(()),
            Answer::Refused { why } => Err(self.of_agent(agent, format!("refused: {why}"))),
            Answer::Clock { .. } => Err(self.of_agent(agent, "an answer to another order".to_owned())),
        }
    }

    /// The offset of the agent's clock; `None` if it does not answer.
    async fn offset(&self, agent: &str) -> Option<Offset> {
        let mut trips = Vec::with_capacity(PROBES);
        for _ in 0..PROBES {
            let sent_ns = Monotonic.now_ns();
            let answer = self.order(agent, &Order::Clock).await.ok()?;
            let returned_ns = Monotonic.now_ns();
            if let Answer::Clock { received_ns, sent_ns: answered_ns } = answer {
                trips.push(Trip { sent_ns, received_ns, answered_ns, returned_ns });
            }
        }
        clock::offset(&trips)
    }

    async fn stop_all(&self) {
        for member in &self.members {
            let order = Order::Stop { run: self.fleet.run.clone() };
            let _ = self.order(&member.hello.agent, &order).await;
        }
    }

    /// Lets the agents remove what has arrived whole, and removes the stream.
    ///
    /// - `is_merged`: whether the record of the whole could be made.
    async fn leave(&self, is_merged: bool) {
        for member in self.members.iter().filter(|member| is_merged && member.received.is_complete()) {
            let order = Order::Taken { run: self.fleet.run.clone() };
            let _ = self.order(&member.hello.agent, &order).await;
        }
        let stream = async_nats::jetstream::new(self.client.clone());
        let _ = tokio::time::timeout(ANSWER, stream.delete_stream(wire::stream(&self.fleet.run))).await;
    }

    fn merged(&mut self, measured_from_ns: u64, tell: Tell<'_>) -> Result<LoadRecord, FleetError> {
        let mut closed = |slices: Vec<HistogramSlice>| tell(&Told::Load(&load::Event::IntervalClosed(slices)));
        let parts = self.members.iter().enumerate().map(|(index, member)| merge::Part {
            index: u32::try_from(index).expect("as many as asked for"),
            of: self.fleet.agents,
            agent: member.hello.agent.clone(),
            host: member.hello.host.clone(),
            received: &member.received,
            clock: member.before.zip(member.after).map(|(before, after)| clock::over_a_load(before, after)),
            start_ns: member.start_ns,
            lost_at_s: member.lost_ns.map(|ns| (ns as f64 - measured_from_ns as f64) / 1e9),
            failed: member.failed.clone(),
        });
        let fleet = self.fleet;
        merge::whole(&fleet.meant, parts.collect(), measured_from_ns, fleet.stop.is_requested(), &mut closed)
    }
}
