//! `dder --spawn`: how long a start of a program takes.

#[path = "../../tests/experiment/mod.rs"]
mod experiment;

use bakeoff_analysis::sweep::{Estimate, sweep};
use experiment::experiment;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use record::bakeoff::{Bakeoff, Factor, Levels, Plot};
use record::run::RunKind;
use record::series::Sample;

use crate::reads_at_every_size::holds;
use crate::{noise, share};

/// Six rounds of fifty starts.
fn measured(start: Start, seed: u64) -> Bakeoff {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let levels = [("how", "posix-spawn"), ("data", "L2")];
    let factor = |(name, value): (&str, &str)| Factor {
        name: name.into(),
        values: vec![value.into()],
        reference: None,
        plot: Plot::Sub,
    };
    let cell = Levels::from(levels.map(|(name, value)| (name.to_owned(), value.to_owned())));
    experiment(RunKind::Dder, levels.map(factor).into(), 6, &[cell], |round, _| {
        let sample = |t_ms| Sample {
            t_ms,
            host: "".into(),
            name: "call_ns".into(),
            labels: "size=0".into(),
            value: start(&mut random, round),
        };
        ((0..50).map(sample).collect(), Vec::new())
    })
}

/// Duration of a program start in nanoseconds, by round number.
type Start = fn(&mut ChaCha8Rng, u32) -> f64;

fn even(random: &mut ChaCha8Rng, _: u32) -> f64 {
    1e6 * (1.0 + 0.05 * noise(random))
}

fn with_a_tail(random: &mut ChaCha8Rng, _: u32) -> f64 {
    1e6 * (0.5 * noise(random).max(-1.0)).exp()
}

/// `share_pct` percent of the starts take twice as long.
fn two_modes(random: &mut ChaCha8Rng, share_pct: u64) -> f64 {
    even(random, 0) * if random.next_u64() % 100 < share_pct { 2.0 } else { 1.0 }
}

fn slower_later(random: &mut ChaCha8Rng, round: u32) -> f64 {
    even(random, round) * if round > 3 { 1.1 } else { 1.0 }
}

/// Prints coverage and width of the interval of the median start.
pub(crate) fn starts(experiments: u64) {
    println!("| time of a start | its interval holds the median | width of the interval |");
    println!("|---|---|---|");
    let cases: [(&str, Start); 5] = [
        ("even noise of 5 %", even),
        ("a long tail, half of the starts in 71 to 140 %", with_a_tail),
        ("one start in ten takes twice as long", |r, _| two_modes(r, 10)),
        ("45 of 100 take twice as long", |r, _| two_modes(r, 45)),
        ("10 % slower in the last three rounds", slower_later),
    ];
    for (name, start) in cases {
        let mut random = ChaCha8Rng::seed_from_u64(u64::MAX);
        let mut all: Vec<f64> = (0..600_000).map(|i| start(&mut random, i % 6 + 1)).collect();
        all.sort_by(f64::total_cmp);
        let truth = all[all.len() / 2];
        let found: Vec<Estimate> = (0..experiments)
            .filter_map(|seed| sweep(&measured(start, seed)).starts.remove(0).1.ok())
            .collect();
        let width = |e: &Estimate| e.interval.map_or(0.0, |(low, high)| (high - low) / e.value);
        let mean_width = 100.0 * found.iter().map(width).sum::<f64>() / found.len() as f64;
        #[expect(clippy::cast_possible_truncation, reason = "one of `experiments`")]
        let held = share(experiments, |seed| holds(*found.get(seed as usize)?, truth));
        println!("| {name} | {held} | {mean_width:.1} % |");
    }
}
