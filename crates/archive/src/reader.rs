//! How a run gets out of the archive: nothing is believed whose checksum does not agree.

use std::path::Path;

use bytes::Bytes;
use record::cpu::CpuInterval;
use record::environment::Environment;
use record::proof::Proof;
use record::run::{Run, RunHeader, RunId};

use crate::error::ArchiveError;
use crate::schema::command::RecordedForm;
use crate::schema::manifest::{self, Manifest};
use crate::schema::proof::ProofForm;
use crate::schema::{Wrong, cpu};
use crate::writer::{CPU, LATENCY, MANIFEST, MANIFEST_SUM, SERIES};
use crate::{Archive, checksum, disk, hlog, series};

impl Archive {
    /// A run with everything that was measured in it.
    ///
    /// # Errors
    ///
    /// Where there is none of that name, or it cannot be read, or is not what was written.
    pub fn run(&self, id: RunId) -> Result<Run, ArchiveError> {
        let folder = self.tree.run(id);
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        let Stored { manifest, header } = read_manifest(&folder, id)?;
        let cpu = match manifest.file(CPU) {
            None => Vec::new(),
            Some(_) => read_cpu(&unpacked(&folder, &manifest, CPU)?).map_err(in_file(&folder, CPU))?,
        };
        let series = match manifest.file(SERIES) {
            None => Vec::new(),
            Some(_) => series::read_samples(&checked(&folder, &manifest, SERIES)?)
                .map_err(in_file(&folder, SERIES))?,
        };
        let slices = match manifest.load {
            None => Vec::new(),
            Some(_) => {
                hlog::read(&unpacked(&folder, &manifest, LATENCY)?).map_err(in_file(&folder, LATENCY))?
            }
        };
        let load =
            manifest.load.map(|form| form.read(slices)).transpose().map_err(in_file(&folder, MANIFEST))?;
        let proofs = manifest.proofs.into_iter().map(ProofForm::read).collect::<Result<_, _>>();
        let proofs = proofs.map_err(in_file(&folder, MANIFEST))?;
        let environment = manifest.environment.read().map_err(in_file(&folder, MANIFEST))?;
        let recorded = manifest.recorded.map(RecordedForm::read).transpose();
        let recorded = recorded.map_err(in_file(&folder, MANIFEST))?;
        Ok(Run { header, environment, load, cpu, series, proofs, recorded })
    }
}

/// A manifest that agrees with its checksum and its folder.
pub(crate) struct Stored {
    pub(crate) manifest: Manifest,
    pub(crate) header: RunHeader,
}

/// Reads and checks the manifest of the run in `folder`.
pub(crate) fn read_manifest(folder: &Path, id: RunId) -> Result<Stored, ArchiveError> {
    let bytes = disk::read(&folder.join(MANIFEST))?;
    check_sum_line(folder, MANIFEST_SUM, &bytes, MANIFEST)?;
    let stored = read_draft(folder, &bytes)?;
    if stored.header.id != id {
        let what = format!("it is the manifest of {}", stored.header.id);
        return Err(ArchiveError::damaged(&folder.join(MANIFEST), what));
    }
    Ok(stored)
}

/// The machine and the proofs of a stored run.
pub(crate) fn proofs(stored: Stored) -> Result<(Environment, Vec<Proof>), Wrong> {
    let Manifest { environment, proofs, .. } = stored.manifest;
    Ok((environment.read()?, proofs.into_iter().map(ProofForm::read).collect::<Result<_, _>>()?))
}

/// Reads a manifest that may still be a running one's, without a checksum.
pub(crate) fn read_draft(folder: &Path, bytes: &[u8]) -> Result<Stored, ArchiveError> {
    let manifest: Manifest = manifest::FORM.read(bytes, &folder.join(MANIFEST))?;
    let header = manifest.header.read().map_err(in_file(folder, MANIFEST))?;
    Ok(Stored { manifest, header })
}

/// Compares `bytes` of the file `name` with the checksum that stands beside it.
pub(crate) fn check_sum_line(
    folder: &Path,
    sum_name: &str,
    bytes: &[u8],
    name: &str,
) -> Result<(), ArchiveError> {
    let line = disk::read(&folder.join(sum_name))?;
    if line == disk::sum_line(&checksum::of(bytes), name).as_bytes() {
        return Ok(());
    }
    let what = format!("it does not agree with its checksum in {sum_name}");
    Err(ArchiveError::damaged(&folder.join(name), what))
}

/// A file of the manifest, as it was written.
pub(crate) fn checked(folder: &Path, manifest: &Manifest, name: &str) -> Result<Bytes, ArchiveError> {
    let path = folder.join(name);
    let file =
        manifest.file(name).ok_or_else(|| ArchiveError::damaged(&path, "the manifest does not name it"))?;
    let bytes = disk::read(&path)?;
    if checksum::of(&bytes) != file.sha256 {
        return Err(ArchiveError::damaged(&path, "it does not agree with its checksum in the manifest"));
    }
    Ok(bytes.into())
}

pub(crate) fn unpacked(folder: &Path, manifest: &Manifest, name: &str) -> Result<Vec<u8>, ArchiveError> {
    let bytes = checked(folder, manifest, name)?;
    disk::unpack(&bytes).map_err(|e| ArchiveError::damaged(&folder.join(name), e.to_string()))
}

/// A value of the file `name` that its form does not allow.
pub(crate) fn in_file(folder: &Path, name: &str) -> impl FnOnce(Wrong) -> ArchiveError {
    let path = folder.join(name);
    move |Wrong(what)| ArchiveError::Damaged { path, what }
}

fn read_cpu(lines: &[u8]) -> Result<Vec<CpuInterval>, Wrong> {
    let lines = serde_json::Deserializer::from_slice(lines).into_iter::<cpu::Interval>();
    lines.map(|line| line.map_err(|e| Wrong(e.to_string()))?.read()).collect()
}
