//! Feasibility of the judged metrics in the plan's phases, known before the run.

use std::collections::BTreeSet;
use std::path::Path;

use record::bakeoff::{Levels, Metric, Plot, blocks_min};
use record::load::{Loop, Think};

use crate::load::{ParsedRate, RATE};
use crate::matrix;
use crate::plan::Plan;

/// Feasibility of a metric, known before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Feasibility {
    /// The metric can be judged in every cell.
    Yes,
    /// Known only during the run: the condition.
    Unknown(String),
    /// The metric cannot be judged in some or all cells. If in all, it belongs to no family.
    No {
        /// Reason.
        why: String,
        /// Whether this holds in every cell.
        everywhere: bool,
    },
}

/// Metric that the plan judges, and its feasibility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedMetric {
    /// The metric.
    pub metric: Metric,
    /// Feasibility.
    pub feasibility: Feasibility,
}

impl JudgedMetric {
    /// Note about a metric that may not be judged; `None` if it can be.
    pub(crate) fn note(&self) -> Option<String> {
        let metric = self.metric.word();
        match &self.feasibility {
            Feasibility::Yes => None,
            Feasibility::Unknown(what) => {
                Some(format!("{metric} is judged only if the trials allow it: {what}"))
            }
            Feasibility::No { why, everywhere: true } => Some(format!("{metric} is not judged: {why}")),
            Feasibility::No { why, everywhere: false } => {
                Some(format!("{metric} is not judged in every cell: {why}"))
            }
        }
    }
}

impl Feasibility {
    /// The same if it is a no; else a no with this reason.
    fn or_no(self, why: &str) -> Self {
        match self {
            Self::No { .. } => self,
            Self::Yes | Self::Unknown(_) => Self::No { why: why.to_owned(), everywhere: true },
        }
    }
}

/// Fewest intervals for a slope of memory that is judged.
const MEMORY_LEVELS_MIN: f64 = 8.0;

impl Plan {
    /// All judged metrics with their feasibility.
    pub fn judged_metrics(&self) -> Vec<JudgedMetric> {
        self.judge.metrics.iter().map(|metric| self.judged_metric(*metric)).collect()
    }

    /// Comparisons of the plan, as far as known before the run: configurations against the reference, times
    /// conditions, times metrics.
    pub fn comparisons(&self) -> u32 {
        // Over several rates, CPU time per event is a single slope.
        let rate = self.rate_factor();
        let [points, slopes] = [None, rate].map(|without| self.compared(without));
        let of = |judged: &JudgedMetric| match (&judged.feasibility, judged.metric) {
            (Feasibility::No { everywhere: true, .. }, _) => 0,
            (_, Metric::CpuPerEvent) => slopes,
            _ => points,
        };
        u32::try_from(self.judged_metrics().iter().map(of).sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// Pairs of a configuration and the reference in the same condition.
    ///
    /// - `without`: a factor that is not part of a condition.
    fn compared(&self, without: Option<&str>) -> usize {
        let mut sides: BTreeSet<(Levels, Levels)> = BTreeSet::new();
        for cell in self.cells() {
            let (side, mut condition) = matrix::split(&cell, &self.factors);
            condition.retain(|name, _| Some(name.as_str()) != without);
            sides.insert((side, condition));
        }
        let is_reference = |side: &Levels| matrix::is_reference(side, &self.factors);
        let known: BTreeSet<&Levels> =
            sides.iter().filter(|(side, _)| is_reference(side)).map(|(_, condition)| condition).collect();
        sides.iter().filter(|(side, condition)| !is_reference(side) && known.contains(condition)).count()
    }

    fn judged_metric(&self, metric: Metric) -> JudgedMetric {
        let feasibility = match metric {
            Metric::Throughput => Feasibility::Yes,
            Metric::P99 | Metric::P999 => self.events_feasibility(metric),
            Metric::CpuPerEvent => self.cpu_feasibility(),
            Metric::LockCpu => self.instrument_feasibility("locks"),
            Metric::EnergyPerEvent => self.instrument_feasibility("power"),
            Metric::IoPerEvent if self.slices.is_some() => {
                Feasibility::No { why: "it is not measured in slices".to_owned(), everywhere: true }
            }
            Metric::IoPerEvent => self.own_processes("I/O"),
            Metric::MemoryGrowth => self.memory_feasibility(),
            Metric::Time | Metric::Cpu => {
                Feasibility::No { why: "it applies only to single commands".to_owned(), everywhere: true }
            }
        };
        JudgedMetric { metric, feasibility }
    }

    /// Whether the CPU time of the server's own tasks is measurable.
    fn cpu_feasibility(&self) -> Feasibility {
        let no = |why: &str| Feasibility::No { why: why.to_owned(), everywhere: true };
        if self.server.is_some() {
            return Feasibility::Yes;
        }
        let trials = self.trials();
        let scheme = |i: usize| self.target(&trials[i].levels, Path::new("/scratch")).scheme().to_owned();
        match trials.first().map(|_| scheme(0)).as_deref() {
            Some("exec") => Feasibility::Yes,
            Some("sqlite" | "null") => {
                no("the target runs inside the load generator, so its CPU time cannot be separated")
            }
            _ => no("the plan has no [server], so the server's tasks are unknown"),
        }
    }

    /// Whether an instrument watches enough blocks for a claim.
    fn instrument_feasibility(&self, instrument: &str) -> Feasibility {
        let no = |why: String| Feasibility::No { why, everywhere: true };
        if !self.instruments.iter().any(|i| i == instrument) {
            return no(format!("`{instrument}` is not among `observe.instruments`"));
        }
        let (watched, needed) = (self.observed_blocks(), blocks_min(self.judge.alpha));
        if self.control_arm && watched < needed {
            return no(format!(
                "the control arm leaves {watched} blocks with instruments, but a claim needs {needed}"
            ));
        }
        Feasibility::Yes
    }

    /// Whether the server, or the commands, are processes apart from the load generator.
    fn own_processes(&self, what: &str) -> Feasibility {
        match self.cpu_feasibility() {
            Feasibility::No { everywhere, .. } => Feasibility::No {
                why: format!("without a [server], the server's {what} is unknown"),
                everywhere,
            },
            known => known,
        }
    }

    fn memory_feasibility(&self) -> Feasibility {
        if self.server.is_none() {
            return self
                .own_processes("memory")
                .or_no("commands are short-lived, so their memory has no level");
        }
        let levels = self.measure.as_secs_f64() / self.interval.as_secs_f64();
        if levels < MEMORY_LEVELS_MIN {
            let why = format!(
                "it needs {MEMORY_LEVELS_MIN} intervals per trial, but this plan has {}",
                levels.floor()
            );
            return Feasibility::No { why, everywhere: true };
        }
        self.instrument_feasibility("memory")
    }

    /// Whether each trial has as many events as the metric needs.
    fn events_feasibility(&self, metric: Metric) -> Feasibility {
        let needed = metric.events_min();
        let measured_s = self.measure.as_secs_f64();
        let takes = format!("{metric} needs {needed} events per trial", metric = metric.word());
        if self.rate_to_find().is_some() {
            return Feasibility::Unknown(takes);
        }
        let trials = self.trials();
        let bounds: Vec<Bound> = trials
            .iter()
            .filter(|trial| trial.block == 1)
            .map(|trial| {
                let settings = self.load_settings(trial, Path::new("/scratch"));
                match &settings.pace {
                    Loop::Open(open) => Bound::About(open.per_s * measured_s),
                    Loop::Closed { think: Think::Constant(rest) | Think::Exponential(rest) } => {
                        let workers = f64::from(settings.in_flight_max());
                        Bound::AtMost(workers * measured_s / rest.as_secs_f64())
                    }
                    Loop::Closed { think: Think::None } => Bound::Unknown,
                }
            })
            .collect();
        let too_few = |bound: &&Bound| bound.most().is_some_and(|most| most < needed as f64);
        let fewest = bounds.iter().filter(too_few).filter_map(Bound::most).reduce(f64::min);
        if let Some(fewest) = fewest {
            let everywhere = bounds.iter().all(|bound| too_few(&bound));
            let why = format!("{takes}, but this plan yields about {}", thousands(fewest));
            return Feasibility::No { why, everywhere };
        }
        if bounds.iter().all(|bound| matches!(bound, Bound::About(_))) {
            return Feasibility::Yes;
        }
        let rate = thousands((needed as f64 / measured_s).ceil());
        Feasibility::Unknown(format!("{takes}: at least {rate}/s in measured phases of {measured_s} s"))
    }

    /// Whether a sequential design would drop configurations by a slope over several rates. Rates that are
    /// found for each cell may differ, too.
    pub(crate) fn drops_by_slope(&self) -> bool {
        let varies = |f: &record::bakeoff::Factor| f.plot == Plot::Sub && f.values.len() > 1;
        let finds = matches!(self.load.rate, Some(ParsedRate::Promise(_)));
        self.judge.sequential
            && self.judge.metrics.first() == Some(&Metric::CpuPerEvent)
            && (self.rate_factor().is_some() || finds && self.factors.iter().any(varies))
    }

    /// Sub-plot factor that alone determines the rate, if it has several levels.
    fn rate_factor(&self) -> Option<&str> {
        let names: Vec<&str> = match &self.load.rate {
            Some(ParsedRate::Plain(rate)) => rate.template.names().collect(),
            Some(ParsedRate::Shares(_)) => vec![RATE],
            _ => return None,
        };
        let says = |f: &&record::bakeoff::Factor| f.plot == Plot::Sub && names.contains(&f.name.as_str());
        match self.factors.iter().filter(says).collect::<Vec<_>>()[..] {
            [factor] if factor.values.len() > 1 => Some(&factor.name),
            _ => None,
        }
    }
}

/// Bound of the number of events of a trial.
enum Bound {
    About(f64),
    AtMost(f64),
    Unknown,
}

impl Bound {
    fn most(&self) -> Option<f64> {
        match self {
            Self::About(events) | Self::AtMost(events) => Some(*events),
            Self::Unknown => None,
        }
    }
}

/// Formats a number with separators: `1,800`.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(load: &str, judge: &str) -> Plan {
        let text = format!(
            "schema = 1\ntitle = \"t\"\n[factors.name]\nvalues = [\"a\", \"b\"]\nreference = \"a\"\n\
             level = \"whole-plot\"\n[factors.rate]\nvalues = [100, 900, 9000]\nlevel = \"sub-plot\"\n[design]\n\
             blocks = 6\n[load]\n{load}\n[phases]\nmeasure = {{ time = \"2s\" }}\n[judge]\n{judge}\n"
        );
        crate::read(&text, "t.toml").unwrap()
    }

    const ALL: &str = "metrics = [\"throughput\", \"p99\", \"cpu-per-event\"]";

    fn notes(plan: &Plan) -> Vec<String> {
        plan.judged_metrics().iter().filter_map(JudgedMetric::note).collect()
    }

    #[test]
    fn what_the_phases_cannot_hold_is_said_before_the_run() {
        let few = plan("target = \"null:\"\nrate = 900", ALL);
        let said = notes(&few);
        assert_eq!(
            said[0],
            "p99 is not judged: p99 needs 10000 events per trial, but this plan yields about 1,800"
        );
        assert!(said[1].starts_with("cpu-per-event is not judged: the target runs inside"), "{said:?}");
        assert!(few.notes().iter().any(|note| note.text == said[0]), "{:?}", few.notes());
        // 1 configuration against the reference at 3 sub-plot cells, by throughput only.
        assert_eq!(few.comparisons(), 3);
        let some = plan("target = \"null:\"\nrate = \"{rate}\"", ALL);
        assert!(notes(&some)[0].starts_with("p99 is not judged in every cell: "), "{:?}", notes(&some));
        let closed = plan("target = \"null:\"", ALL);
        assert!(
            notes(&closed)[0].ends_with("at least 5,000/s in measured phases of 2 s"),
            "{:?}",
            notes(&closed)
        );
        let resting = plan("target = \"null:\"\nthink = \"10ms\"", ALL);
        assert!(notes(&resting)[0].ends_with("this plan yields about 200"), "{:?}", notes(&resting));
    }

    #[test]
    fn without_metrics_those_are_judged_that_the_plan_can_hold() {
        let metrics = |load: &str| plan(load, "").judge().metrics.clone();
        assert_eq!(metrics("target = \"null:\""), [Metric::Throughput]);
        assert_eq!(metrics("target = \"exec:true\""), [Metric::Throughput, Metric::CpuPerEvent]);
        assert_eq!(metrics("target = \"null:\"\nrate = 9000"), [Metric::P99]);
        assert_eq!(metrics("target = \"exec:true\"\nrate = \"{rate}\""), [Metric::CpuPerEvent]);
    }

    #[test]
    fn a_slope_over_rates_is_one_comparison() {
        let slope = plan("target = \"exec:true\"\nrate = \"{rate}\"", "metrics = [\"cpu-per-event\"]");
        assert_eq!(slope.comparisons(), 1);
        let points = plan("target = \"exec:true\"", "metrics = [\"cpu-per-event\"]");
        assert_eq!(points.comparisons(), 3);
        // A slope cannot drop a configuration: whether CPU use is a line is known from all blocks.
        let only = "metrics = [\"cpu-per-event\"]";
        let sequential = |plan: &Plan, metrics: &str| {
            let text =
                plan.text().replace("blocks = 6", "blocks = 9\nsequential = true").replace(only, metrics);
            crate::read(&text, "t.toml").map(drop).map_err(|errors| errors.to_string())
        };
        for metrics in [only, ""] {
            let refused = sequential(&slope, metrics).unwrap_err();
            assert!(
                refused.starts_with("t.toml:12:") && refused.contains("a first metric other"),
                "{refused}"
            );
        }
        assert_eq!(sequential(&slope, "metrics = [\"throughput\", \"cpu-per-event\"]"), Ok(()));
        assert_eq!(sequential(&points, only), Ok(()));
    }
}
