//! What a conductor knows and can ask: its fleet, its connection, and the orders to agents.

use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use load::Stop;
use record::agents::{FleetSettings, Watched};
use record::clock::{Clock as _, Monotonic};
use tokio::time::Instant;

use crate::clock::{self, Offset, PROBES, Trip};
use crate::error::FleetError;
use crate::meant::Meant;
use crate::received::Received;
use crate::server::Server;
use crate::wire::{self, Addressed, Answer, Dealt, Hello, Order};

/// Time for an answer to an order.
const ANSWER: Duration = Duration::from_secs(2);
/// Attempts to stop an agent.
const STOP_TRIES: u32 = 2;
/// After the last answer to a hello, no more are expected.
const QUIET: Duration = Duration::from_millis(300);
/// Longest time from one hello to the next.
const ROUND: Duration = Duration::from_secs(2);
/// Longest answer to a hello.
const HELLO_BYTES_MAX: usize = 16 << 10;
/// Longest name of a machine.
pub(super) const HOST_BYTES_MAX: usize = 255;
/// Most answers, and most of one name: the second shows that a name is not unique.
const HELLOS_MAX: usize = 2_000;
const OF_ONE_NAME_MAX: usize = 2;

/// A load, and the fleet that is to play it.
#[derive(Debug)]
pub struct Fleet<'a> {
    /// The NATS server.
    pub server: &'a Server,
    /// The agents that are asked for.
    pub asked: FleetSettings,
    /// Name of the run.
    pub run: String,
    /// The command line of the load, from the program's name on; without words, agents receive the settings.
    pub words: Vec<String>,
    /// Meaning of the command line on this machine.
    pub meant: Meant,
    /// Time for enough agents to be found.
    pub patience: Duration,
    /// Minimum time from the last preparation to the start.
    pub lead: Duration,
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
    /// An observing agent's numbers, after the load.
    Watched(&'a Watched),
}

pub(super) type Tell<'a> = &'a mut dyn FnMut(&Told<'_>);

/// An agent, as the conductor knows it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) hello: Hello,
    /// The agent that answers for its spool, if another one does.
    pub(super) via: Option<String>,
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

/// An agent that works beside the load, in a run that has its own name.
#[derive(Debug)]
pub(super) struct Helper {
    pub(super) hello: Hello,
    pub(super) run: String,
    /// The agent that left its spool, if another one answers for it.
    pub(super) owner: Option<String>,
    pub(super) before: Option<Offset>,
    pub(super) is_collected: bool,
}

/// A conductor with its connection.
pub(super) struct Conductor<'a> {
    pub(super) fleet: &'a Fleet<'a>,
    pub(super) client: Client,
    pub(super) members: Vec<Member>,
    pub(super) observers: Vec<Helper>,
    pub(super) probe: Option<Helper>,
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
        let agents = self.asked.agents;
        if agents == 0 {
            return Err(FleetError::Unfit("a fleet has an agent".to_owned()));
        }
        self.check_threads(agents)
    }

    /// Whether each agent has a thread.
    ///
    /// - `least`: the fewest threads.
    pub(super) fn check_threads(&self, least: u32) -> Result<(), FleetError> {
        if self.meant.settings.threads >= least {
            return Ok(());
        }
        let agents = self.asked.agents;
        let why = if least > agents {
            "the agents share the threads by weight, and each needs one"
        } else {
            "the agents share the threads, and each needs one"
        };
        Err(FleetError::Unfit(if self.is_of_a_plan() {
            format!("`agents = {agents}` in `[fleet]` needs {least} threads or more: {why}")
        } else {
            format!("--fleet {agents} needs --threads {least} or more: {why}")
        }))
    }

    /// Whether a plan asks for the agents, and not a command line.
    pub(super) fn is_of_a_plan(&self) -> bool {
        self.words.is_empty()
    }
}

/// Spools that the agents still keep of a merged load: they may remove them once its record is stored.
#[must_use = "the agents keep their files until they are released"]
pub struct Spools {
    runtime: tokio::runtime::Runtime,
    client: Client,
    run: String,
    /// Agents of which everything has arrived: the one to ask, and the owner of the spool if it is another.
    complete: Vec<(String, Option<String>)>,
    /// Agents beside the load that have sent their work, with its name, and the owner as above.
    helpers: Vec<(String, String, Option<String>)>,
}

impl std::fmt::Debug for Spools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spools").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Spools {
    pub(super) fn new(runtime: tokio::runtime::Runtime, conductor: Conductor<'_>) -> Self {
        let complete = conductor.members.iter().filter(|member| member.received.is_complete());
        let complete = complete.map(Member::asked).collect();
        let helpers = conductor.helpers().filter(|helper| helper.is_collected);
        let helpers = helpers
            .map(|helper| (helper.hello.agent.clone(), helper.run.clone(), helper.owner.clone()))
            .collect();
        Self { runtime, helpers, run: conductor.fleet.run.clone(), client: conductor.client, complete }
    }

    /// Lets the agents remove what has arrived whole.
    pub fn release(self) {
        let Self { runtime, client, run, complete, helpers } = self;
        runtime.block_on(async {
            // One that does not answer keeps its files, and tells of them when it starts again. If this
            // process is killed here, the shares still lead a collection to the run.
            let taken = helpers.iter().map(|(agent, run, owner)| {
                let order = Order::Taken { run: run.clone(), owner: owner.clone() };
                ask_bytes(&client, agent, None, order)
            });
            join_all(taken).await;
            let taken = complete.iter().map(|(agent, owner)| {
                let order = Order::Taken { run: run.clone(), owner: owner.clone() };
                ask_bytes(&client, agent, None, order)
            });
            join_all(taken).await;
            remove_stream(&client, &run).await;
        });
    }
}

impl Member {
    /// The agent to ask for its spool, and the owner of the spool if it is another.
    pub(super) fn asked(&self) -> (String, Option<String>) {
        let own = self.hello.agent.clone();
        match &self.via {
            None => (own, None),
            Some(via) => (via.clone(), Some(own)),
        }
    }
}

/// Answers of all agents to a hello, until `is_enough` or `patience` has passed.
pub(crate) async fn hellos(
    server: &Server,
    client: &Client,
    patience: Duration,
    stop: &Stop,
    is_enough: &dyn Fn(&[Hello]) -> bool,
) -> Result<Vec<Hello>, FleetError> {
    let refused = |text: String| FleetError::Server { url: server.shown(), text };
    let inbox = client.new_inbox();
    let all = wire::greeting(&inbox, "*");
    let mut answers = client.subscribe(all).await.map_err(|e| refused(e.to_string()))?;
    let deadline = Instant::now() + patience;
    let mut found: Vec<Hello> = Vec::new();
    while Instant::now() < deadline && !stop.is_requested() {
        // Asked again each time: an agent may be connecting.
        let asked = client.publish_with_reply(wire::HELLO, inbox.clone(), bytes::Bytes::new()).await;
        asked.map_err(|e| refused(e.to_string()))?;
        client.flush().await.map_err(|e| refused(e.to_string()))?;
        let round = deadline.min(Instant::now() + ROUND);
        // An agent that sends answers without end does not hold up the others.
        while Instant::now() < round && !stop.is_requested() {
            let next = tokio::time::timeout_at(round.min(Instant::now() + QUIET), answers.next()).await;
            let Ok(Some(message)) = next else { break };
            if let Some(hello) = hello_in(&message.subject, &message.payload) {
                add(&mut found, hello);
            }
        }
        if is_enough(&found) {
            break;
        }
    }
    found.sort();
    Ok(found)
}

/// The answer of the agent that the subject names; `None` if it is another's, or none.
fn hello_in(subject: &str, bytes: &[u8]) -> Option<Hello> {
    if bytes.len() > HELLO_BYTES_MAX {
        return None;
    }
    let hello: Hello = serde_json::from_slice(bytes).ok()?;
    let is_own = subject.rsplit('.').next() == Some(hello.agent.as_str());
    (is_own && wire::is_name(&hello.agent) && hello.host.len() <= HOST_BYTES_MAX).then_some(hello)
}

/// Adds an answer, in place of an earlier one of the same process.
fn add(found: &mut Vec<Hello>, hello: Hello) {
    found.retain(|known| (&known.agent, &known.epoch) != (&hello.agent, &hello.epoch));
    let of_name = found.iter().filter(|known| known.agent == hello.agent).count();
    if of_name < OF_ONE_NAME_MAX && found.len() < HELLOS_MAX {
        found.push(hello);
    }
}

/// Gives an order to the process that sent `hello` and waits for the answer.
pub(crate) async fn ask(client: &Client, hello: &Hello, order: Order) -> Result<Answer, FleetError> {
    let bytes = ask_bytes(client, &hello.agent, Some(&hello.epoch), order).await?;
    serde_json::from_slice(&bytes).map_err(|error| FleetError::Absent {
        agent: hello.agent.clone(),
        text: format!("invalid answer: {error}"),
    })
}

/// The offset of the agent's clock; `None` if it does not answer.
pub(crate) async fn offset(client: &Client, hello: &Hello) -> Option<Offset> {
    let mut trips = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        let sent_ns = Monotonic.now_ns();
        let answer = ask(client, hello, Order::Clock).await.ok()?;
        let returned_ns = Monotonic.now_ns();
        if let Answer::Clock { received_ns, sent_ns: answered_ns } = answer {
            trips.push(Trip { sent_ns, received_ns, answered_ns, returned_ns });
        }
    }
    clock::offset(&trips)
}

/// Gives an order to an agent and waits for the answer.
///
/// - `epoch`: its process; any with its name if `None`.
pub(crate) async fn ask_bytes(
    client: &Client,
    agent: &str,
    epoch: Option<&str>,
    order: Order,
) -> Result<bytes::Bytes, FleetError> {
    let absent = |text: String| FleetError::Absent { agent: agent.to_owned(), text };
    let order = Addressed { epoch: epoch.map(str::to_owned), order };
    let asked = client.request(wire::orders(agent), wire::bytes(&order).into());
    match tokio::time::timeout(ANSWER, asked).await {
        Ok(Ok(message)) => Ok(message.payload),
        Ok(Err(error)) => Err(absent(format!("no answer: {error}"))),
        Err(_) => Err(absent(format!("no answer within {ANSWER:?}"))),
    }
}

impl Conductor<'_> {
    /// The shares of the members.
    pub(super) fn dealt(&self) -> Dealt {
        let weights: Vec<u32> = self.members.iter().map(|member| member.hello.weight).collect();
        Dealt::to(&weights, &self.fleet.asked)
    }

    /// The agents that work beside the load.
    pub(super) fn helpers(&self) -> impl Iterator<Item = &Helper> {
        self.observers.iter().chain(&self.probe)
    }

    /// Orders the helpers to begin with the load.
    pub(super) async fn arm_helpers(&self, start_ns: u64) -> Result<(), FleetError> {
        for Helper { hello, run, before, .. } in self.helpers() {
            let Offset { ns, bound_ns } = before.expect("its clock was read before");
            let impossible = || Self::absent(&hello.agent, "its clock is impossible".to_owned());
            let at_ns = start_ns.checked_add_signed(ns).ok_or_else(impossible)?;
            self.command(hello, Order::Arm { run: run.clone(), at_ns, bound_ns }).await?;
        }
        Ok(())
    }

    /// Ends the work of the helpers. One that does not answer ends with the measured phase.
    pub(super) async fn stop_helpers(&self) {
        for Helper { hello, run, .. } in self.helpers() {
            let _ = self.command(hello, Order::Stop { run: run.clone() }).await;
        }
    }

    pub(super) fn absent(agent: &str, text: String) -> FleetError {
        FleetError::Absent { agent: agent.to_owned(), text }
    }

    /// Gives an order that must be obeyed.
    pub(super) async fn command(&self, hello: &Hello, order: Order) -> Result<(), FleetError> {
        let agent = &hello.agent;
        match ask(&self.client, hello, order).await? {
            Answer::Done => Ok(()),
            Answer::Refused { why } => Err(Self::absent(agent, format!("refused: {why}"))),
            Answer::Clock { .. } | Answer::Left { .. } => {
                Err(Self::absent(agent, "an answer to another order".to_owned()))
            }
        }
    }

    /// Gives an order to every agent that may still play, without waiting for an answer.
    pub(super) async fn call(&self, order: &Order) {
        if self.client.connection_state() != State::Connected {
            return;
        }
        for member in self.members.iter().filter(|member| !member.is_over) {
            let epoch = Some(member.hello.epoch.clone());
            let order = wire::bytes(&Addressed { epoch, order: order.clone() });
            let (to, inbox) = (wire::orders(&member.hello.agent), self.client.new_inbox());
            let _ = self.client.publish_with_reply(to, inbox, order.into()).await;
        }
    }

    pub(super) fn stop_order(&self) -> Order {
        Order::Stop { run: self.fleet.run.clone() }
    }

    /// Stops every agent that may still play; returns those that do not confirm it.
    pub(super) async fn stop_all(&self) -> Vec<&str> {
        let mut playing: Vec<&Hello> =
            self.members.iter().filter(|member| !member.is_over).map(|member| &member.hello).collect();
        for _ in 0..STOP_TRIES {
            let stops = playing.iter().map(|hello| self.command(hello, self.stop_order()));
            let stopped = join_all(stops).await;
            let mut stopped = stopped.iter();
            playing.retain(|_| stopped.next().is_none_or(Result::is_err));
            if playing.is_empty() {
                break;
            }
        }
        playing.into_iter().map(|hello| hello.agent.as_str()).collect()
    }

    /// Removes the stream. The agents' spools still have its lines.
    pub(super) async fn remove_stream(&self) {
        remove_stream(&self.client, &self.fleet.run).await;
    }
}

async fn remove_stream(client: &Client, run: &str) {
    let stream = async_nats::jetstream::new(client.clone());
    let _ = tokio::time::timeout(ANSWER, stream.delete_stream(wire::stream(run))).await;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn hello(agent: &str, epoch: &str) -> Hello {
        Hello {
            agent: agent.into(),
            host: "here".into(),
            version: wire::VERSION.to_owned(),
            cpus: 1,
            busy: None,
            epoch: epoch.into(),
            labels: BTreeMap::new(),
            weight: 1,
            observes: false,
            probes: false,
        }
    }

    #[test]
    fn an_answer_counts_as_that_of_the_agent_in_its_subject() {
        let bytes = wire::bytes(&hello("gen1", "e"));
        assert_eq!(hello_in("_INBOX.conductor.x.gen1", &bytes), Some(hello("gen1", "e")));
        for other in ["_INBOX.conductor.x.gen2", "_INBOX.conductor.x", ""] {
            assert_eq!(hello_in(other, &bytes), None, "{other}");
        }
        let label = ("l".to_owned(), "x".repeat(HELLO_BYTES_MAX));
        let long = Hello { labels: [label].into(), ..hello("gen1", "e") };
        let named = Hello { host: "h".repeat(HOST_BYTES_MAX + 1), ..hello("gen1", "e") };
        for hello in [long, named] {
            assert_eq!(hello_in("_INBOX.conductor.x.gen1", &wire::bytes(&hello)), None);
        }
    }

    #[test]
    fn one_agent_cannot_take_the_places_of_the_others() {
        let mut found = Vec::new();
        for number in 0..10_000 {
            add(&mut found, hello("gen2", &number.to_string()));
        }
        add(&mut found, hello("gen1", "e"));
        add(&mut found, Hello { cpus: 7, ..hello("gen1", "e") });
        let names: Vec<(&str, u32)> = found.iter().map(|hello| (hello.agent.as_str(), hello.cpus)).collect();
        assert_eq!(names, [("gen2", 1), ("gen2", 1), ("gen1", 7)]);
        for number in 0..2 * HELLOS_MAX {
            add(&mut found, hello(&format!("a{number}"), "e"));
        }
        assert_eq!(found.len(), HELLOS_MAX);
    }
}
