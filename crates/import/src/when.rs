//! Dates in logs, as tools and people write them.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{Date, Time};

use crate::fields::{Field, Fields, whole};

const EPOCH: Date = Date::constant(1970, 1, 1);

/// A date in a log, on the calendar and clock of the machine that wrote it, in any zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct When {
    /// Year, such as 2008.
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 24: `24:00:00` is the end of the day (ISO 8601).
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 60: a log may contain a leap second.
    pub second: u8,
    /// Zone that the log states.
    pub zone: Zone,
}

/// Zone that a log states for its dates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    /// None: local time of that machine.
    Unsaid,
    /// Coordinated universal time.
    Utc,
    /// An ambiguous abbreviation such as `PST`, or an offset such as `+0100`.
    Named(Box<str>),
}

impl When {
    /// Converts `seconds` after 1970-01-01 UTC, as `mpstat -T u` prints them; `None` past the year 9999.
    pub fn from_unix(seconds: u64) -> Option<Self> {
        let since = SignedDuration::from_secs(i64::try_from(seconds).ok()?);
        let at = EPOCH.to_datetime(Time::midnight()).checked_add(since).ok()?;
        let part = |n: i8| u8::try_from(n).expect("no part of a date is below 0");
        Some(Self {
            year: u16::try_from(at.year()).expect("1970 or later"),
            month: part(at.month()),
            day: part(at.day()),
            hour: part(at.hour()),
            minute: part(at.minute()),
            second: part(at.second()),
            zone: Zone::Utc,
        })
    }

    /// Returns the seconds since 1970-01-01 on the log's clock. Its zone may be unknown.
    pub fn clock_seconds(&self) -> u64 {
        let date = date(self.year, self.month, self.day);
        let midnight_s = date.map_or(0, |date| date.duration_since(EPOCH).as_secs());
        let midnight_s = u64::try_from(midnight_s).unwrap_or(0);
        // Added separately: jiff has no `24:00:00` and no leap second.
        midnight_s + u64::from(self.hour) * 3600 + u64::from(self.minute) * 60 + u64::from(self.second)
    }
}

/// Formats the date as ISO 8601 with the zone after it: `2008-03-04T09:05:01`, `...Z`, `...[PST]`.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second, zone } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match zone {
            Zone::Unsaid => Ok(()),
            Zone::Utc => f.write_str("Z"),
            Zone::Named(name) => write!(f, "[{name}]"),
        }
    }
}

/// Reads a date at the beginning of `line`. Returns the date and its length in bytes, with a colon after it.
///
/// Formats: ctime (`Tue Mar  4 09:05:01 2008`), date(1) with a zone and in the order of other locales
/// (`Tuesday, March  4, 2008  9:05:01 AM PST`), and ISO 8601 (`2008-03-04T09:05:01Z`).
pub(crate) fn leading(line: &[u8]) -> Option<(When, usize)> {
    match line.first()? {
        b'0'..=b'9' => iso(line).or_else(|| worded(line)),
        b'A'..=b'Z' => worded(line),
        b' ' | b'\t' => {
            let blanks = line.iter().position(|b| !b.is_ascii_whitespace())?;
            leading(&line[blanks..]).map(|(when, length)| (when, blanks + length))
        }
        _ => None,
    }
}

/// Parses `2008-03-04T09:05:01`, with a blank or a T, followed by `Z`, an offset or nothing.
fn iso(line: &[u8]) -> Option<(When, usize)> {
    let (head, rest) = line.split_at_checked(19)?;
    let shape = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if shape.iter().any(|&(at, byte)| head[at] != byte) || !matches!(head[10], b'T' | b' ') {
        return None;
    }
    let zone_length = rest.iter().position(|&b| b == b' ' || b == b'\t').unwrap_or(rest.len());
    let mut zone = &rest[..zone_length];
    if let Some(fraction) = zone.strip_prefix(b".").or_else(|| zone.strip_prefix(b",")) {
        zone = fraction.trim_ascii_start();
        zone = &zone[zone.iter().take_while(|b| b.is_ascii_digit()).count()..];
    }
    zone = zone.strip_suffix(b":").unwrap_or(zone);
    let zone = match zone {
        b"" => Zone::Unsaid,
        b"Z" => Zone::Utc,
        [b'+' | b'-', offset @ ..] if offset.iter().all(|b| b.is_ascii_digit() || *b == b':') => {
            Zone::Named(String::from_utf8_lossy(zone).into())
        }
        _ => return None,
    };
    let number = |range: std::ops::Range<usize>| whole(&head[range]).and_then(|n| u16::try_from(n).ok());
    let small = |range| number(range).and_then(|n| u8::try_from(n).ok());
    let when = When {
        year: number(0..4)?,
        month: small(5..7)?,
        day: small(8..10)?,
        hour: small(11..13)?,
        minute: small(14..16)?,
        second: small(17..19)?,
        zone,
    };
    valid(when).map(|when| (when, 19 + zone_length))
}

/// Parses a date in words. Takes fields until one adds nothing to the date.
fn worded(line: &[u8]) -> Option<(When, usize)> {
    let mut parts = Parts::default();
    let mut end = 0;
    for field in Fields::from(line, 0, 1) {
        if !parts.take(field) {
            break;
        }
        end = field.at + field.bytes.len();
        if field.bytes.ends_with(b":") {
            break;
        }
    }
    let (hour, minute, second) = parts.time?;
    let hour = match parts.half {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(Half::Am) => hour % 12,
        Some(Half::Pm) => hour % 12 + 12,
    };
    let when = When {
        year: parts.year?,
        month: parts.month?,
        day: parts.day?,
        hour,
        minute,
        second,
        zone: parts.zone.unwrap_or(Zone::Unsaid),
    };
    valid(when).map(|when| (when, end))
}

#[derive(Debug, Clone, Copy)]
enum Half {
    Am,
    Pm,
}

/// Parts of a date read so far.
#[derive(Default)]
struct Parts {
    weekday: bool,
    month: Option<u8>,
    day: Option<u8>,
    year: Option<u16>,
    time: Option<(u8, u8, u8)>,
    half: Option<Half>,
    zone: Option<Zone>,
    /// The previous field was the time or its half of the day: a zone is valid only here.
    after_time: bool,
}

impl Parts {
    /// Takes `field` if it belongs to the date and adds something new.
    fn take(&mut self, field: Field<'_>) -> bool {
        let bytes = field.bytes.strip_suffix(b":").unwrap_or(field.bytes);
        let bytes = bytes.strip_suffix(b",").unwrap_or(bytes);
        let after_time = std::mem::replace(&mut self.after_time, false);
        if let Some(time) = clock(bytes) {
            self.after_time = true;
            return once(&mut self.time, time);
        }
        if let Some(number) = whole(bytes) {
            return match (bytes.len(), u16::try_from(number)) {
                (4, Ok(year)) => once(&mut self.year, year),
                (1 | 2, Ok(day)) => once(&mut self.day, u8::try_from(day).unwrap_or(0)),
                _ => false,
            };
        }
        if let Some(month) = named(bytes, &MONTHS) {
            return once(&mut self.month, month + 1);
        }
        if named(bytes, &WEEKDAYS).is_some() {
            return !std::mem::replace(&mut self.weekday, true);
        }
        match bytes {
            b"AM" | b"am" if after_time => {
                self.after_time = true;
                once(&mut self.half, Half::Am)
            }
            b"PM" | b"pm" if after_time => {
                self.after_time = true;
                once(&mut self.half, Half::Pm)
            }
            b"at" => self.time.is_none(),
            b"CPU" | b"SET" => false,
            b"UTC" | b"GMT" if after_time => once(&mut self.zone, Zone::Utc),
            name if after_time && is_zone(name) => {
                once(&mut self.zone, Zone::Named(String::from_utf8_lossy(name).into()))
            }
            _ => false,
        }
    }
}

/// Fills `slot` if it is empty. Returns whether it did.
fn once<T>(slot: &mut Option<T>, value: T) -> bool {
    let empty = slot.is_none();
    if empty {
        *slot = Some(value);
    }
    empty
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Returns the index of the name that `bytes` spells, in full or as its first three letters.
fn named(bytes: &[u8], names: &[&str]) -> Option<u8> {
    let is = |name: &str| bytes == name.as_bytes() || bytes == &name.as_bytes()[..3];
    names.iter().position(|name| is(name)).and_then(|i| u8::try_from(i).ok())
}

fn is_zone(bytes: &[u8]) -> bool {
    let offset = matches!(bytes, [b'+' | b'-', digits @ ..] if digits.len() == 4 && digits.iter().all(u8::is_ascii_digit));
    offset || (2..=5).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_uppercase)
}

/// Parses `hh:mm:ss`, the hour with one or two digits.
fn clock(bytes: &[u8]) -> Option<(u8, u8, u8)> {
    let mut parts = bytes.split(|&b| b == b':');
    let mut next = |digits: std::ops::RangeInclusive<usize>| {
        let part = parts.next().filter(|part| digits.contains(&part.len()))?;
        u8::try_from(whole(part)?).ok()
    };
    let time = (next(1..=2)?, next(2..=2)?, next(2..=2)?);
    parts.next().is_none().then_some(time)
}

fn valid(when: When) -> Option<When> {
    let good = (1970..=9999).contains(&when.year)
        && (1..=days_of(when.year, when.month)).contains(&when.day)
        && (when.hour < 24 || (when.hour, when.minute, when.second) == (24, 0, 0))
        && when.minute < 60
        // A leap second ends a day in UTC; zones differ from UTC by quarters of an hour.
        && (when.second < 60 || (when.second == 60 && when.minute % 15 == 14));
    good.then_some(when)
}

/// Returns the number of days in the month; 0 for an invalid month.
fn days_of(year: u16, month: u8) -> u8 {
    let first = date(year, month, 1);
    first.map_or(0, |first| u8::try_from(first.days_in_month()).expect("28 to 31"))
}

fn date(year: u16, month: u8, day: u8) -> Option<Date> {
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, when: &str, length: usize) {
        let (found, found_length) = leading(line.as_bytes()).unwrap_or_else(|| panic!("no date in {line:?}"));
        assert_eq!((found.to_string().as_str(), found_length), (when, length), "{line:?}");
    }

    #[test]
    fn dates_of_every_kind_are_read_and_measured() {
        check("Tue Mar  4 09:05:01 2008 CPU minf", "2008-03-04T09:05:01", 24);
        check("Tue Mar  4 09:05:01 2008:  0   16", "2008-03-04T09:05:01", 25);
        check("Tue Mar  4 09:05:01 2008   0   16", "2008-03-04T09:05:01", 24);
        check("Tue Mar  4 09:05:01 2008: CPU minf", "2008-03-04T09:05:01", 25);
        check("Tue Mar  4 09:05:01 PST 2008", "2008-03-04T09:05:01[PST]", 28);
        check("Tue Mar  4 09:05:01 UTC 2008 CPU", "2008-03-04T09:05:01Z", 28);
        check("Tuesday, March  4, 2008  9:05:01 PM PST", "2008-03-04T21:05:01[PST]", 39);
        check("March  4, 2008 at 12:05:01 AM CET", "2008-03-04T00:05:01[CET]", 33);
        check("Tue 04 Mar 2008 09:05:01 AM UTC CPU", "2008-03-04T09:05:01Z", 31);
        check("2008-03-04 09:05:01   0   16", "2008-03-04T09:05:01", 19);
        check("2008-03-04T09:05:01.123Z: CPU", "2008-03-04T09:05:01Z", 25);
        check("2008-03-04T09:05:01+0100 CPU", "2008-03-04T09:05:01[+0100]", 24);
    }

    #[test]
    fn what_is_no_date_is_none() {
        for line in [
            "",
            " ",
            "CPU minf mjf",
            "  0   16   0",
            "Tue Mar  4 09:05:01",
            "Tue Mar 32 09:05:01 2008",
            "Sat Feb 30 12:00:00 2008",
            "2023-02-29 12:00:00",
            "2100-02-29 12:00:00",
            "2008-04-31T12:00:00Z",
            "2008-03-04 24:00:01",
            "2008-03-04 12:00:60",
            "Tue Mar  4 25:05:01 2008",
            "Tue Mar  4 13:05:01 PM 2008",
            "2008-13-04 09:05:01",
            "Mutex hold",
            "2008-03-04 09:05:01x",
        ] {
            assert_eq!(leading(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn the_end_of_a_day_is_the_beginning_of_the_next_and_leap_days_and_seconds_count() {
        let at = |text: &str| leading(text.as_bytes()).unwrap().0;
        let span = |from: &str, to: &str| at(to).seconds_since(&at(from));
        assert_eq!(span("2008-03-04T23:59:58Z", "2008-03-04T24:00:00Z"), Some(2));
        assert_eq!(span("2008-03-04 24:00:00", "2008-03-05 00:00:00"), Some(0));
        assert_eq!(span("2000-02-29 23:59:59", "2000-03-01 00:00:00"), Some(1));
        assert_eq!(span("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"), Some(0));
    }

    #[test]
    fn seconds_since_the_epoch_become_dates_and_back() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_204_621_501, "2008-03-04T09:05:01Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            let when = When::from_unix(seconds).unwrap();
            assert_eq!(when.to_string(), date);
            assert_eq!(when.clock_seconds(), seconds);
        }
        assert_eq!(When::from_unix(u64::MAX), None);
    }

    #[test]
    fn spans_need_one_zone_and_a_clock_that_does_not_run_back() {
        let at = |text: &str| leading(text.as_bytes()).unwrap().0;
        let early = at("Fri Feb 29 23:59:59 2008");
        let late = at("Sat Mar  1 00:00:04 2008");
        assert_eq!(late.seconds_since(&early), Some(5));
        assert_eq!(early.seconds_since(&late), None);
        assert_eq!(at("Sat Mar  1 00:00:04 UTC 2008").seconds_since(&early), None);
    }
}
