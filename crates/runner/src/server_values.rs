//! The server's own numbers over time: a command at the end of each interval, on a separate thread, so that
//! a slow command delays nothing.
//!
//! The commands are not in the server's control group: what they use is not the server's.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, ScopedJoinHandle};

use load::{Event, Stop};
use plan::ServerValues;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::load::Phase;
use record::missing::Missing;
use record::series::{Sample, SharedText};

use crate::process::{Placement, Process, Waited};
use crate::strays::VARIABLE;
use crate::workspace::Workspace;

/// Most numbers of one reading that are stored.
const NUMBERS_MAX: usize = 1_000;

/// One number of one reading.
#[derive(Debug)]
struct Number {
    at_ns: u64,
    /// Number of the instance; `None` if there is one only.
    instance: Option<usize>,
    series: String,
    name: String,
    value: f64,
}

/// Readings of the thread.
#[derive(Debug, Default)]
struct Found {
    numbers: Vec<Number>,
    /// Readings that failed, and the first reason, by series.
    failed: BTreeMap<String, (u32, String)>,
}

/// Reads the values while a load runs.
pub(crate) struct Reader<'scope> {
    ticks: Option<SyncSender<()>>,
    thread: ScopedJoinHandle<'scope, Found>,
    /// Intervals without a reading, because the commands before them were not done.
    skipped: u32,
}

impl<'scope> Reader<'scope> {
    /// Starts the thread; `None` without values.
    ///
    /// - `values`: of each instance.
    pub(crate) fn start<'env>(
        scope: &'scope thread::Scope<'scope, 'env>,
        values: Vec<Vec<ServerValues>>,
        workspace: &'env Workspace,
        stop: &'env Stop,
    ) -> Option<Self> {
        if values.iter().all(Vec::is_empty) {
            return None;
        }
        let (ticks, ticked) = mpsc::sync_channel(1);
        let read = move || read_all(&values, &ticked, workspace, stop);
        Some(Self { ticks: Some(ticks), thread: scope.spawn(read), skipped: 0 })
    }

    /// Asks for a reading at the beginning of the measured phase and at the end of each interval.
    pub(crate) fn follow(&mut self, event: &Event) {
        let is_due = match event {
            Event::PhaseStarts { phase, .. } => *phase == Phase::Measure,
            Event::Interval(progress) => progress.phase == Phase::Measure,
            _ => false,
        };
        if let (true, Some(ticks)) = (is_due, &self.ticks) {
            self.skipped += u32::from(ticks.try_send(()).is_err());
        }
    }

    /// Waits for the last reading. Adds the numbers to `series`, and the reasons for missing ones to
    /// `missing`.
    pub(crate) fn end(
        mut self,
        (host, anchor): (&str, WallAnchor),
        series: &mut Vec<Sample>,
        missing: &mut BTreeMap<String, Missing>,
    ) {
        drop(self.ticks.take());
        let Ok(found) = self.thread.join() else { return };
        let host = SharedText::from(host);
        let labels_of = |number: &Number| {
            let instance = number.instance.map(|instance| format!("instance={instance}"));
            let name = (!number.name.is_empty()).then(|| format!("name={}", number.name));
            instance.into_iter().chain(name).collect::<Vec<_>>().join(",")
        };
        let sample = |number: Number| Sample {
            t_ms: i64::try_from(number.at_ns.saturating_sub(anchor.monotonic_ns) / 1_000_000)
                .unwrap_or(i64::MAX),
            host: host.clone(),
            labels: labels_of(&number).into(),
            name: number.series.into(),
            value: number.value,
        };
        series.extend(found.numbers.into_iter().map(sample));
        for (name, (times, why)) in found.failed {
            missing.insert(
                format!("values.{name}"),
                Missing::because(format!("{times} readings failed: {why}")),
            );
        }
        if self.skipped > 0 {
            let why =
                format!("{} readings were skipped: the commands take longer than an interval", self.skipped);
            missing.entry("values".to_owned()).or_insert_with(|| Missing::because(why));
        }
    }
}

fn read_all(
    values: &[Vec<ServerValues>],
    ticked: &Receiver<()>,
    workspace: &Workspace,
    stop: &Stop,
) -> Found {
    let mut found = Found::default();
    while ticked.recv().is_ok() {
        let numbered = (1..).zip(values).flat_map(|(n, values)| values.iter().map(move |value| (n, value)));
        for (instance, value) in numbered {
            let at_ns = Monotonic.now_ns();
            match read(value, workspace, stop) {
                Ok(text) => {
                    let numbers = numbers(&text, value.keep.as_deref());
                    if numbers.is_empty() {
                        note(&mut found.failed, &value.name, "it printed no number to store".to_owned());
                    }
                    found.numbers.extend(numbers.into_iter().map(|(name, number)| Number {
                        at_ns,
                        instance: (values.len() > 1).then_some(instance),
                        series: value.name.clone(),
                        name,
                        value: number,
                    }));
                }
                Err(why) => note(&mut found.failed, &value.name, why),
            }
        }
    }
    found
}

fn note(failed: &mut BTreeMap<String, (u32, String)>, name: &str, why: String) {
    failed.entry(name.to_owned()).or_insert((0, why)).0 += 1;
}

/// Runs the command once, outside of the server's control group, and returns its output.
pub(crate) fn read(value: &ServerValues, workspace: &Workspace, stop: &Stop) -> Result<String, String> {
    let log = workspace.log(&format!("{}.log", value.name)).map_err(|e| format!("no log: {e}"))?;
    let mut command = workspace.shell(&value.step.command);
    // The mark would make it one of the server's processes.
    command.env_remove(VARIABLE);
    let placement = Placement { group: None, ..workspace.placement() };
    let mut process =
        Process::start(command, &placement, &log).map_err(|e| format!("cannot start sh: {e}"))?;
    let waited = process.wait(value.step.timeout, stop);
    let status = process.finish().map_err(|e| e.to_string())?;
    match waited {
        Waited::Stopped => Err("stopped by the user".to_owned()),
        Waited::TimedOut => Err(format!("did not end within {:?}", value.step.timeout)),
        Waited::Done if status.success() => log.text().map_err(|e| e.to_string()),
        Waited::Done => Err(format!("ended with {status}{}", log.last_words())),
    }
}

/// Names and numbers, one a line: `Threads_running 4`, `connected_clients:3`, `STAT curr_items 7`, `x = 1.5`;
/// a line that is only a number has an empty name. Other lines are left out.
fn numbers(text: &str, keep: Option<&[String]>) -> Vec<(String, f64)> {
    let number = |text: &str| text.trim().parse().ok().filter(|n: &f64| n.is_finite());
    let of_line = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("STAT ").unwrap_or(line);
        if let Some(value) = number(line) {
            return Some((String::new(), value));
        }
        let (name, value) = line.rsplit_once(['\t', ' ', ':', '='])?;
        let name = name.trim().trim_end_matches([':', '=']).trim_end();
        Some((label(name), number(value)?)).filter(|(name, _)| !name.is_empty())
    };
    let is_kept = |(name, _): &(String, f64)| keep.is_none_or(|keep| keep.contains(name));
    text.lines().filter_map(of_line).filter(is_kept).take(NUMBERS_MAX).collect()
}

/// Escapes a label's value: commas separate labels.
pub(crate) fn label(text: &str) -> String {
    text.replace(',', ";").replace('=', ":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_of_themselves_is_read_line_by_line() {
        let read = |text: &str| numbers(text, None);
        let one = |name: &str, value: f64| vec![(name.to_owned(), value)];
        assert_eq!(read("Threads_running\t4\nVersion\t10.11.6-MariaDB\n"), one("Threads_running", 4.0));
        assert_eq!(
            read("# Clients\r\nconnected_clients:3\r\nrole:master\r\n"),
            one("connected_clients", 3.0)
        );
        assert_eq!(read("STAT curr_items 7\nSTAT version 1.6.18\nEND\n"), one("curr_items", 7.0));
        assert_eq!(read("x = 1.5\n"), one("x", 1.5));
        assert_eq!(read(" 42 \n"), one("", 42.0));
        assert_eq!(read("inf\nnan\nx nan\n\n"), []);
        let keep = ["b".to_owned()];
        assert_eq!(numbers("a 1\nb 2\nc 3\n", Some(&keep)), one("b", 2.0));
    }
}
