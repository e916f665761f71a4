//! Notation of quantities: `10ms`, `500/s`, `256KiB`, `1%`. One parser for the command line and for plans.

use std::time::Duration;

/// Longest duration that is accepted: ten years. Sums of a few stay far below 2^63 ns.
pub const DURATION_MAX: Duration = Duration::from_hours(3_650 * 24);

/// Error for a text that is not the expected quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {expected}")]
pub struct NotAQuantity {
    /// The text.
    pub found: String,
    /// Expected quantity, with examples: `a duration such as 200ms, 5s or 2m`.
    pub expected: &'static str,
}

/// A span of time as people say it: `250 ms`, `1.5 s`, `3 min 20 s`, `2 h 5 min`.
pub fn span(seconds: f64) -> String {
    if seconds < 1.0 {
        let decimals = [(0.009_95, 2), (0.099_5, 1)].iter().find(|(below, _)| seconds < *below);
        return format!("{} ms", short(seconds * 1e3, decimals.map_or(0, |(_, decimals)| *decimals)));
    }
    if seconds < 120.0 {
        return format!("{} s", short(seconds, 1));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a duration in seconds, for display"
    )]
    let (whole, minutes) = (seconds.round() as u64, (seconds / 60.0).round() as u64);
    let (big, big_unit, small, small_unit) = if whole < 7_200 {
        (whole / 60, "min", whole % 60, "s")
    } else {
        (minutes / 60, "h", minutes % 60, "min")
    };
    if small == 0 { format!("{big} {big_unit}") } else { format!("{big} {big_unit} {small} {small_unit}") }
}

/// `1 event`, `6 events`.
pub fn plural(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// The value with at most this number of decimals.
fn short(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Parses `500us`, `10ms`, `5s`, `2m`, `1.5h`, `1d`; `0` needs no unit.
///
/// # Errors
///
/// [`NotAQuantity`] if the unit is missing or unknown, the number is negative or invalid, or the duration is
/// longer than [`DURATION_MAX`].
pub fn duration(text: &str) -> Result<Duration, NotAQuantity> {
    let wrong = || NotAQuantity { found: text.to_owned(), expected: "a duration such as 200ms, 5s or 2m" };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (number, unit) = split_unit(text);
    let seconds_per_unit = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let value = positive_number(number).ok_or_else(wrong)?;
    let too_long =
        || NotAQuantity { found: text.to_owned(), expected: "a duration of at most 3650d (ten years)" };
    let time = Duration::try_from_secs_f64(value * seconds_per_unit).map_err(|_| too_long())?;
    if time > DURATION_MAX { Err(too_long()) } else { Ok(time) }
}

/// Formats a duration in the largest unit that divides it, so [`duration`] parses it without loss.
pub fn written_duration(time: Duration) -> String {
    const UNITS: [(u128, &str); 5] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
    ];
    let ns = time.as_nanos();
    let unit = UNITS.into_iter().find(|(unit_ns, _)| ns.is_multiple_of(*unit_ns));
    match unit {
        _ if ns == 0 => "0".to_owned(),
        Some((unit_ns, unit)) => format!("{}{unit}", ns / unit_ns),
        None => format!("{ns}ns"),
    }
}

/// Parses a rate per second: `500`, `0.5`, `500/s`, `30/m`, `7200/h`.
///
/// # Errors
///
/// [`NotAQuantity`] if it is not a number over 0 with one of these units.
pub fn rate_per_s(text: &str) -> Result<f64, NotAQuantity> {
    let wrong = || NotAQuantity {
        found: text.to_owned(),
        expected: "a rate over 0 such as 500, 0.5, 500/s or 30/m (without a rate, the load runs at full speed)",
    };
    let (number, per) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match per {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return Err(wrong()),
    };
    let rate = positive_number(number.trim()).ok_or_else(wrong)? / seconds;
    if rate > 0.0 { Ok(rate) } else { Err(wrong()) }
}

/// Parses a size in bytes: `4096`, `256KiB`, `1.5GiB`, `10MB`.
///
/// # Errors
///
/// [`NotAQuantity`] if the unit is unknown or the number is negative, invalid or too large.
pub fn bytes(text: &str) -> Result<u64, NotAQuantity> {
    let wrong = || NotAQuantity { found: text.to_owned(), expected: "a size such as 4096, 256KiB or 1GB" };
    let (number, unit) = split_unit(text);
    let bytes_per_unit = match unit {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "TiB" => 1_099_511_627_776.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return Err(wrong()),
    };
    let value = positive_number(number).ok_or_else(wrong)? * bytes_per_unit;
    if value >= 9_007_199_254_740_992.0 {
        return Err(wrong());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 2^53, checked above"
    )]
    Ok(value.round() as u64)
}

/// Parses the speed of a link in bits per second: `10Gbit`, `2.5Gbit`, `100Mbit`, `9600bit`.
///
/// # Errors
///
/// [`NotAQuantity`] if the unit is missing or unknown, or the number is not over 0.
pub fn bits_per_s(text: &str) -> Result<u64, NotAQuantity> {
    let wrong =
        || NotAQuantity { found: text.to_owned(), expected: "a link's speed such as 100Mbit or 25Gbit" };
    let (number, unit) = split_unit(text);
    let bits_per_unit = match unit {
        "bit" => 1.0,
        "kbit" => 1e3,
        "Mbit" => 1e6,
        "Gbit" => 1e9,
        "Tbit" => 1e12,
        _ => return Err(wrong()),
    };
    let value = positive_number(number).ok_or_else(wrong)? * bits_per_unit;
    if !(1.0..9_007_199_254_740_992.0).contains(&value) {
        return Err(wrong());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and 2^53, checked above"
    )]
    Ok(value.round() as u64)
}

/// Parses a percentage as a ratio: `1%`, `0.5%`, or `0`.
///
/// # Errors
///
/// [`NotAQuantity`] if the percent sign is missing (`0.01` may mean 1 % or 0.01 %), or the number is negative
/// or invalid.
pub fn ratio(text: &str) -> Result<f64, NotAQuantity> {
    let wrong = || NotAQuantity { found: text.to_owned(), expected: "a percentage such as 1% or 0.5%" };
    if text == "0" {
        return Ok(0.0);
    }
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    positive_number(number.trim()).map(|v| v / 100.0).ok_or_else(wrong)
}

fn split_unit(text: &str) -> (&str, &str) {
    let unit_at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    (text[..unit_at].trim(), &text[unit_at..])
}

/// Digits with at most one point; no sign, no exponent, no `inf`.
fn positive_number(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, ms) in
            [("10ms", 10), ("5s", 5_000), ("2m", 120_000), ("1.5s", 1_500), ("0", 0), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(duration("3650d"), Ok(DURATION_MAX));
        for text in ["500000d", "3651d", "99999999999d", "9999999999999999999999d"] {
            let error = duration(text).unwrap_err().to_string();
            assert_eq!(error, format!("`{text}` is not a duration of at most 3650d (ten years)"));
        }
        for text in ["", "5", "s", "-1s", "1e3s", "5 parsecs", "infs", "nans", "9999999999999999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_that_is_written_reads_back() {
        for ns in [0, 1, 1_500, 250_000, 1_500_000_000, 60_000_000_000, 86_400_000_000_000, 123_456_789] {
            let time = Duration::from_nanos(ns);
            assert_eq!(duration(&written_duration(time)), Ok(time), "{}", written_duration(time));
        }
        assert_eq!(written_duration(Duration::from_millis(1_500)), "1500ms");
    }

    #[test]
    fn a_rate_is_over_nothing_per_second() {
        for (text, per_s) in [("500", 500.0), ("0.5", 0.5), ("500/s", 500.0), ("30/m", 0.5), ("7200/h", 2.0)]
        {
            assert_eq!(rate_per_s(text), Ok(per_s), "{text}");
        }
        for text in ["0", "-5", "0/s", "", "fast", "5/y", "inf", "1e9"] {
            assert!(rate_per_s(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_tell_binary_from_decimal_units() {
        for (text, n) in
            [("0", 0), ("4096", 4096), ("256KiB", 262_144), ("1MB", 1_000_000), ("1.5GiB", 1_610_612_736)]
        {
            assert_eq!(bytes(text), Ok(n), "{text}");
        }
        for text in ["-1", "1Kb", "KiB", "99999999999TiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_speed_of_a_link_has_a_unit() {
        for (text, n) in [("10Gbit", 10_000_000_000), ("2.5Gbit", 2_500_000_000), ("100Mbit", 100_000_000)] {
            assert_eq!(bits_per_s(text), Ok(n), "{text}");
        }
        for text in ["10", "0Gbit", "-1Gbit", "Gbit", "10GB", "9999999Tbit"] {
            assert!(bits_per_s(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_read_as_people_say_them() {
        for (seconds, text) in [
            (0.0, "0 ms"),
            (0.000_25, "0.25 ms"),
            (0.012_34, "12.3 ms"),
            (0.25, "250 ms"),
            (1.0, "1 s"),
            (1.54, "1.5 s"),
            (59.0, "59 s"),
            (60.0, "60 s"),
            (180.0, "3 min"),
            (200.0, "3 min 20 s"),
            (7_500.0, "2 h 5 min"),
            (32_399.01, "9 h"),
            (7_229.0, "2 h"),
            (7_231.0, "2 h 1 min"),
            (16_800.0, "4 h 40 min"),
        ] {
            assert_eq!(span(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn a_share_says_its_percent_sign() {
        assert_eq!(ratio("1%"), Ok(0.01));
        assert_eq!((ratio("0"), ratio("0%")), (Ok(0.0), Ok(0.0)), "nothing is nothing in any unit");
        assert_eq!(ratio("0.5 %"), Ok(0.005));
        for text in ["0.01", "%", "-1%", "one%"] {
            assert!(ratio(text).is_err(), "{text}");
        }
    }
}
