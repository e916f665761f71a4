//! Synthetic sweeps over buffer sizes with known truth.

mod reads;

use bakeoff_analysis::sweep::{Cell, sweep, versus};
use reads::{Machine, measured, smooth, still};

fn cell(machine: &Machine) -> Cell {
    sweep(&measured(machine)).cells.remove(0)
}

#[test]
fn a_smooth_curve_on_a_still_machine_has_nothing_to_tell() {
    for seed in 1..=5 {
        let cell = cell(&Machine { seed, call_ns: smooth, slowness: still });
        assert_eq!(cell.verdict(), "no shift, no band and no special multiple was found", "{seed}");
        let cost = cell.cost.unwrap();
        assert!((cost.call_ns.value / 350.0 - 1.0).abs() < 0.02, "{cost:?}");
        // Bytes and pages are hard to tell apart; their sum is not.
        let byte_ns = cost.byte_ns.value + cost.page_ns.value / 4_096.0;
        assert!((byte_ns / 0.01 - 1.0).abs() < 0.01, "{cost:?}");
        assert!(cost.page_ns.value < 4.0, "{cost:?}");
    }
}

#[test]
fn a_machine_that_is_slower_now_and_then_has_shifts_by_time_and_none_by_size() {
    // Slower by 40 % for 0.7 s, then at full speed for 0.7 s.
    let slowness = |t: f64| if t % 1.4 < 0.7 { 1.4 } else { 1.0 };
    for seed in 11..=15 {
        let cell = cell(&Machine { seed, call_ns: smooth, slowness });
        assert!(cell.size_shifts.is_empty() && cell.bands.is_empty(), "{seed}: {}", cell.verdict());
        assert!(cell.time_shifts.len() >= 3, "{seed}: {:?}", cell.time_shifts);
    }
}

#[test]
fn beside_a_speed_that_changes_costs_and_plateau_have_no_interval_and_it_is_said() {
    let two_speeds = |t: f64| if t % 1.4 < 0.7 { 1.2 } else { 1.0 };
    let wanders = |t: f64| 1.0 + 0.05 * (t * 2.0).sin();
    // About three rounds at one speed, then three at the other.
    let later = |t: f64| if t > 2.4 { 1.1 } else { 1.0 };
    let machines: [fn(f64) -> f64; 3] = [two_speeds, wanders, later];
    for slowness in machines {
        for seed in 61..=63 {
            let cell = cell(&Machine { seed, call_ns: smooth, slowness });
            assert!(cell.verdict().contains("the machine changed its speed"), "{seed}: {}", cell.verdict());
            let (cost, shape) = (cell.cost.unwrap(), cell.shape.unwrap());
            let all = [cost.call_ns, cost.byte_ns, cost.page_ns, shape.plateau_bytes_per_s];
            assert!(all.iter().all(|e| e.interval.is_none()), "{seed}: {cost:?} {shape:?}");
            // 10 % either way in all of them.
            let speed = cell.speed.unwrap();
            assert!(
                speed.high / speed.low > 1.05 && speed.low > 0.8 && speed.high < 1.25,
                "{seed}: {speed:?}"
            );
        }
    }
}

#[test]
fn a_little_drift_over_the_rounds_is_inside_the_intervals() {
    // Two percent in all, from the first call to the last of 4.6 s.
    let drifts = |t: f64| 1.0 + 0.02 * (t / 4.6 - 0.5);
    let holds = |seed: &u64| {
        let cell = cell(&Machine { seed: *seed, call_ns: smooth, slowness: drifts });
        let interval = cell.cost.ok().and_then(|cost| cost.call_ns.interval);
        interval.is_none_or(|(low, high)| (low..=high).contains(&350.0))
    };
    let held = (71..=80).filter(holds).count();
    assert!(held >= 8, "{held} of 10");
}

#[test]
fn five_percent_above_32_kib_are_found_at_their_place() {
    let call_ns = |size| smooth(size) * if size > 32_768 { 1.05 } else { 1.0 };
    for seed in 21..=25 {
        let cell = cell(&Machine { seed, call_ns, slowness: still });
        let [shift] = cell.size_shifts[..] else { panic!("{seed}: {}", cell.verdict()) };
        let place = (shift.between.0 as f64).midpoint(shift.between.1 as f64);
        assert!((place / 32_768.0 - 1.0).abs() < 0.01, "{seed}: {shift:?}");
        assert!((shift.ratio - 1.05).abs() < 0.02, "{seed}: {shift:?}");
    }
}

#[test]
fn a_sleep_at_multiples_of_4096_is_named_with_its_period() {
    let call_ns = |size: u64| smooth(size) + if size.is_multiple_of(4_096) { 60_000.0 } else { 0.0 };
    let cell = cell(&Machine { seed: 31, call_ns, slowness: still });
    let periods: Vec<u64> = cell.multiples.iter().filter(|m| m.is_period).map(|m| m.of_bytes).collect();
    assert_eq!(periods, [4_096], "{:?}", cell.multiples);
    assert!(cell.headline().starts_with("multiples of 4096 bytes are "), "{}", cell.headline());
}

#[test]
fn teeth_are_one_band_named_by_their_distance() {
    let call_ns = |size: u64| smooth(size) * (1.0 + 0.06 * (size as f64 / 2_048.0).fract().powi(4));
    let cell = cell(&Machine { seed: 41, call_ns, slowness: still });
    assert_eq!(cell.bands.len(), 1, "{:?}", cell.bands);
    assert!((cell.bands[0].period_bytes / 2_048.0 - 1.0).abs() < 0.02, "{:?}", cell.bands);
}

#[test]
fn a_machine_is_the_same_as_itself_and_not_as_a_slower_one() {
    let run = |seed, call_ns| measured(&Machine { seed, call_ns, slowness: still });
    let (a, b) = (run(51, smooth as fn(u64) -> f64), run(52, smooth as fn(u64) -> f64));
    let found = versus(&a, &b);
    assert_eq!(found[0].same, Some(true), "{}", found[0].verdict);
    let slower = run(53, |size| smooth(size) * if size > 50_000 { 1.2 } else { 1.0 });
    let found = versus(&slower, &a);
    assert_eq!(found[0].same, Some(false), "{}", found[0].verdict);
}
