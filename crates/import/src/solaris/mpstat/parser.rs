//! The parser: one line at a time. The shape of a line determines its kind.

use super::row::{Cell, Header, parse_row};
use super::{COLUMNS, CPUS_MAX, Columns, Event, Sample, SinceBoot, Sink, Subject};
use crate::error::{ImportError, Note, Tool};
use crate::fields::{Fields, is_blank, whole};
use crate::lines::{Input, Line, LineParser, parse};
use crate::when::{When, leading};
use crate::{solaris, vmstat_s};

/// Reads mpstat's output and passes each block to `sink` as soon as it is complete.
///
/// Needs as much memory as one block. A block is complete at the next header, date or change line or, with a
/// live input, when no line follows for a while.
///
/// # Errors
///
/// [`ImportError`] if the text is not mpstat's. Earlier blocks have been passed on by then.
pub fn read(input: Input<'_>, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    parse(input, Tool::Mpstat, &mut Parser::new(sink))
}

pub(super) struct Parser<'s, 'e> {
    sink: &'e mut Sink<'s>,
    header: Option<Header>,
    /// Current block.
    sample: Sample,
    /// Ids of the block's rows as a bit set, so no CPU counts twice.
    seen: Vec<u64>,
    /// Subjects of the previous block.
    previous: Vec<(u32, Option<i32>)>,
    /// Number of blocks passed on.
    samples: u64,
    /// Whether a change line has come since the last block.
    changed: bool,
    /// Number of rows before the first header, and the error of the first one.
    orphans: u64,
    orphan: Option<ImportError>,
    /// Date that precedes the next row.
    at: Option<When>,
    /// Whether the block was passed on during a pause. If another row follows, it must be passed on again.
    delivered: bool,
    /// Text of the last date at the beginning of a line: equal text is not parsed again.
    prefix: Vec<u8>,
    prefix_at: Option<When>,
}

impl<'s, 'e> Parser<'s, 'e> {
    pub(super) fn new(sink: &'e mut Sink<'s>) -> Self {
        Self {
            sink,
            header: None,
            sample: Sample {
                line: 0,
                at: None,
                since_boot: None,
                cut: false,
                replaces_previous: false,
                columns: Columns::default(),
                rows: Vec::new(),
            },
            seen: vec![0; CPUS_MAX / 64],
            previous: Vec::new(),
            samples: 0,
            changed: false,
            orphans: 0,
            orphan: None,
            at: None,
            delivered: false,
            prefix: Vec::new(),
            prefix_at: None,
        }
    }

    fn hand_on(&mut self, event: Event<'_>) -> Result<(), ImportError> {
        (self.sink)(event).map_err(|source| ImportError::Deliver { source })
    }

    fn note(&mut self, line: u64, text: String) -> Result<(), ImportError> {
        self.hand_on(Event::Note(Note { line, text }))
    }

    /// Reads the date at the beginning of `bytes` and stores it. Returns its length in bytes, 0 without a
    /// date.
    fn date(&mut self, bytes: &[u8]) -> usize {
        if !self.prefix.is_empty() && bytes.starts_with(&self.prefix) {
            self.at.clone_from(&self.prefix_at);
            return self.prefix.len();
        }
        let Some((when, length)) = leading(bytes) else { return 0 };
        self.prefix.clear();
        self.prefix.extend_from_slice(&bytes[..length]);
        self.prefix_at = Some(when.clone());
        self.at = Some(when);
        length
    }

    fn header(
        &mut self,
        line: Line<'_>,
        mut fields: Fields<'_>,
        subject: Subject,
    ) -> Result<(), ImportError> {
        self.finish(false)?;
        let mut cells = Vec::new();
        let mut columns = Columns::default();
        fields.next();
        for field in fields.clone() {
            let cell = match COLUMNS.iter().position(|name| name.as_bytes() == field.bytes) {
                Some(column) => Cell::Value(column),
                None if field.bytes == b"set" && subject == Subject::Cpu => Cell::Set,
                None if field.bytes == b"sze" && subject == Subject::Set => Cell::Size,
                None if field.bytes.starts_with(b"%") => return Err(sysstat(line)),
                None if matches!(field.bytes, b"eff" | b"avg" | b"base") => {
                    return Err(fields.unexpected(
                        field,
                        "a column of CPU time: clock rates (`mpstat -f`) are not supported",
                    ));
                }
                None => return Err(fields.unexpected(field, "a column's name, such as `minf` or `idl`")),
            };
            if cells.contains(&cell) {
                return Err(fields.unexpected(field, "each column once"));
            }
            if let Cell::Value(column) = cell {
                columns.0 |= 1 << column;
            }
            cells.push(cell);
        }
        if subject == Subject::Set && !cells.contains(&Cell::Size) {
            return Err(ImportError::end_of_line(
                fields.end(),
                "the column `sze`: without it sets cannot be averaged",
            ));
        }
        if columns.0 == 0 {
            return Err(ImportError::end_of_line(fields.end(), "a column's name, such as `minf`"));
        }
        if self.header.is_none() && self.orphans > 0 {
            let text =
                format!("{} rows before the first header left out: their columns are unknown", self.orphans);
            self.note(line.number, text)?;
        }
        self.header = Some(Header { subject, cells, columns });
        Ok(())
    }

    fn row(&mut self, line: Line<'_>, at: usize) -> Result<(), ImportError> {
        let Some(header) = &self.header else {
            if self.orphans == 0 {
                let mut fields = Fields::from(line.bytes, at, line.number);
                let first = fields.need("a header")?;
                self.orphan =
                    Some(fields.unexpected(first, "a header (`CPU minf mjf ...`) before the first row"));
            }
            self.orphans += 1;
            return Ok(());
        };
        let row = parse_row(line, at, header)?;
        if self.delivered && self.sample.rows.iter().all(|before| before.id != row.id) {
            let text =
                "more rows of this block came after a pause: the block is printed again with all of them";
            self.note(line.number, text.into())?;
        }
        if self.sample.rows.first().is_some_and(|first| first.id == row.id && first.subject == row.subject) {
            self.finish(false)?;
        }
        let header = self.header.as_ref().expect("it was there above");
        if self.delivered {
            self.sample.replaces_previous = true;
            self.delivered = false;
        }
        let (word, bit) = (row.id as usize / 64, 1 << (row.id % 64));
        if self.seen[word] & bit != 0 {
            let what = if row.subject == Subject::Cpu { "CPU" } else { "set" };
            return Err(ImportError::Unexpected {
                place: line.place(at),
                found: format!("{what} {} twice in one block", row.id),
                expected: "each once, and a header before each block".into(),
            });
        }
        self.seen[word] |= bit;
        if self.sample.rows.is_empty() {
            self.sample.line = line.number;
            self.sample.at = self.at.take();
            self.sample.columns = header.columns;
        }
        self.sample.rows.push(row);
        Ok(())
    }

    /// Passes on the complete block.
    fn finish(&mut self, at_end: bool) -> Result<(), ImportError> {
        if self.delivered {
            self.clear();
        }
        if self.sample.rows.is_empty() {
            return Ok(());
        }
        self.deliver(at_end)?;
        self.clear();
        Ok(())
    }

    fn deliver(&mut self, at_end: bool) -> Result<(), ImportError> {
        let beginning = self.is_a_beginning();
        let sample = &mut self.sample;
        let mut now: Vec<(u32, Option<i32>)> = sample.rows.iter().map(|row| (row.id, row.set)).collect();
        let mut before = self.previous.clone();
        // The order does not matter: the same CPUs may come in another order.
        now.sort_unstable();
        before.sort_unstable();
        let same = now == before;
        if sample.replaces_previous {
            // The late rows may belong to CPUs that the previous block did not have.
            let changed = sample.since_boot.is_none() && !same;
            sample.since_boot = if changed { Some(SinceBoot::OtherCpus) } else { sample.since_boot };
        } else {
            sample.cut = at_end && beginning;
            sample.since_boot = if self.changed {
                Some(SinceBoot::Changed)
            } else if self.samples == 0 {
                (self.orphans == 0).then_some(SinceBoot::First)
            } else {
                (!same && !sample.cut).then_some(SinceBoot::OtherCpus)
            };
            self.samples += 1;
        }
        if sample.cut {
            let (line, has, had) = (sample.line, sample.rows.len(), self.previous.len());
            let text = format!("the input ends after {has} of {had} rows of this block");
            (self.sink)(Event::Note(Note { line, text }))
                .map_err(|source| ImportError::Deliver { source })?;
        }
        self.changed = false;
        (self.sink)(Event::Sample(&self.sample)).map_err(|source| ImportError::Deliver { source })
    }

    /// Whether the rows so far are the first ones of the previous block, so the others are still due.
    fn is_a_beginning(&self) -> bool {
        let rows = &self.sample.rows;
        !self.changed
            && self.previous.len() > rows.len()
            && rows.iter().zip(&self.previous).all(|(now, before)| (now.id, now.set) == *before)
    }

    fn clear(&mut self) {
        self.previous.clear();
        self.previous.extend(self.sample.rows.iter().map(|row| (row.id, row.set)));
        for row in &self.sample.rows {
            self.seen[row.id as usize / 64] = 0;
        }
        self.sample.rows.clear();
        self.sample.at = None;
        self.sample.replaces_previous = false;
        self.sample.cut = false;
        self.delivered = false;
    }

    /// Handles a line that is neither header, row, date nor change.
    fn other(&mut self, line: Line<'_>, at: usize) -> Result<(), ImportError> {
        let bytes = &line.bytes[at..];
        if bytes.starts_with(b"Linux ") || bytes.windows(5).any(|w| w == b" %usr" || w == b"%idle") {
            return Err(sysstat(line));
        }
        if solaris::lockstat::is_section(bytes) {
            let hint = "use `bakeoff import lockstat`";
            let place = line.place(at);
            return Err(ImportError::OtherTool { place, found: "lockstat", expected: Tool::Mpstat, hint });
        }
        if vmstat_s::is_cpu_line(bytes) {
            let hint = "use `bakeoff import vmstat`";
            let place = line.place(at);
            return Err(ImportError::OtherTool { place, found: "vmstat -s", expected: Tool::Mpstat, hint });
        }
        self.note(line.number, format!("not mpstat output, left out: {}", crate::error::quoted(bytes)))
    }
}

impl LineParser for Parser<'_, '_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let dated = self.date(line.bytes);
        let bytes = line.bytes;
        let Some(first) = bytes[dated..].iter().position(|&b| !is_blank(b)).map(|at| dated + at) else {
            // A separate line with the date (`-T d`) opens a block; an empty line has no meaning.
            return if dated > 0 { self.finish(false) } else { Ok(()) };
        };
        match bytes[first] {
            b'0'..=b'9' | b'-' => {
                if let Some(when) = unix_line(&bytes[first..]) {
                    self.finish(false)?;
                    self.at = Some(when);
                    return Ok(());
                }
                self.row(line, first)
            }
            b'<' if bytes[first..].starts_with(b"<<") => {
                self.finish(false)?;
                self.changed = true;
                self.note(line.number, String::from_utf8_lossy(bytes[first..].trim_ascii()).into_owned())
            }
            _ => {
                let mut fields = Fields::from(bytes, first, line.number);
                let rest = fields.clone();
                match fields.next().map(|field| field.bytes) {
                    Some(b"CPU") => self.header(line, rest, Subject::Cpu),
                    Some(b"SET") => self.header(line, rest, Subject::Set),
                    _ => self.other(line, first),
                }
            }
        }
    }

    fn pause(&mut self) -> Result<(), ImportError> {
        // A tool that pauses within a block continues it. Half a block would look like other CPUs.
        if self.sample.rows.is_empty() || self.delivered || self.is_a_beginning() {
            return Ok(());
        }
        self.deliver(false)?;
        self.delivered = true;
        Ok(())
    }

    fn end(&mut self, lines: u64) -> Result<(), ImportError> {
        self.finish(true)?;
        if let (None, Some(orphan)) = (&self.header, self.orphan.take()) {
            return Err(orphan);
        }
        if self.samples == 0 {
            let place = crate::error::Place { line: lines + 1, column: 1 };
            let expected = if self.header.is_some() {
                "a row below the header"
            } else {
                "mpstat's header, `CPU minf mjf xcal  intr ...`"
            };
            return Err(ImportError::Unexpected {
                place,
                found: "the end of the input".into(),
                expected: expected.into(),
            });
        }
        Ok(())
    }
}

/// Parses a line that consists of a number of seconds since 1970, as `-T u` prints it.
fn unix_line(bytes: &[u8]) -> Option<When> {
    let bytes = bytes.trim_ascii_end();
    if bytes.len() < 8 {
        return None;
    }
    whole(bytes).and_then(When::from_unix)
}

fn sysstat(line: Line<'_>) -> ImportError {
    ImportError::OtherTool {
        place: line.place(0),
        found: "a tool of sysstat (Linux), such as mpstat, iostat or sar",
        expected: Tool::Mpstat,
        hint: "only mpstat of Solaris and illumos can be imported; on Linux `bakeoff cpu` measures directly",
    }
}
