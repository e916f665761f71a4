//! Export of a run or bake-off: a long table (Parquet, CSV), a document (JSON), or metrics (OpenMetrics).
//!
//! The table has one row for each number. Numbers of the whole run have no time, numbers of intervals have
//! one. The distributions are in each run's `hist.parquet`, which any SQL engine reads.

mod document;
mod flat;
mod openmetrics;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use parquet::data_type::ByteArray;
use record::bakeoff::{Bakeoff, Trial};
use record::cpu::CpuInterval;
use record::csv::write_row;
use record::histogram::{CensoredHistogram, Histogram, QUANTILES, Summary};
use record::instruments::{Instruments, Observed};
use record::load::LoadRecord;
use record::missing::Maybe;
use record::run::{Run, RunId};
use record::series::{Sample, SharedText};

use self::openmetrics::Families;
use crate::Archive;
use crate::error::ArchiveError;
use crate::intervals::{StoredInterval, Visit, visit_all};
use crate::schema::command::RecordedForm;
use crate::schema::proof::ProofForm;
use crate::series::{self, Column, GROUP_ROWS, Table};

/// Export format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Table as Parquet.
    Parquet,
    /// Table as comma-separated values with a header line.
    Csv,
    /// Everything including distributions, as one document.
    Json,
    /// Table as OpenMetrics text; numbers of intervals have timestamps.
    OpenMetrics,
}

impl Format {
    /// All formats with their names on the command line.
    pub const ALL: [(&str, Self); 4] = [
        ("parquet", Self::Parquet),
        ("csv", Self::Csv),
        ("json", Self::Json),
        ("openmetrics", Self::OpenMetrics),
    ];
}

impl Archive {
    /// Writes a run, or a bake-off with the runs of its attempts, to `out`; returns whether there is any
    /// number. Without one, a table has only a header.
    ///
    /// # Errors
    ///
    /// If no run has that name, the run cannot be read, or `out` cannot be written.
    pub fn export(&self, id: RunId, format: Format, out: &mut dyn Write) -> Result<bool, ArchiveError> {
        let what = if self.is_bakeoff(id) {
            Subject::Bakeoff(Box::new(self.bakeoff_whole(id)?))
        } else {
            Subject::Run(Box::new(self.run(id)?))
        };
        if let Some((run, why)) =
            what.runs().into_iter().find_map(|(_, run)| Some((run, run.unread_series()?)))
        {
            return Err(ArchiveError::TooLong { id: run.header.id, why: why.reason.clone() });
        }
        let written = match format {
            Format::Json => match &what {
                Subject::Run(run) => document::of_run(run, out),
                Subject::Bakeoff(bakeoff) => document::of_bakeoff(bakeoff, out),
            },
            Format::OpenMetrics => families(&what, id)?.write(out),
            Format::Csv => csv(&what, out),
            Format::Parquet => parquet_table(&what, out),
        };
        written.and_then(|()| out.flush()).map_err(|source| ArchiveError::Output { source })?;
        // An error from the first row ends the search.
        Ok(for_each_row(&what, &mut |_| Err(io::ErrorKind::Other.into())).is_err())
    }

    /// Names of the files stored for a run next to its manifest.
    ///
    /// # Errors
    ///
    /// The archive has no such run, or its manifest cannot be read.
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
    /// If the file is missing, or its checksum does not match.
    pub fn file(&self, id: RunId, name: &str) -> Result<Vec<u8>, ArchiveError> {
        let folder = self.tree.run(id);
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        let manifest = crate::reader::read_manifest(&folder, id)?.manifest;
        let packed = format!("{name}.zst");
        crate::reader::unpacked(&folder, &manifest, &packed, crate::disk::OF_LINES)
    }
}

enum Subject {
    Run(Box<Run>),
    Bakeoff(Box<Bakeoff>),
}

impl Subject {
    /// The runs, with their trials if they have one.
    fn runs(&self) -> Vec<(Option<&Trial>, &Run)> {
        match self {
            Self::Run(run) => vec![(None, run)],
            Self::Bakeoff(bakeoff) => {
                let trials: BTreeMap<u32, &Trial> = bakeoff.trials.iter().map(|t| (t.index, t)).collect();
                let runs = bakeoff.attempts.iter().filter_map(|a| Some((a.trial, a.run.as_ref()?)));
                runs.map(|(trial, run)| (trials.get(&trial).copied(), run)).collect()
            }
        }
    }
}

/// A number with its name and labels.
struct Value {
    name: Cow<'static, str>,
    labels: Labels,
    number: f64,
}

type Labels = Vec<(Cow<'static, str>, String)>;

/// One row of the table.
struct Line<'a> {
    run: &'a Run,
    trial: Option<&'a Trial>,
    t_ms: Option<i64>,
    host: &'a str,
    name: Cow<'a, str>,
    labels: Labels,
    value: f64,
}

/// Most rows of a form that must be sorted in memory, and most bytes of their labels.
const SORTED_ROWS_MAX: usize = 200_000;
const SORTED_BYTES_MAX: usize = 64 << 20;

/// The rows, sorted.
fn families(what: &Subject, id: RunId) -> Result<Families, ArchiveError> {
    let why = || {
        let (rows, mib) = (SORTED_ROWS_MAX, SORTED_BYTES_MAX >> 20);
        let why = format!(
            "OpenMetrics has at most {rows} values, with {mib} MiB of labels: export it as csv or parquet"
        );
        ArchiveError::TooLong { id, why }
    };
    let samples: usize = what.runs().iter().map(|(_, run)| run.series.len()).sum();
    if samples > SORTED_ROWS_MAX {
        return Err(why());
    }
    let (mut families, mut rows) = (Families::default(), 0);
    let added = for_each_row(what, &mut |line| {
        families.add(&line);
        rows += 1;
        let is_within = rows <= SORTED_ROWS_MAX && families.label_bytes() <= SORTED_BYTES_MAX;
        if is_within { Ok(()) } else { Err(io::ErrorKind::FileTooLarge.into()) }
    });
    added.map(|()| families).map_err(|_| why())
}

/// Passes each row to `each`, because the rows of a long run may not fit in memory.
fn for_each_row<'a>(what: &'a Subject, each: &mut dyn FnMut(Line<'a>) -> io::Result<()>) -> io::Result<()> {
    for (trial, run) in what.runs() {
        let host = series::host(&run.environment);
        for Value { name, labels, number } in whole_run(run) {
            each(Line { run, trial, t_ms: None, host, name, labels, value: number })?;
        }
        over_time(run, &mut |until_ns, leaf| {
            let t_ms = (i128::from(until_ns) - i128::from(run.header.anchor.monotonic_ns)) / 1_000_000;
            let t_ms = Some(i64::try_from(t_ms).unwrap_or(i64::MAX));
            let labels = leaf.labels.into_iter().map(|(name, value)| (name.into(), value)).collect();
            each(Line { run, trial, t_ms, host, name: leaf.name.into(), labels, value: leaf.value })
        })?;
        for sample in &run.series {
            let labels = sample_labels(&sample.labels);
            let (host, name, t_ms) =
                (sample.host.as_str(), Cow::from(sample.name.as_str()), Some(sample.t_ms));
            each(Line { run, trial, t_ms, host, name, labels, value: sample.value })?;
        }
    }
    Ok(())
}

/// Labels from `copy=3,op=read`; any other text becomes one label.
fn sample_labels(text: &str) -> Labels {
    if text.is_empty() {
        return Vec::new();
    }
    let pairs: Option<Labels> = text
        .split(',')
        .map(|pair| pair.split_once('=').map(|(name, value)| (name.to_owned().into(), value.to_owned())))
        .collect();
    pairs.unwrap_or_else(|| vec![("labels".into(), text.to_owned())])
}

/// Passes on every interval value other than the series, with the end of the interval.
fn over_time(run: &Run, each: &mut dyn FnMut(u64, flat::Leaf) -> io::Result<()>) -> io::Result<()> {
    let mut flat = Flat { seen: &run.instruments, each };
    flat.intervals(&run.cpu)?;
    visit_all(&mut flat)?;
    let slices = run.load.iter().flat_map(|load| load.slices.iter().map(move |slice| (load, slice)));
    for (load, slice) in slices {
        let labels = vec![("op".to_owned(), slice.operation.clone())];
        let bucket = |(lowest_ns, count): (u64, u64)| flat::Leaf {
            name: format!("{}_bucket_events", slice.kind.word()),
            labels: [labels.clone(), vec![("lowest_ns".to_owned(), lowest_ns.to_string())]].concat(),
            value: count as f64,
        };
        // Slices count from the start of the measured phase, all other intervals are on the clock.
        let until_ns = load.measured_from_ns.saturating_add(slice.from_ns).saturating_add(slice.for_ns);
        flat.put(until_ns, slice.histogram.buckets().map(bucket).collect())?;
    }
    Ok(())
}

/// Every number of the intervals, as a series of `host`, like an export has them. Texts in labels have no
/// commas.
///
/// - `from_ns`: time from which the samples count.
pub fn numbers(cpu: &[CpuInterval], seen: &Instruments, host: &str, from_ns: u64) -> Vec<Sample> {
    let mut found = Vec::new();
    let host = SharedText::from(host);
    let mut each = |until_ns: u64, leaf: flat::Leaf| {
        let label = |(name, value): &(String, String)| format!("{name}={}", value.replace([',', '='], ";"));
        let labels: Vec<String> = leaf.labels.iter().map(label).collect();
        let ms = i128::from(until_ns) - i128::from(from_ns);
        found.push(Sample {
            t_ms: i64::try_from(ms / 1_000_000).unwrap_or(i64::MAX),
            host: host.clone(),
            name: leaf.name.into(),
            labels: labels.join(",").into(),
            value: leaf.value,
        });
        Ok(())
    };
    let mut flat = Flat { seen, each: &mut each };
    let all = flat.intervals(cpu).and_then(|()| visit_all(&mut flat));
    all.expect("each number is taken");
    found
}

/// Passes each number of an interval, with the end of the interval, to `each`.
struct Flat<'a> {
    seen: &'a Instruments,
    each: &'a mut dyn FnMut(u64, flat::Leaf) -> io::Result<()>,
}

impl Flat<'_> {
    fn put(&mut self, until_ns: u64, leaves: Vec<flat::Leaf>) -> io::Result<()> {
        leaves.into_iter().try_for_each(|leaf| (self.each)(until_ns, leaf))
    }

    fn intervals<T: StoredInterval>(&mut self, intervals: &[T]) -> io::Result<()> {
        intervals.iter().try_for_each(|i| self.put(i.until_ns(), flat::leaves(T::NAME, &i.form())))
    }
}

impl Visit for Flat<'_> {
    type Error = io::Error;

    fn visit<T: StoredInterval + Observed>(&mut self) -> io::Result<()> {
        self.intervals(T::of(self.seen))
    }
}

fn flat(labels: &Labels) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

/// Numbers of the whole run. Missing values have no row.
fn whole_run(run: &Run) -> Vec<Value> {
    let mut values = Values(Vec::new());
    if let Some(load) = &run.load {
        values.of_load(load);
    }
    if let Some(recorded) = &run.recorded {
        values.leaves(flat::leaves("recorded", &RecordedForm::of(recorded)));
    }
    for proof in &run.proofs {
        values.leaves(flat::leaves("proof", &ProofForm::of(proof)));
    }
    if let Ok(throttled) = &run.throttled {
        let cgroup = [("cgroup", throttled.cgroup.as_str())];
        values.put("throttled_periods", &cgroup, throttled.periods as f64);
        values.put("throttled_s", &cgroup, throttled.time_ns as f64 * 1e-9);
    }
    values.0
}

struct Values(Vec<Value>);

impl Values {
    fn put(&mut self, name: &'static str, labels: &[(&'static str, &str)], number: f64) {
        let labels = labels.iter().map(|(name, value)| (Cow::from(*name), (*value).to_owned())).collect();
        self.0.push(Value { name: name.into(), labels, number });
    }

    fn leaves(&mut self, leaves: Vec<flat::Leaf>) {
        self.0.extend(leaves.into_iter().map(|leaf| Value {
            name: leaf.name.into(),
            labels: leaf.labels.into_iter().map(|(name, value)| (name.into(), value)).collect(),
            number: leaf.value,
        }));
    }

    fn of_load(&mut self, load: &LoadRecord) {
        if let Some(rate) = load.settings.pace.per_s() {
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
            ("timeout", e.timeout),
        ];
        for (class, n) in classes {
            self.put("errors", &[("class", class)], n as f64);
        }
        self.put("outages", &[], load.outages.len() as f64 + load.unlisted_outages.count as f64);
        self.distribution("response_ns", "", load.response_summary().ok().flatten());
        self.distribution("service_ns", "", load.service_summary());
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
            // Unfinished events could still raise the value, or the generator may have caused most of it.
            labels.extend(s.bound(of).word().map(|word| ("bound", word)));
            self.put(name, &labels, value);
        };
        put("count", "count", s.count as f64);
        put("min", "min", s.min_ns as f64);
        put("mean", "mean", s.mean_ns);
        for (place, (of, _)) in QUANTILES.iter().enumerate() {
            // A quantile that needs more values is left out: missing is not zero, nor the maximum.
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

fn csv(what: &Subject, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{COLUMNS}")?;
    let number = |n: Option<u32>| n.map_or_else(String::new, |n| n.to_string());
    for_each_row(what, &mut |line| {
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
            line.name.into_owned(),
            flat(&line.labels),
            line.value.to_string(),
        ];
        write_row(out, fields)
    })
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

/// Bytes of text after which a group of rows is written, because few labels can be long.
const GROUP_TEXT_BYTES: usize = 16 << 20;

fn parquet_table(what: &Subject, out: &mut dyn Write) -> io::Result<()> {
    let written = Written::default();
    let mut table = Table::new(written.clone(), TABLE, &["t_ms"])?;
    let (mut waiting, mut text_bytes) = (Vec::new(), 0);
    for_each_row(what, &mut |line| {
        text_bytes += line.labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        waiting.push(line);
        if waiting.len() == GROUP_ROWS || text_bytes >= GROUP_TEXT_BYTES {
            table.group(waiting.len(), columns(&waiting))?;
            waiting.clear();
            text_bytes = 0;
            written.move_to(out)?;
        }
        Ok(())
    })?;
    table.group(waiting.len(), columns(&waiting))?;
    table.finish()?;
    written.move_to(out)
}

/// The part of a table that is not yet in its output. The writer of tables needs one that threads share.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn move_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let bytes = std::mem::take(&mut *self.0.lock().map_err(|_| io::ErrorKind::Other)?);
        out.write_all(&bytes)
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().map_err(|_| io::ErrorKind::Other)?.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn columns<'a>(lines: &'a [Line<'_>]) -> [Column<'a>; 14] {
    let text = |of: fn(&Line<'_>) -> String| {
        Column::Text(Box::new(lines.iter().map(move |l| ByteArray::from(of(l).into_bytes()))))
    };
    let number = |of: fn(&Trial) -> u32| {
        Column::MaybeWhole(Box::new(lines.iter().map(move |l| l.trial.map(|t| i64::from(of(t))))))
    };
    [
        text(|l| l.run.header.id.to_string()),
        text(|l| l.run.header.kind.word().to_owned()),
        text(|l| l.run.header.state.word().to_owned()),
        text(|l| l.run.header.bakeoff.map_or_else(String::new, |b| b.to_string())),
        number(|t| t.index),
        number(|t| t.block),
        number(|t| t.series),
        number(|t| t.position),
        text(|l| levels(l.trial)),
        Column::MaybeWhole(Box::new(lines.iter().map(|l| l.t_ms))),
        text(|l| l.host.to_owned()),
        text(|l| l.name.clone().into_owned()),
        text(|l| flat(&l.labels)),
        Column::Real(Box::new(lines.iter().map(|l| l.value))),
    ]
}
