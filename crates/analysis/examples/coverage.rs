//! How often the intervals of `scale` hold the truth, and how often its sentences raise a false alarm: by simulation.
//!
//! `cargo run --release -p bakeoff-analysis --example coverage -- [EXPERIMENTS]` prints the table of `docs/validation.md`.

#![expect(clippy::print_stdout, reason = "its output is the table")]

use bakeoff_analysis::usl::{Curve, Law, Scaling, Series, scaling};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Normal by the sum of twelve uniform values.
fn noise(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| random.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

/// What the noise of an experiment is like.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// 2 % that a round shares, and 2 % of each level.
    Even,
    /// The same, and one level in ten is 10 % slower: other work that came and went.
    Tail,
}

/// `rounds` rounds of `truth`.
fn measured(
    truth: &dyn Fn(f64) -> f64,
    levels: &[f64],
    rounds: usize,
    kind: Noise,
    seed: u64,
) -> Vec<Series> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut one = || -> Series {
        let shared = 0.02 * noise(&mut random);
        let mut level = |n: &f64| {
            let own = 0.02 * noise(&mut random);
            let hit = matches!(kind, Noise::Tail) && random.next_u64() % 10 == 0;
            (*n, truth(*n) * (shared + own).exp() * if hit { 0.9 } else { 1.0 })
        };
        levels.iter().map(&mut level).collect()
    };
    (0..rounds).map(|_| one()).collect()
}

fn main() {
    let experiments: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2_000);
    let levels = [1.0, 2.0, 4.0, 8.0, 16.0];
    let (amdahl, usl) = (
        Curve { lambda: 100.0, sigma: 0.05, kappa: 0.0 },
        Curve { lambda: 100.0, sigma: 0.02, kappa: 0.002 },
    );
    println!(
        "| noise | rounds | lambda | sigma (Amdahl) | kappa (USL) | peak (USL) |\n|---|---|---|---|---|---|"
    );
    for kind in [Noise::Even, Noise::Tail] {
        for rounds in [6, 8, 10, 15, 16, 30] {
            // Drawing series again takes a thousand fits for each interval.
            let experiments = if rounds < 16 { experiments } else { experiments / 10 };
            let share = |held: &dyn Fn(u64) -> Option<bool>| {
                let all: Vec<bool> = (0..experiments).filter_map(held).collect();
                let held = all.iter().filter(|held| **held).count();
                format!("{:.1} %", 100.0 * held as f64 / all.len().max(1) as f64)
            };
            let of = |truth: Curve, seed| {
                scaling(&measured(&|n| truth.at(n), &levels, rounds, kind, seed), 16.0, seed)
            };
            let parameter = |truth: Curve, law: Law, place: usize, value: f64| {
                share(&|seed| {
                    let found = of(truth, seed);
                    let fitted = found.laws.into_iter().find(|f| f.law == law)?;
                    let (low, high) = fitted.intervals.ok()?[place];
                    Some((low..=high).contains(&value))
                })
            };
            let peak = share(&|seed| {
                let (_, (low, high)) = of(usl, seed).peak.ok()?;
                Some((low..=high).contains(&usl.peak().expect("it has one")))
            });
            println!(
                "| {kind:?} | {rounds} | {} | {} | {} | {peak} |",
                parameter(amdahl, Law::Amdahl, 0, amdahl.lambda),
                parameter(amdahl, Law::Amdahl, 1, amdahl.sigma),
                parameter(usl, Law::Usl, 2, usl.kappa),
            );
        }
    }
    println!(
        "\n| noise | rounds | peak of a linear machine | cliff | last level called less, all alike |\n|---|---|---|---|---|"
    );
    for kind in [Noise::Even, Noise::Tail] {
        for rounds in [6, 10] {
            let alarm = |truth: &dyn Fn(f64) -> f64, is: &dyn Fn(&Scaling) -> bool| {
                let alarms = (0..experiments).filter(|seed| {
                    is(&scaling(&measured(truth, &levels, rounds, kind, 1 << 32 | seed), 16.0, *seed))
                });
                format!("{:.1} %", 100.0 * alarms.count() as f64 / experiments as f64)
            };
            println!(
                "| {kind:?} | {rounds} | {} | {} | {} |",
                alarm(&|n| 50.0 * n, &|s| s.peak.is_ok()),
                alarm(&|n| 50.0 * n.min(8.0), &|s| s.cliff.is_some()),
                alarm(&|_| 50.0, &|s| s.retrograde),
            );
        }
    }
}
