//! `bakeoff plan explain --pilot`: how noisy a plan's reference is on this machine, measured.

use std::io::Write;
use std::time::Duration;

use analysis::noise::{Goal, Noise, noise};
use archive::Archive;
use plan::Plan;
use record::clock::{Clock as _, Monotonic};
use report::{Cost, Wanted};
use runner::Options;

use crate::cmd::experiment::Exclusive;
use crate::cmd::run::{Progress, of_runner};
use crate::exit::Exit;
use crate::signals;

/// Result of a pilot.
pub(crate) struct Pilot {
    noise: Noise,
    cost: Cost,
}

/// Measures the reference against itself, in an archive that is removed afterwards.
pub(crate) fn measured(plan: &Plan, time: Duration, alone: Exclusive) -> anyhow::Result<Pilot> {
    let Some(pilot) = plan.pilot(time) else {
        let one = plan.estimate().time_min / plan.estimate().series.max(1);
        let text = format!(
            "--pilot {} is too short for two blocks of two series; a series takes {} or more",
            record::quantity::written_duration(time),
            record::quantity::written_duration(one)
        );
        return Err(Exit::Usage.with(text));
    };
    let folder = tempfile::tempdir()?;
    let archive = Archive::open(folder.path())?;
    signals::stop_on_interrupt()?;
    let options = Options {
        beside_others: alone.beside_others,
        wait: false,
        plan_file: None,
        id: None,
        generator: None,
        trust: |_| false,
    };
    let mut told = Progress::default();
    let began_ns = Monotonic.now_ns();
    let outcome = runner::run(&pilot, &archive, &options, &signals::STOP, &mut |event| told.show(event));
    let took_s = (Monotonic.now_ns() - began_ns) as f64 * 1e-9;
    told.screen.clear();
    let outcome = outcome.map_err(of_runner)?;
    if signals::STOP.is_last_trial() {
        return Err(Exit::Interrupted.with("interrupted: the pilot is incomplete"));
    }
    let bakeoff = archive.bakeoff(outcome.id)?;
    let noise = noise(&bakeoff).map_err(|why| {
        let reason = bakeoff.attempts.iter().find_map(|attempt| attempt.reason.clone());
        let reason = reason.map(|reason| format!("; a trial: {reason}")).unwrap_or_default();
        Exit::Invalid.with(format!(
            "cannot estimate the noise from the pilot's {} trials: {why}{reason}",
            outcome.sealed
        ))
    })?;
    let series = bakeoff.attempts.iter().map(|a| bakeoff.trials[a.trial as usize].series);
    let series = series.collect::<std::collections::BTreeSet<u32>>().len().max(1) as f64;
    let estimate = plan.estimate();
    let measured_s = f64::from(pilot.estimate().cells_per_series) * pilot.measure().as_secs_f64();
    // The pilot's warm-ups last the plan's minimum, and are not judged.
    let warmup = plan.warmup();
    let more_s = f64::from(pilot.estimate().cells_per_series)
        * warmup.least().saturating_sub(warmup.min).as_secs_f64();
    let longest = warmup.max.filter(|_| warmup.is_judged()).unwrap_or(warmup.least());
    let cost = Cost {
        of_series_s: (took_s / series - measured_s).max(0.0) + more_s,
        configurations: estimate.configurations,
        trials: u32::try_from(plan.cells().len()).expect("check limits the number of trials"),
        warm_up_more_s: longest.saturating_sub(warmup.least()).as_secs_f64(),
    };
    Ok(Pilot { noise, cost })
}

impl Pilot {
    /// Writes it for people.
    pub(crate) fn write(&self, plan: &Plan, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out)?;
        report::text::noise(out, &self.noise, &self.cost, &wanted(plan))
    }

    /// The document of it.
    pub(crate) fn document(&self, plan: &Plan) -> serde_json::Value {
        report::json::noise(&self.noise, &self.cost, &wanted(plan))
    }
}

/// What a plan wants to find: a difference as large as its region of practical equivalence, beyond it.
fn wanted(plan: &Plan) -> Wanted {
    let judge = plan.judge();
    let goal =
        Goal { beyond: judge.rope_ratio, comparisons: plan.comparisons(), alpha: judge.alpha_at_end() };
    Wanted { blocks: plan.blocks(), trial_s: plan.measure().as_secs_f64(), goal }
}
