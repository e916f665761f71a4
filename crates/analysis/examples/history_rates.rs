//! Rates of `history` by simulation: false changes, steps found, coverage of the interval.
//!
//! `cargo run --release -p bakeoff-analysis --example history_rates -- [SERIES]` prints the tables of
//! `docs/validation.md`. Every seed is fixed.

#![expect(clippy::print_stdout, reason = "its output is the table")]

use std::sync::Arc;

use bakeoff_analysis::Rules;
use bakeoff_analysis::history::{Change, History, Key, Numbers, Observed, Point, histories};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use record::clock::WallAnchor;
use record::missing::Missing;
use record::run::RunId;

const SIGMA: f64 = 0.03;
const ALPHA: f64 = 0.05;

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

/// History of logarithms with autoregressive noise and steps, in deviations of the noise; the second half has
/// this multiple of the noise.
fn history(
    random: &mut ChaCha8Rng,
    (n, ar1, spread): (usize, f64, f64),
    steps: &[(usize, f64)],
    (alpha, seed): (f64, u64),
) -> History {
    let mut now = normal(random);
    let mut observed = Vec::new();
    for i in 0..n {
        let level: f64 = steps.iter().filter(|(at, _)| i >= *at).map(|(_, size)| size).sum();
        observed.push(Observed {
            key: Key {
                metric: "p99".into(),
                subject: String::new(),
                host: String::new(),
                numbers: Numbers::Ours,
            },
            point: Point {
                at_unix_ns: i as u64,
                host: "h".into(),
                run: RunId::new(WallAnchor { monotonic_ns: 0, unix_ns: 0 }, 1),
                version: None,
                value: (SIGMA * (now * if i < n / 2 { 1.0 } else { spread } + level)).exp(),
                interval: Err(Missing::because("it is simulated")),
                facts: Arc::default(),
            },
        });
        now = ar1 * now + (1.0 - ar1 * ar1).sqrt() * normal(random);
    }
    histories(observed, Rules { rope_ratio: 0.01, alpha, seed }).remove(0)
}

const KINDS: [&str; 7] = [
    "none",
    "one step",
    "two steps",
    "memory of 0.3 to 0.8",
    "one step, memory of 0.5",
    "spread falls to a sixth",
    "spread grows to three times",
];

fn main() {
    let series: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000);
    println!("| alpha | series of 60 to 150 runs | steps found | with a change | false changes a series |");
    println!("|---|---|---|---|---|");
    for alpha in [0.02, ALPHA] {
        for kind in KINDS {
            of_kind(kind, alpha, series);
        }
    }
    println!(
        "\n| runs | memory | false changes | newest runs apart | one step found | interval holds | both of two found |"
    );
    println!("|---|---|---|---|---|---|---|");
    for n in [20, 30, 40, 60, 100, 200] {
        for ar1 in [0.0, 0.3, 0.5, 0.7, 0.8] {
            row(n, ar1, series);
        }
    }
}

/// A row for a kind of series that `scripts/check-history` draws: steps of two deviations, at least 20 runs
/// from the ends and from each other.
fn of_kind(kind: &str, alpha: f64, series: u64) {
    let (mut steps, mut found, mut any, mut wrong) = (0_u32, 0_u32, 0_u32, 0_usize);
    for seed in 0..series {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |n: usize| usize::try_from(random.next_u64() % n as u64).expect("below a usize");
        let n = 60 + below(91);
        let (places, ar1) = match kind {
            "none" | "spread falls to a sixth" | "spread grows to three times" => (Vec::new(), 0.0),
            "one step" => (vec![20 + below(n - 39)], 0.0),
            "two steps" => {
                let first = 20 + below(n - 59);
                (vec![first, first + 20 + below(n - 39 - first)], 0.0)
            }
            "memory of 0.3 to 0.8" => (Vec::new(), [0.3, 0.5, 0.7, 0.8][below(4)]),
            _ => (vec![20 + below(n - 39)], 0.5),
        };
        let truth: Vec<(usize, f64)> =
            places.into_iter().map(|at| (at, if below(2) == 0 { 2.0 } else { -2.0 })).collect();
        let spread = match kind {
            "spread falls to a sixth" => 1.0 / 6.0,
            "spread grows to three times" => 3.0,
            _ => 1.0,
        };
        let changes = history(&mut random, (n, ar1, spread), &truth, (alpha, seed)).changes;
        let mut left: Vec<usize> = changes.iter().map(|change| change.at).collect();
        any += u32::from(!left.is_empty());
        for (at, _) in truth {
            steps += 1;
            if let Some(i) = left.iter().position(|found| found.abs_diff(at) <= 5) {
                found += 1;
                left.remove(i);
            }
        }
        wrong += left.len();
    }
    let found = if steps == 0 { "-".to_owned() } else { format!("{:.1} %", share(found, steps.into())) };
    let (any, wrong) = (share(any, series), wrong as f64 / series as f64);
    println!("| {:.0} % | {kind} | {found} | {any:.1} % | {wrong:.3} |", 100.0 * alpha);
}

fn row(n: usize, ar1: f64, series: u64) {
    let (mut wrong, mut apart, mut one, mut holds, mut both) = (0, 0, 0, 0, 0);
    let of = |seed: u64, places: &[usize]| {
        let sizes = [2.0, -2.0];
        let steps: Vec<(usize, f64)> = places.iter().copied().zip(sizes).collect();
        history(&mut ChaCha8Rng::seed_from_u64(seed), (n, ar1, 1.0), &steps, (ALPHA, seed))
    };
    for seed in 0..series {
        let noise = of(seed, &[]);
        wrong += u32::from(!noise.changes.is_empty());
        apart += u32::from(noise.excursions.iter().any(|one| noise.is_open(one)));
        let near = |change: &&Change, at: usize| change.at.abs_diff(at) <= 5;
        let found = of(seed + series, &[n / 2]).changes;
        if let Some(change) = found.iter().find(|change| near(change, n / 2)) {
            one += 1;
            let (_, low, high) = change.ratio.clone().expect("the values are positive");
            holds += u32::from((low.ln()..=high.ln()).contains(&(2.0 * SIGMA)));
        }
        let found = of(seed + 2 * series, &[n / 3, 2 * n / 3]).changes;
        both += u32::from([n / 3, 2 * n / 3].iter().all(|at| found.iter().any(|c| near(&c, *at))));
    }
    println!(
        "| {n} | {ar1} | {:.1} % | {:.1} % | {:.0} % | {:.0} % | {:.0} % |",
        share(wrong, series),
        share(apart, series),
        share(one, series),
        share(holds, one.into()),
        share(both, series)
    );
}

fn share(of: u32, all: u64) -> f64 {
    100.0 * f64::from(of) / all.max(1) as f64
}
