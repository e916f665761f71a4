//! The life of a connection in an event loop: connect, send, receive, lose, reconnect.

use std::io::{ErrorKind, Read as _};
use std::ops::Range;

use nix::sys::epoll::EpollFlags;

use super::EventLoop;
use super::link::{AnswerProgress, Carrier, Link, State};
use super::ready::INPUT;
use crate::connection::{Failure, FailureClass};
use crate::engine::backoff::PAUSE_FIRST_NS;
use crate::engine::connection_slot::Gone;
use crate::engine::ledger::Carried;
use crate::net::held::HeldBytes;
use crate::net::{CONNECT_TIMEOUT, Dialogue, Multiplex, Opening, closed, connection_failure, is_unread};
use crate::schedule::clock::to_ns;

/// Flags for the end of the peer, though data may be left to read.
const GONE: EpollFlags = EpollFlags::EPOLLRDHUP.union(EpollFlags::EPOLLHUP).union(EpollFlags::EPOLLERR);

/// The dialogue of a link's connection, switched to the link.
fn switched<'a>(link: &Link, carriers: &'a mut [Carrier], depth: usize) -> &'a mut dyn Dialogue {
    let dialogue = &mut *carriers[link.carrier].dialogue;
    if depth > 1 {
        dialogue.turn_to(link.lane);
    }
    dialogue
}

impl EventLoop {
    /// Numbers of a connection's links.
    pub(super) fn links_of(&self, carrier: usize) -> Range<usize> {
        carrier * self.depth..(carrier + 1) * self.depth
    }

    /// The number of a connection's first link, which stands for the connection outside of events.
    fn first_of(&self, carrier: usize) -> usize {
        carrier * self.depth
    }

    /// The dialogue of a link's connection, switched to the link.
    pub(super) fn dialogue(&mut self, number: usize) -> &mut dyn Dialogue {
        switched(&self.links[number], &mut self.carriers, self.depth)
    }

    /// The same, and the empty buffer for its requests.
    pub(super) fn dialogue_and_out(&mut self, number: usize) -> (&mut dyn Dialogue, &mut Vec<u8>) {
        self.out.clear();
        (switched(&self.links[number], &mut self.carriers, self.depth), &mut self.out)
    }

    pub(super) fn watch(&self, carrier: usize, flags: EpollFlags) {
        if let Some(socket) = &self.carriers[carrier].socket {
            // The socket is registered, so this fails only for want of memory; then the connection stalls.
            let _ = self.ready.change(socket, flags, carrier as u64);
        }
    }

    pub(super) fn on_ready(&mut self, carrier: usize, flags: EpollFlags) {
        let first = self.first_of(carrier);
        if self.links[first].state == State::Connecting {
            return self.on_connected(carrier);
        }
        // Edge-triggered: readiness is reported once. A read that fills the buffer may leave bytes, and so
        // may any read before the peer's end. After a short read, new bytes make the connection ready again.
        while matches!(
            self.links[first].state,
            State::Greeting | State::Free | State::Resting | State::Asking | State::Draining | State::Pausing
        ) && self.receive(carrier) >= if flags.intersects(GONE) { 1 } else { self.input.len() }
        {}
        // Last: an answer that is there came before the rest of its request.
        if self.carriers[carrier].is_blocked {
            self.send_rest(carrier);
        }
    }

    /// Reads once and processes the bytes; returns their number.
    fn receive(&mut self, carrier: usize) -> usize {
        let first = self.first_of(carrier);
        let it = &mut self.carriers[carrier];
        let Some(socket) = &mut it.socket else { return 0 };
        let bytes = loop {
            match socket.read(&mut self.input) {
                Ok(bytes) => break bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return 0,
                Err(e) => {
                    self.lose(carrier, &connection_failure("cannot receive", &e));
                    return 0;
                }
            }
        };
        let is_asking = |link: &usize| self.links[*link].state == State::Asking;
        let asking = if self.depth > 1 { self.links_of(carrier).filter(is_asking).count() } else { 0 };
        match asking {
            0 => self.take_answer(carrier, first, bytes),
            asking => self.take_answers(carrier, bytes, asking),
        }
        self.reply(carrier);
        bytes
    }

    /// Processes bytes read while at most one request is in flight.
    fn take_answer(&mut self, carrier: usize, number: usize, bytes: usize) {
        let state = self.links[number].state;
        let it = &mut self.carriers[carrier];
        let dialogue = &mut it.dialogue;
        let answer = it.inbox.hear(&self.input[..bytes], |input| match state {
            State::Greeting => dialogue.hear_greeting(input),
            State::Free | State::Resting | State::Pausing => dialogue.hear_unasked(input),
            _ => dialogue.hear(input, bytes == 0),
        });
        if bytes > 0 && answer.is_none() {
            it.heard = AnswerProgress::Part;
        }
        let answer = match answer {
            Some(answer) if state == State::Asking => Some(self.in_time(number, answer)),
            answer => answer,
        };
        let is_answered = state == State::Asking && matches!(answer, Some(Ok(_)));
        let unasked = if is_answered { self.hear_left(carrier) } else { None };
        match (state, answer) {
            (State::Greeting, Some(Ok(_))) => match self.hear_left(carrier) {
                None => self.on_greeted(carrier),
                Some(failure) => self.on_unconnected(carrier, &failure),
            },
            (State::Greeting, Some(Err(failure))) => self.on_unconnected(carrier, &failure),
            (State::Greeting, None) if bytes == 0 => self.on_unconnected(carrier, &closed()),
            (State::Asking, Some(Ok(answer))) => self.on_done(number, answer),
            (State::Asking, Some(Err(failure))) => self.on_failure(number, &failure),
            (State::Free | State::Resting, _)
                if self.multiplex(carrier).closes_idle()
                    && (bytes == 0 || self.carriers[carrier].dialogue.closes()) =>
            {
                // Not an outage: the connection is replaced before an event needs it.
                self.replace(carrier, Gone::Closed);
            }
            (_, None) if bytes == 0 => self.lose(carrier, &closed()),
            (State::Asking, None) => self.going.push(number),
            (State::Free | State::Resting | State::Pausing, Some(Err(failure))) => {
                self.lose(carrier, &failure);
            }
            _ => {}
        }
        if let Some(failure) = unasked {
            self.lose(carrier, &failure);
        }
    }

    /// Processes bytes left over after the last answer, which answer no request. Returns the reason if the
    /// connection has become unusable.
    pub(super) fn hear_left(&mut self, carrier: usize) -> Option<Failure> {
        let it = &mut self.carriers[carrier];
        if it.inbox.is_empty() && !it.dialogue.has_left() {
            return None;
        }
        let dialogue = &mut it.dialogue;
        it.inbox.hear(&[], |input| dialogue.hear_unasked(input)).and_then(Result::err)
    }

    /// Processes bytes read while several requests may be in flight: any number of answers.
    fn take_answers(&mut self, carrier: usize, bytes: usize, asking: usize) {
        let mut answers = std::mem::take(&mut self.answers);
        let it = &mut self.carriers[carrier];
        let dialogue = &mut it.dialogue;
        it.inbox.hear_each(&self.input[..bytes], |input| {
            let heard = dialogue.hear(input, bytes == 0);
            let Some(answer) = heard.answer else { return (heard.taken, false) };
            // After a protocol error nothing that follows can be parsed.
            let is_lost = matches!(&answer, Err(failure) if failure.class == FailureClass::Connection);
            answers.push((dialogue.answered(), answer));
            (heard.taken, !is_lost && answers.len() < asking)
        });
        let first = self.first_of(carrier);
        let unasked = if answers.len() == asking { self.hear_left(carrier) } else { None };
        let mut is_lost = false;
        for (lane, answer) in answers.drain(..) {
            if is_lost {
                break;
            }
            match self.in_time(first + lane, answer) {
                Ok(answer) => self.on_done(first + lane, answer),
                Err(failure) if failure.class == FailureClass::Connection => {
                    self.lose(carrier, &failure);
                    is_lost = true;
                }
                Err(failure) => self.on_failure(first + lane, &failure),
            }
        }
        self.answers = answers;
        if !is_lost && let Some(failure) = unasked {
            self.lose(carrier, &failure);
            is_lost = true;
        }
        if !is_lost && let Err(failure) = self.carriers[carrier].inbox.account() {
            self.lose(carrier, &failure);
            is_lost = true;
        }
        // The last answer may have replaced the connection.
        if bytes == 0 && !is_lost && self.carriers[carrier].socket.is_some() {
            self.lose(carrier, &closed());
        }
    }

    /// Sends the dialogue's replies to what it received.
    fn reply(&mut self, carrier: usize) {
        let state = self.links[self.first_of(carrier)].state;
        if matches!(state, State::Down | State::Opening | State::Connecting) {
            return;
        }
        self.out.clear();
        self.carriers[carrier].dialogue.reply(&mut self.out);
        if self.out.is_empty() {
            return;
        }
        self.say(carrier);
        let it = &mut self.carriers[carrier];
        if let Err(failure) = it.unsent_held.set(it.unsent.len()) {
            self.lose(carrier, &failure);
        }
    }

    fn multiplex(&self, carrier: usize) -> &dyn Multiplex {
        let host = self.engine.hosts.of(self.connection_of(carrier));
        host.driver.multiplex().expect("only such targets come here")
    }

    /// The number of a connection among those of all loops.
    fn connection_of(&self, carrier: usize) -> usize {
        self.first_slot / self.depth + carrier
    }

    /// Handles a broken connection, which fails the try of each event in flight on it.
    pub(super) fn lose(&mut self, carrier: usize, failure: &Failure) {
        let first = self.first_of(carrier);
        if matches!(self.links[first].state, State::Connecting | State::Greeting) {
            return self.on_unconnected(carrier, failure);
        }
        if self.was_idle(carrier) {
            return self.drain(first);
        }
        let at_ns = self.engine.clock.now_ns();
        let made = (self.carriers[carrier].made_ns, self.carriers[carrier].has_answered);
        let mut carried = 0;
        for number in self.links_of(carrier) {
            if self.links[number].state == State::Draining {
                // The server has not begun this one.
                continue;
            }
            let may_repeat = !self.has_begun(number) || self.dialogue(number).may_repeat();
            let Some(event) = &mut self.links[number].event else { continue };
            carried += 1;
            let is_hit = std::mem::replace(&mut event.is_hit, true);
            let event = *event;
            let (taken, try_start_ns) = (event.started.taken, event.try_start_ns);
            let carried = Carried { taken, try_start_ns, is_hit };
            self.ledger.note_lost(self.first_slot + number, failure, made, at_ns, Some(&carried));
            if event.tries_left == 0 || !may_repeat {
                self.links[number].event = None;
                self.busy -= 1;
                self.ledger.failed(self.first_slot + number, &event.started, at_ns, failure);
            }
        }
        if carried == 0 {
            self.ledger.note_lost(self.first_slot + first, failure, made, at_ns, None);
        }
        self.replace(carrier, Gone::Lost);
    }

    /// Whether the server closed the connection as idle before it had read the request in flight.
    fn was_idle(&mut self, carrier: usize) -> bool {
        let first = self.first_of(carrier);
        let it = &self.carriers[carrier];
        self.depth == 1
            && self.links[first].state == State::Asking
            && (it.heard == AnswerProgress::Answers && self.multiplex(carrier).closes_idle())
            && it.socket.as_ref().is_some_and(is_unread)
            && (!self.has_begun(first) || self.dialogue(first).may_repeat())
    }

    /// Marks that the link's connection takes no more requests: it is replaced when no request is in flight.
    /// The server has not begun the link's event; the event is sent on the next connection, which is not a
    /// retry.
    pub(super) fn drain(&mut self, number: usize) {
        let carrier = self.links[number].carrier;
        self.links[number].state = State::Draining;
        let now_ns = self.engine.clock.now_ns();
        self.engine.connection_slots[self.first_slot + number].lose(now_ns, Gone::Closed);
        if let Some(event) = &mut self.links[number].event {
            event.is_tried = false;
        }
        if !self.links_of(carrier).any(|n| matches!(self.links[n].state, State::Asking | State::Pausing)) {
            self.replace(carrier, Gone::Closed);
        }
    }

    /// Cancels one request; false if its connection is then unusable.
    pub(super) fn cancel(&mut self, number: usize) -> bool {
        let (dialogue, out) = self.dialogue_and_out(number);
        let is_well = dialogue.cancel(out);
        if is_well && !self.out.is_empty() {
            self.say(self.links[number].carrier);
        }
        is_well
    }

    /// Drops a connection and makes another: at once, as a client does that finds its connection dead, but
    /// after a pause if it carried no answer. Otherwise a server that accepts and closes would cause an
    /// endless loop.
    pub(super) fn replace(&mut self, carrier: usize, gone: Gone) {
        self.disconnect(carrier);
        let now_ns = self.engine.clock.now_ns();
        for number in self.links_of(carrier) {
            self.engine.connection_slots[self.first_slot + number].lose(now_ns, gone);
        }
        let pause_ns = if self.carriers[carrier].has_answered { 0 } else { self.next_pause_ns(carrier) };
        self.set_timer(self.first_of(carrier), now_ns + pause_ns);
    }

    /// The pause before the next attempt: it roughly doubles each time until there is an answer.
    fn next_pause_ns(&mut self, carrier: usize) -> u64 {
        let half_to_three_halves = 0.5 + self.chance.unit();
        let it = &mut self.carriers[carrier];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 5 ms and 1.5 s")]
        let pause_ns = (it.pause_ns as f64 * half_to_three_halves) as u64;
        it.pause_ns = (2 * it.pause_ns).min(self.engine.pause_last_ns());
        pause_ns
    }

    /// Notes that the server has answered.
    pub(super) fn on_answer(&mut self, number: usize) {
        let it = &mut self.carriers[self.links[number].carrier];
        (it.pause_ns, it.has_answered, it.heard) = (PAUSE_FIRST_NS, true, AnswerProgress::Answers);
    }

    fn disconnect(&mut self, carrier: usize) {
        let it = &mut self.carriers[carrier];
        if let Some(socket) = it.socket.take() {
            // Closing removes a socket only if no other descriptor refers to it.
            self.ready.remove(&socket);
        }
        it.inbox.clear();
        it.unsent = Vec::new();
        it.unsent_held = HeldBytes::default();
        it.is_blocked = false;
        (it.said, it.sent) = (0, 0);
        for number in self.links_of(carrier) {
            self.links[number].request = 0..0;
            // A link's rest ends with its connection: otherwise its timer would connect a second time beside
            // the first link's.
            (self.links[number].state, self.links[number].timer_ns) = (State::Down, 0);
        }
    }

    pub(super) fn connect(&mut self, carrier: usize) {
        let now_ns = self.engine.clock.now_ns();
        let first = self.first_of(carrier);
        let attempts = self.carriers[carrier].attempts;
        self.carriers[carrier].began_ns = now_ns;
        self.carriers[carrier].attempts += 1;
        let begun = self.multiplex(carrier).begin_open(attempts).and_then(|opening| {
            if let Opening::Connecting(socket, _) = &opening {
                let watched = self.ready.add(socket, INPUT | EpollFlags::EPOLLOUT, carrier as u64);
                watched.map_err(|e| connection_failure("cannot watch a connection", &e))?;
            }
            Ok(opening)
        });
        match begun {
            Ok(Opening::Connecting(socket, dialogue)) => {
                let it = &mut self.carriers[carrier];
                (it.socket, it.dialogue) = (Some(socket), dialogue);
                self.links[first].state = State::Connecting;
                self.set_timer(first, now_ns + to_ns(CONNECT_TIMEOUT));
            }
            Ok(Opening::Aside) => match self.opener.open(carrier, self.connection_of(carrier)) {
                Ok(()) => self.links[first].state = State::Opening,
                Err(e) => self.on_unconnected(carrier, &connection_failure("cannot open connections", &e)),
            },
            Err(failure) => self.on_unconnected(carrier, &failure),
        }
    }

    /// Takes over connections from the opener.
    pub(super) fn take_opened(&mut self) {
        while let Some((carrier, opened)) = self.opener.next_opened() {
            let watched = opened.and_then(|(socket, dialogue)| {
                let registered = socket
                    .set_nonblocking(true)
                    .and_then(|()| self.ready.add(&socket, INPUT, carrier as u64));
                registered.map_err(|e| connection_failure("cannot watch a connection", &e))?;
                Ok((socket, dialogue))
            });
            match watched {
                Ok((socket, dialogue)) => {
                    let it = &mut self.carriers[carrier];
                    (it.socket, it.dialogue) = (Some(socket), dialogue);
                    self.on_greeted(carrier);
                }
                Err(failure) => self.on_unconnected(carrier, &failure),
            }
        }
    }

    fn on_connected(&mut self, carrier: usize) {
        let it = &mut self.carriers[carrier];
        let Some(socket) = &it.socket else { return };
        match socket.take_error() {
            Ok(None) => {}
            Ok(Some(e)) | Err(e) => {
                let failure = self.multiplex(carrier).cannot_connect(&e);
                return self.on_unconnected(carrier, &failure);
            }
        }
        self.out.clear();
        it.dialogue.greet(&mut self.out);
        self.watch(carrier, INPUT);
        if self.out.is_empty() {
            // The kernel has accepted the connection; only the first answer proves that the server is there.
            return self.on_made(carrier);
        }
        let first = self.first_of(carrier);
        self.links[first].state = State::Greeting;
        self.say(carrier);
    }

    fn on_greeted(&mut self, carrier: usize) {
        let now_ns = self.engine.clock.now_ns();
        let connection_slot = self.first_slot + self.first_of(carrier);
        self.engine.outages_of(connection_slot).succeeded(self.carriers[carrier].began_ns, now_ns);
        self.on_made(carrier);
    }

    fn on_made(&mut self, carrier: usize) {
        let now_ns = self.engine.clock.now_ns();
        let it = &mut self.carriers[carrier];
        it.made_ns = now_ns;
        (it.attempts, it.has_answered, it.heard) = (0, false, AnswerProgress::Nothing);
        let first = self.first_of(carrier);
        self.engine.outages_of(self.first_slot + first).made(now_ns);
        self.links[first].timer_ns = 0;
        for number in self.links_of(carrier) {
            // Processing one link may end the connection again.
            if number > first && self.carriers[carrier].socket.is_none() {
                return;
            }
            self.ledger.note_reconnected(self.first_slot + number, now_ns);
            if let Some(event) = &mut self.links[number].event {
                // The time that the event waited for this connection is wait, as on a thread.
                event.started = event.started.on_new_connection(now_ns);
                self.ledger.begun(self.first_slot + number, &event.started);
                self.try_again(number);
            } else {
                self.on_ended(number, now_ns);
            }
        }
    }

    pub(super) fn on_unconnected(&mut self, carrier: usize, failure: &Failure) {
        let now_ns = self.engine.clock.now_ns();
        let (connection_slot, began_ns) =
            (self.first_slot + self.first_of(carrier), self.carriers[carrier].began_ns);
        self.ledger.note_unconnected(connection_slot, failure, began_ns, now_ns);
        self.disconnect(carrier);
        let pause_ns = self.next_pause_ns(carrier);
        self.set_timer(self.first_of(carrier), now_ns + pause_ns);
    }
}
