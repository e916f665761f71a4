//! The timers of an event loop: reconnections, think times, pauses, and events that take too long.

use std::cmp::Reverse;

use super::link::State;
use super::{Approach, EventLoop};
use crate::connection::{Failure, FailureClass};
use crate::net::{CONNECT_TIMEOUT, timed_out};

impl EventLoop {
    /// Learns from a sleep that was to end at `deadline_ns`, unless an answer ended it before. The later a
    /// wake-up, the likelier that an answer came as well: without those, late wake-ups would be missing.
    pub(super) fn note_wake_up(&mut self, deadline_ns: u64) {
        let now_ns = self.engine.clock.now_ns();
        if now_ns >= deadline_ns {
            self.engine.lead.learn(deadline_ns, now_ns);
            self.approach = Approach::Slept;
        }
    }

    pub(super) fn fire_timers(&mut self, now_ns: u64, is_over: bool) {
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
                // After the end, only an event in flight needs a new connection.
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

    /// Whether an event waits for the connection or is in flight on it.
    fn has_event(&self, carrier: usize) -> bool {
        self.links_of(carrier).any(|number| self.links[number].event.is_some())
    }

    /// Gives up events that exceed the timeout.
    pub(super) fn give_up(&mut self, now_ns: u64) {
        while let Some(Reverse((at_ns, number))) = self.give_ups.peek().copied() {
            if at_ns > now_ns {
                return;
            }
            self.give_ups.pop();
            let link = &mut self.links[number];
            if link.state != State::Asking {
                link.is_watched = false;
            } else if link.gives_up_ns > now_ns {
                // That deadline was of an earlier event.
                self.give_ups.push(Reverse((link.gives_up_ns, number)));
            } else {
                link.is_watched = false;
                let timeout_ns = self.timeout_ns.unwrap_or_default();
                let failure = timed_out(timeout_ns, self.dialogue(number));
                self.on_failure(number, &failure);
            }
        }
    }

    pub(super) fn set_timer(&mut self, number: usize, at_ns: u64) {
        self.links[number].timer_ns = at_ns;
        self.timers.push(Reverse((at_ns, number)));
    }
}
