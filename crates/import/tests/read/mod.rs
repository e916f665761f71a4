//! Imports bytes as the command does and returns the output for the user.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its part; a test that cannot go on fails"
)]

use bakeoff_import::render::{LockstatView, MpstatView, PlockstatLog, PlockstatView, csv, json, text};
use bakeoff_import::solaris::lockstat::{self, By, Machine, Run};
use bakeoff_import::solaris::mpstat::{self, Rates, Sample};
use bakeoff_import::solaris::plockstat;
use bakeoff_import::vmstat_s::{self, Clockwork, Snapshot};
use bakeoff_import::{ImportError, Input};
use std::io::Write as _;

pub(crate) const MPSTAT: MpstatView = MpstatView {
    rates: Rates::Mean,
    full_pct: 99.0,
    name_full: false,
    errors: false,
    mean: false,
    boot: false,
    times: false,
    by_set: false,
};

/// Four CPUs. The elapsed time replaces the one that `-p` and `-T` do not print.
pub(crate) const LOCKSTAT: LockstatView = LockstatView {
    machine: Machine { cpus: Some(4), elapsed_s: Some(10.012), spin_ns: None },
    by: None,
    histograms: false,
    stacks: false,
};

pub(crate) const PLOCKSTAT: PlockstatView =
    PlockstatView { cpus: Some(4), elapsed_s: Some(10.0), histograms: false, stacks: false };

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    Text,
    Csv,
    Json,
}

pub(crate) fn whole(bytes: &[u8]) -> Input<'_> {
    Input::Whole(Box::new(bytes))
}

/// Returns all samples, all notes, and the error that ended the import.
pub(crate) fn samples(bytes: &[u8]) -> (Vec<Sample>, Vec<String>, Result<(), ImportError>) {
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    let end = mpstat::read(whole(bytes), &mut |event| {
        match event {
            mpstat::Event::Sample(sample) => all.push(sample.clone()),
            mpstat::Event::Note(note) => notes.push(note.to_string()),
        }
        Ok(())
    });
    (all, notes, end)
}

pub(crate) fn runs(bytes: &[u8]) -> (Vec<Run>, Vec<String>, Result<(), ImportError>) {
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    let end = lockstat::read(whole(bytes), &mut |found| {
        match found {
            lockstat::Found::Run(run) => all.push(run.clone()),
            lockstat::Found::Note(note) => notes.push(note.to_string()),
        }
        Ok(())
    });
    (all, notes, end)
}

pub(crate) fn plocks(bytes: &[u8]) -> (PlockstatLog, Vec<String>, Result<(), ImportError>) {
    let (mut log, mut notes) = (PlockstatLog::default(), Vec::new());
    let end = plockstat::read(whole(bytes), &mut |found| {
        match found {
            plockstat::Found::Section(section) => log.sections.push(section.clone()),
            plockstat::Found::Lost(note) => log.lost.push(note),
            plockstat::Found::Note(note) => notes.push(note.to_string()),
        }
        Ok(())
    });
    (log, notes, end)
}

pub(crate) fn snapshots(bytes: &[u8]) -> (Vec<Snapshot>, Vec<String>, Result<(), ImportError>) {
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    let end = vmstat_s::read(whole(bytes), &mut |found| {
        match found {
            vmstat_s::Found::Snapshot(snapshot) => all.push(snapshot.clone()),
            vmstat_s::Found::Note(note) => notes.push(note.to_string()),
        }
        Ok(())
    });
    (all, notes, end)
}

pub(crate) fn show_mpstat(bytes: &[u8], form: As, view: MpstatView) -> String {
    let (samples, notes, end) = samples(bytes);
    let mut out = Vec::new();
    {
        let mut receiver: Box<dyn bakeoff_import::render::Samples> = match form {
            As::Text => Box::new(text::Mpstat::new(&mut out, view)),
            As::Csv => Box::new(csv::Mpstat::new(&mut out, view)),
            As::Json => Box::new(json::Mpstat::new(&mut out, view, "log", json::Layout::Document)),
        };
        for sample in &samples {
            receiver.sample(sample).unwrap();
        }
        receiver.end(end.as_ref().err()).unwrap();
    }
    told(out, &notes, &[], &end)
}

pub(crate) fn show_lockstat(bytes: &[u8], form: As, view: LockstatView) -> String {
    let (runs, notes, end) = runs(bytes);
    let mut out = Vec::new();
    {
        let mut receiver: Box<dyn bakeoff_import::render::Runs> = match form {
            As::Text => Box::new(text::Lockstat::new(&mut out, view)),
            As::Csv => Box::new(csv::Lockstat::new(&mut out, view)),
            As::Json => Box::new(json::Lockstat::new(&mut out, view, "log")),
        };
        for run in &runs {
            receiver.run(run).unwrap();
        }
        receiver.end(end.as_ref().err()).unwrap();
    }
    let remarks: Vec<String> = runs.iter().flat_map(|run| text::lockstat_remarks(run, &view)).collect();
    told(out, &notes, &remarks, &end)
}

pub(crate) fn show_plockstat(bytes: &[u8], form: As, view: PlockstatView) -> String {
    let (log, notes, end) = plocks(bytes);
    let mut out = Vec::new();
    match form {
        As::Text => text::plockstat(&mut out, &log, &view),
        As::Csv => csv::plockstat(&mut out, &log, &view),
        As::Json => json::plockstat(&mut out, &log, &view, "log", end.as_ref().err()),
    }
    .unwrap();
    told(out, &notes, &[], &end)
}

pub(crate) fn show_vmstat(bytes: &[u8], form: As, clockwork: Clockwork) -> String {
    let (snapshots, notes, end) = snapshots(bytes);
    let mut out = Vec::new();
    {
        let mut receiver: Box<dyn bakeoff_import::render::Intervals> = match form {
            As::Text => Box::new(text::Vmstat::new(&mut out, true)),
            As::Csv => Box::new(csv::Vmstat::new(&mut out)),
            As::Json => {
                let layout = json::Layout::Document;
                Box::new(json::Vmstat::new(&mut out, "log", clockwork.hz, clockwork.cpus, layout))
            }
        };
        for pair in snapshots.windows(2) {
            receiver.interval(&vmstat_s::interval(&pair[0], &pair[1], &clockwork)).unwrap();
        }
        receiver.end(end.as_ref().err()).unwrap();
    }
    told(out, &notes, &[], &end)
}

fn told(mut out: Vec<u8>, notes: &[String], remarks: &[String], end: &Result<(), ImportError>) -> String {
    for note in notes {
        writeln!(out, "note: {note}").unwrap();
    }
    for remark in remarks {
        writeln!(out, "remark: {remark}").unwrap();
    }
    if let Err(error) = end {
        writeln!(out, "error: {error}").unwrap();
    }
    String::from_utf8(out).unwrap()
}

/// Variant of [`LOCKSTAT`] that groups rows by kind of event.
pub(crate) fn by_kind() -> LockstatView {
    LockstatView { by: Some(By::Kind), ..LOCKSTAT }
}
