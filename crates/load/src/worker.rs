//! What a worker does with one event, in either loop: its tries, its stamps, its fate.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use record::load::ErrorCounts;

use crate::client::{self, Usage};
use crate::driver::{Attempt, Connection, Failure, FailureClass, Laps};
use crate::engine::{Engine, Taken};
use crate::latency::{Recorder, Writer};
use crate::outage::Failed;
use crate::pace::Scratch;
use crate::random::Random;

/// A wait is cut into slices of this, so that a stop is seen.
const SLICE_NS: u64 = 100_000_000;
/// First pause before connecting again; doubled at each failure, up to the last.
const PAUSE_FIRST_NS: u64 = 10_000_000;
const PAUSE_LAST_NS: u64 = 1_000_000_000;
/// Tells the chance of the pauses from all other.
const PAUSE_SALT: u64 = 0x0070_6175_7365;

/// One worker: a thread, its connection and its recorder.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) engine: Arc<Engine>,
    pub(crate) writer: Writer,
    pub(crate) scratch: Scratch,
    laps: Laps,
    /// `None` from a failure of the connection until it is made again.
    connection: Option<Box<dyn Connection>>,
    /// When the newest connection was made.
    connected_ns: u64,
    pauses: Random,
    /// CPU time at the first event of the measured phase.
    usage_before: Option<Usage>,
}

/// The stamps of an event when its first try begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    pub(crate) taken: Taken,
    /// When the worker was free and took it.
    pub(crate) claim_ns: u64,
    /// When its first byte was about to be sent.
    pub(crate) start_ns: u64,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        engine: Arc<Engine>,
        writer: Writer,
        connection: Box<dyn Connection>,
    ) -> Self {
        let laps = Laps::new(Arc::clone(&engine.clock), &engine.driver.operations());
        let pauses = Random::of(engine.settings.seed ^ PAUSE_SALT, index as u64);
        let connection = Some(connection);
        let connected_ns = engine.clock.now_ns();
        Self {
            index,
            engine,
            writer,
            scratch: Scratch::default(),
            laps,
            connection,
            connected_ns,
            pauses,
            usage_before: None,
        }
    }

    /// Whether it has a connection, made again where it was lost, while events may be taken.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.connection.is_some() || self.connect_again(|engine| engine.clock.now_ns() >= engine.end_ns())
    }

    /// Waits until `due_ns`, and returns the time then; `None` where the run ends before.
    pub(crate) fn wait_until(&self, due_ns: u64) -> Option<u64> {
        loop {
            let now_ns = self.engine.clock.now_ns();
            if now_ns >= due_ns {
                return Some(now_ns);
            }
            if now_ns >= self.engine.end_ns() {
                return None;
            }
            self.engine.clock.sleep_until_ns(due_ns.min(now_ns + SLICE_NS));
        }
    }

    /// Notes the CPU time when the first measured event is taken.
    pub(crate) fn note_taken(&mut self, taken: &Taken) {
        if taken.is_measured && self.usage_before.is_none() {
            self.usage_before = client::thread_usage();
        }
    }

    /// What this worker's measured events cost, at its end.
    pub(crate) fn usage(&self) -> Option<Usage> {
        let (before, after) = (self.usage_before?, client::thread_usage()?);
        Some(after.since(&before))
    }

    /// The event is too late to be done.
    pub(crate) fn skip(&mut self, taken: &Taken) {
        let now_ns = self.engine.clock.now_ns();
        let end_ns = self.engine.end_ns();
        let Some(section) = self.writer.enter() else { return };
        if !taken.is_measured {
            note_warmup(section.recorder, now_ns >= self.engine.timeline().measured_from_ns, None);
        } else if now_ns >= end_ns {
            // Too late for everything: it stays in hand and counts as unfinished.
            return;
        } else {
            section.recorder.fates.skipped += 1;
        }
        let post = &self.engine.posts[self.index];
        post.last_end_ns.store(now_ns, Ordering::Relaxed);
        post.release();
    }

    /// Tries the event until it ends well, may not be tried again, or the run is given up.
    pub(crate) fn perform(&mut self, event: &Started) {
        let mut tries_left = self.engine.settings.retries_max;
        let mut try_start_ns = event.start_ns;
        let mut is_hit = false;
        loop {
            let Some(failure) = self.attempt(event, try_start_ns) else { return };
            let end_ns = self.engine.clock.now_ns();
            self.note_failure(&failure, &event.taken, try_start_ns, end_ns);
            if failure.class == FailureClass::Connection {
                self.connection = None;
                let due_ns = (!is_hit).then_some(event.taken.due_ns);
                self.engine.outages.failed(Failed::Lost {
                    made_ns: self.connected_ns,
                    at_ns: end_ns,
                    due_ns,
                });
                is_hit = true;
            }
            let may_pass = matches!(failure.class, FailureClass::Transient | FailureClass::Connection);
            if !may_pass || tries_left == 0 {
                return self.end_failed(event, end_ns);
            }
            let can_try = self.connection.is_some() || self.connect_again(Engine::is_abandoned);
            if !can_try || self.engine.is_abandoned() {
                return; // Still in hand: unfinished.
            }
            tries_left -= 1;
            try_start_ns = self.engine.clock.now_ns();
            if event.taken.is_measured
                && try_start_ns < self.engine.end_ns()
                && let Some(section) = self.writer.enter()
            {
                section.recorder.fates.retries += 1;
            }
        }
    }

    /// One try; `None` where it ended well.
    fn attempt(&mut self, event: &Started, start_ns: u64) -> Option<Failure> {
        let connection = self.connection.as_mut().expect("a worker that performs is connected");
        self.laps.begin(start_ns);
        let random = Random::of(self.engine.settings.seed, event.taken.chance);
        match connection.run(&mut Attempt { random, laps: &mut self.laps }) {
            Ok(()) => {
                let end_ns = self.laps.end_ns();
                self.end_done(event, end_ns);
                self.engine.outages.succeeded(start_ns, end_ns);
                None
            }
            Err(failure) => Some(failure),
        }
    }

    fn end_done(&mut self, event: &Started, end_ns: u64) {
        let engine = &*self.engine;
        let phase_end_ns = engine.end_ns();
        let Some(section) = self.writer.enter() else { return };
        let Started { taken, claim_ns, start_ns } = *event;
        let (response_ns, service_ns) = (end_ns - taken.due_ns, end_ns - start_ns);
        let is_open = engine.timeline().due.is_some();
        if !taken.is_measured {
            let shown_ns = if is_open { response_ns } else { service_ns };
            note_warmup(section.recorder, end_ns >= engine.timeline().measured_from_ns, Some(shown_ns));
        } else if end_ns >= phase_end_ns {
            return engine.posts[self.index].ended_late(end_ns, true);
        } else {
            let recorder = &mut *section.recorder;
            recorder.fates.done += 1;
            recorder.fates.in_system_ns += u128::from(response_ns);
            recorder.service.record(service_ns);
            if is_open {
                let free_ns = taken.due_ns.max(claim_ns);
                recorder.response.record(response_ns);
                recorder.wait.record(free_ns - taken.due_ns);
                recorder.lateness.record(start_ns - free_ns);
            }
            for (operation, took_ns) in self.laps.taken() {
                recorder.operations[*operation].record(*took_ns);
            }
        }
        let post = &engine.posts[self.index];
        post.last_end_ns.store(end_ns, Ordering::Relaxed);
        post.release();
    }

    fn end_failed(&mut self, event: &Started, end_ns: u64) {
        let engine = &*self.engine;
        let phase_end_ns = engine.end_ns();
        let Some(section) = self.writer.enter() else { return };
        let post = &engine.posts[self.index];
        if !event.taken.is_measured {
            note_warmup(section.recorder, end_ns >= engine.timeline().measured_from_ns, None);
        } else if end_ns >= phase_end_ns {
            return post.ended_late(end_ns, false);
        } else {
            section.recorder.fates.failed += 1;
        }
        post.last_end_ns.store(end_ns, Ordering::Relaxed);
        post.release();
    }

    /// Counts a failed try of a measured event.
    fn note_failure(&mut self, failure: &Failure, taken: &Taken, start_ns: u64, end_ns: u64) {
        self.engine.samples.note(failure.class, &failure.text);
        if !taken.is_measured || end_ns >= self.engine.end_ns() {
            return;
        }
        if let Some(section) = self.writer.enter() {
            section.recorder.failure.record(end_ns - start_ns);
            count_error(&mut section.recorder.fates.errors, failure.class);
        }
    }

    /// Connects again, pausing longer after each failure; false where `is_over` comes first.
    fn connect_again(&mut self, is_over: impl Fn(&Engine) -> bool) -> bool {
        let mut pause_ns = PAUSE_FIRST_NS;
        while !is_over(&self.engine) {
            let began_ns = self.engine.clock.now_ns();
            let made = self.engine.driver.connect(&self.engine.posts[self.index].cut);
            let now_ns = self.engine.clock.now_ns();
            match made {
                Ok(connection) => {
                    self.connection = Some(connection);
                    self.connected_ns = now_ns;
                    self.engine.outages.succeeded(began_ns, now_ns);
                    return true;
                }
                Err(failure) => self.note_unconnected(&failure, began_ns, now_ns),
            }
            let half_to_three_halves = 0.5 + self.pauses.unit();
            self.pause(now_ns, pause_ns as f64 * half_to_three_halves, &is_over);
            pause_ns = (2 * pause_ns).min(PAUSE_LAST_NS);
        }
        false
    }

    fn note_unconnected(&mut self, failure: &Failure, began_ns: u64, now_ns: u64) {
        // Whatever the server says to a client that was connected before, waiting may mend it: it may be restarting.
        self.engine.samples.note(FailureClass::Connection, &failure.text);
        self.engine.outages.failed(Failed::Refused { began_ns, at_ns: now_ns });
        let is_measured = now_ns >= self.engine.timeline().measured_from_ns && now_ns < self.engine.end_ns();
        if is_measured && let Some(section) = self.writer.enter() {
            count_error(&mut section.recorder.fates.errors, FailureClass::Connection);
        }
    }

    fn pause(&self, from_ns: u64, pause_ns: f64, is_over: &impl Fn(&Engine) -> bool) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 5 ms and 1.5 s")]
        let deadline_ns = from_ns + pause_ns as u64;
        loop {
            let now_ns = self.engine.clock.now_ns();
            if now_ns >= deadline_ns || is_over(&self.engine) {
                return;
            }
            self.engine.clock.sleep_until_ns(deadline_ns.min(now_ns + SLICE_NS));
        }
    }
}

/// Notes the end of an event of the warm-up; `done_ns` is its latency where it ended well.
fn note_warmup(recorder: &mut Recorder, is_late: bool, done_ns: Option<u64>) {
    recorder.fates.warmup_ended += 1;
    recorder.fates.warmup_ended_late += u64::from(is_late);
    if let Some(latency_ns) = done_ns {
        recorder.fates.warmup_done += 1;
        recorder.warmup.record(latency_ns);
    }
}

fn count_error(errors: &mut ErrorCounts, class: FailureClass) {
    match class {
        FailureClass::Transient => errors.transient += 1,
        FailureClass::Connection => errors.connection += 1,
        FailureClass::Application | FailureClass::Configuration | FailureClass::Machine => {
            errors.application += 1;
        }
        FailureClass::Verify => errors.verify += 1,
    }
}
