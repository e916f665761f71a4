//! Judges the gates of a bake-off: conditions on one metric that pass, fail or are inconclusive.
//!
//! A gate is a separate decision: it shares no alpha with the family of comparisons or with other gates.
//! It asks for every configuration at every condition:
//!
//! - A comparison *passes* if its 1 - alpha interval lies wholly on the good side of the limit. A gate passes
//!   only if all its comparisons do: a comparison that truly violates the limit passes with a probability of
//!   at most alpha / 2, so no correction is needed (an intersection-union test).
//! - A comparison *fails* if its one-sided p, adjusted by Holm within the gate, is at most alpha / 2: one
//!   failure fails the gate, so a false one must be rare among all of them.
//! - Both need the sign-flip test of the distance to the limit at alpha, and thus the number of blocks that
//!   it needs.
//!
//! An amount is judged by the runs' values themselves, which no reference corrects for drift of the machine.
//! Its standard error allows for the memory of the noise, as the interval of the value does. That of a ratio
//! does if the ratio clearly changes over the blocks. Values that drift so much that they are worth hardly
//! more than one decide nothing.
//!
//! # Source
//!
//! R. L. Berger, *Technometrics* 24 (1982), 295-300 (intersection-union tests).

use record::bakeoff::{Bakeoff, Levels, Metric, Scale, blocks_min};
use record::gate::{Gate, GateRule, OnInconclusive};
use record::missing::{Maybe, Missing};

use crate::cell::Cell;
use crate::contest::{Contest, Field, is_over};
use crate::holm::holm;
use crate::paired::Paired;
use crate::permutation;
use crate::sign_flip::sign_flip;

/// Result of a gate or of one of its comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateOutcome {
    /// The condition holds.
    Pass,
    /// The condition does not hold.
    Fail,
    /// The data do not decide.
    Inconclusive,
}

impl GateOutcome {
    /// Outcome as printed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Unit of replication of a gate's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicate {
    /// Blocks of a bake-off.
    Block,
    /// Rounds of a comparison of commands.
    Round,
    /// Archived runs of each side.
    Run,
}

impl Replicate {
    /// One of them.
    pub fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Round => "round",
            Self::Run => "run",
        }
    }
}

/// A gate with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct GateResult {
    /// The gate.
    pub gate: Gate,
    /// Result by the data.
    pub found: GateOutcome,
    /// Result for the exit code: that of the data, or if it is inconclusive, the effect that the gate names.
    pub outcome: GateOutcome,
    /// One comparison for each configuration and condition; empty if the plan has nothing to compare.
    pub comparisons: Vec<GateComparison>,
    /// Unit of the values.
    pub unit: Replicate,
}

/// One comparison of a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateComparison {
    /// Compared factors of the configuration.
    pub configuration: Levels,
    /// The condition: the other factors' levels.
    pub levels: Levels,
    /// Number of blocks, rounds or runs with a value; of two sides, the smaller one.
    pub blocks: usize,
    /// Ratio to the reference, or the metric's value in its unit; missing if an upper bound is missing.
    pub value: Maybe<f64>,
    /// Lower end of its 1 - alpha interval.
    pub low: Maybe<f64>,
    /// Upper end; missing if events without an end leave it open.
    pub high: Maybe<f64>,
    /// The result.
    pub outcome: GateOutcome,
    /// Reason that it is inconclusive.
    pub why: Option<Missing>,
}

/// Limit of a gate, as a ratio to the reference or an amount, and whether more than it is good.
pub fn limit(gate: &Gate) -> (f64, bool) {
    match gate.rule {
        GateRule::NotWorseBy { ratio } if gate.metric.more_is_better() => (1.0 - ratio, true),
        GateRule::NotWorseBy { ratio } if gate.metric.scale() == Scale::Points => (ratio.exp(), false),
        GateRule::NotWorseBy { ratio } => (1.0 + ratio, false),
        GateRule::AtMost(amount) => (amount.value(), false),
        GateRule::AtLeast(amount) => (amount.value(), true),
    }
}

/// Judges every gate of the bake-off.
///
/// - `field`: the cells of a metric, with the configurations and conditions to compare.
pub(crate) fn gates<'a>(
    bakeoff: &Bakeoff,
    reference: &Levels,
    field: &dyn Fn(Metric) -> Field<'a>,
) -> Vec<GateResult> {
    let alpha = bakeoff.judge.alpha;
    let refused = if bakeoff.exploratory || bakeoff.blocks < blocks_min(alpha) {
        let needed = blocks_min(alpha);
        Some(Missing::because(format!("too few blocks for a gate: {} of {needed}", bakeoff.blocks)))
    } else if is_over(bakeoff.header.state) {
        None
    } else {
        Some(Missing::because("the bake-off is not over"))
    };
    let of = |gate: &Gate| {
        let field = field(gate.metric);
        let samples = match gate.rule {
            GateRule::NotWorseBy { .. } => ratios(&field, reference),
            GateRule::AtMost(_) | GateRule::AtLeast(_) => amounts(&field),
        };
        judged((*gate, Replicate::Block), samples, refused.as_ref(), alpha, bakeoff.seed)
    };
    bakeoff.judge.gates.iter().map(of).collect()
}

/// Values of one comparison.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) configuration: Levels,
    pub(crate) levels: Levels,
    /// Lower and upper bound of each block's value or ratio; the upper bound may be infinite.
    pub(crate) ends: Vec<(f64, f64)>,
    /// The values of the reference, if the two are independent samples; `ends` are values then, too.
    pub(crate) against: Option<Vec<(f64, f64)>>,
    /// Reason that nothing can be decided, whatever the values are.
    pub(crate) refused: Option<Missing>,
}

fn ratios(field: &Field<'_>, reference: &Levels) -> Vec<Sample> {
    let sample = |contest: Result<Contest, crate::contest::LeftOut>| match contest {
        Ok(contest) => Sample {
            ends: contest.log_ratios().into_iter().map(|(low, high)| (low.exp(), high.exp())).collect(),
            configuration: contest.a,
            levels: contest.levels,
            against: None,
            refused: contest.uneven,
        },
        Err(out) => Sample {
            configuration: out.a,
            levels: out.levels,
            ends: Vec::new(),
            against: None,
            refused: Some(out.why),
        },
    };
    field.contests(reference).into_iter().map(sample).collect()
}

fn amounts(field: &Field<'_>) -> Vec<Sample> {
    let mut samples = Vec::new();
    for levels in &field.conditions {
        for configuration in &field.compared {
            // A combination that the plan leaves out needs no limit.
            let Some(cell) = field.cell(configuration, levels) else { continue };
            let known = |cell: &Cell| {
                let values = cell.values.iter().filter_map(|v| v.value.as_ref().ok());
                values.filter(|v| v.unjudged.is_none()).map(|v| (v.low, v.high)).collect()
            };
            samples.push(Sample {
                configuration: configuration.clone(),
                levels: levels.clone(),
                ends: known(cell),
                against: None,
                refused: cell.selected(),
            });
        }
    }
    samples
}

/// Judges one gate.
pub(crate) fn judged(
    (gate, unit): (Gate, Replicate),
    mut samples: Vec<Sample>,
    refused: Option<&Missing>,
    alpha: f64,
    seed: u64,
) -> GateResult {
    // `on_inconclusive = "pass"` accepts noise, but not a missing measurement.
    let is_missing = refused.is_some() || samples.is_empty() || samples.iter().any(|s| s.refused.is_some());
    for sample in &mut samples {
        sample.refused = sample.refused.take().or_else(|| adrift(sample, gate.rule, unit));
    }
    let distances: Vec<Distances> = samples.iter().map(|s| Distances::of(s, &gate, (alpha, seed))).collect();
    let p_bad: Vec<f64> = samples
        .iter()
        .zip(&distances)
        .map(|(s, d)| if s.refused.is_some() { 1.0 } else { d.bad.p })
        .collect();
    let p_bad = holm(&p_bad);
    let mut comparisons = Vec::new();
    for ((sample, distances), p_bad) in samples.into_iter().zip(&distances).zip(p_bad) {
        let stop = refused.cloned().or_else(|| sample.refused.clone());
        let (outcome, why) = match stop.or_else(|| too_few(&sample, unit, alpha)) {
            Some(why) => (GateOutcome::Inconclusive, Some(why)),
            None => distances.decide(p_bad, alpha),
        };
        comparisons.push(comparison(sample, outcome, why, (alpha, spread(gate.rule))));
    }
    let has = |outcome| comparisons.iter().any(|c: &GateComparison| c.outcome == outcome);
    let found = if has(GateOutcome::Fail) {
        GateOutcome::Fail
    } else if comparisons.is_empty() || has(GateOutcome::Inconclusive) {
        GateOutcome::Inconclusive
    } else {
        GateOutcome::Pass
    };
    let outcome = match (found, gate.on_inconclusive) {
        (GateOutcome::Inconclusive, OnInconclusive::Fail) => GateOutcome::Fail,
        (GateOutcome::Inconclusive, OnInconclusive::Pass) if !is_missing => GateOutcome::Pass,
        _ => found,
    };
    GateResult { gate, found, outcome, comparisons, unit }
}

fn too_few(sample: &Sample, unit: Replicate, alpha: f64) -> Option<Missing> {
    let blocks = sample.ends.len();
    if let Some(against) = &sample.against {
        let few = permutation::smallest_p(blocks, against.len()) > alpha;
        let needed = permutation::least(alpha);
        let have = format!("{blocks} and {}", against.len());
        return few.then(|| Missing::because(format!("too few runs: {have}; a gate needs {needed} of each")));
    }
    let needed = blocks_min(alpha);
    let few = blocks < needed as usize;
    few.then(|| Missing::because(format!("too few {}s for a gate: {blocks} of {needed}", unit.word())))
}

/// Reason not to judge amounts or ratios that drift or change their level: an interval with so few degrees of
/// freedom may span orders of magnitude.
fn adrift(Sample { ends, against, .. }: &Sample, rule: GateRule, unit: Replicate) -> Option<Missing> {
    /// Fewest degrees of freedom: three values without a memory.
    const DF_MIN: f64 = 2.0;
    let lows: Vec<(f64, f64)> = ends.iter().map(|(low, _)| (low.ln(), low.ln())).collect();
    if against.is_some() || ends.len() < 3 || lows.iter().any(|(low, _)| !low.is_finite()) {
        return None;
    }
    let n = ends.len();
    let why =
        || format!("the values drift or change their level: {n} {}s are worth fewer than 3", unit.word());
    spread(rule)(&lows).filter(|all| all.df() < DF_MIN).map(|_| Missing::because(why()))
}

/// Mean and standard error of values in order of blocks.
type Spread = fn(&[(f64, f64)]) -> Option<Paired>;

fn spread(rule: GateRule) -> Spread {
    match rule {
        GateRule::NotWorseBy { .. } => Paired::of_blocks,
        GateRule::AtMost(_) | GateRule::AtLeast(_) => Paired::in_order,
    }
}

fn comparison(
    sample: Sample,
    outcome: GateOutcome,
    why: Option<Missing>,
    (alpha, spread): (f64, Spread),
) -> GateComparison {
    if let Some(against) = &sample.against {
        let none = || Missing::because("a side has fewer than two values, or a value without an upper bound");
        let paired = independent(&sample.ends, against).ok_or_else(none);
        let end =
            |of: fn(&Paired, f64) -> f64| paired.as_ref().map(|p| of(p, alpha).exp()).map_err(Clone::clone);
        return GateComparison {
            blocks: sample.ends.len().min(against.len()),
            value: end(|p, _| p.mean()),
            low: end(|p, alpha| p.interval(alpha).0),
            high: end(|p, alpha| p.interval(alpha).1),
            configuration: sample.configuration,
            levels: sample.levels,
            outcome,
            why,
        };
    }
    let logs: Vec<(f64, f64)> = sample.ends.iter().map(|(low, high)| (low.ln(), high.ln())).collect();
    let is_closed = logs.iter().all(|(_, high)| high.is_finite());
    let open = || Missing::because("unfinished or unanswered events leave its upper bound unknown");
    let none = || Missing::because("fewer than two values");
    let closed = if is_closed { spread(&logs).ok_or_else(none) } else { Err(open()) };
    let lows: Vec<(f64, f64)> = logs.iter().map(|(low, _)| (*low, *low)).collect();
    let low = match &closed {
        Ok(all) => Ok(all.interval(alpha).0.exp()),
        Err(_) => spread(&lows).map(|p| p.interval(alpha).0.exp()).ok_or_else(none),
    };
    GateComparison {
        configuration: sample.configuration,
        levels: sample.levels,
        blocks: logs.len(),
        value: closed.clone().map(|all| all.mean().exp()),
        low,
        high: closed.map(|all| all.interval(alpha).1.exp()),
        outcome,
        why,
    }
}

/// Evidence for one side of the limit.
#[derive(Debug, Clone, Copy)]
struct Evidence {
    /// One-sided p of the t test.
    p: f64,
    /// Two-sided p of the sign-flip test; 1 if the t test decides nothing.
    p_flip: f64,
}

/// Evidence that a value lies on the good and on the bad side of the limit.
#[derive(Debug)]
struct Distances {
    good: Evidence,
    bad: Evidence,
}

impl Distances {
    fn of(sample: &Sample, gate: &Gate, (alpha, seed): (f64, u64)) -> Self {
        let (limit, more_is_good) = limit(gate);
        if let Some(against) = &sample.against {
            let scaled = |by: f64| -> Vec<(f64, f64)> {
                against.iter().map(|(low, high)| (low * by, high * by)).collect()
            };
            let (above, below) = of_independent(&sample.ends, &scaled(limit), seed);
            return if more_is_good {
                Self { good: above, bad: below }
            } else {
                Self { good: below, bad: above }
            };
        }
        let above: Vec<(f64, f64)> =
            sample.ends.iter().map(|(low, high)| ((low / limit).ln(), (high / limit).ln())).collect();
        let below: Vec<(f64, f64)> = above.iter().map(|(low, high)| (-high, -low)).collect();
        let evidence = |distances: &[(f64, f64)]| evidence(distances, spread(gate.rule), (alpha, seed));
        let (above, below) = (evidence(&above), evidence(&below));
        if more_is_good { Self { good: above, bad: below } } else { Self { good: below, bad: above } }
    }

    fn decide(&self, p_bad: f64, alpha: f64) -> (GateOutcome, Option<Missing>) {
        let inconclusive = |why: &str| (GateOutcome::Inconclusive, Some(Missing::because(why)));
        let tail = alpha / 2.0;
        if p_bad <= tail {
            return if self.bad.p_flip <= alpha {
                (GateOutcome::Fail, None)
            } else {
                inconclusive("beyond the limit by the t test, but the sign-flip test does not confirm it")
            };
        }
        if self.good.p <= tail {
            return if self.good.p_flip <= alpha {
                (GateOutcome::Pass, None)
            } else {
                inconclusive("within the limit by the t test, but the sign-flip test does not confirm it")
            };
        }
        inconclusive(if self.bad.p <= tail {
            "beyond the limit on its own, but not after Holm's correction for all comparisons of the gate"
        } else {
            "the interval includes the limit"
        })
    }
}

/// Distance in logs below which a value counts as the limit itself: more than rounding, less than any
/// measurement.
const SLACK: f64 = 1e-9;

/// Evidence that the mean of log distances is over 0: that of their lower ends if an upper end is open.
fn evidence(distances: &[(f64, f64)], spread: Spread, (alpha, seed): (f64, u64)) -> Evidence {
    let none = Evidence { p: 1.0, p_flip: 1.0 };
    let lows: Vec<f64> = distances.iter().map(|(low, _)| *low).collect();
    if lows.iter().any(|low| !low.is_finite()) {
        return none;
    }
    let is_closed = distances.iter().all(|(_, high)| high.is_finite());
    let exact: Vec<(f64, f64)> = lows.iter().map(|low| (*low, *low)).collect();
    let p = spread(if is_closed { distances } else { &exact }).map_or(1.0, |paired| paired.p_over(SLACK));
    // The sign-flip test is slow, and only confirms.
    if p <= alpha / 2.0 { Evidence { p, p_flip: sign_flip(&lows, seed).p } } else { Evidence { p, ..none } }
}

/// Difference of the logarithms of two independent samples; `None` if a value has no end.
fn independent(a: &[(f64, f64)], b: &[(f64, f64)]) -> Option<Paired> {
    let logs = |of: &[(f64, f64)]| -> Vec<(f64, f64)> { of.iter().map(|(l, h)| (l.ln(), h.ln())).collect() };
    let (a, b) = (logs(a), logs(b));
    let is_closed = |of: &[(f64, f64)]| of.iter().all(|(low, high)| low.is_finite() && high.is_finite());
    if is_closed(&a) && is_closed(&b) { Paired::independent(&a, &b) } else { None }
}

/// Evidence that the values of `a` lie above those of `b`, and that they lie below.
fn of_independent(a: &[(f64, f64)], b: &[(f64, f64)], seed: u64) -> (Evidence, Evidence) {
    let none = Evidence { p: 1.0, p_flip: 1.0 };
    let (Some(above), Some(below)) = (independent(a, b), independent(b, a)) else { return (none, none) };
    let middles =
        |of: &[(f64, f64)]| -> Vec<f64> { of.iter().map(|(l, h)| l.ln().midpoint(h.ln())).collect() };
    let p_flip = permutation::test(&middles(a), &middles(b), seed).p;
    (Evidence { p: above.p_over(SLACK), p_flip }, Evidence { p: below.p_over(SLACK), p_flip })
}

#[cfg(test)]
mod tests;
