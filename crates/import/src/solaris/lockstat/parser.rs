//! The parser: one line at a time. The shape of a line determines its kind.

use super::cells::{
    HeaderUnit, TITLE, parse_bin, parse_columns, parse_parsable, parse_row, parse_title, parse_trace,
};
use super::line::{contains, is_section};
use super::{Class, Counts, Event, Form, Found, Lock, Percent, Run, Section, Sink, Time, Unit};
use crate::error::{ImportError, Note, Place, Tool, quoted};
use crate::fields::{Field, Fields, text, trimmed, whole};
use crate::lines::{Input, Line, LineParser, parse};
use crate::{solaris, vmstat_s};
use std::collections::HashMap;

/// Reads lockstat's output and passes each run to `sink` when the next begins or the input ends.
///
/// Needs as much memory as one run's locks. The input may contain lockstat's standard error: reports of lost
/// records are recognized anywhere.
///
/// # Errors
///
/// [`ImportError`] if the text is not lockstat's. Earlier runs have been passed on by then.
pub fn read(input: Input<'_>, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    parse(input, Tool::Lockstat, &mut Parser::new(sink))
}

struct Parser<'s, 'e> {
    sink: &'e mut Sink<'s>,
    run: Option<Run>,
    runs: u64,
    /// Reports of lost records before any run.
    lost: Vec<Note>,
    /// Current table, while it takes rows.
    open: Option<Table>,
    /// Set while the last row takes bins and frames.
    histogram: Option<Counts>,
    trace: Trace,
}

/// Columns of the current table.
#[derive(Debug, Clone, Copy)]
struct Table {
    unit: HeaderUnit,
    rows: u64,
}

/// Common attributes of events in a trace: event number, lock, caller, stack.
type Likeness = (Option<u8>, String, String, Vec<String>);

/// Events of a trace, summed by their common attributes.
#[derive(Default)]
struct Trace {
    pending: Option<Lock>,
    event: Option<Event>,
    index: HashMap<Likeness, (usize, usize)>,
}

impl<'s, 'e> Parser<'s, 'e> {
    fn new(sink: &'e mut Sink<'s>) -> Self {
        Self {
            sink,
            run: None,
            runs: 0,
            lost: Vec::new(),
            open: None,
            histogram: None,
            trace: Trace::default(),
        }
    }

    fn hand_on(&mut self, found: Found<'_>) -> Result<(), ImportError> {
        (self.sink)(found).map_err(|source| ImportError::Deliver { source })
    }

    fn note(&mut self, line: u64, text: String) -> Result<(), ImportError> {
        self.hand_on(Found::Note(Note { line, text }))
    }

    /// Returns the run that `event` belongs to, printed as `form`: the current one, or a new one.
    fn run_for(
        &mut self,
        line: u64,
        form: Form,
        event: &Event,
        elapsed_s: Option<f64>,
    ) -> Result<&mut Run, ImportError> {
        let goes_on = self.run.as_ref().is_some_and(|run| {
            let same = run.form == form && run.elapsed_s == elapsed_s;
            let last = run.sections.last().map(|section| &section.event);
            // One run prints its events in the order of their numbers, each kind once. A trace has no order.
            let ordered = match (last.and_then(|last| last.number), event.number) {
                (Some(last), Some(next)) if form == Form::Parsable => last <= next,
                (Some(last), Some(next)) => last < next,
                _ => last.is_none_or(|last| last.name != event.name),
            };
            same && (ordered || form == Form::Trace)
        });
        if !goes_on {
            self.finish_run()?;
        }
        let lost = &mut self.lost;
        Ok(self.run.get_or_insert_with(|| Run {
            line,
            form,
            elapsed_s,
            sections: Vec::new(),
            lost: std::mem::take(lost),
        }))
    }

    fn title(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let (name, events, elapsed_s) = parse_title(line)?;
        let event = Event::named(&name);
        self.open = None;
        self.histogram = None;
        let run = self.run_for(line.number, Form::Tables, &event, Some(elapsed_s))?;
        run.sections.push(Section::new(line.number, event, Some(events)));
        Ok(())
    }

    /// Returns the section of the current table.
    fn section(&mut self) -> Option<&mut Section> {
        self.run.as_mut().filter(|run| run.form == Form::Tables)?.sections.last_mut()
    }

    fn columns(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let header = parse_columns(line)?;
        self.histogram = None;
        let Some(section) = self.section() else {
            return Err(ImportError::unexpected(line.place(0), line.bytes, TITLE));
        };
        section.counts = header.counts;
        section.percent = if header.generated { Percent::Generated } else { Percent::Unknown };
        section.hottest_lock = header.hottest_lock;
        section.hottest_caller = header.hottest_caller;
        section.unit = match header.unit {
            HeaderUnit::Nsec => Unit::Nsec,
            HeaderUnit::Spins => Unit::Spins,
            HeaderUnit::Either | HeaderUnit::Blank => Unit::Untimed,
        };
        self.open = Some(Table { unit: header.unit, rows: 0 });
        Ok(())
    }

    fn row(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        self.histogram = None;
        let Some(table) = &mut self.open else {
            let at = line.bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
            return Err(ImportError::unexpected(
                line.place(at),
                &line.bytes[at..],
                "a table's title and columns before its rows",
            ));
        };
        let lock = parse_row(line, table.unit)?;
        table.rows += 1;
        let section = self.section().expect("a table is open only inside a section");
        section.locks.push(lock);
        Ok(())
    }

    /// Handles a line of dashes, which closes a table, a record or a heading.
    fn rule(&mut self) {
        self.histogram = None;
        if self.open.is_some_and(|table| table.rows > 0) {
            self.open = None;
        }
    }

    fn histogram_title(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let has_row = self.open.is_some_and(|table| table.rows > 0);
        if !has_row {
            return Err(ImportError::unexpected(line.place(0), line.bytes, "a row before its histogram"));
        }
        let rates = Fields::from(line.bytes, 0, line.number).any(|field| field.bytes == b"ops/s");
        self.histogram = Some(if rates { Counts::PerSecond } else { Counts::Events });
        Ok(())
    }

    fn bin(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let (bound, count, frame) = parse_bin(line)?;
        let lock =
            self.section().and_then(|section| section.locks.last_mut()).expect("a histogram has a row");
        if lock.histogram.len() >= 64 {
            return Err(ImportError::unexpected(line.place(0), line.bytes, "at most 64 bins"));
        }
        lock.histogram.push((bound, count));
        lock.stack.extend(frame);
        Ok(())
    }

    fn frame(&mut self, frame: Field<'_>) {
        let lock =
            self.section().and_then(|section| section.locks.last_mut()).expect("a histogram has a row");
        lock.stack.push(text(frame.bytes));
    }

    /// Handles a line of `-D 0`, which has only the count of a kind of event.
    fn count(&mut self, line: Line<'_>, count: u64, event: Event) -> Result<(), ImportError> {
        let run = self.run_for(line.number, Form::Counts, &event, None)?;
        run.sections.push(Section::new(line.number, event, Some(count)));
        Ok(())
    }

    fn parsable(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        if !line.ended {
            let text = "the last line has no newline, its last number may be cut: left out".to_owned();
            return self.note(line.number, text);
        }
        let (event, lock) = parse_parsable(line)?;
        let run = self.run_for(line.number, Form::Parsable, &event, None)?;
        let new = run.sections.last().is_none_or(|section| section.event != event);
        if new {
            run.sections.push(Section::new(line.number, event, None));
        }
        let section = run.sections.last_mut().expect("pushed above");
        section.locks.push(lock);
        Ok(())
    }

    fn trace_title(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        self.finish_run()?;
        self.open = None;
        self.histogram = None;
        let lost = std::mem::take(&mut self.lost);
        let run = Run { line: line.number, form: Form::Trace, elapsed_s: None, sections: Vec::new(), lost };
        self.run = Some(run);
        Ok(())
    }

    fn trace_row(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        self.flush_trace();
        let (event, lock) = parse_trace(line)?;
        self.trace.pending = Some(lock);
        self.trace.event = Some(event);
        Ok(())
    }

    /// Adds the pending event to those with the same attributes.
    fn flush_trace(&mut self) {
        let (Some(lock), Some(event)) = (self.trace.pending.take(), self.trace.event.take()) else { return };
        let Some(run) = self.run.as_mut().filter(|run| run.form == Form::Trace) else { return };
        let key = (event.number, lock.lock.clone(), lock.caller.clone(), lock.stack.clone());
        if let Some(&(section, row)) = self.trace.index.get(&key) {
            let known = &mut run.sections[section].locks[row];
            known.count += 1;
            if let (Time::Total(sum), Time::Total(more)) = (known.time, lock.time) {
                known.time = Time::Total(sum.saturating_add(more));
            }
            return;
        }
        let section = run.sections.iter().position(|section| section.event == event).unwrap_or_else(|| {
            run.sections.push(Section::new(lock.line, event, None));
            run.sections.len() - 1
        });
        run.sections[section].locks.push(lock);
        self.trace.index.insert(key, (section, run.sections[section].locks.len() - 1));
    }

    /// Handles a message of lockstat or DTrace on standard error.
    fn diagnosis(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let said = text(trimmed(line.bytes));
        // A drop is a lost record. A failure of the command or a signal is not.
        let harmless = said.contains("exited with code") || said.contains("died on signal");
        if harmless {
            return self.note(line.number, said);
        }
        let note = Note { line: line.number, text: said };
        match &mut self.run {
            Some(run) => run.lost.push(note),
            None => self.lost.push(note),
        }
        Ok(())
    }

    /// Handles a line of unknown shape: a note, or an error if a row must come here.
    fn other(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let bytes = trimmed(line.bytes);
        let at = line.bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
        let place = line.place(at);
        if self.histogram.is_some() {
            return Err(ImportError::unexpected(place, bytes, "a bin, a frame or a line of dashes"));
        }
        if self.open.is_some() {
            let expected = "a row (`Count indv cuml rcnt nsec Lock Caller`) or a line of dashes";
            return Err(ImportError::unexpected(place, bytes, expected));
        }
        for (found, hint, is) in [
            ("plockstat", "use `bakeoff import plockstat`", solaris::plockstat::is_section(bytes)),
            ("vmstat -s", "use `bakeoff import vmstat`", vmstat_s::is_cpu_line(bytes)),
            (
                "mpstat",
                "use `bakeoff import mpstat`",
                bytes.starts_with(b"CPU minf") || bytes.starts_with(b"SET minf"),
            ),
        ] {
            if is {
                return Err(ImportError::OtherTool { place, found, expected: Tool::Lockstat, hint });
            }
        }
        self.note(line.number, format!("not lockstat output, left out: {}", quoted(bytes)))
    }

    /// Passes on the current run.
    fn finish_run(&mut self) -> Result<(), ImportError> {
        self.flush_trace();
        self.trace = Trace::default();
        self.open = None;
        self.histogram = None;
        let Some(mut run) = self.run.take() else { return Ok(()) };
        self.leave_out_interrupts(&mut run)?;
        run.sections.iter_mut().for_each(|section| section.settle(run.form));
        for section in &run.sections {
            self.check_sums(section)?;
        }
        self.runs += 1;
        self.hand_on(Found::Run(&run))
    }

    fn leave_out_interrupts(&mut self, run: &mut Run) -> Result<(), ImportError> {
        let mut left_out = Vec::new();
        run.sections.retain(|section| {
            let is_lock = section.event.class != Class::Interrupt;
            if !is_lock {
                left_out.push((section.line, section.locks.len()));
            }
            is_lock
        });
        for (line, rows) in left_out {
            self.note(
                line,
                format!("profiling interrupts (-I) left out, {rows} rows: they are not lock events"),
            )?;
        }
        Ok(())
    }

    /// Reports sums that do not balance: fewer events in the rows than in the title, bins that differ from
    /// their row.
    fn check_sums(&mut self, section: &Section) -> Result<(), ImportError> {
        let name = &section.event.name;
        if let Some((shown, events)) = section.cut() {
            let text = format!(
                "{name}: the rows hold {shown} of {events} events (lockstat -D?): their sums are lower bounds"
            );
            self.note(section.line, text)?;
        }
        if section.counts == Counts::PerSecond {
            return Ok(());
        }
        for lock in section.locks.iter().filter(|lock| !lock.histogram.is_empty()) {
            let bins = lock.histogram.iter().fold(0u64, |sum, bin| sum.saturating_add(bin.1));
            if bins != lock.count {
                self.note(
                    lock.line,
                    format!("the histogram holds {bins} events, but the lock's row counts {}", lock.count),
                )?;
            }
        }
        Ok(())
    }
}

impl LineParser for Parser<'_, '_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let bytes = line.bytes;
        let body = trimmed(bytes);
        if body.is_empty() {
            return Ok(());
        }
        if body.starts_with(b"lockstat: ") || body.starts_with(b"dtrace: ") {
            return self.diagnosis(line);
        }
        if is_section(body) {
            return self.title(line);
        }
        if body.len() >= 20 && body.iter().all(|&b| b == b'-') {
            self.rule();
            return Ok(());
        }
        if contains(body, b"------ Time Distribution ------") {
            return self.histogram_title(line);
        }
        let mut fields = Fields::from(bytes, 0, line.number);
        let (first, second) = (fields.next().expect("not empty"), fields.next());
        let second_bytes = second.map_or(&b""[..], |field| field.bytes);
        let in_trace = self.run.as_ref().is_some_and(|run| run.form == Form::Trace);
        match (whole(first.bytes), second) {
            (None, Some(_)) if matches!(first.bytes, b"Count" | b"ops/s") => self.columns(line),
            (None, Some(_)) if first.bytes == b"Event" && second_bytes == b"Time" => self.trace_title(line),
            (Some(_), Some(_)) if self.histogram.is_some() && second_bytes.starts_with(b"|") => {
                self.bin(line)
            }
            (_, None) if self.histogram.is_some() && first.at >= 15 => {
                self.frame(first);
                Ok(())
            }
            (_, None) if self.trace.pending.is_some() && first.at >= 50 => {
                let lock = self.trace.pending.as_mut().expect("checked above");
                lock.stack.push(text(first.bytes));
                Ok(())
            }
            (Some(_), Some(_)) if second_bytes.ends_with(b"%") => self.row(line),
            (Some(_), Some(_)) if in_trace => self.trace_row(line),
            (Some(count), Some(second)) if self.open.is_none() => {
                let name = text(bytes[second.at..].trim_ascii());
                match Event::known(&name) {
                    Some(event) => self.count(line, count, event),
                    None if count < 64 && whole(second_bytes).is_some() => self.parsable(line),
                    None => self.other(line),
                }
            }
            _ => self.other(line),
        }
    }

    fn end(&mut self, lines: u64) -> Result<(), ImportError> {
        self.finish_run()?;
        if self.runs > 0 {
            return Ok(());
        }
        let place = Place { line: lines + 1, column: 1 };
        let (found, expected) = match self.lost.first() {
            Some(lost) => (
                format!("only what lockstat said on standard error ({lost})"),
                "its tables too: give both files together, as in `cat OUT ERR | bakeoff import lockstat -`"
                    .to_owned(),
            ),
            None => (
                "the end of the input".into(),
                format!("{TITLE}; lockstat prints nothing when nothing happened"),
            ),
        };
        Err(ImportError::Unexpected { place, found, expected: expected.into() })
    }
}
