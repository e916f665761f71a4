//! Agents that observe their machine while others generate the load. None of them is needed for the load: if
//! one is lost, its numbers are missing, with the reason.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::Client;
use record::agents::{Observation, Watched};
use record::clock::{Clock as _, Monotonic};
use record::missing::{Maybe, Missing};
use record::series::{Sample, SharedText};

use super::office::{self, Conductor, Helper, Tell, Told};
use super::parts::{Limit, Place, each_part};
use crate::error::FleetError;
use crate::received::MESSAGE_BYTES_MAX;
use crate::wire::{self, Hello, Number, Order, Seen, SpoolFile, WHY_BYTES_MAX, Watch};

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
            let (observer, limit) = (&self.observers[index], self.limit());
            let Hello { agent, host, .. } = observer.hello.clone();
            let others = self.observers.iter().map(|observer| observer.hello.host.as_str());
            let host = machine(&host, &agent, others);
            let read = match self.end_of(observer, OBSERVER_TRIES, &limit).await {
                Ok(_) => {
                    let place = observer.place(SpoolFile::Observed);
                    observation(&self.client, place, &limit, &host).await
                }
                Err(missing) => Err(missing),
            };
            self.observers[index].is_collected = read.is_ok();
            let seen = read.flatten();
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

/// The observation in an observer's file; the inner result is that of the observer. The numbers are parsed
/// while they are read.
pub(super) async fn observation(
    client: &Client,
    place: Place<'_>,
    limit: &Limit<'_>,
    host: &str,
) -> Maybe<Maybe<Observation>> {
    let mut reading = Reading::new(host);
    each_part(client, place, limit, MESSAGE_BYTES_MAX, &mut |part| reading.take(part)).await?;
    Ok(reading.end())
}

/// Longest line of an observation, and longest name and labels of a number. Labels have names of functions,
/// which have no longest one: they are cut.
const LINE_BYTES_MAX: usize = 1 << 20;
const NAME_BYTES_MAX: usize = 256;
const LABELS_BYTES_MAX: usize = 4 << 10;
/// Most parts of an observation that are missing, and longest name of one: an instrument has a few letters.
const MISSING_MAX: usize = 64;
const PART_BYTES_MAX: usize = 64;

/// An observer's file that is being read.
struct Reading {
    host: SharedText,
    found: Observation,
    /// Names and labels: a million numbers have few.
    texts: BTreeSet<SharedText>,
    /// The beginning of a line.
    line: Vec<u8>,
    /// Reason for the missing observation.
    failed: Option<Missing>,
}

impl Reading {
    fn new(host: &str) -> Self {
        let (found, texts) = (Observation::default(), BTreeSet::new());
        Self { host: host.into(), found, texts, line: Vec::new(), failed: None }
    }

    /// Takes the next part of the file.
    fn take(&mut self, part: &[u8]) {
        let mut rest = part;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            self.take_line();
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > LINE_BYTES_MAX {
            self.fail();
        }
    }

    fn fail(&mut self) {
        self.line.clear();
        self.failed.get_or_insert_with(|| Missing::because("its numbers cannot be read"));
    }

    fn take_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() || self.failed.is_some() {
            return;
        }
        match serde_json::from_slice(&line) {
            Ok(Seen::Number(Number { t_ms, name, labels, value })) if name.len() <= NAME_BYTES_MAX => {
                let labels = wire::cut(labels, LABELS_BYTES_MAX);
                let (host, name, labels) = (self.host.clone(), self.shared(&name), self.shared(&labels));
                self.found.numbers.push(Sample { t_ms, host, name, labels, value });
            }
            Ok(Seen::Missing { part: Some(part), why })
                if part.len() <= PART_BYTES_MAX && self.found.missing.len() < MISSING_MAX =>
            {
                let why = Missing::because(wire::cut(why, WHY_BYTES_MAX));
                self.found.missing.insert(part, why);
            }
            Ok(Seen::Missing { part: None, why }) => {
                self.failed = Some(Missing::because(wire::cut(why, WHY_BYTES_MAX)));
            }
            _ => self.fail(),
        }
    }

    fn shared(&mut self, text: &str) -> SharedText {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new = SharedText::from(text);
        self.texts.insert(new.clone());
        new
    }

    fn end(mut self) -> Maybe<Observation> {
        self.take_line();
        self.failed.map_or(Ok(self.found), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seen: &Seen) -> Vec<u8> {
        [wire::bytes(seen), vec![b'\n']].concat()
    }

    fn missing(part: &str, why: &str) -> Vec<u8> {
        line(&Seen::Missing { part: Some(part.to_owned()), why: why.to_owned() })
    }

    fn number(name: &str, labels: &str) -> Vec<u8> {
        line(&Seen::Number(Number { t_ms: 1, name: name.into(), labels: labels.into(), value: 0.5 }))
    }

    fn read(file: &[u8], step: usize) -> Maybe<Observation> {
        let mut reading = Reading::new("db1");
        file.chunks(step).for_each(|part| reading.take(part));
        reading.end()
    }

    #[test]
    fn a_file_cut_at_any_place_is_the_same_observation() {
        let file =
            [number("a", "cpu=1"), missing("io", "no BPF"), number("b", ""), number("a", "cpu=1")].concat();
        let whole = read(&file, file.len()).unwrap();
        assert_eq!((whole.numbers.len(), whole.missing["io"].reason.as_str()), (3, "no BPF"));
        for step in 1..file.len() {
            assert_eq!(read(&file, step).as_ref(), Ok(&whole), "{step}");
        }
        // Without the end of its last line.
        assert_eq!(read(&file[..file.len() - 1], 7), Ok(whole));
        assert!(read(&file[..file.len() - 2], 7).is_err());
    }

    #[test]
    fn texts_of_any_number_and_length_do_not_get_into_a_run() {
        let why = "x".repeat(9 << 20);
        let seen = read(&missing("io", &why[..LINE_BYTES_MAX / 2]), 4_096).unwrap();
        assert_eq!(seen.missing["io"].reason.len(), WHY_BYTES_MAX);
        let seen = read(&number("a", &why[..LINE_BYTES_MAX / 2]), 4_096).unwrap();
        assert_eq!(seen.numbers[0].labels.len(), LABELS_BYTES_MAX);
        let all = |n: usize| (0..n).flat_map(|n| missing(&format!("i{n}"), "no")).collect::<Vec<u8>>();
        assert_eq!(read(&all(MISSING_MAX), 512).unwrap().missing.len(), MISSING_MAX);
        let failure = line(&Seen::Missing { part: None, why: why[..LINE_BYTES_MAX / 2].to_owned() });
        assert_eq!(read(&failure, 512).unwrap_err().reason.len(), WHY_BYTES_MAX);
        for refused in [
            missing("io", &why),
            all(MISSING_MAX + 1),
            missing(&why[..=PART_BYTES_MAX], "no"),
            number(&why[..=NAME_BYTES_MAX], ""),
            b"garbage\n".to_vec(),
        ] {
            let found = read(&[number("a", ""), refused].concat(), 4_096);
            assert_eq!(found, Err(Missing::because("its numbers cannot be read")));
        }
    }
}
