//! Solaris' and illumos' mpstat: one row a CPU (or, with `-a`, a processor set), one block a sample.
//!
//! The tool prints whole numbers, so whatever is computed from them carries their rounding: [`Aggregate`] holds the
//! bound. Its first block averages since boot, and so does the block after a change of the CPUs: both are marked.
//!
//! # Source
//!
//! illumos-gate, `usr/src/cmd/stat/mpstat/mpstat.c`; mpstat(8).

use crate::error::{ImportError, Note, Tool};
use crate::fields::{Fields, is_blank, whole};
use crate::lines::{Input, Line, LineParser, parse};
use crate::when::{When, leading};
use crate::{solaris, vmstat_s};
use std::io;

/// The columns that every form of the table has, in the order printed.
pub const COLUMNS: [&str; 15] = [
    "minf", "mjf", "xcal", "intr", "ithr", "csw", "icsw", "migr", "smtx", "srw", "syscl", "usr", "sys", "wt",
    "idl",
];

/// The first column that is a share of time in percent; those before are events a second.
pub const FIRST_PERCENTAGE: usize = 11;

/// More CPUs than any machine that ran these tools.
const CPUS_MAX: usize = 1 << 16;

const WT: usize = 13;
const IDL: usize = 14;

/// One block of the table: all CPUs over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The line of its first row.
    pub line: u64,
    /// The last date at or before its first row, as the log tells it.
    pub at: Option<When>,
    /// Set if the block averages since boot instead of over an interval.
    pub since_boot: Option<SinceBoot>,
    /// Whether the input ended inside this block, so that the rows of some CPUs lack.
    pub cut: bool,
    /// Whether this is the sample before again, with rows that came after a pause.
    pub replaces_previous: bool,
    /// Which of [`COLUMNS`] the header names.
    pub columns: Columns,
    /// One row a CPU or processor set, as printed.
    pub rows: Vec<Row>,
}

/// Why a block averages since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinceBoot {
    /// It is the first.
    First,
    /// A line such as `<<processors added: 3>>` stands before it.
    Changed,
    /// Its CPUs are not those of the block before (`-q` hides the line that says so).
    OtherCpus,
}

/// A set of [`COLUMNS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Columns(u16);

impl Columns {
    /// Whether `column` is in the set.
    pub fn has(self, column: usize) -> bool {
        self.0 & 1 << column != 0
    }
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// One CPU.
    Cpu,
    /// A processor set: rates are sums over its CPUs, percentages are means (`mpstat -a`).
    Set,
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Whether `id` is a CPU's or a set's.
    pub subject: Subject,
    /// The CPU's or the set's number.
    pub id: u32,
    /// The CPU's processor set (`-p`); -1 is none.
    pub set: Option<i32>,
    /// How many CPUs the row speaks for: 1, or the size of the set.
    pub cpus: u32,
    /// The values of [`COLUMNS`]; 0 where the header does not name the column.
    pub values: [u64; COLUMNS.len()],
}

/// What is found, as it is found.
#[derive(Debug)]
pub enum Event<'a> {
    /// A complete block.
    Sample(&'a Sample),
    /// Something a reader should know.
    Note(Note),
}

/// Receives what is found; an error of its own ends the import.
pub type Sink<'s> = dyn FnMut(Event<'_>) -> io::Result<()> + 's;

/// Reads what mpstat printed and hands each block to `sink` as soon as it is complete.
///
/// Needs as much memory as one block. A block is complete with the next header, date or change line, or, from a live
/// input, when nothing follows for a while.
///
/// # Errors
///
/// [`ImportError`] where the text is not mpstat's; what came before has been handed on by then.
pub fn read(input: Input<'_>, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    parse(input, Tool::Mpstat, &mut Parser::new(sink))
}

/// How rates become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// Divided by the number of CPUs, like every other column.
    Mean,
    /// Summed over the CPUs, as `mpstat -a` does.
    Sum,
}

/// A block as one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aggregate {
    /// How many CPUs it speaks for.
    pub cpus: u32,
    /// Values of [`COLUMNS`]; `None` where the log has no such column.
    pub values: [Option<f64>; COLUMNS.len()],
    /// How far each value can be off because the tool rounds to whole numbers.
    pub errors: [f64; COLUMNS.len()],
}

/// Sums up `rows` of a block whose header names `columns`.
///
/// The sums are exact; only the division rounds, in the 16th digit.
pub fn aggregate<'r>(rows: impl Iterator<Item = &'r Row>, columns: Columns, rates: Rates) -> Aggregate {
    let (mut cpus, mut count) = (0u32, 0u32);
    let mut sums = [0u128; COLUMNS.len()];
    for row in rows {
        cpus = cpus.saturating_add(row.cpus);
        count += 1;
        for (column, (sum, &value)) in sums.iter_mut().zip(&row.values).enumerate() {
            // A set's percentage is a mean over its CPUs already, its rates are sums.
            let weight = if column >= FIRST_PERCENTAGE { row.cpus } else { 1 };
            *sum += u128::from(value) * u128::from(weight);
        }
    }
    let mut values = [None; COLUMNS.len()];
    let mut errors = [0.0; COLUMNS.len()];
    for (column, sum) in sums.into_iter().enumerate() {
        let is_share = column >= FIRST_PERCENTAGE;
        let error = 0.5 * if is_share { f64::from(cpus) } else { f64::from(count) };
        let divisor = if rates == Rates::Sum && !is_share { 1.0 } else { f64::from(cpus.max(1)) };
        values[column] = columns.has(column).then_some(sum as f64 / divisor);
        errors[column] = error / divisor;
    }
    Aggregate { cpus, values, errors }
}

impl Sample {
    /// The whole block as one row.
    pub fn aggregate(&self, rates: Rates) -> Aggregate {
        aggregate(self.rows.iter(), self.columns, rates)
    }

    /// The rows that were busy (neither idle nor waiting) for at least `least_pct` of the interval.
    ///
    /// Empty where the log names no idle column.
    pub fn saturated(&self, least_pct: f64) -> impl Iterator<Item = &Row> {
        let known = self.columns.has(IDL);
        self.rows.iter().filter(move |row| known && row.busy_pct() as f64 >= least_pct)
    }
}

impl Row {
    /// The share of time that was neither idle nor waiting for I/O, in percent.
    pub fn busy_pct(&self) -> u64 {
        100u64.saturating_sub(self.values[IDL]).saturating_sub(self.values[WT])
    }
}

/// What a column of the header at hand means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Value(usize),
    /// `-p`: the CPU's processor set.
    Set,
    /// `-a`: how many CPUs the set has.
    Size,
}

impl Cell {
    fn name(self) -> &'static str {
        match self {
            Self::Value(column) => COLUMNS[column],
            Self::Set => "set",
            Self::Size => "sze",
        }
    }
}

/// A header line, understood.
#[derive(Debug)]
struct Header {
    subject: Subject,
    cells: Vec<Cell>,
    columns: Columns,
}

struct Parser<'s, 'e> {
    sink: &'e mut Sink<'s>,
    header: Option<Header>,
    /// The block that is being read.
    sample: Sample,
    /// Which ids the block has, a bit each: no CPU counts twice.
    seen: Vec<u64>,
    /// The subjects of the block before.
    previous: Vec<(u32, Option<i32>)>,
    /// Blocks handed on so far.
    samples: u64,
    /// A change line has come since the last block.
    changed: bool,
    /// Rows before the first header, and the first of them.
    orphans: u64,
    orphan: Option<ImportError>,
    /// The date that stands before the next row.
    at: Option<When>,
    /// The block has been handed on during a pause and must be handed on again if a row follows.
    delivered: bool,
    /// The text of the last date at the beginning of a line, so that the same text is not read again.
    prefix: Vec<u8>,
    prefix_at: Option<When>,
}

impl<'s, 'e> Parser<'s, 'e> {
    fn new(sink: &'e mut Sink<'s>) -> Self {
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

    /// How many bytes the date at the beginning of `bytes` takes, 0 if there is none. Remembers the date.
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
                    return Err(fields
                        .unexpected(field, "a column of CPU time: clock rates (`mpstat -f`) are not read"));
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
            let text = format!(
                "{} rows before the first header left out: nothing names their columns",
                self.orphans
            );
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
            let text = "more rows of this block came after a pause: it is told again, with all of them";
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

    /// The block is complete: hands it on.
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
        let same = sample.rows.iter().map(|row| (row.id, row.set)).eq(self.previous.iter().copied());
        if sample.replaces_previous {
            // The rows that came late may be of CPUs that the block before did not have.
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

    /// Whether the rows so far are the first ones of the block before, so that the others are still due.
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

    /// A line that is neither header, row, date nor change.
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
        self.note(line.number, format!("not mpstat's, left out: {}", crate::error::quoted(bytes)))
    }
}

impl LineParser for Parser<'_, '_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let dated = self.date(line.bytes);
        let bytes = line.bytes;
        let Some(first) = bytes[dated..].iter().position(|&b| !is_blank(b)).map(|at| dated + at) else {
            // A line of its own for the date (-T d) opens a block; an empty line is nothing.
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
        // A tool that stops amid a block goes on with it: half of it would pass for other CPUs.
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

/// The whole line is a number of seconds since 1970, as `-T u` prints it.
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
        found: "sysstat's mpstat (Linux)",
        expected: Tool::Mpstat,
        hint: "mpstat of Solaris and illumos is read; on Linux `bakeoff cpu` measures directly",
    }
}

/// The hot path: a row, from byte `at` on, against the header's cells. Neither allocates nor looks at a byte twice.
fn parse_row(line: Line<'_>, at: usize, header: &Header) -> Result<Row, ImportError> {
    let mut cursor = Cursor { line, at };
    let id = cursor.number("CPU")?;
    let id = u32::try_from(id).ok().filter(|&id| (id as usize) < CPUS_MAX).ok_or_else(|| {
        ImportError::unexpected(
            line.place(at),
            id.to_string().as_bytes(),
            "the number of a CPU or set, below 65536",
        )
    })?;
    let mut row = Row { subject: header.subject, id, set: None, cpus: 1, values: [0; COLUMNS.len()] };
    for &cell in &header.cells {
        match cell {
            Cell::Value(column) => row.values[column] = cursor.number(COLUMNS[column])?,
            Cell::Set => row.set = Some(cursor.set()?),
            Cell::Size => row.cpus = cursor.size()?,
        }
    }
    cursor.end()?;
    if !line.ended {
        refuse_cut(line, &row, header)?;
    }
    Ok(row)
}

/// The last line has no end. Where its shares of time do not sum up either, it was cut inside its last number.
fn refuse_cut(line: Line<'_>, row: &Row, header: &Header) -> Result<(), ImportError> {
    let shares = FIRST_PERCENTAGE..COLUMNS.len();
    let all = shares.clone().all(|column| header.columns.has(column));
    let sum: u64 = shares.map(|column| row.values[column]).fold(0, u64::saturating_add);
    if all && header.cells.last() == Some(&Cell::Value(IDL)) && !(97..=103).contains(&sum) {
        let expected = format!("percentages that sum up to 100 (these give {sum}): the line is cut");
        return Err(ImportError::end_of_line(line.place(line.bytes.len()), expected));
    }
    Ok(())
}

/// A place in a row.
struct Cursor<'a> {
    line: Line<'a>,
    at: usize,
}

impl Cursor<'_> {
    /// The digits at the next field, as a number.
    #[inline]
    fn number(&mut self, column: &'static str) -> Result<u64, ImportError> {
        let bytes = self.line.bytes;
        let mut at = self.at;
        while at < bytes.len() && is_blank(bytes[at]) {
            at += 1;
        }
        let begin = at;
        let mut value = 0u64;
        while at < bytes.len() {
            let digit = bytes[at].wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            at += 1;
        }
        // Nineteen digits always fit.
        let good = (1..=19).contains(&(at - begin)) && (at == bytes.len() || is_blank(bytes[at]));
        if !good {
            return Err(self.wrong(begin, column));
        }
        self.at = at;
        Ok(value)
    }

    #[cold]
    fn wrong(&self, begin: usize, column: &str) -> ImportError {
        let mut fields = Fields::from(self.line.bytes, begin, self.line.number);
        match fields.next() {
            None => ImportError::end_of_line(fields.end(), format!("a number in column `{column}`")),
            Some(field) => fields.unexpected(field, format!("a whole number in column `{column}`")),
        }
    }

    /// The number of a processor set, -1 for none.
    fn set(&mut self) -> Result<i32, ImportError> {
        let bytes = self.line.bytes;
        let blanks = bytes[self.at..].iter().take_while(|&&b| is_blank(b)).count();
        let (begin, negative) = (self.at + blanks, bytes.get(self.at + blanks) == Some(&b'-'));
        self.at = begin + usize::from(negative);
        let number = self.number("set").map_err(|_| self.wrong(begin, Cell::Set.name()))?;
        let number = i32::try_from(number).map_err(|_| self.wrong(begin, Cell::Set.name()))?;
        Ok(if negative { -number } else { number })
    }

    fn size(&mut self) -> Result<u32, ImportError> {
        let begin = self.at;
        let number = self.number(Cell::Size.name())?;
        u32::try_from(number).ok().filter(|size| (1..=1 << 16).contains(size)).ok_or_else(|| {
            let begin = begin + self.line.bytes[begin..].iter().take_while(|&&b| is_blank(b)).count();
            ImportError::unexpected(
                self.line.place(begin),
                &self.line.bytes[begin..self.at],
                "the number of CPUs in the set, 1 to 65536",
            )
        })
    }

    /// Nothing but blanks may follow.
    fn end(&self) -> Result<(), ImportError> {
        let mut fields = Fields::from(self.line.bytes, self.at, self.line.number);
        match fields.next() {
            None => Ok(()),
            Some(field) => {
                Err(fields.unexpected(field, "the end of the line: the header has no more columns"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(text: &str) -> Vec<Sample> {
        let mut all = Vec::new();
        read(Input::Whole(Box::new(text.as_bytes())), &mut |event| {
            if let Event::Sample(sample) = event {
                all.push(sample.clone());
            }
            Ok(())
        })
        .unwrap();
        all
    }

    fn error(text: &str) -> String {
        read(Input::Whole(Box::new(text.as_bytes())), &mut |_| Ok(())).unwrap_err().to_string()
    }

    const HEADER: &str = "CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl\n";

    fn row(cpu: u32, intr: u32, usr: u32) -> String {
        format!(
            "{cpu:3}    7   0    0 {intr:5}  100    1    0    0    0    0     5  {usr:3}   0   0 {:3}\n",
            100 - usr
        )
    }

    #[test]
    fn four_cpus_give_their_mean_to_the_last_digit() {
        let text: String =
            [100, 114, 120, 123].iter().zip(0..).map(|(&intr, cpu)| row(cpu, intr, 0)).collect();
        let one = samples(&(HEADER.to_string() + &text))[0].aggregate(Rates::Mean);
        assert_eq!(one.cpus, 4);
        assert_eq!((one.values[3], one.values[0]), (Some(114.25), Some(7.0)));
        assert_eq!((one.errors[3], one.errors[14]), (0.5, 0.5));
        let sum = samples(&(HEADER.to_string() + &text))[0].aggregate(Rates::Sum);
        assert_eq!((sum.values[3], sum.values[14]), (Some(457.0), Some(100.0)));
        assert_eq!((sum.errors[3], sum.errors[14]), (2.0, 0.5));
    }

    #[test]
    fn a_repeated_cpu_begins_a_block_where_the_header_stays_away() {
        let text = HEADER.to_string() + &row(0, 1, 0) + &row(0, 2, 0) + &row(0, 3, 0);
        let all = samples(&text);
        assert_eq!(all.iter().map(|s| s.rows[0].values[3]).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(
            all.iter().map(|s| s.since_boot).collect::<Vec<_>>(),
            [Some(SinceBoot::First), None, None]
        );
    }

    #[test]
    fn a_block_after_a_change_averages_since_boot_again() {
        let block = |n: u32| HEADER.to_string() + &(0..n).map(|cpu| row(cpu, 1, 0)).collect::<String>();
        let marks = |text: String| samples(&text).iter().map(|s| s.since_boot).collect::<Vec<_>>();
        let first = Some(SinceBoot::First);
        assert_eq!(
            marks(block(2) + &block(2) + "<<processors added: 2>>\n" + &block(3) + &block(3)),
            [first, None, Some(SinceBoot::Changed), None]
        );
        assert_eq!(
            marks(block(2) + &block(2) + &block(3) + &block(3)),
            [first, None, Some(SinceBoot::OtherCpus), None]
        );
    }

    #[test]
    fn a_block_that_the_end_cuts_is_marked_as_cut() {
        let text = HEADER.to_string() + &row(0, 1, 0) + &row(1, 1, 0) + HEADER + &row(0, 1, 0);
        let all = samples(&text);
        assert_eq!((all[1].cut, all[1].since_boot), (true, None));
    }

    #[test]
    fn a_full_cpu_is_found_whatever_the_mean_says() {
        let text: String = (0..256).map(|cpu| row(cpu, 1, if cpu == 200 { 100 } else { 0 })).collect();
        let all = samples(&(HEADER.to_string() + &text));
        assert_eq!(all[0].saturated(99.0).map(|row| row.id).collect::<Vec<_>>(), [200]);
        assert_eq!(all[0].aggregate(Rates::Mean).values[11], Some(100.0 / 256.0));
    }

    #[test]
    fn sets_weigh_as_many_cpus_as_they_have() {
        let text = "SET minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl sze\n\
                    \x20 0   30   0    0     0    0    0    0    0    0    0     0   40   0   0  60   3\n\
                    \x20 1   10   0    0     0    0    0    0    0    0    0     0    0   0   0 100   1\n";
        let one = samples(text)[0].aggregate(Rates::Mean);
        assert_eq!((one.cpus, one.values[0], one.values[11]), (4, Some(10.0), Some(30.0)));
        assert_eq!(samples(text)[0].aggregate(Rates::Sum).values[0], Some(40.0));
    }

    #[test]
    fn a_pause_hands_on_what_is_there_and_a_late_row_hands_it_on_again() {
        let mut seen = Vec::new();
        let mut sink = |event: Event<'_>| {
            if let Event::Sample(s) = event {
                seen.push((s.rows.len(), s.replaces_previous, s.since_boot));
            }
            Ok(())
        };
        let mut parser = Parser::new(&mut sink);
        let mut number = 0;
        let mut tell = |parser: &mut Parser<'_, '_>, text: &str| {
            for line in text.lines() {
                number += 1;
                parser.line(Line { number, bytes: line.as_bytes(), ended: true }).unwrap();
            }
        };
        tell(&mut parser, &(HEADER.to_string() + &row(0, 1, 0)));
        parser.pause().unwrap();
        parser.pause().unwrap();
        tell(&mut parser, &row(1, 1, 0));
        parser.pause().unwrap();
        tell(&mut parser, &(HEADER.to_string() + &row(0, 1, 0) + &row(1, 1, 0)));
        parser.end(5).unwrap();
        let first = Some(SinceBoot::First);
        assert_eq!(seen, [(1, false, first), (2, true, first), (2, false, None)]);
    }

    #[test]
    fn a_pause_amid_a_later_block_waits_for_its_other_rows() {
        let block = |rows: u32| HEADER.to_string() + &(0..rows).map(|cpu| row(cpu, 1, 0)).collect::<String>();
        let seen = |pieces: [String; 3]| {
            let mut seen = Vec::new();
            let mut sink = |event: Event<'_>| {
                if let Event::Sample(s) = event {
                    seen.push((s.rows.len(), s.replaces_previous, s.cut, s.since_boot));
                }
                Ok(())
            };
            let mut parser = Parser::new(&mut sink);
            let mut number = 0;
            for piece in pieces {
                for line in piece.lines() {
                    number += 1;
                    parser.line(Line { number, bytes: line.as_bytes(), ended: true }).unwrap();
                }
                parser.pause().unwrap();
            }
            parser.end(number).unwrap();
            seen
        };
        let (first, other) = (Some(SinceBoot::First), Some(SinceBoot::OtherCpus));
        assert_eq!(
            seen([block(2), block(1), row(1, 1, 0)]),
            [(2, false, false, first), (2, false, false, None)]
        );
        assert_eq!(
            seen([block(2), block(1), String::new()]),
            [(2, false, false, first), (1, false, true, None)],
            "the end comes instead"
        );
        assert_eq!(
            seen([block(1), block(1), row(1, 1, 0)]),
            [(1, false, false, first), (1, false, false, None), (2, true, false, other)],
            "a CPU more than before"
        );
    }

    #[test]
    fn errors_name_the_line_the_column_and_what_was_expected() {
        let one = HEADER.to_string() + &row(0, 1, 0);
        for (text, expected) in [
            (
                String::new(),
                "1:1: found the end of the input, expected mpstat's header, `CPU minf mjf xcal  intr ...`",
            ),
            (HEADER.to_string(), "2:1: found the end of the input, expected a row below the header"),
            (row(0, 1, 0), "1:3: found `0`, expected a header (`CPU minf mjf ...`) before the first row"),
            (one.clone() + "  1    7   x", "3:12: found `x`, expected a whole number in column `mjf`"),
            (
                one.clone() + "  1    7   0",
                "3:13: found the end of the line, expected a number in column `xcal`",
            ),
            (
                one.clone() + &row(1, 1, 0) + &row(1, 1, 0),
                "4:3: found CPU 1 twice in one block, expected each once, and a header before each block",
            ),
            (
                one.clone() + row(1, 1, 0).trim_end() + " 5\n",
                "3:78: found `5`, expected the end of the line: the header has no more columns",
            ),
            (
                one.clone() + "  1 99999999999999999999 1",
                "3:5: found `99999999999999999999`, expected a whole number in column `minf`",
            ),
            (one.clone() + "99999 1", "3:1: found `99999`, expected the number of a CPU or set, below 65536"),
            (
                one.clone() + row(1, 1, 0).trim_end().trim_end_matches('0'),
                "3:75: found the end of the line, expected percentages that sum up to 100 (these give 1): the line is cut",
            ),
            (
                "CPU usr eff\n".into(),
                "1:9: found `eff`, expected a column of CPU time: clock rates (`mpstat -f`) are not read",
            ),
            (
                "SET usr\n".into(),
                "1:8: found the end of the line, expected the column `sze`: without it sets cannot be averaged",
            ),
        ] {
            assert_eq!(error(&text), expected, "{text}");
        }
        assert!(error("Linux 6.1 (vm)\n").contains("sysstat's mpstat"));
        assert!(
            error("\nAdaptive mutex spin: 7 events in 1.000 seconds (7 events/sec)\n")
                .contains("import lockstat")
        );
    }

    #[test]
    fn rows_before_the_first_header_are_told_and_the_block_behind_is_no_block_since_boot() {
        let text = row(1, 1, 0) + HEADER + &row(0, 1, 0);
        let mut notes = Vec::new();
        let mut marks = Vec::new();
        read(Input::Whole(Box::new(text.as_bytes())), &mut |event| {
            match event {
                Event::Note(note) => notes.push(note.to_string()),
                Event::Sample(sample) => marks.push(sample.since_boot),
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(notes, ["2: 1 rows before the first header left out: nothing names their columns"]);
        assert_eq!(marks, [None]);
    }
}
