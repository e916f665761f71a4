//! A load as a command line means it, and one that has no command line.

use std::sync::Arc;

use archive::documents;
use record::arrivals::Arrivals;
use record::load::LoadSettings;
use record::target::Target;
use serde::{Deserialize, Serialize};

/// A load as a command line means it on this machine.
#[derive(Debug, Clone)]
pub struct Meant {
    /// Settings of the whole load.
    pub settings: LoadSettings,
    /// Due times of recorded arrivals; empty for all others.
    pub recorded: Arc<[u64]>,
}

/// Settings on their way to an agent, of a load that has no command line, such as that of a trial.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Target with its password, and headers with theirs: the form masks them.
    target: String,
    #[serde(default)]
    headers: Vec<String>,
    /// The settings, in the archive's form.
    settings: serde_json::Value,
}

impl Sent {
    /// The settings, if they arrive as they are: the archive's form masks what may be a secret.
    pub(crate) fn of(settings: &LoadSettings) -> Result<Self, String> {
        let (target, headers) = (settings.target.expose().to_owned(), settings.http.headers.clone());
        let sent = Self { target, headers, settings: documents::of_settings(settings) };
        if format!("{:?}", sent.read()?.settings) == format!("{settings:?}") {
            return Ok(sent);
        }
        Err("a fleet cannot receive this load: a command or a variable has a secret, which is not sent, or its \
             requests are recorded ones"
            .to_owned())
    }

    /// The load that the settings mean. No file is read.
    pub(crate) fn read(&self) -> Result<Meant, String> {
        let mut settings = documents::settings(self.settings.clone()).map_err(|error| error.to_string())?;
        settings.target = Target::new(self.target.clone());
        settings.http.headers.clone_from(&self.headers);
        let is_recorded =
            settings.pace.as_open().is_some_and(|open| matches!(open.arrivals, Arrivals::File(_)));
        if is_recorded || settings.http.replay.is_some() || !settings.scripts.files.is_empty() {
            return Err("a fleet cannot play recorded arrivals or scripts without a command line".to_owned());
        }
        Ok(Meant { settings, recorded: Arc::from([]) })
    }
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sent").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Sender of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A conductor with credentials.
    Conductor,
    /// Any user of this machine.
    Anyone,
}

/// Reads a command line. Of one that anyone may have sent, it opens no file that the line names.
pub type ReadWords = dyn Fn(&[String], Sender) -> Result<Meant, String> + Send + Sync;
