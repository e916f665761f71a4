//! Rates of false and of found cycles over 1,000 simulated series of two weeks, for `docs/validation.md`.
//!
//! `cargo run -p bakeoff-analysis --example cycle_rates`

use std::io::Write as _;

use bakeoff_analysis::cycles::cycles;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

const SERIES: u64 = 1_000;
const DAY: f64 = 86_400.0;

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

/// Two weeks of values every five minutes: autoregressive noise and a daily wave.
fn series(seed: u64, ar1: f64, amplitude: f64) -> Vec<(f64, f64)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut now = normal(&mut random);
    let next = |i: u32| {
        let t = 300.0 * f64::from(i);
        let value = now + amplitude * (std::f64::consts::TAU * t / DAY).cos();
        now = ar1 * now + (1.0 - ar1 * ar1).sqrt() * normal(&mut random);
        (t, value)
    };
    (0..4_032).map(next).collect()
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "noise AR(1)  false of {SERIES}  a daily wave of 0.5 found of {SERIES}")?;
    for ar1 in [0.0, 0.7, 0.9, 0.95] {
        let wrong =
            (0..SERIES).filter(|seed| !cycles(&series(*seed, ar1, 0.0), 0.01).cycles.is_empty()).count();
        let day = |seed: &u64| {
            let found = cycles(&series(*seed, ar1, 0.5), 0.01).cycles;
            found.iter().any(|c| (c.period_s / DAY - 1.0).abs() < 0.05)
        };
        let found = (0..SERIES).filter(day).count();
        writeln!(out, "{ar1:11}  {wrong:13}  {found:34}")?;
    }
    Ok(())
}
