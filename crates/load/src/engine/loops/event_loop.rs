//! One thread, many connections: waits for the first that is ready, or for the next event to fall due.
//!
//! Schedule, stamps and ledger are those of the loops with a thread for each connection. A loop takes the
//! next event of an open loop before it is due, as a worker does, and begins it on the connection that has
//! been free for longest. *Claim* is the time from which that connection was free: time for which all
//! connections were busy is wait, and time for which the loop was busy is the generator's lateness.
//!
//! A closed loop reads the answers of all ready connections before it sends new requests. The end of an
//! answer is then late by the time to read the others, not to send for them; sending takes ten times as long.
//!
//! A sleeping loop costs the server time: the thread that sends the first answer wakes it, and on the same
//! machine pays for the wake-up. With `spin`, a closed loop polls for answers for a while before it sleeps.
//!
//! An event may consist of several requests: its dialogue continues after each answer. A connection that is
//! opened by a conversation, such as a login, is opened on another thread while the loop continues
//! ([`opener`]).
//!
//! Nothing is allocated between the due time and the record of an event: requests are built in one buffer of
//! the loop, answers are read into another, and a connection has its own buffer only for an incomplete answer
//! or request.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;

use nix::sys::epoll::EpollFlags;
use nix::sys::eventfd::{EfdFlags, EventFd};
use record::load::Think;
use socket2::Socket;

use crate::connection::Answer;
use crate::connection::{Cut, Failure, FailureClass, Laps};
use crate::engine::Engine;
use crate::engine::backoff::{PAUSE_SALT, SLICE_NS};
use crate::engine::connection_slot::Gone;
use crate::engine::ledger::{Ledger, Started};
use crate::engine::loops::closed::{rest_ns, spread_ns};
use crate::engine::loops::open::LateRule;
use crate::measure::latency::Writer;
use crate::net::{Dialogue, Multiplex, READ_BYTES};
use crate::schedule::clock::{NEVER_NS, to_ns};
use crate::schedule::random::Random;
use crate::schedule::taken::Taken;

mod connection;
mod link;
mod opener;
mod ready;
mod sending;
mod timers;

use link::{Carrier, Link, Pending, State};
use opener::Opener;
use ready::{INPUT, Ready};

/// The epoll number of the wake-up from other threads, in place of a connection's number.
const WAKE: u64 = u64::MAX;

/// One thread's connections.
pub(crate) struct EventLoop {
    worker: usize,
    engine: Arc<Engine>,
    pub(crate) ledger: Ledger,
    laps: Laps,
    ready: Ready,
    carriers: Vec<Carrier>,
    /// The links of all connections, grouped by connection.
    links: Vec<Link>,
    /// Links for each connection.
    depth: usize,
    /// Connections with data to send after all due requests are built.
    dirty: Vec<usize>,
    /// Buffer for the answers of one read, each with its lane.
    answers: Vec<(usize, Result<Answer, Failure>)>,
    /// Number of the first link's connection slot.
    first_slot: usize,
    /// Links that wait for an event, longest first. Links lost meanwhile are skipped.
    free: VecDeque<usize>,
    /// Open loop: the event that begins next.
    next: Option<Next>,
    /// `begin_due` is running: guards against recursion.
    is_beginning: bool,
    /// Closed loop: links that begin their next event after all answers have been read.
    rested: VecDeque<usize>,
    /// Links that continue their event after all answers have been read.
    going: Vec<usize>,
    /// Opens connections that need a conversation.
    opener: Opener,
    /// Times at which links must act without a byte from the server.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    /// Times at which to check whether a link's event must be given up; it has each link at most once.
    give_ups: BinaryHeap<Reverse<(u64, usize)>>,
    /// Maximum duration of an event.
    timeout_ns: Option<u64>,
    /// Links with an event.
    busy: usize,
    /// Every event before the end of the measured phase is taken.
    is_exhausted: bool,
    /// Every event of the falling load is taken as well.
    is_after_exhausted: bool,
    late: LateRule,
    think: Think,
    /// Open loop: time to spin before a due time. Closed loop: time to poll for answers before sleeping.
    spin_ns: u64,
    /// Open loop: the way to the next event's due time.
    approach: Approach,
    chance: Random,
    /// Buffer for reads.
    input: Box<[u8]>,
    /// Buffer in which requests are built.
    out: Vec<u8>,
}

/// The way of a loop to the due time of its next event.
#[derive(Debug, Clone, Copy, Default)]
enum Approach {
    /// With other connections, or not at all.
    #[default]
    Busy,
    /// Asleep until the lead before it.
    Slept,
    /// Polling, instead of sleeping.
    Spins { from_ns: u64 },
}

/// An event that was taken and has not begun.
#[derive(Debug, Clone, Copy)]
struct Next {
    link: usize,
    taken: Taken,
    claim_ns: u64,
    from_ns: u64,
}

impl EventLoop {
    /// Takes over established connections.
    ///
    /// - `cut`: lets the conductor wake this loop.
    pub(crate) fn new(
        worker: usize,
        first_slot: usize,
        engine: &Arc<Engine>,
        writer: Writer,
        opened: Vec<(Socket, Box<dyn Dialogue>)>,
        cut: &Cut,
    ) -> io::Result<Self> {
        let ready = Ready::new()?;
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        ready.add(&*wake, EpollFlags::EPOLLIN, WAKE)?;
        let opener = Opener::new(Arc::clone(engine), Arc::clone(&wake));
        cut.arm(move || {
            // It fails only if it was done before.
            let _ = wake.write(1);
        });
        let now_ns = engine.clock.now_ns();
        let settings = &engine.settings;
        let depth = settings.depth() as usize;
        let mut links = Vec::with_capacity(opened.len() * depth);
        let mut carriers = Vec::with_capacity(opened.len());
        for (number, (socket, dialogue)) in opened.into_iter().enumerate() {
            socket.set_nonblocking(true)?;
            ready.add(&socket, INPUT, number as u64)?;
            carriers.push(Carrier::new(socket, dialogue, now_ns));
            links.extend((0..depth).map(|lane| Link::new(number, lane)));
        }
        Ok(Self {
            worker,
            ledger: Ledger::new(Arc::clone(engine), writer),
            laps: Laps::new(Arc::clone(&engine.clock), &engine.hosts.driver().operations(), cut.is_cut()),
            ready,
            depth,
            dirty: Vec::with_capacity(carriers.len()),
            answers: Vec::with_capacity(depth),
            carriers,
            first_slot,
            free: VecDeque::with_capacity(links.len()),
            next: None,
            is_beginning: false,
            rested: VecDeque::with_capacity(links.len()),
            going: Vec::with_capacity(links.len()),
            opener,
            timers: BinaryHeap::with_capacity(2 * links.len()),
            give_ups: BinaryHeap::new(),
            timeout_ns: engine.hosts.driver().multiplex().and_then(Multiplex::timeout).map(to_ns),
            busy: 0,
            is_exhausted: false,
            is_after_exhausted: false,
            late: LateRule::of(&settings.pace),
            think: settings.pace.think(),
            spin_ns: to_ns(settings.client.spin),
            approach: Approach::Busy,
            chance: Random::of(settings.seed ^ PAUSE_SALT, engine.share.number(worker as u64)),
            input: vec![0; READ_BYTES].into_boxed_slice(),
            out: Vec::with_capacity(READ_BYTES),
            links,
            engine: Arc::clone(engine),
        })
    }

    /// Takes and does events until none is left or the run ends.
    pub(crate) fn work(mut self) -> Ledger {
        let is_open = self.engine.timeline().due.is_some();
        (0..self.links.len()).for_each(|link| self.join(link, is_open));
        while !self.engine.is_abandoned() {
            let now_ns = self.engine.clock.now_ns();
            let is_over = now_ns >= self.engine.closes_ns();
            self.fire_timers(now_ns, is_over);
            self.give_up(now_ns);
            if is_open {
                self.begin_due(now_ns);
                self.note_spinning(now_ns);
            }
            if self.busy == 0 && (is_over || !(self.next.is_some() || self.may_take(is_open))) {
                break;
            }
            // Sending takes time: a sleep counted from before it would end late.
            self.flush();
            let now_ns = if is_open { self.engine.clock.now_ns() } else { now_ns };
            let deadline_ns = self.deadline_ns(now_ns, is_over);
            let is_for_next = self.next.is_some_and(|next| deadline_ns == self.wakes_ns(&next));
            if let Err(error) = self.wait_until(deadline_ns, now_ns) {
                let text = format!("cannot wait for connections: {error}");
                self.engine.note_sample(self.first_slot, FailureClass::Machine, &text);
                break;
            }
            // The loop may have slept for another reason, or not at all.
            if is_for_next && deadline_ns > now_ns {
                self.note_wake_up(deadline_ns);
            }
            for index in 0..self.ready.count() {
                let (number, flags) = self.ready.found(index);
                if number == WAKE {
                    self.take_opened();
                } else {
                    #[expect(clippy::cast_possible_truncation, reason = "an index, as it was registered")]
                    self.on_ready(number as usize, flags);
                }
            }
            for index in 0..self.going.len() {
                let link = self.going[index];
                // A link that was lost meanwhile begins its event again when it is connected.
                if self.links[link].state == State::Asking {
                    self.go_on(link);
                }
            }
            self.going.clear();
            // If a link's event ends before anything was sent, the link is queued again, after the others.
            for _ in 0..self.rested.len() {
                let Some(link) = self.rested.pop_front() else { break };
                // A link that was lost meanwhile rests again when it is connected.
                if self.links[link].state == State::Resting {
                    self.begin_closed(link);
                }
            }
        }
        for link in self.links.iter().filter(|l| l.state == State::Asking) {
            self.carriers[link.carrier].dialogue.give_up();
        }
        self.ledger
    }

    /// Lets a link begin its first event.
    fn join(&mut self, link: usize, is_open: bool) {
        let start_ns = self.engine.timeline().start_ns;
        if is_open {
            return self.set_free(link, start_ns);
        }
        // If the load rises, links join one after another.
        let share_ns = self.engine.share_ns(self.engine.settings.ramp_up, self.first_slot + link);
        let first_ns = start_ns + share_ns + spread_ns(self.think, &mut self.chance);
        self.links[link].state = State::Resting;
        self.set_timer(link, first_ns);
    }

    /// Waits until something is ready or until `deadline_ns`; polls first if the settings say so.
    fn wait_until(&mut self, deadline_ns: u64, mut now_ns: u64) -> io::Result<()> {
        let may_look = self.busy > 0 && self.engine.timeline().due.is_none();
        let looks_until_ns = if may_look { deadline_ns.min(now_ns + self.spin_ns) } else { now_ns };
        while now_ns < looks_until_ns {
            self.ready.wait(0)?;
            if self.ready.count() > 0 {
                return Ok(());
            }
            now_ns = self.engine.clock.now_ns();
        }
        self.ready.wait(deadline_ns.saturating_sub(now_ns))
    }

    /// Whether events are left to take, now or when the load falls.
    fn may_take(&self, is_open: bool) -> bool {
        let may_take_after = is_open && self.engine.timeline().falls() && !self.is_after_exhausted;
        !self.is_exhausted || may_take_after
    }

    /// The time until which the loop has nothing to do unless a byte arrives.
    fn deadline_ns(&self, now_ns: u64, is_over: bool) -> u64 {
        if !self.rested.is_empty() {
            return now_ns;
        }
        let mut deadline_ns = now_ns + SLICE_NS;
        if !is_over {
            // If the load falls, the fall begins when the measured phase ends.
            let ends_ns = [self.engine.end_ns(), self.engine.closes_ns()];
            let end_ns = ends_ns.into_iter().find(|end_ns| *end_ns > now_ns);
            deadline_ns = deadline_ns.min(end_ns.unwrap_or(now_ns));
            if let Some(next) = &self.next {
                deadline_ns = deadline_ns.min(self.wakes_ns(next));
            }
        }
        for heap in [&self.timers, &self.give_ups] {
            if let Some(Reverse((timer_ns, _))) = heap.peek() {
                deadline_ns = deadline_ns.min(*timer_ns);
            }
        }
        deadline_ns
    }

    /// The time to wake at for the next event, in order to begin it on time.
    fn wakes_ns(&self, next: &Next) -> u64 {
        next.from_ns.saturating_sub(self.spin_ns.max(self.engine.lead.ns()))
    }

    /// Notes the time from which on the loop polls instead of sleeping. Answers that it handles meanwhile
    /// count as spinning too.
    fn note_spinning(&mut self, now_ns: u64) {
        let spins = self.engine.lead.is_on() && self.next.is_some_and(|next| now_ns >= self.wakes_ns(&next));
        self.approach = match self.approach {
            Approach::Spins { from_ns } if spins => Approach::Spins { from_ns },
            _ if spins => Approach::Spins { from_ns: now_ns },
            // A change of the rate has moved the due time.
            Approach::Spins { .. } => Approach::Busy,
            approach => approach,
        };
    }

    /// Open loop: begins every event that is due and has a connection; takes the next one.
    fn begin_due(&mut self, now_ns: u64) {
        // An event that ends before anything was sent calls this function again.
        if std::mem::replace(&mut self.is_beginning, true) {
            return;
        }
        loop {
            if self.next.is_none() {
                self.next = self.take_next(now_ns);
            }
            self.look_again();
            match self.next {
                Some(next) if next.taken.due_ns == NEVER_NS && now_ns >= self.engine.end_ns() => {
                    // The event is not due in the phase that is over; another phase may follow.
                    self.next = None;
                    self.set_free(next.link, next.claim_ns);
                    if now_ns >= self.engine.closes_ns() {
                        break;
                    }
                }
                Some(next) if next.from_ns <= now_ns && now_ns < self.engine.closes_ns() => {
                    self.next = None;
                    match std::mem::take(&mut self.approach) {
                        Approach::Busy => {}
                        Approach::Slept => self.engine.lead.spend(now_ns, 0),
                        Approach::Spins { from_ns } => self.engine.lead.spend(now_ns, now_ns - from_ns),
                    }
                    self.begin(next.link, next.taken, Some(next.claim_ns));
                }
                _ => break,
            }
        }
        self.is_beginning = false;
    }

    /// Updates the next event's due time after a rate change.
    fn look_again(&mut self) {
        let Some(next) = &mut self.next else { return };
        if let Some(again) = self.ledger.take_again(&next.taken, self.worker, self.first_slot + next.link) {
            (next.taken, next.from_ns) = (again, next.claim_ns.max(again.due_ns));
        }
    }

    fn take_next(&mut self, now_ns: u64) -> Option<Next> {
        let is_falling = now_ns >= self.engine.end_ns();
        if now_ns >= self.engine.closes_ns() {
            return None;
        }
        while !(if is_falling { self.is_after_exhausted } else { self.is_exhausted }) {
            let link = self.pop_free()?;
            let (connection_slot, claim_ns) = (self.first_slot + link, self.links[link].free_ns);
            let taken = if is_falling {
                self.ledger.take_after(connection_slot)
            } else {
                self.ledger.take_open(self.worker, connection_slot)
            };
            let Some(taken) = taken else {
                *(if is_falling { &mut self.is_after_exhausted } else { &mut self.is_exhausted }) = true;
                self.set_free(link, claim_ns);
                return None;
            };
            if claim_ns.saturating_sub(taken.due_ns) > self.late.skip_from_ns {
                self.ledger.skip(connection_slot, &taken);
                self.set_free(link, claim_ns);
                continue;
            }
            let is_late = claim_ns > taken.due_ns;
            // A paced event may not start before its turn. To the event this is the same as waiting for a
            // free connection.
            let claim_ns = if is_late { self.late.turn_ns(claim_ns, &self.engine) } else { claim_ns };
            let from_ns = claim_ns.max(taken.due_ns);
            return Some(Next { link, taken, claim_ns, from_ns });
        }
        None
    }

    /// Closed loop: begins the link's next event, if one is left.
    fn begin_closed(&mut self, link: usize) {
        let now_ns = self.engine.clock.now_ns();
        let connection_slot = self.first_slot + link;
        // If the load falls, links leave one after another.
        let leaves_ns =
            self.engine.end_ns() + self.engine.share_ns(self.engine.settings.ramp_down, connection_slot);
        if now_ns >= leaves_ns.min(self.engine.closes_ns()) {
            return;
        }
        match self.ledger.take_closed(connection_slot, now_ns) {
            Some(taken) => self.begin(link, taken, None),
            None => self.is_exhausted = true,
        }
    }

    /// Begins an event; `claim_ns` is `None` in a closed loop, in which an event is taken when it is due.
    fn begin(&mut self, link: usize, taken: Taken, claim_ns: Option<u64>) {
        // As with a thread for each connection, the event starts before its request is built: with TLS and
        // HTTP/2 that takes as long as to read the answer, which is service too.
        let start_ns = if claim_ns.is_some() { self.engine.clock.now_ns() } else { taken.due_ns };
        let can_ask = matches!(self.links[link].state, State::Free | State::Resting);
        if can_ask {
            self.build(link, &taken);
        }
        let claim_ns = claim_ns.unwrap_or(taken.due_ns);
        let found_no_worker = claim_ns > taken.due_ns;
        let started = Started { taken, claim_ns, start_ns, found_no_worker };
        self.ledger.begun(self.first_slot + link, &started);
        let tries_left = self.engine.settings.retries_max;
        let event = Pending { started, try_start_ns: start_ns, tries_left, is_tried: can_ask, is_hit: false };
        self.links[link].event = Some(event);
        self.busy += 1;
        // A link that was lost after it took the event sends it when it is connected again.
        if can_ask {
            self.ask(link, start_ns);
        }
    }

    /// Sends the built request for a try that begins at `start_ns`.
    fn ask(&mut self, number: usize, start_ns: u64) {
        let link = &mut self.links[number];
        let said = self.carriers[link.carrier].said;
        (link.state, link.request) = (State::Asking, said..said);
        if let Some(timeout_ns) = self.timeout_ns {
            link.gives_up_ns = start_ns.saturating_add(timeout_ns);
            if !std::mem::replace(&mut link.is_watched, true) {
                self.give_ups.push(Reverse((link.gives_up_ns, number)));
            }
        }
        self.dialogue(number).begin(start_ns);
        if self.out.is_empty() { self.go_on(number) } else { self.send(number) }
    }

    fn build(&mut self, link: usize, taken: &Taken) {
        let random = Random::of(self.engine.settings.event_seed(), taken.chance);
        let (dialogue, out) = self.dialogue_and_out(link);
        dialogue.ask(random, out);
    }

    fn on_done(&mut self, number: usize, answer: Answer) {
        let Some(event) = self.links[number].event.take() else { return };
        self.busy -= 1;
        let laps = if let Some(laps) = self.carriers[self.links[number].carrier].dialogue.laps() {
            laps
        } else {
            self.laps.begin(event.try_start_ns);
            self.laps.end_operation(answer.operation);
            self.laps.note_outcome(&answer);
            &self.laps
        };
        let end_ns = laps.end_ns();
        self.ledger.done(self.first_slot + number, &event.started, end_ns, laps);
        self.engine.outages_of(self.first_slot + number).succeeded(event.try_start_ns, end_ns);
        self.on_answer(number);
        self.on_ended(number, end_ns);
    }

    fn on_failure(&mut self, number: usize, failure: &Failure) {
        match failure.class {
            FailureClass::Connection => return self.lose(self.links[number].carrier, failure),
            FailureClass::Unprocessed => return self.drain(number),
            _ => {}
        }
        let Some(event) = self.links[number].event else { return };
        let is_timeout = failure.class == FailureClass::Timeout;
        // A timeout is not an outage: the connection is replaced at once, as by a thread.
        self.on_answer(number);
        let end_ns = self.engine.clock.now_ns();
        self.ledger.note_failure(
            self.first_slot + number,
            failure,
            &event.started.taken,
            event.try_start_ns,
            end_ns,
        );
        if failure.class == FailureClass::Transient && event.tries_left > 0 {
            return self.try_again(number);
        }
        self.links[number].event = None;
        self.busy -= 1;
        self.ledger.failed(self.first_slot + number, &event.started, end_ns, failure);
        if is_timeout && !self.cancel(number) {
            // Replace the connection: the late answer would be taken for the next event's.
            return self.replace(self.links[number].carrier, Gone::Lost);
        }
        self.on_ended(number, end_ns);
    }

    /// Frees the link after its event ended at `end_ns`.
    fn on_ended(&mut self, number: usize, end_ns: u64) {
        if self.dialogue(number).closes() {
            return self.drain(number);
        }
        if self.engine.timeline().due.is_some() {
            self.set_free(number, end_ns);
            // An event that waits for a connection begins at once, not after all other ready connections.
            return self.begin_due(end_ns);
        }
        self.links[number].state = State::Resting;
        match rest_ns(self.think, &mut self.chance) {
            0 => self.rested.push_back(number),
            rest => self.set_timer(number, end_ns + rest),
        }
    }

    fn try_again(&mut self, number: usize) {
        let Some(mut event) = self.links[number].event else { return };
        if event.is_tried && event.tries_left == 0 {
            let now_ns = self.engine.clock.now_ns();
            // Another event on the connection took too long, and the connection was replaced.
            let text = "its connection was replaced before its answer".to_owned();
            let failure = Failure::new(FailureClass::Connection, text);
            self.links[number].event = None;
            self.busy -= 1;
            self.ledger.failed(self.first_slot + number, &event.started, now_ns, &failure);
            return self.on_ended(number, now_ns);
        }
        self.build(number, &event.started.taken);
        let now_ns = self.engine.clock.now_ns();
        if event.is_tried {
            event.tries_left -= 1;
            self.ledger.note_retry(&event.started.taken, now_ns);
        }
        (event.try_start_ns, event.is_tried) = (now_ns, true);
        self.links[number].event = Some(event);
        self.ask(number, now_ns);
    }

    fn set_free(&mut self, number: usize, since_ns: u64) {
        let link = &mut self.links[number];
        (link.state, link.free_ns) = (State::Free, since_ns);
        if !link.is_queued {
            link.is_queued = true;
            self.free.push_back(number);
        }
    }

    fn pop_free(&mut self) -> Option<usize> {
        loop {
            let number = self.free.pop_front()?;
            self.links[number].is_queued = false;
            if self.links[number].state == State::Free {
                return Some(number);
            }
        }
    }
}
