//! The options that replay an access log, and the schedule and requests that they resolve to.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use archive::event_log::Schedule;
use import::access_log::{self, AccessLog, AccessLogError, Account, Back, DISORDER_S, Methods, Store};
use record::load::rules::Family;
use record::quantity::{plural, written_duration};
use record::replay::Replay;
use record::target::Target;

use crate::exit::{EndsWith as _, Exit};

/// The log of a replay.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Replay of an access log")]
pub(crate) struct ReplayOptions {
    /// Send the requests of this access log at their recorded times: common or combined format (Apache,
    /// nginx) or JSON lines; `-` reads standard input. The target is a host without a path
    #[arg(long, value_name = "ACCESS.LOG", conflicts_with_all = EXCLUDED)]
    replay: Option<String>,

    /// Speed as a multiple of the log's own [default: 1]
    #[arg(long, value_name = "TIMES", requires = "replay", value_parser = speed)]
    speed: Option<f64>,

    /// Replay POST, PUT, PATCH and DELETE as well, which may change data; without bodies, because logs have
    /// none
    #[arg(long, requires = "replay")]
    replay_unsafe: bool,
}

/// Options that define the requests or the schedule, as a replay does.
const EXCLUDED: [&str; 16] = [
    "rate",
    "arrivals",
    "jitter",
    "tx_jitter",
    "think",
    "search",
    "control",
    "ramp_up",
    "ramp_down",
    "method",
    "body",
    "expect_status",
    "requests",
    "data",
    "workload",
    "verify",
];

/// The schedule and the requests of a log.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) schedule: Schedule,
    pub(crate) replay: Replay,
    /// Lines for standard error.
    pub(crate) notices: Vec<String>,
}

impl ReplayOptions {
    /// Whether the log is standard input.
    #[cfg(feature = "fleet")]
    pub(crate) fn reads_standard_input(&self) -> bool {
        self.replay.as_deref() == Some("-")
    }

    /// Reads the log.
    ///
    /// # Errors
    ///
    /// A target that takes no requests, and a log that cannot be replayed.
    pub(crate) fn read(&self, target: &Target) -> anyhow::Result<Option<Replayed>> {
        let Some(log) = &self.replay else { return Ok(None) };
        if Family::of(target) != Some(Family::Web) {
            let text = format!("--replay needs a web server (http:, https:), not {}:", target.scheme());
            return Err(Exit::Usage.with(text));
        }
        let of_log = |error: AccessLogError| {
            let exit = match error {
                AccessLogError::Read { .. } | AccessLogError::Store { .. } => Exit::CannotHere,
                _ => Exit::Usage,
            };
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            exit.with(format!("{log}: {error}{}", source.unwrap_or_default()))
        };
        let files = archive::temporary_file().and_then(|texts| Ok((texts, archive::temporary_file()?)));
        let (texts, ends) = files.map_err(|source| of_log(AccessLogError::Store { source }))?;
        let mut store = Store::new(texts, ends);
        let mut from: Box<dyn Read> = match log.as_str() {
            "-" => Box::new(std::io::stdin().lock()),
            path => {
                let opened = File::open(path).map_err(|e| format!("cannot read {path}: {e}"));
                Box::new(opened.ends_with(Exit::Usage)?)
            }
        };
        let methods = if self.replay_unsafe { Methods::All } else { Methods::Safe };
        let AccessLog { due_ns, account } =
            access_log::read(&mut from, methods, &mut store).map_err(of_log)?;
        let stored = store.finish().map_err(|source| of_log(AccessLogError::Store { source }))?;
        let speed = self.speed.unwrap_or(1.0);
        let schedule = Schedule::of(log, faster(due_ns, speed));
        let notices = notices(log, &account, speed, schedule.recorded.span);
        let replay = Replay {
            log: log.clone(),
            speed,
            requests: account.requests,
            methods: account.methods.keys().copied().collect(),
            left_out: account.left_out_in_all(),
            path_bytes_max: account.path_bytes_max,
            source: Some(Arc::new(stored)),
        };
        Ok(Some(Replayed { schedule, replay, notices }))
    }
}

/// Due times at a multiple of their speed.
fn faster(mut due_ns: Vec<u64>, speed: f64) -> Vec<u64> {
    if (speed - 1.0).abs() > f64::EPSILON {
        for ns in &mut due_ns {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time, from 0 on")]
            let scaled = (*ns as f64 / speed).round() as u64;
            *ns = scaled;
        }
    }
    due_ns
}

/// Account of a log for the user, a line each.
fn notices(log: &str, account: &Account, speed: f64, span: Duration) -> Vec<String> {
    let Account { lines, requests, resolution_ns, late_lines, secrets, older, set_back, .. } = account;
    let resolution = written_duration(Duration::from_nanos(*resolution_ns));
    let seconds = span.as_secs_f64();
    let mut said = vec![
        format!("{log}: {requests} of {}, {seconds:.3} s at {speed} times its speed", plural(*lines, "line")),
        format!("{log}: the resolution of times is {resolution}; equal times are spread evenly over it"),
    ];
    if !account.left_out.is_empty() {
        said.push(format!(
            "{log}: {} left out: {}",
            plural(account.left_out_in_all(), "line"),
            account.reasons()
        ));
    }
    if *secrets > 0 {
        said.push(format!("{log}: {secrets} values that look like credentials are replaced by ***"));
    }
    if *late_lines > 0 {
        said.push(format!(
            "{log}: {} up to {DISORDER_S} s older than an earlier line: due at that line's time",
            plural(*late_lines, "line")
        ));
    }
    if let Some(Back { lines, first, longest_ns }) = older {
        let longest = Duration::from_nanos(*longest_ns).as_secs();
        said.push(format!(
            "{log}: {} up to {longest} s older than an earlier line (first: line {first}): due at that line's \
             time; for their own times, sort the log",
            plural(*lines, "line")
        ));
    }
    if let Some(Back { lines: steps, first, longest_ns }) = set_back {
        let longest = Duration::from_nanos(*longest_ns).as_secs();
        said.push(format!(
            "{log}: clock set back {steps} times, up to {longest} s (first: line {first}): replayed without \
             a gap"
        ));
    }
    said
}

fn speed(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix(['x', 'X']).unwrap_or(text).parse().ok();
    let is_speed = |n: &f64| (1e-3..=1e6).contains(n);
    number
        .filter(is_speed)
        .ok_or_else(|| "expected a multiple such as 2 or 0.5, from 0.001 to 1000000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_scale_to_the_nanosecond() {
        assert_eq!(faster(vec![0, 1_000_000_000, 3_000_000_001], 2.0), [0, 500_000_000, 1_500_000_001]);
        assert_eq!(faster(vec![0, 86_400_000_000_001], 1.0), [0, 86_400_000_000_001]);
        assert_eq!(faster(vec![0, 7], 0.001), [0, 7_000]);
        assert_eq!((speed("2x"), speed("0.5")), (Ok(2.0), Ok(0.5)));
        for wrong in ["", "0", "-1", "fast", "NaN", "inf"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
