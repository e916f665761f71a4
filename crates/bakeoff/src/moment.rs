//! Times on the command line, in the forms that imported files have.

use std::time::Duration;

use jiff::tz::TimeZone;
use record::clock::WallAnchor;
use record::quantity;

const EXPECTED: &str = "a time such as 2026-11-21T09:52:00Z, 2026-11-21T09:52 by the clock of the zone, \
                        2026-11-21, or seconds since 1970";

/// Reads a time, in nanoseconds since 1970-01-01 UTC.
///
/// - `zone`: zone of times that name none.
pub(crate) fn read(text: &str, zone: &TimeZone) -> Result<u64, String> {
    // The header makes this a row of values, whatever the text is.
    let table = import::table::read(&format!("time,value\n{text},0"), zone);
    match table.as_ref().map(|table| &table.entries[..]) {
        Ok([one]) => Ok(one.at_unix_ns),
        _ => Err(format!("`{text}` is not a time: expected {EXPECTED}")),
    }
}

/// Reads a time by this machine's clock, or a duration before now such as `30d`.
pub(crate) fn since(text: &str) -> Result<u64, String> {
    if let Ok(ago) = quantity::duration(text) {
        return Ok(before(WallAnchor::now().unix_ns, ago));
    }
    let wrong = |why| format!("{why}; or a duration before now such as 30d");
    read(text, &TimeZone::system()).map_err(wrong)
}

/// Reads a time by this machine's clock, as RFC 3339 in UTC.
#[cfg(feature = "serve")]
pub(crate) fn in_utc(text: &str) -> Result<String, String> {
    let at = jiff::Timestamp::from_nanosecond(i128::from(read(text, &TimeZone::system())?));
    at.map(|at| at.to_string()).map_err(|error| error.to_string())
}

fn before(now_unix_ns: u64, ago: Duration) -> u64 {
    now_unix_ns.saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_a_moment_or_seconds() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let of = |text: &str| read(text, &berlin).map(|ns| ns / 1_000_000_000);
        let noon = Ok(1_795_258_800);
        assert_eq!(of("2026-11-21T11:00:00Z"), noon);
        assert_eq!(of("2026-11-21T12:00:00+01:00"), noon);
        assert_eq!(of("2026-11-21T12:00"), noon);
        assert_eq!(of("2026-11-21 12:00:00"), noon);
        assert_eq!(of("1795258800"), noon);
        assert_eq!(of("2026-11-21"), Ok(1_795_258_800 - 12 * 3_600));
        for wrong in
            ["", "garbage", "time", "date", "2026-13-01", "a,b", "-1", "2026-11-21\n2026-11-22", "\""]
        {
            let said = of(wrong).unwrap_err();
            assert!(said.starts_with(&format!("`{wrong}` is not a time: expected ")), "{said}");
        }
    }

    #[test]
    fn since_is_a_duration_before_now_or_a_time() {
        assert_eq!(before(100_000_000_000, Duration::from_secs(30)), 70_000_000_000);
        assert_eq!(before(1, Duration::from_secs(30)), 0);
        assert_eq!(since("2026-11-21T11:00:00Z"), Ok(1_795_258_800_000_000_000));
        assert!(since("30d").unwrap() < since("1d").unwrap());
        assert!(since("soon").unwrap_err().contains("30d"));
    }
}
