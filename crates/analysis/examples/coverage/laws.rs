//! The laws of `scale`: coverage of the intervals of their parameters, and false alarms about laws, peaks, cliffs and falls.

use bakeoff_analysis::usl::{Curve, Law, Scaling, Series, scaling};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::{noise, share};

/// What the noise of an experiment is like.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// 2 % that a round shares, and 2 % of each level.
    Even,
    /// The same, and one level in ten is 10 % slower: other work that came and went.
    Hiccups,
}

impl Noise {
    /// Geometric mean of a level's throughput, as a share of its throughput without hiccups.
    fn typical(self) -> f64 {
        match self {
            Self::Even => 1.0,
            Self::Hiccups => 0.9_f64.powf(0.1),
        }
    }
}

const KINDS: [Noise; 2] = [Noise::Even, Noise::Hiccups];
const LEVELS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
const AMDAHL: Curve = Curve { lambda: 100.0, sigma: 0.05, kappa: 0.0 };
const USL: Curve = Curve { lambda: 100.0, sigma: 0.02, kappa: 0.002 };

/// `rounds` rounds of `truth`.
fn measured(truth: &dyn Fn(f64) -> f64, rounds: usize, kind: Noise, seed: u64) -> Scaling {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut one = || -> Series {
        let shared = 0.02 * noise(&mut random);
        let mut level = |n: &f64| {
            let own = 0.02 * noise(&mut random);
            let hit = matches!(kind, Noise::Hiccups) && random.next_u64().is_multiple_of(10);
            (*n, truth(*n) * (shared + own).exp() * if hit { 0.9 } else { 1.0 })
        };
        LEVELS.iter().map(&mut level).collect()
    };
    let series: Vec<Series> = (0..rounds).map(|_| one()).collect();
    scaling(&series, 16.0)
}

/// How often intervals hold the truth.
pub(crate) fn intervals(experiments: u64) {
    println!("| noise | rounds | lambda | contention (Amdahl) | coherency (USL) | peak (USL) |");
    println!("|---|---|---|---|---|---|");
    for kind in KINDS {
        for rounds in [6, 8, 10, 15, 16, 30, 60] {
            let of = |truth: Curve, law: Law, place: usize, value: f64| {
                share(experiments, |seed| {
                    let found = measured(&|n| truth.at(n), rounds, kind, seed);
                    let fitted = found.laws.into_iter().find(|f| f.law == law)?;
                    let (low, high) = fitted.intervals.ok()?[place];
                    Some((low..=high).contains(&value))
                })
            };
            let peak = share(experiments, |seed| {
                let (_, (low, high)) = measured(&|n| USL.at(n), rounds, kind, seed).peak.ok()?;
                Some((low..=high).contains(&USL.peak()?))
            });
            println!(
                "| {kind:?} | {rounds} | {} | {} | {} | {peak} |",
                of(AMDAHL, Law::Amdahl, 0, AMDAHL.lambda * kind.typical()),
                of(AMDAHL, Law::Amdahl, 1, AMDAHL.sigma),
                of(USL, Law::Usl, 2, USL.kappa),
            );
        }
    }
}

/// How often a sentence is printed that is not true.
pub(crate) fn false_alarms(experiments: u64) {
    println!(
        "| noise | rounds | a peak of a linear machine | Amdahl or USL of a linear machine | USL of Amdahl's | a cliff past 8 | a fall of equal levels | hiccups named |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for kind in KINDS {
        for rounds in [6, 10, 30] {
            let said = |truth: &dyn Fn(f64) -> f64, is: &dyn Fn(&Scaling) -> bool| {
                share(experiments, |seed| Some(is(&measured(truth, rounds, kind, 1 << 32 | seed))))
            };
            println!(
                "| {kind:?} | {rounds} | {} | {} | {} | {} | {} | {} |",
                said(&|n| 50.0 * n, &|s| s.peak.is_ok()),
                said(&|n| 50.0 * n, &|s| s.chosen.as_ref().is_ok_and(|law| *law != Law::Linear)),
                said(&|n| AMDAHL.at(n), &|s| s.chosen == Ok(Law::Usl)),
                said(&|n| 50.0 * n.min(8.0), &|s| s.cliff.is_some()),
                said(&|_| 50.0, &|s| s.retrograde),
                said(&|n| AMDAHL.at(n), &|s| s.slow_tail),
            );
        }
    }
}
