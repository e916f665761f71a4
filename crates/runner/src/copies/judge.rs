//! Checks of a level: whether the copies had the machine for themselves, and whether each got its share.

use nix::sys::resource::{UsageWho, getrusage};

/// Maximum share of the copies' CPUs that other work may use during the measurement.
const OTHERS_RATIO_MAX: f64 = 0.05;
/// Minimum rate of the slowest copy as a share of the fastest one's, if the CPUs can be shared evenly.
const FAIR_RATIO_MIN: f64 = 0.5;

/// Returns the CPU time in seconds of this process and all its descendants that have ended.
pub(super) fn used_cpu_s() -> f64 {
    let of = |who| {
        getrusage(who).map_or(0.0, |usage| {
            let s = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
            s(usage.user_time()) + s(usage.system_time())
        })
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

pub(super) fn strays_sentence(strays: usize) -> String {
    let them = if strays == 1 { "1 process".to_owned() } else { format!("{strays} processes") };
    format!(
        "{them} left the process group of their copy and kept running, so bakeoff ended them; the command \
         must wait for the processes that it starts"
    )
}

/// Reports that other work used too much of the CPUs that the copies may use.
pub(super) fn others_sentence(ratio: f64, cpus: usize) -> Option<String> {
    (ratio > OTHERS_RATIO_MAX).then(|| {
        format!(
            "other work used {:.1} % of the copies' {cpus} CPUs (limit {:.0} %): stop it, or choose other CPUs with --cpus",
            ratio * 100.0,
            OTHERS_RATIO_MAX * 100.0
        )
    })
}

/// Reports that a hypervisor took too much of these CPUs. Some kernels count stolen time as time of the
/// process that had the CPU, so it is not part of the other check.
pub(super) fn stolen_sentence(ratio: f64, cpus: usize) -> Option<String> {
    (ratio > OTHERS_RATIO_MAX).then(|| {
        format!(
            "the hypervisor gave {:.1} % of the copies' {cpus} CPUs to other guests (limit {:.0} %): \
             measure while they are idle",
            ratio * 100.0,
            OTHERS_RATIO_MAX * 100.0
        )
    })
}

/// Reports a slowest copy that is too far behind: the copies do not do the same work, or do not get the same
/// machine.
///
/// If copies do not fill the CPUs evenly (three on two), the slowest can get half.
pub(super) fn unfair(rates: &[f64], cpus: u32) -> Option<String> {
    let (copies, cpus) = (u32::try_from(rates.len()).unwrap_or(u32::MAX), cpus.max(1));
    let even = if copies <= cpus { 1.0 } else { f64::from(copies / cpus) / f64::from(copies.div_ceil(cpus)) };
    let limit = FAIR_RATIO_MIN * even;
    let place = |rate: f64| rates.iter().position(|r| r.total_cmp(&rate).is_eq()).unwrap_or(0) + 1;
    let fastest = rates.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    (slowest < limit * fastest).then(|| {
        format!(
            "copy {} reaches {:.1} % of the rate of copy {} (limit {:.0} %): their work differs, or the \
             machine treats them differently: use --units of equal work, or --bind cpu",
            place(slowest),
            slowest / fastest * 100.0,
            place(fastest),
            limit * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_and_unfairness_have_limits() {
        assert_eq!(others_sentence(0.049, 2), None);
        assert_eq!(
            others_sentence(0.4, 2).unwrap(),
            "other work used 40.0 % of the copies' 2 CPUs (limit 5 %): stop it, or choose other CPUs with --cpus"
        );
        assert_eq!((stolen_sentence(0.049, 2), stolen_sentence(f64::NAN, 2)), (None, None));
        assert_eq!(
            stolen_sentence(0.3, 2).unwrap(),
            "the hypervisor gave 30.0 % of the copies' 2 CPUs to other guests (limit 5 %): measure while they \
             are idle"
        );
        assert_eq!(unfair(&[10.0, 6.0], 2), None);
        assert_eq!(
            unfair(&[10.0, 0.1], 2).unwrap(),
            "copy 2 reaches 1.0 % of the rate of copy 1 (limit 50 %): their work differs, or the machine \
             treats them differently: use --units of equal work, or --bind cpu"
        );
        // Three on two CPUs: one may have half the rate of the others, but not less than half of that.
        assert_eq!((unfair(&[10.0, 5.0, 5.0], 2), unfair(&[10.0, 3.0, 3.0], 2)), (None, None));
        assert!(unfair(&[10.0, 2.0, 5.0], 2).is_some());
        assert_eq!(unfair(&[7.0], 1), None);
    }
}
