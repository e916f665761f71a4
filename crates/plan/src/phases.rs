//! Phases of a series and of a trial: commands, data set, warm-up.

use std::path::Path;
use std::time::Duration;

use record::bakeoff::Levels;

use crate::template::{Templated, text_of};

#[derive(Debug, Clone)]
pub(crate) struct RunPlan {
    pub(crate) run: Templated<String>,
    pub(crate) timeout: Duration,
    pub(crate) retries: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum PreparePlan {
    Builtin,
    Nothing,
    Run(RunPlan),
}

/// The build of a plan, as written.
#[derive(Debug, Clone)]
pub(crate) struct BuildPlan {
    pub(crate) run: RunPlan,
    pub(crate) source: Option<String>,
    pub(crate) revision: Option<Templated<String>>,
    pub(crate) env: Vec<String>,
}

/// Time at which the command of a value runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// After the measured phase.
    End,
    /// At the end of each of its intervals.
    Interval,
    /// Before the warm-up and after the measured phase: the server's settings.
    Settings,
}

impl When {
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "end" => Some(Self::End),
            "interval" => Some(Self::Interval),
            "settings" => Some(Self::Settings),
            _ => None,
        }
    }
}

/// A number of each trial, or numbers over time.
#[derive(Debug, Clone)]
pub(crate) struct ValuePlan {
    pub(crate) name: String,
    pub(crate) run: RunPlan,
    pub(crate) when: When,
    pub(crate) keep: Option<Vec<String>>,
}

/// Statements of the server about itself: numbers at the end of each interval, or its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerValues {
    /// Name of the series.
    pub name: String,
    /// Command that prints a line for each.
    pub step: Step,
    /// Names to store; `None`: all.
    pub keep: Option<Vec<String>>,
}

/// Longest batch of a judged warm-up, and the number of batches up to its end in which a cycle can be found.
const BATCH_MAX: Duration = Duration::from_millis(1_250);
const BATCHES: u32 = 48;
/// Shortest batch, if that leaves [`BATCHES_MIN`] of them.
const BATCH_MIN: Duration = Duration::from_millis(100);
const BATCHES_MIN: u32 = 20;
/// Time after which a cycle of 15 s (a checkpoint) has been found if there is one: five of them.
const CYCLES_FOUND_AFTER: Duration = Duration::from_secs(75);

/// Length of the warm-up before each measured phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warmup {
    /// Minimum length; the exact length if steadiness is not judged.
    pub min: Duration,
    /// Maximum, if steadiness is judged.
    pub max: Option<Duration>,
    /// Metrics that must be steady.
    pub judge: Vec<String>,
}

impl Warmup {
    /// Whether the warm-up lasts until these metrics are steady.
    pub fn is_judged(&self) -> bool {
        !self.judge.is_empty() && self.max.is_some()
    }

    /// Length of a batch for judging: 1.25 s, or a 48th of the longest warm-up if that is less. But it is at
    /// least 0.1 s, or a 20th of the longest warm-up if that is less.
    pub fn batch(&self) -> Duration {
        let longest = self.max.unwrap_or(self.min);
        BATCH_MAX.min(longest / BATCHES).max(BATCH_MIN.min(longest / BATCHES_MIN))
    }

    /// Least length: nothing is judged steady before a cycle of 15 s would show, if the longest warm-up
    /// allows that.
    pub fn least(&self) -> Duration {
        let sees_cycles = self.is_judged() && self.max.is_some_and(|max| max >= CYCLES_FOUND_AFTER);
        if sees_cycles { self.min.max(CYCLES_FOUND_AFTER) } else { self.min }
    }
}

/// Command of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Command line for `sh -c`.
    pub command: String,
    /// Time after which the command counts as failed.
    pub timeout: Duration,
    /// Retries.
    pub retries: u32,
}

/// Source of the data set of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepare {
    /// The load engine builds it.
    Builtin,
    /// The data set is not prepared.
    Nothing,
    /// A command builds it.
    Run(Step),
}

impl RunPlan {
    pub(crate) fn step(&self, levels: &Levels, scratch: &Path) -> Step {
        Step { command: self.run.of(levels, &text_of(scratch)), timeout: self.timeout, retries: self.retries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(min_ms: u64, max_ms: u64) -> Warmup {
        let max = Some(Duration::from_millis(max_ms));
        Warmup { min: Duration::from_millis(min_ms), max, judge: vec!["throughput".into()] }
    }

    /// A search for a cycle takes 32 batches of the last three quarters: 43 of them.
    #[test]
    fn a_cycle_can_be_found_in_every_warm_up_of_five_seconds_or_more() {
        for (max_ms, batch_ms) in [(1_200_000, 1_250), (100_000, 1_250), (30_000, 625), (4_800, 100)] {
            let warm_up = judged(0, max_ms);
            assert!(warm_up.batch().abs_diff(Duration::from_millis(batch_ms)) < Duration::from_micros(1));
            assert!(warm_up.batch() * 43 <= warm_up.max.unwrap(), "{max_ms}");
        }
        assert_eq!([2_000, 1_000].map(|max_ms| judged(0, max_ms).batch().as_millis()), [100, 50]);
    }

    #[test]
    fn a_judged_warm_up_is_as_long_as_five_checkpoints_if_it_may_be() {
        let least_s = |min_ms, max_ms| judged(min_ms, max_ms).least().as_secs();
        assert_eq!([least_s(0, 100_000), least_s(90_000, 100_000), least_s(2_000, 60_000)], [75, 90, 2]);
        let fixed = Warmup { min: Duration::from_secs(30), max: None, judge: Vec::new() };
        assert_eq!(fixed.least().as_secs(), 30);
    }

    #[test]
    fn a_plan_counts_the_least_warm_up_and_remarks_on_a_short_maximum() {
        let plan = |max: &str, budget: &str| {
            let text = format!(
                "schema = 1\ntitle = \"t\"\n[design]\nblocks = 2\n{budget}\n[load]\ntarget = \"null:\"\n[phases]\n\
                 warm-up = {{ min = \"1s\", max = \"{max}\", judge = [\"throughput\"] }}\nmeasure = {{ time = \"60s\" }}\n"
            );
            crate::read(&text, "t.toml").map_err(|errors| errors.to_string())
        };
        let (long, short) = (plan("100s", "").unwrap(), plan("30s", "").unwrap());
        assert_eq!([&long, &short].map(|p| p.estimate().time_min.as_secs()), [2 * (75 + 60), 2 * (1 + 60)]);
        let is_short =
            |plan: &crate::Plan| plan.notes().iter().any(|n| n.text.starts_with("`max` is shorter"));
        assert_eq!([&long, &short].map(is_short), [false, true]);
        let refused = plan("100s", "time_budget = \"200s\"").unwrap_err();
        assert!(refused.contains("`time_budget`"), "{refused}");
    }
}
