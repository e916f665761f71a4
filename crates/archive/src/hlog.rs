//! Formats of `HdrHistogram`: the interval log (`.hlog`) and the percentile text (`.hgrm`).
//!
//! Any reader of log version 1.3 with V2 histograms reads ours (Java, Python, C, Go, the plotter). Timestamps
//! have nine decimals instead of the usual three, so that the intervals read back to the nanosecond.
//!
//! # Source
//!
//! `HistogramLogWriter`, `HistogramLogReader` and `AbstractHistogram.outputPercentileDistribution` of the
//! Java implementation define both formats.

use std::io::{self, BufRead, Read as _, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use record::clock::WallAnchor;
use record::histogram::{Bound, CensoredHistogram, CompactHistogram, Histogram, SIGNIFICANT_DIGITS};
use record::load::LoadRecord;
use record::series::{HistogramSlice, LatencyKind};

use crate::Spool;
use crate::reader::LINE_BYTES_MAX;
use crate::schema::Wrong;

/// Nanoseconds in the unit of the log's third column and of the percentile text: milliseconds, as is usual.
const NS_PER_MS: f64 = 1e6;
const NS_PER_S: u64 = 1_000_000_000;
/// Lines of the percentile text between a percentile and the one half as far from 100 %, as in other writers.
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// Cookie and length before the deflated part of a V2 histogram, in bytes.
const COMPRESSED_HEAD_BYTES: usize = 8;
/// Head of an uncompressed V2 histogram, in bytes.
const HEAD_BYTES: usize = 40;
/// Upper bound of the longest V2 histogram of our layout: 9 bytes for each of its 56,000 buckets.
const HISTOGRAM_BYTES_MAX: u64 = 1 << 20;
/// Buckets allowed in any log, each up to 20 bytes in memory.
const BUCKETS_MIN: u64 = 8 << 20;
/// Buckets allowed per byte of a larger log: real ones have about one.
const BUCKETS_PER_BYTE_MAX: u64 = 16;

/// Writes the distributions of a load as an interval log, one line per interval and tag.
///
/// Tags: `response`, `service`, `wait`, `lateness`, `response-at-least` (events that had not ended),
/// `failure` (failed tries); for single operations `service.<operation>`. Times count from the start of the
/// measured phase, which the header of the log gives as a date.
///
/// - `spool`: intervals before those of `record`.
///
/// # Errors
///
/// `out`, or the disk with the spool, fails.
pub fn write(record: &LoadRecord, spool: &Spool, anchor: WallAnchor, out: &mut dyn Write) -> io::Result<()> {
    let start_unix_ns = anchor.unix_ns_at(record.measured_from_ns);
    let start = format!("{}.{:09}", start_unix_ns / NS_PER_S, start_unix_ns % NS_PER_S);
    writeln!(out, "#[Histogram log format version 1.3]")?;
    writeln!(out, "#[StartTime: {start} (seconds since epoch), {}]", date(start_unix_ns))?;
    writeln!(out, "#[BaseTime: {start} (seconds since epoch)]")?;
    writeln!(out, r#""StartTimestamp","Interval_Length","Interval_Max","Interval_CompressedHistogram""#)?;
    for slice in all_slices(record, spool) {
        let HistogramSlice { from_ns, for_ns, operation, kind, histogram } = slice?;
        let histogram = histogram.expand();
        let max_ms = histogram.quantile_ns(1.0).map_or(0.0, |ns| ns as f64 / NS_PER_MS);
        let (tag, payload) = (tag(kind, &operation), encode(&histogram));
        writeln!(out, "Tag={tag},{},{},{max_ms:.3},{payload}", seconds(from_ns), seconds(for_ns))?;
    }
    Ok(())
}

/// Distributions of a load by interval: those of `spool`, then those of `record`.
pub(crate) fn all_slices<'a>(
    record: &'a LoadRecord,
    spool: &'a Spool,
) -> impl Iterator<Item = io::Result<HistogramSlice>> + 'a {
    spool.slices().chain(record.slices.iter().cloned().map(Ok))
}

/// Reads the distributions of an interval log that [`write()`] wrote, line by line, and passes each to
/// `each`.
///
/// - `packed_bytes`: size of the packed file, which limits the number of buckets.
pub(crate) fn read(
    mut log: impl BufRead,
    packed_bytes: u64,
    each: &mut dyn FnMut(HistogramSlice),
) -> Result<(), Wrong> {
    let buckets_max = BUCKETS_MIN.max(packed_bytes.saturating_mul(BUCKETS_PER_BYTE_MAX));
    let (mut buckets, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let read = log.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|e| Wrong(e.to_string()))? == 0 {
            return Ok(());
        }
        for entry in IntervalLogIterator::new(&line) {
            let entry = entry.map_err(|e| Wrong(format!("not an interval log: {e:?}")))?;
            let LogEntry::Interval(line) = entry else { continue };
            let tag = line.tag().ok_or_else(|| Wrong("a line has no tag".to_owned()))?;
            let (kind, operation) = untag(tag.as_str())?;
            let histogram = CompactHistogram::from(decode(line.encoded_histogram())?);
            buckets += histogram.buckets().count() as u64;
            if buckets > buckets_max {
                return Err(Wrong(format!(
                    "its histograms have more than {buckets_max} buckets, the limit for a file of this size"
                )));
            }
            let from_ns = crate::schema::ns(line.start_timestamp());
            let for_ns = crate::schema::ns(line.duration());
            each(HistogramSlice { from_ns, for_ns, operation, kind, histogram });
        }
    }
}

/// Writes a distribution as percentile text for plotters of `.hgrm` files, with values in milliseconds.
///
/// A fifth column marks bounds: `>=` lower ones, which come from events that had not ended, `<=` upper ones,
/// of which the generator made most, and `~` both. Plotters that expect four columns skip such lines, and so
/// draw only known values.
///
/// - `is_made`: whether the generator made most of the value at a quantile.
///
/// # Errors
///
/// `out` fails.
pub fn write_hgrm(
    distribution: &CensoredHistogram,
    is_made: impl Fn(f64, u64) -> bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let merged = distribution.merged();
    let hdr = merged.as_hdr();
    let exact_below_ns = distribution.exact_below_ns().unwrap_or(u64::MAX);
    write!(out, "{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let mut has_made = false;
    for step in hdr.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        let quantile = step.quantile_iterated_to();
        let Some((_, value_ns)) = merged.bucket_of_rank(rank_of(quantile, merged.count())) else { break };
        let (value_ms, count) = (value_ns as f64 / NS_PER_MS, merged.count_at_or_below(value_ns));
        write!(out, "{value_ms:12.3} {quantile:2.12} {count:10}")?;
        if quantile < 1.0 {
            write!(out, " {:14.2}", 1.0 / (1.0 - quantile))?;
        }
        let is_lower = hdr.lowest_equivalent(value_ns) >= exact_below_ns;
        let is_upper = is_made(quantile, value_ns);
        has_made |= is_upper;
        match (Bound::of(is_lower, is_upper), quantile < 1.0) {
            (Bound::Exact, _) => writeln!(out)?,
            (bound, true) => writeln!(out, " {}", bound.mark())?,
            // The last line needs its fourth column, or the mark would take its place.
            (bound, false) => writeln!(out, "            inf {}", bound.mark())?,
        }
    }
    let ms = |ns: f64| ns / NS_PER_MS;
    let max = if hdr.is_empty() { 0.0 } else { hdr.max() as f64 };
    if !distribution.at_least.is_empty() {
        let unfinished = distribution.at_least.count();
        writeln!(out, "#[Unfinished = {unfinished:9}, lines marked >=, mean and maximum are lower bounds]")?;
    }
    if has_made {
        writeln!(
            out,
            "#[Generator = <= marks upper bounds, mostly the generator's delay; at ~ the true value may be above or below]"
        )?;
    }
    writeln!(out, "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]", ms(hdr.mean()), ms(hdr.stdev()))?;
    writeln!(out, "#[Max     = {:12.3}, Total count    = {:12}]", ms(max), hdr.len())?;
    writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", hdr.buckets(), sub_buckets(&hdr))
}

/// Place, from 1, of the smallest value at or above a share of all values.
///
/// The iterator over quantiles adds them up, and so may miss the exact rank by a rounding error: at 0.9 of
/// 300 values it has the 271st.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the count, at least 1")]
fn rank_of(quantile: f64, count: u64) -> u64 {
    (quantile * count as f64 * (1.0 - 1e-13)).ceil().max(1.0) as u64
}

/// Number of linear steps within a bucket: the smallest power of two that keeps the digits.
fn sub_buckets(hdr: &hdrhistogram::Histogram<u64>) -> u64 {
    (2 * 10_u64.pow(u32::from(hdr.sigfig()))).next_power_of_two()
}

/// Encodes a distribution as text: `HdrHistogram` V2, deflated, base64.
pub(crate) fn encode(histogram: &Histogram) -> String {
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(&histogram.as_hdr(), &mut bytes);
    written.expect("counts are far below 2^63, and a Vec takes all that is written to it");
    STANDARD.encode(bytes)
}

/// The inverse of [`encode`].
pub(crate) fn decode(text: &str) -> Result<Histogram, Wrong> {
    let bytes = STANDARD.decode(text).map_err(|e| Wrong(format!("a histogram is not base64: {e}")))?;
    let plain = inflated(&bytes)?;
    let hdr = Deserializer::new().deserialize::<u64, _>(&mut &plain[..]);
    hdr.map(|h| Histogram::from_hdr(&h)).map_err(|e| Wrong(format!("a histogram is unreadable: {e}")))
}

/// Empty distribution, which takes as little memory as a decoded one.
pub(crate) fn empty() -> Histogram {
    Histogram::from_hdr(&Histogram::new().as_hdr())
}

/// Uncompressed V2 form of `bytes`. Lengths and bounds in its header are checked here, because the decoder
/// trusts them.
fn inflated(bytes: &[u8]) -> Result<Vec<u8>, Wrong> {
    let wrong = |what: &str| Wrong(format!("a histogram is unreadable: {what}"));
    let packed = bytes.get(COMPRESSED_HEAD_BYTES..).ok_or_else(|| wrong("it has no header"))?;
    let mut plain = Vec::new();
    let mut inflating = ZlibDecoder::new(packed).take(HISTOGRAM_BYTES_MAX + 1);
    inflating.read_to_end(&mut plain).map_err(|e| wrong(&e.to_string()))?;
    if plain.len() as u64 > HISTOGRAM_BYTES_MAX {
        return Err(wrong("it unpacks to more than the largest possible histogram"));
    }
    let word = |at: usize| Some(u32::from_be_bytes(plain.get(at..at + 4)?.try_into().ok()?));
    let (Some(payload_bytes), Some(digits)) = (word(4), word(12)) else {
        return Err(wrong("its header is truncated"));
    };
    if payload_bytes as usize > plain.len().saturating_sub(HEAD_BYTES) {
        return Err(wrong("its header states more bytes than it has"));
    }
    if digits > u32::from(SIGNIFICANT_DIGITS) {
        return Err(wrong("it has more significant digits than bakeoff's histograms"));
    }
    Ok(plain)
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / NS_PER_S, ns % NS_PER_S)
}

fn date(unix_ns: u64) -> String {
    let date = jiff::Timestamp::from_nanosecond(i128::from(unix_ns));
    date.expect("64 bits of nanoseconds end in the year 2554, jiff's dates in 9999").to_string()
}

fn tag(kind: LatencyKind, operation: &str) -> String {
    if operation.is_empty() {
        kind.word().to_owned()
    } else {
        format!("{}.{}", kind.word(), escape(operation))
    }
}

fn untag(tag: &str) -> Result<(LatencyKind, String), Wrong> {
    let (kind, operation) = tag.split_once('.').unwrap_or((tag, ""));
    let kind = crate::schema::word("tag", kind, LatencyKind::from_word)?;
    let operation = unescape(operation).ok_or_else(|| Wrong(format!("unknown tag `{tag}`")))?;
    Ok((kind, operation))
}

/// Escapes a tag as in a URL (`%2C`): it ends at a comma and must not contain blanks.
fn escape(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_graphic() && b != b',' && b != b'%';
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let digits = str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_reads_back_bucket_for_bucket() {
        let mut h = Histogram::new();
        assert_eq!(decode(&encode(&h)), Ok(h.clone()));
        for i in 0..20_000u64 {
            h.record(i * i * 7 + 1);
        }
        h.record_n(u64::MAX, 3);
        h.record_n(1, 1 << 40);
        let again = decode(&encode(&h)).unwrap();
        assert_eq!(again, h);
        assert!(again.buckets().eq(h.buckets()));
    }

    #[test]
    fn what_is_not_a_histogram_is_an_error_and_no_panic() {
        for text in ["", "AAAA", "not base64!", "HISTFAAAAA=="] {
            assert!(decode(text).is_err(), "{text}");
        }
        assert!(read(&b"1.0,2.0,3.0,AAAA\n"[..], 17, &mut |_| {}).is_err());
        assert!(read(&b"nonsense\n"[..], 9, &mut |_| {}).is_err());
    }

    #[test]
    fn a_histogram_that_announces_gigabytes_is_refused_before_they_are_taken() {
        let mut h = Histogram::new();
        (0..1000u64).for_each(|i| h.record(i * i));
        let whole = STANDARD.decode(encode(&h)).unwrap();
        let plain = inflated(&whole).unwrap();
        let packed = |plain: &[u8]| {
            let mut out = whole[..COMPRESSED_HEAD_BYTES].to_vec();
            let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            deflate.write_all(plain).unwrap();
            let deflated = deflate.finish().unwrap();
            out[4..8].copy_from_slice(&u32::try_from(deflated.len()).unwrap().to_be_bytes());
            out.extend(deflated);
            STANDARD.encode(out)
        };
        assert_eq!(decode(&packed(&plain)), Ok(h));
        let changed = |at: usize, bytes: [u8; 4]| {
            let mut plain = plain.clone();
            plain[at..at + 4].copy_from_slice(&bytes);
            decode(&packed(&plain))
        };
        assert!(changed(4, [0xff; 4]).unwrap_err().0.contains("states more bytes"));
        assert!(changed(12, [0, 0, 0, 5]).unwrap_err().0.contains("digits"));
        assert!(decode(&packed(&vec![0; 2 << 20])).unwrap_err().0.contains("more than the largest"));
        for at in 0..plain.len().min(200) {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut plain = plain.clone();
                plain[at] = byte;
                let _ = decode(&packed(&plain));
            }
        }
    }

    #[test]
    fn a_line_of_percentile_text_has_the_value_and_the_count_of_its_rank() {
        for events in [300_u64, 600, 900] {
            let mut distribution = CensoredHistogram::default();
            // Each in a separate bucket, exact to three digits.
            (1..=events).for_each(|rank| distribution.known.record(rank * 1_000_000));
            let mut out = Vec::new();
            write_hgrm(&distribution, |_, _| false, &mut out).unwrap();
            let mut lines = 0;
            for line in String::from_utf8(out).unwrap().lines().skip(2).filter(|line| !line.starts_with('#'))
            {
                let fields: Vec<f64> = line.split_whitespace().map(|f| f.parse().unwrap()).collect();
                let rank = (fields[1] * events as f64 - 1e-6).ceil().max(1.0);
                assert!(
                    (fields[0] / rank - 1.0).abs() < 2e-3 && (fields[2] - rank).abs() < 0.5,
                    "{events}: {line}"
                );
                lines += 1;
            }
            assert!(lines > 40);
        }
    }

    #[test]
    fn a_percentile_that_unfinished_events_reach_is_marked_in_percentile_text() {
        let mut distribution = CensoredHistogram::default();
        distribution.known.record_n(1_000_000, 903);
        let text = |distribution: &CensoredHistogram| {
            let mut out = Vec::new();
            write_hgrm(distribution, |_, _| false, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!text(&distribution).contains(">="));
        (0..97).for_each(|i| distribution.at_least.record(5_000_000 + i * 1_000_000));
        let text = text(&distribution);
        let mut marks = 0;
        for line in text.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let Some(quantile) = fields.get(1).and_then(|f| f.parse::<f64>().ok()) else { continue };
            let is_bound = quantile > 0.903;
            assert_eq!(fields.len() == 5 && fields[4] == ">=", is_bound, "{line}");
            marks += u32::from(is_bound);
        }
        assert!(marks > 5 && text.contains("#[Unfinished =        97"), "{text}");
    }

    #[test]
    fn a_percentile_that_the_generator_made_is_marked_in_percentile_text() {
        let mut distribution = CensoredHistogram::default();
        distribution.known.record_n(1_000_000, 900);
        distribution.known.record_n(24_000_000, 90);
        distribution.at_least.record_n(30_000_000, 10);
        let server_part: Histogram = [(1_000_000, 990), (30_000_000, 10)].into_iter().collect();
        let mut out = Vec::new();
        let is_made = |quantile: f64, ns: u64| 2 * server_part.quantile_ns(quantile).unwrap() < ns;
        write_hgrm(&distribution, is_made, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let mark_at = |least: f64| {
            let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let mut at = lines
                .filter(|fields| fields.get(1).and_then(|f| f.parse().ok()).is_some_and(|q: f64| q >= least));
            at.next().unwrap().get(4).map(|mark| (*mark).to_owned())
        };
        assert_eq!(mark_at(0.5), None);
        assert_eq!(mark_at(0.95).as_deref(), Some("<="), "{text}");
        assert_eq!(mark_at(1.0).as_deref(), Some(">="), "{text}");
        assert!(text.contains("#[Generator = "), "{text}");
        // Of both kinds at once.
        let mut out = Vec::new();
        write_hgrm(&distribution, |_, _| true, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().any(|line| line.ends_with(" inf ~")), "{text}");
    }

    #[test]
    fn any_operation_survives_as_a_tag() {
        for operation in ["", "select", "a,b c%d", "range.sum", "größer\n", "%2C"] {
            let tag = tag(LatencyKind::Service, operation);
            assert!(tag.bytes().all(|b| b.is_ascii_graphic() && b != b','), "{tag}");
            assert_eq!(untag(&tag), Ok((LatencyKind::Service, operation.to_owned())));
        }
        assert!(untag("latency").is_err());
        assert!(untag("service.%zz").is_err());
    }
}
