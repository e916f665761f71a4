//! The number of rounds to measure, from a pilot.
//!
//! The verdict leaves out the pilot, so its values may decide how many rounds follow. The number must be
//! enough for the truths that the pilot leaves plausible, not only for the one that it found: otherwise a
//! comparison would end undecided with most of its time unused.

use record::bakeoff::blocks_min;
use record::commands::{Comparison, Phase, ROUNDS_MAX};
use statrs::distribution::{ChiSquared, ContinuousCDF as _};

use super::{log_ratios, rules};
use crate::paired::Paired;
use crate::power::{self, Truth};
use crate::student::t_above;

/// Fewest rounds that are measured if they fit: from here on the power of a design needs no simulation.
pub const ROUNDS_MIN: u32 = 13;
/// Power at which a number of rounds is enough.
const POWER: f64 = 0.9;
/// Share of the pilot's distribution beyond each plausible end: mean and standard deviation.
const TAIL: f64 = 0.1;
/// Half width of an interval that is narrow enough, as a share of a clear difference.
const PRECISION_RATIO: f64 = 0.1;

/// Rounds to measure after this pilot: as many as the least clear pair probably needs, but at most those that
/// fit into the time.
///
/// - `pilot`: the comparison with the rounds of its pilot.
/// - `fit`: number of rounds that fit.
pub fn rounds_to_measure(pilot: &Comparison, fit: u32) -> u32 {
    let others = (0..pilot.commands.len()).filter(|i| *i != pilot.reference);
    let of = |a: usize| needed(&log_ratios(pilot, Phase::Pilot, a, |turn| turn.time_s), pilot, fit);
    let needed = others.map(of).max().unwrap_or(0);
    needed.max(ROUNDS_MIN).min(fit).clamp(2, ROUNDS_MAX)
}

/// Rounds for one pair; `fit` if the pilot is too short to tell, or no number is enough.
fn needed(log_ratios: &[f64], pilot: &Comparison, fit: u32) -> u32 {
    let rules = rules(pilot);
    let fit = fit.clamp(2, ROUNDS_MAX);
    // Two values have a spread that says next to nothing.
    let Some(paired) = Paired::of(log_ratios).filter(|paired| paired.n() > 2) else { return fit };
    let df = paired.df();
    let low = ChiSquared::new(df).expect("degrees of freedom are positive").inverse_cdf(TAIL);
    let sd = paired.sd() * (df / low).sqrt();
    let reach = t_above(TAIL, df) * paired.sd() / (paired.n() as f64).sqrt();
    let edge = rules.rope_ratio.ln_1p();
    let enough = |mean: f64, n: u32| {
        let truth = Truth {
            mean: mean.abs(),
            sd,
            df_of_a_block: 1.0,
            open: 0.0,
            edge,
            alpha: rules.alpha,
            comparisons: pilot.commands.len() - 1,
        };
        let half = t_above(rules.alpha / 2.0, f64::from(n - 1)) * sd / f64::from(n).sqrt();
        power::of_verdict(&truth, n) >= POWER && half <= edge.max(PRECISION_RATIO * mean.abs())
    };
    let plausible = [paired.mean() - reach, paired.mean(), paired.mean() + reach];
    plausible
        .into_iter()
        .map(|mean| first(ROUNDS_MIN.max(blocks_min(rules.alpha)), fit, |n| enough(mean, n)))
        .max()
        .unwrap_or(fit)
}

/// Smallest number from `low` to `high` that is enough; `high` if none is. More is never less enough.
fn first(low: u32, high: u32, enough: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (low.min(high), high);
    while low < high {
        let middle = low.midpoint(high);
        if enough(middle) { high = middle } else { low = middle + 1 }
    }
    low
}
