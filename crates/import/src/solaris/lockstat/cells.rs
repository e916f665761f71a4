//! Parsers of each kind of line, cell by cell.

use super::{Counts, Event, Lock, Time};
use crate::error::ImportError;
use crate::fields::{Field, Fields, decimal, text, trimmed, whole};
use crate::lines::Line;

pub(super) const TITLE: &str =
    "a title, such as `Adaptive mutex spin: 7 events in 1.000 seconds (7 events/sec)`";

/// Unit of times in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderUnit {
    Nsec,
    Spins,
    /// `(N/A)`: the cell holds a number or nothing.
    Either,
    Blank,
}

pub(super) fn parse_title(line: Line<'_>) -> Result<(String, u64, f64), ImportError> {
    let bytes = line.bytes;
    let events_in =
        bytes.windows(11).rposition(|window| window == b" events in ").expect("checked by is_section");
    let Some(colon) = bytes[..events_in].iter().rposition(|&b| b == b':') else {
        return Err(ImportError::unexpected(line.place(0), bytes, TITLE));
    };
    let name = trimmed(&bytes[..colon]);
    if name.first().is_none_or(u8::is_ascii_digit) {
        // No event's name begins with this text: a truncated row runs into the next title.
        return Err(ImportError::unexpected(line.place(0), bytes, TITLE));
    }
    let mut count = Fields::from(&bytes[..events_in], colon + 1, line.number);
    let events = count.need_whole("the number of events")?;
    if let Some(more) = count.next() {
        return Err(count.unexpected(more, "`events in`"));
    }
    let mut rest = Fields::from(bytes, events_in + 11, line.number);
    let field = rest.need("a number of seconds")?;
    let elapsed_s = decimal(field.bytes).ok_or_else(|| rest.unexpected(field, "a number of seconds"))?;
    Ok((text(name), events, elapsed_s))
}

pub(super) struct ColumnHeader {
    pub(super) counts: Counts,
    pub(super) generated: bool,
    pub(super) unit: HeaderUnit,
    pub(super) hottest_lock: bool,
    pub(super) hottest_caller: bool,
}

/// Parses `Count indv cuml rcnt     nsec Hottest Lock           Caller`.
pub(super) fn parse_columns(line: Line<'_>) -> Result<ColumnHeader, ImportError> {
    let mut fields = Fields::from(line.bytes, 0, line.number);
    let counts = if fields.need("`Count`")?.bytes == b"ops/s" { Counts::PerSecond } else { Counts::Events };
    let kind = fields.need("`indv` or `genr`")?;
    let generated = match kind.bytes {
        b"indv" => false,
        b"genr" => true,
        _ => return Err(fields.unexpected(kind, "`indv` or `genr`")),
    };
    for (name, quoted) in [(&b"cuml"[..], "`cuml`"), (b"rcnt", "`rcnt`")] {
        let field = fields.need(quoted)?;
        if field.bytes != name {
            return Err(fields.unexpected(field, quoted));
        }
    }
    let mut field = fields.need("a unit, or `Lock`")?;
    let unit = match field.bytes {
        b"nsec" => HeaderUnit::Nsec,
        b"spin" => HeaderUnit::Spins,
        b"(N/A)" | b"units" => HeaderUnit::Either,
        _ => HeaderUnit::Blank,
    };
    if unit != HeaderUnit::Blank {
        field = fields.need("`Lock`")?;
    }
    let hottest_lock = field.bytes == b"Hottest";
    if hottest_lock {
        field = fields.need("`Lock`")?;
    }
    if field.bytes != b"Lock" && !field.bytes.starts_with(b"CPU+") {
        return Err(fields.unexpected(field, "a unit (`nsec`, `spin`, `(N/A)`), `Lock` or `CPU+PIL`"));
    }
    field = fields.need("`Caller`")?;
    let hottest_caller = field.bytes == b"Hottest";
    if hottest_caller {
        field = fields.need("`Caller`")?;
    }
    if field.bytes != b"Caller" {
        return Err(fields.unexpected(field, "`Caller`"));
    }
    if let Some(more) = fields.next() {
        return Err(fields.unexpected(more, "the end of the line"));
    }
    Ok(ColumnHeader { counts, generated, unit, hottest_lock, hottest_caller })
}

/// Parses `148213  88%  88% 0.00      611 zone_free_lock         page_create_va+0x1c4`.
///
/// Every cell may be wider than its column, so positions mean nothing, except for a lock without a name.
pub(super) fn parse_row(line: Line<'_>, unit: HeaderUnit) -> Result<Lock, ImportError> {
    let mut fields = Fields::from(line.bytes, 0, line.number);
    let count = fields.need_whole("a count")?;
    let share = fields.need("a percentage")?;
    let share_pct = percentage(share.bytes).ok_or_else(|| fields.unexpected(share, "a percentage"))?;
    let cumulative = fields.need("a percentage, or `----`")?;
    if cumulative.bytes != b"----" && percentage(cumulative.bytes).is_none() {
        return Err(fields.unexpected(cumulative, "a percentage, or `----`"));
    }
    let rcnt = fields.need("a mean reference count")?;
    let references = decimal(rcnt.bytes).ok_or_else(|| fields.unexpected(rcnt, "a mean reference count"))?;
    let mut numbers_end = rcnt.at + rcnt.bytes.len();
    // Distance from the numbers to the caller if the lock has no name: the column's width and two blanks.
    let mut nameless_gap = 22 + 2;
    let mut time = Time::Unmeasured;
    let next = fields.clone().next();
    match (unit, next.map(|field| (field, whole(field.bytes)))) {
        (HeaderUnit::Nsec | HeaderUnit::Spins | HeaderUnit::Either, Some((field, Some(mean)))) => {
            fields.next();
            numbers_end = field.at + field.bytes.len();
            if unit != HeaderUnit::Either {
                time = Time::Mean(mean);
            }
        }
        (HeaderUnit::Nsec | HeaderUnit::Spins, Some((field, None))) => {
            return Err(fields.unexpected(field, "a mean time"));
        }
        (HeaderUnit::Nsec | HeaderUnit::Spins, None) => {
            return Err(ImportError::end_of_line(fields.end(), "a mean time"));
        }
        (HeaderUnit::Either | HeaderUnit::Blank, _) => nameless_gap += 9,
    }
    let (lock, caller) = lock_and_caller(line, fields, numbers_end, nameless_gap)?;
    Ok(Lock {
        line: line.number,
        count,
        share_pct: Some(share_pct),
        references: Some(references),
        lock,
        caller,
        time,
        histogram: Vec::new(),
        stack: Vec::new(),
    })
}

/// Splits the rest of a row: the last field is the caller, all before it the lock. The name of a lock may
/// contain blanks.
pub(super) fn lock_and_caller(
    line: Line<'_>,
    mut fields: Fields<'_>,
    numbers_end: usize,
    nameless_gap: usize,
) -> Result<(String, String), ImportError> {
    let first = fields.need("a lock and its caller")?;
    let last = fields.clone().last().unwrap_or(first);
    if last.at == first.at && first.at - numbers_end < nameless_gap {
        return Err(ImportError::end_of_line(fields.end(), "a caller after the lock"));
    }
    let lock = line.bytes[first.at..last.at].trim_ascii_end();
    Ok((text(lock), text(last.bytes)))
}

pub(super) fn percentage(bytes: &[u8]) -> Option<u64> {
    whole(bytes.strip_suffix(b"%")?)
}

/// Parses `       128 |@@                             11857     segkmem_alloc+0xa0`.
pub(super) fn parse_bin(line: Line<'_>) -> Result<(u64, u64, Option<String>), ImportError> {
    let mut fields = Fields::from(line.bytes, 0, line.number);
    let bound = fields.need_whole("a bin's bound")?;
    let bar = fields.need("a bar of `@`")?;
    if bar.bytes[0] != b'|' || bar.bytes[1..].iter().any(|&b| b != b'@') {
        return Err(fields.unexpected(bar, "a bar of `@`"));
    }
    let count = fields.need_whole("a bin's count")?;
    let frame = fields.next().map(|frame| text(frame.bytes));
    if let Some(more) = fields.next() {
        return Err(fields.unexpected(more, "the end of the line"));
    }
    Ok((bound, count, frame))
}

/// Parses `0 148213 zone_free_lock page_create_va+0x1c4 0.000000 90558143 [64 bins] [frames]`.
pub(super) fn parse_parsable(line: Line<'_>) -> Result<(Event, Lock), ImportError> {
    const EXPECTED: &str = "`-p`: event, count, lock, caller, references with six decimals";
    let all = Fields::from(line.bytes, 0, line.number);
    let fields: Vec<Field<'_>> = all.clone().collect();
    let event = Event::numbered(whole(fields[0].bytes).unwrap_or(u64::MAX));
    let event = event.ok_or_else(|| all.unexpected(fields[0], "an event, 0 to 63"))?;
    let count = whole(fields[1].bytes).ok_or_else(|| all.unexpected(fields[1], "a count"))?;
    let rcnt = (3..fields.len()).find(|&i| six_decimals(fields[i].bytes));
    let rcnt = rcnt.ok_or_else(|| ImportError::end_of_line(all.end(), EXPECTED))?;
    let caller = fields[rcnt - 1];
    let lock = &line.bytes[fields[2].at..caller.at];
    let mut rest = fields[rcnt + 1..].iter().copied();
    let mut time = Time::Unmeasured;
    let mut histogram = Vec::new();
    if let Some(total) = rest.next() {
        let total = whole(total.bytes).ok_or_else(|| all.unexpected(total, "a total time"))?;
        time = Time::Total(total);
        if rest.len() > 0 {
            let mut bins = [0u64; 64];
            for bin in &mut bins {
                let field = rest.next().ok_or_else(|| ImportError::end_of_line(all.end(), "64 bins"))?;
                *bin = whole(field.bytes).ok_or_else(|| all.unexpected(field, "64 bins, each a count"))?;
            }
            histogram = used(&bins);
        }
    }
    let lock = Lock {
        line: line.number,
        count,
        share_pct: None,
        references: decimal(fields[rcnt].bytes),
        lock: text(trimmed(lock)),
        caller: text(caller.bytes),
        time,
        histogram,
        stack: rest.map(|frame| text(frame.bytes)).collect(),
    };
    Ok((event, lock))
}

pub(super) fn six_decimals(bytes: &[u8]) -> bool {
    decimal(bytes).is_some() && bytes.iter().rev().position(|&b| b == b'.') == Some(6)
}

/// Returns the bins from the first to the last that is not empty, as the tables print them.
pub(super) fn used(bins: &[u64; 64]) -> Vec<(u64, u64)> {
    let first = bins.iter().position(|&count| count > 0).unwrap_or(64);
    let last = bins.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    (first..last).map(|i| (1u64 << i, bins[i])).collect()
}

/// Parses ` 0           0            0  zone_free_lock            page_create_va+0x1c4`.
pub(super) fn parse_trace(line: Line<'_>) -> Result<(Event, Lock), ImportError> {
    let mut fields = Fields::from(line.bytes, 0, line.number);
    let number = fields.need("an event")?;
    let event = whole(number.bytes).and_then(Event::numbered);
    let event = event.ok_or_else(|| fields.unexpected(number, "an event, 0 to 63"))?;
    let time = fields.need_whole("a time")?;
    let owner = fields.need("an owner's address")?;
    let hexadecimal = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_hexdigit);
    if owner.bytes != b"(nil)" && !hexadecimal(owner.bytes.strip_prefix(b"0x").unwrap_or(owner.bytes)) {
        return Err(fields.unexpected(owner, "an owner's address"));
    }
    let (lock, caller) = lock_and_caller(line, fields, owner.at + owner.bytes.len(), 24 + 4)?;
    let lock = Lock {
        line: line.number,
        count: 1,
        share_pct: None,
        references: None,
        lock,
        caller,
        time: Time::Total(time),
        histogram: Vec::new(),
        stack: Vec::new(),
    };
    Ok((event, lock))
}
