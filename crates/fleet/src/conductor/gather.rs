//! Before the load: finds agents, has them prepare, and reads their clocks.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, StorageType};
use futures_util::future::try_join_all;
use futures_util::{StreamExt as _, stream};
use record::agents::FleetSettings;
use record::clock::{Clock as _, Monotonic};
use record::printable::printable;

use super::observers::observes;
use super::office::{self, Conductor, Fleet, Member};
use super::probe::probes;
use crate::clock::Offset;
use crate::error::FleetError;
use crate::meant::Sent;
use crate::received::{self, Received};
use crate::wire::{self, Beat, Hello, Order, Plan, Seal, WHY_BYTES_MAX};

/// Interval at which agents that prepare are given a sign that their conductor lives.
const SIGN_NS: u64 = 2_000_000_000;
/// Clocks that are read at the same time: more would wait for each other, which widens their bounds.
pub(super) const CLOCKS_AT_ONCE: usize = 16;
/// An agent that prepares and is silent for longer is gone.
const SILENT_NS: u64 = 5_000_000_000;
/// Largest weight of an agent's share.
const WEIGHT_MAX: u32 = 100;

impl Conductor<'_> {
    /// Finds the agents, makes the stream, and brings every agent to the line.
    pub(super) async fn gather(&mut self) -> Result<(), FleetError> {
        let hellos = self.hellos().await?;
        self.observers = self.chosen_observers(&hellos)?;
        self.probe = self.chosen_probe(&hellos)?;
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
        let weights: Vec<u32> = self.members.iter().map(|member| member.hello.weight).collect();
        self.fleet.check_threads(load::threads_min(&weights))?;
        self.make_stream().await?;
        let prepared = match self.prepare_all().await {
            Ok(()) => match self.prepare_probe().await {
                Ok(()) => self.prepare_observers().await,
                failed => failed,
            },
            failed => failed,
        };
        if prepared.is_err() {
            self.stop_all().await;
            self.stop_helpers().await;
            self.remove_stream().await;
        }
        prepared
    }

    /// Answers of all agents to a hello.
    async fn hellos(&self) -> Result<Vec<Hello>, FleetError> {
        let Fleet { server, patience, stop, ref asked, .. } = *self.fleet;
        let is_enough = |found: &[Hello]| {
            found.iter().filter(|hello| unfit(hello, asked).is_none()).count() >= asked.agents as usize
                && found.iter().filter(|hello| observes(hello)).count() >= asked.observers as usize
                && (asked.probe_per_s.is_none() || found.iter().any(probes))
        };
        office::hellos(server, &self.client, patience, stop, &is_enough).await
    }

    /// Chooses as many agents as the load needs.
    fn chosen(&self, hellos: Vec<Hello>) -> Result<Vec<Hello>, FleetError> {
        let same = hellos.windows(2).find(|pair| pair[0].agent == pair[1].agent);
        if let Some([hello, _]) = same {
            let text = "several processes have this name: give each agent its own --id".to_owned();
            return Err(Self::absent(&hello.agent, text));
        }
        let asked = &self.fleet.asked;
        let (fit, others): (Vec<Hello>, Vec<Hello>) =
            hellos.into_iter().partition(|hello| unfit(hello, asked).is_none());
        let wanted = asked.agents as usize;
        if self.fleet.stop.is_requested() {
            return Err(FleetError::Interrupted);
        }
        if fit.len() < wanted {
            let others: Vec<String> = others.iter().filter_map(|hello| unfit(hello, asked)).collect();
            let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
            let fewer = if self.fleet.is_of_a_plan() { "with `agents` in `[fleet]`" } else { "with --fleet" };
            return Err(FleetError::TooFew { found: fit.len(), wanted, others, fewer });
        }
        Ok(fit.into_iter().take(wanted).collect())
    }

    pub(super) fn stream(&self) -> Config {
        let run = &self.fleet.run;
        Config {
            name: wire::stream(run),
            subjects: vec![
                wire::slice(run, "*"),
                wire::end(run, "*"),
                wire::slice(&wire::probed(run), "*"),
                wire::end(&wire::probed(run), "*"),
            ],
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
        let dealt = self.dealt();
        let seal = Seal::new(&run, &self.fleet.words, &dealt, &self.fleet.meant);
        let seal = seal.map_err(|text| FleetError::File {
            path: "the stored requests of the log".into(),
            source: std::io::Error::other(text),
        })?;
        let sent = if self.fleet.words.is_empty() {
            Some(Sent::of(&self.fleet.meant.settings).map_err(FleetError::Unfit)?)
        } else {
            None
        };
        let all: Vec<u32> = (0..dealt.of).collect();
        for group in [&all[..1], &all[1..]] {
            let prepare = |index: &u32| {
                let plan = Plan {
                    run: run.clone(),
                    words: self.fleet.words.clone(),
                    settings: sent.clone(),
                    index: *index,
                    of: dealt.of,
                    weights: dealt.weights.clone(),
                    accepts_loss: dealt.accepts_loss,
                    helpers: dealt.helpers,
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
                        let text = wire::cut(why, WHY_BYTES_MAX);
                        return Err(FleetError::Agent { agent: from.to_owned(), text });
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

/// Reason that an agent cannot take part; `None` if it can.
fn unfit(hello: &Hello, asked: &FleetSettings) -> Option<String> {
    let agent = &hello.agent;
    if hello.observes || hello.probes {
        return Some(format!("{agent} {}", if hello.observes { "observes" } else { "is for probes" }));
    }
    if let Some(run) = &hello.busy {
        return Some(format!("{agent} is busy with {run}"));
    }
    if hello.version != wire::VERSION {
        return Some(format!("{agent} has version {}, not {}", hello.version, wire::VERSION));
    }
    if !(1..=WEIGHT_MAX).contains(&hello.weight) {
        return Some(format!("{agent} has the weight {}, not one from 1 to {WEIGHT_MAX}", hello.weight));
    }
    let lacks = |(name, value): &(&String, &String)| hello.labels.get(*name) != Some(*value);
    let (name, value) = asked.place.iter().find(lacks)?;
    Some(match hello.labels.get(name) {
        Some(other) => {
            format!("{agent} has the label {name}={}, not {name}={value}", printable(other))
        }
        None => format!("{agent} lacks the label {name}={value}"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_agent_takes_part_only_with_every_label_of_the_place() {
        let labels = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let hello = |all: &[(&str, &str)], weight| Hello {
            agent: "a1".into(),
            host: "gen1".into(),
            version: wire::VERSION.to_owned(),
            cpus: 1,
            busy: None,
            epoch: String::new(),
            labels: labels(all),
            weight,
            observes: false,
            probes: false,
        };
        let asked =
            FleetSettings { place: labels(&[("rack", "a"), ("kind", "gen")]), ..FleetSettings::of(1) };
        let both = hello(&[("kind", "gen"), ("more", "x"), ("rack", "a")], 1);
        assert_eq!(unfit(&both, &asked), None);
        for (found, says) in [
            (hello(&[("rack", "a")], 1), "a1 lacks the label kind=gen"),
            (hello(&[("rack", "b"), ("kind", "gen")], 1), "a1 has the label rack=b, not rack=a"),
            (hello(&[("rack", "a"), ("kind", "gen")], 0), "the weight 0"),
            (hello(&[("rack", "a"), ("kind", "gen")], 101), "the weight 101"),
            (Hello { busy: Some("r1".into()), ..both.clone() }, "busy with r1"),
            (Hello { observes: true, ..both.clone() }, "a1 observes"),
            (Hello { probes: true, ..both.clone() }, "a1 is for probes"),
            (Hello { version: "0".into(), ..both }, "has version 0"),
        ] {
            assert!(unfit(&found, &asked).is_some_and(|why| why.contains(says)), "{says}");
        }
        assert_eq!(unfit(&hello(&[], 7), &FleetSettings::of(1)), None);
    }
}
