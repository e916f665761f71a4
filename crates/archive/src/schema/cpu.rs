//! CPU use, as stored: `cpu.jsonl.zst`, one interval per line, in the format of `bakeoff cpu --json`.

use std::collections::BTreeMap;

use record::cpu::{CpuInterval, CpuSample, Rung, TopThread};
use serde::{Deserialize, Serialize};

use super::{Real, Reasons, Wrong, word};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Interval {
    from_ns: u64,
    until_ns: u64,
    rung: String,
    missed_deadline: bool,
    cpus: Vec<Cpu>,
    #[serde(default)]
    psi_some_ratio: Option<Real>,
    lost: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct Cpu {
    #[serde(rename = "cpu")]
    number: u32,
    event_ratio: Option<Real>,
    #[serde(default)]
    irq_ratio: Option<Real>,
    #[serde(default)]
    softirq_ratio: Option<Real>,
    #[serde(default)]
    run_queue_wait_ns: Option<u64>,
    tick_before_ratio: Option<Real>,
    tick_after_ratio: Option<Real>,
    sampled_ratio: Option<Real>,
    procstat_busy_ratio: Option<Real>,
    unaccounted_ratio: Option<Real>,
    not_idle_ratio: Option<Real>,
    #[serde(default)]
    stolen_ratio: Option<Real>,
    #[serde(default)]
    cycles: Option<u64>,
    #[serde(default)]
    instructions: Option<u64>,
    balance_ns: Option<i64>,
    switches: Option<u64>,
    top: Option<Top>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct Top {
    pid: u32,
    tid: u32,
    comm: String,
    ratio: Real,
}

impl Interval {
    pub(crate) fn of(interval: &CpuInterval) -> Self {
        let CpuInterval { from_ns, until_ns, rung, missed_deadline, cpus, psi_some_ratio, lost } = interval;
        let mut missing = Reasons::default();
        Self {
            from_ns: *from_ns,
            until_ns: *until_ns,
            rung: rung.word().to_owned(),
            missed_deadline: *missed_deadline,
            cpus: cpus.iter().map(Cpu::of).collect(),
            psi_some_ratio: missing.split("psi_some_ratio", psi_some_ratio, |v| Real(*v)),
            lost: lost.clone(),
            missing,
        }
    }

    pub(crate) fn read(self) -> Result<CpuInterval, Wrong> {
        Ok(CpuInterval {
            from_ns: self.from_ns,
            until_ns: self.until_ns,
            rung: word("rung", &self.rung, Rung::from_word)?,
            missed_deadline: self.missed_deadline,
            psi_some_ratio: self
                .missing
                .join_newer("psi_some_ratio", self.psi_some_ratio, |Real(v)| Ok(v))?,
            cpus: self.cpus.into_iter().map(Cpu::read).collect::<Result<_, _>>()?,
            lost: self.lost,
        })
    }
}

impl Cpu {
    fn of(sample: &CpuSample) -> Self {
        let CpuSample {
            cpu,
            event_ratio,
            irq_ratio,
            softirq_ratio,
            run_queue_wait_ns,
            tick_before_ratio,
            tick_after_ratio,
            sampled_ratio,
            procstat_busy_ratio,
            unaccounted_ratio,
            not_idle_ratio,
            stolen_ratio,
            cycles,
            instructions,
            balance_ns,
            switches,
            top,
        } = sample;
        let mut missing = Reasons::default();
        let real = |value: &f64| Real(*value);
        Self {
            number: *cpu,
            event_ratio: missing.split("event_ratio", event_ratio, real),
            irq_ratio: missing.split("irq_ratio", irq_ratio, real),
            softirq_ratio: missing.split("softirq_ratio", softirq_ratio, real),
            run_queue_wait_ns: missing.split("run_queue_wait_ns", run_queue_wait_ns, |v| *v),
            tick_before_ratio: missing.split("tick_before_ratio", tick_before_ratio, real),
            tick_after_ratio: missing.split("tick_after_ratio", tick_after_ratio, real),
            sampled_ratio: missing.split("sampled_ratio", sampled_ratio, real),
            procstat_busy_ratio: missing.split("procstat_busy_ratio", procstat_busy_ratio, real),
            unaccounted_ratio: missing.split("unaccounted_ratio", unaccounted_ratio, real),
            not_idle_ratio: missing.split("not_idle_ratio", not_idle_ratio, real),
            stolen_ratio: missing.split("stolen_ratio", stolen_ratio, real),
            cycles: missing.split("cycles", cycles, |v| *v),
            instructions: missing.split("instructions", instructions, |v| *v),
            balance_ns: missing.split("balance_ns", balance_ns, |v| *v),
            switches: missing.split("switches", switches, |v| *v),
            top: missing.split("top", top, Top::of),
            missing,
        }
    }

    fn read(self) -> Result<CpuSample, Wrong> {
        let m = &self.missing;
        let real = |Real(value)| Ok(value);
        Ok(CpuSample {
            cpu: self.number,
            event_ratio: m.join("event_ratio", self.event_ratio, real)?,
            irq_ratio: m.join_newer("irq_ratio", self.irq_ratio, real)?,
            softirq_ratio: m.join_newer("softirq_ratio", self.softirq_ratio, real)?,
            run_queue_wait_ns: m.join_newer("run_queue_wait_ns", self.run_queue_wait_ns, Ok)?,
            tick_before_ratio: m.join("tick_before_ratio", self.tick_before_ratio, real)?,
            tick_after_ratio: m.join("tick_after_ratio", self.tick_after_ratio, real)?,
            sampled_ratio: m.join("sampled_ratio", self.sampled_ratio, real)?,
            procstat_busy_ratio: m.join("procstat_busy_ratio", self.procstat_busy_ratio, real)?,
            unaccounted_ratio: m.join("unaccounted_ratio", self.unaccounted_ratio, real)?,
            not_idle_ratio: m.join("not_idle_ratio", self.not_idle_ratio, real)?,
            stolen_ratio: m.join_newer("stolen_ratio", self.stolen_ratio, real)?,
            cycles: m.join_newer("cycles", self.cycles, Ok)?,
            instructions: m.join_newer("instructions", self.instructions, Ok)?,
            balance_ns: m.join("balance_ns", self.balance_ns, Ok)?,
            switches: m.join("switches", self.switches, Ok)?,
            top: m.join("top", self.top, Top::read)?,
        })
    }
}

impl Top {
    fn of(top: &TopThread) -> Self {
        let TopThread { pid, tid, comm, ratio } = top;
        Self { pid: *pid, tid: *tid, comm: comm.clone(), ratio: Real(*ratio) }
    }

    #[expect(clippy::unnecessary_wraps, reason = "the form that reading a field that may be missing takes")]
    fn read(self) -> Result<TopThread, Wrong> {
        Ok(TopThread { pid: self.pid, tid: self.tid, comm: self.comm, ratio: self.ratio.0 })
    }
}
