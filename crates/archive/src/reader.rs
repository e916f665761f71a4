//! Reading a run from the archive: no file is used unless its checksum agrees.

use std::io::{BufRead, BufReader, Read as _, Seek as _};
use std::path::Path;

use bytes::Bytes;
use record::cpu::CpuSample;
use record::environment::Environment;
use record::instruments::{Instruments, Observed};
use record::load::LoadRecord;
use record::missing::{Maybe, Missing};
use record::profile::RunProfile;
use record::proof::Proof;
use record::run::{Run, RunHeader, RunId};
use record::series::{HistogramSlice, Sample, Thinned};
use serde::de::DeserializeOwned;

use crate::disk::{OF_HISTOGRAMS, OF_LINES, OF_STACKS, STORED_BYTES_MAX, UnpackedMax};
use crate::error::ArchiveError;
use crate::intervals::{StoredInterval, Visit, visit_all};
use crate::schema::Wrong;
use crate::schema::command::RecordedForm;
use crate::schema::limits::ThrottledForm;
use crate::schema::manifest::{self, Manifest};
use crate::schema::profile::{self, ProfileForm, StacksRead};
use crate::schema::proof::ProofForm;
use crate::schema::resources;
use crate::schema::turns::TurnsForm;
use crate::schema::warm_up::WarmUpForm;
use crate::stretches::Stretches;
use crate::watch::Watch;
use crate::writer::{LATENCY, MANIFEST, MANIFEST_SUM, SERIES};
use crate::{Archive, checksum, disk, hlog, series, thinned};

impl Archive {
    /// Reads a run with all its measurements.
    ///
    /// # Errors
    ///
    /// If no run has that name, or its files cannot be read, or their checksums do not match.
    pub fn run(&self, id: RunId) -> Result<Run, ArchiveError> {
        let mut run = self.run_without_profiles(id)?;
        run.instruments.profiles = self.profiles(id)?;
        Ok(run)
    }

    /// Variant of [`Self::run`] with what a bake-off has of each run, because all of them are in memory: by
    /// interval only the latencies of whole events, and of the instruments only `io` and the use of the CPUs.
    pub(crate) fn run_of_bakeoff(&self, id: RunId) -> Result<Run, ArchiveError> {
        let mut run = self.run_without_profiles(id)?;
        if let Some(load) = &mut run.load {
            let kind = load.latency_kind();
            load.slices.retain(|slice| slice.is_of_events(kind));
            load.slices.shrink_to_fit();
        }
        for interval in &mut run.cpu {
            interval.cpus = std::mem::take(&mut interval.cpus).into_iter().map(use_of).collect();
        }
        let Instruments { io, missing, .. } = run.instruments;
        run.instruments = Instruments { io, missing, ..Instruments::default() };
        Ok(run)
    }

    /// Variant of [`Self::run`] without profiles: those of all runs of a bake-off would take gigabytes.
    pub(crate) fn run_without_profiles(&self, id: RunId) -> Result<Run, ArchiveError> {
        let mut slices = Vec::new();
        let mut run = self.run_without_slices(id, None, &mut |slice| slices.push(slice))?;
        if let Some(load) = &mut run.load {
            load.slices = slices;
        }
        Ok(run)
    }

    /// Variant of [`Self::run`] for charts of the load over time.
    ///
    /// Distributions of neighboring intervals are merged, without loss, into at most twice as many as
    /// `places`, so memory does not grow with the load's length. Those of single operations, of wait and of
    /// lateness are left out. Numbers over time that are too many to be read are thinned to as many as
    /// `places` of each series.
    ///
    /// # Errors
    ///
    /// Those of [`Self::run`].
    pub fn run_for_drawing(&self, id: RunId, places: usize) -> Result<Run, ArchiveError> {
        let mut stretches = Stretches::new(places);
        let mut run = self.run_without_slices(id, Some(places), &mut |slice| stretches.add(slice))?;
        if let Some(load) = &mut run.load {
            load.slices = stretches.into_slices();
        }
        run.instruments.profiles = self.profiles(id)?;
        Ok(run)
    }

    /// Reads the profiles of a run; runs of earlier versions have none.
    ///
    /// # Errors
    ///
    /// The run's manifest or its stacks are missing or damaged.
    pub fn profiles(&self, id: RunId) -> Result<Vec<RunProfile>, ArchiveError> {
        let folder = self.tree.run(id);
        let watch = self.watch();
        let Stored { manifest, .. } = read_manifest(&folder, id)?;
        let kinds = manifest.profiles.iter().map(ProfileForm::kind).collect::<Result<Vec<_>, _>>();
        let kinds = kinds.map_err(in_file(&folder, MANIFEST))?;
        if kinds.iter().enumerate().any(|(n, kind)| kinds[..n].contains(kind)) {
            return Err(ArchiveError::damaged(&folder.join(MANIFEST), "it has two profiles of one kind"));
        }
        let all = manifest.profiles.iter().map(|form| stacks(&folder, &manifest, form, &watch));
        let read: Result<Vec<_>, _> = all.collect();
        read.map_err(|error| watch.cause(id, error))
    }

    /// Reads the result of a load without its intervals and instruments; `None` for other kinds of run.
    ///
    /// # Errors
    ///
    /// The run's manifest is missing or damaged.
    pub fn load_result(&self, id: RunId) -> Result<Option<LoadRecord>, ArchiveError> {
        let folder = self.tree.run(id);
        let Stored { manifest, .. } = read_manifest(&folder, id)?;
        manifest.load.map(|form| form.read(Vec::new())).transpose().map_err(in_file(&folder, MANIFEST))
    }

    /// Variant of [`Self::run`] that reads the manifest alone: results of the whole run, without numbers over
    /// time.
    ///
    /// # Errors
    ///
    /// No run has that name, or its manifest is missing or damaged.
    pub fn run_summary(&self, id: RunId) -> Result<Run, ArchiveError> {
        let folder = self.tree.run(id);
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        let watch = self.watch();
        let stored = read_manifest(&folder, id)?;
        let read = watch.read(0).and_then(|()| summary(stored)).map_err(in_file(&folder, MANIFEST));
        read.map_err(|error| watch.cause(id, error))
    }

    /// Machine of a run or bake-off, without its measurements.
    ///
    /// # Errors
    ///
    /// No run has that id, or its manifest is damaged.
    pub fn environment(&self, id: RunId) -> Result<Environment, ArchiveError> {
        if self.is_bakeoff(id) {
            return crate::bakeoff::environment(&self.tree.bakeoff(id));
        }
        let folder = self.tree.run(id);
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        let Stored { manifest, .. } = read_manifest(&folder, id)?;
        manifest.environment.read().map_err(in_file(&folder, MANIFEST))
    }

    fn run_without_slices(
        &self,
        id: RunId,
        places: Option<usize>,
        each: &mut dyn FnMut(HistogramSlice),
    ) -> Result<Run, ArchiveError> {
        let folder = self.tree.run(id);
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        let watch = self.watch();
        read_watched(&folder, id, places, &watch, each).map_err(|error| watch.cause(id, error))
    }
}

/// The use of a CPU. Values that pages and verdicts of a bake-off do not read are missing, with a reason that
/// takes no memory.
fn use_of(sample: CpuSample) -> CpuSample {
    let CpuSample {
        cpu,
        event_ratio,
        not_idle_ratio,
        unaccounted_ratio,
        stolen_ratio,
        run_queue_wait_ns,
        ..
    } = sample;
    CpuSample {
        event_ratio,
        not_idle_ratio,
        unaccounted_ratio,
        stolen_ratio,
        run_queue_wait_ns,
        ..CpuSample::without_values(cpu, "")
    }
}

/// Reads the run in `folder`, and passes its slices to `each`.
fn read_watched(
    folder: &Path,
    id: RunId,
    places: Option<usize>,
    watch: &Watch,
    each: &mut dyn FnMut(HistogramSlice),
) -> Result<Run, ArchiveError> {
    let stored = read_manifest(folder, id)?;
    watch.read(0).map_err(in_file(folder, MANIFEST))?;
    let manifest = &stored.manifest;
    let cpu = intervals(folder, manifest, watch)?;
    let missing = manifest.not_observed.iter().map(|(name, why)| (name.clone(), Missing::because(why)));
    let mut instruments = Instruments { missing: missing.collect(), ..Instruments::default() };
    visit_all(&mut Reading { folder, manifest, watch, into: &mut instruments })?;
    let Samples { read, thinned } = samples(folder, manifest, places, watch)?;
    let series = read.unwrap_or_else(|why| {
        instruments.missing.insert(Run::SERIES.to_owned(), why);
        Vec::new()
    });
    if manifest.load.is_some() {
        latencies(folder, manifest, watch, each)?;
    }
    let whole = summary(stored).map_err(in_file(folder, MANIFEST))?;
    Ok(Run { cpu, instruments, series, thinned, ..whole })
}

/// The part of a run that its manifest holds.
fn summary(Stored { manifest, header }: Stored) -> Result<Run, Wrong> {
    let proofs = manifest.proofs.into_iter().map(ProofForm::read).collect::<Result<_, _>>()?;
    Ok(Run {
        load: manifest.load.map(|form| form.read(Vec::new())).transpose()?,
        proofs,
        recorded: manifest.recorded.map(RecordedForm::read).transpose()?,
        throttled: ThrottledForm::read(manifest.throttled),
        server_cpu: manifest.server_cpu.read()?,
        resources: resources::read(manifest.resources)?,
        warm_up: manifest.warm_up.map(WarmUpForm::read).transpose()?,
        turns: manifest.turns.map(TurnsForm::read),
        ..Run::unmeasured(header, manifest.environment.read()?)
    })
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
        let what = format!("it belongs to run {}", stored.header.id);
        return Err(ArchiveError::damaged(&folder.join(MANIFEST), what));
    }
    Ok(stored)
}

/// Machine and proofs of a stored run.
pub(crate) fn proofs(stored: Stored) -> Result<(Environment, Vec<Proof>), Wrong> {
    let Manifest { environment, proofs, .. } = stored.manifest;
    Ok((environment.read()?, proofs.into_iter().map(ProofForm::read).collect::<Result<_, _>>()?))
}

/// Reads a manifest without a checksum, which may belong to a running process.
pub(crate) fn read_draft(folder: &Path, bytes: &[u8]) -> Result<Stored, ArchiveError> {
    let manifest: Manifest = manifest::FORM.read(bytes, &folder.join(MANIFEST))?;
    let header = manifest.header.read().map_err(in_file(folder, MANIFEST))?;
    manifest::check_names(&manifest.files).map_err(in_file(folder, MANIFEST))?;
    Ok(Stored { manifest, header })
}

/// Compares `bytes` of the file `name` with the checksum in `sum_name`.
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
    let what = format!("it does not match its checksum in {sum_name}");
    Err(ArchiveError::damaged(&folder.join(name), what))
}

/// Reads a file of the manifest, and checks it.
pub(crate) fn checked(folder: &Path, manifest: &Manifest, name: &str) -> Result<Bytes, ArchiveError> {
    let path = folder.join(name);
    let file =
        manifest.file(name).ok_or_else(|| ArchiveError::damaged(&path, "the manifest does not list it"))?;
    let bytes = disk::read_stored(&path, file)?;
    if checksum::of(&bytes) != file.sha256 {
        return Err(ArchiveError::damaged(&path, "it does not match its checksum in the manifest"));
    }
    Ok(bytes.into())
}

/// A packed file of the manifest as a stream, after a first pass that compared it with its checksum.
fn stream(
    folder: &Path,
    manifest: &Manifest,
    name: &str,
    max: UnpackedMax,
) -> Result<impl BufRead, ArchiveError> {
    let path = folder.join(name);
    let damaged = |what: &str| ArchiveError::damaged(&path, what);
    let file = manifest.file(name).ok_or_else(|| damaged("the manifest does not list it"))?;
    let mut stored = disk::open(&path).map_err(ArchiveError::reading(&path))?;
    let bytes_max = file.bytes.min(STORED_BYTES_MAX);
    let read = checksum::of_stream((&stored).take(bytes_max + 1));
    let (sha256, bytes) = read.map_err(ArchiveError::reading(&path))?;
    if bytes > bytes_max {
        return Err(damaged(&format!("it is larger than {bytes_max} bytes, its limit")));
    }
    if sha256 != file.sha256 {
        return Err(damaged("it does not match its checksum in the manifest"));
    }
    stored.rewind().map_err(ArchiveError::reading(&path))?;
    Ok(BufReader::new(disk::unpack(stored, bytes, file.unpacked_bytes, max)))
}

/// Whole content of a packed file of the manifest.
pub(crate) fn unpacked(
    folder: &Path,
    manifest: &Manifest,
    name: &str,
    max: UnpackedMax,
) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    let read = stream(folder, manifest, name, max)?.read_to_end(&mut content);
    read.map_err(|e| ArchiveError::damaged(&folder.join(name), e.to_string()))?;
    Ok(content)
}

/// Memory of a slice without its buckets, in bytes.
const SLICE_BYTES: usize = size_of::<HistogramSlice>();

fn latencies(
    folder: &Path,
    manifest: &Manifest,
    watch: &Watch,
    each: &mut dyn FnMut(HistogramSlice),
) -> Result<(), ArchiveError> {
    let packed_bytes = manifest.file(LATENCY).map_or(0, |f| f.bytes);
    let mut is_within = Ok(());
    let mut each = |slice: HistogramSlice| {
        if is_within.is_ok() {
            is_within = watch.read(SLICE_BYTES + slice.histogram.memory_bytes());
            each(slice);
        }
    };
    hlog::read(stream(folder, manifest, LATENCY, OF_HISTOGRAMS)?, packed_bytes, &mut each)
        .and(is_within)
        .map_err(in_file(folder, LATENCY))
}

/// Error for a value of the file `name` that its form does not allow.
pub(crate) fn in_file(folder: &Path, name: &str) -> impl FnOnce(Wrong) -> ArchiveError {
    let path = folder.join(name);
    move |Wrong(what)| ArchiveError::Damaged { path, what }
}

/// Reads the intervals of every instrument.
struct Reading<'a> {
    folder: &'a Path,
    manifest: &'a Manifest,
    watch: &'a Watch,
    into: &'a mut Instruments,
}

impl Visit for Reading<'_> {
    type Error = ArchiveError;

    fn visit<T: StoredInterval + Observed>(&mut self) -> Result<(), ArchiveError> {
        *T::of_mut(self.into) = intervals(self.folder, self.manifest, self.watch)?;
        Ok(())
    }
}

/// Numbers over time, or the reason that they are not read.
struct Samples {
    read: Maybe<Vec<Sample>>,
    thinned: Option<Thinned>,
}

/// - `places`: of a drawing, for which too many numbers are thinned.
fn samples(
    folder: &Path,
    manifest: &Manifest,
    places: Option<usize>,
    watch: &Watch,
) -> Result<Samples, ArchiveError> {
    let read = match manifest.file(SERIES) {
        None => Ok(Vec::new()),
        Some(file) if file.bytes > series::SAMPLES_FILE_MAX => Err(series::too_long()),
        Some(_) => {
            let bytes = checked(folder, manifest, SERIES)?;
            let is_tight = places.is_some() && watch.is_limited();
            let max = if is_tight { series::DRAWN_MEMORY_MAX } else { series::SAMPLES_MEMORY_MAX };
            let read = series::read_samples(&bytes, max, watch).map_err(in_file(folder, SERIES))?;
            if let (Err(_), Some(places)) = (&read, places) {
                let thinned = thinned::read(&bytes, places, watch).map_err(in_file(folder, SERIES))?;
                return Ok(Samples { read, thinned });
            }
            read
        }
    };
    Ok(Samples { read, thinned: None })
}

/// The intervals of an instrument; none if it has no file.
fn intervals<T: StoredInterval>(
    folder: &Path,
    manifest: &Manifest,
    watch: &Watch,
) -> Result<Vec<T>, ArchiveError> {
    if manifest.file(T::FILE).is_none() {
        return Ok(Vec::new());
    }
    documents(stream(folder, manifest, T::FILE, OF_LINES)?, watch, T::read).map_err(in_file(folder, T::FILE))
}

/// A profile with its stacks; a profile without stacks has no file.
fn stacks(
    folder: &Path,
    manifest: &Manifest,
    form: &ProfileForm,
    watch: &Watch,
) -> Result<RunProfile, ArchiveError> {
    let name = profile::file_of(form.kind().map_err(in_file(folder, MANIFEST))?);
    let limits = StacksRead::default();
    let found = if manifest.file(&name).is_some() {
        let lines = stream(folder, manifest, &name, OF_STACKS)?;
        documents(lines, watch, |line| limits.read(line)).map_err(in_file(folder, &name))?
    } else {
        Vec::new()
    };
    form.read(found).map_err(in_file(folder, &name))
}

/// Longest line of a file that is read line by line, in bytes.
pub(crate) const LINE_BYTES_MAX: u64 = 16 << 20;

/// Documents of a text with one per line. Memory holds their values, not their text.
fn documents<F: DeserializeOwned, T>(
    mut text: impl BufRead,
    watch: &Watch,
    read: impl Fn(F) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    let (mut all, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let n = text.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if n.map_err(|e| Wrong(e.to_string()))? == 0 {
            return Ok(all);
        }
        watch.line(&line)?;
        all.push(read(serde_json::from_slice(&line).map_err(|e| Wrong(e.to_string()))?)?);
    }
}
