//! The load itself: starts all agents at one moment, watches for lost ones, and takes their intervals.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::stream::{Config, RawMessageErrorKind};
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use load::StopLevel;
use record::agents::OnLoss;
use record::clock::{Clock as _, Monotonic};
use record::histogram::{CensoredHistogram, Histogram};
use record::load::{Phase, Progress};
use record::missing::Missing;
use record::series::LatencyKind;
use tokio::sync::mpsc;

use super::office::{Conductor, Member, Tell, Told};
use crate::error::FleetError;
use crate::presence::{BEAT_NS, Presence};
use crate::wire::{self, Beat, Line, Order, WHY_BYTES_MAX};

/// The start is at least as many clock bounds ahead: the order has to arrive, over ways of any length.
const LEAD_BOUNDS: u64 = 20;
/// The start is at most as far ahead, however slow the ways are.
const LEAD_MAX_NS: u64 = 30_000_000_000;
/// Pause before agents are asked again to stop.
const STOP_AGAIN_NS: u64 = 1_000_000_000;
/// Pause before the stream is asked again.
const AGAIN: Duration = Duration::from_millis(50);
/// Beats that are taken between two looks at everything else: more than a fleet sends in that time, so that
/// those of one agent cannot hold up the rest.
const BEATS_AT_ONCE: u32 = 4_096;
/// Messages of the stream that wait for the conductor.
const STORED_MAX: usize = 64;
/// Lines of an agent that wait to be shown, and their bytes.
const WAITING_MAX: usize = 1_024;
const WAITING_BYTES_MAX: usize = 64 << 20;

/// A message of the stream.
struct Stored {
    subject: String,
    bytes: Vec<u8>,
}

/// The intervals that every agent has told of, as one.
struct Display {
    /// Lines of each agent that are not shown yet, from `next` on, with their lengths in bytes.
    waiting: Vec<std::collections::BTreeMap<u64, (Line, usize)>>,
    next: u64,
}

impl Conductor<'_> {
    /// Plays to the end of every agent that is not lost; returns the start of the measured phase.
    pub(super) async fn play(&mut self, tell: Tell<'_>) -> Result<u64, FleetError> {
        let run = self.fleet.run.clone();
        let refused = |text: String| FleetError::Server { url: self.fleet.server.shown(), text };
        let mut beats =
            self.client.subscribe(wire::beat(&run, "*")).await.map_err(|e| refused(e.to_string()))?;
        let measured_from_ns = self.arm(tell).await?;
        let mut moments = self.moments(measured_from_ns);
        let (sender, mut stored) = mpsc::channel(STORED_MAX);
        let follower = tokio::spawn(follow(self.client.clone(), self.stream(), sender));
        let mut presence = Presence::new(self.members.len(), Monotonic.now_ns());
        let mut display = Display {
            waiting: self.members.iter().map(|_| std::collections::BTreeMap::default()).collect(),
            next: 0,
        };
        let mut tick = tokio::time::interval(Duration::from_nanos(BEAT_NS / 2));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut was_away, mut stop_at_ns, mut beats_taken) = (false, 0, 0);
        while self.members.iter().any(|member| !member.is_over) {
            tokio::select! {
                biased;
                Some(beat) = beats.next(), if beats_taken < BEATS_AT_ONCE => {
                    beats_taken += 1;
                    self.hear(&beat, &mut presence, tell);
                }
                () = until(moments.front()), if !moments.is_empty() => {
                    moments.pop_front().iter().for_each(|(_, event)| tell(&Told::Load(event)));
                }
                Some(message) = stored.recv() => self.take(&message, &mut display, tell)?,
                _ = tick.tick() => {
                    beats_taken = 0;
                    let is_away = presence.is_away(Monotonic.now_ns());
                    if is_away != was_away {
                        was_away = is_away;
                        tell(&Told::Note(if is_away {
                            "the NATS server is unreachable: the agents continue and store their \
                             measurements".to_owned()
                        } else {
                            "the NATS server is reachable again".to_owned()
                        }));
                    }
                    self.echo().await;
                    self.look(&presence, &mut display, tell);
                    if self.fleet.stop.level() >= StopLevel::Now {
                        for agent in self.stop_all().await {
                            tell(&Told::Note(format!("agent {agent} does not confirm the stop: it may go on")));
                        }
                        break;
                    }
                    // Again and again: the server, or the agent's way to it, may be away now.
                    if self.fleet.stop.is_requested() && Monotonic.now_ns() >= stop_at_ns {
                        stop_at_ns = Monotonic.now_ns() + STOP_AGAIN_NS;
                        self.call(&self.stop_order()).await;
                    }
                }
            }
        }
        // The phase that began ends early.
        moments.drain(..).filter(|_| Monotonic.now_ns() >= measured_from_ns).for_each(|(_, event)| {
            tell(&Told::Load(&event));
        });
        // What is in the stream already need not be read from the agents.
        while let Ok(Some(message)) = tokio::time::timeout(AGAIN * 4, stored.recv()).await {
            self.take(&message, &mut display, tell)?;
        }
        follower.abort();
        Ok(measured_from_ns)
    }

    /// Orders every agent to begin at one moment; returns the start of the measured phase.
    async fn arm(&mut self, tell: Tell<'_>) -> Result<u64, FleetError> {
        let offset = |member: &Member| member.before.expect("clocks were read before");
        let bound_ns = self.members.iter().map(|member| offset(member).bound_ns).max().unwrap_or(0);
        let lead_ns = u64::try_from(self.fleet.lead.as_nanos()).unwrap_or(u64::MAX);
        let lead_ns = lead_ns.max(bound_ns.saturating_mul(LEAD_BOUNDS)).min(LEAD_MAX_NS);
        let start_ns = Monotonic.now_ns() + lead_ns;
        for member in &mut self.members {
            let at_ns = start_ns.checked_add_signed(offset(member).ns);
            let impossible = || Self::absent(&member.hello.agent, "its clock is impossible".to_owned());
            member.start_ns = at_ns.ok_or_else(impossible)?;
        }
        let arm = |member: &Member| Order::Arm {
            run: self.fleet.run.clone(),
            at_ns: member.start_ns,
            bound_ns: offset(member).bound_ns,
        };
        try_join_all(self.members.iter().map(|member| self.command(&member.hello, arm(member)))).await?;
        self.arm_helpers(start_ns).await?;
        let settings = &self.fleet.meant.settings;
        let lead = u64::try_from((settings.ramp_up + settings.warmup).as_nanos()).unwrap_or(u64::MAX);
        let measured_from_ns = start_ns.saturating_add(lead);
        tell(&Told::Note(format!("{} agents start together", self.members.len())));
        Ok(measured_from_ns)
    }

    /// The beginning and the planned end of the measured phase. Instruments on this machine begin and end
    /// with it, not with the order to start.
    fn moments(&self, measured_from_ns: u64) -> VecDeque<(u64, load::Event)> {
        let time_ns = u64::try_from(self.fleet.meant.settings.time.as_nanos()).unwrap_or(u64::MAX);
        let begins = load::Event::PhaseStarts { phase: Phase::Measure, at_ns: measured_from_ns };
        let until_ns = measured_from_ns.saturating_add(time_ns);
        VecDeque::from([(measured_from_ns, begins), (until_ns, load::Event::MeasureEnds)])
    }

    /// Sends the conductor a sign of life by the way of the agents'.
    async fn echo(&self) {
        if self.client.connection_state() == async_nats::connection::State::Connected {
            let subject = wire::beat(&self.fleet.run, wire::CONDUCTOR);
            let _ = self.client.publish(subject, bytes::Bytes::new()).await;
            let _ = tokio::time::timeout(Duration::from_nanos(BEAT_NS / 2), self.client.flush()).await;
        }
    }

    fn hear(&mut self, message: &async_nats::Message, presence: &mut Presence, tell: Tell<'_>) {
        let now_ns = Monotonic.now_ns();
        let from = message.subject.rsplit('.').next().unwrap_or_default();
        if from == wire::CONDUCTOR {
            return presence.echo(now_ns);
        }
        let Some(index) = self.index_of(from) else { return };
        presence.heard(index, now_ns);
        let member = &mut self.members[index];
        match serde_json::from_slice(&message.payload) {
            Ok(Beat::Ended) => member.is_over = true,
            Ok(Beat::Failed { why } | Beat::Refused { why }) if member.failed.is_none() => {
                let why = wire::cut(why, WHY_BYTES_MAX);
                tell(&Told::Note(format!("agent {from} failed: {why}")));
                member.failed = Some(why);
                member.is_over = true;
            }
            _ => {}
        }
    }

    fn index_of(&self, agent: &str) -> Option<usize> {
        self.members.iter().position(|member| member.hello.agent == agent)
    }

    /// Takes a message of the stream.
    fn take(&mut self, message: &Stored, display: &mut Display, tell: Tell<'_>) -> Result<(), FleetError> {
        let mut words = message.subject.rsplit('.');
        let (from, what) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Some(index) = self.index_of(from) else { return Ok(()) };
        let received = &mut self.members[index].received;
        if what == "end" {
            // One that does not read is read from the agent's spool, or is missing.
            received.take_end(&message.bytes);
            self.show(display, tell);
            return Ok(());
        }
        let Ok(line) = serde_json::from_slice::<Line>(&message.bytes) else { return Ok(()) };
        let kept = received.take(line.seq, message.bytes.clone());
        kept.map_err(|source| FleetError::File { path: "a temporary file".into(), source })?;
        let waiting = &mut display.waiting[index];
        let bytes = message.bytes.len() + waiting.values().map(|(_, bytes)| bytes).sum::<usize>();
        if waiting.len() < WAITING_MAX && bytes <= WAITING_BYTES_MAX {
            waiting.insert(line.seq, (line, message.bytes.len()));
        }
        self.show(display, tell);
        Ok(())
    }

    /// Declares silent agents lost.
    fn look(&mut self, presence: &Presence, display: &mut Display, tell: Tell<'_>) {
        let now_ns = Monotonic.now_ns();
        let mut lost = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            if !member.is_over && presence.is_lost(index, now_ns) {
                member.is_over = true;
                member.lost_ns = Some(now_ns);
                lost.push(member.hello.agent.clone());
            }
        }
        for agent in lost {
            let run = match self.fleet.asked.on_loss {
                OnLoss::Invalid => "INVALID",
                OnLoss::Degraded => "degraded",
            };
            tell(&Told::Note(format!("agent {agent} is LOST: the run is {run}, the others continue")));
            self.show(display, tell);
        }
    }

    /// Shows the intervals that all agents have told of that still can.
    fn show(&self, display: &mut Display, tell: Tell<'_>) {
        loop {
            let next = display.next;
            let is_told = |(index, member): (usize, &Member)| {
                display.waiting[index].contains_key(&next)
                    || member.lost_ns.is_some()
                    || member.failed.is_some()
                    || member.received.end.as_ref().is_some_and(|end| end.slices <= next)
            };
            if !self.members.iter().enumerate().all(is_told) {
                return;
            }
            let lines: Vec<Line> =
                display.waiting.iter_mut().filter_map(|waiting| Some(waiting.remove(&next)?.0)).collect();
            if lines.is_empty() {
                return;
            }
            display.next += 1;
            if let Some(progress) = together(&lines, self.fleet.meant.settings.pace.as_open().is_some()) {
                tell(&Told::Load(&load::Event::Interval(progress)));
            }
        }
    }
}

/// The progress of one interval over all agents.
fn together(lines: &[Line], is_open: bool) -> Option<Progress> {
    let shown: Vec<&wire::Shown> = lines.iter().filter_map(|line| line.shown.as_ref()).collect();
    let first = shown.first()?;
    // Events that timed out count with the time that they had lasted.
    let [known, at_least] = if is_open {
        [LatencyKind::Response, LatencyKind::ResponseAtLeast]
    } else {
        [LatencyKind::Service, LatencyKind::ServiceAtLeast]
    };
    let (mut latency, mut lateness) = (CensoredHistogram::default(), Histogram::new());
    for line in lines {
        for slice in line.slices.iter().filter_map(|slice| slice.read(line.from_ns, line.for_ns).ok()) {
            if slice.kind == known && slice.operation.is_empty() {
                latency.known.add(&slice.histogram.expand());
            } else if slice.kind == at_least && slice.operation.is_empty() {
                latency.at_least.add(&slice.histogram.expand());
            } else if slice.kind == LatencyKind::Lateness {
                lateness.add(&slice.histogram.expand());
            }
        }
    }
    let no_due_times = || Missing::because("a closed loop has no intended starts");
    let offered: Option<f64> = shown.iter().map(|shown| shown.offered_per_s).sum();
    Some(Progress {
        phase: Phase::Measure,
        t_s: first.t_s,
        interval_s: first.interval_s,
        offered_per_s: offered.ok_or_else(no_due_times),
        achieved_per_s: shown.iter().map(|shown| shown.achieved_per_s).sum(),
        backlog: shown.iter().map(|shown| shown.backlog).fold(0, u64::saturating_add),
        latency: Box::new(latency),
        lateness: if is_open { Ok(Box::new(lateness)) } else { Err(no_due_times()) },
        errors: shown.iter().map(|shown| shown.errors).fold(0, u64::saturating_add),
        outage: shown.iter().any(|shown| shown.outage),
    })
}

/// Waits for a moment of this machine's clock.
async fn until(moment: Option<&(u64, load::Event)>) {
    let at_ns = moment.map_or(0, |(at_ns, _)| *at_ns);
    tokio::time::sleep(Duration::from_nanos(at_ns.saturating_sub(Monotonic.now_ns()))).await;
}

/// Reads the stream from its first message on, however often the server goes away.
async fn follow(client: async_nats::Client, config: Config, sender: mpsc::Sender<Stored>) {
    let context = async_nats::jetstream::new(client);
    let mut next = 1;
    loop {
        let Ok(stream) = context.get_stream_no_info(&config.name).await else { return };
        match stream.get_raw_message(next).await {
            Ok(message) => {
                next += 1;
                let stored = Stored { subject: message.subject.to_string(), bytes: message.payload.to_vec() };
                if sender.send(stored).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                if let RawMessageErrorKind::JetStream(reason) = error.kind()
                    && reason.error_code() == ErrorCode::STREAM_NOT_FOUND
                {
                    // The server has lost its disk. What the agents publish from now on has new numbers.
                    let _ = context.get_or_create_stream(config.clone()).await;
                    next = 1;
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use archive::documents::SliceForm;
    use record::series::HistogramSlice;

    use super::*;

    #[test]
    fn progress_of_a_fleet_includes_events_that_timed_out() {
        let slice = |kind, ns, count| {
            let (from_ns, for_ns, operation) = (0, 1_000_000_000, String::new());
            let histogram = [(ns, count)].into_iter().collect();
            SliceForm::of(&HistogramSlice { from_ns, for_ns, operation, kind, histogram })
        };
        for (is_open, known, at_least) in [
            (true, LatencyKind::Response, LatencyKind::ResponseAtLeast),
            (false, LatencyKind::Service, LatencyKind::ServiceAtLeast),
        ] {
            let line = |timeouts| Line {
                seq: 0,
                from_ns: 0,
                for_ns: 1_000_000_000,
                slices: vec![
                    slice(known, 1_000_000, 97),
                    slice(at_least, 1_000_000_000, timeouts),
                    slice(LatencyKind::Failure, 1_000_000_000, timeouts),
                ],
                shown: Some(wire::Shown {
                    t_s: 1.0,
                    interval_s: 1.0,
                    offered_per_s: is_open.then_some(100.0),
                    achieved_per_s: 97.0,
                    backlog: 0,
                    errors: timeouts,
                    outage: false,
                }),
            };
            let progress = together(&[line(3), line(3)], is_open).unwrap();
            assert_eq!(progress.latency.count(), 200, "open loop: {is_open}");
            let summary = progress.latency.summary().unwrap();
            assert!(summary.quantile_ns(3).unwrap() >= 999_000_000, "{summary:?}");
            assert!(
                summary.lower_bounds.contains(&"p99") && !summary.lower_bounds.contains(&"p95"),
                "{summary:?}"
            );
        }
    }

    #[test]
    fn the_lateness_of_one_agent_is_in_the_interval_of_all() {
        let line = |late_ns: u64| {
            let of = |kind, ns: u64| {
                let histogram = std::iter::once((ns, 100)).collect();
                SliceForm::of(&HistogramSlice {
                    from_ns: 0,
                    for_ns: 1,
                    operation: String::new(),
                    kind,
                    histogram,
                })
            };
            let shown = wire::Shown {
                t_s: 1.0,
                interval_s: 1.0,
                offered_per_s: Some(100.0),
                achieved_per_s: 100.0,
                backlog: 0,
                errors: 0,
                outage: false,
            };
            let slices = vec![of(LatencyKind::Response, 5_000_000), of(LatencyKind::Lateness, late_ns)];
            Line { seq: 0, from_ns: 0, for_ns: 1, slices, shown: Some(shown) }
        };
        let lines = [line(1_000), line(900_000_000)];
        let late = together(&lines, true).unwrap().lateness.unwrap();
        assert_eq!(late.count(), 200);
        assert!(late.quantile_ns(0.5) < Some(2_000) && late.quantile_ns(0.99) > Some(890_000_000));
        assert!(together(&lines, false).unwrap().lateness.is_err(), "a closed loop has no due times");
    }
}
