//! Why a load cannot be controlled.

use std::io;
use std::path::PathBuf;

/// Why nobody can talk to a load.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Something is there that is no socket, and is left alone.
    #[error("{} is there and is no socket: choose another path for --control", path.display())]
    NotASocket {
        /// Where.
        path: PathBuf,
    },
    /// Another user's socket is there: nothing is said to it.
    #[error("{} is another user's socket: choose another path for --control", path.display())]
    OfAnother {
        /// Where.
        path: PathBuf,
    },
    /// Another load listens there.
    #[error("another load listens at {}: choose another path for --control", path.display())]
    InUse {
        /// Where.
        path: PathBuf,
    },
    /// The kernel takes no path of this length for a socket.
    #[error("{} is too long for a socket, which may have 107 bytes: choose a shorter path", path.display())]
    TooLong {
        /// Where.
        path: PathBuf,
    },
    /// The kernel's.
    #[error("cannot listen at {}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
