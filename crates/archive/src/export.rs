//! A run or bake-off for other tools: one long table (Parquet, CSV), one document (JSON), or metrics (OpenMetrics).
//!
//! The table has one row a number: what was measured over the whole run has no time, what was measured over time
//! has. The distributions themselves are in each run's `hist.parquet`, which any SQL engine reads as it is.

use std::io::Write;

use parquet::data_type::ByteArray;
use record::bakeoff::{Bakeoff, Trial};
use record::histogram::{CensoredHistogram, Histogram, QUANTILES, Summary};
use record::load::{LoadRecord, Rate};
use record::missing::Maybe;
use record::run::{Run, RunId};
use serde::Serialize;

use crate::error::ArchiveError;
use crate::schema::bakeoff::Order;
use crate::schema::environment::EnvironmentFile;
use crate::schema::manifest::Manifest;
use crate::schema::{Real, cpu};
use crate::series::{self, Column, Table};
use crate::{Archive, disk};

/// In which form to export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The table, as Parquet.
    Parquet,
    /// The table, as comma-separated values with a head line.
    Csv,
    /// Everything, distributions included, as one document.
    Json,
    /// What was measured over whole runs, as an OpenMetrics text.
    OpenMetrics,
}

impl Format {
    /// All of them, with the words users write.
    pub const ALL: [(&str, Self); 4] = [
        ("parquet", Self::Parquet),
        ("csv", Self::Csv),
        ("json", Self::Json),
        ("openmetrics", Self::OpenMetrics),
    ];
}

impl Archive {
    /// Writes a run, or a bake-off with the runs of its attempts, to `out`.
    ///
    /// # Errors
    ///
    /// Where there is none of that name, it does not read, or `out` does not take it.
    pub fn export(&self, id: RunId, format: Format, out: &mut dyn Write) -> Result<(), ArchiveError> {
        let what = if self.is_bakeoff(id) {
            What::Bakeoff(Box::new(self.bakeoff(id)?))
        } else {
            What::Run(Box::new(self.run(id)?))
        };
        let written = match format {
            Format::Json => json(&what, out),
            Format::OpenMetrics => openmetrics(&what, out),
            Format::Csv => csv(&rows(&what), out),
            Format::Parquet => out.write_all(&parquet_table(&rows(&what))),
        };
        written.and_then(|()| out.flush()).map_err(|source| ArchiveError::Output { source })
    }

    /// The names of the files that are stored for a run beside its manifest.
    ///
    /// # Errors
    ///
    /// Where there is no such run, or its manifest does not read.
    pub fn files(&self, id: RunId) -> Result<Vec<String>, ArchiveError> {
        let folder = self.tree.run(id);
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        Ok(crate::reader::read_manifest(&folder, id)?.manifest.files.into_iter().map(|f| f.name).collect())
    }

    /// The content of a file that [`crate::RunWriter::add_file`] kept, by the name it was added under.
    ///
    /// # Errors
    ///
    /// Where there is none, or it is not what was written.
    pub fn file(&self, id: RunId, name: &str) -> Result<Vec<u8>, ArchiveError> {
        let folder = self.tree.run(id);
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        let manifest = crate::reader::read_manifest(&folder, id)?.manifest;
        let packed = format!("{name}.zst");
        let bytes = crate::reader::checked(&folder, &manifest, &packed)?;
        disk::unpack(&bytes).map_err(|e| ArchiveError::damaged(&folder.join(packed), e.to_string()))
    }
}

enum What {
    Run(Box<Run>),
    Bakeoff(Box<Bakeoff>),
}

impl What {
    /// The runs, with their trials where they have one.
    fn runs(&self) -> Vec<(Option<&Trial>, &Run)> {
        match self {
            Self::Run(run) => vec![(None, run)],
            Self::Bakeoff(bakeoff) => {
                let trial = |index: u32| bakeoff.trials.iter().find(|t| t.index == index);
                bakeoff.attempts.iter().filter_map(|a| Some((trial(a.trial), a.run.as_ref()?))).collect()
            }
        }
    }
}

/// A number with what it is of.
struct Value {
    name: &'static str,
    labels: Vec<(&'static str, String)>,
    number: f64,
}

/// One row of the table.
struct Line<'a> {
    run: &'a Run,
    trial: Option<&'a Trial>,
    t_ms: Option<i64>,
    host: &'a str,
    name: &'a str,
    labels: String,
    value: f64,
}

fn rows(what: &What) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for (trial, run) in what.runs() {
        let host = series::host(&run.environment);
        for Value { name, labels, number } in whole_run(run) {
            lines.push(Line { run, trial, t_ms: None, host, name, labels: flat(&labels), value: number });
        }
        for sample in &run.series {
            let (host, name, labels) = (&sample.host, &sample.name, sample.labels.clone());
            lines.push(Line { run, trial, t_ms: Some(sample.t_ms), host, name, labels, value: sample.value });
        }
    }
    lines
}

fn flat(labels: &[(&str, String)]) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

/// What was measured over the whole of a run. Missing values are not among it.
fn whole_run(run: &Run) -> Vec<Value> {
    let mut values = Values(Vec::new());
    if let Some(load) = &run.load {
        values.of_load(load);
    }
    values.0
}

struct Values(Vec<Value>);

impl Values {
    fn put(&mut self, name: &'static str, labels: &[(&'static str, &str)], number: f64) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.0.push(Value { name, labels, number });
    }

    fn of_load(&mut self, load: &LoadRecord) {
        if let Rate::PerSecond(rate) = load.settings.rate {
            self.put("offered_per_s", &[], rate);
        }
        self.put("achieved_per_s", &[], load.achieved_per_s);
        self.put("measured_s", &[], load.measured.as_secs_f64());
        self.put("threads", &[], f64::from(load.settings.threads));
        let c = load.counts;
        let fates = [
            ("planned", c.planned),
            ("done", c.done),
            ("failed", c.failed),
            ("skipped", c.skipped),
            ("unfinished", c.unfinished),
        ];
        for (fate, n) in fates {
            self.put("events", &[("fate", fate)], n as f64);
        }
        self.put("retries", &[], c.retries as f64);
        let e = load.errors;
        let classes = [
            ("transient", e.transient),
            ("connection", e.connection),
            ("application", e.application),
            ("verify", e.verify),
        ];
        for (class, n) in classes {
            self.put("errors", &[("class", class)], n as f64);
        }
        self.put("outages", &[], load.outages.len() as f64);
        self.distribution(
            "response_ns",
            "",
            load.response.as_ref().ok().and_then(CensoredHistogram::summary),
        );
        self.distribution("service_ns", "", load.service.summary());
        self.distribution("wait_ns", "", load.wait.as_ref().ok().and_then(CensoredHistogram::summary));
        self.distribution("lateness_ns", "", known(&load.lateness));
        for (name, operation) in &load.operations {
            self.distribution("service_ns", name, operation.summary());
        }
        if let Ok(client) = &load.client {
            self.put("client_user_us_per_event", &[], client.user_us_per_event);
            self.put("client_system_us_per_event", &[], client.system_us_per_event);
            self.put("client_switches_per_event", &[], client.switches_per_event);
        }
    }

    fn distribution(&mut self, name: &'static str, operation: &str, summary: Option<Summary>) {
        let Some(s) = summary else { return };
        let mut put = |of: &str, stat: &str, value: f64| {
            let mut labels = vec![("stat", stat)];
            labels.extend((!operation.is_empty()).then_some(("operation", operation)));
            // Unfinished events could still raise it.
            labels.extend(s.lower_bounds.contains(&of).then_some(("bound", "lower")));
            self.put(name, &labels, value);
        };
        put("count", "count", s.count as f64);
        put("min", "min", s.min_ns as f64);
        put("mean", "mean", s.mean_ns);
        for (place, (of, _)) in QUANTILES.iter().enumerate() {
            // One that so few values do not hold is left out: missing is not zero, and not the largest value either.
            if let Some(value) = s.quantile_ns(place) {
                put(of, of, value as f64);
            }
        }
        put("max", "max", s.max_ns as f64);
    }
}

fn known(histogram: &Maybe<Histogram>) -> Option<Summary> {
    histogram.as_ref().ok().and_then(Histogram::summary)
}

const COLUMNS: &str = "run,kind,state,bakeoff,trial,block,series,position,levels,t_ms,host,name,labels,value";

fn levels(trial: Option<&Trial>) -> String {
    let levels = trial.iter().flat_map(|t| &t.levels).map(|(factor, level)| format!("{factor}={level}"));
    levels.collect::<Vec<_>>().join(",")
}

fn csv(lines: &[Line<'_>], out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{COLUMNS}")?;
    let number = |n: Option<u32>| n.map_or_else(String::new, |n| n.to_string());
    for line in lines {
        let header = &line.run.header;
        let fields = [
            header.id.to_string(),
            header.kind.word().to_owned(),
            header.state.word().to_owned(),
            header.bakeoff.map_or_else(String::new, |b| b.to_string()),
            number(line.trial.map(|t| t.index)),
            number(line.trial.map(|t| t.block)),
            number(line.trial.map(|t| t.series)),
            number(line.trial.map(|t| t.position)),
            levels(line.trial),
            line.t_ms.map_or_else(String::new, |t| t.to_string()),
            line.host.to_owned(),
            line.name.to_owned(),
            line.labels.clone(),
            line.value.to_string(),
        ];
        writeln!(out, "{}", fields.map(|f| quoted(&f)).join(","))?;
    }
    Ok(())
}

/// A field as RFC 4180 wants it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

const TABLE: &str = "message bakeoff {
    required binary run (STRING);
    required binary kind (STRING);
    required binary state (STRING);
    required binary bakeoff (STRING);
    optional int64 trial;
    optional int64 block;
    optional int64 series;
    optional int64 position;
    required binary levels (STRING);
    optional int64 t_ms;
    required binary host (STRING);
    required binary name (STRING);
    required binary labels (STRING);
    required double value;
}";

fn parquet_table(lines: &[Line<'_>]) -> Vec<u8> {
    let mut table = Table::new(TABLE, &["t_ms"]);
    let text = |of: &dyn Fn(&Line<'_>) -> String| {
        Column::Text(lines.iter().map(|l| ByteArray::from(of(l).into_bytes())).collect())
    };
    let number = |of: fn(&Trial) -> u32| {
        Column::MaybeWhole(lines.iter().map(|l| l.trial.map(|t| i64::from(of(t)))).collect())
    };
    table.group([
        text(&|l| l.run.header.id.to_string()),
        text(&|l| l.run.header.kind.word().to_owned()),
        text(&|l| l.run.header.state.word().to_owned()),
        text(&|l| l.run.header.bakeoff.map_or_else(String::new, |b| b.to_string())),
        number(|t| t.index),
        number(|t| t.block),
        number(|t| t.series),
        number(|t| t.position),
        text(&|l| levels(l.trial)),
        Column::MaybeWhole(lines.iter().map(|l| l.t_ms).collect()),
        text(&|l| l.host.to_owned()),
        text(&|l| l.name.to_owned()),
        text(&|l| l.labels.clone()),
        Column::Real(lines.iter().map(|l| l.value).collect()),
    ]);
    table.finish()
}

fn openmetrics(what: &What, out: &mut dyn Write) -> std::io::Result<()> {
    let mut families = std::collections::BTreeMap::<String, Vec<String>>::new();
    for (trial, run) in what.runs() {
        let mut of_run =
            vec![("run", run.header.id.to_string()), ("kind", run.header.kind.word().to_owned())];
        of_run.extend(run.header.bakeoff.map(|b| ("bakeoff", b.to_string())));
        of_run.extend(trial.map(|t| ("block", t.block.to_string())));
        let levels =
            trial.iter().flat_map(|t| &t.levels).map(|(f, l)| (format!("level_{}", plain(f)), l.clone()));
        let levels: Vec<(String, String)> = levels.collect();
        let at_ms = run.header.anchor.unix_ns / 1_000_000;
        for Value { name, labels, number } in whole_run(run) {
            let of_run = of_run.iter().chain(&labels).map(|(name, value)| (*name, value));
            let all = of_run.chain(levels.iter().map(|(name, value)| (name.as_str(), value)));
            let all: Vec<String> =
                all.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let is_count = labels.iter().any(|(name, value)| *name == "stat" && value == "count");
            let (name, value) = if is_count {
                (format!("bakeoff_{}_samples", name.trim_end_matches("_ns")), number)
            } else {
                in_base_unit(name, number)
            };
            let line = format!("{name}{{{}}} {value} {}.{:03}", all.join(","), at_ms / 1000, at_ms % 1000);
            families.entry(name).or_default().push(line);
        }
    }
    for (family, lines) in families {
        writeln!(out, "# TYPE {family} gauge")?;
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    writeln!(out, "# EOF")
}

/// Metrics have base units, written out.
fn in_base_unit(name: &str, value: f64) -> (String, f64) {
    if let Some(stem) = name.strip_suffix("_ns") {
        return (format!("bakeoff_{stem}_seconds"), value * 1e-9);
    }
    if let Some(stem) = name.strip_suffix("_us_per_event") {
        return (format!("bakeoff_{stem}_seconds_per_event"), value * 1e-6);
    }
    if let Some(stem) = name.strip_suffix("_per_s") {
        return (format!("bakeoff_{stem}_per_second"), value);
    }
    (
        format!(
            "bakeoff_{}",
            name.strip_suffix("_s").map_or_else(|| name.to_owned(), |s| format!("{s}_seconds"))
        ),
        value,
    )
}

fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The form of the document.
const SCHEMA: &str = "bakeoff.export/1";

#[derive(Serialize)]
struct RunDocument {
    schema: &'static str,
    run: Manifest,
    cpu: Vec<cpu::Interval>,
    series: Vec<SampleForm>,
    slices: Vec<SliceForm>,
}

#[derive(Serialize)]
struct SampleForm {
    t_ms: i64,
    host: String,
    name: String,
    labels: String,
    value: Real,
}

#[derive(Serialize)]
struct SliceForm {
    from_ns: u64,
    for_ns: u64,
    op: String,
    kind: &'static str,
    /// Lowest value of each occupied bucket, and its count.
    buckets: Vec<(u64, u64)>,
}

#[derive(Serialize)]
struct BakeoffDocument {
    schema: &'static str,
    bakeoff: Order,
    environment: EnvironmentFile,
    plan: String,
    attempts: Vec<AttemptForm>,
}

#[derive(Serialize)]
struct AttemptForm {
    trial: u32,
    state: &'static str,
    reason: Option<String>,
    measured: Option<RunDocument>,
}

fn json(what: &What, out: &mut dyn Write) -> std::io::Result<()> {
    match what {
        What::Run(run) => serde_json::to_writer(&mut *out, &RunDocument::of(run))?,
        What::Bakeoff(bakeoff) => serde_json::to_writer(&mut *out, &BakeoffDocument::of(bakeoff))?,
    }
    out.write_all(b"\n")
}

impl RunDocument {
    fn of(run: &Run) -> Self {
        let slices = run.load.iter().flat_map(|l| &l.slices).map(|s| SliceForm {
            from_ns: s.from_ns,
            for_ns: s.for_ns,
            op: s.operation.clone(),
            kind: s.kind.word(),
            buckets: s.histogram.buckets().collect(),
        });
        let series = run.series.iter().cloned().map(|s| SampleForm {
            t_ms: s.t_ms,
            host: s.host,
            name: s.name,
            labels: s.labels,
            value: Real(s.value),
        });
        Self {
            schema: SCHEMA,
            run: Manifest::of(run, Vec::new()),
            cpu: run.cpu.iter().map(cpu::Interval::of).collect(),
            series: series.collect(),
            slices: slices.collect(),
        }
    }
}

impl BakeoffDocument {
    fn of(bakeoff: &Bakeoff) -> Self {
        let attempts = bakeoff.attempts.iter().map(|a| AttemptForm {
            trial: a.trial,
            state: a.state.word(),
            reason: a.reason.clone(),
            measured: a.run.as_ref().map(RunDocument::of),
        });
        Self {
            schema: SCHEMA,
            bakeoff: Order::of(bakeoff, Vec::new()),
            environment: EnvironmentFile::of(&bakeoff.environment),
            plan: bakeoff.plan_text.clone(),
            attempts: attempts.collect(),
        }
    }
}
