//! Proofs of the generator: loads on `null:`, which does nothing, compared with their settings.

use record::histogram::Histogram;
use record::load::LoadRecord;
use record::missing::{Maybe, Missing};
use record::proof::{Proof, Unit};

/// Subject of these proofs.
pub const SUBJECT: &str = "load";

/// Proofs from one load: the lateness of events, their number and their rate.
///
/// `workload`: its name in a table. The load must be an open loop with arrivals that keep the rate in every
/// second, since the truth is the offered rate: random gaps would add their own scatter.
pub fn prove(workload: &str, record: &LoadRecord) -> Vec<Proof> {
    let rate = record.settings.pace.per_s();
    let rate = rate.ok_or_else(|| Missing::because("a closed loop has no target rate"));
    let proof = |instrument: &str, unit: Unit, truth: Maybe<f64>, found: Maybe<f64>, limit: f64| Proof {
        subject: SUBJECT.to_owned(),
        instrument: instrument.to_owned(),
        ours: true,
        workload: workload.to_owned(),
        truth,
        found,
        limit,
        unit,
        cost_ratio: Err(Missing::because("included in the instrument above")),
        remark: None,
    };
    let late = |q: f64| -> Maybe<f64> {
        let quantile = |h: &Histogram| h.quantile_ns(q).map(|ns| ns as f64);
        let none = || Missing::because("no event was started");
        record.lateness.as_ref().map_err(Clone::clone).and_then(|h| quantile(h).ok_or_else(none))
    };
    let per_s = rate.clone().unwrap_or(0.0);
    let period_ns = f64::from(record.settings.threads) * 1e9 / per_s;
    let planned = rate.clone().map(|r| r * record.measured.as_secs_f64());
    let cost = record
        .client
        .as_ref()
        .map_err(Clone::clone)
        .map(|c| (c.user_us_per_event + c.system_us_per_event) * 1e-6 * record.achieved_per_s);
    vec![
        Proof {
            cost_ratio: cost,
            ..proof("rate", Unit::PerS, rate, Ok(record.achieved_per_s), per_s * RATE_LIMIT_RATIO)
        },
        // One event may fall due on either edge, for each worker that has its own slots.
        proof(
            "events planned",
            Unit::Count,
            planned,
            Ok(record.counts.planned as f64),
            f64::from(record.settings.threads) + 1.0,
        ),
        proof("lateness, p50", Unit::Ns, Ok(0.0), late(0.5), late_limit_ns(period_ns)),
        proof("lateness, p99", Unit::Ns, Ok(0.0), late(0.99), late_limit_ns(period_ns)),
    ]
}

/// One in a thousand, as in the verdict of a load.
const RATE_LIMIT_RATIO: f64 = 0.001;

/// The allowed lateness: 100 us, or 1 % of a thread's period if that is more.
fn late_limit_ns(period_ns: f64) -> f64 {
    if period_ns.is_finite() { (0.01 * period_ns).max(100_000.0) } else { 100_000.0 }
}
