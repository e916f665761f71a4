//! Tables of values over time as CSV: `time,metric,value`, or `time` and a column for each metric.
//!
//! The first form may name what each line belongs to. A column that it does not know might do so too, and is
//! refused: without it, values of different things would be one series.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use record::unit::{NUMBER_MAX, in_base_unit};

use crate::error::{ImportError, Place};

/// One value of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Nanoseconds since 1970-01-01 UTC; 0 or more.
    pub at_unix_ns: u64,
    /// Metric: the head of its column, or the text in the column `metric`.
    pub metric: String,
    /// The measured thing: the text in the column `subject` or `benchmark`.
    pub subject: Option<String>,
    /// Machine: the text in the column `environment` or `host`.
    pub host: Option<String>,
    /// The value; finite, in a base unit if the column `unit` names a unit that converts.
    pub value: f64,
    /// Unit of the value: a base unit, an unknown one as in the table, or nothing.
    pub unit: String,
    /// Texts of the columns `run`, `commit` and `version`, if the table has them and they are not empty.
    pub labels: Vec<(String, String)>,
}

/// Values of a table, and what was left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entries {
    /// Values, in the order of the lines.
    pub entries: Vec<Entry>,
    /// Number of empty cells and of cells such as `NaN`: missing values.
    pub missing: usize,
    /// Number of times without a zone, which were read in the zone of the caller.
    pub without_zone: usize,
    /// Number of values in an hour that the clock of that zone shows twice; the order of the lines decides
    /// which of the two it is.
    pub in_repeated_hour: usize,
    /// Values in such an hour: place in `entries`, and the later time that it may have.
    repeated: Vec<(usize, u64)>,
}

/// Heads of the column of times.
const TIMES: [&str; 5] = ["time", "timestamp", "date", "datetime", "at"];
/// Heads of columns that describe a line.
const LABELS: [&str; 2] = ["run", "commit"];
/// Further ones of a table with a column `metric`.
const LONG_LABELS: [&str; 3] = ["run", "commit", "version"];
/// Heads of the column with the measured thing.
const SUBJECTS: [&str; 2] = ["subject", "benchmark"];
/// Heads of the column with the machine.
const HOSTS: [&str; 2] = ["environment", "host"];
/// Heads of columns that do not distinguish values and are not read.
const UNREAD: [&str; 3] = ["low", "high", "event"];
/// Cells that stand for a missing value.
const NOTHING: [&str; 15] = [
    "",
    "nan",
    "+nan",
    "-nan",
    "na",
    "n/a",
    "null",
    "none",
    "-",
    "inf",
    "+inf",
    "-inf",
    "infinity",
    "+infinity",
    "-infinity",
];
const NO_MEASUREMENT: &str = "a number up to 1e60";
/// Most cells of a line.
const CELLS_MAX: usize = 100_000;
/// Most values of a table.
pub const VALUES_MAX: usize = 250_000;
/// Times above this many seconds (the year 2540) are milliseconds of another program. In nanoseconds, those
/// below fit in 64 bits.
const SECONDS_MAX: f64 = 1.8e10;

/// Reads a table. The first line holds the heads; a table of two columns may begin with its values.
///
/// Times are RFC 3339, Unix seconds, or a date and a time of day without a zone.
///
/// - `zone`: zone of times that name none.
///
/// # Errors
///
/// The place of a cell that is neither a time nor a value, of a line with too few or too many cells, or of
/// heads without a time.
pub fn read(text: &str, zone: &TimeZone) -> Result<Entries, ImportError> {
    let mut rows = Rows::of(text.trim_start_matches('\u{feff}'));
    let Some(first) = rows.next()? else {
        return Err(unexpected(Place { line: 1, column: 1 }, "an empty file", EXPECTED_HEADS));
    };
    let mut read = Entries::default();
    let heads = if is_time_head(&first.cells[0].text) {
        Heads::of(&first)?
    } else if first.cells.len() == 2 && time(&first.cells[0].text, zone).is_some() {
        let metrics = vec![(1, "value".to_owned())];
        let heads = Heads {
            labels: Vec::new(),
            subject: None,
            host: None,
            unit: None,
            long: None,
            metrics,
            width: 2,
        };
        heads.add(&first, zone, &mut read)?;
        heads
    } else {
        return Err(unexpected(first.cells[0].place, &quoted(&first.cells[0].text), EXPECTED_HEADS));
    };
    while let Some(row) = rows.next()? {
        heads.add(&row, zone, &mut read)?;
    }
    read.order_repeated_hours();
    Ok(read)
}

impl Entries {
    /// Moves values of a repeated hour to the later one, if the series had come as far before.
    fn order_repeated_hours(&mut self) {
        self.in_repeated_hour = self.repeated.len();
        let repeated: BTreeMap<usize, u64> = std::mem::take(&mut self.repeated).into_iter().collect();
        if repeated.is_empty() {
            return;
        }
        let mut series: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (i, entry) in self.entries.iter().enumerate() {
            series.entry((&entry.metric, &entry.subject, &entry.host)).or_default().push(i);
        }
        let mut series: Vec<Vec<usize>> = series.into_values().collect();
        for places in &mut series {
            let ends = places.first().zip(places.last());
            // Some programs write the newest value first.
            if ends
                .is_some_and(|(first, last)| self.entries[*first].at_unix_ns > self.entries[*last].at_unix_ns)
            {
                places.reverse();
            }
            let mut before = None;
            for place in places {
                let at = &mut self.entries[*place].at_unix_ns;
                if let Some(later) =
                    repeated.get(place).filter(|_| before.is_some_and(|before| before >= *at))
                {
                    *at = *later;
                }
                before = Some(*at);
            }
        }
    }
}

const EXPECTED_HEADS: &str =
    "the header `time,metric,value`, or `time` and a column for each metric, such as `time,p99_ms`";
const EXPECTED_LONG: &str = "beside `time`, `metric` and `value` only `subject` or `benchmark`, `environment` or \
                             `host`, `run`, `commit`, `version`, `unit`; `low`, `high` and `event` are not read";

struct Heads {
    /// Columns that describe a line.
    labels: Vec<(usize, &'static str)>,
    /// Column of the measured thing.
    subject: Option<usize>,
    /// Column of the machine.
    host: Option<usize>,
    /// Column of the unit.
    unit: Option<usize>,
    /// Columns of the metric's name and of its value.
    long: Option<(usize, usize)>,
    /// Columns of values, with their metrics.
    metrics: Vec<(usize, String)>,
    width: usize,
}

impl Heads {
    fn of(row: &Row<'_>) -> Result<Self, ImportError> {
        let names: Vec<String> = row.cells.iter().map(|cell| cell.text.trim().to_owned()).collect();
        let at = |name: &str| names.iter().position(|head| head.eq_ignore_ascii_case(name));
        let one_of = |heads: [&str; 2]| heads.into_iter().find_map(at);
        let long = at("metric").zip(at("value"));
        let (subject, host) = long.map_or((None, None), |_| (one_of(SUBJECTS), one_of(HOSTS)));
        let unit = long.and_then(|_| at("unit"));
        let named = if long.is_some() { &LONG_LABELS[..] } else { &LABELS };
        let labels: Vec<(usize, &'static str)> =
            named.iter().filter_map(|name| Some((at(name)?, *name))).collect();
        let described = labels.iter().map(|(column, _)| *column);
        let known: Vec<usize> = described.chain(subject).chain(host).chain(unit).collect();
        let is_value = |i: usize, name: &str| i > 0 && !name.is_empty() && !known.contains(&i);
        let mut seen: HashSet<&str> = HashSet::new();
        for (i, name) in names.iter().enumerate() {
            let is_first = seen.insert(name);
            if !is_value(i, name) {
                continue;
            }
            if !is_first {
                return Err(unexpected(row.cells[i].place, &quoted(name), "each name once in the header"));
            }
            let is_unread = UNREAD.iter().any(|head| name.eq_ignore_ascii_case(head));
            if long.is_some_and(|(metric, value)| i != metric && i != value) && !is_unread {
                return Err(unexpected(row.cells[i].place, &quoted(name), EXPECTED_LONG));
            }
        }
        drop(seen);
        let metrics: Vec<(usize, String)> = if long.is_some() {
            Vec::new()
        } else {
            names.into_iter().enumerate().filter(|(i, name)| is_value(*i, name)).collect()
        };
        if long.is_none() && metrics.is_empty() {
            return Err(unexpected(row.cells[0].place, "no column of values", EXPECTED_HEADS));
        }
        Ok(Self { labels, subject, host, unit, long, metrics, width: row.cells.len() })
    }

    fn add(&self, row: &Row<'_>, zone: &TimeZone, read: &mut Entries) -> Result<(), ImportError> {
        if row.cells.len() != self.width {
            let found = format!("{} cells", row.cells.len());
            let expected = format!("{}, as many as in the header", self.width);
            return Err(unexpected(row.cells[0].place, &found, expected));
        }
        let cell = &row.cells[0];
        let expected = || {
            if cell.text.trim().parse::<f64>().is_ok_and(|s| s >= SECONDS_MAX) {
                "Unix seconds: this looks like milliseconds or smaller units"
            } else {
                "a time such as 2026-11-21T09:52:00Z, or seconds since 1970"
            }
        };
        let Some((at_unix_ns, is_zoned)) = time(&cell.text, zone) else {
            return Err(unexpected(cell.place, &quoted(&cell.text), expected()));
        };
        read.without_zone += usize::from(!is_zoned);
        let later = if is_zoned { None } else { later_of_two(&cell.text, zone) };
        let text = |column: usize| {
            let text = row.cells[column].text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let (subject, host) = (self.subject.and_then(text), self.host.and_then(text));
        let unit = self.unit.and_then(text).unwrap_or_default();
        let label = |(column, name): &(usize, &str)| Some(((*name).to_owned(), text(*column)?));
        let labels: Vec<(String, String)> = self.labels.iter().filter_map(label).collect();
        let long = self.long.map(|(metric, value)| (value, row.cells[metric].text.trim().to_owned()));
        if let Some((metric, _)) = self.long.filter(|(metric, _)| text(*metric).is_none()) {
            return Err(unexpected(row.cells[metric].place, "nothing", "the name of a metric"));
        }
        for (column, metric) in self.metrics.iter().cloned().chain(long) {
            let cell = &row.cells[column];
            if NOTHING.contains(&cell.text.trim().to_lowercase().as_str()) {
                read.missing += 1;
                continue;
            }
            let value = cell.text.trim().parse::<f64>().ok();
            let Some(value) = value.filter(|value| value.is_finite()) else {
                return Err(unexpected(cell.place, &quoted(&cell.text), "a number, or nothing"));
            };
            let (value, unit) = in_base_unit(value, &unit);
            if value.abs() > NUMBER_MAX {
                return Err(unexpected(cell.place, &quoted(&cell.text), NO_MEASUREMENT));
            }
            if read.entries.len() == VALUES_MAX {
                let expected = format!("at most {VALUES_MAX} values");
                return Err(unexpected(cell.place, "another value", expected));
            }
            let (subject, host, labels) = (subject.clone(), host.clone(), labels.clone());
            read.repeated.extend(later.map(|later| (read.entries.len(), later)));
            read.entries.push(Entry { at_unix_ns, metric, subject, host, value, unit, labels });
        }
        Ok(())
    }
}

fn is_time_head(text: &str) -> bool {
    TIMES.iter().any(|head| text.trim().eq_ignore_ascii_case(head))
}

/// Reads a time; also returns whether it names its zone. `None` for other texts and for times before 1970.
pub(crate) fn time(text: &str, zone: &TimeZone) -> Option<(u64, bool)> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        if !(0.0..SECONDS_MAX).contains(&seconds) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
        return Some(((seconds * 1e6).round() as u64 * 1_000, true));
    }
    let (at, is_zoned) = if let Ok(at) = text.parse::<Timestamp>() {
        (at, true)
    } else {
        (zone.to_ambiguous_timestamp(civil(text)?).compatible().ok()?, false)
    };
    Some((u64::try_from(at.as_nanosecond()).ok()?, is_zoned))
}

/// A date, with or without a time of day, that names no zone.
fn civil(text: &str) -> Option<DateTime> {
    text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(DateTime::from)).ok()
}

/// The later time of a text that clocks in the zone show twice; `None` of other texts.
fn later_of_two(text: &str, zone: &TimeZone) -> Option<u64> {
    let at = zone.to_ambiguous_timestamp(civil(text.trim())?);
    let is_twice = matches!(at.offset(), AmbiguousOffset::Fold { .. });
    let later = at.later().ok().filter(|_| is_twice)?;
    u64::try_from(later.as_nanosecond()).ok()
}

struct Row<'a> {
    cells: Vec<Cell<'a>>,
}

struct Cell<'a> {
    place: Place,
    text: Cow<'a, str>,
}

/// Reader of the lines that are not empty (RFC 4180). A quoted cell may hold commas, quotes and breaks.
struct Rows<'a> {
    text: &'a str,
    at: usize,
    line: u64,
    line_start: usize,
}

impl<'a> Rows<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, at: 0, line: 1, line_start: 0 }
    }

    fn place(&self) -> Place {
        Place { line: self.line, column: (self.at - self.line_start + 1) as u64 }
    }

    /// Cells of the next line; `None` at the end.
    fn next(&mut self) -> Result<Option<Row<'a>>, ImportError> {
        let bytes = self.text.as_bytes();
        let mut cells = Vec::new();
        while self.at < bytes.len() {
            if cells.len() == CELLS_MAX {
                return Err(unexpected(
                    self.place(),
                    "another cell",
                    format!("at most {CELLS_MAX} in a line"),
                ));
            }
            cells.push(self.cell()?);
            let is_comma = bytes.get(self.at) == Some(&b',');
            self.at += 1;
            if !is_comma {
                self.line += 1;
                self.line_start = self.at;
                if let Some(row) = row(std::mem::take(&mut cells)) {
                    return Ok(Some(row));
                }
            } else if self.at == bytes.len() {
                cells.push(Cell { place: self.place(), text: Cow::Borrowed("") });
            }
        }
        Ok(row(cells))
    }

    /// The next cell, up to its comma or break.
    fn cell(&mut self) -> Result<Cell<'a>, ImportError> {
        let place = self.place();
        let mut quoted = None;
        if self.text.as_bytes()[self.at] == b'"' {
            quoted = Some(self.quoted(place)?);
        }
        let rest = &self.text[self.at..];
        let end = rest.find([',', '\n']).unwrap_or(rest.len());
        let plain = rest[..end].trim_end_matches('\r');
        self.at += end;
        Ok(Cell { place, text: quoted.map_or(Cow::Borrowed(plain), |quoted| Cow::Owned(quoted + plain)) })
    }

    /// Text between quotes.
    ///
    /// - `place`: that of the first quote.
    fn quoted(&mut self, place: Place) -> Result<String, ImportError> {
        let mut content = String::new();
        loop {
            self.at += 1;
            let rest = &self.text[self.at..];
            let Some(quote) = rest.find('"') else {
                return Err(unexpected(place, "an unterminated quote", "a closing quote"));
            };
            let part = &rest[..quote];
            self.line += part.matches('\n').count() as u64;
            if let Some(last) = part.rfind('\n') {
                self.line_start = self.at + last + 1;
            }
            content += part;
            self.at += quote + 1;
            if self.text.as_bytes().get(self.at) != Some(&b'"') {
                return Ok(content);
            }
            content.push('"');
        }
    }
}

/// A line, unless it is empty or a comment.
fn row(cells: Vec<Cell<'_>>) -> Option<Row<'_>> {
    let is_comment = cells.first().is_some_and(|cell| cell.text.starts_with('#'));
    let is_empty = cells.iter().all(|cell| cell.text.trim().is_empty());
    (!is_comment && !is_empty).then_some(Row { cells })
}

fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    if short.is_empty() { "nothing".to_owned() } else { format!("`{short}`") }
}

fn unexpected(place: Place, found: &str, expected: impl Into<Cow<'static, str>>) -> ImportError {
    ImportError::Unexpected { place, found: found.to_owned(), expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(u64, String, f64)> {
        let read = read(text, &TimeZone::UTC).unwrap();
        read.entries.into_iter().map(|e| (e.at_unix_ns / 1_000_000_000, e.metric, e.value)).collect()
    }

    fn wrong(text: &str) -> String {
        read(text, &TimeZone::UTC).unwrap_err().to_string()
    }

    #[test]
    fn both_forms_of_a_table_give_the_same_values() {
        let wide = "time,p99,rate\n2026-11-21T00:00:00Z,1.5,10\n1795219260,,11\n";
        let long =
            "time,metric,value\n2026-11-21T00:00:00+00:00,p99,1.5\n1795219200,rate,10\r\n1795219260,rate,11";
        assert_eq!(values(wide), values(long));
        assert_eq!(values(wide)[0], (1_795_219_200, "p99".to_owned(), 1.5));
        assert_eq!(read(wide, &TimeZone::UTC).unwrap().missing, 1);
    }

    #[test]
    fn run_and_commit_describe_a_line_and_are_no_metrics() {
        let text = "Time,commit,latency_ms,run\n1,\"a\"\"b, c\",3,x\n2,,4,\n";
        let read = read(text, &TimeZone::UTC).unwrap();
        assert_eq!(read.entries.len(), 2);
        let labels: Vec<(&str, &str)> =
            read.entries[0].labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(labels, [("run", "x"), ("commit", "a\"b, c")]);
        assert!(read.entries[1].labels.is_empty());
    }

    #[test]
    fn the_long_form_tells_what_each_value_belongs_to_or_is_refused() {
        let text = "time,metric,Benchmark,host,version,unit,value,low,high,event\n1,p99,a,m,v2,ms,1,0,2,rise\n\
                    1,p99,,,,,3,,,\n";
        let read = read(text, &TimeZone::UTC).unwrap();
        let [first, second] = &read.entries[..] else { panic!("{read:?}") };
        assert_eq!((first.subject.as_deref(), first.host.as_deref()), (Some("a"), Some("m")));
        let labels: Vec<&str> = first.labels.iter().flat_map(|(k, v)| [k.as_str(), v]).collect();
        assert_eq!((labels, first.value, first.unit.as_str()), (vec!["version", "v2"], 0.001, "s"));
        assert_eq!((&second.subject, &second.host, second.labels.len()), (&None, &None, 0));
        assert!(
            wrong("time,metric,value,region\n1,a,1,eu\n")
                .starts_with("1:19: found `region`, expected beside")
        );
        assert!(wrong("time,metric,subject,benchmark,value\n1,a,b,c,1\n").contains("found `benchmark`"));
        assert!(wrong("time,p99,p99\n1,1,2\n").starts_with("1:10: found `p99`, expected each name once"));
        // In the other form these are metrics.
        assert_eq!(values("time,low,high,version\n1,2,3,4\n").len(), 3);
    }

    #[test]
    fn two_columns_need_no_heads() {
        assert_eq!(values("0.5,1\n1,2\n").len(), 2);
        assert_eq!(values("\u{feff}time,value\r\n0.5,1\r\n\r\n# a remark\r\n1,2\r\n").len(), 2);
    }

    #[test]
    fn a_time_that_does_not_fit_in_nanoseconds_is_none() {
        assert_eq!(time("17999999999", &TimeZone::UTC), Some((17_999_999_999_000_000_000, true)));
        assert_eq!(time("18446744074", &TimeZone::UTC), None);
        assert_eq!(time("77777777777", &TimeZone::UTC), None);
    }

    #[test]
    fn a_time_without_a_zone_is_read_in_the_callers() {
        let berlin = jiff::tz::TimeZoneDatabase::bundled().get("Europe/Berlin").unwrap();
        let text = "time,v\n2026-07-01 12:00:00,1\n2026-12-01 12:00,2\n2026-12-02,3\n";
        let read = read(text, &berlin).unwrap();
        let hours: Vec<u64> =
            read.entries.iter().map(|e| e.at_unix_ns / 1_000_000_000 % 86_400 / 3_600).collect();
        assert_eq!((hours, read.without_zone), (vec![10, 11, 23], 3));
    }

    #[test]
    fn an_hour_that_the_clock_shows_twice_is_told_apart_by_the_order_of_the_lines() {
        let berlin = jiff::tz::TimeZoneDatabase::bundled().get("Europe/Berlin").unwrap();
        // 25 October 2026: 02:00 to 03:00 comes twice, at 00:00 and at 01:00 UTC.
        let clocks = ["01:30", "02:00", "02:30", "02:00", "02:30", "03:00"];
        let known = [0, 30, 60, 90, 120, 150].map(|minutes| 1_792_884_600 + 60 * minutes);
        let table = |clocks: &mut dyn Iterator<Item = &&str>| {
            clocks.fold("time,a,b\n".to_owned(), |text, clock| text + &format!("2026-10-25 {clock},1,2\n"))
        };
        let times = |text: &str| {
            let read = read(text, &berlin).unwrap();
            let of = |name: &str| -> Vec<u64> {
                let own = read.entries.iter().filter(|e| e.metric == name);
                own.map(|e| e.at_unix_ns / 1_000_000_000).collect()
            };
            assert_eq!(of("a"), of("b"));
            (of("a"), read.in_repeated_hour)
        };
        assert_eq!(times(&table(&mut clocks.iter())), (known.to_vec(), 8));
        let newest_first: Vec<u64> = known.into_iter().rev().collect();
        assert_eq!(times(&table(&mut clocks.iter().rev())), (newest_first, 8));
        // Hourly values: the clock stands still.
        assert_eq!(times(&table(&mut ["02:00", "02:00", "03:00"].iter())).0, [known[1], known[3], known[5]]);
        // In spring, an hour does not exist.
        let spring = read("time,v\n2026-03-29 01:30,1\n2026-03-29 02:30,2\n", &berlin).unwrap();
        assert_eq!(spring.in_repeated_hour, 0);
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_place() {
        assert!(wrong("").starts_with("1:1: found an empty file, expected the header"));
        assert!(wrong("name,value\nx,1\n").starts_with("1:1: found `name`, expected the header"));
        assert!(wrong("time,v\nyesterday,1\n").starts_with("2:1: found `yesterday`, expected a time"));
        assert!(wrong("time,v\n1795219200000,1\n").contains("looks like milliseconds"));
        assert!(wrong("time,v\n1,fast\n").starts_with("2:3: found `fast`, expected a number"));
        assert!(wrong("time,v\n1,2,3\n").starts_with("2:1: found 3 cells, expected 2"));
        assert!(wrong("time,v\n-1,2\n").starts_with("2:1: found `-1`, expected a time"));
        assert!(wrong("time\n1\n").contains("no column of values"));
        assert!(wrong("time,v\n1,\"2\n").contains("an unterminated quote"));
        assert!(
            wrong("time,metric,value\n1,,2\n")
                .starts_with("2:3: found nothing, expected the name of a metric")
        );
        // A quoted break counts as a line.
        assert!(
            wrong("time,run,v\n1,\"a\nb\",2\n2,c,x\n").starts_with("4:5: found `x`"),
            "{}",
            wrong("time,run,v\n1,\"a\nb\",2\n2,c,x\n")
        );
    }

    #[test]
    fn a_header_of_99_999_metrics_is_read_and_one_of_more_is_refused() {
        let table = |metrics: usize| {
            let heads: Vec<String> = (0..metrics).map(|i| format!("m{i}")).collect();
            format!("time,{}\n1{}\n", heads.join(","), ",2".repeat(metrics))
        };
        assert_eq!(values(&table(99_999)).len(), 99_999);
        assert!(wrong(&table(200_000)).contains("expected at most 100000 in a line"));
        let twice = table(99_998).replacen('\n', ",m0\n", 1);
        assert!(wrong(&twice).contains("found `m0`, expected each name once"));
        assert!(wrong(&("time,v\n".to_owned() + &"1,2\n".repeat(250_001))).contains("at most 250000 values"));
    }

    #[test]
    fn a_number_that_no_measurement_has_is_refused_also_after_its_conversion() {
        assert!(wrong("time,v\n1,1e308\n").starts_with("2:3: found `1e308`, expected a number up to 1e60"));
        assert!(wrong("time,metric,unit,value\n1,m,h,-9e59\n").contains("found `-9e59`"));
        assert_eq!(values("time,v\n1,-1e60\n").len(), 1);
    }

    #[test]
    fn missing_is_not_zero() {
        let read = read("time,a,b\n1,NaN,\n2,inf,0\n3,-inf,-nan\n4,Infinity,1\n", &TimeZone::UTC).unwrap();
        assert_eq!((read.missing, read.entries.len(), read.entries[0].value), (6, 2, 0.0));
    }
}
