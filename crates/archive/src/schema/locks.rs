//! Waits for locks, as stored: `locks.jsonl.zst` and `ulocks.jsonl.zst`, one interval per line.
//!
//! A distribution is its occupied buckets: `[bound in ns, count]` by powers of two.

use std::collections::BTreeMap;

use record::locks::{
    LockInterval, LockKind, LockSample, UserLockInterval, UserLockKind, UserLockSample, Waits,
};
use serde::{Deserialize, Serialize};

use super::{Reasons, Wrong, word};

/// One line of the kernel's locks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Interval {
    from_ns: u64,
    until_ns: u64,
    cpus: usize,
    missed_deadline: bool,
    locks: Vec<Lock>,
    lost: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Lock {
    kind: String,
    address: u64,
    #[serde(rename = "lock")]
    name: Option<String>,
    caller: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stack: Vec<String>,
    #[serde(flatten)]
    waits: WaitsForm,
    spin_ns_total: u64,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

/// One line of programs' locks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UserInterval {
    from_ns: u64,
    until_ns: u64,
    /// Absent in earlier versions, which therefore had no shares.
    #[serde(default)]
    cpus: usize,
    missed_deadline: bool,
    locks: Vec<UserLock>,
    lost: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct UserLock {
    pid: u32,
    comm: String,
    address: u64,
    kind: String,
    call: Option<String>,
    caller: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stack: Vec<String>,
    waker: Option<String>,
    #[serde(flatten)]
    waits: WaitsForm,
    #[serde(default)]
    spin_ns_total: Option<u64>,
    not_slept: u64,
    timed_out: u64,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct WaitsForm {
    count: u64,
    wait_ns_total: u64,
    wait_ns_max: u64,
    histogram: Vec<(u64, u64)>,
}

impl Interval {
    pub(crate) fn of(interval: &LockInterval) -> Self {
        let LockInterval { from_ns, until_ns, cpus, missed_deadline, locks, lost } = interval;
        Self {
            from_ns: *from_ns,
            until_ns: *until_ns,
            cpus: *cpus,
            missed_deadline: *missed_deadline,
            locks: locks.iter().map(Lock::of).collect(),
            lost: lost.clone(),
        }
    }

    pub(crate) fn read(self) -> Result<LockInterval, Wrong> {
        Ok(LockInterval {
            from_ns: self.from_ns,
            until_ns: self.until_ns,
            cpus: self.cpus,
            missed_deadline: self.missed_deadline,
            locks: self.locks.into_iter().map(Lock::read).collect::<Result<_, _>>()?,
            lost: self.lost,
        })
    }
}

impl Lock {
    fn of(sample: &LockSample) -> Self {
        let LockSample { cgroup: _, kind, address, name, caller, stack, waits, spin_ns_total } = sample;
        let mut missing = Reasons::default();
        Self {
            kind: kind.word().to_owned(),
            address: *address,
            name: missing.split("lock", name, Clone::clone),
            caller: missing.split("caller", caller, Clone::clone),
            stack: stack.clone(),
            waits: WaitsForm::of(waits),
            spin_ns_total: *spin_ns_total,
            missing,
        }
    }

    fn read(self) -> Result<LockSample, Wrong> {
        Ok(LockSample {
            cgroup: None,
            kind: word("kind", &self.kind, LockKind::from_word)?,
            address: self.address,
            name: self.missing.join("lock", self.name, Ok)?,
            caller: self.missing.join("caller", self.caller, Ok)?,
            stack: self.stack,
            waits: self.waits.read(),
            spin_ns_total: self.spin_ns_total,
        })
    }
}

impl UserInterval {
    pub(crate) fn of(interval: &UserLockInterval) -> Self {
        let UserLockInterval { from_ns, until_ns, cpus, missed_deadline, locks, lost } = interval;
        Self {
            from_ns: *from_ns,
            until_ns: *until_ns,
            cpus: *cpus,
            missed_deadline: *missed_deadline,
            locks: locks.iter().map(UserLock::of).collect(),
            lost: lost.clone(),
        }
    }

    pub(crate) fn read(self) -> Result<UserLockInterval, Wrong> {
        Ok(UserLockInterval {
            from_ns: self.from_ns,
            until_ns: self.until_ns,
            cpus: self.cpus,
            missed_deadline: self.missed_deadline,
            locks: self.locks.into_iter().map(UserLock::read).collect::<Result<_, _>>()?,
            lost: self.lost,
        })
    }
}

impl UserLock {
    fn of(sample: &UserLockSample) -> Self {
        let UserLockSample {
            cgroup: _,
            pid,
            comm,
            address,
            kind,
            call,
            caller,
            stack,
            waker,
            waits,
            spin_ns_total,
            not_slept,
            timed_out,
        } = sample;
        let mut missing = Reasons::default();
        Self {
            pid: *pid,
            comm: comm.clone(),
            address: *address,
            kind: kind.word().to_owned(),
            call: missing.split("call", call, Clone::clone),
            caller: missing.split("caller", caller, Clone::clone),
            stack: stack.clone(),
            waker: missing.split("waker", waker, Clone::clone),
            waits: WaitsForm::of(waits),
            spin_ns_total: missing.split("spin_ns_total", spin_ns_total, |ns| *ns),
            not_slept: *not_slept,
            timed_out: *timed_out,
            missing,
        }
    }

    fn read(self) -> Result<UserLockSample, Wrong> {
        Ok(UserLockSample {
            cgroup: None,
            pid: self.pid,
            comm: self.comm,
            address: self.address,
            kind: word("kind", &self.kind, UserLockKind::from_word)?,
            call: self.missing.join("call", self.call, Ok)?,
            caller: self.missing.join("caller", self.caller, Ok)?,
            stack: self.stack,
            waker: self.missing.join("waker", self.waker, Ok)?,
            waits: self.waits.read(),
            spin_ns_total: self.missing.join_later("spin_ns_total", self.spin_ns_total, Ok)?,
            not_slept: self.not_slept,
            timed_out: self.timed_out,
        })
    }
}

impl WaitsForm {
    fn of(waits: &Waits) -> Self {
        let Waits { count, ns_total, ns_max, histogram } = waits;
        Self {
            count: *count,
            wait_ns_total: *ns_total,
            wait_ns_max: *ns_max,
            histogram: histogram.iter().map(|(bound, n)| (*bound, *n)).collect(),
        }
    }

    fn read(self) -> Waits {
        Waits {
            count: self.count,
            ns_total: self.wait_ns_total,
            ns_max: self.wait_ns_max,
            histogram: self.histogram.into_iter().collect(),
        }
    }
}
