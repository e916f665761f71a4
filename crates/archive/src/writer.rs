//! Writing of a run: under a temporary name, complete, checked, then renamed.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use record::environment::Environment;
use record::instruments::{Instruments, Observed};
use record::profile::Profile;
use record::run::{Run, RunHeader, RunId};

use crate::error::ArchiveError;
use crate::intervals::{self, StoredInterval, Visit};
use crate::schema::manifest::{Manifest, StoredFile};
use crate::schema::profile::{self, StackForm};
use crate::schema::{DOCUMENT_BYTES_MAX, document};
use crate::{Archive, Spool, checksum, disk, hlog, lock, masking, series, written};

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const MANIFEST_SUM: &str = "manifest.sha256";
pub(crate) const LATENCY: &str = "latency.hlog.zst";
pub(crate) const HISTOGRAMS: &str = "hist.parquet";
pub(crate) const SERIES: &str = "series.parquet";

/// A run that is being written to the archive.
///
/// Dropping it without [`RunWriter::seal`] removes the run. While it lives, other processes list the run as
/// running.
#[derive(Debug)]
#[must_use = "a run that is not sealed leaves nothing"]
pub struct RunWriter {
    archive: Archive,
    id: RunId,
    folder: PathBuf,
    /// Locked from the beginning: the lock shows that the writer lives.
    manifest: File,
    files: Vec<StoredFile>,
    sealed: bool,
}

impl Archive {
    /// Begins a run: claims its name and its place on disk, before the measurement.
    ///
    /// # Errors
    ///
    /// The archive cannot be written, is full, or has a run of that name.
    pub fn begin(&self, header: &RunHeader) -> Result<RunWriter, ArchiveError> {
        let id = header.id;
        let folder = self.tree.run(id);
        let partial = disk::partial(&folder);
        // Until the new folder is locked, no other process may treat it as left behind.
        let _still = self.tree.keep_still()?;
        if folder.exists() || self.tree.bakeoff(id).exists() {
            return Err(ArchiveError::Exists { id });
        }
        disk::make_new_folder(&partial).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => ArchiveError::Busy { id },
            _ => ArchiveError::writing(&partial)(e),
        })?;
        let path = partial.join(MANIFEST);
        let opened = disk::new_file().open(&path);
        let manifest = match opened {
            Ok(manifest) => manifest,
            Err(e) => {
                let _ = fs::remove_dir_all(&partial);
                return Err(ArchiveError::writing(&path)(e));
            }
        };
        // From here on, any failure drops the writer, which removes the folder.
        let archive = self.clone();
        let mut writer =
            RunWriter { archive, id, folder: partial, manifest, files: Vec::new(), sealed: false };
        let taken = lock::take(&writer.manifest).map_err(ArchiveError::writing(&path))?;
        assert!(taken, "a file that was just made is nobody else's");
        let draft = Run::unmeasured(header.clone().still_running(), Environment::default());
        writer.write_manifest(&draft)?;
        Ok(writer)
    }
}

impl RunWriter {
    /// Name of the run.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Stores a file with the run, compressed: `server.log` becomes `server.log.zst`, with passwords masked.
    ///
    /// # Errors
    ///
    /// `source` cannot be read or the archive cannot be written.
    pub fn add_file(&mut self, name: &str, source: &mut dyn Read) -> Result<(), ArchiveError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        assert!(name.bytes().all(plain) && !name.starts_with('.'), "a plain file name: {name}");
        let packed = format!("{name}.zst");
        assert!(
            packed != LATENCY
                && !intervals::is_file_of_intervals(&packed)
                && !profile::is_file_of_stacks(&packed),
            "{packed} is the archive's own"
        );
        let mut unreadable = None;
        let stored = disk::store_packed(&self.folder, &packed, |out| {
            let mut source = BufReader::new(&mut *source);
            loop {
                match masking::next_line(&mut source) {
                    Ok(None) => return Ok(()),
                    Ok(Some(line)) => out.write_all(&line)?,
                    Err(e) => {
                        unreadable = Some(e);
                        return Err(io::ErrorKind::Other.into());
                    }
                }
            }
        });
        if let Some(source) = unreadable {
            return Err(ArchiveError::Unreadable { path: PathBuf::from(name), source });
        }
        self.files.push(stored?);
        Ok(())
    }

    /// Writes everything, syncs it, and renames it; returns the run's folder.
    ///
    /// The target is stored with its password masked, as is every URL in the run's texts.
    ///
    /// # Errors
    ///
    /// The archive cannot be written, or is full, or the run's description is too long to be read again; then
    /// nothing of the run is left.
    pub fn seal(self, run: &Run) -> Result<PathBuf, ArchiveError> {
        self.seal_with(run, &Spool::temporary())
    }

    /// Variant of [`Self::seal`]; the intervals in `spool` come before those in `run`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::seal`], and that of an incomplete spool.
    pub fn seal_with(mut self, run: &Run, spool: &Spool) -> Result<PathBuf, ArchiveError> {
        assert_eq!(run.header.id, self.id, "a writer seals the run it was begun for");
        spool.check()?;
        self.store_data(run, spool)?;
        self.files.sort_by(|a, b| a.name.cmp(&b.name));
        let sum = self.write_manifest(run)?;
        disk::store(&self.folder, MANIFEST_SUM, disk::sum_line(&sum, MANIFEST).as_bytes())?;
        let folder = self.archive.tree.run(self.id);
        disk::publish(&self.folder, &folder)?;
        self.sealed = true;
        written::note(self.id);
        self.archive.refresh_index();
        Ok(folder)
    }

    /// Creates a spool for complete intervals of the run, on the archive's disk.
    pub fn spool(&self) -> Spool {
        Spool::within(self.folder.clone())
    }

    /// Discards the run; nothing of it is left.
    pub fn discard(self) {
        drop(self);
    }

    fn store_data(&mut self, run: &Run, spool: &Spool) -> Result<(), ArchiveError> {
        let host = series::host(&run.environment);
        if let Some(load) = &run.load {
            let log = |out: &mut dyn io::Write| hlog::write(load, spool, run.header.anchor, out);
            self.files.push(disk::store_packed(&self.folder, LATENCY, log)?);
            let rows = |out| series::histograms(hlog::all_slices(load, spool), host, out);
            self.files.push(disk::store_with(&self.folder, HISTOGRAMS, rows)?);
        }
        self.store_intervals(spool, &run.cpu)?;
        intervals::visit_all(&mut Storing { writer: self, spool, seen: &run.instruments })?;
        run.instruments.profiles.iter().try_for_each(|taken| self.store_stacks(&taken.profile))?;
        let mut samples = spool.samples().chain(run.series.iter().cloned().map(Ok)).peekable();
        if samples.peek().is_some() {
            self.files.push(disk::store_with(&self.folder, SERIES, |out| series::samples(samples, out))?);
        }
        Ok(())
    }

    /// Writes one interval per line, those of `spool` first; writes no file without intervals.
    fn store_intervals<T: StoredInterval>(&mut self, spool: &Spool, more: &[T]) -> Result<(), ArchiveError> {
        let mut spooled = spool.lines::<T>();
        let is_empty = spooled.fill_buf().map_err(ArchiveError::reading(&self.folder))?.is_empty();
        if is_empty && more.is_empty() {
            return Ok(());
        }
        let lines = |out: &mut dyn io::Write| {
            io::copy(&mut spooled, out)?;
            more.iter().try_for_each(|interval| {
                serde_json::to_writer(&mut *out, &interval.form())?;
                out.write_all(b"\n")
            })
        };
        self.files.push(disk::store_packed(&self.folder, T::FILE, lines)?);
        Ok(())
    }

    /// Writes one stack per line; writes no file without stacks.
    fn store_stacks(&mut self, profile: &Profile) -> Result<(), ArchiveError> {
        if profile.stacks.is_empty() {
            return Ok(());
        }
        let lines = |out: &mut dyn io::Write| {
            profile.stacks.iter().try_for_each(|stack| {
                serde_json::to_writer(&mut *out, &StackForm::of(stack))?;
                out.write_all(b"\n")
            })
        };
        self.files.push(disk::store_packed(&self.folder, &profile::file_of(profile.kind), lines)?);
        Ok(())
    }

    /// Replaces the manifest's content; returns its checksum.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or is longer than the limit of the reader.
    fn write_manifest(&mut self, run: &Run) -> Result<String, ArchiveError> {
        let manifest = Manifest::of(run, self.files.clone());
        let text = masking::mask(document(&manifest), run.load.as_ref().map(|l| &l.settings.target));
        if text.len() > DOCUMENT_BYTES_MAX {
            let (id, bytes) = (self.id, text.len());
            return Err(ArchiveError::LongDocument {
                id,
                what: MANIFEST,
                bytes,
                bytes_max: DOCUMENT_BYTES_MAX,
            });
        }
        self.replace_manifest(&text).map_err(ArchiveError::writing(&self.folder.join(MANIFEST)))?;
        Ok(checksum::of(&text))
    }

    fn replace_manifest(&mut self, text: &[u8]) -> io::Result<()> {
        self.manifest.set_len(0)?;
        self.manifest.rewind()?;
        self.manifest.write_all(text)?;
        self.manifest.sync_all()
    }
}

/// Stores the intervals of every instrument.
struct Storing<'a> {
    writer: &'a mut RunWriter,
    spool: &'a Spool,
    seen: &'a Instruments,
}

impl Visit for Storing<'_> {
    type Error = ArchiveError;

    fn visit<T: StoredInterval + Observed>(&mut self) -> Result<(), ArchiveError> {
        self.writer.store_intervals(self.spool, T::of(self.seen))
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        if !self.sealed {
            remove_quietly(&self.folder);
        }
    }
}

/// Removes a folder that no reader knows. If that fails, the next process that opens the archive does it.
fn remove_quietly(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}

#[cfg(test)]
mod tests {
    use record::clock::WallAnchor;
    use record::missing::Missing;
    use record::run::RunKind;

    use super::*;

    #[test]
    fn a_run_that_could_not_be_read_again_is_not_stored() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::open(&dir.path().join("archive")).unwrap();
        let begun = RunHeader::running(RunKind::Load, WallAnchor::now(), "long".into(), String::new());
        let id = begun.id;
        for (bytes, is_stored) in [(DOCUMENT_BYTES_MAX, false), (DOCUMENT_BYTES_MAX - (64 << 10), true)] {
            let writer = archive.begin(&begun).unwrap();
            let mut instruments = Instruments::default();
            instruments.missing.insert("observer a1".into(), Missing::because("x".repeat(bytes)));
            let header = begun.clone().ended(None);
            let run = Run { instruments, ..Run::unmeasured(header, Environment::default()) };
            match writer.seal(&run) {
                Ok(_) => {
                    let stored = archive.run(id).unwrap().instruments.missing;
                    assert!(is_stored && stored == run.instruments.missing, "{bytes}");
                }
                Err(error) => {
                    let is_too_long = matches!(error, ArchiveError::LongDocument { .. });
                    assert!(is_too_long && !is_stored, "{bytes}: {error}");
                    assert!(archive.run(id).is_err() && archive.killed().unwrap().is_empty());
                }
            }
        }
    }
}
