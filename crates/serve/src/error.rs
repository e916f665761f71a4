//! Errors of the server and of its client.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Longest pause that a server may ask for.
const LATER_MAX_S: u64 = 60;

/// Reason that the server cannot run, or that a request to one failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address off this machine without encryption and credentials.
    #[error(
        "{listen} is reachable from other machines: add --tls-cert, --tls-key, and --token-file or --client-ca, or listen on 127.0.0.1"
    )]
    Open {
        /// The address.
        listen: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {place}")]
    Listen {
        /// Address or socket.
        place: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A certificate, key or token file cannot be used.
    #[error("{}: {why}", path.display())]
    Credential {
        /// File.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The settings of TLS do not fit together.
    #[error("the certificate and the key do not match: {why}")]
    Tls {
        /// Reason.
        why: String,
    },
    /// Another process serves this archive's queue.
    #[error("another `bakeoff serve --queue` runs the queue of {}: stop it, or leave out --queue", folder.display())]
    SecondWorker {
        /// Archive.
        folder: PathBuf,
    },
    /// The archive fails.
    #[error(transparent)]
    Archive(#[from] archive::ArchiveError),
    /// The queue fails.
    #[error(transparent)]
    Queue(#[from] archive::QueueError),
    /// The system refuses a thread or a timer.
    #[error("cannot start the server's threads")]
    Threads {
        /// Error of the system.
        source: io::Error,
    },
    /// The name of a server cannot be read.
    #[error("`{text}` is not a server: write unix:PATH, http://127.0.0.1:PORT or https://HOST:PORT")]
    NoServer {
        /// The name.
        text: String,
    },
    /// The address of a webhook cannot be read.
    #[error(
        "`{text}` is not the address of a webhook: write https://HOST/PATH or http://127.0.0.1:PORT/PATH"
    )]
    NoUrl {
        /// The address.
        text: String,
    },
    /// The server cannot be reached.
    #[error("cannot reach {server}: start `bakeoff serve --queue`, or name another with --server")]
    Unreachable {
        /// The server.
        server: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The answer to a submission was lost.
    #[error("no answer from {server}: the plan may be in the queue as {id}; see `bakeoff queue list`")]
    Unanswered {
        /// The server.
        server: String,
        /// Id of the entry.
        id: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The answer is not one of `bakeoff serve`.
    #[error("{server} answered with something else than an entry or a queue: it is not `bakeoff serve`")]
    Foreign {
        /// The server.
        server: String,
    },
    /// The server answered with an error.
    #[error("{text}")]
    Refused {
        /// Status of the answer.
        status: u16,
        /// Seconds after which the server asks for the next request, if it says so.
        retry_after_s: Option<u64>,
        /// Text of the answer.
        text: String,
    },
}

impl ServeError {
    /// Whether the command line or its input is wrong, rather than this machine.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Open { .. }
            | Self::Credential { .. }
            | Self::Tls { .. }
            | Self::NoServer { .. }
            | Self::NoUrl { .. } => true,
            Self::Refused { status, .. } => (400..500).contains(status) && self.later().is_none(),
            _ => false,
        }
    }

    /// Time after which the same request may succeed, if the server has refused it only for now: it is busy,
    /// or too many requests come from this address.
    pub fn later(&self) -> Option<Duration> {
        match self {
            Self::Refused { status: 408 | 429, retry_after_s, .. } => {
                Some(Duration::from_secs(retry_after_s.unwrap_or(0).min(LATER_MAX_S)))
            }
            _ => None,
        }
    }
}
