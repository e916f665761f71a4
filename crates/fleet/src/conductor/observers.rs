//! Agents that observe their machine while others generate the load. None of them is needed for the load: if
//! one is lost, its numbers are missing, with the reason.

use std::time::Duration;

use record::agents::Watched;
use record::clock::{Clock as _, Monotonic};
use record::missing::{Maybe, Missing};
use record::series::Sample;

use super::office::{self, Conductor, Observer, Tell, Told};
use crate::clock::Offset;
use crate::error::FleetError;
use crate::received::MESSAGE_BYTES_MAX;
use crate::wire::{self, Hello, Number, Order, SpoolFile, Watch};

/// Attempts to find the end of an observation.
const TRIES: u32 = 20;
/// Attempts that an order without an answer counts for: it has waited as long.
const NO_ANSWER_COUNTS: u32 = 8;
const AGAIN: Duration = Duration::from_millis(250);

/// Whether an agent can observe its machine now.
pub(super) fn observes(hello: &Hello) -> bool {
    hello.observes && hello.version == wire::VERSION && hello.busy.is_none()
}

impl Conductor<'_> {
    /// Chooses as many observing agents as are asked for.
    pub(super) fn chosen_observers(&self, hellos: &[Hello]) -> Result<Vec<Observer>, FleetError> {
        let wanted = self.fleet.asked.observers as usize;
        let fit: Vec<Observer> = hellos
            .iter()
            .filter(|hello| observes(hello))
            .map(|hello| Observer { hello: hello.clone(), before: None, is_collected: false })
            .take(wanted)
            .collect();
        if fit.len() < wanted && !self.fleet.stop.is_requested() {
            return Err(FleetError::Unfit(format!(
                "{} of {wanted} observers are ready: start more with `bakeoff agent --role observe`",
                fit.len()
            )));
        }
        Ok(fit)
    }

    /// Gives the phases to the observers, and reads their clocks.
    pub(super) async fn prepare_observers(&mut self) -> Result<(), FleetError> {
        let settings = &self.fleet.meant.settings;
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let watch = Watch {
            run: wire::observed(&self.fleet.run),
            lead_ns: ns(settings.ramp_up + settings.warmup),
            time_ns: ns(settings.time),
            interval_ns: ns(settings.interval),
        };
        for index in 0..self.observers.len() {
            let hello = &self.observers[index].hello;
            self.command(hello, Order::Watch(watch.clone())).await?;
            let offset = office::offset(&self.client, hello).await;
            let absent = || Self::absent(&hello.agent, "it does not report its clock".to_owned());
            self.observers[index].before = Some(offset.ok_or_else(absent)?);
        }
        Ok(())
    }

    /// Orders the observers to begin with the load.
    pub(super) async fn arm_observers(&self, start_ns: u64) -> Result<(), FleetError> {
        for Observer { hello, before, .. } in &self.observers {
            let Offset { ns, bound_ns } = before.expect("its clock was read before");
            let impossible = || Self::absent(&hello.agent, "its clock is impossible".to_owned());
            let at_ns = start_ns.checked_add_signed(ns).ok_or_else(impossible)?;
            let run = wire::observed(&self.fleet.run);
            self.command(hello, Order::Arm { run, at_ns, bound_ns }).await?;
        }
        Ok(())
    }

    /// Ends the observations. An observer that does not answer ends with its window.
    pub(super) async fn stop_observers(&self) {
        for observer in &self.observers {
            let stop = Order::Stop { run: wire::observed(&self.fleet.run) };
            let _ = self.command(&observer.hello, stop).await;
        }
    }

    /// Hands over what the observers measured.
    pub(super) async fn collect_observers(&mut self, measured_from_ns: u64, tell: Tell<'_>) {
        let time_ns = u64::try_from(self.fleet.meant.settings.time.as_nanos()).unwrap_or(u64::MAX);
        if Monotonic.now_ns() < measured_from_ns.saturating_add(time_ns) {
            self.stop_observers().await;
        }
        for index in 0..self.observers.len() {
            let Hello { agent, host, .. } = self.observers[index].hello.clone();
            let numbers = self.numbers_of(&agent, &host).await;
            self.observers[index].is_collected = numbers.is_ok();
            if let Err(missing) = &numbers {
                let reason = &missing.reason;
                tell(&Told::Note(format!("the numbers of observer {agent} on {host} are missing: {reason}")));
            }
            tell(&Told::Watched(&Watched { agent, host, measured_from_ns, numbers }));
        }
    }

    async fn numbers_of(&self, agent: &str, host: &str) -> Maybe<Vec<Sample>> {
        let mut tries_left = TRIES;
        loop {
            match self.part_of(agent, SpoolFile::End, 0).await {
                Some(bytes) if !bytes.is_empty() => break,
                found => {
                    let costs = if found.is_none() { NO_ANSWER_COUNTS } else { 1 };
                    tries_left = tries_left.saturating_sub(costs);
                }
            }
            if tries_left == 0 {
                return Err(Missing::because("it did not end its observation"));
            }
            tokio::time::sleep(AGAIN).await;
        }
        let mut bytes = Vec::new();
        loop {
            let part = self.part_of(agent, SpoolFile::Observed, bytes.len() as u64).await;
            match part.ok_or_else(|| Missing::because("it was lost before its numbers were read"))? {
                part if part.is_empty() => break,
                part => bytes.extend(part),
            }
            if bytes.len() > MESSAGE_BYTES_MAX {
                return Err(Missing::because("it has more than 64 MiB of numbers: observe less, or for less time"));
            }
        }
        numbers(&bytes, host).ok_or_else(|| Missing::because("its numbers cannot be read"))
    }

    async fn part_of(&self, agent: &str, file: SpoolFile, offset: u64) -> Option<Vec<u8>> {
        let order = Order::Read { run: wire::observed(&self.fleet.run), file, offset, owner: None };
        office::ask_bytes(&self.client, agent, None, order).await.ok().map(|bytes| bytes.to_vec())
    }
}

/// The numbers in an observer's file.
fn numbers(bytes: &[u8], host: &str) -> Option<Vec<Sample>> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let Number { t_ms, name, labels, value } = serde_json::from_slice(line).ok()?;
            Some(Sample { t_ms, host: host.into(), name: name.into(), labels: labels.into(), value })
        })
        .collect()
}
