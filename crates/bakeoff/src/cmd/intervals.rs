//! The loop of the commands that report an instrument at intervals: `cpu`, `io`, `nic`, `locks`, `ulocks` and
//! `memory`.

use std::io::Write;
use std::time::Duration;

use probes::cost::Cost;
use probes::process_time::Watched;
use probes::schedule::Deadlines;
use record::instruments::Timed;
use record::missing::Maybe;
use record::quantity;
use serde_json::Value;

use crate::cmd::Global;
use crate::confine;
use crate::exit::{self, Exit};
use crate::own_cost::OwnCost;
use crate::screen::Screen;
use crate::signals;

/// Interval and number of reports.
#[derive(Debug, clap::Args)]
pub(crate) struct Schedule {
    /// Seconds between reports, or a duration such as 500ms
    #[arg(value_parser = interval, default_value = "1")]
    pub(crate) interval: Duration,

    /// Number of reports; without it until Ctrl-C
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

/// One command in the loop.
pub(crate) trait Reporter {
    /// One interval of the instrument.
    type Interval: Timed;

    /// The command, as users type it.
    const COMMAND: &'static str;

    /// Begins the first interval; returns its start.
    fn start(&mut self) -> anyhow::Result<u64>;

    /// The only watched process: the reports end when it exits.
    fn only(&self) -> Option<u32> {
        None
    }

    /// Prints the head above all reports.
    fn head(&mut self, _: &mut dyn Write) -> anyhow::Result<()> {
        Ok(())
    }

    /// Sleeps until the deadline; `false` if a signal asked to end before.
    fn wait_until(&mut self, deadline_ns: u64) -> bool {
        signals::wait_until(deadline_ns)
    }

    /// Ends the interval; the next one begins.
    fn read(&mut self) -> anyhow::Result<Self::Interval>;

    /// Sentences on what changed since the last call, and what it means for the figures.
    fn news(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Cost of the instrument's programs in the kernel so far; `None` if it has no programs.
    fn cost(&mut self) -> Option<Maybe<Cost>>;

    /// The report for programs.
    fn document(&mut self, interval: &Self::Interval, report: Report) -> Value;

    /// The report for people, or as CSV.
    fn print(&mut self, out: &mut dyn Write, interval: &Self::Interval, report: Report)
    -> anyhow::Result<()>;

    /// Does the remaining work after the last report.
    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// One report among all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    /// Start of the first interval.
    pub(crate) started_ns: u64,
    /// Reports before this one.
    pub(crate) number: u64,
    /// Whether the interval was not cut short by a signal.
    pub(crate) is_whole: bool,
}

/// Reports at each deadline, and once more when a signal asks to end.
///
/// - `open`: opens the instrument, and prints its notes. Signals are handled by then, and no rights are
///   dropped yet.
pub(crate) fn report<R: Reporter>(
    schedule: &Schedule,
    global: &Global,
    out: &mut dyn Write,
    open: impl FnOnce() -> anyhow::Result<R>,
) -> anyhow::Result<Exit> {
    signals::stop_on_interrupt()?;
    let mut reporter = open()?;
    let started_ns = reporter.start()?;
    for text in reporter.news() {
        note(R::COMMAND, &text);
    }
    confine::after_setup();
    let own = OwnCost::start();
    let exit = each(&mut reporter, schedule, (started_ns, &own), global.json, out)?;
    own.tell(R::COMMAND, reporter.cost());
    reporter.finish()?;
    Ok(exit)
}

fn each<R: Reporter>(
    reporter: &mut R,
    schedule: &Schedule,
    (started_ns, own): (u64, &OwnCost),
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let mut deadlines = Deadlines::new(started_ns, schedule.interval);
    let only = reporter.only().map(Watched::of);
    let mut number = 0;
    if !json && !is_read(reporter.head(out))? {
        return Ok(Exit::Good);
    }
    loop {
        let is_whole = reporter.wait_until(deadlines.next_ns());
        // Before the reading, so that the last interval contains all work of the process.
        let has_ended = has_ended(only);
        let mut interval = reporter.read()?;
        let news = reporter.news();
        for text in &news {
            note(R::COMMAND, text);
        }
        // An interval that a signal ended may have been late already.
        interval.set_missed_deadline(deadlines.answered_at(interval.until_ns()) > 0);
        let report = Report { started_ns, number, is_whole };
        if !is_read(write(reporter, &interval, (report, &news), own, json, out))? {
            return Ok(Exit::Good);
        }
        number += 1;
        if !is_whole {
            return Ok(if schedule.count.is_some() { Exit::Interrupted } else { Exit::Good });
        }
        if has_ended || schedule.count == Some(number) {
            return Ok(Exit::Good);
        }
    }
}

fn write<R: Reporter>(
    reporter: &mut R,
    interval: &R::Interval,
    (report, news): (Report, &[String]),
    own: &OwnCost,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if json {
        let mut document = reporter.document(interval, report);
        own.add_to(&mut document, reporter.cost());
        if !news.is_empty() {
            document["news"] = news.into();
        }
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
    } else {
        reporter.print(out, interval, report)?;
    }
    Ok(out.flush()?)
}

/// Whether the reader of standard output is still there: `head` closes its end after its last line.
fn is_read(written: anyhow::Result<()>) -> anyhow::Result<bool> {
    match written {
        Err(error) if exit::reader_has_gone(&error) => Ok(false),
        written => written.map(|()| true),
    }
}

/// Whether the only watched process has exited; a line on standard error reports it.
pub(crate) fn has_ended(only: Option<Watched>) -> bool {
    let ended = only.filter(Watched::has_ended);
    if let Some(process) = ended {
        Screen::new().line(&format!("bakeoff: process {} has ended", process.pid()));
    }
    ended.is_some()
}

/// Prints a note of the instrument on standard error.
pub(crate) fn note(command: &str, text: &str) {
    Screen::new().line(&format!("bakeoff {command}: {text}"));
}

/// Reads the time between two reports.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let written = if text.parse::<f64>().is_ok() { format!("{text}s") } else { text.to_owned() };
    match quantity::duration(&written) {
        Ok(d) if d < Duration::from_millis(100) => Err("the shortest interval is 100ms".into()),
        other => other.map_err(|e| e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use record::memory::MemoryInterval;
    use record::missing::Missing;
    use serde_json::json;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A reporter that reads at these times; a signal comes before the last one.
    struct Toy {
        until_ns: Vec<u64>,
        only: Option<u32>,
    }

    impl Reporter for Toy {
        type Interval = MemoryInterval;
        const COMMAND: &'static str = "toy";

        fn start(&mut self) -> anyhow::Result<u64> {
            Ok(0)
        }

        fn only(&self) -> Option<u32> {
            self.only
        }

        fn head(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
            Ok(writeln!(out, "head")?)
        }

        fn wait_until(&mut self, _: u64) -> bool {
            self.until_ns.len() > 1
        }

        fn read(&mut self) -> anyhow::Result<MemoryInterval> {
            let until_ns = self.until_ns.remove(0);
            let machine = Err(Missing::because("a toy"));
            let processes = Vec::new();
            Ok(MemoryInterval { from_ns: 0, until_ns, missed_deadline: false, machine, processes, ended: 0 })
        }

        fn news(&mut self) -> Vec<String> {
            if self.until_ns.len() == 1 { vec!["its group is gone".to_owned()] } else { Vec::new() }
        }

        fn cost(&mut self) -> Option<Maybe<Cost>> {
            None
        }

        fn document(&mut self, interval: &MemoryInterval, report: Report) -> Value {
            json!({ "missed": interval.missed_deadline, "number": report.number, "whole": report.is_whole })
        }

        fn print(&mut self, out: &mut dyn Write, interval: &MemoryInterval, _: Report) -> anyhow::Result<()> {
            Ok(writeln!(out, "until {} missed {}", interval.until_ns, interval.missed_deadline)?)
        }
    }

    fn run(toy: &mut Toy, count: Option<u64>, json: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
        let schedule = Schedule { interval: Duration::from_secs(1), count };
        each(toy, &schedule, (0, &OwnCost::start()), json, out)
    }

    fn toy(until_s: &[u64]) -> Toy {
        Toy { until_ns: until_s.iter().map(|s| s * SECOND_NS).collect(), only: None }
    }

    #[test]
    fn the_interval_that_a_signal_cuts_short_is_reported_and_without_a_count_that_is_good() {
        for (count, exit) in [(None, Exit::Good), (Some(9), Exit::Interrupted)] {
            let (mut toy, mut out) = (toy(&[1, 2, 2]), Vec::new());
            assert_eq!(run(&mut toy, count, true, &mut out).unwrap(), exit);
            let lines: Vec<Value> =
                str::from_utf8(&out).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
            assert_eq!(lines.len(), 3);
            assert!(lines.iter().all(|line| line["own_cost"]["process_ratio"].is_number()), "{lines:?}");
            assert_eq!((&lines[2]["number"], &lines[2]["whole"]), (&json!(2), &json!(false)));
            // Of three readings, the second.
            let news: Vec<&Value> = lines.iter().map(|line| &line["news"]).collect();
            assert_eq!(news, [&Value::Null, &json!(["its group is gone"]), &Value::Null]);
        }
    }

    #[test]
    fn a_missed_deadline_is_reported_also_where_a_signal_ends_the_interval() {
        let (mut toy, mut out) = (toy(&[1, 4, 7]), Vec::new());
        run(&mut toy, None, false, &mut out).unwrap();
        assert_eq!(
            str::from_utf8(&out).unwrap(),
            "head\nuntil 1000000000 missed false\nuntil 4000000000 missed true\nuntil 7000000000 missed true\n"
        );
    }

    #[test]
    fn the_reports_end_at_their_number_and_with_the_only_process() {
        let (mut toy, mut out) = (toy(&[1, 2, 3, 4]), Vec::new());
        assert_eq!(run(&mut toy, Some(2), true, &mut out).unwrap(), Exit::Good);
        assert_eq!(toy.until_ns.len(), 2);
        // The highest possible id, which no process has.
        toy.only = Some(u32::MAX >> 1);
        assert_eq!(run(&mut toy, None, true, &mut out).unwrap(), Exit::Good);
        assert_eq!(toy.until_ns.len(), 1);
    }

    #[test]
    fn a_reader_that_closes_its_end_ends_the_reports_and_is_no_error() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for (json, unread) in [(false, 3), (true, 2)] {
            let mut toy = toy(&[1, 2, 3]);
            assert_eq!(run(&mut toy, Some(3), json, &mut Gone).unwrap(), Exit::Good);
            assert_eq!(toy.until_ns.len(), unread);
        }
    }
}
