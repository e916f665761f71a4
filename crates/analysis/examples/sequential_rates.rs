//! Rates of false verdicts and machine time of sequential designs, over 2,000 simulated bake-offs for each
//! row, for `docs/validation.md`.
//!
//! `cargo run -p bakeoff-analysis --example sequential_rates`

use std::io::Write as _;

use bakeoff_analysis::sequential::{beaten_after, level};
use bakeoff_analysis::{Member, Rules, Verdict, judge};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use record::bakeoff::{Metric, SEQUENTIAL_SHARE, blocks_min};
use record::missing::Missing;

const BAKEOFFS: u32 = 2_000;
const CONDITIONS: usize = 3;
/// Standard deviations of a series and of a trial, in logs.
const SD: (f64, f64) = (0.02, 0.01);
const RULES: Rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1 };

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

/// Log ratios of each configuration to the reference, by condition and block. All share the noise of the
/// reference's series. One series in ten is `heavy` times as noisy.
fn bakeoff(random: &mut ChaCha8Rng, effects: &[f64], blocks: u32, heavy: f64) -> Vec<Vec<Vec<f64>>> {
    let mut found = vec![vec![Vec::new(); CONDITIONS]; effects.len()];
    let series = |random: &mut ChaCha8Rng| -> Vec<f64> {
        let scale = if random.next_u64().is_multiple_of(10) { heavy } else { 1.0 };
        let shared = scale * SD.0 * normal(random);
        (0..CONDITIONS).map(|_| shared + SD.1 * normal(random)).collect()
    };
    for _ in 0..blocks {
        let reference = series(random);
        for (arm, effect) in effects.iter().enumerate() {
            for (condition, value) in series(random).into_iter().enumerate() {
                found[arm][condition].push(effect + value - reference[condition]);
            }
        }
    }
    found
}

/// Whether a verdict contradicts the truth, as throughput. Effects inside the region are equivalent.
fn is_false(verdict: Verdict, effect: f64) -> bool {
    let edge = RULES.rope_ratio.ln_1p() + 1e-12;
    match verdict {
        Verdict::Better => effect <= edge,
        Verdict::Worse => effect >= -edge,
        Verdict::Equivalent => effect.abs() > edge,
        Verdict::Inconclusive => false,
    }
}

/// Whether the family has a false verdict, the number of decided pairs that differ, and of measured series
/// without the reference.
fn judged(effects: &[f64], data: &[Vec<Vec<f64>>], blocks: u32, is_sequential: bool) -> (bool, usize, u32) {
    let members = effects.len() * CONDITIONS;
    let edge = RULES.rope_ratio.ln_1p();
    let dropped: Vec<Option<u32>> = data
        .iter()
        .map(|pairs| {
            let losses: Vec<Vec<(u32, f64, f64)>> =
                pairs.iter().map(|d| (1..).zip(d).map(|(block, d)| (block, -d, -d)).collect()).collect();
            let after = || beaten_after(&losses, edge, level(RULES.alpha, members), blocks_min(RULES.alpha));
            is_sequential.then(after).flatten()
        })
        .collect();
    let member = |d: &Vec<f64>, arm: usize| {
        let refused = dropped[arm].map(|_| Missing::because("dropped"));
        Member { refused, ..Member::exact(Metric::Throughput, d) }
    };
    let family: Vec<Member> =
        data.iter().enumerate().flat_map(|(arm, pairs)| pairs.iter().map(move |d| member(d, arm))).collect();
    let share = if is_sequential { 1.0 - SEQUENTIAL_SHARE } else { 1.0 };
    let at_end = judge(&family, Rules { alpha: RULES.alpha * share, ..RULES });
    let verdicts = at_end.iter().enumerate().map(|(i, judged)| {
        let arm = i / CONDITIONS;
        (effects[arm], if dropped[arm].is_some() { Verdict::Worse } else { judged.verdict })
    });
    let (mut any_false, mut found) = (false, 0);
    for (effect, verdict) in verdicts {
        any_false |= is_false(verdict, effect);
        found += usize::from(effect.abs() > edge && matches!(verdict, Verdict::Better | Verdict::Worse));
    }
    (any_false, found, dropped.iter().map(|after| after.unwrap_or(blocks)).sum())
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "seed effects_% blocks heavy  false_fixed false_sequential  found_fixed found_sequential  saved_%"
    )?;
    let edge = -RULES.rope_ratio.ln_1p();
    let rows: [(&[f64], u32, f64); 8] = [
        (&[0.0, 0.0, 0.0], 12, 1.0),
        (&[edge, edge, edge], 12, 1.0),
        (&[edge, edge, edge], 16, 1.0),
        (&[edge, edge, edge], 16, 5.0),
        (&[0.05, -0.05, -0.2], 12, 1.0),
        (&[0.05, -0.05, -0.2], 16, 1.0),
        (&[-0.1, -0.2, -0.3], 16, 1.0),
        (&[-0.1, -0.2, -0.3], 16, 5.0),
    ];
    for (seed, (effects, blocks, heavy)) in (1_u64..).zip(rows) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut wrong, mut found, mut series) = ([0_u32; 2], [0_usize; 2], 0_u32);
        for _ in 0..BAKEOFFS {
            let data = bakeoff(&mut random, effects, blocks, heavy);
            for (i, is_sequential) in [false, true].into_iter().enumerate() {
                let (any_false, decided, measured) = judged(effects, &data, blocks, is_sequential);
                wrong[i] += u32::from(any_false);
                found[i] += decided;
                series += if is_sequential { measured + blocks } else { 0 };
            }
        }
        let arms = u32::try_from(effects.len()).expect("three");
        let all = f64::from(BAKEOFFS * blocks * (arms + 1));
        let differing = effects.iter().filter(|e| e.abs() > -edge + 1e-9).count() * CONDITIONS;
        let rate = |n: u32| f64::from(n) / f64::from(BAKEOFFS) * 100.0;
        let power = |n: usize| n as f64 / (f64::from(BAKEOFFS) * differing.max(1) as f64) * 100.0;
        let shown: Vec<String> = effects.iter().map(|e| format!("{:.1}", e.exp_m1() * 100.0)).collect();
        writeln!(
            out,
            "{seed:4} {:16} {blocks:3} {heavy:3}  {:6.2} {:6.2}  {:6.1} {:6.1}  {:5.1}",
            shown.join(","),
            rate(wrong[0]),
            rate(wrong[1]),
            power(found[0]),
            power(found[1]),
            100.0 * (1.0 - f64::from(series) / all)
        )?;
    }
    Ok(())
}
