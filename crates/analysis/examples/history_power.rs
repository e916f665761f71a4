//! Temporary: where steps in noise with a memory are lost.
#![expect(clippy::print_stdout, reason = "its output is the table")]
use bakeoff_analysis::Rules;
use bakeoff_analysis::history::{Change, Key, Observed, Point, histories};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use record::clock::WallAnchor;
use record::missing::Missing;
use record::run::RunId;
use std::collections::BTreeMap;
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}
fn changes(seed: u64, alpha: f64, kind: usize) -> (Vec<usize>, Vec<Change>) {
    let mut r = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |n: usize| (r.next_u64() % n as u64) as usize;
    let n = 60 + below(91);
    let (mut steps, ar1) = match kind {
        0 => (vec![], 0.0),
        1 => (vec![20 + below(n - 39)], 0.0),
        2 => {
            let first = 20 + below(n - 59);
            (vec![first, first + 20 + below(n - 39 - first - 0)], 0.0)
        }
        3 => (vec![], [0.3, 0.5, 0.7, 0.8][below(4)]),
        _ => (vec![20 + below(n - 39)], 0.5),
    };
    if kind == 2 {
        let l = steps.len();
        steps[l - 1] = steps[l - 1].min(n - 20);
    }
    let sign: Vec<f64> = steps.iter().map(|_| if r.next_u64() % 2 == 0 { 2.0 } else { -2.0 }).collect();
    let mut now = normal(&mut r);
    let mut observed = Vec::new();
    for i in 0..n {
        let level: f64 = steps.iter().zip(&sign).filter(|(at, _)| i >= **at).map(|(_, s)| s).sum();
        observed.push(Observed {
            key: Key { metric: "p99".into(), subject: String::new(), host: String::new() },
            point: Point {
                at_unix_ns: i as u64,
                run: RunId::new(WallAnchor { monotonic_ns: 0, unix_ns: 0 }, 1),
                version: None,
                value: 100.0 + 3.0 * (now + level),
                interval: Err(Missing::because("it is simulated")),
                facts: BTreeMap::new(),
            },
        });
        now = ar1 * now + (1.0 - ar1 * ar1).sqrt() * normal(&mut r);
    }
    (steps, histories(observed, Rules { rope_ratio: 0.01, alpha, seed: 1 }).remove(0).changes)
}
fn main() {
    let series: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(200);
    for alpha in std::env::args().skip(2).filter_map(|a| a.parse::<f64>().ok()) {
        for (kind, name) in ["none", "one", "two", "AR noise", "one in AR .5"].into_iter().enumerate() {
            let (mut steps, mut found, mut any, mut wrong) = (0, 0, 0, 0);
            for seed in 0..series {
                let (true_steps, changes) = changes(seed * 10 + kind as u64, alpha, kind);
                let mut left: Vec<usize> = changes.iter().map(|c| c.at).collect();
                any += u32::from(!left.is_empty());
                for s in &true_steps {
                    steps += 1;
                    if let Some(i) = left.iter().position(|at| at.abs_diff(*s) <= 5) {
                        found += 1;
                        left.remove(i);
                    }
                }
                wrong += left.len();
            }
            println!(
                "alpha {alpha} {name:14} steps {steps} found {:.1} % any {:.1} % false/series {:.3}",
                100.0 * f64::from(found) / f64::from(steps.max(1)),
                100.0 * f64::from(any) / series as f64,
                wrong as f64 / series as f64
            );
        }
    }
}
