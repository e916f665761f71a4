//! Errors of a control socket.

use std::io;
use std::path::PathBuf;

/// Reasons for which a load cannot be controlled.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The path is not a socket; the file there is left alone.
    #[error("{} exists and is not a socket: choose another path for --control", path.display())]
    NotASocket {
        /// The path of the socket.
        path: PathBuf,
    },
    /// Another user's socket is there; nothing is sent to it.
    #[error("{} is another user's socket: choose another path for --control", path.display())]
    OfAnother {
        /// The path of the socket.
        path: PathBuf,
    },
    /// Another load listens there.
    #[error("another load listens at {}: choose another path for --control", path.display())]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The path is longer than the kernel allows for a socket.
    #[error("{} is too long for a socket path, at most 107 bytes: choose a shorter path", path.display())]
    TooLong {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("cannot listen at {}", path.display())]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
