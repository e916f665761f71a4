//! What happens on a connection of an event loop: made, sent on, read from, lost, made again.

use std::io::{ErrorKind, Read as _, Write as _};
use std::ops::Range;

use nix::sys::epoll::EpollFlags;

use super::EventLoop;
use super::link::{AnswerProgress, State};
use super::ready::INPUT;
use crate::connection::{Failure, FailureClass};
use crate::engine::backoff::PAUSE_FIRST_NS;
use crate::engine::ledger::Carried;
use crate::net::held::{self, HeldBytes};
use crate::net::{CONNECT_TIMEOUT, Dialogue, Multiplex, Opening, closed, connection_failure, is_unread};
use crate::schedule::clock::to_ns;

/// What says that the other side is gone, though something may be left to read.
const GONE: EpollFlags = EpollFlags::EPOLLRDHUP.union(EpollFlags::EPOLLHUP).union(EpollFlags::EPOLLERR);

impl EventLoop {
    /// Numbers of a connection's links.
    pub(super) fn links_of(&self, carrier: usize) -> Range<usize> {
        carrier * self.depth..(carrier + 1) * self.depth
    }

    /// The number of a connection's first link, by which it goes where events do not matter.
    fn first_of(&self, carrier: usize) -> usize {
        carrier * self.depth
    }

    /// What a link's connection speaks, turned to the link.
    pub(super) fn dialogue(&mut self, number: usize) -> &mut dyn Dialogue {
        let link = &self.links[number];
        let dialogue = &mut *self.carriers[link.carrier].dialogue;
        if self.depth > 1 {
            dialogue.turn_to(link.lane);
        }
        dialogue
    }

    /// Sends what a link built, as far as the kernel takes it now; with several requests in flight, together with what the
    /// others build.
    pub(super) fn send(&mut self, number: usize) {
        let carrier = self.links[number].carrier;
        let sent_before = self.carriers[carrier].unsent.len();
        self.say(carrier);
        let it = &self.carriers[carrier];
        // Nothing was unsent before, and less than all is unsent now.
        let is_sent = sent_before == 0 && it.unsent.len() < self.out.len();
        if is_sent && it.socket.is_some() {
            self.links[number].is_sent = true;
        }
    }

    /// Sends what was built.
    fn say(&mut self, carrier: usize) {
        let it = &mut self.carriers[carrier];
        if it.socket.is_none() {
            return;
        }
        if self.depth > 1 {
            it.unsent.extend_from_slice(&self.out);
            if !std::mem::replace(&mut it.is_dirty, true) {
                self.dirty.push(carrier);
            }
            return;
        }
        if !it.unsent.is_empty() {
            // It goes after what went before.
            return it.unsent.extend_from_slice(&self.out);
        }
        let sent = match it.socket.as_mut().map(|socket| socket.write(&self.out)) {
            Some(Ok(sent)) => sent,
            Some(Err(e)) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return self.lose(carrier, &connection_failure("cannot send", &e));
            }
            _ => 0,
        };
        if sent < self.out.len() {
            it.unsent.extend_from_slice(&self.out[sent..]);
            it.is_blocked = true;
            self.watch(carrier, INPUT | EpollFlags::EPOLLOUT);
        }
    }

    /// Sends what links have built since the last time, all of a connection at once.
    pub(super) fn flush(&mut self) {
        while let Some(carrier) = self.dirty.pop() {
            self.carriers[carrier].is_dirty = false;
            if !self.carriers[carrier].is_blocked {
                self.send_rest(carrier);
            }
        }
    }

    /// Goes on until the kernel takes no more: that it takes more again is told once.
    fn send_rest(&mut self, carrier: usize) {
        let it = &mut self.carriers[carrier];
        let Some(socket) = &mut it.socket else { return };
        let mut sent = 0;
        let is_blocked = loop {
            if sent == it.unsent.len() {
                break false;
            }
            match socket.write(&it.unsent[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break true,
                Err(e) => return self.lose(carrier, &connection_failure("cannot send", &e)),
            }
        };
        it.unsent.drain(..sent);
        held::shrink(&mut it.unsent);
        it.unsent_held.lower(it.unsent.len());
        let was_blocked = std::mem::replace(&mut it.is_blocked, is_blocked);
        if is_blocked != was_blocked {
            self.watch(carrier, if is_blocked { INPUT | EpollFlags::EPOLLOUT } else { INPUT });
        }
        if sent > 0 {
            // Whose request it is that has left, is not known: it may be any of them.
            for number in self.links_of(carrier) {
                self.links[number].is_sent |= self.links[number].state == State::Asking;
            }
        }
    }

    fn watch(&self, carrier: usize, flags: EpollFlags) {
        if let Some(socket) = &self.carriers[carrier].socket {
            // The socket is registered; this cannot fail but for want of memory, and then nothing more comes of it.
            let _ = self.ready.change(socket, flags, carrier as u64);
        }
    }

    pub(super) fn on_ready(&mut self, carrier: usize, flags: EpollFlags) {
        let first = self.first_of(carrier);
        if self.links[first].state == State::Connecting {
            return self.on_connected(carrier);
        }
        if flags.contains(EpollFlags::EPOLLOUT) && !self.carriers[carrier].unsent.is_empty() {
            self.send_rest(carrier);
        }
        // Readiness is told once. A read that fills the room may leave something, and so may any that comes before the
        // server's end; what comes after a read that did not fill it, makes the connection ready again.
        while matches!(
            self.links[first].state,
            State::Greeting | State::Free | State::Resting | State::Asking | State::Draining | State::Pausing
        ) && self.receive(carrier) >= if flags.intersects(GONE) { 1 } else { self.input.len() }
        {}
    }

    /// Reads once, and does what follows from it; yields the bytes that were read.
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
        let asking = self.links_of(carrier).filter(|link| self.links[*link].state == State::Asking).count();
        if self.depth > 1 && asking > 0 {
            self.take_answers(carrier, bytes, asking);
        } else {
            self.take_answer(carrier, first, bytes);
        }
        self.reply(carrier);
        bytes
    }

    /// Hears what was read while at most one request is in flight.
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
        let is_answered = state == State::Asking && matches!(answer, Some(Ok(_)));
        let unasked = if is_answered { self.hear_left(carrier) } else { None };
        match (state, answer) {
            (State::Greeting, Some(Ok(_))) => self.on_greeted(carrier),
            (State::Greeting, Some(Err(failure))) => self.on_unconnected(carrier, &failure),
            (State::Greeting, None) if bytes == 0 => self.on_unconnected(carrier, &closed()),
            (State::Asking, Some(Ok(answer))) => self.on_done(number, answer),
            (State::Asking, Some(Err(failure))) => self.on_failure(number, &failure),
            (State::Free | State::Resting, _)
                if self.multiplex(carrier).closes_idle()
                    && (bytes == 0 || self.carriers[carrier].dialogue.closes()) =>
            {
                // It is not down: it will be there again when an event needs it.
                self.replace(carrier);
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

    /// Hears what came with the last answer and was not taken: it answers nothing that was asked. Yields why the connection is of
    /// no use any more.
    fn hear_left(&mut self, carrier: usize) -> Option<Failure> {
        let it = &mut self.carriers[carrier];
        if it.inbox.is_empty() && !it.dialogue.has_left() {
            return None;
        }
        let dialogue = &mut it.dialogue;
        it.inbox.hear(&[], |input| dialogue.hear_unasked(input)).and_then(Result::err)
    }

    /// Hears what was read while several requests may be in flight: any number of answers.
    fn take_answers(&mut self, carrier: usize, bytes: usize, asking: usize) {
        let mut answers = std::mem::take(&mut self.answers);
        let it = &mut self.carriers[carrier];
        let dialogue = &mut it.dialogue;
        it.inbox.hear_each(&self.input[..bytes], |input| {
            let heard = dialogue.hear(input, bytes == 0);
            let Some(answer) = heard.answer else { return (heard.taken, false) };
            // Nothing is understood after what is no answer.
            let is_lost = matches!(&answer, Err(failure) if failure.class == FailureClass::Connection);
            answers.push((dialogue.answered(), answer));
            (heard.taken, !is_lost && answers.len() < asking)
        });
        let first = self.first_of(carrier);
        let unasked = if answers.len() == asking { self.hear_left(carrier) } else { None };
        let mut is_lost = false;
        for (lane, answer) in answers.drain(..) {
            match answer {
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
        // With the last answer it may have been replaced.
        if bytes == 0 && !is_lost && self.carriers[carrier].socket.is_some() {
            self.lose(carrier, &closed());
        }
    }

    /// Says what the dialogue has to say to what it heard.
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

    /// The connection broke, and with it the try of each event that it carried.
    pub(super) fn lose(&mut self, carrier: usize, failure: &Failure) {
        let first = self.first_of(carrier);
        if matches!(self.links[first].state, State::Connecting | State::Greeting) {
            return self.on_unconnected(carrier, failure);
        }
        if self.was_idle(carrier) {
            return self.drain(first);
        }
        let at_ns = self.engine.clock.now_ns();
        let made_ns = self.carriers[carrier].made_ns;
        let mut carried = 0;
        for number in self.links_of(carrier) {
            if self.links[number].state == State::Draining {
                // The server has not begun it.
                continue;
            }
            let may_repeat = !self.links[number].is_sent || self.dialogue(number).may_repeat();
            let Some(event) = &mut self.links[number].event else { continue };
            carried += 1;
            let is_hit = std::mem::replace(&mut event.is_hit, true);
            let event = *event;
            let (taken, try_start_ns) = (event.started.taken, event.try_start_ns);
            let carried = Carried { taken, try_start_ns, is_hit };
            self.ledger.note_lost(self.first_slot + number, failure, made_ns, at_ns, Some(&carried));
            if event.tries_left == 0 || !may_repeat {
                self.links[number].event = None;
                self.busy -= 1;
                self.ledger.failed(self.first_slot + number, &event.started, at_ns, failure);
            }
        }
        if carried == 0 {
            self.ledger.note_lost(self.first_slot + first, failure, made_ns, at_ns, None);
        }
        self.replace(carrier);
    }

    /// Whether the server has closed the connection as one that is idle, before it had read the request in flight.
    fn was_idle(&mut self, carrier: usize) -> bool {
        let first = self.first_of(carrier);
        let it = &self.carriers[carrier];
        self.depth == 1
            && self.links[first].state == State::Asking
            && (it.heard == AnswerProgress::Answers && self.multiplex(carrier).closes_idle())
            && it.socket.as_ref().is_some_and(is_unread)
            && (!self.links[first].is_sent || self.dialogue(first).may_repeat())
    }

    /// The link's connection takes no more requests: it is replaced when none is in flight on it. An event in flight was not begun by the server,
    /// and is asked on the next connection, which is no retry.
    pub(super) fn drain(&mut self, number: usize) {
        let carrier = self.links[number].carrier;
        self.links[number].state = State::Draining;
        if let Some(event) = &mut self.links[number].event {
            event.is_tried = false;
        }
        if !self.links_of(carrier).any(|n| matches!(self.links[n].state, State::Asking | State::Pausing)) {
            self.replace(carrier);
        }
    }

    /// Gives up a request alone; false if its connection is of no use then.
    pub(super) fn cancel(&mut self, number: usize) -> bool {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        let is_well = self.dialogue(number).cancel(&mut out);
        self.out = out;
        if is_well && !self.out.is_empty() {
            self.say(self.links[number].carrier);
        }
        is_well
    }

    /// Drops a connection and makes another: at once, as a client does that finds its connection dead, but after a pause
    /// where it has carried no answer. What a server takes only to close it, would be made without end.
    pub(super) fn replace(&mut self, carrier: usize) {
        self.disconnect(carrier);
        let pause_ns = if self.carriers[carrier].has_answered { 0 } else { self.next_pause_ns(carrier) };
        self.set_timer(self.first_of(carrier), self.engine.clock.now_ns() + pause_ns);
    }

    /// How long to wait before the next connection is tried: each time about twice as long, until there is an answer.
    fn next_pause_ns(&mut self, carrier: usize) -> u64 {
        let half_to_three_halves = 0.5 + self.chance.unit();
        let it = &mut self.carriers[carrier];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 5 ms and 1.5 s")]
        let pause_ns = (it.pause_ns as f64 * half_to_three_halves) as u64;
        it.pause_ns = (2 * it.pause_ns).min(self.engine.pause_last_ns());
        pause_ns
    }

    /// The server has answered.
    pub(super) fn on_answer(&mut self, number: usize) {
        let it = &mut self.carriers[self.links[number].carrier];
        (it.pause_ns, it.has_answered, it.heard) = (PAUSE_FIRST_NS, true, AnswerProgress::Answers);
    }

    fn disconnect(&mut self, carrier: usize) {
        let it = &mut self.carriers[carrier];
        if let Some(socket) = it.socket.take() {
            // Closing would take it out, were this the only descriptor of it.
            self.ready.remove(&socket);
        }
        it.inbox.clear();
        it.unsent = Vec::new();
        it.unsent_held = HeldBytes::default();
        it.is_blocked = false;
        for number in self.links_of(carrier) {
            // A link's rest is over with its connection: its timer would connect once more beside the first link's.
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

    /// Takes over what was opened aside.
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
            // The kernel has taken the connection; that the server is there, its first answer will tell.
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
        let (first, is_open) = (self.first_of(carrier), self.engine.timeline().due.is_some());
        self.links[first].timer_ns = 0;
        for number in self.links_of(carrier) {
            // What one link does may end the connection again.
            if number > first && self.carriers[carrier].socket.is_none() {
                return;
            }
            if let Some(event) = &mut self.links[number].event {
                // What it waited for this connection is wait, as on a thread. In a closed loop there is none, and an event that the server had
                // not begun goes on.
                if is_open || event.is_tried {
                    event.started = event.started.on_new_connection(now_ns);
                }
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
