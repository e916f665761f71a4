//! Settings of the server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::Archive;

use crate::error::ServeError;
use crate::place::Url;
use crate::printer::Printer;

/// Files of a certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// Settings of the server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The archive.
    pub archive: Archive,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Whether plans may be submitted, and are run.
    pub queue: bool,
    /// Certificate and key; required off loopback.
    pub tls: Option<TlsFiles>,
    /// File of tokens and their roles.
    pub token_file: Option<PathBuf>,
    /// Certificates that sign those of clients.
    pub client_ca: Option<PathBuf>,
    /// Host names, besides those of loopback, under which a browser may reach the server.
    pub names: Vec<String>,
    /// Program that conducts the entries of the queue, and runs the instruments: this one.
    pub program: PathBuf,
    /// Prints pages and documents of the archive.
    pub printer: Arc<dyn Printer>,
    /// Instruments of the machine, of [`crate::INSTRUMENTS`].
    pub instruments: Vec<&'static str>,
    /// Gives up the rights that a server of this archive does not need, before it answers requests. `None`:
    /// it keeps all, as one with a queue must.
    pub confine: Option<fn(&Path)>,
    /// Server that gets a document at the end of each entry.
    pub webhook: Option<Url>,
}

impl Settings {
    /// Refuses an address that other machines reach without encryption and a credential.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        let has_credential = self.token_file.is_some() || self.client_ca.is_some();
        if self.listen.ip().is_loopback() || (self.tls.is_some() && has_credential) {
            return Ok(());
        }
        Err(ServeError::Open { listen: self.listen })
    }
}
