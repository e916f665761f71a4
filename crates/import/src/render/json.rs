//! JSON documents, each with its schema. What is missing is `null`, with the reason in `missing`.
//!
//! A document is written as its input is read, so it takes no memory however long the log is; and it is closed even
//! when the log turns out to be damaged, with the damage in `error`.

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

/// Whether a stream of results becomes one document or one a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One document.
    Document,
    /// One document a result, each on a line of its own.
    Lines,
}

/// Why values are missing: path within the document, reason.
type Reasons = BTreeMap<String, String>;

fn put(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

/// The members of an object without its braces.
fn members(out: &mut dyn Write, object: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string(object).map_err(io::Error::from)?;
    let inner =
        text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).expect("a struct is an object");
    out.write_all(inner.as_bytes())
}

/// The value, or `None` and its reason under `name`.
fn known<T: Clone>(value: &Maybe<T>, name: &str, reasons: &mut Reasons) -> Option<T> {
    match value {
        Ok(value) => Some(value.clone()),
        Err(missing) => {
            reasons.insert(name.to_owned(), missing.reason.clone());
            None
        }
    }
}

/// Bins by their bound as printed, in order.
struct Bins<'a>(&'a [(u64, u64)]);

impl Serialize for Bins<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}
