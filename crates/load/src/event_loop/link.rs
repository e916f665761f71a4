//! One connection of an event loop, and the event in its hand.

use socket2::Socket;

use super::EVER_NS;
use crate::driver::net::{Dialogue, Inbox};
use crate::ledger::Started;
use crate::worker::PAUSE_FIRST_NS;

/// One connection.
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub(super) struct Link {
    pub(super) dialogue: Box<dyn Dialogue>,
    pub(super) state: State,
    pub(super) socket: Option<Socket>,
    pub(super) inbox: Inbox,
    /// The part of a request that the kernel would not take yet.
    pub(super) unsent: Vec<u8>,
    /// Something of the request that was asked last has left.
    pub(super) is_sent: bool,
    pub(super) event: Option<Pending>,
    /// Since when it has been free.
    pub(super) free_ns: u64,
    /// It stands in the queue of the free, though it may have been lost since.
    pub(super) is_queued: bool,
    /// When its timer is due; timers that say otherwise are void.
    pub(super) timer_ns: u64,
    /// When its event is given up; 0 if never.
    pub(super) gives_up_ns: u64,
    /// It stands in the heap of those whose events may be given up.
    pub(super) is_watched: bool,
    /// When the making of its newest connection began, and ended.
    pub(super) began_ns: u64,
    pub(super) made_ns: u64,
    /// Connections tried since the last that was made.
    pub(super) attempts: usize,
    pub(super) pause_ns: u64,
    /// Its newest connection has carried an answer: where it dies, that says nothing of the next.
    pub(super) has_answered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It has no connection; its timer says when to try again.
    Down,
    Connecting,
    Greeting,
    /// It is opened aside.
    Opening,
    Free,
    /// Closed loop: it rests until its timer.
    Resting,
    Asking,
    /// Its event rests until its timer.
    Pausing,
}

/// An event in a link's hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) started: Started,
    pub(super) try_start_ns: u64,
    pub(super) tries_left: u32,
    /// It has been sent at least once.
    pub(super) is_tried: bool,
    /// It is counted among the events that the outage hit.
    pub(super) is_hit: bool,
}

impl Link {
    pub(super) fn new(socket: Socket, dialogue: Box<dyn Dialogue>, made_ns: u64) -> Self {
        Self {
            dialogue,
            state: State::Free,
            socket: Some(socket),
            inbox: Inbox::default(),
            unsent: Vec::new(),
            is_sent: false,
            event: None,
            free_ns: EVER_NS,
            is_queued: false,
            timer_ns: 0,
            gives_up_ns: 0,
            is_watched: false,
            began_ns: made_ns,
            made_ns,
            attempts: 0,
            pause_ns: PAUSE_FIRST_NS,
            has_answered: true,
        }
    }
}
