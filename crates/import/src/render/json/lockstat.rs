//! JSON of a lockstat log.

use super::super::{LockstatView, Runs};
use super::{Bins, Reasons, known, put};
use crate::error::ImportError;
use crate::solaris::lockstat::{
    Counts, Form, Group, Lock, Percent, Run, Section, Unit, Verdict, group, judge,
};
use serde::Serialize;
use std::io::{self, Write};

/// Writer of `bakeoff.import-lockstat/1`: one document for each run, on a separate line.
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Lockstat<'w> {
    out: &'w mut dyn Write,
    view: LockstatView,
    source: &'w str,
}

#[derive(Serialize)]
struct LockstatDocument<'a> {
    schema: &'static str,
    source: &'a str,
    elapsed_s: Option<f64>,
    cpus: Option<u32>,
    tainted: bool,
    tainted_by: Vec<String>,
    form: &'static str,
    locks: Vec<LockView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<GroupView<'a>>>,
    sections: Vec<SectionView<'a>>,
    total: TotalView,
    missing: Reasons,
}

#[derive(Serialize)]
struct LockView<'a> {
    event: &'a str,
    kind: &'static str,
    lock: &'a str,
    caller: &'a str,
    line: u64,
    count: Option<u64>,
    count_per_s: Option<u64>,
    nsec_mean: Option<f64>,
    spins_mean: Option<f64>,
    threads: Option<f64>,
    cpu_util_ratio: Option<f64>,
    histogram: Option<Bins<'a>>,
    stack: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

/// A group of rows (`--by`).
#[derive(Serialize)]
struct GroupView<'a> {
    event: &'a str,
    kind: &'static str,
    name: &'a str,
    count: Option<u64>,
    count_per_s: Option<u64>,
    threads: Option<f64>,
    cpu_util_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Serialize)]
struct SectionView<'a> {
    event: &'a str,
    number: Option<u8>,
    kind: &'static str,
    events: Option<u64>,
    events_shown: Option<u64>,
    counts: &'static str,
    unit: Option<&'static str>,
    unit_assumed: bool,
    percent_of: Option<&'static str>,
    hottest_lock: bool,
    hottest_caller: bool,
}

#[derive(Serialize)]
struct TotalView {
    cpu_util_ratio: Option<f64>,
    lower_bound: bool,
}

impl<'w> Lockstat<'w> {
    /// Writes documents to `out`; `source` names the input.
    pub fn new(out: &'w mut dyn Write, view: LockstatView, source: &'w str) -> Self {
        Self { out, view, source }
    }
}

fn lock_view<'a>(verdict: &Verdict<'a>) -> LockView<'a> {
    let (section, lock): (&'a Section, &'a Lock) = (verdict.section, verdict.lock);
    let mut missing = Reasons::new();
    let rates = section.counts == Counts::PerSecond;
    if rates {
        missing.insert("count".into(), "rates are printed (-R)".into());
    }
    let spins = section.unit == Unit::Spins;
    let mean = lock.mean_time();
    if mean.is_none() || spins {
        let reason = if spins { "turns of the spin loop, not time" } else { "no time was measured" };
        missing.insert("nsec_mean".into(), reason.into());
    }
    LockView {
        event: &section.event.name,
        kind: section.event.class.name(),
        lock: &lock.lock,
        caller: &lock.caller,
        line: lock.line,
        count: (!rates).then_some(lock.count),
        count_per_s: rates.then_some(lock.count),
        nsec_mean: mean.filter(|_| !spins),
        spins_mean: mean.filter(|_| spins),
        threads: known(&verdict.merits.threads, "threads", &mut missing),
        cpu_util_ratio: known(&verdict.merits.cpu_util_ratio, "cpu_util_ratio", &mut missing),
        histogram: (!lock.histogram.is_empty()).then_some(Bins(&lock.histogram)),
        stack: (!lock.stack.is_empty()).then_some(&lock.stack),
        missing,
    }
}

fn group_view<'a>(run: &Run, group: &Group<'a>) -> GroupView<'a> {
    let mut missing = Reasons::new();
    let rates = group.counts(run) == Counts::PerSecond;
    if rates {
        missing.insert("count".into(), "rates are printed (-R)".into());
    }
    GroupView {
        event: &group.event.name,
        kind: group.event.class.name(),
        name: group.name,
        count: (!rates).then_some(group.count),
        count_per_s: rates.then_some(group.count),
        threads: known(&group.merits.threads, "threads", &mut missing),
        cpu_util_ratio: known(&group.merits.cpu_util_ratio, "cpu_util_ratio", &mut missing),
        missing,
    }
}

fn section_view(section: &Section) -> SectionView<'_> {
    let comparable = section.counts == Counts::Events && section.percent != Percent::Generated;
    let shown = section.locks.iter().fold(0u64, |sum, lock| sum.saturating_add(lock.count));
    SectionView {
        event: &section.event.name,
        number: section.event.number,
        kind: section.event.class.name(),
        events: section.events,
        events_shown: comparable.then_some(shown),
        counts: match section.counts {
            Counts::Events => "events",
            Counts::PerSecond => "events_per_s",
        },
        unit: match section.unit {
            Unit::Nsec | Unit::NsecAssumed => Some("nsec"),
            Unit::Spins => Some("spins"),
            Unit::Untimed => None,
        },
        unit_assumed: section.unit == Unit::NsecAssumed,
        percent_of: match section.percent {
            Percent::Count => Some("count"),
            Percent::Time => Some("time"),
            Percent::Generated => Some("generated"),
            Percent::Unknown => None,
        },
        hottest_lock: section.hottest_lock,
        hottest_caller: section.hottest_caller,
    }
}

impl Runs for Lockstat<'_> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        let judged = judge(run, &self.view.machine);
        let mut missing = Reasons::new();
        if self.view.machine.cpus.is_none() {
            missing.insert("cpus".into(), "not in lockstat's output: give -n NCPU".into());
        }
        let impossible = judged.impossible(&self.view.machine);
        let tainted_by: Vec<String> = run.lost.iter().chain(&impossible).map(ToString::to_string).collect();
        let document = LockstatDocument {
            schema: "bakeoff.import-lockstat/1",
            source: self.source,
            elapsed_s: known(&judged.elapsed_s, "elapsed_s", &mut missing),
            cpus: self.view.machine.cpus,
            tainted: !tainted_by.is_empty(),
            tainted_by,
            form: match run.form {
                Form::Tables => "tables",
                Form::Counts => "counts",
                Form::Parsable => "parsable",
                Form::Trace => "trace",
            },
            locks: judged.verdicts.iter().map(lock_view).collect(),
            groups: self
                .view
                .by
                .map(|by| group(run, &judged, by).iter().map(|group| group_view(run, group)).collect()),
            sections: run.sections.iter().map(section_view).collect(),
            total: TotalView {
                cpu_util_ratio: known(&judged.total, "total.cpu_util_ratio", &mut missing),
                lower_bound: judged.lower_bound,
            },
            missing,
        };
        put(self.out, &document)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    fn end(&mut self, error: Option<&ImportError>) -> io::Result<()> {
        let Some(error) = error else { return Ok(()) };
        put(
            self.out,
            &Damaged { schema: "bakeoff.import-lockstat/1", source: self.source, error: error.to_string() },
        )?;
        self.out.write_all(b"\n")
    }
}

/// Document of an input that cannot be read.
#[derive(Serialize)]
struct Damaged<'a> {
    schema: &'static str,
    source: &'a str,
    error: String,
}
