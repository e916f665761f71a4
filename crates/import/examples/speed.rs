//! Speed of reading a large log on one core: `cargo run --release --example speed -- [MEGABYTES] [CPUS]
//! [--dated]`.
//!
//! The log is generated in memory, so no disk takes part: a reader copies the same block of rows repeatedly,
//! as reading from the page cache would. Prints megabytes per second and peak memory.

use import::render::{MpstatView, Samples, text};
use import::solaris::mpstat::{self, Event, Rates};
use import::{ImportError, Input};
use record::clock::{Clock, Monotonic};
use std::io::{self, Read, Write};

use bakeoff_import as import;

fn main() -> Result<(), ImportError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u64| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(default);
    let (bytes, cpus) = (number(0, 1000) * 1_000_000, number(1, 64));
    let dated = words.iter().any(|word| word == "--dated");
    let block = block(cpus, dated);
    let repeats = bytes / block.len() as u64 + 1;
    let bytes = repeats * block.len() as u64;

    let started = Monotonic.now_ns();
    let (mut samples, mut rows) = (0u64, 0u64);
    let log = Repeat { block: &block, at: 0, left: repeats };
    mpstat::read(Input::Whole(Box::new(log)), &mut |event| {
        if let Event::Sample(sample) = event {
            samples += 1;
            rows += sample.rows.len() as u64;
        }
        Ok(())
    })?;
    let parsed_s = (Monotonic.now_ns() - started) as f64 / 1e9;

    let started = Monotonic.now_ns();
    let view = MpstatView {
        rates: Rates::Mean,
        full_pct: 99.0,
        name_full: true,
        errors: false,
        mean: false,
        boot: false,
        times: false,
        by_set: false,
    };
    let mut sink = io::sink();
    let mut table = text::Mpstat::new(&mut sink, view);
    let log = Repeat { block: &block, at: 0, left: repeats };
    mpstat::read(Input::Whole(Box::new(log)), &mut |event| match event {
        Event::Sample(sample) => table.sample(sample),
        Event::Note(_) => Ok(()),
    })?;
    let printed_s = (Monotonic.now_ns() - started) as f64 / 1e9;

    let megabytes = bytes as f64 / 1e6;
    let told = writeln!(
        io::stdout(),
        "{megabytes:.0} MB, {samples} samples of {cpus} CPUs, {rows} rows\n\
         read: {:.0} MB/s   read, aggregated and printed: {:.0} MB/s   peak memory: {}",
        megabytes / parsed_s,
        megabytes / printed_s,
        peak_memory(),
    );
    told.map_err(|source| ImportError::Deliver { source })
}

/// Builds one sample of `cpus` CPUs, with the numbers of a busy machine.
fn block(cpus: u64, dated: bool) -> Vec<u8> {
    let date = if dated { "Tue Mar  4 09:05:01 2008 " } else { "" };
    let mut text =
        format!("{date}CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl\n");
    for cpu in 0..cpus {
        let n = cpu * 2_654_435_761 % 4093;
        let (usr, sys) = (n % 70, n % 31);
        let row = format!(
            "{date}{cpu:3} {:4} {:3} {:4} {:5} {:4} {:4} {:4} {:4} {:4} {:4} {:5}  {usr:3} {sys:3} {:3} {:3}\n",
            n % 50,
            n % 3,
            n % 900,
            100 + n,
            n % 900,
            n,
            n % 300,
            n % 280,
            n % 700,
            n % 10,
            5 * n,
            0,
            100 - usr - sys,
        );
        text.push_str(&row);
    }
    text.into_bytes()
}

/// Reader that repeats the same bytes.
struct Repeat<'a> {
    block: &'a [u8],
    at: usize,
    left: u64,
}

impl Read for Repeat<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while self.left > 0 && filled < into.len() {
            let n = (&self.block[self.at..]).read(&mut into[filled..])?;
            filled += n;
            self.at += n;
            if self.at == self.block.len() {
                self.at = 0;
                self.left -= 1;
            }
        }
        Ok(filled)
    }
}

/// Returns the peak of resident memory, as the kernel reports it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or_else(|| "not known".into(), |peak| peak.trim().to_owned())
}
