//! Reads any bytes as each tool's text and prints them in each form: a result or an error, never a panic.

use import::Input;
use import::access_log::{self, Methods, Store};
use import::history::{self, Source};
use import::render::{
    Intervals, LockstatView, MpstatView, PlockstatLog, PlockstatView, Runs, Samples, csv, json, text,
};
use import::solaris::lockstat::{self, By, Machine};
use import::solaris::mpstat::{self, Rates};
use import::solaris::plockstat;
use import::vmstat_s::{self, Clockwork};
use jiff::tz::TimeZone;
use record::replay::ReplaySource as _;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads `bytes` with every parser.
///
/// # Panics
///
/// If a sink refuses output, which it never does, or because of a defect in the parser under test.
pub fn check(bytes: &[u8]) {
    read_mpstat(bytes);
    read_lockstat(bytes);
    read_plockstat(bytes);
    read_vmstat(bytes);
    read_access_log(bytes);
    read_history(bytes);
}

/// Reads `bytes` as the history of each tool: CSV, hyperfine, Google Benchmark, criterion, pytest-benchmark.
///
/// # Panics
///
/// A value is not a number, or a defect in a reader.
pub fn read_history(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let path = Path::new("target/criterion/group/name/new/estimates.json");
    for (beside, with_failures) in [(None, false), (Some(&*text), true)] {
        let source = Source { path, beside, zone: &TimeZone::UTC, with_failures };
        let Ok(history) = history::read(&text, source) else { continue };
        assert!(history.values.iter().all(|value| value.value.is_finite()), "{:?}", history.values);
    }
}

/// Every line of a log is a request that a server can be sent, or counted.
fn read_access_log(bytes: &[u8]) {
    for methods in [Methods::Safe, Methods::All] {
        let (texts, ends) = (nameless().expect("a file"), nameless().expect("a file"));
        let mut store = Store::new(texts, ends);
        let Ok(log) = access_log::read(&mut &bytes[..], methods, &mut store) else { continue };
        let stored = store.finish().expect("the store is written");
        let account = &log.account;
        assert_eq!(account.lines, account.requests + account.left_out_in_all(), "{account:?}");
        assert_eq!(log.due_ns.len() as u64, account.requests);
        assert!(log.due_ns.first() == Some(&0) && log.due_ns.is_sorted(), "{:?}", log.due_ns);
        let mut path = Vec::new();
        for number in 0..account.requests {
            let logged = stored.read(number, &mut path).expect("a stored request");
            assert!(methods == Methods::All || logged.method.is_safe());
            assert!(path.first() == Some(&b'/') && path.len() as u64 <= account.path_bytes_max);
            assert!(path.iter().all(|b| (0x21..0x7f).contains(b)), "{}", String::from_utf8_lossy(&path));
        }
    }
}

/// A file without a name in the folder for temporary files.
fn nameless() -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("import-fuzz-{}-{number}", std::process::id()));
    let file = File::options().create(true).truncate(true).read(true).write(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

fn whole(bytes: &[u8]) -> Input<'_> {
    Input::Whole(Box::new(bytes))
}

fn read_mpstat(bytes: &[u8]) {
    let view = MpstatView {
        rates: Rates::Mean,
        full_pct: 50.0,
        name_full: true,
        errors: true,
        mean: true,
        boot: true,
        times: true,
        by_set: true,
    };
    let mut outs = [io::sink(), io::sink(), io::sink()];
    let [a, b, c] = &mut outs;
    let mut table = text::Mpstat::new(a, view);
    let mut lines = csv::Mpstat::new(b, view);
    let mut document = json::Mpstat::new(c, view, "log", json::Layout::Document);
    let end = mpstat::read(whole(bytes), &mut |event| {
        if let mpstat::Event::Sample(sample) = event {
            table.sample(sample)?;
            lines.sample(sample)?;
            document.sample(sample)?;
        }
        Ok(())
    });
    let error = end.as_ref().err();
    for receiver in [&mut table as &mut dyn Samples, &mut lines, &mut document] {
        receiver.end(error).expect("a sink takes everything");
    }
}

fn read_lockstat(bytes: &[u8]) {
    let machine = Machine { cpus: Some(3), elapsed_s: Some(1.5), spin_ns: Some(2.0) };
    let view = LockstatView { machine, by: None, histograms: true, stacks: true };
    let by = |by| LockstatView { by: Some(by), ..view };
    let _ = lockstat::read(whole(bytes), &mut |found| {
        if let lockstat::Found::Run(run) = found {
            text::Lockstat::new(&mut io::sink(), view).run(run)?;
            text::Lockstat::new(&mut io::sink(), by(By::Kind)).run(run)?;
            text::Lockstat::new(&mut io::sink(), by(By::Lock)).run(run)?;
            csv::Lockstat::new(&mut io::sink(), view).run(run)?;
            json::Lockstat::new(&mut io::sink(), view, "log").run(run)?;
            let _ = text::lockstat_remarks(run, &view);
        }
        Ok(())
    });
}

fn read_plockstat(bytes: &[u8]) {
    let view = PlockstatView { cpus: Some(3), elapsed_s: Some(1.5), histograms: true, stacks: true };
    let mut log = PlockstatLog::default();
    let end = plockstat::read(whole(bytes), &mut |found| {
        match found {
            plockstat::Found::Section(section) => log.sections.push(section.clone()),
            plockstat::Found::Lost(note) => log.lost.push(note),
            plockstat::Found::Note(_) => {}
        }
        Ok(())
    });
    text::plockstat(&mut io::sink(), &log, &view).expect("a sink takes everything");
    csv::plockstat(&mut io::sink(), &log, &view).expect("a sink takes everything");
    json::plockstat(&mut io::sink(), &log, &view, "log", end.as_ref().err())
        .expect("a sink takes everything");
}

fn read_vmstat(bytes: &[u8]) {
    let clockwork = Clockwork { hz: 100.0, cpus: Some(3), elapsed_s: None };
    let mut before = None;
    let mut sink = io::sink();
    let mut document = json::Vmstat::new(&mut sink, "log", 100.0, Some(3), json::Layout::Document);
    let end = vmstat_s::read(whole(bytes), &mut |found| {
        if let vmstat_s::Found::Snapshot(snapshot) = found
            && let Some(before) = before.replace(snapshot.clone())
        {
            let interval = vmstat_s::interval(&before, snapshot, &clockwork);
            document.interval(&interval)?;
            text::Vmstat::new(&mut io::sink(), true).interval(&interval)?;
            csv::Vmstat::new(&mut io::sink()).interval(&interval)?;
        }
        Ok(())
    });
    document.end(end.as_ref().err()).expect("a sink takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("the samples are there") {
            let path = entry.expect("a sample").path();
            if path.is_dir() {
                files(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    /// The formats of an access log, and lines that no server can be sent.
    const ACCESS_LOG: &str = "\
h - - [10/Oct/2000:13:55:36 -0700] \"GET /a?token=b HTTP/1.1\" 200 23 \"-\" \"-\"
h - - [10/Oct/2000:13:55:36 -0700] \"POST /\\x22\\xC3 HTTP/1.1\" 404 - \"-\" \"-\"
h:80 ::1 - a [b] [10/Oct/2000:13:55:30 -0700] \"HEAD http://u:p@h/x#y HTTP/1.0\" 301 0
{\"ts\":971211337.25,\"request\":{\"method\":\"GET\",\"uri\":\"/c\"},\"status\":200}
{\"time\":\"2000-10-10T20:55:38.000001Z\",\"request\":\"DELETE /d HTTP/2.0\",\"status\":\"204\"}
";

    #[test]
    fn access_logs_cut_and_with_a_byte_changed_keep_their_account() {
        let sample = ACCESS_LOG.as_bytes();
        for at in 0..sample.len() {
            read_access_log(&sample[..at]);
            for bit in [0x01, 0x15, 0x20, 0x80] {
                let mut changed = sample.to_vec();
                changed[at] ^= bit;
                read_access_log(&changed);
            }
        }
    }

    #[test]
    fn samples_cut_and_with_a_byte_changed_are_a_result_or_an_error() {
        let mut samples = Vec::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata"), &mut samples);
        assert!(samples.len() > 50, "{} samples", samples.len());
        for path in samples {
            let sample = std::fs::read(&path).expect("a sample");
            check(&sample);
            for at in (0..sample.len()).step_by(sample.len().div_ceil(8).max(1)) {
                check(&sample[..at]);
                let mut changed = sample.clone();
                changed[at] ^= 0x15;
                check(&changed);
            }
        }
    }
}
