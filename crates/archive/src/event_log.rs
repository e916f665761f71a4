//! `--log FILE.parquet`: one row per event, and the schedule to replay from such a file.
//!
//! A separate thread compresses and writes, because the thread that hands over the rows conducts the load.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use record::arrivals::Recorded;
use record::event::EventRow;

use crate::checksum::Summing;
use crate::error::ArchiveError;
use crate::series::{self, of_writing};
use crate::whole_file::{BeginError, SlowFile};

/// One event per row; timestamps are nanoseconds of `CLOCK_MONOTONIC`.
const EVENTS: &str = "message events {
    required int64 due_ns;
    optional int64 claim_ns;
    optional int64 start_ns;
    optional int64 end_ns;
    required binary operation (STRING);
    required binary outcome (STRING);
}";
const STAMPS: [&str; 4] = ["due_ns", "claim_ns", "start_ns", "end_ns"];
/// Rows per group, which the writer holds in memory.
const GROUP_ROWS: usize = 1 << 18;
/// Longest line of a text file of due times, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 12;
/// Maximum number of queued batches; further ones are refused, and the sender counts them.
const BATCHES_MAX: usize = 64;

/// A log of events that is being written.
#[derive(Debug)]
pub struct EventLog {
    file: SlowFile,
    sender: SyncSender<Vec<EventRow>>,
    writer: JoinHandle<Result<u64, ParquetError>>,
}

impl EventLog {
    /// Begins a log, which gets the name `path` only when it is complete.
    ///
    /// - `operations`: the operations of the load, by number.
    /// - `otherwise`: name of events that do not consist of one operation: the workload.
    ///
    /// # Errors
    ///
    /// The file cannot be created, or another load is writing it.
    pub fn create(path: &Path, operations: &[String], otherwise: &str) -> Result<Self, ArchiveError> {
        let file = SlowFile::begin(path).map_err(|error| match error {
            BeginError::Busy => ArchiveError::LogBusy { path: path.to_owned() },
            BeginError::Refused(error) => ArchiveError::writing(path)(error),
        })?;
        let out = file.writer().map_err(ArchiveError::writing(path))?;
        let (sender, receiver) = sync_channel(BATCHES_MAX);
        let mut names: Vec<ByteArray> =
            operations.iter().map(|name| ByteArray::from(name.as_str())).collect();
        names.push(ByteArray::from(otherwise));
        let writer = thread::Builder::new().name("event-log".to_owned());
        let writer =
            writer.spawn(move || write(out, &receiver, &names)).map_err(ArchiveError::writing(path))?;
        Ok(Self { file, sender, writer })
    }

    /// Unfinished log of this name that a killed load had left; it is removed.
    pub fn left_behind(&self) -> Option<&Path> {
        self.file.left_behind()
    }

    /// Channel that takes batches of rows.
    pub fn sender(&self) -> SyncSender<Vec<EventRow>> {
        self.sender.clone()
    }

    /// Waits until all rows are written and renames the file; returns the number of rows. Every sender must
    /// be dropped before.
    ///
    /// # Errors
    ///
    /// The file could not be written; no partial file is left.
    pub fn finish(self) -> Result<u64, ArchiveError> {
        drop(self.sender);
        let path = self.file.path().to_owned();
        let rows = self.writer.join().expect("the writer of the log returns its errors");
        let rows = rows.map_err(of_writing).and_then(|rows| self.file.finish().map(|()| rows));
        rows.map_err(ArchiveError::writing(&path))
    }

    /// Abandons the log and removes the partial file.
    pub fn abandon(self) {
        drop(self.sender);
        let _ = self.writer.join();
    }
}

/// A recorded schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Description of the schedule that a run stores.
    pub recorded: Recorded,
    /// Due times in order; the first is 0.
    pub due_ns: Arc<[u64]>,
}

/// Reads the due times of a file that `--log` wrote, or of a text file with one per line, in seconds.
///
/// - `path`: as the user wrote it.
///
/// # Errors
///
/// The file cannot be read, has neither format, or holds no due time.
pub fn schedule(path: &str) -> Result<Schedule, ArchiveError> {
    let file = Path::new(path);
    let mut due_ns = read_due(file).map_err(|error| match error {
        ReadError::Io(source) => ArchiveError::Unreadable { path: file.to_owned(), source },
        ReadError::Wrong(problem) => ArchiveError::NoSchedule { path: file.to_owned(), problem },
    })?;
    due_ns.sort_unstable();
    let Some(&first_ns) = due_ns.first() else {
        return Err(ArchiveError::NoSchedule {
            path: file.to_owned(),
            problem: "it contains no due time".into(),
        });
    };
    for ns in &mut due_ns {
        *ns -= first_ns;
    }
    Ok(Schedule::of(path, due_ns))
}

impl Schedule {
    /// The schedule of these due times.
    ///
    /// - `path`: the file that they come from, as the user wrote it.
    /// - `due_ns`: in order, the first of them 0.
    pub fn of(path: &str, due_ns: Vec<u64>) -> Self {
        assert!(due_ns.first() == Some(&0) && due_ns.is_sorted(), "due times come in order, from 0 on");
        // Summed piece by piece: a log may have many millions of due times.
        let mut sum = Summing::new(io::sink());
        for ns in &due_ns {
            sum.write_all(&ns.to_le_bytes()).expect("a sink takes everything");
        }
        let recorded = Recorded {
            path: path.to_owned(),
            events: due_ns.len() as u64,
            span: Duration::from_nanos(*due_ns.last().expect("there is a first one")),
            sha256: sum.finish().1,
        };
        Self { recorded, due_ns: due_ns.into() }
    }
}

enum ReadError {
    Io(io::Error),
    Wrong(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn read_due(path: &Path) -> Result<Vec<u64>, ReadError> {
    let mut file = File::open(path)?;
    let mut magic = [0; 4];
    let is_parquet = file.read(&mut magic)? == 4 && magic == *b"PAR1";
    file.seek(SeekFrom::Start(0))?;
    if is_parquet {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let due_ns = series::read_whole_column(&Bytes::from(bytes), "due_ns");
        let due_ns = due_ns.map_err(|wrong| ReadError::Wrong(wrong.0))?;
        let whole: Result<Vec<u64>, _> = due_ns.into_iter().map(u64::try_from).collect();
        return whole.map_err(|_| ReadError::Wrong("a due time is negative".to_owned()));
    }
    let mut due_ns = Vec::new();
    let (mut file, mut line) = (BufReader::new(file), String::new());
    for number in 1.. {
        line.clear();
        if file.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            break;
        }
        if line.len() as u64 == LINE_BYTES_MAX {
            return Err(ReadError::Wrong(format!("line {number} has more than {LINE_BYTES_MAX} bytes")));
        }
        let text = line.split('#').next().unwrap_or("").trim();
        if !text.is_empty() {
            due_ns.push(of_seconds(text).ok_or_else(|| {
                ReadError::Wrong(format!(
                    "line {number}: `{text}` is not a valid due time: expected seconds, such as 0.25"
                ))
            })?);
        }
    }
    Ok(due_ns)
}

/// Seconds in whole nanoseconds, up to some centuries.
fn of_seconds(text: &str) -> Option<u64> {
    let seconds: f64 = text.parse().ok()?;
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(time.as_nanos()).ok()
}

fn write(file: File, batches: &Receiver<Vec<EventRow>>, names: &[ByteArray]) -> Result<u64, ParquetError> {
    // The fastest level, because the writer competes with the load for CPU time.
    let level = ZstdLevel::try_new(1).expect("zstd has a level 1");
    let properties = STAMPS.iter().fold(
        WriterProperties::builder().set_compression(Compression::ZSTD(level)),
        |properties, name| {
            let path = ColumnPath::from(*name);
            properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
        },
    );
    let schema = Arc::new(parse_message_type(EVENTS).expect("our schemas parse"));
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?;
    let (mut waiting, mut rows) = (Vec::with_capacity(GROUP_ROWS), 0);
    for batch in batches {
        rows += batch.len() as u64;
        waiting.extend(batch);
        if waiting.len() >= GROUP_ROWS {
            write_group(&mut writer, &waiting, names)?;
            waiting.clear();
        }
    }
    write_group(&mut writer, &waiting, names)?;
    writer.into_inner()?.sync_all()?;
    Ok(rows)
}

fn write_group(
    writer: &mut SerializedFileWriter<File>,
    rows: &[EventRow],
    names: &[ByteArray],
) -> Result<(), ParquetError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut group = writer.next_row_group()?;
    let stamps: [fn(&EventRow) -> Option<u64>; 4] = [
        |row| Some(row.due_ns),
        |row| row.claim_ns.map(Into::into),
        |row| row.start_ns.map(Into::into),
        |row| row.end_ns.map(Into::into),
    ];
    for (index, stamp) in stamps.into_iter().enumerate() {
        let mut column = group.next_column()?.expect("as many columns as the schema has");
        let values: Vec<i64> = rows.iter().filter_map(stamp).map(u64::cast_signed).collect();
        let levels: Vec<i16> = rows.iter().map(|row| i16::from(stamp(row).is_some())).collect();
        column.typed::<Int64Type>().write_batch(&values, (index > 0).then_some(&levels), None)?;
        column.close()?;
    }
    let otherwise = names.len() - 1;
    let operation = |row: &EventRow| names[row.operation.map_or(otherwise, usize::from)].clone();
    let outcome = |row: &EventRow| ByteArray::from(row.fate.word());
    for text in [&operation as &dyn Fn(&EventRow) -> ByteArray, &outcome] {
        let mut column = group.next_column()?.expect("as many columns as the schema has");
        let values: Vec<ByteArray> = rows.iter().map(text).collect();
        column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        column.close()?;
    }
    group.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::num::NonZeroU64;
    use std::os::unix::fs::symlink;

    use record::event::Fate;

    use super::*;

    fn row(due_ns: u64) -> EventRow {
        let stamp = NonZeroU64::new(due_ns + 7);
        let (fate, end_ns) =
            if due_ns.is_multiple_of(3) { (Fate::Unfinished, None) } else { (Fate::Done, stamp) };
        EventRow { due_ns, claim_ns: stamp, start_ns: stamp, end_ns, operation: Some(0), fate }
    }

    #[test]
    fn what_a_killed_load_left_is_replaced_and_a_living_one_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.parquet");
        let left = dir.path().join(".events.parquet.0123456789abcdef0123456789abcdef.partial");
        fs::write(&left, "").unwrap();
        let create = || EventLog::create(&path, &["get".into()], "kv");
        let log = create().unwrap();
        assert_eq!(log.left_behind(), Some(&*left));
        assert!(matches!(create().unwrap_err(), ArchiveError::LogBusy { .. }));
        log.sender().send(vec![row(1_000)]).unwrap();
        assert_eq!(log.finish().unwrap(), 1);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let log = create().unwrap();
        assert_eq!(log.left_behind(), None);
        log.abandon();
    }

    #[test]
    fn no_planted_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("events.parquet"), dir.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        for planted in [
            "events.parquet",
            "events.parquet.partial",
            ".events.parquet.0123456789abcdef0123456789abcdef.partial",
        ] {
            symlink(&victim, dir.path().join(planted)).unwrap();
        }
        let log = EventLog::create(&path, &["get".into()], "kv").unwrap();
        log.sender().send(vec![row(1_000)]).unwrap();
        assert_eq!(log.finish().unwrap(), 1);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!path.is_symlink());
    }

    #[test]
    fn a_log_replays_as_the_schedule_that_it_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.parquet");
        let log = EventLog::create(&path, &["get".into()], "kv").unwrap();
        let sender = log.sender();
        // Workers hand over batches, which are not in order.
        for from in [5_000u64, 1_000, 3_000] {
            sender.send((0..10).map(|i| row(from + 100 * i)).collect()).unwrap();
        }
        drop(sender);
        assert!(!path.exists());
        assert_eq!(log.finish().unwrap(), 30);
        let read = schedule(path.to_str().unwrap()).unwrap();
        assert_eq!(read.due_ns[..3], [0, 100, 200]);
        assert_eq!((read.recorded.events, read.recorded.span), (30, Duration::from_nanos(4_900)));
        assert_eq!(read.recorded.sha256.len(), 64);
    }

    #[test]
    fn a_text_of_seconds_is_a_schedule_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("due.txt");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            schedule(path.to_str().unwrap()).map(|s| s.due_ns.to_vec()).map_err(|e| e.to_string())
        };
        assert_eq!(read("# one a line\n10.5\n\n10.25 # earlier\n"), Ok(vec![0, 250_000_000]));
        assert!(read("1\nsoon\n").unwrap_err().contains("line 2: `soon`"));
        assert!(read("1\n-1\n").unwrap_err().contains("line 2"));
        assert!(read("").unwrap_err().contains("no due time"));
        assert!(read("PAR1 or so").is_err());
        assert!(read(&"1".repeat(5_000)).unwrap_err().contains("line 1 has more than"));
        let none = dir.path().join("none");
        assert!(matches!(schedule(none.to_str().unwrap()), Err(ArchiveError::Unreadable { .. })));
    }

    #[test]
    fn a_log_that_is_given_up_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        EventLog::create(&dir.path().join("x.parquet"), &[], "native").unwrap().abandon();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
