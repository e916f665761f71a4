//! JSON of an mpstat log.

use super::super::{Means, MpstatView, Samples, parts, subject};
use super::{Layout, Reasons, members, put};
use crate::error::ImportError;
use crate::solaris::mpstat::{Aggregate, COLUMNS, Columns, Rates, Sample};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::io::{self, Write};

/// Maximum length of the list of full CPUs at the end of a document, which bounds memory. Each sample also
/// has its own list.
const SATURATED_MAX: usize = 500_000;

/// Writer of `bakeoff.import-mpstat/1`.
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Mpstat<'w> {
    out: &'w mut dyn Write,
    view: MpstatView,
    source: &'w str,
    layout: Layout,
    /// The last sample, held back because a sample with more rows may replace it.
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

/// Values of mpstat's columns, by name.
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

/// Members of the document after the samples.
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
    /// Writes documents to `out`; `source` names the input.
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
                Layout::Document => "only the sample since boot",
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
            // Each line is a separate document: a sample that is replaced becomes a second document.
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
