//! Series of a run with more numbers over time than memory holds, thinned for a drawing while they are read.
//!
//! The file is read twice: for the times of its first and last value, and for the sums in each part of the
//! time between them. So the order of its rows does not matter, and the sums over a whole series are exact.

use std::collections::HashMap;

use bytes::Bytes;
use parquet::data_type::{ByteArrayType, DoubleType, Int64Type};
use parquet::file::reader::RowGroupReader;
use record::series::{SharedText, Thinned, ThinnedSeries};
use record::unit::NUMBER_MAX;

use crate::schema::Wrong;
use crate::series::{each_value, for_each_group, wrong};
use crate::watch::Watch;

/// Maximum number of series; of more, none is thinned.
const SERIES_MAX: usize = 2_000;
/// Maximum number of different texts, and of their bytes.
const TEXTS_MAX: usize = 2 * SERIES_MAX;
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Maximum number of rows, which bounds the time: ten times those that memory holds.
const ROWS_MAX: usize = 26 << 20;

/// Thinned series of a `series.parquet`; `None` if it has too many series, or rows.
///
/// - `places`: number of parts of the time.
pub(crate) fn read(bytes: &Bytes, places: usize, watch: &Watch) -> Result<Option<Thinned>, Wrong> {
    assert!(places > 0, "a drawing has places");
    let Some(times) = times(bytes)? else { return Ok(None) };
    let mut sums = Sums { places, times, texts: Texts::default(), series: HashMap::new(), no_numbers: 0 };
    let is_complete = for_each_group(bytes, |group, rows| {
        watch.read(rows.saturating_mul(size_of::<Row>()))?;
        sums.add(group, rows)
    })?;
    Ok(is_complete.then(|| sums.finish()))
}

/// Times of the first and of the last value, in milliseconds; `None` if there are too many rows, or none.
fn times(bytes: &Bytes) -> Result<Option<(i64, i64)>, Wrong> {
    let (mut first, mut last, mut all) = (i64::MAX, i64::MIN, 0_usize);
    let is_complete = for_each_group(bytes, |group, rows| {
        all = all.saturating_add(rows);
        if all > ROWS_MAX {
            return Ok(false);
        }
        each_value::<Int64Type>(group, 0, rows, |_, t_ms| {
            (first, last) = (first.min(t_ms), last.max(t_ms));
            Ok(true)
        })
    })?;
    Ok((is_complete && all > 0).then_some((first, last)))
}

/// A row, with the numbers of its host, name and labels.
#[derive(Clone, Copy, Default)]
struct Row {
    t_ms: i64,
    texts: [u32; 3],
}

/// Sums by series, and by part of the time.
struct Sums {
    places: usize,
    times: (i64, i64),
    texts: Texts,
    series: HashMap<[u32; 3], Series>,
    no_numbers: u64,
}

struct Series {
    whole: Sum,
    parts: Vec<Sum>,
    least: f64,
    greatest: f64,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    total: f64,
    /// Time of the last value.
    until_ms: i64,
}

impl Sums {
    /// Adds the rows of a group; returns whether there is room for them.
    fn add(&mut self, group: &dyn RowGroupReader, rows: usize) -> Result<bool, Wrong> {
        let mut all = vec![Row::default(); rows];
        each_value::<Int64Type>(group, 0, rows, |i, t_ms| {
            all[i].t_ms = t_ms;
            Ok(true)
        })?;
        for column in 0..3 {
            let texts = &mut self.texts;
            let is_complete = each_value::<ByteArrayType>(group, column + 1, rows, |i, text| {
                let Some(number) = texts.number(text.as_utf8().map_err(wrong)?) else { return Ok(false) };
                all[i].texts[column] = number;
                Ok(true)
            })?;
            if !is_complete {
                return Ok(false);
            }
        }
        each_value::<DoubleType>(group, 4, rows, |i, value| Ok(self.put(all[i], value)))
    }

    fn put(&mut self, row: Row, value: f64) -> bool {
        if value.is_nan() || value.abs() > NUMBER_MAX {
            self.no_numbers += 1;
            return true;
        }
        if self.series.len() == SERIES_MAX && !self.series.contains_key(&row.texts) {
            return false;
        }
        let part = self.part(row.t_ms);
        let series = self.series.entry(row.texts).or_insert_with(|| Series {
            whole: Sum::default(),
            parts: vec![Sum::default(); self.places],
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
        });
        (series.least, series.greatest) = (series.least.min(value), series.greatest.max(value));
        series.whole.add(row.t_ms, value);
        series.parts[part].add(row.t_ms, value);
        true
    }

    fn part(&self, t_ms: i64) -> usize {
        let (first, last) = self.times;
        let [since, span] = [t_ms, last].map(|t_ms| i128::from(t_ms) - i128::from(first));
        let part = since * self.places as i128 / (span + 1);
        usize::try_from(part).expect("each time lies between the first and the last")
    }

    fn finish(self) -> Thinned {
        let text = |number: u32| self.texts.all[number as usize].clone();
        let one = |([host, name, labels], series): (&[u32; 3], &Series)| ThinnedSeries {
            host: text(*host),
            name: text(*name),
            labels: text(*labels),
            values: series.whole.count,
            mean: series.whole.mean(),
            min: series.least,
            max: series.greatest,
            points: series
                .parts
                .iter()
                .filter(|part| part.count > 0)
                .map(|part| (part.until_ms, part.mean()))
                .collect(),
        };
        let mut series: Vec<ThinnedSeries> = self.series.iter().map(one).collect();
        series.sort_by(|a, b| (&a.name, &a.host, &a.labels).cmp(&(&b.name, &b.host, &b.labels)));
        Thinned { series, no_numbers: self.no_numbers }
    }
}

impl Sum {
    fn add(&mut self, t_ms: i64, value: f64) {
        self.until_ms = if self.count == 0 { t_ms } else { self.until_ms.max(t_ms) };
        self.count += 1;
        self.total += value;
    }

    fn mean(&self) -> f64 {
        self.total / self.count as f64
    }
}

/// The different texts, with their numbers.
#[derive(Default)]
struct Texts {
    numbers: HashMap<SharedText, u32>,
    all: Vec<SharedText>,
    bytes: usize,
}

impl Texts {
    /// Number of a text; `None` if there are too many.
    fn number(&mut self, text: &str) -> Option<u32> {
        if let Some(number) = self.numbers.get(text) {
            return Some(*number);
        }
        self.bytes += text.len();
        if self.all.len() == TEXTS_MAX || self.bytes > TEXT_BYTES_MAX {
            return None;
        }
        let (new, number) = (SharedText::from(text), u32::try_from(self.all.len()).ok()?);
        self.all.push(new.clone());
        self.numbers.insert(new, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use record::series::Sample;

    use super::*;

    fn table(rows: impl Iterator<Item = Sample>) -> Bytes {
        crate::series::samples(rows.map(Ok), Vec::new()).unwrap().into()
    }

    fn sample(t_ms: i64, labels: &str, value: f64) -> Sample {
        Sample { t_ms, host: "h".into(), name: "n".into(), labels: labels.into(), value }
    }

    fn thinned(rows: impl Iterator<Item = Sample>, places: usize) -> Option<Thinned> {
        read(&table(rows), places, &Watch::new(None)).unwrap()
    }

    #[test]
    fn sums_over_a_series_are_exact_and_its_points_are_means_whatever_the_order() {
        let values: Vec<Sample> = (0..100_000)
            .map(|i: i64| {
                let labels = if i % 2 == 0 { "cpu=0" } else { "cpu=1" };
                // Two hosts' numbers follow each other in the file.
                sample((i * 7_919) % 100_000, labels, if i == 500 { -1e6 } else { (i % 5) as f64 })
            })
            .collect();
        let found = thinned(values.iter().cloned(), 10).unwrap();
        assert_eq!((found.series.len(), found.no_numbers), (2, 0));
        let of: Vec<&Sample> = values.iter().filter(|s| s.labels == "cpu=0").collect();
        let one = &found.series[0];
        assert_eq!((one.labels.as_str(), one.values, one.min, one.max), ("cpu=0", 50_000, -1e6, 4.0));
        let mean = of.iter().map(|s| s.value).sum::<f64>() / 50_000.0;
        assert!((one.mean - mean).abs() < 1e-9, "{} {mean}", one.mean);
        assert_eq!(one.points.len(), 10);
        let third: Vec<&&Sample> = of.iter().filter(|s| (20_000..30_000).contains(&s.t_ms)).collect();
        let mean = third.iter().map(|s| s.value).sum::<f64>() / third.len() as f64;
        assert!((one.points[2].1 - mean).abs() < 1e-9, "{:?} {mean}", one.points[2]);
        assert_eq!(one.points[2].0, third.iter().map(|s| s.t_ms).max().unwrap());
    }

    #[test]
    fn a_part_without_a_value_has_no_point_and_values_that_no_measurement_has_are_counted() {
        let values = [(i64::MIN, 1.0), (0, f64::NAN), (5, 1e61), (i64::MAX, 3.0)];
        let found = thinned(values.into_iter().map(|(t_ms, value)| sample(t_ms, "", value)), 4).unwrap();
        assert_eq!(found.series[0].points, [(i64::MIN, 1.0), (i64::MAX, 3.0)]);
        assert_eq!((found.series[0].values, found.series[0].mean, found.no_numbers), (2, 2.0, 2));
    }

    #[test]
    fn too_many_series_are_not_thinned() {
        let rows = |n: i64| (0..n).map(|i| sample(i, &format!("n={i}"), 1.0));
        assert_eq!(thinned(rows(2_000), 10).map(|found| found.series.len()), Some(2_000));
        assert_eq!(thinned(rows(2_001), 10), None);
        assert_eq!(thinned(rows(0), 10), None);
    }
}
