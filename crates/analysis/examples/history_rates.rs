//! Rates of `history` by simulation: false changes, steps found, coverage of the interval.
//!
//! `cargo run --release -p bakeoff-analysis --example history_rates -- [SERIES]` prints the table of
//! `docs/validation.md`. Every seed is fixed.

#![expect(clippy::print_stdout, reason = "its output is the table")]

use std::collections::BTreeMap;

use bakeoff_analysis::Rules;
use bakeoff_analysis::history::{Change, Key, Observed, Point, histories};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use record::clock::WallAnchor;
use record::missing::Missing;
use record::run::RunId;

const SIGMA: f64 = 0.03;

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

/// Changes of a series of logarithms with autoregressive noise and steps of two deviations.
fn changes(seed: u64, n: usize, ar1: f64, steps: &[usize]) -> Vec<Change> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut now = normal(&mut random);
    let mut observed = Vec::new();
    for i in 0..n {
        let level = 2.0 * (steps.iter().filter(|at| i >= **at).count() % 2) as f64;
        observed.push(Observed {
            key: Key { metric: "p99".into(), subject: String::new(), host: String::new() },
            point: Point {
                at_unix_ns: i as u64,
                run: RunId::new(WallAnchor { monotonic_ns: 0, unix_ns: 0 }, 1),
                version: None,
                value: (SIGMA * (now + level)).exp(),
                interval: Err(Missing::because("it is simulated")),
                facts: BTreeMap::new(),
            },
        });
        now = ar1 * now + (1.0 - ar1 * ar1).sqrt() * normal(&mut random);
    }
    let rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed };
    histories(observed, rules).remove(0).changes
}

fn main() {
    let series: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000);
    println!("| runs | memory | false changes | one step found | interval holds | both of two found |");
    println!("|---|---|---|---|---|---|");
    for n in [20, 30, 40, 60, 100, 200] {
        for ar1 in [0.0, 0.3, 0.5, 0.7, 0.8] {
            row(n, ar1, series);
        }
    }
}

fn row(n: usize, ar1: f64, series: u64) {
    let (mut wrong, mut one, mut holds, mut both) = (0, 0, 0, 0);
    for seed in 0..series {
        wrong += u32::from(!changes(seed, n, ar1, &[]).is_empty());
        let near = |change: &&Change, at: usize| change.at.abs_diff(at) <= 5;
        let found = changes(seed + series, n, ar1, &[n / 2]);
        if let Some(change) = found.iter().find(|change| near(change, n / 2)) {
            one += 1;
            let (_, low, high) = change.ratio.clone().expect("the values are positive");
            holds += u32::from((low.ln()..=high.ln()).contains(&(2.0 * SIGMA)));
        }
        let found = changes(seed + 2 * series, n, ar1, &[n / 3, 2 * n / 3]);
        both += u32::from([n / 3, 2 * n / 3].iter().all(|at| found.iter().any(|c| near(&c, *at))));
    }
    let share = |of: u32, all: u64| 100.0 * f64::from(of) / all.max(1) as f64;
    println!(
        "| {n} | {ar1} | {:.1} % | {:.0} % | {:.0} % | {:.0} % |",
        share(wrong, series),
        share(one, series),
        share(holds, one.into()),
        share(both, series)
    );
}
