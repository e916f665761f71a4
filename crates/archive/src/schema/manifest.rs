//! `manifest.json`: identity of a run, its numbers as a whole, and the checksums of its files.

use std::collections::{BTreeMap, BTreeSet};

use record::clock::WallAnchor;
use record::run::{Run, RunHeader, RunKind, RunState};
use record::target::Target;
use serde::{Deserialize, Serialize};

use super::command::RecordedForm;
use super::environment::Facts;
use super::limits::ThrottledForm;
use super::load::Load;
use super::profile::ProfileForm;
use super::proof::ProofForm;
use super::resources::{self, ResourceForm};
use super::server_cpu::ServerCpuForm;
use super::turns::TurnsForm;
use super::warm_up::WarmUpForm;
use super::{Form, Wrong, parsed, word};
use crate::traits::{MACHINE, Traits};

/// Form of `manifest.json`.
pub(crate) const FORM: Form = Form { tag: "bakeoff.run-manifest/1" };

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    schema: String,
    #[serde(flatten)]
    pub(crate) header: Header,
    pub(crate) environment: Facts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<Load>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) proofs: Vec<ProofForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) recorded: Option<RecordedForm>,
    #[serde(default)]
    pub(crate) throttled: Option<ThrottledForm>,
    #[serde(default, skip_serializing_if = "ServerCpuForm::is_unsaid")]
    pub(crate) server_cpu: ServerCpuForm,
    /// Other resources, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) resources: BTreeMap<String, ResourceForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warm_up: Option<WarmUpForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turns: Option<TurnsForm>,
    /// Facts of the profiles; their stacks are in files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) profiles: Vec<ProfileForm>,
    /// Requested instruments that were unavailable, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) not_observed: BTreeMap<String, String>,
    pub(crate) files: Vec<StoredFile>,
}

/// Name and origin of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    run: String,
    kind: String,
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    started: Started,
    title: String,
    labels: BTreeMap<String, String>,
    bakeoff: Option<String>,
    tool_version: String,
    command: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Started {
    unix_ns: u64,
    monotonic_ns: u64,
}

/// One file next to the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// Unpacked length of a packed file. Earlier versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unpacked_bytes: Option<u64>,
}

/// Refuses names that lead out of a run's folder, and duplicates.
pub(crate) fn check_names(files: &[StoredFile]) -> Result<(), Wrong> {
    let mut names = BTreeSet::new();
    for StoredFile { name, .. } in files {
        let is_plain = !name.is_empty()
            && !matches!(name.as_str(), "." | "..")
            && !name.contains(|c: char| c == '/' || c.is_control());
        if !is_plain {
            return Err(Wrong(format!("it lists the file {name:?}, which is not a plain file name")));
        }
        if !names.insert(name) {
            return Err(Wrong(format!("it lists the file {name:?} twice")));
        }
    }
    Ok(())
}

impl Manifest {
    /// Machine and target of the run.
    pub(crate) fn traits(&self) -> Traits {
        let target = self.load.as_ref().map(|load| Target::new(load.target()).masked().to_lowercase());
        Traits {
            machine: self.environment.known(MACHINE).map(str::to_owned),
            targets: target.into_iter().collect(),
            factors: BTreeMap::new(),
        }
    }

    pub(crate) fn of(run: &Run, files: Vec<StoredFile>) -> Self {
        let missing = &run.instruments.missing;
        let not_observed = missing.iter().map(|(name, why)| (name.clone(), why.reason.clone())).collect();
        Self {
            schema: FORM.tag.to_owned(),
            header: Header::of(&run.header),
            environment: Facts::of(&run.environment),
            load: run.load.as_ref().map(Load::of),
            proofs: run.proofs.iter().map(ProofForm::of).collect(),
            recorded: run.recorded.as_ref().map(RecordedForm::of),
            throttled: Some(ThrottledForm::of(&run.throttled)),
            server_cpu: ServerCpuForm::of(&run.server_cpu),
            resources: resources::of(&run.resources),
            warm_up: run.warm_up.as_ref().map(WarmUpForm::of),
            turns: run.turns.map(TurnsForm::of),
            profiles: run.instruments.profiles.iter().map(ProfileForm::of).collect(),
            not_observed,
            files,
        }
    }

    pub(crate) fn file(&self, name: &str) -> Option<&StoredFile> {
        self.files.iter().find(|f| f.name == name)
    }
}

impl Header {
    pub(crate) fn of(header: &RunHeader) -> Self {
        let RunHeader { id, kind, state, reason, anchor, title, labels, bakeoff, tool_version, command } =
            header;
        let WallAnchor { monotonic_ns, unix_ns } = *anchor;
        Self {
            run: id.to_string(),
            kind: kind.word().to_owned(),
            state: state.word().to_owned(),
            reason: reason.clone(),
            started: Started { unix_ns, monotonic_ns },
            title: title.clone(),
            labels: labels.clone(),
            bakeoff: bakeoff.map(|id| id.to_string()),
            tool_version: tool_version.clone(),
            command: command.clone(),
        }
    }

    pub(crate) fn read(&self) -> Result<RunHeader, Wrong> {
        Ok(RunHeader {
            id: parsed("run", &self.run)?,
            kind: word("kind", &self.kind, RunKind::from_word)?,
            state: word("state", &self.state, RunState::from_word)?,
            reason: self.reason.clone(),
            anchor: WallAnchor { monotonic_ns: self.started.monotonic_ns, unix_ns: self.started.unix_ns },
            title: self.title.clone(),
            labels: self.labels.clone(),
            bakeoff: self.bakeoff.as_deref().map(|id| parsed("bakeoff", id)).transpose()?,
            tool_version: self.tool_version.clone(),
            command: self.command.clone(),
        })
    }
}
