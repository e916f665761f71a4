//! The functions behind a difference, in the words that text and pages share.

use analysis::Verdict;
use analysis::functions::{FunctionDifference, Functions, Profiled, SAMPLES_MIN, SHARE_MIN, Share};
use record::missing::Maybe;
use record::profile::ProfileKind;

use crate::flame::shortened;
use crate::names::Names;
use crate::number::{count, percent, percent_digits, point_change, point_ends, share};
use crate::text::profile_subject;
use crate::words::{counted, list, plural};

/// Longest name of a function, in letters.
const NAME_LETTERS_MAX: usize = 100;
/// Functions in a sentence that take more time, and that take less.
const IN_SENTENCE: usize = 3;
/// Least share of the time in code without symbols, or in stacks without callers, that is a caveat.
const CAVEAT_RATIO_MIN: f64 = 0.01;

/// `CPU time of the server's processes`.
pub(crate) fn subject(pair: &Functions) -> String {
    let time = match pair.kind {
        ProfileKind::OnCpu => "CPU time",
        ProfileKind::OffCpu => "time off the CPU",
    };
    format!("{time} of {}", profile_subject(pair.of))
}

/// `wal against delete at threads 4`.
pub(crate) fn sides(pair: &Functions, names: &Names) -> String {
    let condition = names.condition(&pair.levels);
    let at = if condition.is_empty() { String::new() } else { format!(" at {condition}") };
    format!("{} against {}{at}", names.configuration(&pair.a), names.configuration(&pair.b))
}

/// Name of a function; the name of all functions together is empty.
pub(crate) fn name(function: &FunctionDifference) -> String {
    if function.name.is_empty() {
        "all functions".to_owned()
    } else {
        shortened(&function.name, NAME_LETTERS_MAX)
    }
}

/// `+10.1 pp`.
pub(crate) fn change(function: &FunctionDifference) -> String {
    point_change(function.difference_ratio.exp())
}

/// `[+9.0 pp, +11.3 pp]`: the interval that decides the verdict.
pub(crate) fn interval(function: &FunctionDifference) -> Maybe<String> {
    let e = function.estimate.as_ref().map_err(Clone::clone)?;
    let (low, high) = match function.verdict {
        Verdict::Equivalent => point_ends(e.low_equivalence, e.high_equivalence),
        _ => point_ends(e.low_adjusted, e.high_adjusted),
    };
    Ok(format!("[{low}, {high}]"))
}

/// Verdict on the time of a function.
pub(crate) fn verdict(function: &FunctionDifference) -> &'static str {
    match function.verdict {
        Verdict::Worse => "more",
        Verdict::Better => "less",
        Verdict::Equivalent => "same",
        Verdict::Inconclusive => "unclear",
    }
}

/// `31.2 +-0.4`: a share in percent, with the half width of its interval over the blocks.
pub(crate) fn share_of_time(of: Share) -> String {
    let half = of.half.map_or(String::new(), |half| format!(" +-{}", percent_digits(half)));
    format!("{}{half}", percent_digits(of.ratio))
}

/// The functions that take more and less time, in a sentence.
pub(crate) fn sentence(pair: &Functions) -> String {
    if let Some(why) = &pair.refused {
        return format!("No claim: {why}.");
    }
    let all: Vec<&FunctionDifference> = pair.clear().collect();
    if all.is_empty() {
        return format!(
            "None of {} has clearly more or less time than in the reference ({}).",
            plural(pair.functions.len(), "function"),
            plural(pair.blocks, "block")
        );
    }
    let told = |wanted: Verdict, what: &str| {
        let found: Vec<&&FunctionDifference> = all.iter().filter(|f| f.verdict == wanted).collect();
        let one = |f: &&&FunctionDifference| {
            format!("`{}` {} {}", name(f), change(f), interval(f).unwrap_or_default())
        };
        let mut first: Vec<String> = found.iter().take(IN_SENTENCE).map(one).collect();
        if found.len() > IN_SENTENCE {
            first.push(format!("{} more", found.len() - IN_SENTENCE));
        }
        (!found.is_empty()).then(|| format!("{what} {}.", list(&first)))
    };
    let sentences = [told(Verdict::Worse, "More time in"), told(Verdict::Better, "Less time in")];
    sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Limits of the profiles of a pair, one sentence each.
pub(crate) fn caveats(pair: &Functions, names: &Names) -> Vec<String> {
    let mut lines = Vec::new();
    for (levels, of) in [&pair.a, &pair.b].into_iter().zip(&pair.sides) {
        let name = names.configuration(levels);
        let mut add = |ratio: f64, what: &str| {
            if ratio >= CAVEAT_RATIO_MIN {
                lines.push(format!("{name}: {} of the time {what}", percent(ratio)));
            }
        };
        add(of.unnamed_ratio, "is in code without symbols: it counts as one function for each file");
        add(of.without_callers_ratio, "has no callers: its code keeps no frame pointers");
        add(of.summed_ratio, "is of stacks that are stored as one sum; the intervals include it");
        if of.lost > 0 {
            lines.push(format!(
                "{name}: {} lost; the intervals include them in proportion",
                lost(pair, of.lost)
            ));
        }
    }
    lines
}

fn lost(pair: &Functions, n: u64) -> String {
    match pair.kind {
        ProfileKind::OnCpu => counted(n, "sample"),
        ProfileKind::OffCpu => counted(n, "switch").replace("switchs", "switches"),
    }
}

/// `1,204 of 9,310`: samples of a function, of the configuration and of the reference.
pub(crate) fn samples(function: &FunctionDifference) -> String {
    format!("{}, {}", count(function.samples[0]), count(function.samples[1]))
}

/// The method behind the comparison of functions.
pub(crate) fn method(profiled: &Profiled, alpha: f64) -> String {
    format!(
        "A function counts with the time in itself, divided by the events of its trial. A change is a share of the \
         reference's time of an event, so the changes of all functions add up to that of the whole. Blocks are the unit, \
         not samples. Functions are a family apart from the metrics: the intervals hold at {} for {} together (Holm), so \
         a false function has a probability of up to {}, beside that of a false verdict. A clear change is larger than \
         the ROPE. Functions with under {} of the time or fewer than {SAMPLES_MIN} samples a trial are not compared.",
        share(1.0 - alpha),
        plural(profiled.family, "comparison"),
        share(alpha),
        share(SHARE_MIN)
    )
}

/// Profiles that are left out, a sentence for each reason.
pub(crate) fn left_out(profiled: &Profiled) -> Vec<String> {
    let one = |(why, n): (&String, &usize)| format!("{} left out: {why}.", plural(*n, "profile"));
    profiled.left_out.iter().map(one).collect()
}
