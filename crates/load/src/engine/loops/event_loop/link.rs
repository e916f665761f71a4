//! A connection of an event loop, and its events in flight.
//!
//! A connection ([`Carrier`]) has as many links as it may have requests in flight: one, or `--pipeline N`. A
//! link has one event in flight, with its own stamps. A connection's first link also holds the connection's
//! timer and the state of its opening.

use std::ops::Range;

use socket2::Socket;

use crate::engine::backoff::PAUSE_FIRST_NS;
use crate::engine::ledger::Started;
use crate::net::held::HeldBytes;
use crate::net::{Dialogue, Inbox};

/// `free_ns` of a connection that was free from the beginning.
pub(super) const EVER_NS: u64 = 0;

/// One connection.
pub(super) struct Carrier {
    pub(super) dialogue: Box<dyn Dialogue>,
    pub(super) socket: Option<Socket>,
    pub(super) inbox: Inbox,
    /// The part of its requests that the kernel has not taken yet, or that is sent together with others.
    pub(super) unsent: Vec<u8>,
    /// Unsent bytes of this connection, as part of the limit for all connections: a server may ask and not
    /// read the replies.
    pub(super) unsent_held: HeldBytes,
    /// Bytes to send since the connection was made, and those that the kernel has taken.
    pub(super) said: u64,
    pub(super) sent: u64,
    /// Waits for the kernel to take more.
    pub(super) is_blocked: bool,
    /// Listed among the connections with data to send.
    pub(super) is_dirty: bool,
    /// Beginning and end of the opening of its newest connection.
    pub(super) began_ns: u64,
    pub(super) made_ns: u64,
    /// Attempts since the last connection that was made.
    pub(super) attempts: usize,
    pub(super) pause_ns: u64,
    /// The newest connection has carried an answer: if it dies, the next may still work.
    pub(super) has_answered: bool,
    pub(super) heard: AnswerProgress,
}

/// Answers received on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerProgress {
    /// Nothing yet.
    Nothing,
    /// Whole answers to earlier requests, and nothing of the next one.
    Answers,
    /// Part of an answer.
    Part,
}

/// A lane of a connection: one event in flight at a time.
pub(super) struct Link {
    /// Number of its connection.
    pub(super) carrier: usize,
    /// Position among the connection's links.
    pub(super) lane: usize,
    pub(super) state: State,
    /// Bytes of the connection from the beginning of the latest try to the end of its latest request.
    pub(super) request: Range<u64>,
    pub(super) event: Option<Pending>,
    /// Time since which it has been free.
    pub(super) free_ns: u64,
    /// Listed in the queue of free links, though it may have been lost since.
    pub(super) is_queued: bool,
    /// Time at which its timer is due; timers with another time are void.
    pub(super) timer_ns: u64,
    /// Time at which its event is given up; 0 if never.
    pub(super) gives_up_ns: u64,
    /// Listed in the heap of links with an event that may be given up.
    pub(super) is_watched: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Without a connection; the timer of the connection's first link says when to try again.
    Down,
    Connecting,
    Greeting,
    /// Being opened on another thread.
    Opening,
    Free,
    /// Closed loop: think time until its timer.
    Resting,
    Asking,
    /// The connection takes no more requests, and ends with the answers to those in flight; an event in
    /// flight is sent on the next connection.
    Draining,
    /// The event rests until the timer.
    Pausing,
}

/// The event in flight on a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) started: Started,
    pub(super) try_start_ns: u64,
    pub(super) tries_left: u32,
    /// Sent at least once.
    pub(super) is_tried: bool,
    /// Counted among the events that the outage hit.
    pub(super) is_hit: bool,
}

impl Carrier {
    pub(super) fn new(socket: Socket, dialogue: Box<dyn Dialogue>, made_ns: u64) -> Self {
        Self {
            dialogue,
            socket: Some(socket),
            inbox: Inbox::default(),
            unsent: Vec::new(),
            unsent_held: HeldBytes::default(),
            said: 0,
            sent: 0,
            is_blocked: false,
            is_dirty: false,
            began_ns: made_ns,
            made_ns,
            attempts: 0,
            pause_ns: PAUSE_FIRST_NS,
            has_answered: true,
            heard: AnswerProgress::Nothing,
        }
    }
}

impl Link {
    pub(super) fn new(carrier: usize, lane: usize) -> Self {
        Self {
            carrier,
            lane,
            state: State::Free,
            request: 0..0,
            event: None,
            free_ns: EVER_NS,
            is_queued: false,
            timer_ns: 0,
            gives_up_ns: 0,
            is_watched: false,
        }
    }
}
