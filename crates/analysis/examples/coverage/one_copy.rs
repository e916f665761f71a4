//! Sentences of `scale` without an interval: about one copy, about many copies against one, and about an
//! efficiency over 100 %.

use bakeoff_analysis::scale::{Scale, scale};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::machines::copies::machine;
use crate::{noise, share};

/// CPUs that a copy keeps busy in a round; rounds count from 1.
type Busy = fn(&mut ChaCha8Rng, u32) -> f64;

/// Two CPUs and six rounds of one copy; its rate has noise of 2 %.
fn alone(busy: Busy, seed: u64) -> Scale {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut run = machine(2, &[1], |_| 10.0, true);
    for (round, attempt) in (1..).zip(&mut run.attempts) {
        let (rate, cpus) = (10.0 * (0.02 * noise(&mut random)).exp(), busy(&mut random, round));
        for sample in attempt.run.iter_mut().flat_map(|run| &mut run.series) {
            match sample.name.as_str() {
                "work_per_s" => sample.value = rate,
                "cpu_s_per_run" => sample.value = cpus / rate,
                _ => {}
            }
        }
    }
    scale(&run)
}

/// Prints how often one copy is reported at its limit, and the error of its reported use.
pub(crate) fn one(experiments: u64) {
    println!("| a copy | the limit of a single thread is named | what it uses is within 1 % of itself |");
    println!("|---|---|---|");
    let cases: [(&str, f64, Busy); 8] = [
        ("has a CPU all the time, but for 0 to 2 %", 0.99, |r, _| 1.0 - 0.02 * unit(r)),
        ("the same; one round in ten has a fifth less", 0.97, |r, _| {
            (1.0 - 0.02 * unit(r)) * if unit(r) < 0.1 { 0.8 } else { 1.0 }
        }),
        ("waits 4 % of the time, noise of 1 %", 0.96, |r, _| 0.96 + 0.01 * noise(r)),
        ("waits 6 %, noise of 1 %", 0.94, |r, _| 0.94 + 0.01 * noise(r)),
        ("waits 10 %, noise of 2 %", 0.9, |r, _| 0.9 + 0.02 * noise(r)),
        ("waits 10 %, noise of 5 %", 0.9, |r, _| 0.9 + 0.05 * noise(r)),
        ("has 1.4 CPUs in half of the rounds and 0.56 in the others", 0.98, |r, round| {
            if round % 2 == 0 { 1.4 } else { 0.56 + 0.01 * noise(r) }
        }),
        ("has two threads of half a CPU each", 1.0, |r, _| 1.0 + 0.01 * noise(r)),
    ];
    for (name, cpus, busy) in cases {
        let said = |seed| alone(busy, seed).seduction.unwrap_or_default();
        let used = |sentence: &str| -> Option<f64> {
            sentence.strip_prefix("one copy uses ")?.split_once(" %")?.0.parse().ok()
        };
        println!(
            "| {name} | {} | {} |",
            share(experiments, |seed| Some(said(seed).contains("limit"))),
            share(experiments, |seed| Some((used(&said(seed))? / (50.0 * cpus) - 1.0).abs() < 0.01)),
        );
    }
}

fn unit(random: &mut ChaCha8Rng) -> f64 {
    random.next_u64() as f64 / u64::MAX as f64
}

/// Difference of a level's rate in a round from the truth.
#[derive(Debug, Clone, Copy)]
struct Noise {
    /// Standard deviation of either kind: shared by a round, and separate for each level.
    share: f64,
    /// Probability that other work makes a level 10 % slower.
    hiccups: f64,
}

/// Scale run of a machine with 16 CPUs.
fn many(work: fn(f64) -> f64, kind: Noise, rounds: u32, seed: u64) -> Scale {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut run = machine(16, &[1, 2, 4, 8, 16], |n| work(f64::from(n)), true);
    let shared: Vec<f64> = (0..=run.blocks).map(|_| kind.share * noise(&mut random)).collect();
    let blocks: Vec<u32> = run.trials.iter().map(|t| t.block).collect();
    run.attempts.retain(|attempt| blocks[attempt.trial as usize] <= rounds);
    for attempt in &mut run.attempts {
        let round = blocks[attempt.trial as usize];
        let hit = if unit(&mut random) < kind.hiccups { 0.9 } else { 1.0 };
        let even = 1.0 + 0.001 * f64::from(round);
        let factor = hit * (shared[round as usize] + kind.share * noise(&mut random)).exp() / even;
        let series = attempt.run.iter_mut().flat_map(|run| &mut run.series);
        series.filter(|s| s.name == "work_per_s").for_each(|s| s.value *= factor);
    }
    scale(&run)
}

/// Name, and work by number of copies.
type Truth = (&'static str, fn(f64) -> f64);

/// Prints how often the interval holds the truth, and how often each sentence about many copies is printed.
pub(crate) fn beside(experiments: u64) {
    println!(
        "| truth | noise | rounds | the interval of times the work of one holds the truth | over 100 % | no number did more |"
    );
    println!("|---|---|---|---|---|---|");
    let truths: [Truth; 5] = [
        ("all levels do the same", |_| 100.0),
        ("16 copies do 1 % more than one", |n| if n > 8.0 { 101.0 } else { 100.0 }),
        ("16 copies do 3 % more than one", |n| if n > 8.0 { 103.0 } else { 100.0 }),
        ("linear", |n| 100.0 * n),
        ("one copy has 10 % less than its share", |n| if n > 1.0 { 100.0 * n } else { 90.0 }),
    ];
    let kinds = [(0.02, 0.0), (0.05, 0.0), (0.02, 0.1)].map(|(share, hiccups)| Noise { share, hiccups });
    for (name, work) in truths {
        for kind in kinds {
            for rounds in [2, 5, 6] {
                let said = |is: &dyn Fn(&Scale) -> bool| {
                    share(experiments, |seed| Some(is(&many(work, kind, rounds, seed))))
                };
                let none = |s: &Scale| {
                    s.seduction.as_ref().is_ok_and(|text| text.contains("more copies did not do more"))
                };
                let times = (2..=16).map(|n| work(f64::from(n))).fold(0.0, f64::max) / work(1.0);
                let holds = |s: &Scale| {
                    let (_, rest) = s.seduction.as_ref().ok()?.split_once("times the work of one [")?;
                    let (low, high) = rest.split_once("] ")?.0.split_once(", ")?;
                    // Printed to two digits.
                    Some(
                        low.parse::<f64>().ok()? - 0.005 <= times
                            && times <= high.parse::<f64>().ok()? + 0.005,
                    )
                };
                println!(
                    "| {name} | {:.0} %{} | {rounds} | {} | {} | {} |",
                    100.0 * kind.share,
                    if kind.hiccups > 0.0 { ", hiccups" } else { "" },
                    share(experiments, |seed| holds(&many(work, kind, rounds, seed))),
                    said(&|s| !s.caveats.is_empty()),
                    said(&none),
                );
            }
        }
    }
}
