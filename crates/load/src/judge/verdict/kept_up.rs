//! Check of an open loop's rate: events in flight at the end of the phase do not count against the target, a
//! backlog does.

use std::fmt::Write as _;

use record::load::LatePolicy;
use record::quantity::plural;
use record::verdict::Check;

use super::findings::{Findings, at_least, percent};
use crate::measure::in_system::Trend;

/// Minimum share of the offered events that must be done in time.
const ACHIEVED_MIN: f64 = 0.999;
/// Maximum share of the offered events that may be in flight at the end; one event is always forgiven.
const IN_FLIGHT_MAX: f64 = 0.1;
/// Smallest difference between the first and the last quarter of the phase that counts as growth: its
/// standard errors, and events by which the medians of whole numbers may be off.
const GROWTH_ERRORS: f64 = 3.0;
const GROWTH_MIN: f64 = 1.5;
/// Length of a stall at the end of the phase that is forgiven if the number in flight had not grown before.
const STALL_S: f64 = 0.01;
/// Share of the offered rate from which events of an earlier phase are worth a mention.
const OF_BACKLOG_MIN: f64 = 0.01;

/// Checks that the target did the offered events in time.
pub(super) fn achieved(f: &Findings<'_>, rate_per_s: f64) -> Check {
    let forgiven = forgiven(f, rate_per_s);
    let kept_up = f.counts.done + forgiven;
    let found = if f.counts.planned == 0 { 0.0 } else { kept_up as f64 / f.counts.planned as f64 };
    let per_s = f.achieved_per_s;
    let offered_per_s = f.counts.planned as f64 / f.measured_s;
    let policy = match f.settings.pace.as_open().map(|open| open.late) {
        None | Some(LatePolicy::Queue) => String::new(),
        Some(LatePolicy::Skip { .. }) => format!(", {} skipped", f.counts.skipped),
        Some(LatePolicy::Drop) => format!(", {} dropped", f.counts.skipped),
        Some(LatePolicy::Pace { .. }) => ", late events paced".to_owned(),
    };
    let ended = f.counts.done as f64 / f.counts.planned.max(1) as f64;
    let mut text = format!(
        "{per_s:.2}/s done of {offered_per_s:.2}/s offered{policy}: {} of the events due in the phase ended in it",
        percent(ended)
    );
    // The judged share is printed beside its parts.
    if forgiven > 0 {
        let _ = write!(text, ", {} including {forgiven} in flight at its end", percent(found));
    }
    let _ = write!(text, ", {} needed", percent(ACHIEVED_MIN));
    // An overloaded target spends the phase on events of the warm-up.
    if f.counts.planned > 0 && per_s / offered_per_s > found + OF_BACKLOG_MIN {
        text += "; the rate includes events that were due before the phase";
    }
    if f.drained > forgiven {
        let of_backlog = f.drained - forgiven;
        let _ = write!(text, "; a backlog of {} ended after the phase", plural(of_backlog, "event"));
        if let Some(Trend { first, last }) = trend(f).filter(|trend| growth(f, trend) > 0.0) {
            let _ = write!(
                text,
                "; it grew: {first} in flight in the first quarter, {last} in the last (medians)"
            );
        }
    }
    at_least("achieved-rate", found, ACHIEVED_MIN, text)
}

/// Number of events in flight at the end of the phase that ended within the drain and do not count against
/// the server: at 10 events a second, one such event would be a tenth of a percent.
///
/// By Little's law the number in flight is the rate times the mean latency; chance adds three standard
/// deviations of a count, and one. More is a backlog, which the drain removed and not the server.
///
/// What the number in flight has grown by over the phase is never forgiven: the target did not keep up with
/// that many. If it has not grown, a stall at the end has made the backlog: as many as are due in [`STALL_S`]
/// are forgiven too.
///
/// If a tenth of all events are in flight, the phase is too short to say that the server kept up.
fn forgiven(f: &Findings<'_>, rate_per_s: f64) -> u64 {
    let in_flight = rate_per_s * f.in_system_mean_ns.unwrap_or(0.0) / 1e9;
    let by_chance = in_flight + 3.0 * in_flight.sqrt() + 1.0;
    let growth = trend(f).map(|trend| growth(f, &trend));
    let usual = match growth {
        Some(growth) if growth > 0.0 => by_chance.min((f.drained as f64 - growth).max(0.0)),
        Some(_) => by_chance + rate_per_s * STALL_S,
        None => by_chance,
    };
    let most = (IN_FLIGHT_MAX * f.counts.planned as f64).max(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 on, and whole events"
    )]
    let most = usual.min(most) as u64;
    f.drained.min(most)
}

/// The number in flight at both ends of the phase; `None` if the rate changes, and that number with it.
fn trend(f: &Findings<'_>) -> Option<Trend> {
    let is_constant = f.settings.pace.as_open().is_some_and(|open| !open.arrivals.say_their_rate());
    f.in_system?.trend.filter(|_| is_constant)
}

/// Number of events by which the number in flight has certainly grown over the phase; 0 if chance explains
/// the difference of its quarters.
///
/// Three quarters of a phase lie between their middles. Without a backlog, the number in flight resembles
/// itself for about the mean latency, the number over the rate: the mean over a quarter of the phase then has
/// a variance of 8 squared numbers over the planned events.
fn growth(f: &Findings<'_>, trend: &Trend) -> f64 {
    const BETWEEN_QUARTERS: f64 = 0.75;
    let error = (2.0 * 8.0 / f.counts.planned.max(1) as f64).sqrt() * trend.first;
    let by = trend.last - trend.first;
    let is_growth = by > GROWTH_ERRORS * error + GROWTH_MIN;
    if is_growth { by / BETWEEN_QUARTERS } else { 0.0 }
}
