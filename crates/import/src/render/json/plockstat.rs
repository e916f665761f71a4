//! JSON of a plockstat log.

use super::super::{PlockstatLog, PlockstatView};
use super::{Bins, Reasons, put};
use crate::error::ImportError;
use serde::Serialize;
use std::io::{self, Write};

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

/// Prints a plockstat log as `bakeoff.import-plockstat/1`.
///
/// # Errors
///
/// Errors of the output.
pub fn plockstat(
    out: &mut dyn Write,
    log: &PlockstatLog,
    view: &PlockstatView,
    source: &str,
    error: Option<&ImportError>,
) -> io::Result<()> {
    let mut missing = Reasons::new();
    if view.elapsed_s.is_none() {
        missing.insert("elapsed_s".into(), "not in plockstat's output: give --elapsed SECONDS".into());
    }
    if view.cpus.is_none() {
        missing.insert("cpus".into(), "not in plockstat's output: give -n NCPU".into());
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
    let impossible = view.impossible(log);
    let tainted_by: Vec<String> = log.lost.iter().chain(&impossible).map(ToString::to_string).collect();
    let document = PlockstatDocument {
        schema: "bakeoff.import-plockstat/1",
        source,
        elapsed_s: view.elapsed_s,
        cpus: view.cpus,
        tainted: !tainted_by.is_empty(),
        tainted_by,
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
