//! The document of a run or a bake-off: everything, including distributions.
//!
//! Long lists are formed item by item while they are written, so that memory holds them once.

use std::io::{self, Write};

use record::bakeoff::Bakeoff;
use record::cpu::CpuInterval;
use record::instruments::{Instruments, Observed};
use record::load::LoadRecord;
use record::run::Run;
use record::series::{HistogramSlice, Sample};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::intervals::{StoredInterval, Visit, visit_all};
use crate::schema::bakeoff::Order;
use crate::schema::environment::EnvironmentFile;
use crate::schema::manifest::Manifest;
use crate::schema::profile::StacksForm;
use crate::schema::sample::SampleForm;

/// Form of the document.
const SCHEMA: &str = "bakeoff.export/1";

#[derive(Serialize)]
struct RunDocument<'a> {
    schema: &'static str,
    run: Manifest,
    cpu: Lines<'a, CpuInterval>,
    #[serde(flatten)]
    instruments: InstrumentsForm<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stacks: Vec<StacksForm>,
    series: SamplesForm<'a>,
    slices: SlicesForm<'a>,
}

/// The numbers over time, formed one by one.
struct SamplesForm<'a>(&'a [Sample]);

impl Serialize for SamplesForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(SampleForm::of))
    }
}

/// The distributions of a load, formed one by one.
struct SlicesForm<'a>(Option<&'a LoadRecord>);

impl Serialize for SlicesForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().flat_map(|load| &load.slices).map(SliceForm::of))
    }
}

/// A list of intervals.
struct Lines<'a, T>(&'a [T]);

impl<T: StoredInterval> Serialize for Lines<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(StoredInterval::form))
    }
}

/// A key for each instrument that has intervals.
struct InstrumentsForm<'a>(&'a Instruments);

impl Serialize for InstrumentsForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Keys<'a, M>(&'a Instruments, M);
        impl<M: SerializeMap> Visit for Keys<'_, M> {
            type Error = M::Error;

            fn visit<T: StoredInterval + Observed>(&mut self) -> Result<(), M::Error> {
                match T::of(self.0) {
                    [] => Ok(()),
                    intervals => self.1.serialize_entry(<T as StoredInterval>::NAME, &Lines(intervals)),
                }
            }
        }
        let mut keys = Keys(self.0, serializer.serialize_map(None)?);
        visit_all(&mut keys)?;
        keys.1.end()
    }
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
struct BakeoffDocument<'a> {
    schema: &'static str,
    bakeoff: Order,
    environment: EnvironmentFile,
    plan: String,
    attempts: Vec<AttemptForm<'a>>,
}

#[derive(Serialize)]
struct AttemptForm<'a> {
    trial: u32,
    state: &'static str,
    reason: Option<String>,
    measured: Option<RunDocument<'a>>,
}

/// Writes the document of a run.
pub(super) fn of_run(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &RunDocument::of(run))?;
    out.write_all(b"\n")
}

/// Writes the document of a bake-off.
pub(super) fn of_bakeoff(bakeoff: &Bakeoff, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &BakeoffDocument::of(bakeoff))?;
    out.write_all(b"\n")
}

impl SliceForm {
    fn of(slice: &HistogramSlice) -> Self {
        Self {
            from_ns: slice.from_ns,
            for_ns: slice.for_ns,
            op: slice.operation.clone(),
            kind: slice.kind.word(),
            buckets: slice.histogram.buckets().collect(),
        }
    }
}

impl<'a> RunDocument<'a> {
    fn of(run: &'a Run) -> Self {
        Self {
            schema: SCHEMA,
            run: Manifest::of(run, Vec::new()),
            cpu: Lines(&run.cpu),
            instruments: InstrumentsForm(&run.instruments),
            stacks: run.instruments.profiles.iter().map(StacksForm::of).collect(),
            series: SamplesForm(&run.series),
            slices: SlicesForm(run.load.as_ref()),
        }
    }
}

impl<'a> BakeoffDocument<'a> {
    fn of(bakeoff: &'a Bakeoff) -> Self {
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
