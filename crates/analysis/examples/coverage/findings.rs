//! `dder` on simulated sweeps with a known shift: rate of detection, errors of its position and size, and the
//! named cause.

use bakeoff_analysis::sweep::{Cell, sweep};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use record::bakeoff::Bakeoff;
use record::series::Sample;

use crate::reads_at_every_size::reads::{Machine, measured, smooth, still};
use crate::share;

/// Name, time of a call, and slowdown of calls from 32,768 bytes on.
type Shift = (&'static str, fn(u64) -> f64, f64);

fn later(size: u64, by: f64) -> f64 {
    smooth(size) * if size > 32_768 { by } else { 1.0 }
}

/// Prints how often a shift by size is found, the errors of its position and size, and how often no shift is
/// reported.
pub(crate) fn by_size(experiments: u64) {
    println!(
        "| truth | found alone | found beside others | place within 1 % | size within a quarter of it | said to have none |"
    );
    println!("|---|---|---|---|---|---|");
    let cases: [Shift; 4] = [
        ("1 % more from 32,769 bytes on", |n| later(n, 1.01), 1.01),
        ("2 % more", |n| later(n, 1.02), 1.02),
        ("5 % more", |n| later(n, 1.05), 1.05),
        ("20 % less", |n| later(n, 0.8), 0.8),
    ];
    for (name, call_ns, by) in cases {
        let cells: Vec<Cell> = (0..experiments)
            .map(|seed| {
                sweep(&measured(&Machine { seed: 900 + seed, call_ns, slowness: still })).cells.remove(0)
            })
            .collect();
        #[expect(clippy::cast_possible_truncation, reason = "one of `experiments`")]
        let of = |is: &dyn Fn(&Cell) -> Option<bool>| share(experiments, |seed| is(&cells[seed as usize]));
        let near = |cell: &Cell| {
            let place = |shift: &bakeoff_analysis::sweep::SizeShift| shift.between.1 as f64 / 32_769.0 - 1.0;
            cell.size_shifts.iter().copied().min_by(|a, b| place(a).abs().total_cmp(&place(b).abs()))
        };
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            of(&|c| Some(c.size_shifts.len() == 1)),
            of(&|c| Some(c.size_shifts.len() > 1)),
            of(&|c| Some((near(c)?.between.1 as f64 / 32_769.0 - 1.0).abs() < 0.01)),
            of(&|c| Some((near(c)?.ratio.ln() / by.ln() - 1.0).abs() < 0.25)),
            of(&|c| Some(c.verdict().contains("no shift, no band"))),
        );
    }
}

/// Slower by 20 % for 0.7 s of every 1.4 s.
fn two_speeds(at_s: f64) -> f64 {
    if at_s % 1.4 < 0.7 { 1.2 } else { 1.0 }
}

/// Share of the CPUs that other work used in a quarter of a second, from the end of that interval.
type Others = fn(&mut ChaCha8Rng, f64) -> f64;

/// Adds the CPU use of other work to a sweep.
fn beside(mut run: Bakeoff, others: Others, seed: u64) -> Bakeoff {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for run in run.attempts.iter_mut().filter_map(|attempt| attempt.run.as_mut()) {
        let (first, last) =
            (run.series.first().map_or(0, |s| s.t_ms), run.series.last().map_or(0, |s| s.t_ms));
        let mut t_ms = first + 250;
        while t_ms <= last + 250 {
            let value = others(&mut random, (t_ms - 125) as f64 * 1e-3);
            let [host, name, labels] = ["", "other_busy_ratio", ""].map(Into::into);
            run.series.push(Sample { t_ms, host, name, labels, value });
            t_ms += 250;
        }
    }
    run
}

/// Prints the causes named for a shift by time, on a machine with two speeds.
pub(crate) fn causes(experiments: u64) {
    println!("| what others do | shifts by time | of them, others are named |");
    println!("|---|---|---|");
    let cases: [(&str, Others); 4] = [
        ("they have a third of the CPUs while calls are slow", |_, at_s| {
            if two_speeds(at_s) > 1.1 { 0.33 } else { 0.0 }
        }),
        ("nothing", |_, _| 0.0),
        ("they have from nothing to a half, by chance", |r, _| 0.5 * (r.next_u64() as f64 / u64::MAX as f64)),
        ("they come and go by themselves, every 0.5 s", |_, at_s| if at_s % 1.0 < 0.5 { 0.4 } else { 0.0 }),
    ];
    for (name, others) in cases {
        let (mut shifts, mut named) = (0, 0);
        for seed in 0..experiments {
            let run = measured(&Machine { seed: 1_900 + seed, call_ns: smooth, slowness: two_speeds });
            for shift in &sweep(&beside(run, others, seed)).cells[0].time_shifts {
                shifts += 1;
                named += u32::from(shift.cause.is_some());
            }
        }
        println!("| {name} | {shifts} | {named} |");
    }
}

fn slower_multiples(size: u64) -> f64 {
    smooth(size) * if size.is_multiple_of(4_096) { 1.1 } else { 1.0 }
}

fn waves(size: u64) -> f64 {
    smooth(size) * (1.0 + 0.02 * (std::f64::consts::TAU * size as f64 / 3_000.0).sin())
}

/// Half of the largest size has 98.2 % of the plateau: the curve does not rise.
fn level(size: u64) -> f64 {
    200.0 + 0.1 * size as f64
}

/// Half of the largest size has 95.8 % of the plateau: the curve rises.
fn rising(size: u64) -> f64 {
    500.0 + 0.1 * size as f64
}

/// Prints the accuracy of the other sentences with a number, each for a truth with a known number.
pub(crate) fn others(experiments: u64) {
    let of = |name: &str,
              call_ns: fn(u64) -> f64,
              slowness: fn(f64) -> f64,
              is: &dyn Fn(&Cell) -> Option<bool>| {
        let one = |seed| sweep(&measured(&Machine { seed: 2_900 + seed, call_ns, slowness })).cells.remove(0);
        println!("| {name} | {} |", share(experiments, |seed| is(&one(seed))));
    };
    println!("| sentence | true |");
    println!("|---|---|");
    of("multiples of 4096 bytes are slower, and no other number is named", slower_multiples, still, &|c| {
        let named: Vec<u64> = c.multiples.iter().filter(|m| m.is_period).map(|m| m.of_bytes).collect();
        // The multiples of 8,192 and 16,384 are among them, and also differ from the multiples of 2,048.
        Some(named == [4_096])
    });
    of("by 10.0 %, in its interval", slower_multiples, still, &|c| {
        let m = c.multiples.iter().find(|m| m.of_bytes == 4_096)?;
        Some((m.low..=m.high).contains(&1.1))
    });
    of("a band repeats every 3,000 bytes, within 1 %", waves, still, &|c| {
        Some(c.bands.len() == 1 && (c.bands[0].period_bytes / 3_000.0 - 1.0).abs() < 0.01)
    });
    of("2.0 % from mean to crest, within a tenth of it", waves, still, &|c| {
        Some((c.bands.first()?.amplitude() / 0.02 - 1.0).abs() < 0.1)
    });
    let rises = |c: &Cell| Some(c.shape.as_ref().ok()?.still_rises);
    of("it still rises there, at 98.2 % of the plateau half way: false", level, still, &rises);
    of("it still rises there, at 95.8 %", rising, still, &rises);
    of("a machine of two speeds, 20 % apart: the two ends are so by 3 points", smooth, two_speeds, &|c| {
        let speed = c.speed.as_ref().ok()?;
        Some((speed.high / speed.low - 1.2).abs() < 0.03)
    });
}
