//! Requests and answers over a socket.
//!
//! A protocol is a [`Dialogue`]: it writes requests into a buffer and reads answers out of one, and never sees a socket.
//! So the same few lines drive it on a thread that waits for one connection ([`Talk`]) and in a loop that waits for
//! thousands ([`crate::engine::loops::event_loop`]). Sessions with SQL servers begin on a [`Wire`] and may become a dialogue.

pub(crate) mod address;
mod dialogue;
mod endpoint;
pub(crate) mod held;
mod inbox;
mod multiplex;
pub(crate) mod security;
mod socket;
mod talk;
pub(crate) mod tls;
mod wire;

pub(crate) use self::dialogue::{Dialogue, Go, Hear, Parsed, line, too_long_text};
pub(crate) use self::endpoint::Endpoint;
pub(crate) use self::inbox::Inbox;
pub(crate) use self::multiplex::{Multiplex, Opening};
pub(crate) use self::socket::{
    CONNECT_TIMEOUT, READ_BYTES, closed, connection_failure, is_unread, timed_out,
};
pub(crate) use self::talk::Talk;
pub(crate) use self::wire::{Wire, no_answer, within};
