use analysis::history::Numbers;

use super::*;

fn check(cases: &[(f64, &str)], write: impl Fn(f64) -> String) {
    for (value, text) in cases {
        assert_eq!(write(*value), *text, "{value}");
    }
}

#[test]
fn a_rate_above_nothing_is_not_printed_as_nothing() {
    assert_eq!([rate(1.0 / 3_600.0), rate(0.0005), rate(0.0)], ["2.78e-4", "0.001", "0.000"]);
}

#[test]
fn latencies_keep_three_digits_across_every_unit() {
    check(
        &[
            (1.0, "1 ns"),
            (999.4, "999 ns"),
            (999.6, "1.00 us"),
            (12_340.0, "12.3 us"),
            (999_600.0, "1.00 ms"),
            (4_560_000.0, "4.56 ms"),
            (123_400_000.0, "123 ms"),
            (61e9, "61.0 s"),
            (3_600e9, "3,600 s"),
        ],
        latency,
    );
}

#[test]
fn numbers_read_as_people_write_them() {
    check(
        &[(0.0, "0"), (0.001_2, "0.00120"), (0.5, "0.500"), (9.999, "10.0"), (1_234.5, "1,234")],
        significant,
    );
    check(&[(499.98, "499.98"), (0.5, "0.500"), (12_345.6, "12,346"), (1_234.56, "1,234.6")], rate);
    check(&[(0.123, "12.3 %"), (-0.000_1, "0.0 %"), (1.0, "100.0 %")], percent);
    check(&[(0.01, "1 %"), (0.005, "0.5 %"), (0.1, "10 %")], share);
    check(
        &[
            (1.081, "+8.1 %"),
            (0.996_6, "-0.34 %"),
            (1.16, "+16 %"),
            (1.994, "+99 %"),
            (1.996, "2.0x"),
            (9.12, "9.1x"),
            (123.4, "123x"),
            (1.0, "0 %"),
            (0.5, "-50 %"),
            (0.001, "-99.90 %"),
            (0.0, "-100.00 %"),
            (f64::INFINITY, "over 1,000,000x"),
        ],
        change,
    );
    check(&[(0.000_4, "<0.001"), (0.031_25, "0.031"), (0.5, "0.50")], p_value);
    check(
        &[(60.0, "60 s"), (0.25, "250 ms"), (200.0, "3 min 20 s"), (7_500.0, "2 h 5 min"), (180.0, "3 min")],
        span,
    );
    assert_eq!(count(1_234_567), "1,234,567");
}

#[test]
fn a_number_of_foreign_magnitude_is_short() {
    check(&[(1e300, "1.00e300"), (-2e15, "-2.00e15"), (9e14, "900,000,000,000,000")], significant);
    check(&[(1e300, "1.000e300"), (-1e300, "-1.000e300")], significant_4);
    check(&[(1e300, "1.00e300")], rate);
    check(&[(1e300, "1.00e302 %"), (51.03, "5103.0 %")], percent);
    check(&[(0.05, "5.0 %"), (0.999_9, "1.0x"), (51.03, "51.0x"), (1e300, "1.00e300x")], spread);
    check(&[(1e300, "1.00e291 s"), (-1e300, "-1.00e291 s")], latency);
    let metrics = [Metric::Throughput, Metric::P99, Metric::IoPerEvent, Metric::EnergyPerEvent];
    assert!(metrics.iter().all(|metric| metric_value(*metric, 1e300).len() < 12));
    let ends = metric_ends_beside(Metric::P99, 1e300, (0.999e300, 1.001e300));
    assert!(ends.0.len() < 12 && ends.1.len() < 12, "{ends:?}");
    assert!(change_interval(1e-300, 1e300).len() < 30);
}

#[test]
fn long_spans_are_days_and_hours() {
    check(
        &[
            (90.0, "90 s"),
            (48_000.0, "13 h 20 min"),
            (86_395.0, "1 day"),
            (612_000.0, "7 days 2 h"),
            (1_209_300.0, "14 days"),
        ],
        long_span,
    );
}

#[test]
fn a_number_of_a_table_has_no_unit_even_under_a_name_of_ours() {
    let key = |metric: &str, numbers| Key {
        metric: metric.into(),
        subject: String::new(),
        host: String::new(),
        numbers,
    };
    for name in ["time", "cpu-time", "p99"] {
        check(&[(0.002, "2.00 ms"), (0.0, "0 ns")], |v| named_value(&key(name, Numbers::Ours), v));
    }
    for name in ["x", "time", "p99", "cpu", "lock-cpu"] {
        let of_table = key(name, Numbers::OfFile(String::new()));
        check(&[(0.002, "0.00200"), (12.5, "12.50"), (-3.0, "-3.000")], |v| named_value(&of_table, v));
        check(&[(0.002, "2.00 ms"), (-0.002, "-2.00 ms")], |v| {
            named_value(&key(name, Numbers::OfFile("s".into())), v)
        });
        let of_ticks = key(name, Numbers::OfFile("ticks".into()));
        assert_eq!(
            (named_value(&of_ticks, 7.0), axis_value(&of_ticks, 7.0)),
            ("7.000 ticks".into(), "7.000".into())
        );
        assert_eq!(change_named(&of_table, 1.05), "+5.0 %");
        assert_eq!(interval_named(&of_table, 1.05, 1.06), "[+5.0 %, +6.0 %]");
    }
}

#[test]
fn dates_are_told_in_utc() {
    assert_eq!(date_time(1_795_254_723_250_000_000), "2026-11-21 09:52 UTC");
    assert_eq!(rfc3339(1_795_254_723_250_000_000), "2026-11-21T09:52:03.250Z");
}

#[test]
fn an_interval_is_rounded_outwards() {
    // The unkind end: one that nearest rounding would move inwards.
    assert_eq!(change_interval(1.0706, 1.0914), "[+7.0 %, +9.2 %]");
    assert_eq!(change_interval(0.8849, 0.9951), "[-12 %, -0.49 %]");
    assert_eq!(change_interval(1.165, 1.174), "[+16 %, +18 %]");
    assert_eq!(change_interval(5.26, 10.12), "[5.2x, 10.2x]");
    assert_eq!(change_interval(0.999_97, 1.000_03), "[-0.01 %, +0.01 %]");
    // No difference is outside, and reads so.
    assert_eq!(change_interval(1.000_03, 1.02), "[+0.003 %, +2.0 %]");
    assert_eq!(change_interval(0.98, 0.999_98), "[-2.0 %, -0.002 %]");
    assert_eq!(change_interval(1.000_4, 2.5), "[1.0004x, 2.5x]");
    assert_eq!(change_interval(1.0, 2.5), "[1.00x, 2.5x]");
    let ends = |low, high| outward((low, high), latency);
    assert_eq!(ends(4_566_000.0, 4_561_000.0), ("4.56 ms".to_owned(), "4.57 ms".to_owned()));
    assert_eq!(ends(4_560_000.0, 4_560_000.0), ("4.56 ms".to_owned(), "4.56 ms".to_owned()));
    assert_eq!(ends(999_700.0, 999_600.0), ("990 us".to_owned(), "1.00 ms".to_owned()));
    let rates = outward((1_234.6, 1_234.4), significant);
    assert_eq!(rates, ("1,234".to_owned(), "1,235".to_owned()));
    assert_eq!(outward((0.0, 850e6), bandwidth), ("0 kB/s".to_owned(), "850 MB/s".to_owned()));
}

#[test]
fn points_are_differences_of_shares_however_large_these_are() {
    let value = |share: f64| share.exp();
    assert_eq!(change_of(Metric::LockCpu, value(0.8) / value(0.5)), "+30.0 pp");
    assert_eq!(change_interval_of(Metric::MemoryGrowth, value(-1.0), value(2.0)), "[-100.0 pp, +200.0 pp]");
    assert_eq!(metric_value(Metric::LockCpu, value(0.8)), "80.0 %");
    assert_eq!(metric_value(Metric::LockCpu, value(0.0)), "0 %");
    assert!((plain(Metric::LockCpu, value(0.8)) - 1.8).abs() < 1e-12);
}

#[test]
fn both_ends_of_an_interval_have_one_form() {
    assert_eq!(change_interval(1.07, 1.092), "[+7.0 %, +9.2 %]");
    assert_eq!(change_interval(0.086, 14.6), "[0.086x, 14.6x]");
    assert_eq!(change_interval(0.5, 2e6), "[0.50x, over 1,000,000x]");
    assert_eq!(change_interval(1.9, 1.99), "[+90 %, +99 %]");
    assert_eq!(change_interval(0.0, f64::INFINITY), "[0.000x, over 1,000,000x]");
}

#[test]
fn a_time_of_an_archive_from_elsewhere_is_never_infinite() {
    assert_eq!(metric_value(Metric::Time, 1e308), "1.00e308 s");
    assert_eq!(metric_value(Metric::P99, -1e300), "-1.00e300 s");
}
