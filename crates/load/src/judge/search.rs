//! Finds the highest rate that keeps a promise: doubles until it breaks, bisects, confirms.
//!
//! One run that breaks the promise may have met a hiccup of the machine, and would exclude every rate above
//! it for good. So the rate is tried again, and two of three runs decide. A longer disturbance may have
//! broken those runs too: before the answer is confirmed, the rate that broke the promise is tried once more,
//! and if it keeps it twice in a row, the search continues above it. A confirmation of the answer itself is
//! not repeated: there one run that breaks it is enough.
//!
//! A rate that was kept first and broken later shows a change in time, not the target's capacity. If rates
//! lie further apart than chance explains, the highest rate that was ever kept is tried again, last: if it is
//! broken, the target has changed; if it is kept, the runs contradict each other. Neither is an answer.
//!
//! The search is a plain state machine: it names the next rate to try and takes the result. Each try is a
//! whole run from its own warm-up, so no run inherits the backlog of another.

use record::histogram::{Histogram, is_generator_made};
use record::load::{LatePolicy, LoadRecord, Schedule};
use record::search::{Answer, Clause, ProbeEnd, Promise, Stage, Statistic, Try};
use record::verdict::Check;

/// Maximum ratio, at the end, between a rate that breaks the promise and one that keeps it; or the rates
/// differ by one event of a run, if that is more.
const RESOLUTION: f64 = 1.01;
/// Runs that must keep the promise at the answer's rate, after the run that found it.
const CONFIRMATIONS: u32 = 3;
/// Consecutive runs after which a rate that broke the promise counts as one that keeps it.
const UPPER_END_KEPT: u32 = 2;
/// Maximum ratio of a rate that was kept to the answer: near its capacity, a target keeps a promise now and
/// then.
const LUCK: f64 = 1.15;
/// Runs after which the search is given up.
const TRIES_MAX: usize = 64;
/// Maximum probability that tries with random results would keep the promise first and break it then, for a
/// target to count as changed.
const BY_CHANCE: f64 = 0.01;
/// Minimum number of tries at a rate at which the generator seems to be the limit, or runs are INVALID.
const TRIES_UNCLEAR: u32 = 4;
/// Maximum probability that a row of such tries comes by chance, given their share at this and lower rates,
/// for the row to count as the rate's effect.
const ROW_BY_CHANCE: f64 = 0.001;
/// Maximum share assumed for such tries: with it, ten in a row always count as the rate's effect.
const UNCLEAR_SHARE_MAX: f64 = 0.5;

/// Failed checks that leave a run without evidence, whether it kept the promise or broke it.
const NO_EVIDENCE: [&str; 2] = ["throttled", "cache-steady"];
/// Minimum number of events for a run to be evidence.
const EVENTS_MIN: u64 = 10;
/// A run that fell behind is the generator's fault if connections were in service for less of the phase than
/// this: with a target that is too slow, they are in service all the time.
const BUSY_MIN: f64 = 0.5;

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Search {
    room: Room,
    rate_per_s: f64,
    stage: Stage,
    /// Rates that kept the promise, in rising order; those that broke it later are removed.
    kept: Vec<f64>,
    /// Rates that kept the promise at any time, in rising order.
    once_kept: Vec<f64>,
    /// Rates that broke it, in rising order; those that kept it later are removed.
    broken: Vec<f64>,
    /// Results at the present rate, outside of a confirmation.
    votes: Votes,
    /// Confirmation runs that kept the promise, at the answer's rate or, before, at the one that broke it.
    confirmed: u32,
    /// Latest consecutive tries without evidence.
    unclear: u32,
    /// Rate and result of every run so far.
    tries: Vec<(f64, ProbeEnd)>,
    /// Numbers of the broken tries with latencies that kept the promise: only the rate was missed.
    missed_rate: Vec<usize>,
    answer: Option<Answer>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Votes {
    broken: u32,
    kept: u32,
}

impl Votes {
    /// Whether the rate keeps the promise; `None` if another run must decide. One run suffices if it keeps
    /// the promise.
    fn verdict(self) -> Option<bool> {
        match self {
            Self { broken: 2.., .. } => Some(false),
            Self { broken: 0, kept: 1.. } | Self { kept: 2.., .. } => Some(true),
            _ => None,
        }
    }
}

/// Bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Room {
    /// The lowest rate to try.
    pub floor_per_s: f64,
    /// The highest rate to try.
    pub ceiling_per_s: f64,
    /// Length of a run, in seconds: rates that differ by less than one event of a run are the same.
    pub time_s: f64,
}

impl Room {
    /// Bounds from the lowest rate at which runs of `time_s` seconds have enough events for the promise.
    pub fn above_floor(promise: &Promise, time_s: f64, ceiling_per_s: f64) -> Self {
        let floor_per_s = events_needed(promise) as f64 / time_s;
        Self { floor_per_s, ceiling_per_s: ceiling_per_s.max(floor_per_s), time_s }
    }

    /// Number of events of a run at this rate.
    fn events(&self, rate_per_s: f64) -> f64 {
        (rate_per_s * self.time_s * (1.0 - 4.0 * f64::EPSILON)).ceil()
    }

    /// The middle of two rates, in whole events; `None` if no other number of events lies between theirs.
    fn middle(&self, low_per_s: f64, high_per_s: f64) -> Option<f64> {
        let (fewest, most) = (self.events(low_per_s), self.events(high_per_s));
        let events = ((low_per_s * high_per_s).sqrt() * self.time_s).round();
        let events = events.clamp(fewest + 1.0, (most - 1.0).max(fewest + 1.0));
        (events < most).then_some(events / self.time_s)
    }
}

/// Minimum number of events in a run for the promise: with so few that none lies above it, a percentile is
/// the maximum by another name.
pub fn events_needed(promise: &Promise) -> u64 {
    let needed = |clause: &Clause| match clause.statistic {
        // The decimal 99.9 leaves a thousandth; the float leaves a little less.
        Statistic::Percentile(percent) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
            let events = (100.0 / (100.0 - percent) * (1.0 - 1e-9)).ceil() as u64;
            events
        }
        Statistic::Mean | Statistic::Max => EVENTS_MIN,
    };
    promise.0.iter().map(needed).fold(EVENTS_MIN, u64::max)
}

/// The next step of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// A run at this rate.
    Probe {
        /// Events per second.
        rate_per_s: f64,
        /// Purpose of the run.
        stage: Stage,
    },
    /// The search has ended with this answer.
    Done(Answer),
}

impl Search {
    /// Begins at `start_per_s`, or at the nearest rate within the bounds.
    pub fn new(start_per_s: f64, room: Room) -> Self {
        assert!(0.0 < room.floor_per_s && room.floor_per_s <= room.ceiling_per_s, "a search has room");
        Self {
            room,
            rate_per_s: start_per_s.clamp(room.floor_per_s, room.ceiling_per_s),
            stage: Stage::Ramp,
            kept: Vec::new(),
            once_kept: Vec::new(),
            broken: Vec::new(),
            votes: Votes::default(),
            confirmed: 0,
            unclear: 0,
            tries: Vec::new(),
            missed_rate: Vec::new(),
            answer: None,
        }
    }

    /// Returns the next step.
    pub fn next(&self) -> Next {
        match &self.answer {
            Some(answer) => Next::Done(answer.clone()),
            None => Next::Probe { rate_per_s: self.rate_per_s, stage: self.stage },
        }
    }

    /// Judges the run that [`Self::next`] asked for, and takes its result; returns it, and the findings in
    /// words.
    pub fn take(&mut self, promise: &Promise, record: &LoadRecord) -> (ProbeEnd, String) {
        let (end, found) = judge(promise, record);
        if end == ProbeEnd::Broken && !fails(record, "errors") && holds(promise, &response(record)) {
            self.missed_rate.push(self.tries.len() + 1);
        }
        self.note(end);
        (end, found)
    }

    /// Takes the result of the run that [`Self::next`] asked for.
    pub fn note(&mut self, end: ProbeEnd) {
        self.tries.push((self.rate_per_s, end));
        match end {
            ProbeEnd::Kept | ProbeEnd::Broken => {
                self.unclear = 0;
                self.told(end == ProbeEnd::Kept);
            }
            ProbeEnd::Unclear | ProbeEnd::Invalid => {
                self.unclear += 1;
                if self.is_without_evidence() {
                    self.answer = Some(self.without_evidence());
                }
            }
        }
        if self.stage != Stage::Recheck {
            if self.answer.is_none() && self.tries.len() >= TRIES_MAX {
                self.answer = Some(self.unsettled());
            }
            self.doubt();
        }
    }

    /// Handles a run with evidence on whether the target keeps the promise at this rate.
    fn told(&mut self, is_kept: bool) {
        match (self.stage, is_kept) {
            (Stage::Recheck, _) => self.rechecked(is_kept),
            (Stage::Confirm, true) if self.is_upper_end() => self.upper_end_kept(),
            (Stage::Confirm, false) if self.is_upper_end() => self.upper_end_broken(),
            (Stage::Confirm, true) => self.confirmed(),
            (Stage::Confirm, false) => self.broken(),
            (Stage::Ramp | Stage::Bisect, _) => {
                if is_kept {
                    self.votes.kept += 1;
                } else {
                    self.votes.broken += 1;
                }
                if let Some(is_kept) = self.votes.verdict() {
                    self.votes = Votes::default();
                    if is_kept { self.kept() } else { self.broken() }
                }
            }
        }
    }

    /// Whether the last tries lacked evidence because of their rate: a disturbance of tries at any rate
    /// affects lower rates too.
    fn is_without_evidence(&self) -> bool {
        let before = &self.tries[..self.tries.len() - self.unclear as usize];
        let elsewhere: Vec<ProbeEnd> =
            before.iter().filter(|(per_s, _)| *per_s <= self.rate_per_s).map(|(_, end)| *end).collect();
        let unclear =
            elsewhere.iter().filter(|end| matches!(end, ProbeEnd::Unclear | ProbeEnd::Invalid)).count();
        let share = match elsewhere.len() {
            0 => 0.0,
            // Laplace's rule of succession: no unclear try so far does not make one impossible.
            tries => (unclear as f64 + 1.0) / (tries as f64 + 2.0),
        };
        self.unclear >= TRIES_UNCLEAR
            && share.min(UNCLEAR_SHARE_MAX).powi(self.unclear.cast_signed()) <= ROW_BY_CHANCE
    }

    /// The answer if no run at this rate gave evidence.
    fn without_evidence(&self) -> Answer {
        if self.stage == Stage::Recheck {
            return self.unsettled();
        }
        Answer::GeneratorLimit { kept_per_s: self.kept.last().copied(), at_per_s: self.rate_per_s }
    }

    /// Rejects an answer that contradicts a rate that was kept before.
    fn doubt(&mut self) {
        let limit_per_s = match &self.answer {
            Some(Answer::Found { rate_per_s, .. }) => rate_per_s * LUCK,
            Some(Answer::Unreachable { .. } | Answer::TooShort { .. }) => 0.0,
            Some(Answer::GeneratorLimit { .. } | Answer::Unsettled { .. }) => match self.broken_per_s() {
                Some(broken_per_s) => broken_per_s * LUCK,
                None => return,
            },
            _ => return,
        };
        if let Some(&highest) = self.once_kept.last().filter(|kept| **kept > limit_per_s) {
            (self.answer, self.stage, self.rate_per_s, self.unclear) = (None, Stage::Recheck, highest, 0);
        }
    }

    /// Handles the last try, at the highest rate that was ever kept. Earlier results there may have been
    /// luck.
    fn rechecked(&mut self, is_kept: bool) {
        let again = Try { number: self.tries.len(), rate_per_s: self.rate_per_s };
        let before = |tried: &Try| {
            tried.number < again.number && tried.rate_per_s.total_cmp(&again.rate_per_s).is_eq()
        };
        let kept = self.all(ProbeEnd::Kept).rfind(before);
        let Some(kept) = kept.filter(|_| !is_kept) else {
            self.answer = Some(self.unsettled());
            return;
        };
        let after = self.all(ProbeEnd::Broken).filter(|tried| tried.number > kept.number);
        let broken = after.min_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s)).unwrap_or(again);
        let within = |tried: &Try| (broken.rate_per_s..=kept.rate_per_s).contains(&tried.rate_per_s);
        let before =
            self.all(ProbeEnd::Kept).filter(within).filter(|tried| tried.number < broken.number).count();
        let after =
            self.all(ProbeEnd::Broken).filter(within).filter(|tried| tried.number > kept.number).count();
        self.answer = Some(if first_by_chance(before, after) <= BY_CHANCE {
            Answer::Changed { kept, broken, again }
        } else {
            self.unsettled()
        });
    }

    /// The answer of a search without a result: rates that contradict each other by the votes of their tries,
    /// or else the highest rate that any try kept and the lowest that any broke.
    fn unsettled(&self) -> Answer {
        let last_at = |end, rate_per_s: f64| {
            self.all(end).rfind(|tried| tried.rate_per_s.total_cmp(&rate_per_s).is_eq())
        };
        let voted = self.once_kept.last().copied().zip(self.broken_per_s());
        if let Some((kept_per_s, broken_per_s)) = voted.filter(|(kept, broken)| broken <= kept) {
            let (kept, broken) = (ProbeEnd::Kept, ProbeEnd::Broken);
            return Answer::Unsettled {
                kept: last_at(kept, kept_per_s),
                broken: last_at(broken, broken_per_s),
            };
        }
        let by_rate = |a: &Try, b: &Try| a.rate_per_s.total_cmp(&b.rate_per_s);
        Answer::Unsettled {
            kept: self.all(ProbeEnd::Kept).max_by(by_rate),
            broken: self.all(ProbeEnd::Broken).min_by(by_rate),
        }
    }

    /// The tries with this result, first to last.
    fn all(&self, end: ProbeEnd) -> impl DoubleEndedIterator<Item = Try> {
        let of_end = self.tries.iter().enumerate().filter(move |(_, (_, found))| *found == end);
        of_end.map(|(index, (rate_per_s, _))| Try { number: index + 1, rate_per_s: *rate_per_s })
    }

    /// The lowest rate that broke the promise.
    fn broken_per_s(&self) -> Option<f64> {
        self.broken.first().copied()
    }

    /// Whether the run re-examines the lowest rate that broke the promise.
    fn is_upper_end(&self) -> bool {
        self.stage == Stage::Confirm && self.broken_per_s() == Some(self.rate_per_s)
    }

    fn upper_end_kept(&mut self) {
        self.confirmed += 1;
        if self.confirmed == UPPER_END_KEPT {
            // The disturbance there has passed. It may have broken higher rates too: each is tried again when
            // it is the upper end.
            self.broken.remove(0);
            self.stage = Stage::Ramp;
            self.kept();
        }
    }

    fn upper_end_broken(&mut self) {
        if let Some(&low) = self.kept.last() {
            (self.rate_per_s, self.confirmed) = (low, 0);
        }
    }

    fn confirmed(&mut self) {
        self.confirmed += 1;
        if let (true, Some(broken_at_per_s)) = (self.confirmed == CONFIRMATIONS, self.broken_per_s()) {
            self.answer = Some(Answer::Found { rate_per_s: self.rate_per_s, broken_at_per_s });
        }
    }

    fn kept(&mut self) {
        let rate_per_s = self.rate_per_s;
        self.kept.push(rate_per_s);
        self.kept.sort_by(f64::total_cmp);
        self.once_kept.push(rate_per_s);
        self.once_kept.sort_by(f64::total_cmp);
        if !self.broken.is_empty() {
            self.narrow();
        } else if rate_per_s >= self.room.ceiling_per_s {
            self.answer = Some(Answer::GeneratorLimit { kept_per_s: Some(rate_per_s), at_per_s: rate_per_s });
        } else {
            self.rate_per_s = (2.0 * rate_per_s).min(self.room.ceiling_per_s);
        }
    }

    fn broken(&mut self) {
        let rate_per_s = self.rate_per_s;
        self.broken.push(rate_per_s);
        self.broken.sort_by(f64::total_cmp);
        self.broken.dedup();
        self.kept.retain(|kept| *kept < rate_per_s);
        if !self.kept.is_empty() {
            self.narrow();
        } else if rate_per_s <= self.room.floor_per_s {
            // A backlog that keeps the promise at the end of a short run may break it later, or be no backlog
            // but events in flight.
            let is_short = self
                .all(ProbeEnd::Broken)
                .filter(|tried| tried.rate_per_s <= rate_per_s)
                .all(|tried| self.missed_rate.contains(&tried.number));
            self.answer = Some(if is_short {
                Answer::TooShort { at_per_s: rate_per_s }
            } else {
                Answer::Unreachable { at_per_s: rate_per_s }
            });
        } else {
            self.stage = Stage::Ramp;
            self.rate_per_s = (rate_per_s / 2.0).max(self.room.floor_per_s);
        }
    }

    /// Continues between the highest rate that kept the promise and the lowest that broke it.
    fn narrow(&mut self) {
        let (Some(&low), Some(high)) = (self.kept.last(), self.broken_per_s()) else { return };
        if let Some(middle) = self.room.middle(low, high).filter(|_| high > low * RESOLUTION) {
            (self.stage, self.rate_per_s) = (Stage::Bisect, middle);
        } else {
            (self.stage, self.rate_per_s, self.confirmed) = (Stage::Confirm, high, 0);
        }
    }
}

/// The probability that in a random order of `kept` and `broken` tries all kept ones come first.
fn first_by_chance(kept: usize, broken: usize) -> f64 {
    (1..=kept).map(|i| i as f64 / (broken + i) as f64).product()
}

/// Whether a run kept the promise, and the findings in words.
///
/// A run that a quota stopped, or that has no steady cache, is INVALID, and not evidence either way.
///
/// A run that broke the promise is not evidence about the target if the generator limited it: its worker was
/// hardly ever off its CPU, or it was late (overall, or at a percentile that breaks the promise) while
/// neither the service time, unless the generator made that too, nor the wait for a worker breaks the promise
/// by itself. If the run fell behind,
/// every event waits; then the generator is the cause if its connections were hardly in service, and the
/// events that they served keep the promise.
pub fn judge(promise: &Promise, record: &LoadRecord) -> (ProbeEnd, String) {
    let response = response(record);
    let limit_ns = |clause: &Clause| clause.limit.as_nanos() as f64;
    let value = |clause: &Clause, h: &Histogram| value_ns(h, clause.statistic);
    let holds = |h: &Histogram| holds(promise, h);
    let fails = |name: &str| fails(record, name);
    let told = |c: &Clause| match value(c, &response) {
        Some(ns) => format!("{} {:.3} ms", c.statistic, ns / 1e6),
        None => format!("{} unknown", c.statistic),
    };
    let mut found: Vec<String> = promise.0.iter().map(told).collect();
    let behind = fails("achieved-rate");
    let share = || check_of(record, "achieved-rate").map_or(0.0, |check| 100.0 * check.found);
    found.extend(
        behind.then(|| {
            format!("the target did not keep up: {:.2} % of the events ended in the phase", share())
        }),
    );
    found.extend(fails("errors").then(|| "too many events failed".to_owned()));
    let is_worthless = |check: &&Check| !check.ok && NO_EVIDENCE.contains(&check.name);
    if let Some(check) = record.verdict.checks.iter().find(is_worthless) {
        found.push(check.text.clone());
        return (ProbeEnd::Invalid, found.join(", "));
    }
    if holds(&response) && !behind && !fails("errors") {
        return (ProbeEnd::Kept, found.join(", "));
    }
    let broke = |c: &&Clause| value(c, &response).is_none_or(|ns| ns >= limit_ns(c));
    let is_made = |c: &Clause| is_made(record, &response, c.statistic);
    let was_late =
        fails("lateness") || fails("client-starvation") || promise.0.iter().filter(broke).any(is_made);
    let service = record.service.merged();
    let is_service_made = |c: &Clause| is_named(&record.service_generator_made, c.statistic);
    let service_holds =
        promise.0.iter().all(|c| value(c, &service).is_some_and(|ns| ns < limit_ns(c)) || is_service_made(c));
    let would_hold = if behind {
        // Without any request nothing is known of the target; after one, the unfinished part counts against
        // it.
        was_idle(record) && (service.is_empty() || service_holds)
    } else {
        // A late event makes the next one wait: that wait is not the target's if the generator caused the
        // percentile.
        let is_wait_made = promise.0.iter().filter(broke).all(is_made);
        service_holds && (is_wait_made || record.wait.as_ref().is_ok_and(|wait| holds(&wait.merged())))
    };
    // A worker that waits for a CPU to the end of the phase has begun no event that is late, and the kernel
    // counts its wait only when it ends. The only signs are connections that were free, and events served
    // after the phase.
    let stood_still = behind && !service.is_empty();
    let is_unclear = !fails("errors") && (fails("client-cpu") || ((was_late || stood_still) && would_hold));
    if is_unclear {
        found.push("the generator was the bottleneck".to_owned());
        return (ProbeEnd::Unclear, found.join(", "));
    }
    (ProbeEnd::Broken, found.join(", "))
}

/// Events per second that were due in the phase and ended in it, with those that count as in flight: the
/// number that decides whether a run kept up. The published rate includes events of the warm-up, too.
pub fn kept_up_per_s(record: &LoadRecord) -> f64 {
    let offered_per_s = record.counts.planned as f64 / record.measured.as_secs_f64();
    check_of(record, "achieved-rate").map_or(record.achieved_per_s, |check| check.found * offered_per_s)
}

fn response(record: &LoadRecord) -> Histogram {
    record.response.as_ref().unwrap_or(&record.service).merged()
}

fn holds(promise: &Promise, h: &Histogram) -> bool {
    let limit_ns = |clause: &Clause| clause.limit.as_nanos() as f64;
    promise.0.iter().all(|c| value_ns(h, c.statistic).is_some_and(|ns| ns < limit_ns(c)))
}

fn check_of<'a>(record: &'a LoadRecord, name: &str) -> Option<&'a Check> {
    record.verdict.checks.iter().find(|check| check.name == name)
}

fn fails(record: &LoadRecord, name: &str) -> bool {
    check_of(record, name).is_some_and(|check| !check.ok)
}

/// Whether connections were idle while events waited for them: then the target was not the cause.
fn was_idle(record: &LoadRecord) -> bool {
    let settings = &record.settings;
    // Otherwise an event may wait or be given up for other reasons although a connection is free.
    let takes_next = settings
        .pace
        .as_open()
        .is_some_and(|open| open.schedule == Schedule::Shared && open.late == LatePolicy::Queue);
    let service_s = record.service.summary().map_or(0.0, |s| s.mean_ns * s.count as f64 / 1e9);
    let all_s = f64::from(settings.in_flight_max()) * record.measured.as_secs_f64();
    takes_next && record.outages.is_empty() && service_s < BUSY_MIN * all_s
}

/// Whether a summary names the statistic among values that the generator made.
fn is_named(made: &[&str], statistic: Statistic) -> bool {
    let summary_name = statistic.to_string().replace('.', "_");
    made.contains(&summary_name.as_str())
}

/// Whether the generator caused more than half of the statistic, which a summary need not have.
fn is_made(record: &LoadRecord, response: &Histogram, statistic: Statistic) -> bool {
    let server_ns = || value_ns(record.server_part.as_ref().ok()?, statistic);
    is_named(&record.generator_made, statistic)
        || value_ns(response, statistic)
            .zip(server_ns())
            .is_some_and(|(of, part)| is_generator_made(of, part))
}

fn value_ns(histogram: &Histogram, statistic: Statistic) -> Option<f64> {
    match statistic {
        Statistic::Mean => histogram.summary().map(|s| s.mean_ns),
        Statistic::Max => histogram.quantile_ns(1.0).map(|ns| ns as f64),
        Statistic::Percentile(percent) => histogram.quantile_ns(percent / 100.0).map(|ns| ns as f64),
    }
}

#[cfg(test)]
mod tests;
