//! One member of a fleet: answers orders, plays its share of a load, and publishes what it has kept.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{Client, HeaderMap, Message};
use futures_util::StreamExt as _;
use load::{Stop, StopLevel};
use record::clock::{Clock as _, Monotonic};
use tokio::sync::watch;

use crate::error::{FleetError, of_file};
use crate::job::{Job, Observing};
use crate::meant::{ReadWords, Sender};
use crate::presence::BEAT_NS;
use crate::server::Server;
use crate::spool::{Folder, Own, make_private};
use crate::wire::{self, Addressed, Answer, Beat, Hello, Order, Plan, SpoolFile, Watch};

/// An agent that is ready waits this long for the next order of its conductor.
const ORPHAN_NS: u64 = 30_000_000_000;
/// Pause before another attempt to publish.
const AGAIN: Duration = Duration::from_millis(200);
/// A start must be at least this far ahead.
const NOTICE_NS: u64 = 20_000_000;
/// A start further ahead is not meant.
const AHEAD_MAX_NS: u64 = 60_000_000_000;
/// Longest list of spools in an answer, which is well below a message's limit.
const LEFT_MAX: usize = 1_000;

/// One member of a fleet.
pub struct Agent<'a> {
    /// The NATS server.
    pub server: &'a Server,
    /// Name of this agent: letters, digits, `-` and `_`.
    pub id: String,
    /// Name of this machine.
    pub host: String,
    /// Labels by which a load chooses its agents.
    pub labels: BTreeMap<String, String>,
    /// Weight of the agent's share of a load, from 1 to 100.
    pub weight: u32,
    /// Folder for the intervals of the runs of this machine's agents; each agent has its own in it.
    pub spool: PathBuf,
    /// Reads the command line of a load.
    pub read: &'static ReadWords,
    /// Observes this machine during a load. An agent that observes generates no load.
    pub observe: Option<&'static Observing>,
    /// Whether this agent is for probes, and has no share of a load.
    pub probes: bool,
    /// Ends the agent.
    pub stop: &'a Stop,
    /// Called once the agent waits for loads.
    pub on_ready: &'a dyn Fn(),
}

impl std::fmt::Debug for Agent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("id", &self.id).field("spool", &self.spool).finish_non_exhaustive()
    }
}

/// Serves loads until a stop is requested.
///
/// - `tell`: receives lines for people.
///
/// # Errors
///
/// The server cannot be reached at first, or the spool cannot be made.
pub fn serve(agent: &Agent<'_>, tell: &mut dyn FnMut(&str)) -> Result<(), FleetError> {
    if !wire::is_name(&agent.id) || agent.id == wire::CONDUCTOR {
        let text = format!("invalid agent name {}: use letters, digits, - and _, at most 64", agent.id);
        return Err(FleetError::Unfit(text));
    }
    make_private(&agent.spool).map_err(of_file(&agent.spool))?;
    let own = Own::take(&agent.spool, &agent.id).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => FleetError::Unfit(format!(
            "another agent with the name {} runs on this machine: give each its own --id",
            agent.id
        )),
        _ => of_file(&agent.spool.join(&agent.id))(error),
    })?;
    for left in own.left_in(&agent.spool) {
        tell(&format!("{}: left by a run that no conductor collected", left.display()));
    }
    let epoch = wire::random(8).map_err(of_file(Path::new(wire::RANDOM)))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|e| FleetError::Program { program: "the runtime".into(), text: e.to_string() })?;
    runtime.block_on(async {
        let client = agent.server.connect(&agent.id).await?;
        let refused = |error: &dyn std::fmt::Display| FleetError::Server {
            url: agent.server.shown(),
            text: error.to_string(),
        };
        let mut hellos = client.subscribe(wire::HELLO).await.map_err(|e| refused(&e))?;
        let mut orders = client.subscribe(wire::orders(&agent.id)).await.map_err(|e| refused(&e))?;
        client.flush().await.map_err(|e| refused(&e))?;
        tell(&format!("agent {} on {} waits for a load at {}", agent.id, agent.host, agent.server.shown()));
        (agent.on_ready)();
        let mut member = Member { agent, own: &own, epoch, client, job: None, heard_ns: 0 };
        let mut tick = tokio::time::interval(Duration::from_nanos(BEAT_NS));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                Some(order) = orders.next() => member.obey(&order, tell).await,
                Some(hello) = hellos.next() => member.greet(hello).await,
                _ = tick.tick() => {
                    if !member.beat(tell).await {
                        return Ok(());
                    }
                }
            }
        }
    })
}

struct Member<'a> {
    agent: &'a Agent<'a>,
    own: &'a Own,
    /// Name of this process among all that have the agent's name.
    epoch: String,
    client: Client,
    job: Option<Running>,
    /// Time of the conductor's last order.
    heard_ns: u64,
}

struct Running {
    job: Job,
    publisher: tokio::task::JoinHandle<()>,
    is_told: bool,
    /// Beats before an agent that should end does so, though not everything is published.
    beats_left: u32,
}

impl Member<'_> {
    async fn greet(&self, hello: Message) {
        let Some(reply) = hello.reply else { return };
        let busy = self.job.as_ref().filter(|running| !running.job.is_over());
        let answer = Hello {
            agent: self.agent.id.clone(),
            host: self.agent.host.clone(),
            version: wire::VERSION.to_owned(),
            cpus: std::thread::available_parallelism()
                .map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
            busy: busy.map(|running| running.job.run.clone()),
            epoch: self.epoch.clone(),
            labels: self.agent.labels.clone(),
            weight: self.agent.weight,
            observes: self.agent.observe.is_some(),
            probes: self.agent.probes,
        };
        self.send(wire::greeting(&reply, &self.agent.id).into(), wire::bytes(&answer)).await;
    }

    /// A message that is lost because the server is away is asked for again.
    async fn send(&self, to: async_nats::Subject, bytes: Vec<u8>) {
        let _ = self.client.publish(to, bytes.into()).await;
        let _ = self.client.flush().await;
    }

    async fn obey(&mut self, message: &Message, tell: &mut dyn FnMut(&str)) {
        let received_ns = Monotonic.now_ns();
        let Some(reply) = message.reply.clone() else { return };
        let answer = match serde_json::from_slice(&message.payload) {
            Err(error) => Answer::Refused { why: format!("invalid order: {error}") },
            Ok(Addressed { epoch: Some(epoch), .. }) if epoch != self.epoch => return,
            Ok(Addressed { order, .. }) => {
                self.heard_ns = received_ns;
                match order {
                    Order::Clock => Answer::Clock { received_ns, sent_ns: Monotonic.now_ns() },
                    Order::Read { run, file, offset, owner } => {
                        let bytes = self.read(&run, file, offset, owner.as_deref());
                        return self.send(reply, bytes).await;
                    }
                    Order::Prepare(plan) => self.prepare(plan, tell),
                    Order::Watch(order) => self.watch(&order, tell),
                    Order::Arm { run, at_ns, bound_ns } => self.arm(&run, at_ns, bound_ns, tell),
                    Order::Stop { run } => self.stop(&run),
                    Order::Taken { run, owner } => self.taken(&run, owner.as_deref()),
                    Order::Left => self.left(),
                }
            }
        };
        if let Answer::Refused { why } = &answer {
            tell(&format!("refused: {why}"));
        }
        self.send(reply, wire::bytes(&answer)).await;
    }

    /// Leaves the run before, if it is over; the answer if nothing is to begin.
    fn leave_for(&mut self, run: &str, tell: &mut dyn FnMut(&str)) -> Option<Answer> {
        let refused = |why: String| Some(Answer::Refused { why });
        if let Some(running) = self.job.as_ref().filter(|running| !running.job.is_over()) {
            // The answer to the first order may have been lost.
            return if running.job.run == run {
                Some(Answer::Done)
            } else {
                refused(format!("busy with run {}", running.job.run))
            };
        }
        if !wire::is_name(run) {
            return refused("invalid run name".to_owned());
        }
        if let Some(before) = self.job.take() {
            before.publisher.abort();
            let folder = &before.job.folder;
            match before.job.kept() {
                None => {}
                Some(0) => {
                    let _ = folder.remove();
                }
                Some(_) => tell(&format!("{}: no conductor collected this run", folder.path().display())),
            }
        }
        None
    }

    /// Waits for the start of a load, during which this machine is observed.
    fn watch(&mut self, order: &Watch, tell: &mut dyn FnMut(&str)) -> Answer {
        let refused = |why: String| Answer::Refused { why };
        let Some(observe) = self.agent.observe else {
            return refused("this agent generates load: start one with --role observe".to_owned());
        };
        if !self.agent.server.has_credentials() {
            return refused(
                "without credentials, an agent observes nothing, because any user of this machine could read it: \
                 connect the agent with --nkey or a password"
                    .to_owned(),
            );
        }
        if let Some(answer) = self.leave_for(&order.run, tell) {
            return answer;
        }
        match Job::watch(order, observe, self.own.folder()) {
            Err(why) => refused(why),
            Ok(job) => {
                tell(&format!("run {}: observes this machine", job.run));
                // The conductor reads its numbers at the end: nothing is published.
                let publisher = tokio::spawn(async {});
                self.job = Some(Running { job, publisher, is_told: false, beats_left: 20 });
                Answer::Done
            }
        }
    }

    fn prepare(&mut self, plan: Plan, tell: &mut dyn FnMut(&str)) -> Answer {
        let refused = |why: String| Answer::Refused { why };
        if self.agent.observe.is_some() {
            return refused("this agent observes its machine, and generates no load".to_owned());
        }
        if let Some(answer) = self.leave_for(&plan.run, tell) {
            return answer;
        }
        let sender = if self.agent.server.has_credentials() { Sender::Conductor } else { Sender::Anyone };
        let share = format!("run {}: share {} of {}", plan.run, plan.index.saturating_add(1), plan.of);
        match Job::begin(plan, self.agent.read, sender, self.own.folder()) {
            Err(why) => refused(why),
            Ok(job) => {
                tell(&share);
                let name =
                    Name { id: self.agent.id.clone(), epoch: self.epoch.clone(), run: job.run.clone() };
                let (folder, written) = (job.folder.clone(), job.written.clone());
                let publisher = tokio::spawn(publish(self.client.clone(), name, folder, written));
                self.job = Some(Running { job, publisher, is_told: false, beats_left: 20 });
                Answer::Done
            }
        }
    }

    fn of_run(&mut self, run: &str) -> Result<&mut Running, Answer> {
        let running = self.job.as_mut().filter(|running| running.job.run == run);
        running.ok_or_else(|| Answer::Refused { why: format!("not in run {run}") })
    }

    fn arm(&mut self, run: &str, at_ns: u64, bound_ns: u64, tell: &mut dyn FnMut(&str)) -> Answer {
        let agent = self.agent;
        let running = match self.of_run(run) {
            Ok(running) => running,
            Err(refusal) => return refusal,
        };
        if running.job.is_armed() {
            return Answer::Done;
        }
        // An observation has nothing to prepare: its thread may begin to wait after the order.
        let beat = running.job.beat();
        let may_begin = beat == Beat::Ready || beat == Beat::Preparing && !running.job.is_of_a_load();
        if !may_begin {
            return Answer::Refused { why: "not ready to begin".to_owned() };
        }
        if at_ns < Monotonic.now_ns() + NOTICE_NS {
            return Answer::Refused { why: "the start order came after the start time".to_owned() };
        }
        if at_ns > Monotonic.now_ns() + AHEAD_MAX_NS {
            return Answer::Refused { why: "the start time is more than a minute ahead".to_owned() };
        }
        running.job.arm(at_ns);
        if running.job.is_of_a_load()
            && let Err(error) = running.job.write_start(&agent.id, &agent.host, at_ns, bound_ns)
        {
            tell(&format!("run {run}: if its conductor dies, it cannot be collected: {error}"));
        }
        Answer::Done
    }

    /// The run that this agent plays.
    fn played(&self) -> Option<&str> {
        let playing = self.job.as_ref().filter(|running| !running.job.is_over());
        playing.map(|running| running.job.run.as_str())
    }

    /// Spools that no conductor has collected, of this agent and of others that no longer run here.
    fn left(&self) -> Answer {
        if !self.agent.server.has_credentials() {
            let why = "without credentials, an agent does not tell of its spools: any user of this machine could \
                       have them removed";
            return Answer::Refused { why: why.to_owned() };
        }
        let mut spools = self.own.spools_left_in(&self.agent.spool, self.played());
        let more = spools.len().saturating_sub(LEFT_MAX) as u64;
        spools.truncate(LEFT_MAX);
        Answer::Left { boot: wire::boot(), spools, more }
    }

    fn stop(&mut self, run: &str) -> Answer {
        match self.of_run(run) {
            Ok(running) => {
                running.job.stop_at(StopLevel::Finish);
                Answer::Done
            }
            Err(refusal) => refusal,
        }
    }

    /// Removes what a conductor has stored, also of a run that is not the last one.
    fn taken(&mut self, run: &str, owner: Option<&str>) -> Answer {
        let refused = |why: String| Answer::Refused { why };
        let own = self.agent.id.as_str();
        let owner = owner.unwrap_or(own);
        if owner == own
            && let Ok(running) = self.of_run(run)
        {
            if !running.job.is_over() {
                return refused("the load has not ended".to_owned());
            }
            running.publisher.abort();
            self.job = None;
        }
        match self.spool_of(owner, run) {
            Some((folder, _lock)) if folder.path().is_dir() => match folder.remove() {
                Ok(()) => Answer::Done,
                Err(error) => refused(error.to_string()),
            },
            _ => refused(format!("not in run {run}")),
        }
    }

    fn read(&self, run: &str, file: SpoolFile, offset: u64, owner: Option<&str>) -> Vec<u8> {
        let spool = self.spool_of(owner.unwrap_or(&self.agent.id), run);
        spool.and_then(|(folder, _lock)| folder.read(file, offset).ok()).unwrap_or_default()
    }

    /// Spool of a run of this agent, or of one that no longer runs; of another only with credentials.
    fn spool_of(&self, owner: &str, run: &str) -> Option<(Folder, Option<std::fs::File>)> {
        if owner != self.agent.id && !self.agent.server.has_credentials() {
            return None;
        }
        self.own.of_owner(&self.agent.spool, owner, run)
    }

    /// Tells that the agent is alive; false if it should end.
    async fn beat(&mut self, tell: &mut dyn FnMut(&str)) -> bool {
        let asked = self.agent.stop.level();
        let is_asked_to_end = asked > StopLevel::Run;
        let Some(running) = &mut self.job else { return !is_asked_to_end };
        let beat = running.job.beat();
        let is_orphan = matches!(beat, Beat::Preparing | Beat::Ready)
            && Monotonic.now_ns().saturating_sub(self.heard_ns) > ORPHAN_NS;
        running.job.stop_at(if is_orphan { asked.max(StopLevel::Finish) } else { asked });
        match &beat {
            Beat::Failed { why } | Beat::Refused { why } if !running.is_told => {
                tell(&format!("run {}: {why}", running.job.run));
            }
            Beat::Ended if !running.is_told => tell(&format!("run {}: ended", running.job.run)),
            _ => {}
        }
        running.is_told |= running.job.is_over();
        let subject = wire::beat(&running.job.run, &self.agent.id);
        // While the server is away, signs of life must not queue up.
        if self.client.connection_state() == async_nats::connection::State::Connected {
            let _ = self.client.publish(subject, wire::bytes(&beat).into()).await;
            let _ = tokio::time::timeout(Duration::from_nanos(BEAT_NS), self.client.flush()).await;
        }
        if is_asked_to_end && running.job.is_over() {
            running.beats_left = running.beats_left.saturating_sub(1);
            // A load that failed has no end to publish.
            return beat == Beat::Ended && !running.publisher.is_finished() && running.beats_left > 0;
        }
        true
    }
}

/// Parts of the names of a run's messages.
struct Name {
    id: String,
    epoch: String,
    run: String,
}

/// Publishes the lines of a run once they are on disk, each until it is acknowledged, then the end.
async fn publish(client: Client, name: Name, folder: Folder, mut written: watch::Receiver<Option<u64>>) {
    let Name { id, epoch, run } = name;
    let _ = written.wait_for(Option::is_some).await;
    if written.borrow().is_none() {
        return;
    }
    let Ok(file) = folder.open(SpoolFile::Slices) else { return };
    let mut lines = BufReader::new(file);
    let mut seq = 0;
    loop {
        let is_over = written.wait_for(|lines| *lines > Some(seq)).await.is_err();
        if is_over && *written.borrow() <= Some(seq) {
            break;
        }
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line).is_err() || line.pop() != Some(b'\n') {
            // The conductor reads it from the file.
            return;
        }
        until_kept(&client, &wire::slice(&run, &id), &format!("{run}/{id}/{epoch}/{seq}"), line).await;
        seq += 1;
    }
    // The end is written after the last line.
    loop {
        if let Ok(mut file) = folder.open(SpoolFile::End) {
            let mut end = Vec::new();
            if std::io::Read::read_to_end(&mut file, &mut end).is_ok() {
                until_kept(&client, &wire::end(&run, &id), &format!("{run}/{id}/{epoch}/end"), end).await;
            }
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Publishes a message until the stream has acknowledged it; the server drops all but one of the same `name`.
/// A message that is too long is left out: the conductor reads it from the file.
async fn until_kept(client: &Client, subject: &str, name: &str, bytes: Vec<u8>) {
    if bytes.len() + 1_024 > client.max_payload() {
        return;
    }
    let stream = async_nats::jetstream::new(client.clone());
    let bytes = bytes::Bytes::from(bytes);
    loop {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", name);
        let sent = stream.publish_with_headers(subject.to_owned(), headers, bytes.clone()).await;
        if let Ok(kept) = sent
            && kept.await.is_ok()
        {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
