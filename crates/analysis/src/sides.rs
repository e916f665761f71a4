//! Archived runs against each other: each side is a sample of runs, measured at its own times.
//!
//! The samples are independent: no block holds what both sides share, so the noise between runs is all in the
//! error, by Welch's test on logarithms. A verdict needs enough runs for the permutation test (4 of each side
//! at 5 %). Two warnings go with the numbers. Runs of one side that were all measured before those of the
//! other differ by everything that changed in between. The blocks of one bake-off share the time at which it
//! ran: of a side with several bake-offs, each is one value.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use record::bakeoff::{Bakeoff, Levels, Metric};
use record::command::CommandEnd;
use record::commands::{Comparison, Phase};
use record::gate::{Gate, GateRule};
use record::missing::{Maybe, Missing};
use record::run::{Run, RunState};

use crate::cell::{REDONE_MORE_MAX, seen};
use crate::contest::fail_unevenly;
use crate::gate::{self, GateResult, Replicate, Sample};
use crate::judge::{Estimate, Judged, Member, Rules, Verdict, blocks_needed, judge};
use crate::metric::{Value, done, done_in_all, value};
use crate::permutation;

/// Name of the condition of a run that has only one.
const WHOLE: &str = "";

/// One side: runs with one name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// Name for people.
    pub name: String,
    /// Values of its runs.
    pub observations: Vec<Observation>,
    /// Runs or trials that cannot be used, with the reason of each.
    pub lost: Vec<String>,
    /// Bake-offs among its runs.
    pub bakeoffs: usize,
    /// Trials of its bake-offs.
    pub trials: usize,
    /// Trials that failed at least once before one was sealed. An interruption does not count: it hits whole
    /// bake-offs.
    pub repeated: usize,
}

/// A value of one run, or of one trial of a bake-off.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The condition under which it holds: a cell of a bake-off, or a command; empty if there is only one.
    pub condition: String,
    /// The metric.
    pub metric: Metric,
    /// The value.
    pub value: Maybe<Value>,
    /// Start of the run.
    pub unix_ns: u64,
    /// The bake-off of the trial, counted within the side; `None` of a run by itself.
    pub bakeoff: Option<usize>,
}

/// One side against the reference, under one condition, by one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct SidePair {
    /// Index of the side.
    pub a: usize,
    /// Index of the reference.
    pub b: usize,
    /// The condition; empty if there is only one.
    pub condition: String,
    /// The metric.
    pub metric: Metric,
    /// Values of A and of B.
    pub n: (usize, usize),
    /// Geometric means of A and of B.
    pub means: (Maybe<f64>, Maybe<f64>),
    /// A divided by B.
    pub estimate: Maybe<Estimate>,
    /// The verdict.
    pub verdict: Verdict,
    /// Runs of each side that would probably decide it; missing if it is decided, or refused.
    pub runs_needed: Maybe<u32>,
}

/// Result of comparing sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Sided {
    /// All pairs: one family.
    pub pairs: Vec<SidePair>,
    /// The gates, judged.
    pub gates: Vec<GateResult>,
    /// Limits of the comparison, a sentence each.
    pub caveats: Vec<String>,
    /// Rules of judgement.
    pub rules: Rules,
}

impl Side {
    /// Adds a run, or the reason that it cannot be used.
    pub fn add_run(&mut self, run: &Run) {
        if run.header.state != RunState::Sealed {
            let reason = run.header.reason.as_deref().unwrap_or("no reason is stored");
            self.lost.push(format!("{} is {}: {reason}", run.header.id, run.header.state.word()));
            return;
        }
        if let Some(recorded) = run.recorded.as_ref().filter(|r| r.end != CommandEnd::NoCommand)
            && let Err(why) = done(recorded.end)
        {
            self.lost.push(format!("in {}, {}", run.header.id, why.reason));
            return;
        }
        self.observations.extend(of_run(run));
    }

    /// Adds the sealed trials of a bake-off. Trials that fell out count as lost. So do the trials of a cell
    /// if they failed in several blocks before one was sealed: the values are a selection.
    pub fn add_bakeoff(&mut self, bakeoff: &Bakeoff) {
        let number = Some(self.bakeoffs);
        self.bakeoffs += 1;
        for (trial, run) in bakeoff.sealed() {
            let condition = condition(&trial.levels);
            let of_trial = of_run(run).into_iter();
            self.observations.extend(of_trial.map(|o| Observation {
                condition: condition.clone(),
                bakeoff: number,
                ..o
            }));
        }
        let lost = bakeoff.trials.len() - bakeoff.sealed().count();
        if lost > 0 {
            self.lost.push(format!(
                "{lost} of {} trials of {} are not sealed",
                bakeoff.trials.len(),
                bakeoff.header.id
            ));
        }
        self.trials += bakeoff.trials.len();
        for (levels, seen) in seen(bakeoff) {
            let redone = seen.redone.len();
            self.repeated += redone;
            if redone > REDONE_MORE_MAX {
                self.lost.push(format!(
                    "trials at {} failed and were repeated in {redone} blocks of {}",
                    condition(levels),
                    bakeoff.header.id
                ));
            }
        }
    }

    /// Values in order of time. Trials of one bake-off are no independent values of a side with several: they
    /// share what changed between the bake-offs.
    fn of(&self, condition: &str, metric: Metric) -> Vec<Observation> {
        let all = self.observations.iter().filter(|o| o.condition == condition && o.metric == metric);
        let mut groups: BTreeMap<(Option<usize>, usize), Vec<&Observation>> = BTreeMap::new();
        for (i, one) in all.enumerate() {
            let bakeoff = one.bakeoff.filter(|_| self.bakeoffs > 1);
            groups.entry((bakeoff, if bakeoff.is_some() { 0 } else { i })).or_default().push(one);
        }
        let mut values: Vec<Observation> = groups.into_values().map(|group| in_one(&group)).collect();
        values.sort_by_key(|one| one.unix_ns);
        values
    }
}

/// One value for the trials of a bake-off: their geometric mean. It has none if one of them has none.
fn in_one(trials: &[&Observation]) -> Observation {
    let values: Maybe<Vec<&Value>> =
        trials.iter().map(|one| one.value.as_ref().map_err(Clone::clone)).collect();
    let mean = |values: &[&Value], end: fn(&Value) -> f64| {
        (values.iter().map(|value| end(value).ln()).sum::<f64>() / values.len() as f64).exp()
    };
    let value = values.map(|values| Value {
        low: mean(&values, |value| value.low),
        high: mean(&values, |value| value.high),
        unjudged: values.iter().find_map(|value| value.unjudged.clone()),
    });
    Observation { value, ..trials[0].clone() }
}

/// Condition of the trials of a cell: `arm=1, threads=4`.
pub fn condition(levels: &Levels) -> String {
    levels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

/// The values of a run: of a load its metrics, of a comparison the times of its commands, of a recorded
/// command its time.
fn of_run(run: &Run) -> Vec<Observation> {
    let unix_ns = run.header.anchor.unix_ns;
    let one =
        |metric, value| Observation { condition: WHOLE.to_owned(), metric, value, unix_ns, bakeoff: None };
    if let Some(Ok(comparison)) = Comparison::read(run) {
        return of_comparison(&comparison, unix_ns);
    }
    if let Some(load) = &run.load {
        // In an open loop the rate is offered, not achieved.
        let is_open = load.settings.pace.as_open().is_some();
        let metrics = Metric::OF_LOADS.into_iter().filter(|m| !is_open || *m != Metric::Throughput);
        return metrics.map(|metric| one(metric, value(run, metric))).collect();
    }
    Metric::OF_COMMANDS.into_iter().map(|metric| one(metric, value(run, metric))).collect()
}

/// The time and the CPU time of each command. Each is a separate condition: two values of one run share its
/// noise, so they are no replicates.
fn of_comparison(comparison: &Comparison, unix_ns: u64) -> Vec<Observation> {
    let of = |(i, condition): (usize, String)| {
        let mean = |figure: fn(&record::commands::Turn) -> f64| {
            done_in_all(comparison, i)?;
            let logs: Vec<f64> =
                comparison.turns_of(i, Phase::Measured).map(|turn| figure(turn).ln()).collect();
            let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            if mean.is_finite() && mean > 0.0 {
                return Ok(Value::exact(mean));
            }
            Err(Missing::because("no round has a value over 0"))
        };
        let one = |metric, value| Observation {
            condition: condition.clone(),
            metric,
            value,
            unix_ns,
            bakeoff: None,
        };
        [one(Metric::Time, mean(|t| t.time_s)), one(Metric::Cpu, mean(comparison.cpu_s()))]
    };
    comparison.names().into_iter().enumerate().flat_map(of).collect()
}

/// Compares every side with the reference, for each condition and metric that both have.
///
/// - `reference`: index of the side that the others are compared with.
pub fn sides(sides: &[Side], reference: usize, rules: Rules, gates: &[Gate]) -> Sided {
    let mut contests: Vec<(usize, String, Metric)> = Vec::new();
    for a in (0..sides.len()).filter(|i| *i != reference) {
        for (condition, metric) in places(&sides[a]).intersection(&places(&sides[reference])) {
            contests.push((a, condition.clone(), *metric));
        }
    }
    let judgeable: Vec<_> = contests
        .into_iter()
        .map(|(a, condition, metric)| Contest::of(sides, (a, reference), condition, metric))
        .collect();
    // A metric that no run of one side has makes no other comparison harder.
    let (family, left_out): (Vec<_>, Vec<_>) =
        judgeable.into_iter().partition(|contest| contest.unable.is_none());
    let members: Vec<Member> = family.iter().map(Contest::member).collect();
    let judged = judge(&members, rules);
    let size = family.len();
    let pairs =
        family.iter().zip(judged).map(|(contest, judged)| contest.pair(judged, size, rules)).collect();
    let gate = |gate: &Gate| self::gate(sides, reference, gate, rules);
    Sided {
        pairs,
        gates: gates.iter().map(gate).collect(),
        caveats: caveats(sides, reference, &left_out),
        rules,
    }
}

/// Conditions and metrics of a side. A metric of an instrument belongs to them only if a run observed it.
fn places(side: &Side) -> BTreeSet<(String, Metric)> {
    let always = |metric| Metric::DEFAULT.contains(&metric) || Metric::OF_COMMANDS.contains(&metric);
    let found = side.observations.iter().filter(|o| o.value.is_ok() || always(o.metric));
    found.map(|o| (o.condition.clone(), o.metric)).collect()
}

/// Lower and upper bound of each value.
type Ends = Vec<(f64, f64)>;

/// A pair before judgement.
struct Contest {
    a: usize,
    b: usize,
    condition: String,
    metric: Metric,
    /// Bounds of the values of A and of B.
    values: (Ends, Ends),
    /// Reason that the metric cannot be judged at all.
    unable: Option<Missing>,
    /// Reason that no verdict is given, whatever the values are.
    refused: Option<Missing>,
}

impl Contest {
    fn of(sides: &[Side], (a, b): (usize, usize), condition: String, metric: Metric) -> Self {
        let (one, other) = (known(&sides[a].of(&condition, metric)), known(&sides[b].of(&condition, metric)));
        let unable = match (&one, &other) {
            (Known { values, why: Some(why), .. }, _) | (_, Known { values, why: Some(why), .. })
                if values.is_empty() =>
            {
                Some(why.clone())
            }
            _ => None,
        };
        let refused = uneven(&sides[a])
            .or_else(|| uneven(&sides[b]))
            .or_else(|| unevenly_repeated(&sides[a], &sides[b]))
            .or(one.why)
            .or(other.why);
        Self { a, b, condition, metric, values: (one.values, other.values), unable, refused }
    }

    fn logs(values: &[(f64, f64)]) -> Vec<(f64, f64)> {
        values.iter().map(|(low, high)| (low.ln(), high.ln())).collect()
    }

    fn member(&self) -> Member {
        Member {
            metric: self.metric,
            log_ratios: Self::logs(&self.values.0),
            against: Some(Self::logs(&self.values.1)),
            refused: self.refused.clone(),
        }
    }

    fn pair(&self, judged: Judged, family: usize, rules: Rules) -> SidePair {
        let (a, b) = (self.values.0.len(), self.values.1.len());
        let least = permutation::least(rules.alpha);
        let runs_needed = match (&self.refused, &judged.estimate) {
            (Some(why), _) => Err(why.clone()),
            (None, Err(_)) => Ok(least),
            (None, Ok(_)) if permutation::smallest_p(a, b) > rules.alpha => Ok(least),
            (None, Ok(_)) => blocks_needed(&judged, family, rules),
        };
        SidePair {
            a: self.a,
            b: self.b,
            condition: self.condition.clone(),
            metric: self.metric,
            n: (a, b),
            means: (mean(&self.values.0), mean(&self.values.1)),
            estimate: judged.estimate,
            verdict: judged.verdict,
            runs_needed,
        }
    }
}

/// Values that may be judged, and the first reason that one may not.
struct Known {
    values: Vec<(f64, f64)>,
    why: Option<Missing>,
}

fn known(observations: &[Observation]) -> Known {
    let (mut values, mut why) = (Vec::new(), None);
    for observation in observations {
        match &observation.value {
            Ok(Value { unjudged: Some(reason), .. }) | Err(reason) => {
                why.get_or_insert_with(|| reason.clone());
            }
            Ok(value) if !value.high.is_finite() => {
                why.get_or_insert_with(|| {
                    Missing::because("unfinished events leave a value without an upper bound")
                });
            }
            Ok(value) => values.push((value.low, value.high)),
        }
    }
    Known { values, why }
}

/// Reason to refuse a verdict on a side that lost runs: those that are left are a selection.
fn uneven(side: &Side) -> Option<Missing> {
    let first = side.lost.first()?;
    let more = if side.lost.len() > 1 { format!(" and {} more", side.lost.len() - 1) } else { String::new() };
    Some(Missing::because(format!(
        "some runs of {} cannot be used, so the remaining ones may be biased ({first}{more})",
        side.name
    )))
}

/// Reason to refuse a verdict on two sides of which one failed more often, over all conditions: a rare
/// failure may be seldom in each.
fn unevenly_repeated(a: &Side, b: &Side) -> Option<Missing> {
    fail_unevenly((a.repeated, b.repeated), (a.trials, b.trials)).then(|| {
        let told = |side: &Side| format!("{} of {} of {}", side.repeated, side.trials, side.name);
        Missing::because(format!("unevenly repeated trials: {} failed first, {}", told(a), told(b)))
    })
}

fn mean(values: &[(f64, f64)]) -> Maybe<f64> {
    if values.is_empty() {
        return Err(Missing::because("no run has a value"));
    }
    let logs: f64 = values.iter().map(|(low, high)| low.ln().midpoint(high.ln())).sum();
    Ok((logs / values.len() as f64).exp())
}

/// Judges a gate for every side at every condition that a side has the metric at. A side that lacks a
/// condition decides nothing there: a missing measurement cannot pass.
fn gate(sides: &[Side], reference: usize, gate: &Gate, rules: Rules) -> GateResult {
    let is_relative = matches!(gate.rule, GateRule::NotWorseBy { .. });
    let of_metric = sides.iter().flat_map(places).filter(|(_, metric)| *metric == gate.metric);
    let conditions: BTreeSet<String> = of_metric.map(|(condition, _)| condition).collect();
    let judged = sides.iter().enumerate().filter(|(i, _)| !is_relative || *i != reference);
    let mut samples = Vec::new();
    for (_, side) in judged {
        for condition in &conditions {
            let against = is_relative.then_some(&sides[reference]);
            samples.push(sample(side, against, condition, gate.metric));
        }
    }
    gate::judged((*gate, Replicate::Run), samples, None, rules.alpha, rules.seed)
}

fn sample(side: &Side, against: Option<&Side>, condition: &str, metric: Metric) -> Sample {
    let this = known(&side.of(condition, metric));
    let that = against.map(|reference| known(&reference.of(condition, metric)));
    let both: Vec<(&Side, &Known)> =
        std::iter::once((side, &this)).chain(against.zip(that.as_ref())).collect();
    let absent = |(of, known): &(&Side, &Known)| {
        let is_absent = known.values.is_empty() && known.why.is_none();
        is_absent.then(|| Missing::because(format!("no run of {} has {} here", of.name, metric.word())))
    };
    let refused = both.iter().find_map(|(of, _)| uneven(of));
    let refused = refused.or_else(|| unevenly_repeated(side, against?));
    let refused = refused.or_else(|| both.iter().find_map(|(_, known)| known.why.clone()));
    let refused = refused.or_else(|| both.iter().find_map(absent));
    let levels = if condition.is_empty() {
        Levels::new()
    } else {
        Levels::from([("condition".to_owned(), condition.to_owned())])
    };
    Sample {
        configuration: Levels::from([("side".to_owned(), side.name.clone())]),
        levels,
        ends: this.values,
        against: that.map(|known| known.values),
        refused,
    }
}

/// Share of pairs in the other order of time below which the sides were measured one after the other.
const MOSTLY: f64 = 0.15;

/// Share of the pairs of a run of each side in which the run of `a` was earlier; pairs of one time count
/// half. Half without pairs.
fn share_before(a: &[u64], b: &[u64]) -> f64 {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| a.cmp(b)));
    let earlier: f64 = pairs
        .map(|order| match order {
            Ordering::Less => 1.0,
            Ordering::Equal => 0.5,
            Ordering::Greater => 0.0,
        })
        .sum();
    if a.is_empty() || b.is_empty() { 0.5 } else { earlier / (a.len() * b.len()) as f64 }
}

/// Sentences about conditions that only one of two sides has.
fn of_one_side(sides: &[Side], reference: usize) -> Vec<String> {
    let conditions = |side: &Side| -> BTreeSet<String> {
        side.observations.iter().map(|o| o.condition.clone()).filter(|c| !c.is_empty()).collect()
    };
    let of_reference = conditions(&sides[reference]);
    let mut told = Vec::new();
    for side in sides.iter().enumerate().filter(|(i, _)| *i != reference).map(|(_, side)| side) {
        let of_side = conditions(side);
        for (one, other, owner) in
            [(&of_side, &of_reference, side), (&of_reference, &of_side, &sides[reference])]
        {
            let only: Vec<&str> = one.difference(other).map(String::as_str).collect();
            if let Some(first) = only.first() {
                let more =
                    if only.len() > 1 { format!(" and {} more", only.len() - 1) } else { String::new() };
                told.push(format!("Only {} has {first}{more}: not compared.", owner.name));
            }
        }
    }
    told
}

fn caveats(sides: &[Side], reference: usize, left_out: &[Contest]) -> Vec<String> {
    let mut told = Vec::new();
    let times = |side: &Side| -> Vec<u64> { side.observations.iter().map(|o| o.unix_ns).collect() };
    let of_reference = times(&sides[reference]);
    let name = &sides[reference].name;
    for side in sides.iter().enumerate().filter(|(i, _)| *i != reference).map(|(_, side)| side) {
        let share = share_before(&times(side), &of_reference);
        let which = match share.min(1.0 - share) {
            0.0 => "All",
            least if least < MOSTLY => "Most",
            _ => continue,
        };
        told.push(format!(
            "{which} runs of {} and of {name} were measured one side after the other: a change of the \
             machine in between would look like a difference.",
            side.name
        ));
    }
    told.extend(of_one_side(sides, reference));
    for side in sides {
        if let Some(first) = side.lost.first() {
            let more = side.lost.len() - 1;
            let more = if more == 0 { String::new() } else { format!(", and {more} more") };
            told.push(format!("{} claims nothing, because {first}{more}.", side.name));
        }
    }
    for side in sides.iter().filter(|side| side.bakeoffs == 1) {
        told.push(format!(
            "{} is a single bake-off: its interval does not include noise between bake-offs run at different \
             times.",
            side.name
        ));
    }
    for side in sides.iter().filter(|side| side.bakeoffs > 1) {
        told.push(format!(
            "{} has {} bake-offs: each is one value, the mean of its trials, which share its noise.",
            side.name, side.bakeoffs
        ));
    }
    let mut reasons: BTreeMap<(Metric, String), usize> = BTreeMap::new();
    for contest in left_out {
        let why = contest.unable.as_ref().map_or_else(String::new, |why| why.reason.clone());
        *reasons.entry((contest.metric, why)).or_default() += 1;
    }
    told.extend(reasons.into_iter().map(|((metric, why), n)| {
        let times = if n == 1 { String::new() } else { format!(" in {n} comparisons") };
        format!("{} is not judged{times}: {why}.", metric.word())
    }));
    told
}

#[cfg(test)]
mod tests;
