//! The operations inside an event.

use std::borrow::Cow;

/// An operation and its frequency in an event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OperationShare {
    /// Name in records and files: no blanks, no commas.
    pub(crate) name: Cow<'static, str>,
    /// Average number per event; `None` if only the events themselves determine it.
    pub(crate) per_event: Option<f64>,
    /// Largest number in one event.
    pub(crate) per_event_max: u32,
}

impl OperationShare {
    /// An operation that every event performs `per_event` times.
    pub(crate) fn always(name: &'static str, per_event: u32) -> Self {
        Self { name: name.into(), per_event: Some(per_event.into()), per_event_max: per_event }
    }
}
