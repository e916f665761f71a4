//! Synthetic sweeps over buffer sizes.

#[path = "../experiment/mod.rs"]
mod experiment;

use experiment::experiment;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use record::bakeoff::{Bakeoff, Factor, Levels, Plot};
use record::run::RunKind;
use record::series::Sample;

/// Model of a machine.
pub(crate) struct Machine {
    pub(crate) seed: u64,
    /// Time of a call by size, in nanoseconds.
    pub(crate) call_ns: fn(u64) -> f64,
    /// Slowdown of the machine by time, in seconds since the run began.
    pub(crate) slowness: fn(f64) -> f64,
}

const POINT_S: f64 = 0.000_4;

/// Cost of a call and its bytes only.
pub(crate) fn smooth(size: u64) -> f64 {
    350.0 + 0.01 * size as f64
}

/// Constant speed.
pub(crate) fn still(_: f64) -> f64 {
    1.0
}

/// Six rounds of two thousand sizes with 1.5 % of noise, every size once per round in a separate order.
pub(crate) fn measured(machine: &Machine) -> Bakeoff {
    let mut random = ChaCha8Rng::seed_from_u64(machine.seed);
    let factor = |name: &str, value: &str| Factor {
        name: name.into(),
        values: vec![value.into()],
        reference: None,
        plot: Plot::Sub,
    };
    let factors = vec![factor("how", "pread"), factor("data", "L2")];
    let cell = Levels::from([("how".to_owned(), "pread".to_owned()), ("data".to_owned(), "L2".to_owned())]);
    let mut now_s = 0.0;
    experiment(RunKind::Dder, factors, 6, &[cell], |_, _| {
        let around = (1..=100).flat_map(|k| [k * 1_024 - 1, k * 1_024, k * 1_024 + 1]);
        let mut sizes: Vec<u64> =
            around.chain((0..1_600).map(|i| i * 64 + 1 + below(&mut random, 64))).collect();
        sizes.retain(|n| *n <= 102_400);
        sizes.sort_unstable();
        sizes.dedup();
        for i in (1..sizes.len()).rev() {
            sizes.swap(i, usize::try_from(below(&mut random, i as u64 + 1)).expect("an index"));
        }
        let mut series = Vec::new();
        let mut point = |series: &mut Vec<Sample>, name: &str, size: u64| {
            let noise: f64 = (0..12).map(|_| below(&mut random, 1_000) as f64 / 1_000.0 - 0.5).sum();
            let value = (machine.call_ns)(size) * (machine.slowness)(now_s) * (1.0 + 0.015 * noise);
            #[expect(clippy::cast_possible_truncation, reason = "a few seconds")]
            let t_ms = (now_s * 1e3) as i64;
            let labels = format!("size={size}").into();
            series.push(Sample { t_ms, host: "".into(), name: name.into(), labels, value });
            now_s += POINT_S;
        };
        for (i, size) in sizes.iter().enumerate() {
            if i % 16 == 0 {
                point(&mut series, "reference_call_ns", 65_536);
            }
            point(&mut series, "call_ns", *size);
        }
        (series, Vec::new())
    })
}

fn below(random: &mut ChaCha8Rng, n: u64) -> u64 {
    random.next_u64() % n
}
