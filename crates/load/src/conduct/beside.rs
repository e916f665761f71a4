//! What goes with the settings of a load.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use record::event::EventRow;

use crate::control::Control;

/// What goes with the settings of a load and is no setting.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// The due times of [`record::load::Arrivals::File`]: in order, the first of them 0.
    pub recorded: Option<Arc<[u64]>>,
    /// Where somebody may talk to the load while it runs.
    pub control: Option<Arc<Control>>,
    /// Where the events are handed over as they end, in no order; see [`crate::operations`] for what their numbers mean.
    pub log: Option<SyncSender<Vec<EventRow>>>,
}
