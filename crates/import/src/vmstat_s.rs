//! `vmstat -s`: counters since boot. Two snapshots give exact utilization, since they hold ticks and not
//! percentages.
//!
//! The number of ticks is also a check: between two snapshots each CPU should count HZ ticks per second.
//! Missing or surplus ticks are time that the clock did not see; [`Interval::unaccounted_ratio`] is their
//! share.
//!
//! # Source
//!
//! illumos-gate, `usr/src/cmd/stat/vmstat/vmstat.c`; procps, `vmstat.c`; vmstat(8) of both.

mod cpu_lines;

pub use cpu_lines::State;
pub(crate) use cpu_lines::is_cpu_line;
use cpu_lines::{cpu_state, name};

use crate::error::{ImportError, Note, Place, Tool, quoted};
use crate::fields::{Fields, trimmed, whole};
use crate::lines::{Input, Line, LineParser, parse};
use crate::solaris;
use crate::when::{When, leading};
use record::missing::{Maybe, Missing};
use std::io;

/// Lines of ticks that every version prints, in this order: Solaris and illumos.
const SOLARIS_LINES: [&str; 4] = ["user cpu", "system cpu", "idle cpu", "wait cpu"];
/// The same lines of Linux.
const LINUX_LINES: [&str; 8] = [
    "non-nice user cpu ticks",
    "nice user cpu ticks",
    "system cpu ticks",
    "idle cpu ticks",
    "IO-wait cpu ticks",
    "IRQ cpu ticks",
    "softirq cpu ticks",
    "stolen cpu ticks",
];

/// Counter name of the boot time on Linux, in seconds since 1970.
const BOOT_TIME: &str = "boot time";
/// Tolerance: the kernel computes the boot time from the clock, which is corrected by small amounts.
const BOOT_EDGE_S: u64 = 60;
/// Lines that are not counters: their values may fall.
const LEVELS: [&str; 4] = [" memory", " swap", " swap cache", BOOT_TIME];

/// Output of one `vmstat -s`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Line of its first counter.
    pub line: u64,
    /// Date that precedes it.
    pub at: Option<When>,
    /// Ticks by state. User ticks include those of guests.
    pub ticks: Ticks,
    /// Ticks of guests, if the form has their lines.
    pub guest: u128,
    /// Name and value of every line, with single blanks in names.
    pub counters: Vec<(String, u64)>,
}

impl Snapshot {
    /// Returns the state that lacks its line of ticks, if one does: the snapshot was truncated.
    fn lacks(&self) -> Option<&'static str> {
        let has = |name: &str| self.counters.iter().any(|(known, _)| known == name);
        if !self.counters.iter().any(|(name, _)| cpu_state(name).is_some()) {
            return Some("user");
        }
        if SOLARIS_LINES.iter().any(|name| has(name)) {
            return SOLARIS_LINES.iter().find(|name| !has(name)).copied().map(state_of);
        }
        // Kernels before 2.6.11 do not count stolen time: counts of pages follow there.
        let mut behind = self.counters.iter().skip_while(|(name, _)| name != "softirq cpu ticks");
        let is_old = behind.nth(1).is_some_and(|(name, _)| name.ends_with("paged in"));
        let known = &LINUX_LINES[..LINUX_LINES.len() - usize::from(is_old)];
        known.iter().find(|name| !has(name)).copied().map(state_of)
    }
}

/// Returns the state that a line counts: `idle cpu ticks` counts idle ticks.
fn state_of(name: &'static str) -> &'static str {
    name.split_once(" cpu").map_or(name, |(state, _)| state)
}

/// Ticks of all CPUs, by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticks {
    /// In user mode.
    pub user: u128,
    /// In the kernel.
    pub system: u128,
    /// Idle.
    pub idle: u128,
    /// Idle, with I/O outstanding.
    pub wait: u128,
    /// Taken by the hypervisor.
    pub stolen: u128,
}

/// Selects the ticks of one state.
pub type Part = fn(&Ticks) -> u128;

/// The states by name.
pub const STATES: [(&str, Part); 5] = [
    ("user", |ticks| ticks.user),
    ("system", |ticks| ticks.system),
    ("idle", |ticks| ticks.idle),
    ("wait", |ticks| ticks.wait),
    ("stolen", |ticks| ticks.stolen),
];

impl Ticks {
    /// Returns the ticks of all states.
    pub fn sum(&self) -> u128 {
        [self.user, self.system, self.idle, self.wait, self.stolen].into_iter().sum()
    }

    /// Adds ticks of one state.
    pub(crate) fn add(&mut self, state: State, ticks: u64) {
        let sum = match state {
            State::User => &mut self.user,
            State::System => &mut self.system,
            State::Idle => &mut self.idle,
            State::Wait => &mut self.wait,
            State::Stolen => &mut self.stolen,
            State::Guest => return,
        };
        *sum += u128::from(ticks);
    }

    /// Returns the ticks since `earlier`; `None` if any state fell, except waiting. Linux lets waiting fall
    /// by a few ticks when a task that waits for I/O moves to another CPU (proc(5), `iowait`). Idle gains
    /// what waiting loses.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let fell = earlier.wait.saturating_sub(self.wait);
        Some(Self {
            user: self.user.checked_sub(earlier.user)?,
            system: self.system.checked_sub(earlier.system)?,
            idle: self.idle.checked_sub(earlier.idle)?.saturating_sub(fell),
            wait: self.wait.saturating_sub(earlier.wait),
            stolen: self.stolen.checked_sub(earlier.stolen)?,
        })
    }
}

/// Result of the parser.
#[derive(Debug)]
pub enum Found<'a> {
    /// A complete snapshot.
    Snapshot(&'a Snapshot),
    /// A remark for the reader.
    Note(Note),
}

/// Receiver of the results. An error that it returns ends the import.
pub type Sink<'s> = dyn FnMut(Found<'_>) -> io::Result<()> + 's;

/// Reads all snapshots and passes each to `sink` when the next begins or the input ends.
///
/// A snapshot ends where a counter's name repeats, or at a date.
///
/// # Errors
///
/// [`ImportError`] if the text is not that of `vmstat -s`, or a snapshot lacks its ticks.
pub fn read(input: Input<'_>, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let mut parser = Parser { sink, snapshot: Snapshot::default(), at: None, snapshots: 0 };
    parse(input, Tool::Vmstat, &mut parser)
}

/// Facts about the machine that the plausibility checks need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clockwork {
    /// Ticks per second and CPU: 100 on Solaris, illumos and, in user space, Linux.
    pub hz: f64,
    /// Number of CPUs.
    pub cpus: Option<u32>,
    /// Seconds between snapshots. Overrides their dates, which are whole seconds.
    pub elapsed_s: Option<f64>,
}

/// Changes between two snapshots.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Date of the later snapshot.
    pub at: Option<When>,
    /// Number of CPUs that ticks were due on, if known.
    pub cpus: Option<u32>,
    /// Ticks by state; missing if a counter fell.
    pub ticks: Maybe<Ticks>,
    /// Seconds between the snapshots.
    pub elapsed_s: Maybe<f64>,
    /// Share of the due ticks that are missing: time that the clock did not see.
    pub unaccounted_ratio: Maybe<f64>,
    /// Reason that the numbers cannot all be true: more ticks than the time allows, or more than any machine
    /// counts.
    pub contradiction: Option<String>,
    /// Increase of every counter that both snapshots have; missing if it fell.
    pub counters: Vec<(String, Maybe<u64>)>,
}

impl Interval {
    /// Returns the share of `part` in all ticks.
    ///
    /// # Errors
    ///
    /// Missing if there are no ticks between the snapshots, or a counter fell.
    pub fn ratio(&self, part: impl Fn(&Ticks) -> u128) -> Maybe<f64> {
        let ticks = self.ticks.as_ref().map_err(Clone::clone)?;
        match ticks.sum() {
            0 => Err(no_tick()),
            sum => Ok(part(ticks) as f64 / sum as f64), // all of them, also past 2^64
        }
    }

    /// Returns the share of time in which CPUs worked: user and system.
    ///
    /// # Errors
    ///
    /// Missing if there are no ticks between the snapshots, or a counter fell.
    pub fn busy_ratio(&self) -> Maybe<f64> {
        self.ratio(|ticks| ticks.user + ticks.system)
    }
}

/// Reason for an interval without ticks: a machine that is up has ticks.
fn no_tick() -> Missing {
    Missing::because("no ticks between the snapshots: the same snapshot twice, or the machine was paused")
}

/// More ticks than a thousand per second on 65,536 CPUs in a hundred years.
const TICKS_MAX: u128 = 1000 * 65_536 * 100 * 31_557_600;
/// Surplus of ticks that is explained by reading the counters one after the other.
const SURPLUS_RATIO: f64 = 0.01;
const HOUR_S: f64 = 3600.0;
/// Ticks by which the time of guests may exceed user time, on machines with many CPUs or an unknown number:
/// two for each CPU.
const GUEST_EDGE_TICKS: u128 = 64;

/// Computes the changes from `before` to `after`.
pub fn interval(before: &Snapshot, after: &Snapshot, clockwork: &Clockwork) -> Interval {
    let elapsed_s = elapsed(before, after, clockwork);
    let ticks = ticks_since(before, after);
    let due = due(&elapsed_s, clockwork);
    let guest = after.guest.saturating_sub(before.guest);
    let impossible = impossible(before).or_else(|| impossible(after));
    let unaccounted = ticks.as_ref().map_err(Clone::clone).and_then(|ticks| match ticks.sum() {
        0 => Err(no_tick()),
        sum => Ok(1.0 - sum as f64 / due?),
    });
    let surplus =
        unaccounted.as_ref().ok().filter(|ratio| **ratio < -surplus_max(before, &elapsed_s, clockwork));
    let guests = ticks.as_ref().ok().and_then(|ticks| guest_surplus(ticks, guest, clockwork.cpus));
    let contradiction = impossible
        .or(guests)
        .or_else(|| surplus.map(|ratio| surplus_sentence(*ratio, &elapsed_s, clockwork)));
    let doubt = |value: Maybe<f64>| match &contradiction {
        Some(why) => Err(Missing::because(why.clone())),
        None => value,
    };
    let counters = after
        .counters
        .iter()
        .filter(|(name, _)| !LEVELS.iter().any(|level| name.ends_with(level)))
        .filter_map(|(name, now)| {
            let (_, then) = before.counters.iter().find(|(known, _)| known == name)?;
            let rose = now.checked_sub(*then).ok_or_else(|| Missing::because("the counter went back"));
            Some((name.clone(), rose))
        })
        .collect();
    Interval {
        at: after.at.clone(),
        cpus: clockwork.cpus,
        unaccounted_ratio: doubt(unaccounted),
        ticks,
        elapsed_s,
        contradiction,
        counters,
    }
}

/// Computes the ticks between the snapshots, by state.
fn ticks_since(before: &Snapshot, after: &Snapshot) -> Maybe<Ticks> {
    if let Some(name) = cpu_line_of_one(before, after).or_else(|| cpu_line_of_one(after, before)) {
        return Err(Missing::because(format!(
            "only one of the snapshots has the line `{name}`: they are from different versions, or one is cut"
        )));
    }
    if let Some(by_s) = boot_time_change(before, after).filter(|by_s| *by_s > BOOT_EDGE_S) {
        return Err(Missing::because(format!(
            "the boot time changed by {by_s} s: a reboot, or the clock was set; if it was the clock, leave the lines `{BOOT_TIME}` out"
        )));
    }
    after.ticks.since(&before.ticks).ok_or_else(|| {
        Missing::because("the ticks went back: a reboot, or the snapshots are in the wrong order")
    })
}

/// Returns the difference of the boot times in seconds. No counter falls on a machine that runs longer after
/// a reboot than before.
fn boot_time_change(before: &Snapshot, after: &Snapshot) -> Option<u64> {
    let of = |snapshot: &Snapshot| {
        snapshot.counters.iter().find(|(name, _)| name == BOOT_TIME).map(|(_, unix_s)| *unix_s)
    };
    Some(of(before)?.abs_diff(of(after)?))
}

/// Returns the first line of ticks that `one` has and `other` lacks.
fn cpu_line_of_one<'a>(one: &'a Snapshot, other: &Snapshot) -> Option<&'a str> {
    let lacks = |name: &str| !other.counters.iter().any(|(known, _)| known == name);
    let mut names = one.counters.iter().map(|(name, _)| name.as_str());
    names.find(|name| cpu_state(name).is_some_and(|state| state != State::Guest) && lacks(name))
}

/// Describes a counter that is larger than any machine's.
fn impossible(snapshot: &Snapshot) -> Option<String> {
    let (name, value) = snapshot
        .counters
        .iter()
        .find(|(name, value)| u128::from(*value) > TICKS_MAX && cpu_state(name).is_some())?;
    let line = snapshot.line;
    Some(format!(
        "`{name}` of the snapshot at line {line} is {value}, more than any machine counts: a counter is wrong"
    ))
}

/// Describes guest time that exceeds user time, which includes it, by more than a tick or two.
///
/// The kernel updates the two counters one after the other, so a snapshot in between lacks a tick of one of
/// them. The values are compared as printed: `-s` of procps 3.3.0, 3.3.10, 3.3.17, 4.0.0, 4.0.2, 4.0.4 and
/// 4.0.6 does not subtract guest time (source read).
fn guest_surplus(ticks: &Ticks, guest: u128, cpus: Option<u32>) -> Option<String> {
    let edge = cpus.map_or(GUEST_EDGE_TICKS, |cpus| GUEST_EDGE_TICKS.min(2 * u128::from(cpus)));
    let most = ticks.user + edge.max(ticks.user / 100);
    (guest > most).then(|| {
        format!(
            "guests had {guest} ticks and user mode {}, which includes them: the text is not that of procps, or a counter is wrong",
            ticks.user
        )
    })
}

/// Returns the surplus of ticks that is plausible, as a share of the due ticks: dates are whole seconds, and
/// counters move by a tick.
fn surplus_max(before: &Snapshot, elapsed_s: &Maybe<f64>, clockwork: &Clockwork) -> f64 {
    let elapsed_s = elapsed_s.as_ref().map_or(1.0, |s| *s).max(f64::MIN_POSITIVE);
    let is_dated = clockwork.elapsed_s.is_none() && before.at.is_some();
    let edges_s = if is_dated { 1.0 } else { 2.0 / clockwork.hz };
    SURPLUS_RATIO + edges_s / elapsed_s
}

fn surplus_sentence(ratio: f64, elapsed_s: &Maybe<f64>, clockwork: &Clockwork) -> String {
    let (elapsed_s, cpus) = (elapsed_s.clone().unwrap_or(0.0), clockwork.cpus.unwrap_or(0));
    format!(
        "{:.1} % more ticks came than {cpus} CPUs count in {elapsed_s} s at {} a second: the number of CPUs (-n), the time \
         (--elapsed, or the dates) or --hz is wrong",
        -100.0 * ratio,
        clockwork.hz
    )
}

fn elapsed(before: &Snapshot, after: &Snapshot, clockwork: &Clockwork) -> Maybe<f64> {
    if let Some(elapsed_s) = clockwork.elapsed_s {
        return Ok(elapsed_s);
    }
    match (&before.at, &after.at) {
        (Some(then), Some(now)) => {
            now.seconds_since(then).filter(|&s| s > 0).map(|s| s as f64).ok_or_else(|| {
                Missing::because("the dates are not in order, or one of their zones is unknown")
            })
        }
        (None, None) => Err(Missing::because("the snapshots have no dates: give --elapsed SECONDS")),
        _ => Err(Missing::because("only one of the snapshots has a date: give --elapsed SECONDS")),
    }
}

/// Whether the ticks fit an interval one hour shorter than the dates: a clock was set forward between them.
pub fn lacks_an_hour(before: &Snapshot, after: &Snapshot, clockwork: &Clockwork) -> bool {
    let elapsed_s = elapsed(before, after, clockwork).ok().filter(|s| *s > HOUR_S).map(|s| s - HOUR_S);
    let ticks = after.ticks.since(&before.ticks).map(|ticks| ticks.sum() as f64);
    elapsed_s.zip(ticks).is_some_and(|(elapsed_s, ticks)| {
        let due = due(&Ok(elapsed_s), clockwork);
        due.is_ok_and(|due| (1.0 - ticks / due).abs() <= surplus_max(before, &Ok(elapsed_s), clockwork))
    })
}

/// Returns the number of due ticks.
fn due(elapsed_s: &Maybe<f64>, clockwork: &Clockwork) -> Maybe<f64> {
    let elapsed_s = elapsed_s.as_ref().map_err(Clone::clone)?;
    let cpus =
        clockwork.cpus.ok_or_else(|| Missing::because("the number of CPUs is not known: give -n NCPU"))?;
    let due = clockwork.hz * f64::from(cpus) * elapsed_s;
    if due > 0.0 { Ok(due) } else { Err(Missing::because("no ticks were due")) }
}

struct Parser<'s, 'e> {
    sink: &'e mut Sink<'s>,
    snapshot: Snapshot,
    /// Date that precedes the next snapshot.
    at: Option<When>,
    snapshots: u64,
}

impl Parser<'_, '_> {
    fn hand_on(&mut self, found: Found<'_>) -> Result<(), ImportError> {
        (self.sink)(found).map_err(|source| ImportError::Deliver { source })
    }

    fn counter(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let mut fields = Fields::from(line.bytes, 0, line.number);
        let value = fields.need_whole("a counter's value")?;
        let rest = fields.clone();
        fields.need("a counter's name after its value")?;
        let mut name = name(rest);
        // `total name lookups (cache hits 97%)`: the share covers all time since boot, and the name must not
        // change.
        if let Some(at) = name.find(" (cache hits ") {
            name.truncate(at);
        }
        if self.snapshot.counters.iter().any(|(known, _)| *known == name) {
            self.finish(line.number)?;
        }
        if self.snapshot.counters.is_empty() {
            self.snapshot.line = line.number;
            self.snapshot.at = self.at.take();
        }
        if let Some(state) = cpu_state(&name) {
            self.snapshot.ticks.add(state, value);
            if state == State::Guest {
                self.snapshot.guest += u128::from(value);
            }
        } else if !line.ended {
            let text =
                format!("the last line has no newline, its name may be cut: {}", quoted(trimmed(line.bytes)));
            self.hand_on(Found::Note(Note { line: line.number, text }))?;
        }
        // A bound: no vmstat prints more lines, and the search for equal names would be slow.
        if self.snapshot.counters.len() >= 1024 {
            return Err(ImportError::unexpected(
                line.place(0),
                line.bytes,
                "at most 1024 counters in a snapshot",
            ));
        }
        self.snapshot.counters.push((name, value));
        Ok(())
    }

    /// Completes the snapshot, since line `next` begins something else.
    fn finish(&mut self, next: u64) -> Result<(), ImportError> {
        if self.snapshot.counters.is_empty() {
            return Ok(());
        }
        let lacks = self.snapshot.lacks();
        if let Some(state) = lacks {
            return Err(ImportError::Unexpected {
                place: Place { line: next, column: 1 },
                found: format!("the end of the snapshot that began at line {}", self.snapshot.line),
                expected: format!(
                    "its line of {state} ticks first (`N {state}   cpu` or `N {state} cpu ticks`)"
                )
                .into(),
            });
        }
        let snapshot = std::mem::take(&mut self.snapshot);
        self.snapshots += 1;
        self.hand_on(Found::Snapshot(&snapshot))
    }

    fn other(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let bytes = trimmed(line.bytes);
        let place = line.place(0);
        let (found, hint) = if bytes.starts_with(b"procs ") || bytes.starts_with(b"kthr ") {
            ("vmstat without -s", "only `vmstat -s` has ticks; a table of percentages is not exact")
        } else if bytes.starts_with(b"CPU minf") || bytes.starts_with(b"SET minf") {
            ("mpstat", "use `bakeoff import mpstat`")
        } else if solaris::lockstat::is_section(bytes) {
            ("lockstat", "use `bakeoff import lockstat`")
        } else if solaris::plockstat::is_section(bytes) {
            ("plockstat", "use `bakeoff import plockstat`")
        } else {
            let text = format!("not a counter of vmstat -s, left out: {}", quoted(bytes));
            return self.hand_on(Found::Note(Note { line: line.number, text }));
        };
        Err(ImportError::OtherTool { place, found, expected: Tool::Vmstat, hint })
    }
}

impl LineParser for Parser<'_, '_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let body = trimmed(line.bytes);
        if body.is_empty() {
            return Ok(());
        }
        if !line.ended && whole(body).is_some() {
            let text = format!("the last line is cut, left out: {}", quoted(body));
            return self.hand_on(Found::Note(Note { line: line.number, text }));
        }
        let seconds = || whole(body).filter(|_| body.len() >= 8).and_then(When::from_unix);
        let date = leading(body).filter(|&(_, length)| length == body.len()).map(|(when, _)| when);
        if let Some(when) = date.or_else(seconds) {
            self.finish(line.number)?;
            self.at = Some(when);
            return Ok(());
        }
        if body[0].is_ascii_digit() || body[0] == b'-' { self.counter(line) } else { self.other(line) }
    }

    fn end(&mut self, lines: u64) -> Result<(), ImportError> {
        self.finish(lines + 1)?;
        if self.snapshots > 0 {
            return Ok(());
        }
        Err(ImportError::Unexpected {
            place: Place { line: lines + 1, column: 1 },
            found: "the end of the input".into(),
            expected: "the counters of `vmstat -s`, such as `50200112 user   cpu`".into(),
        })
    }
}

#[cfg(test)]
mod tests;
