//! Numbers over time, one series after another.

use std::borrow::Cow;
use std::collections::BTreeMap;

use record::run::Run;
use record::series::{Sample, SharedText, Thinned, ThinnedSeries};
use record::unit::NUMBER_MAX;

use crate::history::{SUBJECT_LABEL, UNIT_LABEL};

/// One series: the values of one name with one set of labels on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name of the quantity, ending in its unit.
    pub name: SharedText,
    /// The machine.
    pub host: SharedText,
    /// Labels that distinguish it from other series of the name; may be empty.
    pub labels: String,
    /// Number of values.
    pub values: u64,
    /// Seconds since the run's anchor and the value, in time order; at least one. Of a series with too many
    /// values, the means over equal parts of the run.
    pub points: Vec<(f64, f64)>,
    /// Mean of the values, each counted once, whatever the length of its interval.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// Most series of a run in views. A run of bakeoff has some hundreds.
pub const SERIES_MAX: usize = 2_000;

/// Series of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AllSeries {
    /// At most [`SERIES_MAX`] series, by name, then host, then labels.
    pub series: Vec<Series>,
    /// A sentence about what the series lack; `None` if they are complete.
    pub note: Option<String>,
}

/// Sorts the samples of a run into series.
///
/// An archive from elsewhere may have a million series, and values such as infinity: both are left out,
/// and the note says so.
pub fn series(run: &Run) -> AllSeries {
    let mut all = of_samples(&run.series);
    match (run.unread_series(), &run.thinned) {
        (Some(_), Some(thinned)) => all = of_thinned(thinned),
        (Some(why), None) => all.note = Some(format!("Numbers over time are left out: {why}.")),
        (None, _) => {}
    }
    all
}

fn of_thinned(thinned: &Thinned) -> AllSeries {
    let one = |one: &ThinnedSeries| Series {
        name: one.name.clone(),
        host: one.host.clone(),
        labels: one.labels.to_string(),
        values: one.values,
        points: one.points.iter().map(|(t_ms, value)| (*t_ms as f64 / 1e3, *value)).collect(),
        mean: one.mean,
        min: one.min,
        max: one.max,
    };
    let values: u64 = thinned.series.iter().map(|one| one.values).sum();
    let left_out = usize::try_from(thinned.no_numbers).unwrap_or(usize::MAX);
    let left_out = note(left_out, 0).map_or_else(String::new, |note| format!(" {note}"));
    let note = format!(
        "{values} values are too many to be drawn: points are means over equal parts of the run; the number of \
         values, mean, least and greatest are those of all.{left_out}"
    );
    AllSeries { series: thinned.series.iter().map(one).collect(), note: Some(note) }
}

fn of_samples(samples: &[Sample]) -> AllSeries {
    let mut sorted: BTreeMap<_, Vec<&Sample>> = BTreeMap::new();
    let (mut no_numbers, mut of_others) = (0_usize, 0_usize);
    for sample in samples {
        if sample.value.is_nan() || sample.value.abs() > NUMBER_MAX {
            no_numbers += 1;
            continue;
        }
        let key = (&sample.name, &sample.host, of_series(&sample.labels));
        if sorted.len() == SERIES_MAX && !sorted.contains_key(&key) {
            of_others += 1;
            continue;
        }
        sorted.entry(key).or_default().push(sample);
    }
    let series = sorted.into_iter().map(|((_, _, labels), samples)| of(samples, labels.into_owned()));
    AllSeries { series: series.collect(), note: note(no_numbers, of_others) }
}

fn note(no_numbers: usize, of_others: usize) -> Option<String> {
    let counts = [
        (of_others, format!("of series beyond the first {SERIES_MAX}")),
        (no_numbers, format!("that are not numbers up to {NUMBER_MAX:e}")),
    ];
    let parts: Vec<String> = counts
        .into_iter()
        .filter(|(values, _)| *values > 0)
        .map(|(values, which)| format!("{values} values {which}"))
        .collect();
    (!parts.is_empty()).then(|| format!("Left out: {} (`bakeoff runs export` has all).", parts.join(", ")))
}

/// Labels that distinguish a series. In an imported history the others describe a single value, such as its
/// commit.
fn of_series(labels: &str) -> Cow<'_, str> {
    if !labels.contains(SUBJECT_LABEL) {
        return labels.into();
    }
    let all = record::labels::read(labels);
    if !all.iter().any(|(name, _)| name == SUBJECT_LABEL) {
        return labels.into();
    }
    let own = all.iter().filter(|(name, _)| name == SUBJECT_LABEL || name == UNIT_LABEL);
    record::labels::written(own.map(|(name, value)| (name.as_str(), value.as_str()))).into()
}

/// - `samples`: of one series; at least one.
fn of(mut samples: Vec<&Sample>, labels: String) -> Series {
    samples.sort_by_key(|s| s.t_ms);
    let only = || samples.iter().map(|s| s.value);
    let first = samples[0];

    Series {
        name: first.name.clone(),
        host: first.host.clone(),
        labels,
        values: samples.len() as u64,
        mean: only().sum::<f64>() / samples.len() as f64,
        min: only().fold(f64::INFINITY, f64::min),
        max: only().fold(f64::NEG_INFINITY, f64::max),
        points: samples.iter().map(|s| (s.t_ms as f64 / 1e3, s.value)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(t_ms: i64, name: &str, labels: &str, value: f64) -> Sample {
        Sample { t_ms, host: "h".into(), name: name.into(), labels: labels.into(), value }
    }

    #[test]
    fn values_are_told_apart_by_name_and_labels_and_sorted_by_time() {
        let found = of_samples(&[
            sample(2_000, "b_per_s", "", 3.0),
            sample(1_000, "b_per_s", "", 1.0),
            sample(1_000, "a_ratio", "cpu=1", 0.5),
            sample(1_000, "a_ratio", "cpu=0", 0.25),
        ])
        .series;
        let told: Vec<_> =
            found.iter().map(|s| (s.name.as_str(), s.labels.as_str(), s.points.len())).collect();
        assert_eq!(told, [("a_ratio", "cpu=0", 1), ("a_ratio", "cpu=1", 1), ("b_per_s", "", 2)]);
        assert_eq!(found[2].points, [(1.0, 1.0), (2.0, 3.0)]);
        assert_eq!((found[2].mean, found[2].min, found[2].max), (2.0, 1.0, 3.0));
    }

    #[test]
    fn values_of_an_imported_history_with_their_own_commits_are_one_series() {
        let found = of_samples(&[
            sample(0, "time", "benchmark=sort%2C10,commit=a", 1.0),
            sample(1, "time", "benchmark=sort%2C10,commit=b", 2.0),
            sample(1, "time", "benchmark=hash,commit=b", 3.0),
            sample(2, "time", "benchmark=hash,unit=ticks,commit=b", 4.0),
        ])
        .series;
        let told: Vec<_> = found.iter().map(|s| (s.labels.as_str(), s.points.len())).collect();
        assert_eq!(
            told,
            [("benchmark=hash", 1), ("benchmark=hash,unit=ticks", 1), ("benchmark=sort%2C10", 2)]
        );
    }

    #[test]
    fn of_nothing_there_is_no_series() {
        assert_eq!(of_samples(&[]), AllSeries::default());
    }

    #[test]
    fn values_that_no_measurement_has_are_left_out_and_counted() {
        let values = [1.0, f64::NAN, f64::MAX, -1e308, f64::INFINITY, 3.0];
        let found = of_samples(&values.map(|value| sample(0, "x", "", value)));
        assert_eq!((found.series[0].points.len(), found.series[0].mean), (2, 2.0));
        let note = found.note.unwrap_or_default();
        assert!(note.contains("4 values that are not numbers up to 1e60"), "{note}");
    }

    #[test]
    fn fifty_thousand_series_are_two_thousand_and_a_sentence() {
        let all: Vec<Sample> =
            (0..100_000).map(|i| sample(0, "x", &format!("n={}", i % 50_000), 1.0)).collect();
        let found = of_samples(&all);
        assert_eq!(found.series.len(), SERIES_MAX);
        assert!(found.series.iter().all(|series| series.points.len() == 2));
        let note = found.note.unwrap_or_default();
        assert!(note.contains("96000 values of series beyond the first 2000"), "{note}");
    }
}
