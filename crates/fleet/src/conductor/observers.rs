//! Agents that observe their machine while others generate the load. None of them is needed for the load: if
//! one is lost, its numbers are missing, with the reason.

use std::time::Duration;

use record::agents::{Observation, Watched};
use record::clock::{Clock as _, Monotonic};
use record::missing::{Maybe, Missing};
use record::series::{Sample, SharedText};

use super::office::{self, Conductor, Helper, Tell, Told};
use crate::error::FleetError;
use crate::wire::{self, Hello, Number, Order, Seen, SpoolFile, Watch};

/// Attempts to find the end of an observation: a profile's functions get their names after the load.
const OBSERVER_TRIES: u32 = 240;

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
            owner: None,
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
            let observer = &self.observers[index];
            let bytes = match self.end_of(observer, OBSERVER_TRIES).await {
                Ok(_) => self.file_of(observer, SpoolFile::Observed).await,
                Err(missing) => Err(missing),
            };
            self.observers[index].is_collected = bytes.is_ok();
            let Hello { agent, host, .. } = self.observers[index].hello.clone();
            let others = self.observers.iter().map(|observer| observer.hello.host.as_str());
            let host = machine(&host, &agent, others);
            let seen = bytes.and_then(|bytes| observation(&bytes, &host));
            tell_of(&Watched { agent, host, measured_from_ns, seen }, tell);
        }
    }
}

/// The machine of an agent, by a name that tells its numbers from those of another agent there.
pub(super) fn machine<'a>(host: &str, agent: &str, hosts: impl Iterator<Item = &'a str>) -> String {
    let is_shared = hosts.filter(|other| *other == host).count() > 1;
    if is_shared { format!("{host} ({agent})") } else { host.to_owned() }
}

/// Hands over an observation, and tells what is missing.
pub(super) fn tell_of(watched: &Watched, tell: Tell<'_>) {
    match &watched.seen {
        Err(why) => tell(&Told::Note(format!("{}: its numbers are missing: {why}", watched.name_of(None)))),
        Ok(seen) => seen.missing.iter().for_each(|(part, why)| {
            tell(&Told::Note(format!("{}: {why}", watched.name_of(Some(part)))));
        }),
    }
    tell(&Told::Watched(watched));
}

/// The observation in an observer's file.
pub(super) fn observation(bytes: &[u8], host: &str) -> Maybe<Observation> {
    let mut found = Observation::default();
    let host = SharedText::from(host);
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(Seen::Number(Number { t_ms, name, labels, value })) => {
                let (name, labels) = (name.into(), labels.into());
                found.numbers.push(Sample { t_ms, host: host.clone(), name, labels, value });
            }
            Ok(Seen::Missing { part: Some(part), why }) => {
                found.missing.insert(part, Missing::because(why));
            }
            Ok(Seen::Missing { part: None, why }) => return Err(Missing::because(why)),
            Err(_) => return Err(Missing::because("its numbers cannot be read")),
        }
    }
    Ok(found)
}
