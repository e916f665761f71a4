use super::*;
use crate::chance::SplitMix;

/// Autoregressive noise of standard deviation 1, at steps of 300 s.
fn red(seed: u64, n: usize, ar1: f64) -> Vec<(f64, f64)> {
    let mut chance = SplitMix(seed);
    let mut now = chance.normal();
    let next = |i: usize| {
        let value = now;
        now = ar1 * now + (1.0 - ar1 * ar1).sqrt() * chance.normal();
        (1.7e9 + 300.0 * i as f64, value)
    };
    (0..n).map(next).collect()
}

const DAY: f64 = 86_400.0;
const WEEKS_2: usize = 4_032;

fn wave(points: &mut [(f64, f64)], period_s: f64, amplitude: f64) {
    for (t, y) in points {
        *y += amplitude * (std::f64::consts::TAU * *t / period_s).cos();
    }
}

fn with_claims(series: impl Iterator<Item = Vec<(f64, f64)>>) -> usize {
    series.filter(|points| !cycles(points, 0.01).cycles.is_empty()).count()
}

fn has_day(points: &[(f64, f64)]) -> bool {
    cycles(points, 0.01).cycles.iter().any(|c| (c.period_s / DAY - 1.0).abs() < 0.05)
}

/// Without the nights, and with some values lost.
fn uneven(points: Vec<(f64, f64)>, seed: u64) -> Vec<(f64, f64)> {
    let mut chance = SplitMix(seed);
    points.into_iter().filter(|(t, _)| t % DAY > 8.0 * 3_600.0 && !chance.next().is_multiple_of(10)).collect()
}

#[test]
fn noise_of_any_color_has_no_cycle() {
    // 200 series of two weeks for each color; the rate at 1,000 series is in docs/validation.md.
    for ar1 in [0.0, 0.7, 0.9, 0.95] {
        let claims = with_claims((0..200).map(|seed| red(seed, WEEKS_2, ar1)));
        assert!(claims <= 5, "{ar1}: {claims} of 200");
    }
}

#[test]
fn short_noise_has_no_cycle() {
    for (n, ar1) in [(60, 0.0), (60, 0.8), (300, 0.7)] {
        let claims = with_claims((0..400).map(|seed| red(seed, n, ar1)));
        assert!(claims <= 10, "{n} values, {ar1}: {claims} of 400");
    }
}

#[test]
fn noise_with_gaps_has_no_cycle() {
    for ar1 in [0.0, 0.9] {
        let claims = with_claims((0..100).map(|seed| uneven(red(seed, 1_000, ar1), seed)));
        assert!(claims <= 4, "{ar1}: {claims} of 100");
    }
}

#[test]
fn a_daily_wave_of_half_a_deviation_is_found_in_noise_of_correlation_0_7() {
    let found = (0..100).filter(|seed| {
        let mut points = red(*seed, WEEKS_2, 0.7);
        wave(&mut points, DAY, 0.5);
        has_day(&points)
    });
    assert!(found.count() >= 95);
}

#[test]
fn what_is_not_a_cycle_is_not_told_as_one() {
    type Change = fn(usize, f64) -> f64;
    let unkind: [(&str, Change); 4] = [
        ("a trend", |i, y| y + 0.01 * i as f64),
        ("a spike", |i, y| if i == 1_234 { 1e6 } else { y }),
        ("a step", |i, y| if i > 1_500 { y + 3.0 } else { y }),
        ("a bend", |i, y| y + 6.0 * (i as f64 / WEEKS_2 as f64).powi(2)),
    ];
    for (what, change) in unkind {
        for ar1 in [0.0, 0.7] {
            let changed = |seed| {
                let points = red(seed, WEEKS_2, ar1).into_iter().enumerate();
                points.map(|(i, (t, y))| (t, change(i, y))).collect()
            };
            let claims = with_claims((0..40).map(changed));
            assert!(claims <= 2, "{what}, {ar1}: {claims} of 40");
        }
    }
}

#[test]
fn a_cycle_is_found_beside_trend_spike_and_missing_nights() {
    for seed in 0..5 {
        let mut points = red(seed, WEEKS_2, 0.5);
        wave(&mut points, DAY, 0.8);
        points[77].1 = 1e5;
        points.iter_mut().enumerate().for_each(|(i, p)| p.1 += 0.01 * i as f64);
        assert!(has_day(&points), "{seed}");
        assert!(has_day(&uneven(points, seed)), "{seed} with gaps");
    }
}

#[test]
fn a_wave_of_half_the_span_is_not_a_cycle_of_the_span() {
    for seed in 0..5 {
        let mut points = red(seed, WEEKS_2, 0.5);
        wave(&mut points[..WEEKS_2 / 2], DAY, 1.0);
        let found = cycles(&points, 0.01);
        assert!(!found.cycles.iter().any(|c| (c.period_s / DAY - 1.0).abs() < 0.05), "{seed}: {found:?}");
        assert!(found.cannot_tell.iter().any(|c| c.why.contains("first half")), "{seed}: {found:?}");
    }
}

#[test]
fn harmonics_stand_inside_their_fundamental() {
    let mut points = red(1, WEEKS_2, 0.3);
    for (t, y) in &mut points {
        *y += if *t % DAY < 7_200.0 { 4.0 } else { 0.0 };
    }
    let found = cycles(&points, 0.01);
    assert_eq!(found.cycles.len(), 1, "{found:?}");
    assert!((found.cycles[0].period_s / DAY - 1.0).abs() < 0.01 && found.cycles[0].harmonics.contains(&2));
    // The bump is from midnight to two; the last value before that is at 01:55.
    let window = found.cycles[0].window.as_ref().unwrap();
    assert!((window.from_s % DAY).min(DAY - window.from_s % DAY) < 400.0, "{window:?}");
    assert!((window.length_s - 7_200.0).abs() < 700.0 && (window.change - 4.0).abs() < 0.2, "{window:?}");
    let crest_h = found.cycles[0].crest_s % DAY / 3_600.0;
    assert!((crest_h - 1.0).abs() < 0.5, "{crest_h}");
}

/// 100 with noise of 5, at even steps from a midnight on, and `rise` more in one part of each day.
fn at_nine(seed: u64, step_s: u32, days: u32, (rise, until_h): (f64, f64)) -> Vec<(f64, f64)> {
    let mut chance = SplitMix(seed);
    let value = |i: u32| {
        let t = 19_000.0 * DAY + f64::from(step_s * i);
        let is_in = (9.0..until_h - 1e-6).contains(&(t % DAY / 3_600.0));
        (t, 100.0 + 5.0 * chance.normal() + if is_in { rise } else { 0.0 })
    };
    (0..days * 86_400 / step_s).map(value).collect()
}

#[test]
fn a_rise_in_a_short_part_of_each_day_is_one_daily_cycle_with_its_time_and_size() {
    let kinds = [
        (600, 20, 40.0, 10.0),
        (3_600, 28, 40.0, 10.0),
        (3_600, 60, 10.0, 10.0),
        (600, 20, 40.0, 11.0),
        (600, 20, -40.0, 10.0),
    ];
    for (step_s, days, rise, until_h) in kinds {
        for seed in 0..2 {
            let points = at_nine(seed, step_s, days, (rise, until_h));
            let found = cycles_by_the_clock(&points, 0.01, &|_| 0.0);
            let what = format!("{step_s} s, {days} days, {rise} at nine, seed {seed}: {found:?}");
            let [day] = &found.cycles[..] else { panic!("{what}") };
            assert_eq!(day.clock, Some(Clock::Day), "{what}");
            assert!((day.period_s / DAY - 1.0).abs() < 0.000_5, "{what}");
            let window = day.window.as_ref().unwrap();
            assert!((window.from_s % DAY / 3_600.0 - 9.0).abs() < 0.01, "{what}");
            let length_s = (until_h - 9.0) * 3_600.0;
            assert!((window.length_s - length_s).abs() < 1.0, "{what}");
            assert!((window.from_s + length_s - f64::from(step_s) - window.last_s).abs() < 1.0, "{what}");
            assert!((window.change - rise).abs() < 3.0 && (window.rest - 100.0).abs() < 1.0, "{what}");
            let (low, high) = window.interval.clone().unwrap();
            assert!(low < window.change && window.change < high && high - low < 8.0, "{what}");
        }
    }
}

#[test]
fn a_sine_is_a_sine_at_every_length() {
    for seed in 0..2 {
        for period_s in [DAY, DAY / 2.0, 3.0 * DAY, 20_000.0] {
            let mut points = red(seed, WEEKS_2, 0.3);
            wave(&mut points, period_s, 3.0);
            let found = cycles(&points, 0.01);
            let [one] = &found.cycles[..] else { panic!("{seed}, {period_s}: {found:?}") };
            assert!((one.period_s / period_s - 1.0).abs() < 0.01, "{one:?}");
            assert!((one.amplitude - 3.0).abs() < 0.3 && one.harmonics.is_empty(), "{one:?}");
        }
        // Two that have nothing to do with each other.
        let mut points = red(seed, WEEKS_2, 0.3);
        wave(&mut points, DAY, 3.0);
        wave(&mut points, 20_000.0, 3.0);
        let found = cycles(&points, 0.01);
        assert_eq!(found.cycles.len(), 2, "{seed}: {found:?}");
    }
}

#[test]
fn too_few_cycles_or_values_have_no_answer() {
    let mut points = red(3, 600, 0.3);
    wave(&mut points, DAY, 3.0);
    let found = cycles(&points, 0.01);
    assert!(found.cycles.is_empty(), "{found:?}");
    assert!(found.cannot_tell.iter().any(|c| c.why.starts_with("a day: 2.1 cycles")), "{found:?}");
    for n in [0, 1, 5] {
        let found = cycles(&points[..n], 0.01);
        assert!(found.cycles.is_empty() && found.cannot_tell.len() == 1 && found.n == n);
    }
    let constant: Vec<(f64, f64)> = points.iter().map(|p| (p.0, 5.0)).collect();
    let found = cycles(&constant, 0.01);
    assert!(found.cycles.is_empty() && found.background.is_err());
    let one_time = vec![(1.0, 2.0); 100];
    assert_eq!(cycles(&one_time, 0.01).n, 1);
}

#[test]
fn the_unit_of_the_values_changes_nothing() {
    for seed in 0..3 {
        let mut points = red(seed, 1_000, 0.5);
        if seed > 0 {
            wave(&mut points, 7_200.0, 1.0);
        }
        let known = cycles(&points, 0.01);
        for unit in [1e-300, 1e-200, 1e-13, 1e200, 1e300] {
            let scaled: Vec<(f64, f64)> = points.iter().map(|p| (p.0, p.1 * unit)).collect();
            let found = cycles(&scaled, 0.01);
            let sizes = |of: &Cycles| -> Vec<(f64, f64)> {
                of.cycles.iter().map(|c| ((c.period_s * 1e3).round(), (c.p * 1e9).round())).collect()
            };
            assert_eq!(sizes(&found), sizes(&known), "{seed}: in units of {unit}");
            for (one, other) in found.cycles.iter().zip(&known.cycles) {
                assert!((one.amplitude / unit / other.amplitude - 1.0).abs() < 1e-6, "{one:?}");
            }
        }
    }
}

/// An hour of daylight saving from `change_s` on.
fn offset(change_s: f64) -> impl Fn(f64) -> f64 {
    move |t| if t < change_s { 3_600.0 } else { 7_200.0 }
}

#[test]
fn what_happens_at_nine_by_the_clock_is_one_daily_cycle_over_a_change_of_the_clock() {
    let start = red(0, 1, 0.0)[0].0;
    let offset = offset(start + 7.0 * DAY);
    for seed in 0..5 {
        let mut points = red(seed, WEEKS_2, 0.3);
        for (t, y) in &mut points {
            // From nine to eleven by the clock.
            let hour = (*t + offset(*t)) % DAY / 3_600.0;
            *y += if (9.0..11.0).contains(&hour) { 3.0 } else { 0.0 };
        }
        let found = cycles_by_the_clock(&points, 0.01, &offset);
        let [day] = &found.cycles[..] else { panic!("{seed}: {found:?}") };
        assert_eq!(day.clock, Some(Clock::Day));
        let window = day.window.as_ref().unwrap();
        assert!((window.from_s % DAY / 3_600.0 - 9.0).abs() < 0.1, "{seed}: {window:?}");
        assert!((window.length_s - 7_200.0).abs() < 400.0, "{seed}: {window:?}");
        assert!((day.period_s / DAY - 1.0).abs() < 0.01 && day.harmonics.contains(&2), "{day:?}");
    }
}

#[test]
fn a_cycle_that_ignores_the_clock_stays_as_it_is() {
    let start = red(0, 1, 0.0)[0].0;
    let mut points = red(1, WEEKS_2, 0.3);
    wave(&mut points, 5_000.0, 1.0);
    let found = cycles_by_the_clock(&points, 0.01, &offset(start + 7.0 * DAY));
    assert_eq!(found.cycles, cycles(&points, 0.01).cycles);
    // Without a change of the clock the crest is the clock's, too.
    let mut points = red(1, WEEKS_2, 0.3);
    wave(&mut points, DAY, 1.0);
    let found = cycles_by_the_clock(&points, 0.01, &|_| 7_200.0);
    assert_eq!(found.cycles[0].clock, Some(Clock::Day));
    assert!((found.cycles[0].crest_s % DAY / 3_600.0 - 2.0).abs() < 0.5, "{found:?}");
}

/// Values of 28 days, every 15 minutes, with 20 more from nine to ten by `hour`; the clock changes by `by_s`
/// after 14 days.
fn over_a_change(seed: u64, by_s: f64, is_by_clock: bool) -> (Vec<(f64, f64)>, impl Fn(f64) -> f64) {
    let start = 19_000.0 * DAY;
    let offset = move |t: f64| if t < start + 14.0 * DAY + 3_600.0 { 3_600.0 } else { 3_600.0 + by_s };
    let noise = red(seed, 28 * 96, 0.7).into_iter().enumerate();
    let value = |(i, (_, y)): (usize, (f64, f64))| {
        let t = start + 900.0 * i as f64;
        let hour = (t + if is_by_clock { offset(t) } else { 0.0 }) % DAY / 3_600.0;
        (t, 100.0 + 1.4 * y + if (9.0..10.0).contains(&hour) { 20.0 } else { 0.0 })
    };
    (noise.map(value).collect(), offset)
}

#[test]
fn a_daily_job_over_a_change_of_the_clock_is_one_cycle_by_the_clock_that_it_follows() {
    let mut others = 0;
    // Of 36 series (seeds 0 to 11), 1 has a further cycle.
    for seed in 0..3 {
        for (by_s, is_by_clock) in [(3_600.0, true), (-3_600.0, true), (3_600.0, false)] {
            let (points, offset) = over_a_change(seed, by_s, is_by_clock);
            let found = cycles_by_the_clock(&points, 0.01, &offset);
            let what = format!("seed {seed}, {by_s} s, by the clock {is_by_clock}: {:#?}", found.cycles);
            others += found.cycles.len() - 1;
            let day = &found.cycles[0];
            assert_eq!((day.clock, day.is_universal), (Some(Clock::Day), !is_by_clock), "{what}");
            let window = day.window.as_ref().unwrap();
            assert!((window.from_s % DAY / 3_600.0 - 9.0).abs() < 0.01, "{what}");
            assert!((window.change - 20.0).abs() < 1.0 && (0.5..0.9).contains(&day.strength), "{what}");
        }
    }
    assert!(others <= 1, "{others} further cycles in 9 series");
}

#[test]
fn noise_has_no_cycle_over_a_change_of_the_clock() {
    let start = red(0, 1, 0.0)[0].0;
    let offset = offset(start + 7.0 * DAY);
    let claims = (0..60)
        .filter(|seed| !cycles_by_the_clock(&red(*seed, 1_000, 0.8), 0.01, &offset).cycles.is_empty())
        .count();
    assert!(claims <= 3, "{claims} of 60");
}

#[test]
fn order_and_doubled_times_change_nothing() {
    let mut points = red(4, 1_000, 0.5);
    wave(&mut points, 7_200.0, 1.0);
    let sorted = cycles(&points, 0.01);
    let mut mixed: Vec<(f64, f64)> = points.iter().rev().chain(&points).copied().collect();
    mixed.swap(3, 900);
    let found = cycles(&mixed, 0.01);
    assert_eq!((found.doubled, found.n), (1_000, 1_000));
    assert_eq!(found.cycles, sorted.cycles);
}

/// Values of the known answers: `i = numpy.arange(40); t = i + 0.3*sin(1.7*i);
/// y = cos(0.9*i) + 0.5*sin(2.3*i) + 0.1*i % 0.7`, with t from 0.
fn known() -> Vec<(f64, f64)> {
    let of = |i: i32| {
        let i = f64::from(i);
        (i + 0.3 * (1.7 * i).sin(), (0.9 * i).cos() + 0.5 * (2.3 * i).sin() + (0.1 * i) % 0.7)
    };
    (0..40).map(of).collect()
}

fn near(found: f64, known: f64) {
    assert!((found - known).abs() <= 1e-9 * known.abs().max(1.0), "{found} instead of {known}");
}

#[test]
fn powers_and_probabilities_are_those_of_astropy() {
    let points = known();
    // LombScargle(t, y, fit_mean=True).power(f, normalization="standard", method="slow"), astropy 8.0.
    for (frequency, power) in [
        (0.05, 0.001_622_977_327_054_125_6),
        (0.1432, 0.726_712_701_869_897_9),
        (0.31, 0.002_465_821_953_374_685_6),
    ] {
        near(Wave::of(&points, frequency).strength, power);
    }
    // The fast form at uneven times is the same power, against a background of variance 1.
    let white = Background { ar1: 0.0, variance: 1.0 };
    let powers = power::of_uneven(&points, white);
    let mean = points.iter().map(|p| p.1).sum::<f64>() / 40.0;
    let squares: f64 = points.iter().map(|p| (p.1 - mean).powi(2)).sum();
    near(squares, 23.164_177_373_796_82);
    for k in [3, 20, 70] {
        let slow = Wave::of(&points, (k + 1) as f64 * powers.step).strength * squares / 2.0;
        near(powers.ratios[k], slow);
    }
    // numpy.arange(100.0): sqrt(4 * pi * var); fap_baluev(z, 0.5, ..., normalization="psd").
    let even: Vec<(f64, f64)> = (0..100).map(|i| (f64::from(i), 0.0)).collect();
    let length = effective_length(&even);
    near(length, 102.327_554_033_186_89);
    near(power::false_alarm(9.0, 0.5 * length), 0.018_885_150_645_549_312);
    near(power::false_alarm(14.0, 0.5 * length), 0.000_160_004_359_990_056_94);
}

#[test]
fn spectra_and_waves_are_those_of_numpy() {
    let points = known();
    let mean = points.iter().map(|p| p.1).sum::<f64>() / 40.0;
    // abs(numpy.fft.fft(y - mean, 256))**2 / 40, at 3, 37 and 120.
    let even: Vec<f64> = points.iter().map(|p| p.1 - mean).collect();
    let powers = power::of_even(&even, Background { ar1: 0.0, variance: 1.0 });
    near(powers.step, 1.0 / 256.0);
    for (k, power) in
        [(3, 0.028_275_197_615_834_59), (37, 8.890_200_131_116_86), (120, 0.003_295_439_890_573_782)]
    {
        near(powers.ratios[k - 1], power);
    }
    // 2.5 * (1 - 0.6**2) / abs(1 - 0.6 * exp(-2j * pi * f))**2
    let background = Background { ar1: 0.6, variance: 2.5 };
    near(background.at(0.05), 7.314_881_590_531_902);
    near(background.at(0.3), 0.924_417_118_171_171_4);
    // numpy.linalg.lstsq of [1, cos(2 pi f t), sin(2 pi f t)] at f = 0.1432.
    let wave = Wave::of(&points, 0.143_2);
    near(wave.amplitude(), 0.873_442_902_756_696_7);
    near(wave.crest(), 6.774_033_303_215_638);
}

#[test]
fn the_likelihood_is_that_of_statsmodels() {
    let points = known();
    let mean = points.iter().map(|p| p.1).sum::<f64>() / 40.0;
    let even: Vec<(f64, f64)> = points.iter().enumerate().map(|(i, p)| (i as f64, p.1 - mean)).collect();
    // ARIMA(y - mean, order=(1, 0, 0), trend="n").loglike([phi, best variance]), statsmodels 0.15.
    let (likelihood, variance) = Background::log_likelihood(&even, 0.3);
    near(likelihood, -43.878_685_474_243_31);
    near(variance, 0.575_802_890_863_751_8);
    near(Background::log_likelihood(&even, 0.8).0, -48.898_104_424_838_32);
}

/// Distance of a time from midnight, in hours.
fn from_midnight_h(t: f64) -> f64 {
    (t % DAY).min(DAY - t % DAY) / 3_600.0
}

#[test]
fn the_crest_of_a_day_is_that_of_the_days_however_the_noise_moves_the_peak() {
    let mut off = Vec::new();
    for seed in 0..24 {
        let mut points = red(seed, WEEKS_2, 0.7);
        wave(&mut points, DAY, 0.5);
        let found = cycles_by_the_clock(&points, 0.01, &|_| 0.0).cycles;
        for day in found.iter().filter(|cycle| cycle.clock == Some(Clock::Day)) {
            assert!((day.period_s - DAY).abs() < 1e-6, "{day:?}");
            off.push(from_midnight_h(
                day.window.as_ref().map_or(day.crest_s, |w| w.from_s.midpoint(w.last_s)),
            ));
        }
    }
    // The noise moves the crest by 0.4 h (one standard deviation), whatever the period is.
    off.sort_by(f64::total_cmp);
    assert!(off.len() >= 22 && off[off.len() / 2] < 0.5 && off[off.len() - 1] < 1.3, "{off:?}");
}

#[test]
fn a_cycle_that_is_certainly_not_a_day_is_not_called_one() {
    for period_h in [23.6, 24.4] {
        let mut points = red(1, WEEKS_2, 0.3);
        wave(&mut points, period_h * 3_600.0, 1.0);
        let found = cycles_by_the_clock(&points, 0.01, &|_| 0.0).cycles;
        let [one] = &found[..] else { panic!("{found:?}") };
        assert!(one.clock.is_none() && (one.period_s / 3_600.0 - period_h).abs() < 0.1, "{one:?}");
    }
}

/// A rise of 40 from two to three, on days of the week for which `is_on` holds; four weeks of values every
/// 30 minutes, beside noise of 5.
fn at_two(seed: u64, is_on: impl Fn(u32) -> bool) -> Vec<(f64, f64)> {
    let mut chance = SplitMix(seed);
    let value = |i: u32| {
        let is_in = (4..6).contains(&(i % 48)) && is_on(i / 48 % 7);
        (
            19_000.0 * DAY + 1_800.0 * f64::from(i),
            100.0 + 5.0 * chance.normal() + if is_in { 40.0 } else { 0.0 },
        )
    };
    (0..28 * 48).map(value).collect()
}

#[test]
fn a_daily_job_that_a_weekly_cycle_contains_is_a_daily_cycle_too() {
    for seed in 0..3 {
        for days in [5, 6] {
            let found = cycles_by_the_clock(&at_two(seed, |day| day < days), 0.01, &|_| 0.0).cycles;
            let what = format!("{seed}, {days} days: {found:?}");
            let of = |clock| found.iter().find(|cycle| cycle.clock == Some(clock));
            let (Some(day), Some(_)) = (of(Clock::Day), of(Clock::Week)) else { panic!("{what}") };
            let window = day.window.as_ref().expect(&what);
            let rest = of(Clock::Week).and_then(|week| week.window.as_ref());
            // What the days off lack is the weekly part; the days on are alike.
            assert!(rest.is_none_or(|rest| rest.change < 0.0), "{what}");
            assert!((window.from_s % DAY / 3_600.0 - 2.0).abs() < 0.1, "{what}");
            assert!(of(Clock::Week).is_some_and(|week| !week.harmonics.contains(&7)), "{what}");
        }
        // A job on two days of the week is not a daily cycle.
        let found = cycles_by_the_clock(&at_two(seed, |day| day % 3 == 1 && day < 6), 0.01, &|_| 0.0).cycles;
        assert!(found.iter().all(|cycle| cycle.clock != Some(Clock::Day)), "{seed}: {found:?}");
    }
}

#[test]
fn a_part_of_a_cycle_whose_interval_includes_no_difference_is_not_told() {
    let of = |rises: [f64; 4]| {
        let mut chance = SplitMix(5);
        let value = |i: usize| {
            let rise = if i % 48 < 4 { rises[i / 48] } else { 0.0 };
            (1_800.0 * i as f64, 100.0 + chance.normal() + rise)
        };
        let points: Vec<(f64, f64)> = (0..192).map(value).collect();
        let window = Window::of(&points, DAY, 1_800.0).unwrap();
        (window.is_apart(), window.interval.clone().unwrap().0 > 0.0)
    };
    assert_eq!(of([9.0, 10.0, 11.0, 10.0]), (true, true));
    assert_eq!(of([30.0, 1.0, 25.0, 0.0]), (false, false));
}

#[test]
fn a_number_of_cycles_below_three_is_not_printed_as_three() {
    assert_eq!(
        [0.4, 2.94, 2.97, 2.999, 2.999_999_9].map(too_few),
        ["0.4", "2.9", "2.97", "2.999", "just under 3"]
    );
    // 20 days and 19 hours.
    let points: Vec<(f64, f64)> = (0..500).map(|i| (3_600.0 * f64::from(i), f64::from(i % 7))).collect();
    let found = cycles(&points, 0.01);
    let week = found.cannot_tell.iter().find(|one| one.why.starts_with("a week")).unwrap();
    assert_eq!(week.why, "a week: 2.97 cycles in the span, 3 needed");
}
