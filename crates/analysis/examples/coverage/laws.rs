//! Laws of `scale`: coverage of the intervals of their parameters, and false alarms about laws, peaks, cliffs
//! and falls.

use bakeoff_analysis::usl::{Curve, Law, Scaling, Series, scaling};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::{noise, share};

/// Noise of an experiment.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// 2 % that a round shares, and 2 % of each level.
    Even,
    /// Even noise, and one level in ten 10 % slower: other work that came and went.
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

/// Fit of `rounds` rounds of `truth`.
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

/// Prints how often intervals hold the truth.
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

/// Prints how often a false sentence is printed.
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

/// Fit of `rounds` rounds of a curve, with noise that a round shares and noise of each level.
fn with_noise(truth: Curve, rounds: usize, (shared, own): (f64, f64), seed: u64) -> Scaling {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut one = || -> Series {
        let of_round = shared * noise(&mut random);
        LEVELS.iter().map(|n| (*n, truth.at(*n) * (of_round + own * noise(&mut random)).exp())).collect()
    };
    let series: Vec<Series> = (0..rounds).map(|_| one()).collect();
    scaling(&series, 16.0)
}

/// Prints the chosen law for laws that hardly differ, and how often a printed interval misses the truth.
pub(crate) fn choice(experiments: u64) {
    println!(
        "| contention, coherency | noise | linear | Amdahl | USL | a printed interval misses its truth |"
    );
    println!("|---|---|---|---|---|---|");
    for (sigma, kappa) in
        [(0.0, 0.0), (0.002, 0.0), (0.005, 0.0), (0.02, 0.0), (0.0, 0.000_2), (0.02, 0.000_2), (0.02, 0.001)]
    {
        for noise in [(0.02, 0.02), (0.05, 0.002), (0.002, 0.05)] {
            let truth = Curve { lambda: 100.0, sigma, kappa };
            let measured = |seed| with_noise(truth, 6, noise, 2 << 32 | seed);
            let of = |law: Law| share(experiments, |seed| Some(measured(seed).chosen == Ok(law)));
            let outside = |(low, high): (f64, f64), value: f64| !(low..=high).contains(&value);
            let misses = |found: &Scaling| {
                let Ok(law) = found.chosen else { return false };
                let of = |law: Law| found.laws.iter().find(|f| f.law == law).expect("there are five levels");
                let intervals = of(law).intervals.as_ref().expect("it was chosen");
                let may_be = |law: Law| of(law).last.clone().expect("there are six rounds");
                match law {
                    Law::Linear => outside(may_be(Law::Amdahl), sigma),
                    // The printed contention of Amdahl's law holds only if coherency is 0.
                    Law::Amdahl => {
                        outside(may_be(Law::Usl), kappa) || kappa <= 0.0 && outside(intervals[1], sigma)
                    }
                    Law::Usl => outside(intervals[1], sigma) || outside(intervals[2], kappa),
                }
            };
            println!(
                "| {sigma}, {kappa} | {} %, {} % | {} | {} | {} | {} |",
                100.0 * noise.0,
                100.0 * noise.1,
                of(Law::Linear),
                of(Law::Amdahl),
                of(Law::Usl),
                share(experiments, |seed| Some(misses(&measured(seed)))),
            );
        }
    }
}
