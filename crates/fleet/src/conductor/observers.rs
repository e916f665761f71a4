//! Agents that observe their machine while others generate the load. None of them is needed for the load: if
//! one is lost, its numbers are missing, with the reason.

use std::time::Duration;

use record::agents::Watched;
use record::clock::{Clock as _, Monotonic};
use record::missing::{Maybe, Missing};
use record::series::Sample;

use super::office::{self, Conductor, Helper, Tell, Told};
use crate::error::FleetError;
use crate::wire::{self, Hello, Number, Order, SpoolFile, Watch};

/// Whether an agent can observe its machine now.
pub(super) fn observes(hello: &Hello) -> bool {
    hello.observes && hello.version == wire::VERSION && hello.busy.is_none()
}

impl Conductor<'_> {
    /// Chooses as many observing agents as are asked for.
    pub(super) fn chosen_observers(&self, hellos: &[Hello]) -> Result<Vec<Helper>, FleetError> {
        let wanted = self.fleet.asked.observers as usize;
        let run = wire::observed(&self.fleet.run);
        let helper = |hello: &Hello| Helper {
            hello: hello.clone(),
            run: run.clone(),
            before: None,
            is_collected: false,
        };
        let fit: Vec<Helper> =
            hellos.iter().filter(|hello| observes(hello)).map(helper).take(wanted).collect();
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
            let offset = offset.ok_or_else(absent)?;
            self.observers[index].before = Some(offset);
        }
        Ok(())
    }

    /// Ends the work of the helpers if the load ended before its measured phase did.
    pub(super) async fn end_helpers(&self, measured_from_ns: u64) {
        let time_ns = u64::try_from(self.fleet.meant.settings.time.as_nanos()).unwrap_or(u64::MAX);
        if Monotonic.now_ns() < measured_from_ns.saturating_add(time_ns) {
            self.stop_helpers().await;
        }
    }

    /// Hands over what the observers measured.
    pub(super) async fn collect_observers(&mut self, measured_from_ns: u64, tell: Tell<'_>) {
        for index in 0..self.observers.len() {
            let numbers = self.numbers_of(&self.observers[index]).await;
            self.observers[index].is_collected = numbers.is_ok();
            let Hello { agent, host, .. } = self.observers[index].hello.clone();
            if let Err(missing) = &numbers {
                let reason = &missing.reason;
                tell(&Told::Note(format!("the numbers of observer {agent} on {host} are missing: {reason}")));
            }
            tell(&Told::Watched(&Watched { agent, host, measured_from_ns, numbers }));
        }
    }

    async fn numbers_of(&self, observer: &Helper) -> Maybe<Vec<Sample>> {
        self.end_of(observer).await?;
        let bytes = self.file_of(observer, SpoolFile::Observed).await?;
        let found = numbers(&bytes, &observer.hello.host);
        found.ok_or_else(|| Missing::because("its numbers cannot be read"))
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
