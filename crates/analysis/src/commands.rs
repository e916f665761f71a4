//! Verdicts of a comparison of commands, and the number of rounds that it needs.
//!
//! A round is a block: every command once, in random order. The number of measured rounds is fixed before the
//! first of them, from a pilot that the verdict leaves out ([`rounds_to_measure`]); so the verdict is the
//! one of `judge`, at its error rate. Decision 0830 gives the reason.

mod design;
#[cfg(test)]
mod simulated;

use record::bakeoff::{Levels, Metric, blocks_min};
use record::command::CommandEnd;
use record::commands::{Comparison, Peak, Phase, Round, Turn};
use record::gate::{Gate, GateRule};
use record::missing::{Maybe, Missing};
use record::run::{RunHeader, RunState};

pub use self::design::{ROUNDS_MIN, rounds_to_measure};
use crate::gate::{self, GateResult, Replicate, Sample};
use crate::judge::{self, Estimate, Judged, Member, Rules, Verdict, blocks_needed};
use crate::metric::{done, done_in_all};

/// Outcome of a comparison of commands.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// One summary for each command.
    pub summaries: Vec<Summary>,
    /// Every command but the reference against the reference, by time: one family.
    pub pairs: Vec<CommandPair>,
    /// The gates, judged.
    pub gates: Vec<GateResult>,
    /// Measured rounds in which every command ran.
    pub rounds: u32,
    /// Reason that no claim is made, whatever the values are.
    pub withheld: Option<Missing>,
}

/// Figures of one command over the measured rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Time: geometric mean with its interval.
    pub time: Maybe<Span>,
    /// Seconds of all rounds: mean, standard deviation, median and extremes; missing without rounds.
    pub spread: Maybe<Spread>,
    /// Mean CPU seconds by the kernel's account of the process: user and system.
    pub cpu: Maybe<(f64, f64)>,
    /// Mean CPU seconds by events.
    pub cpu_by_events: Maybe<f64>,
    /// Mean instructions in user mode.
    pub instructions: Maybe<f64>,
    /// Largest resident memory in any round.
    pub memory: Maybe<Peak>,
    /// Mean page faults, with and without I/O.
    pub faults: Maybe<f64>,
    /// Rounds after which processes were left behind.
    pub left: u32,
    /// Executions that ended with a status other than 0.
    pub failed: u32,
}

/// A mean and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Geometric mean.
    pub mean: f64,
    /// Lower end of the 1 - alpha interval; missing with a single round.
    pub interval: Option<(f64, f64)>,
}

/// Arithmetic description of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation; `None` of a single value.
    pub sd: Option<f64>,
    /// Median.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// One command against the reference, by time.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandPair {
    /// Index of the command.
    pub a: usize,
    /// Index of the reference.
    pub b: usize,
    /// Time of A divided by that of B.
    pub estimate: Maybe<Estimate>,
    /// The verdict: better is faster.
    pub verdict: Verdict,
    /// Number of rounds that would probably decide it; missing if it is decided, or if no claim is made.
    pub rounds_needed: Maybe<u32>,
}

/// Judges an archived comparison; one that is not whole makes no claim.
pub fn of_run(header: &RunHeader, comparison: &Comparison) -> Results {
    let withheld = match header.state {
        RunState::Sealed => None,
        _ => Some(Missing::because(header.reason.as_deref().unwrap_or("the comparison is incomplete"))),
    };
    commands(comparison, withheld)
}

/// Judges a comparison.
///
/// - `withheld`: reason to make no claim, such as an interruption.
pub fn commands(comparison: &Comparison, withheld: Option<Missing>) -> Results {
    let rules = rules(comparison);
    let rounds = comparison.whole_rounds(Phase::Measured).count();
    let others: Vec<usize> = (0..comparison.commands.len()).filter(|i| *i != comparison.reference).collect();
    let member = |a: &usize| Member {
        refused: uneven(comparison, *a),
        ..Member::exact(Metric::Time, &log_ratios(comparison, Phase::Measured, *a, |t| t.time_s))
    };
    let members: Vec<Member> = others.iter().map(member).collect();
    let judged = judge::judge(&members, rules);
    let pair = |(a, judged): (&usize, Judged)| {
        let rounds_needed = blocks_needed(&judged, others.len(), rules);
        let (verdict, rounds_needed) = match &withheld {
            None => (judged.verdict, rounds_needed),
            Some(why) => (Verdict::Inconclusive, Err(why.clone())),
        };
        CommandPair { a: *a, b: comparison.reference, estimate: judged.estimate, verdict, rounds_needed }
    };
    Results {
        summaries: (0..comparison.commands.len()).map(|i| summary(comparison, i)).collect(),
        pairs: others.iter().zip(judged).map(pair).collect(),
        gates: comparison.rules.gates.iter().map(|g| gate(comparison, g, withheld.as_ref())).collect(),
        rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
        withheld,
    }
}

/// The rules of judgement of a comparison.
fn rules(comparison: &Comparison) -> Rules {
    let record::commands::Rules { rope_ratio, alpha, seed, .. } = comparison.rules;
    Rules { rope_ratio, alpha, seed }
}

/// Reason to refuse a verdict: in a round, one of command `a` and the reference failed and the other did not.
/// What fails may stop early. Commands that fail together did the same.
fn uneven(comparison: &Comparison, a: usize) -> Option<Missing> {
    let failed = |round: &Round, command: usize| round.turn_of(command).is_some_and(|t| done(t.end).is_err());
    let rounds: Vec<&Round> = comparison.whole_rounds(Phase::Measured).collect();
    let b = comparison.reference;
    if rounds.iter().all(|round| failed(round, a) == failed(round, b)) {
        return None;
    }
    let all = rounds.len();
    let count = |command: usize| rounds.iter().filter(|round| failed(round, command)).count();
    let (of_a, of_b) = (count(a), count(b));
    let (a, b) = (Comparison::letter(a), Comparison::letter(b));
    Some(Missing::because(format!(
        "{a} failed in {of_a} of {all} rounds and {b} in {of_b}, and what fails may stop early"
    )))
}

/// Logarithm of a figure of command `a`, divided by that of the reference, by round. Rounds in which a figure
/// is 0 have none.
fn log_ratios(comparison: &Comparison, phase: Phase, a: usize, figure: fn(&Turn) -> f64) -> Vec<f64> {
    let of_round = |round: &Round| {
        let (a, b) = (round.turn_of(a)?, round.turn_of(comparison.reference)?);
        Some((figure(a) / figure(b)).ln()).filter(|ln| ln.is_finite())
    };
    comparison.whole_rounds(phase).filter_map(of_round).collect()
}

fn summary(comparison: &Comparison, command: usize) -> Summary {
    let turns: Vec<&Turn> = comparison.turns_of(command, Phase::Measured).collect();
    let none = || Missing::because("no round was measured");
    let known = |values: Vec<f64>| if values.is_empty() { Err(none()) } else { Ok(values) };
    let each = |figure: &dyn Fn(&Turn) -> f64| known(turns.iter().map(|turn| figure(turn)).collect());
    let mean_if_all = |figure: fn(&Turn) -> Maybe<f64>| {
        let values = turns.iter().map(|turn| figure(turn)).collect::<Maybe<Vec<f64>>>();
        values.and_then(known).map(|values| mean(&values))
    };
    let times = each(&|turn| turn.time_s);
    Summary {
        time: times.clone().map(|times| span(&times, comparison.rules.alpha)),
        spread: times.map(|times| spread(&times)),
        cpu: each(&|t| t.user_s).and_then(|user| Ok((mean(&user), mean(&each(&|t| t.system_s)?)))),
        cpu_by_events: if comparison.has_cpu_by_events() {
            mean_if_all(|turn| turn.events_s.clone())
        } else {
            Err(Missing::because("not counted in all measured rounds of all commands"))
        },
        instructions: mean_if_all(|turn| turn.instructions.clone()),
        memory: turns.iter().map(|turn| turn.memory).reduce(larger).ok_or_else(none),
        faults: each(&|t| (t.minor_faults + t.major_faults) as f64).map(|values| mean(&values)),
        left: count(turns.iter().filter(|turn| turn.left > 0).count()),
        failed: count(turns.iter().filter(|turn| turn.end != CommandEnd::Code(0)).count()),
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Geometric mean of values in order of time, with an interval that allows for drift of the machine.
pub(crate) fn span(values: &[f64], alpha: f64) -> Span {
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let interval = crate::mean::interval(&logs, alpha).map(|(low, high)| (low.exp(), high.exp()));
    Span { mean: mean(&logs).exp(), interval }
}

fn spread(values: &[f64]) -> Spread {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (n, middle) = (sorted.len(), sorted.len() / 2);
    let mean = mean(&sorted);
    let squares: f64 = sorted.iter().map(|v| (v - mean).powi(2)).sum();
    Spread {
        mean,
        sd: (n > 1).then(|| (squares / (n as f64 - 1.0)).sqrt()),
        median: if n.is_multiple_of(2) {
            sorted[middle - 1].midpoint(sorted[middle])
        } else {
            sorted[middle]
        },
        min: sorted[0],
        max: sorted[n - 1],
    }
}

/// The larger of two peaks. A known value over every bound is known; otherwise only a bound is left.
fn larger(a: Peak, b: Peak) -> Peak {
    match (a, b) {
        (Peak::Bytes(a), Peak::Bytes(b)) => Peak::Bytes(a.max(b)),
        (Peak::AtMost(a), Peak::AtMost(b)) => Peak::AtMost(a.max(b)),
        (Peak::Bytes(known), Peak::AtMost(bound)) | (Peak::AtMost(bound), Peak::Bytes(known)) => {
            if known >= bound { Peak::Bytes(known) } else { Peak::AtMost(bound) }
        }
    }
}

fn gate(comparison: &Comparison, gate: &Gate, withheld: Option<&Missing>) -> GateResult {
    let figure = if gate.metric == Metric::Cpu { comparison.cpu_s() } else { |turn: &Turn| turn.time_s };
    let is_relative = matches!(gate.rule, GateRule::NotWorseBy { .. });
    let whole = comparison.whole_rounds(Phase::Measured).count();
    // What fails may be fast because it stops early.
    let failed = |command: usize| {
        let why = done_in_all(comparison, command).err()?;
        Some(Missing::because(format!("{}: {}", Comparison::letter(command), why.reason)))
    };
    let sample = |command: usize| {
        let values: Vec<f64> = if is_relative {
            log_ratios(comparison, Phase::Measured, command, figure).into_iter().map(f64::exp).collect()
        } else {
            let turns = comparison.turns_of(command, Phase::Measured);
            turns.map(figure).filter(|value| *value > 0.0).collect()
        };
        let lost = whole - values.len();
        let why = || Missing::because(format!("in {lost} of {whole} rounds the kernel counted no CPU time"));
        let sides = [Some(command), is_relative.then_some(comparison.reference)];
        Sample {
            configuration: Levels::from([("command".to_owned(), Comparison::letter(command))]),
            levels: Levels::new(),
            ends: values.into_iter().map(|value| (value, value)).collect(),
            against: None,
            refused: sides.into_iter().flatten().find_map(failed).or_else(|| (lost > 0).then(why)),
        }
    };
    let compared = (0..comparison.commands.len()).filter(|i| !is_relative || *i != comparison.reference);
    let Rules { alpha, seed, .. } = rules(comparison);
    gate::judged((*gate, Replicate::Round), compared.map(sample).collect(), withheld, alpha, seed)
}

/// Fewest rounds for a verdict at `alpha`.
pub fn rounds_for_a_verdict(alpha: f64) -> u32 {
    blocks_min(alpha)
}

#[cfg(test)]
pub(crate) mod tests;
