//! Progress while it runs, and where the time went when it is done.

use super::args::{Args, Stats};
use super::say;
use crate::signal;
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tamp::{Meter, Reading};

/// A short job shows no progress.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Which way.
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
    way: Way,
    /// Bytes that will come in, if known.
    total_bytes: Option<u64>,
    draws: bool,
    /// When the line is next due, in milliseconds since the start.
    due_ms: AtomicU64,
    drawn: AtomicU64,
}

impl Watch {
    pub(crate) fn new(args: &Args, name: String, way: Way, total_bytes: Option<u64>) -> Self {
        // Content on a terminal and a progress line in it do not go together.
        let draws = !args.quiet && io::stderr().is_terminal() && !(args.stdout && io::stdout().is_terminal());
        let first_ms = u64::try_from(FIRST_LOOK.as_millis()).expect("a second");
        Self {
            meter: Arc::new(Meter::new()),
            name,
            way,
            total_bytes,
            draws,
            due_ms: AtomicU64::new(first_ms),
            drawn: AtomicU64::new(0),
        }
    }

    /// Draws or prints, if it is time to, or was asked for. Cheap, so it may be called after every block.
    pub(crate) fn look_up(&self) {
        if signal::take_asked() {
            self.clear();
            say(&self.line(&self.meter.read()));
        }
        if !self.draws {
            return;
        }
        let reading = self.meter.read();
        let elapsed_ms = u64::try_from(reading.elapsed.as_millis()).unwrap_or(u64::MAX);
        let due_ms = self.due_ms.load(Relaxed);
        let pause_ms = u64::try_from(PAUSE.as_millis()).expect("under a second");
        // Of several workers one draws.
        let mine = elapsed_ms >= due_ms
            && self.due_ms.compare_exchange(due_ms, elapsed_ms + pause_ms, Relaxed, Relaxed).is_ok();
        if mine {
            self.drawn.store(1, Relaxed);
            let _ = write!(io::stderr(), "\r\x1b[K{}", self.line(&reading));
        }
    }

    /// Removes the progress line, so that other lines may come.
    pub(crate) fn clear(&self) {
        if self.drawn.swap(0, Relaxed) != 0 {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Ends the line; prints what `--verbose` and `--stats` want.
    pub(crate) fn finish(&self, args: &Args, serial: Option<&'static str>) {
        self.clear();
        let reading = self.meter.read();
        if args.verbose {
            let (content, packed) = self.sizes(&reading);
            let reduction = reduction_pct(content, packed);
            say(&format_args!("{}: {reduction:.1}% of {}", self.name, bytes_text(content)));
        }
        if let Some(why) = serial.filter(|_| args.verbose || args.stats.is_some()) {
            say(&format_args!("{}: one thread had to decode: {why}", self.name));
        }
        match args.stats {
            None => {}
            Some(Stats::Text) => say(&self.stats_text(&reading)),
            Some(Stats::Json) => {
                let _ = writeln!(io::stderr(), "{}", self.stats_json(&reading, serial));
            }
        }
    }

    fn sizes(&self, reading: &Reading) -> (u64, u64) {
        match self.way {
            Way::Compress => (reading.in_bytes, reading.out_bytes),
            Way::Decompress => (reading.out_bytes, reading.in_bytes),
        }
    }

    fn line(&self, reading: &Reading) -> String {
        let (content, packed) = self.sizes(reading);
        let elapsed_s = reading.elapsed.as_secs_f64();
        let done_ratio = self.total_bytes.map(|total_bytes| reading.in_bytes as f64 / total_bytes as f64);
        let progress = match done_ratio {
            // A size hint may be wrong, and nothing may have come yet.
            Some(done_ratio) if done_ratio > 0.0 && done_ratio <= 1.0 => {
                let left_s = elapsed_s * (1.0 - done_ratio) / done_ratio;
                format!(", {:.0}%, {left_s:.0} s left", done_ratio * 100.0)
            }
            _ => String::new(),
        };
        format!(
            "{}: {} -> {} ({:.1}%), {}/s{progress}",
            self.name,
            bytes_text(reading.in_bytes),
            bytes_text(reading.out_bytes),
            reduction_pct(content, packed),
            bytes_text_f64(content as f64 / elapsed_s)
        )
    }

    fn stats_text(&self, reading: &Reading) -> String {
        let shares = Shares::of(reading);
        format!(
            "{}: {:.3} s, {}/s, {} threads used of {}; starved {:.0}%, codec {:.0}%, blocked {:.0}%: {} is the bottleneck; {} at most",
            self.name,
            reading.elapsed.as_secs_f64(),
            bytes_text_f64(self.sizes(reading).0 as f64 / reading.elapsed.as_secs_f64()),
            format_args!("{:.1}", threads_used(reading)),
            reading.workers_max,
            shares.starved_ratio * 100.0,
            shares.codec_ratio * 100.0,
            shares.blocked_ratio * 100.0,
            shares.bottleneck(),
            memory_bytes_max().map_or_else(|| "memory unknown".to_owned(), bytes_text),
        )
    }

    fn stats_json(&self, reading: &Reading, serial: Option<&'static str>) -> serde_json::Value {
        let shares = Shares::of(reading);
        let elapsed_s = reading.elapsed.as_secs_f64();
        json!({
            "schema": "tamp.stats/1",
            "file": self.name,
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

/// Where the time of whoever conducts went.
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

/// By how much compression made it smaller, as a share of the content.
fn reduction_pct(content: u64, packed: u64) -> f64 {
    if content == 0 { 0.0 } else { 100.0 * (1.0 - packed as f64 / content as f64) }
}

/// The most memory this process ever had resident.
fn memory_bytes_max() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn bytes_text(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { bytes_text_f64(bytes as f64) }
}

fn bytes_text_f64(bytes: f64) -> String {
    let mut value = bytes;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = units.next().expect("there are some");
    for next in units {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_say_them() {
        let found: Vec<_> = [0, 1023, 1024, 1 << 20, (5 << 30) + (1 << 29), u64::MAX].map(bytes_text).into();
        assert_eq!(found, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "5.5 GiB", "16777216.0 TiB"]);
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
