//! What a conductor knows and can ask: its fleet, its connection, and the orders to agents.

use std::time::Duration;

use async_nats::Client;
use load::Stop;
use record::clock::{Clock as _, Monotonic};
use serde::de::DeserializeOwned;

use crate::clock::{self, Offset, PROBES, Trip};
use crate::error::FleetError;
use crate::meant::Meant;
use crate::received::Received;
use crate::server::Server;
use crate::wire::{self, Answer, Hello, Order};

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
    /// Meaning of the command line on this machine.
    pub meant: Meant,
    /// Time for enough agents to be found.
    pub patience: Duration,
    /// Ends the load early.
    pub stop: &'a Stop,
}

/// Report of a conductor while the load runs.
#[derive(Debug)]
pub enum Told<'a> {
    /// Something about the load, as from one generator.
    Load(&'a load::Event),
    /// A line for people.
    Note(String),
}

pub(super) type Tell<'a> = &'a mut dyn FnMut(&Told<'_>);

/// An agent, as the conductor knows it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) hello: Hello,
    pub(super) received: Received,
    pub(super) before: Option<Offset>,
    pub(super) after: Option<Offset>,
    /// The order to begin, on the agent's clock.
    pub(super) start_ns: u64,
    pub(super) is_over: bool,
    pub(super) lost_ns: Option<u64>,
    /// Reason of its failure.
    pub(super) failed: Option<String>,
}

/// A conductor with its connection.
pub(super) struct Conductor<'a> {
    pub(super) fleet: &'a Fleet<'a>,
    pub(super) client: Client,
    pub(super) members: Vec<Member>,
}

impl Fleet<'_> {
    /// Whether the load suits a fleet of this size.
    ///
    /// # Errors
    ///
    /// [`FleetError::Unfit`].
    pub fn check(&self) -> Result<(), FleetError> {
        if !wire::is_name(&self.run) {
            return Err(FleetError::Unfit(format!("invalid run name {}", self.run)));
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
    pub(super) async fn order(&self, agent: &str, order: &Order) -> Result<Answer, FleetError> {
        self.ask(agent, order).await
    }

    async fn ask<T: DeserializeOwned>(&self, agent: &str, order: &Order) -> Result<T, FleetError> {
        let bytes = self.ask_bytes(agent, order).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Self::of_agent(agent, format!("invalid answer: {error}")))
    }

    pub(super) async fn ask_bytes(&self, agent: &str, order: &Order) -> Result<bytes::Bytes, FleetError> {
        let asked = self.client.request(wire::orders(agent), wire::bytes(order).into());
        match tokio::time::timeout(ANSWER, asked).await {
            Ok(Ok(message)) => Ok(message.payload),
            Ok(Err(error)) => Err(Self::of_agent(agent, format!("no answer: {error}"))),
            Err(_) => Err(Self::of_agent(agent, format!("no answer within {ANSWER:?}"))),
        }
    }

    pub(super) fn of_agent(agent: &str, text: String) -> FleetError {
        FleetError::Agent { agent: agent.to_owned(), text }
    }

    /// Gives an order that must be obeyed.
    pub(super) async fn command(&self, agent: &str, order: &Order) -> Result<(), FleetError> {
        match self.order(agent, order).await? {
            Answer::Done => Ok(()),
            Answer::Refused { why } => Err(Self::of_agent(agent, format!("refused: {why}"))),
            Answer::Clock { .. } => Err(Self::of_agent(agent, "an answer to another order".to_owned())),
        }
    }

    /// The offset of the agent's clock; `None` if it does not answer.
    pub(super) async fn offset(&self, agent: &str) -> Option<Offset> {
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

    pub(super) async fn stop_all(&self) {
        for member in &self.members {
            let order = Order::Stop { run: self.fleet.run.clone() };
            let _ = self.order(&member.hello.agent, &order).await;
        }
    }

    /// Lets the agents remove what has arrived whole, and removes the stream.
    ///
    /// - `is_merged`: whether the record of the whole could be made.
    pub(super) async fn leave(&self, is_merged: bool) {
        for member in self.members.iter().filter(|member| is_merged && member.received.is_complete()) {
            let order = Order::Taken { run: self.fleet.run.clone() };
            let _ = self.order(&member.hello.agent, &order).await;
        }
        let stream = async_nats::jetstream::new(self.client.clone());
        let _ = tokio::time::timeout(ANSWER, stream.delete_stream(wire::stream(&self.fleet.run))).await;
    }
}
