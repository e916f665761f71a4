//! How fast `--keep-up` reacts: `tamp_keep_up FILE SLOW FAST`, rates in MB/s.
//!
//! Offers the file's bytes at the slow rate for a second, then at the fast rate for another, on an open-loop
//! schedule, once with a fixed level and once with `--keep-up`. Prints how late the offers were.

use std::io::{self, Write};
use std::time::{Duration, Instant};
use tamp::{Level, Options, Writer};

/// Bytes in one offer, as a pipe delivers them.
const OFFER_BYTES: usize = 64 << 10;
const PHASE: Duration = Duration::from_secs(1);
/// Lag above which an offer counts as late.
const LATE: Duration = Duration::from_millis(10);

fn main() -> io::Result<()> {
    let usage = || io::Error::other("usage: tamp_keep_up FILE SLOW FAST");
    let mut words = std::env::args().skip(1);
    let content = std::fs::read(words.next().ok_or_else(usage)?)?;
    let mut rate = || words.next().and_then(|word| word.parse::<f64>().ok()).ok_or_else(usage);
    let (slow, fast) = (rate()? * 1e6, rate()? * 1e6);
    for keep_up in [false, true] {
        let level = Level::new(3).ok_or_else(usage)?;
        let mut options = Options::zst(level);
        (options.keep_up, options.block_bytes) = (keep_up, 256 << 10);
        let mut offers = content.chunks_exact(OFFER_BYTES).cycle();
        let mut writer = Writer::new(io::sink(), &options)?;
        let mut offer = |rate: f64| offer(&mut writer, &mut offers, rate);
        let (before, after) = (offer(slow)?, offer(fast)?);
        writer.finish()?;
        let name = if keep_up { "--keep-up" } else { "-3 fixed" };
        writeln!(io::stdout(), "- {name}: slow {before}; fast {after}")?;
    }
    Ok(())
}

/// Lag of the offers at one rate.
struct Offered {
    wait_most: Duration,
    late_most: Duration,
    /// Time from the beginning to the last late offer; `None` if no offer was late.
    settled_after: Option<Duration>,
}

fn offer<'a>(
    writer: &mut Writer<io::Sink>,
    offers: &mut impl Iterator<Item = &'a [u8]>,
    bytes_per_s: f64,
) -> io::Result<Offered> {
    let begun = now();
    let mut found = Offered { wait_most: Duration::ZERO, late_most: Duration::ZERO, settled_after: None };
    for number in 0.. {
        let due = Duration::from_secs_f64(f64::from(number) * OFFER_BYTES as f64 / bytes_per_s);
        if due >= PHASE {
            break;
        }
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let (bytes, from) = (offers.next().ok_or(io::ErrorKind::UnexpectedEof)?, begun.elapsed());
        writer.write_all(bytes)?;
        let taken = begun.elapsed();
        let late = taken.saturating_sub(due);
        found.wait_most = found.wait_most.max(taken.saturating_sub(from));
        found.late_most = found.late_most.max(late);
        if late > LATE {
            found.settled_after = Some(due);
        }
    }
    Ok(found)
}

impl std::fmt::Display for Offered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |span: Duration| span.as_secs_f64() * 1e3;
        write!(
            f,
            "waited {:.1} ms and came {:.1} ms late at most, ",
            ms(self.wait_most),
            ms(self.late_most)
        )?;
        match self.settled_after {
            None => write!(f, "never over {} ms", LATE.as_millis()),
            Some(after) => {
                write!(f, "over {} ms until {:.0} ms after its beginning", LATE.as_millis(), ms(after))
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn now() -> Instant {
    Instant::now()
}
