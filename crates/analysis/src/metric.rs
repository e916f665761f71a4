//! One number of a run, by which configurations are compared. An interval bounds it.

use record::bakeoff::Metric;
use record::command::CommandEnd;
use record::commands::{Comparison, Phase, Turn};
use record::cpu::CpuInterval;
use record::histogram::CensoredHistogram;
use record::load::LoadRecord;
use record::missing::{Maybe, Missing};
use record::run::Run;
use record::server_cpu::ServerTasks;

use crate::resources;
pub use crate::value::Value;
use crate::value::check_span;

/// Value of a metric in a run. The 99th percentile is that of response time if it was measured, else (closed
/// loop) of service time. A value of a degraded run is shown and not judged.
///
/// # Errors
///
/// The run drove no load, no event was done, or the server's CPU time was not measured.
pub fn value(run: &Run, metric: Metric) -> Maybe<Value> {
    if Metric::OF_COMMANDS.contains(&metric) {
        return of_command(run, metric);
    }
    let load = run.load.as_ref().ok_or_else(|| Missing::because("the run generated no load"))?;
    if load.counts.done == 0 {
        return Err(Missing::because("no event was done"));
    }
    if matches!(metric, Metric::CpuPerEvent | Metric::IoPerEvent | Metric::EnergyPerEvent) {
        not_degraded(load)?;
    }
    let value = match metric {
        Metric::Throughput => Value::exact(load.achieved_per_s),
        Metric::P99 => p99(load)?,
        Metric::P999 => p999(load)?,
        Metric::CpuPerEvent => cpu_per_event(run, load)?,
        Metric::LockCpu => resources::lock_cpu(run)?,
        Metric::IoPerEvent => {
            // The I/O of commands counts when they end, as their CPU time does.
            let counted_per_s = counted_per_s(run, load).unwrap_or(load.achieved_per_s);
            let doubt_per_s = events_in_doubt_per_s(run, load).unwrap_or(0.0);
            resources::io_per_event(run, load, (counted_per_s - doubt_per_s, counted_per_s + doubt_per_s))?
        }
        Metric::MemoryGrowth => resources::memory_growth(run, load)?,
        Metric::EnergyPerEvent => resources::energy_per_event(run, load)?,
        Metric::Time | Metric::Cpu => unreachable!("metrics of a command are read above"),
    };
    if value.low.is_finite() && value.low > 0.0 {
        Ok(Value { unjudged: value.unjudged.or(not_degraded(load).err()), ..value })
    } else {
        Err(Missing::because(format!("{} is {}, which has no logarithm", metric.word(), value.low)))
    }
}

/// Whether the whole load was generated and all its events are known. The server of a degraded run had less
/// to do than in other runs, and events that it worked for may not be known.
///
/// # Errors
///
/// The losses of a degraded run.
pub(crate) fn not_degraded(load: &LoadRecord) -> Maybe<()> {
    load.verdict.degraded().map_or(Ok(()), |lost| Err(Missing::because(format!("degraded: {lost}"))))
}

/// Time or CPU time of a recorded command; CPU time by events if they were seen, else by rusage.
fn of_command(run: &Run, metric: Metric) -> Maybe<Value> {
    let recorded = run.recorded.as_ref().ok_or_else(|| Missing::because("the run recorded no command"))?;
    done(recorded.end)?;
    let ns = |ns: u64| ns as f64 * 1e-9;
    let seconds = if metric == Metric::Time {
        recorded.window.as_ref().map(CpuInterval::seconds).map_err(Clone::clone)?
    } else {
        let by_rusage = || recorded.by_rusage.clone().map(|split| ns(split.sum_ns()));
        recorded.by_events_ns.clone().map(ns).or_else(|_| by_rusage())?
    };
    if seconds.is_finite() && seconds > 0.0 {
        return Ok(Value::exact(seconds));
    }
    Err(Missing::because(format!("{} is {seconds}, which has no logarithm", metric.word())))
}

/// Whether a command did its work. One that failed may have stopped early: its time is that of something
/// else.
///
/// # Errors
///
/// It ended with a code other than 0 or by a signal, or there was none.
pub(crate) fn done(end: CommandEnd) -> Maybe<()> {
    match end {
        CommandEnd::Code(0) => Ok(()),
        CommandEnd::Code(code) => Err(Missing::because(format!("the command ended with code {code}"))),
        CommandEnd::Signal(signal) => Err(Missing::because(format!("signal {signal} ended the command"))),
        CommandEnd::NoCommand => Err(Missing::because("the run recorded a period, not a command")),
    }
}

/// Whether a command of a comparison did its work in every measured round.
///
/// # Errors
///
/// It failed in at least one round.
pub(crate) fn done_in_all(comparison: &Comparison, command: usize) -> Maybe<()> {
    let turns: Vec<&Turn> = comparison.turns_of(command, Phase::Measured).collect();
    let failed = turns.iter().filter(|turn| done(turn.end).is_err()).count();
    if failed == 0 {
        return Ok(());
    }
    Err(Missing::because(format!("the command failed in {failed} of {} rounds", turns.len())))
}

/// CPU seconds of the server per event done; for `exec:` per command that ended, counting each try.
///
/// The kernel charges a command's CPU time when the command ends; the rate counts the share of each event
/// that lies in the phase. At each end of the phase these differ by up to one command per thread of the load,
/// so the value for `exec:` is an interval.
fn cpu_per_event(run: &Run, load: &LoadRecord) -> Maybe<Value> {
    let used = cpu_ratio(run)?;
    let doubt_per_s = events_in_doubt_per_s(run, load)?;
    let counted_per_s = counted_per_s(run, load)?;
    let (least, most) = (counted_per_s - doubt_per_s, counted_per_s + doubt_per_s);
    Ok(Value {
        low: used / most,
        high: if least > 0.0 { used / least } else { f64::INFINITY },
        unjudged: None,
    })
}

/// Events done, or commands that ended, per second: the divisor of the CPU time.
///
/// A command that fails and is retried uses CPU time each time, and `exec:` counts the CPU time of all
/// commands. Retries therefore count in both numerator and denominator, or in neither.
pub(crate) fn counted_per_s(run: &Run, load: &LoadRecord) -> Maybe<f64> {
    let counts = load.counts;
    let tries = (counts.done + counts.failed + counts.retries) as f64;
    Ok(match run.server_cpu.clone()?.tasks {
        ServerTasks::Cgroup | ServerTasks::Tree => load.achieved_per_s,
        ServerTasks::Commands if counts.done == 0 => return Err(Missing::because("no event was done")),
        ServerTasks::Commands => load.achieved_per_s * tries / counts.done as f64,
    })
}

/// Largest possible difference between the rate of commands with counted CPU time and the rate of events; 0
/// if CPU time is counted before a command ends.
pub(crate) fn events_in_doubt_per_s(run: &Run, load: &LoadRecord) -> Maybe<f64> {
    let cpu = run.server_cpu.clone()?;
    let workers = load.settings.connections.unwrap_or(0).max(load.settings.threads);
    Ok(match cpu.tasks {
        ServerTasks::Cgroup | ServerTasks::Tree => 0.0,
        ServerTasks::Commands => f64::from(workers) / cpu.span_s(),
    })
}

/// CPU seconds per second that the server used over the measured phase.
///
/// # Errors
///
/// The reason that this is unknown.
pub(crate) fn cpu_ratio(run: &Run) -> Maybe<f64> {
    let load = run.load.as_ref().ok_or_else(|| Missing::because("the run generated no load"))?;
    let cpu = run.server_cpu.clone()?;
    check_span("the server's CPU time", cpu.span_s(), load)?;
    Ok(cpu.cpu_s / cpu.span_s())
}

/// The 99th percentile over all events that were due. Events without an end, and failed or skipped ones,
/// could lie anywhere above their known duration.
///
/// - low: events in flight count at the time they had lasted, events without any latency below all others.
/// - high: both kinds lie above all others; open if they are more than 1 %.
fn p99(load: &LoadRecord) -> Maybe<Value> {
    let (latency, without_latency) = latencies(load);
    p99_of(latency, without_latency)
}

/// The p99.9, which a run may publish although the generator made most of it: then it says nothing about the
/// server.
fn p999(load: &LoadRecord) -> Maybe<Value> {
    let (latency, without_latency) = latencies(load);
    let value = quantile_of(latency, without_latency, (Metric::P999, 999, 1_000))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in nanoseconds")]
    let is_made = load.response.is_ok() && load.is_generator_made(0.999, (value.low * 1e9) as u64);
    let made = || Missing::because("more than half of the p99.9 may be the lateness of the generator");
    Ok(Value { unjudged: value.unjudged.or(is_made.then(made)), ..value })
}

/// Response times, in a closed loop service times, and the number of events that were due and have none.
///
/// Lower bounds are those of unfinished events and of failed ones that timed out.
pub(crate) fn latencies(load: &LoadRecord) -> (&CensoredHistogram, u64) {
    let latency = load.response.as_ref().unwrap_or(&load.service);
    let not_done = load.counts.failed + load.counts.skipped + load.counts.unfinished;
    (latency, not_done.saturating_sub(latency.at_least.count()))
}

pub(crate) fn p99_of(latency: &CensoredHistogram, without_latency: u64) -> Maybe<Value> {
    quantile_of(latency, without_latency, (Metric::P99, 99, 100))
}

/// - `without_latency`: number of events that were due and have no latency.
/// - `(metric, part, whole)`: a share of the events has at most the value.
fn quantile_of(
    latency: &CensoredHistogram,
    without_latency: u64,
    (metric, part, whole): (Metric, u64, u64),
) -> Maybe<Value> {
    let events = latency.known.count() + latency.at_least.count() + without_latency;
    let rank = (events * part).div_ceil(whole);
    let low = latency.merged().bucket_of_rank(rank.saturating_sub(without_latency).max(1));
    let Some((low_ns, _)) = low else { return Err(Missing::because("no latency was recorded")) };
    let high = latency.known.bucket_of_rank(rank);
    let (word, needed) = (metric.word(), metric.events_min());
    let too_few =
        || Missing::because(format!("{word} needs {needed} events per trial, a trial had {events}"));
    Ok(Value {
        low: low_ns.max(1) as f64 * 1e-9,
        high: high.map_or(f64::INFINITY, |(_, high_ns)| high_ns.max(1) as f64 * 1e-9),
        unjudged: (events < needed).then(too_few),
    })
}

#[cfg(test)]
mod tests {
    use record::histogram::Histogram;

    use super::*;

    /// Latencies of 1, 2, ... us for `events` events, and a lower bound of 1 us for each of `in_flight`
    /// events.
    fn latency(events: u64, in_flight: u64) -> CensoredHistogram {
        let known: Histogram = (1..=events).map(|i| (i * 1_000, 1)).collect();
        CensoredHistogram { known, at_least: [(1_000, in_flight)].into_iter().collect() }
    }

    fn ends_us(known: u64, in_flight: u64, without_latency: u64) -> (f64, f64, bool) {
        let value = p99_of(&latency(known, in_flight), without_latency).unwrap();
        (value.low * 1e6, value.high * 1e6, value.unjudged.is_some())
    }

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 2e-3, "{found} is not {expected}");
    }

    #[test]
    fn what_is_in_flight_brackets_p99_by_its_ranks() {
        // By hand: of 1,000,000 events the 990,000th; 32 in flight are at least 1 us and have no upper bound.
        let (low, high, unjudged) = ends_us(1_000_000 - 32, 32, 0);
        near(low, 990_000.0 - 32.0);
        near(high, 990_000.0);
        assert!(!unjudged && high / low < 1.002, "0.08 % is no reason to drop a p99: {low} {high}");
        let (low, high, _) = ends_us(19_960, 40, 0);
        near(low, 19_760.0);
        near(high, 19_800.0);
    }

    #[test]
    fn more_than_a_hundredth_without_an_end_leaves_p99_open() {
        assert!(ends_us(19_800, 200, 0).1.is_finite());
        assert!(ends_us(19_799, 201, 0).1.is_infinite());
        // A failure has no latency: it may hide a fast event or a slow one.
        let (low, high, _) = ends_us(19_900, 0, 100);
        near(low, 19_700.0);
        near(high, 19_800.0);
        assert!(ends_us(19_700, 0, 300).1.is_infinite());
    }

    #[test]
    fn a_p999_needs_ten_times_the_events() {
        let of = |events| quantile_of(&latency(events, 0), 0, (Metric::P999, 999, 1_000)).unwrap();
        near(of(1_000_000).low * 1e6, 999_000.0);
        assert!(of(99_999).unjudged.is_some() && of(100_000).unjudged.is_none());
    }

    #[test]
    fn a_p99_of_few_events_is_shown_and_not_judged() {
        assert!(ends_us(9_999, 0, 0).2);
        assert!(!ends_us(10_000, 0, 0).2);
        let (low, high, unjudged) = ends_us(10, 0, 0);
        assert!(unjudged && low <= high);
    }
}
