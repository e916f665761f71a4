//! A number over time, as a document.

use record::series::Sample;
use serde::{Deserialize, Serialize};

use super::Real;

/// A sample with its texts as `&str`, or as `String` after reading.
#[derive(Serialize, Deserialize)]
pub(crate) struct SampleForm<T> {
    t_ms: i64,
    host: T,
    name: T,
    labels: T,
    value: Real,
}

impl<'a> SampleForm<&'a str> {
    pub(crate) fn of(sample: &'a Sample) -> Self {
        let Sample { t_ms, host, name, labels, value } = sample;
        Self { t_ms: *t_ms, host, name, labels, value: Real(*value) }
    }
}

impl SampleForm<String> {
    pub(crate) fn read(self) -> Sample {
        let Self { t_ms, host, name, labels, value: Real(value) } = self;
        Sample { t_ms, host: host.into(), name: name.into(), labels: labels.into(), value }
    }
}
