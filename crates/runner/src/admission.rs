//! Admission of a trial: whether the machine is fit just before it begins.
//!
//! A full disk fails the trial in any plan. The other conditions are those of `[admission]`: the trial waits
//! for them, and is then measured with a flag, or postponed.

use std::path::Path;
use std::time::Duration;

use plan::Otherwise;
use probes::proc_stat;
use record::bakeoff::Trial;
use record::clock::{Clock as _, Monotonic};
use record::environment::Environment;
use record::missing::{Maybe, Missing};

use crate::Event;
use crate::conductor::Conductor;
use crate::preflight::{BUSY_RATIO_MAX, busy_ratio, lacks_room};
use crate::process::{Waited, wait_for};
use crate::surroundings::{Edge, slowed_by_heat_times, swapped_bytes};

/// Time for which the machine is watched before each trial.
const WATCH: Duration = Duration::from_millis(200);
/// Pause between two looks at a machine that is not fit.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Least free space for any trial: less does not hold its logs and intervals.
const FREE_BYTES_MIN: u64 = 16 << 20;
/// Fact: share of CPU time that is not idle just before a trial.
const BUSY: &str = "trial.busy_before_ratio";
/// Fact that is set if that share is too large for a quiet machine.
const OTHER_WORK: &str = "trial.other_work";
/// Fact: time that the trial waited for a machine that is fit; absent if it did not wait.
const WAITED: &str = "trial.admission.waited_s";
/// Fact about the machine that must not change.
const GOVERNOR: &str = "cpu.governor";

/// Reason that a trial does not begin.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The user requested to stop.
    Stopped,
    /// The trial has failed.
    Failed(String),
}

/// Condition that does not hold.
struct Unfit {
    why: String,
    is_full: bool,
}

/// Waits until the machine is fit for the trial. Returns the text of a flag if it is not, and the trial is
/// measured all the same.
pub(crate) fn admit(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    scratch: &Path,
) -> Result<Option<String>, Refused> {
    let rules = conductor.plan.admission();
    let wait = rules.map_or(Duration::ZERO, |rules| rules.wait);
    let began_ns = Monotonic.now_ns();
    conductor.environment.facts.remove(WAITED);
    let mut has_waited = false;
    let unfit = loop {
        let Some(unfit) = look(conductor, scratch) else { break None };
        let waited = Duration::from_nanos(Monotonic.now_ns() - began_ns);
        let Some(left) = wait.checked_sub(waited).filter(|left| !left.is_zero()) else { break Some(unfit) };
        if !has_waited {
            let text = format!("trial {} waits up to {wait:?}: {}", trial.index + 1, unfit.why);
            (conductor.on_event)(&Event::Note(&text));
        }
        has_waited = true;
        let stop = conductor.stop;
        let waited = wait_for(LOOK_AGAIN.min(left), stop, || stop.is_last_trial());
        if waited == Waited::Stopped || stop.is_last_trial() {
            return Err(Refused::Stopped);
        }
    };
    if has_waited {
        let waited_s = Duration::from_nanos(Monotonic.now_ns() - began_ns).as_secs_f64();
        conductor.environment.facts.insert(WAITED.to_owned(), Ok(format!("{waited_s:.1}")));
    }
    let Some(Unfit { why, is_full }) = unfit else { return Ok(None) };
    if is_full {
        return Err(Refused::Failed(why));
    }
    let is_first = conductor.ledger.history.next_attempt(trial.index) == 1;
    if is_first && rules.is_some_and(|rules| rules.otherwise == Otherwise::Postpone) {
        return Err(Refused::Failed(format!("postponed: {why}")));
    }
    Ok(Some(format!("the machine was not fit within {wait:?}: {why}")))
}

/// Watches the machine for a moment. Without rules of the plan, a busy machine is a note.
fn look(conductor: &mut Conductor<'_>, scratch: &Path) -> Option<Unfit> {
    let rules = conductor.plan.admission();
    let before = Edge::now();
    let busy_max = rules.map_or(BUSY_RATIO_MAX, |rules| rules.busy_ratio_max);
    let busy = judge_quiet(&mut conductor.environment, busy_max);
    let after = Edge::now();
    let free_min = rules.map_or(FREE_BYTES_MIN, |rules| rules.free_bytes_min);
    let folders = [("the scratch folder", scratch), ("the archive", conductor.archive.dir())];
    let full = folders.into_iter().find_map(|(what, folder)| lacks_room(what, folder, free_min));
    if let Some(why) = full {
        return Some(Unfit { why, is_full: true });
    }
    if rules.is_none() {
        if let Some(note) = &busy {
            (conductor.on_event)(&Event::Note(note));
        }
        return None;
    }
    let swapped =
        swapped_bytes(&before, &after).map(|bytes| format!("the machine swapped {} MiB", bytes >> 20));
    let heat =
        slowed_by_heat_times(&before, &after).map(|times| format!("heat slowed CPUs down {times} times"));
    let now = probes::environment::read(Path::new("/"));
    let governor = governor(&conductor.first, &now);
    let found: Vec<String> = [busy, swapped, heat, governor].into_iter().flatten().collect();
    (!found.is_empty()).then(|| Unfit { why: found.join("; "), is_full: false })
}

/// Describes another governor than before the first trial.
fn governor(first: &Environment, now: &Environment) -> Option<String> {
    let (was, is) = (first.fact(GOVERNOR)?, now.fact(GOVERNOR)?);
    (was != is).then(|| format!("the CPU governor is {is}, and was {was} before the first trial"))
}

/// Watches the machine and records how busy it is. Returns a note if it is not quiet.
///
/// The server of the trial already runs: its work without a load counts too.
fn judge_quiet(environment: &mut Environment, ratio_max: f64) -> Option<String> {
    let busy = watched();
    environment.facts.remove(OTHER_WORK);
    let ratio = busy.as_ref().ok().copied();
    environment.facts.insert(BUSY.to_owned(), busy.map(|ratio| format!("{ratio:.3}")));
    let ratio = ratio.filter(|ratio| *ratio > ratio_max)?;
    environment.facts.insert(OTHER_WORK.to_owned(), Ok("yes".to_owned()));
    Some(format!("other work used {:.0} % of the CPUs just before this trial", ratio * 100.0))
}

fn watched() -> Maybe<f64> {
    let read = || proc_stat::read(Path::new("/")).map_err(|e| Missing::because(format!("/proc/stat: {e}")));
    let before = read()?;
    let until_ns = Monotonic.now_ns() + u64::try_from(WATCH.as_nanos()).expect("a moment");
    while Monotonic.now_ns() < until_ns {
        Monotonic.sleep_until_ns(until_ns);
    }
    busy_ratio(&before, &read()?).ok_or_else(|| Missing::because("the kernel counted no tick"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_busy_the_machine_is_is_a_fact_of_the_trial() {
        let mut environment = Environment::default();
        let note = judge_quiet(&mut environment, BUSY_RATIO_MAX);
        assert!(environment.facts.contains_key(BUSY));
        assert_eq!(note.is_some(), environment.fact(OTHER_WORK).is_some());
        assert_eq!(judge_quiet(&mut environment, 1.0), None, "no machine is busier than this");
        assert_eq!(environment.fact(OTHER_WORK), None);
    }

    #[test]
    fn another_governor_than_before_the_first_trial_is_told() {
        let of = |governor: &str| {
            let mut environment = Environment::default();
            environment.facts.insert(GOVERNOR.to_owned(), Ok(governor.to_owned()));
            environment
        };
        assert_eq!(governor(&of("performance"), &of("performance")), None);
        assert_eq!(governor(&Environment::default(), &of("powersave")), None, "unknown is no change");
        let text = governor(&of("performance"), &of("powersave")).unwrap();
        assert_eq!(text, "the CPU governor is powersave, and was performance before the first trial");
    }
}
