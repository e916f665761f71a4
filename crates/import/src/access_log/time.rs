//! Times in access logs, each with its resolution.

/// A moment in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Nanoseconds since 1970-01-01 UTC; a time without a zone counts as UTC.
    pub(super) ns: i64,
    /// Distance to the next moment that the log can write.
    pub(super) resolution_ns: u64,
}

const SECOND_NS: i64 = 1_000_000_000;

/// Years in which 64 bits of nanoseconds suffice.
const YEARS: std::ops::RangeInclusive<i64> = 1970..=2200;

/// Parses `10/Oct/2000:13:55:36 -0700`; with a fraction of a second, as in `13:55:36.123 -0700`.
pub(super) fn clf(text: &[u8]) -> Option<Stamp> {
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let (head, rest) = text.split_at_checked(20)?;
    let separators = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':')];
    if separators.iter().any(|(at, byte)| head[*at] != *byte) {
        return None;
    }
    let month = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(&head[3..6]))?;
    let month = i64::try_from(month).ok()? + 1;
    let date = days(number(&head[7..11])?, month, number(&head[..2])?)?;
    let clock = clock(number(&head[12..14])?, number(&head[15..17])?, number(&head[18..20])?)?;
    let (fraction_ns, resolution_ns, rest) = fraction(rest)?;
    let offset_s = offset(rest.trim_ascii())?;
    stamp(date, clock - offset_s, fraction_ns, resolution_ns)
}

/// Parses ISO 8601: `2024-03-31T02:15:00.123+02:00`, with a blank in place of the `T`, with a comma in place
/// of the point, and without a zone.
pub(super) fn iso(text: &[u8]) -> Option<Stamp> {
    let (head, rest) = text.trim_ascii().split_at_checked(19)?;
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| head[*at] != *byte) || !matches!(head[10], b'T' | b't' | b' ') {
        return None;
    }
    let date = days(number(&head[..4])?, number(&head[5..7])?, number(&head[8..10])?)?;
    let clock = clock(number(&head[11..13])?, number(&head[14..16])?, number(&head[17..19])?)?;
    let (fraction_ns, resolution_ns, rest) = fraction(rest)?;
    let offset_s = offset(rest.trim_ascii())?;
    stamp(date, clock - offset_s, fraction_ns, resolution_ns)
}

/// Smallest number of seconds that is a time, of 1973: smaller numbers are durations.
const SECONDS_MIN: i64 = 100_000_000;

/// Parses a number of seconds, milliseconds, microseconds or nanoseconds since 1970, by its size.
pub(super) fn unix(text: &str) -> Option<Stamp> {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    let number: i64 = whole.parse().ok().filter(|n: &i64| *n >= SECONDS_MIN)?;
    let unit_ns = match number {
        0..100_000_000_000 => SECOND_NS,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (mut fraction_ns, mut resolution_ns) = (0, unit_ns);
    for digit in digits.bytes() {
        if resolution_ns < 10 {
            break;
        }
        resolution_ns /= 10;
        fraction_ns += i64::from(digit - b'0') * resolution_ns;
    }
    let ns = number.checked_mul(unit_ns)?.checked_add(fraction_ns)?;
    Some(Stamp { ns, resolution_ns: resolution_ns.unsigned_abs() })
}

fn stamp(days: i64, seconds: i64, fraction_ns: i64, resolution_ns: u64) -> Option<Stamp> {
    let seconds = days.checked_mul(86_400)?.checked_add(seconds)?;
    Some(Stamp { ns: seconds.checked_mul(SECOND_NS)?.checked_add(fraction_ns)?, resolution_ns })
}

/// Number of digits only.
fn number(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| 10 * sum + i64::from(b - b'0')))
}

/// Days since 1970-01-01, in the Gregorian calendar.
///
/// # Source
///
/// Fliegel and van Flandern, *A machine algorithm for processing calendar dates*, CACM 11 (1968).
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return None,
    };
    if !YEARS.contains(&year) || !(1..=length).contains(&day) {
        return None;
    }
    let a = (month - 14) / 12;
    let julian = day - 32_075 + 1_461 * (year + 4_800 + a) / 4 + 367 * (month - 2 - a * 12) / 12
        - 3 * ((year + 4_900 + a) / 100) / 4;
    Some(julian - 2_440_588)
}

/// Seconds since midnight; a log may contain a leap second.
fn clock(hour: i64, minute: i64, second: i64) -> Option<i64> {
    (hour < 24 && minute < 60 && second <= 60).then_some(3_600 * hour + 60 * minute + second)
}

/// Reads a fraction of a second, if there is one; its value, its resolution, and the rest.
fn fraction(text: &[u8]) -> Option<(i64, u64, &[u8])> {
    let Some(digits) = text.strip_prefix(b".").or_else(|| text.strip_prefix(b",")) else {
        return Some((0, SECOND_NS.unsigned_abs(), text));
    };
    let length = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let (mut ns, mut resolution_ns) = (0, SECOND_NS);
    for digit in digits[..length].iter().take(9) {
        resolution_ns /= 10;
        ns += i64::from(digit - b'0') * resolution_ns;
    }
    (length > 0).then(|| (ns, resolution_ns.unsigned_abs(), &digits[length..]))
}

/// Seconds east of UTC: `Z`, `+0200`, `-03:30`, or nothing.
fn offset(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        b"" | b"Z" | b"z" => return Some(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        [a, b, c, d] | [a, b, b':', c, d] => (number(&[*a, *b])?, number(&[*c, *d])?),
        [a, b] => (number(&[*a, *b])?, 0),
        _ => return None,
    };
    (hours <= 18 && minutes < 60).then_some(sign * (3_600 * hours + 60 * minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds, nanoseconds after them, and resolution.
    fn parts(stamp: Option<Stamp>) -> Option<(i64, i64, u64)> {
        stamp.map(|Stamp { ns, resolution_ns }| (ns / SECOND_NS, ns % SECOND_NS, resolution_ns))
    }

    #[test]
    fn times_are_read_to_their_resolution() {
        // The expected seconds are those of `date -u -d ... +%s`.
        let clf = |text: &str| parts(clf(text.as_bytes()));
        assert_eq!(clf("10/Oct/2000:13:55:36 -0700"), Some((971_211_336, 0, 1_000_000_000)));
        assert_eq!(clf("29/Feb/2024:00:00:00 +0000"), Some((1_709_164_800, 0, 1_000_000_000)));
        assert_eq!(clf("10/Oct/2000:13:55:36.123 -0700"), Some((971_211_336, 123_000_000, 1_000_000)));
        assert_eq!(clf("31/Dec/2016:23:59:60 +0000"), Some((1_483_228_800, 0, 1_000_000_000)));
        for wrong in [
            "29/Feb/2023:00:00:00 +0000",
            "10/Okt/2000:13:55:36 -0700",
            "10/Oct/2000:24:55:36 -0700",
            "",
            "x",
        ] {
            assert_eq!(clf(wrong), None, "{wrong}");
        }
        let iso = |text: &str| parts(iso(text.as_bytes()));
        assert_eq!(iso("2024-03-31T02:15:00.123456+02:00"), Some((1_711_844_100, 123_456_000, 1_000)));
        assert_eq!(iso("2024-03-31 00:15:00,5Z"), Some((1_711_844_100, 500_000_000, 100_000_000)));
        assert_eq!(iso("2024-03-31T00:15:00"), Some((1_711_844_100, 0, 1_000_000_000)));
        assert_eq!(iso("2024-13-31T00:15:00Z"), None);
        assert_eq!(iso("2024-03-31T00:15:00."), None);
        let unix = |text| parts(unix(text));
        assert_eq!(unix("1711844100.250"), Some((1_711_844_100, 250_000_000, 1_000_000)));
        assert_eq!(unix("1711844100250"), Some((1_711_844_100, 250_000_000, 1_000_000)));
        assert_eq!(unix("1711844100250000"), Some((1_711_844_100, 250_000_000, 1_000)));
        assert_eq!(unix("1711844100250000001"), Some((1_711_844_100, 250_000_001, 1)));
        assert_eq!(unix("1711844100.1234567891"), Some((1_711_844_100, 123_456_789, 1)));
        for wrong in ["", "-1", "1.x", "1e9", "99999999999999999999"] {
            assert_eq!(unix(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_hour_that_a_clock_repeats_is_two_hours_with_its_offset() {
        let ns = |text: &str| clf(text.as_bytes()).unwrap().ns;
        let summer = ns("27/Oct/2024:02:59:59 +0200");
        let winter = ns("27/Oct/2024:02:00:00 +0100");
        assert_eq!(winter - summer, SECOND_NS);
    }
}
