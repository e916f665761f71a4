//! Options and folders that the commands of a fleet share.

use std::path::PathBuf;

use ::fleet::Server;

use crate::cmd::agent::{address, of_fleet, state_folder};
use crate::exit::Exit;

/// NATS server of a fleet, as its conductor reaches it.
#[derive(Debug, clap::Args)]
pub(super) struct ServerOptions {
    /// NATS server: `nats://HOST:PORT` on this machine, `tls://HOST:PORT` on another, or `{file:PATH}`
    /// [default: `$NATS_URL`; it or the file may contain a password]
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// File with the seed of the conductor's nkey
    #[arg(long, value_name = "FILE")]
    nkey: Option<PathBuf>,

    /// Certificates to trust besides the system's (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl ServerOptions {
    pub(super) fn server(&self) -> anyhow::Result<Server> {
        let url = address(self.server.as_deref())?.ok_or_else(no_server)?;
        Server::new(&url, self.nkey.as_deref(), self.ca.as_deref()).map_err(of_fleet)
    }
}

/// The error of a command line without a server.
pub(super) fn no_server() -> anyhow::Error {
    Exit::Usage.with("no NATS server: give --server URL, or set $NATS_URL")
}

/// Folder for the state of this program.
pub(super) fn state() -> anyhow::Result<PathBuf> {
    state_folder().ok_or_else(|| Exit::CannotHere.with("no folder for state: set $XDG_STATE_HOME or $HOME"))
}
