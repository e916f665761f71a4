//! Requests and answers over a socket.
//!
//! A protocol is a [`Dialogue`]: it writes requests to a buffer, reads answers from one, and never uses a
//! socket. So the same code runs on a thread with one connection ([`Talk`]) and in a loop with thousands
//! ([`crate::engine::loops::event_loop`]). Sessions with SQL servers begin on a [`Wire`] and may become a
//! dialogue.

pub(crate) mod address;
mod dialogue;
mod endpoint;
pub(crate) mod held;
mod inbox;
mod multiplex;
mod promptness;
pub(crate) mod security;
mod socket;
mod talk;
pub(crate) mod tls;
mod wire;
pub(crate) mod writers;

pub(crate) use self::dialogue::{Dialogue, Go, Hear, Parsed, judge_early, line, too_long_text, unrequested};
pub(crate) use self::endpoint::Endpoint;
pub(crate) use self::inbox::Inbox;
pub(crate) use self::multiplex::{Multiplex, Opening};
pub(crate) use self::socket::{
    CONNECT_TIMEOUT, READ_BYTES, SEND_BYTES, closed, connection_failure, has_input, is_unread, timed_out,
};
pub(crate) use self::talk::Talk;
pub(crate) use self::wire::{Wire, no_answer, within};
