//! Requests of an event loop on their way to the server, and answers that arrive before them.

use std::io::{self, ErrorKind, Write as _};

use nix::sys::epoll::EpollFlags;

use super::EventLoop;
use super::link::State;
use super::ready::INPUT;
use crate::connection::{Answer, Failure};
use crate::net::{Go, SEND_BYTES, connection_failure, has_input, held, unrequested};

impl EventLoop {
    /// Performs the next step of an event with several requests.
    pub(super) fn go_on(&mut self, number: usize) {
        let (dialogue, out) = self.dialogue_and_out(number);
        match dialogue.go_on(out) {
            Go::Wait => {}
            Go::Send => {
                let carrier = self.links[number].carrier;
                // Input that arrived before the request is not its answer.
                let unasked = self.hear_left(carrier);
                let is_early = !self.is_sent(number);
                match unasked.or_else(|| is_early.then(unrequested)) {
                    None => self.send(number),
                    Some(failure) => self.lose(carrier, &failure),
                }
            }
            Go::Rest { for_ns } => {
                self.links[number].state = State::Pausing;
                self.set_timer(number, self.engine.clock.now_ns().saturating_add(for_ns));
            }
            Go::Ended(Ok(answer)) => self.on_done(number, answer),
            Go::Ended(Err(failure)) => self.on_failure(number, &failure),
        }
    }

    /// Sends the link's request as far as the kernel takes it now; with several requests in flight, `flush`
    /// sends it together with those of the other links.
    pub(super) fn send(&mut self, number: usize) {
        let carrier = self.links[number].carrier;
        self.links[number].request.end = self.carriers[carrier].said + self.out.len() as u64;
        self.say(carrier);
    }

    /// Whether bytes of the link's try have left.
    pub(super) fn has_begun(&self, number: usize) -> bool {
        let link = &self.links[number];
        self.carriers[link.carrier].sent > link.request.start
    }

    /// Whether the link's request has left as a whole.
    fn is_sent(&self, number: usize) -> bool {
        let link = &self.links[number];
        link.request.is_empty() || self.carriers[link.carrier].sent >= link.request.end
    }

    /// The answer, or a failure if it came before its request was sent.
    pub(super) fn in_time(
        &mut self,
        number: usize,
        answer: Result<Answer, Failure>,
    ) -> Result<Answer, Failure> {
        if self.is_sent(number) {
            return answer;
        }
        let has_begun = self.has_begun(number);
        self.dialogue(number).judge_early(has_begun, answer)
    }

    /// Sends the contents of `out`.
    pub(super) fn say(&mut self, carrier: usize) {
        let it = &mut self.carriers[carrier];
        if it.socket.is_none() {
            return;
        }
        it.said += self.out.len() as u64;
        if self.depth > 1 {
            it.unsent.extend_from_slice(&self.out);
            if !std::mem::replace(&mut it.is_dirty, true) {
                self.dirty.push(carrier);
            }
            return;
        }
        if !it.unsent.is_empty() {
            // Sent later: bytes must keep their order.
            return it.unsent.extend_from_slice(&self.out);
        }
        let first = &self.out[..self.out.len().min(SEND_BYTES)];
        let sent = match it.socket.as_mut().map(|socket| socket.write(first)) {
            Some(Ok(sent)) => sent,
            Some(Err(e)) if !self.may_wait(carrier, &e) => {
                return self.lose(carrier, &connection_failure("cannot send", &e));
            }
            _ => 0,
        };
        let it = &mut self.carriers[carrier];
        it.sent += sent as u64;
        if sent < self.out.len() {
            it.unsent.extend_from_slice(&self.out[sent..]);
            it.is_blocked = true;
            self.watch(carrier, INPUT | EpollFlags::EPOLLOUT);
        }
    }

    /// Sends what links have built since the last flush, with one write for each connection.
    pub(super) fn flush(&mut self) {
        while let Some(carrier) = self.dirty.pop() {
            self.carriers[carrier].is_dirty = false;
            if !self.carriers[carrier].is_blocked {
                self.send_rest(carrier);
            }
        }
    }

    /// Writes until the kernel takes no more, or until there is input: edge-triggered readiness is reported
    /// only after that. Input calls [`Self::on_ready`], which comes here again.
    pub(super) fn send_rest(&mut self, carrier: usize) {
        let it = &mut self.carriers[carrier];
        let Some(socket) = &mut it.socket else { return };
        let mut sent = 0;
        let error = loop {
            if sent == it.unsent.len() {
                break None;
            }
            if sent > 0 && has_input(&*socket).is_ok_and(|has| has) {
                break Some(ErrorKind::WouldBlock.into());
            }
            let end = it.unsent.len().min(sent + SEND_BYTES);
            match socket.write(&it.unsent[sent..end]) {
                Ok(bytes) => sent += bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => break Some(e),
            }
        };
        it.sent += sent as u64;
        it.unsent.drain(..sent);
        held::shrink(&mut it.unsent);
        it.unsent_held.lower(it.unsent.len());
        let is_blocked = error.is_some();
        let was_blocked = std::mem::replace(&mut it.is_blocked, is_blocked);
        if let Some(e) = error.filter(|e| !self.may_wait(carrier, e)) {
            return self.lose(carrier, &connection_failure("cannot send", &e));
        }
        if is_blocked != was_blocked {
            self.watch(carrier, if is_blocked { INPUT | EpollFlags::EPOLLOUT } else { INPUT });
        }
    }

    /// Whether to wait after an error of a write: the kernel is busy, or there is input. A server that
    /// refuses a request may send its reason and close.
    fn may_wait(&self, carrier: usize, error: &io::Error) -> bool {
        let has_reason = || {
            self.carriers[carrier]
                .socket
                .as_ref()
                .is_some_and(|socket| has_input(socket).is_ok_and(|has| has))
        };
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) || has_reason()
    }
}
