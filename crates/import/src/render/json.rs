//! JSON documents, each with its schema. A missing value is `null`, with its reason in `missing`.
//!
//! A document is written while its input is read, so memory does not grow with the log. If the log turns out
//! to be damaged, the document is still closed, with the damage in `error`.

mod lockstat;
mod mpstat;
mod plockstat;
mod vmstat;

pub use lockstat::Lockstat;
pub use mpstat::Mpstat;
pub use plockstat::plockstat;
pub use vmstat::Vmstat;

use record::missing::Maybe;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Layout of a stream of results: one document, or one for each result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One document.
    Document,
    /// One document for each result, on a separate line.
    Lines,
}

/// Reasons for missing values, by path within the document.
type Reasons = BTreeMap<String, String>;

fn put(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

/// Writes the members of an object without its braces.
fn members(out: &mut dyn Write, object: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string(object).map_err(io::Error::from)?;
    let inner =
        text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).expect("a struct is an object");
    out.write_all(inner.as_bytes())
}

/// Returns the value, or `None` after storing the reason under `name`.
fn known<T: Clone>(value: &Maybe<T>, name: &str, reasons: &mut Reasons) -> Option<T> {
    match value {
        Ok(value) => Some(value.clone()),
        Err(missing) => {
            reasons.insert(name.to_owned(), missing.reason.clone());
            None
        }
    }
}

/// Histogram bins as an object: bound as printed, count; in order.
struct Bins<'a>(&'a [(u64, u64)]);

impl Serialize for Bins<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}
