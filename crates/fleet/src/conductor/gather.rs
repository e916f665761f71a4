//! Before the load: finds agents, has them prepare, and reads their clocks.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, StorageType};
use futures_util::future::try_join_all;
use futures_util::{StreamExt as _, stream};
use record::clock::{Clock as _, Monotonic};

use super::office::{self, Conductor, Fleet, Member};
use crate::clock::Offset;
use crate::error::FleetError;
use crate::meant::Sent;
use crate::received::{self, Received};
use crate::wire::{self, Beat, Hello, Order, Plan, Seal};

/// Interval at which agents that prepare are given a sign that their conductor lives.
const SIGN_NS: u64 = 2_000_000_000;
/// Clocks that are read at the same time: more would wait for each other, which widens their bounds.
pub(super) const CLOCKS_AT_ONCE: usize = 16;
/// An agent that prepares and is silent for longer is gone.
const SILENT_NS: u64 = 5_000_000_000;

impl Conductor<'_> {
    /// Finds the agents, makes the stream, and brings every agent to the line.
    pub(super) async fn gather(&mut self) -> Result<(), FleetError> {
        let hellos = self.hellos().await?;
        let slices_max = received::slices_max(&self.fleet.meant.settings);
        for hello in self.chosen(hellos)? {
            let received = Received::new(slices_max)
                .map_err(|source| FleetError::File { path: "a temporary file".into(), source })?;
            self.members.push(Member {
                hello,
                via: None,
                received,
                before: None,
                after: None,
                start_ns: 0,
                is_over: false,
                lost_ns: None,
                failed: None,
            });
        }
        self.make_stream().await?;
        let prepared = self.prepare_all().await;
        if prepared.is_err() {
            self.stop_all().await;
            self.remove_stream().await;
        }
        prepared
    }

    /// Answers of all agents to a hello.
    async fn hellos(&self) -> Result<Vec<Hello>, FleetError> {
        let Fleet { server, patience, stop, agents, .. } = *self.fleet;
        let is_enough =
            |found: &[Hello]| found.iter().filter(|hello| is_fit(hello)).count() >= agents as usize;
        office::hellos(server, &self.client, patience, stop, &is_enough).await
    }

    /// Chooses as many agents as the load needs.
    fn chosen(&self, hellos: Vec<Hello>) -> Result<Vec<Hello>, FleetError> {
        let same = hellos.windows(2).find(|pair| pair[0].agent == pair[1].agent);
        if let Some([hello, _]) = same {
            let text = "several processes have this name: give each agent its own --id".to_owned();
            return Err(Self::absent(&hello.agent, text));
        }
        let (fit, others): (Vec<Hello>, Vec<Hello>) = hellos.into_iter().partition(is_fit);
        let wanted = self.fleet.agents as usize;
        if self.fleet.stop.is_requested() {
            return Err(FleetError::Interrupted);
        }
        if fit.len() < wanted {
            let others: Vec<String> = others
                .iter()
                .map(|hello| match &hello.busy {
                    Some(run) => format!("{} is busy with {run}", hello.agent),
                    None => format!("{} has version {}, not {}", hello.agent, hello.version, wire::VERSION),
                })
                .collect();
            let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
            return Err(FleetError::TooFew { found: fit.len(), wanted, others });
        }
        Ok(fit.into_iter().take(wanted).collect())
    }

    pub(super) fn stream(&self) -> Config {
        let run = &self.fleet.run;
        Config {
            name: wire::stream(run),
            subjects: vec![wire::slice(run, "*"), wire::end(run, "*")],
            storage: StorageType::File,
            duplicate_window: Duration::from_mins(2),
            // If the conductor dies, nothing else removes it.
            max_age: Duration::from_hours(7 * 24),
            ..Config::default()
        }
    }

    async fn make_stream(&self) -> Result<(), FleetError> {
        let stream = async_nats::jetstream::new(self.client.clone());
        let made = stream.get_or_create_stream(self.stream()).await;
        made.map(|_| ()).map_err(|error| FleetError::Server {
            url: self.fleet.server.shown(),
            text: format!("cannot create a stream ({error}): start it with JetStream (nats-server -js)"),
        })
    }

    /// The first agent prepares alone: it builds the data set. The others find it.
    async fn prepare_all(&mut self) -> Result<(), FleetError> {
        let run = self.fleet.run.clone();
        let refused = |text: String| FleetError::Server { url: self.fleet.server.shown(), text };
        let beats = self.client.subscribe(wire::beat(&run, "*")).await;
        let mut beats = beats.map_err(|e| refused(e.to_string()))?;
        let seal = Seal::new(&run, &self.fleet.words, self.fleet.agents, &self.fleet.meant);
        let seal = seal.map_err(|text| FleetError::File {
            path: "the stored requests of the log".into(),
            source: std::io::Error::other(text),
        })?;
        let sent = if self.fleet.words.is_empty() {
            Some(Sent::of(&self.fleet.meant.settings).map_err(FleetError::Unfit)?)
        } else {
            None
        };
        let all: Vec<u32> = (0..self.fleet.agents).collect();
        for group in [&all[..1], &all[1..]] {
            let prepare = |index: &u32| {
                let plan = Plan {
                    run: run.clone(),
                    words: self.fleet.words.clone(),
                    settings: sent.clone(),
                    index: *index,
                    of: self.fleet.agents,
                    sha256: seal.of(*index),
                };
                self.command(&self.members[*index as usize].hello, Order::Prepare(plan))
            };
            try_join_all(group.iter().map(prepare)).await?;
            self.await_ready(group, &mut beats).await?;
        }
        let before = self.clocks().await?;
        for (member, offset) in self.members.iter_mut().zip(before) {
            let absent = || Self::absent(&member.hello.agent, "it does not report its clock".to_owned());
            member.before = Some(offset.ok_or_else(absent)?);
        }
        Ok(())
    }

    /// The offsets of all clocks; meanwhile, agents that wait are given signs.
    async fn clocks(&self) -> Result<Vec<Option<Offset>>, FleetError> {
        let each = stream::iter(&self.members).map(|member| office::offset(&self.client, &member.hello));
        let mut read = std::pin::pin!(each.buffered(CLOCKS_AT_ONCE).collect::<Vec<_>>());
        let mut sign = tokio::time::interval(Duration::from_nanos(SIGN_NS));
        loop {
            tokio::select! {
                clocks = &mut read => return Ok(clocks),
                _ = sign.tick() => {
                    if self.fleet.stop.is_requested() {
                        return Err(FleetError::Interrupted);
                    }
                    self.call(&Order::Clock).await;
                }
            }
        }
    }

    async fn await_ready(&self, group: &[u32], beats: &mut async_nats::Subscriber) -> Result<(), FleetError> {
        let agent_of = |index: u32| self.members[index as usize].hello.agent.as_str();
        let mut waits: Vec<(u32, u64)> = group.iter().map(|index| (*index, Monotonic.now_ns())).collect();
        let mut signed_ns = Monotonic.now_ns();
        while !waits.is_empty() {
            if self.fleet.stop.is_requested() {
                return Err(FleetError::Interrupted);
            }
            if let Ok(Some(message)) = tokio::time::timeout(Duration::from_millis(100), beats.next()).await {
                let from = message.subject.rsplit('.').next().unwrap_or_default();
                match serde_json::from_slice(&message.payload) {
                    Ok(Beat::Failed { why }) => {
                        return Err(FleetError::Agent { agent: from.to_owned(), text: why });
                    }
                    Ok(Beat::Refused { why }) => return Err(Self::absent(from, format!("refused: {why}"))),
                    Ok(Beat::Ready) => waits.retain(|(index, _)| agent_of(*index) != from),
                    _ => waits.iter_mut().filter(|(index, _)| agent_of(*index) == from).for_each(
                        |(_, heard_ns)| {
                            *heard_ns = Monotonic.now_ns();
                        },
                    ),
                }
            }
            let now_ns = Monotonic.now_ns();
            if let Some((index, _)) = waits.iter().find(|(_, heard_ns)| now_ns - heard_ns > SILENT_NS) {
                return Err(Self::absent(agent_of(*index), "it was lost while it prepared".to_owned()));
            }
            if now_ns - signed_ns > SIGN_NS {
                signed_ns = now_ns;
                self.call(&Order::Clock).await;
            }
        }
        Ok(())
    }
}

fn is_fit(hello: &Hello) -> bool {
    hello.version == wire::VERSION && hello.busy.is_none()
}
