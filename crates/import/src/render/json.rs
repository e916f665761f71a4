//! JSON documents, each with its schema. What is missing is `null`, with the reason in `missing`.
//!
//! A document is written as its input is read, so it takes no memory however long the log is; and it is closed even
//! when the log turns out to be damaged, with the damage in `error`.

use super::{
    Intervals, LockstatView, Means, MpstatView, PlockstatLog, PlockstatView, Runs, Samples, parts, subject,
};
use crate::error::ImportError;
use crate::solaris::lockstat::{
    Counts, Form, Group, Lock, Percent, Run, Section, Unit, Verdict, group, judge,
};
use crate::solaris::mpstat::{Aggregate, COLUMNS, Columns, Rates, Sample};
use crate::vmstat_s::{Interval, STATES};
use record::missing::Maybe;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// How many full CPUs the list at the end of an mpstat document holds: memory is bounded. Each sample has its own.
const SATURATED_MAX: usize = 500_000;

/// Whether a stream of results becomes one document or one a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One document.
    Document,
    /// One document a result, each on a line of its own.
    Lines,
}

/// Why values are missing: path within the document, reason.
type Reasons = BTreeMap<String, String>;

fn put(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

/// `bakeoff.import-mpstat/1`
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Mpstat<'w> {
    out: &'w mut dyn Write,
    view: MpstatView,
    source: &'w str,
    layout: Layout,
    /// A sample is held until it is known that it is not handed on again with more rows.
    held: Option<Held>,
    written: u64,
    means: Means,
    saturated: Vec<Saturated>,
    saturated_left_out: u64,
    dated: bool,
    columns: Option<Columns>,
}

struct Held {
    sample: Vec<SampleView>,
    saturated: Vec<Saturated>,
}

#[derive(Serialize)]
struct SampleView {
    at: Option<String>,
    line: u64,
    since_boot: bool,
    cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<i32>,
    cpus: u32,
    #[serde(flatten)]
    values: Values,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Values>,
    saturated: Vec<u32>,
}

/// mpstat's columns by name.
struct Values([Option<f64>; COLUMNS.len()]);

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COLUMNS.len()))?;
        for (name, value) in COLUMNS.iter().zip(&self.0) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[derive(Serialize, Clone)]
struct Saturated {
    at: Option<String>,
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<u32>,
    busy_pct: u64,
}

#[derive(Serialize)]
struct MeanView {
    samples: u64,
    cpus: f64,
    #[serde(flatten)]
    values: Values,
}

/// What follows the samples.
#[derive(Serialize)]
struct MpstatTail<'a> {
    saturated: &'a [Saturated],
    saturated_left_out: u64,
    saturated_from_pct: f64,
    rates: &'static str,
    mean: Option<MeanView>,
    missing: Reasons,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl<'w> Mpstat<'w> {
    /// Documents on `out` about the input called `source`.
    pub fn new(out: &'w mut dyn Write, view: MpstatView, source: &'w str, layout: Layout) -> Self {
        Self {
            out,
            view,
            source,
            layout,
            held: None,
            written: 0,
            means: Means::default(),
            saturated: Vec::new(),
            saturated_left_out: 0,
            dated: false,
            columns: None,
        }
    }

    fn head(&mut self) -> io::Result<()> {
        write!(self.out, "{{\"schema\":\"bakeoff.import-mpstat/1\",\"source\":")?;
        put(self.out, &self.source)?;
        write!(self.out, ",\"samples\":[")
    }

    fn settle(&mut self) -> io::Result<()> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let lines = self.layout == Layout::Lines;
        if lines || self.written == 0 {
            self.head()?;
        }
        for (i, part) in held.sample.iter().enumerate() {
            let first = i == 0 && (lines || self.written == 0);
            self.out.write_all(match (first, lines) {
                (true, true) => b"",
                (false, true) => b",",
                (true, false) => b"\n",
                (false, false) => b",\n",
            })?;
            put(self.out, part)?;
        }
        self.written += 1;
        let room = SATURATED_MAX - self.saturated.len();
        self.saturated_left_out += held.saturated.len().saturating_sub(room) as u64;
        self.saturated.extend(held.saturated.into_iter().take(room));
        if lines {
            self.tail(None)?;
            self.saturated.clear();
        }
        Ok(())
    }

    fn tail(&mut self, error: Option<String>) -> io::Result<()> {
        let mut missing = Reasons::new();
        if !self.dated && self.written > 0 {
            missing.insert("samples.at".into(), "the log has no dates".into());
        }
        for (column, name) in COLUMNS.iter().enumerate() {
            if self.columns.is_some_and(|columns| !columns.has(column)) {
                missing.insert(format!("samples.{name}"), "the log has no such column".into());
            }
        }
        let mean = if self.layout == Layout::Document { self.means.end() } else { None };
        if mean.is_none() {
            let reason = match self.layout {
                Layout::Document => "no sample but since boot",
                Layout::Lines => "a single sample",
            };
            missing.insert("mean".into(), reason.into());
        }
        let tail = MpstatTail {
            saturated: &self.saturated,
            saturated_left_out: self.saturated_left_out,
            saturated_from_pct: self.view.full_pct,
            rates: match self.view.rates {
                Rates::Mean => "mean",
                Rates::Sum => "sum",
            },
            mean: mean.map(|(samples, cpus, values)| MeanView { samples, cpus, values: Values(values) }),
            missing,
            error,
        };
        let separator = if self.layout == Layout::Lines { "]," } else { "\n]," };
        self.out.write_all(separator.as_bytes())?;
        members(self.out, &tail)?;
        self.out.write_all(b"}\n")
    }
}

/// The members of an object without its braces.
fn members(out: &mut dyn Write, object: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string(object).map_err(io::Error::from)?;
    let inner =
        text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).expect("a struct is an object");
    out.write_all(inner.as_bytes())
}

impl Samples for Mpstat<'_> {
    fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        if sample.replaces_previous && self.layout == Layout::Document {
            self.held = None;
        } else {
            self.settle()?;
        }
        self.means.take(sample, self.view.rates, self.view.boot);
        self.dated |= sample.at.is_some();
        self.columns = Some(sample.columns);
        let at = sample.at.as_ref().map(ToString::to_string);
        let saturated: Vec<Saturated> = sample
            .saturated(self.view.full_pct)
            .map(|row| {
                let is_cpu = subject(row) == "CPU";
                let (cpu, set) = (is_cpu.then_some(row.id), (!is_cpu).then_some(row.id));
                Saturated { at: at.clone(), line: sample.line, cpu, set, busy_pct: row.busy_pct() }
            })
            .collect();
        let ids: Vec<u32> = sample.saturated(self.view.full_pct).map(|row| row.id).collect();
        let one = |(set, part): (Option<i32>, Aggregate)| SampleView {
            at: at.clone(),
            line: sample.line,
            since_boot: sample.since_boot.is_some(),
            cut: sample.cut,
            set,
            cpus: part.cpus,
            values: Values(part.values),
            error: self.view.errors.then(|| Values(part.errors.map(Some))),
            saturated: ids.clone(),
        };
        let sample_views = parts(sample, &self.view).into_iter().map(one).collect();
        self.held = Some(Held { sample: sample_views, saturated });
        if self.layout == Layout::Lines {
            // A line is a document of its own: a sample that comes again is a second document.
            self.settle()?;
        }
        Ok(())
    }

    fn end(&mut self, error: Option<&ImportError>) -> io::Result<()> {
        self.settle()?;
        if self.layout == Layout::Lines && error.is_none() {
            return Ok(());
        }
        if self.layout == Layout::Lines || self.written == 0 {
            self.head()?;
        }
        self.tail(error.map(ToString::to_string))
    }
}

/// `bakeoff.import-lockstat/1`: one document a run, each on a line of its own.
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

/// Rows that have something in common (`--by`).
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

/// Bins by their bound as printed, in order.
struct Bins<'a>(&'a [(u64, u64)]);

impl Serialize for Bins<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
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
    /// Documents on `out` about the input called `source`.
    pub fn new(out: &'w mut dyn Write, view: LockstatView, source: &'w str) -> Self {
        Self { out, view, source }
    }
}

/// The value, or `None` and its reason under `name`.
fn known<T: Clone>(value: &Maybe<T>, name: &str, reasons: &mut Reasons) -> Option<T> {
    match value {
        Ok(value) => Some(value.clone()),
        Err(missing) => {
            reasons.insert(name.to_owned(), missing.reason.clone());
            None
        }
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
            missing.insert("cpus".into(), "lockstat does not tell: give -n NCPU".into());
        }
        let document = LockstatDocument {
            schema: "bakeoff.import-lockstat/1",
            source: self.source,
            elapsed_s: known(&judged.elapsed_s, "elapsed_s", &mut missing),
            cpus: self.view.machine.cpus,
            tainted: !run.lost.is_empty(),
            tainted_by: run.lost.iter().map(ToString::to_string).collect(),
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

/// The document of an input that cannot be read.
#[derive(Serialize)]
struct Damaged<'a> {
    schema: &'static str,
    source: &'a str,
    error: String,
}

#[derive(Serialize)]
struct PlockstatDocument<'a> {
    schema: &'static str,
    source: &'a str,
    elapsed_s: Option<f64>,
    cpus: Option<u32>,
    tainted: bool,
    tainted_by: Vec<String>,
    locks: Vec<PlockView<'a>>,
    total: PlockTotal,
    missing: Reasons,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct PlockView<'a> {
    event: &'static str,
    kind: &'static str,
    lock: &'a str,
    caller: &'a str,
    line: u64,
    count: u64,
    nsec_mean: u64,
    threads: Option<f64>,
    cpu_util_ratio: Option<f64>,
    histogram: Option<Bins<'a>>,
    stack: Option<&'a [String]>,
}

#[derive(Serialize)]
struct PlockTotal {
    cpu_util_ratio: Option<f64>,
    spin_s: f64,
    block_s: f64,
    hold_s: f64,
}

/// Prints what a plockstat log holds: `bakeoff.import-plockstat/1`.
///
/// # Errors
///
/// What writing answers.
pub fn plockstat(
    out: &mut dyn Write,
    log: &PlockstatLog,
    view: &PlockstatView,
    source: &str,
    error: Option<&ImportError>,
) -> io::Result<()> {
    let mut missing = Reasons::new();
    if view.elapsed_s.is_none() {
        missing.insert("elapsed_s".into(), "plockstat does not tell: give --elapsed SECONDS".into());
    }
    if view.cpus.is_none() {
        missing.insert("cpus".into(), "plockstat does not tell: give -n NCPU".into());
    }
    let share = |total_ns: f64| Some(total_ns / (1e9 * view.elapsed_s? * f64::from(view.cpus?)));
    if share(0.0).is_none() {
        missing.insert("total.cpu_util_ratio".into(), "needs the number of CPUs and the elapsed time".into());
    }
    let rows =
        || log.sections.iter().flat_map(|section| section.locks.iter().map(|lock| (section.kind, lock)));
    let sum_ns = |name: &[&str]| {
        rows().filter(|(kind, _)| name.contains(&kind.name())).map(|(_, lock)| lock.total_ns()).sum::<f64>()
    };
    let locks = rows()
        .map(|(kind, lock)| PlockView {
            event: kind.title(),
            kind: kind.name(),
            lock: &lock.lock,
            caller: &lock.caller,
            line: lock.line,
            count: lock.count,
            nsec_mean: lock.nsec_mean,
            threads: view.elapsed_s.map(|s| lock.total_ns() / (1e9 * s)),
            cpu_util_ratio: share(lock.total_ns()).filter(|_| kind.is_cpu()),
            histogram: (!lock.histogram.is_empty()).then_some(Bins(&lock.histogram)),
            stack: (!lock.stack.is_empty()).then_some(&lock.stack[..]),
        })
        .collect();
    let document = PlockstatDocument {
        schema: "bakeoff.import-plockstat/1",
        source,
        elapsed_s: view.elapsed_s,
        cpus: view.cpus,
        tainted: !log.lost.is_empty(),
        tainted_by: log.lost.iter().map(ToString::to_string).collect(),
        locks,
        total: PlockTotal {
            cpu_util_ratio: share(sum_ns(&["spin", "unsuccessful-spin"])),
            spin_s: sum_ns(&["spin", "unsuccessful-spin"]) / 1e9,
            block_s: sum_ns(&["block"]) / 1e9,
            hold_s: sum_ns(&["hold"]) / 1e9,
        },
        missing,
        error: error.map(ToString::to_string),
    };
    put(out, &document)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// `bakeoff.import-vmstat/1`
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Vmstat<'w> {
    out: &'w mut dyn Write,
    source: &'w str,
    hz: f64,
    cpus: Option<u32>,
    layout: Layout,
    written: u64,
}

#[derive(Serialize)]
struct IntervalView<'a> {
    at: Option<String>,
    elapsed_s: Option<f64>,
    user_ratio: Option<f64>,
    system_ratio: Option<f64>,
    idle_ratio: Option<f64>,
    wait_ratio: Option<f64>,
    stolen_ratio: Option<f64>,
    busy_ratio: Option<f64>,
    unaccounted_ratio: Option<f64>,
    ticks: Option<TicksView>,
    counters: Rises<'a>,
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Serialize)]
struct TicksView {
    user: u64,
    system: u64,
    idle: u64,
    wait: u64,
    stolen: u64,
    sum: u64,
}

/// Counters by name, in the order printed.
struct Rises<'a>(&'a [(String, Maybe<u64>)]);

impl Serialize for Rises<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, rose)| (name, rose.as_ref().ok())))
    }
}

impl<'w> Vmstat<'w> {
    /// Documents on `out` about the inputs called `source`; `hz` and `cpus` are told as they were assumed.
    pub fn new(out: &'w mut dyn Write, source: &'w str, hz: f64, cpus: Option<u32>, layout: Layout) -> Self {
        Self { out, source, hz, cpus, layout, written: 0 }
    }

    fn head(&mut self, cpus: Option<u32>) -> io::Result<()> {
        #[derive(Serialize)]
        struct Head<'a> {
            schema: &'static str,
            source: &'a str,
            hz: f64,
            cpus: Option<u32>,
        }
        self.out.write_all(b"{")?;
        let head = Head { schema: "bakeoff.import-vmstat/1", source: self.source, hz: self.hz, cpus };
        members(self.out, &head)?;
        self.out.write_all(b",\"intervals\":[")
    }
}

impl Intervals for Vmstat<'_> {
    fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        let lines = self.layout == Layout::Lines;
        if lines || self.written == 0 {
            self.head(interval.cpus.or(self.cpus))?;
        } else {
            self.out.write_all(b",\n")?;
        }
        self.written += 1;
        let mut missing = Reasons::new();
        let [user_ratio, system_ratio, idle_ratio, wait_ratio, stolen_ratio] =
            STATES.map(|(name, part)| known(&interval.ratio(part), &format!("{name}_ratio"), &mut missing));
        let view = IntervalView {
            at: interval.at.as_ref().map(ToString::to_string),
            elapsed_s: known(&interval.elapsed_s, "elapsed_s", &mut missing),
            user_ratio,
            system_ratio,
            idle_ratio,
            wait_ratio,
            stolen_ratio,
            busy_ratio: known(&interval.busy_ratio(), "busy_ratio", &mut missing),
            unaccounted_ratio: known(&interval.unaccounted_ratio, "unaccounted_ratio", &mut missing),
            ticks: known(&interval.ticks, "ticks", &mut missing).map(|ticks| TicksView {
                user: ticks.user,
                system: ticks.system,
                idle: ticks.idle,
                wait: ticks.wait,
                stolen: ticks.stolen,
                sum: ticks.sum(),
            }),
            counters: Rises(&interval.counters),
            missing,
        };
        put(self.out, &view)?;
        if lines {
            self.out.write_all(b"]}\n")?;
        }
        Ok(())
    }

    fn end(&mut self, error: Option<&ImportError>) -> io::Result<()> {
        if self.layout == Layout::Lines && error.is_none() {
            return Ok(());
        }
        if self.layout == Layout::Lines || self.written == 0 {
            self.head(self.cpus)?;
        }
        self.out.write_all(b"]")?;
        if let Some(error) = error {
            self.out.write_all(b",\"error\":")?;
            put(self.out, &error.to_string())?;
        }
        self.out.write_all(b"}\n")
    }
}
