//! plockstat: the locks of a process that threads held, waited for or spun on, the callers, and the times.
//!
//! The tool prints neither the time that it watched nor totals of a section. With `--elapsed` the times
//! become shares.
//!
//! # Source
//!
//! illumos-gate, `usr/src/cmd/plockstat/plockstat.c`; plockstat(8).

mod kind;

pub use kind::Kind;
pub(crate) use kind::is_section;
use kind::title;

use crate::error::{ImportError, Note, Place, Tool, quoted};
use crate::fields::{Fields, text, trimmed, whole};
use crate::lines::{Input, Line, LineParser, parse};
use crate::{solaris, vmstat_s};
use std::io;

/// All rows of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Line of its title.
    pub line: u64,
    /// Kind of lock and event.
    pub kind: Kind,
    /// The rows, as read.
    pub locks: Vec<Lock>,
}

/// One row: a lock and its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Line of the row.
    pub line: u64,
    /// Events.
    pub count: u64,
    /// Mean time of an event, truncated to a whole number; with `-s` an estimate from the histogram.
    pub nsec_mean: u64,
    /// The lock, such as ``libc.so.1`_uberdata``.
    pub lock: String,
    /// Name of the calling function, with its offset.
    pub caller: String,
    /// Bins as printed: upper bound (exclusive) and count.
    pub histogram: Vec<(u64, u64)>,
    /// The stack, innermost first.
    pub stack: Vec<String>,
}

impl Lock {
    /// Returns the total time of all events.
    pub fn total_ns(&self) -> f64 {
        self.count as f64 * self.nsec_mean as f64
    }
}

/// Result of the parser.
#[derive(Debug)]
pub enum Found<'a> {
    /// A complete section.
    Section(&'a Section),
    /// Records were lost: every number is a lower bound.
    Lost(Note),
    /// A remark for the reader.
    Note(Note),
}

/// Receiver of the results. An error that it returns ends the import.
pub type Sink<'s> = dyn FnMut(Found<'_>) -> io::Result<()> + 's;

/// Reads plockstat's output and passes each section to `sink` when the next begins or the input ends.
///
/// # Errors
///
/// [`ImportError`] if the text is not plockstat's. Earlier sections have been passed on by then.
pub fn read(input: Input<'_>, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    parse(input, Tool::Plockstat, &mut Parser { sink, section: None, sections: 0, state: State::Outside })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Outside any table.
    Outside,
    /// Below a heading: rows may follow.
    Rows,
    /// Below a histogram's heading: bins and frames may follow.
    Histogram,
}

struct Parser<'s, 'e> {
    sink: &'e mut Sink<'s>,
    section: Option<Section>,
    sections: u64,
    state: State,
}

impl Parser<'_, '_> {
    fn hand_on(&mut self, found: Found<'_>) -> Result<(), ImportError> {
        (self.sink)(found).map_err(|source| ImportError::Deliver { source })
    }

    fn finish(&mut self) -> Result<(), ImportError> {
        self.state = State::Outside;
        let Some(section) = self.section.take() else { return Ok(()) };
        for lock in section.locks.iter().filter(|lock| !lock.histogram.is_empty()) {
            let bins = lock.histogram.iter().fold(0u64, |sum, bin| sum.saturating_add(bin.1));
            if bins != lock.count {
                let text =
                    format!("the histogram holds {bins} events, but the lock's row counts {}", lock.count);
                self.hand_on(Found::Note(Note { line: lock.line, text }))?;
            }
        }
        self.sections += 1;
        self.hand_on(Found::Section(&section))
    }

    fn last_lock(&mut self) -> Option<&mut Lock> {
        self.section.as_mut()?.locks.last_mut()
    }

    fn heading(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        if self.section.is_none() {
            return Err(ImportError::unexpected(line.place(0), line.bytes, "a title, such as `Mutex block`"));
        }
        self.state = State::Rows;
        Ok(())
    }

    fn row(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let mut fields = Fields::from(line.bytes, 0, line.number);
        let first = fields.clone().next();
        if self.state == State::Outside {
            let found = first.map_or(&b""[..], |field| field.bytes);
            let at = first.map_or(0, |field| field.at);
            return Err(ImportError::unexpected(
                line.place(at),
                found,
                "a title and a heading (`Count nsec Lock Caller`) before the rows",
            ));
        }
        let count = fields.need_whole("a count")?;
        let nsec_mean = fields.need_whole("a mean time")?;
        let lock = fields.need("a lock")?;
        let caller =
            fields.clone().last().ok_or_else(|| ImportError::end_of_line(fields.end(), "a caller"))?;
        let lock = Lock {
            line: line.number,
            count,
            nsec_mean,
            lock: text(line.bytes[lock.at..caller.at].trim_ascii_end()),
            caller: text(caller.bytes),
            histogram: Vec::new(),
            stack: Vec::new(),
        };
        self.state = State::Rows;
        self.section.as_mut().expect("a heading needs a section").locks.push(lock);
        Ok(())
    }

    fn histogram(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        if self.last_lock().is_none() || self.state == State::Outside {
            return Err(ImportError::unexpected(line.place(0), line.bytes, "a row before its histogram"));
        }
        self.state = State::Histogram;
        Ok(())
    }

    /// Parses ``     65536 |@@@@@@@@@@@@            |   507 libc.so.1`mutex_lock+0x10``.
    fn bin(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let mut fields = Fields::from(line.bytes, 0, line.number);
        let bound = fields.need_whole("a bin's bound")?;
        let bar = fields.need("a bar of `@`")?;
        if bar.bytes[0] != b'|' {
            return Err(fields.unexpected(bar, "a bar of `@`"));
        }
        let end = line.bytes[bar.at + 1..].iter().position(|&b| b == b'|').map(|at| bar.at + 1 + at);
        let end = end.ok_or_else(|| ImportError::end_of_line(fields.end(), "`|`, the end of the bar"))?;
        if line.bytes[bar.at + 1..end].iter().any(|&b| b != b'@' && b != b' ') {
            return Err(fields.unexpected(bar, "a bar of `@`"));
        }
        let mut rest = Fields::from(line.bytes, end + 1, line.number);
        let count = rest.need_whole("a bin's count")?;
        let frame = rest.next().map(|frame| text(frame.bytes));
        if let Some(more) = rest.next() {
            return Err(rest.unexpected(more, "the end of the line"));
        }
        let lock = self.last_lock().expect("a histogram has a row");
        if lock.histogram.len() >= 64 {
            return Err(ImportError::unexpected(line.place(0), line.bytes, "at most 64 bins"));
        }
        lock.histogram.push((bound, count));
        lock.stack.extend(frame);
        Ok(())
    }

    /// Handles a message of plockstat or DTrace on standard error.
    fn diagnosis(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let note = Note { line: line.number, text: text(trimmed(line.bytes)) };
        let lost = note.text.contains(" drop");
        self.hand_on(if lost { Found::Lost(note) } else { Found::Note(note) })
    }

    fn other(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let bytes = trimmed(line.bytes);
        let at = line.bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
        let place = line.place(at);
        for (found, hint, is) in [
            ("lockstat", "use `bakeoff import lockstat`", solaris::lockstat::is_section(bytes)),
            ("vmstat -s", "use `bakeoff import vmstat`", vmstat_s::is_cpu_line(bytes)),
        ] {
            if is {
                return Err(ImportError::OtherTool { place, found, expected: Tool::Plockstat, hint });
            }
        }
        match self.state {
            State::Outside => {
                let text = format!("not plockstat output, left out: {}", quoted(bytes));
                self.hand_on(Found::Note(Note { line: line.number, text }))
            }
            State::Rows => {
                Err(ImportError::unexpected(place, bytes, "a row (`Count nsec Lock Caller`) or a title"))
            }
            State::Histogram => {
                Err(ImportError::unexpected(place, bytes, "a bin, a frame or a line of dashes"))
            }
        }
    }
}

impl LineParser for Parser<'_, '_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let body = trimmed(line.bytes);
        if body.is_empty() {
            return Ok(());
        }
        if body.starts_with(b"plockstat: ") || body.starts_with(b"dtrace: ") {
            return self.diagnosis(line);
        }
        if let Some(kind) = title(body) {
            self.finish()?;
            self.section = Some(Section { line: line.number, kind, locks: Vec::new() });
            return Ok(());
        }
        if body.len() >= 20 && body.iter().all(|&b| b == b'-') {
            return Ok(());
        }
        let mut fields = Fields::from(line.bytes, 0, line.number);
        let (first, second) = (fields.next().expect("not empty"), fields.next());
        let second_bytes = second.map_or(&b""[..], |field| field.bytes);
        match (first.bytes, whole(first.bytes)) {
            (b"Count", _) if second_bytes == b"nsec" => self.heading(line),
            (b"nsec", _) if body.windows(17).any(|w| w == b"Time Distribution") => self.histogram(line),
            (_, Some(_)) if self.state == State::Histogram && second_bytes.starts_with(b"|") => {
                self.bin(line)
            }
            (frame, _) if self.state == State::Histogram && second.is_none() && first.at >= 43 => {
                self.last_lock().expect("a histogram has a row").stack.push(text(frame));
                Ok(())
            }
            (_, Some(_)) if whole(second_bytes).is_some() => self.row(line),
            _ => self.other(line),
        }
    }

    fn end(&mut self, lines: u64) -> Result<(), ImportError> {
        self.finish()?;
        if self.sections > 0 {
            return Ok(());
        }
        Err(ImportError::Unexpected {
            place: Place { line: lines + 1, column: 1 },
            found: "the end of the input".into(),
            expected: "a title, such as `Mutex block`; plockstat prints nothing when nothing happened".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(text: &str) -> Vec<Section> {
        let mut all = Vec::new();
        read(Input::Whole(Box::new(text.as_bytes())), &mut |found| {
            if let Found::Section(section) = found {
                all.push(section.clone());
            }
            Ok(())
        })
        .unwrap();
        all
    }

    fn error(text: &str) -> String {
        read(Input::Whole(Box::new(text.as_bytes())), &mut |_| Ok(())).unwrap_err().to_string()
    }

    const HEAD: &str = "\nMutex block\n\nCount     nsec Lock                         Caller\n--------------------------------------------------------------------------------\n";

    #[test]
    fn a_row_has_a_count_a_mean_a_lock_and_a_caller() {
        let all = sections(&format!("{HEAD}   12    40291 app`lock                     app`work+0x1c\n"));
        assert_eq!((all[0].kind, all[0].locks.len()), (Kind::MutexBlock, 1));
        let lock = &all[0].locks[0];
        assert_eq!((lock.count, lock.nsec_mean), (12, 40291));
        assert_eq!((lock.lock.as_str(), lock.caller.as_str()), ("app`lock", "app`work+0x1c"));
    }

    #[test]
    fn errors_name_the_line_the_column_and_what_was_expected() {
        for (text, expected) in [
            (
                String::new(),
                "1:1: found the end of the input, expected a title, such as `Mutex block`; plockstat prints nothing when nothing happened",
            ),
            (
                "   12    40291 a b\n".into(),
                "1:4: found `12`, expected a title and a heading (`Count nsec Lock Caller`) before the rows",
            ),
            (format!("{HEAD}   12    40291 a\n"), "6:17: found the end of the line, expected a caller"),
            (format!("{HEAD}   12    40291\n"), "6:15: found the end of the line, expected a lock"),
            (
                format!("{HEAD}   12    40x91 a b\n"),
                "6:4: found `12    40x91 a b`, expected a row (`Count nsec Lock Caller`) or a title",
            ),
        ] {
            assert_eq!(error(&text), expected, "{text}");
        }
        assert!(
            error("Adaptive mutex spin: 7 events in 1.000 seconds (7 events/sec)\n")
                .contains("import lockstat")
        );
    }
}
