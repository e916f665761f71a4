//! Progress during the run, and statistics at its end.

use super::args::{Args, Stats};
use super::input::Input;
use super::outcome::say;
use super::printable::printable_json;
use serde_json::json;
use std::fmt::{self, Display, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tamp::{Meter, Reading};

/// Delay before the first progress line: a short job shows none.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Time between two updates.
const PAUSE: Duration = Duration::from_millis(200);

/// Returns to the beginning of the line and erases it.
const CLEAR_LINE: &str = "\r\x1b[K";

/// Direction of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Compress,
    Decompress,
}

/// One file's progress.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) meter: Arc<Meter>,
    name: String,
    /// Name for programs.
    real_name: String,
    way: Way,
    /// Size of the input in bytes, if known.
    total_bytes: Option<u64>,
    draws: bool,
    /// Time of the next update, in milliseconds since the start.
    due_ms: AtomicU64,
    drawn: AtomicU64,
}

impl Watch {
    pub(crate) fn new(args: &Args, input: &Input, way: Way, total_bytes: Option<u64>) -> Self {
        // Content on a terminal would mix with a progress line.
        let draws = !args.quiet && io::stderr().is_terminal() && !(args.stdout && io::stdout().is_terminal());
        let first_ms = u64::try_from(FIRST_LOOK.as_millis()).expect("a second");
        Self {
            meter: Arc::new(Meter::new()),
            name: input.name(),
            real_name: input.real_name(),
            way,
            total_bytes,
            draws,
            due_ms: AtomicU64::new(first_ms),
            drawn: AtomicU64::new(0),
        }
    }

    /// Prints the progress line from a signal handler, without allocating or locking.
    pub(crate) fn tell(&self) {
        let mut text = Short::default();
        if self.drawn.swap(0, Relaxed) != 0 {
            let _ = text.write_str(CLEAR_LINE);
        }
        // A line with a very long name is cut.
        let _ = write!(text, "tamp: {}", self.line(&self.meter.read()));
        // Standard error may be closed.
        let _ = rustix::io::write(rustix::stdio::stderr(), text.ended());
    }

    /// Updates the line if it is due. Cheap enough to call after every block.
    pub(crate) fn look_up(&self) {
        if !self.draws {
            return;
        }
        let reading = self.meter.read();
        let elapsed_ms = u64::try_from(reading.elapsed.as_millis()).unwrap_or(u64::MAX);
        let due_ms = self.due_ms.load(Relaxed);
        let pause_ms = u64::try_from(PAUSE.as_millis()).expect("under a second");
        // Only one of several workers draws.
        let mine = elapsed_ms >= due_ms
            && self.due_ms.compare_exchange(due_ms, elapsed_ms + pause_ms, Relaxed, Relaxed).is_ok();
        if mine {
            self.drawn.store(1, Relaxed);
            let line = self.line(&reading).to_string();
            let _ = write!(io::stderr(), "{CLEAR_LINE}{}", fitting(&line, columns()));
        }
    }

    /// Removes the progress line, so other lines can be printed.
    pub(crate) fn clear(&self) {
        if self.drawn.swap(0, Relaxed) != 0 {
            let _ = write!(io::stderr(), "{CLEAR_LINE}");
        }
    }

    /// Removes the line; prints the results of `--verbose` and `--stats`.
    pub(crate) fn finish(&self, args: &Args, serial: Option<&'static str>) {
        self.clear();
        let reading = self.meter.read();
        if args.verbose {
            let (content, packed) = self.sizes(&reading);
            let reduction = reduction_pct(content, packed);
            say(&format_args!("{}: {reduction:.1}% of {}", self.name, amount(content)));
        }
        if let Some(why) = serial.filter(|_| args.verbose || args.stats.is_some()) {
            say(&format_args!("{}: decoded by a single thread: {why}", self.name));
        }
        match args.stats {
            None => {}
            Some(Stats::Text) => say(&self.stats_text(&reading)),
            Some(Stats::Json) => {
                let _ = writeln!(io::stderr(), "{}", printable_json(&self.stats_json(&reading, serial)));
            }
        }
    }

    fn sizes(&self, reading: &Reading) -> (u64, u64) {
        match self.way {
            Way::Compress => (reading.in_bytes, reading.out_bytes),
            Way::Decompress => (reading.out_bytes, reading.in_bytes),
        }
    }

    fn line<'a>(&'a self, reading: &'a Reading) -> Line<'a> {
        Line { watch: self, reading }
    }

    fn stats_text(&self, reading: &Reading) -> String {
        let shares = Shares::of(reading);
        format!(
            "{}: {:.3} s, {}/s, {} threads used of {}; starved {:.0}%, codec {:.0}%, blocked {:.0}%: {} is the bottleneck; peak memory {}",
            self.name,
            reading.elapsed.as_secs_f64(),
            Rounded(self.sizes(reading).0 as f64 / reading.elapsed.as_secs_f64()),
            format_args!("{:.1}", threads_used(reading)),
            reading.workers_max,
            shares.starved_ratio * 100.0,
            shares.codec_ratio * 100.0,
            shares.blocked_ratio * 100.0,
            shares.bottleneck(),
            memory_bytes_max().map_or_else(|| "unknown".to_owned(), |bytes| amount(bytes).to_string()),
        )
    }

    fn stats_json(&self, reading: &Reading, serial: Option<&'static str>) -> serde_json::Value {
        let shares = Shares::of(reading);
        let elapsed_s = reading.elapsed.as_secs_f64();
        json!({
            "schema": "tamp.stats/1",
            "file": self.real_name,
            "operation": match self.way { Way::Compress => "compress", Way::Decompress => "decompress" },
            "in_bytes": reading.in_bytes,
            "out_bytes": reading.out_bytes,
            "elapsed_s": elapsed_s,
            "content_bytes_per_s": self.sizes(reading).0 as f64 / elapsed_s,
            "starved_ratio": shares.starved_ratio,
            "codec_ratio": shares.codec_ratio,
            "blocked_ratio": shares.blocked_ratio,
            "bottleneck": shares.bottleneck(),
            "threads_used": threads_used(reading),
            "threads_max": reading.workers_max,
            "memory_bytes_max": memory_bytes_max(),
            "serial": serial,
        })
    }
}

/// Text of a progress line.
struct Line<'a> {
    watch: &'a Watch,
    reading: &'a Reading,
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { watch, reading } = self;
        let (content, packed) = watch.sizes(reading);
        let elapsed_s = reading.elapsed.as_secs_f64();
        write!(
            f,
            "{}: {} -> {} ({:.1}%), {}/s",
            watch.name,
            amount(reading.in_bytes),
            amount(reading.out_bytes),
            reduction_pct(content, packed),
            Rounded(content as f64 / elapsed_s)
        )?;
        let done_ratio = watch.total_bytes.map(|total_bytes| reading.in_bytes as f64 / total_bytes as f64);
        // A size hint may be wrong, and there may be no input yet.
        match done_ratio {
            Some(done_ratio) if done_ratio > 0.0 && done_ratio <= 1.0 => {
                let left_s = elapsed_s * (1.0 - done_ratio) / done_ratio;
                write!(f, ", {:.0}%, {} left", done_ratio * 100.0, Clock(left_s))
            }
            _ => Ok(()),
        }
    }
}

/// A duration in seconds, printed as `5 s`, `1:05 min` or `1:00:05 h`.
struct Clock(f64);

impl Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = Duration::try_from_secs_f64(self.0.round()).map_or(u64::MAX, |span| span.as_secs());
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, seconds) => write!(f, "{seconds} s"),
            (0, minutes, seconds) => write!(f, "{minutes}:{seconds:02} min"),
            (hours, minutes, seconds) => write!(f, "{hours}:{minutes:02}:{seconds:02} h"),
        }
    }
}

/// Width of the terminal that shows progress.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr());
    // Some terminals do not know their width and report 0.
    size.ok().map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0).unwrap_or(80)
}

/// Returns the end of `line`, which has the numbers, such that it fits in one row of `columns`.
///
/// It begins with a whole part: the end of `60.0 MiB` would be another number.
fn fitting(line: &str, columns: usize) -> &str {
    let too_many = (line.chars().count() + 1).saturating_sub(columns);
    let from = line.char_indices().nth(too_many).map_or(line.len(), |(at, _)| at);
    let begins_part = |at: usize| PART_ENDS.iter().any(|end| line[..at].ends_with(end));
    let mut places = line.char_indices().map(|(at, _)| at);
    if too_many == 0 {
        line
    } else {
        places.find(|&at| at >= from && begins_part(at)).map_or("", |at| &line[at..])
    }
}

/// Separators between the parts of a progress line.
const PART_ENDS: [&str; 3] = [": ", "-> ", ", "];

/// Text of limited length that needs no allocation.
struct Short {
    bytes: [u8; 512],
    len: usize,
}

impl Default for Short {
    fn default() -> Self {
        Self { bytes: [0; 512], len: 0 }
    }
}

impl Short {
    /// Ends the text with a newline.
    fn ended(&mut self) -> &[u8] {
        self.bytes[self.len] = b'\n';
        &self.bytes[..=self.len]
    }
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte is reserved for the newline.
        let room = self.bytes.len() - 1 - self.len;
        let taken = text.len().min(room);
        self.bytes[self.len..self.len + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.len += taken;
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Shares of the coordinating thread's time.
#[expect(clippy::struct_field_names, reason = "units end names")]
struct Shares {
    starved_ratio: f64,
    codec_ratio: f64,
    blocked_ratio: f64,
}

impl Shares {
    fn of(reading: &Reading) -> Self {
        let sum = (reading.starved + reading.codec + reading.blocked).as_secs_f64().max(f64::MIN_POSITIVE);
        let share = |part: Duration| part.as_secs_f64() / sum;
        Self {
            starved_ratio: share(reading.starved),
            codec_ratio: share(reading.codec),
            blocked_ratio: share(reading.blocked),
        }
    }

    fn bottleneck(&self) -> &'static str {
        if self.codec_ratio >= self.starved_ratio.max(self.blocked_ratio) {
            "the codec"
        } else if self.starved_ratio >= self.blocked_ratio {
            "the input"
        } else {
            "the output"
        }
    }
}

fn threads_used(reading: &Reading) -> f64 {
    reading.work.as_secs_f64() / reading.elapsed.as_secs_f64()
}

/// Reduction of the size by compression, in percent of the content.
fn reduction_pct(content: u64, packed: u64) -> f64 {
    if content == 0 { 0.0 } else { 100.0 * (1.0 - packed as f64 / content as f64) }
}

/// Peak resident memory of this process.
fn memory_bytes_max() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Formats a number of bytes for people.
fn amount(bytes: u64) -> Amount {
    if bytes < 1024 { Amount::Exact(bytes) } else { Amount::Rounded(Rounded(bytes as f64)) }
}

enum Amount {
    Exact(u64),
    Rounded(Rounded),
}

impl Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(bytes) => write!(f, "{bytes} B"),
            Self::Rounded(bytes) => bytes.fmt(f),
        }
    }
}

struct Rounded(f64);

impl Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0;
        let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
        let mut unit = units.next().expect("there are some");
        for next in units {
            if value < 1024.0 {
                break;
            }
            (value, unit) = (value / 1024.0, next);
        }
        write!(f, "{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_say_them() {
        let found: Vec<_> = [0, 1023, 1024, 1 << 20, (5 << 30) + (1 << 29), u64::MAX]
            .map(|bytes| amount(bytes).to_string())
            .into();
        assert_eq!(found, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "5.5 GiB", "16777216.0 TiB"]);
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        let found = [0.4, 59.4, 60.0, 3599.0, 3600.0 * 25.0 + 61.0].map(|seconds| Clock(seconds).to_string());
        assert_eq!(found, ["0 s", "59 s", "1:00 min", "59:59 min", "25:01:01 h"]);
    }

    #[test]
    fn a_line_gives_up_its_beginning_to_stay_on_its_row() {
        assert_eq!(fitting("name: 50%", 10), "name: 50%");
        assert_eq!(fitting("näme: 50%", 5), "50%");
        assert_eq!((fitting("", 1), fitting("ä", 1), fitting("ä", 0)), ("", "", ""));
    }

    #[test]
    fn a_line_that_is_cut_shows_no_part_of_a_number() {
        let line = "dump.sql: 60.0 MiB -> 12.5 MiB (79.2%), 21.8 MiB/s, 45%, 1:05 min left";
        for (columns, expected) in [
            (71, line),
            (70, "60.0 MiB -> 12.5 MiB (79.2%), 21.8 MiB/s, 45%, 1:05 min left"),
            (60, "12.5 MiB (79.2%), 21.8 MiB/s, 45%, 1:05 min left"),
            (40, "21.8 MiB/s, 45%, 1:05 min left"),
            (30, "45%, 1:05 min left"),
            (14, "1:05 min left"),
            (13, ""),
        ] {
            assert_eq!(fitting(line, columns), expected, "{columns}");
        }
    }

    #[test]
    fn a_text_too_long_is_cut_and_still_a_line() {
        let mut text = Short::default();
        assert!(write!(text, "{}", "x".repeat(600)).is_err());
        let line = text.ended();
        assert!(line.len() == 512 && line.ends_with(b"x\n"));
    }

    #[test]
    fn the_bottleneck_is_where_most_time_goes() {
        let found = |starved_ratio, codec_ratio, blocked_ratio| {
            Shares { starved_ratio, codec_ratio, blocked_ratio }.bottleneck()
        };
        assert_eq!(found(0.6, 0.3, 0.1), "the input");
        assert_eq!(found(0.1, 0.3, 0.6), "the output");
        assert_eq!(found(0.3, 0.4, 0.3), "the codec");
    }
}
