//! Units of numbers that other programs wrote, as far as they convert without doubt.

/// Largest number, positive or negative, that counts as measured: sums, squares and products of such numbers
/// are finite.
pub const NUMBER_MAX: f64 = 1e60;

/// A value and its unit, converted to the base unit of its kind: `s`, `bytes`, `bits`, `%`, or a quotient of
/// them, such as `bytes/s`, `1/s` and `s/op`.
///
/// A unit that is not known, or that may mean two things (`m`, `b`), stays as it is. `kB` and `KB` are 1000
/// bytes. A submultiple is divided, not multiplied by an inexact fraction: 12.5 ms is 0.0125 s to the last
/// digit.
pub fn in_base_unit(value: f64, unit: &str) -> (f64, String) {
    let unit = unit.trim();
    let converted = known(unit).map(|known| (value * known.times / known.over, known.base));
    // Of a number at the edge of the range the converted one may be infinite.
    converted.filter(|(value, _)| value.is_finite()).unwrap_or_else(|| (value, unit.to_owned()))
}

/// A unit: this many of the base unit, as a quotient.
struct Known {
    base: String,
    times: f64,
    over: f64,
}

fn known(unit: &str) -> Option<Known> {
    let Some((of, per)) = unit.rsplit_once('/') else {
        return frequency(unit).or_else(|| amount(unit));
    };
    let (of, per) = (of.trim(), per.trim());
    let one = |base: &str| Known { base: base.to_owned(), times: 1.0, over: 1.0 };
    let (known_of, known_per) = (amount(of), time(per));
    if per.is_empty() || (known_of.is_none() && known_per.is_none()) {
        return None;
    }
    let of = known_of.unwrap_or_else(|| one(if of.is_empty() { "1" } else { of }));
    let per = known_per.unwrap_or_else(|| one(per));
    let base = format!("{}/{}", of.base, per.base);
    Some(Known { base, times: of.times * per.over, over: of.over * per.times })
}

fn amount(unit: &str) -> Option<Known> {
    if matches!(unit.to_lowercase().as_str(), "%" | "percent" | "pct") {
        return Some(Known { base: "%".to_owned(), times: 1.0, over: 1.0 });
    }
    time(unit).or_else(|| information(unit))
}

fn time(unit: &str) -> Option<Known> {
    let (times, over) = match unit.to_lowercase().as_str() {
        "ns" | "nsec" | "nanosecond" | "nanoseconds" => (1.0, 1e9),
        // The sign for micro and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" | "usec" | "microsecond" | "microseconds" => (1.0, 1e6),
        "ms" | "msec" | "millisecond" | "milliseconds" => (1.0, 1e3),
        "s" | "sec" | "secs" | "second" | "seconds" => (1.0, 1.0),
        "min" | "mins" | "minute" | "minutes" => (60.0, 1.0),
        "h" | "hr" | "hour" | "hours" => (3_600.0, 1.0),
        "d" | "day" | "days" => (86_400.0, 1.0),
        _ => return None,
    };
    Some(Known { base: "s".to_owned(), times, over })
}

/// Bytes and bits. `b` alone may be either.
fn information(unit: &str) -> Option<Known> {
    let lower = unit.to_lowercase();
    let bits = lower.strip_suffix("bits").or_else(|| lower.strip_suffix("bit"));
    let (prefix, base) =
        if let Some(prefix) = lower.strip_suffix("bytes").or_else(|| lower.strip_suffix("byte")) {
            (prefix, "bytes")
        } else if let Some(prefix) = bits {
            (prefix, "bits")
        } else {
            (lower.strip_suffix('b').filter(|_| unit.ends_with('B'))?, "bytes")
        };
    let times = match prefix {
        "" => 1.0,
        "k" | "kilo" => 1e3,
        "m" | "mega" => 1e6,
        "g" | "giga" => 1e9,
        "t" | "tera" => 1e12,
        "ki" | "kibi" => 1_024.0,
        "mi" | "mebi" => 1_048_576.0,
        "gi" | "gibi" => 1_073_741_824.0,
        "ti" | "tebi" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(Known { base: base.to_owned(), times, over: 1.0 })
}

fn frequency(unit: &str) -> Option<Known> {
    let times = match unit {
        "Hz" => 1.0,
        "kHz" => 1e3,
        "MHz" => 1e6,
        "GHz" => 1e9,
        _ => return None,
    };
    Some(Known { base: "1/s".to_owned(), times, over: 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_unit_becomes_the_base_unit_of_its_kind() {
        for (value, unit, expected, base) in [
            (12.5, "ms", 0.0125, "s"),
            (12.7, " MS ", 0.0127, "s"),
            (12_800.0, "\u{b5}s", 0.0128, "s"),
            (12_800.0, "\u{3bc}s", 0.0128, "s"),
            (12_800.0, "us", 0.0128, "s"),
            (41.0, "ns", 41e-9, "s"),
            (0.3, "Seconds", 0.3, "s"),
            (1.5, "min", 90.0, "s"),
            (2.0, "h", 7_200.0, "s"),
            (7.0, "B", 7.0, "bytes"),
            (2.0, "KiB", 2_048.0, "bytes"),
            (2.0, "kB", 2_000.0, "bytes"),
            (2.0, "KB", 2_000.0, "bytes"),
            (2.0, "megabytes", 2e6, "bytes"),
            (3.0, "Mbit/s", 3e6, "bits/s"),
            (85.0, "percent", 85.0, "%"),
            (5.0, "/s", 5.0, "1/s"),
            (5.0, "1/sec", 5.0, "1/s"),
            (120.0, "/min", 2.0, "1/s"),
            (2.0, "/ms", 2_000.0, "1/s"),
            (2.0, "kHz", 2_000.0, "1/s"),
            (1.5, "MB/s", 1.5e6, "bytes/s"),
            (120.0, "requests/min", 2.0, "requests/s"),
            (250.0, "ns/op", 250e-9, "s/op"),
            (64.0, "B/op", 64.0, "bytes/op"),
        ] {
            assert_eq!(in_base_unit(value, unit), (expected, base.to_owned()), "{unit}");
            assert_eq!(in_base_unit(expected, base), (expected, base.to_owned()), "a base unit stays");
        }
    }

    #[test]
    fn a_unit_that_is_unknown_or_may_mean_two_things_stays() {
        for unit in
            ["", "m", "b", "Mb", "mHz", "ticks", "K", "op/x", "1 + share", "/", "s/", "rabbit", "Ms^2"]
        {
            assert_eq!(in_base_unit(2.0, unit), (2.0, unit.to_owned()));
        }
        assert_eq!(in_base_unit(1e308, "TB"), (1e308, "TB".to_owned()), "the converted number is too large");
    }
}
