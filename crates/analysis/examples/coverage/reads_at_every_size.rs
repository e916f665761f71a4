//! `dder`: costs, plateau, knee and peak; shifts, bands and multiples; comparison of two sweeps.

#[path = "../../tests/reads/mod.rs"]
pub(crate) mod reads;

use bakeoff_analysis::sweep::{Cell, Cost, Estimate, sweep, versus};
use reads::{Machine, measured, smooth, still};

use crate::share;

/// Bandwidth rises to 51,200 bytes and falls from there on: the formula fixes the peak.
fn peaked(size: u64) -> f64 {
    let size = size as f64;
    350.0 + 0.01 * size + 0.01 * (size - 51_200.0).max(0.0)
}

const PAGE: u64 = 4_096;

/// Pages that a call spans, mean over its start offsets.
fn pages(size: u64) -> f64 {
    let (mut a, mut b) = (size, PAGE);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    1.0 + (size - a) as f64 / PAGE as f64
}

/// Calls with a cost per page.
fn paged(size: u64) -> f64 {
    400.0 + 0.03 * size as f64 + 20.0 * pages(size)
}

/// Copies that start at a cache line are faster.
fn lined(size: u64) -> f64 {
    300.0 + if size.is_multiple_of(64) { 0.018 } else { 0.020 } * size as f64
}

/// All of these costs, and hardly a cost of the call itself.
fn all_of_it(size: u64) -> f64 {
    20.0 + if size.is_multiple_of(64) { 0.025 } else { 0.030 } * size as f64 + 40.0 * pages(size)
}

/// Slower by 20 % for 0.7 s out of 1.4 s.
fn two_speeds(at_s: f64) -> f64 {
    if at_s % 1.4 < 0.7 { 1.2 } else { 1.0 }
}

/// Faster and slower by 5 %, slowly: a drifting clock frequency.
fn wanders(at_s: f64) -> f64 {
    1.0 + 0.05 * (at_s * 2.0).sin()
}

/// Slower by 2 % from the first call to the last.
fn drifts(at_s: f64) -> f64 {
    1.0 + 0.02 * (at_s / 4.6 - 0.5)
}

/// Slower by 10 % in the last three rounds.
fn later(at_s: f64) -> f64 {
    if at_s > 2.4 { 1.1 } else { 1.0 }
}

fn cell(call_ns: fn(u64) -> f64, slowness: fn(f64) -> f64, seed: u64) -> Cell {
    sweep(&measured(&Machine { seed, call_ns, slowness })).cells.remove(0)
}

pub(crate) fn holds(estimate: Estimate, truth: f64) -> Option<bool> {
    estimate.interval.map(|(low, high)| (low..=high).contains(&truth))
}

/// Size and value of the greatest true bandwidth.
fn greatest(call_ns: fn(u64) -> f64) -> (f64, f64) {
    let of = |size: u64| (size as f64, size as f64 / call_ns(size) * 1e9);
    (1..=102_400).map(of).max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are sizes")
}

/// Name, time of a call by size, and slowdown of the machine by time.
type Case = (&'static str, fn(u64) -> f64, fn(f64) -> f64);

/// Prints the accuracy of the findings of one sweep with six rounds.
pub(crate) fn one(experiments: u64) {
    println!(
        "| truth | a call | bytes and pages | plateau | knee | peak within 1 % | its size | a shift by size | a band | a multiple | a shift by time | unsteady |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let cases: [Case; 6] = [
        ("smooth, still", smooth, still),
        ("peak at 51,200, still", peaked, still),
        ("smooth, two speeds", smooth, two_speeds),
        ("smooth, wandering", smooth, wanders),
        ("smooth, 2 % of drift", smooth, drifts),
        ("smooth, slower from the middle on", smooth, later),
    ];
    for (name, call_ns, slowness) in cases {
        let cells: Vec<Cell> = (0..experiments).map(|seed| cell(call_ns, slowness, seed)).collect();
        #[expect(clippy::cast_possible_truncation, reason = "one of `experiments`")]
        let of = |is: &dyn Fn(&Cell) -> Option<bool>| share(experiments, |seed| is(&cells[seed as usize]));
        let is_line = name.starts_with("smooth");
        let (peak_bytes, peak) = greatest(call_ns);
        let cost = |is: &dyn Fn(&bakeoff_analysis::sweep::Cost) -> Option<bool>| {
            if is_line { of(&|c| is(c.cost.as_ref().ok()?)) } else { "-".to_owned() }
        };
        let shape = |is: &dyn Fn(&bakeoff_analysis::sweep::Shape) -> Option<bool>| {
            of(&|c| is(c.shape.as_ref().ok()?))
        };
        // The middle of the largest tenth of the sizes, and 90 % of it.
        let plateau = 97_280.0 / call_ns(97_280) * 1e9;
        let knee = (1..=102_400).find(|n| *n as f64 / call_ns(*n) * 1e9 >= 0.9 * plateau).unwrap_or(0) as f64;
        let if_line = |text: String| if is_line { text } else { "-".to_owned() };
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            cost(&|c| holds(c.call_ns, 350.0)),
            cost(&|c| Some((c.byte_ns.value + c.page_ns.value / 4_096.0 - 0.01).abs() < 0.01 * 0.01)),
            if_line(shape(&|s| holds(s.plateau_bytes_per_s, plateau))),
            if_line(shape(&|s| holds(s.knee_bytes, knee))),
            shape(&|s| Some((s.peak_bytes_per_s.value / peak - 1.0).abs() < 0.01)),
            shape(&|s| holds(s.peak_bytes, peak_bytes)),
            if_line(of(&|c| Some(!c.size_shifts.is_empty()))),
            of(&|c| Some(!c.bands.is_empty())),
            of(&|c| Some(c.multiples.iter().any(|m| m.is_period))),
            of(&|c| Some(!c.time_shifts.is_empty())),
            of(&|c| Some(!c.speed.as_ref().ok()?.is_steady)),
        );
    }
}

/// Prints the accuracy of each cost of a call; one thread per truth.
pub(crate) fn costs(experiments: u64) {
    println!("| truth | a call | a byte | a byte at multiples of 64 | a page |");
    println!("|---|---|---|---|---|");
    let cases: [(Case, [f64; 4]); 5] = [
        (("a line", smooth, still), [350.0, 0.01, 0.01, 0.0]),
        (("pages cost 20 ns", paged, still), [400.0, 0.03, 0.03, 20.0]),
        (("multiples of 64 are faster", lined, still), [300.0, 0.020, 0.018, 0.0]),
        (("both, and a call of 20 ns", all_of_it, still), [20.0, 0.030, 0.025, 40.0]),
        (("pages cost 20 ns, 2 % of drift", paged, drifts), [400.0, 0.03, 0.03, 20.0]),
    ];
    std::thread::scope(|scope| {
        let rows = cases.map(|(case, truth)| scope.spawn(move || cost_row(case, truth, experiments)));
        for row in rows {
            println!("{}", row.join().expect("a row of the table"));
        }
    });
}

fn cost_row((name, call_ns, slowness): Case, truth: [f64; 4], experiments: u64) -> String {
    let found: Vec<Cost> =
        (0..experiments).filter_map(|seed| cell(call_ns, slowness, seed).cost.ok()).collect();
    #[expect(clippy::cast_possible_truncation, reason = "one of `experiments`")]
    let of = |estimate: &dyn Fn(&Cost) -> Option<Estimate>, truth: f64| {
        share(experiments, |seed| holds(estimate(found.get(seed as usize)?)?, truth))
    };
    format!(
        "| {name} | {} | {} | {} | {} |",
        of(&|c| Some(c.call_ns), truth[0]),
        of(&|c| Some(c.byte_ns), truth[1]),
        of(&|c| c.aligned_byte_ns.clone().ok(), truth[2]),
        of(&|c| Some(c.page_ns), truth[3]),
    )
}

/// Prints the verdicts of comparing two sweeps.
pub(crate) fn two(experiments: u64) {
    println!(
        "| truth of the two | same | different | inconclusive | the band holds the truth at every size |"
    );
    println!("|---|---|---|---|---|");
    let slower: fn(u64) -> f64 = |size| smooth(size) * if size > 50_000 { 1.05 } else { 1.0 };
    let cases: [Case; 4] = [
        ("the same", smooth, still),
        ("the same, two speeds", smooth, two_speeds),
        ("the same, wandering", smooth, wanders),
        ("5 % slower past 50,000 bytes", slower, still),
    ];
    for (name, call_ns, slowness) in cases {
        let found: Vec<_> = (0..experiments)
            .map(|seed| {
                let run = |seed, call_ns| measured(&Machine { seed, call_ns, slowness });
                versus(&run(2 * seed, call_ns), &run(2 * seed + 1, smooth)).remove(0)
            })
            .collect();
        let of = |same: Option<bool>| {
            #[expect(clippy::cast_possible_truncation, reason = "one of `experiments`")]
            share(experiments, |seed| Some(found[seed as usize].same == same))
        };
        #[expect(clippy::cast_possible_truncation, reason = "one of `experiments`")]
        let band = share(experiments, |seed| {
            let places = found[seed as usize].places.as_ref().ok()?;
            Some(places.iter().all(|p| {
                let middle = p.sizes.0.midpoint(p.sizes.1);
                (p.low..=p.high).contains(&(call_ns(middle) / smooth(middle)))
            }))
        });
        println!("| {name} | {} | {} | {} | {band} |", of(Some(true)), of(Some(false)), of(None));
    }
}
