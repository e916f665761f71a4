//! JSON of the intervals between snapshots of `vmstat -s`.

use super::super::Intervals;
use super::{Layout, Reasons, known, members, put};
use crate::error::ImportError;
use crate::vmstat_s::{Interval, STATES};
use record::missing::Maybe;
use serde::{Serialize, Serializer};
use std::io::{self, Write};

/// Writer of `bakeoff.import-vmstat/1`.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    contradiction: Option<&'a str>,
    ticks: Option<TicksView>,
    counters: Rises<'a>,
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Serialize)]
struct TicksView {
    user: u128,
    system: u128,
    idle: u128,
    wait: u128,
    stolen: u128,
    sum: u128,
}

/// Increases of counters by name, in the order printed.
struct Rises<'a>(&'a [(String, Maybe<u64>)]);

impl Serialize for Rises<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, rose)| (name, rose.as_ref().ok())))
    }
}

impl<'w> Vmstat<'w> {
    /// Writes documents to `out`; `source` names the inputs, `hz` and `cpus` are the values that were
    /// assumed.
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
            contradiction: interval.contradiction.as_deref(),
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
