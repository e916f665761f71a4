//! Metrics of resources: locks, I/O, memory, energy.

use record::load::LoadRecord;
use record::missing::{Maybe, Missing};
use record::resources::{Resource, SERVER_MEMORY, Used, UsedBy};
use record::run::Run;

use crate::growth::theil_sen;
use crate::trend::LEVELS_MIN;
use crate::value::{Value, check_span};

/// e to the share of the time of all CPUs that was spun for locks of the kernel.
pub(crate) fn lock_cpu(run: &Run) -> Maybe<Value> {
    let load = run.load.as_ref().ok_or_else(|| Missing::because("the run generated no load"))?;
    let used = used(run, Resource::LockSpin, "`locks` is not among `observe.instruments`")?;
    check_span("the time spun for locks", used.span_s(), load)?;
    Ok(Value::exact(used.amount.exp()))
}

/// Bytes that the server read from and wrote to storage per event done.
///
/// - `events_per_s`: least and most events per second that the bytes may belong to.
pub(crate) fn io_per_event(run: &Run, load: &LoadRecord, events_per_s: (f64, f64)) -> Maybe<Value> {
    let absent = "the server's own I/O was not read";
    let (read, written) = (used(run, Resource::Read, absent)?, used(run, Resource::Written, absent)?);
    check_span("the server's I/O", read.span_s(), load)?;
    let bytes = read.amount + written.amount;
    if bytes <= 0.0 {
        return Err(Missing::because("io-per-event is 0 (the server did no I/O), which has no ratio"));
    }
    let (bytes_per_s, (least, most)) = (bytes / read.span_s(), events_per_s);
    let high = if least > 0.0 { bytes_per_s / least } else { f64::INFINITY };
    Ok(Value { low: bytes_per_s / most, high, unjudged: None })
}

/// Joules of the machine per event done.
pub(crate) fn energy_per_event(run: &Run, load: &LoadRecord) -> Maybe<Value> {
    let used = used(run, Resource::Energy, "`power` is not among `observe.instruments`")?;
    check_span("the energy", used.span_s(), load)?;
    Ok(Value::exact(used.amount / used.span_s() / load.achieved_per_s))
}

/// e to the growth of the server's memory over the measured phase, as a share of its first level: the slope
/// of Theil and Sen times the length of the phase.
pub(crate) fn memory_growth(run: &Run, load: &LoadRecord) -> Maybe<Value> {
    let levels = known_levels(run)?;
    let first = levels[0].1;
    if first <= 0.0 {
        return Err(Missing::because("the server's memory was 0 at the start"));
    }
    let slope =
        theil_sen(&levels).ok_or_else(|| Missing::because("a slope needs at least 2 memory readings"))?;
    let growth = slope * load.measured.as_secs_f64() / first;
    let too_few = || {
        Missing::because(format!(
            "memory-growth needs {LEVELS_MIN} memory readings per trial, a trial had {}: measure longer, or \
             in shorter intervals",
            levels.len()
        ))
    };
    let unjudged = (levels.len() < LEVELS_MIN).then(too_few);
    Ok(Value { unjudged, ..Value::exact(growth.exp()) })
}

/// Levels of the server's own memory in a run, in time order.
///
/// # Errors
///
/// The reason that they are missing.
pub(crate) fn known_levels(run: &Run) -> Maybe<Vec<(f64, f64)>> {
    let levels = memory_levels(run);
    if levels.is_empty() {
        let why = run.instruments.missing.get(SERVER_MEMORY).cloned();
        return Err(why.unwrap_or_else(|| Missing::because("the server's own memory was not read")));
    }
    Ok(levels)
}

/// Seconds and bytes of the server's own memory, in time order.
pub fn memory_levels(run: &Run) -> Vec<(f64, f64)> {
    let levels = run.series.iter().filter(|s| s.name == SERVER_MEMORY && s.labels.is_empty());
    let mut levels: Vec<(f64, f64)> = levels.map(|s| (s.t_ms as f64 / 1e3, s.value)).collect();
    levels.sort_by(|a, b| a.0.total_cmp(&b.0));
    levels
}

/// Whether a metric's resource could be counted for the machine only; `None` if it was not counted.
pub fn of_machine(run: &Run, resource: Resource) -> Option<bool> {
    Some(run.resources.get(&resource)?.as_ref().ok()?.by == UsedBy::Machine)
}

fn used(run: &Run, resource: Resource, absent: &str) -> Maybe<Used> {
    run.resources.get(&resource).cloned().unwrap_or_else(|| Err(Missing::because(absent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_ignores_one_wild_level() {
        // 3 a second, and one level that is a hundred times too high.
        let mut levels: Vec<(f64, f64)> =
            (0..20).map(|t| (f64::from(t), 100.0 + 3.0 * f64::from(t))).collect();
        assert!((theil_sen(&levels).unwrap() - 3.0).abs() < 1e-12);
        levels[7].1 = 10_000.0;
        assert!((theil_sen(&levels).unwrap() - 3.0).abs() < 0.1);
        assert_eq!(theil_sen(&levels[..1]), None);
    }
}
