//! Numbers over time, one series after another.

use std::borrow::Cow;
use std::collections::BTreeMap;

use record::series::Sample;

use crate::history::{SUBJECT_LABEL, UNIT_LABEL};

/// One series: the values of one name with one set of labels on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name of the quantity, ending in its unit.
    pub name: String,
    /// The machine.
    pub host: String,
    /// Labels that distinguish it from other series of the name; may be empty.
    pub labels: String,
    /// Seconds since the run's anchor and the value, in time order; at least one.
    pub points: Vec<(f64, f64)>,
    /// Mean of the values, each counted once, whatever the length of its interval.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// Sorts the samples into series, by name, then host, then labels.
///
/// - `samples`: in any order; values are finite.
pub fn series(samples: &[Sample]) -> Vec<Series> {
    let mut sorted: BTreeMap<_, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        assert!(sample.value.is_finite(), "{} is {}", sample.name, sample.value);
        let labels = of_series(&sample.labels);
        sorted.entry((&sample.name, &sample.host, labels)).or_default().push(sample);
    }
    sorted.into_iter().map(|((_, _, labels), samples)| of(samples, labels.into_owned())).collect()
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
        let found = series(&[
            sample(2_000, "b_per_s", "", 3.0),
            sample(1_000, "b_per_s", "", 1.0),
            sample(1_000, "a_ratio", "cpu=1", 0.5),
            sample(1_000, "a_ratio", "cpu=0", 0.25),
        ]);
        let told: Vec<_> =
            found.iter().map(|s| (s.name.as_str(), s.labels.as_str(), s.points.len())).collect();
        assert_eq!(told, [("a_ratio", "cpu=0", 1), ("a_ratio", "cpu=1", 1), ("b_per_s", "", 2)]);
        assert_eq!(found[2].points, [(1.0, 1.0), (2.0, 3.0)]);
        assert_eq!((found[2].mean, found[2].min, found[2].max), (2.0, 1.0, 3.0));
    }

    #[test]
    fn values_of_an_imported_history_with_their_own_commits_are_one_series() {
        let found = series(&[
            sample(0, "time", "benchmark=sort%2C10,commit=a", 1.0),
            sample(1, "time", "benchmark=sort%2C10,commit=b", 2.0),
            sample(1, "time", "benchmark=hash,commit=b", 3.0),
            sample(2, "time", "benchmark=hash,unit=ticks,commit=b", 4.0),
        ]);
        let told: Vec<_> = found.iter().map(|s| (s.labels.as_str(), s.points.len())).collect();
        assert_eq!(
            told,
            [("benchmark=hash", 1), ("benchmark=hash,unit=ticks", 1), ("benchmark=sort%2C10", 2)]
        );
    }

    #[test]
    fn of_nothing_there_is_no_series() {
        assert_eq!(series(&[]), []);
    }
}
