//! Coverage of intervals and false alarms of sentences, by simulation.
//!
//! `cargo run --release -p bakeoff-analysis --example coverage -- [EXPERIMENTS [TABLE...]]` prints the tables
//! of `docs/validation.md`. Every truth is known, every seed fixed. A share of 1000 experiments has a
//! standard error of 0.7 points at 95 %.

#![expect(clippy::print_stdout, reason = "its output is the tables")]
#![expect(
    clippy::duplicate_mod,
    reason = "copies and reads are modules of tests, and each brings the module of experiments that it needs"
)]

mod findings;
mod laws;
mod machines;
mod one_copy;
mod programs;
mod reads_at_every_size;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng as _;

/// Normal draw as the sum of twelve uniform values.
fn noise(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| random.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

/// Share of the experiments in which `is` holds. Those that yield `None` do not count, and the rest is
/// printed as their number.
fn share(experiments: u64, is: impl Fn(u64) -> Option<bool>) -> String {
    let all: Vec<bool> = (0..experiments).filter_map(is).collect();
    let held = 100.0 * all.iter().filter(|held| **held).count() as f64 / all.len().max(1) as f64;
    if all.len() as u64 == experiments {
        format!("{held:.1} %")
    } else {
        format!("{held:.1} % of {}", all.len())
    }
}

/// Prints a table of the given number of experiments.
type Print = fn(u64);

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let number: Option<u64> = words.first().and_then(|word| word.parse().ok());
    let wanted = words.split_off(usize::from(number.is_some()));
    let experiments = number.unwrap_or(1_000);
    // A sweep takes a hundred times as much work as a law.
    let tables: [(&str, Print); 14] = [
        ("laws", laws::intervals),
        ("alarms", laws::false_alarms),
        ("choice", laws::choice),
        ("one", one_copy::one),
        ("beside", one_copy::beside),
        ("machines", machines::two),
        ("agreeing", machines::agreeing),
        ("sweeps", |n| reads_at_every_size::one(n / 5)),
        ("costs", |n| reads_at_every_size::costs(n / 2)),
        ("starts", programs::starts),
        ("findings", |n| findings::by_size(n / 10)),
        ("others", |n| findings::others(n / 40)),
        ("causes", |n| findings::causes(n / 50)),
        ("two-sweeps", |n| reads_at_every_size::two(n / 5)),
    ];
    for (name, print) in tables {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            print(experiments);
            println!();
        }
    }
}
