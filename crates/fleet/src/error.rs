//! Errors of a fleet, as far as a caller can tell them apart.

use std::io;
use std::path::PathBuf;

/// Reason that a fleet could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The address of the NATS server cannot be used.
    #[error("{url}: {problem}")]
    Address {
        /// The address, without a password.
        url: String,
        /// The problem, and what would do.
        problem: String,
    },
    /// The server cannot be reached, or refuses.
    #[error("cannot use the NATS server {url}: {text}")]
    Server {
        /// The address, without a password.
        url: String,
        /// The reason.
        text: String,
    },
    /// Too few agents answered.
    #[error(
        "{found} of {wanted} agents are ready{others}: start more with `bakeoff agent --server URL`, or ask \
         for fewer {fewer}"
    )]
    TooFew {
        /// Agents that can take part.
        found: usize,
        /// Agents that were asked for.
        wanted: usize,
        /// Agents that cannot take part, with the reason.
        others: String,
        /// The place where fewer can be asked for.
        fewer: &'static str,
    },
    /// The load of an agent failed, as it could on one machine.
    #[error("agent {agent}: {text}")]
    Agent {
        /// The agent's name.
        agent: String,
        /// The reason.
        text: String,
    },
    /// An agent cannot be reached, or does not take part.
    #[error("agent {agent}: {text}")]
    Absent {
        /// The agent's name.
        agent: String,
        /// The reason.
        text: String,
    },
    /// A machine cannot be reached, or does not obey.
    #[error("host {host}: {text}")]
    Host {
        /// The machine, as `ssh` knows it.
        host: String,
        /// The reason.
        text: String,
    },
    /// The settings do not suit a fleet.
    #[error("{0}")]
    Unfit(String),
    /// A stop was requested before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// A program could not be started.
    #[error("cannot start {program}: {text}")]
    Program {
        /// The program's name.
        program: String,
        /// The reason, and what to do.
        text: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
}

/// Marks an error with the file that it is about.
pub(crate) fn of_file(path: &std::path::Path) -> impl FnOnce(io::Error) -> FleetError {
    let path = path.to_owned();
    move |source| FleetError::File { path, source }
}
