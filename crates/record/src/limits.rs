//! Limits on the CPU time of a process: affinity, CPU set, quota; and how often a quota stopped it.

use std::collections::BTreeSet;
use std::fmt;

use crate::missing::{Maybe, Missing};
use crate::verdict::Check;

/// CPUs that a process, or the processes of a cgroup, may use.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuLimits {
    /// CPUs that affinity and CPU set allow.
    pub allowed: Maybe<BTreeSet<u32>>,
    /// Tightest quota of the cgroup and its ancestors. `Ok(None)`: no readable cgroup has one.
    pub quota: Maybe<Option<Quota>>,
}

/// CPU time per wall time that the kernel grants a cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    /// Number of CPUs: 0.5 is 50 ms in each 100 ms.
    pub cpus: f64,
    /// Cgroup with the quota, as in `/proc/PID/cgroup`.
    pub cgroup: String,
}

impl CpuLimits {
    /// Number of CPUs: the smaller of the number of allowed CPUs and the quota.
    ///
    /// # Errors
    ///
    /// Missing if either is missing.
    pub fn cpus(&self) -> Maybe<f64> {
        let allowed = self.allowed.as_ref().map_err(Clone::clone)?.len() as f64;
        let quota = self.quota.as_ref().map_err(Clone::clone)?;
        Ok(quota.as_ref().map_or(allowed, |quota| quota.cpus.min(allowed)))
    }

    /// Words about a quota that can take effect in a measurement, before it begins; `None` without a quota,
    /// or if the allowed CPUs together cannot exceed it.
    pub fn warning(&self) -> Option<String> {
        let Quota { cpus, cgroup } = self.quota.as_ref().ok()?.as_ref()?;
        let allowed = self.allowed.as_ref().map_or(f64::INFINITY, |allowed| allowed.len() as f64);
        (*cpus < allowed).then(|| {
            format!(
                "control group {cgroup} has a CPU quota of {} CPUs (cpu.max): what it throttles is INVALID; \
                 measure outside of it, or raise the quota",
                (cpus * 100.0).round() / 100.0
            )
        })
    }

    /// CPUs that can be busy all the time without throttling; at least 1, also under a smaller quota.
    ///
    /// # Errors
    ///
    /// The same as [`Self::cpus`].
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of CPUs, at least 1"
    )]
    pub fn whole_cpus(&self) -> Maybe<u32> {
        // A quota of 200,000 us in 100,000 us must not become 1 by rounding.
        self.cpus().map(|cpus| (cpus + 1e-9).floor().max(1.0) as u32)
    }
}

/// Number and duration of the stops that a CPU quota imposed on the processes of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttled {
    /// Quota periods in which the cgroup used up its quota. If 0 with a time over 0, an ancestor that is not
    /// readable here used up its quota.
    pub periods: u64,
    /// Time that processes of the cgroup were stopped, summed over CPUs, in nanoseconds.
    pub time_ns: u64,
    /// Cgroup with the quota; the watched cgroup if no quota took effect.
    pub cgroup: String,
}

impl Throttled {
    /// Whether a quota took effect: then the result depends on the quota, not only on the program.
    pub fn is_any(&self) -> bool {
        self.periods > 0 || self.time_ns > 0
    }

    /// Check `throttled`, which fails if a quota took effect at all.
    pub fn check(&self) -> Check {
        let (found, limit) = (self.time_ns as f64 * 1e-9, 0.0);
        Check { name: "throttled", ok: !self.is_any(), found, limit, text: self.to_string() }
    }

    /// Sum with `other`, another period or another cgroup; names the cgroup with the greater value.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let cgroup = if (other.time_ns, other.periods) > (self.time_ns, self.periods) {
            other.cgroup
        } else {
            self.cgroup
        };
        Self { periods: self.periods + other.periods, time_ns: self.time_ns + other.time_ns, cgroup }
    }
}

impl fmt::Display for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (periods, time_s) = (self.periods, self.time_ns as f64 * 1e-9);
        match (self.is_any(), periods) {
            (false, _) => write!(f, "the CPU quota of control group {} caused no throttling", self.cgroup),
            (true, 0) => write!(
                f,
                "a CPU quota above control group {} throttled its processes for {time_s:.3} s",
                self.cgroup
            ),
            (true, _) => write!(
                f,
                "the CPU quota of control group {} throttled its processes in {periods} period{}, for {time_s:.3} s",
                self.cgroup,
                if periods == 1 { "" } else { "s" }
            ),
        }
    }
}

/// Reason for missing throttling data if quotas were not watched.
pub fn not_watched() -> Missing {
    Missing::because("CPU quotas were not watched")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(allowed: u32, quota: Option<f64>) -> CpuLimits {
        let quota = quota.map(|cpus| Quota { cpus, cgroup: "/a".into() });
        CpuLimits { allowed: Ok((0..allowed).collect()), quota: Ok(quota) }
    }

    #[test]
    fn the_tighter_of_quota_and_cpu_set_counts() {
        for (allowed, quota, cpus, whole) in [
            (4, None, 4.0, 4),
            (4, Some(2.0), 2.0, 2),
            (2, Some(3.5), 2.0, 2),
            (4, Some(1.5), 1.5, 1),
            (4, Some(0.2), 0.2, 1),
        ] {
            let limits = limits(allowed, quota);
            assert_eq!((limits.cpus(), limits.whole_cpus()), (Ok(cpus), Ok(whole)), "{allowed} {quota:?}");
        }
        for (allowed, quota, warned) in [(4, None, false), (4, Some(0.5), true), (2, Some(2.0), false)] {
            let warning = limits(allowed, quota).warning();
            assert_eq!(warning.as_ref().is_some_and(|text| text.contains("0.5 CPUs")), warned, "{warning:?}");
        }
        let unknown = CpuLimits { quota: Err(not_watched()), ..limits(2, None) };
        assert_eq!(unknown.warning(), None);
        assert_eq!(unknown.whole_cpus(), Err(not_watched()));
    }

    #[test]
    fn throttling_is_said_with_its_group() {
        let none = Throttled { periods: 0, time_ns: 0, cgroup: "/a".into() };
        assert!(!none.is_any());
        let some = Throttled { periods: 3, time_ns: 1_500_000_000, cgroup: "/b".into() };
        assert_eq!(
            none.clone().and(some).to_string(),
            "the CPU quota of control group /b throttled its processes in 3 periods, for 1.500 s"
        );
        let above = Throttled { time_ns: 20_000_000, ..none };
        assert!(above.is_any());
        assert_eq!(
            above.to_string(),
            "a CPU quota above control group /a throttled its processes for 0.020 s"
        );
    }
}
