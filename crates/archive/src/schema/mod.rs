//! Forms on disk. They are a promise: each document names its form and version, and every released version
//! stays readable.
//!
//! The types here mirror those of [`record`] and destructure them field by field, so a new field does not
//! compile until it has a place on disk.

pub(crate) mod bakeoff;
pub(crate) mod block_io;
pub(crate) mod command;
pub(crate) mod cpu;
pub(crate) mod environment;
pub(crate) mod event;
pub(crate) mod limits;
pub(crate) mod load;
pub(crate) mod locks;
pub(crate) mod manifest;
pub(crate) mod nic;
pub(crate) mod profile;
pub(crate) mod proof;
pub(crate) mod resources;
pub(crate) mod sample;
pub(crate) mod server_cpu;
pub(crate) mod text;
pub(crate) mod turns;
pub(crate) mod warm_up;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use record::missing::{Maybe, Missing};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::ArchiveError;

/// Largest document, in bytes. Ours have some 10 KiB; unknown fields take 30 times as much memory.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 8 << 20;

/// Name and version of a form: `bakeoff.run-manifest/1`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// Name and newest version.
    pub(crate) tag: &'static str,
}

impl Form {
    /// Reads a document of this form.
    pub(crate) fn read<T: DeserializeOwned>(self, bytes: &[u8], path: &Path) -> Result<T, ArchiveError> {
        #[derive(Deserialize)]
        struct Tagged {
            schema: String,
        }
        let wrong = |what: String| ArchiveError::damaged(path, what);
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(wrong(format!(
                "it is larger than {DOCUMENT_BYTES_MAX} bytes, the limit of a document"
            )));
        }
        let tagged: Tagged = serde_json::from_slice(bytes).map_err(|e| wrong(e.to_string()))?;
        if tagged.schema != self.tag {
            let (name, version) = split(self.tag);
            return Err(match split(&tagged.schema) {
                (found, later) if found == name && later > version => {
                    ArchiveError::Newer { path: path.to_owned(), found: tagged.schema, known: self.tag }
                }
                _ => wrong(format!("its schema is `{}`, expected `{}`", tagged.schema, self.tag)),
            });
        }
        serde_json::from_slice(bytes).map_err(|e| wrong(e.to_string()))
    }
}

fn split(tag: &str) -> (&str, Option<u32>) {
    tag.split_once('/').map_or((tag, None), |(name, version)| (name, version.parse().ok()))
}

/// The document with indentation, because people read it too.
pub(crate) fn document(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("our own forms have text keys and do not fail");
    bytes.push(b'\n');
    bytes
}

/// The document as one line.
pub(crate) fn line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).expect("our own forms have text keys and do not fail");
    bytes.push(b'\n');
    bytes
}

/// A value that its form does not allow, described in a clause.
#[derive(Debug, PartialEq)]
pub(crate) struct Wrong(pub(crate) String);

/// The value of a word.
pub(crate) fn word<T>(field: &str, found: &str, from_word: fn(&str) -> Option<T>) -> Result<T, Wrong> {
    from_word(found).ok_or_else(|| Wrong(format!("{field} is `{found}`, which this version does not know")))
}

/// Parses a value from text, such as a run's name.
pub(crate) fn parsed<T: std::str::FromStr>(field: &str, found: &str) -> Result<T, Wrong>
where
    T::Err: std::fmt::Display,
{
    found.parse().map_err(|e| Wrong(format!("{field}: {e}")))
}

/// A span in nanoseconds, at most 584 years.
pub(crate) fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A float that reads back to the last bit; JSON has no infinities and no NaN, so those are words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Real(pub(crate) f64);

impl Serialize for Real {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { s.serialize_f64(self.0) } else { s.serialize_str(&self.0.to_string()) }
    }
}

impl<'de> Deserialize<'de> for Real {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(f64),
            Word(String),
        }
        match Form::deserialize(d)? {
            Form::Number(value) => Ok(Self(value)),
            Form::Word(word) => match word.as_str() {
                "inf" => Ok(Self(f64::INFINITY)),
                "-inf" => Ok(Self(f64::NEG_INFINITY)),
                "NaN" => Ok(Self(f64::NAN)),
                _ => Err(D::Error::custom(format!("`{word}` is not a number"))),
            },
        }
    }
}

/// Reasons for `null` values, by field.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Reasons(BTreeMap<String, String>);

impl Reasons {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value for its field, or stores its reason here.
    pub(crate) fn split<T, F>(
        &mut self,
        field: &str,
        value: &Maybe<T>,
        form: impl FnOnce(&T) -> F,
    ) -> Option<F> {
        match value {
            Ok(value) => Some(form(value)),
            Err(missing) => {
                self.0.insert(field.to_owned(), missing.reason.clone());
                None
            }
        }
    }

    /// The inverse of [`Self::split`] for a field that earlier versions lack.
    pub(crate) fn join_newer<T, F>(
        &self,
        field: &str,
        value: Option<F>,
        read: impl FnOnce(F) -> Result<T, Wrong>,
    ) -> Result<Maybe<T>, Wrong> {
        if value.is_none() && !self.0.contains_key(field) {
            return Ok(Err(Missing::because("the bakeoff version of this run did not measure it")));
        }
        self.join(field, value, read)
    }

    /// The inverse of [`Self::split`].
    pub(crate) fn join<T, F>(
        &self,
        field: &str,
        value: Option<F>,
        read: impl FnOnce(F) -> Result<T, Wrong>,
    ) -> Result<Maybe<T>, Wrong> {
        match (value, self.0.get(field)) {
            (Some(value), _) => read(value).map(Ok),
            (None, Some(reason)) => Ok(Err(Missing::because(reason))),
            (None, None) => Err(Wrong(format!("{field} is missing without a reason"))),
        }
    }
}

impl Reasons {
    /// Variant of [`Self::join`] for a field that earlier versions lack.
    pub(crate) fn join_later<T, F>(
        &self,
        field: &str,
        value: Option<F>,
        read: impl FnOnce(F) -> Result<T, Wrong>,
    ) -> Result<Maybe<T>, Wrong> {
        if value.is_none() && !self.0.contains_key(field) {
            return Ok(Err(Missing::because("the bakeoff version of this run did not store it")));
        }
        self.join(field, value, read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form = Form { tag: "bakeoff.example/2" };

    #[test]
    fn a_document_of_a_later_version_says_so_and_other_documents_are_damage() {
        let read = |text: &str| FORM.read::<serde_json::Value>(text.as_bytes(), Path::new("x.json"));
        assert!(read(r#"{"schema":"bakeoff.example/2"}"#).is_ok());
        assert!(matches!(read(r#"{"schema":"bakeoff.example/3"}"#), Err(ArchiveError::Newer { .. })));
        for text in
            ["", "{}", "nonsense", r#"{"schema":"bakeoff.other/3"}"#, r#"{"schema":"bakeoff.example"}"#]
        {
            assert!(matches!(read(text), Err(ArchiveError::Damaged { .. })), "{text}");
        }
    }

    #[test]
    fn every_float_reads_back_to_the_last_bit() {
        let odd =
            [0.1 + 0.2, 1.0 / 3.0, f64::MIN_POSITIVE, f64::MAX, 5e-324, -0.0, 2e23, f64::INFINITY, f64::NAN];
        for value in odd {
            let text = serde_json::to_string(&Real(value)).unwrap();
            let Real(again) = serde_json::from_str(&text).unwrap();
            assert_eq!(again.to_bits(), value.to_bits(), "{text}");
        }
        assert!(serde_json::from_str::<Real>(r#""lots""#).is_err());
    }

    #[test]
    fn null_without_a_reason_is_refused() {
        let mut reasons = Reasons::default();
        let gone: Maybe<u8> = Err(Missing::because("nobody looked"));
        let form = reasons.split("seen", &gone, |v| *v);
        assert_eq!(reasons.join("seen", form, Ok), Ok(gone));
        assert!(reasons.join("other", None::<u8>, Ok).is_err());
    }
}
