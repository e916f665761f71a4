//! Numbers over time as Parquet, which any SQL engine reads and merges without loss.
//!
//! Long and narrow: one row per value, no nesting, no types that an engine might lack.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use record::environment::Environment;
use record::histogram::Histogram;
use record::missing::{Maybe, Missing};
use record::series::{HistogramSlice, LatencyKind, Sample, SharedText};

use crate::schema::{Wrong, word};
use crate::watch::Watch;
use crate::{pages, panics};

/// `hist.parquet`: one occupied bucket of one interval.
const HISTOGRAMS: &str = "message hist {
    required double t_s;
    required binary host (STRING);
    required binary op (STRING);
    required binary kind (STRING);
    required int64 bucket_lo_ns;
    required int64 n;
}";

/// `series.parquet`: one value of one series.
const SAMPLES: &str = "message series {
    required int64 t_ms;
    required binary host (STRING);
    required binary name (STRING);
    required binary labels (STRING);
    required double value;
}";

/// Rows per group, which a writer or a reader holds in memory.
pub(crate) const GROUP_ROWS: usize = 1 << 16;
/// Values of a column that are handed over at once.
const BATCH_ROWS: usize = 1 << 10;
/// Maximum number of rows in a group, more than ours have.
const GROUP_ROWS_MAX: usize = 1 << 20;
/// Rows allowed in any file.
const ROWS_MIN: usize = 1 << 20;
/// Rows allowed per byte of a larger file.
const ROWS_PER_BYTE_MAX: usize = 4;
/// Maximum bytes of text in one column of a group: a few times those of ours.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Largest file of samples that is read, in bytes. A row of ours has about 3 bytes.
pub(crate) const SAMPLES_FILE_MAX: u64 = 64 << 20;
/// Memory that the samples of a file may take, in bytes: 2.6 million rows, less for their different texts.
pub(crate) const SAMPLES_MEMORY_MAX: usize = 160 << 20;
/// The same for a drawing within a limit of the process's memory, which has thinned series of the others.
pub(crate) const DRAWN_MEMORY_MAX: usize = 64 << 20;
/// Maximum bytes of text of all rows of a file, each counted as often as it occurs.
const TEXT_READ_MAX: usize = 1 << 30;
/// Memory of a text beside its letters, in bytes: two counts, and its places in the heap and in a set.
const PER_TEXT: usize = 64;
/// Host name of a machine that did not report one.
const HOST: &str = "localhost";

type Values<'a, T> = Box<dyn Iterator<Item = T> + 'a>;

/// One column of one group of rows.
pub(crate) enum Column<'a> {
    Text(Values<'a, ByteArray>),
    Whole(Values<'a, i64>),
    Real(Values<'a, f64>),
    /// `None` is null.
    MaybeWhole(Values<'a, Option<i64>>),
}

/// Host name of the machine of `environment`.
pub(crate) fn host(environment: &Environment) -> &str {
    environment.fact("host.name").unwrap_or(HOST)
}

/// Writes the `hist.parquet` of `slices` to `out`.
pub(crate) fn histograms<W: Write + Send>(
    slices: impl Iterator<Item = io::Result<HistogramSlice>>,
    host: &str,
    out: W,
) -> io::Result<W> {
    let host = ByteArray::from(host);
    let mut table = Table::new(out, HISTOGRAMS, &["bucket_lo_ns", "n"])?;
    let (mut waiting, mut rows) = (Vec::new(), 0);
    for slice in slices {
        let slice = slice?;
        rows += slice.histogram.buckets().count();
        waiting.push(slice);
        if rows >= GROUP_ROWS {
            table.group(std::mem::take(&mut rows), histogram_columns(&waiting, &host))?;
            waiting.clear();
        }
    }
    table.group(rows, histogram_columns(&waiting, &host))?;
    table.finish()
}

fn histogram_columns<'a>(slices: &'a [HistogramSlice], host: &'a ByteArray) -> [Column<'a>; 6] {
    let rows =
        || slices.iter().flat_map(|slice| slice.histogram.buckets().map(move |bucket| (slice, bucket)));
    let text = |of: fn(&HistogramSlice) -> &str| {
        let each =
            slices.iter().map(move |slice| (ByteArray::from(of(slice)), slice.histogram.buckets().count()));
        Column::Text(Box::new(each.flat_map(|(text, count)| std::iter::repeat_n(text, count))))
    };
    [
        Column::Real(Box::new(rows().map(|(slice, _)| slice.from_ns as f64 * 1e-9))),
        Column::Text(Box::new(rows().map(|_| host.clone()))),
        text(|slice| &slice.operation),
        text(|slice| slice.kind.word()),
        Column::Whole(Box::new(rows().map(|(_, (lowest_ns, _))| signed(lowest_ns)))),
        Column::Whole(Box::new(rows().map(|(_, (_, n))| signed(n)))),
    ]
}

/// Sum over all intervals of a `hist.parquet`, by operation and kind, as a query would compute it.
pub(crate) fn read_histogram_sums(bytes: &Bytes) -> Result<Vec<(String, LatencyKind, Histogram)>, Wrong> {
    let mut sums = BTreeMap::<(String, LatencyKind), Histogram>::new();
    for_each_group(bytes, |group, rows| {
        let (ops, kinds) = (read_text(group, 2, rows)?, read_text(group, 3, rows)?);
        let (lowest, counts) = (read_whole(group, 4, rows)?, read_whole(group, 5, rows)?);
        for (((op, kind), lowest_ns), n) in ops.into_iter().zip(kinds).zip(lowest).zip(counts) {
            let kind = word("kind", &kind, LatencyKind::from_word)?;
            let both = u64::try_from(lowest_ns).and_then(|lo| Ok((lo, u64::try_from(n)?)));
            let (lowest_ns, n) = both.map_err(|_| Wrong("a bucket is negative".to_owned()))?;
            sums.entry((op, kind)).or_default().record_n(lowest_ns, n);
        }
        Ok(true)
    })?;
    Ok(sums.into_iter().map(|((op, kind), sum)| (op, kind, sum)).collect())
}

/// Writes the `series.parquet` of `samples` to `out`.
pub(crate) fn samples<W: Write + Send>(
    mut samples: impl Iterator<Item = io::Result<Sample>>,
    out: W,
) -> io::Result<W> {
    let mut table = Table::new(out, SAMPLES, &["t_ms"])?;
    loop {
        let rows: Vec<Sample> = samples.by_ref().take(GROUP_ROWS).collect::<io::Result<_>>()?;
        if rows.is_empty() {
            return table.finish();
        }
        let text = |of: fn(&Sample) -> &str| {
            Column::Text(Box::new(rows.iter().map(move |s| ByteArray::from(of(s)))))
        };
        table.group(
            rows.len(),
            [
                Column::Whole(Box::new(rows.iter().map(|s| s.t_ms))),
                text(|s| &s.host),
                text(|s| &s.name),
                text(|s| &s.labels),
                Column::Real(Box::new(rows.iter().map(|s| s.value))),
            ],
        )?;
    }
}

/// Samples of a `series.parquet`, in the order of writing; missing if they would take too much memory.
///
/// - `memory_max`: limit of the memory, in bytes.
pub(crate) fn read_samples(
    bytes: &Bytes,
    memory_max: usize,
    watch: &Watch,
) -> Result<Maybe<Vec<Sample>>, Wrong> {
    let (mut samples, mut texts) = (Vec::<Sample>::new(), Texts::default());
    let empty = SharedText::default();
    let is_complete = for_each_group(bytes, |group, rows| {
        let from = samples.len();
        if (from + rows).saturating_mul(size_of::<Sample>()) + texts.bytes > memory_max {
            return Ok(false);
        }
        let row = |t_ms| Sample {
            t_ms,
            host: empty.clone(),
            name: empty.clone(),
            labels: empty.clone(),
            value: 0.0,
        };
        // Column by column: one page and one dictionary are in memory at a time.
        each_value::<Int64Type>(group, 0, rows, |_, t_ms| {
            samples.push(row(t_ms));
            watch.read(size_of::<Sample>())?;
            Ok(true)
        })?;
        let set: [fn(&mut Sample, SharedText); 3] =
            [|s, text| s.host = text, |s, text| s.name = text, |s, text| s.labels = text];
        for (column, set) in (1..).zip(set) {
            let is_complete = each_value::<ByteArrayType>(group, column, rows, |i, text| {
                let text = text.as_utf8().map_err(wrong)?;
                set(&mut samples[from + i], texts.shared(text));
                watch.read(text.len())?;
                let memory = texts.bytes + samples.len() * size_of::<Sample>();
                Ok(memory <= memory_max && texts.read_bytes <= TEXT_READ_MAX)
            })?;
            if !is_complete {
                return Ok(false);
            }
        }
        each_value::<DoubleType>(group, 4, rows, |i, value| {
            samples[from + i].value = value;
            Ok(true)
        })
    })?;
    Ok(if is_complete { Ok(samples) } else { Err(too_long()) })
}

/// Reason for the samples of a file that is too long.
pub(crate) fn too_long() -> Missing {
    let rows = SAMPLES_MEMORY_MAX / size_of::<Sample>();
    Missing::because(format!(
        "bakeoff reads up to {SAMPLES_FILE_MAX} bytes of series.parquet, and up to {rows} values of a run, \
         fewer with many different labels: read the file with an SQL engine"
    ))
}

/// The different texts of a file.
#[derive(Default)]
struct Texts {
    known: HashSet<SharedText>,
    /// Memory that they take.
    bytes: usize,
    /// Sum over all rows.
    read_bytes: usize,
}

impl Texts {
    fn shared(&mut self, text: &str) -> SharedText {
        self.read_bytes += text.len();
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let new = SharedText::from(text);
        self.bytes += text.len() + PER_TEXT;
        self.known.insert(new.clone());
        new
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).expect("counts and latencies are far below 2^63")
}

/// A Parquet file that is written group by group.
pub(crate) struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> Table<W> {
    /// `counting`: columns of numbers that hardly repeat, which are stored as differences instead of a
    /// dictionary.
    pub(crate) fn new(out: W, schema: &str, counting: &[&str]) -> io::Result<Self> {
        let level = ZstdLevel::try_new(3).expect("zstd has a level 3");
        let properties = counting.iter().fold(
            WriterProperties::builder().set_compression(Compression::ZSTD(level)),
            |properties, name| {
                let path = ColumnPath::from(*name);
                properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            },
        );
        let schema = Arc::new(parse_message_type(schema).expect("our schemas parse"));
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties.build()));
        Ok(Self { writer: writer.map_err(of_writing)? })
    }

    /// Adds rows; zero rows add nothing.
    pub(crate) fn group<const N: usize>(&mut self, rows: usize, columns: [Column<'_>; N]) -> io::Result<()> {
        if rows == 0 { Ok(()) } else { self.try_group(columns).map_err(of_writing) }
    }

    fn try_group<const N: usize>(&mut self, columns: [Column<'_>; N]) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for values in columns {
            let mut column = group.next_column()?.expect("as many columns as the schema has");
            match values {
                Column::Text(values) => write_all::<ByteArrayType>(&mut column, values)?,
                Column::Whole(values) => write_all::<Int64Type>(&mut column, values)?,
                Column::Real(values) => write_all::<DoubleType>(&mut column, values)?,
                Column::MaybeWhole(mut values) => loop {
                    let batch: Vec<Option<i64>> = values.by_ref().take(BATCH_ROWS).collect();
                    if batch.is_empty() {
                        break;
                    }
                    let levels: Vec<i16> = batch.iter().map(|value| i16::from(value.is_some())).collect();
                    let known: Vec<i64> = batch.into_iter().flatten().collect();
                    column.typed::<Int64Type>().write_batch(&known, Some(&levels), None)?;
                },
            }
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the rest; returns the inner writer.
    pub(crate) fn finish(self) -> io::Result<W> {
        self.writer.into_inner().map_err(of_writing)
    }
}

fn write_all<T: parquet::data_type::DataType>(
    column: &mut SerializedColumnWriter<'_>,
    mut values: Values<'_, T::T>,
) -> Result<(), ParquetError> {
    loop {
        let batch: Vec<T::T> = values.by_ref().take(BATCH_ROWS).collect();
        if batch.is_empty() {
            return Ok(());
        }
        column.typed::<T>().write_batch(&batch, None, None)?;
    }
}

/// Passes each group of rows to `each`, until that returns false; returns whether it never did.
pub(crate) fn for_each_group(
    bytes: &Bytes,
    each: impl FnMut(&dyn RowGroupReader, usize) -> Result<bool, Wrong>,
) -> Result<bool, Wrong> {
    // The Parquet reader panics on unexpected content.
    panics::as_damage(|| each_group(bytes, each))
}

fn each_group(
    bytes: &Bytes,
    mut each: impl FnMut(&dyn RowGroupReader, usize) -> Result<bool, Wrong>,
) -> Result<bool, Wrong> {
    pages::check_footer(bytes)?;
    let reader = SerializedFileReader::new(bytes.clone()).map_err(wrong)?;
    let rows_max = ROWS_MIN.max(bytes.len().saturating_mul(ROWS_PER_BYTE_MAX));
    let mut all = 0_usize;
    for i in 0..reader.num_row_groups() {
        let group = reader.get_row_group(i).map_err(wrong)?;
        let rows = group.metadata().num_rows();
        let rows = usize::try_from(rows).map_err(|_| Wrong("it has a negative number of rows".to_owned()))?;
        all = all.saturating_add(rows);
        if rows > GROUP_ROWS_MAX || all > rows_max {
            return Err(Wrong(format!("it states {all} rows, more than its size allows")));
        }
        pages::check(bytes, group.metadata().columns())?;
        if !each(&*group, rows)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// All values of a column of whole numbers, by its name.
pub(crate) fn read_whole_column(bytes: &Bytes, name: &str) -> Result<Vec<i64>, Wrong> {
    let mut values = Vec::new();
    for_each_group(bytes, |group, rows| {
        let mut columns = group.metadata().columns().iter();
        let column = columns.position(|c| c.column_path().string() == name);
        let column = column.ok_or_else(|| Wrong(format!("it has no column {name}")))?;
        values.extend(read_whole(group, column, rows)?);
        Ok(true)
    })?;
    Ok(values)
}

fn read_text(group: &dyn RowGroupReader, column: usize, rows: usize) -> Result<Vec<String>, Wrong> {
    let values: Vec<ByteArray> = read_column::<ByteArrayType>(group, column, rows)?;
    // A dictionary lets a few bytes stand for a long text in every row.
    if values.iter().map(ByteArray::len).sum::<usize>() > TEXT_BYTES_MAX {
        return Err(Wrong(format!("column {column} holds more than {TEXT_BYTES_MAX} bytes of text")));
    }
    values.iter().map(|v| v.as_utf8().map(str::to_owned).map_err(wrong)).collect()
}

fn read_whole(group: &dyn RowGroupReader, column: usize, rows: usize) -> Result<Vec<i64>, Wrong> {
    read_column::<Int64Type>(group, column, rows)
}

fn read_column<T: parquet::data_type::DataType>(
    group: &dyn RowGroupReader,
    column: usize,
    rows: usize,
) -> Result<Vec<T::T>, Wrong> {
    let mut values = Vec::with_capacity(rows);
    each_value::<T>(group, column, rows, |_, value| {
        values.push(value);
        Ok(true)
    })?;
    Ok(values)
}

/// Passes each value of a column with its row to `each`, until that returns false; returns whether it never
/// did.
pub(crate) fn each_value<T: parquet::data_type::DataType>(
    group: &dyn RowGroupReader,
    column: usize,
    rows: usize,
    mut each: impl FnMut(usize, T::T) -> Result<bool, Wrong>,
) -> Result<bool, Wrong> {
    let known = group.metadata().columns().get(column).map(ColumnChunkMetaData::column_type);
    if known != Some(T::get_physical_type()) {
        return Err(Wrong(format!("column {column} has the wrong type")));
    }
    let reader = group.get_column_reader(column).map_err(wrong)?;
    let mut reader = parquet::column::reader::get_typed_column_reader::<T>(reader);
    let (mut row, mut batch) = (0, Vec::with_capacity(BATCH_ROWS));
    while row < rows {
        let wanted = (rows - row).min(BATCH_ROWS);
        let (_, read, _) = reader.read_records(wanted, None, None, &mut batch).map_err(wrong)?;
        if read == 0 {
            return Err(Wrong(format!("column {column} ends early")));
        }
        for value in batch.drain(..) {
            if !each(row, value)? {
                return Ok(false);
            }
            row += 1;
        }
    }
    Ok(true)
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
pub(crate) fn wrong(error: ParquetError) -> Wrong {
    Wrong(error.to_string())
}

/// Extracts the I/O error from a Parquet error.
pub(crate) fn of_writing(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &Bytes) -> Result<Maybe<Vec<Sample>>, Wrong> {
        read_samples(bytes, SAMPLES_MEMORY_MAX, &Watch::new(None))
    }

    fn table_of(rows: &[Sample]) -> Bytes {
        samples(rows.iter().cloned().map(Ok), Vec::new()).unwrap().into()
    }

    fn histograms_of(slices: &[HistogramSlice]) -> Bytes {
        histograms(slices.iter().cloned().map(Ok), HOST, Vec::new()).unwrap().into()
    }

    #[test]
    fn samples_read_back_in_order() {
        let sample = |i: i64| Sample {
            t_ms: i * 1000 - 5,
            host: "höst".into(),
            name: format!("n{}", i % 3).into(),
            labels: if i % 2 == 0 { String::new() } else { format!("cpu={i}") }.into(),
            value: (i as f64).sqrt(),
        };
        for n in [0, 1, 1000] {
            let written: Vec<Sample> = (0..n).map(sample).collect();
            assert_eq!(read(&table_of(&written)), Ok(Ok(written)));
        }
    }

    #[test]
    fn the_rows_of_many_groups_sum_to_the_distributions() {
        let mut histogram = Histogram::new();
        (0..200_000u64).for_each(|i| histogram.record(i * 1_000));
        let slice = |i: u64| HistogramSlice {
            from_ns: i * 1_000_000_000,
            for_ns: 1_000_000_000,
            operation: "select".into(),
            kind: LatencyKind::Service,
            histogram: (&histogram).into(),
        };
        let slices: Vec<HistogramSlice> = (0..50).map(slice).collect();
        let rows: usize = slices.iter().map(|s| s.histogram.buckets().count()).sum();
        assert!(rows > GROUP_ROWS, "{rows} rows are more than one group");
        let mut sum = Histogram::new();
        for slice in &slices {
            sum.add(&slice.histogram.expand());
        }
        let read = read_histogram_sums(&histograms_of(&slices)).unwrap();
        assert_eq!(read, [("select".to_owned(), LatencyKind::Service, sum)]);
    }

    #[test]
    fn a_file_changed_anywhere_is_read_or_refused_without_a_panic() {
        let sample = |i: i64| Sample {
            t_ms: i,
            host: "h".into(),
            name: format!("n{}", i % 3).into(),
            labels: "".into(),
            value: i as f64,
        };
        let whole = table_of(&(0..40).map(sample).collect::<Vec<_>>()).to_vec();
        for at in 0..whole.len() {
            for change in [0x01, 0x08, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                let _ = read(&bytes.clone().into());
                let _ = read_histogram_sums(&bytes.into());
            }
            let _ = read(&whole[..at].to_vec().into());
        }
    }

    #[test]
    fn a_file_that_becomes_too_much_is_refused() {
        let row = |i: usize| Sample {
            t_ms: 0,
            host: "".into(),
            name: if i == 0 { "x".repeat(1 << 16) } else { String::new() }.into(),
            labels: "".into(),
            value: 0.0,
        };
        let refused = |rows: Vec<Sample>| read(&table_of(&rows)).unwrap_err().0;
        // 64 KiB of one text in each of 2,000 rows, as a dictionary of one entry, is one text in memory.
        assert_eq!(read(&table_of(&vec![row(0); 2_000])).unwrap().unwrap(), vec![row(0); 2_000]);
        let page = Sample { name: "x".repeat(40 << 20).into(), ..row(1) };
        assert!(refused(vec![page]).contains("a page header states"));
        assert!(refused(vec![row(1); ROWS_MIN + 1]).contains("more than its size allows"));
    }

    #[test]
    fn a_dictionary_that_states_more_values_than_it_has_is_refused() {
        let row = Sample { t_ms: 0, host: "h".into(), name: "n".into(), labels: "".into(), value: 0.0 };
        let mut bytes = table_of(&[row]).to_vec();
        // In the head of a page: the structure of a dictionary, with the number 1.
        let head = [0x4c, 0x15, 1 << 1];
        let at = bytes.windows(3).position(|found| found == head).unwrap();
        bytes[at + 2] = 63 << 1;
        let why = read(&bytes.into()).unwrap_err().0;
        assert!(why.contains("a dictionary states more values"), "{why}");
    }

    #[test]
    fn what_is_no_parquet_file_is_an_error() {
        assert!(read(&Bytes::from_static(b"PAR1 or so")).is_err());
        assert!(read(&histograms_of(&[])).is_ok_and(|s| s == Ok(Vec::new())));
    }
}
