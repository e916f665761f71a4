//! Synthetic scale runs.

#[path = "../experiment/mod.rs"]
mod experiment;

use std::collections::BTreeMap;

use experiment::experiment;
use record::bakeoff::Bakeoff;
use record::cpu::{CpuInterval, CpuSample, Rung};
use record::missing::Missing;
use record::run::RunKind;
use record::series::Sample;

/// `busy` of `cpus` CPUs run a task all the time.
pub(crate) fn cpu(cpus: u32, busy: u32) -> CpuInterval {
    let missing = || Missing::because("synthetic");
    let sample = |cpu| CpuSample {
        event_ratio: Ok(f64::from(u8::from(cpu < busy))),
        ..CpuSample::without_values(cpu, "synthetic")
    };
    CpuInterval {
        from_ns: 0,
        until_ns: 1_000_000_000,
        rung: Rung::Bpf,
        missed_deadline: false,
        cpus: (0..cpus).map(sample).collect(),
        psi_some_ratio: Err(missing()),
        lost: BTreeMap::new(),
    }
}

/// A run on `cpus` CPUs, in which `copies` copies do `work(copies)` per second, a little more in each round.
pub(crate) fn machine(cpus: u32, copies: &[u32], work: impl Fn(u32) -> f64, with_usage: bool) -> Bakeoff {
    let cells: Vec<_> = copies.iter().map(|n| [("copies".to_owned(), n.to_string())].into()).collect();
    experiment(RunKind::Scale, Vec::new(), 6, &cells, |round, levels| {
        let n: u32 = levels["copies"].parse().expect("a number");
        let mut series = vec![sample("cpus", String::new(), f64::from(cpus))];
        let each = work(n) / f64::from(n) * (1.0 + 0.001 * f64::from(round));
        for copy in 0..n {
            series.push(sample("work_per_s", format!("copy={copy}"), each));
            if with_usage {
                let on_cpu = f64::from(cpus.min(n)) / f64::from(n);
                series.push(sample("cpu_s_per_run", format!("copy={copy}"), on_cpu / each));
            }
        }
        (series, vec![cpu(cpus, n.min(cpus))])
    })
}

/// A sample one second after the beginning.
fn sample(name: &str, labels: String, value: f64) -> Sample {
    Sample { t_ms: 1_000, host: "".into(), name: name.into(), labels: labels.into(), value }
}
