//! What happens on a connection of an event loop: made, sent on, read from, lost, made again.

use std::io::{ErrorKind, Read as _, Write as _};

use nix::sys::epoll::EpollFlags;

use super::EventLoop;
use super::link::State;
use crate::driver::Failure;
use crate::driver::net::{CONNECT_TIMEOUT, Multiplex, Opening, closed, connection_failure};
use crate::engine::to_ns;
use crate::ledger::Carried;
use crate::worker::PAUSE_FIRST_NS;

/// What every connection is watched for: something to read, or the server's end.
pub(super) const INPUT: EpollFlags = EpollFlags::EPOLLIN.union(EpollFlags::EPOLLRDHUP);
/// What says that the other side is gone, though something may be left to read.
const GONE: EpollFlags = EpollFlags::EPOLLRDHUP.union(EpollFlags::EPOLLHUP).union(EpollFlags::EPOLLERR);

impl EventLoop {
    /// Sends what was built, as far as the kernel takes it now.
    pub(super) fn send(&mut self, number: usize) {
        let link = &mut self.links[number];
        let Some(socket) = &mut link.socket else { return };
        if !link.unsent.is_empty() {
            // It goes after what went before.
            return link.unsent.extend_from_slice(&self.out);
        }
        let sent = match socket.write(&self.out) {
            Ok(sent) => sent,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(e) => return self.lose(number, &connection_failure("cannot send", &e)),
        };
        link.is_sent |= sent > 0;
        if sent < self.out.len() {
            link.unsent.extend_from_slice(&self.out[sent..]);
            self.watch(number, INPUT | EpollFlags::EPOLLOUT);
        }
    }

    /// Goes on until the kernel takes no more: that it takes more again is told once.
    fn send_rest(&mut self, number: usize) {
        let link = &mut self.links[number];
        let Some(socket) = &mut link.socket else { return };
        while !link.unsent.is_empty() {
            match socket.write(&link.unsent) {
                Ok(sent) => {
                    link.is_sent = true;
                    link.unsent.drain(..sent);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) => return self.lose(number, &connection_failure("cannot send", &e)),
            }
        }
        self.watch(number, INPUT);
    }

    fn watch(&self, number: usize, flags: EpollFlags) {
        if let Some(socket) = &self.links[number].socket {
            // The socket is registered; this cannot fail but for want of memory, and then nothing more comes of it.
            let _ = self.ready.change(socket, flags, number as u64);
        }
    }

    pub(super) fn on_ready(&mut self, number: usize, flags: EpollFlags) {
        if self.links[number].state == State::Connecting {
            return self.on_connected(number);
        }
        if flags.contains(EpollFlags::EPOLLOUT) && !self.links[number].unsent.is_empty() {
            self.send_rest(number);
        }
        // Readiness is told once. A read that fills the room may leave something, and so may any that comes before the
        // server's end; what comes after a read that did not fill it, makes the connection ready again.
        while matches!(
            self.links[number].state,
            State::Greeting | State::Free | State::Resting | State::Asking | State::Pausing
        ) && self.receive(number) >= if flags.intersects(GONE) { 1 } else { self.input.len() }
        {}
    }

    /// Reads once, and does what follows from it; yields the bytes that were read.
    fn receive(&mut self, number: usize) -> usize {
        let link = &mut self.links[number];
        let Some(socket) = &mut link.socket else { return 0 };
        let bytes = loop {
            match socket.read(&mut self.input) {
                Ok(bytes) => break bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return 0,
                Err(e) => {
                    self.lose(number, &connection_failure("cannot receive", &e));
                    return 0;
                }
            }
        };
        let (dialogue, state) = (&mut link.dialogue, link.state);
        let answer = link.inbox.hear(&self.input[..bytes], |input| match state {
            State::Greeting => dialogue.hear_greeting(input),
            State::Free | State::Resting | State::Pausing => dialogue.hear_unasked(input),
            _ => dialogue.hear(input, bytes == 0),
        });
        match (state, answer) {
            (State::Greeting, Some(Ok(_))) => self.on_greeted(number),
            (State::Greeting, Some(Err(failure))) => self.on_unconnected(number, &failure),
            (State::Greeting, None) if bytes == 0 => self.on_unconnected(number, &closed()),
            (State::Asking, Some(Ok(answer))) => self.on_done(number, answer),
            (State::Asking, Some(Err(failure))) => self.on_failure(number, &failure),
            (State::Free | State::Resting, _)
                if self.multiplex().closes_idle() && (bytes == 0 || self.links[number].dialogue.closes()) =>
            {
                // It is not down: it will be there again when an event needs it.
                self.replace(number);
            }
            (_, None) if bytes == 0 => self.lose(number, &closed()),
            (State::Asking, None) => self.going.push(number),
            (State::Free | State::Resting | State::Pausing, Some(Err(failure))) => {
                self.lose(number, &failure);
            }
            _ => {}
        }
        self.reply(number);
        bytes
    }

    /// Says what the dialogue has to say to what it heard.
    fn reply(&mut self, number: usize) {
        if matches!(self.links[number].state, State::Down | State::Opening | State::Connecting) {
            return;
        }
        self.out.clear();
        self.links[number].dialogue.reply(&mut self.out);
        if !self.out.is_empty() {
            self.send(number);
        }
    }

    fn multiplex(&self) -> &dyn Multiplex {
        self.engine.driver.multiplex().expect("only such targets come here")
    }

    /// The connection broke.
    pub(super) fn lose(&mut self, number: usize, failure: &Failure) {
        if matches!(self.links[number].state, State::Connecting | State::Greeting) {
            return self.on_unconnected(number, failure);
        }
        let at_ns = self.engine.clock.now_ns();
        let link = &mut self.links[number];
        let (made_ns, may_repeat) = (link.made_ns, !link.is_sent || link.dialogue.may_repeat());
        match &mut link.event {
            Some(event) => {
                let is_hit = std::mem::replace(&mut event.is_hit, true);
                let event = *event;
                let (taken, try_start_ns) = (event.started.taken, event.try_start_ns);
                let carried = Carried { taken, try_start_ns, is_hit };
                self.ledger.note_lost(failure, made_ns, at_ns, Some(&carried));
                if event.tries_left == 0 || !may_repeat {
                    self.links[number].event = None;
                    self.busy -= 1;
                    self.ledger.failed(self.first_hand + number, &event.started, at_ns, failure);
                }
            }
            None => self.ledger.note_lost(failure, made_ns, at_ns, None),
        }
        self.replace(number);
    }

    /// Drops a connection and makes another: at once, as a client does that finds its connection dead, but after a pause
    /// where it has carried no answer. What a server takes only to close it, would be made without end.
    pub(super) fn replace(&mut self, number: usize) {
        self.disconnect(number);
        let pause_ns = if self.links[number].has_answered { 0 } else { self.next_pause_ns(number) };
        self.set_timer(number, self.engine.clock.now_ns() + pause_ns);
    }

    /// How long to wait before the next connection is tried: each time about twice as long, until there is an answer.
    fn next_pause_ns(&mut self, number: usize) -> u64 {
        let half_to_three_halves = 0.5 + self.chance.unit();
        let link = &mut self.links[number];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 5 ms and 1.5 s")]
        let pause_ns = (link.pause_ns as f64 * half_to_three_halves) as u64;
        link.pause_ns = (2 * link.pause_ns).min(self.engine.pause_last_ns());
        pause_ns
    }

    /// The server has answered.
    pub(super) fn on_answer(&mut self, number: usize) {
        let link = &mut self.links[number];
        (link.pause_ns, link.has_answered) = (PAUSE_FIRST_NS, true);
    }

    pub(super) fn disconnect(&mut self, number: usize) {
        let link = &mut self.links[number];
        if let Some(socket) = link.socket.take() {
            // Closing would take it out, were this the only descriptor of it.
            self.ready.remove(&socket);
        }
        link.inbox.clear();
        link.unsent.clear();
        link.state = State::Down;
    }

    pub(super) fn connect(&mut self, number: usize) {
        let now_ns = self.engine.clock.now_ns();
        let attempts = self.links[number].attempts;
        self.links[number].began_ns = now_ns;
        self.links[number].attempts += 1;
        let begun = self.multiplex().begin_open(attempts).and_then(|opening| {
            if let Opening::Connecting(socket, _) = &opening {
                self.ready.add(socket, INPUT | EpollFlags::EPOLLOUT, number as u64)?;
            }
            Ok(opening)
        });
        match begun {
            Ok(Opening::Connecting(socket, dialogue)) => {
                let link = &mut self.links[number];
                (link.socket, link.dialogue, link.state) = (Some(socket), dialogue, State::Connecting);
                self.set_timer(number, now_ns + to_ns(CONNECT_TIMEOUT));
            }
            Ok(Opening::Aside) => match self.opener.open(number) {
                Ok(()) => self.links[number].state = State::Opening,
                Err(e) => self.on_unconnected(number, &connection_failure("cannot open connections", &e)),
            },
            Err(e) => self.on_unconnected(number, &connection_failure("cannot connect", &e)),
        }
    }

    /// Takes over what was opened aside.
    pub(super) fn take_opened(&mut self) {
        while let Some((number, opened)) = self.opener.next_opened() {
            let watched = opened.and_then(|(socket, dialogue)| {
                let registered =
                    socket.set_nonblocking(true).and_then(|()| self.ready.add(&socket, INPUT, number as u64));
                registered.map_err(|e| connection_failure("cannot watch a connection", &e))?;
                Ok((socket, dialogue))
            });
            match watched {
                Ok((socket, dialogue)) => {
                    let link = &mut self.links[number];
                    (link.socket, link.dialogue) = (Some(socket), dialogue);
                    self.on_greeted(number);
                }
                Err(failure) => self.on_unconnected(number, &failure),
            }
        }
    }

    fn on_connected(&mut self, number: usize) {
        let link = &mut self.links[number];
        let Some(socket) = &link.socket else { return };
        match socket.take_error() {
            Ok(None) => {}
            Ok(Some(e)) | Err(e) => {
                return self.on_unconnected(number, &connection_failure("cannot connect", &e));
            }
        }
        self.out.clear();
        link.dialogue.greet(&mut self.out);
        self.watch(number, INPUT);
        if self.out.is_empty() {
            // The kernel has taken the connection; that the server is there, its first answer will tell.
            return self.on_made(number);
        }
        self.links[number].state = State::Greeting;
        self.send(number);
    }

    fn on_greeted(&mut self, number: usize) {
        let now_ns = self.engine.clock.now_ns();
        self.engine.outages.succeeded(self.links[number].began_ns, now_ns);
        self.on_made(number);
    }

    fn on_made(&mut self, number: usize) {
        let now_ns = self.engine.clock.now_ns();
        let link = &mut self.links[number];
        link.made_ns = now_ns;
        (link.attempts, link.timer_ns, link.has_answered) = (0, 0, false);
        if let Some(event) = &mut link.event {
            // What it waited for this connection is wait, as on a thread.
            event.started = event.started.on_new_connection(now_ns);
            self.ledger.begun(self.first_hand + number, &event.started);
            return self.try_again(number);
        }
        self.on_ended(number, now_ns);
    }

    pub(super) fn on_unconnected(&mut self, number: usize, failure: &Failure) {
        let now_ns = self.engine.clock.now_ns();
        self.ledger.note_unconnected(failure, self.links[number].began_ns, now_ns);
        self.disconnect(number);
        let pause_ns = self.next_pause_ns(number);
        self.set_timer(number, now_ns + pause_ns);
    }
}
