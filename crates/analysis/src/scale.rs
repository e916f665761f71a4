//! Scaling over copies: the work of the machine at every number of copies, and what one copy alone suggests.

use std::collections::BTreeMap;

use record::bakeoff::{Bakeoff, Trial, TrialState};
use record::missing::{Maybe, Missing};
use record::run::Run;
use record::series::Sample;

use crate::machine::machine_between;
use crate::robust::mean_and_error;
use crate::student::t_above;
use crate::usl::{SERIES_MIN, Scaling, Series, scaling};

/// Result of a scale run.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Every planned number of copies, rising.
    pub levels: Vec<Level>,
    /// Fitted scaling laws.
    pub scaling: Scaling,
    /// CPUs that the copies may use.
    pub cpus: Maybe<u32>,
    /// Relative error of the weights of copies that do different work; 0 if they do the same. Missing if it
    /// is too large to compare many copies with one.
    pub weighed: Maybe<f64>,
    /// Comparison of what one copy suggests with what all copies do, in a sentence or two.
    pub seduction: Maybe<String>,
    /// Caveats about the numbers, one sentence each.
    pub caveats: Vec<String>,
}

/// One number of copies.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Number of copies.
    pub copies: u32,
    /// Runs of the command per second by all copies together, one value for each valid round.
    pub rounds: Vec<(u32, f64)>,
    /// Mean over the rounds with its 95 % interval, on the log scale; the interval is missing under six
    /// rounds.
    pub work_per_s: Maybe<(f64, Maybe<(f64, f64)>)>,
    /// Mean of one copy.
    pub per_copy_per_s: Maybe<f64>,
    /// Work divided by the number of copies times the work of one copy alone.
    pub efficiency: Maybe<f64>,
    /// The slowest copy's rate divided by the fastest's, mean of the rounds: 1 is fair.
    pub fairness: Maybe<f64>,
    /// CPU time of a run.
    pub cpu_s_per_run: Maybe<f64>,
    /// CPUs that one copy keeps busy: its CPU time divided by wall time.
    pub cpus_per_copy: Maybe<f64>,
    /// Whether a copy uses one full CPU, the limit of a single thread, in more than two of three rounds: a
    /// mean could hide rounds of more and less.
    pub is_one_cpu: Maybe<bool>,
    /// Busy share of the whole machine, by events if the probe counts them.
    pub busy_ratio: Maybe<f64>,
    /// Share of the copies' CPUs that other work used, mean of the rounds.
    pub others_ratio: Maybe<f64>,
    /// Largest number of saturated CPUs of the machine in a round.
    pub saturated: Maybe<Vec<u32>>,
    /// CPUs of the machine, as far as they were sampled.
    pub machine_cpus: Maybe<u32>,
    /// Reasons that rounds of this level must not be used.
    pub invalid: Vec<String>,
}

/// Efficiency that gets a caveat if too few rounds allow an interval.
const EFFICIENCY_MAX: f64 = 1.05;
/// Maximum relative error of the weights of copies; above it many copies cannot be compared with one.
const WEIGHTS_ERROR_MAX: f64 = 0.1;
/// Series with the relative error of the weights of units.
const UNIT_WORK_ERROR: &str = "unit_work_error_ratio";
/// Two ratios agree if they certainly differ by less than this.
const AGREE: f64 = 1.05;
/// Probability outside an interval, on one side.
const TAIL: f64 = 0.025;
/// CPUs used by a copy of one thread that never waits.
const ONE_CPU: (f64, f64) = (0.95, 1.02);

/// Reads and judges a scale run.
pub fn scale(bakeoff: &Bakeoff) -> Scale {
    let mut copies: Vec<u32> =
        bakeoff.trials.iter().filter_map(|t| t.levels.get("copies")?.parse().ok()).collect();
    copies.sort_unstable();
    copies.dedup();
    let mut levels: Vec<Level> = copies.into_iter().map(|n| level(bakeoff, n)).collect();
    if let Some(one) = levels.first().filter(|l| l.copies == 1).and_then(|l| l.work_per_s.clone().ok()) {
        for level in &mut levels {
            level.efficiency =
                level.work_per_s.clone().map(|(work, _)| work / (f64::from(level.copies) * one.0));
        }
    }
    let weights_error = weights_error_of(bakeoff);
    let weighed = weighed(weights_error);
    if let Err(missing) = &weighed {
        for level in levels.iter_mut().filter(|level| level.copies > 1) {
            level.efficiency = Err(missing.clone());
        }
    }
    let cpus = bakeoff
        .sealed()
        .find_map(|(_, run)| value(run, "cpus", None))
        .map(to_u32)
        .ok_or_else(|| Missing::because("no level is valid"));
    // Copies that share a CPU are outside the law, however much room the machine seems to have.
    let scaling = match &weighed {
        Ok(_) => scaling(&series(&levels), f64::from(cpus.clone().unwrap_or(1))),
        Err(missing) => Scaling {
            laws: Vec::new(),
            chosen: Err(missing.clone()),
            peak: Err(missing.clone()),
            cliff: None,
            retrograde: false,
            slow_tail: false,
        },
    };
    let seduction = seduction(&levels, &weighed);
    let caveats = different_work(weights_error).into_iter().chain(too_efficient(&levels)).collect();
    Scale { levels, scaling, cpus, weighed, seduction, caveats }
}

/// Largest relative error of the weights of units in any valid round.
fn weights_error(runs: impl Iterator<Item = f64>) -> f64 {
    runs.fold(0.0, f64::max)
}

/// Relative error of the weights in a run; `None` if its copies do the same work.
fn weights_error_of(bakeoff: &Bakeoff) -> Option<f64> {
    let of_run = |run| values(run, UNIT_WORK_ERROR).next();
    let all: Vec<f64> = bakeoff.sealed().filter_map(|(_, run)| of_run(run)).collect();
    (!all.is_empty()).then(|| weights_error(all.into_iter()))
}

fn weighed(error: Option<f64>) -> Maybe<f64> {
    match error.unwrap_or(0.0) {
        error if error <= WEIGHTS_ERROR_MAX => Ok(error),
        error => Err(Missing::because(format!(
            "copies do different work, and the time of each alone is known only within {}: use units that \
             take longer",
            share(error)
        ))),
    }
}

/// Caveat that copies do different work, with the error of the weights.
fn different_work(error: Option<f64>) -> Option<String> {
    let error = error.filter(|error| *error <= WEIGHTS_ERROR_MAX)?;
    Some(format!(
        "copies do different work, weighted by the time of each alone, which is known within {}; intervals \
         of work include this error, those of the laws do not",
        share(error)
    ))
}

/// Caveat that a level does more than its number of copies times the work of one, which copies of the same
/// work cannot.
fn too_efficient(levels: &[Level]) -> Option<String> {
    let one = levels.first().filter(|l| l.copies == 1)?.work_per_s.as_ref().ok()?;
    let is_over = |level: &&Level| {
        let Ok((work, interval)) = &level.work_per_s else { return false };
        let times = f64::from(level.copies);
        match (interval, &one.1) {
            (Ok((low, _)), Ok((_, high))) => *low > times * high,
            _ => *work > times * one.0 * EFFICIENCY_MAX,
        }
    };
    let level = levels.iter().filter(|level| level.copies > 1 && level.efficiency.is_ok()).find(is_over)?;
    let efficiency = share(*level.efficiency.as_ref().ok()?);
    let chance = match (level.rounds.len(), SERIES_MIN) {
        (rounds, least) if rounds < least => {
            format!(", or it is chance, which {rounds} rounds cannot rule out")
        }
        _ => String::new(),
    };
    Some(format!(
        "{} copies have an efficiency of {efficiency}: over 100 % is not a parallel speed-up. Either copies \
         do different work without `{{copy}}` or --units, or they help each other (one fills a cache for \
         all), or something slowed the run of one copy{chance}",
        level.copies
    ))
}

fn level(bakeoff: &Bakeoff, copies: u32) -> Level {
    let (valid, invalid) = rounds_of(bakeoff, copies);
    let rounds: Vec<(u32, f64)> = valid
        .iter()
        .filter_map(|(round, run)| {
            let rates: Vec<f64> = values(run, "work_per_s").collect();
            (rates.len() == copies as usize).then(|| (*round, rates.iter().sum()))
        })
        .collect();
    let none = || Missing::because("it has no valid round");
    let mean = |of: &dyn Fn(&Run) -> Option<f64>| -> Maybe<f64> {
        let found: Vec<f64> = valid.iter().filter_map(|(_, run)| of(run)).collect();
        if found.is_empty() { Err(none()) } else { Ok(found.iter().sum::<f64>() / found.len() as f64) }
    };
    let mean_of = |run: &Run, name: &str| {
        let all: Vec<f64> = values(run, name).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let unit_error = weights_error(valid.iter().flat_map(|(_, run)| values(run, UNIT_WORK_ERROR)));
    let work_per_s = work(&rounds, unit_error).ok_or_else(none);
    let of_rounds: Vec<f64> = valid.iter().filter_map(|(_, run)| cpus_of_a_copy(run)).collect();
    let of_rounds = if of_rounds.is_empty() { Err(none()) } else { Ok(of_rounds) };
    let machines: Vec<crate::Machine> = valid.iter().map(|(_, run)| watched(run)).collect();
    let busy: Maybe<Vec<f64>> = machines.iter().map(|m| m.busy_ratio.clone()).collect();
    let saturated: Maybe<Vec<Vec<u32>>> = machines.iter().map(|m| m.saturated_cpus.clone()).collect();
    Level {
        copies,
        per_copy_per_s: work_per_s.clone().map(|(work, _)| work / f64::from(copies)),
        rounds,
        work_per_s,
        efficiency: Err(Missing::because("one copy alone was not measured")),
        fairness: mean(&|run| {
            let fastest = values(run, "work_per_s").fold(f64::NEG_INFINITY, f64::max);
            let slowest = values(run, "work_per_s").fold(f64::INFINITY, f64::min);
            (fastest > 0.0).then(|| slowest / fastest)
        }),
        cpu_s_per_run: mean(&|run| mean_of(run, "cpu_s_per_run")),
        is_one_cpu: of_rounds.clone().map(|all| {
            let is_one = |cpus: &&f64| (ONE_CPU.0..=ONE_CPU.1).contains(*cpus);
            3 * all.iter().filter(is_one).count() > 2 * all.len()
        }),
        cpus_per_copy: of_rounds.map(|all| all.iter().sum::<f64>() / all.len() as f64),
        busy_ratio: busy.and_then(|b| {
            if b.is_empty() { Err(none()) } else { Ok(b.iter().sum::<f64>() / b.len() as f64) }
        }),
        others_ratio: mean(&|run| value(run, "others_ratio", None))
            .map_err(|_| Missing::because("the CPUs were not watched")),
        saturated: saturated.and_then(|s| s.into_iter().max_by_key(Vec::len).ok_or_else(none)),
        machine_cpus: valid
            .iter()
            .find_map(|(_, run)| run.cpu.first())
            .map(|i| u32::try_from(i.cpus.len()).unwrap_or(u32::MAX))
            .ok_or_else(|| Missing::because("the CPUs were not watched")),
        invalid,
    }
}

/// Sealed rounds of a level, by round number, and the reasons that other rounds must not be used.
fn rounds_of(bakeoff: &Bakeoff, copies: u32) -> (Vec<(u32, &Run)>, Vec<String>) {
    let copies = copies.to_string();
    let of_level = bakeoff.trials.iter().filter(|trial| trial.levels.get("copies") == Some(&copies));
    let of_level: BTreeMap<u32, &Trial> = of_level.map(|trial| (trial.index, trial)).collect();
    let mut invalid = Vec::new();
    let mut valid: Vec<(u32, &Run)> = Vec::new();
    for attempt in &bakeoff.attempts {
        let Some(trial) = of_level.get(&attempt.trial) else { continue };
        match (attempt.state, &attempt.run) {
            (TrialState::Sealed, Some(run)) => valid.push((trial.block, run)),
            (TrialState::Invalid | TrialState::Failed | TrialState::Damaged, _) => {
                let why = attempt.reason.clone().unwrap_or_else(|| "the reason was not recorded".into());
                invalid.push(format!("round {}: {why}", trial.block));
            }
            _ => {}
        }
    }
    (valid, invalid)
}

/// CPUs that a copy keeps busy, mean of the copies.
fn cpus_of_a_copy(run: &Run) -> Option<f64> {
    let cpu: BTreeMap<&str, f64> = labelled(run, "cpu_s_per_run").collect();
    let each: Vec<f64> =
        labelled(run, "work_per_s").filter_map(|(copy, rate)| Some(rate * cpu.get(copy)?)).collect();
    (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
}

/// CPU use over all samples of a trial.
fn watched(run: &Run) -> crate::Machine {
    let from = run.cpu.first().map_or(0, |i| i.from_ns);
    let until = run.cpu.last().map_or(0, |i| i.until_ns);
    machine_between(from, until, &run.cpu)
}

/// - `unit_error`: relative error of the weights of the copies; it widens the interval.
fn work(rounds: &[(u32, f64)], unit_error: f64) -> Option<(f64, Maybe<(f64, f64)>)> {
    if rounds.is_empty() {
        return None;
    }
    let logs: Vec<f64> = rounds.iter().map(|(_, x)| x.ln()).collect();
    let (mean, error) = mean_and_error(&logs);
    if logs.len() < SERIES_MIN {
        let why = format!("valid rounds: {}, {SERIES_MIN} needed", logs.len());
        return Some((mean.exp(), Err(Missing::because(why))));
    }
    let half = t_above(0.025, logs.len() as f64 - 1.0) * error + unit_error.ln_1p();
    Some((mean.exp(), Ok(((mean - half).exp(), (mean + half).exp()))))
}

/// Rounds, each with the levels that are valid in it.
fn series(levels: &[Level]) -> Vec<Series> {
    let mut rounds: BTreeMap<u32, Series> = BTreeMap::new();
    for level in levels {
        for (round, work) in &level.rounds {
            rounds.entry(*round).or_default().push((f64::from(level.copies), *work));
        }
    }
    rounds.into_values().collect()
}

/// Comparison of what one copy suggests about the machine with what all of them do.
fn seduction(levels: &[Level], weighed: &Maybe<f64>) -> Maybe<String> {
    let Some(one) = levels.first().filter(|l| l.copies == 1) else {
        return Err(Missing::because("one copy alone was not measured"));
    };
    let (alone, _) = one.work_per_s.clone()?;
    let limit = at_the_limit(one);
    let first = match (&one.busy_ratio, &one.machine_cpus, &one.cpus_per_copy) {
        // Other work may use the machine too, so the copy's own use is reported if it is known.
        (_, Ok(cpus), Ok(used)) => {
            format!("one copy uses {} of this machine{limit}", share(used / f64::from(*cpus)))
        }
        (_, _, Ok(used)) => format!("one copy keeps {used:.2} CPUs busy{limit}"),
        (Ok(busy), ..) => format!("beside one copy, {} of this machine is busy{limit}", share(*busy)),
        _ => "one copy was measured; its use of this machine is unknown".to_owned(),
    };
    let weights_error = match weighed {
        Ok(error) => *error,
        Err(missing) => {
            return Ok(format!("{first}; the speed-up of several copies is unknown: {missing}"));
        }
    };
    let many = levels.iter().filter(|level| level.copies > 1);
    let valid: Vec<(&Level, f64)> =
        many.clone().filter_map(|l| Some((l, l.work_per_s.as_ref().ok()?.0))).collect();
    let Some((best, most)) = valid.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { return Ok(first) };
    let times = most / alone;
    // Accounts for the choice of the best level.
    let interval =
        greatest(many).zip(ends(one)).map(|(best, one)| ratio_of(&best, &one).widened(weights_error));
    let none = if times < 1.0 { "more copies did not do more: " } else { "" };
    let interval = interval.map_or_else(String::new, |r| format!(" [{:.2}, {:.2}]", r.low, r.high));
    Ok(format!(
        "{first}; {none}{} copies do {times:.2} times the work of one{interval} ({} of {} times)",
        best.copies,
        share(times / f64::from(best.copies)),
        best.copies
    ))
}

/// `", the limit of a single thread"` if a copy uses one full CPU all the time. Its number of threads is
/// unknown.
fn at_the_limit(one: &Level) -> &'static str {
    // Other work may saturate a CPU: use this only if the copy's own time is unknown.
    let is_one_cpu = match &one.is_one_cpu {
        Ok(is_one_cpu) => *is_one_cpu,
        Err(_) => one.saturated.as_ref().is_ok_and(|s| !s.is_empty()),
    };
    if is_one_cpu { ", the limit of a single thread" } else { "" }
}

/// Percentage with three digits: `0.39 %`, `12.5 %`, `100 %`.
fn share(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent {
        p if p < 9.995 => format!("{p:.2} %"),
        p if p < 99.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// Comparison of two machines, with one copy and with as many as each of them can use.
#[derive(Debug, Clone, PartialEq)]
pub struct Versus {
    /// A's work divided by B's with one copy, and its interval.
    pub one: Maybe<Ratio>,
    /// The same ratio at the best level of each; the interval accounts for the choice of the level.
    pub all: Maybe<Ratio>,
    /// Conclusion in a sentence.
    pub sentence: String,
}

/// A ratio with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The ratio.
    pub ratio: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Ratio {
    /// The ratio with an additional relative error in either direction.
    fn widened(self, by: f64) -> Self {
        Self { low: self.low / (1.0 + by), high: self.high * (1.0 + by), ..self }
    }
}

/// Compares two scale runs: what one copy suggests about the two machines, and what all copies do.
///
/// Rounds of two machines are not paired: the interval is Welch's, on the logarithms.
pub fn versus(a: &Scale, b: &Scale) -> Versus {
    let one = |s: &Scale| s.levels.iter().find(|l| l.copies == 1).map(logs);
    let lacking =
        || Missing::because(format!("one of the two runs has fewer than {SERIES_MIN} valid rounds there"));
    let ratio = |x: Option<Vec<f64>>, y: Option<Vec<f64>>| welch(&x?, &y?);
    let one = ratio(one(a), one(b)).ok_or_else(lacking);
    let all = greatest(a.levels.iter())
        .zip(greatest(b.levels.iter()))
        .map(|(x, y)| ratio_of(&x, &y))
        .ok_or_else(lacking);
    let weighed = a.weighed.clone().and_then(|error| Ok((error, b.weighed.clone()?)));
    let all = weighed.clone().and_then(|(a, b)| Ok(all?.widened(a).widened(b)));
    let sentence = match (&one, &all) {
        (Ok(one), Ok(all)) => verdict(one, all),
        (_, Err(missing)) if weighed.is_err() => format!("the two runs cannot be compared: {missing}"),
        _ => format!(
            "the two runs cannot be compared: each needs {SERIES_MIN} valid rounds with one copy and with all"
        ),
    };
    Versus { one, all, sentence }
}

/// ln of a machine's greatest work, with the ends of its 95 % interval.
struct Greatest {
    value: f64,
    low: f64,
    high: f64,
}

/// The greatest of the levels' means.
///
/// The greatest of several noisy means is biased upwards. Its lower end is that of a level that was not
/// chosen in advance: each level that may be the greatest gets its share of the 2.5 % (Bonferroni). The upper
/// end needs no correction.
fn greatest<'a>(levels: impl Iterator<Item = &'a Level>) -> Option<Greatest> {
    let levels: Vec<Vec<f64>> = levels.map(logs).filter(|logs| logs.len() >= SERIES_MIN).collect();
    let most = |of: &dyn Fn(&Vec<f64>) -> f64| levels.iter().map(of).max_by(f64::total_cmp);
    let best = levels.iter().max_by(|a, b| mean_and_error(a).0.total_cmp(&mean_and_error(b).0))?;
    let surely = end(best, TAIL, -1.0);
    let rivals = levels.iter().filter(|logs| end(logs, TAIL, 1.0) >= surely).count();
    Some(Greatest {
        value: mean_and_error(best).0,
        low: most(&|logs| end(logs, TAIL / rivals as f64, -1.0))?,
        high: most(&|logs| end(logs, TAIL, 1.0))?,
    })
}

/// ln of a level's work; `None` under six rounds.
fn ends(level: &Level) -> Option<Greatest> {
    let logs = logs(level);
    (logs.len() >= SERIES_MIN).then(|| Greatest {
        value: mean_and_error(&logs).0,
        low: end(&logs, TAIL, -1.0),
        high: end(&logs, TAIL, 1.0),
    })
}

/// One end of Student's t interval of a mean.
fn end(logs: &[f64], tail: f64, side: f64) -> f64 {
    let (mean, error) = mean_and_error(logs);
    mean + side * t_above(tail, logs.len() as f64 - 1.0) * error
}

/// Ratio of two values that each have an interval.
///
/// # Source
///
/// Zou and Donner, "Construction of confidence limits about effect measures", *Statistics in Medicine* 27
/// (2008), 1693-1702.
fn ratio_of(a: &Greatest, b: &Greatest) -> Ratio {
    let d = a.value - b.value;
    let low = d - (a.value - a.low).hypot(b.high - b.value);
    let high = d + (a.high - a.value).hypot(b.value - b.low);
    Ratio { ratio: d.exp(), low: low.exp(), high: high.exp() }
}

fn logs(level: &Level) -> Vec<f64> {
    level.rounds.iter().map(|(_, x)| x.ln()).collect()
}

fn welch(a: &[f64], b: &[f64]) -> Option<Ratio> {
    if a.len() < SERIES_MIN || b.len() < SERIES_MIN {
        return None;
    }
    let ((ma, ea), (mb, eb)) = (mean_and_error(a), mean_and_error(b));
    let (va, vb) = (ea * ea, eb * eb);
    let sum = (va + vb).max(f64::MIN_POSITIVE);
    let df = (sum * sum / (va * va / (a.len() as f64 - 1.0) + vb * vb / (b.len() as f64 - 1.0))).max(1.0);
    let half = if df.is_finite() { t_above(0.025, df) * sum.sqrt() } else { 0.0 };
    let d = ma - mb;
    Some(Ratio { ratio: d.exp(), low: (d - half).exp(), high: (d + half).exp() })
}

fn verdict(one: &Ratio, all: &Ratio) -> String {
    let says = |r: &Ratio| {
        if r.low > 1.0 || r.high < 1.0 {
            let word = if r.ratio > 1.0 { "more" } else { "less" };
            format!("this run does {} {word} [x {:.3}, x {:.3}]", share((r.ratio - 1.0).abs()), r.low, r.high)
        } else {
            format!("no significant difference [x {:.3}, x {:.3}]", r.low, r.high)
        }
    };
    let side = |r: &Ratio| i8::from(r.low > 1.0) - i8::from(r.high < 1.0);
    let end = if side(one) * side(all) < 0 {
        "one copy misleads: it favours the wrong machine"
    } else if one.high < all.low || all.high < one.low {
        "one copy misleads: the ratio differs when the machines are full"
    } else {
        return format!("by one copy, {}; by all copies, {}: {}", says(one), says(all), agreement(one, all));
    };
    format!("by one copy, {}; by all copies, {}: {end}", says(one), says(all))
}

/// States whether the two ratios certainly differ by little: with wide intervals, no significant difference
/// is no evidence of agreement.
fn agreement(one: &Ratio, all: &Ratio) -> String {
    let ln = |r: &Ratio| Greatest { value: r.ratio.ln(), low: r.low.ln(), high: r.high.ln() };
    let Ratio { low, high, .. } = ratio_of(&ln(all), &ln(one));
    let bound = share(AGREE - 1.0);
    if low > 1.0 / AGREE && high < AGREE {
        format!("one copy and all copies agree within {bound}")
    } else {
        format!("cannot tell whether one copy and all copies agree within {bound} [x {low:.3}, x {high:.3}]")
    }
}

fn values<'a>(run: &'a Run, name: &'a str) -> impl Iterator<Item = f64> + 'a {
    run.series.iter().filter(move |s| s.name == name).map(|s| s.value)
}

fn labelled<'a>(run: &'a Run, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> + 'a {
    run.series.iter().filter(move |s| s.name == name).map(|s: &Sample| (s.labels.as_str(), s.value))
}

fn value(run: &Run, name: &str, label: Option<&str>) -> Option<f64> {
    run.series.iter().find(|s| s.name == name && label.is_none_or(|l| s.labels == l)).map(|s| s.value)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count that was stored as a number"
)]
fn to_u32(value: f64) -> u32 {
    value as u32
}
