//! The complete intervals of a running run: on disk, so that memory does not grow with the run's length.
//!
//! Writing must be cheap, because a load is running: the files are not compressed and only this process reads
//! them. Sealing the run converts them to the files of the archive. They are unlinked as soon as they are
//! open, so a killed process leaves nothing behind.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use record::cpu::CpuInterval;
use record::histogram::CompactHistogram;
use record::instruments::{Instruments, Observed};
use record::series::{HistogramSlice, LatencyKind, Sample};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk;
use crate::error::ArchiveError;
use crate::intervals::{StoredInterval, Visit, visit_all};
use crate::schema::Wrong;
use crate::schema::sample::SampleForm;

/// Bytes of a segment that wait in memory.
const WAITING_BYTES: usize = 1 << 15;

/// Complete intervals of a run, in the order in which they were added.
///
/// A write that fails is remembered and reported when the spool is read: a full disk does not end a load.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    slices: Segment,
    /// Keyed by the file that the segment becomes.
    intervals: BTreeMap<&'static str, Segment>,
    samples: Segment,
    /// The first write that failed.
    failed: Option<io::Error>,
}

impl Spool {
    /// Creates a spool in the folder for temporary files.
    pub fn temporary() -> Self {
        Self::within(std::env::temp_dir())
    }

    /// Creates a spool in `folder`.
    pub(crate) fn within(folder: PathBuf) -> Self {
        let (slices, samples) = (Segment::default(), Segment::default());
        Self { folder, slices, intervals: BTreeMap::new(), samples, failed: None }
    }

    /// Adds distributions of latency.
    pub fn add_slices(&mut self, slices: &[HistogramSlice]) {
        for slice in slices {
            self.slices.waiting.reserve(slice.histogram.buckets().count() * 4);
            put_slice(&mut self.slices.waiting, slice);
        }
        let written = self.slices.write(&self.folder);
        self.note(written);
    }

    /// Adds intervals of CPU use.
    pub fn add_cpu(&mut self, intervals: impl IntoIterator<Item = CpuInterval>) {
        self.add_intervals::<CpuInterval>(intervals.into_iter());
    }

    /// Adds intervals of the other instruments.
    pub fn add_instruments(&mut self, seen: &Instruments) {
        let Ok(()) = visit_all(&mut Adding { spool: self, seen });
    }

    fn add_intervals<T: StoredInterval>(&mut self, intervals: impl Iterator<Item = impl Borrow<T>>) {
        let strand = self.intervals.entry(T::FILE).or_default();
        let written = strand.add(&self.folder, intervals.map(|interval| interval.borrow().form()));
        self.note(written);
    }

    /// Adds numbers over time.
    pub fn add_samples(&mut self, samples: impl IntoIterator<Item = Sample>) {
        let written = samples
            .into_iter()
            .try_for_each(|sample| self.samples.add(&self.folder, std::iter::once(SampleForm::of(&sample))));
        self.note(written);
    }

    /// The intervals of the CPUs, from the first on; an item that cannot be read is an error.
    ///
    /// # Errors
    ///
    /// If not everything could be written.
    pub fn cpu(&self) -> Result<impl Iterator<Item = io::Result<CpuInterval>> + '_, ArchiveError> {
        self.check()?;
        Ok(documents(self.lines::<CpuInterval>(), CpuInterval::read))
    }

    /// Distributions of latency, from the first interval on.
    pub(crate) fn slices(&self) -> impl Iterator<Item = io::Result<HistogramSlice>> + '_ {
        let mut bytes = self.slices.reader();
        std::iter::from_fn(move || next_slice(&mut bytes).transpose())
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = io::Result<Sample>> + '_ {
        documents(self.samples.reader(), |form: SampleForm<String>| Ok(form.read()))
    }

    /// The lines of an instrument's file so far.
    pub(crate) fn lines<T: StoredInterval>(&self) -> impl BufRead + '_ {
        static NONE: Segment = Segment { file: None, waiting: Vec::new() };
        self.intervals.get(T::FILE).unwrap_or(&NONE).reader()
    }

    /// Reports the first write that failed.
    pub(crate) fn check(&self) -> Result<(), ArchiveError> {
        match &self.failed {
            None => Ok(()),
            // An I/O error cannot be cloned; its number rebuilds it.
            Some(e) => Err(ArchiveError::writing(&self.folder)(
                e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error),
            )),
        }
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }
}

fn documents<'a, F: DeserializeOwned + 'a, T: 'a>(
    lines: impl BufRead + 'a,
    read: impl Fn(F) -> Result<T, Wrong> + 'a,
) -> impl Iterator<Item = io::Result<T>> + 'a {
    lines.split(b'\n').map(move |line| {
        let form = serde_json::from_slice(&line?)?;
        read(form).map_err(|Wrong(what)| io::Error::new(io::ErrorKind::InvalidData, what))
    })
}

/// Adds the intervals of every instrument.
struct Adding<'a> {
    spool: &'a mut Spool,
    seen: &'a Instruments,
}

impl Visit for Adding<'_> {
    type Error = Infallible;

    fn visit<T: StoredInterval + Observed>(&mut self) -> Result<(), Infallible> {
        self.spool.add_intervals::<T>(T::of(self.seen).iter());
        Ok(())
    }
}

/// Items of one kind: those on disk, and then those that wait.
#[derive(Debug, Default)]
struct Segment {
    file: Option<File>,
    waiting: Vec<u8>,
}

impl Segment {
    /// Adds one document per line.
    fn add<T: Serialize>(&mut self, folder: &Path, forms: impl Iterator<Item = T>) -> io::Result<()> {
        for form in forms {
            serde_json::to_writer(&mut self.waiting, &form)?;
            self.waiting.push(b'\n');
        }
        self.write(folder)
    }

    /// Writes the waiting bytes if there are enough.
    fn write(&mut self, folder: &Path) -> io::Result<()> {
        if self.waiting.len() < WAITING_BYTES {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        let written = self.file(folder).and_then(|mut file| file.write_all(&waiting));
        self.waiting = waiting;
        // Also after an error: unwritten items must not collect in memory.
        self.waiting.clear();
        self.waiting.shrink_to(WAITING_BYTES * 2);
        written
    }

    fn file(&mut self, folder: &Path) -> io::Result<&File> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(nameless(folder)?)),
        }
    }

    fn reader(&self) -> BufReader<impl Read + '_> {
        BufReader::with_capacity(
            WAITING_BYTES,
            PositionedReader { file: self.file.as_ref(), at: 0 }.chain(&self.waiting[..]),
        )
    }
}

/// A file from its beginning, with a separate position.
struct PositionedReader<'a> {
    file: Option<&'a File>,
    at: u64,
}

impl Read for PositionedReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.file.map_or(Ok(0), |file| file.read_at(into, self.at))?;
        self.at += n as u64;
        Ok(n)
    }
}

/// Creates a file without a name in the folder for temporary files: it is gone when it is closed.
///
/// # Errors
///
/// The file cannot be created.
pub fn temporary_file() -> io::Result<File> {
    nameless(&std::env::temp_dir())
}

/// Creates a file in `folder` and unlinks its name.
fn nameless(folder: &Path) -> io::Result<File> {
    // Keyed by the system's randomness: another user cannot guess it.
    let draw = || RandomState::new().build_hasher().finish();
    let path = folder.join(format!(".bakeoff-{:016x}{:016x}", draw(), draw()));
    let file = disk::new_file().open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Seven bits per byte, lowest first; the highest bit marks that more follow.
fn put_number(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        bytes.push(n.to_le_bytes()[0] | 0x80);
        n >>= 7;
    }
    bytes.push(n.to_le_bytes()[0]);
}

fn put_slice(bytes: &mut Vec<u8>, slice: &HistogramSlice) {
    let HistogramSlice { from_ns, for_ns, operation, kind, histogram } = slice;
    let kind = LatencyKind::ALL.iter().position(|k| k == kind).expect("ALL has every kind");
    for n in [*from_ns, *for_ns, kind as u64, operation.len() as u64] {
        put_number(bytes, n);
    }
    bytes.extend_from_slice(operation.as_bytes());
    put_number(bytes, histogram.buckets().count() as u64);
    let mut before_ns = 0;
    for (lowest_ns, count) in histogram.buckets() {
        put_number(bytes, lowest_ns - before_ns);
        put_number(bytes, count);
        before_ns = lowest_ns;
    }
}

/// The inverse of [`put_slice`]; `None` at the end.
fn next_slice(bytes: &mut impl BufRead) -> io::Result<Option<HistogramSlice>> {
    if bytes.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let (from_ns, for_ns) = (number(bytes)?, number(bytes)?);
    let (kind, length) = (number(bytes)?, number(bytes)?);
    let kind = usize::try_from(kind).ok().and_then(|place| LatencyKind::ALL.get(place));
    let mut operation = String::new();
    bytes.by_ref().take(length).read_to_string(&mut operation)?;
    let mut lowest_ns = 0;
    let mut buckets = Vec::new();
    for _ in 0..number(bytes)? {
        lowest_ns += number(bytes)?;
        buckets.push((lowest_ns, number(bytes)?));
    }
    let histogram = CompactHistogram::of_buckets(buckets);
    Ok(Some(HistogramSlice { from_ns, for_ns, operation, kind: *kind.ok_or_else(damaged)?, histogram }))
}

fn number(bytes: &mut impl Read) -> io::Result<u64> {
    let mut n = 0;
    for place in 0..u64::BITS.div_ceil(7) {
        let mut byte = [0];
        bytes.read_exact(&mut byte)?;
        n |= u64::from(byte[0] & 0x7f) << (place * 7);
        if byte[0] < 0x80 {
            break;
        }
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(i: u64) -> HistogramSlice {
        HistogramSlice {
            from_ns: i * 1_000_000_000,
            for_ns: u64::MAX - i,
            operation: if i.is_multiple_of(3) { String::new() } else { format!("größe-{i}") },
            kind: LatencyKind::ALL[usize::try_from(i).unwrap() % LatencyKind::ALL.len()],
            histogram: (0..i % 700).map(|b| (b * b * b * i, 1 + b * i)).collect(),
        }
    }

    #[test]
    fn what_is_added_is_read_in_order_however_much_is_on_disk() {
        for n in [0, 1, 20, 3_000] {
            let mut spool = Spool::temporary();
            let all: Vec<HistogramSlice> = (0..n).map(slice).collect();
            all.chunks(7).for_each(|some| spool.add_slices(some));
            let samples = |i: u64| Sample {
                t_ms: -7 + i.cast_signed(),
                host: "höst".into(),
                name: format!("n{i}\n").into(),
                labels: "".into(),
                value: (i as f64).sqrt(),
            };
            let numbers: Vec<Sample> = (0..n).map(samples).collect();
            numbers.chunks(5).for_each(|some| spool.add_samples(some.to_vec()));
            assert_eq!(spool.slices.file.is_some(), n == 3_000, "few stay in memory");
            assert!(spool.slices.waiting.len() < WAITING_BYTES);
            for _ in 0..2 {
                assert_eq!(spool.slices().collect::<Result<Vec<_>, _>>().unwrap(), all);
                assert_eq!(spool.samples().collect::<Result<Vec<_>, _>>().unwrap(), numbers);
            }
            spool.check().unwrap();
        }
    }

    #[test]
    fn a_spool_that_cannot_be_written_says_so_and_collects_nothing_in_memory() {
        let mut spool = Spool::within("/nonexistent/folder".into());
        (0..3_000).for_each(|i| spool.add_slices(&[slice(i)]));
        assert!(spool.slices.waiting.len() < WAITING_BYTES);
        assert!(spool.check().is_err() && spool.cpu().is_err());
    }

    #[test]
    fn nothing_of_a_spool_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::within(folder.path().into());
        (0..3_000).for_each(|i| spool.add_slices(&[slice(i)]));
        assert!(spool.slices.file.is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
