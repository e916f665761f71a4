//! Verdicts of the rule of judgement beside the usual ways, on the same simulated bake-offs.
//!
//! `cargo run --release -p bakeoff-analysis --example usual_ways -- [BAKEOFFS]` prints a table of
//! `docs/validation.md`. Every seed is fixed.

#![expect(clippy::print_stdout, reason = "its output is the table")]

use bakeoff_analysis::{Member, Paired, Rules, Verdict, judge};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use record::bakeoff::Metric;

const BLOCKS: usize = 8;
const SECONDS: usize = 30;
const PER_SECOND: usize = 100;
const ALPHA: f64 = 0.05;

/// A machine and two configurations.
#[derive(Clone, Copy)]
struct World {
    name: &'static str,
    /// True response time of B divided by that of A.
    ratio: f64,
    /// Standard deviation of what the machine does over the trials, a first-order autoregression of 0.9.
    drift: f64,
    /// Factor of the second trial of a block: a CPU that has become hot.
    second: f64,
}

const PLAIN: World = World { name: "identical", ratio: 1.0, drift: 0.0, second: 1.0 };
const WORLDS: [World; 4] = [
    PLAIN,
    World { name: "identical, the machine drifts by 5 %", drift: 0.05, ..PLAIN },
    World { name: "identical, the second trial of a block is 3 % slower", second: 1.03, ..PLAIN },
    World { name: "B is 10 % slower", ratio: 1.1, ..PLAIN },
];

/// Noise of a trial: what a start of a server fixes until its end.
const OF_TRIAL: f64 = 0.015;
/// Noise of a second within a trial, with an autocorrelation of 0.8.
const OF_SECOND: f64 = 0.04;
/// Spread of the requests of a second.
const OF_REQUEST: f64 = 0.5;

struct Trial {
    is_b: bool,
    /// Mean response time of each second.
    seconds: Vec<f64>,
    times: Vec<f64>,
}

fn uniform(random: &mut ChaCha8Rng) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    (-2.0 * uniform(random).ln()).sqrt() * (std::f64::consts::TAU * uniform(random)).cos()
}

/// Order of the configurations over a bake-off.
#[derive(Clone, Copy)]
enum Order {
    /// Random within each block.
    Drawn,
    /// A before B in each block.
    Fixed,
    /// Every trial of A, then every trial of B.
    Apart,
}

fn trials(world: World, order: Order, random: &mut ChaCha8Rng) -> Vec<Trial> {
    let mut drift = world.drift * normal(random);
    let mut all = Vec::new();
    for place in 0..2 * BLOCKS {
        let b_is_first = matches!(order, Order::Drawn) && all.len() % 2 == 0 && uniform(random) < 0.5;
        let is_b = match (order, place % 2) {
            (Order::Apart, _) => place >= BLOCKS,
            (_, 0) => b_is_first,
            _ => !all.last().is_some_and(|before: &Trial| before.is_b),
        };
        let mut level = drift + OF_TRIAL * normal(random) + if is_b { world.ratio.ln() } else { 0.0 };
        if place % 2 == 1 {
            level += world.second.ln();
        }
        let (mut now, mut trial) = (normal(random), Trial { is_b, seconds: Vec::new(), times: Vec::new() });
        for _ in 0..SECONDS {
            let of_second = level + OF_SECOND * now;
            let times = (0..PER_SECOND).map(|_| (of_second + OF_REQUEST * normal(random)).exp());
            let times: Vec<f64> = times.collect();
            trial.seconds.push(times.iter().sum::<f64>() / PER_SECOND as f64);
            trial.times.extend(times);
            now = 0.8 * now + 0.6 * normal(random);
        }
        all.push(trial);
        drift = 0.9 * drift + (1.0_f64 - 0.81).sqrt() * world.drift * normal(random);
    }
    all
}

/// The value at rank `rank` of `times`, counted from 0.
fn ranked(times: &mut [f64], rank: usize) -> f64 {
    *times.select_nth_unstable_by(rank, f64::total_cmp).1
}

fn p99(trial: &Trial) -> f64 {
    ranked(&mut trial.times.clone(), trial.times.len() * 99 / 100)
}

fn of(trials: &[Trial], is_b: bool) -> Vec<&Trial> {
    trials.iter().filter(|trial| trial.is_b == is_b).collect()
}

/// Verdict of the rule on the p99 of each trial, compared within blocks.
fn by_blocks(trials: &[Trial], seed: u64) -> bool {
    let ratios = of(trials, true).into_iter().zip(of(trials, false)).map(|(b, a)| (p99(b) / p99(a)).ln());
    let members = [Member::exact(Metric::P99, &ratios.collect::<Vec<_>>())];
    let rules = Rules { rope_ratio: 0.01, alpha: ALPHA, seed };
    matches!(judge(&members, rules)[0].verdict, Verdict::Better | Verdict::Worse)
}

/// Welch's test on the p99 of each trial.
fn by_welch(trials: &[Trial]) -> bool {
    let logs = |is_b: bool| of(trials, is_b).iter().map(|t| (p99(t).ln(), p99(t).ln())).collect::<Vec<_>>();
    Paired::independent(&logs(true), &logs(false)).is_some_and(|both| both.p_beyond(0.0) <= ALPHA)
}

/// Mann and Whitney's test on the seconds of both sides, in its normal approximation.
fn by_mann_whitney(trials: &[Trial]) -> bool {
    let seconds = trials.iter().flat_map(|trial| trial.seconds.iter().map(|second| (*second, trial.is_b)));
    let mut all: Vec<(f64, bool)> = seconds.collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let n = (all.len() / 2) as f64;
    let ranks: f64 = all.iter().enumerate().filter(|(_, one)| one.1).map(|(i, _)| (i + 1) as f64).sum();
    let u = ranks - n * (n + 1.0) / 2.0;
    (u - n * n / 2.0).abs() / (n * n * (2.0 * n + 1.0) / 12.0).sqrt() >= 1.959_964
}

/// Whether the 95 % intervals of the p99 over all requests of each side, by order statistics, do not overlap.
fn by_requests(trials: &[Trial]) -> bool {
    let interval = |is_b: bool| {
        let mut times: Vec<f64> = of(trials, is_b).iter().flat_map(|trial| trial.times.clone()).collect();
        let n = times.len() as f64;
        let half = 1.959_964 * (n * 0.99 * 0.01).sqrt();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ranks")]
        let ranks = [(0.99 * n - half) as usize, (0.99 * n + half) as usize];
        ranks.map(|rank| ranked(&mut times, rank))
    };
    let (a, b) = (interval(false), interval(true));
    a[1] < b[0] || b[1] < a[0]
}

fn main() {
    let bakeoffs: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(400);
    let ways =
        ["bakeoff", "blocks in order", "A, then B: Welch", "seconds: Mann-Whitney", "p99 of all requests"];
    println!("| of {bakeoffs} bake-offs a difference is found | {} |", ways.join(" | "));
    println!("|---|---|---|---|---|---|");
    for world in WORLDS {
        let mut found = [0_u32; 5];
        for seed in 0..bakeoffs {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut make = |order| trials(world, order, &mut random);
            let (drawn, fixed, apart) = (make(Order::Drawn), make(Order::Fixed), make(Order::Apart));
            let claims = [
                by_blocks(&drawn, seed),
                by_blocks(&fixed, seed),
                by_welch(&apart),
                by_mann_whitney(&drawn),
                by_requests(&drawn),
            ];
            for (count, claim) in found.iter_mut().zip(claims) {
                *count += u32::from(claim);
            }
        }
        let cells = found.map(|n| format!("{:.1} %", 100.0 * f64::from(n) / bakeoffs as f64));
        println!("| {} | {} |", world.name, cells.join(" | "));
    }
}
