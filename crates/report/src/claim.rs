//! The claim of a bake-off in words, the worst news first.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use analysis::{Comparisons, Pair, Verdict};
use record::bakeoff::{Bakeoff, FLAG, Levels, Metric, TrialState};
use record::run::{Run, RunState};

use crate::finding::{nothing_found, sentence};
use crate::names::Names;
use crate::number::share;
use crate::words::{configuration, metric as metric_name, not_judged, plural};

/// Credibility of a bake-off, printed first on its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing can be compared, or the bake-off itself is not valid.
    Invalid,
    /// Trials failed, and none is left to compare.
    Failed,
    /// Stopped before its end: the results may be incomplete.
    Unfinished,
    /// Too few blocks for any claim.
    Exploratory,
    /// The plan names no reference, so there is no claim.
    NotCompared,
    /// At least one difference beyond the region of practical equivalence.
    Difference,
    /// Every pair is equivalent.
    Equivalent,
    /// Found neither a difference nor equivalence of all pairs.
    NothingFound,
}

impl Standing {
    /// The word above the claim.
    pub fn word(self) -> &'static str {
        match self {
            Self::Invalid => "INVALID",
            Self::Failed => "FAILED",
            Self::Unfinished => "unfinished",
            Self::Exploratory => "exploratory",
            Self::NotCompared => "nothing compared",
            Self::Difference => "difference found",
            Self::Equivalent => "equivalent",
            Self::NothingFound => "no difference found",
        }
    }
}

/// The result of one configuration against the reference by one metric, over all conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The metric.
    pub metric: Metric,
    /// The configuration.
    pub a: Levels,
    /// The sentence.
    pub text: String,
}

/// The claim of a bake-off, with its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Credibility of the bake-off.
    pub standing: Standing,
    /// One sentence, without the standing's word.
    pub headline: String,
    /// The metric that the headline speaks of, if it names a difference.
    pub metric: Option<Metric>,
    /// Limits of the claim, a sentence each.
    pub caveats: Vec<String>,
    /// One sentence for each configuration and metric, including that of the headline.
    pub findings: Vec<Finding>,
}

/// Puts the verdicts into words.
pub fn claim(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Claim {
    let sealed = bakeoff.sealed().count();
    let planned = bakeoff.trials.len() - comparisons.dropped_trials(bakeoff);
    let findings = findings(comparisons);
    let standing = standing(bakeoff, comparisons, sealed);
    Claim {
        standing,
        metric: (standing == Standing::Difference).then(|| strongest(comparisons, &findings).metric),
        headline: headline(standing, bakeoff, comparisons, &findings),
        caveats: caveats(bakeoff, comparisons, sealed, planned),
        findings,
    }
}

fn standing(bakeoff: &Bakeoff, comparisons: &Comparisons, sealed: usize) -> Standing {
    let all = comparisons.pairs.len();
    if bakeoff.header.state == RunState::Invalid {
        Standing::Invalid
    } else if bakeoff.header.state == RunState::Failed {
        Standing::Failed
    } else if bakeoff.header.state != RunState::Sealed {
        Standing::Unfinished
    } else if sealed == 0 {
        Standing::Invalid
    } else if all == 0 {
        Standing::NotCompared
    } else if comparisons.exploratory {
        Standing::Exploratory
    } else if comparisons.count(Verdict::Better) + comparisons.count(Verdict::Worse) > 0 {
        Standing::Difference
    } else if comparisons.count(Verdict::Equivalent) == all {
        Standing::Equivalent
    } else {
        Standing::NothingFound
    }
}

fn headline(
    standing: Standing,
    bakeoff: &Bakeoff,
    comparisons: &Comparisons,
    findings: &[Finding],
) -> String {
    let sealed = bakeoff.sealed().count();
    let reason = bakeoff.header.reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default();
    match standing {
        Standing::Invalid | Standing::Failed if sealed == 0 => {
            format!("No cell was sealed, so nothing can be compared{reason}.")
        }
        Standing::Invalid | Standing::Failed => format!("The bake-off is not fit for comparison{reason}."),
        Standing::Unfinished => format!(
            "The bake-off is {}{reason}: {sealed} of {} cells are sealed. Their numbers are shown, and no claim is made before \
             the last trial.",
            bakeoff.header.state.word(),
            bakeoff.trials.len() - comparisons.dropped_trials(bakeoff)
        ),
        Standing::Exploratory if bakeoff.blocks >= comparisons.blocks_min => {
            "The plan is labelled exploratory: the numbers are shown, and no claim is made.".to_owned()
        }
        Standing::Exploratory => format!(
            "{} of the {} that a claim at alpha = {} needs: the numbers are shown, and no claim is made.",
            plural(bakeoff.blocks as usize, "block"),
            comparisons.blocks_min,
            comparisons.rules.alpha
        ),
        Standing::NotCompared if !comparisons.left_out.is_empty() => {
            format!("None of the plan's metrics can be judged. {}", not_judged(comparisons).join(" "))
        }
        Standing::NotCompared => {
            "The plan names no reference, so nothing was compared; the cells are shown.".to_owned()
        }
        Standing::Difference => strongest(comparisons, findings).text.clone(),
        Standing::Equivalent | Standing::NothingFound => nothing_found(comparisons, &Names::of(comparisons)),
    }
}

/// The leading finding: by the first judged metric with a decision, the configuration with the most claims,
/// then with the largest effect.
fn strongest<'a>(comparisons: &Comparisons, findings: &'a [Finding]) -> &'a Finding {
    let weight = |finding: &Finding| {
        let claims: Vec<&Pair> =
            pairs_of(comparisons, finding.metric, &finding.a).filter(|p| is_claim(p)).collect();
        let effect = claims.iter().filter_map(|p| p.estimate.as_ref().ok()).map(|e| e.ratio.ln().abs());
        (claims.len(), effect.fold(0.0, f64::max))
    };
    let mut best = &findings[0];
    for finding in &findings[1..] {
        let (claims, effect) = weight(finding);
        let (best_claims, best_effect) = weight(best);
        let stronger = claims.cmp(&best_claims).then(effect.total_cmp(&best_effect)) == Ordering::Greater;
        if (finding.metric == best.metric && stronger) || (best_claims == 0 && claims > 0) {
            best = finding;
        }
    }
    best
}

fn is_claim(pair: &Pair) -> bool {
    matches!(pair.verdict, Verdict::Better | Verdict::Worse)
}

fn pairs_of<'a>(
    comparisons: &'a Comparisons,
    metric: Metric,
    a: &'a Levels,
) -> impl Iterator<Item = &'a Pair> {
    comparisons.pairs.iter().filter(move |p| p.metric == metric && p.a == *a)
}

fn findings(comparisons: &Comparisons) -> Vec<Finding> {
    let names = Names::of(comparisons);
    let mut findings: Vec<Finding> = Vec::new();
    for pair in &comparisons.pairs {
        if !findings.iter().any(|f| f.metric == pair.metric && f.a == pair.a) {
            let pairs: Vec<&Pair> = pairs_of(comparisons, pair.metric, &pair.a).collect();
            let text = sentence(comparisons, &names, &pairs);
            findings.push(Finding { metric: pair.metric, a: pair.a.clone(), text });
        }
    }
    findings
}

/// `wal: 12 of 24 trials fell out (12 INVALID, 0 failed)`, for each configuration that lost trials.
fn fallen_out(comparisons: &Comparisons) -> Vec<String> {
    let lost = comparisons.fallen_out.iter().filter(|f| f.lost() > 0).map(|f| {
        let damaged = if f.damaged > 0 { format!(", {} damaged", f.damaged) } else { String::new() };
        format!(
            "{}: {} of {} trials fell out ({} INVALID, {} failed{damaged}).",
            configuration(&f.arm),
            f.lost(),
            f.of,
            f.invalid,
            f.failed
        )
    });
    let redone = comparisons.fallen_out.iter().filter(|f| f.redone > 0).map(|f| {
        format!(
            "{}: {} of {} trials failed at first and succeeded when repeated.",
            configuration(&f.arm),
            f.redone,
            f.of
        )
    });
    lost.chain(redone).collect()
}

/// A caveat if other measurements ran at the same time.
pub(crate) fn beside_others(bakeoff: &Bakeoff) -> Option<String> {
    let beside = bakeoff.sealed().filter(|(_, run)| run.header.labels.contains_key("beside-others")).count();
    let sealed = bakeoff.sealed().count();
    (beside > 0).then(|| format!("{beside} of {sealed} runs were measured while other measurements ran."))
}

/// Caveats about work that did not belong to the bake-off.
fn busy_machine(bakeoff: &Bakeoff) -> Vec<String> {
    // What fell to other work tells of the machine too, and is all there is where nothing is valid.
    let runs = || bakeoff.attempts.iter().filter_map(|attempt| attempt.run.as_ref());
    let fact = |name: &'static str| runs().filter_map(move |run| run.environment.fact(name));
    let busy = fact("trial.other_work").count();
    let share = fact("trial.busy_before_ratio").filter_map(|r| r.parse::<f64>().ok()).reduce(f64::max);
    let up_to = share.map_or(String::new(), |r| format!(", up to {:.0} %", r * 100.0));
    let told = (busy > 0).then(|| {
        format!(
            "Other work kept the CPUs busy just before {busy} of {} runs{up_to}: intervals are wider than \
             necessary.",
            runs().count()
        )
    });
    told.into_iter().chain(beside_others(bakeoff)).chain(disturbances(bakeoff)).collect()
}

/// A caveat for each kind of disturbance, with the first one.
fn disturbances(bakeoff: &Bakeoff) -> Vec<String> {
    let mut found: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (_, run) in bakeoff.sealed() {
        for (name, text) in flags(run) {
            found.entry(name).or_insert((0, text)).0 += 1;
        }
    }
    let sealed = bakeoff.sealed().count();
    let caveat = |(name, (times, text)): (&str, (usize, &str))| {
        let first = if times > 1 { ", first" } else { "" };
        format!("Disturbed, {name}: {times} of {sealed} runs{first}: {text}.")
    };
    found.into_iter().map(caveat).collect()
}

/// Disturbances of a run, by name.
pub(crate) fn flags(run: &Run) -> impl Iterator<Item = (&str, &str)> {
    let facts = run.environment.facts.iter();
    facts.filter_map(|(name, text)| Some((name.strip_prefix(FLAG)?, text.as_deref().ok()?)))
}

fn caveats(bakeoff: &Bakeoff, comparisons: &Comparisons, sealed: usize, planned: usize) -> Vec<String> {
    let mut caveats = busy_machine(bakeoff);
    if bakeoff.header.labels.contains_key("shortened") {
        caveats.push("Shortened to test that the plan works: do not use the numbers.".to_owned());
    }
    // In any other state, the headline has the reason.
    let reason = bakeoff.header.reason.as_ref().filter(|_| bakeoff.header.state == RunState::Sealed);
    caveats.extend(reason.map(|reason| format!("The archive: {reason}.")));
    if sealed < planned {
        caveats.push(format!("{} of {planned} cells have no sealed run.", planned - sealed));
    }
    for (state, what) in [
        (TrialState::Invalid, "INVALID and left out of the comparison"),
        (TrialState::Failed, "failed"),
        (TrialState::Abandoned, "abandoned when the process was stopped or died"),
        (TrialState::Damaged, "damaged in the archive and left out; `bakeoff resume` measures again"),
    ] {
        match bakeoff.attempts_that_ended(state) {
            0 => {}
            1 => caveats.push(format!("1 attempt was {what}.").replace("was failed", "failed")),
            n => caveats.push(format!("{n} attempts were {what}.").replace("were failed", "failed")),
        }
    }
    caveats.extend(comparisons.dropped.iter().map(|of| {
        let mut pairs = pairs_of(comparisons, of.metric, &of.arm);
        let why = if pairs.all(|pair| pair.verdict == Verdict::Worse) {
            ": it is worse than the reference in throughput; its other metrics have no verdict"
        } else {
            " by its throughput; no claim is made of it"
        };
        format!(
            "{} was dropped after block {} of {}{}.",
            configuration(&of.arm),
            of.after_block,
            bakeoff.blocks,
            why.replace("throughput", metric_name(of.metric))
        )
    }));
    caveats.extend(fallen_out(comparisons));
    caveats.extend(not_judged(comparisons));
    let is_dropped = |p: &&Pair| comparisons.dropped.iter().any(|of| of.arm == p.a);
    let measured = || comparisons.pairs.iter().filter(|p| !is_dropped(p));
    let refused = measured().filter(|p| p.estimate.is_err() && p.n() > 1).count();
    if refused > 0 {
        caveats.push(format!(
            "No claim in {refused} of {} comparisons: the two sides lost trials unevenly, so the remaining \
             ones may be biased.",
            comparisons.pairs.len()
        ));
    }
    let open = comparisons.pairs.iter().map(|p| p.open_ratio).fold(0.0, f64::max);
    if open > comparisons.rules.rope_ratio / 4.0 {
        caveats.push(format!(
            "Unfinished or unanswered events leave p99 ratios uncertain by up to {}; their intervals include \
             this.",
            share(open)
        ));
    }
    let thin = measured().filter(|p| p.n() < comparisons.blocks_min as usize).count();
    if thin > 0 && !comparisons.exploratory && !comparisons.unfinished {
        caveats.push(format!(
            "{} of {} comparisons rest on fewer than {} blocks and support no claim.",
            thin,
            comparisons.pairs.len(),
            comparisons.blocks_min
        ));
    }
    caveats
}
