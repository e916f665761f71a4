//! One thread, many connections: waits for whichever is ready, or for the next event to fall due.
//!
//! The same schedule, stamps and ledger as where each connection has a thread. A loop takes the next event of an open
//! loop before it is due, as a worker does, and begins it on the connection that has been free for longest. *Claim* is
//! the moment from which that connection was free: what an event waits because all connections were busy is wait, and
//! what it waits because the loop was, is the generator's own lateness.
//!
//! Of connections that are ready together, a closed loop reads all answers before it asks anything new: an answer's end is
//! then late by the reading of the others and not by their sending, which costs ten times as much.
//!
//! A sleeping loop costs the server: whoever sends the first answer wakes it, and on one machine pays for that. Where the
//! settings say so, a closed loop looks for answers for a while before it sleeps.
//!
//! An event may consist of several requests: its dialogue goes on after each answer. A connection whose opening is a
//! conversation of its own is opened aside, while the loop goes on ([`opener`]).
//!
//! Nothing is allocated between the due time and the record of an event: requests are built in one buffer of the loop,
//! answers read in another, and a connection keeps bytes of its own only where an answer or a request is cut in two.

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
use crate::engine::ledger::{Ledger, Started};
use crate::engine::loops::closed::{rest_ns, spread_ns};
use crate::engine::loops::open::LateRule;
use crate::measure::latency::Writer;
use crate::net::CONNECT_TIMEOUT;
use crate::net::{Dialogue, Go, Multiplex, READ_BYTES, timed_out};
use crate::schedule::clock::{NEVER_NS, to_ns};
use crate::schedule::random::Random;
use crate::schedule::taken::Taken;

mod connection;
mod link;
mod opener;
mod ready;

use link::{Carrier, Link, Pending, State};
use opener::Opener;
use ready::{INPUT, Ready};

/// What the wake-up from outside goes by, in place of a connection's number.
const WAKE: u64 = u64::MAX;

/// One thread's connections.
pub(crate) struct EventLoop {
    worker: usize,
    engine: Arc<Engine>,
    ledger: Ledger,
    laps: Laps,
    ready: Ready,
    carriers: Vec<Carrier>,
    /// The links of each connection, one connection after the other.
    links: Vec<Link>,
    /// Links of a connection.
    depth: usize,
    /// Connections that have something to send, when all that is due is built.
    dirty: Vec<usize>,
    /// Room for the answers of one read, each with the link whose it is.
    answers: Vec<(usize, Result<Answer, Failure>)>,
    /// Number of the first link's connection slot.
    first_slot: usize,
    /// Links that wait for an event, the one that has waited for longest first. One that was lost meanwhile is passed over.
    free: VecDeque<usize>,
    /// Open loop: the event that begins next.
    next: Option<Next>,
    /// It is beginning all that is due.
    is_beginning: bool,
    /// Closed loop: links that begin their next event when all answers that have come are read.
    rested: VecDeque<usize>,
    /// Links whose event goes on, when all answers that have come are read.
    going: Vec<usize>,
    /// Opens connections that take a conversation.
    opener: Opener,
    /// When links have something to do that no byte tells them to.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    /// When to look whether a link's event is to be given up; each link is in it once at most.
    give_ups: BinaryHeap<Reverse<(u64, usize)>>,
    /// After this time an event is given up.
    timeout_ns: Option<u64>,
    /// Links with an event.
    busy: usize,
    /// No event is left to take before the measured phase ends.
    is_exhausted: bool,
    /// Nor after it, where the load falls.
    is_after_exhausted: bool,
    late: LateRule,
    think: Think,
    /// Open loop: it spins so long before a due time. Closed loop: it looks so long for answers before it sleeps.
    spin_ns: u64,
    chance: Random,
    /// What comes is read here first.
    input: Box<[u8]>,
    /// Requests are built here.
    out: Vec<u8>,
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
    /// Takes over connections that stand.
    ///
    /// - `cut`: how whoever conducts wakes this loop.
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
            // It fails only where it was done before.
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
            chance: Random::of(settings.seed ^ PAUSE_SALT, worker as u64),
            input: vec![0; READ_BYTES].into_boxed_slice(),
            out: Vec::with_capacity(READ_BYTES),
            links,
            engine: Arc::clone(engine),
        })
    }

    /// Takes and does events until none is left or the run ends.
    pub(crate) fn work(mut self) -> Ledger {
        let (is_open, start_ns) = (self.engine.timeline().due.is_some(), self.engine.timeline().start_ns);
        for link in 0..self.links.len() {
            if is_open {
                self.set_free(link, start_ns);
            } else {
                // Where the load rises, one joins after the other.
                let share_ns = self.engine.share_ns(self.engine.settings.ramp_up, self.first_slot + link);
                let joins_ns = self.engine.timeline().start_ns + share_ns;
                let first_ns = joins_ns + spread_ns(self.think, &mut self.chance);
                self.links[link].state = State::Resting;
                self.set_timer(link, first_ns);
            }
        }
        while !self.engine.is_abandoned() {
            let now_ns = self.engine.clock.now_ns();
            let is_over = now_ns >= self.engine.closes_ns();
            self.fire_timers(now_ns, is_over);
            self.give_up(now_ns);
            if is_open {
                self.begin_due(now_ns);
            }
            if self.busy == 0 && (is_over || !(self.next.is_some() || self.may_take(is_open))) {
                break;
            }
            self.flush();
            let deadline_ns = self.deadline_ns(now_ns, is_over);
            if let Err(error) = self.wait_until(deadline_ns, now_ns) {
                let text = format!("waiting for connections: {error}");
                self.engine.note_sample(self.first_slot, FailureClass::Machine, &text);
                break;
            }
            self.note_wake(deadline_ns, now_ns);
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
                // One that was lost meanwhile begins its event again when it is back.
                if self.links[link].state == State::Asking {
                    self.go_on(link);
                }
            }
            self.going.clear();
            // One whose event ends before anything was sent comes again, after the others.
            for _ in 0..self.rested.len() {
                let Some(link) = self.rested.pop_front() else { break };
                // One that was lost meanwhile rests again when it is back.
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

    /// Waits until something is ready, or until `deadline_ns`; where answers are looked for first, does not sleep meanwhile.
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

    /// Until when nothing needs to be done unless a byte comes.
    fn deadline_ns(&self, now_ns: u64, is_over: bool) -> u64 {
        if !self.rested.is_empty() {
            return now_ns;
        }
        let mut deadline_ns = now_ns + SLICE_NS;
        if !is_over {
            // Where the load falls, it begins to when the measured phase ends.
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

    /// When to be woken for the next event, so as to begin it when it is due.
    fn wakes_ns(&self, next: &Next) -> u64 {
        next.from_ns.saturating_sub(self.spin_ns.max(self.engine.lead.ns()))
    }

    /// Learns how late it was woken for the next event, if it was.
    fn note_wake(&self, asked_ns: u64, slept_from_ns: u64) {
        let lead = &self.engine.lead;
        let Some(next) = self.next.filter(|_| lead.is_on() && self.ready.count() == 0) else { return };
        // It may have asked for something else, or not have slept.
        if asked_ns > slept_from_ns && asked_ns < next.from_ns && asked_ns == self.wakes_ns(&next) {
            lead.note(asked_ns, self.engine.clock.now_ns(), next.from_ns);
        }
    }

    /// Open loop: begins every event that is due and has a connection; takes the next one.
    fn begin_due(&mut self, now_ns: u64) {
        // An event that ends before anything was sent leads here again.
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
                    // It is not due in the phase that is over; another may follow.
                    self.next = None;
                    self.set_free(next.link, next.claim_ns);
                    if now_ns >= self.engine.closes_ns() {
                        break;
                    }
                }
                Some(next) if next.from_ns <= now_ns && now_ns < self.engine.closes_ns() => {
                    self.next = None;
                    self.begin(next.link, next.taken, Some(next.claim_ns));
                }
                _ => break,
            }
        }
        self.is_beginning = false;
    }

    /// The next event may be due at another time, where the rate was changed.
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
            // Nobody starts it before its turn: to the event that is as if no connection were free.
            let claim_ns = if is_late { self.late.turn_ns(claim_ns, &self.engine) } else { claim_ns };
            let from_ns = claim_ns.max(taken.due_ns);
            return Some(Next { link, taken, claim_ns, from_ns });
        }
        None
    }

    /// Closed loop: the link takes its next event, where one is left.
    fn begin_closed(&mut self, link: usize) {
        let now_ns = self.engine.clock.now_ns();
        let connection_slot = self.first_slot + link;
        // Where the load falls, one leaves after the other.
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

    /// Begins an event; `claim_ns` is `None` in a closed loop, where it was taken as it is due.
    fn begin(&mut self, link: usize, taken: Taken, claim_ns: Option<u64>) {
        let can_ask = matches!(self.links[link].state, State::Free | State::Resting);
        if can_ask {
            self.build(link, &taken);
        }
        let start_ns = if claim_ns.is_some() { self.engine.clock.now_ns() } else { taken.due_ns };
        let started = Started { taken, claim_ns: claim_ns.unwrap_or(taken.due_ns), start_ns };
        self.ledger.begun(self.first_slot + link, &started);
        let tries_left = self.engine.settings.retries_max;
        let event = Pending { started, try_start_ns: start_ns, tries_left, is_tried: can_ask, is_hit: false };
        self.links[link].event = Some(event);
        self.busy += 1;
        // A link that was lost after it took the event sends it when it is back.
        if can_ask {
            self.ask(link, start_ns);
        }
    }

    /// Sends what was built for a try that begins at `start_ns`.
    fn ask(&mut self, number: usize, start_ns: u64) {
        let link = &mut self.links[number];
        (link.state, link.is_sent) = (State::Asking, false);
        if let Some(timeout_ns) = self.timeout_ns {
            link.gives_up_ns = start_ns.saturating_add(timeout_ns);
            if !std::mem::replace(&mut link.is_watched, true) {
                self.give_ups.push(Reverse((link.gives_up_ns, number)));
            }
        }
        self.dialogue(number).begin(start_ns);
        if self.out.is_empty() { self.go_on(number) } else { self.send(number) }
    }

    /// Does what comes next in an event of several requests.
    fn go_on(&mut self, number: usize) {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        let go = self.dialogue(number).go_on(&mut out);
        self.out = out;
        match go {
            Go::Wait => {}
            Go::Send => self.send(number),
            Go::Rest { for_ns } => {
                self.links[number].state = State::Pausing;
                self.set_timer(number, self.engine.clock.now_ns().saturating_add(for_ns));
            }
            Go::Ended(Ok(answer)) => self.on_done(number, answer),
            Go::Ended(Err(failure)) => self.on_failure(number, &failure),
        }
    }

    fn build(&mut self, link: usize, taken: &Taken) {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        let random = Random::of(self.engine.settings.seed, taken.chance);
        self.dialogue(link).ask(random, &mut out);
        self.out = out;
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
        // A server that does not answer in time is there: its connection is replaced at once, as on a thread.
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
            // The answer that comes later would be taken for that of the next event.
            return self.replace(self.links[number].carrier);
        }
        self.on_ended(number, end_ns);
    }

    /// The link has done with its event, at `end_ns`.
    fn on_ended(&mut self, number: usize, end_ns: u64) {
        if self.dialogue(number).closes() {
            return self.drain(number);
        }
        if self.engine.timeline().due.is_some() {
            self.set_free(number, end_ns);
            // What waits for a connection goes at once, not after all others that are ready.
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

    fn fire_timers(&mut self, now_ns: u64, is_over: bool) {
        while let Some(Reverse((timer_ns, number))) = self.timers.peek().copied() {
            if timer_ns > now_ns {
                return;
            }
            self.timers.pop();
            if self.links[number].timer_ns != timer_ns {
                continue;
            }
            self.links[number].timer_ns = 0;
            let carrier = self.links[number].carrier;
            match self.links[number].state {
                // Nobody needs a new connection when it is over, but for an event in flight.
                State::Down if !is_over || self.has_event(carrier) => self.connect(carrier),
                State::Connecting | State::Greeting => {
                    let text = format!("no connection within {CONNECT_TIMEOUT:?}");
                    self.on_unconnected(carrier, &Failure::new(FailureClass::Connection, text));
                }
                State::Resting => self.begin_closed(number),
                State::Pausing => {
                    self.links[number].state = State::Asking;
                    self.go_on(number);
                }
                State::Down | State::Opening | State::Free | State::Asking | State::Draining => {}
            }
        }
    }

    /// Whether an event waits for a connection, or is in flight on it.
    fn has_event(&self, carrier: usize) -> bool {
        self.links_of(carrier).any(|number| self.links[number].event.is_some())
    }

    /// Gives up the events that have lasted too long.
    fn give_up(&mut self, now_ns: u64) {
        while let Some(Reverse((at_ns, number))) = self.give_ups.peek().copied() {
            if at_ns > now_ns {
                return;
            }
            self.give_ups.pop();
            let link = &mut self.links[number];
            if link.state != State::Asking {
                link.is_watched = false;
            } else if link.gives_up_ns > now_ns {
                // That was for an event which has ended.
                self.give_ups.push(Reverse((link.gives_up_ns, number)));
            } else {
                link.is_watched = false;
                let timeout_ns = self.timeout_ns.unwrap_or_default();
                let failure = timed_out(timeout_ns, self.dialogue(number));
                self.on_failure(number, &failure);
            }
        }
    }

    fn set_timer(&mut self, number: usize, at_ns: u64) {
        self.links[number].timer_ns = at_ns;
        self.timers.push(Reverse((at_ns, number)));
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
