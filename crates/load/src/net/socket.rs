//! Queries the state of sockets, and maps errors of calls on them to failures.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use nix::libc::{IPPROTO_TCP, MSG_DONTWAIT, MSG_PEEK, TCP_INFO, getsockopt, tcp_info};
use socket2::{SockRef, Socket};

use super::dialogue::Dialogue;
use crate::connection::{Failure, FailureClass};

/// Time limit for opening a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Size of a read from a socket.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Most of a request that is sent before a look for an answer that refuses it. The kernel may take any amount
/// while the server reads.
pub(crate) const SEND_BYTES: usize = 256 * 1024;

/// Maps an error of a call on a socket to a failure.
pub(crate) fn connection_failure(doing: &str, error: &io::Error) -> Failure {
    let out_of_files = matches!(error.raw_os_error(), Some(nix::libc::EMFILE | nix::libc::ENFILE));
    if out_of_files {
        let text = format!("{doing}: {error}; raise the limit of open files (ulimit -n)");
        return Failure::new(FailureClass::Machine, text);
    }
    Failure::new(FailureClass::Connection, format!("{doing}: {error}"))
}

/// The server has closed the connection.
pub(crate) fn closed() -> Failure {
    Failure::new(FailureClass::Connection, "the server closed the connection")
}

/// Whether a socket has input, without blocking.
///
/// # Errors
///
/// The server has closed the connection, or it broke.
pub(crate) fn has_input<'s>(socket: impl Into<SockRef<'s>>) -> Result<bool, Failure> {
    let socket = socket.into();
    loop {
        let mut byte = [MaybeUninit::uninit()];
        match socket.recv_with_flags(&mut byte, MSG_PEEK | MSG_DONTWAIT) {
            Ok(0) => return Err(closed()),
            Ok(_) => return Ok(true),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(connection_failure("cannot receive", &e)),
        }
    }
}

/// Whether a server closed a connection before it read the last request.
///
/// Then its kernel has not acknowledged the request, or has answered it with a reset. A server that reads the
/// whole request and then closes in order leaves neither; a server that resets after reading (`SO_LINGER` of
/// 0) cannot be distinguished.
///
/// # Source
///
/// RFC 9293, section 3.10.7.1 (a closed connection resets what comes), section 3.6.1 (so does one closed with
/// data unread); tcp(7), `TCP_INFO`.
pub(crate) fn is_unread(socket: &Socket) -> bool {
    // The kernel reads the state before it locks the socket, and the rest after. After a reset in between, it
    // reports the old state with nothing unacknowledged; a second query reports the new state.
    looks_unread(socket) || looks_unread(socket)
}

fn looks_unread(socket: &Socket) -> bool {
    const TCP_CLOSE: u8 = 7;
    // SAFETY: the structure holds only integers, for which zero is valid.
    let mut info: tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = u32::try_from(size_of::<tcp_info>()).expect("a small structure");
    // SAFETY: the descriptor is open and owned here, and the buffer outlives the call and has the given
    // length.
    let result = unsafe {
        let into = (&raw mut info).cast();
        getsockopt(socket.as_raw_fd(), IPPROTO_TCP, TCP_INFO, into, &raw mut bytes)
    };
    // Retransmissions without an answer are a failure of the network, not an idle close.
    result == 0 && info.tcpi_retransmits == 0 && (info.tcpi_state == TCP_CLOSE || info.tcpi_unacked > 0)
}

/// Failure of an event without a complete answer within its time limit.
pub(crate) fn timed_out(after_ns: u64, dialogue: &dyn Dialogue) -> Failure {
    let text = format!("no complete answer within {:?}", Duration::from_nanos(after_ns));
    Failure { operation: dialogue.asked(), ..Failure::new(FailureClass::Timeout, text) }
}
