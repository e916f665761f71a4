//! `scale --compare`: the ratio of two machines, the sentence about it, and the interval of a level.

#[path = "../../tests/copies/mod.rs"]
pub(crate) mod copies;

use bakeoff_analysis::scale::{Ratio, Scale, scale, versus};
use copies::machine;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use record::missing::Maybe;

use crate::{noise, share};

const LEVELS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Scale run of a machine that does `work`, with 2 % of noise that a round shares and 2 % of each level.
fn measured(work: impl Fn(f64) -> f64, seed: u64) -> Scale {
    with_noise(work, 0.02, seed)
}

/// Scale run with `share` of either kind of noise.
fn with_noise(work: impl Fn(f64) -> f64, share: f64, seed: u64) -> Scale {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut run = machine(16, &LEVELS, |n| work(f64::from(n)), false);
    let rounds: Vec<f64> = (0..=run.blocks).map(|_| share * noise(&mut random)).collect();
    let blocks: Vec<u32> = run.trials.iter().map(|t| t.block).collect();
    for attempt in &mut run.attempts {
        let Some(index) = run.trials.iter().position(|t| t.index == attempt.trial) else { continue };
        let shared = rounds[blocks[index] as usize];
        // The synthetic machine does a little more in each round; here only noise makes rounds differ.
        let even = 1.0 + 0.001 * f64::from(blocks[index]);
        let factor = (shared + share * noise(&mut random)).exp() / even;
        let series = attempt.run.iter_mut().flat_map(|run| &mut run.series);
        series.filter(|s| s.name == "work_per_s").for_each(|s| s.value *= factor);
    }
    scale(&run)
}

fn flat(_: f64) -> f64 {
    100.0
}

fn to_16(n: f64) -> f64 {
    100.0 * n.min(16.0) / 16.0
}

fn rising(n: f64) -> f64 {
    100.0 * n / 32.0
}

fn slower_alone(n: f64) -> f64 {
    if n <= 1.0 { rising(n) * 0.8 } else { rising(n) }
}

/// Name, and work by number of copies.
type Machine = (&'static str, fn(f64) -> f64);

/// Prints how often two machines are found to differ, with six rounds of each.
pub(crate) fn two(experiments: u64) {
    println!(
        "| machines | work/s of the last level | ratio of one copy | ratio of all | surely unlike at one | \
         surely unlike at all | misleads |"
    );
    println!("|---|---|---|---|---|---|---|");
    let cases: [(Machine, Machine, f64); 5] = [
        (("rising", rising), ("rising", rising), 1.0),
        (("flat", flat), ("flat", flat), 1.0),
        (("up to 16", to_16), ("rising", rising), 2.0),
        (("flat", flat), ("rising", rising), 32.0),
        (("slower alone", slower_alone), ("rising", rising), 0.8),
    ];
    for ((name_a, a), (name_b, b), at_one) in cases {
        let both = |seed: u64| versus(&measured(a, 2 * seed), &measured(b, 2 * seed + 1));
        let holds = |ratio: Maybe<Ratio>, truth: f64| ratio.ok().map(|r| (r.low..=r.high).contains(&truth));
        let unlike = |ratio: Maybe<Ratio>| ratio.ok().map(|r| r.low > 1.0 || r.high < 1.0);
        let level = share(experiments, |seed| {
            let found = measured(a, seed);
            let (low, high) = found.levels.last()?.work_per_s.clone().ok()?.1.ok()?;
            Some((low..=high).contains(&a(32.0)))
        });
        println!(
            "| {name_a}, {name_b} | {level} | {} | {} | {} | {} | {} |",
            share(experiments, |seed| holds(both(seed).one, at_one)),
            share(experiments, |seed| holds(both(seed).all, 1.0)),
            share(experiments, |seed| unlike(both(seed).one)),
            share(experiments, |seed| unlike(both(seed).all)),
            share(experiments, |seed| {
                let said = both(seed).sentence;
                Some(said.contains("one copy misleads"))
            }),
        );
    }
}

/// Prints how often two machines are reported to agree, by their true ratio: six rounds of each.
pub(crate) fn agreeing(experiments: u64) {
    println!(
        "| all copies over one copy, of the first machine over the second | noise | agree within 5 % | \
         cannot tell | misleads |"
    );
    println!("|---|---|---|---|---|");
    for times in [1.0, 1.02, 1.04, 1.0 / 1.05, 1.05, 1.06, 1.1, 1.2] {
        for share_of_noise in [0.005, 0.01, 0.02, 0.05] {
            let more = |n: f64| rising(n) * if n > 1.0 { times } else { 1.0 };
            let both = |seed: u64| {
                versus(
                    &with_noise(more, share_of_noise, 2 * seed),
                    &with_noise(rising, share_of_noise, 2 * seed + 1),
                )
            };
            let said: Vec<String> = (0..experiments).map(|seed| both(seed).sentence).collect();
            let of = |words: &[&str]| {
                let is = |sentence: &String| words.iter().any(|word| sentence.contains(word));
                #[expect(clippy::cast_possible_truncation, reason = "one of `experiments`")]
                share(experiments, |seed| Some(is(&said[seed as usize])))
            };
            println!(
                "| {times:.3} | {:.1} % | {} | {} | {} |",
                100.0 * share_of_noise,
                of(&["agree within"]),
                of(&["cannot tell"]),
                of(&["misleads"]),
            );
        }
    }
}
