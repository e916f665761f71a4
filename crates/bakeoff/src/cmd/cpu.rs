//! `bakeoff cpu`: what every CPU did, by events and by ticks, side by side.

use std::io::Write;
use std::time::Duration;

use probes::cpu_time::{self, Options};
use probes::schedule::Deadlines;
use record::clock::{Clock as _, Monotonic};
use record::quantity;

use crate::cmd::Global;
use crate::exit::Exit;
use crate::screen::{self, Screen};
use crate::signals;

/// Show what every CPU did: busy by events and by ticks, what the ticks left out, switches, the hottest thread
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Seconds between reports, or a duration such as 500ms
    #[arg(value_parser = interval, default_value = "1")]
    interval: Duration,

    /// Number of reports; without it until Ctrl-C
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff cpu 1 5             five reports, one a second
  bakeoff cpu 100ms --json    one JSON object a line, ten a second, until Ctrl-C";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    signals::stop_on_interrupt()?;
    let mut probe = cpu_time::open(&Options::of_this_machine().with_ticks());
    for note in probe.notes() {
        Screen::new().line(&format!("bakeoff cpu: {note}"));
    }
    probe.start();
    let started_ns = Monotonic.now_ns();
    let mut deadlines = Deadlines::new(started_ns, args.interval);
    let mut reports = 0;
    while args.count.is_none_or(|count| reports < count) {
        if !signals::wait_until(deadlines.next_ns()) {
            return Ok(if args.count.is_some() { Exit::Interrupted } else { Exit::Good });
        }
        let mut interval = probe.read();
        interval.missed_deadline = deadlines.answered_at(interval.until_ns) > 0;
        if global.json {
            serde_json::to_writer(&mut *out, &report::json::cpu(&interval, started_ns))?;
            writeln!(out)?;
        } else {
            report::text::cpu_interval(out, &interval, started_ns, screen::style())?;
        }
        out.flush()?;
        reports += 1;
    }
    Ok(Exit::Good)
}

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let written = if text.parse::<f64>().is_ok() { format!("{text}s") } else { text.to_owned() };
    match quantity::duration(&written) {
        Ok(d) if d < Duration::from_millis(100) => Err("the shortest interval is 100ms".into()),
        other => other.map_err(|e| e.to_string()),
    }
}
