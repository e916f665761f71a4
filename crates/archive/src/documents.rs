//! Loads and their intervals as documents, in the form in which the archive stores them: for records that
//! travel between machines.

use record::histogram::CompactHistogram;
use record::load::{LoadRecord, LoadSettings};
use record::series::{HistogramSlice, LatencyKind};
use serde::{Deserialize, Serialize};

use crate::hlog;
use crate::schema::Wrong;
use crate::schema::load::{self as schema, Load};

/// A document that is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoDocument(String);

impl From<Wrong> for NoDocument {
    fn from(wrong: Wrong) -> Self {
        Self(wrong.0)
    }
}

/// Form of a load, without its slices; its target is masked.
pub fn of_load(load: &LoadRecord) -> serde_json::Value {
    serde_json::to_value(Load::of(load)).expect("the form has no map with keys that are no strings")
}

/// The inverse of [`of_load`].
///
/// # Errors
///
/// [`NoDocument`] if the document is another one.
pub fn load(document: serde_json::Value) -> Result<LoadRecord, NoDocument> {
    let form: Load = serde_json::from_value(document).map_err(|error| NoDocument(error.to_string()))?;
    Ok(form.read(Vec::new())?)
}

/// Form of the settings of a load; the target is masked.
pub fn of_settings(settings: &LoadSettings) -> serde_json::Value {
    schema::of_settings(settings)
}

/// The inverse of [`of_settings`], except for the target's password.
///
/// # Errors
///
/// [`NoDocument`] if the document is another one.
pub fn settings(document: serde_json::Value) -> Result<LoadSettings, NoDocument> {
    Ok(schema::settings(document)?)
}

/// Form of a distribution of one interval, without the interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceForm {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    operation: String,
    kind: String,
    /// The histogram as in a `.hlog` line: V2, deflated, base64.
    hdr: String,
}

impl SliceForm {
    /// Form of `slice`.
    pub fn of(slice: &HistogramSlice) -> Self {
        let HistogramSlice { operation, kind, histogram, .. } = slice;
        let hdr = hlog::encode(&histogram.expand());
        Self { operation: operation.clone(), kind: kind.word().to_owned(), hdr }
    }

    /// The inverse of [`Self::of`].
    ///
    /// # Errors
    ///
    /// [`NoDocument`] if the form is damaged.
    pub fn read(&self, from_ns: u64, for_ns: u64) -> Result<HistogramSlice, NoDocument> {
        let kind = crate::schema::word("kind", &self.kind, LatencyKind::from_word)?;
        let histogram = CompactHistogram::from(hlog::decode(&self.hdr)?);
        Ok(HistogramSlice { from_ns, for_ns, operation: self.operation.clone(), kind, histogram })
    }
}
