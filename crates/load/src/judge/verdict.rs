//! Validity checks of a load: each finding against its limit.
//!
//! Steadiness is not checked here: that needs the whole series and belongs to the analysis.

pub(crate) mod delayed;
mod findings;
mod kept_up;
pub(crate) mod lateness;

use std::fmt::Write as _;
use std::time::Duration;

use record::load::{Arrivals, OfHost, Think};
use record::quantity::{DURATION_MAX, plural, span, written_duration};
use record::verdict::Check;

pub(crate) use self::findings::{Away, Findings};
use self::findings::{at_least, at_most, percent};

/// Maximum share of the phase that a worker may have waited for a CPU, in an open loop.
const STARVED_MAX: f64 = 0.05;
/// Preemptions per second of the workers that count as starvation if the kernel does not report waits.
const PREEMPTIONS_PER_S_MAX: f64 = 100.0;
/// Maximum share of the phase that a worker may have been on a CPU.
const CLIENT_CPU_MAX: f64 = 0.8;
/// Share of their CPUs' time from which on the workers of a closed loop use more than a server on these CPUs
/// can.
const CLIENT_SHARE_SHOWN: f64 = 0.5;
/// Share of the CPUs' time that is idle on CPUs with time to spare.
const IDLE_MIN: f64 = 0.05;
/// Maximum relative deviation of the mix from the settings.
const MIX_MAX: f64 = 0.02;
/// Standard deviations that chance may add to the deviation of an operation's share.
const SPREADS_MAX: f64 = 5.0;
/// Maximum relative difference between the two sides of Little's law.
const LITTLE_MAX: f64 = 0.03;
/// Maximum share of the measured phase of a closed loop without a server.
const AWAY_MAX: f64 = 0.01;
/// Maximum share of the events of a closed loop by which its rate may be too high because all connections
/// began together; one event is always allowed.
const COMMON_START_MAX: f64 = 0.01;
/// Longest events that must fit between the common start of the connections and the phase. After the mean of
/// an event instead, a closed loop with a tail (95 % of 20 ms, 5 % of 2 s) had a VALID rate 55 % too low.
const APART_TIMES: f64 = 2.0;
/// Maximum share of the measured phase of a closed loop in which the generator may stand still.
const PAUSED_MAX: f64 = 0.01;
/// Share of the missing events of an open loop from which on pauses of the generator explain them.
const PAUSED_PART_MAX: f64 = 0.5;
/// Standard errors of the count that chance may add to the difference of Little's law.
const LOOK_ERRORS_MAX: f64 = 5.0;
/// With fewer samples the effect of chance is unknown.
const LOOKS_MIN: u64 = 10;
/// Maximum share of events in a closed loop with an unknown end.
const UNKNOWN_MAX: f64 = 0.05;
/// Maximum share of the connections' time in a closed loop that events without an end, and reconnecting, may
/// take.
const HELD_MAX: f64 = 0.02;
/// Maximum share of the connections of an open loop that may get no answer from before the end of the phase
/// to the end of the drain.
const HUNG_MAX: f64 = 0.5;
/// Maximum relative difference between the number of events that were due and the planned rate times the
/// phase.
const OFFERED_MAX: f64 = 0.1;
/// Limit from which on Little's law says nothing: if no event at all was counted, the sides are 100 % apart.
const LITTLE_JUDGED_MAX: f64 = 0.5;

/// Runs every check that applies.
pub(crate) fn checks(findings: &Findings<'_>) -> Vec<Check> {
    let mut checks: Vec<Check> = connected(findings).into_iter().chain(balance(findings)).collect();
    checks.push(errors(findings));
    if let Some(rate_per_s) = findings.rate_per_s {
        let achieved = kept_up::achieved(findings, rate_per_s);
        checks.extend(offered(findings));
        if !achieved.ok {
            checks.extend(hung(findings));
        }
        checks.push(achieved);
        checks.extend(findings.lateness.clone());
        // In a closed loop the workers always want the CPU, and on the server's machine they share it: their
        // waiting is part of the measurement, and is in the record.
        checks.push(starvation(findings));
    }
    // A closed loop with workers that are always on a CPU measures itself, unless the work is theirs.
    let is_judged = findings.rate_per_s.is_some() || findings.waits_for_server;
    if is_judged && findings.settings.client.spin.is_zero() {
        checks.extend(client_cpu(findings));
        checks.extend(client_share(findings));
    }
    if findings.settings.pace.as_open().is_none() {
        checks.push(if findings.settings.events_max.is_some() {
            enough_events(findings)
        } else {
            phase_length(findings)
        });
        checks.extend(stuck(findings));
        checks.extend(reconnects(findings));
    }
    let achieved = checks.iter().find(|check| check.name == "achieved-rate");
    let missing = achieved.filter(|check| !check.ok).map(|check| 1.0 - check.found);
    let is_behind = missing.is_some();
    checks.extend(away(findings, is_behind));
    checks.extend(hosts(findings.hosts));
    checks.extend(paused(findings, missing).filter(|check| !check.ok || findings.delayed.is_none()));
    if checks.iter().all(|check| check.name != "client-paused") {
        checks.extend(findings.delayed.clone());
    }
    checks.extend(little(findings));
    if findings.service_count > 0 {
        checks.extend(mix(findings));
    }
    checks
}

/// Compares the workers' connections with the kernel's sockets.
fn connected(f: &Findings<'_>) -> Option<Check> {
    let (open, of) = (*f.open_sockets.as_ref().ok()?, f.settings.connections_in_all());
    let text = format!("the kernel reports {open} of {of} connections open before the first event");
    Some(at_least("connected", open.into(), of.into(), text))
}

/// `planned = done + failed + skipped + unfinished` holds already, or the load would have ended; each term
/// could still be wrong.
fn balance(f: &Findings<'_>) -> Option<Check> {
    let (recount, c) = (f.recount?, f.counts);
    let text = format!(
        "{} in the event log; counted: {} done + {} failed + {} skipped + {} unfinished",
        plural(recount.rows(), "event"),
        c.done,
        c.failed,
        c.skipped,
        c.unfinished
    );
    Some(at_most("counts-balance", recount.apart(c) as f64, 0.0, text))
}

fn errors(f: &Findings<'_>) -> Check {
    let (failed, planned) = (f.counts.failed, f.counts.planned);
    let found = failed as f64 / planned.max(1) as f64;
    let limit = f.settings.errors_ratio_max;
    at_most(
        "errors",
        found,
        limit,
        format!("{failed} of {} failed, {} allowed", plural(planned, "event"), percent(limit)),
    )
}

/// The server was away for so long that the rest of a number of events was given up.
pub(crate) fn gave_up(away: Duration) -> Check {
    let away_s = away.as_secs_f64();
    let text = format!("the server was unreachable for {away_s:.0} s: the rest of --events was abandoned");
    at_most("server-away", away_s, 0.0, text)
}

/// A closed loop plans nothing, so a loop without events has met its plan, yet it has no rate. With fewer
/// events than connections, the rate of all connections is unknown too.
fn enough_events(f: &Findings<'_>) -> Check {
    let (done, tried) = (f.counts.done, f.counts.done + f.counts.failed);
    let in_flight = u64::from(f.settings.in_flight_max());
    let mut text = format!("{} done in the measured phase", plural(done, "event"));
    if done > 0 && tried < in_flight {
        let _ = write!(
            text,
            ", but {in_flight} may be in flight, so some connections had none; use more --events"
        );
        return at_least("events", tried as f64, in_flight as f64, text);
    }
    at_least("events", done as f64, 1.0, text)
}

/// In a closed loop, an event in flight waits for the server to come back, and no other event begins: neither
/// the latencies nor the errors show the outage. In an open loop the latencies show it, unless the outage
/// leaves the load behind: then it is the cause, and not the rate.
fn away(f: &Findings<'_>, is_behind: bool) -> Option<Check> {
    // With several hosts, the others do the events of the host that is away: in neither loop would the
    // latency show it.
    let is_closed_loop = f.settings.pace.as_open().is_none() && f.settings.events_max.is_none();
    let is_judged = !f.hosts.is_empty() || is_closed_loop || is_behind;
    let away = f.away.as_ref().filter(|away| is_judged && away.for_s > 0.0)?;
    let found = away.for_s / f.measured_s;
    let who = away.host.map_or("the server", |number| f.hosts[number].host.as_str());
    let text = format!(
        "{who} was unreachable for {:.3} s, {} of the measured phase, {} allowed",
        away.for_s,
        percent(found),
        percent(AWAY_MAX)
    );
    Some(at_most("server-away", found, AWAY_MAX, text))
}

/// A server that hangs, for example stopped by a signal, is not slow: a lower rate would not help.
fn hung(f: &Findings<'_>) -> Option<Check> {
    if f.hung == 0 || f.settings.drain.is_zero() {
        return None;
    }
    let in_flight = f.settings.in_flight_max();
    let found = f.hung as f64 / f64::from(in_flight);
    let text = format!(
        "{} of at most {in_flight} events in flight at the end of the phase were still unanswered at the end of the \
         drain, {} later: {}, {} allowed",
        f.hung,
        written_duration(f.settings.drain),
        percent(found),
        percent(HUNG_MAX)
    );
    Some(at_most("stuck", found, HUNG_MAX, text))
}

/// The number of events is whole: one event in a second is not a rate of 0.001/s. Listed only if it fails.
fn offered(f: &Findings<'_>) -> Option<Check> {
    let (planned, expected) = (f.counts.planned, f.schedule_events?);
    let is_random = f.settings.pace.as_open().is_some_and(|open| open.arrivals == Arrivals::Poisson);
    let chance = if is_random { SPREADS_MAX / expected.sqrt() } else { 0.0 };
    let (found, limit) = ((planned as f64 - expected).abs() / expected, OFFERED_MAX + chance);
    if planned > 0 && found <= limit {
        return None;
    }
    let mend = if planned > 0 && (planned as f64) < expected {
        format!("the last of --events was due long before the end; use --events {}", expected.ceil())
    } else {
        format!("the phase is too short for this rate; use {}", longer(f.measured_s, expected))
    };
    let text = format!(
        "{} due in {:.3} s, but {} expected from the schedule's rate: {mend}{}",
        plural(planned, "event"),
        f.measured_s,
        if expected < 0.01 { format!("{expected:.1e}") } else { format!("{expected:.2}") },
        if f.settings.events_max == Some(planned) && planned as f64 > expected {
            " and more --events"
        } else {
            ""
        }
    );
    Some(Check { name: "offered-rate", ok: false, found, limit, text })
}

/// The setting of a phase with ten events: rounded up to whole events, its rate is within a tenth of the
/// planned one.
fn longer(measured_s: f64, expected: f64) -> String {
    // A product that is whole up to the error of its floats is whole.
    let needed_s = (measured_s / (OFFERED_MAX * expected) * (1.0 - 1e-9)).ceil();
    if needed_s <= DURATION_MAX.as_secs_f64() {
        format!("--time {needed_s}s")
    } else {
        "a higher rate".to_owned()
    }
}

/// If one of several hosts did no event, the result describes only the others; `None` if there is one host.
/// A generator of a fleet need not have a connection to each.
pub fn hosts(hosts: &[OfHost]) -> Option<Check> {
    if hosts.is_empty() {
        return None;
    }
    let of = hosts.iter().filter(|host| host.connections > 0).count();
    let idle = hosts.iter().filter(|host| host.connections > 0 && host.done == 0);
    let idle: Vec<&str> = idle.map(|host| host.host.as_str()).collect();
    let did = of - idle.len();
    let mut text = format!("{did} of {of} hosts completed an event in the measured phase");
    if !idle.is_empty() {
        let _ = write!(text, ", but not {}", idle.join(", "));
    }
    Some(at_least("hosts", did as f64, of as f64, text))
}

/// A closed loop offers nothing while the generator stands still, and the events in flight take as much
/// longer: neither is the server's doing.
///
/// In an open loop events are due meanwhile, and `lateness` judges the latencies. If the load fell behind,
/// the pauses are the cause if they are at least half of what is missing: `--late drop` loses the events of a
/// pause, and a pause at the end leaves a backlog.
///
/// - `missing`: the share of an open loop's events that were not done in time, if it fell behind.
fn paused(f: &Findings<'_>, missing: Option<f64>) -> Option<Check> {
    if f.paused_s <= 0.0 {
        return None;
    }
    let found = f.paused_s / f.measured_s;
    if f.rate_per_s.is_some() {
        let limit = PAUSED_PART_MAX * missing?;
        let text = format!(
            "the generator was paused for {:.3} s, {} of the measured phase, in which {} of the events were lost or \
             late: it was stopped, or got no CPU",
            f.paused_s,
            percent(found),
            percent(missing?)
        );
        return (found >= limit).then_some(Check { name: "client-paused", ok: false, found, limit, text });
    }
    let text = format!(
        "the generator was paused for {:.3} s, {} of the measured phase, {} allowed: \
         it was stopped, or got no CPU",
        f.paused_s,
        percent(found),
        percent(PAUSED_MAX)
    );
    Some(at_most("client-paused", found, PAUSED_MAX, text))
}

/// A rate needs a phase that is longer than an event, and an end for the events that the phase's end cuts:
/// the share of each that lies in the phase is part of the rate.
fn phase_length(f: &Findings<'_>) -> Check {
    let ends = f.counts.done + f.never_ended;
    let unknown = f.never_ended as f64 / ends.max(1) as f64;
    let mean_s = f.in_system_mean_ns.map_or(f64::INFINITY, |mean_ns| mean_ns / 1e9);
    if f.counts.done == 0 {
        let text = format!("no event completed in the {:.3} s of the measured phase", f.measured_s);
        return at_least("phase-length", 0.0, 1.0, text);
    }
    if unknown > UNKNOWN_MAX {
        let text = format!(
            "{} of {} had not ended after a drain of {}: the rate is uncertain by {}, {} allowed; use a \
             longer --time or --drain",
            f.never_ended,
            plural(ends, "event"),
            written_duration(f.settings.drain),
            percent(unknown),
            percent(UNKNOWN_MAX)
        );
        return at_most("phase-length", unknown, UNKNOWN_MAX, text);
    }
    let (too_many, allowed) = (common_start(f), (COMMON_START_MAX * f.counts.done as f64).max(1.0));
    if too_many > allowed {
        let text = format!(
            "the connections began together, with the phase or shortly before, and service times vary: the rate \
             may be wrong by {too_many:.0} of {}, {allowed:.0} allowed; use a --warmup of at least {}, twice the \
             longest event",
            plural(ends, "event"),
            mean_event(APART_TIMES * f.service_longest_s)
        );
        return at_most("phase-length", too_many, allowed, text);
    }
    let text = format!(
        "an event took {} on average, at most {:.3} s allowed, the length of the measured phase",
        mean_event(mean_s),
        f.measured_s
    );
    at_most("phase-length", mean_s, f.measured_s, text)
}

/// `58 us`, `5.2 ms`, `1.5 s`.
fn mean_event(mean_s: f64) -> String {
    if mean_s < 0.01 { lateness::written(mean_s * 1e9) } else { span(mean_s) }
}

/// Number of events by which the rate may be wrong because all connections begin with the phase, or so little
/// earlier that their longest events have not ended twice.
///
/// The share of an event that the end of the phase cuts is credited, and none is cut at the beginning. On
/// average the excess is half the squared coefficient of variation for each event in flight: 0 if service
/// times are constant.
///
/// # Source
///
/// Cox, *Renewal Theory* (1962), sections 4.2 and 5.2: `t / mean + (spread ratio^2 - 1) / 2` renewals by `t`,
/// and an event that is cut has completed half of its time on average.
fn common_start(f: &Findings<'_>) -> f64 {
    let s = f.settings;
    let think = match s.pace.think() {
        Think::None => Duration::ZERO,
        Think::Constant(mean) | Think::Exponential(mean) => mean,
    };
    // A connection forgets its start when its first events have ended, the long ones too.
    let is_apart = (s.ramp_up + s.warmup + think).as_secs_f64() >= APART_TIMES * f.service_longest_s;
    if is_apart { 0.0 } else { f64::from(s.in_flight_max()) * f.service_spread_ratio.powi(2) / 2.0 }
}

/// A closed loop's rate is that of all its connections. A connection that waits for an answer that never
/// comes, or comes after the time-out, adds none, and neither does one that is lost.
fn stuck(f: &Findings<'_>) -> Option<Check> {
    let is_held = f.never_ended + f.timeouts > 0;
    if !(is_held || f.lost_s > 0.0) || f.counts.done == 0 {
        return None;
    }
    let in_flight = f.settings.in_flight_max();
    let all_s = f.measured_s * f64::from(in_flight);
    let mut what = Vec::new();
    if f.never_ended > 0 {
        what.push(format!("{} of {in_flight} events in flight at the end did not succeed", f.never_ended));
    }
    if f.timeouts > 0 {
        what.push(format!("{} timed out", plural(f.timeouts, "event")));
    }
    if f.lost_s > 0.0 {
        let lost = percent(f.lost_s / all_s);
        what.push(format!("reconnecting after losses took {lost} of the connections' time"));
    }
    // The reconnections of an event that never ended are in both.
    let found = ((f.held_s + f.lost_s) / all_s).min(1.0);
    let text = format!(
        "{}: connections did nothing else for {} of the time, {} allowed",
        what.join(", "),
        percent(found),
        percent(HELD_MAX)
    );
    Some(at_most("stuck", found, HELD_MAX, text))
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
                write!(text, "; --connections {connections} on fewer --threads needs fewer CPUs at a time");
        }
        return at_most("client-starvation", ratio, STARVED_MAX, text);
    }
    let per_s = f.preemptions as f64 / f.measured_s;
    let text = format!(
        "the time that workers waited for a CPU is unknown; they were preempted {per_s:.1} times/s, \
         {PREEMPTIONS_PER_S_MAX:.0} allowed"
    );
    at_most("client-starvation", per_s, PREEMPTIONS_PER_S_MAX, text)
}

/// A server may close a connection between two requests. The time until the next connection is part of the
/// loop, and of its rate, and of no service time: it is listed if it is long.
fn reconnects(f: &Findings<'_>) -> Option<Check> {
    let found = f.closed_s / (f.measured_s * f64::from(f.settings.in_flight_max()));
    let text = format!(
        "the server closed connections between requests; to make new ones took {} of the connections' time, which is \
         in the rate and in no service time",
        percent(found)
    );
    (found > HELD_MAX).then(|| Check::not_judged("reconnects", found, HELD_MAX, &text))
}

/// Uses the kernel's account, not ours: a worker that is hardly ever off its CPU is the bottleneck itself.
///
/// In a closed loop, more threads make none of them busy: then all of them together may use at most the same
/// share of all CPUs that they may use.
fn client_cpu(f: &Findings<'_>) -> Option<Check> {
    let ratio = f.busiest_ratio?;
    let is_closed_loop = f.rate_per_s.is_none();
    if let Some(share) =
        f.share.filter(|share| is_closed_loop && share.used_ratio > CLIENT_CPU_MAX.max(ratio))
    {
        let text = format!(
            "the workers used {} of the time of the {} that they may use, {} allowed; the generator limits the load: \
             give it more CPUs, or fewer connections",
            percent(share.used_ratio),
            plural(share.cpus.into(), "CPU"),
            percent(CLIENT_CPU_MAX)
        );
        return Some(at_most("client-cpu", share.used_ratio, CLIENT_CPU_MAX, text));
    }
    let mut text = format!(
        "the busiest worker was on a CPU {} of the time, {} allowed",
        percent(ratio),
        percent(CLIENT_CPU_MAX)
    );
    if ratio > CLIENT_CPU_MAX && f.rate_per_s.is_none() {
        text.push_str("; the generator limits the load: use more --threads to give it more CPUs");
    }
    Some(at_most("client-cpu", ratio, CLIENT_CPU_MAX, text))
}

/// A closed loop on CPUs without idle time shares them with the server, if the server runs there. If the
/// workers use more than half of them, the rate says more of the generator than of the server. Whether it
/// does is not known here: it is listed, and not judged.
fn client_share(f: &Findings<'_>) -> Option<Check> {
    let share = f.share.filter(|share| f.rate_per_s.is_none() && share.idle_ratio < IDLE_MIN)?;
    let is_shown = share.used_ratio > CLIENT_SHARE_SHOWN && share.used_ratio <= CLIENT_CPU_MAX;
    let text = format!(
        "the workers used {} of the time of the {} that they may use, which were idle for {}: if the server runs on \
         them too, the rate is the generator's more than the server's",
        percent(share.used_ratio),
        plural(share.cpus.into(), "CPU"),
        percent(share.idle_ratio)
    );
    is_shown.then(|| Check::not_judged("client-share", share.used_ratio, CLIENT_SHARE_SHOWN, &text))
}

/// Little's law: the number of events in the system, counted at random moments, against the published rate
/// times the published mean. The count does not use the stamps behind rate and mean, so the check fails if a
/// latency is stamped too short, or if an event is recorded twice or not at all.
///
/// Beside the 3 %, the limit allows for chance in the count, and for events that the ends of the phase cut. A
/// stall of 20 ms at 20,000 events per second adds 0.8 to the mean number in 5 s, and a hundred counts may
/// all miss it.
/// `None` if there were too few samples, or if so many events failed or never ended that the law does not
/// apply.
fn little(f: &Findings<'_>) -> Option<Check> {
    let (counted, mean_ns) = (f.in_system?, f.in_system_mean_ns?);
    // In a closed loop an event that waits for a new connection is counted, but its service time excludes
    // that wait.
    if f.rate_per_s.is_none() && f.connection_errors > 0 {
        return None;
    }
    let counts = f.counts;
    let others = counts.failed
        + counts.skipped
        + if f.rate_per_s.is_some() { counts.unfinished } else { f.never_ended };
    // Connections that find no event left are sampled, too; the rate is that of the others.
    let is_limited = f.rate_per_s.is_none() && f.settings.events_max.is_some();
    let per_s = if is_limited { counts.done as f64 / f.measured_s } else { f.achieved_per_s };
    let expected = per_s * mean_ns / 1e9;
    if counted.looks < LOOKS_MIN || others * 100 > counts.done || expected <= 0.0 {
        return None;
    }
    let found = (counted.mean - expected).abs() / expected;
    let error = counted.error.max(1.0 / counted.looks as f64).max(unseen_error(f, expected, counted.looks));
    let chance = LOOK_ERRORS_MAX * error / expected;
    // Events that are cut are longer than most: far longer if a lock starves some. In a closed loop, an event
    // that waits for the next connection is in the system, and that time is in no service time.
    let cut_s = match f.rate_per_s {
        Some(_) => expected * mean_ns / 1e9,
        None => f.cut_s + f.held_s + f.closed_s,
    };
    let limit = LITTLE_MAX + chance + cut_s / (expected * f.measured_s);
    let text = format!(
        "{:.4} events in the system, counted at {} random times; the rate times the mean latency is {expected:.4}",
        counted.mean, counted.looks
    );
    if limit >= LITTLE_JUDGED_MAX {
        let why = format!(
            "chance and events at the ends of the phase could explain a difference of {}",
            percent(limit)
        );
        return Some(Check::not_judged("littles-law", found, limit, &format!("{why}; {text}")));
    }
    let text = format!("{text}: a difference of {}, {} allowed", percent(found), percent(limit));
    Some(at_most("littles-law", found, limit, text))
}

/// Standard error of the count in an open loop by the spread of the latencies: the counts themselves do not
/// show the stalls that fell between them.
///
/// If events leave in the order of their arrival, the number in the system varies at least as the latencies
/// do (the distributional form of Little's law). In a closed loop the number of connections bounds it.
fn unseen_error(f: &Findings<'_>, expected: f64, looks: u64) -> f64 {
    if f.rate_per_s.is_none() {
        return 0.0;
    }
    expected * f.in_system_spread_ratio / (looks as f64).sqrt()
}

/// Checks the share of each operation; `None` if no operation has a fixed share.
fn mix(f: &Findings<'_>) -> Option<Check> {
    let judged = f.operations.iter().filter_map(|(share, count)| {
        let per_event = share.per_event.filter(|share| *share > 0.0)?;
        let expected = per_event * f.service_count as f64;
        // If chance selects the operation of an event, this many draws spread that far by themselves.
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
