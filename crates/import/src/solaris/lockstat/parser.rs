//! The parser: one line at a time, each told apart by its own shape.

use super::{Class, Counts, Event, Form, Found, Lock, Percent, Run, Section, Sink, Time, Unit};
use crate::error::{ImportError, Note, Place, Tool, quoted};
use crate::fields::{Field, Fields, decimal, text, trimmed, whole};
use crate::lines::{Input, Line, LineParser, parse};
use crate::{solaris, vmstat_s};
use std::collections::HashMap;

/// Reads what lockstat printed and hands each run to `sink` as soon as the next begins or the input ends.
///
/// Needs as much memory as one run's locks. What lockstat says on its standard error may stand in the input: lost
/// records are understood wherever they are told.
///
/// # Errors
///
/// [`ImportError`] where the text is not lockstat's; what came before has been handed on by then.
pub fn read(input: Input<'_>, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    parse(input, Tool::Lockstat, &mut Parser::new(sink))
}

/// `Adaptive mutex spin: 169258 events in 10.012 seconds (16906 events/sec)`
pub(crate) fn is_section(line: &[u8]) -> bool {
    contains(line, b" events in ") && contains(line, b" seconds (")
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

const TITLE: &str = "a title, such as `Adaptive mutex spin: 7 events in 1.000 seconds (7 events/sec)`";

struct Parser<'s, 'e> {
    sink: &'e mut Sink<'s>,
    run: Option<Run>,
    runs: u64,
    /// Lost records told before any run.
    lost: Vec<Note>,
    /// The table at hand takes rows.
    open: Option<Table>,
    /// The last row takes bins and frames.
    histogram: Option<Counts>,
    trace: Trace,
}

/// The columns of the table at hand.
#[derive(Debug, Clone, Copy)]
struct Table {
    unit: HeaderUnit,
    rows: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeaderUnit {
    Nsec,
    Spins,
    /// `(N/A)`: the cell holds a number or nothing.
    Either,
    Blank,
}

/// Event number, lock, caller, stack: what events of a trace have in common.
type Likeness = (Option<u8>, String, String, Vec<String>);

/// Events of a trace, summed up by what they have in common.
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

    /// The run that `event` belongs to, printed as `form`: the one at hand, or a new one.
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

    /// The section whose table is at hand.
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

    /// A line of dashes closes a table, a record or a heading.
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

    /// `-D 0`: how often a kind of event came, and nothing else.
    fn count(&mut self, line: Line<'_>, count: u64, event: Event) -> Result<(), ImportError> {
        let run = self.run_for(line.number, Form::Counts, &event, None)?;
        run.sections.push(Section::new(line.number, event, Some(count)));
        Ok(())
    }

    fn parsable(&mut self, line: Line<'_>) -> Result<(), ImportError> {
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

    /// Adds the pending event to those that are like it.
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

    /// What lockstat or DTrace said on standard error.
    fn diagnosis(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let said = text(trimmed(line.bytes));
        // A drop is a lost record; that the command failed or a signal came is not.
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

    /// A line of no known shape: told, unless it stands where a row must.
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
        self.note(line.number, format!("not lockstat's, left out: {}", quoted(bytes)))
    }

    /// Hands on the run at hand.
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
            self.note(line, format!("profiling interrupts (-I) left out, {rows} rows: they are no lock's"))?;
        }
        Ok(())
    }

    /// The books must balance: rows against the title, bins against their row.
    fn check_sums(&mut self, section: &Section) -> Result<(), ImportError> {
        let name = &section.event.name;
        if let Some((shown, events)) = section.cut() {
            let text = format!(
                "{name}: the rows hold {shown} of {events} events (lockstat -D?): what they give is a lower bound"
            );
            self.note(section.line, text)?;
        }
        if section.counts == Counts::PerSecond {
            return Ok(());
        }
        let sum = section.locks.iter().fold(0u64, |sum, lock| sum.saturating_add(lock.count));
        if section.percent != Percent::Generated && section.events.is_some_and(|events| sum > events) {
            self.note(
                section.line,
                format!("{name}: the rows hold {sum} events, more than the title tells"),
            )?;
        }
        for lock in section.locks.iter().filter(|lock| !lock.histogram.is_empty()) {
            let bins = lock.histogram.iter().fold(0u64, |sum, bin| sum.saturating_add(bin.1));
            if bins != lock.count {
                self.note(lock.line, format!("the histogram holds {bins} events, its row {}", lock.count))?;
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

impl Section {
    fn new(line: u64, event: Event, events: Option<u64>) -> Self {
        Self {
            line,
            event,
            events,
            counts: Counts::Events,
            unit: Unit::Untimed,
            percent: Percent::Unknown,
            hottest_lock: false,
            hottest_caller: false,
            locks: Vec::new(),
        }
    }

    /// Says what only the whole section tells: the unit of forms without a header, and what the percentages are of.
    fn settle(&mut self, form: Form) {
        match form {
            Form::Tables => {
                if self.percent == Percent::Unknown && self.counts == Counts::Events {
                    self.percent = self.percent_of();
                }
            }
            Form::Counts => {}
            Form::Parsable | Form::Trace => {
                let timed = self.locks.iter().any(|lock| match lock.time {
                    Time::Total(total) => form == Form::Parsable || total > 0,
                    Time::Mean(_) => true,
                    Time::Unmeasured => false,
                });
                // Only Solaris 8 counts references, and only its trace knows durations; its spins are iterations.
                let solaris_8 =
                    form == Form::Trace || self.locks.iter().any(|lock| lock.references > Some(0.0));
                self.unit = match (timed, self.event.class.is_cpu(), solaris_8) {
                    (false, ..) => Unit::Untimed,
                    (true, true, true) => Unit::Spins,
                    (true, true, false) => Unit::NsecAssumed,
                    (true, false, _) => Unit::Nsec,
                };
                if self.unit == Unit::Untimed {
                    self.locks.iter_mut().for_each(|lock| lock.time = Time::Unmeasured);
                }
            }
        }
    }

    /// `-P` leaves no trace but the percentages themselves: whichever reading reproduces them all is the right one.
    fn percent_of(&self) -> Percent {
        let times = self.locks.iter().map(|lock| lock.total_time(self.counts).unwrap_or(0.0));
        let time_sum: f64 = times.clone().sum();
        let count_sum = self.events.unwrap_or(0) as f64;
        let fits =
            |share: f64, lock: &Lock| lock.share_pct.is_some_and(|pct| (pct as f64 - share).abs() <= 0.51);
        if self.locks.is_empty() {
            Percent::Unknown
        } else if self.locks.iter().all(|lock| fits(100.0 * lock.count as f64 / count_sum, lock)) {
            Percent::Count
        } else if self.cut().is_some() {
            // The time of the rows that are not shown is not known; but counts do not explain the percentages.
            Percent::Time
        } else if self.locks.iter().zip(times).all(|(lock, time)| {
            let share = 100.0 * time / time_sum;
            // The mean was cut to a whole number, so the share is only nearly reproduced.
            lock.share_pct.is_some_and(|pct| (pct as f64 - share).abs() <= 1.0)
        }) {
            Percent::Time
        } else {
            Percent::Unknown
        }
    }
}

fn parse_title(line: Line<'_>) -> Result<(String, u64, f64), ImportError> {
    let bytes = line.bytes;
    let events_in =
        bytes.windows(11).rposition(|window| window == b" events in ").expect("checked by is_section");
    let Some(colon) = bytes[..events_in].iter().rposition(|&b| b == b':') else {
        return Err(ImportError::unexpected(line.place(0), bytes, TITLE));
    };
    let name = trimmed(&bytes[..colon]);
    if name.first().is_none_or(u8::is_ascii_digit) {
        // No event's name begins so: a row that was cut runs into the title behind it.
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

struct ColumnHeader {
    counts: Counts,
    generated: bool,
    unit: HeaderUnit,
    hottest_lock: bool,
    hottest_caller: bool,
}

/// `Count indv cuml rcnt     nsec Hottest Lock           Caller`
fn parse_columns(line: Line<'_>) -> Result<ColumnHeader, ImportError> {
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

/// `148213  88%  88% 0.00      611 zone_free_lock         page_create_va+0x1c4`
///
/// Every cell may have outgrown its column, so nothing is told by position, but for a lock without a name.
fn parse_row(line: Line<'_>, unit: HeaderUnit) -> Result<Lock, ImportError> {
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
    // How far the caller stands behind the numbers where the lock has no name: its own width and two blanks.
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

/// The last field is the caller, all before it the lock, whose name may hold blanks.
fn lock_and_caller(
    line: Line<'_>,
    mut fields: Fields<'_>,
    numbers_end: usize,
    nameless_gap: usize,
) -> Result<(String, String), ImportError> {
    let first = fields.need("a lock and its caller")?;
    let last = fields.clone().last().unwrap_or(first);
    if last.at == first.at && first.at - numbers_end < nameless_gap {
        return Err(ImportError::end_of_line(fields.end(), "a caller behind the lock"));
    }
    let lock = line.bytes[first.at..last.at].trim_ascii_end();
    Ok((text(lock), text(last.bytes)))
}

fn percentage(bytes: &[u8]) -> Option<u64> {
    whole(bytes.strip_suffix(b"%")?)
}

/// `       128 |@@                             11857     segkmem_alloc+0xa0`
fn parse_bin(line: Line<'_>) -> Result<(u64, u64, Option<String>), ImportError> {
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

/// `0 148213 zone_free_lock page_create_va+0x1c4 0.000000 90558143 [64 bins] [frames]`
fn parse_parsable(line: Line<'_>) -> Result<(Event, Lock), ImportError> {
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

fn six_decimals(bytes: &[u8]) -> bool {
    decimal(bytes).is_some() && bytes.iter().rev().position(|&b| b == b'.') == Some(6)
}

/// The bins from the first that holds something to the last, as the tables print them.
fn used(bins: &[u64; 64]) -> Vec<(u64, u64)> {
    let first = bins.iter().position(|&count| count > 0).unwrap_or(64);
    let last = bins.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    (first..last).map(|i| (1u64 << i, bins[i])).collect()
}

/// ` 0           0            0  zone_free_lock            page_create_va+0x1c4`
fn parse_trace(line: Line<'_>) -> Result<(Event, Lock), ImportError> {
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
