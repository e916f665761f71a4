//! One event on a worker's connection, in either loop: tries, stamps, outcome.

use std::sync::Arc;

use crate::connection::{Attempt, Connection, Failure, FailureClass, Idle, Laps};
use crate::engine::Engine;
use crate::engine::backoff::{PAUSE_FIRST_NS, PAUSE_SALT, SLICE_NS};
use crate::engine::connection_slot::{ConnectionSlot, Gone};
use crate::engine::ledger::{Carried, Ledger, Started};
use crate::measure::latency::Writer;
use crate::schedule::clock::to_ns;
use crate::schedule::random::Random;

/// One worker: a thread, its connection and its recorder.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) engine: Arc<Engine>,
    pub(crate) ledger: Ledger,
    laps: Laps,
    /// `None` after the connection failed, until the worker reconnects.
    connection: Option<Box<dyn Connection>>,
    /// Time at which the newest connection was made.
    connected_ns: u64,
    /// The newest connection has carried an answer: if it dies, the next may still work.
    has_answered: bool,
    /// The pause after the next connection that carries none.
    pause_ns: u64,
    pauses: Random,
    /// The worker has slept since it last checked its connection.
    has_rested: bool,
    /// Time before a due time at which the worker stops sleeping and spins.
    spin_ns: u64,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        engine: Arc<Engine>,
        writer: Writer,
        connection: Box<dyn Connection>,
    ) -> Self {
        let is_cut = engine.workers[index].cut.is_cut();
        let laps = Laps::new(Arc::clone(&engine.clock), &engine.hosts.driver().operations(), is_cut);
        let pauses = Random::of(engine.settings.seed ^ PAUSE_SALT, index as u64);
        let connection = Some(connection);
        let connected_ns = engine.clock.now_ns();
        let spin_ns = to_ns(engine.settings.client.spin);
        let ledger = Ledger::new(Arc::clone(&engine), writer);
        Self {
            index,
            engine,
            ledger,
            laps,
            connection,
            connected_ns,
            has_answered: true,
            pause_ns: PAUSE_FIRST_NS,
            pauses,
            has_rested: false,
            spin_ns,
        }
    }

    /// Whether the worker has a connection; reconnects if necessary, as long as events may be taken.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.is_connected() || self.connect_again(|engine| engine.clock.now_ns() >= engine.closes_ns())
    }

    /// Variant of [`Self::is_ready`] that first rests until the next turn, in a load that takes turns: the
    /// server may have closed the connection meanwhile.
    pub(crate) fn is_ready_for_a_turn(&mut self) -> bool {
        self.has_rested |= self.engine.rest_between_turns();
        self.is_ready()
    }

    /// Whether the worker has a connection. Drops a connection that ended between two events, and counts an
    /// error if it was lost.
    pub(crate) fn is_connected(&mut self) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        match connection.idle(std::mem::take(&mut self.has_rested)) {
            Idle::Stands => return true,
            Idle::Closed => self.slot().lose(self.engine.clock.now_ns(), Gone::Closed),
            Idle::Lost(failure) => {
                let at_ns = self.engine.clock.now_ns();
                self.slot().lose(at_ns, Gone::Lost);
                self.ledger.note_lost(
                    self.index,
                    &failure,
                    (self.connected_ns, self.has_answered),
                    at_ns,
                    None,
                );
            }
        }
        self.connection = None;
        false
    }

    fn slot(&self) -> &ConnectionSlot {
        &self.engine.connection_slots[self.index]
    }

    /// Whether the script of the events ends this worker.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_over())
    }

    /// Waits until `due_ns`, and returns the time then; `None` if the run ends before.
    pub(crate) fn wait_until(&mut self, due_ns: u64) -> Option<u64> {
        loop {
            let now_ns = self.wait_a_slice(due_ns)?;
            if now_ns >= due_ns {
                return Some(now_ns);
            }
        }
    }

    /// Waits until `due_ns` or for one slice, and returns the time then; `None` if the run ends before.
    ///
    /// A sleep ends tens of microseconds late, so the worker asks to be woken early and spins for the rest.
    pub(crate) fn wait_a_slice(&mut self, due_ns: u64) -> Option<u64> {
        let lead = &self.engine.lead;
        let spin_from_ns = due_ns.saturating_sub(self.spin_ns.max(lead.ns()));
        let (mut has_slept, mut spins_from_ns) = (false, None);
        loop {
            let now_ns = self.engine.clock.now_ns();
            if now_ns >= due_ns {
                if has_slept || spins_from_ns.is_some() {
                    lead.spend(now_ns, spins_from_ns.map_or(0, |from_ns| now_ns - from_ns));
                }
                return Some(now_ns);
            }
            if now_ns >= self.engine.closes_ns() {
                return None;
            }
            if now_ns >= spin_from_ns {
                spins_from_ns.get_or_insert(now_ns);
                std::hint::spin_loop();
                continue;
            }
            if has_slept {
                return Some(now_ns);
            }
            let asked_ns = spin_from_ns.min(now_ns + SLICE_NS);
            self.engine.clock.sleep_until_ns(asked_ns);
            (has_slept, self.has_rested) = (true, true);
            if lead.is_on() && asked_ns == spin_from_ns {
                lead.learn(asked_ns, self.engine.clock.now_ns());
            }
        }
    }

    /// Tries the event until it succeeds, may not be retried, or the run is abandoned.
    ///
    /// Time spent on reconnecting counts as wait; the service time is that of the try that follows.
    pub(crate) fn perform(&mut self, event: &Started) {
        let mut event = *event;
        self.ledger.begun(self.index, &event);
        let mut tries_left = self.engine.settings.retries_max;
        let mut try_start_ns = event.start_ns;
        let (mut is_hit, mut is_refused) = (false, false);
        loop {
            let Some(failure) = self.attempt(&event, try_start_ns) else { return };
            let end_ns = self.engine.clock.now_ns();
            let is_lost = failure.class == FailureClass::Connection;
            if failure.class == FailureClass::Unprocessed {
                self.connection = None;
                self.slot().lose(end_ns, Gone::Closed);
                if is_refused {
                    // Pause: a server that refuses to begin requests on any connection would be asked in an
                    // endless loop.
                    self.pause(end_ns, PAUSE_FIRST_NS as f64, &Engine::is_abandoned);
                }
                if !self.connect_again(Engine::is_abandoned) || self.engine.is_abandoned() {
                    return;
                }
                is_refused = true;
                try_start_ns = self.engine.clock.now_ns();
                event = event.on_new_connection(try_start_ns);
                self.ledger.begun(self.index, &event);
                continue;
            }
            if is_lost {
                self.connection = None;
                self.slot().lose(end_ns, Gone::Lost);
                let carried = Carried { taken: event.taken, try_start_ns, is_hit };
                let made = (self.connected_ns, self.has_answered);
                self.ledger.note_lost(self.index, &failure, made, end_ns, Some(&carried));
                is_hit = true;
            } else {
                if failure.class == FailureClass::Timeout {
                    // Drop the connection: the late answer would be taken for the next event's.
                    self.connection = None;
                    self.slot().lose(end_ns, Gone::Lost);
                }
                self.ledger.note_failure(self.index, &failure, &event.taken, try_start_ns, end_ns);
            }
            let may_pass = matches!(failure.class, FailureClass::Transient | FailureClass::Connection);
            if !may_pass || !failure.may_repeat || tries_left == 0 {
                return self.ledger.failed(self.index, &event, end_ns, &failure);
            }
            let can_try = self.is_connected() || self.connect_again(Engine::is_abandoned);
            if !can_try || self.engine.is_abandoned() {
                return; // Still in its slot: unfinished.
            }
            tries_left -= 1;
            try_start_ns = self.engine.clock.now_ns();
            if is_lost {
                event = event.on_new_connection(try_start_ns);
                self.ledger.begun(self.index, &event);
            }
            self.ledger.note_retry(&event.taken, try_start_ns);
        }
    }

    /// Runs one try; `None` if it succeeded.
    fn attempt(&mut self, event: &Started, start_ns: u64) -> Option<Failure> {
        let connection = self.connection.as_mut().expect("a worker that performs is connected");
        self.laps.begin(start_ns);
        let random = Random::of(self.engine.settings.event_seed(), event.taken.chance);
        let ran = connection.run(&mut Attempt { random, laps: &mut self.laps });
        if !matches!(&ran, Err(failure) if failure.class == FailureClass::Connection) {
            (self.has_answered, self.pause_ns) = (true, PAUSE_FIRST_NS);
        }
        match ran {
            Ok(()) => {
                let end_ns = self.laps.end_ns();
                self.ledger.done(self.index, event, end_ns, &self.laps);
                self.engine.outages_of(self.index).succeeded(start_ns, end_ns);
                None
            }
            Err(failure) => Some(failure),
        }
    }

    /// Reconnects, pausing longer after each failure; false if `is_over` comes first.
    fn connect_again(&mut self, is_over: impl Fn(&Engine) -> bool) -> bool {
        self.slot().wants(self.engine.clock.now_ns());
        if !self.has_answered {
            // A server that accepts and closes would be asked in an endless loop.
            self.pause_longer(&is_over);
        }
        while !is_over(&self.engine) {
            let began_ns = self.engine.clock.now_ns();
            let made = self.engine.hosts.connect(self.index, &self.engine.workers[self.index].cut);
            let now_ns = self.engine.clock.now_ns();
            match made {
                Ok(connection) => {
                    (self.connected_ns, self.has_answered) = (now_ns, connection.has_heard());
                    if self.has_answered {
                        self.engine.outages_of(self.index).succeeded(began_ns, now_ns);
                        self.pause_ns = PAUSE_FIRST_NS;
                    } else {
                        self.engine.outages_of(self.index).made(now_ns);
                    }
                    self.connection = Some(connection);
                    self.ledger.note_reconnected(self.index, now_ns);
                    return true;
                }
                Err(failure) => self.ledger.note_unconnected(self.index, &failure, began_ns, now_ns),
            }
            self.pause_longer(&is_over);
        }
        false
    }

    /// Pauses, each time about twice as long, until the server answers.
    fn pause_longer(&mut self, is_over: &impl Fn(&Engine) -> bool) {
        let half_to_three_halves = 0.5 + self.pauses.unit();
        self.pause(self.engine.clock.now_ns(), self.pause_ns as f64 * half_to_three_halves, is_over);
        self.pause_ns = (2 * self.pause_ns).min(self.engine.pause_last_ns());
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
