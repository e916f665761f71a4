//! Whether a load may be used: what was found, against which limit.
//!
//! Connected, counts-balance, mix and littles-law check our own bookkeeping: both sides of each are what our workers
//! noted, so one that fails is a defect of ours, and one that holds says nothing of the server.
//!
//! Steadiness is not judged here: that needs the whole series and is the analysis' part.

use std::fmt::Write as _;
use std::time::Duration;

use record::histogram::Histogram;
use record::load::{Counts, LatePolicy, LoadSettings, Rate};
use record::verdict::Check;

use crate::driver::OperationShare;

/// Least share of the offered events that must be done in time.
const ACHIEVED_MIN: f64 = 0.999;
/// Share of the offered events that may be in flight at the end, where the server takes that long: an event is forgiven always.
const IN_FLIGHT_MAX: f64 = 0.1;
/// Quantile of the lateness that is judged.
const LATENESS_QUANTILE: f64 = 0.99;
/// A generator may be this late whatever the period: what sleeping costs on a good machine.
const LATENESS_FLOOR_NS: f64 = 100_000.0;
/// Lateness that is allowed, as a share of a thread's period.
const LATENESS_OF_PERIOD: f64 = 0.01;
/// Share of the phase that the worst-off worker may have waited for a CPU, in an open loop.
const STARVED_MAX: f64 = 0.05;
/// Preemptions per second of the workers that are taken for starvation where the kernel does not count waits.
const PREEMPTIONS_PER_S_MAX: f64 = 100.0;
/// Share of the phase that a worker may have been on a CPU, in an open loop.
const CLIENT_CPU_MAX: f64 = 0.8;
/// How far the mix may be from the one asked for.
const MIX_MAX: f64 = 0.02;
/// Standard deviations by which chance may move an operation's share beyond that.
const SPREADS_MAX: f64 = 5.0;
/// How far the two sides of Little's law may be apart.
const LITTLE_MAX: f64 = 0.03;

/// What the checks look at.
pub(crate) struct Findings<'a> {
    pub(crate) settings: &'a LoadSettings,
    /// The highest rate that the phase had; `None` in a closed loop.
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) counts: &'a Counts,
    /// Time that done events spent in the system, from their stamps.
    pub(crate) in_system_ns: u128,
    pub(crate) connected: u32,
    pub(crate) measured_s: f64,
    /// Events that were in flight at the end of the phase and ended within the drain.
    pub(crate) drained: u64,
    /// The highest quantile up to the 99th percentile that its sample holds, and its value; `None` in a closed loop or where
    /// fewer than two events were done.
    pub(crate) lateness: Option<(f64, u64)>,
    /// Mean of the response, or of the service in a closed loop; `None` where nothing was done.
    pub(crate) in_system_mean_ns: Option<f64>,
    pub(crate) starved_ratio: Option<f64>,
    /// The target would also take all connections on fewer threads.
    pub(crate) may_have_loops: bool,
    pub(crate) preemptions: i64,
    /// Share of the phase that the busiest worker was on a CPU.
    pub(crate) busiest_ratio: f64,
    /// Operations as planned, with the number that was done.
    pub(crate) operations: &'a [(&'a OperationShare, u64)],
}

/// Every check that applies.
pub(crate) fn checks(findings: &Findings<'_>) -> Vec<Check> {
    let mut checks = vec![connected(findings), balance(findings), errors(findings)];
    if let Some(rate_per_s) = findings.rate_per_s {
        checks.push(achieved(findings, rate_per_s));
        checks.extend(findings.lateness.map(|found| lateness(findings, found, rate_per_s)));
        // In a closed loop the workers always want the CPU, and on the server's own machine they share it: what they
        // waited is part of what was measured, and is in the record.
        checks.push(starvation(findings));
        if findings.settings.client.spin.is_zero() {
            checks.push(client_cpu(findings));
        }
    }
    if findings.settings.rate == Rate::Max {
        checks.push(any_event(findings));
    }
    checks.extend(findings.in_system_mean_ns.map(|mean_ns| little(findings, mean_ns)));
    if findings.counts.done > 0 {
        checks.extend(mix(findings));
    }
    checks
}

fn at_least(name: &'static str, found: f64, limit: f64, text: String) -> Check {
    Check { name, ok: found >= limit, found, limit, text }
}

fn at_most(name: &'static str, found: f64, limit: f64, text: String) -> Check {
    Check { name, ok: found <= limit, found, limit, text }
}

fn connected(f: &Findings<'_>) -> Check {
    let (made, of) = (f.connected, f.settings.connections_in_all());
    at_least("connected", made.into(), of.into(), format!("{made} of {of} connected"))
}

fn balance(f: &Findings<'_>) -> Check {
    let c = f.counts;
    let accounted = c.done + c.failed + c.skipped + c.unfinished;
    let lost = c.planned.abs_diff(accounted);
    let text = format!(
        "{} planned = {} done + {} failed + {} skipped + {} unfinished",
        c.planned, c.done, c.failed, c.skipped, c.unfinished
    );
    at_most("counts-balance", lost as f64, 0.0, text)
}

fn errors(f: &Findings<'_>) -> Check {
    let (failed, planned) = (f.counts.failed, f.counts.planned);
    let found = failed as f64 / planned.max(1) as f64;
    let limit = f.settings.errors_ratio_max;
    at_most(
        "errors",
        found,
        limit,
        format!("{failed} of {planned} events failed, {} allowed", percent(limit)),
    )
}

/// The server was away for so long that what was left of a number of events was given up.
pub(crate) fn gave_up(away: Duration) -> Check {
    let away_s = away.as_secs_f64();
    let text = format!("the server was away for {away_s:.0} s: what was left of --events was given up");
    at_most("server-away", away_s, 0.0, text)
}

/// A closed loop plans nothing, so one that did nothing has kept every promise; it has no speed all the same.
fn any_event(f: &Findings<'_>) -> Check {
    let done = f.counts.done;
    at_least("events", done as f64, 1.0, format!("{done} events done in the measured phase"))
}

/// What of events that were in flight when the phase ended, and came back within the drain, does not speak against the
/// server: at 10 events a second one of them would be the tenth of a percent.
///
/// By Little's law as many are in flight at any moment as the rate times the mean latency; chance adds three standard
/// deviations of a count and one. More than that is a backlog, which the drain did away with and not the server. Where they are
/// a tenth of all, the phase is too short to say that the server kept up.
fn forgiven(f: &Findings<'_>, rate_per_s: f64) -> u64 {
    let in_flight = rate_per_s * f.in_system_mean_ns.unwrap_or(0.0) / 1e9;
    let usual = in_flight + 3.0 * in_flight.sqrt() + 1.0;
    let most = (IN_FLIGHT_MAX * f.counts.planned as f64).max(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 on, and whole events"
    )]
    let most = usual.min(most) as u64;
    f.drained.min(most)
}

fn achieved(f: &Findings<'_>, rate_per_s: f64) -> Check {
    let forgiven = forgiven(f, rate_per_s);
    let kept_up = f.counts.done + forgiven;
    let found = if f.counts.planned == 0 { 0.0 } else { kept_up as f64 / f.counts.planned as f64 };
    let per_s = f.counts.done as f64 / f.measured_s;
    let offered_per_s = f.counts.planned as f64 / f.measured_s;
    let policy = match f.settings.late {
        LatePolicy::Queue => String::new(),
        LatePolicy::Skip { .. } => format!(", {} skipped", f.counts.skipped),
        LatePolicy::Drop => format!(", {} dropped", f.counts.skipped),
        LatePolicy::Pace { .. } => ", late ones paced".to_owned(),
    };
    let mut text = format!(
        "{per_s:.2}/s done of {offered_per_s:.2}/s offered{policy}: {} kept up, {} needed",
        percent(found),
        percent(ACHIEVED_MIN)
    );
    if f.drained > forgiven {
        let drained = f.drained;
        let _ =
            write!(text, "; {drained} events ended after the phase, {forgiven} of them count as in flight");
    }
    at_least("achieved-rate", found, ACHIEVED_MIN, text)
}

/// The quantile of the lateness that is judged, and its value: where one event more than a hundredth of the sample would
/// decide, the highest that leaves an event above it. `None` of fewer than two events: of one, no such is left.
pub(crate) fn judged_quantile(lateness: &Histogram) -> Option<(f64, u64)> {
    if lateness.count() < 2 {
        return None;
    }
    let quantile = LATENESS_QUANTILE.min(1.0 - 1.0 / lateness.count() as f64);
    Some((quantile, lateness.quantile_ns(quantile)?))
}

fn lateness(f: &Findings<'_>, (quantile, found_ns): (f64, u64), rate_per_s: f64) -> Check {
    let period_ns = 1e9 * f64::from(f.settings.threads) / rate_per_s;
    let limit_ns = (LATENESS_OF_PERIOD * period_ns).max(LATENESS_FLOOR_NS);
    let text = format!(
        "the generator was {:.0} us late at p{}, {:.0} us allowed",
        found_ns as f64 / 1e3,
        (1_000.0 * quantile).round() / 10.0,
        limit_ns / 1e3
    );
    at_most("lateness", found_ns as f64, limit_ns, text)
}

fn starvation(f: &Findings<'_>) -> Check {
    if let Some(ratio) = f.starved_ratio {
        let mut text = format!(
            "the worst-off worker waited for a CPU {} of the time, {} allowed",
            percent(ratio),
            percent(STARVED_MAX)
        );
        if ratio > STARVED_MAX && f.may_have_loops {
            let connections = f.settings.connections_in_all();
            let _ =
                write!(text, "; --connections {connections} over fewer --threads wants fewer CPUs at a time");
        }
        return at_most("client-starvation", ratio, STARVED_MAX, text);
    }
    let per_s = f.preemptions as f64 / f.measured_s;
    let text = format!(
        "this kernel does not count run-queue wait; the workers were preempted {per_s:.1} times/s, \
         {PREEMPTIONS_PER_S_MAX:.0} allowed"
    );
    at_most("client-starvation", per_s, PREEMPTIONS_PER_S_MAX, text)
}

/// By the kernel's account, not by ours: a worker that is hardly ever off its CPU is the bottleneck itself.
fn client_cpu(f: &Findings<'_>) -> Check {
    let text = format!(
        "the busiest worker was on a CPU {} of the time, {} allowed",
        percent(f.busiest_ratio),
        percent(CLIENT_CPU_MAX)
    );
    at_most("client-cpu", f.busiest_ratio, CLIENT_CPU_MAX, text)
}

/// Little's law on the done events: the mean number in the system, summed from their stamps, against their rate times
/// the mean that the histogram gives. Both sides come from the same stamps: this finds a record that lost or clipped
/// what the workers saw, not stamps that are wrong.
fn little(f: &Findings<'_>, mean_ns: f64) -> Check {
    let in_system = f.in_system_ns as f64 / 1e9 / f.measured_s;
    let rate_times_mean = f.counts.done as f64 / f.measured_s * mean_ns / 1e9;
    // Nanoseconds count as one at least in a histogram: an event that does nothing is not out by 3 %.
    let floor = f.counts.done as f64 / f.measured_s / 1e9;
    let found = (in_system - rate_times_mean).abs() / in_system.max(floor);
    let found = if (in_system - rate_times_mean).abs() <= floor { 0.0 } else { found };
    let text = format!(
        "{in_system:.4} events in the system, rate times mean latency {rate_times_mean:.4}: {} apart, {} allowed",
        percent(found),
        percent(LITTLE_MAX)
    );
    at_most("littles-law", found, LITTLE_MAX, text)
}

/// `None` where no operation has a share of its own.
fn mix(f: &Findings<'_>) -> Option<Check> {
    let judged = f.operations.iter().filter_map(|(share, count)| {
        let per_event = share.per_event.filter(|share| *share > 0.0)?;
        let expected = per_event * f.counts.done as f64;
        // Where chance decides which operation an event does, so many draws spread that far by themselves.
        let spread = ((1.0 - per_event).max(0.0) / expected).sqrt();
        Some(((*count as f64 / expected - 1.0).abs(), MIX_MAX + SPREADS_MAX * spread, &share.name))
    });
    let (found, limit, name) = judged.max_by(|a, b| (a.0 - a.1).total_cmp(&(b.0 - b.1)))?;
    let text = format!(
        "operation furthest from its share: {name}, {} off, {} allowed",
        percent(found),
        percent(limit)
    );
    Some(at_most("mix", found, limit, text))
}

fn percent(ratio: f64) -> String {
    format!("{:.2} %", 100.0 * ratio)
}
